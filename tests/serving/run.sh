#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend of Triton Inference Server in the real server (check.py); skipped where there is none. `make build/venv-triton/requirements.txt`
# installs it. run.sh [TEST ...]
cd "$(dirname "$0")/../.." || exit 1
for server in build/venv-triton/lib/python3*/site-packages/pytriton/tritonserver/bin/tritonserver; do
	[ -x "$server" ] || continue
	make -s BUILD="${BUILD:-build}" triton || exit 1
	exec "${PYTHON:-build/venv/bin/python3}" tests/serving/check.py "$server" "${BUILD:-build}" "$@"
done
echo "no tritonserver; tests/serving/run.sh says how to install it"
exit 77

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The backend of Triton Inference Server in the real server (check.py); skipped where there is none. The server is that of the package
# nvidia-pytriton, in build/venv-triton: `python3 -m venv build/venv-triton && build/venv-triton/bin/pip install --no-deps nvidia-pytriton`.
cd "$(dirname "$0")/../.." || exit 1
for server in build/venv-triton/lib/python3*/site-packages/pytriton/tritonserver/bin/tritonserver; do
	[ -x "$server" ] || continue
	make -s BUILD="${BUILD:-build}" triton || exit 1
	exec "${PYTHON:-build/venv/bin/python3}" tests/serving/check.py "$server" "${BUILD:-build}"
done
echo "no tritonserver; tests/serving/run.sh says how to install it"
exit 77

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Symbolic dims of 0, 1, 2, 3 and a large prime (sizes.py). run.sh [PATTERN ...]: ONNX's cases of these names; prints
# "N passed, N failed". Without PATTERN one in EACH (320; 4 with TESTS=all) runs; all of them take half an hour.
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
export BUILD
PYTHON=${PYTHON:-build/venv/bin/python3}
"$PYTHON" -c "import onnx" 2>/dev/null || { echo "no onnx"; exit 77; }
[ "${TESTS:-}" = all ] && EACH=${EACH:-4}
[ $# -gt 0 ] && EACH=1
EACH=${EACH:-320} exec "$PYTHON" -W ignore tests/sizes/sizes.py "$@"

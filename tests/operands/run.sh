#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Operands of every operator, mutated: compiled, run and compared with ONNX Runtime (operands.py). Prints "N passed, N failed".
#	run.sh [COUNT [OPERATOR ...]]      COUNT mutants, of these operators; TESTS=all run.sh: 10,000, under sanitizers where BUILD/san has them
# What fails stays in BUILD/operands/failed.
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
PYTHON=${PYTHON:-build/venv/bin/python3}
"$PYTHON" -c "import onnx, onnxruntime" 2>/dev/null || { echo "no onnx, onnxruntime"; exit 77; }
count=1000
[ "${TESTS:-}" = all ] && count=10000
programs=$BUILD
[ "${TESTS:-}" = all ] && [ -x "$BUILD/san/tests/fuzz/fuzz" ] && programs=$BUILD/san
exec "$PYTHON" -W ignore tests/operands/operands.py "$programs" "$BUILD/operands" "${1:-$count}" "${@:2}"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PTX of the model suites through NVIDIA's assembler, for every GPU that dlcc knows: no spills, no warnings. Prints a line for
# each GPU, and "N passed, N failed" kernels.
#	run.sh              a share of the cases
#	run.sh '*'          all of them, with CORPUS (make gpu-ptxas); or 'onnx/test_soft*'
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
for PTXAS in "$PTXAS" "$(command -v ptxas)" "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas"; do
	[ -x "$PTXAS" ] && break
done
if [ ! -x "$PTXAS" ] || ! "$BUILD/bin/dlcc" --list-targets | grep -q cuda:; then
	echo "dlcc makes no code for GPUs, or there is no ptxas"
	exit 77
fi
mkdir -p "$BUILD/ptxas" || exit 2
"${PYTHON:-build/venv/bin/python3}" tests/ptxas/sweep.py "$BUILD" "$PTXAS" "$BUILD/ptxas" "$@"

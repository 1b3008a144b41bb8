#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What kernels for GPUs ask of memory, counted by the simulator. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
if [ ! -e "$BUILD/ptxsim/libcuda.so.1" ] || ! "$BUILD/bin/dlcc" --list-targets | grep -q cuda:; then
	echo "dlcc makes no code for GPUs, or the simulator was not built"
	exit 77
fi
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
"${PYTHON:-build/venv/bin/python3}" tests/gpu_memory/test_memory.py "$BUILD" "$TMP"

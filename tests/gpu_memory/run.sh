#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What kernels for GPUs ask of memory, counted by the simulator. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu_memory/test_memory.py "$BUILD" "$TMP"

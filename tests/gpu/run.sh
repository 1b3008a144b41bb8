#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of artifacts with code for GPUs, under the simulator. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu/test_gpu.py "$BUILD" "$TMP"

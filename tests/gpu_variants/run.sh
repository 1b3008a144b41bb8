#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which kernels products and rows of sizes that are not known choose, on the simulator. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu_variants/test_variants.py "$BUILD" "$TMP"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Scatters on the simulated GPU: every type, every way to combine, any order. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu_scatter/test_scatter.py "$BUILD" "$TMP"

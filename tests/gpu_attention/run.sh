#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Attention in one kernel on the simulated GPU: every type and form, sizes around its tiles, decisions that are edited. Prints "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/ptxsim, and numpy and onnx in build/venv
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu_attention/test_attention.py "$BUILD" "$TMP" "$@"

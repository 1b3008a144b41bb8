#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The work of products and attentions as --dump-ir=count has it, beside what the simulator counts. Prints "N passed, N failed".
#	run.sh NAME ...    only these kernels
. "$(dirname "$0")/../simulated.sh"
"$PYTHON" tests/gpu_counts/test_counts.py "$BUILD" "$TMP" "$@"

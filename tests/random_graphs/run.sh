#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random graphs through eval, C and code for GPUs (test_graphs.py). Prints "N passed, N failed".
#	run.sh [SEED]       from that seed on; TESTS=all run.sh: many
. "$(dirname "$0")/../simulated.sh"
[ "${TESTS:-}" = all ] && count=400 || count=40
"$PYTHON" tests/random_graphs/test_graphs.py "$BUILD" "$TMP" "${1:-1}" "$count"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random graphs over all operators, through eval, C and code for GPUs (fuzz.py). Prints "N passed, N failed".
#	run.sh [SEED] [COUNT]       COUNT graphs from that seed on; TESTS=all run.sh: many
# What fails stays in BUILD/fuzz-graphs/failed, made smaller.
. "$(dirname "$0")/../simulated.sh"
[ "${TESTS:-}" = all ] && count=400 || count=25
"$PYTHON" tests/fuzz_graphs/fuzz.py "$BUILD" "$BUILD/fuzz-graphs" "${1:-1}" "${2:-$count}"

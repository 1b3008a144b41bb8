#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Equal rows by equal columns have equal results, bit by bit: sums are of one order within a run (equal.py), on every kind of CPU that
# can be had here and on the simulated GPU. Prints "N passed, N failed, N skipped".
#	run.sh [SEED] [TARGET ...]   TESTS=all run.sh: all compilers, levels of -O and numbers of threads
set -u
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build} PYTHON=${PYTHON:-build/venv/bin/python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
exec "$PYTHON" tests/equal/equal.py "$BUILD" "$TMP" "$@"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Loop trees of the graphs in the folder BENCH: read as they are printed, and the same code (trees.py). `make check` compares the
# code of the smaller ones, TESTS=all that of all; run.sh NAME ... takes these graphs. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
if [ ! -d "${BENCH:-../shared/bench}/graphs" ]; then
	echo "BENCH has no graphs"
	exit 77
fi
export BUILD PATH="$BUILD/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-build/venv/bin/python3}" tests/trees/trees.py "$@"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models whose names are hostile, through everything that prints names (test_names.py). Prints "N passed, N failed".
#	run.sh [SEED] [COUNT]       COUNT models from that seed on; TESTS=all run.sh: many
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd)
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
[ "${TESTS:-}" = all ] && count=1000 || count=6
"${PYTHON:-build/venv/bin/python3}" tests/names/test_names.py "$BUILD" "$TMP" "${1:-1}" "${2:-$count}"

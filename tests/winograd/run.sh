#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The rounding errors of Winograd's convolutions: of the arithmetic (errors.py), and of compiled layers (layers.py).
#	run.sh            a few layers; prints "N passed, N failed"
#	run.sh COUNT      the arithmetic on COUNT random layers, as a table for docs/numerics.md
set -u
cd "$(dirname "$0")/../.." || exit 2
PYTHON=${PYTHON:-build/venv/bin/python3}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM

${CC:-cc} -std=gnu11 -I. tests/winograd/emit.c passes/layout/winograd_form.c -o "$TMP/emit" || exit 2
if [ $# -gt 0 ]; then
	exec "$PYTHON" tests/winograd/errors.py "$TMP/emit" "$1"
fi
"$PYTHON" tests/winograd/errors.py "$TMP/emit" 24 7 >"$TMP/arithmetic"
"$PYTHON" tests/winograd/layers.py "$TMP" >"$TMP/compiled"
grep -v '^|' "$TMP/arithmetic" "$TMP/compiled" | grep -v ' passed, ' >&2
cat "$TMP/arithmetic" "$TMP/compiled" |
	awk '/ passed, / { p += $1; f += $3; n++ } END { printf "%d passed, %d failed\n", p, f + (n < 2); exit f + (n < 2) > 0 }'

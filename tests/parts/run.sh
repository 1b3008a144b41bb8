#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Products and convolutions of f32 in matrix registers, as three bf16: sizes around tiles, small integers, and infinities, NaN,
# subnormal, tiny and huge numbers, beside tiles of vectors; in AMX's instructions where this CPU has them, and in plain C.
#	run.sh [SEED]           TESTS=all run.sh: 20 models of each kind
cd "$(dirname "$0")/../.." || exit 2
BUILD=${BUILD:-build}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
[ "${TESTS:-}" = all ] && models=20 || models=1
"${PYTHON:-build/venv/bin/python3}" tests/parts/parts.py "$BUILD" "$TMP" "${1:-1}" "$models"

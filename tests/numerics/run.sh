#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The functions of ir/funcs.def against libm: in C for the plain target, and with fused multiply-adds where
# this machine has them. Prints the errors, and "N passed, N failed".
#	run.sh [BUILD [STRIDE]]    STRIDE 1: every f32, an hour; 61: a minute
set -u
cd "$(dirname "$0")/../.." || exit 2
CC=${CC:-cc}
LIB=build/lib/libdlcc.a # never the sanitized one: it only prints C
STRIDE=${2:-16411}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
passed=0
failed=0
flags="-std=gnu11 -O2 -D_GNU_SOURCE -I. -I$TMP -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra"

# NAME, the target's flags
run() {
	if $CC $flags $2 tests/numerics/ulp.c -lm -o "$TMP/ulp" && "$TMP/ulp" "$STRIDE" >"$TMP/out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1"
	fi
	cat "$TMP/out"
}

env -u MAKEFLAGS -u SAN make -s "$LIB" && $CC -std=gnu11 -D_GNU_SOURCE -I. tests/numerics/emit.c "$LIB" -lm -o "$TMP/emit" &&
	"$TMP/emit" >"$TMP/funcs.h" || {
	echo "0 passed, 1 failed"
	exit 1
}
run plain ""
if grep -qw fma /proc/cpuinfo 2>/dev/null; then
	run fused "-march=native"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The functions of ir/expr/funcs.def against MPFR, with fused multiply-adds and in two roundings.
#	run.sh          a share of the inputs; prints "N passed, N failed"
#	run.sh all      all of them, for hours, at low priority; writes the table in docs/numerics.md. What an earlier
#	                run finished, with the same functions, is not run again. ULP_JOBS=N: so many at a time (2).
#	run.sh all NAME...
#	                of these functions alone; the other rows of the table stay
set -u
cd "$(dirname "$0")/../.." || exit 2
CC=${CC:-cc}
PYTHON=${PYTHON:-python3}
LIB="build/lib/libdlcc.a build/lib/libdlrt.a" # never the sanitized ones: they only print C
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM

if ! echo '#include <mpfr.h>' | $CC -E - >/dev/null 2>&1; then
	echo "numerics: mpfr.h is missing (apt-get install libmpfr-dev)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

flags="-std=gnu11 -O3 -D_GNU_SOURCE -I. -I$TMP -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Wno-unused-function"
unfused=
if [ "$(uname -m)" = x86_64 ]; then
	flags="$flags -march=native"
	unfused="-mno-fma"
	grep -qw avx512f /proc/cpuinfo 2>/dev/null && flags="$flags -mprefer-vector-width=512"
fi

build() {
	env -u MAKEFLAGS -u SAN make -s $LIB &&
		$CC -std=gnu11 -D_GNU_SOURCE -I. tests/numerics/emit.c $LIB -lm -o "$TMP/emit" &&
		"$TMP/emit" >"$TMP/funcs.h" || return 1
	$CC $flags -DVARIANT=fused -c tests/numerics/strips.c -o "$TMP/fused.o" &&
		$CC $flags $unfused -DVARIANT=rounded -c tests/numerics/strips.c -o "$TMP/rounded.o" || return 1
	for part in refs oracle ulp; do
		$CC $flags -c "tests/numerics/$part.c" -o "$TMP/$part.o" || return 1
	done
	$CC "$TMP"/*.o -lmpfr -lgmp -lm -o "$TMP/ulp"
}

build || {
	echo "0 passed, 1 failed"
	exit 1
}
if [ "${1:-}" != all ]; then
	mkdir "$TMP/records"
	"$TMP/ulp" --share=16411 "$TMP/records" || {
		echo "0 passed, 1 failed"
		exit 1
	}
	$PYTHON tests/numerics/table.py "$TMP/records"
	exit
fi
cat "$TMP/funcs.h" ir/expr/scalar.h >"$TMP/functions"
cmp -s "$TMP/functions" build/ulp/functions || rm -rf build/ulp
mkdir -p build/ulp/records
cp "$TMP/functions" build/ulp/functions
shift
nice -n 19 "$TMP/ulp" --jobs="${ULP_JOBS:-2}" build/ulp/records "$@" && $PYTHON tests/numerics/table.py build/ulp/records --write docs/numerics.md

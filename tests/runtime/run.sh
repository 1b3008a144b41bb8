#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the runtime: artifacts written by hand, built with the runtime's sources, in three ways:
# plain, under ASan + UBSan, under TSan. Prints "N passed, N failed"; status 0 when none failed.
#	run.sh [plain] [asan] [tsan]        default: all; CC chooses the compiler
set -u
cd "$(dirname "$0")/../.." || exit 2
CC=${CC:-cc}
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
WARN="-std=gnu11 -g -Wall -Wextra -Wshadow -Wconversion -Werror -I. -D_GNU_SOURCE"
passed=0 failed=0

count() { # a line "N passed, N failed"
	passed=$((passed + ${1%% *})) failed=$((failed + $(echo "$1" | sed 's/.*, \([0-9]*\) failed.*/\1/')))
}

build() { # way, flags
	d=$TMP/$1
	so="$CC $WARN $2 -fPIC -fvisibility=hidden -shared"
	mkdir -p "$d" || return 1
	for f in runtime/*.c; do
		$CC $WARN $2 -fPIC -fvisibility=hidden -c "$f" -o "$d/$(basename "$f" .c).o" || return 1
	done
	$CC $WARN $2 ${3:-} tests/runtime/test_runtime.c -o "$d/test" -lpthread -ldl || return 1
	$CC $WARN $2 tests/runtime/test_pool.c "$d"/*.o -o "$d/pool" -lpthread -ldl || return 1
	hash=$("$d/test" --weights "$d/nonzero.weights") || return 1
	h="-DWEIGHTS_HASH=$hash"
	$so tests/runtime/relu_mul.c "$d"/*.o -o "$d/relu_mul.so" -lpthread -ldl || return 1
	cp "$d/relu_mul.so" "$d/relu_mul2.so"
	$so "$h" tests/runtime/nonzero.c "$d"/*.o -o "$d/nonzero_stripped.so" || return 1
	$so "$h" -DBESIDE tests/runtime/nonzero.c "$d"/*.o -o "$d/nonzero_beside.so" || return 1
	objcopy --add-section ".dlcc.weights=$d/nonzero.weights" "$d/nonzero_stripped.so" \
		"$d/nonzero.so" &&
		objcopy --set-section-alignment .dlcc.weights=4096 "$d/nonzero.so"
}

check() { # way, flags, flags of the program
	if ! build "$1" "$2" "${3:-}"; then
		echo "FAIL: $1: does not build"
		failed=$((failed + 1))
		return
	fi
	for program in "test ." pool; do
		(cd "$d" && TSAN_OPTIONS=die_after_fork=0 ./$program) >"$d/out"
		sed '$d; s/^/'"$1"': /' "$d/out"
		line=$(tail -n 1 "$d/out")
		case $line in
		*passed,*failed) count "$line" ;;
		*) echo "FAIL: $1: ended early"; failed=$((failed + 1)) ;;
		esac
	done
	if [ "$1" = plain ]; then
		n=$(nm -D --defined-only "$d/relu_mul.so" | grep -vc ' relu_mul_\(get_api\|describe\)$')
		[ "$n" = 0 ] && count "1 passed, 0 failed" || {
			echo "FAIL: symbols other than the model's are exported"
			count "0 passed, 1 failed"
		}
	fi
}

for way in ${*:-plain asan tsan}; do
	case $way in
	plain) check plain -O2 -DCOUNT_MALLOC ;;
	asan) check asan "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined" ;;
	tsan) check tsan "-O1 -fsanitize=thread" ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use models wrongly or run out of memory, under ASan + UBSan and, where threads matter, under TSan. Prints
# "N passed, N failed".
#	run.sh        needs BUILD/bin, BUILD/lib/libdlrt-asan.a and -tsan.a, and onnx in build/venv; CC chooses the compiler
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd) CC=${CC:-cc} PYTHON=${PYTHON:-build/venv/bin/python3}
"$PYTHON" -c "import onnx" 2>/dev/null || { echo "no onnx"; exit 77; }
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
passed=0 failed=0
WARN="-std=gnu11 -g -Wall -Wextra -Wshadow -Wconversion -Werror -I. -D_GNU_SOURCE"

fail() { # why
	echo "FAIL: $1"
	failed=$((failed + 1))
}

# The libraries of all models in $TMP/WAY, for which the C is compiled once.
libraries() { # way, flags
	mkdir -p "$TMP/$1" || return 1
	for c in "$TMP"/*.c; do
		echo "$c"
	done | xargs -P "$(nproc)" -I{} sh -c "$CC $2 -std=gnu11 -w -D_GNU_SOURCE -fwrapv -fno-strict-aliasing -fPIC \
		-fvisibility=hidden -shared -Iruntime {} '$BUILD/lib/libdlrt-$1.a' -o '$TMP/$1/'\$(basename {} .c).so -lm -lpthread -ldl"
}

run() { # way, flags, program and its arguments
	$CC $WARN $2 "tests/misuse/$3.c" -o "$TMP/$1/$3" -lpthread -ldl || return 1
	"$TMP/$1/$3" "$TMP/$1" "${@:4}" >"$TMP/out" 2>&1
	line=$(tail -n 1 "$TMP/out")
	case $line in
	*passed,*failed)
		sed '$d; s/^/'"$1"': /' "$TMP/out"
		passed=$((passed + ${line%% *}))
		failed=$((failed + $(echo "$line" | sed 's/.*, \([0-9]*\) failed.*/\1/')))
		;;
	*) fail "$1: $3: ended early: $(grep -m 1 -E 'SUMMARY|runtime error' "$TMP/out" || echo "$line")" ;;
	esac
}

"$PYTHON" tests/misuse/models.py "$TMP" || exit 1
for model in "$TMP"/*.onnx; do
	"$BUILD/bin/dlcc" "$model" -o "${model%.onnx}.c" --target=cpu:generic || fail "$(basename "$model") does not compile"
done
asan="-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined" tsan="-O1 -fsanitize=thread"
libraries asan "$asan" && run asan "$asan" test_misuse || fail "asan: does not build"
libraries tsan "$tsan" && run tsan "$tsan" test_misuse memory && run tsan "$tsan" test_misuse loops || fail "tsan: does not build"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

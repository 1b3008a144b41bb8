#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that use models wrongly or run out of memory (test_misuse.c), random runs of many models (storm.c), both under ASan + UBSan
# and, where threads matter, under TSan; and the stack that runs take (stack.c). Prints "N passed, N failed".
#	run.sh [SEED]       random graphs and runs from this seed on; TESTS=all run.sh: a million runs of a hundred graphs
# Needs BUILD/bin, BUILD/lib/libdlrt-asan.a and -tsan.a, and onnx and onnxruntime in build/venv; CC chooses the compiler.
cd "$(dirname "$0")/../.." || exit 2
BUILD=$(cd "${BUILD:-build}" && pwd) CC=${CC:-cc} PYTHON=${PYTHON:-build/venv/bin/python3} SEED=${1:-1}
"$PYTHON" -c "import onnx, onnxruntime" 2>/dev/null || { echo "no onnx, onnxruntime"; exit 77; }
TMP=$(mktemp -d) || exit 2
trap 'rm -rf "$TMP"' EXIT INT TERM
passed=0 failed=0 graphs=10 runs=60000
[ "${TESTS:-}" = all ] && graphs=100 runs=1000000
WARN="-std=gnu11 -g -Wall -Wextra -Wshadow -Wconversion -Werror -I. -D_GNU_SOURCE"
asan="-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined" tsan="-O1 -fsanitize=thread"

fail() { # why
	echo "FAIL: $1"
	failed=$((failed + 1))
}

names_of() { # files
	for file; do
		basename "${file%.*}"
	done
}

# Compiles C models to libraries in the folder $TMP/WAY.
libraries() { # way, flags, C files
	mkdir -p "$TMP/$1"
	printf '%s\n' "${@:3}" | xargs -P "$(nproc)" -I{} sh -c "$CC $2 -std=gnu11 -w -D_GNU_SOURCE -fwrapv -fno-strict-aliasing -fPIC \
		-fvisibility=hidden -shared -Iruntime {} '$BUILD/lib/libdlrt-$1.a' -o '$TMP/$1/'\$(basename {} .c).so -lm -lpthread -ldl"
}

program() { # way, flags, name
	$CC $WARN $2 "tests/misuse/$3.c" -o "$TMP/$1/$3" -lpthread -ldl
}

run() { # way, program and its arguments
	"$TMP/$1/$2" "${@:3}" >"$TMP/out" 2>&1
	line=$(tail -n 1 "$TMP/out")
	case $line in
	*passed,*failed)
		grep FAIL "$TMP/out" | sed "s/^/$1: /"
		passed=$((passed + ${line%% *}))
		failed=$((failed + $(echo "$line" | sed 's/.*, \([0-9]*\) failed.*/\1/')))
		;;
	*) fail "$1: $2 ${*:4:2}: ended early: $(grep -m 1 -E 'SUMMARY|runtime error' "$TMP/out" || echo "$line")" ;;
	esac
}

dlcc() { # model, output, options
	"$BUILD/bin/dlcc" "$@" 2>"$TMP/said" || fail "$1 does not compile: $(tail -n 1 "$TMP/said")"
}

mkdir -p "$TMP/models" "$TMP/graphs" "$TMP/kernels" "$TMP/c" "$TMP/plain" || exit 1
"$PYTHON" tests/misuse/models.py "$TMP/models" && "$PYTHON" tests/misuse/models.py "$TMP/kernels" kernels &&
	"$PYTHON" tests/fuzz_graphs/fuzz.py "$BUILD" "$TMP/graphs" "$SEED" "$graphs" --only=write >"$TMP/said" || fail "the models are not made"
for model in "$TMP/models"/*.onnx; do
	dlcc "$model" -o "$TMP/c/$(basename "$model" .onnx).c" --target=cpu:generic
done
models=$(names_of "$TMP"/c/*.c)
libraries asan "$asan" "$TMP"/c/*.c && program asan "$asan" test_misuse && program asan "$asan" storm || fail "asan: does not build"
libraries tsan "$tsan" "$TMP"/c/*.c && program tsan "$tsan" test_misuse && program tsan "$tsan" storm || fail "tsan: does not build"
run asan test_misuse "$TMP/asan"
run tsan test_misuse "$TMP/tsan" memory
run tsan test_misuse "$TMP/tsan" loops

# The storm cannot run a loop without end.
quiet=$(echo "$models" | grep -vx endless)
for graph in "$TMP"/graphs/*/model.onnx; do
	dlcc "$graph" -o "$TMP/c/graph_$(basename "$(dirname "$graph")").c" --target=cpu:generic
done
libraries asan "${asan/-O1/-O0}" "$TMP"/c/graph_*.c || fail "asan: the graphs do not compile"
# shellcheck disable=SC2086
run asan storm "$TMP/asan" "$SEED" "$runs" $quiet $(names_of "$TMP"/c/graph_*.c)
# shellcheck disable=SC2086
run tsan storm "$TMP/tsan" "$SEED" $((runs / 10)) $quiet

# Artifacts as dlcc makes them, on the stack that docs/c-api.md promises.
bytes=$(sed -n 's/.*at most \([0-9]*\) bytes of the stack.*/\1/p' docs/c-api.md)
[ "$bytes" ] && grep -q "define RT_STACK ${bytes}u" runtime/rt.h || fail "docs/c-api.md and runtime/rt.h give other sizes of the stack"
for model in "$TMP"/kernels/*.onnx; do
	dlcc "$model" -o "$TMP/plain/$(basename "$model" .onnx).so"
done
program plain -O1 stack || fail "plain: does not build"
run plain stack "${bytes:-0}" "$TMP"/plain/*.so
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests of the runtime: artifacts written by hand, built with the runtime's sources, in three ways:
# plain, under ASan + UBSan, under TSan (BUILD/lib/libdlrt-asan.a and -tsan.a); and programs and libraries of different versions of dlrt.h together.
# Prints "N passed, N failed"; status 0 when none failed.
#	run.sh [plain] [asan] [tsan] [versions]        default: all; CC chooses the compiler
set -u
cd "$(dirname "$0")/../.." || exit 2
CC=${CC:-cc} CXX=${CXX:-c++}
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
	rt=${BUILD:-build}/lib/libdlrt-$1.a
	[ "$1" != plain ] || for f in runtime/*.c; do
		$CC $WARN $2 -fPIC -fvisibility=hidden -c "$f" -o "$d/$(basename "$f" .c).o" || return 1
		rt="$d/*.o"
	done
	$CC $WARN $2 ${3:-} tests/runtime/test_runtime.c tests/runtime/test_calls.c tests/runtime/test_threads.c \
		tests/runtime/test_weights.c -o "$d/test" -lpthread -ldl || return 1
	$CC $WARN $2 tests/runtime/test_pool.c $rt -o "$d/pool" -lpthread -ldl || return 1
	hash=$("$d/test" --weights "$d/nonzero.weights") || return 1
	h="-DWEIGHTS_HASH=$hash"
	$so -DONLY_LAUNCHES tests/runtime/relu_mul.c $rt -o "$d/relu_mul.so" -lpthread -ldl || return 1
	cp "$d/relu_mul.so" "$d/relu_mul2.so"
	$so -DONLY_LAUNCHES -DSLICES tests/runtime/relu_mul.c $rt -o "$d/relu_mul_slices.so" -lpthread -ldl || return 1
	$so -DFLUSH tests/runtime/relu_mul.c $rt -o "$d/relu_mul_flush.so" -lpthread -ldl || return 1
	$so "$h" tests/runtime/nonzero.c $rt -o "$d/nonzero_stripped.so" || return 1
	$so "$h" -DBESIDE tests/runtime/nonzero.c $rt -o "$d/nonzero_beside.so" || return 1
	mkdir -p "$d/apart" && cp "$d/nonzero_beside.so" "$d/apart" || return 1
	objcopy --add-section ".dlcc.weights=$d/nonzero.weights" "$d/nonzero_stripped.so" \
		"$d/nonzero.so" &&
		objcopy --set-section-alignment .dlcc.weights=4096 "$d/nonzero.so"
}

# The compiled model NAME.dl, with the runtime's objects in $d, and its callers, test_NAME.c.
compiled_model() { # way, flags, NAME
	[ -x "${BUILD:-build}/bin/dlcc" ] || return
	if ! "${BUILD:-build}/bin/dlcc" "tests/runtime/$3.dl" -o "$d/$3.c" --target=cpu:generic ||
		! $CC $2 -std=gnu11 -w -D_GNU_SOURCE -fwrapv -fno-strict-aliasing -fPIC -fvisibility=hidden -shared -Iruntime \
			"$d/$3.c" $rt -o "$d/$3.so" -lm -lpthread -ldl ||
		! $CC $WARN $2 "tests/runtime/test_$3.c" -o "$d/test_$3" -ldl; then
		echo "FAIL: $1: $3: does not build"
		count "0 passed, 1 failed"
		return
	fi
	"$d/test_$3" "$d/$3.so" >"$d/out" 2>&1
	sed '$d; s/^/'"$1"': /' "$d/out"
	line=$(tail -n 1 "$d/out")
	case $line in
	*passed,*failed) count "$line" ;;
	*) echo "FAIL: $1: $3: ended early: $line"; count "0 passed, 1 failed" ;;
	esac
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
	[ "$1" = tsan ] || for model in forms pieces pieces_two; do compiled_model "$1" "$2" $model; done
	if [ "$1" = plain ]; then
		n=$(nm -D --defined-only "$d/relu_mul.so" | grep -vc ' relu_mul_\(get_api\|describe\)$')
		[ "$n" = 0 ] && count "1 passed, 0 failed" || {
			echo "FAIL: symbols other than the model's are exported"
			count "0 passed, 1 failed"
		}
	fi
}

# frozen/dlrt.h is the first version of the ABI; $d/grown/dlrt.h is a later one: today's, with two members more in each
# struct that begins with its size. A name says which of the three a program, an artifact or a runtime is compiled with.
include() {
	case $1 in
	frozen) echo "-Itests/runtime/frozen" ;;
	today) echo "-Iruntime" ;;
	grown) echo "-I$d/grown -DGROWN" ;;
	esac
}

runtime_of() { # version
	mkdir -p "$d/rt_$1"
	for f in runtime/*.c; do
		$so $(include "$1") -I"$d/include_$1" -I. -c "$f" -o "$d/rt_$1/$(basename "$f" .c).o" || return 1
	done
}

prepare_versions() {
	mkdir -p "$d/grown" "$d/include_frozen/runtime" "$d/include_grown/runtime" "$d/include_today"
	awk '/^typedef struct|^struct/ {name = NR} name == NR - 1 && /uint32_t size[;,]/ {grow = 1}
		grow && /^}/ {print "\tuint64_t appended[2];"; grow = 0} {print}' runtime/dlrt.h >"$d/grown/dlrt.h"
	[ "$(grep -c 'appended\[2\]' "$d/grown/dlrt.h")" -ge 12 ] || return 1
	cp tests/runtime/frozen/dlrt.h "$d/include_frozen/runtime" && cp "$d/grown/dlrt.h" "$d/include_grown/runtime" || return 1
	runtime_of today && runtime_of grown || return 1
	cp runtime/dlrt.hpp "$d/include_grown" && cp runtime/dlrt.hpp "$d/include_today" || return 1
	for v in today grown; do
		! command -v $CXX >/dev/null || $CXX -std=c++17 -g -Wall -Wextra -Werror -I"$d/include_$v" $(include $v) tests/runtime/program.cpp \
			-o "$d/program_cpp_$v" -ldl || return 1
	done
	for v in frozen today grown; do
		$CC -std=gnu11 -g -D_GNU_SOURCE $(include $v) tests/runtime/program.c -o "$d/program_$v" -ldl || return 1
	done
}

versions() { # program, artifact, runtime
	$so -shared $(include "$2") -I"$d/include_$2" -I. tests/runtime/relu_mul.c "$d/rt_$3"/*.o -o "$d/v.so" -lpthread -ldl &&
		"$d/program_$1" "$d/v.so" "$3" && { [ ! -x "$d/program_cpp_$1" ] || "$d/program_cpp_$1" "$d/v.so"; } && count "1 passed, 0 failed" && return
	echo "FAIL: a program of the $1 dlrt.h, an artifact of the $2 one, a runtime of the $3 one"
	count "0 passed, 1 failed"
}

compiled() { # program, artifact and runtime
	"$BUILD/bin/dlcc" "$d/relu_mul.dl" -o "$d/relu_mul.c" --target=cpu:generic &&
		$so -shared -ffp-contract=off -fwrapv -fno-strict-aliasing $(include "$2") "$d/relu_mul.c" "$d/rt_$2"/*.o \
			-o "$d/v.so" -lm -lpthread -ldl &&
		"$d/program_$1" "$d/v.so" "$2" && count "1 passed, 0 failed" && return
	echo "FAIL: a program of the $1 dlrt.h, a compiled model and a runtime of the $2 one"
	count "0 passed, 1 failed"
}

check_versions() {
	d=$TMP/versions
	so="$CC -std=gnu11 -O1 -w -D_GNU_SOURCE -fPIC -fvisibility=hidden"
	mkdir -p "$d"
	if ! prepare_versions; then
		echo "FAIL: versions: does not build"
		count "0 passed, 1 failed"
		return
	fi
	for program in frozen today grown; do
		versions $program today today
		versions $program grown grown
		versions $program frozen grown
	done
	BUILD=${BUILD:-build}
	[ -x "$BUILD/bin/dlcc" ] || return
	cat >"$d/relu_mul.dl" <<-DL
		dlir 1
		graph @main(%x: f32[N,4]) -> (%y "y", %z "z") {
		  %w = Const {value = f32[4](1.0, -1.0, 0.5, 2.0)} : f32[4]
		  %p = Mul(%x, %w) : ?
		  %y = Relu(%p) : ?
		  %z = Add(%y, %y) : ?
		}
	DL
	compiled frozen today
	compiled frozen grown
}

for way in ${*:-plain asan tsan versions}; do
	case $way in
	plain) check plain -O2 -DCOUNT_MALLOC ;;
	asan) check asan "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined" ;;
	tsan) check tsan "-O1 -fsanitize=thread" ;;
	versions) check_versions ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A CMake project outside of dlcc's tree, in C and in C++, against an installed dlcc: compilers, standards, static and shared
# libraries, what is built again after which change, hostile names, versions. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
command -v cmake >/dev/null || {
	echo "cmake is not installed (apt-get install cmake, or pip install cmake)"
	exit 77
}
root=$PWD
build=$(cd "${BUILD:-build}" && pwd)
case $(basename "$build") in san | tsan) echo "an installed dlcc is not built under sanitizers"; exit 77 ;; esac
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
skipped=0
. tests/check.sh

make -s -o all BUILD="$build" PREFIX="$tmp/prefix" install || exit 2
# An installation that was moved is found where it is.
mv "$tmp/prefix" "$tmp/moved prefix"
prefix="$tmp/moved prefix"

model() { # file, factor, external: the weights are in a file beside it
	[ $# -lt 3 ] || rm -f 'the weights.bin'
	"$root/build/venv/bin/python3" - "$@" <<-'PY'
		import sys, numpy, onnx
		from onnx import helper
		graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["N", 64])],
		                          [helper.make_tensor_value_info("y", 1, None)],
		                          [onnx.numpy_helper.from_array(numpy.full((64, 10), float(sys.argv[2]), numpy.float32), "w")])
		m = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
		external = {"save_as_external_data": True, "location": "the weights.bin", "size_threshold": 0} if len(sys.argv) > 3 else {}
		onnx.save(m, sys.argv[1], **external)
	PY
}

configure() { # folder, cmake's arguments
	local at=$1
	shift
	cmake -S "$tmp/src" -B "$at" -Wdev -Werror=dev "-Ddlcc_DIR=$prefix/lib/cmake/dlcc" "$@" >"$at.log" 2>&1 || { cat "$at.log"; return 1; }
}
# Builds the project in FOLDER; `made` has the files that were compiled.
build_in() {
	cmake --build "$1" >"$1.log" 2>&1 || { tail -n 20 "$1.log"; return 1; }
	made=$(grep -oE "Building C(XX)? object [^ ]*|Compiling (first|second)" "$1.log" | sed 's/.*object //' | sort | tr '\n' ';')
}
prints() { # folder, lines
	[ "$("$1/by_c" | tr '\n' ' ')" = "$2" ] && [ "$("$1/by_cpp" | tr '\n' ' ')" = "$2" ]
}
# What is written next is newer than what there is: file systems may have coarse times.
settle() {
	touch "$tmp/before"
	until touch "$tmp/after" && [ "$tmp/after" -nt "$tmp/before" ]; do sleep 0.01; done
}

mkdir -p "$tmp/src" && cp tests/cmake/CMakeLists.txt tests/cmake/use.* "$tmp/src" && cd "$tmp/src" || exit 2
model model.onnx 1 && model "two words.onnx" 2 external || exit 2

# ---- Compilers and standards ----

compilers() { # C, C++, standard of C, standard of C++, shared
	local at="$tmp/b"
	rm -rf "$at"
	configure "$at" "-DCMAKE_C_COMPILER=$1" "-DCMAKE_CXX_COMPILER=$2" "-DCMAKE_C_STANDARD=$3" "-DCMAKE_CXX_STANDARD=$4" \
		-DCMAKE_CXX_EXTENSIONS=OFF "-DBUILD_SHARED_LIBS=$5" && build_in "$at" && prints "$at" "64 128 "
}
clang=$(for n in $(seq 40 -1 15); do command -v "clang-$n" >/dev/null && command -v "clang++-$n" >/dev/null && echo "$n" && break; done)
every() { [ "${TESTS:-}" != share ]; } # whether all tests are to run
check "gcc, C11, C++20, shared" compilers gcc g++ 11 20 ON
! every || check "gcc, C11, C++17, static" compilers gcc g++ 11 17 OFF
if [ -n "$clang" ]; then
	check "clang, C99, C++17, static" compilers "clang-$clang" "clang++-$clang" 99 17 OFF
	! every || check "clang, C11, C++20, shared" compilers "clang-$clang" "clang++-$clang" 11 20 ON
else
	skipped=$((skipped + 1))
fi

# ---- What is built again ----

again() { # generator
	local at="$tmp/again $1"
	rm -rf "$at"
	model model.onnx 1 && model "two words.onnx" 2 external
	configure "$at" -G "$1" && build_in "$at" && prints "$at" "64 128 " || return
	build_in "$at" && { [ -z "$made" ] || { echo "without a change: $made"; return 1; }; }
	settle
	model model.onnx 3 && build_in "$at" && [ "$made" = "Compiling first;" ] && prints "$at" "192 128 " || { echo "a changed model: $made"; return 1; }
	settle
	model "two words.onnx" 4 external && build_in "$at" && [ "$made" = "Compiling second;" ] && prints "$at" "192 256 " ||
		{ echo "a changed model with data: $made"; return 1; }
	settle
	"$root/build/venv/bin/python3" -c "import numpy; numpy.full((64, 10), 5, numpy.float32).tofile('the weights.bin')"
	build_in "$at" && [ "$made" = "Compiling second;" ] && prints "$at" "192 320 " || { echo "changed data: $made"; return 1; }
	settle
	configure "$at" "-DMORE_OPTIONS=--slice=0" && build_in "$at" && [ "$made" = "Compiling first;" ] || { echo "changed options: $made"; return 1; }
	build_in "$at" && { [ -z "$made" ] || { echo "after all of it: $made"; return 1; }; }
	settle
	touch "$prefix/bin/dlcc" && build_in "$at" && [ "$made" = "Compiling first;Compiling second;" ] || { echo "a changed dlcc: $made"; return 1; }
	settle
	touch use.c && build_in "$at" && case $made in *use.c.o\;) [ "$(tr -cd ';' <<<"$made")" = ";" ] ;; *) false ;; esac || { echo "a changed program: $made"; return 1; }
}
check "make: only what a change concerns" again "Unix Makefiles"
if ! command -v ninja >/dev/null; then
	skipped=$((skipped + 1))
elif every; then
	check "ninja: only what a change concerns" again Ninja
fi

# ---- Libraries as CMake's own ----

installed() {
	local at="$tmp/lib"
	rm -rf "$at"
	configure "$at" "-DCMAKE_INSTALL_PREFIX=$tmp/put" && build_in "$at" && cmake --install "$at" >/dev/null || return
	readelf -d "$tmp/put/lib/libsecond.so.2.1" | grep -Fq "Library soname: [libsecond.so.2]" && [ -e "$tmp/put/lib/libfirst.a" ] &&
		[ "$(nm -D --defined-only "$tmp/put/lib/libsecond.so" | awk '{print $3}' | sort | tr '\n' ' ')" = "other_describe other_get_api " ] &&
		[ "$(LD_LIBRARY_PATH=$tmp/put/lib "$tmp/put/bin/by_c" | tr '\n' ' ')" = "64 $1 " ]
}
model model.onnx 1
check "install, and a SONAME" installed 320

# ---- Several configurations ----

configurations() {
	local at="$tmp/configurations"
	model model.onnx 1 && model "two words.onnx" 2 external
	configure "$at" -G "Ninja Multi-Config" -DCMAKE_DEFAULT_BUILD_TYPE=Debug && build_in "$at" && prints "$at/Debug" "64 128 "
}
if command -v ninja >/dev/null; then check "ninja: several configurations" configurations; else skipped=$((skipped + 1)); fi

# ---- Refused ----

refused() { # a line of CMake, what the message has
	local at="$tmp/refused"
	rm -rf "$at" "$tmp/bad"
	mkdir -p "$tmp/bad" && cp model.onnx "$tmp/bad" &&
		printf 'cmake_minimum_required(VERSION 3.20)\nproject(bad C)\n%s\n' "$1" >"$tmp/bad/CMakeLists.txt" &&
		! cmake -S "$tmp/bad" -B "$at" "-Ddlcc_DIR=$prefix/lib/cmake/dlcc" >"$at.log" 2>&1 && tr -s ' \n' ' ' <"$at.log" | grep -qF -- "$2"
}
find=$'find_package(dlcc REQUIRED)\n'
check "an unknown argument" refused "${find}dlcc_add_model(m model.onnx -O3)" "unknown arguments: -O3; options of dlcc follow OPTIONS"
check "static and shared" refused "${find}dlcc_add_model(m model.onnx STATIC SHARED)" "STATIC or SHARED, not both"
check "a name that is not one of C" refused "${find}dlcc_add_model(my-model model.onnx)" '"my-model" is not a C identifier; give another one by NAME'
check "a name with a command" refused "${find}dlcc_add_model(m model.onnx NAME \"a\$(touch hit)\")" "is not a C identifier"
check "a file that CMake cannot name" refused "${find}dlcc_add_model(m \"a;b.onnx\")" "CMake cannot name a file with ;"
check "options with a generator expression" refused "${find}dlcc_add_model(m model.onnx OPTIONS -O1 \$<\$<CONFIG:Debug>:-O0>)" \
	"OPTIONS has a generator expression, \$<...>; give plain options, which all configurations share: -O1;\$<\$<CONFIG:Debug>:-O0>"
check "a later version" refused "find_package(dlcc 7 REQUIRED)" "requested version"
check "an earlier version" refused "find_package(dlcc 0.0 REQUIRED)" "requested version"
rm "$prefix/lib/libdlrt.a"
check "half of an installation" refused "$find" "libdlrt.a is missing; install dlcc again"

# Options are words for dlcc, whatever a shell or make would do with them.
hostile() {
	local at="$tmp/hostile"
	rm -rf "$at" "$tmp/bad"
	cp "$build/lib/libdlrt.a" "$prefix/lib"
	mkdir -p "$tmp/bad" && cp model.onnx "$tmp/bad/m \$(touch hit) \`touch hit\` 'q' #.onnx" || return
	cat >"$tmp/bad/CMakeLists.txt" <<-'CMAKE'
		cmake_minimum_required(VERSION 3.20)
		project(bad C)
		find_package(dlcc REQUIRED)
		dlcc_add_model(m "m \$(touch hit) `touch hit` 'q' #.onnx" OPTIONS "--dim" "$(touch hit)`touch hit`\"'=3")
	CMAKE
	cmake -S "$tmp/bad" -B "$at" "-Ddlcc_DIR=$prefix/lib/cmake/dlcc" >"$at.log" 2>&1 || { cat "$at.log"; return 1; }
	! cmake --build "$at" >"$at.log" 2>&1 && grep -q 'the model has no dim "$(touch hit)`touch hit`"' "$at.log" || { tail -n 3 "$at.log"; return 1; }
	[ -z "$(find "$tmp" -name hit)" ]
}
check "hostile names" hostile

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What dlcc writes: each form of it linked and run, exported symbols, weights beside and stripped, variants, the same
# bytes from anywhere, and all or nothing when it is killed or the disk is full. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
root=$PWD here=$PWD/tests/package
build=$(cd "${BUILD:-build}" && pwd)
python=$root/build/venv/bin/python3
dlcc=$build/bin/dlcc dlrun=$build/bin/dlrun
tmp=$(mktemp -d) || exit 2
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
skipped=0
. tests/check.sh

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}

cd "$tmp" || exit 2
"$python" "$here/model.py" . || {
	echo "0 passed, 1 failed"
	exit 1
}
cc="${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Werror -I$root/runtime"
libs="-lm -lpthread -ldl"
v=$(grep -q avx512vl /proc/cpuinfo && echo v4 || echo v3)

# ---- Forms ----

run_cnn() { ./"$1" cnn.data 5; }

archive() { $dlcc cnn.onnx -o cnn.a && $cc -DCOUNT_MALLOC -DNAME=cnn "$here/app.c" cnn.a -o a1 $libs && run_cnn a1; }
object() { $dlcc cnn.onnx -o obj.o --name=other && $cc -DNAME=other "$here/app.c" obj.o -o o1 $libs && run_cnn o1; }
two() {
	$dlcc cnn.onnx -o one.a --name=one && $dlcc cnn.onnx -o two.a --name=two -O1 &&
		$cc -DNAME=one -DTWO=two "$here/app.c" one.a two.a -o two $libs && run_cnn two
}
shared() { $dlcc cnn.onnx -o libcnn.so && $cc -DNAME=cnn "$here/app.c" -L. -lcnn -Wl,-rpath,. -o s1 $libs && run_cnn s1; }
matmul() { $dlcc matmul.onnx -o mm.a && $cc -DCOUNT_MALLOC -DNAME=mm "$here/app.c" mm.a -o mm $libs && ./mm matmul.data 23 37 19; }
header() { printf '#include "cnn.h"\nint main(void) { return !cnn_get_api(DL_ABI_VERSION); }\n' >h.c && $cc -I. h.c cnn.a -o h $libs && ./h; }
source_c() { # compiler, target, flags
	$dlcc cnn.onnx -o c.c --target=cpu:"$2" || return
	$1 -std=gnu11 -O1 -Wall -Wextra -Werror -ffp-contract=off -fwrapv -fno-strict-aliasing $3 -I"$root/runtime" -c c.c -o c.o &&
		$cc -DNAME=c "$here/app.c" c.o "$build/lib/libdlrt.a" -o c1 $libs && run_cnn c1
}
moved_text() {
	rm -rf there && mkdir -p there/in && cp cnn.onnx there/in/model.onnx && $dlcc there/in/model.onnx -o there/in/m.dl && $dlcc there/in/model.onnx -o there/m.dl &&
		mv there/in elsewhere && grep -q 'file("model.onnx"' elsewhere/m.dl && $dlcc elsewhere/m.dl -o moved.so &&
		! $dlcc there/m.dl -o lost.so 2>log && grep -q 'cannot map the file "in/model.onnx"' log && rm -rf elsewhere there
}
text() { mkdir -p direct && $dlcc cnn.onnx -o cnn.dl && $dlcc cnn.dl -o fromtext.so && $dlcc cnn.onnx -o direct/fromtext.so && cmp fromtext.so direct/fromtext.so; }
# The program in docs/c-api.md, as C and as C++.
snippet() { # compiler and standard
	sed -n '/^```c$/,/^```$/{//!p}' "$root/docs/c-api.md" >snippet.c && $1 -Wall -Wextra -Wpedantic -Werror -I. -I"$root/runtime" -c -x ${1#* -x } snippet.c -o snippet.o &&
		${CC:-cc} snippet.o model.a -o snippet $libs && [ "$(./snippet 2>&1)" = 0 ]
}
soname() { # A library that is linked by its path is found by its name.
	mkdir -p lib && $dlcc cnn.onnx -o "lib/libcnn,2.so" --name=cnn && readelf -d "lib/libcnn,2.so" | grep -Fq "Library soname: [libcnn,2.so]" &&
		$cc -DNAME=cnn "$here/app.c" "lib/libcnn,2.so" -Wl,-rpath,'$ORIGIN/../lib' -o lib/s2 $libs && mkdir -p bin && mv lib/s2 bin && (cd / && "$tmp/bin/s2" "$tmp/cnn.data" 5)
}

soname_asked() { $dlcc cnn.onnx -o lib/asked.so "--soname=lib cnn,\$x.so.2" && readelf -d lib/asked.so | grep -Fq 'Library soname: [lib cnn,$x.so.2]' && rm lib/asked.*; }
check "archive" archive
check "header" header
check "object" object
check "two archives in one program" two
check "shared library" shared
check "shared library by its path" soname
check "a SONAME that is asked for" soname_asked
check "dynamic matmul" matmul
"$python" - <<-PY
	import numpy, onnx
	from onnx import helper
	graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["N", 64])],
	                          [helper.make_tensor_value_info("y", 1, None)], [onnx.numpy_helper.from_array(numpy.ones((64, 10), numpy.float32), "w")])
	onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), "model.onnx")
PY
$dlcc model.onnx -o model.a
check "the program of docs/c-api.md as C11" snippet "gcc -std=c11 -x c"
forms() { # The functions of docs/c-api.md about values that are no tensors.
	"$python" - <<-PY && for m in words list maybe pairs; do $dlcc $m.onnx -o $m.a || return 1; done &&
		import onnx, onnx.parser
		head = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3]>'
		for name, text in {
		    "words": '(string[N] s) => (string[N] t) { t = StringConcat(s, s) }',
		    "list": '(seq(float[N]) s) => (seq(float[N]) t) { t = SequenceMap(s) <body = one (float[N] x) => (float[N] y) { y = Neg(x) }> }',
		    "maybe": '(optional(float[N]) x) => (optional(float[N]) y) { y = Identity(x) }',
		    "pairs": '(map(int64, float) m) => (float[1,3] y) { y = ai.onnx.ml.CastMap <cast_to = "TO_FLOAT", map_form = "SPARSE", max_map = 3> (m) }',
		}.items():
		    onnx.save(onnx.parser.parse_model(head + name + text), name + ".onnx")
	PY
		${CC:-cc} -std=c11 -Dmain=shown -c snippet.c -o shown.o -I. -I"$root/runtime" && ${CC:-cc} -std=c11 -Wall -Wextra -Werror -I"$root/runtime" \
		"$here/forms.c" shown.o words.a list.a maybe.a pairs.a model.a -o forms $libs && [ "$(./forms)" = "firstfirst
secondsecond
tensor 0 has 3 elements
tensor 1 has 2 elements" ]
}
check "the functions of docs/c-api.md about strings, sequences, optionals and maps" forms
# dlrt.hpp, with and without exceptions, and what it adds to a run.
cpp_snippet() { # compiler and standard, what stands beside cpp
	sed -n "/^\`\`\`cpp$2\$/,/^\`\`\`\$/{//!p}" "$root/docs/c-api.md" >cpp.cpp && $1 -Wall -Wextra -Wpedantic -Werror -I. -I"$root/runtime" cpp.cpp model.a -o cpp $libs && [ "$(./cpp 2>&1)" = 0 ]
}
wrapper() { # compiler, standard, options
	$1 -std=$2 -O0 $3 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. -I"$root/runtime" "$here/wrapper.cpp" model.a words.a list.a -o wrapper $libs && ./wrapper
}
cpp_refuses() { # compiler and standard, the text that the compiler must print, statement
	printf '#include "model.h"\n#include "dlrt.hpp"\nvoid f(dlrt::request &r, std::vector<float> &v) { %s; }\n' "$3" >refused.cpp
	! $1 -fno-exceptions -I. -I"$root/runtime" -c refused.cpp -o refused.o 2>refused.txt && grep -Fq "$2" refused.txt
}
cpp_refusals() { # compiler
	cpp_refuses "$1 -std=c++17" "give the number of elements, too: dlrt::span<float>(pointer, n)" 'r.in(0) = dlrt::tensor(v.data(), {1, 64})' &&
		cpp_refuses "$1 -std=c++17" "without exceptions: in(name, status)" 'r.in("x") = dlrt::tensor(v, {1, 64})' &&
		cpp_refuses "$1 -std=c++14" "dlrt.hpp needs C++17" 'r.in(0) = {}'
}
cpp_compilers=$(command -v g++; for n in $(seq 40 -1 15); do command -v clang++-$n && break; done)
way=0
for compiler in $cpp_compilers; do
	for standard in c++17 c++20; do
		for option in "" -fno-exceptions; do # a share of the tests: one of the two, in turn for each compiler and each standard
			[ "${TESTS:-}" = share ] && [ $(((way ^ way >> 1 ^ way >> 2) & 1)) = 1 ] ||
				check "dlrt.hpp by $compiler, $standard $option" wrapper $compiler $standard $option
			way=$((way + 1))
		done
	done
	check "dlrt.hpp by $compiler, exceptions not wanted" wrapper $compiler c++17 -DDLRT_NO_EXCEPTIONS
	sanitize="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
	if echo 'int main() {}' | $compiler $sanitize -x c++ - -o empty 2>/dev/null; then
		check "dlrt.hpp by $compiler, sanitized" wrapper $compiler c++17 "$sanitize"
	else
		skipped=$((skipped + 1)) # its runtime is a package of its own
	fi
	check "dlrt.hpp by $compiler: what does not compile says why" cpp_refusals $compiler
	check "the C++ of docs/c-api.md by $compiler" cpp_snippet "$compiler -std=c++17"
	check "the C++ of docs/c-api.md without exceptions by $compiler" cpp_snippet "$compiler -std=c++17 -fno-exceptions" " no exceptions"
	check "dlrt.hpp by $compiler: the time of a run" wrapper $compiler c++17 -O2 && check "dlrt.hpp by $compiler: less than 200 ns a run" ./wrapper time
done
string_code() { # artifact; prints which of the runtime's code for strings it has: the table, routines on text, patterns
	nm "$1" >symbols && grep -q " rt_run$" symbols && grep -oE " (strings_|dl_str_|str_|regex_)" symbols | sort -u | tr -d "\n"
}
only_what_is_used() {
	"$python" - <<-PY || return
		import onnx, onnx.parser
		head = '<ir_version: 10, opset_import: ["" : 21]>'
		for name, text in {
		    "moved": '(string[N] s) => (string[N] t) { t = Identity(s) }',
		    "pattern": '(string[N] s) => (bool[N] t) { t = RegexFullMatch <pattern = "a+b"> (s) }',
		}.items():
		    onnx.save(onnx.parser.parse_model(head + name + text), name + ".onnx")
	PY
	for form in so a o; do
		for m in cnn moved words pattern; do $dlcc $m.onnx -o $m.$form || return; done
		[ "$(string_code cnn.$form)" = "" ] && [ "$(string_code moved.$form)" = " strings_" ] &&
			[ "$(string_code words.$form)" = " dl_str_ str_ strings_" ] &&
			[ "$(string_code pattern.$form)" = " dl_str_ regex_ str_ strings_" ] || return
	done
}
check "the runtime's code for strings, where a model uses it" only_what_is_used
for compiler in $cpp_compilers; do check "the program of docs/c-api.md by $compiler" snippet "$compiler -std=c++17 -x c++"; done
clang=$(for n in $(seq 40 -1 15); do command -v clang-$n && break; done)
for compiler in gcc $clang; do
	command -v $compiler >/dev/null || continue
	check "C by $compiler" source_c $compiler x86-64-v2 -march=x86-64-v2
	check "C by $compiler, v3" source_c $compiler x86-64-$v -march=x86-64-$v
	check "C by $compiler, any CPU" source_c $compiler generic ""
done
one_cpu() { $dlcc cnn.onnx -o two.c --target=cpu:v2,v3 2>log; [ $? = 2 ] && grep -q "a file of C is for one CPU" log && [ ! -e two.c ]; }
check "C for two CPUs" one_cpu
check "text and back" text
check "text that moves with its model" moved_text

tsan() { # model, dims
	local model=$1
	shift
	$dlcc "$model.onnx" -o t.c --name=t && gcc -std=gnu11 -w -O1 -g -fsanitize=thread -march=native -ffp-contract=off -fwrapv \
		-fno-strict-aliasing -D_GNU_SOURCE -I"$root/runtime" -I"$root" -DNAME=t "$here/app.c" t.c "$build/lib/libdlrt-tsan.a" -o t $libs &&
		./t "$model.data" "$@"
}
check "eight threads under TSan: cnn" tsan cnn 5
check "eight threads under TSan: matmul" tsan matmul 23 37 19

# ---- Another CPU ----

aarch64_runtime() {
	mkdir -p arm
	for f in "$root"/runtime/*.c; do
		aarch64-linux-gnu-gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -D_GNU_SOURCE -I"$root" -c "$f" \
			-o "arm/$(basename "$f" .c).o" || return
	done
	aarch64-linux-gnu-ar rcsD arm/libdlrt.a arm/*.o
}
aarch64() { # model, compiler, dims
	local model=$1 compiler=$2
	shift 2
	$dlcc "$model.onnx" -o arm/m.a --name=m "--cc=$compiler" --target=cpu:generic --runtime=arm/libdlrt.a &&
		aarch64-linux-gnu-gcc -std=gnu11 -O1 -DNAME=m -I"$root/runtime" "$here/app.c" arm/m.a -o arm/m -static $libs &&
		qemu-aarch64 arm/m "$model.data" "$@"
}
aarch64_so() {
	$dlcc cnn.onnx -o arm/libcnn.so --cc=aarch64-linux-gnu-gcc --target=cpu:generic --runtime=arm/libdlrt.a &&
		aarch64-linux-gnu-gcc -std=gnu11 -O1 -DNAME=cnn -I"$root/runtime" "$here/app.c" -Larm -lcnn -o arm/dyn $libs &&
		qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=arm arm/dyn cnn.data 5
}
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
	check "aarch64: the runtime" aarch64_runtime
	check "aarch64: cnn" aarch64 cnn aarch64-linux-gnu-gcc 5
	check "aarch64: matmul" aarch64 matmul aarch64-linux-gnu-gcc 23 37 19
	check "aarch64: shared library" aarch64_so
	if [ -n "$clang" ]; then
		check "aarch64: by clang" aarch64 cnn "$clang --target=aarch64-linux-gnu" 5
	fi
else
	skipped=$((skipped + 4))
fi

# ---- Symbols ----

exports() { # nm's options, file, name
	[ "$(nm $1 --defined-only "$2" | awk 'NF == 3 {print $3}' | sort | tr '\n' ' ')" = "$3_describe $3_get_api " ] || nm $1 --defined-only "$2"
	[ "$(nm $1 --defined-only "$2" | awk 'NF == 3' | wc -l)" = 2 ]
}
check "symbols of .so" exports -D libcnn.so cnn
check "symbols of .a" exports -g cnn.a cnn
check "symbols of .o" exports -g obj.o other

# ---- Weights ----

"$python" -c 'import numpy as np; np.save("x.npy", np.fromfile("cnn.data", np.float32)[:960].reshape(5, 3, 8, 8))'
answer() { rm -rf "$2" && $dlrun "$1" -i x=x.npy -o "$2"; }
same_answer() { answer "$1" got && cmp got/y.npy want/y.npy; }
# Larger than a block of weights.
blocks() {
	$dlcc large.onnx -o large.so --weights=one.weights --threads=1 && $dlcc large.onnx -o large.a --weights=large.weights --threads=3 &&
		cmp one.weights large.weights && $cc -DNAME=large "$here/app.c" large.a -o large $libs && ./large large.data 2
}
check "runs" answer ./libcnn.so want
beside() { mkdir -p w && $dlcc cnn.onnx -o w/cnn.so --weights=w/cnn.weights && same_answer w/cnn.so; }
beside_c() { $dlcc cnn.onnx -o wb.a --weights=wb.weights && $cc -DNAME=wb "$here/app.c" wb.a -o wb $libs && run_cnn wb; }
wrong() { printf '\1' | dd of=w/cnn.weights bs=1 seek=100 conv=notrunc status=none && ! answer w/cnn.so got >log 2>&1 && grep -q "not the weights" log; }
cut_off() { truncate -s 100 w/cnn.weights && ! answer w/cnn.so got >log 2>&1 && grep -q "has 100 bytes" log; }
elsewhere() { # a folder on another file system
	$dlcc cnn.onnx -o w/far.so --weights="$1/cnn.weights" && rm -rf got && $dlrun w/far.so --weights "$1/cnn.weights" -i x=x.npy -o got &&
		cmp got/y.npy want/y.npy && [ "$(ls -A "$1")" = cnn.weights ] && ! $dlcc cnn.onnx -o k.so --weights="$1" >log 2>&1 &&
		grep -q "Is a directory" log && [ ! -e k.so ] && [ ! -e k.h ]
}
missing() { rm w/cnn.weights && ! answer w/cnn.so got >log 2>&1 && grep -q "weights are neither $tmp/w/cnn.weights .* nor $build/bin/cnn.weights" log; }
beside_program() { # of a library in another folder
	mkdir -p w/lib w/bin && $dlcc cnn.onnx -o w/lib/libwp.so --weights=w/wp.weights && mv w/wp.weights w/bin &&
		$cc -DNAME=wp "$here/app.c" w/lib/libwp.so -Wl,-rpath,'$ORIGIN/../lib' -o w/bin/wp $libs && w/bin/wp cnn.data 5
}
large_archive() {
	! $dlcc large.onnx -o big.a 2>log && grep -q "[0-9]* bytes of weights do not fit into a .a, which has up to 16777216; give --weights=FILE, or --embed-weights" log && [ ! -e big.a ]
}
embedded() { # suffix
	$dlcc large.onnx -o big.$1 --embed-weights --name=big && $cc -DNAME=big "$here/app.c" big.$1 -o big $libs && rm big.$1 && ./big large.data 2
}
many_options() {
	$dlcc cnn.onnx -o k.so "--cc=${CC:-cc} $(printf ' -O1%.0s' {1..32})" && rm k.so k.h && ! $dlcc cnn.onnx -o k.so "--cc=${CC:-cc} $(printf ' -O1%.0s' {1..33})" 2>log && grep -q "more than 32 options; name a script" log && [ ! -e k.so ]
}
# Weights that are written while C compilers run, and code for which there is room before them, or not (segments 4 MiB apart).
early() { # 1: there is room, option
	local at
	$dlcc large.onnx -o libbig.so --name=big "--cc=${CC:-cc} $2" && $cc -DNAME=big "$here/app.c" ./libbig.so -o big -Wl,-rpath,"$PWD" $libs && ./big large.data 2 &&
		objcopy -O binary --only-section=.dlcc.weights --set-section-flags .dlcc.weights=alloc libbig.so section && cmp section one.weights &&
		at=$(readelf -SW libbig.so | sed -n 's/.* \.dlcc\.weights *PROGBITS *0* \([0-9a-f]*\).*/\1/p') &&
		[ $((0x$at < 4 << 20)) = "$1" ]
}
# The names of functions, for profilers, and nothing for debuggers unless --cc asks for it.
small() {
	local f
	for f in small.so small.o; do
		$dlcc cnn.onnx -o $f "--cc=${CC:-cc}" && ! readelf -SW $f | grep -q debug_info && nm $f | grep -q " t .*_k0_" || return 1
	done
	$dlcc cnn.onnx -o small.so "--cc=${CC:-cc} -g" && readelf -SW small.so | grep -q debug_info
}
stripped() { cp libcnn.so strip.so && strip "$@" strip.so && same_answer ./strip.so; }
copied() { objcopy --add-section .note.more=cnn.onnx libcnn.so copy.so && same_answer ./copy.so; }
patched() { cp libcnn.so patch.so && patchelf --set-rpath /somewhere/rather/long/that/moves/the/tables patch.so && same_answer ./patch.so; }
no_section() { objcopy -R .dlcc.weights libcnn.so none.so && ! answer ./none.so got >log 2>&1 && grep -q "no section .dlcc.weights" log; }
# The hash, found only after the link, is right; other weights give another one.
checked() { $cc -DNAME=cnn -DCHECK_WEIGHTS "$here/app.c" -L. -lcnn -Wl,-rpath,"$1" -o checked $libs && run_cnn checked; }
spoilt() {
	mkdir -p bad && cp libcnn.so bad || return
	local at
	at=$(readelf -SW bad/libcnn.so | sed -n 's/.*\.dlcc\.weights *PROGBITS *[0-9a-f]* \([0-9a-f]*\) .*/\1/p')
	printf '\377' | dd of=bad/libcnn.so bs=1 seek=$((16#$at + 5)) conv=notrunc status=none
	! checked bad >log 2>&1 && grep -q "not the weights" log
}
other_hash() {
	"$python" - <<-EOF && $dlcc cnn2.onnx -o cnn2.so --name=cnn && [ "$($dlrun ./libcnn.so --describe | grep ^hash)" != "$($dlrun ./cnn2.so --describe | grep ^hash)" ]
		import onnx, numpy as np
		m = onnx.load("cnn.onnx")
		t = m.graph.initializer[1]
		t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t) + np.float32(1), t.name))
		onnx.save(m, "cnn2.onnx")
	EOF
}
check "weights checked" checked .
check "weights checked: other bytes" spoilt
check "other weights, another hash" other_hash
check "weights beside" beside
check "weights by blocks" blocks
shm=$(mktemp -d /dev/shm/dlcc.XXXXXX 2>/dev/null)
if [ -n "$shm" ] && [ "$(stat -c %d "$shm")" != "$(stat -c %d .)" ]; then check "weights on another file system" elsewhere "$shm"; else skipped=$((skipped + 1)); fi
rm -rf "$shm"
check "weights beside an archive" beside_c
check "weights beside: other bytes" wrong
check "weights beside: cut" cut_off
check "weights beside: missing" missing
check "weights beside the program" beside_program
check "weights too large for an archive" large_archive
check "large weights in an archive" embedded a
check "large weights in an object" embedded o
check "more options of the compiler than dlcc passes on" many_options
check "large weights in a section" early 1 -O1
check "large weights in a section behind more code" early 0 -Wl,-z,max-page-size=0x400000,-z,separate-code
check "nothing for debuggers" small
check "strip" stripped
check "strip --strip-unneeded" stripped --strip-unneeded
check "objcopy" copied
check "the section is lost" no_section
if command -v patchelf >/dev/null; then check "patchelf" patched; else skipped=$((skipped + 1)); fi

# ---- Variants ----

close_to() { "$python" -c 'import sys, numpy as np; a, b = (np.load(f) for f in sys.argv[1:]); assert abs(a - b).max() <= 1e-5 * abs(b).max()' "$1" "$2"; }
variants() { $dlcc cnn.onnx -o multi.so --target=cpu:v2,v4,v3,generic && $dlrun multi.so --describe | grep -q "^targets x86-64-v4 x86-64-v3 x86-64-v2 generic"; }
variant() { DLCC_CPU=$1 answer multi.so "m_$1" && close_to "m_$1/y.npy" want/y.npy && $dlcc cnn.onnx -o pair.so --target=cpu:$2 && DLCC_CPU=$1 answer pair.so pair && cmp pair/y.npy "m_$1/y.npy"; }
check "several targets" variants
# The same bits with fewer variants beside it, if the widest is the same: weights are packed for that.
for i in v2:v4,v2 v3:v4,v3 none:v4,generic; do check "variant $i" variant ${i%:*} ${i#*:}; done
[ $v = v4 ] && check "variant v4" variant v4 v4
too_new() { $dlcc cnn.onnx -o new.so --target=cpu:v3 && ! DLCC_CPU=v2 answer new.so got >log 2>&1 && grep -qi "x86-64-v3\|lacks\|cpu" log; }
check "a CPU that lacks it" too_new
no_such_cpu() { ! DLCC_CPU=v9 answer multi.so got >log 2>&1 && grep -q "DLCC_CPU=v9: expected none, v2, v3, v4, v8 or native" log; }
check "a CPU that there is not" no_such_cpu

# ---- The same bytes from anywhere ----

same_bytes() { # suffix
	local one=v2,v3 two=v3,v2
	[ "$1" != c ] || one=v3 two=v3
	mkdir -p d1 d2/deeper home tmpdir && cp cnn.onnx d1 && cp cnn.onnx d2/deeper/cnn.onnx || return
	(cd d1 && $dlcc cnn.onnx -o m.$1 --threads=1 --target=cpu:$one) || return
	(cd d2 && HOME=$tmp/home TMPDIR=$tmp/tmpdir LC_ALL=tr_TR.UTF-8 LANG=de_DE.UTF-8 TZ=Asia/Tokyo setarch -R $dlcc "$tmp/d2/deeper/cnn.onnx" \
		-o "$tmp/d2/m.$1" --threads 4 --target=cpu:$two --shuffle) || return
	cmp d1/m.$1 d2/m.$1 && cmp d1/m.h d2/m.h
}
for suffix in so a o c; do check "the same bytes: .$suffix" same_bytes $suffix; done

# Folders whose names a shell would take apart, or a string in C.
odd_names() { # suffix
	local odd="$tmp/o'd \$x; \"y\\z"
	rm -rf "$odd" && mkdir -p "$odd/t" && cp cnn.onnx "$odd/m.onnx" || return
	TMPDIR=$odd/t $dlcc "$odd/m.onnx" -o "$odd/m.$1" && $dlcc cnn.onnx -o "m.$1" && cmp "m.$1" "$odd/m.$1" && cmp m.h "$odd/m.h" &&
		[ -z "$(ls -A "$odd/t")" ]
}
for suffix in so a o c; do check "odd names: .$suffix" odd_names $suffix; done

# ---- All or nothing ----

# A folder with an old output; what is there afterwards.
old() { rm -rf k && mkdir k && cp libcnn.so k/cnn.so && cp cnn.h k/cnn.h && cp cnn.h k/cnn.bin && (cd k && md5sum cnn.so) >old.sum; }
entries() { ls -A k | grep -vc '^cnn\.\(so\|h\|bin\)$'; }
whole() { (cd k && md5sum -c --status ../old.sum) || same_answer k/cnn.so; }
children() { # of a folder: processes that name it
	grep -ls "$tmp/k/[.]dlcc" /proc/[0-9]*/cmdline
}
gone() { for _ in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(children)" ] && return; sleep 0.05; done; children; return 1; }
interrupt() { # signal, seconds, entries that may be left
	old
	TMPDIR=$tmp/tmpdir $dlcc matmul.onnx -o "$tmp/k/cnn.so" --name=cnn --threads=2 >log 2>&1 &
	local pid=$!
	sleep "$2"
	kill -"$1" $pid 2>/dev/null
	wait $pid 2>/dev/null
	gone || { echo "a child lives"; return 1; }
	[ "$(entries)" -le "$3" ] || { ls -A k; return 1; }
	[ -z "$(ls -A tmpdir)" ] || { ls -A tmpdir; return 1; }
	(cd k && md5sum -c --status ../old.sum) || $dlrun k/cnn.so --describe
}
mkdir -p tmpdir
[ "${TESTS:-}" = share ] && after="0.02 0.15 0.5" || after="0.02 0.07 0.15 0.3 0.5 0.8"
for s in $after; do
	check "TERM after $s s" interrupt TERM $s 0
	check "INT after $s s" interrupt INT $s 0
	check "KILL after $s s" interrupt KILL $s 1
done
# Killed before output N takes its place: each of the outputs is whole, the old one or the new.
gcc -shared -fPIC -o die.so -xc - -ldl <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

int rename(const char *from, const char *to)
{
	static int n;

	if (++n == atoi(getenv("DIE_AT")))
		raise(SIGKILL);
	return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
}
C
between() { # N
	old
	mkdir -p new && $dlcc cnn.onnx -o new/cnn.so --name=cnn -O1 && cp cnn.onnx new/cnn.onnx || return
	printf 'old\n' >k/cnn.h
	LD_PRELOAD=$tmp/die.so DIE_AT=$1 TMPDIR=$tmp/tmpdir $dlcc new/cnn.onnx -o "$tmp/k/cnn.so" --name=cnn -O1 >log 2>&1
	[ $? = 137 ] || { echo "it was not killed"; return 1; }
	gone && [ "$(entries)" -le 1 ] || { ls -A k; return 1; }
	{ [ "$(cat k/cnn.h)" = old ] || cmp k/cnn.h new/cnn.h; } && { (cd k && md5sum -c --status ../old.sum) || cmp k/cnn.so new/cnn.so; }
}
for n in 1 2; do check "KILL before output $n" between $n; done
too_large() { # KiB, options
	old
	(ulimit -f "$1" && shift && exec $dlcc cnn.onnx -o "$tmp/k/cnn.so" "$@") 2>&1 | cat >log
	grep -q error log && grep -Eq "File too large|No space left" log && gone && [ "$(entries)" = 0 ] && (cd k && md5sum -c --status ../old.sum) && cmp cnn.h k/cnn.bin
}
for n in 0 8 40 100 200; do check "files up to $n KiB" too_large $n; done
check "a weights file too large" too_large 40 --weights="$tmp/k/cnn.bin"
full() { # KiB
	mkdir -p k && umount k 2>/dev/null
	mount -t tmpfs -o size="$1"k none k || return
	local free=0
	$dlcc cnn.onnx -o "$tmp/k/cnn.so" >log 2>&1 && free=1
	[ "$(ls -A k | grep -c dlcc)" = 0 ] || free=2
	umount k
	[ $free = 0 ] && grep -q error log && grep -q "No space left on device" log
}
rm -rf k && mkdir k
if mount -t tmpfs -o size=64k none k 2>/dev/null && umount k; then
	for n in 16 64 128 200 256; do check "a disk of $n KiB" full $n; done
else
	skipped=$((skipped + 1))
fi
finish

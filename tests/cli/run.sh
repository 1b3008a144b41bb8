#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line of dlcc: what options print, how they fail, and the exit status. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd)
root=$PWD
python=$root/build/venv/bin/python3
dlcc=$build/bin/dlcc
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
"$python" tests/package/model.py "$tmp" && "$python" - "$tmp" <<'PY' || exit 1
import sys
import onnx.parser

HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[a,3] x) => (float[a,3] y) '
for name, body in (("refused", "{ [one] m = Frobnicate(x) [two] n = Relu(m) [three] y = Frobnicate(n) }"),
                   ("bodies", "{ [call] t = local.twice(x) [cond] y = If(t) <then_branch = b () => (float[a,3] r) { r = Frobnicate(t) },"
                              " else_branch = c () => (float[a,3] s) { [in_else] s = Relu(t) }> }"
                              '<domain: "local", opset_import: ["" : 17]> twice (u) => (v) { [dup] v = Add(u, u) }'),
                   ("twins", "<float[2] w = {1,2}> { [n] a = Relu(x) [n] b = Add(x, w) [n] c = Frobnicate(x) y = If(t) <then_branch = b ()"
                             " => (float[a,3] r) { [n] r = Twirl(t) }, else_branch = c () => (float[a,3] s) { s = Twirl(t) }> }"),
                   ("nested", "{ [c1] t = local.once(x) [c1__q] y = Sqrt(t) }"
                              '<domain: "local", opset_import: ["" : 17]> once (u) => (v) { [q] v = Frobnicate(u) }'),
                   ("bell", "{ [aBELL] y = Relu(x) }"),
                   ("single", "{ [n] y = Frobnicate(x) }"),
                   ("faulty", "<float[2,2] w = {1,2,3,4}> { [product] y = MatMul(x, w) }")):
    with open(f"{sys.argv[1]}/{name}.onnx", "wb") as f:
        model = onnx.parser.parse_model(HEAD + body)
        for node in model.graph.node:
            node.name = node.name.replace("__", "/").replace("BELL", "\a")  # the parser refuses both
        f.write(model.SerializeToString())
with open(f"{sys.argv[1]}/declared.onnx", "wb") as f:
    f.write(onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 17]> m (float[a,3] x) => (float[a,9] y) { y = Relu(x) }').SerializeToString())
PY
cd "$tmp" || exit 2
cat >declared.dl <<'DL'
dlir 1
graph @main(%x: f32[a,3]) -> (%y "y")
    where 0 <= a {
  %n = Relu(%x) : f32[a,3]  @"one"(Relu)
  %y = Exp(%n) : f32[a,3]  @"two"(Exp)
}
; ----
what a test expects
DL
mkdir folder.dl

# what, exit status, a pattern that output must have (grep -E) or "" for none at all, arguments
try() {
	local what=$1 want=$2 pattern=$3 got
	shift 3
	"$dlcc" "$@" >out 2>&1 </dev/null
	got=$?
	if [ $got = "$want" ] && if [ -n "$pattern" ]; then grep -Eq -- "$pattern" out; else [ ! -s out ]; fi; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: $what: status $got: $(head -n 2 out | tr '\n' ' ')"
	fi
}
absent() { # what, file
	if [ -e "$2" ]; then failed=$((failed + 1)); echo "FAIL: $1: $2 is there"; else passed=$((passed + 1)); fi
}

try "help" 0 "usage: dlcc" --help
try "version" 0 "^dlcc [0-9.]*, with" --version
try "ops" 0 "^Conv$" --list-ops
try "passes" 0 "^memplan " --list-passes
try "targets" 0 "^cpu:x86-64-v3  *or cpu:v3$" --list-targets
case $("$dlcc" --version) in
*"with LLVM 19."*) try "targets of a newer LLVM" 0 "^cuda:sm_100 *code of sm_90: LLVM 19.* LLVM 20 does$" --list-targets ;;
*"with LLVM "*) try "targets that LLVM knows" 0 "^cuda:sm_100$" --list-targets ;;
esac

# Programs that have an option understand it alike.
cat >bounded.dl <<'DL'
dlir 1
graph @main(%x: f32[s,4], %t: f32[64,4]) -> (%y)
    where 1 <= s {
  %from = Const {value = i64[1](0)} : i64[1]
  %to = Shape(%x) {end = 1} : i64[1]
  %p = Slice(%t, %from, %to, %from) : ?
  %y = Add(%x, %p) : f32[s,4]
}
DL
for program in dlcc dlcc-opt; do
	dlcc=$build/bin/$program
	more=$([ $program = dlcc ] && echo "--dump-ir=infer")
	for target in cpu cpu:v3 v3 generic cpu:native cuda:sm_80; do
		try "$program: target $target" 0 "^dlir 1$" bounded.dl --target=$target $more
	done
	for target in sm_80 cpu:sm_80 cuda:v3 cuda x86 cpu:; do
		try "$program: no target $target" 2 "--target(:|=)" bounded.dl --target=$target $more
	done
	for level in -O -O4 -O9 -O22 -Os; do
		try "$program: no level $level" 2 "$level: the levels are -O0, -O1, -O2 and -O3$" bounded.dl $level $more
	done
done
try "dlcc-opt: a number" 2 "--rewrite-limit wants a number from 0 to 1048576" bounded.dl --rewrite-limit=x
try "dlcc-opt: groups of weights" 2 "--weights-as=i4:7: a group is a multiple of 8 terms, from 8 to 1048576" bounded.dl --weights-as=i4:7
try "dlcc-opt: one target" 2 "--target=cpu:v3,v4: name one" bounded.dl --target=cpu:v3,v4
dlcc=$build/bin/dlcc
try "no limit of threads" 0 "" bounded.dl --threads=0 -O0 -o bounded.so
dlcc=$build/bin/dlrun
if [ -c /dev/full ]; then
	full() { # what, arguments of $dlcc
		local what=$1
		shift
		"$dlcc" "$@" 2>out >/dev/full
		if [ $? = 1 ] && grep -Eq "error: (.*: )?No space left on device$" out; then passed=$((passed + 1)); else
			failed=$((failed + 1)); echo "FAIL: $what on a full disk: $(head -n 2 out | tr '\n' ' ')"; fi
	}
	"$python" -c "import numpy; numpy.save('full.npy', numpy.zeros((5, 3, 8, 8), numpy.float32))"
	"$build/bin/dlcc" cnn.onnx -O0 -o full.so
	for dlcc in dlcc dlcc-opt dlrun; do dlcc=$build/bin/$dlcc && full "$dlcc --help" --help; done
	full "what dlrun says" bounded.so
	full "a report of dlrun" bounded.so --bench --seconds=0.01
	mkdir fullout && ln -s /dev/full fullout/y.npy && ln -s /dev/full full.file
	full "a trace" bounded.so --profile=full.file
	full "an output" full.so -i x=full.npy -o fullout
	dlcc=$build/bin/dlcc-opt
	full "a graph" bounded.dl -p infer
	full "a graph in a file" bounded.dl -p infer -o full.file
	if [ -c full.file ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: an output took a device's place"; fi
	dlcc=$build/bin/dlcc
	full "a dump" large.onnx --dump-ir
	full "a report of dlcc" --check cnn.onnx
	full "a dump beside an output" cnn.onnx --dump-ir=fuse -o dumped.c
	absent "an output whose dump is not written" dumped.c
	try "weights into a device" 2 "full.file is a device or a pipe; give the name of a file" cnn.onnx -o m.so --weights=full.file
	dlcc=$build/bin/dlrun
fi
try "dlrun: no limit of threads" 0 "\"threads\":" bounded.so --threads=0 --bench --seconds=0.01
try "dlrun: a negative dim" 1 "--dim s=-3: write NAME=VALUE, a whole number from 0 to [0-9]+$" bounded.so --bench --dim s=-3
try "dlrun: no number of threads" 2 "--threads -1: a whole number from 0 to 2147483647" bounded.so --threads=-1 --bench

for program in dlcc dlcc-opt dlrun; do
	dlcc=$build/bin/$program
	for what in --version --help -h; do
		try "$program: $what beside others" 0 "^(usage: )?$program [0-9[M]" --frob none $what
	done
done
dlcc=$build/bin/dlcc

# Old names of options mean what they meant. Each prints a note, which is not a warning, and --help has none of them.
cat >formats.dl <<DL
dlir 1
graph @main(%past: f32[1,2,p,8], %new: f32[1,2,s,8], %x: f32[n,64]) -> (%present "present", %y "y") {
  %present = Concat(%past, %new) {axis = 2} : ?
  %w = Const {value = f32[64,32]($(yes "0.5, -0.25, 1.25," | head -682 | tr -d '\n') 0.5, 2)} : f32[64,32]
  %y = MatMul(%x, %w) : ?
}
DL
made() { # options; sets what dlcc makes and prints with them
	local status
	"$dlcc" formats.dl -Werror --target=cpu:v4-bf16 "$@" -o formats.c >printed 2>notes
	status=$?
	made=$(cat formats.c printed)
	rm -f formats.c
	return $status
}
same() { # the old options, the new one, what else both get
	local old=$1 new=$2 without with
	shift 2
	if made "$@" && without=$made && made "$@" $new && with=$made && [ ! -s notes ] && made "$@" $old && [ "$made" = "$with" ] &&
		[ "$with" != "$without" ] && [ "$(cat notes)" = "  note: ${old/ /=} is now $new" ] && ! "$dlcc" --help | grep -qe "${old%%[= ]*}[[ =,]"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1)); echo "FAIL: $old is not $new: $(head -n 2 notes | tr '\n' ' ')"
	fi
}
same --int4 --weights-as=i4
same --int4=64 --weights-as=i4:64
same --int8-weights --weights-as=i8
same --bf16 --weights-as=bf16
same --fp16 --weights-as=f16
same --int8-activations --activations-as=i8 --weights-as=i4
same --bf16-activations --activations-as=bf16 --weights-as=bf16
same --caches=i8 --caches-as=i8
same "--caches f16" --caches-as=f16
dlcc=$build/bin/dlcc-opt
try "dlcc-opt: an old name" 0 "^  note: --int4=16 is now --weights-as=i4:16$" bounded.dl --int4=16
dlcc=$build/bin/dlcc
try "an old name's value" 2 "--weights-as=i4:12: a group is a multiple of 8 terms, from 8 to 1048576" cnn.onnx --int4=12 -o m.so
for wrong in i4: i4:0 i4:x i8:32 f32 ""; do try "no format of weights: $wrong" 2 "--weights-as(=| wants)" cnn.onnx "--weights-as=$wrong" -o m.so; done
try "no format of activations" 2 "--activations-as=f8: write i8, bf16 or f16" cnn.onnx --activations-as=f8 -o m.so
try "halves without a GPU" 2 "--activations-as=f16 needs a target: --target=cuda:sm_80" cnn.onnx --activations-as=f16 -o m.so
try "two formats of caches" 2 "--caches-as i8: an earlier --caches-as says otherwise" cnn.onnx --caches-as=f16 --caches-as=i8 -o m.so
try "two groups" 2 "--weights-as i4: an earlier --weights-as says otherwise" cnn.onnx --weights-as=i4:64 --weights-as=i4 -o m.so
try "a group with a sign" 2 "a group is a multiple of 8 terms" cnn.onnx --weights-as=i4:+32 -o m.so
try "no format of caches" 2 "--caches-as=f8: write f16, bf16 or i8" cnn.onnx --caches-as=f8 -o m.so
try "groups of two sizes" 2 "--weights-as i4:64: an earlier --weights-as says otherwise" cnn.onnx --weights-as=i4 --weights-as=i4:64 -O0 -o m.c

try "nothing" 2 "no model"
try "no output" 2 "no output: give -o" cnn.onnx
try "unknown suffix" 2 "cannot make m.exe; the suffix" cnn.onnx -o m.exe
try "a header of the runtime's name" 2 "its header would be dlrt.h" cnn.onnx -o dlrt.so
try "another compiler's option for sizes" 2 "unknown option --batch=3; --dim NAME=N" cnn.onnx --batch=3 -o m.so
try "two types of weights" 2 "--weights-as bf16: an earlier --weights-as says otherwise" cnn.onnx --weights-as=f16 --weights-as=bf16 -o m.so
try "unknown option" 2 "unknown option --frob" cnn.onnx --frob -o m.so
try "a slip in an option" 2 "unknown option --weight-as=f16; the nearest is --weights-as" cnn.onnx --weight-as=f16 -o m.so
try "a check that would make something" 2 "--check makes no output: leave out -o" cnn.onnx --check -o m.so
try "no value" 2 "-o wants a value" cnn.onnx -o
try "two models" 2 "one model at a time" cnn.onnx large.onnx -o m.so
try "no number" 2 "--threads wants a number from 0 to 1048576" cnn.onnx --threads=many -o m.so
try "negative number" 2 "--threads wants a number" cnn.onnx --threads=-1 -o m.so
try "no model file" 1 "none.onnx: error: cannot open the file: No such file" none.onnx -o m.so
try "no folder" 1 "nowhere/m.so: error: there is no folder nowhere$" cnn.onnx -o nowhere/m.so
try "no folder for weights" 1 "there is no folder nowhere/in$" cnn.onnx -o m.so --weights=nowhere/in/w.bin
try "a file is no folder" 1 "there is no folder cnn.onnx$" cnn.onnx -o cnn.onnx/m.so
try "two outputs" 2 "-o n.so: an earlier -o says otherwise" cnn.onnx -o m.so -o n.so
try "two lists of targets" 2 "--target cuda:sm_80: an earlier --target says otherwise" cnn.onnx --target=cpu:v2 --target=cuda:sm_80 -o m.so
try "weights of a text" 2 "--weights changes nothing in m.dl; it is for .so .a .o .c$" cnn.onnx --weights=w.bin -o m.dl
try "weights of PTX" 2 "--weights changes nothing in m.ptx; it is for .so .a .o .c$" cnn.onnx --weights=w.bin --target=cuda:sm_80 -o m.ptx
try "tf32 in a text" 2 "--tf32 changes nothing in m.dl; it is for .so .a .o .c .ptx .schedule$" cnn.onnx --tf32 --target=cuda:sm_80 -o m.dl
try "passes of a text" 2 "--dump-ir changes nothing in m.dl" cnn.onnx --dump-ir=fuse -o m.dl
try "a schedule of a text" 2 "--schedule changes nothing in m.dl; it is for .so .a .o .c .ptx$" cnn.onnx --schedule=none -o m.dl
try "times of a text" 2 "--time-passes changes nothing in m.dl" cnn.onnx --time-passes -o m.dl
try "memory of a node" 2 "--dump-node: memplan is of all nodes" cnn.onnx --dump-ir=memplan --dump-node=conv
try "a GPU without a row" 2 "\"sm_87\" is not known; .*code for one sm_ also runs on GPUs with a higher number" cnn.onnx --target=cuda:sm_87 -o m.so
case $("$dlcc" --version) in
*"with LLVM "*)
	# LLVM's library is opened at run time: a name that no file has stands for a machine without it.
	sed 's|/libLLVM|/libNONE|g' "$dlcc" >without-llvm && chmod +x without-llvm
	with=$dlcc dlcc=$tmp/without-llvm
	try "a GPU without LLVM's library" 2 "^dlcc: error: --target=cuda: code for GPUs needs LLVM's library libNONE.*apt-get install libllvm" \
		cnn.onnx --target=cuda:sm_80 -o m.so
	try "the version without LLVM's library" 0 "without LLVM$" --version
	try "targets without LLVM's library" 0 "cpu:generic$" --list-targets
	! grep -q cuda: out || touch gpus-listed
	absent "targets of GPUs without LLVM's library" gpus-listed
	dlcc=$with
	;;
esac
try "unknown target" 2 "\"z80\" is not known; write cpu: with native, v4 .AVX-512., .*, x86-64-v4, .*, or cuda: with sm_120, " cnn.onnx --target=cpu:z80 -o m.so
try "target of a GPU without cuda:" 2 "write cuda:sm_80; dlcc --list-targets names all" cnn.onnx --target=sm_80 -o m.so
try "no name of a GPU" 2 "write cuda: with a GPU, as cuda:sm_80" cnn.onnx --target=cuda -o m.so
try "code for GPUs without one" 2 "needs a target: --target=cuda:sm_80" cnn.onnx --dump-ir=nvptx
try "tf32 on a CPU" 2 "--tf32 needs a target: --target=cuda:sm_80" cnn.onnx --tf32 -o m.so
try "decisions that are not there" 1 "cnn.onnx: error: --schedule=none: No such file" cnn.onnx --target=cuda:sm_80 --schedule=none -o m.so
try "tiles in their old grammar" 2 "--tiles=none is gone; --schedule=FILE takes decisions as --dump-ir=decide prints them" cnn.onnx --target=cuda:sm_80 --tiles=none -o m.so
try "tiles are decisions" 0 "  note: --list-tiles=4 is now --dump-ir=decide" cnn.onnx --target=cuda:sm_80 --list-tiles=4
try "tf32 on an early GPU" 2 "--tf32: sm_75 multiplies no tf32; sm_80 and later do" cnn.onnx --tf32 --target=cuda:sm_80,sm_75 -o m.so
try "no target" 2 "names none" cnn.onnx --target=cpu: -o m.so
try "tiles of another size" 2 "--winograd wants 0, 2 or 4" cnn.onnx --winograd=3 -o m.so
try "no name of a compiler" 2 "--cc wants a value" cnn.onnx --cc= -o m.so
try "no root of a system" 1 "--sysroot=/nowhere: there is no such folder" cnn.onnx --sysroot=/nowhere -o m.so
try "unknown compiler" 1 "--cc=tcc9: there is no such program; give" cnn.onnx --cc=tcc9 -o m.so
try "a compiler that fails" 1 "the C compiler \(.*false\) failed with exit status 1;" cnn.onnx --cc=false -o m.so
# gcc links what the default compiler, a clang, has compiled; a compiler that was named links by itself
clang=$(command -v clang || true)
if [ "$clang" ]; then
	mkdir failing-gcc && printf '#!/bin/sh\necho "not this one" >&2\nexit 1\n' >failing-gcc/gcc && chmod +x failing-gcc/gcc
	PATH=$PWD/failing-gcc:$PATH try "a linker that fails" 1 "the linker \(.*/failing-gcc/gcc\) failed with exit status 1;" cnn.onnx -o m.so
	PATH=$PWD/failing-gcc:$PATH try "a compiler that links" 0 "" cnn.onnx --cc="$clang" -o m.so
	rm -f m.so
fi
printf '#!/bin/sh\nPATH=/nowhere exec %s "$@"\n' "$build/bin/dlcc" >alone
printf '#!/bin/sh\ncase "$*" in *-shared*) echo "ld: cannot find $SAYS" >&2; exit 1;; esac\nexec gcc "$@"\n' >failing-cc
printf '#!/bin/sh\necho aarch64-linux-gnu\n' >arm-cc
chmod +x alone failing-cc arm-cc
dlcc=./alone
try "no compiler" 1 "no C compiler on PATH: install gcc from 12 on or clang from 15 on" cnn.onnx -o m.so
if [ "$(wc -l <out)" = 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: no compiler: more than one message"; fi
try "C needs no compiler" 0 "" cnn.onnx -o alone.c
dlcc=$build/bin/dlcc
export SAYS=/lib/libclang_rt.asan.a
try "no sanitizers of clang" 1 "note: --sanitize needs the runtime of clang's sanitizers: apt-get install" cnn.onnx --cc=./failing-cc --sanitize -o m.so
SAYS=-lasan
try "no sanitizers of gcc" 1 "note: --sanitize needs the runtime of gcc's sanitizers: install" cnn.onnx --cc=./failing-cc --sanitize -o m.so
unset SAYS
try "a compiler for another machine" 1 "--cc=./arm-cc makes code for aarch64-linux-gnu, and x86-64-v3 is for x86_64; give --cc=COMPILER, one for x86_64, or --target=cpu:aarch64, and --runtime=FILE" \
	cnn.onnx --cc=./arm-cc --target=cpu:v3 -o m.so
if [ "$(uname -m)" = x86_64 ]; then
	try "a compiler for another machine, no target" 1 "--cc=./arm-cc makes code for aarch64-linux-gnu, and .* or --target=cpu:aarch64" cnn.onnx --cc=./arm-cc -o m.a
fi
try "weights inside and beside" 2 "--embed-weights: --weights puts them into a file" large.onnx --embed-weights --weights=w.bin -o m.a
clang=$(for n in $(seq 40 -1 15); do command -v clang-$n && break; done)
if [ -n "$clang" ] && echo "#include <string.h>" | "$clang" --target=aarch64-linux-gnu -xc -fsyntax-only - 2>/dev/null; then
	try "the wrong runtime" 1 "for another machine than the libdlrt.a beside dlcc; give its own: --runtime=FILE" cnn.onnx --target=cpu:generic \
		"--cc=$clang --target=aarch64-linux-gnu" -o m.so
fi
try "no runtime" 1 "none.a: No such file" cnn.onnx --runtime=none.a -o m.so
try "no identifier" 2 "--name=a-b: it is not a C identifier" cnn.onnx --name=a-b -o m.so
try "dim without value" 2 "write NAME=N or" cnn.onnx --dim batch= -o m.so
try "dim the wrong way" 2 "write NAME=N or" cnn.onnx --dim batch=9..3 -o m.so
try "dim without a number" 2 "write NAME=N or" cnn.onnx --dim batch=abc -o m.so
try "dim without a name" 2 "write NAME=N or" cnn.onnx --dim =4 -o m.so
try "dim beyond all numbers" 2 "write NAME=N or" cnn.onnx --dim batch=1..99999999999999999999 -o m.so
try "dims that differ" 2 "--dim batch=3: an earlier --dim says otherwise" cnn.onnx --dim batch=2 --dim batch=3 -o m.so
try "no text to read" 1 "cannot be read: No such file" none.dl -o m.so
try "no folder for text" 1 "there is no folder nowhere$" cnn.onnx -o nowhere/m.dl
try "a dim that inference bounds" 1 '--dim s=1..128: the model takes "s" from 1 to 64$' bounded.dl --dim s=1..128 -o m.so
try "a dim that inference bounds, always more than 1" 1 '--dim s=10..100: the model takes "s" from 10 to 64$' bounded.dl --dim s=10..100 -o m.so
try "a dim that the model's text bounds" 1 '--dim s=0..8: the model takes "s" from 1 on$' bounded.dl --dim s=0..8 -o m.so
try "no such dim" 1 'has no dim "N"; it has "batch"' cnn.onnx --dim N=3 -o m.so
absent "nothing was made" m.so

# An output is nothing that is read, and no other output.
"$python" - <<'PY'
import onnx
m = onnx.load("large.onnx")
onnx.save(m, "beside.onnx", save_as_external_data=True, location="beside.data", size_threshold=0)
m = onnx.load("large.onnx")
m.graph.initializer.append(m.graph.initializer[0])
onnx.save(m, "twice.onnx")
PY
ln cnn.onnx linked.weights
"$dlcc" beside.onnx -o beside.dl
"$dlcc" cnn.onnx -o of_cnn.dl
mkdir spared && cp cnn.onnx beside.onnx beside.data beside.dl spared/
try "weights over the model" 2 "cnn.onnx would be overwritten: it is the model" cnn.onnx --weights=cnn.onnx -o s.so
try "weights over the model's other name" 2 "linked.weights would be overwritten: it is the model" cnn.onnx --weights=./linked.weights -o s.so
try "weights over the model of a text" 2 "cnn.onnx would be overwritten" of_cnn.dl --weights=cnn.onnx -o s.so
try "a text over its own" 2 "of_cnn.dl would be overwritten: it is the model" of_cnn.dl -o of_cnn.dl
try "weights over external data" 2 "beside.data would be overwritten: it is a file with the model's data" beside.onnx -o s.so --weights=beside.data
try "weights over a text's external data" 2 "beside.data would be overwritten" "$tmp/beside.dl" -o s.so --weights=beside.data
touch t.h
try "a header over a schedule" 2 "t.h would be overwritten: it is the file of --schedule" cnn.onnx --schedule=t.h -o t.so
try "weights over the artifact" 2 "s.so would be two outputs at once" large.onnx -o s.so --weights=s.so
try "weights over the archive" 2 "s.a would be two outputs" large.onnx -o s.a --weights="$tmp/s.a"
try "weights over the header" 2 "s.h would be two outputs" large.onnx -o s.so --weights=./s.h
absent "an output over another" s.so
try "a depfile over the model" 2 "cnn.onnx would be overwritten: it is the model" cnn.onnx --depfile=cnn.onnx -o s.so
try "a depfile over the header" 2 "s.h would be two outputs" cnn.onnx --depfile=s.h -o s.so
absent "a depfile over another" s.so
try "a depfile of nothing" 2 "--depfile wants an output, which --check does not make: .so .a .o .c .ptx" --check cnn.onnx --depfile=s.d
try "a depfile of a text" 2 "--depfile changes nothing in s.dl; it is for" cnn.onnx --depfile=s.d -o s.dl
try "a SONAME of an archive" 2 "--soname is for a .so" cnn.onnx --soname=x -o s.a
try "a SONAME with a folder" 2 "--soname=a/b.so: it is the name of a file, without a folder" cnn.onnx --soname=a/b.so -o s.so
try "an empty SONAME" 2 "--soname wants a value" cnn.onnx --soname= -o s.so
odd='o d\ #$x:'
mkdir -p "$odd" && cp beside.onnx beside.data "$odd"
try "a depfile" 0 "" "$odd/beside.onnx" -o "$odd/b.so" --depfile=b.d
printf 'include b.d\n%%.so:\n\t$(file >got,$@ $^)\n' >depends.mk
make -s -B -f depends.mk
if [ "$(cat got)" = "$odd/b.so $tmp/$odd/beside.data $odd/beside.onnx" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: make reads the depfile as $(cat got)"; fi
try "a depfile of a text whose weights are quantised" 0 "1 quantised" beside.dl --weights-as=i8 -o b.so --depfile=b.d
make -s -B -f depends.mk
if [ "$(cat got)" = "b.so beside.dl beside.data" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: make reads the depfile as $(cat got)"; fi
for f in cnn.onnx beside.onnx beside.data beside.dl; do
	if cmp -s $f spared/$f; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: $f was overwritten"; fi
done

try "quiet" 0 "" cnn.onnx -o m.so --threads 2
try "a name" 0 "" -o libother.so --name other -O1 cnn.onnx --target cpu:v2
try "a bound dim" 0 "f32\[4,3,8,8\]" cnn.onnx --dim batch=4 -o b.so --dump-ir=infer
try "a bounded dim" 0 "batch <= 64" cnn.onnx --dim batch=1..64 -o b.so --dump-ir=infer
try "commands" 0 "-shared" cnn.onnx -v -o v.so
try "commands, none run" 0 "-shared" cnn.onnx '-###' -o dry.so
absent "none run" dry.so
mkdir zig && printf '#!/bin/sh\nexit 1\n' >zig/zig && chmod +x zig/zig # the commands need no real one
for cc in "$tmp/zig/zig" "$tmp/zig/zig cc -target x86_64-linux-gnu.2.17"; do
	try "zig compiles the runtime" 0 "/exec\.c( |$)" cnn.onnx "--cc=$cc" '-###' -o dry.so
	if grep -q libdlrt.a out; then failed=$((failed + 1)); echo "FAIL: zig links this machine's libdlrt.a"; else passed=$((passed + 1)); fi
done
try "IR after a pass" 0 "^; after fuse" cnn.onnx --dump-ir=fuse
try "IR after all" 0 "^; after memplan" cnn.onnx --dump-ir
try "loop trees" 0 "contraction|tile" cnn.onnx --dump-ir=sched
try "loop trees of targets" 0 "^schedules for sm_90a$" cnn.onnx --dump-ir=sched --target=cuda:sm_80,sm_90a
try "PTX of the first GPU" 0 "" cnn.onnx -o first.ptx --target=cuda:sm_80,sm_90a
if grep -q '^.target sm_80$' first.ptx; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: PTX of another GPU"; fi
try "IR of GPUs" 0 "^; after fuse for sm_90a, sm_80$" cnn.onnx --dump-ir=fuse --target=cpu:v3,cuda:sm_80,sm_90a
try "IR of the CPU beside" 0 "^; after fuse for x86-64-v3$" cnn.onnx --dump-ir=fuse --target=cpu:v3,cuda:sm_80,sm_90a
try "IR of a node" 0 'relu' cnn.onnx --dump-ir=canon --dump-node=relu
try "no such pass" 2 "--dump-ir=frob: there is no such pass" cnn.onnx --dump-ir=frob
try "a node by its name" 0 'Relu' bell.onnx --dump-ir=infer "--dump-node=a$(printf '\a')"
try "a node by what messages print" 0 'Relu' bell.onnx --dump-ir=infer '--dump-node=a\x07'
try "no such node" 1 "--dump-node=frob: the model has no such node; --check lists the nodes" cnn.onnx --dump-ir=fuse --dump-node=frob
try "verified" 0 "^cnn.onnx: for .*: [1-9][0-9]* schedules proved, 0 not proved, 0 wrong" cnn.onnx --verify -o m.so
try "times" 0 "ms  sched" cnn.onnx --time-passes
try "times for GPUs" 0 "^for sm_90a, sm_80:$" cnn.onnx --time-passes --target=cuda:sm_80,sm_90a
try "PTX runs passes" 0 "^for sm_80:$" cnn.onnx --time-passes --target=cpu:v3,cuda:sm_80 -o times.ptx
if grep -q x86 out; then failed=$((failed + 1)); echo "FAIL: PTX runs a CPU's passes"; else passed=$((passed + 1)); fi
try "times of the output's parts" 0 "ms  C compiler" cnn.onnx --time-passes -o m.so
try "times for programs" 0 '^[{]"kind":"time","what":"C compiler","ms":[0-9.]*[}]$' cnn.onnx --time-passes --json -o m.so
try "a check for programs" 0 '^[{]"supported":true,"node":"[^"]*","op":"Conv","how":"[^"]*"[}]$' cnn.onnx --check --json
echo junk >junk.onnx
try "an error for programs" 1 '^[{]"kind":"error","file":"junk.onnx","text":".*","message":"junk.onnx: error: .*"[}]$' junk.onnx --json -o m.so
try "generated C" 0 "" cnn.onnx -o m.so --save-temps=kept
if ${CC:-cc} -std=gnu11 -fsyntax-only -w kept/m/k0_0.c kept/m/host.c; then passed=$((passed + 1)); else
	failed=$((failed + 1)); echo "FAIL: what --save-temps keeps does not compile"; fi

printf 'dlir 1\ngraph @main(%%x: f32[N]) -> (%%sums) {\n  %%y = Relu(%%x) : f32[N]\n  %%sums = Softmax(%%y) {axis = 0} : f32[N]\n}\n' >plain.dl
try "a text without nodes" 0 "" plain.dl -o plain.c
if grep -q '^	"sums",$' plain.c; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: kernels of a text without nodes"; fi

try "check" 0 'node "conv" \(Conv\): supported: product' --check cnn.onnx
try "check: a view" 0 'node "flatten" \(Flatten\): supported: view' --check cnn.onnx
try "check: how many" 0 ': 4 nodes, 4 supported$' --check cnn.onnx
try "check: an operator" 1 'node "three" \(Frobnicate\): not supported;' --check refused.onnx
try "check: the rest" 1 'node "two" \(Relu\): supported' --check refused.onnx
try "check: a function" 1 'node "call/dup" \(Add\): supported' --check bodies.onnx
try "check: a body" 1 'node "in_else" \(Relu\): supported' --check bodies.onnx
try "check: an operator in a body" 1 'node "cond/then_branch/Frobnicate_0" \(Frobnicate\): not supported' --check bodies.onnx
try "an operator in a body" 1 'error: node "cond/then_branch/Frobnicate_0" \(Frobnicate\): not supported \(in then_branch of "cond"\);' bodies.onnx -o no.so
try "an operator of two nodes" 1 'note: the same for "If_3/else_branch/Twirl_0"$' twins.onnx -o no.so
try "nodes of one name" 1 'error: node "n#4" \(Twirl\): not supported' twins.onnx -o no.so
try "check: nodes of one name" 1 'node "n#4" \(Twirl\): not supported \(in then_branch of "If_3"\);' --check twins.onnx
try "check: a node of the name that an inlined one has" 1 'node "c1/q" \(Sqrt\): supported' --check nested.onnx
try "check: an inlined node of another's name" 1 'node "c1/q" \(Frobnicate\): not supported;' --check nested.onnx
try "check: one node" 1 ': 1 node, 0 supported$' --check single.onnx
try "check: the first of one name" 1 'node "n" \(Relu\): supported' --check twins.onnx
try "check: faults of one name" 1 ': 6 nodes, 2 supported$' --check twins.onnx
absent "a refused model" no.so
try "check: a fault" 1 'node "product" \(MatMul\): not supported: inner dim' --check faulty.onnx
try "check: a GPU's strategies" 0 'node "conv" \(Conv\): supported: (row|window)' --check cnn.onnx --target=cuda:sm_80
mv beside.data gone.data
try "check: missing data" 1 'beside.onnx: error: [0-9]+ weights? lacks? (its|their) data: external data at "beside.data"' --check beside.onnx
if grep -q 'not supported' out; then failed=$((failed + 1)); echo "FAIL: missing data is no node"; else passed=$((passed + 1)); fi
mv gone.data beside.data
try "the fault" 1 'faulty.onnx: error: node "product" \(MatMul\): inner' faulty.onnx -o f.so

try "unbounded" 0 "" unbounded.onnx -o u.so
try "unbounded: warned of" 0 'warning: node "range" \(Range\)' unbounded.onnx -o u.so -Wunbounded
try "unbounded: refused" 1 'error: node "range" \(Range\).*no upper bound' unbounded.onnx -o u2.so -Werror=unbounded
absent "unbounded: refused" u2.so
try "unbounded: refused in PTX" 1 'error: node "range" \(Range\).*no upper bound' unbounded.onnx --target=cuda:sm_80 -o u.ptx -Werror=unbounded
try "bounded is taken" 0 "" cnn.onnx -o m.so -Werror=unbounded
try "duplicate: warned of" 0 "warning: .*" twice.onnx --target=cuda:sm_80 -o twice.ptx
if [ "$(grep -c warning out)" = 1 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL: a warning for each kind of target"; fi
try "shape: warned of" 0 "warning: .*declared" declared.onnx -o d.so
try "shape: silent" 0 "" declared.onnx -o d.so -Wno-shape
try "shape: an error" 1 "error: .*declared" declared.onnx -o d.so -Werror=shape
try "shape: all errors" 1 "error: .*declared" declared.onnx -o d.so -Werror
try "shape: all errors but" 0 "" declared.onnx -o d.so -Werror -Wno-shape
many="-Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache -Wno-seed -Wno-cache"
try "shape: silent after many options" 0 "" declared.onnx -o d.so $many -Wno-shape
try "shape: an error after many options" 1 "error: .*declared" declared.onnx -o d.so $many -Werror=seed $many -Werror=shape
try "shape: an error, silent in the end" 0 "" declared.onnx -o d.so -Werror=shape -Wno-shape
try "shape: silent, an error in the end" 1 "error: .*declared" declared.onnx -o d.so -Wno-shape -Werror=shape
try "shape: warned of in the end" 0 "warning: .*declared" declared.onnx -o d.so -Wno-shape -Wshape
try "shape: all errors, but this a warning" 0 "warning: .*declared" declared.onnx -o d.so -Wno-error=shape -Werror
try "shape: no errors in the end" 0 "warning: .*declared" declared.onnx -o d.so -Werror -Wno-error
try "shape: all silent, but this" 0 "warning: .*declared" declared.onnx -o d.so -Wno-all -Wshape
try "attribute: cannot be silenced" 2 "-Wno-attribute would silence an error; -Wno-error=attribute makes it a warning" cnn.onnx -o m.so -Wno-attribute
"$python" -c "
import onnx
m = onnx.load('cnn.onnx')
m.graph.node[1].attribute.add(name='pace', type=2, i=3)
onnx.save(m, 'paced.onnx')"
try "attribute: an error" 1 'error: node ".*has no attribute "pace"' paced.onnx -o p.so
try "attribute: an error where all warnings are silent" 1 'error: node ".*has no attribute "pace"' paced.onnx -o p.so -Wno-all
try "attribute: a warning" 0 'warning: node ".*has no attribute "pace"' paced.onnx -o p.so -Wno-error=attribute
try "attribute: a warning for code for GPUs" 0 'warning: node ".*has no attribute "pace"' paced.onnx --target=cuda:sm_80 -o p.ptx -Werror -Wno-error=attribute
try "attribute: checked" 0 'nodes, 4 supported' --check paced.onnx -Wno-error=attribute
try "options and the kinds of their values" 0 "^--calibrate folder$" --list-options
try "no such warning" 2 'no warning is called "frob"; there are all, .*, unproved' cnn.onnx -o m.so -Wfrob
try "no such error" 2 'no warning is called "unbouned"' cnn.onnx -o m.so -Werror=unbouned
try "help: warnings" 0 "warnings: all, .*, unproved" --help
try "help: targets" 0 "cuda: with sm_120, " --help
printf 'dlir 1\ngraph @main(%%s: i64[2], %%x: f32[4,3]) -> (%%y) {\n  %%y = Reshape(%%x, %%s) : f32[a,b]\n}\n' >shaped.dl
try "a shape that data gives" 0 "" shaped.dl -o shaped.so
dlcc=$build/bin/dlrun
try "dlrun: random inputs that do not do" 1 "note: the inputs were random; give others: --data DIR" shaped.so --bench --seconds 0.01
dlcc=$build/bin/dlcc
printf 'dlir 1\ngraph @main(%%x: f32[$"n rows"]) -> (%%y) {\n  %%c = Const {value = i64[2](-1, 8)} : i64[2]\n  %%y = Reshape(%%x, %%c) : ?\n}\n' >eights.dl
try "a size that must be a multiple" 0 "" eights.dl -o eights.so
printf 'dlir 1\ngraph @main(%%x: f32[n]) -> (%%y, %%at) {\n  %%k = Shape(%%x) : ?\n  %%y, %%at = TopK(%%x, %%k) : ?, ?\n}\n' >sorts.dl
try "a number of steps that follows from a dim" 0 "" sorts.dl -o sorts.so
dlcc=$build/bin/dlrun
try "dlrun: a name that is not a dim of an input" 1 'inputs have no such dim; it has "n"$' sorts.so --bench --dim bits=3
try "dlrun: the dims of inputs alone" 0 '"dims":{"n":5}' sorts.so --bench --seconds 0.01 --dim n=5
try "dlrun: a dim that nobody gave" 1 'note: no --dim sets "n rows", so it is 1; write --dim "n rows"=VALUE' eights.so --bench
try "dlrun: a dim that was given" 0 '"n rows":8' eights.so --bench --seconds 0.01 --dim "n rows"=8
dlcc=$python
try "run.py: a file that is no test" 1 '^no suite or case "declared.dl"; HACKING.md lists the suites$' "$root/tests/run.py" --build "$build" declared.dl
for counts in "0 passed, 0 failed" "0 passed, 0 failed, 0 skipped"; do
	try "run.py: a script without a test: $counts" 0 "'fail'.*it ran no test: $counts'" -c "import sys; sys.path.insert(0, '$root/tests'); import suites
class Runner:
    class options: all = False
    def run(self, *arguments, **options): return 0, '$counts\n'
print(suites.script_tests('tests/empty/run.sh').run(Runner()))"
done
dlcc=$build/bin/dlcc-opt
try "dlcc-opt: a test as it stands" 0 "Relu" declared.dl -p infer
try "dlcc-opt: unknown option" 2 "unknown option --frob" declared.dl --frob
try "dlcc-opt: no input" 2 "no model" -p infer
try "dlcc-opt: no such pass" 2 "-p frob: there is no such pass" declared.dl -p frob
try "dlcc-opt: no value" 2 "-p wants a value" declared.dl -p
try "dlcc-opt: no file" 1 "cannot be read: No such file" none.dl
try "dlcc-opt: a folder" 1 "cannot be read: Is a directory" folder.dl
try "dlcc-opt: too early" 1 'node "one" \(Relu\): sched works on kernels; run lower first' declared.dl -p sched
echo "$passed passed, $failed failed"
[ $failed = 0 ]

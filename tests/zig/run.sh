#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zig as the C compiler: which C library an artifact needs, other machines, a machine without another compiler; and the wheel for other
# machines that `make wheel` made, if it is there. zig is that on PATH, or of build/venv-wheel. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
build=$(cd "${BUILD:-build}" && pwd)
zig=$(command -v zig || ls build/venv-wheel/lib/python3*/site-packages/ziglang/zig 2>/dev/null | head -n 1)
[ -n "$zig" ] || {
	echo "zig is not installed (pip install ziglang, or make wheel)"
	exit 77
}
zig=$(realpath "$zig")
case $(basename "$build") in san | tsan) echo "zig does not link the sanitizers' runtime"; exit 77 ;; esac
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
skipped=0
. tests/check.sh
dlcc=$build/bin/dlcc dlrun=$build/bin/dlrun python=$root/build/venv/bin/python3
mkdir "$tmp/bin" && ln -s "$zig" "$tmp/bin/zig" && export PATH="$tmp/bin:$PATH"
cd "$tmp" && "$python" "$root/tests/package/model.py" . || exit 2

# The newest GLIBC_ symbol of a file; that of the oldest, 2.2.5, if it has none.
newest() { (echo 2.2.5; objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | cut -c7-) | sort -V | tail -n 1; }
at_most() { [ "$(printf '%s\n%s\n' "$(newest "$1")" "$2" | sort -V | tail -n 1)" = "$2" ] || { echo "$1 needs glibc $(newest "$1"), beyond $2"; return 1; }; }
runs() { # artifact
	${CC:-cc} -std=gnu11 -O1 -DNAME=cnn -I"$root/runtime" "$root/tests/package/app.c" "$1" -Wl,-rpath,"$PWD" -o app -lm -lpthread -ldl && ./app cnn.data 5
}
says() { # status, text, arguments of dlcc
	local status=$1 text=$2
	shift 2
	"$dlcc" "$@" >log 2>&1
	[ $? = "$status" ] && grep -qF -- "$text" log || { cat log; return 1; }
}

shared() { $dlcc cnn.onnx --cc=zig -o libcnn.so --name=cnn && runs ./libcnn.so && at_most libcnn.so 2.28; }
stripped() { ! nm libcnn.so 2>/dev/null | grep -q . && [ "$(stat -c %s libcnn.so)" -lt 1000000 ] && readelf -SW libcnn.so | grep -q ' \.dlcc\.weights'; }
only_two() { [ "$(nm -D --defined-only libcnn.so | awk '{print $3}' | sort | tr '\n' ' ')" = "cnn_describe cnn_get_api " ]; }
older() { $dlcc cnn.onnx --cc=zig --glibc=2.17 -o old.so --name=cnn && runs ./old.so && at_most old.so 2.17; }
given() { $dlcc cnn.onnx "--cc=zig cc -target x86_64-linux-gnu.2.17" -o given.so --name=cnn && at_most given.so 2.17; }
archive() { $dlcc cnn.onnx --cc=zig -o cnn.a --name=cnn && runs cnn.a; }
variants() { $dlcc cnn.onnx --cc=zig --target=cpu:v2,v3,v4-bf16,generic -o libmany.so --name=cnn && runs ./libmany.so; }
arm() { # target
	$dlcc cnn.onnx --cc=zig --target="cpu:$1" -o arm.so --name=cnn && readelf -h arm.so | grep -q 'Machine: *AArch64' && at_most arm.so 2.28 &&
		[ "$(readelf -d arm.so | grep -c NEEDED)" -ge 1 ] && readelf -d arm.so | grep -Fq 'Library soname: [arm.so]' &&
		readelf --dyn-syms -W arm.so | grep -q ' cnn_get_api$'
}
arm_archives() {
	for n in one two; do $dlcc cnn.onnx --cc=zig --target=cpu:aarch64 --cache=cache -o $n.a 2>/dev/null || return; done
	[ "$(readelf -sW one.a | awk '$5 == "GLOBAL" && $7 != "UND" {print $8}' | sort | tr '\n' ' ')" = "one_describe one_get_api " ] &&
		zig cc -target aarch64-linux-gnu.2.28 -DNAME=one -DTWO=two -I"$root/runtime" "$root/tests/package/app.c" one.a two.a -o arm -lm -lpthread -ldl &&
		readelf -h arm | grep -q 'Machine: *AArch64'
}
arm_cached() { # the runtime is compiled once
	$dlcc cnn.onnx --cc=zig --target=cpu:aarch64 --cache=cache -o one.so 2>/dev/null && $dlcc matmul.onnx --cc=zig --target=cpu:aarch64 --cache=cache -v -o two.so 2>log &&
		grep -q "cache: exec.c: is " log && $dlcc cnn.onnx --cc=zig --target=cpu:aarch64 -o again.so --name=one --soname=one.so && cmp one.so again.so
}
alone() { # zig, where there is no other compiler
	rm -rf only && mkdir only && ln -s "$zig" "only/$1" && PATH=$PWD/only "$dlcc" cnn.onnx -o alone.so --name=cnn -v 2>log && grep -q "only/$1 cc -target" log && runs ./alone.so
}
check "a shared library" shared
check "it is stripped, and has its weights" stripped
check "it exports two functions" only_two
check "an older glibc" older
check "an own -target" given
check "an archive" archive
check "two archives in one program, for 64-bit Arm" arm_archives
check "several CPUs" variants
check "64-bit Arm" arm aarch64
check "64-bit Arm with i8mm" arm aarch64-i8mm
check "the runtime for 64-bit Arm in a cache" arm_cached
check "zig without another compiler" alone zig
check "python-zig without another compiler" alone python-zig
check "--glibc with another compiler" says 1 "--glibc=2.28: $(command -v gcc) links with the C library of this machine, whatever its version is; give --cc=zig" cnn.onnx --cc=gcc --glibc=2.28 -o no.so
check "--glibc with a -target" says 1 "has a -target, which names the C library" cnn.onnx "--cc=zig cc -target x86_64-linux-gnu" --glibc=2.28 -o no.so
for v in 2 2. 2.9 2.1x 3.1 2.28.1 " 2.28" "2.28 -o x" "2. 28" 2.9999; do
	check "--glibc=$v" says 2 "--glibc=$v: it is a version of glibc from 2.17 on, such as 2.28" cnn.onnx --cc=zig "--glibc=$v" -o no.so
done
check "two machines in one artifact" says 1 "makes code for x86_64, and aarch64 is for aarch64" cnn.onnx --cc=zig --target=cpu:v3,aarch64 -o no.so
nothing() { [ ! -e no.so ] && [ ! -e no.h ]; }
check "what was refused leaves nothing" nothing

# ---- The wheel ----

wheel=$(ls "$root"/build/wheel/dist/dlcc-*-manylinux_2_28_*.whl 2>/dev/null | head -n 1)
audited() { "$root/build/venv-wheel/bin/python3" -m auditwheel show "$wheel" | tr '\n' ' ' | grep -q 'is consistent with the following platform tag: "manylinux_2_28_'; }
unpacked() {
	"$python" -m zipfile -e "$wheel" wheel && [ -z "$(find wheel -path '*dlcc.libs*')" ] || return
	for f in wheel/dlcc/prefix/bin/* wheel/dlcc/prefix/lib/*.so*; do at_most "$f" 2.28 || return; done
}
licences() {
	for f in wheel/dlcc/prefix/lib/*.so*; do grep -qiE "license|copyright" "wheel/dlcc-"*.dist-info/licenses/"$(basename "$f").txt" || { echo "no licence of $f"; return 1; }; done
	grep -q "GNU LESSER GENERAL PUBLIC LICENSE" wheel/dlcc-*.dist-info/licenses/libgmp*.txt && grep -q '^Requires-Dist: ziglang.*extra == "cc"' wheel/dlcc-*.dist-info/METADATA
}
installed() { # in an environment without a C compiler
	python3 -m venv --without-pip venv && "$python" -m zipfile -e "$wheel" venv/lib/python3*/site-packages && mkdir -p none || return
	local site
	site=$(echo venv/lib/python3*/site-packages) && chmod +x "$site"/dlcc/prefix/bin/* && ln -s "$(dirname "$zig")" "$site/ziglang" &&
		ln -s "$(dirname "$("$python" -c 'import numpy; print(numpy.__file__)')")" "$site/numpy" || return
	PYTHONPATH=$("$python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))') PATH=$PWD/none venv/bin/python3 - "$root/examples/digits/digits.onnx" <<-PY
		import sys, dlcc, numpy
		assert "venv" in dlcc.__file__, dlcc.__file__
		assert dlcc.compile(sys.argv[1], level=0)(numpy.zeros((2, 1, 8, 8), numpy.float32)).shape == (2, 10)
	PY
}
bert() { # bert_base in an environment that pip made from the wheel and its extra, where there is no other compiler, beside ONNX Runtime
	python3 -m venv piped && piped/bin/pip install -q --disable-pip-version-check "$wheel[cc]" && mkdir -p none &&
		"$python" "$bench/materialise.py" "$bench/graphs/bert_base.onnx" bert >/dev/null || return
	PATH=$PWD/none piped/bin/python3 - <<-'PY' || return
		import dlcc, numpy, shutil
		assert not any(map(shutil.which, ("cc", "gcc", "clang", "zig")))
		model = dlcc.compile("bert/model.onnx")
		model.save("bert.so")
		ids = numpy.arange(34, dtype=numpy.int64).reshape(2, 17)
		numpy.save("y.npy", model(ids, numpy.ones_like(ids), numpy.zeros_like(ids)))
	PY
	at_most bert.so 2.28 && "$python" - <<-'PY'
		import numpy, onnxruntime
		ids = numpy.arange(34, dtype=numpy.int64).reshape(2, 17)
		feeds = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
		expected, = onnxruntime.InferenceSession("bert/model.onnx", providers=["CPUExecutionProvider"]).run(None, feeds)
		numpy.testing.assert_allclose(numpy.load("y.npy"), expected, rtol=0, atol=1e-4 * abs(expected).max())
	PY
}
bench=$(cd "$root" && realpath -m "${BENCH:-../shared/bench}")
if [ -n "$wheel" ] && [ -x "$root/build/venv-wheel/bin/python3" ]; then
	check "auditwheel show" audited
	check "no file of the wheel needs a later glibc" unpacked
	check "licences in the wheel" licences
	check "the wheel in an environment without a C compiler" installed
	if [ "${TESTS-}" = all ] && [ -e "$bench/graphs/bert_base.onnx" ]; then
		check "the wheel installed by pip with its extra cc, and bert_base" bert # takes the network
	else
		skipped=$((skipped + 1))
	fi
else
	skipped=$((skipped + 5)) # make wheel
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]

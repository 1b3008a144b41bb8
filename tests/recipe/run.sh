#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HACKING.md's recipes for an elementwise and a structured operator and for a pass still work: their lines go into a copy of the
# source, which then compiles a model with both operators, for the CPU and for the GPU that is simulated, by way of the pass.
set -eu
cd "$(dirname "$0")/../.."
build=$(cd "${BUILD:-build}" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/build"
cp -a Makefile base ir ops frontend passes codegen runtime tools tests "$copy"
cp -a "$build"/{obj,gen,flags,lib,include} "$copy/build"
python=${PYTHON:-$PWD/build/venv/bin/python3}

# The recipes: what follows "/* FILE */" in an indented block, up to the next such line, goes to the end of FILE; after "/* FILE,
# before TEXT */", before the line with TEXT.
"$python" - "$copy" <<'PY'
import os, re, sys

lines = re.findall(r"^    /\* (\w+/\S+?)(?:, before (.*))? \*/\n((?:    (?!/\* \w+/).*\n|\n(?=    ))+)", open("HACKING.md").read(), re.M)
assert [file for file, _, _ in lines] == ["ir/graph/ops.def", "ops/onnx/elementwise.c", "ir/graph/ops.def", "ops/onnx/contract.c",
                                          "passes/kernel/twice.c", "passes/passes.def"], lines
for file, before, line in lines:
    path = os.path.join(sys.argv[1], file)
    text = open(path).read() if os.path.exists(path) else ""
    at = re.search(r"^.*" + re.escape(before), text, re.M).start() if before else len(text)
    with open(path, "w") as f:
        f.write(text[:at] + "\n" * (not before) + re.sub(r"^    ", "", line, flags=re.M) + text[at:])
PY

make -s -C "$copy" BUILD=build CC="${CC:-gcc}" OPT=-O0 WARN=-g0 build/bin/dlcc build/bin/dlrun build/lib/libdlrt.a build/include/dlrt.h >"$copy/log" 2>&1 || {
	tail -n 5 "$copy/log"
	exit 1
}
"$python" - "$copy" <<'PY'
import os, sys
import numpy as np
import onnx
from onnx import TensorProto, helper

info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", ["N", 5]), ("y", ["N", 5]), ("z", ["N"]))]
nodes = [helper.make_node("Cube", ["x"], ["y"]), helper.make_node("RowDot", ["x", "y"], ["w"]), helper.make_node("Mul", ["w", "two"], ["z"])]
graph = helper.make_graph(nodes, "g", info[:1], info[1:], [helper.make_tensor("two", TensorProto.FLOAT, [], [2])])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/cube.onnx")
np.save(sys.argv[1] + "/x.npy", np.arange(15, dtype=np.float32).reshape(3, 5))
PY
cd "$copy"
right() {
	mkdir "$1"
	build/bin/dlrun cube.so --device "$1" -i x=x.npy -o "$1"
	"$python" -c "
import numpy as np
x = np.arange(15.0).reshape(3, 5)
assert (np.load('$1/y.npy') == x ** 3).all() and (np.load('$1/z.npy') == 2 * (x ** 4).sum(1)).all()"
}

build/bin/dlcc cube.onnx --dump-ir=fuse >fused
build/bin/dlcc cube.onnx --verify --dump-ir=twice >twice
grep -q 'mul(.*, 2)' fused && ! grep -q 'mul(.*, 2)' twice
# A pass that must run before another one cannot have its row after that.
sed -i '/^PASS(caches/,/")$/{H;d}; /^PASS(quantise,/{x;G}' passes/passes.def
if gcc -std=gnu11 -I. -fsyntax-only passes/passes.c >order 2>&1; then
	echo "a row in the wrong place is accepted"
	exit 1
fi
grep -q 'pass caches must run before pass canon' order
build/bin/dlcc cube.onnx -o cube.so
right cpu
if [ ! -e "$build/ptxsim/libcuda.so.1" ] || ! build/bin/dlcc --list-targets | grep -q cuda:; then
	echo "1 passed, 0 failed, 1 skipped"
	exit
fi
build/bin/dlcc cube.onnx -o cube.so --target=cuda:sm_80
LD_LIBRARY_PATH="$build/ptxsim" right cuda
echo "2 passed, 0 failed"

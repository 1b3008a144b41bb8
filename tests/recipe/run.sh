#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# HACKING.md's recipe for an elementwise operator still works: its lines go into a copy of the source, which then
# compiles a model with the operator, for the CPU and for the GPU that is simulated.
set -eu
cd "$(dirname "$0")/../.."
build=$(cd "${BUILD:-build}" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/build"
cp -a Makefile base ir ops frontend passes codegen runtime tools tests "$copy"
cp -a "$build"/{obj,gen,flags,lib,include} "$copy/build"
python=${PYTHON:-$PWD/build/venv/bin/python3}

# The recipe: a line after "/* FILE */" goes to the end of FILE.
"$python" - "$copy" <<'PY'
import os, re, sys

lines = re.findall(r"^    /\* (\S+) \*/\n    (.+)$", open("HACKING.md").read(), re.M)
assert [file for file, _ in lines] == ["ir/ops.def", "ops/elementwise.c"], lines
for file, line in lines:
    with open(os.path.join(sys.argv[1], file), "a") as f:
        f.write(line + "\n")
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

info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 5]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Cube", ["x"], ["y"])], "g", info[:1], info[1:])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/cube.onnx")
np.save(sys.argv[1] + "/x.npy", np.arange(15, dtype=np.float32).reshape(3, 5))
PY
cd "$copy"
right() {
	mkdir "$1"
	build/bin/dlrun cube.so --device "$1" -i x=x.npy -o "$1"
	"$python" -c "import numpy as np; assert (np.load('$1/y.npy') == np.arange(15.0).reshape(3, 5) ** 3).all()"
}

build/bin/dlcc cube.onnx -o cube.so
right cpu
if [ ! -e "$build/ptxsim/libcuda.so.1" ] || ! build/bin/dlcc --list-targets | grep -q cuda:; then
	echo "1 passed, 0 failed, 1 skipped"
	exit
fi
build/bin/dlcc cube.onnx -o cube.so --target=cuda:sm_80
LD_LIBRARY_PATH="$build/ptxsim" right cuda
echo "2 passed, 0 failed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Initialisers that are inputs as well: constants, with one warning, or inputs with a default. Prints "N passed, N failed".
cd "$(dirname "$0")/../.." || exit 2
. tests/check.sh
root=$PWD
build=$(cd "${BUILD:-build}" && pwd)
python=$root/build/venv/bin/python3 dlcc=$build/bin/dlcc dlrun=$build/bin/dlrun
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
says() { # exit status, a pattern that output must have, or "" for none at all, arguments
	local want=$1 pattern=$2 got
	shift 2
	"$dlcc" --cc="$root/tests/tools/clang-O0" "$@" >out 2>&1
	got=$?
	[ $got = "$want" ] && if [ -n "$pattern" ]; then grep -Eq -- "$pattern" out; else [ ! -s out ]; fi || { cat out; return 1; }
}

# y = reshape((x * w) @ k, s); k is larger than what dlcc prints whole, s gives sizes.
"$python" - <<'PY' || exit 1
import numpy as np
import onnx
from onnx import helper, numpy_helper

values = {"w": np.array([1, 2, 3], np.float32), "k": np.arange(210, dtype=np.float32).reshape(3, 70), "s": np.array([2, -1], np.int64)}


def write(name, ir=10, w=(3,)):
    inputs = [helper.make_tensor_value_info(n, 7 if n == "s" else 1, d) for n, d in (("x", ("N", 3)), ("w", w), ("k", (3, 70)), ("s", (2,)))]
    nodes = [helper.make_node("Mul", ["x", "w"], ["p"]), helper.make_node("MatMul", ["p", "k"], ["q"]), helper.make_node("Reshape", ["q", "s"], ["y"])]
    graph = helper.make_graph(nodes, name, inputs, [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(v, n) for n, v in values.items()])
    onnx.save(helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", 21)]), name + ".onnx")


write("m")
m = onnx.load("m.onnx")
m.graph.input.append(helper.make_tensor_value_info("t", onnx.TensorProto.STRING, (1,)))
m.graph.initializer.append(helper.make_tensor("t", onnx.TensorProto.STRING, [1], [b"text"]))
onnx.save(m, "strings.onnx")
write("old", ir=3)
write("symbolic", w=("M",))
write("wrong", w=(4,))
given = {"x": np.array([[1, 2, 3], [-4, 5, 6]], np.float32), "w": np.array([0, 0, 1], np.float32),
         "k": np.ones((3, 70), np.float32), "s": np.array([4, 35], np.int64)}
for n, v in given.items():
    np.save(n, v)
for names in ("", "w", "k", "s", "wk", "wks"):
    v = {**values, "x": given["x"], **{n: given[n] for n in names}}
    np.save("want_" + names, ((v["x"] * v["w"]) @ v["k"]).reshape(v["s"]))
PY
all="--overridable=w --overridable k --overridable=s"

runs() { # library, names of inputs that are given, further arguments
	local inputs="-i x=x.npy" n
	for n in $(echo "$2" | grep -o .); do inputs="$inputs -i $n=$n.npy"; done
	rm -rf got
	"$dlrun" "./$1" $inputs -o got ${3:-} && "$python" -c 'import numpy, sys; a, b = map(numpy.load, sys.argv[1:]); assert a.shape == b.shape and (a == b).all()' \
		got/y.npy "want_$2.npy"
}
constants() { says 0 'm.onnx: warning: 3 inputs have initialisers and are compiled as constants: "w", .*; --overridable=NAME' m.onnx -o c.so && [ "$(grep -c warning out)" = 1 ] && runs c.so "" &&
	! "$dlrun" c.so --describe | grep "input w"; }
check "constants, and one warning" constants
check "the warning is silent" says 0 "" m.onnx -o c.so -Wno-overridable
check "the warning is an error" says 1 'error: 3 inputs have initialisers' m.onnx -o none.so -Werror=overridable
check "what stays a constant is counted" says 0 '2 inputs have initialisers and are compiled as constants: "w"' m.onnx -o some.so --overridable=k
old() { says 0 "" old.onnx -o old.so && runs old.so ""; }
check "IR version 3: constants, and no warning" old
check "IR version 3: no defaults" says 1 "error: --overridable=w: in IR version 3 " old.onnx -o none.so --overridable=w
check "no such initialiser" says 1 "error: --overridable=x: the model has no input of this name with an initialiser; it has \"w\", \"k\"" m.onnx -o none.so --overridable=x
check "another type" says 1 'error: "w": the input.s declared type is not that of its initialiser' wrong.onnx -o none.so --overridable=w
strings() { says 0 "" strings.onnx -o strings.so --overridable=t $all && "$dlrun" strings.so --describe | grep -Fxq "input t: str[1] (has a default)"; }
check "strings" strings
check "a declared symbol" says 0 "" symbolic.onnx -o symbolic.so $all
check "of a text" says 2 "--overridable wants an ONNX model" none.dl -o none.so --overridable=w
nothing() { [ ! -e none.so ]; }
check "nothing is made" nothing

check "inputs with defaults" says 0 "" m.onnx -o m.so $all
text() { says 0 "" m.onnx -o m.dl $all && says 0 "" m.dl -o text.so && mkdir direct && says 0 "" m.onnx -o direct/text.so $all && cmp text.so direct/text.so; }
check "as text, and back" text
check "weights beside" says 0 "" m.onnx -o beside.so --weights=beside.weights $all
described() { "$dlrun" m.so --describe | grep -Fxq "input w: f32[3] (has a default)" && grep -q 'input 1: "w" f32\[3\], which has a default' m.h; }
check "described" described
for so in m.so symbolic.so text.so beside.so; do
	for names in "" w k s wk wks; do check "$so, given: $names" runs $so "$names"; done
done
random() { "$dlrun" m.so --bench --seconds=0.01; }
check "times of defaults" random
if "$dlcc" --list-targets | grep -q cuda:; then
	check "for GPUs" says 0 "" m.onnx -o gpu.so --target=cuda:sm_80 $all
	export LD_LIBRARY_PATH=$build/ptxsim
	for names in "" w k s wks; do check "a GPU, given: $names" runs gpu.so "$names" "--device cuda"; done
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]

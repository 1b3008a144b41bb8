# SPDX-License-Identifier: Apache-2.0
"""Models whose operators a file defines, and what runs of them give: models.py BUILD. Prints a line for each fault and
"N passed, N failed"."""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["PATH"] = os.path.join(sys.argv[1], "bin") + os.pathsep + os.environ["PATH"]
import dlcc  # noqa: E402 - needs the path

warnings.simplefilter("error")
OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("a", 3), helper.make_opsetid("b", 1)]
passed, failed = 0, 0


def model(nodes, inputs, outputs, functions=()):
    def value(name, dtype, shape):
        return helper.make_tensor_value_info(name, dtype, shape)
    graph = helper.make_graph(nodes, "g", [value(*i) for i in inputs], [value(o, TensorProto.FLOAT, None) for o in outputs])
    return helper.make_model(graph, ir_version=10, opset_imports=OPSETS, functions=list(functions))


def node(op, inputs, outputs, name="n", domain="a", **attrs):
    return helper.make_node(op, inputs, outputs, name, domain=domain, **attrs)


def ops(text, name="ops.dl"):
    with open(name, "w") as f:
        f.write(text if text.startswith("#") else "dlir 1\n" + text)
    return [name]


def check(what, good):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL: {what}")


def refused(what, m, files, pattern):
    try:
        dlcc.compile(m, ops=files)
        check(what + ": compiles", False)
    except dlcc.CompileError as e:
        check(f"{what}: {e}", re.search(pattern, str(e)))


X = ("x", TensorProto.FLOAT, ["N", 4])
x = np.array([[1, -2, 3, -4], [0.5, 0.25, -8, 2]], np.float32)
DOUBLE = "operator a::Double(%x: T[S...]) {by: float = 2.0} -> (%y: T[S...]) kernel {\n  y[i] = mul(by, x[i]) for i < S\n}\n"

# A node takes the attribute's value, or the default.
m = model([node("Double", ["x"], ["t"], by=3.0), node("Double", ["t"], ["y"])], [X], ["y"])
check("attributes", np.array_equal(dlcc.compile(m, ops=ops(DOUBLE))(x), 6 * x))
check("check", dlcc.check(m, ops=["ops.dl"]).ok and not dlcc.check(m).ok)
check("a cache", np.array_equal(dlcc.compile(m, ops=["ops.dl"], cache="cache")(x), 6 * x)
      and np.array_equal(dlcc.compile(m, ops=ops(DOUBLE.replace("2.0", "4.0")), cache="cache")(x), 12 * x))

# A definition comes before a function of the model; without it the function is used.
function = helper.make_function("a", "Double", ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])], OPSETS[:1])
m = model([node("Double", ["x"], ["y"])], [X], ["y"], [function])
check("the model's function", np.array_equal(dlcc.compile(m)(x), -x))
check("a definition in place of a function", np.array_equal(dlcc.compile(m, ops=ops(DOUBLE))(x), 2 * x))

# An operator of the standard's domain that dlcc lacks; one in the body of an If; a definition over two files.
half = "operator ai.onnx::Half(%x: T[S...]) -> (%y: T[S...]) {\n  %y = b::Scaled(%x) {by = 0.5} : ?\n}\n"
scaled = "operator b::Scaled(%x: T[S...]) {by: float} -> (%y: T[S...]) {\n  %f = Const {value = @by} : ?\n  %y = Mul(%x, %f) : ?\n}\n"
branches = [helper.make_graph([node("Half", ["x"], [o], f"{o}_half", "")] if i else [helper.make_node("Abs", ["x"], [o])], o, [],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None)]) for i, o in enumerate("uv")]
m = model([helper.make_node("If", ["c"], ["y"], "if", then_branch=branches[0], else_branch=branches[1])],
          [X, ("c", TensorProto.BOOL, [])], ["y"])
files = ops(half, "half.dl") + ops(scaled, "scaled.dl")
got = dlcc.compile(m, ops=files)
check("a definition in a body", np.array_equal(got(x, np.array(False)), x / 2) and np.array_equal(got(x, np.array(True)), abs(x)))
refused("a definition that another file should have", m, files[:1], r"half.dl:3: error: no definition of b.Scaled is given")
refused("one operator in two files", m, files + ops(half, "again.dl"), r"again.dl:2: error: Half is also defined in half.dl")

# Omitted operands and results, sizes that a run checks, and indices that it checks.
take = """operator a::Take(%x: T[N,K], %rows: i64[M], optional %b: T[K]) -> (%y: T[M,K], %sum: T[M]) {
  %t = a::Rows(%x, %rows) : ?
  %y = Clip(%t) : ?
  %one = Const {value = i64[1](1)} : ?
  %sum = ReduceSum(%t, %one) {keepdims = 0} : ?
}
operator a::Rows(%x: T[N,K], %rows: i64[M]) -> (%y: T[M,K]) check M <= N "there are more rows than x has" kernel {
  y[m,k] = x[rows[m],k] for m < M, k < K
}
"""
m = model([node("Take", ["x", "r", ""], ["", "y"], "take")], [X, ("r", TensorProto.INT64, ["R"])], ["y"])
got = dlcc.compile(m, ops=ops(take))
check("an omitted result", np.array_equal(got(x, np.array([1, -2])), x.sum(1)[[1, 0]]))
for rows, pattern in (([0, 1, 1], r'node "take" \(a.Take\): there are more rows than x has'), ([2], r'node "take" \(a.Take\): index out of range: 2, in a dim of 2')):
    try:
        got(x, np.array(rows))
        check(f"rows {rows}", False)
    except dlcc.RunError as e:
        check(f"rows {rows}: {e}", re.search(pattern, str(e)))

# Refusals.
m = model([node("Double", ["x"], ["y"])], [X], ["y"])
refused("no definition", m, [], r'not supported, as no operator of domain "a" is; .*--op=FILE.dl')
refused("another operator's", m, ops(scaled.replace("b::Scaled", "a::Other")), r'of domain "a" there are definitions of Other')
refused("a domain that no node uses", m, ops(scaled), r'no operator of domain "a" is; .*--op=FILE.dl; .*ops.dl defines b::Scaled')
refused("no such file", m, ["none.dl"], r"none.dl: error: cannot be read: No such file")
refused("a graph", m, ops("graph @main(%x: f32[2]) -> (%x) {}"), r"ops.dl:2: error: expected 'operator'")
refused("no text", m, ops("# \0"), r"the file is not text")
m = model([helper.make_node("Scatter", ["x", "i", "x"], ["y"], "s")], [X, ("i", TensorProto.INT64, ["N", 4])], ["y"])
refused("an old name of an operator", m, ops(half.replace("Half", "Scatter") + scaled), r"cannot be redefined")
graph = helper.make_graph([], "body", [], [])
m = model([node("Double", ["x"], ["y"], body=graph)], [X], ["y"])
refused("a graph as attribute", m, ops(DOUBLE), r'attribute "body" holds a graph')

# A result's size below 0, where it is known and where only the run knows it; a division by an attribute of 0.
shorter = "operator a::Shorter(%x: T[S]) {k: int = 5} -> (%y: T[S-k]) kernel {\n  y[i] = x[i] for i < S-k\n}\n"
for size in 2, "N":
    m = model([node("Shorter", ["x"], ["y"])], [("x", TensorProto.FLOAT, [size])], ["y"])
    negative = r"a size of result 1, T\[S-k\] in .*ops.dl:2, is negative: dim 0 is -3"
    if size == 2:
        refused("a negative size", m, ops(shorter), negative)
        continue
    got = dlcc.compile(m, ops=ops(shorter))
    check("a size of 0", got(np.ones(5, np.float32)).shape == (0,))
    try:
        got(np.ones(2, np.float32))
        check("a negative size of the run", False)
    except dlcc.RunError as e:
        check(f"a negative size of the run: {e}", re.search(negative, str(e)))
refused("a division by 0", m, ops(shorter.replace("S-k", "S/k").replace("5", "0")), r"ops.dl:2: error: a size in T\[S/k\].* divides by 0")

# The definitions of the manual, and those of the example, are read.
with open(os.path.join(ROOT, "docs", "operators.md")) as f:
    blocks = re.findall(r"((?:^    .*\n|^\n)+)", f.read(), re.M)
text = "dlir 1\n" + "".join(re.sub(r"^    ", "", b, flags=re.M).replace("dlir 1\n", "") for b in blocks if "operator com" in b)
with open("manual.dl", "w") as f:
    f.write(text + 'graph @main(%x: f16[2,3,8], %s: f16[1], %w: f16[5,8]) -> (%a, %b, %c) {\n'
            '  %a = com.example::ScaledSwish(%x, %s) : ? @"a"\n  %b = com.example::GatedProduct(%x, %w) : ? @"b"\n'
            '  %c = com.example::Pool(%x) {size = 2} : ? @"c"\n}\n')
run = subprocess.run([os.path.join(sys.argv[1], "bin", "dlcc-opt"), "manual.dl", "-p", "infer,canon,lower", "--verify", "--no-graph"],
                     capture_output=True, text=True)
check(f"the manual: {run.stderr}", text.count("\noperator ") == 3 and run.returncode == 0)
print(f"{passed} passed, {failed} failed")

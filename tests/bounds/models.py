#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Long and wide models, each a family with one size: what a compiler may handle in worse than linear time.

    models.py KIND N FILE      a model of about N nodes
    models.py --list           the kinds, one a line
"""

import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
KINDS = {}


def kind(f):
    KINDS[f.__name__] = f
    return f


class Model:
    def __init__(self, opset=20):
        self.nodes, self.inputs, self.outputs, self.constants, self.opset = [], [], [], [], opset

    def input(self, name, dims, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def const(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, *operands, outputs=1, **attributes):
        """The result's name; a list where OUTPUTS is more than one."""
        names = [f"v{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(operands), names, name=f"{op}_{len(self.nodes)}", **attributes))
        return names if outputs > 1 else names[0]

    def output(self, name, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def write(self, path):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)
        with open(path, "wb") as f:
            f.write(model.SerializeToString())


def chain(m, n, x, steps, dtype=FLOAT):
    """N nodes in a row: STEPS in turn, functions of the value before."""
    for i in range(n):
        x = steps[i % len(steps)](x)
    m.output(x, dtype)


def of(m, op, **attributes):
    return lambda x: m.node(op, x, **attributes)


# ---- Chains ----

@kind
def elementwise(m, n):
    c = m.const(np.float32(0.5))
    chain(m, n, m.input("x", ["N", 64]), [of(m, "Relu"), lambda x: m.node("Add", x, c), of(m, "Sigmoid"), lambda x: m.node("Mul", x, c)])


@kind
def relus(m, n):
    """One Relu is left of them, which has all their names."""
    chain(m, n, m.input("x", ["N", 64]), [of(m, "Relu")])


@kind
def integers(m, n):
    c = m.const(np.int64(3))
    chain(m, n, m.input("x", ["N", 8], INT64), [lambda x: m.node("Add", x, c), lambda x: m.node("Mul", x, c), of(m, "Abs")], INT64)


@kind
def squares(m, n):
    chain(m, n, m.input("x", [8]), [lambda x: m.node("Mul", x, x), of(m, "Sin")])


@kind
def doubling(m, n):
    chain(m, n, m.input("x", [8]), [lambda x: m.node("Add", x, x), of(m, "Sin")])


@kind
def adds(m, n):
    chain(m, n, m.input("x", [4]), [lambda x: m.node("Add", x, x)])


@kind
def fibonacci(m, n):
    a, b = m.input("x", [8]), m.input("y", [8])
    for _ in range(n):
        a, b = b, m.node("Add", a, b)
    m.output(b)


@kind
def residual(m, n):
    """Each block reads its input twice, as networks with skips do."""
    x = m.input("x", ["N", 16])
    for _ in range(n // 4):
        x = m.node("Add", x, m.node("Tanh", m.node("Exp", m.node("Neg", x))))
    m.output(x)


@kind
def pads(m, n):
    p = m.const(np.array([1, 0, 0, 1], np.int64))
    q = m.const(np.array([-1, 0, 0, -1], np.int64))
    chain(m, n, m.input("x", ["N", 6]), [lambda x: m.node("Pad", x, p, mode="edge"), lambda x: m.node("Pad", x, q)])


# Of what a chain of Pads is: dims, sizes (none: known at run time), mode.
PADS = {
    "edge_pads": (["N"], [1, 1], "edge"),
    "reflect_pads": ([3, 4], [0, 1, 0, 1], "reflect"),
    "constant_pads": ([3, 4], [0, 1, 0, 1], "constant"),
    "wrap_pads": (["A", "B"], [0, 1, 0, 1], "wrap"),
    "run_time_pads": (["A", "B"], None, "edge"),
    "run_time_reflect_pads": (["A", "B"], None, "reflect"),
    "run_time_wrap_pads": (["A", "B"], None, "wrap"),
}


def pad_kind(dims, sizes, mode):
    def f(m, n):
        p = m.const(np.array(sizes, np.int64)) if sizes else m.input("p", [4], INT64)
        chain(m, n, m.input("x", dims), [lambda x: m.node("Pad", x, p, mode=mode)])
    return f


KINDS.update((name, pad_kind(*of_it)) for name, of_it in PADS.items())


@kind
def pads_of_their_own(m, n):
    """Each Pad has an input of its own for its sizes."""
    x = m.input("x", ["A", "B"])
    for i in range(n):
        x = m.node("Pad", x, m.input(f"p{i}", [4], INT64), mode="edge")
    m.output(x)


@kind
def resizes(m, n):
    s, t = m.const(np.array([1, 1, 2, 2], np.float32)), m.const(np.array([1, 1, 0.5, 0.5], np.float32))
    chain(m, n, m.input("x", [1, 2, 8, 8]), [lambda x: m.node("Resize", x, "", s, mode="linear"), lambda x: m.node("Resize", x, "", t, mode="linear")])


@kind
def nearest_resizes(m, n):
    s, t = m.const(np.array([1, 1, 2, 2], np.float32)), m.const(np.array([1, 1, 0.5, 0.5], np.float32))
    chain(m, n, m.input("x", ["N", 2, 8, 8]), [lambda x: m.node("Resize", x, "", s), lambda x: m.node("Resize", x, "", t)])


@kind
def cubic_resizes(m, n):
    s = m.const(np.array([1, 1, 7, 9], np.int64))
    chain(m, n, m.input("x", [1, 2, 8, 8]), [lambda x: m.node("Resize", x, "", "", s, mode="cubic")])


@kind
def softmaxes(m, n):
    chain(m, n, m.input("x", ["N", 10]), [of(m, "Softmax")])


@kind
def log_softmaxes(m, n):
    chain(m, n, m.input("x", ["N", 10]), [of(m, "LogSoftmax")])


@kind
def norms(m, n):
    s, b = m.const(np.ones(16, np.float32)), m.const(np.zeros(16, np.float32))
    chain(m, n, m.input("x", ["N", 16]), [lambda x: m.node("LayerNormalization", x, s, b), of(m, "Relu")])


@kind
def gelus(m, n):
    chain(m, n, m.input("x", ["N", 16]), [of(m, "Gelu")])


@kind
def reductions(m, n):
    chain(m, n, m.input("x", ["N", 8]), [lambda x: m.node("Sub", x, m.node("ReduceMax", x, m.const(np.array([1], np.int64))))])


@kind
def column_row_reductions(m, n):
    a, b = m.const(np.array([0], np.int64)), m.const(np.array([1], np.int64))
    chain(m, n // 2, m.input("x", [8, 8]), [lambda x: m.node("Sub", x, m.node("ReduceMean", x, a)), lambda x: m.node("Sub", x, m.node("ReduceMean", x, b))])


@kind
def cumsums(m, n):
    a = m.const(np.int64(1))
    chain(m, n, m.input("x", ["N", 8]), [lambda x: m.node("CumSum", x, a)])


@kind
def matmuls(m, n):
    w = m.const(np.eye(16, dtype=np.float32))
    chain(m, n, m.input("x", ["N", 16]), [lambda x: m.node("MatMul", x, w), of(m, "Relu")])


@kind
def matmuls_of_inputs(m, n):
    w = m.input("w", ["K", "K"])
    chain(m, n, m.input("x", ["N", "K"]), [lambda x: m.node("MatMul", x, w)])


@kind
def convs(m, n):
    w = m.const(np.ones((4, 4, 3, 3), np.float32))
    chain(m, n, m.input("x", ["N", 4, 8, 8]), [lambda x: m.node("Conv", x, w, pads=[1, 1, 1, 1]), of(m, "Relu")])


@kind
def pools(m, n):
    chain(m, n, m.input("x", ["N", 4, 8, 8]), [of(m, "MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), of(m, "AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])])


@kind
def transposes(m, n):
    chain(m, n, m.input("x", ["N", 4, 6]), [of(m, "Transpose", perm=[1, 2, 0]), of(m, "Relu")])


@kind
def reshapes(m, n):
    a, b = m.const(np.array([-1, 4], np.int64)), m.const(np.array([2, -1], np.int64))
    chain(m, n, m.input("x", ["N", 8]), [lambda x: m.node("Reshape", x, a), of(m, "Transpose", perm=[1, 0]), lambda x: m.node("Reshape", x, b), of(m, "Sin")])


@kind
def glue(m, n):
    """Shapes taken apart and put together again, as exporters write views."""
    x, zero, one, k = m.input("x", ["A", "B"]), m.const(np.int64(0)), m.const(np.int64(1)), m.const(np.array([0], np.int64))
    for _ in range(n // 8):
        s = m.node("Shape", x)
        a, b = (m.node("Unsqueeze", m.node("Gather", s, i), k) for i in (zero, one))
        x = m.node("Reshape", x, m.node("Concat", b, a, axis=0))
        x = m.node("Neg", x)
    m.output(x)


@kind
def expands(m, n):
    r = m.const(np.array([0], np.int64))
    chain(m, n, m.input("x", [4, 4]), [lambda x: m.node("Unsqueeze", x, r), lambda x: m.node("Expand", x, m.const(np.array([2, 4, 4], np.int64))), lambda x: m.node("ReduceSum", x, r, keepdims=0)])


@kind
def casts(m, n):
    chain(m, n - n % 2, m.input("x", ["N", 8]), [of(m, "Cast", to=TensorProto.FLOAT16), of(m, "Cast", to=FLOAT)])


@kind
def views(m, n):
    a, b = m.const(np.array([4, 2], np.int64)), m.const(np.array([8], np.int64))
    chain(m, n - n % 2, m.input("x", [8]), [lambda x: m.node("Reshape", x, a), lambda x: m.node("Reshape", x, b)])


@kind
def slices(m, n):
    """Sizes that grow with the depth: ((x[1:])[1:])[1:]."""
    s, e = m.const(np.array([1], np.int64)), m.const(np.array([1 << 40], np.int64))
    chain(m, n, m.input("x", ["N"]), [lambda x: m.node("Slice", x, s, e)])


@kind
def gathers(m, n):
    i = m.const(np.array([3, 2, 1, 0], np.int64))
    chain(m, n, m.input("x", [4, 4]), [lambda x: m.node("Gather", x, i)])


@kind
def gathers_at_run_time(m, n):
    i = m.input("i", [4], INT64)
    chain(m, n, m.input("x", [4, 4]), [lambda x: m.node("Gather", x, i)])


@kind
def scatters(m, n):
    i, u = m.const(np.array([[1], [2]], np.int64)), m.const(np.ones((2, 4), np.float32))
    chain(m, n, m.input("x", [4, 4]), [lambda x: m.node("ScatterND", x, i, u)])


@kind
def wheres(m, n):
    c, y = m.input("c", [8], BOOL), m.input("y", [8])
    chain(m, n, m.input("x", [8]), [lambda x: m.node("Where", c, x, y), of(m, "Neg")])


@kind
def wheres_of_wheres(m, n):
    """Each condition is made of the value before."""
    x, y = m.input("x", [8]), m.input("y", [8])
    for _ in range(n // 2):
        x = m.node("Where", m.node("Less", x, y), y, x)
    m.output(x)


@kind
def splits(m, n):
    x = m.input("x", ["N", 8])
    for _ in range(n // 2):
        a, b = m.node("Split", x, outputs=2, axis=1, num_outputs=2)
        x = m.node("Concat", b, a, axis=1)
    m.output(x)


@kind
def split_tree(m, n):
    level, x = [m.input("x", [1 << 14])], []
    while len(level) * 2 <= n // 2:
        level = [v for x in level for v in m.node("Split", x, outputs=2, axis=0, num_outputs=2)]
    while len(level) > 1:
        level = [m.node("Concat", b, a, axis=0) for a, b in zip(level[::2], level[1::2])]
    m.output(level[0])


@kind
def growing(m, n):
    """A list that each step appends to, as caches are in unrolled loops."""
    x = m.input("x", [1, 4])
    y = x
    for _ in range(n // 2):
        x = m.node("Sin", x)
        y = m.node("Concat", y, x, axis=0)
    m.output(y)


@kind
def ifs(m, n):
    """Of a quantised tensor: how exactly it is determined follows from both branches of each If."""
    c = m.input("c", [], BOOL)
    x = m.node("QuantizeLinear", m.input("x", [4]), m.const(np.float32(0.5)))

    def same(x, name):
        result = helper.make_tensor_value_info(name, TensorProto.UINT8, [4])
        return helper.make_graph([helper.make_node("Identity", [x], [name])], name, [], [result])

    def step(x):
        i = len(m.nodes)
        return m.node("If", c, then_branch=same(x, f"then{i}"), else_branch=same(x, f"else{i}"))

    chain(m, n, x, [step], TensorProto.UINT8)


@kind
def tiles(m, n):
    r = m.const(np.array([1, 2], np.int64))
    k = m.const(np.array([1], np.int64))
    chain(m, n, m.input("x", ["N", 4]), [lambda x: m.node("Tile", x, r), lambda x: m.node("ReduceMax", x, k, keepdims=1)])


@kind
def constants(m, n):
    """All of it is known when it is compiled."""
    chain(m, n, m.const(np.arange(4096, dtype=np.float32)), [of(m, "Sin"), of(m, "Neg")])


@kind
def run_time_sizes(m, n):
    """Each NonZero has a size of its own."""
    x = m.input("x", ["N"])
    k = m.const(np.array([0], np.int64))
    for _ in range(n // 3):
        x = m.node("Cast", m.node("Squeeze", m.node("NonZero", x), k), to=FLOAT)
    m.output(x)


# ---- Wide ----

@kind
def many_users(m, n):
    x = m.node("Exp", m.input("x", [8]))
    for i in range(n):
        m.output(m.node(("Sin", "Neg", "Abs", "Cos")[i % 4], m.node("Add", x, m.const(np.float32(i)))))


@kind
def same_user_over_and_over(m, n):
    x = m.input("x", [8])
    for _ in range(n):
        m.output(m.node("Sin", x))


@kind
def many_inputs(m, n):
    x = m.input("x", [8])
    for i in range(n):
        x = m.node("Add", x, m.input(f"i{i}", [8]))
    m.output(x)


@kind
def sum_of_many(m, n):
    m.output(m.node("Sum", *(m.node("Sin", m.input(f"i{i}", [8])) for i in range(n))))


@kind
def max_of_many(m, n):
    x = m.input("x", ["N", 8])
    m.output(m.node("Max", *(m.node("Mul", x, m.const(np.float32(i))) for i in range(n))))


@kind
def concat_of_many(m, n):
    x = m.input("x", ["N", 8])
    m.output(m.node("Concat", *(m.node("Add", x, m.const(np.float32(i))) for i in range(n)), axis=1))


@kind
def concat_of_inputs(m, n):
    m.output(m.node("Concat", *(m.input(f"i{i}", ["N", i % 3 + 1]) for i in range(n)), axis=1))


@kind
def split_into_many(m, n):
    for v in m.node("Split", m.input("x", [n, 4]), outputs=n, axis=0, num_outputs=n):
        m.output(m.node("Sin", v))


@kind
def many_constants(m, n):
    x = m.input("x", [16])
    for i in range(n):
        x = m.node("Sin", m.node("Add", x, m.const(np.full(16, i, np.float32))))
    m.output(x)


@kind
def many_outputs(m, n):
    x = m.input("x", ["N", 8])
    for _ in range(n):
        x = m.node("Sin", x)
        m.output(x)


@kind
def pairs(m, n):
    """A tree: adjacent pairs are added until one value is left."""
    level = [m.node("Sin", m.input(f"i{i}", [8])) for i in range(n // 2)]
    while len(level) > 1:
        level = [m.node("Add", *level[i:i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    m.output(level[0])


@kind
def shared_prefix(m, n):
    """Many readers of an expensive value, which feed one another."""
    x = m.node("Softmax", m.input("x", ["N", 8]))
    y = x
    for i in range(n):
        y = m.node(("Add", "Mul", "Max")[i % 3], y, x)
    m.output(y)


@kind
def many_symbols(m, n):
    for i in range(n):
        m.output(m.node("Sin", m.input(f"i{i}", [f"D{i}"])))


@kind
def sizes_of_sums(m, n):
    """One dim that is a sum of N symbols."""
    x = m.input("x", ["D"])
    for i in range(n):
        x = m.node("Concat", x, m.input(f"i{i}", [f"D{i}"]), axis=0)
    m.output(x)


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(KINDS))
        return
    name, n, path = sys.argv[1:]
    m = Model()
    KINDS[name](m, int(n))
    m.write(path)


if __name__ == "__main__":
    main()

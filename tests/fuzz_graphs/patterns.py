# SPDX-License-Identifier: Apache-2.0
"""Forms that exporters write and that passes look for, as they stand in graphs: functions from a Grower to a value, or None."""

import ml_dtypes
import numpy as np
from onnx import helper

from grow import CODES, FLOATS, SETS, TYPES, one_node, session
from operators import image, scalar


def chain(g, v, *steps):
    """V through STEPS: (operator, further operands or attributes)."""
    for op, *more in steps:
        operands = [m for m in more if not isinstance(m, dict)]
        attributes = {k: x for m in more if isinstance(m, dict) for k, x in m.items()}
        v = g.node(op, [v] + operands, **attributes) if v else None
    return v


def activation(g, v):
    op = g.random.choice(("Relu", "Clip", "HardSwish", "Sigmoid", "swish", "gelu", "LeakyRelu", None))
    if v is None or op is None:
        return v
    if op == "Clip":
        return g.node(op, [v, scalar(g, v, 0), scalar(g, v, 6)], exact=True)
    if op == "swish":
        return g.node("Mul", [v, g.node("Sigmoid", [v])])
    if op == "gelu":
        inner = chain(g, v, ("Div", scalar(g, v, 2**0.5)), ("Erf",), ("Add", scalar(g, v, 1)))
        return g.node("Mul", [g.node("Mul", [v, scalar(g, v, 0.5)]), inner]) if inner else None
    return g.node(op, [v], exact=op == "Relu")


def convolutions(g):
    """Conv, normalisation, activation, a residual, and a gate of the pooled image."""
    v = image(g)
    if v is None or len(set(v.sizes(1))) > 1:
        return None
    r, n, c = g.random, v.rank - 2, v.sizes(1)[0]
    k = r.choice((1, 3))
    group = r.choice((1, c))
    w = g.new(v.type, [(s,) * SETS for s in [c, c // group] + [k] * n], constant=True)
    y = g.node("Conv", [v, w], pads=[k // 2] * (2 * n), group=group, exact=True)
    if y and r.random() < 0.5:
        y = g.node("BatchNormalization", [y] + [g.const(g.elements(v.type, (c,), False)) for _ in range(3)] +
                   [g.const((np.abs(g.elements(v.type, (c,), False)) + np.ones(c, TYPES[v.type])).astype(TYPES[v.type]))])
    if y and r.random() < 0.5:
        y = g.node("Add", [y, v], exact=True)
    y = activation(g, y)
    if y and r.random() < 0.5:
        gate = chain(g, y, ("GlobalAveragePool",), ("Sigmoid",))
        y = g.node("Mul", [y, gate]) if gate else y
    return y


def decoders(g):
    """ConvTranspose with a stride or Conv with groups, a part of what it makes, and what decoders do with that."""
    v = image(g)
    if v is None or len(set(v.sizes(1))) > 1:
        return None
    r, n, c = g.random, v.rank - 2, v.sizes(1)[0]
    groups, out, k = r.choice((1, 2, c)), r.choice((1, 2, 3, 8)), r.choice((1, 2, 3, 4))
    if c % groups:
        return None
    upwards = r.random() < 0.6
    w = g.new(v.type, [(s,) * SETS for s in ([c, out] if upwards else [out * groups, c // groups]) + [k] * n], constant=r.random() < 0.7)
    bias = [g.const(g.elements(v.type, (out * groups,), False))] if w and r.random() < 0.6 else []
    y = w and g.node("ConvTranspose" if upwards else "Conv", [v, w] + bias, exact=not bias, group=groups, pads=[r.randrange(k) for _ in range(2 * n)],
                     **({"strides": [r.choice((1, 2, 3)) for _ in range(n)]} if upwards else {}))
    if y and r.random() < 0.7:
        a = r.randrange(y.rank)
        start = r.choice((0, 0, 1, -2))
        y = g.node("Slice", [y] + [g.const(np.array([i])) for i in (start, r.choice((-1, 1 + start if start >= 0 else -1, 2**63 - 1)), a)], exact=True)
    y = activation(g, y)
    return g.node("Add", [y, g.beside(y)], exact=True) if y and r.random() < 0.3 else y


def patches(g):
    """A convolution of disjoint patches, as at the beginning of a vision transformer, and padded convolutions of the map that it gives."""
    r = g.random
    p, planes, channels = r.choice((2, 4, 8)), r.choice((1, 3)), r.choice((8, 12, 16))
    sides = [tuple(p * r.randint(1, 3) for _ in range(SETS)) if r.random() < g.dynamic else (2 * p,) * SETS for _ in range(2)]
    v = g.new(r.choice(FLOATS[:1] + ("float32",) * 3), [(1,) * SETS, (planes,) * SETS, *sides])
    w = v and g.new(v.type, [(n,) * SETS for n in (channels, planes, p, p)], constant=True)
    v = w and g.node("Conv", [v, w], strides=[p, p], exact=True)
    for _ in range(r.choice((1, 2))):
        w = v and g.new(v.type, [(n,) * SETS for n in (channels, channels, 3, 3)], constant=True)
        v = w and activation(g, g.node("Conv", [v, w], strides=[r.choice((1, 2))] * 2, pads=[1] * 4, exact=True))
    return v


def attention(g):
    """softmax(q k^T * scale + mask) v, with heads split off by Reshape and Transpose where they divide."""
    r = g.random
    batch, q, k, dim = g.new_sizes(), g.new_sizes(), g.new_sizes(), r.choice((2, 4, 8))
    heads = r.choice((1, 2, 3))
    k = tuple(max(n, 1) for n in k)
    type_ = r.choice(FLOATS[:1] + ("float32",) * 3)

    def head(n):
        x = g.new(type_, [batch, n, (heads * dim,) * SETS], exact=False)
        if x is None:
            return None
        x = g.node("Reshape", [x, g.ints([0, 0, heads, dim])])
        return g.node("Transpose", [x], perm=[0, 2, 1, 3]) if x else None
    a, b, c = head(q), head(k), head(k)
    if not (a and b and c):
        return None
    scores = chain(g, g.node("MatMul", [a, g.node("Transpose", [b], perm=[0, 1, 3, 2])]), ("Mul", scalar(g, a, dim**-0.5)))
    if scores and r.random() < 0.7:
        kind = r.choice(("add", "where", "causal"))
        if kind == "add":
            scores = g.node("Add", [scores, g.new(type_, [(1,) * SETS, (1,) * SETS, (1,) * SETS, k])])
        elif kind == "where":
            mask = g.new("bool", [(1,) * SETS, (1,) * SETS, q, k])
            scores = g.node("Where", [mask, scores, scalar(g, scores, -100)]) if mask else None
        else:
            shape = g.node("Shape", [scores], exact=True)
            rows = g.node("Range", [g.const(np.array(0)), g.node("Gather", [shape, g.const(np.array(2))], exact=True), g.const(np.array(1))], exact=True)
            columns = g.node("Range", [g.const(np.array(0)), g.node("Gather", [shape, g.const(np.array(3))], exact=True), g.const(np.array(1))], exact=True)
            below = g.node("LessOrEqual", [columns, g.node("Unsqueeze", [rows, g.const(np.array([1]))], exact=True)], exact=True) if rows and columns else None
            scores = g.node("Where", [below, scores, scalar(g, scores, -100)]) if below else None
    y = chain(g, scores, ("Softmax", {"axis": -1}), ("MatMul", c), ("Transpose", {"perm": [0, 2, 1, 3]}))
    return g.node("Reshape", [y, g.ints([0, 0, -1])]) if y and min(batch) and min(q) else y


def spelled_norm(g):
    """LayerNormalization or RMSNormalization as exporters of old spelled them."""
    v = g.within(g.pick(rank=(2, 4), least=2), -9, 9)
    if v is None:
        return None
    last = g.const(np.array([-1]))
    mean = g.random.random() < 0.6
    x = g.node("Sub", [v, g.node("ReduceMean", [v, last])]) if mean else v
    if x is None:
        return None
    square = g.node("Pow", [x, scalar(g, x, 2)]) if g.random.random() < 0.5 else g.node("Mul", [x, x])
    deviation = chain(g, square, ("ReduceMean", last), ("Add", scalar(g, v, 0.25)), ("Sqrt",))
    y = g.node("Div", [x, deviation]) if deviation else None
    return chain(g, y, ("Mul", g.new(v.type, [v.sizes(v.rank - 1)])), ("Add", g.new(v.type, [v.sizes(v.rank - 1)]))) if y else None


def spelled_softmax(g):
    v = g.within(g.pick(rank=(1, 4), least=1), -9, 9)
    if v is None:
        return None
    last = g.const(np.array([g.random.randrange(v.rank)]))
    e = chain(g, v, ("Sub", g.node("ReduceMax", [v, last], exact=True)), ("Exp",))
    return g.node("Div", [e, g.node("ReduceSum", [e, last])]) if e else None


def split_and_join(g):
    """Pieces of a value, each through something else, joined again: rotary embeddings, gates, shuffles."""
    v = g.pick(rank=(1, 4))
    if v is None:
        return None
    a = g.random.randrange(v.rank)
    if any(s % 2 or not s for s in v.sizes(a)):
        return None
    two = g.node("Split", [v], 2, exact=True, axis=a, num_outputs=2)
    if two is None:
        return None
    if g.random.random() < 0.3:
        return g.node("Mul", [two[0], g.node("Sigmoid", [two[1]])])
    joined = g.node("Concat", [g.node("Neg", [two[1]], exact=True), two[0]], exact=True, axis=a)
    return g.node("Add", [v, g.node("Mul", [joined, g.beside(v)], exact=True)], exact=True) if joined else None


def shape_glue(g):
    """A Reshape to dims that Shape, Gather, Mul and Concat compute, as exporters write views."""
    v = g.pick(types=FLOATS + ("int64",), rank=(2, 5))
    if v is None:
        return None
    shape = g.node("Shape", [v], exact=True)
    dims = [g.node("Gather", [shape, g.const(np.array([i]))], exact=True) for i in range(v.rank)] if shape else [None]
    if any(d is None for d in dims):
        return None
    i = g.random.randrange(v.rank - 1)
    joined = g.node("Mul", [dims[i], dims[i + 1]], exact=True)
    target = g.node("Concat", dims[:i] + [joined] + dims[i + 2:], exact=True, axis=0)
    return g.node("Reshape", [v, target], exact=True, allowzero=1)     # 0 copies a dim otherwise, which dlcc does only for numbers and data


def quantised(g):
    """A product of two quantised tensors, each dequantised before it, and quantised again behind an activation and a residual."""
    r = g.random
    image_, type_ = r.random() < 0.5, r.choice(("uint8", "int8"))
    v = image(g, types=("float32",)) if image_ else g.pick(types=("float32",), rank=(2, 4), exact=True, least=1)
    if v and not v.exact:
        v = g.new("float32", [v.sizes(i) for i in range(v.rank)], exact=True)
    if v is None or len(set(v.sizes(1 if image_ else v.rank - 1))) > 1:
        return None
    c, outer, zero = v.sizes(1 if image_ else v.rank - 1)[0], r.choice((1, 3, 8, 20)), g.const(np.array(r.choice((0, 3)), TYPES[type_]))
    scale = g.const(np.float32(r.choice((0.25, 0.5))))

    def through(x, scale_, zero_):
        q = g.node("QuantizeLinear", [x, scale_, zero_], exact=True) if x else None
        return g.node("DequantizeLinear", [q, scale_, zero_], exact=True) if q else None
    by_channel = np.asarray(2.0 ** g.rng.integers(-1, 1, outer), np.float32)
    w = g.const(g.elements("int8", [outer, c] + [r.choice((1, 3)) for _ in range(v.rank - 2)] if image_ else [c, outer], True))
    w = g.node("DequantizeLinear", [w, g.const(by_channel), g.const(np.zeros(outer, np.int8))], exact=True, axis=0 if image_ else 1)
    bias = g.node("DequantizeLinear", [g.const(g.rng.integers(-99, 99, outer).astype(np.int32)), g.const(by_channel * np.float32(0.25))], exact=True, axis=0)
    x = through(v, scale, zero)
    if not (x and w and bias):
        return None
    if image_:
        y = g.node("Conv", [x, w, bias], exact=True, pads=[n // 2 for n in w.arrays[0].shape[2:]] * 2)
    else:
        y = chain(g, x, ("MatMul", w, {"exact": True}), ("Add", bias, {"exact": True}))
    if y and r.random() < 0.5:
        y = g.node("Relu", [y], exact=True)
    if y and r.random() < 0.5 and [y.sizes(i) for i in range(y.rank)] == [v.sizes(i) for i in range(v.rank)]:
        y = g.node("Add", [through(y, scale, zero), x], exact=True)
    return through(y, g.const(np.float32(r.choice((0.25, 2, 8)))), zero)


# Element types of few bits, and what a graph casts to them without saturation.
SMALL = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3), "float8_e4m3fn": (-200, 200), "float8_e5m2": (-200, 200),
         "float8_e4m3fnuz": (-200, 200), "float8_e5m2fnuz": (-200, 200), "float4_e2m1fn": (-6, 6)}


def small_types(g):
    """A value as elements of few bits, which are moved, and back. ONNX Runtime moves few of these types: the values of the type are moved.
    No Concat is among the moves: the part of a byte that another part has written is kept by a load of the byte, and on GPUs the simulator
    reports such loads of bytes of which nothing is written yet, whose bits do not matter."""
    r, name = g.random, g.random.choice(list(SMALL))
    v = g.within(g.pick(types=("float32", "float32", "float16"), rank=(1, 4), exact=True, least=1), *SMALL[name])
    if v is None:
        return None
    type_ = np.dtype(getattr(ml_dtypes, name))
    a, at = r.randrange(v.rank), g.const(np.array(r.choice(([0], [0, -1], [-1, 0, 0]))))
    moves = [("Identity", [], {}), ("Transpose", [], {"perm": r.sample(range(v.rank), v.rank)}), ("Reshape", [g.const(np.array([-1]))], {}),
             ("Gather", [at], {"axis": a}), ("Unsqueeze", [g.const(np.array([a]))], {}),
             ("Slice", [g.const(np.array([1])), g.const(np.array([9])), g.const(np.array([a]))], {}),
             ("Tile", [g.const(r.choices((1, 2), k=v.rank))], {}), ("Expand", [g.const(np.array([2] + [1] * v.rank))], {})]
    op, operands, attributes = r.choice(moves)
    names = [o.name for o in operands]
    q, m, back = (g.fresh("q") for _ in range(3))
    nodes = [("Cast", [v.name], [q], {"to": helper.np_dtype_to_tensor_dtype(type_)}), (op, [q] + names, [m], attributes),
             ("Cast", [m], [back], {"to": CODES[v.type]})]
    real = [v] + operands

    def run():
        types = {"q": ("float32", v.rank), **{o.name: (o.type, o.rank) for o in real[1:]}}
        moved = session(one_node(op, ["q"] + names, ["m"], attributes, types))

        def compute(feed):
            x = feed[v.name].astype(np.float32)
            x = (np.trunc(x) if "int" in name else x).astype(type_).astype(np.float32)
            return [moved({**feed, "q": x})[0].astype(TYPES[v.type])]
        return compute
    return g.group(nodes, real, [back], True, run)


PATTERNS = (small_types, convolutions, decoders, patches, attention, spelled_norm, spelled_softmax, split_and_join, shape_glue, quantised)

# SPDX-License-Identifier: Apache-2.0
"""Forms of quantised models, as patterns.py has those of others: weights of few bits, and chains of quantised tensors."""

import ml_dtypes
import numpy as np
from onnx import helper

from grow import CODES, SETS, TYPES
from operators.microsoft import few, firm_node, same
from patterns import activation

# The integers of weights, and their ranges.
WHOLE = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3), "int8": (-128, 127), "uint8": (0, 255)}
# Floats of weights; what is drawn has subnormals, zeros of both signs and the largest.
REAL = {"float8_e4m3fn": 448, "float8_e5m2": 57344, "float4_e2m1fn": 6}
COLUMNS = (1, 3, 7, 16, 31, 33, 61, 64, 75, 90, 96, 100, 128)
ROWS = (1, 5, 8, 17, 31, 33, 40, 64, 70)
BLOCKS = (1, 2, 3, 5, 7, 16, 24, 32, 64)


def narrow_type(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def codes(g, name, shape):
    """Elements of the type NAME, of which some are the least and the largest."""
    if name in WHOLE:
        low, high = WHOLE[name]
        return np.where(g.rng.random(shape) < 0.1, g.rng.choice((low, high), shape), g.rng.integers(low, high + 1, shape)).astype(narrow_type(name))
    a = g.rng.standard_normal(shape) * g.random.choice((0.01, 1, 4))
    return np.where(g.rng.random(shape) < 0.03, g.rng.choice((-1, 0, 1), shape) * min(REAL[name], 448), a).astype(np.float32).astype(narrow_type(name))


def zero_points(g, name, shape):
    """At an end of the type's range, or anywhere."""
    low, high = WHOLE[name]
    kind = g.random.choice(("least", "largest", "any"))
    return (np.full(shape, low if kind == "least" else high) if kind != "any" else g.rng.integers(low, high + 1, shape)).astype(narrow_type(name))


def constant(g, array):
    name = g.fresh("c")
    g.constants[name] = np.asarray(array)
    return name


def spread(a, shape, axis, block):
    """Scales or zero points A, for each element of a tensor of SHAPE."""
    a = np.asarray(a)
    if a.ndim == 0:
        return a
    if a.ndim == 1 and not block:
        return a.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.take(np.repeat(a, block, axis), range(shape[axis]), axis)


def some_scales(g, shape, type, largest):
    """Scales by which elements up to LARGEST stay small; some are 0, and some are negative."""
    s = g.rng.random(shape) * g.random.choice((1, 1, 16)) / largest
    if g.random.random() < 0.3:
        s = 2.0 ** np.round(np.log2(s + 2.0**-12))
    s = np.where(g.rng.random(shape) < 0.1, 0, s)
    return np.asarray(np.where(g.rng.random(shape) < 0.02, -s, s)).astype(TYPES[type])


def dequantised(g, shape, axes, type="float32"):
    """A constant of SHAPE and few bits behind DequantizeLinear, with scales for the tensor, along one of AXES, or for blocks of it. Its
    elements are computed here: ONNX Runtime lacks some of these types. Sometimes the elements come from bytes, when the graph runs."""
    r = g.random
    name, a = r.choice(list(WHOLE) * 2 + list(REAL)), r.choice(axes)
    block = r.choice(BLOCKS) if r.random() < 0.6 else 0
    q = codes(g, name, shape)
    s_shape = [-(-n // block) if i == a else n for i, n in enumerate(shape)] if block else r.choice(([], [shape[a]]))
    attributes = dict(axis=r.choice((a, a - len(shape))), **({"block_size": block} if block else {}))
    largest = max(abs(n) for n in WHOLE[name]) if name in WHOLE else 4
    powers = name in REAL and r.random() < 0.5
    if powers:                                       # the scales of MX: powers of two in a byte
        s = (2.0 ** g.rng.integers(-6, 1, s_shape)).astype(np.float32).astype(ml_dtypes.float8_e8m0fnu)
        attributes["output_dtype"] = CODES[type]
    else:
        s = some_scales(g, s_shape, type, largest)
    z = zero_points(g, name, s_shape) if name in WHOLE and r.random() < 0.6 else None
    value = q.astype(np.float32) - (0 if z is None else spread(z.astype(np.float32), shape, a, block))
    value = (value * spread(s.astype(np.float32), shape, a, block)).astype(TYPES[type])
    operands = ["", constant(g, s)] + ([] if z is None else [constant(g, z)])
    w, nodes, real = g.fresh("w"), [], []
    if name in WHOLE and r.random() < 0.15:
        wide = g.feed([q.astype(np.int16)] * SETS, constant=False)
        real, operands[0] = [wide], g.fresh("q")
        nodes = [("Cast", [wide.name], [operands[0]], {"to": helper.np_dtype_to_tensor_dtype(q.dtype)})]
    else:
        operands[0] = constant(g, q)
    return g.group(nodes + [("DequantizeLinear", operands, [w], attributes)], real, [w], True, lambda: lambda feed: [value])


def factor(g, type, columns):
    """What is multiplied with weights: a value whose last dim is COLUMNS."""
    fit = [v for v in g.values if v.type == type and v.rank in (2, 3) and set(v.sizes(v.rank - 1)) == {columns} and max(map(abs, v.least())) < 100]
    if fit and g.random.random() < 0.5:
        return g.random.choice(fit)
    return g.new(type, [few(g), few(g, 33), same(columns)][g.random.choice((0, 1, 1)):])


def weights(g):
    """A product, a convolution or a table, of weights of few bits."""
    r, type = g.random, g.random.choice(("float32",) * 5 + ("float16", "bfloat16"))
    op, k, n = r.choice(("MatMul", "MatMul", "Gemm", "batched", "Conv", "Gather")), r.choice(COLUMNS), r.choice(ROWS)
    if op == "Gather":
        w = dequantised(g, (n, k), (0, 1), type)
        at = g.feed([g.rng.integers(0, n, (b,)).astype(np.int64) for b in few(g, 9, 0)])
        return g.node("Gather", [w, at], exact=True, axis=0) if w else None
    if op == "Conv":
        kernel, c, group = r.choice(((1, 1), (1, 1), (3, 3), (2, 3))), r.choice((1, 3, 7, 16, 33)), 1
        if r.random() < 0.2:
            group = c
        w = dequantised(g, (n if group == 1 else c, c // group, *kernel), (0, 1), type)
        x = g.new(type, [few(g, 3), same(c), few(g, 9, 3), few(g, 9, 3)])
        bias = [g.new(type, [same(w.sizes(0)[0])])] if w and r.random() < 0.4 else []
        return activation(g, g.node("Conv", [x, w] + bias, group=group, pads=[m // 2 for m in kernel] * 2)) if x and w else None
    x = factor(g, type, k)
    if op == "batched":
        b = r.choice((2, 3))
        w = dequantised(g, (b, k, n), (1, 2), type)
        x = g.new(type, [same(b), few(g), same(k)])
        return g.node("MatMul", [x, w]) if x and w else None
    if op == "Gemm" and x and x.rank == 2:
        turned = r.randrange(2)
        w = dequantised(g, (n, k) if turned else (k, n), (0, 1), type)
        bias = [g.new(type, [same(n)])] if r.random() < 0.5 else []
        y = g.node("Gemm", [x, w] + bias, transB=turned, **({"alpha": 0.5} if r.random() < 0.2 else {})) if w else None
        return activation(g, y)
    w = dequantised(g, (k, n), (0, 0, 1), type)
    y = g.node("MatMul", [x, w]) if x and w else None
    if y and r.random() < 0.4:
        y = g.node("Add", [y, g.new(type, [same(n)])])
    return activation(g, y)


def large_weights(g):
    """A product of a constant that --weights-as makes narrow."""
    r = g.random
    k, n = r.choice(((64, 17), (33, 40), (100, 31), (61, 70), (129, 9), (75, 64), (1100, 1), (1, 1100)))
    x = factor(g, "float32", k)
    a = g.rng.standard_normal((k, n)).astype(np.float32)
    a[:, 0] = 0
    a = np.where(g.rng.random((k, n)) < 0.02, 8 * a, a).astype(np.float32)
    turned = r.randrange(2) if x and x.rank == 2 else 0
    w = g.feed([a.T.copy() if turned else a] * SETS, exact=False, constant=True)
    y = g.node("Gemm", [x, w], transB=1) if turned else g.node("MatMul", [x, w])
    return activation(g, y)


# ---- Chains ----

def quantise(g, x, type, scale=None):
    """X through QuantizeLinear and DequantizeLinear; the zero point is often an end of its range."""
    r, info = g.random, np.iinfo(type)
    if x is None or x.type != "float32" or not all(min(x.sizes(i)) for i in range(x.rank)):
        return None
    most = max(map(abs, x.least()))
    value = scale or (r.choice((0.25, 0.5, 1)) if x.exact else max(most, 0.1) * r.choice((0.5, 1, 2)) / (info.max - info.min) * 2)
    zero = g.const(np.array(r.choice((0, info.min, info.max, info.max // 2, g.rng.integers(info.min, info.max + 1))), type))
    scale = g.const(np.float32(value))
    q = g.node("QuantizeLinear", [x, scale, zero], exact=True) if x.exact else firm_node(g, "QuantizeLinear", [x, scale, zero], 1)
    return g.node("DequantizeLinear", [q, scale, zero], exact=True) if q else None


def between(g, x, type):
    """X, dequantised, through an operator that models have between quantised tensors."""
    r = g.random
    op = r.choice(("Conv", "MatMul", "Add", "Mul", "pool", "Concat", "Relu", "Clip", "move", "Sigmoid", "Softmax", "mean"))
    sizes = [x.sizes(i) for i in range(x.rank)]
    if op in ("Add", "Mul", "Concat"):
        other = quantise(g, g.new("float32", sizes, exact=True, constant=False), type) if g.count(sizes) else None
        if r.random() < 0.3:
            other = x
        return g.node(op, [x, other], exact=True, **({"axis": r.randrange(x.rank)} if op == "Concat" else {})) if other else None
    if op == "pool" and x.rank == 4 and min(x.sizes(2) + x.sizes(3)) > 1:
        return g.node(r.choice(("MaxPool", "AveragePool")), [x], exact=True, kernel_shape=[2, 2], strides=[r.choice((1, 2))] * 2)
    if op == "Clip":
        return g.node("Clip", [x, g.const(np.float32(0)), g.const(np.float32(6))], exact=True)
    if op == "move":
        return g.node("Transpose", [x], exact=True, perm=r.sample(range(x.rank), x.rank)) if r.random() < 0.5 else \
            g.node("Reshape", [x, g.const(np.array([0, -1] if x.rank > 1 else [-1]))], exact=True)
    if op == "mean" and x.rank == 4:
        return g.node("GlobalAveragePool", [x])
    if op in ("Sigmoid", "Softmax"):
        return g.node(op, [x])
    if op == "Relu" or len(set(x.sizes(1 if x.rank == 4 else x.rank - 1))) > 1:
        return g.node("Relu", [x], exact=True)
    return product(g, x)


def product(g, x):
    """A convolution or a matrix product of X by quantised weights, and perhaps a quantised bias."""
    r = g.random
    image, n = x.rank == 4, r.choice((1, 3, 8, 17))
    c = x.sizes(1 if image else x.rank - 1)[0]
    group = c if image and r.random() < 0.3 else 1
    shape = (c if group > 1 else n, c // group, *r.choice(((1, 1), (3, 3), (1, 2)))) if image else (c, n)
    a = 0 if image else 1
    by_channel = r.random() < 0.6
    s = (2.0 ** g.rng.integers(-1, 2, shape[a] if by_channel else [])).astype(np.float32) if x.exact else \
        np.asarray(0.001 + 0.02 * g.rng.random(shape[a] if by_channel else []), np.float32)
    operands = [g.const(g.rng.integers(-8, 8, shape).astype(np.int8)), g.const(s)]
    if r.random() < 0.5:
        operands.append(g.const(np.zeros(s.shape, np.int8)))
    w = g.node("DequantizeLinear", operands, exact=True, **({"axis": a} if by_channel else {}))
    bias = g.node("DequantizeLinear", [g.const(g.rng.integers(-99, 99, shape[a]).astype(np.int32)), g.const(np.float32(0.25) * s)],
                  exact=True, **({"axis": 0} if by_channel else {})) if r.random() < 0.5 else None
    if w is None:
        return None
    if image:
        return g.node("Conv", [x, w] + ([bias] if bias else []), exact=True, group=group, pads=[m // 2 for m in shape[2:]] * 2)
    y = g.node("MatMul", [x, w], exact=True)
    return g.node("Add", [y, bias], exact=True) if y and bias else y


def chains(g):
    """Quantised tensors, with one operator or two between each and the next."""
    r = g.random
    type = r.choice(("uint8", "int8", "uint8", "int8", "uint16", "int16"))
    sizes = [few(g, 3), same(r.choice((1, 2, 3, 8, 16))), few(g, 9), few(g, 9)] if r.random() < 0.6 else [few(g), same(r.choice((3, 16, 33)))]
    x = quantise(g, g.new("float32", sizes, exact=r.random() < 0.7, constant=False), type)
    for _ in range(r.randint(1, 4)):
        if x is None:
            break
        y = between(g, x, type)
        if y and r.random() < 0.3:
            y = activation(g, y)
        x = quantise(g, y, type) or y
    return x


def narrow_tensors(g):
    """A tensor through QuantizeLinear to a type of few bits, and back."""
    r, name = g.random, g.random.choice(("int4", "uint4", "int2", "uint2"))
    v = g.pick(types=("float32",), rank=(1, 4), exact=True, least=1)
    if v is None or not v.exact:
        return None
    low, high = WHOLE[name]
    scale, zero = np.float32(r.choice((0.25, 0.5, 1, 2))), int(zero_points(g, name, []))
    operands = [constant(g, scale), constant(g, np.array(zero, np.int8).astype(narrow_type(name)))]
    q, y = g.fresh("q"), g.fresh("v")

    def run():
        return lambda feed: [((np.clip(np.rint(feed[v.name] / scale) + zero, low, high) - zero) * scale).astype(np.float32)]
    return g.group([("QuantizeLinear", [v.name] + operands, [q], {}), ("DequantizeLinear", [q] + operands, [y], {})], [v], [y], True, run)


PATTERNS = (weights, weights, large_weights, chains, chains, narrow_tensors)

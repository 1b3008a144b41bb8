# SPDX-License-Identifier: Apache-2.0
"""Operators of quantised models."""

import numpy as np

from grow import CODES, SETS, TYPES
from operators.rows import axis, image, row

BYTES = ("uint8", "int8")


def all_of_range(g, type, sizes, low=None, high=None):
    """An input or constant whose integers are of all of TYPE's range, or from LOW to HIGH."""
    info = np.iinfo(type)
    if not g.count(sizes):
        return None
    low, high = info.min if low is None else low, info.max if high is None else high
    arrays = [g.rng.integers(low, high + 1, [s[k] for s in sizes]).astype(type) for k in range(SETS)]
    return g.feed([arrays[0]] * SETS if len({a.shape for a in arrays}) == 1 else arrays)


# ONNX Runtime adds pairs of products of u8 by i8 in 16 bits, saturating, on processors without VNNI, where the u8 are on the left. The weights
# of ConvInteger are on the left of its image, whose i8 may be large. In these ranges of factors, by both types, no pair saturates.
EXACT_PAIRS = {("uint8", "int8"): (-64, 63)}
EXACT_PAIRS_SWAPPED = {("int8", "uint8"): (0, 127)}


def factor(g, v, sizes, op):
    """What OP multiplies the integers V by. ONNX Runtime has no i8 by u8 of the operators QLinear..."""
    type = "int8" if v.type == "int8" and op.startswith("QLinear") else g.random.choice(BYTES)
    ranges = EXACT_PAIRS_SWAPPED if op == "ConvInteger" else EXACT_PAIRS
    return all_of_range(g, type, sizes, *ranges.get((v.type, type), ()))


def scales(g, type, sizes, exact):
    """Scales; EXACT: powers of two, by which exact numbers stay exact."""
    def some(shape):
        powers = 2.0 ** g.rng.integers(-3, 2, shape)
        return np.asarray(powers if exact else powers * (0.5 + g.rng.random(shape))).astype(TYPES[type])
    arrays = [some([s[k] for s in sizes]) for k in range(SETS)]
    return g.feed([arrays[0]] * SETS if len({a.shape for a in arrays}) == 1 else arrays)


def granularity(g, v):
    """The dims of scales for V, and the attributes: for the tensor, an axis, or blocks."""
    way = g.random.choice(("tensor", "axis", "blocks")) if v.rank else "tensor"
    if way == "tensor":
        return g.random.choice(([], [(1,) * SETS])), {}
    a = axis(g, v)
    if way == "axis":
        return [v.sizes(a)], {"axis": a}
    size = g.random.choice((1, 2, 3, 16))
    return [tuple(-(-n // size) for n in v.sizes(i)) if i == a % v.rank else v.sizes(i) for i in range(v.rank)], {"axis": a, "block_size": size}


@row("QuantizeLinear")
def quantize(g, op):
    v = g.pick(types=("float32", "float32", "float16", "bfloat16"), exact=True)
    if v is None:
        return None
    sizes, attributes = granularity(g, v)
    type = g.random.choice(BYTES + ("uint16", "int16"))
    operands = [v, scales(g, v.type, sizes, v.type != "float32" or g.random.random() < 0.5)]
    if g.random.random() < 0.7:
        operands.append(all_of_range(g, type, sizes))
    elif g.random.random() < 0.7:
        attributes["output_dtype"] = CODES[type]
    return g.node(op, operands, exact=True, **attributes)


@row("DequantizeLinear")
def dequantize(g, op):
    v = g.pick(types=BYTES + ("uint16", "int16", "int32"))
    if v is None:
        return None
    sizes, attributes = granularity(g, v)
    operands = [v, scales(g, g.random.choice(("float32", "float32", "float16", "bfloat16")), sizes, g.random.random() < 0.5)]
    if v.type != "int32" and g.random.random() < 0.6:
        operands.append(all_of_range(g, v.type, sizes))
    return g.node(op, operands, exact=True, **attributes)


@row("DynamicQuantizeLinear")
def dynamic_quantize(g, op):
    return g.node(op, [g.pick(types=("float32",), exact=True, least=1)], 3, exact=True)


@row("MatMulInteger", "QLinearMatMul")
def quantized_matmul(g, op):
    a = g.pick(types=BYTES, rank=(2, 4))
    if a is None:
        return None
    batch = [a.sizes(i) for i in range(a.rank - 2)] if g.random.random() < 0.5 else []
    n = g.new_sizes()
    # Of QLinearMatMul of i8 by u8, which ONNX Runtime lacks, ONNX's reference rounds in f64.
    b = factor(g, a, batch + [a.sizes(a.rank - 1), n], op)
    if b is None:
        return None
    columns = [n] if g.random.random() < 0.4 and not batch else []
    zeros = [all_of_range(g, a.type, []), all_of_range(g, b.type, columns)]
    if op == "MatMulInteger":
        return g.node(op, [a, b] + zeros[:g.random.randrange(3)])
    return g.node(op, [a, scales(g, "float32", [], False), zeros[0], b, scales(g, "float32", columns, False), zeros[1],
                       scales(g, "float32", [], False), all_of_range(g, a.type, [])])


@row("ConvInteger", "QLinearConv")
def quantized_conv(g, op):
    v = image(g, types=BYTES)
    if v is None or len(set(v.sizes(1))) > 1:
        return None
    r, n, c = g.random, v.rank - 2, v.sizes(1)[0]
    kernel = [r.choice((1, 1, 2, 3)) for _ in range(n)]
    group = r.choice([1, 1] + [k for k in (2, 3, c) if c % k == 0])
    outer = group * r.choice((1, 2, 3, 5))
    w = factor(g, v, [(s,) * SETS for s in [outer, c // group] + kernel], op)
    if w is None:
        return None
    channels = [(outer,) * SETS] if r.random() < 0.5 and op == "QLinearConv" else []     # ONNX Runtime's ConvInteger lacks them
    zeros = [all_of_range(g, v.type, []), all_of_range(g, w.type, channels)]
    attributes = dict(group=group, strides=[r.choice((1, 1, 2)) for _ in range(n)], dilations=[r.choice((1, 1, 2)) for _ in range(n)])
    if r.random() < 0.2:
        attributes["auto_pad"] = r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = [r.choice((0, 0, 1)) for _ in kernel * 2]
    if op == "ConvInteger":
        return g.node(op, [v, w] + zeros[:r.randrange(3)], **attributes)
    bias = [g.feed([g.rng.integers(-9999, 9999, outer).astype("int32")] * SETS)] if r.random() < 0.6 else []
    return g.node(op, [v, scales(g, "float32", [], False), zeros[0], w, scales(g, "float32", channels, False), zeros[1],
                       scales(g, "float32", [], False), all_of_range(g, v.type, [])] + bias, **attributes)

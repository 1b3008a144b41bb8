# SPDX-License-Identifier: Apache-2.0
"""Operators that sort and select."""

import numpy as np

from grow import FLOATS, SETS
from operators.rows import ANY, axis, row


@row("TopK")
def top_k(g, op):
    v = g.pick(types=FLOATS + ("int32", "int64", "int8", "uint8", "int16", "uint64"), exact=True, rank=(1, 4), least=1)
    if v is None:
        return None
    axis = g.random.randrange(-v.rank, v.rank)
    sizes = v.sizes(axis % v.rank)
    count = [(g.random.randint(0, s),) for s in sizes] if g.random.random() < 0.5 else [(g.random.randint(0, min(sizes)),)]
    operands, attributes = [v, g.ints(*count)], dict(axis=axis, largest=g.random.randrange(2))
    if g.random.random() < 0.8:
        return g.node(op, operands, g.random.choice((2, 2, (1,))), exact=True, **attributes)
    either = g.node(op, operands, 2, exact=True, keep=False, sorted=0, **attributes)      # in any order: only the values, sorted, are known
    both = g.node(op, [either[0], operands[1]], 2, exact=True, keep=False, axis=axis) if either else None
    g.values += both[:1] if both else []
    return both


@row("NonZero")
def non_zero(g, op):
    v = g.pick(types=("float32", "float64", "float16", "bool", "int32", "int64", "uint8", "int8"), exact=True, rank=(1, 4))
    return g.node(op, [v]) if v else None


@row("Compress")
def compress(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    axis = g.random.choice((None, g.random.randrange(-v.rank, v.rank)))
    sizes = v.sizes(axis) if axis is not None else tuple(a.size for a in v.arrays)
    cut = g.random.randint(0, 2)
    condition = g.feed([g.rng.integers(0, 2, max(s - cut, 0)).astype(bool) for s in sizes])
    return g.node(op, [v, condition], exact=True, **({} if axis is None else {"axis": axis}))


@row("Unique")
def unique(g, op):
    v = g.pick(types=("float32", "int32", "int64", "uint8"), exact=True, rank=(1, 3))
    if v is None:
        return None
    attributes = {"axis": g.random.randrange(-v.rank, v.rank)} if g.random.random() < 0.4 else {}
    # ONNX's reference, which computes what ONNX Runtime lacks, sorts what it gives alone in any case, and takes unsorted slices along axis 0
    sorted_ = 1 if attributes and v.type in ("int32", "uint8") else g.random.randrange(2)
    results = g.node(op, [v], g.random.choice((4, 4, (0,) if sorted_ else 4, (0, 2), (0, 3), (0, 1, 2))), exact=True, sorted=sorted_, **attributes)
    return results[0] if isinstance(results, list) else results


@row("NonMaxSuppression")
def suppression(g, op):
    batch, classes, boxes = g.new_sizes(), (g.random.randint(1, 3),) * SETS, g.new_sizes()
    corners = g.new("float32", [batch, boxes, (4,) * SETS], exact=True)
    scores = g.new("float32", [batch, classes, boxes], exact=True)
    if corners is None or scores is None:
        return None
    choices = ((0, 1, 3, 5), np.int64), ((0, 0.25, 0.5), np.float32), ((-0.5, 0, 1), np.float32)
    limits = [g.feed([np.array(g.random.choice(c), t) for _ in range(SETS)]) if g.random.random() < 0.3 else
              g.const(np.array(g.random.choice(c), t)) for c, t in choices]
    centres = g.random.random() < 0.3
    if centres:                                              # and sizes, which are not negative
        corners = g.node("Abs", [corners], exact=True, keep=False)
    if g.random.random() < 0.3:
        limits[1] = ""
    return g.node(op, [corners, scores] + limits[:g.random.choice((1, 3, 3))], **({"center_point_box": 1} if centres else {}))

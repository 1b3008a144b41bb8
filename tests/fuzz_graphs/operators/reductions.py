# SPDX-License-Identifier: Apache-2.0
"""Reductions, and normalisations, which begin with one."""

import numpy as np

from grow import FLOATS
from operators.rows import axis, image, row, scalar, some_axes


@row("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduce(g, op):
    whole = op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1")
    v = g.pick(types=FLOATS + (("int32", "int64") if whole else ()), rank=(1, 5), least=0 if op in ("ReduceSum", "ReduceL1", "ReduceSumSquare") else 1)
    if op in ("ReduceLogSum", "ReduceLogSumExp"):
        v = g.within(v, 0.1 if op == "ReduceLogSum" else -9, 9)
    if v and v.type not in FLOATS:                            # ONNX Runtime's sums of integers do not wrap
        v = g.within(v, -1000, 1000)
    if op == "ReduceProd":
        v = g.within(v, -1 if v and v.type not in FLOATS else -1.5, 1 if v and v.type not in FLOATS else 1.5)
    if v is None:
        return None
    axes = some_axes(g, v)
    if any(0 in s for s in v.shapes()):                       # ONNX Runtime 1.31 keeps a dim of 0 that a negative axis names
        axes = [a % v.rank for a in axes]
    axes = [g.ints(axes)] if g.random.random() < 0.9 else []
    noop = {"noop_with_empty_axes": 1} if g.random.random() < 0.2 and (axes or op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")) else {}
    return g.node(op, [v] + axes, exact=whole, keepdims=g.random.randrange(2), **noop)


@row("ArgMax", "ArgMin")
def arg(g, op):
    v = g.pick(types=("float32", "float64", "int32", "int64", "int8", "uint8"), rank=(1, 4), exact=True, least=1)
    return g.node(op, [v], exact=True, axis=axis(g, v), keepdims=g.random.randrange(2), select_last_index=g.random.randrange(2)) if v else None


@row("CumSum", "CumProd")
def cumulate(g, op):
    v = g.pick(types=("float32", "float64", "int32", "int64"), rank=(1, 4))
    if op == "CumProd" and v:
        v = g.within(v, -1, 1)
    return g.node(op, [v, g.const(np.array(axis(g, v)))], exact=True, exclusive=g.random.randrange(2), reverse=g.random.randrange(2)) if v else None


@row("Softmax", "LogSoftmax", "LpNormalization")
def softmax(g, op):
    v = g.within(g.pick(rank=(1, 5), least=1), -30, 30)
    if v is None:
        return None
    if op == "LpNormalization":
        return g.node(op, [g.node("Add", [g.node("Abs", [v]), scalar(g, v, 1)])], axis=axis(g, v), p=g.random.choice((1, 2)))
    return g.node(op, [v], axis=axis(g, v))


@row("LayerNormalization", "RMSNormalization")
def layer_norm(g, op):
    v = g.within(g.pick(rank=(1, 4), least=2), -50, 50)
    if v is None:
        return None
    a = g.random.randrange(v.rank)
    sizes = [v.sizes(i) for i in range(a, v.rank)]
    more = [g.new(v.type, sizes) for _ in range(g.random.choice((1, 2)) if op[0] == "L" else 1)]
    # The mean is left out, since it may be what is left when elements cancel.
    return g.node(op, [v] + more, g.random.choice((1, 1, (0, 2))) if op[0] == "L" and v.type == "float32" else 1, axis=a, epsilon=0.25)


@row("BatchNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization")
def image_norm(g, op):
    v = g.within(image(g), -50, 50)
    if v is None:
        return None
    c = [v.sizes(1)]
    if op == "MeanVarianceNormalization":
        return g.node(op, [v], axes=[a for a in g.random.choice(([0, 2, 3], [2, 3], [1])) if a < v.rank])
    if op == "BatchNormalization":
        variance = g.node("Add", [g.node("Abs", [g.new(v.type, c)]), scalar(g, v, 0.5)])
        return g.node(op, [v, g.new(v.type, c), g.new(v.type, c), g.new(v.type, c), variance], epsilon=1e-3)
    attributes = {"epsilon": 0.25}
    if op == "GroupNormalization":
        attributes["num_groups"] = g.random.choice([n for n in (1, 2, 3, 4) if all(s % n == 0 for s in v.sizes(1))])
    return g.node(op, [v, g.new(v.type, c), g.new(v.type, c)], **attributes)

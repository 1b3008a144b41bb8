# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators."""

import numpy as np

from grow import CODES, FLOATS, INTS, TYPES
from operators.rows import ANY, INF, NUMBERS, SIGNED, axis, row, scalar

# Domain of a unary operator on floats. ONNX Runtime's Sigmoid errs by 3e-8 in absolute terms, which is all of small results.
DOMAIN = {"Acos": (-1, 1), "Acosh": (1, 50), "Asin": (-1, 1), "Asinh": (-50, 50), "Atan": (-50, 50), "Atanh": (-0.9, 0.9), "Celu": (-20, 50),
          "Cos": (-20, 20), "Cosh": (-4, 4), "Elu": (-20, 50), "Erf": (-9, 9), "Exp": (-20, 4), "Gelu": (-9, 50), "HardSigmoid": (-50, 50),
          "HardSwish": (-50, 50), "LeakyRelu": (-INF, INF), "Log": (0.1, 1e4), "Mish": (-20, 50), "Reciprocal": (0.1, 50), "Selu": (-20, 50),
          "Sigmoid": (-6, 20), "Sin": (-20, 20), "Sinh": (-4, 4), "Softplus": (-20, 50), "Softsign": (-50, 50), "Sqrt": (0, 1e4),
          "Swish": (-20, 50), "Tan": (-1.2, 1.2), "Tanh": (-9, 9)}
# Where the slope is infinite at an end of the domain, an error of rounding there is no error of rounding afterwards.
INEXACT = {"Acos": (-0.99, 0.99), "Acosh": (1.01, 50), "Asin": (-0.99, 0.99), "Sqrt": (0.01, 1e4)}
ATTRIBUTES = {"Celu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Selu": ("alpha", "gamma"),
              "Swish": ("alpha",)}


@row(*DOMAIN)
def function(g, op):
    v = g.pick()
    v = g.within(v, *(INEXACT if v and not v.exact and op in INEXACT else DOMAIN)[op])
    attributes = {a: g.random.choice((0.2, 0.5, 1.0, 1.5)) for a in ATTRIBUTES.get(op, ()) if g.random.random() < 0.6}
    if op == "Gelu" and g.random.random() < 0.5:
        v = g.within(v, -2, 50)     # below, 1 + tanh(...) cancels, and ONNX Runtime's result has few digits
        attributes["approximate"] = "tanh"
    return g.node(op, [v], **attributes)


@row("Abs", "Neg", "Relu", "Identity")
def exact_unary(g, op):
    return g.node(op, [g.pick(types=ANY if op == "Identity" else FLOATS + SIGNED)], exact=True)


@row("Ceil", "Floor", "Round", "Sign", "IsNaN", "IsInf", "ThresholdedRelu", "Shrink", "Hardmax")
def jump(g, op):
    v = g.pick(exact=True, least=1 if op == "Hardmax" else 0, rank=(1, 6) if op == "Hardmax" else None)
    attributes = {"Shrink": {"lambd": 1.5, "bias": g.random.choice((0.0, 1.0))}, "ThresholdedRelu": {"alpha": g.random.choice((0.25, 1.5))},
                  "IsInf": {"detect_negative": g.random.randrange(2)}}.get(op, {})
    if op == "Hardmax" and v:
        attributes = {"axis": axis(g, v)}
    if op in ("Ceil", "Floor", "Round") and v:
        v = g.node("Mul", [v, scalar(g, v, 0.5)], exact=True) and g.values[-1]
    return g.node(op, [v], exact=True, **attributes)


@row("Not", "BitwiseNot")
def bits(g, op):
    return g.node(op, [g.pick(types=("bool",) if op == "Not" else INTS)], exact=True)


@row("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum")
def arithmetic(g, op):
    v = g.pick(types=NUMBERS if op in ("Add", "Sub", "Mul", "Max", "Min") else FLOATS)
    operands = [v, g.beside(v) if v else None]
    if op in ("Max", "Min", "Mean", "Sum"):
        operands = operands[:g.random.choice((1, 2, 2))] + ([g.beside(v)] if v and g.random.random() < 0.4 else [])
    g.random.shuffle(operands)
    return g.node(op, operands, exact=op != "Mean")


@row("Div", "Mod")
def division(g, op):
    types = FLOATS + INTS if op == "Div" else INTS + FLOATS
    v = g.pick(types=types, exact=op == "Mod")
    if v is None:
        return None
    d = g.beside(v, test=lambda w: op == "Div" or w.exact)
    if d is None:
        return None
    if v.type in INTS:
        if any((a == 0).any() for a in d.arrays):
            d = g.node("Max", [d, scalar(g, d, 1)], exact=True)
        return g.node(op, [v, d], exact=True)
    if op == "Mod":
        return g.node(op, [v, g.node("Add", [g.node("Abs", [d], exact=True), scalar(g, d, 1)], exact=True)], exact=True, fmod=1)
    return g.node(op, [v, g.within(g.node("Abs", [d]), 0.25, 1e3)])


@row("Pow")
def power(g, op):
    v = g.pick(types=FLOATS)
    if g.random.random() < 0.5 and v:
        v = g.within(v, -3, 3)
        return g.node(op, [v, scalar(g, v, g.random.choice((1, 2, 3)))] if v else [None])
    v = g.within(v, 0.1, 9)
    return g.node(op, [v, g.within(g.beside(v), -3, 3) if v else None])


@row("PRelu")
def prelu(g, op):
    v = g.pick(rank=(1, 6))
    return g.node(op, [v, g.new(v.type, [v.sizes(v.rank - 1)], exact=v.exact or None) if v else None], exact=True)


@row("And", "Or", "Xor")
def logic(g, op):
    v = g.pick(types=("bool",))
    return g.node(op, [v, g.beside(v) if v else None], exact=True)


@row("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(g, op):
    v = g.pick(types=INTS)
    return g.node(op, [v, g.beside(v) if v else None], exact=True)


@row("BitShift")
def shift(g, op):
    v = g.pick(types=[t for t in INTS if t[0] == "u"])
    if v is None:
        return None
    return g.node(op, [v, scalar(g, v, g.random.randrange(4))], exact=True, direction=g.random.choice(("LEFT", "RIGHT")))


@row("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
def compare(g, op):
    v = g.pick(types=NUMBERS, exact=True)
    return g.node(op, [v, g.beside(v, test=lambda w: w.exact) if v else None], exact=True)


@row("Where")
def where(g, op):
    v = g.pick(types=ANY)
    o = g.beside(v) if v else None
    if o is None:
        return None
    shaped = [w for w in g.values if w.type == "bool" and w.rank <= v.rank]
    cond = g.random.choice(shaped) if shaped and g.random.random() < 0.5 else g.new("bool", [v.sizes(i) for i in range(v.rank)])
    return g.node(op, [cond, v, o], exact=True)


@row("Clip")
def clip(g, op):
    v = g.pick(types=FLOATS + ("int32", "int64", "int8", "uint8"))
    if v is None:
        return None
    low, high = scalar(g, v, 0 if v.type[0] == "u" else -2), scalar(g, v, 3)
    return g.node(op, [v] + g.random.choice(([low], [low, high], ["", high])), exact=True)


@row("Cast", "CastLike")
def cast(g, op):
    v = g.pick(types=ANY)
    if v is None:
        return None
    to = g.random.choice([t for t in ANY if v.exact or t in FLOATS])
    least = v.least()[0]
    if to[0] == "u" and least < 0:
        v = g.node("Max", [v, scalar(g, v, 0)], exact=True)
    if v and to in ("int8", "uint8"):
        v = v if v.type == "bool" else g.within(v, 0, 100)
    if op == "Cast":
        return g.node(op, [v], exact=True, to=CODES[to])
    return g.node(op, [v, g.const(np.zeros((), TYPES[to]))], exact=True)


@row("BitCast")
def bitcast(g, op):
    pairs = {"int8": "uint8", "uint8": "int8", "int32": "uint32", "uint32": "int32", "int16": "uint16", "int64": "uint64", "float32": "int32"}
    v = g.pick(types=tuple(pairs), exact=True)
    if v and v.type == "float32":                                   # no zero, since a sum of one product may keep the sign of its zero
        v = g.node("Add", [g.node("Abs", [v], exact=True, keep=False), g.const(np.float32(1))], exact=True, keep=False)
    return g.node(op, [v], exact=True, to=CODES[pairs[v.type]]) if v else None


@row("Dropout")
def dropout(g, op):
    return g.node(op, [g.pick()], exact=True)

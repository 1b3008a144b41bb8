# SPDX-License-Identifier: Apache-2.0
"""How each operator is put into a random graph: a function from a Grower and the operator's name to its results, or None.

A function chooses operands for which the operator is likely to be defined; whether it is, the Grower finds out. `exact` says that
results are exact where operands are, so that operators that jump may take them."""

import math

import numpy as np

from grow import CODES, FLOATS, INTS, SETS, TYPES, one_node, session

INF = math.inf
ROWS = {}
SIGNED = ("int8", "int16", "int32", "int64")
WHOLE = INTS + ("bool",)
NUMBERS = FLOATS + INTS
ANY = NUMBERS + ("bool",)


def row(*names):
    def put(function):
        for name in names:
            ROWS[name] = function
        return function
    return put


def numpy_of(v):
    return TYPES[v.type]


def scalar(g, v, x):
    return g.const(np.asarray(x, numpy_of(v)))


# ---- Elementwise ----

# Domain of a unary operator on floats.
DOMAIN = {"Acos": (-1, 1), "Acosh": (1, 50), "Asin": (-1, 1), "Asinh": (-50, 50), "Atan": (-50, 50), "Atanh": (-0.9, 0.9), "Celu": (-20, 50),
          "Cos": (-20, 20), "Cosh": (-4, 4), "Elu": (-20, 50), "Erf": (-9, 9), "Exp": (-20, 4), "Gelu": (-9, 50), "HardSigmoid": (-50, 50),
          "HardSwish": (-50, 50), "LeakyRelu": (-INF, INF), "Log": (0.1, 1e4), "Mish": (-20, 50), "Reciprocal": (0.1, 50), "Selu": (-20, 50),
          "Sigmoid": (-20, 20), "Sin": (-20, 20), "Sinh": (-4, 4), "Softplus": (-20, 50), "Softsign": (-50, 50), "Sqrt": (0, 1e4),
          "Swish": (-20, 50), "Tan": (-1.2, 1.2), "Tanh": (-9, 9)}
ATTRIBUTES = {"Celu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Selu": ("alpha", "gamma"),
              "Swish": ("alpha",)}


@row(*DOMAIN)
def function(g, op):
    v = g.within(g.pick(), *DOMAIN[op])
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
    attributes = {"Shrink": {"lambd": 1.5, "bias": 1.0}, "ThresholdedRelu": {"alpha": 1.5}}.get(op, {})
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
    return g.node(op, [v], exact=True, to=CODES[pairs[v.type]]) if v else None


@row("Dropout")
def dropout(g, op):
    return g.node(op, [g.pick()], exact=True)


# ---- Shapes ----

def axis(g, v):
    a = g.random.randrange(v.rank)
    return a - v.rank if g.random.random() < 0.4 else a


def some_axes(g, v, most=3):
    axes = g.random.sample(range(v.rank), g.random.randint(1, min(most, v.rank)))
    return [a - v.rank if g.random.random() < 0.3 else a for a in axes]


@row("Transpose")
def transpose(g, op):
    v = g.pick(types=ANY, rank=(1, 6))
    return g.node(op, [v], exact=True, perm=g.random.sample(range(v.rank), v.rank)) if v else None


@row("Reshape")
def reshape(g, op):
    """To a shape that is known, computed from shapes, or read from data; or with 0 and -1."""
    v = g.pick(types=ANY, rank=(1, 6))
    if v is None:
        return None
    r = g.random
    if r.random() < 0.4:
        i = r.randrange(v.rank)
        return g.node(op, [v, g.ints([0] * i + [-1])], exact=True)
    if v.rank > 1 and r.random() < 0.6:                       # joins two dims
        i = r.randrange(v.rank - 1)
        shapes = [list(s[:i]) + [s[i] * s[i + 1]] + list(s[i + 2:]) for s in v.shapes()]
    else:                                                     # splits one
        i = r.randrange(v.rank)
        part = r.choice((1, 2, 3, 4))
        if any(s % part for s in v.sizes(i)):
            part = 1
        shapes = [list(s[:i]) + [s[i] // part, part] + list(s[i + 1:]) for s in v.shapes()]
    return g.node(op, [v, g.ints(*shapes)], exact=True)


@row("Flatten")
def flatten(g, op):
    v = g.pick(types=ANY)
    return g.node(op, [v], exact=True, axis=g.random.randint(-v.rank, v.rank)) if v else None


@row("Squeeze", "Unsqueeze")
def squeeze(g, op):
    v = g.pick(types=ANY, rank=(0, 5))
    if v is None:
        return None
    n = g.random.randint(1, 2)
    up = g.node("Unsqueeze", [v, g.ints(sorted(g.random.sample(range(v.rank + n), n)))], exact=True)
    if op == "Unsqueeze" or up is None:
        return up
    ones = [i for i in range(up.rank) if set(up.sizes(i)) == {1}]
    return g.node("Squeeze", [up, g.ints(ones)], exact=True) if ones else None


@row("Expand")
def expand(g, op):
    v = g.pick(types=ANY)
    if v is None:
        return None
    extra = [g.new_sizes() for _ in range(g.random.randint(0, 1))]
    shapes = [[e[k] for e in extra] + [g.random.choice((1, 3)) if set(v.sizes(i)) == {1} else g.random.choice((1, n))
                                      for i, n in enumerate(v.arrays[k].shape)] for k in range(SETS)]
    return g.node(op, [v, g.ints(*shapes)], exact=True)


@row("Tile")
def tile(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    repeats = [[g.random.choice((1, 1, 2, 3)) for _ in range(v.rank)] for _ in range(SETS)]
    return g.node(op, [v, g.ints(*(repeats if g.random.random() < 0.5 else repeats[:1]))], exact=True)


@row("Pad")
def pad(g, op):
    v = g.pick(types=ANY, rank=(1, 5), least=1)
    if v is None:
        return None
    mode = g.random.choice(("constant", "constant", "edge", "reflect", "wrap"))
    ends = lambda: [g.random.choice((0, 0, 1, 2)) for _ in range(2 * v.rank)]
    operands = [v, g.ints(*([ends() for _ in range(SETS)] if g.random.random() < 0.4 else [ends()]))]
    if mode == "constant" and g.random.random() < 0.6:
        operands.append(scalar(g, v, 1))
    return g.node(op, operands, exact=True, mode=mode)


@row("Slice")
def slice_(g, op):
    v = g.pick(types=ANY, rank=(1, 6))
    if v is None:
        return None
    axes = some_axes(g, v, 2)
    one = lambda: ([g.random.choice((0, 1, -3, 2)) for _ in axes], [g.random.choice((2, 5, -1, 2**31, -2)) for _ in axes])
    pairs = [one() for _ in range(SETS)] if g.random.random() < 0.4 else [one()]
    steps = [g.random.choice((1, 1, 2, 3)) for _ in axes]
    if g.random.random() < 0.2:
        return g.node(op, [v, g.ints([-1] * len(axes)), g.ints([-2**31] * len(axes)), g.ints(axes), g.ints([-s for s in steps])], exact=True)
    return g.node(op, [v, g.ints(*[p[0] for p in pairs]), g.ints(*[p[1] for p in pairs]), g.ints(axes), g.ints(steps)], exact=True)


@row("Split")
def split(g, op):
    v = g.pick(types=ANY, rank=(1, 5))
    if v is None:
        return None
    a = axis(g, v)
    n = g.random.randint(2, 3)
    sizes = v.sizes(a)
    if len(set(sizes)) == 1 and sizes[0] > n and g.random.random() < 0.6:
        cuts = sorted(g.random.sample(range(1, sizes[0]), n - 1))
        return g.node(op, [v, g.ints([b - c for b, c in zip(cuts + [sizes[0]], [0] + cuts)])], n, exact=True, axis=a)
    return g.node(op, [v], n, exact=True, axis=a, num_outputs=n)


@row("Concat")
def concat(g, op):
    v = g.pick(types=ANY, rank=(1, 5))
    if v is None:
        return None
    a = axis(g, v)

    def same(w):
        return w.type == v.type and w.rank == v.rank and all(w.sizes(i) == v.sizes(i) for i in range(v.rank) if i != a % v.rank)
    fit = [w for w in g.values if same(w)]
    others = [g.random.choice(fit)] if g.random.random() < 0.6 else []
    if not others or g.random.random() < 0.3:
        others.append(g.new(v.type, [g.new_sizes() if i == a % v.rank else v.sizes(i) for i in range(v.rank)]))
    operands = [v] + others
    g.random.shuffle(operands)
    return g.node(op, operands, exact=True, axis=a)


@row("Shape", "Size")
def shape(g, op):
    v = g.pick(types=ANY)
    attributes = {"start": g.random.choice((0, 1, -2))} if op == "Shape" and g.random.random() < 0.4 else {}
    return g.node(op, [v], exact=True, **attributes)


@row("ConstantOfShape")
def constant_of_shape(g, op):
    from onnx import numpy_helper
    shapes = [[g.random.choice((1, 2, 5)) for _ in range(2)] for _ in range(SETS)]
    value = np.ones(1, TYPES[g.random.choice(("float32", "int64", "bool"))])
    v = g.pick(types=ANY, rank=(1, 3))
    s = g.node("Shape", [v], exact=True) if v and g.random.random() < 0.5 else g.ints(*shapes)
    return g.node(op, [s], exact=True, value=numpy_helper.from_array(value))


@row("Range")
def range_(g, op):
    limits = [g.random.choice((0, 1, 5, 9)) for _ in range(SETS)]
    v = g.pick(types=ANY, rank=(1, 4))
    if v and g.random.random() < 0.6:
        n = g.node("Gather", [g.node("Shape", [v], exact=True), g.const(np.array(g.random.randrange(v.rank)))], exact=True)
    else:
        n = g.feed([np.array(x) for x in limits])
    return g.node(op, [g.const(np.array(0)), n, g.const(np.array(g.random.choice((1, 1, 2))))], exact=True)


@row("EyeLike", "Trilu")
def diagonal(g, op):
    if op == "EyeLike":
        return g.node(op, [g.pick(types=("float32", "float64", "int32", "int64", "bool"), rank=2)], exact=True, k=g.random.choice((0, 0, 1, -1)))
    v = g.pick(types=("float32", "float64", "int64", "bool"), rank=(2, 4))
    return g.node(op, [v] + ([g.const(np.array(g.random.choice((-1, 0, 1, 2))))] if g.random.random() < 0.5 else []), exact=True,
                  upper=g.random.randrange(2))


@row("DepthToSpace", "SpaceToDepth")
def depth(g, op):
    block = g.random.choice((1, 2, 3))
    factors = (1, block * block, 1, 1) if op == "DepthToSpace" else (1, 1, block, block)
    sizes = [tuple(min(n, 5) * factor for n in g.new_sizes()) for factor in factors]
    v = g.new(g.random.choice(("float16", "float32", "float32", "int64")), sizes)
    attributes = {"mode": g.random.choice(("DCR", "CRD"))} if op == "DepthToSpace" else {}
    return g.node(op, [v], exact=True, blocksize=block, **attributes)


# ---- Indices ----

def indices(g, limits, sizes):
    """Indices within LIMITS, by data set; negative ones among them."""
    arrays = []
    for k in range(SETS):
        n, shape = limits[k], tuple(s[k] for s in sizes)
        if n == 0 and np.prod(shape, dtype=int):
            return None
        arrays.append(g.rng.integers(-n, max(n, 1), shape).astype(np.int64))
    return g.feed(arrays)


@row("Gather")
def gather(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    a = axis(g, v)
    return g.node(op, [v, indices(g, v.sizes(a), [g.new_sizes() for _ in range(g.random.randint(0, 2))])], exact=True, axis=a)


@row("GatherElements")
def gather_elements(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    a = axis(g, v)
    sizes = [g.new_sizes() if i == a % v.rank else v.sizes(i) for i in range(v.rank)]
    return g.node(op, [v, indices(g, v.sizes(a), sizes) if g.count(sizes) else None], exact=True, axis=a)


@row("GatherND", "ScatterND")
def gather_nd(g, op):
    v = g.pick(types=ANY if op == "GatherND" else NUMBERS, rank=(1, 4), least=1)
    if v is None:
        return None
    n = g.random.randint(1, v.rank)
    count = g.random.randint(0, 5)
    arrays = []
    for s in v.shapes():
        cells = int(np.prod(s[:n], dtype=int))
        flat = g.rng.permutation(cells)[:count]                # each place once: ScatterND's order is not defined otherwise
        arrays.append(np.stack(np.unravel_index(flat, s[:n]), -1).reshape(len(flat), n))
    if len({a.shape for a in arrays}) > 1 and g.dynamic == 0:
        return None
    at = g.feed([a.astype(np.int64) for a in arrays])
    if op == "GatherND":
        return g.node(op, [v, at], exact=True)
    update = g.new(v.type, [tuple(len(a) for a in arrays)] + [v.sizes(i) for i in range(n, v.rank)], exact=v.exact or None)
    return g.node(op, [v, at, update], exact=True, reduction=g.random.choice(("none", "add", "max", "min")))


@row("ScatterElements")
def scatter_elements(g, op):
    v = g.pick(types=NUMBERS, rank=(1, 3), least=1)
    if v is None:
        return None
    a = g.random.randrange(v.rank)
    reduction = g.random.choice(("none", "add", "max", "min"))
    arrays = []
    for s in v.shapes():
        n = s[a] if reduction == "none" else 4
        one = np.stack([g.rng.permutation(s[a])[:n] if reduction == "none" else g.rng.integers(-s[a], s[a], n)
                        for _ in range(int(np.prod(s, dtype=int)) // s[a])])
        arrays.append(np.moveaxis(one.reshape([d for i, d in enumerate(s) if i != a] + [n]), -1, a).astype(np.int64))
    update = g.new(v.type, [tuple(x.shape[i] for x in arrays) for i in range(v.rank)], exact=v.exact or None)
    return g.node(op, [v, g.feed(arrays), update], exact=True, axis=a, reduction=reduction)


@row("OneHot")
def one_hot(g, op):
    depth_ = g.random.choice((1, 3, 6))
    i = indices(g, [depth_] * SETS, [g.new_sizes() for _ in range(g.random.randint(0, 2))])
    values = g.const(np.array([0, 1], TYPES[g.random.choice(("float32", "int64"))]))
    return g.node(op, [i, g.const(np.array(depth_)), values], exact=True, axis=g.random.choice((-1, 0))) if i else None


# ---- Reductions ----

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
    return g.node(op, [v] + axes, exact=whole, keepdims=g.random.randrange(2))


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
    return g.node(op, [v] + more, axis=a, epsilon=0.25)


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


# ---- Contractions ----

@row("MatMul")
def matmul(g, op):
    v = g.pick(types=("float32", "float64", "float16", "int32", "int64"), rank=(1, 4))
    if v is None:
        return None
    fit = [w for w in g.values if w.type == v.type and w.rank >= 2 and w.sizes(w.rank - 2) == v.sizes(v.rank - 1)]
    if fit and g.random.random() < 0.4:
        w = g.random.choice(fit)
    else:
        batch = [v.sizes(i) for i in range(v.rank - 2)] if g.random.random() < 0.4 else []
        w = g.new(v.type, batch + [v.sizes(v.rank - 1)] + ([g.new_sizes()] if g.random.random() < 0.9 or batch else []), exact=v.exact or None)
    return g.node(op, [v, w], exact=True)


@row("Gemm")
def gemm(g, op):
    v = g.pick(types=("float32", "float64", "float16"), rank=2)
    if v is None:
        return None
    ta, tb = g.random.randrange(2), g.random.randrange(2)
    k, m, n = v.sizes(0 if ta else 1), v.sizes(1 if ta else 0), g.new_sizes()
    w = g.new(v.type, [n, k] if tb else [k, n], exact=v.exact or None)
    c = [g.new(v.type, g.random.choice(([n], [m, n], [(1,) * SETS, n], [m, (1,) * SETS], [])), exact=v.exact or None)] if g.random.random() < 0.6 else []
    scale = {"alpha": 0.5, "beta": 2.0} if g.random.random() < 0.3 else {}
    return g.node(op, [v, w] + c, exact=not scale, transA=ta, transB=tb, **scale)


@row("Einsum")
def einsum(g, op):
    v = g.pick(types=("float32", "float64"), rank=(1, 4))
    if v is None:
        return None
    a = "abcd"[:v.rank]
    if g.random.random() < 0.3:
        out = "".join(g.random.sample(a, g.random.randint(0, v.rank)))
        return g.node(op, [v], exact=True, equation=f"{a}->{out}")
    shared = "".join(g.random.sample(a, g.random.randint(1, v.rank)))
    b = shared + "e"
    w = g.new(v.type, [v.sizes(a.index(c)) if c in a else g.new_sizes() for c in b], exact=v.exact or None)
    out = "".join(c for c in a + "e" if c not in shared or g.random.random() < 0.4)
    return g.node(op, [v, w], exact=True, equation=f"{a},{b}->{out}")


def image(g, least=1, types=("float32", "float32", "float64", "float16")):
    v = g.pick(types=types, rank=(3, 5), least=least)
    if v is None or g.random.random() < 0.3:
        sizes = [g.new_sizes()] + [(g.random.choice((1, 2, 3, 4, 6, 8, 16)),) * SETS] + [tuple(max(s, least) for s in g.new_sizes()) for _ in range(g.random.choice((1, 2, 2, 2, 3)))]
        v = g.new(g.random.choice(types), sizes) if g.count(sizes) else None
    return v


@row("Conv", "ConvTranspose")
def conv(g, op):
    v = image(g)
    if v is None or len(set(v.sizes(1))) > 1:
        return None
    r, n, c = g.random, v.rank - 2, v.sizes(1)[0]
    kernel = [r.choice((1, 1, 2, 3, 3, 5)) for _ in range(n)]
    group = r.choice([1, 1] + [k for k in (2, 3, 4, c) if c % k == 0])
    outer = group * r.choice((1, 1, 2, 3, 5)) if op == "Conv" else r.choice((1, 1, 2, 3)) * group
    shape_ = [outer, c // group] + kernel if op == "Conv" else [c, outer // group] + kernel
    w = g.new(v.type, [(s,) * SETS for s in shape_], exact=v.exact or None)
    bias = [g.new(v.type, [(outer,) * SETS], exact=v.exact or None)] if r.random() < 0.5 else []
    attributes = dict(group=group, strides=[r.choice((1, 1, 2)) for _ in range(n)], dilations=[r.choice((1, 1, 2)) for _ in range(n)])
    if r.random() < 0.3 and op == "Conv":
        attributes["auto_pad"] = r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = [r.choice((0, 0, 1, k // 2)) for k in kernel * 2]
    if op == "ConvTranspose" and r.random() < 0.3:
        attributes["output_padding"] = [r.randrange(max(s, d)) for s, d in zip(attributes["strides"], attributes["dilations"])]
    return g.node(op, [v, w] + bias, exact=True, **attributes)


# ---- Recurrent ----

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
# Activations, with the number of their parameters. ScaledTanh and Affine have no defaults that all agree on.
ACTIVATIONS = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "Softsign": 0, "Softplus": 0, "LeakyRelu": 1, "Elu": 1, "HardSigmoid": 2, "ScaledTanh": 2,
               "Affine": 2}


def recurrent_run(op, operands, results, attributes, dirs, hidden):
    """Computes a recurrent node: ONNX Runtime takes one with the time first, and with a step and a sequence at least; and the last state of
    a sequence of no steps, which is its first one, is 0 there."""
    names = [o and f"i{k}" for k, o in enumerate(operands)]
    by_name = [o and o.name for o in operands]
    made = session(one_node(op, names, [f"o{k}" for k in range(results)], {k: a for k, a in attributes.items() if k != "layout"},
                            {f"i{k}": (o.type, o.rank) for k, o in enumerate(operands) if o}))
    batch_first = attributes.get("layout", 0)

    def run(feed):
        given = {n: feed[v] for n, v in zip(names, by_name) if n}
        if batch_first:
            given.update({n: np.ascontiguousarray(given[n].swapaxes(0, 1)) for n in ("i0", "i5", "i6") if n in given})
        steps, batch = given["i0"].shape[:2]
        zeros = np.zeros((dirs, batch, hidden), given["i0"].dtype)
        values = made(given) if steps and batch else \
            [np.zeros((steps,) + zeros.shape, zeros.dtype), given.get("i5", zeros), given.get("i6", zeros)]
        if "i4" in given:
            for last, first in zip(values[1:], ("i5", "i6")):
                last[:, given["i4"] == 0] = given.get(first, zeros)[:, given["i4"] == 0]
        if batch_first:
            values = [v.transpose(2, 0, 1, 3) if v.ndim == 4 else v.swapaxes(0, 1) for v in values]
        return values
    return run


@row(*GATES)
def recurrent(g, op):
    r = g.random
    batch_first, direction = r.random() < 0.3 and not g.nesting, r.choice(("forward", "reverse", "bidirectional"))
    dirs, gates, hidden, inner = 2 if direction == "bidirectional" else 1, GATES[op], r.choice((1, 2, 3, 5, 8, 16)), r.choice((1, 2, 4, 7, 16))
    v = g.pick(lambda v: all(len(set(v.sizes(i))) == 1 for i in (2,)) and max(v.sizes(0) + v.sizes(1)) <= 40, types=("float32",), rank=3)
    if v is None or r.random() < 0.3:
        v = g.new("float32", [g.new_sizes(), g.new_sizes(), (inner,) * SETS], exact=False)
    if v is None or (g.nesting and 0 in v.sizes(0) + v.sizes(1)):          # of which ONNX Runtime ends with SIGFPE
        return None
    v = g.within(v, -9, 9)
    if v is None:
        return None
    inner = v.sizes(2)[0]
    steps, batch = (v.sizes(1), v.sizes(0)) if batch_first else (v.sizes(0), v.sizes(1))

    def weights(*sizes):
        w = g.elements(v.type, sizes, False) * TYPES[v.type].type(0.5)
        return g.feed([w] * SETS, exact=False)
    operands = [v, weights(dirs, gates * hidden, inner), weights(dirs, gates * hidden, hidden), "", "", "", "", ""]
    state = [batch, (dirs,) * SETS, (hidden,) * SETS] if batch_first else [(dirs,) * SETS, batch, (hidden,) * SETS]
    if r.random() < 0.6:
        operands[3] = weights(dirs, 2 * gates * hidden)
    if r.random() < 0.4:
        operands[4] = g.feed([np.array([r.choice((0, 1, t, r.randint(0, t))) for _ in range(b)], np.int32) for t, b in zip(steps, batch)])
    if r.random() < 0.4:
        operands[5] = g.new(v.type, state, exact=False)
    if op == "LSTM" and r.random() < 0.4:
        operands[6] = g.new(v.type, state, exact=False)
    if op == "LSTM" and r.random() < 0.3:
        operands[7] = weights(dirs, 3 * hidden)
    attributes = {"direction": direction, "hidden_size": hidden}
    if batch_first:
        attributes["layout"] = 1
    if r.random() < 0.3 and op != "LSTM":                     # ONNX Runtime does not clip what its last activation takes
        attributes["clip"] = r.choice((0.5, 2.0))
    if op == "GRU":
        attributes["linear_before_reset"] = r.randrange(2)
    if op == "LSTM" and r.random() < 0.3:
        attributes["input_forget"] = 1
    if r.random() < 0.5:
        chosen = [r.choice(list(ACTIVATIONS)) for _ in range(FUNCTIONS[op] * dirs)]
        attributes["activations"] = chosen
        for name, least in ("activation_alpha", 1), ("activation_beta", 2):
            count = sum(ACTIVATIONS[f] >= least for f in chosen)
            if count:
                attributes[name] = [r.choice((0.25, 0.5, 1.0)) for _ in range(count)]
    if any(o is None for o in operands):
        return None
    while operands[-1] == "":
        operands.pop()
    results = r.randint(1, 3 if op == "LSTM" else 2)
    return g.node(op, operands, results, run=lambda: recurrent_run(op, operands, results, attributes, dirs, hidden), **attributes)


# ---- Quantised ----

BYTES = ("uint8", "int8")


def all_of_range(g, type, sizes):
    """An input or constant whose integers are of all of TYPE's range."""
    info = np.iinfo(type)
    if not g.count(sizes):
        return None
    arrays = [g.rng.integers(info.min, info.max + 1, [s[k] for s in sizes]).astype(type) for k in range(SETS)]
    return g.feed([arrays[0]] * SETS if len({a.shape for a in arrays}) == 1 else arrays)


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
    # ONNX Runtime lacks QLinearMatMul of i8 by u8, of which ONNX's reference rounds in f64.
    b = all_of_range(g, "int8" if a.type == "int8" and op == "QLinearMatMul" else g.random.choice(BYTES), batch + [a.sizes(a.rank - 1), n])
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
    w = all_of_range(g, "int8" if v.type == "int8" and op == "QLinearConv" else r.choice(BYTES), [(s,) * SETS for s in [outer, c // group] + kernel])
    if w is None:
        return None
    channels = [(outer,) * SETS] if r.random() < 0.5 and op == "QLinearConv" else []     # ONNX Runtime's ConvInteger lacks them
    zeros = [all_of_range(g, v.type, []), all_of_range(g, w.type, channels)]
    attributes = dict(group=group, strides=[r.choice((1, 1, 2)) for _ in range(n)], pads=[r.choice((0, 0, 1)) for _ in kernel * 2])
    if op == "ConvInteger":
        return g.node(op, [v, w] + zeros[:r.randrange(3)], **attributes)
    bias = [g.feed([g.rng.integers(-9999, 9999, outer).astype("int32")] * SETS)] if r.random() < 0.6 else []
    return g.node(op, [v, scales(g, "float32", [], False), zeros[0], w, scales(g, "float32", channels, False), zeros[1],
                       scales(g, "float32", [], False), all_of_range(g, v.type, [])] + bias, **attributes)


@row("AveragePool", "MaxPool", "LpPool")
def pool(g, op):
    v = image(g)
    if v is None:
        return None
    r, n = g.random, v.rank - 2
    dilations = [r.choice((1, 2)) for _ in range(n)] if r.random() < 0.3 else [1] * n
    # No window is larger than the input, which dlcc refuses.
    kernel = [r.choice([k for k in (1, 2, 3) if k == 1 or d * (k - 1) < min(v.sizes(i + 2))]) for i, d in enumerate(dilations)]
    attributes = dict(kernel_shape=kernel, strides=[r.choice((1, 2)) for _ in range(n)], ceil_mode=r.randrange(2))
    attributes["pads"] = [r.randrange(k) for k in kernel * 2]
    if max(dilations) > 1:
        attributes["dilations"] = dilations
    if op == "AveragePool":
        attributes["count_include_pad"] = r.randrange(2)
    if op == "LpPool":
        v, attributes["p"] = g.node("Add", [g.node("Abs", [v]), scalar(g, v, 0.5)]), r.choice((1, 2))
    return g.node(op, [v], 2 if op == "MaxPool" and v and v.exact and r.random() < 0.2 else 1, exact=op == "MaxPool", **attributes)


@row("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g, op):
    v = image(g)
    if op == "GlobalLpPool" and v:
        v = g.node("Abs", [v])
    return g.node(op, [v], exact=op == "GlobalMaxPool")


@row("LRN")
def lrn(g, op):
    return g.node(op, [g.within(image(g), -9, 9)], size=g.random.choice((1, 3, 5)), alpha=0.1, bias=1.0)


@row("Resize")
def resize(g, op):
    # ONNX Runtime computes coordinates in f32, with few digits where they are large.
    v = g.pick(lambda w: all(max(w.sizes(i)) <= 40 for i in range(w.rank)), types=("float32", "float64", "uint8", "int8"), rank=(1, 4), least=1)
    if v is None:
        return None
    r = g.random
    mode = "nearest" if v.type not in FLOATS else r.choice(("nearest", "linear", "cubic"))
    attributes = dict(mode=mode, coordinate_transformation_mode=r.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")))
    if mode == "nearest":
        if r.random() < 0.2:
            attributes["coordinate_transformation_mode"] = "tf_half_pixel_for_nn"
        attributes["nearest_mode"] = r.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    # ONNX's reference samples a single point of pytorch_half_pixel at -0.5, and the standard at 0, which cubic alone tells apart.
    if mode == "cubic" and attributes["coordinate_transformation_mode"] == "pytorch_half_pixel":
        attributes["coordinate_transformation_mode"] = "half_pixel"
    keep = r.randrange(v.rank)
    # With align_corners and a scale that gives no whole size, ONNX Runtime and ONNX's node tests differ.
    if r.random() < 0.5 and attributes["coordinate_transformation_mode"] != "align_corners":
        scales = [1.0 if i < keep else r.choice((0.5, 1.0, 2.0, 3.0)) for i in range(v.rank)]
        return g.node(op, [v, "", g.const(np.array(scales, np.float32))], exact=mode == "nearest", **attributes)
    sizes = [[s if i < keep else r.choice((1, 2, 5, 8)) for i, s in enumerate(shape_)] for shape_ in v.shapes()]
    return g.node(op, [v, "", "", g.ints(*sizes)], exact=mode == "nearest", **attributes)


# ---- Sampling and pieces of images ----

def square(g, least=1, channels=None, types=("float32", "float32", "float64")):
    """An image of two spatial dims, not large."""
    sizes = [g.new_sizes(), (channels or g.random.choice((1, 2, 3, 4)),) * SETS] + [tuple(max(min(s, 9), least) for s in g.new_sizes()) for _ in range(2)]
    return g.new(g.random.choice(types), sizes) if g.count(sizes) else None


@row("GridSample")
def grid_sample(g, op):
    r = g.random
    v = image(g, types=("float32", "float32", "float64", "float16")) if r.random() < 0.5 else square(g)
    if v is None or v.rank < 4:
        return None
    mode = r.choice(("linear", "nearest", "cubic") if v.rank == 4 else ("linear", "nearest"))
    sizes = [v.sizes(0)] + [tuple(min(s, 6) for s in g.new_sizes()) for _ in range(v.rank - 2)] + [(v.rank - 2,) * SETS]
    grid = g.new(v.type, sizes, exact=True if mode == "nearest" else None) if g.count(sizes) else None
    grid = g.node("Mul", [grid, scalar(g, v, 0.25)], exact=True) if grid else None     # mostly inside
    return g.node(op, [v, grid], mode=mode, padding_mode=r.choice(("zeros", "border", "reflection")), align_corners=r.randrange(2))


@row("AffineGrid")
def affine_grid(g, op):
    n = g.random.choice((2, 3))
    batch = g.new_sizes()
    theta = g.new(g.random.choice(("float32", "float64")), [batch, (n,) * SETS, (n + 1,) * SETS])
    spatial = [g.random.choice((2, 3, 5)) for _ in range(n)]
    return g.node(op, [theta, g.ints(*[[b, 1] + spatial for b in batch])], align_corners=g.random.randrange(2))


@row("Col2Im")
def col2im(g, op):
    r = g.random
    block, stride, dilation = ([r.choice((1, 2, 3)) for _ in range(2)], [r.choice((1, 1, 2)) for _ in range(2)], [r.choice((1, 1, 2)) for _ in range(2)])
    pads = [r.choice((0, 0, 1)) for _ in range(4)]
    sizes = [[r.choice((5, 6, 9)) for _ in range(2)] for _ in range(SETS if r.random() < g.dynamic else 1)]
    sizes = sizes if len(sizes) == SETS else sizes * SETS
    count = [int(np.prod([(s[d] + pads[d] + pads[d + 2] - dilation[d] * (block[d] - 1) - 1) // stride[d] + 1 for d in range(2)])) for s in sizes]
    v = g.new(r.choice(("float32", "float64")), [g.new_sizes(), (block[0] * block[1] * r.choice((1, 2, 3)),) * SETS, tuple(count)])
    return g.node(op, [v, g.ints(*sizes), g.ints(block)], exact=True, strides=stride, dilations=dilation, pads=pads)


@row("MaxUnpool")
def max_unpool(g, op):
    v = square(g, least=4, types=("float32",))
    if v is None:
        return None
    kernel, stride = [g.random.choice((2, 3)) for _ in range(2)], [g.random.choice((2, 3)) for _ in range(2)]
    pooled = g.node("MaxPool", [v], 2, exact=True, kernel_shape=kernel, strides=stride) if v.exact else None
    if pooled is None:
        return None
    more = [g.ints(*v.shapes())] if g.random.random() < 0.5 and all(
        (n - k) % s == 0 for n, k, s in zip(v.shapes()[0][2:], kernel, stride)) else []
    return g.node(op, pooled + more, exact=True, kernel_shape=kernel, strides=stride)


@row("CenterCropPad")
def center(g, op):
    v = g.pick(types=ANY, rank=(1, 4))
    if v is None:
        return None
    axes = g.random.sample(range(v.rank), g.random.randint(1, v.rank))
    one = lambda: [g.random.choice((1, 2, 5, 8)) for _ in axes]
    return g.node(op, [v, g.ints(*([one() for _ in range(SETS)] if g.random.random() < 0.4 else [one()]))], exact=True, axes=axes)


@row("RoiAlign", "MaxRoiPool")
def regions(g, op):
    r = g.random
    v = square(g, least=3, types=("float32",))
    if v is None or min(v.sizes(0)) == 0:
        return None
    count = tuple(min(n, 7) for n in g.new_sizes())
    arrays, batch = [], []
    for k in range(SETS):
        corner = g.rng.integers(0, 6, (count[k], 2))
        arrays.append(np.concatenate([corner, corner + g.rng.integers(1, 9, (count[k], 2))], 1).astype(np.float32))
        batch.append(g.rng.integers(0, v.sizes(0)[k], count[k]).astype(np.int64))
    shape_ = [r.choice((1, 2, 4)), r.choice((1, 2, 4))]
    if op == "MaxRoiPool":
        rois = [np.concatenate([b[:, None].astype(np.float32), a], 1) for a, b in zip(arrays, batch)]
        return g.node(op, [v, g.feed(rois)], exact=True, pooled_shape=shape_, spatial_scale=r.choice((1.0, 0.5)))
    return g.node(op, [v, g.feed(arrays), g.feed(batch)], output_height=shape_[0], output_width=shape_[1], mode=r.choice(("avg", "avg", "max")),
                  sampling_ratio=r.choice((0, 1, 2)), spatial_scale=r.choice((1.0, 0.5)),
                  coordinate_transformation_mode=r.choice(("half_pixel", "output_half_pixel")))


@row("DeformConv")
def deform_conv(g, op):
    r = g.random
    v = square(g, least=3, channels=r.choice((2, 4)), types=("float32",))
    if v is None:
        return None
    c = v.sizes(1)[0]
    kernel, stride, dilation = [r.choice((1, 2, 3)) for _ in range(2)], [r.choice((1, 2)) for _ in range(2)], [1, 1]
    pads = [r.choice((0, 1)) for _ in range(4)]
    group, offsets = r.choice((1, 2)), r.choice((1, 2))
    out = [tuple((s + pads[d] + pads[d + 2] - kernel[d]) // stride[d] + 1 for s in v.sizes(d + 2)) for d in range(2)]
    taps = kernel[0] * kernel[1] * offsets
    operands = [v, g.new(v.type, [(n,) * SETS for n in (2 * group, c // group, *kernel)]), g.new(v.type, [v.sizes(0), (2 * taps,) * SETS] + out)]
    if r.random() < 0.5:
        operands.append(g.new(v.type, [(2 * group,) * SETS]) if r.random() < 0.6 else "")
        operands.append(g.new(v.type, [v.sizes(0), (taps,) * SETS] + out))
    return g.node(op, operands, group=group, offset_group=offsets, strides=stride, dilations=dilation, pads=pads)


@row("Det")
def det(g, op):
    n = g.random.choice((1, 2, 3, 5))
    return g.node(op, [g.new(g.random.choice(("float32", "float64")), [g.new_sizes() for _ in range(g.random.randint(0, 2))] + [(n,) * SETS] * 2)])


# ---- Sequences and transformers ----

@row("ReverseSequence", "TensorScatter")
def by_lengths(g, op):
    r = g.random
    v = g.pick(types=ANY, rank=(2, 4), least=1)
    if v is None:
        return None
    batch = r.randrange(2) if op == "ReverseSequence" else 0
    axis_ = 1 - batch if op == "ReverseSequence" else r.randrange(1, v.rank)
    if op == "ReverseSequence":
        lengths = [g.rng.integers(1, t + 1, b).astype(np.int64) for b, t in zip(v.sizes(batch), v.sizes(axis_))]
        return g.node(op, [v, g.feed(lengths)], exact=True, batch_axis=batch, time_axis=axis_)
    count = tuple(r.randint(1, t) for t in v.sizes(axis_)) if len(set(v.sizes(axis_))) > 1 else (r.randint(1, v.sizes(axis_)[0]),) * SETS
    update = g.new(v.type, [count if i == axis_ else v.sizes(i) for i in range(v.rank)], exact=v.exact or None)
    circular = r.random() < 0.4
    starts = [g.rng.integers(0, t if circular else t - n + 1, b).astype(np.int64) for b, t, n in zip(v.sizes(0), v.sizes(axis_), count)]
    return g.node(op, [v, update, g.feed(starts)], exact=True, axis=axis_, mode="circular" if circular else "linear")


@row("Attention")
def attention(g, op):
    """Heads in dim 1 or in the last one; grouped; with masks, a past and windows of keys."""
    r = g.random
    type_ = r.choice(("float32", "float32", "float32", "float16"))
    batch, past = (tuple(min(n, 9) for n in g.new_sizes()) for _ in range(2))
    queries, keys = (tuple(max(1, min(n, 9)) for n in g.new_sizes()) for _ in range(2))
    heads, group, size, value = r.choice((1, 2, 3)), r.choice((1, 1, 2)), (r.choice((2, 4, 8)),) * SETS, (r.choice((2, 4, 8)),) * SETS
    flat, causal, with_past = r.random() < 0.3, r.random() < 0.4, r.random() < 0.3
    if causal and with_past:     # otherwise ONNX Runtime's offset is not that of the standard
        keys = queries

    def operand(n, count, width):
        if flat:
            return g.new(type_, [batch, count, tuple(n * w for w in width)])
        return g.new(type_, [batch, (n,) * SETS, count, width])
    operands = [operand(heads * group, queries, size), operand(heads, keys, size), operand(heads, keys, value)]
    attributes = dict(q_num_heads=heads * group, kv_num_heads=heads) if flat else {}
    all_keys = tuple(a + b for a, b in zip(keys, past)) if with_past else keys
    if r.random() < 0.5:
        shape_ = [batch, (heads * group,) * SETS, queries, all_keys][r.choice((0, 1, 2)):]
        if r.random() < 0.5:
            operands.append(g.new(type_, shape_))
        else:
            operands.append(g.feed([(g.rng.random(tuple(s[k] for s in shape_)) < 0.8) | (np.arange(all_keys[k]) == 0) for k in range(SETS)]))
    elif with_past:
        operands.append("")
    if with_past:
        operands += [g.new(type_, [batch, (heads,) * SETS, past, width]) for width in (size, value)]
    if r.random() < 0.2:
        attributes["softcap"] = 2.0
    if r.random() < 0.3:
        attributes["scale"] = 0.25
    return g.node(op, operands, 3 if with_past else 1, is_causal=int(causal), **attributes)


@row("RotaryEmbedding")
def rotary(g, op):
    r = g.random
    batch, count = (tuple(min(n, 9) for n in g.new_sizes()) for _ in range(2))
    heads, size = r.choice((1, 2, 3)), r.choice((4, 8))
    flat, positions = r.random() < 0.5, r.random() < 0.5
    rotated = size if r.random() < 0.6 or not positions else size // 2
    v = g.new("float32", [batch, count, (heads * size,) * SETS] if flat else [batch, (heads,) * SETS, count, (size,) * SETS])
    table = [(12,) * SETS] if positions else [batch, count]
    operands = [v] + [g.new("float32", table + [(rotated // 2,) * SETS]) for _ in range(2)]
    if positions:
        operands.append(g.feed([g.rng.integers(0, 12, (b, n)).astype(np.int64) for b, n in zip(batch, count)]))
    attributes = {"num_heads": heads} if flat or rotated != size else {}
    if rotated != size:
        attributes["rotary_embedding_dim"] = rotated
    return g.node(op, operands, interleaved=r.randrange(2), **attributes)


# ---- Losses ----

@row("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g, op):
    r = g.random
    classes = r.choice((2, 3, 7))
    rest = [g.new_sizes() for _ in range(r.choice((0, 0, 1, 2)))]
    sizes = [g.new_sizes(), (classes,) * SETS] + rest
    v = g.new(r.choice(("float32", "float64")), sizes) if g.count(sizes) else None
    target = g.feed([g.rng.integers(0, classes, (sizes[0][k], *(s[k] for s in sizes[2:]))).astype(np.int64) for k in range(SETS)])
    operands = [v, target]
    if r.random() < 0.5 and v:
        w = g.new(v.type, [(classes,) * SETS])
        operands.append(g.node("Add", [g.node("Abs", [w]), scalar(g, v, 0.5)]) if w else None)
    attributes = {"ignore_index": r.randrange(classes)} if r.random() < 0.4 else {}
    return g.node(op, operands, 2 if op[0] == "S" and r.random() < 0.3 else 1, reduction=r.choice(("none", "sum", "mean")), **attributes)


# ---- Signals ----

@row("HannWindow", "HammingWindow", "BlackmanWindow")
def window(g, op):
    sizes = [g.random.choice((4, 5, 16, 31)) for _ in range(SETS)]
    n = g.feed([np.array(n) for n in sizes]) if g.random.random() < g.dynamic else g.const(np.array(sizes[0]))
    w = g.node(op, [n], keep=False, periodic=g.random.randrange(2))
    return g.node("Add", [w, scalar(g, w, 1)]) if w else None      # at the ends, digits cancel and none is left


@row("MelWeightMatrix")
def mel(g, op):
    r = g.random
    operands = [np.array(r.choice((3, 8))), np.array(r.choice((16, 31, 64))), np.array(8192), np.array(0, np.float32), np.array(8192 / 2, np.float32)]
    return g.node(op, [g.const(o) for o in operands])


@row("DFT", "STFT")
def dft(g, op):
    r = g.random
    type_, parts = r.choice(("float32", "float32", "float64")), r.choice((1, 2))
    onesided = r.randrange(2) if parts == 1 else 0
    if op == "STFT":
        batch, length = (tuple(max(1, n) for n in g.new_sizes()) for _ in range(2))
        step, size = r.choice((1, 2, 3)), r.choice((2, 4, 7))
        v = g.new(type_, [batch, tuple(n + size for n in length), (1,) * SETS]) if g.count([batch, length, (size,) * SETS]) else None
        w = g.new(type_, [(size,) * SETS]) if r.random() < 0.5 else ""
        return g.node(op, [v, g.const(np.array(step)), w, g.const(np.array(size))], onesided=r.randrange(2))
    rank = r.choice((1, 2, 3))
    sizes = [tuple(max(n, 1) for n in g.new_sizes()) for _ in range(rank)]
    v = g.new(type_, sizes + [(parts,) * SETS]) if g.count(sizes) else None
    a = r.randrange(rank)
    length = r.choice(("", g.const(np.array(r.choice((2, 5, 8))))))
    return g.node(op, [v, length, g.const(np.array(a if r.random() < 0.5 else a - rank - 1))], onesided=onesided, inverse=0 if onesided else r.randrange(2))


# Operators of the table that no graph has, with the reason.
RANDOM = "its numbers are dlcc's own; tests/random/ has them"
NEW = "ONNX Runtime does not have its opset"
LEFT_OUT = {"Upsample": "the standard has had Resize in its place since opset 10, and graphs are of the newest", "SwiGLU": NEW,
            "CausalConvWithState": NEW, "LinearAttention": NEW, "RandomUniform": RANDOM, "RandomUniformLike": RANDOM, "RandomNormal": RANDOM,
            "RandomNormalLike": RANDOM, "Bernoulli": RANDOM, "Multinomial": RANDOM,
            "SimplifiedLayerNormalization": "no operator of the standard; tests/ops/random_ops.py has its cases"}


# ---- Sorting and selecting ----

@row("TopK")
def top_k(g, op):
    v = g.pick(types=("float32", "float64", "float16", "int32", "int64"), exact=True, rank=(1, 4), least=1)
    if v is None:
        return None
    axis = g.random.randrange(-v.rank, v.rank)
    sizes = v.sizes(axis % v.rank)
    count = [(g.random.randint(0, s),) for s in sizes] if g.random.random() < 0.5 else [(g.random.randint(0, min(sizes)),)]
    return g.node(op, [v, g.ints(*count)], results=2, exact=True, axis=axis, largest=g.random.randrange(2), sorted=1)


@row("NonZero")
def non_zero(g, op):
    v = g.pick(types=("float32", "float64", "bool", "int32", "int64", "uint8"), exact=True, rank=(1, 4))
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
    results = g.node(op, [v], results=4, exact=True, sorted=g.random.randrange(2)) if v else None
    return results[0] if results else None


@row("NonMaxSuppression")
def suppression(g, op):
    batch, classes, boxes = g.new_sizes(), (g.random.randint(1, 3),) * SETS, g.new_sizes()
    corners = g.new("float32", [batch, boxes, (4,) * SETS], exact=True)
    scores = g.new("float32", [batch, classes, boxes], exact=True)
    if corners is None or scores is None:
        return None
    limits = [g.const(np.array(x, t)) for x, t in ((g.random.randint(0, 5), np.int64), (g.random.choice((0, 0.25, 0.5)), np.float32), (-0.5, np.float32))]
    return g.node(op, [corners, scores] + limits[:g.random.randint(1, 3)])

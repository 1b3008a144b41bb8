# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements or make them from sizes."""

import numpy as np

from grow import CODES, SETS, TYPES
from operators.rows import ANY, axis, row, scalar, some_axes


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
    if g.random.random() < 0.3:
        axes = some_axes(g, v)
        operands[1] = g.ints([g.random.choice((0, 1, 2, -1 if mode == "constant" else 0)) for _ in range(2 * len(axes))])
        operands += [""] * (3 - len(operands)) + [g.ints(axes, type=g.random.choice(("int64", "int32")))]
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
    if op == "Shape" and g.random.random() < 0.3:
        attributes["end"] = g.random.choice((-1, 1, 3))
    return g.node(op, [v], exact=True, **attributes)


@row("ConstantOfShape")
def constant_of_shape(g, op):
    from onnx import numpy_helper
    shapes = [[g.random.choice((1, 2, 5)) for _ in range(2)] for _ in range(SETS)]
    value = np.ones(1, TYPES[g.random.choice(("float32", "int64", "bool", "float16", "uint8", "int32", "float64"))])
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
        to = {"dtype": CODES[g.random.choice(("float32", "float64", "int32", "int64"))]} if g.random.random() < 0.3 else {}
        return g.node(op, [g.pick(types=("float32", "float64", "int32", "int64", "bool"), rank=2)], exact=True, k=g.random.choice((0, 0, 1, -1)), **to)
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

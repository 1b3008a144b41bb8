# SPDX-License-Identifier: Apache-2.0
"""Operators that take indices."""

import numpy as np

from grow import SETS, TYPES
from operators.rows import ANY, NUMBERS, axis, row


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
    if op == "GatherND" and v.rank > 1 and g.random.random() < 0.3:
        n = g.random.randint(1, v.rank - 1)
        rest = [g.new_sizes() for _ in range(g.random.choice((0, 0, 1)))]
        at = [g.rng.integers(0, s[1:1 + n], (s[0], *(d[k] for d in rest), n)).astype(np.int64) for k, s in enumerate(v.shapes())]
        return g.node(op, [v, g.feed(at)], exact=True, batch_dims=1)
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
    return g.node(op, [v, at, update], exact=True, reduction=g.random.choice(("none", "add", "max", "min", "mul")))


@row("ScatterElements")
def scatter_elements(g, op):
    v = g.pick(types=NUMBERS, rank=(1, 3), least=1)
    if v is None:
        return None
    a = g.random.randrange(v.rank)
    reduction = g.random.choice(("none", "add", "max", "min", "mul"))
    arrays = []
    for s in v.shapes():
        n = s[a] if reduction == "none" else 2 if reduction == "mul" else 4
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
    return g.node(op, [i, g.const(np.array(depth_)), values], exact=True, axis=g.random.randint(-i.rank - 1, i.rank)) if i else None

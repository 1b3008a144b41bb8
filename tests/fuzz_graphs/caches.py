# SPDX-License-Identifier: Apache-2.0
"""Forms of language models, as patterns.py has those of others: attention over a cache, which is a result of the graph."""

import numpy as np

from grow import SETS
from operators import scalar
from operators.microsoft import few, same
from patterns import chain


def repeated(g, v, groups):
    """V, [batch, heads, keys, size], with each head GROUPS times: as exporters of grouped heads write it."""
    if v is None or groups == 1:
        return v
    r = g.random
    wide = g.node("Unsqueeze", [v, g.const(np.array([2]))], exact=True)
    if wide is None:
        return None
    if r.random() < 0.5:                 # sizes read from the tensor
        shape = g.node("Shape", [v], exact=True)
        parts = [g.node("Gather", [shape, g.const(np.array([i]))], exact=True) for i in range(4)] if shape else [None]
        if any(p is None for p in parts):
            return None
        target = g.node("Concat", parts[:2] + [g.const(np.array([groups]))] + parts[2:], exact=True, axis=0)
    else:
        target = g.const(np.array([1, 1, groups, 1, 1]))
    wide = g.node("Expand", [wide, target], exact=True) if target else None
    return g.node("Reshape", [wide, g.const(np.array([0, v.sizes(1)[0] * groups, -1, v.sizes(3)[0]]))], exact=True) if wide else None


def shown(g, v):
    """V, which becomes a result of the graph although nodes read it."""
    if v is not None:
        g.shown.append(v)
    return v


def appended(g, type, batch, heads, past, new, size):
    """The cache with new rows behind it."""
    old, rows = (g.new(type, [batch, same(heads), n, same(size)], exact=False, constant=False) for n in (past, new))
    return shown(g, g.node("Concat", [old, rows], exact=True, axis=g.random.choice((2, -2)))) if old and rows else None


def written(g, type, batch, heads, room, new, size):
    """A cache of fixed length, with new rows in the middle of it."""
    r = g.random
    old, rows = (g.new(type, [batch, same(heads), n, same(size)], exact=False, constant=False) for n in (room, new))
    if not (old and rows):
        return None
    if r.random() < 0.5:
        starts = [g.rng.integers(0, t - n + 1, b).astype(np.int64) for b, t, n in zip(batch, room, new)]
        return shown(g, g.node("TensorScatter", [old, rows, g.feed(starts)], exact=True, axis=2, mode="linear"))
    # ScatterElements wants indices of the rows' shape; the positions are an input.
    starts = [g.rng.integers(0, t - n + 1) for t, n in zip(room, new)]
    at = [np.broadcast_to((s + np.arange(n)).reshape(1, 1, -1, 1), (b, heads, n, size)).astype(np.int64).copy()
          for s, n, b in zip(starts, new, batch)]
    return shown(g, g.node("ScatterElements", [old, g.feed(at, constant=False), rows], exact=True, axis=2))


def cached_attention(g):
    """softmax(q k^T * scale + mask) v, where keys and values are caches with new rows; fewer heads of keys than of queries."""
    r = g.random
    type = r.choice(("float32",) * 4 + ("float16",))
    batch, heads, groups, size = few(g, 3), r.choice((1, 2)), r.choice((1, 2, 3)), r.choice((2, 4, 8, 9))
    new, past = r.choice((same(1), few(g, 5))), few(g, 17, 0)
    if r.random() < 0.6:
        keys, values = (appended(g, type, batch, heads, past, new, size) for _ in range(2))
    else:
        room = tuple(p + n + r.choice((0, 3)) for p, n in zip(past, new))
        keys, values = (written(g, type, batch, heads, room, new, size) for _ in range(2))
    q = g.new(type, [batch, same(heads * groups), new, same(size)], exact=False, constant=False)
    k, v = repeated(g, keys, groups), repeated(g, values, groups)
    if not (q and k and v):
        return None
    turned = g.node("Transpose", [k], perm=[0, 1, 3, 2], exact=True)
    scores = chain(g, g.node("MatMul", [q, turned]) if turned else None, ("Mul", scalar(g, q, size**-0.5)))
    if scores and r.random() < 0.6:
        scores = g.node("Add", [scores, g.new(type, [r.choice((batch, same(1))), same(1), new, k.sizes(2)])])
    y = chain(g, scores, ("Softmax", {"axis": -1}), ("MatMul", v), ("Transpose", {"perm": [0, 2, 1, 3]}))
    return g.node("Reshape", [y, g.ints([0, 0, heads * groups * size])]) if y else None


PATTERNS = (cached_attention, cached_attention)

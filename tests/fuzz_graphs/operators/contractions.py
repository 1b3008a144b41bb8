# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions."""

from grow import SETS
from operators.rows import image, row


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
    if g.random.random() < 0.2 and v.rank > 1:               # a product of three; an ellipsis
        ends = [g.new(v.type, [v.sizes(i), (g.random.choice((1, 2, 5)),) * SETS], exact=v.exact or None) for i in (v.rank - 2, v.rank - 1)]
        return g.node(op, [v] + ends, exact=True, equation="...ij,ik,jl->...kl")
    if g.random.random() < 0.1:                              # a diagonal
        n = g.new_sizes()
        d = g.new(v.type, [v.sizes(0), n, n]) if g.count([v.sizes(0), n, n]) else None
        return g.node(op, [d], exact=True, equation=g.random.choice(("bii->bi", "bii->b", "bii->ib")))
    shared = "".join(g.random.sample(a, g.random.randint(1, v.rank)))
    b = shared + "e"
    w = g.new(v.type, [v.sizes(a.index(c)) if c in a else g.new_sizes() for c in b], exact=v.exact or None)
    out = "".join(c for c in a + "e" if c not in shared or g.random.random() < 0.4)
    return g.node(op, [v, w], exact=True, equation=f"{a},{b}->{out}")


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
    if op == "ConvTranspose" and r.random() < 0.2:
        del attributes["pads"]
        attributes.update({"auto_pad": r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))} if r.random() < 0.5 or any(len(set(v.sizes(i + 2))) > 1 for i in range(n)) else
                          {"output_shape": [v.sizes(i + 2)[0] * s for i, s in enumerate(attributes["strides"])]})
    return g.node(op, [v, w] + bias, exact=True, **attributes)

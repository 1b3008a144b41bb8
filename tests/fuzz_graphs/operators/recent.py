# SPDX-License-Identifier: Apache-2.0
"""How the operators of the newest opsets are put into a random graph (see operators/): ONNX's reference computes them."""

import numpy as np

from grow import SETS
from operators.rows import row, scalar

REAL = ("float32", "float32", "float32", "float16", "bfloat16")


def few(g, most=9):
    return tuple(max(1, min(n, most)) for n in g.new_sizes())


@row("SwiGLU")
def swiglu(g, op):
    v = g.within(g.pick(types=REAL + ("float64",)), -20, 20)
    if v is None:
        return None
    w = g.new(v.type, [v.sizes(i) for i in range(v.rank)]) if g.random.random() < 0.8 else v
    return g.node(op, [v, w], **({"alpha": g.random.choice((0.5, 1.5))} if g.random.random() < 0.5 else {}))


@row("CausalConvWithState")
def causal_conv(g, op):
    r, type = g.random, g.random.choice(REAL)
    batch, channels, length, taps = few(g), r.choice((few(g), (r.choice((1, 3, 8)),) * SETS)), few(g, 33), r.choice((1, 2, 3, 4))
    operands = [g.new(type, [batch, channels, length]), g.new(type, [channels, (1,) * SETS, (taps,) * SETS]),
                g.new(type, [channels]) if r.random() < 0.5 else "", g.new(type, [batch, channels, (taps - 1,) * SETS]) if r.random() < 0.5 else ""]
    while operands[-1] == "":
        operands.pop()
    return g.node(op, operands, r.choice((1, 2, (1,))), **({"activation": r.choice(("silu", "swish", "none"))} if r.random() < 0.7 else {}))


@row("LinearAttention")
def linear_attention(g, op):
    """Keys are short, and decays not positive, so that states stay small."""
    r, type = g.random, g.random.choice(REAL)
    batch, length, heads, groups, size, width = few(g, 4), few(g, 17), r.choice((1, 2)), r.choice((1, 1, 3)), r.choice((1, 2, 4, 8)), r.choice((1, 3, 8))
    rule = r.choice(("linear", "gated", "delta", "gated_delta", ""))

    def operand(n):
        return g.new(type, [batch, length, (n,) * SETS], exact=False)

    def short(v, times):
        return g.node("Mul", [v, scalar(g, v, times)], keep=False) if v else None
    q, k, v = operand(groups * heads * size), short(operand(heads * size), 0.25), operand(heads * width)
    state = r.choice((type, "float32"))
    operands = [q, k, v, g.new(state, [batch] + [(n,) * SETS for n in (heads, size, width)]) if r.random() < 0.5 else "", "", ""]
    if rule in ("gated", "gated_delta", ""):
        decay = operand(r.choice((heads, heads * size)))
        operands[4] = g.node("Neg", [g.node("Abs", [decay], keep=False)], keep=False) if decay else None
    if rule in ("delta", "gated_delta", ""):
        beta = operand(r.choice((heads, 1)))
        operands[5] = g.node("Sigmoid", [beta], keep=False) if beta else None
    while operands[-1] == "":
        operands.pop()
    attributes = {"update_rule": rule} if rule else {}
    if r.random() < 0.5:
        attributes["scale"] = r.choice((0.5, 1.0))
    if r.random() < 0.3:
        attributes["chunk_size"] = r.choice((1, 4, 64))
    return g.node(op, operands, 2, q_num_heads=groups * heads, kv_num_heads=heads, **attributes)

# SPDX-License-Identifier: Apache-2.0
"""Operators on sequences of steps and signals, attention, and losses."""

import numpy as np

from grow import CODES, SETS
from operators.rows import ANY, row, scalar


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
    if r.random() < 0.2:
        attributes["softmax_precision"] = CODES["float32"]
    if not with_past and r.random() < 0.2:                    # of each batch entry, so many keys
        operands += [""] * (6 - len(operands)) + [g.feed([g.rng.integers(1, n + 1, b).astype(np.int64) for n, b in zip(keys, batch)])]
    shown = 3 if with_past else 1
    if r.random() < 0.25:
        attributes["qk_matmul_output_mode"] = r.randrange(4)
        shown = 4 if with_past else (0, 3)
    return g.node(op, operands, shown, is_causal=int(causal), **attributes)


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
    results = 2 if op[0] == "S" and r.random() < 0.3 else 1
    means = all(a.size for a in target.arrays)      # of no samples it is 0 / 0, and ONNX Runtime gives 0
    return g.node(op, operands, results, reduction=r.choice(("none", "sum") + (("mean",) if means else ())), **attributes)


@row("HannWindow", "HammingWindow", "BlackmanWindow")
def window(g, op):
    sizes = [g.random.choice((4, 5, 16, 31)) for _ in range(SETS)]
    n = g.feed([np.array(n) for n in sizes]) if g.random.random() < g.dynamic else g.const(np.array(sizes[0]))
    w = g.node(op, [n], keep=False, periodic=g.random.randrange(2), **({"output_datatype": CODES["float64"]} if g.random.random() < 0.3 else {}))
    return g.node("Add", [w, scalar(g, w, 1)]) if w else None      # at the ends, digits cancel and none is left


@row("MelWeightMatrix")
def mel(g, op):
    r = g.random
    operands = [np.array(r.choice((3, 8))), np.array(r.choice((16, 31, 64))), np.array(8192), np.array(0, np.float32), np.array(8192 / 2, np.float32)]
    return g.node(op, [g.const(o) for o in operands])


def spectrum(v, length, axis, inverse, onesided):
    """Computes a DFT by NumPy, in f64: ONNX Runtime's errs by 1e-4 where the length has no power of two."""
    def run(feed):
        x = feed[v.name]
        z = x[..., 0].astype(complex) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
        z = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
        z = np.take(z, range(z.shape[axis] // 2 + 1), axis) if onesided else z
        return [np.stack([z.real, z.imag], -1).astype(x.dtype)]
    return run


@row("DFT", "STFT")
def dft(g, op):
    r = g.random
    type_, parts = r.choice(("float32", "float32", "float64")), r.choice((1, 2))
    onesided = r.randrange(2) if parts == 1 else 0
    if op == "STFT":
        batch, length = (tuple(max(1, n) for n in g.new_sizes()) for _ in range(2))
        step, size = r.choice((1, 2, 3)), r.choice((2, 4, 7))
        last = [(1,) * SETS] if r.random() < 0.6 else []
        v = g.new(type_, [batch, tuple(n + size for n in length)] + last) if g.count([batch, length, (size,) * SETS]) else None
        w = g.new(type_, [(size,) * SETS]) if r.random() < 0.5 else ""
        return g.node(op, [v, g.const(np.array(step)), w, g.const(np.array(size))], onesided=r.randrange(2))
    rank = r.choice((1, 2, 3))
    sizes = [tuple(max(n, 1) for n in g.new_sizes()) for _ in range(rank)]
    v = g.new(type_, sizes + [(parts,) * SETS]) if g.count(sizes) else None
    a = r.randrange(rank)
    n = r.choice((None, 2, 5, 8))
    inverse = 0 if onesided else r.randrange(2)
    return g.node(op, [v, "" if n is None else g.const(np.array(n)), g.const(np.array(a if r.random() < 0.5 else a - rank - 1))],
                  run=lambda: spectrum(v, n, a, inverse, onesided), onesided=onesided, inverse=inverse)

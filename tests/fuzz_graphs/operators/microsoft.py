# SPDX-License-Identifier: Apache-2.0
"""How the operators of com.microsoft, and one that ONNX Runtime has beside the standard's, are put into a random graph (see operators/)."""

import numpy as np

from grow import SETS, TYPES, one_node, session, several
from operators.quantised import BYTES, all_of_range, factor, scales
from operators.rows import axis, image, row

DOMAIN = "com.microsoft."
REAL = ("float32", "float32", "float16")


def microsoft(*names):
    return row(*(DOMAIN + n for n in names))


def same(n):
    """A dim of size N in all data sets."""
    return (n,) * SETS


def few(g, most=9, least=1):
    """The sizes of a dim that is not large."""
    return tuple(max(least, min(n, most)) for n in g.new_sizes())


def trimmed(operands):
    """OPERANDS without those omitted at the end."""
    while operands[-1] == "":
        operands = operands[:-1]
    return operands


def maybe(g, often, make):
    """An operand that is omitted sometimes."""
    return make() if g.random.random() < often else ""


def sized(g, op, operands, results=1, **attributes):
    """The results of a node of which ONNX Runtime must know the sizes of operands."""
    operands = trimmed(operands)
    if any(o is None for o in operands):
        return None
    given = [o for o in operands if o != ""]
    ins = [o and o.name for o in operands]

    def run(feed):
        types = {o.name: (o.type, feed[o.name].shape) for o in given}
        return session(one_node(op, ins, [f"o{k}" for k in range(results)], attributes, types))(feed)
    return g.node(op, operands, results, run=lambda: run, **attributes)


# ---- Activations and normalisations ----

@microsoft("Gelu", "FastGelu", "BiasGelu", "QuickGelu")
def activation(g, op):
    v = g.within(g.pick(rank=(1, 4), types=REAL), -2, 50)      # below, FastGelu's 1 + tanh(...) cancels
    if v is None:
        return None
    bias = op.endswith("BiasGelu") or (op.endswith("FastGelu") and g.random.random() < 0.5)
    attributes = {"alpha": g.random.choice((1.702, 0.5))} if op.endswith("QuickGelu") and g.random.random() < 0.7 else {}
    return g.node(op, [v] + ([g.within(g.new(v.type, [v.sizes(v.rank - 1)]), 0, 9)] if bias else []), **attributes)


@microsoft("BiasSplitGelu")
def bias_split_gelu(g, op):
    """One half times Gelu of the other, which ONNX Runtime has on GPUs alone."""
    n = g.random.choice((1, 2, 8))
    v = g.new("float32", [few(g), few(g, 33, 0), same(2 * n)])
    bias = g.new("float32", [same(2 * n)])
    gelu = session(one_node("Gelu", ["x"], ["y"], {}, {"x": ("float32", 3)}))

    def run(feed):
        left, right = np.split(feed[v.name] + feed[bias.name], 2, -1)
        return [left * gelu({"x": np.ascontiguousarray(right)})[0]]
    return g.node(op, [v, bias], run=lambda: run)


@row("SimplifiedLayerNormalization")
@microsoft("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_norm(g, op):
    v = g.within(g.pick(rank=3, least=2, types=REAL), -50, 50)
    if v is None:
        return None
    r, sizes = g.random, [v.sizes(i) for i in range(3)]
    weights = lambda: g.new(v.type, sizes[2:])      # noqa: E731
    if op[0] == "S":
        return g.node(op, [v, weights()], axis=r.choice((-1, 2)), epsilon=0.25)
    simple = op.endswith("SkipSimplifiedLayerNormalization")
    skip = g.new(v.type, sizes if simple else r.choice((sizes, [same(1)] + sizes[1:], sizes[1:])))
    operands = [v, skip, weights()] + ([] if simple else [maybe(g, 0.6, weights)]) + [maybe(g, 0.5, weights)]
    return g.node(op, trimmed(operands), r.choice((1, (0, 3), (0, 2), 4)), epsilon=0.25)


@microsoft("EmbedLayerNormalization")
def embedding(g, op):
    r = g.random
    batch, length, size, words = few(g), few(g), same(r.choice((2, 4, 9))), 7
    shape = lambda k: (batch[k], length[k])      # noqa: E731

    def ids(n):
        return g.feed([g.rng.integers(0, n, shape(k)).astype(np.int32) for k in range(SETS)])

    def table(*sizes):
        return g.new("float32", [*sizes, size], exact=False)
    segments = r.random() < 0.5
    operands = [ids(words), ids(2) if segments else "", table(same(words)), table(tuple(n + 2 for n in length)), table(same(2)) if segments else "",
                table(), table(), maybe(g, 0.5, lambda: ids(2)), maybe(g, 0.4, lambda: g.feed(
                    [g.rng.integers(0, length[k], shape(k)).astype(np.int32) for k in range(SETS)]))]
    return sized(g, op, operands, r.choice((2, 3)), epsilon=0.25)


# ---- Products ----

ACTIVATIONS = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": (0.2,), "HardSigmoid": (0.3, 0.4), "Clip": (-0.5, 0.5)}


@microsoft("FusedConv")
def fused_conv(g, op):
    v = image(g, types=("float32",))
    if v is None or len(set(v.sizes(1))) > 1:
        return None
    r, n, c = g.random, v.rank - 2, v.sizes(1)[0]
    kernel, group, kind = [r.choice((1, 3))] * n, r.choice((1, c)), r.choice(list(ACTIVATIONS))
    outer = group * r.choice((1, 2, 5))
    w = g.new(v.type, [same(s) for s in [outer, c // group] + kernel])
    operands = [v, w, maybe(g, 0.6, lambda: g.new(v.type, [same(outer)]))]
    if r.random() < 0.4:                         # added before the activation
        operands.append(g.new(v.type, [v.sizes(0), same(outer)] + [v.sizes(i + 2) for i in range(n)]))
    attributes = dict(activation_params=list(ACTIVATIONS[kind])) if ACTIVATIONS[kind] else {}
    return g.node(op, trimmed(operands), activation=kind, group=group, pads=[k // 2 for k in kernel * 2], **attributes)


@microsoft("FusedGemm")
def fused_gemm(g, op):
    v = g.pick(types=("float32",), rank=2, least=1)
    if v is None:
        return None
    r, kind = g.random, g.random.choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu"))
    ta, tb, n = r.randrange(2), r.randrange(2), few(g, 33)
    k, m = v.sizes(0 if ta else 1), v.sizes(1 if ta else 0)
    operands = [v, g.new(v.type, [n, k] if tb else [k, n])] + ([g.new(v.type, r.choice(([n], [m, n], [])))] if r.random() < 0.6 else [])
    attributes = dict(zip(("activation_alpha", "activation_beta"), ACTIVATIONS[kind]))
    return g.node(op, operands, activation=kind, transA=ta, transB=tb, alpha=r.choice((1.0, 0.5)), beta=r.choice((1.0, 2.0)), **attributes)


@microsoft("FusedMatMul")
def fused_matmul(g, op):
    r = g.random
    m, k, n = (few(g, 33) for _ in range(3))
    batch = [few(g, 4) for _ in range(r.choice((0, 1, 1, 2)))]
    attributes, operands = {}, []
    for side, sizes in ("A", [m, k]), ("B", [k, n]):
        flip, front = r.randrange(2), r.randrange(2) if batch else 0
        attributes.update({f"trans{side}": flip, f"transBatch{side}": front})
        sizes = batch + (sizes[::-1] if flip else sizes)
        operands.append(g.new("float32", [sizes[-2]] + sizes[:-2] + sizes[-1:] if front else sizes))
    return g.node(op, operands, alpha=r.choice((1.0, 0.5)), **attributes)


@microsoft("SparseToDenseMatMul")
def sparse_matmul(g, op):
    """Whose first operand is sparse for ONNX Runtime; FusedMatMul computes the same of a dense one."""
    m, k, n = (few(g, 33) for _ in range(3))
    attributes = dict(alpha=g.random.choice((1.0, 0.5)), transA=g.random.randrange(2), transB=g.random.randrange(2))
    a = g.new("float32", [k, m] if attributes["transA"] else [m, k])
    b = g.new("float32", [n, k] if attributes["transB"] else [k, n])
    if a is None or b is None:
        return None
    types = {"a": ("float32", 2), "b": ("float32", 2)}
    fused = session(one_node(DOMAIN + "FusedMatMul", ["a", "b"], ["y"], attributes, types))
    return g.node(op, [a, b], run=lambda: lambda feed: fused({"a": feed[a.name], "b": feed[b.name]}), **attributes)


@microsoft("Inverse")
def inverse(g, op):
    n = g.random.choice((1, 2, 3, 8))
    v = g.new(g.random.choice(("float32", "float64")), [few(g) for _ in range(g.random.choice((0, 1, 2)))] + [same(n)] * 2)
    return g.node(op, [g.node("Add", [v, g.const(np.eye(n, dtype=TYPES[v.type]) * 4 * n)], keep=False)]) if v else None


# ---- Quantised ----

# By how much a scale of the result is moved; if its integers move, too, one is next to the middle of two, which ONNX Runtime does not round as
# it says, or which another order of computation moves to the other side.
MOVED = np.float32(1e-5)


def firm(op, operands, position, attributes):
    """Computes a node whose operand POSITION is the scale of its result, and refuses operands for which this moves. ONNX Runtime computes
    QLinearSoftmax by a table of few digits, which is too large where the result is; Softmax between two operators stands for it."""
    ins = [o and f"i{k}" for k, o in enumerate(operands)]
    types = {f"i{k}": (o.type, o.rank) for k, o in enumerate(operands) if o != ""}
    made = session(several([("DequantizeLinear", trimmed(ins[:3]), ["x"], {}), ("Softmax", ["x"], ["y"], {"axis": attributes["axis"]}),
                            ("QuantizeLinear", ["y"] + ins[3:], ["o"], {})], types, ["o"])
                   if op.endswith("Softmax") else one_node(op, ins, ["o"], attributes, types))

    def run(feed):
        given = {f"i{k}": feed[o.name] for k, o in enumerate(operands) if o != ""}
        result = made(given)
        for factor_ in (1 - MOVED, 1 + MOVED):
            if not np.array_equal(made({**given, f"i{position}": np.asarray(given[f"i{position}"] * factor_, np.float32)})[0], result[0]):
                raise ValueError("next to the middle of two integers")
        return result
    return run


def firm_node(g, op, operands, position, **attributes):
    if any(o is None for o in operands):
        return None
    return g.node(op, operands, run=lambda: firm(op, operands, position, attributes), **attributes)


def point(g, type, scale=None):
    """A scale, and a zero point, which is omitted sometimes."""
    value = scale or g.random.choice((0.011, 0.023, 0.037))
    return [g.feed([np.array(value * f, np.float32) for f in ((1, 1, 1) if g.random.random() < 0.5 else (1, 1.1, 0.9))]),
            maybe(g, 0.8, lambda: all_of_range(g, type, []))]


def whole_point(g, type, scale=None):
    """A scale and a zero point, which ONNX Runtime ends without."""
    return point(g, type, scale)[:1] + [all_of_range(g, type, [])]


@microsoft("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
def quantised_elementwise(g, op):
    v = g.pick(types=BYTES, rank=(1, 4), least=1)
    if v is None:
        return None
    operands, attributes = [v] + point(g, v.type), {}
    if op.endswith(("Add", "Mul")):
        sizes = [same(1) if g.random.random() < 0.3 else v.sizes(i) for i in range(v.rank)]
        operands += [all_of_range(g, v.type, sizes[g.random.choice((0, 0, 1)):])] + point(g, v.type)
    if op.endswith("Relu") and g.random.random() < 0.6:
        attributes["alpha"] = g.random.choice((0.3, 0.05))
    if op.endswith("Softmax"):
        attributes = dict(axis=axis(g, v), opset=13)
    operands += whole_point(g, v.type, 0.0041 if op.endswith(("Sigmoid", "Softmax")) else 0.057)
    return firm_node(g, op, operands, len(operands) - 2, **attributes)


@microsoft("QLinearGlobalAveragePool", "QLinearAveragePool")
def quantised_pool(g, op):
    v = image(g, types=BYTES)
    if v is None:
        return None
    r, n = g.random, v.rank - 2
    operands = [v] + whole_point(g, v.type) + whole_point(g, v.type, 0.0173)
    if op.endswith("GlobalAveragePool"):
        return firm_node(g, op, operands, 3, channels_last=r.randrange(2))
    kernel = [r.choice([k for k in (1, 2, 3) if k <= min(v.sizes(i + 2))]) for i in range(n)]
    # With both, ONNX Runtime divides by the whole window, unlike its AveragePool, where a window goes beyond the pads.
    both = r.choice(({}, {"ceil_mode": 1}, {"count_include_pad": 1}))
    return firm_node(g, op, operands, 3, kernel_shape=kernel, strides=[r.choice((1, 2)) for _ in range(n)], pads=[r.randrange(k) for k in kernel * 2], **both)


@microsoft("QLinearConcat")
def quantised_concat(g, op):
    v = g.pick(types=BYTES, rank=(1, 4))
    if v is None:
        return None
    a, operands = axis(g, v), whole_point(g, g.random.choice((v.type,))) + [v] + whole_point(g, v.type)
    for _ in range(g.random.choice((0, 1, 2))):
        w = all_of_range(g, v.type, [g.new_sizes() if i == a % v.rank else v.sizes(i) for i in range(v.rank)])
        operands += [w] + whole_point(g, v.type)
    return firm_node(g, op, operands, 0, axis=a)


@microsoft("MatMulIntegerToFloat", "DynamicQuantizeMatMul")
def integers_to_float(g, op):
    r, dynamic = g.random, op.endswith("DynamicQuantizeMatMul")
    v = g.pick(types=("float32",) if dynamic else ("uint8",), rank=(2, 4), least=1, exact=True)
    if v is None:
        return None
    n = few(g, 33)
    columns = r.choice(([], [n]))
    # A row of float32 becomes u8.
    b = all_of_range(g, r.choice(BYTES), [v.sizes(v.rank - 1), n], -64, 63) if r.random() < 0.5 else all_of_range(g, "uint8", [v.sizes(v.rank - 1), n])
    if b is None:
        return None
    zero, scale = maybe(g, 0.6, lambda: all_of_range(g, b.type, columns)), scales(g, "float32", columns, False)
    bias = maybe(g, 0.5, lambda: g.new("float32", [n]))
    if dynamic:
        return g.node(op, trimmed([v, b, scale, zero, bias]))
    return g.node(op, trimmed([v, b, scales(g, "float32", [], False), scale, maybe(g, 0.7, lambda: all_of_range(g, v.type, [])), zero, bias]))


@microsoft("QGemm")
def quantised_gemm(g, op):
    r = g.random
    m, k, n = (few(g, 33) for _ in range(3))
    ta, tb = r.randrange(2), r.randrange(2)
    a = all_of_range(g, "uint8", [k, m] if ta else [m, k])
    b = factor(g, a, [n, k] if tb else [k, n], op) if a else None
    if b is None:
        return None
    columns = r.choice(([], [n]))
    operands = [a, scales(g, "float32", [], False), all_of_range(g, a.type, []), b, scales(g, "float32", columns, False), all_of_range(g, b.type, columns),
                maybe(g, 0.6, lambda: g.feed([g.rng.integers(-99, 99, n[i]).astype(np.int32) for i in range(SETS)]))]
    attributes = dict(transA=ta, transB=tb, alpha=r.choice((1.0, 0.5)))
    if r.random() < 0.5:
        return firm_node(g, op, operands + [scales(g, "float32", [], False), all_of_range(g, a.type, [])], 7, **attributes)
    return g.node(op, trimmed(operands + [maybe(g, 0.3, lambda: scales(g, "float32", [], False))]), **attributes)


@microsoft("QuantizeLinear", "DequantizeLinear")
def quantisation(g, op):
    r, types = g.random, BYTES + ("int16", "uint16")
    v = g.pick(types=("float32",) if op.endswith(".QuantizeLinear") else types, exact=True, rank=(1, 4))
    if v is None:
        return None
    a = axis(g, v) % v.rank
    columns, attributes = r.choice((([], {}), ([v.sizes(a)], {"axis": a})))
    type = r.choice(types) if v.type == "float32" else v.type
    operands = [v, scales(g, "float32", columns, False), all_of_range(g, type, columns)]
    return firm_node(g, op, operands, 1, **attributes) if v.type == "float32" else g.node(op, operands, **attributes)


# ---- Weights in blocks ----

@microsoft("MatMulNBits")
def product_of_blocks(g, op):
    r = g.random
    bits, block, rows, columns = r.choice((4, 4, 8)), r.choice((16, 32)), r.choice((1, 3, 8, 20)), r.choice((5, 16, 31, 40, 64))
    blocks, packed = -(-columns // block), 8 // bits
    v = g.new("float32", [few(g), few(g, 33), same(columns)][r.choice((0, 1)):])
    codes = all_of_range(g, "uint8", [same(rows), same(blocks), same(block // packed)])
    scale = g.feed([(0.005 * g.rng.random((rows, blocks))).astype(np.float32)] * SETS, exact=False)
    operands = [v, codes, scale, maybe(g, 0.5, lambda: all_of_range(g, "uint8", [same(rows), same(-(-blocks // packed))])), "",
                maybe(g, 0.4, lambda: g.new("float32", [same(rows)]))]
    return sized(g, op, operands, K=columns, N=rows, bits=bits, block_size=block)


@microsoft("GatherBlockQuantized")
def gather_of_blocks(g, op):
    r = g.random
    bits, block, rows = r.choice((4, 4, 8)), r.choice((16, 32)), r.choice((2, 9, 20))
    packed, columns = 8 // bits, r.choice((16, 32, 40, 64))
    blocks = -(-columns // block)
    data = all_of_range(g, "uint8", [same(rows), same(columns // packed)])
    type = r.choice((np.int32, np.int64))
    at = g.feed([g.rng.integers(0, rows, shape).astype(type) for shape in zip(*[few(g, 9, 0) for _ in range(r.choice((1, 2)))])])
    scale = g.feed([(0.05 * g.rng.random((rows, blocks))).astype(np.float32)] * SETS, exact=False)
    operands = [data, at, scale, maybe(g, 0.5, lambda: all_of_range(g, "uint8", [same(rows), same(-(-blocks // packed))]))]
    return sized(g, op, operands, bits=bits, block_size=block)


# ---- Mixture of experts ----

@microsoft("MoE")
def mixture(g, op):
    """A row's scores are far apart: no two experts change places for the rounding of the softmax."""
    r = g.random
    experts, hidden, inner = r.choice((1, 2, 5, 8)), r.choice((1, 4, 9, 16)), r.choice((1, 3, 8, 20))
    activation, outer = r.choice((("relu", 1), ("gelu", 1), ("silu", 1), ("identity", 1), ("swiglu", 2)))
    rows = few(g)
    v = g.new("float32", [rows, same(hidden)])
    scores = g.feed([np.stack([g.rng.permutation(experts) / 2 for _ in range(n)]).astype(np.float32) for n in rows], exact=False)

    def weights(*sizes):
        return g.feed([g.rng.uniform(-0.3, 0.3, sizes).astype(np.float32)] * SETS, exact=False)

    operands = [v, scores, weights(experts, outer * inner, hidden), maybe(g, 0.5, lambda: weights(experts, outer * inner)),
                weights(experts, hidden, inner), maybe(g, 0.5, lambda: weights(experts, hidden))]
    more = {"swiglu_fusion": 1, **({"swiglu_limit": 0.5, "activation_alpha": 1.5, "activation_beta": 0.5} if r.random() < 0.5 else {})}
    return sized(g, op, operands, activation_type=activation, k=r.randint(1, experts), normalize_routing_weights=r.choice((0, 1)),
                 **(more if activation == "swiglu" else {}))


@microsoft("QMoE")
def quantised_mixture(g, op):
    """As MoE, of numbers of 4 or 8 bits. ONNX Runtime's CPU always divides the chosen weights by their sum. It multiplies bytes in
    blocks by rows that it quantises itself; so 8 bits have no blocks."""
    r = g.random
    experts, hidden, inner = r.choice((1, 2, 5)), r.choice((32, 64)), r.choice((32, 64))
    bits, block, zero = r.choice(((4, 0), (4, 16), (4, 32), (8, 0))) + (r.random() < 0.5,)
    activation, outer = r.choice((("relu", 1), ("silu", 1), ("identity", 1), ("swiglu", 2)))
    packed, rows = 8 // bits, few(g)
    v = g.new("float32", [rows, same(hidden)])
    scores = g.feed([np.stack([g.rng.permutation(experts) / 2 for _ in range(n)]).astype(np.float32) for n in rows], exact=False)

    def weights(count, size):
        blocks = [size // block] if block else []
        codes = all_of_range(g, "uint8", [same(experts), same(count), same(size // packed)])
        scale = g.feed([g.rng.uniform(0.001, 0.003, (experts, count, *blocks)).astype(np.float32)] * SETS, exact=False)
        sizes = (count, -(-blocks[0] // packed)) if block else (-(-count // packed),)
        return codes, scale, all_of_range(g, "uint8", [same(experts), *map(same, sizes)]) if zero else ""
    first, second = weights(outer * inner, hidden), weights(hidden, inner)
    operands = [v, scores, *first[:2], "", *second[:2], "", "", "", "", first[2], second[2]]
    while not operands[-1]:
        operands.pop()
    more = {"block_size": block} if block else {}
    return sized(g, op, operands, activation_type=activation, k=r.randint(1, experts), normalize_routing_weights=1, expert_weight_bits=bits,
                 **more, **({"swiglu_fusion": 1} if activation == "swiglu" else {}))


# ---- Attention ----

def mask_of(g, batch, *dims):
    """A mask of integers; each query sees the first key."""
    arrays = [g.rng.integers(0, 2, (batch[k], *(d[k] for d in dims))).astype(np.int32) for k in range(SETS)]
    for a in arrays:
        a[..., :1] = 1
    return g.feed(arrays)


def lengths_of(g, batch, most):
    """The number of keys that each entry of the batch sees."""
    return g.feed([g.rng.integers(1, most[k] + 1, batch[k]).astype(np.int32) for k in range(SETS)])


@microsoft("Attention")
def packed_attention(g, op):
    r = g.random
    batch, length, past = few(g, 4), few(g), few(g, 4)
    heads, size, with_past = r.choice((1, 2, 3)), r.choice((2, 4)), r.random() < 0.3
    width, total = heads * size, tuple(n + p for n, p in zip(length, past)) if with_past else length
    v = g.pick(types=("float32",), rank=3, least=1) if not with_past and r.random() < 0.5 else g.new("float32", [batch, length, same(5)])
    if v is None or len(set(v.sizes(2))) > 1 or max(v.sizes(0) + v.sizes(1)) > 20:
        return None
    if not with_past:
        batch, length, total = v.sizes(0), v.sizes(1), v.sizes(1)
    attributes = dict(num_heads=heads, unidirectional=r.randrange(2), mask_filter_value=-30.0)
    sizes = [width] * 3
    if r.random() < 0.3 and not with_past:
        sizes[2] = heads * r.choice((2, 8))
        attributes["qkv_hidden_sizes"] = sizes
    kind = r.choice(("none", "keys", "queries", "lengths", "all"))
    mask = {"none": lambda: "", "keys": lambda: mask_of(g, batch, total), "queries": lambda: mask_of(g, batch, length, total),
            "lengths": lambda: lengths_of(g, batch, length), "all": lambda: mask_of(g, batch, same(1))}[kind]()
    operands = [v, g.new("float32", [v.sizes(2), same(sum(sizes))]), g.new("float32", [same(sum(sizes))]), mask,
                g.new("float32", [same(2), batch, same(heads), past, same(size)]) if with_past else "",
                maybe(g, 0.0 if with_past else 0.4, lambda: g.new("float32", [r.choice((batch, same(1))), same(heads), length, total]))]
    if r.random() < 0.3:
        attributes["scale"] = 0.25
    return g.node(op, trimmed(operands), 2 if with_past else 1, **attributes)


@microsoft("MultiHeadAttention")
def multi_head(g, op):
    r = g.random
    batch, length, keys, past = few(g, 4), few(g), few(g), few(g, 4)
    heads, size, with_past = r.choice((1, 2, 3)), r.choice((2, 4)), r.random() < 0.3
    value = r.choice((size, 8)) if not with_past else size
    keys = length if with_past else keys
    total = tuple(k + p for k, p in zip(keys, past)) if with_past else keys
    form = "flat" if with_past else r.choice(("flat", "flat", "keys and values", "all", "heads"))

    def real(*sizes):
        return g.new("float32", list(sizes), exact=False)
    q = real(batch, length, same(heads * size)) if form != "all" else None
    if form != "flat":
        value = size
    if form == "all":
        total = length
        operands = [real(batch, length, same(heads), same(3), same(size)), "", ""]
    elif form == "keys and values":
        operands = [q, real(batch, keys, same(heads), same(2), same(size)), ""]
    elif form == "heads":
        operands = [q, real(batch, same(heads), keys, same(size)), real(batch, same(heads), keys, same(value))]
    else:
        operands = [q, real(batch, keys, same(heads * size)), real(batch, keys, same(heads * value))]
    operands.append(maybe(g, 0.5 if form in ("flat", "heads") else 0, lambda: real(same(heads * (2 * size + value)))))
    mask = r.choice((lambda: mask_of(g, batch, total), lambda: mask_of(g, batch, length, total), lambda: lengths_of(g, batch, total)))
    operands.append(maybe(g, 0.6, mask))
    operands.append(maybe(g, 0.4, lambda: real(r.choice((batch, same(1))), r.choice((same(heads), same(1))), length, total)))
    if with_past:
        operands += [real(batch, same(heads), past, same(size)) for _ in range(2)]
    attributes = dict(num_heads=heads, mask_filter_value=-30.0)
    if r.random() < 0.5:
        attributes["scale"] = r.choice((0.3, 0.5))
    if r.random() < 0.3:
        attributes["unidirectional"] = 1
    operands = trimmed(operands)
    run = (lambda: unpacked_run(op, operands, attributes)) if form in ("all", "keys and values") else None
    return g.node(op, operands, 3 if with_past else 1, run=run, **attributes)


def unpacked_run(op, operands, attributes):
    """Computes a node whose keys and values, and perhaps queries, are one operand, which ONNX Runtime takes on GPUs alone."""
    names = ["q", "k", "v"] + [o and o.name for o in operands[3:]]
    made = session(one_node(op, names, ["o"], attributes, {**dict.fromkeys("qkv", ("float32", 3)),
                                                           **{o.name: (o.type, o.rank) for o in operands[3:] if o != ""}}))
    packed = operands[1] or operands[0]

    def run(feed):
        parts = [np.ascontiguousarray(p).reshape(*p.shape[:2], -1) for p in np.moveaxis(feed[packed.name], 3, 0)]
        return made({**feed, **dict(zip("qkv", parts if operands[1] == "" else [feed[operands[0].name]] + parts))})
    return run


def with_norms(op, operands, results, attributes, heads, size):
    """What computes GroupQueryAttention with norms of queries and keys, of HEADS heads, which ONNX Runtime's kernel for CPUs refuses: the
    norms by NumPy, the rest by ONNX Runtime. Keys follow the queries in the first operand, if there is no second one."""
    ins = [o and o.name for o in operands]
    rest = {k: v for k, v in attributes.items() if k != "qk_norm_epsilon"}
    types = {o.name: (o.type, o.rank) for o in operands[:14] if o}
    made = session(one_node(op, trimmed(ins[:14]), [f"o{k}" for k in range(results)], rest, types))

    def norm(v, count, weight):
        v = v.reshape(v.shape[:2] + (count, size)).astype(np.float64)
        v = v / np.sqrt(np.mean(v * v, -1, keepdims=True) + attributes.get("qk_norm_epsilon", 1e-6)) * weight
        return v.reshape(v.shape[:2] + (-1,)).astype(np.float32)

    def run(feed):
        weights, feed = [feed[n] for n in ins[14:]], dict(feed)
        if ins[1]:
            feed.update((n, norm(feed[n], count, w)) for n, count, w in zip(ins, heads, weights))
        else:
            parts = np.split(feed[ins[0]], np.cumsum(heads) * size, -1)
            feed[ins[0]] = np.concatenate([norm(v, count, w) for v, count, w in zip(parts, heads, weights)] + parts[2:], -1)
        return made(feed)
    return run


@microsoft("GroupQueryAttention")
def grouped(g, op):
    """A prompt, or one more token. The past may have rows to spare, as in a buffer of the largest length; they are 0, since they are not
    specified in the result. Nor are the scores of keys that the longest entry of the batch alone has."""
    r = g.random
    batch, heads, groups, size = few(g, 4), r.choice((1, 2)), r.choice((1, 2, 3)), r.choice((8, 16))
    prompt, with_spare = r.random() < 0.4, r.random() < 0.5
    length = few(g, 5) if prompt else same(1)
    past = same(0) if prompt else few(g, 5)
    rows = tuple(p + (n + 2 if with_spare else 0) for p, n in zip(past, length))
    total = tuple(p + n for p, n in zip(past, length))
    lengths = [np.full(b, n - 1, np.int32) for b, n in zip(batch, total)]
    scores = r.random() < 0.2
    if not prompt and not scores:
        for a, p in zip(lengths, past):
            a[1:] = g.rng.integers(1, p + 1, len(a) - 1)

    def real(*sizes):
        return g.new("float32", list(sizes), exact=False)

    def cache():
        arrays = [g.elements("float32", (batch[k], heads, rows[k], size), False) for k in range(SETS)]
        for k, a in enumerate(arrays):
            for b, n in enumerate(lengths[k]):
                a[b, :, n + 1 - length[k]:] = 0
        return g.feed(arrays, exact=False)
    if r.random() < 0.3:
        operands = [real(batch, length, same((groups + 2) * heads * size)), "", ""]
    else:
        operands = [real(batch, length, same(n * heads * size)) for n in (groups, 1, 1)]
    operands += [cache(), cache(), g.feed(lengths), g.feed([np.array(n, np.int32) for n in total])]
    attributes = dict(num_heads=heads * groups, kv_num_heads=heads)
    if r.random() < 0.5:
        attributes.update(do_rotary=1, rotary_interleaved=r.randrange(2))
        operands += [g.feed([g.elements("float32", (12, size // 2), False)] * SETS, exact=False) for _ in range(2)]
    operands += [""] * (16 - len(operands))
    if r.random() < 0.3:
        operands[10] = real(r.choice((batch, same(1))), same(r.choice((1, heads * groups))), length, total)
    if r.random() < 0.4:
        operands[11] = real(same(heads * groups))
    elif r.random() < 0.4:
        attributes["smooth_softmax"] = r.choice((-1, 0, 1, 1))
    norms = r.random() < 0.3
    if norms:
        operands[14:] = real(same(size)), real(same(size))
        if r.random() < 0.5:
            attributes["qk_norm_epsilon"] = r.choice((0.25, 1e-5))
    if scores:
        attributes["qk_output"] = r.choice((1, 2))
    if r.random() < 0.3:
        attributes["local_window_size"] = r.choice((1, 2, 3))
    if r.random() < 0.3:
        attributes["softcap"] = 2.0
    if r.random() < 0.3:
        attributes["scale"] = 0.25
    results = 4 if scores else 3
    if any(o is None for o in operands):
        return None
    run = with_norms(op, operands, results, attributes, (heads * groups, heads), size) if norms else None
    return g.node(op, trimmed(operands), results, run=run and (lambda: run), **attributes)


@microsoft("RotaryEmbedding")
def rotation(g, op):
    r = g.random
    batch, length, heads, size = few(g, 4), few(g), r.choice((1, 2, 3)), r.choice((4, 8))
    half, attributes = size // 2, {}
    flat = r.random() < 0.5
    if flat and r.random() < 0.3:
        half = size // 4
        attributes = dict(rotary_embedding_dim=size // 2, num_heads=heads)
    elif r.random() < 0.3:
        attributes = dict(num_heads=heads)
    v = g.new("float32", [batch, length, same(heads * size)] if flat else [batch, same(heads), length, same(size)])
    position = g.feed([g.rng.integers(0, 3, 1).astype(np.int64)] * SETS) if r.random() < 0.5 else \
        g.feed([g.rng.integers(0, 12, (b, n)).astype(np.int64) for b, n in zip(batch, length)])
    tables = [g.feed([g.elements("float32", (12, half), False)] * SETS, exact=False) for _ in range(2)]
    return g.node(op, [v, position] + tables, interleaved=r.randrange(2), **attributes)

# SPDX-License-Identifier: Apache-2.0
"""Random cases of elementwise ops and of those that move data, with the operands that shape the result given as
constants or only at run time, and with dims that are numbers or symbols.

    random_moves.py FOLDER SEED COUNT      COUNT cases of each kind, in ONNX's own layout

The expected outputs are numpy's, from ONNX's reference."""

import os
import random
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

FOLDER, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pick = random.Random(SEED)
rng = np.random.default_rng(SEED)
OPSET = 21


def coin(p=0.5):
    return pick.random() < p


def shape(rank=None, lo=1, hi=5):
    """Of rank 1 to 4, or 8, if none is given."""
    if rank is None and coin(0.15):
        return [pick.randint(lo, lo + 1) for _ in range(8)]
    return [pick.randint(lo, hi) for _ in range(pick.randint(1, 4) if rank is None else rank)]


def some_empty(dims):
    return [0 if coin(0.06) else d for d in dims]


def real(dims, dtype=np.float32):
    return np.asarray(rng.standard_normal(dims) * 4).astype(dtype)


def ints(values):
    return np.array(values, dtype=np.int64)


def save(kind, node, values, fixed=()):
    """VALUES by operand name; those in FIXED are constants, the others constants or inputs by chance."""
    symbolic, inputs, constants = coin(), [], []
    for name, v in values.items():
        if name in fixed or (name != node.input[0] and coin()):
            constants.append(numpy_helper.from_array(v, name))
            continue
        is_shape = v.ndim <= 1 and v.dtype == np.int64 and (name != node.input[0] or node.op_type == "ConstantOfShape")
        dims = [f"{name}{i}" if symbolic and not is_shape and coin(0.7) else d for i, d in enumerate(v.shape)]
        inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), dims))
    outputs = [helper.make_tensor_value_info(o, 0, None) for o in node.output]
    for o in outputs:
        o.ClearField("type")
    graph = helper.make_graph([node], kind, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    feeds = {i.name: values[i.name] for i in inputs}
    results = ReferenceEvaluator(model).run(None, feeds)
    for o, r in zip(outputs, results):
        r = np.asarray(r)
        o.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(r.dtype)
    graph = helper.make_graph([node], kind, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    folder = os.path.join(FOLDER, f"{kind}_{save.made}")
    save.made += 1
    data = os.path.join(folder, "test_data_set_0")
    samples.tensors(data, "input", feeds)
    samples.tensors(data, "output", dict(zip(node.output, results)))
    onnx.save(model, os.path.join(folder, "model.onnx"))


save.made = 0


def node(op, inputs, outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def some_axes(rank):
    axes = pick.sample(range(rank), pick.randint(1, rank))
    return [a - rank if coin(0.3) else a for a in axes]


def one_slice():
    x = real(some_empty(shape()))
    axes = some_axes(x.ndim)
    starts, ends, steps = [], [], []
    for a in axes:
        d, step = x.shape[a], pick.choice([1, 1, 2, 3, -1, -2])
        starts.append(pick.randint(0, max(d - 1, 0)) if step < 0 else pick.randint(-d, d + 1))
        ends.append(pick.choice([pick.randint(-d - 2, d + 2), 2**63 - 1 if step > 0 else -2**63]))
        steps.append(step)
    save("slice", node("Slice", ["x", "s", "e", "a", "t"]),
         {"x": x, "s": ints(starts), "e": ints(ends), "a": ints(axes), "t": ints(steps)})


def one_pad():
    x = real(shape(pick.randint(1, 6), lo=2, hi=4))  # not 8: the proof of a product of 8 sums of 3 symbols fails
    mode = pick.choice(["constant", "constant", "reflect", "edge", "wrap"])
    pads = [pick.randint(0, min(x.shape[i % x.ndim] - 1, 3)) for i in range(2 * x.ndim)]
    values = {"x": x, "p": ints(pads)}
    if mode == "constant":
        values["v"] = np.array(7.5, np.float32)
    if coin():
        axes = some_axes(x.ndim)
        values["p"] = ints([pads[a] for a in axes] + [pads[a % x.ndim + x.ndim] for a in axes])
        values.setdefault("v", np.array(0, np.float32))
        values["a"] = ints(axes)
    save("pad", node("Pad", values.keys(), mode=mode), values)


def one_reshape():
    x = real(shape(lo=1))
    left, target = x.size, []
    while left > 1 and len(target) < 4:
        d = pick.choice([d for d in range(1, left + 1) if left % d == 0])
        target.append(d)
        left //= d
    target.append(left)
    for i in range(min(len(target), x.ndim)):
        if target[i] == x.shape[i] and coin():
            target[i] = 0
    if coin():
        target[pick.randrange(len(target))] = -1
    save("reshape", node("Reshape", ["x", "s"]), {"x": x, "s": ints(target)})


def one_axes_view():
    x = real([d if coin() else 1 for d in shape()])
    if coin() and x.ndim < 8:
        count = pick.randint(1, 2)
        axes = pick.sample(range(-(x.ndim + count), x.ndim + count), 8 if x.ndim + count > 4 else 4)
        seen, chosen = set(), []
        for a in axes:
            if a % (x.ndim + count) not in seen and len(chosen) < count:
                seen.add(a % (x.ndim + count))
                chosen.append(a)
        save("unsqueeze", node("Unsqueeze", ["x", "a"]), {"x": x, "a": ints(chosen)})
    else:
        axes = [a for a in range(x.ndim) if x.shape[a] == 1 and coin()]
        if axes:
            save("squeeze", node("Squeeze", ["x", "a"]), {"x": x, "a": ints(axes)})


def broadcastable(to):
    """Dims that broadcast to TO: perhaps fewer, or none, which is a scalar."""
    return [1 if coin(0.3) else d for d in to][pick.randint(0, len(to)):]


def one_expand():
    full = shape()
    x = real(broadcastable(full))
    save("expand", node("Expand", ["x", "s"]), {"x": x, "s": ints(broadcastable(full) if coin() else full)})


def one_tile():
    x = real(some_empty(shape()))
    save("tile", node("Tile", ["x", "r"]), {"x": x, "r": ints([pick.randint(0, 3) for _ in x.shape])})


def one_concat():
    dims, axis = some_empty(shape()), 0
    axis = pick.randrange(len(dims))
    values = {}
    for k in range(pick.randint(1, 4)):
        d = list(dims)
        d[axis] = pick.randint(0, 3)
        values[f"x{k}"] = real(d)
    save("concat", node("Concat", values.keys(), axis=axis - len(dims) if coin() else axis), values)


def one_split():
    x = real(shape(lo=3, hi=8))
    axis, parts = pick.randrange(x.ndim), pick.randint(1, 3)
    outputs = [f"y{k}" for k in range(parts)]
    if coin():
        sizes = [pick.randint(0, 2) for _ in range(parts - 1)]
        sizes = sizes + [x.shape[axis] - sum(sizes)]
        if min(sizes) >= 0:
            save("split", node("Split", ["x", "s"], outputs, axis=axis), {"x": x, "s": ints(sizes)})
    else:
        if -(-x.shape[axis] // parts) * (parts - 1) <= x.shape[axis]:
            save("split", node("Split", ["x"], outputs, axis=axis, num_outputs=parts), {"x": x})


def one_transpose():
    x = real(some_empty(shape()))
    perm = list(range(x.ndim))
    pick.shuffle(perm)
    save("transpose", node("Transpose", ["x"], perm=perm), {"x": x})


def index_into(d, dims):
    return rng.integers(-d, d, dims).astype(np.int64 if coin() else np.int32)


def one_gather():
    x = real(shape())
    axis = pick.randrange(x.ndim)
    save("gather", node("Gather", ["x", "i"], axis=axis), {"x": x, "i": index_into(x.shape[axis], shape(pick.randint(0, 2)))})
    d = list(x.shape)
    d[axis] = pick.randint(1, 4)
    save("gatherelements", node("GatherElements", ["x", "i"], axis=axis), {"x": x, "i": index_into(x.shape[axis], d)})


def tuples(x, m, dims):
    return np.stack([rng.integers(-x.shape[j], x.shape[j], dims) for j in range(m)], -1).astype(np.int64)


def one_gathernd():
    x = real(shape(lo=2))
    m = pick.randint(1, x.ndim)
    save("gathernd", node("GatherND", ["x", "i"]), {"x": x, "i": tuples(x, m, shape(pick.randint(1, 2)))}, fixed="i")


def one_scatter():
    x = real(shape(lo=2))
    how = pick.choice(["none", "add", "mul", "max", "min"])
    m = pick.randint(1, x.ndim)
    i = tuples(x, m, [pick.randint(1, 3)])
    if how == "none":
        _, first = np.unique(i % np.array(x.shape[:m]), axis=0, return_index=True)
        i = i[first]
    save("scatternd", node("ScatterND", ["x", "i", "u"], reduction=how),
         {"x": x, "i": i, "u": real(list(i.shape[:-1]) + list(x.shape[m:]))})
    axis = pick.randrange(x.ndim)
    d = [pick.randint(1, n) for n in x.shape]
    order = np.argsort(rng.random(list(d[:axis]) + [x.shape[axis]] + list(d[axis + 1:])), axis=axis)
    i = np.take(order, range(d[axis]), axis=axis).astype(np.int64)
    save("scatterelements", node("ScatterElements", ["x", "i", "u"], axis=axis, reduction=how),
         {"x": x, "i": i, "u": real(d)})


def one_spread():
    x = real(shape(2) if coin() else shape(3))
    save("trilu", node("Trilu", ["x", "k"], upper=int(coin())), {"x": x, "k": np.array(pick.randint(-4, 4), np.int64)})
    save("eyelike", node("EyeLike", ["x"], k=pick.randint(-2, 2)), {"x": real(shape(2))})
    b, c = pick.randint(1, 3), pick.randint(1, 2)
    x = real([pick.randint(1, 2), c * b * b, pick.randint(1, 3), pick.randint(1, 3)])
    save("depthtospace", node("DepthToSpace", ["x"], blocksize=b, mode=pick.choice(["DCR", "CRD"])), {"x": x})
    x = real([pick.randint(1, 2), c, b * pick.randint(1, 3), b * pick.randint(1, 3)])
    save("spacetodepth", node("SpaceToDepth", ["x"], blocksize=b), {"x": x})
    start, step = pick.randint(-5, 5), pick.choice([1, 2, 3, -1, -2])
    t = pick.choice([np.int64, np.int32, np.float32])
    v = {"a": start, "b": start + pick.randint(-8, 8), "c": step}
    save("range", node("Range", ["a", "b", "c"]), {k: np.array(e, t) for k, e in v.items()})
    save("constantofshape", node("ConstantOfShape", ["s"]), {"s": ints(shape(lo=0))})
    save("onehot", node("OneHot", ["i", "d", "v"], axis=pick.randint(-3, 2)),
         {"i": rng.integers(-4, 4, shape(2)), "d": np.array(4, pick.choice([np.int64, np.float32])),
          "v": np.array([2, 5], np.float32)})


def one_elementwise():
    full = some_empty(shape())
    op = pick.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual", "Equal", "Mod", "Where", "Pow"])
    t = pick.choice([np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32])
    a = np.abs(real(broadcastable(full))).astype(t) + t(1)
    b = np.abs(real(full if coin() else broadcastable(full))).astype(t) + t(1)
    if op == "Where":
        save("where", node("Where", ["c", "a", "b"]), {"c": a > 3, "a": a, "b": b})
    elif op == "Mod":
        save("mod", node("Mod", ["a", "b"], fmod=int(np.issubdtype(t, np.floating))), {"a": a, "b": b})
    else:
        if op == "Pow":
            a, b = np.minimum(a, t(4)), np.minimum(b, t(3))
        save(op.lower(), node(op, ["a", "b"]), {"a": a, "b": b})


def one_cast():
    types = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64, np.bool_]
    x = np.abs(real(shape())).astype(pick.choice(types))
    to = pick.choice(types)
    save("cast", node("Cast", ["x"], to=helper.np_dtype_to_tensor_dtype(np.dtype(to))), {"x": x})


KINDS = [one_slice, one_pad, one_reshape, one_axes_view, one_expand, one_tile, one_concat, one_split, one_transpose, one_gather,
         one_gathernd, one_scatter, one_spread, one_elementwise, one_elementwise, one_elementwise, one_cast]
for make in KINDS:
    for _ in range(COUNT):
        make()
print(save.made, "cases")

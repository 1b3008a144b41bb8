# SPDX-License-Identifier: Apache-2.0
"""Models of old opsets, a case for each upgrade rule: cases() yields (name, model, inputs, outputs), the
outputs computed here by numpy from what the old specification says."""

import numpy as np
from onnx import TensorProto, helper

RNG = np.random.default_rng(7)
CODE = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64,
        "int32": TensorProto.INT32, "bool": TensorProto.BOOL}


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def case(name, op, opset, inputs, outputs, nout=None, **attrs):
    """A model of one node: every input given at run time, None: omitted; NOUT: results of the node, the first ones outputs."""
    ins = [helper.make_tensor_value_info(f"x{i}", CODE[a.dtype.name], a.shape) for i, a in enumerate(inputs) if a is not None]
    outs = [helper.make_tensor_value_info(f"y{i}", CODE[a.dtype.name], a.shape) for i, a in enumerate(outputs)]
    names = [f"y{i}" for i in range(nout or len(outputs))]
    node = helper.make_node(op, ["" if a is None else f"x{i}" for i, a in enumerate(inputs)], names, name="node", **attrs)
    graph = helper.make_graph([node], "g", ins, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    return f"{name}_{opset}", model, [a for a in inputs if a is not None], outputs


def scans():
    """Scan with a batch and lengths: what is stacked ends with zeros. Then one whose state grows, and one that is reversed."""
    def info(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    state, x, lengths = f32(2, 3), f32(2, 4, 3), np.array([2, 4])
    body = helper.make_graph([helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Neg", ["t"], ["o"])], "body",
                             [info("s", 3), info("e", 3)], [info("t", 3), info("o", 3)])
    for name, given, step in (("Scan_lengths", lengths, 1), ("Scan_reversed", lengths, -1), ("Scan", None, -1)):
        last, all = state.copy(), np.zeros_like(x)
        for i, n in enumerate(lengths if given is not None else (4, 4)):
            for t, k in enumerate(range(n)[::step]):
                last[i] += x[i, k]
                all[i, t] = -last[i]
        yield case(name, "Scan", 8, [given, state, x], [last, all], body=body, num_scan_inputs=1, directions=[int(step < 0)])
    body = helper.make_graph([helper.make_node("Concat", ["s", "e"], ["t"], axis=0), helper.make_node("Neg", ["e"], ["o"])], "body",
                             [info("s", None), info("e", 3)], [info("t", None), info("o", 3)])
    yield case("Scan_grows", "Scan", 8, [None, state, x], [np.concatenate([state, x.reshape(2, 12)], 1), -x], body=body, num_scan_inputs=1)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def coerced(fn, x, axis):
    return fn(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape).astype(np.float32)


def hardmax(x):
    return np.eye(x.shape[-1])[x.argmax(axis=-1)]


def nearest(x, scales):
    """Upsample: pixels are their upper left corners."""
    for axis, s in enumerate(scales):
        n = int(np.floor(x.shape[axis] * s))
        x = x.take(np.minimum(np.floor(np.arange(n) / s).astype(int), x.shape[axis] - 1), axis)
    return x


def cases():
    a, b = f32(2, 3, 4, 5), f32(3, 4)
    for op, fn in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)):
        yield case(op, op, 6, [a, b], [fn(a, b[:, :, None])], axis=1, broadcast=1)
    yield case("Add_suffix", "Add", 1, [a, f32(1) * 0 + 2], [a + 2], broadcast=1, consumed_inputs=[0, 0])
    yield case("Add_back", "Add", 6, [a, b], [a + b[:, :, None]], axis=-3, broadcast=1)
    yield case("Mul_end", "Mul", 1, [a, a[0, 0]], [a * a[0, 0]], axis=-1, broadcast=1)
    yield case("Pow", "Pow", 1, [abs(a), b], [abs(a) ** b[:, :, None]], axis=1, broadcast=1)
    c = f32(2, 3)
    yield case("Less", "Less", 1, [a, c], [a < c[:, :, None, None]], axis=0, broadcast=1)
    yield case("Greater", "Greater", 1, [a, c], [a > c[:, :, None, None]], axis=0, broadcast=1)
    p, q = a > 0, f32(3, 4) > 0
    for op, fn in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        yield case(op, op, 1, [p, q], [fn(p, q[:, :, None])], axis=1, broadcast=1)
    i, j = RNG.integers(0, 3, (2, 3, 4)), RNG.integers(0, 3, 3)
    yield case("Equal", "Equal", 1, [i, j], [i == j[:, None]], axis=1, broadcast=1)
    s = f32(3)
    yield case("PRelu", "PRelu", 6, [a, s], [np.where(a < 0, a * s[:, None, None], a)])

    yield case("Cast", "Cast", 1, [a], [a.astype(np.int32)], to="INT32")
    yield case("Clip", "Clip", 6, [a], [a.clip(-0.5, 0.5)], min=-0.5, max=0.5)
    yield case("Clip_min", "Clip", 1, [a], [a.clip(0.1, None)], min=0.1)
    big = np.array([np.inf, -np.inf, 1], np.float32)
    yield case("Clip_none", "Clip", 6, [big], [big.clip(np.finfo("f4").min, np.finfo("f4").max)])
    h = a.astype(np.float16)
    yield case("Clip_f16", "Clip", 6, [h], [h.clip(-0.5, 0.5)], min=-0.5, max=0.5)
    yield case("Concat", "Concat", 1, [a, a], [np.concatenate([a, a], 1)])
    yield case("Dropout", "Dropout", 7, [a], [a], ratio=0.3)
    yield case("Dropout_mask", "Dropout", 6, [a], [a, np.ones_like(a)], ratio=0.3, is_test=1)
    yield case("Gemm", "Gemm", 6, [c, c.T, s[:2]], [c @ c.T + s[:2]], broadcast=1)
    yield case("Selu", "Selu", 1, [a], [np.where(a > 0, 1.0507 * a, 1.0507 * 1.6732 * np.expm1(a)).astype("f4")])

    n = f32(2, 4, 3, 3)
    scale, bias, mean, var = f32(4), f32(4), f32(4), abs(f32(4)) + 1
    per = [v[:, None, None] for v in (scale, bias, mean, var)]
    want = (n - per[2]) / np.sqrt(per[3] + 1e-5) * per[0] + per[1]
    yield case("BatchNormalization", "BatchNormalization", 6, [n, scale, bias, mean, var], [want], is_test=1)
    yield case("BatchNormalization_results", "BatchNormalization", 6, [n, scale, bias, mean, var], [want],
               nout=5, is_test=1)
    per = [f32(4, 3, 3), f32(4, 3, 3), f32(4, 3, 3), abs(f32(4, 3, 3)) + 1]
    want = (n - per[2]) / np.sqrt(per[3] + 1e-3) * per[0] + per[1]
    yield case("BatchNormalization_elements", "BatchNormalization", 7, [n, *per], [want], spatial=0, epsilon=1e-3)
    g = n.reshape(2, 2, -1)
    g = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(n.shape)
    two = f32(2), f32(2)
    want = g * two[0].repeat(2)[:, None, None] + two[1].repeat(2)[:, None, None]
    yield case("GroupNormalization", "GroupNormalization", 18, [n, *two], [want], num_groups=2)

    for axis in (0, 1, 2, 3):
        yield case(f"Softmax_axis{axis}", "Softmax", 11, [a], [coerced(softmax, a, axis)], axis=axis)
    yield case("Softmax_last", "Softmax", 11, [a], [coerced(softmax, a, 3)], axis=-1)
    yield case("Softmax_default", "Softmax", 1, [a], [coerced(softmax, a, 1)])
    yield case("LogSoftmax", "LogSoftmax", 9, [a], [coerced(lambda v: np.log(softmax(v)), a, 2)], axis=2)
    yield case("Hardmax", "Hardmax", 1, [a], [coerced(hardmax, a, 1)])

    reductions = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
                  "ReduceProd": np.prod, "ReduceL1": lambda v, **k: abs(v).sum(**k),
                  "ReduceL2": lambda v, **k: np.sqrt((v * v).sum(**k)),
                  "ReduceSumSquare": lambda v, **k: (v * v).sum(**k),
                  "ReduceLogSum": lambda v, **k: np.log(v.sum(**k)),
                  "ReduceLogSumExp": lambda v, **k: np.log(np.exp(v).sum(**k))}
    for op, fn in reductions.items():
        x = abs(a)
        yield case(op, op, 11, [x], [fn(x, axis=(1, 3), keepdims=False)], axes=[1, -1], keepdims=0)
        yield case(op + "_all", op, 1, [x], [np.asarray(fn(x, axis=None, keepdims=True), "f4")])

    yield case("Reshape", "Reshape", 1, [a], [a.reshape(2, 12, 5)], shape=[0, 12, -1])
    yield case("Squeeze", "Squeeze", 11, [a[:, :1]], [a[:, 0]], axes=[1])
    yield case("Squeeze_all", "Squeeze", 1, [a[:, :1, :, :1]], [a[:, 0, :, 0]])
    yield case("Unsqueeze", "Unsqueeze", 11, [b], [b[:, None, :, None]], axes=[1, 3])
    yield case("Slice", "Slice", 1, [a], [a[:, 1:3, :, :-1]], axes=[1, 3], starts=[1, 0], ends=[3, -1])
    yield case("Slice_axes", "Slice", 9, [a], [a[0:1, 1:100]], starts=[0, 1], ends=[1, 1000])
    yield case("Split", "Split", 2, [a], [a[:, :1], a[:, 1:]], axis=1, split=[1, 2])
    yield case("Split_operand", "Split", 1, [a, np.array([1, 2], np.float32)], [a[:, :1], a[:, 1:]], axis=1)
    yield case("Split_equal", "Split", 11, [a], [a[:, :, :2], a[:, :, 2:]], axis=2)
    yield case("Pad_1", "Pad", 1, [b], [np.pad(b, ((1, 2), (0, 1)), constant_values=1.5)],
               paddings=[1, 0, 2, 1], value=1.5)
    yield case("Pad", "Pad", 2, [b], [np.pad(b, ((0, 1), (2, 0)), mode="reflect")], pads=[0, 2, 1, 0],
               mode="reflect")
    tiles, axis = np.array(3, np.float32), np.array(1, np.float32)
    yield case("Tile", "Tile", 1, [b, tiles, axis], [np.tile(b, (1, 3))])
    yield case("Scatter", "Scatter", 9, [b, np.zeros((1, 4), np.int64), b[1:2]],
               [np.concatenate([b[1:2], b[1:]])], axis=0)

    u = f32(1, 2, 3, 4)
    yield case("Upsample_1", "Upsample", 1, [u], [nearest(u, (1, 1, 2, 3))], height_scale=2.0, width_scale=3.0)
    yield case("Upsample", "Upsample", 7, [u], [nearest(u, (1, 1, 2, 1.5))], scales=[1, 1, 2, 1.5])
    sc = np.array([1, 1, 2, 2], np.float32)
    yield case("Upsample", "Upsample", 9, [u, sc], [nearest(u, sc)], mode="nearest")
    sc = np.array([1, 1, 0.6, 0.5], np.float32)
    yield case("Resize", "Resize", 10, [u, sc], [nearest(u, sc)])
    line = np.array([[[0, 2, 4]]], np.float32)
    yield case("Resize_linear", "Resize", 10, [line, np.array([1, 1, 2], np.float32)],
               [np.array([[[0, 1, 2, 3, 4, 4]]], np.float32)], mode="linear")
    w = abs(f32(1, 2, 4))
    yield case("GlobalLpPool", "GlobalLpPool", 1, [w], [(w ** 3).sum(-1, keepdims=True) ** np.float32(1 / 3)], p=3.0)
    image = f32(2, 3, 4, 5)
    for across, axes in ((0, (2, 3)), (1, (1, 2, 3))):
        yield case(f"MeanVarianceNormalization{across}", "MeanVarianceNormalization", 7, [image],
                   [(image - image.mean(axes, keepdims=True)) / image.std(axes, keepdims=True)], across_channels=across)
    yield case("LpPool", "LpPool", 1, [w], [np.sqrt(w[..., :-1] ** 2 + w[..., 1:] ** 2)], p=2.0, kernel_shape=[2])
    yield from scans()

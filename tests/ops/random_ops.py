# SPDX-License-Identifier: Apache-2.0
"""Random cases of the structured ops: reductions, contractions, pools, normalizations, Resize, quantisation.

    random_ops.py FOLDER SEED COUNT

Each case is a folder in ONNX's own layout. Half of them have symbolic dims in the model, and what may
be given at run time (axes, scales, sizes) is an input in half of them, so that every op is seen with its
sizes known and not. Sums are of few terms: tolerances are for rounding, not for lost terms."""

import os
import random
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

FOLDER, SEED, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pick = random.Random(SEED)
rng = np.random.default_rng(SEED)
made = 0


def real(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def whole(lo, hi, *shape, dtype=np.int32):
    return rng.integers(lo, hi, shape).astype(dtype)


def ints(values):
    return np.array(values, dtype=np.int64)


def coin(p=0.5):
    return pick.random() < p


def flag():
    return pick.randint(0, 1)


def some(n, lo, hi):
    return [pick.randint(lo, hi) for _ in range(n)]


def info(name, a, symbolic, numbers=()):
    shape = [f"{name}_{i}" if i not in numbers else a.shape[i] for i in range(a.ndim)] if symbolic else a.shape
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), shape)


def expected(model, feeds, oracle):
    if callable(oracle):
        return oracle()
    if oracle == "reference":
        return ReferenceEvaluator(model).run(None, feeds)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = onnx.shape_inference.infer_shapes(model)
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def case(op, inputs, attrs, results=1, aux=(), opset=21, oracle="runtime", numbers=(), fixed=False):
    """A case of OP, which may have its domain before its name. RESULTS: how many there are, or the numbers of those that are not
    omitted. Inputs numbered in AUX are small integers or floats that may be constants, and keep their shape; FIXED: all do. ORACLE:
    "runtime", "reference", or a function that gives the results. What the oracle refuses is dropped. NUMBERS: axes of the first
    input that stay numbers in the model."""
    global made
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    shown = range(results) if isinstance(results, int) else results
    outs = [f"o{k}" if k in shown else "" for k in range(max(shown) + 1)]
    given = [o for o in outs if o]
    domain, _, name = op.rpartition(".")
    symbolic, constants = coin() and not fixed, set(aux) if coin() else set()
    fed = [k for k, a in enumerate(inputs) if a is not None and k not in constants]
    feeds = {names[k]: inputs[k] for k in fed}

    def model(outputs):
        graph = helper.make_graph(
            [helper.make_node(name, names, outs, name=name, domain=domain, **attrs)], "g",
            [info(names[k], inputs[k], symbolic and k not in aux, () if k else numbers) for k in fed], outputs,
            [numpy_helper.from_array(inputs[k], names[k]) for k in constants if inputs[k] is not None])
        domains = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    try:
        want = expected(model([helper.make_empty_tensor_value_info(o) for o in given]), feeds, oracle)
    except Exception:
        return
    made += 1
    folder = f"{FOLDER}/{made:04}_{op}"
    data = folder + "/test_data_set_0"
    samples.tensors(data, "input", feeds)
    samples.tensors(data, "output", dict(zip(given, want)))
    onnx.save(model([info(o, np.asarray(a), True) for o, a in zip(given, want)]), folder + "/model.onnx")


def shape_of_rank(lo, hi):
    return some(pick.randint(lo, hi), 1, 5)


def reductions():
    kinds = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]
    op = pick.choice(kinds)
    shape = shape_of_rank(1, 4)
    types = [np.float32, np.float64] + ([] if op.startswith("Log") else [np.int64])
    dtype = pick.choice(types)
    x = whole(-9, 9, *shape, dtype=dtype) if np.issubdtype(dtype, np.integer) else abs(real(*shape, dtype=dtype)) + 1
    rank = len(shape)
    axes = [a - rank if coin() else a for a in pick.sample(range(rank), pick.randint(0, rank))]
    case("Reduce" + op, [x, ints(axes)], dict(keepdims=flag(), noop_with_empty_axes=flag()), aux=(1,),
         oracle="reference" if not axes else "runtime", opset=18)


def empty_reductions():
    op = pick.choice(["Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])
    dtype = pick.choice([np.float32, np.int8, np.uint8, bool]) if op in ("Max", "Min") else np.float32
    case("Reduce" + op, [np.zeros((2, 0, 3), dtype), ints([1])], {}, aux=(1,), opset=20, oracle="reference")


def arg_reductions():
    shape = shape_of_rank(1, 4)
    x = whole(-2, 3, *shape, dtype=pick.choice([np.float32, np.int32, np.float64]))
    case(pick.choice(["ArgMax", "ArgMin"]), [x],
         dict(axis=pick.randint(-len(shape), len(shape) - 1), keepdims=flag(), select_last_index=flag()))


def tops():
    """Few elements of many, and all of them, with many that are equal. NaN is larger than all numbers, which the other engines do not
    agree on."""
    dtype = pick.choice([np.float32, np.float16, np.float64, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
    shape = some(pick.randint(0, 2), 1, 4)
    axis, size = pick.randint(0, len(shape)), pick.choice([1, 2, 5, 9, 17, 64, 65, 130, 300])
    shape.insert(axis, size)
    if np.issubdtype(dtype, np.floating):
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2], dtype)
    else:
        special = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2, 3], dtype)
    x = rng.choice(special, shape) if coin() else (rng.standard_normal(shape) * 100).astype(np.int64).astype(dtype)
    count, largest = pick.choice([1, min(2, size), min(7, size), size]), flag()

    def first():
        rows = np.moveaxis(x, axis, -1).reshape(-1, size)
        order = [sorted(range(size), key=lambda i: ((r[i] == r[i]) ^ (not largest), 0 if r[i] != r[i] else -r[i].item() if largest else r[i].item()))
                 for r in rows]
        index = np.moveaxis(np.array(order, np.int64)[:, :count].reshape([s for a, s in enumerate(shape) if a != axis] + [count]), -1, axis)
        return np.take_along_axis(x, index, axis), index

    case("TopK", [x, ints([count])], dict(axis=axis - len(shape) if coin() else axis, largest=largest), results=2, aux=(1,), oracle=first)


def prefixes():
    shape = shape_of_rank(1, 4)
    x = real(*shape) if coin() else whole(-9, 9, *shape)
    axis = np.array(pick.randint(-len(shape), len(shape) - 1), dtype=np.int64)
    case("CumSum", [x, axis], dict(exclusive=flag(), reverse=flag()), aux=(1,))


def matrix_products():
    batch = some(pick.randint(0, 3), 1, 3)
    sides = [[1 if coin(0.3) else d for d in batch][pick.randint(0, len(batch)):] for _ in range(2)]
    m, k, n = some(3, 1, 6)
    a = real(*sides[0], m, k) if coin(0.8) else real(k)
    b = real(*sides[1], k, n) if coin(0.8) else real(k)
    dtype = pick.choice([np.float32, np.float64, np.int32, np.int64])
    case("MatMul", [(a * 4).astype(dtype), (b * 4).astype(dtype)], {})


def gemms():
    m, k, n = some(3, 1, 6)
    ta, tb = flag(), flag()
    c = pick.choice([[], [real(m, n)], [real(n)], [real(1)], [real(m, 1)], [real()]])
    case("Gemm", [real(k, m) if ta else real(m, k), real(n, k) if tb else real(k, n)] + c,
         dict(transA=ta, transB=tb, alpha=pick.choice([1.0, 0.5]), beta=pick.choice([1.0, 0.0, 2.0])))


def einsums():
    equation, shapes = pick.choice([
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("bij,bjk", [(2, 3, 4), (2, 4, 5)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
        ("...ij,...jk->...ik", [(1, 3, 4), (5, 4, 2)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("ij,ij,ij->i", [(2, 3)] * 3),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("a b, b c -> a c", [(2, 3), (3, 2)]),
        ("i...,i...->...", [(2, 3, 4)] * 2), ("ba", [(2, 3)]), ("iij,jk->ik", [(3, 3, 2), (2, 4)]),
        ("...ii->...", [(2, 4, 4)])])
    case("Einsum", [real(*s) for s in shapes], dict(equation=equation))


def window(dims, most=3):
    return some(dims, 1, most), some(dims, 1, 3), [pick.choice([1, 1, 2]) for _ in range(dims)]


def convolutions():
    dims, group, ci, co = pick.choice([1, 2, 2, 3]), pick.choice([1, 1, 2, 3]), pick.randint(1, 3), pick.randint(1, 3)
    kernel, strides, dilations = window(dims)
    attrs = dict(group=group, strides=strides, dilations=dilations)
    pad = pick.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if pad == "NOTSET":
        attrs["pads"] = some(2 * dims, 0, 2)
    else:
        attrs["auto_pad"] = pad
    if pad.startswith("SAME"):
        attrs["dilations"] = [1] * dims
    bias = [real(group * co)] if coin() else []
    case("Conv", [real(2, group * ci, *some(dims, 6, 9)), real(group * co, ci, *kernel)] + bias, attrs, aux=(1,))


def transposed_convolutions():
    dims, group, ci, co = pick.choice([1, 2, 2, 3]), pick.choice([1, 1, 2]), pick.randint(1, 3), pick.randint(1, 3)
    kernel, strides, dilations = window(dims, 4)
    spatial = some(dims, 2, 5)
    attrs = dict(group=group, strides=strides, dilations=dilations)
    form = pick.randint(0, 4)
    if form == 0:
        attrs["auto_pad"] = pick.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif form == 1:
        attrs["output_shape"] = [d * s for d, s in zip(spatial, strides)]
    else:
        attrs["pads"] = [min(p, kernel[i % dims] - 1) for i, p in enumerate(some(2 * dims, 0, 2))]
    if form == 2:
        attrs["output_padding"] = [pick.randint(0, s - 1) for s in strides]
    bias = [real(group * co)] if coin() else []
    case("ConvTranspose", [real(2, group * ci, *spatial), real(group * ci, co, *kernel)] + bias, attrs, aux=(1,))


def pools():
    op = pick.choice(["MaxPool", "MaxPool", "AveragePool", "LpPool"])
    dims = pick.choice([1, 2, 2, 3])
    kernel, strides, dilations = window(dims)
    attrs = dict(kernel_shape=kernel, strides=strides, dilations=dilations)
    pad = pick.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if pad == "NOTSET":
        attrs.update(pads=[min(p, kernel[i % dims] - 1) for i, p in enumerate(some(2 * dims, 0, 2))], ceil_mode=flag())
    else:
        attrs.update(auto_pad=pad, dilations=[1] * dims)
    if op == "AveragePool":
        attrs["count_include_pad"] = flag()
    if op == "LpPool":
        attrs["p"] = pick.choice([1, 2, 3])
    x = real(2, 2, *some(dims, 5, 9))
    if op == "MaxPool":
        attrs["storage_order"] = flag()
        x = whole(0, 9, *x.shape, dtype=pick.choice([np.uint8, np.int8])) if coin(0.3) else x
    case(op, [x], attrs, results=2 if op == "MaxPool" else 1, opset=19 if op != "LpPool" else 18)


def global_pools():
    op = pick.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    case(op, [real(2, 3, *some(pick.randint(1, 3), 1, 5))], dict(p=pick.randint(1, 3)) if "Lp" in op else {})


def normalizations():
    per = [real(3) for _ in range(3)] + [abs(real(3))]
    x = real(2, 3, *some(pick.randint(1, 3), 1, 5))
    axis = pick.choice([-1, 0, 1, 2])
    tail = (2, 3, 4)[axis:]
    pick.choice([
        lambda: case("BatchNormalization", [x] + per, dict(epsilon=1e-3)),
        lambda: case("BatchNormalization", [x] + per, dict(training_mode=1, momentum=0.7), results=3),
        lambda: case("InstanceNormalization", [x] + per[:2], {}),
        lambda: case("LayerNormalization", [real(2, 3, 4), real(*tail), real(*tail)], dict(axis=axis), opset=17),
        lambda: case("LayerNormalization", [real(2, 3, 4), real(4)], {}, 3, opset=17, oracle="reference"),
        lambda: case("RMSNormalization", [real(2, 3, 4), real(*tail)], dict(axis=axis), opset=23, oracle="reference"),
        lambda: case("GroupNormalization", [real(2, 6, 4, 5), real(6), real(6)], dict(num_groups=3), aux=(1, 2)),
        lambda: case("GroupNormalization", [real(2, 6, 4, 5), real(3), real(3)], dict(num_groups=3), opset=18),
        lambda: case("LpNormalization", [real(2, 3, 4)], dict(p=pick.randint(1, 2), axis=axis)),
        lambda: case("MeanVarianceNormalization", [real(2, 3, 4, 5)], {}, opset=13),
        lambda: case("LRN", [real(2, 7, 3, 3)], dict(size=pick.choice([3, 5]), alpha=0.3, beta=0.6, bias=1.5)),
    ])()


def softmaxes():
    op, opset = pick.choice(["Softmax", "LogSoftmax", "Hardmax"]), pick.choice([11, 21])
    case(op, [real(3, 4, 5)], dict(axis=pick.choice([0, 1, 2])), opset=opset)


def resizes():
    # pytorch_half_pixel is left out: for one element the reference and the text of the standard differ.
    dims, lead = pick.choice([1, 2, 2, 3]), pick.randint(0, 2)
    rank = lead + dims
    attrs = dict(mode=pick.choice(["nearest", "nearest", "linear", "linear", "cubic"]),
                 coordinate_transformation_mode=pick.choice(
                     ["half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric", "tf_crop_and_resize"]))
    if attrs["mode"] == "nearest":
        attrs["nearest_mode"] = pick.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    else:
        # The reference takes the wrong neighbour where a symmetric coordinate rounds to a whole one.
        if attrs["coordinate_transformation_mode"] != "half_pixel_symmetric":
            attrs["exclude_outside"] = int(coin(0.4))
        attrs["antialias"] = int(coin(0.3))
    if attrs["mode"] == "cubic":
        attrs["cubic_coeff_a"] = pick.choice([-0.75, -0.5])
    x = real(*some(lead, 1, 2), *some(dims, 1, 9)) + 3
    axes = list(range(lead, rank))
    target = list(range(rank))
    if coin(0.6):
        pick.shuffle(axes)
        attrs["axes"] = target = axes
    inner = [a >= lead for a in target]
    roi = scales = None
    sizes = []
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        starts = [pick.choice([0.0, 0.2, -0.1]) if i else 0.0 for i in inner]
        ends = [pick.choice([1.0, 0.8, 1.2]) if i else 1.0 for i in inner]
        roi = np.array(starts + ends, np.float32)
        attrs["extrapolation_value"] = 7.0
    if coin():
        factors = [1, 2, 3, 0.5, 1.5]
        if attrs["mode"] != "nearest":  # the reference rounds to another element where a position is whole in f32 alone
            factors += [0.7, 0.6, 2.3, 1 / 3]
        scales = np.array([pick.choice(factors) if i else 1 for i in inner], np.float32)
        if any(int(s * np.float32(x.shape[a])) < 1 for s, a in zip(scales, target)):
            return
    else:
        n = [x.shape[a] for a in target]
        sizes = [ints([pick.choice([pick.randint(1, 12), d * 2, d * 3]) if i else d for d, i in zip(n, inner)])]
        if "axes" in attrs and coin(0.3):
            attrs["keep_aspect_ratio_policy"] = pick.choice(["not_larger", "not_smaller"])
    case("Resize", [x, roi, scales] + sizes, attrs, aux=(1, 2, 3)[:2 + len(sizes)], opset=19, oracle="reference")


SMALL_INTS = (np.int8, np.uint8, np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
SMALL_FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn,
                ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn)


def codes(dtype, *shape):
    """Elements of a quantised tensor."""
    if dtype in SMALL_FLOATS:
        return (real(*shape) * 2).astype(dtype)
    range_ = ml_dtypes.iinfo(dtype)
    return whole(range_.min, range_.max + 1, *shape).astype(dtype)


def quantisations():
    """QuantizeLinear and DequantizeLinear of every type: for a tensor, an axis or blocks."""
    shape = shape_of_rank(1, 4)
    axis = pick.randrange(-len(shape), len(shape))
    attrs, scales = pick.choice([({}, []), (dict(axis=axis), [shape[axis]]), (dict(axis=axis, block_size=2), list(shape))])
    if "block_size" in attrs:
        scales[axis] = -(-shape[axis] // 2)
    real_type, dtype = pick.choice([np.float32, np.float32, np.float16, ml_dtypes.bfloat16]), pick.choice(SMALL_INTS + SMALL_FLOATS)
    powers = 2.0 ** whole(-3, 3, *scales)
    scale, zero = (powers * pick.choice([1, 0.77])).astype(real_type), [codes(dtype, *scales)] if coin() else []
    if dtype in SMALL_FLOATS and zero:
        zero[0] = np.zeros(scales).astype(dtype)       # ONNX's reference ignores others
    if coin(0.2):
        scale = powers.astype(ml_dtypes.float8_e8m0fnu)
    if coin():
        if scale.dtype != real_type or coin(0.3):
            attrs["output_dtype"] = helper.np_dtype_to_tensor_dtype(np.dtype(pick.choice([np.float32, np.float16, ml_dtypes.bfloat16])))
        case("DequantizeLinear", [codes(dtype, *shape), scale] + zero, attrs, opset=28, oracle="reference")
        return
    if scale.dtype != real_type or coin(0.3):
        attrs["precision"] = onnx.TensorProto.FLOAT
    if not zero or coin(0.3):
        attrs["output_dtype"] = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if dtype in SMALL_FLOATS and coin(0.3):
        attrs["saturate"] = 0
    x = (real(*shape) * pick.choice([1, 10, 100])).astype(real_type)
    case("QuantizeLinear", [x, scale] + zero, attrs, opset=28, oracle="reference")


def microsoft(op, inputs, attrs, **more):
    case("com.microsoft." + op, inputs, attrs, opset=21, **more)


def microsoft_activations():
    shape = shape_of_rank(2, 3)
    op = pick.choice(["Gelu", "FastGelu", "BiasGelu", "QuickGelu"])
    bias = [real(shape[-1])] if op == "BiasGelu" or (op == "FastGelu" and coin()) else []
    microsoft(op, [real(*shape)] + bias, dict(alpha=pick.choice([1.702, 0.5])) if op == "QuickGelu" else {})


def microsoft_normalizations():
    batch, length, size = some(3, 1, 5)
    x, scale, shift = real(batch, length, size), real(size), real(size)
    op = pick.choice(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "Embed"])
    attrs = dict(epsilon=pick.choice([1e-5, 1e-3]))
    if op == "SimplifiedLayerNormalization":
        dtype = pick.choice([np.float32, np.float64])
        case(op, [x.astype(dtype), scale.astype(dtype)], dict(attrs, axis=pick.choice([-1, 2])), opset=17, results=2)
    elif op == "Embed":
        ids, table = whole(0, 7, batch, length), real(7, size)
        segments = coin()
        inputs = [ids, whole(0, 2, batch, length) if segments else None, table, real(length + 2, size), real(2, size) if segments else None,
                  scale, shift, whole(0, 2, batch, length) if coin() else None, whole(0, length, batch, length) if coin() else None]
        while inputs[-1] is None:
            inputs.pop()
        microsoft("EmbedLayerNormalization", inputs, attrs, results=2)
    else:
        skip = x[::-1].copy() if coin() else real(1, length, size) if coin() else real(length, size)
        if op.startswith("SkipS"):
            skip = real(*x.shape)
        inputs = [x, skip, scale] + ([shift] if op.startswith("SkipL") and coin(0.7) else [])
        if coin():
            inputs += ([None] if op.startswith("SkipL") and len(inputs) == 3 else []) + [real(size)]
        microsoft(op, inputs, attrs, results=pick.choice([1, [0, 3], [0, 1], [0, 2, 3], 4]))


def microsoft_products():
    m, k, n = some(3, 1, 5)
    params = {"Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.5]}
    activation = pick.choice(list(params))
    op = pick.choice(["FusedMatMul", "FusedConv", "FusedGemm"])
    if op == "FusedMatMul":
        trans = {name: flag() for name in ("transA", "transB")}
        batch = some(pick.randint(0, 2), 1, 3)
        sides = [[m, k], [k, n]]
        inputs = [real(*batch, *(s[::-1] if t else s)) for s, t in zip(sides, trans.values())]
        if batch:
            for i in range(2):
                trans["transBatch" + "AB"[i]] = flag()
                if trans["transBatch" + "AB"[i]]:
                    inputs[i] = np.ascontiguousarray(np.moveaxis(inputs[i], -2, 0))
        microsoft(op, inputs, dict(trans, alpha=pick.choice([1.0, 0.5])))
    elif op == "FusedGemm":
        needs = {"Relu": "", "Tanh": "", "Sigmoid": "", "LeakyRelu": "a", "Elu": "a", "Celu": "a", "HardSigmoid": "ab", "ScaledTanh": "ab",
                 "ParametricSoftplus": "ab", "Selu": "ag"}
        activation = pick.choice(list(needs))
        attrs = {f"activation_{name}": x for name, x in (("alpha", 0.3), ("beta", 0.4), ("gamma", 1.1)) if name[0] in needs[activation] or coin(0.3)}
        microsoft(op, [real(m, k), real(k, n), real(n)], dict(attrs, activation=activation))
    else:
        x, w, z = real(2, m, 6, 6), real(n, m, 3, 3), real(2, n, 6, 6)
        attrs = dict(activation_params=params[activation]) if params[activation] else {}
        inputs = [x, w, real(n)] + ([z] if coin() else [])
        microsoft(op, inputs, dict(attrs, activation=activation, pads=[1, 1, 1, 1], kernel_shape=[3, 3]))


def microsoft_quantised():
    """Scales are no powers of 2: ONNX Runtime rounds halves in another way than its documentation says. It
    computes QLinearSoftmax by a table that is not exact enough to compare with, and the averages of windows such that one
    near a half may round to the other side; so those of whole images stand for them."""
    dtype = pick.choice([np.int8, np.uint8])

    def point(scale=None):
        return [np.array(scale or pick.choice([0.011, 0.023, 0.037]), np.float32), codes(dtype) if coin(0.8) else None]
    op = pick.choice(["Add", "Mul", "Sigmoid", "LeakyRelu", "GlobalAveragePool", "Concat"])
    if "Pool" in op:
        attrs = dict(channels_last=flag())
        shape = [2, 5, 6, 3] if attrs["channels_last"] else [2, 3, 5, 6]
        inputs = [codes(dtype, *shape)] + point() + point(0.0173)
    elif op == "Concat":
        shape = shape_of_rank(2, 3)
        attrs, inputs = dict(axis=0), point()
        for _ in range(pick.randint(1, 3)):
            inputs += [codes(dtype, *[pick.randint(1, 3)] + shape[1:])] + point()
        inputs = [codes(dtype) if i is None else i for i in inputs]
    else:
        shape = shape_of_rank(2, 3)
        attrs = dict(alpha=0.3) if op == "LeakyRelu" else {}
        inputs = [codes(dtype, *shape)] + point()
        if op in ("Add", "Mul"):
            inputs += [codes(dtype, *shape[pick.choice([0, 1]):])] + point()
        inputs += point(0.0041 if op == "Sigmoid" else 0.057)
    if inputs[-1] is None:     # without it ONNX Runtime ends
        inputs[-1] = codes(dtype)
    microsoft("QLinear" + op, inputs, attrs)


def microsoft_integer_products():
    m, k, n = some(3, 1, 6)
    op = pick.choice(["MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm"])
    dtype = np.uint8 if op == "QGemm" else pick.choice([np.int8, np.uint8])
    columns = [n] if coin() else []
    scale, zero = rng.uniform(0.01, 0.05, columns).astype(np.float32), codes(dtype, *columns)
    b = codes(dtype, k, n)
    if dtype == np.int8:
        b = b // 2  # ONNX Runtime adds pairs of products in 16 bits where the processor lacks VNNI, which saturates
    if op == "DynamicQuantizeMatMul":
        inputs = [real(m, k), b, scale, zero if coin() else None] + ([real(n)] if coin() else [])
    elif op == "MatMulIntegerToFloat":
        inputs = [codes(np.uint8, 2, m, k), b, np.array(0.02, np.float32), scale, codes(np.uint8) if coin() else None, zero if coin() else None]
        inputs += [real(n)] if coin() else []
    else:
        inputs = [codes(np.uint8, m, k), np.array(0.02, np.float32), codes(np.uint8), b, scale, zero, whole(-99, 99, n) if coin() else None]
        inputs += pick.choice([[], [np.array(0.9, np.float32), codes(np.uint8)], [np.array(0.9, np.float32)], [None, codes(np.uint8)]])
        attrs = dict(transA=flag(), transB=flag(), alpha=pick.choice([1.0, 0.5]))
        for i, name in (0, "transA"), (3, "transB"):
            inputs[i] = np.ascontiguousarray(inputs[i].T) if attrs[name] else inputs[i]
    while inputs[-1] is None:
        inputs.pop()
    microsoft(op, inputs, attrs if op == "QGemm" else {})


def microsoft_quantisations():
    shape = shape_of_rank(2, 3)
    dtype = pick.choice([np.int8, np.uint8, np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4])
    axis = pick.randrange(len(shape))
    scales = [shape[axis]] if coin() else []
    scale, zero = rng.uniform(0.01, 0.05, scales).astype(np.float32), codes(dtype, *scales)
    op = pick.choice(["QuantizeLinear", "DequantizeLinear"])
    microsoft(op, [real(*shape) if op[0] == "Q" else codes(dtype, *shape), scale, zero], dict(axis=axis) if scales else {})


def key_masks(batch, length, total):
    """A mask that MultiHeadAttention takes, or None."""
    lengths = whole(1, total + 1, batch)
    return pick.choice([None, whole(0, 2, batch, total), whole(0, 2, batch, length, total), lengths,
                        np.concatenate([lengths, whole(0, 9, 2 * batch + 2)])])


def several_lengths(inputs, k, batch):
    """Whether operand K is a mask whose length, a multiple of the batch, says what is in it."""
    return len(inputs) > k and inputs[k] is not None and inputs[k].ndim == 1 and len(inputs[k]) > batch


def microsoft_attentions():
    batch, length, heads, size, past = some(4, 1, 4) + [pick.randint(0, 3)]
    width, total = heads * size, length + past
    if coin():
        inputs = [real(batch, length, 5), real(5, 3 * width), real(3 * width)]
        inputs.append(pick.choice([key_masks(batch, length, total), whole(0, 2, pick.choice([1, batch]), 1),
                                   np.concatenate([whole(1, total + 1, batch), whole(0, 2, batch)])]))
        inputs.append(real(2, batch, heads, past, size) if past else None)
        if coin() and not past:
            inputs.append(real(batch, heads, length, total))
        while inputs[-1] is None:
            inputs.pop()
        microsoft("Attention", inputs, dict(num_heads=heads, unidirectional=flag(), mask_filter_value=-30.0), results=2 if past else 1,
                  fixed=several_lengths(inputs, 3, batch))
        return
    keys = length if past else pick.randint(1, 4)
    total = keys + past
    shape = (batch, heads, keys, size) if coin(0.3) and not past else (batch, keys, width)
    inputs = [real(batch, length, width), real(*shape), real(*shape), real(3 * width) if coin() else None]
    inputs += [key_masks(batch, length, total), real(batch, heads, length, total) if coin() else None]
    if past:
        inputs += [real(batch, heads, past, size), real(batch, heads, past, size)]
    while inputs[-1] is None:
        inputs.pop()
    microsoft("MultiHeadAttention", inputs, dict(num_heads=heads, scale=pick.choice([0.3, 0.5]), mask_filter_value=-30.0, unidirectional=int(coin(0.3))),
              results=3 if past else 1, fixed=several_lengths(inputs, 4, batch))


def microsoft_square_masks():
    """Attention's mask for every two positions, of which ONNX Runtime takes a part: [batch, queries, keys]."""
    batch, length, heads, size, past = some(4, 1, 4) + [pick.randint(0, 3)]
    width, most = heads * size, length + past + pick.randint(0, 3)
    mask = whole(0, 2, batch, 1, most, most)
    inputs = [real(batch, length, 5), real(5, 3 * width), real(3 * width), mask] + ([real(2, batch, heads, past, size)] if past else [])
    attrs, results = dict(num_heads=heads, mask_filter_value=-30.0), 2 if past else 1

    def part():
        given = inputs[:3] + [mask[:, 0, past:past + length, :past + length]] + inputs[4:]
        names, outs = [f"i{k}" for k in range(len(given))], [f"o{k}" for k in range(results)]
        graph = helper.make_graph([helper.make_node("Attention", names, outs, domain="com.microsoft", **attrs)], "g",
                                  [info(n, a, False) for n, a in zip(names, given)], [helper.make_empty_tensor_value_info(o) for o in outs])
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return expected(helper.make_model(graph, opset_imports=domains, ir_version=10), dict(zip(names, given)), "runtime")
    microsoft("Attention", inputs, attrs, results=results, oracle=part)


def microsoft_grouped_attentions():
    """A prompt, or one more token. The past has rows to spare in half of the cases, as in a buffer of the largest length. They are 0,
    since they are not specified in the result."""
    batch, groups, heads = some(3, 1, 3)
    prompt, size = coin(0.4), 16
    length = pick.randint(1, 4) if prompt else 1
    past = 0 if prompt else pick.randint(1, 4)
    spare = pick.randint(1, 3) if coin() else 0
    rows = past + (length + spare if spare else 0)
    lengths = np.full(batch, past + length - 1, np.int32)
    if not prompt:
        lengths[1:] = whole(1, past + 1, batch - 1)
    q, k = heads * groups * size, heads * size
    attrs = dict(num_heads=heads * groups, kv_num_heads=heads)
    inputs = [real(batch, length, q), real(batch, length, k), real(batch, length, k)]
    if coin(0.3):
        inputs = [np.concatenate(inputs, 2), None, None]
    inputs += [real(batch, heads, rows, size), real(batch, heads, rows, size), lengths, np.array(past + length, np.int32)]
    for b, n in enumerate(lengths):
        inputs[3][b, :, n + 1 - length:] = inputs[4][b, :, n + 1 - length:] = 0
    aux = (6,)
    if coin():
        attrs.update(do_rotary=1, rotary_interleaved=flag())
        inputs += [real(10, size // 2), real(10, size // 2)]
        aux = tuple(k for k, a in enumerate(inputs) if a is not None and k not in (3, 4, 5))     # the size of a head must be known
    if coin(0.3):
        attrs["local_window_size"] = pick.randint(1, 3)
    if coin(0.3):
        attrs["softcap"] = 2.0
    microsoft("GroupQueryAttention", inputs, attrs, aux=aux, results=3)


def microsoft_rotations():
    batch, length, heads, size = *some(3, 1, 4), pick.choice([4, 8])
    x = real(batch, length, heads * size) if coin() else real(batch, heads, length, size)
    position = ints([pick.randint(0, 5)]) if coin() else whole(0, 10, batch, length, dtype=np.int64)
    turned = pick.choice([size, size // 2])
    attrs = dict(interleaved=flag(), **(dict(num_heads=heads, rotary_embedding_dim=turned) if turned < size or coin() else {}))
    microsoft("RotaryEmbedding", [x, position, real(10, turned // 2), real(10, turned // 2)], attrs, aux=(0, 2, 3))


def microsoft_blocks():
    """MatMulNBits and GatherBlockQuantized, whose blocks of weights have a scale and perhaps a zero point each."""
    bits, block = pick.choice([4, 8]), 16
    rows, columns, count = some(3, 1, 40)
    blocks, packed = -(-columns // block), 8 // bits
    scales = rng.uniform(0.001, 0.005, (rows, blocks)).astype(np.float32)
    zeros = [codes(np.uint8, rows, -(-blocks // packed))] if coin() else []
    if coin():
        inputs = [real(pick.randint(1, 3), count, columns), codes(np.uint8, rows, blocks, block // packed), scales] + zeros
        microsoft("MatMulNBits", inputs, dict(K=columns, N=rows, bits=bits, block_size=block), aux=(1, 2, 3)[:len(inputs) - 1])
        return
    columns += columns % packed
    inputs = [codes(np.uint8, rows, columns // packed), whole(0, rows, pick.randint(1, 3), 2), scales] + zeros
    microsoft("GatherBlockQuantized", inputs, dict(bits=bits, block_size=block), aux=(0, 2, 3)[:len(inputs) - 1])


def old_operators():
    """Operators of the standard's first opsets, which ONNX Runtime still has."""
    x = real(pick.randint(1, 3), 3, pick.randint(4, 7), pick.randint(4, 7))
    op = pick.choice(["Affine", "Scale", "ScaledTanh", "ParametricSoftplus", "Crop", "ImageScaler"])
    scale = round(pick.uniform(-2, 2), 2)
    attrs = {"Affine": dict(alpha=scale, beta=0.5), "Scale": dict(scale=scale), "ScaledTanh": dict(alpha=scale, beta=0.7),
             "ParametricSoftplus": dict(alpha=scale, beta=-0.7), "ImageScaler": dict(scale=scale, bias=[0.1, -0.2, 0.3]),
             "Crop": dict(border=some(4, 0, 2), **({"scale": some(2, 1, 2)} if coin() else {}))}
    case(op, [x], attrs[op], opset=7)


def inverses():
    order = pick.randint(1, 6)
    x = real(*some(pick.randint(0, 2), 1, 3), order, order)
    microsoft("Inverse", [x + 3 * np.eye(order, dtype=np.float32)[rng.permutation(order)]], {})


def grams():
    """TfIdfVectorizer with pools of n-grams of one to three elements."""
    tokens, longest = pick.randint(2, 4), pick.randint(1, 3)
    pool, starts, count = [], [], 0
    for length in range(1, longest + 1):
        starts.append(len(pool))
        every = np.stack(np.meshgrid(*[np.arange(tokens)] * length, indexing="ij"), -1).reshape(-1, length)
        chosen = rng.permutation(every)[:pick.randint(1, len(every))]
        pool += chosen.ravel().tolist()
        count += len(chosen)
    attrs = dict(mode=pick.choice(["TF", "IDF", "TFIDF"]), min_gram_length=pick.randint(1, longest), max_gram_length=longest,
                 max_skip_count=pick.randint(0, 3), ngram_counts=starts, ngram_indexes=rng.permutation(count).tolist(), pool_int64s=pool)
    if coin():
        attrs["weights"] = [round(float(w), 2) for w in rng.uniform(0.1, 3, count)]
    shape = [pick.randint(1, 3), pick.randint(1, 12)][0 if coin(0.7) else 1:]
    case("TfIdfVectorizer", [whole(0, tokens, *shape, dtype=pick.choice([np.int32, np.int64]))], attrs)


def grid_samples():
    """Points up to half the input's size outside of it, of which cubic sampling limits the taps alone."""
    batch, *sizes = some(3, 1, 3) + some(2, 2, 6)
    attrs = dict(mode=pick.choice(["linear", "nearest", "cubic"]), padding_mode=pick.choice(["zeros", "border", "reflection"]),
                 align_corners=flag())
    case("GridSample", [real(batch, 2, *sizes[2:]), rng.uniform(-2, 2, (batch, *sizes[:2], 2)).astype(np.float32)], attrs)


def transforms():
    """DFTs of lengths with small factors, with a large prime factor, prime, and given at run time, of operands that are longer or
    shorter."""
    length = pick.choice([1, 2, 3, 4, 63, 66, 81, 97, 100, 128, 210, 211, 221, 243, 254, 256, 307, 422])
    inverse, onesided = pick.choice([(0, 0), (0, 1), (1, 0), (1, 1)])
    parts = pick.choice([1, 2]) if inverse == onesided == 0 else 2 - onesided * (1 - inverse)
    shape, axis = some(pick.randint(1, 3), 1, 3), 0
    axis = pick.randrange(len(shape))
    given = coin() or inverse and onesided
    whole_axis = length // 2 + 1 if inverse and onesided else length
    shape[axis] = pick.choice([whole_axis, max(1, whole_axis - 5), whole_axis + 3]) if given else length
    x = real(*shape, parts, dtype=pick.choice([np.float32, np.float32, np.float64])) / 64  # errors are relative to the largest result

    def spectrum():
        z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        if inverse and onesided:
            return [np.fft.irfft(z, length, axis)[..., None].astype(x.dtype)]
        z = (np.fft.ifft if inverse else np.fft.fft)(z, length, axis)
        z = np.take(z, range(length // 2 + 1), axis) if onesided else z
        return [np.stack([z.real, z.imag], -1).astype(x.dtype)]

    at = np.array(axis - len(shape) - 1 if coin() else axis, np.int64)
    case("DFT", [x, np.array(length, np.int64) if given else None, at], dict(inverse=inverse, onesided=onesided), aux=(1, 2),
         oracle=spectrum, numbers=(len(shape),))


KINDS = [(reductions, 3), (empty_reductions, 1), (arg_reductions, 1), (tops, 2), (prefixes, 1), (matrix_products, 2), (gemms, 1),
         (einsums, 2), (convolutions, 2), (transposed_convolutions, 3), (pools, 4), (global_pools, 1),
         (normalizations, 2), (softmaxes, 1), (resizes, 6), (quantisations, 4), (microsoft_activations, 1), (microsoft_normalizations, 2),
         (microsoft_products, 2), (microsoft_quantised, 4), (microsoft_integer_products, 2), (microsoft_quantisations, 1),
         (microsoft_attentions, 4), (microsoft_square_masks, 1), (microsoft_grouped_attentions, 4), (microsoft_rotations, 1), (microsoft_blocks, 2),
         (old_operators, 1), (inverses, 1), (grams, 1), (grid_samples, 2), (transforms, 2)]

for kind, weight in KINDS:
    for _ in range(weight * COUNT):
        kind()

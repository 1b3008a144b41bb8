# SPDX-License-Identifier: Apache-2.0
"""Writes models and, for each, inputs and what they give, into a folder: model.py FOLDER. cnn.onnx: Conv, Relu,
Gemm with a dynamic batch; matmul.onnx: a product of two matrices of any size; unbounded.onnx: a size that a value
gives; large.onnx: a transposed matrix of weights. NAME.data: the inputs, then the output, as raw f32."""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder, rng = sys.argv[1], np.random.default_rng(1)


def save(name, nodes, inputs, output, constants, dtype=TensorProto.FLOAT):
    info = [helper.make_tensor_value_info(k, dtype, v) for k, v in inputs]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    graph = helper.make_graph(nodes, name, info, out, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, os.path.join(folder, name + ".onnx"))


def data(name, *arrays):
    with open(os.path.join(folder, name + ".data"), "wb") as f:
        for a in arrays:
            f.write(a.astype(np.float32).tobytes())


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def convolve(x, w, b):
    padded, y = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1))), 0
    for i in range(3):
        for j in range(3):
            y = y + np.einsum("nchw,oc->nohw", padded[:, :, i:i + 8, j:j + 8], w[:, :, i, j])
    return y + b[:, None, None]


filters, bias, weights = normal(8, 3, 3, 3) / 4, normal(8), normal(512, 10) / 16
save("cnn", [helper.make_node("Conv", ["x", "filters", "bias"], ["c"], "conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], "relu"),
             helper.make_node("Flatten", ["r"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "weights"], ["y"], "gemm")],
     [("x", ["batch", 3, 8, 8])], ["batch", 10], {"filters": filters, "bias": bias, "weights": weights})
scans = normal(5, 3, 8, 8)
data("cnn", scans, np.maximum(convolve(scans, filters, bias), 0).reshape(5, -1) @ weights.astype(np.float64))

save("matmul", [helper.make_node("MatMul", ["a", "b"], ["p"], "product"), helper.make_node("Softmax", ["p"], ["y"], "softmax")],
     [("a", ["m", "k"]), ("b", ["k", "n"])], ["m", "n"], {})
a, b = normal(23, 37), normal(37, 19)
e = np.exp(a.astype(np.float64) @ b)
data("matmul", a, b, e / e.sum(-1, keepdims=True))

large, x = normal(2051, 4333), normal(2, 4333)  # 34 MiB: more than package.c writes while C compilers run
save("large", [helper.make_node("Transpose", ["large"], ["t"], "transpose", perm=[1, 0]),
               helper.make_node("MatMul", ["x", "t"], ["y"], "product")], [("x", ["m", 4333])], ["m", 2051], {"large": large})
data("large", x, x.astype(np.float64) @ large.T.astype(np.float64))

save("unbounded", [helper.make_node("Range", ["zero", "x", "one"], ["r"], "range"),
                   helper.make_node("CumSum", ["r", "axis"], ["y"], "sums")], [("x", [])], None,
     {"zero": np.float32(0), "one": np.float32(1), "axis": np.int64(0)})

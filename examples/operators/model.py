# SPDX-License-Identifier: Apache-2.0
"""Writes model.onnx, which uses operators of the domain com.example, with input_0.pb and output_0.pb, which NumPy gives."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
scale, w = (rng.normal(size=s).astype(np.float32) for s in ((64,), (10, 64)))
nodes = [helper.make_node("ScaledSwish", ["x", "scale"], ["hidden"], "swish", domain="com.example", beta=1.5),
         helper.make_node("Cosines", ["hidden", "w"], ["y"], "cosines", domain="com.example")]
graph = helper.make_graph(nodes, "operators", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
                          [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(w, "w")])
model = helper.make_model(graph, producer_name="examples/operators/model.py", ir_version=8,
                          opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)])
onnx.save(model, os.path.join(folder, "model.onnx"))

x = rng.normal(size=(3, 64)).astype(np.float32)
hidden = scale * x / (1 + np.exp(-1.5 * x.astype(np.float64)))
y = (hidden / np.linalg.norm(hidden, axis=1, keepdims=True)) @ (w / np.linalg.norm(w, axis=1, keepdims=True)).T
for name, kind, value in (("x", "input", x), ("y", "output", y.astype(np.float32))):
    with open(os.path.join(folder, f"{kind}_0.pb"), "wb") as f:
        f.write(numpy_helper.from_array(value, name).SerializeToString())

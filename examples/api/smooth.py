# SPDX-License-Identifier: Apache-2.0
"""Writes smooth.onnx: a scan f32[N,1,8,8] in, the same blurred by a 3 x 3 binomial filter out."""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

line = np.array([1, 6, 1], np.float32) / 8
node = helper.make_node("Conv", ["scan", "filter"], ["blurred"], "blur", kernel_shape=[3, 3], pads=[1] * 4)
shape = ["N", 1, 8, 8]
graph = helper.make_graph([node], "smooth", [helper.make_tensor_value_info("scan", TensorProto.FLOAT, shape)],
                          [helper.make_tensor_value_info("blurred", TensorProto.FLOAT, shape)],
                          [numpy_helper.from_array(np.outer(line, line)[None, None], "filter")])
model = helper.make_model(graph, producer_name="examples/api/smooth.py", ir_version=8,
                          opset_imports=[helper.make_opsetid("", 17)])
onnx.checker.check_model(model, full_check=True)
onnx.save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "smooth.onnx"))

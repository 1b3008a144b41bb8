# SPDX-License-Identifier: Apache-2.0
"""ONNX's node cases with every dim of their inputs a symbol of its own.

    symbolic.py FOLDER OPS     OPS: a file with the names of supported ops, one a line

The data stay as they are, so the outputs are the same: nothing may hang on a size that only the test's input has.
Vectors of integers keep their length, which makes ranks."""

import os
import sys

import onnx
from onnx import TensorProto

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import cases  # noqa: E402

FOLDER, OPS = sys.argv[1:]

# ranks that hang on a dim, what numpy's generator makes, and what is no tensor of numbers
LEFT_OUT = ("test_gathernd_example", "test_training_dropout", "test_equal_string", "test_identity_opt",
            "test_identity_sequence")


def free_dims(model):
    constants = {i.name for i in model.graph.initializer}
    for k, value in enumerate(model.graph.input):
        t = value.type.tensor_type
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        if t.elem_type in (TensorProto.INT64, TensorProto.INT32) and len(t.shape.dim) <= 1:
            continue
        for j, d in enumerate(t.shape.dim):
            d.dim_param = f"d{k}_{j}"
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def main():
    with open(OPS) as f:
        supported = set(f.read().split()) | {"Constant"}
    for case in cases.index("", ["onnx"])["onnx"]:
        base = os.path.basename(case.name)
        if not base.startswith("test_") or base.startswith(LEFT_OUT) or not set(case.ops) <= supported:
            continue
        model = onnx.load(os.path.join(case.dir, "model.onnx"), load_external_data=False)
        free_dims(model)
        folder = os.path.join(FOLDER, base)
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        for data in os.listdir(case.dir):
            if data.startswith("test_data") and not os.path.exists(os.path.join(folder, data)):
                os.symlink(os.path.join(case.dir, data), os.path.join(folder, data))


main()

# SPDX-License-Identifier: Apache-2.0
"""ONNX's node cases with every dim of their inputs a symbol of its own.

    symbolic.py FOLDER OPS     OPS: a file with the names of supported ops, one a line

The data stay as they are, so the outputs are the same: nothing may hang on a size that only the test's input has.
Vectors of integers keep their length, which makes ranks. Cases of tests/excluded.txt are left out here, too."""

import fnmatch
import os
import sys

import onnx
from onnx import TensorProto

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import cases  # noqa: E402
import suites  # noqa: E402

# ranks that hang on a dim
LEFT_OUT = ("test_gathernd_example", "test_affine_grid_3d_align_corners_expanded", "test_affine_grid_3d_expanded",
            "test_scan_sum",                            # a state that grows in a batch
            "test_attention_4d_causal_fp16_expanded")   # rounds to f16 between its nodes, and its reference elsewhere

# Absolute tolerances of transforms: sums of 450, which a symbolic length makes in another order, with results that are 0.
ATOL = {"test_dft": "1e-4"}

# Operators with axes whose size must be a number (docs/ops.md).
FIXED = {"DFT": (-1,), "STFT": (-1,), "RotaryEmbedding": (-1,), "Det": (-1, -2), "CausalConvWithState": (0, 1), "LinearAttention": (-1,)}


def free_dims(model):
    constants = {i.name for i in model.graph.initializer}
    fixed = {axis for n in model.graph.node for axis in FIXED.get(n.op_type, ())}
    for k, value in enumerate(model.graph.input):
        t = value.type.tensor_type
        if value.name in constants or not value.type.HasField("tensor_type"):
            continue
        if t.elem_type in (TensorProto.INT64, TensorProto.INT32) and len(t.shape.dim) <= 1:
            continue
        rank = len(t.shape.dim)
        for j, d in enumerate(t.shape.dim):
            # a vector of one element serves a whole tensor, and one of unknown size an axis of it
            if d.dim_value != 1 or rank > 1:
                if not any(axis % rank == j for axis in fixed if axis < rank):
                    d.dim_param = f"d{k}_{j}"
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def symbolic_cases(ops):
    """(case, its model with symbolic dims) of ONNX's node cases all of whose operators are in the file OPS."""
    with open(ops) as f:
        supported = set(f.read().split()) | {"Constant"}
    excluded, left_out = [pattern for pattern, _ in suites.rows_of("excluded.txt")], 0
    for case in cases.index("", ["onnx"])["onnx"]:
        base = os.path.basename(case.name)
        if not base.startswith("test_") or not set(case.ops) <= supported:
            continue
        if base.startswith(LEFT_OUT) or any(fnmatch.fnmatch(f"onnx/{base}", pattern) for pattern in excluded):
            left_out += 1
            continue
        model = onnx.load(os.path.join(case.dir, "model.onnx"), load_external_data=False)
        free_dims(model)
        yield case, model
    print(f"{left_out} of ONNX's cases are left out: the reasons are in symbolic.py and excluded.txt")


def main():
    into, ops = sys.argv[1:]
    for case, model in symbolic_cases(ops):
        folder = os.path.join(into, os.path.basename(case.name))
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        for atol in (a for start, a in ATOL.items() if os.path.basename(folder).startswith(start)):
            with open(os.path.join(folder, "atol"), "w") as f:
                f.write(atol)
        for data in os.listdir(case.dir):
            if data.startswith("test_data") and not os.path.exists(os.path.join(folder, data)):
                os.symlink(os.path.join(case.dir, data), os.path.join(folder, data))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A model for each operator that broadcasts, with a data set for each pair of sizes N, M of 0, 1 and 3 that fit.

    cases.py FOLDER"""

import itertools
import os
import re
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

FOLDER = sys.argv[1]

# Operands' types with their dims, the nodes, what numpy says of them.
CASES = {
    "add": ("float[N,3] x, float[M,3] z", "y = Add(x, z)", lambda x, z: x + z),
    "add_empty_columns": ("float[2,N] x, float[2,M] z", "y = Add(x, z)", lambda x, z: x + z),
    "chain": ("float[N,3] x, float[M,3] z", "a = Add(x, z) b = Mul(a, x) c = Sub(z, b) y = Add(c, a)",
              lambda x, z: (z - (x + z) * x) + (x + z)),
    "where": ("bool[N,3] c, float[M,3] x, float[M,3] z", "y = Where(c, x, z)", np.where),
    "sum": ("float[N,3] x, float[M,3] z, float[1,3] w", "y = Sum(x, z, w)", lambda x, z, w: x + z + w),
    "three": ("float[N,3] x, float[M,3] z, float[K,3] w", "a = Add(x, z) b = Add(a, w) y = Mul(b, z)",
              lambda x, z, w: (x + z + w) * z),
    "expand": ("float[N,3] x, int64[2] s", "y = Expand(x, s)", lambda x, s: x * np.ones(s, np.float32)),
    "matmul": ("float[N,2,3] x, float[M,3,4] z", "y = MatMul(x, z)", np.matmul),
    "matmul_two": ("float[N,M,2,3] x, float[M,1,3,4] z", "y = MatMul(x, z)", np.matmul),
    "prelu": ("float[N,3] x, float[M,3] z", "y = PRelu(x, z)", lambda x, z: np.where(x < 0, x * z, x)),
    "less": ("float[N,1] x, float[M,3] z", "y = Less(x, z)", np.less),
}
DTYPES = {"float": np.float32, "bool": bool, "int64": np.int64}


def fits(a, b):
    return a == b or 1 in (a, b)


def operand(rng, kind, dims, sizes):
    if kind == "int64":
        return np.array([sizes["M"], 3], np.int64)
    shape = [sizes[d] if d in sizes else int(d) for d in dims.split(",")]
    return np.asarray(rng.integers(-3, 4, shape)).astype(DTYPES[kind])


def main():
    rng = np.random.default_rng(1)
    for name, (operands, nodes, result) in CASES.items():
        pairs = re.findall(r"(\w+)\[([^]]*)] (\w+)", operands)
        folder, sets = os.path.join(FOLDER, name), 0
        out = "bool" if name == "less" else "float"
        last = 4 if name == "matmul_two" else 3 if name == "matmul" else 2
        model = samples.model(f"{name} ({operands}) => ({out}[{','.join('abcd'[:last])}] y) {{ {nodes} }}")
        for n, m, k in itertools.product((0, 1, 3), (0, 1, 3), (0, 1, 3) if "K" in operands else (1,)):
            sizes = {"N": n, "M": m, "K": k}
            if not (fits(n, m) and fits(n, k) and fits(m, k)) or (name == "prelu" and m not in (1, n)):
                continue
            values = {v: operand(rng, kind, dims, sizes) for kind, dims, v in pairs}
            data = os.path.join(folder, f"test_data_set_{sets}")
            samples.tensors(data, "input", values)
            samples.tensors(data, "output", {"y": np.asarray(result(*values.values()))})
            sets += 1
        onnx.save(model, os.path.join(folder, "model.onnx"))


main()

# SPDX-License-Identifier: Apache-2.0
"""Products of f32 in matrix registers beside those in vectors: parts.py BUILD FOLDER SEED MODELS.

Each model has independent operators, whose decisions are edited so that all are computed by parts of f32, or all in vectors. Sums of
small integers are bit-equal, infinities and NaN are where vectors have them, and the error of other numbers is at most that of a sum of f32
in any order, also where blocks have numbers that do not fit (SplitOperand in ir/loop/loop.h). Prints "N passed, N failed, N skipped".
"""

import os
import random
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cpus")]
from targets import Cpu, save

BUILD, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
SEED, MODELS = int(sys.argv[3]), int(sys.argv[4])
EACH = 12  # operators of a model
SPECIAL = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan, "subnormal": 1e-40, "least": 1e-45, "tiny": 2.0 ** -49, "huge": 2.0 ** 49, "most": 3e38}
SCALES = {"faint": (-64, -64), "dim": (-115, 10), "vast": (62, 63)}  # powers of two, of both operands
KINDS = ("small", "real", "wide", *SPECIAL, *SCALES)


class Op:
    """A product or a convolution: the shapes of its operands; the second one may be a constant."""

    def __init__(self, pick, i):
        m, n, k = pick.randint(1, 70), pick.randint(9, 70), pick.randint(1, 100)
        self.constant, self.attributes, self.name = i % 3 != 2, {}, "MatMul"
        self.a, self.b, self.terms = (m, k), (k, n), k
        if i % 6 == 2:
            batch = pick.randint(2, 3)
            self.a, self.b = (batch, m, k), (batch, k, n)
        elif i % 4 == 3:
            side, kernel = pick.randint(3, 9), pick.choice((1, 1, 3))
            self.name, self.constant = "Conv", True
            self.attributes = {"pads": [kernel // 2] * 4, "strides": [pick.choice((1, 2))] * 2}
            self.a, self.b = (pick.randint(1, 2), k // kernel + 1, side, side + 2), (n, k // kernel + 1, kernel, kernel)
            self.terms = self.b[1] * kernel * kernel


def numbers(rng, shape, kind):
    if kind == "small":
        return rng.integers(-9, 10, shape).astype(np.float32)
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":
        x *= np.exp2(rng.integers(-20, 20, shape)).astype(np.float32)
        x[rng.random(shape) < 0.1] = 0
    return x


def operands(rng, op, kind, i):
    a, b = numbers(rng, op.a, kind), numbers(rng, op.b, kind)
    if kind in SCALES:
        return tuple(np.ldexp(x, e) for x, e in zip((a, b), SCALES[kind]))
    if kind in SPECIAL:  # one or a few elements of one operand or of both
        for x, some in ((a, i % 3 != 1), (b, i % 3 != 0)):
            if some:
                x[rng.random(x.shape) < 2 / x.size] = SPECIAL[kind]
                x.flat[rng.integers(x.size)] = SPECIAL[kind]
    return a, b


def proto(ops, pairs):
    nodes, inputs, outputs, constants = [], [], [], []
    for i, (op, (_, b)) in enumerate(zip(ops, pairs)):
        nodes.append(helper.make_node(op.name, [f"a{i}", f"b{i}"], [f"y{i}"], name=f"op{i}", **op.attributes))
        inputs.append(helper.make_tensor_value_info(f"a{i}", TensorProto.FLOAT, op.a))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None))
        if op.constant:
            constants.append(numpy_helper.from_array(b, f"b{i}"))
        else:
            inputs.append(helper.make_tensor_value_info(f"b{i}", TensorProto.FLOAT, op.b))
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def decisions(model):
    """The decisions on MODEL: all in vectors, and by parts where that is possible."""
    run = subprocess.run([f"{BUILD}/bin/dlcc", model, "--target=cpu:v4-amx", "--dump-ir=decide"], check=True, capture_output=True, text=True)
    vectors, parts = [], []
    for line in run.stdout.splitlines():
        found = re.search(r"product tile \d+x\d+ block \d+x(\d+)x\w+ pack (\S+) order \S+ (?:fetch \w+ )?parallel (\S+)", line)
        if not found:
            continue
        columns, packed, axes = found.groups()
        columns = -(-int(columns) // 32) * 32
        pack = {"none": "a", "b": "a,b"}.get(packed, packed) if "conv" in line.split()[0] else packed
        form = "product tile {} block 64x%dxall pack %s {}order n,m parallel %s" % (columns, pack, axes)
        vectors.append(line.replace(found.group(0), form.format("8x32", "")))
        parts.append(line.replace(found.group(0), form.format("32x32", "matrix ")))
    for name, lines in (("vectors", vectors), ("parts", parts)):
        with open(f"{FOLDER}/{name}", "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))
    return len(parts)


def is_right(kind, got, vectors, op, a, b):
    """GOT is right where VECTORS is: the same of small integers; else the same infinities and NaN, and near the number."""
    if got.shape != vectors.shape or kind == "small":
        return np.array_equal(got, vectors)
    finite = np.isfinite(vectors)
    with np.errstate(all="ignore"):
        error, size = abs(got - op_value(op, a, b)), op_value(op, abs(a), abs(b))
    return np.array_equal(got[~finite], vectors[~finite], equal_nan=True) and \
        bool((error <= 2 * (op.terms + 2) * (2.0 ** -24 * size + 2.0 ** -149))[finite].all())


def op_value(op, a, b):
    """The operator in f64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if op.name == "MatMul":
        return a @ b
    pad, step, side = op.attributes["pads"][0], op.attributes["strides"][0], b.shape[2]
    a = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(a, (side, side), (2, 3))[:, :, ::step, ::step]
    return np.einsum("bcyxhw,nchw->bnyx", windows, b)


def main():
    flags = open("/proc/cpuinfo", encoding="utf-8").read() if os.path.exists("/proc/cpuinfo") else ""
    cpus = [Cpu(BUILD, FOLDER, "v4-amx", options=["--cc=cc -DDL_PORTABLE_DOT"])] if " avx512vl " in flags else []
    cpus += [Cpu(BUILD, FOLDER, "v4-amx", options=o) for o in ([], ["--cc=cc"])] if " amx_bf16 " in flags else []
    passed = failed = 0
    for m in range(MODELS if cpus else 0):
        for k, kind in enumerate(KINDS):
            rng, pick = np.random.default_rng([SEED, m, k]), random.Random(f"{SEED} {m} {k}")
            ops = [Op(pick, i) for i in range(EACH)]
            pairs = [operands(rng, op, kind, i) for i, op in enumerate(ops)]
            model, cases = f"{FOLDER}/{m}.{kind}.onnx", f"{FOLDER}/{m}.{kind}.in"
            onnx.save(proto(ops, pairs), model)
            save(cases, [x for op, (a, b) in zip(ops, pairs) for x in ([a] if op.constant else [a, b])])
            many = decisions(model)
            ok = many >= EACH - 2
            cpus[-1].compile(model, f"{FOLDER}/vectors.so", [f"--schedule={FOLDER}/vectors"])
            vectors = cpus[-1].results(f"{FOLDER}/vectors.so", cases)
            passed, failed = passed + ok, failed + (not ok)
            if not ok:
                print(f"FAIL: only {many} of {EACH} operators of {kind} are products")
            for cpu in cpus[:1] + cpus[1 + (m + k) % 2:][:1]:
                cpu.compile(model, f"{FOLDER}/parts.so", [f"--schedule={FOLDER}/parts"])
                for i, (got, want, op, (a, b)) in enumerate(zip(cpu.results(f"{FOLDER}/parts.so", cases), vectors, ops, pairs)):
                    right = is_right(kind, got, want, op, a, b)
                    passed, failed = passed + right, failed + (not right)
                    if not right and failed < 20:
                        print(f"FAIL: {' '.join(cpu.options) or 'the default'}: {op.name} {op.a} by {op.b} of {kind}, constant {op.constant}")
    print(f"{passed} passed, {failed} failed, {0 if cpus else 1} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

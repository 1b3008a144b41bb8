# SPDX-License-Identifier: Apache-2.0
"""Random graphs whose description says that elements along a size are computed independently (DL_SYM_INDEPENDENT): each element by
itself gives what it gives in the batch.

    test_batch.py BUILD FOLDER FIRST COUNT     # the graphs of these seeds; prints "N passed, N failed"

A graph that no batch runs through counts as neither. Where a graph fails, its folder stays as FOLDER/SEED, and the message names it."""

import os
import subprocess
import sys

import numpy as np
import onnx.parser
from onnx import numpy_helper

BUILD, FOLDER, FIRST, COUNT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["PATH"] = os.path.join(BUILD, "bin") + os.pathsep + os.environ["PATH"]
import dlcc  # noqa: E402

TOLERANCE = 1e-3  # sums of other sizes are added in another order
LEAST = 2         # elements of a batch that tells something


def inputs_of(folder, description):
    """The inputs of the model by name; None if one is not a tensor."""
    found = {}
    for i, io in enumerate(description.inputs):
        path = os.path.join(folder, f"input_{i}.pb")
        if io.form != "tensor" or not os.path.exists(path):
            return None
        proto = onnx.TensorProto()
        with open(path, "rb") as f:
            proto.ParseFromString(f.read())
        found[io.name] = numpy_helper.to_array(proto)
    return found


def axis_of(io, symbol):
    """The dim of IO with the size SYMBOL, whose name dims have in quotes if it is not a word; None: it has none."""
    return next((k for k, d in enumerate(io.dims) if d == symbol or (isinstance(d, str) and d.startswith('$"') and symbol in d)), None)


def part(array, axis, b):
    return array if axis is None else np.ascontiguousarray(array.take([b], axis))


def is_near(a, b):
    if a.dtype == object or a.dtype.kind in "USb":
        return np.array_equal(a, b)
    if a.shape != b.shape:
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    bad = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= TOLERANCE * (1 + np.abs(x))))
    return not bad.any() or (a.dtype.kind in "iu" and bad.mean() < 0.02 and np.abs(x - y).max() <= 1)  # rounded from floats


def faults_of(model, symbol, inputs):
    """The difference when the elements along SYMBOL run one by one; None: the batch has too few."""
    description = model.describe()
    sizes = {inputs[io.name].shape[axis_of(io, symbol)] for io in description.inputs if axis_of(io, symbol) is not None}
    if len(sizes) != 1 or min(sizes) < LEAST:
        return None
    n = sizes.pop()
    try:
        whole = model.run(inputs)
    except dlcc.RunError:  # an index that is out of range, for example
        return None
    for b in range(n):
        one = model.run({io.name: part(inputs[io.name], axis_of(io, symbol), b) for io in description.inputs})
        for io in description.outputs:
            expected = part(np.asarray(whole[io.name]), axis_of(io, symbol), b)
            if not is_near(expected, np.asarray(one[io.name])):
                return f'output "{io.name}" of element {b} along {symbol} depends on the others'
    return ""


def positions():
    """The faults of the model of tests/passes/batch/positions.onnxtxt."""
    with open(os.path.join(ROOT, "tests", "passes", "batch", "positions.onnxtxt"), encoding="utf-8") as f:
        text = "".join(line for line in f.read().split("; ----")[0].splitlines() if not line.startswith(";"))
    rng = np.random.default_rng(1)
    with dlcc.compile(onnx.parser.parse_model(text), level=1) as model:
        description = model.describe()
        shapes = {io.name: [d if isinstance(d, int) else 5 if d == "seq" else 3 for d in io.dims] for io in description.inputs}
        inputs = {io.name: rng.integers(0, 99, shapes[io.name]).astype({"i64": np.int64, "f32": np.float32}[io.dtype]) for io in description.inputs}
        return [faults_of(model, s.name, inputs) for s in description.symbols if s.independent]


def main():
    subprocess.run([sys.executable, os.path.join(ROOT, "tests", "fuzz_graphs", "fuzz.py"), BUILD, FOLDER, str(FIRST), str(COUNT), "--only=write"],
                   check=True, stdout=subprocess.DEVNULL)
    passed = failed = skipped = 0
    for seed in range(FIRST, FIRST + COUNT):
        folder = os.path.join(FOLDER, str(seed))
        path = os.path.join(folder, "model.onnx")
        if not os.path.exists(path):
            continue
        printed = subprocess.run([os.path.join(BUILD, "bin", "dlcc"), path, "--dump-ir=batch"], capture_output=True, errors="replace", check=False).stdout
        if printed.rstrip().endswith("independent:") or "independent" not in printed:
            skipped += 1  # without a compile
            continue
        with dlcc.compile(path, level=1, options=["-Wno-shape"]) as model:
            found = [faults_of(model, s.name, inputs) for s in model.describe().symbols if s.independent
                     for data in sorted(os.listdir(folder)) if data.startswith("test_data_set")
                     for inputs in [inputs_of(os.path.join(folder, data), model.describe())] if inputs]
        for fault in found:
            if fault:
                failed += 1
                print(f"FAIL: {folder}: {fault}")
            elif fault == "":
                passed += 1
    for fault in positions():
        passed, failed = passed + (fault == ""), failed + (fault != "")
        if fault != "":
            print(f"FAIL: positions: {fault}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

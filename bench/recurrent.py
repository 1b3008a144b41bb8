#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dlcc with ONNX Runtime on LSTM and GRU, on one thread.

    bench/recurrent.py [--dynamic] [--target T] [--seconds S] [--json FILE] [PATTERN ...]

A case is OPERATOR-DIRECTION-hHIDDEN-sSEQUENCE-bBATCH, such as LSTM-forward-h256-s50-b16; PATTERN selects cases ("GRU-*-b1").
Inputs have as many features as there are hidden units, and the weights are random. One artifact of each operator, direction and
hidden size serves all sequences; the batch is a number, or with --dynamic a symbol. Both engines run in turn in this process and
are timed by the processor's time of this thread, so that other programs on the machine disturb little. Their outputs must agree.
The last line has the geometric means of ONNX Runtime's time / dlcc's.
"""
import argparse
import ctypes
import fnmatch
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
GATES = {"LSTM": 4, "GRU": 3}
SIZES = [64, 256, 1024], [1, 50, 500], [1, 16]


def cases(patterns):
    """(operator, direction, hidden, batch) and the sequences, of those that PATTERNS select."""
    for key in itertools.product(GATES, ("forward", "bidirectional"), SIZES[0], SIZES[2]):
        named = {s: "{}-{}-h{}-s{s}-b{}".format(*key, s=s) for s in SIZES[1]}
        chosen = {s: n for s, n in named.items() if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)}
        if chosen:
            yield key, chosen


def make_model(operator, direction, hidden, batch):
    rng, dirs, gates = np.random.default_rng(0), 1 + (direction == "bidirectional"), GATES[operator]
    bound = 1 / math.sqrt(hidden)
    weights = {"w": (dirs, gates * hidden, hidden), "r": (dirs, gates * hidden, hidden), "b": (dirs, 2 * gates * hidden)}
    outputs = ["y", "y_h"] + ["y_c"] * (operator == "LSTM")
    more = {"linear_before_reset": 1} if operator == "GRU" else {}  # as PyTorch exports it
    node = helper.make_node(operator, ["x", *weights], outputs, operator.lower(), hidden_size=hidden, direction=direction, **more)
    shapes = {"y": ["seq", dirs, batch, hidden], "y_h": [dirs, batch, hidden], "y_c": [dirs, batch, hidden]}
    info = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [node], "recurrent", [info("x", ["seq", batch, hidden])], [info(o, shapes[o]) for o in outputs],
        [numpy_helper.from_array(rng.uniform(-bound, bound, shape).astype(np.float32), name) for name, shape in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def ours(model, feed, outputs):
    """A function that runs MODEL with prepared tensors."""
    from dlcc import abi, tensors

    keep = []

    def filled(ios, arrays, borrow):
        found = (abi.Tensor * len(ios))()
        for tensor, io in zip(found, ios):
            keep.append((arrays[io.name], borrow(arrays[io.name], io, tensor)))
        return found

    described, library = model.describe(), model._library
    ins = filled(described.inputs, feed, lambda a, io, t: tensors.fill_value(t, io, a, io.name))
    outs = filled(described.outputs, outputs, lambda a, io, t: tensors.borrow_output(a, io.name).fill(t))
    context, run, arguments = library.take(), library.api.run, (ins, len(ins), outs, len(outs), None)

    def call():
        assert not run(context, *arguments), library.fail(1, context)
        return keep
    return call


def theirs(session, feed, outputs):
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def repeated(call, times):
    """The seconds of one call, by the time of this thread."""
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times


def times(calls, seconds):
    """The median seconds of each of CALLS, which take turns."""
    counts = [max(1, int(2e-3 / max(min(repeated(c, 1) for _ in range(3)), 1e-7))) for c in calls]
    found, end = [[] for _ in calls], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found[0]) < 5:
        for call, count, column in zip(calls, counts, found):
            column.append(repeated(call, count))
    return [statistics.median(column) for column in found]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", nargs="*", metavar="PATTERN")
    ap.add_argument("--dynamic", action="store_true")
    ap.add_argument("--target")
    ap.add_argument("--seconds", type=float, default=1.0)
    ap.add_argument("--json")
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    a = ap.parse_args()
    os.environ["PATH"] = os.path.join(os.path.abspath(a.build), "bin") + os.pathsep + os.environ["PATH"]
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import dlcc
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    rows = []
    print("| case | dlcc µs | ORT µs | ORT / dlcc |\n|---|---:|---:|---:|")
    for key, sequences in cases(a.cases):
        operator, direction, hidden, batch = key
        proto = make_model(operator, direction, hidden, "batch" if a.dynamic else batch)
        model = dlcc.compile(proto, target=a.target, threads=1)
        session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        dirs = 1 + (direction == "bidirectional")
        for seq, name in sequences.items():
            feed = {"x": np.random.default_rng(1).standard_normal((seq, batch, hidden)).astype(np.float32)}
            shapes = {o.name: (seq, dirs, batch, hidden) if o.name == "y" else (dirs, batch, hidden) for o in model.describe().outputs}
            results = [{o: np.zeros(s, np.float32) for o, s in shapes.items()} for _ in range(2)]
            calls = ours(model, feed, results[0]), theirs(session, feed, results[1])
            mine, peer = times(calls, a.seconds)
            for o in shapes:
                np.testing.assert_allclose(results[0][o], results[1][o], rtol=1e-3, atol=1e-4, err_msg=name)
            rows.append({"case": name, "dlcc_us": 1e6 * mine, "ort_us": 1e6 * peer})
            print(f"| {name} | {1e6 * mine:.1f} | {1e6 * peer:.1f} | {peer / mine:.2f} |", flush=True)
        model.close()
    mean = lambda part: math.exp(statistics.mean(math.log(r["ort_us"] / r["dlcc_us"]) for r in part))
    groups = {"all": rows, **{g: [r for r in rows if g in r["case"].split("-")] for g in
              ("LSTM", "GRU", "forward", "bidirectional", *(f"{c}{n}" for c, of in zip("hsb", SIZES) for n in of))}}
    print("geometric means:", ", ".join(f"{g} {mean(part):.2f}" for g, part in groups.items() if part))
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"date": time.strftime("%Y-%m-%d"), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()

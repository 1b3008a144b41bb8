#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dlcc with ONNX Runtime on single operators, on one thread.

    bench/operators.py [--build BUILD] [--dlcc DLCC] [--target TARGET] [--seconds S] [--rounds N] [PATTERN ...]

PATTERN selects cases by name ("TopK*"). A model of one operator, or of a few that models have together, gets random inputs of the sizes
that networks have. What is slower by a large factor here is slow in any model that has it. Both engines run on the same inputs, in
turns, dlcc in a process of its own. The numbers are the least of all runs, which other programs on the machine change less than medians.
Prints a table, the worst ratio first, in Markdown. Values are not compared: tests/ does that.
"""
import argparse
import fnmatch
import json
import math
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
F, I64, U8 = np.float32, np.int64, np.uint8
RANDOM = np.random.default_rng(3)


def ints(*v):
    return np.array(v, I64)


def whole(most, *shape):
    return RANDOM.integers(0, most, shape)


def real(*shape):
    return RANDOM.standard_normal(shape).astype(F)


def boxes(count):
    """Corners of boxes of up to 60 in an image of 600, [1, count, 4]."""
    at, size = RANDOM.random((1, count, 2)) * 600, RANDOM.random((1, count, 2)) * 60
    return np.concatenate([at - size / 2, at + size / 2], 2).astype(F)


# (operator, what is in its name beside it, shapes or values of the inputs, constants, attributes)
IMAGE, ROWS = [1, 64, 56, 56], [512, 1024]
CASES = [
    *(("Transpose", f"{'x'.join(map(str, s))}-{''.join(map(str, p))}", [s], [], {"perm": p}) for s, p in (
        ([1024, 1024], [1, 0]), ([1, 64, 112, 112], [0, 2, 3, 1]), ([1, 112, 112, 64], [0, 3, 1, 2]), ([1, 224, 224, 3], [0, 3, 1, 2]),
        ([1, 128, 12, 64], [0, 2, 1, 3]), ([1, 12, 128, 64], [0, 1, 3, 2]))),
    ("Concat", "channels", [IMAGE, IMAGE], [], {"axis": 1}), ("Concat", "last", [[64, 56, 56]] * 2, [], {"axis": 2}),
    ("Slice", "step", [[1, 64, 112, 112]], [ints(1), ints(111), ints(3), ints(2)], {}), ("Slice", "reverse", [ROWS], [ints(-1), ints(-9999), ints(1), ints(-1)], {}),
    ("Pad", "constant", [IMAGE], [ints(0, 0, 1, 1, 0, 0, 1, 1)], {}), ("Pad", "reflect", [IMAGE], [ints(0, 0, 1, 1, 0, 0, 1, 1)], {"mode": "reflect"}),
    ("Tile", "", [[1, 64, 28, 28]], [ints(1, 1, 2, 2)], {}), ("Expand", "", [[1, 256, 1, 1]], [ints(1, 256, 56, 56)], {}),
    ("Gather", "rows", [[30000, 768]], [whole(30000, 128)], {"axis": 0}), ("Gather", "last", [[512, 768]], [whole(768, 300)], {"axis": 1}),
    ("GatherElements", "", [[1000, 128]], [whole(1000, 300, 128)], {}), ("GatherND", "", [[100, 50, 64]], [whole(50, 400, 2)], {}),
    ("ScatterND", "", [[1000, 128]], [whole(1000, 250, 1), real(250, 128)], {}), ("ScatterElements", "", [[1000, 128]], [whole(1000, 300, 128), real(300, 128)], {}),
    ("DepthToSpace", "", [IMAGE], [], {"blocksize": 2}), ("SpaceToDepth", "", [IMAGE], [], {"blocksize": 2}),
    *((op, f"axis{a}", [[64, 128, 256]], [ints(a)], {"keepdims": 0}) for op in ("ReduceSum", "ReduceMax") for a in (0, 1, 2)),
    ("ReduceMean", "image", [[1, 256, 56, 56]], [ints(2, 3)], {}), ("ReduceSum", "all", [ROWS], [], {}), ("ReduceLogSumExp", "", [[128, 1000]], [ints(1)], {}),
    ("ReduceL2", "", [[128, 768]], [ints(1)], {}), ("ArgMax", "last", [[128, 1000]], [], {"axis": 1}), ("ArgMax", "channels", [[1, 21, 128, 128]], [], {"axis": 1}),
    ("CumSum", "last", [[128, 1024]], [np.array(1, I64)], {}), ("CumSum", "first", [[1024, 128]], [np.array(0, I64)], {}),
    ("TopK", "10-of-1000", [[100, 1000]], [ints(10)], {}), ("TopK", "100-of-50000", [[1, 50000]], [ints(100)], {}), ("TopK", "all-of-1000", [[100, 1000]], [ints(1000)], {}),
    ("Unique", "", [[20000]], [], {}), ("NonZero", "", [[256, 1024]], [], {}),
    ("NonMaxSuppression", "1000", [boxes(1000), RANDOM.random((1, 1, 1000)).astype(F)], [ints(100), np.array([.5], F), np.array([.3], F)], {}),
    ("NonMaxSuppression", "10x2000", [boxes(2000), RANDOM.random((1, 10, 2000)).astype(F)], [ints(50), np.array([.5], F), np.array([.5], F)], {}),
    ("Softmax", "last", [[12, 128, 128]], [], {}), ("Softmax", "short", [[10000, 10]], [], {}), ("Softmax", "channels", [[8, 21, 64, 64]], [], {"axis": 1}),
    ("LogSoftmax", "words", [[16, 32000]], [], {}), ("LayerNormalization", "", [[128, 768]], [real(768), real(768)], {}),
    ("InstanceNormalization", "", [IMAGE], [real(64), real(64)], {}), ("GroupNormalization", "", [IMAGE], [real(64), real(64)], {"num_groups": 8}),
    ("LRN", "", [IMAGE], [], {"size": 5}),
    *((op, "", [ROWS], [], {}) for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Gelu", "HardSwish", "Softplus", "Mish", "Sin", "Round", "Reciprocal")),
    *((op, "", [ROWS, ROWS], [], {}) for op in ("Add", "Div", "Max")), ("Add", "row", [ROWS, [1024]], [], {}), ("Add", "column", [ROWS, [512, 1]], [], {}),
    ("Clip", "", [ROWS], [np.array(0, F), np.array(6, F)], {}), ("Pow", "2", [ROWS], [np.array(2, F)], {}), ("Mod", "", [ROWS, ROWS], [], {"fmod": 1}),
    ("Cast", "f16", [ROWS], [], {"to": TensorProto.FLOAT16}), ("Cast", "i64", [ROWS], [], {"to": TensorProto.INT64}), ("Cast", "u8", [ROWS], [], {"to": TensorProto.UINT8}),
    ("Div", "i64", [whole(1000, *ROWS)], [np.array(7, I64)], {}), ("Trilu", "", [[512, 512]], [], {}),
    ("MaxPool", "3x3s2", [[1, 64, 112, 112]], [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("AveragePool", "3x3", [[1, 128, 28, 28]], [], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    ("GlobalAveragePool", "", [[1, 512, 7, 7]], [], {}), ("GlobalMaxPool", "", [[1, 256, 14, 14]], [], {}),
    *(("Resize", mode, [[1, 64, 28, 28]], [None, np.array([1, 1, 2, 2], F)], {"mode": mode}) for mode in ("nearest", "linear", "cubic")),
    ("RoiAlign", "", [[1, 64, 50, 50]], [boxes(100)[0] / 4, np.zeros(100, I64)], {"output_height": 7, "output_width": 7, "sampling_ratio": 2, "spatial_scale": 0.25}),
    ("GridSample", "", [[1, 32, 64, 64], np.clip(real(1, 64, 64, 2), -1, 1)], [], {}), ("DFT", "", [[1, 1024, 1]], [], {}),
    ("MatMul", "512", [[512, 512]] * 2, [], {}), ("MatMul", "heads", [[12, 128, 64], [12, 64, 128]], [], {}), ("MatMul", "row", [[1, 4096]], [real(4096, 1024)], {}),
    ("Gemm", "transA", [[512, 256], [512, 384]], [], {"transA": 1}), ("Einsum", "heads", [[1, 128, 12, 64]] * 2, [], {"equation": "bqhd,bkhd->bhqk"}),
    *(("Conv", name, [x], [real(*w)], a) for name, x, w, a in (
        ("1d", [1, 64, 1000], [64, 64, 3], {"pads": [1, 1]}), ("3d", [1, 16, 16, 28, 28], [16, 16, 3, 3, 3], {"pads": [1] * 6}),
        ("1x1", IMAGE, [256, 64, 1, 1], {}), ("first", [1, 3, 224, 224], [32, 3, 3, 3], {"pads": [1] * 4, "strides": [2, 2]}),
        ("depthwise", [1, 128, 56, 56], [128, 1, 3, 3], {"pads": [1] * 4, "group": 128}), ("groups", [1, 128, 28, 28], [128, 4, 3, 3], {"pads": [1] * 4, "group": 32}),
        ("dilated", [1, 64, 28, 28], [64, 64, 3, 3], {"pads": [2] * 4, "dilations": [2, 2]}), ("last", [1, 64, 128, 128], [3, 64, 3, 3], {"pads": [1] * 4}))),
    ("ConvTranspose", "4x4s2", [[1, 64, 32, 32]], [real(64, 32, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}), ("ConvTranspose", "2x2s2", [IMAGE], [real(64, 32, 2, 2)], {"strides": [2, 2]}),
    *((op, "", [[64, 1, 128]], [real(1, g * 128, 128) / 8, real(1, g * 128, 128) / 8], {"hidden_size": 128}) for op, g in (("LSTM", 4), ("GRU", 3))),
]
TOGETHER = {
    "embedding bag": ("g (float[64, 32] x) => (float[64, 32] y) { e = Gather(w, i) b = ReduceSum<keepdims = 0>(e, one) y = Add(b, x) }",
                      {"w": real(100000, 32), "i": whole(100000, 64, 20), "one": ints(1)}),
    "image to planes": ("g (uint8[1, 224, 224, 3] x) => (float[1, 3, 224, 224] y) { a = Cast<to = 1>(x) b = Transpose<perm = [0, 3, 1, 2]>(a) c = Sub(b, m) y = Div(c, d) }",
                        {"m": real(1, 3, 1, 1), "d": real(1, 3, 1, 1)}),
    "boxes of a detector": ("g (float[1, 255, 52, 52] x) => (float[1, 3, 52, 52, 85] y) { a = Reshape(x, s) b = Transpose<perm = [0, 1, 3, 4, 2]>(a) y = Sigmoid(b) }",
                            {"s": ints(1, 3, 85, 52, 52)}),
    "rotary positions": ("g (float[1, 14, 128, 64] x) => (float[1, 14, 128, 64] y) { a, b = Split<axis = 3, num_outputs = 2>(x) n = Neg(b) r = Concat<axis = 3>(n, a)"
                         " p = Mul(x, c) q = Mul(r, s) y = Add(p, q) }", {"c": real(1, 1, 128, 64), "s": real(1, 1, 128, 64)}),
    **{f"grouped 3x3 {c} of {g} at {s}{' s2' if st == 2 else ''}": (
        f"g (float[1, 32, {s}, {s}] x) => (float[1, 32, {s // st}, {s // st}] y) {{ a = Conv(x, v) b = Conv<group = {g}, pads = [1, 1, 1, 1], strides = [{st}, {st}]>(a, w)"
        " c = Relu(b) y = Conv(c, u) }", {"v": real(c, 32, 1, 1), "w": real(c, c // g, 3, 3), "u": real(32, c, 1, 1)})
        for c, g, s, st in ((128, 32, 56, 1), (128, 16, 56, 1), (256, 32, 56, 2), (512, 32, 14, 1), (1024, 32, 7, 1))},
    **{f"1x1, {between}, depthwise s2": (
        f"g (float[1, 16, 56, 56] x) => (float[1, 72, 28, 28] y) {{ a = Conv(x, v) b = Relu(a) {text} y = Conv<group = 72, strides = [2, 2]>(c, w) }}",
        {"v": real(72, 16, 1, 1), "w": real(72, 1, 3, 3), **given})
        for between, text, given in (
            ("pad", "c = Pad(b, p)", {"p": ints(0, 0, 0, 0, 0, 0, 1, 1)}),
            ("pad in NHWC", "t = Transpose<perm = [0, 2, 3, 1]>(b) q = Pad(t, p) c = Transpose<perm = [0, 3, 1, 2]>(q)", {"p": ints(0, 0, 0, 0, 0, 1, 1, 0)}),
            ("split pads", "i, j = Split<axis = 0, num_outputs = 2>(p) o = Concat<axis = 0>(j, i) c = Pad(b, o)", {"p": ints(0, 0, 1, 1, 0, 0, 0, 0)}))},
    "1x1, depthwise 160": ("g (float[1, 16, 160, 160] x) => (float[1, 96, 160, 160] y) { a = Conv(x, v) b = Relu(a) y = Conv<group = 96, pads = [1, 1, 1, 1]>(b, w) }",
                           {"v": real(96, 16, 1, 1), "w": real(96, 1, 3, 3)}),
    "1x1, depthwise 64 to 128": ("g (float[1, 32, 56, 56] x) => (float[1, 32, 56, 56] y) { a = Conv(x, v) b = Conv<group = 64, pads = [1, 1, 1, 1]>(a, w) y = Conv(b, u) }",
                                 {"v": real(64, 32, 1, 1), "w": real(128, 1, 3, 3), "u": real(32, 128, 1, 1)}),
    **{f"dilated {d} at {s}": (
        f"g (float[1, 32, {s}, {s}] x) => (float[1, 32, {s}, {s}] y) {{ a = Conv(x, v) b = Conv<pads = [{d}, {d}, {d}, {d}], dilations = [{d}, {d}]>(a, w) y = Conv(b, u) }}",
        {"v": real(64, 32, 1, 1), "w": real(64, 64, 3, 3), "u": real(32, 64, 1, 1)}) for d, s in ((6, 32), (24, 32), (12, 12))},
    "deformed 3x3": ("g (float[1, 32, 24, 32] x) => (float[1, 32, 24, 32] y) { a = Conv(x, v) o = Conv<pads = [1, 1, 1, 1]>(a, f) y = DeformConv<pads = [1, 1, 1, 1]>(a, w, o) }",
                     {"v": real(32, 32, 1, 1) / 6, "f": real(18, 32, 3, 3) / 20, "w": real(32, 32, 3, 3)}),
    "samples of a grid": ("g (float[1, 32, 64, 64] x) => (float[1, 32, 64, 64] y) { a = Conv(x, v) b = GridSample(a, r) y = Conv(b, v) }",
                          {"v": real(32, 32, 1, 1) / 6, "r": np.clip(real(1, 64, 64, 2), -1, 1)}),
    "samples of boxes": ("g (float[1, 64, 50, 50] x) => (float[100, 64, 7, 7] y) { a = Conv(x, v) b = RoiAlign<output_height = 7, output_width = 7,"
                         " sampling_ratio = 2, spatial_scale = 0.25>(a, r, n) y = Conv(b, v) }",
                         {"v": real(64, 64, 1, 1) / 8, "r": boxes(100)[0] / 4, "n": np.zeros(100, I64)}),
    **{f"attention, heads of {d}": (
        f"g (float[1, 8, 768, {d}] x) => (float[1, 8, 768, {d}] y) {{ t = Transpose<perm = [0, 1, 3, 2]>(x) a = MatMul(x, t) b = Mul(a, c) p = Softmax(b) y = MatMul(p, x) }}",
        {"c": np.array(.25, F)}) for d in (4, 16)},
    "upscale to 192": ("g (float[1, 21, 12, 12] x) => (float[1, 21, 192, 192] y) { y = Resize<mode = \"linear\">(x, , , s) }", {"s": ints(1, 21, 192, 192)}),
    "distances to rows": ("g (float[64, 12] x) => (float[64, 315] y) { a = Unsqueeze(x, one) b = Sub(a, v) c = Mul(b, b) d = ReduceSum<keepdims = 0>(c, two) e = Neg(d) y = Exp(e) }",
                          {"v": real(1, 315, 12), "one": ints(1), "two": ints(2)}),
    "channel shuffle": ("g (float[1, 116, 28, 28] x) => (float[1, 116, 28, 28] y) { a = Reshape(x, s) b = Transpose<perm = [0, 2, 1, 3, 4]>(a) y = Reshape(b, t) }",
                        {"s": ints(1, 2, 58, 28, 28), "t": ints(1, 116, 28, 28)}),
}


def save(graph, path):
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def models(patterns, folder):
    """(name, path, inputs) of each chosen case, whose model is written to FOLDER."""
    chosen = lambda name: not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)
    for op, more, inputs, constants, attributes in CASES:
        name, path = f"{op} {more}".strip(), os.path.join(folder, f"{op}-{more}.onnx")
        if not chosen(name):
            continue
        feeds = {f"x{i}": a if isinstance(a, np.ndarray) else real(*a) for i, a in enumerate(inputs)}
        given = {f"c{i}": a for i, a in enumerate(constants) if a is not None}
        names = [*feeds, *(f"c{i}" if a is not None else "" for i, a in enumerate(constants))]
        outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(2 if op == "TopK" else 1)]
        info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
        node = helper.make_node(op, names, [o.name for o in outputs], **attributes)
        save(helper.make_graph([node], "g", info, outputs, [numpy_helper.from_array(a, n) for n, a in given.items()]), path)
        yield name, path, feeds
    for name, (text, given) in TOGETHER.items():
        path = os.path.join(folder, name.replace(" ", "-") + ".onnx")
        if not chosen(name):
            continue
        graph = onnx.parser.parse_graph(text)
        graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in given.items())
        save(graph, path)
        x = graph.input[0].type.tensor_type
        shape = [d.dim_value for d in x.shape.dim]
        yield name, path, {"x": whole(256, *shape).astype(U8) if x.elem_type == TensorProto.UINT8 else real(*shape)}


def peer_runs(path, feeds):
    """A function that runs ONNX Runtime once."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()
    for name, a in feeds.items():
        bound.bind_cpu_input(name, a)
    for o in session.get_outputs():
        bound.bind_output(o.name)
    return lambda: session.run_with_iobinding(bound)


def peer_ms(run, seconds):
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter_ns()
        run()
        times.append((time.perf_counter_ns() - begin) / 1e6)
    return min(times)


def dlcc_command(o, path, feeds, folder):
    """The command that runs dlcc's model of PATH for o.seconds."""
    so, inputs = path[:-4] + "so", []
    subprocess.run([o.dlcc or os.path.join(o.build, "bin", "dlcc"), path, "-o", so, *([f"--target={o.target}"] if o.target else [])], check=True, capture_output=True, text=True)
    for name, a in feeds.items():
        np.save(os.path.join(folder, name + ".npy"), a)
        inputs += ["-i", f"{name}={os.path.join(folder, name + '.npy')}"]
    return [os.path.join(o.build, "bin", "dlrun"), so, "--bench", "--device=cpu", "--threads=1", f"--seconds={o.seconds}", *inputs]


def dlcc_ms(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["min_ms"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage="%(prog)s [options] [PATTERN ...]")
    p.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"))
    p.add_argument("--dlcc", help="the compiler, if not that of BUILD")
    p.add_argument("--target", help="of dlcc, as cpu:v3; the local processor by default")
    p.add_argument("--seconds", type=float, default=0.1, help="of each engine, operator and round")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("patterns", nargs="*")
    o = p.parse_args()
    folder, rows = os.path.join(o.build, "bench", "operators"), []
    os.makedirs(folder, exist_ok=True)
    for name, path, feeds in models(o.patterns, folder):
        try:
            run, command = peer_runs(path, feeds), dlcc_command(o, path, feeds, folder)
            theirs, ours = (min(t) for t in zip(*((peer_ms(run, o.seconds), dlcc_ms(command)) for _ in range(o.rounds))))
        except Exception as e:
            print(f"{name}: {getattr(e, 'stderr', None) or e}", file=sys.stderr)
            continue
        rows.append((theirs / ours, name, ours, theirs))
    print("| operator | dlcc ms | ONNX Runtime ms | ratio |\n|---|---:|---:|---:|")
    for ratio, name, ours, theirs in sorted(rows):
        print(f"| {name} | {ours:.4f} | {theirs:.4f} | {ratio:.2f} |")
    if rows:
        print(f"\nGeometric mean of the ratios: {math.exp(statistics.mean(math.log(r[0]) for r in rows)):.2f}, of {len(rows)} operators.")


if __name__ == "__main__":
    main()

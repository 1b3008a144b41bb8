# SPDX-License-Identifier: Apache-2.0
"""The samples of tests/calibrate/run.sh, and what it compares.

    data.py make HELDOUT.bin      the folders of samples, held_out.npy and labels.npy, here
    data.py errors LOGITS.npy     at most two more errors than the model in floats makes
    data.py beside MODEL.onnx LOGITS.npy    ONNX Runtime gives these logits for held_out.npy
    data.py within E LOGITS.npy MODEL.onnx  the error of the logits, relative to the model's, is at most E
    data.py sizes DLCC            a model whose shapes are computed from its inputs', written by dlcc, computes the same
    data.py control DLCC          models with control flow, written by dlcc, compute the same
"""

import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

ERRORS_IN_FLOATS = 2


def save(folder, name, x):
    os.makedirs(folder, exist_ok=True)
    np.save(f"{folder}/{name}.npy", x)


def make(path):
    from sklearn.datasets import load_digits
    raw = open(path, "rb").read()
    n = int(np.frombuffer(raw[:4], "<i4")[0])
    scans = np.frombuffer(raw[4:4 + 64 * n], np.uint8).reshape(n, 1, 8, 8)
    np.save("held_out.npy", scans.astype(np.float32) / 16)
    np.save("labels.npy", np.frombuffer(raw[4 + 64 * n:], np.uint8))
    known = {s.tobytes() for s in scans}
    x = [d for d in load_digits().images.astype(np.uint8)[:, None] if d.tobytes() not in known]
    x = np.array(x[:128], np.float32) / 16
    for i in range(8):
        part = x[16 * i:16 * i + 16]
        save("samples", str(i), part)
        save(f"folders/{i}", "scan", part)
        os.makedirs(f"sets/test_data_set_{i}")
        with open(f"sets/test_data_set_{i}/input_0.pb", "wb") as f:
            f.write(numpy_helper.from_array(part, "scan").SerializeToString())
        with open(f"sets/test_data_set_{i}/output_0.pb", "wb") as f:
            f.write(numpy_helper.from_array(part, "none").SerializeToString())
    save("whole", "scan", x)
    os.mkdir("empty")
    open("empty/notes.txt", "w").close()
    save("shape", "1", x[:1, :, :7])
    save("type", "1", x[:1].astype(np.float64))
    bad = x[:1].copy()
    bad[0, 0, 0, 3] = np.nan
    save("nan", "1", bad)
    save("name/1", "scan", x[:1])
    save("name/1", "other", x[:1])
    save("twice/1", "scan", x[:1])
    save("twice/1", "input_0", x[:1])
    os.mkdir("broken")
    open("broken/1.npy", "wb").write(b"nothing")


def run(model, feed):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Else it multiplies bytes, and pairs of products saturate on CPUs without VNNI.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def errors(logits):
    n = int((np.load(logits).argmax(1) != np.load("labels.npy")).sum())
    assert n <= ERRORS_IN_FLOATS + 2, f"{n} errors"


def beside(model, logits):
    """Near the middle of two integers an activation may be rounded to either."""
    onnx.checker.check_model(model, True)
    got, want = np.load(logits), run(model, {"scan": np.load("held_out.npy")})
    chosen = np.take_along_axis(want, got.argmax(1)[:, None], 1)[:, 0]
    assert (chosen >= want.max(1) - 0.002 * abs(want).max()).all(), "other classes"
    assert abs(got - want).max() < 0.01 * abs(want).max(), abs(got - want).max()


def within(most, logits, model):
    want = run(model, {"scan": np.load("held_out.npy")})
    error = np.linalg.norm(np.load(logits) - want) / np.linalg.norm(want)
    assert error <= 1.5 * float(most), error  # the budget holds for the samples


def sizes(dlcc):
    """Values of the model have names that the writer makes for its own."""
    graph = helper.make_graph(
        [helper.make_node("Shape", ["x"], ["shape"]),
         helper.make_node("Gather", ["shape", "zero"], ["n"]),
         helper.make_node("Gather", ["shape", "one"], ["m"]),
         helper.make_node("Add", ["m", "one"], ["more"]),
         helper.make_node("Div", ["more", "two"], ["half"]),
         helper.make_node("Mul", ["n", "half"], ["product"]),
         helper.make_node("Concat", ["half", "n"], ["to"], axis=0),
         helper.make_node("Expand", ["v", "to"], ["dlcc/size_0"]),
         helper.make_node("Relu", ["dlcc/size_0"], ["dlcc/integer_1"]),
         helper.make_node("Reshape", ["dlcc/integer_1", "product"], ["y"])],
        "sizes", [helper.make_tensor_value_info("x", 1, ["N", "M"]), helper.make_tensor_value_info("v", 1, [1, "N"])],
        [helper.make_tensor_value_info("y", 1, [None])],
        [numpy_helper.from_array(np.array([k], np.int64), name) for name, k in (("zero", 0), ("one", 1), ("two", 2))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "sizes.onnx")
    subprocess.run([dlcc, "sizes.onnx", "-o", "sizes2.onnx"], check=True)
    for n, m in ((1, 1), (2, 3), (3, 4)):
        feed = {"x": np.zeros((n, m), np.float32), "v": np.arange(n, dtype=np.float32)[None] - 1}
        a, b = run("sizes.onnx", feed), run("sizes2.onnx", feed)
        assert a.shape == b.shape and (a == b).all(), (a, b)


def opset(dlcc):
    """A model with an operator that is newer than the oldest opset that is written."""
    graph = helper.make_graph(
        [helper.make_node("TensorScatter", ["cache", "rows", "at"], ["y"], axis=1)], "opset",
        [helper.make_tensor_value_info("cache", 1, [2, 5, 3]), helper.make_tensor_value_info("rows", 1, [2, 2, 3]), helper.make_tensor_value_info("at", 7, [2])],
        [helper.make_tensor_value_info("y", 1, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), "opset.onnx")
    subprocess.run([dlcc, "opset.onnx", "-o", "opset2.onnx"], check=True)
    feed = {"cache": np.zeros((2, 5, 3), np.float32), "rows": np.ones((2, 2, 3), np.float32), "at": np.array([0, 3])}
    assert (run("opset.onnx", feed) == run("opset2.onnx", feed)).all()
    subprocess.run([dlcc, "opset.onnx", "-o", "opset.dl"], check=True)      # the text does not state an opset
    subprocess.run([dlcc, "opset.dl", "-o", "opset3.onnx"], check=True)
    assert (run("opset.onnx", feed) == run("opset3.onnx", feed)).all()


CONTROL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[N,8] x, float limit, int64 most) => (float[N,8] y, float[steps] norms, int64 at)
<bool yes = {1}, float one = {1.0}, float half = {0.5}, int64 zero = {0}>
{
  y, at, norms = Loop (most, yes, x, zero) <body = step (int64 i, bool c, float[N,8] v, int64 k) => (bool go, float[N,8] w, int64 k2, float n) {
    square = Mul (v, v)
    n = ReduceMax <keepdims = 0> (square)
    big = Greater (n, one)
    w = If (big) <then_branch = smaller () => (float[N,8] p) { p = Mul (v, half) },
                  else_branch = larger () => (float[N,8] q) { r = Add (v, one)
                                                              q = Add (r, v) }>
    k2 = Add (k, i)
    less = Less (n, limit)
    go = Identity (less)
  }>
}"""

RECURRENT = """<ir_version: 10, opset_import: ["" : 21]>
net (float[T,B,4] x, float[2,12,4] w, float[2,12,3] r, float[2,24] b, float[1,9,4] wg, float[1,9,3] rg, float[B,4] start)
    => (float[T,2,B,3] y, float[2,B,3] h, float[2,B,3] c, float[T,1,B,3] z, float[T,B,4] sums)
{
  y, h, c = LSTM <hidden_size = 3, direction = "bidirectional"> (x, w, r, b)
  z, last = GRU <hidden_size = 3, direction = "reverse"> (x, wg, rg)
  total, sums = Scan <num_scan_inputs = 1, scan_output_directions = [1], body = add (float[B,4] s, float[B,4] row) => (float[B,4] t, float[B,4] u) {
    t = Add (s, row)
    u = Identity (t)
  }> (start, x)
}"""


# Where the two engines differ in LSTM (docs/ops.md): a bound on h's input, and the last state of a sequence without steps.
CLIPPED = """<ir_version: 10, opset_import: ["" : 21]>
net (float[T,3,4] x, float[1,12,4] w, float[1,12,3] r, float[1,24] b, int32[3] steps, float[1,3,3] h0, float[1,3,3] c0)
    => (float[T,1,3,3] y, float[1,3,3] h, float[1,3,3] c) {
  y, h, c = LSTM <hidden_size = 3, clip = 0.5> (x, w, r, b, steps, h0, c0)
}"""

SIZES = """<ir_version: 10, opset_import: ["" : 21]>
g(float[N,4] x) => (bool[1] y, int32[1] z, bool s) {
  size = Shape<start = 0, end = 1>(x)
  five = Constant<value = int64[1] {5}>()
  y = Less(size, five)
  z = Cast<to = 6>(size)
  s = Squeeze(y)
}"""

NESTED = """dlir 1
graph @main(%x: f32[4], %n: i64[]) -> (%last, %all)
    where 0 <= n <= 100 = %n[0], 0 <= go <= 1 = %g[0], 0 <= i <= 99 = %i[0], 0 <= j <= 99 = %j[0] {
  %h = For(%x) {trip = type(i64[n])} : f32[4]
  %i = Iteration() : i64[]
  %hh = For(%h) {trip = type(i64[3])} : f32[4]
  %j = Iteration() : i64[]
  %jf = Cast(%j) {to = 1} : f32[]
  %u1 = Add(%hh, %jf) : f32[4]
  %u = EndFor(%u1) {carried = 1} : f32[4]
  %m = ReduceMax(%u) {keepdims = 0} : f32[]
  %limit = Const {value = f32[](20)} : f32[]
  %g = Less(%m, %limit) : bool[]
  While() {value = type(i64[go])}
  %fi = Cast(%i) {to = 1} : f32[]
  %w = Add(%u, %fi) : f32[4]
  %last, %all = EndFor(%w, %u) {carried = 1} : f32[4], f32[n,4]
}
"""


def run_all(model, feed):
    import onnxruntime
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)


def control(dlcc):
    """Branches and loops, with and without a condition, a number of iterations and stacks in reverse, are written as If and Loop."""
    import onnxruntime
    rng = np.random.default_rng(1)
    for text, option in ((CONTROL, []), (RECURRENT, []), (RECURRENT, ["--weights-as=i8"])):
        onnx.save(onnx.parser.parse_model(text), "control.onnx")
        subprocess.run([dlcc, "control.onnx", *option, "-o", "control2.onnx"], check=True, stdout=subprocess.DEVNULL)
        onnx.checker.check_model(onnx.load("control2.onnx"), full_check=True)
        sessions = [onnxruntime.InferenceSession(f, providers=["CPUExecutionProvider"]) for f in ("control.onnx", "control2.onnx")]
        for size, limit, most in ((3, 3, 7), (2, 1000, 5), (4, 0, 9), (2, 3, 0), (1, 3, 1)):
            known = {"limit": np.array(limit, np.float32), "most": np.array(most)}
            feed = {i.name: known[i.name] if i.name in known else
                    rng.standard_normal([d if isinstance(d, int) else size for d in i.shape]).astype(np.float32) for i in sessions[0].get_inputs()}
            for a, b in zip(*(s.run(None, feed) for s in sessions)):
                assert a.shape == b.shape and np.allclose(a, b, 1e-5, 1e-6), (a, b)

    # such a model computes what dlcc computes, not what ONNX Runtime's LSTM does
    onnx.save(onnx.parser.parse_model(CLIPPED), "control.onnx")
    for out in "control2.onnx", "control.so":
        subprocess.run([dlcc, "control.onnx", "-o", out], check=True)
    shapes = {"x": (4, 3, 4), "w": (1, 12, 4), "r": (1, 12, 3), "b": (1, 24), "h0": (1, 3, 3), "c0": (1, 3, 3)}
    feed = {n: 2 * rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()} | {"steps": np.array([4, 0, 2], np.int32)}
    for n, value in feed.items():
        np.save(f"{n}.npy", value)
    subprocess.run([os.path.join(os.path.dirname(dlcc), "dlrun"), "./control.so", *(w for n in feed for w in ("-i", f"{n}={n}.npy")), "-o", "."],
                   check=True, stdout=subprocess.DEVNULL)
    for n, value in zip("yhc", run_all("control2.onnx", feed)):
        assert np.allclose(value, np.load(f"{n}.npy"), 1e-5, 1e-6), n

    # sizes as conditions and in 32 bits; a loop before the condition of the loop around it has iterations of its own
    onnx.save(onnx.parser.parse_model(SIZES), "control.onnx")
    subprocess.run([dlcc, "control.onnx", "-o", "control2.onnx"], check=True)
    for n in (2, 9):
        feed = {"x": rng.standard_normal((n, 4)).astype(np.float32)}
        assert all((a == b).all() for a, b in zip(run_all("control.onnx", feed), run_all("control2.onnx", feed)))
    with open("nested.dl", "w") as f:
        f.write(NESTED)
    subprocess.run([dlcc, "nested.dl", "-o", "nested.onnx"], check=True)
    last, rows = run_all("nested.onnx", {"x": np.arange(4, dtype=np.float32), "n": np.array(4)})
    assert (last == np.arange(4) + 18).all() and rows.shape == (4, 4), (last, rows)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

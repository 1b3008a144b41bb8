# SPDX-License-Identifier: Apache-2.0
"""dlrun on artifacts written by hand: test_dlrun.py DLRUN DIR, where DIR has relu_mul.so and nonzero.so."""

import json
import os
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

DLRUN, DIR = sys.argv[1:3]
DLCC, FLAGS = os.path.dirname(DLRUN) + "/dlcc", os.environ.get("DLCC_FLAGS", "").split() or samples.unoptimised()
RELU, NONZERO = DIR + "/relu_mul.so", DIR + "/nonzero.so"
W = np.array([1, -1, 0.5, 2], np.float32)
UMASK = os.umask(0)
os.umask(UMASK)
tests = []


def dlrun(*args, status=0):
    r = subprocess.run([DLRUN, *args], capture_output=True, text=True, timeout=samples.limit(60))
    assert r.returncode == status, f"status {r.returncode}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def test(fn):
    tests.append(fn)
    return fn


def relu_case(name, k=0, names=("x", "y", "z"), change=0.0, dtype=np.float32):
    """A case whose first expected output is off by change of its largest value."""
    folder = f"{DIR}/{name}/test_data_set_{k}"
    os.makedirs(folder, exist_ok=True)
    x = np.random.default_rng(k).standard_normal((5, 4)).astype(np.float32)
    y = np.maximum(x * W, 0)
    samples.tensor(f"{folder}/input_0.pb", x, names[0])
    samples.tensor(f"{folder}/output_0.pb", (y + change * y.max()).astype(dtype), names[1])
    samples.tensor(f"{folder}/output_1.pb", y + y, names[2])
    return f"{DIR}/{name}"


@test
def describe():
    text = dlrun(RELU)
    assert "input x: f32[N, 4]" in text and "output y: f32[N, 4] may share memory with x" in text, text
    assert "dim N: 0..\n" in text
    text = dlrun(NONZERO, "--describe")
    assert "dim N: 1..4096" in text and "i64[1, found]" in text and "bool[N + 1]" in text


@test
def data():
    folder = relu_case("good")
    relu_case("good", 1, names=("", "", ""))
    relu_case("good", 10)
    text = dlrun(RELU, "--data", folder)
    assert text.count(": ok, within 2e-05 of the reference's largest element\n") == 6 and "test_data_set_10: z: max abs 0" in text, text
    assert text.endswith(f"{folder}: 3 data sets, 6 outputs compared: ok\n"), text
    os.rename(f"{folder}/test_data_set_10/output_1.pb", f"{folder}/test_data_set_10/output_0.pb")
    text = dlrun(RELU, "--data", folder + "/test_data_set_10")  # output_0.pb is named z, the second output
    assert "y: no reference\n" in text and ": z: max abs 0" in text and "1 output compared, 1 without a reference: ok" in text, text
    text = dlrun(RELU, "--data", folder + "/test_data_set_1")
    assert text.count(": ok") == 3


@test
def data_tolerance():
    dlrun(RELU, "--data", relu_case("near", change=1.5e-5))
    folder = relu_case("far", change=1e-4)
    text = dlrun(RELU, "--data", folder, status=1)
    assert "y: max abs" in text and "FAIL: 20 elements beyond 2e-05 of the reference's largest element; the noise measured by moving inputs by one ulp is" in text, text
    assert "z: max abs 0, max rel 0: ok" in text
    assert "1 data set, 2 outputs compared, 1 differs: FAIL" in text
    dlrun(RELU, "--data", folder, "--atol", "1e-3")
    dlrun(RELU, "--data", folder, "--atol=1e-6", "--rtol=1e-6", status=1)
    with open(folder + "/case.json", "w") as f:
        json.dump({"noise": [2e-5, None]}, f, indent=1)
    dlrun(RELU, "--data", folder)
    relu_case("far", 1, change=1e-4)
    dlrun(RELU, "--data", folder, status=1)


def compiled(name, model, *options):
    """The artifact of a model, or of one in ONNX's textual syntax."""
    onnx.save(samples.model(model) if isinstance(model, str) else model, f"{DIR}/{name}.onnx")
    subprocess.run([DLCC, f"{DIR}/{name}.onnx", "-o", f"{DIR}/{name}.so", *FLAGS, *options], check=True)
    return f"{DIR}/{name}.so"


def judged(so, name, x, y, *options, status=0):
    """What dlrun --data says of an artifact with one input, x, and one output, y."""
    samples.tensors(f"{DIR}/{name}/test_data_set_0", "input", {"x": x})
    samples.tensors(f"{DIR}/{name}/test_data_set_0", "output", {"y": y})
    return dlrun(so, "--data", f"{DIR}/{name}", *options, status=status).splitlines()


CENTRED = "g (float[4,64] x) => (float[4,64] y) <int64[1] last = {-1}> { m = ReduceMean(x, last) y = Sub(x, m) }"


@test
def noise_of_inputs():
    """Rows of nearly equal numbers: what is left without their mean is rounding. A result is judged by how far it moves."""
    x = (1000 + 0.1 * np.random.default_rng(1).standard_normal((4, 64))).astype(np.float32)
    exact = x.astype(np.float64) - x.astype(np.float64).mean(-1, keepdims=True)
    so = compiled("centred", CENTRED)
    moved = (exact + 3e-4 * np.sign(exact)).astype(np.float32)
    text = judged(so, "centred", x, moved)
    assert re.search(r"max rel 0.00.*: ok, within 0.00\d+ of the reference's largest element, 8 times the noise; "
                     r"the noise measured by moving inputs by one ulp is 0.000\d+ of it$", text[0]), text
    text = judged(so, "centred", x, -moved, status=1)
    assert re.search(r"FAIL: \d+ elements beyond 0.00\d+ of the reference's largest element, 8 times the noise; ", text[0]), text
    text = judged(so, "centred", x, moved, "--noise=1e-9", status=1)
    assert text[0].endswith("beyond 2e-05 of the reference's largest element"), text
    text = judged(so, "centred", x, moved, "--noise=0.02")
    assert text[0].endswith("ok, within 0.16 of the reference's largest element, 8 times the noise given"), text
    with open(DIR + "/centred/case.json", "w") as f:
        json.dump({"noise": [0.05]}, f)
    assert "ok, within 0.4 of the reference's largest element, 8 times the noise stated by case.json" in judged(so, "centred", x, moved)[0]
    os.remove(DIR + "/centred/case.json")
    judged(so, "tiny", x * np.float32(1e-9), (moved * 1e-9).astype(np.float32))
    nearer = (1000.3 + (x - 1000) / 100).astype(np.float32)
    exact = nearer.astype(np.float64) - nearer.astype(np.float64).mean(-1, keepdims=True)
    text = judged(so, "nearer", nearer, (exact + 3e-5 * np.sign(exact)).astype(np.float32), status=1)
    assert re.search(r"FAIL: too noisy to judge: \d+ elements beyond 0.01 of the reference's largest element, the most that a noise allows; "
                     r"the noise measured by moving inputs by one ulp is 0.0\d+ of it$", text[0]), text
    moved[0, 0] = np.nan
    assert "1 elements differ in NaN or infinity" in judged(so, "centred", x, moved, status=1)[0]


@test
def noise_is_not_a_licence():
    """An element that hangs on an ulp and moves by all of its size cannot be judged; the others are, but for a hundredth."""
    x = np.full((1, 64), 0.5, np.float32)
    x[0, 0] = 1.5
    so = compiled("step", "g (float[1,64] x) => (float[1,64] y) <float h = {1.5}> { b = Greater(x, h) c = Cast<to = 1>(b) y = Add(x, c) }")
    y = x.copy()
    y[0, 0] = 2.5
    assert "FAIL: too noisy to judge: 1 elements beyond 0.01 of" in judged(so, "step", x, y, status=1)[0]
    y[0, 0], y[0, 1] = 1.5, 0.6
    assert "FAIL: 1 elements beyond 0.01 of" in judged(so, "step", x, y, status=1)[0]


@test
def noise_at_steps():
    """Whole numbers stay where they are, so a wrong result at a step is wrong."""
    so = compiled("ceil", "g (float[4] x) => (float[4] y) { y = Ceil(x) }", "--target=cpu:v2")
    text = judged(so, "ceil", np.array([-3, 2, 7, -1], np.float32), np.array([-3, 5, 0, -1], np.float32), status=1)
    assert "FAIL: 2 elements beyond 2e-05 of" in text[0] and text[1].endswith(": no float input moves it; where the noise is known, "
                                                                              "give it: --noise R"), text


@test
def noise_of_half():
    """Inputs of f32 move by an ulp of the f16 that they are rounded to. A subnormal stays."""
    so = compiled("halfnoise", "g (float[64] x) => (float[64] y) <float16 w = {15155}> { h = Cast<to = 10>(x) d = Sub(h, w) y = Cast<to = 1>(d) }")
    x = np.linspace(1.0, 1.85, 64, dtype=np.float32).astype(np.float16).astype(np.float32)
    x[1] = 1e-42
    y = x - np.float32(np.uint16(15155).view(np.float16))
    text = judged(so, "halfnoise", x, y * np.float32(1.003))
    assert re.search("ok, within 0.00[0-9]+ of the reference's largest element, 8 times the noise; the noise measured by moving inputs by one ulp "
                     "of f16 is", text[0]), text
    text = judged(so, "halfnoise", x, y * np.float32(1.1), status=1)
    assert "FAIL: 64 elements beyond 0.00" in text[0], text


@test
def noise_without_float_inputs():
    rng = np.random.default_rng(2)
    w = [", ".join(f"{v:.9g}" for v in (rng.standard_normal(64 * 32) + off).astype(np.float32)) for off in (0, 1000)]
    body = (f"g (int64[8,64] x) => (float[8,32] y) <float[64,32] v = {{{w[0]}}}, float[64,32] w = {{{w[1]}}}, float k = {{1000}}> "
            "{ f = Cast<to = 1>(x) p = MatMul(f, v) q = MatMul(f, w) y = Sub(p, q) }")
    x = rng.integers(1, 1000, (8, 64))
    one, two = compiled("ids1", body, "--target=cpu:v2"), compiled("ids2", body, "--target=cpu:v2,v3")
    dlrun(one, "-i", f"x={save('ids', x)}", "-o", DIR + "/ids_out")
    y = np.load(DIR + "/ids_out/y.npy")
    off = (y * np.float32(1 + 3e-5)).astype(np.float32)
    text = judged(one, "ids", x, off, status=1)
    assert text[1] == "  note: the noise could not be measured: no float input moves it; where the noise is known, give it: --noise R", text
    judged(one, "ids", x, off, "--noise=1e-5")
    text = judged(two, "ids", x, (y * 1.5).astype(np.float32), status=1)
    assert "the noise measured by comparing the artifact's CPU variants is" in text[0], text


def judged_all(so, name, inputs, outputs, status=0):
    """What dlrun --data says of an artifact with these inputs and expected outputs, by name."""
    samples.tensors(f"{DIR}/{name}/test_data_set_0", "input", inputs)
    samples.tensors(f"{DIR}/{name}/test_data_set_0", "output", outputs)
    return dlrun(so, "--data", f"{DIR}/{name}", status=status)


def outputs_of(so, name, inputs):
    """What an artifact computes, by name."""
    dlrun(so, *(a for i, x in inputs.items() for a in ("-i", f"{i}={save(name + i, x)}")), "-o", f"{DIR}/{name}_out")
    return {f[:-4]: np.load(f"{DIR}/{name}_out/{f}") for f in sorted(os.listdir(f"{DIR}/{name}_out"))}


@test
def near_zero():
    """Sigmoids near 0 are what others subtract from 0.5, so a reference is off by ulps of that, however small all elements are."""
    x = np.linspace(-14, -13, 32, dtype=np.float32).reshape(1, 2, 16)
    moved = {"plain": "y = Sigmoid(x)", "mean": "s = Sigmoid(x) y = ReduceMean<keepdims = 0>(s, last)",
             "hard": "a = Mul(x, k) y = HardSigmoid(a)", "shape": "s = Sigmoid(x) t = Transpose<perm = [0, 2, 1]>(s) c = Cast<to = 1>(t) y = Squeeze(c, first)",
             "branches": "c = Greater(k, h) s = Sigmoid(x) y = If(c) <then_branch = a () => (t) { t = Identity(s) }, else_branch = b () => (e) { e = Sigmoid(x) }>"}
    other = {"exp": "y = Exp(x)", "product": "s = Sigmoid(x) y = Mul(s, h)", "one_branch": "c = Greater(k, h) s = Sigmoid(x) y = If(c) "
             "<then_branch = a () => (t) { t = Identity(s) }, else_branch = b () => (e) { e = Exp(x) }>"}
    for name, body in {**moved, **other}.items():
        rank = "1,2" if name == "mean" else "16,2" if name == "shape" else "1,2,16"
        so = compiled("zero_" + name, f"g (float[1,2,16] x, float h) => (float[{rank}] y) <int64[1] last = {{-1}}, int64[1] first = {{0}}, float k = {{0.1924}}> {{ {body} }}")
        inputs = {"x": x, "h": np.float32(0.1)}
        y = outputs_of(so, "zero_" + name, inputs)["y"]
        off = y.copy()
        off.flat[1] += np.float32(2e-7)
        text = judged_all(so, "zero_" + name, inputs, {"y": off}, status=name in other)
        assert ("or 2.4e-07: the model subtracts numbers of about 1" in text) == (name in moved), (name, text)
        off.flat[1] += np.float32(1e-7)
        assert "FAIL: 1 elements beyond" in judged_all(so, "zero_" + name, inputs, {"y": off}, status=1), name


@test
def one_step():
    """What is computed and quantised may be off by a step, whatever moves or dequantises it then; what is copied from inputs may not."""
    scale, zero = "float s = {0.25}", "uint8 z = {128}"
    one = {"quantised": ("uint8", "n = Neg(x) y = QuantizeLinear(n, s, z)", 1), "moved": ("uint8", "n = Neg(x) q = QuantizeLinear(n, s, z) y = Identity(q)", 1),
           "widened": ("int32", "n = Neg(x) q = QuantizeLinear(n, s, z) y = Cast<to = 6>(q)", 1),
           "dequantised": ("float", "n = Neg(x) q = QuantizeLinear(n, s, z) t = Identity(q) p = Identity(s) y = DequantizeLinear(t, p, z)", 0.25),
           "dynamic": ("uint8", "n = Neg(x) y, a, b = DynamicQuantizeLinear(n)", 1)}
    none = {"input": ("uint8", "t = Identity(x) y = QuantizeLinear(t, s, z)", 1), "scale": ("float", "n = Neg(x) q = QuantizeLinear(n, s, z) y = DequantizeLinear(q, h, z)", 0.25),
            "truncated": ("int32", "n = Neg(x) q = QuantizeLinear(n, s, z) d = DequantizeLinear(q, s, z) y = Cast<to = 6>(d)", 1)}
    inputs = {"x": np.random.default_rng(8).standard_normal((4, 8)).astype(np.float32) * 3, "h": np.float32(0.25)}
    for name, (dtype, body, step) in {**one, **none}.items():
        so = compiled("step_" + name, f"g (float[4,8] x, float h) => ({dtype}[4,8] y) <{scale}, {zero}> {{ {body} }}")
        y = outputs_of(so, "step_" + name, inputs)["y"]
        assert (f"output y: {dtype.replace('uint', 'u').replace('int', 'i').replace('float', 'f32')}[4, 8], in steps of {step}\n" in dlrun(so)) == (name in one)
        off = y.copy()
        off[1, 2] += np.asarray(step, y.dtype)
        text = judged_all(so, "step_" + name, inputs, {"y": off}, status=name in none)
        assert (f"the step of {step} to which the model rounds" in text) == (name in one), text
        off[1, 2] += np.asarray(max(1, step) if y.dtype.kind != "f" else step / 2, y.dtype)
        assert "FAIL: 1 elements" in judged_all(so, "step_" + name, inputs, {"y": off}, status=1), name


@test
def any_order():
    """TopK with sorted = 0: values and their indices may come in any order, but together; those of equal values in any."""
    body = "values, indices = TopK<axis = {axis}, sorted = {sorted}>(x, k)"
    x = np.random.default_rng(9).permutation(60).reshape(3, 20).astype(np.float32) / 7
    x[1, 4] = x[1, 9] = x[1, 17] = 8.5  # ties
    for name, axis, is_sorted in (("unsorted", -1, 0), ("unsorted0", 0, 0), ("sorted", -1, 1)):
        so = compiled(name, f"g (float[3,20] x, int64[1] k) => (float[a,b] values, int64[c,d] indices) {{ {body.format(axis=axis, sorted=is_sorted)} }}")
        inputs = {"x": x, "k": np.int64([2 if axis == 0 else 6])}
        y = outputs_of(so, name, inputs)
        v, i = y["values"], y["indices"]
        assert (", in any order along dim" in dlrun(so), ", in the order of values" in dlrun(so)) == (not is_sorted,) * 2, dlrun(so)
        order = np.roll(np.arange(v.shape[axis])[::-1], 1 if axis else 0)
        mixed = {"values": np.take(v, order, axis), "indices": np.take(i, order, axis)}
        judged_all(so, name, inputs, y)
        judged_all(so, name, inputs, mixed, status=is_sorted)
        if is_sorted:
            continue
        if axis == -1:  # of row 1 the first three are equal
            ties = {"values": v, "indices": i.copy()}
            ties["indices"][1, :3] = i[1, [2, 0, 1]]
            judged_all(so, name, inputs, ties)
        line = (slice(None), 1) if axis == 0 else (2,)
        near = {k: a.copy() for k, a in mixed.items()}
        near["values"][line] *= np.float32(1 + 1e-6)
        judged_all(so, name, inputs, near)
        wrong = {k: a.copy() for k, a in mixed.items()}
        wrong["values"][line][1] += np.float32(0.01)
        assert "values: " in judged_all(so, name, inputs, wrong, status=1).split("FAIL")[0]
        wrong = {k: a.copy() for k, a in mixed.items()}
        wrong["indices"][line][1] += 1
        assert re.search("values: .*: ok.*\n.*indices: .*: FAIL: 1 elements differ", judged_all(so, name, inputs, wrong, status=1))
        wrong = {k: a.copy() for k, a in mixed.items()}
        wrong["indices"][line] = wrong["indices"][line][::-1]  # each is there, but with another's value
        assert "1 differs: FAIL" in judged_all(so, name, inputs, wrong, status=1)
        wrong = {k: a.copy() for k, a in mixed.items()}
        wrong["values"][line][0] = wrong["values"][line][1]  # one of them twice
        judged_all(so, name, inputs, wrong, status=1)
    so = compiled("indices", "g (int32[3,20] x, int64[1] k) => (int32[a,b] y) { v, i = TopK<largest = 0, sorted = 0>(x, k) y = Cast<to = 6>(i) }")
    inputs = {"x": (x * 7).astype(np.int32), "k": np.int64([6])}
    y = outputs_of(so, "indices", inputs)["y"]
    assert "output y: i32[3, " in dlrun(so) and "in any order along dim 1" in dlrun(so)
    judged_all(so, "indices", inputs, {"y": y[:, ::-1]})
    y[0, 0] = y[0, 1]
    judged_all(so, "indices", inputs, {"y": y}, status=1)


@test
def half_inside():
    """f16 and bf16 inside of a model of f32: the tolerance is theirs."""
    x = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)
    for to, name, near, far, limit in (10, "f16", 1e-3, 5e-3, "0.002"), (16, "bf16", 1e-2, 5e-2, "0.016"):
        so = compiled(name, f"g (float[4,64] x) => (float[4,64] y) {{ h = Cast<to = {to}>(x) e = Neg(h) y = Cast<to = 1>(e) }}")
        dlrun(so, "-i", f"x={save(name, x)}", "-o", DIR + "/half_out")
        y = np.load(DIR + "/half_out/y.npy")
        text = judged(so, name, x, (y * (1 + near)).astype(np.float32))
        assert text[0].endswith(f"ok, within {limit} of the reference's largest element, for values inside are {name}"), text
        judged(so, name, x, (y * (1 + far)).astype(np.float32), "--noise=0", status=1)
    so = compiled("halfweights", "g (float[4,64] x) => (float[4,64] y) <float16[64] w = {" + ", ".join(["15360"] * 64) + "}> "
                  "{ f = Cast<to = 1>(w) y = Mul(x, f) }")
    judged(so, "halfweights", x, x)
    judged(so, "halfweights", x, (x * 1.0005).astype(np.float32), status=1)


def save(name, array):
    np.save(f"{DIR}/{name}.npy", array)
    return f"{DIR}/{name}.npy"


@test
def data_faults():
    assert "type is f32, expected f64" in dlrun(RELU, "--data", relu_case("type", dtype=np.float64), status=1)
    folder = relu_case("shape")
    samples.tensor(folder + "/test_data_set_0/output_0.pb", np.zeros((5, 3), np.float32), "y")
    assert "dim 1 is 4, expected 3" in dlrun(RELU, "--data", folder, status=1)
    samples.tensor(folder + "/test_data_set_0/input_0.pb", np.zeros((5, 3), np.float32), "x")
    assert 'input "x": dim 1 is 3, expected 4' in dlrun(RELU, "--data", folder, status=1)
    samples.tensor(folder + "/test_data_set_0/input_0.pb", np.zeros((5, 4), np.float32), "x")
    samples.tensor(folder + "/test_data_set_0/input_1.pb", np.zeros(5, np.float32), "xx")
    text = dlrun(RELU, "--data", folder, status=1)
    assert 'test_data_set_0: error: input_1.pb "xx": the model has no such input; --describe lists all' in text, text
    os.rename(folder + "/test_data_set_0/input_1.pb", folder + "/test_data_set_0/input_2.pb")
    assert "input_2.pb is not read: there is no input_1.pb" in dlrun(RELU, "--data", folder, status=1)
    os.remove(folder + "/test_data_set_0/input_2.pb")
    samples.tensor(folder + "/test_data_set_0/input_0.pb", np.zeros((5, 4), np.float32), "")
    samples.tensor(folder + "/test_data_set_0/input_1.pb", np.zeros(5, np.float32), "")
    assert "input_1.pb: the model has no such input" in dlrun(RELU, "--data", folder, status=1)
    os.remove(folder + "/test_data_set_0/input_0.pb")
    os.remove(folder + "/test_data_set_0/input_1.pb")
    assert 'no data for input "x"' in dlrun(RELU, "--data", folder, status=1)
    assert "not a folder" in dlrun(RELU, "--data", DIR + "/none", status=1)


@test
def special_values():
    folder = f"{DIR}/special/test_data_set_0"
    os.makedirs(folder, exist_ok=True)
    x = np.array([[np.inf, -np.inf, 1, 2]], np.float32)
    samples.tensor(folder + "/input_0.pb", x, "x")
    samples.tensor(folder + "/output_0.pb", np.array([[np.inf, np.inf, 0.5, 4]], np.float32), "y")
    samples.tensor(folder + "/output_1.pb", np.array([[np.inf, np.inf, 1, 8]], np.float32), "z")
    dlrun(RELU, "--data", DIR + "/special")
    samples.tensor(folder + "/output_1.pb", np.array([[np.nan, 3, 1, 8]], np.float32), "z")
    assert "2 elements differ in NaN or infinity" in dlrun(RELU, "--data", DIR + "/special", status=1)


@test
def integers():
    """Inputs by name in another order, integer outputs, a data-dependent one, an index out of range."""
    folder = f"{DIR}/ints/test_data_set_0"
    os.makedirs(folder, exist_ok=True)
    x = np.array([3, 0, 5, 0], np.int64)
    samples.tensor(folder + "/input_0.pb", np.ones(5, bool), "m")
    samples.tensor(folder + "/input_1.pb", x, "x")
    samples.tensor(folder + "/output_0.pb", np.array(np.nonzero(x)), "i")
    samples.tensor(folder + "/output_1.pb", (x * 0.5).astype(np.float32), "g")
    samples.tensor(folder + "/output_2.pb", np.concatenate([x, x]), "e")
    assert dlrun(NONZERO, "--data", DIR + "/ints").count(": ok") == 4
    samples.tensor(folder + "/output_0.pb", np.array([[0, 3]]), "i")
    assert "i: max abs 1, max rel 0.333: FAIL: 1 elements differ" in dlrun(NONZERO, "--data", DIR + "/ints", status=1)
    x = np.array([[1 << 53]])
    so = compiled("successor", "g (int64[1,1] x) => (int64[1,1] y) <int64 one = {1}> { y = Add(x, one) }")
    assert "max abs 1, max rel 1.11e-16: FAIL" in judged(so, "successor", x, x, "--rtol=0", "--atol=0", status=1)[0]
    judged(so, "successor", x, x, "--atol=1")
    samples.tensor(folder + "/input_1.pb", np.array([3, 0, 16, 0], np.int64), "x")
    text = dlrun(NONZERO, "--data", DIR + "/ints", status=1)
    assert 'FAIL: node "/Gather" (Gather): index out of range: 16, in a dim of 16' in text


@test
def files():
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    np.save(DIR + "/x.npy", x)
    dlrun(RELU, "-i", f"x={DIR}/x.npy", "-o", DIR + "/out")
    y = np.load(DIR + "/out/y.npy")
    assert y.dtype == np.float32 and (y == np.maximum(x * W, 0)).all()
    assert (np.load(DIR + "/out/z.npy") == y + y).all()
    np.save(DIR + "/one.npy", np.array([[1, 2, np.nan, 4]], np.float32))
    text = dlrun(RELU, "-i", f"x={DIR}/one.npy")
    assert text.splitlines()[1] == "z: f32[1, 4]: 2 0 nan 16; min 0, max 16, mean 6; 1 NaN", text
    np.save(DIR + "/one.npy", np.zeros((0, 4), np.float32))
    assert dlrun(RELU, "-i", f"x={DIR}/one.npy").splitlines()[0] == "y: f32[0, 4]"
    samples.tensor(DIR + "/x.pb", x[:0])
    dlrun(RELU, "-i", f"x={DIR}/x.pb", "-o", DIR + "/out")
    assert np.load(DIR + "/out/y.npy").shape == (0, 4)
    np.save(DIR + "/n.npy", np.array([1, 2], np.int64))
    np.save(DIR + "/m.npy", np.ones(3, bool))
    dlrun(NONZERO, "-i", f"x={DIR}/n.npy", "-i", f"m={DIR}/m.npy", "-o", DIR + "/out")
    assert (np.load(DIR + "/out/e.npy") == [1, 2, 1, 2]).all()
    assert "no value for input" in dlrun(NONZERO, "-i", f"x={DIR}/n.npy", status=1)
    assert "elements are f64, expected f32" in dlrun_npy(x.astype(np.float64))
    assert "elements of type <c8 are not read" in dlrun_npy(x.astype(np.complex64))
    assert "row-major" in dlrun_npy(np.asfortranarray(x))
    assert "big-endian; convert them: array.astype('<f4')" in dlrun_npy(x.astype(">f4"))
    for shape, says in (("4,4", "has 48 bytes of elements, its shape needs 64"),
                        ("1099511627776,", "has 48 bytes of elements, its shape needs 4398046511104"),
                        ("4294967296,4294967296", "its shape has more elements than any memory holds"),
                        ("4611686018427387904,4", "its shape has more elements than any memory holds")):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
        with open(DIR + "/shape.npy", "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + x.tobytes())
        assert f"shape.npy: error: {says}\n" in dlrun(RELU, "-i", f"x={DIR}/shape.npy", status=1)


@test
def files_are_whole():
    """What cannot be written leaves the old file, and no other."""
    folder = DIR + "/whole"
    os.makedirs(folder)
    x = save("large", np.ones((4096, 4), np.float32))

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    for name, arguments in (("y.npy", ("-o", folder)), ("trace.json", (f"--profile={folder}/trace.json",))):
        for old in (None, "old"):
            if old:
                with open(f"{folder}/{name}", "w") as f:
                    f.write(old)
            r = subprocess.run([DLRUN, RELU, "-i", f"x={x}", *arguments], capture_output=True, text=True, preexec_fn=limited, check=False)
            assert r.returncode == 1 and "File too large" in r.stderr, r
            assert os.listdir(folder) == [name] * bool(old), os.listdir(folder)
            assert not old or open(f"{folder}/{name}").read() == old
        os.remove(f"{folder}/{name}")
    os.symlink("linked.json", folder + "/link.json")
    for name in "new%n.json", "link.json":
        dlrun(RELU, f"--profile={folder}/{name}", "--seconds=0.01", "--dim=N=1")
    assert sorted(os.listdir(folder)) == ["link.json", "linked.json", "newrelu_mul.json"], os.listdir(folder)
    assert os.stat(folder + "/newrelu_mul.json").st_mode & 0o777 == 0o666 & ~UMASK
    assert "Is a directory" in dlrun(RELU, f"--profile={folder}", status=1)


@test
def names_with_equals():
    """Of the inputs whose name and = begin a text, the longest name is meant."""
    m = samples.model("g (float[M] x, float[M] x_, float[M] xb) => (float[M] y) { d = Sub(x, x_) y = Sub(d, xb) }")
    for value, name in zip(m.graph.input, ("a", "a=b", "c=d")):
        for node in m.graph.node:
            for i, operand in enumerate(node.input):
                node.input[i] = name if operand == value.name else operand
        value.name = name
        value.type.tensor_type.shape.dim[0].dim_param = "M=N"
    so = compiled("equals", m)
    one, two, ten = (save(n, np.full(3, v, np.float32)) for n, v in (("one", 1), ("b=two", 2), ("ten", 10)))
    given = "-i", f"a={ten}", "-i", f"a=b={two}", "-i", f"c=d={one}"
    assert dlrun(so, *given).splitlines()[-1].startswith("y: f32[3]: 7 7 7;")
    assert "-i a=b=x.npy: an earlier one says otherwise" in dlrun(so, *given, "-i", "a=b=x.npy", status=1)
    assert "-i a=x.npy: an earlier one says otherwise" in dlrun(so, *given, "-i", "a=x.npy", status=1)
    assert "-i a=x=.npy: an earlier one says otherwise" in dlrun(so, *given, "-i", "a=x=.npy", status=1)
    assert f"-i c={one}: the model has no such input" in dlrun(so, *given, "-i", f"c={one}", status=1)
    assert '"M=N":5' in dlrun(so, "--bench", "--seconds=0.01", "--dim", "M=N=5")


def dlrun_npy(array):
    np.save(DIR + "/bad.npy", array)
    return dlrun(RELU, "-i", f"x={DIR}/bad.npy", status=1)


@test
def bench():
    text = dlrun(RELU, "--bench", "--dim", "N=100", "--threads", "2", "--seconds", "0.1")
    r = json.loads(text)
    assert text.count("\n") == 1 and r.pop("threads") == 2 and r.pop("dims") == {"N": 100} and r.pop("device") == "cpu", text
    assert list(r) == ["median_ms", "p95_ms", "min_ms", "cpu_ms", "runs", "peak_rss_kib", "workspace_bytes"], text
    assert 0 < r["min_ms"] <= r["median_ms"] <= r["p95_ms"] and r["runs"] >= 3
    json.loads(dlrun(NONZERO, "--bench", "--json", "--dim=N=7", "--seconds=0.1"))
    assert '--dim M=1: the model\'s inputs have no such dim; it has "N"\n' in dlrun(RELU, "--bench", "--dim", "M=1", status=1)
    text = dlrun(RELU, "--bench", "--seconds=0.01")
    assert text.splitlines()[1:] == ['  note: no --dim sets "N", so it is 1; write --dim "N"=VALUE'], text
    text = dlrun(NONZERO, "--bench", "--dim", "found=1", status=1)
    assert '--dim found=1: the model\'s inputs have no such dim; it has "N"\n' in text, text
    os.environ["ASAN_OPTIONS"] = "allocator_may_return_null=1"  # as malloc does
    assert '"x" [N = 17592186044416, 4] takes 262144.0 GiB, for' in dlrun(RELU, "--bench", "--dim", f"N={1 << 44}", status=1)
    text = dlrun(NONZERO, "--bench", "--dim", "N=5000", status=1)
    assert "must be in 1..4096" in text and "no --dim says" not in text, text


@test
def bench_given():
    """What is given is timed: its sizes show."""
    np.save(DIR + "/given.npy", np.ones((7, 4), np.float32))
    text = dlrun(RELU, "--bench", "-i", f"x={DIR}/given.npy", "--seconds", "0.05")
    assert json.loads(text.splitlines()[-1])["dims"] == {"N": 7}, text
    text = dlrun(RELU, "--bench", "--data", relu_case("given"), "--seconds", "0.05")
    assert json.loads(text.splitlines()[-1])["dims"] == {"N": 5}, text


@test
def profile():
    text = dlrun(RELU, "--profile=" + DIR + "/trace.json", "--bench", "--dim", "N=100", "--seconds", "0.05")
    assert "/Mul, /Relu" in text and "us/call" in text and "total of 3 kernels" in text
    kernels = json.loads(dlrun(RELU, "--profile", "--json", "--seconds", "0.05", "--dim=N=1"))["kernels"]
    assert {k["nodes"] for k in kernels} == {"/Mul, /Relu", "/Copy", "/Add"} and all(k["calls"] for k in kernels)
    with open(DIR + "/trace.json") as f:
        events = json.load(f)["traceEvents"]
    assert {e["name"] for e in events} == {"/Mul, /Relu", "/Copy", "/Add"}


@test
def profile_counts():
    """The operations and bytes of a product of symbolic M, exactly, in the table, in JSON and in the trace; the roof given."""
    m, k, n = 37, 24, 40
    so = compiled("product", samples.model(f"g (float[M,{k}] x) => (float[M,{n}] y) {{ w = Constant <value = float[{k},{n}] {{{','.join(['1'] * k * n)}}}> () "
                                           "y = MatMul(x, w) }"))
    trace = DIR + "/product.json"
    told = json.loads(dlrun(so, f"--profile={trace}", "--json", "--roof=100,20", f"--dim=M={m}", "--seconds=0.01"))
    kernel, = told["kernels"]
    assert told["roof_gflop_per_s"] == 100 and told["roof_gb_per_s"] == 20 and told["runs"] == kernel["calls"], told
    assert kernel["flops"] == 2 * m * n * k * told["runs"], kernel
    assert kernel["bytes"] == 4 * (m * k + k * n + m * n) * told["runs"], kernel
    with open(trace) as f:
        written = json.load(f)
    traced, = written["otherData"]["kernels"]
    assert traced["flops"] == kernel["flops"] and traced["bytes"] == kernel["bytes"], traced
    assert {e["args"]["flops"] for e in written["traceEvents"]} == {2 * m * n * k}
    least = max(kernel["flops"] / 100e9, kernel["bytes"] / 20e9)
    for k in kernel, traced:
        assert abs(k["percent_of_roof"] / (100 * least / (kernel["total_ms"] / 1e3)) - 1) < 0.01, k
        assert abs(k["gflop_per_s"] / (kernel["flops"] / kernel["total_ms"] / 1e6) - 1) < 0.01, k
        assert abs(k["gb_per_s"] / (kernel["bytes"] / kernel["total_ms"] / 1e6) - 1) < 0.01, k
    lines = dlrun(so, "--profile", "--threads=1", f"--dim=M={m}", "--seconds=0.01").splitlines()
    assert lines[0].split() == "share total ms calls us/call GFLOP/s GB/s % roof nodes".split(), lines
    assert all(float(word) > 0 for word in lines[1].split()[1:7]), lines
    assert re.fullmatch(r"roof: [0-9.]+ GFLOP/s, [0-9.]+ GB/s of memory, with 1 thread", lines[-1]), lines
    beyond = "above 100% of the roof: the data are in a cache"
    assert beyond in dlrun(so, "--profile", "--roof=1e-3,1e-3", f"--dim=M={m}", "--seconds=0.01")
    assert beyond not in dlrun(so, "--profile", "--roof=1e9,1e9", f"--dim=M={m}", "--seconds=0.01")


@test
def profile_counts_parts():
    """Of a table only the rows that are read count, and of a chain of operators each instruction."""
    so = compiled("rows", samples.model("g (int64[N] i) => (float[N,8] y) { w = Constant <value = float[100,8] {" + ",".join(["1"] * 800) + "}> () "
                                        "x = Gather(w, i) t = Add(x, x) y = Mul(t, x) }"))
    told = json.loads(dlrun(so, "--profile", "--json", "--roof=1,1", "--dim=N=5", "--seconds=0.01"))
    assert sum(k["flops"] for k in told["kernels"]) == 2 * 5 * 8 * told["runs"], told
    assert sum(k["bytes"] for k in told["kernels"]) == (5 * 8 + 4 * 5 * 8 * 2) * told["runs"], told


@test
def profile_names():
    """Whole names of all nodes of a kernel, each of which dlcc --dump-node takes."""
    folder, ops = "/encoder/layer.0/a/folder/whose/name/is/rather/long/", ("Relu", "Exp", "Neg", "Abs", "Sqrt", "Sigmoid", "Tanh", "Cos", "Sin", "Erf")
    names = [f"{folder}{op}_{i}" for i, op in enumerate(ops)]
    m = samples.model("g (float[N] x0) => (float[N] x10) { " + " ".join(f"x{i + 1} = {op}(x{i})" for i, op in enumerate(ops)) + " }")
    for node, name in zip(m.graph.node, names):
        node.name = name
    so = compiled("chain", m)
    lines = dlrun(so, f"--profile={DIR}/chain.json", "--bench", "--seconds=0.01", "--dim=N=8").splitlines()
    told = json.loads(dlrun(so, "--profile", "--json", "--dim=N=8"))["kernels"]
    with open(DIR + "/chain.json") as f:
        traced = {e["name"] for e in json.load(f)["traceEvents"]}
    assert sorted(told[0]["nodes"].split(", ")) == sorted(names) and traced == {told[0]["nodes"]}, told
    assert any(line.endswith("  " + told[0]["nodes"]) for line in lines), lines
    for name in names:
        text = subprocess.run([DLCC, DIR + "/chain.onnx", "--dump-ir=fuse", "--dump-node=" + name], capture_output=True, text=True, check=True).stdout
        assert f'@"{name}"' in text, text
    symbols = subprocess.run(["nm", so], capture_output=True, text=True, check=True).stdout
    assert re.search(r" t chain_\w+_k0_encoder_layer_0_a_folder", symbols), symbols


@test
def usage():
    for arguments, says in (((), "no model"), ((RELU, "--nonsense"), "unknown option --nonsense"),
                            ((RELU, "--trheads=2"), "unknown option --trheads=2; the nearest is --threads"), ((RELU, "--bnch"), "unknown option --bnch; the nearest is --bench"),
                            ((RELU, "--threads", "-1"), "--threads -1: a whole number from 0 to 2147483647; 0 is all CPUs"),
                            ((RELU, "--threads=abc"), "--threads abc: a whole number from 0 to 2147483647; 0 is all CPUs"),
                            ((RELU, "--threads"), "--threads: a whole number from 0 to 2147483647; 0 is all CPUs"),
                            ((RELU, "--seconds", "0"), "--seconds 0: a number above 0"),
                            ((RELU, "--profile", "--roof=1"), "--roof 1: write GFLOPS,GBS, two numbers above 0"),
                            ((RELU, "--profile", "--roof=0,1"), "--roof 0,1: write GFLOPS,GBS, two numbers above 0"),
                            ((RELU, "--profile", "--roof=1,2x"), "--roof 1,2x: write GFLOPS,GBS, two numbers above 0"),
                            ((RELU, "--roof=1,2"), "--roof goes with --profile"),
                            ((RELU, "--atol=x"), "--atol x: a number from 0"),
                            ((RELU, "--dim", "x"), "--dim x: write NAME=VALUE"),
                            ((RELU, "-i", "x.npy"), "-i x.npy: write NAME=FILE"),
                            ((RELU, "--dim", "N=1", "--dim=N=2"), "--dim N=2: an earlier one says otherwise"),
                            ((RELU, "-o", "a", "-o", "b"), "-o b: an earlier one says otherwise"),
                            ((RELU, "--rtol", "1", "--rtol=2"), "--rtol 2: an earlier one says otherwise"),
                            ((RELU, "--device=cpu", "--device=cuda"), "--device cuda: an earlier one says otherwise"),
                            ((RELU, *["-i", "x=a.npy"] * 4096), "too many arguments"),
                            ((RELU, "--dim", "N=1", "-i", "x=a.npy"), "--dim is for the random inputs of --bench or --profile"),
                            ((RELU, "--dim", "N=1"), "--dim is for the random inputs of --bench or --profile"),
                            ((RELU, "--device", "cuda"), "--device goes with --data, -i, --bench or --profile"),
                            ((RELU, "--json"), "--json goes with --bench or --profile")):
        text = dlrun(*arguments, status=2)
        assert text.startswith(f"dlrun: error: {says}\n") and text.count("\n") == 2, text
    assert "No such file" in dlrun(DIR + "/none.so", status=1)
    assert "not a compiled .so; make one: dlcc model.onnx -o model.so" in dlrun(DIR + "/x.npy", status=1)
    whole = open(RELU, "rb").read()
    with open(DIR + "/cut.so", "wb") as f:
        f.write(whole[:len(whole) // 2])
    text = dlrun(DIR + "/cut.so", status=1)
    assert f"cut off: it has {len(whole) // 2} of {len(whole)} bytes; copy or compile it again" in text, text
    with open(DIR + "/other.so", "wb") as f:
        f.write(whole[:18] + bytes([whole[18] ^ 1]) + whole[19:])  # e_machine
    assert "made for another kind of machine; compile it for this one" in dlrun(DIR + "/other.so", status=1)
    assert "neither .npy, .pb nor .txt" in dlrun(RELU, "-i", "x=" + DIR + "/cut.so", status=1)
    assert "/none: error: No such file" in dlrun(RELU, "-i", "x=/none", status=1)
    assert "/nodir/x.json: error: No such file" in dlrun(RELU, "--profile=/nodir/x.json", status=1)
    assert "usage" in dlrun("--help")
    assert re.fullmatch(r"dlrun [0-9.]+, for API [0-9]+\n", dlrun("--version"))


def lists(name, text, **values):
    """Compiles TEXT, with its data set of VALUES, {name: (role, list)}; the artifact and the folder."""
    model = samples.model(text)
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    onnx.save(model, f"{DIR}/{name}.onnx")
    subprocess.run([DLCC, *FLAGS, f"{DIR}/{name}.onnx", "-o", f"{DIR}/{name}.so"], check=True)
    folder = f"{DIR}/{name}/test_data_set_0"
    os.makedirs(folder, exist_ok=True)
    counts = {"input": 0, "output": 0}
    for key, (role, proto) in values.items():
        proto.name = key
        with open(f"{folder}/{role}_{counts[role]}.pb", "wb") as f:
            f.write(proto.SerializeToString())
        counts[role] += 1
    return f"{DIR}/{name}.so", f"{DIR}/{name}"


@test
def sequences():
    text = """insert (seq(float[N]) s, float[M] x, optional(seq(int64[K])) o) => (seq(float[?]) y, optional(seq(int64[?])) q, bool has) {
        y = SequenceInsert (s, x)
        q = Identity (o)
        has = OptionalHasElement (o)
    }"""
    a, b, c = (np.arange(n, dtype=np.float32) for n in (2, 0, 3))
    k = np.array([5, 6])
    sequence, optional, single = (onnx.numpy_helper.from_list, onnx.numpy_helper.from_optional, onnx.numpy_helper.from_array)
    given = {"s": ("input", sequence([a, b])), "x": ("input", single(c)), "o": ("input", optional([k]))}
    true = ("output", single(np.array(True)))
    so, folder = lists("insert", text, **given, y=("output", sequence([a, b, c])), q=("output", optional([k])), has=true)
    says = dlrun(so, "--describe")
    assert "input s: seq(f32[?])\n" in says and "output q: opt(seq(i64[?]))\n" in says, says
    assert "y: max abs 0, max rel 0: ok" in dlrun(so, "--data", folder)
    for other, why in (([a, b], "has 3 items, expected 2"), ([a, c, c], "item 1: dim 0 is 0, expected 3"),
                       ([a, b, c + 1], "item 2: 3 elements beyond"), ([a, b, k], "item 2: type is f32, expected i64")):
        lists("insert", text, **given, y=("output", sequence(other)), q=("output", optional([k])), has=true)
        says = dlrun(so, "--data", folder, status=1)
        assert f"y: " in says and f"FAIL: {why}" in says, says
    lists("insert", text, **given, y=("output", sequence([a, b, c])), q=("output", optional(None)), has=true)
    assert "q: max abs 0, max rel 0: FAIL: has 1 items, expected 0" in dlrun(so, "--data", folder, status=1)


@test
def sequences_from_files():
    so = f"{DIR}/insert.so"
    np.save(f"{DIR}/a.npy", np.arange(2, dtype=np.float32))
    np.save(f"{DIR}/k.npy", np.array([5, 6]))
    given = "-i", f"x={DIR}/a.npy"
    text = dlrun(so, *given, "-i", f"s={DIR}/a.npy", "-i", f"s={DIR}/a.npy", "-i", f"o={DIR}/k.npy")
    assert "y: sequence of 3\ny.0: f32[2]: 0 1;" in text and "q: optional, there\nq.0: sequence of 1\nq.0.0: i64[2]: 5 6;" in text, text
    text = dlrun(so, *given, "-i", "s=", "-i", "o=")
    assert "y: sequence of 1\n" in text and "q: optional, not there\n" in text and "has: bool[]: 0" in text, text
    text = dlrun(so, *given, "-i", f"s={DIR}/insert/test_data_set_0/input_0.pb", "-i", "o=")
    assert "y: sequence of 3\n" in text and "y.1: f32[0]\n" in text, text
    dlrun(so, *given, "-i", "s=", "-i", f"o={DIR}/k.npy", "-o", f"{DIR}/items")
    assert sorted(os.listdir(f"{DIR}/items")) == ["has.npy", "q.0.0.npy", "y.0.npy"]
    assert "no value for input \"o\"" in dlrun(so, *given, "-i", "s=", status=1)
    assert "-i x=: an earlier one says otherwise" in dlrun(so, *given, "-i", "x=", status=1)
    assert "input \"s\" is not a tensor but seq(f32[?]), for which there are no random values" in dlrun(so, "--bench", status=1)


@test
def maps():
    """Maps whose keys are strings: as an input, and in a sequence of them that is an output."""
    text = """maps (map(string, float) m, float[N,2] x) => (float[1,3] v, seq(map(string, float)) y) {
        v = ai.onnx.ml.DictVectorizer <string_vocabulary = ["b", "c", "a"]> (m)
        y = ai.onnx.ml.ZipMap <classlabels_strings = ["no", "yes"]> (x)
    }"""

    def a_map(*values, keys=("no", "yes")):
        inner = onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=[onnx.numpy_helper.from_array(np.float32(v)) for v in values])
        return onnx.MapProto(key_type=onnx.TensorProto.STRING, string_keys=[k.encode() for k in keys], values=inner)

    def wanted(*rows):
        return "output", onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=rows)

    single = onnx.numpy_helper.from_array
    given = {"m": ("input", a_map(1, 2, keys=("a", "b"))), "x": ("input", single(np.array([[0, 1], [2, 3]], np.float32))),
             "v": ("output", single(np.array([[2, 0, 1]], np.float32)))}
    so, folder = lists("maps", text, **given, y=wanted(a_map(0, 1), a_map(2, 3)))
    assert "input m: map(str,f32[])\n" in dlrun(so), dlrun(so)
    says = dlrun(so, "--data", folder)
    assert "v: max abs 0, max rel 0: ok" in says and "y: max abs 0, max rel 0: ok" in says, says
    for rows, why in (([a_map(0, 1)], "has 2 items, expected 1"), ([a_map(0, 1), a_map(2, 4)], "1 elements beyond"),
                      ([a_map(0, 1), a_map(2, 3, keys=("no", "YES"))], "1 elements differ")):
        lists("maps", text, **given, y=wanted(*rows))
        says = dlrun(so, "--data", folder, status=1)
        assert "y: " in says and "FAIL: " in says and why in says, says
    bad = a_map(1, keys=("a",))
    bad.values.map_values.append(a_map(1, keys=("a",)))
    del bad.values.tensor_values[:]
    with open(f"{DIR}/bad.pb", "wb") as f:
        f.write(bad.SerializeToString())
    assert "the values of a map must be scalars" in dlrun(so, "-i", f"m={DIR}/bad.pb", "-i", f"x={folder}/test_data_set_0/input_1.pb", status=1)


failed = 0
for t in tests:
    try:
        t()
    except Exception as e:  # pylint: disable=broad-except
        failed += 1
        print(f"FAIL: {t.__name__}: {type(e).__name__}: {e}")
print(f"{len(tests) - failed} passed, {failed} failed")
sys.exit(failed > 0)

# SPDX-License-Identifier: Apache-2.0
"""dlrun on artifacts written by hand: test_dlrun.py DLRUN DIR, where DIR has relu_mul.so and nonzero.so."""

import json
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

DLRUN, DIR = sys.argv[1:3]
RELU, NONZERO = DIR + "/relu_mul.so", DIR + "/nonzero.so"
W = np.array([1, -1, 0.5, 2], np.float32)
tests = []


def dlrun(*args, status=0):
    r = subprocess.run([DLRUN, *args], capture_output=True, text=True, timeout=60)
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


@test
def data_faults():
    assert "type is f32, expected f64" in dlrun(RELU, "--data", relu_case("type", dtype=np.float64), status=1)
    folder = relu_case("shape")
    samples.tensor(folder + "/test_data_set_0/output_0.pb", np.zeros((5, 3), np.float32), "y")
    assert "dim 1 is 4, expected 3" in dlrun(RELU, "--data", folder, status=1)
    samples.tensor(folder + "/test_data_set_0/input_0.pb", np.zeros((5, 3), np.float32), "x")
    assert 'input "x": dim 1 is 3, expected 4' in dlrun(RELU, "--data", folder, status=1)
    os.remove(folder + "/test_data_set_0/input_0.pb")
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
    samples.tensor(folder + "/input_1.pb", np.array([3, 0, 16, 0], np.int64), "x")
    text = dlrun(NONZERO, "--data", DIR + "/ints", status=1)
    assert 'FAIL: node "/Gather" (Gather): index out of range' in text


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


def dlrun_npy(array):
    np.save(DIR + "/bad.npy", array)
    return dlrun(RELU, "-i", f"x={DIR}/bad.npy", status=1)


@test
def bench():
    text = dlrun(RELU, "--bench", "--dim", "N=100", "--threads", "2", "--seconds", "0.1")
    r = json.loads(text)
    assert text.count("\n") == 1 and r.pop("threads") == 2 and r.pop("dims") == {"N": 100} and r.pop("device") == "cpu", text
    assert list(r) == ["median_ms", "p95_ms", "min_ms", "runs", "peak_rss_kib"], text
    assert 0 < r["min_ms"] <= r["median_ms"] <= r["p95_ms"] and r["runs"] >= 3
    json.loads(dlrun(NONZERO, "--bench", "--json", "--dim=N=7", "--seconds=0.1"))
    assert '--dim M=1: the model has no such dim of inputs; it has "N"\n' in dlrun(RELU, "--bench", "--dim", "M=1", status=1)
    text = dlrun(RELU, "--bench", "--seconds=0.01")
    assert text.splitlines()[1:] == ['  note: no --dim says what "N" is, so it is 1; write --dim "N"=VALUE'], text
    text = dlrun(NONZERO, "--bench", "--dim", "found=1", status=1)
    assert '--dim found=1: the model has no such dim of inputs; it has "N"\n' in text, text
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
def usage():
    for arguments, says in (((), "no model"), ((RELU, "--nonsense"), "unknown option --nonsense"),
                            ((RELU, "--threads", "-1"), "--threads -1: a whole number; 0 is all CPUs"),
                            ((RELU, "--threads=abc"), "--threads abc: a whole number; 0 is all CPUs"),
                            ((RELU, "--threads"), "--threads: a whole number; 0 is all CPUs"),
                            ((RELU, "--seconds", "0"), "--seconds 0: a number above 0"),
                            ((RELU, "--atol=x"), "--atol x: a number from 0"),
                            ((RELU, "--dim", "x"), "--dim x: write NAME=VALUE"),
                            ((RELU, "-i", "x.npy"), "-i x.npy: write NAME=FILE"),
                            ((RELU, "-i", "x=a.npy", "-i", "xy=a.npy", "-i", "x=b.npy"), "-i x=b.npy: an earlier one says otherwise"),
                            ((RELU, "--dim", "N=1", "--dim=N=2"), "--dim N=2: an earlier one says otherwise"),
                            ((RELU, "-o", "a", "-o", "b"), "-o b: an earlier one says otherwise"),
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
    assert "neither .npy nor .pb" in dlrun(RELU, "-i", "x=app.c", status=1)
    assert "/nodir/x.json: error: No such file" in dlrun(RELU, "--profile=/nodir/x.json", status=1)
    assert "usage" in dlrun("--help")
    assert re.fullmatch(r"dlrun [0-9.]+, for API [0-9]+\n", dlrun("--version"))


failed = 0
for t in tests:
    try:
        t()
    except Exception as e:  # pylint: disable=broad-except
        failed += 1
        print(f"FAIL: {t.__name__}: {type(e).__name__}: {e}")
print(f"{len(tests) - failed} passed, {failed} failed")
sys.exit(failed > 0)

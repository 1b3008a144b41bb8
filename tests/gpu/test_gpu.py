# SPDX-License-Identifier: Apache-2.0
"""Artifacts with code for GPUs, run by dlrun under the simulator: test_gpu.py BUILD DIR."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnx.reference
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:3])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = os.environ.get("DLCC_FLAGS", "").split()
CFLAGS = os.environ.get("CFLAGS", "").split()
tests = []


def test(fn):
    tests.append(fn)
    return fn


def run(*command, status=0, sim=True, seconds=120, **env):
    e = samples.simulated(BUILD, **env)
    if not sim:
        del e["LD_LIBRARY_PATH"]
    r = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=e, cwd=DIR)
    assert r.returncode == status, f"{' '.join(command)}: status {r.returncode}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def dlrun(*args, **rest):
    return run(BUILD + "/bin/dlrun", *args, **rest)


def compiled(name, *options, targets="cuda:sm_80", suffix=".so"):
    out = f"{DIR}/{name}{suffix}"
    run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "-o", out, f"--target={targets}", *FLAGS, *options)
    return out


def model(name, text, constants={}):
    """CONSTANTS: of the inputs, those that are part of it."""
    m = samples.model(text)
    m.graph.initializer.extend(numpy_helper.from_array(np.ascontiguousarray(x), v) for v, x in constants.items())
    inputs = [x for x in m.graph.input if x.name not in constants]
    del m.graph.input[:]
    m.graph.input.extend(inputs)
    onnx.save(m, f"{DIR}/{name}.onnx")


def case(name, k, inputs, outputs):
    for role, values in ("input", inputs), ("output", outputs):
        samples.tensors(f"{DIR}/{name}/test_data_set_{k}", role, values)


def rng(k):
    return np.random.default_rng(k)


model("add", "add (float[N,17] x, float[17] b) => (float[N,17] y) { s = Add(x, b)  y = Relu(s) }")
for n, rows in enumerate((1, 5, 300)):
    x, b = rng(n).standard_normal((rows, 17)).astype(np.float32), rng(99).standard_normal(17).astype(np.float32)
    case("add", n, {"x": x, "b": b}, {"y": np.maximum(x + b, 0)})

model("rows", "rows (float[N,S] x) => (float[N,S] p, float[N] m, int64[N,1] i) <int64[1] one = {1}> {"
      " p = Softmax<axis=1>(x)  m = ReduceSum<keepdims=0>(x, one)  i = ArgMax<axis=1>(x) }")
for n, (rows, cols) in enumerate(((1, 1), (3, 33), (7, 500), (2, 5000))):
    x = rng(n).standard_normal((rows, cols)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    case("rows", n, {"x": x}, {"p": (e / e.sum(1, keepdims=True)).astype(np.float32),
                               "m": x.astype(np.float64).sum(1).astype(np.float32), "i": x.argmax(1)[:, None]})

model("bytes", "bytes (bool[N,64,66] x, int8[N,64,130] z) => (float[N,66] n, int8[N,130] m) <int64[1] one = {1}> {"
      " f = Cast<to=1>(x)  n = ReduceSum<keepdims=0>(f, one)  m = ReduceMax<keepdims=0>(z, one) }")
x, z = rng(10).random((2, 64, 66)) < 0.5, rng(11).integers(-128, 128, (2, 64, 130), np.int8)
case("bytes", 0, {"x": x, "z": z}, {"n": x.sum(1).astype(np.float32), "m": z.max(1)})

# Rows of 4 KiB in shared memory, and scales that the rows of a block share.
model("twice", "twice (float[N,16,64] x, float[16,64] s, float[16,64] t) => (float[N,16,64] y) <int64[2] both = {1, 2}> {"
      " a = Softmax<axis=1>(x)  b = Softmax<axis=2>(a)  m = ReduceMax(b, both)  c = Sub(b, m)  d = Mul(c, s)  y = Add(d, t) }")
x, s, t = (rng(12 + i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(((3, 16, 64), (16, 64), (16, 64))))
e = np.exp(x.astype(np.float64))
e = np.exp(e / e.sum(1, keepdims=True))
e /= e.sum(2, keepdims=True)
case("twice", 0, {"x": x, "s": s, "t": t}, {"y": ((e - e.max((1, 2), keepdims=True)) * s + t).astype(np.float32)})

model("pick", "pick (float[4,3] t, int64[N] i) => (float[N,3] y) { y = Gather(t, i) }")
t = np.arange(12, dtype=np.float32).reshape(4, 3)
case("pick", 0, {"t": t, "i": np.array([3, -1, 0])}, {"y": t[[3, 3, 0]]})
case("astray", 0, {"t": t, "i": np.array([3, 4, 0])}, {"y": t[[3, 3, 0]]})

model("dense", "dense (float[N,64] x) => (float[N,10] y) <float[64,10] w, float[10] b> { m = MatMul(x, w)  y = Add(m, b) }")
weights = onnx.load(f"{DIR}/dense.onnx")
W, B = rng(7).standard_normal((64, 10)).astype(np.float32), rng(8).standard_normal(10).astype(np.float32)
del weights.graph.initializer[:]
weights.graph.initializer.extend([numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")])
onnx.save(weights, f"{DIR}/dense.onnx")
x = rng(9).standard_normal((6, 64)).astype(np.float32)
case("dense", 0, {"x": x}, {"y": x @ W + B})


@test
def parameters_beyond_a_launch():
    names = range(180)
    model("many", "g (" + ", ".join(f"float[a{i}, b{i}] x{i}" for i in names) + ") => (float[y0, y1] y) { [Most] y = Max(" +
          ", ".join(f"x{i}" for i in names) + ") }")
    said = run(BUILD + "/bin/dlcc", f"{DIR}/many.onnx", "-o", f"{DIR}/many.so", "--target=cuda:sm_80", status=1)
    assert "Most" in said and "a launch on a GPU takes 512" in said, said


@test
def a_dynamic_batch():
    so = compiled("add")
    text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/add")
    assert text.count(": ok\n") == 4, text
    assert json.loads(dlrun(so, "--bench", "--seconds=0.05"))["device"] == "cuda:0 ptxsim sm_80"
    assert json.loads(dlrun(so, "--bench", "--seconds=0.05", "--device=cpu"))["device"] == "cpu"


@test
def speeds():
    """Beside times, what the GPU's memory has to do and can do: 5120 bits at 1215 MHz, twice."""
    options = compiled("dense"), "--bench", "--profile", "--seconds=0.05", "--dim", "N=100"
    timing, *_, last = dlrun(*options, "--device=cuda").splitlines()
    t, weights, tensors = json.loads(timing), 4 * (64 * 10 + 10), 4 * (100 * 64 + 100 * 10)
    assert weights <= t["bytes"] - tensors <= 1.5 * weights and t["peak_gb_per_s"] == 1555, timing
    assert abs(t["gb_per_s"] * t["median_ms"] * 1e6 / t["bytes"] - 1) < 1e-3, timing
    m = re.fullmatch(r"cuda:0 ptxsim sm_80: 0.002 ms of kernels a run; weights, inputs and outputs are 0.033 MB, ([0-9.]+) GB/s of the memory's 1555 \(1.1%\)", last)
    assert m and abs(float(m[1]) - t["bytes"] / 2000) < 0.1, last
    text = dlrun(*options, "--device=cpu")
    assert "peak_gb_per_s" not in text and "GB/s" not in text, text


@test
def rows_by_warps_and_blocks():
    dlrun(compiled("rows"), "--device", "cuda", "--data", f"{DIR}/rows")


@test
def any_order_of_warps():
    for seed in range(1, 17):
        dlrun(f"{DIR}/rows.so", "--device", "cuda", "--data", f"{DIR}/rows", PTXSIM_SEED=seed)


@test
def columns_of_bytes():
    """A warp along columns of one byte, of which two are one access."""
    dlrun(compiled("bytes"), "--device", "cuda", "--data", f"{DIR}/bytes")


@test
def rows_with_much_to_share():
    """What a block shares is counted for all of its rows: ptxas and GPUs take no more than 48 KiB."""
    dlrun(compiled("twice"), "--device", "cuda", "--data", f"{DIR}/twice")
    text = open(compiled("twice", suffix=".ptx")).read()
    for kernel in text.split(".version")[1:]:
        sizes = re.findall(r"\.shared \.align \d+ \.b(\d+) [\w$]+\[(\d+)\]", kernel)
        assert 0 < sum(int(bits) // 8 * int(n) for bits, n in sizes) <= 48 << 10, sizes


# Rows of which threads keep more than registers hold, in scratch: TEXT with T for the element type and n for the length.
LONG = {
    # two rows in scratch at once, and sums of both
    "softmaxes": ("(T[N,n] x, T[N,n] z) => (T[N,n] y) { a = Softmax(x) b = Softmax(z) y = Add(a, b) }", ("float", 20000), ("float", 17001)),
    # of f16 in what code may declare, were there no partial states
    "softmax": ("(T[N,n] x) => (T[N,n] y) { y = Softmax(x) }", ("float16", 40000), ("float16", 32770), ("float", 50257), ("double", 20000)),
    # what is made of a row takes its place, but not that of what is read after it
    "turns": ("(T[N,n] x) => (T[N,n] y) <int64[1] one = {1}> { m = ReduceMax(x, one) e = Exp(x) s = ReduceSum(e, one) f = Sin(e) g = Exp(f)"
              " q = ReduceSum(g, one) r = Div(g, q) t = Mul(r, s) u = Add(t, e) y = Add(u, m) }", ("float", 40000), ("float", 60000)),
    "three": ("(T[N,n] x, T[N,n] z, T[N,n] w) => (T[N,n] y) <int64[1] one = {1}> { p = ReduceMax(x, one) q = ReduceMax(z, one) r = ReduceMin(w, one)"
              " a = Mul(x, q) b = Mul(z, r) c = Mul(w, p) d = Add(a, b) y = Add(d, c) }", ("float", 18000), ("float16", 30001)),
    # results that wrap are read as they are in memory
    "wrapped": ("(T[N,n] x, T[N,n] z) => (T[N,n] s, int32[N,n] y) <int64[1] one = {1}> { s = Add(x, z) c = Cast<to = 6>(s) m = ReduceSum(c, one)"
                " y = Sub(c, m) }", ("uint8", 60000), ("uint8", "L")),
    # nobody reads the last but one, which is stored all the same
    "unread": ("(T[N,n] x, T[n] z) => (T[N,n] y) <int64[1] one = {1}> { p = Mul(x, x) a = Add(x, p) m = ReduceMin(a, one) b = Mul(z, a) c = Sub(b, m)"
               " d = Sub(c, c) e = Sub(a, d) f = Add(e, x) y = Add(f, m) }", ("uint8", 40000)),
    # nothing of it is read from memory
    "made": ("(T[2,n] x, T s) => (T[2,n] y) <int64[1] one = {1}> { e = EyeLike(x) a = Mul(e, s) b = Sin(a) t = Exp(b) r = ReduceSum(t, one)"
             " y = Div(t, r) }", ("float", 60000)),
}


@test
def rows_that_go_on_in_scratch():
    for name, (text, *of) in LONG.items():
        for t, n in of:
            model("long", "long " + text.replace("T[", f"{t}[").replace("T s", f"{t} s").replace("n]", f"{n}]"))
            m = onnx.load(f"{DIR}/long.onnx")
            shape = 2, 60000 if n == "L" else n
            draw = {"uint8": lambda r: r.integers(0, 256, shape, np.uint8), "float16": lambda r: r.standard_normal(shape).astype(np.float16),
                    "float": lambda r: r.standard_normal(shape).astype(np.float32), "double": lambda r: r.standard_normal(shape)}[t]
            feeds = {x.name: draw(rng(20 + i))[0 if x.name == "z" and name == "unread" else slice(None)] if x.name != "s" else np.array(0.5, np.float32) for i, x in enumerate(m.graph.input)}
            results = onnx.reference.ReferenceEvaluator(m).run(None, feeds)
            case("long", 0, feeds, dict(zip((o.name for o in m.graph.output), results)))
            compiled("long", "--verify", "-Werror=unproved")
            for seed in 1, 2:
                dlrun(f"{DIR}/long.so", "--device", "cuda", "--data", f"{DIR}/long", PTXSIM_SEED=seed)


@test
def weights_in_every_form():
    dlrun(compiled("dense"), "--device", "cuda", "--data", f"{DIR}/dense")
    dlrun(f"{DIR}/dense.so", "--device", "cpu", "--data", f"{DIR}/dense")
    dlrun(compiled("dense", f"--weights={DIR}/w.bin"), "--device", "cuda", "--data", f"{DIR}/dense")
    c = compiled("dense", suffix=".c")
    run("cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native", "-w",
        f"-I{BUILD}/include", c, f"{BUILD}/lib/libdlrt.a", "-lpthread", "-ldl", "-o", f"{DIR}/dense_c.so", sim=False)
    os.rename(f"{DIR}/dense_c.so", f"{DIR}/dense.so")
    dlrun(f"{DIR}/dense.so", "--device", "cuda", "--data", f"{DIR}/dense")


@test
def several_targets():
    so = compiled("add", targets="cuda:sm_80,sm_90a,cpu:v2,v3")
    assert "x86-64-v3 x86-64-v2 sm_90a sm_80" in dlrun(so, "--describe")
    for sm, ok in (75, False), (80, True), (90, True), (120, True):
        text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/add", status=0 if ok else 1, PTXSIM_SM=sm)
        assert ok or "this GPU is sm_75" in text, text


@test
def without_a_driver():
    so = compiled("add")
    assert json.loads(dlrun(so, "--bench", "--seconds=0.05", sim=False))["device"] == "cpu"
    text = dlrun(so, "--data", f"{DIR}/add", sim=False)
    assert text.startswith("device: cpu\n") and "warning" not in text, text
    assert dlrun(so, "--data", f"{DIR}/add").startswith("device: cuda:0 ptxsim sm_80\n")
    text = dlrun(so, "--device=cuda", "--data", f"{DIR}/add", sim=False, status=1)
    assert "no GPU: libcuda.so.1" in text, text


def program(name, text):
    with open(f"{DIR}/{name}", "w") as f:
        f.write("#!/bin/sh\n" + text + "\n")
    os.chmod(f"{DIR}/{name}", 0o755)
    return f"{DIR}/{name}"


def modules_loaded(so, sm):
    text = dlrun(so, "--device=cuda", "--data", f"{DIR}/rows", PTXSIM_TRACE=1, PTXSIM_SM=sm)
    return text.count(": cuModuleLoadDataEx\n")


@test
def cubins_travel_with_the_ptx():
    """Only a GPU of just that capability gets the cubin; the simulator takes none, and then gets the PTX."""
    write = program("ptxas", "while [ $# -gt 1 ]; do [ $1 = -o ] && out=$2; shift; done; grep -q '^.visible .entry' $1 && printf '\\177ELF is no code' >$out")
    so = compiled("rows", "--cubin=yes", f"--ptxas={write}", targets="cuda:sm_80,sm_86")
    assert open(so, "rb").read().count(b"\177ELF is no code") == 2
    assert [modules_loaded(so, sm) for sm in (80, 86, 89)] == [2, 2, 1]
    assert modules_loaded(compiled("rows"), 80) == 1


@test
def without_ptxas():
    """No cubins unless they are asked for; then it is an error that there is no ptxas, or that it fails."""
    rest = {"sim": False, "CUDA_HOME": DIR + "/none"}
    compile = [BUILD + "/bin/dlcc", f"{DIR}/rows.onnx", "-o", f"{DIR}/cubin.so", "--target=cuda:sm_80"]
    assert "--ptxas=/none/ptxas: there is no such program" in run(*compile, "--cubin=yes", "--ptxas=/none/ptxas", status=1, **rest)
    broken = program("broken", "echo ptxas does not know sm_80; exit 1")
    text = run(*compile, "--cubin=yes", f"--ptxas={broken}", status=1, **rest)
    assert "ptxas failed" in text and "ptxas does not know sm_80" in text, text
    if not os.path.exists("/usr/local/cuda/bin/ptxas") and not shutil.which("ptxas"):
        assert "needs ptxas, which is not on PATH" in run(*compile, "--cubin=yes", status=1, **rest)
    assert not os.path.exists(f"{DIR}/cubin.so")
    assert "it is yes or no" in run(*compile, "--cubin=maybe", status=2, **rest)
    os.rename(broken, DIR + "/ptxas")
    if "--sanitize" not in FLAGS:
        plain = open(compiled("rows", "--name=cubin"), "rb").read()
        run(*compile, *FLAGS, PATH=DIR + ":" + os.environ["PATH"], **rest)
        assert open(f"{DIR}/cubin.so", "rb").read() == plain


@test
def devices_that_are_not():
    so = f"{DIR}/add.so"
    assert "no such GPU; the last is cuda:0" in dlrun(so, "--device=cuda:3", "--bench", status=1)
    assert "it is auto, cpu, cuda or cuda:N" in dlrun(so, "--device=tpu", "--bench", status=1)
    plain = compiled("add", targets="cpu")
    assert "compiled without code for GPUs" in dlrun(plain, "--device=cuda", "--bench", status=1)
    assert json.loads(dlrun(plain, "--bench", "--seconds=0.05"))["device"] == "cpu"


@test
def an_index_out_of_range():
    so = compiled("pick")
    dlrun(so, "--device", "cuda", "--data", f"{DIR}/pick")
    text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/astray", status=1)
    assert "(Gather): index out of range" in text, text


@test
def no_gpu_is_to_be_seen():
    so = compiled("add")
    for env in {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}, {"PTXSIM_DEVICES": 0}:
        assert dlrun(so, "--data", f"{DIR}/add", **env).startswith("device: cpu\n")
        assert "no GPU: CUDA_ERROR_NO_DEVICE" in dlrun(so, "--device=cuda", "--data", f"{DIR}/add", status=1, **env)


@test
def a_gpu_or_a_driver_older_than_the_code():
    """The CPU computes where nobody asked for a GPU; who did reads why not, with what the driver's compiler says."""
    so = compiled("add")
    text = dlrun(so, "--data", f"{DIR}/add", PTXSIM_SM=75)
    assert text.startswith("device: cpu\n") and "dlrun: warning: add: on the CPU: " in text and "this GPU is sm_75" in text, text
    ptx = open(compiled("add", suffix=".ptx")).read()
    for changed, said in (re.sub(r"\.version \S+", ".version 99.1", ptx), "UNSUPPORTED_PTX_VERSION.*Unsupported .version 99.1"), (ptx.replace("ld.global", "ld.glibal"), "INVALID_PTX.*line"):
        assert changed != ptx
        open(f"{DIR}/changed.ptx", "w").write(changed)
        env = {"PTXSIM_QUIET": 1, "PTXSIM_REPLACE": f"{DIR}/changed.ptx"}
        assert dlrun(so, "--data", f"{DIR}/add", **env).startswith("device: cpu\n")
        text = dlrun(so, "--device=cuda", "--data", f"{DIR}/add", status=1, **env)
        assert re.search("its driver does not take the kernels: CUDA_ERROR_" + said, text), text


def calls(*args, **env):
    dlrun(*args, PTXSIM_STATS=f"{DIR}/stats.json", **env)
    return json.load(open(f"{DIR}/stats.json"))


def calls_until(name, so):
    """The number of the first call of NAME when SO is loaded."""
    trace = dlrun(so, "--device=cuda", "--bench", "--seconds=0.01", PTXSIM_TRACE=1)
    return next(n for n, called in re.findall(r"^ptxsim: call (\d+): (\w+)$", trace, re.M) if called == name)


def allocations(counts):
    return sum(n for name, n in counts.items() if "Alloc" in name)


@test
def runs_allocate_nothing():
    so = compiled("rows")
    few = calls(so, "--device=cuda", "--data", f"{DIR}/rows")["calls"]
    many = calls(so, "--device=cuda", "--bench", "--seconds=0.3", "--dim", "N=3", "--dim", "S=40")["calls"]
    runs = many["cuStreamSynchronize"]
    assert runs > 10 and allocations(many) <= allocations(few) + 2, (few, many)


model("sizes", "sizes (float[1] x, float[1] e) => (float[K] y) <float[1] two = {2}> {"
      " p = Pow(two, e)  n = Cast<to=7>(p)  y = Expand(x, n) }")
model("largest", "largest (float[1] x, float[100] v) => (float[K] y) <int64[1] zero = {0}> {"
      " m = ReduceMax<keepdims=1>(v, zero)  n = Cast<to=7>(m)  y = Expand(x, n) }")
case("largest", 0, {"x": np.ones(1, np.float32), "v": np.arange(100, dtype=np.float32) / 9}, {"y": np.ones(11, np.float32)})
model("mask", """mask (int64[B,S] ids, float[B,S] keep) => (float[B,S,16] y)
      <int64[4] heads = {0, 0, 4, 4}, int64[1] d = {16}, int64[1] one = {1}, int64 i0 = {0}, int64 i1 = {1},
       int64[1] a0 = {0}, int64[1] a12 = {2}> {
      c = Cast<to=1>(ids)  c3 = Unsqueeze(c, a12)  w = Constant<value = float[1,16] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>()  h = Mul(c3, w)  s = Shape(ids)  b = Gather(s, i0)  n = Gather(s, i1)
      q4 = Reshape(h, heads)  q = Transpose<perm=[0,2,1,3]>(q4)  kt = Transpose<perm=[0,2,3,1]>(q4)
      scores = MatMul(q, kt)  m1 = Unsqueeze(keep, one)  m2 = Unsqueeze(m1, a12)  masked = Add(scores, m2)
      p = Softmax<axis=3>(masked)  mixed = MatMul(p, q)  back = Transpose<perm=[0,2,1,3]>(mixed)
      b1 = Unsqueeze(b, a0)  n1 = Unsqueeze(n, a0)  shape = Concat<axis=0>(b1, n1, d)  y = Reshape(back, shape) }""")


@test
def sizes_that_depend_on_inputs():
    compiled("sizes", "-Werror=fallback")
    assert run(c_program("sizes"), DIR) == "ok\n"
    assert "input e: f32[1] (sizes depend on it)" in dlrun(f"{DIR}/sizes.so", "--describe")


@test
def sizes_that_depend_on_the_gpu():
    so = compiled("largest")
    said = dlrun(so, "--device", "cuda", "--data", f"{DIR}/largest")
    assert "ok" in said, said
    refused = run(BUILD + "/bin/dlcc", f"{DIR}/largest.onnx", "-o", f"{DIR}/x.so", "--target=cuda:sm_80", "-Werror=fallback", *FLAGS, status=1)
    assert '(ReduceMax): the GPU\'s run waits for a copy' in refused, refused


@test
def attention_of_any_batch_and_length_needs_none():
    text = run(BUILD + "/bin/dlcc", f"{DIR}/mask.onnx", "--target=cuda:sm_80", "--dump-ir=place", "-Werror=fallback")
    gpu = text.split("; after place")[-1]
    assert "Kernel(" in gpu and "Copy" not in gpu and not re.search(r"\] (host|both)\b", gpu), gpu


@test
def tensors_and_a_stream_of_the_caller():
    compiled("add")
    assert run(c_program("pointers"), DIR) == "ok\n"


SANITIZERS = {"asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"], "tsan": ["-fsanitize=thread"]}


def sanitized(name, way, test, **env):
    """The C program TEST of this folder over the model NAME, both and the runtime under a sanitizer."""
    folder = f"{DIR}/{way}"
    os.makedirs(folder, exist_ok=True)
    c = compiled(name, targets="cpu:native,cuda:sm_80", suffix=".c")
    flags = ["-std=gnu11", "-g", "-O1", "-fPIC", "-w", "-D_GNU_SOURCE", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native",
             "-fvisibility=hidden", f"-I{ROOT}", f"-I{BUILD}/include", *SANITIZERS[way]]
    run("cc", *flags, "-shared", c, *glob.glob(f"{ROOT}/runtime/*.c"), "-lpthread", "-ldl", "-o", f"{folder}/{name}.so", sim=False)
    run("cc", *flags, f"{ROOT}/tests/gpu/{test}.c", "-lpthread", "-ldl", "-lm", "-o", f"{folder}/{test}", sim=False)
    assert run(f"{folder}/{test}", folder, **env).endswith("ok\n")


def c_program(name):
    """The C program NAME of this folder, built."""
    run("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", *CFLAGS, f"-I{ROOT}", f"{ROOT}/tests/gpu/{name}.c", "-ldl", "-lm", "-o", f"{DIR}/{name}", sim=False)
    return f"{DIR}/{name}"


model("few", "few (float[1] x, int64[1] n) => (float[K] y) { y = Expand(x, n) }")

model("same", "same (float[N] x) => (float[N] y, float[N] z) { y = Identity(x)  z = Relu(x) }")
model("chain", "chain (float[N,8] x, float[8,8] w) => (float[N,8] y) { t = MatMul(x, w)  y = MatMul(t, w) }")


@test
def graphs():
    for name in "add", "pick", "few", "largest", "same", "chain":
        compiled(name)
    open(f"{DIR}/twice.dl", "w").write(
        "dlir 1\ngraph @main(%x: f32[N], %z: f32[2*N]) -> (%y) {\n  %y = Concat(%x, %z) {axis = 0} : f32[3*N]\n}\n")
    run(BUILD + "/bin/dlcc", f"{DIR}/twice.dl", "-o", f"{DIR}/twice.so", "--target=cuda:sm_80", *FLAGS)
    for program in "graphs", "values":
        for seed in range(3):
            assert run(c_program(program), DIR, PTXSIM_SEED=seed) == "ok\n"


def with_weights(name, text, **weights):
    """A model whose inputs beyond those of TEXT are constants."""
    model(name, text)
    m = onnx.load(f"{DIR}/{name}.onnx")
    m.graph.initializer.extend(numpy_helper.from_array(w, k) for k, w in weights.items())
    onnx.save(m, f"{DIR}/{name}.onnx")


def normal(*shape):
    return (rng(len(shape)).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


with_weights("bert", """bert (int64[B,S] ids, float[B,S] mask) => (float[B,S,16] y)
  <int64[4] heads = {0, 0, 2, 8}, int64[3] flat = {0, 0, 16}, int64[2] ax = {1, 2}, float scale = {0.35355339}, float one = {1}, float low = {-10000}> {
  e = Gather(table, ids)  x = LayerNormalization(e, g, b)
  q0 = MatMul(x, wq)  q1 = Reshape(q0, heads)  q = Transpose<perm=[0,2,1,3]>(q1)
  k0 = MatMul(x, wk)  k1 = Reshape(k0, heads)  k = Transpose<perm=[0,2,3,1]>(k1)
  v0 = MatMul(x, wv)  v1 = Reshape(v0, heads)  v = Transpose<perm=[0,2,1,3]>(v1)
  s0 = MatMul(q, k)  s1 = Mul(s0, scale)  m0 = Sub(one, mask)  m1 = Mul(m0, low)  m2 = Unsqueeze(m1, ax)
  s2 = Add(s1, m2)  p = Softmax<axis=-1>(s2)  c0 = MatMul(p, v)  c1 = Transpose<perm=[0,2,1,3]>(c0)  c = Reshape(c1, flat)
  o = MatMul(c, wo)  r = Add(o, x)  n = LayerNormalization(r, g, b)  f0 = MatMul(n, w1)  f1 = Gelu(f0)  f = MatMul(f1, w2)
  t = Add(f, n)  y = LayerNormalization(t, g, b) }""", table=normal(32, 16), g=normal(16), b=normal(16), wq=normal(16, 16), wk=normal(16, 16),
             wv=normal(16, 16), wo=normal(16, 16), w1=normal(16, 64), w2=normal(64, 16))
with_weights("cnn", """cnn (float[1,3,20,20] x) => (float[1,10] y) {
  c = Conv<pads=[3,3,3,3], strides=[2,2]>(x, k0, b0)  r = Relu(c)  p = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(r)
  c1 = Conv<pads=[1,1,1,1]>(p, k1)  r1 = Relu(c1)  c2 = Conv<pads=[1,1,1,1]>(r1, k2)  a = Add(c2, p)  r2 = Relu(a)
  g = GlobalAveragePool(r2)  f = Flatten(g)  y = Gemm(f, w, bias) }""", k0=normal(8, 3, 7, 7), b0=normal(8), k1=normal(8, 8, 3, 3),
             k2=normal(8, 8, 3, 3), w=normal(8, 10), bias=normal(10))


@test
def every_call_of_the_driver_fails():
    sanitized("dense", "asan", "faults")


with_weights("plain", """plain (float[N,64,64] x) => (float[N,64,64] y) {
  t = Transpose<perm=[1,0]>(w)  e = Exp(v)  s = Add(x, u)  a = Add(s, t)  y = Mul(a, e) }""", u=normal(64, 64), v=normal(64, 64), w=normal(64, 64))
with_weights("table", "table (int64[N] i) => (float[N,64] y) { e = Gather(table, i)  y = Mul(e, scale) }", table=normal(4096, 64), scale=normal(64))


@test
def weights_that_all_share():
    """A table that CPUs and GPUs read as it is stands in the artifact once."""
    w = {t.name: numpy_helper.to_array(t) for t in onnx.load(f"{DIR}/table.onnx").graph.initializer}
    i = np.array([3, 4095, 0, 77])
    case("table", 0, {"i": i}, {"y": w["table"][i] * w["scale"]})
    so = compiled("table", targets="cpu:v3,cuda:sm_80")
    sections = run("readelf", "-SW", so, sim=False)
    size = int(re.search(r"\.dlcc\.weights\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections).group(1), 16)
    assert 4096 * 256 <= size <= 4096 * 256 + 1024, size
    for device in "cpu", "cuda":
        dlrun(so, f"--device={device}", "--data", f"{DIR}/table")


@test
def constants_that_all_have_alike():
    """Whether they are as the model has them, moved or computed: where both want them in one layout they are in the artifact once."""
    sections = run("readelf", "-SW", compiled("plain", targets="cpu:v3,cuda:sm_80"), sim=False)
    size = int(re.search(r"\.dlcc\.weights\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections).group(1), 16)
    once = 4 * 3 * 64 * 64
    assert once <= size < 1.1 * once, size
    dims = "--dim", "N=2"
    assert "GB/s" in dlrun(f"{DIR}/plain.so", "--device=cuda", "--profile", *dims)


@test
def ranges_for_tools():
    run("cc", "-std=gnu11", "-w", "-fPIC", "-shared", f"{ROOT}/tests/gpu/ranges.c", "-o", f"{DIR}/ranges.so", sim=False)
    for name, kernels in ("cnn", ["Conv_0", "MaxPool"]), ("dense", ["Add_1, MatMul_0"]):
        dims = ["--dim", "N=3"] if name == "dense" else []
        dlrun(compiled(name), "--device=cuda", "--bench", "--seconds=0.01", *dims, NVTX_INJECTION64_PATH=f"{DIR}/ranges.so", RANGES=f"{DIR}/ranges.txt")
        lines = open(f"{DIR}/ranges.txt").read().split("\n")
        assert lines[0] == name and all(any(k in line for line in lines if line.startswith("  ")) for k in kernels), lines[:20]
    # What is no tool is no matter.
    dlrun(f"{DIR}/dense.so", "--device=cuda", "--data", f"{DIR}/dense", NVTX_INJECTION64_PATH="/nowhere.so")


@test
def times_of_kernels():
    """Events around kernels become a trace; each run has every kernel once."""
    dlrun(compiled("cnn"), "--device=cuda", "--bench", "--seconds=0.01", DLCC_PROFILE=f"{DIR}/trace.json")
    events = sorted(json.load(open(f"{DIR}/trace.json"))["traceEvents"], key=lambda e: e["ts"])
    names = [e["name"] for e in events]
    kernels = set(names)
    assert len(kernels) > 4 and len(names) % len(kernels) == 0, names[:40]
    assert all(set(names[i:i + len(kernels)]) == kernels for i in range(0, len(names), len(kernels))), names[:40]
    assert all(e["dur"] > 0 for e in events)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(events, events[1:]))


@test
def what_the_driver_says_of_a_kernel_with_a_long_name():
    """Whatever ran before, the text ends with the driver's words."""
    long = [letter * 300 for letter in "abc"]
    model("long", f"long (float[N,8] x, float[8,8] w) => (float[N,8] y) {{ [{long[0]}] s = Sin(x)  [{long[1]}] t = MatMul(s, w)  [{long[2]}] y = Softmax(t) }}")
    case("long", 0, {"x": np.zeros((3, 8), np.float32), "w": np.zeros((8, 8), np.float32)}, {"y": np.full((3, 8), 1 / 8, np.float32)})
    options = compiled("long"), "--device=cuda", "--data", f"{DIR}/long"
    trace = re.findall(r"^ptxsim: call (\d+): (\w+)$", dlrun(*options, PTXSIM_TRACE=1), re.M)
    for call, code, said in ("cuLaunchKernel", 999, "UNKNOWN: unknown error"), ("cuLaunchKernel", 719, "LAUNCH_FAILED: unspecified launch failure"), \
                            ("cuStreamSynchronize", 719, "LAUNCH_FAILED: unspecified launch failure"):
        n = [n for n, called in trace if called == call][-1]
        text = dlrun(*options, status=1, PTXSIM_FAIL=f"{n}:{code}")
        assert long[0][:50] in text or long[2][:50] in text, text
        assert re.search(f": CUDA_ERROR_{said}$", text, re.M), text


@test
def threads_and_devices():
    sanitized("dense", "tsan", "threads", PTXSIM_DEVICES=2)


@test
def a_guest_of_the_application():
    for name in "dense", "chain":
        compiled(name)
    assert run(c_program("guest"), DIR, PTXSIM_DEVICES=2) == "ok\n"


@test
def a_child_of_fork():
    compiled("dense")
    assert run(c_program("forked"), DIR) == "ok\n"


@test
def whole_models_on_the_gpu():
    whole = c_program("whole")
    for name, *dims in ("bert", "B=2", "S=7"), ("cnn",):
        compiled(name)
        assert run(whole, DIR, name, *dims) == "ok\n"


@test
def full_size_models_on_the_gpu():
    """Those of BENCH, in make check-all: all of them on the GPU, and small runs of them computed."""
    bench = os.environ.get("BENCH", os.path.join(ROOT, "..", "shared", "bench"))
    for name, computed, counted in (("bert_base", ["batch=1", "seq=5"], ["batch=3", "seq=77"]), ("resnet50", ["batch=1"], ["batch=2"])):
        graph = f"{bench}/graphs/{name}.onnx"
        if os.environ.get("TESTS") != "all" or not os.path.exists(graph):
            continue
        folder = f"{DIR}/{name}-full"
        run(sys.executable, f"{bench}/materialise.py", graph, folder, sim=False, seconds=600)
        run(f"{BUILD}/bin/dlcc", f"{folder}/model.onnx", "-o", f"{folder}/{name}.so", "--target=cuda:sm_80", "-Werror=fallback", *FLAGS,
            seconds=600)
        for how in ["count", *counted], computed:
            assert run(c_program("whole"), folder, name, "below=2", *how, seconds=1800) == "ok\n"
        shutil.rmtree(folder)


@test
def dynamic_shared_memory():
    x = rng(1).standard_normal(256).astype(np.float32)
    case("reverse", 0, {"x": x}, {"y": x[::-1]})
    run("cc", "-std=gnu11", "-O1", "-fPIC", "-shared", *CFLAGS, f"-I{ROOT}", f"{ROOT}/tests/gpu/reverse.c", f"{BUILD}/lib/libdlrt.a", "-lpthread",
        "-ldl", "-o", f"{DIR}/reverse.so", sim=False)
    for device in "cpu", "cuda":
        dlrun(f"{DIR}/reverse.so", f"--device={device}", "--data", f"{DIR}/reverse")
    text = dlrun(f"{DIR}/reverse.so", "--device=cuda", "--data", f"{DIR}/reverse", status=1, PTXSIM_FAIL=calls_until("cuFuncSetAttribute", f"{DIR}/reverse.so"))
    assert "reverse: CUDA_ERROR_UNKNOWN" in text, text


def product(name, kind, m, n, k, shape_a=None, factor=lambda x: x, constant="", **attrs):
    """Gemm and what follows it, with reference values; SHAPE_A: the first dims as the model knows them; FACTOR: what is multiplied of a value;
    CONSTANT: the operand that is one."""
    onnx_type = {"f4": "float", "f2": "float16", "f8": "double"}[kind]
    a, b = (k, m) if attrs.get("transA") else (m, k), (n, k) if attrs.get("transB") else (k, n)
    known = shape_a or ",".join(map(str, a))
    out = f"{known.split(',')[attrs.get('transA', 0)]},{n}"
    text = ", ".join(f"{x}={v}" for x, v in {"beta": 1.0, **attrs}.items())
    x, w, c = (rng(i).standard_normal(s).astype(kind) for i, s in enumerate((a, b, (n,))))
    inputs = {"a": x, "b": w, "c": c}
    model(name, f"g ({onnx_type}[{known}] a, {onnx_type}[{b[0]},{b[1]}] b, {onnx_type}[{n}] c) => ({onnx_type}[{out}] y) {{"
                f" p = Gemm<{text}>(a, b, c)  y = Relu(p) }}", {v: inputs[v] for v in constant})
    left, right = factor(x).astype("f8"), factor(w).astype("f8")
    y = (left.T if attrs.get("transA") else left) @ (right.T if attrs.get("transB") else right) + c
    case(name, 0, {v: x for v, x in inputs.items() if v not in constant}, {"y": np.maximum(y, 0).astype(kind)})


def tf32(x):
    """Nearest of 11 significant bits, ties away from zero."""
    return ((x.view(np.uint32).astype(np.uint64) + 0x1000) & 0xffffe000).astype(np.uint32).view(np.float32)


BYTES = {np.int8: "int8", np.uint8: "uint8"}


def byte_product(name, types, m, n, k, turned=(False, False), constant=""):
    """The product of matrices of bytes, TURNED or as they are, widened to i32, and a sum; CONSTANT: the operand that is one."""
    shapes = (m, k), (k, n)
    a, b = (rng(i).integers(np.iinfo(t).min, np.iinfo(t).max + 1, s, t) for i, (t, s) in enumerate(zip(types, shapes)))
    inputs = {v: x.T if t else x for v, x, t in zip("ab", (a, b), turned)}
    c = rng(2).integers(-9, 9, n, np.int32)
    text = ", ".join(f"{BYTES[t]}[{x.shape[0]},{x.shape[1]}] {v}" for t, (v, x) in zip(types, inputs.items()))
    wide = " ".join(f"{v}w = Cast<to = 6>({v}) {v}t = {'Transpose' if t else 'Identity'}({v}w)" for v, t in zip("ab", turned))
    model(name, f"g ({text}, int32[{n}] c) => (int32[{m},{n}] y) {{ {wide} p = MatMul(at, bt) y = Add(p, c) }}", {v: inputs[v] for v in constant})
    case(name, 0, {**{v: x for v, x in inputs.items() if v not in constant}, "c": c}, {"y": a.astype(np.int32) @ b.astype(np.int32) + c})


def less_zero_points(name, op, arrays, zeros, turned=(False, False)):
    """OP of ARRAYS less the ZEROS that are there, all of them inputs of bytes; what is computed, by values in i64. Returns its matrix instructions."""
    inputs, values, text = {}, [], ""
    for v, x, z, t in zip("ab", arrays, zeros, turned):
        inputs[v] = x.T if t else x
        text += f" {v}w = Cast<to = 6>({v}) {v}t = {'Transpose' if t else 'Identity'}({v}w)"
        if z is None:
            text += f" {v}s = Identity({v}t)"
        else:
            inputs[v + "z"] = z
            text += f" {v}y = Cast<to = 6>({v}z) {v}s = Sub({v}t, {v}y)"
        values.append(x.astype(np.int64) - (0 if z is None else z.astype(np.int64)))
    y = (convolution(*values) if op == "Conv" else values[0] @ values[1]).astype(np.int32)
    types = ", ".join(f"{BYTES[x.dtype.type]}{str(list(x.shape)) * bool(x.ndim)} {v}" for v, x in inputs.items())
    model(name, f"g ({types}) => (int32{list(y.shape)} y) {{{text} y = {op}{'<pads = [1,0,2,1], strides = [2,1]>' * (op == 'Conv')}(as, bs) }}")
    case(name, 0, inputs, {"y": y})
    ran = calls(compiled(name), "--device", "cuda", "--data", f"{DIR}/{name}", PTXSIM_SEED=len(text) % 4)["kernels"]
    return sum(k["mma"] for k in ran)


def convolution(x, w):
    """Of images padded by 1 and 2 rows and 0 and 1 columns; every other row."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)))
    rows, columns = (x.shape[2] - w.shape[2]) // 2 + 1, x.shape[3] - w.shape[3] + 1
    return sum(np.einsum("nchw,oc->nohw", x[:, :, r:r + 2 * rows - 1:2, s:s + columns], w[:, :, r, s])
               for r in range(w.shape[2]) for s in range(w.shape[3]))


def exact_product(name, mma, *options, targets="cuda:sm_80", **env):
    """Runs product NAME, of MMA matrix instructions and no conflict of banks."""
    counts = calls(compiled(name, *options, targets=targets), "--device", "cuda", "--data", f"{DIR}/{name}", **env)["kernels"][0]
    assert counts["mma"] == mma, (counts["mma"], mma)
    assert counts["shared_load_conflicts"] == counts["shared_store_conflicts"] == 0, counts
    for way in "load", "store":
        assert counts[f"global_{way}_sectors"] <= 1.05 * counts[f"global_{way}_sectors_fewest"], counts


@test
def a_half_product_is_what_the_hardware_does():
    product("half", "f2", 512, 512, 512)
    exact_product("half", 512 // 16 * (512 // 8) * (512 // 16))


@test
def a_product_of_tf32_where_it_is_asked_for():
    for a in 0, 1:
        for b in 0, 1:
            product("tf32", "f4", 128, 256, 128, factor=tf32, transA=a, transB=b)
            exact_product("tf32", 128 // 16 * (256 // 8) * (128 // 8), "--tf32")
            product("tf32_odd", "f4", 77, 95, 41, factor=tf32, transA=a, transB=b)
            dlrun(compiled("tf32_odd", "--tf32"), "--device", "cuda", "--data", f"{DIR}/tf32_odd")
    assert "sm_80+tf32" in dlrun(f"{DIR}/tf32.so")
    product("tf32", "f4", 128, 256, 128)
    exact_product("tf32", 0)


@test
def products_of_bytes():
    for i in range(4):
        types, turned = ((np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]), (i in (1, 2), i > 1)
        byte_product("bytes_even", types, 128, 64, 96, turned)
        exact_product("bytes_even", 128 // 16 * (64 // 8) * (96 // 32 + 1))  # a round has 64 terms
        byte_product("bytes_odd", types, 77, 130, 67, turned[::-1])
        dlrun(compiled("bytes_odd"), "--device", "cuda", "--data", f"{DIR}/bytes_odd", PTXSIM_SEED=3)
    byte_product("bytes_even", (np.int8, np.uint8), 128, 64, 128)
    exact_product("bytes_even", 128 // 8 * (64 // 8) * (128 // 16), targets="cuda:sm_75", PTXSIM_SM=75)


@test
def products_of_bytes_less_zero_points():
    for i in range(4):
        a, b = (np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]

        def some(t, *shape):
            return rng(i).integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape, t)
        rows, columns, turned = (some(a, 41, 1), some(a))[i % 2], (some(b, 35), None)[i // 2], (i in (1, 2), i > 1)
        without, zeros = (less_zero_points("less", "MatMul", (some(a, 41, 67), some(b, 67, 35)), z, turned)
                          for z in ((None, None), (rows, columns)))
        assert 0 < zeros == without, (zeros, without)
    assert less_zero_points("less", "MatMul", (some(a, 3, 20, 33), some(b, 3, 33, 40)), (some(a), some(b, 3, 1, 40))) > 0
    image, taps = some(np.uint8, 2, 19, 8, 7), some(np.int8, 21, 19, 3, 3)
    without, zeros = (less_zero_points("less", "Conv", (image, taps), z) for z in ((None, None), (some(np.uint8), some(np.int8, 21, 1, 1, 1))))
    assert 0 < zeros == without, (zeros, without)


@test
def a_guard_that_the_compiler_takes_apart():
    """Rows of bytes, all padding but one: where no number leads to, code has an exit, and threads meet all the same."""
    x, w = rng(1).integers(0, 9, (2, 3, 1, 3), np.uint8), rng(2).integers(-9, 9, (8, 3, 1, 2), np.int8)
    model("padded", "g (uint8[N,3,1,3] x, int8[8,3,1,2] w) => (int32[N,8,4,3] y) {"
                    " xw = Cast<to = 6>(x) ww = Cast<to = 6>(w) y = Conv<pads = [2,1,1,0]>(xw, ww) }")
    y, wide = np.zeros((2, 8, 4, 3), np.int32), np.pad(x.astype(np.int32), ((0, 0), (0, 0), (0, 0), (1, 0)))
    y[:, :, 2] = sum(np.einsum("ncw,oc->now", wide[:, :, 0, s:s + 3], w[:, :, 0, s]) for s in range(2))
    case("padded", 0, {"x": x, "w": w}, {"y": y})
    dlrun(compiled("padded"), "--device", "cuda", "--data", f"{DIR}/padded")


@test
def products_of_odd_sizes_and_any_order_of_warps():
    product("odd", "f2", 511, 129, 77)
    so = compiled("odd")
    for seed in range(4):
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/odd", PTXSIM_SEED=seed)
    for sm in 75, 90:
        dlrun(compiled("odd", targets=f"cuda:sm_{sm}{'a' if sm == 90 else ''}"), "--device", "cuda", "--data", f"{DIR}/odd", PTXSIM_SM=sm)


def fragments(name, *options, targets="cuda:sm_80"):
    """Product NAME has a fill of an operand in the order of fragments."""
    dump = run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "-o", f"{DIR}/dumped.so", f"--target={targets}", "--dump-ir=sched", *FLAGS, *options)
    return "[fragments]" in dump


@test
def products_of_constants_in_the_order_of_fragments():
    for v in "a", "b":
        product("half_constant", "f2", 512, 512, 512, constant=v)
        exact_product("half_constant", 512 // 16 * (512 // 8) * (512 // 16))
        assert fragments("half_constant")
        product("tf32_constant", "f4", 128, 64, 128, factor=tf32, constant=v, transA=1)
        exact_product("tf32_constant", 128 // 16 * (64 // 8) * (128 // 8), "--tf32")
        assert fragments("tf32_constant", "--tf32") and not fragments("tf32_constant")
        product("odd_constant", "f2", 511, 129, 77, constant=v)
        for target, sm in ("sm_75", 75), ("sm_80", 80), ("sm_90a", 90):
            so = compiled("odd_constant", targets="cuda:" + target)
            dlrun(so, "--device", "cuda", "--data", f"{DIR}/odd_constant", PTXSIM_SM=sm, PTXSIM_SEED=sm)
        product("tf32_odd_constant", "f4", 77, 95, 41, factor=tf32, constant=v)
        dlrun(compiled("tf32_odd_constant", "--tf32"), "--device", "cuda", "--data", f"{DIR}/tf32_odd_constant")


@test
def products_of_constant_bytes():
    for i in range(4):
        types, v = ((np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]), "ab"[i in (1, 2)]
        byte_product("bytes_constant", types, 128, 64, 96, (i > 1, i in (1, 2)), v)
        exact_product("bytes_constant", 128 // 16 * (64 // 8) * (96 // 32 + 1))
        assert fragments("bytes_constant")
        byte_product("bytes_odd_constant", types, 77, 130, 67, (i in (1, 2), i > 1), v)
        for sm in 75, 80:
            dlrun(compiled("bytes_odd_constant", targets=f"cuda:sm_{sm}"), "--device", "cuda", "--data", f"{DIR}/bytes_odd_constant", PTXSIM_SM=sm)


@test
def one_array_for_all_targets_and_numbers_of_rows():
    product("rows_constant", "f2", 40, 1000, 96, "M,96", constant="b")
    sizes = []
    for targets in "cpu:generic", "cuda:sm_75,sm_80,sm_90a":
        so = compiled("rows_constant", f"--weights={DIR}/rows_constant.weights", targets=targets)
        sizes.append(os.path.getsize(f"{DIR}/rows_constant.weights"))
    assert sizes[1] - sizes[0] == 1008 * 96 * 2, sizes  # whole fragments
    for m in 1, 8, 40:
        product("rows_constant", "f2", m, 1000, 96, "M,96", constant="b")
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/rows_constant")


@test
def products_in_every_position():
    for kind in "f2", "f4", "f8":
        for a in 0, 1:
            for b in 0, 1:
                product("any", kind, 77, 96, 40, transA=a, transB=b)
                dlrun(compiled("any"), "--device", "cuda", "--data", f"{DIR}/any")
    product("rows_known_later", "f4", 130, 48, 64, "M,64")
    dlrun(compiled("rows_known_later"), "--device", "cuda", "--data", f"{DIR}/rows_known_later")


@test
def the_same_bytes():
    if "--sanitize" in FLAGS:
        return  # sanitizers put the names of temporary files in
    one = open(compiled("rows"), "rb").read()
    assert one == open(compiled("rows", "--threads=1"), "rb").read()
    os.mkdir(f"{DIR}/elsewhere")
    shutil.copy(f"{DIR}/dense.onnx", f"{DIR}/elsewhere")
    for suffix in ".ptx", ".so", ".o":
        made = []
        for home in DIR, f"{DIR}/elsewhere":
            run("bash", "-c", f"cd {home} && {BUILD}/bin/dlcc dense.onnx -o dense{suffix} --target=cuda:sm_80,sm_90a", HOME=home, TMPDIR=home)
            made.append(open(f"{home}/dense{suffix}", "rb").read())
        assert made[0] == made[1], suffix


if __name__ == "__main__":
    sys.exit(samples.run_all(tests, sys.argv[3:]))

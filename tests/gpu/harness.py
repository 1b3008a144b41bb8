# SPDX-License-Identifier: Apache-2.0
"""What the parts of test_gpu share: commands under the simulator, models and data, and those that several use."""

import functools
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:3])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = os.environ.get("DLCC_FLAGS", "").split() or samples.unoptimised()
CFLAGS = os.environ.get("CFLAGS", "").split()
tests = []


def test(fn):
    tests.append(fn)
    return fn


def run(*command, status=0, sim=True, seconds=120, **env):
    e = samples.simulated(BUILD, **env)
    if not sim:
        del e["LD_LIBRARY_PATH"]
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(seconds), env=e, cwd=DIR)
    assert r.returncode == status, f"{' '.join(command)}: status {r.returncode}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def dlrun(*args, **rest):
    return run(BUILD + "/bin/dlrun", *args, **rest)


def timed(*args, **rest):
    """The line of JSON, without what is said of defaults and the simulator."""
    return json.loads(dlrun(*args, "--bench", "--seconds=0.05", **rest).splitlines()[0])


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


def calls(*args, **env):
    dlrun(*args, PTXSIM_STATS=f"{DIR}/stats.json", **env)
    return json.load(open(f"{DIR}/stats.json"))


def calls_until(name, so):
    """The number of the first call of NAME when SO is loaded."""
    trace = dlrun(so, "--device=cuda", "--bench", "--seconds=0.01", PTXSIM_TRACE=1)
    return next(n for n, called in re.findall(r"^ptxsim: call (\d+): (\w+)$", trace, re.M) if called == name)


@functools.cache
def c_program(name):
    """The C program NAME of this folder, built once."""
    run("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", *CFLAGS, f"-I{ROOT}", f"{ROOT}/tests/gpu/{name}.c", "-ldl", "-lm", "-o", f"{DIR}/{name}", sim=False)
    return f"{DIR}/{name}"


def with_weights(name, text, **weights):
    """A model whose inputs beyond those of TEXT are constants."""
    model(name, text)
    m = onnx.load(f"{DIR}/{name}.onnx")
    m.graph.initializer.extend(numpy_helper.from_array(w, k) for k, w in weights.items())
    onnx.save(m, f"{DIR}/{name}.onnx")


def normal(*shape):
    return (rng(len(shape)).standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


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

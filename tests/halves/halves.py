# SPDX-License-Identifier: Apache-2.0
"""f32 networks compiled with --activations-as and --weights-as in f16 and bf16: halves.py BUILD FOLDER [TEST ...].

Small networks of each kind run on the simulated GPU beside ONNX's reference in f32. Full-size ones of BENCH are only compiled: none of
their products may stay in f32, and their convolutions read 8 or 16 bytes at a time.
"""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import samples

BUILD, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
BENCH = os.environ.get("BENCH", os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "bench"))
ERROR = {"f16": 0.002, "bf16": 0.016}  # of the largest element: two units of f16 and of bf16

CONVOLUTIONS = """net (float[N,3,20,20] x) => (float[N,10] y) {
  a = Conv<strides=[2,2], pads=[1,1,1,1]>(x, w0, b0)  b = Relu(a)
  c = MaxPool<kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]>(b)
  d = Conv(c, w1)  e0 = Relu(d)  m = Conv(c, w5)  e1 = Relu(m)  e = Concat<axis=1>(e0, e1)  f = Conv<pads=[1,1,1,1]>(e, w2)  g = Add(f, c)  h = Relu(g)
  i = Conv<group=24, pads=[1,1,1,1]>(h, w3)  j = HardSwish(i)
  k = GlobalAveragePool(j)  l = Flatten(k)  y = Gemm<transB=1>(l, w4, b4) }"""

ENCODER = """net (float[B,S,64] x, bool[B,S] m) => (float[B,S,64] y) {
  n = LayerNormalization(x, g, o)
  q0 = MatMul(n, wq)  q1 = Add(q0, bq)  k0 = MatMul(n, wk)  k1 = Add(k0, bk)  v0 = MatMul(n, wv)  v1 = Add(v0, bv)
  q2 = Reshape(q1, heads)  k2 = Reshape(k1, heads)  v2 = Reshape(v1, heads)
  q = Transpose<perm=[0,2,1,3]>(q2)  k = Transpose<perm=[0,2,3,1]>(k2)  v = Transpose<perm=[0,2,1,3]>(v2)
  m1 = Unsqueeze(m, axes)  m2 = Where(m1, zero, least)
  s0 = MatMul(q, k)  s1 = Mul(s0, quarter)  s2 = Add(s1, m2)  p = Softmax<axis=-1>(s2)
  c0 = MatMul(p, v)  c1 = Transpose<perm=[0,2,1,3]>(c0)  c2 = Reshape(c1, flat)
  r0 = MatMul(c2, wo)  r = Add(r0, x)
  t = LayerNormalization(r, g, o)  u0 = MatMul(t, w1)  u = Gelu(u0)  z = MatMul(u, w2)  y = Add(z, r) }"""

DECODER = """net (float[B,S,64] x, int64[B,S] position) => (float[B,S,64] y) {
  n0 = Mul(x, x)  n1 = ReduceMean<keepdims=1>(n0, last)  n2 = Add(n1, eps)  n3 = Sqrt(n2)  n4 = Div(x, n3)  n = Mul(n4, g)
  p0 = Cast<to=1>(position)  p1 = Unsqueeze(p0, two)  a0 = MatMul(p1, frequency)  a1 = Concat<axis=-1>(a0, a0)
  cos = Cos(a1)  sin = Sin(a1)  cos1 = Unsqueeze(cos, one)  sin1 = Unsqueeze(sin, one)
  q0 = MatMul(n, wq)  q1 = Reshape(q0, heads)  q2 = Transpose<perm=[0,2,1,3]>(q1)
  q3, q4 = Split<axis=-1, num_outputs=2>(q2)  q5 = Neg(q4)  q6 = Concat<axis=-1>(q5, q3)
  q7 = Mul(q2, cos1)  q8 = Mul(q6, sin1)  q = Add(q7, q8)
  k0 = MatMul(n, wk)  k1 = Reshape(k0, pairs)  k2 = Transpose<perm=[0,2,1,3]>(k1)
  k3, k4 = Split<axis=-1, num_outputs=2>(k2)  k5 = Neg(k4)  k6 = Concat<axis=-1>(k5, k3)
  k7 = Mul(k2, cos1)  k8 = Mul(k6, sin1)  k9 = Add(k7, k8)
  v0 = MatMul(n, wv)  v1 = Reshape(v0, pairs)  v2 = Transpose<perm=[0,2,1,3]>(v1)
  y0 = Attention<q_num_heads=4, kv_num_heads=2, is_causal=1>(q, k9, v2)
  y1 = Transpose<perm=[0,2,1,3]>(y0)  y2 = Reshape(y1, flat)  y3 = MatMul(y2, wo)  h = Add(y3, x)
  u0 = MatMul(h, w1)  u1 = Sigmoid(u0)  u2 = Mul(u0, u1)  u3 = MatMul(h, w3)  u4 = Mul(u2, u3)  u5 = MatMul(u4, w2)  y = Add(u5, h) }"""


VISION = """net (float[N,3,32,24] x) => (float[N,10] y) {
  a = Conv<strides=[8,8]>(x, patches, bias)  b = Reshape(a, rows)  c = Transpose<perm=[0,2,1]>(b)
  n0 = Shape<end=1>(x)  n1 = Concat<axis=0>(n0, one, width)  d = Expand(class, n1)  e = Concat<axis=1>(d, c)  h = Add(e, positions)
  n = LayerNormalization(h, g, o)  qkv = MatMul(n, w)  q0, k0, v0 = Split<axis=-1, num_outputs=3>(qkv)
  q2 = Reshape(q0, heads)  k2 = Reshape(k0, heads)  v2 = Reshape(v0, heads)
  q = Transpose<perm=[0,2,1,3]>(q2)  k = Transpose<perm=[0,2,3,1]>(k2)  v = Transpose<perm=[0,2,1,3]>(v2)
  s0 = MatMul(q, k)  s = Mul(s0, quarter)  p = Softmax<axis=-1>(s)
  c0 = MatMul(p, v)  c1 = Transpose<perm=[0,2,1,3]>(c0)  c2 = Reshape(c1, flat)  r0 = MatMul(c2, wo)  r = Add(r0, h)
  t = LayerNormalization(r, g, o)  u0 = MatMul(t, w1)  u = Gelu(u0)  z0 = MatMul(u, w2)  z = Add(z0, r)
  f = Gather<axis=1>(z, zero)  y = Gemm(f, head) }"""


def network(text, opset, **constants):
    model = samples.model(text, opset)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    path = f"{FOLDER}/net.onnx"
    onnx.save(model, path)
    return model, path


def run(*command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def agrees(text, opset, constants, feeds, values, products):
    """The network in both types beside the reference. VALUES, PRODUCTS: how many are in halves; no product stays f32."""
    model, path = network(text, opset, **constants)
    want = ReferenceEvaluator(model).run(None, feeds)
    for i, (name, array) in enumerate(feeds.items()):
        np.save(f"{FOLDER}/{name}.npy", array)
    for half in "f16", "bf16":
        said = run(BUILD + "/bin/dlcc", path, "--target=cuda:sm_80", f"--activations-as={half}", f"--weights-as={half}",
                   *samples.unoptimised(), "-o", f"{FOLDER}/net.so")
        line = f"; activations: on GPUs {values} values and the factors of {products} products are {half}, 0 products stay f32"
        assert line in said, (line, said.splitlines()[-1])
        run(BUILD + "/bin/dlrun", f"{FOLDER}/net.so", "--device", "cuda", *(a for n in feeds for a in ("-i", f"{n}={FOLDER}/{n}.npy")), "-o", f"{FOLDER}/out",
            env=samples.simulated(BUILD))
        for o, w in zip(model.graph.output, want):
            got = np.load(f"{FOLDER}/out/{o.name}.npy")
            assert np.isfinite(got).all(), half
            error = np.abs(got - w).max() / np.abs(w).max()
            assert error < ERROR[half], (half, error)


def convolutions():
    rng = np.random.default_rng(1)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    agrees(CONVOLUTIONS, 21, dict(w0=normal(24, 3, 3, 3), b0=normal(24), w1=normal(40, 24, 1, 1), w2=normal(24, 56, 3, 3), w5=normal(16, 24, 1, 1), w3=normal(24, 1, 3, 3),
                                  w4=normal(10, 24), b4=normal(10)), {"x": rng.standard_normal((2, 3, 20, 20)).astype(np.float32)}, 7, 5)


def encoder():
    """A batch whose second element has masked keys, and whose third has no other: scores of -3e38 must not become -inf, or it is NaN."""
    rng = np.random.default_rng(2)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    m = np.ones((3, 12), bool)
    m[1, 7:] = m[2] = False
    constants = dict(g=np.ones(64, np.float32), o=normal(64), heads=np.array([0, 0, 4, 16]), flat=np.array([0, 0, 64]), axes=np.array([1, 2]),
                     zero=np.float32(0), least=np.finfo(np.float32).min, quarter=np.float32(0.25), w1=normal(64, 160), w2=normal(160, 64),
                     **{k: normal(64, 64) for k in ("wq", "wk", "wv", "wo")}, **{k: normal(64) for k in ("bq", "bk", "bv")})
    agrees(ENCODER, 21, constants, {"x": rng.standard_normal((3, 12, 64)).astype(np.float32), "m": m}, 6, 6)


def decoder():
    """Positions beyond 2048, which f16 does not hold exactly, and angles of thousands."""
    rng = np.random.default_rng(3)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    constants = dict(g=np.ones(64, np.float32), last=np.array([-1]), one=np.array([1]), two=np.array([2]), eps=np.float32(1e-6),
                     frequency=(1e4 ** (-np.arange(8) / 8)).astype(np.float32)[None], heads=np.array([0, 0, 4, 16]), pairs=np.array([0, 0, 2, 16]),
                     flat=np.array([0, 0, 64]), wq=normal(64, 64), wk=normal(64, 32), wv=normal(64, 32), wo=normal(64, 64),
                     w1=normal(64, 160), w3=normal(64, 160), w2=normal(160, 64))
    feeds = {"x": rng.standard_normal((2, 11, 64)).astype(np.float32), "position": np.arange(4091, 4113).reshape(2, 11)}
    agrees(DECODER, 23, constants, feeds, 11, 7)


def vision():
    rng = np.random.default_rng(5)
    normal = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    constants = dict(patches=normal(48, 3, 8, 8), bias=normal(48), rows=np.array([0, 48, 12]), one=np.array([1]), width=np.array([48]),
                     **{"class": normal(1, 1, 48)}, positions=normal(1, 13, 48), g=np.ones(48, np.float32), o=normal(48), w=normal(48, 144),
                     heads=np.array([0, 0, 3, 16]), flat=np.array([0, 0, 48]), quarter=np.float32(0.25), wo=normal(48, 48), w1=normal(48, 96),
                     w2=normal(96, 48), head=normal(48, 10), zero=np.int64(0))
    agrees(VISION, 21, constants, {"x": rng.standard_normal((2, 3, 32, 24)).astype(np.float32)}, 13, 8)


def kernels_of(model, *options):
    """The PTX of each kernel of the full-size MODEL of BENCH in f16, and what dlcc reports; no kernel: there is no such model."""
    graph = f"{BENCH}/graphs/{model}.onnx"
    if not os.path.exists(graph):
        return [], ""
    run(sys.executable, BENCH + "/materialise.py", graph, f"{FOLDER}/{model}")
    said = run(BUILD + "/bin/dlcc", f"{FOLDER}/{model}/model.onnx", "--target=cuda:sm_80", "--activations-as=f16", "--weights-as=f16", *options,
               "-o", f"{FOLDER}/{model}.ptx")
    shutil.rmtree(f"{FOLDER}/{model}")
    with open(f"{FOLDER}/{model}.ptx") as f:
        return f.read().split("\n// ")[1:], said.splitlines()[-1]


def whole_networks():
    """No product of a whole network stays in f32, and convolutions read vectors of 8 or 16 bytes, of their image, too."""
    for model, products, options in ("resnet50", 54, ["--dim", "batch=1"]), ("bert_base", 72, ["--dim", "batch=1", "--dim", "seq=128"]):
        kernels, said = kernels_of(model, *options)
        if not kernels:
            continue
        assert f"the factors of {products} products are f16, 0 products stay f32" in said, said
        tiled = [k for k in kernels if "mma.sync" in k]
        assert tiled and all("f16.f16.f32" in k for k in tiled), model
        for k in tiled:
            narrow = [line for line in re.findall(r"(?:ld\.global|cp\.async\.c[ag])\S*\s.*", k)
                      if not re.match(r"ld\.global\S*\.v[24]\.|cp\.async\S*\s.*, (8|16)[,;]", line)]
            assert "(Conv)" not in k or not narrow, (k.splitlines()[0], narrow)


def images():
    """Convolutions over inputs of few channels, which get channels of zeros: small integers are exact. One image has two readers."""
    rng = np.random.default_rng(4)
    for channels, filters, side, stride, dilation in (3, 16, 3, 1, 1), (2, 9, 5, 2, 1), (5, 24, 3, 1, 2), (7, 33, 4, 3, 1), (6, 16, 1, 1, 1), (1, 16, 3, 1, 1):
        conv = f"Conv<strides=[{stride},{stride}], dilations=[{dilation},{dilation}], pads=[2,1,1,2]>"
        for kind in "float", "float16":
            t = np.float32 if kind == "float" else np.float16
            w = rng.integers(-2, 3, (2, filters, channels, side, side)).astype(t)
            model, path = network(f"net ({kind}[N,{channels},13,10] x) => ({kind}[N,{filters},H,W] y) {{ a = {conv}(x, w0)  b = {conv}(x, w1)  y = Add(a, b) }}",
                                  21, w0=w[0], w1=w[1])
            x = rng.integers(-3, 4, (2, channels, 13, 10)).astype(t)
            np.save(FOLDER + "/x.npy", x)
            want, = ReferenceEvaluator(model).run(None, {"x": x})
            options = ["--activations-as=f16", "--weights-as=f16"] if kind == "float" else []
            run(BUILD + "/bin/dlcc", path, "--target=cuda:sm_80", *options, *samples.unoptimised(), "-o", FOLDER + "/net.so")
            run(BUILD + "/bin/dlrun", FOLDER + "/net.so", "--device", "cuda", "-i", f"x={FOLDER}/x.npy", "-o", FOLDER + "/out", env=samples.simulated(BUILD))
            assert np.array_equal(np.load(FOLDER + "/out/y.npy"), want), (channels, kind)


sys.exit(samples.run_all([convolutions, encoder, decoder, vision, images, whole_networks], sys.argv[3:]))

# SPDX-License-Identifier: Apache-2.0
"""Products whose weights are quantised: weight_only.py BUILD FOLDER [TEST ...].

One model has a product for each way in which models state such weights: DequantizeLinear of every narrow type, over a tensor, columns
and blocks, transposed, batched and in a convolution, and MatMulNBits. Its results are compared with sums in f64: bit-equal where all
numbers are small integers and powers of two, else within the error of two sums in any order. The same holds on each CPU that this
machine can be, with both C compilers, and on the simulated GPU. What --weights-as and --activations-as=i8 do is compared with
the same scheme in NumPy. The same products with weights of f16 and bf16, the model's own or by --weights-as, are tested likewise.
"""

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import samples

BUILD, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
DLCC, DLRUN = BUILD + "/bin/dlcc", BUILD + "/bin/dlrun"
# Where only a share runs, real_numbers has clang's optimisations and with_gcc gcc's.
UNOPTIMISED = samples.unoptimised_share()
CLANG = (UNOPTIMISED or ["--cc=" + (samples.CLANG or "gcc")])[0]
RANGE = {T.INT4: (-8, 8), T.UINT4: (0, 16), T.INT8: (-128, 128), T.UINT8: (0, 256), T.INT2: (-2, 2), T.UINT2: (0, 4)}
ROWS = (1, 2, 3, 5, 8, 9, 19)
CPUS = {"generic": "", "x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512bw"}


class Products:
    """A model of independent products. WHOLE: numbers and scales are such that every sum is exact in f32. FACTORS rounds the inputs."""

    factors = staticmethod(lambda x: x)

    def __init__(self, seed, whole):
        self.rng, self.whole = np.random.default_rng(seed), whole
        self.nodes, self.inputs, self.outputs, self.constants, self.terms = [], [], [], [], []

    def values(self, shape):
        return (self.rng.integers(-2, 3, shape) if self.whole else self.rng.standard_normal(shape)).astype(np.float32)

    def scales(self, shape):
        s = 2.0 ** self.rng.integers(-2, 2, shape) if self.whole else self.rng.random(shape) + 0.01
        s = np.where(self.rng.random(shape) < 0.1, 0, s)
        return np.asarray(s, np.float32)

    def numbers(self, lo, hi, shape):
        """Also the ends of the range; where sums are exact, numbers are small, or at an end."""
        q = self.rng.integers(max(lo, -4) if self.whole else lo, min(hi, 5) if self.whole else hi, shape)
        return np.where(self.rng.random(shape) < 0.05, self.rng.choice([lo, hi - 1], shape), q)

    def constant(self, name, array, dtype=None):
        self.constants.append(helper.make_tensor(name, dtype, array.shape, array.flatten().tolist()) if dtype else
                              numpy_helper.from_array(array, name))
        return name

    def product(self, op, weights, x, terms, extra=(), domain="", **attributes):
        """OP of input x{i}, of the shape X, and WEIGHTS; TERMS(x, f) is the product of f(x) and f(weights), in f64."""
        i = len(self.inputs)
        self.inputs.append(helper.make_tensor_value_info(f"x{i}", T.FLOAT, x))
        self.outputs.append(helper.make_tensor_value_info(f"y{i}", T.FLOAT, None))
        self.nodes.append(helper.make_node(op, [f"x{i}", weights, *extra], [f"y{i}"], name=f"product{i}", domain=domain, **attributes))
        self.terms.append(terms)

    def dequantised(self, dtype, shape, axis, block, zero):
        """The name of a constant of SHAPE by DequantizeLinear, and its value. BLOCK 0: one scale for each index along AXIS; None: one."""
        i, (lo, hi) = len(self.nodes), RANGE[dtype]
        q = self.numbers(lo, hi, shape)
        s_shape = [] if block is None else [shape[axis]] if block == 0 else [-(-d // block) if a == axis else d for a, d in enumerate(shape)]
        s, z = self.scales(s_shape), self.numbers(lo, hi, s_shape) if zero else np.zeros(s_shape, np.int64)

        def spread(a):
            if block is None:
                return a
            if block == 0:
                return a.reshape([-1 if d == axis else 1 for d in range(len(shape))])
            return np.take(np.repeat(a, block, axis), range(shape[axis]), axis)

        names = [self.constant(f"q{i}", q, dtype), self.constant(f"s{i}", s)] + ([self.constant(f"z{i}", z, dtype)] if zero else [])
        self.nodes.append(helper.make_node("DequantizeLinear", names, [f"w{i}"], axis=axis, block_size=block or 0))
        return f"w{i}", (q - spread(z)) * spread(s).astype(np.float64)

    def floats(self, dtype, k, n, block, mx):
        """A product of weights that are floats of few bits. MX: their scales are powers of two in a byte."""
        i, t = len(self.nodes), helper.tensor_dtype_to_np_dtype(dtype)
        q = self.numbers(-4, 5, (k, n)).astype(np.float32).astype(t)
        s_shape = (-(-k // block), n)
        s = (2.0 ** self.rng.integers(-3, 3, s_shape)).astype(np.float32) if mx else self.scales(s_shape)
        scale = numpy_helper.from_array(s.astype(helper.tensor_dtype_to_np_dtype(T.FLOAT8E8M0)) if mx else s, f"s{i}")
        self.constants += [numpy_helper.from_array(q, f"q{i}"), scale]
        self.nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", f"s{i}"], [f"w{i}"], axis=0, block_size=block, output_dtype=T.FLOAT))
        value = q.astype(np.float64) * np.repeat(s, block, 0)[:k].astype(np.float64)
        self.product("MatMul", f"w{i}", ["M", k], lambda x, f=np.array: f(x) @ f(value))

    def linear(self, dtype, k, n, axis=0, block=32, zero=False, rows="M"):
        w, value = self.dequantised(dtype, (k, n), axis, block, zero)
        self.product("MatMul", w, [rows, k], lambda x, f=np.array: f(x) @ f(value))

    def transposed(self, dtype, k, n, block, zero):
        w, value = self.dequantised(dtype, (n, k), 1, block, zero)
        self.product("Gemm", w, ["M", k], lambda x, f=np.array: f(x) @ f(value.T), transB=1)

    def batched(self, dtype, count, k, n, block):
        w, value = self.dequantised(dtype, (count, k, n), 1, block, True)
        self.product("MatMul", w, [count, "M", k], lambda x, f=np.array: f(x) @ f(value))

    def convolution(self, dtype, inner, outer):
        w, value = self.dequantised(dtype, (outer, inner, 1, 1), 0, 0, False)
        self.product("Conv", w, [1, inner, "M", 4], lambda x, f=np.array: np.einsum("bchw,oc->bohw", f(x), f(value[:, :, 0, 0])))

    def half(self, dtype, shape, cast):
        """The name of a constant that is exact in DTYPE, and its value: with CAST of that type, else in f32 and not always exact."""
        t = helper.tensor_dtype_to_np_dtype(dtype)
        w = self.values(shape) * np.where(self.rng.random(shape) < (0 if self.whole else 0.1), np.float32(2.0 ** -20), np.float32(1))
        i, q = len(self.nodes), w.astype(t)
        self.constants.append(numpy_helper.from_array(q if cast else w, f"w{i}"))
        if not cast:
            return f"w{i}", q.astype(np.float64)
        self.nodes.append(helper.make_node("Cast", [f"w{i}"], [f"f{i}"], to=T.FLOAT))
        return f"f{i}", q.astype(np.float64)

    def halves(self, dtype, cast):
        """A product of each kind with weights of f16 or bf16."""
        for k, n, rows in ((96, 40, "M"), (37, 130, "M"), (600, 33, "M"), (64, 90, 1), (75, 48, 2), (130, 64, 4)):
            w, value = self.half(dtype, (k, n), cast)
            self.product("MatMul", w, [rows, k], lambda x, f=np.array, v=value: f(x) @ f(v))
        w, transposed = self.half(dtype, (33, 200), cast)
        self.product("Gemm", w, ["M", 200], lambda x, f=np.array: f(x) @ f(transposed.T), transB=1)
        w, batch = self.half(dtype, (3, 64, 34), cast)
        self.product("MatMul", w, [3, "M", 64], lambda x, f=np.array: f(x) @ f(batch))
        w, taps = self.half(dtype, (36, 40, 1, 1), cast)
        self.product("Conv", w, [1, 40, "M", 4], lambda x, f=np.array: np.einsum("bchw,oc->bohw", f(x), f(taps[:, :, 0, 0])))

    def filters(self, dtype, cast):
        """Convolutions of several taps with filters of f16 or bf16."""
        for inner, outer, window, stride, group in ((32, 48, (3, 3), 1, 1), (20, 36, (3, 3), 2, 1), (24, 30, (1, 5), 1, 1), (24, 32, (3, 3), 1, 4), (128, 128, (3, 3), 1, 128), (21, 40, (3, 3), 1, 1)):
            self.convolution_of_taps(dtype, cast, inner, outer, window, stride, group)

    def convolution_of_taps(self, dtype, cast, inner, outer, window, stride, group):
        """A convolution, padded so that the result is as large as the image but for the stride."""
        w, value = self.half(dtype, (outer, inner // group, *window), cast)
        pads = [n // 2 for n in window]

        def taps(x, f=np.array):
            x = np.pad(f(x), ((0, 0), (0, 0), *((n, n) for n in pads)))
            windows = np.lib.stride_tricks.sliding_window_view(x, window, (2, 3))[:, :, ::stride, ::stride]
            parts = zip(np.split(windows, group, 1), np.split(f(value), group))
            return np.concatenate([np.einsum("bchwyx,ocyx->bohw", x, w) for x, w in parts], 1)

        self.product("Conv", w, [1, inner, "M", 9], taps, kernel_shape=window, pads=pads * 2, strides=[stride] * 2, group=group)

    def bits(self, bits, k, n, block, zero, **attributes):
        """MatMulNBits, with ATTRIBUTES. ZERO: None, "packed" or "floats"."""
        i, blocks, per = len(self.nodes), -(-k // block), 8 // bits
        q = self.numbers(0, 1 << bits, (n, blocks, block))
        z = np.full((n, blocks), 1 << (bits - 1)) if zero is None else self.numbers(0, 1 << bits, (n, blocks))
        s = self.scales((n, blocks))

        def packed(a):
            a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -a.shape[-1] % per)]).reshape(*a.shape[:-1], -1, per)
            return (a << (np.arange(per) * bits)).sum(-1).astype(np.uint8)

        names = [self.constant(f"q{i}", packed(q)), self.constant(f"s{i}", s.reshape(-1))]
        if zero:
            names.append(self.constant(f"z{i}", packed(z).reshape(-1) if zero == "packed" else z.astype(np.float32).reshape(-1)))
        value = ((q - z[:, :, None]) * s[:, :, None].astype(np.float64)).reshape(n, -1)[:, :k]
        self.product("MatMulNBits", names[0], ["M", k], lambda x, f=np.array: f(x) @ f(value.T), names[1:], "com.microsoft", K=k, N=n, bits=bits, block_size=block,
                     **attributes)

    def proto(self):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1)], ir_version=12)

    def run(self, artifact, rows, env=None, options=()):
        """Runs ARTIFACT with ROWS for M, and compares the results."""
        inputs = {x.name: self.values([d.dim_value or rows for d in x.type.tensor_type.shape.dim]) for x in self.inputs}
        outputs = results(artifact, inputs, len(self.inputs), env, options)
        for i, (x, terms) in enumerate(zip(inputs.values(), self.terms)):
            x = self.factors(x).astype(np.float64)
            expected, y = terms(x), outputs[i]
            k = 9 * x.shape[1] if x.ndim == 4 else x.shape[-1]  # of a convolution of at most nine taps
            room = 0 if self.whole else 4 * (k + 4) * 2.0 ** -24 * terms(x, np.abs).max()
            worst = np.abs(y - expected).max() if y.size else 0
            assert y.shape == expected.shape and worst <= room, f"product{i}, {rows} rows: {worst} is above {room}"


def all_products(seed, whole):
    p = Products(seed, whole)
    for k, n, block in ((96, 40, 32), (200, 33, 32), (61, 70, 16), (128, 31, 128), (90, 65, 7)):
        p.linear(T.INT4, k, n, 0, block)
    p.linear(T.UINT4, 160, 48, 0, 32, True)
    p.linear(T.UINT4, 75, 37, 0, 24, True)
    p.linear(T.INT2, 96, 40, 0, 32)
    p.linear(T.UINT2, 111, 41, 0, 16, True)
    p.linear(T.INT8, 97, 35, 1, 0)
    p.linear(T.INT8, 97, 35, 1, None)
    p.linear(T.UINT8, 120, 50, 0, 40, True)
    p.linear(T.INT4, 130, 45, 1, 0)
    p.linear(T.INT4, 130, 45, 1, 0, rows=4)
    p.linear(T.UINT4, 64, 90, 0, 32, True, rows=1)
    p.transposed(T.INT4, 200, 33, 32, False)
    p.transposed(T.UINT4, 77, 50, 8, True)
    p.batched(T.INT4, 3, 64, 34, 16)
    p.convolution(T.INT8, 40, 36)
    p.convolution(T.INT4, 40, 36)
    for bits, k, n, block, zero in ((4, 128, 40, 32, None), (4, 100, 33, 32, "packed"), (4, 96, 40, 16, "floats"), (8, 96, 40, 32, None),
                                    (8, 70, 35, 64, "packed"), (2, 128, 40, 32, None), (2, 90, 37, 16, "packed")):
        p.bits(bits, k, n, block, zero)
    return p


def dlcc(*options):
    return subprocess.run([DLCC, *options], capture_output=True, text=True, check=True).stdout


def results(artifact, inputs, count, env=None, options=(), names=None):
    folder = FOLDER + "/out"
    os.makedirs(folder, exist_ok=True)
    arguments = []
    for name, x in inputs.items():
        np.save(f"{FOLDER}/{name}.npy", x)
        arguments += ["-i", f"{name}={FOLDER}/{name}.npy"]
    done = subprocess.run([DLRUN, artifact, *arguments, "-o", folder, *options], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-800:]
    return [np.load(f"{folder}/{name}.npy") for name in names or [f"y{i}" for i in range(count)]]


def products_on(target, whole, *options):
    p = all_products(len(target), whole)
    onnx.save(p.proto(), f"{FOLDER}/products.onnx")
    dlcc(f"{FOLDER}/products.onnx", f"--target=cpu:{target}", *options, "-o", f"{FOLDER}/products.so")
    for rows in ROWS:
        p.run(f"{FOLDER}/products.so", rows)


def runs_here(flag):
    return flag in open("/proc/cpuinfo").read()


def whole_numbers_on_each_cpu():
    for target in samples.share([t for t, flag in CPUS.items() if runs_here(flag)], 3):
        products_on(target, True, *UNOPTIMISED)


def real_numbers():
    products_on("native", False)


def with_gcc():
    products_on("native", True, "--cc=gcc", *(["-O1"] if UNOPTIMISED else []))


def on_the_simulated_gpu():
    if not os.path.exists(BUILD + "/ptxsim/libcuda.so.1") or "cuda:" not in dlcc("--list-targets"):
        return
    p = Products(7, True)
    p.linear(T.INT4, 96, 40, 0, 32)
    p.linear(T.UINT4, 75, 37, 0, 24, True)
    p.bits(4, 100, 33, 32, "packed")
    onnx.save(p.proto(), f"{FOLDER}/gpu.onnx")
    dlcc(f"{FOLDER}/gpu.onnx", "--target=cuda:sm_80", "-o", f"{FOLDER}/gpu.so", *samples.unoptimised())
    for rows in (1, 5):
        p.run(f"{FOLDER}/gpu.so", rows, samples.simulated(BUILD), ("--device", "cuda"))


def small_floats():
    """fp8, and fp4 and fp8 in the form of MX: on the CPU and on the simulated GPU."""
    for whole in (True, False):
        p = Products(11, whole)
        for dtype, k, n, block, mx in ((T.FLOAT8E4M3FN, 96, 40, 32, False), (T.FLOAT8E5M2, 75, 33, 16, False), (T.FLOAT8E4M3FN, 70, 35, 32, True),
                                       (T.FLOAT8E5M2, 64, 31, 32, True), (T.FLOAT4E2M1, 96, 40, 32, True), (T.FLOAT4E2M1, 61, 37, 16, False)):
            p.floats(dtype, k, n, block, mx)
        onnx.save(p.proto(), f"{FOLDER}/floats.onnx")
        dlcc(f"{FOLDER}/floats.onnx", "-o", f"{FOLDER}/floats.so", *UNOPTIMISED)
        for rows in ROWS:
            p.run(f"{FOLDER}/floats.so", rows)
    if os.path.exists(BUILD + "/ptxsim/libcuda.so.1") and "cuda:" in dlcc("--list-targets"):
        dlcc(f"{FOLDER}/floats.onnx", "--target=cuda:sm_80", "-o", f"{FOLDER}/floats_gpu.so", *samples.unoptimised())
        for rows in (1, 5):
            p.run(f"{FOLDER}/floats_gpu.so", rows, samples.simulated(BUILD), ("--device", "cuda"))


def half_products(dtype, option, whole, *options, filters=True):
    """Products with weights of DTYPE, by OPTION or, without one, of the model: one artifact, and their results for all ROWS."""
    p = Products(len(option), whole)
    p.halves(dtype, not option)
    if filters:
        p.filters(dtype, not option)
    onnx.save(p.proto(), f"{FOLDER}/halves.onnx")
    report = dlcc(f"{FOLDER}/halves.onnx", *([option] if option else []), *options, "-o", f"{FOLDER}/halves.so")
    assert not option or f"; weights: {len(p.inputs)} rounded" in report, report
    return p


def halves():
    """f16 and bf16, widened in registers: on each CPU, with both compilers, and in C without an instruction for it."""
    ways = [([f"--target=cpu:{t}", *UNOPTIMISED], True) for t, flag in CPUS.items() if runs_here(flag)]
    ways += [(["--cc=gcc"], True), (["--cc=gcc"], False), ([f"{CLANG} -DDL_PORTABLE_HALF"], True)]
    weights = ((T.FLOAT16, "--weights-as=f16"), (T.BFLOAT16, "--weights-as=bf16"), (T.FLOAT16, ""), (T.BFLOAT16, ""))
    for (options, whole), (dtype, form) in samples.share(list(itertools.product(ways, weights)), 9):
        p = half_products(dtype, form, whole, *options)
        for rows in ROWS:
            p.run(f"{FOLDER}/halves.so", rows)


IN_PLACE = 2  # the 1x1 convolution and the depthwise one: their filters are read in place, and vectors are of the image


def in_place(shape):
    return len(shape) == 4 and shape[1] in (40, 128)


def both_factors_are_bf16():
    """--activations-as=bf16: what weights of bf16 are multiplied by is rounded, too; on each CPU, in C alone, and with both compilers."""
    cpus = {**CPUS, "v4-bf16": "avx512_bf16", "v4-amx": "amx_bf16", "native": ""}
    ways = [[f"--target=cpu:{t}", *UNOPTIMISED] for t, flag in cpus.items() if runs_here(flag)] + [["--cc=gcc"]]
    ways += [[f"{CLANG} -DDL_PORTABLE_DOT", f"--target=cpu:{t}"] for t in ("v4-bf16", "v4-amx")] if runs_here("avx512bw") else []
    for options, whole in samples.share(list(itertools.product(ways, (True, False))), 5):
        p = half_products(T.BFLOAT16, "--weights-as=bf16", whole, "--activations-as=bf16", *options)
        p.factors = lambda x: x if in_place(x.shape) else x.astype(helper.tensor_dtype_to_np_dtype(T.BFLOAT16))
        for rows in ROWS:
            p.run(f"{FOLDER}/halves.so", rows)
    products = len(p.inputs) - IN_PLACE
    report = dlcc(f"{FOLDER}/halves.onnx", "--weights-as=bf16", "--activations-as=bf16", "--keep=product0", "-o", f"{FOLDER}/halves.so", *UNOPTIMISED)
    assert f"; activations: {products - 1} products of bf16" in report, report


def models_of_bf16():
    """Products of a model whose tensors are of bf16, with odd numbers of terms, where subnormal numbers may be flushed, so that CPUs multiply pairs."""
    rng, bf16 = np.random.default_rng(5), helper.tensor_dtype_to_np_dtype(T.BFLOAT16)
    for op, x_shape, w_shape in (("MatMul", (17, 33), (33, 40)), ("Conv", (1, 3, 9, 9), (48, 3, 3, 3)), ("Conv", (2, 40, 5, 5), (36, 40, 1, 1))):
        x, w = (rng.standard_normal(shape).astype(np.float32).astype(bf16) for shape in (x_shape, w_shape))
        nodes = [helper.make_node("Cast", ["x"], ["xb"], to=T.BFLOAT16), helper.make_node(op, ["xb", "w"], ["yb"]), helper.make_node("Cast", ["yb"], ["y0"], to=T.FLOAT)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x_shape)], [helper.make_tensor_value_info("y0", T.FLOAT, None)],
                                  [numpy_helper.from_array(w, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), f"{FOLDER}/bf16.onnx")
        x, w = x.astype(np.float32), w.astype(np.float64)
        expected = x @ w if op == "MatMul" else np.einsum("bchwyx,ocyx->bohw", np.lib.stride_tricks.sliding_window_view(x, w_shape[2:], (2, 3)), w)
        for options in ([], ["--flush-subnormals"], ["--activations-as=bf16"], ["--flush-subnormals", "--cc=gcc"], ["--flush-subnormals", "--target=cpu:v3"]):
            if not runs_here("avx2") and options[-1:] == ["--target=cpu:v3"]:
                continue
            dlcc(f"{FOLDER}/bf16.onnx", *UNOPTIMISED, *options, "-o", f"{FOLDER}/bf16.so")
            y, = results(f"{FOLDER}/bf16.so", {"x": x}, 1)
            assert np.abs(y - expected).max() <= 2.0 ** -8 * np.abs(expected).max(), (op, options)


def halves_on_the_simulated_gpu():
    if not os.path.exists(BUILD + "/ptxsim/libcuda.so.1") or "cuda:" not in dlcc("--list-targets"):
        return
    for dtype, option in ((T.FLOAT16, "--weights-as=f16"), (T.BFLOAT16, "--weights-as=bf16")):
        p = half_products(dtype, option, True, "--target=cuda:sm_80", *samples.unoptimised(), filters=False)
        for rows in (1, 5):
            p.run(f"{FOLDER}/halves.so", rows, samples.simulated(BUILD), ("--device", "cuda"))


def special_halves():
    """Infinities, NaN, the largest and the least halves of a model, subnormal ones among them, are what they are."""
    patterns = np.array([0x7c00, 0xfc00, 0x7e00, 0x7bff, 0xfbff, 0x0001, 0x8001, 0x03ff, 0x0400, 0x8400, 0x3c00, 0x8000], np.uint16)
    for dtype in (T.FLOAT16, T.BFLOAT16):
        t = helper.tensor_dtype_to_np_dtype(dtype)
        w = np.tile(patterns, 40 * 36 // 12).reshape(36, 40).T.copy().view(t)
        graph = helper.make_graph([helper.make_node("Cast", ["w"], ["f"], to=T.FLOAT), helper.make_node("MatMul", ["x0", "f"], ["y0"])], "g",
                                  [helper.make_tensor_value_info("x0", T.FLOAT, ["M", 40])],
                                  [helper.make_tensor_value_info("y0", T.FLOAT, None)], [numpy_helper.from_array(w, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), f"{FOLDER}/special.onnx")
        x = np.zeros((4, 40), np.float32)
        x[range(4), [0, 5, 11, 30]] = 1
        with np.errstate(invalid="ignore"):
            expected = x @ w.astype(np.float32)
        for options in ([], ["--cc=gcc"], [f"{CLANG} -DDL_PORTABLE_HALF"], ["--flush-subnormals", f"{CLANG} -DDL_PORTABLE_HALF"]):
            if dtype == T.BFLOAT16 and "--flush-subnormals" in options:
                continue  # those of bf16 are subnormal in f32, too
            dlcc(f"{FOLDER}/special.onnx", *UNOPTIMISED, *options, "-o", f"{FOLDER}/special.so")
            y, = results(f"{FOLDER}/special.so", {"x0": x}, 1)
            assert np.array_equal(y, expected, equal_nan=True), options


def weights_stay_narrow():
    """The numbers of all products are in the artifact, in their panels, and none is in f32."""
    p = all_products(1, False)
    onnx.save(p.proto(), f"{FOLDER}/narrow.onnx")
    text = dlcc(f"{FOLDER}/narrow.onnx", "--dump-ir=layout")
    assert len(re.findall(r"%numbers: [iu]\d\[[^(]*\) -> \(%out|f32\(numbers\[", text)) >= len(p.inputs), "some product reads f32"
    for dtype, name, narrow in ((T.FLOAT16, "f16", "--weights-as=f16"), (T.BFLOAT16, "bf16", "--weights-as=bf16")):
        for option in (narrow, "--winograd=0"):
            p = Products(2, False)
            p.halves(dtype, option == "--winograd=0")
            p.filters(dtype, option == "--winograd=0")
            onnx.save(p.proto(), f"{FOLDER}/narrow.onnx")
            text = dlcc(f"{FOLDER}/narrow.onnx", option, "--dump-ir=layout", "--target=cpu:v3")
            filters = sum(len(x.type.tensor_type.shape.dim) == 4 for x in p.inputs)
            assert text.count(f"-> (%packed: {name}[") == len(p.inputs) - IN_PLACE and "(%packed: f32" not in text, "some product packs f32"
            assert filters == 7 and not re.search(r"f32\[(48,32,3,3|36,20,3,3|30,24,1,5)\]", text), "some filter is of f32"
    p = Products(3, False)
    for i, window in enumerate((1, 3, 1)):
        p.half(T.FLOAT, (32, 32, window, window), True)
        p.nodes[-1] = helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"conv{i}", pads=[window // 2] * 4)
    chain = helper.make_graph(p.nodes, "g", [helper.make_tensor_value_info("x0", T.FLOAT, [1, 32, "M", 60])], [helper.make_tensor_value_info("x3", T.FLOAT, None)], p.constants)
    onnx.save(helper.make_model(chain, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), f"{FOLDER}/chain.onnx")
    for options, transformed in (((), True), (("--weights-as=bf16",), False), (("--weights-as=bf16", "--keep=conv1"), True)):
        text = dlcc(f"{FOLDER}/chain.onnx", *options, "--dump-ir=layout", "--target=cpu:v3")
        assert ("(%filter: f32" in text) == transformed, options


def threads_do_not_matter():
    p = all_products(3, False)
    onnx.save(p.proto(), f"{FOLDER}/threads.onnx")
    dlcc(f"{FOLDER}/threads.onnx", "-o", f"{FOLDER}/threads.so", *UNOPTIMISED)
    inputs = {x.name: p.values([d.dim_value or 5 for d in x.type.tensor_type.shape.dim]) for x in p.inputs}
    one, two = (results(f"{FOLDER}/threads.so", inputs, len(inputs), None, ("--threads", t)) for t in "12")
    assert all(np.array_equal(a, b) for a, b in zip(one, two))


def scheme(w, axis, bits, group):
    """W as --weights-as=i4:GROUP or --weights-as=i8 make it: numbers and scales by the rules of passes/kernel/quantise_weights.c."""
    w, most = np.moveaxis(w.astype(np.float64), axis, 0), 127 if bits == 8 else 7
    out = np.empty_like(w)
    for k in range(0, len(w), group or len(w)):
        part = w[k:k + (group or len(w))]
        top = np.abs(part).max(0)
        tries = []
        for c in range(16):
            s = np.where(top < 2.0 ** -100, 0, top / (most * (1 + c / 32)))
            if bits == 4:
                s = s.astype(np.float32).astype(helper.tensor_dtype_to_np_dtype(T.BFLOAT16)).astype(np.float64)
            q = np.clip(np.rint(part / np.where(s > 0, s, 1)), -most - 1, most)
            tries.append(q * s)
        errors = np.array([((part - t) ** 2).sum(0) for t in tries])
        out[k:k + len(part)] = np.take_along_axis(np.array(tries), errors.argmin(0)[None, None], 0)[0]
    return np.moveaxis(out, 0, axis)


def options_match_numpy():
    rng = np.random.default_rng(5)
    for k, n, transposed in ((96, 70, False), (200, 33, True), (37, 130, False)):
        w = rng.standard_normal((n, k) if transposed else (k, n)).astype(np.float32)
        w[..., 3] = 0
        node = helper.make_node("Gemm" if transposed else "MatMul", ["x0", "w"], ["y0"], name="fc", **({"transB": 1} if transposed else {}))
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x0", T.FLOAT, ["M", k])],
                                  [helper.make_tensor_value_info("y0", T.FLOAT, None)], [numpy_helper.from_array(w, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), f"{FOLDER}/fc.onnx")
        for option, bits, group in (("--weights-as=i4", 4, 32), ("--weights-as=i4:64", 4, 64), ("--weights-as=i8", 8, 0)):
            report = dlcc(f"{FOLDER}/fc.onnx", option, "-o", f"{FOLDER}/fc.so", *samples.unoptimised())
            narrow = scheme(w, 1 if transposed else 0, bits, group)
            error = np.sqrt(((w - narrow) ** 2).sum() / (w.astype(np.float64) ** 2).sum())
            stated = float(re.search(r"error (\S+) of", report)[1])
            assert abs(error - stated) <= 2e-5 * error, f"{option}: the error is {error}, stated as {stated}"
            for rows in (1, 6):
                x = rng.standard_normal((rows, k)).astype(np.float32)
                y, = results(f"{FOLDER}/fc.so", {"x0": x}, 1)
                expected = x.astype(np.float64) @ (narrow.T if transposed else narrow)
                room = 4 * (k + 4) * 2.0 ** -24 * (np.abs(x) @ np.abs(narrow.T if transposed else narrow)).max()
                assert np.abs(y - expected).max() <= room, f"{option}, {rows} rows"


def experts():
    """The options make the matrices of experts narrow, which data choose: a mixture of experts with few rows and many, beside f64."""
    rng, count, hidden, inner = np.random.default_rng(17), 8, 96, 160
    shapes = {"gate": (hidden, count), "w1": (count, inner, hidden), "w2": (count, hidden, inner)}
    w = {name: (rng.standard_normal(shape) * 0.2).astype(np.float32) for name, shape in shapes.items()}
    nodes = [helper.make_node("MatMul", ["x", "gate"], ["p"], name="router"),
             helper.make_node("MoE", ["x", "p", "w1", "", "w2"], ["y"], name="moe", domain="com.microsoft", k=2, activation_type="relu",
                              normalize_routing_weights=1)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["R", hidden])],
                              [helper.make_tensor_value_info("y", T.FLOAT, None)], [numpy_helper.from_array(a, n) for n, a in w.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), f"{FOLDER}/moe.onnx")
    narrow = {"--weights-as=i4": lambda a: scheme(a, 2, 4, 32), "--weights-as=i8": lambda a: scheme(a, 2, 8, 0),
              "--weights-as=f16": lambda a: a.astype(np.float16), "--weights-as=bf16": lambda a: a.astype(helper.tensor_dtype_to_np_dtype(T.BFLOAT16))}
    for option, make in narrow.items():
        report = dlcc(f"{FOLDER}/moe.onnx", option, "-o", f"{FOLDER}/moe.so", *samples.unoptimised())
        assert '"moe" ("w1")' in report and '"moe" ("w2")' in report and "weights: 2 " in report and "other nodes" not in report, report
        w1, w2 = (make(w[name]).astype(np.float64) for name in ("w1", "w2"))
        for rows in (1, 6, 70):
            x = rng.standard_normal((rows, hidden)).astype(np.float32)
            odds = np.exp(x.astype(np.float64) @ w["gate"])
            chosen = np.argsort(-odds, 1)[:, :2]
            share = np.take_along_axis(odds, chosen, 1)
            share /= share.sum(1, keepdims=True)
            expected = [sum(f * (w2[e] @ np.maximum(w1[e] @ row, 0)) for e, f in zip(c, s)) for row, c, s in zip(x.astype(np.float64), chosen, share)]
            y, = results(f"{FOLDER}/moe.so", {"x": x}, 1, names=["y"])
            assert np.abs(y - expected).max() <= 2e-5 * np.abs(expected).max(), f"{option}, {rows} rows"
            if option != "--weights-as=i4":
                continue
            report = dlcc(f"{FOLDER}/moe.onnx", option, "--activations-as=i8", "-o", f"{FOLDER}/bytes.so", *samples.unoptimised())
            assert "activations: 2 products of bytes, 1 left unchanged" in report, report
            as_bytes = lambda v: rows_as_bytes(v.astype(np.float32), 32)
            expected = [sum(f * (w2[e] @ as_bytes(np.maximum(w1[e] @ row, 0))) for e, f in zip(c, s)) for row, c, s in zip(as_bytes(x), chosen, share)]
            y, = results(f"{FOLDER}/bytes.so", {"x": x}, 1, names=["y"])
            # an element that lies half a step from two bytes may become the other one
            assert np.abs(y - expected).max() <= 2e-3 * np.abs(expected).max(), f"bytes, {rows} rows"


def written_models():
    """-o model.onnx writes weights that the options made narrow, as ONNX Runtime and dlcc read them."""
    import onnxruntime

    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # else it rounds activations to bytes, too
    for dtype, option in ((T.FLOAT16, "--weights-as=f16"), (T.BFLOAT16, "--weights-as=bf16"), (T.FLOAT, "--weights-as=i8"), (T.FLOAT, "--weights-as=i4")):
        p = Products(13, False)
        p.halves(dtype, False)
        if dtype != T.FLOAT:
            p.filters(dtype, False)
        onnx.save(p.proto(), f"{FOLDER}/floats.onnx")
        report = dlcc(f"{FOLDER}/floats.onnx", option, "-o", f"{FOLDER}/written.onnx")
        assert f"weights: {len(p.inputs)} " in report and "; 0 left unchanged" in report, report
        dlcc(f"{FOLDER}/floats.onnx", option, "-o", f"{FOLDER}/direct.so", *samples.unoptimised())
        dlcc(f"{FOLDER}/written.onnx", "--winograd=0", "-o", f"{FOLDER}/written.so", *samples.unoptimised())
        floats = [t for t in onnx.load(f"{FOLDER}/written.onnx").graph.initializer if t.data_type == T.FLOAT]
        assert option in ("--weights-as=i4", "--weights-as=i8") or not floats, "some weights are in f32"
        inputs = {x.name: p.values([d.dim_value or 5 for d in x.type.tensor_type.shape.dim]) for x in p.inputs}
        direct, written = (results(f"{FOLDER}/{name}.so", inputs, len(inputs)) for name in ("direct", "written"))
        peer = onnxruntime.InferenceSession(f"{FOLDER}/written.onnx", plain, providers=["CPUExecutionProvider"]).run(None, inputs)
        for a, b, c in zip(direct, written, peer):
            room = 1e-4 * np.abs(a).max()
            # The scale of a vector's bytes may follow the sum in one of them.
            vector = option == "--weights-as=i8" and a.shape[0] == 1 and a.ndim == 2
            assert (np.abs(a - b).max() <= room / 100 if vector else np.array_equal(a, b)) and np.abs(a - c).max() <= room, option


def written_recurrent_models():
    """Weights of an LSTM and a GRU, which are parts of constants, and in loops, are as narrow in a written model as in a library."""
    import onnxruntime

    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # as in written_models
    hidden, rng = 32, np.random.default_rng(4)
    weights = {name: (rng.standard_normal(shape) * 0.2).astype(np.float32) for name, shape in
               (("w", (2, 4 * hidden, 64)), ("r", (2, 4 * hidden, hidden)), ("wg", (1, 3 * hidden, 64)), ("rg", (1, 3 * hidden, hidden)))}
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y0"], hidden_size=hidden, direction="bidirectional"),
             helper.make_node("GRU", ["x", "wg", "rg"], ["y1"], hidden_size=hidden)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["T", "B", 64])],
                              [helper.make_tensor_value_info(f"y{i}", T.FLOAT, None) for i in range(2)],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), f"{FOLDER}/recurrent.onnx")
    inputs = {"x": rng.standard_normal((5, 3, 64)).astype(np.float32)}
    for option in "--weights-as=i8", "--weights-as=bf16":
        report = dlcc(f"{FOLDER}/recurrent.onnx", option, "-o", f"{FOLDER}/written.onnx")
        assert f"; weights: 7 {'quantised' if option.endswith('i8') else 'rounded'}, " in report and "; 0 left unchanged" in report, report
        dlcc(f"{FOLDER}/recurrent.onnx", option, "-o", f"{FOLDER}/direct.so", *samples.unoptimised())
        dlcc(f"{FOLDER}/written.onnx", "-o", f"{FOLDER}/written.so", *samples.unoptimised())
        direct, written = (results(f"{FOLDER}/{name}.so", inputs, 2) for name in ("direct", "written"))
        peer = onnxruntime.InferenceSession(f"{FOLDER}/written.onnx", plain, providers=["CPUExecutionProvider"]).run(None, inputs)
        for a, b, c in zip(direct, written, peer):
            assert np.abs(a - b).max() <= 1e-5 and np.abs(a - c).max() <= 1e-5, (option, np.abs(a - b).max(), np.abs(a - c).max())


def rounded_rows(x, dtype):
    """X as --caches-as=DTYPE stores it, and as it is read; of bytes, its scales, too."""
    if dtype == "f16":
        return [x.astype(np.float16)], x.astype(np.float16).astype(np.float64)
    scale = np.maximum(np.abs(x).max(-1, keepdims=True, initial=0) * np.float32(1 / 127), np.finfo(np.float32).tiny)
    rows = np.rint(x / scale).astype(np.int8)
    return [rows, scale], rows * scale.astype(np.float64)


def narrow_caches():
    """--caches-as: new keys are rounded, those of the cache are not, and sums are of f32; on the CPU and the simulated GPU. Keys are
    appended, or written into a cache that has rows to spare."""
    def info(name, *shape, dtype=T.FLOAT):
        return helper.make_tensor_value_info(name, dtype, shape)

    append = [helper.make_node("Concat", ["past", "new"], ["y1"], axis=2)]
    write = [helper.make_node("TensorScatter", ["past", "new", "at"], ["y1"], axis=2)]
    reads = [helper.make_node("Transpose", ["y1"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["y0"]),
             helper.make_node("ReduceSum", ["past"], ["y2"], keepdims=0)]
    rng = np.random.default_rng(3)
    gpu = os.path.exists(BUILD + "/ptxsim/libcuda.so.1") and "cuda:" in dlcc("--list-targets")
    for device, dtype, writes in itertools.product(("cpu", "cuda") if gpu else ("cpu",), ("f16", "i8"), (False, True)):
        inputs = [info("past", "B", 2, "P", 64), info("new", "B", 2, "S", 64), info("q", "B", 2, "S", 64)]
        graph = helper.make_graph((write if writes else append) + reads, "g", inputs + [info("at", "B", dtype=T.INT64)] * writes,
                                  [info("y0", "B", 2, "S", "T"), info("y1", "B", 2, "T", 64), info("y2")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), f"{FOLDER}/caches.onnx")
        report = dlcc(f"{FOLDER}/caches.onnx", f"--caches-as={dtype}", *(["--target=cuda:sm_80"] if device == "cuda" else []), "-o", f"{FOLDER}/caches.so",
                      *samples.unoptimised())
        assert f"; caches: 1, as inputs and outputs, are {dtype} now" in report, report
        for past, new in ((0, 5), (9, 1), (33, 4)):
            if writes and not past:
                continue
            old, old_read = rounded_rows(rng.standard_normal((2, 2, past, 64)).astype(np.float32), dtype)
            x, q = (f((2, 2, new, 64)).astype(np.float32) for f in (rng.standard_normal, lambda s: rng.integers(-2, 3, s)))
            if new == 4:
                x[0, 1, 2] = 0
            added, added_read = rounded_rows(x, dtype)
            feeds = {"past": old[0], "new": x, "q": q, **({"at": np.array([past - new, 0])} if writes else {}),
                     **({"past.scale": old[1]} if dtype == "i8" else {})}
            y0, y1, y2, *scales = results(f"{FOLDER}/caches.so", feeds, 0, samples.simulated(BUILD) if device == "cuda" else None, ("--device", device),
                                          names=["y0", "y1", "y2"] + ["y1.scale"] * (dtype == "i8"))

            def present(a, b):
                if not writes:
                    return np.concatenate([a, b], 2)
                c = a.copy()
                c[0, :, past - new:], c[1, :, :new] = b[0], b[1]
                return c
            assert y1.dtype == old[0].dtype and np.array_equal(y1, present(old[0], added[0]))
            assert dtype == "f16" or np.array_equal(scales[0], present(old[1], added[1]))
            assert np.abs(y0 - q.astype(np.float64) @ present(old_read, added_read).swapaxes(2, 3)).max() < 1e-4
            assert y2.dtype == np.float32 and abs(y2 - old_read.sum()) < 1e-3


def rows_as_bytes(x, group):
    """X as --activations-as=i8 makes it, by the rules of passes/kernel/quantise_activations.c, in f32."""
    parts = x.reshape(*x.shape[:-1], -1, group)
    top = np.abs(parts).max(-1, keepdims=True)
    tiny = top < 2.0 ** -100
    inverse = np.where(tiny, 0, np.float32(127) / np.where(tiny, 1, top)).astype(np.float32)
    scale = np.where(tiny, 0, top * np.float32(1 / 127)).astype(np.float32)
    return (np.rint(parts * inverse) * scale.astype(np.float64)).reshape(x.shape)


def activations_match_numpy():
    """Every kind of narrow weights whose sum consists of whole groups, on each CPU, with few rows and many, beside f64."""
    # zero points of fewer elements would be folded, so that terms no longer have them in common
    cases = ((T.INT4, 96, 40, 32, False), (T.UINT4, 256, 48, 32, True), (T.INT2, 96, 70, 32, False), (T.UINT2, 320, 70, 16, True),
             (T.UINT8, 240, 50, 48, True), (T.INT8, 128, 35, 128, False), (T.UINT4, 96, 33, 32, False), (T.INT8, 160, 90, None, False))
    p = Products(11, False)
    for dtype, k, n, block, zero in cases:
        p.linear(dtype, k, n, 0, block, zero)
    p.transposed(T.INT4, 192, 33, 32, False)
    p.bits(4, 256, 48, 32, "packed")
    p.bits(8, 96, 40, 32, None)
    groups = [64 if case[3] == case[1] else case[3] or 32 for case in cases] + [32, 32, 32]
    onnx.save(p.proto(), f"{FOLDER}/rows.onnx")
    for target in samples.share([t for t, flag in {**CPUS, "v4-vnni": "avx512_vnni", "native": ""}.items() if runs_here(flag)], 3):
        for options in ((), ("--cc=gcc",)) if target == "native" else ((),):
            report = dlcc(f"{FOLDER}/rows.onnx", f"--target=cpu:{target}", "--activations-as=i8", *UNOPTIMISED, *options, "-o", f"{FOLDER}/rows.so")
            assert f"activations: {len(groups)} products of bytes, 0 left unchanged" in report, report
            for rows in (1, 2, 5, 19):
                inputs = {x.name: p.values([rows, x.type.tensor_type.shape.dim[1].dim_value]) for x in p.inputs}
                inputs["x0"][0, 32:64] = 0
                outputs = results(f"{FOLDER}/rows.so", inputs, len(groups))
                for i, (x, terms, group) in enumerate(zip(inputs.values(), p.terms, groups)):
                    x = rows_as_bytes(x, group)
                    room = 4 * (x.shape[1] + 4) * 2.0 ** -24 * terms(x, np.abs).max()
                    worst = np.abs(outputs[i] - terms(x)).max()
                    assert worst <= room, f"{target}, product{i}, {rows} rows: {worst} is above {room}"


def accuracy_level_allows_bytes():
    """MatMulNBits of level 4 quantises its rows without an option, others do not."""
    p, groups = Products(13, False), [32, None, 128, None, 32]
    for bits, k, group, level in ((4, 256, 32, 4), (4, 256, 32, 3), (4, 384, 128, 4), (8, 96, 32, 0), (8, 96, 32, 4)):
        p.bits(bits, k, 48, group, "packed" if k == 384 else None, accuracy_level=level)
    onnx.save(p.proto(), f"{FOLDER}/level.onnx")
    report = dlcc(f"{FOLDER}/level.onnx", "-o", f"{FOLDER}/level.so")
    assert "activations: 3 products of bytes, 0 left unchanged" in report, report
    for rows in (1, 2, 5, 19):
        inputs = {x.name: p.values([rows, x.type.tensor_type.shape.dim[1].dim_value]) for x in p.inputs}
        outputs = results(f"{FOLDER}/level.so", inputs, len(groups))
        for i, (x, terms, group) in enumerate(zip(inputs.values(), p.terms, groups)):
            x = rows_as_bytes(x, group) if group else x.astype(np.float64)
            room = 4 * (x.shape[1] + 4) * 2.0 ** -24 * terms(x, np.abs).max()
            worst = np.abs(outputs[i] - terms(x)).max()
            assert worst <= room, f"product{i}, {rows} rows: {worst} is above {room}"


if __name__ == "__main__":
    sys.exit(samples.run_all([whole_numbers_on_each_cpu, real_numbers, with_gcc, on_the_simulated_gpu, small_floats, halves, both_factors_are_bf16, models_of_bf16, halves_on_the_simulated_gpu, special_halves, weights_stay_narrow,
                              threads_do_not_matter, options_match_numpy, experts, written_models, written_recurrent_models, narrow_caches, activations_match_numpy, accuracy_level_allows_bytes], sys.argv[3:]))

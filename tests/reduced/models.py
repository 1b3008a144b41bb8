# SPDX-License-Identifier: Apache-2.0
"""Smallest models of faults that were mended: each was compiled wrong, crashed, or was refused once.

    models.py FOLDER    writes each as a case, FOLDER/NAME in ONNX's layout, with outputs of ONNX Runtime

A row is the model in ONNX's textual syntax, its data sets, a dict of arrays each, and, where ONNX Runtime is not to be trusted, a
function that gives the outputs."""

import sys

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import samples  # noqa: E402

rng = np.random.default_rng(1)


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def whole(*shape):
    return rng.integers(-9, 10, shape)


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


def old(opset, text):
    """TEXT as a model of an older opset."""
    return f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}'


def counted(a, b, c):
    """Range, with numbers that no machine's integers hold."""
    n = max(0, -((int(a) - int(b)) // int(c)))
    return {"y": np.array([int(a) + i * int(c) for i in range(n)], np.int64)}


def sliced(x, s, e, t):
    """Slice along axis 0, as ONNX limits starts and ends. An end of INT64_MAX is not "all" where the step is negative, as it is for ONNX Runtime."""
    n, step = len(x), int(t[0])
    low, high = (0, n) if step > 0 else (-1, n - 1)
    start, end = (int(v[0]) + (n if v[0] < 0 else 0) for v in (s, e))
    return {"y": x[list(range(min(max(start, 0), high), min(max(end, low), high), step))]}


def distinct(x):
    y, first, inverse, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return {"y": y, "i": first, "v": inverse, "c": count}


def in_order(x):
    """The same in the order of the first elements."""
    d = distinct(x)
    order = np.argsort(d["i"])
    return {"y": d["y"][order], "i": d["i"][order], "v": np.argsort(order)[d["v"]].astype(np.int64), "c": d["c"][order]}


def ranges(dtype):
    """Data sets of integers for which a table is small enough, just small enough, and just too large, at both ends of the type."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    few = rng.integers(0, 9, 30)
    sets = [[low + int(k) for k in few], [high - int(k) for k in few], [low, low + 20, low + 20, low, low + 7], [low + 21, low, low, low + 3, low], [low, high, low], [high], []]
    if dtype in (np.int64, np.uint64):
        middle = 1 << 62
        sets += [[middle - 4 + int(k) for k in few], [middle, 0, middle, 1], [middle * 2 - 1, 0, 5], [2, middle + 3, middle + 1, 2]]
    return [{"x": np.array(x, dtype=dtype)} for x in sets]


def halves(dtype):
    """Data sets of 64-bit numbers: equal upper halves, equal lower ones, others, none, and one."""
    few, any_ = rng.integers(0, 5, 70), rng.integers(-2**63, 2**63 - 1, 70)
    if dtype is np.float64:
        sets = [few.astype(dtype), few * 2.0**-1070, np.where(few > 2, np.float64(-0.0), rng.standard_normal(70)), any_.view(np.int64) * 1e290]
    else:
        sets = [v.astype(np.int64).view(dtype) for v in (few, few << 32, any_, few * 2**31 - 2**32)]
    return [{"x": x.astype(dtype)} for x in (*sets, sets[2][:0], sets[2][:1])]


EXTREMES = (-2**63, -2**61, -1, 0, 2, 2**61, 2**63 - 1)


# A range over the last dim of x: the condition or factor that reads it depends on one of two iterators.
RANGE = """<int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 last = {1}> {
    s = Shape (x)
    n = Gather (s, last)
    r = Range (zero, n, one)"""

MODELS = {
    # Iterators that every load steps through in one stride were joined, though a condition or a factor reads one of them.
    "pad_value": ("g (float[3,4] x) => (float[a,b] y) <int64[4] p = {1,0,0,0}, float c = {1}> { y = Pad (x, p, c) }",
                  [{"x": real(3, 4)}]),
    "where_range": (f"g (float[N,M] x, float[N,M] z) => (float[N,M] y) {RANGE} c = Less (r, two) y = Where (c, x, z) }}",
                    [{"x": real(3, 4), "z": real(3, 4)}, {"x": real(1, 7), "z": real(1, 7)}]),
    "where_range_scalar": (f"g (float[N,M] x, float z) => (float[N,M] y) {RANGE} c = Less (r, two) y = Where (c, x, z) }}",
                           [{"x": real(3, 4), "z": np.array(2, np.float32)}]),
    # The proof found a fault at sizes that do not exist: a product of sizes that was 1 though one of them was 0.
    "tile_of_rows": ("g (float[N,3] x, int64[2] r) => (float[a,b] y) { y = Tile (x, r) }",
                     [{"x": real(4, 3), "r": ints(2, 3)}, {"x": real(1, 3), "r": ints(1, 1)}]),
    # A graph that was evaluated before: what a side of an If requires was checked though the side did not run.
    "side_again": ("""g (float[N] x, int64[1] axes, bool c) => (float[n] y) <int64[1] start = {0}, int64[1] end = {2}, int64[1] step = {1}> {
                      y = If (c) <then_branch = part () => (float[?] part) { part = Slice (x, start, end, axes, step) },
                                  else_branch = all () => (float[?] all) { all = Identity (x) }> }""",
                   [{"x": real(4), "axes": ints(-1), "c": np.array(c)} for c in (True, True, False)]),
    # A softmax whose maxima are clamped has sums below 1, and was divided by 1 after the second product of an attention.
    "clamped_maximum": ("""g (float[2,N,64] q, float[2,64,M] k, float[2,M,16] v) => (float[2,N,16] y)
                           <float none = {0}, float eps = {0.000000001}, int64[1] last = {-1}> {
                           s = MatMul (q, k) m = ReduceMax (s, last) c = Max (m, none) d = Sub (s, c) e = Exp (d) t = ReduceSum (e, last)
                           u = Max (t, eps) w = Div (e, u) y = MatMul (w, v) }""",
                        [{"q": np.full((2, 20, 64), -0.125, np.float32), "k": np.ones((2, 64, 40), np.float32), "v": real(2, 40, 16)}]),
    "clamped_maximum_alone": ("""g (float[2,N,64] q, float[2,64,M] k, float[2,M,16] v) => (float[2,N,16] y)
                                 <float none = {0}, int64[1] last = {-1}> {
                                 s = MatMul (q, k) m = ReduceMax (s, last) c = Max (m, none) d = Sub (s, c) e = Exp (d)
                                 t = ReduceSum (e, last) w = Div (e, t) y = MatMul (w, v) }""",
                              [{"q": np.full((2, 20, 64), -0.125, np.float32), "k": np.ones((2, 64, 40), np.float32), "v": real(2, 40, 16)}]),
    # The sum of products of bytes wrapped, since a zero point was no byte.
    "large_zero_point": ("""g (uint8[N,512] x, int32 z, int8[512,32] b) => (float[N,32] y) <float s = {0.00001}, float t = {1}, int8 o = {0}> {
                            i = Cast <to = 6> (x) d = Sub (i, z) f = Cast <to = 1> (d) a = Mul (f, s) w = DequantizeLinear (b, t, o)
                            y = MatMul (a, w) }""",
                         [{"x": rng.integers(0, 256, (32, 512)).astype(np.uint8), "z": np.array(100000, np.int32),
                           "b": np.full((512, 32), 100, np.int8)}]),
    # A constant behind a view whose dims are read from data was in no memory.
    "constant_view": ("g (float[2,3] x, int64[2] s) => (float[a,b] y) <float[3,2] c = {1,2,3,4,5,6}> "
                      "{ v = Reshape (c, s) y = Add (x, v) }", [{"x": real(2, 3), "s": ints(2, 3)}, {"x": real(2, 3), "s": ints(-1, 3)}]),
    "where_trilu": ("g (float[N,M] x, float[N,M] z) => (float[a,b] y) { q = Sub (x, x) e = Exp (q) l = Trilu (e) "
                    "c = Cast <to = 9> (l) y = Where (c, x, z) }",
                    [{"x": real(3, 4), "z": real(3, 4)}, {"x": real(1, 7), "z": real(1, 7)}, {"x": real(5, 1), "z": real(5, 1)}]),
    "where_eyelike": ("g (float[N,M] x, float[N,M] z) => (float[a,b] y) { e = EyeLike (x) c = Cast <to = 9> (e) y = Where (c, x, z) }",
                      [{"x": real(3, 4), "z": real(3, 4)}]),
    "sub_mul_range": (f"g (int64[N,M] x, int64[N,M] z) => (int64[N,M] y) {RANGE} d = Sub (x, z) y = Mul (d, r) }}",
                      [{"x": whole(3, 4), "z": whole(3, 4)}]),
    "xor_mul_range": (f"g (int64[N,M] x, int64[N,M] z) => (int64[N,M] y) {RANGE} d = BitwiseXor (x, z) y = Mul (d, r) }}",
                      [{"x": whole(3, 4), "z": whole(3, 4)}]),
    # A window that is larger than the padded input, by less than the stride, was refused.
    "pool_ceil": ("g (float[1,2,2,3] x) => (float[1,2,a,b] y, float[1,2,c,d] z) { "
                  "y = MaxPool <kernel_shape = [3, 4], strides = [2, 3], ceil_mode = 1> (x) "
                  "z = AveragePool <kernel_shape = [3, 4], strides = [2, 3], ceil_mode = 1> (x) }",
                  [{"x": real(1, 2, 2, 3)}]),
    # A thread's scratch is as large as a dim that is read from data, which was not known when memory was planned.
    "softmax_tile": ("g (float[2,5,4] x, int64[3] n) => (float[a,b,c] y) { s = Tile (x, n) y = Softmax <axis = 1> (s) }",
                     [{"x": real(2, 5, 4), "n": ints(1, 3, 1)}, {"x": real(2, 5, 4), "n": ints(2, 200, 1)}]),
    "softmax_pad": ("g (float[2,5,4] x, int64[6] p) => (float[a,b,c] y) { s = Pad (x, p) y = Softmax <axis = 1> (s) }",
                    [{"x": real(2, 5, 4), "p": ints(0, 0, 0, 0, 1, 0)}, {"x": real(2, 5, 4), "p": ints(0, 300, 0, 0, 9, 0)}]),
    "softmax_expand": ("g (float[2,1,4] x, int64[3] n) => (float[a,b,c] y) { s = Expand (x, n) y = Softmax <axis = 1> (s) }",
                       [{"x": real(2, 1, 4), "n": ints(2, 500, 4)}]),
    "softmax_slice": ("g (float[2,900,4] x, int64[1] n) => (float[a,b,c] y) <int64[1] zero = {0}, int64[1] one = {1}> "
                      "{ s = Slice (x, zero, n, one) y = Softmax <axis = 1> (s) }",
                      [{"x": real(2, 900, 4), "n": ints(700)}]),
    "softmax_reshape": ("g (float[N] x, int64[3] n) => (float[a,b,c] y) { s = Reshape (x, n) y = Softmax <axis = 1> (s) }",
                        [{"x": real(4000), "n": ints(2, 500, 4)}, {"x": real(4000), "n": ints(1, 1000, 4)}]),
    "matmul_tile": ("g (float[3,4,5] x, int64[3] n) => (float[a,b,c] y) "
                    "{ s = Tile (x, n) t = Transpose <perm = [0,2,1]> (s) y = MatMul (s, t) }",
                    [{"x": real(3, 4, 5), "n": ints(1, 20, 1)}]),
    # An addend of the shape that broadcasting gives the result, not of the convolution's channels, became its bias.
    "conv_one_channel_add": ("g (float[2,2,8] x) => (float[a,b,c] y) <float[1,2,3] w = {1,2,3,4,5,6}, float[4,1] s = {1,2,3,4}> "
                             "{ c = Conv (x, w) y = Add (c, s) }", [{"x": real(2, 2, 8)}]),
    # A long sum across memory was rounded at every term, as ONNX Runtime's is.
    "sum_across_memory": ("g (float[1,4] x, int64[2] n) => (float[a,b] y) <int64[1] zero = {0}> "
                          "{ s = Expand (x, n) y = ReduceSum (s, zero) }",
                          [{"x": abs(real(1, 4)), "n": ints(400_000, 4)}], lambda x, n: {"y": x * np.float32(n[0])}),
    # GCC 12 vectorised the loop around unrolled ones that sum the bytes of each window, and left sums out.
    "conv_integer_planes": ("g (float[2,7,8,4,1] x) => (int32[a,b,c,d,e] y) <uint8 z = {4}, uint8[5,7,2,1,1] w = {%s}> { p = Cast <to = 2> (x) "
                            "y = ConvInteger <strides = [1,2,3], dilations = [1,2,2], pads = [1,0,0,0,0,0]> (p, w, z) }"
                            % ",".join(map(str, range(70))), [{"x": whole(2, 7, 8, 4, 1).astype(np.float32) + 9}]),
    # The nearest elements of opset 10 where an axis shrinks are those above; only those below were taken.
    "resize_10": (old(10, """g (float[M,20,10] x, float[N,9,8] z, float[3] r) => (float[a,b,c] y, float[d,e,f] w)
                             <float[3] s = {1.5, 0.8, 0.6}> { y = Resize <mode = "nearest"> (x, s) w = Resize <mode = "nearest"> (z, r) }"""),
                  [{"x": real(4, 20, 10), "z": real(4, 9, 8), "r": floats(0.7, 2, 0.3)}]),
    # Nearest elements at scales that f32 holds a little too large: as any program that computes in f32 finds them.
    "resize_inexact": (old(18, """g (float[20] x, float[N,M] z, float[2] r) => (float[a] y, float[b,c] u, float[d,e] v, float[f] w)
                        <float[1] s = {1.6}, float[2] t = {0.6, 1.7}, float[1] q = {2.4}> {
                        y = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , s)
                        u = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "half_pixel"> (z, , t)
                        v = Resize <mode = "nearest", nearest_mode = "ceil", coordinate_transformation_mode = "asymmetric"> (z, , r)
                        w = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "half_pixel_symmetric"> (x, , q) }"""),
                       [{"x": real(20), "z": real(20, 33), "r": floats(1.2, 2.2)}]),
    "upsample_inexact": (old(9, 'g (float[20,N] x) => (float[a,b] y) <float[2] s = {1.6, 1.2}> { y = Upsample <mode = "nearest"> (x, s) }'),
                         [{"x": real(20, 33)}]),
    # A bound that is missing is the largest finite number, which infinities are clipped to.
    "clip_one_bound": ("""g (float[N] x, double[N] d, float16[N] h) => (float[N] y, float[N] z, float[N] w, double[N] e, float16[N] g)
                          <float b = {1}> { y = Clip (x, b) z = Clip (x, , b) w = Clip (x) e = Clip (d) g = Clip (h) }""",
                       [{"x": floats(-np.inf, np.inf, 3), "d": np.array([-np.inf, np.inf, 3]), "h": np.array([-np.inf, np.inf, 3], np.float16)}]),
    # Sizes that are computed from numbers near the ends of 64 bits wrapped, or were clamped at 2^60.
    "range_i64": ("g (int64 a, int64 b, int64 c) => (int64[n] y) { y = Range (a, b, c) }",
                  [dict(zip("abc", map(np.int64, v))) for v in
                   [(-2**62, 2**62 + 5, 2**61), (-2**63, 2**63 - 1, 2**62), (2**63 - 1, -2**63, -2**62), (2**63 - 3, 2**63 - 1, 1),
                    (1_700_000_000_000_000_000, 1_700_000_000_000_000_005, 2), (2**63 - 1, -2**63, 7), (5, -2**63, 2**63 - 1)]], counted),
    "range_i64_constant": ("""g (int64[N] x) => (int64[N] y) <int64 a = {-9223372036854775808}, int64 b = {9223372036854775807}, int64 c = {4611686018427387904}>
                              { r = Range (a, b, c) y = Add (x, r) }""", [{"x": whole(4)}],
                           lambda x: {"y": x + counted(-2**63, 2**63 - 1, 2**62)["y"]}),
    "range_f32": ("""g (float a, float b, float c) => (float[n] y, float[m] z) <float d = {-3e38}, float e = {3e38}, float f = {1e38}>
                     { y = Range (a, b, c) z = Range (d, e, f) }""",
                  [dict(zip("abc", floats(*v))) for v in [(-3e38, 3e38, 2e38), (0.1, 1.3, 0.4), (-4.9, -2.8, 0.7)]],
                  lambda a, b, c: {"y": a + c * np.arange(np.ceil((float(b) - float(a)) / float(c)), dtype=np.float32),
                                   "z": np.float32(-3e38) + np.float32(1e38) * np.arange(7, dtype=np.float32)}),
    "slice_extremes": ("g (float[N,2] x, int64[1] s, int64[1] e, int64[1] t) => (float[a,2] y) <int64[1] k = {0}> { y = Slice (x, s, e, k, t) }",
                       [{"x": real(4, 2), "s": ints(s), "e": ints(e), "t": ints(t)} for s in EXTREMES for e in EXTREMES
                        for t in (-2**63, -1, 1, 2**63 - 1)], sliced),
    "empty_huge": ("g (int64[2] s) => (float[a,b] y) { y = ConstantOfShape (s) }", [{"s": ints(3 * 2**59, 0)}, {"s": ints(0, 3 * 2**59)}],
                   lambda s: {"y": np.zeros((0, 0), np.float32).reshape(s)}),
    # A window of rows and then of columns: strides, dilations, pads of each side, a rest, a dim of one element with a stride.
    "pools_apart": ("""g (float[1,3,H,W] x, float[1,2,D,H,W] z) => (float[a,b,c,d] p, float[a,b,e,f] q, float[a,b,g,h] r, float[a,b,i,j] s,
                       float[a,k,l,m,n] t)
                       { p = MaxPool <kernel_shape = [4, 5], dilations = [2, 1], pads = [1, 2, 3, 0], strides = [1, 2]> (x)
                         q = AveragePool <kernel_shape = [5, 4], pads = [2, 1, 0, 3], ceil_mode = 1, strides = [2, 1]> (x)
                         r = AveragePool <kernel_shape = [4, 6], count_include_pad = 1, auto_pad = "SAME_LOWER"> (x)
                         s = LpPool <kernel_shape = [7, 3], p = 3> (x)
                         t = MaxPool <kernel_shape = [3, 1, 4], strides = [1, 2, 1], pads = [1, 0, 0, 1, 0, 3]> (z) }""",
                    [{"x": real(1, 3, h, w), "z": real(1, 2, d, h, w)} for h, w, d in ((9, 11, 4), (7, 5, 1), (30, 33, 6))]),
    # Sorted half by half: 64 bits and an index do not fit into a key.
    **{f"unique_{name}": (f"g ({name}[N] x) => ({name}[m] y, int64[m] i, int64[N] v, int64[m] c) {{ y, i, v, c = Unique (x) }}", halves(t), distinct)
       for name, t in (("int64", np.int64), ("uint64", np.uint64), ("double", np.float64))},
    # Integers of a short range are found in a table, others sorted; only run time knows which.
    **{f"unique_table_{name}": (f"g ({name}[N] x) => ({name}[m] y, int64[m] i, int64[N] v, int64[m] c) {{ y, i, v, c = Unique <sorted = 0> (x) }}",
                                ranges(t), in_order)
       for name, t in (("int64", np.int64), ("uint64", np.uint64), ("int32", np.int32), ("uint8", np.uint8))},
    "topk_int64": ("g (int64[2,40] x) => (int64[2,30] y, int64[2,30] i) <int64[1] k = {30}> { y, i = TopK (x, k) }",
                   [{"x": rng.integers(-2**63, 2**63 - 1, (2, 40))}, {"x": rng.integers(-3, 3, (2, 40)) << 40}]),
    # A dim of 1 that only run time knows did not broadcast, which the number 1 does.
    "einsum_ones": ("""g (float[B,H,N,D] q, float[B,K,M,D] k, float[E,F] a, float[G,L] b) => (float[b,h,n,m] y, float[e,l] z, float w)
                       { y = Einsum <equation = "bhnd,bhmd->bhnm"> (q, k) z = Einsum <equation = "ij,jk->ik"> (a, b)
                         w = Einsum <equation = "ij,ij->"> (a, b) }""",
                    [{"q": real(2, 4, 3, 5), "k": real(2, 1, 6, 5), "a": real(1, 3), "b": real(3, 3)},
                     {"q": real(1, 3, 3, 5), "k": real(1, 3, 6, 5), "a": real(2, 4), "b": real(1, 4)}],
                    lambda q, k, a, b: {"y": np.einsum("bhnd,bhmd->bhnm", q, np.broadcast_to(k, q.shape[:2] + k.shape[2:])),
                                        "z": np.einsum("ij,jk->ik", a, np.broadcast_to(b, (a.shape[1], b.shape[1]))),
                                        "w": np.float32(np.sum(a * b))}),
    "scales_of_one": ("""g (uint8[N,M] x, float[S] s, uint8[Z] z, float[N,M] f, int8[4,C] w, uint8[A] p, int8[B] q, int8[1,D] r)
                         => (float[N,M] y, uint8[N,M] u, int32[N,C] v, int32[N,C] t)
                         { y = DequantizeLinear (x, s, z) u = QuantizeLinear (f, s, z) v = MatMulInteger (x, w, p, q) t = MatMulInteger (x, w, p, r) }""",
                      [{"x": whole(3, 4).astype(np.uint8), "s": floats(*[0.5] * n), "z": np.array([3] * n, np.uint8), "f": real(3, 4),
                        "w": whole(4, c).astype(np.int8), "p": np.array([7] * (1 if n == 1 else 3), np.uint8),
                        "q": np.array([-2] * m, np.int8), "r": np.full((1, m), 4, np.int8)}
                       for n, c, m in [(1, 5, 1), (4, 5, 5), (4, 2, 1)]],
                      lambda x, s, z, f, w, p, q, r: {
                          "y": ((x.astype(np.int32) - z) * s).astype(np.float32),
                          "u": np.clip(np.rint(f / s) + z, 0, 255).astype(np.uint8),
                          "v": (x.astype(np.int32) - p.reshape(-1, 1)) @ (w.astype(np.int32) - q),
                          "t": (x.astype(np.int32) - p.reshape(-1, 1)) @ (w.astype(np.int32) - r)}),
    "squeeze_declared": ("g (float[N,1,4] x) => (float[k] y, float[b,c] z) { y = Squeeze (x) z = Squeeze (x) }",
                         [{"x": real(1, 1, 4)}], lambda x: {"y": x[0, 0], "z": x[:, 0]}),
    # Operands whose number of elements the standard prescribes had to declare it.
    "operand_lengths": ("""g (float[N,6] x, int64[K] k, int64[R] r, int64[P] p, int64[S] s, int64[D] d, int64[A] a, int64[B] b, int64[E] e, bool[C] c)
                           => (float[n,m] top, int64[n,m] at, float[o,q] tile, float[t,u] pad, float[v,w] left, float[v2,w2] right,
                               float[h,i] crop, float[j,l] part, float[xx,yy] cum, float[zz,vv] one, float[g1,g2] side)
                           <float[2] off_on = {0, 1}, int64[2] index = {1, 0}, int64[2] axes = {0, 1}> {
                           top, at = TopK (x, k) tile = Tile (x, r) pad = Pad (x, p) left, right = Split <axis = 1> (x, s)
                           crop = CenterCropPad (x, r) part = Slice (x, a, b, axes) cum = CumSum (x, e) one = OneHot (index, d, off_on)
                           side = If (c) <then_branch = yes () => (float[N,6] th) { th = Neg (x) }, else_branch = no () => (float[N,6] el) { el = Abs (x) }> }""",
                        [{"x": real(3, 6), "k": ints(4), "r": ints(2, 3), "p": ints(1, 0, 2, 1), "s": ints(2, 4), "d": ints(5), "a": ints(1, 2),
                          "b": ints(3, 5), "e": ints(1), "c": np.array([True])}]),
    # Rows between offsets, as exporters write a bag of embeddings: slices of unknown size that decide, and that slice.
    "bags": ("""g (float[N,2] rows, int64[B] off) => (float[b,2] y)
                <int64 zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1}, float[1,2] nothing = {0, 0}, int64[1] first = {0}> {
                n = Shape <end = 1> (rows) offsets = Concat <axis = 0> (off, n) bags = Size (off) none = SequenceEmpty () go = Less (zero, bags)
                all, last = Loop (, go, none, zero) <body = body (int64 i, bool c, seq(float) s, int64 at) => (bool on, seq(float) more, int64 next) {
                    k = Reshape (at, minus) k1 = Add (k, one) k2 = Add (k, two) from = Slice (offsets, k, k1) to = Slice (offsets, k1, k2)
                    same = Equal (from, to)
                    row = If (same) <then_branch = yes () => (float[1,2] th) { th = Identity (nothing) },
                                     else_branch = no () => (float[1,2] el) { part = Slice (rows, from, to) el = ReduceSum (part, first) }>
                    more = SequenceInsert (s, row) k3 = Squeeze (k1, first) next = Identity (k3) on = Less (next, bags) }>
                y = ConcatFromSequence <axis = 0> (all) }""",
             [{"rows": real(7, 2), "off": ints(0, 2, 2, 6)}, {"rows": real(3, 2), "off": ints(0)}]),
    "slice_of_slice": ("""g (float[N,2] x, int32[B] at, float[B] z) => (float[B,2] y) <int64[1] one = {1}, int64[1] axis = {0}, int32[1] step = {1}, int32[1] axis_32 = {0}, int64[1] minus = {-1}> {
                          n = Size (z) go = Greater (n, n) no = Not (go)
                          y = Loop (n, no) <body = body (int64 i, bool c) => (bool on, float[2] row) {
                              k = Reshape (i, minus) k1 = Add (k, one) from = Slice (at, k, k1) to = Add (from, step)
                              part = Slice (x, from, to, axis_32) row = Squeeze (part, axis) on = Identity (c) }> }""",
                       [{"x": real(5, 2), "at": np.array([3, 0, 4], np.int32), "z": real(3)}],
                       lambda x, at, z: {"y": x[at]}),
    # Regions far larger than the image took a sample for each of their elements.
    "huge_regions": ("""g (float[N,2,9,7] x, float[R,4] b, int64[R] i) => (float[r,2,3,2] y, float[r,2,3,2] z) {
                        y = RoiAlign <output_height = 3, output_width = 2> (x, b, i)
                        z = RoiAlign <output_height = 3, output_width = 2, mode = "max"> (x, b, i) }""",
                     [{"x": real(2, 2, 9, 7), "b": floats((-2e3, -3e3, 2e3, 3e3), (1, 1, 4, 5), (-30, 2, 1, 40)), "i": ints(0, 1, 0)},
                      {"x": real(2, 2, 9, 7), "b": floats((-1e30, -1e30, 1e30, 1e30), (2, 1, 4, 9), (0, 0, 3e3, 2e3)), "i": ints(0, 1, 1)}]),
}


def main(folder):
    for name, (text, sets, *oracle) in MODELS.items():
        model = samples.model(text)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = None if oracle else ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for i, feeds in enumerate(sets):
            outputs = oracle[0](**feeds) if oracle else dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))
            samples.tensors(f"{folder}/{name}/test_data_set_{i}", "input", feeds)
            samples.tensors(f"{folder}/{name}/test_data_set_{i}", "output", outputs)
        onnx.save(model, f"{folder}/{name}/model.onnx")


main(sys.argv[1])

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
}


def main(folder):
    for name, (text, sets, *oracle) in MODELS.items():
        model = samples.model(text)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for i, feeds in enumerate(sets):
            outputs = oracle[0](**feeds) if oracle else dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))
            samples.tensors(f"{folder}/{name}/test_data_set_{i}", "input", feeds)
            samples.tensors(f"{folder}/{name}/test_data_set_{i}", "output", outputs)
        onnx.save(model, f"{folder}/{name}/model.onnx")


main(sys.argv[1])

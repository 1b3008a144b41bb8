# SPDX-License-Identifier: Apache-2.0
"""Models whose PTX is mutated: MODELS is name, ONNX's textual syntax, and inputs by data set.

An input is the shape of reals, or a kind and more: "peaks", reals whose largest is somewhere else in each row; "below", reals
far below 0 and below what is in a register of the simulator that nobody wrote, -26 712 982; "nans", reals whose first NaN is later from row to
row; "opposed", reals of which each second 128 are the opposite of the 128 before, and far smaller than the two before those, so that of
a sum there stays what was rounded off; "ints" from low to high, times a number; "list", values. Sizes are odd where a kernel has edges, and fill whole lines of memory in the
data sets "whole", where what is beyond the last element is no memory. A data set whose name begins with "astray" must end
with a fault. Options of dlcc may follow. Sums that atomics order are of small integers."""

import numpy as np

# Rows of products: each takes another of the kernels that there are for unknown numbers of them, 5 and 8 the same.
VARIANTS, BOUND = (1, 5, 8, 35, 365), "--dim=N=1..400"

MODELS = {
    "map": ("(float[N,17] x, float[17] b) => (float[N,17] y) { s = Add(x, b)  y = Relu(s) }",
            {"few": {"x": (3, 17), "b": (17,)}, "whole": {"x": (64, 17), "b": (17,)}}),
    "vector": ("(float16[N,32] x, float16[32] b) => (float16[N,32] y) { s = Mul(x, b)  y = Add(s, b) }",
               {"some": {"x": (9, 32), "b": (32,)}}),
    "softmax-warp": ("(float[N,40] x) => (float[N,40] y) { y = Softmax<axis=1>(x) }",
                     {"one": {"x": (1, 40)}, "some": {"x": ("peaks", (33, 40))}, "below": {"x": ("below", (5, 40))}, "nans": {"x": ("nans", (40, 40))}}),
    "softmax-block": ("(float[N,2000] x) => (float[N,2000] y) { y = Softmax<axis=1>(x) }",
                      {"some": {"x": ("peaks", (60, 2000))}, "below": {"x": ("below", (3, 2000))}, "nans": {"x": ("nans", (30, 2000))}}),
    "sum": ("(float[N,300] x) => (float[N] y) <int64[1] one = {1}> { y = ReduceSum<keepdims=0>(x, one) }",
            {"some": {"x": (5, 300)}, "whole": {"x": (16, 300)}, "blocks": {"x": (61, 300)}}),
    "argmax": ("(float[N,100] x) => (int64[N] y) { y = ArgMax<axis=1, keepdims=0>(x) }",
               {"some": {"x": ("peaks", (33, 100))}, "ties": {"x": ("ints", (16, 100), -3, 4)}, "nans": {"x": ("nans", (100, 100))}}),
    "total": ("(float[N,100] x) => (float y) { y = ReduceSum<keepdims=0>(x) }",
              {"one": {"x": (1, 100)}, "more": {"x": (19, 100)}, "more-opposed": {"x": ("opposed", (20, 100))}, "more-others": {"x": (20, 100)}, "more-again": {"x": (18, 100)}, "more-whole": {"x": (16, 100)}, "many": {"x": (37, 100)},
               "few": {"x": ("opposed", (9, 100))}, "few-whole": {"x": (8, 100)}, "some": {"x": (90, 100)}, "whole": {"x": (88, 100)},
               "long": {"x": (8896, 100)}}),
    "norm": ("(float[N,300] x, float[300] g, float[300] b) => (float[N,300] y) { y = LayerNormalization<axis=1>(x, g, b) }",
             {"some": {"x": (5, 300), "g": (300,), "b": (300,)}}),
    "channels": ("(float[N,10,3,7] x, float[10] g, float[10] b) => (float[N,10,3,7] y) { y = InstanceNormalization(x, g, b) }",
                 {"one": {"x": (1, 10, 3, 7), "g": (10,), "b": (10,)}, "some": {"x": (5, 10, 3, 7), "g": (10,), "b": (10,)},
                  "whole": {"x": (8, 10, 3, 7), "g": (10,), "b": (10,)}}),
    "transpose": ("(float[N,70] x) => (float[70,N] y) { y = Transpose<perm=[1,0]>(x) }",
                  {"narrow": {"x": (3, 70)}, "some": {"x": (41, 70)}, "whole": {"x": (16, 70)}, "more": {"x": (150, 70)}}),
    "gather": ("(float[50,9] t, int64[N] i) => (float[N,9] y) { y = Gather(t, i) }",
               {"some": {"t": (50, 9), "i": ("list", [3, -1, 0, 49, -50])},
                "astray-above": {"t": (50, 9), "i": ("list", [3, 50])},
                "astray-below": {"t": (50, 9), "i": ("list", [3, -51])}}),
    "scatter": ('(float[50,9] t, int64[N,1] i, float[N,9] u) => (float[50,9] y) { y = ScatterND<reduction="add">(t, i, u) }',
                {"some": {"t": ("ints", (50, 9), -9, 9), "i": ("list", [[3], [-1], [3], [0]]), "u": ("ints", (4, 9), -9, 9)},
                 "tiny": {"t": ("ints", (50, 9), -9, 9, 2.0**-140), "i": ("list", [[3], [-1], [3], [0]]), "u": ("ints", (4, 9), -9, 9, 2.0**-140)},
                 "astray-above": {"t": (50, 9), "i": ("list", [[3], [50]]), "u": (2, 9)},
                 "astray-below": {"t": (50, 9), "i": ("list", [[3], [-51]]), "u": (2, 9)}}),
    "columns": ("(float[N,100] x) => (float[100] y) <int64[1] zero = {0}> { y = ReduceSum<keepdims=0>(x, zero) }",
                {"few": {"x": (27, 100)}, "some": {"x": (37, 100)}, "whole": {"x": (400, 100)}, "many": {"x": (1101, 100)}, "long": {"x": (9101, 100)}}),
    "depthwise": ("(float[N,8,18,18] x, float[8,1,3,3] w) => (float[N,8,18,18] y) { y = Conv<group=8, pads=[1,1,1,1]>(x, w) }",
                  {"one": {"x": (1, 8, 18, 18), "w": (8, 1, 3, 3)}, "two": {"x": (2, 8, 18, 18), "w": (8, 1, 3, 3)}}),
    "matmul": ("(float[N,152] x, float[152,40] w) => (float[N,40] y) { y = MatMul(x, w) }",
               {str(n): {"x": (n, 152), "w": (152, 40)} for n in VARIANTS}, BOUND),
    "matmul-half": ("(float16[N,200] x, float16[200,72] w) => (float16[N,72] y) { y = MatMul(x, w) }",
                    {str(n): {"x": (n, 200), "w": (200, 72)} for n in VARIANTS}, BOUND),
    # 49 rows an image in blocks of 32: the last row is in another eighth of a block with each number of images.
    "conv": ("(float[N,13,13,13] x, float[50,13,3,3] w, float[50] b) => (float[N,50,7,7] y) {"
             " y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b) }",
             {str(n): {"x": (n, 13, 13, 13), "w": (50, 13, 3, 3), "b": (50,)} for n in (1, 2, 4, 5, 8, 9, 12, 13)}, "--dim=N=1..13"),
    # Several blocks of keys, of which the last one is in part past the end; few and many rows.
    "attention": ("(float[1,S,32] q, float[1,32,T] k, float[1,T,32] v) => (float[1,S,32] y) {"
                  " s = MatMul(q, k) p = Softmax<axis=2>(s) y = MatMul(p, v) }",
                  {f"{s} by {t}": {"q": (1, s, 32), "k": (1, 32, t), "v": (1, t, 32)} for s, t in ((3, 190), (40, 150), (64, 64))},
                  "--dim=S=1..200", "--dim=T=1..200"),
}

# Of these models only some operators: an attention hides keys twice, and what scores are taken from cancels out of its results.
OPERATORS = {"attention": ("drop-barrier", "weaken-barrier", "drop-wait", "weaken-wait", "drop-commit")}


def value(rng, spec, dtype):
    if spec[0] == "list":
        return np.array(spec[1], dtype)
    if spec[0] == "ints":
        return (rng.integers(spec[2], spec[3], spec[1]) * np.prod(spec[4:])).astype(dtype)
    x = rng.standard_normal(spec[1] if isinstance(spec[0], str) else spec)
    rows = np.arange(len(x))
    if spec[0] == "peaks":
        x[rows, (rows * 0.618034 * x.shape[1]).astype(int) % x.shape[1]] += 9
        x[-1, -1] += 20
    if spec[0] == "opposed":
        flat = x.reshape(-1)
        for i in range(0, flat.size, 256):
            flat[i:i + 256] *= 2.0**(-i // 16)
            flat[i + 128:i + 256] = -flat[i:i + 128][:max(0, flat.size - i - 128)]
    if spec[0] == "below":
        x = 20 * x - 4e7
    if spec[0] == "nans":
        column, first = np.arange(x.shape[1]), (rows * x.shape[1] // len(x))[:, None]
        x[(column == first) | (column > first) & (rng.random(x.shape) < 0.1)] = np.nan
    return x.astype(dtype)

# SPDX-License-Identifier: Apache-2.0
"""The models of tests/misuse.

    models.py FOLDER            writes each as FOLDER/NAME.onnx
    models.py FOLDER kernels    writes KERNELS instead, which have kernels of every kind

A row is the model in ONNX's textual syntax."""

import sys

import onnx

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import samples  # noqa: E402

# A body of Loop that adds Y to what it carries, and gives that on.
ADD = "b (int64 i, bool c, float[4] a) => (bool d, float[4] e) { d = Identity (c) e = Add (a, one) }"

MODELS = {
    # Memory that the context provides: of a size that is an element of an input, of one that follows from an input's, of strings.
    "window": "g (int64 size) => (float[n] y) { y = BlackmanWindow (size) }",
    "twice": "g (float[n] x) => (float[n] y, float[n] z) { y = Add (x, x) z = Mul (y, x) }",
    "texts": """g (string[n] x) => (string[n] y, string[n] z) <string s = {"-"}> {
                y = StringConcat (x, s) z = StringConcat (s, x) }""",
    "pieces": 'g (string[n] x) => (string[n,k] y, int64[n] z) { y, z = StringSplit <delimiter = " "> (x) }',
    "lists": "g (seq(float[?]) s, float[?] x) => (seq(float[?]) y) { y = SequenceInsert (s, x) }",
    "named": "g (seq(string[?]) s) => (seq(string[?]) y) { y = Identity (s) }",
    # Scratch whose size is known only in the run.
    "transform": "g (float[1,n,1] x, int64 length) => (float[1,m,2] y) { y = DFT (x, length) }",
    "pattern": 'g (string[n] x) => (bool[n] y) { y = RegexFullMatch <pattern = "(a|b)*[c-f]{2,5}(?i:xyz)?"> (x) }',
    # A string output beside one of numbers, over which the caller may lay a string.
    "lengths": """g (string[n] x, float[n] w) => (string[n] y, float[n] z) { y = StringConcat (x, x) z = Mul (w, w) }""",
    # Loops of the host: with a count and a condition; with only a condition; in each other; with an If; that launch nothing; that
    # stack; and one whose iterations fail.
    "counted": f"g (int64 k, bool c0, float[4] x) => (float[4] y) <float one = {{1}}> {{ y = Loop (k, c0, x) <body = {ADD}> }}",
    "endless": """g (float limit, float[4] x) => (float[4] y) <bool yes = {1}, float zero = {0}> {
                  y = Loop ("", yes, x) <body = b (int64 i, bool c, float[4] a) => (bool d, float[4] e) {
                  e = Sin (a) s = ReduceSum <keepdims = 0> (e) d = Less (s, limit) }> }""",
    "nested": f"""g (int64 k, bool c0, float[4] x) => (float[4] y) <float one = {{1}}> {{
                  y = Loop (k, c0, x) <body = o (int64 j, bool cc, float[4] u) => (bool dd, float[4] v) {{
                  dd = Identity (cc) v = Loop (k, cc, u) <body = {ADD}> }}> }}""",
    "sides": """g (int64 k, bool c0, float[4] x) => (float[4] y) <float one = {1}> {
                y = Loop (k, c0, x) <body = b (int64 i, bool c, float[4] a) => (bool d, float[4] e) {
                d = Identity (c) e = If (c0) <then_branch = t () => (float[4] p) { p = Add (a, one) },
                                              else_branch = f () => (float[4] q) { q = Identity (a) }> }> }""",
    "swapped": """g (int64 k, bool c0, float[4] x, float[4] z) => (float[4] y, float[4] w) {
                  y, w = Loop (k, c0, x, z) <body = b (int64 i, bool c, float[4] a, float[4] e) =>
                  (bool d, float[4] p, float[4] q) { d = Identity (c) p = Identity (e) q = Identity (a) }> }""",
    "stacked": """g (int64 k, bool c0, float[n] x) => (float[m,n] y) {
                  y = Loop (k, c0) <body = b (int64 i, bool c) => (bool d, float[n] e) { d = Identity (c) e = Abs (x) }> }""",
    "failing": """g (int64 k, bool c0, float[4] x, int64[4] at) => (float[4] y) {
                  y = Loop (k, c0, x) <body = b (int64 i, bool c, float[4] a) => (bool d, float[4] e) {
                  d = Identity (c) e = Gather (a, at) }> }""",
    # Inputs without elements, of which another dim is huge: rows, sums along both dims, prefixes, iterations of a recurrent layer
    # and of a Scan, and rows of two results.
    "rows": "g (float[n,m] x) => (float[n,m] y) { y = Softmax (x) }",
    "largest": "g (float[n,2,m] x) => (float[2] y) <int64[2] axes = {0, 2}> { a = Abs (x) y = ReduceMax <keepdims = 0> (a, axes) }",
    "prefix": "g (float[n,m] x, int64 axis) => (float[n,m] y) { y = CumSum (x, axis) }",
    "recurrent": """g (float[t,n,1] x, float[1,3,1] w, float[1,3,1] r) => (float[t,1,n,1] y) {
                    y = GRU <hidden_size = 1> (x, w, r) }""",
    "walk": """g (float[n] s, float[t,n] x) => (float[n] y, float[t,n] z) { y, z = Scan <num_scan_inputs = 1,
               body = b (float[n] u, float[n] v) => (float[n] p, float[n] q) { p = Add (u, v) q = Mul (p, v) }> (s, x) }""",
    "both": "g (float[n,m] x, float[n,k] z) => (float[n,m] y, float[n,k] w) <int64 one = {1}> { y = CumSum (x, one) w = CumSum (z, one) }",
}

# For the stack that kernels take: blocked products, of floats and of bytes; Winograd's convolutions and others; attention; rows;
# stencils; transposes; prefixes; sorting; locals that together are larger than what a stage may have on the stack; routines.
NEST = "(" * 999 + "a" + ")" * 999
KERNELS = {
    "products": "g (float[n,96] x, float[96,200] w, float[200] b) => (float[n,200] y) { p = MatMul (x, w) s = Add (p, b) y = Gelu (s) }",
    "bytes": """g (uint8[n,256] x, int8[256,96] w) => (int32[n,96] y) { y = MatMulInteger (x, w) }""",
    "images": """g (float[1,16,30,30] x, float[32,16,3,3] w, float[8,32,5,5] v) => (float[1,8,14,14] y) {
                 c = Conv <pads = [1,1,1,1]> (x, w) r = Relu (c) p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
                 y = Conv <pads = [1,1,2,2]> (p, v) }""",
    "depthwise": "g (float[1,24,40,40] x, float[24,1,7,7] w) => (float[1,24,34,34] y) { y = Conv <group = 24> (x, w) }",
    "attention": """g (float[2,n,64] q, float[2,64,m] k, float[2,m,64] v) => (float[2,n,64] y) {
                    s = MatMul (q, k) p = Softmax (s) y = MatMul (p, v) }""",
    "norms": """g (float[n,768] x, float[768] w) => (float[n,768] y) <int64[1] last = {-1}> {
                l = LayerNormalization (x, w) m = ReduceMean (l, last) d = Sub (l, m) y = Softmax (d) }""",
    "moves": "g (float[n,40,50] x) => (float[50,n,40] y) { y = Transpose <perm = [2,0,1]> (x) }",
    "sorted": "g (float[n,300] x, int64[1] k) => (float[n,m] y, int64[n,m] i) { y, i = TopK (x, k) }",
    "layers": "g (float[t,2,64] x, float[1,256,64] w, float[1,256,64] r) => (float[t,1,2,64] y) { y = LSTM <hidden_size = 64> (x, w, r) }",
    "halves": """g (float16[n,512] x, float16[512,256] w) => (float16[n,256] y) { p = MatMul (x, w) y = Softmax (p) }""",
    "locals": """g (float[n,1500] x) => (float[n,1500] y) {
                 a = Softmax (x) b = Exp (x) c = Mul (a, b) d = Softmax (c) e = Add (d, b) f = Softmax (e) h = Mul (f, a)
                 i = Softmax (h) j = Add (i, d) k = Softmax (j) l = Mul (k, f) y = Softmax (l) }""",
    "nested_pattern": f'g (string[n] x) => (bool[n] y) {{ y = RegexFullMatch <pattern = "{NEST}"> (x) }}',
    "numbers": "g (string[n] x) => (float[n] f, int64[n] i) { f = Cast <to = 1> (x) g = Floor (f) i = Cast <to = 7> (g) }",
}


def main():
    for name, text in (KERNELS if len(sys.argv) > 2 else MODELS).items():
        model = samples.model(text)
        model.graph.name = name
        onnx.save(model, f"{sys.argv[1]}/{name}.onnx")


if __name__ == "__main__":
    main()

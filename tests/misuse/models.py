# SPDX-License-Identifier: Apache-2.0
"""The models of tests/misuse.

    models.py FOLDER    writes each as FOLDER/NAME.onnx

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
    # Loops of the host: with a count and a condition; with a condition alone; in each other; with an If; that launch nothing; that
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


def main():
    for name, text in MODELS.items():
        model = samples.model(text)
        model.graph.name = name
        onnx.save(model, f"{sys.argv[1]}/{name}.onnx")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels call routines on strings: they run on the host, between the GPU's kernels."""

import numpy as np
from harness import BUILD, DIR, FLAGS, c_program, case, compiled, dlrun, model, run, test


def strings(*words):
    return np.array(words, dtype=object)


def agrees(name, *options):
    """The model NAME computes its data on the GPU, with launches one by one and as graphs, and when asked not to wait is refused."""
    so = compiled(name, *options)
    for more in [], ["--bench", "--seconds=0.01"]:
        said = dlrun(so, "--device=cuda", "--data", f"{DIR}/{name}", *more)
        assert "ok" in said, said
    refused = run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "-o", f"{DIR}/refused.so", "--target=cuda:sm_80", "-Werror=fallback", *FLAGS, status=1)
    assert "error" in refused and "runs on the host" in refused, refused


@test
def between_kernels():
    """GPU, host, GPU, host: numbers become strings and numbers again."""
    model("rounds", """rounds (float[N] x, string[N] unit) => (float[N] y, string[N] text, bool[N] long) {
        double_x = Add(x, x)
        digits = Cast <to = 8> (double_x)
        text = StringConcat(digits, unit)
        back = Cast <to = 1> (digits)
        y = Mul(back, double_x)
        long = RegexFullMatch <pattern = "-?[0-9]+[a-z]{2}"> (text)
    }""")
    case("rounds", 0, {"x": np.float32([1, 2.5, -8]), "unit": strings("m", "cm", "km")},
         {"y": np.float32([4, 25, 256]), "text": strings("2m", "5cm", "-16km"), "long": np.array([False, True, True])})
    agrees("rounds")


@test
def ids_on_the_gpu():
    """Strings that kernels only move or compare need no host."""
    model("ids", """ids (string[N] s, int64[K] at) => (string[K] t, bool[K] same) {
        t = Gather(s, at)
        word = Constant <value = string {"b"}> ()
        same = Equal(t, word)
    }""")
    case("ids", 0, {"s": strings("a", "b", "c"), "at": np.int64([1, 1, 0])}, {"t": strings("b", "b", "a"), "same": np.array([True, True, False])})
    so = compiled("ids", "-Werror=fallback")
    assert "ok" in dlrun(so, "--device=cuda", "--data", f"{DIR}/ids")


@test
def moved_between_routines():
    """A Gather between two routines moves its ids on the host."""
    model("moved", """moved (string[N] s, int64[K] at) => (string[K,1] z) {
        u = StringNormalizer <case_change_action = "UPPER"> (s)
        t = Gather(u, at)
        one = Constant <value_ints = [-1, 1]> ()
        r = Reshape(t, one)
        dot = Constant <value = string {"."}> ()
        z = StringConcat(r, dot)
    }""")
    case("moved", 0, {"s": strings("a", "b", "c"), "at": np.int64([2, 0])}, {"z": np.array([["C."], ["A."]], dtype=object)})
    agrees("moved")
    text = run(BUILD + "/bin/dlcc", f"{DIR}/moved.onnx", "--target=cuda:sm_80", "--dump-ir=place")
    assert "Copy" not in text.split("; after place")[-1], text


@test
def sizes_from_strings():
    """StringSplit's second dim is known when its strings are."""
    model("split", """split (string[N] s, float[1] x) => (string[N,K] parts, int64[N] n, float[K] y) {
        parts, n = StringSplit <delimiter = ","> (s)
        shape = Shape <start = 1> (parts)
        y = Expand(x, shape)
    }""")
    case("split", 0, {"s": strings("a,b", "c,d,e", ""), "x": np.float32([7])},
         {"parts": np.array([["a", "b", ""], ["c", "d", "e"], ["", "", ""]], dtype=object), "n": np.int64([2, 3, 0]), "y": np.float32([7, 7, 7])})
    agrees("split")


@test
def in_a_loop():
    """Each iteration appends to strings that the loop carries, and sums on the GPU."""
    model("iterations", """iterations (string[N] s, float[N] x, int64 n) => (string[N] t, float[N] y) {
        go = Constant <value = bool {1}> ()
        t, y = Loop(n, go, s, x) <body = iteration (int64 i, bool c, string[N] a, float[N] b) => (bool more, string[N] a2, float[N] b2) {
            more = Identity(c)
            a2 = StringConcat(a, s)
            b2 = Add(b, x)
        }>
    }""")
    for k, n in enumerate((0, 3)):
        case("iterations", k, {"s": strings("ab", "c"), "x": np.float32([1, 2]), "n": np.int64(n)},
             {"t": strings("ab" * (n + 1), "c" * (n + 1)), "y": np.float32([n + 1, 2 * (n + 1)])})
    agrees("iterations")


@test
def in_a_branch():
    """The branch decides whether a routine runs."""
    model("branch", """branch (string[N] s, float[N] x) => (string[N] t) {
        sum = ReduceSum <keepdims = 0> (x)
        zero = Constant <value_float = 0.0> ()
        some = Greater(sum, zero)
        t = If(some) <then_branch = a () => (string[N] t1) { t1 = StringConcat(s, s) },
                      else_branch = b () => (string[N] t2) { t2 = Cast <to = 8> (x) }>
    }""")
    for k, (x, t) in enumerate((([1, 2], ("aa", "bb")), ([-1, -2], ("-1", "-2")))):
        case("branch", k, {"s": strings("a", "b"), "x": np.float32(x)}, {"t": strings(*t)})
    agrees("branch")


@test
def a_large_constant():
    """The host's kernels have constants of any size beside those of the GPU."""
    words = ", ".join(f'"{k}"' for k in range(1000))
    model("words", f"""words (string[1000] s, float[1000] x) => (string[1000] t, float[1000] y) {{
        w = Constant <value = string[1000] {{{words}}}> ()
        t = StringConcat(s, w)
        y = Exp(x)
    }}""")
    case("words", 0, {"s": strings(*["n"] * 1000), "x": np.zeros(1000, np.float32)},
         {"t": strings(*[f"n{k}" for k in range(1000)]), "y": np.ones(1000, np.float32)})
    agrees("words")


@test
def graphs_and_captures():
    """A run is one graph for each part between two routines; one that is captured is refused."""
    compiled("rounds")
    for seed in range(2):
        assert run(c_program("routines"), DIR, PTXSIM_SEED=seed) == "ok\n"

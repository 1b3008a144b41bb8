# SPDX-License-Identifier: Apache-2.0
"""Rows: softmax, sums, what threads keep of them, and any order of warps."""

import re

import numpy as np
import onnx
import onnx.reference

from harness import DIR, case, compiled, dlrun, model, rng, test

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


@test
def rows_by_warps_and_blocks():
    dlrun(compiled("rows"), "--device", "cuda", "--data", f"{DIR}/rows")


@test
def any_order_of_warps():
    so = compiled("rows")
    for seed in range(1, 17):
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/rows", PTXSIM_SEED=seed)


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
def a_guard_that_the_compiler_takes_apart():
    """Rows of bytes, all padding but one: where no number leads to, code has an exit, and threads meet all the same."""
    x, w = rng(1).integers(0, 9, (2, 3, 1, 3), np.uint8), rng(2).integers(-9, 9, (8, 3, 1, 2), np.int8)
    model("padded", "g (uint8[N,3,1,3] x, int8[8,3,1,2] w) => (int32[N,8,4,3] y) {"
                    " xw = Cast<to = 6>(x) ww = Cast<to = 6>(w) y = Conv<pads = [2,1,1,0]>(xw, ww) }")
    y, wide = np.zeros((2, 8, 4, 3), np.int32), np.pad(x.astype(np.int32), ((0, 0), (0, 0), (0, 0), (1, 0)))
    y[:, :, 2] = sum(np.einsum("ncw,oc->now", wide[:, :, 0, s:s + 3], w[:, :, 0, s]) for s in range(2))
    case("padded", 0, {"x": x, "w": w}, {"y": y})
    dlrun(compiled("padded"), "--device", "cuda", "--data", f"{DIR}/padded")

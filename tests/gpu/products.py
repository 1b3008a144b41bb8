# SPDX-License-Identifier: Apache-2.0
"""Products by matrix instructions, in every type and position, and rows whose strides are whole vectors."""

import os
import re

import numpy as np

from harness import BUILD, DIR, FLAGS, calls, case, compiled, dlrun, model, rng, run, samples, test


def product(name, kind, m, n, k, shape_a=None, factor=lambda x: x, constant="", draw=lambda r, s: r.standard_normal(s), **attrs):
    """Gemm and what follows it, with reference values; SHAPE_A: the first dims as the model knows them; FACTOR: what is multiplied of a value;
    CONSTANT: the operand that is one; DRAW: the values of a shape."""
    onnx_type = {"f4": "float", "f2": "float16", "f8": "double", "bfloat16": "bfloat16"}[kind]
    a, b = (k, m) if attrs.get("transA") else (m, k), (n, k) if attrs.get("transB") else (k, n)
    known = shape_a or ",".join(map(str, a))
    out = f"{known.split(',')[attrs.get('transA', 0)]},{n}"
    text = ", ".join(f"{x}={v}" for x, v in {"beta": 1.0, **attrs}.items())
    x, w, c = (draw(rng(i), s).astype(kind) for i, s in enumerate((a, b, (n,))))
    inputs = {"a": x, "b": w, "c": c}
    model(name, f"g ({onnx_type}[{known}] a, {onnx_type}[{b[0]},{b[1]}] b, {onnx_type}[{n}] c) => ({onnx_type}[{out}] y) {{"
                f" p = Gemm<{text}>(a, b, c)  y = Relu(p) }}", {v: inputs[v] for v in constant})
    left, right = factor(x).astype("f8"), factor(w).astype("f8")
    y = (left.T if attrs.get("transA") else left) @ (right.T if attrs.get("transB") else right) + c
    case(name, 0, {v: x for v, x in inputs.items() if v not in constant}, {"y": np.maximum(y, 0).astype(kind)})


def tf32(x):
    """Nearest of 11 significant bits, ties away from zero."""
    return ((x.view(np.uint32).astype(np.uint64) + 0x1000) & 0xffffe000).astype(np.uint32).view(np.float32)


BYTES = {np.int8: "int8", np.uint8: "uint8"}


def byte_product(name, types, m, n, k, turned=(False, False), constant=""):
    """The product of matrices of bytes, TURNED or as they are, widened to i32, and a sum; CONSTANT: the operand that is one."""
    shapes = (m, k), (k, n)
    a, b = (rng(i).integers(np.iinfo(t).min, np.iinfo(t).max + 1, s, t) for i, (t, s) in enumerate(zip(types, shapes)))
    inputs = {v: x.T if t else x for v, x, t in zip("ab", (a, b), turned)}
    c = rng(2).integers(-9, 9, n, np.int32)
    text = ", ".join(f"{BYTES[t]}[{x.shape[0]},{x.shape[1]}] {v}" for t, (v, x) in zip(types, inputs.items()))
    wide = " ".join(f"{v}w = Cast<to = 6>({v}) {v}t = {'Transpose' if t else 'Identity'}({v}w)" for v, t in zip("ab", turned))
    model(name, f"g ({text}, int32[{n}] c) => (int32[{m},{n}] y) {{ {wide} p = MatMul(at, bt) y = Add(p, c) }}", {v: inputs[v] for v in constant})
    case(name, 0, {**{v: x for v, x in inputs.items() if v not in constant}, "c": c}, {"y": a.astype(np.int32) @ b.astype(np.int32) + c})


def less_zero_points(name, op, arrays, zeros, turned=(False, False)):
    """OP of ARRAYS less the ZEROS that are there, all of them inputs of bytes; what is computed, by values in i64. Returns its matrix instructions."""
    inputs, values, text = {}, [], ""
    for v, x, z, t in zip("ab", arrays, zeros, turned):
        inputs[v] = x.T if t else x
        text += f" {v}w = Cast<to = 6>({v}) {v}t = {'Transpose' if t else 'Identity'}({v}w)"
        if z is None:
            text += f" {v}s = Identity({v}t)"
        else:
            inputs[v + "z"] = z
            text += f" {v}y = Cast<to = 6>({v}z) {v}s = Sub({v}t, {v}y)"
        values.append(x.astype(np.int64) - (0 if z is None else z.astype(np.int64)))
    y = (convolution(*values) if op == "Conv" else values[0] @ values[1]).astype(np.int32)
    types = ", ".join(f"{BYTES[x.dtype.type]}{str(list(x.shape)) * bool(x.ndim)} {v}" for v, x in inputs.items())
    model(name, f"g ({types}) => (int32{list(y.shape)} y) {{{text} y = {op}{'<pads = [1,0,2,1], strides = [2,1]>' * (op == 'Conv')}(as, bs) }}")
    case(name, 0, inputs, {"y": y})
    ran = calls(compiled(name), "--device", "cuda", "--data", f"{DIR}/{name}", PTXSIM_SEED=len(text) % 4)["kernels"]
    return sum(k["mma"] for k in ran)


def convolution(x, w):
    """Of images padded by 1 and 2 rows and 0 and 1 columns; every other row."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)))
    rows, columns = (x.shape[2] - w.shape[2]) // 2 + 1, x.shape[3] - w.shape[3] + 1
    return sum(np.einsum("nchw,oc->nohw", x[:, :, r:r + 2 * rows - 1:2, s:s + columns], w[:, :, r, s])
               for r in range(w.shape[2]) for s in range(w.shape[3]))


def exact_product(name, mma, *options, targets="cuda:sm_80", **env):
    """Runs product NAME, of MMA matrix instructions and no conflict of banks."""
    counts = calls(compiled(name, *options, targets=targets), "--device", "cuda", "--data", f"{DIR}/{name}", **env)["kernels"][0]
    assert counts["mma"] == mma, (counts["mma"], mma)
    assert counts["shared_load_conflicts"] == counts["shared_store_conflicts"] == 0, counts
    for way in "load", "store":
        assert counts[f"global_{way}_sectors"] <= 1.05 * counts[f"global_{way}_sectors_fewest"], counts


@test
def a_half_product_is_what_the_hardware_does():
    product("half", "f2", 256, 256, 256)
    exact_product("half", 256 // 16 * (256 // 8) * (256 // 16))


# LLVM 19 makes two loads of one of four elements of 16 bits that are not f16, such as the four bf16 of a bias.
SPLITS_LOADS = "with LLVM 19" in run(BUILD + "/bin/dlcc", "--version")


def by_wgmma(name, tile, **attrs):
    """Compiles NAME with the last variant of its product by wgmma, with this TILE, and runs it; the sums must be exact, and the work what
    the tree says. Returns the instructions."""
    groups, columns, hold, *producers = tile
    decided = f"{DIR}/{name}.decided"
    chosen = run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "--target=cuda:sm_90a", "--dump-ir=decide")
    with open(decided, "w") as f:
        for line in chosen.splitlines():
            if " sm_90a: product " in line:
                f.write(re.sub(r"mma (b?f16) (?!.* mma b?f16 ).*  ;", rf"mma wgmma_\1 m grid warpgroup{groups} mma64 n grid mma{columns} k loop reg4 mma16 "
                               f"stage a:{hold} b:{hold}{''.join(producers)}  ;", line) + "\n")
    so = compiled(name, f"--schedule={decided}", targets="cuda:sm_90a")
    counts = run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "--target=cuda:sm_90a", f"--schedule={decided}", "--dump-ir=count")
    counted = {what: int(n) for what, n in re.findall(r"(\w+) (\d+)", re.search(r" sm_90a: (mma .*)", counts)[1])}
    for seed in range(2):
        stats = calls(so, "--device", "cuda", "--atol=0", "--rtol=0", "--data", f"{DIR}/{name}", PTXSIM_SM=90, PTXSIM_SEED=seed, **attrs)
        kernel = next(k for k in stats["kernels"] if k["mma"])
        # stores of pieces that go through registers depend on branches
        free = (() if "async" in hold else ("shared_store",)) + (("global_load",) if SPLITS_LOADS else ())
        other = {what: (n, kernel[what]) for what, n in counted.items() if n != kernel[what] and not what.startswith(free)}
        assert not other, (other, tile)
    return counted["mma"]


@test
def products_by_wgmma():
    small = lambda r, s: r.integers(-2, 3, s)  # noqa: E731
    blocks = lambda m, n, k, bm, bn: 4 * (bm // 64) * -(-m // bm) * -(-n // bn) * 4 * -(-k // 64)  # noqa: E731
    for i, (m, n, k, groups, columns, hold) in enumerate((
            (128, 256, 128, 2, 256, "async*3"), (200, 264, 72, 2, 256, "async*4"), (64, 64, 64, 1, 64, "async*2"), (24, 72, 200, 1, 128, "async*3"),
            (136, 136, 328, 2, 64, "async*5"), (66, 130, 130, 2, 64, "shared*2"), (72, 40, 1000, 4, 64, "async*3"))):
        forms = ({}, {"transB": 1}, {"transA": 1}, {"transA": 1, "transB": 1})[i % 2:4 if i < 2 else 2 + i % 2 * 2]
        for attrs in forms if i == 0 else samples.share(forms, 3):
            product("wgmma", "f2", m, n, k, draw=small, **attrs)
            tile = (groups, columns, hold, " producers 1") if int(hold[-1]) > 2 else (groups, columns, hold)
            assert by_wgmma("wgmma", tile) == blocks(m, n, k, 64 * groups, columns), (m, n, k, attrs)
    for n, k in (124, 132), (126, 130):  # copies of 8 and 4 bytes
        product("wgmma", "f2", 128, n, k, draw=small)
        assert by_wgmma("wgmma", (1, 64, "async*3")) == blocks(128, n, k, 64, 64), (n, k)
    product("wgmma", "bfloat16", 136, 72, 72, draw=small)
    assert by_wgmma("wgmma", (2, 64, "async*3", " producers 1")) == blocks(136, 72, 72, 128, 64)
    product("wgmma", "f2", 136, 136, 328, draw=small)
    assert by_wgmma("wgmma", (2, 64, "async*3")) == blocks(136, 136, 328, 128, 64)
    product("wgmma", "f2", 72, 40, 1024, draw=small)
    for producers in "", " producers 1":
        assert by_wgmma("wgmma", (1, 64, "async*3", producers + " parts 4")) == blocks(72, 40, 1024, 64, 64), producers


@test
def a_product_of_tf32_where_it_is_asked_for():
    for a in 0, 1:
        for b in 0, 1:
            product("tf32", "f4", 128, 256, 128, factor=tf32, transA=a, transB=b)
            exact_product("tf32", 128 // 16 * (256 // 8) * (128 // 8), "--tf32")
            product("tf32_odd", "f4", 77, 95, 41, factor=tf32, transA=a, transB=b)
            dlrun(compiled("tf32_odd", "--tf32"), "--device", "cuda", "--data", f"{DIR}/tf32_odd")
    assert "sm_80+tf32" in dlrun(f"{DIR}/tf32.so")
    product("tf32", "f4", 128, 256, 128)
    exact_product("tf32", 0)


@test
def products_of_bytes():
    for i in range(4):
        types, turned = ((np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]), (i in (1, 2), i > 1)
        byte_product("bytes_even", types, 128, 64, 96, turned)
        exact_product("bytes_even", 128 // 16 * (64 // 8) * (96 // 32 + 1))  # a round has 64 terms
        byte_product("bytes_odd", types, 77, 130, 67, turned[::-1])
        dlrun(compiled("bytes_odd"), "--device", "cuda", "--data", f"{DIR}/bytes_odd", PTXSIM_SEED=3)
    byte_product("bytes_even", (np.int8, np.uint8), 128, 64, 128)
    exact_product("bytes_even", 128 // 8 * (64 // 8) * (128 // 16), targets="cuda:sm_75", PTXSIM_SM=75)


@test
def products_of_bytes_less_zero_points():
    for i in range(4):
        a, b = (np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]

        def some(t, *shape):
            return rng(i).integers(np.iinfo(t).min, np.iinfo(t).max + 1, shape, t)
        rows, columns, turned = (some(a, 41, 1), some(a))[i % 2], (some(b, 35), None)[i // 2], (i in (1, 2), i > 1)
        without, zeros = (less_zero_points("less", "MatMul", (some(a, 41, 67), some(b, 67, 35)), z, turned)
                          for z in ((None, None), (rows, columns)))
        assert 0 < zeros == without, (zeros, without)
    assert less_zero_points("less", "MatMul", (some(a, 3, 20, 33), some(b, 3, 33, 40)), (some(a), some(b, 3, 1, 40))) > 0
    image, taps = some(np.uint8, 2, 19, 8, 7), some(np.int8, 21, 19, 3, 3)
    without, zeros = (less_zero_points("less", "Conv", (image, taps), z) for z in ((None, None), (some(np.uint8), some(np.int8, 21, 1, 1, 1))))
    assert 0 < zeros == without, (zeros, without)


@test
def transposed_convolutions_that_end_within_a_stride():
    model("transposed", "g (float[N,19,H,7] x, float[19,21,3,3] w, float[21] b) => (float[N,21,U,13] y) {"
          "y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b) }")
    w, b = rng(1).standard_normal((19, 21, 3, 3)).astype(np.float32), rng(2).standard_normal(21).astype(np.float32)
    for k, (n, h) in enumerate(((1, 1), (2, 9), (1, 40))):
        x = rng(h).standard_normal((n, 19, h, 7)).astype(np.float32)
        y = np.zeros((n, 21, 2 * h + 1, 15))
        for r in range(3):
            for s in range(3):
                y[:, :, r:r + 2 * h:2, s:s + 14:2] += np.einsum("nchw,co->nohw", x.astype(float), w[:, :, r, s])
        case("transposed", k, {"x": x, "w": w, "b": b}, {"y": (y[:, :, 1:-1, 1:-1] + b[:, None, None]).astype(np.float32)})
    so = compiled("transposed")
    for seed in range(3):
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/transposed", PTXSIM_SEED=seed)
    counts = calls(so, "--device", "cuda", "--data", f"{DIR}/transposed")["kernels"]
    assert all(k["shared_load_bytes"] for k in counts), counts


@test
def products_of_odd_sizes_and_any_order_of_warps():
    product("odd", "f2", 511, 129, 77)
    so = compiled("odd")
    for seed in range(4):
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/odd", PTXSIM_SEED=seed)
    for sm in 75, 90:
        dlrun(compiled("odd", targets=f"cuda:sm_{sm}{'a' if sm == 90 else ''}"), "--device", "cuda", "--data", f"{DIR}/odd", PTXSIM_SM=sm)


def fragments(name, *options, targets="cuda:sm_80"):
    """Product NAME has an operand's tile in the order of fragments, in which 8 rows of the matrix are adjacent."""
    dump = run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "-o", f"{DIR}/dumped.so", f"--target={targets}", "--dump-ir=sched", *FLAGS, *options)
    return bool(re.search(r"\bdot .*_tile\[.*mod\([ij], 8\)", dump))


@test
def products_of_constants_in_the_order_of_fragments():
    for v in "a", "b":
        product("half_constant", "f2", 256, 256, 256, constant=v)
        exact_product("half_constant", 256 // 16 * (256 // 8) * (256 // 16))
        assert fragments("half_constant")
        product("tf32_constant", "f4", 128, 64, 128, factor=tf32, constant=v, transA=1)
        exact_product("tf32_constant", 128 // 16 * (64 // 8) * (128 // 8), "--tf32")
        assert fragments("tf32_constant", "--tf32") and not fragments("tf32_constant")
        product("odd_constant", "f2", 511, 129, 77, constant=v)
        for target, sm in ("sm_75", 75), ("sm_80", 80), ("sm_90a", 90):
            so = compiled("odd_constant", targets="cuda:" + target)
            dlrun(so, "--device", "cuda", "--data", f"{DIR}/odd_constant", PTXSIM_SM=sm, PTXSIM_SEED=sm)
        product("tf32_odd_constant", "f4", 77, 95, 41, factor=tf32, constant=v)
        dlrun(compiled("tf32_odd_constant", "--tf32"), "--device", "cuda", "--data", f"{DIR}/tf32_odd_constant")


@test
def products_of_constant_bytes():
    for i in range(4):
        types, v = ((np.int8, np.uint8)[i // 2], (np.int8, np.uint8)[i % 2]), "ab"[i in (1, 2)]
        byte_product("bytes_constant", types, 128, 64, 96, (i > 1, i in (1, 2)), v)
        exact_product("bytes_constant", 128 // 16 * (64 // 8) * (96 // 32 + 1))
        assert fragments("bytes_constant")
        byte_product("bytes_odd_constant", types, 77, 130, 67, (i in (1, 2), i > 1), v)
        for sm in 75, 80:
            dlrun(compiled("bytes_odd_constant", targets=f"cuda:sm_{sm}"), "--device", "cuda", "--data", f"{DIR}/bytes_odd_constant", PTXSIM_SM=sm)


@test
def a_row_times_wide_constant_bytes():
    """A thread has 16 columns, two of each block of fragments."""
    a, b = rng(0).integers(0, 256, (1, 768), np.uint8), rng(1).integers(-128, 128, (768, 3072), np.int8)
    model("bytes_row", "g (uint8[M,768] a, int8[768,3072] b) => (int32[M,3072] y) { y = MatMulInteger(a, b) }", {"b": b})
    case("bytes_row", 0, {"a": a}, {"y": a.astype(np.int32) @ b.astype(np.int32)})
    dlrun(compiled("bytes_row", targets="cuda:sm_75"), "--device", "cuda", "--data", f"{DIR}/bytes_row", PTXSIM_SM=75)


@test
def one_array_for_all_targets_and_numbers_of_rows():
    product("rows_constant", "f2", 40, 1000, 96, "M,96", constant="b")
    sizes = []
    for targets in "cpu:generic", "cpu:generic,cuda:sm_75,sm_80,sm_90a":
        so = compiled("rows_constant", f"--weights={DIR}/rows_constant.weights", targets=targets)
        sizes.append(os.path.getsize(f"{DIR}/rows_constant.weights"))
    page = 65536  # on which the GPU's constants begin
    assert sizes[1] == -(-sizes[0] // page) * page + 1008 * 96 * 2, sizes  # whole fragments
    for m in 1, 8, 40:
        product("rows_constant", "f2", m, 1000, 96, "M,96", constant="b")
        dlrun(so, "--device", "cuda", "--data", f"{DIR}/rows_constant")


@test
def products_in_every_position():
    for kind in "f2", "f4", "f8":
        for a in 0, 1:
            for b in 0, 1:
                product("any", kind, 77, 96, 40, transA=a, transB=b)
                dlrun(compiled("any"), "--device", "cuda", "--data", f"{DIR}/any")
    product("rows_known_later", "f4", 130, 48, 64, "M,64")
    dlrun(compiled("rows_known_later"), "--device", "cuda", "--data", f"{DIR}/rows_known_later")


@test
def rows_of_whole_vectors():
    """Where sizes that only run time knows are row strides: runs in which they are whole vectors have variants, whose accesses fill
    their sectors; all others are as right."""
    text = ("g (float16[M,K] a, float16[K,N] b, float16[M,N] c) => (float16[M,N] y, float16[N,M] t, float16[M,N] s) {"
            " y = MatMul(a, b) t = Transpose<perm=[1,0]>(c) s = Softmax(c) }")
    model("vectors", text)
    so = compiled("vectors")
    for k, (m, n, terms) in enumerate(((48, 64, 32), (40, 48, 63), (9, 72, 8), (33, 50, 40), (130, 136, 24), (1, 16, 16), (16, 0, 8), (24, 40, 0))):
        a, b = rng(k).integers(-2, 3, (m, terms)).astype("f2"), rng(k + 9).integers(-2, 3, (terms, n)).astype("f2")
        c = rng(k + 20).standard_normal((m, n)).astype("f2")
        e = np.exp(c.astype("f8") - (c.max(1, keepdims=True) if n else 0))
        case("vectors", 0, {"a": a, "b": b, "c": c}, {"y": (a.astype("f4") @ b.astype("f4")).astype("f2"), "t": c.T, "s": (e / e.sum(1, keepdims=True)).astype("f2")})
        ran = {re.search("MatMul|Transpose|Softmax", name)[0]: (name, count) for name, count in
               ((x["kernel"], x) for x in calls(so, "--device", "cuda", "--data", f"{DIR}/vectors", PTXSIM_SEED=k)["kernels"])}
        whole = {"MatMul": m > 8 and n % 8 == terms % 8 == 0,  # fewer rows have one variant, which reads element by element
                 "Transpose": n % 8 == m % 8 == 0, "Softmax": n % 8 == 0}
        for op, (name, count) in ran.items():
            assert ("_by_8" in name) == whole[op], (name, m, n, terms)
            if k == 0:  # whole sectors, too
                assert count["global_load_sectors"] <= 1.05 * count["global_load_sectors_fewest"], (name, count)


@test
def counters_of_blocks_that_grow_while_a_graph_is_made():
    """A product split over few blocks comes before one split over more than the context's first counters are for; its node keeps their address."""
    tile = "grid warp1 reg1 mma16 n grid warp2 reg2 mma8 k loop reg1 mma16"
    model("counters", "g (float16[16,64] a, float16[64,32] b, float16[1040,64] c, float16[64,2080] d) => (float16[16,32] x, float16[1040,2080] y) {"
          " x = MatMul(a, b) y = MatMul(c, d) }")
    values = {v: rng(i).integers(-2, 3, s).astype("f2") for i, (v, s) in enumerate((("a", (16, 64)), ("b", (64, 32)), ("c", (1040, 64)), ("d", (64, 2080))))}
    case("counters", 0, values, {"x": values["a"] @ values["b"], "y": values["c"] @ values["d"]})
    decided = f"{DIR}/counters.decided"
    chosen = [line for line in run(BUILD + "/bin/dlcc", f"{DIR}/counters.onnx", "--target=cuda:sm_80", "--dump-ir=decide").splitlines() if " sm_80: " in line]
    with open(decided, "w") as f:
        for line in chosen:
            f.write(f"{line.split(' sm_80: ')[0]} sm_80: product mma f16 m {tile} stage a:async*2 b:async*2 parts 2  ; x\n")
    so = compiled("counters", f"--schedule={decided}")
    ran = calls(so, "--device", "cuda", "--atol=0", "--rtol=0", "--data", f"{DIR}/counters")
    assert len(ran["kernels"]) == 2, ran

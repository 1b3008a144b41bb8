# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton and how their PTX is made, on a machine with or without a GPU: pip install triton; kernels.py FOLDER.
Prints each kernel's shared memory and threads, which check/triton.c must know."""

import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def gemm(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
         ACC: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(a + rm[:, None] * sa + (k * BK + rk)[None, :], mask=(rm[:, None] < M) & (rk[None, :] < left), other=0.0)
        y = tl.load(b + (k * BK + rk)[:, None] * sb + rn[None, :], mask=(rk[:, None] < left) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=ACC)
    out = c + rm[:, None] * sc + rn[None, :]
    tl.store(out, acc.to(c.dtype.element_ty), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def softmax(x, y, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * stride + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def attention(q, k, v, o, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    base = tl.program_id(1) * length * D
    x = tl.load(q + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < length, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        rn = start + tl.arange(0, BN)
        kk = tl.load(k + base + rn[None, :] * D + rd[:, None], mask=rn[None, :] < length, other=0.0)
        s = tl.dot(x, kk) * scale
        s = tl.where(rn[None, :] < length, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        keep = tl.exp2(top - new)
        total = total * keep + tl.sum(p, 1)
        vv = tl.load(v + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tl.float16), vv, acc * keep[:, None])
        top = new
    tl.store(o + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16), mask=rm[:, None] < length)


def make(folder, name, fn, signature, constants, warps, stages, aligned, sm=80):
    attrs = {(i,): [["tt.divisibility", 16]] for i in aligned}
    signature = dict(signature, **{key: "constexpr" for key in constants})
    source = ASTSource(fn, signature, constants, attrs)
    made = triton.compile(source, target=GPUTarget("cuda", sm, 32), options={"num_warps": warps, "num_stages": stages, "ptx_version": 88})
    lines = [line for line in made.asm["ptx"].splitlines() if not line.lstrip().startswith((".loc", ".file", "//"))]
    text = "\n".join(lines).split("\t.section")[0].rstrip("\n\x00") + "\n"
    with open(f"{folder}/{name}.ptx", "w") as f:
        f.write("// SPDX-License-Identifier: Apache-2.0\n// made by kernels.py\n" + text)
    print(name, "shared", made.metadata.shared, "threads", warps * 32)


def main(folder):
    for name, a, c, acc, tile, warps, stages, aligned, sm in (
            # With 16-byte rows the loads are cp.async; without, they are not.
            ("gemm", "fp16", "fp16", tl.float32, (64, 64, 32), 4, 3, True, 80),
            ("gemm_odd", "fp16", "fp16", tl.float32, (32, 64, 32), 2, 2, False, 80),
            ("gemm_acc16", "fp16", "fp16", tl.float16, (32, 32, 32), 2, 2, True, 80),
            ("gemm_bf16", "bf16", "fp32", tl.float32, (32, 64, 32), 4, 3, True, 80),
            ("gemm_tf32", "fp32", "fp32", tl.float32, (32, 32, 32), 2, 2, True, 80),
            ("gemm_s8", "i8", "i32", tl.int32, (32, 32, 64), 2, 2, True, 80),
            ("gemm_fp8", "fp8e4nv", "fp32", tl.float32, (32, 32, 64), 2, 2, True, 89),
            ("gemm_f64", "fp64", "fp64", tl.float64, (16, 16, 16), 1, 2, True, 80),
            ("wgmma", "fp16", "fp16", tl.float32, (64, 64, 64), 4, 3, True, 90),
            ("wgmma_bf16", "bf16", "fp32", tl.float32, (128, 32, 64), 8, 2, True, 90),
            ("wgmma_odd", "fp16", "fp16", tl.float32, (64, 64, 32), 4, 2, False, 90)):
        args = {"a": "*" + a, "b": "*" + a, "c": "*" + c, "M": "i32", "N": "i32", "K": "i32", "sa": "i32", "sb": "i32", "sc": "i32"}
        constants = dict(zip(("BM", "BN", "BK"), tile), ACC=acc)
        make(folder, name, gemm, args, constants, warps, stages, [0, 1, 2] + ([5, 6, 7, 8] if aligned else []), sm)
    make(folder, "softmax", softmax, {"x": "*fp32", "y": "*fp32", "n": "i32", "stride": "i32"}, {"B": 1024}, 4, 1, [0, 1])
    make(folder, "attention", attention,
         {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp16", "length": "i32", "scale": "fp32"},
         {"BM": 64, "BN": 32, "D": 64}, 4, 2, [0, 1, 2, 3])


if __name__ == "__main__":
    main(sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
"""A GEMM in Triton, with which bench/gpu_static.py compares dlcc's. triton_gemm.py SM M N K WARPS STAGES prints the bytes of its
dynamic shared memory on a line, then its PTX. Sizes are multiples of the tile, so nothing is masked. No GPU is needed."""

import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def gemm(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    at_a = a + rows[:, None] * k + depth[None, :]
    at_b = b + depth[:, None] * n + cols[None, :]
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, k, BK):
        sum = tl.dot(tl.load(at_a), tl.load(at_b), sum)
        at_a += BK
        at_b += BK * n
    tl.store(c + rows[:, None] * n + cols[None, :], sum.to(tl.float16))


def main():
    sm, bm, bn, bk, warps, stages = map(int, sys.argv[1:])
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32",
             "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}
    source = ASTSource(gemm, types, {(6,): bm, (7,): bn, (8,): bk}, {(i,): [["tt.divisibility", 16]] for i in range(6)})
    made = triton.compile(source, target=GPUTarget("cuda", sm, 32), options={"num_warps": warps, "num_stages": stages, "ptx_version": 80})
    print(made.metadata.shared)
    print(made.asm["ptx"])


main()

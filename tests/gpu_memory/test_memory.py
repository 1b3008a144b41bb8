# SPDX-License-Identifier: Apache-2.0
"""What kernels for GPUs ask of memory: test_memory.py BUILD DIR. A model's kernels run under the simulator; the results must
be right, and the counters within what the table says:

    sectors    touched, over the fewest that the requests' bytes would fit in
    traffic    32 bytes a sector, over the bytes of all operands and results
    conflicts  of shared memory's banks, over its requests
    warps      instructions that warps issue, in thousands
"""

import json
import os
import subprocess
import sys

import numpy as np
import onnx.reference
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:3])
TYPES = {"float": np.float32, "float16": np.float16}
cases = []


def case(name, text, *shapes, types=("float", "float16"), options=("--target=cuda:sm_80",), **limits):
    """TEXT with T for the element type; an input whose name is in capitals is a constant, the rows of one named `spots` have infinities and NaN."""
    cases.extend((f"{name} {t}", text.replace("T[", t + "["), shapes, options, limits, t) for t in types)


def transpose(perm, shape, names=None, **limits):
    """NAMES: the dims, where some are not known."""
    dims = names.split(",") if names else list(map(str, shape))
    turned, dims = ",".join(dims[p] for p in perm), ",".join(dims)
    case(f"transpose {perm} of {shape}" + (f" as {names}" if names else ""), f"(T[{dims}] x) => (T[{turned}] y) {{ y = Transpose<perm = {list(perm)}>(x) }}", shape, **limits)


transpose((1, 0), (512, 384), sectors=1, traffic=1, conflicts=0)
transpose((0, 2, 3, 1), (2, 64, 28, 28), sectors=1, traffic=1, conflicts=0)
transpose((0, 3, 1, 2), (2, 28, 28, 64), sectors=1, traffic=1, conflicts=0)
transpose((0, 2, 1, 3), (2, 77, 12, 64), sectors=1, traffic=1)
transpose((0, 3, 1, 2), (1, 64, 60, 3), sectors=1, traffic=1)
transpose((0, 2, 3, 1), (1, 3, 64, 60), sectors=1, traffic=1)
transpose((0, 3, 1, 2), (2, 7, 7, 120), sectors=1, traffic=1.01)
transpose((0, 2, 3, 1), (2, 120, 7, 7), sectors=1, traffic=1.01, warps=10)  # the digits of a thread's number are added first, so that they are that number
# Where rows begin anywhere in a sector, accesses begin with sectors, and two blocks may have a part of one.
transpose((1, 0), (77, 1000), sectors=1.06, traffic=1.06)
transpose((1, 0), (301, 403), sectors=1.04, traffic=1.2, conflicts=0)
transpose((0, 1, 3, 2), (1, 4, 197, 64), sectors=1.04, traffic=1.15, conflicts=0)
transpose((2, 1, 0), (40, 9, 56), sectors=1.06, traffic=1.1)
# Short rows, small matrices and whole rows are contiguous with the adjacent ones.
for perm, shape, sectors, traffic in (
        ((2, 1, 0), (17, 5, 33), 1, 1), ((0, 2, 1), (64, 7, 9), 1, 1), ((0, 2, 1), (64, 5, 50), 1, 1.03), ((0, 2, 1, 3), (2, 77, 12, 33), 1, 1.02),
        ((0, 2, 1, 3), (2, 77, 12, 5), 1, 1), ((0, 2, 1, 3), (2, 50, 3, 7), 1, 1), ((1, 0, 2), (31, 45, 11), 1.02, 1.07), ((1, 0, 2), (31, 45, 100), 1.01, 1.03),
        ((0, 2, 3, 1), (2, 3, 33, 35), 1, 1), ((0, 3, 1, 2), (2, 33, 35, 3), 1, 1), ((3, 2, 1, 0), (7, 9, 11, 13), 1, 1), ((0, 2, 4, 1, 3), (2, 3, 5, 7, 9), 1, 1)):
    transpose(perm, shape, sectors=sectors, traffic=traffic)


# Sizes that are not known: runs begin anywhere, and tiles have parts of them.
for perm, names, shape, sectors, traffic in (
        ((1, 0), "M,N", (301, 403), 1, 1.2), ((1, 0), "M,N", (512, 384), 1, 1), ((1, 0), "M,77", (1001, 77), 1, 1.06), ((1, 0), "77,N", (77, 1001), 1, 1.06),
        ((0, 2, 1), "N,S,77", (3, 301, 77), 1, 1.08), ((2, 1, 0), "A,B,C", (41, 9, 57), 1, 1.32), ((0, 1, 3, 2), "1,4,S,64", (1, 4, 197, 64), 1.01, 1.08),
        ((0, 2, 1, 3), "N,S,H,33", (2, 77, 12, 33), 1, 1.05), ((1, 0, 2), "A,B,3", (31, 45, 3), 1, 1.14), ((1, 0, 2), "A,B,11", (31, 45, 11), 1, 1.08)):
    transpose(perm, shape, names, sectors=sectors, traffic=traffic)
# Nor is it known how long the rows are that stay whole; some are whole sectors. A row each, and short ones in runs.
for names, shape, traffic, warps in (
        ("N,S,H,K", (2, 77, 12, 3), 1.24, 24), ("N,S,H,K", (2, 77, 12, 7), 1.13, 36), ("N,S,H,K", (2, 77, 12, 33), 1.06, 138), ("N,S,H,K", (2, 77, 12, 64), 1, 240),
        ("N,S,12,K", (2, 77, 12, 100), 1.03, 380), ("N,S,H,K", (1, 20, 12, 1001), 1.03, 280)):
    transpose((0, 2, 1, 3), shape, names, sectors=1.01, traffic=traffic, conflicts=0.01, warps=warps)
transpose((1, 0, 2), (31, 45, 100), "A,B,K", sectors=1.01, traffic=1.04, conflicts=0, warps=310)
case("rows of unknown length that are turned, and what is added to them", "(T[N,S,H,K] x, T[N,H,S,K] z) => (T[N,H,S,K] y) { a = Relu(x) t = Transpose<perm = [0,2,1,3]>(a) y = Add(t, z) }",
     (2, 77, 12, 50), (2, 12, 77, 50), sectors=1.01, traffic=1.06, conflicts=0.01)
for channels, traffic in (3, 1.01), (33, 1.03), (77, 1.06):
    transpose((0, 2, 3, 1), (2, channels, 61, 83), f"N,{channels},H,W", sectors=1, traffic=traffic)
    transpose((0, 3, 1, 2), (2, 61, 83, channels), f"N,H,W,{channels}", sectors=1, traffic=traffic)


def depthwise(name, n, side, channels, kernel, stride, dims=None, **limits):
    """Channels last, with a bias and a Relu; DIMS: of the image and of the result, where they have other names."""
    out = (side - 1) // stride + 1
    image, result = dims or (f"{n},{side},{side},{channels}", f"{n},{out},{out},{channels}")
    case(f"depthwise, {name}", f"(T[{image}] x, T[{channels},1,{kernel},{kernel}] W, T[{channels}] B) => (T[{result}] y)"
         f" {{ xt = Transpose<perm = [0,3,1,2]>(x) a = Conv<group = {channels}, strides = [{stride},{stride}], pads = {[kernel // 2] * 4}>(xt, W, B)"
         f" r = Relu(a) y = Transpose<perm = [0,2,3,1]>(r) }}",
         (n, side, side, channels), (channels, 1, kernel, kernel), (channels,), **limits)


# Constants of f16 stay so in kernels that compute in f32.
case("layer norm, scale and shift of the model", "(T[128,768] x, T[768] S, T[768] B) => (T[128,768] y) { y = LayerNormalization<axis = -1>(x, S, B) }",
     (128, 768), (768,), (768,), sectors=1, traffic=1.13, conflicts=0)
# Panels that a block moves as a whole.
for shape, axis in ((3, 4, 5), 1), ((512, 6, 25), 1), ((256, 8, 8, 4), 2), ((40, 5, 7, 3), 1), ((9, 2, 100), 1):
    dims = ",".join(map(str, shape))
    case(f"softmax of small panels, {dims}", f"(T[{dims}] x) => (T[{dims}] y) {{ y = Softmax<axis = {axis}>(x) }}", shape, sectors=1.03, traffic=1.34)
case("softmax of small panels, sizes that are not known", "(T[N,M,6,5] x) => (T[N,M,6,5] y) { y = Softmax<axis = 2>(x) }", (7, 9, 6, 5), sectors=1, traffic=1.02)
case("mean of small panels", "(T[1000,20,6] x) => (T[1000,1,6] y) <int64[1] axes = {1}> { y = ReduceMean<keepdims = 1>(x, axes) }", (1000, 20, 6), sectors=1, traffic=1.01)
# A thread has neighbouring channels, whose taps are one access: half the instructions of one channel a thread.
depthwise("stride 1", 2, 28, 64, 3, 1, sectors=1, traffic=1.34, conflicts=0, warps=270)
depthwise("stride 2", 2, 56, 64, 3, 2, sectors=1, traffic=1.21, conflicts=0, warps=300)
depthwise("sizes that are not known", 2, 30, 64, 3, 1, ("N,H,L,64", "N,H,L,64"), sectors=1, traffic=1.3, conflicts=0)
depthwise("channels that are no whole sectors", 1, 56, 72, 3, 1, types=("float16",), sectors=1.05, traffic=1.41)
# Rows of channels that begin anywhere in a sector are runs of an image's, and accesses of a run begin with sectors.
depthwise("channels of which an access has four", 1, 28, 100, 3, 1, sectors=1.05, traffic=1.9, warps=210)
for channels, kernel, stride, traffic in (116, 3, 1, 1.92), (120, 5, 2, 2.5), (184, 3, 1, 1.92), (200, 3, 1, 1.92):
    depthwise(f"{channels} channels, {kernel} by {kernel}", 1, 28, channels, kernel, stride, sectors=1.06, traffic=traffic)
# Small images, whose tiles are many channels wide for that and have halos of their size.
for side, channels, kernel, traffic in (14, 200, 3, 2.9), (14, 120, 5, 4.6), (7, 232, 3, 3.6), (28, 100, 5, 3.13):
    depthwise(f"{channels} channels of {side} by {side}", 1, side, channels, kernel, 1, sectors=1.08, traffic=traffic)
case("depthwise, scales as channels outside have them", "(T[1,28,28,64] x, T[64,1,3,3] W, T[64,1,1] S) => (T[1,28,28,64] y)"
     " { xt = Transpose<perm = [0,3,1,2]>(x) a = Conv<group = 64, pads = [1,1,1,1]>(xt, W) m = Mul(a, S) y = Transpose<perm = [0,2,3,1]>(m) }",
     (1, 28, 28, 64), (64, 1, 3, 3), (64, 1, 1), sectors=1, traffic=1.6, warps=140)
case("pool of many taps, channels last", "(T[1,13,13,64] x) => (T[1,13,13,64] y) { xt = Transpose<perm = [0,3,1,2]>(x)"
     " a = MaxPool<kernel_shape = [9,9], pads = [4,4,4,4]>(xt) y = Transpose<perm = [0,2,3,1]>(a) }", (1, 13, 13, 64), sectors=1)
depthwise("odd channels", 1, 28, 33, 3, 1, sectors=1, traffic=1.76, warps=180)
depthwise("odd channels, stride 2", 1, 28, 33, 3, 2, sectors=1, traffic=1.28)
depthwise("odd channels, 5 by 5", 1, 28, 17, 5, 1, sectors=1, traffic=2)
depthwise("odd channels, sizes that are not known", 2, 19, 33, 3, 1, ("N,H,L,33", "N,H,L,33"), sectors=1, traffic=1.36)
depthwise("odd channels, 5 by 5, sizes that are not known", 2, 21, 33, 5, 2, ("N,H,L,33", "N,P,Q,33"), sectors=1.01, traffic=1.95)
depthwise("many odd channels", 1, 28, 129, 3, 1, types=("float16",), sectors=1, traffic=2.05)


def convolution(name, channels, side, outputs, kernel, stride=1, follow="r = Add(a, B) y = Relu(r)", **limits):
    """Between images as ONNX has them, channels outside."""
    out = (side - 1) // stride + 1
    case(f"convolution, {name}", f"(T[1,{channels},{side},{side}] x, T[{outputs},{channels},{kernel},{kernel}] W, T[{outputs},1,1] B) => (T[1,{outputs},{out},{out}] y)"
         f" {{ a = Conv<strides = [{stride},{stride}], pads = {[kernel // 2] * 4}>(x, W) {follow} }}",
         (1, channels, side, side), (outputs, channels, kernel, kernel), (outputs, 1, 1), **limits)


# An image is turned before windows of it are read along its channels; results lie along the rows of the matrix, or are parts that do.
# Few results: small tiles, for all SMs, whose operands are read more often.
convolution("a window", 16, 28, 32, 3, sectors=1, traffic=9.2)
convolution("a window, and nothing behind it", 16, 28, 32, 3, follow="y = Identity(a)", sectors=1, traffic=9.1)
convolution("a point", 32, 24, 64, 1, sectors=1, traffic=2.7, conflicts=0.5)
convolution("a sum in parts", 64, 28, 32, 3, types=("float",), sectors=1, traffic=13.1)
convolution("few channels", 3, 48, 64, 7, 2, sectors=1.91)
case("pool, channels last", "(T[2,28,28,64] x) => (T[2,14,14,64] y) { xt = Transpose<perm = [0,3,1,2]>(x)"
     " a = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(xt) y = Transpose<perm = [0,2,3,1]>(a) }", (2, 28, 28, 64), sectors=1, traffic=1.19, conflicts=0)
case("turned with an epilogue", "(T[2,28,28,64] x, T[64] b) => (T[2,64,28,28] y) { a = Add(x, b) c = Relu(a) y = Transpose<perm = [0,3,1,2]>(c) }",
     (2, 28, 28, 64), (64,), sectors=1, traffic=1.1, conflicts=0)
case("one operand turned", "(T[256,192] x, T[192,256] z) => (T[256,192] y) { a = Transpose<perm = [1,0]>(z) y = Add(x, a) }",
     (256, 192), (192, 256), sectors=1, traffic=1, conflicts=0)

def grouped(name, channels, groups, out, batch=1, most=None, **limits):
    case(f"{name}", f"(T[{batch},{channels},14,14] x, T[{out},{channels // groups},3,3] W, T[{out}] B) => (T[{batch},{out},14,14] y)"
         f" {{ a = Conv<group = {groups}, pads = [1,1,1,1]>(x, W, B) y = Relu(a) }}", (1, channels, 14, 14), (out, channels // groups, 3, 3), (out,), warps=most, **limits)


grouped("groups of 16 channels", 64, 4, 64, most=560)
grouped("groups of 4 channels", 64, 16, 64, most=850)
grouped("groups of 4 channels, any number of images", 64, 16, 64, batch="N", most=710)
case("phases of a convolution", "(T[1,32,10,10] x, T[32,16,4,4] W, T[16] B) => (T[1,16,20,20] y) { a = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, W, B) y = Relu(a) }",
     (1, 32, 10, 10), (32, 16, 4, 4), (16,), warps=250)


def norm(name, m, n, rows=None, width=None, **limits):
    rows, width = rows or m, width or n
    case(f"layer norm of {name}", f"(T[{rows},{width}] x, T[{width}] s, T[{width}] b) => (T[{rows},{width}] y) {{ y = LayerNormalization(x, s, b) }}",
         (m, n), (n,), (n,), **limits)


def softmax(name, m, n, width=None, **limits):
    case(f"softmax of {name}", f"(T[{m},{width or n}] x) => (T[{m},{width or n}] y) {{ y = Softmax(x) }}", (m, n), **limits)


for n, traffic in (768, 1), (4096, 1), (1000, 1), (1002, 1.02), (77, 1):
    softmax(n, 64, n, sectors=1, traffic=traffic)
    norm(n, 64, n, sectors=1, traffic=1.13)
    case(f"sums of {n}", f"(T[128,{n}] x) => (T[128] y) <int64[1] one = {{1}}> {{ y = ReduceSum<keepdims = 0>(x, one) }}",
         (128, n), sectors=1, traffic=1.05)
# Short rows that begin anywhere in a sector; the last block has fewer of them.
for n in 2, 3, 5, 10, 17, 33, 77, 161, 301:
    softmax(f"{n}, many rows", 1001, n, sectors=1.01, traffic=1.05)
    norm(f"{n}, many rows", 1001, n, types=("float",) if n < 5 else ("float", "float16"), sectors=1.01, traffic=1.18)
softmax("up to 100, any number of them", 1001, 77, "K", options=("--target=cuda:sm_80", "--dim", "K=1..100"), sectors=1.01, traffic=1.01)
for side in 7, 14:
    case(f"instance norm of {side} by {side}", f"(T[4,100,{side},{side}] x, T[100] s, T[100] b) => (T[4,100,{side},{side}] y)"
         " { y = InstanceNormalization(x, s, b) }", (4, 100, side, side), (100,), (100,), sectors=1.02, traffic=1.1)
# The sum that a norm is taken of is a result, too.
for n, traffic in (768, 1.06), (1002, 1.07):
    case(f"layer norm of a sum of {n}", f"(T[64,{n}] x, T[64,{n}] r, T[{n}] s, T[{n}] b) => (T[64,{n}] z, T[64,{n}] y)"
         " { z = Add(x, r) y = LayerNormalization(z, s, b) }", (64, n), (64, n), (n,), (n,), sectors=1, traffic=traffic)


def group_norm(n, channels, groups, h, w, **limits):
    """The operator, and what is exported for it: an instance's norm of groups, and a scale of channels behind it."""
    image, scales = f"{n},{channels},{h},{w}", (channels,)
    case(f"group norm of {image}", f"(T[{image}] x, T[{channels}] S, T[{channels}] B) => (T[{image}] y) {{ y = GroupNormalization<num_groups = {groups}>(x, S, B) }}",
         (n, channels, h, w), scales, scales, **limits)
    case(f"group norm of {image} in parts", f"(T[{image}] x, T[{groups}] S, T[{groups}] B, T[{channels},1,1] P, T[{channels},1,1] Q) => (T[{image}] y)"
         f" <int64[3] rows = {{0,{groups},-1}}, int64[4] image = {{{image}}}> {{ r = Reshape(x, rows) i = InstanceNormalization(r, S, B)"
         f" v = Reshape(i, image) p = Mul(v, P) y = Add(p, Q) }}", (n, channels, h, w), (groups,), (groups,), (channels, 1, 1), (channels, 1, 1), **limits)


# Rows that no block holds are read twice, by many blocks.
group_norm(1, 8, 2, 256, 256, types=("float",), sectors=1, traffic=1.7)
group_norm(2, 32, 8, 16, 16, sectors=1, traffic=1.08)
group_norm(1, 64, 32, 28, 28, sectors=1, traffic=1.13)
group_norm(2, 32, 8, 7, 9, sectors=1, traffic=1.19)
group_norm(2, 30, 3, 13, 11, sectors=1, traffic=1.09)
softmax("10, parts of a warp", 1001, 10, sectors=1, types=("float",), traffic=1.2)
softmax("4, the last ones without a row", 129, 4, sectors=1, traffic=1.03)
norm(3001, 64, 3001, sectors=1, traffic=1.12)
# Where rows have a block each, what is of all of them is read once a block, so often as the GPU has room for one.
norm("8192", 240, 8192, types=("float16",), options=("--target=cuda:sm_75",), sectors=1, traffic=1.17)
norm("6001, any number of them", 240, 6001, "N", types=("float",), options=("--target=cuda:sm_75",), sectors=1.01, traffic=1.2)
# The rest of the row is in shared memory, and scales only beside it: these are read again for each row.
norm("30001", 110, 30001, types=("float",), sectors=1.11, traffic=2.21)
for most, width in ("512", 500), ("2000", 2000):
    softmax(f"up to {most}", 64, width, "K", options=("--target=cuda:sm_80", "--dim", f"K=1..{most}"), sectors=1, traffic=1.03)
for m, n in (64, 1500), (4, 15001):
    softmax(f"any number, {n}", m, n, "K", types=("float16",) if n < 4096 else ("float",), sectors=1, traffic=1.01)
softmax("any number, 1500, by its length", 64, 1500, "K", types=("float",), sectors=1, traffic=1, warps=155)
norm("any number, 1500", 64, 1500, width="K", sectors=1, traffic=1.12, warps=82)



def middle(shape, axis=1, op="Softmax", dims=None, **limits):
    """Along an axis with others behind it; DIMS: where they have other names."""
    d = ",".join(map(str, dims or shape))
    case(f"{op} along axis {axis} of {d}", f"(T[{d}] x) => (T[{d}] y) {{ y = {op}<axis = {axis}>(x) }}", shape, **limits)


# Neighbouring columns, which are a block's; where rows begin anywhere in a sector it begins with one.
middle((3, 99, 50), types=("float",), sectors=1, traffic=1.12, warps=33)
middle((3, 99, 50), types=("float16",), sectors=1.04, traffic=1.06, warps=50)
middle((2, 21, 65, 65), types=("float",), sectors=1, traffic=1.06, warps=440)
middle((2, 21, 65, 65), types=("float16",), sectors=1, traffic=1.14, warps=490)
middle((2, 21, 64, 64), sectors=1, traffic=1, warps=300)
middle((2, 150, 33, 33), types=("float",), sectors=1, traffic=1.13)
middle((4, 1000, 7), types=("float",), sectors=1, traffic=1, warps=68)
middle((2, 5, 33, 35), op="LogSoftmax", axis=2, types=("float",), sectors=1.03, traffic=1.03)
middle((3, 99, 50), dims=("N", "M", "K"), types=("float",), sectors=1, traffic=1.12)
middle((3, 99, 50), dims=("N", "M", "K"), types=("float16",), sectors=1, traffic=1.28)
middle((2, 21, 33, 35), dims=("N", 21, "H", "W"), sectors=1, traffic=1.15)
# Few classes: a block has more columns. Long ones: it has fewer, and where it can hold none it reads them again.
for classes, warps in (2, 42), (5, 92), (8, 175):
    middle((2, classes, 65, 65), sectors=1, traffic=1.14, warps=warps)
middle((2, 4, 64, 64), sectors=1, traffic=1, warps=48)
middle((2, 5, 65, 65), dims=("N", 5, "H", "W"), sectors=1, traffic=1.07)
middle((1, 3000, 16), types=("float",), sectors=1, traffic=1)
for dims in None, ("N", "M", "K"):
    middle((1, 3000, 65), dims=dims, types=("float",), sectors=1, traffic=2.4)
for length in 128, 200, 1000:  # variants whose code is the same and whose launch gives more memory
    middle((2, length, 8), dims=(2, "K", 8), types=("float",), sectors=1, traffic=1)
case("norms along axis 1 of 2,64,17,19", "(T[2,64,17,19] x, T[64,1,1] s) => (T[2,64,17,19] y) <int64[1] one = {1}> { m = ReduceMean(x, one) c = Sub(x, m)"
     " q = Mul(c, c) v = ReduceMean(q, one) r = Sqrt(v) n = Div(c, r) y = Mul(n, s) }", (2, 64, 17, 19), (64, 1, 1), types=("float",), sectors=1, traffic=1.07)

# Columns from the middle of wider rows: what is read begins anywhere in a sector, what is written does not.
case("softmax of inner columns", "(T[4,21,131] x) => (T[4,21,128] y) <int64[1] three = {3}, int64[1] end = {131}, int64[1] last = {2}>"
     " { s = Slice(x, three, end, last) y = Softmax<axis = 1>(s) }", (4, 21, 131), sectors=1.06, traffic=1.18)
# What is summed once is read from memory, where rows begin anywhere, too: a warp has fewer columns than lanes.
for n in 31, 61:
    case(f"softmax of {n} columns and the greatest of others", f"(T[2,130,{n}] x, T[2,130,{n}] z) => (T[2,130,{n}] y) <int64[1] one = {{1}}>"
         " { m = ReduceMax(z, one) a = Add(x, m) y = Softmax<axis = 1>(a) }", (2, 130, n), (2, 130, n), types=("float",), sectors=1.02, traffic=1.1)
case("sums of columns times what all terms share", "(T[2,100,64] x, T[2,1,67] z) => (T[2,100,64] y) <int64[1] one = {1}, int64[1] three = {3}, int64[1] end = {67}, int64[1] last = {2}>"
     " { s = Slice(z, three, end, last) a = Mul(s, x) m = ReduceSum(a, one) e = Exp(x) n = ReduceSum(e, one) b = Add(m, n) y = Mul(x, b) }", (2, 100, 64), (2, 1, 67), types=("float",),
     sectors=1, traffic=1.2)
# What a statement reads elsewhere, too, stays until all have.
case("columns that are turned round", "(T[4,40,130] x) => (T[4,40,130] y) <int64[1] one = {1}, int64[1] last = {-1}, int64[1] all = {-1000}>"
     " { e = Exp(x) s = ReduceSum(e, one) t = Slice(e, last, all, one, last) d = Div(t, s) m = ReduceMean(d, one) y = Sub(d, m) }",
     (4, 40, 130), types=("float",), sectors=1.1, traffic=1.22)

for m, traffic in (1, 1.13), (3, 1.38):
    case(f"{m} rows by columns", f"(T[{m},1024] x, T[1024,768] W, T[768] B) => (T[{m},768] y) {{ p = MatMul(x, W) a = Add(p, B) y = Relu(a) }}",
         (m, 1024), (1024, 768), (768,), sectors=1, traffic=traffic)
    case(f"{m} rows by rows", f"(T[{m},1024] x, T[768,1024] w) => (T[{m},768] y) {{ y = Gemm<transB = 1>(x, w) }}", (m, 1024), (768, 1024),
         sectors=1.1, traffic=1.2 if m == 1 else 4.1)
for m, traffic in (3, 1.37), (8, 1.97):
    case(f"{m} rows by constant rows", f"(T[{m},1024] x, T[768,1024] W) => (T[{m},768] y) {{ y = Gemm<transB = 1>(x, W) }}", (m, 1024), (768, 1024),
         sectors=1, traffic=traffic)
case("constants with odd rows", "(T[1024,256] x, T[256,77] W, T[33,256] V) => (T[1024,77] y, T[1024,33] z) { y = MatMul(x, W) z = Gemm<transB = 1>(x, V) }",
     (1024, 256), (256, 77), (33, 256), sectors=1.04, conflicts=0)
case("sums of columns", "(T[1000,768] x) => (T[768] y) <int64[1] zero = {0}> { y = ReduceSum<keepdims = 0>(x, zero) }", (1000, 768), types=("float",), sectors=1, traffic=1.01)
# Rows that are no whole sectors begin anywhere in one, whatever accesses their sizes allow.
for shape, traffic, types, warps in (((3, 99, 50), 1.13, ("float",), 5), ((3, 99, 50), 1.29, ("float16",), 5), ((8, 100, 100), 1.13, ("float", "float16"), 20),
                                     ((8, 100, 250), 1.08, ("float",), 47)):
    d = ",".join(map(str, shape))
    case(f"means along the middle of {d}", f"(T[{d}] x) => (T[{shape[0]},{shape[2]}] y) <int64[1] one = {{1}}> {{ y = ReduceMean<keepdims = 0>(x, one) }}", shape, types=types,
         sectors=1.01, traffic=traffic, warps=warps)
# So do rows of few columns: those of a block are a run.
for shape, types, warps in ((128, 20), ("float", "float16"), 3), ((4096, 20), ("float",), 13), ((900, 12), ("float",), 3):
    d = ",".join(map(str, shape))
    case(f"means of few columns of {d}", f"(T[{d}] x) => (T[{shape[1]}] y) <int64[1] zero = {{0}}> {{ y = ReduceMean<keepdims = 0>(x, zero) }}", shape, types=types,
         sectors=1, traffic=1.01, warps=warps)
case("sums of 100 long columns", "(T[2000,100] x) => (T[100] y) <int64[1] zero = {0}> { y = ReduceSum<keepdims = 0>(x, zero) }", (2000, 100), types=("float",), sectors=1, traffic=1.05)
for n in 77, 301:
    case(f"means of {n} columns", f"(T[8,100,{n}] x) => (T[8,{n}] y) <int64[1] one = {{1}}> {{ y = ReduceMean<keepdims = 0>(x, one) }}", (8, 100, n), types=("float",),
         sectors=1.01, traffic=1.1)

softmax("30000, few rows", 2, 30000, sectors=1, traffic=1)
softmax("100000, few rows", 2, 100000, types=("float",), sectors=1, traffic=1.58)
softmax("50257, few rows", 1, 50257, sectors=1, traffic=1)
for op, n, traffic in ("Softmax", 90001, 2), ("LogSoftmax", 50257, 1):
    case(f"{op} of {n} with infinities", f"(T[6,{n}] spots) => (T[6,{n}] y) {{ y = {op}(spots) }}", (6, n), types=("float",), sectors=1.1, traffic=traffic)
case("logarithm of a sum of exponentials", "(T[2,100000] x) => (T[2] y) <int64[1] one = {1}> { y = ReduceLogSumExp<keepdims = 0>(x, one) }", (2, 100000),
     types=("float",), sectors=1.01, traffic=1.02)
norm("60000, few rows", 2, 60000, types=("float",), sectors=1, traffic=1.34)
for rows, n in (1, 1000000), (4, 65536):
    case(f"sums of {rows} long rows", f"(T[{rows},{n}] x) => (T[{rows}] y) <int64[1] one = {{1}}> {{ y = ReduceSum<keepdims = 0>(x, one) }}", (rows, n),
         types=("float",), sectors=1, traffic=1.01)
case("places in long rows", "(T[2,50000] x) => (int64[2] y) { y = ArgMax<axis = 1, keepdims = 0>(x) }", (2, 50000), types=("float",), sectors=1.02, traffic=1.03)
case("a big image's means", "(T[1,3,256,256] x) => (T[1,3,1,1] y) { y = GlobalAveragePool(x) }", (1, 3, 256, 256), sectors=1.02, traffic=1.02)
case("few long columns", "(T[20000,16] x) => (T[16] y) <int64[1] zero = {0}> { y = ReduceSum<keepdims = 0>(x, zero) }", (20000, 16), types=("float",),
     sectors=1, traffic=1.01)
for m in 16, 32:
    case(f"{m} rows by a deep matrix", f"(T[{m},3072] x, T[3072,768] W, T[768] B) => (T[{m},768] y) {{ p = MatMul(x, W) a = Add(p, B) y = Relu(a) }}",
         (m, 3072), (3072, 768), (768,), sectors=1, traffic=m / 32 + 1.1)


def run(command, **env):
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(300), env=samples.simulated(BUILD, **env))
    assert r.returncode == 0, f"status {r.returncode}: {r.stdout}{r.stderr}"


def spot(x):
    x[1, :x.shape[1] // 2] = -np.inf
    x[2] = -np.inf
    x[3, 7] = np.inf
    x[4, -1] = np.nan
    x[5, :-1] = -np.inf


def counted(folder, text, shapes, options, t):
    """Runs the model, and gives its counters' sums and the bytes of what it reads and writes."""
    model = samples.model("model " + text, 22)
    rng = np.random.default_rng(1)
    arrays = {x.name: rng.standard_normal(shape).astype(TYPES[t]) for x, shape in zip(model.graph.input, shapes)}
    if "spots" in arrays:
        spot(arrays["spots"])
    inputs = [x for x in model.graph.input if not x.name.isupper()]
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in arrays.items() if name.isupper())
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    feeds = {x.name: arrays[x.name] for x in inputs}
    with np.errstate(all="ignore"):
        results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    samples.tensors(f"{folder}/data/test_data_set_0", "input", feeds)
    samples.tensors(f"{folder}/data/test_data_set_0", "output", dict(zip((o.name for o in model.graph.output), results)))
    onnx.save(model, f"{folder}/model.onnx")
    run([BUILD + "/bin/dlcc", f"{folder}/model.onnx", *options, *samples.unoptimised(), "-o", f"{folder}/model.so"])
    run([BUILD + "/bin/dlrun", f"{folder}/model.so", "--device=cuda", "--data", f"{folder}/data"],
        PTXSIM_STATS=f"{folder}/stats.json")
    sums = {}
    for kernel in json.load(open(f"{folder}/stats.json"))["kernels"]:
        for key, value in kernel.items():
            sums[key] = sums.get(key, 0) + value if isinstance(value, int) else 0
    return sums, sum(a.nbytes for a in [*arrays.values(), *results])


def ratios(c, size):
    sectors = c["global_load_sectors"] + c["global_store_sectors"]
    requests = c["shared_load_requests"] + c["shared_store_requests"]
    return {
        "sectors": sectors / (c["global_load_sectors_fewest"] + c["global_store_sectors_fewest"]),
        "traffic": 32 * sectors / size,
        "conflicts": (c["shared_load_conflicts"] + c["shared_store_conflicts"]) / max(requests, 1),
        "local": c["local_bytes"],
        "warps": c["warp_instructions"] / 1000,
    }


def main():
    failed = 0
    chosen = samples.share(cases, 9)        # an odd share, so that both types are among them
    for i, (name, text, shapes, options, limits, t) in enumerate(chosen):
        found = None
        try:
            found = ratios(*counted(f"{DIR}/{i}", text, shapes, options, t))
            limits = {k: samples.instructions(BUILD, most) if k == "warps" else most for k, most in limits.items()}
            over = {k: found[k] for k, most in {"local": 0, **limits}.items() if found[k] > most + 0.01}
            why = f"{over} is more than {limits}" if over else None
        except Exception as e:  # of any kind: the test's failure
            why = f"{type(e).__name__}: {str(e)[:600]}"
        if os.environ.get("V"):
            print(name, found)
        if why:
            failed += 1
            print(f"FAIL: {name}: {why}")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Random graphs of a few operators, what no list of cases puts together: a Maker is one, by its seed, for tests/tools/batch.

A graph grows by operators on values that it has. A value knows a bound of its elements: inputs are small integers, and
stay exact in its type, in any order of sums; behind a norm or Softmax results are compared as those of whole models, and
nothing that jumps is applied. Dims are numbers, symbols, or expressions of symbols; a symbol's sizes are drawn at the end,
0 and 1 among them, as far as its operators allow.
"""

import math
import os
import re
import sys
from typing import NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from edges import CODES, FLOATS, Graph  # noqa: E402

EXACT = {"f32": 1e6, "f64": 1e9, "f16": 1000, "bf16": 120, "i32": 1e8, "i64": 1e8}  # sums of integers below are exact
NARROWER = ("f64", "f32", "f16", "bf16")                                            # each is no wider than those before it
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 40, 63, 64, 65, 70, 100, 129)
ROWS = SIZES[1:] + (77, 143, 196, 200, 255, 257, 300, 333, 513, 577, 600, 700)
UNKNOWN = (0, 1, 2, 3, 7, 16, 33, 65, 130, 333)
LARGE, LONG = 40000, 4096                                                           # elements of a value, of a rounded sum


class Value(NamedTuple):
    name: str
    dtype: str
    shape: list
    most: float            # no element is larger
    close: bool = False    # sums of it are rounded


def known(*dims):
    return all(isinstance(d, int) for d in dims)


def simple(shape):
    return all(known(d) or len(d) == 1 for d in shape)


def times(a, b):
    return a * b if known(a, b) else f"({a})*({b})"


class Maker:
    def __init__(self, seed):
        self.g = Graph(f"random.{seed}")
        self.r = self.g.random
        self.values, self.sums, self.least, self.made = [], [], {}, 0
        self.dynamic = self.r.choice((0, 0.2, 0.5))
        self.rows = self.r.random() < 0.5

    # ---- Dims and inputs ----

    def name(self, kind):
        self.made += 1
        return f"{kind}{self.made}"

    def dim(self, choices=SIZES):
        if self.r.random() < self.dynamic:
            symbol = self.r.choice("ABC")
            self.least.setdefault(symbol, 0)
            return symbol
        return self.r.choice(choices)

    def shape(self, rank):
        shape = [self.dim() for _ in range(rank)]
        if rank and self.rows:
            shape[-1] = self.dim(ROWS)
        while math.prod(d if known(d) else 20 for d in shape) > LARGE // 2:
            shape[self.r.randrange(rank)] = self.r.choice((1, 2, 3, 5))
        return shape

    def need(self, dims, least=1):
        """That DIMS are LEAST at least."""
        for symbol in {s for d in dims if not known(d) for s in re.findall("[A-C]", d)}:
            self.least[symbol] = max(self.least[symbol], least)

    def input(self, dtype, shape):
        if self.values and known(*shape) and 0 < math.prod(shape) <= 4096 and self.r.random() < 0.3 and dtype != "bool":
            name = self.g.weights(self.name("w"), dtype, shape)
        else:
            name = self.g.input(self.name("x"), dtype, shape)
        return Value(name, dtype, shape, 4)

    def beside(self, v):
        """What broadcasts to V: a value that is there, or an input with 1 in place of some dims."""
        same = [w for w in self.values if w.dtype == v.dtype and w.shape == v.shape]
        if same and self.r.random() < 0.5:
            return self.r.choice(same)
        shape = [1 if self.r.random() < 0.35 or not (known(d) or len(d) == 1) else d for d in v.shape]
        return self.input(v.dtype, shape[self.r.randrange(len(shape) + 1):] if self.r.random() < 0.3 else shape)

    def parts(self, n):
        """A divisor of N."""
        return self.r.choice([k for k in range(1, n + 1) if n % k == 0])

    def ints(self, values):
        return self.g.const(self.name("c"), "i64", [len(values)], values)

    def numbers(self, dtype, *values):
        return [self.g.const(self.name("c"), dtype, [], [f"{v}.0" if dtype in FLOATS else v]) for v in values]

    # ---- Nodes ----

    def put(self, op, operands, shape, most, close=False, dtype=None, **attributes):
        """A node on OPERANDS, values or labels; the first says the type."""
        dtype = dtype or operands[0].dtype
        close = dtype in FLOATS and (close or any(isinstance(v, Value) and v.close for v in operands))
        name = self.g.node(self.name("v"), op, *[v.name if isinstance(v, Value) else v for v in operands], **attributes)
        if most > EXACT.get(dtype, math.inf):
            name, most = self.g.node(self.name("v"), "Clip", name, *self.numbers(dtype, -3, 3)), 3
        self.values.append(Value(name, dtype, list(shape), most, close))
        return self.values[-1]

    def small(self, v):
        """V with elements of which thousands can be added."""
        return v if v.most <= 4 else self.put("Clip", [v] + self.numbers(v.dtype, -2, 2), v.shape, 2)

    def elementwise(self, v):
        op = self.r.choice(("Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Relu", "Where"))
        if op in ("Neg", "Abs", "Relu"):
            return self.put(op, [v], v.shape, v.most)
        o = self.beside(v)
        if op == "Where":
            cond = self.beside(v._replace(dtype="bool"))
            return self.put(op, [cond, v, o], v.shape, max(v.most, o.most), dtype=v.dtype)
        return self.put(op, [v, o] if self.r.random() < 0.5 else [o, v], v.shape,
                        v.most * o.most if op == "Mul" else v.most + o.most)

    def cast(self, v):
        to = self.r.choice(NARROWER[NARROWER.index(v.dtype):] if v.close else NARROWER + ("i32", "i64"))
        return self.put("Cast", [self.small(v)], v.shape, v.most, dtype=to, to=CODES[to])

    def transpose(self, v):
        perm = self.r.sample(range(len(v.shape)), len(v.shape))
        if perm == sorted(perm):
            perm.reverse()
        return self.put("Transpose", [v], [v.shape[i] for i in perm], v.most, perm=perm)

    def flatten(self, v):
        if len(v.shape) > 1:
            i = self.r.randrange(len(v.shape) - 1)
            if known(*v.shape[i + 2:]):
                self.need(v.shape)
                shape = v.shape[:i] + [times(*v.shape[i:i + 2])] + v.shape[i + 2:]
                return self.put("Reshape", [v, self.ints([0] * i + [-1] + v.shape[i + 2:])], shape, v.most)

    def split_dim(self, v):
        at = [i for i, d in enumerate(v.shape) if known(d) and d > 1 and known(*v.shape[i + 1:])]
        if at:
            i = self.r.choice(at)
            part = self.parts(v.shape[i])
            tail = [part, v.shape[i] // part] + v.shape[i + 1:]
            return self.put("Reshape", [v, self.ints([0] * i + tail)], v.shape[:i] + tail, v.most)

    def slice(self, v):
        at = [i for i, d in enumerate(v.shape) if known(d) and d > 1]
        if at:
            i = self.r.choice(at)
            start, step = self.r.randrange(v.shape[i]), self.r.choice((1, 1, 2, 3))
            shape = v.shape[:i] + [-(-(v.shape[i] - start) // step)] + v.shape[i + 1:]
            return self.put("Slice", [v] + [self.ints([n]) for n in (start, v.shape[i], i, step)], shape, v.most)

    def concat(self, v):
        at = [i for i, d in enumerate(v.shape) if known(d)]
        if at and simple(v.shape):
            i = self.r.choice(at)
            o = self.input(v.dtype, v.shape[:i] + [self.r.choice((1, 3, v.shape[i]))] + v.shape[i + 1:])
            return self.put("Concat", self.r.sample((v, o), 2), v.shape[:i] + [v.shape[i] + o.shape[i]] + v.shape[i + 1:],
                            max(v.most, o.most), axis=i)

    def pad(self, v):
        ends = [self.r.choice((0, 0, 1, 2)) if known(d) else 0 for d in v.shape * 2]
        shape = [d + ends[i] + ends[i + len(v.shape)] if known(d) else d for i, d in enumerate(v.shape)]
        return self.put("Pad", [v, self.ints(ends)], shape, v.most)

    def reduce(self, v):
        """Over some axes; kept, it may meet what it came from."""
        axes = sorted(self.r.sample(range(len(v.shape)), self.r.randint(1, min(2, len(v.shape)))))
        op, keep = self.r.choice(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2")), self.r.randrange(2)
        if v.dtype not in FLOATS and op in ("ReduceMean", "ReduceL2"):
            return
        if op != "ReduceSum":
            self.need([v.shape[i] for i in axes])
        v = self.small(self.put("Abs", [v], v.shape, v.most) if v.close else v)     # sums that are 0 but for rounding compare badly
        shape = [1 if i in axes else d for i, d in enumerate(v.shape) if keep or i not in axes]
        terms = math.prod(v.shape[i] if known(v.shape[i]) else 333 for i in axes)
        self.sums.append([v.shape[i] for i in axes])
        y = self.put(op, [v, self.ints(axes)], shape, v.most * (terms if op == "ReduceSum" else 1 if op[6] == "M" else math.sqrt(terms)),
                     close=op in ("ReduceMean", "ReduceL2") or terms * v.most > EXACT[v.dtype], keepdims=keep)
        return self.put("Max" if v.close else self.r.choice(("Sub", "Max")), [v, y], v.shape, v.most + y.most) if keep and self.r.random() < 0.6 else y

    def norm(self, v):
        op = self.r.choice(("Softmax", "LayerNormalization", "RMSNormalization", "InstanceNormalization", "grouped"))
        axis, rank = self.r.randrange(len(v.shape)), len(v.shape)
        if v.dtype not in FLOATS or not simple(v.shape):
            return
        if op in ("InstanceNormalization", "grouped") and rank < 3:
            op = "Softmax"
        self.need(v.shape)
        v = self.small(v)
        self.sums.append(v.shape[2 if op in ("InstanceNormalization", "grouped") else axis:])
        if op == "Softmax":
            return self.put("Softmax", [v], v.shape, 1, True, axis=axis)
        if op == "InstanceNormalization":
            return self.put(op, [v] + [self.input(v.dtype, [v.shape[1]]) for _ in range(2)], v.shape, 99, True, epsilon=0.5)
        if op != "grouped":
            more = 1 if op[0] == "R" else self.r.randint(1, 2)
            return self.put(op, [v] + [self.input(v.dtype, v.shape[axis:]) for _ in range(more)], v.shape, 99, True, axis=axis, epsilon=0.5)
        c = v.shape[1] if known(v.shape[1]) else 1
        groups = self.parts(c)
        self.sums.append([c // groups] + v.shape[2:])
        rows = self.g.node(self.name("v"), "Reshape", v.name, self.ints([0, groups, -1]))
        ones = [self.g.const(self.name("c"), v.dtype, [groups], [f"{n}.0"] * groups) for n in (1, 0)]
        rows = self.g.node(self.name("v"), "InstanceNormalization", rows, *ones, epsilon=0.5)
        y = self.put("Reshape", [v._replace(name=rows), self.g.node(self.name("v"), "Shape", v.name)], v.shape, 99, True)
        for op in ("Mul", "Add"):
            y = self.put(op, [y, self.input(v.dtype, [v.shape[1]] + [1] * (rank - 2))], v.shape, y.most * 4)
        return y

    def matmul(self, v):
        if len(v.shape) < 2 or not simple(v.shape):
            return
        v, r = self.small(v), self.r
        deep = lambda n: v.most * 4 * (n if known(n) else 333)
        if r.random() < 0.25:                                    # attention by itself
            *batch, i, j = range(len(v.shape))
            turned = self.put("Transpose", [v], v.shape[:-2] + v.shape[:-3:-1], v.most, perm=batch + [j, i])
            y = self.put("MatMul", [v, turned], v.shape[:-1] + [v.shape[-2]], deep(v.shape[-1]), True)
            if v.dtype in FLOATS:
                self.need(v.shape)
                y = self.put("Softmax", [y], y.shape, 1, True)
            return self.put("MatMul", [self.small(y), v], v.shape, deep(v.shape[-2]), True)
        batch = [] if r.random() < 0.6 else [d if r.random() < 0.8 else 1 for d in v.shape[:-2]]
        n = self.dim()
        return self.put("MatMul", [v, self.input(v.dtype, batch + [v.shape[-1], n])], v.shape[:-1] + [n],
                        deep(v.shape[-1]), deep(v.shape[-1]) > EXACT[v.dtype])

    def conv(self, v):
        """A window over two dims, of images that lie as they are or channels last; or its transpose."""
        r, last = self.r, self.r.random() < 0.5
        if len(v.shape) != 4 or v.dtype not in FLOATS:
            return
        c, *image = [v.shape[i] for i in ((3, 1, 2) if last else (1, 2, 3))]
        if not known(c) or c > 200:
            return
        v = self.small(v)
        turned = self.put("Transpose", [v], [v.shape[0], c] + image, v.most, perm=[0, 3, 1, 2]) if last else v
        op, kernel = r.choice(("Conv", "Conv", "ConvTranspose")), [r.choice((1, 2, 3, 3, 4)) for _ in "hw"]
        strides, dilations = [r.choice((1, 1, 2, 3)) for _ in "hw"], [r.choice((1, 1, 2)) for _ in "hw"]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
        pads = [r.randrange((e + 1) // 2) if r.random() < 0.7 else 0 for e in reach * 2]
        sizes = []
        for d, e, s, p, q in zip(image, reach, strides, pads, pads[2:]):
            if op == "Conv" and (d + p + q < e if known(d) else len(d) > 1):
                return
            self.need([d], e if op == "Conv" else 1)
            sizes.append(f"(({d})+{p + q - e})//{s}+1" if op == "Conv" else f"(({d})-1)*{s}+{e - p - q}")
            sizes[-1] = eval(sizes[-1]) if known(d) else sizes[-1]
        if math.prod(d if known(d) else 20 for d in sizes) > LARGE // 8:
            return
        group = r.choice((1, c, self.parts(c)))
        outer = r.choice((1, 1, 2, 3, 8, 17)) if c < 40 else 1
        terms = v.most * 4 * math.prod(kernel) * c // group
        w = self.input(v.dtype, ([c, outer] if op != "Conv" else [group * outer, c // group]) + kernel)
        bias = [self.input(v.dtype, [group * outer])] if r.random() < 0.5 else []
        y = self.put(op, [turned, w] + bias, [v.shape[0], group * outer] + sizes, terms, terms > EXACT[v.dtype], group=group,
                     strides=strides, dilations=dilations, pads=pads)
        return self.put("Transpose", [y], [y.shape[i] for i in (0, 2, 3, 1)], y.most, perm=[0, 2, 3, 1]) if last else y

    OPS = (elementwise,) * 5 + (transpose, reduce, norm, norm) * 2 + (cast, flatten, split_dim, slice, concat, pad, matmul, conv, conv)

    # ---- Whole graphs ----

    def fits(self, sizes):
        """Whether values are not large, nor sums long."""
        count = lambda shape: math.prod(d if known(d) else eval(d, dict(sizes)) for d in shape)
        return all(count(v.shape) <= LARGE for v in self.values) and all(count(s) <= LONG for s in self.sums)

    def make(self):
        """Whether there is a graph: of 3 to 9 operators, its results what nothing reads."""
        r = self.r
        self.values.append(self.input(r.choice(("f32",) * 4 + ("f16", "f16", "bf16", "f64", "i32", "i64")), self.shape(r.choice((1, 2, 2, 3, 3, 3, 4, 4, 4, 4)))))
        for _ in range(r.randint(3, 9)):
            v = r.choice(self.values[-3:])
            if v.shape and len(v.shape) < 6:
                r.choice(self.OPS + (Maker.conv,) * 12 * (len(v.shape) == 4))(self, v)
        read = set(re.findall(r"%\w+", " ".join(line.split(" = ", 1)[1] for line in self.g.lines)))
        self.g.results = [v.name for v in self.values if f"%{v.name}" not in read and v.name[0] == "v"][-4:]
        for _ in range(200):
            sizes = {s: r.choice([n for n in UNKNOWN if n >= least]) for s, least in self.least.items()}
            if len(self.g.sizes) < 6 and sizes not in self.g.sizes and self.fits(sizes):
                self.g.sizes.append(sizes)
        fit, self.g.sizes = bool(self.g.sizes), [s for s in self.g.sizes if s]
        return fit and bool(self.g.results)

    def text(self):
        return "; close\n" * any(v.close for v in self.values) + self.g.text()

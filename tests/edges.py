#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes graphs with sizes and values at the edges, one in each file. tests/tools/batch runs them through generated C, whose
results must equal eval's bit by bit.

    edges.py TABLES TARGET FOLDER [PATTERN]

Sizes are one less than, equal to and one more than the sizes of the strategies' tiles, panels, vectors and blocks, which
TABLES (build/tests/tools/tables) prints; also 0, 1 and odd primes. Each form has cases whose sizes only run time knows (many
runs of one artifact) and cases whose sizes are constant. Reductions and contractions read small integers
(tests/tools/batch/edge.h), so that every sum is exact in any order; elementwise operators read special values. The cases
are the same every time: random numbers are seeded by the case's name.
"""

import fnmatch
import itertools
import os
import random
import struct
import subprocess
import sys

FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i32", "i64")
BYTES = ("u8", "i8")
GROUP = {"f": FLOATS, "i": ("i8", "i16", "i32", "i64"), "u": ("u8", "u16", "u32", "u64"), "b": ("bool",)}
COMPUTED = {"f16": "f32", "bf16": "f32", "u8": "i32", "i8": "i32"}  # the type in which sums are accumulated


class Tables:
    """The output of tests/tools/tables."""

    def __init__(self, program, target):
        lines = subprocess.run([program, target], check=True, capture_output=True, text=True).stdout.splitlines()
        self.block, self.ops, self.number = {}, [], {}
        for kind, *rest in map(str.split, lines):
            if kind == "block":
                self.block[rest[0]] = [int(n) for n in rest[1:]]
            elif kind == "op":
                self.ops.append((rest[0], rest[1], int(rest[2]), int(rest[3]), rest[4]))
            else:
                self.number[kind] = int(rest[0])

    def around(self, dtype):
        """Sizes at the edges for rows and columns."""
        sizes = {0, 1, 2, 3, 7, 13}
        for n in self.block[COMPUTED.get(dtype, dtype)]:
            sizes |= {n - 1, n, n + 1}
        return sorted(sizes | {2 * self.block["f32"][2] + 1})

    def rows(self, dtype):
        return self.around(dtype)[:-1] + [self.number["window"], self.number["row"] + 1]

    def depths(self, dtype):
        lanes = self.block[COMPUTED.get(dtype, dtype)][3]
        return [0, 1, 2, 3, lanes - 1, lanes, lanes + 1, 13, self.number["depth"] + 1]


def dims(shape):
    return "[" + ",".join(str(d) for d in shape) + "]"


def attrs(values):
    def text(v):
        if isinstance(v, str):
            return f'"{v}"'
        return "[" + ", ".join(map(str, v)) + "]" if isinstance(v, (list, tuple)) and v else "ints[]" if v == [] else str(v)
    given = {k: v for k, v in values.items() if v is not None}
    return " {" + ", ".join(f"{k} = {text(v)}" for k, v in given.items()) + "}" if given else ""


class Graph:
    """A graph that is being built; values are their labels without the %."""

    def __init__(self, name):
        self.name, self.random = name, random.Random(name)
        self.inputs, self.lines, self.results, self.data, self.sizes = [], [], [], {}, []

    def input(self, name, dtype, shape, data="ints"):
        self.inputs.append(f"%{name}: {dtype}{dims(shape)}")
        self.data[name] = data
        return name

    def const(self, name, dtype, shape, values):
        text = ", ".join(map(str, values))
        self.lines.append(f"%{name} = Const {{value = {dtype}{dims(shape)}({text})}} : {dtype}{dims(shape)}")
        return name

    def weights(self, name, dtype, shape):
        """A constant with random elements in -2 .. 2, for u8 in 0 .. 4."""
        count, least = 1, 0 if dtype == "u8" else -2
        for d in shape:
            count *= d
        values = [least + self.random.randrange(5) for _ in range(count)]
        if count <= 64:
            return self.const(name, dtype, shape, [f"{v}.0" if dtype in FLOATS else v for v in values])
        pack = {"f32": "<f", "f64": "<d", "f16": "<e", "i8": "b", "u8": "B", "i32": "<i", "i64": "<q"}
        raw = b"".join(struct.pack("<f", v)[2:] if dtype == "bf16" else struct.pack(pack[dtype], v) for v in values)
        self.lines.append(f'%{name} = Const {{value = {dtype}{dims(shape)} hex("{raw.hex()}")}} : {dtype}{dims(shape)}')
        return name

    def operand(self, name, dtype, shape):
        """An input; or, with probability 1/2 if its size is constant, weights."""
        if all(isinstance(d, int) and d > 0 for d in shape) and self.random.random() < 0.5:
            return self.weights(name, dtype, shape)
        return self.input(name, dtype, shape)

    def node(self, name, op, *operands, results=1, **attributes):
        labels = [name] + [f"{name}_{k}" for k in range(1, results)]
        used = ", ".join("_" if v is None else f"%{v}" for v in operands)
        left, types = ", ".join(f"%{v}" for v in labels), ", ".join("?" * results)
        self.lines.append(f"{left} = {op}({used}){attrs(attributes)} : {types}")
        return name if results == 1 else labels

    def text(self):
        data = "".join(f" {k}={v}" for k, v in self.data.items() if v != "ints")
        lines = [f"; data{data}"] if data else []
        lines += ["; sizes" + "".join(f" {k}={v}" for k, v in sorted(s.items())) for s in self.sizes]
        results = ", ".join(f"%{v}" for v in self.results)
        lines += ["dlir 1", f"graph @main({', '.join(self.inputs)}) -> ({results}) {{", *self.lines, "}", ""]
        return "\n".join(lines)


def runs(g, most, **choices):
    """Sets the sizes of G's symbols: every choice at least once, then random combinations, MOST runs in all."""
    names = list(choices)
    longest = max(len(c) for c in choices.values())
    shuffled = {n: g.random.sample(choices[n], len(choices[n])) for n in names}
    g.sizes = [{n: shuffled[n][i % len(shuffled[n])] for n in names} for i in range(longest)]
    while len(g.sizes) < most:
        g.sizes.append({n: g.random.choice(choices[n]) for n in names})


# ---- Reductions ----

REDUCTIONS = [("ReduceSum", "ints"), ("ReduceMean", "ints"), ("ReduceMax", "ints"), ("ReduceMin", "ints"),
              ("ReduceProd", "signs"), ("ReduceL1", "ints"), ("ReduceL2", "ints"), ("ReduceLogSum", "ints"),
              ("ReduceLogSumExp", "hot"), ("ReduceSumSquare", "ints")]
AXES = ([2], [1], [0], [0, 2], [1, 2], [0, 1, 2])


def row_shapes(g, t, dtype, dynamic, axes, least=0):
    """A shape of rank 3 with a size at an edge, first on a reduced axis, then on another one."""
    rows = [n for n in t.rows(dtype) if n >= least]
    if not dynamic:
        shape = [g.random.choice((1, 2, 3, 5)) for _ in range(3)]
        shape[g.random.choice(axes)] = g.random.choice(rows)
        if len(axes) < 3:
            shape[g.random.choice([a for a in range(3) if a not in axes])] = g.random.choice(rows[:-1])
        return shape
    for n in rows:
        for at in range(3):
            sizes = [2, 3, 2]
            sizes[at] = n
            g.sizes.append(dict(zip("ABC", sizes)))
    return list("ABC")


def reductions(t):
    for (op, data), dtype, dynamic in itertools.product(REDUCTIONS, FLOATS + INTS + BYTES, (True, False)):
        if (dtype in BYTES and op not in ("ReduceMax", "ReduceMin")) or (dtype not in FLOATS and data == "hot"):
            continue
        for axes in AXES:
            g = Graph(f"{op}.{dtype}.{''.join(map(str, axes))}.{'dynamic' if dynamic else 'static'}")
            least = 1 if op in ("ReduceMax", "ReduceMin", "ReduceMean") and dtype not in FLOATS else 0
            x = g.input("x", dtype, row_shapes(g, t, dtype, dynamic, axes, least), data)
            if g.random.random() < 0.2:
                x = g.node("n", "Neg", x) if dtype not in BYTES else x
            a = g.const("a", "i64", [len(axes)], axes)
            y = g.node("y", op, x, a, keepdims=g.random.randrange(2))
            if g.random.random() < 0.2 and dtype not in BYTES:
                y = g.node("z", "Abs", y)
            g.results = [y]
            yield g


def places(t):
    """ArgMax and ArgMin; CumSum and CumProd."""
    for dtype, axis, dynamic in itertools.product(FLOATS + INTS + BYTES, range(3), (True, False)):
        tail = f"{dtype}.{axis}.{'dynamic' if dynamic else 'static'}"
        for op, last in itertools.product(("ArgMax", "ArgMin"), range(2)):
            g = Graph(f"{op}.{last}.{tail}")
            x = g.input("x", dtype, row_shapes(g, t, dtype, dynamic, [axis], 1))
            g.results = [g.node("y", op, x, axis=axis, keepdims=g.random.randrange(2), select_last_index=last)]
            yield g
        for op, exclusive, reverse in itertools.product(("CumSum", "CumProd"), range(2), range(2)):
            if dtype in BYTES:
                continue
            g = Graph(f"{op}.{exclusive}{reverse}.{tail}")
            x = g.input("x", dtype, row_shapes(g, t, dtype, dynamic, [axis]), "signs" if op == "CumProd" else "ints")
            a = g.const("a", "i64", [], [axis])
            g.results = [g.node("y", op, x, a, exclusive=exclusive, reverse=reverse)]
            yield g


def norms(t):
    for dtype, dynamic in itertools.product(FLOATS, (True, False)):
        tail = f"{dtype}.{'dynamic' if dynamic else 'static'}"
        for op, axis in itertools.product(("Softmax", "LogSoftmax", "Hardmax"), range(3)):
            g = Graph(f"{op}.{axis}.{tail}")
            x = g.input("x", dtype, row_shapes(g, t, dtype, dynamic, [axis], 1), "hot")
            g.results = [g.node("y", op, x, axis=axis)]
            yield g
        for op, p in itertools.product(("LpNormalization", "RMSNormalization", "LayerNormalization",
                                        "MeanVarianceNormalization", "InstanceNormalization", "GroupNormalization", "LRN"), (1, 2)):
            g = Graph(f"{op}.{p}.{tail}")
            shape = row_shapes(g, t, dtype, dynamic, [2], 1)
            x = g.input("x", dtype, shape, "ints" if op[0] in "LR" and op != "LayerNormalization" else "pairs")
            if op == "LpNormalization":
                y = g.node("y", op, x, axis=2, p=p)
            elif op == "LRN":
                y = g.node("y", op, x, size=2 * p + 1)
            elif op == "MeanVarianceNormalization":
                y = g.node("y", op, x, axes=[2] if p == 1 else [0, 2])
            elif op in ("InstanceNormalization", "GroupNormalization"):
                s, b = g.input("s", dtype, [shape[1]]), g.input("b", dtype, [shape[1]])
                y = g.node("y", op, x, s, b, num_groups=1 if op[0] == "G" else None)
            else:
                more = [g.input("s", dtype, shape[-p:])]
                if op[0] == "L":
                    more.append(g.input("b", dtype, shape[-p:]))
                y = g.node("y", op, x, *more, axis=3 - p)
            g.results = [y]
            yield g


def long_rows(t):
    """Few rows with so many terms that a GPU splits each over several blocks; the last part may be shorter."""
    places = [(op, "ints") for op in ("ArgMax", "ArgMin")]
    for (op, data), dtype, i in itertools.product(REDUCTIONS + places, ("f32", "f16", "i64"), range(4)):
        if dtype == "i64" and data == "hot":
            continue
        g = Graph(f"long.{op}.{dtype}.{i}")
        n, rows, axis = g.random.choice((4096, 8192, 10007, 50000)), g.random.choice((1, 3, 8)), g.random.choice((1, 1, 2))
        shape = [rows, n, 1] if axis == 1 and g.random.random() < 0.5 else [rows, n, 5] if axis == 1 else [1, rows, n]
        if i == 3:
            g.sizes = [{"N": size} for size in (*[0] * (op == "ReduceSum"), 1, 4095, n)]
            shape = ["N" if d == n else d for d in shape]
        x = g.input("x", dtype, shape, data)
        more = [] if (op, data) in places else [g.const("a", "i64", [1], [axis])]
        y = g.node("y", op, x, *more, **({} if more else {"axis": axis, "select_last_index": i % 2}))
        g.results = [g.node("z", "Neg", y)]
        yield g
    for op, dtype, i in itertools.product(("Softmax", "LogSoftmax"), ("f32", "f16"), range(4)):
        g = Graph(f"long.{op}.{dtype}.{i}")
        x = g.input("x", dtype, [g.random.choice((1, 2, 7)), g.random.choice((20000, 33333, 50257))], "hot")
        g.results = [g.node("y", op, x)]
        yield g


def transposes(t):
    """Tiles of a cache line by some lines, in squares of a vector's elements: sizes around both, of elements of every size."""
    for dtype, i in itertools.product(("f32", "f64", "f16", "i8", "i64", "bool", "u16"), range(6)):
        g = Graph(f"Transpose.{dtype}.{i}")
        perm = g.random.choice(([1, 0], [0, 2, 1], [2, 0, 1], [1, 2, 0], [2, 1, 0], [0, 2, 3, 1]))
        sizes = [0, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130, 257, 300]
        shape = [g.random.choice((1, 2, 3, 9)) if d + 2 < len(perm) else g.random.choice(sizes[1:]) for d in range(len(perm))]
        if i % 2:
            names = "MN"
            shape[-2:] = names
            runs(g, 30, **{name: sizes for name in names})
        x = g.input("x", dtype, shape)
        y = g.node("y", "Transpose", x, perm=perm)
        g.results = [y if dtype in ("bool", "u16") or i % 3 else g.node("z", "Neg", y)]
        yield g


# ---- Contractions ----

EINSUMS = ("ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bij,jk->bik", "bhij,bhkj->bhik", "bihj,bkhj->bhik", "i,j->ij", "ij,ij->",
           "ijk,jk->i", "ij->ji", "ii->i", "ij->j", "ab,bc,cd->ad", "...ij,jk->...ik")
# name: shapes of the operands
MATMULS = {"plain": ("MK", "KN"), "batch": ("GMK", "GKN"), "shared": ("GMK", "KN"), "broadcast": ("G1MK", "HKN"),
           "left": ("MK", "GKN"), "row": ("K", "KN"), "column": ("MK", "K"), "dot": ("K", "K")}


def letters(shape, of):
    return [of.get(c, c) if c != "1" else 1 for c in shape]


def contraction_sizes(g, t, dtype, dynamic, extra=()):
    """Sizes for M, K and N, and small ones for the letters of EXTRA: {letter: number}; empty if they are symbols, with runs."""
    around, depths = t.around(dtype), t.depths(dtype)
    if dynamic:
        runs(g, 40, M=around, N=around, K=depths, **{c: [0, 1, 2, 3] for c in extra})
        return {}
    return {"M": g.random.choice(around), "N": g.random.choice(around), "K": g.random.choice(depths),
            **{c: g.random.choice((1, 2, 3)) for c in extra}}


def epilogue(g, y, dtype, columns):
    """Adds a bias and a Relu, each with probability 0.4."""
    if g.random.random() < 0.4:
        y = g.node("sum", "Add", y, g.input("bias", dtype, [columns]))
    if g.random.random() < 0.4:
        y = g.node("relu", "Relu", y)
    g.results = [y]


def products(t):
    for dtype, (form, shapes) in itertools.product(FLOATS + INTS, MATMULS.items()):
        for i in range(9 if form == "plain" else 4):
            g = Graph(f"MatMul.{form}.{dtype}.{i or 'dynamic'}")
            of = contraction_sizes(g, t, dtype, i == 0, "GH")
            if i in (1, 2):
                of.update(zip("MK"[:i], "MK"))  # some sizes are constant, some are symbols
                runs(g, 20, M=t.around(dtype), **({"K": t.depths(dtype)} if i == 2 else {}))
            a, b = g.operand("a", dtype, letters(shapes[0], of)), g.operand("b", dtype, letters(shapes[1], of))
            epilogue(g, g.node("y", "MatMul", a, b), dtype, of.get("N", "N") if "N" in shapes[1] else 1)
            yield g
    for dtypes, turned, i in itertools.product(itertools.product(("i8", "u8"), repeat=2), range(4), range(2)):
        g = Graph(f"Widened.{'.'.join(dtypes)}.{turned}.{i or 'dynamic'}")
        of = contraction_sizes(g, t, "i32", i == 0)
        sides = []
        for j, (dtype, shape) in enumerate(zip(dtypes, ("MK", "KN"))):
            turn = turned >> j & 1
            x = g.node(f"wide{j}", "Cast", g.operand(f"x{j}", dtype, letters(shape[::-1] if turn else shape, of)), to=CODES["i32"])
            sides.append(g.node(f"turned{j}", "Transpose", x, perm=[1, 0]) if turn else x)
        epilogue(g, g.node("y", "MatMul", *sides), "i32", of.get("N", "N"))
        yield g
    for dtype, i in itertools.product(FLOATS, range(6)):
        g = Graph(f"MatMul.deep.{dtype}.{i}")  # few tiles with long sums
        m, n, k = g.random.choice((9, 16, 33, 77)), g.random.choice((40, 64, 100)), g.random.choice((768, 1024, 1600, 3072))
        if i == 5:
            g.sizes = [{"M": m} for m in (1, 9, 40)]
        a, b = g.operand("a", dtype, ["M" if i == 5 else m, k]), g.operand("b", dtype, [k, n])
        epilogue(g, g.node("y", "MatMul", a, b), dtype, n)
        yield g
    for dtype, ta, tb, i in itertools.product(FLOATS + INTS, range(2), range(2), range(3)):
        g = Graph(f"Gemm.{dtype}.{ta}{tb}.{i or 'dynamic'}")
        of = contraction_sizes(g, t, dtype, i == 0)
        c = letters(g.random.choice(("MN", "N", "M1", "1", "11")), of)
        operands = [g.operand("a", dtype, letters("KM" if ta else "MK", of)), g.operand("b", dtype, letters("NK" if tb else "KN", of)),
                    g.operand("c", dtype, c)]
        y = g.node("y", "Gemm", *operands, transA=ta, transB=tb, alpha=g.random.choice((1.0, 2.0)), beta=g.random.choice((1.0, 3.0)))
        g.results = [y]
        yield g
    for dtype, (k, equation), i in itertools.product(FLOATS + INTS, enumerate(EINSUMS), range(2)):
        g = Graph(f"Einsum.{dtype}.{k}.{i or 'dynamic'}")
        terms = [list(term.replace("...", "u")) for term in equation.split("->")[0].split(",")]
        names = sorted({c for term in terms for c in term})
        edge = g.random.choice(names)
        values = {c: t.around(dtype) if c == edge else [1, 2, 3, t.block["f32"][0] + 1] for c in names}
        of = {c: c.upper() for c in names}
        if i == 0:
            runs(g, 30, **{c.upper(): v for c, v in values.items()})
        else:
            of = {c: g.random.choice(v) for c, v in values.items()}
        operands = [g.operand(f"x{j}", dtype, [of[c] for c in term]) for j, term in enumerate(terms)]
        g.results = [g.node("y", "Einsum", *operands, equation=equation)]
        yield g


def masked(g, x, mask):
    """X where the row sees the key, else 0: keys from NEAR before the row to FAR after it, or those of a mask. Or X + a mask, limited."""
    if mask[0] == "blocks":
        return g.node(f"{x}_seen", "Where", "mask", x, "zero")
    if mask[0] == "added":
        return g.node(f"{x}_seen", "Add", x, "mask") if x == "scores" else g.node(f"{x}_seen", "Max", x, "least")
    form, near, far = mask
    if form == "window":
        x = g.node(f"{x}_near", "Trilu", x, g.const(f"{x}_from", "i64", [], [-near]), upper=1)
    return g.node(f"{x}_far", "Trilu", x, g.const(f"{x}_to", "i64", [], [far]), upper=0)


def attentions(t):
    """Two products, and between them a mask and the maximum of each row: keys are hidden from all rows of a tile, some rows see none,
    and what is hidden may be infinite, NaN or larger than the mask. The weights are integers, so sums are exact."""
    depth = t.number["depth"]
    forms = ("causal", "window", "blocks"), ("", "k", "v")
    added = ("added",), ("", "q", "k", "v", "huge")
    for dtype, (form, where), i in itertools.product(("f32", "f64"), (*itertools.product(*forms), *itertools.product(*added)), range(4)):
        if form in ("blocks", "added") and i == 0:
            continue
        g = Graph(f"Attention.{form}.{dtype}.{where or 'finite'}.{i or 'dynamic'}")
        rows, keys = [n for n in t.around(dtype) if n], [n for n in t.around(dtype) if n > 3] + [100, 200, depth - 1, depth, depth + 1]
        s, n = ("S", "T") if i == 0 else (g.random.choice([5, 31, 32, 40, 100]), g.random.choice(keys[len(keys) // 2:]))
        if form == "added":  # bounds are looked for if there are many rows
            s, n = g.random.choice((32, 40, 100)), g.random.choice((100, 128, depth + 1))
        k, d = g.random.choice((13, 24, 33)), g.random.choice([n for n in rows if n > 8])
        if i == 0:
            runs(g, 20, S=[*rows, 40, 100, 200], T=keys + [2 * depth + 77])
        x = {name: g.input(name, dtype, [2, *shape], "spots" if name == where else "ints")
             for name, shape in (("q", [s, k]), ("k", [k, n]), ("v", [n, d]))}
        mask = (form, g.random.choice((0, 5, 40)), g.random.choice((-3, 0, 0, 100)))
        if form == "blocks":
            g.const("mask", "bool", [s, n], [int((row // 40 + key // 70) % 3 == 0 and key % 5 < 4) for row in range(s) for key in range(n)])
            g.const("zero", dtype, [], ["0.0"])
        if form == "added":
            hides = g.random.choice(("-inf", "-3.4028235e+38", "-8.507059e+37"))
            values = hides, "0.0", g.random.choice((hides, hides, "-100.0", "-8.507058e+37"))
            g.const("mask", dtype, [s, n], [values[(row // 14 + key // 70) % 3] for row in range(s) for key in range(n)])
            g.const("least", dtype, [], ["-128.0"])
        if where == "huge":
            x["k"] = g.node("large", "Mul", x["k"], g.const("factor", dtype, [], [repr(2.0 ** g.random.choice((40, 98, 106, 108)))]))
        scores = g.node("scores", "MatMul", x["q"], x["k"])
        seen = masked(g, scores, mask)
        most = g.node("most", "ReduceMax", seen, g.const("last", "i64", [1], [-1]))
        weights = masked(g, g.node("less", "Sub", seen if form == "added" else scores, most), mask)
        g.results = [g.node("y", "MatMul", weights, x["v"])]
        yield g


def window(g, rank, transposed=False):
    """Random kernel, strides, dilations and pads, and the least size of an image that they fit."""
    r = g.random
    kernel = [r.choice((1, 2, 3, 3, 5, 7)) for _ in range(rank)] if r.random() < 0.4 else [r.choice((1, 3, 3, 7))] * rank
    if rank == 3:
        kernel = [min(k, 3) for k in kernel]
    strides = [r.choice((1, 1, 2, 3)) for _ in range(rank)]
    dilations = [r.choice((1, 1, 1, 2)) for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    pads = [r.randrange(0, e) if r.random() < 0.6 else 0 for e in reach * 2]
    least = [max(1, 1 if transposed else e - pads[i] - pads[i + rank]) for i, e in enumerate(reach)]
    return kernel, strides, dilations, pads, least


def image(g, t, rank, least, channels):
    """A shape whose batch and spatial dims are constants or symbols; symbols get the sizes of several runs."""
    most = {1: 70, 2: 20, 3: 8}[rank]
    pick = lambda i: g.random.choice([n for n in (least[i], least[i] + 1, 7, 8, 13, t.block["f32"][3] + 1, most) if n >= least[i]])
    shape = [g.random.choice((1, 2, "N")), channels] + [pick(i) for i in range(rank)]
    if g.random.random() < 0.4:
        shape[2:] = list("DHW")[-rank:]
    names = [d for d in shape if isinstance(d, str)]
    for i in range(6 if names else 0):
        g.sizes.append({n: i % 4 if n == "N" else pick("DHW"[-rank:].index(n)) for n in names})
    return shape


def convolutions(t):
    counts = {"f32": 16, "f64": 4, "f16": 4, "bf16": 4}
    for dtype, rank, kind in itertools.product(FLOATS, (1, 2, 3), ("dense", "pointwise", "grouped", "depthwise")):
        columns = [n for n in t.around(dtype) if n]
        for i in range(counts[dtype]):
            g = Graph(f"Conv.{kind}.{rank}.{dtype}.{i}")
            kernel, strides, dilations, pads, least = window(g, rank)
            if kind == "pointwise":
                kernel, dilations, pads, least = [1] * rank, [1] * rank, [0] * 2 * rank, [1] * rank
            group = {"grouped": g.random.choice((2, 3)), "depthwise": g.random.choice(columns[:8])}.get(kind, 1)
            inner = 1 if kind == "depthwise" else g.random.choice((1, 2, 3, 5, columns[-2]))
            outer = g.random.choice((1, 1, 2)) if kind == "depthwise" else g.random.choice(columns)
            x = g.input("x", dtype, image(g, t, rank, least, group * inner))
            operands = [x, g.operand("w", dtype, [group * outer, inner] + kernel)]
            if g.random.random() < 0.5:
                operands.append(g.operand("b", dtype, [group * outer]))
            auto = g.random.choice((None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID" if not any(pads) else None))
            y = g.node("y", "Conv", *operands, group=group, strides=strides, dilations=dilations, pads=None if auto else pads, auto_pad=auto)
            g.results = [g.node("relu", "Relu", y) if g.random.random() < 0.3 else y]
            yield g
        for i in range(counts[dtype] // 2):
            g = Graph(f"ConvTranspose.{kind}.{rank}.{dtype}.{i}")
            kernel, strides, dilations, pads, least = window(g, rank, True)
            pads = [min(p, (k - 1) * d // 2) for p, k, d in zip(pads, kernel * 2, dilations * 2)]
            group = {"grouped": 2, "depthwise": g.random.choice(columns[:6])}.get(kind, 1)
            inner = 1 if kind == "depthwise" else g.random.choice((1, 2, 3, columns[-2]))
            outer = 1 if kind == "depthwise" else g.random.choice(columns)
            x = g.input("x", dtype, image(g, t, rank, least, group * inner))
            extra = [g.random.randrange(s) for s in strides] if g.random.random() < 0.3 else None
            y = g.node("y", "ConvTranspose", x, g.operand("w", dtype, [group * inner, outer] + kernel), group=group,
                       strides=strides, dilations=dilations, pads=pads, output_padding=extra)
            g.results = [y]
            yield g


def weighted(g, name, x, dtype, outer, inner, group=1, kernel=(1, 1), **attributes):
    """A convolution whose filter is a constant."""
    return g.node(name, "Conv", x, g.weights(f"{name}_w", dtype, [group * outer, inner, *kernel]), group=group, **attributes)


def tiles(t):
    """Convolutions of 3x3 with enough channels for Winograd's tiles, on images that end anywhere in a tile."""
    for kind, i in itertools.product(("dynamic", "static"), range(4)):
        g = Graph(f"Winograd.{kind}.{i}")
        channels, out = 32 + g.random.choice((0, 1, 16)), 32 + g.random.choice((0, 3, 32))
        rows, pads = g.random.choice((20, 21, 23)), [0, 0, 0, 0] if i == 1 else [1, 1, 1, 1]
        shape = [g.random.choice((1, 2)), 5, rows, g.random.choice((20, 21, 22))]
        if kind == "dynamic":
            shape = ["B", 5, "H", "W"]
            runs(g, 16, B=[1, 2], H=[n for n in range(1, 14) if i != 1 or n > 2], W=[n for n in range(1, 14) if i != 1 or n > 2])
        x = weighted(g, "first", g.input("x", "f32", shape), "f32", channels, 5)
        y = weighted(g, "conv", x, "f32", out, channels, kernel=(3, 3), pads=pads)
        if i == 2:
            y = g.node("sum", "Add", y, weighted(g, "side", x, "f32", out, channels))
        if i > 0:
            y = g.node("relu", "Relu", y)
        g.results = [weighted(g, "last", y, "f32", 3, out)]
        yield g


def middles(t):
    """Operators between two convolutions, where `layout` chooses the order of tensors: windows, products, sums and moves."""
    channels, slide, side = (t.number[n] for n in ("channels", "slide", "side"))
    kinds = ("depthwise", "depthwise", "dense", "grouped", "narrow", "transposed", "MaxPool", "residual", "squeeze", "concat", "slice", "transpose", "pad")
    for dtype, kind in itertools.product(FLOATS, kinds):
        for i in range((18 if kind in ("grouped", "narrow") else 6) if dtype == "f32" else 1):
            g = Graph(f"Middle.{kind}.{dtype}.{i}")
            c = g.random.choice([n for n in t.around(dtype) if n >= 8] + [channels - 1, channels, channels + 1, 2 * channels + 1])
            group = g.random.choice((2, 2, 3, 5)) if kind == "grouped" else 1
            if kind == "grouped":
                c = group * g.random.choice([n for n in t.around(dtype) if 0 < n < 50] + [4, 5, 6, 12])
            if kind == "narrow":   # vectors across groups, where their channels are whole vectors
                group, each = g.random.choice((2, 3, 4, 8, 12)), g.random.choice((4, 8))
                c = group * each
            kernel, strides, dilations, pads, least = window(g, 2, kind == "transposed")
            least = [max(n, k) for n, k in zip(least, kernel)] if kind == "MaxPool" else least
            if kind == "transposed":
                c, pads = g.random.choice((8, 12, 16, 17)), [min(p, (k - 1) * d // 2) for p, k, d in zip(pads, kernel * 2, dilations * 2)] if i % 2 else None
            out = group * g.random.choice((1, 3, 4, 8, 12, 17)) if kind == "grouped" and i % 3 == 2 else c
            if kind == "depthwise" and i % 3 == 2:   # some columns have no tap inside of the image
                pads, least = [(k - 1) * d + g.random.randrange(3) for k, d in zip(kernel * 2, dilations * 2)], [1, 1]
            if kind == "depthwise" and i % 2:
                far = g.random.randrange(2)   # taps are further apart than the windows that are computed at once
                kernel[far], dilations[far], pads[far], pads[far + 2] = 3, slide + 8, slide + 8, slide + 8
                least[far] = 1
            wide = [n for n in (1, 3, side - 1, side, side + 1, 2 * side + 3, slide - 1, slide, slide + 1) if n >= least[1]] or [least[1]]
            shape = [g.random.choice((1, 2, "N")), 3, least[0] + g.random.randrange(4), g.random.choice(wide)]
            if g.random.random() < 0.4:
                shape[3] = "W"
            if "N" in shape or "W" in shape:
                g.sizes = [{k: v for k, v in (("N", n % 3), ("W", w)) if k in shape} for n, w in enumerate(wide, 1)]
            a = weighted(g, "a", g.input("x", dtype, shape), dtype, c, 3)
            a = g.node("relu", "Relu", a) if g.random.random() < 0.5 else a
            slides = {"strides": strides, "dilations": dilations, "pads": pads}
            if kind == "depthwise":
                m = weighted(g, "m", a, dtype, 1, 1, c, kernel, **slides)
            elif kind == "transposed":
                m = g.node("m", "ConvTranspose", a, g.weights("m_w", dtype, [c, c, *kernel]), **slides)
            elif kind in ("dense", "grouped", "narrow"):
                m = weighted(g, "m", a, dtype, out // group, c // group, group, kernel, **slides)
            elif kind == "MaxPool":
                m = g.node("m", kind, a, kernel_shape=kernel, pads=[(k - 1) // 2 for k in kernel] * 2, strides=strides)
            elif kind == "residual":
                m = g.node("m", "Add", a, weighted(g, "r", a, dtype, c, c))
            elif kind == "squeeze":
                m = g.node("m", "Mul", a, weighted(g, "r", g.node("p", "GlobalMaxPool", a), dtype, c, c))
            elif kind == "concat":
                m = g.node("m", "Concat", a, weighted(g, "r", a, dtype, c, c), a, axis=1)
            elif kind == "slice":
                starts, ends, axes = (g.const(n, "i64", [1], [v]) for n, v in (("starts", 1), ("ends", c - 1), ("axes", 1)))
                m = g.node("m", "Slice", a, starts, ends, axes)
            elif kind == "transpose":
                m = g.node("m", "Transpose", g.node("n", "Neg", g.node("t", "Transpose", a, perm=[0, 3, 2, 1])), perm=[0, 3, 2, 1])
            else:
                m = g.node("m", "Pad", a, g.const("pads", "i64", [8], [0, 0, 1, 2, 0, 0, 0, 1]))
            inner = {"concat": 3 * c, "slice": c - 2}.get(kind, out)
            g.results = [g.node("y", "Neg", weighted(g, "last", g.node("s", "Relu", m), dtype, g.random.choice((1, 5, 9)), inner))]
            yield g


def pools(t):
    for dtype, rank in itertools.product(FLOATS + BYTES, (1, 2, 3)):
        for op, i in itertools.product(("MaxPool", "AveragePool", "LpPool"), range(8 if dtype == "f32" else 3)):
            if dtype in BYTES and op != "MaxPool":
                continue
            g = Graph(f"{op}.{rank}.{dtype}.{i}")
            kernel, strides, dilations, pads, least = window(g, rank)
            pads = [min(p, k - 1) for p, k in zip(pads, kernel * 2)]
            least = [max(1, (k - 1) * d + 1 - pads[j] - pads[j + rank]) for j, (k, d) in enumerate(zip(kernel, dilations))]
            x = g.input("x", dtype, image(g, t, rank, least, g.random.choice((1, 2, 3, 9))))
            results = 2 if op == "MaxPool" and g.random.random() < 0.4 else 1
            more = {"AveragePool": {"count_include_pad": g.random.randrange(2)}, "LpPool": {"p": g.random.choice((1, 2))}}.get(op, {})
            y = g.node("y", op, x, results=results, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads,
                       ceil_mode=g.random.randrange(2), **more)
            g.results = y if results == 2 else [y]
            yield g
        for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool") if dtype in FLOATS else ():
            g = Graph(f"{op}.{rank}.{dtype}")
            g.results = [g.node("y", op, g.input("x", dtype, image(g, t, rank, [1] * rank, 9)))]
            yield g


# ---- Elementwise ----

def in_groups(items, n):
    return [items[i:i + n] for i in range(0, len(items), n)]


POINTWISE = ("Mod", "BitShift", "Clip", "Shrink", "Mean")  # more than an expression, yet each element by itself


def elementwise(t):
    """Several operators in each graph, on the same one, two or three operands: all special values, pairs of them, and random bits."""
    rows = [row for row in t.ops if row[1] == "elementwise" or row[0] in POINTWISE] + [
        ("Pow", "other", 2, 2, "f"), ("Where", "other", 3, 3, "fiub")]
    for kind, (dtypes, operands) in itertools.product("fiub", ((GROUP, 1), (GROUP, 2), (GROUP, 3))):
        names = [op for op, _, least, most, types in rows if kind in types and least <= operands <= (99 if most < 0 else most) and
                 not (operands == 3 and op not in ("Where", "Clip", "Max", "Sum")) and not (operands == 2 and op in ("Clip",)) and
                 not (operands == 1 and op in ("Max", "Min", "Sum", "Mean"))]
        for dtype, (i, ops) in itertools.product(dtypes[kind], enumerate(in_groups(names, 8))):
            g = Graph(f"elementwise.{operands}.{dtype}.{i}")
            if operands == 1:
                values = [g.input("x", dtype, ["N"], "special")]
                g.sizes = [{"N": n} for n in t.around(dtype if kind == "f" else "i32") + [1000]]
            else:
                values = [g.input("x", dtype, ["M", 1], "special"), g.input("y", dtype, [1, "N"], "special")]
                g.sizes = [{"M": n, "N": n} for n in (1, 3, 70)]
            for op in ops:
                mod = {"fmod": 1} if op == "Mod" and kind == "f" else {"direction": g.random.choice(("LEFT", "RIGHT"))} if op == "BitShift" else {}
                more = list(values)
                if op == "Where":
                    more.insert(0, g.node("less", "Not" if kind == "b" else "IsNaN" if kind == "f" else "Cast", values[0],
                                          **({"to": 9} if kind in "iu" else {})))
                elif operands == 3 and op == "Clip":
                    more = [values[0], g.const("low", dtype, [], ["-1.0" if kind == "f" else 1]), g.const("high", dtype, [], ["2.5" if kind == "f" else 3])]
                elif operands == 3:
                    more.append(values[0])
                elif op == "PRelu":
                    more[0] = g.input("wide", dtype, ["M", "N"], "special")
                g.results.append(g.node(op, op, *more, **mod))
            yield g


CASTS = FLOATS + GROUP["i"] + GROUP["u"] + ("bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "u4", "i4", "f4e2m1")
CODES = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13,
         "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20, "u4": 21, "i4": 22, "f4e2m1": 23, "f8e8m0": 24}


def casts(t):
    for dtype, (i, to) in itertools.product(CASTS, enumerate(in_groups(CASTS, 6))):
        g = Graph(f"Cast.{dtype}.{i}")
        x = g.input("x", dtype, ["N"], "special")
        g.sizes = [{"N": n} for n in (0, 1, 3, t.block["f32"][3] + 1, 333)]
        g.results = [g.node(f"to_{u}", "Cast", x, to=CODES[u]) for u in to]
        yield g


def quantised(t):
    """Special values become bytes: all are limited, and NaN is the zero point."""
    for dtype, most in (("u8", 255), ("i8", 127)):
        g = Graph(f"QuantizeLinear.{dtype}")
        x, scale = g.input("x", "f32", ["N"], "special"), g.const("scale", "f32", [], [0.5])
        g.sizes = [{"N": n} for n in (0, 1, 15, 16, 17, 333)]
        g.results = [g.node(f"q_{z}", "QuantizeLinear", x, scale, g.const(f"z_{z}", dtype, [], [z])) for z in (0, 3, most)]
        yield g


def spots(t):
    """Infinities and NaN must affect the results that read them and no others: neither through padding, nor through adjacent
    images, rows and points."""
    for g in itertools.chain.from_iterable(family(t) for family in (products, convolutions, middles, pools)):
        first = next(iter(g.data), None)
        if ".f32." in g.name and g.data.get(first) == "ints":
            g.name, g.data[first] = f"spots.{g.name}", "spots"
            yield g


FAMILIES = (reductions, places, norms, long_rows, transposes, products, attentions, convolutions, tiles, middles, pools, spots, elementwise, casts, quantised)


def write(program, target, folder, chosen=lambda name: True):
    """Writes the chosen cases for TARGET to FOLDER; returns {path: name}."""
    tables, written = Tables(program, target), {}
    for g in itertools.chain.from_iterable(family(tables) for family in FAMILIES):
        if g.results and chosen(g.name):
            path = os.path.join(folder, f"{g.name}.dl")
            with open(path, "w") as f:
                f.write(g.text())
            written[path] = g.name
    return written


if __name__ == "__main__":
    os.makedirs(sys.argv[3], exist_ok=True)
    like = sys.argv[4] if len(sys.argv) > 4 else "*"
    print("\n".join(write(sys.argv[1], sys.argv[2], sys.argv[3], lambda name: fnmatch.fnmatch(name, like))))

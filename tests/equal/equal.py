# SPDX-License-Identifier: Apache-2.0
"""Equal rows by equal columns have equal results, bit by bit: equal.py BUILD FOLDER [SEED] [TARGET ...].

A sum of floats has another rounding error in another order. So a model is run on operands whose rows are all equal, and then on ones whose
columns are, with random terms along the sums: results that differ have sums of different orders, such as those of the last columns of a
product, which fill no tile. Operators are products of all forms, convolutions, attention, recurrent networks, norms, reductions and functions,
at sizes around those of tiles. Each model is compiled for each target by one of the ways WAYS (TESTS=all: by all of them), and, without
TESTS=all, is run on one of the two kinds of operands. Prints "N passed, N failed, N skipped".
"""

import itertools
import os
import random
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "cpus")]
import samples
from targets import ARM, Cpu, cpus, print_lack, save

BUILD, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
SEED, NAMED = int((sys.argv[3:] or [1])[0]), sys.argv[4:]
ALL = os.environ.get("TESTS") == "all"
ROWS, COLUMNS = "rows", "columns"  # which of the operands' are equal
# compiler, level of -O, threads
CLANG = samples.CLANG or "gcc"
WAYS = ((CLANG, "-O2", 1), ("gcc", "-O0", 3), ("gcc", "-O3", 1), (CLANG, "-O0", 3), (CLANG, "-O3", 3), ("gcc", "-O2", 2))
ANY = (1, 2, 3, 5, 6, 7, 8, 9, 10, 13, 15, 17, 19, 31, 33, 49, 65, 66, 130)  # rows, columns


def equal_along(rng, shape, axes):
    """Random numbers that do not depend on the indices of AXES."""
    one = [1 if a in axes else n for a, n in enumerate(shape)]
    return np.broadcast_to(rng.standard_normal(one) * 2.0 ** rng.integers(-3, 4, one), shape).astype(np.float32)


class Operand:
    """An array of SHAPE, whose dims are numbers or names; with equal rows it does not depend on the indices of axes ROWS, with equal columns of
    COLUMNS. FILL(rng, kind, shape) makes it otherwise."""

    def __init__(self, shape, rows=(), columns=(), fill=None):
        self.shape, self.axes, self.fill = list(shape), {ROWS: rows, COLUMNS: columns}, fill

    def array(self, rng, kind, sizes):
        shape = [sizes.get(d, d) for d in self.shape]
        return self.fill(rng, kind, shape) if self.fill else equal_along(rng, shape, self.axes[kind])


class Model:
    """Independent graphs, each with inputs, constants and one output."""

    def __init__(self, name, sizes=({},), options=(), kinds=(ROWS, COLUMNS), targets=("",)):
        self.name, self.sizes, self.options, self.kinds, self.targets = name, sizes, list(options), kinds, targets
        self.ops = []

    def add(self, what, nodes, inputs, constants, same):
        """A graph whose NODES are (type, inputs, attributes); the last one's result is y. SAME: by kind, the axes along which the result is equal,
        or a function of its shape that gives classes of equal elements along axes, as (axes, array of classes) or null."""
        self.ops.append((what, nodes, inputs, constants, same))
        return self

    def proto(self, rng, kind):
        nodes, inputs, outputs, constants = [], [], [], []
        for i, (_, of, ins, const, _) in enumerate(self.ops):
            names = {name: f"{name}{i}" for name in [*ins, *const]}
            for j, (op, operands, attributes) in enumerate(of):
                attributes = dict(attributes)
                n = helper.make_node(op, [names.get(o, f"{o}_{i}" if o else "") for o in operands], [f"y{i}" if j == len(of) - 1 else f"t{j}_{i}"],
                                     name=f"{op}_{i}_{j}", domain=attributes.pop("domain", ""), **attributes)
                nodes.append(n)
            inputs += [helper.make_tensor_value_info(names[name], TensorProto.FLOAT, [f"{d}{i}" if isinstance(d, str) else d for d in o.shape])
                       for name, o in ins.items()]
            constants += [numpy_helper.from_array(o.array(rng, kind, {}) if isinstance(o, Operand) else o, names[name]) for name, o in const.items()]
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None))
        graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)], ir_version=8)

    def case(self, rng, kind, sizes):
        return [o.array(rng, kind, sizes) for op in self.ops for o in op[2].values()]

    def faults(self, kind, sizes, results):
        """What is wrong with RESULTS."""
        for (what, _, _, _, same), y in zip(self.ops, results):
            axes, classes = same[kind] if not callable(same[kind]) else same[kind](y.shape)
            if classes is None:
                classes = np.zeros(y.shape, np.int64)
            # the elements of each combination of the other axes' indices and of a class are equal
            rest = [a for a in range(y.ndim) if a not in axes]
            bits = np.ascontiguousarray(np.transpose(y, rest + list(axes))).view(np.uint32).reshape(-1, int(np.prod([y.shape[a] for a in axes], dtype=int)))
            classes = np.transpose(np.broadcast_to(classes, y.shape), rest + list(axes)).reshape(bits.shape)[:1]
            wrong = [c for c in np.unique(classes) if len(bits) and (bits[:, classes[0] == c] != bits[:, classes[0] == c][:, :1]).any()]
            if wrong:
                c = wrong[0]
                of = bits[:, classes[0] == c]
                odd = sorted(set(np.argwhere(of != of[:, :1])[:, 1].tolist()))
                yield f"{what}, {kind} equal, sizes {sizes}: {len(odd)} of {of.shape[1]} differ from the first one, the first of these is {odd[0]}"


def both(rows, columns):
    return {ROWS: (rows, None), COLUMNS: (columns, None)}


# ---- Products ----


def lost_bits(node):
    """NODE's product of f32 operands in f64, and as the result what a conversion to f32 loses."""
    op, operands, attributes = node
    casts = [("Cast", [o], {"to": TensorProto.DOUBLE}) for o in operands]
    return [*casts, (op, [f"t{i}" for i in range(len(operands))], attributes), ("Cast", [f"t{len(casts)}"], {"to": TensorProto.FLOAT}),
            ("Cast", [f"t{len(casts) + 1}"], {"to": TensorProto.DOUBLE}), ("Sub", [f"t{len(casts)}", f"t{len(casts) + 2}"], {}),
            ("Cast", [f"t{len(casts) + 3}"], {"to": TensorProto.FLOAT})]


def matmul(model, m, k, n, constant=True):
    a, b = Operand([m, k], rows=(0,)), Operand([k, n], columns=(1,))
    return model.add(f"MatMul {m}x{k}x{n}", [("MatMul", ["a", "b"], {})], {"a": a, **({} if constant else {"b": b})}, {"b": b} if constant else {},
                     both((0,), (1,)))


def products(pick):
    """Products of constants: of any number of rows, of known ones, and with the weights in every form."""
    terms = lambda: pick.choice((19, 40, 64, 100, 257, 600, 1100))
    sizes = [{"M": m} for m in (ANY if ALL else sorted({1, 2, 3, *pick.sample(ANY, 6)}))]
    columns = [8, 16, 40, *pick.sample(ANY, 4)]
    some = Model("any_rows", sizes)
    for n in columns:
        matmul(some, "M", terms(), n)
    matmul(some, "M", 2500, 72)  # parts of a sum
    yield some
    known = Model("known_rows")
    for m in (1, 2, *pick.sample(ANY, 7)):
        matmul(known, m, terms(), pick.choice(columns))
    yield known
    for options in (["--weights-as=f16"], ["--weights-as=bf16"], ["--weights-as=i8"], ["--weights-as=i4"], ["--weights-as=i4", "--activations-as=i8"], ["--weights-as=bf16", "--activations-as=bf16"]):
        narrow = Model("any_rows" + "".join(o.replace("-", "_") for o in options), sizes, options)
        for k, n in ((64, 40), (608, pick.choice((17, 72, 100))), (1152, 8)):
            matmul(narrow, "M", k, n)
        yield narrow


def forms(pick):
    """Products in other forms: of two inputs, in batches, transposed, in f64, of bytes."""
    sizes = [{"M": m, "K": pick.choice((19, 64, 300)), "N": n, "G": pick.choice((1, 3))} for m, n in
             (*((pick.choice(ANY), pick.choice(ANY)) for _ in range(12 if ALL else 4)), (1, 17), (2, 40))]
    model = Model("forms", sizes)
    matmul(model, "M", "K", "N", False)
    model.add("batched", [("MatMul", ["a", "b"], {})],
              {"a": Operand(["G", "M", "K"], rows=(0, 1)), "b": Operand(["G", "K", "N"], rows=(0,), columns=(2,))}, {}, both((0, 1), (2,)))
    model.add("batched, of one matrix", [("MatMul", ["a", "b"], {})],
              {"a": Operand(["G", "M", 100], rows=(0, 1))}, {"b": Operand([100, 41], columns=(1,))}, both((0, 1), (2,)))
    model.add("Gemm", [("Gemm", ["a", "b", "c"], {"transA": 1, "transB": 1, "alpha": 0.7})],
              {"a": Operand(["K", "M"], rows=(1,)), "b": Operand(["N", "K"], columns=(0,))}, {"c": np.float32([0.3])}, both((0,), (1,)))
    model.add("Gemm, constant", [("Gemm", ["a", "b"], {"transA": 1})],
              {"a": Operand([150, "M"], rows=(1,))}, {"b": Operand([150, 24], columns=(1,))}, both((0,), (1,)))
    model.add("Einsum", [("Einsum", ["a", "b"], {"equation": "abkc,nkc->nab"})],
              {"a": Operand(["G", "M", 5, 9], rows=(0, 1)), "b": Operand(["N", 5, 9], columns=(0,))}, {}, both((1, 2), (0,)))
    model.add("f64", lost_bits(("MatMul", ["a", "b"], {})), {"a": Operand(["M", "K"], rows=(0,)), "b": Operand(["K", "N"], columns=(1,))}, {},
              both((0,), (1,)))
    model.add("f64, constant", lost_bits(("MatMul", ["a", "b"], {})), {"a": Operand(["M", 70], rows=(0,))}, {"b": Operand([70, 12], columns=(1,))},
              both((0,), (1,)))
    model.add("a vector", [("MatMul", ["a", "b"], {})], {"a": Operand(["M", "K"], rows=(0,)), "b": Operand(["K"])}, {}, both((0,), ()))
    model.add("few columns", [("MatMul", ["a", "b"], {})], {"a": Operand(["M", 90], rows=(0,))}, {"b": Operand([90, 3], columns=(1,))}, both((0,), (1,)))
    model.add("GELU and a product", [("MatMul", ["a", "b"], {}), ("Gelu", ["t0"], {"domain": "com.microsoft"}), ("MatMul", ["t1", "c"], {})],
              {"a": Operand(["M", 48], rows=(0,))}, {"b": Operand([48, 60], columns=(1,)), "c": Operand([60, 33], columns=(1,))}, both((0,), (1,)))
    yield model


# ---- Convolutions ----


def inside(size, results, stride, pad, dilation, taps, period=1):
    """By result along an axis, the class of its tile of PERIOD results: which of its taps are in the image of SIZE elements, and its place in it."""
    classes, seen = [], {}
    for o in range(results):
        first = o // period * period
        key = o % period, *((first + i) * stride - pad + t * dilation in range(size) for i in range(period) for t in range(taps))
        classes.append(seen.setdefault(key, len(seen)))
    return np.array(classes)


def in_groups(axis, groups, of):
    """Fills an operand whose AXIS has GROUPS of equal content; within each, it does not depend on the axes OF by kind."""
    def fill(rng, kind, shape):
        one = list(shape)
        one[axis] //= groups
        return np.concatenate([equal_along(rng, one, of[kind])] * groups, axis)
    return fill


def conv(model, channels, filters, image, kernel, stride=1, pads=None, dilation=1, group=1, period=1, named=()):
    """IMAGE: sizes, of which those in NAMED are the run's."""
    rank = len(kernel)
    space = tuple(range(2, 2 + rank))
    pads = pads or [0] * (2 * rank)

    def pixels(shape):
        classes = np.zeros(1, np.int64)
        for a in range(rank):
            of = inside(image[a], shape[2 + a], stride, pads[a], dilation, kernel[a], period)
            classes = (np.expand_dims(classes, -1) * 1000 + of) if a else of
        return (0, *space), classes

    dims = [f"D{a}_{n}" if a in named else n for a, n in enumerate(image)]
    x = Operand(["B", channels * group, *dims], fill=in_groups(1, group, {ROWS: (0, *space), COLUMNS: ()}))
    w = Operand([filters * group, channels, *kernel], fill=in_groups(0, group, {ROWS: (), COLUMNS: (0,)}))
    what = f"Conv {channels}->{filters} of {image} by {kernel}, stride {stride}, pads {pads}, dilation {dilation}, group {group}"
    return model.add(what, [("Conv", ["x", "w"], {"strides": [stride] * rank, "pads": pads, "dilations": [dilation] * rank, "group": group})],
                     {"x": x}, {"w": w}, {ROWS: pixels, COLUMNS: ((1,), None)})


def sized(model):
    """Gives the names of conv's sizes their values, in all sizes of MODEL."""
    names = {d: int(d.split("_")[1]) for op in model.ops for o in op[2].values() for d in o.shape if isinstance(d, str) and d.startswith("D")}
    model.sizes = [{**s, **names} for s in model.sizes]
    return model


def convolutions(pick):
    batches = [{"B": 1}, {"B": pick.choice((2, 3))}]
    wide = lambda: pick.choice((7, 9, 12, 17, 34))
    some = Model("convolutions", batches)
    conv(some, 5, 17, [9, wide()], [3, 3], pads=[1, 1, 1, 1])
    conv(some, 40, pick.choice((8, 33, 72)), [7, 7], [1, 1])            # 49 pixels
    conv(some, 24, 40, [5, 5], [1, 1])
    conv(some, 3, 16, [21, 33], [5, 5], stride=2, pads=[2, 2, 2, 2])
    conv(some, 9, 12, [40], [3], dilation=2, pads=[2, 2])
    conv(some, 4, 9, [5, 6, 7], [2, 3, 2], pads=[1, 0, 1, 0, 1, 1])
    conv(some, 8, 6, [11, wide()], [3, 3], group=3, pads=[1, 1, 1, 1])
    conv(some, 1, 1, [13, wide()], [3, 3], group=20, pads=[1, 1, 1, 1])  # depthwise
    conv(some, 1, 2, [12, 15], [5, 5], group=7, stride=2, pads=[2, 2, 2, 2])
    conv(some, 16, 3, [10, 40], [3, 3], pads=[1, 1, 1, 1])
    yield sized(some)
    named = Model("convolutions_any", batches)
    conv(named, 6, 20, [8, wide()], [3, 3], pads=[1, 1, 1, 1], named=(0, 1))
    conv(named, 30, 24, [7, wide()], [1, 1], named=(0, 1))
    conv(named, 7, 10, [wide()], [4], stride=3, pads=[1, 2], named=(0,))
    conv(named, 1, 1, [9, wide()], [3, 3], group=12, pads=[1, 1, 1, 1], named=(0, 1))
    yield sized(named)
    winograd = Model("winograd", batches)
    conv(winograd, 32, 40, [14, 14], [3, 3], pads=[1, 1, 1, 1], period=4)
    conv(winograd, 64, 33, [7, 9], [3, 3], pads=[1, 1, 1, 1], period=4)
    conv(winograd, 32, 32, [18, 22], [3, 3], period=4)
    yield winograd
    yield transposed(batches)


def transposed(batches):
    """Transposed convolutions of stride 2, whose results have four phases."""
    model = Model("transposed", batches)

    def pixels(shape):
        h, w = np.arange(shape[2]), np.arange(shape[3])
        edge = lambda i, n: np.where(i < 4, i, np.where(i >= n - 4, i - n + 10, 4 + i % 2))
        return (0, 2, 3), edge(h, shape[2])[:, None] * 100 + edge(w, shape[3])[None, :]

    for channels, filters, size in ((12, 17, (9, 11)), (20, 3, (8, 16))):
        model.add(f"ConvTranspose {channels}->{filters} of {size}", [("ConvTranspose", ["x", "w"], {"strides": [2, 2], "pads": [1, 1, 1, 1]})],
                  {"x": Operand(["B", channels, *size], rows=(0, 2, 3))}, {"w": Operand([channels, filters, 4, 4], columns=(1,))},
                  {ROWS: pixels, COLUMNS: ((1,), None)})
    return model


# ---- A batch in slices ----


def slices(pick):
    """A small network whose batch is computed in slices, by threads that take whole ones and by all together."""
    def network(name, options):
        model = Model(name, [{"B": b} for b in (1, 2, 3, 5, 7)], options, kinds=(ROWS,))
        model.add("network", [("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}), ("Relu", ["t0"], {}), ("GlobalAveragePool", ["t1"], {}),
                              ("Flatten", ["t2"], {}), ("Gemm", ["t3", "v"], {}), ("Softmax", ["t4"], {"axis": 1})],
                  {"x": Operand(["B", 12, 10, 10], rows=(0,))}, {"w": Operand([70, 12, 3, 3]), "v": Operand([70, 90])}, both((0,), ()))
        return model

    for n in (0, 1, 2, 3):
        yield network(f"slices{n}", [f"--slice={n}"])


# ---- Attention, recurrent networks, rows ----


def attention(pick):
    """Equal queries, and equal columns of values; in equal batches and heads."""
    sizes = [{"M": m, "S": s} for m, s in ((1, 40), (2, 17), (3, 300), (17, pick.choice((5, 33))), (18, 18), (33, 64), (pick.choice(ANY), pick.choice(ANY)))]
    model = Model("attention", sizes)
    for depth, masked in ((64, False), (40, True)):
        q, k = Operand([2, 3, "M", depth], rows=(0, 1, 2)), Operand([2, 3, depth, "S"], rows=(0, 1))
        v = Operand([2, 3, "S", pick.choice((24, 64, 72))], rows=(0, 1), columns=(3,))
        mask = {"c": Operand([1, 1, 1, "S"], fill=lambda rng, kind, shape: np.where(rng.random(shape) < 0.4, -1e30, 0).astype(np.float32))} if masked else {}
        nodes = [("MatMul", ["q", "k"], {}), ("Mul", ["t0", "s"], {})]
        nodes += [("Add", ["t1", "c"], {})] if masked else []
        nodes += [("Softmax", [f"t{len(nodes) - 1}"], {"axis": -1}), ("MatMul", [f"t{len(nodes)}", "v"], {})]
        model.add(f"attention, depth {depth}" + ", masked" * masked, nodes, {"q": q, "k": k, "v": v, **mask}, {"s": np.float32([0.1])},
                  both((0, 1, 2), (3,)))
    yield model


def gates(count, axis, others):
    """Weights of COUNT gates along AXIS: with equal columns, all units of a gate are equal."""
    def fill(rng, kind, shape):
        one = list(shape)
        one[axis] //= count
        return np.concatenate([equal_along(rng, one, (axis,) if kind == COLUMNS else ()) for _ in range(count)], axis)
    return fill


def recurrent(pick):
    model = Model("recurrent", [{"T": 4, "B": b} for b in (1, 2, *pick.sample(ANY[3:12], 2))])
    for op, count in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        units = pick.choice((20, 33, 40))
        model.add(op, [(op, ["x", "w", "r"], {"hidden_size": units})], {"x": Operand(["T", "B", 30], rows=(1,))},
                  {"w": Operand([1, count * units, 30], fill=gates(count, 1, 2)), "r": Operand([1, count * units, units], fill=gates(count, 1, 2))},
                  both((2,), (3,)))
    yield model


def rows(pick):
    """Norms, reductions and functions."""
    sizes = [{"M": m, "N": n} for m, n in ((1, 700), (pick.choice(ANY), 37), (pick.choice(ANY), pick.choice(ANY)), (70, 3), (9, 2000))]
    model = Model("rows", sizes)
    x = lambda: {"x": Operand(["M", "N"], rows=(0,), columns=(1,))}
    for op, attributes in (("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": 1})):
        model.add(op, [(op, ["x"], attributes)], x(), {}, both((0,), (1,)))
        model.add(op + " of columns", [(op, ["x"], {"axis": 0})], x(), {}, both((0,), (1,)))
    for op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare"):
        for axis in (0, 1):
            model.add(f"{op}, axis {axis}", [(op, ["x", "a"], {"keepdims": 1})], x(), {"a": np.int64([axis])}, both((0,), (1,)))
    model.add("LayerNormalization", [("LayerNormalization", ["x", "s"], {"axis": -1})], {"x": Operand(["M", 70], rows=(0,), columns=(1,))},
              {"s": np.ones(70, np.float32)}, both((0,), (1,)))
    model.add("CumSum", [("CumSum", ["x", "a"], {})], x(), {"a": np.int64(1)}, both((0,), ()))
    model.add("variance", [("ReduceMean", ["x", "a"], {}), ("Sub", ["x", "t0"], {}), ("Mul", ["t1", "t1"], {}), ("ReduceMean", ["t2", "a"], {})],
              x(), {"a": np.int64([1])}, both((0,), (1,)))
    yield model
    image = Model("pools", [{"B": 1}, {"B": 3}])
    for op, attributes in (("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2]}), ("LpPool", {"kernel_shape": [3, 2]})):
        image.add(op, [(op, ["x"], attributes)], {"x": Operand(["B", 21, 13, 18], rows=(0, 1), columns=(2, 3))}, {}, both((0, 1), (2, 3)))
    for op in ("InstanceNormalization", "BatchNormalization"):
        image.add(op, [(op, ["x", *"sb", *("mv" if op[0] == "B" else "")], {})], {"x": Operand(["B", 21, 5, 9], rows=(0, 1), columns=(2, 3))},
                  {c: np.ones(21, np.float32) for c in ("sb" if op[0] == "I" else "sbmv")}, both((0, 1), (2, 3)))
    yield image
    functions = Model("functions", [{"M": m} for m in (1, 3, 17, *pick.sample(ANY, 2), 4099)], kinds=(ROWS,))
    names = "Exp Log Sigmoid Tanh Erf Softplus Mish Sqrt Sin Cos Elu Asinh Atan Reciprocal HardSwish".split()
    for op in names if ALL else pick.sample(names, 8):
        functions.add(op, [(op, ["x"], {})], {"x": Operand(["M"], rows=(0,))}, {}, both((0,), ()))
    functions.add("Gelu", [("Gelu", ["x"], {"domain": "com.microsoft"})], {"x": Operand(["M"], rows=(0,))}, {}, both((0,), ()))
    functions.add("Pow", [("Pow", ["x", "p"], {})], {"x": Operand(["M"], rows=(0,))}, {"p": np.float32(1.7)}, both((0,), ()))
    yield functions


# ---- Targets ----


class Gpu(Cpu):
    """Code for sm_80 on the simulated GPU."""

    def __init__(self):
        super().__init__(BUILD, FOLDER, "generic")
        self.target, self.code = "sm_80", "cpu:generic,cuda:sm_80"

    def results(self, so, cases, threads=0, env=None):
        return Cpu.results(self, so, cases, threads, samples.simulated(BUILD))


def ways(i, cpu):
    """Options of dlcc, and the number of threads, for model number I on CPU."""
    own = any(o.startswith("--cc") for o in cpu.options)
    of = [((*([] if own else [f"--cc={cc}"]), level), threads) for cc, level, threads in WAYS]
    return of if ALL else [of[(i + len(cpu.target) + SEED) % len(of)]]


def main():
    rng, pick = np.random.default_rng(SEED), random.Random(SEED)
    have, lack = cpus(BUILD, FOLDER)
    if os.path.exists(f"{BUILD}/ptxsim/libcuda.so.1") and samples.llvm(BUILD):
        have.append(Gpu())
    else:
        lack.append("sm_80")
    have = [c for c in have if not NAMED or c.target in NAMED]
    passed = failed = 0
    models = [m for makes in (products, forms, convolutions, slices, attention, recurrent, rows) for m in makes(pick)]
    for (i, model), kind in itertools.product(enumerate(models), (ROWS, COLUMNS)):
        if kind not in (model.kinds if ALL else model.kinds[(i + SEED) % len(model.kinds):][:1]):
            continue
        path = f"{FOLDER}/{model.name}.{kind}"
        onnx.save(model.proto(rng, kind), path + ".onnx")
        save(path + ".in", [a for sizes in model.sizes for a in model.case(rng, kind, sizes)])
        for cpu in have if ALL else [have[i % len(have)]]:
            for j, (options, threads) in enumerate(ways(i, cpu)):
                so = f"{path}.{cpu.target}.{j}.so"
                cpu.compile(path + ".onnx", so, [*options, *model.options])
                results = cpu.results(so, path + ".in", threads)
                os.remove(so)
                each = len(model.ops)
                faults = [f for s, sizes in enumerate(model.sizes) for f in model.faults(kind, sizes, results[s * each:(s + 1) * each])]
                passed, failed = passed + (not faults), failed + bool(faults)
                for fault in faults[:4]:
                    print(f"FAIL: {cpu.target} {' '.join(options)}, {threads} threads: {model.name}: {fault}")
    print_lack(lack)
    print(f"{passed} passed, {failed} failed, {len(lack)} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Random graphs of ONNX operators, grown node by node beside their values.

A graph has symbolic dims and several data sets, which give the dims other sizes, 0 and 1 among them. Every value holds its elements
for each data set: a node is proposed (operators/, patterns.py), ONNX Runtime computes it, and it stays only if it is defined for all
data sets, finite, and well-conditioned. So a graph is valid at all of its sizes by construction.

Each value has a twin, computed like it but with every inexact input and result moved by one rounding error. How far the twin is from the value
tells how far another correct order of computation may be: the noise of the graph. Operators that jump (comparisons, Floor, ArgMax)
take only exact values, which every correct program gives bit by bit: integers, and floats that are small multiples of 1/4.
"""

import random
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 26
OLDER = 21                                   # of operators whose newest form ONNX Runtime lacks
NEWEST = 28
NEW = ("CausalConvWithState", "LinearAttention", "SwiGLU")      # of opsets that ONNX Runtime lacks
SETS = 3                                     # data sets of a graph
SUMS = ("DFT", "STFT")                       # of products with numbers that are not exact: errors are relative to the largest element
LARGEST, LARGER = 6000, 40000                # elements of a value; in one graph of ten, whose dims go beyond the blocks of schedules
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
EXACT = {"float16": 256, "bfloat16": 32, "float32": 2**18, "float64": 2**40}      # quarters up to this are exact, and sums of a few
MOST = {"float16": 500, "bfloat16": 1e4, "float32": 1e4, "float64": 1e4}
NOISIEST = {"float16": 0.02, "bfloat16": 0.1, "float32": 1e-3, "float64": 1e-9}   # relative to a value's largest element
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = tuple(EPS)
TYPES = {**{t: np.dtype(t) for t in INTS + ("float16", "float32", "float64", "bool")}, "bfloat16": np.dtype(ml_dtypes.bfloat16)}
CODES = {t: helper.np_dtype_to_tensor_dtype(d) for t, d in TYPES.items()}
LEAST_NARROW = 1024                          # elements of weights that --weights-as=i4 makes narrow
SIZES = (2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33)
LARGER_SIZES = SIZES + (63, 64, 65, 77, 100, 129, 143, 200, 255, 257, 333, 513, 600, 700)

warnings.filterwarnings("ignore")
ort.set_default_logger_severity(4)


class Value:
    def __init__(self, name, arrays, twins, exact, depth):
        self.name, self.arrays, self.twins, self.exact, self.depth = name, arrays, twins, exact, depth
        self.type = next(t for t, d in TYPES.items() if d == arrays[0].dtype)
        self.rank = arrays[0].ndim

    def sizes(self, axis):
        """The sizes of AXIS, by data set."""
        return tuple(a.shape[axis] for a in self.arrays)

    def shapes(self):
        return [a.shape for a in self.arrays]

    def least(self):
        """The least and the largest element of all data sets; 0, 0 where there is none."""
        all_ = np.concatenate([a.astype(np.float64).ravel() for a in self.arrays])
        return (all_.min(), all_.max()) if all_.size else (0.0, 0.0)


def make_node(op, ins, outs, attributes, name=None):
    """A node of OP, which may have its domain before its name."""
    domain, _, op = op.rpartition(".")
    node = helper.make_node(op, ins, outs, name=name, domain=domain, **{k: a for k, a in attributes.items() if a != []})
    node.attribute.extend(helper.make_attribute(k, [], attr_type=onnx.AttributeProto.INTS) for k, a in attributes.items() if a == [])
    return node


def domains(ops, opset=OPSET):
    """The imports of a model that has the operators OPS."""
    others = sorted({op.rpartition(".")[0] for op in ops} - {""})
    return [helper.make_opsetid("", NEWEST if any(op in NEW for op in ops) else opset)] + [helper.make_opsetid(d, 1) for d in others]


def one_node(op, ins, outs, attributes, types, opset=OPSET):
    """A model of one node. TYPES: element type, and rank or sizes, of each operand that is there."""
    info = [helper.make_tensor_value_info(n, CODES[t], [None] * dims if isinstance(dims, int) else dims) for n, (t, dims) in types.items()]
    graph = helper.make_graph([make_node(op, ins, outs, attributes)], "g", info, [helper.make_empty_tensor_value_info(o) for o in outs if o])
    return helper.make_model(graph, opset_imports=domains([op], opset), ir_version=10)


def several(nodes, types, outs):
    """A model of NODES, with the results OUTS. TYPES: as above."""
    info = [helper.make_tensor_value_info(n, CODES[t], [None] * rank) for n, (t, rank) in types.items()]
    graph = helper.make_graph([make_node(*node) for node in nodes], "g", info, [helper.make_empty_tensor_value_info(o) for o in outs])
    return helper.make_model(graph, opset_imports=domains([node[0] for node in nodes]), ir_version=10)


def captured(attributes):
    """The names that the bodies among ATTRIBUTES read and do not define."""
    free = []
    for body in attributes.values():
        if isinstance(body, onnx.GraphProto):
            defined = {v.name for v in body.input} | {t.name for t in body.initializer} | {o for n in body.node for o in n.output}
            names = [i for n in body.node for i in list(n.input) + captured({a.name: a.g for a in n.attribute if a.HasField("g")})]
            free += [i for i in names if i and i not in defined]
    return list(dict.fromkeys(free))


def reads(node):
    """The names that NODE reads: its operands, and what its bodies capture."""
    return [i for i in node[1] if i] + captured(node[3])


def session(model):
    """A function from arrays by name to the results' arrays, by ONNX Runtime without its optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    made = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs, names = {i.name for i in made.get_inputs()}, [o.name for o in model.graph.output]
    return lambda feed: made.run(names, {k: v for k, v in feed.items() if k in inputs})


def evaluator(model):
    """As session does, by ONNX's reference."""
    made = ReferenceEvaluator(model)
    return lambda feed: made.run(None, feed)


def on_f32(op, ins, outs, attributes, types, floats):
    """The node on f32 in place of FLOATS."""
    run = (evaluator if op in NEW else session)(
        one_node(op, ins, outs, attributes, {n: ("float32" if t in floats else t, rank) for n, (t, rank) in types.items()}))
    return lambda feed: run({k: v.astype(np.float32) if v.dtype in [TYPES[f] for f in floats] else v for k, v in feed.items()})


def widened(op, ins, outs, attributes, types):
    """The node on f32 in place of 16-bit floats, its results rounded: as a node is defined that computes in f32. Results that ONNX has no
    types for, since it does not know the operator, are of the operands' 16-bit type."""
    narrow = onnx.shape_inference.infer_shapes(one_node(op, ins, outs, attributes, types), strict_mode=op not in NEW)
    here = next((CODES[t] for t, _ in types.values() if t in ("float16", "bfloat16")), TensorProto.FLOAT)
    code = {o.name: o.type.tensor_type.elem_type or here for o in narrow.graph.output}
    attributes = {k: TensorProto.FLOAT if k == "to" and x in (TensorProto.FLOAT16, TensorProto.BFLOAT16) else x for k, x in attributes.items()}
    run, given = on_f32(op, ins, outs, attributes, types, ("float16", "bfloat16")), [o for o in outs if o]
    return lambda feed: [r.astype(helper.tensor_dtype_to_np_dtype(code[o])) if r.dtype == np.float32 else r for o, r in zip(given, run(feed))]


def reference(op, ins, outs, attributes, types):
    """The node by ONNX's reference, which has faults and checks no operands: where ONNX Runtime takes the node on f32, both must agree."""
    exact = evaluator(one_node(op, ins, outs, attributes, types))
    try:
        other = on_f32(op, ins, outs, attributes, types, ("float64",))
    except Exception:
        return exact

    def run(feed):
        results = exact(feed)
        for a, b in zip(results, other(feed)):
            if np.shape(a) != b.shape or np.abs(a - b).max(initial=0) > 1e-3 * np.abs(b).max(initial=0):
                raise ValueError("ONNX's reference and ONNX Runtime differ")
        return results
    return run


def runner(op, ins, outs, attributes, types):
    """A function from arrays by name to the results' arrays: ONNX Runtime; where it lacks a type, on f32, or the operator's form of
    an older opset; else ONNX's reference."""
    model = one_node(op, ins, outs, attributes, types)
    if any(isinstance(a, onnx.GraphProto) for a in attributes.values()):
        return session(model)
    if op in NEW:
        return widened(op, ins, outs, attributes, types)
    lacks = any(t == "bfloat16" for t, _ in types.values()) or attributes.get("to") == TensorProto.BFLOAT16    # NumPy cannot exchange it
    for make in ([] if lacks else [lambda: session(model)]) + [
            lambda: widened(op, ins, outs, attributes, types), lambda: session(one_node(op, ins, outs, attributes, types, OLDER))]:
        try:
            return make()
        except Exception:
            pass
    return reference(op, ins, outs, attributes, types)


class Grower:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.values, self.inputs, self.constants, self.nodes = [], [], {}, []
        self.symbols = {}                     # sizes by data set, of each symbol
        self.made = 0
        self.all = {}                         # every value that was made, by its name
        self.shown = []                       # results of the graph that nodes may read, too
        # whether the graph is compiled with narrow weights: operators that jump then read no product of constants, so no constant of which
        # weights are made is exact
        self.narrow = False
        self.nesting = 0                      # bodies around what is grown now
        r = self.random
        self.dynamic = r.choice((0, 0.3, 0.7))    # how often a dim is a symbol
        self.largest, self.dim_sizes = (LARGER, LARGER_SIZES) if r.random() < 0.1 else (LARGEST, SIZES)
        self.type = r.choice(("float32",) * 6 + ("float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8"))

    # ---- Dims ----

    def fresh(self, kind):
        self.made += 1
        return f"{kind}{self.made}"

    def new_sizes(self):
        r = self.random
        a = r.choice(self.dim_sizes)
        return (a, r.choice(self.dim_sizes), r.choice((0, 1, 1, r.choice(SIZES)))) if r.random() < self.dynamic else (a,) * SETS

    def dim(self, sizes):
        """How an input writes a dim of SIZES: a symbol that has them, another symbol, or a number."""
        same = [s for s, have in self.symbols.items() if have == sizes]
        if len(set(sizes)) == 1 and (self.random.random() >= self.dynamic / 2 or not same):
            return sizes[0]
        if same and self.random.random() < 0.9:
            return self.random.choice(same)
        name = self.fresh("D")
        self.symbols[name] = sizes
        return name

    # ---- Inputs and constants ----

    def moved(self, a, type):
        """A as elements of TYPE, each moved by one rounding error at most."""
        return (a.astype(np.float64) * (1 + EPS[type] * self.rng.integers(-1, 2, a.shape))).astype(TYPES[type])

    def elements(self, type, shape, exact):
        if type == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if type in INTS:
            return self.rng.integers(0 if type[0] == "u" else -4, 5, shape).astype(type)
        a = self.rng.integers(-4, 5, shape) if exact else self.rng.standard_normal(shape)
        return np.asarray(a).astype(TYPES[type])

    def feed(self, arrays, exact=True, constant=None):
        """A value of these ARRAYS: an input, or a constant where they are all the same."""
        same = all(a.shape == arrays[0].shape and a.tobytes() == arrays[0].tobytes() for a in arrays)
        constant = same and (self.random.random() < 0.5 if constant is None else constant)
        constant = constant and not (self.narrow and exact and arrays[0].size >= LEAST_NARROW)
        type = next(t for t, d in TYPES.items() if d == arrays[0].dtype)
        twins = arrays if exact or type not in FLOATS else [self.moved(a, type) for a in arrays]
        v = Value(self.fresh("c" if constant else "x"), arrays, twins, exact, 0)
        if constant:
            self.constants[v.name] = arrays[0]
        else:
            self.inputs.append((v, [self.dim(v.sizes(i)) for i in range(v.rank)]))
        self.all[v.name] = v
        return v

    def new(self, type=None, sizes=None, exact=None, constant=None):
        """An input of TYPE with dims of SIZES (those of each dim by data set), or of a random shape."""
        r = self.random
        type = type or self.type
        if sizes is None:
            sizes = [self.new_sizes() for _ in range(r.choice((0, 1, 2, 2, 3, 3, 4, 4)))]
            while max(np.prod([s[k] for s in sizes], dtype=int) for k in range(SETS)) > self.largest // 2:
                sizes[r.randrange(len(sizes))] = (r.choice((1, 2, 3)),) * SETS
        if any(np.prod([s[k] for s in sizes], dtype=int) > self.largest for k in range(SETS)):
            return None
        exact = r.random() < 0.5 if exact is None else exact
        if type in FLOATS and constant is None and r.random() < 0.7:
            constant = False
        shapes = [tuple(s[k] for s in sizes) for k in range(SETS)]
        arrays = [self.elements(type, s, exact) for s in shapes]
        if len(set(shapes)) == 1 and r.random() < 0.6:          # the same in all data sets, as a constant must be
            arrays = [arrays[0]] * SETS
        v = self.feed(arrays, exact or type not in FLOATS, constant)
        self.values.append(v)
        return v

    def const(self, array):
        """A constant operand: numbers that an operator needs as they are."""
        return self.feed([np.asarray(array)] * SETS, constant=True)

    def ints(self, *by_set, type="int64"):
        """A vector of integers, by data set; one given: the same for all."""
        by_set = by_set if len(by_set) == SETS else by_set * SETS
        return self.feed([np.array(b, type) for b in by_set])

    # ---- Choosing ----

    def pick(self, test=lambda v: True, types=None, rank=None, exact=None, least=0):
        """A value that passes; a recent one is likelier. Else a fresh input. LEAST: of every size of a dim."""
        r = self.random
        types = types or FLOATS
        rank = (rank, rank) if isinstance(rank, int) else rank or (0, 9)
        fit = [v for v in self.values if v.type in types and rank[0] <= v.rank <= rank[1] and (not exact or v.exact)
               and all(min(v.sizes(i)) >= least for i in range(v.rank)) and test(v)]
        if fit and r.random() < 0.9:
            return r.choice(fit[-4:] if r.random() < 0.7 else fit)
        for _ in range(4):
            n = r.randint(rank[0], min(rank[1], max(rank[0], 4)))
            sizes = [tuple(max(s, least) for s in self.new_sizes()) for _ in range(n)]
            v = self.new(self.type if self.type in types else r.choice(types), sizes, exact or None) if self.count(sizes) else None
            if v and test(v):
                return v
        return None

    def count(self, sizes):
        return all(np.prod([s[k] for s in sizes], dtype=int) <= self.largest // 2 for k in range(SETS))

    def beside(self, v, test=lambda w: True):
        """An operand of V's type that broadcasts with it: a value, or an input with 1 in place of some dims."""
        r = self.random

        def fits(w):
            try:
                return w.type == v.type and all(np.prod(np.broadcast_shapes(a, b), dtype=int) <= self.largest
                                                for a, b in zip(v.shapes(), w.shapes())) and test(w)
            except ValueError:
                return False
        fit = [w for w in self.values if fits(w)]
        if fit and r.random() < 0.6:
            return r.choice(fit)
        sizes = [(1,) * SETS if r.random() < 0.3 else v.sizes(i) for i in range(v.rank)]
        w = self.new(v.type, sizes[r.randrange(len(sizes) + 1):] if r.random() < 0.4 else sizes, exact=v.exact or None)
        return w if w and test(w) else None

    def within(self, v, low, high):
        """V, or V clipped to what an operator is defined for."""
        least, most = v.least() if v else (0, 0)
        if v is None or (low <= least and most <= high):
            return v
        return self.node("Clip", [v, self.const(np.asarray(low, TYPES[v.type])), self.const(np.asarray(high, TYPES[v.type]))],
                         exact=v.exact and low == int(low) and high == int(high))

    # ---- Nodes ----

    def node(self, op, operands, results=1, exact=None, keep=True, run=None, mend=None, **attributes):
        """The results of a node (one: not in a list), or None where it is not defined for these operands. RESULTS: how many, or the
        positions of those that are not omitted. EXACT: whether results are exact if the operands are; None: never, where they are floats.
        RUN makes what computes the results, where ONNX Runtime cannot; MEND makes right, result by result and data set by data set, what it
        computes, or gives None where nothing is right."""
        if any(o is None for o in operands if not isinstance(o, str)):
            return None
        ins = [o if isinstance(o, str) else o.name for o in operands]
        real = [o for o in operands if not isinstance(o, str)] + [self.all[name] for name in captured(attributes)]
        shown = range(results) if isinstance(results, int) else results
        outs = [self.fresh("v") if k in shown else "" for k in range(max(shown) + 1)]
        arrays = self.compute(op, ins, outs, attributes, real, run)
        return self.add([(op, ins, outs, attributes)], [o for o in outs if o], arrays, bool(exact) and all(o.exact for o in real), real, keep, mend, op in SUMS)

    def group(self, nodes, real, outs, exact, run=None):
        """The results OUTS of NODES together, of the operands REAL, between which values are not tensors of TYPES; as node gives them."""
        arrays = self.compute("", [], outs, {}, real, run or (lambda: session(several(nodes, {o.name: (o.type, o.rank) for o in real}, outs))))
        return self.add(nodes, outs, arrays, exact, real)

    def add(self, nodes, outs, arrays, exact, real, keep=True, mend=None, sums=False):
        """The values OUTS that NODES compute, which are ARRAYS, or None."""
        if arrays is None:
            return None
        values = []
        for k, name in enumerate(outs):
            both = [[mend(k, n, a[k]) if mend else a[k] for n, a in enumerate(some)] for some in arrays]
            if any(a is None for a in both[0]):
                return None
            v = self.judge(name, *both, exact, real, sums)
            if v is None:
                return None
            values.append(v)
        self.nodes += nodes
        self.all.update((v.name, v) for v in values)
        if keep:
            self.values += values
        return values[0] if len(values) == 1 else values

    @staticmethod
    def compute(op, ins, outs, attributes, real, run=None):
        """The results by data set, of the values and of their twins; None: not defined."""
        try:
            run = run() if run else runner(op, ins, outs, attributes, {o.name: (o.type, o.rank) for o in real})
            # Of empty operands ONNX Runtime's Einsum and QuantizeLinear end with SIGFPE, its Gemm ignores beta, and its products of
            # integers are not written.
            if op in ("Einsum", "QuantizeLinear", "Gemm", "MatMulInteger", "QLinearMatMul") and any(a.size == 0 for o in real for a in o.arrays):
                run = evaluator(one_node(op, ins, outs, attributes, {o.name: (o.type, o.rank) for o in real}))
            exact = all(o.exact for o in real)
            arrays = [[np.asarray(a) for a in run({o.name: o.arrays[k] for o in real})] for k in range(SETS)]
            twins = arrays if exact else [[np.asarray(a) for a in run({o.name: o.twins[k] for o in real})] for k in range(SETS)]
        except Exception:
            return None
        return arrays, twins

    def judge(self, name, arrays, twins, exact, real, sums=False):
        """A value, unless it is too large, not finite, or moves too far from its twin."""
        if any(a.size > self.largest for a in arrays) or arrays[0].dtype not in TYPES.values() or len({a.ndim for a in arrays}) > 1 \
                or len({a.dtype for a in arrays + twins}) > 1 or any(a.shape != t.shape for a, t in zip(arrays, twins)):
            return None
        depth = 1 + max((o.depth for o in real), default=0)
        type = next(t for t, d in TYPES.items() if d == arrays[0].dtype)
        if type not in FLOATS:
            return Value(name, arrays, arrays, True, depth) if all(np.array_equal(a, t) for a, t in zip(arrays, twins)) else None
        moved = []
        for a, t in zip(arrays, twins):
            wide, other = a.astype(np.float64), t.astype(np.float64)
            most = np.abs(wide).max(initial=0)
            if not (np.isfinite(wide).all() and np.isfinite(other).all() and most <= MOST[type]) or 0 < most < 1e-12:     # what is left when terms cancel
                return None
            exact = exact and (4 * wide == np.rint(4 * wide)).all() and (np.abs(wide) <= EXACT[type]).all()
            if sums:
                other = other + most * EPS[type] * self.rng.integers(-1, 2, other.shape)
            moved.append(self.moved(other, type))
        if exact:
            return Value(name, arrays, arrays, True, depth)
        v = Value(name, arrays, moved, False, depth)
        return v if noise(v) <= NOISIEST[type] else None

    # ---- Whole graphs ----

    def results(self):
        """What no node reads, and sometimes more: six at most; and what is shown."""
        read = {i for node in self.nodes for i in reads(node)}
        made = {o: k for k, (_, _, outs, _) in enumerate(self.nodes) for o in outs}
        ends = [v for v in self.values if v.name in made and v.name not in read]
        more = [v for v in self.values if v.name in read and v.name in made]
        if more and self.random.random() < 0.2:
            ends.append(self.random.choice(more))
        return [v for v in self.shown if v not in ends[-6:]] + ends[-6:]

    def by_name(self):
        return self.all

    def case(self):
        """The graph as it is: a Case, or None where it has no result."""
        results = self.results()
        return Case(self.nodes, self.inputs, self.constants, results).pruned() if results else None


def noise(v):
    """How far V's twin is from it, relative to V's largest element; the most of the data sets."""
    most = 0.0
    for a, t in zip(v.arrays, v.twins):
        if a.size and v.type in FLOATS:
            wide = a.astype(np.float64)
            most = max(most, np.abs(wide - t.astype(np.float64)).max() / max(np.abs(wide).max(), 1e-30)) if (wide != t.astype(np.float64)).any() else most
    return float(most)


class Case:
    """A graph with its data: NODES (operator, operands, results, attributes), INPUTS (value, dims), CONSTANTS (arrays by name), RESULTS."""

    def __init__(self, nodes, inputs, constants, results, sets=range(SETS)):
        self.nodes, self.inputs, self.constants, self.results, self.sets = nodes, inputs, constants, results, list(sets)

    def pruned(self):
        """Without what no result needs. Inputs that nothing reads stay away, too."""
        wanted, nodes = {v.name for v in self.results}, []
        for node in reversed(self.nodes):
            if wanted & set(node[2]):
                nodes.insert(0, node)
                wanted |= set(reads(node))
        return Case(nodes, [i for i in self.inputs if i[0].name in wanted],
                    {n: a for n, a in self.constants.items() if n in wanted}, self.results, self.sets)

    def noise(self):
        """Of each result."""
        return [noise(v) for v in self.results]

    def model(self):
        info = [helper.make_tensor_value_info(v.name, CODES[v.type], dims) for v, dims in self.inputs]
        outs = [helper.make_tensor_value_info(v.name, CODES[v.type], [f"o_{v.name}_{i}" for i in range(v.rank)]) for v in self.results]
        nodes = [make_node(op, ins, outs_, attributes, f"n_{next(filter(None, outs_))}") for op, ins, outs_, attributes in self.nodes]
        graph = helper.make_graph(nodes, "g", info, outs, [numpy_helper.from_array(a, n) for n, a in self.constants.items()])
        return helper.make_model(graph, opset_imports=domains([node[0] for node in self.nodes]), ir_version=10)

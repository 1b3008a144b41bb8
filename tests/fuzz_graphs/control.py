# SPDX-License-Identifier: Apache-2.0
"""How If, Loop and Scan are put into a random graph (see operators/).

A body is grown as a graph is, by a Grower whose values are those of the graphs around it, which the body captures, and the body's
inputs, which have the elements of the first iteration. So a body is valid in its first iteration; whether it is in all iterations, the whole node
shows, which ONNX Runtime computes like any other."""

import numpy as np
from onnx import helper, numpy_helper

from grow import CODES, FLOATS, SETS, TYPES, Case, Grower, Value, captured, make_node, one_node, session
from operators import ROWS, axis, row, scalar

NESTING = 2                                                  # bodies in bodies
CARRIED = ("float32", "float32", "float64", "int64", "int32", "bool")
FLOAT = ("float32", "float64")
# Operators that a body has; each stands in a graph of ONNX Runtime without its older forms.
COMMON = ("Add", "Sub", "Mul", "Max", "Where", "Relu", "Tanh", "Sigmoid", "Neg", "MatMul", "Concat", "Slice", "Transpose", "Reshape", "Gather",
          "ReduceSum", "ReduceMax", "Softmax", "Less", "Equal", "And", "Cast", "Identity", "Unsqueeze", "Expand", "Split", "Pad", "Tile",
          "Shape", "CumSum", "LayerNormalization", "Conv", "ScatterElements", "ArgMax", "Range", "Flatten", "Clip", "Mean", "GRU", "LSTM")
# Those whose results have sizes that their operands' sizes tell.
SAME_SIZES = ("Add", "Sub", "Mul", "Max", "Where", "Relu", "Tanh", "Sigmoid", "Neg", "MatMul", "Transpose", "Softmax", "Less", "Equal", "And", "Cast",
              "Identity", "Shape", "Clip", "Mean")


class Body(Grower):
    """Grows a body inside of what OUTER grows. A fresh input or constant is the whole graph's, or a constant of the body's own."""

    def __init__(self, outer):
        self.outer = outer
        for shared in ("random", "rng", "inputs", "symbols", "all", "dynamic", "largest", "dim_sizes", "type", "narrow"):
            setattr(self, shared, getattr(outer, shared))
        self.largest = min(self.largest, 2000)
        self.nesting = outer.nesting + 1
        self.constants, self.nodes, self.arguments, self.carried, self.shown = {}, [], [], [], []
        self.values = [v for v in outer.values[-8:] if v.type in CARRIED]

    def fresh(self, kind):
        return self.outer.fresh(kind)

    def const(self, array):
        return super().const(array) if self.random.random() < 0.5 else self.outer.const(array)

    def argument(self, arrays, exact):
        """An input of the body."""
        v = Value(self.fresh("a"), arrays, arrays, exact, 0)
        self.all[v.name] = v
        self.arguments.append(v)
        return v

    def grow(self, nodes):
        for _ in range(3 * nodes):
            if len(self.nodes) >= nodes:
                break
            nest = self.nesting < NESTING and self.random.random() < 0.1
            op = self.random.choice(("If", "Loop", "Scan") if nest else COMMON)
            ROWS[op](self, op)

    def own(self, v, taken, stacked):
        """V as ONNX Runtime takes a body's result that is not one of those TAKEN: what a node of the body gives, or, where it is not
        stacked, a value that a Loop carries."""
        here = {o for node in self.nodes for o in node[2]} | ({a.name for a in self.carried} if not stacked else set())
        return v if v.name in here and v not in taken else self.node("Identity", [v], exact=True, keep=False)

    def graph(self, values, stacked=0):
        """The body with VALUES for results. The last STACKED say their sizes, where these are numbers, without which ONNX Runtime cannot
        stack no values."""
        results = []
        for k, v in enumerate(values):
            results.append(self.own(v, results, k >= len(values) - stacked))
        if None in results:
            return None
        case = Case(self.nodes, [], self.constants, results).pruned()
        dims = [[None] * v.rank if k < len(values) - stacked else [s[0] if len(set(s)) == 1 else None for s in map(v.sizes, range(v.rank))]
                for k, v in enumerate(results)]
        info = [[helper.make_tensor_value_info(v.name, CODES[v.type], d) for v, d in some]
                for some in ([(v, [None] * v.rank) for v in self.arguments], zip(results, dims))]
        nodes = [make_node(op, ins, outs, attributes, f"n_{next(filter(None, outs))}") for op, ins, outs, attributes in case.nodes]
        return helper.make_graph(nodes, self.fresh("g"), *info, [numpy_helper.from_array(a, n) for n, a in case.constants.items()])


# ---- Conditions and numbers of iterations ----

def element(g, v, i):
    """The size of dim I of V, as a scalar."""
    return g.node("Gather", [g.node("Shape", [v], exact=True, keep=False), g.const(np.array(i))], exact=True, keep=False)


def condition(g):
    """A scalar, or a vector of one element: constant, from a shape, or read from data."""
    kind = g.random.choice(("constant", "shape", "data", "data", "computed"))
    if kind == "constant":
        return g.const(np.array(g.random.random() < 0.6))
    if kind == "shape":
        v = g.pick(types=CARRIED, rank=(1, 4))
        size = element(g, v, g.random.randrange(v.rank)) if v else None
        return g.node(g.random.choice(("Less", "Equal", "Greater")), [size, g.const(np.array(g.random.choice((1, 2, 4, 9))))], exact=True, keep=False)
    if kind == "computed":
        v = g.pick(types=("float32", "int32", "int64"), exact=True, least=1)
        return g.node("Greater", [g.node("ReduceMax", [v], exact=True, keep=False, keepdims=0), scalar(g, v, 2)], exact=True, keep=False) if v else None
    one = () if g.random.random() < 0.7 else (1,)
    return g.feed([np.full(one, g.random.random() < 0.5) for _ in range(SETS)])


def iterations(g):
    """A number of iterations: constant, a size, or read from data."""
    kind = g.random.choice(("constant", "size", "data", "data"))
    if kind == "size":
        v = g.pick(lambda v: any(max(v.sizes(i)) <= 9 for i in range(v.rank)), types=CARRIED, rank=(1, 4))
        return element(g, v, g.random.choice([i for i in range(v.rank) if max(v.sizes(i)) <= 9])) if v else None
    counts = [g.random.choice((0, 1, 2, 3, 5)) for _ in range(SETS)]
    shape = () if g.random.random() < 0.7 else (1,)
    return g.feed([np.full(shape, n, np.int64) for n in (counts[:1] * SETS if kind == "constant" else counts)], constant=kind == "constant")


# ---- If ----

@row("If")
def if_(g, op):
    cond = condition(g)
    sides = Body(g), Body(g)
    for side in sides:
        side.grow(g.random.choice((0, 1, 2, 4)))
    pairs = []
    for _ in range(g.random.choice((1, 1, 2, 3))):
        fit = [v for v in sides[0].values if v.type in CARRIED]
        if not fit:
            return None
        v = g.random.choice(fit[-4:])
        others = [w for w in sides[1].values if (w.type, w.rank) == (v.type, v.rank)]
        w = g.random.choice(others) if others and g.random.random() < 0.9 else \
            sides[1].new(v.type, [v.sizes(i) if g.random.random() < 0.7 else g.new_sizes() for i in range(v.rank)], exact=v.exact or None)
        pairs.append((v, w))
    if cond is None or any(w is None for _, w in pairs):
        return None
    swapped = g.random.random() < 0.5
    then, otherwise = (side.graph([p[k] for p in pairs]) for k, side in enumerate(sides))
    if then is None or otherwise is None:
        return None
    return g.node(op, [cond], len(pairs), exact=all(v.exact and w.exact for v, w in pairs),
                  then_branch=otherwise if swapped else then, else_branch=then if swapped else otherwise)


# ---- Loops ----

def first_values(g, count):
    """COUNT values that a loop carries first."""
    first = [g.pick(types=CARRIED, rank=(0, 3)) if g.random.random() < 0.8 else g.const(np.array(g.random.randrange(3))) for _ in range(count)]
    if len(first) > 1 and g.random.random() < 0.4 and first[0]:            # of one type, to be swapped
        first[1] = first[0] if g.random.random() < 0.3 else g.beside(first[0], lambda w: w.shapes() == first[0].shapes())
    return first


def bind(b, first):
    """The arguments of body B for the values carried FIRST; some are not taken for exact, so that the next ones need not be."""
    b.carried = [b.argument(v.arrays, v.exact and (v.type not in FLOATS or b.random.random() < 0.5)) for v in first]
    return b.carried


def next_values(b, carried):
    """What the next iteration has in place of CARRIED: the same, another one's, a constant, what the body computes, or what grows."""
    r, result = b.random, []
    for c in carried:
        fit = [v for v in b.values if (v.type, v.rank) == (c.type, c.rank) and (v.exact or not c.exact)]
        same = [v for v in fit if v.shapes() == c.shapes()]
        computed = [v for v in same if v not in b.arguments and any(v.name in node[2] for node in b.nodes)]
        kind = r.choice(("computed", "computed", "computed", "same", "any", "grows", "unchanged", "constant"))
        v = c
        if kind == "computed" and not computed and c.type != "bool":
            v = b.node(r.choice(("Add", "Sub", "Mul", "Max") if c.type in FLOATS else ("Add", "Sub", "Max")),
                       [c, b.beside(c, lambda w: all(np.broadcast_shapes(x, y) == x for x, y in zip(c.shapes(), w.shapes())))], exact=True)
        elif kind == "computed" and computed:
            v = r.choice(computed)
        elif kind == "same" and same:
            v = r.choice(same)
        elif kind == "any" and fit:
            v = r.choice(fit)
        elif kind == "grows" and c.rank:
            a = r.randrange(c.rank)
            v = b.node("Concat", [c, b.new(c.type, [(r.choice((1, 2)),) * SETS if i == a else c.sizes(i) for i in range(c.rank)], exact=True)],
                       exact=True, axis=a)
        elif kind == "constant" and len(set(c.shapes())) == 1:
            v = b.const(b.elements(c.type, c.shapes()[0], True))
        if v is None or (c.exact and not v.exact):
            v = c
        result.append(v)
    return result


def stacked_values(b, count):
    made = [v for v in b.values if v.type in CARRIED and (v in b.arguments or any(v.name in node[2] for node in b.nodes))]
    return [b.random.choice(made[-5:] if b.random.random() < 0.7 else b.values) for _ in range(count)] if made else []


def scanned(g, v):
    """The axes of V over which a Scan can go: ONNX Runtime takes no other axis of no elements, and in a body, which may change V's size,
    none at all."""
    whole = g
    while whole.nesting:
        whole = whole.outer
    if g.nesting and not (v in whole.values or any(v is x for x, _ in g.inputs)):
        return []
    return [i for i in range(v.rank) if max(v.sizes(i)) <= 17 and all(min(v.sizes(j)) for j in range(v.rank) if j != i or g.nesting)]


def empty_stacks(b, carried, next_, each, axes=None):
    """ONNX Runtime does not know the sizes of what no iteration of B has stacked; nobody does where they are not known before an iteration,
    or where the values CARRIED become NEXT_ of other sizes."""
    first = len(next_)
    known = b.nesting == 1 and all(node[0] in SAME_SIZES for node in b.nodes) and \
        all(x.shape == y.shape for v, w in zip(carried, next_) for x, y in zip(v.arrays, w.arrays))

    def mend(k, n, a):
        v, at = (each[k - first], axes[k - first] if axes else 0) if k >= first else (None, 0)
        if v is None or a.shape[at]:
            return a
        return a.reshape(np.insert(v.arrays[n].shape, at % (v.rank + 1), 0).astype(int)) if known else None
    return mend


@row("Loop")
def loop(g, op):
    r = g.random
    first = first_values(g, r.choice((0, 1, 1, 2, 3)))
    trip = iterations(g) if r.random() < 0.85 else ""
    cond = r.choice(("", "", condition(g)))
    if any(v is None for v in first + [trip, cond]):
        return None
    b = Body(g)
    iteration = b.argument([np.array(0)] * SETS, True)
    go = b.argument([np.full(cond.arrays[0].shape if cond else (), True)] * SETS, True)
    carried = bind(b, first)
    b.values += carried + [iteration]
    if r.random() < 0.5:                                                    # what differs from iteration to iteration
        x = b.pick(types=FLOAT, rank=(0, 3))
        b.node("Mul", [x, b.node("Cast", [iteration], exact=True, keep=False, to=CODES[x.type])], exact=True) if x else None
    if r.random() < 0.4:
        x = b.pick(types=CARRIED, rank=(1, 3), least=1)
        a = axis(b, x) if x else 0
        b.node("Gather", [x, b.node("Mod", [iteration, element(b, x, a)], exact=True, keep=False)], exact=True, axis=a) if x else None
    if r.random() < 0.2:
        x = b.pick(types=FLOAT, rank=(1, 3))
        part = b.node("Slice", [x, b.const(np.array([0])), b.node("Reshape", [iteration, b.const(np.array([1]))], exact=True, keep=False)],
                      exact=True, keep=False) if x else None
        b.node("ReduceSum", [part, b.const(np.array([0]))], exact=True) if part else None
    b.grow(r.choice((1, 2, 4)))
    next_ = next_values(b, carried)
    each = stacked_values(b, r.choice((0, 0, 1, 1, 2)))
    kind = r.choice(("go", "true", "below", "data")) if trip != "" else "below"
    if kind == "true":
        go = b.const(np.array(True))
    if kind == "below":
        go = b.node("Less", [iteration, b.const(np.array(r.choice((0, 1, 2, 4))))], exact=True, keep=False)
    if kind == "data":
        x = b.pick(lambda v: v in next_ or r.random() < 0.3, types=("int64", "int32", "float32"), exact=True, least=1)
        go = b.node("Less", [b.node("ReduceSum", [x], exact=True, keep=False, keepdims=0), scalar(b, x, r.choice((0, 3, 20)))],
                    exact=True, keep=False) if x else None
    if go is None or not next_ + each:
        return None
    body = b.graph([go] + next_ + each, len(each))
    return body and g.node(op, [trip, cond] + first, len(next_ + each), exact=all(v.exact for v in next_ + each),
                           mend=empty_stacks(b, carried, next_, each), body=body)


def scan_run(g, first, sequences, body, each, attributes):
    """Computes a Scan: ONNX Runtime ends with SIGFPE where it has no iterations."""
    operands = first + [v for v, _ in sequences]
    real = operands + [g.all[name] for name in captured({"body": body})]
    axes, out_axes = attributes.get("scan_input_axes", [0]), attributes.get("scan_output_axes", [0] * len(each))
    made = session(one_node("Scan", [v.name for v in operands], [f"o{k}" for k in range(len(first) + len(each))], {**attributes, "body": body},
                            {v.name: (v.type, v.rank) for v in real}))

    def run(feed):
        if feed[sequences[0][0].name].shape[axes[0]]:
            return made(feed)
        return [feed[v.name] for v in first] + [np.zeros(np.insert([1] * v.rank, at % (v.rank + 1), 0).astype(int), TYPES[v.type])
                                                for v, at in zip(each, out_axes)]
    return run


@row("Scan")
def scan(g, op):
    r = g.random
    first = first_values(g, r.choice((0, 1, 1, 2)))
    x = g.pick(lambda v: scanned(g, v), types=CARRIED, rank=(1, 4))
    if x is None or any(v is None for v in first):
        return None
    at = r.choice(scanned(g, x))
    sequences = [(x, at)]
    for _ in range(r.choice((0, 0, 1))):
        fit = [(v, i) for v in g.values if v.type in CARRIED for i in scanned(g, v) if v.sizes(i) == x.sizes(at)]
        sequences.append(r.choice(fit))
    directions = [r.randrange(2) for _ in sequences]
    b = Body(g)
    carried, b.carried, slices = bind(b, first), [], []       # ONNX Runtime writes no state that is the one before as it is
    for (v, i), backward in zip(sequences, directions):
        arrays = [np.asarray(np.take(a, -1 if backward else 0, i)) if a.shape[i] else np.ones(np.delete(a.shape, i), a.dtype) for a in v.arrays]
        slices.append(b.argument(arrays, v.exact))
    b.values += carried + slices
    b.grow(r.choice((1, 2, 4)))
    next_ = next_values(b, carried)
    each = stacked_values(b, r.choice((0, 1, 1, 2)) if first else r.choice((1, 2)))
    if not next_ + each:
        return None
    body = b.graph(next_ + each, len(each))
    attributes = {"num_scan_inputs": len(sequences)}
    if at or any(i for _, i in sequences) or r.random() < 0.2:
        attributes["scan_input_axes"] = [i - v.rank if r.random() < 0.3 else i for v, i in sequences]
    if any(directions):
        attributes["scan_input_directions"] = directions
    if each and r.random() < 0.4:
        attributes["scan_output_axes"] = [r.randrange(-v.rank - 1, v.rank + 1) for v in each]
    if each and r.random() < 0.4:
        attributes["scan_output_directions"] = [r.randrange(2) for _ in each]
    return body and g.node(op, first + [v for v, _ in sequences], len(next_ + each), exact=all(v.exact for v in next_ + each),
                           run=lambda: scan_run(g, first, sequences, body, each, attributes),
                           mend=empty_stacks(b, carried, next_, each, attributes.get("scan_output_axes")), body=body, **attributes)

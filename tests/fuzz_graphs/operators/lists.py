# SPDX-License-Identifier: Apache-2.0
"""How operators on sequences and optionals are put into a random graph (see operators/): some of them together, from tensors to tensors."""

import numpy as np
from onnx import helper

from grow import CODES, SETS
from operators.rows import row

TYPES_OF = ("float32", "float32", "float64", "int32", "int64", "bool")


class Chain:
    """Nodes between tensors: the sequence that the last of them gives, how many tensors it has, by data set, and the type of these and the
    sizes of their dims; whether all of them have the same sizes for sure, and whether one may be empty."""

    def __init__(self, g):
        self.g, self.nodes, self.operands, self.ends = g, [], [], []
        self.last = self.lengths = self.type = self.sizes = None
        self.even, self.empty = True, False

    def add(self, op, operands, to="q", **attributes):
        """A node whose operands are values, or names of what nodes before it give. Its result's name, or None."""
        if any(o is None for o in operands):
            return None
        self.operands += [o for o in operands if not isinstance(o, str)]
        name = self.g.fresh(to)
        self.nodes.append((op, [o if isinstance(o, str) else o.name for o in operands], [name], attributes))
        return name

    def grown(self, name, lengths):
        """The sequence becomes NAME; whether there is one."""
        self.last, self.lengths = name, tuple(lengths)
        return name is not None

    def end(self, name):
        self.ends += [name] if name else []

    def result(self):
        real = list({o.name: o for o in self.operands}.values())
        return self.ends and self.g.group(self.nodes, real, self.ends, all(o.exact for o in real))


def position(c, more=0):
    """A position in the sequence of C, in each data set."""
    g, at = c.g, []
    for n in c.lengths:
        if n + more <= 0:
            return None
        at.append(g.random.choice((0, n - 1 + more, g.random.randrange(-n, n + more))))
    if g.random.random() < 0.4:                                # one that is the same in all
        at = [min(max(at[0], -min(c.lengths)), min(c.lengths) - 1 + more)] * SETS
    type_ = g.random.choice((np.int64, np.int32))
    return g.feed([np.array(p, type_) for p in at])


def split(c, v):
    g, a = c.g, c.g.random.randrange(v.rank)
    c.sizes = [s for i, s in enumerate(map(v.sizes, range(v.rank))) if i != a]
    sizes, attributes = v.sizes(a), {"axis": a - v.rank if g.random.random() < 0.3 else a}
    kind = g.random.choice(("ones", "rows", "size", "sizes"))
    c.even = kind in ("ones", "rows")
    c.empty = kind == "sizes" or any(0 in v.sizes(i) for i in range(v.rank))
    if kind != "rows":
        c.sizes.insert(a, (1,) * SETS)
    if kind == "ones" or kind == "rows":
        return c.grown(c.add("SplitToSequence", [v], keepdims=int(kind == "ones"), **attributes), sizes)
    if kind == "size":
        n = g.random.choice((1, 2, 3))
        return c.grown(c.add("SplitToSequence", [v, g.const(np.array(n))], **attributes), [-(-s // n) for s in sizes])
    first = [g.random.randint(0, s) for s in sizes]
    return c.grown(c.add("SplitToSequence", [v, g.ints(*[[f, s - f] for f, s in zip(first, sizes)])], **attributes), (2,) * SETS)


def beside(c):
    """A tensor for the sequence of C."""
    g, c.even = c.g, False
    fit = [w for w in g.values if (w.type, w.rank) == (c.type, len(c.sizes))]
    if fit and g.random.random() < 0.5:
        w = g.random.choice(fit)
        c.empty = c.empty or any(0 in w.sizes(i) for i in range(w.rank))
        return w
    sizes = [s if g.random.random() < 0.6 else g.new_sizes() for s in c.sizes]
    c.empty = c.empty or any(0 in s for s in sizes)
    return g.new(c.type, sizes)


def mapped(c):
    """The sequence through a body that has one node."""
    g = c.g
    op = "Not" if c.type == "bool" else g.random.choice(("Neg", "Abs", "Add", "Mul"))
    other = g.new(c.type, [], exact=True) if op in ("Add", "Mul") and g.random.random() < 0.7 else None
    ins = ["x", "w"] if other else ["x", "x"] if op in ("Add", "Mul") else ["x"]
    info = lambda name, v: helper.make_tensor_value_info(name, CODES[c.type], v)      # noqa: E731
    rank = [None] * len(c.sizes)
    body = helper.make_graph([helper.make_node(op, ins, ["y"])], g.fresh("g"), [info("x", rank)] + ([info("w", [])] if other else []), [info("y", rank)])
    return c.grown(c.add("SequenceMap", [c.last] + ([other] if other else []), body=body), c.lengths)


def begin(c, op):
    g = c.g
    v = g.pick(types=TYPES_OF, rank=(1, 4))
    if v is None:
        return None
    c.type, c.sizes = v.type, [v.sizes(i) for i in range(v.rank)]
    c.empty = any(0 in s for s in c.sizes)
    kind = op if op in ("SplitToSequence", "SequenceConstruct", "SequenceEmpty") else g.random.choice(("SplitToSequence", "SequenceConstruct", "SequenceEmpty"))
    if kind == "SplitToSequence":
        done = split(c, v)
    elif kind == "SequenceConstruct":
        items = [v] + [beside(c) for _ in range(g.random.choice((0, 1, 1, 2)))]
        done = c.grown(c.add(kind, items), (len(items),) * SETS)
    else:
        done = c.grown(c.add(kind, [], **({"dtype": CODES[v.type]} if v.type != "float32" or g.random.random() < 0.5 else {})), (0,) * SETS) and \
            c.grown(c.add("SequenceInsert", [c.last, v]), (1,) * SETS)
    return v if done else None


@row("SequenceConstruct", "SequenceEmpty", "SplitToSequence", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength", "ConcatFromSequence",
     "SequenceMap", "Optional", "OptionalHasElement", "OptionalGetElement")
def sequence(g, op):
    r, c = g.random, Chain(g)
    if "Optional" in op and r.random() < 0.4:
        return optional_tensor(g, op)
    v = begin(c, op)
    if v is None:
        return None
    steps = r.choice(([], ["SequenceInsert"], ["SequenceErase"], ["SequenceInsert", "SequenceErase"], ["SequenceInsert", "SequenceInsert"]))
    for step in steps + ([op] if op in ("SequenceInsert", "SequenceErase") and op not in steps else []):
        insert = step == "SequenceInsert"
        at = [position(c, insert)] if r.random() < 0.7 else []
        if not insert and min(c.lengths) == 0:
            continue
        name = c.add(step, [c.last] + ([beside(c)] if insert else []) + at)
        if not c.grown(name, [n + (1 if insert else -1) for n in c.lengths]):
            return None
    if (op == "SequenceMap" or r.random() < 0.1) and not mapped(c):
        return None
    if "Optional" in op:
        name = c.add("Optional", [c.last])
        c.end(c.add("OptionalHasElement", [name], "v") if r.random() < 0.4 or op == "OptionalHasElement" else None)
        c.last = c.add("OptionalGetElement", [name])
    for end in {op, r.choice(("SequenceAt", "SequenceLength", "ConcatFromSequence"))}:
        if end == "SequenceAt" and min(c.lengths):
            c.end(c.add(end, [c.last, position(c)], "v"))
        elif end == "SequenceLength":
            c.end(c.add(end, [c.last], "v"))
        elif end == "ConcatFromSequence" and (c.even or not c.empty):       # ONNX Runtime leaves out empty tensors, whatever their sizes
            c.end(c.add(end, [c.last], "v", axis=r.randrange(-len(c.sizes), len(c.sizes)) if c.sizes else 0, 
                        **({"new_axis": 1} if c.even and r.random() < 0.3 else {})))     # ONNX Runtime stacks tensors of different sizes, too
    return c.result()


def optional_tensor(g, op):
    """A tensor as an optional, and out of it again."""
    v, c = g.pick(types=TYPES_OF), Chain(g)
    name = c.add("Optional", [v]) if v else None
    if name is None:
        return None
    c.end(c.add("OptionalHasElement", [name], "v") if op != "OptionalGetElement" else None)
    c.end(c.add("OptionalGetElement", [name], "v"))
    return c.result()

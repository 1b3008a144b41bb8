# SPDX-License-Identifier: Apache-2.0
"""Operands of every operator, mutated: operands.py BUILD FOLDER COUNT [OPERATOR ...]. Prints "N passed, N failed".

A mutant is a model of ONNX's cases, of tests/fuzz_graphs/operators or of tests/ml of which one operand, and sometimes a second one, has
another rank, size or element type, is omitted, is constant instead of an input or the other way round, or is another operand. COUNT
mutants are spread over the operators. tests/fuzz/fuzz.c compiles each: it must be refused with one diagnostic that names the node or the
input, or be compiled and then compute what the interpreter does. What ONNX Runtime takes, too, must compute the same there. Mutants that
fail stay in FOLDER/failed. JOBS: how many processes."""

import collections
import itertools
import os
import pickle
import random
import re
import shutil
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [TESTS, os.path.join(TESTS, "fuzz_graphs")]
import cases  # noqa: E402
import grow  # noqa: E402
import operators  # noqa: E402

JOBS = int(os.environ.get("JOBS", len(os.sched_getaffinity(0))))
FILES, GROWN = 5, 12       # models of an operator: those in files, those of tests/fuzz_graphs
NODES = 4                  # of a model at most
LARGEST = 4000             # bytes of a constant at most
TWICE = 0.15               # how often a mutant is mutated once more
PART = 40                  # of what is done in a process of its own
MISSES = 100               # mutants in turn that are not new: the operator has no others
TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16,
         TensorProto.INT8: np.int8, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64, TensorProto.UINT8: np.uint8,
         TensorProto.UINT64: np.uint64, TensorProto.BOOL: bool, TensorProto.STRING: object, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn}
HUGE = (2**31, 2**33 + 1, 2**40, 2**62, 2**63 - 1)


# ---- Models ----

class Slot:
    """What an operand is: its element type (or a TypeProto, of what is not a tensor), its dims (None: none are declared) and, where it is
    constant or data for it is known, an array."""

    def __init__(self, type, dims, array=None, constant=False):
        self.type, self.dims, self.array, self.constant = type, dims, array, constant

    def with_(self, **changes):
        return Slot(**{**self.__dict__, **changes})

    def can_be_constant(self):
        return self.dims is not None and self.type in TYPES and np.prod([d for d in self.dims if isinstance(d, int)], dtype=object) * 4 <= LARGEST

    def info(self, name):
        type = self.type if isinstance(self.type, onnx.TypeProto) else helper.make_tensor_type_proto(self.type, self.dims)
        return onnx.ValueInfoProto(name=name, type=type)

    def tensor(self, name):
        """The constant: the array's elements as far as there are any, of the type and the dims; symbols are 2."""
        shape = [d if isinstance(d, int) else 2 for d in self.dims]
        a = self.array if self.array is not None and self.array.size and self.array.dtype != object else np.ones(1)
        if self.type == TensorProto.STRING:
            return helper.make_tensor(name, self.type, shape, [b"a"] * int(np.prod(shape)))
        return numpy_helper.from_array(np.resize(a, shape).astype(TYPES.get(self.type, a.dtype)), name)


class Model:
    """Nodes of which one is OP, and the operands that none of them makes, slots by name."""

    def __init__(self, op, nodes, slots, imports, functions=()):
        self.op, self.nodes, self.slots, self.imports, self.functions = op, nodes, slots, imports, functions

    def proto(self):
        read = {i for n in self.nodes for i in names_read(n)}
        slots = {name: s for name, s in self.slots.items() if name in read}
        outs = [helper.make_empty_tensor_value_info(o) for n in self.nodes for o in n.output if o and o not in read]
        graph = helper.make_graph(self.nodes, "g", [s.info(name) for name, s in slots.items() if not s.constant], outs,
                                  [s.tensor(name) for name, s in slots.items() if s.constant])
        return helper.make_model(graph, opset_imports=self.imports, functions=self.functions, ir_version=10)


def names_read(node):
    """The names that NODE and its bodies read, those that the bodies define among them."""
    bodies = [a.g for a in node.attribute if a.HasField("g")]
    return [i for i in node.input if i] + [i for b in bodies for n in b.node for i in names_read(n)] + [o.name for b in bodies for o in b.output]


def operator(node):
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def of_file(path):
    """The model of a case with its data; None where it is not small, or has what NumPy lacks."""
    if os.path.getsize(path) > 4 * LARGEST:
        return None
    m, slots = onnx.load(path), {}
    g = m.graph
    if not 0 < len(g.node) <= NODES or g.sparse_initializer:
        return None
    for i, info in enumerate(g.input):
        if not info.type.HasField("tensor_type"):
            slots[info.name] = Slot(info.type, None)
            continue
        t, file = info.type.tensor_type, os.path.join(os.path.dirname(path), "test_data_set_0", f"input_{i}.pb")
        dims = [d.dim_param or (d.dim_value if d.HasField("dim_value") else None) for d in t.shape.dim] if t.HasField("shape") else None
        slots[info.name] = Slot(t.elem_type, dims, numpy_helper.to_array(onnx.load_tensor(file)) if t.elem_type in TYPES and os.path.exists(file) else None)
    for t in g.initializer:
        if t.data_type not in TYPES:
            return None
        slots[t.name] = Slot(t.data_type, list(t.dims), numpy_helper.to_array(t), True)
    main = max(g.node, key=lambda n: len(n.input))
    return Model(operator(main), list(g.node), slots, list(m.opset_import), list(m.functions))


def grown(op, seed):
    """A model of one node OP that tests/fuzz_graphs/operators makes, or None."""
    g = grow.Grower(seed)
    for _ in range(4):
        operators.ROWS[op](g, op)
        for node in g.nodes:
            names = grow.reads(node)
            if node[0] == op and all(n in g.all and g.all[n].arrays[0].nbytes <= LARGEST for n in names):
                values = {n: (g.all[n].type, g.all[n].arrays[0]) for n in names}
                slots = {n: Slot(grow.CODES[t], list(a.shape), a, n in g.constants) for n, (t, a) in values.items() if grow.CODES[t] in TYPES}
                return Model(op, [grow.make_node(*node)], slots, grow.domains([op])) if len(slots) == len(names) else None
    return None


def in_child(function, items, out):
    """Forks a process that writes FUNCTION(item) for each of ITEMS to the pipe OUT; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(out, "wb") as f:
            for item in items:
                pickle.dump(function(item), f)
                f.flush()
        os._exit(0)
    except BaseException as e:      # the child must not go on as the parent
        print(f"{type(e).__name__}: {e}", flush=True)
    os._exit(1)


def in_children(function, items):
    """FUNCTION(item) for each of ITEMS, in other processes: there are operands for which ONNX Runtime ends by a signal, and then the result
    is None."""
    items, results = list(items), []
    parts = collections.deque(items[i:i + PART] for i in range(0, len(items), PART))
    running = collections.deque()
    while parts or running:
        while parts and len(running) < JOBS:
            there, back = os.pipe()
            running.append((parts[0], in_child(function, parts.popleft(), back), there))
            os.close(back)
        part, pid, there = running.popleft()
        done = []
        with os.fdopen(there, "rb") as f:
            try:
                while len(done) < len(part):
                    done.append(pickle.load(f))
            except (EOFError, pickle.UnpicklingError):
                done.append(None)
        os.waitpid(pid, 0)
        results += done
        if len(done) < len(part):
            there, back = os.pipe()
            running.appendleft((part[len(done):], in_child(function, part[len(done):], back), there))
            os.close(back)
    return results


def collect(folder, wanted):
    """Models by operator: of ONNX's cases, of tests/ml and of the rows of tests/fuzz_graphs."""
    found, paths = {}, [f"{c.dir}/model.onnx" for c in cases.index(cases.CORPUS, ["onnx"])["onnx"]]
    subprocess.run([sys.executable, f"{TESTS}/ml/random_ml.py", f"{folder}/ml", "1", "2"], check=True)
    paths += [f"{c.dir}/model.onnx" for c in cases.find(f"{folder}/ml")]
    for m in map(of_file, paths):
        if m:
            found.setdefault(m.op, []).append(m)
    found = {op: models[::-(-len(models) // FILES)] for op, models in found.items()}
    rows = [op for op in operators.ROWS if not wanted or op in wanted]
    for op, models in zip(rows, in_children(lambda op: [m for m in (grown(op, seed) for seed in range(GROWN)) if m], rows)):
        found.setdefault(op, []).extend(models or [])
    return {op: models for op, models in found.items() if models and (not wanted or op in wanted)}


# ---- Mutations ----

def ranks(s, r):
    """Other ranks of S: (what, slot) each."""
    d = s.dims
    if d is None:
        return
    yield from [("unit first", s.with_(dims=[1] + d)), ("unit last", s.with_(dims=d + [1])), ("two first", s.with_(dims=[2] + d)),
                ("rank 9", s.with_(dims=[1] * (9 - len(d)) + d)), ("no rank", s.with_(dims=None, constant=False))]
    if d:
        yield from [("less first", s.with_(dims=d[1:])), ("less last", s.with_(dims=d[:-1])), ("scalar", s.with_(dims=[]))]


def sizes(s, r):
    """Other sizes of S."""
    for k, d in enumerate(s.dims or []):
        for what, size in ("0", 0), ("1", 1), ("more", d + 1 if isinstance(d, int) else 5), ("twice", d * 2 if isinstance(d, int) else 6), ("S", "S"), \
                ("unknown", None), ("huge", r.choice(HUGE)):
            yield f"dim {k} {what}", s.with_(dims=s.dims[:k] + [size] + s.dims[k + 1:], constant=s.constant and isinstance(size, int) and size < 100)
    if s.dims and len(s.dims) > 1:
        yield "all symbols", s.with_(dims=[f"S{k}" for k in range(len(s.dims))], constant=False)
        yield "all one symbol", s.with_(dims=["S"] * len(s.dims), constant=False)
        yield "reversed", s.with_(dims=s.dims[::-1])


def types(s, r):
    """Other element types of S."""
    for t in TYPES:
        if isinstance(s.type, int) and t != s.type:
            yield f"type {TensorProto.DataType.Name(t)}", s.with_(type=t)
    if not isinstance(s.type, int):
        yield "a tensor", Slot(TensorProto.FLOAT, [2, 3])


def kinds(s, r):
    """Constant instead of input, and the other way round."""
    if s.constant:
        yield "input", s.with_(constant=False)
    elif s.can_be_constant():
        yield "constant", s.with_(constant=True)


def others(m, name):
    """M without an operand NAME, or with another operand in its place."""
    for i, node in enumerate(m.nodes):
        for k in (k for k, n in enumerate(node.input) if n == name):
            for other in ["", *(o for o in m.slots if o != name)]:
                copy = onnx.NodeProto()
                copy.CopyFrom(node)
                copy.input[k] = other
                while copy.input and not copy.input[-1]:
                    del copy.input[-1]
                yield f"node {i} operand {k} is {other or 'omitted'}", Model(m.op, m.nodes[:i] + [copy] + m.nodes[i + 1:], m.slots, m.imports, m.functions)


FAMILIES = [ranks] * 3 + [sizes] * 4 + [types] * 2 + [kinds] + [others] * 2


def mutation(m, name, family, r):
    """What a mutation of operand NAME of M is, and the model, or None."""
    if family is others:
        return r.choice(list(others(m, name)) or [None])
    slots = [(f"{name} {what}", Model(m.op, m.nodes, {**m.slots, name: slot}, m.imports, m.functions)) for what, slot in family(m.slots[name], r)]
    return r.choice(slots or [None])


def positions(models):
    """The operands of MODELS, (model, name), by their position in the operator, or by their names where another node has them."""
    found = {}
    for m in models:
        node = next(n for n in m.nodes if operator(n) == m.op)
        for name in m.slots:
            at = list(node.input).index(name) if name in node.input else name
            found.setdefault(str(at), []).append((m, name))
    return found


def mutants(op, models):
    """Mutants of OP, each once, until there are hardly new ones: (what, model). The positions come by turns, and at each the families."""
    r, seen, misses = random.Random(op), set(), 0
    turns = [(at, itertools.cycle(r.sample(FAMILIES, len(FAMILIES)))) for at in positions(models).values()]
    for at, families in itertools.cycle(turns):
        m, name = r.choice(at)
        first = mutation(m, name, next(families), r)
        found, more = [first] if first else [], first and r.random() < TWICE
        if more:
            found += filter(None, [mutation(first[1], r.choice(list(m.slots)), r.choice(FAMILIES), r)])
        misses += 1
        try:
            data = found[-1][1].proto().SerializeToString() if found else None
        except (ValueError, TypeError, OverflowError):       # a constant that NumPy cannot convert
            data = None
        if data and data not in seen:
            misses = 0
            seen.add(data)
            yield ", ".join(what for what, _ in found), data
        if misses > MISSES:
            return


def write(folder, found, count):
    """Writes COUNT mutants, the operators by turns, those with many operands more often. Returns what each is, by file name."""
    made, idle, turns = {}, 0, []
    for op, models in sorted(found.items()):
        turns += [(op, mutants(op, models))] * len(positions(models))
    for op, source in itertools.cycle(turns):
        mutant = next(source, None)
        if mutant:
            name = f"{len(made):06}-{op}.onnx"
            made[name] = f"{op}: {mutant[0]}"
            with open(f"{folder}/{name}", "wb") as f:
                f.write(mutant[1])
        idle = 0 if mutant else idle + 1
        if len(made) == count or idle > len(turns):
            return made


# ---- Judging ----

# Results that are not compared with ONNX Runtime's, by operator.
INCOMPARABLE = {
    **dict.fromkeys(("Cast", "CastLike"), "floats that no integer of the type is near"),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"), "random numbers"),
    **dict.fromkeys(("Pow", "ReduceLogSum", "ReduceLogSumExp"), "integers that overflow"),
    "Squeeze": "empty axes are all axes in ONNX Runtime, and axes may repeat",
    **dict.fromkeys(("com.microsoft.MoE", "com.microsoft.QMoE"), "experts of the same score"),
    "MeanVarianceNormalization": "ONNX Runtime's variance of equal numbers may be below 0",
    "Optional": "the results are written as their parts",
    "com.microsoft.GroupQueryAttention": "rows of caches that no key is in",
    "com.microsoft.QLinearSoftmax": "ONNX Runtime's table takes scales to be above 0",
}


def is_comparable(m, feeds):
    """Whether the standard, or ONNX Runtime for its own operators, says what the results of M are. Of empty operands ONNX Runtime reduces
    to other shapes and values than the standard's; its OneHot does not cast indices, and its own operators
    read scales of high rank as something else. No scale is 0 or below."""
    values = [*feeds.values(), *map(numpy_helper.to_array, m.graph.initializer)]
    for node in m.graph.node:
        op = operator(node)
        sorts = any(a.name == "sorted" and not a.i for a in node.attribute)
        if op in INCOMPARABLE or (op == "TopK" and sorts) or \
                (op.startswith(("Reduce", "ArgM", "ConvI")) and not all(a.size for a in values)) or \
                (op == "OneHot" and any(a.dtype.kind == "f" for a in values)) or \
                ("Q" in op and any(a.size == 1 and not a.item() > 0 for a in values if a.dtype.kind == "f")) or \
                (node.domain == "com.microsoft" and any(a.ndim > 5 for a in values)):
            return False
    return True


def fuzz(build, folder, made):
    """Each of the mutants MADE through tests/fuzz/fuzz.c, which writes those that ran to FOLDER/ran. Returns why mutants failed, by file name."""
    names, failed = sorted(made), {}
    r = subprocess.run([f"{build}/tests/fuzz/fuzz", "--plain", "--one-fault", f"--count={len(names)}", f"--models={len(names)}", f"--jobs={JOBS}",
                        f"--samples={folder}/ran", "--every=1", f"{folder}/mutants"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = r.stdout.splitlines()
    for line in lines:
        found = re.match(r"FAIL \d+-(\d+): (.*)", line)
        if found:
            failed[names[int(found[1])]] = found[2]
    if r.returncode not in (0, 1) or (r.returncode and not failed):
        failed[names[0]] = f"tests/fuzz/fuzz: status {r.returncode}: {lines[-1:]}"
    print(lines[-1] if lines else "no output")
    return failed


def read_tensors(folder, role):
    return [onnx.load_tensor(f"{folder}/{role}_{i}.pb") for i in range(len([f for f in os.listdir(folder) if f.startswith(role)]))]


def beside_runtime(case):
    """None where ONNX Runtime refuses the mutant CASE, else how its results differ, or ""."""
    m = onnx.load(f"{case}/model.onnx")
    data = f"{case}/test_data_set_0"
    feeds = {t.name: numpy_helper.to_array(t) for t in read_tensors(data, "input")}
    if not is_comparable(m, feeds):
        return ""
    try:
        want = grow.session(m)(feeds)
    except Exception:       # also where NumPy cannot hold the results
        return None
    got = list(map(numpy_helper.to_array, read_tensors(data, "output")))
    if not all(isinstance(w, np.ndarray) for w in want):      # sequences, which are written as their parts
        return ""
    return "; ".join(filter(None, (differences(o.name, a, b) for o, a, b in zip(m.graph.output, got, want))))


def differences(name, a, b):
    """How result NAME of dlcc, A, differs from ONNX Runtime's, B; "" where it does not."""
    if a.dtype == ml_dtypes.float8_e4m3fn:      # which ONNX Runtime gives as bytes
        a = a.view(np.uint8)
    if not a.size and not b.size:               # what no iteration of a loop has stacked
        return ""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{name} is {a.dtype}{list(a.shape)}, in ONNX Runtime {b.dtype}{list(b.shape)}"
    if not a.size or a.dtype.kind not in "fiub":
        return ""
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if a.dtype.kind == "f":
        finite = np.isfinite(x) & np.isfinite(y)
        most = np.abs(y[finite]).max(initial=0)
        with np.errstate(all="ignore"):
            same |= finite & (np.abs(x - y) <= {2: 1e-2, 4: 1e-3, 8: 1e-6}[a.dtype.itemsize] * max(most, 1e-3))
    elif a.dtype.itemsize == 1 and a.dtype.kind != "b":
        same |= np.abs(x - y) <= 1          # next to the middle of two integers
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{name}{list(at)} is {a[at]}, in ONNX Runtime {b[at]}"


def main(build, folder, count, wanted):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/mutants")
    os.makedirs(f"{folder}/failed")
    made = write(f"{folder}/mutants", collect(folder, wanted), count)
    failed = fuzz(build, folder, made)
    names = sorted(made)
    ran = sorted(d for d in os.listdir(f"{folder}/ran") if os.path.exists(f"{folder}/ran/{d}/test_data_set_0/output_0.pb"))
    verdicts = collections.Counter()
    for d, verdict in zip(ran, in_children(beside_runtime, [f"{folder}/ran/{d}" for d in ran])):
        name = names[int(d.partition("-")[2])]
        verdicts["refused" if verdict is None else "differs" if verdict else "same"] += 1
        if verdict and name not in failed:
            failed[name] = verdict
    print(f"{len(ran)} ran; in ONNX Runtime: " + ", ".join(f"{n} {what}" for what, n in verdicts.items()))
    for name, why in failed.items():
        shutil.copy(f"{folder}/mutants/{name}", f"{folder}/failed/{name}")
        print(f"FAIL: {name}: {made[name]}: {why[:400]}")
    print(f"{len(made) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))

# SPDX-License-Identifier: Apache-2.0
"""Long and deeply nested models: test_deep.py BUILD FOLDER, run by run.sh. The limits are those that docs/cli.md states."""

import os
import re
import resource
import subprocess
import sys
import time

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

BUILD, FOLDER = (os.path.abspath(p) for p in sys.argv[1:3])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DLCC, OPT, DLRUN = (f"{BUILD}/bin/{p}" for p in ("dlcc", "dlcc-opt", "dlrun"))
LONG = 100000 if os.environ.get("TESTS") == "all" else 2000
KIB, MIB = 1 << 10, 1 << 20
SMALL, USUAL = 64 * KIB, 8 * MIB
passed = failed = 0


def check(ok, what, shown=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL: {what}: {shown}"[:600], flush=True)


def documented():
    """The numbers of docs/cli.md: the program's stack, that of its commands, and how deep things may be nested."""
    with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as f:
        text = " ".join(f.read().split())
    found = re.search(r"work on a stack of (\d+) MiB .*?get (\d+) MiB.*?nested (\d+) deep, expressions of kernels (\d+), and those of sizes (\d+)", text)
    return [int(n) for n in found.groups()]


def run(*command, stack=SMALL, hard=True):
    """The finished COMMAND under a limit of the stack. HARD: it cannot be raised."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (stack, stack if hard else resource.getrlimit(resource.RLIMIT_STACK)[1]))
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, errors="replace", timeout=500 * float(os.environ.get("PATIENCE", 1)), preexec_fn=limit, check=False)


def at(name):
    return os.path.join(FOLDER, name)


def write(name, data):
    with open(at(name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode() if isinstance(data, str) else data.SerializeToString())
    return name


# ---- Models. Python's protobuf nests messages 100 deep at most, so those of subgraphs are put together as bytes ----

def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def field(number, contents):
    return varint(number << 3 | 2) + varint(len(contents)) + contents


def value(name, shape=("n",), code=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, code, shape)


def model(nodes, inputs, outputs, inits=(), functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(inits))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("my", 1)], ir_version=10, functions=list(functions))


def with_node(proto, node):
    """The bytes of PROTO with the node NODE, bytes, before its others."""
    graph = field(1, node) + proto.graph.SerializeToString()
    rest = ModelProto()
    rest.CopyFrom(proto)
    rest.ClearField("graph")
    return rest.SerializeToString() + field(7, graph)


def of_graph(name, body):
    return field(1, name) + field(6, body) + b"\xa0\x01\x05"


def ifs(depth):
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["m"])], "e", [], [value("m", None)]).SerializeToString()
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], [value("r", None)]).SerializeToString()
    for _ in range(depth):
        node = field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, of_graph(b"then_branch", body)) + field(5, of_graph(b"else_branch", other))
        body = field(1, node) + field(2, b"b") + field(12, value("y", None).SerializeToString())
    return with_node(model([], [value("c", (), TensorProto.BOOL), value("x")], [value("y", None)]), node)


def loops(depth):
    """Each runs its body twice: Relu is computed 2^DEPTH times."""
    inner = helper.make_node("Relu", ["a"], ["b"]).SerializeToString()
    infos = b"".join(field(11, v.SerializeToString()) for v in (value("i", (), TensorProto.INT64), value("ci", (), TensorProto.BOOL), value("a"))) + \
        b"".join(field(12, v.SerializeToString()) for v in (value("co", (), TensorProto.BOOL), value("b")))
    keep, again = (helper.make_node("Identity", [x], [y]).SerializeToString() for x, y in (("ci", "co"), ("y", "b")))
    for i in range(depth):
        body = field(1, keep) + (inner if i else field(1, inner)) + field(2, b"l") + infos
        node = field(1, b"k") + field(1, b"c") + field(1, b"x" if i == depth - 1 else b"a") + field(2, b"y") + field(4, b"Loop") + field(5, of_graph(b"body", body))
        inner = field(1, node) + field(1, again)
    return with_node(model([], [value("k", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("x")], [value("y")]), node)


def functions(depth):
    """Functions, each of which calls the one before it."""
    made = []
    for i in range(depth):
        node = helper.make_node(f"F{i - 1}", ["a"], ["b"], domain="my") if i else helper.make_node("Relu", ["a"], ["b"])
        made.append(helper.make_function("my", f"F{i}", ["a"], ["b"], [node], [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]))
    return model([helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="my")], [value("x")], [value("y", None)], functions=made)


def chain(ops, n):
    """N nodes, of OPS in turn, each of the one before it and, where an operator has two operands, of the input."""
    nodes = [helper.make_node(op, [f"t{i}", "t0"][:1 + (op in ("Add", "Mul", "Concat"))], [f"t{i + 1}"], **({"axis": 0} if op == "Concat" else {}))
             for i, op in enumerate((ops * n)[:n])]
    return model(nodes, [value("t0", ("n", 4))], [value(f"t{n}", None)])


def sizes(op, n):
    """A size that N divisions or maxima compute."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    for i in range(n):
        nodes += [helper.make_node(op, [f"s{i}", "c"], [f"q{i}"]), helper.make_node("Add", [f"q{i}", "d"], [f"s{i + 1}"])]
    nodes.append(helper.make_node("ConstantOfShape", [f"s{n}"], ["y"]))
    inits = [numpy_helper.from_array(np.array([v], np.int64), name) for name, v in (("c", 3), ("d", 7))]
    return model(nodes, [value("x")], [value("y", None)], inits)


def constants(n):
    nodes = [helper.make_node("Sin", [f"t{i}"], [f"t{i + 1}"]) for i in range(n)] + [helper.make_node("Add", ["x", f"t{n}"], ["y"])]
    return model(nodes, [value("x", (4,))], [value("y", None)], [numpy_helper.from_array(np.ones(4, np.float32), "t0")])


def regions(depth):
    text = f"%y{depth} = Relu(%x{depth}) : ?\n"
    for i in reversed(range(depth)):
        text = (f"%y{i} = If(%c{i}, %c{i}, %x{i}, %x{i}) {{captures = [2, 1]}} : ? {{\n"
                f"graph @then_branch(%c{i + 1}: bool[], %x{i + 1}: f32[n]) -> (%y{i + 1}) {{\n" + text +
                f"}}\ngraph @else_branch(%z{i}: f32[n]) -> (%w{i}) {{\n%w{i} = Neg(%z{i}) : ?\n}}\n}}\n")
    return "dlir 1\ngraph @main(%c0: bool[], %x0: f32[n]) -> (%y0) {\n" + text + "}\n"


def operator(depth):
    return ("dlir 1\noperator my::Op(%x: T[S...]) -> (%y: T[S...]) where T in f32 kernel {\n  y[i] = " +
            "neg(" * depth + "x[i]" + ")" * depth + " for i < S\n}\n")


def size_text(depth):
    return "dlir 1\ngraph @main(%x: f32[" + "(" * depth + "n" + ")" * depth + "]) -> (%y) {\n  %y = Relu(%x) : ?\n}\n"


# ---- Tests ----

def compiles(name, *options, out="out.c", refused=None):
    """DLCC makes OUT of the file NAME, or refuses it by a message like REFUSED, under both stacks alike."""
    for stack in USUAL, SMALL:
        r = run(DLCC, name, *options, "-o", out, stack=stack)
        there = os.path.exists(at(out))
        good = (r.returncode == 1 and re.search(refused, r.stderr) and not there) if refused else (r.returncode == 0 and there)
        check(good, f"{name}, a stack of {stack // KIB} KiB", (r.returncode, r.stderr[-300:]))
        for left in (out, "out.h"):
            if os.path.exists(at(left)):
                os.unlink(at(left))


def test_nested(deep, exprs, dims):
    compiles(write("ifs.onnx", ifs(deep)))
    compiles("ifs.onnx", out="nested.dl")
    compiles(write("loops.onnx", loops(deep)))
    compiles(write("functions.onnx", functions(deep)))
    compiles(write("regions.dl", regions(deep)))
    compiles(write("sizes.dl", size_text(dims)))
    write("use.onnx", model([helper.make_node("Op", ["x"], ["y"], domain="my")], [value("x")], [value("y", None)]))
    compiles("use.onnx", "--op=" + write("op.dl", operator(exprs)))
    for n in deep + 1, deep + 2, 2000:
        compiles(write("ifs.onnx", ifs(n)), refused="nested more than 64 deep|nested too deeply")
        compiles(write("loops.onnx", loops(n)), refused="nested more than 64 deep|nested too deeply")
        compiles(write("functions.onnx", functions(n)), refused=f"functions are nested more than {deep} deep")
        compiles(write("regions.dl", regions(n)), refused=f"regions are nested more than {deep} deep")
    for n in exprs + 1, 1000, 100000:
        compiles("use.onnx", "--op=" + write("op.dl", operator(n)), refused="nested too deeply")
    for n in dims + 1, 1000, 100000:
        compiles(write("sizes.dl", size_text(n)), refused="error: ")


def test_long(*_):
    for name, made in (("relu", chain(["Relu"], LONG)), ("sums", chain(["Add", "Mul", "Sin"], LONG)), ("rows", chain(["Softmax"], LONG // 5)),
                       ("joined", chain(["Concat"], LONG // 20)), ("quotients", sizes("Div", LONG // 10)), ("maxima", sizes("Max", LONG // 10)), ("constants", constants(LONG))):
        compiles(write(name + ".onnx", made))
    for stack in USUAL, SMALL:
        r = run(OPT, "sums.onnx", "-p", "infer,canon,lower,fuse", "--verify", "--no-graph", stack=stack)
        check(r.returncode == 0, "dlcc-opt", r.stderr[-300:])
    r = run(DLCC, write("short.onnx", chain(["Add", "Mul", "Sin"], 200)), "--verify", "--dump-ir=sched")
    check(r.returncode == 0 and "0 not proved, 0 wrong" in r.stderr, "--verify", r.stderr[-300:])
    if "cuda:" in subprocess.run([DLCC, "--list-targets"], capture_output=True, text=True, check=True).stdout:
        compiles("short.onnx", "--target=cuda:sm_80", out="out.ptx")


def test_code(*_):
    """C compilers get a stack of the usual size where the limit may be raised; else the message says what is wrong."""
    write("short.onnx", chain(["Add", "Mul", "Sin"], 50))
    r = run(DLCC, "short.onnx", "-O1", "-o", "out.so", hard=False)
    check(r.returncode == 0, "a limit that may be raised", r.stderr[-300:])
    for command in ([DLRUN, "out.so", "--bench", "--seconds=0.1", "--threads=2"], [DLRUN, "out.so", "--profile", "--roof=1,1"], [DLRUN, "out.so"]):
        for stack in USUAL, SMALL:
            r = run(*command, stack=stack)
            check(r.returncode == 0, f"dlrun {command[2:]}", r.stderr[-300:])
    r = run(DLCC, "short.onnx", "-O1", "-o", "other.so")
    check(r.returncode == 0 or (r.returncode == 1 and "its stack has 64 KiB at most, and compilers need more; raise the limit (ulimit -s 8192)" in r.stderr and
                                not os.path.exists(at("other.so"))), "a limit that may not", (r.returncode, r.stderr[-300:]))
    r = run(DLCC, write("ifs.onnx", ifs(20)), "-O0", "-o", "ifs.so", stack=USUAL)
    check(r.returncode == 0, "code of nested branches", r.stderr[-300:])


def test_stack(stack, commands):
    """The sizes that are documented are those that there are."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (SMALL, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    with subprocess.Popen([DLRUN, "out.so", "--bench", "--seconds=20"], cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit) as p:
        found, end = [], time.monotonic() + 15
        while not found and time.monotonic() < end:
            time.sleep(0.1)
            with open(f"/proc/{p.pid}/maps") as f:
                sizes = [int(hi, 16) - int(lo, 16) for lo, hi in re.findall(r"^(\w+)-(\w+) rw-p", f.read(), re.M)]
            found = [n for n in sizes if abs(n - stack * MIB) <= 64 * KIB]
        with open(f"/proc/{p.pid}/limits") as f:
            soft = re.search(r"Max stack size +(\S+)", f.read())[1]
        p.kill()
    check(found, f"no stack of {stack} MiB", sizes)
    check(soft == str(commands * MIB), f"no limit of {commands} MiB for commands", soft)
    r = run(DLCC, "short.onnx", "-o", "out.c", stack=USUAL)
    check(r.returncode == 0, "short")
    r = subprocess.run(["sh", "-c", f"ulimit -v 50000; exec {DLCC} short.onnx -o out.c"], cwd=FOLDER, capture_output=True, text=True, check=False)
    check(r.returncode == 1 and f"dlcc: error: cannot make a stack of {stack} MiB" in r.stderr, "no memory for a stack", r.stderr)


stack, commands, deep, exprs, dims = documented()
test_nested(deep, exprs, dims)
test_long()
test_code()
test_stack(stack, commands)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)

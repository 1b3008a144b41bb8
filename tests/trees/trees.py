# SPDX-License-Identifier: Apache-2.0
"""Compiles graphs of the folder BENCH twice: from the model, and from the text that --dump-ir=sched printed of it.

The text that is printed of the text, and the C or PTX that is generated from it, must be the same bytes. Weights are holes in a
sparse file, since no code depends on them."""

import os
import subprocess
import sys
import tempfile

import onnx
import onnx.helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.environ.get("BENCH") or os.path.join(ROOT, "..", "shared", "bench")
GRAPHS = os.path.join(BENCH, "graphs")
ALL = os.environ.get("TESTS") == "all"
SMALL = 20 << 20  # bytes of weights of graphs whose C is always compared
GPU = "dlrm", "mobilenet_v2"  # graphs whose PTX is always compared
NARROW = "mobilenet_v2"  # whose trees are printed with weights of bf16, too


def tensors(graph):
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from tensors(attribute.g)


def write_model(name, folder):
    """Writes the model with weights that are 0; returns its path and the bytes of the weights."""
    model = onnx.load(os.path.join(GRAPHS, name + ".onnx"), load_external_data=False)
    at = 0
    for t in tensors(model.graph):
        if "recipe" not in {e.key for e in t.external_data}:
            continue
        size = onnx.helper.tensor_dtype_to_np_dtype(t.data_type).itemsize
        for n in t.dims:
            size *= n
        del t.external_data[:]
        for key, value in ("location", "weights.bin"), ("offset", str(at)), ("length", str(size)):
            e = t.external_data.add()
            e.key, e.value = key, value
        at += (size + 4095) // 4096 * 4096
    with open(os.path.join(folder, "weights.bin"), "wb") as f:
        f.truncate(at)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(model, path)
    return path, at


def compiled(path, target, *options):
    made = subprocess.run(["dlcc", path, "--target=" + target, *options], capture_output=True, text=True)
    if made.returncode:
        raise ValueError(f"dlcc {os.path.basename(path)}: {made.stderr.strip()[-300:]}")
    return made.stdout


def code(path, target, folder):
    """The C or PTX of a model or text."""
    gpu = target.startswith("cuda")
    output = os.path.join(folder, "code.ptx" if gpu else "code.c")
    weights = os.path.join(folder, "code.weights")
    compiled(path, target, "--name=m", "-o", output, *([] if gpu else ["--weights=" + weights]))
    with open(output) as f:
        return f.read()


def check(path, target, codes, folder):
    """Null, or what is another text."""
    text = os.path.join(folder, "trees.dl")
    gpu = ["-o", os.path.join(folder, "dump.ptx")] if target.startswith("cuda") else []
    printed = compiled(path, target, "--dump-ir=sched", *gpu)
    with open(text, "w") as f:
        f.write(printed)
    if compiled(text, target, "--dump-ir=sched", *gpu) != printed:
        return "the text"
    return "the code" if codes and code(path, target, folder) != code(text, target, folder) else None


def check_narrow(path, folder):
    """Null, or what is wrong: rounded weights are in no file, and a text has only a few elements, so it is refused where they lack."""
    text = os.path.join(folder, "trees.dl")
    with open(text, "w") as f:
        f.write(compiled(path, "cpu:v3", "--weights-as=bf16", "--dump-ir=sched"))
    try:
        compiled(text, "cpu:v3", "--dump-ir=sched")
    except ValueError as e:
        return None if "lacks the elements of a constant that a pass computed" in str(e) else str(e)
    return "the elements"


def main():
    names = sys.argv[1:] or sorted(name[:-len(".onnx")] for name in os.listdir(GRAPHS) if name.endswith(".onnx"))
    passed = failed = 0
    lacks = subprocess.run(["dlcc", "--list-targets"], capture_output=True, text=True).stdout
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path, weights = write_model(name, folder)
            every = ALL or len(sys.argv) > 1
            cases = [("cpu:v3", every or weights < SMALL)] + [("cuda:sm_80", True)] * ("sm_80" in lacks and (every or name in GPU))
            checks = [(target, lambda t=target, c=codes: check(path, t, c, folder)) for target, codes in cases]
            checks += [("cpu:v3 --weights-as=bf16", lambda: check_narrow(path, folder))] * (name == NARROW)
            for what, run in checks:
                try:
                    fault = run()
                except ValueError as e:
                    fault = str(e)
                passed, failed = passed + (fault is None), failed + (fault is not None)
                if fault:
                    print(f"FAIL: {name} for {what}: {fault} of the printed trees differs" if fault.startswith("the ") else f"FAIL: {name}: {fault}")
    if not passed + failed:
        print(f"FAIL: {GRAPHS} has no graphs")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


sys.exit(main())

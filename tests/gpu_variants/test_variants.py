# SPDX-License-Identifier: Apache-2.0
"""Products whose sizes, and rows whose length is not known when they are compiled: test_variants.py BUILD DIR. One artifact each runs under
the simulator with various sizes. Results must be right, the kernel the one whose guard holds, launched or in a
graph, and a product of one row must read its matrix once."""

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
ROWS = (1, 0), (1, 1), (1, 5), (2, 4), (1, 8), (3, 3), (1, 100), (2, 100)
TYPES = {"float": np.float32, "float16": np.float16}

MORE = 4, 300  # for the one case that is small enough
STEP = 884736  # of results, on the 108 SMs of sm_80; a product has a variant up to it where the model of the tiles saves most by that one

# Model; an input whose name is in capitals is a constant. Shapes of the others of (batch, rows); the rows of a product or the length of a row,
# with the steps up to which there are variants for float and float16, and its results, with those; how much one row may read over all bytes.
# Tiles read a constant matrix of float16, in the order of fragments, for one row as for 8.
CASES = {
    "columns": ("(T[B,S,256] x, T[256,192] W, T[192] C) => (T[B,S,192] y) { p = MatMul(x, W) a = Add(p, C) y = Relu(a) }",
                lambda b, s: [(b, s, 256)], lambda b, s: b * s, ((1, 8), (8,)), lambda b, s: 192 * b * s, ((), (STEP,)), 1.15),
    "many columns": ("(T[B,S,64] x, T[64,3072] W) => (T[B,S,3072] y) { y = MatMul(x, W) }",
                     lambda b, s: [(b, s, 64)], lambda b, s: b * s, ((1, 8), (8,)), lambda b, s: 3072 * b * s, ((STEP,), (STEP,)), 1.1),
    "few columns": ("(T[B,S,64] x, T[64,8] W) => (T[B,S,8] y) { y = MatMul(x, W) }",
                    lambda b, s: [(b, s, 64)], lambda b, s: b * s, ((1, 8), (1, 8)), lambda b, s: 8 * b * s, ((), ()), 1.15),
    "rows": ("(T[B,S,256] x, T[192,256] w) => (T[B,S,192] y) { t = Transpose<perm = [1,0]>(w) p = MatMul(x, t) y = Relu(p) }",
             lambda b, s: [(b, s, 256), (192, 256)], lambda b, s: b * s, ((8,), (8,)), lambda b, s: 192 * b * s, ((), (STEP,)), 2),
    "heads": ("(T[B,S,128] x, T[128,96] W) => (T[B,3,S,32] y) <int64[4] shape = {0, 0, 3, 32}> { p = MatMul(x, W)"
              " r = Reshape(p, shape) y = Transpose<perm = [0,2,1,3]>(r) }", lambda b, s: [(b, s, 128)], lambda b, s: b * s, ((1, 8), (8,)),
              lambda b, s: 96 * b * s, ((STEP,), ()), 1.15),
    "attention": ("(T[B,2,S,32] q, T[B,2,U,32] k, T[B,2,U,32] v) => (T[B,2,S,32] y) { t = Transpose<perm = [0,1,3,2]>(k)"
                  " p = MatMul(q, t) w = Softmax<axis = -1>(p) y = MatMul(w, v) }",
                  lambda b, s: [(b, 2, s, 32), (b, 2, s + 70, 32), (b, 2, s + 70, 32)], lambda b, s: s, ((16,), (16,)),
                  lambda b, s: 64 * b * s, ((), ()), 2),
    "rows of any length": ("(T[B,L] x) => (T[B,L] y) { y = Softmax(x) }", lambda b, s: [(b + 2, 41 * s + 3)], lambda b, s: 41 * s + 3,
                           ((128, 1024, 2048, 4096),) * 2, lambda b, s: 0, ((), ()), 1.35),
    # Of sums that may be long; their lengths are LENGTHS by rows.
    "long sums": ("(T[B,2,S,U] p, T[B,2,U,32] v) => (T[B,2,S,32] y) { y = MatMul(p, v) }",
                  lambda b, s: [(b, 2, s, LENGTHS[s]), (b, 2, LENGTHS[s], 32)], lambda b, s: s, ((1, 8), (1, 8)), lambda b, s: 64 * b * s, ((), ()), 1.3),
}
LENGTHS = {0: 40, 1: 1100, 3: 2000, 4: 5000, 5: 1024, 8: 4700, 100: 1500}


def run(*command, **env):
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(300), env=samples.simulated(BUILD, **env))
    assert r.returncode == 0, f"status {r.returncode}: {r.stdout}{r.stderr}"
    return r.stdout


def build(folder, text, t):
    """Compiles the model, and gives it."""
    os.makedirs(folder)
    model = samples.model("model " + text.replace("T[", t + "["), 22)
    rng = np.random.default_rng(1)
    for x in model.graph.input:
        if x.name.isupper():
            shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
            model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(TYPES[t]), x.name))
    inputs = [x for x in model.graph.input if not x.name.isupper()]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, f"{folder}/model.onnx")
    run(BUILD + "/bin/dlcc", f"{folder}/model.onnx", "--target=cuda:sm_80", "--verify", "-Wno-unproved" if "Softmax<" in text else "-Werror=unproved", "-o", f"{folder}/model.so", *samples.unoptimised())
    return model


def data(folder, model, shapes, t):
    rng = np.random.default_rng(2)
    feeds = {x.name: rng.standard_normal(s).astype(TYPES[t]) for x, s in zip(model.graph.input, shapes)}
    results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    samples.tensors(f"{folder}/test_data_set_0", "input", feeds)
    samples.tensors(f"{folder}/test_data_set_0", "output", dict(zip((o.name for o in model.graph.output), results)))


def kernels(path):
    return json.load(open(path))["kernels"]


def chosen(path):
    """Steps of the variants that ran; 0 is the last one, and what has none."""
    names = [k["kernel"].rpartition("_upto_") for k in kernels(path)]
    return {int(step.split("_")[0]) if found else 0 for _, found, step in names}


def wanted(case, b, s, t):
    """The step of the first guard that holds, 0 where there is none."""
    _, _, rows, few, results, steps, _ = case
    first = [n for n in few[t != "float"] if rows(b, s) <= n] + [n for n in steps[t != "float"] if results(b, s) <= n]
    return first[0] if first else 0


def check(folder, model, case, b, s, t):
    shapes, over = case[1], case[-1]
    where = f"{folder}/{b}x{s}"
    data(where, model, shapes(b, s), t)
    sm = 86 if (b + s) % 2 else 80  # of the second, blocks have less shared memory
    told = run(BUILD + "/bin/dlrun", f"{folder}/model.so", "--device=cuda", "--data", where, "--profile", "--json", PTXSIM_STATS=where + ".json", PTXSIM_SM=sm)
    ran, step = chosen(where + ".json"), wanted(case, b, s, t)
    own = ran & {*case[3][t != "float"], *case[5][t != "float"]}  # rows of unknown length beside a product have steps, too
    assert (step in ran or not b * s) and all(n >= step for n in own), f"{ran} ran, not {step}"
    assert not step or not b * s or f"<= {step}" in told, f"the profile does not speak of {step}: {told}"
    if (b, s) == (1, 1):
        read = sum(32 * k["global_load_sectors"] for k in kernels(where + ".json"))
        elements = [*shapes(b, s), *(x.dims for x in model.graph.initializer if x.name.isupper())]
        least = np.dtype(TYPES[t]).itemsize * sum(int(np.prod(x)) for x in elements)
        assert read <= over * least, f"{read / least:.3f} times the bytes are read"
        run(BUILD + "/bin/dlrun", f"{folder}/model.so", "--device=cuda", "--bench", "--seconds=0.01",
            PTXSIM_STATS=where + ".graph.json", PTXSIM_SM=sm)
        assert chosen(where + ".graph.json") == chosen(where + ".json"), "the graph has other kernels"


def main():
    done = failed = 0
    types = "float", "float16"
    for i, (name, case) in enumerate(CASES.items()):
        for t in types if os.environ.get("TESTS") != "share" else types[i % 2:][:1]:  # in a share of the tests, the types in turn
            folder = f"{DIR}/{name}-{t}".replace(" ", "-")
            model = build(folder, case[0], t)
            for b, s in (*ROWS, MORE) if name == "heads" else ROWS:
                try:
                    done += 1
                    check(folder, model, case, b, s, t)
                except Exception as e:  # of any kind: the test's failure
                    failed += 1
                    print(f"FAIL: {name} {t} of {b}, {s}: {type(e).__name__}: {str(e)[:600]}")
    print(f"{done - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Scatters on the simulated GPU: test_scatter.py BUILD DIR. Updates meet: there are more of them than places. Values are small
integers (and NaNs), whose sums and products are exact, so every order of updates gives the same; where the last one wins,
only one order does."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:3])
SEEDS = range(1, 17 if os.environ.get("TESTS") != "share" else 4)
# ONNX's names, and numpy's for what the model reads and gives; other types are cast on the way in and out.
TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
         "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "bool": np.bool_}
CAST = {"bfloat16": (16, "float", 1), "int4": (22, "int32", 6), "uint4": (21, "int32", 6)}
COMBINE = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": np.maximum, "min": np.minimum}
tests = []


def test(fn):
    tests.append(fn)
    return fn


def run(*command, status=0, **env):
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(120), env=samples.simulated(BUILD, **env))
    assert r.returncode == status, f"{' '.join(command)}: status {r.returncode}: {r.stdout}{r.stderr}"
    return r.stdout + r.stderr


def compiled(name, text, target="sm_80"):
    onnx.save(samples.model(f"{name} {text}"), f"{DIR}/{name}.onnx")
    run(BUILD + "/bin/dlcc", f"{DIR}/{name}.onnx", "-o", f"{DIR}/{name}.so", f"--target=cuda:{target}", *samples.unoptimised())


def case(name, k, inputs, outputs):
    for role, values in ("input", inputs), ("output", outputs):
        samples.tensors(f"{DIR}/{name}/test_data_set_{k}", role, values)


def on_gpu(name, *options, **rest):
    return run(BUILD + "/bin/dlrun", f"{DIR}/{name}.so", "--device=cuda", "--data", f"{DIR}/{name}", *options, **rest)


def scattered(x, places, u, how):
    """X after the updates U, each at its place, one after the other."""
    y = x.copy()
    with np.errstate(all="ignore"):
        for at, v in zip(places, u.reshape(len(places), *y[places[0]].shape) if places else ()):
            y[at] = COMBINE[how](y[at], v)
    return y


def small(rng, shape, t, how):
    """Small integers of type T, for products mostly 1 and -1; of floats some are NaN where the greatest or least counts."""
    x = rng.choice([1, 1, 1, 1, 1, 1, -1, 2], shape) if how == "mul" else rng.integers(-4, 5, shape)
    x = (x != 1 if t == np.bool_ else abs(x) if np.issubdtype(t, np.unsignedinteger) else x).astype(t)
    if how in ("max", "min") and np.issubdtype(t, np.floating):
        x[rng.random(shape) < 0.02] = np.nan
    return x


def elements(name, ways, types, sets, target="sm_80"):
    """A model of a ScatterElements of all TYPES in all WAYS along axis 1, and data for so many updates as each of SETS says."""
    ins, outs, body = [], [], []
    made = [(t, how, f"{t}_{how}") for t in types for how in ways if not (t == "bool" and how != "none")]
    for t, how, v in made:
        code, io, back = CAST.get(t, (0, t, 0))
        ins += [f"{io}[3,7] x_{v}", f"{io}[3,N] u_{v}"]
        outs += [f"{io}[3,7] y_{v}"]
        x, u, y = (f"{p}_{v}" for p in "xuy")
        if code:
            body += [f"c{x} = Cast<to = {code}>({x}) c{u} = Cast<to = {code}>({u})"]
            x, u, y = "c" + x, "c" + u, "c" + y
        body += [f'{y} = ScatterElements<axis = 1, reduction = "{how}">({x}, i, {u})']
        body += [f"y_{v} = Cast<to = {back}>({y})"] if code else []
    compiled(name, f"(int64[3,N] i, {', '.join(ins)}) => ({', '.join(outs)}) {{ {' '.join(body)} }}", target)
    for k, n in enumerate(sets):
        rng = np.random.default_rng(k)
        i = rng.integers(-7, 7, (3, n))
        places = [(a, i[a, b]) for a in range(3) for b in range(n)]
        feeds, want = {"i": i}, {}
        for t, how, v in made:
            io = TYPES[CAST.get(t, (0, t))[1]]
            x, u = small(rng, (3, 7), io, how), small(rng, (3, n), io, how)
            if t == "uint4":
                x, u = abs(x), abs(u)
            y = scattered(x, places, u, how)
            if t in ("int4", "uint4"):
                y = y & 15 if t == "uint4" else (y + 8 & 15) - 8
            feeds.update({f"x_{v}": x, f"u_{v}": u})
            want[f"y_{v}"] = y
        case(name, k, feeds, want)


@test
def every_type_and_way():
    elements("types", COMBINE, [*TYPES, *CAST], (0, 1, 5, 40))
    on_gpu("types")


@test
def the_last_wins_in_any_order():
    elements("last", ["none"], ["float", "float16", "int8", "int64", "bool", "int4"], (300,))
    for seed in SEEDS:
        on_gpu("last", PTXSIM_SEED=seed)


@test
def any_order_of_updates():
    elements("orders", ["add", "mul", "max", "min"], ["float", "float16", "bfloat16", "uint8", "uint64"], (300,))
    for seed in SEEDS:
        on_gpu("orders", PTXSIM_SEED=seed)


@test
def other_gpus():
    """The first GPU has no bf16, a later one adds it in memory."""
    for sm, target in (75, "sm_75"), (90, "sm_90a"):
        elements(target, ["none", "add"], ["float", "float16", "bfloat16"], (40,), target)
        on_gpu(target, PTXSIM_SM=sm)
    run(BUILD + "/bin/dlcc", f"{DIR}/sm_90a.onnx", "-o", f"{DIR}/bf16.ptx", "--target=cuda:sm_90a")
    assert "add.noftz.bf16" in open(f"{DIR}/bf16.ptx").read()


@test
def slices():
    """ScatterND with tuples of one index, of all, and of none, and of a batch of slices that no update touches."""
    ways = [(how, m) for how in ("none", "add", "max") for m in (0, 1, 3)]
    text = ", ".join(f"float[6,5,9] y_{how}{m}" for how, m in ways)
    of = {0: "[N]", 1: "[N]", 3: "[N]"}
    dims = {0: "N,6,5,9", 1: "N,5,9", 3: "N"}
    ins = ["float[6,5,9] x"] + [f"int64[N,{m}] i{m}, float[{dims[m]}] u{m}" for m in of]
    compiled("slices", f"({', '.join(ins)}) => ({text}) {{ " + " ".join(f'y_{how}{m} = ScatterND<reduction = "{how}">(x, i{m}, u{m})' for how, m in ways) + " }")
    for k, n in enumerate((1, 4, 60)):
        rng = np.random.default_rng(k)
        feeds, want = {"x": rng.integers(-4, 5, (6, 5, 9)).astype(np.float32)}, {}
        for m in of:
            feeds[f"i{m}"] = np.stack([rng.integers(-d, d if d == 5 else d - 1, n) for d in (6, 5, 9)[:m]] or [[]] * n, 1 if m else 0).reshape(n, m).astype(np.int64)
            feeds[f"u{m}"] = rng.integers(-4, 5, (n, *(6, 5, 9)[m:])).astype(np.float32)
        for how, m in ways:
            want[f"y_{how}{m}"] = scattered(feeds["x"], [tuple(int(v) for v in t) for t in feeds[f"i{m}"]], feeds[f"u{m}"], how)
        case("slices", k, feeds, want)
    for seed in (0, 1, 2, 3):
        on_gpu("slices", PTXSIM_SEED=seed)


@test
def places_out_of_range():
    """The run ends with the node's name: also where the update's own value is astray, and another one wins."""
    compiled("astray", '(float[9,4] x, int64[N,1] i, float[8,4] t, int64[N] j) => (float[9,4] y, float[9,4] z) {'
             ' [Pick] u = Gather(t, j) [Last] y = ScatterND(x, i, u) [Sum] z = ScatterND<reduction = "add">(x, i, u) }')
    rng = np.random.default_rng(1)
    x, t = (rng.integers(-4, 5, (n, 4)).astype(np.float32) for n in (9, 8))
    for k, (i, j, said) in enumerate((([3, -1, 3], [1, 2, -8], None), ([3, 9, 3], [1, 2, 0], "Last"), ([3, -10, 3], [1, 2, 0], "Last"),
                                      ([3, 4, 3], [8, 2, 1], "Pick"), ([3, 4, 3], [1, -9, 1], "Pick"))):
        i, j = np.array(i)[:, None], np.array(j)
        known = [t[v] if -8 <= v < 8 else t[0] for v in j]
        places = [(int(v[0]),) if -9 <= v[0] < 9 else (0,) for v in i]
        name = f"astray{k}"
        case(name, 0, {"x": x, "i": i, "t": t, "j": j},
             {"y": scattered(x, places, np.stack(known), "none"), "z": scattered(x, places, np.stack(known), "add")})
        text = run(BUILD + "/bin/dlrun", f"{DIR}/astray.so", "--device=cuda", "--data", f"{DIR}/{name}", status=1 if said else 0)
        assert not said or said in text or "Sum" in text, text


@test
def slices_without_elements():
    """There are no updates then, wherever they were to be; where there are, a place out of range is a fault."""
    compiled("bare", '(float[4,N] x, int64[3,1] i, float[3,N] u) => (float[4,N] y, float[4,N] z) {'
             ' y = ScatterND(x, i, u)  z = ScatterND<reduction = "add">(x, i, u) }')
    rng = np.random.default_rng(1)
    for k, (n, i, status) in enumerate(((0, [0, 9, 1], 0), (5, [0, 3, 0], 0), (5, [0, 9, 1], 1), (0, [-5, 0, 4], 0))):
        x, u = (rng.integers(-4, 5, (m, n)).astype(np.float32) for m in (4, 3))
        places = [(v if 0 <= v < 4 else 0,) for v in i]
        case(f"bare{k}", 0, {"x": x, "i": np.array(i)[:, None], "u": u}, {"y": scattered(x, places, u, "none"), "z": scattered(x, places, u, "add")})
        run(BUILD + "/bin/dlrun", f"{DIR}/bare.so", "--device=cuda", "--data", f"{DIR}/bare{k}", status=status)


@test
def subnormals_are_added():
    """Those that are there, those that are added, and what sums cancel to; also above and below what memory adds itself."""
    tiny = np.float32(2) ** np.array([-149, -148, -127, -126, -125, -124, -102, -101, -100], np.float32)
    some = np.concatenate([tiny, tiny * np.float32(1.5), tiny * np.float32(1 - 2**-24), [0, 1, np.inf]]).astype(np.float32)
    x, u = (v.ravel() for v in np.meshgrid(np.concatenate([some, -some]), np.concatenate([some, -some])))
    compiled("subnormals", '(float[N] x, int64[N] i, float[N] u) => (float[N] y) { y = ScatterElements<reduction = "add">(x, i, u) }')
    with np.errstate(invalid="ignore"):
        case("subnormals", 0, {"x": x, "i": np.arange(len(x)), "u": u}, {"y": x + u})
    on_gpu("subnormals", "--rtol=0", "--atol=0")


@test
def what_updates_cost():
    """A thread has an update: warp instructions for 20,000 of them. Zeros are no numbers that memory adds exactly to f32."""
    limits = {("float", "add"): 24000, ("float16", "add"): 20000, ("int64", "max"): 21000, ("float", "none"): 38000, ("float", "max"): 28000, ("int8", "add"): 20000}
    for (t, how), most in limits.items():
        name = f"cost_{t}_{how}"
        compiled(name, f'({t}[1000] x, int64[20000] i, {t}[20000] u) => ({t}[1000] y) {{ y = ScatterElements<reduction = "{how}">(x, i, u) }}')
        rng = np.random.default_rng(3)
        x, i, u = small(rng, 1000, TYPES[t], "add"), rng.integers(-1000, 1000, 20000), small(rng, 20000, TYPES[t], "add")
        case(name, 0, {"x": x, "i": i, "u": u}, {"y": scattered(x, [(v,) for v in i], u, how)})
        on_gpu(name, PTXSIM_STATS=f"{DIR}/{name}.json")
        found = sum(k["warp_instructions"] for k in json.load(open(f"{DIR}/{name}.json"))["kernels"])
        if os.environ.get("V"):
            print(name, found)
        assert found <= samples.instructions(BUILD, most), f"{name}: {found} warp instructions, more than {most}"


if __name__ == "__main__":
    sys.exit(samples.run_all(tests))

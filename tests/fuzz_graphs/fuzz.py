# SPDX-License-Identifier: Apache-2.0
"""Random graphs over all operators through eval, C and PTX, compared with ONNX Runtime. Prints "N passed, N failed".

    fuzz.py BUILD FOLDER FIRST COUNT [--only=KIND] [--often=NAME,NAME] # seeds FIRST to FIRST + COUNT - 1; JOBS=N: N processes
    fuzz.py BUILD FOLDER FIRST COUNT --only=write                      # the graphs are written to FOLDER/SEED, and not run

Each graph goes one of the ways of KINDS, by its seed: both C compilers, every -O level of dlcc, the printed graph read again, each
kernel by itself, sanitizers (where BUILD/san is the build that has them), and GPUs of several kinds in the simulator. A graph that
fails is made smaller and stays as FOLDER/failed/SEED.KIND, in ONNX's layout, with the message beside it.
"""

import collections
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import traceback

import onnx.printer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "names"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import caches  # noqa: E402
import control  # noqa: E402, F401: rows of operators/
import narrow  # noqa: E402
import operators  # noqa: E402
import patterns  # noqa: E402
import samples  # noqa: E402
from grow import Grower, noise  # noqa: E402
from models import PIECES, encode, is_expression  # noqa: E402
from reduce import reduce  # noqa: E402

BUILD, FOLDER = (os.path.abspath(p) for p in sys.argv[1:3])
JOBS = int(os.environ.get("JOBS", os.cpu_count()))

PATTERNS = patterns.PATTERNS + narrow.PATTERNS + caches.PATTERNS
# What --often names: operators, and patterns by the names of their functions.
DRAWN = {**operators.ROWS, **{p.__name__: lambda g, op, p=p: p(g) for p in PATTERNS}}

CLANG = f"--cc={samples.CLANG or 'gcc'}"
# How a graph is run, by its seed: how many of 20 seeds go this way, and the options of tests/tools/batch.
KINDS = {
    "gcc": (4, ["--cc=gcc", "-O0", "--kernels", "--in-place"]),
    "clang": (3, [CLANG, "-O0", "--roundtrip", "--in-place", "--slice=1"]),
    "least": (2, ["--cc=gcc", "-O0", "--effort=0"]),
    "little": (2, [CLANG, "-O0", "--effort=1", "--kernels", "--slice=1"]),
    "most": (2, ["--cc=gcc", "-O2", "--effort=3", "--target=x86-64-v2", "--slice=1"]),
    "int4": (1, [CLANG, "-O0", "--weights-as=i4:32", "--kernels"]),
    "bytes": (1, ["--cc=gcc", "-O0", "--weights-as=i8"]),
    "sanitize": (3, ["--cc=gcc", "-O0", "--sanitize", "--in-place", "--slice=1"]),     # by the test program that has sanitizers itself
    "sm_80": (1, ["--cc=gcc", "-O0", "--gpu=sm_80", "--kernels"]),
    "later": (1, ["--cc=gcc", "-O0"]),          # and one of LATER
}
NARROW = ("int4", "bytes")                   # whose references are eval of the compiled graph
NARROWER = 10                                # times noisier is that graph
LATER = ("sm_75", "sm_90a", "sm_120", "sm_86")
WAYS = [kind for kind, (share, _) in KINDS.items() for _ in range(share)]
NAMED = 10       # operators that no graph has and that are named
REDUCED = 2      # cases of one fault that are made smaller: that takes a minute each
ASAN = "quarantine_size_mb=8"      # AddressSanitizer's default, 256 MiB of freed memory kept, costs half of a case's time in page faults
reported = collections.Counter()
# What dlcc refuses with a reason that docs/ops.md gives.
REFUSED = re.compile(r"a size grows too complex|number of elements must be known|must be known when|at most 64|axes.*known number|last dim of the indices"
                     r"|sizes differ from iteration to iteration|channels must be a number")


def grow(seed, often=(), narrow_weights=False):
    """The Grower of SEED, of 3 to 25 nodes, a third of them of the operators and patterns OFTEN."""
    g = Grower(seed)
    g.narrow = narrow_weights
    often = often or (("large_weights",) if narrow_weights else ())
    nodes = g.random.randint(3, 25)
    for _ in range(3 * nodes):
        if len(g.nodes) >= nodes:
            break
        if often and g.random.random() < 0.3:
            op = g.random.choice(often)
            DRAWN[op](g, op)
        elif g.random.random() < 0.2:
            g.random.choice(PATTERNS)(g)
        else:
            op = g.random.choice(list(operators.ROWS))
            operators.ROWS[op](g, op)
    return g


def grown(seed, often, kind=None):
    """The case of SEED and its values by name, which a process of its own grows: there are nodes that ONNX Runtime ends by a signal.
    None where the graph has no result."""
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            g = grow(seed, often, kind in NARROW)
            with os.fdopen(back, "wb") as f:
                pickle.dump((g.case(), g.by_name()), f)
            os._exit(0)
        except Exception:
            traceback.print_exc()
        os._exit(1)
    os.close(back)
    with os.fdopen(there, "rb") as f:
        data = f.read()
    if os.waitpid(child, 0)[1]:
        print(f"seed {seed}: the graph could not be grown", flush=True)
        return None
    case, by_name = pickle.loads(data)
    return case and (case, by_name)


def hostile(case, seed):
    """Names for the model's own, of what has a meaning elsewhere."""
    r, names, taken = random.Random(seed), {}, set()
    texts = [v.name for v, _ in case.inputs] + [o for n in case.nodes for o in n[2] if o] + list(case.constants)
    texts += [d for _, dims in case.inputs for d in dims if isinstance(d, str)]
    for text in dict.fromkeys(texts):
        word = b""
        while word in taken or is_expression(word):
            word = b"".join(r.choice(PIECES) for _ in range(r.choice((1, 1, 2))))
        taken.add(word)
        names[text] = word
    return names


def write(case, folder, seed):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = hostile(case, seed) if seed % 7 == 3 else {}
    with open(f"{folder}/model.onnx", "wb") as f:
        f.write(encode(case.model(), names) if names else case.model().SerializeToString())
    for n, k in enumerate(case.sets):
        data = f"{folder}/test_data_set_{n}"
        os.makedirs(data)
        for role, values in ("input", [v for v, _ in case.inputs]), ("output", case.results):
            for i, v in enumerate(values):
                samples.tensor(f"{data}/{role}_{i}.pb", v.arrays[k], "" if names else v.name)


def program(kind):
    """The test program that runs graphs of KIND."""
    return f"{BUILD}/{'san/' if kind == 'sanitize' else ''}tests/tools/batch"


def way(seed, only=None):
    """How the graph of SEED is run: a kind, and where that is "later" a GPU. Without a build that has sanitizers: as "gcc"."""
    kind = only or WAYS[seed % len(WAYS)]
    if kind == "sanitize" and not os.path.exists(program(kind)):
        kind = "gcc"
    return LATER[seed // len(WAYS) % len(LATER)] if kind == "later" else kind


def batch(kind, cases):
    """The verdicts on CASES, (folder, noise), run as KIND: (verdict, path and message) by folder; the worst of a folder's."""
    options = KINDS[kind][1] if kind in KINDS else KINDS["later"][1] + [f"--gpu={kind}"]
    sm = re.match(r"sm_(\d+)", kind)
    env = {"ASAN_OPTIONS": ASAN, **samples.simulated(BUILD, **({"PTXSIM_SM": sm[1]} if sm else {}))}
    out = f"{FOLDER}/out.{kind}"
    times = 3 * (NARROWER if kind in NARROW else 1)
    r = subprocess.run([program(kind), "--seconds=120", f"--jobs={JOBS}", *options, out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                       input="".join(folder + "\t" + ",".join(f"{times * n:.3g}" for n in noises) + "\n" for folder, noises in cases).encode())
    shutil.rmtree(out, ignore_errors=True)
    verdicts = {}
    for line in r.stdout.decode(errors="replace").splitlines():
        found = re.match(r"(PASS|FAIL|SKIP) (\S+) (.*)", line)
        if found and (found[2] not in verdicts or found[1] == "FAIL"):
            verdicts[found[2]] = found[1], found[3]
    return verdicts


def failure(verdict):
    """Why a case failed, or None. What is refused must be refused for a reason that is documented."""
    if verdict is None:
        return "no verdict"
    return None if verdict[0] == "PASS" or REFUSED.search(verdict[1]) else verdict[1]


def same_fault(message):
    """What of a message stays as a case gets smaller."""
    return re.sub(r'[\d.e+-]+|"[^"]*"', "#", message)[:40]


def readable(attributes):
    """ATTRIBUTES as text; bodies as ONNX writes graphs."""
    return "".join(f"\n{k}: {onnx.printer.to_text(a)}" if isinstance(a, onnx.GraphProto) else f" {k}={a}" for k, a in attributes.items())


def report(seed, kind, case, by_name, message):
    folder = f"{FOLDER}/failed/{seed}.{kind}"

    def fails(smaller):
        write(smaller, folder + ".try", seed)
        why = failure(batch(kind, [(folder + ".try", smaller.noise())]).get(folder + ".try"))
        return why is not None and same_fault(why) == same_fault(message)
    reported[same_fault(message)] += 1
    smallest = reduce(case, by_name, fails) if reported[same_fault(message)] <= REDUCED else case
    shutil.rmtree(folder + ".try", ignore_errors=True)
    write(smallest, folder, seed)
    with open(f"{folder}/message.txt", "w") as f:
        f.write(f"{kind}\n{message}\nnoise {' '.join(f'{n:.3g}' for n in smallest.noise())}\n")
        f.writelines(f"{' '.join(outs)} = {op}({', '.join(ins)}) {readable(attributes)}\n" for op, ins, outs, attributes in smallest.nodes)
    print(f"seed {seed} {kind}: {message[:300]}: {folder}", flush=True)


def faults_of_rows():
    """A line for each operator that dlcc has and operators/ does not know, or the other way round. Operators of domains other than
    the standard's and com.microsoft have their cases in tests/ml/ and among ONNX's own."""
    listed = subprocess.run([f"{BUILD}/bin/dlcc", "--list-ops"], stdout=subprocess.PIPE, check=True, text=True).stdout
    ops = {line.split()[0] for line in listed.splitlines() if "." not in line or line.startswith("com.microsoft.")}
    rows = set(operators.ROWS) | set(operators.LEFT_OUT)
    return ([f"{op} has no row in tests/fuzz_graphs/operators/; add one, or a reason to LEFT_OUT in its __init__.py" for op in sorted(ops - rows)] +
            [f"{op} has a row in tests/fuzz_graphs/operators/, and dlcc --list-ops lacks it" for op in sorted(rows - ops)])


def write_graphs(first, count, often):
    for seed in range(first, first + count):
        found = grown(seed, often)
        if found:
            write(found[0], f"{FOLDER}/{seed}", seed)


def main(first, count, only=None, often=()):
    if only == "write":
        return write_graphs(first, count, often)
    for name in set(often) - set(DRAWN):
        print(f"fuzz.py: --often={name}: no row of operators/ and no pattern is called so; operators have ONNX's names, such as MatMul or com.microsoft.MoE")
        return 2
    cases, names, seen, ways = {}, {}, collections.Counter(), collections.Counter()
    passed = failed = refused = 0
    for fault in faults_of_rows():
        failed += 1
        print(f"FAIL: {fault}")
    for start in range(first, first + count, 500):
        cases.clear()
        names.clear()
        for seed in range(start, min(start + 500, first + count)):
            found = grown(seed, often, way(seed, only))
            if found is None:
                continue
            case, names[seed] = found
            cases[seed] = case
            seen.update(node[0] for node in case.nodes)
            write(case, f"{FOLDER}/{seed}", seed)
        for kind in list(KINDS)[:-1] + list(LATER):
            seeds = [s for s in cases if way(s, only) == kind]
            ways[kind] += len(seeds)
            verdicts = batch(kind, [(f"{FOLDER}/{s}", cases[s].noise()) for s in seeds]) if seeds else {}
            for s in seeds:
                verdict = verdicts.get(f"{FOLDER}/{s}")
                why = failure(verdict)
                passed += why is None
                failed += why is not None
                refused += why is None and verdict[0] != "PASS"
                if why is not None:
                    report(s, kind, cases[s], names[s], why)
        for seed in cases:
            shutil.rmtree(f"{FOLDER}/{seed}", ignore_errors=True)
    never = sorted(set(operators.ROWS) - set(seen))
    for name in sorted(set(often) & set(never)):
        failed += 1
        print(f"FAIL: no graph has {name}: neither ONNX Runtime nor ONNX's reference takes it as its row writes it")
    print(f"graphs of {len(seen)} operators, {refused} refused for a documented reason" + 
          (f"; never: {' '.join(never[:NAMED])}" + (f" and {len(never) - NAMED} more" if len(never) > NAMED else "") if never else ""))
    print("by way: " + ", ".join(f"{kind} {n}" for kind, n in sorted(ways.items())))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    options = dict(a[2:].split("=") for a in sys.argv[5:])
    sys.exit(main(*[int(a) for a in sys.argv[3:5]], options.get("only"), options["often"].split(",") if "often" in options else ()))

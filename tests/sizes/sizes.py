# SPDX-License-Identifier: Apache-2.0
"""ONNX's node cases with symbolic dims (tests/symbolic), at sizes and with elements that their data do not have.

    sizes.py [PATTERN ...]

Each size becomes 0, 1, 2, 3 and a prime beyond the blocks of all loops: all dims of this size at once, since those that must
agree do in the case's data, and each dim by itself. The inputs' elements are repeated. Inputs without
elements also have sizes that are so large that no loop over them ends.

Where an input has few elements, which may be sizes, offsets or positions, each of them takes hostile values, and two of them
take opposite amounts, so that their sum stays. With TESTS=all that runs under sanitizers, where these programs are built.

One artifact serves all runs. Its results must equal eval's, and it must refuse what eval refuses (tests/tools/batch). KEEP: a
folder that the cases stay in. GPU=sm_80: on the simulated GPU. EMPTY=1: only inputs without elements."""

import collections
import fnmatch
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "symbolic")]
import samples  # noqa: E402
import suites  # noqa: E402
import symbolic  # noqa: E402

BUILD, EACH = os.environ["BUILD"], int(os.environ["EACH"])
SIZES = 0, 1, 2, 3
PRIMES = 10007, 1009, 331, 101, 47, 13
MOST = 1 << 14   # elements of an input with a large prime
LINE = 10007     # a size for inputs of rank 1 alone: results may be products of sizes
TOGETHER = 200   # cases that are written at a time
FEW = 16         # elements of an input whose elements take the values below
WHOLE = -2**63, -2**40, -9, -3, -1, 0, 1, 2, 5, 9, 2**40, 2**63 - 1
REAL = -np.inf, -1e30, -3.0, 0.0, 0.4, 1e30, np.inf, np.nan
OPPOSITE = 3, 2**40
SUMS = 1e-5      # noise of sums over a large prime, from which the model perhaps subtracts another
MEMORY = 3 << 29  # bytes of a result under sanitizers, as larger ones would take minutes
HUGE = 1 << 40   # elements that no memory has; a loop over as many takes an hour


def read_inputs(folder):
    """{file: TensorProto}; None if an input is not a tensor."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("input_"):
            proto = onnx.TensorProto()
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    proto.ParseFromString(f.read())
                numpy_helper.to_array(proto)
            except Exception:  # a sequence or an optional
                return None
            found[name] = proto
    return found


def symbols_of(model, inputs):
    """{symbol: (size, [(file, axis)])} of the symbolic dims of MODEL's inputs, which INPUTS are in order or by name."""
    by_name = {proto.name: file for file, proto in inputs.items() if proto.name}
    found = {}
    for i, value in enumerate(model.graph.input):
        file = by_name.get(value.name, f"input_{i}.pb")
        for axis, d in enumerate(value.type.tensor_type.shape.dim):
            if d.dim_param and file in inputs and axis < len(inputs[file].dims):
                found.setdefault(d.dim_param, (inputs[file].dims[axis], []))[1].append((file, axis))
    return found


def variations(symbols, inputs):
    """[{(file, axis): size}]"""
    groups = collections.defaultdict(list)
    for size, places in symbols.values():
        groups[size].append(places)
    changing = [[at for places in group for at in places] for group in groups.values()]
    changing += [places for group in groups.values() if len(group) > 1 for places in group]
    if len(groups) > 1:
        changing.append([at for group in groups.values() for places in group for at in places])
    for places in changing:
        for size in (*SIZES, *prime(places, inputs)):
            yield dict.fromkeys(places, size)


def without_elements(symbols):
    """As variations: one symbol is 0 and another one HUGE, where each input that has the latter has the former."""
    files = {name: {file for file, _ in places} for name, (_, places) in symbols.items()}
    for zero, (_, empty) in symbols.items():
        for huge, (_, places) in symbols.items():
            if huge != zero and files[huge] <= files[zero]:
                yield {**dict.fromkeys(empty, 0), **dict.fromkeys(places, HUGE)}


def prime(places, inputs):
    """The largest of PRIMES that makes no input too large, if there is one."""
    line = all(len(inputs[file].dims) == 1 for file, _ in places)
    fits = lambda p: all(p ** sum(f == file for f, _ in places) *
                         math.prod(d for k, d in enumerate(proto.dims) if (file, k) not in places) <= MOST
                         for file, proto in inputs.items())
    return [p for p in PRIMES if (p < LINE or line) and fits(p)][:1]


def resized(array, shape):
    """ARRAY with its elements repeated; zeros if it has none."""
    if array.dtype == object and not array.size:
        return np.full(shape, "", object)
    return np.resize(array, shape) if shape != list(array.shape) else array


def write_sets(folder, inputs, changes):
    arrays = {file: numpy_helper.to_array(proto) for file, proto in inputs.items()}
    for k, change in enumerate(changes, 1):
        out = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(out)
        for file, array in arrays.items():
            shape = [change.get((file, axis), d) for axis, d in enumerate(array.shape)]
            if HUGE in shape:  # NumPy has no such arrays
                with open(os.path.join(out, file), "wb") as f:
                    f.write(onnx.TensorProto(dims=shape, data_type=inputs[file].data_type, name=inputs[file].name)
                            .SerializeToString())
            else:
                samples.tensor(os.path.join(out, file), resized(array, shape), inputs[file].name)


def within(value, dtype):
    """VALUE, or the limit of DTYPE that is nearest."""
    if dtype.kind == "f":
        return dtype.type(value)
    return dtype.type(min(max(value, np.iinfo(dtype).min), np.iinfo(dtype).max))


def hostile(inputs):
    """[{file: array}]: inputs of few elements with other elements."""
    for file, proto in inputs.items():
        array = numpy_helper.to_array(proto)
        if array.dtype.kind not in "iuf" or array.size > FEW:
            continue
        flat = array.reshape(-1)
        seen = set()

        def changed(*moves):
            out = flat.copy()
            for at, value in moves:
                out[at] = within(value, array.dtype)
            if out.tobytes() in seen:
                return []
            seen.add(out.tobytes())
            return [{file: out.reshape(array.shape)}]

        for i in range(array.size):
            for value in REAL if array.dtype.kind == "f" else WHOLE:
                yield from changed((i, value))
            for j in {(i + 1) % array.size, (i + array.size // 2) % array.size, (i - 1) % array.size} - {i}:
                for by in OPPOSITE if array.dtype.kind != "f" else ():
                    yield from changed((i, int(flat[i]) + by), (j, int(flat[j]) - by))


def write_hostile(folder, inputs, first, changes):
    for k, change in enumerate(changes, first):
        out = os.path.join(folder, f"test_data_set_{k}")
        os.makedirs(out)
        for file, proto in inputs.items():
            samples.tensor(os.path.join(out, file), change.get(file, numpy_helper.to_array(proto)), proto.name)


def write_case(case, model, into):
    """Writes CASE with its first data set and further ones without outputs; returns how many these are."""
    inputs = read_inputs(os.path.join(case.dir, "test_data_set_0"))
    symbols = symbols_of(model, inputs) if inputs else {}
    changes = [*(() if os.environ.get("EMPTY") else variations(symbols, inputs)), *without_elements(symbols)]
    others = [] if os.environ.get("EMPTY") else list(hostile(inputs or {}))
    if not changes and not others:
        return 0
    folder = os.path.join(into, case.name)
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    os.symlink(os.path.join(case.dir, "test_data_set_0"), os.path.join(folder, "test_data_set_0"))
    write_sets(folder, inputs, changes)
    write_hostile(folder, inputs, 1 + len(changes), others)
    return len(changes) + len(others)


def run(folder, names):
    """[(status, name, text)] of tests/tools/batch on the cases NAMES in FOLDER."""
    out, noise = tempfile.mkdtemp(dir=folder), {name: text.split()[0] for name, text in suites.rows_of("noise.txt")}
    gpu = os.environ.get("GPU")
    options = ["--seconds=600", f"--gpu={gpu}"] if gpu else ["--seconds=120"]
    batch, env = os.path.join(BUILD, "tests", "tools", "batch"), samples.simulated(BUILD) if gpu else dict(os.environ)
    sanitized = os.path.join(BUILD, "san", "tests", "tools", "batch")
    if not gpu and os.path.exists(sanitized) and os.environ.get("TESTS") == "all":
        batch, options = sanitized, [*options, "--cc=gcc", "--sanitize"]
        env["ASAN_OPTIONS"] = f"detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb={MEMORY >> 20}"
    done = subprocess.run([batch, "-O1", *options, out], check=False, env=env,
                          input="".join(f"{os.path.join(folder, n)}\t{noise.get('onnx/' + n, SUMS)}\n" for n in names),
                          text=True, capture_output=True)
    found = {}
    for line in done.stdout.splitlines():
        status, _, rest = line.partition(" ")
        where, _, text = rest.partition(" ")
        name = os.path.relpath(where, folder)
        if name in names and found.get(name, ("PASS",))[0] == "PASS":
            found[name] = status, text
    shutil.rmtree(out)
    return [(*found.get(name, ("FAIL", "no verdict: " + done.stderr.strip()[-200:])), name) for name in names]


def main():
    patterns, wanted = sys.argv[1:], 0
    folder = os.environ.get("KEEP") or tempfile.mkdtemp()
    ops = subprocess.run([os.path.join(BUILD, "bin", "dlcc"), "--list-ops"], check=True, capture_output=True, text=True).stdout
    with open(os.path.join(folder, "ops"), "w") as f:
        f.write(ops)
    count, sets, refused, written = collections.Counter(), 0, 0, {}

    def judge():
        nonlocal refused
        for status, text, name in run(folder, list(written)):
            count[status] += 1
            refused += int((re.match(r"(?:c|ptx): (\d+) data sets", text) or [0, 0])[1])
            if status == "FAIL" or patterns:
                print(f"{status} {name}: {text}".replace(folder + "/", ""), flush=True)
            if not os.environ.get("KEEP"):
                shutil.rmtree(os.path.join(folder, name))
        written.clear()

    for case, model in symbolic.symbolic_cases(os.path.join(folder, "ops")):
        if patterns and not any(fnmatch.fnmatch(case.name, p) for p in patterns):
            continue
        wanted += 1
        n = write_case(case, model, folder) if wanted % EACH == 0 else 0
        if n:
            written[case.name], sets = n, sets + n
        if len(written) == TOGETHER:
            judge()
    judge()
    if not os.environ.get("KEEP"):
        shutil.rmtree(folder)
    print(f"{sets} runs, {refused} of them refused by eval and by the code")
    print(f"{count['PASS']} passed, {count['FAIL']} failed" + (f", {count['SKIP']} skipped" if count["SKIP"] else ""))
    return 1 if count["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Mutated model files against dlcc: fuzz.py [--build build/san] [--count 10000] [--seed 1] [--keep DIR].

Every file must end in exit status 0 or 1, within 10 s and 1 GiB, without a signal or a sanitizer's report. Of
those that are accepted every Nth (--run) also runs: the artifact on inputs of its own choice, and the generated
code, sanitized, on the seed's shapes, where it must agree with the interpreter. Mutations: bit flips,
truncation, bytes spliced from another model, fields of the wire format removed, doubled, swapped or with a
hostile number, dims and attributes of the parsed model made hostile. The same seed gives the same files.
"""

import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import cases  # noqa: E402

SECONDS, BYTES = 10, 1 << 30
HOSTILE = (0, 1, 2, 3, 7, 63, 64, 65, 127, 255, 4095, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40,
           (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def read_varint(b, i):
    n = shift = 0
    while i < len(b) and shift < 64:
        n |= (b[i] & 127) << shift
        i += 1
        if b[i - 1] < 128:
            return n, i
        shift += 7
    return None, i


def fields(b):
    """[(tag, start of value, end of value)] of a message, or None where B is not one."""
    out, i = [], 0
    while i < len(b):
        tag, i = read_varint(b, i)
        if not tag or tag >> 3 == 0 or tag >> 3 > 100:
            return None
        start, kind = i, tag & 7
        if kind == 0:
            n, i = read_varint(b, i)
            if n is None:
                return None
        elif kind == 2:
            n, start = read_varint(b, i)
            if n is None or start + n > len(b):
                return None
            i = start + n
        elif kind in (1, 5):
            i += 8 if kind == 1 else 4
        else:
            return None
        if i > len(b):
            return None
        out.append((tag, start, i))
    return out


def mutate_field(rng, b, depth=0):
    """B with one field, at some depth, removed, doubled, swapped, renumbered or replaced."""
    found = fields(b)
    if not found:
        return flip(rng, b)
    k = rng.randrange(len(found))
    parts = [(tag, b[s:e]) for tag, s, e in found]
    tag, value = parts[k]
    inner = fields(value) if tag & 7 == 2 and len(value) > 1 else None
    if inner and depth < 12 and rng.random() < 0.85:
        parts[k] = tag, mutate_field(rng, value, depth + 1)
    else:
        what = rng.randrange(6)
        if what == 0:
            del parts[k]
        elif what == 1:
            parts.insert(k, parts[k])
        elif what == 2:
            other = rng.randrange(len(parts))
            parts[k], parts[other] = parts[other], parts[k]
        elif what == 3 and tag & 7 == 0:
            parts[k] = tag, varint(rng.choice(HOSTILE))
        elif what == 4:
            parts[k] = (rng.randrange(1, 30) << 3) | tag & 7, value
        elif tag & 7 == 2:
            parts[k] = tag, flip(rng, value) if value and rng.random() < 0.5 else b""
        else:
            parts[k] = tag, bytes(rng.randrange(256) for _ in value[:-1]) + b"\x01" if value else value
    return b"".join(varint(t) + (varint(len(v)) if t & 7 == 2 else b"") + v for t, v in parts)


def flip(rng, b):
    out = bytearray(b)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def splice(rng, b, other):
    i, j = rng.randrange(len(b) + 1), rng.randrange(len(other) + 1)
    n = rng.choice((1, 4, 16, 200))
    return b[:i] + other[j:j + n] + b[i + rng.choice((0, n)):]


def hostile_model(rng, b):
    """Parsed, one number or name in it changed, written again: these are mostly accepted or refused late."""
    import onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(b)
    except Exception:
        return flip(rng, b)
    g = model.graph
    signed = [n if n < 1 << 63 else n - (1 << 64) for n in HOSTILE] + [-1, -2, -3]
    small = [n for n in signed if -4 < n < 70]
    dims = [d for v in [*g.input, *g.output] for d in v.type.tensor_type.shape.dim]
    nodes, tensors = list(g.node), list(g.initializer)
    what = rng.randrange(8)
    if what == 0 and dims:
        rng.choice(dims).dim_value = rng.choice(small if rng.random() < 0.7 else signed)
    elif what == 1 and dims:
        rng.choice(dims).dim_param = rng.choice(("N", "M", "N + 1", "N*", "", "2*N", "a-b", "x" * 300))
    elif what == 2 and nodes and (attrs := list(rng.choice(nodes).attribute)):
        a = rng.choice(attrs)
        if a.ints:
            a.ints[rng.randrange(len(a.ints))] = rng.choice(small if rng.random() < 0.7 else signed)
        elif rng.random() < 0.5:
            a.i = rng.choice(signed)
        else:
            a.f = rng.choice((0.0, -0.0, float("nan"), float("inf"), -1e38, 1e-45))
    elif what == 3 and nodes:
        n = rng.choice(nodes)
        if n.input:
            n.input[rng.randrange(len(n.input))] = rng.choice([*n.input, *n.output, "", "nowhere"])
    elif what == 4 and len(nodes) > 1:
        rng.choice(nodes).op_type = rng.choice(nodes + [onnx.NodeProto(op_type="Nothing")]).op_type
    elif what == 5 and tensors and (t := rng.choice(tensors)).dims:
        t.dims[rng.randrange(len(t.dims))] = rng.choice(signed)
    elif what == 6 and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice((1, 6, 7, 9, 11, 12, 13, 17, 20, 24, 28, 29, 1 << 40))
    elif tensors:
        t = rng.choice(tensors)
        t.raw_data = flip(rng, t.raw_data)
    return model.SerializeToString()


def mutate(rng, seeds):
    """(folder of the seed's data, the mutated file)"""
    folder, b = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.random()
        if kind < 0.45:
            b = hostile_model(rng, b)
        elif kind < 0.75:
            b = mutate_field(rng, b)
        elif kind < 0.87:
            b = flip(rng, b)
        elif kind < 0.94:
            b = splice(rng, b, rng.choice(seeds)[1])
        else:
            b = b[:rng.randrange(len(b) + 1)]
    return folder, b


def limits(sanitized):
    def apply():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not sanitized:  # a sanitizer reserves terabytes of addresses
            resource.setrlimit(resource.RLIMIT_AS, (4 * BYTES, 4 * BYTES))
    return apply


def command(args, cwd, build, stdin="", leaks=True):
    """(how a command broke its promises, or "", its exit status, its output)"""
    env = dict(os.environ, LC_ALL="C", ASAN_OPTIONS=f"hard_rss_limit_mb={BYTES >> 20}:allocator_may_return_null=1:detect_leaks={leaks:d}",
               UBSAN_OPTIONS="print_stacktrace=1")
    process = subprocess.Popen(args, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True,
                               preexec_fn=limits("san" in os.path.basename(build)))
    try:
        output = process.communicate(stdin.encode(), timeout=SECONDS)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return f"{os.path.basename(args[0])}: more than {SECONDS} s", None, ""
    report = re.search(r"(ERROR: \w+Sanitizer.*|runtime error:.*|hard rss limit.*)", output)
    fault = report.group(1) if report else ""
    if not fault and process.returncode not in (0, 1):
        fault = f"status {process.returncode}: " + "".join(output.strip().splitlines()[-1:])
    if not fault and process.returncode == 1 and not re.search("error|FAIL", output):
        fault = "status 1 without a diagnostic"
    return fault and f"{os.path.basename(args[0])}: {fault}", process.returncode, output


def run_accepted(folder, build):
    """How the artifact of an accepted model, or its generated code, broke a promise; or ""."""
    programs = os.path.join(cases.ROOT, build)
    fault, _, _ = command([os.path.join(programs, "bin", "dlrun"), "model.so", "--bench", "--seconds", "0.01"], folder, build)
    if fault:
        return fault
    os.mkdir(os.path.join(folder, "out"))
    batch = [os.path.join(programs, "tests", "tools", "batch"), "--integers", "--sanitize", "--jobs=1", "out"]
    fault, _, output = command(batch, folder, build, folder + "\n", leaks=False)
    wrong = [line for line in output.splitlines() if line.startswith("FAIL") and "error:" not in line]
    return fault or "".join(wrong[:1])


def one(options, scratch, k, data_folder, data):
    folder = os.path.join(scratch, str(k))
    os.mkdir(folder)
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as f:
        f.write(data)
    os.symlink(os.path.join(data_folder, "test_data_set_0"), os.path.join(folder, "test_data_set_0"))
    dlcc = os.path.join(cases.ROOT, options.build, "bin", "dlcc")
    output = "model.so" if options.run and k % options.run == 0 else "model.c"
    flags = ["--sanitize", "--cc=gcc"] if "san" in os.path.basename(options.build) else []
    fault, status, _ = command([dlcc, *flags, "model.onnx", "-o", output], folder, options.build)
    if not fault and status == 1 and os.path.exists(os.path.join(folder, output)):
        fault = "refused, but wrote an output"
    if not fault and status == 0 and output == "model.so":
        fault = run_accepted(folder, options.build)
    if fault and options.keep:
        os.makedirs(options.keep, exist_ok=True)
        shutil.copy(path, os.path.join(options.keep, f"{options.seed}-{k}.onnx"))
    shutil.rmtree(folder)
    return fault, status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/san")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, default=20, help="run every Nth file where it is accepted; 0: none")
    parser.add_argument("--keep", metavar="DIR", help="keep the files that fail")
    parser.add_argument("--corpus", default=os.environ.get("CORPUS") or os.path.join(cases.ROOT, "..", "shared", "corpus"))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    found = [c for suite in cases.index(options.corpus, ["onnx", "small"]).values() for c in suite]
    paths = [os.path.join(c.dir, "model.onnx") for c in found]
    paths = sorted(p for p in paths if os.path.getsize(p) < 20000)
    seeds = [(os.path.dirname(p), open(p, "rb").read()) for p in rng.sample(paths, min(400, len(paths)))]
    scratch = tempfile.mkdtemp(prefix="dlcc-fuzz-")
    accepted = failed = 0
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            step = 500
            for start in range(0, options.count, step):
                files = [mutate(rng, seeds) for _ in range(min(step, options.count - start))]
                jobs = [pool.submit(one, options, scratch, start + i, *f) for i, f in enumerate(files)]
                for i, job in enumerate(jobs):
                    fault, status = job.result()
                    accepted += status == 0
                    if fault:
                        failed += 1
                        print(f"FAIL {options.seed}-{start + i}: {fault}", flush=True)
                print(f"{start + len(files)} files, {accepted} accepted, {failed} failed", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

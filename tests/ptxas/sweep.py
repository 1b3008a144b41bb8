# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the model suites through ptxas, for each row of the target table: sweep.py BUILD PTXAS FOLDER [PATTERN ...].

Every sweep has the cases of own_cases() too, reduced models that spilled once.

batch leaves a file for each kernel and GPU in FOLDER/ptx, equal kernels once, and leaves alone what is there. They are put
together again, so that ptxas starts once for many, and its report is read kernel by kernel. A kernel fails where it is
refused, where ptxas warns, or says of code that it is slow, or where registers are spilled. FOLDER/seen.json keeps what ptxas said, by what it read: a sweep
costs what changed since the last. One of all cases ('*') writes bench/results/DATE-gpu-ptxas.md.
"""

import datetime
import fnmatch
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import cases  # noqa: E402
import samples  # noqa: E402
import suites  # noqa: E402

SHARE = 120  # one case in so many
TOGETHER = 400_000  # bytes of PTX for one ptxas
HEAD = ".address_size 64\n"
ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
PROPERTIES = re.compile(r"Function properties for (\w+)\n\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")
COMPILES = "codegen/nvptx/column_reduce.c", "codegen/nvptx/llvm.c", "codegen/nvptx/loop.c", "codegen/nvptx/registers.c", "codegen/targets.c"  # make PTX of a kernel's IR, by which its file is named


def chosen_cases(patterns):
    """Those whose SUITE/NAME is like one of PATTERNS; without any, a share of the small ones."""
    index = cases.index(cases.CORPUS, ("onnx", "small", "models") if patterns else ("onnx", "small"))
    excluded = [pattern for pattern, _ in suites.rows_of("excluded.txt")]
    found = [(suite, case) for suite, of in index.items() for case in of
             if not any(fnmatch.fnmatch(f"{suite}/{case.name}", pattern) for pattern in excluded)]
    if not patterns:
        return found[::SHARE]
    return [(suite, case) for suite, case in found if any(fnmatch.fnmatch(f"{suite}/{case.name}", p) for p in patterns)]


def own_cases(folder):
    """Models under FOLDER: each has a kernel that spilled, as small as it can be."""
    # ptxas loads all operands of an unrolled row of seven taps ahead, four channels each, where no tap's guard is a branch.
    taps = np.ones((96, 1, 7, 7), np.float32)
    model = samples.model("taps (float[N,7,7,96] x) => (float[N,7,7,96] y) { c = Transpose<perm = [0,3,1,2]>(x)"
                          " a = Conv<group = 96, pads = [3,3,3,3]>(c, taps) y = Transpose<perm = [0,2,3,1]>(a) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(taps, "taps"))
    models = {"taps": model}
    # Four terms of a column reduction of 8 rows by 4 columns have 48 operands, more than there are registers beside the sums.
    w = np.ones((672, 28), np.float32)
    model = samples.model("skinny (float[N,672] x) => (float[N,28] y) { a = Gemm(x, w, b) s = Sigmoid(a) y = Mul(a, s) }")
    model.graph.initializer.extend([onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(w[0], "b")])
    models["skinny"] = model
    # LLVM computes the distances of rows from keys before the loop over the keys, two registers each.
    models["window"] = samples.model(
        "window (float16[B,2,M,64] q, float16[B,2,64,N] k, float16[B,2,N,64] v, float16 low) => (float16[B,2,M,64] y)"
        " { s = MatMul(q, k) ms = Shape<start = 2, end = 3>(s) ns = Shape<start = 3, end = 4>(s) m = Squeeze(ms) n = Squeeze(ns)"
        " zero = Constant<value_int = 0>() one = Constant<value_int = 1>() rows = Range(zero, m, one) j = Range(zero, n, one)"
        " ax = Constant<value_ints = [1]>() i = Unsqueeze(rows, ax) w = Constant<value_int = 20>() d = Sub(i, j) a = Abs(d)"
        " c = LessOrEqual(a, w) t = Where(c, s, low) p = Softmax<axis = -1>(t) y = MatMul(p, v) }")
    for name, model in models.items():
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        onnx.save(model, f"{folder}/{name}/model.onnx")
    return [("own", cases.Case(name, f"{folder}/{name}", ())) for name in models]


def must_pass():
    """Names on the lists of what compiles for GPUs."""
    names = set()
    for suite in ("onnx", "small", "models"):
        path = os.path.join(cases.ROOT, "tests", "passing", suite + ".ptx.txt")
        if os.path.exists(path):
            names.update(f"{suite}/{line.strip()}" for line in open(path))
    return names


def compile_cases(build, folder, chosen):
    """Kernels under FOLDER/ptx; the cases that should have some, and have not."""
    command = [os.path.join(build, "tests", "tools", "batch"), f"--ptx={folder}/ptx", "--seconds=600", folder + "/out"]
    output = subprocess.run(command, input="".join(case.dir + "\n" for _, case in chosen), text=True,
                            capture_output=True).stdout
    listed, failed = must_pass(), []
    verdict = {m[2]: (m[1], m[3]) for m in re.finditer(r"^(PASS|FAIL|SKIP) (/\S+) ptx(?:: (.*))?$", output, re.M)}
    for suite, case in chosen:
        status, why = verdict.get(case.dir, ("FAIL", "no verdict"))
        if status == "FAIL" or (status == "SKIP" and f"{suite}/{case.name}" in listed):
            failed.append(f"{suite}/{case.name}: {why}")
    return failed, Counter(status for status, _ in verdict.values())


def digest(*texts):
    h = hashlib.sha256()
    for text in texts:
        h.update(text.encode())
    return h.hexdigest()[:32]


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def version(ptxas):
    said = subprocess.run([ptxas, "--version"], text=True, capture_output=True).stdout
    return re.search(r"V([\d.]+)", said)[1]


def kept_folder(folder, build):
    """FOLDER/ptx, without what another compiler left there."""
    stamp = digest(*(read(cases.ROOT, name) for name in COMPILES),
                   subprocess.run([build + "/bin/dlcc", "--version"], text=True, capture_output=True).stdout)
    path = folder + "/stamp"
    if not os.path.exists(path) or read(path) != stamp:
        shutil.rmtree(folder + "/ptx", ignore_errors=True)
    os.makedirs(folder + "/ptx", exist_ok=True)
    with open(path, "w") as f:
        f.write(stamp)


class Kernel:
    """A file of batch's: TEXT is its part of a module, apart from its NAME and remarks; NODES are those of the model."""

    def __init__(self, target, path):
        text = read(path)
        at = text.index(HEAD) + len(HEAD)
        self.head, text = text[:at], text[at:]
        self.nodes = re.search(r"// (.*)", text)[1]
        self.name = ENTRY.search(text)[1]
        self.text = re.sub(r"[ \t]*//.*", "", text).replace(self.name, "kernel")
        self.key = target + " " + digest(self.text, self.head)


def portions(kernels):
    """Lists of them: a module each."""
    some, size = [], 0
    for kernel in kernels:
        if some and size + len(kernel.text) > TOGETHER:
            yield some
            some, size = [], 0
        some.append(kernel)
        size += len(kernel.text)
    if some:
        yield some


def assemble(ptxas, target, number, kernels, folder):
    """{key: [bytes of stack, what is wrong with it, or ""]}"""
    module = os.path.join(folder, f"{target}_{number}.ptx")
    with open(module, "w") as f:
        f.write(kernels[0].head + "".join(k.text.replace("kernel", f"k{i}_") for i, k in enumerate(kernels)))
    done = subprocess.run([ptxas, "-v", "--warn-on-spills", f"-arch={target}", "-o", os.devnull, module], text=True,
                          capture_output=True)
    os.unlink(module)
    log = done.stdout + done.stderr
    found = {name: [int(frame), f"{stores} bytes spilled, {loads} read back" if stores != "0" or loads != "0" else ""]
             for name, frame, stores, loads in PROPERTIES.findall(log)}
    said = {}
    for line in log.splitlines():
        if re.match(r"ptxas\b[^:]*\b(warning|error|fatal)\s*:|ptxas\b.*(\(C75\d\d\)|Potential Performance Loss)", line):
            name = re.search(r"\bk\d+_", line)
            said.setdefault(name[0] if name else "k0_", line.strip())
    if done.returncode and not said:
        said["k0_"] = "ptxas ends with status %d" % done.returncode
    verdicts = {}
    for i, kernel in enumerate(kernels):
        frame, wrong = found.get(f"k{i}_", [0, "not assembled"])
        verdicts[kernel.key] = [frame, wrong if "spilled" in wrong else said.get(f"k{i}_", wrong)]
    return verdicts


def sweep(target, ptxas, folder, since, seen):
    """The kernels that this run asked for, and how many of them ptxas had not seen; their verdicts go to SEEN."""
    paths = [path for path in sorted(glob.glob(f"{folder}/ptx/{target}/*.ptx")) if os.stat(path).st_mtime >= since]
    kernels = [Kernel(target, path) for path in paths]
    fresh = list({k.key: k for k in kernels if k.key not in seen}.values())
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for verdicts in pool.map(lambda job: assemble(ptxas, target, *job, folder), enumerate(portions(fresh))):
            seen.update(verdicts)
    return kernels, len(fresh)


def write_results(ptxas, summary, rows, seconds):
    """What a sweep of everything found, for those who do not run it."""
    commit = subprocess.run(["git", "-C", cases.ROOT, "describe", "--always", "--dirty"], text=True, capture_output=True).stdout.strip()
    day = datetime.date.today().isoformat()
    with open(os.path.join(cases.ROOT, "bench", "results", day + "-gpu-ptxas.md"), "w") as f:
        f.write(f"# Every kernel of the suites through ptxas {version(ptxas)}\n\n`make gpu-ptxas` at {commit}: {summary}; "
                f"{seconds:.0f} s. What ptxas had seen before it was not asked again.\n\n"
                "| GPU | kernels | asked now | with spills | with warnings or errors | with a stack frame |\n|---|---:|---:|---:|---:|---:|\n")
        f.writelines("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def main():
    build, ptxas, folder = (os.path.abspath(a) for a in sys.argv[1:4])
    began = time.time()
    chosen = own_cases(folder + "/own") + chosen_cases(sys.argv[4:])
    kept_folder(folder, build)
    failed, verdicts = compile_cases(build, folder, chosen)
    summary = f"{len(chosen)} cases, {verdicts['PASS']} compiled, {verdicts['SKIP']} with operators that are not supported"
    print(summary)
    for line in failed:
        print("FAIL", line)
    path, rows, passed = folder + "/seen.json", [], 0
    seen = json.loads(read(path)) if os.path.exists(path) else {}
    if seen.get("ptxas") != version(ptxas):
        seen = {"ptxas": version(ptxas)}
    for target in sorted(os.listdir(folder + "/ptx"), key=lambda t: int(re.search(r"\d+", t)[0])):
        kernels, fresh = sweep(target, ptxas, folder, began - 1, seen)
        with open(path, "w") as f:
            json.dump(seen, f)
        bad = [(k, seen[k.key][1]) for k in kernels if seen[k.key][1]]
        spills, frames = sum("spilled" in why for _, why in bad), sum(seen[k.key][0] > 0 for k in kernels)
        rows.append((target, len(kernels), fresh, spills, len(bad) - spills, frames))
        print(f"{target:7} {len(kernels)} kernels, {fresh} new, {spills} with spills, {len(bad) - spills} with warnings or errors, "
              f"{frames} with a stack frame", flush=True)
        for kernel, why in bad:
            print(f"FAIL {target} {kernel.name}: {why}: {kernel.nodes[:100]}")
        failed += bad
        passed += len(kernels) - len(bad)
    if sys.argv[4:] == ["*"]:
        write_results(ptxas, summary, rows, time.time() - began)
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The suites of run.py. A Test has a suite, a name, and a function that takes the Runner and returns a list of Verdicts: one, or
several if a program runs many tests at once."""

import difflib
import fnmatch
import functools
import glob
import os
import re
import shlex
import shutil
import sys
import zlib
from collections import namedtuple

import cases
import edges

ROOT = cases.ROOT
Test = namedtuple("Test", "suite name run")
Verdict = namedtuple("Verdict", "suite name status message", defaults=("",))

MODEL_SUITES = ("onnx", "small", "models")
PATHS = ("eval", "c", "ir", "int", "ptx")
PASS = ("pass", "")


def listed_suites():
    return [f"{suite}.{path}" for suite in MODEL_SUITES for path in PATHS]


def single(suite, name, function, *arguments):
    """A test with one verdict; FUNCTION(*ARGUMENTS, runner) returns its status and message."""
    def run(runner):
        return [Verdict(suite, name, *function(*arguments, runner))]
    return Test(suite, name, run)


def fail(message):
    return "fail", message


def brief(status, output):
    """One line about a failed command: how it ended, and the line of its output that gives the reason."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|runtime error|ERROR|FAIL|wrong|Assert", line)]
    why = (telling or lines[-1:] or ["no output"])[0].strip()[:300]
    ended = "out of time" if status is None else f"signal {-status}" if status < 0 else f"status {status}"
    return f"{ended}: {why}"


def verdict(status, output):
    """The verdict of a command that reports only a status; 77 means that something it needs is missing here."""
    if status == 77:
        return "skip", output.strip().splitlines()[-1] if output.strip() else "status 77"
    return PASS if status == 0 else fail(brief(status, output))


def command_test(command, seconds, runner):
    return verdict(*runner.run(command, seconds=seconds))


def faults_test(command, seconds, runner):
    """Every line that the command prints is one fault."""
    status, output = runner.run(command, seconds=seconds)
    return PASS if status == 0 else fail("\n      ".join(output.strip().splitlines()) or brief(status, output))


def last_lines(lines):
    """The end of the output of a script in which no line FAIL says why a test failed."""
    return "\n      ".join(["failed; the end of its output:"] + [line[:300] for line in lines[-5:]])


def failed_name(line):
    """What a line FAIL NAME: WHY or FAIL: NAME: WHY names."""
    found = re.search(r"FAIL:? +([^:]+)", line)
    return found[1].strip()[:80] if found else "?"


def script_tests(path):
    """A script that prints lines FAIL: NAME: WHY and a last line "N passed, N failed", or reports only a status."""
    name = os.path.basename(os.path.dirname(path))

    def run(runner):
        status, output = runner.run(["bash", path], seconds=7200 if runner.options.all else 600)
        lines = output.strip().splitlines() or [""]
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", lines[-1])
        if not counts or (status != 0 and counts.group(2) == "0"):
            return [Verdict("scripts", name, *verdict(status, output))]
        passed, failed, skipped = (int(n or 0) for n in counts.groups())
        if not passed + failed + skipped:
            return [Verdict("scripts", name, *fail("it ran no test: " + lines[-1]))]
        why = [line for line in lines if "FAIL" in line][:failed]
        why += [last_lines(lines[:-1])] * (failed - len(why))
        return ([Verdict("scripts", f"{name}#{i}", "pass") for i in range(passed)] +
                [Verdict("scripts", f"{name}/{failed_name(line)}", "fail", line) for line in why] +
                [Verdict("scripts", f"{name}#skipped {i}", "skip") for i in range(skipped)])
    return Test("scripts", name, run)


# ---- Text tests ----
#
# A file has a comment that says what is tested, any number of lines "; RUN: dlcc-opt %s -p canon", the input, "; ----", and the
# output of the commands (stdout and stderr together), with "; exit N" after a command whose status is not 0. %s is the input,
# %t a name for outputs. The input of a .onnxtxt is a model in ONNX's textual syntax; %s is then the model in binary form.

SEPARATOR = "; ----\n"
FAULT = re.compile(r"^; exit \d+$|\berror: ", re.M)
WRITTEN, NOW_FAILS = "written", "written; it has an error now that it had not"


def text_input(path, source, folder):
    """Writes the input to the file for %s. Leading comment lines become empty lines, so that line numbers are kept."""
    stem = os.path.splitext(os.path.basename(path))[0]
    lines = source.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if not line.startswith(";"):
            break
        lines[i] = "\n"
    if path.endswith(".onnxtxt"):
        import onnx.parser

        name = stem + ".onnx"
        model = onnx.parser.parse_model("".join(lines))
        with open(os.path.join(folder, name), "wb") as f:
            f.write(model.SerializeToString())
    else:
        name = stem + ".dl"
        with open(os.path.join(folder, name), "w") as f:
            f.writelines(lines)
    return name


def text_test(path, runner):
    with open(path) as f:
        source, separator, expected = f.read().partition(SEPARATOR)
    commands = re.findall(r"^; RUN: (.*)$", source, re.M)
    if not commands:
        return fail("no '; RUN:' line")
    folder = runner.folder()
    name = text_input(path, source, folder)
    printed = ""
    for command in commands:
        command = command.replace("%s", shlex.quote(name)).replace("%t", "out")
        status, output = runner.run(["bash", "-c", command], cwd=folder, seconds=20)
        printed += output
        if status is None or status < 0:
            return fail(brief(status, output))
        if status:
            printed += f"; exit {status}\n"
    if printed == expected and separator:
        return PASS
    if runner.options.bless:
        with open(path, "w") as f:
            f.write(source + SEPARATOR + printed)
        return "pass", NOW_FAILS if len(FAULT.findall(printed)) > len(FAULT.findall(expected)) else WRITTEN
    return fail(difference(expected, printed) + text_help(path, os.path.join(folder, name), commands, runner))


DIFFERENCE = 40  # lines of a difference that are shown


def difference(expected, printed):
    if not expected:
        return "no output is expected yet"
    lines = list(difflib.unified_diff(expected.splitlines(), printed.splitlines(), "expected", "printed", "", "", 2, ""))
    if not lines:
        return "the output ends without a newline"
    return "\n      ".join(["the output differs:", *lines[:DIFFERENCE], *(["..."] if len(lines) > DIFFERENCE else [])])


def text_help(path, source, commands, runner):
    """What to type to see a text test fail, and to change what it expects. Its input is kept in build/failed."""
    kept, build = os.path.join(runner.build, "failed"), os.path.relpath(runner.build, ROOT)
    os.makedirs(kept, exist_ok=True)
    shutil.copy(source, kept)
    given = os.path.join(build, "failed", os.path.basename(source))
    shown = [f"PATH={build}/bin:$PATH; " + c.replace("%s", shlex.quote(given)).replace("%t", given + ".out") for c in commands]
    again = f"{os.path.relpath(sys.executable, ROOT)} tests/run.py {os.path.relpath(path, ROOT)}"
    return "\n      ".join(["", *shown, "again: " + again, f"to expect what it prints now: {again} --bless"])


# ---- Model suites ----

def rows_of(name):
    """Reads tests/NAME, lines "pattern: text": [(pattern of SUITE/NAME, text)]."""
    rows = []
    with open(os.path.join(ROOT, "tests", name)) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                pattern, _, text = line.strip().partition(": ")
                rows.append((pattern, text))
    return rows


def supported_ops(runner):
    status, output = runner.run([runner.tool("dlcc"), "--list-ops"], seconds=20)
    if status != 0:
        raise RuntimeError("dlcc --list-ops: " + brief(status, output))
    return {line.split()[0] for line in output.splitlines() if line.strip()} | {"Constant", "Scatter"}  # a form; an older name


BATCH = 40
LINE = re.compile(r"(PASS|FAIL|SKIP) (/\S+) (eval|c|ir|int|edge|ptx)(?:: (.*))?")


# Code for sm_80 is run on simulated GPUs of these capabilities; the second one has less shared memory for a block.
GPUS = 80, 86


def on_gpu(folder, sm):
    """The environment of a command whose driver is the simulator in FOLDER."""
    return ["env", f"LD_LIBRARY_PATH={folder}", f"PTXSIM_SM={sm}"]


def simulator(runner):
    """The folder of the simulator's libcuda.so.1; None if there is none, or dlcc is built without LLVM."""
    folder = os.path.join(runner.build, "ptxsim")
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        return None
    return folder if "cuda:" in runner.run([runner.tool("dlcc"), "--list-targets"], seconds=20)[1] else None


def batch(runner, lines, names, paths, options, under=()):
    """Runs the cases NAMES, {folder or file: name}, by each of PATHS: {(name, path): (status, message)}."""
    folder = runner.folder()
    command = [*under, os.path.join(runner.build, "tests", "tools", "batch"), "--jobs=1", f"--size={BATCH}", *options,
               *(["--sanitize", "--seconds=120"] if os.path.basename(runner.build) == "san" else []), folder]
    status, output = runner.run(command, seconds=900, stdin="".join(lines))
    shutil.rmtree(folder)
    found = {}
    for match in filter(None, map(LINE.fullmatch, output.splitlines())):
        verdict, where, path, why = match.groups()
        if where in names and path in paths:
            found[names[where], path] = verdict.lower(), why or ""
    for name in names.values():
        for path in paths:
            found.setdefault((name, path), fail("no verdict: " + brief(status, output)))
    return found


def noises():
    """{SUITE/NAME: the noise of that case's references, as text}"""
    return {name: text.split()[0] for name, text in rows_of("noise.txt")}


def run_batch(runner, suite, found, paths, options, under=()):
    """A verdict for each case of FOUND and each of PATHS; for `int` only if the model has sums that are exact."""
    names = {case.dir: case.name for case in found}
    noise = noises()
    lines = [f"{dir}\t{noise.get(f'{suite}/{name}', 0)}\n" for dir, name in names.items()]
    results = batch(runner, lines, names, paths, options, under)
    shown = {case.name: model_help(case.dir, runner) for case in found}
    return [Verdict(f"{suite}.{path}", name, status, why + (shown[name] if status == "fail" else ""))
            for (name, path), (status, why) in results.items() if (path, status) != ("int", "skip")]


def model_help(folder, runner):
    """What to type to see a model case fail."""
    build, folder = os.path.relpath(runner.build, ROOT), os.path.relpath(folder, ROOT)
    return (f"\n      {build}/tests/tools/evalcase {folder}"
            f"\n      {build}/bin/dlcc {folder}/model.onnx -o {build}/x.so && {build}/bin/dlrun {build}/x.so --data {folder}")


def ptx_verdicts(runner, suite, found, gpus):
    """Runs the cases FOUND on the simulated GPUS, if there is a simulator. Those of heavy.txt need --all."""
    folder = simulator(runner)
    if not folder:
        return []
    heavy = {} if runner.options.all else dict(rows_of("heavy.txt"))
    left = [Verdict(suite + ".ptx", case.name, "skip", heavy[f"{suite}/{case.name}"]) for case in found
            if f"{suite}/{case.name}" in heavy]
    light = [case for case in found if f"{suite}/{case.name}" not in heavy]
    options = ["--gpu=sm_80", "-O0", "--kernels"] + (["--seconds=300"] if suite == "models" else [])
    verdicts = {}
    for sm in gpus if light else ():
        for v in run_batch(runner, suite, light, ("ptx",), options, on_gpu(folder, sm)):
            if verdicts.setdefault(v.name, v).status != "fail" and v.status == "fail":
                verdicts[v.name] = v._replace(message=f"on sm_{sm}: {v.message}")
    return left + list(verdicts.values())


def batch_test(suite, found, gpus, level):
    """A test of the cases FOUND through build/tests/tools/batch, with LEVEL, options of how they are compiled, and on these simulated GPUS."""
    def run(runner):
        roundtrip = runner.options.all or suite != "onnx"
        paths, options = (("eval", "c", "ir", "int"), ["--roundtrip"]) if roundtrip else (("eval", "c", "int"), [])
        return (run_batch(runner, suite, found, paths, [*level, "--kernels", "--integers", *options]) +
                ptx_verdicts(runner, suite, found, gpus))
    return Test(suite, f"{found[0].name} ... {found[-1].name}", run)


# ---- One model on the simulated GPU, in many orders of warps ----

ORDERS, ORDERED_MODEL = 16, "nlp/bert_toy_ort"


def orders_test():
    def run(runner):
        sim, data = simulator(runner), os.path.join(runner.corpus, "models", ORDERED_MODEL)
        if not sim or not os.path.exists(data):
            return [Verdict("orders", ORDERED_MODEL, "skip", "no code for GPUs, no simulator, or no corpus")]
        so = os.path.join(runner.folder(), "model.so")
        status, output = runner.run([runner.tool("dlcc"), data + "/model.onnx", "-o", so, "--target=cuda:sm_80"], seconds=120)
        if status:
            return [Verdict("orders", ORDERED_MODEL, *fail(brief(status, output)))]
        command = [runner.tool("dlrun"), so, "--device=cuda", "--data", data]
        return [Verdict("orders", f"{ORDERED_MODEL} {seed}",
                        *command_test(["env", f"LD_LIBRARY_PATH={sim}", f"PTXSIM_SEED={seed}", *command], 120, runner))
                for seed in range(0, ORDERS, 1 if runner.options.all else 4)]
    return Test("orders", ORDERED_MODEL, run)


# ---- Sizes and values at the edges (edges.py) ----

EDGE_PARTS = 8    # tests into which a target's cases are divided
EDGE_SHARE = 480  # without --all, one case in this many runs
GPU_SHARE = 360   # the same on the simulated GPU


def edge_test(target, part, parts, level="-O1"):
    """The cases whose name hashes to PART of PARTS; their C is compiled with LEVEL."""
    def run(runner):
        folder = runner.folder()
        chosen = lambda name: zlib.crc32(f"{target} {name}".encode()) % parts == part
        names = edges.write(os.path.join(runner.build, "tests", "tools", "tables"), target, folder, chosen)
        results = batch(runner, [path + "\n" for path in names], names, ("edge",), [f"--target={target}", level])
        shutil.rmtree(folder)
        return [Verdict("edges", f"{target}/{name}", *result) for (name, _), result in results.items()]
    return Test("edges", f"{target}/{part}", run)


def edge_test_on_gpu(target, parts, k):
    """Runs part K of PARTS on one of GPUS, with the sizes of TARGET, a CPU."""
    def run(runner):
        sim, folder = simulator(runner), runner.folder()
        if not sim:
            return [Verdict("edges", "gpu", "skip", "no code for GPUs, or no simulator")]
        chosen = lambda name: zlib.crc32(f"gpu {name}".encode()) % parts == k
        names = edges.write(os.path.join(runner.build, "tests", "tools", "tables"), target, folder, chosen)
        results = batch(runner, [path + "\n" for path in names], names, ("ptx",), ["--gpu=sm_80", "-O0", "--kernels"],
                        on_gpu(sim, GPUS[k % len(GPUS)]))
        shutil.rmtree(folder)
        return [Verdict("edges", f"gpu/{name}", *result) for (name, _), result in results.items()]
    return Test("edges", f"gpu/{k}", run)


def edge_tests(runner):
    status, targets = runner.run([os.path.join(runner.build, "tests", "tools", "tables")], seconds=20)
    for k, target in enumerate(targets.split() if status == 0 else ()):
        # The C compiler takes most of the time: without --all, every second target does without its optimisations.
        for part in range(EDGE_PARTS) if runner.options.all else ():
            yield edge_test(target, part, EDGE_PARTS)
        if not runner.options.all:
            yield edge_test(target, 0, EDGE_SHARE, "-O0" if k % 2 else "-O1")
    for k in range(len(GPUS)) if status == 0 and targets else ():
        yield edge_test_on_gpu(targets.split()[0], EDGE_PARTS if runner.options.all else GPU_SHARE, k)


# Without --all, one case in this many runs: the C compiler takes most of the time. The fuzzers, edges and `equal` try the same operators.
SHARES = {"onnx": 8, "small": 6, "models": 8}


def wanted(suite, case, patterns):
    """Whether a pattern names the suite, with or without a path, or matches SUITE/NAME or SUITE.PATH/NAME."""
    for pattern in patterns:
        family, slash, name = pattern.partition("/")
        if family.split(".")[0] == suite and (not slash or fnmatch.fnmatch(case.name, name)):
            return True
    return not patterns


def model_tests(runner):
    patterns = runner.options.tests
    suites = [s for s in MODEL_SUITES if not patterns or any(re.split("[./]", p)[0] == s for p in patterns)]
    if not suites:
        return
    try:
        supported, exclusions = supported_ops(runner), rows_of("excluded.txt")
    except (OSError, RuntimeError) as e:
        yield single(suites[0], "dlcc --list-ops", lambda _, why=str(e): fail(why))
        return
    index = cases.index(runner.corpus, suites)
    for suite in suites:
        found, ready = index.get(suite, []), []
        if not found:
            yield single(suite, "all", lambda _: ("skip", f"not in {runner.corpus}"))
        for case in found:
            if not wanted(suite, case, patterns):
                continue
            lacking = [op for op in case.ops if op not in supported]
            why = [reason for pattern, reason in exclusions if fnmatch.fnmatch(f"{suite}/{case.name}", pattern)]
            if lacking:
                why.append("op not supported: " + ", ".join(lacking))
            for path in PATHS[:2] if why else ():
                yield single(f"{suite}.{path}", case.name, lambda _, why=why[0]: ("skip", why))
            if not why:
                ready.append(case)
        if not runner.options.all and not patterns:
            share = ready[::SHARES[suite]]
            runner.shares[suite], ready = (len(share), len(ready)), share
        step = BATCH if suite != "models" else 4
        for i in range(0, len(ready), step):
            # A simulated GPU is slow: all cases run on all GPUS if they are asked for; else a quarter, of whole models an eighth, on
            # one GPU in turn.
            named = any(p.split("/")[0] in (suite, suite + ".ptx") for p in patterns)
            share = 8 if suite == "models" else 4
            every, turn = runner.options.all or named, i // step // share % len(GPUS)
            gpus = GPUS if every else GPUS[turn:turn + 1] if not patterns and i // step % share == 0 else ()
            # The C compiler and the proofs of schedules take most of the time: three quarters of the small cases do without optimisations,
            # and without proofs.
            level = ["-O1"] if every or patterns or i // step % 4 == 1 else ["-O0"] if suite == "models" else ["-O0", "--no-proofs"]
            yield batch_test(suite, ready[i:i + step], gpus, level)


def files(*patterns):
    return sorted(path for p in patterns for path in glob.glob(os.path.join(ROOT, p), recursive=True))


def collect(runner):
    """All tests; the cheap ones first, since they find most faults."""
    tests = [single("layers", "include directions", faults_test, [sys.executable, "tests/layers.py"], 60),
             single("docs", "exact", faults_test, [sys.executable, "tests/docs.py", runner.build], 60)]
    tests.append(single("warnings", "gcc and clang", command_test, ["make", "-s", "warnings"], 120))
    for path in files("tests/unit/*.c"):
        name = os.path.splitext(os.path.basename(path))[0]
        tests.append(single("unit", name, command_test, [os.path.join(runner.build, "tests", "unit", name)], 60))
    tests += [script_tests(path) for path in files("tests/*/run.sh")]
    for path in files("tests/**/*.dl", "tests/**/*.onnxtxt"):
        tests.append(single("text", os.path.relpath(path, os.path.join(ROOT, "tests")), text_test, path))
    for path in files("examples/*/run.sh"):
        name = os.path.basename(os.path.dirname(path))
        tests.append(single("examples", name, command_test, ["bash", path, runner.build], 120))
    return tests + [orders_test()] + list(edge_tests(runner)) + list(model_tests(runner))

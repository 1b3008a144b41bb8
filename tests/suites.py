# SPDX-License-Identifier: Apache-2.0
"""The suites of run.py. A test is a suite, a name and a function of the Runner that returns a list of
(name suffix, status, message)."""

import fnmatch
import functools
import glob
import os
import re
import shlex
import shutil
from collections import namedtuple

import cases

ROOT = cases.ROOT
Test = namedtuple("Test", "suite name run")

MODEL_SUITES = ("onnx", "small", "models")
PATHS = ("eval", "c", "ir")
PASS = [("", "pass", "")]


def listed_suites():
    return [f"{suite}.{path}" for suite in MODEL_SUITES for path in PATHS]


def fail(message):
    return [("", "fail", message)]


def brief(status, output):
    """A failing command in a line: how it ended, and the line of its output that says why."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|runtime error|ERROR|FAIL|wrong|Assert", line)]
    why = (telling or lines[-1:] or ["no output"])[0].strip()[:300]
    ended = "out of time" if status is None else f"signal {-status}" if status < 0 else f"status {status}"
    return f"{ended}: {why}"


def command_test(command, seconds, runner):
    status, output = runner.run(command, seconds=seconds)
    if status == 77:
        return [("", "skip", output.strip().splitlines()[-1] if output.strip() else "status 77")]
    return PASS if status == 0 else fail(brief(status, output))


def script_test(path, runner):
    """A script that prints FAIL lines and a closing line "N passed, N failed", or only has a status."""
    status, output = runner.run(["bash", path], seconds=600)
    lines = output.strip().splitlines()
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", lines[-1]) if lines else None
    if not counts:
        return PASS if status == 0 else [("", "skip", "")] if status == 77 else fail(brief(status, output))
    passed, failed, skipped = (int(n or 0) for n in counts.groups())
    why = [line for line in lines if "FAIL" in line] + ["failed"] * failed
    results = [(f"#{i}", "pass", "") for i in range(passed)]
    results += [(f"#{passed + i}", "fail", why[i]) for i in range(failed)]
    results += [(f"#{passed + failed + i}", "skip", "") for i in range(skipped)]
    return results if status == 0 or failed else fail(brief(status, output))


# ---- Text tests ----
#
# "; what is tested", "; RUN: dlcc-opt %s -p canon" (any number), the input, "; ----", what the commands print
# (stdout and stderr together), then "; exit N" where a command ended with another status than 0. %s is the
# input, %t a name for outputs. The input of a .onnxtxt is a model in ONNX's textual syntax; %s is that model.

SEPARATOR = "; ----\n"


def text_input(path, source, folder):
    """Writes the input where %s finds it. Leading comment lines become empty, so that line numbers stay."""
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
        return PASS
    return fail(difference(expected, printed))


def difference(expected, printed):
    want, got = expected.splitlines(), printed.splitlines()
    for i in range(max(len(want), len(got))):
        a = want[i] if i < len(want) else "the end"
        b = got[i] if i < len(got) else "the end"
        if a != b:
            return f"line {i + 1} of the output: expected '{a}', got '{b}'"
    return "the output ends without a newline"


# ---- Model suites ----

def excluded():
    """[(pattern of SUITE/NAME, reason)] from tests/excluded.txt, lines "pattern: reason"."""
    rows = []
    with open(os.path.join(ROOT, "tests", "excluded.txt")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                pattern, _, reason = line.strip().partition(": ")
                rows.append((pattern, reason))
    return rows


def supported_ops(runner):
    status, output = runner.run([runner.tool("dlcc"), "--list-ops"], seconds=20)
    if status != 0:
        raise RuntimeError("dlcc --list-ops: " + brief(status, output))
    return {line.split()[0] for line in output.splitlines() if line.strip()}


def eval_case(case, runner):
    evalcase = os.path.join(runner.build, "tests", "tools", "evalcase")
    status, output = runner.run([evalcase, case.dir], seconds=60)
    verdict, _, rest = output.strip().splitlines()[-1].partition(" ") if output.strip() else ("", "", "")
    if verdict == "PASS":
        return PASS
    return [("", "skip" if verdict == "SKIP" else "fail", rest.partition(": ")[2] or brief(status, output))]


def compile_case(case, runner):
    model, folder = os.path.join(case.dir, "model.onnx"), runner.folder()
    so = os.path.join(folder, "model.so")
    try:
        status, output = runner.run([runner.tool("dlcc"), model, "-o", so], seconds=60)
        if status != 0:
            return fail("dlcc: " + brief(status, output))
        status, output = runner.run([runner.tool("dlrun"), so, "--data", case.dir], seconds=60)
        return PASS if status == 0 else fail("dlrun: " + brief(status, output))
    finally:
        shutil.rmtree(folder)


def ir_case(case, runner):
    """The model's IR, printed, read and compiled again, gives the same bytes of C."""
    model, folder = os.path.join(case.dir, "model.onnx"), runner.folder()
    try:
        for command in ([model, "-o", "a.dl"], [model, "-o", "a.c", "--name=m"], ["a.dl", "-o", "b.c", "--name=m"]):
            status, output = runner.run([runner.tool("dlcc"), *command], cwd=folder, seconds=60)
            if status != 0:
                return fail(f"dlcc {' '.join(command[1:])}: " + brief(status, output))
        with open(os.path.join(folder, "a.c"), "rb") as a, open(os.path.join(folder, "b.c"), "rb") as b:
            return PASS if a.read() == b.read() else fail("the C of the IR differs from that of the model")
    finally:
        shutil.rmtree(folder)


def skip(reason, runner):
    return [("", "skip", reason)]


def model_tests(runner):
    wanted = runner.options.tests
    suites = [s for s in MODEL_SUITES if not wanted or any(p.split("/")[0].split(".")[0] == s for p in wanted)]
    if not suites:
        return
    try:
        supported, exclusions = supported_ops(runner), excluded()
    except (OSError, RuntimeError) as e:
        yield Test(suites[0], "dlcc --list-ops", lambda _, why=str(e): fail(why))
        return
    for suite, found in cases.index(runner.corpus, suites).items():
        for case in found:
            lacking = [op for op in case.ops if op not in supported]
            reasons = [why for pattern, why in exclusions if fnmatch.fnmatch(f"{suite}/{case.name}", pattern)]
            for path, run in zip(PATHS, (eval_case, compile_case, ir_case)):
                if reasons:
                    test = functools.partial(skip, reasons[0])
                elif lacking:
                    test = functools.partial(skip, "op not supported: " + ", ".join(lacking))
                elif path == "ir" and suite == "onnx" and not runner.options.all:
                    continue
                else:
                    test = functools.partial(run, case)
                yield Test(f"{suite}.{path}", case.name, test)


def files(*patterns):
    return sorted(path for p in patterns for path in glob.glob(os.path.join(ROOT, p), recursive=True))


def collect(runner):
    """All tests; the cheap ones first, since they say most."""
    tests = [Test("layers", "include directions", functools.partial(command_test, ["make", "-s", "layers"], 60))]
    for path in files("tests/unit/*.c"):
        name = os.path.splitext(os.path.basename(path))[0]
        program = os.path.join(runner.build, "tests", "unit", name)
        tests.append(Test("unit", name, functools.partial(command_test, [program], 60)))
    for path in files("tests/*/run.sh"):
        name = os.path.basename(os.path.dirname(path))
        tests.append(Test("scripts", name, functools.partial(script_test, path)))
    for path in files("tests/**/*.dl", "tests/**/*.onnxtxt"):
        name = os.path.relpath(path, os.path.join(ROOT, "tests"))
        tests.append(Test("text", name, functools.partial(text_test, path)))
    for path in files("examples/*/run.sh"):
        name = os.path.basename(os.path.dirname(path))
        tests.append(Test("examples", name, functools.partial(command_test, ["bash", path, runner.build], 120)))
    tests.extend(model_tests(runner))
    return tests

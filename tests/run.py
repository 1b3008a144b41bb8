# SPDX-License-Identifier: Apache-2.0
"""Runs the tests: run.py [options] [SUITE | SUITE/PATTERN | FILE ...], default all suites; a FILE is a text test's.

Suites: layers, docs, warnings, unit (build/tests/unit), scripts (tests/*/run.sh), text (tests/**/*.dl, *.onnxtxt), examples
(examples/*/run.sh), edges (edges.py: sizes and values at the edges, on every target), orders (a model on the simulated GPU, in many orders), and the model suites onnx, small, models, each by path: eval, the interpreter against the
reference; c, the generated code; ir, printed, read and compiled again, the same C; int, on small integers bit-equal
to eval; ptx, on the simulated GPU. tests/passing/SUITE.PATH.txt lists the cases that passed once: one of these failing is a failure, another
one is skipped as "not yet". The last line counts.
"""

import argparse
import collections
import fnmatch
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, as_completed

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases  # noqa: E402
import suites  # noqa: E402

ROOT = suites.ROOT
PASSING = os.path.join(ROOT, "tests", "passing")

# status: pass, fail, skip, or todo (fails, and is not on the list of passing cases)
# cpu: seconds of the processors; only with one test at a time are they those of the test alone
Result = namedtuple("Result", "suite name status message seconds cpu")

live = set()  # process groups that commands started


def run_command(command, cwd, seconds, env, stdin):
    """(exit status, output); a status of None: out of time. Ends all that the command started."""
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=env, start_new_session=True)
    live.add(process.pid)
    try:
        output, _ = process.communicate(stdin.encode(), timeout=seconds)
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output.decode(errors="replace")
    finally:
        live.discard(process.pid)


def stop(_signal, _frame):
    """Ends what runs, so that the folder of this run can go."""
    for pid in list(live):
        os.killpg(pid, signal.SIGKILL)
    raise KeyboardInterrupt


class Runner:
    """What a suite needs: the build folder, options, and commands with a time limit."""

    def __init__(self, options, scratch):
        self.options = options
        self.build = os.path.join(ROOT, options.build)
        self.corpus = options.corpus
        self.scratch = scratch
        self.shares = {}  # {suite: (how many cases run, of how many)} of suites of which not all do
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DLCC_", "MAKE", "MFLAGS"))}
        env.update(PATH=os.path.join(self.build, "bin") + os.pathsep + env["PATH"], LC_ALL="C",
                   BUILD=self.build, PYTHON=sys.executable, TMPDIR=scratch, TESTS="all" if options.all else "share",
                   PATIENCE=str(options.patience))
        env.update(self.sanitizers())
        self.env = env

    def sanitizers(self):
        """What the examples need to link with the runtime of this build."""
        flags = {"san": ("--sanitize --cc=gcc", "-fsanitize=address,undefined"),
                 "tsan": (f"--runtime={ROOT}/build/lib/libdlrt.a", "-fsanitize=thread")}
        return dict(zip(("DLCC_FLAGS", "CFLAGS"), flags.get(os.path.basename(self.build), ("", ""))))

    def run(self, command, cwd=None, seconds=60, stdin=""):
        return run_command(command, cwd or ROOT, seconds * self.options.patience, self.env, stdin)

    def tool(self, name):
        return os.path.join(self.build, "bin", name)

    def folder(self):
        return tempfile.mkdtemp(dir=self.scratch)


def read_lines(path):
    if not os.path.exists(path):
        return set()
    with open(path) as f:
        return {line.strip() for line in f if line.strip() and not line.startswith("#")}


def selected(test, patterns):
    """Whether a pattern is the test's suite, or matches its SUITE/NAME. Model suites have selected their cases."""
    full, family = f"{test.suite}/{test.name}", test.suite.split(".")[0]
    return not patterns or family in suites.MODEL_SUITES or any(
        p == test.suite or fnmatch.fnmatch(full, p) or full.startswith(p + "/") for p in patterns)


def answered(pattern, tests):
    """Whether TESTS, those selected, have one of PATTERN. Cases of model suites were selected as they were collected."""
    family, _, path = pattern.split("/")[0].partition(".")
    if family in suites.MODEL_SUITES:
        return path in ("", *suites.PATHS) and any(t.suite.split(".")[0] == family for t in tests)
    return any(selected(t, [pattern]) for t in tests if t.suite.split(".")[0] not in suites.MODEL_SUITES)


MAKES = {"build/san": "SAN=1 ", "build/tsan": "SAN=thread "}
SOURCES = "base", "frontend", "ir", "ops", "passes", "codegen", "runtime", "tools", "tests"


def age(paths):
    return max((os.path.getmtime(path) for path in paths), default=0)


def is_stale(runner):
    """Whether the programs that the suites run are older than their sources, or not there."""
    built = lambda *parts: glob.glob(os.path.join(runner.build, *parts))
    libraries, programs = built("lib", "lib*.a"), built("tests", "tools", "*") + built("tests", "unit", "*") + built("tests", "fuzz", "*")
    sources = [path for folder in SOURCES for kind in ("c", "h", "def") for path in glob.glob(f"{ROOT}/{folder}/**/*.{kind}", recursive=True)]
    linked = age(path for path in libraries if os.path.basename(path) in ("libdlcc.a", "libdlrt.a"))
    programs = [path for path in programs if os.path.isfile(path) and os.access(path, os.X_OK)]
    return not programs or age(sources) > age(libraries + programs + built("bin", "*") + built("ptxsim", "*")) or any(age([path]) < linked for path in programs)


def cpu_seconds():
    """Of this process and of those that have ended among its children."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def perform(runner, test):
    start, used = time.monotonic(), cpu_seconds()
    try:
        verdicts = test.run(runner)
    except Exception as e:  # a fault of the harness is a failure of the test
        verdicts = [suites.Verdict(test.suite, test.name, "fail", f"{type(e).__name__}: {e}")]
    seconds, cpu = ((now - then) / max(1, len(verdicts)) for now, then in ((time.monotonic(), start), (cpu_seconds(), used)))
    return [Result(*verdict, seconds, cpu) for verdict in verdicts]


def judge(result, listed):
    """A failing case of a suite with a list is only a failure when it is on the list."""
    if result.status == "fail" and result.suite in listed and result.name not in listed[result.suite]:
        return result._replace(status="todo")
    if result.status == "skip" and result.name in listed.get(result.suite, ()):
        return result._replace(status="fail", message=f"passed once, now skipped: {result.message}")
    return result


def update(results, listed):
    for suite, names in listed.items():
        passed = {r.name for r in results if r.suite == suite and r.status == "pass"}
        new = passed - names
        if new:
            os.makedirs(PASSING, exist_ok=True)
            with open(os.path.join(PASSING, suite + ".txt"), "w") as f:
                f.writelines(name + "\n" for name in sorted(names | new))
            print(f"{suite}: {len(new)} newly passing cases added to tests/passing/{suite}.txt")


def tell_blessed(results):
    """How many expectations --bless wrote, and which of them are an error now: that may be what went wrong, and no expectation."""
    written = [r for r in results if r.status == "pass" and r.message]
    for r in written:
        if r.message == suites.NOW_FAILS:
            print(f"{r.suite}/{r.name}: {r.message}")
    print(f"{len(written)} expectations written")


def tell_times(results):
    """The processors' seconds of suites, and of the tests that take most."""
    for key, most in (lambda r: r.suite.split(".")[0], 20), (lambda r: f"{r.suite.split('.')[0]}/{r.name.split('#')[0]}", 30):
        total = collections.Counter()
        for r in results:
            total[key(r)] += r.cpu
        for name, cpu in total.most_common(most):
            print(f"{cpu:8.1f} {name}")
    print(f"{sum(r.cpu for r in results):8.1f} in all")


def count(results):
    table = {}
    for r in results:
        row = table.setdefault(r.suite, dict.fromkeys(("pass", "fail", "todo", "skip"), 0))
        row[r.status] += 1
    return table


TABLE_HEAD = """# Test results

Written by `make check-all`. *Not yet*: the ops are supported, the case fails and is not on the list of
passing cases. *Skipped*: an op is not supported, or the case is excluded by name (`tests/excluded.txt`).

| suite | passed | failed | not yet | skipped |
|---|---:|---:|---:|---:|
"""
MODELS_HEAD = """
Models by path, those that passed: `eval` is the interpreter, `c` the compiled artifact, `ir` the model printed, read and
compiled again, `int` on small integers bit-equal to `eval`, `ptx` code for GPUs on the simulated one.

"""


def write_table(path, table):
    with open(path, "w") as f:
        f.write(TABLE_HEAD)
        for suite, row in table.items():
            f.write(f"| {suite} | {row['pass']} | {row['fail']} | {row['todo']} | {row['skip']} |\n")
        f.write(MODELS_HEAD + f"| models | {' | '.join(suites.PATHS)} |\n|---|{'---:|' * len(suites.PATHS)}\n")
        for suite in suites.MODEL_SUITES:
            passed = [str(table.get(f"{suite}.{p}", {}).get("pass", "")) for p in suites.PATHS]
            f.write(f"| {suite} | {' | '.join(passed)} |\n")


def named(argument):
    """SUITE/PATTERN that ARGUMENT stands for: itself, or, of a text test's file, the test."""
    if argument.endswith((".dl", ".onnxtxt")) and os.path.isfile(argument):
        return "text/" + os.path.relpath(os.path.realpath(argument), os.path.join(ROOT, "tests"))
    return argument


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="SUITE[/PATTERN] | FILE")
    parser.add_argument("--build", default="build", help="build folder, relative to the project's")
    parser.add_argument("--all", action="store_true", help="slow tests too")
    parser.add_argument("--bless", action="store_true", help="write what text tests printed into them")
    parser.add_argument("--update", action="store_true", help="add newly passing cases to tests/passing")
    parser.add_argument("--table", metavar="FILE", help="write the counts by suite")
    parser.add_argument("--json", metavar="FILE", default="build/results.json", help="write every result")
    parser.add_argument("--corpus", default=cases.CORPUS)
    # One more than processors: with as many, a sixth of their time was idle, since tests wait for files, timers and each other.
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)) + 1, help="tests at a time")
    parser.add_argument("--patience", type=float, default=1, help="factor on time limits")
    parser.add_argument("--times", action="store_true", help="one test at a time; print the processors' seconds that suites and tests take")
    parser.add_argument("-v", action="store_true", help="print skipped cases, and those not passing yet")
    options = parser.parse_args()
    if "" in options.tests:
        parser.error('"" names no test; without arguments all run')
    options.j = 1 if options.times else options.j
    options.given, options.tests = options.tests, [named(argument) for argument in options.tests]
    return options


def run_all(runner, tests, listed):
    """The results in the order of TESTS; failures are printed as they come, and progress on a terminal."""
    done, results, shown = 0, {}, {"fail", "todo", "skip"} if runner.options.v else {"fail"}
    pool = ThreadPoolExecutor(runner.options.j)
    try:
        futures = {pool.submit(perform, runner, test): i for i, test in enumerate(tests)}
        for future in as_completed(futures):
            results[futures[future]] = [judge(r, listed) for r in future.result()]
            done += 1
            for r in results[futures[future]]:
                if r.status in shown:
                    print(f"{r.status.upper()} {r.suite}/{r.name}: {r.message}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done}/{len(tests)} ", end="", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return [r for i in sorted(results) for r in results[i]]


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    scratch = tempfile.mkdtemp(prefix="dlcc-tests-")
    try:
        runner = Runner(options, scratch)
        if is_stale(runner):
            print(f"the programs in {options.build} are older than their sources, or not there: make {MAKES.get(options.build, '')}tests")
            return 1
        tests = [t for t in suites.collect(runner) if selected(t, options.tests)]
        for pattern, given in zip(options.tests, options.given):
            if not answered(pattern, tests):
                script = os.path.isfile(os.path.join(ROOT, "tests", given, "run.sh"))
                print(f'no suite or case "{given}"' + (f'; the script is "scripts/{given}*"' if script else "; HACKING.md lists the suites"))
                return 1
        listed = {s: read_lines(os.path.join(PASSING, s + ".txt")) for s in suites.listed_suites()}
        results = run_all(runner, tests, listed)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.update:
        update(results, listed)
    if options.bless:
        tell_blessed(results)
    if options.times:
        tell_times(results)
    table = count(results)
    with open(os.path.join(ROOT, options.json), "w") as f:
        json.dump({"counts": table, "results": [r._asdict() for r in results]}, f, indent=1)
    if options.table:
        write_table(os.path.join(ROOT, options.table), table)
    for suite, row in table.items():
        ran, of = runner.shares.get(suite.split(".")[0], (0, 0))
        print(f"{suite:12} " + ", ".join(f"{row[k]} {t}" for k, t in (("pass", "passed"), ("fail", "failed"),
                                         ("todo", "not yet"), ("skip", "skipped")) if row[k]) +
              (f" ({ran} of {of} cases ran; --all runs all)" if of else ""))
    total = {k: sum(row[k] for row in table.values()) for k in ("pass", "fail", "todo", "skip")}
    print(f"{total['pass']} passed, {total['fail']} failed, {total['todo'] + total['skip']} skipped", flush=True)
    return 1 if total["fail"] or not total["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())

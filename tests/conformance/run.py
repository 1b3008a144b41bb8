# SPDX-License-Identifier: Apache-2.0
"""Runs onnx.backend.test.BackendTest, ONNX's own conformance tests, through dlcc.backend on the CPU: run.py [--build BUILD]
[-j N] [--device=cuda:sm_80] [PATTERN]. Prints "N passed, N failed, N refused", and writes build/conformance.txt: what does not
pass, sorted by reason, and what of a GPU's run waits for the host (-Wfallback).

With --device=cpu:v3 the models are compiled for that kind of CPU. With --device=cuda:sm_80 they run on a simulated GPU of that compute
capability (tools/ptxsim/), and the list is build/conformance-sm_80.txt.

A case is refused if the compiler says why it does not support the model, or the runtime does for an input; anything else that
does not pass is a failure. Only cases whose names match PATTERN run, a regular expression. Models that need a download ("real")
are excluded, and those that compare with NumPy's random numbers (tests/excluded.txt)."""

import argparse
import collections
import fnmatch
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import numpy  # noqa: E402

numpy.seterr(all="ignore")  # cases overflow and divide by zero by design

import dlcc  # noqa: E402
import dlcc.backend  # noqa: E402
from onnx.backend.test import BackendTest  # noqa: E402

SECONDS = {"CPU": 120, "CUDA": 600}   # most time of a case
# Models that are downloaded, which onnx.backend.test lists in data/real, and in data/light without their weights.
REAL = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512")

# Cases whose tolerance is less than rounding, {name: options of the case}: references that round every step to f16, and sums of f32
# that cancel to 0, of values up to 54.
ROUNDED = {"test_attention_4d_causal_fp16": {"rtol": 2e-3}, "test_attention_4d_causal_fp16_expanded": {"rtol": 2e-3},
           "test_dft_inverse": {"atol": 1e-5}, "test_dft_inverse_opset19": {"atol": 1e-5}}
RANDOM = "compares with numpy's random generator"  # the reason in tests/excluded.txt


class Quick(dlcc.backend.Backend):
    """The backend with quick compiles: what is slow in a small model is the C compiler. The cases use all processors."""

    device, target = "CPU", "cpu:native"

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return True  # prepare says why a model is not supported

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if cls.device == "CPU":
            return super().prepare(model, device, level=1, threads=1, target=cls.target, options=["--threads=1"])
        return dlcc.backend.BackendRep(dlcc.compile(model, level=1, target=cls.target, device="cuda", options=["-Wfallback"]))

    @classmethod
    def supports_device(cls, device):
        return device == cls.device


def random_cases():
    """Patterns of the cases whose references are random numbers."""
    with open(os.path.join(ROOT, "tests", "excluded.txt"), encoding="utf-8") as f:
        rows = [line.strip().partition(": ") for line in f]
    return [pattern.partition("/")[2] for pattern, _, why in rows if why == RANDOM]


def collect(pattern):
    """The cases, {category/name: TestCase}."""
    random = random_cases()
    runner = BackendTest(Quick, __name__, ROUNDED)
    for name in REAL:
        runner.exclude(rf"^test_(light_)?{name}_")
    found = {}
    for category, kind in sorted(runner.test_cases.items()):
        for name in unittest.defaultTestLoader.getTestCaseNames(kind):
            skipped = getattr(getattr(kind, name), "__unittest_skip__", False)
            skipped = skipped or any(fnmatch.fnmatch(name.rpartition("_")[0], case) for case in random)
            if not skipped and re.search(pattern, name):
                found[f"{category[len('OnnxBackend'):-len('ModelTest')].lower() or 'node'}/{name}"] = kind(name)
    return found


def reason(error):
    """The verdict on a case that ended with ERROR, and why: the first line of the message, without the file's name."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    text = re.sub(r"^\S*: error: ", "", text)
    if isinstance(error, dlcc.CompileError):
        ours = error.status != 1 or not error.diagnostics or "failed with exit status" in text  # the C compiler's, of our C
        return "failed" if ours else "refused", text
    if isinstance(error, dlcc.RunError):
        # Whether an operator has a form that is not supported may depend on the values of inputs.
        refused = error.status == "DL_UNSUPPORTED" or "not supported" in text
        return "refused" if refused else "failed", f"{error.status}: {text}"
    if isinstance(error, AssertionError):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return "failed", "; ".join(lines[:3])[:200]
    return "failed", f"{type(error).__name__}: {text}"


def perform(case):
    """The verdict on CASE: (passed, failed or refused; why; the warnings)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", dlcc.CompileWarning)
        verdict = judge(case)
    return *verdict, [str(w.message) for w in caught]


def judge(case):
    """The verdict on CASE: (passed, failed or refused; why)."""
    def out_of_time(_signal, _frame):
        raise TimeoutError(f"out of time: {SECONDS[Quick.device]} s")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(SECONDS[Quick.device])
    try:
        getattr(case, case._testMethodName)()
        return "passed", ""
    except unittest.SkipTest as e:
        return "refused", str(e)
    except Exception as e:
        return reason(e)
    finally:
        signal.alarm(0)


def work(cases, pipe):
    """A worker: performs the cases whose names come through PIPE."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    for name in iter(pipe.recv, None):
        pipe.send(perform(cases[name]))


class Worker:
    """A process that performs one case after another; if a case ends it, another one follows."""

    def __init__(self, cases):
        self.cases, self.name = cases, None
        self.start()

    def start(self):
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(self.cases, other), daemon=True)
        self.process.start()
        other.close()

    def give(self, name):
        self.name = name
        self.pipe.send(name)

    def result(self):
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join()
            ended = self.process.exitcode or 0
            self.start()
            how = f"was ended by signal {-ended}" if ended < 0 else f"ended with status {ended}"
            return "failed", f"the process {how}", []


def run_all(cases, jobs):
    """{name: (verdict, why, warnings)}."""
    left, results = collections.deque(sorted(cases)), {}
    workers = [Worker(cases) for _ in range(min(jobs, len(left)))]
    idle = list(workers)
    while left or len(idle) < len(workers):
        while left and idle:
            idle.pop().give(left.popleft())
        busy = {w.pipe: w for w in workers if w not in idle}
        for pipe in multiprocessing.connection.wait(list(busy)):
            worker = busy[pipe]
            results[worker.name] = worker.result()
            idle.append(worker)
            if sys.stderr.isatty():
                print(f"\r{len(results)}/{len(cases)} ", end="", file=sys.stderr, flush=True)
    for worker in workers:
        worker.pipe.send(None)
    return results


def common(why):
    """WHY without the node's name, so that cases of one reason are one group."""
    return re.sub(r'node "(?:[^"\\]|\\.)*" ', "", why)


def report(results):
    """The lines of the list: the reasons by the number of their cases, then each case."""
    wrong = [(verdict, common(why), name, why) for name, (verdict, why, _) in results.items() if verdict != "passed"]
    counts = collections.Counter((verdict, why) for verdict, why, _, _ in wrong)
    yield from (f"{n:5} {verdict}: {why}" for (verdict, why), n in sorted(counts.items(), key=lambda c: (c[0][0], -c[1], c[0][1])))
    yield ""
    yield from (f"{verdict} {name}: {why}" for verdict, _, name, why in sorted(wrong))
    yield from (f"host {name}: {text}" for name, (_, _, said) in sorted(results.items()) for text in said
               if re.search("the GPU waits|runs on the host", text))


def on_simulator(target, build):
    """Begins again with the simulator as the driver, if it is not yet."""
    folder, sm = os.path.join(build, "ptxsim"), re.sub(r"\D", "", target.rpartition("_")[2])
    if os.environ.get("PTXSIM_SM") != sm or folder not in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        os.environ.update(PTXSIM_SM=sm, LD_LIBRARY_PATH=folder)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)), help="cases at a time")
    parser.add_argument("--device", default="cpu:native", help="a target, as cpu:v3, or as cuda:sm_80 for a simulated GPU")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    build, listed = os.path.join(ROOT, options.build), "conformance.txt"
    Quick.target = options.device
    if not options.device.startswith("cpu:"):
        on_simulator(options.device, build)
        Quick.device = "CUDA"
        listed = f"conformance-{options.device.rpartition(':')[2]}.txt"
    multiprocessing.set_start_method("fork")  # the cases are computed once
    os.environ["PATH"] = os.path.join(build, "bin") + os.pathsep + os.environ["PATH"]
    cases = collect(options.pattern)
    results = run_all(cases, options.j)
    with open(os.path.join(build, listed), "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in report(results))
    counts = collections.Counter(verdict for verdict, _, _ in results.values())
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['refused']} refused")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())

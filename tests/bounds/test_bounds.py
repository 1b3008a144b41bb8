#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles families of models (models.py) at two sizes: processor time and memory may grow about as the size
does, and never beyond 1 GiB, nor beyond 30 s: the slowest take 8 on a machine that does nothing else. C is written and not compiled.

    test_bounds.py DLCC [KIND...]
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import models

SECONDS, MIB = 30, 1024
GROWTH = 4  # of the size
SLACK = 2.5  # times that, which a quadratic part that counts is beyond
KINDS = """adds casts column_row_reductions concat_of_many constant_pads doubling edge_pads elementwise fibonacci gathers growing
	ifs integers log_softmaxes many_outputs many_symbols many_users nearest_resizes pads pads_of_their_own reflect_pads
	reshapes resizes run_time_pads run_time_reflect_pads scatters shared_prefix split_into_many sum_of_many transposes
	views wheres wheres_of_wheres""".split()
DEEP = "adds casts elementwise growing relus reshapes slices transposes views wheres".split()


def write(kind, n, folder):
    path = os.path.join(folder, f"{kind}_{n}.onnx")
    m = models.Model()
    models.KINDS[kind](m, n)
    m.write(path)
    return path


def compile_one(dlcc, path):
    """(seconds, MiB, why it is wrong or None)"""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))

    with tempfile.TemporaryFile() as log:
        command = [dlcc, path, "-o", path + ".c", "--target=cpu:x86-64-v3"]
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=limit)
        _, status, used = os.wait4(process.pid, 0)
        log.seek(0)
        text = log.read().decode(errors="replace")
    seconds, mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    why = None
    if os.WIFSIGNALED(status):
        why = f"signal {os.WTERMSIG(status)} after {seconds:.1f} s"
    elif os.WEXITSTATUS(status) not in (0, 1) or (os.WEXITSTATUS(status) and "error: " not in text):
        why = f"status {os.WEXITSTATUS(status)}: {text.strip()[-200:]}"
    elif mib > MIB:
        why = f"{mib:.0f} MiB"
    return seconds, mib, why


def grows(dlcc, kind, n, folder):
    seconds, mib, why = compile_one(dlcc, write(kind, n, folder))
    more_seconds, more_mib, more_why = compile_one(dlcc, write(kind, n * GROWTH, folder))
    if why or more_why:
        return why or more_why
    if more_seconds > GROWTH * SLACK * seconds + 0.5:
        return f"{n} take {seconds:.2f} s, {n * GROWTH} take {more_seconds:.2f} s"
    if more_mib > GROWTH * SLACK * mib + 32:
        return f"{n} take {mib:.0f} MiB, {n * GROWTH} take {more_mib:.0f} MiB"
    return None


def deep(dlcc, kind, n, folder):
    return compile_one(dlcc, write(kind, n, folder))[2]


def right(dlcc, kind, n, folder):
    """One operator of more operands than a kernel takes computes what it should."""
    x = np.array([[-1, 2, 0.5, 3, -4, 5, 7, -8]], np.float32)
    parts = {"concat_of_many": [x + np.float32(i) for i in range(n)], "max_of_many": [x * np.float32(i) for i in range(n)]}[kind]
    want = np.concatenate(parts, 1) if kind == "concat_of_many" else np.maximum.reduce(parts)
    path, out = write(kind, n, folder), os.path.join(folder, "out")
    np.save(os.path.join(folder, "x.npy"), x)
    dlrun = os.path.join(os.path.dirname(dlcc), "dlrun")
    for command in ([dlcc, path, "-o", path + ".so"], [dlrun, path + ".so", "-i", f"x={folder}/x.npy", "-o", out]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()[-200:]
    got = np.load(os.path.join(out, os.listdir(out)[0]))
    shutil.rmtree(out)
    return None if np.array_equal(got, want) else f"wrong, by {abs(got - want).max()}"


def main():
    dlcc, kinds = sys.argv[1], sys.argv[2:]
    small = 100 if f"{os.sep}san{os.sep}" in dlcc else 100 if os.environ.get("TESTS") == "share" else 500
    tests = [(grows, kind, small) for kind in kinds or KINDS] + [(deep, kind, 20 * small) for kind in ([] if kinds else DEEP)]
    tests += [(right, kind, 300) for kind in ([] if kinds else ["concat_of_many", "max_of_many"])]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for test, kind, n in tests:
            why = test(dlcc, kind, n, folder)
            passed, failed = passed + (not why), failed + bool(why)
            if why:
                print(f"FAIL: {kind}, {n} nodes: {why}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The memory that runs need: test_memory.py BUILD DIR [NAME].

A case is a model, its inputs, a function that gives the results, and the most bytes of memory that the process may have in use
beside those of the inputs and results, which dlrun holds."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:3])
CHOSEN = sys.argv[3] if len(sys.argv) > 3 else ""
PROGRAM = 5 << 20  # what dlrun and a small artifact have in use
rng = np.random.default_rng(1)


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def parts(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def numbers(x):
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


# name: (text, inputs, results, bytes)
CASES = {
    # A table of all pairs of terms and results would have 20,000^2 entries.
    "dft": ("g (float[1,20000,1] x) => (float[a,b,c] y) <int64 axis = {1}> { y = DFT (x, , axis) }",
            {"x": real(1, 20000, 1)}, lambda x: [parts(np.fft.fft(numbers(x), axis=1))], 32 * 20000),
    "dft of a prime length": ("g (float[2,20011,2] x) => (float[a,b,c] y) <int64 axis = {1}> { y = DFT <inverse = 1> (x, , axis) }",
                              {"x": real(2, 20011, 2)}, lambda x: [parts(np.fft.ifft(numbers(x), axis=1))], 200 * 20011),
    "dft of a symbolic length": ("g (float[1,N,1] x) => (float[a,b,c] y) <int64 axis = {1}> { y = DFT <onesided = 1> (x, , axis) }",
                                 {"x": real(1, 30000, 1)}, lambda x: [parts(np.fft.rfft(numbers(x), axis=1))], 250 * 30000),
    "dft of a given length": ("g (float[2,N,5,2] x, int64 length) => (float[a,b,c,d] y) <int64 axis = {1}> "
                              "{ y = DFT <inverse = 1, onesided = 1> (x, length, axis) }",
                              {"x": real(2, 4001, 5, 2), "length": np.array(8000)},
                              lambda x, length: [np.fft.irfft(numbers(x), int(length), 1)[..., None].astype(np.float32)], 400 * 8000 * 10),
    "stft": ("g (float[1,20000,1] x, float[6000] w) => (float[a,b,c,d] y) <int64 step = {5000}> { y = STFT <onesided = 1> (x, step, w) }",
             {"x": real(1, 20000, 1), "w": real(6000)},
             lambda x, w: [parts(np.fft.rfft(np.stack([x[:, i:i + 6000, 0] * w for i in (0, 5000, 10000)], 1), axis=-1))], 64 * 18000),
    # Positions, ranks and numbers of all elements took 25 bytes for each.
    "nonzero": ("g (bool[N] x) => (int64[a,b] y) { y = NonZero (x) }", {"x": rng.random(4000001) < 0.001}, lambda x: [np.array(np.nonzero(x))], 1 << 20),
    "nonzero of numbers": ("g (float[700,1001] x) => (int64[a,b] y) { y = NonZero (x) }", {"x": real(700, 1001) * (rng.random((700, 1001)) < 0.01)},
                           lambda x: [np.array(np.nonzero(x))], 2 * 700 * 1001),
    "nonzero, all": ("g (bool[N] x) => (int64[a,b] y) { y = NonZero (x) }", {"x": np.ones(500000, bool)}, lambda x: [np.array(np.nonzero(x))], 6 << 20),
    "compress": ("g (float[N,2] x, bool[N] c) => (float[a,b] y) { y = Compress <axis = 0> (x, c) }",
                 {"x": real(1000000, 2), "c": rng.random(1000000) < 0.01}, lambda x, c: [x[c]], 1 << 20),
    "elements of a mask": ("g (float[N,M] x) => (float[a] y) <float zero = {2}> { m = Greater (x, zero) n = NonZero (m) t = Transpose (n) y = GatherND (x, t) }",
                           {"x": real(1000, 1000)}, lambda x: [x[x > 2]], 3 << 20),
}


def check(name, text, feeds, results, most):
    """What is wrong, or ""."""
    path, so, out = (os.path.join(DIR, f) for f in ("m.onnx", "m.so", "out"))
    os.makedirs(out, exist_ok=True)
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>\n' + text)
    onnx.save(model, path)
    given = []
    for key, a in feeds.items():
        file = os.path.join(DIR, key + ".npy")
        np.save(file, a)
        given += ["-i", f"{key}={file}"]
    done = subprocess.run([f"{BUILD}/bin/dlcc", path, "-o", so, "--cc=tests/tools/clang-O0"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    run = [f"{BUILD}/bin/dlrun", so, "--device=cpu", "--threads=1", *given]
    done = subprocess.run([*run, "--bench", "--seconds=0.01"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    used = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["peak_rss_kib"] << 10
    want = results(**feeds)
    done = subprocess.run([*run, "-o", out], capture_output=True, text=True)
    if done.returncode:  # else the outputs of the case before would be compared
        return done.stderr.strip()
    for o, w in zip(model.graph.output, want):
        got = np.load(os.path.join(out, o.name + ".npy"))
        if got.shape != w.shape:
            return f"{o.name} has the shape {got.shape}, not {w.shape}"
        if w.dtype.kind == "f":
            error = np.abs(got - w).max() / np.abs(w).max()
            if not error < 1e-6:
                return f"{o.name} is off by {error:.2g} of its largest element"
        elif not np.array_equal(got, w):
            return f"{o.name} differs"
    held = sum(a.nbytes for a in [*feeds.values(), *want])
    if used > PROGRAM + held + most:
        return f"{used - PROGRAM - held:,} bytes beside {held:,} of inputs and results, {most:,} are allowed"
    return ""


def main():
    passed = failed = 0
    for name, row in CASES.items():
        if CHOSEN not in name:
            continue
        wrong = check(name, *row)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f"FAIL {name}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()

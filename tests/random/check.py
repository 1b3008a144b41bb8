# SPDX-License-Identifier: Apache-2.0
"""Compares dlcc's random numbers with the same generator in NumPy. Prints "N passed, N failed".

    check.py BUILD FOLDER
"""

import os
import subprocess
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, FOLDER = sys.argv[1:3]
MASK = np.uint64(0xFFFFFFFF)
passed = failed = 0


def philox(counter, key):
    """Philox4x32-10 of counters [n, 4] and a key of two words: [n, 4]."""
    c = [counter[:, i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(key[0]), np.uint64(key[1])]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & MASK, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + np.uint64(0x9E3779B9)) & MASK, (k[1] + np.uint64(0xBB67AE85)) & MASK]
    return np.stack(c, 1).astype(np.uint32)


def words(count, seed=0.0, stream=0):
    counter = np.zeros((count, 4), np.uint32)
    counter[:, 0] = np.arange(count)
    return philox(counter, (int(np.float32(seed).view(np.uint32)), stream))


def unit(w, type_):
    if type_ == np.float64:
        return ((w[:, 0].astype(np.uint64) << np.uint64(32) | w[:, 1]) >> np.uint64(11)) * 2.0**-53
    return (w[:, 0] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def stream_of(name):
    """The key's second word for a result called NAME."""
    h = 2166136261
    for b in name.encode():
        h = (h ^ b) * 16777619 & 0xFFFFFFFF
    return h


def check(name, right, why=""):
    global passed, failed
    passed += bool(right)
    failed += not right
    if not right:
        print(f"{name}: {why}")


def compiled(name, text, target="", opset=22):
    path = f"{FOLDER}/{name}"
    onnx.save(samples.model(text, opset), path + ".onnx")
    options = [f"--target={target}"] if target else []
    return path + ".so", subprocess.run([f"{BUILD}/bin/dlcc", path + ".onnx", "-o", path + ".so", *options], capture_output=True, text=True)


def run(library, feed, *options, **env):
    """The results by name."""
    out = library + ".out"
    os.makedirs(out, exist_ok=True)
    command = [f"{BUILD}/bin/dlrun", library, "-o", out, *options]
    for name, array in feed.items():
        np.save(f"{FOLDER}/{name}.npy", array)
        command += ["-i", f"{name}={FOLDER}/{name}.npy"]
    subprocess.run(command, check=True, capture_output=True, env=samples.simulated(BUILD, **env))
    return {f[:-4]: np.load(f"{out}/{f}") for f in os.listdir(out)}


def everywhere(name, text, feeds, expected):
    """Compares the model TEXT with EXPECTED(feed), a function of each of FEEDS, on all devices."""
    for target, ways in (("", [("--threads", "1"), ("--threads", "3")]), ("cpu:native,cuda:sm_80", [("--device", "cuda")])):
        library, made = compiled(name, text, target)
        if made.returncode:
            check(name, False, made.stderr)
            continue
        for feed in feeds:
            for way in ways:
                have = run(library, feed, *way)
                for result, (value, tolerance) in expected(feed).items():
                    close = have[result].shape == value.shape and np.abs(have[result].astype(np.float64) - value.astype(np.float64)).max(initial=0) <= tolerance
                    check(f"{name} {' '.join(way)}", close, f"{have[result].ravel()[:4]}, not {value.ravel()[:4]}")


# The vectors that Random123 comes with.
VECTORS = [([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
           ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
           ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1")]
for counter, key, want in VECTORS:
    got = " ".join(f"{w:08x}" for w in philox(np.array([counter], np.uint32), key)[0])
    check("philox", got == want, f"{got}, not {want}")


def uniform(feed):
    n = feed["x"].shape[0]
    u = unit(words(5 * n, 1.5), np.float32).reshape(n, 5)
    return {"y": (u * np.float32(3) - np.float32(1), 1e-6), "z": (unit(words(5 * n, 2.0), np.float64).reshape(n, 5), 0)}


def kept(feed, mask):
    return {"m": (mask, 0), "y": (np.where(mask, feed["x"] / (1 - feed["r"] if feed["t"] else 1), 0), 1e-6)}


SIZES = [{"x": np.zeros((n, 5), np.float32)} for n in (0, 1, 2, 3, 13)]
everywhere("uniform", """g (float[N, 5] x) => (float[N, 5] y, double[N, 5] z) {
    y = RandomUniformLike <low = -1.0, high = 2.0, seed = 1.5> (x)
    z = RandomUniformLike <dtype = 11, seed = 2.0> (x) }""", SIZES, uniform)


def gaussian(w):
    u, v = w[:, 0] * 2.0**-32 + 2.0**-33, (w[:, 2] >> np.uint32(8)) * 2.0**-24
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


everywhere("normal", """g (float[N, 5] x) => (float[N, 5] y) { y = RandomNormalLike <mean = 2.0, scale = 3.0, seed = 4.0> (x) }""", SIZES,
           lambda feed: {"y": ((2 + 3 * gaussian(words(feed["x"].size, 4.0))).reshape(feed["x"].shape), 1e-5)})
everywhere("constant", """g (float[3] x) => (float[2, 3] y, float[2, 3] z) {
    y = RandomUniform <shape = [2, 3], seed = 1.0> ()
    n = RandomNormal <shape = [2, 3], seed = 1.0> ()
    z = Add(n, x) }""", [{"x": np.zeros(3, np.float32)}],
           lambda feed: {"y": (unit(words(6, 1.0), np.float32).reshape(2, 3), 0), "z": (gaussian(words(6, 1.0)).reshape(2, 3), 1e-5)})
everywhere("bernoulli", """g (float[N, 5] x) => (int64[N, 5] y) { y = Bernoulli <dtype = 7, seed = 3.0> (x) }""",
           [{"x": np.random.default_rng(1).choice([0.0, 0.25, 1.0], (40, 5)).astype(np.float32)}],
           lambda feed: {"y": ((unit(words(200, 3.0), np.float32).reshape(40, 5) < feed["x"]).astype(np.int64), 0)})

everywhere("dropout", """g (float[N, 5] x, float r, bool t) => (float[N, 5] y, bool[N, 5] m) { y, m = Dropout <seed = 8> (x, r, t) }""",
           [{"x": np.full((9, 5), 3, np.float32), "r": np.array(r, np.float32), "t": np.array(t)} for r, t in ((0.25, True), (0.25, False), (0, True))],
           lambda feed: kept(feed, unit(words(45, 8.0), np.float32).reshape(9, 5) >= (feed["r"] if feed["t"] else 0)))

# In a loop every iteration has other numbers: the number of the iteration is the counter's third word.
iterations = np.zeros((12, 4), np.uint32)
iterations[:, 0], iterations[:, 2] = np.arange(12) % 4, np.arange(12) // 4
everywhere("loop", """g (int64 n) => (float[T, 4] y) {
    c = Constant <value_int = 1> ()
    t = Cast <to = 9> (c)
    y = Loop (n, t) <body = b (int64 i, bool going) => (bool going_on, float[4] u) {
        going_on = Identity(going)
        u = RandomUniform <shape = [4], seed = 9.0> () }> }""", [{"n": np.array(3)}],
           lambda feed: {"y": (unit(philox(iterations, (int(np.float32(9).view(np.uint32)), 0)), np.float32).reshape(3, 4), 0)})

# The shares of 4000 samples, of which the first class has no probability.
library, made = compiled("multinomial", "g (float[N, 4] x) => (int64[N, 4000] y) { y = Multinomial <dtype = 7, sample_size = 4000, seed = 5.0> (x) }")
shares = np.array([[0, 1, 2, 5], [0, 3, 1, 0]]) / [[8], [4]]
with np.errstate(divide="ignore"):
    got = run(library, {"x": np.log(shares).astype(np.float32) + 3})["y"]
have = np.stack([np.bincount(row, minlength=4) for row in got]) / 4000
check("multinomial", np.abs(have - shares).max() < 0.03 and not have[shares == 0].any(), have)

# Moments, of a hundred thousand numbers.
library, made = compiled("moments", "g (float[N] x) => (float[N] y, float[N] z) { y = RandomUniformLike <seed = 6.0> (x)\n z = RandomNormalLike <seed = 7.0> (x) }")
got = run(library, {"x": np.zeros(100000, np.float32)})
for name, mean, deviation in (("y", 0.5, 12**-0.5), ("z", 0, 1)):
    a = got[name].astype(np.float64)
    check("moments", abs(a.mean() - mean) < 0.01 and abs(a.std() - deviation) < 0.01, (a.mean(), a.std()))

# Without a seed: one warning for all nodes, other numbers in each node, the same in each run.
library, made = compiled("unseeded", "g (float[N] x) => (float[N] y, float[N] z) { y = RandomUniformLike(x)\n z = RandomUniformLike(x) }")
check("warning", made.stderr.count("there is no seed") == 1, made.stderr)
got = run(library, {"x": np.zeros(7, np.float32)})
for name in "yz":
    check("unseeded", np.array_equal(got[name], unit(words(7, stream=stream_of(name)), np.float32)), got[name])
refused = subprocess.run([f"{BUILD}/bin/dlcc", f"{FOLDER}/unseeded.onnx", "-o", f"{FOLDER}/no.so", "-Werror=seed"], capture_output=True, text=True)
check("-Werror=seed", refused.returncode == 1 and "there is no seed" in refused.stderr, refused.stderr)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed or not passed else 0)

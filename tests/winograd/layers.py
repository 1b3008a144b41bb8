#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles convolutions of 3x3 between others, by the taps and by Winograd's forms, and compares the results in a folder.

    layers.py FOLDER

What Winograd's kernels compute may differ from the sum of the taps by twice the bound of docs/numerics.md. Prints "N passed, N failed".
"""

import os
import subprocess
import sys

import numpy as np

EPS = float(np.finfo(np.float32).eps)
# channels, channels of the result, rows and columns, padding; the last one's sizes are symbols
LAYERS = ((32, 48, 23, 22, 1, False), (64, 33, 20, 25, 0, False), (40, 64, 19, 30, 1, True))


def constant(folder, name, values):
    values.tofile(os.path.join(folder, name))
    shape = ",".join(map(str, values.shape))
    return f'  %{name} = Const {{value = f32[{shape}] file("{name}", 0, {values.nbytes})}} : f32[{shape}]\n'


def model(folder, random, channels, outputs, size, padding):
    """Writes a model whose first and last convolutions only move channels. Returns the filter of the middle one."""
    w = random.standard_normal((outputs, channels, 3, 3)).astype(np.float32)
    parts = [constant(folder, "first", np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)), constant(folder, "w", w),
             constant(folder, "last", np.eye(outputs, dtype=np.float32).reshape(outputs, outputs, 1, 1))]
    with open(os.path.join(folder, "layer.dl"), "w") as f:
        f.write(f"dlir 1\ngraph @main(%x: f32[1,{channels},{size}]) -> (%y) {{\n" + "".join(parts) +
                "  %a = Conv(%x, %first) : ?\n"
                f"  %b = Conv(%a, %w) {{pads = [{padding}, {padding}, {padding}, {padding}]}} : ?\n"
                "  %y = Conv(%b, %last) : ?\n}\n")
    return w


def run(folder, form, target, x):
    """The result, and whether the layer was computed by F(FORM,3)."""
    np.save(os.path.join(folder, "x.npy"), x)
    source, library = os.path.join(folder, "layer.dl"), os.path.join(folder, "layer.so")
    options = [source, f"--winograd={form}", f"--target=cpu:{target}"]
    said = subprocess.run(["build/bin/dlcc", *options, "--explain"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["build/bin/dlcc", *options, "-o", library], check=True)
    subprocess.run(["build/bin/dlrun", library, "-i", f"x={folder}/x.npy", "-o", folder], check=True, stdout=subprocess.DEVNULL)
    return np.load(os.path.join(folder, "output_0.npy")), f"by Winograd's F({form},3)" in said


def reference(x, w, padding):
    """The results in f64, and the sums of |terms|."""
    x = np.pad(x[0].astype(np.float64), ((0, 0), (padding, padding), (padding, padding)))
    rows, columns = x.shape[1] - 2, x.shape[2] - 2
    windows = np.stack([x[:, r:r + rows, s:s + columns] for r in range(3) for s in range(3)], 1).reshape(-1, rows * columns)
    w = w.reshape(len(w), -1).astype(np.float64)
    return [(a @ b).reshape(len(w), rows, columns) for a, b in ((w, windows), (np.abs(w), np.abs(windows)))]


def main():
    folder, random, passed, failed = sys.argv[1], np.random.default_rng(5), 0, 0
    for i, (channels, outputs, rows, columns, padding, symbols) in enumerate(LAYERS):
        w = model(folder, random, channels, outputs, "H,W" if symbols else f"{rows},{columns}", padding)
        x = random.standard_normal((1, channels, rows, columns)).astype(np.float32)
        want, size = reference(x, w, padding)
        for form, target in ((2, "native"), (4, "native"), (4, "v3")):
            got, used = run(folder, form, target, x)
            c = float((np.abs(got[0] - want) / (9 * channels * EPS * size.max())).max())
            if c <= 1 and (used or form == 2):
                passed += 1
            else:
                failed += 1
                print(f"winograd: layer {i}, F({form},3) on {target}: c is {c:.2g}{'' if used else '; not used'}")
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    main()

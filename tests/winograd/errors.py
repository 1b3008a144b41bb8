#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the rounding errors of Winograd's convolutions on random layers.

    errors.py EMIT LAYERS [SEED]

EMIT prints the matrices (emit.c). A layer has 1 to 512 channels and an image of 3 to 64 rows and columns, padded by 1; values are
normal. Some tiles and channels of the result are computed as the kernels compute them: the filter is rounded once,
the transforms and sums go in f32, term by term. The reference is in f64. An error is given in units of n * eps * sum |terms|, the bound of
docs/numerics.md for a sum of n = 9 * channels terms, as c, where the terms are those of the tile's result with the largest ones; and of
the largest result. Prints a table, by ranges of channels, and
"N passed, N failed": a layer fails if its c is above 1 and it has 16 channels or more, which the compiler asks for.
"""

import subprocess
import sys

import numpy as np

F32, F64 = np.float32, np.float64
EPS = float(np.finfo(F32).eps)
LEAST = 16  # WINOGRAD_CHANNELS
RANGES = ((1, 1), (2, 3), (4, 15), (16, 63), (64, 512))


def forms(program):
    """{m: (a, b, f)}"""
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    found, at = {}, 0
    while at < len(lines):
        m = int(lines[at])
        rows = [np.array([float(v) for v in line.split()]) for line in lines[at + 1:at + 1 + m + 2 * (m + 2)]]
        found[m] = np.array(rows[:m]), np.array(rows[m:2 * m + 2]), np.array(rows[2 * m + 2:])
        at += 1 + m + 2 * (m + 2)
    return found


def transform(matrix, x, axis):
    """The sum of matrix[i][k] * x[k] along AXIS for each i, in f32: one rounding for each term, as a fused multiply-add has."""
    x = np.moveaxis(x, axis, 0)
    rows = []
    for row in matrix:
        units = [k for k in range(len(row)) if row[k] == 1]
        first = units[0] if units else int(np.flatnonzero(row)[0])
        total = (row[first] * x[first].astype(F64)).astype(F32)
        for k in range(len(row)):
            if k != first and row[k] != 0:
                total = (total.astype(F64) + row[k] * x[k].astype(F64)).astype(F32)
        rows.append(total)
    return np.moveaxis(np.stack(rows), 0, axis)


def in_order(terms):
    """The sum over the first axis, one term after another, in f32."""
    total = np.zeros(terms.shape[1:], F32)
    for t in terms:
        total = (total.astype(F64) + t).astype(F32)
    return total


def layer(random, form, channels, rows, columns):
    """c, and the largest error by the largest result: of Winograd's form, and of the taps."""
    a, b, f = form
    m, tiles, outputs = len(a), 4, 2
    image = np.zeros((channels, rows + m + 2, columns + m + 2), F32)
    image[:, 1:rows + 1, 1:columns + 1] = random.standard_normal((channels, rows, columns))
    w = random.standard_normal((outputs, channels, 3, 3)).astype(F32)
    d = np.stack([image[:, y:y + m + 2, x:x + m + 2] for y, x in
                  ((m * random.integers((rows + m - 1) // m), m * random.integers((columns + m - 1) // m)) for _ in range(tiles))])
    u = np.einsum("ir,ocrs,js->ocij", f, w.astype(F64), f).astype(F32)
    v = transform(b, transform(b, d, 2), 3)
    p = in_order(np.moveaxis(v[:, None].astype(F64) * u[None].astype(F64), 2, 0))
    y = transform(a, transform(a, p, 2), 3)
    windows = np.stack([d[:, :, r:r + m, s:s + m] for r in range(3) for s in range(3)], 2).astype(F64)  # tile, channel, tap, row, column
    terms = windows[:, None] * w.reshape(outputs, channels, 9).astype(F64)[None, ..., None, None]
    want, size = terms.sum((2, 3)), np.abs(terms).sum((2, 3))
    taps = in_order(np.moveaxis(terms.reshape(tiles, outputs, channels * 9, m, m), 2, 0))
    bound = 9 * channels * EPS * size.max((2, 3), keepdims=True)
    return [(float((np.abs(got - want) / bound).max()), float(np.abs(got - want).max() / np.abs(want).max())) for got in (y, taps)]


def main():
    known, count = forms(sys.argv[1]), int(sys.argv[2])
    random = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    worst, failed = {}, 0
    for _ in range(count):
        channels = int(round(512 ** random.random()))
        rows, columns = (int(n) for n in random.integers(3, 65, 2))
        span = next(r for r in RANGES if r[0] <= channels <= r[1])
        bad = False
        for m, form in known.items():
            (c, share), (taps_c, taps_share) = layer(random, form, channels, rows, columns)
            for name, value in ((f"F({m},3)", (c, share)), ("taps", (taps_c, taps_share))):
                worst[span, name] = tuple(map(max, worst.get((span, name), (0, 0)), value))
            bad = bad or (channels >= LEAST and c > 1)
        failed += bad
    names = [f"F({m},3)" for m in known] + ["taps"]
    print("| channels | " + " | ".join(f"c of {n}" for n in names) + " | " + " | ".join(f"of the largest result, {n}" for n in names) + " |")
    print("|---" * (1 + 2 * len(names)) + "|")
    for span in RANGES:
        if (span, "taps") in worst:
            cells = [f"{worst[span, n][k]:.2g}" for k in range(2) for n in names]
            print(f"| {span[0]} to {span[1]} | " + " | ".join(cells) + " |")
    print(f"{count - failed} passed, {failed} failed")


if __name__ == "__main__":
    main()

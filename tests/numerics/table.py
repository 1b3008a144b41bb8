#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges the records of ulp.c, and writes them into a document.

    table.py FOLDER              a line a function; the last one counts records over a limit or with wrong values
    table.py FOLDER --write DOC  and puts the table between DOC's lines "<!-- ulp -->" and "<!-- /ulp -->"
"""
import glob
import re
import sys

LIMIT = {"f32": 2, "f64": 4, "f16": 1, "bf16": 1}
# quotients of polynomials
LIMIT_OF = {("erf", "f32"): 4, ("tanh", "f32"): 4}
VARIANTS = ("fused", "rounded")
SECONDS = 64
RECORD = re.compile(r"(\w+) ((\w+)[\w.]*) (\w+) share (\d+) ulp (\S+) at (\S+) (\S+) wrong (\d+) at (\S+) (\S+)")


def read(folder):
    """({(function, type, variant): error}, {(function, type): record names}, faults, counts, shares)."""
    worst, names, faults, shares, records = {}, {}, [], set(), 0
    for path in sorted(glob.glob(folder + "/*.*")):
        if path.endswith(".tmp"):
            continue
        records += 1
        with open(path) as f:
            matches = [RECORD.fullmatch(line.strip()) for line in f]
        if len(matches) != len(VARIANTS) or None in matches:
            faults.append(f"{path}: no record")
        for function, inputs, dtype, variant, share, ulp, x, y, wrong, wx, wy in (m.groups() for m in matches if m):
            shares.add(int(share))
            names.setdefault((function, dtype), set()).add(inputs)
            key = function, dtype, variant
            worst[key] = max(worst.get(key, 0), float(ulp))
            if float(ulp) > LIMIT_OF.get((function, dtype), LIMIT[dtype]):
                faults.append(f"{function} {inputs} {variant}: {ulp} ulp at {x} {y}")
            if int(wrong):
                faults.append(f"{function} {inputs} {variant}: wrong at {wx} {wy}")
    return worst, names, faults, records, shares


def table(worst, names):
    lines = ["| | f32 | f64 | f16 | bf16 | f32 inputs |", "|---|---|---|---|---|---|"]
    for function in sorted({f for f, _, _ in worst}):
        cells = []
        for dtype in LIMIT:
            got = [f"{worst[key]:.2f}" for key in ((function, dtype, v) for v in VARIANTS) if key in worst]
            cells.append(" / ".join(got) if len(set(got)) > 1 else got[0] if got else "")
        inputs = names.get((function, "f32"), set())
        rows = len([i for i in inputs if i.startswith("f32.y")])
        parts = ["all"] if "f32" in inputs else [f"all by {rows} of {SECONDS} y"] if rows else []
        parts += ["2^32 pairs"] if "f32.pairs" in inputs else []
        lines.append(f"| {function} | {' | '.join(cells)} | {', '.join(parts)} |")
    return "\n".join(lines) + "\n"


def merged(old, new):
    """NEW with the rows of OLD for functions that were not measured."""
    rows = {line.split(" |")[0]: line for line in (old + new).splitlines()}
    head = new.splitlines()[:2]
    return "\n".join(head + sorted(line for line in rows.values() if line not in head)) + "\n"


def main():
    worst, names, faults, records, shares = read(sys.argv[1])
    text = table(worst, names)
    if sys.argv[2:3] == ["--write"]:
        if shares != {1}:
            sys.exit("only whole runs are written down")
        with open(sys.argv[3]) as f:
            head, mark, rest = f.read().partition("<!-- ulp -->\n")
        old, end, tail = rest.partition("<!-- /ulp -->\n")
        if not mark or not end:
            sys.exit(f"{sys.argv[3]}: no place for the table")
        text = merged(old, text)
        with open(sys.argv[3], "w") as f:
            f.write(head + mark + text + end + tail)
    print(text, end="")
    for fault in faults:
        print("FAIL " + fault)
    print(f"{max(0, records - len(faults))} passed, {len(faults)} failed")
    sys.exit(bool(faults) or not records)


main()

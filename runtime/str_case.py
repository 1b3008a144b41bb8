# SPDX-License-Identifier: Apache-2.0
"""Writes str_case.def, Unicode's simple case mappings as ranges, from Python's tables: python3 runtime/str_case.py >runtime/str_case.def"""

import unicodedata


def one(*candidates):
    """The first of the full mappings that is one character; where none is, the simple mapping is the identity."""
    return next((ord(c) for c in candidates if len(c) == 1), None)


def ranges(pairs):
    """[first, last, step, delta] for runs of characters at one distance, 1 or 2, with one delta."""
    out = []
    for code, to in pairs:
        last = out[-1] if out else None
        if last and last[3] == to - code and code - last[1] in (1, 2) and last[2] in (0, code - last[1]):
            last[1:3] = code, code - last[1]
        else:
            out.append([code, code, 0, to - code])
    return out


lower, upper = [], []
for code in range(0x110000):
    c = chr(code)
    to = one(c.lower()) if len(c.lower()) == 1 else {0x130: 0x69}.get(code, code)
    if to != code:
        lower.append((code, to))
    to = one(c.upper(), c.title())
    if to is not None and to != code:
        upper.append((code, to))
print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Written by runtime/str_case.py. Unicode {unicodedata.unidata_version}: simple case mappings, as ranges")
print(" * (first, last, step, distance to the mapped character), in order. */")
for name, table in (("LOWER", lower), ("UPPER", upper)):
    print(f"#ifdef {name}")
    for first, last, step, delta in ranges(table):
        print(f"{name}(0x{first:x}, 0x{last:x}, {step or 1}, {delta})")
    print("#endif")

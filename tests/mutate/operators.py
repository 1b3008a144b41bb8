# SPDX-License-Identifier: Apache-2.0
"""Mutations of PTX, one line each: OPERATORS is name, what lines, and what of the match comes instead."""

import re

WIDTH = {"8": 1, "16": 2, "32": 4, "64": 8}


def access_width(text):
    """Bytes that an instruction moves for a thread, of the first type in its name."""
    copied = re.search(r"cp\.async\S* .*\], *(\d+)", text)
    if copied:
        return int(copied.group(1))
    if "matrix" in text:
        return 16
    vector = re.search(r"\.v([248])\.", text)
    return WIDTH[re.search(r"\.[busf](8|16|32|64)\b", text).group(1)] * int(vector.group(1) if vector else 1)


def shifted(m):
    register, _, offset = m.group(1).partition("+")
    return f"[{register}+{int(offset or 0) + access_width(m.string)}]"


def swapped(m):
    """The first two registers of the second braces, a fragment of A, change places; of a vector, those it has."""
    fragments = list(re.finditer(r"\{([^}]*)\}", m.string))
    chosen = fragments[1 if len(fragments) > 1 else 0]
    names = [n.strip() for n in chosen.group(1).split(",")]
    names[0], names[1] = names[1], names[0]
    return m.string[:chosen.start(1)] + ", ".join(names) + m.string[chosen.end(1):]


BOUND = {"gt": "ge", "ge": "gt", "lt": "le", "le": "lt", "hi": "hs", "hs": "hi", "lo": "ls", "ls": "lo"}

# A string replaces the match; a function of the match, too, but `swapped`, which gives the line.
OPERATORS = [
    ("drop-barrier", r"(bar|barrier)\.\S*(sync|warp\.sync).*", ""),
    ("weaken-barrier", r"bar(rier\.cta|rier)?\.sync.*", "bar.warp.sync -1;"),
    ("drop-wait", r"cp\.async\.wait_.*", ""),
    ("weaken-wait", r"cp\.async\.wait_group\s+(\d+);", lambda m: f"cp.async.wait_group {int(m.group(1)) + 1};"),
    ("drop-commit", r"cp\.async\.commit_group.*", ""),
    ("drop-fence", r"(membar|fence)\..*", ""),
    ("drop-predicate", r"@!?%p\d+\s+", ""),
    ("drop-guard", r"@!?%p\d+\s+bra\b.*", ""),
    ("move-bound", r"setp\.(gt|ge|lt|le)(?=\.[su]\d+)", lambda m: f"setp.{BOUND[m.group(1)]}"),
    ("shift-address", r"(?<=[\s,])\[(%r\w+(?:\+-?\d+)?)\]", shifted),
    ("swap-fragment", r"mma\.sync.*", swapped),
    ("swap-vector", r"(ld|st)\.\S*\.v[248]\..*", swapped),
    ("drop-mask", r"\b(?:and|or)\.(b\d+|pred)(\s+\S+, \S+), [^;]+;", r"mov.\1\2;"),
    ("drop-clamp", r"\b(?:min|max)\.([su]\d+)(\s+\S+, \S+), [^;]+;", r"mov.\1\2;"),
    ("drop-select", r"selp\.(\w+)(\s+\S+, \S+), [^;]+;", r"mov.\1\2;"),
    ("wrong-lane", r"(?<=, )(\d+)(?=, \d+, -?\w+;)", lambda m: str(int(m.group(1)) // 2 or 1)),
]
ONLY = {"wrong-lane": "shfl.sync"}


def joined(text):
    """A text with each instruction in one line: products of matrices stand in several."""
    return re.sub(r"mma\.sync[^;]*;", lambda m: re.sub(r"\s+", " ", m.group()), text)


def sites(text):
    """[(operator, number of the line, the line instead)] of a text, in the order of OPERATORS, then of lines."""
    lines = text.split("\n")
    found = []
    for name, pattern, instead in OPERATORS:
        for i, line in enumerate(lines):
            if line.lstrip().startswith(("//", ".")) or ONLY.get(name, "") not in line:
                continue
            for m in re.finditer(pattern, line):
                if instead is swapped:
                    new = swapped(m)
                else:
                    new = line[:m.start()] + (m.expand(instead) if isinstance(instead, str) else instead(m)) + line[m.end():]
                if new != line:
                    found.append((name, i, new))
    return found


def plain(line):
    """A line without what one version of LLVM spells differently from another: registers are %, predicates %p, labels L; what moves
    bits or compares them for being equal is of type b."""
    line = re.sub(r"\s+", " ", line.strip())
    line = re.sub(r"\$L__BB\d+_\d+", "L", re.sub(r"%(?!tid|ctaid)(p?)[a-z]*\d+", r"%\1", line))
    line = re.sub(r"^(@!?%p )?((?:ld|st|mov|selp)\b[.\w]*\.)[usf](?=\d+ )", r"\1\2b", line)
    return re.sub(r"\b(setp\.(?:eq|ne)\.)[us](?=\d+ )", r"\1b", line)


def kernel(lines, at):
    """The name of the kernel that the line AT is in."""
    while at and ".entry" not in lines[at]:
        at -= 1
    return lines[at].split(".entry ")[-1].rstrip("(")


def context(lines, at):
    """The line AT as text that other code in the kernel leaves as it is: after the two instructions before it, before the next.
    Moves between registers do not count, of which one version of LLVM has more than another."""
    def near(step, count):
        found, i = [], at + step
        while 0 <= i < len(lines) and len(found) < count:
            line = plain(lines[i])
            if not re.match(r"$|//|\$?L(__BB\w+)?:|mov\.b\d+ %, %;", line):
                found.append(line)
            i += step
        return found
    return " | ".join(near(-1, 2)[::-1] + [plain(lines[at])] + near(1, 1))

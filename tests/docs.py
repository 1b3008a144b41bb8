# SPDX-License-Identifier: Apache-2.0
"""Checks that documents are exact: README.md names every source folder, every file and every suite has a head, files named in documents exist and define
what they are said to define, README.md's and
HACKING.md's prose has lines of 120 columns, HACKING.md names the lists of cases, manual pages and --help name the same options, docs/ops.md is what the table of ops says, the glossary is
short, docs/c-api.md has the statuses and limits of the code, and no line uses a private word for which the field has one. docs.py [BUILD]"""

import fnmatch
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("base", "ir", "frontend", "ops", "passes/graph", "passes/forms", "passes/kernel", "passes/layout", "passes/memory",
           "passes/schedule", "passes/poly", "codegen", "runtime", "tools")
GLOSSARY_WORDS = 25  # most words of the glossary, since a new reader must learn each one

# Words with a meaning that only this project gives them, and clauses that do not name their subject. The field's words are:
# recompute, vector width, contiguous, misalignment, over budget, fuse, transpose, persistent block, skinny product, column reduction,
# stencil, partial sums, software pipeline.
PRIVATE_WORDS = re.compile(
    r"made again|\bneighbours\b|runs? along|ragged (rows|tiles|columns|channels|windows|accesses)|\bskew|\bdear\b|swallow|\bin hand\b|"
    r"gpu_(turn|again|few|fold|panels|halves|window)|ring_slot|what (it|they) (is|are|has|have) of|who has|(?<![Tt]here )(is|are) none\b|"
    r"that which|those which|[A-Z] is no such|(?<!there )is no (tensor|text|number|product|constant|contraction|operator|value|token|such)")
# Text of others, and this file.
FOREIGN = ("tests/ptxsim/triton/", "tests/ptxsim/cuda/", "tests/docs.py")

faults = []


def text(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def heads():
    """README.md names each source folder, and each file has a comment at its head; in a pair of .c and .h the header's is enough."""
    for folder in FOLDERS:
        if f"`{folder}/`" not in text("README.md"):
            faults.append(f"README.md: does not name {folder}/")
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]", root_dir=ROOT, recursive=True)):
            head = re.match(r"/\* SPDX[^\n]*\*/\n(?:/\* clang-format off[^\n]*\*/\n)?/\*", text(path))
            beside = path.endswith(".c") and os.path.exists(os.path.join(ROOT, path[:-1] + "h"))
            if not head and not beside:
                faults.append(f"{path}: does not say at its head what it is")


def suites():
    """Each suite says what it tests below its licence: HACKING.md refers to these lines."""
    for path in sorted(glob.glob("tests/*/run.sh", root_dir=ROOT)):
        if not re.match(r"#[^\n]*\n# SPDX[^\n]*\n# \w.{30}", text(path)):
            faults.append(f"{path}: its third line does not say what it tests")


def paths():
    """Paths with a folder, in backquotes, exist."""
    for doc in ["README.md", "HACKING.md"] + sorted(glob.glob("docs/*.md", root_dir=ROOT)):
        for path in re.findall(r"`((?:\w[\w-]*/)+[\w.-]*)`", text(doc)):
            top = path.split("/")[0]
            inside = os.path.isdir(os.path.join(ROOT, top)) and top != "build"
            if inside and "NAME" not in path and not os.path.exists(os.path.join(ROOT, path)):
                faults.append(f"{doc}: names {path}, which is not there")


def definitions():
    """A document that says "`NAME` in `FILE`" is right: the file defines the name."""
    for doc in ["README.md", "HACKING.md"] + sorted(glob.glob("docs/*.md", root_dir=ROOT)):
        for name, path in re.findall(r"`(\w+)` in\s+`((?:\w[\w-]*/)+\w[\w.-]*\.[ch])`", text(doc)):
            code = text(path) if os.path.exists(os.path.join(ROOT, path)) else ""
            if not re.search(rf"^\w.*\b{name}[(\[]|^typedef struct {name} {{|^}} {name};|^\s+{name} = |\"{name}\"", code, re.M):
                faults.append(f"{doc}: {path} does not define {name}")


def width():
    """README.md and HACKING.md are also read as plain text: their prose has lines of at most 120 columns; rows of tables and code may be longer."""
    for doc in "README.md", "HACKING.md":
        for n, line in enumerate(text(doc).splitlines(), 1):
            if len(line) > 120 and not line.startswith(("|", "    ")):
                faults.append(f"{doc}: line {n} has {len(line)} columns of at most 120")


def lists_of_cases():
    """HACKING.md names each list of cases that the suites read."""
    for path in sorted(glob.glob("tests/*.txt", root_dir=ROOT)):
        if path != "tests/requirements.txt" and path not in text("HACKING.md"):
            faults.append(f"HACKING.md: does not name {path}")


def options(build):
    for tool in "dlcc", "dlcc-opt", "dlrun":
        usage = subprocess.run([os.path.join(build, "bin", tool), "--help"], capture_output=True, text=True)
        page = re.sub(r"\\f.|[\\\"]|\.[BI]R? ?", "", text(f"docs/man/{tool}.1"))
        known = re.compile(r"(?<![\w-])--[a-z][\w-]*")
        for option in sorted(set(known.findall(usage.stdout + usage.stderr)) - set(known.findall(page))):
            faults.append(f"docs/man/{tool}.1: lacks {option}, which --help names")
        for option in sorted(set(known.findall(page)) - set(known.findall(usage.stdout + usage.stderr))):
            faults.append(f"docs/man/{tool}.1: names {option}, which --help does not")
        if tool == "dlcc":
            listed = subprocess.run([os.path.join(build, "bin", tool), "--list-options"], capture_output=True, text=True).stdout
            old = set(known.findall(listed)) - set(known.findall(usage.stdout))
            for doc in ["README.md", "HACKING.md"] + sorted(glob.glob("docs/*.md", root_dir=ROOT)):
                for option in sorted(old & set(known.findall(text(doc)))):
                    faults.append(f"{doc}: names {option}, which dlcc --help does not")


def ops(build):
    made = subprocess.run([os.path.join(build, "tests", "tools", "opsdoc")], capture_output=True, text=True).stdout
    if made != text("docs/ops.md"):
        faults.append("docs/ops.md: not what the table of ops says; run make docs")


def glossary():
    words = re.findall(r"^\*\*|^\| (?!word|---)", text("docs/glossary.md"), re.M)
    if len(words) > GLOSSARY_WORDS:
        faults.append(f"docs/glossary.md: has {len(words)} words of at most {GLOSSARY_WORDS}")


# Rows of the table of limits in docs/c-api.md, and where the code has the number.
LIMITS = (("bytes of a struct", "runtime/rt.h", r"RT_LARGEST_STRUCT (\d+)u"), ("bytes of an error's text", "runtime/rt.h", r"char error\[(\d+)\]"),
          ("bytes of a name", "runtime/run.c", r"input \\\"%\.(\d+)s"), ("threads of a model", "runtime/rt.h", r"RT_MAX_THREADS (\d+)"),
          ("alignment of a workspace", "runtime/rt.h", r"RT_ALIGN (\d+)u"), ("bytes of stack", "runtime/rt.h", r"RT_STACK (\d+)u"),
          ("events of a trace", "runtime/profile.c", r"MAX_EVENTS \(1u << (\d+)\)"), ("dims whose graphs", "runtime/cuda.h", r"GPU_GRAPHS = (\d+)"),
          ("alignment of tensors on a GPU", "runtime/vector.h", r"GPU_VECTOR = (\d+)"),
          ("instructions of a regular", "runtime/str_regex.c", r"MOST_INSTRUCTIONS = (\d+)"), ("ranges of characters", "runtime/str_regex.c", r"MOST_RANGES = (\d+)"),
          ("its largest count", "runtime/str_regex.c", r"MOST_COUNT = (\d+)"), ("depth of its groups", "runtime/str_regex.c", r"MOST_DEPTH = (\d+)"))


def limits():
    """docs/c-api.md has each status with its number, and the limits that the code has."""
    doc = text("docs/c-api.md")
    for status, number in re.findall(r"(DL_\w+) = (\d+),", re.search(r"enum dl_status \{.*?\}", text("runtime/dlrt.h"), re.S)[0]):
        if f"| `{status}` | {number} |" not in doc:
            faults.append(f"docs/c-api.md: the table of errors has no row for {status}, which is {number}")
    rows = dict(re.findall(r"^\| ([^|]*) \| (\d+) \|$", doc, re.M))
    for name, path, pattern in LIMITS:
        value, told = re.search(pattern, text(path)), [n for row, n in rows.items() if row.startswith(name)]
        number = value and (str(1 << int(value[1])) if "<<" in pattern else value[1])
        if told != [number]:
            faults.append(f"docs/c-api.md: \"{name}\" is {told}, and {path} has {number}")


def private_words():
    """No file of the tree, except in build and hidden folders, has a private word."""
    for path in sorted(glob.glob("**/*", root_dir=ROOT, recursive=True)):
        if path.startswith(FOREIGN + ("build",)) or "__pycache__" in path or not os.path.isfile(os.path.join(ROOT, path)):
            continue
        with open(os.path.join(ROOT, path), errors="replace") as f:
            for n, line in enumerate(f, 1):
                found = PRIVATE_WORDS.search(line)
                if found:
                    faults.append(f"{path}:{n}: \"{found[0]}\" is not a word of the field; see PRIVATE_WORDS in tests/docs.py")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build")
    heads()
    suites()
    paths()
    definitions()
    width()
    lists_of_cases()
    options(build)
    ops(build)
    glossary()
    limits()
    private_words()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

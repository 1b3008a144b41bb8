# SPDX-License-Identifier: Apache-2.0
"""Checks that documents are exact: README.md names every source file and test folder, files named in documents exist,
README.md's prose has lines of 120 columns, HACKING.md names the lists of cases, manual pages and --help name the same options, docs/ops.md is what the table of ops says. docs.py [BUILD]"""

import fnmatch
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("base", "ir", "frontend", "ops", "passes", "codegen", "runtime", "tools", "tools/dlrun", "tools/dlcc", "tests/ptxsim")
faults = []


def text(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def tour():
    """Each source file is in the README's section on its folder, by its own name, its header's, or a pattern."""
    sections = re.split(r"^### ", text("README.md"), flags=re.M)
    for folder in FOLDERS:
        heads = f"`{folder}/`", f"`{folder.split('/')[0]}/`"
        section = next((s for s in sections if any(h in s.splitlines()[0] for h in heads)), "")
        named = re.findall(r"`(?:[\w-]+/)?([\w.*-]+\.(?:[ch*]|def|proto))`", section)
        for path in sorted(glob.glob(f"{folder}/*.[ch]", root_dir=ROOT) + glob.glob(f"{folder}/*.def", root_dir=ROOT)):
            name = os.path.basename(path)
            if not any(fnmatch.fnmatch(n, t) for t in named for n in (name, name[:-2] + ".h")):
                faults.append(f"README.md: the tour does not name {path}")
        for name in re.findall(r"`([\w./-]+\.(?:[ch]|def|proto))`", section):
            if not any(os.path.exists(os.path.join(ROOT, at, name)) for at in (folder, "tools", "tools/dlrun", "tools/dlcc", "tests/ptxsim")):
                faults.append(f"README.md: the tour of {folder}/ names {name}, which is not there")


def test_folders():
    """Each folder of tests with something to run is in the README's section on tests."""
    section = next(s for s in re.split(r"^### ", text("README.md"), flags=re.M) if s.startswith("Tests"))
    for path in sorted(glob.glob("tests/*/", root_dir=ROOT)):
        name = os.path.basename(path[:-1])
        scripts = any(glob.glob(f"{path}*.{end}", root_dir=ROOT) for end in ("sh", "py", "c", "dl"))
        if scripts and not re.search(rf"`(?:tests/)?{name}/", section):
            faults.append(f"README.md: the tour does not name {path}")


def paths():
    """A path with a folder, in backquotes, exists."""
    for doc in ["README.md", "HACKING.md"] + sorted(glob.glob("docs/*.md", root_dir=ROOT)):
        for path in re.findall(r"`((?:\w[\w-]*/)+[\w.-]*)`", text(doc)):
            top = path.split("/")[0]
            inside = os.path.isdir(os.path.join(ROOT, top)) and top != "build"
            if inside and "NAME" not in path and not os.path.exists(os.path.join(ROOT, path)):
                faults.append(f"{doc}: names {path}, which is not there")


def width():
    """README.md is read as it stands, too: prose in lines of 120 columns; rows of tables and code may be longer."""
    for n, line in enumerate(text("README.md").splitlines(), 1):
        if len(line) > 120 and not line.startswith(("|", "    ")):
            faults.append(f"README.md: line {n} has {len(line)} columns of at most 120")


def lists_of_cases():
    """Each list that the suites read is in HACKING.md, which says what it is for."""
    for path in sorted(glob.glob("tests/*.txt", root_dir=ROOT)):
        if path != "tests/requirements.txt" and path not in text("HACKING.md"):
            faults.append(f"HACKING.md: does not name {path}")


def options(build):
    for tool in "dlcc", "dlcc-opt", "dlrun":
        said = subprocess.run([os.path.join(build, "bin", tool), "--help"], capture_output=True, text=True)
        page = re.sub(r"\\f.|[\\\"]|\.[BI]R? ?", "", text(f"docs/man/{tool}.1"))
        known = re.compile(r"(?<![\w-])--[a-z][\w-]*")
        for option in sorted(set(known.findall(said.stdout + said.stderr)) - set(known.findall(page))):
            faults.append(f"docs/man/{tool}.1: lacks {option}, which --help names")
        for option in sorted(set(known.findall(page)) - set(known.findall(said.stdout + said.stderr))):
            faults.append(f"docs/man/{tool}.1: names {option}, which --help does not")


def ops(build):
    made = subprocess.run([os.path.join(build, "tests", "tools", "opsdoc")], capture_output=True, text=True).stdout
    if made != text("docs/ops.md"):
        faults.append("docs/ops.md: not what the table of ops says; run make docs")


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build")
    tour()
    test_folders()
    paths()
    width()
    lists_of_cases()
    options(build)
    ops(build)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

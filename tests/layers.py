# SPDX-License-Identifier: Apache-2.0
"""Checks which folders include which, also inside passes/, that only passes/forms/ recognises contractions, that neither passes nor codegen test for ONNX's contractions by name, that each prototype in
a header says where its body is (in the file of the header's name, or in that of the section, `/* ---- affine.c ---- */`, in which
the prototype stands; the file is named from the header's folder, or from the root), that no strategy includes the private header of another, and that no two types have one name."""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# For each folder, the folders that it may include. EXTRA has single files of other folders that it may include, too.
MAY = {
    "base": {"base"},
    "ir": {"ir", "base"},
    "ops": {"ops", "ir", "base"},
    "frontend": {"frontend", "ops", "ir", "base"},
    "passes": {"passes", "ops", "ir", "base"},
    "codegen": {"codegen", "passes", "ir", "base"},
    "runtime": {"runtime"},
    "tools/ptxsim": {"tools/ptxsim", "base"},  # stands for the driver: nothing of the compiler
    "tools": {"tools", "codegen", "frontend", "passes", "ops", "ir", "base", "runtime"},
}
STRINGS = "runtime/strtable.h"  # the table and the routines: the interpreter and the models run the same
SIZES = "runtime/dlrt.h"        # the arithmetic of sizes in 128 bits: likewise
# The folders of passes/: each may include those before it. passes/module.h, which they share, is below them.
PASSES = ("passes/forms", "passes/graph", "passes/kernel", "passes/layout", "passes/memory", "passes/poly", "passes/schedule")
EXTRA = {"base": {"runtime/escape.h"}, "ir": {STRINGS, SIZES}, "ops": {STRINGS}, "codegen": {"runtime/hash.h", "runtime/cpu.h", STRINGS},
         "passes": {"runtime/vector.h"}, "frontend": {"runtime/hash.h", STRINGS}}
OPS_PUBLIC = {"ops/op.h"}         # the only file of ops/ that other folders may include
LLVM = {"codegen/nvptx/llvm.c"}  # may include LLVM
ISL = {"passes/poly/poly_impl.h", "passes/poly/poly.c"}  # may include isl
EQUATIONS = r"passes/graph/(.*_)?(rules|equations|raise)\w*\.(c|def|h)"  # tables of equations: may name operators
CONTRACTIONS = r"\bOP_(MatMul\w*|Gemm|Einsum|Conv\w*|QLinear\w+|Attention|GroupQueryAttention)\b"


def layer_of(path):
    """The key of MAY to which PATH belongs."""
    return next((layer for layer in MAY if path.startswith(layer + "/")), path.split("/")[0])


def goes_up(path, name):
    """File PATH of a folder of passes/ includes NAME of a later one."""
    own = [i for i, folder in enumerate(PASSES) if path.startswith(folder + "/")]
    other = [i for i, folder in enumerate(PASSES) if name.startswith(folder + "/")]
    return own and other and own[0] < other[0]


def is_private(name, path):
    """Header NAME is for the files of one strategy, to which PATH does not belong; cpu_impl.h and gpu_impl.h are for their folders."""
    folder, header = os.path.split(name)
    if not folder.startswith("passes/schedule/") or not header.endswith("_impl.h"):
        return False
    strategy = header[:-len("_impl.h")]
    return folder != os.path.dirname(path) or (strategy != os.path.basename(folder) and not re.match(strategy + "[._]", os.path.basename(path)))


def faults_of(path, text):
    folder = layer_of(path)
    for match in re.finditer(r'^\s*#\s*include\s+(["<])([^">]+)[">]', text, re.M):
        line = text.count("\n", 0, match.start()) + 1
        name = match.group(2)
        if match.group(1) == "<":
            if name.startswith("isl/") and path not in ISL:
                yield line, f"includes <{name}>; only {', '.join(ISL)} sees isl"
            if name.startswith("llvm") and path not in LLVM:
                yield line, f"includes <{name}>; only {', '.join(LLVM)} sees LLVM"
            if name.startswith("protobuf-c/") and folder != "frontend":
                yield line, f"includes <{name}>; only frontend/ sees protobuf-c"
            continue
        other = layer_of(name)
        if "/" not in name:
            yield line, f"includes \"{name}\" without its folder"
        elif other not in MAY[folder] and name not in EXTRA.get(folder, ()):
            yield line, f"includes \"{name}\"; {folder}/ may include {', '.join(sorted(MAY[folder]))}"
        elif other == "ops" and folder not in ("ops",) and name not in OPS_PUBLIC:
            yield line, f"includes \"{name}\"; only ops/op.h is public"
        elif is_private(name, path):
            yield line, f"includes \"{name}\", the private header of another strategy"
        elif goes_up(path, name):
            yield line, f"includes \"{name}\": the folders of passes/ include only those before them: {', '.join(PASSES)}"
        elif folder == "codegen" and name == "ir/graph/ops.def":
            yield line, "codegen never sees ops.def"
    if not path.startswith("passes/forms/"):
        for match in re.finditer(r"\bstmt_contraction\(", text):
            yield text.count("\n", 0, match.start()) + 1, "recognises a contraction by itself; ask for the form (passes/forms/form.h)"
    if folder in ("passes", "codegen") and not re.fullmatch(EQUATIONS, path):
        for match in re.finditer(CONTRACTIONS, text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, f"tests for {match.group(0)} outside a table of equations"


PROTOTYPE = re.compile(r"^(?!static|typedef|extern|return|#|\s)[A-Za-z_][\w *]*?\b(\w+)\([^;{]*?\)[^;{()]*(?:\([^;{]*?\))?;", re.M | re.S)
BODY = re.compile(r"^(?!static|typedef|#|\s)[A-Za-z_][\w *]*?\b(\w+)\([^;{]*?\)\s*\n\{", re.M)
SECTION = re.compile(r"^/\* ---- (\S+\.c) ---- \*/$", re.M)
ANYWHERE = {"runtime/dlrt.h": re.compile(".*")}  # the users' interface


def bodies(texts):
    """The files with a body of each function: {name: {path}}."""
    found = {}
    for path, text in texts.items():
        if path.endswith(".c"):
            for match in BODY.finditer(text):
                found.setdefault(match.group(1), set()).add(path)
    return found


def misplaced(path, text, found):
    """Prototypes of header PATH whose body is not where the header says."""
    plain = re.sub(r"/\*(?! ---- ).*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    folder, sections = os.path.dirname(path), [(m.start(), m.group(1)) for m in SECTION.finditer(plain)]
    for match in PROTOTYPE.finditer(plain):
        name = match.group(1)
        said = [file if file.startswith(path.split("/")[0] + "/") else os.path.join(folder, file) for at, file in sections if at < match.start()][-1:]
        said = said or [path[:-1] + "c"]
        if name in found and not found[name] & set(said) and not (path in ANYWHERE and ANYWHERE[path].fullmatch(name)):
            yield plain.count("\n", 0, match.start()) + 1, f"the body of {name} is in {', '.join(sorted(found[name]))}, not in {said[0]}"


def shared_names(texts):
    """Types of one name in two files: a reader who searches for the name finds one type."""
    first = {}
    for path, text in texts.items():
        if layer_of(path) == "tools/ptxsim":  # a program of its own
            continue
        for match in re.finditer(r"^typedef (?:struct|enum|union) (\w+) \{", text, re.M):
            if first.setdefault(match.group(1), path) != path:
                yield path, text.count("\n", 0, match.start()) + 1, f"{match.group(1)} is also a type of {first[match.group(1)]}"


def circles(texts):
    """Lists of units that include each other's headers in a circle, by Tarjan's algorithm. A unit is a .c file with its headers."""
    def unit_of(path):
        return re.sub(r"(_impl)?\.[ch]$", "", path)

    units = {unit_of(path): set() for path in texts}
    for path, text in texts.items():
        own = unit_of(path)
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            other = unit_of(name)
            if other != own and other in units:
                units[own].add(other)
    found, index, low, stack = [], {}, {}, []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in sorted(units[unit]):
            if other not in index:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], index[other])
        if low[unit] == index[unit]:
            at = stack.index(unit)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for unit in sorted(units):
        if unit not in index:
            visit(unit)
    return found


def main():
    faults = 0
    texts = {}
    for folder in MAY:
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]", root_dir=ROOT, recursive=True) +
                           glob.glob(f"{folder}/**/*.def", root_dir=ROOT, recursive=True)):
            with open(os.path.join(ROOT, path)) as f:
                texts[path] = f.read()
    found = bodies(texts)
    for path, text in texts.items():
        for line, what in [*faults_of(path, text), *(misplaced(path, text, found) if path.endswith(".h") else ())]:
            print(f"{path}:{line}: error: {what}")
            faults += 1
    for path, line, what in shared_names(texts):
        print(f"{path}:{line}: error: {what}")
        faults += 1
    for circle in circles(texts):
        print(f"circle of {len(circle)} files: {' '.join(circle)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

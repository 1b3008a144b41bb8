# SPDX-License-Identifier: Apache-2.0
"""Checks which folders include which, and that neither passes nor codegen test for ONNX's contractions by name."""

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
    "tools": {"tools", "codegen", "frontend", "passes", "ops", "ir", "base", "runtime"},
}
EXTRA = {"base": {"runtime/escape.h"}, "codegen": {"runtime/hash.h"}, "passes": {"runtime/vector.h"}, "frontend": {"runtime/hash.h"}}
OPS_PUBLIC = {"ops/op.h"}         # the only file of ops/ that other folders may include
LLVM = {"codegen/nvptx/llvm.c"}  # may include LLVM
ISL = {"passes/poly/poly_impl.h", "passes/poly/poly.c"}  # may include isl
EQUATIONS = r"passes/graph/(.*_)?(rules|equations|raise)\w*\.(c|def|h)"  # tables of equations: may name operators
CONTRACTIONS = r"\bOP_(MatMul\w*|Gemm|Einsum|Conv\w*|QLinear\w+|Attention|GroupQueryAttention)\b"


def faults_of(path, text):
    folder = path.split("/")[0]
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
        other = name.split("/")[0]
        if "/" not in name:
            yield line, f"includes \"{name}\" without its folder"
        elif other not in MAY[folder] and name not in EXTRA.get(folder, ()):
            yield line, f"includes \"{name}\"; {folder}/ may include {', '.join(sorted(MAY[folder]))}"
        elif other == "ops" and folder not in ("ops",) and name not in OPS_PUBLIC:
            yield line, f"includes \"{name}\"; only ops/op.h is public"
        elif folder == "codegen" and name == "ir/ops.def":
            yield line, "codegen never sees ops.def"
    if folder in ("passes", "codegen") and not re.fullmatch(EQUATIONS, path):
        for match in re.finditer(CONTRACTIONS, text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, f"tests for {match.group(0)} outside a table of equations"


def main():
    faults = 0
    for folder in MAY:
        for path in sorted(glob.glob(f"{folder}/**/*.[ch]", root_dir=ROOT, recursive=True) +
                           glob.glob(f"{folder}/**/*.def", root_dir=ROOT, recursive=True)):
            with open(os.path.join(ROOT, path)) as f:
                text = f.read()
            for line, what in faults_of(path, text):
                print(f"{path}:{line}: error: {what}")
                faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests in Python: models and their data, and the environment of the simulated GPU."""

import functools
import glob
import os
import re
import shutil
import subprocess

import numpy as np
import onnx.parser
from onnx import numpy_helper

# The newest clang, or None. Debian's packages of a version have no program "clang".
CLANG = next((c for c in [*(f"clang-{n}" for n in range(40, 14, -1)), "clang"] if shutil.which(c)), None)


def limit(seconds):
    """A time limit, times the factor of tests/run.py --patience."""
    return seconds * float(os.environ.get("PATIENCE", 1))


def model(text, opset=21):
    """Parses TEXT, a model in ONNX's textual syntax, with or without the header before its name."""
    return onnx.parser.parse_model(text if text.startswith("<") else f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def tensor(path, array, name=""):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def tensors(folder, role, arrays):
    """Writes ARRAYS, {name: array}, to FOLDER/ROLE_0.pb ..., and removes other files of ROLE; makes the folder."""
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(f"{glob.escape(folder)}/{role}_*.pb"):
        os.remove(old)
    for i, (name, array) in enumerate(arrays.items()):
        tensor(f"{folder}/{role}_{i}.pb", array, name)


def share(items, of):
    """One in OF of ITEMS where only a share of the tests is to run (TESTS=share, as in make check), else all."""
    return items[::of] if os.environ.get("TESTS") == "share" else items


def unoptimised():
    """Options of dlcc for tests of values alone: tests/tools/clang-O0 compiles the C, unless DLCC_FLAGS says how sanitized programs do."""
    compiler = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools", "clang-O0")
    return [] if os.environ.get("DLCC_FLAGS") else ["--cc=" + compiler]


def unoptimised_share():
    """unoptimised() where only a share of the tests is to run: the C compiler's optimisations take most of their time."""
    return unoptimised() if os.environ.get("TESTS") == "share" else []


def simulated(build, **env):
    """The environment in which programs load BUILD's simulator as the CUDA driver."""
    return {**os.environ, "LD_LIBRARY_PATH": build + "/ptxsim", **{k: str(v) for k, v in env.items()}}


@functools.cache
def llvm(build):
    """The release of LLVM that BUILD's dlcc is linked with; 0: none."""
    text = subprocess.run([build + "/bin/dlcc", "--version"], capture_output=True, text=True, check=True).stdout
    return int((re.search(r"LLVM (\d+)", text) or [0, 0])[1])


def instructions(build, most):
    """A limit on the number of instructions: MOST with LLVM 22; more with earlier releases, which optimise less."""
    return most if llvm(build) >= 22 else 1.16 * most


def run_all(tests, named=()):
    """Runs the functions TESTS, or only those NAMED; prints which fail and how many. Returns the exit status."""
    failed, chosen = 0, [t for t in tests if not named or t.__name__ in named]
    for test in chosen:
        try:
            test()
        except Exception as e:  # any exception is a failure of the test
            failed += 1
            print(f"FAIL: {test.__name__}: {type(e).__name__}: {str(e)[:900]}")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0

# SPDX-License-Identifier: Apache-2.0
"""What tests in Python make models and their data of, and the environment of the simulated GPU."""

import functools
import glob
import os
import re
import subprocess

import numpy as np
import onnx.parser
from onnx import numpy_helper


def model(text, opset=21):
    """The model of TEXT in ONNX's textual syntax, from its name on."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def tensor(path, array, name=""):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(np.asarray(array), name).SerializeToString())


def tensors(folder, role, arrays):
    """FOLDER/ROLE_0.pb ... of ARRAYS by their names, and no others; the folder is made."""
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(f"{glob.escape(folder)}/{role}_*.pb"):
        os.remove(old)
    for i, (name, array) in enumerate(arrays.items()):
        tensor(f"{folder}/{role}_{i}.pb", array, name)


def simulated(build, **env):
    """The environment in which programs find BUILD's simulator where they look for the driver."""
    return {**os.environ, "LD_LIBRARY_PATH": build + "/ptxsim", **{k: str(v) for k, v in env.items()}}


@functools.cache
def llvm(build):
    """The release of LLVM that BUILD's dlcc has; 0: none."""
    text = subprocess.run([build + "/bin/dlcc", "--version"], capture_output=True, text=True, check=True).stdout
    return int((re.search(r"LLVM (\d+)", text) or [0, 0])[1])


def instructions(build, most):
    """MOST, counted with LLVM 22, as releases before it may have it: they join and drop less."""
    return most if llvm(build) >= 22 else 1.16 * most


def run_all(tests, named=()):
    """Runs functions TESTS, those NAMED if there are any; says which fail and how many. The exit status."""
    failed, chosen = 0, [t for t in tests if not named or t.__name__ in named]
    for test in chosen:
        try:
            test()
        except Exception as e:  # of any kind: the test's failure
            failed += 1
            print(f"FAIL: {test.__name__}: {type(e).__name__}: {str(e)[:900]}")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0

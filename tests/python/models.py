# SPDX-License-Identifier: Apache-2.0
"""Models for the tests, from ONNX's textual syntax, and quick compiles of them."""

import os
import subprocess
import sys
import tempfile

import dlcc
import onnx.parser

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = os.path.join(ROOT, "examples", "digits", "digits.onnx")
HEAD = '<ir_version: 10, opset_import: ["" : 23, "ai.onnx.ml" : 3, "com.microsoft" : 1]> g '


def model(text):
    """The proto of a graph: "(float[n] x) => (float[n] y) { y = Relu(x) }"."""
    return onnx.parser.parse_model(HEAD + text)


def compiled(text, **options):
    return dlcc.compile(model(text), **{"level": 0, **options})


def python(program, *arguments, timeout=None, **environment):
    """Runs PROGRAM, text, in a Python of its own: the finished process. A variable that is None is unset."""
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **environment}
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=timeout,
                          env={k: v for k, v in env.items() if v is not None})


def simulated(test, text, program):
    """TEST: PROGRAM, text, succeeds with the file of the model of TEXT as its argument, and a simulated GPU (on_gpu.py)."""
    simulator = os.path.join(os.environ["BUILD"], "ptxsim")
    known = subprocess.run(["dlcc", "--list-targets"], capture_output=True, text=True, check=True).stdout
    if not os.path.exists(os.path.join(simulator, "libcuda.so.1")) or "cuda:" not in known:
        test.skipTest("dlcc makes no code for GPUs, or the simulator was not built")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(model(text).SerializeToString())
        folders = os.pathsep.join(os.path.join(ROOT, x) for x in ("python", "tests/python"))
        done = python(program, path, PYTHONPATH=folders, LD_LIBRARY_PATH=simulator, PTXSIM_SM="80")
    test.assertEqual((done.returncode, done.stderr), (0, ""))

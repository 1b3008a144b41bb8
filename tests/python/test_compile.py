# SPDX-License-Identifier: Apache-2.0
"""Compiles: what a model may be, errors, warnings, check, progress, and the command line."""

import os
import pty
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import dlcc
import numpy as np
import onnx
from dlcc import programs
from models import DIGITS, ROOT, compiled, model, python

NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=NEG):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as f:
            f.write(model(text).SerializeToString())
        return path


class Models(InFolder):
    def test_forms(self):
        proto = model(NEG)
        path = self.path("1st model.v2.onnx")
        for given in proto, proto.SerializeToString(), bytearray(proto.SerializeToString()), path:
            np.testing.assert_array_equal(dlcc.compile(given, level=0)([1, 2]), [-1, -2])
        self.assertEqual(dlcc.compile(path, level=0).describe().name, "m1st_model")
        with self.assertRaisesRegex(TypeError, "int"):
            dlcc.compile(3)

    def test_path_like_an_option(self):
        here = os.getcwd()
        self.path("-v.onnx")
        os.chdir(self.folder)
        try:
            np.testing.assert_array_equal(dlcc.compile("-v.onnx", level=0)([1, 2]), [-1, -2])
        finally:
            os.chdir(here)

    def test_export_without_torch(self):
        """The package needs no PyTorch, and says where it does."""
        done = python("import sys\nsys.modules['torch'] = None\nimport dlcc\ntry: dlcc.export(None)\nexcept ImportError as e: print(e)")
        self.assertEqual((done.stdout, done.stderr), ("dlcc.pytorch needs PyTorch: pip install torch onnx onnxscript\n", ""))

    def test_fork(self):
        """A child that ends leaves the parent's model as it is."""
        done = python("import dlcc, os, sys\nm = dlcc.compile(sys.argv[1], level=0)\nm([1, 2])\npid = os.fork()\n"
                      "if not pid: sys.exit(int(m([1, 2])[0] != -1))\n"
                      "assert os.waitpid(pid, 0)[1] == 0\nm.save(sys.argv[1] + '.so')\nprint(m([1, 2]))", self.path("neg.onnx"),
                      PYTHONWARNINGS="ignore::DeprecationWarning")  # Python from 3.12 on warns of a fork where there are threads
        self.assertEqual((done.stdout, done.stderr), ("[-1. -2.]\n", ""))

    def test_dims(self):
        text = "(float[n,k] x) => (float[n,k] y) { y = Neg(x) }"
        with compiled(text, dims={"n": 2, "k": (1, 8)}) as found:
            self.assertEqual(found.describe().inputs[0].dims, (2, "k"))
            with self.assertRaisesRegex(dlcc.RunError, r'dim 1 \(k\) is 9.*1\.\.8') as caught:
                found(np.zeros((2, 9), np.float32))
            self.assertEqual(caught.exception.status, "DL_SHAPE")
        with self.assertRaisesRegex(dlcc.CompileError, "q"):
            compiled(text, dims={"q": 2})

    def test_save_and_load(self):
        path = os.path.join(self.folder, "saved.so")
        compiled(NEG).save(path)
        with dlcc.load(path, threads=1) as loaded:
            np.testing.assert_array_equal(loaded([1, 2]), [-1, -2])

    def test_load_refused(self):
        for path, why in (("none.so", "No such file"), ("/", "Is a directory"), (DIGITS, "not a library"), (sys.executable, "NAME_get_api|not a library")):
            with self.assertRaisesRegex(dlcc.Error, why):
                dlcc.load(path)

    def test_load_damaged(self):
        """What is not all of a library is refused before it is loaded, which would crash, and no pipe is waited for."""
        whole, cut = os.path.join(self.folder, "whole.so"), os.path.join(self.folder, "cut.so")
        compiled(NEG).save(whole)
        with open(whole, "rb") as f:
            data = f.read()
        os.mkfifo(cut + ".pipe")
        with self.assertRaisesRegex(dlcc.Error, "is not a regular file"):
            dlcc.load(cut + ".pipe")
        for given, why in ((data[:-1], f"is cut off: it has {len(data) - 1} of {len(data)} bytes"), (data[:5000], "cut off"), (data[:40], "not a library"),
                           (data[:0x28] + b"\xff" * 8 + data[0x30:], "cut off"), (data[:0x3c] + b"\xff\xff" + data[0x3e:], "cut off"),
                           (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer, not the file; run `git lfs pull`")):
            with open(cut, "wb") as f:
                f.write(given)
            with self.subTest(why), self.assertRaisesRegex(dlcc.Error, why):
                dlcc.load(cut)

    def test_no_such_device(self):
        with self.assertRaises(dlcc.RunError) as caught:
            compiled(NEG, device="cuda")
        self.assertEqual(caught.exception.status, "DL_TARGET")

    def test_optional_input(self):
        """An input with a default may be missing."""
        proto = model("(float[2] x) => (float[2] y) <float[2] w = {3, 4}> { y = Add(x, w) }")
        proto.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [2]))
        found = dlcc.compile(proto, level=0, options=["--overridable=w"])
        np.testing.assert_array_equal(found([1, 1]), [4, 5])
        np.testing.assert_array_equal(found(x=[1, 1], w=[0, 1]), [1, 2])


class Errors(InFolder):
    def test_refused(self):
        with self.assertRaises(dlcc.CompileError) as caught:
            compiled("(float[2] x) => (float[2] y) { [odd] t = Frobnicate(x) [even] y = Twirl(t) }")
        error = caught.exception
        self.assertEqual((error.node, error.op, error.status), ("odd", "Frobnicate", 1))
        self.assertEqual([d.node for d in error.diagnostics], ["odd", "even"])
        self.assertIn('error: node "odd" (Frobnicate)', str(error))

    def test_names(self):
        """A node's name may look like anything."""
        proto = model("(float[2] x) => (float[2] y) { [n] y = Frobnicate(x) }")
        proto.graph.node[0].name = 'a: error: "b" (c)'
        with self.assertRaises(dlcc.CompileError) as caught:
            dlcc.compile(proto)
        self.assertEqual(len(caught.exception.diagnostics), 1)
        self.assertEqual(caught.exception.op, "Frobnicate")

    def test_bad_files(self):
        for given, why in ((os.path.join(self.folder, "none.onnx"), "No such file"), (b"junk", "error: ")):
            with self.assertRaisesRegex(dlcc.CompileError, why):
                dlcc.compile(given)

    def test_usage(self):
        with self.assertRaisesRegex(dlcc.CompileError, "--frob") as caught:
            compiled(NEG, options=["--frob"])
        self.assertEqual(caught.exception.status, 2)

    def test_arguments(self):
        for options, why in (({"dims": [3]}, "dims are a dict"), ({"ops": "gelu.dl"}, "ops are a list"), ({"options": "-O1"}, "options are a list"), ({"options": [1]}, "an option is of type str, and not int: 1"),
                             ({"level": "3"}, "level is of type int"), ({"threads": 1.5}, "threads is of type int"), ({"device": 0}, "device is of type str"),
                             ({"target": ["cpu"]}, "target is of type str")):
            with self.assertRaisesRegex(TypeError, why):
                compiled(NEG, **options)
        with unittest.mock.patch.object(dlcc.compiling.programs, "compile_model", side_effect=AssertionError("it is compiled")):
            for options, why in (({"threads": -1}, "threads is -1"), ({"device": "gpu"}, 'device "gpu": it is auto, cpu, cuda or cuda:N'), ({"device": "cuda:x"}, "cuda:N")):
                with self.assertRaisesRegex(dlcc.RunError, why):
                    compiled(NEG, **options)
        with self.assertRaisesRegex(dlcc.Error, "makes no library"):
            compiled(NEG, options=["--version"])
        for path in "zero\0byte.onnx", "lone\ud800.onnx":
            with self.assertRaisesRegex(dlcc.Error, "cannot be given to a program"):
                dlcc.compile(path)
            with self.assertRaisesRegex(dlcc.Error, "cannot be given to a program"):
                dlcc.check(path)

    def test_nothing_stays(self):
        before = set(os.listdir(tempfile.gettempdir()))
        with self.assertRaises(dlcc.CompileError):
            compiled("(float[2] x) => (float[2] y) { y = Frobnicate(x) }")
        self.assertEqual({f for f in set(os.listdir(tempfile.gettempdir())) - before if f.startswith("dlcc-")}, set())

    def test_no_compiler(self):
        """Without a C compiler the error says what to install."""
        programs_only = os.path.join(self.folder, "bin")
        os.mkdir(programs_only)
        for program in "dlcc", "dlrun":
            os.symlink(programs.path_of(program), os.path.join(programs_only, program))
        done = python("import dlcc, sys\ntry: dlcc.compile(sys.argv[1])\nexcept dlcc.CompileError as e: print(e)",
                      self.path("neg.onnx"), PATH=programs_only)
        self.assertIn("no C compiler on PATH: install gcc", done.stdout, done.stderr)

    def test_no_dlcc(self):
        done = python("import dlcc, sys\ntry: dlcc.compile(sys.argv[1])\nexcept dlcc.Error as e: print(e)", self.path("neg.onnx"),
                      PATH=self.folder)
        self.assertIn("pip install ./python", done.stdout, done.stderr)

    def test_inputs(self):
        found = compiled("(float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }")
        x = np.zeros(2, np.float32)
        for call, why in ((lambda: found(x), 'input "z" is missing'), (lambda: found(x, x, x), "3 inputs are given"),
                          (lambda: found(x, x=x), "twice"), (lambda: found(x, q=x), 'no input "q"; it has "x", "z"'),
                          (lambda: found(x, np.zeros(3, np.float32)), 'input "z": dim 0 is 3, expected 2'),
                          (lambda: found.run({"x": x, "z": x}, {"q": x}), 'no output "q"'),
                          (lambda: found(x, np.zeros((2, 1), np.float32)), 'input "z": rank is 2')):
            with self.subTest(why), self.assertRaisesRegex(dlcc.RunError, why):
                call()
        for call in lambda: found.run({"x": x, "z": x}, ["y"]), lambda: found.run([x, x]):
            with self.assertRaisesRegex(TypeError, "a dict"):
                call()

    def test_run_names_the_node(self):
        found = compiled("(float[3] x, int64[1] i) => (float[1] y) { [pick] y = Gather<axis = 0>(x, i) }")
        with self.assertRaises(dlcc.RunError) as caught:
            found([1, 2, 3], [7])
        self.assertEqual((caught.exception.node, caught.exception.op, caught.exception.status), ("pick", "Gather", "DL_INDEX"))
        np.testing.assert_array_equal(found([1, 2, 3], [2]), [3])  # the model still runs

    def test_warnings(self):
        proto = model("(float[2] x) => (float[2] y) <float[2] w = {3, 4}> { y = Add(x, w) }")
        proto.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [2]))
        for options in {}, {"cache": os.path.join(self.folder, "cache")}:
            with self.assertWarnsRegex(dlcc.CompileWarning, "overridable|initialiser") as caught:
                dlcc.compile(proto, level=0, **options)
            self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dlcc.compile(proto, level=0, options=["-Wno-overridable"])


class Report(InFolder):
    TEXT = "(float[n,4] x) => (float[n,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { [small] y = MatMul(x, w) }"

    def test_weights(self):
        """What an option prints is the model's report, also where the model comes from a cache."""
        cache = os.path.join(self.folder, "cache")
        for options in {}, {"cache": cache}, {"cache": cache}:
            found = compiled(self.TEXT, options=["--weights-as=f16"], **options)
            self.assertIn('; weights of "small" are left unchanged: they have 8 elements, fewer than 1024\n', found.report)
            self.assertIn("0 rounded", found.report)
        found.save(os.path.join(self.folder, "saved.so"))
        self.assertEqual(dlcc.load(os.path.join(self.folder, "saved.so")).report, "")
        self.assertEqual(compiled(self.TEXT).report, "")

    def test_explain(self):
        """Longer than a pipe has room for."""
        self.assertIn('kernel 0: MatMul "small"', compiled(self.TEXT, options=["--explain"]).report)
        self.assertGreater(len(dlcc.compile(DIGITS, options=["--dump-ir"]).report), 1 << 16)


class Check(InFolder):
    def test_supported(self):
        found = dlcc.check(DIGITS)
        self.assertTrue(found)
        self.assertEqual((len(found), found[0].node, found[0].op, found[0].how), (7, "conv1", "Conv", "product"))

    def test_not_supported(self):
        found = dlcc.check(model("(float[2] x) => (float[2] y) { [one] t = Neg(x) [two] y = Frobnicate(t) }"))
        self.assertFalse(found)
        self.assertEqual([(n.node, n.supported) for n in found], [("one", True), ("two", False)])
        self.assertIn('node "two" (Frobnicate): not supported', str(found))

    def test_text(self):
        """The words of the verdict are not said twice."""
        found = str(dlcc.check(model("(float[2] x) => (float[2] y) { [two] y = Frobnicate(x) }")))
        self.assertEqual(found.count("not supported"), 1, found)

    def test_unreadable(self):
        with self.assertRaises(dlcc.CompileError):
            dlcc.check(b"junk")


class Package(InFolder):
    def test_version(self):
        printed = subprocess.run(["dlcc", "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(dlcc.__version__ + ",", printed.replace("\n", ","))
        self.assertRegex(dlcc.__version__, r"^[0-9.]+$")

    def test_saved_mode(self):
        """save writes a file of the mode that dlcc gives a library."""
        path = os.path.join(self.folder, "saved.so")
        compiled(NEG).save(path)
        self.assertTrue(os.access(path, os.X_OK))

    def test_no_program(self):
        done = subprocess.run([sys.executable, "-m", "dlcc.ort", "none.py"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual((done.returncode, done.stderr), (1, "dlcc.ort: none.py: there is no such program\n"))


class Terminal(InFolder):
    def test_command(self):
        path, out = self.path("neg.onnx"), os.path.join(self.folder, "neg.so")
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
        run = lambda *a: subprocess.run([sys.executable, "-m", "dlcc", *a], capture_output=True, text=True, env=environment)  # noqa: E731
        direct = subprocess.run([programs.path_of("dlcc"), "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(run("--version").stdout, direct.stdout)
        self.assertEqual(run(path, "-o", out).returncode, 0)
        self.assertTrue(os.path.exists(out))
        self.assertEqual(run("--frob").returncode, 2)

    def test_progress(self):
        """On a terminal a line shows the passes, and goes at the end; elsewhere nothing is printed."""
        program = "import dlcc, sys; dlcc.compile(sys.argv[1], level=0)"
        self.assertEqual(python(program, self.path("neg.onnx")).stderr, "")
        ours, theirs = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
        with subprocess.Popen([sys.executable, "-c", program, self.path("neg.onnx")], stderr=theirs, env=environment) as process:
            os.close(theirs)
            printed = b""
            try:
                while piece := os.read(ours, 4096):
                    printed += piece
            except OSError:  # the other side is closed
                pass
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(printed, rb"neg\.onnx: fuse")
        self.assertTrue(printed.endswith(b"\r\033[K"), printed[-40:])

# SPDX-License-Identifier: Apache-2.0
"""dlcc.backend, and dlcc.verify beside ONNX Runtime."""

import os
import unittest
import unittest.mock

import dlcc
import dlcc.backend
import ml_dtypes
import numpy as np
import onnx
from models import DIGITS, model
from onnx.backend.test import BackendTest, runner

X = np.float32([[1, -2, 3]])


class Backend(unittest.TestCase):
    def test_prepare(self):
        rep = dlcc.backend.prepare(model("(float[n,3] x) => (float[n,3] y, float[n,3] z) { y = Neg(x) z = Abs(x) }"), level=0)
        out = rep.run([X])
        np.testing.assert_array_equal(out[0], -X)
        np.testing.assert_array_equal(out["z"], abs(X))
        np.testing.assert_array_equal(rep.run({"x": X})[0], -X)
        np.testing.assert_array_equal(rep.run(X)[0], -X)

    def test_run_model(self):
        out = dlcc.backend.run_model(model("(float[n,3] x) => (float[n,3] y) { y = Neg(x) }"), [X], level=0)
        np.testing.assert_array_equal(out[0], -X)

    def test_run_node(self):
        node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
        np.testing.assert_array_equal(dlcc.backend.run_node(node, [X, X], level=0)[0], 2 * X)
        node = onnx.helper.make_node("Clip", ["x", "", "most"], ["y"])
        out = dlcc.backend.run_node(node, [X, np.float32(2)], outputs_info=[(np.dtype(np.float32), (1, 3))], opset_version=13, level=0)
        np.testing.assert_array_equal(out[0], [[1, -2, 2]])

    def test_run_node_of_any_inputs(self):
        node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
        np.testing.assert_array_equal(dlcc.backend.run_node(node, {"b": X, "a": 2 * X}, level=0)[0], 3 * X)
        node = onnx.helper.make_node("SequenceAt", ["s", "i"], ["x"])
        np.testing.assert_array_equal(dlcc.backend.run_node(node, [[X, 2 * X], np.array(1)], level=0)[0], 2 * X)
        node = onnx.helper.make_node("Relu", ["a"], ["b"])
        out = dlcc.backend.run_node(node, [[1.0, -2.0]], outputs_info=[(np.float64, (2,))], level=0)
        np.testing.assert_array_equal(out[0], [1, 0])
        node = onnx.helper.make_node("Add", ["a", "a"], ["b"])
        for inputs in ({"a": X}, [X], [X, X]):
            np.testing.assert_array_equal(dlcc.backend.run_node(node, inputs, level=0)[0], 2 * X)
        with self.assertRaisesRegex(dlcc.Error, 'input "zz" is unknown; the node has a'):
            dlcc.backend.run_node(node, {"a": X, "zz": X})
        node = onnx.helper.make_node("Relu", ["a"], ["b"])
        with self.assertRaisesRegex(dlcc.Error, "2 inputs are given, and the node has 1: a"):
            dlcc.backend.run_node(node, [X, X])

    def test_devices(self):
        self.assertTrue(dlcc.backend.supports_device("CPU"))
        self.assertFalse(dlcc.backend.supports_device("TPU:1"))
        with self.assertRaisesRegex(dlcc.Error, "TPU: no such device; give CPU"):
            dlcc.backend.prepare(onnx.load(DIGITS), device="TPU")
        self.assertFalse(dlcc.backend.supports_device("CUDA:77"))

    def test_compatible(self):
        self.assertTrue(dlcc.backend.is_compatible(onnx.load(DIGITS)))
        self.assertFalse(dlcc.backend.is_compatible(model("(float[2] x) => (float[2] y) { y = Frobnicate(x) }")))

    def test_conformance(self):
        """ONNX's own runner takes it. It computes all cases of operators first, so a share of the tests gives it only whole models."""
        load = runner.load_model_tests
        loaded = (lambda kind: load(kind=kind) if kind == "simple" else []) if os.environ.get("TESTS") == "share" else load
        with unittest.mock.patch.object(runner, "load_model_tests", loaded):
            tests = BackendTest(dlcc.backend, __name__).include(r"^test_(expand_shape_model1|single_relu_model)_cpu$")
        result = unittest.TestResult()
        tests.test_suite.run(result)
        self.assertEqual((result.failures, result.errors), ([], []))
        self.assertEqual(result.testsRun - len(result.skipped), 2)


def compiled_as(wrong):
    """While it is entered, verify compiles the model WRONG."""
    return unittest.mock.patch.object(dlcc.verifying.compiling, "compile", lambda _, **options: dlcc.compile(wrong, **options))


class Verify(unittest.TestCase):
    def test_agrees(self):
        found = dlcc.verify(DIGITS, n=2, level=1)
        self.assertTrue(found, str(found))
        self.assertEqual([(c.run, c.output) for c in found], [(0, "logits"), (1, "logits")])
        self.assertIn("2 outputs compared, 0 differ", str(found))

    def test_nodes(self):
        found = dlcc.verify(DIGITS, n=1, nodes=True, level=0)
        self.assertTrue(found, str(found))
        self.assertEqual([c.node for c in found], ["conv1", "relu1", "pool1", "conv2", "relu2", "flatten", "classify"])

    def test_differs(self):
        """The first node whose values differ is named. Here a wrong model stands for a wrong compile."""
        right = model("(float[n,3] x) => (float[n,3] y) { [one] a = Neg(x) [two] b = Exp(a) [three] y = Neg(b) }")
        wrong = model("(float[n,3] x) => (float[n,3] y) { [one] a = Neg(x) [two] b = Abs(a) [three] y = Neg(b) }")
        with compiled_as(dlcc.verifying._with_values(wrong)[0]):
            found = dlcc.verify(right, nodes=True, level=0)
        self.assertFalse(found)
        self.assertEqual((found.first.node, found.first.op, found.first.output), ("two", "Exp", "b"))

    def test_types(self):
        found = dlcc.verify(model("(float16[n,3] x, int64[k] i, bool[n,1] c) => (float16[k,3] y, float16[n,3] z)"
                                  "{ y = Gather<axis = 0>(x, i) z = Where(c, x, x) }"), level=0, dims={"n": (2, 9)})
        self.assertTrue(found, str(found))

    def test_inputs_given(self):
        text = "(float[n,3] x) => (float[n,3] y) { y = Neg(x) }"
        found = dlcc.verify(model(text), inputs=[{"x": X}], level=0)
        self.assertEqual(len(found), 1)
        with self.assertRaisesRegex(dlcc.RunError, "complex64"):
            dlcc.verify(model(text), inputs=[{"x": X.astype(np.complex64)}], level=0)

    def test_forms(self):
        """Strings, sequences, optionals and maps, random and given."""
        for text in ('(seq(float[n,3]) s) => (float[m,3] y, int64 k, seq(float[n,3]) t)'
                     '{ y = ConcatFromSequence<axis = 0>(s) k = SequenceLength(s) t = Identity(s) }',
                     '(string[n] x) => (string[n] y, string[n,k] z, int64[n] c) { y = StringConcat(x, x) z, c = StringSplit(x) }',
                     '(optional(float[n]) o) => (bool y) { y = OptionalHasElement(o) }'):
            found = dlcc.verify(model(text), level=0)
            self.assertTrue(found, f"{text}: {found}")
        text = ('<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]> g (float[n,2] x) => (seq(map(string, float)) y)'
                '{ y = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "yes"]>(x) }')
        found = dlcc.verify(onnx.parser.parse_model(text), inputs=[{"x": np.float32([[1, 2], [3, 4]])}], level=0)
        self.assertTrue(found, str(found))
        text = "(string[n] x) => (string[n] y) { y = Identity(x) }"
        for strings in ([b"x", "y"], np.array([b"a"]), np.array(["\u00e9"])):
            self.assertTrue(dlcc.verify(model(text), inputs=[{"x": strings}], level=0))
        for strings, why in (([1, 2], "int, expected str"), (["\udcff"], "no UTF-8")):
            with self.assertRaisesRegex(dlcc.RunError, why):
                dlcc.verify(model(text), inputs=[{"x": strings}], level=0)
        text = "(seq(float[n]) s) => (seq(float[n]) t) { t = Identity(s) }"
        self.assertTrue(dlcc.verify(model(text), inputs=[{"s": [[1.0, 2.0], np.array([3], ">f4")]}], level=0))
        text = ('<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]> g (map(int64, float) m) => (float[1,2] y)'
                '{ y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [2, -5]>(m) }')
        found = dlcc.verify(onnx.parser.parse_model(text), inputs=[{"m": {np.int64(2): 4.0, -5: 1.0}}], level=0)
        self.assertTrue(found, str(found))
        with self.assertRaisesRegex(dlcc.RunError, 'no input "zz"; its inputs are m'):
            dlcc.verify(onnx.parser.parse_model(text), inputs=[{"zz": {}}], level=0)
        text = "(float[n,3] x) => (float[n,3] y) { y = Neg(x) }"
        with self.assertRaisesRegex(dlcc.RunError, 'no input "z"; its inputs are x'):
            dlcc.verify(model(text), inputs=[{"z": X}], level=0)
        with self.assertRaisesRegex(TypeError, "inputs are a list"):
            dlcc.verify(model(text), inputs={"x": X}, level=0)

    def test_sizes(self):
        """Random sizes are within what the model takes, and within dims; a failure of ONNX Runtime says that it is one."""
        pool = model("(float[1,1,h,h] x) => (float[1,1,p,q] y) { y = MaxPool<kernel_shape = [4, 4]>(x) }")
        self.assertEqual(dlcc.compile(pool, level=0).describe().symbols[0].lower, 4)
        for options in {}, {"dims": {"h": (8, 64)}}:
            found = dlcc.verify(pool, level=0, **options)
            self.assertTrue(found, str(found))
        text = "(float[n,3] x, float[k,3] z) => (float[m,3] y) { y = Add(x, z) }"
        with self.assertRaisesRegex(dlcc.Error, 'ONNX Runtime fails on run 0: (.|\n)*dims={"H": '):
            dlcc.verify(model(text), inputs=[{"x": np.zeros((2, 3), np.float32), "z": np.zeros((3, 3), np.float32)}], level=0)

    def test_a_difference_in_a_sequence(self):
        """A wrong model stands for a wrong compile."""
        right, wrong = (model("(float[4] x) => (seq(float[1]) s) { y = %s(x) s = SplitToSequence<axis = 0>(y) }" % op)
                        for op in ("Neg", "Abs"))
        with compiled_as(wrong):
            self.assertFalse(dlcc.verify(right, n=1, level=0))

    def test_packed(self):
        """A TensorProto of int4, as verify writes inputs."""
        from dlcc import dtypes, wire

        x = np.array([[1, -2, 7]]).astype(ml_dtypes.int4)
        raw = wire.tensor("x", 22, x.shape, dtypes.pack(x, 4).tobytes())
        proto = onnx.TensorProto.FromString(raw)
        self.assertEqual((proto.name, list(proto.dims)), ("x", [1, 3]))
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(proto).astype(int), [[1, -2, 7]])

# SPDX-License-Identifier: Apache-2.0
"""Runs: values, element types, shapes, memory, threads."""

import gc
import pickle
import threading
import unittest

import dlcc
import ml_dtypes
import models
import numpy as np
import onnx
from dlcc import dtypes
from models import compiled

ADD = "(float[n,3] x, float[n,3] y) => (float[n,3] s, float[n,3] d) { s = Add(x, y) d = Sub(x, y) }"


class Values(unittest.TestCase):
    def setUp(self):
        self.model = compiled(ADD)
        self.addCleanup(self.model.close)
        rng = np.random.default_rng(1)
        self.x, self.y = (rng.standard_normal((4, 3)).astype(np.float32) for _ in range(2))

    def test_by_position(self):
        s, d = self.model(self.x, self.y)
        np.testing.assert_array_equal(s, self.x + self.y)
        np.testing.assert_array_equal(d, self.x - self.y)

    def test_by_name(self):
        for out in self.model.run({"y": self.y, "x": self.x}), dict(zip("sd", self.model(self.x, y=self.y))):
            np.testing.assert_array_equal(out["d"], self.x - self.y)

    def test_one_output_is_no_tuple(self):
        y = compiled("(float[2] x) => (float[2] y) { y = Neg(x) }")([1, -2])
        np.testing.assert_array_equal(y, np.float32([-1, 2]))
        self.assertEqual(y.dtype, np.float32)

    def test_sizes(self):
        """One artifact runs all sizes of a symbolic dim."""
        for n in 0, 1, 2, 3, 17:
            x = np.ones((n, 3), np.float32)
            s, d = self.model(x, x)
            self.assertEqual((s.shape, d.shape), ((n, 3), (n, 3)))
            np.testing.assert_array_equal(s, 2 * x)

    def test_outputs_stay(self):
        """An array that a run returned is not written by the next one, nor freed with the model."""
        s, _ = self.model(self.x, self.y)
        before = s.copy()
        self.model(2 * self.x, self.y)
        self.model.close()
        np.testing.assert_array_equal(s, before)

    def test_strides(self):
        wide = np.arange(48, dtype=np.float32).reshape(4, 12)
        for x in (wide[:, 1::4], wide[:, 2::-1], wide[::-1, :3], np.asfortranarray(self.x), np.broadcast_to(np.float32(2), (4, 3)),
                  self.x.astype(">f4")):
            s, _ = self.model(x, self.y)
            np.testing.assert_array_equal(s, (x + self.y).astype(np.float32))

    def test_misaligned(self):
        x = np.frombuffer(b"\0" + self.x.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 3)
        self.assertFalse(x.flags.aligned)
        np.testing.assert_array_equal(self.model(x, self.y)[0], self.x + self.y)

    def test_read_only(self):
        self.x.flags.writeable = False
        np.testing.assert_array_equal(self.model(self.x, self.y)[0], self.x + self.y)

    def test_memory_given(self):
        s = np.empty((4, 3), np.float32)
        out = self.model.run({"x": self.x, "y": self.y}, {"s": s})
        self.assertIs(out["s"], s)
        np.testing.assert_array_equal(s, self.x + self.y)

    def test_memory_refused(self):
        s = np.empty((4, 3), np.float32)
        for wrong, why in ((s.T, "contiguous"), (np.empty((4, 4), np.float32), "shape"), (np.empty((4, 3), np.int32), "i32"),
                           (s[:2], "shape"), ([0.0] * 3, "list"), (self.x, "overlap")):
            with self.subTest(why), self.assertRaisesRegex(dlcc.RunError, why):
                self.model.run({"x": self.x, "y": self.y}, {"s": wrong})
        s.flags.writeable = False
        with self.assertRaisesRegex(dlcc.RunError, "writable"):
            self.model.run({"x": self.x, "y": self.y}, {"s": s})

    def test_data_dependent(self):
        """The size of this output is known after the run alone."""
        text = "(float[n] x) => (int64[1,m] y) { y = NonZero(x) }"
        if not dlcc.check(models.model(text)):
            self.skipTest("no operator whose result's size depends on values is supported")
        model = compiled(text)
        first, second = model([0, 3, 0, 4]), model([1, 1, 1, 1])
        np.testing.assert_array_equal(first, [[1, 3]])
        np.testing.assert_array_equal(second, [[0, 1, 2, 3]])
        self.assertEqual(model([0, 0]).shape, (1, 0))


class Repeated(unittest.TestCase):
    """Calls with the types and shapes of an earlier one take a short way, which computes and refuses the same."""

    def test_same_values(self):
        model = compiled(ADD)
        for k in range(3):
            for n in 4, 0, 1:
                x, y = np.full((n, 3), k, np.float32), np.ones((n, 3), np.float32)
                x.flags.writeable = k != 1  # such an array's address is found in another way
                for s in model(x, y)[0], model.run({"x": x, "y": y})["s"]:
                    np.testing.assert_array_equal(s, x + y)
        x = np.ones((4, 3), np.float32)
        self.assertIsNotNone(model._run_plain([x, x]))
        self.assertIsNone(model._run_plain([x[:, ::-1], x]))
        model.close()
        with self.assertRaisesRegex(dlcc.Error, "closed"):
            model(x, x)

    def test_refused(self):
        model, x = compiled(ADD), np.ones((4, 3), np.float32)
        for _ in range(2):
            model(x, x)
            for wrong in ((x, x[:3]), (x.astype(np.float64), x), (x,), (x, x, x)):
                with self.assertRaises(dlcc.RunError):
                    model(*wrong)

    def test_sizes_of_values(self):
        """A size that the elements of an input say is another one in each call."""
        model = compiled("(float[n] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }")
        x = np.arange(6, dtype=np.float32)
        for shape in (2, 3), (3, 2), (6, 1), (2, 3):
            np.testing.assert_array_equal(model(x, np.array(shape)), x.reshape(shape))

    def test_computed_sizes(self):
        """Also where a run computes sizes, or gives values that are not tensors."""
        model = compiled("(float[n] x) => (int64[1,m] y, float[n] z, seq(float[n]) s) { y = NonZero(x) z = Neg(x) s = SequenceConstruct(x) }")
        for x in [0, 3, 0, 4], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 5, 0]:
            x = np.array(x, np.float32)
            y, z, s = model(x)
            np.testing.assert_array_equal(y, [np.flatnonzero(x)])
            np.testing.assert_array_equal(z, -x)
            np.testing.assert_array_equal(s, [x])
            self.assertIsNotNone(model._run_plain([x]))
        first = model(np.ones(4, np.float32))[0]
        model(np.zeros(4, np.float32))
        self.assertEqual(first.tolist(), [[0, 1, 2, 3]])  # a copy

    def test_many_signatures(self):
        model = compiled(ADD)
        for n in [*range(100), 3]:
            x = np.full((n, 3), n, np.float32)
            np.testing.assert_array_equal(model(x, x)[0], 2 * x)
        self.assertLessEqual(len(model._calls), 64)


class Types(unittest.TestCase):
    def test_identity(self):
        """Each element type that dlcc computes with goes in and comes out."""
        for kind in dtypes.TYPES:
            name = {"f32": "float", "f64": "double", "f8e4m3fn": "float8e4m3fn", "bool": "bool"}.get(kind.name, kind.numpy)
            if kind.name.startswith("f6") or kind.name == "f8e8m0":
                continue  # ONNX has no such types, or no operator for them here
            values = [0, 1, 1, 0] if kind.name == "bool" else [1, 0, 1] if kind.name in ("u2", "i2") else [3, 2, 1, 0, 1]
            x = np.array(values).astype(kind.dtype())
            to = {"float4_e2m1fn": "float4e2m1"}.get(name, name.replace("_", ""))
            with self.subTest(kind.name):
                model = compiled(f"({to}[n] x) => ({to}[n] y, {to}[k] z) <int64[1] e = {{1}}> "
                                 "{ y = Identity(x) z = Concat<axis = 0>(x, x) }")
                y, z = model(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))
                np.testing.assert_array_equal(z.astype(np.float32), np.concatenate([x, x]).astype(np.float32))

    def test_pack(self):
        """Elements below a byte keep their values and signs, also where the last byte is not full."""
        for dtype, values in ((ml_dtypes.int4, [-8, 7, -1, 0, 3]), (ml_dtypes.uint4, [15, 0, 9]), (ml_dtypes.int2, [-2, 1, -1, 0, 1]),
                              (ml_dtypes.uint2, [3, 1, 0]), (ml_dtypes.float4_e2m1fn, [-6, 0.5, 3]),
                              (ml_dtypes.float6_e3m2fn, [-28, 0.25, 3, 1, 2])):
            x = np.array(values).astype(dtype)
            kind = dtypes.of(x.dtype, "x")
            packed = dtypes.pack(x, kind.bits)
            self.assertEqual(packed.nbytes, dtypes.packed_bytes(len(values), kind.bits))
            np.testing.assert_array_equal(dtypes.unpack(packed, kind, x.shape).astype(np.float32), np.float32(values))
        self.assertEqual(dtypes.pack(np.array([1, 2, 3]).astype(ml_dtypes.int4), 4).tolist(), [0x21, 3])

    def test_without_ml_dtypes(self):
        kind = dtypes.BY_CODE[16]
        saved, dtypes.ml_dtypes = dtypes.ml_dtypes, None
        try:
            self.assertIsNone(kind.dtype())
            with self.assertRaisesRegex(dlcc.RunError, 'output "y".*bf16.*pip install ml_dtypes'):
                compiled("(float[2] x) => (bfloat16[2] y) { y = Cast<to = 16>(x) }")([1, 2])
        finally:
            dtypes.ml_dtypes = saved

    def test_strings(self):
        model = compiled("(string[n] x) => (string[n] y, bool[n] z) { k = Constant<value = string {\"b\"}>() "
                         "y = StringConcat(x, k) z = Equal(x, k) }")
        for x in (["a", "b", ""], np.array(["a", "b", ""]), np.array([b"a", b"b", b""]), np.array(["a", "-", "b", "-", "", "-"])[::2]):
            y, z = model(x)
            self.assertEqual((y.dtype, y.tolist(), z.tolist()), (np.dtype(object), ["ab", "bb", "b"], [False, True, False]))
        self.assertEqual(model(["\xe4\udcff\0"])[0].tolist(), ["\xe4\udcff\0b"])
        self.assertEqual(model([])[0].shape, (0,))
        for x, why in (([1], "an element is int, expected str"), (np.zeros(1, np.float32), "elements are f32, expected str"), ([["a"], []], "list")):
            with self.subTest(why), self.assertRaisesRegex(dlcc.RunError, f'input "x".*{why}'):
                model(x)
        with self.assertRaisesRegex(dlcc.RunError, 'output "y".*object'):
            model.run({"x": ["a"]}, {"y": np.empty(1, object)})

    def test_maps(self):
        """A list of dicts, and a dict that is an input."""
        head = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]> m '
        zipped = dlcc.compile(onnx.parser.parse_model(
            head + '(float[n,2] x) => (seq(map(string, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b"]>(x) }'))
        self.assertEqual(zipped(np.array([[1, 2], [3, 4]], np.float32)), [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        self.assertEqual(zipped(np.zeros((0, 2), np.float32)), [])
        for n in 1, 70, 70:
            x = np.random.default_rng(n).random((n, 2), np.float32)
            self.assertEqual(zipped(x), [dict(zip("ab", row)) for row in x.tolist()])
        row = dlcc.compile(onnx.parser.parse_model(
            head + '(map(string, float) x) => (float[1,3] y) { y = ai.onnx.ml.DictVectorizer<string_vocabulary = ["a", "b", "c"]>(x) }'))
        for x, y in (({"b": 5, "d": 1, "a": 2}, [2, 5, 0]), ({}, [0, 0, 0])):
            self.assertEqual(row(x).tolist(), [y])
        with self.assertRaisesRegex(dlcc.RunError, 'input "x": list is not a dict'):
            row([1])

    def test_refused(self):
        model = compiled("(float[2] x) => (float[2] y) { y = Neg(x) }")
        for x, why in ((np.zeros(2), 'input "x": elements are f64, expected f32'), (np.zeros(2, np.complex64), "complex64"),
                       (np.array(["a", "b"]), "<U1"), (["1", "2"], "elements are NumPy's <U1, expected f32"),
                       ([[1], [2, 3]], "inhomogeneous"), ([1e39, 0], "1e\\+39 is out of the range of f32"),
                       (np.ma.array(np.zeros(2, np.float32), mask=[True, False]), "mask")):
            with self.subTest(why), self.assertRaisesRegex(dlcc.RunError, why):
                model(x)

    def test_numbers(self):
        """Lists take the input's type only where it holds their numbers."""
        for kind, good, bad in (("int64", [1, -2**63], [[1.9], ["1"], [2**63], [[1], 2], [None]]), ("uint64", [0, 2**64 - 1], [[-1], [2**64]]),
                                ("int8", [-128, 127], [[128], ["1"]]), ("int4", [-8, 7], [[8], [-9], [0.5]]), ("uint4", [15], [[16], [-1]]),
                                ("bool", [True, 0], [[2], [0.0]]), ("float16", [1.5, float("inf")], [[1e6], ["1"]])):
            model = compiled(f"({kind}[n] x) => ({kind}[n] y) {{ y = Identity(x) }}")
            self.assertEqual(model(good).astype(object).tolist(), good)
            for x in bad:
                with self.subTest(f"{kind} {x}"), self.assertRaisesRegex(dlcc.RunError, 'input "x"'):
                    model(x)

    def test_errors(self):
        """What is wrong with an argument is a dlcc.Error, whoever finds it."""
        class Broken:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, **_):
                return 1 // 0

        class NoCapsule(Broken):
            def __dlpack__(self, **_):
                return 5

        class NoDevice:
            def __dlpack__(self, **_):
                return None

        model = compiled("(float[2] x) => (float[2] y) { y = Neg(x) }")
        for x, why in ((Broken(), "ZeroDivisionError"), (NoCapsule(), "gave int"), (NoDevice(), "__dlpack_device__")):
            with self.subTest(why), self.assertRaisesRegex(dlcc.RunError, f'input "x".*{why}'):
                model(x)
        with self.assertRaisesRegex(dlcc.Error, "pickled"):
            pickle.dumps(model)
        model.close()
        with self.assertRaisesRegex(dlcc.Error, "closed"):
            model.save("y.so")
        with self.assertRaisesRegex(dlcc.RunError, 'input "x": a string has no UTF-8'):
            compiled("(string[n] x) => (string[n] y) { y = Identity(x) }")(["\ud800"])


class Sequences(unittest.TestCase):
    """Positions that only the run knows."""

    LISTS = [np.float32([1, 2]), np.float32([3]), np.float32([4, 5, 6])]

    def positions(self, op, out, first, end, expected):
        model = compiled(f"(seq(float[?]) s, int64 p, float[k] x) => ({out} y) {{ y = {op} }}")
        x = np.float32([9])
        for p in range(first, end):
            self.assertEqual([np.asarray(v).tolist() for v in model(self.LISTS, np.int64(p), x)],
                             [np.asarray(v).tolist() for v in expected(p, x)], p)
        for p in (-2**63, *range(first - 4, first), *range(end, end + 4), 2**63 - 1):
            with self.subTest(p), self.assertRaisesRegex(dlcc.RunError, "index out of range"):
                model(self.LISTS, np.int64(p), x)
        return model

    def test_at(self):
        model = self.positions("SequenceAt(s, p)", "float[?]", -3, 3, lambda p, x: self.LISTS[p])
        with self.assertRaisesRegex(dlcc.RunError, "the sequence is empty"):
            model([], np.int64(0), np.float32([9]))

    def test_insert(self):
        self.positions("SequenceInsert(s, x, p)", "seq(float[?])", -3, 4,
                       lambda p, x: (lists := list(self.LISTS)).insert(p, x) or lists)

    def test_erase(self):
        model = self.positions("SequenceErase(s, p)", "seq(float[?])", -3, 3,
                               lambda p, x: [v for i, v in enumerate(self.LISTS) if i != p % 3])
        with self.assertRaisesRegex(dlcc.RunError, "the sequence is empty"):
            model([], np.int64(0), np.float32([9]))

    def test_concat(self):
        model = compiled("(seq(float[?]) s) => (float[?] y) { y = ConcatFromSequence<axis = 0>(s) }")
        self.assertEqual(model(self.LISTS).tolist(), [1, 2, 3, 4, 5, 6])
        with self.assertRaisesRegex(dlcc.RunError, "the sequence is empty"):
            model([])


class Indices(unittest.TestCase):
    """Of tables with one row, in which every index that is in range reads the same element."""

    def test_one_row(self):
        for text in ("(int64[n] i, float[1] t) => (float[n] y) { y = Gather(t, i) }",
                     "(int64[n] i, float[1] t) => (float[n] y) <float[1] c = {2}> { g = Gather(c, i)  y = Mul(g, t) }",
                     "(int64[n] i, float[1] t) => (float[n] y) { y = GatherElements(t, i) }",
                     "(int64[n] i, float[1] t) => (float[n] y) <int64[1] last = {-1}> { u = Unsqueeze(i, last)  y = GatherND(t, u) }",
                     "(int64[n] i, float[1] t) => (float y) { g = Gather(t, i)  y = ReduceMax<keepdims = 0>(g) }"):
            for level in 0, 3:
                model = compiled(text, level=level)
                self.assertGreater(model(np.int64([0, -1, 0]), np.float32([3])).max(), 2, text)
                for at in 1, -2, 2**40:
                    with self.subTest(f"{text} {level} {at}"), self.assertRaisesRegex(dlcc.RunError, f"index out of range: {at}, in a dim of 1"):
                        model(np.int64([0, at, 0]), np.float32([3]))

    def test_unknown_categories(self):
        """OneHotEncoder fails where zeros is 0."""
        for type, cats, known, other in (("int64", "cats_int64s = [1, 5]", np.int64([5, 1]), np.int64([5, 3])),
                                         ("float", "cats_int64s = [7]", np.float32([7]), np.float32([7, 7, 8])),
                                         ("string", 'cats_strings = ["a", "b", "c"]', ["c", "a"], ["c", "d"])):
            for level in 0, 2:
                model = compiled(f"({type}[n] x) => (float[n,k] y) {{ [Kinds] y = ai.onnx.ml.OneHotEncoder<{cats}, zeros = 0>(x) }}", level=level)
                self.assertEqual(model(known).sum(1).tolist(), [1] * len(known))
                with self.subTest(cats), self.assertRaisesRegex(dlcc.RunError, r'node "Kinds" \(ai.onnx.ml.OneHotEncoder\): index out of range'):
                    model(other)


class Sparse(unittest.TestCase):
    """Inputs that are sparse tensors in the file, and are passed dense."""

    def test_product(self):
        a, b = np.float32([[0, 2, 0], [0, 0, 3]]), np.float32([[1, 4], [2, 5], [3, 6]])
        for attributes, x, y in ("alpha = 2.0", a, b), ("transA = 1, alpha = 2.0", a.T.copy(), b), ("transB = 1, alpha = 2.0", a, b.T.copy()):
            with self.assertWarnsRegex(dlcc.CompileWarning, "sparse tensor"):
                model = compiled(f"(sparse_tensor(float[m,k]) a, float[i,j] b) => (float[p,q] y) {{ y = com.microsoft.SparseToDenseMatMul<{attributes}>(a, b) }}")
            self.assertEqual(model(x, y).tolist(), (2 * (a @ b)).tolist(), attributes)
        model = compiled("(int64[m,k] a, int64[k,n] b) => (int64[m,n] y) { y = com.microsoft.SparseToDenseMatMul<alpha = 2.0>(a, b) }")
        self.assertEqual(model(a.astype(np.int64), b.astype(np.int64)).tolist(), (a @ b).tolist())


class Lengths(unittest.TestCase):
    """Lengths that only the run knows."""

    def test_sequence_lens(self):
        for op, gates in ("RNN", 1), ("GRU", 3), ("LSTM", 4):
            model = compiled(f"(float[3,2,1] x, float[1,{gates},1] w, float[1,{gates},1] r, int32[2] lens) => (float[3,1,2,1] y) "
                             f'{{ y = {op}<hidden_size = 1>(x, w, r, "", lens) }}')
            feeds = [np.ones(shape, np.float32) for shape in ((3, 2, 1), (1, gates, 1), (1, gates, 1))]
            self.assertEqual(model(*feeds, np.int32([0, 3])).reshape(3, 2)[:, 0].tolist(), [0, 0, 0])
            for lens in ([-1, 3], [3, 4], [-4, 0]):
                with self.subTest(f"{op} {lens}"), self.assertRaisesRegex(dlcc.RunError, rf"\({op}\): index out of range"):
                    model(*feeds, np.int32(lens))


class Patterns(unittest.TestCase):
    """RegexFullMatch, as RE2 reads patterns."""

    @staticmethod
    def compiled(pattern):
        graph = onnx.helper.make_graph([onnx.helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], "g",
                                       [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["n"])],
                                       [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, ["n"])])
        return dlcc.compile(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 20)]), level=0)

    def test_matches(self):
        many = "".join(chr(0x4e00 + 2 * i) for i in range(10000))
        for pattern, good, bad in (("(?i)\u017f", ["s", "S", "\u017f"], ["z"]), ("(?i)[s]", ["s", "S", "\u017f"], ["z"]),
                                   ("(?i)\u03c2", ["\u03c2", "\u03c3", "\u03a3"], ["s"]), ("(?i)i", ["i", "I"], ["\u0130", "\u0131"]),
                                   ("[[:a]", ["[", ":", "a"], ["b"]), ("[zyxa-cb-d]", list("abcdxyz"), ["e", "w"]),
                                   (f"([{many}]{{2}}){{100}}", [many[:200]], [many[:199]]), (f"(?P<{'n' * 200000}>a){{1000}}", ["a" * 1000], ["a"]),
                                   ("((a{10}){10}){10}", ["a" * 1000], ["a" * 999]), ("(a{1000})(b{1000})", ["a" * 1000 + "b" * 1000], [""])):
            with self.subTest(pattern):
                self.assertEqual(self.compiled(pattern)(good + bad).tolist(), [True] * len(good) + [False] * len(bad))

    def test_refused(self):
        many = "".join(chr(0x4e00 + 2 * i) for i in range(10000))
        for pattern, why in (("{2}", "repeats nothing"), ("a|{2}", "repeats nothing"), ("((a{10}){10}){11}", "repeats more than 1000 times"),
                             (f"([{many}]){many * 2}", "is too large"), ("(abcdefghijk){1000}", "is too large"),
                             (f"{'(' * 1001}a{')' * 1001}", "is nested too deeply")):
            with self.subTest(pattern[:20]), self.assertRaisesRegex(dlcc.CompileError, why):
                self.compiled(pattern)


class Loops(unittest.TestCase):
    BODY = ("<body = b(int64 i, bool cin, float a) => (bool cout, float a2, float s) <float one = {1}, int64 last = {3}> "
            "{ cout = Less(i, last) a2 = Add(a, one) s = Identity(a2) }>")

    def test_endless_count(self):
        """A trip count of INT64_MAX stands for none: the condition ends the loop."""
        for inputs, trip, given in (("", "<int64 t = {9223372036854775807}>", ()), ("int64 t, ", "", (np.int64(2**63 - 1),))):
            model = compiled(f'({inputs}float x) => (float y, float[k] s) {trip} {{ y, s = Loop(t, "", x) {self.BODY} }}')
            y, s = model(*given, np.float32(1))
            self.assertEqual((y.tolist(), s.tolist()), (5, [2, 3, 4, 5]))

    def test_condition_stays(self):
        """A loop without a trip count whose body passes its condition on: it runs never, or never ends."""
        model = compiled('(bool c, float x) => (float y, float[k] s) { y, s = Loop("", c, x) '
                         "<body = b(int64 i, bool cin, float a) => (bool cout, float a2, float s) "
                         "{ cout = Identity(cin) a2 = Add(a, a) s = Identity(a2) }> }")
        y, s = model(np.bool_(False), np.float32(1))
        self.assertEqual((y.tolist(), s.tolist()), (1, []))
        with self.assertRaisesRegex(dlcc.RunError, "the loop never ends"):
            model(np.bool_(True), np.float32(1))


class Shared(unittest.TestCase):
    def test_threads(self):
        """Several threads call one model; each gets the results of its own inputs."""
        model = compiled("(float[n,8] x) => (float[n,8] y) { e = Exp(x) y = Softmax<axis = 1>(e) }", threads=1)
        wrong = []

        def call(seed):
            x = np.random.default_rng(seed).standard_normal((seed + 1, 8)).astype(np.float32)
            want = model(x)
            for _ in range(50):
                if not np.array_equal(model(x), want):
                    wrong.append(seed)
        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_close(self):
        model = compiled("(float[2] x) => (float[2] y) { y = Neg(x) }")
        with model:
            model([1, 2])
        model.close()
        with self.assertRaisesRegex(dlcc.Error, "closed"):
            model([1, 2])

    def test_collected(self):
        """A model that nobody has any more is unloaded, and its temporary folder goes."""
        model = compiled("(float[2] x) => (float[2] y) { y = Neg(x) }")
        library, folder = model._library, model._library.folder
        model([1, 2])
        del model
        gc.collect()
        self.assertEqual(library.contexts, [])
        with self.assertRaises(FileNotFoundError):
            open(folder)

    def test_profile(self):
        model = compiled("(float[2] x) => (float[2] y) { [wave] y = Sin(x) }", profile=True)
        model([1, 2])
        model([1, 2])
        kernel, = model.profile()
        self.assertEqual((kernel.name, kernel.calls), ("wave", 2))
        with self.assertRaisesRegex(dlcc.Error, "profile=True"):
            compiled("(float[2] x) => (float[2] y) { y = Neg(x) }").profile()

    def test_describe(self):
        model = compiled("(float[n,3] x, int64[2,k] i) => (float[m,3] y) { j = Reshape(i, f) y = Gather<axis = 0>(x, j) }"
                         .replace("=> (float[m,3] y)", "=> (float[m,3] y) <int64[1] f = {-1}>"), dims={"n": (1, 64), "k": 4})
        found = model.describe()
        self.assertEqual([(io.name, io.dtype, io.dims) for io in found.inputs], [("x", "f32", ("n", 3)), ("i", "i64", (2, 4))])
        self.assertEqual(found.outputs[0].dims, (8, 3))
        self.assertEqual([(s.name, s.lower, s.upper, s.data) for s in found.symbols], [("n", 1, 64, False)])
        self.assertEqual(found.inputs[1].numpy, np.int64)
        self.assertIn("input   x: f32[n,3]", str(found))
        self.assertIn("symbol  1 <= n <= 64", str(found))
        self.assertIn("x: f32[n,3]", repr(model))

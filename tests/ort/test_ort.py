# SPDX-License-Identifier: Apache-2.0
"""dlcc.ort beside ONNX Runtime: the same values, names, types and exception classes, for right and wrong calls; programs that say
import onnxruntime; the cache; what is ignored. test_ort.py [NAME ...]: the tests with NAME in their names. Prints "N passed, N failed".

Models of the folder CORPUS are compared, too: with TESTS=all the 30 smallest, else 6 of them."""

import glob
import os
import stat
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, os.path.join(ROOT, "python"))
import cases  # noqa: E402
from dlcc import ort  # noqa: E402

ALL = os.environ.get("TESTS") == "all"
CORPUS_MODELS = 30 if ALL else 6
LARGEST = 8 << 20  # bytes of a model of the corpus that is compared
TOLERANCE = 2e-3
ORDINARY = (ValueError, TypeError, AttributeError, RuntimeError)


def model(text):
    return onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1]> g ' + text).SerializeToString()


def outcome(function):
    """The result of FUNCTION: ("value", it), or ("error", the name of the class of its exception)."""
    try:
        return "value", function()
    except Exception as e:  # noqa: BLE001 - which one is what is compared
        return "error", type(e).__name__


def session(api, source, **options):
    made = api.SessionOptions()
    made.log_severity_level = 4
    made.graph_optimization_level = api.GraphOptimizationLevel.ORT_DISABLE_ALL
    return api.InferenceSession(source, made, providers=["CPUExecutionProvider"], **options)


def is_same(a, b, tolerance=TOLERANCE):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(is_same(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k], tolerance) for k in a)
    if not isinstance(a, np.ndarray):
        return a == b or (isinstance(a, float) and abs(a - b) <= tolerance * (1 + abs(a)))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "OUSb":
        return np.array_equal(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    near = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= tolerance * (1 + np.abs(x).max(initial=0, where=np.isfinite(x))))
    return bool(near.all()) or (a.dtype.kind in "iu" and near.mean() > 0.98)


ROWS = '(float[N,4] x, int64[K] i) => (float[N,4] y, float[?,4] z) { y = Relu(x) z = Gather(x, i) }'
X, I = np.arange(8, dtype=np.float32).reshape(2, 4) - 3, np.zeros(1, np.int64)

# Calls of a session of ROWS.
CALLS = {
    "all": lambda s, api: s.run(None, {"x": X, "i": I}),
    "by name": lambda s, api: s.run(["z"], {"x": X, "i": I}),
    "twice by name": lambda s, api: s.run(["z", "y", "z"], {"x": X, "i": I}),
    "no names": lambda s, api: s.run([], {"x": X, "i": I}),
    "names are a string": lambda s, api: s.run("z", {"x": X, "i": I}),
    "no such output": lambda s, api: s.run(["q"], {"x": X, "i": I}),
    "missing": lambda s, api: s.run(None, {"x": X}),
    "no such input": lambda s, api: s.run(None, {"x": X, "i": I, "q": X}),
    "element type": lambda s, api: s.run(None, {"x": X.astype(np.float64), "i": I}),
    "integers": lambda s, api: s.run(None, {"x": X, "i": I.astype(np.int32)}),
    "rank": lambda s, api: s.run(None, {"x": X[0], "i": I}),
    "a fixed size": lambda s, api: s.run(None, {"x": X[:, :3], "i": I}),
    "a list": lambda s, api: s.run(None, {"x": X.tolist(), "i": I}),
    "None": lambda s, api: s.run(None, {"x": None, "i": I}),
    "a number": lambda s, api: s.run(None, {"x": 1.0, "i": I}),
    "a string": lambda s, api: s.run(None, {"x": "abc", "i": I}),
    "an index out of range": lambda s, api: s.run(None, {"x": X, "i": I + 7}),
    "a list of inputs": lambda s, api: s.run(None, [X, I]),
    "no inputs": lambda s, api: s.run(None, None),
    "strides": lambda s, api: s.run(None, {"x": np.asfortranarray(X), "i": I}),
    "no elements": lambda s, api: s.run(None, {"x": X[:0], "i": I[:0]}),
    "OrtValue": lambda s, api: s.run(None, {"x": api.OrtValue.ortvalue_from_numpy(X), "i": I}),
    "run_with_ort_values": lambda s, api: [v.numpy() for v in s.run_with_ort_values(["y"], {"x": api.OrtValue.ortvalue_from_numpy(X),
                                                                                           "i": api.OrtValue.ortvalue_from_numpy(I)})],
    "inputs": lambda s, api: [(a.name, a.type, a.shape) for a in s.get_inputs()],
    "outputs": lambda s, api: [(a.name, a.type, a.shape) for a in s.get_outputs()],
    "providers": lambda s, api: s.get_providers(),
    "initializers": lambda s, api: s.get_overridable_initializers(),
    "binding of no such input": lambda s, api: s.io_binding().bind_cpu_input("q", X),
    "run options": lambda s, api: s.run(None, {"x": X, "i": I}, api.RunOptions()),
}

# Models that are refused, or not.
MODELS = {
    "bytes that are no model": b"garbage",
    "no bytes": b"",
    "no such file": "/nonexistent.onnx",
    "a folder": "/tmp",
    "a number": 3,
    "None": None,
    "an unknown operator": model("(float[N] x) => (float[N] y) { y = Frobnicate(x) }"),
    "an unknown operator of Microsoft": model("(float[N] x) => (float[N] y) { y = com.microsoft.Frobnicate(x) }"),
    "an element type": model("(string[N] x) => (string[N] y) { y = Relu(x) }"),
    "a value that nothing makes": model("(float[N] x) => (float[N] y) { y = Relu(q) }"),
    "sizes": model("(float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }"),
    "an unknown attribute": model("(float[2,3] x) => (float[2,3] y) { y = Relu <foo = 3> (x) }"),
    "no operands": model("(float[2,3] x) => (float[2,3] y) { y = Relu() }"),
}

# Runs of a model: its text, the inputs.
RUNS = {
    "two sizes of one name": ("(float[N,4] x, float[N,4] w) => (float[N,4] y) { y = Add(x, w) }", {"x": X, "w": np.ones((3, 4), np.float32)}),
    "inner sizes": ("(float[N,K] x, float[L,4] w) => (float[N,4] y) { y = MatMul(x, w) }", {"x": X, "w": np.ones((3, 4), np.float32)}),
    "a reshape": ("(float[N] x, int64[k] s) => (float[?,?] y) { y = Reshape(x, s) }", {"x": np.ones(6, np.float32), "s": np.array([4, 2])}),
    "strings": ("(string[N] x) => (string[N] y) { y = StringConcat(x, x) }", {"x": np.array(["a", "b"])}),
    "a sequence": ("(float[N] x) => (seq(float[N]) y) { y = SequenceConstruct(x, x) }", {"x": X[0]}),
    "a map": ('(float[2,2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5]> (x) }', {"x": X[:, :2].copy()}),
    "a scalar": ("(float x) => (float y) { y = Exp(x) }", {"x": np.array(1, np.float32)}),
    "a scalar of NumPy": ("(float x) => (float y) { y = Exp(x) }", {"x": np.float32(1)}),
    "booleans": ("(bool[N] x) => (bool[N] y) { y = Not(x) }", {"x": np.array([True, False])}),
    "halves": ("(float16[N] x) => (float16[N] y) { y = Neg(x) }", {"x": np.ones(3, np.float16)}),
}


class Same(unittest.TestCase):
    """The results of both APIs."""

    def both(self, what, function):
        want, got = (outcome(lambda api=api: function(api)) for api in (onnxruntime, ort))
        with self.subTest(what):
            self.assertEqual(want[0], got[0], f"{what}: ONNX Runtime: {want}, dlcc.ort: {got}")
            self.assertTrue(is_same(want[1], got[1]), f"{what}: ONNX Runtime: {want}, dlcc.ort: {got}")

    def test_calls(self):
        made = {api: session(api, model(ROWS)) for api in (onnxruntime, ort)}
        for what, call in CALLS.items():
            self.both(what, lambda api, call=call: call(made[api], api))

    def test_models(self):
        for what, source in MODELS.items():
            self.both(what, lambda api, source=source: session(api, source) and None)

    def test_runs(self):
        for what, (text, inputs) in RUNS.items():
            self.both(what, lambda api, text=text, inputs=inputs: session(api, model(text)).run(None, inputs))

    def test_exceptions(self):
        """Every exception class of ONNX Runtime is there, where programs look for it."""
        state = onnxruntime.capi.onnxruntime_pybind11_state
        for name, found in vars(state).items():
            if isinstance(found, type) and issubclass(found, Exception):
                self.assertTrue(issubclass(getattr(ort, name), Exception), name)

    def test_binding(self):
        def bound(api):
            s = session(api, model(ROWS))
            b = s.io_binding()
            memory = np.empty((2, 4), np.float32)
            b.bind_cpu_input("x", X)
            b.bind_input("i", "cpu", 0, np.int64, I.shape, I.ctypes.data)
            b.bind_output("z")
            b.bind_output("y", "cpu", 0, np.float32, memory.shape, memory.ctypes.data)
            s.run_with_iobinding(b)
            found = b.copy_outputs_to_cpu()
            values = b.get_outputs()
            return [*found, memory, values[0].shape(), values[0].data_type(), values[1].element_type()]
        self.both("binding", bound)

    def test_metadata(self):
        proto = onnx.load_from_string(model(ROWS))
        proto.producer_name, proto.domain, proto.doc_string, proto.model_version = "me", "com.example", "a \"text\"\n\u2603", 7
        onnx.helper.set_model_props(proto, {"names": "{0: 'cat'}", "empty": ""})
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version", "custom_metadata_map"):
            self.both(name, lambda api, name=name: getattr(session(api, proto.SerializeToString()).get_modelmeta(), name))

    def test_dims(self):
        def fixed(api):
            options = api.SessionOptions()
            options.log_severity_level = 4
            options.add_free_dimension_override_by_name("N", 2)
            options.add_free_dimension_override_by_name("nowhere", 3)
            s = api.InferenceSession(model(ROWS), options, providers=["CPUExecutionProvider"])
            return s.get_inputs()[0].shape, outcome(lambda: s.run(None, {"x": X[:1], "i": I}))
        self.both("dims", fixed)


class Corpus(unittest.TestCase):
    def wrong(self, inputs, declared):
        """Feeds that are wrong in one way each."""
        name, x = next(((n, x) for n, x in inputs.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fiu"), (None, None))
        if name is None:
            return
        yield "element type", {**inputs, name: x.astype(np.float64 if x.dtype != np.float64 else np.float32)}
        yield "rank", {**inputs, name: x[None]}
        yield "missing", {n: v for n, v in inputs.items() if n != name}
        yield "no such input", {**inputs, "no such": x}
        shape = declared[name].shape
        for axis, size in enumerate(shape):
            if isinstance(size, int) and size > 0:
                yield "a fixed size", {**inputs, name: np.concatenate([x, x], axis)}
                break

    def test_corpus(self):
        if not os.path.isdir(cases.CORPUS):
            self.skipTest("no CORPUS")
        with open(os.path.join(ROOT, "tests", "excluded.txt"), encoding="utf-8") as f:
            excluded = [line.split(":")[0] for line in f if line.startswith("models/")]
        found = sorted((os.path.getsize(p), p) for p in glob.glob(os.path.join(cases.CORPUS, "models", "*", "*", "model.onnx"))
                       if os.path.relpath(os.path.dirname(p), cases.CORPUS) not in excluded)
        compared = 0
        for _, path in [f for f in found if f[0] <= LARGEST]:
            data = os.path.join(os.path.dirname(path), "test_data_set_0")
            if compared == CORPUS_MODELS or not os.path.isdir(data):
                continue
            try:
                real = session(onnxruntime, path)
            except Exception:  # noqa: BLE001 - ONNX Runtime lacks an operator
                continue
            declared = {a.name: a for a in real.get_inputs()}
            inputs = {}
            for i, name in enumerate(declared):
                proto = onnx.TensorProto()
                file = os.path.join(data, f"input_{i}.pb")
                if not os.path.exists(file) or not declared[name].type.startswith("tensor"):
                    break
                with open(file, "rb") as f:
                    proto.ParseFromString(f.read())
                inputs[name] = numpy_helper.to_array(proto)
            if len(inputs) < len(declared):
                continue
            compared += 1
            with self.subTest(path):
                ours = session(ort, path)
                self.assertEqual([(a.name, a.type) for a in real.get_inputs()], [(a.name, a.type) for a in ours.get_inputs()])
                self.assertEqual([(a.name, a.type) for a in real.get_outputs()], [(a.name, a.type) for a in ours.get_outputs()])
                want, got = (outcome(lambda s=s: s.run(None, inputs)) for s in (real, ours))
                self.assertEqual(want[0], got[0], got)
                for a, b, o in zip(want[1], got[1], real.get_outputs()):
                    self.assertTrue(is_same(a, b), f"{path}: {o.name}")
                for what, feed in self.wrong(inputs, declared):
                    want, got = (outcome(lambda s=s, feed=feed: s.run(None, feed)) for s in (real, ours))
                    self.assertEqual(want if want[0] == "error" else want[0], got if got[0] == "error" else got[0], f"{path}: {what}")
        self.assertEqual(compared, CORPUS_MODELS)


PROGRAM = """
import sys
import numpy as np
import onnxruntime as rt
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, Fail
import onnxruntime.capi.onnxruntime_pybind11_state as state

s = InferenceSession(sys.argv[1], SessionOptions(), providers=["CPUExecutionProvider"])
print(rt.__name__, s.run(None, {"x": np.full((1, 4), 3, np.float32), "i": np.array([0])})[0].sum(), sys.argv[2:])
try:
    s.run(None, {"x": np.zeros((1, 4)), "i": np.array([0])})
except InvalidArgument as e:
    print("caught", "input" in str(e))
try:
    import onnxruntime.quantization
except ModuleNotFoundError as e:
    print(e)
"""


class Programs(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = self.holder.name
        self.model = os.path.join(self.folder, "rows.onnx")
        with open(self.model, "wb") as f:
            f.write(model(ROWS))

    def python(self, *arguments, **environment):
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), **environment}
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=self.folder, env=env)

    def without_compiler(self):
        """A PATH with dlcc, and no C compiler."""
        folder = os.path.join(self.folder, "bin")
        os.makedirs(folder, exist_ok=True)
        for program in "dlcc", "dlrun":
            if not os.path.lexists(os.path.join(folder, program)):
                os.symlink(os.path.join(os.environ["BUILD"], "bin", program), os.path.join(folder, program))
        return folder

    def test_program(self):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        want = "dlcc.ort 12.0 ['a', '-b']\ncaught True\nNo module named 'onnxruntime.quantization'\n"
        done = self.python("-m", "dlcc.ort", path, self.model, "a", "-b")
        self.assertEqual((done.returncode, done.stdout), (0, want), done.stderr)
        done = self.python("-m", "dlcc.ort", "-m", "program", self.model, "a", "-b")
        self.assertEqual((done.returncode, done.stdout), (0, want), done.stderr)
        done = self.python("-m", "dlcc.ort")
        self.assertEqual((done.returncode, "usage" in done.stderr), (1, True))

    def test_cache(self):
        """The second process compiles nothing; the folder is this user's; one that others may write to is refused."""
        line = f"import dlcc.ort as o, numpy as n; print(o.InferenceSession({self.model!r}).run(['y'], {{'x': n.ones((1, 4), n.float32), 'i': n.array([0])}})[0].sum())"
        done = self.python("-c", line)
        self.assertEqual((done.returncode, done.stdout), (0, "4.0\n"), done.stderr)
        cache = os.path.join(self.folder, "cache", "dlcc")
        self.assertEqual(stat.S_IMODE(os.stat(cache).st_mode), 0o700)
        done = self.python("-c", line, PATH=self.without_compiler())
        self.assertEqual((done.returncode, done.stdout), (0, "4.0\n"), done.stderr)
        os.chmod(cache, 0o777)
        done = self.python("-c", line)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Fail: [ONNXRuntimeError] : 1 : FAIL : cache=", done.stderr)
        self.assertIn("other users may write into it", done.stderr)

    def test_no_compiler(self):
        done = self.python("-c", f"import dlcc.ort as o; o.InferenceSession({self.model!r})", PATH=self.without_compiler())
        self.assertIn("Fail: [ONNXRuntimeError] : 1 : FAIL", done.stderr)
        self.assertIn("no C compiler on PATH", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_no_cache(self):
        done = self.python("-c", f"import dlcc.ort as o; print(o.InferenceSession({self.model!r}).get_providers())", XDG_CACHE_HOME="/proc/none")
        self.assertEqual((done.returncode, done.stdout), (0, "['CPUExecutionProvider']\n"), done.stderr)
        self.assertIn("IgnoredWarning: dlcc.ort ignores the cache /proc/none/dlcc", done.stderr)

    def test_ignored(self):
        """Once for each setting."""
        done = self.python("-c", "import dlcc.ort as o\nfor k in range(3):\n    s = o.SessionOptions()\n    s.inter_op_num_threads = 4\n"
                                 "    s.intra_op_num_threads = 2\n    s.log_severity_level = 3\n    s.add_session_config_entry('a.b', '1')\n"
                                 "    assert s.get_session_config_entry('a.b') == '1' and s.inter_op_num_threads == 4\n")
        self.assertEqual(done.stderr.count("IgnoredWarning: dlcc.ort ignores SessionOptions.inter_op_num_threads"), 1, done.stderr)
        self.assertEqual(done.stderr.count("IgnoredWarning: dlcc.ort ignores the session's configuration a.b"), 1, done.stderr)
        self.assertEqual(done.stderr.count("IgnoredWarning"), 2, done.stderr)


def main():
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    holder = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = holder.name
    every = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    tests = unittest.TestSuite(t for group in every for t in group if not sys.argv[1:] or any(n in t.id() for n in sys.argv[1:]))
    done = unittest.TextTestRunner(verbosity=0, stream=open(os.devnull, "w", encoding="utf-8")).run(tests)  # noqa: SIM115
    faults = done.failures + done.errors
    for test, text in faults:
        print(f"FAIL: {test}: {text.strip().splitlines()[-1][:600]}")
    failed = {t.id().split(" ")[0] for t, _ in faults}
    print(f"{done.testsRun - len(failed) - len(done.skipped)} passed, {len(faults)} failed, {len(done.skipped)} skipped")
    holder.cleanup()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

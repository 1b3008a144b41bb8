# SPDX-License-Identifier: Apache-2.0
"""The backend in a real Triton Inference Server: check.py SERVER BUILD. Answers are those of the model by itself, whatever requests are
batched; faults are answered with a text and harm nobody else. With TESTS=all 30 models of the folder CORPUS, 10,000 malformed requests and
1,000 reloads, else a tenth. Prints FAIL lines and "N passed, N failed"."""

import json
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import onnx.parser

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path += [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests")]
os.environ["MALLOC_MMAP_THRESHOLD_"] = "1048576"  # large blocks that are freed go back to the system at once, so memory can be compared
os.environ["PATH"] = os.path.join(BUILD, "bin") + os.pathsep + os.environ["PATH"]

import corpus  # noqa: E402
import dlcc  # noqa: E402
import malformed  # noqa: E402
import server  # noqa: E402

ALL = os.environ.get("TESTS") == "all"
HAS_GRPC = server.find_packages(PROGRAM)

HEAD = '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]>\n'
MODELS = {
    "rows": "g (float[N,4] x) => (float[N,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { t = MatMul (x, w) y = Softmax <axis = 1> (t) }",
    "widths": "g (float[N,W] x, int64[N,2] k) => (float[N,W] y, int64[N,2] z) { y = Neg (x) z = Abs (k) }",
    "vector": "g (float[N] x) => (float[N] y) { y = Neg (x) }",
    "mean": "g (float[N,4] x) => (float[N,4] y) { m = ReduceMean <keepdims = 1, noop_with_empty_axes = 0> (x) y = Sub (x, m) }",
    "found": "g (float[N] x) => (int64[1,M] y) { y = NonZero (x) }",
    "text": 'g (string[N] x) => (string[N] y, int64[N] n) <string[3] names = {"a", "bc", ""}> '
            '{ y = StringNormalizer <case_change_action = "UPPER"> (x) n = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "bc"], values_int64s = [1, 2], default_int64 = -1> (x) }',
    "scalar": "g (float x, bool b) => (float y) { z = Neg (x) y = Where (b, x, z) }",
    "kinds": "g (float16[N] a, uint8[N] b, double[N] c, int8[N] d, uint16[N] e) => (float16[N] p, uint8[N] q, double[N] r, int8[N] s, uint16[N] t) "
             "{ p = Neg (a) q = Identity (b) r = Neg (c) s = Neg (d) t = Identity (e) }",
    "constant": "g () => (float[2] y) <float[2] c = {1, 2}> { y = Neg (c) }",
    "optional": "g (float[N,2] x, float[2] b) => (float[N,2] y) <float[2] b = {10, 20}> { y = Add (x, b) }",
}
OPTIONS = {"optional": ["--overridable=b"]}  # of dlcc
SLOW = "g (float[N,256] x0) => (float[N,256] x400) <float[256,256] w = {" + ", ".join(["0.00390625"] * 256 * 256) + "}> { " + "".join(
    f"x{k + 1} = MatMul (x{k}, w) " for k in range(400)) + "}"
SEQUENCE = "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct (x) }"
SERVER = server.Server(PROGRAM, [os.path.join(BUILD, "triton", "backends", "dlcc")], ["--load-model=*"])


def put(name, text, version=1, config=None):
    """Compiles TEXT into the repository as NAME."""
    folder = os.path.join(SERVER.repo, name + ".dlcc", str(version))
    os.makedirs(folder, exist_ok=True)
    model = onnx.parser.parse_model(HEAD + text)
    made = dlcc.compile(model, options=OPTIONS.get(name, ()))
    made.save(os.path.join(folder, "model.so"))
    if config is not None:
        with open(os.path.join(SERVER.repo, name + ".dlcc", "config.pbtxt"), "w") as f:
            f.write(config)
    return made


def infer(name, inputs, outputs=None, version=None):
    return SERVER.infer(name + ".dlcc", inputs, outputs, version)


def config_of(name):
    return SERVER.config(name + ".dlcc")


def stats(name):
    return SERVER.stats(name + ".dlcc")


def load(name, what="load"):
    """Null, or the server's error."""
    return SERVER.load(name + ".dlcc", what)


# ---- Tests ----

MADE = {}
rng = np.random.default_rng(3)


def real(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def same(name, inputs, outputs=None, bound=0.0):
    """The server's answer is that of the model by itself, to the bit where BOUND is 0."""
    found = infer(name, inputs, outputs)
    assert not isinstance(found, str), found
    expected = MADE[name].run(inputs)
    assert set(found) == set(outputs or expected), (set(found), set(expected))
    for key, value in found.items():
        want = np.asarray(expected[key])
        assert value.shape == want.shape, (key, value.shape, want.shape)
        if bound:
            np.testing.assert_allclose(value, want, rtol=bound, atol=bound)
        else:
            np.testing.assert_array_equal(value, want)


def answers_are_the_models():
    for n in 1, 2, 7:
        same("rows", {"x": real(n, 4)})
        same("widths", {"x": real(n, 5), "k": rng.integers(-9, 9, (n, 2))})
        same("mean", {"x": real(n, 4)})
        same("found", {"x": np.array([0, 1, 0, 2], np.float32)[:n]})
    same("kinds", {"a": real(3).astype(np.float16), "b": np.arange(3, dtype=np.uint8), "c": rng.standard_normal(3), "d": np.arange(3, dtype=np.int8),
                   "e": np.arange(3, dtype=np.uint16)})


def single_numbers():
    """The server has no tensors without dims: they have one of size 1."""
    for b in True, False:
        found = infer("scalar", {"x": np.array([1.5], np.float32), "b": np.array([b])})
        assert not isinstance(found, str), found
        np.testing.assert_array_equal(found["y"], [1.5 if b else -1.5])
    assert isinstance(infer("scalar", {"x": np.array([1.5, 2], np.float32), "b": np.array([True])}), str)


def some_outputs():
    same("widths", {"x": real(2, 5), "k": np.array([[1, -2], [3, 4]])}, ["z"])


def strings():
    same("text", {"x": np.array(["a", "bc", "", "Ünïcode" * 50], object)})


def batches_are_found_where_they_are_independent():
    assert config_of("rows")["max_batch_size"] == 64 and "dynamic_batching" in config_of("rows"), config_of("rows")
    assert config_of("widths")["max_batch_size"] == 64
    assert config_of("mean")["max_batch_size"] == 0, "the mean is over the batch"
    assert config_of("found")["max_batch_size"] == 0
    assert config_of("vector")["max_batch_size"] == 0, "the configuration has no such tensors"


def together(name, makers, threads=16, each=12):
    """Requests of many clients at once; each answer is that of the model by itself."""
    faults = []

    def client(seed):
        mine = random.Random(seed)
        try:
            for _ in range(each):
                same(name, mine.choice(makers)(), bound=1e-5)
        except Exception as error:  # told in the main thread
            faults.append(error)
    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(threads)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    assert not faults, faults[0]


def requests_are_batched():
    before = stats("rows")
    together("rows", [lambda: {"x": np.full((1, 4), 0.5, np.float32)}, lambda: {"x": np.full((3, 4), -1, np.float32)}])
    after = stats("rows")
    ran = after["execution_count"] - before["execution_count"]
    assert ran < 16 * 12, f"{ran} runs for {16 * 12} requests"


def requests_of_other_shapes_run_apart():
    together("widths", [lambda w=w: {"x": np.full((2, w), 0.5, np.float32), "k": np.array([[3, -4], [5, 6]])} for w in (1, 5, 9)])


def faults_have_a_text():
    assert "dims" in infer("rows", {"x": real(4)}) or "shape" in infer("rows", {"x": real(4)})
    assert "shape" in infer("rows", {"x": real(2, 5)})
    assert infer("rows", {"x": real(65, 4)}), "more than the largest batch"
    assert isinstance(infer("rows", {}), str)
    assert isinstance(infer("rows", {"x": real(2, 4)}, ["none"]), str)
    assert isinstance(infer("text", {"x": real(3)}), str)
    same("rows", {"x": real(2, 4)})


def broken_requests():
    """Bytes cut off, lengths that lie, and noise: each is answered, and the server lives."""
    body, headers = server.request({"x": np.array(["ab", "cde"], object)})
    mine = random.Random(5)
    for _ in range(300):
        cut = bytearray(body)
        for _ in range(mine.randrange(1, 4)):
            cut[mine.randrange(len(cut))] = mine.randrange(256)
        status, _, _ = SERVER.ask("POST", "/v2/models/text.dlcc/infer", bytes(cut[:mine.randrange(len(cut) + 1)]), headers)
        assert status in (200, 400, 404, 500), status
    same("text", {"x": np.array(["ab"], object)})


def a_further_instance_costs_its_workspace():
    """The server's memory with three instances, less that with one, is twice what the model says a context needs."""
    weights = ["0.01"] * 144
    text = ("g (float[N,1,64,1] x) => (float[N,16,1,1] y) <float[16,1,3,3] v = {" + ", ".join(weights) + "}, float[16,16,3,3] w = {" + ", ".join(weights * 16) + "}> "
            "{ t = Transpose <perm = [0, 1, 3, 2]> (x) s = Mul (x, t) a = Conv <pads = [1, 1, 1, 1]> (s, v) b = Relu (a) c = Conv <pads = [1, 1, 1, 1]> (b, w) d = Sigmoid (c) y = GlobalAveragePool (d) }")
    config = 'backend: "dlcc" instance_group [ {{ count: {} kind: KIND_CPU }} ] parameters {{ key: "threads" value: {{ string_value: "1" }} }}'
    MADE["instances"] = put("instances", text)
    bench = [os.path.join(BUILD, "bin", "dlrun"), os.path.join(SERVER.repo, "instances.dlcc", "1", "model.so"), "--bench", "--seconds=0.01", "--threads=1", "--dim=N=64"]
    want = json.loads(subprocess.run(bench, check=True, capture_output=True, text=True).stdout)["workspace_bytes"] / 1024
    x = np.ones((64, 1, 64, 1), np.float32)
    used = {1: [], 3: []}
    for count in (3, 1) * 3:
        with open(os.path.join(SERVER.repo, "instances.dlcc", "config.pbtxt"), "w") as f:
            f.write(config.format(count))
        assert not load("instances")
        before = stats("instances")["inference_count"]
        together("instances", [lambda: {"x": x}], threads=6, each=3)
        for _ in range(100):  # the server counts a request after it has answered
            if stats("instances")["inference_count"] - before >= 18 * 64:
                break
            time.sleep(0.05)
        else:
            raise AssertionError(("too few inferences", before, stats("instances")["inference_count"]))
        used[count].append(SERVER.kib())
        assert not load("instances", "unload")
        time.sleep(0.2)
    more = (np.mean(used[3][1:]) - np.mean(used[1][1:])) / 2
    print(f"a further instance: {more:.0f} KiB; its workspace: {want:.0f} KiB")
    assert abs(more - want) < 0.05 * want + 256, (more, want, used)


def models_without_inputs_and_with_optional_ones():
    same("constant", {})
    x, b = real(3, 2), np.array([1, 2], np.float32)
    same("optional", {"x": x})
    same("optional", {"x": x, "b": b})
    assert [i["optional"] for i in config_of("optional")["input"]] == [False, True]
    together("optional", [lambda: {"x": x}, lambda: {"x": x, "b": b}])


def nothing_in_a_tensor():
    """An output without elements is in the answer once. A batch of 0 is one too, or the server's error."""
    for name, inputs in ("found", {"x": np.zeros(4, np.float32)}), ("found", {"x": np.zeros(0, np.float32)}), ("text", {"x": np.zeros(0, object)}):
        body, headers = server.request(inputs)
        status, headers, data = SERVER.ask("POST", f"/v2/models/{name}.dlcc/infer", body, headers)
        names = [o["name"] for o in json.loads(data[:int(headers.get("Inference-Header-Content-Length", len(data)))])["outputs"]] if status == 200 else []
        assert len(names) == len(set(names)) == len(MADE[name].run(inputs)), (name, status, names, data)
        same(name, inputs)
    found = infer("rows", {"x": np.zeros((0, 4), np.float32)})
    assert isinstance(found, str) or found["y"].shape == (0, 3), found
    same("widths", {"x": np.zeros((2, 0), np.float32), "k": np.array([[1, 2], [3, 4]])})


def zero_bytes_in_strings():
    same("text", {"x": np.array(["a\0b", "\0", "", "bc\0" * 9], object)})


def faults_of_one_are_not_those_of_others():
    """Requests with an index that is out of range in batches with right ones: each has its own answer."""
    put("gather", "g (int64[N,1] i) => (float[N,1,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}> { y = Gather (t, i) }",
        config='backend: "dlcc" dynamic_batching { max_queue_delay_microseconds: 20000 }')
    assert not load("gather") and config_of("gather")["max_batch_size"] == 64
    table, answers = np.array([[1, 2], [3, 4], [5, 6]], np.float32), {}

    def ask(index):
        answers[index] = infer("gather", {"i": np.array([[index]])})
    clients = [threading.Thread(target=ask, args=(index,)) for index in (0, 99, 1, 98, 2, -99)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    for index, found in answers.items():
        if abs(index) > 9:
            assert isinstance(found, str) and "out of range" in found, found
        else:
            np.testing.assert_array_equal(found["y"], table[[[index]]])


def timed(function):
    begin = time.monotonic()
    function()
    return time.monotonic() - begin


def cancelled_requests_stop():
    """A request whose client goes away ends early, and neither it nor another that is cancelled ends a later run."""
    if not HAS_GRPC:
        return
    made = MADE["slow"] = put("slow", SLOW, config='backend: "dlcc" parameters { key: "threads" value: { string_value: "1" } }')
    assert not load("slow")
    connection = grpc_connection()
    x = np.ones((64, 256), np.float32)
    whole = min(timed(lambda: same("slow", {"x0": x}, bound=1e-5)) for _ in range(3))
    spent = []
    for _ in range(5):
        before = stats("slow")["inference_stats"]["fail"]
        request = connection.stub.ModelInfer.future(connection.request("slow.dlcc", {"x0": x}))
        time.sleep(whole / 4)
        request.cancel()
        time.sleep(2 * whole)
        after = stats("slow")["inference_stats"]["fail"]
        spent.append((after["ns"] - before["ns"]) / 1e9 if after["count"] > before["count"] else whole)
    assert min(spent) < 0.7 * whole, (spent, whole)
    for _ in range(10):
        asked = [connection.stub.ModelInfer.future(connection.request("slow.dlcc", {"x0": x}), timeout=60) for _ in range(4)]
        time.sleep(rng.uniform(0, 2 * whole))
        for request in asked[:3]:
            request.cancel()
        found = np.frombuffer(asked[3].result().raw_output_contents[0], np.float32)
        np.testing.assert_allclose(found.reshape(64, 256), made.run({"x0": x})["x400"], rtol=1e-5)
    connection.close()


def a_batch_of_single_numbers():
    put("reshaped", MODELS["vector"], config='max_batch_size: 32 input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] reshape { } } '
        'output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { } }')
    assert not load("reshaped")
    np.testing.assert_array_equal(infer("reshaped", {"x": np.array([[1], [2]], np.float32)})["y"], [[-1], [-2]])


def two_versions_and_reloading():
    put("again", "g (float[N] x) => (float[N] y) { y = Neg (x) }", 1)
    put("again", "g (float[N] x) => (float[N] y) { y = Abs (x) }", 2, 'version_policy: { all: {} }')
    assert not load("again")
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(infer("again", {"x": x}, version=1)["y"], -x)
    np.testing.assert_array_equal(infer("again", {"x": x}, version=2)["y"], abs(x))
    put("again", "g (float[N] x) => (float[N] y) <float two = {2}> { y = Mul (x, two) }", 2)
    assert not load("again")
    np.testing.assert_array_equal(infer("again", {"x": x}, version=2)["y"], 2 * x)
    assert not load("again", "unload")


def refused(name, text, config, *words):
    put(name, text, config=config)
    error = load(name)
    assert error and all(w in error for w in words), error


def models_that_do_not_fit_are_refused():
    refused("sequence", SEQUENCE, None, "sequence")
    refused("mixed", MODELS["mean"], 'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }',
            "independent")
    refused("asked", MODELS["mean"], "max_batch_size: 8", "independent")
    refused("dynamic", MODELS["mean"], "dynamic_batching { }", "independent")
    for config, word in (('parameters { key: "threads" value: { string_value: "four" } }', "threads"),
                         ('parameters { key: "threads" value: { string_value: "-1" } }', "threads"),
                         ('parameters { key: "compile" value: { string_value: "yes" } }', "compile")):
        refused("wrong", MODELS["rows"], config, word)
    put("cut", MODELS["rows"])
    path = os.path.join(SERVER.repo, "cut.dlcc", "1", "model.so")
    os.truncate(path, os.path.getsize(path) // 2)
    error = load("cut")
    assert error and "cut off" in error, error


def escapes_in_a_configuration():
    put("escaped", MODELS["rows"], config='max_batch_size: 5 parameters { key: "path" value: { string_value: "C:\\\\" } } parameters { key: "threads" value: { string_value: "1" } }')
    assert not load("escaped")
    assert config_of("escaped")["max_batch_size"] == 5


def a_configuration_of_another_model():
    """Its requests have errors that name the input or output."""
    listed = 'max_batch_size: 2 input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }'
    x = real(2, 4)
    for change, inputs, word in ((('"x"', '"z"'), {"z": x}, "x"), (('"y"', '"z"'), {"x": x}, "z"), (("FP32", "FP64"), {"x": x.astype(np.float64)}, "x"),
                                 (("[ 4 ]", "[ -1 ]"), {"x": real(2, 5)}, "x"), (("[ 4 ]", "[ 4, 1 ]"), {"x": real(2, 4, 1)}, "x")):
        put("another", MODELS["rows"], config=listed.replace(*change))
        assert not load("another")
        found = infer("another", inputs)
        assert isinstance(found, str) and word in found.replace(chr(34), " ").split(), found


def hostile_configurations_and_names():
    """Keys that pose as members of the configuration, and folders with names that JSON and a shell would read in another way."""
    keys = "".join(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }} ' for key, value in
                   [("dynamic_batching", "x"), ("max_batch_size", "7"), ("input", "]"), ("output", "}"), ('\\"threads\\"', "7"), ("sequence_batching", "x")])
    put("posing", MODELS["mean"], config=keys)
    assert not load("posing") and config_of("posing")["max_batch_size"] == 0
    MADE["posing"] = MADE["mean"]
    same("posing", {"x": real(2, 4)})
    for name in 'a"b', "a'b;touch x", "$(touch x)", "-o x", "a b\\", "%s%n", "\u202eab":
        put(name, MODELS["rows"])
        error = SERVER.load("".join(c if c.isalnum() else "".join(f"%{b:02x}" for b in c.encode()) for c in name) + ".dlcc")
        assert error is None or "error" in json.loads(error), (name, error)
    assert not os.path.exists("x")


def a_configuration_of_ones_own():
    put("own", MODELS["rows"], config='max_batch_size: 16 input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }\n'
        'instance_group { count: 2 kind: KIND_CPU } parameters { key: "threads" value: { string_value: "1" } } dynamic_batching { }')
    assert not load("own")
    MADE["own"] = MADE["rows"]
    same("own", {"x": real(16, 4)})
    together("own", [lambda: {"x": np.full((2, 4), 0.25, np.float32)}])


def onnx_is_compiled_where_the_configuration_says_so():
    folder = os.path.join(SERVER.repo, "source.dlcc", "1")
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(onnx.parser.parse_model(HEAD + MODELS["rows"]).SerializeToString())
    config = os.path.join(SERVER.repo, "source.dlcc", "config.pbtxt")
    with open(config, "w") as f:
        f.write('backend: "dlcc"')
    error = load("source")
    assert error and "model.so" in error, error
    with open(config, "a") as f:
        f.write(' parameters { key: "compile" value: { string_value: "true" } }')
    assert not load("source")
    MADE["source"] = MADE["rows"]
    same("source", {"x": real(2, 4)})


class Clients:
    """Threads that call ASK(connection, k) over and over, each over its own connection, until stop()."""

    def __init__(self, connects, ask):
        self.ends, self.faults, self.count = False, [], 0
        self.threads = [threading.Thread(target=self.run, args=(connect, ask, k)) for k, connect in enumerate(connects)]
        for t in self.threads:
            t.start()

    def run(self, connect, ask, k):
        connection = connect()
        try:
            while not self.ends:
                ask(connection, k)
                self.count += 1
                time.sleep(0.002)
        except Exception as error:  # told by stop()
            self.faults.append(error)
        connection.close()

    def stop(self):
        self.ends = True
        for t in self.threads:
            t.join()
        assert not self.faults, self.faults[0]


def reloads_lose_no_request():
    """Reloads of two versions, while clients ask for both, answer every request; of a model that is unloaded and loaded, each request is
    answered or refused. After the first tenth the server's memory grows by at most 1 MiB, and it has no more threads, files and mappings."""
    reloads = 1000 if ALL else 100
    put("many", MODELS["vector"], 1)
    put("many", "g (float[N] x) => (float[N] y) { y = Abs (x) }", 2, "version_policy: { all: {} }")
    put("gone", MODELS["vector"])
    libraries = [os.path.join(SERVER.repo, "many.dlcc", v, "model.so") for v in ("1", "2")]
    x = np.array([1, -2, 3], np.float32)
    away = [0]

    def ask(connection, k):
        for version, y in ("1", -x), ("2", abs(x)):
            found = connection.infer("many.dlcc", {"x": x}, version=version)
            assert not isinstance(found, str), found
            np.testing.assert_array_equal(found["y"], y)

    def ask_gone(connection, k):
        found = connection.infer("gone.dlcc", {"x": x})
        if isinstance(found, str):
            assert "not ready" in found or "unknown model" in found or "not found" in found or "no available" in found, found
            away[0] += 1
        else:
            np.testing.assert_array_equal(found["y"], -x)

    def used():
        process = f"/proc/{SERVER.process.pid}"
        with open(f"{process}/maps") as f:
            mappings = len([line for line in f if "model.so" in line or "/proc/" in line or ".dlcc" in line])
        return len(os.listdir(f"{process}/task")), len(os.listdir(f"{process}/fd")), mappings

    assert not load("many") and not load("gone")
    connects = [http_connection, http_connection, CONNECTS[-1], CONNECTS[-1]]
    clients, others = Clients(connects, ask), Clients(CONNECTS, ask_gone)
    sizes = []
    try:
        for k in range(reloads):
            for library in libraries:
                os.utime(library)  # an unchanged model would not be loaded again
            assert not load("many")
            if k % 5 == 0:
                assert not load("gone", "unload") and not load("gone")
            sizes.append(SERVER.kib())
            if k == reloads // 10:
                before = used()
    finally:
        clients.stop()
        others.stop()
    assert stats("many")["inference_count"] < clients.count, "the last version was not loaded again"
    after = used()
    assert all(b <= a + 8 for a, b in zip(before, after)), f"threads, files and mappings: {before}, then {after}"
    part = reloads // 10
    grown = min(sizes[-part:]) - min(sizes[part:2 * part])
    print(f"{reloads} reloads: {clients.count} requests answered, {away[0]} refused while their model was unloaded, memory {sizes[part]} KiB, then {grown} more")
    assert grown <= 1024, f"{grown} KiB more after {reloads} reloads: {sizes[::part]}"
    assert clients.count > reloads // 2 and away[0]
    assert not load("many", "unload") and not load("gone", "unload")


def malformed_requests_are_refused():
    rights = {"rows": {"x": real(2, 4)}, "widths": {"x": real(2, 5), "k": rng.integers(-9, 9, (2, 2))}, "mean": {"x": real(3, 4)},
              "text": {"x": np.array(["a", "bc"], object)}, "found": {"x": real(5)},
              "kinds": {"a": real(3).astype(np.float16), "b": np.arange(3, dtype=np.uint8), "c": rng.standard_normal(3),
                        "d": np.arange(3, dtype=np.int8), "e": np.arange(3, dtype=np.uint16)}}

    def alive():
        for name in "rows", "text":
            same(name, rights[name])
    connection, grpc = http_connection(), grpc_connection() if HAS_GRPC else None
    faults = malformed.run(connection, grpc, {name + ".dlcc": inputs for name, inputs in rights.items()}, 10000 if ALL else 1000, alive)
    assert not faults, f"{len(faults)} faults: " + "; ".join(faults[:8])


def requests_that_no_server_makes():
    """fake.c, a server with wrong buffers and failing functions, under sanitizers."""
    fake = os.path.join(SERVER.repo + ".backends", "fake")
    sources = [os.path.join(ROOT, "serving", "triton", name) for name in ("backend.c", "model.c")]
    flags = ["-std=gnu11", "-O1", "-g", "-D_GNU_SOURCE", "-I" + ROOT, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    subprocess.run([os.environ.get("CC", "gcc"), *flags, os.path.join(ROOT, "tests", "serving", "fake.c"), *sources, "-o", fake, "-ldl", "-lpthread"], check=True)
    for name in "rows", "widths", "text", "scalar", "optional", "constant":
        done = subprocess.run([fake, os.path.join(SERVER.repo, name + ".dlcc"), "20000" if ALL else "2000"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (name, done.stderr[-1500:])


def corpus_models_answer_as_dlrun():
    if os.path.isdir(corpus.cases.CORPUS):
        faults = corpus.check(SERVER, BUILD, 30 if ALL else 6, CONNECTS)
        assert not faults, f"{len(faults)} faults: " + "; ".join(faults)


def http_connection():
    return server.Connection(SERVER.port)


def grpc_connection():
    return server.Grpc(SERVER.grpc_port)


CONNECTS = [http_connection, grpc_connection] if HAS_GRPC else [http_connection]


def main():
    for name, text in MODELS.items():
        MADE[name] = put(name, text)
    tests = [answers_are_the_models, single_numbers, some_outputs, strings, batches_are_found_where_they_are_independent, requests_are_batched,
             requests_of_other_shapes_run_apart, faults_have_a_text, broken_requests, a_batch_of_single_numbers, two_versions_and_reloading,
             models_that_do_not_fit_are_refused, escapes_in_a_configuration, a_configuration_of_ones_own, a_configuration_of_another_model, hostile_configurations_and_names,
             a_further_instance_costs_its_workspace, models_without_inputs_and_with_optional_ones, nothing_in_a_tensor, zero_bytes_in_strings,
             faults_of_one_are_not_those_of_others, cancelled_requests_stop,
             onnx_is_compiled_where_the_configuration_says_so, corpus_models_answer_as_dlrun, malformed_requests_are_refused, requests_that_no_server_makes,
             reloads_lose_no_request]
    chosen = [t for t in tests if not sys.argv[3:] or t.__name__ in sys.argv[3:]]
    failed = 0
    SERVER.start()
    try:
        for test in chosen:
            try:
                test()
                assert SERVER.process.poll() is None, "the server ended"
            except Exception as error:  # any fault is the test's failure
                failed += 1
                print(f"FAIL {test.__name__}: {type(error).__name__}: {error}".replace("\n", " ")[:1500])
        status = SERVER.stop()
        if status:
            failed += 1
            print(f"FAIL end: the server ended with status {status}")
    finally:
        SERVER.process.kill()
        if failed:
            print(SERVER.last_lines())
        SERVER.remove()
    print(f"{len(chosen) + 1 - failed} passed, {failed} failed" + ("" if HAS_GRPC else ", 1 skipped"))  # skipped: gRPC
    return failed > 0


sys.exit(main())

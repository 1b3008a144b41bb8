# SPDX-License-Identifier: Apache-2.0
"""The backend in a real Triton Inference Server: check.py SERVER BUILD. Answers are those of the model by itself, whatever requests are
batched; faults are answered with a text and harm nobody else. Prints FAIL lines and "N passed, N failed"."""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx.parser

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ["PATH"] = os.path.join(BUILD, "bin") + os.pathsep + os.environ["PATH"]

import dlcc  # noqa: E402

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
}
SEQUENCE = "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct (x) }"
TYPES = {"FP32": np.float32, "FP16": np.float16, "FP64": np.float64, "INT64": np.int64, "INT8": np.int8, "UINT8": np.uint8, "UINT16": np.uint16, "BOOL": np.bool_}
NAMES = {np.dtype(t): name for name, t in TYPES.items()}
REPO = tempfile.mkdtemp(prefix="dlcc-repository-")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()


# ---- The server and its protocol: KServe's, with binary tensors ----

def put(name, text, version=1, config=None):
    """Compiles TEXT into the repository as NAME."""
    folder = os.path.join(REPO, name + ".dlcc", str(version))
    os.makedirs(folder, exist_ok=True)
    model = onnx.parser.parse_model(HEAD + text)
    made = dlcc.compile(model)
    made.save(os.path.join(folder, "model.so"))
    if config is not None:
        with open(os.path.join(REPO, name + ".dlcc", "config.pbtxt"), "w") as f:
            f.write(config)
    return made


def start(log):
    backends = os.path.join(BUILD, "triton", "backends")
    command = [SERVER, f"--model-repository={REPO}", f"--backend-directory={backends}", f"--http-port={PORT}", "--http-address=127.0.0.1", "--allow-grpc=false",
               "--allow-metrics=false", "--model-control-mode=explicit", "--load-model=*", "--exit-on-error=false", "--http-thread-count=24"]
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    for _ in range(200):
        try:
            if ask("GET", "/v2/health/live")[0] == 200:
                return process
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server does not start")


def ask(method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), data


def pack(array):
    if array.dtype == object:
        texts = [s.encode() for s in array.reshape(-1)]
        return "BYTES", b"".join(len(t).to_bytes(4, "little") + t for t in texts)
    return NAMES[array.dtype], np.ascontiguousarray(array).tobytes()


def unpack(datatype, shape, data):
    if datatype != "BYTES":
        return np.frombuffer(data, TYPES[datatype]).reshape(shape)
    texts, at = [], 0
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "little")
        texts.append(data[at + 4:at + 4 + n].decode())
        at += 4 + n
    return np.array(texts, object).reshape(shape)


def request(inputs, outputs):
    """The body and headers of a request for OUTPUTS; null: all."""
    parts = [(name, array, *pack(array)) for name, array in inputs.items()]
    head = {"inputs": [{"name": name, "shape": list(array.shape), "datatype": kind, "parameters": {"binary_data_size": len(data)}}
                       for name, array, kind, data in parts], "parameters": {"binary_data_output": True}}
    if outputs is not None:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    text = json.dumps(head).encode()
    return text + b"".join(part[3] for part in parts), {"Inference-Header-Content-Length": str(len(text))}


def infer(name, inputs, outputs=None, version=None):
    """The outputs of a request, {name: array}; a text: the error."""
    path = f"/v2/models/{name}.dlcc" + (f"/versions/{version}" if version else "") + "/infer"
    status, headers, data = ask("POST", path, *request(inputs, outputs))
    if status != 200:
        return json.loads(data)["error"]
    n = int(headers.get("Inference-Header-Content-Length", len(data)))
    found, at = {}, n
    for o in json.loads(data[:n])["outputs"]:
        size = o["parameters"]["binary_data_size"]
        found[o["name"]] = unpack(o["datatype"], o["shape"], data[at:at + size])
        at += size
    return found


def config_of(name):
    return json.loads(ask("GET", f"/v2/models/{name}.dlcc/config")[2])


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


def stats(name):
    return json.loads(ask("GET", f"/v2/models/{name}.dlcc/stats")[2])["model_stats"][0]


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
    body, headers = request({"x": np.array(["ab", "cde"], object)}, None)
    mine = random.Random(5)
    for _ in range(300):
        cut = bytearray(body)
        for _ in range(mine.randrange(1, 4)):
            cut[mine.randrange(len(cut))] = mine.randrange(256)
        status, _, _ = ask("POST", "/v2/models/text.dlcc/infer", bytes(cut[:mine.randrange(len(cut) + 1)]), headers)
        assert status in (200, 400, 404, 500), status
    same("text", {"x": np.array(["ab"], object)})


def a_batch_of_single_numbers():
    put("reshaped", MODELS["vector"], config='max_batch_size: 32 input { name: "x" data_type: TYPE_FP32 dims: [ 1 ] reshape { } } '
        'output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { } }')
    assert ask("POST", "/v2/repository/models/reshaped.dlcc/load")[0] == 200
    np.testing.assert_array_equal(infer("reshaped", {"x": np.array([[1], [2]], np.float32)})["y"], [[-1], [-2]])


def two_versions_and_reloading():
    put("again", "g (float[N] x) => (float[N] y) { y = Neg (x) }", 1)
    put("again", "g (float[N] x) => (float[N] y) { y = Abs (x) }", 2, 'version_policy: { all: {} }')
    assert ask("POST", "/v2/repository/models/again.dlcc/load")[0] == 200
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(infer("again", {"x": x}, version=1)["y"], -x)
    np.testing.assert_array_equal(infer("again", {"x": x}, version=2)["y"], abs(x))
    put("again", "g (float[N] x) => (float[N] y) <float two = {2}> { y = Mul (x, two) }", 2)
    assert ask("POST", "/v2/repository/models/again.dlcc/load")[0] == 200
    np.testing.assert_array_equal(infer("again", {"x": x}, version=2)["y"], 2 * x)
    assert ask("POST", "/v2/repository/models/again.dlcc/unload")[0] == 200


def refused(name, text, config, *words):
    put(name, text, config=config)
    status, _, data = ask("POST", f"/v2/repository/models/{name}.dlcc/load")
    assert status != 200 and all(w in data.decode() for w in words), (status, data)


def models_that_do_not_fit_are_refused():
    refused("sequence", SEQUENCE, None, "sequence")
    refused("mixed", MODELS["mean"], 'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }',
            "independent")
    refused("asked", MODELS["mean"], "max_batch_size: 8", "independent")
    refused("dynamic", MODELS["mean"], "dynamic_batching { }", "independent")
    put("cut", MODELS["rows"])
    path = os.path.join(REPO, "cut.dlcc", "1", "model.so")
    os.truncate(path, os.path.getsize(path) // 2)
    status, _, data = ask("POST", "/v2/repository/models/cut.dlcc/load")
    assert status != 200 and "cut off" in data.decode(), data


def escapes_in_a_configuration():
    put("escaped", MODELS["rows"], config='max_batch_size: 5 parameters { key: "path" value: { string_value: "C:\\\\" } } parameters { key: "threads" value: { string_value: "1" } }')
    assert ask("POST", "/v2/repository/models/escaped.dlcc/load")[0] == 200
    assert config_of("escaped")["max_batch_size"] == 5


def a_configuration_of_ones_own():
    put("own", MODELS["rows"], config='max_batch_size: 16 input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }\n'
        'instance_group { count: 2 kind: KIND_CPU } parameters { key: "threads" value: { string_value: "1" } } dynamic_batching { }')
    assert ask("POST", "/v2/repository/models/own.dlcc/load")[0] == 200
    MADE["own"] = MADE["rows"]
    same("own", {"x": real(16, 4)})
    together("own", [lambda: {"x": np.full((2, 4), 0.25, np.float32)}])


def onnx_is_compiled_where_the_configuration_says_so():
    folder = os.path.join(REPO, "source.dlcc", "1")
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(onnx.parser.parse_model(HEAD + MODELS["rows"]).SerializeToString())
    config = os.path.join(REPO, "source.dlcc", "config.pbtxt")
    with open(config, "w") as f:
        f.write('backend: "dlcc"')
    status, _, data = ask("POST", "/v2/repository/models/source.dlcc/load")
    assert status != 200 and "model.so" in data.decode(), data
    with open(config, "a") as f:
        f.write(' parameters { key: "compile" value: { string_value: "true" } }')
    assert ask("POST", "/v2/repository/models/source.dlcc/load")[0] == 200
    MADE["source"] = MADE["rows"]
    same("source", {"x": real(2, 4)})


def memory_does_not_grow(process, reloads=150):
    """Reloads under load lose no request; after the first third, memory grows by at most 1 MiB."""
    put("many", MODELS["rows"])
    sizes = []
    for k in range(reloads):
        assert ask("POST", "/v2/repository/models/many.dlcc/load")[0] == 200
        if k % 10 == 0:
            MADE["many"] = MADE["rows"]
            same("many", {"x": real(2, 4)})
        with open(f"/proc/{process.pid}/statm") as f:
            sizes.append(int(f.read().split()[1]) * 4)
    grown = sizes[-1] - min(sizes[reloads // 3:reloads // 3 + 10])
    assert grown <= 1024, f"{grown} KiB more after {reloads - reloads // 3} reloads"


def main():
    for name, text in MODELS.items():
        MADE[name] = put(name, text)
    tests = [answers_are_the_models, some_outputs, strings, batches_are_found_where_they_are_independent, requests_are_batched,
             requests_of_other_shapes_run_apart, faults_have_a_text, broken_requests, a_batch_of_single_numbers, two_versions_and_reloading, models_that_do_not_fit_are_refused, escapes_in_a_configuration,
             a_configuration_of_ones_own, onnx_is_compiled_where_the_configuration_says_so]
    failed = 0
    with open(os.path.join(REPO, "..", os.path.basename(REPO) + ".log"), "w+") as log:
        process = start(log)
        try:
            for test in [*tests, lambda: memory_does_not_grow(process)]:
                name = getattr(test, "__name__", "").replace("<lambda>", "memory_does_not_grow")
                try:
                    test()
                    assert process.poll() is None, "the server ended"
                except Exception as error:  # any fault is the test's failure
                    failed += 1
                    print(f"FAIL {name}: {type(error).__name__}: {error}".replace("\n", " ")[:500])
            process.send_signal(signal.SIGTERM)
            if process.wait(60):
                failed += 1
                print(f"FAIL end: the server ended with status {process.returncode}")
        finally:
            process.kill()
            log.seek(0)
            if failed:
                print("".join(log.readlines()[-20:]))
    os.unlink(log.name)
    shutil.rmtree(REPO)
    print(f"{len(tests) + 2 - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())

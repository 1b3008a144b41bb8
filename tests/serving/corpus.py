# SPDX-License-Identifier: Apache-2.0
"""Models of the folder CORPUS in the server, without a configuration file: over HTTP and gRPC an answer is that of dlrun to the bit, and of
requests that run together within a tolerance."""

import glob
import itertools
import os
import subprocess
import tempfile
import threading

import numpy as np
import onnx
from onnx import numpy_helper

import cases

MODELS = 30
LARGEST = 16 << 20  # bytes of a model: compiling larger ones takes minutes


def models():
    """(name, path, inputs, names of outputs), the smallest first, of models whose inputs and outputs are tensors."""
    with open(os.path.join(cases.ROOT, "tests", "excluded.txt"), encoding="utf-8") as f:
        excluded = {line.split(":")[0] for line in f}
    found = sorted((os.path.getsize(p), p) for p in glob.glob(os.path.join(cases.CORPUS, "models", "*", "*", "model.onnx"))
                   if os.path.relpath(os.path.dirname(p), cases.CORPUS) not in excluded)
    for size, path in found:
        data = os.path.join(os.path.dirname(path), "test_data_set_0")
        graph = onnx.load(path, load_external_data=False).graph
        constants = {c.name for c in graph.initializer}
        declared = [i for i in graph.input if i.name not in constants]
        files = [os.path.join(data, f"input_{k}.pb") for k in range(len(declared))]
        if size > LARGEST or not all(os.path.exists(f) for f in files) or not all(v.type.HasField("tensor_type") for v in [*declared, *graph.output]):
            continue
        inputs = {}
        for i, file in zip(declared, files):
            with open(file, "rb") as f:
                inputs[i.name] = numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))
        yield os.path.relpath(os.path.dirname(path), os.path.join(cases.CORPUS, "models")).replace(os.sep, "_"), path, inputs, [o.name for o in graph.output]


def expected(dlrun, library, inputs, outputs):
    """What dlrun computes, {name: array}."""
    with tempfile.TemporaryDirectory() as folder:
        feeds = []
        for k, (name, array) in enumerate(inputs.items()):
            np.save(os.path.join(folder, f"input{k}.npy"), array)
            feeds += ["-i", f"{name}={folder}/input{k}.npy"]
        os.mkdir(os.path.join(folder, "out"))
        subprocess.run([dlrun, library, *feeds, "-o", os.path.join(folder, "out")], check=True, capture_output=True)
        written = {os.path.basename(f)[:-4]: np.load(f) for f in glob.glob(os.path.join(folder, "out", "*.npy"))}
    return {name: written[name.replace("/", "%2F")] for name in outputs}


def check_equal(found, want, same):
    assert not isinstance(found, str), found
    assert set(found) == set(want), (set(found), set(want))
    for name, value in want.items():
        shape = value.shape or (1,)  # the server has no tensors without dims
        assert found[name].shape == shape and found[name].dtype == value.dtype, (name, found[name].shape, shape)
        assert same(found[name], value), f"{name} differs"


def to_the_bit(a, b):
    return a.tobytes() == b.tobytes()


def within(a, b):
    """Sums in another order, relative to the largest element; integers of a quantised model may be a step apart."""
    if a.dtype.kind != "f":
        return np.all(abs(a.astype(np.float64) - b.astype(np.float64)) <= 1)
    finite = b[np.isfinite(b)]
    return np.allclose(a, b, rtol=1e-4, atol=1e-4 * (abs(finite).max() if finite.size else 1), equal_nan=True)


def together(connect, model, inputs, want, clients=6, each=3):
    """Requests of many clients at once."""
    faults = []

    def client():
        connection = connect()
        try:
            for _ in range(each):
                check_equal(connection.infer(model, inputs, list(want)), want, within)
        except Exception as error:  # told by the caller
            faults.append(error)
        connection.close()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults, faults[0]


def check(server, build, count, connects):
    """Compares COUNT of MODELS models over each protocol of CONNECTS, functions that open a connection; returns the faults as texts."""
    faults, compared, batched = [], 0, 0
    for name, path, inputs, outputs in list(itertools.islice(models(), MODELS))[::MODELS // count]:
        folder = os.path.join(server.repo, name + ".dlcc", "1")
        library = os.path.join(folder, "model.so")
        os.makedirs(folder)
        made = subprocess.run([os.path.join(build, "bin", "dlcc"), path, "-o", library], capture_output=True, text=True)
        if made.returncode:
            faults.append(f"{name}: {made.stderr}")
            continue
        compared += 1
        try:
            refused = server.load(name + ".dlcc")
            assert not refused, refused
            want = expected(os.path.join(build, "bin", "dlrun"), library, inputs, outputs)
            inputs = {n: a if a.shape else a.reshape(1) for n, a in inputs.items()}
            for connect in connects:
                connection = connect()
                check_equal(connection.infer(name + ".dlcc", inputs), want, to_the_bit)
                connection.close()
                if server.config(name + ".dlcc")["max_batch_size"]:
                    batched += 1
                    together(connect, name + ".dlcc", inputs, want)
            server.load(name + ".dlcc", "unload")
        except AssertionError as error:
            faults.append(f"{name}: {error}")
    if compared < count:
        faults.append(f"{compared} of {count} models were compared")
    if count == MODELS and not batched:
        faults.append("no model runs in batches")
    return faults

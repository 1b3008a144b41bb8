# SPDX-License-Identifier: Apache-2.0
"""A real Triton Inference Server with the dlcc backend, and clients of it over HTTP and gRPC: KServe's protocol, with binary tensors."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

TYPES = {"FP32": np.float32, "FP16": np.float16, "FP64": np.float64, "INT64": np.int64, "INT32": np.int32, "INT16": np.int16, "INT8": np.int8,
         "UINT64": np.uint64, "UINT32": np.uint32, "UINT16": np.uint16, "UINT8": np.uint8, "BOOL": np.bool_}
NAMES = {np.dtype(t): name for name, t in TYPES.items()}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def request(inputs, outputs=None):
    """The body and headers of an HTTP request for OUTPUTS; null: all."""
    parts = [(name, array, *pack(array)) for name, array in inputs.items()]
    head = {"inputs": [{"name": name, "shape": list(array.shape), "datatype": kind, "parameters": {"binary_data_size": len(data)}}
                       for name, array, kind, data in parts], "parameters": {"binary_data_output": True}}
    if outputs is not None:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    text = json.dumps(head).encode()
    return text + b"".join(part[3] for part in parts), {"Inference-Header-Content-Length": str(len(text))}


def answer(headers, data):
    """The outputs in an HTTP response, {name: array}."""
    n = int(headers.get("Inference-Header-Content-Length", len(data)))
    found, at = {}, n
    for o in json.loads(data[:n])["outputs"]:
        size = o["parameters"]["binary_data_size"]
        found[o["name"]] = unpack(o["datatype"], o["shape"], data[at:at + size])
        at += size
    return found


class Connection:
    """A connection over HTTP that stays open. A Connection is used by one thread at a time."""

    def __init__(self, port):
        self.port, self.http = port, None

    def ask(self, method, path, body=b"", headers=None):
        """(status, headers, body). A connection that the server has closed is opened again, once."""
        for again in range(2):
            try:
                if self.http is None:
                    self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.http.request(method, path, body, headers or {})
                response = self.http.getresponse()
                return response.status, dict(response.getheaders()), response.read()
            except (ConnectionError, http.client.HTTPException):
                self.close()
                if again:
                    raise
        return None

    def infer(self, model, inputs, outputs=None, version=None):
        """The outputs of a request, {name: array}; a text: the error."""
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "") + "/infer"
        status, headers, data = self.ask("POST", path, *request(inputs, outputs))
        return answer(headers, data) if status == 200 else json.loads(data)["error"]

    def close(self):
        if self.http is not None:
            self.http.close()
            self.http = None


class Grpc:
    """A channel over gRPC; the package tritonclient has the messages."""

    def __init__(self, port):
        import grpc
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        self.messages, self.Error = service_pb2, grpc.RpcError
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def request(self, model, inputs, outputs=None, version=None):
        m = self.messages.ModelInferRequest(model_name=model, model_version=str(version or ""))
        for name, array in inputs.items():
            kind, data = pack(array)
            m.inputs.add(name=name, datatype=kind, shape=array.shape)
            m.raw_input_contents.append(data)
        for name in outputs or []:
            m.outputs.add(name=name)
        return m

    def ask(self, message):
        """The outputs of a request, {name: array}; a text: the error."""
        try:
            r = self.stub.ModelInfer(message, timeout=60)
        except self.Error as error:
            return error.details() or str(error.code())
        return {o.name: unpack(o.datatype, list(o.shape), data) for o, data in zip(r.outputs, r.raw_output_contents)}

    def infer(self, model, inputs, outputs=None, version=None):
        return self.ask(self.request(model, inputs, outputs, version))

    def close(self):
        self.channel.close()


class Server:
    """SERVER, the program, with the backends of the folders BACKENDS and a repository of its own; stop() ends it."""

    def __init__(self, server, backends, options=()):
        self.program, self.options = server, list(options)
        self.repo = tempfile.mkdtemp(prefix="dlcc-repository-")
        self.backends = os.path.join(self.repo + ".backends")
        os.mkdir(self.backends)
        for folder in backends:
            os.symlink(folder, os.path.join(self.backends, os.path.basename(folder)))
        self.port, self.grpc_port = free_port(), free_port()
        self.log = open(self.repo + ".log", "w+")
        self.process = None

    def start(self):
        command = [self.program, f"--model-repository={self.repo}", f"--backend-directory={self.backends}", f"--http-port={self.port}",
                   "--http-address=127.0.0.1", f"--grpc-port={self.grpc_port}", "--grpc-address=127.0.0.1", "--allow-metrics=false",
                   "--model-control-mode=explicit", "--exit-on-error=false", "--http-thread-count=24", *self.options]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        probe = Connection(self.port)
        for _ in range(600):
            try:
                if probe.ask("GET", "/v2/health/live")[0] == 200:
                    probe.close()
                    return self
            except OSError:
                pass
            assert self.process.poll() is None, "the server ended: " + self.last_lines()
            time.sleep(0.05)
        raise RuntimeError("the server does not start")

    def ask(self, method, path, body=b"", headers=None):
        connection = Connection(self.port)
        try:
            return connection.ask(method, path, body, headers)
        finally:
            connection.close()

    def infer(self, *arguments, **named):
        connection = Connection(self.port)
        try:
            return connection.infer(*arguments, **named)
        finally:
            connection.close()

    def load(self, model, what="load"):
        """Null, or the error."""
        status, _, data = self.ask("POST", f"/v2/repository/models/{model}/{what}")
        return None if status == 200 else data.decode()

    def config(self, model):
        return json.loads(self.ask("GET", f"/v2/models/{model}/config")[2])

    def stats(self, model):
        return json.loads(self.ask("GET", f"/v2/models/{model}/stats")[2])["model_stats"][0]

    def kib(self):
        """Resident memory of its own: without pages of files, which the kernel counts or drops as it likes."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))

    def last_lines(self, n=20):
        self.log.flush()
        with open(self.log.name, errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def stop(self):
        """The server's exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()

    def remove(self):
        """Removes its files."""
        self.log.close()
        os.unlink(self.log.name)
        shutil.rmtree(self.backends)
        shutil.rmtree(self.repo)


def find_packages(server):
    """The packages beside SERVER, tritonclient for one, can be imported: after those of this Python."""
    site = server.split("/pytriton/")[0]
    if os.path.isdir(os.path.join(site, "tritonclient")):
        sys.path.append(site)
        return True
    return False

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Triton Inference Server with the dlcc backend beside dlrun, and beside ONNX Runtime in the same server's Python backend.

    bench/serving.py [--seconds N] [--requests N] [--clients N] [--build FOLDER] [--out FILE.md]

The server and perf_analyzer are those of build/venv-triton (make build/venv-triton/requirements.txt; perf_analyzer also needs Debian's package
libb64-0d). Models: the classifier of examples/digits, whose runs are short, and bert_base at 17 tokens. What is compared takes turns in short
windows, in an order that is reversed from round to round, for so many seconds; each number is the median of the rounds, with the quartiles.
Rows:

  overhead    compute time of the server's statistics at one client, less dlrun's median: microseconds. This is all of the backend's own work;
              the server's parts are beside it
  sending     from the end of a run until the client has the answer, and from the client to the queue: the server's and the client's work
  queue       from the queue to the backend: the server's scheduler
  efficiency  of N clients: the time that dlrun needs for the batches that formed, by the time that passed; 1 is a server that costs nothing
  ratio       requests a second of dlcc by those of ONNX Runtime, whose model concatenates what the server has batched
"""
import argparse
import csv
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path += [HERE, os.path.join(ROOT, "tests", "serving")]

import configs  # noqa: E402
import server  # noqa: E402

VENV = os.path.join(ROOT, "build", "venv-triton")
TOKENS = 17
DIGITS, BERT = "digits.dlcc", "bert.dlcc"
SHAPES = {DIGITS: [], BERT: [f"input_ids:{TOKENS}", f"attention_mask:{TOKENS}", f"token_type_ids:{TOKENS}"]}

ORT_MODEL = """
import sys
sys.path += [{packages!r}]
import numpy as np
import onnxruntime
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.session = onnxruntime.InferenceSession({path!r}, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]

    def execute(self, requests):
        inputs = [[pb.get_input_tensor_by_name(r, n).as_numpy() for r in requests] for n in self.names]
        found = self.session.run(None, {{n: np.concatenate(parts) for n, parts in zip(self.names, inputs)}})
        ends = np.cumsum([len(part) for part in inputs[0]])[:-1]
        parts = [np.split(y, ends) for y in found]
        return [pb.InferenceResponse([pb.Tensor(n, p[k]) for n, p in zip(self.outputs, parts)]) for k in range(len(requests))]
"""


def backends(folder, build):
    """The folders of both backends. The server's package has the Python backend's stub for each version of Python elsewhere."""
    triton = glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages", "pytriton", "tritonserver"))[0]
    python = os.path.join(folder, "python")
    os.mkdir(python)
    stub = os.path.join(triton, "python_backend_stubs", f"{sys.version_info[0]}.{sys.version_info[1]}", "triton_python_backend_stub")
    for file in [*glob.glob(os.path.join(triton, "backends", "python", "*.*")), stub]:
        os.symlink(file, os.path.join(python, os.path.basename(file)))
    site = os.path.dirname(os.path.dirname(triton))
    libraries = os.path.join(folder, "libraries")
    os.mkdir(libraries)
    os.symlink(glob.glob(os.path.join(site, "nvidia_pytriton.libs", "libcudart*"))[0], os.path.join(libraries, "libcudart.so.12"))
    os.environ["LD_LIBRARY_PATH"] = libraries
    return os.path.join(triton, "bin", "tritonserver"), [python, os.path.join(build, "triton", "backends", "dlcc")]


class Bench:
    def __init__(self, options, folder):
        self.o, self.bin = options, os.path.join(options.build, "bin")
        program, folders = backends(folder, options.build)
        self.server = server.Server(program, folders, ["--load-model=*"])
        self.folder = folder
        bert, missing = configs.materialise("bert_base", options.build)
        if missing:
            sys.exit(missing)
        self.bert = bert
        for name, path in (DIGITS, os.path.join(ROOT, "examples", "digits", "digits.onnx")), (BERT, bert):
            os.makedirs(os.path.join(self.server.repo, name, "1"))
            subprocess.run([os.path.join(self.bin, "dlcc"), path, "-o", self.library(name)], check=True)

    def library(self, name):
        return os.path.join(self.server.repo, name, "1", "model.so")

    def write_config(self, name, text):
        with open(os.path.join(self.server.repo, name, "config.pbtxt"), "w") as f:
            f.write(text)

    def put_peer(self, config):
        """ONNX Runtime's model, with the configuration that the dlcc backend has found for its own."""
        folder = os.path.join(self.server.repo, "ort", "1")
        os.makedirs(folder)
        with open(os.path.join(folder, "model.py"), "w") as f:
            f.write(ORT_MODEL.format(path=self.bert, packages=glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages"))[0]))
        io = "".join(f'{what} {{ name: "{t["name"]}" data_type: {t["data_type"]} dims: [ {", ".join(map(str, t["dims"]))} ] }}\n'
                     for what in ("input", "output") for t in config[what])
        self.write_config("ort", f'backend: "python" max_batch_size: {config["max_batch_size"]} dynamic_batching {{ }}\n{io}')

    def dlrun(self, name, batch, seconds=0.5):
        """The line of dlrun --bench."""
        sizes = [f"--dim=N={batch}"] if name == DIGITS else [f"--dim=batch={batch}", f"--dim=seq={TOKENS}"]
        command = [os.path.join(self.bin, "dlrun"), self.library(name), "--bench", f"--seconds={seconds}", *sizes]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def batches(self, name):
        """{batch: runs} so far."""
        return {b["batch_size"]: b["compute_infer"]["count"] for b in self.server.stats(name)["batch_stats"]}

    def analyze(self, name, clients, requests):
        """A row of perf_analyzer: requests a second, and microseconds of the server's parts."""
        out = os.path.join(self.folder, "row.csv")
        shapes = [word for shape in SHAPES.get(name, SHAPES[BERT]) for word in ("--shape", shape)]
        # a string or id that is out of the vocabulary would be refused: zeros are in it
        command = [os.path.join(VENV, "bin", "perf_analyzer"), "-m", name, "-u", f"127.0.0.1:{self.server.grpc_port}", "-i", "grpc", "--input-data", "zero",
                   "--concurrency-range", str(clients), "--request-count", str(requests), "-f", out, *shapes]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"perf_analyzer {name}: {(done.stderr + done.stdout)[-2000:]}")
        with open(out) as f:
            return next(csv.DictReader(f))

    def rate(self, name):
        """Requests a second of all clients. perf_analyzer divides by whole seconds, so it is computed from the mean latency: each client
        sends its next request when it has the answer to the last one."""
        row = self.analyze(name, self.o.clients, self.o.requests)
        latency = sum(float(value) for part, value in row.items() if part.split()[0] in ("Client", "Network+Server", "Server"))
        return self.o.clients * 1e6 / latency

    def overhead(self, rows):
        for name, requests in (DIGITS, 2000), (BERT, 30):
            alone = self.dlrun(name, 1)["median_ms"] * 1000
            row = self.analyze(name, 1, requests)
            compute, sends = (sum(float(row[part]) for part in parts) for parts in
                              ([f"Server Compute {part}" for part in ("Input", "Infer", "Output")], ["Network+Server Send/Recv"]))
            for what, value in ("overhead", compute - alone), ("sending", sends), ("queue", float(row["Server Queue"])), ("dlrun", alone):
                rows.setdefault(f"{what} {name}, us", []).append(value)

    def ours(self, rows):
        """Clients of dlcc, and then dlrun with the batches that formed. Batches with less than a twentieth of the requests are left out."""
        before = self.batches(BERT)
        rate = self.rate(BERT)
        formed = {b: n - before.get(b, 0) for b, n in self.batches(BERT).items() if n > before.get(b, 0)}
        requests = sum(b * n for b, n in formed.items())
        usual = {b: n for b, n in formed.items() if b * n * 20 >= requests}
        needed = sum(self.dlrun(BERT, b, 0.3)["median_ms"] * n for b, n in usual.items()) / 1000 / sum(b * n for b, n in usual.items())
        rows.setdefault("efficiency", []).append(needed * rate)
        rows.setdefault("requests a second", []).append(rate)
        return usual

    def peer(self, rows):
        rows.setdefault("requests a second of ONNX Runtime", []).append(self.rate("ort"))

    def round(self, rows, k):
        if k % 2:
            self.peer(rows)
        formed = self.ours(rows)
        if not k % 2:
            self.peer(rows)
        rows.setdefault("ratio", []).append(rows["requests a second"][-1] / rows["requests a second of ONNX Runtime"][-1])
        if k % 3 == 0:
            self.overhead(rows)
        return formed


def quartiles(found):
    cut = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
    return f"{cut[1]:.2f} | {cut[0]:.2f} to {cut[2]:.2f} | {len(found)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seconds", type=float, default=200, help="of the rounds; compiling takes longer")
    parser.add_argument("--requests", type=int, default=96, help="of a window")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--out")
    o = parser.parse_args()
    if not os.path.exists(os.path.join(VENV, "bin", "perf_analyzer")):
        sys.exit("no perf_analyzer: make build/venv-triton/requirements.txt")
    o.build = os.path.abspath(o.build)
    rows, lines = {}, ["| what | median | quartiles | rounds |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="dlcc-serving-") as folder:
        bench = Bench(o, folder)
        bench.server.start()
        try:
            bench.put_peer(bench.server.config(BERT))
            refused = bench.server.load("ort")
            assert not refused, refused
            ends, k = time.monotonic() + o.seconds, 0
            while time.monotonic() < ends:
                formed = bench.round(rows, k)
                k += 1
                print(f"round {k}: " + ", ".join(f"{what} {found[-1]:.2f}" for what, found in rows.items()), f"batches {formed}", flush=True)
        finally:
            bench.server.stop()
            bench.server.remove()
    lines += [f"| {what} | {quartiles(found)} |" for what, found in rows.items()]
    print("\n".join(lines))
    if o.out:
        with open(o.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

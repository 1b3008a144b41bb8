#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Triton Inference Server with the dlcc backend beside dlrun, and beside ONNX Runtime in the same server's Python backend.

    bench/serving.py [--rounds N] [--requests N] [--clients N] [--build FOLDER] [--out FILE.md]

The server and perf_analyzer are those of build/venv-triton (make build/venv-triton/requirements.txt). Models: the classifier of
examples/digits, whose runs are short, and bert_base at 17 tokens. In each round everything runs once, one after the other; the numbers are
medians of the rounds. Rows:

  overhead    the server's compute time (input and infer) at one client, less dlrun's median: microseconds; it means little for bert_base
              while others use the machine
  sending     the server's own time to send an answer (its "compute output", in which the backend only calls ResponseSend): microseconds
  efficiency  of N clients: the time that dlrun needs for the batches that formed, by the time that passed; 1 is a server that costs nothing
  ratio       requests a second of dlcc by those of ONNX Runtime, whose model concatenates what the server has batched
  instance    memory that a second instance of bert_base adds, beside the workspace that the server is told, and the weights
"""
import argparse
import csv
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path += [HERE, os.path.join(ROOT, "tests", "serving")]

import configs  # noqa: E402
import server  # noqa: E402

VENV = os.path.join(ROOT, "build", "venv-triton")
TOKENS = 17
WINDOWS = 5
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

    def dlrun(self, name, batch):
        """The median of a run, in microseconds."""
        sizes = [f"--dim=N={batch}"] if name == DIGITS else [f"--dim=batch={batch}", f"--dim=seq={TOKENS}"]
        text = subprocess.run([os.path.join(self.bin, "dlrun"), self.library(name), "--bench", "--seconds=1", *sizes], check=True, capture_output=True, text=True).stdout
        return json.loads(text)["median_ms"] * 1000

    def batches(self, name):
        """{batch: runs} so far."""
        return {b["batch_size"]: b["compute_infer"]["count"] for b in self.server.stats(name)["batch_stats"]}

    def analyze(self, name, clients):
        """A row of perf_analyzer: requests a second, and microseconds of the server's parts."""
        out = os.path.join(self.folder, "row.csv")
        shapes = [word for shape in SHAPES.get(name, SHAPES[BERT]) for word in ("--shape", shape)]
        # a string or id that is out of the vocabulary would be refused: zeros are in it
        done = subprocess.run([os.path.join(VENV, "bin", "perf_analyzer"), "-m", name, "-u", f"127.0.0.1:{self.server.grpc_port}", "-i", "grpc", "--input-data", "zero",
                        "--concurrency-range", str(clients), "--request-count", str(self.o.requests * (1 if clients > 1 or name == BERT else 20)), "-f", out, *shapes],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"perf_analyzer {name}: {(done.stderr + done.stdout)[-2000:]}")
        with open(out) as f:
            return next(csv.DictReader(f))

    def round(self, rows):
        for name in DIGITS, BERT:
            alone = self.dlrun(name, 1)
            # perf_analyzer tells means, so the least of some windows is nearest to a median
            windows = [self.analyze(name, 1) for _ in range(WINDOWS if name == DIGITS else 1)]
            compute = min(sum(float(row[f"Server Compute {part}"]) for part in ("Input", "Infer")) for row in windows)
            rows.setdefault(f"sending {name}", []).append(min(float(row["Server Compute Output"]) for row in windows))
            rows.setdefault(f"overhead {name}", []).append(compute - alone)
            rows.setdefault(f"dlrun {name}", []).append(alone)
        before = self.batches(BERT)
        row = self.analyze(BERT, self.o.clients)
        formed = {b: n - before.get(b, 0) for b, n in self.batches(BERT).items() if n > before.get(b, 0)}
        requests = sum(b * n for b, n in formed.items())
        ours = float(row["Inferences/Second"])
        needed = sum(self.dlrun(BERT, b) * n for b, n in formed.items()) / 1e6
        rows.setdefault("efficiency", []).append(needed / (requests / ours))
        rows.setdefault("requests a second", []).append(ours)
        peer = float(self.analyze("ort", self.o.clients)["Inferences/Second"])
        rows.setdefault("requests a second of ONNX Runtime", []).append(peer)
        rows.setdefault("ratio", []).append(ours / peer)
        return formed

    def resident(self, instances):
        """(KiB of the server with so many instances, bytes that it is told of one) of bert_base."""
        self.write_config(BERT, f'backend: "dlcc" instance_group {{ count: {instances} kind: KIND_CPU }} parameters {{ key: "threads" value: {{ string_value: "1" }} }}')
        self.server.load(BERT, "unload")
        refused = self.server.load(BERT)
        assert not refused, refused
        self.analyze(BERT, self.o.clients)
        with open(f"/proc/{self.server.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s*(\d+)", f.read())[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--out")
    o = parser.parse_args()
    if not os.path.exists(os.path.join(VENV, "bin", "perf_analyzer")):
        sys.exit("no perf_analyzer: make build/venv-triton/requirements.txt")
    o.build = os.path.abspath(o.build)
    rows, lines = {}, ["| what | median | rounds |", "|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="dlcc-serving-") as folder:
        bench = Bench(o, folder)
        bench.server.start()
        try:
            bench.put_peer(bench.server.config(BERT))
            refused = bench.server.load("ort")
            assert not refused, refused
            for k in range(o.rounds):
                formed = bench.round(rows)
                print(f"round {k + 1}: " + ", ".join(f"{what} {found[-1]:.2f}" for what, found in rows.items()), f"batches {formed}", flush=True)
            bench.server.load("ort", "unload")
            one, two = bench.resident(1), bench.resident(2)
            rows["instance: MiB more"] = [(two - one) / 1024]
            rows["weights: MiB"] = [os.path.getsize(bench.library(BERT)) / 2**20]
        finally:
            bench.server.stop()
            bench.server.remove()
    lines += [f"| {what} | {statistics.median(found):.2f} | {' '.join(f'{x:.2f}' for x in found)} |" for what, found in rows.items()]
    print("\n".join(lines))
    if o.out:
        with open(o.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

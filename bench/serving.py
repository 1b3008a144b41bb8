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
  requests    a second, of N clients of one instance, and of two, which share the processors: dlcc's by themselves, ONNX Runtime's by half the threads
              for each
  efficiency  of N clients: the time that dlrun needs for the batches that formed, by the time that passed; 1 is a server that costs nothing
  ratio       requests of dlcc by those of ONNX Runtime, whose model concatenates what the server has batched; for the best of one and two, too
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
DIGITS, BERT, PAIR = "digits.dlcc", "bert.dlcc", "pair.dlcc"
SHAPES = {DIGITS: [], BERT: [f"input_ids:{TOKENS}", f"attention_mask:{TOKENS}", f"token_type_ids:{TOKENS}"]}

INSTANCES = "instance_group [ { count: 2 kind: KIND_CPU } ]\n"

ORT_MODEL = """
import sys
sys.path += [{packages!r}]
import numpy as np
import onnxruntime
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = {threads}
        self.session = onnxruntime.InferenceSession({path!r}, options, providers=["CPUExecutionProvider"])
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
        os.makedirs(os.path.dirname(self.library(PAIR)))
        os.link(self.library(BERT), self.library(PAIR))
        self.write_config(PAIR, INSTANCES)

    def library(self, name):
        return os.path.join(self.server.repo, name, "1", "model.so")

    def write_config(self, name, text):
        with open(os.path.join(self.server.repo, name, "config.pbtxt"), "w") as f:
            f.write(text)

    def put_peers(self, config):
        """ONNX Runtime's models, of one instance and of two, with the configuration that the dlcc backend has found for its own."""
        packages = glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages"))[0]
        io = "".join(f'{what} {{ name: "{t["name"]}" data_type: {t["data_type"]} dims: [ {", ".join(map(str, t["dims"]))} ] }}\n'
                     for what in ("input", "output") for t in config[what])
        for name, instances, threads in ("ort", "", 0), ("ort_pair", INSTANCES, max(1, len(os.sched_getaffinity(0)) // 2)):
            folder = os.path.join(self.server.repo, name, "1")
            os.makedirs(folder)
            with open(os.path.join(folder, "model.py"), "w") as f:
                f.write(ORT_MODEL.format(path=self.bert, packages=packages, threads=threads))
            self.write_config(name, f'backend: "python" max_batch_size: {config["max_batch_size"]} dynamic_batching {{ }}\n{io}{instances}')
            refused = self.server.load(name)
            assert not refused, refused

    def dlrun(self, name, batch, seconds=0.5):
        """The line of dlrun --bench."""
        sizes = [f"--dim=N={batch}"] if name == DIGITS else [f"--dim=batch={batch}", f"--dim=seq={TOKENS}"]
        command = [os.path.join(self.bin, "dlrun"), self.library(name), "--bench", f"--seconds={seconds}", *sizes]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def batches(self, name):
        """{batch: runs} so far."""
        return {b["batch_size"]: b["compute_infer"]["count"] for b in self.server.stats(name)["batch_stats"]}

    def client(self, name, clients, requests):
        """perf_analyzer, which writes row.csv."""
        shapes = [word for shape in SHAPES.get(name, SHAPES[BERT]) for word in ("--shape", shape)]
        # a string or id that is out of the vocabulary would be refused: zeros are in it
        command = [os.path.join(VENV, "bin", "perf_analyzer"), "-m", name, "-u", f"127.0.0.1:{self.server.grpc_port}", "-i", "grpc", "--input-data", "zero",
                   "--concurrency-range", str(clients), "--request-count", str(requests), "-f", os.path.join(self.folder, "row.csv"), *shapes]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, client, name):
        """The row of perf_analyzer: microseconds of the server's parts."""
        text, _ = client.communicate()
        if client.returncode:
            sys.exit(f"perf_analyzer {name}: {text[-2000:]}")
        with open(os.path.join(self.folder, "row.csv")) as f:
            return next(csv.DictReader(f))

    def rate(self, name):
        """Requests a second of all clients, as the server counts them, from the end of one batch to the end of another. perf_analyzer divides by
        whole seconds. The first and the last requests are left out: some clients do not ask yet, or no more."""
        before, client = self.server.stats(name)["inference_count"], self.client(name, self.o.clients, self.o.requests)
        seen = [(0, 0)]
        while client.poll() is None:
            now, count = time.monotonic(), self.server.stats(name)["inference_count"] - before
            if count > seen[-1][1]:
                seen.append((now, count))
            time.sleep(0.02)
        self.finish(client, name)
        (t0, first), *_, (t1, last) = [s for s in seen if 2 * self.o.clients <= s[1] <= self.o.requests - 2 * self.o.clients]
        return (last - first) / (t1 - t0)

    def overhead(self, rows):
        for name, requests in (DIGITS, 2000), (BERT, 30):
            alone = self.dlrun(name, 1)["median_ms"] * 1000
            row = self.finish(self.client(name, 1, requests), name)
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
        rows.setdefault("requests, dlcc", []).append(rate)
        return usual

    def round(self, rows, k):
        rate = {}
        for name in [BERT, PAIR, "ort", "ort_pair"][::-1 if k % 2 else 1]:
            if name == BERT:
                formed = self.ours(rows)
                rate[name] = rows["requests, dlcc"][-1]
            else:
                rate[name] = self.rate(name)
        for what, value in (("requests, two instances of dlcc", rate[PAIR]), ("requests, ONNX Runtime", rate["ort"]),
                            ("requests, two instances of ONNX Runtime", rate["ort_pair"]), ("ratio, one instance", rate[BERT] / rate["ort"]),
                            ("ratio, two instances", rate[PAIR] / rate["ort_pair"]),
                            ("ratio, the better of each", max(rate[BERT], rate[PAIR]) / max(rate["ort"], rate["ort_pair"]))):
            rows.setdefault(what, []).append(value)
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
    parser.add_argument("--requests", type=int, default=256, help="of a window; more than 4 for each client")
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
            bench.put_peers(bench.server.config(BERT))
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

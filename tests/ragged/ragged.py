# SPDX-License-Identifier: Apache-2.0
"""A recommender whose bags of indices differ in length, beside ONNX Runtime.

Each of its 26 tables has two inputs: the indices of all bags, and where each bag begins. A Loop over the bags sums the rows of
each one, and an If drops the last dim of the result if it is 1. One artifact runs all batches, with bags of 0 to 4 indices."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

import dlcc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.environ.get("BENCH") or os.path.join(ROOT, "..", "shared", "bench")
GRAPH = os.path.join(BENCH, "graphs", "dlrm_ragged.onnx")
BATCHES = 1, 3, 8, 17
LONGEST = 4
LIMIT = 1e-5  # of a probability


def materialise(folder):
    """The model with weights, and the number of rows of each table."""
    subprocess.run([sys.executable, os.path.join(BENCH, "materialise.py"), GRAPH, folder], check=True)
    path = os.path.join(folder, "model.onnx")
    tables = [t for t in onnx.load(path, load_external_data=False).graph.initializer if t.name.startswith("emb.")]
    return path, {int(t.name.split(".")[1]): t.dims[0] for t in tables}


def feeds(rows, batch, longest):
    """Random inputs: bags of at most LONGEST indices. Some are empty, and the first and the last bag may be."""
    rng = np.random.default_rng(batch + 100 * longest)
    found = {"dense": rng.standard_normal((batch, 13)).astype(np.float32)}
    for table, n in rows.items():
        lengths = rng.integers(0, longest + 1, batch)
        found[f"indices_{table}"] = rng.integers(0, n, lengths.sum())
        found[f"offsets_{table}"] = np.cumsum(lengths) - lengths
    return found


def main():
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        path, rows = materialise(folder)
        onnxruntime.set_default_logger_severity(3)
        peer = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        with dlcc.compile(path) as model:
            for batch in BATCHES:
                for longest in 0, LONGEST:
                    feed = feeds(rows, batch, longest)
                    want, got = peer.run(None, feed)[0], model.run(feed)["ctr"]
                    off = np.abs(got - want).max() if got.shape == want.shape else np.inf
                    count, failed = count + 1, failed + (not off <= LIMIT)
                    print(f"{'pass' if off <= LIMIT else 'FAIL'}: batch {batch}, bags of 0 to {longest}: {off:.2g} off, {got.shape}", flush=True)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

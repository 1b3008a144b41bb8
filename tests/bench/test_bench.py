# SPDX-License-Identifier: Apache-2.0
"""bench/run.py: test_bench.py BUILD FOLDER. What it measures is not judged here, only that the numbers are there and belong together."""
import json
import os
import subprocess
import sys
import traceback

import onnx.parser

BUILD, DIR = (os.path.abspath(p) for p in sys.argv[1:])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

from report import allowed  # noqa: E402
from run import told_apart  # noqa: E402

M, K, N = 5, 16, 24
TESTS = []


def test(f):
    TESTS.append(f)
    return f


def save(name, body):
    with open(f"{DIR}/{name}.onnx", "wb") as f:
        f.write(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + body).SerializeToString())
    return f"{DIR}/{name}.onnx"


def bench(*args, status=0):
    """(the result as JSON, the table, what the program printed)"""
    p = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "run.py"), "--build", f"{DIR}/build", "--out", f"{DIR}/out", "--rounds=2", "--seconds=0.02",
                        *args], capture_output=True, text=True)
    assert p.returncode == status, p.stdout + p.stderr
    texts = {}
    for name in os.listdir(f"{DIR}/out"):
        if name.endswith((".json", ".md")):
            with open(f"{DIR}/out/{name}") as f:
                texts[name.rsplit(".")[-1]] = f.read()
    return json.loads(texts["json"]), texts["md"], p.stdout + p.stderr


@test
def product():
    """Two engines on a product: operations from dlcc, roofs, a ratio, a row of the table, an engine that does not exist."""
    weights = ",".join(["0.5"] * K * N)
    model = save("product", f"(float[M,{K}] x) => (float[M,{N}] y) {{ w = Constant <value = float[{K},{N}] {{{weights}}}> () y = MatMul(x, w) }}")
    result, table, said = bench("--engines=dlcc,onnxruntime,nonesuch", "--threads=1", "--subnormals=kept", f"--dim=M={M}", model)
    row, = result["rows"]
    assert "nonesuch is left out" in said, said
    assert row["flops"] == 2 * M * K * N and [k["bytes"] for k in row["kernels"]] == [4 * (M * K + K * N + M * N)], row
    dlcc, ort = row["engines"]["dlcc"], row["engines"]["onnxruntime"]
    assert dlcc["ms"] > 0 and ort["ms"] > 0 and dlcc["runs"] > 3 and ort["version"] and dlcc["compile_rss_kib"] > 0 and "workspace_bytes" in dlcc, row
    roof = result["roofs"]["1"]
    assert roof["gflop_per_s"] > 0 and roof["memory_gb_per_s"] > 0 and roof["l2_gb_per_s"] > 0, roof
    assert f"| product | {dlcc['ms']:.3f} |" in table and f"| {ort['ms'] / dlcc['ms']:.2f} |" in table, table
    assert "1 of 1 are below 1" in table or "0 of 1 are below 1" in table, table


@test
def wrong_results():
    """A peer whose results are not those of ONNX Runtime has that in its row in place of a time; one that differs by rounding is left alone."""
    rounds = {("onnxruntime", True): [{"mean": 2.0}], ("openvino", True): [{"mean": 0.0}, {"mean": 0.0}], ("openvino", False): [{"mean": 2.001}],
              ("onnxruntime", False): [{"mean": 2.0}], ("dlcc", True): [{"median_ms": 1.0}]}
    told_apart(rounds)
    assert "on average 0, not 2" in rounds["openvino", True][0]["failure"], rounds
    assert not any("failure" in r for key, rs in rounds.items() for r in rs if key != ("openvino", True)), rounds


@test
def scaling_of_roofs():
    """A row with all threads tells how much faster than with one the roofs allow it to be; others do not."""
    assert allowed({"threads": 2, "least_ms": {"1": 3, "2": 2}}) == "1.50"
    assert [allowed(r) for r in ({"threads": 1, "least_ms": {"1": 3}}, {"threads": 2, "least_ms": {"2": 2}}, {"threads": 2})] == ["-"] * 3


@test
def failure():
    """An engine that refuses a model has the reason in its row."""
    model = save("refused", "(float[2] x) => (float[2] y) { y = Frobnicate(x) }")
    result, table, _ = bench("--engines=dlcc,onnxruntime", "--threads=1", "--subnormals=kept", model)
    row, = result["rows"]
    assert "Frobnicate" in row["engines"]["dlcc"]["failure"] and "failure" in row["engines"]["onnxruntime"], row
    assert "Frobnicate" in table, table


@test
def selection():
    """Configurations have names; a name that none has is an error."""
    p = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "run.py"), "--list", "--build", f"{DIR}/build", "nonesuch"], capture_output=True, text=True)
    assert p.returncode == 2 and "no configuration" in p.stdout, p
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    import configs

    names = [name for name, _, _ in configs.TABLE]
    assert len(set(names)) == len(names) and set(configs.QUICK) <= set(names)


def main():
    os.makedirs(f"{DIR}/build")
    for part in "bin", "lib", "include":
        os.symlink(os.path.join(BUILD, part), f"{DIR}/build/{part}")
    failed = 0
    for f in TESTS:
        try:
            f()
        except Exception:
            failed += 1
            print(f"FAIL: {f.__name__}: {traceback.format_exc()}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

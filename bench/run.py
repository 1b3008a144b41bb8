#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dlcc with ONNX Runtime on full-size models, with one thread or more.

    bench/run.py [--threads N] [--rounds N] [--seconds S] [--json FILE] [MODEL ...]

Models are BENCH/graphs/MODEL.onnx (BENCH: environment variable, default ../shared/bench); BENCH/materialise.py adds random
weights, once, in build/bench. Each round runs one engine after the other, each in its own process, on random inputs of the same
shapes. The table has the median of the rounds' medians, their ratio, the percentage of the measured peak (bench/roof.c), the
compile time and the peak memory of both. A model that does not exist is left out, with a message.
"""
import argparse, json, os, re, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BENCH = os.environ.get("BENCH", os.path.join(ROOT, "..", "shared", "bench"))

# model, dims, GFLOP of one run (multiply-adds twice)
CASES = [
    ("resnet50", {"batch": 1}, 8.2),
    ("mobilenet_v2", {"batch": 1}, 0.60),
    ("mobilenet_v3_large", {"batch": 1}, 0.43),
    ("efficientnet_b0", {"batch": 1}, 0.78),
    ("convnext_tiny", {"batch": 1}, 8.9),
    ("bert_base", {"batch": 1, "seq": 128}, 22.3),
    ("distilbert", {"batch": 1, "seq": 128}, 11.1),
]

PEER = r"""
import json, resource, sys, time, numpy as np, onnxruntime as ort
path, threads, seconds, dims = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
o = ort.SessionOptions(); o.intra_op_num_threads = threads
s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
rng = np.random.default_rng(0); feed = {}
for x in s.get_inputs():
    shape = [d if isinstance(d, int) else int(dims[d]) for d in x.shape]
    if x.type == "tensor(float)": feed[x.name] = rng.standard_normal(shape).astype(np.float32)
    else: feed[x.name] = (np.ones(shape) if "mask" in x.name else rng.integers(0, 2, shape)).astype({"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}[x.type])
for _ in range(2): s.run(None, feed)
t, end = [], time.perf_counter() + seconds
while time.perf_counter() < end or len(t) < 3:
    a = time.perf_counter(); s.run(None, feed); t.append(1e3 * (time.perf_counter() - a))
t.sort()
print(json.dumps({"median_ms": t[len(t) // 2], "min_ms": t[0], "runs": len(t), "peak_rss_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


def line(cmd):
    out = subprocess.run(cmd, capture_output=True, text=True, check=True).stdout
    return json.loads([l for l in out.splitlines() if l.startswith("{")][-1])


def materialise(model, build):
    folder = os.path.join(build, "bench", model)
    graph = os.path.join(BENCH, "graphs", model + ".onnx")
    if os.path.exists(os.path.join(folder, "model.onnx")):
        return folder
    if not os.path.exists(graph):
        return None
    subprocess.run([sys.executable, os.path.join(BENCH, "materialise.py"), graph, folder], check=True)
    return folder


def compile_model(build, folder, out):
    """Seconds and MiB of the largest process of a cold compile."""
    t = time.perf_counter()
    code = "import resource,subprocess,sys; r=subprocess.call(sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(r)"
    p = subprocess.run([sys.executable, "-c", code, os.path.join(build, "bin", "dlcc"), os.path.join(folder, "model.onnx"), "-o", out],
                       capture_output=True, text=True, check=True)
    return time.perf_counter() - t, int(p.stdout.split()[-1]) / 1024


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="*")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=1.0)
    ap.add_argument("--json")
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    a = ap.parse_args()
    roof_bin = os.path.join(a.build, "roof")
    subprocess.run(["gcc", "-O2", "-I" + ROOT, os.path.join(HERE, "roof.c"), os.path.join(ROOT, "tools/dlrun/roof.c"), "-o", roof_bin, "-lpthread"], check=True)
    rows = []
    print("| model | dims | dlcc ms | ORT ms | dlcc / ORT | % of the roof | ORT's % | compile s | compile MiB | run MiB | ORT MiB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for model, dims, gflop in CASES:
        if a.models and model not in a.models:
            continue
        folder = materialise(model, a.build)
        if not folder:
            print(f"{model}: no {model}.onnx in {BENCH}/graphs", file=sys.stderr)
            continue
        so = os.path.join(a.build, "bench", model + ".so")
        seconds, mib = compile_model(a.build, folder, so)
        ours, peer, roofs = [], [], []
        for _ in range(a.rounds):
            roofs.append(line([roof_bin])["gflop_per_s"])
            ours.append(line([os.path.join(a.build, "bin", "dlrun"), so, "--bench", "--json", "--threads", str(a.threads),
                              "--seconds", str(a.seconds)] + [x for k, v in dims.items() for x in ("--dim", f"{k}={v}")]))
            peer.append(line([sys.executable, "-c", PEER, os.path.join(folder, "model.onnx"), str(a.threads), str(a.seconds), json.dumps(dims)]))
        m = statistics.median(r["median_ms"] for r in ours)
        p = statistics.median(r["median_ms"] for r in peer)
        roof = max(roofs) * a.threads
        row = {"model": model, "dims": dims, "dlcc_ms": m, "ort_ms": p, "roof_gflops": roof, "compile_s": seconds, "compile_mib": mib,
               "dlcc_min_ms": min(r["min_ms"] for r in ours), "ort_min_ms": min(r["min_ms"] for r in peer), "threads": a.threads}
        rows.append(row)
        shape = " ".join(f"{k}={v}" for k, v in dims.items())
        print(f"| {model} | {shape} | {m:.2f} | {p:.2f} | {m / p:.2f} | {100 * gflop / m * 1e3 / roof:.0f} | {100 * gflop / p * 1e3 / roof:.0f} "
              f"| {seconds:.1f} | {mib:.0f} | {ours[-1]['peak_rss_kib'] / 1024:.0f} | {peer[-1]['peak_rss_kib'] / 1024:.0f} |", flush=True)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"date": time.strftime("%Y-%m-%d"), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()

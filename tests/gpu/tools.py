# SPDX-License-Identifier: Apache-2.0
"""What is said of time: of kernels, to tools, and where a launch failed."""

import json
import re

import numpy as np

from harness import DIR, ROOT, case, compiled, dlrun, model, run, test


@test
def speeds():
    """Beside times, what the GPU's memory has to do and can do: 5120 bits at 1215 MHz, twice."""
    options = compiled("dense"), "--bench", "--profile", "--seconds=0.05", "--dim", "N=100"
    timing, *_, last, told = dlrun(*options, "--device=cuda").splitlines()
    assert told.endswith("warning: cuda:0 ptxsim sm_80 is a simulator: these are not the times of a GPU"), told
    t, weights, tensors = json.loads(timing), 4 * (64 * 10 + 10), 4 * (100 * 64 + 100 * 10)
    assert weights <= t["bytes"] - tensors <= 1.5 * weights and t["peak_gb_per_s"] == 1555, timing
    assert abs(t["gb_per_s"] * t["median_ms"] * 1e6 / t["bytes"] - 1) < 1e-3, timing
    m = re.fullmatch(r"cuda:0 ptxsim sm_80: 0.002 ms of kernels a run; weights, inputs and outputs are 0.033 MB, ([0-9.]+) GB/s of the memory's 1555 \(1.1%\)", last)
    assert m and abs(float(m[1]) - t["bytes"] / 2000) < 0.1, last
    text = dlrun(*options, "--device=cpu")
    assert "peak_gb_per_s" not in text and "of the memory's" not in text and "simulator" not in text, text


@test
def ranges_for_tools():
    run("cc", "-std=gnu11", "-w", "-fPIC", "-shared", f"{ROOT}/tests/gpu/ranges.c", "-o", f"{DIR}/ranges.so", sim=False)
    for name, kernels in ("cnn", ["Conv_0", "MaxPool"]), ("dense", ["Add_1, MatMul_0"]):
        dims = ["--dim", "N=3"] if name == "dense" else []
        dlrun(compiled(name), "--device=cuda", "--bench", "--seconds=0.01", *dims, NVTX_INJECTION64_PATH=f"{DIR}/ranges.so", RANGES=f"{DIR}/ranges.txt")
        lines = open(f"{DIR}/ranges.txt").read().split("\n")
        assert lines[0] == name and all(any(k in line for line in lines if line.startswith("  ")) for k in kernels), lines[:20]
    # What is no tool is no matter.
    dlrun(f"{DIR}/dense.so", "--device=cuda", "--data", f"{DIR}/dense", NVTX_INJECTION64_PATH="/nowhere.so")


@test
def times_of_kernels():
    """Events around kernels become a trace; each run has every kernel once."""
    dlrun(compiled("cnn"), "--device=cuda", "--bench", "--seconds=0.01", DLCC_PROFILE=f"{DIR}/trace.json")
    events = sorted(json.load(open(f"{DIR}/trace.json"))["traceEvents"], key=lambda e: e["ts"])
    names = [e["name"] for e in events]
    kernels = set(names)
    assert len(kernels) > 4 and len(names) % len(kernels) == 0, names[:40]
    assert all(set(names[i:i + len(kernels)]) == kernels for i in range(0, len(names), len(kernels))), names[:40]
    assert all(e["dur"] > 0 for e in events)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(events, events[1:]))


@test
def what_the_driver_says_of_a_kernel_with_a_long_name():
    """Whatever ran before, the text ends with the driver's words."""
    long = [letter * 300 for letter in "abc"]
    model("long", f"long (float[N,8] x, float[8,8] w) => (float[N,8] y) {{ [{long[0]}] s = Sin(x)  [{long[1]}] t = MatMul(s, w)  [{long[2]}] y = Softmax(t) }}")
    case("long", 0, {"x": np.zeros((3, 8), np.float32), "w": np.zeros((8, 8), np.float32)}, {"y": np.full((3, 8), 1 / 8, np.float32)})
    options = compiled("long"), "--device=cuda", "--data", f"{DIR}/long"
    trace = re.findall(r"^ptxsim: call (\d+): (\w+)$", dlrun(*options, PTXSIM_TRACE=1), re.M)
    for call, code, said in ("cuLaunchKernel", 999, "UNKNOWN: unknown error"), ("cuLaunchKernel", 719, "LAUNCH_FAILED: unspecified launch failure"), \
                            ("cuStreamSynchronize", 719, "LAUNCH_FAILED: unspecified launch failure"):
        n = [n for n, called in trace if called == call][-1]
        text = dlrun(*options, status=1, PTXSIM_FAIL=f"{n}:{code}")
        assert long[0][:50] in text or long[2][:50] in text, text
        assert re.search(f": CUDA_ERROR_{said}$", text, re.M), text

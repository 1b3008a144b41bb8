# SPDX-License-Identifier: Apache-2.0
"""Weights in the artifact: in every form, and once where CPUs and GPUs have them alike."""

import os
import re

import numpy as np
import onnx
from onnx import numpy_helper

from harness import BUILD, DIR, case, compiled, dlrun, normal, run, test, with_weights

with_weights("plain", """plain (float[N,64,64] x) => (float[N,64,64] y) {
  t = Transpose<perm=[1,0]>(w)  e = Exp(v)  s = Add(x, u)  a = Add(s, t)  y = Mul(a, e) }""", u=normal(64, 64), v=normal(64, 64), w=normal(64, 64))
with_weights("table", "table (int64[N] i) => (float[N,64] y) { e = Gather(table, i)  y = Mul(e, scale) }", table=normal(4096, 64), scale=normal(64))


@test
def weights_in_every_form():
    dlrun(compiled("dense"), "--device", "cuda", "--data", f"{DIR}/dense")
    dlrun(f"{DIR}/dense.so", "--device", "cpu", "--data", f"{DIR}/dense")
    dlrun(compiled("dense", f"--weights={DIR}/w.bin"), "--device", "cuda", "--data", f"{DIR}/dense")
    c = compiled("dense", suffix=".c")
    run("cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native", "-w",
        f"-I{BUILD}/include", c, f"{BUILD}/lib/libdlrt.a", "-lpthread", "-ldl", "-o", f"{DIR}/dense_c.so", sim=False)
    os.rename(f"{DIR}/dense_c.so", f"{DIR}/dense.so")
    dlrun(f"{DIR}/dense.so", "--device", "cuda", "--data", f"{DIR}/dense")


@test
def weights_that_all_share():
    """A table that CPUs and GPUs read as it is stands in the artifact once."""
    w = {t.name: numpy_helper.to_array(t) for t in onnx.load(f"{DIR}/table.onnx").graph.initializer}
    i = np.array([3, 4095, 0, 77])
    case("table", 0, {"i": i}, {"y": w["table"][i] * w["scale"]})
    so = compiled("table", targets="cpu:v3,cuda:sm_80")
    sections = run("readelf", "-SW", so, sim=False)
    size = int(re.search(r"\.dlcc\.weights\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections).group(1), 16)
    assert 4096 * 256 <= size <= 4096 * 256 + 1024, size
    for device in "cpu", "cuda":
        dlrun(so, f"--device={device}", "--data", f"{DIR}/table")


@test
def constants_that_all_have_alike():
    """Whether they are as the model has them, moved or computed: where both want them in one layout they are in the artifact once."""
    sections = run("readelf", "-SW", compiled("plain", targets="cpu:v3,cuda:sm_80"), sim=False)
    size = int(re.search(r"\.dlcc\.weights\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections).group(1), 16)
    once = 4 * 3 * 64 * 64
    assert once <= size < 1.1 * once, size
    dims = "--dim", "N=2"
    assert "GB/s" in dlrun(f"{DIR}/plain.so", "--device=cuda", "--profile", *dims)

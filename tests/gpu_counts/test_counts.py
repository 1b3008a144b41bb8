# SPDX-License-Identifier: Apache-2.0
"""Kernels of operations on tiles, of constant sizes: what dlcc computes of the tree's work is what the simulator counts in its PTX, counter by
counter. So the layouts from which decisions are made are those of the code, and neither has accesses that the other does not know of."""

import json
import os
import re
import subprocess
import sys

import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, DIR, *ONLY = sys.argv[1:]
F, H, B = "float", "float16", "bfloat16"


def product(t, m, n, k, rest="", more="", turned=(False, False), batch=""):
    """The text of a product of M rows, N columns and K terms; TURNED: its factors are stored the other way around."""
    shape = lambda rows, columns, other: f"{batch}{columns},{rows}" if other else f"{batch}{rows},{columns}"  # noqa: E731
    perm = "[0,2,1]" if batch else "[1,0]"
    head = f"m ({t}[{shape(m, k, turned[0])}] a0, {t}[{shape(k, n, turned[1])}] b0{more}) => ({t}[{batch}{m},{n}] y) {{ "
    steps = [f"{x} = Transpose<perm={perm}>({x}0)" if other else f"{x} = Identity({x}0)" for x, other in zip("ab", turned)]
    return head + " ".join([*steps, rest and "p = MatMul(a, b)", rest or "y = MatMul(a, b)"]) + " }"


def attention(t, m, n, d, options=""):
    return f"m ({t}[1,2,{m},{d}] q, {t}[1,2,{n},{d}] k, {t}[1,2,{n},{d}] v) => ({t}[1,2,{m},{d}] y) {{ y = Attention{options}(q, k, v) }}"


S8 = ("m (int8[{0},{2}] a, int8[{2},{1}] b) => (int32[{0},{1}] y) {{ y = MatMulInteger(a, b) }}")
CONV = "m ({0}[2,{1},14,14] x, {0}[{2},{1},3,3] w, {0}[{2}] b) => ({0}[2,{2},14,14] y) {{ y = Conv<pads=[1,1,1,1]>(x, w, b) }}"
KERNELS = {  # name: the model, options of dlcc
    "f16": (product(H, 64, 96, 64),),
    "f16 edges": (product(H, 50, 72, 88),),
    "f16, a turned": (product(H, 64, 96, 64, turned=(True, False)),),
    "f16, b turned": (product(H, 64, 96, 64, turned=(False, True)),),
    "f16 batched": (product(H, 32, 64, 64, batch="3,"),),
    "f16 bias": (product(H, 128, 64, 64, "y = Add(p, c)", f", {H}[64] c"),),
    "f16 edges, bias": (product(H, 50, 72, 88, "y = Add(p, c)", f", {H}[72] c"),),
    "f16 a matrix added": (product(H, 128, 64, 64, "y = Add(p, c)", f", {H}[128,64] c"),),
    "f32 bias": (product(F, 48, 64, 64, "y = Add(p, c)", f", {F}[64] c"),),
    "f16 split": (product(H, 16, 64, 4096),),
    "f16 split, bias": (product(H, 16, 64, 4096, "y = Add(p, c)", f", {H}[64] c"),),
    "bf16": (product(B, 128, 128, 128),),
    "tf32": (product(F, 64, 96, 64), "--tf32"),
    "tf32, both turned": (product(F, 64, 96, 64, turned=(True, True)), "--tf32"),
    "f32": (product(F, 64, 96, 64),),
    "f32, b turned": (product(F, 48, 64, 72, turned=(False, True)),),
    "s8": (S8.format(64, 96, 64),),
    "conv f16": (CONV.format(H, 16, 32),),
    "conv f32": (CONV.format(F, 8, 32),),
    "attention f16": (attention(H, 64, 256, 64),),
    "attention f16 causal": (attention(H, 200, 200, 64, "<is_causal=1>"),),
    "attention bf16": (attention(B, 33, 192, 32),),
    "attention tf32": (attention(F, 32, 64, 64), "--tf32"),
    "attention f32": (attention(F, 32, 64, 32),),
}

ABOUT = {"attention f16 causal"}


def run(*command, **env):
    r = subprocess.run(command, capture_output=True, text=True, timeout=samples.limit(300), env=samples.simulated(BUILD, **env), cwd=DIR)
    assert r.returncode == 0, f"{' '.join(command)}: {(r.stdout + r.stderr)[-800:]}"
    return r.stdout


def test(text, *options, about=False):
    onnx.save(samples.model(text), f"{DIR}/m.onnx")
    dump = run(BUILD + "/bin/dlcc", "m.onnx", "--target=cuda:sm_80", "--name=m", "--dump-ir=count", "-o", "m.so", *options)
    run(BUILD + "/bin/dlrun", "m.so", "--device=cuda", "--bench", "--seconds=0.01", PTXSIM_STATS=f"{DIR}/stats.json")
    ran = {k["kernel"]: k for k in json.load(open(f"{DIR}/stats.json"))["kernels"]}
    counted = 0
    for name, rest in re.findall(r"^(\S+) sm_80: (.*)$", dump, re.M):
        if not rest.startswith("mma "):
            continue  # a stage of other nodes, after a sum in parts
        counted += 1
        kernel = next(k for n, k in ran.items() if n.endswith("_" + name) or n == name)
        said = {what: int(n) for what, n in re.findall(r"(\w+) (\d+)", rest)}
        did = {what: kernel[what] / kernel["launches"] for what in said}
        if about:  # what is loaded in arms of selects depends on branches
            said, did = ({what: n for what, n in of.items() if not what.startswith("global_load_")} for of in (said, did))
        assert said == did, name + ": " + "; ".join(f"{what}: {said[what]}, not {did[what]:.0f}" for what in said if said[what] != did[what])
    assert counted, f"nothing is counted: {dump}"


def main():
    passed = failed = 0
    for name, of in KERNELS.items():
        if ONLY and name not in ONLY:
            continue
        try:
            test(*of, about=name in ABOUT)
            passed += 1
        except Exception as e:  # of any kind: the test's failure
            failed += 1
            print(f"FAIL {name}: {type(e).__name__} {e}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Runs: sizes, graphs, streams, threads, and what fails on the way."""

import os
import re
import shutil
import sys

import numpy as np

from harness import BUILD, CFLAGS, DIR, FLAGS, ROOT, c_program, calls, calls_until, case, compiled, dlrun, model, rng, run, test, timed


@test
def parameters_beyond_a_launch():
    names = range(56)
    sizes = lambda v: ", ".join(f"{v}{k}" for k in range(8))  # noqa: E731
    model("many", "g (" + ", ".join(f"float[{sizes(f'd{i}_')}] x{i}" for i in names) + f") => (float[{sizes('y')}] y) {{ [Most] y = Max(" +
          ", ".join(f"x{i}" for i in names) + ") }")
    said = run(BUILD + "/bin/dlcc", f"{DIR}/many.onnx", "-o", f"{DIR}/many.so", "--target=cuda:sm_80", status=1)
    assert "Most" in said and "a launch on a GPU takes 512" in said, said


@test
def a_dynamic_batch():
    so = compiled("add")
    text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/add")
    assert text.count(": ok") == 4, text
    assert timed(so)["device"] == "cuda:0 ptxsim sm_80"
    assert timed(so, "--device=cpu")["device"] == "cpu"


@test
def an_index_out_of_range():
    so = compiled("pick")
    dlrun(so, "--device", "cuda", "--data", f"{DIR}/pick")
    text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/astray", status=1)
    assert "(Gather): index out of range" in text, text


@test
def a_category_that_is_not_listed():
    model("kinds", "kinds (int64[N] x) => (float[N,2] y) { [Kinds] y = ai.onnx.ml.OneHotEncoder<cats_int64s = [4, 9], zeros = 0>(x) }")
    known = np.array([9, 4, 9])
    case("kinds", 0, {"x": known}, {"y": (known[:, None] == [4, 9]).astype(np.float32)})
    case("strange", 0, {"x": np.array([9, 5, 4])}, {"y": np.zeros((3, 2), np.float32)})
    so = compiled("kinds")
    dlrun(so, "--device", "cuda", "--data", f"{DIR}/kinds")
    text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/strange", status=1)
    assert 'node "Kinds" (ai.onnx.ml.OneHotEncoder): index out of range' in text, text


def allocations(counts):
    return sum(n for name, n in counts.items() if "Alloc" in name)


@test
def runs_allocate_nothing():
    so = compiled("rows")
    few = calls(so, "--device=cuda", "--data", f"{DIR}/rows")["calls"]
    many = calls(so, "--device=cuda", "--bench", "--seconds=0.3", "--dim", "N=3", "--dim", "S=40")["calls"]
    runs = many["cuStreamSynchronize"]
    assert runs > 10 and allocations(many) <= allocations(few) + 2, (few, many)


model("sizes", "sizes (float[1] x, float[1] e) => (float[K] y) <float[1] two = {2}> {"
      " p = Pow(two, e)  n = Cast<to=7>(p)  y = Expand(x, n) }")
model("largest", "largest (float[1] x, float[100] v) => (float[K] y) <int64[1] zero = {0}> {"
      " m = ReduceMax<keepdims=1>(v, zero)  n = Cast<to=7>(m)  y = Expand(x, n) }")
case("largest", 0, {"x": np.ones(1, np.float32), "v": np.arange(100, dtype=np.float32) / 9}, {"y": np.ones(11, np.float32)})
model("mask", """mask (int64[B,S] ids, float[B,S] keep) => (float[B,S,16] y)
      <int64[4] heads = {0, 0, 4, 4}, int64[1] d = {16}, int64[1] one = {1}, int64 i0 = {0}, int64 i1 = {1},
       int64[1] a0 = {0}, int64[1] a12 = {2}> {
      c = Cast<to=1>(ids)  c3 = Unsqueeze(c, a12)  w = Constant<value = float[1,16] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}>()  h = Mul(c3, w)  s = Shape(ids)  b = Gather(s, i0)  n = Gather(s, i1)
      q4 = Reshape(h, heads)  q = Transpose<perm=[0,2,1,3]>(q4)  kt = Transpose<perm=[0,2,3,1]>(q4)
      scores = MatMul(q, kt)  m1 = Unsqueeze(keep, one)  m2 = Unsqueeze(m1, a12)  masked = Add(scores, m2)
      p = Softmax<axis=3>(masked)  mixed = MatMul(p, q)  back = Transpose<perm=[0,2,1,3]>(mixed)
      b1 = Unsqueeze(b, a0)  n1 = Unsqueeze(n, a0)  shape = Concat<axis=0>(b1, n1, d)  y = Reshape(back, shape) }""")


@test
def sizes_that_depend_on_inputs():
    compiled("sizes", "-Werror=fallback")
    assert run(c_program("sizes"), DIR) == "ok\n"
    assert "input e: f32[1] (the host reads it)" in dlrun(f"{DIR}/sizes.so", "--describe")


@test
def sizes_that_depend_on_the_gpu():
    so = compiled("largest")
    said = dlrun(so, "--device", "cuda", "--data", f"{DIR}/largest")
    assert "ok" in said, said
    refused = run(BUILD + "/bin/dlcc", f"{DIR}/largest.onnx", "-o", f"{DIR}/x.so", "--target=cuda:sm_80", "-Werror=fallback", *FLAGS, status=1)
    assert '(ReduceMax): the GPU waits for a copy' in refused, refused


@test
def attention_of_any_batch_and_length_needs_none():
    text = run(BUILD + "/bin/dlcc", f"{DIR}/mask.onnx", "--target=cuda:sm_80", "--dump-ir=place", "-Werror=fallback")
    gpu = text.split("; after place")[-1]
    assert "Kernel(" in gpu and "Copy" not in gpu and not re.search(r"\] (host|both)\b", gpu), gpu


@test
def tensors_and_a_stream_of_the_caller():
    compiled("add")
    assert run(c_program("pointers"), DIR) == "ok\n"


SANITIZERS = {"asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"], "tsan": ["-fsanitize=thread"]}


def sanitized(name, way, test, **env):
    """The C program TEST of this folder over the model NAME, both and the runtime under a sanitizer."""
    folder = f"{DIR}/{way}"
    os.makedirs(folder, exist_ok=True)
    c = compiled(name, targets="cpu:native,cuda:sm_80", suffix=".c")
    flags = ["-std=gnu11", "-g", "-O1", "-fPIC", "-w", "-D_GNU_SOURCE", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native",
             "-fvisibility=hidden", f"-I{ROOT}", f"-I{BUILD}/include", *SANITIZERS[way]]
    run("cc", *flags, "-shared", c, f"{BUILD}/lib/libdlrt-{way}.a", "-lpthread", "-ldl", "-o", f"{folder}/{name}.so", sim=False)
    run("cc", *flags, f"{ROOT}/tests/gpu/{test}.c", "-lpthread", "-ldl", "-lm", "-o", f"{folder}/{test}", sim=False)
    assert run(f"{folder}/{test}", folder, **env).endswith("ok\n")


model("few", "few (float[1] x, int64[1] n) => (float[K] y) { y = Expand(x, n) }")

model("same", "same (float[N] x) => (float[N] y, float[N] z) { y = Identity(x)  z = Relu(x) }")
model("either", """either (bool[1] c, float[N] a, float[N] b) => (float[N] y, float[N] z) {
      y = If(c) <then_branch = t () => (float[N] y1) { y1 = Identity(a) }, else_branch = e () => (float[N] y2) { y2 = Identity(b) }>
      z = Relu(y) }""")
model("chain", "chain (float[N,8] x, float[8,8] w) => (float[N,8] y) { t = MatMul(x, w)  y = MatMul(t, w) }")


@test
def graphs():
    for name in "add", "pick", "few", "largest", "same", "either", "chain":
        compiled(name)
    open(f"{DIR}/twice.dl", "w").write(
        "dlir 1\ngraph @main(%x: f32[N], %z: f32[2*N]) -> (%y) {\n  %y = Concat(%x, %z) {axis = 0} : f32[3*N]\n}\n")
    run(BUILD + "/bin/dlcc", f"{DIR}/twice.dl", "-o", f"{DIR}/twice.so", "--target=cuda:sm_80", *FLAGS)
    for program in "graphs", "values":
        for seed in range(3):
            assert run(c_program(program), DIR, PTXSIM_SEED=seed) == "ok\n"
        assert run(c_program(program), DIR, PTXSIM_POOLS=0) == "ok\n"


@test
def memory_grows_in_flight():
    compiled("chain")
    grow = c_program("grow")
    for env in {}, {"PTXSIM_POOLS": 0}:
        assert run(grow, DIR, PTXSIM_MEMORY=200000, **env) == "ok\n"


model("stack", """stack (float[100] x, float limit) => (float[100] last, float[T,100] all) {
  last, all = Loop<body = body (int64 i, bool c, float[100] h) => (bool go, float[100] next, float[100] each) {
    next = Add(h, h)  each = Identity(next)  axis = Constant<value_ints = [0]>()  most = ReduceMax<keepdims=0>(next, axis)
    go = Less(most, limit) }>("", "", x) }""")


@test
def a_stack_grows():
    compiled("stack")
    assert run(c_program("stack"), DIR) == "ok\n"


@test
def the_default_stream_and_captures():
    for name in "chain", "largest", "pick":
        compiled(name)
    assert run(c_program("capture"), DIR) == "ok\n"


@test
def every_call_of_the_driver_fails():
    sanitized("dense", "asan", "faults")


@test
def threads_and_devices():
    sanitized("dense", "tsan", "threads", PTXSIM_DEVICES=2)


@test
def a_guest_of_the_application():
    for name in "dense", "chain":
        compiled(name)
    assert run(c_program("guest"), DIR, PTXSIM_DEVICES=2) == "ok\n"


@test
def a_child_of_fork():
    compiled("dense")
    assert run(c_program("forked"), DIR) == "ok\n"


@test
def whole_models_on_the_gpu():
    whole = c_program("whole")
    for name, *dims in ("bert", "B=2", "S=7"), ("cnn",):
        compiled(name)
        assert run(whole, DIR, name, *dims) == "ok\n"


@test
def full_size_models_on_the_gpu():
    """Those of BENCH, in make check-all: all of them on the GPU, and small runs of them computed."""
    bench = os.environ.get("BENCH", os.path.join(ROOT, "..", "shared", "bench"))
    for name, computed, counted in (("bert_base", ["batch=1", "seq=5"], ["batch=3", "seq=77"]), ("resnet50", ["batch=1"], ["batch=2"])):
        graph = f"{bench}/graphs/{name}.onnx"
        if os.environ.get("TESTS") != "all" or not os.path.exists(graph):
            continue
        folder = f"{DIR}/{name}-full"
        run(sys.executable, f"{bench}/materialise.py", graph, folder, sim=False, seconds=600)
        run(f"{BUILD}/bin/dlcc", f"{folder}/model.onnx", "-o", f"{folder}/{name}.so", "--target=cuda:sm_80", "-Werror=fallback", *FLAGS,
            seconds=600)
        for how in ["count", *counted], computed:
            assert run(c_program("whole"), folder, name, "below=2", *how, seconds=1800) == "ok\n"
        shutil.rmtree(folder)


@test
def dynamic_shared_memory():
    x = rng(1).standard_normal(256).astype(np.float32)
    case("reverse", 0, {"x": x}, {"y": x[::-1]})
    run("cc", "-std=gnu11", "-O1", "-fPIC", "-shared", *CFLAGS, f"-I{ROOT}", f"{ROOT}/tests/gpu/reverse.c", f"{BUILD}/lib/libdlrt.a", "-lpthread",
        "-ldl", "-o", f"{DIR}/reverse.so", sim=False)
    for device in "cpu", "cuda":
        dlrun(f"{DIR}/reverse.so", f"--device={device}", "--data", f"{DIR}/reverse")
    # What the GPU cannot launch is not in the way, unless it is launched.
    for sm, kernel in (80, "reverse"), (86, "reverse"), (90, "large"):
        ran = calls(f"{DIR}/reverse.so", "--device=cuda", "--data", f"{DIR}/reverse", PTXSIM_SM=sm)["kernels"]
        assert [k["kernel"] for k in ran] == [kernel], (sm, ran)
    text = dlrun(f"{DIR}/reverse.so", "--device=cuda", "--data", f"{DIR}/reverse", status=1, REVERSE_LARGE=1, PTXSIM_SM=86)
    assert "/Reverse: cuda:0 ptxsim sm_86 gives a block 101376 bytes of shared memory, and it needs 204800" in text, text
    text = dlrun(f"{DIR}/reverse.so", "--device=cuda", "--data", f"{DIR}/reverse", status=1, PTXSIM_FAIL=calls_until("cuFuncSetAttribute", f"{DIR}/reverse.so"))
    assert "reverse: CUDA_ERROR_UNKNOWN" in text, text

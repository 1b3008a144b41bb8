# SPDX-License-Identifier: Apache-2.0
"""Which code a machine runs: targets, drivers that are missing or older, cubins."""

import json
import os
import re
import shutil

import numpy as np

from harness import BUILD, DIR, FLAGS, case, compiled, dlrun, model, rng, run, samples, test, timed


@test
def several_targets():
    so = compiled("add", targets="cuda:sm_80,sm_90a,cpu:v2,v3")
    assert "x86-64-v3 x86-64-v2 sm_90a sm_80" in dlrun(so, "--describe")
    for sm, ok in (75, False), (80, True), (90, True), (120, True):
        text = dlrun(so, "--device", "cuda", "--data", f"{DIR}/add", status=0 if ok else 1, PTXSIM_SM=sm)
        assert ok or "this GPU is sm_75" in text, text


@test
def shared_memory_of_other_gpus():
    """Code for sm_80 runs on GPUs that give a block less shared memory, by other variants than where it has more."""
    model("vocabulary", "g (float[N,50257] x, float[2,B,65] y) => (float[N,50257] p, float[2,B,65] q) { p = Softmax(x)  q = Softmax<axis = 1>(y) }")
    x, y = rng(50).standard_normal((2, 50257)).astype("f4"), rng(51).standard_normal((2, 700, 65)).astype("f4")
    e, f = np.exp(x.astype("f8")), np.exp(y.astype("f8"))
    case("vocabulary", 0, {"x": x, "y": y}, {"p": (e / e.sum(1, keepdims=True)).astype("f4"), "q": (f / f.sum(1, keepdims=True)).astype("f4")})
    so = compiled("vocabulary", targets="cuda:sm_80,cpu")
    for sm, more in (80, True), (86, False), (90, True), (120, False):
        for device in (), ("--device=cuda",):
            dlrun(so, *device, "--data", f"{DIR}/vocabulary", PTXSIM_SM=sm, PTXSIM_STATS=f"{DIR}/stats.json")
            ran = [k["kernel"] for k in json.load(open(f"{DIR}/stats.json"))["kernels"]]
            assert len(ran) == 2 and all(k.endswith("_shared_163k") == more for k in ran), (sm, ran)


@test
def without_a_driver():
    so = compiled("add")
    assert timed(so, sim=False)["device"] == "cpu"
    text = dlrun(so, "--data", f"{DIR}/add", sim=False)
    assert text.startswith("device: cpu\n") and "warning" not in text, text
    assert dlrun(so, "--data", f"{DIR}/add").startswith("device: cuda:0 ptxsim sm_80\n")
    text = dlrun(so, "--device=cuda", "--data", f"{DIR}/add", sim=False, status=1)
    assert "no GPU: libcuda.so.1" in text, text


@test
def older_drivers():
    """A driver without graphs and pools of memory runs models kernel by kernel, and says so; one without a function that all runs need is too old."""
    so = compiled("add")
    library = open(f"{BUILD}/ptxsim/libcuda.so.1", "rb").read()
    for names, fault in ((("cuGraphUpload", "cuMemAllocAsync"), "driver lacks cuGraphUpload, so kernels are launched one by one"), (("cuLaunchKernel",), "too old: it lacks cuLaunchKernel")):
        for name in names:
            library = library.replace(name.encode() + b"\0", name.encode()[:-1] + b"_\0")
        os.makedirs(f"{DIR}/older", exist_ok=True)
        with open(f"{DIR}/older/libcuda.so.1", "wb") as f:
            f.write(library)
        runs = len(names) > 1
        text = dlrun(so, "--device=cuda", "--data", f"{DIR}/add", status=0 if runs else 1, LD_LIBRARY_PATH=f"{DIR}/older")
        assert runs or fault in text, text
        text = dlrun(so, "--device=cuda", "--bench", "--seconds=0.1", status=0 if runs else 1, LD_LIBRARY_PATH=f"{DIR}/older")
        assert fault in text, text


@test
def instructions_of_new_gpus():
    """They widen halves while they add to floats, where LLVM knows of it."""
    model("widened", "g (float16[N,40] x, float[N,40] a, float16[N,40] y, float[N,40] b, float16[N,40] z) => (float[N,40] sum, float[N,40] less, float[N] squares)"
          " <int64[1] last = {1}> { u = Cast<to=1>(x)  v = Cast<to=1>(y)  w = Cast<to=1>(z)"
          " sum = Add(u, a)  less = Sub(v, b)  squares = ReduceSumSquare<keepdims=0>(w, last) }")
    x, a, y, b, z = (rng(20 + i).standard_normal((3, 40)).astype(t) for i, t in enumerate(("f2", "f4", "f2", "f4", "f2")))
    case("widened", 0, {"x": x, "a": a, "y": y, "b": b, "z": z}, {"sum": x + a, "less": y - b, "squares": np.square(z.astype("f4")).sum(1)})
    text = open(compiled("widened", targets="cuda:sm_120", suffix=".ptx")).read()
    assert samples.llvm(BUILD) < 22 or all(f"{op}.rn.f32.f16" in text for op in ("add", "sub", "fma"))
    dlrun(compiled("widened", targets="cuda:sm_120"), "--device=cuda", "--data", f"{DIR}/widened", PTXSIM_SM=120)


def program(name, text):
    with open(f"{DIR}/{name}", "w") as f:
        f.write("#!/bin/sh\n" + text + "\n")
    os.chmod(f"{DIR}/{name}", 0o755)
    return f"{DIR}/{name}"


def modules_loaded(so, sm):
    text = dlrun(so, "--device=cuda", "--data", f"{DIR}/rows", PTXSIM_TRACE=1, PTXSIM_SM=sm)
    return text.count(": cuModuleLoadDataEx\n")


@test
def cubins_travel_with_the_ptx():
    """GPUs of that major capability get the cubin; the simulator takes none, and then gets the PTX."""
    write = program("ptxas", "while [ $# -gt 1 ]; do [ $1 = -o ] && out=$2; shift; done; grep -q '^.visible .entry' $1 && printf '\\177ELF is no code' >$out")
    so = compiled("rows", "--cubin=yes", f"--ptxas={write}", targets="cuda:sm_80,sm_86")
    assert open(so, "rb").read().count(b"\177ELF is no code") == 2
    loaded = [modules_loaded(so, sm) for sm in (80, 86, 89, 90)]
    used = modules_loaded(compiled("rows"), 80)
    assert loaded == [used + 1, used + 1, used + 1, used]


@test
def kernels_load_when_sizes_need_them():
    """Of a model with kernels for short and long rows, a run of short rows loads only theirs, before its launches."""
    so = compiled("rows")
    trace = dlrun(so, "--device=cuda", "--bench", "--dim", "N=8", "--seconds=0.05", PTXSIM_TRACE=1, PTXSIM_SM=80)
    kernels = open(so, "rb").read().count(b".visible .entry")
    loads = trace.count(": cuModuleLoadDataEx\n")
    assert 0 < loads < kernels, (loads, kernels)
    launch = trace.find(": cuGraphLaunch\n")
    assert 0 <= trace.rfind(": cuModuleLoadDataEx\n") < launch, "a kernel is loaded after the first launch"


@test
def without_ptxas():
    """No cubins unless they are asked for; then it is an error that there is no ptxas, or that it fails."""
    rest = {"sim": False, "CUDA_HOME": DIR + "/none"}
    compile = [BUILD + "/bin/dlcc", f"{DIR}/rows.onnx", "-o", f"{DIR}/cubin.so", "--target=cuda:sm_80"]
    assert "--ptxas=/none/ptxas: there is no such program" in run(*compile, "--cubin=yes", "--ptxas=/none/ptxas", status=1, **rest)
    broken = program("broken", "echo ptxas does not know sm_80; exit 1")
    text = run(*compile, "--cubin=yes", f"--ptxas={broken}", status=1, **rest)
    assert "failed with exit status 1" in text and "ptxas does not know sm_80" in text, text
    if not os.path.exists("/usr/local/cuda/bin/ptxas") and not shutil.which("ptxas"):
        assert "needs ptxas, which is not on PATH" in run(*compile, "--cubin=yes", status=1, **rest)
    assert not os.path.exists(f"{DIR}/cubin.so")
    assert "it is yes or no" in run(*compile, "--cubin=maybe", status=2, **rest)
    os.rename(broken, DIR + "/ptxas")
    if "--sanitize" not in FLAGS:
        os.mkdir(DIR + "/plain")
        run(*compile[:3], f"{DIR}/plain/cubin.so", *compile[4:], *FLAGS, **rest)
        plain = open(f"{DIR}/plain/cubin.so", "rb").read()
        run(*compile, *FLAGS, PATH=DIR + ":" + os.environ["PATH"], **rest)
        assert open(f"{DIR}/cubin.so", "rb").read() == plain


@test
def devices_that_are_not():
    so = compiled("add")
    assert "there is no such GPU; the last is cuda:0" in dlrun(so, "--device=cuda:3", "--bench", status=1)
    assert "it is auto, cpu, cuda or cuda:N" in dlrun(so, "--device=tpu", "--bench", status=1)
    plain = compiled("add", targets="cpu")
    assert "compiled without code for GPUs" in dlrun(plain, "--device=cuda", "--bench", status=1)
    assert timed(plain)["device"] == "cpu"


@test
def no_gpu_is_to_be_seen():
    so = compiled("add")
    for env in {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "-1"}, {"PTXSIM_DEVICES": 0}:
        assert dlrun(so, "--data", f"{DIR}/add", **env).startswith("device: cpu\n")
        assert "no GPU: CUDA_ERROR_NO_DEVICE" in dlrun(so, "--device=cuda", "--data", f"{DIR}/add", status=1, **env)


@test
def a_gpu_or_a_driver_older_than_the_code():
    """The CPU computes where nobody asked for a GPU; who did reads why not, with what the driver's compiler says."""
    so = compiled("add")
    text = dlrun(so, "--data", f"{DIR}/add", PTXSIM_SM=75)
    assert text.startswith("device: cpu\n") and "dlrun: warning: add: on the CPU: " in text and "this GPU is sm_75" in text, text
    ptx = open(compiled("add", suffix=".ptx")).read()
    for changed, said in (re.sub(r"\.version \S+", ".version 99.1", ptx), "UNSUPPORTED_PTX_VERSION.*Unsupported .version 99.1"), (ptx.replace("ld.global", "ld.glibal"), "INVALID_PTX.*line"):
        assert changed != ptx
        open(f"{DIR}/changed.ptx", "w").write(changed)
        env = {"PTXSIM_QUIET": 1, "PTXSIM_REPLACE": f"{DIR}/changed.ptx"}
        assert dlrun(so, "--data", f"{DIR}/add", **env).startswith("device: cpu\n")
        text = dlrun(so, "--device=cuda", "--data", f"{DIR}/add", status=1, **env)
        assert re.search("its driver does not take the kernels: CUDA_ERROR_" + said, text), text


@test
def the_same_bytes():
    if "--sanitize" in FLAGS:
        return  # sanitizers put the names of temporary files in
    one = open(compiled("rows"), "rb").read()
    assert one == open(compiled("rows", "--threads=1"), "rb").read()
    os.mkdir(f"{DIR}/elsewhere")
    shutil.copy(f"{DIR}/dense.onnx", f"{DIR}/elsewhere")
    for suffix in ".ptx", ".so", ".o":
        made = []
        for home in DIR, f"{DIR}/elsewhere":
            run("bash", "-c", f"cd {home} && {BUILD}/bin/dlcc dense.onnx -o dense{suffix} --target=cuda:sm_80,sm_90a {' '.join(FLAGS)}", HOME=home, TMPDIR=home)
            made.append(open(f"{home}/dense{suffix}", "rb").read())
        assert made[0] == made[1], suffix

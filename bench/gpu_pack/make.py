# SPDX-License-Identifier: Apache-2.0
"""Builds the GPU pack, what a machine with only a driver needs to check and time dlcc's code: make.py OUT.

    OUT/run.sh           runs all of it; results.json beside it
    OUT/bin/             dlrun; tool (tool.c); vectors (tests/ptxsim/check, linked for any driver)
    OUT/cases/NAME/      model.so and its reference data: models of tests/mutate, of ONNX's cases and of CORPUS
    OUT/bench/NAME.so    what is timed; NAME.fill, from which `tool fill` makes it where weights are large
    OUT/bench.txt        NAME|FLOP|bytes|dims, a line a measurement; the dims of a simulated run after another bar
    OUT/libraries.txt    gemm or conv|type|sizes as `tool` takes them, what cuBLAS and cuDNN are timed at; those of a simulated run
    OUT/sweep/           products, each as dlcc decides and with other tiles
    OUT/sweep.txt        NAME|whether a simulator runs it|its decision for sm_80|and for sm_90a
    OUT/tests/ptxsim/    the PTX of `vectors`

What is in cases, bench and sweep is compressed; run.sh takes it apart. Artifacts have code for sm_80, sm_90a and CPUs. Large weights are drawn where they are used, in the image of a constant: here they are one
number each, which stays one through packing, so the artifact is code and runs of a repeated word.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "mutate")]
import cases  # noqa: E402
import models  # noqa: E402
import samples  # noqa: E402
import suites  # noqa: E402

TARGETS = "cuda:sm_80,sm_90a,cpu:x86-64-v3"
LIMIT = 80 << 20
RUN = 1024  # words: shorter runs are copied

GEMM = "({0}[{1}] a, {0}[{2}] b) => ({0}[{3}] y) {{ y = MatMul(a, b) }}"
F, H, B = "float", "float16", "bfloat16"

# name, text, FLOP and bytes of a run, dims, dims of a simulated run (none: it is too long)
KERNELS = [
    *((f"gemm_{t}_{n}", GEMM.format(t, f"{n},{n}", f"{n},{n}", f"{n},{n}"), 2 * n ** 3, 0, "", None)
      for t in (F, H, B) for n in (4096, 8192)),
    *((f"gemm_{t}_any", GEMM.format(t, "M,K", "K,N", "M,N"), 2 * 8192 ** 3, 0, "M=8192 N=8192 K=8192", "M=33 N=40 K=64")
      for t in (F, H, B)),
    ("softmax", f"({F}[N,S] x) => ({F}[N,S] y) {{ y = Softmax<axis=1>(x) }}", 0, 8 * 65536 * 1024, "N=65536 S=1024", "N=7 S=300"),
    ("layer_norm", f"({F}[N,768] x, {F}[768] g, {F}[768] b) => ({F}[N,768] y) {{ y = LayerNormalization<axis=1>(x, g, b) }}",
     0, 8 * 65536 * 768, "N=65536", "N=5"),
    ("transpose", f"({F}[M,N] x) => ({F}[N,M] y) {{ y = Transpose<perm=[1,0]>(x) }}", 0, 8 * 8192 * 8192, "M=8192 N=8192", "M=70 N=33"),
    ("add", f"({F}[N] x, {F}[N] z) => ({F}[N] y) {{ y = Add(x, z) }}", 0, 12 << 28, "N=268435456", "N=1000"),
]
WIDTH, HEADS, SHARED = 128, 32, 8  # of attention: a head's width, heads, and heads that have keys and values


def attention(kind, heads):
    """HEADS query heads, SHARED of which or all have keys: of M rows and N keys."""
    split = ""
    if heads != SHARED:
        split = f"five = Constant<value_ints=[0,{SHARED},{heads // SHARED},-1,{WIDTH}]>() q5 = Reshape(q, five)"
        split += " one = Constant<value_ints=[2]>() k5 = Unsqueeze(k, one) v5 = Unsqueeze(v, one)"
    q, k, v, perm = ("q5", "k5", "v5", "0,1,2,4,3") if split else ("q", "k", "v", "0,1,3,2")
    end = f"four = Constant<value_ints=[0,{heads},-1,{WIDTH}]>() y = Reshape(o, four)" if split else "y = Identity(o)"
    return (f"({kind}[1,{heads},M,{WIDTH}] q, {kind}[1,{SHARED},N,{WIDTH}] k, {kind}[1,{SHARED},N,{WIDTH}] v) => ({kind}[1,{heads},M,{WIDTH}] y) {{"
            f" {split} t = Transpose<perm=[{perm}]>({k}) s = MatMul({q}, t) c0 = Constant<value_float=0.0883883>() c = CastLike(c0, q) x = Mul(s, c)"
            f" p = Softmax<axis=-1>(x) o = MatMul(p, {v}) {end} }}")


def attention_rows():
    """Prefill of as many rows as keys, and a step of decoding with a cache, as KERNELS has its own."""
    for kind, bits in ((F, 32), (H, 16), (B, 16)):
        for n in 512, 2048, 8192:
            yield f"prefill_{kind}_{n}", attention(kind, SHARED), 4 * SHARED * n * n * WIDTH, 0, f"M={n} N={n}", "M=20 N=33" if n == 512 else None
        for n in 1024, 16384:
            yield f"decode_{kind}_{n}", attention(kind, HEADS), 4 * HEADS * n * WIDTH, 2 * SHARED * n * WIDTH * bits // 8, f"M=1 N={n}", "M=1 N=150" if n == 1024 else None


def skinny_rows():
    """Few rows by a large matrix."""
    for kind, bits in ((F, 32), (H, 16), (B, 16)):
        for m in 1, 8, 32:
            yield f"skinny_{kind}_{m}", GEMM.format(kind, f"{m},4096", "4096,11008", f"{m},11008"), 2 * m * 4096 * 11008, 4096 * 11008 * bits // 8, "", None


CONVS = [  # of ResNet-50: channels, side of the image, filters, side of a filter, stride, pad
    (64, 56, 64, 3, 1, 1), (256, 56, 64, 1, 1, 0), (128, 56, 128, 3, 2, 1), (256, 14, 256, 3, 1, 1), (512, 7, 2048, 1, 1, 0)]
BATCH = 32
PRODUCTS = [  # rows, columns, terms: BERT-base at 16 by 128, Llama at 512 tokens, ResNet-50 at 32 images
    (2048, 768, 768), (2048, 3072, 768), (512, 4096, 4096), (512, 11008, 4096), (6272, 256, 1024), (1568, 2048, 512)]
CHOICES = 4  # decisions tried of each, at most
SHAPES = [  # of a block: warps and fragments along m, warps and fragments along n
    (2, 4, 2, 8), (2, 4, 4, 8), (4, 4, 2, 8), (2, 2, 2, 4), (2, 4, 2, 4), (1, 2, 2, 2), (1, 2, 4, 2)]
STARTS = ("resnet50",)  # models of FULL whose start is timed
LLAMA = "batch_size=1 sequence_length={} past_sequence_length={}"
FULL = [  # models of BENCH/graphs: name, dims of measurements with their GFLOP
    ("resnet50", {"batch=1": 8.2, "batch=32": 8.2 * 32}),
    ("bert_base", {"batch=1 seq=128": 22.3, "batch=16 seq=128": 22.3 * 16}),
    ("mobilenet_v2", {"batch=1": 0.60, "batch=32": 0.60 * 32}),
    ("llama_0_5b", {LLAMA.format(512, 0): 401, LLAMA.format(1, 1024): 0.78}),
]
FORMATS = {"": [], "_tf32": ["--tf32"], **{f"_{t}": [f"--activations-as={t}", f"--weights-as={t}"] for t in ("f16", "bf16")}}


def conv_rows():
    """The convolutions as KERNELS has its own."""
    for c, image, f, side, stride, pad in CONVS:
        out = (image + 2 * pad - side) // stride + 1
        for kind in F, H:
            text = (f"({kind}[N,{c},{image},{image}] x, {kind}[{f},{c},{side},{side}] w) => ({kind}[N,{f},{out},{out}] y) {{"
                    f" y = Conv<strides=[{stride},{stride}], pads=[{pad},{pad},{pad},{pad}]>(x, w) }}")
            yield (f"conv_{kind}_{c}x{image}_{f}x{side}", text, 2 * BATCH * out * out * f * c * side * side, 0, f"N={BATCH}", None)


def libraries(out):
    """What NVIDIA's libraries are timed at: products and convolutions of KERNELS and CONVS."""
    with open(out + "/libraries.txt", "w") as lines:
        for kind in "f32", "tf32", "f16", "bf16":
            for n in 4096, 8192:
                lines.write(f"gemm|{kind}|{n} {n} {n}|{'33 40 24' if n == 4096 else 'no'}\n")
        for i, (c, image, f, side, stride, pad) in enumerate(CONVS):
            for kind in "f32", "tf32", "f16", "bf16":
                lines.write(f"conv|{kind}|{BATCH} {c} {image} {image} {f} {side} {stride} {pad}|{'no' if i else '2 8 9 7 5 3 2 1'}\n")


def compiled(build, source, out, *options, targets=TARGETS):
    subprocess.run([build + "/bin/dlcc", source, "-o", out, "--name=model", "--target=" + targets, *samples.unoptimised_share(), *options], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["strip", "-g", out], check=True)
    header = out[:-3] + ".h"
    if os.path.exists(header):
        os.remove(header)


# ---- Cases ----

def own_cases(build, out, names, suffix="", targets=TARGETS):
    """Cases of models.py; with SUFFIX in their names, for other TARGETS."""
    from onnx.reference import ReferenceEvaluator

    for name in names:
        text, sets, *more = models.MODELS[name]
        model, rng = samples.model("m " + text), np.random.default_rng(2026)
        folder = f"{out}/own-{name}{suffix}"
        os.makedirs(folder)
        onnx.save(model, folder + "/model.onnx")
        compiled(build, folder + "/model.onnx", folder + "/model.so", *more, targets=targets)
        os.remove(folder + "/model.onnx")
        types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
        for label, inputs in sets.items():
            # An index astray is an error, and sums of what cancels are noise to the reference's order.
            if label.startswith("astray") or any(spec[0] == "opposed" for spec in inputs.values()):
                continue
            values = {k: models.value(rng, spec, types[k]) for k, spec in inputs.items()}
            results = dict(zip([o.name for o in model.graph.output], ReferenceEvaluator(model).run(None, values)))
            data = f"{folder}/test_data_set_{len(os.listdir(folder)) - 1}"
            samples.tensors(data, "input", values)
            samples.tensors(data, "output", results)


def size_of(folder):
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names)


def listed_cases(corpus, share):
    """(suite, case): one in SHARE of those that pass on the simulated GPU, of CORPUS's models the small ones, and all that are
    too long for it."""
    heavy = dict(suites.rows_of("heavy.txt"))
    for suite, found in cases.index(corpus, ["onnx", "small", "models"]).items():
        with open(os.path.join(ROOT, "tests", "passing", suite + ".ptx.txt")) as f:
            passing = [line.strip() for line in f]
        chosen = set(passing[::1 if suite == "models" else share])
        for case in found:
            small = suite != "models" or size_of(case.dir) <= 1 << 20
            if f"{suite}/{case.name}" in heavy or (case.name in chosen and small):
                yield suite, case


def compiled_case(build, out, noise, suite, case):
    folder = f"{out}/{suite}-{case.name.replace('/', '-')}"
    os.makedirs(folder)
    compiled(build, case.dir + "/model.onnx", folder + "/model.so")
    sets = [data for data in os.listdir(case.dir) if data.startswith("test_data_set_")]
    for data in sets:
        shutil.copytree(os.path.join(case.dir, data), os.path.join(folder, data))
    if f"{suite}/{case.name}" in noise:
        with open(folder + "/case.json", "w") as f:
            json.dump({"noise": [float(noise[f"{suite}/{case.name}"])] * len(sets)}, f)


# ---- Weights that are drawn where they are used ----

def constant(t, number):
    """T, whose weights are a recipe, as one number: of a magnitude like theirs; its first few are its own."""
    kind, x, y = next(e.value for e in t.external_data if e.key == "recipe").split()
    value = max(abs(float(x)), abs(float(y))) / 2 or 0.01
    array = np.full(list(t.dims), value, onnx.helper.tensor_dtype_to_np_dtype(t.data_type))
    array.flat[:4] += np.array([number % 61, number // 61 % 61, 1, 2]) * value / 64
    t.CopyFrom(numpy_helper.from_array(array, t.name))


def constants(graph, folder):
    model = onnx.load(graph, load_external_data=False)
    for number, t in enumerate(model.graph.initializer):
        if any(e.key == "recipe" for e in t.external_data):
            constant(t, number)
    onnx.save(model, folder + "/model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=1024)


def vision_transformer(folder):
    """ViT-B/16 with weights of one number each."""
    width, heads, tokens, layers = 768, 12, 197, 12
    weights, lines = [], []

    def weight(name, shape, value):
        array = np.full(shape, value, np.float32)
        array.flat[:3] += np.array([len(weights), 1, 2], np.float32) * np.float32(value or 1) / 64
        weights.append(numpy_helper.from_array(array, name))
        return name

    def linear(x, name, n, k):
        lines.append(f"{name}m = MatMul({x}, {weight(name + 'w', [k, n], 0.02)}) {name} = Add({name}m, {weight(name + 'b', [n], 0.01)})")
        return name

    def norm(x, name):
        lines.append(f"{name} = LayerNormalization<axis=-1>({x}, {weight(name + 'g', [width], 1)}, {weight(name + 'c', [width], 0.01)})")
        return name

    weight("patch", [width, 3, 16, 16], 0.02)
    weight("place", [1, tokens, width], 0.02)
    weight("token", [1, 1, width], 0.02)
    lines.append(f"""a0 = Conv<strides=[16,16]>(x, patch) s0 = Constant<value_ints=[0,{width},-1]>() a1 = Reshape(a0, s0) a2 = Transpose<perm=[0,2,1]>(a1)
        s1 = Shape<start=0,end=1>(x) s2 = Constant<value_ints=[1,{width}]>() s3 = Concat<axis=0>(s1, s2) tk = Expand(token, s3) a3 = Concat<axis=1>(tk, a2) h = Add(a3, place)
        split = Constant<value_ints=[0,0,{heads},-1]>() joined = Constant<value_ints=[0,0,-1]>() scale = Constant<value_float=0.125>() root = Constant<value_float=1.41421356>()
        half = Constant<value_float=0.5>() one = Constant<value_float=1.0>()""")
    at = "h"
    for i in range(layers):
        n = norm(at, f"n{i}")
        for part, perm in ("q", "0,2,1,3"), ("k", "0,2,3,1"), ("v", "0,2,1,3"):
            linear(n, f"{part}{i}", width, width)
            lines.append(f"{part}{i}r = Reshape({part}{i}, split) {part}{i}t = Transpose<perm=[{perm}]>({part}{i}r)")
        lines.append(f"""e{i} = MatMul(q{i}t, k{i}t) f{i} = Mul(e{i}, scale) p{i} = Softmax<axis=-1>(f{i}) o{i} = MatMul(p{i}, v{i}t) u{i} = Transpose<perm=[0,2,1,3]>(o{i}) w{i} = Reshape(u{i}, joined)""")
        lines.append(f"x{i} = Add({at}, {linear(f'w{i}', f'd{i}', width, width)})")
        g = linear(norm(f"x{i}", f"m{i}"), f"g{i}", 4 * width, width)
        lines.append(f"ga{i} = Div({g}, root) gb{i} = Erf(ga{i}) gc{i} = Add(gb{i}, one) gd{i} = Mul({g}, gc{i}) ge{i} = Mul(gd{i}, half)")
        lines.append(f"y{i} = Add(x{i}, {linear(f'ge{i}', f'z{i}', width, 4 * width)})")
        at = f"y{i}"
    lines.append(f"y = Identity({norm(at, 'last')})")
    inputs = "".join(f", float{list(w.dims)} {w.name}" for w in weights)
    model = samples.model(f"m (float[N,3,224,224] x{inputs}) => (float[N,{tokens},{width}] y) {{ {' '.join(lines)} }}")
    del model.graph.input[1:]
    model.graph.initializer.extend(weights)
    onnx.save(model, folder + "/model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=1024)


def recipe(path, out):
    """The file PATH as what `tool fill` reads: bytes as they are, and runs of one word."""
    data = np.memmap(path, np.uint8)
    words = data[:len(data) // 4 * 4].view(np.uint32)
    edges = np.flatnonzero(words[1:] != words[:-1]) + 1
    starts = np.concatenate(([0], edges))
    lengths = np.diff(np.concatenate((starts, [len(words)])))
    at = 0
    with open(out, "wb") as f:
        def raw(end):
            if end > at:
                f.write(b"raw %d 0\n" % (end - at) + data[at:end].tobytes())
        for k in np.flatnonzero(lengths >= RUN):
            start, word = int(starts[k]) * 4, int(words[starts[k]])
            raw(start)
            at = start + int(lengths[k]) * 4
            kind = b"zero" if not word else b"f16" if word >> 16 == word & 0xffff else b"f32"
            f.write(b"%s %d %08x\n" % (kind, at - start, word))
        raw(len(data))


# ---- All of it ----

def bench(build, out, folder, tiny):
    rows = []
    os.makedirs(out + "/bench")
    for name, text, flop, moved, dims, simulated in [*KERNELS, *conv_rows(), *attention_rows(), *skinny_rows()]:
        if tiny and simulated is None:
            continue
        onnx.save(samples.model("m " + text), f"{folder}/m.onnx")
        compiled(build, f"{folder}/m.onnx", f"{out}/bench/{name}.so")
        rows.append(f"{name}|{flop}|{moved}|{dims}|{'no' if simulated is None else simulated}")
    graphs = os.path.join(os.environ.get("BENCH", os.path.join(ROOT, "..", "shared", "bench")), "graphs")
    for name, measured in [] if tiny else [("vit", {"N=1": 35.1, "N=32": 35.1 * 32}), *FULL]:
        if name == "vit":
            vision_transformer(folder)
        elif not os.path.exists(f"{graphs}/{name}.onnx"):
            print(f"{name}: not in {graphs}")
            continue
        else:
            constants(f"{graphs}/{name}.onnx", folder)
        for suffix, options in FORMATS.items():
            compiled(build, folder + "/model.onnx", folder + "/full.so", *options)
            recipe(folder + "/full.so", f"{out}/bench/{name}{suffix}.fill")
            if name in STARTS and not suffix and shutil.which("ptxas"):
                compiled(build, folder + "/model.onnx", folder + "/full.so", "--cubin=yes")
                recipe(folder + "/full.so", f"{out}/bench/{name}_cubin.fill")
            rows += [f"{name}{suffix}|{gflop * 1e9:.0f}|0|{dims}|no" for dims, gflop in measured.items()]
    if tiny:
        rng = np.random.default_rng(0)
        w = np.full((256, 64), 0.05, np.float32)
        w[0, :9] = rng.standard_normal(9)
        model = samples.model(f"m ({F}[N,256] x) => ({F}[N,64] y) <{F}[256,64] w> {{ y = MatMul(x, w) }}")
        model.graph.ClearField("initializer")
        model.graph.initializer.append(numpy_helper.from_array(w, "w"))
        onnx.save(model, folder + "/m.onnx")
        compiled(build, folder + "/m.onnx", folder + "/full.so")
        recipe(folder + "/full.so", out + "/bench/filled.fill")
        rows.append("filled|32768|0|N=1|N=3")
    with open(out + "/bench.txt", "w") as f:
        f.writelines(row + "\n" for row in rows)


def decided(build, source, *options):
    """The lines of dlcc's decisions for sm_80 and sm_90a on a model of one product; none if it refuses the options."""
    r = subprocess.run([build + "/bin/dlcc", source, "--target=" + TARGETS, "--dump-ir=decide", *options], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True)
    lines = [line.split("  ;")[0] for line in r.stdout.splitlines() if r.returncode == 0]
    return [line for target in ("sm_80", "sm_90a") for line in lines if f" {target}: " in line]


def with_shape(line, rows, shape):
    """LINE, a decision on a product of ROWS rows, with the warps and fragments of SHAPE."""
    warps_m, fragments_m, warps_n, fragments_n = shape
    line = re.sub(r"warp\d+ reg\d+ mma16 n", f"warp{warps_m} reg{fragments_m} mma16 n", line)
    line = re.sub(r"warp\d+ reg\d+ mma8 k", f"warp{warps_n} reg{fragments_n} mma8 k", line)
    blocks = -(-rows // (16 * warps_m * fragments_m))
    return line if blocks % 8 == 0 else line.replace(" raster 8", "")


def sweep(build, out, folder, tiny):
    """Products, each as dlcc decides and with other tiles, an artifact each."""
    jobs, rows = [], []
    os.makedirs(out + "/sweep")
    for kind in (H,) if tiny else (F, H, B):
        for m, n, k in [(64, 96, 64)] if tiny else PRODUCTS:
            source = f"{folder}/{kind}_{m}_{n}_{k}.onnx"
            onnx.save(samples.model("m " + GEMM.format(kind, f"{m},{k}", f"{k},{n}", f"{m},{n}")), source)
            tried = [decided(build, source)]
            for shape in SHAPES:
                lines = [with_shape(line, m, shape) for line in tried[0]]
                with open(f"{folder}/tried.schedule", "w") as f:
                    f.writelines(line + "\n" for line in lines)
                if len(tried) < CHOICES and lines not in tried and decided(build, source, f"--schedule={folder}/tried.schedule"):
                    tried.append(lines)
            for i, lines in enumerate(tried):
                name = f"{kind}_{m}_{n}_{k}_{i}"
                with open(f"{folder}/{name}.schedule", "w") as f:
                    f.writelines(line + "\n" for line in lines)
                jobs.append((source, f"{out}/sweep/{name}.so", f"--schedule={folder}/{name}.schedule"))
                rows.append(f"{name}|{'yes' if tiny else 'no'}|{'|'.join(lines)}\n")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: compiled(build, *job), jobs))
    with open(out + "/sweep.txt", "w") as f:
        f.writelines(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", nargs="?", default="build/gpu-pack")
    parser.add_argument("--build", default="build")
    parser.add_argument("--corpus", default=cases.CORPUS)
    parser.add_argument("--share", type=int, default=24, help="one case in so many")
    parser.add_argument("--list", action="store_true", help="only say which cases of others would be in it: SUITE/NAME, and the folder")
    parser.add_argument("--tiny", action="store_true", help="only what a test of the pack needs")
    options = parser.parse_args()
    if options.list:
        for suite, case in listed_cases(options.corpus, options.share):
            print(f"{suite}/{case.name} {case.dir}")
        return 0
    build, out = os.path.abspath(options.build), os.path.abspath(options.out)
    work = out + ".work"
    for folder in out, work:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    shutil.copytree(build + "/gpu-pack-bin", out + "/bin")
    for script in "run.sh", "torch_peer.py":
        shutil.copy(os.path.join(ROOT, "bench", "gpu_pack", script), out)
    for path in [p for folder in ("cuda",) for p in sorted(os.listdir(f"{ROOT}/tests/ptxsim/{folder}")) if p.endswith(".ptx")]:
        os.makedirs(out + "/tests/ptxsim/cuda", exist_ok=True)
        shutil.copy(f"{ROOT}/tests/ptxsim/cuda/{path}", f"{out}/tests/ptxsim/cuda/{path}")
    own_cases(build, out + "/cases", ["map", "softmax-warp", "matmul"] if options.tiny else models.MODELS)
    own_cases(build, out + "/cases", ["softmax-warp", "matmul"] if options.tiny else models.MODELS, "-sm_80", "cuda:sm_80,cpu:x86-64-v3")
    if not options.tiny:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            noise = suites.noises()
            list(pool.map(lambda of: compiled_case(build, out + "/cases", noise, *of), listed_cases(options.corpus, options.share)))
    bench(build, out, work, options.tiny)
    sweep(build, out, work, options.tiny)
    libraries(out)
    subprocess.run(["gzip", "-9nr", *(f"{out}/{part}" for part in ("cases", "bench", "sweep"))], check=True)
    shutil.rmtree(work)
    size = size_of(out)
    print(f"{out}: {len(os.listdir(out + '/cases'))} cases, {size / 2 ** 20:.1f} MiB")
    return size > LIMIT and f"that is more than {LIMIT >> 20} MiB"


if __name__ == "__main__":
    sys.exit(main())

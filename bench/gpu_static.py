#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures code for GPUs without a GPU: registers, shared memory, occupancy, and the SASS of each kernel's inner loop.

    bench/gpu_static.py [--sm NAME] [--ptxas FILE] [--opcodes] [MODEL.onnx ...]

Prints a table of the kernels of each model, as ptxas compiles them. Without models these are the models of bench/run.py whose
files exist, and a GEMM of fp32. Then it prints how long the loops of products and attentions keep each pipe of an SM busy, and compares GEMMs of fp16 with Triton's for the same tile, compiled by the same ptxas. The
inner loop of a kernel is the innermost loop with most multiplications, or, if nothing is multiplied, with most loads. Ends with
status 1 if a kernel spills, or if a GEMM's loop has more instructions per multiplication than Triton's. Triton and nvdisasm are
installed from bench/gpu_requirements.txt to build/gpu-venv (make gpu-static).
"""
import argparse, glob, math, os, re, shutil, subprocess, sys, tempfile
from collections import Counter, namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

Kernel = namedtuple("Kernel", "name nodes threads registers static dynamic spills occupancy code loop")

# tile of M, N, K, warps, stages: options of Triton's kernel
TILES = [(128, 128, 32, 4, 4), (128, 256, 32, 8, 3)]
# dlcc chooses its tile by the sizes: the first of these GEMMs for which it chooses Triton's tile is compared.
SIZES = [(4096, 4096, 4096), (2048, 2048, 2048), (8192, 8192, 4096), (1024, 1024, 1024), (1536, 2304, 1024)]
MULTIPLIES = "HMMA", "IMMA", "DMMA", "FFMA", "HFMA2", "DFMA"
LOADS = "LDG", "LDS", "LDSM", "LDGSTS"


def run(*command, log=False):
    """The output of the command; LOG: with stderr."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout + done.stderr if log else done.stdout


# ---- SASS ----

def functions(sass):
    """{kernel: [(label, None, None) or (None, opcode, operands), ...]}, in the order of the text."""
    found, lines = {}, None
    for line in sass.splitlines():
        if m := re.match(r"\.text\.(\S+):", line):
            lines = found.setdefault(m[1], [])
        elif m := re.match(r"(\.L_x?_?\d+):", line):
            if lines is not None:
                lines.append((m[1], None, None))
        elif m := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)", line):
            if lines is not None and "@!PT" not in line and m[1] != "NOP":
                lines.append((None, m[1], m[2]))
    return found


def opcode(name):
    return name.split(".")[0]


def inner_loop(lines):
    """The opcodes of the inner loop, from its label to the branch back; [] if there is none."""
    labels = {label: i for i, (label, _, _) in enumerate(lines) if label}
    loops = set()
    for i, (_, op, rest) in enumerate(lines):
        target = op and opcode(op) == "BRA" and re.search(r"`\((\.L_x?_?\d+)\)", rest)
        # A branch to itself ends a kernel.
        if target and labels.get(target[1], i) < i - 1:
            loops.add((labels[target[1]], i + 1))
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]

    def weight(span):
        ops = Counter(opcode(op) for _, op, _ in lines[slice(*span)] if op)
        return tuple(ops[m] for m in MULTIPLIES) + (sum(ops[m] for m in LOADS),)
    return [op for _, op, _ in lines[slice(*max(inner, key=weight))] if op] if inner else []


# Clocks of an SM for one instruction of a warp, by the words after its name, of pipes that have one rate on all GPUs.
BYTES_A_CLOCK = 128  # of shared memory
MUFU_LANES, SCHEDULERS = 16, 4
WIDTHS = {"128": 512, "64": 256, "4": 512, "2": 256}  # bytes of a warp's access: LDS.128, LDSM.16.M88.4, LDGSTS.E.BYPASS.128
TERMS = {"16816": 2048, "1688": 1024, "16832": 4096, "8816": 1024, "16864": 8192}  # multiply-adds: HMMA.16816.F32


def pipes(gpu, loop):
    """{pipe: clocks that it needs for one iteration of the loop by one warp}"""
    clocks = Counter()
    products = 2 ** round(math.log2(gpu["f16"] / gpu["f32"] * gpu["lanes"]))  # multiply-adds of f16 in a clock
    for op in loop:
        words = op.split(".")
        clocks["issue"] += 1 / SCHEDULERS
        if words[0] in ("HMMA", "IMMA"):
            rate = products * (2 if words[0] == "IMMA" else 0.5 if "TF32" in words else 1)
            clocks["tensor"] += next((TERMS[w] for w in words if w in TERMS), 0) / rate
        elif words[0] in ("LDS", "STS", "LDSM", "LDGSTS"):
            clocks["shared"] += next((WIDTHS[w] for w in words[1:] if w in WIDTHS), BYTES_A_CLOCK) / BYTES_A_CLOCK
        elif words[0] == "MUFU":
            clocks["special"] += 32 / MUFU_LANES
        elif words[0] in ("FFMA", "FMUL", "FADD"):
            clocks["fma"] += 32 / gpu["lanes"]
    return clocks


def multiplies(loop):
    """The opcode that the loop multiplies with, and how often it occurs."""
    ops = Counter(map(opcode, loop))
    return next(((m, ops[m]) for m in MULTIPLIES if ops[m]), ("", 0))


# ---- PTX ----

class Tools:
    def __init__(self, options):
        self.build, self.ptxas, self.target = options.build, options.ptxas, options.sm
        found = glob.glob(os.path.join(ROOT, "build", "gpu-venv", "lib", "python*", "site-packages", "nvidia", "cu13", "bin", "nvdisasm"))
        if not found:
            sys.exit("no nvdisasm in build/gpu-venv: make gpu-static installs it")
        self.nvdisasm = found[0]
        self.folder = tempfile.TemporaryDirectory()
        words = run(os.path.join(self.build, "tests", "tools", "tables"), self.target).split()
        self.gpu = dict(zip(words[1::2], map(int, words[2::2])))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def occupancy(self, threads, registers, shared):
        """Resident threads of an SM as a fraction of the most possible; a warp's registers are allocated in units of 256."""
        warps = -(-threads // 32)
        blocks = min(self.gpu["threads"] // (warps * 32), self.gpu["registers"] // (-(-registers * 32 // 256) * 256 * warps),
                     self.gpu["shared"] // shared if shared else 1 << 20)
        return blocks * warps * 32 / self.gpu["threads"]

    def kernels(self, ptx, dynamic=None, threads=None):
        """The kernels of a PTX module."""
        with open(self.path("k.ptx"), "w") as f:
            f.write(ptx)
        log = run(self.ptxas, "-v", f"-arch={self.target}", "-o", self.path("k.cubin"), self.path("k.ptx"), log=True)
        code = functions(run(self.nvdisasm, "-c", self.path("k.cubin")))
        found = []
        for name, text in re.findall(r"Function properties for (\w+)\n(.*?)(?=ptxas info\s+: (?:Function|Compiling)|\Z)", log, re.S):
            entry = re.search(rf"((?://[^\n]*\n|\s|\.extern[^\n]*\n)*)\.visible \.entry {name}\(.*?\{{", ptx, re.S)
            spills = sum(map(int, re.findall(r"(\d+) bytes spill", text)))
            registers = int(re.search(r"Used (\d+) registers", text)[1])
            static = int((re.search(r"(\d+) bytes smem", text) or [0, 0])[1])
            nodes = re.findall(r"// (.*\(.*\).*)", entry[1])
            of_threads = threads or int((re.search(r"\.(?:req|max)ntid (\d+)", entry[0]))[1])
            more = dynamic if dynamic is not None else int((re.search(r"// (\d+) bytes of dynamic", entry[1]) or [0, 0])[1])
            found.append(Kernel(name, nodes[-1] if nodes else "", of_threads, registers, static, more, spills,
                                self.occupancy(of_threads, registers, static + more), code[name], inner_loop(code[name])))
        return found

    def compiled(self, model, *options):
        out = self.path("model.ptx")
        run(os.path.join(self.build, "bin", "dlcc"), model, "-o", out, f"--target=cuda:{self.target}", *options)
        return self.kernels(open(out).read())


# ---- Tables ----

def row(kernel, name):
    ops = Counter(map(opcode, kernel.loop))
    by, times = multiplies(kernel.loop)
    ratio = f"{each(kernel):.2f} a {by}" if times else ""
    return (f"| {name} | {kernel.threads} | {kernel.registers} | {kernel.static} + {kernel.dynamic} | {kernel.spills} | {100 * kernel.occupancy:.0f} | "
            f"{len(kernel.loop)} | {times or ''} | {ratio} | {ops['LDSM']} + {ops['LDS']} | {ops['LDGSTS']} + {ops['LDG']} | {ops['BAR']} |")


HEAD = """| kernel | threads | registers | shared | spills | occupancy % | loop | multiply | instructions | LDSM + LDS | LDGSTS + LDG | BAR |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def model_table(tools, label, model):
    print(f"\n## {label}\n\n{HEAD}")
    seen, spills = Counter(), 0
    for kernel in tools.compiled(model):
        spills += kernel.spills > 0
        shape = row(kernel, ""), kernel.nodes.split("(")[-1]
        seen[shape] += 1
        if seen[shape] == 1:
            first = kernel.nodes.split(", ")[0].replace("|", "/")
            print(row(kernel, first[:60] or kernel.name), flush=True)
    again = sum(seen.values()) - len(seen)
    print(f"\n{sum(seen.values())} kernels" + (f", {again} of which have the figures of one above." if again else "."))
    return [f"{label}: {spills} kernels spill"] if spills else []


def gemm_model(path, m, n, k, dtype="FLOAT16"):
    from onnx import TensorProto, helper, save

    info = lambda name, *shape: helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape)
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "gemm", [info("a", m, k), info("b", k, n)], [info("c", m, n)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def attention_model(path, d, rows=2048):
    """Attention of ROWS queries and keys, 16 heads of D columns."""
    from onnx import TensorProto, helper, save

    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, (1, 16, rows, d)) for name in "qkvy"]
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["y"])], "attention", infos[:3], infos[3:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


def opcodes(name, kernel):
    parts = Counter(map(opcode, kernel.loop))
    print(f"\n{name}: " + ", ".join(f"{n} {op}" for op, n in parts.most_common()))


def of_tile(tools, threads, mmas, turn):
    """dlcc's kernel with THREADS threads, MMAS matrix instructions in its loop and TURN bytes of operands in a stage of its pipeline, and
    True; or another kernel, and False."""
    first = None
    for m, n, k in SIZES:
        kernel = max(tools.compiled(gemm_model(tools.path("gemm.onnx"), m, n, k)), key=lambda k: multiplies(k.loop)[1])
        by, times = multiplies(kernel.loop)
        if kernel.threads == threads and by == "HMMA" and times == mmas and (kernel.static + kernel.dynamic) % turn == 0:
            return kernel, True
        first = first or kernel
    return first, False


def each(kernel):
    """Instructions of the loop per multiplication."""
    times = multiplies(kernel.loop)[1]
    return len(kernel.loop) / times if times else float("inf")


def longer(name, ours, peer, theirs):
    """The faults of OURS, called NAME, in comparison with THEIRS, called PEER: a list of texts."""
    if not multiplies(theirs.loop)[1]:
        return [f"{peer} has no loop"]
    if each(ours) > each(theirs):
        return [f"{name} has {each(ours):.2f} instructions a multiplication, {peer} {each(theirs):.2f}"]
    return [f"{name} spills"] if ours.spills else []


PIPES = "issue", "tensor", "fma", "special", "shared"


def pipe_table(tools):
    """The loops of products and attentions: how long each pipe is busy, as a fraction of the one that multiplies."""
    print("\n## Clocks of an SM's pipes, of an iteration of the loop by a warp\n\n| kernel | instructions a multiplication | "
          + " | ".join(PIPES) + " | fullest |\n|---|---:|" + "---:|" * (len(PIPES) + 1))
    product = lambda dtype: gemm_model(tools.path("gemm.onnx"), 4096, 4096, 4096, dtype)  # noqa: E731
    for label, model, *options in (("product f16", lambda: product("FLOAT16")), ("product bf16", lambda: product("BFLOAT16")),
                                   ("product tf32", lambda: product("FLOAT"), "--tf32"), ("product f32", lambda: product("FLOAT")),
                                   ("attention f16, 64 columns", lambda: attention_model(tools.path("a.onnx"), 64)),
                                   ("attention f16, 128 columns", lambda: attention_model(tools.path("a.onnx"), 128))):
        kernel = max(tools.compiled(model(), *options), key=lambda k: multiplies(k.loop)[1])
        clocks = pipes(tools.gpu, kernel.loop)
        by = clocks["tensor"] or clocks["fma"]
        print(f"| {label} | {each(kernel):.2f} | " + " | ".join(f"{clocks[p]:.1f} ({clocks[p] / by:.2f})" for p in PIPES)
              + f" | {max(PIPES, key=lambda p: clocks[p])} |", flush=True)


def peers(tools, with_opcodes):
    """Compares GEMMs with Triton's; returns a list of faults."""
    print(f"\n## GEMM of fp16, beside Triton's\n\n{HEAD}")
    loops, wrong = [], []
    for bm, bn, bk, warps, stages in TILES:
        made = run(os.path.join(ROOT, "build", "gpu-venv", "bin", "python3"), os.path.join(HERE, "triton_gemm.py"),
                   str(tools.gpu["capability"]), *map(str, (bm, bn, bk, warps, stages)))
        shared, _, ptx = made.partition("\n")
        theirs = tools.kernels(ptx, int(shared), warps * 32)[0]
        ours, same = of_tile(tools, 32 * warps, bm * bn * bk // (16 * 8 * 16) // warps, (bm + bn) * bk * 2)
        loops += [(f"Triton {bm}x{bn}x{bk}", theirs), ("dlcc" + (f" {bm}x{bn}x{bk}" if same else ", its own tile"), ours)]
        for name, kernel in loops[-2:]:
            print(row(kernel, name), flush=True)
        wrong += longer(*loops[-1], *loops[-2])
    for name, kernel in loops if with_opcodes else ():
        opcodes(name, kernel)
    return wrong


def default_models(tools):
    import run as bench

    for name in "bert_base", "resnet50":
        folder = bench.materialise(name, tools.build)
        if folder:
            yield name, os.path.join(folder, "model.onnx")
        else:
            print(f"\n{name}: not under {bench.BENCH}")
    yield "GEMM of fp32, 1024 x 1024 x 1024", gemm_model(tools.path("f32.onnx"), 1024, 1024, 1024, "FLOAT")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="*")
    ap.add_argument("--sm", default="sm_80")
    ap.add_argument("--ptxas", default=shutil.which("ptxas") or os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "ptxas"))
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--opcodes", action="store_true", help="print the opcodes of the GEMMs' loops")
    a = ap.parse_args()
    tools = Tools(a)
    print(f"# Kernels for {a.sm}, as {run(a.ptxas, '--version').split('release ')[1].split(',')[0]} of ptxas compiles them")
    wrong = []
    for label, model in [(m, m) for m in a.models] or default_models(tools):
        wrong += model_table(tools, label, model)
    if not a.models:
        pipe_table(tools)
        wrong += peers(tools, a.opcodes)
    for line in wrong:
        print(f"FAIL: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

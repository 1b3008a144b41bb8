# SPDX-License-Identifier: Apache-2.0
"""Exported models of many families beside ONNX Runtime, with random weights: torchvision's, timm's and transformers'.

    families.py [--models N] [--seed S] [--threads T,...] [--seconds S] [--rounds N] [--build BUILD] [--target TARGET] [NAME ...]

The models of FAMILIES, and others up to N in number, which the seed draws from the sorted names of the packages; NAMEs, as torchvision/resnet18,
are taken as they are. A model that PyTorch does not export, or ONNX Runtime does not run, is replaced by the next. Both engines run in processes
of their own, in turns; the numbers are the least of all rounds, on one thread of the processor's time. For a model that is slower than with ONNX Runtime the longest kernels are listed.
It needs an environment of its own: python3 -m venv build/venv-torch; build/venv-torch/bin/pip install torch torchvision timm transformers onnx
onnxscript onnxruntime. Prints a table in Markdown."""

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys

import torch_models

HERE = os.path.dirname(os.path.abspath(__file__))
# whose convolutions, attentions or loops have once been slow
FAMILIES = ["torchvision/regnet_x_400mf", "torchvision/resnext50_32x4d", "torchvision/deeplabv3_mobilenet_v3_large", "torchvision/mobilenet_v3_small",
            "torchvision/mvit_v2_s", "torchvision/retinanet_resnet50_fpn", "torchvision/fcos_resnet50_fpn", "torchvision/keypointrcnn_resnet50_fpn",
            "timm/regnety_008", "timm/dpn48b", "timm/resnest14d", "timm/skresnet18"]
LIMIT = 900  # seconds for each step of a model
LISTED = 3   # kernels of a slow model
MEMORY = 14 << 30  # bytes of address space of an export: PyTorch takes 20 GB for mvit_v2_s where there are no bounds


def export(name, path):
    """Writes the model NAME to PATH."""
    import torch

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    module, inputs = torch_models.make(name)
    torch.onnx.export(module, inputs(1), path, opset_version=17, dynamo=False)


def output_of(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **more)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:200])
    return done.stdout


def numbers(command):
    return json.loads(next(line for line in output_of(command).splitlines() if line.startswith("{")))


def measure(o, name):
    """The row of the model NAME, as a dict."""
    path = os.path.join(o.build, "bench", "families", name.replace("/", "-") + ".onnx")
    so, row = path[:-4] + "so", {"name": name, "ms": {}}
    if not os.path.exists(path):
        output_of([sys.executable, os.path.abspath(__file__), "--export", path, name])
    peer = lambda threads: [sys.executable, os.path.join(HERE, "peer.py"), "onnxruntime", path, str(threads), str(o.seconds), "0", "{}", ""]
    ours = lambda threads: [os.path.join(o.build, "bin", "dlrun"), so, "--bench", "--device=cpu", f"--threads={threads}", f"--seconds={o.seconds}"]
    numbers(peer(1))
    try:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output_of([os.path.join(o.build, "bin", "dlcc"), path, "-o", so, *([f"--target={o.target}"] if o.target else [])])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        numbers(ours(1))
    except RuntimeError as e:
        return {"name": name, "fault": str(e)}
    row["compile_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    for threads in o.threads:
        found = [(numbers(ours(threads)), numbers(peer(threads))) for _ in range(o.rounds)]
        row["ms"][threads] = [min(x[k]["cpu_ms" if threads == 1 else "min_ms"] for x in found) for k in (0, 1)]
    if min(b / a for a, b in row["ms"].values()) < 1:
        row["kernels"] = output_of([*ours(1)[:2], "--profile", "--device=cpu", "--threads=1"]).splitlines()[:LISTED + 1]
    return row


def drawn(o):
    """The names after those of FAMILIES, by turns from each package."""
    kinds = ("torchvision", "timm", "transformers")
    draw = random.Random(o.seed)
    lists = [[f"{kind}/{m}" for m in draw.sample(sorted(torch_models.names(kind)), o.models)] for kind in kinds]
    return [name for names in zip(*lists) for name in names]


def report(rows, threads):
    for r in rows:
        if "fault" in r:
            print(f"{r['name']}: {r['fault']}\n")
    rows = [r for r in rows if "ms" in r]
    print("| model |" + "".join(f" dlcc ms, {t} thread{'s' * (t > 1)} | ONNX Runtime ms | ratio |" for t in threads) + " compile s |\n|---|" + "---:|" * (3 * len(threads) + 1))
    for r in sorted(rows, key=lambda r: min(b / a for a, b in r["ms"].values())):
        print(f"| {r['name']} |" + "".join(f" {a:.2f} | {b:.2f} | {b / a:.2f} |" for a, b in r["ms"].values()) + f" {r['compile_s']:.1f} |")
    for t in threads:
        ratios = [r["ms"][t][1] / r["ms"][t][0] for r in rows if r["ms"][t][1] > 1]
        if ratios:
            print(f"\n{t} thread{'s' * (t > 1)}: geometric mean of the {len(ratios)} above 1 ms {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}.")
    seconds = sorted(r["compile_s"] for r in rows)
    if rows:
        print(f"CPU seconds to compile: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f}.")
    for r in rows:
        if "kernels" in r:
            print(f"\n{r['name']}:\n\n    " + "\n    ".join(r["kernels"]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--models", type=int, default=40)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2], help="1,2")
    p.add_argument("--seconds", type=float, default=1, help="of each engine and round")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"))
    p.add_argument("--target", help="of dlcc; else this processor")
    p.add_argument("--export", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.export:
        export(o.names[0], o.export)
        return
    os.makedirs(os.path.join(o.build, "bench", "families"), exist_ok=True)
    rows = []
    for name in o.names or FAMILIES + drawn(o):
        if len(rows) == o.models:
            break
        try:
            rows.append(measure(o, name))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        except Exception as e:
            print(f"{name}: {e}", file=sys.stderr, flush=True)
    report(rows, o.threads)


if __name__ == "__main__":
    main()

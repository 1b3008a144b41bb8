# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="dlcc") beside inductor with freezing, and beside eager: torchvision's and timm's models with random weights.

    torch_models.py [--models N] [--seed S] [--most MILLIONS] [--threads T] [--seconds S] [--clock wall|cpu] [--answers] [NAME ...]

N models, half of them from each, of at most MILLIONS of parameters, are drawn by the seed from the sorted names; NAMEs, as torchvision/resnet18, are
taken as they are. Each runs in a process of its own: with a dynamic batch of 2 and 3 images, compiled once, beside eager, and then, without
--answers, at batch 1 for times, all in turns; --clock=cpu takes the processor's, for a machine that others use, too. It needs torch, torchvision,
timm, onnx and onnxscript in its own environment, and dlcc on PATH and in PYTHONPATH. Prints a table in Markdown. The status is 1 if results differ
or a batch was compiled more than once."""

import argparse
import copy
import functools
import itertools
import json
import math
import os
import random
import subprocess
import sys
import time

TOLERANCE = 1e-3  # of results, relative to the largest element: the sums of deep networks are in another order
SIZE = 224   # pixels, where the model does not name its own
TOKENS = 64  # of a text


def names(kind):
    """The names of all models of KIND, a package, that make() makes."""
    if kind == "torchvision":
        import torchvision

        return torchvision.models.list_models(module=torchvision.models)
    if kind == "transformers":
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

        return list(MODEL_MAPPING_NAMES)
    import timm

    return timm.list_models()


def small_config(model):
    """transformers' configuration of MODEL with few layers and narrow ones: many have billions of parameters."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(model)
    most = {"vocab_size": 8192, "hidden_size": 256, "d_model": 256, "intermediate_size": 1024, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024, "d_ff": 1024,
            "num_hidden_layers": 4, "encoder_layers": 4, "decoder_layers": 4, "num_layers": 4, "num_attention_heads": 8, "encoder_attention_heads": 8,
            "decoder_attention_heads": 8, "num_heads": 8, "num_key_value_heads": 8, "head_dim": 32, "d_kv": 32, "embedding_size": 256, "n_embd": 256,
            "n_layer": 4, "n_head": 8, "num_experts": 8, "num_local_experts": 8}
    for key, value in most.items():
        now = getattr(config, key, None)
        if isinstance(now, int) and now > value:
            setattr(config, key, value)
    for key in ("layer_types", "sliding_window"):  # one for each layer, or longer than the text
        if getattr(config, key, None):
            setattr(config, key, config.layer_types[:config.num_hidden_layers] if key == "layer_types" else None)
    config.use_cache, config.return_dict = False, False
    return config


def make(name):
    """The module NAME, and a function that gives its inputs, a batch of N of them: PACKAGE/MODEL."""
    import torch

    kind, _, model = name.partition("/")
    images = lambda *size: lambda n: (torch.randn(n, 3, *size),)
    if kind == "transformers":
        from transformers import AutoModel

        config = small_config(model)
        module = AutoModel.from_config(config, attn_implementation="eager").eval()
        if module.main_input_name == "pixel_values":
            size = getattr(config, "image_size", SIZE)
            return module, images(*size) if isinstance(size, (list, tuple)) else images(size, size)
        return module, lambda n: (torch.randint(5, config.vocab_size, (n, TOKENS)),)
    if kind == "torchvision":
        import torchvision

        size = 299 if model == "inception_v3" else SIZE
        options = {"init_weights": True} if model in ("inception_v3", "googlenet") else {}
        if model in torchvision.models.list_models(module=torchvision.models.video):
            return torchvision.models.get_model(model, weights=None).eval(), images(16, size, size)
        if model not in torchvision.models.list_models(module=torchvision.models):
            options = {"weights_backbone": None}
        module = torchvision.models.get_model(model, weights=None, **options).eval()
        if model in torchvision.models.list_models(module=torchvision.models.detection):
            return module, lambda n: ([torch.rand(3, size, size) for _ in range(n)],)
        return module, images(size, size)
    import timm

    module = timm.create_model(model, pretrained=False).eval()
    return module, images(*module.default_cfg.get("input_size", (3, SIZE, SIZE))[1:])


def best(functions, seconds, now=time.perf_counter):
    """The least milliseconds of a call of each of FUNCTIONS, taken in turns, by the clock NOW."""
    least = [math.inf] * len(functions)
    end = time.monotonic() + seconds * len(functions)
    while time.monotonic() < end:
        for i, function in enumerate(functions):
            start = now()
            function()
            least[i] = min(least[i], (now() - start) * 1e3)
    return least


def draw_constants(module):
    """Gives parameters and running statistics whose elements are all equal random ones. Many models begin with branches that do not matter,
    as those scaled by 0 or 1e-6, whose faults no result would show."""
    import torch

    for name, tensor in [*module.named_parameters(), *((n, b) for n, b in module.named_buffers() if n.endswith(("running_mean", "running_var")))]:
        first = tensor.flatten()[0].item() if tensor.is_floating_point() and tensor.numel() else math.nan
        if not bool((tensor == first).all()):
            continue
        with torch.no_grad():
            tensor.copy_(torch.randn_like(tensor) * 0.1 if abs(first) < 0.01 else first * (0.75 + 0.5 * torch.rand_like(tensor)))


def difference(a, b):
    """The largest difference of two results, relative to the largest element of B. Results that are not finite compare nothing."""
    if not bool(b.isfinite().all()):
        raise ValueError("eager's result is not finite")
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-6))


def measure(name, options):
    """One model's row, as a dict."""
    import torch
    from dlcc import compiling, pytorch

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    torch._inductor.config.freezing = True
    module, inputs = make(name)
    draw_constants(module)
    row = {"name": name, "parameters": sum(p.numel() for p in module.parameters())}
    compiled, compile_ = [], compiling.compile
    compiling.compile = lambda *a, **k: compiled.append(compile_(*a, **k)) or compiled[-1]
    with torch.inference_mode():
        module(*inputs(1))  # fills caches of the module, after whose change torch.compile would trace it again
        start = time.monotonic()
        batched = torch.compile(module, backend=pytorch.backend)
        row["error"] = 0
        for n in 2, 3:
            images, = inputs(n)
            torch._dynamo.mark_dynamic(images, 0)
            result = batched(images)
            row.setdefault("compile_s", time.monotonic() - start)
            row["error"] = max(row["error"], difference(result, module(images)))
        if row["error"] > TOLERANCE:  # a deep network of random weights may make rounding errors as large as its results, eagerly, too
            row["noise"] = difference(module(images).double(), copy.deepcopy(module).double()(images.double()))
        row["compiled"] = len(compiled)
        row["refused"] = next(iter(pytorch.refused), "")
        if row["refused"] or options.answers:
            return row
        torch._dynamo.reset()
        one, = inputs(1)
        ours = torch.compile(module, backend=pytorch.backend, dynamic=False)
        ours(one)
        now = time.process_time if options.clock == "cpu" else time.perf_counter
        try:
            start = time.monotonic()
            inductor = torch.compile(module, backend="inductor", dynamic=False)
            inductor(one)
            row["inductor_compile_s"] = time.monotonic() - start
            row["dlcc_ms"], row["inductor_ms"], row["eager_ms"] = best([functools.partial(f, one) for f in (ours, inductor, module)], options.seconds, now)
        except Exception as error:  # inductor's faults are not ours
            row["inductor_fault"] = f"{type(error).__name__}: {error}".splitlines()[0]
            row["dlcc_ms"], row["eager_ms"] = best([lambda: ours(one), lambda: module(one)], options.seconds, now)
    return row


def child(name, options):
    command = [sys.executable, os.path.abspath(__file__), "--child", name, f"--threads={options.threads}", f"--seconds={options.seconds}",
               f"--clock={options.clock}", *(["--answers"] if options.answers else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"name": name, "fault": f"more than {options.limit} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"name": name, "fault": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]}
    return json.loads(lines[-1])


def wrong(row):
    """What is wrong with a model's row; "": nothing. A model that is refused is not wrong."""
    if "fault" in row:
        return row["fault"]
    if row["refused"]:
        return ""
    if not row["error"] <= max(TOLERANCE, 4 * row.get("noise", 0)):
        return f"differs by {row['error']:.1e}"
    return "" if row["compiled"] == 1 else f"a dynamic batch was compiled {row['compiled']} times"


def report(rows):
    """Prints the table; whether nothing is wrong."""
    print("| model | parameters | error | dlcc compiles in s | inductor s | dlcc ms | inductor ms | eager ms | inductor / dlcc |\n|---|" + "---:|" * 8)
    ratios = []
    number = lambda r, key, form: format(r[key], form) if key in r else "-"
    for r in rows:
        why = r.get("fault") or r.get("refused")
        if why:
            print(f"| {r['name']} | {why} |" + " |" * 7)
            continue
        ratios += [r["inductor_ms"] / r["dlcc_ms"]] if "inductor_ms" in r else []
        print(f"| {r['name']} | {r['parameters'] / 1e6:.1f} M | {r['error']:.1e} | {r['compile_s']:.1f} | {number(r, 'inductor_compile_s', '.1f')} | "
              f"{number(r, 'dlcc_ms', '.2f')} | {r.get('inductor_fault') or number(r, 'inductor_ms', '.2f')} | {number(r, 'eager_ms', '.2f')} | "
              f"{format(ratios[-1], '.2f') if 'inductor_ms' in r else '-'} |")
    refused, faults = [r for r in rows if r.get("refused")], [(r["name"], wrong(r)) for r in rows if wrong(r)]
    print(f"\n{len(rows) - len(refused) - len(faults)} of {len(rows)} models equal eager within {TOLERANCE:g}, or within 4 times eager's own error, with a dynamic batch compiled once; "
          f"{len(refused)} are refused.")
    if ratios:
        print(f"Geometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}.")
    for r in rows:
        if not wrong(r) and "noise" in r:
            print(f"{r['name']}: differs by {r['error']:.1e}, and eager from itself in f64 by {r['noise']:.1e}")
    for name, why in faults:
        print(f"{name}: {why}")
    return not faults


def parameters(name):
    """The millions of parameters of the model NAME."""
    import torch

    try:
        with torch.device("meta"):  # takes no memory
            module, _ = make(name)
    except Exception:  # a model that computes with its parameters as it is made
        module, _ = make(name)
    return sum(p.numel() for p in module.parameters()) / 1e6


def chosen(options):
    for kind in "torchvision", "timm":
        drawn = sorted(names(kind))
        random.Random(options.seed).shuffle(drawn)
        small = (name for name in (f"{kind}/{m}" for m in drawn) if parameters(name) <= options.most)
        yield from itertools.islice(small, options.models // 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a model")
    parser.add_argument("--answers", action="store_true", help="compare results, and measure nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.names[0], options)))
        return 0
    rows = []
    for name in options.names or list(chosen(options)):
        rows.append(child(name, options))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())

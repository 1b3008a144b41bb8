# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="dlcc") beside inductor with freezing, and beside eager: torchvision's and timm's models with random weights.

    torch_models.py [--models N] [--seed S] [--threads T] [--seconds S] [NAME ...]

N models, half of them from each, are drawn by the seed from the sorted names; NAMEs, as torchvision/resnet18, are taken as they are. Each runs in
a process of its own: at batch 1 for times, and with a dynamic batch of 2 and 3 images, compiled once, beside eager. It needs torch, torchvision,
timm, onnx and onnxscript in its own environment, and dlcc on PATH and in PYTHONPATH. Prints a table in Markdown."""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time

LIMIT = 600  # seconds for a model
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


def best(functions, seconds):
    """The least milliseconds of a call of each of FUNCTIONS, taken in turns."""
    least = [math.inf] * len(functions)
    end = time.monotonic() + seconds * len(functions)
    while time.monotonic() < end:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            least[i] = min(least[i], (time.perf_counter() - start) * 1e3)
    return least


def difference(a, b):
    """The largest difference of two results, relative to the largest element of B."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-6))


def measure(name, threads, seconds):
    """One model's row, as a dict."""
    import torch
    from dlcc import compiling, pytorch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    module, inputs = make(name)
    row = {"name": name, "parameters": sum(p.numel() for p in module.parameters())}
    compiled, compile_ = [], compiling.compile
    compiling.compile = lambda *a, **k: compiled.append(compile_(*a, **k)) or compiled[-1]
    with torch.inference_mode():
        one, = inputs(1)
        start = time.monotonic()
        ours = torch.compile(module, backend=pytorch.backend, dynamic=False)
        result = ours(one)
        row["compile_s"] = time.monotonic() - start
        row["refused"] = next(iter(pytorch.refused), "")
        row["error"] = difference(result, module(one))
        if row["refused"]:
            return row
        try:
            start = time.monotonic()
            inductor = torch.compile(module, backend="inductor", dynamic=False)
            inductor(one)
            row["inductor_compile_s"] = time.monotonic() - start
            row["dlcc_ms"], row["inductor_ms"], row["eager_ms"] = best([lambda: f(one) for f in (ours, inductor, module)], seconds)
        except Exception as error:  # inductor's faults are not ours
            row["inductor_fault"] = f"{type(error).__name__}: {error}".splitlines()[0]
            row["dlcc_ms"], row["eager_ms"] = best([lambda: ours(one), lambda: module(one)], seconds)
        torch._dynamo.reset()
        compiled.clear()
        batched = torch.compile(module, backend=pytorch.backend)
        for n in 2, 3:
            images, = inputs(n)
            torch._dynamo.mark_dynamic(images, 0)
            row["error"] = max(row["error"], difference(batched(images), module(images)))
        row["compiled"] = len(compiled)
        row["refused"] = next(iter(pytorch.refused), "")
    return row


def child(name, options):
    command = [sys.executable, os.path.abspath(__file__), "--child", name, f"--threads={options.threads}", f"--seconds={options.seconds}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"name": name, "fault": f"more than {LIMIT} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"name": name, "fault": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]}
    return json.loads(lines[-1])


def report(rows):
    print("| model | parameters | dlcc ms | inductor ms | eager ms | inductor / dlcc | error | dlcc compiles in s | inductor s |\n|---|" + "---:|" * 8)
    ratios = []
    for r in rows:
        why = r.get("fault") or r.get("refused") or r.get("inductor_fault")
        if "dlcc_ms" not in r:
            print(f"| {r['name']} | {why} |" + " |" * 7)
            continue
        ratio = r["inductor_ms"] / r["dlcc_ms"] if "inductor_ms" in r else math.nan
        ratios += [ratio] if ratio == ratio else []
        print(f"| {r['name']} | {r['parameters'] / 1e6:.1f} M | {r['dlcc_ms']:.2f} | {r.get('inductor_ms', math.nan):.2f} | {r['eager_ms']:.2f} | {ratio:.2f} | "
              f"{r['error']:.1e} | {r['compile_s']:.1f} | {r.get('inductor_compile_s', math.nan):.1f} |")
    if ratios:
        print(f"\nGeometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}.")
    again = [r["name"] for r in rows if r.get("compiled", 1) != 1]
    print("A dynamic batch was compiled once for each model." if not again else f"Compiled more than once, or not, with a dynamic batch: {', '.join(again)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.names[0], options.threads, options.seconds)))
        return
    chosen = options.names or [f"{kind}/{m}" for kind in ("torchvision", "timm")
                               for m in sorted(random.Random(options.seed).sample(sorted(names(kind)), options.models // 2))]
    rows = []
    for name in chosen:
        rows.append(child(name, options))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    report(rows)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""torch_peer.py SECONDS: what PyTorch takes on the GPU of this machine for what the pack times, a line of JSON each: attention by
scaled_dot_product_attention, and whole models with random weights by torch.compile(mode="max-autotune"), in f32 with tf32, f16 and bf16. A model whose
package is missing is left out. Inputs are of a normal distribution; a time is the median of runs between events."""

import json
import sys

import torch

SECONDS = float(sys.argv[1])
WIDTH, HEADS, SHARED = 128, 32, 8  # as in make.py
TYPES = {"tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def median_ms(function):
    times, total = [], 0
    for _ in range(5):
        function()
    while total < SECONDS * 1e3 and len(times) < 1000:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
        total += times[-1]
    return sorted(times)[len(times) // 2]


def say(name, kind, function):
    try:
        print(json.dumps({"name": name, "type": kind, "median_ms": median_ms(function)}), flush=True)
    except Exception as e:  # one that does not run here is left out
        print(f"{name} {kind}: {e}", file=sys.stderr)


def attention():
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    for kind, t in TYPES.items():
        for m, n, heads in ((512, 512, SHARED), (2048, 2048, SHARED), (8192, 8192, SHARED), (1, 1024, HEADS), (1, 16384, HEADS)):
            q, k, v = (torch.randn(1, h, rows, WIDTH, device="cuda", dtype=t) for h, rows in ((heads, m), (SHARED, n), (SHARED, n)))
            say(f"{'decode' if m == 1 else 'prefill'}_{n}", kind, lambda: sdpa(q, k, v, enable_gqa=heads != SHARED))


def networks():
    """Name, module and inputs of each."""
    try:
        import torchvision

        for name, module in ("resnet50", torchvision.models.resnet50), ("vit", torchvision.models.vit_b_16):
            for batch in 1, 32:
                yield f"{name} {batch}", module(weights=None), lambda t, b=batch: (torch.randn(b, 3, 224, 224, device="cuda", dtype=t),)
    except ImportError as e:
        print(e, file=sys.stderr)
    try:
        import transformers

        bert = transformers.BertModel(transformers.BertConfig())
        for batch in 1, 16:
            yield f"bert_base {batch}x128", bert, lambda t, b=batch: (torch.ones(b, 128, device="cuda", dtype=torch.long),)
        llama = transformers.LlamaModel(transformers.LlamaConfig(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                                                                 num_key_value_heads=2, vocab_size=32000))
        yield "llama_0_5b 512", llama, lambda t: (torch.ones(1, 512, device="cuda", dtype=torch.long),)
    except ImportError as e:
        print(e, file=sys.stderr)


torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
attention()
for name, module, inputs in networks():
    for kind, t in TYPES.items():
        with torch.inference_mode():
            module = module.eval().to("cuda", t)
            if name.startswith("resnet"):
                module = module.to(memory_format=torch.channels_last)
            compiled, x = torch.compile(module, mode="max-autotune"), inputs(t)
            say(name, kind, lambda: compiled(*x))

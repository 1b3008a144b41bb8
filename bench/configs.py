# SPDX-License-Identifier: Apache-2.0
"""What bench/run.py measures: full-size models by name at chosen sizes, and the f32 models of the corpus.

A configuration is called MODEL/WHAT, such as bert_base/128, and is one row of the tables. Models of BENCH/graphs get their weights
from BENCH/materialise.py, once, in build/bench. Models of CORPUS/models bring inputs with them.
"""
import fnmatch
import glob
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BENCH = os.environ.get("BENCH", os.path.join(ROOT, "..", "shared", "bench"))
CORPUS = os.environ.get("CORPUS", os.path.join(ROOT, "..", "shared", "corpus"))

IMAGE_MODELS = "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny"
TEXT_MODELS = "bert_base", "distilbert"
CAUSAL_MODELS = "gpt2_small", "llama_0_5b"

# name, model of BENCH/graphs, sizes of its symbolic dims
TABLE = [
    *((f"{m}/{n}", m, {"batch": n}) for m in IMAGE_MODELS for n in (1, 8)),
    *((f"{m}/{n}", m, {"batch": 1, "seq": n}) for m in TEXT_MODELS for n in (1, 17, 128, 384)),
    *((f"{m}/prefill64", m, {"batch_size": 1, "sequence_length": 64, "past_sequence_length": 0}) for m in CAUSAL_MODELS),
    *((f"{m}/decode128", m, {"batch_size": 1, "sequence_length": 1, "past_sequence_length": 128}) for m in CAUSAL_MODELS),
    ("unet_small/16x24", "unet_small", {"batch": 1, "height": 16, "width": 24, "sequence": 77}),
]

# Models of 8-bit integers, measured only where a pattern names them: the tables of all are of f32.
INT8 = [
    *((f"{m}/{n}", m, {"batch": n}) for m in ("resnet50_int8", "mobilenet_v2_int8") for n in (1, 8)),
    *((f"bert_base_int8/{n}", "bert_base_int8", {"batch": 1, "seq": n}) for n in (1, 17, 128)),
]

# One configuration of each kind: a convolutional network, depthwise convolutions, an encoder, a decoder's step.
QUICK = "resnet50/1", "mobilenet_v2/1", "bert_base/128", "gpt2_small/decode128"

# Below this time of ONNX Runtime (case.json), a run measures calls and not kernels.
LEAST_MS = 0.2

INTEGER_OPS = "QLinear", "QuantizeLinear", "DynamicQuantize", "MatMulInteger", "ConvInteger", "MatMulNBits", "QAttention", "QGemm"


@dataclass
class Config:
    name: str
    model: str                                # the path of the ONNX file; "": it does not exist
    dims: dict = field(default_factory=dict)  # sizes of symbolic dims, for random inputs
    data: str = ""                            # the folder with test_data_set_0, whose inputs are used instead
    missing: str = ""                         # why the model does not exist


def materialise(model, build):
    """The path of MODEL with weights, or "" and the reason."""
    graph = os.path.join(BENCH, "graphs", model + ".onnx")
    path = os.path.join(build, "bench", model, "model.onnx")
    if not os.path.exists(path):
        if not os.path.exists(graph):
            return "", f"there is no {graph}"
        subprocess.run([sys.executable, os.path.join(BENCH, "materialise.py"), graph, os.path.dirname(path)], check=True)
    return path, ""


def is_f32(path, ops):
    """Whether no operator of the model computes on narrow integers, and no weight or input is of another float type."""
    import onnx

    if any(part in op for op in ops for part in INTEGER_OPS):
        return False
    graph = onnx.load(path, load_external_data=False).graph
    types = {t.data_type for t in graph.initializer} | {i.type.tensor_type.elem_type for i in graph.input}
    return not types & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}


def corpus():
    """A configuration of each f32 model of the corpus that takes long enough."""
    for path in sorted(glob.glob(os.path.join(CORPUS, "models", "*", "*", "case.json"))):
        folder = os.path.dirname(path)
        with open(path) as f:
            case = json.load(f)
        model = os.path.join(folder, "model.onnx")
        if (case.get("ort_ms_1thread") or 0) > LEAST_MS and os.path.exists(model) and is_f32(model, case.get("ops", {})):
            yield Config("/".join(folder.split(os.sep)[-2:]), model, data=folder)


def chosen(patterns, quick, build, dims):
    """The configurations whose names match one of PATTERNS (none: all), or are of the files that PATTERNS name, with DIMS.
    A pattern without / stands for all configurations of that model."""
    files = [p for p in patterns if p.endswith(".onnx")]
    names = [p if "/" in p else p + "/*" for p in patterns if p not in files]
    wanted = lambda name: name in QUICK if quick and not names else not patterns or any(fnmatch.fnmatch(name, p) for p in names)
    for path in files:
        yield Config(os.path.basename(path)[:-5], path, dims)
    for name, model, sizes in TABLE + (INT8 if names else []):
        if wanted(name):
            path, missing = materialise(model, build)
            yield Config(name, path, sizes, missing=missing)
    if not quick and (names or not patterns):
        yield from (c for c in corpus() if wanted(c.name))

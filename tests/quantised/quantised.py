# SPDX-License-Identifier: Apache-2.0
"""Quantised models beside ONNX Runtime and eval.

    quantised.py [MODEL.onnx ...]

Each model is tried in these ways, for which dlcc compiles one artifact of symbolic dims; the sizes are 1, 3 and 8 in turn:
  whole     its outputs differ from ONNX Runtime's without optimisations by at most twice as much as ONNX Runtime's with and
            without optimisations differ, and the largest element of each row is at the same place
  tensors   every quantised tensor is within one step of ONNX Runtime's without optimisations. All that read a quantised tensor
            are given ONNX Runtime's.
  kernels   every kernel, given eval's values, is within eval's error bounds; those bounds are 0 for integers that are not
            rounded sums of floats (tests/tools/batch). On the CPU, and on the simulated GPU
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import dlcc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import samples  # noqa: E402
BUILD = os.environ["BUILD"]
BENCH = os.environ.get("BENCH") or os.path.join(ROOT, "..", "shared", "bench")
GRAPHS = "resnet50_int8", "mobilenet_v2_int8", "bert_base_int8"
SIZES = 1, 3, 8
SEQUENCE = 24  # of symbolic dims that are not the first of an input
QUANTISED = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)


# ---- Models ----

class Scans:
    """What the quantiser reads to find the ranges of values."""

    def __init__(self):
        self.left = 4

    def get_next(self):
        self.left -= 1
        return {"scan": np.random.default_rng(self.left).random((8, 1, 8, 8), np.float32)} if self.left >= 0 else None


def digits(folder):
    """The classifier of examples/digits with QuantizeLinear nodes, with QLinear operators, and with ranges found as it runs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

    CalibrationDataReader.register(Scans)
    source = os.path.join(ROOT, "examples", "digits", "digits.onnx")
    for name, form in (("digits_qdq", QuantFormat.QDQ), ("digits_qlinear", QuantFormat.QOperator)):
        path = os.path.join(folder, name + ".onnx")
        # ONNX Runtime multiplies QLinear's bytes by an instruction that saturates on CPUs without VNNI, unless weights have 7 bits.
        quantize_static(source, path, Scans(), quant_format=form, per_channel=True, reduce_range=form == QuantFormat.QOperator, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8)
        yield path
    path = os.path.join(folder, "digits_dynamic.onnx")
    quantize_dynamic(source, path, weight_type=QuantType.QUInt8)
    yield path


def full_size(folder):
    """The quantised graphs under BENCH that exist, with weights."""
    for name in GRAPHS:
        graph = os.path.join(BENCH, "graphs", name + ".onnx")
        if os.path.exists(graph):
            made = os.path.join(folder, name)
            subprocess.run([sys.executable, os.path.join(BENCH, "materialise.py"), graph, made], check=True)
            yield os.path.join(made, "model.onnx")


def name_of(path):
    stem = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if stem == "model" else stem


def feeds(proto, size):
    """Random inputs; the first dim of each has SIZE elements if it is symbolic. Masks have ones."""
    rng, found, constants = np.random.default_rng(size), {}, {i.name for i in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name in constants:
            continue
        t = value.type.tensor_type
        shape = [d.dim_value or (size if i == 0 else SEQUENCE) for i, d in enumerate(t.shape.dim)]
        dtype = helper.tensor_dtype_to_np_dtype(t.elem_type)
        if dtype.kind == "f":
            found[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            found[value.name] = np.ones(shape, dtype) if "mask" in value.name else rng.integers(0, 2, shape).astype(dtype)
    return found


def run_peer(proto, feed, optimised=False):
    """The outputs of ONNX Runtime by name."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


# ---- Quantised tensors by themselves ----

def quantised_tensors(proto, feed):
    """{name: array}: the results of nodes that have 8 or 16 bits, by ONNX Runtime."""
    inferred = onnx.shape_inference.infer_shapes(proto)
    types = {v.name: v.type.tensor_type.elem_type for v in (*inferred.graph.value_info, *inferred.graph.output)}
    names = [o for n in proto.graph.node for o in n.output if types.get(o) in QUANTISED and n.op_type not in ("Constant", "Identity")]
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_tensor_value_info(name, types[name], None) for name in names)
    return run_peer(whole, feed)


def given(name):
    return name + "/given"


def cut(proto, tensors):
    """PROTO with TENSORS as outputs, and all that read them reading inputs of their own instead."""
    parts = onnx.ModelProto()
    parts.CopyFrom(proto)
    graph = parts.graph
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name in tensors:
                node.input[i] = given(name)
    del graph.output[:], graph.value_info[:]
    for name, array in tensors.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        symbolic = [f"{name}.{i}" if i == 0 else d for i, d in enumerate(array.shape)]
        graph.input.append(helper.make_tensor_value_info(given(name), kind, symbolic))
        graph.output.append(helper.make_tensor_value_info(name, kind, None))
    return parts


def in_use(proto):
    """PROTO without inputs that nothing reads."""
    read = {name for node in proto.graph.node for name in node.input}
    kept = [i for i in proto.graph.input if i.name in read]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return proto, [i.name for i in kept]


# ---- Verdicts ----

def judge_tensors(proto, size):
    """Fails if a quantised tensor is more than a step off; else says how many elements are one step off."""
    feed = feeds(proto, size)
    theirs = quantised_tensors(proto, feed)
    if not theirs:
        return None, "no quantised tensor"
    parts, names = in_use(cut(proto, theirs))
    values = {**feed, **{given(name): array for name, array in theirs.items()}}
    with dlcc.compile(parts) as model:
        ours = model.run({name: values[name] for name in names})
    off = elements = 0
    for name, want in theirs.items():
        steps = np.abs(ours[name].astype(np.int64) - want.astype(np.int64))
        if steps.size and steps.max() > 1:
            return False, f'"{name}" is {steps.max()} steps off'
        off, elements = off + np.count_nonzero(steps), elements + steps.size
    return True, f"{len(theirs)} tensors, {off} of {elements} elements one step off"


def judge_whole(proto, model, size):
    feed = feeds(proto, size)
    plain, optimised, ours = run_peer(proto, feed), run_peer(proto, feed, True), model.run(feed)
    for name, want in plain.items():
        noise, off = (np.abs(x.astype(np.float64) - want).max(initial=0) for x in (optimised[name], ours[name]))
        told = f'"{name}": {off:.3g} off, where ONNX Runtime with optimisations is {noise:.3g} off, of {np.abs(want).max(initial=0):.3g}'
        if off > max(2 * noise, 1e-5 * np.abs(want).max(initial=0)):
            return False, told
        rows = [x.reshape(-1, x.shape[-1]).argmax(1) for x in (want, ours[name], optimised[name])] if want.size else [np.zeros(0)] * 3
        changed, other = np.count_nonzero(rows[0] != rows[1]), np.count_nonzero(rows[0] != rows[2])
        if changed > 2 * other:
            return False, f'"{name}": the largest element of {changed} of {len(rows[0])} rows is another; {other} with optimisations'
    return True, f"{told}; the largest of {changed} of {len(rows[0])} rows is another; {other} with optimisations"


def judge_kernels(proto, folder, on_gpu):
    """The verdict of tests/tools/batch on a run of size 1: on the CPU, or on the simulated GPU."""
    case = os.path.join(folder, "case")
    data = os.path.join(case, "test_data_set_0")
    os.makedirs(data)
    feed = feeds(proto, 1)
    plain, optimised = run_peer(proto, feed), run_peer(proto, feed, True)
    noise = max(float(np.abs(optimised[o] - plain[o]).max() / max(np.abs(plain[o]).max(), 1e-30)) for o in plain)
    onnx.save(proto, os.path.join(case, "model.onnx"))
    for role, arrays in (("input", feed), ("output", plain)):
        for i, (name, array) in enumerate(arrays.items()):
            onnx.save_tensor(numpy_helper.from_array(array, name), os.path.join(data, f"{role}_{i}.pb"))
    command = [os.path.join(BUILD, "tests", "tools", "batch"), "--jobs=1", "--kernels", "--seconds=300"]
    done = subprocess.run([*command, *(["--gpu=sm_80"] if on_gpu else []), folder], input=f"{case}\t{noise}\n", text=True,
                          capture_output=True, check=False, env=samples.simulated(BUILD) if on_gpu else None)
    shutil.rmtree(case)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    ok = not failed and f"PASS {case} {'ptx' if on_gpu else 'c'}" in done.stdout
    return ok, "" if ok else (failed or [done.stdout + done.stderr])[0].replace(case, "").strip()


def verdicts(path, folder):
    """(what, whether it passed, or None if there was nothing to do, text) of each way."""
    proto = onnx.load(path)
    with dlcc.compile(proto) as model:
        for size in SIZES:
            yield f"whole {size}", *judge_whole(proto, model, size)
    for size in SIZES if proto.ByteSize() < 1 << 20 else SIZES[:1]:
        yield f"tensors {size}", *judge_tensors(proto, size)
    yield "kernels", *judge_kernels(proto, folder, False)
    if samples.llvm(BUILD):
        yield "kernels for a GPU", *judge_kernels(proto, folder, True)


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    count = {True: 0, False: 0, None: 0}
    with tempfile.TemporaryDirectory() as folder:
        every = os.environ.get("TESTS") == "all"
        for path in sys.argv[1:] or [*digits(folder), *(full_size(folder) if every else ())]:
            for what, ok, text in verdicts(path, folder):
                count[ok] += 1
                print(f"{'FAIL' if ok is False else 'pass'}: {name_of(path)} {what}: {text}", flush=True)
    print(f"{count[True]} passed, {count[False]} failed" + (f", {count[None]} skipped" if count[None] else ""))
    return 1 if count[False] else 0


if __name__ == "__main__":
    sys.exit(main())

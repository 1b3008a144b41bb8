# SPDX-License-Identifier: Apache-2.0
"""ONNX's interface for backends (onnx.backend.base.Backend): what ONNX's own tests and other tools call. It needs the onnx package.

    rep = dlcc.backend.prepare(model)
    outputs = rep.run([x])"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend import base

from . import compiling, programs
from .errors import Error, RunError
from .model import Model

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def _capability(device: int) -> int | None:
    """Ten times the compute capability of the GPU of that number; None if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), device) or \
            driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, handle) or \
            driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, handle):
        return None
    return 10 * major.value + minor.value


def _gpu_target(device: int) -> str | None:
    """The target of the compiler that is nearest to the GPU of that number, or None: "cuda:sm_80"."""
    sm = _capability(device)
    if sm is None:
        return None
    printed = subprocess.run([programs.path_of("dlcc"), "--list-targets"], capture_output=True, text=True, check=True).stdout
    known = [line.split()[0] for line in printed.splitlines() if line.startswith("cuda:sm_")]
    # The code of sm_90a runs on that GPU alone; that of the others on later ones, too.
    fits = [t for t in known if (int(t[8:-1]) == sm if t.endswith("a") else int(t[8:]) <= sm)]
    return max(fits, key=lambda t: int(t[8:].rstrip("a")), default=None)


def _device(text: str) -> base.Device | None:
    """None: ONNX knows no such device."""
    try:
        return base.Device(text)
    except (AttributeError, ValueError):
        return None


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(isinstance(item, np.ndarray) for item in x)


def _type_of(name: str, x: Any) -> onnx.ValueInfoProto:
    """The input NAME that takes X, an array, or a list of arrays."""
    if _is_sequence(x):
        return helper.make_tensor_sequence_value_info(name, helper.np_dtype_to_tensor_dtype(x[0].dtype), [None] * x[0].ndim)
    code = onnx.TensorProto.STRING if x.dtype.kind in "OSU" else helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_value_info(name, code, x.shape)


class BackendRep(base.BackendRep):
    """A compiled model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in the model's order. INPUTS are in its order, too, or by name, or one array."""
        names = [io.name for io in self.model.describe().inputs]
        if isinstance(inputs, dict):
            feeds = inputs
        elif not isinstance(inputs, (list, tuple)):
            feeds = dict(zip(names, [inputs]))
        elif len(inputs) > len(names):
            raise RunError(f"{len(inputs)} inputs are given, and the model has {len(names)}")
        else:
            feeds = dict(zip(names, inputs))
        outputs = self.model.run(feeds)
        return base.namedtupledict("Outputs", list(outputs))(*outputs.values())


class Backend(base.Backend):
    """dlcc as a backend. Keyword arguments of prepare, run_model and run_node are those of dlcc.compile."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether dlcc supports all of MODEL."""
        return compiling.check(model).ok

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU; CUDA where there are a driver, a GPU and LLVM."""
        kind = _device(device)
        return kind is not None and (kind.type == base.DeviceType.CPU or _gpu_target(kind.device_id) is not None)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        kind = _device(device)
        if kind is None:
            raise Error(f"{device}: no such device; give CPU, CUDA, or CUDA:1 and so on")
        if kind.type == base.DeviceType.CPU:
            return BackendRep(compiling.compile(model, **{"device": "cpu", **kwargs}))
        target = _gpu_target(kind.device_id)
        if target is None:
            raise Error(f"{device}: there is no such GPU, or this dlcc has no code for it")
        return BackendRep(compiling.compile(model, **{"target": target, "device": f"cuda:{kind.device_id}", **kwargs}))

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Runs NODE as a model of its own. Its opset is the newest, or opset_version."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(filter(None, node.input)))
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            operands = names if len(given) == len(names) else list(filter(None, node.input))
            if len(given) != len(operands):
                raise RunError(f"{len(given)} inputs are given, and the node has {len(names)}: {', '.join(names)}")
            named = dict(zip(operands, given))
        wrong = set(named) ^ set(names)
        if wrong:
            name = min(wrong)
            raise RunError(f'input "{name}" is {"not given" if name in names else "unknown"}; the node has {", ".join(names)}')
        values = [named[name] if _is_sequence(named[name]) else np.asarray(named[name]) for name in names]
        ins = [_type_of(name, x) for name, x in zip(names, values)]
        outs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        for out, (dtype, shape) in zip(outs, outputs_info or ()):
            out.CopyFrom(helper.make_tensor_value_info(out.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        graph = helper.make_graph([node], "node", ins, outs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        if outputs_info is None:  # the types of outputs follow from the node
            model = onnx.shape_inference.infer_shapes(model)
        return cls.run_model(model, values, device, **kwargs)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device

if __name__ == "__main__":
    sys.exit("dlcc.backend is for programs, as docs/python.md describes: outputs = dlcc.backend.prepare(model).run(inputs)")

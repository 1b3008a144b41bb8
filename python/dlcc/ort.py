# SPDX-License-Identifier: Apache-2.0
"""dlcc behind the Python interface of ONNX Runtime:

    import dlcc.ort as onnxruntime          # instead of import onnxruntime
    python -m dlcc.ort PROGRAM ARGUMENT...  # a program that says import onnxruntime, unchanged; -m MODULE likewise

A session compiles its model, and keeps the library in the folder dlcc of XDG_CACHE_HOME (by default ~/.cache) for the next one. What of
ONNX Runtime has no meaning here is ignored, with one IgnoredWarning for each setting. The real onnxruntime is never imported: a model
that dlcc refuses raises the exception of ONNX Runtime's name, with dlcc's diagnostic. docs/python.md says what there is."""

from __future__ import annotations

import ctypes
import enum
import os
import re
import runpy
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from . import compiling, dtypes, programs
from .errors import CompileError, CompileWarning, Error
from .model import IO, Model
from .ort_errors import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled,
                         ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented, RuntimeException,
                         translated)

__version__ = "1.23.0"  # whose interface this follows


class IgnoredWarning(UserWarning):
    """A setting that has no effect here."""


_ignored: set[str] = set()


def _ignore(what: str) -> None:
    """Warns that WHAT has no effect, once in a process."""
    if what not in _ignored:
        _ignored.add(what)
        level, frame = 1, sys._getframe()
        while frame.f_back and frame.f_globals.get("__name__") == __name__:
            level, frame = level + 1, frame.f_back
        warnings.warn(f"dlcc.ort ignores {what}", IgnoredWarning, stacklevel=level)


# ---- Settings ----

class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    DEFAULT = 0


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class _Settings:
    """Attributes with defaults. `_heard` have an effect, or are of logs, which dlcc does not write; a change of another is ignored with a
    warning."""

    _defaults: Mapping[str, Any] = {}
    _heard: frozenset[str] = frozenset()

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name not in self._defaults:
            raise AttributeError(f"'{kind}' object has no attribute '{name}'")
        default = self._defaults[name]
        if isinstance(default, (bool, int)) and not isinstance(value, (bool, int, np.integer)) or isinstance(default, str) and not isinstance(
                value, (str, os.PathLike)):
            raise TypeError(f"{kind}.{name}: {type(value).__name__} where {type(default).__name__} is wanted")
        if name not in self._heard and value != default:
            _ignore(f"{kind}.{name}")
        object.__setattr__(self, name, value)


class SessionOptions(_Settings):
    _defaults = {"graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "intra_op_num_threads": 0, "inter_op_num_threads": 0,
                 "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": 0, "enable_cpu_mem_arena": True, "enable_mem_pattern": True,
                 "enable_mem_reuse": True, "enable_profiling": False, "log_severity_level": -1, "log_verbosity_level": 0, "logid": "",
                 "optimized_model_filepath": "", "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False,
                 "use_per_session_threads": True}
    # results do not depend on threads that run concurrently, so they are deterministic; the rest is about memory and time
    _heard = frozenset({"graph_optimization_level", "intra_op_num_threads", "log_severity_level", "log_verbosity_level", "logid",
                        "use_deterministic_compute", "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "profile_file_prefix"})

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_entries", {})
        object.__setattr__(self, "_dims", {})

    def add_session_config_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("add_session_config_entry takes two strings")
        _ignore(f"the session's configuration {key}")
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return str(self._entries[key])

    def has_session_config_entry(self, key: str) -> bool:
        return key in self._entries

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, _size: int) -> None:
        _ignore(f"the size of the denotation {denotation}")

    def register_custom_ops_library(self, path: str) -> NoReturn:
        raise Fail.of(f"dlcc cannot load the library of custom operators {path}; docs/operators.md says how operators are defined for dlcc")

    def add_initializer(self, name: str, _value: Any) -> NoReturn:
        raise Fail.of(f"dlcc cannot replace the initializer {name}, as it compiles weights into the model")

    def add_external_initializers(self, names: Sequence[str], _values: Any) -> NoReturn:
        raise Fail.of(f"dlcc cannot take the initializers {', '.join(names)} from memory; save the model with its data")


class RunOptions(_Settings):
    _defaults = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "terminate": False, "only_execute_path_to_fetches": False,
                 "training_mode": False}
    _heard = frozenset({"log_severity_level", "log_verbosity_level", "logid"})

    def add_run_config_entry(self, key: str, _value: str) -> None:
        _ignore(f"the run's configuration {key}")


# ---- Devices ----

def _gpu() -> str | None:
    """dlcc's name of the processor of the first GPU, if there is a driver and this dlcc makes code for it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    if cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device) or cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device):
        return None
    known = [int(n) for n in re.findall(r"cuda:sm_(\d+)\b", programs.targets())]
    fits = [n for n in known if n <= 10 * major.value + minor.value]
    return f"sm_{max(fits)}" if fits else None


def get_available_providers() -> list[str]:
    return (["CUDAExecutionProvider"] if _gpu() else []) + ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    return ["CUDAExecutionProvider", "CPUExecutionProvider"]


def get_device() -> str:
    return "GPU" if _gpu() else "CPU"


def _chosen(providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The names of PROVIDERS that there are, and their options."""
    available, names, given = get_available_providers(), [], {}
    for i, provider in enumerate(providers if providers is not None else ["CPUExecutionProvider"]):
        name, own = provider if isinstance(provider, tuple) and len(provider) == 2 else (provider, options[i] if options and i < len(options) else {})
        if not isinstance(name, str):
            warnings.warn(f"'providers' values must be either strings or (string, dict) tuples, not {name!r}", UserWarning, stacklevel=3)
        elif name not in available:
            warnings.warn(f"Specified provider '{name}' is not in available provider names. Available providers: '{', '.join(available)}'",
                          UserWarning, stacklevel=3)
        elif name not in names:
            names.append(name)
            given[name] = {str(k): str(v) for k, v in (own or {}).items()}
    for name, own in given.items():
        for key in own:
            if key != "device_id":
                _ignore(f"the option {key} of {name}")
    names += [] if "CPUExecutionProvider" in names else ["CPUExecutionProvider"]
    return names, given


# ---- Values ----

_TYPES = {"f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "str": "string", "bool": "bool", "f8e4m3fn": "float8e4m3fn",
          "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2": "float8e5m2", "f8e5m2fnuz": "float8e5m2fnuz", "f4e2m1": "float4e2m1"}


def _element(name: str) -> str:
    return _TYPES.get(name) or re.sub(r"^([iu])(\d+)$", lambda m: ("int" if m[1] == "i" else "uint") + m[2], name)


def _type(io: IO) -> str:
    if io.form == "map":
        return f"map({_element(io.items[0].dtype)},tensor({_element(io.items[1].dtype)}))"
    if io.form != "tensor":
        return f"{'seq' if io.form == 'sequence' else 'optional'}({_type(io.items[0])})"
    return f"tensor({_element(io.dtype)})"


class NodeArg:
    """An input or output. A dim is a number, the name of a symbol, or None."""

    def __init__(self, io: IO) -> None:
        self.name, self.type = io.name, _type(io)
        self.shape = [None if d == "?" else d for d in io.dims]

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    def __init__(self, model: Model) -> None:
        m = model.describe().metadata
        self.producer_name, self.graph_name, self.domain, self.description = m.producer, m.graph, m.domain, m.doc
        self.graph_description, self.custom_metadata_map = m.graph_doc, dict(m.properties)
        self.version = m.version or 2**63 - 1  # as ONNX Runtime has it where the file has none


class OrtValue:
    """An array, or a list of arrays. Memory is the host's."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _host(device_type, device_id)
        return OrtValue(np.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        _host(device_type, device_id)
        return OrtValue(np.empty(shape, _numpy(element_type)))

    def numpy(self) -> Any:
        return self._value

    def shape(self) -> list[int]:
        return list(self._value.shape)

    def data_type(self) -> str:
        return "seq(tensor)" if isinstance(self._value, list) else f"tensor({_element(dtypes.name_of(_code(self._value.dtype)))})"

    def element_type(self) -> int:
        return _code(self._value.dtype)

    def data_ptr(self) -> int:
        return int(self._value.ctypes.data)

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def update_inplace(self, array: np.ndarray) -> None:
        np.copyto(self._value, array)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._value.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()


def _host(device_type: str, _device_id: int) -> None:
    if device_type.lower() != "cpu":
        _ignore(f"the device {device_type} of values, which are in host memory")


def _code(dtype: np.dtype[Any]) -> int:
    """ONNX's number of the element type DTYPE."""
    return dtypes.STRING if dtype.kind in "OUST" else dtypes.of(dtype, "a value").code


def _numpy(element_type: Any) -> np.dtype[Any]:
    """The dtype of ELEMENT_TYPE, NumPy's or a number of ONNX."""
    return dtypes.numpy_of(element_type, "a value") if isinstance(element_type, int) else np.dtype(element_type)


def _at(address: int, shape: Sequence[int], element_type: Any) -> np.ndarray:
    """The array in memory at ADDRESS."""
    dtype = _numpy(element_type)
    count = int(np.prod(shape, dtype=np.int64))
    memory = (ctypes.c_char * max(count * dtype.itemsize, 1)).from_address(address)
    return np.frombuffer(memory, dtype, count).reshape(shape)


def _fed(value: Any, io: IO) -> Any:
    """VALUE, which a program feeds to input IO, as dlcc takes it."""
    if isinstance(value, OrtValue):
        return value.numpy()
    if value is None and io.form == "optional":
        return None
    if io.form != "tensor":
        return value
    if isinstance(value, str):
        raise RuntimeError(f"Input must be a list of dictionaries or a single numpy array for input '{io.name}'.")
    if isinstance(value, (list, tuple)):
        return np.array(value, object if io.dtype == "str" else io.numpy)
    if value is None:
        raise Fail.of(f'input "{io.name}" is None')
    if isinstance(value, np.generic) or not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        raise RuntimeError(f"Unable to handle object of type {type(value)}")
    return value


# ---- Sessions ----

_LEVELS = {GraphOptimizationLevel.ORT_DISABLE_ALL: 0, GraphOptimizationLevel.ORT_ENABLE_BASIC: 1}


def _cache() -> str | None:
    """The folder for compiled models; None, with a warning, if it cannot be made."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "dlcc")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        reason = "it cannot be written to"
    except OSError as e:
        reason = e.strerror
    _ignore(f"the cache {folder}, as {reason}: each session compiles its model")
    return None


def _compiled(model: Any, options: SessionOptions, gpu: str | None, device: str) -> Model:
    dims = dict(options._dims)
    target = f"cpu:native,cuda:{gpu}" if gpu else None
    level = _LEVELS.get(options.graph_optimization_level, 2)
    while True:
        try:
            with warnings.catch_warnings():  # ONNX Runtime logs such things
                warnings.simplefilter("ignore", CompileWarning)
                return compiling.compile(model, dims=dims, level=level, target=target, device=device, cache=_cache(), progress=False,
                                         threads=max(options.intra_op_num_threads, 0))
        except CompileError as e:
            unknown = [name for name in dims if f'--dim {name}={dims[name]}: the model has no dim' in str(e)]
            if not unknown:
                raise translated(e) from None
            del dims[unknown[0]]  # as ONNX Runtime does, in silence
        except Error as e:
            raise translated(e) from None


class InferenceSession:
    def __init__(self, path_or_bytes: Any, sess_options: SessionOptions | None = None, providers: Sequence[Any] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, **ignored: Any) -> None:
        if not isinstance(path_or_bytes, (str, bytes, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        for name in ignored:
            _ignore(f"the argument {name} of InferenceSession")
        self._options = sess_options or SessionOptions()
        self._providers, self._provider_options = _chosen(providers, provider_options)
        first = self._providers[0]
        gpu = _gpu() if first == "CUDAExecutionProvider" else None
        device = f"cuda:{self._provider_options[first].get('device_id', 0)}" if gpu else "cpu"
        self._model = _compiled(path_or_bytes, self._options, gpu, device)
        description = self._model.describe()
        self._inputs = {io.name: io for io in description.inputs}
        self._outputs = [io.name for io in description.outputs]
        self._inputs_meta, self._outputs_meta = map(lambda ios: [NodeArg(io) for io in ios], (description.inputs, description.outputs))
        self._model_meta = ModelMetadata(self._model)
        self._required = [io.name for io in description.inputs if not io.optional and io.form != "optional"]

    def get_inputs(self) -> list[NodeArg]:
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        return []

    def get_modelmeta(self) -> ModelMetadata:
        return self._model_meta

    def get_providers(self) -> list[str]:
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: dict(self._provider_options.get(name, {})) for name in self._providers}

    def get_session_options(self) -> SessionOptions:
        return self._options

    def set_providers(self, providers: Sequence[Any] | None = None, _options: Any = None) -> None:
        if _chosen(providers, None)[0] != self._providers:
            _ignore("InferenceSession.set_providers: providers are chosen when a session is made")

    def enable_fallback(self) -> None:
        pass

    def disable_fallback(self) -> None:
        pass

    def end_profiling(self) -> str:
        _ignore("InferenceSession.end_profiling; dlrun --profile times kernels")
        return ""

    @property
    def get_profiling_start_time_ns(self) -> int:
        _ignore("InferenceSession.get_profiling_start_time_ns; dlrun --profile times kernels")
        return 0

    def _wanted(self, output_names: Sequence[str] | None) -> Sequence[str]:
        if isinstance(output_names, (str, bytes)):
            raise TypeError("run(): output_names is a list of names, or None")
        for name in output_names or ():
            if name not in self._outputs:
                raise InvalidArgument.of(f"Invalid output name:{name}; the model has {', '.join(self._outputs)}")
        return list(output_names) if output_names else self._outputs

    def _run(self, feed: Mapping[str, Any], outputs: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
        missing = [name for name in self._required if name not in feed]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed.keys())}).")
        for name in feed:
            if name not in self._inputs:
                raise InvalidArgument.of(f"Invalid input name: {name}; the model has {', '.join(self._inputs)}")
        try:
            return self._model.run({name: _fed(value, self._inputs[name]) for name, value in feed.items()}, outputs)
        except Error as e:
            raise translated(e) from None

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None) -> list[Any]:
        if not hasattr(input_feed, "keys"):
            raise AttributeError(f"'{type(input_feed).__name__}' object has no attribute 'keys'")
        wanted = self._wanted(output_names)
        found = self._run(input_feed)
        return [found[name] for name in wanted]

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(self, output_names: Any, input_feed: Any, callback: Any, user_data: Any, run_options: Any = None) -> None:
        """Runs at once, and then calls CALLBACK."""
        try:
            results, error = self.run(output_names, input_feed, run_options), ""
        except Exception as e:  # noqa: BLE001 - the callback gets its text
            results, error = [], str(e)
        callback(results, user_data, error)

    def io_binding(self) -> "IOBinding":
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: "IOBinding", run_options: RunOptions | None = None) -> None:
        iobinding._run()


Session = InferenceSession


class IOBinding:
    """Inputs and outputs of a session that stay from run to run. Memory that is given for an output is written by the run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._feed: dict[str, Any] = {}
        self._memory: dict[str, np.ndarray | None] = {}  # by output, in the order in which they were bound
        self._found: dict[str, Any] = {}

    def _input(self, name: str, value: Any) -> None:
        if name not in self._session._inputs:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        self._feed[name] = value

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        _host(device_type, device_id)
        self._input(name, _at(buffer_ptr, shape, element_type))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._input(name, ortvalue)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None, shape: Sequence[int] | None = None,
                    buffer_ptr: int | None = None) -> None:
        _host(device_type, device_id)
        self._memory[name] = None if buffer_ptr is None else _at(buffer_ptr, shape or (), element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._memory[name] = ortvalue.numpy()

    def _run(self) -> None:
        wanted = self._session._wanted(list(self._memory))
        found = self._session._run(self._feed, {name: m for name, m in self._memory.items() if m is not None})
        self._found = {name: found[name] for name in wanted}

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(value) for value in self._found.values()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        return list(self._found.values())

    def clear_binding_inputs(self) -> None:
        self._feed.clear()

    def clear_binding_outputs(self) -> None:
        self._memory.clear()
        self._found.clear()

    def synchronize_inputs(self) -> None:
        pass

    def synchronize_outputs(self) -> None:
        pass


SessionIOBinding = IOBinding


# ---- The module ----

def set_default_logger_severity(_severity: int) -> None:
    """dlcc writes no log."""


def set_default_logger_verbosity(_verbosity: int) -> None:
    """dlcc writes no log."""


def set_seed(_seed: int) -> None:
    _ignore("set_seed; random operators take the seeds of their attributes")


def disable_telemetry_events() -> None:
    """dlcc sends no events."""


def enable_telemetry_events() -> None:
    """dlcc sends no events."""


def preload_dlls(**_ignored: Any) -> None:
    """dlcc needs no libraries of CUDA but the driver's."""


def get_build_info() -> str:
    return f"dlcc.ort: {programs.compiler_version()}"


def get_version_string() -> str:
    return __version__


def install() -> None:
    """From now on `import onnxruntime` in this process is this module. Other modules of the real package are not found."""
    me = sys.modules[__name__]
    sys.modules["onnxruntime"] = me
    me.__path__ = []  # type: ignore[attr-defined] # a package without files of its own
    for name in ("capi", "capi._pybind_state", "capi.onnxruntime_pybind11_state", "capi.onnxruntime_inference_collection"):
        inner = types.ModuleType(f"onnxruntime.{name}")
        inner.__dict__.update({k: v for k, v in vars(me).items() if not k.startswith("__")})
        inner.__path__ = []  # type: ignore[attr-defined]
        sys.modules[f"onnxruntime.{name}"] = inner
        setattr(me if "." not in name else sys.modules["onnxruntime.capi"], name.rpartition(".")[2], inner)


def _main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] == "-m" and len(arguments) == 1):
        sys.exit("usage: python -m dlcc.ort PROGRAM ARGUMENT... or -m MODULE ARGUMENT...: runs it with dlcc for onnxruntime")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        if not os.path.exists(arguments[0]):
            sys.exit(f"dlcc.ort: {arguments[0]}: there is no such program")
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    from dlcc import ort  # this file again, under its own name

    ort._main()

# SPDX-License-Identifier: Apache-2.0
"""PyTorch: torch.compile(model, backend="dlcc"), and export, which compiles a module ahead of time.

This file needs torch, onnx and onnxscript; the rest of the package needs none of them. A graph goes through torch.export and
torch.onnx.export(dynamo=True). The weights are constants of the compiled model, as with torch._inductor.config.freezing.

The backend compiles for inference on the CPU. A graph that it refuses (its gradients are wanted, it writes to its inputs, it draws
random numbers, ONNX or dlcc lacks an operator) runs eagerly; the first one is a RefusedWarning, and `refused` has them all."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
try:
    import torch
except ImportError as missing:
    raise ImportError("dlcc.pytorch needs PyTorch: pip install torch onnx onnxscript") from missing
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from . import compiling
from .errors import CompileError, CompileWarning, Error
from .model import Model


class RefusedWarning(UserWarning):
    """A graph of torch.compile that dlcc does not compile, and that runs eagerly."""


class Refused(Error):
    """Why a module or graph is not compiled."""


# Why graphs were refused: {reason: how many}.
refused: dict[str, int] = {}


# ---- Tensors ----

# Types that NumPy lacks or holds in another form: their bits pass as integers of the same size.
_AS_BITS = {torch.bfloat16: torch.int16}


def _from_numpy(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    if dtype in _AS_BITS:
        return torch.from_numpy(array.view(np.int16)).view(dtype)
    return torch.from_numpy(array)


def _to_model(tensor: torch.Tensor) -> Any:
    """TENSOR as an input of a model: an array, or, of types that NumPy lacks, the tensor itself, which has __dlpack__."""
    tensor = tensor.detach()
    return tensor if tensor.dtype in _AS_BITS else tensor.numpy()


# ---- From a module to a model ----

def _draws(node: torch.fx.Node) -> bool:
    """Whether NODE draws random numbers. An operator with dropout does so only in training and with a probability above 0."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    schema = node.target._schema.arguments
    given = {a.name: a.default_value for a in schema} | {a.name: v for a, v in zip(schema, node.args)} | node.kwargs
    return given.get("train") is not False and not any(given.get(name) == 0 for name in ("dropout_p", "dropout", "p"))


def _check_program(program: torch.export.ExportedProgram) -> None:
    """Refuses what ONNX would lose: writes to inputs and buffers, and random numbers that are drawn anew in each run."""
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise Refused(f"it writes to {written[0]}, which is a buffer or an input; call model.eval(), or return the new value")
    for node in program.graph.nodes:
        if _draws(node):
            raise Refused(f"{node.target} draws random numbers; call model.eval(), or pass them as inputs")


def _is_named(dim: Any) -> bool:
    """Whether DIM is a torch.export.Dim, which has a name and bounds, and neither computed from another one nor a hint."""
    return isinstance(name := getattr(dim, "__name__", None), str) and name.isidentifier()


def _names(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> Any:
    """DYNAMIC_SHAPES with names in place of each torch.export.Dim: those that the ONNX model then has for these sizes. A dictionary is in
    the order of the arguments, as torch.onnx.export takes it to be."""
    if isinstance(dynamic_shapes, dict):
        order = list(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
        dynamic_shapes = dict(sorted(dynamic_shapes.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))
    return pytree.tree_map(lambda dim: dim.__name__ if _is_named(dim) else dim, dynamic_shapes)


def _bounds(dynamic_shapes: Any) -> dict[str, tuple[int, int]]:
    """The sizes that each torch.export.Dim of DYNAMIC_SHAPES with an upper bound allows, by its name; the ONNX model does not have them."""
    return {dim.__name__: (dim.min, dim.max) for dim in pytree.tree_leaves(dynamic_shapes) if _is_named(dim) and isinstance(dim.max, int)}


def _export(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, folder: str,
            input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None) -> str:
    """The path of an ONNX file in FOLDER that computes MODULE."""
    path = os.path.join(folder, f"{type(module).__name__}.onnx")
    try:
        with torch.no_grad(), _no_fast_path(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False)
            program = program.run_decompositions({})  # only now does it say what is written to
            _check_program(program)
            onnx_program = torch.onnx.export(program, dynamo=True, verbose=False, optimize=True, dynamic_shapes=_names(module, args, kwargs or {}, dynamic_shapes),
                                             input_names=input_names, output_names=output_names)
            onnx_program.save(path, external_data=True)
    except ImportError as error:
        raise Refused(f"torch.onnx.export needs {error.name}: pip install onnx onnxscript") from error
    except Refused:
        raise
    except Exception as error:  # torch's exporters raise exceptions of many kinds about what they cannot express
        hint = "; the sizes of dynamic dims in the example have to be 2 or more" if "Constraints violated" in str(error) else ""
        raise Refused(f"torch.onnx.export: {_first_line(error)}{hint}") from error
    return path


@contextlib.contextmanager
def _no_fast_path() -> Iterator[None]:
    """Without the fused kernels of torch.nn.Transformer, which ONNX lacks."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _first_line(error: BaseException) -> str:
    """The reason for ERROR: the first line of the exception from which it follows."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def export(module: torch.nn.Module, args: Sequence[Any] | torch.Tensor = (), kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
           input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None, **options: Any) -> Model:
    """Compiles MODULE ahead of time, as it computes with the inputs ARGS, a tuple or one tensor, and KWARGS.

    dynamic_shapes  which dims of the inputs vary, as torch.export.export takes it: {"x": {0: torch.export.Dim("batch", max=64)}}; bounds
                    of a dim are bounds of the model's. In ARGS such a dim has a size of 2 or more: torch takes 0 and 1 for constants
    input_names, output_names   names in the compiled model; default: those that torch.onnx.export finds
    options         arguments of dlcc.compile: dims, target, cache, level, threads, ...

    Raises Refused if torch cannot export the module, and dlcc.CompileError if dlcc lacks something of it."""
    args = (args,) if isinstance(args, torch.Tensor) else args
    with tempfile.TemporaryDirectory(prefix="dlcc-") as folder:
        path = _export(module, args, kwargs, dynamic_shapes, folder, input_names, output_names)
        options["dims"] = {**_bounds(dynamic_shapes), **(options.get("dims") or {})}
        return compiling.compile(path, **options)


# ---- torch.compile ----

def _version(tensor: torch.Tensor) -> int:
    """Counts the writes to TENSOR. Those of inference tensors are not counted, but rarely happen."""
    return 0 if tensor.is_inference() else tensor._version


@dataclass
class _Frozen:
    """A parameter or buffer that is a constant of the compiled graph: which argument it is, and the state that was compiled."""

    at: int
    tensor: torch.Tensor
    version: int

    def same(self, tensor: torch.Tensor) -> bool:
        return tensor is self.tensor and _version(tensor) == self.version


@dataclass(frozen=True)
class _Build:
    """A graph as it was compiled: for these parameters, those of the graph itself and those that are arguments, and these numbers."""

    own: Sequence[tuple[torch.Tensor, int]]
    frozen: Sequence[_Frozen]
    values: Mapping[int, float]
    order: Sequence[int]  # the arguments that are inputs of the model
    results: Sequence[int]  # for each result, which output of the model it is
    types: Sequence[torch.dtype]
    structure: Any
    model: Model

    def fits(self, arguments: Sequence[Any]) -> bool:
        return (all(_version(tensor) == version for tensor, version in self.own) and all(f.same(arguments[f.at]) for f in self.frozen) and
                all(arguments[at].item() == value for at, value in self.values.items()))

    def run(self, arguments: Sequence[Any]) -> Any:
        computed = self.model(*(_to_model(arguments[at]) for at in self.order))
        computed = computed if isinstance(computed, tuple) else (computed,)
        tensors = [_from_numpy(a, t) for a, t in zip(computed, self.types)]
        return pytree.tree_unflatten([tensors[i] for i in self.results], self.structure)


def _placeholders(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _scalars(graph: torch.fx.GraphModule) -> list[int]:
    """The placeholders that are numbers of the module, such as the eps of a normalisation: each is a tensor of which only the
    value is read. With dynamic=True torch.compile passes them so."""
    return [at for at, node in enumerate(_placeholders(graph))
            if node.users and all(user.op == "call_method" and user.target == "item" for user in node.users)]


def _with_scalars(graph: torch.fx.GraphModule, values: Mapping[int, float]) -> torch.fx.GraphModule:
    """A copy of GRAPH in which the placeholders of VALUES, as _scalars returns them, have these values."""
    if not values:
        return graph
    copied = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    placeholders = _placeholders(copied)
    for at, value in values.items():
        for user in list(placeholders[at].users):
            user.replace_all_uses_with(value)
            copied.graph.erase_node(user)
    copied.recompile()
    return copied


class _Rest(torch.nn.Module):
    """GRAPH as a function of its tensors that are not constants. Sizes that it takes as integers are those of these tensors."""

    def __init__(self, graph: torch.fx.GraphModule, constants: Mapping[int, torch.Tensor], sizes: Mapping[int, tuple[int, int]],
                 values: Mapping[int, float], order: Sequence[int]) -> None:
        super().__init__()
        self.body, self.sizes, self.order = _with_scalars(graph, values), dict(sizes), list(order)
        self.values = dict(values)
        self.names: dict[int, str] = {}
        for at, tensor in constants.items():
            self.names[at] = f"constant_{at}"
            self.register_buffer(self.names[at], tensor.detach())

    def forward(self, *inputs: torch.Tensor) -> Any:
        given: dict[int, Any] = dict(zip(self.order, inputs)) | self.values
        given.update({at: getattr(self, name) for at, name in self.names.items()})
        given.update({at: given[tensor].shape[dim] for at, (tensor, dim) in self.sizes.items()})
        return self.body(*(given[at] for at in range(len(given))))


def _is_constant(argument: Any) -> bool:
    """Whether ARGUMENT is a parameter or a buffer of the module, which torch.compile passes as an argument."""
    return isinstance(argument, torch.nn.Parameter) or (
        isinstance(argument, torch.Tensor) and getattr(argument, "_dynamo_static_input_type", None) is not None)


def _size_source(expression: Any, tensors: Mapping[int, Any]) -> tuple[int, int]:
    """The tensor and the dim of it that the symbolic size EXPRESSION is."""
    for at, tensor in tensors.items():
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and size.node.expr == expression:
                return at, dim
    raise Refused(f"the integer input {expression} is not a size of a tensor")


def _dynamic(tensor: Any) -> dict[int, Any]:
    return {d: torch.export.Dim.AUTO for d, size in enumerate(tensor.shape) if isinstance(size, torch.SymInt)}


class _Compiled:
    """A graph of torch.compile as a function of its arguments. It is compiled when it is first called, outside of tracing and with
    real tensors, and again after a parameter or a number of the module has changed. Where that is refused, the graph runs as it is."""

    MOST = 8  # builds that are kept; a graph whose parameters change more often would be compiled again and again

    def __init__(self, graph: torch.fx.GraphModule, options: Mapping[str, Any]) -> None:
        self.graph, self.options, self.lock = graph, dict(options), threading.Lock()
        self.placeholders = _placeholders(graph)
        self.scalars = _scalars(graph)
        self.builds: tuple[_Build, ...] = ()
        self.eager = False

    def build(self, arguments: Sequence[Any]) -> _Build:
        frozen, tensors, integers = [], {}, {}
        values = {at: arguments[at].item() for at in self.scalars}
        for at, (node, argument) in enumerate(zip(self.placeholders, arguments)):
            meaning = node.meta.get("example_value", argument)
            if isinstance(argument, torch.Tensor) and argument.device.type != "cpu":
                raise Refused(f"a tensor is on {argument.device}; the backend compiles for CPUs")
            if at in values:
                continue
            if _is_constant(argument):
                frozen.append(_Frozen(at, argument, _version(argument)))
            elif isinstance(argument, torch.Tensor):
                tensors[at] = meaning
            elif isinstance(meaning, torch.SymInt):
                integers[at] = meaning.node.expr
            else:
                raise Refused(f"an input is a {type(argument).__name__}, which is neither a tensor nor a size")
        sizes = {at: _size_source(expression, tensors) for at, expression in integers.items()}
        rest = _Rest(self.graph, {f.at: f.tensor for f in frozen}, sizes, values, list(tensors))
        structure, results, types = _results(self.graph)
        own = [(tensor, _version(tensor)) for tensor in (*self.graph.parameters(), *self.graph.buffers())]
        model = export(rest, [arguments[at] for at in tensors],
                       dynamic_shapes={"inputs": tuple(map(_dynamic, tensors.values()))}, **self.options)
        return _Build(own, frozen, values, list(tensors), results, types, structure, model)

    def found(self, arguments: Sequence[Any]) -> _Build | None:
        return next((build for build in self.builds if build.fits(arguments)), None)

    def prepare(self, arguments: Sequence[Any]) -> _Build | None:
        """The build for ARGUMENTS, compiled if there is none. None: the graph runs eagerly."""
        with self.lock:
            found = None if self.eager else self.found(arguments)
            if found or self.eager:
                return found
            try:
                if len(self.builds) == self.MOST:
                    raise Refused(f"parameters or numbers of the module have changed {self.MOST} times")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CompileWarning)
                    found = self.build(arguments)
                self.builds = (found, *self.builds)
            except Error as error:
                if isinstance(error, CompileError) and error.status == 2:  # wrong options: no other graph would be compiled, either
                    raise
                self.refuse(str(error) if isinstance(error, Refused) else _first_line(error))
            return found

    def refuse(self, reason: str) -> None:
        self.eager = True
        refused[reason] = refused.get(reason, 0) + 1
        if sum(refused.values()) == 1:
            warnings.warn(f"a graph runs eagerly: {reason} (dlcc.pytorch.refused counts all such graphs)", RefusedWarning, stacklevel=2)

    def __call__(self, *arguments: Any) -> Any:
        if not self.eager and torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            self.refuse("gradients are wanted; call the model under torch.no_grad()")
        build = None if self.eager else self.found(arguments) or self.prepare(arguments)
        return build.run(arguments) if build else self.graph(*arguments)


def _results(graph: torch.fx.GraphModule) -> tuple[Any, list[int], list[torch.dtype]]:
    """The structure of what GRAPH returns; for each tensor in it which output of the model it is, and the outputs' types. A result
    that is given twice is one output to us, but two to torch.export."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    leaves, structure = pytree.tree_flatten(output.args[0])
    values = [leaf.meta.get("example_value") if isinstance(leaf, torch.fx.Node) else None for leaf in leaves]
    inputs = [node.meta.get("example_value") for node in graph.graph.nodes if node.op in ("placeholder", "get_attr")]
    given = [StorageWeakRef(value.untyped_storage()) for value in inputs if isinstance(value, torch.Tensor)]
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise Refused("a result is not a tensor")
    if any(StorageWeakRef(value.untyped_storage()) in given for value in values):
        raise Refused("a result is an input or a view of one, and would be a copy of it")
    return structure, [leaves.index(leaf) for leaf in leaves], [value.dtype for value in values]


def backend(graph: torch.fx.GraphModule, _examples: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:
    """The backend "dlcc" of torch.compile. OPTIONS: arguments of dlcc.compile; default: the threads of torch."""
    if mode not in (None, "default"):
        raise ValueError(f'dlcc has no mode "{mode}"; options={{"level": 3}} optimises harder')
    unknown = set(options or {}) - set(inspect.signature(compiling.compile).parameters)
    if unknown:
        raise TypeError(f"dlcc.compile has no argument {min(unknown)}")
    compiling.check_run(**(options or {}))
    return _Compiled(graph, {"threads": torch.get_num_threads(), "progress": False, **(options or {})})

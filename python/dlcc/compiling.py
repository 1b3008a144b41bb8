# SPDX-License-Identifier: Apache-2.0
"""compile: from a model to a Model that runs. check: what of a model is supported."""

from __future__ import annotations

import contextlib
import numbers
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import caching, programs
from .errors import CompileError, CompileWarning, Error, RunError, diagnostics_of, object_of
from .model import Model, open_model

Dims = Mapping[str, int | str | tuple[int, int]]
Paths = Sequence[str | os.PathLike[str]]
_PROTO_LIMIT = 2**31 - 1  # bytes of a serialized protobuf


@dataclass
class _Source:
    """A model as a file. `name` is what messages and the exported symbols call it."""

    path: str
    name: str


@contextlib.contextmanager
def _source(model: Any) -> Iterator[_Source]:
    """MODEL, a path, a proto or its bytes, as a file."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        path = os.path.join(".", path) if path.startswith("-") else path  # else it is an option
        yield _Source(path, os.path.basename(path))
        return
    if hasattr(model, "SerializeToString"):
        if hasattr(model, "ByteSize") and model.ByteSize() > _PROTO_LIMIT:
            raise CompileError("dlcc: error: a proto of more than 2 GiB cannot be passed on; save it with external data, "
                               "onnx.save(model, path, save_as_external_data=True), and give the path")
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"a model is a path, an onnx.ModelProto or its bytes, not {type(model).__name__}")
    with tempfile.TemporaryDirectory(prefix="dlcc-") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(model)
        yield _Source(path, "model.onnx")


def _dim_options(dims: Dims | None) -> list[str]:
    options = []
    if dims is not None and not isinstance(dims, Mapping):
        raise TypeError(f"dims are a dict, such as {{\"batch\": 8}}, and not {type(dims).__name__}")
    for name, size in (dims or {}).items():
        bounds = f"{size[0]}..{size[1]}" if isinstance(size, tuple) else str(size)
        options.append(f"--dim={name}={bounds}")
    return options


def _check_types(arguments: Mapping[str, Any], expected: type, called: str = "str") -> None:
    """Refuses ARGUMENTS, by name, of another type than EXPECTED, which is CALLED so. None stands for an argument that is not given."""
    for name, x in arguments.items():
        if x is not None and not isinstance(x, expected):
            raise TypeError(f"{name} is of type {called}, and not {type(x).__name__}: {x!r}")


def _options(dims: Dims | None, target: str | None, ops: Paths, options: Sequence[str]) -> list[str]:
    if isinstance(ops, (str, os.PathLike)):
        raise TypeError("ops are a list of files, such as [\"gelu.dl\"], and not one name")
    named = [f"--op={os.fspath(path)}" for path in ops]
    if isinstance(options, str):
        raise TypeError("options are a list, such as [\"--weights-as=i4\"], and not one string")
    for option in options:
        _check_types({"an option": option}, str)
    return _dim_options(dims) + ([f"--target={target}"] if target else []) + named + list(options)


def _symbol(name: str) -> str:
    """The prefix of the exported symbols for a model that is called NAME."""
    stem = re.sub(r"[^0-9A-Za-z_]", "_", name.split(".")[0]) or "model"
    return "m" + stem if stem[0].isdigit() else stem


# ---- compile ----

def _warn(lines: Sequence[str]) -> None:
    """Gives the warnings in LINES, for the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    for diagnostic in diagnostics_of(lines):
        if diagnostic.kind == "warning":
            warnings.warn(diagnostic.text, CompileWarning, stacklevel=level)


def check_run(device: str | None = None, threads: int = 0, **_others: Any) -> None:
    """Refuses where a model runs before it is compiled. The runtime refuses the same."""
    _check_types({"threads": threads}, numbers.Integral, "int")
    _check_types({"device": device}, str)
    if threads < 0:
        raise RunError(f"threads is {threads}; it is a number of threads, and 0 for as many as the process may use")
    if device and not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", device):
        raise RunError(f'device "{device}": it is auto, cpu, cuda or cuda:N')


def compile(model: Any, *, dims: Dims | None = None, target: str | None = None,  # noqa: A001 - it is dlcc.compile
            cache: str | os.PathLike[str] | None = None, cache_size: int | None = None, level: int = 2, ops: Paths = (), options: Sequence[str] = (),
            progress: bool | None = None, device: str | None = None, threads: int = 0, profile: bool = False) -> Model:
    """Compiles MODEL, a path, an onnx.ModelProto or its bytes, and loads it.

    dims      binds or bounds symbolic dims: {"batch": 8}, {"seq": (1, 512)}
    target    the processors, as dlcc's --target: "cpu:x86-64-v3,cuda:sm_80"; default: this machine's CPU
    cache     a folder that keeps compiled models; one that is there already is not compiled again
    cache_size  the MiB that the folder holds at most; default: those of dlcc's --cache-size
    level     how hard to optimise, 0 to 3
    ops       files that define operators which dlcc lacks (docs/operators.md)
    options   further options of the program dlcc
    progress  show on stderr what the compiler does; default: if that is a terminal
    device    where the model runs: "cpu", "cuda", "cuda:1"; default: a GPU that it has code for, else the CPU
    threads   the threads of a run; 0: as many as there are processors
    profile   time each kernel, for Model.profile()

    Raises CompileError, and gives the compiler's warnings as CompileWarning. What the options make the compiler print, such as what
    became of each weight, is Model.report."""
    def make(arguments: Sequence[str]) -> str:
        lines, report = programs.compile_model([source.path, *given, *arguments], source.name, progress)
        _warn(lines)
        return report

    def load(path: str, report: str, folder: str | None = None) -> Model:
        return open_model(path, device=device, threads=threads, profile=profile, folder=folder, report=report)

    check_run(device, threads)
    _check_types({"level": level}, numbers.Integral, "int")
    _check_types({"target": target}, str)

    with _source(model) as source:
        symbol = _symbol(source.name)
        given = [f"-O{level}", f"--name={symbol}", *_options(dims, target, ops, options)]
        given += [f"--cache-size={cache_size}"] if cache_size is not None else []
        found = caching.model_in(cache, source.path, given, make, load) if cache is not None else None
        if found is not None:
            return found
        folder = tempfile.mkdtemp(prefix="dlcc-")
        try:
            output = os.path.join(folder, symbol + ".so")
            report = make(["-o", output])
            if not os.path.exists(output):  # in a cache it may be missing for another reason: another process has removed it
                raise Error(f"with options={list(options)} the compiler makes no library")
            os.unlink(output[:-len("so")] + "h")
            return load(output, report, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


# ---- check ----

@dataclass
class NodeSupport:
    """Whether a node of a model is supported. `how` is the strategy of its kernel, or the reason why it is not."""

    node: str
    op: str
    supported: bool
    how: str

    def __str__(self) -> str:
        verdict = "supported: " if self.supported else "" if self.how.startswith("not supported") else "not supported: "
        return f'node "{self.node}" ({self.op}): {verdict}{self.how}'


class Support(list[NodeSupport]):
    """What check found: an entry for each node. `others` has the faults that belong to no node, of inputs and weights."""

    def __init__(self, nodes: Sequence[NodeSupport], others: Sequence[str]) -> None:
        super().__init__(nodes)
        self.others = list(others)

    @property
    def ok(self) -> bool:
        """Whether the whole model is supported."""
        return not self.others and all(n.supported for n in self)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join([*map(str, self), *self.others])


def check(model: Any, *, dims: Dims | None = None, target: str | None = None, ops: Paths = (),
          options: Sequence[str] = ()) -> Support:
    """For each node of MODEL, whether and how it is supported. The result is true if the whole model is.

    Raises CompileError if MODEL cannot be read at all."""
    with _source(model) as source:
        printed, lines, status = programs.check_model([source.path, *_options(dims, target, ops, options)])
    nodes, others = [], []
    for line in map(object_of, printed.splitlines()):  # reports of other options are not objects
        if line is None or "supported" not in line:
            continue
        if "op" in line:
            nodes.append(NodeSupport(line["node"], line["op"], line["supported"], line["how"]))
        else:
            others.append(line["how"])
    if not nodes and not others and status:
        raise programs.compile_error(lines, status)
    if status and all(n.supported for n in nodes) and not others:
        others = [d.text for d in diagnostics_of(lines)] or [f"exit status {status}"]
    return Support(nodes, others)

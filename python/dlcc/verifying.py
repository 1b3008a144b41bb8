# SPDX-License-Identifier: Apache-2.0
"""verify: a compiled model beside ONNX Runtime, on random inputs. The program dlrun judges the differences (docs/cli.md)."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import compiling, dtypes, programs, tensors, wire
from .errors import Error, RunError
from .model import IO, Description, Model

_SIZES = (2, 3, 1, 5, 7, 4)  # of symbolic dims, in turn: runs see odd and even ones, and 1


@dataclass(frozen=True)
class Comparison:
    """An output of one run beside ONNX Runtime's. `node` and `op` made it, where intermediate values are compared."""

    run: int
    output: str
    ok: bool
    text: str  # the largest errors, and the rule that decided
    node: str | None = None
    op: str | None = None

    def __str__(self) -> str:
        made = f' of node "{self.node}" ({self.op})' if self.op else ""
        return f'run {self.run}: "{self.output}"{made}: {self.text}'


class Verification(list[Comparison]):
    """What verify found. It is true if all outputs agree."""

    @property
    def first(self) -> Comparison | None:
        """The first output, in the order of the model's nodes, that differs."""
        return next((c for c in self if not c.ok), None)

    def __bool__(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        wrong = [c for c in self if not c.ok]
        return "\n".join([*map(str, wrong), f"{len(self)} outputs compared, {len(wrong)} differ"])


def _runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise Error("dlcc.verify compares with ONNX Runtime, which is not installed: pip install onnxruntime") from None
    return onnxruntime


@contextlib.contextmanager
def _theirs(what: str) -> Iterator[None]:
    """An exception of ONNX Runtime as one of this package, which says whose it is."""
    try:
        yield
    except Exception as e:  # its classes have no common base
        raise Error(f"ONNX Runtime {what}: {e}; random sizes are bounded by dims={{\"H\": (8, 64)}}") from e


# ---- Inputs ----

_WORDS = ("", "a", "b c", "17")


def _size(dim: int | str, k: int, description: Description) -> int:
    if isinstance(dim, int):
        return dim
    if dim == "?":  # of a tensor in a sequence, which may have any size
        return _SIZES[k % len(_SIZES)]
    names = [s.name for s in description.symbols]
    if dim not in names:
        raise Error(f"verify chooses no value for a dim {dim}: give it inputs=[{{name: array}}, ...]")
    at = names.index(dim)
    symbol = description.symbols[at]
    size = max(_SIZES[(k + at) % len(_SIZES)], symbol.lower)
    return size if symbol.upper is None else min(size, symbol.upper)


def _random(rng: np.random.Generator, io: IO, shape: tuple[int, ...]) -> np.ndarray:
    """Floats of the normal distribution; integers 0 and 1, which are indices of most axes; short strings."""
    dtype = io.numpy
    if dtype == object:
        return rng.choice(np.array(_WORDS, object), shape)
    if dtype == np.bool_ or dtype.kind in "iu" or io.dtype in ("i4", "u4", "i2", "u2"):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _value(rng: np.random.Generator, io: IO, k: int, description: Description, first: int = 0) -> Any:
    """Random: of a sequence one to three tensors, which differ in their first dim alone, of an optional its value."""
    if io.form == "sequence":
        return [_value(rng, io.items[0], k, description, i) for i in range(1 + k % 3)]
    if io.form == "optional":
        return _value(rng, io.items[0], k, description)
    if io.form == "map":
        raise Error(f'verify makes no map for input "{io.name}": give it inputs=[{{name: value}}, ...]')
    return _random(rng, io, tuple(_size(d, k + (first if i == 0 else 0), description) for i, d in enumerate(io.dims)))


def _feeds(n: int, seed: int, description: Description) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{io.name: _value(rng, io, k, description) for io in description.inputs if not io.optional} for k in range(n)]


# ---- Intermediate values ----

def _with_values(model: Any) -> tuple[bytes, dict[str, tuple[str, str]]]:
    """MODEL with every intermediate tensor as an output, and {value: (node, operator)}."""
    try:
        import onnx
    except ImportError:
        raise Error("verify(nodes=True) needs the onnx package: pip install onnx") from None
    if isinstance(model, (str, os.PathLike)):
        proto = onnx.load(os.fspath(model))
    else:
        proto = onnx.ModelProto()
        proto.ParseFromString(model.SerializeToString() if hasattr(model, "SerializeToString") else bytes(model))
    inferred = onnx.shape_inference.infer_shapes(proto)
    types = {v.name: v for v in (*inferred.graph.value_info, *inferred.graph.output)}
    declared = {v.name: v for v in proto.graph.output}
    made = {}
    del proto.graph.output[:]
    for i, node in enumerate(proto.graph.node):
        for name in filter(None, node.output):
            value = types.get(name)
            if name in declared or (value is not None and value.type.HasField("tensor_type")):
                proto.graph.output.append(declared.get(name, value))
                made[name] = node.name or f"{node.op_type}_{i}", node.op_type
    for name, value in declared.items():  # an output that is an input or a constant
        if name not in made:
            proto.graph.output.append(value)
    return proto.SerializeToString(), made


# ---- Comparing ----

def _value_of(io: IO, x: Any, where: str) -> Any:
    """X, a value of the form of IO, as ONNX Runtime takes it: of arrays, lists and dicts."""
    if io.form == "tensor":
        return tensors.as_array(x, io.code, where)
    if io.form == "optional":
        return None if x is None else _value_of(io.items[0], x, where)
    if io.form == "sequence":
        if not isinstance(x, (list, tuple)):
            raise RunError(f"{where}: {type(x).__name__} is not a list")
        return [_value_of(io.items[0], item, f"{where}, item {i}") for i, item in enumerate(x)]
    if not isinstance(x, Mapping):
        raise RunError(f"{where}: {type(x).__name__} is not a dict")
    keys = tensors.as_array(list(x), io.items[0].code, f"{where}, keys").tolist()
    return dict(zip(keys, x.values()))


def _given(feed: Mapping[str, Any], inputs: Sequence[IO]) -> list[tuple[IO, Any]]:
    """The values of FEED with the inputs that they are for."""
    known = {io.name: io for io in inputs}
    unknown = [name for name in feed if name not in known]
    if unknown:
        raise RunError(f'the model has no input "{unknown[0]}"; its inputs are {", ".join(known)}')
    return [(known[name], _value_of(known[name], x, f'"{name}"')) for name, x in feed.items()]


def _proto(name: str, io: IO, x: Any) -> bytes:
    """X, a value of the form of IO, as the proto that holds it in a data set."""
    if io.form == "map":
        key, value = io.items
        values = [_proto("", value, tensors.as_array(v, value.code, "a value")) for v in x.values()]
        return wire.mapping(name, key.code, list(x), wire.listed("", value.form, values))
    if io.form != "tensor":
        held = x if io.form == "sequence" else [] if x is None else [x]
        return wire.listed(name, io.items[0].form, [_proto("", io.items[0], v) for v in held])
    if io.code == dtypes.STRING:
        return wire.tensor(name, dtypes.STRING, np.shape(x), [s.encode() for s in np.ravel(x).tolist()])
    kind = dtypes.of(x.dtype, f'"{name}"')
    array = np.ascontiguousarray(x)
    raw = dtypes.pack(array, kind.bits).tobytes() if kind.bits % 8 else array.tobytes()
    return wire.tensor(name, kind.code, x.shape, raw)


def _write(folder: str, role: str, values: Sequence[tuple[IO, Any]]) -> None:
    for i, (io, x) in enumerate(values):
        with open(os.path.join(folder, f"{role}_{i}.pb"), "wb") as f:
            f.write(_proto(io.name, io, x))


_LINE = re.compile(r"test_data_set_(?P<run>\d+): (?P<rest>.*)")


def _compare(library: str, folder: str, names: Sequence[str], made: Mapping[str, tuple[str, str]], n: int) -> Verification:
    """The verdicts of dlrun on the data sets in FOLDER. It prints a line for each output of each set, in order."""
    done = subprocess.run([programs.path_of("dlrun"), library, "--device", "cpu", "--data", folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace", check=False)
    lines = [match for match in map(_LINE.fullmatch, done.stdout.splitlines()) if match]
    if len(lines) != n * len(names):
        text = done.stdout.strip() or f"dlrun ended with status {done.returncode}"
        raise Error(f'{text}\nsizes are random where no inputs are given: dims={{"H": (8, 64)}} bounds them')
    found = Verification()
    for i, match in enumerate(lines):
        name = names[i % len(names)]
        text = match["rest"].partition(": ")[2] if match["rest"].startswith(name + ": ") else match["rest"]
        found.append(Comparison(int(match["run"]), name, ": FAIL" not in match["rest"], text, *made.get(name, ())))
    return found


def verify(model: Any, n: int = 3, *, nodes: bool = False, inputs: Sequence[Mapping[str, Any]] | None = None, seed: int = 0,
           **options: Any) -> Verification:
    """Compiles MODEL and compares N runs with ONNX Runtime's, which must be installed.

    nodes    compare every intermediate value too, so that `first` is the first node that differs. All of them become outputs,
             so that kernels fuse less than in the model itself. Needs the onnx package.
    inputs   the inputs of the runs, instead of random ones; integers among those are 0 and 1
    seed     of the random inputs
    options  those of compile"""
    if isinstance(inputs, Mapping) or not all(isinstance(feed, Mapping) for feed in inputs or ()):
        raise TypeError("inputs are a list of the runs' inputs, [{name: value}, ...]")
    runtime = _runtime()
    made: dict[str, tuple[str, str]] = {}
    if nodes:
        model, made = _with_values(model)
    source = os.fspath(model) if isinstance(model, (str, os.PathLike)) else \
        model.SerializeToString() if hasattr(model, "SerializeToString") else bytes(model)
    compiled: Model = compiling.compile(model, **options)
    quiet = runtime.SessionOptions()
    quiet.log_severity_level = 4  # the exception says it
    with _theirs("does not take the model"):
        session = runtime.InferenceSession(source, quiet, providers=["CPUExecutionProvider"])
    description = compiled.describe()
    names = [io.name for io in description.outputs]
    feeds = list(inputs) if inputs is not None else _feeds(n, seed, description)
    with compiled, tempfile.TemporaryDirectory(prefix="dlcc-") as folder:
        for k, feed in enumerate(feeds):
            case = os.path.join(folder, f"test_data_set_{k}")
            os.mkdir(case)
            given = _given(feed, description.inputs)
            _write(case, "input", given)
            with _theirs(f"fails on run {k}"):
                theirs = session.run(names, {io.name: x for io, x in given})
            _write(case, "output", list(zip(description.outputs, theirs)))
        library = os.path.join(folder, description.name + ".so")
        compiled.save(library)
        return _compare(library, folder, names, made, len(feeds))

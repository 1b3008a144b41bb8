# SPDX-License-Identifier: Apache-2.0
"""A compiled model that is loaded: its description, and runs of it through the C API."""

from __future__ import annotations

import _ctypes
import atexit
import ctypes
import errno
import itertools
import os
import shutil
import struct
import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from . import abi, dtypes, files, tensors
from .errors import Error, RunError

_SUFFIX = b"_get_api"


# ---- The library ----

def _symbols_of(path: str, f: BinaryIO) -> Iterator[bytes]:
    """The names of the symbols that F, the library at PATH, defines."""
    size, head = os.fstat(f.fileno()).st_size, f.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        raise Error(f"{path}: is not a library that dlcc made")
    (at,), (count,) = struct.unpack_from("<Q", head, 0x28), struct.unpack_from("<H", head, 0x3C)
    if at + 64 * count > size:  # dlcc and linkers put this table last, and loading a library that is cut off would crash
        raise Error(f"{path}: is cut off: it has {size} of {at + 64 * count} bytes; copy or compile it again")
    f.seek(at)
    sections = [struct.unpack_from("<IIQQQQIIQQ", section) for section in iter(lambda: f.read(64), b"")][:count]
    for kind, offset, bytes_, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != 11 or link >= count or max(offset + bytes_, sections[link][4] + sections[link][5]) > size:  # SHT_DYNSYM
            continue
        f.seek(offset)
        symbols = f.read(bytes_)
        f.seek(sections[link][4])
        names = f.read(sections[link][5])
        for name, _, _, section in struct.iter_unpack("<IBBH16x", symbols[:bytes_ // 24 * 24]):
            if section:
                yield names[name:max(names.find(b"\0", name), name)]


def _api_symbol(path: str, f: BinaryIO) -> str:
    """The exported symbol of F, the library at PATH, that ends in _get_api: the model's name is its prefix."""
    for name in _symbols_of(path, f):
        if name.endswith(_SUFFIX) and name.isascii():
            return name.decode("ascii")
    raise Error(f"{path}: exports no function NAME_get_api; dlcc MODEL -o FILE.so makes such a library")


def _copy(path: str, to: str) -> None:
    """Copies the file at PATH to TO, where there is the old file or all of the new one at any time."""
    if os.path.exists(to) and not os.path.isfile(to):
        raise OSError(errno.EINVAL, "is a folder, a device or a pipe; give the name of a file")
    with tempfile.TemporaryDirectory(prefix=".dlcc.", dir=os.path.dirname(to)) as folder:
        copy = os.path.join(folder, "copy")
        shutil.copy(path, copy)  # a library may be executed, as dlcc makes it
        os.replace(copy, to)


def _status_name(status: int) -> str:
    return abi.STATUS[status] if status < len(abi.STATUS) else str(status)


_libraries: weakref.WeakSet["_Library"] = weakref.WeakSet()
_first_files: dict[str, tuple[int, int]] = {}  # of the paths that libraries were loaded by
_fresh = itertools.count(1)


class _Library:
    """A library, its API, and a model that is loaded from it. close ends all of it, or leaves that to the last running call.

    `running` counts the calls that use the library; they enter and leave. The lock may be taken twice by a thread, as a signal
    handler may close the model between two steps of a call. So a call is counted before it asks whether the model is closed.
    `file` is open as long as the library is loaded, so that it can be saved whatever becomes of its path."""

    def __init__(self, path: str, options: abi.LoadOptions, folder: str | None) -> None:
        self.path, self.folder, self.model = path, folder, ctypes.c_void_p()
        self.contexts: list[int] = []
        self.running, self.closed, self.to_free = 0, False, [True]
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.file = files.open_regular(path)
        try:
            self.handle, self.api = self._load(options)
        except BaseException:
            self.file.close()
            raise
        _libraries.add(self)

    def _load(self, options: abi.LoadOptions) -> tuple[int, abi.Api]:
        symbol = _api_symbol(self.path, self.file)
        try:
            library = ctypes.CDLL(self._name(), mode=ctypes.RTLD_LOCAL)
        except OSError as e:
            raise Error(str(e)) from None
        try:
            return library._handle, self._open(symbol, library, options)
        except BaseException:
            _ctypes.dlclose(library._handle)
            raise

    def _name(self) -> str:
        """The name to load the library by. dlopen takes a library that was opened by the same name and is still loaded, also where the
        name is another file's now. So a path names only the file that it named first; other files get a name in /proc that dlopen has
        not seen before, "/proc/self/fd//./7": numbers of open files are used again, and a counter, in binary, makes the name new."""
        stat = os.fstat(self.file.fileno())
        if _first_files.setdefault(self.path, (stat.st_dev, stat.st_ino)) == (stat.st_dev, stat.st_ino):
            return self.path
        digits = "".join("/." if d == "1" else "/" for d in f"{next(_fresh):b}")
        return f"/proc/self/fd{digits}/{self.file.fileno()}"

    def _open(self, symbol: str, library: ctypes.CDLL, options: abi.LoadOptions) -> abi.Api:
        path = self.path
        try:
            found = abi.GetApi((symbol, library))(abi.VERSION)
        except AttributeError:  # the file was replaced after its symbols were read
            raise Error(f"{path}: has no function {symbol} any more; load it again") from None
        if not found:
            raise Error(f"{path}: compiled for another version of the runtime's ABI")
        api: abi.Api = found.contents
        status = api.load(ctypes.byref(options), ctypes.byref(self.model))
        if status:
            raise RunError(f"{path}: {abi.text(api.error(None))}", _status_name(status))
        return api

    def fail(self, status: int, of: int | None) -> RunError:
        """The error of a function of object OF that returned STATUS."""
        text = abi.text(self.api.error(of)) or abi.text(self.api.status_text(status))
        return RunError(text, _status_name(status))

    def enter(self) -> int | None:
        """Begins a call: nothing is freed before leave(). Returns a context that no other call uses, if there is one."""
        with self.lock:
            self.running += 1
            if not self.closed:
                return self.contexts.pop() if self.contexts else None
        self.leave(None)
        raise self.refuse()

    @staticmethod
    def refuse() -> Error:
        """The error of a call after close. When the interpreter ends, a daemon thread would print it, so that thread waits for the end."""
        if _exiting and threading.current_thread() is not threading.main_thread():
            threading.Event().wait()
        return Error("the model is closed")

    def take(self) -> int:
        """Begins a call, which has the context that is returned until it leaves."""
        found = self.enter()
        if found is not None:
            return found
        context = ctypes.c_void_p()
        status = self.api.context(self.model, None, ctypes.byref(context))
        if status or context.value is None:
            error = self.fail(status, None)
            self.leave(None)
            raise error
        return context.value

    def leave(self, context: int | None) -> None:
        """Ends a call, which gives CONTEXT back."""
        with self.lock:
            if context is not None:
                self.contexts.append(context)
            self.running -= 1
            if self.closed and not self.running:
                self._free()

    def close(self) -> None:
        """Refuses further calls, and frees all, now or after the calls that run."""
        with self.lock:
            self.closed = True
            if not self.running:
                self._free()
        if self.folder and self.process == os.getpid():  # after a fork it is the parent's
            shutil.rmtree(self.folder, ignore_errors=True)

    def _free(self) -> None:
        try:
            self.to_free.pop()  # in one step, as a signal handler may get here in the midst of this
        except IndexError:
            return
        for context in self.contexts:
            self.api.context_free(context)
        self.contexts.clear()
        if not self.api.unload(self.model):  # busy: a context was lost by an interrupt, so the code must stay
            _ctypes.dlclose(self.handle)
            self.file.close()


def _after_fork() -> None:
    """A thread that held a lock, or ran a model, is not there in the child. What it used there is never freed."""
    for library in list(_libraries):
        library.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)

_exiting: list[bool] = []  # not empty: the interpreter ends


def _at_exit() -> None:
    """Closes all models, which removes their folders and writes their profiles. Only daemon threads may still call them."""
    _exiting.append(True)
    for library in list(_libraries):
        library.close()


atexit.register(_at_exit)


# ---- The description ----

@dataclass(frozen=True)
class Symbol:
    """A symbolic dim. `upper` is None if it has no bound. `data` is true if it is computed during the run, `independent` if the
    elements along it are computed independently, as those of a batch are."""

    name: str
    lower: int
    upper: int | None
    data: bool
    independent: bool = False

    def __str__(self) -> str:
        bounds = f"{self.lower} <= {self.name}" + (f" <= {self.upper}" if self.upper is not None else "")
        return bounds + (", computed during the run" if self.data else "") + (", a batch" if self.independent else "")


@dataclass(frozen=True)
class Metadata:
    """The metadata of the ONNX file. A text that it lacks is empty."""

    producer: str = ""
    producer_version: str = ""
    domain: str = ""
    doc: str = ""
    graph: str = ""
    graph_doc: str = ""
    version: int = 0  # of the model
    properties: Mapping[str, str] = field(default_factory=dict)  # metadata_props


@dataclass(frozen=True)
class IO:
    """An input or output. A dim is a number, or the text of a symbol or an expression: "batch", "past + seq"."""

    name: str
    dtype: str  # dlcc's name: "f32"
    dims: tuple[int | str, ...]
    code: int   # of TensorProto.DataType
    optional: bool  # an input with a default value
    form: str = "tensor"  # or "sequence", "optional", "map"
    items: tuple["IO", ...] = ()  # what a sequence or an optional has; the keys and the values of a map
    alias: str | None = None  # of an output: the input that it may share memory with

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype; raises RunError where it has none."""
        return dtypes.numpy_of(self.code, f'"{self.name}"')

    def __str__(self) -> str:
        alias = f", may share memory with {self.alias}" if self.alias is not None else ""
        return f"{self.name}: {self.type}{', has a default' if self.optional else ''}{alias}"

    @property
    def type(self) -> str:
        """As text: "f32[batch,64]", "seq(f32[?,?])", "map(i64,f32)"."""
        if self.form == "map":
            return f"map({','.join(io.dtype for io in self.items)})"
        if self.form != "tensor":
            return f"{self.form[:3]}({self.items[0].type})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class Description:
    """What a model takes and returns. str() of it is a text for people."""

    name: str
    version: str  # of the compiler
    hash: str
    targets: str
    device: str
    inputs: tuple[IO, ...]
    outputs: tuple[IO, ...]
    symbols: tuple[Symbol, ...]
    weights_size: int
    metadata: Metadata = Metadata()

    def __str__(self) -> str:
        lines = [f"model   {self.name}, for {self.targets}, on {self.device}, by dlcc {self.version}",
                 *(f"input   {io}" for io in self.inputs), *(f"output  {io}" for io in self.outputs),
                 *(f"symbol  {s}" for s in self.symbols), f"weights {self.weights_size} bytes"]
        return "\n".join(lines)


def _io(io: abi.Io, inputs: tuple[IO, ...] = ()) -> IO:
    dims = tuple(d.value if d.value >= 0 else abi.text(d.text) for d in abi.items(abi.Dim, io.dim, io.rank))
    inner = 0 if io.form == abi.TENSOR else 2 if io.form == abi.MAP else 1
    return IO(abi.text(io.name), dtypes.name_of(io.dtype) if io.dtype else "", dims, io.dtype, bool(io.flags & abi.IO_DEFAULT),
              abi.FORM[io.form], _ios(io.item, inner) if inner else (),
              inputs[io.alias].name if 0 <= io.alias < len(inputs) else None)


def _ios(at: int, n: int, inputs: tuple[IO, ...] = ()) -> tuple[IO, ...]:
    """INPUTS: of outputs, those of the model."""
    return tuple(_io(io, inputs) for io in abi.items(abi.Io, at, n))


def _symbols(desc: abi.Desc) -> tuple[Symbol, ...]:
    return tuple(Symbol(abi.text(s.name), s.lower, None if s.upper == abi.UNLIMITED else s.upper, s.kind == abi.SYM_DATA,
                        abi.has(s, "flags") and bool(s.flags & abi.SYM_INDEPENDENT))
                 for s in abi.items(abi.Sym, desc.sym, desc.n_sym))


def _metadata(desc: abi.Desc) -> Metadata:
    if not abi.has(desc, "metadata") or not desc.metadata:
        return Metadata()
    m = desc.metadata.contents
    return Metadata(abi.text(m.producer), abi.text(m.producer_version), abi.text(m.domain), abi.text(m.doc), abi.text(m.graph),
                    abi.text(m.graph_doc), m.version,
                    {abi.text(p.key): abi.text(p.value) for p in abi.items(abi.Property, m.property, m.n_properties)})


@dataclass(frozen=True)
class Kernel:
    """The time of a kernel, summed over all runs. `name` has the ONNX nodes in it."""

    name: str
    calls: int
    seconds: float


# ---- Runs ----

_CACHED_CALLS = 64  # most signatures that are kept: a model whose sizes grow at every call has a new one each time
_PLAIN = 0x101      # the flags of NumPy's arrays that are contiguous (C order) and aligned


class _Call:
    """The tensors of a call whose inputs are plain NumPy arrays of a signature, their element types and shapes, that an earlier
    call had. Only addresses are to be filled in. One thread uses it at a time."""

    def __init__(self, inputs: Sequence[np.ndarray], codes: list[int], outputs: list[np.ndarray | None], ios: tuple[IO, ...]) -> None:
        """CODES: of the inputs' element types. OUTPUTS: arrays as the call makes them for IOS; None: the context has the memory."""
        self.keep: list[Any] = []  # what the tensors point to
        self.ins, self.outs = (abi.Tensor * max(len(inputs), 1))(), (abi.Tensor * max(len(outputs), 1))()
        self.n_in, self.n_out = len(inputs), len(outputs)
        self.in_list, self.out_list = list(self.ins[:self.n_in]), list(self.outs[:self.n_out])
        for tensor, array, code in zip(self.in_list, inputs, codes):
            self.keep.append(tensors.Borrowed(code, array.shape, None, 0, array.nbytes, None).fill(tensor))
        for tensor, made, io in zip(self.out_list, outputs, ios):
            shape, size = (made.shape, made.nbytes) if made is not None else ((-1,) * len(io.dims), 0)
            self.keep.append(tensors.Borrowed(io.code, shape, None, 0, size, None).fill(tensor))
            tensor.form = abi.FORM.index(io.form)
        self.made = [None if made is None else (made.shape, made.dtype) for made in outputs]


class Model:
    """A compiled model. compile and load make it; several threads may call it at once.

    Memory: inputs are read where they lie, and an output is written into a new NumPy array, so it stays valid after later runs.
    If the size of an output is computed during the run, the runtime has the memory, and the array is a copy of it.

    `report` is what the options made the compiler print, such as what became of each weight; of a model that `load` loaded it is empty."""

    def __init__(self, library: _Library, profiled: bool, report: str = "") -> None:
        self._library, self._profiled, self.report = library, profiled, report
        desc = library.api.describe().contents
        inputs = _ios(desc.in_, desc.n_in)
        self._description = Description(
            abi.text(desc.name), abi.text(desc.version), abi.text(desc.hash), abi.text(desc.targets),
            abi.text(library.api.device(library.model)), inputs, _ios(desc.out, desc.n_out, inputs), _symbols(desc),
            desc.weights_size, _metadata(desc))
        self._in_names, self._out_names = [io.name for io in inputs], [io.name for io in self._description.outputs]
        computed = {s.name for s in self._description.symbols if s.data}
        fixed = {s.name for s in self._description.symbols} - computed
        # Each input is an array that NumPy has as dlcc does; and of the outputs those whose sizes follow from those of inputs.
        self._plain = all(map(self._is_plain, inputs))
        self._makes = [self._is_plain(io) and (not computed or all(isinstance(d, int) or d in fixed for d in io.dims))
                       for io in self._description.outputs]
        self._calls: dict[Any, list[_Call]] = {}
        self._c_run = library.api.run  # each access of a member of the struct makes a new object
        self._c_wait = None if self._description.device == "cpu" else library.api.wait
        self._close = weakref.finalize(self, library.close)
        self._close.atexit = False  # _at_exit closes it then

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, ios)) for ios in (self._description.inputs, self._description.outputs))
        return f"<dlcc.Model {self._description.name}({ins}) -> ({outs})>"

    def __reduce__(self) -> Any:
        raise Error("a loaded model can be neither copied nor pickled: save it, and load the file")

    def close(self) -> None:
        """Refuses further calls, and frees the model, its contexts and its threads. Calls that other threads have begun end as
        they would without it; the last of them frees all."""
        self._close()

    def describe(self) -> Description:
        """The model's inputs, outputs and symbols, and where it runs."""
        return self._description

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies the compiled library to PATH, for dlcc.load, or for a C program (docs/c-api.md)."""
        context = self._library.enter()
        try:
            _copy(f"/proc/self/fd/{self._library.file.fileno()}", os.path.realpath(path))
        except OSError as e:
            raise Error(f"{os.fspath(path)}: {e.strerror}") from None
        finally:
            self._library.leave(context)

    def profile(self) -> list[Kernel]:
        """The time of each kernel in the runs so far, the longest first. The model must have been compiled or loaded with
        profile=True."""
        if not self._profiled:
            raise Error("the kernels of this model are not timed: compile or load it with profile=True")
        entry = abi.ProfileEntry(size=ctypes.sizeof(abi.ProfileEntry))
        found: list[Kernel] = []
        context = self._library.enter()
        try:
            while not self._library.api.profile(self._library.model, len(found), ctypes.byref(entry)):
                found.append(Kernel(abi.text(entry.name), entry.calls, entry.nanoseconds / 1e9))
        finally:
            self._library.leave(context)
        return sorted(found, key=lambda k: -k.seconds)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Runs the model on INPUTS, in its order, and on NAMED ones. Returns the output, or a tuple if there are several."""
        if not named and self._plain:
            found = self._run_plain(inputs)
            if found is not None:
                return found[0] if len(found) == 1 else tuple(found)
        ios = self._description.inputs
        if len(inputs) > len(ios):
            raise RunError(f"{len(inputs)} inputs are given, and the model has {len(ios)}: {self._names(ios)}")
        feeds = {io.name: x for io, x in zip(ios, inputs)}
        for name in named:
            if name in feeds:
                raise RunError(f'input "{name}" is given twice')
        outputs = self._run({**feeds, **named}, {})
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Runs the model on INPUTS by name, and returns its outputs by name.

        OUTPUTS gives memory for some of them: NumPy arrays, or objects with __dlpack__, which may be in a GPU's memory, of the
        shape that the run computes. They are written and returned. An output whose description has an alias may be given the
        memory of that input; if it is longer, both are parts of one array with room: cache[:, :, :n] and cache[:, :, :n + 1]."""
        if not isinstance(inputs, Mapping):
            raise TypeError("run takes a dict of the inputs by name; model(x) takes them in their order")
        if outputs is not None and not isinstance(outputs, Mapping):
            raise TypeError("outputs is a dict of memory by name, {name: array}; run returns all outputs, by name")
        if not outputs and self._plain and len(inputs) == len(self._in_names):
            found = self._run_plain([inputs.get(name) for name in self._in_names])
            if found is not None:
                return dict(zip(self._out_names, found))
        results = self._run(inputs, outputs or {})
        return {io.name: x for io, x in zip(self._description.outputs, results)}

    @staticmethod
    def _names(ios: tuple[IO, ...]) -> str:
        return ", ".join(f'"{io.name}"' for io in ios) or "none"

    @staticmethod
    def _is_plain(io: IO) -> bool:
        return io.form == "tensor" and io.code in dtypes.BY_CODE and not dtypes.BY_CODE[io.code].bits % 8

    def _api(self) -> abi.Api:
        if self._library.closed:
            raise self._library.refuse()
        return self._library.api

    def _known(self, what: str, given: Mapping[str, Any], ios: tuple[IO, ...]) -> None:
        for name in given:
            if all(io.name != name for io in ios):
                raise RunError(f'the model has no {what} "{name}"; it has {self._names(ios)}')

    def _inputs(self, given: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """The tensors of the inputs, and what must live as long as they do."""
        ios = self._description.inputs
        self._known("input", given, ios)
        found, keep = (abi.Tensor * max(len(ios), 1))(), []
        for tensor, io in zip(found, ios):
            if given.get(io.name) is not None or io.form == "optional":
                keep.append(tensors.fill_value(tensor, io, given.get(io.name), f'input "{io.name}"'))
            elif io.optional:
                tensor.size = ctypes.sizeof(tensor)
            else:
                raise RunError(f'input "{io.name}" is missing; the model takes {self._names(ios)}')
        return found, keep

    def _shapes(self, context: int, ins: Any) -> list[tuple[int, ...]]:
        """The shapes of the outputs; a dim that the run computes is -1."""
        api, ios = self._library.api, self._description.outputs
        outs = (abi.Tensor * max(len(ios), 1))()
        dims = [(ctypes.c_int64 * max(len(io.dims), 1))() for io in ios]
        for tensor, io, shape in zip(outs, ios, dims):
            tensor.size, tensor.rank, tensor.shape = ctypes.sizeof(tensor), len(io.dims), shape
        status = api.infer_shapes(context, ins, len(self._description.inputs), outs, len(ios))
        if status:
            raise self._library.fail(status, context)
        return [tuple(shape[:len(io.dims)]) for io, shape in zip(ios, dims)]

    @staticmethod
    def _fits(shape: tuple[int, ...], memory: tuple[int, ...], io: IO) -> None:
        """Refuses MEMORY, the shape of that given for IO, if the output's SHAPE is another; -1 is not known yet."""
        if len(memory) != len(shape) or any(n not in (m, -1) for n, m in zip(shape, memory)):
            raise RunError(f'output "{io.name}": its shape is {list(shape)}, and the memory given has {list(memory)}', "DL_SHAPE")

    def _outputs(self, given: Mapping[str, Any], shapes: list[tuple[int, ...]]) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """The tensors of the outputs, the arrays for them (None: the context has the memory), the shapes of their memory, and
        what must live on."""
        ios = self._description.outputs
        outs, arrays, keep, memory_shapes = (abi.Tensor * max(len(ios), 1))(), [], [], []
        for tensor, io, shape in zip(outs, ios, shapes):
            where = f'output "{io.name}"'
            if io.form != "tensor":
                if given.get(io.name) is not None:
                    raise RunError(f"{where}: memory can be given only for tensors")
                arrays.append(None)
                memory_shapes.append(())
                tensor.size, tensor.form = ctypes.sizeof(tensor), abi.FORM.index(io.form)
                continue
            if given.get(io.name) is not None:
                arrays.append(given[io.name])
                borrowed = tensors.borrow_output(given[io.name], where, io.alias is not None)
                self._fits(shape, borrowed.shape, io)
            elif -1 in shape or io.code == dtypes.STRING:
                arrays.append(None)
                borrowed = tensors.Borrowed(io.code, shape, None, 0, 0, None)
            else:
                arrays.append(tensors.NewOutput(io.code, shape, where))
                borrowed = arrays[-1].borrow()
            memory_shapes.append(borrowed.shape)
            keep.append(borrowed.fill(tensor))
        return outs, arrays, memory_shapes, keep

    @staticmethod
    def _signature(inputs: Sequence[Any]) -> Any:
        """The element types and shapes of INPUTS; None if one is not a plain array."""
        key = []
        for x in inputs:
            if type(x) is not np.ndarray or x.flags.num & _PLAIN != _PLAIN:
                return None
            key += (x.dtype, x.shape)
        return tuple(key)

    def _run_plain(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs of a run on INPUTS, all plain arrays of a signature that an earlier run had; None if they are not."""
        key = self._signature(inputs)
        free = self._calls.get(key)
        if not free:
            return None
        try:
            call = free.pop()  # another thread may have taken it
            outputs: list[Any] = [np.empty(*made) if made else None for made in call.made]
        except (IndexError, MemoryError):
            return None
        for tensor, array in zip(call.in_list, inputs):
            tensor.data = tensors.address(array)
        for tensor, array in zip(call.out_list, outputs):
            tensor.data = None if array is None else tensors.address(array)
        library = self._library
        context = library.take()
        try:
            self._launch(context, call.ins, call.n_in, call.outs, call.n_out)
            for i, io in enumerate(self._description.outputs):
                if outputs[i] is None:
                    outputs[i] = tensors.copy_value(call.out_list[i], io, f'output "{io.name}"')
        finally:
            library.leave(context)
        free.append(call)
        return outputs

    def _keep_call(self, given: Mapping[str, Any], outputs: list[Any]) -> None:
        """Notes how a run on inputs GIVEN that gave OUTPUTS can be repeated with other elements."""
        inputs = [given.get(name) for name in self._in_names]
        key = self._signature(inputs)
        if key is None or not all(x.dtype.isnative for x in inputs):
            return
        if len(self._calls) >= _CACHED_CALLS:
            self._calls.clear()
        ios, codes = self._description.outputs, [io.code for io in self._description.inputs]
        made = [x if makes else None for x, makes in zip(outputs, self._makes)]
        self._calls.setdefault(key, []).append(_Call(inputs, codes, made, ios))

    def _launch(self, context: Any, ins: Any, n_in: int, outs: Any, n_out: int) -> None:
        status = self._c_run(context, ins, n_in, outs, n_out, None)
        if not status and self._c_wait is not None:
            status = self._c_wait(context)
        if status:
            raise self._library.fail(status, context)

    def _run(self, given: Mapping[str, Any], memory: Mapping[str, Any]) -> list[Any]:
        self._api()  # an error if the model is closed
        ios = self._description.outputs
        self._known("output", memory, ios)
        ins, keep_in = self._inputs(given)
        context = self._library.take()
        try:
            outs, arrays, memory_shapes, keep_out = self._outputs(memory, self._shapes(context, ins))
            self._launch(context, ins, len(self._description.inputs), outs, len(ios))
            for i, (tensor, io) in enumerate(zip(outs, ios)):
                if arrays[i] is None:
                    arrays[i] = tensors.copy_value(tensor, io, f'output "{io.name}"')
                elif isinstance(arrays[i], tensors.NewOutput):
                    arrays[i] = arrays[i].array()
                else:
                    self._fits(tuple(tensor.shape[:tensor.rank]), memory_shapes[i], io)
            if self._plain and not memory:
                self._keep_call(given, arrays)
            del keep_in, keep_out  # the memory of inputs and outputs, which had to live until here
            return arrays
        finally:
            self._library.leave(context)


def open_model(path: str, *, device: str | None, threads: int, profile: bool,
               folder: str | None = None, report: str = "") -> Model:
    """The model in the library at PATH, which may lie in FOLDER, a temporary one that goes with the model."""
    options = abi.LoadOptions(size=ctypes.sizeof(abi.LoadOptions), threads=threads, profile=int(profile),
                              device=device.encode("utf-8", "backslashreplace") if device else None)
    library = _Library(path, options, folder)
    try:
        return Model(library, profile, report)
    except BaseException:
        library.close()
        raise


def load(path: str | os.PathLike[str], *, device: str | None = None, threads: int = 0, profile: bool = False) -> Model:
    """Loads a library that dlcc or Model.save wrote. The arguments are those of compile."""
    if not isinstance(threads, int) or not isinstance(device, (str, type(None))):
        raise TypeError("threads is an int, and device a str")
    path = os.path.abspath(os.fsdecode(path))
    return open_model(path, device=device, threads=threads, profile=profile)

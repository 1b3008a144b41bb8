# SPDX-License-Identifier: Apache-2.0
"""Arrays of the application as tensors of the runtime: NumPy's, and those of any library by DLPack.

The runtime borrows memory for a call, and so does this file: nothing is copied unless the element type is packed below a byte,
memory is not aligned to the elements, or strides are no multiple of an element. Strided inputs are passed as they are."""

from __future__ import annotations

import ctypes
import math
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.ma  # here, as a child could wait forever for an import that another thread had begun when it was forked

from . import abi, dtypes
from .errors import RunError


@dataclass
class Borrowed:
    """A tensor for one call. `owner` keeps the memory alive."""

    code: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None: contiguous
    data: int
    bytes: int  # 0: unknown
    owner: Any
    writable: bool = True

    def fill(self, tensor: abi.Tensor) -> Any:
        """Fills TENSOR. What is returned must live as long as TENSOR is used."""
        rank = len(self.shape)
        shape = (c_int64 * max(rank, 1))(*self.shape)
        strides = (c_int64 * max(rank, 1))(*self.strides) if self.strides is not None else None
        tensor.size, tensor.dtype, tensor.rank, tensor.shape = ctypes.sizeof(tensor), self.code, rank, shape
        tensor.strides = strides
        tensor.data, tensor.bytes = self.data, self.bytes
        return self.owner, shape, strides


# ---- DLPack ----

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", c_void_p), ("strides", c_void_p), ("byte_offset", c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _DLTensor)]


_READ_ONLY = 1
_CPU = (1, 3)             # kDLCPU, kDLCUDAHost
_CUDA = (2, 13)           # kDLCUDA, kDLCUDAManaged
_DEFAULT_STREAM = 1       # the protocol's number of the legacy default stream, which runs use

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _capsule(x: Any, where: str) -> Any:
    """The capsule that X gives. Whatever the other library raises becomes an error of the run."""
    try:
        return _ask_capsule(x, where)
    except RunError:
        raise
    except Exception as e:
        raise RunError(f"{where}: __dlpack__ of {type(x).__name__} failed: {type(e).__name__}: {e}") from e


def _ask_capsule(x: Any, where: str) -> Any:
    kind = int(x.__dlpack_device__()[0])
    if kind not in _CPU + _CUDA:
        raise RunError(f"{where}: memory of DLPack's device type {kind} can be read neither by the CPU nor by CUDA")
    stream = {"stream": _DEFAULT_STREAM} if kind in _CUDA else {}
    try:
        return x.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # a library that knows versions before 1.0 alone
        return x.__dlpack__(**stream)


def _from_dlpack(x: Any, where: str) -> Borrowed:
    """The capsule is not consumed: when it goes, after the run, it gives the memory back to its library."""
    capsule, writable = _capsule(x, where), True
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        tensor, writable = managed.tensor, not managed.flags & _READ_ONLY
        if managed.major != 1:
            raise RunError(f"{where}: DLPack {managed.major}.{managed.minor} is not supported", "DL_UNSUPPORTED")
    elif _is_valid(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    else:
        raise RunError(f"{where}: __dlpack__ of {type(x).__name__} gave {type(capsule).__name__}, not a tensor's capsule")
    kind = dtypes.BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if kind is None:
        raise RunError(f"{where}: no element type of a model is DLPack's code {tensor.code} of {tensor.bits} bits, "
                       f"{tensor.lanes} at a time")
    ints = c_int64 * tensor.ndim
    shape = tuple(ints.from_address(tensor.shape)) if tensor.ndim else ()
    strides = tuple(ints.from_address(tensor.strides)) if tensor.ndim and tensor.strides else None
    if strides == _contiguous(shape):
        strides = None
    data = (tensor.data or 0) + tensor.byte_offset
    return Borrowed(kind.code, shape, strides, data, 0, (x, capsule), writable)


# ---- NumPy ----

def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, n = [], 1
    for size in reversed(shape):
        strides.append(n)
        n *= size
    return tuple(reversed(strides))


def address(array: np.ndarray) -> int:
    """Where the elements of ARRAY begin. Its buffer tells so several times faster than NumPy's ways, if it is writable and not
    empty, and its element type is one of Python's."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError, BufferError):
        return array.ctypes.data


def _from_numpy(array: np.ndarray, where: str) -> Borrowed:
    kind = dtypes.of(array.dtype, where)
    if kind.bits % 8:
        packed = dtypes.pack(array, kind.bits)
        return Borrowed(kind.code, array.shape, None, packed.ctypes.data, packed.nbytes, packed, False)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.aligned or any(s % array.itemsize for s in array.strides):
        array = np.ascontiguousarray(array).copy()
    if array.flags.c_contiguous:
        return Borrowed(kind.code, array.shape, None, array.ctypes.data, array.nbytes, array, array.flags.writeable)
    strides = tuple(s // array.itemsize for s in array.strides)
    return Borrowed(kind.code, array.shape, strides, array.ctypes.data, 0, array, array.flags.writeable)


def _texts(array: np.ndarray, where: str) -> list[bytes]:
    """The bytes of each element of an array of str or bytes."""
    texts = []
    for x in array.astype(object).ravel().tolist():
        if not isinstance(x, (str, bytes)):
            raise RunError(f"{where}: an element is {type(x).__name__}, expected str")
        try:
            texts.append(x.encode("utf-8", "surrogateescape") if isinstance(x, str) else x)
        except UnicodeEncodeError as e:
            raise RunError(f"{where}: a string has no UTF-8: {e}") from None
    return texts


def _from_strings(array: np.ndarray, where: str) -> Borrowed:
    """An array of str or bytes: one piece of memory has all their bytes, another one an abi.Str for each."""
    texts = _texts(array, where)
    data = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    found = np.empty((len(texts), 2), np.uint64)
    found[:, 1] = [len(x) for x in texts]
    found[:, 0] = np.cumsum(found[:, 1]) - found[:, 1] + np.uint64(data.ctypes.data)
    return Borrowed(dtypes.STRING, array.shape, None, found.ctypes.data, found.nbytes, (data, found), False)


def borrow_input(x: Any, code: int, where: str) -> Borrowed:
    """X as an input of element type CODE: an array, an object with __dlpack__, or numbers and lists of them, which take that type."""
    if isinstance(x, numpy.ma.MaskedArray):
        raise RunError(f"{where}: the mask of a masked array would be lost; give its filled()")
    if code == dtypes.STRING and not hasattr(x, "__dlpack__"):
        x = np.asarray(x, object)
    if isinstance(x, np.ndarray) and code == dtypes.STRING and x.dtype.kind in "OSTU":
        return _from_strings(x, where)
    if isinstance(x, np.ndarray):
        return _from_numpy(x, where)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x, where)
    if isinstance(x, np.generic) or hasattr(x, "__array__"):
        return _from_numpy(np.asarray(x), where)
    return _from_numpy(dtypes.of_numbers(x, code, where), where)


def as_array(x: Any, code: int, where: str) -> np.ndarray:
    """What borrow_input takes, as an array in this machine's byte order. Strings are str."""
    if code == dtypes.STRING:
        given = np.asarray(x, object)
        array = np.empty(given.size, object)
        try:
            array[:] = [text.decode() for text in _texts(given, where)]
        except UnicodeDecodeError as e:
            raise RunError(f"{where}: a string has no UTF-8: {e}") from None
        return array.reshape(given.shape)
    if isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__array__"):
        array = np.asarray(x)
        return array.astype(array.dtype.newbyteorder("="))
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") else dtypes.of_numbers(x, code, where)


def borrow_output(x: Any, where: str, strided: bool = False) -> Borrowed:
    """X, whose memory the run writes. STRIDED: it may have strides."""
    if isinstance(x, np.ndarray):
        if not (x.flags.c_contiguous or strided) or not x.flags.aligned or not x.dtype.isnative:
            raise RunError(f"{where}: the memory of an output must be contiguous, aligned and in this machine's byte order")
        if dtypes.of(x.dtype, where).bits % 8:
            raise RunError(f"{where}: an output of {x.dtype} cannot be written into a NumPy array, which does not pack elements; "
                           "let the run return a new one", "DL_UNSUPPORTED")
        found = _from_numpy(x, where)
    elif hasattr(x, "__dlpack__"):
        found = _from_dlpack(x, where)
    else:
        raise RunError(f"{where}: {type(x).__name__} is neither a NumPy array nor has __dlpack__")
    if found.strides is not None and not strided:
        raise RunError(f"{where}: the memory of an output must be contiguous")
    if not found.writable:
        raise RunError(f"{where}: the memory of an output must be writable")
    if not found.bytes:
        count = int(np.prod(found.shape, dtype=np.int64))
        if found.strides is not None and count:
            count = 1 + sum((n - 1) * s for n, s in zip(found.shape, found.strides))
        found.bytes = dtypes.packed_bytes(count, dtypes.BY_CODE[found.code].bits)
    return found


class NewOutput:
    """An array that a run fills: NumPy's memory, of a size that is known before the run."""

    def __init__(self, code: int, shape: tuple[int, ...], where: str) -> None:
        dtype = dtypes.numpy_of(code, where)
        self.kind, self.shape = dtypes.BY_CODE[code], shape
        try:
            if self.kind.bits % 8:
                count = int(np.prod(shape, dtype=np.int64))
                self.memory = np.empty(dtypes.packed_bytes(count, self.kind.bits), np.uint8)
            else:
                self.memory = np.empty(shape, dtype)
        except (MemoryError, ValueError) as e:  # NumPy's limits on an array
            raise RunError(f"{where}: no memory for {list(shape)}: {e}", "DL_NOMEM") from None

    def borrow(self) -> Borrowed:
        return Borrowed(self.kind.code, self.shape, None, self.memory.ctypes.data, self.memory.nbytes, self.memory)

    def array(self) -> np.ndarray:
        return dtypes.unpack(self.memory, self.kind, self.shape) if self.kind.bits % 8 else self.memory


# types whose elements ctypes reads as Python's numbers, as ndarray.tolist does
_NUMBERS = {1: ctypes.c_float, 2: c_uint8, 6: c_int32, 7: c_int64, 9: ctypes.c_bool, 11: ctypes.c_double, 12: c_uint32, 13: c_uint64}


def _elements(tensor: abi.Tensor, where: str) -> list[Any]:
    """The elements of the output TENSOR, of one dim, as Python's. An array for each of a batch's small maps would take longer than
    the run."""
    kind, count = _NUMBERS.get(tensor.dtype), tensor.shape[0]
    if kind is None:
        return copy_output(tensor, where).tolist()
    return (kind * count).from_address(tensor.data)[:] if count else []


def copy_output(tensor: abi.Tensor, where: str) -> np.ndarray:
    """A copy of the output TENSOR, whose memory the context has until its next run."""
    shape = tuple(tensor.shape[:tensor.rank])
    if tensor.dtype == dtypes.STRING:
        count = int(np.prod(shape, dtype=np.int64))
        texts = (abi.Str * count).from_address(tensor.data) if count else ()
        array = np.empty(count, object)
        array[:] = [ctypes.string_at(x.p, x.n).decode("utf-8", "surrogateescape") for x in texts]
        return array.reshape(shape)
    new = NewOutput(tensor.dtype, shape, where)
    if new.memory.nbytes:
        ctypes.memmove(address(new.memory), tensor.data, new.memory.nbytes)
    return new.array()


# ---- Values that are not tensors ----

def fill_value(tensor: abi.Tensor, io: Any, x: Any, where: str) -> Any:
    """Fills TENSOR with X, a value of the type that IO describes (model.IO): an array; a list of values; None or a value for an
    optional; a dict. What is returned must live as long as TENSOR is used."""
    if io.form == "tensor":
        return borrow_input(x, io.code, where).fill(tensor)
    if io.form == "map":
        if not isinstance(x, Mapping):
            raise RunError(f"{where}: {type(x).__name__} is not a dict")
        values = [list(x.keys()), list(x.values())]
        kinds = io.items
    elif io.form == "optional":
        values, kinds = ([] if x is None else [x]), io.items
    else:
        if not isinstance(x, (list, tuple)):
            raise RunError(f"{where}: {type(x).__name__} is not a list of {io.items[0].type}")
        values, kinds = list(x), io.items * len(x)
    inner = (abi.Tensor * max(len(values), 1))()
    keep = [fill_value(t, kind, value, f"{where}, item {i}") for i, (t, kind, value) in enumerate(zip(inner, kinds, values))]
    tensor.size, tensor.form = ctypes.sizeof(tensor), abi.FORM.index(io.form)
    tensor.items, tensor.n_items = ctypes.addressof(inner), len(values)
    return inner, keep


def _words(at: int, step: int, *shape: int) -> np.ndarray:
    """The structs at AT, of STEP bytes each, as an array of SHAPE of their 64-bit words, [..., STEP / 8]."""
    words = (*shape, step // 8)
    return np.frombuffer((c_int64 * math.prod(words)).from_address(at), np.int64).reshape(words)


def _equal_maps(tensor: abi.Tensor, where: str) -> list[dict[Any, Any]] | None:
    """The maps of TENSOR, a sequence of them that have the same keys, with their values one after the other in memory, as where
    a classifier ends. None if they are not such: an object of ctypes for each of many maps would take longer than the run."""
    n, step = tensor.n_items, ctypes.sizeof(abi.Tensor)
    if not n or c_uint32.from_address(tensor.items).value != step:
        return None
    outer, data = _words(tensor.items, step, n)[:, abi.Tensor.items.offset // 8], abi.Tensor.data.offset // 8
    first = int(outer[0])
    keys, values = abi.items(abi.Tensor, first, 2)
    kind, count, number = _NUMBERS.get(values.dtype), values.shape[0], np.arange(n)
    if kind is None or not count or keys.size != step or (outer != first + number * (2 * step)).any():
        return None
    inner = _words(first, step, n, 2)
    same = inner == inner[0]
    same[:, 1, data] = inner[:, 1, data] == values.data + number * (ctypes.sizeof(kind) * count)
    if not same.all():
        return None
    names = _elements(keys, where)
    rows = np.frombuffer((kind * (n * count)).from_address(values.data), kind).reshape(n, count).tolist()
    return [dict(zip(names, row)) for row in rows]


def copy_value(tensor: abi.Tensor, io: Any, where: str) -> Any:
    """A copy of TENSOR, an output of the type that IO describes, as fill_value takes it."""
    if io.form == "tensor":
        return copy_output(tensor, where)
    if io.form == "sequence" and io.items[0].form == "map":
        maps = _equal_maps(tensor, where)
        if maps is not None:
            return maps
    found = abi.items(abi.Tensor, tensor.items, tensor.n_items)
    if io.form == "map":
        return dict(zip(*(_elements(t, where) for t in found)))
    copies = [copy_value(t, io.items[0], where) for t in found]
    if io.form == "optional":
        return copies[0] if copies else None
    return copies

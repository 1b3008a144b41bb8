# SPDX-License-Identifier: Apache-2.0
"""Part 1 of runtime/dlrt.h for ctypes: the structs and functions that this package uses.

Structs begin with their size, so members that a later dlrt.h appends need no line here. tests/python/test_abi.py compares sizes,
offsets and codes with the header."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

VERSION = 1

STATUS = ("DL_OK", "DL_INVALID", "DL_ABI", "DL_SHAPE", "DL_INDEX", "DL_NOMEM", "DL_WORKSPACE", "DL_CAPACITY", "DL_WEIGHTS",
          "DL_TARGET", "DL_CANCELLED", "DL_UNSUPPORTED", "DL_BUSY", "DL_IO", "DL_UNBOUNDED", "DL_RUNTIME", "DL_DEVICE",
          "DL_DEVICE_LOST")

FORM = ("tensor", "sequence", "optional", "map")  # dl_form
TENSOR, SEQUENCE, OPTIONAL, MAP = range(4)

UNLIMITED = 2**63 - 1
IO_DEFAULT = 8
SYM_DATA = 1
SYM_INDEPENDENT = 1


class Tensor(ctypes.Structure):
    """dl_tensor"""

    _fields_ = [("size", c_uint32), ("dtype", c_int32), ("form", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("data", c_void_p), ("bytes", c_uint64), ("items", c_void_p),
                ("n_items", c_int64), ("cap_items", c_int64)]


class Str(ctypes.Structure):
    """dl_str: the elements of a tensor of strings"""

    _fields_ = [("p", c_void_p), ("n", c_uint64)]


class Sym(ctypes.Structure):
    """dl_sym"""

    _fields_ = [("size", c_uint32), ("kind", c_int32), ("name", c_char_p), ("lower", c_int64), ("upper", c_int64),
                ("flags", c_uint32), ("reserved", c_uint32)]


class Dim(ctypes.Structure):
    """dl_dim"""

    _fields_ = [("size", c_uint32), ("sym", c_int32), ("value", c_int64), ("text", c_char_p)]


class Io(ctypes.Structure):
    """dl_io"""

    _fields_ = [("size", c_uint32), ("dtype", c_int32), ("form", c_int32), ("rank", c_int32), ("name", c_char_p),
                ("dim", c_void_p), ("alias", c_int32), ("flags", c_uint32), ("item", c_void_p)]


class Property(ctypes.Structure):
    """dl_property"""

    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("key", c_char_p), ("value", c_char_p)]


class Metadata(ctypes.Structure):
    """dl_metadata"""

    _fields_ = [("size", c_uint32), ("n_properties", c_int32), ("producer", c_char_p), ("producer_version", c_char_p), ("domain", c_char_p),
                ("doc", c_char_p), ("graph", c_char_p), ("graph_doc", c_char_p), ("version", c_int64), ("property", c_void_p)]


class Desc(ctypes.Structure):
    """dl_desc"""

    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("version", c_char_p), ("hash", c_char_p),
                ("targets", c_char_p), ("in_", c_void_p), ("out", c_void_p), ("n_in", c_int32), ("n_out", c_int32),
                ("sym", c_void_p), ("n_sym", c_int32), ("reserved", c_int32), ("weights_size", c_uint64),
                ("metadata", POINTER(Metadata))]


class LoadOptions(ctypes.Structure):
    """dl_load_options"""

    _fields_ = [("size", c_uint32), ("threads", c_int32), ("user", c_void_p), ("log", c_void_p), ("alloc", c_void_p),
                ("free", c_void_p), ("weights_data", c_void_p), ("weights", c_void_p), ("weights_path", c_char_p),
                ("executor", c_void_p), ("executor_threads", c_int32), ("profile", c_int32), ("profile_path", c_char_p),
                ("cpu_mask", c_uint64), ("flags", c_uint32), ("reserved", c_uint32), ("device", c_char_p)]


class ProfileEntry(ctypes.Structure):
    """dl_profile_entry"""

    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("name", c_char_p), ("calls", c_uint64), ("nanoseconds", c_uint64)]


class Api(ctypes.Structure):
    """dl_api. Functions of the types below let other Python threads run while they do."""

    _fields_ = [("size", c_uint32), ("abi", c_uint32),
                ("describe", CFUNCTYPE(POINTER(Desc))),
                ("load", CFUNCTYPE(c_int, POINTER(LoadOptions), POINTER(c_void_p))),
                ("unload", CFUNCTYPE(c_int, c_void_p)),
                ("workspace", c_void_p),
                ("context", CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(c_void_p))),
                ("context_free", CFUNCTYPE(None, c_void_p)),
                ("prepare", c_void_p),
                ("infer_shapes", CFUNCTYPE(c_int, c_void_p, POINTER(Tensor), c_int32, POINTER(Tensor), c_int32)),
                ("run", CFUNCTYPE(c_int, c_void_p, POINTER(Tensor), c_int32, POINTER(Tensor), c_int32, c_void_p)),
                ("cancel", CFUNCTYPE(None, c_void_p)),
                ("error", CFUNCTYPE(c_char_p, c_void_p)),
                ("profile", CFUNCTYPE(c_int, c_void_p, c_int32, POINTER(ProfileEntry))),
                ("status_text", CFUNCTYPE(c_char_p, c_int)),
                ("device", CFUNCTYPE(c_char_p, c_void_p)),
                ("wait", CFUNCTYPE(c_int, c_void_p))]


GetApi = CFUNCTYPE(POINTER(Api), c_uint32)


def has(struct: Any, member: str) -> bool:
    """Whether STRUCT, which a library of an earlier version may have made, has the member."""
    return bool(getattr(type(struct), member).offset < struct.size)


def items(kind: Any, at: int, n: int) -> list[Any]:
    """The N structs of type KIND at address AT. They are as far apart as the size of the first one says."""
    step = c_uint32.from_address(at).value if n else 0
    return [kind.from_address(at + i * step) for i in range(n)]


def text(raw: Any) -> str:
    """A name of the model, which is any bytes."""
    return raw.decode("utf-8", "surrogateescape") if raw else ""

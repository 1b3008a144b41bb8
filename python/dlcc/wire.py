# SPDX-License-Identifier: Apache-2.0
"""The little of ONNX's protobuf format that this package reads and writes itself, so that it does not need the onnx package:
the files in which a model's tensors lie, and a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number has too many bytes")


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a message that hold bytes: (number, bytes). Raises ValueError or IndexError if it is no message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        elif kind == _BYTES:
            n, at = _varint(data, at)
            if n > len(data) - at:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, data[at:at + n]
            at += n
        else:
            raise ValueError(f"wire type {kind}")


# For each message, its fields that may hold tensors with external data: {field: message}. The numbers are those of onnx.proto.
_MESSAGES = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
_KEY, _VALUE = 1, 2


def external_files(model: Any) -> list[str]:
    """The names of the files, relative to the model's folder, that the tensors of MODEL, bytes, lie in. A model that is
    damaged gives those found up to there: the compiler is the one to report that."""
    found = set()

    def walk(data: memoryview, kind: str) -> None:
        for number, inner in _fields(data):
            child = _MESSAGES[kind].get(number)
            if child == "entry":
                entry = dict(_fields(inner))
                if bytes(entry.get(_KEY, b"")) == b"location":
                    found.add(bytes(entry.get(_VALUE, b"")).decode("utf-8", "surrogateescape"))
            elif child:
                walk(inner, child)
    try:
        walk(memoryview(model), "model")
    except (ValueError, IndexError, RecursionError):
        pass
    return sorted(found)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def tensor(name: str, code: int, shape: tuple[int, ...], raw: bytes) -> bytes:
    """A TensorProto with RAW as its elements."""
    dims = b"".join(b"\x08" + _number(d) for d in shape)
    text = name.encode("utf-8", "surrogateescape")
    return dims + b"\x10" + _number(code) + b"\x42" + _number(len(text)) + text + b"\x4a" + _number(len(raw)) + raw

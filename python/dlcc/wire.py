# SPDX-License-Identifier: Apache-2.0
"""The little of ONNX's protobuf format that this package reads and writes itself, so that it does not need the onnx package:
the files in which a model's tensors lie, and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """The fields of a message that hold bytes: (number, bytes). Raises ValueError or IndexError if it is not a message."""
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


def _bytes(field: int, data: bytes) -> bytes:
    return _number(field << 3 | _BYTES) + _number(len(data)) + data


def _int(field: int, value: int) -> bytes:
    return _number(field << 3 | _VARINT) + _number(value)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def tensor(name: str, code: int, shape: tuple[int, ...], elements: bytes | Sequence[bytes]) -> bytes:
    """A TensorProto whose ELEMENTS are raw data, or strings."""
    head = b"".join(_int(1, d) for d in shape) + _int(2, code)
    data = _bytes(9, elements) if isinstance(elements, bytes) else b"".join(_bytes(6, s) for s in elements)
    return head + data + _bytes(8, _text(name))


# By form: the elem_type and the field of values of that form, which are the same in a SequenceProto and an OptionalProto.
_KINDS = {"tensor": (1, 3), "sequence": (3, 5), "map": (4, 6), "optional": (5, 7)}


def listed(name: str, form: str, items: Sequence[bytes]) -> bytes:
    """A SequenceProto of ITEMS of that form; of one item or none it is an OptionalProto as well, with the same fields."""
    kind, field = _KINDS[form]
    return _bytes(1, _text(name)) + _int(2, kind) + b"".join(_bytes(field, x) for x in items)


def mapping(name: str, code: int, keys: Sequence[int | str], values: bytes) -> bytes:
    """A MapProto, whose keys have element type CODE; VALUES are a SequenceProto."""
    each = (_bytes(4, _text(k)) if isinstance(k, str) else _int(3, int(k) & (1 << 64) - 1) for k in keys)
    return _bytes(1, _text(name)) + _int(2, code) + b"".join(each) + _bytes(5, values)

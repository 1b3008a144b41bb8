# SPDX-License-Identifier: Apache-2.0
"""Element types: those of dlcc, with the numbers of ONNX's TensorProto.DataType, as NumPy's.

NumPy lacks bfloat16 and all types of 8 bits or less but integers and bool; the package ml_dtypes has them. It holds an element of
less than a byte in a byte, where ONNX and dlcc pack several; pack and unpack convert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


import numpy as np

from .errors import RunError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


@dataclass(frozen=True)
class ElementType:
    """An element type. `dlpack` is its code there."""

    code: int
    name: str
    bits: int
    numpy: str  # a name of numpy, or else of ml_dtypes
    dlpack: int

    def dtype(self) -> np.dtype[Any] | None:
        """NumPy's dtype; None if it is one of ml_dtypes, which is not installed or lacks it."""
        found = getattr(np, self.numpy, None) or getattr(ml_dtypes, self.numpy, None)
        return np.dtype(found) if found else None


_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6

TYPES = (
    ElementType(1, "f32", 32, "float32", _FLOAT),
    ElementType(2, "u8", 8, "uint8", _UINT),
    ElementType(3, "i8", 8, "int8", _INT),
    ElementType(4, "u16", 16, "uint16", _UINT),
    ElementType(5, "i16", 16, "int16", _INT),
    ElementType(6, "i32", 32, "int32", _INT),
    ElementType(7, "i64", 64, "int64", _INT),
    ElementType(9, "bool", 8, "bool_", _BOOL),
    ElementType(10, "f16", 16, "float16", _FLOAT),
    ElementType(11, "f64", 64, "float64", _FLOAT),
    ElementType(12, "u32", 32, "uint32", _UINT),
    ElementType(13, "u64", 64, "uint64", _UINT),
    ElementType(16, "bf16", 16, "bfloat16", _BFLOAT),
    ElementType(17, "f8e4m3fn", 8, "float8_e4m3fn", 10),
    ElementType(18, "f8e4m3fnuz", 8, "float8_e4m3fnuz", 11),
    ElementType(19, "f8e5m2", 8, "float8_e5m2", 12),
    ElementType(20, "f8e5m2fnuz", 8, "float8_e5m2fnuz", 13),
    ElementType(21, "u4", 4, "uint4", _UINT),
    ElementType(22, "i4", 4, "int4", _INT),
    ElementType(23, "f4e2m1", 4, "float4_e2m1fn", 17),
    ElementType(24, "f8e8m0", 8, "float8_e8m0fnu", 14),
    ElementType(25, "u2", 2, "uint2", _UINT),
    ElementType(26, "i2", 2, "int2", _INT),
    ElementType(27, "f6e2m3", 6, "float6_e2m3fn", 15),
    ElementType(28, "f6e3m2", 6, "float6_e3m2fn", 16),
)
STRING = 8  # an array of objects: str
BY_CODE: dict[int, ElementType] = {t.code: t for t in TYPES}
BY_DLPACK: dict[tuple[int, int], ElementType] = {(t.dlpack, t.bits): t for t in TYPES}
_BY_DTYPE: dict[np.dtype[Any], ElementType] = {dtype: t for t in TYPES if (dtype := t.dtype()) is not None}


def name_of(code: int) -> str:
    """dlcc's name of an element type."""
    return BY_CODE[code].name if code in BY_CODE else "str" if code == STRING else f"type {code}"


def of(dtype: np.dtype[Any], where: str) -> ElementType:
    """The element type that is NumPy's DTYPE. WHERE names the array in the error."""
    found = _BY_DTYPE.get(dtype.newbyteorder("="))
    if found is None:
        raise RunError(f"{where}: no element type of a model is NumPy's {dtype}")
    return found


def numpy_of(code: int, where: str) -> np.dtype[Any]:
    """NumPy's dtype of element type CODE. WHERE names the tensor in the error."""
    if code == STRING:
        return np.dtype(object)
    if code not in BY_CODE:
        raise RunError(f"{where}: elements of type {name_of(code)} are not supported by this package", "DL_UNSUPPORTED")
    dtype = BY_CODE[code].dtype()
    if dtype is None:
        raise RunError(f"{where}: elements are {name_of(code)}, which NumPy lacks: pip install ml_dtypes", "DL_UNSUPPORTED")
    return dtype


def of_numbers(x: Any, code: int, where: str) -> np.ndarray:
    """X, numbers or lists of them, as an array of element type CODE. A number that the type cannot hold is refused: a fraction
    for an integer type, one out of its range, or a string; floats are rounded."""
    dtype, name = numpy_of(code, where), name_of(code)
    try:
        if BY_CODE[code].dlpack in (_INT, _UINT, _BOOL):
            numbers, (low, high) = np.asarray(x, object), _int_range(BY_CODE[code])
            for number in numbers.flat:
                if not isinstance(number, (int, np.integer, np.bool_)):
                    raise RunError(f"{where}: an element is {type(number).__name__}, expected {name}")
                if not low <= number <= high:
                    raise RunError(f"{where}: {number} is out of the range of {name}")
            return numbers.astype(np.int64 if low else np.uint64).astype(dtype)
        numbers = np.asarray(x)
        if numbers.dtype.kind in "USTmMc":
            raise RunError(f"{where}: elements are NumPy's {numbers.dtype}, expected {name}")
        with np.errstate(over="ignore"):
            found = numbers.astype(dtype)
        lost = np.isfinite(numbers.astype(np.float64)) & ~np.isfinite(found.astype(np.float64))
        if lost.any():
            raise RunError(f"{where}: {numbers[lost].flat[0]} is out of the range of {name}")
        return found
    except (TypeError, ValueError, OverflowError) as e:
        raise RunError(f"{where}: {e}") from None


def _int_range(kind: ElementType) -> tuple[int, int]:
    """The least and the greatest number of an integer type, or of bool."""
    if kind.dlpack == _BOOL:
        return 0, 1
    return (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.dlpack == _INT else (0, (1 << kind.bits) - 1)


def packed_bytes(count: int, bits: int) -> int:
    """The bytes of COUNT elements of BITS each."""
    return (count * bits + 7) // 8


def pack(array: np.ndarray, bits: int) -> np.ndarray:
    """The elements of ARRAY, one in each byte, packed with the first one in the low bits."""
    each = np.ascontiguousarray(array).view(np.uint8).reshape(-1, 1)
    return np.packbits(np.unpackbits(each, axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little")


def unpack(packed: np.ndarray, kind: ElementType, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of pack: an array of SHAPE with an element in each byte, in the form that ml_dtypes has."""
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.unpackbits(packed, count=count * kind.bits, bitorder="little").reshape(count, kind.bits)
    each = np.packbits(bits, axis=1, bitorder="little").reshape(shape)
    dtype = numpy_of(kind.code, "an output")
    # ml_dtypes extends the sign of its integers to the whole byte.
    if kind.dlpack == _INT:
        return ((each.astype(np.int16) ^ (1 << kind.bits - 1)) - (1 << kind.bits - 1)).astype(np.int8).astype(dtype)
    return each.astype(dtype) if kind.dlpack == _UINT else each.view(dtype)

# SPDX-License-Identifier: Apache-2.0
"""The exception classes of ONNX Runtime, and which one a failure of dlcc is, for dlcc.ort. Their text is dlcc's diagnostic, behind the
words that ONNX Runtime puts before its own."""

from __future__ import annotations

import re

from .errors import CompileError, Error, RunError


class OrtError(Exception):
    """The base of the classes here; ONNX Runtime's derive from Exception."""

    _code, _word = 1, "FAIL"

    @classmethod
    def of(cls, text: str) -> "OrtError":
        return cls(f"[ONNXRuntimeError] : {cls._code} : {cls._word} : {text}")


class Fail(OrtError):
    pass


class InvalidArgument(OrtError):
    _code, _word = 2, "INVALID_ARGUMENT"


class NoSuchFile(OrtError):
    _code, _word = 3, "NO_SUCHFILE"


class NoModel(OrtError):
    _code, _word = 4, "NO_MODEL"


class EngineError(OrtError):
    _code, _word = 5, "ENGINE_ERROR"


class RuntimeException(OrtError):
    _code, _word = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(OrtError):
    _code, _word = 7, "INVALID_PROTOBUF"


class ModelLoaded(OrtError):
    _code, _word = 8, "MODEL_LOADED"


class NotImplemented(OrtError):  # noqa: A001 - ONNX Runtime's name
    _code, _word = 9, "NOT_IMPLEMENTED"


class InvalidGraph(OrtError):
    _code, _word = 10, "INVALID_GRAPH"


class EPFail(OrtError):
    _code, _word = 11, "EP_FAIL"


class ModelLoadCanceled(OrtError):
    _code, _word = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(OrtError):
    _code, _word = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(OrtError):
    _code, _word = 14, "NOT_FOUND"


class DeviceReset(OrtError):
    _code, _word = 15, "DEVICE_RESET"


# Of the compiler's diagnostics, the first pattern that the text has.
_REFUSED: tuple[tuple[str, type[OrtError]], ...] = (
    (r"error: cannot open the file: No such file", NoSuchFile),
    (r"error: not a valid ONNX file|error: the file is not a regular file", InvalidProtobuf),
    (r"error: the file is empty|is used, and no node, input or initialiser makes it", InvalidArgument),
    (r'"[^"]*" \([^()".]*\): not supported; `dlcc --list-ops`', InvalidGraph),  # an operator that ONNX does not have, or one that dlcc lacks
    (r"not supported: ", NotImplemented),
    (r"has no attribute|operands?, expected|elements of type \S+ are not supported|the attribute", InvalidGraph),
)

# Of a run, what the declared types and shapes of inputs exclude; other shapes that do not fit are found by a node.
_DECLARED = re.compile(r'input "(?s:.*)": (rank is|dim \d+( \(.*\))? is -?\d+, (expected|and must be in))')


def class_of(error: Error) -> type[OrtError]:
    """The class for ERROR, of a compile or a run."""
    text = str(error)
    if isinstance(error, CompileError):
        return next((c for pattern, c in _REFUSED if re.search(pattern, text)), Fail)
    if not isinstance(error, RunError):
        return Fail
    if error.status in ("DL_INVALID", "DL_INDEX") or (error.status == "DL_SHAPE" and _DECLARED.match(text)):
        return InvalidArgument
    return Fail if error.status in ("DL_SHAPE", "DL_RUNTIME", "DL_CANCELLED") else RuntimeException


def translated(error: Error) -> OrtError:
    return class_of(error).of(str(error))

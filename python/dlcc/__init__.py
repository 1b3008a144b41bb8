# SPDX-License-Identifier: Apache-2.0
"""dlcc: an ahead-of-time compiler for deep-learning models.

    model = dlcc.compile("model.onnx")
    y = model(x)

docs/python.md describes the package; dlcc.backend is ONNX's interface for backends."""

from typing import Any

from . import programs
from .compiling import NodeSupport, Support, check, compile  # noqa: A004 - it is dlcc.compile
from .errors import CompileError, CompileWarning, Diagnostic, Error, RunError
from .model import IO, Description, Kernel, Metadata, Model, Symbol, load
from .verifying import Comparison, Verification, verify


def export(*args: Any, **kwargs: Any) -> Model:
    """Compiles a PyTorch module ahead of time: dlcc.pytorch.export, which says what it takes. Only this function needs PyTorch."""
    from . import pytorch

    return pytorch.export(*args, **kwargs)


__all__ = ["IO", "Comparison", "CompileError", "CompileWarning", "Description", "Diagnostic", "Error", "Kernel", "Metadata", "Model",
           "NodeSupport", "RunError", "Support", "Symbol", "Verification", "check", "compile", "export", "load", "verify"]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # that of the compiler, which is asked for it
        return programs.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

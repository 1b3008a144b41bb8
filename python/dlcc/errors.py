# SPDX-License-Identifier: Apache-2.0
"""The exceptions of this package. Their text is the diagnostic of the compiler or of the runtime."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# A name may have quotes in it, so it ends where an operator follows.
_NODE = re.compile(r'node "(?P<node>.*?)" \((?P<op>[^()"]*)\)(?=: )')


@dataclass
class Diagnostic:
    """One message of the compiler: an error or a warning, and the notes below it."""

    kind: str  # "error" or "warning"
    text: str  # without the file's name
    node: str | None = None
    op: str | None = None
    notes: list[str] = field(default_factory=list)


def object_of(line: str) -> dict[str, Any] | None:
    """LINE of dlcc --json as an object; None: another program printed it, such as the C compiler."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def diagnostics_of(lines: Sequence[str]) -> list[Diagnostic]:
    """The diagnostics in LINES, what dlcc --json printed. Other lines are notes of the diagnostic above them."""
    found: list[Diagnostic] = []
    for line in lines:
        given = object_of(line)
        if given is not None and given.get("kind") in ("error", "warning"):
            found.append(Diagnostic(given["kind"], given["text"], given.get("node"), given.get("op")))
        elif found and (given is None or given.get("kind") == "note"):
            found[-1].notes.append(line.strip() if given is None else given["text"])
    return found


def message_of(lines: Sequence[str]) -> str:
    """LINES, what dlcc --json printed, as dlcc prints them for people."""
    objects = [(line, object_of(line)) for line in lines]
    return "\n".join(line if given is None else given["message"] for line, given in objects if given is None or "message" in given)


class Error(Exception):
    """What the other exceptions of this package derive from."""


class CompileError(Error):
    """The compiler refused the model, or failed.

    The text is what the compiler printed. `node` and `op` are those of the first error, or None if it is not about a node.
    `status` is the compiler's exit status: 1 for a model that it refused, 2 for wrong options, negative for a signal."""

    def __init__(self, text: str, status: int = 1, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.diagnostics = [d for d in diagnostics if d.kind == "error"]
        self.node = self.diagnostics[0].node if self.diagnostics else None
        self.op = self.diagnostics[0].op if self.diagnostics else None


class RunError(Error):
    """The runtime refused an input, or a run failed.

    `status` is the name of the dl_status (docs/c-api.md), such as "DL_SHAPE"; `node` and `op` are those that the text names."""

    def __init__(self, text: str, status: str = "DL_INVALID") -> None:
        super().__init__(text)
        self.status = status
        node = _NODE.search(text)
        self.node = node["node"] if node else None
        self.op = node["op"] if node else None


class CompileWarning(UserWarning):
    """A warning of the compiler about a model that it compiled."""

# SPDX-License-Identifier: Apache-2.0
"""The programs dlcc, dlcc-opt and dlrun, which the installed package carries, and a run of dlcc with its progress on a terminal."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from .errors import CompileError, Error, diagnostics_of, message_of, object_of

# An installed package has the folders of an installation here: bin, lib. A source tree has none, and there PATH decides.
CARRIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix")


def path_of(program: str) -> str:
    """Where PROGRAM is."""
    carried = os.path.join(CARRIED, "bin", program)
    if os.path.exists(carried):
        return carried
    found = shutil.which(program)
    if not found:
        raise Error(f"the program {program} is neither in this package nor on PATH; install the package by "
                    "`pip install ./python` in dlcc's source, or put the folder build/bin on PATH")
    return found


def environment() -> dict[str, str]:
    """The environment of a program: where there is the package ziglang, its compiler is the last on PATH."""
    try:
        zig = importlib.util.find_spec("ziglang")
    except (ImportError, ValueError):
        zig = None
    if not zig or not zig.origin:
        return dict(os.environ)
    path = os.environ.get("PATH", os.defpath)
    return {**os.environ, "PATH": path + os.pathsep + os.path.dirname(zig.origin)}


@functools.lru_cache(maxsize=None)
def _hash(path: str, _size: int, _time: int) -> str:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


@functools.lru_cache(maxsize=None)
def _answer(path: str, question: str, _hash_of_path: str) -> str:
    return subprocess.run([path, question], capture_output=True, text=True, check=True).stdout.strip()


def _hash_of(path: str) -> str:
    stat = os.stat(path)
    return _hash(path, stat.st_size, stat.st_mtime_ns)


def _asked(question: str) -> str:
    path = path_of("dlcc")
    return _answer(path, question, _hash_of(path))


def compiler_version() -> str:
    """What tells this compiler from others: its version, and the hashes of the program and of the runtime that it links."""
    path = os.path.realpath(path_of("dlcc"))
    runtime = os.path.join(os.path.dirname(path), "..", "lib", "libdlrt.a")
    return ", ".join([_asked("--version"), _hash_of(path), _hash_of(runtime) if os.path.exists(runtime) else "no runtime"])


def version() -> str:
    """The number of the compiler's version: "0.1.0"."""
    return _asked("--version").split()[1].rstrip(",")


def targets() -> str:
    """The output of --list-targets."""
    return _asked("--list-targets")


def option_kinds() -> dict[str, set[str]]:
    """For each option of dlcc what its value is: "file", "folder", "word" and so on; "none" where it may have none."""
    kinds: dict[str, set[str]] = {}
    for option, kind in (line.split() for line in _asked("--list-options").splitlines()):
        kinds.setdefault(option, set()).add(kind)
    return kinds


def _command(*words: str) -> list[str]:
    """The command line of dlcc with these words."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError as e:
            raise Error(f"{word!r} cannot be given to a program: {e.reason}") from None
        if "\0" in word:
            raise Error(f"{word!r} cannot be given to a program: it has a byte 0")
    return [path_of("dlcc"), *words]


class _Progress:
    """A line on the terminal that names the part of the compile that was done last."""

    def __init__(self, shown: bool, name: str) -> None:
        self.shown, self.name = shown, name

    def show(self, what: str) -> None:
        if self.shown:
            print(f"\r\033[K{self.name}: {what}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def compile_model(arguments: Sequence[str], name: str, progress: bool | None) -> tuple[list[str], str]:
    """Runs dlcc --json; returns the lines of its diagnostics, which are warnings, and the reports that it printed. Raises CompileError.
    NAME is shown as it works."""
    shown = progress if progress is not None else sys.stderr is not None and sys.stderr.isatty()
    line_of = _Progress(shown, name.encode("ascii", "backslashreplace").decode())
    command = _command("--json", *arguments, *(["--time-passes"] if shown else []))
    lines: list[str] = []
    with tempfile.TemporaryFile() as reports, \
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=reports, stderr=subprocess.PIPE, text=True,
                             errors="backslashreplace", env=environment()) as process:
        assert process.stderr is not None
        try:
            line_of.show("reading")
            for line in process.stderr:
                given = object_of(line)
                if given is not None and given.get("kind") == "time":
                    line_of.show(given["what"])
                else:
                    lines.append(line.rstrip("\n"))
        except BaseException:  # an interrupt, for one: dlcc removes its temporary files on this signal
            process.terminate()
            raise
        finally:
            line_of.clear()
        if process.wait():
            raise compile_error(lines, process.returncode)
        reports.seek(0)
        return lines, reports.read().decode("utf-8", "backslashreplace")


def compile_error(lines: Sequence[str], status: int) -> CompileError:
    """The error of a dlcc --json that ended with STATUS after it had printed LINES."""
    ended = [f"dlcc: error: the compiler was ended by signal {-status}"] if status < 0 else []
    text = "\n".join(filter(None, [message_of(lines), *ended]))
    return CompileError(text or f"dlcc: error: exit status {status}", status, diagnostics_of(lines))


def check_model(arguments: Sequence[str]) -> tuple[str, list[str], int]:
    """Runs dlcc --check --json: its standard output, the lines of its diagnostics, and its exit status."""
    done = subprocess.run(_command("--check", "--json", *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="backslashreplace", check=False)
    return done.stdout, done.stderr.splitlines(), done.returncode

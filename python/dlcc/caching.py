# SPDX-License-Identifier: Apache-2.0
"""The cache of compile: libraries, under a hash of all that they follow from, in the folder in which `dlcc --cache` keeps objects.

A library is code that this process runs. So the folder is made with mode 0700, and one that belongs to another user, or that others may
write into, is refused, as by dlcc (codegen/package/cache.c, which also bounds the size of the folder). Only regular files are
read for the hash, as by the compiler. If another one is named, nothing is kept, and the compiler says what is wrong."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from . import files, programs, wire
from .errors import Error
from .model import Model

_TRIES = 4  # compiles; a model whose files change during each of them is not kept
_WRITERS = stat.S_IWGRP | stat.S_IWOTH


class _NotKept(Exception):
    """The library follows from what no hash covers, or the compiler will refuse the model."""


def _open(path: str) -> BinaryIO:
    try:
        return files.open_regular(path)
    except Error:
        raise _NotKept from None


# ---- What a library follows from ----

def _processor() -> str:
    """What the target `native` depends on."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            flags = next((line for line in f if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    return platform.machine() + flags


def _external_files(path: str) -> list[str]:
    """The files in which tensors of the model at PATH lie. They are in its folder, or in that of the file that PATH links to."""
    with _open(path) as f:
        try:
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                names = wire.external_files(view)
        except ValueError:  # an empty file
            return []
    folders = [os.path.realpath(os.path.dirname(path) or "."), os.path.dirname(os.path.realpath(path))]
    found = []
    for name in names:
        if "\0" in name or name.startswith("/") or ".." in name.split("/"):
            raise _NotKept
        paths = [os.path.realpath(os.path.join(folder, name)) for folder in folders]
        inside = [x for x in paths if any(os.path.commonpath([x, folder]) == folder for folder in folders)]
        there = [x for x in inside if os.path.isfile(x)]
        if not there:
            raise _NotKept
        found.append(there[0])
    return found


def _files_in(folder: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """The regular files in FOLDER, and in the folders in it, in order."""
    try:
        info = os.stat(folder)
        names = sorted(os.listdir(folder))
    except OSError:
        raise _NotKept from None
    if (info.st_dev, info.st_ino) in above:  # a link to a folder that it lies in
        raise _NotKept
    for path in (os.path.join(folder, name) for name in names):
        if os.path.isdir(path):
            yield from _files_in(path, above | {(info.st_dev, info.st_ino)})
        elif os.path.isfile(path):
            yield path


def _identity(program: str) -> str:
    """What tells PROGRAM, the value of an option such as --cc, from others: the file's path, size and time."""
    path = shutil.which(program) or shutil.which(program.split(" ")[0])
    if not path:
        raise _NotKept
    path = os.path.realpath(path)
    info = os.stat(path)
    return f"{path} {info.st_size} {info.st_mtime_ns}"


class _Origin:
    """What the library for a model and options follows from: words, and files. The options are those of the program dlcc, which
    says what their values are."""

    def __init__(self, path: str, options: Sequence[str]) -> None:
        self.words = [programs.compiler_version(), _processor()]
        self.files = [path]
        if path.endswith(".dl"):
            with _open(path) as f:
                if b"file(" in f.read():
                    raise Error(f"{path}: a model as text that names files, which a cache's key would lack; compile it without a cache")
        else:
            self.files += _external_files(path)
        for option, kind, value in self._values(options):
            if kind in ("output", "cache"):
                raise Error(f"{option} names files that are written, which cache= does not keep; use one or the other")
            if option == "--cache-size":
                continue
            self.words.append(f"{option}={value}")
            if kind == "file":
                self.files.append(value)
            elif kind == "folder":
                found = list(_files_in(value))
                self.files += found
                self.words += [os.path.relpath(x, value) for x in found]
            elif kind == "program":
                self.words.append(_identity(value))

    @staticmethod
    def _values(options: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Each of OPTIONS, of which some have their value as the next word: the option, the kind of its value, and that."""
        words, kinds = iter(options), programs.option_kinds()
        for word in words:
            option, equals, value = word.partition("=")
            known = kinds.get(option, {"none"})
            if not equals and "none" not in known:
                value = next(words, "")
            yield option, min(known - {"none"}, default="none") if value else "none", value

    def stamps(self) -> list[Any]:
        """What changes where a file does."""
        found = []
        for file in self.files:
            info = os.stat(file)
            found.append((file, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns))
        return found

    def key(self) -> str:
        digest = hashlib.sha256()
        for word in self.words:
            digest.update(f"{word}\0".encode("utf-8", "surrogateescape"))
        for file in self.files:
            with _open(file) as f:
                each = hashlib.sha256()
                for block in iter(lambda: f.read(1 << 20), b""):
                    each.update(block)
            digest.update(each.digest())
        return digest.hexdigest()[:32]


def cache_key(path: str, options: Sequence[str]) -> str:
    """The hash of what the library for the model at PATH with these options follows from."""
    return _Origin(path, options).key()


# ---- The folder ----

def _is_ours(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() and not info.st_mode & _WRITERS


def _open_folder(cache: Any) -> str:
    """The path of the folder CACHE, which is made if it is not there."""
    folder = os.path.abspath(os.fsdecode(cache))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        info = os.stat(folder)
    except (OSError, ValueError) as e:
        raise Error(f"cache={folder}: {getattr(e, 'strerror', e)}") from None
    if info.st_uid != os.geteuid():
        raise Error(f"cache={folder}: it belongs to user {info.st_uid}, and this is user {os.geteuid()}: its owner decides what code "
                    "models get; name a folder of your own")
    if not _is_ours(info):
        raise Error(f"cache={folder}: other users may write into it (mode {stat.S_IMODE(info.st_mode):04o}), and so decide what code "
                    f"models get; if you trust what is in it: chmod go-w {folder}")
    return folder


def _is_there(path: str) -> bool:
    """Whether PATH is a library that this user has put there. It then counts as used now."""
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or not _is_ours(info):
            return False
        os.utime(path)
    except OSError:
        return False
    return True


def _read_report(path: str) -> str:
    """The report that was printed when the library beside PATH was made; "" if there was none, or it has been removed."""
    if not _is_there(path):
        return ""
    try:
        with files.open_regular(path) as f:
            return f.read().decode("utf-8", "replace")
    except (Error, OSError):
        return ""


def _write_report(path: str, report: str) -> None:
    """Writes PATH whole, or leaves it if that fails: a report is not worth a compile."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=".dlcc.", dir=os.path.dirname(path)) as folder:
        copy = os.path.join(folder, "report")
        with open(copy, "w", encoding="utf-8") as f:
            f.write(report)
        os.chmod(copy, 0o600)
        os.replace(copy, path)


def model_in(cache: Any, path: str, options: Sequence[str], make: Callable[[Sequence[str]], str],
             load: Callable[[str, str], Model]) -> Model | None:
    """The model at PATH compiled with OPTIONS, from the folder CACHE, where MAKE(further options) makes it if it is not there, and
    returns a report, which is kept beside it. LOAD(library, report) loads it. None: what it follows from cannot be hashed."""
    folder = _open_folder(cache)
    for attempt in range(_TRIES):
        try:
            origin = _Origin(path, options)
            before = origin.stamps()
            library = os.path.join(folder, origin.key() + ".so")
        except (_NotKept, OSError, ValueError):
            return None
        if not _is_there(library):
            if os.path.lexists(library) and not _is_there(library):  # a link, through which the compiler would write
                with contextlib.suppress(OSError):  # a folder: the compiler refuses to replace it
                    os.unlink(library)
            report = make([f"--cache={folder}", "-o", library])
            if report:
                _write_report(library[:-len("so")] + "txt", report)
            if not os.path.lexists(library):  # another process has removed it, or these options make no library
                return None
            with contextlib.suppress(FileNotFoundError):  # the header; another process may have removed it
                os.unlink(library[:-len("so")] + "h")
            if not _is_same(origin, path, options, before):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(library)
                continue
        try:
            return load(library, _read_report(library[:-len("so")] + "txt"))
        except Error:
            # another process may have removed it, for the folder to stay as small as it is asked to be, and made it again
            if attempt and os.path.exists(library):
                raise
    return None


def _is_same(origin: _Origin, path: str, options: Sequence[str], before: list[Any]) -> bool:
    """Whether no file has changed since BEFORE, when the key was computed."""
    try:
        after = _Origin(path, options)
        return after.files == origin.files and after.words == origin.words and after.stamps() == before
    except (_NotKept, Error, OSError):
        return False

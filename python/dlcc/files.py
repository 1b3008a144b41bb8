# SPDX-License-Identifier: Apache-2.0
"""Files that this package reads. They are regular files: a pipe, or a device, could give bytes forever, or none."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from .errors import Error

_GIT_LFS = b"version https://git-lfs.github.com/spec/v1"


def open_regular(path: str) -> BinaryIO:
    """The file at PATH, for reading. Raises Error."""
    try:
        f = open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK))
    except OSError as e:
        raise Error(f"{path}: {e.strerror}") from None
    except ValueError as e:  # a byte 0 in the name
        raise Error(f"{path!r}: {e}") from None
    try:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise Error(f"{path}: is not a regular file")
        if f.read(len(_GIT_LFS)) == _GIT_LFS:
            raise Error(f"{path}: is a Git LFS pointer, not the file; run `git lfs pull`")
        f.seek(0)
    except BaseException:
        f.close()
        raise
    return f

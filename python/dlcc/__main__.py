# SPDX-License-Identifier: Apache-2.0
"""`python -m dlcc` is the program dlcc; the functions are the installed commands of the programs' names."""

import os
import sys
from typing import NoReturn

from . import programs
from .errors import Error


def _become(program: str) -> NoReturn:
    try:
        path = programs.path_of(program)
    except Error as e:
        sys.exit(f"{program}: error: {e}")
    os.execve(path, [program, *sys.argv[1:]], programs.environment())


def dlcc() -> NoReturn:
    _become("dlcc")


def dlcc_opt() -> NoReturn:
    _become("dlcc-opt")


def dlrun() -> NoReturn:
    _become("dlrun")


if __name__ == "__main__":
    dlcc()

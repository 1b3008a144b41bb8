# SPDX-License-Identifier: Apache-2.0
"""dlcc/abi.py and dlcc/dtypes.py say what runtime/dlrt.h says: sizes and offsets of structs, and the numbers of codes."""

import ctypes
import os
import subprocess
import tempfile
import unittest

from dlcc import abi, dtypes
from models import ROOT

STRUCTS = {"dl_tensor": abi.Tensor, "dl_sym": abi.Sym, "dl_dim": abi.Dim, "dl_io": abi.Io, "dl_desc": abi.Desc, "dl_property": abi.Property, "dl_metadata": abi.Metadata,
           "dl_load_options": abi.LoadOptions, "dl_profile_entry": abi.ProfileEntry, "dl_api": abi.Api}
NUMBERS = {"DL_ABI_VERSION": abi.VERSION, "DL_UNLIMITED": abi.UNLIMITED, "DL_IO_DEFAULT": abi.IO_DEFAULT,
           "DL_SYM_DATA": abi.SYM_DATA, "DL_SYM_INDEPENDENT": abi.SYM_INDEPENDENT}


def expected():
    """Lines of C expressions, and what Python takes them for."""
    for name, struct in STRUCTS.items():
        for member, _ in struct._fields_:
            yield f"offsetof({name}, {member.rstrip('_') if member != 'in_' else 'in'})", getattr(struct, member).offset
    for number, name in enumerate(abi.STATUS):
        yield name, number
    for kind in dtypes.TYPES:
        yield f"DL_{kind.name.upper()}", kind.code
    for number, name in enumerate(abi.FORM):
        yield f"DL_{name.upper()}", number
    yield from NUMBERS.items()


class Abi(unittest.TestCase):
    def test_header(self):
        rows = list(expected())
        program = '#include "dlrt.h"\n#include <stdio.h>\nint main(void)\n{\n' + \
            "".join(f'printf("%lld\\n", (long long)({c}));\n' for c, _ in rows) + "}\n"
        with tempfile.TemporaryDirectory() as folder:
            exe = os.path.join(folder, "numbers")
            subprocess.run(["cc", "-xc", "-", f"-I{ROOT}/runtime", "-o", exe], input=program, text=True, check=True)
            printed = subprocess.run([exe], capture_output=True, text=True, check=True).stdout.split()
        for (c, python), header in zip(rows, printed, strict=True):
            with self.subTest(c):
                self.assertEqual(python, int(header))

    def test_items(self):
        """Structs of a later version, which are longer, are found by the size of the first one."""
        longer = ctypes.sizeof(abi.Sym) + 16
        memory = ctypes.create_string_buffer(3 * longer)
        for i in range(3):
            abi.Sym.from_buffer(memory, i * longer).size = longer
            abi.Sym.from_buffer(memory, i * longer).lower = i
        self.assertEqual([s.lower for s in abi.items(abi.Sym, ctypes.addressof(memory), 3)], [0, 1, 2])

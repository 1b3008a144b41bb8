# SPDX-License-Identifier: Apache-2.0
"""The wheel: what it has, and that it runs without a source tree and without dlcc's libraries on the machine."""

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

from models import DIGITS, ROOT, python

PROGRAM = """
import dlcc, sys
import numpy as np
model = dlcc.compile(sys.argv[1], level=0)
assert model(np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 10)
print(dlcc.programs.path_of("dlcc"))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import build_backend

        build_backend.build_programs = lambda: None  # what was built stays as it is
        build_backend.BUILD = os.environ["BUILD"]
        cls.path = os.path.join(cls.folder, build_backend.build_wheel(cls.folder))
        cls.site = os.path.join(cls.folder, "site")
        with zipfile.ZipFile(cls.path) as z:
            cls.names, cls.record = z.namelist(), z.read(next(n for n in z.namelist() if n.endswith("RECORD"))).decode()
            for entry in z.infolist():
                os.chmod(z.extract(entry, cls.site), entry.external_attr >> 16 or 0o644)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_contents(self):
        for name in ("dlcc/__init__.py", "dlcc/py.typed", "dlcc/prefix/bin/dlcc", "dlcc/prefix/bin/dlrun", "dlcc/prefix/lib/libdlrt.a",
                     "dlcc/prefix/include/dlrt.hpp", "dlcc/prefix/lib/cmake/dlcc/dlccConfig.cmake", "dlcc/ort.py"):
            self.assertIn(name, self.names)

    def test_versions(self):
        with open(os.path.join(self.site, "dlcc", "prefix", "lib", "cmake", "dlcc", "dlccConfigVersion.cmake"), encoding="utf-8") as f:
            text = f.read()
        self.assertNotIn("@", text)
        self.assertIn('PACKAGE_VERSION "0.', text)

    def test_licences(self):
        """Each library of others has its licence beside it, as far as the system knows them."""
        lib = os.path.join(self.site, "dlcc", "prefix", "lib")
        for name in os.listdir(lib):
            if ".so" in name and os.path.exists("/var/lib/dpkg"):
                self.assertTrue(any(n.endswith(f".dist-info/licenses/{name}.txt") for n in self.names), name)

    def test_record(self):
        rows = dict(line.rsplit(",", 2)[:2] for line in self.record.splitlines())
        self.assertEqual(set(rows), set(self.names))
        for name, digest in rows.items():
            if digest:
                with open(os.path.join(self.site, name), "rb") as f:
                    found = base64.urlsafe_b64encode(hashlib.sha256(f.read()).digest()).rstrip(b"=").decode()
                self.assertEqual(digest, "sha256=" + found, name)

    def test_libraries(self):
        """The programs take their shared libraries from beside them, all but the C library's."""
        lib = os.path.join(self.site, "dlcc", "prefix", "lib")
        printed = subprocess.run(["ldd", os.path.join(self.site, "dlcc", "prefix", "bin", "dlcc")], capture_output=True, text=True,
                                 check=True).stdout
        for name in os.listdir(lib):
            if ".so" in name:
                self.assertIn(f"{name} => {self.site}/dlcc/prefix/bin/../lib/{name}", printed)

    def test_runs(self):
        without = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p != os.path.join(os.environ["BUILD"], "bin"))
        done = python(PROGRAM, DIGITS, PYTHONPATH=self.site, PATH=without)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, f"{self.site}/dlcc/prefix/bin/dlcc"), done.stderr)

    def test_no_source(self):
        import build_backend

        root, build_backend.ROOT = build_backend.ROOT, self.folder
        try:
            with self.assertRaisesRegex(Exception, "is not dlcc's source|No such file"):
                build_backend.version()
        finally:
            build_backend.ROOT = root

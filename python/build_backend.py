# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the Python package: `pip install ./python` in dlcc's source calls this file (PEP 517).

The wheel has the package, and in dlcc/prefix an installation without documents: the programs with libdlrt.a, and the shared libraries
but those of the C library, each a file of its own, which another version may replace; their licences are beside those of dlcc. Nothing is
downloaded: make and a C compiler make the programs, `./deps.sh build` installs what these need. LLVM is not carried along; dlcc opens it
at run time where the machine has it. Such a wheel is for this machine's C library; manylinux.py makes one for others."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build")
PROGRAMS = ("dlcc", "dlcc-opt", "dlrun")
# The C library's, and what is part of every system that has it.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libgcc_s)\.so.*")
SUMMARY = "An ahead-of-time compiler for deep-learning models: ONNX in, a library with a C API out"


class UnsupportedOperation(Exception):
    """PEP 517's answer of a backend that cannot build a source distribution."""


def version():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as f:
        return re.search(r"^VERSION := (\S+)$", f.read(), re.M)[1]


def metadata():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        description = f.read()
    return (f"Metadata-Version: 2.1\nName: dlcc\nVersion: {version()}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n"
            "Requires-Python: >=3.10\nRequires-Dist: numpy>=1.23\n"
            # a C compiler for machines that have none
            "Provides-Extra: cc\nRequires-Dist: ziglang>=0.17; extra == \"cc\"\nDescription-Content-Type: text/markdown\n\n" + description)


ENTRY_POINTS = ("[console_scripts]\n" + "".join(f"{p} = dlcc.__main__:{p.replace('-', '_')}\n" for p in PROGRAMS) +
                "\n[torch_dynamo_backends]\ndlcc = dlcc.pytorch:backend\n")


def tag():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def wheel_file():
    return f"Wheel-Version: 1.0\nGenerator: dlcc\nRoot-Is-Purelib: false\nTag: {tag()}\n"


def build_programs():
    """Makes the programs in build/, as make does."""
    if not os.path.exists(os.path.join(ROOT, "Makefile")):
        raise RuntimeError(f"{ROOT} is not dlcc's source: install the package from its folder there, by pip install ./python")
    jobs = len(os.sched_getaffinity(0))
    if subprocess.run(["make", "-C", ROOT, f"-j{jobs}", "all"], check=False).returncode:
        raise RuntimeError("make failed; ./deps.sh build installs what building needs")


def libraries(program):
    """The shared libraries that PROGRAM needs, {name: path}, without the C library's."""
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", printed, re.M))
    return {name: path for name, path in found.items() if not SYSTEM.fullmatch(name)}


COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")  # texts that Debian's packages refer to


def licence(library):
    """The licence of the shared library at this path, with the texts that it refers to; None where its package is not known."""
    for path in library, library.removeprefix("/usr"):
        try:
            owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False).stdout
        except OSError:  # not Debian
            return None
        text = os.path.join("/usr/share/doc", owner.split(":")[0], "copyright")
        if owner and os.path.exists(text):
            with open(text, encoding="utf-8") as f:
                found = f.read()
            for name in sorted(set(COMMON.findall(found))):
                with open(os.path.join("/usr/share/common-licenses", name), encoding="utf-8") as f:
                    found += f"\n{'-' * 70}\n{name}\n{'-' * 70}\n\n{f.read()}"
            return found
    return None


def prefix():
    """What the folder dlcc/prefix has: {path in it: file}."""
    files = {"lib/libdlrt.a": os.path.join(BUILD, "lib", "libdlrt.a")}
    files.update((f"include/{name}", os.path.join(ROOT, "runtime", name)) for name in ("dlrt.h", "dlrt.hpp"))
    files.update((f"lib/cmake/dlcc/{name}", os.path.join(ROOT, "runtime", name + suffix))
                 for name, suffix in (("dlccConfig.cmake", ""), ("dlccConfigVersion.cmake", ".in")))
    for program in PROGRAMS:
        path = os.path.join(BUILD, "bin", program)
        files[f"bin/{program}"] = path
        files.update((f"lib/{name}", os.path.realpath(library)) for name, library in libraries(path).items())
    return files


def stripped(path, scratch):
    """A copy of the program or library PATH without what debuggers read."""
    out = os.path.join(scratch, "stripped")
    shutil.copyfile(path, out)
    subprocess.run(["strip", "--strip-debug" if path.endswith(".a") else "--strip-unneeded", out], check=True)
    with open(out, "rb") as f:
        data = f.read()
    os.unlink(out)
    return data


class Wheel:
    """A wheel that is written: files, and at the end the list of them with their hashes. The same files give the same bytes."""

    def __init__(self, path, info):
        self.zip, self.info, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), info, []
        self.carried = {}  # shared libraries of others, {name: path}

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self):
        self.add(f"{self.info}/METADATA", metadata().encode())
        self.add(f"{self.info}/WHEEL", wheel_file().encode())
        self.add(f"{self.info}/entry_points.txt", ENTRY_POINTS.encode())
        for name, path in sorted(self.carried.items()):
            text = licence(path)
            if text is None:
                print(f"warning: the licence of {path}, which the wheel carries, is not found here", file=sys.stderr)
            else:
                self.add(f"{self.info}/licenses/{name}.txt", text.encode())
        for name in "LICENSE", "NOTICE":
            with open(os.path.join(ROOT, name), "rb") as f:
                self.add(f"{self.info}/{name}", f.read())
        name = f"{self.info}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), "".join(self.record) + f"{name},,\n")
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: writes the wheel into WHEEL_DIRECTORY and returns its name."""
    build_programs()
    info = f"dlcc-{version()}.dist-info"
    name = f"dlcc-{version()}-{tag()}.whl"
    wheel = Wheel(os.path.join(wheel_directory, name), info)
    package = os.path.join(HERE, "dlcc")
    for file in sorted(os.listdir(package)):
        if file.endswith(".py") or file == "py.typed":
            with open(os.path.join(package, file), "rb") as f:
                wheel.add(f"dlcc/{file}", f.read())
    for file, path in sorted(prefix().items()):
        if ".so" in file:
            wheel.carried[os.path.basename(file)] = path
        if file.endswith((".h", ".hpp", ".cmake")):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            major, minor, _ = version().split(".")
            for key, value in (("VERSION", version()), ("MAJOR", major), ("MINOR", minor)):
                text = text.replace(f"@{key}@", value)
            wheel.add(f"dlcc/prefix/{file}", text.encode())
        else:
            wheel.add(f"dlcc/prefix/{file}", stripped(path, wheel_directory), 0o755 if file.startswith("bin/") else 0o644)
    wheel.close()
    return name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: there is none, since the source is the whole repository."""
    raise UnsupportedOperation("dlcc's source is its repository: install from there, by pip install ./python")

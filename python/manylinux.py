# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel that other machines take: manylinux.py BUILD FOLDER. `make wheel` calls it, in an environment with the packages of
requirements.txt.

The programs are made in BUILD by zig, for glibc 2.28, with this machine's isl, GMP and protobuf-c, which need less. auditwheel checks
that no file needs more, and gives the wheel its tag, manylinux_2_28."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile

import build_backend
import ziglang

GLIBC = "2.28"
LIBRARIES = {"protobuf-c": "libprotobuf-c.so", "isl": "libisl.so"}  # their headers, in a folder of this name, and what is linked


def found(name, folders):
    paths = [os.path.join(folder, name) for folder in folders if os.path.exists(os.path.join(folder, name))]
    if not paths:
        raise SystemExit(f"{name} is not in {' '.join(folders)}; ./deps.sh build installs it")
    return paths[0]


def build_programs(build):
    """Makes the programs. zig does not look where this machine has headers and libraries, as those of its C library are there, too."""
    machine = os.uname().machine
    include = os.path.join(build, "headers")
    os.makedirs(include, exist_ok=True)
    for name in LIBRARIES:
        link = os.path.join(include, name)
        if not os.path.lexists(link):
            os.symlink(found(name, ["/usr/include", "/usr/local/include"]), link)
    libraries = [found(name, [f"/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"]) for name in LIBRARIES.values()]
    zig = os.path.join(os.path.dirname(ziglang.__file__), "zig")
    subprocess.run(["make", "-C", build_backend.ROOT, f"-j{len(os.sched_getaffinity(0))}", f"BUILD={build}", "WARN=",
                    f"CC={zig} cc -target {machine}-linux-gnu.{GLIBC} -isystem {include}",
                    f"AR={zig} ar", f"LDLIBS={' '.join(libraries)} -lm -lpthread -ldl", "all"], check=True)


def main():
    build, folder = (os.path.abspath(path) for path in sys.argv[1:3])
    build_programs(build)
    build_backend.BUILD, build_backend.build_programs = build, lambda: None
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, "dlcc-*.whl")):
        os.unlink(old)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = os.path.join(scratch, build_backend.build_wheel(scratch))
        tag = f"manylinux_{GLIBC.replace('.', '_')}_{os.uname().machine}"
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        # they are in the wheel already, beside the programs
        inside = [f"--exclude={name}" for program in build_backend.PROGRAMS
                  for name in build_backend.libraries(os.path.join(build, "bin", program))]
        done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--plat", tag, "--only-plat", *inside, "-w", scratch, wheel],
                              env={**os.environ, "PATH": path}, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        made, = glob.glob(os.path.join(scratch, f"*{tag}.whl"))
        print(shutil.move(made, folder))


if __name__ == "__main__":
    main()

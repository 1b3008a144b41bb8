# SPDX-License-Identifier: Apache-2.0
"""Each kind of CPU that this machine is, or that qemu-aarch64 is, and how its artifacts are compiled and run (drive.c)."""

import os
import shutil
import subprocess

import numpy as np

ARM = ("aarch64-linux-gnu-gcc", "qemu-aarch64")


def save(path, tensors):
    with open(path, "wb") as f:
        for t in tensors:
            f.write(np.array([t.ndim, *t.shape], np.int64).tobytes() + np.ascontiguousarray(t).tobytes())


def load(path):
    data = open(path, "rb").read()
    at, tensors = 0, []
    while at < len(data):
        rank = int(np.frombuffer(data, np.int64, 1, at)[0])
        shape = np.frombuffer(data, np.int64, rank, at + 8)
        n = int(np.prod(shape))
        tensors.append(np.frombuffer(data, np.float32, n, at + 8 + 8 * rank).reshape(shape))
        at += 8 + 8 * rank + 4 * n
    return tensors


class Cpu:
    """A target, and how its programs are compiled and run. BUILD has dlcc; files go to FOLDER."""

    def __init__(self, build, folder, target, cc="cc", options=(), run=(), kinds=("small", "real", "bytes")):
        self.build, self.folder, self.target, self.code, self.cc = build, folder, target, "cpu:" + target, cc
        self.options, self.run, self.kinds = list(options), list(run), kinds
        self.drive = f"{folder}/drive.{target}"
        subprocess.run([cc, "-std=gnu11", "-O1", "-I.", "-D_GNU_SOURCE", "tests/cpus/drive.c", "-o", self.drive, "-ldl"], check=True)

    def compile(self, model, so, options=()):
        subprocess.run([f"{self.build}/bin/dlcc", model, f"--target={self.code}", "--name=t", f"--cache={self.folder}/cache",
                        *self.options, *options, "-o", so], check=True, stdout=subprocess.DEVNULL)

    def results(self, so, cases, threads=0, env=None):
        """The outputs of all CASES, a file, one after the other."""
        out = so + ".out"
        subprocess.run([*self.run, self.drive, so, "t", cases, out, str(threads)], check=True, env=env)
        return load(out)


def cpus(build, folder, portable=False):
    """The CPUs that can be had, and the names of those that cannot. PORTABLE: also those whose C has no instructions for bytes."""
    flags = open("/proc/cpuinfo", encoding="utf-8").read() if os.path.exists("/proc/cpuinfo") else ""
    have, lack = [Cpu(build, folder, "generic")], []
    for target, flag in (("x86-64-v2", "sse4_2"), ("x86-64-v3", "avx2"), ("x86-64-v4", "avx512vl"), ("x86-64-v3-vnni", "avx_vnni"),
                         ("x86-64-v4-vnni", "avx512_vnni"), ("x86-64-v4-amx", "amx_int8")):
        if f" {flag} " in flags:
            have.append(Cpu(build, folder, target))
        else:
            lack.append(target)
    # the portable functions that multiply bytes, on CPUs that lack the instruction, too
    for target, flag in (("x86-64-v3", "avx2"), ("x86-64-v3-vnni", "avx2"), ("x86-64-v4-vnni", "avx512vl"),
                         ("x86-64-v4-amx", "avx512vl")) if portable else ():
        if f" {flag} " in flags:
            have.append(Cpu(build, folder, target, options=["--cc=cc -DDL_PORTABLE_DOT"], kinds=("bytes",)))
    if all(map(shutil.which, ARM)):
        arm = f"{folder}/aarch64"
        subprocess.run(["make", "-s", f"CC={ARM[0]}", "AR=aarch64-linux-gnu-ar", f"BUILD={arm}", f"{arm}/lib/libdlrt.a"], check=True, stdout=subprocess.DEVNULL,
                       env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "SAN", "BUILD")})
        have += [Cpu(build, folder, target, ARM[0], [f"--cc={ARM[0]}", f"--runtime={arm}/lib/libdlrt.a"], [ARM[1], "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu"])
                 for target, cpu in (("aarch64", "cortex-a53"), ("aarch64-i8mm", "max"))]
    else:
        lack += ["aarch64", "aarch64-i8mm"]
    return have, lack


def print_lack(lack):
    for target in lack:
        print(f"{target}: skipped, this machine has no such CPU" + ("; apt-get install gcc-aarch64-linux-gnu qemu-user" if target.startswith("aarch64") else ""))

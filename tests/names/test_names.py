# SPDX-License-Identifier: Apache-2.0
"""Models with hostile names through the compiler's outputs, dumps and messages, dlrun and its profiles, the C and C++ compilers, and
ptxas. Prints "N passed, N failed".

    test_names.py BUILD FOLDER FIRST COUNT      # seeds FIRST and on
"""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime

from models import Model, printed, tensor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD, FOLDER = (os.path.abspath(p) for p in sys.argv[1:3])
DLCC, OPT, DLRUN = (f"{BUILD}/bin/{p}" for p in ("dlcc", "dlcc-opt", "dlrun"))
PTXAS = shutil.which("ptxas") or next(iter(glob.glob("/usr/local/cuda/bin/ptxas")), None)
GPU = b"cuda:" in subprocess.run([DLCC, "--list-targets"], capture_output=True, check=True).stdout
SIMULATED = {**os.environ, "LD_LIBRARY_PATH": BUILD + "/ptxsim"}
STRICT = ["-Wall", "-Wextra", "-Werror"]
# What a file's name may be made of: all but the folder's slash.
FILES = [b"m", b"a b", b"quo\"te", b"it's", b"per%cent%s", b"dol$lar$(id)", b"back\\slash", b"\xe5\x8d\xb7", b"\xff\xfe", b"new\nline",
         b"-dash", b"@at", b"star*", b"1one", b"default", b"semi;colon", b"tab\t", b"#hash", b"\x1b[31mred", b"a=b,c", b"\xc3\xa9"]


class Wrong(Exception):
    pass


def need(ok, what, *more):
    if not ok:
        raise Wrong(what + "".join(f"\n    {m!r:.600}" for m in more))


def run(*command, status=0, env=None, cwd=None):
    """Its output. What it prints must be safe on a terminal."""
    r = subprocess.run(command, capture_output=True, env=env, cwd=cwd, timeout=samples.limit(300))
    need(r.returncode == status, f"{command[0]} ended with {r.returncode}", command, r.stderr[-600:], r.stdout[-600:])
    for text in (r.stdout, r.stderr):
        need(is_safe(text), f"{command[0]} prints what is not safe on a terminal", command, text[-600:])
    return r.stdout


def is_safe(text):
    try:
        text = text.decode()
    except UnicodeDecodeError:
        return False
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text)


def without_bytes(text):
    """TEXT, of which decoders make more or fewer U+FFFD for bytes that are no UTF-8."""
    return re.sub("\ufffd+", "\ufffd", text)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Case:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.model = Model(self.rng)
        self.dir = f"{FOLDER}/{seed}".encode()
        self.file = self.rng.choice(FILES)
        os.makedirs(self.dir)
        self.onnx = write(os.path.join(self.dir, self.file + b".onnx"), self.model.hostile())

    def out(self, suffix, stem=None):
        return os.path.join(self.dir, (stem or self.file) + suffix)

    def all(self):
        m = self.model
        session = onnxruntime.InferenceSession(m.plain.SerializeToString(), providers=["CPUExecutionProvider"])
        want = session.run(None, dict(zip([i.name for i in m.inputs], m.data)))
        self.data_set("data", m.data, want)
        self.code()
        self.text()
        self.shared()
        self.errors()
        if GPU:
            self.gpu()

    def data_set(self, folder, given, want):
        """The folder FOLDER, with files of these inputs and outputs under their hostile names."""
        m, to = self.model, os.path.join(self.dir, folder.encode(), b"test_data_set_0")
        os.makedirs(to)
        for role, arrays, infos in ((b"input", given, m.inputs), (b"output", want, m.outputs)):
            for i, (array, info) in enumerate(zip(arrays, infos)):
                write(os.path.join(to, b"%s_%d.pb" % (role, i)), tensor(array, info.name, m.names))
        return os.path.join(self.dir, folder.encode())

    # ---- C, and the header ----

    def code(self):
        m, source, header = self.model, self.out(b".c"), self.out(b".h")
        run(DLCC, self.onnx, "-o", source, "--target=cpu:generic")
        prefix = re.search(rb"(\w+)_get_api", read(header))[1].decode()
        flags = ["-I", ROOT + "/runtime", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"]
        libs = [BUILD + "/lib/libdlrt.a", "-lm", "-lpthread", "-ldl"]
        obj, app = self.out(b".o", b"code"), self.out(b"", b"app")
        run("gcc", "-std=gnu11", "-O0", *STRICT, *flags, "-c", source, "-o", obj)
        if samples.CLANG:
            run(samples.CLANG, "-std=gnu11", *STRICT, *flags, "-fsyntax-only", source)
        told = [b"in " + m.names[i.name].hex().encode() for i in m.inputs]
        told += [b"out " + m.names[o.name].hex().encode() for o in m.outputs]
        # a name of signs alone, as "*", says that there is none
        syms = {b"sym " + m.names[d].hex().encode() for d in m.size if d and re.search(rb"[\w\x80-\xff]", m.names[d])}
        for compiler in (["gcc", "-std=c11", "-pedantic"], ["g++", "-std=c++17", "-x", "c++"]):
            run(*compiler, *STRICT, "-I", ROOT + "/runtime", "-include", header, f"-DNAME={prefix}", "-c",
                ROOT + "/tests/names/app.c", "-o", self.out(b".o", b"main"))
            run("g++" if compiler[0] == "g++" else "gcc", self.out(b".o", b"main"), obj, *libs, "-o", app)
            lines = run(app).splitlines()
            need(lines[:len(told)] == told, "the names of inputs and outputs", lines, told)
            need(syms <= set(lines[len(told):]), "the names of dims", lines, syms)

    # ---- The IR ----

    def text(self):
        again, name = self.out(b".dl", b"again"), "--name=same"
        run(DLCC, self.onnx, "-o", self.out(b".dl"))
        run(DLCC, self.out(b".dl"), "-o", again)
        need(read(self.out(b".dl")) == read(again), "text that is read prints otherwise")
        run(DLCC, self.onnx, "-o", self.out(b".c", b"one"), "--target=cpu:generic", name)
        run(DLCC, again, "-o", self.out(b".c", b"two"), "--target=cpu:generic", name)
        need(read(self.out(b".c", b"one")) == read(self.out(b".c", b"two")), "the C of the text is not that of the model")
        dump = run(DLCC, self.onnx, "--dump-ir", "--verify", "--target=cpu:generic")
        need(dump.count(b"; after") > 5, "no dumps")
        for part in re.split(rb"(?m)^; after (?=\w+ for )", dump)[1:]:
            if b"\ndlir 1\n" in part:
                path = write(self.out(b".dl", b"pass"), part[part.index(b"dlir 1\n"):])
                need(run(OPT, path) == read(path), f"a dump that is read prints otherwise: {part[:40]!r}")
        run(DLCC, "--check", self.onnx)

    # ---- Shared libraries ----

    def shared(self):
        so, trace = self.out(b".so"), self.out(b".json")
        run(DLCC, self.onnx, "-o", so, "-O1", "--target=cpu:generic", *samples.unoptimised())
        run(DLRUN, so, "--describe")
        run(DLRUN, so, "--data", os.path.join(self.dir, b"data"))
        run(DLRUN, so, "--data", os.path.join(self.dir, b"data"), "--profile")
        out = run(DLRUN, so, "--data", os.path.join(self.dir, b"data"), "--json", b"--profile=" + trace)
        told = [k["nodes"] for k in json.loads(out.splitlines()[-1])["kernels"]]
        traced = [e["name"] for e in json.loads(read(trace).decode())["traceEvents"]]
        need(set(traced) <= set(told), "kernels of the trace", traced, told)
        explained = run(DLCC, self.onnx, b"--explain=" + trace, "-O1", "--target=cpu:generic")
        need(b"; measured: " in explained and b"not in the trace" not in explained, "measured times", explained)
        for node in self.model.seen:
            name = without_bytes(self.model.names[node].decode(errors="replace"))
            need(len(name) > 300 or any(name in without_bytes(t) for t in told), "a kernel of a node", name, told)
        self.symbols(so)
        self.outputs(so)

    def symbols(self, so):
        """The kernels, which perf and debuggers name by them."""
        local = [line.split()[2] for line in run("nm", so).splitlines() if b" t " in line]
        kernels = [s for s in local if re.search(rb"_generic_k\d+_", s)]
        need(kernels and len(set(kernels)) == len(kernels), "symbols of kernels", local)

    def outputs(self, so):
        """Inputs by name, and files of outputs, each of which is there by itself."""
        m, pairs, to = self.model, [], os.path.join(self.dir, b"files")
        for i, info in enumerate(m.inputs):
            np.save(self.out(b"%d.npy" % i, b"in").decode(), m.data[i])
            pairs += ["-i", m.names[info.name] + b"=" + self.out(b"%d.npy" % i, b"in")]
        if any(b"=" in m.names[i.name] for i in m.inputs):
            return
        run(DLRUN, so, *pairs, "-o", to)
        need(len(os.listdir(to)) == len(m.outputs), "files of outputs", os.listdir(to), [m.names[o.name] for o in m.outputs])

    # ---- Messages ----

    def errors(self):
        m = self.model
        for n, (what, i, array, known) in enumerate(m.faults):
            given = [*m.data[:i], array, *m.data[i + 1:]]
            folder = self.data_set(f"fault{n}", given, [])
            lines = run(DLRUN, self.out(b".so"), "--data", folder, status=1).splitlines()
            need(len(lines) == 2 and b"FAIL: " in lines[0], f"the message of a wrong {what}", lines)
            for name in known:
                need(printed(m.names[name]) in lines[0], f"the message of a wrong {what} lacks a name", lines, m.names[name])
        bad = m.hostile().replace(b"MatMul", b"M\x1btMul") if any(n.op_type == "MatMul" for n in m.nodes) else None
        if bad:
            run(DLCC, write(self.out(b".onnx", b"bad"), bad), "-o", self.out(b".so", b"bad"), status=1)

    # ---- GPUs ----

    def gpu(self):
        ptx = self.out(b".ptx")
        run(DLCC, self.onnx, "-o", ptx, "--target=cuda:sm_80")
        text = read(ptx)
        entries = re.findall(rb"\.entry (\w+)\(", text)
        need(entries and len(set(entries)) == len(entries), "entries of the PTX", entries)
        if PTXAS:
            run(PTXAS, "-arch=sm_80", "-o", self.out(b".cubin"), ptx)
        if self.rng.random() < .2:
            run(DLCC, self.onnx, "-o", self.out(b".so", b"gpu"), "-O0", "--target=cpu:generic,cuda:sm_80", *samples.unoptimised())
            run(DLRUN, self.out(b".so", b"gpu"), "--data", os.path.join(self.dir, b"data"), "--device=cuda", env=SIMULATED)
            run(DLRUN, self.out(b".so", b"gpu"), "--data", os.path.join(self.dir, b"data"), "--device=cuda", "--profile", env=SIMULATED)


def main(first, count):
    failed = 0
    for seed in range(first, first + count):
        case = Case(seed)
        try:
            case.all()
        except (Wrong, json.JSONDecodeError, UnicodeDecodeError, subprocess.TimeoutExpired) as e:
            failed += 1
            print(f"FAIL: {seed}: {type(e).__name__}: {e}", flush=True)
        shutil.rmtree(case.dir)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[3:5])))

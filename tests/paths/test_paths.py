# SPDX-License-Identifier: Apache-2.0
"""Names and paths that are hostile or wrong, in every option that takes one: test_paths.py BUILD FOLDER [NAME ...], run by run.sh.

A form is a stem, such as `@evil` or `$(touch pwned)`, at a place: alone, after `./`, in a folder of that name, and so on. Each option
gets each form as a file, a folder or a word as it wants, and things of the wrong kind: pipes, devices, links, folders that cannot be
written to. Then

- the program ends by itself, with status 0, 1 or 2, prints what is safe on a terminal, and a diagnostic where the status is not 0;
- status 0 leaves the outputs, under exactly their names; another status leaves everything as it was;
- nothing that a name says is run: no file `pwned` appears, and no word of a command that a C compiler, a linker, ar, objcopy or
  ptxas gets begins with @, or with - where it is not one of dlcc's own options.

The compiler is a script that notes its words and makes a copy of a finished object. Without TESTS=all each option gets a share of the
forms, another one for each."""

import concurrent.futures
import hashlib
import os
import re
import resource
import shutil
import stat
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import samples  # noqa: E402

BUILD, FOLDER = (os.path.abspath(p) for p in sys.argv[1:3])
ONLY = sys.argv[3:]
ALL = os.environ.get("TESTS") == "all"
SHARE = 1 if ALL else 48  # of the forms, one in so many
SECONDS = samples.limit(60)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DLCC, OPT, DLRUN = (f"{BUILD}/bin/{p}" for p in ("dlcc", "dlcc-opt", "dlrun"))
GPU = b"cuda:" in subprocess.run([DLCC, "--list-targets"], capture_output=True, check=True).stdout

# ---- Forms ----

STEMS = [b"plain", b"@evil", b"@", b"@@evil", b"-dash", b"--", b"-", b"-o", b"--version", b"--op=x", b"-Wl,--version", b"-fplugin=evil", b"-wrapper",
         b"-Xlinker", b"-###", b"-v", b"-", b"a b", b" lead", b"trail ", b"two  spaces", b"quo\"te", b"it's", b"`touch pwned`", b"$(touch pwned)",
         b"$HOME", b"; touch pwned", b"| touch pwned", b"&& touch pwned", b"> pwned", b"back\\slash", b"per%cent", b"%s%s%n", b"%%", b"%2F", b"star*", b"quest?",
         b"[ab]", b"{a,b}", b"~", b"#hash", b"!bang", b"com,ma", b"a=b", b"=", b"colon:x", b"new\nline", b"car\rret", b"tab\t", b"\x1b[31mred", b"\x07bell",
         b"\x7fdel", b"\xff\xfe", b"\xc3\xa9", b"\xe5\x8d\xb7", b"\xe2\x80\xaertl", b".hidden", b"..dots", b"dots..", b"n" * 230, b"0", b"1one", b"nul"]
STEMS = list(dict.fromkeys(STEMS))
PLACES = {
    "bare": lambda s: s,
    "dot": lambda s: b"./" + s,
    "inside": lambda s: s + b"/" + s,
    "up": lambda s: b"sub/../" + s,
    "absolute": lambda s: None,  # with the folder of the case before it
}
FORMS = [(stem, place) for stem in STEMS for place in PLACES]
assert len(FORMS) >= 300, len(FORMS)


def path_of(form, folder, suffix):
    stem, place = form
    name = stem + suffix
    if place == "absolute":
        return os.path.join(folder, name)
    return stem + b"/" + name if place == "inside" else PLACES[place](name)


# ---- What is there before ----

def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def run(*command, **options):
    return subprocess.run(command, capture_output=True, check=True, **options)


COMPILER = b"""#!/bin/sh
# Notes its words, each in a line of its own after a number, and makes a copy of what it would have made.
made=%(object)s
for word; do
	case $word in -shared) made=%(library)s ;; -dumpmachine | --version) echo "x86_64-linux-gnu"; exit 0 ;; esac
	printf '%%s\\0' "$word" >>%(words)s
done
while [ $# -gt 1 ]; do
	[ "$1" = -o ] && { cp $made "$2" || exit 1; }
	shift
done
exit 0
"""
EVIL = b"x -wrapper ./evil.sh\n-fplugin=./evil.so\n"


class Material:
    """Files that the cases share, made once."""

    def __init__(self):
        at = os.path.join(FOLDER, "material")
        os.mkdir(at)
        self.at = at
        head = '<ir_version: 10, opset_import: ["": 21]> g (float[n,4] x) => (float[n,4] y) '
        self.model = onnx.parser.parse_model(head + "{ [one] t = Abs(x) [two] y = Softmax(t) }").SerializeToString()
        product = onnx.parser.parse_model(head + "{ [one] t = MatMul(x, w) [two] y = Relu(t) }")
        product.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
        self.product = product.SerializeToString()
        path = write(f"{at}/m.onnx", self.model)
        flags = os.environ.get("DLCC_FLAGS", "").split()  # of a sanitized build
        run(DLCC, path, *flags, "-O0", "-o", f"{at}/m.so")
        run(DLCC, path, *flags, "-O0", "-o", f"{at}/m.o")
        self.text = b"dlir 1\ngraph @main(%x: f32[n,4]) -> (%y) {\n  %y = Relu(%x) : ?\n}\n"
        self.schedule = run(DLCC, path, "--target=cpu:v3", "--dump-ir=decide").stdout
        run(DLRUN, f"{at}/m.so", "--profile=" + f"{at}/trace.json")
        self.trace, self.library = read(f"{at}/trace.json"), read(f"{at}/m.so")
        self.runtime = read(f"{BUILD}/lib/libdlrt.a")
        self.operator = b"dlir 1\noperator my::Op(%x: T[S...]) -> (%y: T[S...]) where T in f32 kernel {\n  y[i] = x[i] for i < S\n}\n"
        x = np.ones((2, 4), "f4")
        np.save(f"{at}/x.npy", x)
        self.array = read(f"{at}/x.npy")
        self.proto = onnx.numpy_helper.from_array(x, "x").SerializeToString()
        np.save(f"{at}/x.npy", x * np.nan)
        self.nan_array, self.nan_proto = read(f"{at}/x.npy"), onnx.numpy_helper.from_array(x * np.float32("nan"), "x").SerializeToString()

    def compiler(self, words):
        return COMPILER % {b"object": (self.at + "/m.o").encode(), b"library": (self.at + "/m.so").encode(), b"words": words}


class Wrong(Exception):
    pass


def need(ok, what, *more):
    if not ok:
        raise Wrong(what + "".join(f"\n    {m!r:.400}" for m in more))


def is_safe(text):
    try:
        text = text.decode()
    except UnicodeDecodeError:
        return False
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text)


# dlcc's own options, for the compilers and their tools.
OWN = re.compile(rb"-(O[0-3]|std=gnu11|c|r|fPIC|fvisibility=hidden|ffp-contract=off|fwrapv|fno-[a-z-]+|w|ffunction-sections|Wno-psabi|march=[a-z0-9-]+|mllvm"
                 rb"|mprefer-vector-width=512|-param=avoid-fma-max-bits=0|enable-mem-access-versioning=false|I/.*|ffile-prefix-map=/.*=\.|o|shared|Wl,--gc-sections|Wl,--build-id=none"
                 rb"|Wl,-z,defs|Wl,-z,noexecstack|Wl,--exclude-libs,ALL|Wl,--strip-debug|Xlinker|soname=.*|lpthread|ldl|nostdlib|-sysroot=[^@-].*|arch=sm_\d+a?)", re.S)


class Case:
    """A folder with the files of a case, the command, and what must hold after it."""

    def __init__(self, material, number):
        self.m, self.dir = material, os.path.join(FOLDER, f"case{number}").encode()
        os.makedirs(self.dir + b"/sub")
        self.words = self.dir + b"/../words%d" % number
        self.put(b"evil.sh", b"#!/bin/sh\ntouch pwned\nexec \"$@\"\n", 0o755)
        for name in (b"evil", b"evil.so", b"evil.a", b"evil.o"):
            self.put(name, EVIL)
        self.put(b"cc", material.compiler(self.words), 0o755)
        self.put(b"m.onnx", material.model)
        self.put(b"w.onnx", material.product)

    def at(self, path):
        return os.path.join(self.dir, path)

    def put(self, path, data=b"", mode=0o644):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "wb") as f:
            f.write(data)
        os.chmod(self.at(path), mode)

    def listing(self):
        """What is there: for each path its kind, and its contents if it is a file."""
        found = {}
        for folder, folders, names in os.walk(self.dir):
            for name in folders + names:
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                found[path] = (stat.S_IFMT(mode), read(path) if stat.S_ISREG(mode) else os.readlink(path) if stat.S_ISLNK(mode) else None)
        return found

    def run(self, command, made=(), may_fail=False, statuses=(0,), limit=None, user=None, says=b""):
        """Runs COMMAND here. MADE: the paths that status 0 makes or replaces. MAY_FAIL: any status is right; else one of STATUSES. LIMIT: the bytes
        of a file at most. SAYS: a part of its errors."""
        before = self.listing()

        def prepare():
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            r = subprocess.run(command, cwd=self.dir, capture_output=True, timeout=SECONDS, preexec_fn=prepare if limit else None,
                               stdin=subprocess.DEVNULL, **({"user": user, "group": user, "extra_groups": []} if user else {}))
        except subprocess.TimeoutExpired:
            raise Wrong("it does not end") from None
        told = (r.returncode, r.stderr[-400:], r.stdout[-200:])
        need(r.returncode in (0, 1, 2), "it crashed", told)
        need(may_fail or r.returncode in statuses, f"its status is not in {statuses}", told)
        need(says in r.stderr, f"it does not say {says}", told)
        need(is_safe(r.stdout) and is_safe(r.stderr), "it prints what is not safe on a terminal", told)
        need(r.returncode == 0 or re.search(rb"(?m)^\S?.*: (error: |.*not supported|FAIL)|: FAIL", r.stderr + r.stdout), "no diagnostic", told)
        after = self.listing()
        need(not any(os.path.basename(path) == b"pwned" for path in after), "something was run", told)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        made = {os.path.normpath(self.at(path)) for path in made} if r.returncode == 0 else set()
        need(changed <= made, f"status {r.returncode} changed", changed - made, told)
        need(all(os.path.lexists(path) for path in made), "an output is missing", made, told)
        self.check_words()

    def check_words(self):
        if not os.path.exists(self.words):
            return
        for word in read(self.words).split(b"\0"):
            need(not word.startswith(b"@"), "a word of a command begins with @", word)
            need(not word.startswith(b"-") or OWN.fullmatch(word), "a word of a command is not an option of dlcc's", word)
        os.unlink(self.words)


# ---- The options ----

def header(path):
    return path[:path.rindex(b".")] + b".h"


def is_option(path):
    """Whether PATH, where a program takes a file without an option, is one all the same."""
    return path.startswith(b"-")


def value(option, path, k):
    """The option with its value in the same word, or in the next one, where --version would be answered."""
    k |= path == b"--version"
    return [option.encode() + b"=" + path] if k % 2 else [option.encode(), path]


FAST = [b"-O0", b"--cc=./cc"]


class Options:
    """A function for each option; its doc is the option. It takes the case, the form, and the form's number."""

    def dlcc_model(c, form, k):
        """dlcc MODEL"""
        path = path_of(form, c.dir, (b".onnx", b".dl", b"")[k % 3])
        c.put(path, c.m.text if path.endswith(b".dl") else c.m.model)
        c.run([DLCC, path, "-o", "out.dl"], [b"out.dl"], statuses=(2,) if is_option(path) else (0,), may_fail=is_option(path))

    def dlcc_o_so(c, form, k):
        """dlcc -o FILE.so"""
        suffix = (b".so", b".a", b".o")[k % 3]
        path = path_of(form, c.dir, suffix)
        os.makedirs(os.path.dirname(c.at(path)), exist_ok=True)
        if k % 2:
            c.put(path, b"old")
        c.run([DLCC, "m.onnx", *FAST, "-o", path], [path, header(path)])

    def dlcc_o_text(c, form, k):
        """dlcc -o FILE.dl"""
        suffix = (b".dl", b".c", b".onnx", b".ptx")[k % (4 if GPU else 3)]
        path = path_of(form, c.dir, suffix)
        os.makedirs(os.path.dirname(c.at(path)), exist_ok=True)
        c.run([DLCC, "m.onnx", *(["--target=cuda:sm_80"] if suffix == b".ptx" else []), "-o", path], [path, *([header(path)] if suffix == b".c" else [])])

    def dlcc_weights(c, form, k):
        """dlcc --weights"""
        path = path_of(form, c.dir, b".bin")
        os.makedirs(os.path.dirname(c.at(path)), exist_ok=True)
        c.run([DLCC, "w.onnx", *FAST, *value("--weights", path, k), "-o", "out.so"], [path, b"out.so", b"out.h"])

    def dlcc_depfile(c, form, k):
        """dlcc --depfile"""
        path = path_of(form, c.dir, b".d")
        os.makedirs(os.path.dirname(c.at(path)), exist_ok=True)
        c.run([DLCC, "m.onnx", *FAST, *value("--depfile", path, k), "-o", "out.so"], [path, b"out.so", b"out.h"])

    def dlcc_soname(c, form, k):
        """dlcc --soname"""
        name = form[0]
        c.run([DLCC, "m.onnx", *FAST, *value("--soname", name, k), "-o", "out.so"], [b"out.so", b"out.h"], may_fail=b"/" in name)

    def dlcc_save_temps(c, form, k):
        """dlcc --save-temps"""
        path = path_of(form, c.dir, b"")
        made = [path + b"/out", *(path + b"/out/" + name for name in (b"host.c", b"k0_0.c", b"dlrt.h", b"scalar.h", b"out.h"))]
        there = form[1] != "inside"  # else its folder is not there, and is not made
        if not there:
            c.run([DLCC, "m.onnx", *FAST, b"--save-temps=" + path, "-o", "out.so"], statuses=(1,))
        else:
            c.run([DLCC, "m.onnx", *FAST, b"--save-temps=" + path, "-o", "out.so"], [path, *made, b"out.so", b"out.h"])

    def dlcc_cache(c, form, k):
        """dlcc --cache"""
        path = path_of(form, c.dir, b"")
        os.makedirs(c.at(path), 0o700)
        listed = lambda: [path + b"/" + name for name in os.listdir(c.at(path))]  # noqa: E731
        command = [DLCC, "m.onnx", *FAST, *value("--cache", path, k), "-o", "out.so"]
        subprocess.run(command, cwd=c.dir, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        need(len(listed()) == 2, "nothing is kept", listed())
        c.run(command, [b"out.so", b"out.h"])

    def dlcc_op(c, form, k):
        """dlcc --op"""
        path = path_of(form, c.dir, b".dl")
        c.put(path, c.m.operator)
        c.run([DLCC, "m.onnx", *value("--op", path, k), "-o", "out.dl"], [b"out.dl"])

    def dlcc_schedule(c, form, k):
        """dlcc --schedule"""
        path = path_of(form, c.dir, b"")
        c.put(path, c.m.schedule)
        c.run([DLCC, "m.onnx", "--target=cpu:v3", *value("--schedule", path, k), "--dump-ir=decide"])

    def dlcc_explain(c, form, k):
        """dlcc --explain"""
        path = path_of(form, c.dir, b"")
        c.put(path, c.m.trace)
        c.run([DLCC, "m.onnx", "-O0", b"--explain=" + path], may_fail=True)  # the trace may be of other kernels

    def dlcc_runtime(c, form, k):
        """dlcc --runtime"""
        path = path_of(form, c.dir, b".a")
        c.put(path, b"!<arch>\n")
        c.run([DLCC, "m.onnx", *FAST, *value("--runtime", path, k), "-o", "out.so"], [b"out.so", b"out.h"])

    def dlcc_sysroot(c, form, k):
        """dlcc --sysroot"""
        path = path_of(form, c.dir, b"")
        os.makedirs(c.at(path), exist_ok=True)
        c.run([DLCC, "m.onnx", *FAST, *value("--sysroot", path, k), "-o", "out.so"], [b"out.so", b"out.h"])

    def dlcc_cc(c, form, k):
        """dlcc --cc"""
        path = path_of(form, c.dir, b"")
        c.put(path, c.m.compiler(c.words), 0o755)
        # Without a slash it is a program on PATH, and that has none of these.
        c.run([DLCC, "m.onnx", "-O0", *value("--cc", path, k), "-o", "out.so"], [b"out.so", b"out.h"], may_fail=b"/" not in path)

    def dlcc_ptxas(c, form, k):
        """dlcc --ptxas"""
        path = path_of(form, c.dir, b"")
        c.put(path, c.m.compiler(c.words), 0o755)
        c.run([DLCC, "m.onnx", *FAST, "--target=cuda:sm_80", "--cubin=yes", *value("--ptxas", path, k), "-o", "out.so"], [b"out.so", b"out.h"],
              may_fail=not GPU or b"/" not in path)

    def dlcc_calibrate(c, form, k):
        """dlcc --calibrate"""
        path = path_of(form, c.dir, b"")
        c.put(path + b"/x.npy" if k % 2 else path + b"/sample/input_0.pb", c.m.nan_array if k % 2 else c.m.nan_proto)
        # It is read and refused, so that nothing has to be compiled.
        c.run([DLCC, "w.onnx", "--int8", *value("--calibrate", path, k), "-o", "out.onnx"], statuses=(1,), says=b"element 0 is infinite or NaN")

    def dlcc_words(c, form, k):
        """dlcc --name, --target, --dump-ir, --dump-node, --caches-as, --cubin, --overridable, --keep, --dim, --max-error"""
        word = path_of(form, c.dir, b"")
        for option in ("--name", "--target", "--dump-ir", "--dump-node", "--caches-as", "--cubin", "--overridable", "--keep", "--dim", "--max-error", "--threads", "--cache-size"):
            known = (option, word) in (("--threads", b"0"), ("--cache-size", b"0"), ("--max-error", b"0"))
            good = option == "--name" and re.fullmatch(rb"[A-Za-z_]\w*", word)
            more = ["--weights-as=i8"] if option in ("--keep", "--max-error") else []
            more += ["--dump-ir=infer"] if option != "--dump-ir" else []
            c.run([DLCC, "m.onnx", "-O0", *more, *value(option, word, k | (option == "--dump-ir"))], may_fail=known or bool(good) or option == "--keep", statuses=(1, 2))
        c.run([DLCC, "m.onnx", *value("--dim", word + b"=3", k), "--dump-ir=infer"], statuses=(1, 2))
        c.run([DLCC, "m.onnx", b"-W" + word], statuses=(2,))

    def opt(c, form, k):
        """dlcc-opt FILE, -o, --op, -p, --target"""
        path, out = path_of(form, c.dir, b".dl"), path_of(form, c.dir, b".out")
        c.put(path, c.m.text)
        c.run([OPT, path, "-o", out], [out], statuses=(2,) if is_option(path) else (0,), may_fail=is_option(path))
        c.put(path, c.m.operator)
        c.run([OPT, b"--op=" + path, "m.onnx"])
        for words in (["-p", path], [b"--target=" + path], [b"--caches-as=" + path], [b"--winograd=" + path]):
            c.run([OPT, *words, "m.onnx"], statuses=(2,))

    def dlrun_model(c, form, k):
        """dlrun MODEL.so, --data, -i, -o"""
        path = path_of(form, c.dir, b".so")
        c.put(path, c.m.library)
        c.run([DLRUN, path], statuses=(2,) if is_option(path) else (0,))
        c.put(b"m.so", c.m.library)
        data, out = path_of(form, c.dir, b".npy"), path_of(form, c.dir, b"")
        c.put(data, c.m.array)
        c.run([DLRUN, "m.so", "-i", b"x=" + data])
        os.makedirs(c.at(out), exist_ok=True)
        # --help and --version are answered wherever they stand
        c.run([DLRUN, "m.so", "-i", b"x=" + data, "-o", out], [] if out in (b"--help", b"--version", b"-h") else [out + b"/y.npy"])
        c.put(out + b"/test_data_set_0/input_0.pb", c.m.proto)
        c.run([DLRUN, "m.so", *value("--data", out, k)])
        c.run([DLRUN, "m.so", "-i", b"" + data], statuses=(1, 2))

    def dlrun_trace(c, form, k):
        """dlrun --profile, --weights, --device, --dim"""
        c.put(b"m.so", c.m.library)
        path = path_of(form, c.dir, b".json")
        os.makedirs(os.path.dirname(c.at(path)), exist_ok=True)
        if b"%" not in path:  # which dlrt.h expands: %p is the process
            c.run([DLRUN, "m.so", "--profile=" .encode() + path, "--roof=1,1", "--seconds=0.001"], [path])
        c.run([DLRUN, "m.so", "--bench", "--seconds=0.001", *value("--device", path, k)], statuses=(1,))
        c.run([DLRUN, "m.so", "--bench", *value("--dim", path, k)], statuses=(1, 2))
        c.put(path, b"weights")
        c.run([DLRUN, "m.so", "--bench", "--seconds=0.001", *value("--weights", path, k)], may_fail=True)


# ---- Things of the wrong kind ----

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
LINKS = {b"link": b"target", b"dangling": b"nowhere", b"loop": b"loop", b"to-folder": b"folder", b"to-zero": b"/dev/zero", b"to-pipe": b"pipe"}
# Names that are not those of files to read; an empty one is as if it were not given.
THINGS = [b"folder", b"folder/", b"pipe", b"dangling", b"loop", b"to-folder", b"to-zero", b"to-pipe", b"empty", b"zeros", b"cut.dl", b"text", b"lfs",
          b"/dev/zero",
          b"/dev/null", b"/dev/full", b"/proc/self/mem", b"/", b".", b"..", b"", b"none", b"none/none", b"target/none", b"n" * 300, b"d/" * 2100 + b"x"]


def put_things(c):
    c.put(b"folder/full/file", b"kept")
    os.mkfifo(c.at(b"pipe"))
    for name, data in ((b"target", b"kept"), (b"empty", b""), (b"zeros", bytes(4096)), (b"cut.dl", c.m.text + b"\0"), (b"lfs", LFS), (b"text", b"no model, but a text\n" * 5), (b"m.so", c.m.library)):
        c.put(name, data)
    for link, to in LINKS.items():
        os.symlink(to, c.at(link))


# By option, the command for a thing, and the things that it takes after all: folders that are there, a file of decisions without any.
FOLDERS = (b"folder", b"folder/", b"to-folder", b"/", b".", b"..")
READERS = {
    "dlcc MODEL": (lambda p: [DLCC, p, "-o", "out.dl"], ()),
    "dlcc --check": (lambda p: [DLCC, p, "--check"], ()),
    "dlcc --op": (lambda p: [DLCC, "m.onnx", b"--op=" + p, "-o", "out.dl"], ()),
    "dlcc --schedule": (lambda p: [DLCC, "m.onnx", b"--schedule=" + p, "--dump-ir=infer"], (b"empty",)),
    "dlcc --explain": (lambda p: [DLCC, "m.onnx", b"--explain=" + p], ()),
    "dlcc --calibrate": (lambda p: [DLCC, "w.onnx", "--int8", b"--calibrate=" + p, "-o", "out.onnx"], ()),
    "dlcc --runtime": (lambda p: [DLCC, "m.onnx", "-O0", b"--runtime=" + p, "-o", "out.a"], ()),
    "dlcc --sysroot": (lambda p: [DLCC, "m.onnx", *FAST, b"--sysroot=" + p, "-o", "out.so"], FOLDERS),
    "dlcc --cc": (lambda p: [DLCC, "m.onnx", "-O0", b"--cc=" + p, "-o", "out.so"], ()),
    "dlcc --ptxas": (lambda p: [DLCC, "m.onnx", *FAST, "--target=cuda:sm_80", "--cubin=yes", b"--ptxas=" + p, "-o", "out.so"], ()),
    "dlcc-opt FILE": (lambda p: [OPT, p], ()),
    "dlcc-opt --op": (lambda p: [OPT, "m.onnx", b"--op=" + p], ()),
    "dlrun MODEL": (lambda p: [DLRUN, p], ()),
    "dlrun --data": (lambda p: [DLRUN, "m.so", b"--data=" + p], ()),
    "dlrun -i": (lambda p: [DLRUN, "m.so", "-i", b"x=" + p], ()),
}


def reads(c, option):
    """No thing is read as a file, waited for, or changed."""
    put_things(c)
    command, fine = READERS[option]
    for thing in THINGS:
        try:
            if thing != b".." or "calibrate" not in option:  # it holds the samples of other cases
                c.run(command(thing), [b"out.so", b"out.h"] if thing in fine and "sysroot" in option else [], statuses=(0,) if thing in fine else (1, 2))
        except Wrong as e:
            raise Wrong(f"{thing!r:.60}: {e}") from None


def pointers(c, _):
    """Git LFS pointers are called so, whatever they are given for."""
    for name in (b"p.onnx", b"p.dl", b"p.so", b"p.npy", b"p.pb", b"p.txt", b"p.json", b"p.a", b"samples/x.npy", b"more/sample/input_0.pb",
                 b"set/test_data_set_0/input_0.pb", b"half/test_data_set_0/output_0.pb"):
        c.put(name, LFS)
    c.put(b"m.so", c.m.library)
    c.put(b"half/test_data_set_0/input_0.pb", c.m.proto)
    c.put(b"file.dl", b'dlir 1\ngraph @main(%x: f32[4]) -> (%y) {\n  %w = Const {value = f32[4] file("p.a", 0, 16)} : ?\n  %y = Add(%x, %w) : ?\n}\n')
    external = onnx.ModelProto.FromString(c.m.product)
    external.graph.initializer[0].ClearField("raw_data")
    external.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    external.graph.initializer[0].external_data.add(key="location", value="p.a")
    c.put(b"external.onnx", external.SerializeToString())
    out = ["-o", "out.so"]
    for command in ([DLCC, "p.onnx", *out], [DLCC, "--check", "p.onnx"], [DLCC, "p.dl", *out], [DLCC, "external.onnx", *out], [DLCC, "external.onnx", "--check"],
                    [DLCC, "file.dl", *out], [DLCC, "m.onnx", "--op=p.dl", *out], [DLCC, "m.onnx", "--schedule=p.txt", *out],
                    [DLCC, "m.onnx", "--explain=p.json"],
                    [DLCC, "m.onnx", "-O0", "--runtime=p.a", *out], [DLCC, "w.onnx", "--int8", "--calibrate=samples", *out],
                    [DLCC, "w.onnx", "--int8", "--calibrate=more", *out], [OPT, "p.dl"], [OPT, "p.onnx"], [OPT, "m.onnx", "--op=p.dl"], [DLRUN, "p.so"],
                    [DLRUN, "m.so", "-i", "x=p.npy"], [DLRUN, "m.so", "-i", "x=p.pb"], [DLRUN, "m.so", "-i", "x=p.txt"], [DLRUN, "m.so", "--data", "set"],
                    [DLRUN, "m.so", "--data", "half"], [DLRUN, "m.so", "--bench", "--weights=p.a"]):
        r = subprocess.run(command, cwd=c.dir, capture_output=True, timeout=SECONDS, check=False)
        need(r.returncode == 1 and b"is a Git LFS pointer, not the file; run `git lfs pull`" in r.stderr + r.stdout, "it does not say what the file is", command,
             r.stderr)
        need(not os.path.exists(c.at(b"out.so")), "an output was made", command)


# ---- Compilers ----

COMPILERS = [c for c in ("gcc", samples.CLANG) if c]


def compilers(c, compiler):
    """Real compilers and linkers, which run what a file of options names if a word begins with @."""
    c.put(b"runtime/@evil.a", read(f"{BUILD}/lib/libdlrt.a"))
    os.symlink(b"runtime/@evil.a", c.at(b"@evil.a"))
    os.makedirs(c.at(b"@evil/usr"))
    for stem in (b"@evil", b"-wrapper", b"com,ma", b"a b'\"", b"new\nline", b"$(touch pwned)"):
        for suffix in (b".so", b".a", b".o"):
            path = stem + suffix if stem != b"@evil" or suffix != b".a" else b"@evil.archive.a"
            if suffix == b".so":
                c.put(path[1:], EVIL)
            c.run([DLCC, "m.onnx", "-O0", f"--cc={compiler}", b"--runtime=@evil.a", "-o", path], [path, header(path)])
            if suffix == b".so":
                c.run([DLRUN, b"./" + path])
    c.run([DLCC, "m.onnx", "-O0", f"--cc={compiler}", b"--sysroot=@evil", "-o", "root.so"], [b"root.so", b"root.h"], may_fail=True)  # it has no headers


# ---- Outputs ----

# By option, the suffix, the command for a path, whether the path is a file of its own that a link leads to, and what else is made.
WRITERS = {
    "dlcc -o FILE.so": (b".so", lambda p: [DLCC, "m.onnx", *FAST, "-o", p], False, lambda p: [header(p)]),
    "dlcc -o FILE.a": (b".a", lambda p: [DLCC, "m.onnx", *FAST, "-o", p], False, lambda p: [header(p)]),
    "dlcc -o FILE.c": (b".c", lambda p: [DLCC, "m.onnx", "-o", p], False, lambda p: [header(p)]),
    "dlcc -o FILE.ptx": (b".ptx", lambda p: [DLCC, "m.onnx", "--target=cuda:sm_80", "-o", p], False, lambda p: []),
    "dlcc -o FILE.dl": (b".dl", lambda p: [DLCC, "m.onnx", "-o", p], True, lambda p: []),
    "dlcc -o FILE.onnx": (b".onnx", lambda p: [DLCC, "m.onnx", "-o", p], True, lambda p: []),
    "dlcc --weights": (b".bin", lambda p: [DLCC, "w.onnx", *FAST, b"--weights=" + p, "-o", "out.so"], False, lambda p: [b"out.so", b"out.h"]),
    "dlcc --depfile": (b".d", lambda p: [DLCC, "m.onnx", *FAST, b"--depfile=" + p, "-o", "out.so"], False, lambda p: [b"out.so", b"out.h"]),
    "dlcc-opt -o": (b".dl", lambda p: [OPT, "m.onnx", "-o", p], True, lambda p: []),
    "dlrun -o": (b".npy", lambda p: [DLRUN, "m.so", "-i", "x=x.npy", "-o", os.path.dirname(p) or b"."], True, lambda p: []),
}


def writes(c, option):
    """An output that cannot be written leaves what is there; one that can leaves what a link leads to, or replaces it whole."""
    suffix, command, follows, more = WRITERS[option]
    if suffix == b".ptx" and not GPU:
        return
    c.put(b"m.so", c.m.library)
    c.put(b"x.npy", c.m.array)
    fixed = option == "dlrun -o"  # its file has the output's name
    name = lambda stem: b"y.npy" if fixed else stem + suffix  # noqa: E731
    c.put(b"target", b"kept")
    path = name(b"old")
    c.put(path, b"kept")
    c.run(command(path), statuses=(1,), limit=50)  # files have no room: as a full disk
    c.run(command(path), [path, *more(path)])
    need(read(c.at(path)) != b"kept", "the output is the old one")
    os.unlink(c.at(path))
    path = name(b"link")
    os.symlink(b"target", c.at(path))
    c.run(command(path), statuses=(1,), limit=50)
    c.run(command(path), [b"target" if follows else path, *more(path)])
    need(os.path.islink(c.at(path)) == follows and (read(c.at(b"target")) == b"kept") != follows, "the link, or what it leads to, is not as it should be")
    os.unlink(c.at(path))
    path = name(b"dangling")
    os.symlink(b"nowhere", c.at(path))
    c.run(command(path), [path if not follows else b"nowhere", *more(path)])
    os.unlink(c.at(path))
    path = name(b"folder")
    os.makedirs(c.at(path) + b"/full")
    c.run(command(path), statuses=(1, 2))
    shutil.rmtree(c.at(path))
    for to in b"/dev/full", b"/dev/null", b"/":
        path = name(b"device")
        os.symlink(to, c.at(path))
        c.run(command(path), may_fail=to == b"/dev/null", statuses=(1, 2))
        os.unlink(c.at(path))
    if not fixed:
        for path in (b"none/x" + suffix, b"target/x" + suffix, b"n" * 252 + suffix, b"n" * 300 + suffix, b"d/" * 2100 + suffix, b"/proc/x" + suffix, b"/dev/null/x" + suffix):
            c.run(command(path), statuses=(1, 2), may_fail=len(path) < 256, made=[path, *more(path)] if len(path) in range(250, 256) else ())
    unwritable(c, option, command, name, more)


NOBODY = 65534


def unwritable(c, option, command, name, more):
    """Folders that another user cannot write to, or can, but not replace another one's files in."""
    folders = [os.path.dirname(DLCC)]
    while folders[-1] != "/":
        folders.append(os.path.dirname(folders[-1]))
    if os.geteuid() or not all(os.stat(f).st_mode & stat.S_IXOTH for f in folders):
        return  # another user cannot run the programs, as those of a source in /root
    for mode, statuses in ((0o755, (1,)), (0o1777, (1,))):
        folder = b"as%o" % mode
        path = folder + b"/" + name(b"out")
        c.put(path, b"kept")
        for beside in more(path):
            if beside.startswith(folder):
                c.put(beside, b"kept")
                os.chown(c.at(beside), NOBODY, NOBODY)
        os.chmod(c.at(folder), mode)
        if option in ("dlcc --weights", "dlcc --depfile"):
            os.chmod(c.dir, 0o755)
        c.run(command(path), statuses=statuses, user=NOBODY)


# ---- Python's compile ----

PYTHON = r"""
import os, sys, warnings
import numpy as np
import dlcc
warnings.simplefilter("ignore")
model = open("m.onnx", "rb").read()
fast = {"level": 0, "options": ["--cc=./cc"]}
def tries(call):
    try: call()
    except (dlcc.Error, TypeError) as e: str(e).encode("ascii", "backslashreplace")
for path in sys.stdin.buffer.read().split(b"\0"):
    text = os.fsdecode(path)
    os.makedirs(os.path.dirname(text) or ".", exist_ok=True)
    folder = text + ".folder"
    os.mkdir(folder)
    with open(text, "wb") as f: f.write(model)
    m = dlcc.compile(text, **fast)
    m.save(text + ".so")
    m.close()
    assert dlcc.load(text + ".so").describe().name == "m"
    os.remove(text + ".so")
    assert dlcc.compile(text, cache=folder, **fast).describe().name == "m"
    assert dlcc.check(text).ok
    with open(text, "wb") as f: f.write(open("op.dl", "rb").read())
    dlcc.compile("m.onnx", ops=[text], **fast).close()
    for call in (lambda: dlcc.compile("m.onnx", target=text), lambda: dlcc.compile("m.onnx", dims={text: 3}), lambda: dlcc.compile("m.onnx", options=[text]),
                 lambda: dlcc.compile("m.onnx", options=["--name", text]), lambda: dlcc.compile("m.onnx", cache=text), lambda: dlcc.load(text),
                 lambda: dlcc.compile("m.onnx", device=text, **fast), lambda: dlcc.compile("m.onnx", ops=[text + "/none"]), lambda: dlcc.load(folder)):
        tries(call)
    os.remove(text)
    for entry in os.listdir(folder): os.remove(folder + "/" + entry)
    os.rmdir(folder)
"""


def python(c, forms):
    """The arguments of compile, check, load and save."""
    c.put(b"op.dl", c.m.operator)
    c.put(b"sub/x")
    paths = [path for form in forms if (path := path_of(form, c.dir, b".onnx")) and not path.startswith(b"-")]
    if not paths:
        return
    environment = {**os.environ, "PYTHONPATH": ROOT + "/python", "PATH": f"{BUILD}/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    r = subprocess.run([sys.executable, "-c", PYTHON], cwd=c.dir, input=b"\0".join(paths), capture_output=True, env=environment, timeout=10 * SECONDS, check=False)
    need(r.returncode == 0, "it fails", r.stderr[-2000:])
    need(not any(os.path.basename(path) == b"pwned" for path in c.listing()), "something was run")
    c.check_words()


# ---- All ----

def cases():
    """(name, function of a Case) for all tests."""
    for method in (m for name, m in vars(Options).items() if name[0] != "_"):
        shift = int(hashlib.sha256(method.__doc__.encode()).hexdigest(), 16)
        for k, form in enumerate(FORMS):
            if (k + shift) % SHARE == 0:
                yield method.__doc__, lambda c, method=method, form=form, k=k: method(c, form, k), form
    for option in READERS:
        yield f"{option}: things", lambda c, option=option: reads(c, option), None
    for option in WRITERS:
        yield f"{option}: outputs", lambda c, option=option: writes(c, option), None
    yield "git lfs", lambda c: pointers(c, None), None
    if os.path.basename(BUILD) != "san":  # Python cannot load what is linked with sanitizers, nor does it link without options
        for compiler in COMPILERS:
            yield f"dlcc --cc={compiler}", lambda c, compiler=compiler: compilers(c, compiler), None
        for k in range(0, len(FORMS), 30):
            yield "Python", lambda c, k=k: python(c, FORMS[k:k + 30:1 if ALL else 15]), None


def attempt(material, number, name, test, form):
    """A line about the failure of TEST, or None."""
    c = Case(material, number)
    try:
        test(c)
    except (Wrong, OSError, ValueError, subprocess.SubprocessError) as e:
        return f"FAIL: {name}{f' {form}' if form else ''}: {type(e).__name__}: {e}"
    finally:
        for folder, _, _ in os.walk(c.dir):
            os.chmod(folder, 0o700)
        shutil.rmtree(c.dir)
    return None


def main():
    material = Material()
    wanted = [x for x in cases() if not ONLY or any(name in x[0] for name in ONLY)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda x: attempt(material, x[0], *x[1]), enumerate(wanted)))
    faults = [line for line in found if line]
    for line in faults[:40]:
        print(line)
    print(f"{len(found) - len(faults)} passed, {len(faults)} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""compile(cache=FOLDER): what a library follows from, hostile files, whose folder it is, its size, and several users of it at once."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import dlcc
import numpy as np
import onnx
from dlcc import caching, compiling, programs, wire
from models import DIGITS, ROOT, compiled, model, python
from test_compile import NEG, InFolder

ABS = NEG.replace("Neg", "Abs")


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return path


class Cached(InFolder):
    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.folder, "cache")

    def libraries(self):
        return sorted(f for f in os.listdir(self.cache) if f.endswith(".so"))

    def external(self, location, factor=1, name="external.onnx"):
        """The path of a model NAME whose weights lie at LOCATION, which is not checked."""
        tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        proto = model("(float[2] x) => (float[2] y) { y = Mul(x, w) }")
        proto.graph.initializer.append(tensor)
        if not os.path.isabs(location) and os.path.isdir(os.path.dirname(os.path.join(self.folder, location))):
            if not os.path.lexists(os.path.join(self.folder, location)):
                write(os.path.join(self.folder, location), np.full(2, factor, np.float32).tobytes())
        return write(os.path.join(self.folder, name), proto.SerializeToString())


class Origins(Cached):
    """A library is taken where all that it follows from is equal."""

    def test_hit(self):
        compiled(NEG, cache=self.cache)
        path, = self.libraries()
        made = os.stat(os.path.join(self.cache, path)).st_ino
        with mock.patch.object(programs, "compile_model", side_effect=AssertionError):
            np.testing.assert_array_equal(compiled(NEG, cache=self.cache)([1, 2]), [-1, -2])
        self.assertEqual(os.stat(os.path.join(self.cache, path)).st_ino, made)
        self.assertEqual([f for f in os.listdir(self.cache) if not re.fullmatch(r"[0-9a-f]{32}\.so|[0-9a-f]{16}\.dlcc", f)], [])

    def test_words(self):
        path = self.path("a.onnx")
        keys = {caching.cache_key(path, options) for options in (["-O2"], ["-O1"], ["-O2", "--dim=n=3"], ["-O2", "--dim", "n=4"])}
        keys.add(caching.cache_key(self.path("a.onnx", ABS), ["-O2"]))
        for name in "compiler_version", "option_kinds":
            with mock.patch.object(programs, name, return_value={} if name == "option_kinds" else "another"):
                keys.add(caching.cache_key(self.path("a.onnx"), ["-O2"]))
        self.assertEqual(len(keys), 6)  # what the kinds of options are is told by the version
        self.assertEqual(caching.cache_key(self.path("a.onnx"), ["-O2"]), caching.cache_key(self.path("b.onnx"), ["-O2", "--cache-size=3"]))

    def test_every_option(self):
        """Each option that names a file, a folder or a program has a key of its own for each contents of that."""
        path, kinds = self.path("a.onnx"), programs.option_kinds()
        printed = subprocess.run(["dlcc", "--help"], capture_output=True, text=True, check=True).stdout
        # Options whose value the help calls FILE, DIR or CC.
        names = {"file": "FILE", "folder": "DIR", "program": "CC"}
        options = re.findall(r"(?<!dlrun )(-o|--[a-z-]+)[ =\[]+(?:FILE|DIR|CC|TRACE)\b", printed)
        named = {option: kinds[option] - {"none"} for option in options}
        self.assertGreaterEqual(len(named), 12)
        self.assertNotIn({"word"}, [kind for option, kind in named.items() if option != "--sysroot"])
        for option, kind in ((o, k) for o, ks in kinds.items() for k in ks if k in (*names, "output", "cache")):
            value = os.path.join(self.folder, option.lstrip("-"))
            forms = ([f"{option}={value}"], [option, value])
            if kind in ("output", "cache"):
                for form in forms[:1] if "none" in kinds[option] else forms:
                    with self.assertRaisesRegex(dlcc.Error, f"{option} names files that are written"):
                        caching.cache_key(path, form)
                continue
            keys = []
            for k, contents in enumerate((b"one", b"two", b"two and more")):
                file = write(os.path.join(value, "sub", "file") if kind == "folder" else value, contents)
                os.chmod(file, 0o755)
                os.utime(file, ns=(k, k))
                keys += [caching.cache_key(path, form) for form in (forms[:1] if "none" in kinds[option] else forms)]
            with self.subTest(option):
                self.assertEqual(len(set(keys)), 3)

    def test_folder(self):
        """The samples of --calibrate: their names, their number, and their contents, in folders, too."""
        samples, path = os.path.join(self.folder, "samples"), self.path("a.onnx")
        key = lambda: caching.cache_key(path, [f"--calibrate={samples}"])  # noqa: E731
        write(os.path.join(samples, "0.npy"), b"0")
        write(os.path.join(samples, "case", "input_0.pb"), b"1")
        keys = [key()]
        self.assertEqual(key(), keys[0])
        for change in (lambda: write(os.path.join(samples, "1.npy"), b""), lambda: write(os.path.join(samples, "1.npy"), b"1"),
                       lambda: os.rename(os.path.join(samples, "1.npy"), os.path.join(samples, "2.npy")), lambda: os.unlink(os.path.join(samples, "0.npy")),
                       lambda: write(os.path.join(samples, "case", "input_0.pb"), b"2"), lambda: write(os.path.join(samples, "case", "data", "x.bin"), b"2"),
                       lambda: os.symlink(path, os.path.join(samples, "3.npy"))):
            change()
            keys.append(key())
        self.assertEqual(len(set(keys)), 8)
        os.symlink(samples, os.path.join(samples, "case", "loop"))
        with self.assertRaises(caching._NotKept):
            key()

    def test_calibrated(self):
        samples = os.path.join(self.folder, "samples")
        x = np.random.default_rng(0).random((2, 1, 8, 8)).astype(np.float32) * 16
        options = {"options": ["--int8", f"--calibrate={samples}", "-Wno-cache"], "level": 1}
        found = []
        for scale in 16, 0.01:
            os.makedirs(samples, exist_ok=True)
            np.save(os.path.join(samples, "0.npy"), (np.random.default_rng(1).random((4, 1, 8, 8)) * scale).astype(np.float32))
            found.append(dlcc.compile(DIGITS, cache=self.cache, **options)(x))
        np.testing.assert_array_equal(found[1], dlcc.compile(DIGITS, **options)(x))
        self.assertFalse(np.array_equal(*found))

    def test_external_data(self):
        """A model is another one if a file of its weights is."""
        found = []
        for factor in 1, 2:
            path = self.external("weights.bin")
            write(os.path.join(self.folder, "weights.bin"), np.full(2, factor, np.float32).tobytes())
            with open(path, "rb") as f:
                self.assertEqual(wire.external_files(f.read()), ["weights.bin"])
            found.append(dlcc.compile(path, cache=self.cache, level=0)([1, 1])[0])
        self.assertEqual(found, [1, 2])
        self.assertEqual(len(self.libraries()), 2)

    def test_external_data_beside_the_link(self):
        """A model that is a link has its data beside it, or beside what it links to."""
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        os.symlink(self.external("weights.bin", 3), os.path.join(other, "link.onnx"))
        self.assertEqual(dlcc.compile(os.path.join(other, "link.onnx"), cache=self.cache, level=0)([1, 1])[0], 3)
        write(os.path.join(self.folder, "weights.bin"), np.full(2, 4, np.float32).tobytes())
        self.assertEqual(dlcc.compile(os.path.join(other, "link.onnx"), cache=self.cache, level=0)([1, 1])[0], 4)

    def test_text(self):
        text = "dlir 1\ngraph @main(%x: f32[2]) -> (%y) {\n  %y = Neg(%x) : ?\n}\n"
        path = write(os.path.join(self.folder, "a.dl"), text.encode())
        for _ in range(2):
            np.testing.assert_array_equal(dlcc.compile(path, cache=self.cache, level=0)([1, 2]), [-1, -2])
        self.assertEqual(len(self.libraries()), 1)
        write(path, text.replace("%y = Neg", '%w = Const {value = f32[2] file("w.bin", 0, 8)} : ?\n  %y = Neg').encode())
        with self.assertRaisesRegex(dlcc.Error, "names files.*without a cache"):
            dlcc.compile(path, cache=self.cache)

    def test_damaged(self):
        """A file that is not a model has a key, too: the compiler reports what is wrong."""
        good = model(NEG).SerializeToString()
        for n in range(len(good)):
            wire.external_files(good[:n])
        self.assertEqual(wire.external_files(b"\xff" * 40), [])

    def test_refused(self):
        for given in model("(float[2] x) => (float[2] y) { y = Frobnicate(x) }"), b"", b"junk", os.path.join(self.folder, "none.onnx"):
            with self.assertRaises(dlcc.CompileError):
                dlcc.compile(given, cache=self.cache)
        self.assertEqual(os.listdir(self.cache), [])

    def test_changes_meanwhile(self):
        """A model that changes while it is compiled is compiled again, and the key of the old one has nothing."""
        path, compile_model, made = self.path("a.onnx"), programs.compile_model, []

        def compiles(*arguments):
            made.append(arguments)
            if len(made) == 1:
                self.path("a.onnx", ABS)
            return compile_model(*arguments)
        old = caching.cache_key(path, ["-O0", "--name=a"])
        with mock.patch.object(programs, "compile_model", compiles):
            np.testing.assert_array_equal(dlcc.compile(path, cache=self.cache, level=0)([1, -2]), [1, 2])
        self.assertEqual((len(made), len(self.libraries())), (2, 1))
        self.assertNotIn(old + ".so", self.libraries())


class Hostile(Cached):
    """A model that names devices, pipes or other people's files is refused by the compiler, and none of them is read before."""

    PROGRAM = """
import dlcc, json, sys
for path, options in json.loads(sys.argv[2]):
    try: dlcc.compile(path, cache=sys.argv[1], options=options)
    except dlcc.CompileError as e: print(json.dumps(str(e)), flush=True)"""

    def refused(self, cases):
        """Each of CASES, (path, why, options), is refused, without a wait, and leaves nothing."""
        done = python(self.PROGRAM, self.cache, json.dumps([(path, options) for path, _, options in cases]), timeout=60)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(found), len(cases), done.stderr)
        for text, (path, why, options) in zip(found, cases):
            with self.subTest(f"{path} {options}"):
                self.assertRegex(text, why)
        self.assertEqual([f for f in os.listdir(self.cache) if f.endswith(".so")], [])

    def test_external(self):
        secret = write(os.path.join(self.folder, "..", os.path.basename(self.folder) + ".secret"), bytes(8))
        self.addCleanup(os.unlink, secret)
        os.mkfifo(os.path.join(self.folder, "pipe"))
        os.symlink("pipe", os.path.join(self.folder, "link to a pipe"))
        os.symlink("/dev/zero", os.path.join(self.folder, "link to a device"))
        os.symlink(secret, os.path.join(self.folder, "link out"))
        os.symlink("..", os.path.join(self.folder, "up"))
        os.mkdir(os.path.join(self.folder, "sub"))
        outside = "only files in the model's folder are read|is a link that leads out"
        locations = [("pipe", "not a regular file"), ("link to a pipe", "not a regular file"), ("sub", "not a regular file"),
                     ("/dev/zero", outside), ("/proc/self/mem", outside), ("link to a device", outside), ("link out", outside), (secret, outside),
                     ("up/" + os.path.basename(secret), outside), ("../" + os.path.basename(secret), outside), ("", "empty location"), ("none/x", "no such file")]
        self.refused([(self.external(location, name=f"{k}.onnx"), why, []) for k, (location, why) in enumerate(locations)])

    def test_model_and_options(self):
        pipe, zero, model_path = (os.path.join(self.folder, name) for name in ("pipe.onnx", "zero.onnx", "a.onnx"))
        os.mkfifo(pipe)
        os.symlink("/dev/zero", zero)
        self.path("a.onnx")
        self.refused([(path, "is not a regular file", []) for path in (pipe, zero, self.folder)] +
                     [(model_path, "error: ", [option, file]) for option in ("--schedule", "--op", "--explain")
                      for file in (pipe, "/dev/zero", self.folder, os.path.join(self.folder, "none")) if option != "--explain"] +
                     [(model_path, "error: ", [f"--explain={pipe}"])])

    def test_pointer(self):
        """A Git LFS pointer in place of the model, or of its weights."""
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 8\n"
        write(os.path.join(self.folder, "weights.bin"), pointer)
        self.refused([(write(os.path.join(self.folder, "a.onnx"), pointer), "is a Git LFS pointer, not the file; run `git lfs pull`", []),
                      (self.external("weights.bin"), '"weights.bin" is a Git LFS pointer, not the file; run `git lfs pull`', [])])


class Folder(Cached):
    """A cached library is code: nobody else may have put it there."""

    def test_made_for_one_user(self):
        old = os.umask(0)
        try:
            compiled(NEG, cache=os.path.join(self.folder, "deep", "cache"))
        finally:
            os.umask(old)
        folder = os.path.join(self.folder, "deep", "cache")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        for entry in os.listdir(folder):
            self.assertEqual(os.stat(os.path.join(folder, entry)).st_mode & 0o077, 0, entry)

    def test_writable_by_others(self):
        os.mkdir(self.cache)
        for mode in 0o777, 0o770, 0o702, 0o1777:
            os.chmod(self.cache, mode)
            with self.assertRaisesRegex(dlcc.Error, f"other users may write into it .mode {mode:04o}.*chmod go-w"):
                compiled(NEG, cache=self.cache)
            done = subprocess.run(["dlcc", DIGITS, f"--cache={self.cache}", "-o", os.path.join(self.folder, "a.so")], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"other users may write into the cache .*mode {mode:04o}")
        self.assertEqual(os.listdir(self.cache), [])
        os.chmod(self.cache, 0o755)
        compiled(NEG, cache=self.cache)

    @unittest.skipIf(os.geteuid(), "only root can make folders of another user")
    def test_of_another_user(self):
        os.mkdir(self.cache, 0o700)
        os.chown(self.cache, 12345, -1)
        with self.assertRaisesRegex(dlcc.Error, "it belongs to user 12345, and this is user 0"):
            compiled(NEG, cache=self.cache)
        done = subprocess.run(["dlcc", DIGITS, f"--cache={self.cache}", "-o", os.path.join(self.folder, "a.so")], capture_output=True, text=True, check=False)
        self.assertRegex(done.stderr, "belongs to user 12345, and this is user 0")

    def test_not_a_folder(self):
        for path, why in (("/dev/null", "File exists"), (write(os.path.join(self.folder, "file"), b""), "File exists"), ("/proc/none", "[Nn]o such file"),
                          (os.path.join(self.folder, "file", "cache"), "Not a directory"), ("x" * 300, "File name too long"), ("zero\0byte", "null")):
            with self.subTest(path), self.assertRaisesRegex(dlcc.Error, why):
                compiled(NEG, cache=path)

    def test_entry_of_another_user(self):
        """A file is replaced, and not loaded, if it is not regular, not this user's, or others may write to it."""
        os.makedirs(self.cache, 0o700)
        evil = os.path.join(self.folder, "evil.so")
        compiled(ABS).save(evil)
        compiled(NEG, cache=self.cache)
        entry = os.path.join(self.cache, self.libraries()[0])

        def copies(mode, owner=-1):
            os.unlink(entry)
            shutil.copyfile(evil, entry)
            os.chmod(entry, mode)
            if not os.geteuid():
                os.chown(entry, owner, -1)
        plants = [lambda: copies(0o722), lambda: copies(0o664), lambda: (os.unlink(entry), os.symlink(evil, entry)), lambda: (os.unlink(entry), os.mkfifo(entry))]
        if not os.geteuid():
            plants.append(lambda: copies(0o700, 12345))
        for plant in plants:
            plant()
            np.testing.assert_array_equal(compiled(NEG, cache=self.cache)([1, 2]), [-1, -2])


class Size(Cached):
    def sized(self, k, **options):
        """A model whose library has a bit more than 1 MiB. It has one kernel for all K."""
        w = np.full((1 << 17, 2), k, np.float32)
        proto = model("(int64 i) => (float[2] y) { y = Gather<axis = 0>(w, i) }")
        proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
        return dlcc.compile(proto, level=0, cache=self.cache, **options)

    def test_bounded(self):
        """The library that was not taken for the longest time goes."""
        def inode(k):
            model = self.sized(k, cache_size=4)
            return os.fstat(model._library.file.fileno()).st_ino

        first = [inode(k) for k in (1, 2, 3)]
        self.assertEqual([inode(1), inode(3)], [first[0], first[2]])  # taken again
        inode(4)
        self.assertEqual([inode(1), inode(3)], [first[0], first[2]])
        with mock.patch.object(programs, "compile_model", side_effect=AssertionError), self.assertRaises(AssertionError):
            inode(2)
        self.assertLessEqual(sum(os.stat(os.path.join(self.cache, f)).st_size for f in os.listdir(self.cache)), 4 << 20)
        self.assertEqual(len(self.libraries()), 3)

    def test_objects_count(self):
        """dlcc --cache bounds the same folder."""
        self.sized(1)
        out = os.path.join(self.folder, "d.so")
        subprocess.run(["dlcc", DIGITS, f"--cache={self.cache}", "--cache-size=1", "-o", out], check=True, capture_output=True)
        self.assertEqual(self.libraries(), [])
        subprocess.run(["dlcc", DIGITS, f"--cache={self.cache}", "--cache-size=0", "-o", out], check=True, capture_output=True)
        self.assertEqual(os.listdir(self.cache), [])

    def test_too_large(self):
        """A library that is more than the folder holds runs, with a warning, and is the only one there."""
        self.sized(1)
        with self.assertWarnsRegex(dlcc.CompileWarning, "more than the 1 MiB that the cache .* holds"):
            np.testing.assert_array_equal(self.sized(2, cache_size=1)(np.int64(5)), [2, 2])
        self.assertEqual(len(self.libraries()), 1)
        with self.assertRaisesRegex(dlcc.CompileError, "error: its 2 MiB are more than the 1 MiB"):
            self.sized(3, cache_size=1, options=["-Werror=cache"])

    def test_removed(self):
        """What another process removes is compiled again, and a loaded model can be saved all the same."""
        loaded = self.sized(1)
        os.unlink(os.path.join(self.cache, *self.libraries()))
        saved = os.path.join(self.folder, "saved.so")
        loaded.save(saved)
        np.testing.assert_array_equal(dlcc.load(saved)(np.int64(5)), [1, 1])
        opens, calls = compiling.open_model, []

        def removes(path, **options):
            calls.append(path)
            if len(calls) < 3:
                os.unlink(path)
            return opens(path, **options)
        with mock.patch.object(compiling, "open_model", removes):
            np.testing.assert_array_equal(self.sized(1)(np.int64(5)), [1, 1])
        self.assertEqual(len(calls), 3)

    def test_documented(self):
        with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as f:
            told, = re.findall(r"holds (\d+) MiB at most", f.read())
        printed = subprocess.run(["dlcc", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn(f"limit on the size of DIR (default {told})", printed)


class AtOnce(Cached):
    def test_processes(self):
        """Processes that compile, remove and load the same models at once all get what they asked for."""
        paths = [self.path(f"{op}.onnx", NEG.replace("Neg", op)) for op in ("Neg", "Abs", "Relu")]
        program = ("import dlcc, sys, warnings\nwarnings.simplefilter('ignore')\nfor k in range(4):\n  for path, y in zip(sys.argv[2:], (1, 1, 0)):\n"
                   "    m = dlcc.compile(path, cache=sys.argv[1], level=0, cache_size=1)\n    assert m([-1, 2])[0] == y, path\n    m.close()")
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
        running = [subprocess.Popen([sys.executable, "-c", program, self.cache, *paths], env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        self.assertEqual([(p.communicate()[1], p.returncode) for p in running], [("", 0)] * 3)
        self.assertEqual([f for f in os.listdir(self.cache) if f.startswith(".") or f.endswith(".h")], [])


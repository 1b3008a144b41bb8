# SPDX-License-Identifier: Apache-2.0
"""The end of a model: close while other threads, signal handlers, callbacks or a child run it, and what outlives it."""

import gc
import os
import tempfile
import textwrap
import threading
import time
import unittest

import dlcc
import numpy as np
from models import compiled, model, python

PICK = "(float[3,2] x, int64[1] i) => (float[1,2] y) { y = Gather<axis = 0>(x, i) }"
NEG = "(float[n] x) => (float[n] y) { y = Neg(x) }"
# A run of n steps: about a second for ten million.
SLOW = ('(int64 n, float x) => (float y) { y = Loop(n, "", x) <body = b(int64 i, bool c, float a) => (bool d, float e) '
        "<float one = {1}> { d = Identity(c) e = Add(a, one) }> }")


def is_mapped(path):
    with open("/proc/self/maps") as f:
        return path in f.read()


class Ended(unittest.TestCase):
    """Models in this process."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "saved.so")

    def saved(self, text):
        with compiled(text) as found:
            found.save(self.path)
        return dlcc.load(self.path, threads=1)

    def start(self, call):
        """A thread that runs CALL, and the list that its result goes to."""
        found = []

        def run():
            try:
                found.append(call())
            except dlcc.Error as e:
                found.append(str(e))
        thread = threading.Thread(target=run)
        thread.start()
        return thread, found

    def test_running_call(self):
        """A call that has begun ends as if nobody had closed the model, whose code and contexts go with it."""
        for end in (lambda m: m.close(), lambda m: m.__exit__(None, None, None)):
            slow = self.saved(SLOW)
            library = slow._library
            thread, found = self.start(lambda: slow(np.int64(3 * 10**6), np.float32(0)))
            while not library.running:
                time.sleep(0.001)
            end(slow)
            self.assertTrue(thread.is_alive())
            with self.assertRaisesRegex(dlcc.Error, "the model is closed"):
                slow(np.int64(1), np.float32(0))
            self.assertTrue(is_mapped(self.path))
            thread.join()
            self.assertEqual(found, [np.float32(3 * 10**6)])
            self.assertEqual((library.running, library.contexts), (0, []))
            self.assertFalse(is_mapped(self.path))

    def test_every_function(self):
        timed = compiled(NEG, profile=True)
        timed([1, 2])
        timed.close()
        for call in (lambda: timed([1, 2]), lambda: timed.run({"x": [1, 2]}), lambda: timed.save(self.path), timed.profile):
            with self.assertRaisesRegex(dlcc.Error, "the model is closed"):
                call()
        self.assertEqual(timed.describe().name, "model")
        timed.close()
        self.assertFalse(os.path.exists(self.path))

    def test_two_of_a_file(self):
        first = self.saved(NEG)
        second = dlcc.load(self.path)
        first([1, 2])
        first.close()
        np.testing.assert_array_equal(second([1, 2]), [-1, -2])
        second.close()
        self.assertFalse(is_mapped(self.path))

    def test_results_outlive(self):
        found = self.saved("(float[n] x, string[k] s) => (float[n] y, string[k] t, int64[1,m] z) "
                           "{ y = Neg(x) t = Identity(s) z = NonZero(x) }")
        y, t, z = found(np.float32([1, 0, 2]), ["a", "b"])
        views = np.from_dlpack(y), np.from_dlpack(z)
        found.close()
        del found, y, z
        gc.collect()
        self.assertFalse(is_mapped(self.path))
        self.assertEqual([v.tolist() for v in views], [[-1, 0, -2], [[0, 2]]])
        self.assertEqual(t.tolist(), ["a", "b"])

    def test_closed_by_an_input(self):
        """The input of a call, or the memory for its output, closes the model when it is asked for its memory."""
        class Closing:
            def __init__(self, array, of):
                self.array, self.of = array, of

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, **options):
                self.of.close()
                return self.array.__dlpack__(**options)

        found, x = self.saved(NEG), np.float32([1, 2])
        with self.assertRaisesRegex(dlcc.Error, "closed"):
            found(Closing(x, found))
        found, y = dlcc.load(self.path), np.zeros(2, np.float32)
        found.run({"x": x}, {"y": Closing(y, found)})
        self.assertEqual(y.tolist(), [-1, -2])
        self.assertFalse(is_mapped(self.path))

    def test_called_by_what_is_collected(self):
        """An object of a cycle with a model calls it as both go."""
        said = []

        class Holder:
            def __init__(self, of):
                self.of, self.me = of, self

            def __del__(self):
                try:
                    said.append(self.of([1, 2]).tolist())
                except dlcc.Error as e:
                    said.append(str(e))
        Holder(self.saved(NEG))
        gc.collect()
        self.assertIn(said, ([[-1, -2]], ["the model is closed"]))

    def test_replaced(self):
        """A path is loaded as the file that is there now, whatever was loaded from it before and is still open."""
        old = self.saved(NEG)
        with compiled("(float[n] x) => (float[n] y) { y = Abs(x) }") as other:
            other.save(self.path)
        new, third = dlcc.load(self.path), dlcc.load(self.path)
        self.assertEqual([m([1, -2]).tolist() for m in (old, new, third)], [[-1, 2], [1, 2], [1, 2]])
        new.save(self.path + ".copy")
        old.close(), new.close()
        self.assertEqual([m([1, -2]).tolist() for m in (third, dlcc.load(self.path), dlcc.load(self.path + ".copy"))], [[1, 2]] * 3)

    def test_names(self):
        """A library is not taken for one that had its path, or the number of its open file, before."""
        first = self.saved(NEG)
        copy = self.path + ".copy"
        os.rename(self.path, copy)
        dlcc.load(copy).close()  # the loader knows the first library by both paths
        for text, want in ("Abs", [1, 2]), ("Floor", [1, -2]), ("Neg", [-1, 2]):
            with compiled(f"(float[n] x) => (float[n] y) {{ y = {text}(x) }}") as other:
                other.save(copy)
            loaded = dlcc.load(copy)
            self.assertEqual(loaded([1, -2]).tolist(), want, text)
            dlcc.load(copy).close()  # and by the number of a file that is closed now
        self.assertEqual(first([1, -2]).tolist(), [-1, 2])

    def test_nothing_grows(self):
        """Loads, failed ones among them, leave no files open and no libraries mapped."""
        self.saved(NEG).close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(30):
            with dlcc.load(self.path) as found:
                found([1, 2])
            with self.assertRaises(dlcc.RunError):
                dlcc.load(self.path, device="cuda")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertFalse(is_mapped(self.path))

    def test_save(self):
        """The old file stays until all of the new one is there. Who has it loaded goes on with it."""
        old = self.saved(NEG)
        with compiled("(float[n] x) => (float[n] y) { y = Abs(x) }") as other:
            other.save(self.path)
            np.testing.assert_array_equal(old([1, -2]), [-1, 2])
            old.close()
            np.testing.assert_array_equal(dlcc.load(self.path)([1, -2]), [1, 2])
            link, pipe = self.path + ".link", self.path + ".pipe"
            os.symlink(self.path, link)
            other.save(link)
            self.assertTrue(os.path.islink(link))
            os.mkfifo(pipe)
            for to, why in ((os.path.dirname(self.path), "folder"), (pipe, "pipe"), ("/dev/full", "device"),
                            (os.path.join(self.path, "x"), "directory"), (os.path.join(self.path + ".none", "x"), "[Nn]o such file")):
                with self.subTest(to), self.assertRaisesRegex(dlcc.Error, why):
                    other.save(to)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path))), ["saved.so", "saved.so.link", "saved.so.pipe"])


class Apart(unittest.TestCase):
    """Programs in a Python of their own, which must not crash or wait."""

    def runs(self, text, program, printed=""):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as f:
                f.write(model(text).SerializeToString())
            done = python("import dlcc, gc, os, signal, sys, threading, time\nimport numpy as np\n"
                          "m = dlcc.compile(sys.argv[1], level=0, threads=1)\n"
                          f"so = {folder!r} + '/saved.so'\nm.save(so)\n" + textwrap.dedent(program), path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, printed, ""))

    def test_threads(self):
        self.runs(PICK, """
            x, i = np.ones((3, 2), np.float32), np.array([1], np.int64)
            for k in range(60):
                m, go, others = dlcc.load(so, threads=1, profile=True), threading.Event(), []
                def work(call):
                    go.wait()
                    try:
                        for _ in range(200): call()
                    except dlcc.Error as e: others.append(str(e))
                calls = [lambda: m(x, i), lambda: m.run({"x": x, "i": i}), lambda: m(x[::2, :].repeat(2, 0)[:3], i), m.profile]
                threads = [threading.Thread(target=work, args=(call,)) for call in calls]
                for t in threads: t.start()
                go.set()
                time.sleep(0.0005 * (k % 6))
                m.close()
                for t in threads: t.join()
                assert set(others) <= {"the model is closed"}, others
                assert not m._library.running and not m._library.contexts
                assert "/saved.so" not in open("/proc/self/maps").read()""")

    def test_signal(self):
        """A signal handler closes the model, or calls it, between any two steps of a call."""
        self.runs(NEG, """
            x = np.ones(2, np.float32)
            for end in (lambda: m.close(), lambda: m(x)):
                for k in range(150):
                    m = dlcc.load(so, threads=1)
                    def closes(*_):
                        try: end()
                        except dlcc.Error: pass
                    signal.signal(signal.SIGALRM, closes)
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + k * 7e-6)
                    try:
                        for _ in range(80): m(x)
                    except dlcc.Error as e: assert str(e) == "the model is closed"
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    m.close()
                    assert not m._library.running and "/saved.so" not in open("/proc/self/maps").read()""")

    def test_exit(self):
        """The interpreter ends while threads that nobody waits for run models."""
        self.runs(SLOW, """
            folder = m._library.folder
            for _ in range(3):
                threading.Thread(target=lambda: m(np.int64(10**12), np.float32(0)), daemon=True).start()
            n = dlcc.load(so)
            def forever():
                while True: n(np.int64(10), np.float32(0))
            threading.Thread(target=forever, daemon=True).start()
            while m._library.running < 3: time.sleep(0.001)""")

    def test_fork(self):
        """A child that is forked while threads run and close models runs them, and ends."""
        self.runs(NEG, """
            import warnings
            warnings.simplefilter("ignore")  # of Python 3.12, about threads and fork
            x, stop = np.ones(2, np.float32), False
            def work():
                while not stop:
                    n = dlcc.load(so, threads=1)
                    for _ in range(20): n(x); m(x)
                    n.close()
            threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
            for t in threads: t.start()
            for k in range(30):
                pid = os.fork()
                if not pid:
                    signal.alarm(20)
                    if m(x)[0] != -1: os._exit(1)
                    m.close()
                    try: m(x)
                    except dlcc.Error: os._exit(0)
                    os._exit(2)
                status = os.waitpid(pid, 0)[1]
                if status: sys.exit(f"child {k} ended with {status}")
            stop = True
            for t in threads: t.join()
            print(m(x))""", "[-1. -1.]\n")

    def test_interrupts(self):
        """KeyboardInterrupt anywhere in a call leaves a model that runs, or can be closed."""
        self.runs(NEG, """
            x = np.ones(2, np.float32)
            def interrupt(*_): raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, interrupt)
            for k in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + k * 3e-6)
                    for _ in range(60): m(x)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt: pass
            assert m(x)[0] == -1
            m.close()
            try: m(x)
            except dlcc.Error as e: print(e)""", "the model is closed\n")

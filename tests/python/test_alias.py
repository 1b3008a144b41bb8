# SPDX-License-Identifier: Apache-2.0
"""Outputs that are computed in place of an input: caches of attention."""

import ctypes
import unittest

import dlcc
import numpy as np
from dlcc import abi
from models import compiled, model, simulated

# 6 heads of queries, 2 of keys and values, 8 elements each
ATTENTION = """(float[B,6,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v, float[B,2,P,8] past_k, float[B,2,P,8] past_v)
=> (float[B,6,S,8] y, float[B,2,T,8] present_k, float[B,2,T,8] present_v)
<int64[1] two = {2}, int64[5] by3 = {1, 1, 3, 1, 1}, int64[4] heads = {0, 6, -1, 8}> {
  present_k = Concat<axis = 2>(past_k, k)
  present_v = Concat<axis = 2>(past_v, v)
  k1 = Unsqueeze(present_k, two)
  k2 = Expand(k1, by3)
  k3 = Reshape(k2, heads)
  v1 = Unsqueeze(present_v, two)
  v2 = Expand(v1, by3)
  v3 = Reshape(v2, heads)
  kt = Transpose<perm = [0, 1, 3, 2]>(k3)
  s = MatMul(q, kt)
  p = Softmax<axis = -1>(s)
  y = MatMul(p, v3)
}"""


def caches(batch, room, n=2):
    """Memory for caches, as a run must not read it where it has not written it."""
    return [np.full((batch, 2, room, 8), np.nan, np.float32) for _ in range(n)]


class Growing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = dlcc.compile(model(ATTENTION), threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def token(self, seed, batch, new):
        rng = np.random.default_rng(seed)
        return {"q": rng.standard_normal((batch, 6, new, 8), np.float32),
                **{x: rng.standard_normal((batch, 2, new, 8), np.float32) for x in "kv"}}

    def in_place(self, feeds, k, v, past, to=None):
        """A run whose caches K and V have PAST rows. TO: memory for the outputs, if it is another."""
        end = past + feeds["k"].shape[2]
        k2, v2 = to or (k, v)
        return self.model.run({**feeds, "past_k": k[:, :, :past], "past_v": v[:, :, :past]},
                              {"present_k": k2[:, :, :end], "present_v": v2[:, :, :end]})

    def test_description(self):
        self.assertEqual([io.alias for io in self.model.describe().outputs], [None, "past_k", "past_v"])
        self.assertIn("may share memory with past_k", str(self.model.describe()))

    def test_steps(self):
        """Runs in place give the bits of runs that copy, for some room, for one token after a prompt."""
        for batch, room in (1, 16), (3, 16), (2, 200):
            k, v = caches(batch, room)
            past = [np.zeros((batch, 2, 0, 8), np.float32)] * 2
            n = 0
            for step, new in enumerate((5, 1, 1, 4, 1)):
                feeds = self.token(step, batch, new)
                want = self.model.run({**feeds, "past_k": past[0], "past_v": past[1]})
                got = self.in_place(feeds, k, v, n)
                for name in want:
                    np.testing.assert_array_equal(got[name], want[name])
                past, n = [want["present_k"], want["present_v"]], n + new
            self.assertTrue(np.isnan(k[:, :, n:]).all() and np.isnan(v[:, :, n:]).all())

    def test_full(self):
        """The last row of the room."""
        k, v = caches(2, 6)
        k[:, :, :5] = v[:, :, :5] = 1
        feeds = self.token(0, 2, 1)
        got = self.in_place(feeds, k, v, 5)
        np.testing.assert_array_equal(k[:, :, 5:], feeds["k"])
        self.assertTrue(np.isfinite(got["y"]).all())

    def test_bytes(self):
        """The bytes that the kernels of the caches read and write do not depend on the past, as the runtime counts them."""

        class Entry(ctypes.Structure):
            _fields_ = [*abi.ProfileEntry._fields_, ("flops", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]

        def moved(past, in_place):
            with dlcc.compile(model(ATTENTION), threads=1, profile=True) as m:
                k, v = ([x * 0 for x in caches(1, 200)] if in_place else [np.zeros((1, 2, past, 8), np.float32)] * 2)
                feeds = {**self.token(1, 1, 1), "past_k": k[:, :, :past], "past_v": v[:, :, :past]}
                m.run(feeds, {"present_k": k[:, :, :past + 1], "present_v": v[:, :, :past + 1]} if in_place else {})
                entry, total, i = Entry(size=ctypes.sizeof(Entry)), 0, 0
                pointer = ctypes.cast(ctypes.byref(entry), ctypes.POINTER(abi.ProfileEntry))
                while not m._library.api.profile(m._library.model, i, pointer):
                    total, i = total + (entry.bytes if b"MatMul" not in entry.name else 0), i + 1
                return total

        self.assertEqual(moved(10, True), moved(190, True))
        self.assertEqual(moved(190, False) - moved(10, False), 2 * 2 * 180 * 2 * 8 * 4)  # read and written, of two caches

    def test_past_is_not_written(self):
        """In place, the rows before are not even touched: they may be read only."""
        k, v = caches(2, 9)
        for x in k, v:
            x[:, :, :7] = np.random.default_rng(3).standard_normal((2, 2, 7, 8))
        before = k.copy()
        self.in_place(self.token(1, 2, 2), k, v, 7)
        np.testing.assert_array_equal(k[:, :, :7], before[:, :, :7])

    def test_room_in_other_memory(self):
        """Outputs with room that share nothing: all is copied."""
        k, v = caches(2, 9)
        for x in k, v:
            x[:, :, :7] = np.random.default_rng(3).standard_normal((2, 2, 7, 8))
        feeds, to = self.token(1, 2, 2), caches(2, 11)
        got = self.in_place(feeds, k, v, 7, to)
        want = self.in_place(feeds, k, v, 7)
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])

    def test_sliding(self):
        """A window that drops its oldest row: the input overlaps the output, but has strides, and so is copied first."""
        k, v = caches(2, 9)
        for x in k, v:
            x[:, :, :7] = np.random.default_rng(3).standard_normal((2, 2, 7, 8))
        feeds = self.token(1, 2, 2)
        want = self.model.run({**feeds, "past_k": k[:, :, 1:7].copy(), "past_v": v[:, :, 1:7].copy()})
        got = self.in_place(feeds, k[:, :, 1:], v[:, :, 1:], 6, to=(k, v))
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])

    def refused(self, text, *args, **named):
        with self.assertRaises(dlcc.RunError) as e:
            self.in_place(*args, **named)
        self.assertIn(text, str(e.exception))

    def test_wrong_use(self):
        feeds = self.token(1, 2, 2)
        k, v = caches(2, 9)
        self.refused('outputs "present_k" and "present_v" have the same sizes: either both are computed in place', feeds, k, v, 7,
                     to=(k, caches(2, 9)[0]))
        self.refused("need the same room in dim 2: it is 9 and 12", feeds, k, caches(2, 12)[0], 7)
        # the same address, other strides
        flat = np.zeros(2 * 2 * 20 * 8, np.float32)
        a, b = (flat[:2 * 2 * n * 8].reshape(2, 2, n, 8) for n in (12, 20))
        self.refused('is computed in place of input "past_k": their strides give dim 2 room for 20 and for 12', feeds, a, v, 7,
                     to=(b, v))
        self.refused('input "past_k": strides must be contiguous, except for room in dim 2', feeds, k[:, ::-1], v, 7,
                     to=(k[:, ::-1], v))

    def test_too_small(self):
        k, v = caches(2, 8)
        shape, feeds = (2, 2, 9, 8), self.token(1, 2, 2)
        over = [np.lib.stride_tricks.as_strided(x, shape, x.strides) for x in (k, v)]
        self.refused("strides must be contiguous, except for room in dim 2, for 9 or more", feeds, k, v, 7, to=over)


class Fixed(unittest.TestCase):
    """A cache whose size is fixed, of which rows are written."""

    def test_scatter(self):
        with dlcc.compile(model("""(float[8,4] cache, int64[n,1] at, float[n,4] x) => (float[8,4] y, float[4] s)
                                <int64[1] zero = {0}> { y = ScatterND(cache, at, x) s = ReduceSum<keepdims = 0>(y, zero) }
                                """)) as m:
            self.assertEqual(m.describe().outputs[0].alias, "cache")
            cache = np.arange(32, dtype=np.float32).reshape(8, 4)
            for at in [3], [0, 7], []:
                feeds = {"at": np.int64(at).reshape(-1, 1), "x": np.full((len(at), 4), -1.5, np.float32)}
                want = m.run({"cache": cache, **feeds})
                got = m.run({"cache": cache, **feeds}, {"y": cache})
                for name in want:
                    np.testing.assert_array_equal(got[name], want[name])
                np.testing.assert_array_equal(cache, want["y"])

    def test_tensor_scatter(self):
        """Rows from a start that each sequence has for itself."""
        proto = model("(float[B,3,16,8] cache, float[B,3,n,8] x, int64[B] start) => (float[B,3,16,8] y, float[B,3,16] s) "
                      "<int64[1] last = {3}> { y = TensorScatter(cache, x, start) s = ReduceSum<keepdims = 0>(y, last) }")
        proto.opset_import[0].version = 24
        with dlcc.compile(proto) as m:
            self.assertEqual(m.describe().outputs[0].alias, "cache")
            rng = np.random.default_rng(1)
            cache = rng.standard_normal((2, 3, 16, 8), np.float32)
            for start, n in ([0, 4], 5), ([15, 3], 1), ([0, 0], 16), ([7, 16], 0):
                feeds = {"x": rng.standard_normal((2, 3, n, 8), np.float32), "start": np.int64(start)}
                want = m.run({"cache": cache.copy(), **feeds})
                expected = cache.copy()
                for b in 0, 1:
                    expected[b, :, start[b]:start[b] + n] = feeds["x"][b]
                np.testing.assert_array_equal(want["y"], expected)
                got = m.run({"cache": cache, **feeds}, {"y": cache})
                for name in want:
                    np.testing.assert_array_equal(got[name], want[name])
            with self.assertRaises(dlcc.RunError) as e:
                m.run({"cache": cache, "x": np.ones((2, 3, 2, 8), np.float32), "start": np.int64([0, 15])}, {"y": cache})
            self.assertIn("index out of range", str(e.exception))

    def test_not_contiguous(self):
        with dlcc.compile(model("(float[4,8] c, int64[n,1] at, float[n,8] x) => (float[4,8] y) { y = ScatterND(c, at, x) }")) as m:
            wide = np.zeros((4, 16), np.float32)
            feeds = {"at": np.int64([[1]]), "x": np.ones((1, 8), np.float32)}
            with self.assertRaises(dlcc.RunError) as e:
                m.run({"c": wide[:, :8], **feeds}, {"y": wide.reshape(-1)[:32].reshape(4, 8)})
            self.assertIn('input "c": output "y" can only be computed in place of it if it is contiguous', str(e.exception))

    def test_read_later(self):
        """The input is read after it would have been overwritten."""
        m = compiled("(float[8] cache, int64[n,1] at, float[n] x) => (float[8] y, float[8] z) "
                     "{ y = ScatterND(cache, at, x) z = Mul(y, cache) }", level=2)
        self.addCleanup(m.close)
        self.assertIsNone(m.describe().outputs[0].alias)


ON_GPU = r"""
import sys
import dlcc, numpy as np
from on_gpu import OnGpu, memory, read

class Rows(OnGpu):
    "The first rows of a cache in the GPU's memory, of shape [2,2,room,8]."

    def __init__(self, cache, n):
        self.room, at = cache
        super().__init__(at, (2, 2, n, 8), (16 * self.room, 8 * self.room, 8, 1))

    def read(self):
        return read(self.at, (2, 2, self.room, 8))[:, :, :self.shape[2]]

def cache(room):
    return room, memory(4 * 2 * 2 * room * 8)

model = dlcc.compile(sys.argv[1], target="cpu:generic,cuda:sm_80", device="cuda")
assert model.describe().device.startswith("cuda:0"), model.describe().device
assert [io.alias for io in model.describe().outputs] == [None, "past_k", "past_v"]
k, v, n, rng = cache(12), cache(12), 0, np.random.default_rng(1)
past = [np.zeros((2, 2, 0, 8), np.float32)] * 2
for new_rows in 5, 1, 3:
    feeds = {"q": rng.standard_normal((2, 6, new_rows, 8), np.float32),
             **{x: rng.standard_normal((2, 2, new_rows, 8), np.float32) for x in "kv"}}
    want = model.run({**feeds, "past_k": past[0], "past_v": past[1]})
    got = model.run({**feeds, "past_k": Rows(k, n), "past_v": Rows(v, n)},
                    {"present_k": Rows(k, n + new_rows), "present_v": Rows(v, n + new_rows)})
    for name in want:
        np.testing.assert_array_equal(got[name] if name == "y" else got[name].read(), want[name])
    past, n = [want["present_k"], want["present_v"]], n + new_rows
host = [np.zeros((2, 2, 12, 8), np.float32) for _ in "kv"]
try:
    model.run({**feeds, "past_k": host[0][:, :, :4], "past_v": host[1][:, :, :4]},
              {"present_k": host[0][:, :, :7], "present_v": host[1][:, :, :7]})
    raise SystemExit("memory of the host was taken")
except dlcc.RunError as e:
    assert "only aligned memory of the GPU can be shared" in str(e), str(e)
"""


class Gpu(unittest.TestCase):
    def test_simulated(self):
        simulated(self, ATTENTION, ON_GPU)


if __name__ == "__main__":
    unittest.main()

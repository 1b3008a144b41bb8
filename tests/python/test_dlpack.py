# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, which have nothing but __dlpack__: in the CPU's memory, and in that of the simulated GPU."""

import unittest

import dlcc
import numpy as np
from models import compiled, simulated


class Foreign:
    """A NumPy array as another library's. OLD: one that does not know DLPack 1.0."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**options)


class OnTpu(Foreign):
    def __dlpack_device__(self):
        return 99, 0


class Cpu(unittest.TestCase):
    def setUp(self):
        self.model = compiled("(float[n,3] x) => (float[n,3] y) { y = Neg(x) }")
        self.x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def test_input(self):
        for old in False, True:
            for x in self.x, self.x[:, ::-1], self.x[::2], self.x[:0]:
                np.testing.assert_array_equal(self.model(Foreign(x, old)), -x)

    def test_read_only(self):
        self.x.flags.writeable = False
        np.testing.assert_array_equal(self.model(Foreign(self.x)), -self.x)
        with self.assertRaisesRegex(dlcc.RunError, "writable"):
            self.model.run({"x": np.ones((4, 3), np.float32)}, {"y": Foreign(self.x)})

    def test_output(self):
        y = Foreign(np.zeros((4, 3), np.float32))
        self.assertIs(self.model.run({"x": self.x}, {"y": y})["y"], y)
        np.testing.assert_array_equal(y.array, -self.x)
        with self.assertRaisesRegex(dlcc.RunError, "contiguous"):
            self.model.run({"x": self.x}, {"y": Foreign(np.zeros((3, 4), np.float32).T)})

    def test_of_a_result(self):
        np.testing.assert_array_equal(np.from_dlpack(Foreign(self.model(self.x))), -self.x)

    def test_refused(self):
        for x, why in ((Foreign(self.x.astype(np.complex64)), "code 5 of 64 bits"), (OnTpu(self.x), "device type 99"),
                       (Foreign(self.x.astype(np.int32)), "elements are i32, expected f32")):
            with self.assertRaisesRegex(dlcc.RunError, why):
                self.model(x)

    def test_given_back(self):
        """The memory is the library's again when the run is over."""
        import gc
        import sys

        foreign = Foreign(self.x)
        before = sys.getrefcount(self.x)
        for _ in range(5):
            self.model(foreign)
        gc.collect()
        self.assertEqual(sys.getrefcount(self.x), before)


ON_GPU = r"""
import sys
import dlcc, numpy as np
from on_gpu import copied, read

model = dlcc.compile(sys.argv[1], level=1, target="cpu:generic,cuda:sm_80", device="cuda")
assert model.describe().device.startswith("cuda:0"), model.describe().device
x = np.arange(12, dtype=np.float32).reshape(4, 3)
assert np.array_equal(model(x), -x)
assert np.array_equal(model(copied(x)), -x)
y = copied(np.zeros((4, 3), np.float32))
assert model.run({"x": copied(x)}, {"y": y})["y"] is y
assert np.array_equal(read(y.at, y.shape), -x)
"""


class Gpu(unittest.TestCase):
    def test_simulated(self):
        simulated(self, "(float[n,3] x) => (float[n,3] y) { y = Neg(x) }", ON_GPU)

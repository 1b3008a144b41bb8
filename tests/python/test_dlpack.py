# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, which have nothing but __dlpack__: in the CPU's memory, and in that of the simulated GPU."""

import os
import unittest

import dlcc
import numpy as np
from models import compiled, python


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
import ctypes, sys
import dlcc, numpy as np
from dlcc import tensors

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not (driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class OnGpu:
    "An array in the GPU's memory, that has nothing but DLPack."

    def __init__(self, array):
        self.shape, self.dtype, self.at = array.shape, array.dtype, ctypes.c_uint64()
        assert not driver.cuMemAlloc_v2(ctypes.byref(self.at), ctypes.c_size_t(array.nbytes))
        assert not driver.cuMemcpyHtoD_v2(self.at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None, max_version=None):
        assert stream == 1
        self.dims = (ctypes.c_int64 * 2)(*self.shape)
        self.managed = tensors._Versioned(major=1, tensor=tensors._DLTensor(
            data=self.at.value, device_type=2, ndim=2, code=2, bits=32, lanes=1, shape=ctypes.addressof(self.dims)))
        return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)

    def read(self):
        out = np.empty(self.shape, self.dtype)
        assert not driver.cuMemcpyDtoH_v2(ctypes.c_void_p(out.ctypes.data), self.at, ctypes.c_size_t(out.nbytes))
        return out

model = dlcc.compile(sys.argv[1], level=1, target="cpu:generic,cuda:sm_80", device="cuda")
assert model.describe().device.startswith("cuda:0"), model.describe().device
x = np.arange(12, dtype=np.float32).reshape(4, 3)
assert np.array_equal(model(x), -x)
assert np.array_equal(model(OnGpu(x)), -x)
y = OnGpu(np.zeros((4, 3), np.float32))
assert model.run({"x": OnGpu(x)}, {"y": y})["y"] is y
assert np.array_equal(y.read(), -x)
"""


class Gpu(unittest.TestCase):
    def test_simulated(self):
        import subprocess
        import tempfile

        from models import model

        simulator = os.path.join(os.environ["BUILD"], "ptxsim")
        known = subprocess.run(["dlcc", "--list-targets"], capture_output=True, text=True, check=True).stdout
        if not os.path.exists(os.path.join(simulator, "libcuda.so.1")) or "cuda:" not in known:
            self.skipTest("dlcc makes no code for GPUs, or the simulator was not built")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "neg.onnx")
            with open(path, "wb") as f:
                f.write(model("(float[n,3] x) => (float[n,3] y) { y = Neg(x) }").SerializeToString())
            done = python(ON_GPU, path, LD_LIBRARY_PATH=simulator, PTXSIM_SM="80")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

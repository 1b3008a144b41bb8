# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of the simulated GPU, for programs that share it with a model through DLPack alone."""

import ctypes

import numpy as np
from dlcc import tensors

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not (driver.cuInit(0) or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def memory(nbytes):
    at = ctypes.c_uint64()
    assert not driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(nbytes))
    return at


class OnGpu:
    """An array of f32 at address AT. STRIDES, in elements, are given if it is not contiguous."""

    def __init__(self, at, shape, strides=None):
        self.at, self.shape = at, tuple(shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None, max_version=None):
        assert stream == 1
        self.dims = (ctypes.c_int64 * len(self.shape))(*self.shape)
        self.managed = tensors._Versioned(major=1, tensor=tensors._DLTensor(
            data=self.at.value, device_type=2, ndim=len(self.shape), code=2, bits=32, lanes=1, shape=ctypes.addressof(self.dims),
            strides=self.strides and ctypes.addressof(self.strides)))
        return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def copied(array):
    """ARRAY, contiguous and of f32, in memory of its own."""
    at = memory(array.nbytes)
    assert not driver.cuMemcpyHtoD_v2(at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
    return OnGpu(at, array.shape)


def read(at, shape):
    """The contiguous elements from AT on."""
    out = np.empty(shape, np.float32)
    assert not driver.cuMemcpyDtoH_v2(ctypes.c_void_p(out.ctypes.data), at, ctypes.c_size_t(out.nbytes))
    return out

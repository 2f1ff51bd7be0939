# SPDX-License-Identifier: MIT
"""Stand-in for what gnograd.distributed calls of CuPy, on memory of kernels on the host."""

import contextlib
import ctypes
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from gnograd.backends.cuda_arrays import Memory

__all__ = ["install"]


class ndarray:
    """An array that says it is on a GPU. Numbers are reached as CuPy reaches them, by no NumPy."""

    __array_ufunc__ = None

    def __init__(self, numbers, memory):
        self._numbers, self._memory = numbers, memory

    shape = property(lambda self: self._numbers.shape)
    dtype = property(lambda self: self._numbers.dtype)
    ndim = property(lambda self: self._numbers.ndim)

    @property
    def __cuda_array_interface__(self):
        known = self._numbers.__array_interface__
        return {**{k: known[k] for k in ("shape", "typestr", "data", "strides")}, "version": 3}

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __len__(self):
        return len(self._numbers)

    def __getitem__(self, index):
        return ndarray(self._numbers[_plain(index)], self._memory)

    def __setitem__(self, index, value):
        self._numbers[_plain(index)] = _plain(value)

    def __iadd__(self, other):
        self._numbers += _plain(other)
        return self

    def __mul__(self, number):
        return _made(self._numbers * number)

    def reshape(self, *shape):
        return ndarray(self._numbers.reshape(*shape), self._memory)

    def transpose(self, axes):
        return ndarray(self._numbers.transpose(axes), self._memory)

    def copy(self):
        return _made(self._numbers)


ndarray.__module__ = "cupy"


def _plain(value):
    return value._numbers if isinstance(value, ndarray) else value


def empty(shape, dtype):
    """An array with whatever numbers the memory has."""
    dtype, shape = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(shape) * dtype.itemsize
    memory = Memory.allocate(size, 0, 0)
    there = (ctypes.c_char * size).from_address(memory.address) if size else bytearray()
    return ndarray(np.frombuffer(there, dtype, math.prod(shape)).reshape(shape), memory)


def asarray(numbers):
    """The array, or its copy on the device."""
    return numbers if isinstance(numbers, ndarray) else _made(np.asarray(numbers))


def _made(numbers):
    array = empty(numbers.shape, numbers.dtype)
    array._numbers[...] = numbers
    return array


def asnumpy(array):
    """A copy on the host."""
    return array._numbers.copy()


def install():
    """Have ``import cupy`` find this."""
    cupy = ModuleType("cupy")
    cupy.ndarray, cupy.empty, cupy.asarray, cupy.asnumpy = ndarray, empty, asarray, asnumpy
    cupy.cuda = SimpleNamespace(
        is_available=lambda: True,
        Device=lambda device: contextlib.nullcontext(),
        ExternalStream=lambda stream, device: contextlib.nullcontext(),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
    )
    sys.modules["cupy"] = cupy
    return cupy

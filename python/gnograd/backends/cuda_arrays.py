# SPDX-License-Identifier: MIT
"""Arrays in GPU memory: description of those of any library, and `DeviceArray`.

All libraries describe their arrays by ``__cuda_array_interface__``. gnograd makes `DeviceArray`
where there is no CuPy to make arrays with.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from ctypes import byref, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import dtype_name
from gnograd.backends.cuda_library import library
from gnograd.notation.shapes import Shape

__all__ = [
    "DeviceArray", "Memory", "OwnedStream", "address", "describe", "device_of", "empty", "hold",
    "is_tensor", "item_size", "on_device", "owned_stream_of", "room", "stream_of", "strides",
    "to_device", "use_on",
]  # fmt: skip

_ALIGNMENT = 256
_BFLOAT16 = "<V2"  # NumPy has none of its own


class OwnedStream(int):
    """A stream by its number, with the object that keeps it alive.

    Whoever keeps the number keeps the stream, on which the memory of results is freed later.
    """

    owner: Any

    def __new__(cls, stream: int, owner: Any) -> OwnedStream:  # noqa: D102
        made = super().__new__(cls, stream)
        made.owner = owner
        return made


class Memory:
    """A block of memory on one device, freed with this object.

    Attributes
    ----------
    address : int
    stream : int or None
        Stream that used it last, on which it is freed; an `OwnedStream` lives as long as this
        memory. None: any number of streams may read it, and freeing waits for all.
    """

    def __init__(self, address: int, device: int, stream: int | None) -> None:
        self.address, self.device, self.stream = address, device, stream

    @classmethod
    def allocate(cls, size: int, device: int, stream: int) -> Memory:
        """Allocate memory in the order of a stream."""
        memory = c_void_p()
        with on_device(device):
            library().allocate(size, byref(memory), stream)
        return cls(memory.value or 0, device, stream)

    @classmethod
    def hold(cls, host: NDArray[Any], device: int) -> Memory:
        """Copy of a contiguous array, for all streams to read."""
        memory = c_void_p()
        with on_device(device):
            library().hold(host.nbytes, host.ctypes.data, byref(memory))
        return cls(memory.value or 0, device, None)

    @classmethod
    def room(cls, size: int, device: int) -> Memory:
        """Allocate memory that all streams may read once it has been written."""
        memory = c_void_p()
        with on_device(device):
            library().hold(size, None, byref(memory))
        return cls(memory.value or 0, device, None)

    def __del__(self) -> None:
        # at exit the driver frees memory faster
        if self.address and not sys.is_finalizing():
            with on_device(self.device):
                if self.stream is None:
                    library().release(self.address)
                else:
                    library().free(self.address, self.stream)


class DeviceArray:
    """Array in GPU memory.

    It only holds results: any library that knows ``__cuda_array_interface__``
    (PyTorch, CuPy, Numba) takes it without a copy.

    Its memory is freed in the order of the stream that gnograd used it on, which is kept with it:
    CuPy's stream, or the array that named it, as the interface promises that a stream lives as long
    as the array. Do not destroy a stream while such arrays exist. A program that reads the array on
    another stream must keep it until that is done, as the interface asks of a consumer.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        Type of the items; bfloat16 is that of the package ml_dtypes.
    """

    def __init__(self, shape: Shape, dtype: str, memory: Memory | Any, address: int) -> None:
        self.shape = shape
        self._dtype = dtype
        self._memory = memory
        """Object to keep alive: `Memory`, or another library's array."""
        self._address = address

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the items."""
        if self._dtype == "bfloat16":
            importlib.import_module("ml_dtypes")  # makes the name known to NumPy
        return np.dtype(self._dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        bf16 = self._dtype == "bfloat16"
        return {
            "shape": self.shape,
            "typestr": _BFLOAT16 if bf16 else np.dtype(self._dtype).str,
            "data": (self._address, False),
            "strides": None,
            "stream": _interface_stream(stream_of(self._memory)),
            "version": 3,
        }

    def get(self) -> NDArray[Any]:
        """A copy in host memory."""
        host = np.empty(self.shape, self.dtype)
        if host.nbytes:
            with on_device(device_of(self)):
                cuda, stream = library(), stream_of(self)
                cuda.copy(host.ctypes.data, self._address, host.nbytes, stream)
                cuda.synchronize(stream)
        return host

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self._dtype})"


def empty(shape: Shape, dtype: str, device: int, stream: int) -> DeviceArray:
    """Uninitialized array."""
    memory = Memory.allocate(math.prod(shape) * item_size(dtype), device, stream)
    return DeviceArray(shape, dtype, memory, memory.address)


def to_device(host: NDArray[Any], device: int | None = None, stream: int = 0) -> DeviceArray:
    """Copy of a NumPy array on a device, the current one when left out."""
    device = library().integer("current_device") if device is None else device
    host = np.ascontiguousarray(host).reshape(host.shape)
    array = empty(host.shape, dtype_name(host.dtype), device, stream)
    if host.nbytes:
        with on_device(device):
            library().copy(array._address, host.ctypes.data, host.nbytes, stream)
            library().synchronize(stream)
    return array


def hold(host: NDArray[Any], device: int) -> DeviceArray:
    """Copy of a NumPy array that every stream may read, made without using a stream."""
    host = np.ascontiguousarray(host)
    memory = Memory.hold(host, device)
    return DeviceArray(host.shape, dtype_name(host.dtype), memory, memory.address)


def room(kinds: Sequence[tuple[Shape, str]], device: int) -> list[DeviceArray]:
    """Arrays in one block of memory, for every stream to read once they have been written."""
    sizes = [math.prod(shape) * item_size(dtype) for shape, dtype in kinds]
    steps = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    memory = Memory.room(sum(steps), device)
    places = itertools.accumulate(steps, initial=memory.address)
    return [
        DeviceArray(shape, dtype, memory, place if size else 0)
        for (shape, dtype), size, place in zip(kinds, sizes, places, strict=False)
    ]


def use_on(array: Any, stream: int) -> None:
    """Make a stream wait for pending work on an array; later its memory is freed on it."""
    other = stream_of(array)
    if other is not None and other != stream:
        library().wait(stream, other, device_of(array))
    memory = getattr(array, "_memory", None)
    if isinstance(memory, Memory) and memory.stream is not None:
        memory.stream = stream


# ---- description of arrays of any library ----


def is_tensor(array: Any) -> bool:
    """True if an array is a tensor of PyTorch, which need not be imported.

    Tensors tell by themselves, and sooner, what the interface would.
    """
    return isinstance(array, getattr(sys.modules.get("torch"), "Tensor", ()))


def describe(array: Any) -> tuple[Shape, str]:
    """Shape and name of the dtype."""
    if type(array) is DeviceArray:
        return array.shape, array._dtype
    dtype = getattr(array, "dtype", None)
    if dtype is not None:
        return tuple(array.shape), dtype_name(dtype)
    interface = array.__cuda_array_interface__
    typestr = interface["typestr"]
    return tuple(interface["shape"]), (
        "bfloat16" if typestr[1:] == _BFLOAT16[1:] else dtype_name(np.dtype(typestr))
    )


def strides(array: Any) -> tuple[int, ...] | None:
    """Bytes from one item to the next, by dimension; None if there are no gaps."""
    if type(array) is DeviceArray or (is_tensor(array) and array.is_contiguous()):
        return None
    interface = array.__cuda_array_interface__
    given, shape = interface.get("strides"), interface["shape"]
    if given is None or 0 in shape:
        return None
    step, tight = item_size(describe(array)[1]), True
    for length, stride in zip(reversed(shape), reversed(given), strict=True):
        tight = tight and (length == 1 or stride == step)
        step *= length
    return None if tight else tuple(given)


def address(array: Any) -> int:
    """Address of the first item of an array; 0 for None."""
    if array is None:
        return 0
    if type(array) is DeviceArray:
        return array._address
    if is_tensor(array):
        return int(array.data_ptr()) if array.numel() else 0
    return int(array.__cuda_array_interface__["data"][0] or 0)


def stream_of(array: Any) -> int | None:
    """The stream after whose work an array is ready; None if there is nothing to wait for."""
    if isinstance(array, Memory):
        return array.stream
    if type(array) is DeviceArray and isinstance(array._memory, Memory):
        return array._memory.stream
    if is_tensor(array):
        return None
    stream = array.__cuda_array_interface__.get("stream")
    if stream is None or isinstance(stream, OwnedStream):
        return stream
    return 0 if stream == 1 else int(stream)  # in the interface the default stream is 1


def owned_stream_of(array: Any) -> int | None:
    """Stream of an array for later use, with the array of another library that keeps it alive."""
    stream = stream_of(array)
    if not stream or isinstance(array, DeviceArray):
        return stream
    return OwnedStream(stream, array)


def _interface_stream(stream: int | None) -> int | None:
    return 1 if stream == 0 else stream


def device_of(array: Any) -> int:
    """Number of the device an array lies on; the current one for an array without memory."""
    if type(array) is DeviceArray and isinstance(array._memory, Memory) and array._address:
        return array._memory.device
    where = address(array)
    if where == 0:
        return library().integer("current_device")
    return library().integer("device_of", where)


@contextlib.contextmanager
def on_device(device: int) -> Iterator[None]:
    """Allocate and launch on this device."""
    cuda = library()
    before = cuda.integer("current_device")
    if before == device:
        yield
        return
    cuda.use_device(device)
    try:
        yield
    finally:
        cuda.use_device(before)


def item_size(dtype: str) -> int:
    """Bytes of an item."""
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize

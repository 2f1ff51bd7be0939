# SPDX-License-Identifier: MIT
"""Arrays on NVIDIA GPUs: the CUDA library, by ctypes.

Any array with ``__cuda_array_interface__`` will do. Kernels are put on the current stream: that
of `using`, else PyTorch's where an array is a tensor, else that of CuPy where it is imported, else
the one that the first array names, else the default stream. Kernels wait for the streams that other
arrays name; the host does not wait for kernels.
Results are CuPy arrays where CuPy can be imported, else `DeviceArray`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from ctypes import byref, c_int64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from gnograd.backends import cuda_arrays
from gnograd.backends.cuda_arrays import (
    DeviceArray,
    OwnedStream,
    address,
    describe,
    device_of,
    hold,
    is_tensor,
    on_device,
    owned_stream_of,
    room,
    strides,
    to_device,
    use_on,
)
from gnograd.backends.cuda_library import Face, library
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.notation.shapes import Shape

__all__ = [
    "DEVICE", "SUFFIXES", "DeviceArray", "address", "assign", "contiguous", "describe",
    "device_of", "empty", "faults", "found", "is_contiguous", "last", "layouts", "lend", "prepare",
    "reference", "room", "run", "to_device", "using",
]  # fmt: skip

DEVICE = "GPU"
SUFFIXES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
"""Dtypes that the kernels take, and the suffixes of their functions."""

_INTEGERS = {"int32": "i32", "int64": "i64"}
_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int32": 4, "int64": 5}


class _Surroundings(NamedTuple):
    stream: int
    empty: Callable[[Shape, str], Any]


_surroundings: ContextVar[_Surroundings | None] = ContextVar("surroundings", default=None)


@contextlib.contextmanager
def using(stream: int, empty: Callable[[Shape, str], Any]) -> Iterator[None]:
    """Use this stream, and memory from ``empty(shape, dtype)``, inside the block."""
    token = _surroundings.set(_Surroundings(stream, empty))
    try:
        yield
    finally:
        _surroundings.reset(token)


def is_contiguous(array: Any) -> bool:
    """True if kernels can read an array, and write to it."""
    return strides(array) is None


def contiguous(array: Any, stream: int | None = None) -> Any:
    """The array itself when kernels can read it, else a copy."""
    if is_contiguous(array):
        return array
    copy = empty(*describe(array), like=array, stream=stream)
    assign(copy, array, stream=stream)
    return copy


def empty(shape: Shape, dtype: str, like: Any, stream: int | None = None) -> Any:
    """Memory for an output, on the device of another array."""
    given = _surroundings.get()
    if given is not None:
        return given.empty(shape, dtype)
    device = device_of(like)
    cupy = _cupy()
    if cupy is None or dtype == "bfloat16":
        return cuda_arrays.empty(shape, dtype, device, _current([like], stream))
    with cupy.cuda.Device(device):
        if stream is None:
            return cupy.empty(shape, dtype)
        with cupy.cuda.ExternalStream(stream, device):
            return cupy.empty(shape, dtype)


def assign(target: Any, source: Any, add: bool = False, stream: int | None = None) -> None:
    """Copy or add numbers, whatever their dtypes."""
    shape, to = describe(target)
    _, source_dtype = describe(source)
    with on_device(device_of(target)):
        stream = _current([target, source], stream)
        for array in (target, source):
            use_on(array, stream)
        integers = c_int64 * len(shape)
        library().assign(
            len(shape),
            integers(*shape),
            address(target),
            _TYPES[to],
            integers(*_item_strides(target)),
            address(source),
            _TYPES[source_dtype],
            integers(*_item_strides(source)),
            add,
            stream,
        )


def last(array: Any) -> int:
    """Last item of a contiguous vector of int64; the host waits for it."""
    (n,), _ = describe(array)
    value = c_int64()
    with on_device(device_of(array)):
        stream = _current([array], None)
        use_on(array, stream)
        where = address(array) + (n - 1) * ctypes.sizeof(value)
        library().copy(byref(value), where, ctypes.sizeof(value), stream)
        library().synchronize(stream)
    return value.value


def run(
    operator: str, face: str, dtype: str, arguments: Sequence[Any], stream: int | None = None
) -> None:
    """Launch one kernel, with the workspace that it needs."""
    cuda = library()
    kernels = _kernels(f"{operator}_{face}_{(SUFFIXES | _INTEGERS)[dtype]}", operator, dtype)
    if len(arguments) != kernels.n_sizes + kernels.n_arrays:
        raise RuntimeError(
            f"{operator}: the CUDA library takes {kernels.n_sizes + kernels.n_arrays} arguments, "
            f"not {len(arguments)}"
        )
    arrays = [a for a in arguments if hasattr(a, "__cuda_array_interface__")]
    device = _common_device(operator, arrays)
    with on_device(device):
        stream = _current(arrays, stream)
        for array in arrays:
            use_on(array, stream)
        passed = [_pass(argument, device) for argument in arguments]
        head, tail = passed[: kernels.n_sizes], passed[kernels.n_sizes :]
        size = kernels.workspace_bytes(*head)
        workspace = empty((size,), "uint8", arrays[0], stream) if size else None
        status = kernels.launch(*head, *tail, address(workspace), size, stream)
        cuda.check(status, operator)


def _kernels(function: str, operator: str, dtype: str) -> Face:
    kernels = library().faces.get(function)
    if kernels is None:
        raise NotImplementedError(
            f"{operator}: there is no CUDA kernel for {dtype}; NumPy arrays are computed on the CPU"
        )
    return kernels


# ---- calls like an earlier one ----


class Seen(NamedTuple):
    """Arrays of a call that kernels can take as they are."""

    arrays: tuple[Any, ...]
    addresses: tuple[int, ...]


def layouts(arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], Seen] | None:
    """Device, dtypes and shapes of arrays, and the arrays as `Prepared.run` takes them.

    None if kernels cannot take all of them as they are, or they are not all on one GPU.
    """
    key: list[Any] = [None]
    addresses: list[int] = []
    present = []
    for array in arrays:
        if array is None:
            key.append(None)
            addresses.append(0)
            continue
        if not hasattr(type(array), "__cuda_array_interface__"):
            return None
        if (is_tensor(array) and not array.is_cuda) or not is_contiguous(array):
            return None
        where = address(array)
        if where:
            device = device_of(array)
            if key[0] is None:
                key[0] = device
            elif key[0] != device:
                return None
        key.append(describe(array))
        addresses.append(where)
        present.append(array)
    if key[0] is None:
        return None
    return tuple(key), Seen(tuple(present), tuple(addresses))


class Prepared(NamedTuple):
    """A call of a kernel on one GPU without its graph and the addresses of its arrays."""

    operator: str
    function: str
    """Name of the face in the library."""
    device: int
    on_graph: bool
    """True if the first argument is a graph."""
    head: tuple[Any, ...]
    """Sizes, codes and numbers, in the order of the C interface."""
    absent: tuple[int, ...]
    """Null pointers for arrays behind those that the caller gives."""
    results: tuple[tuple[Shape, str] | None, ...]
    """Shapes and types of the results, None for those that are not wanted."""
    saved: tuple[int, ...]
    """Indices of the results that are saved for the vjp, in its order."""
    kept: tuple[Any, ...]
    """Arrays whose addresses are in `head`."""

    def run(self, graph: Any, seen: Seen) -> list[Any]:
        """Launch the kernel on the current stream; arguments are known to be right."""
        with on_device(self.device):
            stream = _current(seen.arrays, None)
            for array in seen.arrays:
                use_on(array, stream)
            made = functools.partial(empty, like=seen.arrays[0], stream=stream)
            return self.launch(graph, seen.addresses, stream, made, address)

    def launch(
        self,
        graph: Any,
        addresses: Sequence[int],
        stream: int,
        empty: Callable[[Shape, str], Any],
        address: Callable[[Any], int],
    ) -> list[Any]:
        """Launch the kernel on a stream of the current device.

        Parameters
        ----------
        graph : Graph or None
            Graph with the sizes that the call was prepared for.
        addresses : sequence of int
            Addresses of all arrays but the results.
        stream : int
        empty : callable
            ``empty(shape, dtype)`` makes memory on that stream, for results and workspace.
        address : callable
            Address of what `empty` has made.
        """
        reference = _mirror(graph, self.device).reference if self.on_graph else None
        results = [None if like is None else empty(*like) for like in self.results]
        into = [0 if x is None else address(x) for x in results]
        kept = []

        def workspace(size: int) -> int:
            kept.append(empty((size,), "uint8"))
            return address(kept[0])

        self.launch_into(reference, addresses, into, stream, workspace)
        return results

    def launch_into(
        self,
        graph: Any,
        addresses: Iterable[int],
        results: Iterable[int],
        stream: int,
        workspace: Callable[[int], int],
    ) -> None:
        """Launch the kernel in given memory.

        Parameters
        ----------
        graph
            From `reference`, if the kernel takes one.
        addresses, results : iterable of int
            Addresses of the arrays of the call.
        stream : int
        workspace : callable
            Address of so many bytes, on that stream.
        """
        kernels = library().faces[self.function]
        head = (graph, *self.head) if self.on_graph else self.head
        size = kernels.workspace_bytes(*head)
        there = workspace(size) if size else 0
        status = kernels.launch(*head, *addresses, *self.absent, *results, there, size, stream)
        if status:
            library().check(status, self.operator)


def prepare(
    function: tuple[str, str, str],
    arguments: Sequence[Any],
    n_absent: int,
    results: Sequence[Any],
    saved: tuple[int, ...],
    like: Any,
) -> Prepared:
    """Prepared call for the device of `like`; for arguments see `gnograd.backends.cpu.prepare`."""
    operator, face, dtype = function
    name = f"{operator}_{face}_{SUFFIXES[dtype]}"
    _kernels(name, operator, dtype)
    device = device_of(like)
    on_graph = bool(arguments) and hasattr(arguments[0], "mirrors")
    head = arguments[1:] if on_graph else arguments
    return Prepared(
        operator=operator,
        function=name,
        device=device,
        on_graph=on_graph,
        head=tuple(_pass(argument, device) for argument in head),
        absent=(0,) * n_absent,
        results=tuple(None if x is None else describe(x) for x in results),
        saved=saved,
        kept=tuple(argument for argument in head if isinstance(argument, np.ndarray)),
    )


def faults(operator: str, arguments: Sequence[Any], n: int) -> list[int]:
    """First items at fault, by the face `check` of an operator; the host waits for them."""
    return found(operator, "check", "int32", arguments, n) if n else []


def found(operator: str, face: str, dtype: str, arguments: Sequence[Any], n: int) -> list[int]:
    """Run a face whose last argument is a result of `n` integers; the host waits for them."""
    arrays = [a for a in arguments if hasattr(a, "__cuda_array_interface__")]
    device = _common_device(operator, arrays)
    with on_device(device):
        stream = _current(arrays, None)
        result = cuda_arrays.empty((n,), "int64", device, stream)
        run(operator, face, dtype, [*arguments, result], stream)
        return [int(item) for item in result.get()]


def _current(arrays: Sequence[Any], stream: int | None) -> int:
    """The stream to use for these arrays, if none is given."""
    if stream is not None:
        return stream
    given = _surroundings.get()
    if given is not None:
        return given.stream
    tensor = next(filter(is_tensor, arrays), None)
    if tensor is not None:  # tensors name no stream
        return int(sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream)
    cupy = _cupy() if "cupy" in sys.modules else None
    if cupy is not None:
        current = cupy.cuda.get_current_stream()
        return OwnedStream(current.ptr, current)
    named = map(owned_stream_of, arrays)
    return next((stream for stream in named if stream is not None), 0)


@functools.cache
def _cupy() -> Any:
    """The module CuPy, or None if it cannot be used."""
    try:
        import cupy
    except ImportError:
        return None
    return cupy if cupy.cuda.is_available() else None


def _common_device(operator: str, arrays: Sequence[Any]) -> int:
    devices = sorted({device_of(array) for array in arrays if address(array)})
    if len(devices) > 1:
        names = " and ".join(f"{DEVICE} {device}" for device in devices)
        raise TypeError(f"{operator}: arrays are on {names}")
    return devices[0] if devices else library().integer("current_device")


def _pass(argument: Any, device: int) -> Any:
    if argument is None:
        return None
    if hasattr(argument, "mirrors"):  # a graph
        return _mirror(argument, device).reference
    if hasattr(argument, "__cuda_array_interface__"):
        return address(argument)
    if isinstance(argument, np.ndarray):  # integers that the host reads
        return argument.ctypes.data
    return argument


def _item_strides(array: Any) -> list[int]:
    """Strides in items."""
    (shape, dtype), given = describe(array), strides(array)
    if given is None:
        steps = [1]
        for length in reversed(shape[1:]):
            steps.insert(0, steps[0] * length)
        return steps[: len(shape)]
    item = cuda_arrays.item_size(dtype)
    if any(step % item for step in given):
        raise ValueError(f"an array of {dtype} with strides {given}, which are no whole items")
    return [step // item for step in given]


# ---- graphs ----


class _Csc(ctypes.Structure):
    _fields_ = tuple((name, c_void_p) for name in ("offsets", "indices", "edge", "position"))


class _Graph(ctypes.Structure):
    """The struct `gnograd_cuda_graph` of the C interface."""

    _fields_ = (
        ("n_src", c_int64),
        ("n_dst", c_int64),
        ("n_edges", c_int64),
        ("by_dst", _Csc),
        ("by_src", _Csc),
    )


class _Mirror(NamedTuple):
    """A graph on a device."""

    structure: _Graph
    arrays: GraphArrays
    """Arrays that `structure` points to"""
    reference: Any
    """Pointer to `structure`, as ctypes passes it."""


def _mirror(graph: Any, device: int) -> _Mirror:
    """The copy of a graph on a device, made when it is first needed there.

    The copy uses no stream, so that it does not break the capture of a CUDA graph.
    """
    mirror: _Mirror | None = graph.mirrors.get(device)
    if mirror is None:
        if graph.is_remote:
            raise TypeError(f"graph: it is on another GPU than arrays, which are on {device}")
        copies = GraphArrays(*(None if x is None else hold(x, device) for x in graph.arrays))
        mirror = graph.mirrors[device] = _mirrored(copies)
    return mirror


def lend(graph: Any, arrays: GraphArrays | None = None) -> None:
    """Let kernels read a graph in its own arrays on a GPU, without a copy."""
    arrays = graph.arrays if arrays is None else arrays
    graph.mirrors[device_of(arrays.offsets)] = _mirrored(arrays)


def reference(arrays: GraphArrays) -> Any:
    """A graph in its own arrays on a GPU, as `Prepared.launch_into` takes it."""
    return _mirrored(arrays).reference


def _mirrored(arrays: GraphArrays) -> _Mirror:
    offsets, indices, ids, *by_src, positions = map(address, arrays)
    by_dst = _Csc(offsets, indices, ids, None)
    structure = _Graph(*arrays.sizes, by_dst, _Csc(*by_src, positions))
    return _Mirror(structure, arrays, byref(structure))

# SPDX-License-Identifier: MIT
"""NumPy arrays: the Fortran library through its C interface."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd import _core

DEVICE = "CPU"
SUFFIXES = {"float32": "r32", "float64": "r64"}
"""Dtypes that the kernels take, and the suffixes of their functions."""

_EXCEPTIONS: dict[int, type[Exception]] = {
    1: ValueError,
    2: IndexError,
    3: MemoryError,
    4: NotImplementedError,
    5: TypeError,
}


class Prepared(NamedTuple):
    """A call of a kernel without its graph and the addresses of its arrays."""

    function: str
    """Name of the kernel in `gnograd._core`."""
    on_graph: bool
    """True if the first argument is a graph."""
    head: tuple[Any, ...]
    """Sizes, codes and numbers, in the order of the C interface."""
    absent: tuple[int, ...]
    """Null pointers for arrays behind those that the caller gives."""
    results: tuple[tuple[tuple[int, ...], np.dtype[Any]] | None, ...]
    """Shapes and types of the results, None for those that are not wanted."""
    saved: tuple[int, ...]
    """Indices of the results that are saved for the vjp, in its order."""
    kept: tuple[Any, ...]
    """Arrays whose addresses are in `head`."""

    def run(self, graph: Any, addresses: tuple[int, ...]) -> list[NDArray[Any] | None]:
        """Call the kernel, in new memory for the results; arguments are known to be right.

        Parameters
        ----------
        graph : Graph or None
            Graph with the sizes that the call was prepared for.
        addresses : tuple of int
            Addresses of all arrays but the results.
        """
        results = [None if like is None else np.empty(*like) for like in self.results]
        handle = graph.handle if self.on_graph else 0
        self.run_into(handle, addresses, map(_core.address, results))
        return results

    def run_into(self, handle: int, addresses: Iterable[int], results: Iterable[int]) -> None:
        """Call the kernel in given memory, with the handle of the graph if it takes one."""
        head = (handle, *self.head) if self.on_graph else self.head
        # by name: tests replace functions of `_core`
        status = getattr(_core, self.function)(*head, *addresses, *self.absent, *results)
        if status:
            check_status(status)


def address(array: Any) -> int:
    """Address of the first item of a NumPy array; 0 for None."""
    return _core.address(array)


layouts = _core.layouts
"""Function of a tuple of arrays: their dtypes and shapes as bytes, and their addresses; None if
kernels cannot take all of them as they are."""


def check_status(status: int, more: Mapping[int, type[Exception]] = MappingProxyType({})) -> None:
    """Raise the error behind a status code of the C interface, or behind one of `more`."""
    if status == 0:
        return
    text = np.zeros(1024, np.uint8)
    _core.gnograd_last_error(text.size, address(text))
    message = text.tobytes().split(b"\0")[0].decode(errors="replace")
    raise {**_EXCEPTIONS, **more}.get(status, RuntimeError)(message)


@functools.lru_cache(maxsize=256)
def dtype_name(dtype: object) -> str:
    """Name of a dtype of NumPy or PyTorch, such as ``"float32"``; byte-swapped ones differ."""
    return str(dtype).removeprefix("torch.")


def describe(array: NDArray[Any]) -> tuple[tuple[int, ...], str]:
    """Shape and name of the dtype."""
    return array.shape, dtype_name(array.dtype)


def refuse_mask(operator: str, label: str, array: Any) -> None:
    """Raise an error for a masked array, whose mask kernels would not see."""
    if type(array) is not np.ndarray and hasattr(array, "mask"):
        raise TypeError(
            f"{operator}: {label} is a masked array, whose mask would be ignored; "
            "give array.filled(...)"
        )


def native(array: NDArray[Any]) -> NDArray[Any]:
    """The array in this machine's order of bytes: itself, or a copy."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_contiguous(array: NDArray[Any]) -> bool:
    """True if kernels can read an array, and write to it."""
    return array.flags.c_contiguous and array.flags.aligned


def contiguous(array: NDArray[Any], stream: int | None = None) -> NDArray[Any]:
    """The array itself when kernels can read it, else a copy."""
    return array if is_contiguous(array) else np.array(array, order="C", copy=True)


def empty(
    shape: tuple[int, ...], dtype: str, like: NDArray[Any], stream: int | None = None
) -> NDArray[Any]:
    """Memory for an output."""
    return np.empty(shape, dtype)


def assign(
    target: NDArray[Any], source: NDArray[Any], add: bool = False, stream: int | None = None
) -> None:
    """Copy or add numbers, whatever their dtypes; `stream` is ignored."""
    if add:
        np.add(target, source, out=target, casting="unsafe")
    else:
        target[...] = source


def faults(operator: str, arguments: Sequence[Any], n: int) -> list[int]:
    """Empty list: the kernels report faults themselves."""
    return []


def run(
    operator: str, face: str, dtype: str, arguments: Sequence[Any], stream: int | None = None
) -> None:
    """Call one kernel: graphs go as handles, arrays as addresses, None as a null pointer."""
    function = getattr(_core, f"gnograd_{operator}_{face}_{SUFFIXES[dtype]}")
    check_status(function(*map(_pass, arguments)))


def prepare(
    function: tuple[str, str, str],
    arguments: Sequence[Any],
    n_absent: int,
    results: Sequence[NDArray[Any] | None],
    saved: tuple[int, ...],
    like: NDArray[Any],
) -> Prepared:
    """Prepared call, from one whose arguments were checked.

    Parameters
    ----------
    function : (operator, face, dtype)
    arguments : sequence
        Arguments before the arrays.
    n_absent : int
        Number of null pointers between the arrays that callers give and the results.
    results : sequence of array
    saved : tuple of int
    like : array
        An array of the call; all are in the same memory.
    """
    operator, face, dtype = function
    on_graph = bool(arguments) and hasattr(arguments[0], "handle")
    head = arguments[1:] if on_graph else arguments
    return Prepared(
        function=f"gnograd_{operator}_{face}_{SUFFIXES[dtype]}",
        on_graph=on_graph,
        head=tuple(map(_pass, head)),
        absent=(0,) * n_absent,
        results=tuple(None if x is None else (x.shape, x.dtype) for x in results),
        saved=saved,
        kept=tuple(argument for argument in head if isinstance(argument, np.ndarray)),
    )


def _pass(argument: Any) -> Any:
    if argument is None or isinstance(argument, np.ndarray):
        return address(argument)
    return getattr(argument, "handle", argument)

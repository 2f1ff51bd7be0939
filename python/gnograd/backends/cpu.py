# SPDX-License-Identifier: MIT
"""NumPy arrays: the Fortran library through its C interface."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd import _core

DEVICE = "CPU"
SUFFIXES = {"float32": "r32", "float64": "r64"}
"""Kinds of numbers the kernels take, and how their function names end."""

_EXCEPTIONS: dict[int, type[Exception]] = {
    1: ValueError,
    2: IndexError,
    3: MemoryError,
    4: NotImplementedError,
    5: TypeError,
}


def address(array: Any) -> int:
    """Where a NumPy array begins; 0 for None."""
    return 0 if array is None else int(array.__array_interface__["data"][0])


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
    """``"float32"``, PyTorch's too; byte-swapped numbers have another name."""
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


def is_contiguous(array: NDArray[Any]) -> bool:
    """Whether kernels can read an array, and write to it."""
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
    """Copy or add numbers, whatever their dtypes; there is but one stream."""
    if add:
        np.add(target, source, out=target, casting="unsafe")
    else:
        target[...] = source


def faults(operator: str, arguments: Sequence[Any], n: int) -> list[int]:
    """Nothing: the kernels refuse what is at fault."""
    return []


def run(
    operator: str, face: str, dtype: str, arguments: Sequence[Any], stream: int | None = None
) -> None:
    """Call one kernel: graphs go as handles, arrays as addresses, None as a null pointer."""
    function = getattr(_core, f"gnograd_{operator}_{face}_{SUFFIXES[dtype]}")
    check_status(function(*map(_pass, arguments)))


def _pass(argument: Any) -> Any:
    if argument is None or isinstance(argument, np.ndarray):
        return address(argument)
    return getattr(argument, "handle", argument)

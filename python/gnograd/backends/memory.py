# SPDX-License-Identifier: MIT
"""Memory ranges of arrays on any device, and checks of memory for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["check_results", "extent", "is_read_only"]


def check_results(
    operator: str, results: Sequence[tuple[str, Any]], others: Sequence[tuple[str, Any]]
) -> None:
    """Raise ValueError if memory for results is read-only or shared with an array of the call.

    Kernels rely on their inputs to stay unchanged.

    Parameters
    ----------
    operator : str
        Name for messages.
    results : sequence of (str, array)
        Arrays that are written, by name.
    others : sequence of (str, array)
        Arrays that are read, by name.

    Raises
    ------
    ValueError
    """
    for label, array in results:
        if is_read_only(array):
            raise ValueError(f"{operator}: {label} is read-only")
    read = [(label, *extent(array)) for label, array in others]
    for label, array in results:
        begin, end = extent(array)
        for other, other_begin, other_end in read:
            if begin < other_end and other_begin < end:
                raise ValueError(f"{operator}: {label} shares memory with {other}")
        read.append((label, begin, end))


def is_read_only(array: Any) -> bool:
    """True if the owner of an array forbids writing."""
    return bool(_interface(array)["data"][1])


def extent(array: Any) -> tuple[int, int]:
    """First byte that an array may touch, and the one behind its last."""
    interface = _interface(array)
    begin, shape = interface["data"][0] or 0, interface["shape"]
    if 0 in shape:
        return begin, begin
    item, strides = np.dtype(interface["typestr"]).itemsize, interface.get("strides")
    if strides is None:
        return begin, begin + item * int(np.prod(shape))
    spans = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return begin + sum(min(s, 0) for s in spans), begin + sum(max(s, 0) for s in spans) + item


def _interface(array: Any) -> dict[str, Any]:
    """Array interface of NumPy, or that of arrays on a GPU."""
    on_host = isinstance(array, np.ndarray)
    return dict(array.__array_interface__ if on_host else array.__cuda_array_interface__)

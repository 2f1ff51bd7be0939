# SPDX-License-Identifier: MIT
"""Where the items of arrays lie, on any device, and whether results may be written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["check_results", "extent", "is_read_only"]


def check_results(
    operator: str, results: Sequence[tuple[str, Any]], others: Sequence[tuple[str, Any]]
) -> None:
    """Refuse memory for results that is read-only, or that another array of the call has, too.

    Kernels rely on it that what they read stays as it is.

    Parameters
    ----------
    operator : str
        For messages.
    results : sequence of (str, array)
        What is written to, by name.
    others : sequence of (str, array)
        What is read, by name.

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
    """Whether its owner forbids writing."""
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
    """The array protocol of NumPy, or the same for a GPU."""
    on_host = isinstance(array, np.ndarray)
    return dict(array.__array_interface__ if on_host else array.__cuda_array_interface__)

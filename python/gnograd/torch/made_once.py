# SPDX-License-Identifier: MIT
"""Cache of what is made of tensors, as long as these live and are unchanged."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["MadeOnce"]


class MadeOnce:
    """Things made of tensors of integers.

    They are kept as long as the tensor is, with a copy of its numbers, which are compared every
    time: memory may be written by others than PyTorch, whose count of changes tells nothing of
    that. On a GPU the host waits for the comparison. What is made of a meta tensor, which has no
    numbers, is not kept.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], _Kept] = {}

    def of(self, tensors: tuple[Tensor, ...], how: Hashable, make: Callable[..., Any]) -> Any:
        """Thing that `make` makes of copies of tensors; the earlier one if there is any.

        Parameters
        ----------
        tensors : tuple of Tensor
        how : hashable
            Other arguments of `make`.
        make : callable
        """
        if tensors[0].is_meta:
            return make(*tensors)
        key, forget = tuple(map(id, tensors)), self._kept.pop
        kept = self._kept.get(key)
        if kept is None or not kept.holds_for(tensors):
            references = tuple(weakref.ref(x, lambda _: forget(key, None)) for x in tensors)
            kept = _Kept(references, tuple(x.detach().clone() for x in tensors), {})
            self._kept[key] = kept
        if how not in kept.things:
            kept.things[how] = make(*kept.numbers)
        return kept.things[how]


class _Kept(NamedTuple):
    """Things made of the same tensors."""

    tensors: tuple[weakref.ref[Tensor], ...]
    numbers: tuple[Tensor, ...]
    """Copies of their numbers."""
    things: dict[Hashable, Any]

    def holds_for(self, tensors: tuple[Tensor, ...]) -> bool:
        """True if this was made of the given tensors, and their numbers have not changed."""
        return all(
            reference() is tensor
            and numbers.dtype is tensor.dtype
            and numbers.device == tensor.device
            and numbers.shape == tensor.shape
            and _equal(numbers, tensor)
            for reference, numbers, tensor in zip(self.tensors, self.numbers, tensors, strict=True)
        )


_compare_memory = ctypes.CDLL(None).memcmp
_compare_memory.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t


def _equal(a: Tensor, b: Tensor) -> bool:
    """True if two tensors of one shape and an integer type are equal."""
    if type(a) is type(b) is Tensor and a.is_cpu and a.is_contiguous() and b.is_contiguous():
        return not _compare_memory(a.data_ptr(), b.data_ptr(), a.nbytes)
    return torch.equal(a, b)

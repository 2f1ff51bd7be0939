# SPDX-License-Identifier: MIT
"""Common operations on NumPy arrays and PyTorch tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import gnograd
from gnograd.compat.arrays import array_of
from gnograd.faces.operator import Array

__all__ = ["Library", "is_tensor", "library_of"]

Arrays = Sequence[Array | None]


class Library(Protocol):
    """Operations on the arrays of a library."""

    @property
    def xp(self) -> Any:
        """Its module, of which only functions are used that NumPy and PyTorch share."""

    def array(self, value: Any) -> Array:
        """Convert a value to an array of the library."""

    def dtype(self, array: Array) -> str:
        """Name of the dtype."""

    def place(self, host: NDArray[Any], like: Array) -> Array:
        """Copy a NumPy array to the device of an array of the library."""

    def host(self, array: Array) -> NDArray[Any]:
        """Copy an array to NumPy."""

    def cast(self, array: Array, dtype: str) -> Array:
        """Convert an array to another dtype."""

    def descending(self, scores: Array) -> Array:
        """Stable order of the last axis, from the largest entry to the smallest."""

    def cat(self, arrays: Sequence[Array], axis: int) -> Array:
        """Join arrays along an axis."""

    def apply(self, operator: str, inputs: Arrays, **static: Any) -> Any:
        """Apply an operator of gnograd; 16-bit numbers are computed in float32 on the CPU."""

    def gradients(self, operator: str, cotangent: Array, inputs: Arrays, **static: Any) -> Any:
        """Gradients of the inputs of an operator."""


def is_tensor(value: Any) -> bool:
    """True if this is a tensor of PyTorch, which need not be imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def library_of(array: Any) -> Library:
    """The library of an array."""
    if is_tensor(array):
        from gnograd.compat.ascend.tensors import Tensors

        return Tensors()
    return _NumPy()


class _NumPy:
    xp = np

    def array(self, value: Any) -> Array:
        array = array_of(value)
        if not isinstance(array, np.ndarray):
            raise TypeError
        return array

    def dtype(self, array: Array) -> str:
        return str(array.dtype)

    def place(self, host: NDArray[Any], like: Array) -> Array:
        return host

    def host(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)

    def cast(self, array: Array, dtype: str) -> Array:
        return array.astype(dtype, copy=False)

    def descending(self, scores: Array) -> Array:
        return np.argsort(-scores, axis=-1, kind="stable")

    def cat(self, arrays: Sequence[Array], axis: int) -> Array:
        return np.concatenate(arrays, axis)

    def apply(self, operator: str, inputs: Arrays, **static: Any) -> Any:
        dtype, wide = self._wide(inputs)
        return self._narrow(getattr(gnograd, operator)(*wide, **static), dtype)

    def gradients(self, operator: str, cotangent: Array, inputs: Arrays, **static: Any) -> Any:
        dtype, (cotangent, *wide) = self._wide([cotangent, *inputs])
        found = getattr(gnograd, operator).vjp(cotangent, tuple(wide), **static)
        return self._narrow(tuple(found), dtype)

    def _wide(self, arrays: Arrays) -> tuple[Any, list[Array | None]]:
        """The dtype of the first array, and all arrays in a dtype that the CPU computes in."""
        dtype = next(x.dtype for x in arrays if x is not None)
        wide = dtype if str(dtype) in ("float32", "float64") else np.dtype(np.float32)
        return dtype, [None if x is None else np.ascontiguousarray(x, wide) for x in arrays]

    def _narrow(self, found: Any, dtype: Any) -> Any:
        if isinstance(found, tuple):
            return tuple(self._narrow(x, dtype) for x in found)
        return found.astype(dtype, copy=False)

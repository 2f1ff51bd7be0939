# SPDX-License-Identifier: MIT
"""Checks of the arguments of the functions of torch_npu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gnograd.backends import cpu
from gnograd.compat.ascend.errors import InvalidParameterError, NullPointerError
from gnograd.compat.ascend.library import Library, library_of
from gnograd.faces.operator import Array
from gnograd.notation import shapes
from gnograd.notation.static import AT_LEAST_1, exact_integers, integer

__all__ = ["Arguments"]

FLOATS = ("float16", "bfloat16", "float32", "float64")


class Arguments:
    """Arrays of one library, and numbers; messages name the function and the argument.

    Parameters
    ----------
    name : str
        Name of the function.
    first : array
        Array that determines the library and the dtype.

    Attributes
    ----------
    sizes : dict
        Known lengths of dimensions.
    """

    def __init__(self, name: str, first: Any) -> None:
        self.name = name
        self.library: Library = library_of(first)
        self.sizes: dict[str, int] = {}
        self._dtype = ""

    def array(self, label: str, value: Any, spec: str) -> Array:
        """Check a floating-point array of a shape; all have one dtype."""
        array = self._array(label, value)
        dtype = self.library.dtype(array)
        if not self._dtype:
            if dtype not in FLOATS:
                self.refuse(f"{label} is {dtype}, needs a floating-point type")
            self._dtype = dtype
        if dtype != self._dtype:
            self.refuse(f"{label} is {dtype}, needs {self._dtype}")
        self._match(label, tuple(array.shape), spec)
        return array

    def integers(self, label: str, value: Any, spec: str) -> NDArray[np.int64]:
        """Check an array of integers, and copy it to the host."""
        array = self.library.host(self._array(label, value))
        if array.dtype.kind not in "iu":
            self.refuse(f"{label} is {array.dtype}, needs int32")
        self._match(label, array.shape, spec)
        return self._exact(label, array, np.int32)

    def mask(self, label: str, value: Any, n_rows: int, n_columns: int) -> NDArray[np.bool_] | None:
        """Check a mask of at least this size, or None, and copy it to the host."""
        if value is None:
            return None
        array = self.library.host(self._array(label, value))
        if array.ndim != 2 or array.shape[0] < n_rows or array.shape[1] < n_columns:
            self.refuse(f"{label} has shape {array.shape}, needs ({n_rows}, {n_columns}) or more")
        return array.astype(bool)

    def number(self, label: str, value: Any, multiple_of: int = 1) -> int:
        """Check a positive integer."""
        try:
            found = integer(f"{self.name}: {label}", value, AT_LEAST_1)
        except ValueError as error:
            raise InvalidParameterError(str(error)) from None
        if found % multiple_of:
            self.refuse(f"{label} is {found}, needs a multiple of {multiple_of}")
        return found

    def lengths(self, label: str, values: Sequence[int] | None) -> NDArray[np.int64]:
        """Check a sequence of integers that are not negative."""
        if values is None:
            raise NullPointerError(f"{self.name}: {label} is None")
        cpu.refuse_mask(self.name, label, values)
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            self.refuse(f"{label} needs a sequence of integers")
        array = self._exact(label, array, np.int64)
        if array.size and array.min() < 0:
            self.refuse(f"{label} is negative")
        return array

    def _exact(self, label: str, array: NDArray[Any], dtype: DTypeLike) -> NDArray[np.int64]:
        """Values in int64, if all of them fit into `dtype`."""
        try:
            exact_integers(f"{self.name}: {label}", array, dtype)
        except IndexError as error:
            raise InvalidParameterError(str(error)) from None
        return array.astype(np.int64)

    def borders(
        self, label: str, values: Sequence[int] | None, n: int | None = None
    ) -> NDArray[np.int64]:
        """Cumulative lengths up to n, with a leading 0."""
        ends = self.lengths(label, values)
        if not ends.size:
            self.refuse(f"{label} must have at least one sequence")
        borders = np.concatenate([[0], ends])
        if (np.diff(borders) < 0).any() or (n is not None and borders[-1] != n):
            self.refuse(f"{label} must rise" + ("" if n is None else f" to {n}"))
        return borders

    def refuse(self, message: str) -> None:
        """Raise the error of an argument outside its limits."""
        raise InvalidParameterError(f"{self.name}: {message}")

    def _array(self, label: str, value: Any) -> Array:
        if value is None:
            raise NullPointerError(f"{self.name}: {label} is None")
        cpu.refuse_mask(self.name, label, value)
        try:
            return self.library.array(value)
        except TypeError:
            kind = self.library.xp.__name__
            raise TypeError(
                f"{self.name}: {label} is of type {type(value).__name__}, needs an array of {kind}"
            ) from None

    def _match(self, label: str, shape: tuple[int, ...], spec: str) -> None:
        try:
            shapes.match(f"{self.name}: {label}", shape, spec, self.sizes)
        except ValueError as error:
            raise InvalidParameterError(str(error)) from None

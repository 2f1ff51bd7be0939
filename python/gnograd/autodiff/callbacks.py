# SPDX-License-Identifier: MIT
"""Python functions that the tape calls: the linear maps of `linear_map`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import refuse_mask

Apply: TypeAlias = Callable[[NDArray[Any], bool], NDArray[Any]]

_REALS: dict[int, np.dtype[Any]] = {32: np.dtype(np.float32), 64: np.dtype(np.float64)}
# signature of gnograd_linear_map in gnograd.h
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
)  # fmt: skip


class LinearMaps:
    """Linear maps of the nodes of a tape, and the C function with which Fortran applies them."""

    __slots__ = ("_calls", "_function")

    def __init__(self) -> None:
        self._calls = _Calls()
        self._function: Any = None

    def address(self) -> int:
        """Address of the C function; its context is the number that `add` returns."""
        if self._function is None:
            self._function = CALLBACK(self._calls)
        # ctypes.cast would make a cycle of references
        return ctypes.c_size_t.from_address(ctypes.addressof(self._function)).value

    def add(self, node: int, apply: Apply) -> int:
        """Keep the map of the node that is added to the tape next."""
        self._calls.maps.append((node, apply))
        return len(self._calls.maps)

    def discard(self) -> None:
        """Drop the map added last, whose node has failed."""
        self._calls.maps.pop()

    def rewind(self, mark: int) -> None:
        """Drop the maps of nodes behind a mark, the last first, as the tape frees nodes."""
        maps = self._calls.maps
        while maps and maps[-1][0] > mark:
            maps.pop()

    def refuse_use(self) -> None:
        """Raise an error if a map runs, since the tape waits for its result."""
        if self._calls.running:
            raise RuntimeError("linear_map: apply must not use the tape that has called it")

    def raise_again(self) -> None:
        """Raise the exception that the last map has raised, if any."""
        raised, self._calls.raised = self._calls.raised, None
        if raised is not None:
            raise raised


class _Calls:
    """Target of calls from Fortran. It has no reference to the C function, to avoid a cycle."""

    __slots__ = ("maps", "raised", "running")

    def __init__(self) -> None:
        self.maps: list[tuple[int, Apply]] = []
        self.raised: BaseException | None = None
        self.running = 0

    def __call__(
        self, context: int, transposed: int, kind: int, width: int,
        n_in: int, rows_in: int | None, n_out: int, rows_out: int | None,
    ) -> int:  # fmt: skip
        self.running += 1
        try:
            dtype = _REALS[kind]
            # a copy, since `apply` may keep it
            rows = _array(rows_in, (n_in, width), dtype).copy()
            result = self.maps[context - 1][1](rows, bool(transposed))
            refuse_mask("linear_map", "what apply returned", result)
            result = np.asarray(result)
            if result.shape != (n_out, width):
                raise ValueError(
                    f"linear_map: apply returned shape {result.shape}, needs {(n_out, width)}"
                )
            if not np.can_cast(result.dtype, dtype, "same_kind"):
                raise TypeError(f"linear_map: apply returned {result.dtype}, needs {dtype}")
            _array(rows_out, (n_out, width), dtype)[...] = result
        # an exception cannot pass through Fortran: it is raised after Fortran has returned
        except BaseException as error:
            self.raised = error
            return 1
        finally:
            self.running -= 1
        return 0


def _array(address: int | None, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Array at an address from Fortran; empty if that is null."""
    if address is None:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (shape[0] * shape[1] * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype).reshape(shape)

# SPDX-License-Identifier: MIT
"""Operations on rows of NumPy and CuPy arrays and of tensors, and copies to the host."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnograd.distributed.communicator import Communicator
from gnograd.distributed.plan import Ids, Plan, Ticket

__all__ = [
    "Rows", "add_rows", "check_kind", "concatenate", "empty", "row_back", "row_first", "take_rows",
    "with_zeros",
]  # fmt: skip


def row_first(array: Any, axis: int) -> Any:
    """View with the axis of rows, counted from the end, as the first one."""
    n = array.ndim + axis
    axes = [n, *range(n), *range(n + 1, array.ndim)]
    return array.permute(axes) if _is_tensor(array) else array.transpose(axes)


def row_back(array: Any, axis: int) -> Any:
    """Undo `row_first`."""
    n = array.ndim + axis
    axes = [*range(1, n + 1), 0, *range(n + 1, array.ndim)]
    return array.permute(axes) if _is_tensor(array) else array.transpose(axes)


def empty(shape: Sequence[int], like: Any) -> Any:
    """Memory in the dtype and on the device of an array."""
    if isinstance(like, np.ndarray):
        return np.empty(tuple(shape), like.dtype)
    if _is_tensor(like):
        return like.new_empty(tuple(shape))
    return _cupy(like).empty(tuple(shape), like.dtype)


def take_rows(array: Any, rows: Ids) -> Any:
    """Copy of some rows."""
    if isinstance(array, np.ndarray):
        return array.take(rows, axis=0)
    return array[_index(rows, array)]


def add_rows(array: Any, rows: Ids, values: Any) -> None:
    """Add to some rows, all different."""
    array[_index(rows, array)] += values


def concatenate(first: Any, second: Any, axis: int) -> Any:
    """Rows of one array, followed by those of another."""
    shape = list(first.shape)
    n = shape[axis]
    shape[axis] += second.shape[axis]
    both = empty(shape, first)
    row_first(both, axis)[:n] = row_first(first, axis)
    row_first(both, axis)[n:] = row_first(second, axis)
    return both


def with_zeros(array: Any, n: int, axis: int) -> Any:
    """Rows of an array, followed by n rows of zeros."""
    shape = list(array.shape)
    shape[axis] = n
    zeros = empty(shape, array)
    zeros[:] = 0
    return concatenate(array, zeros, axis)


def check_kind(array: Any) -> None:
    """Raise an error for arrays whose rows cannot be accessed."""
    if not isinstance(array, np.ndarray) and not _is_tensor(array):
        _cupy(array)


class Rows:
    """Exchange of rows of several arrays in progress, in one message a neighbour.

    After an error inside ``with rows:``, their memory stays until they have arrived.

    Parameters
    ----------
    comm : Communicator
    plan : Plan
    rows : sequence of array, (n_send, ...) or, back, (n_halo, ...)
    back : bool, optional
        Send rows of the halo to their owners.
    """

    def __init__(
        self, comm: Communicator, plan: Plan, rows: Sequence[Any], back: bool = False
    ) -> None:
        self._likes = rows
        self._ticket: Ticket | None = None
        if not rows:
            return
        columns = [math.prod(array.shape[1:]) for array in rows]
        self._ends = [0, *np.cumsum(columns).tolist()]
        n = rows[0].shape[0]
        if len(rows) == 1:
            packed = _contiguous(rows[0]).reshape(n, columns[0])
        else:
            packed = empty((n, self._ends[-1]), rows[0])
            for array, a, b in zip(rows, self._ends, self._ends[1:], strict=False):
                packed[:, a:b] = array.reshape(n, b - a)
        self._through_host = not isinstance(packed, np.ndarray) and not (
            _is_tensor(packed) and (comm.takes_gpu or not packed.is_cuda)
        )
        if self._through_host:
            packed = _to_host(packed)
        like = packed
        self._ticket = plan.start(comm, packed, back, lambda k: empty((k, self._ends[-1]), like))

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Exception):
            self.wait()

    def wait(self) -> list[Any]:
        """Wait for the rows and return them, array by array."""
        if self._ticket is None:
            return []
        received = self._ticket.wait()
        self._ticket = None
        if self._through_host:
            received = _from_host(received, self._likes[0])
        n = received.shape[0]
        parts = zip(self._likes, self._ends, self._ends[1:], strict=False)
        return [received[:, a:b].reshape(n, *like.shape[1:]) for like, a, b in parts]


def _contiguous(array: Any) -> Any:
    if _is_tensor(array):
        return array.contiguous()
    return np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array.copy()


def _index(rows: Ids, like: Any) -> Any:
    """Row numbers on the device of an array."""
    if _is_tensor(like):
        import torch

        return torch.as_tensor(rows, device=like.device)
    return rows if isinstance(like, np.ndarray) else _cupy(like).asarray(rows)


def _to_host(array: Any) -> Any:
    """Copy to the CPU, after the computation has finished."""
    return array.cpu() if _is_tensor(array) else _cupy(array).asnumpy(array)


def _from_host(array: Any, like: Any) -> Any:
    return array.to(like.device) if _is_tensor(like) else _cupy(like).asarray(array)


def _is_tensor(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "torch"


def _cupy(array: Any) -> Any:
    """Check that an array is CuPy's, and return that module."""
    if type(array).__module__.partition(".")[0] != "cupy":
        raise TypeError(
            f"DistributedGraph: arrays on a GPU are those of CuPy or tensors, not "
            f"{type(array).__name__}"
        )
    return importlib.import_module("cupy")

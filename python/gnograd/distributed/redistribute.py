# SPDX-License-Identifier: MIT
"""Exchange of rows of arrays according to new owners."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.distributed.engines import communicator

__all__ = ["redistribute"]


def redistribute(comm: Any, owner: ArrayLike, *arrays: ArrayLike) -> tuple[NDArray[Any], ...]:
    """Send rows of arrays to the processes that own them.

    With `partition` this distributes a mesh, of which every process has read some rows; no process
    ever has all of it.

    Parameters
    ----------
    comm : Communicator, or what `communicator` takes
    owner : array of int, (n,)
        Rank of the process that is to have each of this process's rows.
    *arrays : array, (n, ...)
        Arrays whose rows have the same types and shapes on all processes.

    Returns
    -------
    tuple of array
        The rows that this process owns, one for each of `arrays`: those that were on rank 0, then
        those of rank 1, in their order there. All of them come in one message a process.

    Raises
    ------
    ValueError, TypeError, IndexError
        Arrays of another length, a rank without a process, objects. On all processes.
    RuntimeError
        Rows differ in type or shape from process to process.

    See Also
    --------
    partition : owners of nodes.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> x, number = np.array([[0.5], [1.5]]), np.array([3, 4])
    >>> comm = gg.distributed.communicator()
    >>> owner = gg.distributed.partition(x, comm.size, comm=comm)
    >>> gg.distributed.redistribute(comm, owner, x, number)
    (array([[0.5],
           [1.5]]), array([3, 4]))
    """
    comm = communicator(comm)
    with comm.together("redistribute"):
        ranks = _checked_owner(owner, comm.size)
        rows = [_checked_rows(k, array, len(ranks)) for k, array in enumerate(arrays)]
    comm.agree("redistribute: " + ", ".join(f"{row.dtype} {row.shape[1:]}" for row in rows))
    order = np.argsort(ranks, kind="stable")
    ends = np.searchsorted(ranks[order], np.arange(1, comm.size))
    packed = [_as_bytes(array)[order] for array in rows]
    table = np.concatenate([np.empty((len(ranks), 0), np.uint8), *packed], axis=1)
    received = comm.swap([part.reshape(-1) for part in np.split(table, ends)])
    size = max(table.shape[1], 1)
    table = np.concatenate(received).reshape(-1, size)
    columns = np.cumsum([0, *(part.shape[1] for part in packed)])
    return tuple(
        np.ascontiguousarray(table[:, a:b])
        .reshape(-1)
        .view(array.dtype)
        .reshape(-1, *array.shape[1:])
        for array, a, b in zip(rows, columns, columns[1:], strict=False)
    )


def _checked_owner(owner: ArrayLike, size: int) -> NDArray[np.int64]:
    ranks = np.asarray(owner)
    if ranks.ndim != 1:
        raise ValueError(f"redistribute: owner has shape {ranks.shape}, needs (n,)")
    if ranks.size and ranks.dtype.kind not in "iu":
        raise TypeError(f"redistribute: owner is {ranks.dtype}, needs integers")
    wrong = np.flatnonzero((ranks < 0) | (ranks >= size))
    if wrong.size:
        at = wrong[0]
        raise IndexError(f"redistribute: owner[{at}] is {ranks[at]}, needs 0 to {size - 1}")
    return ranks.astype(np.int64)


def _checked_rows(k: int, given: ArrayLike, n: int) -> NDArray[Any]:
    array = np.ascontiguousarray(given)
    if array.dtype.hasobject:
        raise TypeError(f"redistribute: arrays[{k}] is {array.dtype}, needs numbers")
    if np.ndim(given) == 0 or len(array) != n or 0 in array.shape[1:]:
        raise ValueError(f"redistribute: arrays[{k}] has shape {np.shape(given)}, needs ({n}, ...)")
    return array


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of every row."""
    size = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    return array.reshape(-1).view(np.uint8).reshape(-1, size)

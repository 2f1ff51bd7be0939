# SPDX-License-Identifier: MIT
"""Sums over all processes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import dtype_name
from gnograd.distributed.communicator import Communicator

__all__ = ["front_of", "mean", "norm", "packed", "shared", "sum", "sum_gradients", "total_rows"]


_FRONTS = {"torch": "gnograd.torch.distributed", "gnograd": "gnograd.autodiff.distributed"}
"""Modules by the packages of their arrays. They import this module, so they are imported on use."""


def front_of(value: Any) -> ModuleType | None:
    """Module with these functions for tensors or arrays on a tape; None for NumPy arrays."""
    packages = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    name = next((name for package, name in _FRONTS.items() if package in packages), None)
    return None if name is None else importlib.import_module(name)


def sum(comm: Communicator, local: Any) -> Any:
    """Sum over the processes of an array that each has, entry by entry.

    Differentiable for tensors and on a tape. The adjoint returns the cotangent unchanged, which is
    right if all processes compute the same from the sum. If each computes with it for its own rows,
    take ``shared(comm, sum(comm, local))``.
    """
    front = front_of(local)
    if front is not None:
        return front.sum(comm, local)
    array = _agreed(comm, "sum", local)
    total = comm.total(array)
    return total if total.ndim else total[()]


def shared(comm: Communicator, array: Any) -> Any:
    """An array that all processes have alike, for what each computes for its own rows.

    The value is that of `array`. The adjoint is the sum over the processes of their cotangents:
    all of them call the backward pass, and a process' loss is its part of a sum.

    Parameters
    ----------
    comm : Communicator
    array : array, Tensor or gnograd.autodiff.Array
        Array of one shape and, to mean something, of the same values on all processes.

    Returns
    -------
    array, Tensor or gnograd.autodiff.Array

    See Also
    --------
    sum_gradients : for parameters, once after the backward pass.

    Examples
    --------
    The mean of all processes' rows is taken from the rows of each:

    >>> import gnograd as gg
    >>> import gnograd.autodiff as ad
    >>> comm = gg.distributed.communicator()
    >>> rows = ad.Tape("float64").parameter([[1.0, 5.0], [3.0, 7.0]])
    >>> mean = gg.distributed.shared(comm, gg.distributed.mean(comm, rows))
    >>> ad.sum((rows - mean) ** 2).backward()
    >>> rows.grad
    array([[-2., -2.],
           [ 2.,  2.]])
    """
    front = front_of(array)
    return array if front is None else front.shared(comm, array)


def mean(comm: Communicator, rows: Any) -> Any:
    """Mean over the rows of all processes, feature by feature."""
    front = front_of(rows)
    if front is not None:
        return front.mean(comm, rows)
    array = _agreed(comm, "mean", rows, 1)
    n = total_rows(comm, "mean", array)
    return (sum(comm, array.sum(axis=0, dtype=np.float64)) / n).astype(_real(array))[()]


def norm(comm: Communicator, rows: Any) -> Any:
    """Square root of the sum of squares of all processes' numbers."""
    front = front_of(rows)
    if front is not None:
        return front.norm(comm, rows)
    array = _agreed(comm, "norm", rows, 1)
    squares = np.square(array, dtype=np.float64).sum()
    return np.sqrt(sum(comm, squares)).astype(_real(array))


def sum_gradients(comm: Communicator, gradients: Any) -> Any:
    """Sum gradients of parameters that all processes have alike.

    Parameters
    ----------
    comm : Communicator
    gradients : array, sequence or dict of arrays or None; module or optimizer
        This process' part of every gradient; of a module or an optimizer, the `grad` of its
        parameters, where one that this process has none of counts as zero.

    Returns
    -------
    object
        The sums over the processes in the order of ranks, the same bits on all of them, in the form
        of `gradients`. A module or an optimizer gets them, and is returned.

    Raises
    ------
    TypeError, ValueError
        The argument is none of these. On all processes.
    RuntimeError
        Processes give arrays of different shapes.

    Notes
    -----
    All arrays of a type travel in one message to each process and one back; no process holds more
    than two copies of them.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> comm = gg.distributed.communicator()
    >>> gg.distributed.sum_gradients(comm, {"w": np.ones(2), "b": None})
    {'w': array([1., 1.]), 'b': None}
    """
    front = front_of(gradients)
    if front is None and isinstance(gradients, Mapping | Sequence):
        values = gradients.values() if isinstance(gradients, Mapping) else gradients
        front = next((f for f in map(front_of, values) if f is not None), None)
    if front is not None:
        return front.sum_gradients(comm, gradients)
    if isinstance(gradients, Mapping):
        return dict(zip(gradients, sum_gradients(comm, list(gradients.values())), strict=True))
    if not isinstance(gradients, Sequence | Iterator):
        return sum_gradients(comm, [gradients])[0]
    arrays: list[NDArray[Any] | None] = []
    error: Exception | None = None
    try:
        if isinstance(gradients, Iterator):
            raise TypeError(
                f"sum_gradients: gradients is of type {type(gradients).__name__}, needs a sequence "
                "or dict of arrays, a module or an optimizer"
            )
        arrays = [None if g is None else _numbers("sum_gradients", g) for g in gradients]
    except Exception as caught:
        error = caught
    sums = packed(comm, arrays, np.concatenate, np.empty_like, error)
    return tuple(sums) if isinstance(gradients, tuple) else sums


def packed(
    comm: Communicator,
    arrays: Sequence[Any],
    join: Any,
    empty_like: Any,
    error: Exception | None = None,
    doing: str = "sum_gradients({})",
) -> list[Any]:
    """Sums of arrays over the processes, in one vector a type; errors are raised on all."""
    comm.agree(doing.format(", ".join(map(_shown, arrays))), error)
    sums = list(arrays)
    for dtype in dict.fromkeys(g.dtype for g in arrays if g is not None):
        places = [k for k, g in enumerate(arrays) if g is not None and g.dtype == dtype]
        flat = join([arrays[k].reshape(-1) for k in places])
        comm.sum_in_place(flat, empty_like)
        first = 0
        for k in places:
            n = int(np.prod(arrays[k].shape, dtype=np.int64))
            sums[k] = flat[first : first + n].reshape(arrays[k].shape)
            first += n
    return sums


def total_rows(comm: Communicator, doing: str, rows: Any) -> int:
    """Number of rows of all processes together."""
    error = None if len(rows.shape) else ValueError(f"{doing}: a number was given, needs rows")
    comm.agree(f"number of rows, for {doing}", error)
    n = int(comm._all_gather(np.array([rows.shape[0]], np.int64)).sum())
    if not n:
        raise ValueError(f"{doing}: no process has any rows")
    return n


def _numbers(doing: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        got = _shown(value) if hasattr(value, "dtype") else type(value).__name__
        raise TypeError(f"{doing}: needs an array of numbers, got {got}")
    return array


def _real(array: NDArray[Any]) -> Any:
    """Type of a mean of numbers: of integers it is none."""
    return array.dtype if array.dtype.kind == "f" else np.float64


def _shown(array: Any) -> str:
    return "None" if array is None else f"{dtype_name(array.dtype)}{list(array.shape)}"


def _agreed(comm: Communicator, doing: str, value: Any, n_own_axes: int = 0) -> NDArray[Any]:
    """Array whose type, and shape but for the first axes, agree on all processes."""
    error: Exception | None = None
    array = np.empty(0)
    try:
        array = _numbers(doing, value)
        if array.ndim < n_own_axes:
            raise ValueError(f"{doing}: a number was given, needs rows")
    except Exception as caught:
        error = caught
    comm.agree(f"{doing} of {array.dtype}{list(array.shape[n_own_axes:])}", error)
    return array

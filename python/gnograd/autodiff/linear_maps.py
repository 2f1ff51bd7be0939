# SPDX-License-Identifier: MIT
"""Linear maps on the tape, given as Python functions."""

from __future__ import annotations

from gnograd import _core
from gnograd.autodiff.arrays import Array
from gnograd.autodiff.callbacks import Apply
from gnograd.notation.static import integer

__all__ = ["linear_map"]


def linear_map(x: Array, n_rows: int, apply: Apply) -> Array:
    """Apply a linear map, given as a function, to the rows of `x`.

    ``y = A x`` for each feature by itself. Its gradient is ``A^T`` times that of `y`, and so on:
    derivatives of any order follow from the map and the transposed one.

    Parameters
    ----------
    x : Array, (n, ...)
        Axes behind the first one are features.
    n_rows : int
        Rows of the result.
    apply : callable
        ``apply(rows, transpose)`` with rows (n, W), where W is the product of all features, returns
        A rows (n_rows, W); with ``transpose=True`` and rows (n_rows, W) it returns A^T rows (n, W).
        It is called here and by `Array.backward` and `grad`, in the order of the tape, until the
        result is freed by a rewind or with the tape. What it raises these raise in their turn. It
        must be linear, and must not go back over the tape.

    Returns
    -------
    Array, (n_rows, ...)

    Raises
    ------
    ValueError
        `x` has no axis, or `apply` returned another shape.
    TypeError
        `apply` returned something other than real numbers.

    Examples
    --------
    Interpolation by a sparse matrix, here a dense one:

    >>> import numpy as np
    >>> import gnograd.autodiff as ad
    >>> A = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> tape = ad.Tape("float64")
    >>> x = tape.parameter([[1.0], [3.0]])
    >>> y = ad.linear_map(x, 3, lambda rows, transpose: (A.T if transpose else A) @ rows)
    >>> y.value.ravel()
    array([1., 2., 3.])
    >>> ad.sum(y**2).backward()
    >>> x.grad.ravel()
    array([4., 8.])
    """
    if not callable(apply):
        raise TypeError(f"linear_map: apply is {type(apply).__name__}, needs a function")
    rows = integer("linear_map: n_rows", n_rows)
    tape = x.tape
    maps = tape._maps
    maps.refuse_use()
    context = maps.add(tape.mark() + 1, apply)
    handle = _core.gnograd_array_linear_map(tape._handle, x._handle, rows, maps.address(), context)
    if handle == 0:
        maps.discard()
        tape._check(_core.gnograd_tape_error(tape._handle))
    return tape._wrap(handle)

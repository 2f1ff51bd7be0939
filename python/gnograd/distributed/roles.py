# SPDX-License-Identifier: MIT
"""Roles of arrays: their rows, if any, that a partition of the graph divides."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator
from gnograd.notation.shapes import parse

__all__ = ["Role", "agree_on_rows", "role_of"]


class Role(NamedTuple):
    """Kind and axis of the rows of an array."""

    of: str
    """Kind of the rows: ``n_src``, ``n_dst``, ``n_edges``; empty if all processes have the same
    array."""
    axis: int
    """Axis of the rows, counted from the end."""


def role_of(spec: str) -> Role:
    """Role of an array of this shape."""
    dims = parse(spec).dims
    for name in ("n_src", "n_dst", "n_edges"):
        if name in dims:
            return Role(name, dims.index(name) - len(dims))
    return Role("", 0)


def agree_on_rows(
    comm: Communicator, operator: str, doing: str, error: Exception | None, found: NDArray[Any]
) -> NDArray[np.int64]:
    """Agree on the inputs whose rows have to travel.

    Parameters
    ----------
    comm, doing, error
        As for `Communicator.agree`.
    operator : str
        Name for the message.
    found : array of int64, (2, ...)
        For every input, 1 if this process has to get rows of the halo; then 1 if these were given.
        A process without a halo sets neither.

    Returns
    -------
    array of int64, (...)

    Raises
    ------
    ValueError
        An input has these rows on some processes only.
    """
    needed, given = comm.agree(doing, error, found.ravel()).reshape(found.shape)
    if (needed & given).any():
        raise ValueError(
            f"{operator}: an input has the rows of the halo on some processes, not on others"
        )
    flags: NDArray[np.int64] = needed
    return flags

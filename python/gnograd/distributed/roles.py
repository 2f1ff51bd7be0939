# SPDX-License-Identifier: MIT
"""Which arrays of an operator are cut by a partition of its graph, and along which axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator
from gnograd.shapes import parse

__all__ = ["Role", "agree_on_rows", "role_of"]


class Role(NamedTuple):
    """What the rows of an array belong to."""

    of: str
    """``n_src``, ``n_dst``, ``n_edges``; or nothing, if every process has the same array."""
    axis: int
    """Axis of the rows, counted from the end."""


def role_of(spec: str) -> Role:
    """What the rows of an array of this shape belong to."""
    dims = parse(spec).dims
    for name in ("n_src", "n_dst", "n_edges"):
        if name in dims:
            return Role(name, dims.index(name) - len(dims))
    return Role("", 0)


def agree_on_rows(
    comm: Communicator, operator: str, doing: str, error: Exception | None, found: NDArray[Any]
) -> NDArray[np.int64]:
    """Which inputs' rows have to travel, as all processes see it.

    Parameters
    ----------
    comm, doing, error
        As for `Communicator.agree`.
    operator : str
        For the message.
    found : array of int64, (2, ...)
        Of every input, what this process can tell: 1 where it has to get rows of a halo; 1 where it
        was given them. A process without a halo can tell neither.

    Returns
    -------
    array of int64, (...)

    Raises
    ------
    ValueError
        An input has these rows on some processes, and on others not.
    """
    needed, given = comm.agree(doing, error, found.ravel()).reshape(found.shape)
    if (needed & given).any():
        raise ValueError(
            f"{operator}: an input has the rows of the halo on some processes, not on others"
        )
    flags: NDArray[np.int64] = needed
    return flags

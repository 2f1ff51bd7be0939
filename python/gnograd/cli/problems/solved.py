# SPDX-License-Identifier: MIT
"""Common form of solved problems."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Problem", "Solved"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Solved:
    """Fields on the nodes of a solver."""

    points: Array
    """Nodes, (n, d)"""
    inputs: Mapping[str, Array]
    """Inputs, (n,)"""
    outputs: Mapping[str, Array]
    """Outputs, (n,), or states, (n_times, n)."""
    parameters: Array = field(default_factory=lambda: np.zeros(0))
    every: Callable[[int], Array] | None = None
    """Function of n: rows of the nodes of a grid coarser by n, in the order of that grid.

    None if solutions are exact, so that a finer grid is not more accurate.
    """


@dataclass(frozen=True)
class Problem:
    """Kind of problem that can be drawn at random and solved."""

    about: str
    solve: Callable[[np.random.Generator, int], Solved]
    """Draw and solve a problem at a resolution, on which the random numbers do not depend."""
    resolution: int
    least: int
    """Smallest resolution that makes sense."""
    period: float = 0.0
    in_time: bool = False

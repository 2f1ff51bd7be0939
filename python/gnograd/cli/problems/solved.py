# SPDX-License-Identifier: MIT
"""One solved problem, whatever it is of."""

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
    """(n, d)"""
    inputs: Mapping[str, Array]
    """(n,)"""
    outputs: Mapping[str, Array]
    """(n,), or of states (n_times, n)."""
    parameters: Array = field(default_factory=lambda: np.zeros(0))
    every: Callable[[int], Array] | None = None
    """Rows that are nodes of the n-th part of the resolution, in their order there.

    None where the solution is exact, so that a finer one is no better.
    """


@dataclass(frozen=True)
class Problem:
    """What can be drawn at random and solved."""

    about: str
    solve: Callable[[np.random.Generator, int], Solved]
    """With a resolution. What is drawn does not depend on it."""
    resolution: int
    least: int
    """Resolution that makes sense."""
    period: float = 0.0
    in_time: bool = False

# SPDX-License-Identifier: MIT
"""Density of points: numbers of neighbours, and radii for given numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import gnograd as gg

__all__ = ["CLOUDS", "FEW", "TYPICAL", "Neighbors", "neighbors_within", "radius_of"]

_TYPICAL = {1: 8, 2: 12, 3: 20}
TYPICAL = {"gno": _TYPICAL, "gino": _TYPICAL | {1: 4}}
"""Typical number of neighbours within the radius, by kind of model and dimension; fewer for gino,
whose encoder blurs features."""
FEW = 3
"""Mean number of neighbours that is too small to learn from."""

CLOUDS = 32
_LOOKED_AT = 2000
"""Largest numbers of clouds and of points from which a typical distance is computed."""
_ROUNDING = 1e-5
_MOST = 100_000
"""Largest number of points of a cloud that are looked at."""

Period = Sequence[float] | None


def radius_of(
    clouds: Sequence[NDArray[np.float64]], neighbors: int, period: Period = None
) -> float:
    """Distance within which points typically have a given number of neighbours.

    Parameters
    ----------
    clouds : sequence of ndarray, (n, d)
    neighbors : int
    period : sequence of float, optional

    Returns
    -------
    float
        Median over points of the distance to the neighbour of this number.
    """
    found: list[float] = []
    for points in clouds[:CLOUDS]:
        k, some = min(neighbors + 1, len(points)), _some(points)
        graph = gg.Graph.knn(points, k, some, period=None if period is None else list(period))
        difference = points[graph.src] - some[graph.dst]
        if period is not None:
            lengths = np.asarray(period)
            whole = np.round(difference / np.where(lengths > 0, lengths, np.inf))
            difference = difference - whole * lengths
        distances = np.linalg.norm(difference, axis=1)
        found += np.maximum.reduceat(distances, np.arange(0, len(distances), k)).tolist()
        if len(found) >= _LOOKED_AT:
            break
    # on a regular grid many distances are equal but for rounding: all of them are within the radius
    radius = float(np.median(found)) * (1 + _ROUNDING)
    return radius if radius > 0 else 1.0


def _some(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of a cloud, evenly chosen from a large one."""
    return points[:: -(-len(points) // _MOST)]


class Neighbors(NamedTuple):
    """Statistics of the numbers of neighbours, without the points themselves."""

    mean: float
    least: int


def neighbors_within(
    clouds: Sequence[NDArray[np.float64]], radius: float, period: Period = None
) -> Neighbors:
    """Numbers of neighbours within a radius, in some of the clouds.

    Parameters
    ----------
    clouds : sequence of ndarray, (n, d)
    radius : float
    period : sequence of float, optional
    """
    total, points, least = 0, 0, np.iinfo(np.int64).max
    for cloud in clouds[:CLOUDS]:
        box = None if period is None else list(period)
        some = _some(cloud)
        degree = np.asarray(gg.Graph.radius(cloud, radius, some, period=box).in_degree) - 1
        total, points, least = (
            total + int(degree.sum()),
            points + len(some),
            min(least, degree.min()),
        )
        if points >= _LOOKED_AT:
            break
    return Neighbors(total / points, int(least))

# SPDX-License-Identifier: MIT
"""Points of several items, and features of their positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnograd.torch.graph import Graph

__all__ = [
    "Cloud",
    "Period",
    "box_of",
    "coordinate_features",
    "edge_features",
    "grid_in",
    "images_in",
    "wrapped",
]

Period = Sequence[float] | None
"""Lengths of a periodic box, 0 along axes that are not periodic."""


class Cloud(NamedTuple):
    """Points of all items of a batch, item by item."""

    positions: Tensor
    """Coordinates (n, d)."""
    item: Tensor
    """Item of every point, int64 (n,)."""
    borders: Tensor
    """First point of every item, and their number: int64 (n_items + 1,)."""

    @classmethod
    def of(cls, items: Sequence[Tensor]) -> Cloud:
        """Cloud of the positions of every item."""
        device = items[0].device
        sizes = torch.tensor([len(x) for x in items], device=device)
        borders = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        numbers = torch.arange(len(items), device=device)
        return cls(torch.cat(list(items)), numbers.repeat_interleave(sizes), borders)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.borders.shape[0] - 1

    def items(self) -> list[Tensor]:
        """Positions of every item."""
        sizes: list[int] = self.borders.diff().tolist()
        return list(self.positions.split(sizes))

    def to(self, device: torch.device | str) -> Cloud:
        """Copy on a device."""
        return Cloud(*(x.to(device) for x in self))


def wrapped(positions: Tensor, period: Period = None) -> Tensor:
    """Images of points in the periodic box around the origin.

    Parameters
    ----------
    positions : Tensor, (n, d)
    period : sequence of float, optional

    Returns
    -------
    Tensor, (n, d)
        Positions from minus to plus half a length; rounding moves no point across the border.
    """
    if period is None or not any(period):
        return positions
    lengths = positions.new_tensor(period)
    turns = (positions / lengths.where(lengths > 0, torch.inf) + (0.5 + 1e-6)).floor()
    return positions - turns * lengths


def images_in(
    positions: Tensor, lower: Tensor, upper: Tensor, period: Period = None
) -> tuple[Tensor, Tensor]:
    """Points, and their periodic images that lie in a box.

    Parameters
    ----------
    positions : Tensor, (n, d)
    lower, upper : Tensor, (d,)
        Corners of the box.
    period : sequence of float, optional

    Returns
    -------
    index : Tensor, int64 (m,)
        Point that each result is an image of; all points themselves come first.
    images : Tensor, (m, d)
    """
    index = [torch.arange(len(positions), device=positions.device)]
    images = [positions]
    if period is None or not any(period):
        return index[0], positions
    least, most = (lower - positions.amax(0)).tolist(), (upper - positions.amin(0)).tolist()
    turns = [
        range(math.ceil(low / length), math.floor(high / length) + 1) if length else range(1)
        for low, high, length in zip(least, most, period, strict=True)
    ]
    lengths = positions.new_tensor(period)
    for turn in itertools.product(*turns):
        if any(turn):
            moved = positions + lengths * lengths.new_tensor(turn)
            inside = ((moved >= lower) & (moved <= upper)).all(dim=1).nonzero()[:, 0]
            index.append(inside)
            images.append(moved[inside])
    return torch.cat(index), torch.cat(images)


def coordinate_features(positions: Tensor, period: Period = None) -> Tensor:
    """Coordinates as features: sine and cosine along periodic axes.

    Parameters
    ----------
    positions : Tensor, (n, d)
    period : sequence of float, optional

    Returns
    -------
    Tensor, (n, d + number of periodic axes)
    """
    if period is None or not any(period):
        return positions
    columns = []
    for k, length in enumerate(period):
        x = positions[:, k]
        if length:
            angle = x * (2 * math.pi / length)
            columns += [angle.sin(), angle.cos()]
        else:
            columns.append(x)
    return torch.stack(columns, dim=1)


def edge_features(
    sources: Tensor, destinations: Tensor, graph: Graph, length: float, period: Period = None
) -> Tensor:
    """Differences of positions and their norm, in units of a length.

    Parameters
    ----------
    sources, destinations : Tensor, (n_src, d), (n_dst, d)
    graph : Graph
    length : float
    period : sequence of float, optional
        Differences are to the nearest image.

    Returns
    -------
    Tensor, (n_edges, d + 1)
    """
    difference = sources[graph.src] - destinations[graph.dst]
    if period is not None and any(period):
        lengths = difference.new_tensor(period)
        whole = (difference / lengths.where(lengths > 0, torch.inf)).round()
        difference = difference - whole * lengths
    difference = difference / length
    return torch.cat([difference, difference.norm(dim=1, keepdim=True)], dim=1)


def box_of(
    lower: NDArray[np.float64], upper: NDArray[np.float64], period: Period = None
) -> tuple[list[float], list[float]]:
    """Corners of a latent grid's box: the period along periodic axes, and no side of length 0."""
    if period is not None:
        lengths = np.asarray(period)
        upper = np.where(lengths > 0, lower + lengths, upper)
    upper = np.where(upper > lower, upper, lower + 1.0)
    return lower.tolist(), upper.tolist()


def grid_in(
    lower: Sequence[float], upper: Sequence[float], side: int, period: Period = None
) -> tuple[Tensor, tuple[int, ...], float]:
    """Points of a regular grid in a box.

    Parameters
    ----------
    lower, upper : sequence of float
        Corners of the box.
    side : int
        Points along the longest axis; others get the same spacing, and 4 points at least.
    period : sequence of float, optional
        Period; there is no point at the far end of periodic axes.

    Returns
    -------
    points : Tensor, (n_1 .. n_d, d)
    shape : tuple of int
    spacing : float
        The largest distance of neighbours along an axis.
    """
    extents = [high - low for low, high in zip(lower, upper, strict=True)]
    shape = tuple(max(4, round(side * extent / max(extents))) for extent in extents)
    wraps = [bool(p) for p in period] if period is not None else [False] * len(shape)
    axes = [
        torch.arange(n) * ((high - low) / (n if wrap else n - 1)) + low
        for low, high, n, wrap in zip(lower, upper, shape, wraps, strict=True)
    ]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    spacing = max(e / (n - 1) for e, n in zip(extents, shape, strict=True))
    return points, shape, spacing

# SPDX-License-Identifier: MIT
"""Points in the order of a ball tree, and layout of several clouds in one array."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnograd.backends.tensors import numpy_of
from gnograd.notation.static import exact_integers
from gnograd.torch.batches import register_loop
from gnograd.torch.sparse_branches import borders_of

__all__ = ["CloudLayout", "ball_tree_order", "clouds_of", "pieces_of"]


def ball_tree_order(positions: Tensor, batch: Tensor | None = None) -> Tensor:
    """Order of points in which neighbours in the list are close in space.

    The leaves of a balanced k-d tree (`scipy.spatial.cKDTree`), whose every node is a stretch of
    the list: so is a ball of points, and a ball of balls. Trees are built on the CPU.

    Parameters
    ----------
    positions : Tensor, (N, d)
        Coordinates.
    batch : Tensor of int, (N,), optional
        Number of the cloud of every point, in any order: each cloud gets its tree, in the order of
        their numbers. One cloud when left out.

    Returns
    -------
    Tensor of int64, (N,)
        Row of every point of the list.

    Raises
    ------
    ValueError
        Positions that are not finite, another shape, a number that is negative.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import ball_tree_order
    >>> positions = torch.tensor([[3.0], [0.0], [2.0], [1.0]])
    >>> ball_tree_order(positions)
    tensor([1, 3, 2, 0])
    >>> ball_tree_order(positions, torch.tensor([0, 0, 1, 1]))
    tensor([1, 0, 3, 2])
    """
    if positions.ndim != 2 or positions.shape[1] < 1:
        raise ValueError(
            f"ball_tree_order: positions has shape {tuple(positions.shape)}, needs (N, d), d > 0"
        )
    if batch is not None and batch.shape != positions.shape[:1]:
        raise ValueError(
            f"ball_tree_order: batch has shape {tuple(batch.shape)}, needs ({positions.shape[0]},)"
        )
    return _ball_tree_order(positions.detach(), batch)


@torch.library.custom_op("gnograd::ball_tree_order", mutates_args=())
def _ball_tree_order(positions: Tensor, batch: Tensor | None) -> Tensor:
    points = numpy_of(positions.double().cpu())
    if not np.isfinite(points).all():
        raise ValueError("ball_tree_order: positions has values that are not finite")
    item = np.zeros(len(points), np.int64) if batch is None else numpy_of(batch.cpu())
    if item.dtype.kind in "iu":
        item = exact_integers("ball_tree_order: batch", item, np.int64)
    if item.dtype.kind not in "iu" or item.min(initial=0) < 0:
        raise ValueError("ball_tree_order: batch needs integers that are not negative")
    grouped = np.argsort(item, kind="stable")
    starts = np.flatnonzero(np.diff(item[grouped], prepend=-1))
    order = np.empty(len(points), np.int64)
    for first, end in pairwise([*starts, len(points)]):
        rows = grouped[first:end]
        order[first:end] = rows[_tree_order(points[rows])]
    return torch.from_numpy(order).to(positions.device)


register_loop(_ball_tree_order)


@_ball_tree_order.register_fake
def _(positions: Tensor, batch: Tensor | None) -> Tensor:
    return positions.new_empty(positions.shape[0], dtype=torch.int64)


def _tree_order(points: NDArray[np.float64]) -> NDArray[Any]:
    # takes longer to import than gnograd
    from scipy.spatial import cKDTree

    return cKDTree(points, leafsize=1, balanced_tree=True).indices


@dataclass
class CloudLayout:
    """Borders of clouds in one array, and of their balls and compressed points.

    All sizes follow from the numbers of points and clouds, so that the host reads no tensor: an
    additional last cloud takes up unused space.
    """

    cu: Tensor
    """Borders of points: [n_clouds + 2]."""
    ball: Tensor
    """Number of every point's ball."""
    members: Tensor
    """Points of every ball [balls, ball_size]; entries beyond its size are arbitrary."""
    ball_sizes: Tensor
    whole: Tensor
    """Points that are compressed: those of full stretches; further entries are arbitrary."""
    cu_compressed: Tensor
    """Borders of compressed points: [n_clouds + 2]."""
    row: Tensor
    """Row of every point among the `n_rows` queries, which are padded so that every cloud begins
    with a new group of queries that share a selection."""
    n_rows: int
    cu_rows: Tensor
    """Borders of clouds among these rows: [n_clouds + 2]."""


def clouds_of(cu: Tensor, n: int, ball: int, stretch: int, group: int) -> CloudLayout:
    """Layout of n points in clouds with borders cu (n_clouds + 1,).

    Parameters
    ----------
    cu : Tensor of int64, (n_clouds + 1,)
    n, ball, stretch, group : int
        Number of points, of points in a ball, in a compressed point, and that share a selection.
    """
    sizes, n_clouds = cu.diff(), len(cu) - 1

    def pieces(length: int, of: Tensor) -> Tensor:
        return torch.div(of, length, rounding_mode="floor")

    def cloud_of(place: Tensor, borders: Tensor) -> Tensor:
        found = torch.bucketize(place, borders[1:], right=True)
        return found.clamp(max=max(n_clouds - 1, 0))

    def ending(borders: Tensor, end: int) -> Tensor:
        return torch.cat([borders, borders.new_full((1,), end)])

    point = torch.arange(n, device=cu.device)
    cloud = cloud_of(point, cu)

    balls = borders_of(pieces(ball, sizes + ball - 1))
    number = torch.arange(n // ball + n_clouds, device=cu.device)
    of_ball = cloud_of(number, balls)
    first = cu[of_ball] + (number - balls[of_ball]) * ball
    members = first[:, None] + torch.arange(ball, device=cu.device)

    rows = borders_of(pieces(group, sizes + group - 1) * group)
    n_rows = (n + n_clouds * (group - 1)) // group * group

    compressed = borders_of(pieces(stretch, sizes))
    # positions among the points of full stretches
    place = torch.arange(n // stretch * stretch, device=cu.device)
    of_place = cloud_of(place, compressed * stretch)
    whole = place + (cu[:-1] - compressed[:-1] * stretch)[of_place]

    last = max(n - 1, 0)
    return CloudLayout(
        cu=ending(cu, n),
        ball=balls[cloud] + pieces(ball, point - cu[cloud]),
        members=members.clamp(max=last),
        ball_sizes=(cu[of_ball + 1] - first).clamp(0, ball),
        whole=whole.clamp(max=last),
        cu_compressed=ending(compressed, n // stretch),
        row=point + (rows[:-1] - cu[:-1])[cloud],
        n_rows=n_rows,
        cu_rows=ending(rows, n_rows),
    )


def pieces_of(cu: Tensor, n: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pieces of clouds with borders cu (n_clouds + 1,), the last of each as long as it is.

    As many as there may be, so that the host reads no tensor; those that are not needed are empty,
    and belong to an additional last cloud.

    Parameters
    ----------
    cu : Tensor of int64, (n_clouds + 1,)
    n, length : int
        Number of points, and of those in a piece.

    Returns
    -------
    number : Tensor of int64, (n,)
        Piece of every point.
    sizes : Tensor of int64, (n // length + n_clouds,)
        Points of every piece.
    borders : Tensor of int64, (n_clouds + 2,)
        Borders of the clouds among the pieces.
    """
    count = n // length + len(cu) - 1
    borders = borders_of(torch.div(cu.diff() + length - 1, length, rounding_mode="floor"))
    point = torch.arange(n, device=cu.device)
    cloud = torch.bucketize(point, cu[1:], right=True).clamp(max=max(len(cu) - 2, 0))
    number = borders[cloud] + torch.div(point - cu[cloud], length, rounding_mode="floor")
    sizes = borders.new_zeros(count).index_add(0, number, torch.ones_like(number))
    return number, sizes, torch.cat([borders, borders.new_full((1,), count)])

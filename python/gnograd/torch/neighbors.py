# SPDX-License-Identifier: MIT
"""Neighbours within a radius, in the form that neuraloperator's layers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch.eager import in_transform
from gnograd.torch.graph import Graph
from gnograd.torch.searches import Pointer, neighbors_of

__all__ = ["NeighborSearch", "neighbor_search"]


def neighbor_search(
    data: Tensor,
    queries: Tensor,
    radius: float,
    return_norm: bool = False,
    *,
    period: float | Sequence[float] | None = None,
    data_ptr: Pointer = None,
    queries_ptr: Pointer = None,
) -> dict[str, Tensor]:
    """Points of `data` at most `radius` away from every point of `queries`.

    On the CPU by a k-d tree in any number of dimensions, on a GPU by a hash table of cells in up to
    three, as `gnograd.neighbors`. Distances are compared in float64, between the coordinates as
    they are. The neighbours of a point come in ascending order.

    Parameters
    ----------
    data : Tensor, (n, d)
    queries : Tensor, (m, d)
        On the same device. With more than three coordinates, tensors on a GPU are searched on the
        CPU.
    radius : float
        Largest Euclidean distance, inclusive.
    return_norm : bool
        Return the squared distances too, for weighting functions.
    period : float or sequence of float, (d,), optional
        Lengths of a periodic box, 0 along axes that are not periodic; distances are then to the
        nearest image.
    data_ptr, queries_ptr : sequence of int, (batch + 1,), optional
        First point of every item of a batch, and the number of points at the end: only points of
        the same item are neighbours. Both or none.

    Returns
    -------
    dict
        ``neighbors_index`` (n_edges,), rows of `data`, and ``neighbors_row_splits`` (m + 1,), the
        first neighbour of every query; both int64. With `return_norm`, ``weights`` (n_edges,): the
        squared distances, in the dtype of the points and differentiable with respect to them.

    Raises
    ------
    ValueError
        Points that are not finite or not of the same dimension, a negative radius or period, a
        pointer that does not fit.

    See Also
    --------
    gnograd.neighbors : the same for arrays.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import neighbor_search
    >>> points = torch.tensor([[0.0], [0.4], [0.9]])
    >>> found = neighbor_search(points, points, radius=0.5)
    >>> found["neighbors_index"], found["neighbors_row_splits"]
    (tensor([0, 1, 0, 1, 2, 1, 2]), tensor([0, 2, 5, 7]))
    >>> neighbor_search(points, points, radius=0.2, period=1.0)["neighbors_index"]
    tensor([0, 2, 1, 0, 2])
    """
    ((splits, index),) = neighbors_of(data, queries, [radius], period, data_ptr, queries_ptr)
    result = {"neighbors_index": index, "neighbors_row_splits": splits}
    if return_norm:
        if in_transform():  # there may be room
            rows = Graph._of_neighbors(splits, index, data.shape[0]).dst
            offset = queries.index_select(0, rows) - data.index_select(0, index)
        else:
            n = index.shape[0]
            offset = torch.repeat_interleave(queries, splits.diff(), dim=0, output_size=n)
            offset = offset - data.index_select(0, index)
        result["weights"] = _nearest_image(offset, period).square().sum(-1)
    return result


class NeighborSearch(nn.Module):
    """`neighbor_search` as a module; neuraloperator's ``NeighborSearch``.

    Parameters
    ----------
    use_open3d : bool
        Without effect.
    return_norm : bool
        Return the squared distances too.
    """

    def __init__(self, use_open3d: bool = True, return_norm: bool = False) -> None:
        super().__init__()
        self.return_norm = return_norm

    def forward(
        self, data: Tensor, queries: Tensor, radius: float, **options: Any
    ) -> dict[str, Tensor]:
        """Apply `neighbor_search`, with its keyword arguments."""
        return neighbor_search(data, queries, radius, self.return_norm, **options)


def _nearest_image(offset: Tensor, period: float | Sequence[float] | None) -> Tensor:
    if period is None:
        return offset
    box = torch.as_tensor(period, dtype=offset.dtype, device=offset.device)
    images = torch.where(box > 0, (offset.detach() / box).round(), 0.0)
    return offset - torch.where(box > 0, box * images, 0.0)

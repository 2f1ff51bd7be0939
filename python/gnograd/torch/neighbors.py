# SPDX-License-Identifier: MIT
"""Neighbours within a radius, in the form that neuraloperator's layers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gnograd.graph import Graph

__all__ = ["NeighborSearch", "neighbor_search"]

Pointer = Sequence[int] | Tensor | None


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

    By a k-d tree, in any number of dimensions. Distances are compared in float64, between the
    coordinates as they are. The neighbours of a point come in ascending order.

    Parameters
    ----------
    data : Tensor, (n, d)
    queries : Tensor, (m, d)
        On a GPU too, where the search itself is done on the CPU.
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
    gnograd.Graph.radius : the same for NumPy arrays.

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
    if (data_ptr is None) != (queries_ptr is None):
        raise ValueError("neighbor_search: data_ptr goes with queries_ptr: give both or none")
    sources, targets = (x.detach().cpu().double().numpy() for x in (data, queries))
    from_data = _pointer("data_ptr", data_ptr, len(sources))
    from_queries = _pointer("queries_ptr", queries_ptr, len(targets))
    if len(from_data) != len(from_queries):
        raise ValueError(
            f"neighbor_search: data_ptr has {len(from_data)} entries "
            f"but queries_ptr has {len(from_queries)}"
        )
    index, degree = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for item in range(len(from_data) - 1):
        first, last = from_data[item : item + 2]
        graph = Graph.radius(
            sources[first:last],
            radius,
            targets[slice(*from_queries[item : item + 2])],
            period=period,
        )
        index.append(graph.indices + np.int64(first))
        degree.append(graph.in_degree)
    counts = np.concatenate(degree)
    found = {
        "neighbors_index": torch.from_numpy(np.concatenate(index)),
        "neighbors_row_splits": torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])),
    }
    found = {name: value.to(queries.device) for name, value in found.items()}
    if return_norm:
        rows = torch.from_numpy(counts).to(queries.device)
        offset = torch.repeat_interleave(queries, rows, dim=0) - data[found["neighbors_index"]]
        found["weights"] = _nearest_image(offset, period).square().sum(-1)
    return found


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


def _pointer(name: str, pointer: Pointer, n: int) -> list[int]:
    """First point of every item, and the number of points; of one item when left out."""
    if pointer is None:
        return [0, n]
    entries = [int(entry) for entry in pointer]
    if not entries or entries[0] != 0 or entries[-1] != n or sorted(entries) != entries:
        raise ValueError(
            f"neighbor_search: {name} is {entries}, needs to ascend from 0 to the {n} points"
        )
    return entries


def _nearest_image(offset: Tensor, period: float | Sequence[float] | None) -> Tensor:
    if period is None:
        return offset
    box = torch.as_tensor(period, dtype=offset.dtype, device=offset.device)
    images = torch.where(box > 0, (offset.detach() / box).round(), 0.0)
    return offset - torch.where(box > 0, box * images, 0.0)

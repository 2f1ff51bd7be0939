# SPDX-License-Identifier: MIT
"""Geometry of neighbourhoods, as tensors."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from gnograd.operators.moments import NeighborhoodMoments, positions_of_destinations, unpack_moments
from gnograd.torch import functional
from gnograd.torch.graph import AnyGraph, Graph

__all__ = ["neighborhood_moments"]


def neighborhood_moments(
    x: Tensor, graph: AnyGraph, destinations: Tensor | None = None
) -> NeighborhoodMoments:
    """`gnograd.neighborhood_moments` with tensors for arrays.

    Parameters
    ----------
    x : Tensor, (n_src, d)
    graph : Graph
    destinations : Tensor, (n_dst, d), optional

    Returns
    -------
    NeighborhoodMoments
        Tensors, differentiable to second order by the positions. The second derivative of
        eigenvalues that are equal, though there are two neighbours or more, does not exist, and is
        NaN.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import Graph, neighborhood_moments
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> y = torch.zeros(1, 2)
    >>> neighborhood_moments(x, Graph.radius(x, 2.0, y), y).eigenvalues
    tensor([[0.5000, 0.0000]])
    """
    y = positions_of_destinations(x, graph, destinations)
    moments = functional.offset_moments(x, y, graph=graph)
    count = Graph.of(graph, moments.device).in_degree
    asarray = partial(torch.asarray, device=moments.device)
    # eigenvalues are not there for half precision
    exact = moments.to(torch.promote_types(moments.dtype, torch.float32))
    found = unpack_moments(exact, count, x.shape[1], torch, asarray)
    return NeighborhoodMoments(found.count, *[part.to(moments.dtype) for part in found[1:]])

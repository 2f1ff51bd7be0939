# SPDX-License-Identifier: MIT
"""A graph neural operator on points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import gelu

from gnograd.models.cloud import Cloud
from gnograd.models.network import Network, ToQueries, at_positions, perceptron
from gnograd.torch.graph import Graph
from gnograd.torch.layers import GNO

__all__ = ["PointGNO"]


class PointGNO(Network):
    """Lift, layers of a graph neural operator [1]_, projection.

    A layer is ``h_i + gelu(W h_i + b + mean_{|x_j - x_i| <= radius} h_j . kappa(x_j - x_i))``.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`.
    radius : float
        Distance up to which points are neighbours.
    width : int
        Channels of ``h``.
    hidden : int
        Hidden width of the kernel networks.
    layers : int

    References
    ----------
    .. [1] Z. Li et al., "Neural Operator: Graph Kernel Network for Partial Differential
       Equations", arXiv:2003.03485, 2020.
    """

    def __init__(
        self, *where: Any, radius: float, width: int, hidden: int, layers: int, **how: Any
    ) -> None:
        super().__init__(*where, **how)
        self.radius = radius
        self.lift = perceptron(self.coordinate_channels + self.in_channels, 2 * width, width)
        self.local = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.integral = nn.ModuleList(
            [GNO(width, width, self.dimension + 1, hidden) for _ in range(layers)]
        )
        self.to_queries = ToQueries(self, width, hidden, radius) if self.apart else None
        self.projection = perceptron(width, 2 * width, self.out_channels)

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graph of points within the radius, and from points to queries."""
        found = {"near": Graph.radius(points, self.radius, period=self.period)}
        if self.to_queries is not None and queries is not None:
            found["queries"] = self.to_queries.graph(points, queries)
        return found

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Implement `Network.forward`."""
        x, near = points.positions, graphs["near"]
        edges = self._edges(x, x, near, self.radius)
        h = at_positions(self.lift, self._known(points, features))
        for local, integral in zip(self.local, self.integral, strict=True):
            h = h + gelu(local(h) + integral(h, edges, near))
        if self.to_queries is not None and queries is not None:
            h = self.to_queries(points, h, queries, graphs["queries"])
        out: Tensor = self.projection(h)
        return out

# SPDX-License-Identifier: MIT
"""Base class of networks on points, and common layers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.models.cloud import Cloud, Period, coordinate_features, edge_features
from gnograd.torch.arrays import full_precision
from gnograd.torch.graph import Graph
from gnograd.torch.layers import GNO

__all__ = ["Network", "ToQueries", "at_positions", "perceptron"]


class Network(nn.Module):
    """Base of networks that map functions on points to functions on these or other points.

    Parameters
    ----------
    dimension : int
        Dimension of space.
    in_channels, out_channels : int
    period : sequence of float, optional
        Lengths of a periodic box, 0 along axes that are not periodic.
    apart : bool
        True if results are on queries, not on the points of the inputs.
    """

    def __init__(
        self,
        dimension: int,
        in_channels: int,
        out_channels: int,
        period: Period = None,
        apart: bool = False,
    ) -> None:
        super().__init__()
        self.dimension, self.apart = dimension, apart
        self.in_channels, self.out_channels = in_channels, out_channels
        self.period = None if period is None else [float(length) for length in period]
        self.meshed = False
        """Whether graphs need the edges of a mesh."""
        periodic = sum(bool(length) for length in self.period or ())
        self.coordinate_channels = dimension + periodic

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graphs that `forward` needs, for one item; none unless a network overrides it.

        Parameters
        ----------
        points : Tensor, (n, d)
        queries : Tensor, (m, d), or None
            None if results are on `points`.
        edges : Tensor, int64 (n_edges, 2), optional
            Edges of a mesh; used by networks that are `meshed`.
        """
        return {}

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Results at the queries, or at the points if there are no queries.

        Parameters
        ----------
        points : Cloud
        features : Tensor, (n, in_channels)
        queries : Cloud, optional
        graphs : mapping
            Graphs of all items: `Graph.batch` of the results of `graphs`.

        Returns
        -------
        Tensor, (m, out_channels)
        """
        raise NotImplementedError

    def _known(self, points: Cloud, features: Tensor) -> Tensor:
        """Features of position and inputs at every point."""
        where = coordinate_features(points.positions, self.period)
        return torch.cat([where, features], dim=1)

    def _edges(self, sources: Tensor, destinations: Tensor, graph: Graph, length: float) -> Tensor:
        return edge_features(sources, destinations, graph, length, self.period)


class ToQueries(nn.Module):
    """Graph neural operator layer from features on points to features on near queries.

    Parameters
    ----------
    network : Network
        Network that this layer belongs to.
    width : int
    hidden : int
        Hidden width of the kernel network.
    radius : float
        Unit of distances.
    neighbors : int
        Number of points that a query sees.
    """

    def __init__(
        self, network: Network, width: int, hidden: int, radius: float, neighbors: int = 8
    ) -> None:
        super().__init__()
        self.period, self.radius, self.neighbors = network.period, radius, neighbors
        self.kernel = GNO(width, width, network.dimension + 1, hidden)
        self.where = nn.Linear(network.coordinate_channels, width)

    def graph(self, points: Tensor, queries: Tensor) -> Graph:
        """Graph from points to the queries that see them."""
        return Graph.knn(points, min(self.neighbors, len(points)), queries, period=self.period)

    def forward(self, points: Cloud, h: Tensor, queries: Cloud, graph: Graph) -> Tensor:
        """Features at the queries, (m, width)."""
        edges = edge_features(points.positions, queries.positions, graph, self.radius, self.period)
        where = at_positions(self.where, coordinate_features(queries.positions, self.period))
        integral: Tensor = self.kernel(h, edges, graph)
        return where + integral


def at_positions(module: nn.Module, features: Tensor) -> Tensor:
    """Apply a module to features of positions, in float32 under `torch.autocast`, too."""
    with full_precision(features.device):
        out: Tensor = module(features)
    return out


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with GELU between them."""
    layers: list[Any] = []
    for before, width in pairwise(widths):
        layers += [nn.Linear(before, width), nn.GELU()]
    return nn.Sequential(*layers[:-1])

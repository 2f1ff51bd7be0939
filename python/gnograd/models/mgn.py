# SPDX-License-Identifier: MIT
"""MeshGraphNets on points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnograd.models.cloud import Cloud
from gnograd.models.network import Network, ToQueries, at_positions, perceptron
from gnograd.torch.graph import Graph
from gnograd.torch.mesh_graph_net import MeshGraphNet

__all__ = ["PointMeshGraphNet"]


class PointMeshGraphNet(Network):
    """`gnograd.torch.MeshGraphNet` [1]_ along the edges of a mesh, or between nearest points.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`.
    radius : float
        Unit of distances.
    neighbors : int, optional
        Number of nearest points that send to a point; edges go both ways. When left out, points
        that an edge of the mesh joins send to each other.
    width : int
        Width of all networks.
    layers : int
        Steps of message passing.

    References
    ----------
    .. [1] Pfaff, Fortunato, Sanchez-Gonzalez, Battaglia, "Learning Mesh-Based Simulation with Graph
       Networks", arXiv:2010.03409, 2020.
    """

    def __init__(
        self,
        *where: Any,
        radius: float,
        neighbors: int | None = None,
        width: int,
        layers: int,
        **how: Any,
    ) -> None:
        super().__init__(*where, **how)
        self.radius, self.neighbors, self.meshed = radius, neighbors, neighbors is None
        self.passing = MeshGraphNet(
            self.coordinate_channels + self.in_channels, self.dimension + 1, width,
            processor_size=layers, mlp_activation_fn="gelu",
            num_layers_node_processor=1, num_layers_edge_processor=1,
            hidden_dim_processor=width, hidden_dim_node_encoder=width,
            num_layers_node_encoder=1, hidden_dim_edge_encoder=width, num_layers_edge_encoder=1,
            hidden_dim_node_decoder=width, num_layers_node_decoder=1, aggregation="mean",
        )  # fmt: skip
        self.to_queries = ToQueries(self, width, width, radius) if self.apart else None
        self.projection = perceptron(width, width, self.out_channels)

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graph of the mesh, or of nearest points, both ways, and from points to queries."""
        if self.neighbors is None:
            if edges is None:
                raise ValueError("PointMeshGraphNet: needs the edges of a mesh")
            itself = torch.arange(len(points), device=points.device)
            pairs = torch.cat([edges.to(points.device).T, itself.expand(2, -1)], dim=1)
            nearest = Graph.from_edge_index(pairs, len(points))
        else:
            k = min(self.neighbors + 1, len(points))
            nearest = Graph.knn(points, k, period=self.period)
        found = {"near": Graph.union(nearest, nearest.reverse())}
        if self.to_queries is not None and queries is not None:
            found["queries"] = self.to_queries.graph(points, queries)
        return found

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Implement `Network.forward`."""
        x, near = points.positions, graphs["near"]
        edges = self._edges(x, x, near, self.radius)
        net = self.passing
        nodes = at_positions(net.node_encoder, self._known(points, features))
        h: Tensor = net.node_decoder(net.processor(nodes, net.edge_encoder(edges), near))
        if self.to_queries is not None and queries is not None:
            h = self.to_queries(points, h, queries, graphs["queries"])
        out: Tensor = self.projection(h)
        return out

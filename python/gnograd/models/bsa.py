# SPDX-License-Identifier: MIT
"""A transformer with ball sparse attention on points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.models.cloud import Cloud
from gnograd.models.network import Network, ToQueries, at_positions, perceptron
from gnograd.torch.ball_sparse_attention import BallSparseAttention
from gnograd.torch.ball_tree import ball_tree_order
from gnograd.torch.graph import Graph

__all__ = ["PointBSA"]


class PointBSA(Network):
    """Layers of `gnograd.torch.BallSparseAttention` [1]_ and of perceptrons.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`. Attention does not know of the period, features of positions do.
    radius : float
        Unit of distances.
    width, heads, layers : int
    ball_size : int
        Points in a ball.

    References
    ----------
    .. [1] Brita et al., "BSA: Ball Sparse Attention for Large-scale Geometries", arXiv:2506.12541,
       2025.
    """

    def __init__(
        self,
        *where: Any,
        radius: float,
        width: int,
        heads: int,
        layers: int,
        ball_size: int,
        **how: Any,
    ) -> None:
        super().__init__(*where, **how)
        self.lift = perceptron(self.coordinate_channels + self.in_channels, 2 * width, width)
        self.attention = nn.ModuleList(
            [
                BallSparseAttention(
                    width, heads, ball_size=ball_size, compress_size=ball_size // 8,
                    position_dim=self.dimension,
                )
                for _ in range(layers)
            ]
        )  # fmt: skip
        self.mixing = nn.ModuleList([perceptron(width, 2 * width, width) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers + 1)])
        self.to_queries = ToQueries(self, width, width, radius) if self.apart else None
        self.projection = perceptron(width, 2 * width, self.out_channels)

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graph from points to queries, if there are queries."""
        if self.to_queries is None or queries is None:
            return {}
        return {"queries": self.to_queries.graph(points, queries)}

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Implement `Network.forward`."""
        order = ball_tree_order(points.positions, points.item)
        x, item, n = points.positions[order], points.item[order], points.n_items
        h = at_positions(self.lift, self._known(points, features))[order]
        for k, (attention, mixing) in enumerate(zip(self.attention, self.mixing, strict=True)):
            step = {"batch": item, "batch_size": n} if n > 1 else {}
            h = h + attention(self.norms[2 * k](h), x, ordered=True, **step)
            h = h + mixing(self.norms[2 * k + 1](h))
        h = self.norms[-1](h)[torch.argsort(order)]
        if self.to_queries is not None and queries is not None:
            h = self.to_queries(points, h, queries, graphs["queries"])
        out: Tensor = self.projection(h)
        return out

# SPDX-License-Identifier: MIT
"""Transolver on points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gnograd.models.cloud import Cloud
from gnograd.models.network import Network, ToQueries, at_positions, perceptron
from gnograd.torch.graph import Graph
from gnograd.torch.transolver import TransolverBlock, TransolverMLP

__all__ = ["PointTransolver"]


class PointTransolver(Network):
    """Transolver [1]_: layers of `gnograd.torch.TransolverBlock`.

    Loads the state dict of PhysicsNeMo's ``Transolver`` (irregular meshes, without time and
    Transformer Engine) whose embedding has ``coordinate_channels``, if results are on the points.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`. Attention does not know of the period, features of positions do.
    radius : float
        Unit of distances to queries.
    width, heads, layers : int
    slices : int
        Slices of the attention.
    mlp_ratio : int
        Hidden width of the perceptrons in units of `width`.
    plus : bool
        Transolver++; see `gnograd.torch.SliceAttention`.

    References
    ----------
    .. [1] Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries",
       arXiv:2402.02366, 2024.

    Examples
    --------
    >>> import torch
    >>> from gnograd.models import Cloud, PointTransolver
    >>> network = PointTransolver(2, 1, 3, radius=1.0, width=32, heads=4, layers=2, slices=16)
    >>> points = Cloud.of([torch.rand(100, 2), torch.rand(50, 2)])
    >>> network(points, torch.rand(150, 1), None, {}).shape
    torch.Size([150, 3])
    """

    def __init__(
        self,
        *where: Any,
        radius: float,
        width: int,
        heads: int,
        layers: int,
        slices: int,
        mlp_ratio: int = 4,
        plus: bool = False,
        **how: Any,
    ) -> None:
        super().__init__(*where, **how)
        channels = self.coordinate_channels + self.in_channels
        self.preprocess = TransolverMLP(channels, 2 * width, width)
        self.blocks = nn.ModuleList(
            [
                TransolverBlock(
                    heads, width, mlp_ratio=mlp_ratio, slice_num=slices, plus=plus,
                    last_layer=not self.apart and k == layers - 1, out_dim=self.out_channels,
                )
                for k in range(layers)
            ]
        )  # fmt: skip
        self.apply(_initialise)
        self.to_queries = ToQueries(self, width, width, radius) if self.apart else None
        self.projection = perceptron(width, 2 * width, self.out_channels) if self.apart else None

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
        borders = points.borders if points.n_items > 1 else None
        h = at_positions(self.preprocess, self._known(points, features))
        for block in self.blocks:
            h = block(h, borders)
        if self.to_queries is not None and self.projection is not None and queries is not None:
            h = self.projection(self.to_queries(points, h, queries, graphs["queries"]))
        return h


def _initialise(module: nn.Module) -> None:
    """Draw the weights of a linear layer as Transolver does."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

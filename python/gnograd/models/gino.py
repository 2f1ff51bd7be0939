# SPDX-License-Identifier: MIT
"""Graph neural operators to a latent grid and back, with Fourier layers on the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gnograd.models.cloud import Cloud, coordinate_features, grid_in
from gnograd.models.network import Network, at_positions, perceptron
from gnograd.models.spectral import SpectralLayer
from gnograd.torch.graph import Graph
from gnograd.torch.layers import GNO

__all__ = ["PointGINO"]


class PointGINO(Network):
    """A geometry-informed neural operator [1]_.

    A graph neural operator layer brings features to a regular grid, Fourier layers process them
    there, and another layer brings them to the queries. If these are the points, the inputs at each
    point are added.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`.
    lower, upper : sequence of float
        Box of the grid.
    side : int
        Points of the grid along its longest axis.
    radius : float
        Typical distance of points: a point of the grid sees points within this, or within the
        spacing of the grid if that is larger.
    width, hidden, layers : int
        Channels, hidden width of the kernel networks, Fourier layers.
    modes : int
        Wave numbers that are kept, as for `SpectralLayer`.

    References
    ----------
    .. [1] Z. Li et al., "Geometry-Informed Neural Operator for Large-Scale 3D PDEs",
       arXiv:2309.00583, 2023.
    """

    grid: Tensor

    def __init__(
        self,
        *where: Any,
        lower: Sequence[float],
        upper: Sequence[float],
        side: int,
        radius: float,
        width: int,
        hidden: int,
        layers: int,
        modes: int,
        **how: Any,
    ) -> None:
        super().__init__(*where, **how)
        grid, self.shape, self.spacing = grid_in(lower, upper, side, self.period)
        self.register_buffer("grid", grid, persistent=False)
        self.reach = max(radius, self.spacing)
        coords = self.dimension + 1
        self.lift = perceptron(self.coordinate_channels + self.in_channels, 2 * width, width)
        self.encoder = GNO(width, width, coords, hidden)
        self.position = nn.Linear(self.coordinate_channels, width)
        self.local = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.spectral = nn.ModuleList(
            [SpectralLayer(width, self.shape, modes) for _ in range(layers)]
        )
        self.decoder = GNO(width, width, coords, hidden)
        self.skip = None if self.apart else nn.Linear(width, width)
        self.projection = perceptron(width, 2 * width, self.out_channels)

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graphs from points to the grid, and from the grid to queries."""
        grid, targets = self.grid.to(points.device), points if queries is None else queries
        return {
            "encode": Graph.radius(points, self.reach, grid, period=self.period),
            # the nearest ones, so that every query has neighbours
            "decode": Graph.knn(grid, 3**self.dimension, targets, period=self.period),
        }

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Implement `Network.forward`."""
        n, targets = points.n_items, points if queries is None else queries
        grid = self.grid.repeat(n, 1)
        lifted = at_positions(self.lift, self._known(points, features))
        to_grid, back = graphs["encode"], graphs["decode"]
        h = self.encoder(lifted, self._edges(points.positions, grid, to_grid, self.reach), to_grid)
        where = at_positions(self.position, coordinate_features(self.grid, self.period))
        h = h + where.repeat(n, 1)
        for local, spectral in zip(self.local, self.spectral, strict=True):
            rows = h.view(n, *self.shape, -1).movedim(-1, 1)
            waves = spectral(rows).movedim(1, -1).reshape(h.shape)
            h = h + gelu(local(h) + waves)
        edges = self._edges(grid, targets.positions, back, self.spacing)
        h = self.decoder(h, edges, back)
        if self.skip is not None and queries is None:
            h = h + self.skip(lifted)
        out: Tensor = self.projection(torch.nn.functional.gelu(h))
        return out

# SPDX-License-Identifier: MIT
"""Multiscale attentional graph neural operators around a transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.models.cloud import Cloud, coordinate_features, grid_in, images_in
from gnograd.models.network import Network, at_positions
from gnograd.torch.graph import Graph
from gnograd.torch.magno import MAGNOConfig, MAGNODecoder, MAGNOEncoder

__all__ = ["PointMAGNO"]


class PointMAGNO(Network):
    """A geometry-aware operator transformer [1]_.

    `gnograd.torch.MAGNOEncoder` brings features to the points of a regular grid, a transformer
    processes them as tokens, and `gnograd.torch.MAGNODecoder` brings them to the queries.

    Parameters
    ----------
    dimension, in_channels, out_channels, period, apart
        As for `Network`.
    lower, upper : sequence of float
        Box of the grid.
    side : int
        Points of the grid along its longest axis.
    scales : sequence of float
        Radii, in units of the spacing of the grid.
    width, hidden : int
        Channels, hidden width of the kernel networks.
    layers, heads : int
        Layers and heads of the transformer.

    References
    ----------
    .. [1] Wen et al., "Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains", arXiv:2505.18781, 2025.
    """

    grid: Tensor

    def __init__(
        self,
        *where: Any,
        lower: Sequence[float],
        upper: Sequence[float],
        side: int,
        scales: Sequence[float],
        width: int,
        hidden: int,
        layers: int,
        heads: int,
        **how: Any,
    ) -> None:
        super().__init__(*where, **how)
        grid, _, self.spacing = grid_in(lower, upper, side, self.period)
        self.register_buffer("grid", grid, persistent=False)
        self.radii = [scale * self.spacing for scale in scales]
        config = MAGNOConfig(
            coord_dim=self.dimension, radius=self.spacing, scales=list(scales), hidden_size=hidden,
            mlp_layers=1, lifting_channels=width, precompute_edges=True,
        )  # fmt: skip
        known = self.coordinate_channels + self.in_channels
        self.encoder = MAGNOEncoder(known, width, config)
        self.position = nn.Linear(self.coordinate_channels, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.processor = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = MAGNODecoder(width, width, config)
        self.skip = None if self.apart else nn.Linear(known, width)
        self.projection = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, self.out_channels)
        )

    def graphs(
        self, points: Tensor, queries: Tensor | None, edges: Tensor | None = None
    ) -> dict[str, Graph]:
        """Graphs of encoder and decoder for every scale; sources are points and their images."""
        grid, targets = self.grid.to(points.device), points if queries is None else queries
        around, latent = self._around_grid(points)[1], self._around_targets(grid)[1]
        found = {}
        for k, radius in enumerate(self.radii):
            found[f"encode {k}"] = Graph.radius(around, radius, grid)
            found[f"decode {k}"] = Graph.radius(latent, radius, targets)
        return found

    # Kernels take positions, not differences, so that images behind a periodic border are sources.

    def _around_grid(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Points that the grid sees, with images: their numbers and positions."""
        grid, reach = self.grid.to(points), max(self.radii)
        return images_in(points, grid.amin(0) - reach, grid.amax(0) + reach, self.period)

    def _around_targets(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        """Points of the grid that targets anywhere in the box may see, with images."""
        half = grid.new_tensor(self.period or [0.0] * self.dimension) / 2
        reach = max(self.radii)
        return images_in(grid, -half - reach, half + reach, self.period)

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """Implement `Network.forward`."""
        targets = points if queries is None else queries
        known = self._known(points, features)
        of_items = {name: graph.unbatch() for name, graph in graphs.items()}
        scales = range(len(self.radii))
        latent = []
        rows = known.split(points.borders.diff().tolist())
        for k, (x, f) in enumerate(zip(points.items(), rows, strict=True)):
            near = [of_items[f"encode {s}"][k] for s in scales]
            index, around = self._around_grid(x)
            latent.append(self.encoder(around, f[index][None], self.grid, near))
        where = at_positions(self.position, coordinate_features(self.grid, self.period))
        tokens = self.processor(torch.cat(latent) + where)
        index, around = self._around_targets(self.grid)
        out = []
        for k, x in enumerate(targets.items()):
            near = [of_items[f"decode {s}"][k] for s in scales]
            out.append(self.decoder(around, tokens[k : k + 1, index], x, near)[0])
        h = torch.cat(out)
        if self.skip is not None and queries is None:
            h = h + at_positions(self.skip, known)
        made: Tensor = self.projection(h)
        return made

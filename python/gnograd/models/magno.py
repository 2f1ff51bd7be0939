# SPDX-License-Identifier: MIT
"""Multiscale attentional graph neural operators around a transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.models.cloud import Cloud, coordinate_features, edge_features, grid_in, images_in
from gnograd.models.network import Network, at_positions
from gnograd.torch import functional
from gnograd.torch.geometric_embedding import GeometricEmbedding
from gnograd.torch.graph import Graph
from gnograd.torch.layers import GNO

__all__ = ["PointMAGNO"]


class PointMAGNO(Network):
    """A geometry-aware operator transformer [1]_.

    Attention over neighbourhoods brings features to the points of a regular grid, a transformer
    processes them as tokens, and attention over neighbourhoods brings them to the queries.

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
        known = self.coordinate_channels + self.in_channels
        self.lift = nn.Linear(known, width)
        self.encoder = _Transform(self.dimension, width, hidden, self.spacing)
        self.position = nn.Linear(self.coordinate_channels, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.processor = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = _Transform(self.dimension, width, hidden, self.spacing)
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

    # Shapes of neighbourhoods are those of positions, so that images behind a border are sources.

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
        n, scales = points.n_items, range(len(self.radii))
        seen = [self._around_grid(x) for x in points.items()]
        starts = points.borders[:-1].tolist()
        index = torch.cat([start + i for start, (i, _) in zip(starts, seen, strict=True)])
        h = self.encoder(
            [around for _, around in seen], at_positions(self.lift, known)[index], n * [self.grid],
            [graphs[f"encode {k}"] for k in scales],
        )  # fmt: skip
        where = at_positions(self.position, coordinate_features(self.grid, self.period))
        tokens = self.processor(h.view(n, *where.shape) + where)
        index, around = self._around_targets(self.grid)
        h = self.decoder(
            n * [around], tokens[:, index].flatten(0, 1), targets.items(),
            [graphs[f"decode {k}"] for k in scales],
        )  # fmt: skip
        if self.skip is not None and queries is None:
            h = h + at_positions(self.skip, known)
        made: Tensor = self.projection(h)
        return made


class _Transform(nn.Module):
    """Integrals over neighbourhoods of several radii, and embeddings of their shapes, averaged.

    Kernels and weights are functions of differences of positions in units of the grid's spacing,
    unlike those of `gnograd.torch.MAGNOEncoder`: from positions in the whole box, among which those
    of neighbours hardly differ, a derivative is not learned.

    Parameters
    ----------
    dimension : int
    width, hidden : int
        Channels, hidden width of the kernel network.
    length : float
        Unit of differences.
    """

    def __init__(self, dimension: int, width: int, hidden: int, length: float) -> None:
        super().__init__()
        self.length = length
        self.kernel = GNO(width, width, dimension + 1, hidden, reduction="sum", kernel="diagonal")
        self.score = nn.Linear(dimension + 1, 1, bias=False)
        self.geoembed = GeometricEmbedding(dimension, width)
        self.recovery = nn.Linear(2 * width, width)

    def forward(
        self, sources: list[Tensor], f: Tensor, queries: list[Tensor], graphs: list[Graph]
    ) -> Tensor:
        """Features (n_queries, width), from those (n_sources, width) at sources, of all items."""
        x, y = torch.cat(queries), torch.cat(sources)
        parts = []
        for graph in graphs:
            edges = edge_features(y, x, graph, self.length)
            weight = functional.edge_softmax(at_positions(self.score, edges), graph=graph)
            found = self.kernel(f, edges, graph, weight[:, 0])
            shapes = [
                self.geoembed(*item) for item in zip(sources, queries, graph.unbatch(), strict=True)
            ]
            parts.append(self.recovery(torch.cat([found, torch.cat(shapes)], dim=1)))
        return torch.stack(parts).mean(dim=0)

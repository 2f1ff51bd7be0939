# SPDX-License-Identifier: MIT
"""Models of neuraloperator and PyG as networks on points, as their users write them.

They are networks of `gnograd.models`, so that normalisation, batches and loss are those of the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from neuraloperator import segment_sum
from torch import Tensor, nn

from gnograd.models import Cloud, Network
from gnograd.models.cloud import grid_in
from gnograd.models.mgn import PointMeshGraphNet
from gnograd.models.network import perceptron
from gnograd.torch.graph import Graph

__all__ = ["PEERS"]

MODES = {1: 24, 2: 12, 3: 6}
"""Modes of FNO along an axis, by dimension."""


class FNO(Network):
    """neuraloperator's FNO on points that are regular grids, row by row.

    Coordinates are channels, as the boxes of samples may differ.
    """

    def __init__(self, *where: Any, width: int, layers: int, **how: Any) -> None:
        from neuralop.models import FNO as TheirFNO

        super().__init__(*where, period=how["period"])
        self.fno = TheirFNO(
            n_modes=(MODES[self.dimension],) * self.dimension,
            in_channels=self.coordinate_channels + self.in_channels,
            out_channels=self.out_channels,
            hidden_channels=width,
            n_layers=layers,
            positional_embedding=None,
        )
        self.register_state_dict_post_hook(_tensors_alone)

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """See `Network.forward`."""
        known = self._known(points, features)
        n_points = len(known) // points.n_items
        side = round(n_points ** (1 / self.dimension))
        rows = known.view(points.n_items, *self.dimension * [side], -1).movedim(-1, 1)
        made: Tensor = self.fno(rows)
        return made.movedim(1, -1).reshape(len(known), -1)


class GINO(Network):
    """neuraloperator's GINO, on the latent grid of gnograd's.

    It takes samples on points of their own one by one, and finds neighbours anew in every step.
    Its sum over neighbours is here `torch.segment_reduce`, as fast as that of torch_scatter.
    """

    latent: Tensor

    def __init__(self, *where: Any, width: int, layers: int, **how: Any) -> None:
        import neuralop.layers.integral_transform as transform
        from neuralop.models import GINO as TheirGINO

        transform.segment_csr = segment_sum
        super().__init__(*where, period=how["period"])
        grid, shape, spacing = grid_in(how["lower"], how["upper"], how["side"], self.period)
        self.register_buffer("latent", grid.view(1, *shape, self.dimension), persistent=False)
        reach = max(how["radius"], spacing)
        known = self.coordinate_channels + self.in_channels
        self.gino = TheirGINO(
            in_channels=known,
            out_channels=self.out_channels,
            gno_coord_dim=self.dimension,
            in_gno_radius=reach,
            out_gno_radius=reach,
            fno_in_channels=known,  # those that a linear kernel gives
            fno_n_modes=(2 * how["modes"],) * self.dimension,
            fno_hidden_channels=width,
            fno_n_layers=layers,
            in_gno_channel_mlp_hidden_layers=[32, 32],
            out_gno_channel_mlp_hidden_layers=[32, 32],
            gno_use_open3d=False,
        )
        self.register_state_dict_post_hook(_tensors_alone)

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """See `Network.forward`."""
        rows = self._known(points, features).split(points.borders.diff().tolist())
        made = [
            self.gino(x[None], self.latent, x, f[None])[0]
            for x, f in zip(points.items(), rows, strict=True)
        ]
        return torch.cat(made)


class MeshGraphNet(Network):
    """A MeshGraphNet of PyG's MessagePassing, on the edges and with the sizes of gnograd's."""

    def __init__(self, *where: Any, width: int, layers: int, **how: Any) -> None:
        from torch_geometric.nn import MessagePassing

        class Block(MessagePassing):
            """New features of edges, their mean, new features of nodes."""

            def __init__(self) -> None:
                super().__init__(aggr="mean")
                self.of_edges = _normed(3 * width, width)
                self.of_nodes = _normed(2 * width, width)

            def forward(self, h: Tensor, e: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
                e = e + self.edge_updater(index, h=h, e=e)
                return h + self.of_nodes(torch.cat([self.propagate(index, h=h, e=e), h], 1)), e

            def edge_update(self, h_i: Tensor, h_j: Tensor, e: Tensor) -> Tensor:
                made: Tensor = self.of_edges(torch.cat([e, h_j, h_i], dim=1))
                return made

            def message(self, e: Tensor) -> Tensor:
                return e

        super().__init__(*where, period=how["period"])
        self.radius, self.neighbors = how["radius"], how["neighbors"]
        self.nodes = _normed(self.coordinate_channels + self.in_channels, width)
        self.edges = _normed(self.dimension + 1, width)
        self.blocks = nn.ModuleList([Block() for _ in range(layers)])
        self.projection = perceptron(width, width, self.out_channels)

    graphs = PointMeshGraphNet.graphs
    to_queries = None

    def forward(
        self, points: Cloud, features: Tensor, queries: Cloud | None, graphs: Mapping[str, Graph]
    ) -> Tensor:
        """See `Network.forward`."""
        x, near = points.positions, graphs["near"]
        index = torch.stack([near.src, near.dst])
        h = self.nodes(self._known(points, features))
        e = self.edges(self._edges(x, x, near, self.radius))
        for block in self.blocks:
            h, e = block(h, e, index)
        made: Tensor = self.projection(h)
        return made


def _tensors_alone(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Drop what neuraloperator adds to a state dict beside tensors."""
    state.pop("_metadata", None)


def _normed(before: int, width: int) -> nn.Sequential:
    return nn.Sequential(*perceptron(before, width, width), nn.LayerNorm(width))


PEERS: dict[str, tuple[type[Network], str]] = {
    "neuraloperator FNO": (FNO, "gino"),
    "neuraloperator GINO": (GINO, "gino"),
    "PyG MeshGraphNet": (MeshGraphNet, "mgn"),
}
"""Networks by name, and the model of gnograd whose sizes they have."""

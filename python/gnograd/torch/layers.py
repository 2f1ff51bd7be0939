# SPDX-License-Identifier: MIT
"""PyTorch modules around the graph neural operator and aggregation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnograd.notation.static import choice
from gnograd.operators.aggregation import AGGREGATIONS
from gnograd.operators.gno import gno
from gnograd.torch import functional
from gnograd.torch.arrays import need_positive
from gnograd.torch.edges import Edges, graph_of
from gnograd.torch.graph import AnyGraph

__all__ = ["GNO", "WeightedAggregation", "gno_pack_layers"]


def gno_pack_layers(layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Hidden layers of a kernel network in one vector, ``[U_1 | b_1 | U_2 | b_2 | ...]``.

    Parameters
    ----------
    layers : list of (U, b)
        Weights, (width before, width), and biases, (width,).

    Returns
    -------
    packed : Tensor, (n,)
        Differentiable with respect to all of them.

    Raises
    ------
    ValueError
        Widths that do not fit each other.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import gno_pack_layers
    >>> U, b = torch.ones(2, 3, requires_grad=True), torch.zeros(3)
    >>> packed = gno_pack_layers([(U, b), (torch.ones(3, 1), torch.zeros(1))])
    >>> packed.shape, packed.requires_grad
    (torch.Size([13]), True)
    """
    before = None
    for k, (U, b) in enumerate(layers, 1):
        if U.dim() != 2 or (before is not None and U.shape[0] != before):
            raise ValueError(
                f"gno_pack_layers: U_{k} has shape {tuple(U.shape)}, "
                f"needs ({'width before' if before is None else before}, width)"
            )
        before = U.shape[1]
        if b.shape != (before,):
            raise ValueError(
                f"gno_pack_layers: b_{k} has shape {tuple(b.shape)}, needs ({before},)"
            )
    return torch.cat([part.reshape(-1) for layer in layers for part in layer])


class GNO(nn.Module):
    """Graph neural operator layer: features integrated against a learned kernel of the geometry.

    Parameters
    ----------
    in_channels, out_channels : int
        Features of sources and destinations; equal for the diagonal kernel.
    coord_dim : int
        Number of coordinates of an edge, for example those of ``x_i - x_j``.
    hidden_channels : int
        Hidden width of the kernel network.
    activation : {"relu", "gelu", "silu", "tanh", "sin", "identity"}
    reduction : {"sum", "mean"}
    kernel : {"full", "diagonal"}

    Examples
    --------
    >>> import gnograd as gg
    >>> import gnograd.torch, torch
    >>> x = torch.rand(100, 2)
    >>> graph = gg.Graph.radius(x.numpy(), 0.2)
    >>> src, dst = torch.tensor(graph.src), torch.tensor(graph.dst)
    >>> layer = gnograd.torch.GNO(3, 5, coord_dim=2)
    >>> layer(torch.rand(100, 3), x[dst] - x[src], graph).shape
    torch.Size([100, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        coord_dim: int,
        hidden_channels: int = 64,
        activation: str = "gelu",
        reduction: str = "mean",
        kernel: str = "full",
    ) -> None:
        super().__init__()
        need_positive(
            "GNO", in_channels=in_channels, out_channels=out_channels, coord_dim=coord_dim,
            hidden_channels=hidden_channels,
        )  # fmt: skip
        if kernel == "diagonal" and in_channels != out_channels:
            raise ValueError(
                f"GNO: a diagonal kernel needs in_channels == out_channels, "
                f"got {in_channels} and {out_channels}"
            )
        self.activation = gno.convert("activation", activation)
        self.reduction = gno.convert("reduction", reduction)
        self.kernel = gno.convert("kernel", kernel)
        features = (in_channels,) if kernel == "diagonal" else (in_channels, out_channels)
        self.U = nn.Parameter(torch.empty(coord_dim, hidden_channels))
        self.b_u = nn.Parameter(torch.empty(hidden_channels))
        self.V = nn.Parameter(torch.empty(hidden_channels, *features))
        self.b_v = nn.Parameter(torch.empty(features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, scaled so that outputs are as large as the features."""
        d, hidden = self.U.shape
        bound = d**-0.5
        nn.init.uniform_(self.U, -bound, bound)
        nn.init.uniform_(self.b_u, -bound, bound)
        fan_in = self.V.shape[1] if self.kernel == "full" else 1
        nn.init.normal_(self.V, std=(hidden * fan_in) ** -0.5)
        nn.init.zeros_(self.b_v)

    def forward(
        self, h: Tensor | None, coords: Tensor, graph: AnyGraph, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        h : Tensor, (..., n_src, in_channels), or None
            None is 1, for the diagonal kernel only. Leading axes are a batch of functions, for
            which the kernel network is evaluated once.
        coords : Tensor, (n_edges, coord_dim)
        graph : Graph
            Graph of tensors or of NumPy arrays.
        edge_weight : Tensor, (n_edges,), optional

        Returns
        -------
        Tensor, (..., n_dst, out_channels)
        """
        out: Tensor = functional.gno(
            h, coords, self.U, self.b_u, self.V, self.b_v, edge_weight,
            graph=graph, activation=self.activation, reduction=self.reduction, kernel=self.kernel,
        )  # fmt: skip
        return out


class WeightedAggregation(nn.Module):
    """Aggregation of neighbours, each times its edge's weight.

    Parameters
    ----------
    aggr : {"sum", "add", "mean", "min", "max"}
        The mean divides by the sum of the weights.
    """

    def __init__(self, aggr: str = "sum") -> None:
        super().__init__()
        choice("WeightedAggregation: aggr", aggr, {**AGGREGATIONS, "add": AGGREGATIONS["sum"]})
        self.aggregation = {"add": "sum"}.get(aggr, aggr)

    def forward(self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """Aggregate ``x (n_src, D)`` with ``edge_weight (n_edges,)``, ones when left out."""
        graph = graph_of(edge_index, len(x), len(x))
        if edge_weight is None:
            edge_weight = x.new_ones(graph.n_edges)
        out: Tensor = functional.agg_weighted(
            x, edge_weight, graph=graph, aggregation=self.aggregation
        )
        return out

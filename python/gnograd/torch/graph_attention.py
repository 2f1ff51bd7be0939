# SPDX-License-Identifier: MIT
"""Base of layers with attention along edges: heads, edge features, attention weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnograd.torch.conv import CallInputs, Convolution, Pair
from gnograd.torch.dropout import dropout_factors
from gnograd.torch.edges import Edges, used_rows, without_free_rows
from gnograd.torch.linear import Linear

__all__ = ["Attention"]


class Attention(Convolution):
    """Base of the attention layers: heads, edges and their features, attention weights."""

    lin_edge: Linear | None

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int,
        concat: bool,
        dropout: float,
        edge_dim: int | None,
        options: dict[str, Any],
    ) -> None:
        super().__init__(**{"node_dim": 0} | options)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.heads, self.concat, self.dropout, self.edge_dim = heads, concat, dropout, edge_dim
        pair = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.n_src_features, self.n_dst_features = pair
        self.width = out_channels * (heads if concat else 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does."""
        for module in self.children():
            if isinstance(module, Linear):
                module.reset_parameters()

    def normalise_inputs(
        self,
        x: Pair,
        edge_index: Edges,
        size: tuple[int, int] | None = None,
        self_loops: bool = False,
        edge_attr: Tensor | None = None,
    ) -> CallInputs:
        """`Convolution.take` with edge features, which may be the values of a sparse matrix."""
        call = super().normalise_inputs(x, edge_index, size, self_loops)
        if edge_attr is None and call.values is not None and call.values.dim() > 1:
            edge_attr = call.values
        if edge_attr is not None:
            if self.edge_dim is None:
                name = type(self).__name__
                raise ValueError(f"{name}: edge_attr goes with edge_dim: give both or none")
            if edge_attr.dim() == 1:
                edge_attr = edge_attr[:, None]
        return call._replace(edge_attr=edge_attr)

    def features_of_edges(self, call: CallInputs) -> Tensor | None:
        """Projected edge features, if there are any."""
        if call.edge_attr is None or self.lin_edge is None:
            return None
        out: Tensor = self.lin_edge(without_free_rows(call.edge_attr, call.graph))
        return out

    def destinations(self, call: CallInputs) -> Tensor:
        """Features of the destinations; an error if there are none."""
        if call.x_dst is None:
            raise TypeError(f"{type(self).__name__}: x has no features of destinations")
        return call.x_dst

    def heads_of(self, x: Tensor) -> Tensor:
        """Features by heads, (n, heads, out_channels)."""
        return x.view(-1, self.heads, self.out_channels)

    def draw(self, like: Tensor) -> dict[str, Any]:
        """Arguments for dropout: in training a new seed, from PyTorch's generator of the device."""
        if not self.training or self.dropout == 0:
            return {}
        return {
            "dropout": self.dropout,
            "seed": torch.randint(2**63 - 1, (1,), device=like.device),
        }

    def with_weights(
        self,
        out: Tensor,
        call: CallInputs,
        scores: Tensor,
        ends: tuple[Tensor, Tensor],
        dropped: dict[str, Any],
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The result with the edges and the attention weights, as PyG returns them."""
        used = used_rows(call.graph, out.device)
        src, dst, scores = ends[0][used], ends[1][used], scores[used]
        n_dst = len(out)
        rows = dst[:, None].expand_as(scores)
        highest = scores.detach().new_zeros(n_dst, self.heads)
        highest = highest.scatter_reduce(0, rows, scores.detach(), "amax", include_self=False)
        exponentials = (scores - highest[dst]).exp()
        total = torch.zeros_like(highest).index_add(0, dst, exponentials)
        alpha = exponentials / total[dst]
        if dropped:
            factors = dropout_factors(n_edges=len(used), num_heads=self.heads, **dropped)
            alpha = alpha * factors[used].to(alpha)
        if self.backwards:
            src, dst = dst, src
        if call.layout is not None:
            return out, _matrix(src, dst, alpha, (n_dst, len(call.x_src)), call.layout)
        edges = torch.stack([src, dst]) if call.edge_index is None else call.edge_index
        return out, (edges, alpha)


def _matrix(
    src: Tensor, dst: Tensor, alpha: Tensor, shape: tuple[int, int], layout: torch.layout
) -> tuple[Tensor, Tensor]:
    """Sparse matrix of the weights, (n_dst, n_src, heads), and the weights in its order."""
    first, second = (src, dst) if layout == torch.sparse_csc else (dst, src)
    order = (first * max(shape) + second).argsort(stable=True)
    rows, alpha = torch.stack([dst, src])[:, order], alpha[order]
    matrix = torch.sparse_coo_tensor(rows, alpha, (*shape, alpha.shape[1]))
    return matrix if layout == torch.sparse_coo else matrix.to_sparse(layout=layout), alpha

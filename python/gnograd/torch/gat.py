# SPDX-License-Identifier: MIT
"""Graph attention layers with PyG's arguments.

They hold parameters of the same names and shapes, so that PyG's ``state_dict`` loads as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.edges import (
    Edges,
    ends_of,
    entries_of,
    graph_from_edge_index,
    used_rows,
    with_self_loops,
)
from gnograd.torch.graph import AnyGraph

__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]

Pair: TypeAlias = "Tensor | tuple[Tensor, Tensor | None]"


class _Input(NamedTuple):
    """What a call of an attention layer is about."""

    x_src: Tensor
    x_dst: Tensor | None
    graph: AnyGraph
    edge_attr: Tensor | None
    """Rows of edge features, (n_edges, edge_dim)."""
    edge_index: Tensor | None
    """The edges where they came so and no others were added."""
    as_matrix: bool
    """Whether they came as a sparse matrix."""


class _Attention(nn.Module):
    """What the attention layers share: heads, edges and their features, the weights themselves."""

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int,
        concat: bool,
        dropout: float,
        edge_dim: int | None,
    ) -> None:
        super().__init__()
        self.add_self_loops = False
        self.in_channels, self.out_channels = in_channels, out_channels
        self.heads, self.concat, self.dropout, self.edge_dim = heads, concat, dropout, edge_dim
        self.lin_edge = (
            None if edge_dim is None else nn.Linear(edge_dim, heads * out_channels, bias=False)
        )
        pair = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.n_src_features, self.n_dst_features = pair
        self.width = out_channels * (heads if concat else 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"

    def take(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None,
        size: tuple[int, int] | None = None,
    ) -> _Input:
        """Bring the arguments of a call into one form."""
        name = type(self).__name__
        if self.training and self.dropout > 0:
            raise NotImplementedError(
                f"{name}: there is no dropout of attention weights yet, and dropout is "
                f"{self.dropout}; train with dropout=0, or call eval() to predict"
            )
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        n_src = len(x_src)
        n_dst = len(x_dst) if x_dst is not None else n_src if size is None else size[1]
        if size is not None and tuple(size) != (n_src, n_dst):
            raise ValueError(
                f"{name}: size is {tuple(size)}, but x has {n_src} sources and {n_dst} destinations"
            )
        given: Tensor | None = None
        as_matrix = False
        if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
            as_matrix = True
            edge_index, values = entries_of(edge_index, n_src, n_dst)
            if edge_attr is None and values.dim() > 1:
                edge_attr = values
        graph: AnyGraph
        if isinstance(edge_index, Tensor):
            given = edge_index
            # features of loops are made from those of other edges, which need a graph of their own
            self_loops = True if self.add_self_loops and edge_attr is None else None
            graph = graph_from_edge_index(edge_index, n_src, n_dst, self_loops)
        else:
            graph = edge_index
        if (edge_attr is None) != (self.lin_edge is None):
            raise ValueError(f"{name}: edge_attr goes with edge_dim: give both or none")
        if edge_attr is not None and edge_attr.dim() == 1:
            edge_attr = edge_attr[:, None]
        return _Input(x_src, x_dst, graph, edge_attr, given, as_matrix)

    def heads_of(self, x: Tensor) -> Tensor:
        """Features by heads, (n, heads, out_channels)."""
        return x.view(-1, self.heads, self.out_channels)

    def with_weights(
        self, out: Tensor, given: _Input, scores: Tensor, ends: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The result with the edges and the attention weights, as PyG returns them."""
        src, dst = ends
        used = used_rows(given.graph, out.device)
        src, dst, scores = src[used], dst[used], scores[used]
        n_dst = len(out)
        rows = dst[:, None].expand_as(scores)
        highest = scores.detach().new_zeros(n_dst, self.heads)
        highest = highest.scatter_reduce(0, rows, scores.detach(), "amax", include_self=False)
        exponentials = (scores - highest[dst]).exp()
        total = torch.zeros_like(highest).index_add(0, dst, exponentials)
        alpha = exponentials / total[dst]
        if given.as_matrix:
            shape = (n_dst, len(given.x_src), self.heads)
            matrix = torch.sparse_coo_tensor(torch.stack([dst, src]), alpha, shape)
            return out, (matrix, alpha)
        edges = torch.stack([src, dst]) if given.edge_index is None else given.edge_index
        return out, (edges, alpha)


class _SelfLoopAttention(_Attention):
    """`GATConv` and `GATv2Conv`: attention after one projection, with self-loops."""

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int,
        concat: bool,
        negative_slope: float,
        dropout: float,
        add_self_loops: bool,
        edge_dim: int | None,
        fill_value: float | Tensor | str,
        bias: bool,
        residual: bool,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim)
        self.negative_slope, self.residual = negative_slope, residual
        self.add_self_loops, self.fill_value = add_self_loops, fill_value
        self.res = nn.Linear(self.n_dst_features, self.width, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(self.width)) if bias else None

    def take(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None,
        size: tuple[int, int] | None = None,
    ) -> _Input:
        """The same, with self-loops if asked for."""
        given = super().take(x, edge_index, edge_attr, size)
        if not self.add_self_loops:
            return given
        if given.edge_index is not None and given.edge_attr is None:
            return given._replace(edge_index=None)  # the graph has them
        graph, edge_attr = with_self_loops(given.graph, given.edge_attr, self.fill_value)
        return given._replace(graph=graph, edge_attr=edge_attr, edge_index=None)

    def finish(self, out: Tensor, x_dst: Tensor | None) -> Tensor:
        """Add residual and bias."""
        if self.res is not None and x_dst is not None:
            out = out + self.res(x_dst)
        return out if self.bias is None else out + self.bias

    def reset_parameters(self) -> None:
        """Glorot for weights, zeros for biases, as PyG does."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for name, parameter in self.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)


class GATConv(_SelfLoopAttention):
    """Graph attention [1]_; PyG's ``GATConv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations.
    out_channels : int
        Features of a head.
    heads : int
    concat : bool
        Heads side by side, or their mean.
    negative_slope : float
        Of LeakyReLU.
    dropout : float
        Of attention weights, in training. There is none yet: with more than 0 the layer predicts,
        but does not train.
    add_self_loops : bool
        Exactly one self-loop a node. Under ``torch.compile(fullgraph=True)`` use False, with
        `with_self_loops` once beforehand.
    edge_dim : int, optional
        Width of the edge features, if there are any.
    fill_value : float, Tensor or str
        Edge features of the self-loops, as in `with_self_loops`.
    bias, residual : bool

    References
    ----------
    .. [1] Velickovic et al., Graph Attention Networks, arXiv:1710.10903, 2018.

    Examples
    --------
    >>> import gnograd.torch, torch
    >>> layer = gnograd.torch.GATConv(16, 8, heads=4)
    >>> layer
    GATConv(16, 8, heads=4)
    >>> layer(torch.rand(10, 16), torch.randint(10, (2, 50))).shape
    torch.Size([10, 32])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        residual: bool = False,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops,
            edge_dim, fill_value, bias, residual,
        )  # fmt: skip
        width = heads * out_channels
        if isinstance(in_channels, int):
            self.lin = nn.Linear(in_channels, width, bias=False)
        else:
            self.lin_src = nn.Linear(in_channels[0], width, bias=False)
            self.lin_dst = nn.Linear(in_channels[1], width, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_edge = (
            None if edge_dim is None else nn.Parameter(torch.empty(1, heads, out_channels))
        )
        self.reset_parameters()

    def forward(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        size: tuple[int, int] | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (n_nodes, in_channels), or a pair for sources and destinations
            Of destinations that are None, nothing enters scores and residual.
        edge_index : Graph, or Tensor of int64, (2, n_edges), or sparse Tensor, (n_dst, n_src)
            A sparse matrix of more than two dimensions carries the edge features.
        edge_attr : Tensor, (n_edges, edge_dim), optional
        size : tuple of int, optional
            Numbers of sources and destinations, for destinations that are None.
        return_attention_weights : bool, optional
            Return ``(edge_index, alpha)`` too, with alpha (n_edges, heads), of all edges, the
            self-loops among them. It is computed apart and takes memory of a number an edge and
            head.

        Returns
        -------
        Tensor, (n_dst, heads * out_channels), or (n_dst, out_channels) without `concat`
            Or a pair, with `return_attention_weights`.
        """
        given = self.take(x, edge_index, edge_attr, size)
        x_src, x_dst, graph, edge_attr, *_ = given
        e = None if edge_attr is None or self.lin_edge is None else self.lin_edge(edge_attr)
        shared = isinstance(self.in_channels, int)
        h_src = self.lin(x_src) if shared else self.lin_src(x_src)
        if x_dst is None:
            h_dst = h_src.new_zeros(graph.n_dst, h_src.shape[1])
        elif shared:
            h_dst = h_src if x_dst is x_src else self.lin(x_dst)
        else:
            h_dst = self.lin_dst(x_dst)
        attention: list[Tensor] = [self.att_src, self.att_dst]
        if self.att_edge is not None:
            attention.append(self.att_edge)
        out = functional.mha_gat(
            h_src, h_dst, torch.cat(attention).flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope,
        )  # fmt: skip
        out = self.finish(out, x_dst)
        if not return_attention_weights:
            return out
        src, dst = ends_of(graph, out.device)
        scores = (self.heads_of(h_src) * self.att_src).sum(-1)[src]
        scores = scores + (self.heads_of(h_dst) * self.att_dst).sum(-1)[dst]
        if e is not None and self.att_edge is not None:
            scores = scores + (self.heads_of(e) * self.att_edge).sum(-1)
        scores = nn.functional.leaky_relu(scores, self.negative_slope)
        return self.with_weights(out, given, scores, (src, dst))


class GATv2Conv(_SelfLoopAttention):
    """Graph attention with the nonlinearity inside [1]_; PyG's ``GATv2Conv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations.
    out_channels : int
        Features of a head.
    heads, concat, negative_slope, dropout, add_self_loops, edge_dim, fill_value, bias, residual
        As in `GATConv`.
    share_weights : bool
        One projection for sources and destinations.

    References
    ----------
    .. [1] Brody, Alon, Yahav, How Attentive are Graph Attention Networks?, arXiv:2105.14491, 2022.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        share_weights: bool = False,
        residual: bool = False,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops,
            edge_dim, fill_value, bias, residual,
        )  # fmt: skip
        width = heads * out_channels
        self.share_weights = share_weights
        self.lin_l = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_r = (
            self.lin_l if share_weights else nn.Linear(self.n_dst_features, width, bias=bias)
        )
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def forward(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        given = self.take(x, edge_index, edge_attr)
        x_src, x_dst, graph, edge_attr, *_ = given
        x_dst = _destinations(self, x_dst)
        e = None if edge_attr is None or self.lin_edge is None else self.lin_edge(edge_attr)
        h_src, h_dst = self.lin_l(x_src), self.lin_r(x_dst)
        out = functional.mha_gat_v2(
            h_src, h_dst, self.att.flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope,
        )  # fmt: skip
        out = self.finish(out, x_dst)
        if not return_attention_weights:
            return out
        src, dst = ends_of(graph, out.device)
        sums = h_src[src] + h_dst[dst]
        sums = nn.functional.leaky_relu(sums if e is None else sums + e, self.negative_slope)
        scores = (self.heads_of(sums) * self.att).sum(-1)
        return self.with_weights(out, given, scores, (src, dst))


class TransformerConv(_Attention):
    """Dot-product attention along edges [1]_; PyG's ``TransformerConv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations.
    out_channels : int
        Features of a head.
    heads, concat, dropout, edge_dim, bias
        As in `GATConv`.
    beta : bool
        Gate between the aggregation and the root node.
    root_weight : bool
        Add the projected root node.

    References
    ----------
    .. [1] Shi et al., Masked Label Prediction, arXiv:2009.03509, 2021.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim)
        width = heads * out_channels
        self.beta, self.root_weight = beta and root_weight, root_weight
        self.lin_key = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_query = nn.Linear(self.n_dst_features, width, bias=bias)
        self.lin_value = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_skip = nn.Linear(self.n_dst_features, self.width, bias=bias)
        self.lin_beta = nn.Linear(3 * self.width, 1, bias=False) if self.beta else None

    def reset_parameters(self) -> None:
        """Draw new parameters, as `torch.nn.Linear` does, and PyG."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    def forward(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        given = self.take(x, edge_index, edge_attr)
        x_src, x_dst, graph, edge_attr, *_ = given
        x_dst = _destinations(self, x_dst)
        e = None if edge_attr is None or self.lin_edge is None else self.lin_edge(edge_attr)
        q, k = self.lin_query(x_dst), self.lin_key(x_src)
        out: Tensor = functional.mha_simple(
            q, k, self.lin_value(x_src), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
        )  # fmt: skip
        if self.root_weight:
            root = self.lin_skip(x_dst)
            if self.lin_beta is None:
                out = out + root
            else:
                gate = self.lin_beta(torch.cat([out, root, out - root], dim=-1)).sigmoid()
                out = gate * root + (1 - gate) * out
        if not return_attention_weights:
            return out
        src, dst = ends_of(graph, out.device)
        keys = k[src] if e is None else k[src] + e
        scores = (self.heads_of(q[dst]) * self.heads_of(keys)).sum(-1) / self.out_channels**0.5
        return self.with_weights(out, given, scores, (src, dst))


def _destinations(layer: _Attention, x_dst: Tensor | None) -> Tensor:
    if x_dst is None:
        raise TypeError(f"{type(layer).__name__}: x has no features of destinations")
    return x_dst

# SPDX-License-Identifier: MIT
"""Graph convolution with PyG's arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.conv import CallInputs, Convolution
from gnograd.torch.edges import Edges, ends_of, graph_from_edge_index, used_rows, with_self_loops
from gnograd.torch.graph import AnyGraph
from gnograd.torch.linear import Linear

__all__ = ["GCNConv"]


class _Propagation(NamedTuple):
    """The matrix ``diag(scale) A diag(scale)``, where A is the adjacency matrix of a graph."""

    graph: AnyGraph
    weight: Tensor | None
    """Values of A, (n_edges,); None for ones."""
    scale: Tensor | None
    """Factors of the rows and columns, (n_nodes,); None for ones"""

    def apply(self, x: Tensor) -> Tensor:
        """Product of the matrix with x, (n_nodes, D)."""
        scale = None if self.scale is None else self.scale[:, None].to(x.dtype)
        x = x if scale is None else scale * x
        if self.weight is None:
            out = functional.agg_simple(x, graph=self.graph)
        else:
            out = functional.agg_weighted(x, self.weight.to(x.dtype), graph=self.graph)
        return out if scale is None else scale * out


class GCNConv(Convolution):
    r"""Graph convolution [1]_; PyG's ``GCNConv``.

    ``out[i] = b + W sum_e w[e] x[j] / sqrt(d[i] d[j])`` over the edges ``e = (j -> i)``, where
    ``d[i]`` is the sum of the weights of the edges that end at i.

    Parameters
    ----------
    in_channels : int
        Features of a node; -1 to take them from the first input.
    out_channels : int
    improved : bool
        Give added self-loops the weight 2, not 1. As in PyG, without edge weights all edges have
        the weight 1 nevertheless.
    cached : bool
        Keep graph and degrees of the first call for all further ones, whatever edges these have.
        They must have as many nodes.
    add_self_loops : bool, optional
        Give every node without a self-loop one; as `normalize` when left out.
    normalize : bool
        Divide by the degrees, as above; without, messages are summed with their weights alone.
    bias : bool
    **kwargs
        ``flow``, ``node_dim`` and ``aggr="add"`` of PyG's ``MessagePassing``.

    Raises
    ------
    ValueError
        Self-loops without `normalize`, an aggregation other than the sum; in a call, another number
        of nodes than that of the graph that is kept.

    References
    ----------
    .. [1] Kipf, Welling, Semi-Supervised Classification with Graph Convolutional Networks,
       arXiv:1609.02907, 2017.

    Examples
    --------
    >>> import gnograd.torch, torch
    >>> layer = gnograd.torch.GCNConv(16, 8)
    >>> layer
    GCNConv(16, 8)
    >>> layer(torch.rand(10, 16), torch.randint(10, (2, 50)), torch.rand(50)).shape
    torch.Size([10, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if add_self_loops is None:
            add_self_loops = normalize
        if add_self_loops and not normalize:
            raise ValueError(
                "GCNConv: does not support adding self-loops without normalize; "
                "add them to the edges with gnograd.torch.with_self_loops"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.improved, self.cached = improved, cached
        self.add_self_loops, self.normalize = add_self_loops, normalize
        self._cached_edge_index: _Propagation | None = None
        self.lin = Linear(in_channels, out_channels, bias=False, glorot=True)
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels})"

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does, and clear the cache."""
        self.lin.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._cached_edge_index = None

    def forward(self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (..., n_nodes, in_channels)
        edge_index : Graph, or Tensor of int64, (2, n_edges), or sparse Tensor, (n_nodes, n_nodes)
            The values of a sparse matrix are weights. Added self-loops come on top of its own;
            self-loops of other forms of edges are kept instead, with their weights.
        edge_weight : Tensor, (n_edges,), optional

        Returns
        -------
        Tensor, (..., n_nodes, out_channels)
        """
        if not isinstance(x, Tensor):
            raise ValueError(
                f"GCNConv: x is of type {type(x).__name__}, needs a tensor: sources and "
                "destinations are the same nodes; SAGEConv takes a pair"
            )
        known = self._cached_edge_index
        if known is None:
            known = self._propagation(x, edge_index, edge_weight)
            if self.cached and self.normalize:
                self._cached_edge_index = known
        elif x.shape[self.node_dim] != known.graph.n_dst:
            raise ValueError(
                f"GCNConv: x has {x.shape[self.node_dim]} nodes, but the graph of the first call, "
                f"which cached=True keeps, has {known.graph.n_dst}"
            )
        out = self.over_nodes(self.lin(x), known.apply)
        return out if self.bias is None else out + self.bias

    def _propagation(
        self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None
    ) -> _Propagation:
        loops = self.add_self_loops and edge_weight is None
        call = self.normalise_inputs(x, edge_index, self_loops=loops and not _is_sparse(edge_index))
        weight = call.values if edge_weight is None else edge_weight.flatten()
        weight = None if weight is None else weight.to(x.dtype)
        graph = call.graph
        if self.add_self_loops:
            graph, weight = self._looped(call, weight)
        graph = self.graph_along_flow(graph, x.device)
        if not self.normalize:
            return _Propagation(graph, weight, None)
        if weight is None:
            each = torch.ones(graph.n_edges, 1, dtype=x.dtype, device=x.device)  # x may be sparse
        else:
            each = weight[:, None]
        degree = functional.agg_simple(None, each, graph=graph)[:, 0]
        some = degree != 0
        scale = torch.where(some, degree, 1).pow(-0.5) * some  # no infinity in its derivative
        return _Propagation(graph, weight, scale)

    def _looped(self, call: CallInputs, weight: Tensor | None) -> tuple[AnyGraph, Tensor | None]:
        """Add self-loops to nodes without one, and their weights."""
        graph, n = call.graph, call.graph.n_dst
        if weight is None:
            return (graph if call.edge_index is not None else with_self_loops(graph)[0]), None
        fill = 2.0 if self.improved else 1.0
        src, dst = ends_of(graph, weight.device)
        if call.layout is not None:
            nodes = torch.arange(n, device=weight.device)
            edges = torch.stack([torch.cat([src, nodes]), torch.cat([dst, nodes])])
            weight = torch.cat([weight, weight.new_full((n,), fill)])
            return graph_from_edge_index(edges, n, n), weight
        # an existing self-loop keeps its weight; other edges write behind the last node
        node = torch.where((src == dst) & used_rows(graph, weight.device), src, n)
        loops = weight.new_full((n + 1,), fill).index_put((node,), weight)[:n]
        graph, rows = with_self_loops(graph, weight[:, None], loops[:, None])
        return graph, None if rows is None else rows[:, 0]


def _is_sparse(edge_index: Edges) -> bool:
    return isinstance(edge_index, Tensor) and edge_index.layout != torch.strided

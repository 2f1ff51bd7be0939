# SPDX-License-Identifier: MIT
"""PyTorch modules around the operators, with the constructor arguments PyG users know.

A layer that PyG has too holds parameters of the same names and shapes, so that its
``state_dict`` loads as it is. Edges are a `gnograd.Graph`, built once for all layers and steps,
or PyG's ``edge_index (2, n_edges)``, from which every call builds a graph.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from gnograd.gno import gno
from gnograd.graph import Graph
from gnograd.torch import functional

__all__ = [
    "GNO",
    "GATConv",
    "GATv2Conv",
    "TransformerConv",
    "WeightedAggregation",
    "graph_from_edge_index",
    "with_self_loops",
]

Edges: TypeAlias = "Graph | Tensor"
Pair: TypeAlias = "Tensor | tuple[Tensor, Tensor]"


def graph_from_edge_index(edge_index: Tensor, n_src: int, n_dst: int) -> Graph:
    """Graph of PyG's ``edge_index``, whose rows are sources and destinations.

    Parameters
    ----------
    edge_index : Tensor of int64 or int32, (2, n_edges)
    n_src, n_dst : int
        Numbers of nodes.
    """
    src, dst = edge_index.cpu().numpy()
    return Graph.from_edges(src, dst, n_src, n_dst)


def with_self_loops(
    graph: Graph, edge_attr: Tensor | None = None, fill_value: float | Tensor | str = "mean"
) -> tuple[Graph, Tensor | None]:
    """Graph with exactly one self-loop a node, and the edge features that belong to it.

    Parameters
    ----------
    graph : Graph
        Its own self-loops are dropped. Of a bipartite graph the first ``min(n_src, n_dst)``
        nodes on both sides count as the same.
    edge_attr : Tensor, (n_edges, D), optional
        Edge features.
    fill_value : float, Tensor or {"mean", "add", "min", "max"}
        Features of the new self-loops: given, or taken from the other edges that end there.

    Returns
    -------
    graph : Graph
    edge_attr : Tensor or None
        Rows of the edges kept, then one row a self-loop.
    """
    src, dst = graph.src, graph.dst
    keep = src != dst
    loops = np.arange(min(graph.n_src, graph.n_dst), dtype=np.int32)
    looped = Graph.from_edges(
        np.concatenate([src[keep], loops]),
        np.concatenate([dst[keep], loops]),
        graph.n_src,
        graph.n_dst,
    )
    if edge_attr is None:
        return looped, None
    kept = edge_attr[torch.from_numpy(keep).to(edge_attr.device)]
    if isinstance(fill_value, str):
        aggregation = {"add": "sum"}.get(fill_value, fill_value)
        others = Graph.from_edges(src[keep], dst[keep], graph.n_src, graph.n_dst)
        fill = functional.agg_simple(None, kept, graph=others, aggregation=aggregation)
        fill = fill[: loops.size]
    else:
        fill = kept.new_zeros(loops.size, kept.shape[1]) + fill_value
    return looped, torch.cat([kept, fill])


class GNO(nn.Module):
    """Graph neural operator layer: features integrated against a learned kernel of the geometry.

    Parameters
    ----------
    in_channels, out_channels : int
        Features of sources and destinations; equal for the diagonal kernel.
    coord_dim : int
        Numbers that describe an edge, for example ``x_i - x_j``.
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
        """Draw new parameters, such that outputs are of the size of the features."""
        d, hidden = self.U.shape
        bound = d**-0.5
        nn.init.uniform_(self.U, -bound, bound)
        nn.init.uniform_(self.b_u, -bound, bound)
        fan_in = self.V.shape[1] if self.kernel == "full" else 1
        nn.init.normal_(self.V, std=(hidden * fan_in) ** -0.5)
        nn.init.zeros_(self.b_v)

    def forward(
        self, h: Tensor | None, coords: Tensor, graph: Graph, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        h : Tensor, (n_src, in_channels), or None
            None is 1, for the diagonal kernel only.
        coords : Tensor, (n_edges, coord_dim)
        graph : Graph
        edge_weight : Tensor, (n_edges,), optional

        Returns
        -------
        Tensor, (n_dst, out_channels)
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
        self.aggregation = {"add": "sum"}.get(aggr, aggr)

    def forward(self, x: Tensor, edges: Edges, edge_weight: Tensor | None = None) -> Tensor:
        """Aggregate ``x (n_src, D)`` with ``edge_weight (n_edges,)``, ones when left out."""
        graph = _graph(edges, len(x), len(x))
        if edge_weight is None:
            edge_weight = x.new_ones(graph.n_edges)
        out: Tensor = functional.agg_weighted(
            x, edge_weight, graph=graph, aggregation=self.aggregation
        )
        return out


class _Attention(nn.Module):
    """What the attention layers share: heads, self-loops, edge features, residual and bias."""

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
        if dropout:
            raise ValueError(
                f"{type(self).__name__}: dropout is {dropout}; attention is computed in one "
                "fused pass without dropout, needs 0"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.heads, self.concat = heads, concat
        self.lin_edge = (
            None if edge_dim is None else nn.Linear(edge_dim, heads * out_channels, bias=False)
        )
        pair = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.n_src_features, self.n_dst_features = pair
        self.width = out_channels * (heads if concat else 1)

    def edges(
        self, x: Pair, edges: Edges, edge_attr: Tensor | None
    ) -> tuple[Tensor, Tensor, Graph, Tensor | None]:
        """Sources, destinations, graph and the projected edge features."""
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        graph = _graph(edges, len(x_src), len(x_dst))
        if (edge_attr is None) != (self.lin_edge is None):
            raise ValueError(
                f"{type(self).__name__}: edge_attr goes with edge_dim: give both or none"
            )
        if edge_attr is not None and edge_attr.dim() == 1:
            edge_attr = edge_attr[:, None]
        return x_src, x_dst, graph, edge_attr


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
        self.negative_slope = negative_slope
        self.add_self_loops, self.fill_value = add_self_loops, fill_value
        self.res = nn.Linear(self.n_dst_features, self.width, bias=False) if residual else None
        self.bias = nn.Parameter(torch.empty(self.width)) if bias else None

    def looped(self, graph: Graph, edge_attr: Tensor | None) -> tuple[Graph, Tensor | None]:
        """Graph and projected edge features, with self-loops if asked for."""
        if self.add_self_loops:
            graph, edge_attr = with_self_loops(graph, edge_attr, self.fill_value)
        projected = None if edge_attr is None or self.lin_edge is None else self.lin_edge(edge_attr)
        return graph, projected

    def finish(self, out: Tensor, x_dst: Tensor) -> Tensor:
        """Add residual and bias."""
        if self.res is not None:
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
        Only 0: attention is computed in one fused pass.
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

    def forward(self, x: Pair, edges: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (n_nodes, in_channels), or a pair for sources and destinations
        edges : Graph, or Tensor of int64, (2, n_edges)
        edge_attr : Tensor, (n_edges, edge_dim), optional

        Returns
        -------
        Tensor, (n_dst, heads * out_channels), or (n_dst, out_channels) without `concat`
        """
        x_src, x_dst, graph, edge_attr = self.edges(x, edges, edge_attr)
        graph, e = self.looped(graph, edge_attr)
        if isinstance(self.in_channels, int):
            h_src = self.lin(x_src)
            h_dst = h_src if x_dst is x_src else self.lin(x_dst)
        else:
            h_src, h_dst = self.lin_src(x_src), self.lin_dst(x_dst)
        attention: list[Tensor] = [self.att_src, self.att_dst]
        if self.att_edge is not None:
            attention.append(self.att_edge)
        out = functional.mha_gat(
            h_src, h_dst, torch.cat(attention).flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope,
        )  # fmt: skip
        return self.finish(out, x_dst)


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
        self.lin_l = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_r = (
            self.lin_l if share_weights else nn.Linear(self.n_dst_features, width, bias=bias)
        )
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        self.reset_parameters()

    def forward(self, x: Pair, edges: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        x_src, x_dst, graph, edge_attr = self.edges(x, edges, edge_attr)
        graph, e = self.looped(graph, edge_attr)
        out = functional.mha_gat_v2(
            self.lin_l(x_src), self.lin_r(x_dst), self.att.flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope,
        )  # fmt: skip
        return self.finish(out, x_dst)


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
        self.root_weight = root_weight
        self.lin_key = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_query = nn.Linear(self.n_dst_features, width, bias=bias)
        self.lin_value = nn.Linear(self.n_src_features, width, bias=bias)
        self.lin_skip = nn.Linear(self.n_dst_features, self.width, bias=bias)
        gated = beta and root_weight
        self.lin_beta = nn.Linear(3 * self.width, 1, bias=False) if gated else None

    def forward(self, x: Pair, edges: Edges, edge_attr: Tensor | None = None) -> Tensor:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        x_src, x_dst, graph, edge_attr = self.edges(x, edges, edge_attr)
        e = None if edge_attr is None or self.lin_edge is None else self.lin_edge(edge_attr)
        out: Tensor = functional.mha_simple(
            self.lin_query(x_dst), self.lin_key(x_src), self.lin_value(x_src), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
        )  # fmt: skip
        if not self.root_weight:
            return out
        root = self.lin_skip(x_dst)
        if self.lin_beta is None:
            return out + root
        gate = self.lin_beta(torch.cat([out, root, out - root], dim=-1)).sigmoid()
        return gate * root + (1 - gate) * out


def _graph(edges: Edges, n_src: int, n_dst: int) -> Graph:
    return edges if isinstance(edges, Graph) else graph_from_edge_index(edges, n_src, n_dst)

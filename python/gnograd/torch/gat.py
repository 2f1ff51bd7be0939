# SPDX-License-Identifier: MIT
"""Graph attention layers with PyG's arguments.

The layers hold parameters of the same names and shapes: PyG's ``state_dict`` loads as it is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.conv import CallInputs, Pair
from gnograd.torch.edges import Edges, ends_of, of_sources, with_self_loops
from gnograd.torch.graph_attention import Attention
from gnograd.torch.linear import Linear, glorot_

__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]


class _SelfLoopAttention(Attention):
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
        options: dict[str, Any],
    ) -> None:
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, options)
        self.negative_slope, self.residual = negative_slope, residual
        self.add_self_loops, self.fill_value = add_self_loops, fill_value
        self.has_bias = bias

    def make_remaining_parameters(self) -> None:
        """Make the parameters after the projections, in PyG's order for optimizers."""
        width, of_res = self.heads * self.out_channels, self.n_dst_features
        self.lin_edge = None
        if self.edge_dim is not None:
            self.lin_edge = Linear(self.edge_dim, width, bias=False, glorot=True)
        self.res = Linear(of_res, self.width, bias=False, glorot=True) if self.residual else None
        self.bias = nn.Parameter(torch.empty(self.width)) if self.has_bias else None

    def normalise_inputs(
        self,
        x: Pair,
        edge_index: Edges,
        size: tuple[int, int] | None = None,
        self_loops: bool = False,
        edge_attr: Tensor | None = None,
    ) -> CallInputs:
        """`Attention.normalise_inputs`, with self-loops if asked for."""
        # features of loops are made from those of other edges, which needs the graph without loops
        at_once = self.add_self_loops and edge_attr is None and not self._has_features(edge_index)
        call = super().normalise_inputs(x, edge_index, size, at_once, edge_attr)
        if not self.add_self_loops:
            return call
        if at_once and isinstance(edge_index, Tensor):
            return call._replace(edge_index=None)
        graph, edge_attr = with_self_loops(call.graph, call.edge_attr, self.fill_value)
        return call._replace(graph=graph, edge_attr=edge_attr, edge_index=None)

    @staticmethod
    def _has_features(edge_index: Edges) -> bool:
        return (
            isinstance(edge_index, Tensor)
            and edge_index.layout != torch.strided
            and (edge_index.dim() > 2)
        )

    def finish(self, out: Tensor, x_dst: Tensor | None) -> Tensor:
        """Add residual and bias."""
        if self.res is not None and x_dst is not None:
            out = out + self.res(x_dst)
        return out if self.bias is None else out + self.bias

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does: Glorot's for weights, zeros for the bias."""
        super().reset_parameters()
        for name, parameter in self.named_parameters(recurse=False):
            if name == "bias":
                nn.init.zeros_(parameter)
            else:
                glorot_(parameter)


class GATConv(_SelfLoopAttention):
    """Graph attention [1]_; PyG's ``GATConv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations. -1 to take them from the first input.
    out_channels : int
        Features of a head.
    heads : int
    concat : bool
        Heads side by side, or their mean.
    negative_slope : float
        Slope of LeakyReLU for negative numbers.
    dropout : float
        Probability that an attention weight is dropped in training. `torch.manual_seed` decides
        which ones.
    add_self_loops : bool
        Exactly one self-loop a node.
    edge_dim : int, optional
        Width of the edge features, if there may be any; -1 to take it from the first ones.
    fill_value : float, Tensor or str
        Edge features of the self-loops, as in `with_self_loops`.
    bias, residual : bool
    **kwargs
        ``flow`` and ``aggr="add"`` of PyG's ``MessagePassing``.

    Raises
    ------
    ValueError
        An aggregation other than the sum; in a call, sizes that do not fit, edge features without
        `edge_dim`.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops,
            edge_dim, fill_value, bias, residual, kwargs,
        )  # fmt: skip
        width = heads * out_channels
        if isinstance(in_channels, int):
            self.lin = Linear(in_channels, width, bias=False, glorot=True)
        else:
            self.lin_src = Linear(in_channels[0], width, bias=False, glorot=True)
            self.lin_dst = Linear(in_channels[1], width, bias=False, glorot=True)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_edge = (
            None if edge_dim is None else nn.Parameter(torch.empty(1, heads, out_channels))
        )
        self.make_remaining_parameters()
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
            Destinations that are None add nothing to scores and residual.
        edge_index : Graph, or Tensor of int64, (2, n_edges), or sparse Tensor, (n_dst, n_src)
            A sparse matrix of more than two dimensions carries the edge features.
        edge_attr : Tensor, (n_edges, edge_dim), optional
            Edge features; with a sparse matrix in the order of its values.
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
        call = self.normalise_inputs(x, edge_index, size, edge_attr=edge_attr)
        x_src, x_dst = call.x_src, call.x_dst
        e = self.features_of_edges(call)
        shared = isinstance(self.in_channels, int)
        h_src = self.lin(x_src) if shared else self.lin_src(x_src)
        if x_dst is None:
            h_dst = h_src.new_zeros(call.n_dst, h_src.shape[1])
        elif shared:
            h_dst = h_src if x_dst is x_src else self.lin(x_dst)
        else:
            h_dst = self.lin_dst(x_dst)
        graph = self.graph_along_flow(call.graph, h_src.device)
        attention: list[Tensor] = [self.att_src, self.att_dst]
        if e is not None and self.att_edge is not None:
            attention.append(self.att_edge)
        dropped = self.draw(h_src)
        out = functional.mha_gat(
            h_src, h_dst, torch.cat(attention).flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope, **dropped,
        )  # fmt: skip
        out = self.finish(out, x_dst)
        if not return_attention_weights:
            return out
        src, dst = ends_of(graph, out.device)
        scores = of_sources((self.heads_of(h_src) * self.att_src).sum(-1), graph)[src]
        scores = scores + (self.heads_of(h_dst) * self.att_dst).sum(-1)[dst]
        if e is not None and self.att_edge is not None:
            scores = scores + (self.heads_of(e) * self.att_edge).sum(-1)
        scores = nn.functional.leaky_relu(scores, self.negative_slope)
        return self.with_weights(out, call, scores, (src, dst), dropped)


class GATv2Conv(_SelfLoopAttention):
    """Graph attention with the nonlinearity inside [1]_; PyG's ``GATv2Conv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations.
    out_channels : int
        Features of a head.
    heads, concat, negative_slope, dropout, add_self_loops, edge_dim, fill_value, bias, residual
        As in `GATConv`, and so `**kwargs`.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops,
            edge_dim, fill_value, bias, residual, kwargs,
        )  # fmt: skip
        width = heads * out_channels
        self.share_weights = share_weights
        self.lin_l = Linear(self.n_src_features, width, bias, glorot=True)
        self.lin_r = (
            self.lin_l if share_weights else Linear(self.n_dst_features, width, bias, glorot=True)
        )
        self.att = nn.Parameter(torch.empty(1, heads, out_channels))
        self.make_remaining_parameters()
        self.reset_parameters()

    def forward(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        call = self.normalise_inputs(x, edge_index, edge_attr=edge_attr)
        x_src, x_dst = call.x_src, self.destinations(call)
        e = self.features_of_edges(call)
        h_src = self.lin_l(x_src)
        h_dst = h_src if self.share_weights and x_dst is x_src else self.lin_r(x_dst)
        graph = self.graph_along_flow(call.graph, h_src.device)
        dropped = self.draw(h_src)
        out = functional.mha_gat_v2(
            h_src, h_dst, self.att.flatten(), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat,
            negative_slope=self.negative_slope, **dropped,
        )  # fmt: skip
        out = self.finish(out, x_dst)
        if not return_attention_weights:
            return out
        src, dst = ends_of(graph, out.device)
        sums = of_sources(h_src, graph)[src] + h_dst[dst]
        sums = nn.functional.leaky_relu(sums if e is None else sums + e, self.negative_slope)
        scores = (self.heads_of(sums) * self.att).sum(-1)
        return self.with_weights(out, call, scores, (src, dst), dropped)


class TransformerConv(Attention):
    """Dot-product attention along edges [1]_; PyG's ``TransformerConv``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations.
    out_channels : int
        Features of a head.
    heads, concat, dropout, edge_dim, bias
        As in `GATConv`, and so `**kwargs`.
    beta : bool
        Gate between the aggregation and the root node.
    root_weight : bool
        Add the projected root node.

    References
    ----------
    .. [1] Shi et al., Masked Label Prediction, arXiv:2009.03509, 2021.
    """

    _alpha: Tensor | None = None
    """Attention weights within a call, None after it, as in PyG."""

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
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, concat, dropout, edge_dim, kwargs)
        width = heads * out_channels
        self.beta, self.root_weight = beta and root_weight, root_weight
        self.lin_key = Linear(self.n_src_features, width, bias)
        self.lin_query = Linear(self.n_dst_features, width, bias)
        self.lin_value = Linear(self.n_src_features, width, bias)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, width, bias=False)
        self.lin_skip = Linear(self.n_dst_features, self.width, bias)
        self.lin_beta = Linear(3 * self.width, 1, bias=False) if self.beta else None
        self.reset_parameters()

    def forward(
        self,
        x: Pair,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Apply the layer; arguments and result as in `GATConv.forward`."""
        call = self.normalise_inputs(x, edge_index, edge_attr=edge_attr)
        x_src, x_dst = call.x_src, self.destinations(call)
        if call.edge_attr is None and self.edge_dim is not None:
            raise ValueError("TransformerConv: edge_attr goes with edge_dim: give both or none")
        e = self.features_of_edges(call)
        graph = self.graph_along_flow(call.graph, x_src.device)
        q, k = self.lin_query(x_dst), self.lin_key(x_src)
        out: Tensor = functional.mha_simple(
            q, k, self.lin_value(x_src), e,
            graph=graph, num_heads=self.heads, concat_heads=self.concat, **self.draw(q),
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
        keys = of_sources(k, graph)[src]
        keys = keys if e is None else keys + e
        # the weights before dropout, as in PyG
        scores = (self.heads_of(q[dst]) * self.heads_of(keys)).sum(-1) / self.out_channels**0.5
        return self.with_weights(out, call, scores, (src, dst), {})

# SPDX-License-Identifier: MIT
"""GraphSAGE with PyG's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.conv import CallInputs, Convolution, Pair
from gnograd.torch.edges import Edges, ends_of, of_sources, used_rows
from gnograd.torch.graph import AnyGraph
from gnograd.torch.linear import Linear

__all__ = ["SAGEConv"]

_AGGREGATIONS = {"add": "sum", "sum": "sum", "mean": "mean", "min": "min", "max": "max"}


class SAGEConv(Convolution):
    """GraphSAGE [1]_; PyG's ``SAGEConv``.

    ``out[i] = W_l aggr_j x[j] + W_r x[i] + b`` over the edges ``(j -> i)``.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations. -1 to take them from the first input.
    out_channels : int
    aggr : {"mean", "add", "sum", "min", "max"}, or several, or a module
        The results of several are concatenated. Among equal minima or maxima the first edge of a
        node gets the gradient. A module is called like those of ``torch_geometric.nn.aggr``, with
        an array of messages for all edges; other names are looked up there, if PyG is installed.
    normalize : bool
        Scale every row of the result to length 1.
    root_weight : bool
        Add the term of the destination itself.
    project : bool
        Apply a layer ``relu(W x + b)`` to the sources first. Not with a lazy `in_channels`.
    bias : bool
    **kwargs
        ``flow``, ``node_dim`` and ``aggr_kwargs`` of PyG's ``MessagePassing``; the last for
        aggregations of PyG.

    Raises
    ------
    ValueError
        An aggregation that is not known, `project` with a lazy `in_channels`.

    References
    ----------
    .. [1] Hamilton, Ying, Leskovec, Inductive Representation Learning on Large Graphs,
       arXiv:1706.02216, 2017.

    Examples
    --------
    >>> import gnograd.torch, torch
    >>> layer = gnograd.torch.SAGEConv(16, 8, aggr=["mean", "max"])
    >>> layer
    SAGEConv(16, 8, aggr=['mean', 'max'])
    >>> layer(torch.rand(10, 16), torch.randint(10, (2, 50))).shape
    torch.Size([10, 8])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: str | Sequence[str] | nn.Module = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        aggr_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.normalize, self.root_weight, self.project = normalize, root_weight, project
        pair = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.aggr = str(aggr) if isinstance(aggr, str | nn.Module) else [str(each) for each in aggr]
        self.aggr_module = _module(aggr, aggr_kwargs, pair[0])
        if project and pair[0] < 0:
            raise ValueError("SAGEConv: does not support lazy in_channels with project=True")
        self.lin = Linear(pair[0], pair[0]) if project else None
        self.lin_l = Linear(self._width(pair[0]), out_channels, bias=bias)
        self.lin_r = Linear(pair[1], out_channels, bias=False) if root_weight else None
        self.reset_parameters()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, aggr={self.aggr})"

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does."""
        modules: list[Any] = [self.aggr_module, self.lin, self.lin_l, self.lin_r]
        for module in filter(None, modules):
            module.reset_parameters()

    def forward(self, x: Pair, edge_index: Edges, size: tuple[int, int] | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (..., n_nodes, in_channels), or a pair for sources and destinations
            Features. If destinations have none, their term is left out.
        edge_index : Graph, or Tensor of int64, (2, n_edges), or sparse Tensor, (n_dst, n_src)
            With one aggregation, the values of a sparse matrix are factors of the messages.
        size : tuple of int, optional
            Numbers of sources and destinations, for destinations that are None.

        Returns
        -------
        Tensor, (..., n_dst, out_channels)
        """
        call = self.normalise_inputs(x, edge_index, size)
        sources, root = call.x_src, call.x_dst
        if self.lin is not None:
            sources = self.lin(sources).relu()
        graph = self.graph_along_flow(call.graph, sources.device)
        out: Tensor = self.lin_l(self._aggregate(sources, graph, call))
        if self.lin_r is not None and root is not None:
            out = out + self.lin_r(root)
        return nn.functional.normalize(out, dim=-1) if self.normalize else out

    def _width(self, in_channels: int) -> int:
        """Number of features of an aggregation."""
        if in_channels < 0:
            return in_channels
        of_module = getattr(self.aggr_module, "get_out_channels", None)
        if of_module is not None:
            return int(of_module(in_channels))
        return in_channels if isinstance(self.aggr, str) else len(self.aggr) * in_channels

    def _aggregate(self, x: Tensor, graph: AnyGraph, call: CallInputs) -> Tensor:
        if self.aggr_module is not None:
            src, dst = ends_of(graph, x.device)
            if call.edge_index is None and call.layout is None:  # a graph may have free rows
                used = used_rows(graph, x.device)
                src, dst = src[used], dst[used]
            rows = of_sources(x.movedim(self.node_dim, 0), graph)
            messages = rows.index_select(0, src).movedim(0, self.node_dim)
            out: Tensor = self.aggr_module(messages, dst, dim_size=graph.n_dst, dim=self.node_dim)
            return out
        if isinstance(self.aggr, str):
            return self._simple(self.aggr, x, graph, call.values)
        return torch.cat([self._simple(name, x, graph, None) for name in self.aggr], dim=-1)

    def _simple(self, name: str, x: Tensor, graph: AnyGraph, values: Tensor | None) -> Tensor:
        name = _AGGREGATIONS[name]
        if values is None:
            return self.over_nodes(
                x, lambda rows: functional.agg_simple(rows, graph=graph, aggregation=name)
            )
        weight = values.to(x.dtype)
        of_sum = "sum" if name == "mean" else name
        out = self.over_nodes(
            x, lambda rows: functional.agg_weighted(rows, weight, graph=graph, aggregation=of_sum)
        )
        if name != "mean":
            return out
        # divide by the number of edges: the mean of agg_weighted divides by the sum of weights
        degree = functional.agg_simple(None, x.new_ones(graph.n_edges, 1), graph=graph)[:, 0]
        shape = [1] * x.dim()
        shape[self.node_dim] = -1
        return out / degree.clamp(min=1).view(shape)


def _module(
    aggr: str | Sequence[str] | nn.Module, aggr_kwargs: dict[str, Any] | None, in_channels: int
) -> nn.Module | None:
    """Module for an aggregation that gnograd does not have."""
    if isinstance(aggr, nn.Module):
        return aggr
    names = [aggr] if isinstance(aggr, str) else list(aggr)
    if not aggr_kwargs and all(isinstance(n, str) and n in _AGGREGATIONS for n in names):
        return None
    try:
        from torch_geometric.nn.resolver import aggregation_resolver
    except ImportError:
        raise ValueError(
            f"SAGEConv: aggr is {aggr!r}, needs one or several of "
            f"{', '.join(map(repr, _AGGREGATIONS))}, a module, or a name of PyG if it is installed"
        ) from None
    aggr_kwargs = dict(aggr_kwargs or {})
    if aggr == "lstm":
        aggr_kwargs = {"in_channels": in_channels, "out_channels": in_channels} | aggr_kwargs
    module: nn.Module = aggregation_resolver(aggr, **aggr_kwargs)
    return module

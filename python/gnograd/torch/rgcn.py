# SPDX-License-Identifier: MIT
"""Relational graph convolution with PyG's arguments."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.arrays import integers, is_integral
from gnograd.torch.conv import CallInputs, Convolution
from gnograd.torch.eager import is_eager, not_compiled
from gnograd.torch.edges import Edges, ends_of, of_sources, used_rows
from gnograd.torch.graph import AnyGraph, Graph
from gnograd.torch.linear import glorot_

__all__ = ["RGCNConv"]

Nodes: TypeAlias = "Tensor | tuple[Tensor | None, Tensor] | None"

_AGGREGATIONS = {"add": "sum", "sum": "sum", "mean": "mean"}


class RGCNConv(Convolution):
    r"""Relational graph convolution [1]_; PyG's ``RGCNConv``.

    ``out[i] = W_root x[i] + b + sum_r W_r aggr_j x[j]`` over the edges ``(j -> i)`` of every
    relation r.

    Parameters
    ----------
    in_channels : int or tuple of int
        Features of the nodes; of sources and destinations. If nodes have no features, the number
        of nodes.
    out_channels : int
    num_relations : int
    num_bases : int, optional
        Make every ``W_r`` a combination of so many common matrices.
    num_blocks : int, optional
        Make every ``W_r`` block-diagonal with so many blocks.
    aggr : {"mean", "add", "sum"}
        Aggregation of the edges of a relation.
    root_weight : bool
        Add the term of the destination itself.
    is_sorted : bool
        Without effect: edges need not be sorted by their types.
    bias : bool
    **kwargs
        ``flow`` of PyG's ``MessagePassing``.

    Raises
    ------
    ValueError
        Bases and blocks at once, blocks that do not divide the channels, an aggregation other than
        sum and mean.

    Notes
    -----
    Neighbours are aggregated once, for all relations or bases, and multiplied with all matrices in
    one product: for a moment there are ``num_relations`` or ``num_bases`` times ``in_channels``
    numbers a destination, and with `num_bases` no matrix for a relation.

    References
    ----------
    .. [1] Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks,
       ESWC 2018.

    Examples
    --------
    >>> import gnograd.torch, torch
    >>> layer = gnograd.torch.RGCNConv(16, 8, num_relations=5, num_bases=2)
    >>> layer
    RGCNConv(16, 8, num_relations=5)
    >>> edge_index, edge_type = torch.randint(10, (2, 50)), torch.randint(5, (50,))
    >>> layer(torch.rand(10, 16), edge_index, edge_type).shape
    torch.Size([10, 8])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        aggr: str = "mean",
        root_weight: bool = True,
        is_sorted: bool = False,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"node_dim": 0, **kwargs})
        if aggr not in _AGGREGATIONS:
            raise ValueError(
                f"RGCNConv: aggr is {aggr!r}, needs one of {', '.join(map(repr, _AGGREGATIONS))}"
            )
        if num_bases is not None and num_blocks is not None:
            raise ValueError("RGCNConv: num_bases and num_blocks are given, needs one of them")
        self.aggr = aggr
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_relations, self.num_bases, self.num_blocks = num_relations, num_bases, num_blocks
        self.is_sorted = is_sorted
        pair = (in_channels, in_channels) if isinstance(in_channels, int) else in_channels
        self.in_channels_l = pair[0]
        shape: tuple[int, ...] = (num_relations if num_bases is None else num_bases,)
        if num_blocks is None:
            shape += (pair[0], out_channels)
        elif pair[0] % num_blocks or out_channels % num_blocks:
            raise ValueError(
                f"RGCNConv: num_blocks is {num_blocks}, which does not divide {pair[0]} input and "
                f"{out_channels} output channels"
            )
        else:
            shape += (num_blocks, pair[0] // num_blocks, out_channels // num_blocks)
        self.weight = nn.Parameter(torch.empty(shape))
        self.comp = (
            None if num_bases is None else nn.Parameter(torch.empty(num_relations, num_bases))
        )
        self.root = nn.Parameter(torch.empty(pair[1], out_channels)) if root_weight else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, "
            f"num_relations={self.num_relations})"
        )

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does."""
        for parameter in (self.weight, self.comp, self.root):
            if parameter is not None:
                glorot_(parameter)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Nodes, edge_index: Edges, edge_type: Tensor | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (n_nodes, in_channels), or a pair for sources and destinations
            Integers, (n_nodes,), are numbers of nodes without features, below `in_channels` or
            negative from the end, for which the weights are embeddings. None is all nodes in order.
        edge_index : Graph, or Tensor of int64, (2, n_edges), or sparse Tensor, (n_dst, n_src)
        edge_type : Tensor of integers, (n_edges,), optional
            Relation of every edge; the values of a sparse matrix when left out.

        Returns
        -------
        Tensor, (n_dst, out_channels)

        Raises
        ------
        TypeError, ValueError
            Relations that are missing, or no integers.
        IndexError
            A node that is not one of `in_channels`, a relation that is not one of `num_relations`.
        """
        sources, root = x if isinstance(x, tuple) else (x, None)
        if sources is None:
            sources = torch.arange(self.in_channels_l, device=self.weight.device)
        call = self.normalise_inputs((sources, sources if root is None else root), edge_index)
        if edge_type is None and call.values is not None:
            edge_type = _whole(call.values)
        if edge_type is None:
            raise ValueError("RGCNConv: edge_type is missing, needs the relation of every edge")
        graph = self.graph_along_flow(call.graph, sources.device)
        if sources.is_floating_point():
            out = self._of_features(sources, graph, edge_type)
        else:
            out = self._of_numbers(call, graph, edge_type)
        own = call.x_dst
        if self.root is not None and own is not None:
            out = out + (own @ self.root if own.is_floating_point() else self.root[own])
        return out if self.bias is None else out + self.bias

    def _of_features(self, x: Tensor, graph: AnyGraph, edge_type: Tensor) -> Tensor:
        sums = self._aggregate(x, graph, edge_type, self.comp)
        if self.num_blocks is None:
            return sums @ self.weight.flatten(0, 1)
        blocks = sums.unflatten(1, self.weight.shape[:3])
        return torch.einsum("nrbi,rbio->nbo", blocks, self.weight).flatten(1)

    def _of_numbers(self, call: CallInputs, graph: AnyGraph, edge_type: Tensor) -> Tensor:
        """Result for nodes without features: an edge of relation r contributes a row of ``W_r``."""
        if self.num_blocks is not None:
            raise ValueError("RGCNConv: num_blocks needs features of the nodes, x has integers")
        weight: Tensor = self.weight
        if self.comp is not None:
            weight = torch.einsum("rb,bio->rio", self.comp, weight)
        table = weight.flatten(0, 1)
        src, dst = ends_of(graph, table.device)
        relation, n_nodes = edge_type, weight.shape[1]
        if not is_integral(relation):
            raise TypeError(f"RGCNConv: edge_type is {relation.dtype}, needs integers")
        if call.edge_index is None and call.layout is None:  # a graph may have free rows
            used = used_rows(graph, table.device)
            src, dst, relation = src[used], dst[used], relation[used]
        relation = _checked("edge_type", relation, self.num_relations, "relations")
        x = integers(call.x_src, torch.int64)
        number = _checked("x", torch.where(x < 0, x + n_nodes, x), n_nodes, "nodes", x)
        number = of_sources(number, graph)[src]
        # -1 where numbers were wrong but could not be read here: the graph raises the error
        rows = torch.where((relation < 0) | (number < 0), -1, relation * n_nodes + number)
        edges = Graph.from_edge_index(torch.stack([rows, dst]), len(table), call.n_dst)
        if self.aggr != "mean":
            return functional.agg_simple(table, graph=edges)
        ones = table.new_ones(call.x_src.shape[0], 1)
        degree = self._aggregate(ones, graph, edge_type, None, "sum")
        return functional.agg_weighted(table, 1 / degree[dst, relation], graph=edges)

    def _aggregate(
        self,
        x: Tensor,
        graph: AnyGraph,
        edge_type: Tensor,
        coeff: Tensor | None,
        aggr: str | None = None,
    ) -> Tensor:
        return functional.agg_relational(
            x,
            None,
            coeff,
            graph=graph,
            edge_type=edge_type,
            n_relations=self.num_relations,
            aggregation=_AGGREGATIONS[aggr or str(self.aggr)],
        )


def _checked(name: str, numbers: Tensor, n: int, what: str, shown: Tensor | None = None) -> Tensor:
    """Numbers below n as int64. Others are an error, or -1 if the host had to wait to see them."""
    numbers = integers(numbers, torch.int64)
    wrong = (numbers < 0) | (numbers >= n)
    if numbers.is_cpu and is_eager(numbers) and wrong.any():
        k = int(wrong.int().argmax())
        number = (numbers if shown is None else shown)[k]
        raise IndexError(f"RGCNConv: {name}[{k}] is {number}, not one of {n} {what}")
    return numbers.masked_fill(wrong, -1)


@not_compiled
def _whole(values: Tensor) -> Tensor:
    """Values of a matrix as integers; ValueError if they are not whole."""
    whole = values.long()
    if not torch.equal(whole.to(values.dtype), values):
        raise ValueError("RGCNConv: edge_index is a matrix with values that are no integers")
    return whole

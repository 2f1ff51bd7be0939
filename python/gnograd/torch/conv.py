# SPDX-License-Identifier: MIT
"""Base of the layers with PyG's arguments: nodes, edges and their direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn

import gnograd.graphs.graph
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.torch.eager import not_compiled
from gnograd.torch.edges import Edges, graph_from_edge_index
from gnograd.torch.graph import AnyGraph, Graph, arrays_of

__all__ = ["CallInputs", "Convolution", "Pair"]

Pair: TypeAlias = "Tensor | tuple[Tensor, Tensor | None]"

_FLOWS = ("source_to_target", "target_to_source")


class CallInputs(NamedTuple):
    """Edges of a call of a layer, in one form."""

    x_src: Tensor
    x_dst: Tensor | None
    n_dst: int
    graph: AnyGraph
    """The edges as given, before `flow` is applied."""
    edge_index: Tensor | None = None
    """The edges, if given as ``edge_index``."""
    layout: torch.layout | None = None
    """Layout of the sparse matrix, if the edges were given as one."""
    values: Tensor | None = None
    """Values of the sparse matrix, in the order of the edges."""
    edge_attr: Tensor | None = None
    """Rows of edge features, (n_edges, edge_dim)."""


class Convolution(nn.Module):
    """Layer that takes nodes, edges and keyword arguments of PyG's ``MessagePassing``.

    Parameters
    ----------
    aggr : str
        Aggregation of messages; "add" and "sum" are the same.
    aggr_kwargs : dict, optional
        Arguments of the aggregation. gnograd's aggregations have none.
    flow : {"source_to_target", "target_to_source"}
        Direction of messages: along the edges, or against them (edges then start at destinations).
    node_dim : int
        Axis of the nodes.
    decomposed_layers : int
        Without effect: it saves PyG memory for messages, and here they are not stored.
    """

    def __init__(
        self,
        aggr: str = "add",
        *,
        aggr_kwargs: dict[str, Any] | None = None,
        flow: str = "source_to_target",
        node_dim: int = -2,
        decomposed_layers: int = 1,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if flow not in _FLOWS:
            raise ValueError(
                f"{name}: flow is {flow!r}, needs one of {', '.join(map(repr, _FLOWS))}"
            )
        if aggr not in ("add", "sum"):
            raise ValueError(f"{name}: aggr is {aggr!r}, needs 'add' or 'sum'")
        if aggr_kwargs:
            raise ValueError(f"{name}: aggr_kwargs is {aggr_kwargs!r}, but a sum has no arguments")
        self.aggr: str | list[str] = aggr
        self.flow, self.node_dim, self.decomposed_layers = flow, node_dim, decomposed_layers

    @property
    def backwards(self) -> bool:
        """True if messages go against the edges."""
        return self.flow == _FLOWS[1]

    def normalise_inputs(
        self,
        x: Pair,
        edge_index: Edges,
        size: tuple[int, int] | None = None,
        self_loops: bool = False,
    ) -> CallInputs:
        """Bring the nodes and edges of a call into one form.

        With `self_loops`, edges given as a tensor get exactly one a node.
        """
        name = type(self).__name__
        x_src, x_dst = (x, x) if isinstance(x, Tensor) else x
        matrix = None
        if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
            matrix = edge_index
        n_src = x_src.shape[self.node_dim]
        if x_dst is not None:
            n_dst = x_dst.shape[self.node_dim]
        elif size is not None:
            n_dst = size[1]
        elif isinstance(edge_index, Graph | gnograd.graphs.graph.Graph | GraphInParts):
            n_dst = edge_index.sizes.n_src if self.backwards else edge_index.sizes.n_dst
        else:
            n_dst = n_src if matrix is None else matrix.shape[0]
        if size is not None and tuple(size) != (n_src, n_dst):
            raise ValueError(
                f"{name}: size is {tuple(size)}, but x has {n_src} sources and {n_dst} destinations"
            )
        if isinstance(edge_index, Graph | gnograd.graphs.graph.Graph | GraphInParts):
            return CallInputs(x_src, x_dst, n_dst, cast(AnyGraph, edge_index))
        if matrix is None:
            ends = (n_dst, n_src) if self.backwards else (n_src, n_dst)
            graph = graph_from_edge_index(edge_index, *ends, self_loops=self_loops or None)
            return CallInputs(x_src, x_dst, n_dst, graph, edge_index)
        if self.backwards:
            raise ValueError(
                f"{name}: flow is {self.flow!r}, which a sparse matrix does not go with; "
                "give the transposed matrix to a layer with the usual flow"
            )
        if tuple(matrix.shape[:2]) != (n_dst, n_src):
            raise ValueError(
                f"{name}: edge_index is a sparse matrix of shape {tuple(matrix.shape)}, needs a "
                f"row for each of the {n_dst} destinations and a column for each of the {n_src} "
                "sources"
            )
        edge_index, values = _entries(matrix)
        graph = graph_from_edge_index(edge_index, n_src, n_dst, self_loops=self_loops or None)
        return CallInputs(x_src, x_dst, n_dst, graph, None, matrix.layout, values)

    def graph_along_flow(self, graph: AnyGraph, device: torch.device) -> AnyGraph:
        """The graph in the direction of messages."""
        if self.backwards and isinstance(graph, GraphInParts):
            raise TypeError(
                f"{type(self).__name__}: flow is {self.flow!r}, which a DistributedGraph does not "
                "go with: a process has the edges that end at its nodes"
            )
        return _reversed(arrays_of(graph, device)) if self.backwards else graph

    def over_nodes(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function of (n_src, D) to x of any number of axes."""
        if x.dim() == 2 and self.node_dim in (0, -2):
            return function(x)
        x = x.movedim(self.node_dim, 0)
        out = function(x.flatten(1))
        return out.reshape(len(out), *x.shape[1:]).movedim(0, self.node_dim)


def _reversed(graph: GraphArrays) -> Graph:
    """The graph with all edges reversed, in the same rows of edge arrays."""
    places = torch.arange(graph.indices.shape[0], device=graph.indices.device)
    rows = places if graph.edge_ids is None else graph.edge_ids
    positions = graph.src_edges if graph.src_positions is None else graph.src_positions
    before = torch.empty_like(places).scatter(0, positions, places)
    arrays = GraphArrays(
        graph.src_offsets, graph.src_indices, graph.src_edges,
        graph.offsets, graph.indices, rows, before,
    )  # fmt: skip
    return Graph(arrays)


@not_compiled
def _entries(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Sources and destinations, and values, of a sparse matrix, in the order of its layout."""
    if matrix.layout == torch.sparse_coo:
        matrix = matrix.coalesce()
        rows, columns = matrix.indices()
    elif matrix.layout == torch.sparse_csr:
        rows, columns = _spread(matrix.crow_indices()), matrix.col_indices()
    elif matrix.layout == torch.sparse_csc:
        rows, columns = matrix.row_indices(), _spread(matrix.ccol_indices())
    else:
        raise ValueError(
            f"edge_index is a sparse matrix of layout {matrix.layout}, needs torch.sparse_coo, "
            "torch.sparse_csr or torch.sparse_csc"
        )
    return torch.stack([columns, rows]), matrix.values()


def _spread(offsets: Tensor) -> Tensor:
    """Row of every entry, from the offsets of the rows."""
    rows = torch.arange(len(offsets) - 1, device=offsets.device, dtype=offsets.dtype)
    return rows.repeat_interleave(offsets.diff())

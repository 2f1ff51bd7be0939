# SPDX-License-Identifier: MIT
"""Edges in the forms of PyTorch programs, and graphs made from them."""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from gnograd.distributed.graph import DistributedGraph
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.notation.keywords import named_now
from gnograd.torch import functional
from gnograd.torch.distributed import halo
from gnograd.torch.eager import in_transform, is_eager
from gnograd.torch.graph import AnyGraph, Graph
from gnograd.torch.graph_building import graph_with_loops
from gnograd.torch.made_once import MadeOnce

__all__ = [
    "Edges",
    "ends_of",
    "graph_from_edge_index",
    "graph_of",
    "of_sources",
    "used_rows",
    "with_self_loops",
    "without_free_rows",
]

Edges: TypeAlias = "AnyGraph | GraphInParts | Tensor"
"""A graph, built once for all layers and steps, or a form of PyG: ``edge_index (2, n_edges)``, or a
sparse matrix with a row for every destination."""


@named_now("self_loops")
def graph_from_edge_index(
    edge_index: Tensor, n_src: int, n_dst: int, *, self_loops: bool | None = None
) -> Graph:
    """`Graph.from_edge_index` with a cache: a tensor with unchanged numbers gives the same graph.

    Layers of a model that are called with the same ``edge_index`` share one graph. It is kept as
    long as the tensor is, with a copy of the numbers, which are compared in every call: memory may
    be written by others than PyTorch, whose count of changes tells nothing of that. On a GPU the
    host waits for the comparison, except while a CUDA graph is captured: there the edges are
    ordered in the graph, by every replay. Under a transform of `torch.func`, where tensors stand
    for others, a graph is made anew.

    Parameters
    ----------
    edge_index : Tensor of int64 or int32, (2, n_edges)
    n_src, n_dst : int
        Numbers of nodes.
    self_loops : bool, optional
        As in `Graph.from_edge_index`.

    Raises
    ------
    TypeError, ValueError, IndexError
        No tensor of integers, another shape, a node out of range.
    """
    if not isinstance(edge_index, Tensor) or not _lasts(edge_index):
        return Graph.from_edge_index(edge_index, n_src, n_dst, self_loops=self_loops)
    made: Graph = _made.of(
        (edge_index,),
        (n_src, n_dst, self_loops),
        lambda numbers: Graph.from_edge_index(numbers, n_src, n_dst, self_loops=self_loops),
    )
    return made


def _lasts(array: Any) -> bool:
    """True if a graph made of an array now can be kept for later calls.

    Not if it belongs to a program in the making (compiler, transform, capture of a CUDA graph).
    """
    if torch.compiler.is_compiling() or in_transform():
        return False
    on_gpu = isinstance(array, Tensor) and array.is_cuda
    return not (on_gpu and torch.cuda.is_current_stream_capturing())


_made = MadeOnce()


def with_self_loops(
    graph: AnyGraph, edge_attr: Tensor | None = None, fill_value: float | Tensor | str = "mean"
) -> tuple[Graph, Tensor | None]:
    """Graph with exactly one self-loop a node, and the edge features that belong to it.

    Parameters
    ----------
    graph : Graph
        Its own self-loops are left out. In a bipartite graph the first ``min(n_src, n_dst)`` nodes
        on both sides count as the same.
    edge_attr : Tensor, (n_edges, D), optional
        Edge features.
    fill_value : float, Tensor or {"mean", "add", "min", "max"}
        Features of the new self-loops: given, or taken from the other edges that end there.

    Returns
    -------
    graph : Graph
        Its edge arrays have the rows of `graph`, of which those of former self-loops belong to no
        edge, and then one for every self-loop.
    edge_attr : Tensor or None

    Raises
    ------
    ValueError
        Edge features that are not one row an edge.

    Notes
    -----
    Later calls with the same graph get the one that is there, unless its edges have changed.
    Tensors are compared for that, and on a GPU the host waits; layers with
    ``add_self_loops=False`` that are given ``graph.with_self_loops()`` compare nothing.
    """
    n_src, n_dst, n_edges = graph.sizes
    if edge_attr is not None and edge_attr.shape[0] != n_edges:
        raise ValueError(
            f"with_self_loops: edge_attr has shape {tuple(edge_attr.shape)}, "
            f"needs one row for each of the {n_edges} edges"
        )
    looped = _looped(graph, True)
    if edge_attr is None:
        return looped, None
    if isinstance(graph, DistributedGraph):
        fill = _features_of_loops(graph.local, graph.n_dst, edge_attr, fill_value)
        rows = torch.from_numpy(looped.edges).to(edge_attr.device)
        return looped, torch.cat([edge_attr, fill]).index_select(0, rows)
    fill = _features_of_loops(graph, torch.sym_min(n_src, n_dst), edge_attr, fill_value)
    return looped, torch.cat([edge_attr, fill])


_made_of_numpy: weakref.WeakKeyDictionary[AnyGraph, dict[bool, Any]]
_made_of_numpy = weakref.WeakKeyDictionary()
"""What `_looped` has made of graphs whose arrays nobody can write."""


def _looped(graph: AnyGraph, self_loops: bool) -> Any:
    """Graph with exactly one self-loop a node, or with none; made once while a graph is unchanged.

    The rows of its edge arrays are those of `graph`, then one for every self-loop. In a distributed
    graph, loops belong to the process that owns the node. Tensors are compared with a copy in every
    call, as in `graph_from_edge_index`.
    """
    if isinstance(graph, DistributedGraph):
        return graph.with_self_loops()
    # the compiler cannot look at the arrays of a graph of NumPy
    if not _lasts(graph.offsets if isinstance(graph, Graph) else None):
        return _with_loops(graph, self_loops)
    if isinstance(graph, Graph):
        edges = tuple(x for x in (graph.offsets, graph.indices, graph.edge_ids) if x is not None)
        how = graph.sizes, self_loops
        return _made.of(edges, how, lambda *_: _with_loops(graph, self_loops))
    made = _made_of_numpy.setdefault(graph, {})
    if self_loops not in made:
        made[self_loops] = _with_loops(graph, self_loops)
    return made[self_loops]


def _with_loops(graph: AnyGraph, self_loops: bool) -> AnyGraph:
    n_src, n_dst, _ = graph.sizes
    graph = Graph.of(graph)
    if torch.compiler.is_compiling():
        return Graph(GraphArrays(*graph_with_loops(graph.arrays, self_loops)))
    ends = torch.stack([graph.src, graph.dst])
    return Graph.from_edge_index(ends, n_src, n_dst, self_loops=self_loops)


def _features_of_loops(
    graph: AnyGraph, n_loops: Any, edge_attr: Tensor, fill_value: float | Tensor | str
) -> Tensor:
    """Features of self-loops, given or taken from the other edges that end there."""
    if not isinstance(fill_value, str):
        return edge_attr.new_zeros(n_loops, edge_attr.shape[1]) + fill_value
    others = _looped(graph, False)
    aggregation = {"add": "sum"}.get(fill_value, fill_value)
    fill: Tensor = functional.agg_simple(None, edge_attr, graph=others, aggregation=aggregation)
    return fill[:n_loops]


def graph_of(edges: Edges, n_src: int, n_dst: int) -> AnyGraph:
    """The graph itself, or the graph of an ``edge_index``."""
    if isinstance(edges, Tensor):
        return graph_from_edge_index(edges, n_src, n_dst)
    return cast(AnyGraph, edges)  # a graph over many processes stands for a graph from here on


def ends_of(graph: AnyGraph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Source and destination of every row of the edge arrays, in a process' own numbers."""
    graph = graph.local if isinstance(graph, DistributedGraph) else graph
    graph = Graph.of(graph, device)
    return graph.src, graph.dst


def of_sources(x: Tensor, graph: AnyGraph) -> Tensor:
    """Rows indexed by the sources of `ends_of`; for a distributed graph with those of the halo."""
    return halo(x, graph=graph) if isinstance(graph, DistributedGraph) else x


def used_rows(graph: AnyGraph, device: torch.device) -> Tensor:
    """Mask of the rows of edge arrays that belong to an edge."""
    graph = graph.local if isinstance(graph, DistributedGraph) else graph
    return ~Graph.of(graph, device).free_rows


def without_free_rows(edge_attr: Tensor, graph: AnyGraph) -> Tensor:
    """Edge features with zeros in rows that belong to no edge, if there may be such rows.

    Their values do not matter, but NaN times 0 would enter a layer's gradient.
    """
    local = graph.local if isinstance(graph, DistributedGraph) else graph
    offsets, n_rows = local.arrays.offsets, local.n_edges
    if edge_attr.shape[0] != n_rows:
        return edge_attr  # operators raise the error
    on_host = not isinstance(offsets, Tensor) or offsets.is_cpu
    if is_eager(edge_attr) and on_host and int(offsets[-1]) == n_rows:
        return edge_attr  # the host knows that there are none
    used = used_rows(graph, edge_attr.device)
    return edge_attr.masked_fill(~used.view(-1, *[1] * (edge_attr.dim() - 1)), 0)

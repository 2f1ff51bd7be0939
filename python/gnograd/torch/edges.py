# SPDX-License-Identifier: MIT
"""Edges as PyTorch programs have them, and the `gnograd.Graph` of them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gnograd.graph import Graph
from gnograd.torch import functional
from gnograd.torch.adapter import not_compiled

__all__ = [
    "Edges",
    "ends_of",
    "entries_of",
    "graph_from_edge_index",
    "graph_of",
    "with_self_loops",
]

Edges: TypeAlias = "Graph | Tensor"
"""A graph, built once for all layers and steps, or what PyG takes, from which every call builds
one: ``edge_index (2, n_edges)``, or a sparse matrix with a row for every destination."""


@not_compiled
def graph_from_edge_index(
    edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool = False
) -> Graph:
    """Graph of PyG's ``edge_index``, whose rows are sources and destinations.

    Parameters
    ----------
    edge_index : Tensor of int64 or int32, (2, n_edges)
    n_src, n_dst : int
        Numbers of nodes.
    self_loops : bool
        Have exactly one a node, as `with_self_loops`.

    Raises
    ------
    TypeError, ValueError, IndexError
        No tensor of integers, another shape, a node out of range.
    """
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            f"graph_from_edge_index: edge_index is of type {type(edge_index).__name__}, "
            "needs a tensor of int64"
        )
    if edge_index.dim() != 2 or len(edge_index) != 2:
        raise ValueError(
            f"graph_from_edge_index: edge_index has shape {tuple(edge_index.shape)}, "
            "needs (2, n_edges)"
        )
    src, dst = edge_index.cpu().numpy()
    return Graph._from_edges(src, dst, n_src, n_dst, self_loops)


@not_compiled
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
        Its edge arrays have a row for every edge kept, then one for every self-loop.
    edge_attr : Tensor or None

    Raises
    ------
    ValueError
        Edge features that are not one row an edge.
    """
    if edge_attr is not None and len(edge_attr) != graph.n_edges:
        raise ValueError(
            f"with_self_loops: edge_attr has shape {tuple(edge_attr.shape)}, "
            f"needs one row for each of the {graph.n_edges} edges"
        )
    src, dst = graph.src, graph.dst
    looped = Graph._from_edges(src, dst, graph.n_src, graph.n_dst, self_loops=True)
    if edge_attr is None:
        return looped, None
    keep = src != dst
    n_loops = min(graph.n_src, graph.n_dst)
    kept = edge_attr[torch.from_numpy(keep).to(edge_attr.device)]
    if isinstance(fill_value, str):
        aggregation = {"add": "sum"}.get(fill_value, fill_value)
        others = Graph.from_edges(src[keep], dst[keep], graph.n_src, graph.n_dst)
        fill = functional.agg_simple(None, kept, graph=others, aggregation=aggregation)
        fill = fill[:n_loops]
    else:
        fill = kept.new_zeros(n_loops, kept.shape[1]) + fill_value
    return looped, torch.cat([kept, fill])


def graph_of(edges: Edges, n_src: int, n_dst: int) -> Graph:
    """The graph itself, or that of an ``edge_index``."""
    return edges if isinstance(edges, Graph) else graph_from_edge_index(edges, n_src, n_dst)


@not_compiled
def ends_of(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Source and destination of every row of the edge arrays."""
    src, dst = (torch.from_numpy(nodes.astype(np.int64)) for nodes in (graph.src, graph.dst))
    return src.to(device), dst.to(device)


@not_compiled
def entries_of(matrix: Tensor, n_src: int, n_dst: int) -> tuple[Tensor, Tensor]:
    """Edges and values of a sparse matrix whose rows are destinations."""
    if tuple(matrix.shape[:2]) != (n_dst, n_src):
        raise ValueError(
            f"edge_index is a sparse matrix of shape {tuple(matrix.shape)}, needs a row for each "
            f"of the {n_dst} destinations and a column for each of the {n_src} sources"
        )
    entries = matrix.to_sparse_coo().coalesce()
    return entries.indices().flip(0), entries.values()

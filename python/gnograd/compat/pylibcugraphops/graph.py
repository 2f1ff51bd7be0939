# SPDX-License-Identifier: MIT
"""Graphs: `gnograd.Graph`, and the integer type in which the caller keeps edge positions."""

from __future__ import annotations

from typing import NamedTuple

from gnograd.compat.arrays import on_host
from gnograd.graph import Graph
from gnograd.operator import Array

__all__ = ["Csc", "make_bipartite_csc", "make_csc"]


class Csc(NamedTuple):
    """What `make_csc` and `make_bipartite_csc` give."""

    graph: Graph
    """The same graph for gnograd's own operators."""
    index_dtype: str
    """``"int32"`` or ``"int64"``, as `offsets` and `indices` were; extrema locations are too."""

    @property
    def n_src_nodes(self) -> int:
        """Number of source nodes."""
        return self.graph.n_src

    @property
    def n_dst_nodes(self) -> int:
        """Number of destination nodes."""
        return self.graph.n_dst

    @property
    def n_indices(self) -> int:
        """Number of edges."""
        return self.graph.n_edges


def make_csc(offsets: Array, indices: Array, map_csc_to_coo: Array | None = None) -> Csc:
    """Graph whose sources and destinations are the same nodes.

    Parameters
    ----------
    offsets : array of int32 or int64, (n_nodes + 1,)
        First edge of every destination.
    indices : array of the same integers, (n_indices,)
        Source of every edge.
    map_csc_to_coo : array of int32 or int64, (n_indices,), optional
        Row of the edge arrays that every edge uses.

    Raises
    ------
    TypeError, ValueError, IndexError
        As for `gnograd.Graph`, which checks and copies the arrays.
    """
    return _make("make_csc", offsets, indices, None, map_csc_to_coo)


def make_bipartite_csc(
    offsets: Array, indices: Array, n_src_nodes: int, map_csc_to_coo: Array | None = None
) -> Csc:
    """Graph from `n_src_nodes` sources to other nodes; the rest is as in `make_csc`."""
    return _make("make_bipartite_csc", offsets, indices, n_src_nodes, map_csc_to_coo)


def _make(
    name: str, offsets: Array, indices: Array, n_src: int | None, edge_ids: Array | None
) -> Csc:
    first, sources = on_host(name, "offsets", offsets), on_host(name, "indices", indices)
    ids = None if edge_ids is None else on_host(name, "map_csc_to_coo", edge_ids)
    if first.dtype != sources.dtype:
        raise TypeError(f"{name}: offsets is {first.dtype} but indices is {sources.dtype}")
    return Csc(Graph(first, sources, n_src, ids), str(sources.dtype))

# SPDX-License-Identifier: MIT
"""Arrays of a graph in any framework: batches of graphs, and room for more edges."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = [
    "Borders", "GraphArrays", "GraphSizes", "OfArrays", "apart", "representation", "side_by_side",
    "with_room",
]  # fmt: skip


class GraphSizes(NamedTuple):
    """Sizes of a graph, which shapes of arrays depend on."""

    n_src: int
    n_dst: int
    n_edges: int
    """Rows of edge arrays: the edges, and the room for more."""


class GraphArrays(NamedTuple):
    """All arrays of a graph: its edges by destination, and by source.

    Frameworks hold a graph as such a tuple of arrays of their own. Behind the last offset there may
    be room for more edges, which no kernel reads.
    """

    offsets: Any
    """First edge of every destination, int64, (n_dst + 1,)."""
    indices: Any
    """Source of every edge, int32, (n_edges,)."""
    edge_ids: Any
    """Row of the edge arrays that belongs to every edge, int64, (n_edges,); None: its position."""
    src_offsets: Any
    """First edge of every source, int64, (n_src + 1,)."""
    src_indices: Any
    """Destination of every edge in the order of sources, int32, (n_edges,)."""
    src_edges: Any
    """Row of the edge arrays that belongs to every edge in this order, int64, (n_edges,)."""
    src_positions: Any
    """Position of every such edge in the order of destinations, int64, (n_edges,); None:
    `src_edges`."""

    @property
    def sizes(self) -> GraphSizes:
        """Numbers of sources, destinations and rows of edge arrays."""
        return GraphSizes(
            self.src_offsets.shape[0] - 1, self.offsets.shape[0] - 1, self.indices.shape[0]
        )


class OfArrays:
    """Properties that graphs of all frameworks read from their arrays."""

    arrays: GraphArrays

    @property
    def sizes(self) -> GraphSizes:
        """Numbers of sources, destinations and rows of edge arrays."""
        return self.arrays.sizes

    @property
    def n_src(self) -> int:
        """Number of sources."""
        return self.sizes.n_src

    @property
    def n_dst(self) -> int:
        """Number of destinations."""
        return self.sizes.n_dst

    @property
    def n_edges(self) -> int:
        """Number of rows of edge arrays: of the edges, unless there is room for more."""
        return self.sizes.n_edges


class Borders(NamedTuple):
    """First source, destination and row of edge arrays of every graph in a batch, and the totals.

    Integers, as tuples or, in frameworks, arrays, (n_graphs + 1,) each.
    """

    src: Any
    dst: Any
    edges: Any


Numbers = Callable[[int, int, Any], Any]
"""Function of (first, last, like): integers first .. last - 1, with dtype and device of `like`."""


def side_by_side(
    graphs: Sequence[GraphArrays], concatenate: Callable[[list[Any]], Any], numbers: Numbers
) -> tuple[GraphArrays, Borders]:
    """One graph of several, with nodes and rows of edge arrays in the order of the graphs."""
    if not graphs:
        raise ValueError("Graph.batch: graphs is empty, needs one or more")
    sizes = [graph.sizes for graph in graphs]
    for k, (graph, size) in enumerate(zip(graphs, sizes, strict=True)):
        room = size.n_edges - int(graph.offsets[-1])
        if room:
            raise ValueError(
                f"Graph.batch: graphs[{k}] has room for {room} more edges; "
                "make the batch first, then room or self-loops"
            )
    borders = Borders(
        *(tuple(itertools.accumulate(n, initial=0)) for n in zip(*sizes, strict=True))
    )
    in_order = all(graph.edge_ids is None for graph in graphs)
    parts = []
    for graph, src, dst, row in zip(graphs, *borders, strict=False):
        places = numbers(0, graph.indices.shape[0], graph.src_edges)
        ids = places if graph.edge_ids is None else graph.edge_ids
        positions = graph.src_edges if graph.src_positions is None else graph.src_positions
        parts.append(
            GraphArrays(
                graph.offsets[:-1] + row, graph.indices + src, ids + row,
                graph.src_offsets[:-1] + row, graph.src_indices + dst, graph.src_edges + row,
                positions + row,
            )
        )  # fmt: skip
    end = graphs[-1].offsets[-1:] + borders.edges[-2]
    joined = GraphArrays(*(concatenate(list(column)) for column in zip(*parts, strict=True)))
    joined = joined._replace(
        offsets=concatenate([joined.offsets, end]),
        src_offsets=concatenate([joined.src_offsets, end]),
    )
    return joined._replace(edge_ids=None, src_positions=None) if in_order else joined, borders


def apart(graph: GraphArrays, borders: Borders | None) -> list[GraphArrays]:
    """The graphs that `side_by_side` has joined."""
    if borders is None:
        raise ValueError("Graph.unbatch: the graph is no batch")
    parts = []
    for (src, src_end), (dst, dst_end), (row, end) in zip(
        *map(itertools.pairwise, borders), strict=True
    ):
        parts.append(
            GraphArrays(
                graph.offsets[dst : dst_end + 1] - row,
                graph.indices[row:end] - src,
                None if graph.edge_ids is None else graph.edge_ids[row:end] - row,
                graph.src_offsets[src : src_end + 1] - row,
                graph.src_indices[row:end] - dst,
                graph.src_edges[row:end] - row,
                None if graph.src_positions is None else graph.src_positions[row:end] - row,
            )
        )
    return parts


def with_room(
    graph: GraphArrays, n_edges: int, concatenate: Callable[[list[Any]], Any], numbers: Numbers
) -> GraphArrays:
    """The graph with `n_edges` rows of edge arrays, the last ones of which belong to no edge."""
    n = graph.sizes.n_edges
    if n_edges < n:
        raise ValueError(f"Graph.pad: n_edges is {n_edges}, needs {n} or more")

    def longer(rows: Any) -> Any:
        return None if rows is None else concatenate([rows, numbers(n, n_edges, rows)])

    def nowhere(nodes: Any) -> Any:
        return concatenate([nodes, numbers(n, n_edges, nodes) * 0])

    return GraphArrays(
        graph.offsets, nowhere(graph.indices), longer(graph.edge_ids),
        graph.src_offsets, nowhere(graph.src_indices), longer(graph.src_edges),
        longer(graph.src_positions),
    )  # fmt: skip


def representation(graph: GraphArrays) -> str:
    """Text that `repr` of a graph gives."""
    n_src, n_dst, n_edges = graph.sizes
    room = n_edges - int(graph.offsets[-1])
    more = f", room for {room} of these" if room else ""
    return f"Graph(n_src={n_src}, n_dst={n_dst}, n_edges={n_edges}{more})"

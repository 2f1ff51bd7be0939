# SPDX-License-Identifier: MIT
"""Halo of edges, for operators on pairs of edges.

The sum at an edge j -> i over the edges k -> j is computed by the owner of i, but these edges
belong to the owner of j. So the edges that end at a process' halo are its halo of edges; they
travel as nodes do.
"""

from __future__ import annotations

import numpy as np

from gnograd.distributed.part import EdgeHalo, Part
from gnograd.distributed.plan import Ids, edges_of, in_blocks, plan_of, positions
from gnograd.graphs.graph import Graph

__all__ = ["edge_halo"]


def edge_halo(dg: Part) -> EdgeHalo:
    """The halo of edges of a graph, found by all processes together.

    Raises
    ------
    ValueError
        Sources and destinations are different nodes.
    """
    comm, plan, doing = dg.comm, dg.plan, "DistributedGraph: halo of edges"
    with comm.together(doing):
        if dg.owned is not dg.owned_dst:
            raise ValueError(
                f"{doing}: sources and destinations are different nodes, so that no edges meet"
            )
        local, known = dg.local, np.concatenate([dg.owned, dg.halo_ids])
    ends = np.concatenate([[0], np.cumsum(comm.all_gather([dg.n_edges])[:, 0])])
    first = ends[comm.rank]

    # a process sends the edges of the rows in its plan, without a request
    degrees, numbers, sources = ([np.empty(0, np.int64)] * comm.size for _ in range(3))
    for rank, (_, rows) in zip(plan.neighbours, plan.send_parts(), strict=True):
        offsets, places = edges_of(local.offsets, rows)
        degrees[rank] = np.diff(offsets)
        numbers[rank] = first + places
        sources[rank] = known[local.indices[places]]
    degree, number, source = (
        np.concatenate(comm.swap(told)) for told in (degrees, numbers, sources)
    )
    order = np.argsort(number)
    mine = np.arange(first, first + dg.n_edges)
    of_edges, _ = plan_of(comm, doing, mine, number[order], in_blocks(ends))
    with comm.together(doing):
        place, n_nodes = _rows_of(source[order], known)
        row = np.repeat(dg.n_own + np.arange(dg.n_halo), degree)[order]
        extended = Graph.from_edges(
            np.concatenate([local.src, place]), np.concatenate([local.dst, row]), n_nodes, n_nodes
        )
    return EdgeHalo(of_edges, extended)


def _rows_of(nodes: Ids, known: Ids) -> tuple[Ids, int]:
    """Rows of nodes, unknown ones after the known, and the number of rows."""
    place = positions(known, nodes)
    new, which = np.unique(nodes[place < 0], return_inverse=True)
    place[place < 0] = known.size + which
    return place, known.size + new.size

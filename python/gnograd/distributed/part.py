# SPDX-License-Identifier: MIT
"""Part of a graph on one process: its nodes, its edges, and its halo."""

from __future__ import annotations

import abc
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator
from gnograd.distributed.plan import Ids, Plan
from gnograd.graphs.graph import Graph
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation.graph_arrays import GraphSizes

__all__ = ["EdgeHalo", "Part", "Rows"]


class Rows(NamedTuple):
    """The edges of this process by destination, in the numbers of its rows."""

    offsets: Ids
    indices: Ids
    """Source of every edge: a row of the extended features."""


class EdgeHalo(NamedTuple):
    """Exchange of rows of edge arrays."""

    plan: Plan
    local: Graph
    """Own edges, followed by those that end at the halo; nodes are the own ones, the halo, and the
    sources of its edges."""

    @property
    def n_own(self) -> int:
        """Number of edges that this process owns."""
        return self.local.n_edges - self.plan.n_halo

    @property
    def n_halo(self) -> int:
        """Number of edges that it gets from others."""
        return self.plan.n_halo


class Part(GraphInParts):
    """Data of a `DistributedGraph` on this process; base of that class."""

    def __init__(
        self,
        comm: Communicator,
        plan: Plan,
        rows: Rows,
        n_interior: int,
        owned: tuple[Ids, Ids],
        halo_ids: Ids,
        order: Ids,
        edges: Ids,
    ) -> None:
        self.comm, self.plan, self._rows = comm, plan, rows
        self.n_interior = n_interior
        self.owned, self.owned_dst = owned
        self.halo_ids, self.order, self.edges = halo_ids, order, edges

    def __copy__(self) -> Part:
        return self

    def __deepcopy__(self, memo: object) -> Part:
        return self  # a model may be copied with its graph, processes cannot

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__}: it belongs to the processes of this program and cannot be "
            "pickled; store what it was made of, and make it anew"
        )

    @property
    def sizes(self) -> GraphSizes:
        """Rows of this process' arrays: of its own sources, destinations and edges."""
        return GraphSizes(self.n_own, self.owned_dst.size, self.edges.size)

    @property
    def n_own(self) -> int:
        """Number of sources that this process owns."""
        return self.owned.size

    @property
    def n_halo(self) -> int:
        """Number of sources that it gets from others."""
        return self.plan.n_halo

    @property
    def n_src(self) -> int:
        """Number of sources that this process owns, as `n_own`."""
        return self.n_own

    @property
    def n_dst(self) -> int:
        """Number of destinations that this process owns."""
        return self.owned_dst.size

    @property
    def n_edges(self) -> int:
        """Number of edges that end at own destinations."""
        return self.edges.size

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Ranks of the processes that rows go to or come from."""
        return self.plan.neighbours

    @property
    def in_degree(self) -> NDArray[np.int64]:
        """Number of edges that end in every own destination, (n_dst,)."""
        return np.diff(self._rows.offsets)

    @cached_property
    def local(self) -> Graph:
        """The edges of this process, from the rows of ``halo(h)`` to its destinations."""
        return Graph(*self._rows, n_src=self.n_own + self.n_halo)

    @property
    def n_interior_edges(self) -> int:
        """Number of edges that end at interior destinations."""
        return int(self._rows.offsets[self.n_interior])

    @cached_property
    def interior(self) -> Graph:
        """Edges that end at the first `n_interior` destinations, from own rows."""
        offsets, indices = self._rows
        last = offsets[self.n_interior]
        return Graph(offsets[: self.n_interior + 1], indices[:last], n_src=self.n_own)

    @cached_property
    def boundary(self) -> Graph:
        """The other edges, from the rows `boundary_rows`, followed by those of the halo."""
        offsets, indices = self._rows
        first = offsets[self.n_interior]
        sources, own = indices[first:], self.boundary_rows
        place = np.where(
            sources < self.n_own,
            np.searchsorted(own, sources),
            sources - self.n_own + own.size,
        )
        return Graph(offsets[self.n_interior :] - first, place, n_src=own.size + self.n_halo)

    @property
    @abc.abstractmethod
    def edge_halo(self) -> EdgeHalo:
        """Edges that end at the halo. The first access is collective: all processes find them."""

    @cached_property
    def boundary_rows(self) -> Ids:
        """Own rows from which an edge goes to a destination that is not interior, ascending."""
        offsets, indices = self._rows
        sources = indices[offsets[self.n_interior] :]
        return np.unique(sources[sources < self.n_own])

    def __repr__(self) -> str:
        other = "" if self.owned is self.owned_dst else f"n_dst={self.n_dst}, "
        return (
            f"DistributedGraph(process {self.comm.rank} of {self.comm.size}: n_own={self.n_own}, "
            f"n_halo={self.n_halo}, {other}n_edges={self.n_edges})"
        )

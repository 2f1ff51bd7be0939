# SPDX-License-Identifier: MIT
"""Graph distributed over processes, each of which has the edges that end at its nodes."""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gnograd.distributed import operators, reductions
from gnograd.distributed.communicator import Communicator
from gnograd.distributed.edge_halo import edge_halo
from gnograd.distributed.engines import communicator
from gnograd.distributed.halo import halo
from gnograd.distributed.part import EdgeHalo, Part, Rows
from gnograd.distributed.plan import (
    Ids,
    Owners,
    by_directory,
    edges_of,
    in_blocks,
    plan_of,
    positions,
)
from gnograd.distributed.points import FromPoints
from gnograd.graphs.graph import Graph
from gnograd.notation.static import exact_integers

__all__ = ["DistributedGraph"]


class DistributedGraph(FromPoints, Part):
    """The part of a graph that belongs to this process, and the owners of the rows it needs.

    A process owns some nodes, and has all edges that end at them. Sources that others own are its
    halo. Operators take it in place of a `Graph`, with the rows of the nodes that this process
    owns; they fetch the rows of the halo while they compute results that do not need these, and
    bring derivatives back to their owners. All processes call them together.

    Make one by `from_global`, `from_local` or `radius`.

    Attributes
    ----------
    comm : Communicator
    n_own, n_halo : int
        Number of sources that this process owns, and number of those that it gets from others.
    owned, halo_ids : array of int64
        Global numbers of own sources and of the halo, in the order of the rows. Own nodes without
        an edge from the halo come first, in the given order, then the others; the halo is ordered
        by rank of the owner, then by number.
    owned_dst : array of int64
        Global numbers of the destinations, in the order of the rows: `owned`, unless sources are
        other nodes.
    order : array of int64
        Position, as given, of the node, point or destination of every row: ``mine[dg.order]`` are
        rows in the order of this graph.
    edges : array of int64
        Position, as given, of the edge of every row: ``of_edges[dg.edges]``. For `from_global`
        these are rows of the whole graph's edge arrays.
    n_interior : int
        Number of destinations without an edge from the halo.
    plan : Plan
        Plan of the exchange: rows to send and to receive.

    Examples
    --------
    On one process (on several, each gets its part of the ring):

    >>> import numpy as np
    >>> import gnograd as gg
    >>> ring = gg.Graph.from_edges(src=np.arange(6), dst=(np.arange(6) + 1) % 6)
    >>> comm = gg.distributed.communicator()
    >>> owner = gg.distributed.partition(np.arange(6.0)[:, None], comm.size)
    >>> dg = gg.DistributedGraph.from_global(ring, owner, comm)
    >>> dg
    DistributedGraph(process 0 of 1: n_own=6, n_halo=0, n_edges=6)
    >>> h = np.arange(6.0)[:, None]
    >>> gg.agg_simple(h[dg.owned], graph=dg).ravel()
    array([5., 0., 1., 2., 3., 4.])
    """

    _looped: DistributedGraph | None = None

    # ---- constructors ----

    @classmethod
    def from_global(
        cls, graph: Graph, owner: ArrayLike, comm: Any = None, owner_src: ArrayLike | None = None
    ) -> DistributedGraph:
        """Distribute a graph that every process has whole: for small problems and experiments.

        Parameters
        ----------
        graph : Graph
            Graph, the same on all processes.
        owner : array of int, (n_dst,)
            Rank of the process that owns each destination.
        comm : optional
            As for `communicator`.
        owner_src : array of int, (n_src,), optional
            Rank of the process that owns each source, if sources are other nodes than destinations.

        Raises
        ------
        TypeError, ValueError
            Arrays of another type or length; a rank that does not exist. On all processes.
        """
        doing = "DistributedGraph.from_global"
        comm = communicator(comm)
        with comm.together(doing):
            if not isinstance(graph, Graph):
                raise TypeError(f"{doing}: graph is of type {type(graph).__name__}, needs a Graph")
            if owner_src is None and graph.n_src != graph.n_dst:
                raise ValueError(
                    f"{doing}: owner_src is missing; there are {graph.n_src} sources and "
                    f"{graph.n_dst} destinations, so they are not the same nodes"
                )
            of_dst = _ranks(f"{doing}: owner", owner, graph.n_dst, comm.size)
            of_src = of_dst
            if owner_src is not None:
                of_src = _ranks(f"{doing}: owner_src", owner_src, graph.n_src, comm.size)
            mine = np.flatnonzero(of_dst == comm.rank)
            offsets, places = edges_of(graph.offsets, mine)
            sources = graph.indices[places].astype(np.int64)
            edges = places if graph.edge_ids is None else graph.edge_ids[places]
            owned_src = None if owner_src is None else np.flatnonzero(of_src == comm.rank)
        made = cls._of_rows(
            comm, doing, offsets, sources, mine, owned_src, lambda nodes: of_src[nodes]
        )
        made.edges = edges[made.edges]
        return made

    @classmethod
    def from_local(
        cls,
        offsets: ArrayLike,
        sources: ArrayLike,
        owned: ArrayLike,
        comm: Any = None,
        owned_src: ArrayLike | None = None,
    ) -> DistributedGraph:
        """Graph from the own rows of every process, as after a solver's own partition.

        Parameters
        ----------
        offsets : array of int, (n_owned + 1,)
            First edge of every own destination; starts with 0 and ends with the number of edges.
        sources : array of int, (n_edges,)
            Source of every edge, as a global number.
        owned : array of int, (n_owned,)
            Global numbers of the own destinations: from 0 on, in any order, with gaps or without,
            each of one process.
        comm : optional
            As for `communicator`.
        owned_src : array of int, optional
            Global numbers of the own sources, where these are other nodes than the destinations.

        Raises
        ------
        TypeError, ValueError
            Arrays of another type or length; offsets that decrease; a node with two owners. On all
            processes.
        IndexError
            A number that is negative, a source that nobody owns. On all processes.

        Examples
        --------
        >>> import gnograd as gg
        >>> dg = gg.DistributedGraph.from_local([0, 1, 3], [20, 10, 20], owned=[10, 20])
        >>> dg.owned, dg.local.indices
        (array([10, 20]), array([1, 0, 1], dtype=int32))
        """
        doing = "DistributedGraph.from_local"
        comm = communicator(comm)
        with comm.together(doing):
            first, from_nodes, own = (
                _ids(f"{doing}: {name}", values)
                for name, values in (("offsets", offsets), ("sources", sources), ("owned", owned))
            )
            if first.size != own.size + 1:
                raise ValueError(
                    f"{doing}: offsets has {first.size} entries, needs one more than the "
                    f"{own.size} of owned"
                )
            if first[0] != 0 or first[-1] != from_nodes.size or (np.diff(first) < 0).any():
                raise ValueError(
                    f"{doing}: offsets has to rise from 0 to {from_nodes.size}, the number of "
                    "sources"
                )
            own_src = None if owned_src is None else _ids(f"{doing}: owned_src", owned_src)
        owners = by_directory(comm, doing, own if own_src is None else own_src)
        if own_src is not None:
            by_directory(comm, doing, own)  # two owners of a destination are an error as well
        return cls._of_rows(comm, doing, first, from_nodes, own, own_src, owners)

    @classmethod
    def _of_blocks(
        cls,
        comm: Communicator,
        doing: str,
        offsets: Ids,
        sources: Ids,
        first: Ids,
        first_src: Ids | None = None,
    ) -> DistributedGraph:
        """Graph of nodes that are numbered process by process.

        Parameters
        ----------
        comm, doing, offsets, sources
            As in `from_local`, checked.
        first : array of int64, (size + 1,)
            First destination of every process, and their number.
        first_src : array of int64, (size + 1,), optional
            First source of every process, and their number, if sources are other nodes.
        """
        mine = np.arange(first[comm.rank], first[comm.rank + 1])
        if first_src is None:
            return cls._of_rows(comm, doing, offsets, sources, mine, None, in_blocks(first))
        own_src = np.arange(first_src[comm.rank], first_src[comm.rank + 1])
        return cls._of_rows(comm, doing, offsets, sources, mine, own_src, in_blocks(first_src))

    @classmethod
    def _of_rows(
        cls,
        comm: Communicator,
        doing: str,
        offsets: Ids,
        sources: Ids,
        owned: Ids,
        owned_src: Ids | None,
        owners: Owners,
    ) -> DistributedGraph:
        """Graph of own rows, checked, with global numbers of sources."""
        place = positions(owned if owned_src is None else owned_src, sources)
        is_foreign = place < 0
        so_far = np.concatenate([[0], np.cumsum(is_foreign)])
        has_halo = so_far[offsets[1:]] > so_far[offsets[:-1]]
        order = np.argsort(has_halo, kind="stable")
        n_interior = owned.size - int(np.count_nonzero(has_halo))
        owned_dst = owned[order]
        own = owned_dst if owned_src is None else owned_src
        if owned_src is None:
            row = np.empty_like(order)
            row[order] = np.arange(order.size)
            place = np.where(is_foreign, place, row[place]) if row.size else place
        needed, which = np.unique(sources[is_foreign], return_inverse=True)
        plan, by_owner = plan_of(comm, doing, own, needed, owners)
        at = np.empty_like(by_owner)
        at[by_owner] = np.arange(by_owner.size)
        place[is_foreign] = own.size + at[which]
        new_offsets, edges = edges_of(offsets, order)
        return cls(
            comm, plan, Rows(new_offsets, place[edges]), n_interior, (own, owned_dst),
            needed[by_owner], order, edges,
        )  # fmt: skip

    def with_self_loops(self) -> DistributedGraph:
        """Copy of this graph with exactly one self-loop a node; made once.

        Returns
        -------
        DistributedGraph
            Its `edges` are rows of this graph's edge arrays, followed by one self-loop for every
            own node.

        Raises
        ------
        ValueError
            Sources are other nodes than destinations.
        """
        if self._looped is None:
            if self.owned is not self.owned_dst:
                raise ValueError(
                    "DistributedGraph.with_self_loops: sources are other nodes than destinations"
                )
            offsets, indices = self._rows
            n = self.n_own
            row = np.repeat(np.arange(n), np.diff(offsets))
            stays = np.flatnonzero(indices != row)
            rows = np.concatenate([row[stays], np.arange(n)])
            by_row = np.argsort(rows, kind="stable")
            sources = np.concatenate([indices[stays], np.arange(n)])[by_row]
            edges = np.concatenate([stays, self.n_edges + np.arange(n)])[by_row]
            ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
            self._looped = DistributedGraph(
                self.comm, self.plan, Rows(ends, sources), self.n_interior,
                (self.owned, self.owned_dst), self.halo_ids, self.order, edges,
            )  # fmt: skip
        return self._looped

    @property
    def faces(self) -> ModuleType:
        """Module with the faces of operators on this graph."""
        return operators

    @cached_property
    def edge_halo(self) -> EdgeHalo:
        """Edges that end at the halo. The first access is collective: all processes find them."""
        return edge_halo(self)

    # ---- over all processes ----

    def halo(self, h_own: Any) -> Any:
        """Rows of own nodes, followed by those of the halo, as `gnograd.halo`.

        Parameters
        ----------
        h_own : array, Tensor or gnograd.autodiff.Array, (n_own, ...)
        """
        front = reductions.front_of(h_own)
        if front is not None:
            return front.halo(h_own, graph=self)
        return halo(h_own, graph=self)

    def sum(self, local: Any) -> Any:
        """Sum over the processes of an array that each has, entry by entry.

        Differentiable for tensors and on a tape. The adjoint returns the cotangent unchanged, which
        is right if all processes compute the same from the sum: it is the gradient with respect to
        this process' part of a loss that is summed over the processes.

        Parameters
        ----------
        local : array, Tensor or gnograd.autodiff.Array
            Array of one shape on all processes.

        Returns
        -------
        array
            Sum with the same bits on all processes, in the order of ranks.
        """
        return reductions.sum(self.comm, local)

    def shared(self, array: Any) -> Any:
        """Call `gnograd.distributed.shared` with the processes of this graph."""
        return reductions.shared(self.comm, array)

    def mean(self, rows: Any) -> Any:
        """Mean over the rows (n, ...) of all processes, (...,); derivatives as for `sum`."""
        return reductions.mean(self.comm, rows)

    def norm(self, rows: Any) -> Any:
        """Square root of the sum of squares of all processes' numbers; derivatives likewise."""
        return reductions.norm(self.comm, rows)

    def sum_gradients(self, gradients: Any) -> Any:
        """Call `gnograd.distributed.sum_gradients` with the processes of this graph."""
        return reductions.sum_gradients(self.comm, gradients)


def _ids(name: str, values: ArrayLike) -> Ids:
    """A vector of integers that are not negative."""
    array = np.asarray(values)
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} is {array.dtype}, needs integers")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, needs one dimension")
    if array.size and array.min() < 0:
        k = int(np.argmin(array))
        raise IndexError(f"{name}[{k}] is {array[k]}, needs a number that is not negative")
    return exact_integers(name, array, np.int64)


def _ranks(name: str, values: ArrayLike, n: int, size: int) -> Ids:
    """Ranks of the owners of n nodes."""
    ranks = _ids(name, values)
    if ranks.size != n:
        raise ValueError(f"{name} has {ranks.size} entries, needs {n}")
    if ranks.size and ranks.max() >= size:
        k = int(np.argmax(ranks))
        raise ValueError(f"{name}[{k}] is {ranks[k]}, but there are {size} processes")
    return ranks

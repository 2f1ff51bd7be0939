# SPDX-License-Identifier: MIT
"""Graphs: edges grouped by destination, and by source when gradients need them so."""

from __future__ import annotations

import itertools
import os
import secrets
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd import _core
from gnograd.backends.cpu import address, check_status, refuse_mask
from gnograd.neighbors import neighbors, shape_of
from gnograd.static import AT_LEAST_0, LARGEST, integer

__all__ = ["EdgesBySource", "Graph", "graph_by_number"]


class EdgesBySource(NamedTuple):
    """The edges of a graph ordered by source: its transpose."""

    offsets: NDArray[np.int64]
    """First edge of every source, (n_src + 1,)."""
    indices: NDArray[np.int32]
    """Destination of every edge, (n_edges,)."""
    edge: NDArray[np.int64]
    """Row of the edge table that belongs to every edge, (n_edges,)."""
    position: NDArray[np.int64]
    """Position of every edge in the destination-major order, (n_edges,)."""


class Graph:
    """Directed bipartite graph in compressed columns, destination-major.

    Edge ``p`` in ``offsets[i] .. offsets[i + 1] - 1`` goes from source ``indices[p]`` to
    destination ``i``. Isolated nodes, self-loops, repeated edges, no edges and no nodes are all
    legal. The graph is checked and transposed once, here, in O(n_edges); it keeps its own copy
    of the arrays, cannot be changed, and may be shared between threads and operators.

    Parameters
    ----------
    offsets : array of int32 or int64, (n_dst + 1,)
        First edge of every destination; starts with 0 and ends with the number of edges.
    indices : array of int32 or int64, (n_edges,)
        Source of every edge.
    n_src : int, optional
        Number of sources, less than 2**31; the number of destinations when left out. Every node
        takes memory on both sides, whether it has edges or not.
    edge_ids : array of int32 or int64, (n_edges,), optional
        Row of the caller's edge arrays that every edge uses, a permutation. Left out, the rows
        are in the order of `indices`.

    Raises
    ------
    TypeError
        An array that is neither int32 nor int64.
    ValueError
        Offsets that decrease or do not fit `indices`, `edge_ids` that is no permutation.
    IndexError
        A node or edge out of range.

    See Also
    --------
    Graph.from_edges : from pairs of nodes in any order.
    Graph.radius : from points in space.

    Examples
    --------
    >>> import gnograd as gg
    >>> graph = gg.Graph([0, 2, 3, 3], [1, 2, 0])
    >>> graph
    Graph(n_src=3, n_dst=3, n_edges=3)
    >>> graph.src, graph.dst
    (array([1, 2, 0], dtype=int32), array([0, 0, 1], dtype=int32))
    >>> graph.transpose.offsets
    array([0, 1, 2, 3])
    """

    __slots__ = (
        "__weakref__", "_edge_ids", "_handle", "_indices", "_number", "_offsets", "mirrors",
        "sizes",
    )  # fmt: skip

    def __init__(
        self,
        offsets: ArrayLike,
        indices: ArrayLike,
        n_src: int | None = None,
        edge_ids: ArrayLike | None = None,
    ) -> None:
        first = _integers("offsets", offsets)
        sources = _integers("indices", indices)
        ids = None if edge_ids is None else _integers("edge_ids", edge_ids)
        n_dst = first.size - 1
        n_src = n_dst if n_src is None else _nodes("n_src", n_src)
        if ids is not None and ids.size != sources.size:
            raise ValueError(f"graph: edge_ids has {ids.size} entries, needs {sources.size}")
        handle = np.zeros(1, np.int64)
        check_status(
            _core.gnograd_graph_create(
                n_dst, n_src, sources.size, address(first), address(sources), address(ids),
                address(handle),
            )
        )  # fmt: skip
        self._keep(int(handle[0]), n_src, first, sources.astype(np.int32), ids)

    def _keep(
        self,
        handle: int,
        n_src: int,
        offsets: NDArray[np.int64],
        indices: NDArray[np.int32],
        edge_ids: NDArray[np.int64] | None,
    ) -> None:
        """Become a graph of the library, which ends with this object."""
        self._handle = handle
        # not at exit: the operating system is quicker
        weakref.finalize(self, _core.gnograd_graph_free, handle).atexit = False
        self.sizes = n_src, offsets.size - 1, indices.size
        """Numbers of sources, destinations and edges."""
        self._offsets, self._indices = _frozen(offsets), _frozen(indices)
        self._edge_ids = None if edge_ids is None else _frozen(edge_ids)
        self.mirrors: dict[int, Any] = {}
        """Copies on GPUs, by device; their backend keeps them here."""
        self._number = next(_numbers)
        _living[self._number] = self

    @classmethod
    def from_edges(
        cls, src: ArrayLike, dst: ArrayLike, n_src: int | None = None, n_dst: int | None = None
    ) -> Graph:
        """Graph of the edges ``src[e] -> dst[e]``, in any order.

        Edge arrays (coordinates, weights) stay in the order of `src` and `dst`, through
        `edge_ids`; edges already ordered by destination need none.

        Parameters
        ----------
        src, dst : array of int32 or int64, (n_edges,)
            The two ends of every edge.
        n_src, n_dst : int, optional
            Numbers of nodes. One left out is the same as the other; both left out are one more
            than the largest node in `src` and `dst`.

        Raises
        ------
        TypeError, ValueError, IndexError
            As for `Graph`.

        Examples
        --------
        >>> import gnograd as gg
        >>> graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
        >>> graph.indices, graph.edge_ids
        (array([1, 0, 2], dtype=int32), array([1, 0, 2]))
        >>> graph.in_degree
        array([1, 2, 0])
        """
        return cls._from_edges(src, dst, n_src, n_dst, self_loops=False)

    @classmethod
    def _from_edges(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        n_src: int | None,
        n_dst: int | None,
        self_loops: bool,
    ) -> Graph:
        """The same; with `self_loops`, exactly one at every node, and these in the last rows."""
        source, destination = _integers("src", src), _integers("dst", dst)
        if source.size != destination.size:
            raise ValueError(f"graph: src has {source.size} entries but dst has {destination.size}")
        n_src = None if n_src is None else _nodes("n_src", n_src)
        n_dst = n_src if n_dst is None else _nodes("n_dst", n_dst)
        if n_dst is None:
            n_dst = 1 + max(_largest("src", source), _largest("dst", destination))
        n_src = n_dst if n_src is None else n_src
        made = np.zeros(1, np.int64)
        check_status(
            _core.gnograd_graph_from_edges(
                n_dst, n_src, source.size, int(self_loops), address(source), address(destination),
                address(made),
            )
        )  # fmt: skip
        handle = int(made[0])
        n_edges = _core.gnograd_graph_n_edges(handle)
        offsets, indices = np.empty(n_dst + 1, np.int64), np.empty(n_edges, np.int32)
        ordered = _core.gnograd_graph_is_ordered(handle)
        rows = None if ordered else np.empty(n_edges, np.int64)
        _core.gnograd_graph_by_dst(handle, address(offsets), address(indices), address(rows))
        graph = cls.__new__(cls)
        graph._keep(handle, n_src, offsets, indices, rows)
        return graph

    @classmethod
    def radius(
        cls,
        sources: Any,
        radius: float,
        destinations: Any = None,
        include_self: bool = True,
        period: ArrayLike | None = None,
    ) -> Graph:
        """Graph of all pairs of points at most `radius` apart.

        The sources of a destination come in ascending order. Points on a GPU are looked for there,
        by `neighbors`, and the graph is made on the host.

        Parameters
        ----------
        sources : array of float, (n_src, d)
            Coordinates of the sources.
        radius : float
            Largest Euclidean distance, inclusive.
        destinations : array of float, (n_dst, d), optional
            Coordinates of the destinations; the sources when left out.
        include_self : bool, optional
            Whether a point is its own neighbour; ``False`` only without `destinations`.
        period : float or array of float, (d,), optional
            Lengths of a periodic box, 0 along axes that are not periodic. Distances are to the
            nearest image, which makes one edge even where more images are in reach.

        Raises
        ------
        ValueError
            Points that are not finite or not of the same dimension, a negative radius or period.

        See Also
        --------
        neighbors : the same without a graph.

        Examples
        --------
        >>> import numpy as np
        >>> import gnograd as gg
        >>> graph = gg.Graph.radius(np.array([[0.0], [1.0], [3.0]]), radius=1.5)
        >>> graph.src, graph.dst
        (array([0, 1, 0, 1, 2], dtype=int32), array([0, 0, 1, 1, 2], dtype=int32))
        """
        found = neighbors(sources, radius, destinations, include_self, period)
        offsets, indices = (x if isinstance(x, np.ndarray) else x.get() for x in found)
        return cls(offsets, indices, shape_of(sources)[0])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """First edge of every destination, (n_dst + 1,); read-only."""
        return self._offsets

    @property
    def indices(self) -> NDArray[np.int32]:
        """Source of every edge, (n_edges,), ordered by destination; read-only."""
        return self._indices

    @property
    def edge_ids(self) -> NDArray[np.int64] | None:
        """Row of the edge arrays that every entry of `indices` uses, or None: its own."""
        return self._edge_ids

    @property
    def n_src(self) -> int:
        """Number of sources."""
        return self.sizes[0]

    @property
    def n_dst(self) -> int:
        """Number of destinations."""
        return self.sizes[1]

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.sizes[2]

    @property
    def in_degree(self) -> NDArray[np.int64]:
        """Number of edges that end in every destination, (n_dst,)."""
        return np.diff(self._offsets)

    @property
    def src(self) -> NDArray[np.int32]:
        """Source of every row of the edge arrays, (n_edges,)."""
        return self._by_row(self._indices)

    @property
    def dst(self) -> NDArray[np.int32]:
        """Destination of every row of the edge arrays, (n_edges,)."""
        return self._by_row(np.repeat(np.arange(self.n_dst, dtype=np.int32), self.in_degree))

    @property
    def transpose(self) -> EdgesBySource:
        """The edges ordered by source; a copy of what the kernels keep."""
        edges = EdgesBySource(
            np.empty(self.n_src + 1, np.int64),
            np.empty(self.n_edges, np.int32),
            np.empty(self.n_edges, np.int64),
            np.empty(self.n_edges, np.int64),
        )
        _core.gnograd_graph_by_src(self._handle, *map(address, edges))
        return edges

    @property
    def handle(self) -> int:
        """Address of the ``gnograd_graph`` of the C interface, which lives as long as this."""
        return self._handle

    @property
    def number(self) -> int:
        """Number of this graph, which no other has, in this process or another."""
        return self._number

    def _by_row(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """Reorder an array over edges from destination-major order to the edge arrays' order."""
        if self._edge_ids is None:
            return values
        rows = np.empty_like(values)
        rows[self._edge_ids] = values
        return rows

    def __repr__(self) -> str:
        return f"Graph(n_src={self.n_src}, n_dst={self.n_dst}, n_edges={self.n_edges})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph, (self._offsets, self._indices, self.n_src, self._edge_ids)

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: object) -> Graph:
        return self


_PROCESS = 32
"""Bits of a number behind those that tell of its process."""
_numbers = itertools.count()
_living: weakref.WeakValueDictionary[int, Graph] = weakref.WeakValueDictionary()


def _start_numbers() -> None:
    """Number graphs from a random number on: a program of another process finds none of them."""
    global _numbers
    _numbers = itertools.count(secrets.randbits(63 - _PROCESS) << _PROCESS)


_start_numbers()
os.register_at_fork(after_in_child=_start_numbers)


def graph_by_number(number: int) -> Graph:
    """Graph with this number, for frameworks whose operators take numbers but no objects.

    Raises
    ------
    LookupError
        The graph is gone, or of another process.
    """
    graph = _living.get(number)
    if graph is not None:
        return graph
    if number >> _PROCESS == next(_numbers) >> _PROCESS:
        raise LookupError(f"graph: number {number} is gone; keep the Graph while it is in use")
    raise LookupError(
        f"graph: number {number} was given in another process, and a program has no more of a "
        "graph than its number; make the program anew in this process, with its own Graph"
    )


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Contiguous int64 copy of a vector of int32 or int64."""
    refuse_mask("graph", name, values)
    array = np.asarray(values)
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype not in (np.int32, np.int64):
        raise TypeError(f"graph: {name} is {array.dtype}, needs int32 or int64")
    if array.ndim != 1:
        raise ValueError(f"graph: {name} has shape {array.shape}, needs one dimension")
    return np.array(array, dtype=np.int64)


def _nodes(name: str, value: Any) -> int:
    """A number of nodes."""
    return integer(f"graph: {name}", value, AT_LEAST_0)


def _largest(name: str, ends: NDArray[np.int64]) -> int:
    """The largest of some nodes, -1 if there are none; nothing that would take absurd memory."""
    largest = int(ends.max(initial=-1))
    if largest >= LARGEST:
        edge = int(np.argmax(ends))
        raise IndexError(f"graph: {name}[{edge}] is {largest}, needs less than {LARGEST}")
    return largest


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array

# SPDX-License-Identifier: MIT
"""Graphs: edges grouped by destination, and by source when gradients need them so.

One file: where a graph is, who holds it and in which orders is known to its class alone.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd import _core
from gnograd.backends import backend_of
from gnograd.backends.cpu import address, check_status, refuse_mask
from gnograd.graphs import gpu as graph_gpu
from gnograd.graphs.building import GraphBuilding
from gnograd.graphs.checks import check_arrays
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation.graph_arrays import (
    Borders,
    GraphArrays,
    GraphSizes,
    apart,
    representation,
    side_by_side,
    with_room,
)
from gnograd.notation.keywords import named_now
from gnograd.notation.static import AT_LEAST_0, LARGEST, integer

__all__ = ["EdgesBySource", "Graph", "GraphLike", "LentForACall", "lend"]

_BRINGING = threading.Lock()

GraphLike: TypeAlias = "Graph | GraphInParts"
"""Type of the argument `graph` of operators."""


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


class Graph(GraphBuilding):
    """Directed bipartite graph in compressed columns, destination-major.

    Edge ``p`` in ``offsets[i] .. offsets[i + 1] - 1`` goes from source ``indices[p]`` to
    destination ``i``. Isolated nodes, self-loops, repeated edges, no edges and no nodes are all
    legal. The graph is checked and transposed once, here, in O(n_edges); it keeps its own copy
    of the arrays, cannot be changed, and may be shared between threads and operators. Arrays on a
    GPU are checked, and the graph is made of them, there, and so are reverse, union and self-loops
    of such graphs; the host gets a copy when something of it is asked for.

    There may be room for more edges than there are (`pad`): edge arrays then have rows that belong
    to no edge, whose values do not matter, and whose derivatives are 0.

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
    Graph.radius, Graph.knn : from points in space.
    Graph.from_scipy : from a sparse matrix.
    Graph.union, Graph.reverse, Graph.with_self_loops, Graph.batch : from other graphs.

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

    __slots__ = ("__weakref__", "_arrays", "_body", "_made_there", "borders", "mirrors", "sizes")

    _arrays: GraphArrays
    _body: _Body | None
    _made_there: bool
    sizes: GraphSizes
    """Numbers of sources, destinations and rows of edge arrays."""
    borders: Borders | None
    """First nodes and rows of the graphs in a batch; None if this is no batch."""
    mirrors: dict[Any, Any]
    """Cache for backends and adapters: objects made from this graph once, such as copies on
    GPUs."""

    def __init__(
        self,
        offsets: ArrayLike,
        indices: ArrayLike,
        n_src: int | None = None,
        edge_ids: ArrayLike | None = None,
    ) -> None:
        if graph_gpu.is_on_gpu(offsets, indices, edge_ids):
            given = None if n_src is None else _nodes("n_src", n_src)
            made_there = graph_gpu.from_csc(offsets, indices, given, edge_ids)
            if made_there is not None:
                self._keep_there(made_there)
                return
            offsets, indices, edge_ids = map(graph_gpu.to_host, (offsets, indices, edge_ids))
        first = _integers("offsets", offsets)
        sources = _integers("indices", indices)
        ids = None if edge_ids is None else _integers("edge_ids", edge_ids)
        if not first.size:
            raise ValueError("graph: offsets is empty, needs n_dst+1 entries")
        n_dst = first.size - 1
        n_src = n_dst if n_src is None else _nodes("n_src", n_src)
        if ids is not None and ids.size != sources.size:
            raise ValueError(f"graph: edge_ids has {ids.size} entries, needs {sources.size}")
        made = np.zeros(1, np.int64)
        check_status(
            _core.gnograd_graph_create(
                n_dst, n_src, sources.size, address(first), address(sources), address(ids),
                address(made),
            )
        )  # fmt: skip
        self._keep(_Body(int(made[0])), n_dst, n_src)

    def _keep(self, body: _Body, n_dst: int, n_src: int) -> None:
        """Make this the graph of a handle of the library, in whose memory the arrays lie."""
        n_edges = _core.gnograd_graph_n_edges(body.handle)
        where = np.zeros(7, np.int64)
        _core.gnograd_graph_arrays(body.handle, address(where))
        lengths = n_dst + 1, n_edges, n_edges, n_src + 1, n_edges, n_edges, n_edges
        types = "<i8", "<i4", "<i8", "<i8", "<i4", "<i8", "<i8"
        arrays = GraphArrays(*map(body.array, map(int, where), lengths, types))
        if _core.gnograd_graph_is_ordered(body.handle):
            arrays = arrays._replace(edge_ids=None, src_positions=None)
        self._become(body, arrays, None)

    def _keep_there(self, arrays: GraphArrays) -> Graph:
        """Make this a graph with arrays on a GPU, copied to the host when first needed."""
        self._become(None, arrays, None)
        self._made_there = True
        backend = backend_of(arrays.offsets)
        assert backend is not None
        backend.lend(self, arrays)
        return self

    @property
    def _there(self) -> GraphArrays | None:
        """The arrays, if they are on a GPU only."""
        with _BRINGING:
            return self._arrays if self._made_there else None

    def _bring(self) -> None:
        """Copy the arrays to the host if they are on a GPU only."""
        with _BRINGING:
            if self._made_there:
                arrays = GraphArrays(*(x if x is None else x.get() for x in self._arrays))
                self._body, self._arrays = _lent(arrays), arrays
                self._made_there = False

    def _become(self, body: _Body | None, arrays: GraphArrays, borders: Borders | None) -> Graph:
        self._body, self._arrays, self.borders = body, arrays, borders
        self.sizes = arrays.sizes
        self.mirrors = {}
        self._made_there = False
        return self

    @classmethod
    @named_now("self_loops")
    def from_edges(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        n_src: int | None = None,
        n_dst: int | None = None,
        *,
        self_loops: bool | None = None,
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
        self_loops : bool, optional
            Leave out the self-loops there are: their rows of edge arrays belong to no edge then. If
            true, have exactly one at each of the first ``min(n_src, n_dst)`` nodes, whose rows come
            behind those of `src` and `dst`.

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
        if graph_gpu.is_on_gpu(src, dst):
            made_there = cls._from_edges_there(src, dst, n_src, n_dst, self_loops)
            if made_there is not None:
                return made_there
            src, dst = graph_gpu.to_host(src), graph_gpu.to_host(dst)
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
                n_dst, n_src, source.size, -1 if self_loops is None else int(self_loops),
                address(source), address(destination),
                address(made),
            )
        )  # fmt: skip
        graph = cls.__new__(cls)
        graph._keep(_Body(int(made[0])), n_dst, n_src)
        return graph

    @classmethod
    def _from_edges_there(
        cls, src: Any, dst: Any, n_src: int | None, n_dst: int | None, self_loops: bool | None
    ) -> Graph | None:
        """Graph of edges on a GPU; None where the CPU has to make the graph, or raise the error."""
        if graph_gpu.lengths(src, dst) is None:
            return None
        n_src = None if n_src is None else _nodes("n_src", n_src)
        n_dst = n_src if n_dst is None else _nodes("n_dst", n_dst)
        if n_dst is None:
            n_dst = 1 + max(graph_gpu.largest(src, dst))
        n_src = n_dst if n_src is None else n_src
        arrays = graph_gpu.from_edges(src, dst, n_src, n_dst, self_loops)
        return None if arrays is None else cls.__new__(cls)._keep_there(arrays)

    @classmethod
    def batch(cls, graphs: Sequence[Graph]) -> Graph:
        """One graph of several, without edges between them.

        Nodes and rows of edge arrays of a graph come behind those of the graphs before it, so that
        arrays of the batch are those of the graphs, concatenated.

        Parameters
        ----------
        graphs : sequence of Graph

        Returns
        -------
        Graph
            Its `borders` say where each graph begins.

        See Also
        --------
        Graph.unbatch : back.

        Examples
        --------
        >>> import gnograd as gg
        >>> both = gg.Graph.batch([gg.Graph([0, 1], [0]), gg.Graph([0, 1, 2], [1, 0])])
        >>> both.src, both.dst
        (array([0, 2, 1], dtype=int32), array([0, 1, 2], dtype=int32))
        >>> both.borders.edges
        (0, 1, 3)
        """
        for k, graph in enumerate(graphs):
            if not isinstance(graph, Graph):
                raise TypeError(
                    f"Graph.batch: graphs[{k}] is of type {type(graph).__name__}, needs a Graph"
                )
        return lend(*side_by_side([graph.arrays for graph in graphs], np.concatenate, _numbers))

    @classmethod
    def _lend(cls, arrays: GraphArrays, borders: Borders | None = None) -> Graph:
        return lend(arrays, borders)

    def unbatch(self) -> list[Graph]:
        """The graphs that `Graph.batch` joined in this one.

        Raises
        ------
        ValueError
            This graph is no batch.
        """
        return [lend(arrays) for arrays in apart(self.arrays, self.borders)]

    def pad(self, n_edges: int) -> Graph:
        """Copy of this graph with room for more edges: fixed sizes suit compiled programs.

        Edge arrays of the result have `n_edges` rows, of which the first ones are those of this
        graph's edge arrays. The values of the others do not matter, derivatives to them are 0.

        Parameters
        ----------
        n_edges : int
            Number of rows of edge arrays, at least that of this graph.

        Raises
        ------
        ValueError
            Fewer rows than this graph has.

        Examples
        --------
        >>> import numpy as np
        >>> import gnograd as gg
        >>> graph = gg.Graph([0, 1, 3], [1, 0, 1]).pad(5)
        >>> graph
        Graph(n_src=2, n_dst=2, n_edges=5, room for 2 of these)
        >>> gg.agg_weighted(np.ones((2, 1)), np.array([1, 2, 3, np.nan, 5]), graph=graph)
        array([[1.],
               [5.]])
        """
        n = integer("Graph.pad: n_edges", n_edges, AT_LEAST_0)
        return lend(with_room(self.arrays, n, np.concatenate, _numbers), self.borders)

    @property
    def arrays(self) -> GraphArrays:
        """All arrays, as kernels read them; they must not be changed."""
        if self._made_there:
            self._bring()
        return self._arrays

    @property
    def offsets(self) -> NDArray[np.int64]:
        """First edge of every destination, (n_dst + 1,); read-only."""
        return _read_only(self.arrays.offsets)

    @property
    def indices(self) -> NDArray[np.int32]:
        """Source of every edge, (n_edges,), ordered by destination; read-only."""
        return _read_only(self.arrays.indices)

    @property
    def edge_ids(self) -> NDArray[np.int64] | None:
        """Row of the edge arrays that every entry of `indices` uses, or None: its own."""
        ids = self.arrays.edge_ids
        return None if ids is None else _read_only(ids)

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
        """Number of rows of edge arrays: of the edges, unless there is room for more."""
        return self.sizes[2]

    @property
    def in_degree(self) -> NDArray[np.int64]:
        """Number of edges that end in every destination, (n_dst,)."""
        degree: NDArray[np.int64] = np.diff(self.arrays.offsets)
        return degree

    @property
    def src(self) -> NDArray[np.int32]:
        """Source of every row of the edge arrays, (n_edges,); 0 where it belongs to no edge."""
        return self._by_row(self.arrays.indices)

    @property
    def dst(self) -> NDArray[np.int32]:
        """Destination of every row of the edge arrays, (n_edges,); 0 likewise."""
        return self._by_row(np.repeat(np.arange(self.n_dst, dtype=np.int32), self.in_degree))

    @property
    def transpose(self) -> EdgesBySource:
        """The edges ordered by source; read-only."""
        _, _, _, offsets, indices, edges, positions = self.arrays
        return EdgesBySource(
            *map(_read_only, (offsets, indices, edges, edges if positions is None else positions))
        )

    @property
    def is_remote(self) -> bool:
        """True if the arrays are on a GPU and have no copy on the host."""
        return self._body is None and not self._made_there

    @property
    def handle(self) -> int:
        """Address of the ``gnograd_graph`` of the C interface, which lives as long as this."""
        if self._made_there:
            self._bring()
        if self._body is None:
            raise TypeError("graph: it is on a GPU, but arrays are on the CPU")
        return self._body.handle

    def _by_row(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """Reorder an array over edges from destination-major order to the edge arrays' order."""
        n_real, ids = int(self.arrays.offsets[-1]), self.arrays.edge_ids
        if ids is None and n_real == self.n_edges:
            return values.copy()
        rows = np.zeros(self.n_edges, values.dtype)
        rows[slice(n_real) if ids is None else ids[:n_real]] = values[:n_real]
        return rows

    def __repr__(self) -> str:
        return representation(self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = self.arrays
        if self.borders is None and arrays.offsets[-1] == self.n_edges:
            return Graph, (arrays.offsets, arrays.indices, self.n_src, arrays.edge_ids)
        return restored, (arrays, self.borders)

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: object) -> Graph:
        return self


class _Body:
    """A graph of the library, freed with the last array that lies in its memory."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        # not at exit: the operating system frees memory faster
        weakref.finalize(self, _core.gnograd_graph_free, handle).atexit = False

    def array(self, where: int, length: int, dtype: str) -> NDArray[Any] | None:
        """Array of the graph at an address; None for address 0."""
        if not length:
            return np.empty(0, dtype)
        return np.asarray(_Part(self, where, length, dtype)) if where else None


class _Part:
    """Memory in a graph of the library, as an object with ``__array_interface__``."""

    __slots__ = ("__array_interface__", "body")

    def __init__(self, body: _Body, where: int, length: int, dtype: str) -> None:
        self.body = body
        self.__array_interface__ = {
            "version": 3, "shape": (length,), "typestr": dtype, "data": (where, False)
        }  # fmt: skip


def lend(arrays: GraphArrays, borders: Borders | None = None) -> Graph:
    """Graph of arrays by destination and by source, which are neither checked nor copied.

    Parameters
    ----------
    arrays : GraphArrays
        Contiguous NumPy arrays of the right types, which must not be changed later.
    borders : Borders, optional
    """
    arrays = GraphArrays(*arrays)
    return Graph.__new__(Graph)._become(_lent(arrays), arrays, borders)


def restored(arrays: GraphArrays, borders: Borders | None = None) -> Graph:
    """Graph of arrays from an untrusted source, such as a file: checked, and kept in copies."""
    check_arrays(arrays, borders)
    return lend(GraphArrays(*(None if x is None else np.array(x) for x in arrays)), borders)


def _lent(arrays: GraphArrays) -> _Body:
    return _Body(_handle(arrays.sizes, map(address, arrays)))


def _handle(sizes: GraphSizes, addresses: Iterable[int]) -> int:
    made = np.zeros(1, np.int64)
    n_src, n_dst, n_edges = sizes
    check_status(_core.gnograd_graph_lend(n_dst, n_src, n_edges, *addresses, address(made)))
    return int(made[0])


class LentForACall:
    """Graph of the library in lent memory, which is given back at the end of the block.

    Parameters
    ----------
    sizes : GraphSizes
    addresses : sequence of int
        Addresses of the arrays of `GraphArrays`, 0 for an absent one.
    """

    __slots__ = ("handle",)

    def __init__(self, sizes: GraphSizes, addresses: Iterable[int]) -> None:
        self.handle = _handle(sizes, addresses)

    def __enter__(self) -> LentForACall:
        return self

    def __exit__(self, *_: object) -> None:
        _core.gnograd_graph_free(self.handle)


def remote(arrays: GraphArrays) -> Graph:
    """Graph of arrays that are not on the CPU; for the `lend` of their backend."""
    return Graph.__new__(Graph)._become(None, arrays, None)


def _numbers(first: int, last: int, like: NDArray[Any]) -> NDArray[Any]:
    return np.arange(first, last, dtype=like.dtype)


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Contiguous int64 copy of a vector of int32 or int64, in any order of bytes."""
    refuse_mask("graph", name, values)
    array = np.asarray(values)
    if array.size == 0 and not isinstance(values, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.newbyteorder("=") not in (np.int32, np.int64):
        raise TypeError(f"graph: {name} is {array.dtype}, needs int32 or int64")
    if array.ndim != 1:
        raise ValueError(f"graph: {name} has shape {array.shape}, needs one dimension")
    return np.array(array, dtype=np.int64)


def _nodes(name: str, value: Any) -> int:
    """Check a number of nodes."""
    return integer(f"graph: {name}", value, AT_LEAST_0)


def _largest(name: str, ends: NDArray[np.int64]) -> int:
    """Largest of some nodes, -1 if there are none; an error if it is absurdly large."""
    largest = int(ends.max(initial=-1))
    if largest >= LARGEST:
        edge = int(np.argmax(ends))
        raise IndexError(f"graph: {name}[{edge}] is {largest}, needs less than {LARGEST}")
    return largest


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view

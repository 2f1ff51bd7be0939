# SPDX-License-Identifier: MIT
"""Graphs of points, of sparse matrices, and of other graphs.

One file for all ways to build: each is a method of a few lines below its documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.graphs import gpu as graph_gpu
from gnograd.neighbors.arguments import shape_of
from gnograd.neighbors.search import Neighbors, knn, neighbors
from gnograd.notation.graph_arrays import Borders, GraphArrays, GraphSizes
from gnograd.notation.keywords import named_now

__all__ = ["GraphBuilding"]

G = TypeVar("G", bound="GraphBuilding")


class GraphBuilding:
    """Constructors of graphs from points, matrices and other graphs; base of `gnograd.Graph`."""

    __slots__ = ()

    if TYPE_CHECKING:  # attributes of `Graph`
        sizes: GraphSizes
        borders: Borders | None

        def __init__(self, offsets: ArrayLike, indices: ArrayLike, n_src: int | None = None): ...

        @property
        def arrays(self) -> GraphArrays:
            """All arrays, as kernels read them."""

        @property
        def src(self) -> NDArray[np.int32]:
            """Source of every row of the edge arrays."""

        @property
        def dst(self) -> NDArray[np.int32]:
            """Destination of every row of the edge arrays."""

        @classmethod
        def from_edges(
            cls: type[G],
            src: ArrayLike,
            dst: ArrayLike,
            n_src: int | None = None,
            n_dst: int | None = None,
            *,
            self_loops: bool | None = None,
        ) -> G:
            """Graph of the edges from pairs of nodes in any order."""

        @classmethod
        def _lend(cls: type[G], arrays: GraphArrays, borders: Borders | None = None) -> G: ...

        def _keep_there(self: G, arrays: GraphArrays) -> G: ...

        @property
        def _there(self) -> GraphArrays | None:
            """The arrays, if they are on a GPU only."""

    @overload
    @classmethod
    def radius(
        cls: type[G],
        sources: Any,
        radius: float,
        destinations: Any = None,
        *,
        include_self: bool = True,
        period: ArrayLike | None = None,
        batch: Any = None,
        destination_batch: Any = None,
        source_items: Iterable[Any] | None = None,
        destination_items: Iterable[Any] | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G: ...
    @overload
    @classmethod
    def radius(
        cls: type[G],
        sources: Any,
        radius: Sequence[float],
        destinations: Any = None,
        *,
        include_self: bool = True,
        period: ArrayLike | None = None,
        batch: Any = None,
        destination_batch: Any = None,
        source_items: Iterable[Any] | None = None,
        destination_items: Iterable[Any] | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> list[G]: ...
    @classmethod
    @named_now("include_self", "period", "batch", "destination_batch")
    def radius(
        cls: type[G],
        sources: Any,
        radius: float | Sequence[float],
        destinations: Any = None,
        *,
        include_self: bool = True,
        period: ArrayLike | None = None,
        batch: Any = None,
        destination_batch: Any = None,
        source_items: Iterable[Any] | None = None,
        destination_items: Iterable[Any] | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G | list[G]:
        """Graph of all pairs of points at most `radius` apart.

        The sources of a destination come in ascending order. Points on a GPU are searched there, by
        `neighbors`, and the graph is made there.

        Parameters
        ----------
        sources : array of float, (n_src, d)
            Coordinates of the sources.
        radius : float or list of float
            Largest Euclidean distance, inclusive. A list makes one graph for each.
        destinations : array of float, (n_dst, d), optional
            Coordinates of the destinations; the sources when left out.
        include_self : bool, optional
            Make every point its own neighbour; ``False`` only without `destinations`.
        period : float or array of float, (d,), optional
            Lengths of a periodic box, 0 along axes that are not periodic. Distances are to the
            nearest image, which makes one edge even where more images are in reach.
        batch, destination_batch : array of int, (n_src,), (n_dst,), optional
            Item of the batch that every point belongs to, as ids that do not decrease: edges only
            join points of the same item. The second goes with `destinations`.
        source_items, destination_items : iterable of int, (n_items + 1,), optional
            First point of every item, and the number of points at the end, in place of the ids.
            The second goes with `destinations`.
        max_neighbors : int, optional
            Largest number of edges of a destination; no limit when left out.
        choose : {"nearest", "random"}, optional
            Choice of sources where more are in reach of a destination: the nearest, by number where
            distances are equal, or those with the smallest hashes of `seed` and the numbers of the
            two points, which are the same on every device and for any number of threads.
        seed : int, optional
            Seed of the random choice, from 0 to 2**63 - 1.

        Returns
        -------
        Graph or list of Graph
            One graph for each radius of a list.

        Raises
        ------
        ValueError
            Points that are not finite or not of the same dimension, a negative radius or period,
            ids that descend or are not one a point.

        See Also
        --------
        neighbors : the same without a graph.
        Graph.knn : a number of neighbours, however far.

        Examples
        --------
        >>> import numpy as np
        >>> import gnograd as gg
        >>> points = np.array([[0.0], [1.0], [3.0]])
        >>> graph = gg.Graph.radius(points, radius=1.5)
        >>> graph.src, graph.dst
        (array([0, 1, 0, 1, 2], dtype=int32), array([0, 0, 1, 1, 2], dtype=int32))
        >>> gg.Graph.radius(points, [0.5, 2.5], batch=[0, 0, 1])
        [Graph(n_src=3, n_dst=3, n_edges=3), Graph(n_src=3, n_dst=3, n_edges=5)]
        """
        found = neighbors(
            sources, cast(float, radius), destinations, include_self=include_self, period=period,
            batch=batch, destination_batch=destination_batch, source_items=source_items,
            destination_items=destination_items, max_neighbors=max_neighbors, choose=choose,
            seed=seed,
        )  # fmt: skip
        if isinstance(found, Neighbors):
            return cls._of_neighbors(found, sources)
        return [cls._of_neighbors(each, sources) for each in found]

    @classmethod
    @named_now("period", "batch", "destination_batch")
    def knn(
        cls: type[G],
        sources: Any,
        k: int,
        destinations: Any = None,
        *,
        include_self: bool = True,
        period: ArrayLike | None = None,
        batch: Any = None,
        destination_batch: Any = None,
        source_items: Iterable[Any] | None = None,
        destination_items: Iterable[Any] | None = None,
    ) -> G:
        """Graph of the k sources nearest to every destination, the nearest first.

        Among sources at the same distance the lower number counts as nearer. Points on a GPU are
        searched there, by `knn`, and the graph is made there.

        Parameters
        ----------
        sources : array of float, (n_src, d)
            Coordinates of the sources.
        k : int
            Number of edges of a destination; where there are fewer sources, all are neighbours.
        destinations, include_self, period, batch, destination_batch, source_items, \
destination_items
            As for `Graph.radius`.

        Raises
        ------
        ValueError
            As for `Graph.radius`; a negative k.

        See Also
        --------
        knn : the same without a graph.

        Examples
        --------
        >>> import numpy as np
        >>> import gnograd as gg
        >>> graph = gg.Graph.knn(np.array([[0.0], [1.0], [3.0]]), k=2)
        >>> graph.src, graph.dst
        (array([0, 1, 1, 0, 2, 1], dtype=int32), array([0, 0, 1, 1, 2, 2], dtype=int32))
        """
        found = knn(
            sources, k, destinations, include_self=include_self, period=period, batch=batch,
            destination_batch=destination_batch, source_items=source_items,
            destination_items=destination_items,
        )  # fmt: skip
        return cls._of_neighbors(found, sources)

    @classmethod
    def _of_neighbors(cls: type[G], found: Neighbors, sources: Any) -> G:
        return cls(*found, shape_of(sources)[0])

    # ---- other forms of edges ----

    @classmethod
    @named_now("self_loops")
    def from_edge_index(
        cls: type[G],
        edge_index: ArrayLike,
        n_src: int | None = None,
        n_dst: int | None = None,
        *,
        self_loops: bool | None = None,
    ) -> G:
        """Graph of PyG's ``edge_index``, whose rows are sources and destinations.

        Parameters
        ----------
        edge_index : array of int32 or int64, (2, n_edges)
        n_src, n_dst, self_loops
            As for `Graph.from_edges`.

        Raises
        ------
        TypeError, ValueError, IndexError
            As for `Graph.from_edges`; another shape.

        Examples
        --------
        >>> import gnograd as gg
        >>> gg.Graph.from_edge_index([[0, 1, 2], [1, 0, 1]]).in_degree
        array([1, 2, 0])
        """
        if graph_gpu.is_on_gpu(edge_index):
            src, dst = graph_gpu.rows("edge_index", edge_index)
            return cls.from_edges(src, dst, n_src, n_dst, self_loops=self_loops)
        edges = np.asanyarray(edge_index)
        if edges.ndim != 2 or len(edges) != 2:
            raise ValueError(f"graph: edge_index has shape {edges.shape}, needs (2, n_edges)")
        return cls.from_edges(edges[0], edges[1], n_src, n_dst, self_loops=self_loops)

    @classmethod
    def from_scipy(cls: type[G], matrix: Any) -> G:
        """Graph of the entries of a sparse matrix: row i, column j is an edge from j to i.

        So `agg_simple` is the product with the matrix, where all its entries are one. Entries that
        are zero are edges, and those that stand there twice are two.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array, (n_dst, n_src)
            Edge arrays are in the order of its ``data`` (`agg_weighted` with ``matrix.data`` is the
            product with it); of a format that is none of CSR, CSC and COO, in that of CSR.

        Raises
        ------
        TypeError
            No sparse matrix.
        ValueError
            Another number of axes.

        See Also
        --------
        Graph.to_scipy : back.

        Examples
        --------
        >>> import numpy as np
        >>> import scipy.sparse
        >>> import gnograd as gg
        >>> graph = gg.Graph.from_scipy(scipy.sparse.csr_array([[0.0, 2.0], [0.0, 3.0]]))
        >>> graph.src, graph.dst
        (array([1, 1], dtype=int32), array([0, 1], dtype=int32))
        """
        from scipy.sparse import issparse

        if not issparse(matrix):
            raise TypeError(
                f"Graph.from_scipy: matrix is of type {type(matrix).__name__}, "
                "needs a sparse matrix of scipy"
            )
        if matrix.ndim != 2:
            raise ValueError(f"Graph.from_scipy: matrix has shape {matrix.shape}, needs two axes")
        n_dst, n_src = matrix.shape
        if matrix.format not in ("csc", "coo"):
            rows = matrix.tocsr()
            return cls(rows.indptr, rows.indices[: rows.indptr[-1]], n_src)
        entries = matrix.tocoo()
        return cls.from_edges(entries.col, entries.row, n_src, n_dst)

    def to_scipy(self, values: ArrayLike | None = None) -> Any:
        """Sparse matrix with an entry for every edge: row of its destination, column of its source.

        Parameters
        ----------
        values : array, (n_edges,), optional
            Entries, an edge array; ones when left out.

        Returns
        -------
        scipy.sparse.csr_array, (n_dst, n_src)
            Repeated edges are repeated entries.

        Raises
        ------
        ValueError
            Values that are not one an edge.

        Examples
        --------
        >>> import gnograd as gg
        >>> gg.Graph([0, 2, 3], [1, 0, 1]).to_scipy([1.0, 2.0, 3.0]).toarray()
        array([[2., 1.],
               [0., 3.]])
        """
        from scipy.sparse import csr_array

        offsets, indices, ids = self.arrays[:3]
        n_src, n_dst, n_edges = self.sizes
        n = int(offsets[-1])
        if values is None:
            entries = np.ones(n)
        else:
            rows = np.asarray(values)
            if rows.shape != (n_edges,):
                raise ValueError(
                    f"Graph.to_scipy: values has shape {rows.shape}, needs ({n_edges},)"
                )
            entries = rows[:n] if ids is None else rows[ids[:n]]
        return csr_array((entries, indices[:n], offsets), shape=(n_dst, n_src), copy=True)

    # ---- other graphs ----

    @classmethod
    def union(cls: type[G], first: G, *others: G) -> G:
        """Graph with every edge that one of the graphs has, once.

        Rows of edge arrays are in the order in which edges come first: rows of the first graph,
        without those of edges that it repeats, then rows of the next one whose edges are new, and
        so on. With ``src`` and ``dst`` of the result, features are computed anew.

        Parameters
        ----------
        first, *others : Graph
            Graphs with the same numbers of nodes.

        Raises
        ------
        TypeError, ValueError
            Something else than a graph, other numbers of nodes.

        Examples
        --------
        >>> import gnograd as gg
        >>> first = gg.Graph.from_edges([0, 2], [1, 0], 3)
        >>> union = gg.Graph.union(first, gg.Graph.from_edges([1, 0], [2, 1], 3))
        >>> union.src, union.dst
        (array([0, 2, 1], dtype=int32), array([1, 0, 2], dtype=int32))
        """
        graphs = [first, *others]
        for k, graph in enumerate(graphs):
            if not isinstance(graph, GraphBuilding):
                raise TypeError(
                    f"Graph.union: graph {k} is of type {type(graph).__name__}, needs a Graph"
                )
            n_src, n_dst, _ = first.sizes
            if graph.sizes[:2] != (n_src, n_dst):
                wrong = graph.sizes
                raise ValueError(
                    f"Graph.union: graph {k} has {wrong.n_src} sources and {wrong.n_dst} "
                    f"destinations, needs {n_src} and {n_dst}"
                )
        there = [arrays for graph in graphs if (arrays := graph._there) is not None]
        if len(there) == len(graphs):
            made_there = graph_gpu.union(there)
            if made_there is not None:
                return cls.__new__(cls)._keep_there(made_there)
        ends = [graph._ends() for graph in graphs]
        src, dst = (np.concatenate([pair[side] for pair in ends]) for side in (0, 1))
        _, rows = np.unique(dst.astype(np.int64) * n_src + src, return_index=True)
        rows.sort()
        return cls.from_edges(src[rows], dst[rows], n_src, n_dst)

    def reverse(self: G) -> G:
        """Graph with all edges reversed: sources become destinations and destinations sources.

        Edge arrays stay as they are: row e is the edge from ``dst[e]`` to ``src[e]``. The reverse
        of a batch is a batch.

        Examples
        --------
        >>> import gnograd as gg
        >>> graph = gg.Graph([0, 2], [1, 0], n_src=3)
        >>> graph.reverse(), graph.reverse().dst
        (Graph(n_src=1, n_dst=3, n_edges=2), array([1, 0], dtype=int32))
        """
        if (there := self._there) is not None:
            return self.__new__(type(self))._keep_there(graph_gpu.reverse(there))
        n_src, n_dst, n_edges = self.sizes
        src, dst = self._ends()
        made = self._of_rows(dst, src, self._rows(), GraphSizes(n_dst, n_src, n_edges))
        if self.borders is None:
            return made
        return self._lend(
            made.arrays, Borders(self.borders.dst, self.borders.src, self.borders.edges)
        )

    def with_self_loops(self: G) -> G:
        """Copy of this graph with exactly one self-loop at each node.

        In a bipartite graph the first ``min(n_src, n_dst)`` nodes on both sides count as the same.
        Rows of edge arrays stay, but those of former self-loops belong to no edge. The rows of the
        new self-loops follow, one a node.

        See Also
        --------
        Graph.from_edges : the same where the graph is made, with ``self_loops=True``.

        Examples
        --------
        >>> import gnograd as gg
        >>> graph = gg.Graph([0, 1, 2], [1, 1]).with_self_loops()
        >>> graph, graph.indices[:3]
        (Graph(n_src=2, n_dst=2, n_edges=4, room for 1 of these), array([1, 0, 1], dtype=int32))
        """
        if (there := self._there) is not None:
            made_there = graph_gpu.with_self_loops(there)
            if made_there is not None:
                return self.__new__(type(self))._keep_there(made_there)
        n_src, n_dst, n_edges = self.sizes
        src, dst = self._ends()
        others = src != dst
        loops = np.arange(min(n_src, n_dst))
        src, dst = (np.append(nodes[others], loops) for nodes in (src, dst))
        rows = np.append(self._rows()[others], n_edges + loops)
        return self._of_rows(src, dst, rows, GraphSizes(n_src, n_dst, n_edges + len(loops)))

    def _rows(self) -> NDArray[np.int64]:
        """The rows of edge arrays that belong to an edge, ascending."""
        offsets, _, ids = self.arrays[:3]
        n = int(offsets[-1])
        return np.arange(n) if ids is None else np.sort(ids[:n])

    def _ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Sources and destinations of the rows of edge arrays that belong to an edge."""
        rows = self._rows()
        if len(rows) == self.sizes.n_edges:
            return self.src, self.dst
        return self.src[rows], self.dst[rows]

    @classmethod
    def _of_rows(
        cls: type[G],
        src: NDArray[Any],
        dst: NDArray[Any],
        rows: NDArray[np.int64],
        sizes: GraphSizes,
    ) -> G:
        """Graph of edges in these rows of edge arrays; the other rows belong to no edge."""
        n_src, n_dst, n_edges = sizes
        made = cls.from_edges(src, dst, n_src, n_dst)
        n = len(rows)
        if n == n_edges:
            return made
        offsets, indices, ids, src_offsets, src_indices, src_edges, positions = made.arrays
        free = np.ones(n_edges, bool)
        free[rows] = False
        left = np.flatnonzero(free)
        nowhere = np.zeros(len(left), np.int32)
        ids = np.append(rows if ids is None else rows[ids], left)
        positions = np.append(src_edges if positions is None else positions, np.arange(n, n_edges))
        return cls._lend(
            GraphArrays(
                offsets, np.append(indices, nowhere), ids, src_offsets,
                np.append(src_indices, nowhere), np.append(rows[src_edges], left), positions,
            )
        )  # fmt: skip

# SPDX-License-Identifier: MIT
"""Graphs as data of a program: pytrees whose leaves are the arrays of a graph.

JAX has 64-bit integers only with ``jax_enable_x64``. So those of a graph are pairs of 32-bit
integers here, in the same memory, and programs are the same with and without that setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import gnograd.graphs.graph
from gnograd.graphs.checks import check_arrays
from gnograd.notation.graph_arrays import Borders, GraphArrays, GraphSizes, OfArrays
from gnograd.notation.keywords import named_now

__all__ = ["AnyGraph", "Graph", "arrays_of", "check", "words"]

_NAMES = GraphArrays._fields
_KEYS = [*map(jax.tree_util.GetAttrKey, (*_NAMES, "borders"))]
_OPTIONAL = "edge_ids", "src_positions"
_WIDE = GraphArrays(True, False, True, True, False, True, True)
"""Flags of the arrays that have 64 bits."""


class Graph(OfArrays):
    """A graph as an argument of JAX programs: a pytree, whose leaves are JAX arrays.

    Counterpart of `gnograd.Graph`, which has NumPy arrays: functions of `gnograd.jax` take either.
    That one is a pytree with the same leaves, too, and a program that is called with it sees a
    `gnograd.jax.Graph`. The two only differ where structures of pytrees are compared: pass this one
    to `jax.lax.scan` and `jax.lax.cond`.

    `of` makes one; the constructor trusts its arrays.

    Parameters
    ----------
    arrays : GraphArrays
        Edges by destination, and by source; 64-bit integers as pairs of 32-bit ones along the last
        axis.
    borders : Borders, optional
        First nodes and rows of the graphs of a batch, as arrays of int32.

    Notes
    -----
    The numbers in the leaves are trusted: changing them can make kernels read invalid memory.
    Graphs are made on the host, by `gnograd.Graph`; a program can neither make one nor add edges.
    `gnograd.Graph.pad` makes room for edges beforehand, so that graphs with different numbers of
    edges are arguments of the same program.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> import gnograd as gg
    >>> import gnograd.jax as gj
    >>> @jax.jit
    ... def sums(x, graph):
    ...     return gj.agg_weighted(x, jnp.ones(3), graph=graph)
    >>> one, other = gg.Graph([0, 2, 3], [0, 1, 0]), gg.Graph([0, 1, 3], [1, 0, 1])
    >>> sums(jnp.array([[1.0], [2.0]]), one).ravel().tolist()
    [3.0, 1.0]
    >>> sums(jnp.array([[1.0], [2.0]]), other).ravel().tolist()
    [2.0, 3.0]
    >>> sums._cache_size()
    1
    """

    __slots__ = ("arrays", "borders")

    def __init__(self, arrays: GraphArrays, borders: Borders | None = None) -> None:
        self.arrays = arrays
        self.borders = borders

    @classmethod
    def of(cls, graph: AnyGraph) -> Graph:
        """Convert a graph to JAX arrays, which are made once.

        Parameters
        ----------
        graph : gnograd.Graph or Graph
        """
        return graph if isinstance(graph, Graph) else _copied(graph)

    @classmethod
    @named_now("ordered")
    def shaped(cls, n_src: Any, n_dst: Any, n_edges: Any, *, ordered: bool = False) -> Graph:
        """Shapes and dtypes in place of arrays, for `jax.eval_shape`, ``lower`` and `jax.export`.

        Parameters
        ----------
        n_src, n_dst, n_edges : int or symbolic dimension
            Nodes, and rows of edge arrays.
        ordered : bool
            For graphs whose `edge_ids` are None.

        Examples
        --------
        >>> import gnograd.jax as gj
        >>> gj.Graph.shaped(3, 4, 5).arrays.indices
        ShapeDtypeStruct(shape=(5,), dtype=int32)
        """
        lengths = n_dst + 1, n_edges, n_edges, n_src + 1, n_edges, n_edges, n_edges
        arrays = GraphArrays(
            *(
                jax.ShapeDtypeStruct((length, 2) if wide else (length,), jnp.int32)
                for length, wide in zip(lengths, _WIDE, strict=True)
            )
        )
        return cls(arrays._replace(edge_ids=None, src_positions=None) if ordered else arrays)

    @property
    def sizes(self) -> GraphSizes:
        """Numbers of sources, destinations and rows of edge arrays."""
        if np.ndim(self.arrays.indices) > 1:
            raise ValueError(
                f"graph: its indices have shape {self.arrays.indices.shape}, needs one axis: "
                "several graphs, stacked, are for jax.vmap and jax.lax.map"
            )
        return self.arrays.sizes

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.arrays, self.borders)

    @property
    def offsets(self) -> jax.Array:
        """First edge of every destination, (n_dst + 1,); int32 where JAX has no int64."""
        return _whole(self.arrays.offsets)

    @property
    def indices(self) -> jax.Array:
        """Source of every edge, (n_edges,), ordered by destination."""
        indices: jax.Array = self.arrays.indices
        return indices

    @property
    def edge_ids(self) -> jax.Array | None:
        """Row of the edge arrays for every entry of `indices`; None if in the same order."""
        ids = self.arrays.edge_ids
        return None if ids is None else _whole(ids)

    @property
    def in_degree(self) -> jax.Array:
        """Number of edges that end in every destination, (n_dst,)."""
        return jnp.diff(self.offsets)

    @property
    def is_edge(self) -> jax.Array:
        """True for every row of the edge arrays that belongs to an edge, bool, (n_edges,)."""
        return self._by_row(self.edge_ids, jnp.ones(self.n_edges, bool))

    @property
    def src(self) -> jax.Array:
        """Source of every row of the edge arrays, (n_edges,); 0 if it belongs to no edge."""
        return self._by_row(self.edge_ids, self.indices)

    @property
    def dst(self) -> jax.Array:
        """Destination of every row of the edge arrays, (n_edges,); 0 if it belongs to no edge."""
        return self._by_row(_whole(self.arrays.src_edges), self.arrays.src_indices)

    def _by_row(self, rows: jax.Array | None, values: jax.Array) -> jax.Array:
        """Bring values of edges in one of the two orders into the rows of the edge arrays."""
        there = jnp.arange(self.n_edges) < self.offsets[-1]
        if rows is None:
            return jnp.where(there, values, jnp.zeros_like(values))
        rows = jnp.where(there, rows, self.n_edges)
        return jnp.zeros_like(values).at[rows].set(values, mode="drop")

    def __repr__(self) -> str:
        try:
            return f"Graph(n_src={self.n_src}, n_dst={self.n_dst}, n_edges={self.n_edges})"
        # JAX puts all kinds of things into pytrees
        except (AttributeError, IndexError, TypeError, ValueError):
            return f"Graph({self.arrays})"


AnyGraph: TypeAlias = "Graph | gnograd.graphs.graph.Graph"
"""A graph of JAX's arrays or of NumPy's."""


def arrays_of(graph: AnyGraph) -> GraphArrays:
    """The arrays of a graph in JAX's memory."""
    return Graph.of(graph).arrays


def _copied(graph: gnograd.graphs.graph.Graph) -> Graph:
    if not isinstance(graph, gnograd.graphs.graph.Graph):
        raise TypeError(f"Graph: graph is of type {type(graph).__name__}, needs a gnograd.Graph")
    copy: Graph | None = graph.mirrors.get("jax")
    if copy is None or any(x.is_deleted() for x in copy.arrays if x is not None):  # donated
        with jax.ensure_compile_time_eval():  # no part of a program that is being traced
            borders = graph.borders
            if borders is not None:
                borders = Borders(*(jax.device_put(np.array(b, np.int32)) for b in borders))
            copy = Graph(GraphArrays(*map(_put, graph.arrays)), borders)
        graph.mirrors["jax"] = copy
    return copy


def _restored(arrays: GraphArrays, borders: Borders | None) -> Graph:
    """Graph from an untrusted source, such as a file: checked if its arrays have values."""
    arrays = GraphArrays(*arrays)
    leaves = [x for x in (*arrays, *(borders or ())) if x is not None]
    if all(isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer) for x in leaves):
        check("graph", arrays)
        check_arrays(
            GraphArrays(*(_numbers(x, wide) for x, wide in zip(arrays, _WIDE, strict=True))),
            borders and Borders(*map(np.asarray, borders)),
        )
    return Graph(arrays, borders)


def _numbers(array: Any, wide: bool) -> Any:
    """Array of JAX in the form that kernels read, with 64-bit integers."""
    if array is None:
        return None
    host = np.ascontiguousarray(array)
    return host.view(np.int64)[:, 0] if wide else host


def check(operator: str, arrays: GraphArrays) -> None:
    """Raise an error unless dtypes and shapes are those of the arrays of one graph."""
    for name, array, wide in zip(_NAMES, arrays, _WIDE, strict=True):
        if array is None and name in _OPTIONAL:
            continue
        if getattr(array, "dtype", None) != np.int32:
            kind = getattr(array, "dtype", f"of type {type(array).__name__}")
            raise TypeError(f"{operator}: {name} of graph is {kind}, needs int32")
        if array.ndim != 1 + wide:
            raise ValueError(
                f"{operator}: {name} of graph has shape {array.shape}, needs {1 + wide} axes; "
                "several graphs, stacked, are for jax.vmap and jax.lax.map"
            )
    shaped = Graph.shaped(*arrays.sizes).arrays
    for name, array, expected in zip(_NAMES, arrays, shaped, strict=True):
        if array is not None and array.shape != expected.shape:
            raise ValueError(
                f"{operator}: {name} of graph has shape {array.shape}, needs {expected.shape}"
            )


def words(array: Any) -> Any:
    """View 64-bit integers as pairs of 32-bit ones, for JAX."""
    if array is None or array.itemsize != 8:
        return array
    return array.view(np.int32).reshape(-1, 2)


def _put(array: Any) -> jax.Array | None:
    return None if array is None else jax.device_put(words(array))


def _whole(pairs: jax.Array) -> jax.Array:
    """The 64-bit integers of pairs; their lower halves if JAX has no 64-bit integers."""
    if jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
        # XLA's conversion of bits knows no symbolic sizes
        low = jnp.bitwise_and(pairs[..., 0].astype(np.int64), np.int64(2**32 - 1))
        return jnp.left_shift(pairs[..., 1].astype(np.int64), np.int64(32)) | low
    return pairs[..., 0]


# ---- as pytrees ----


def _register(kind: type) -> None:
    def flatten(graph: AnyGraph) -> tuple[Sequence[Any], None]:
        graph = Graph.of(graph)
        return (*graph.arrays, graph.borders), None

    def flatten_with_keys(graph: AnyGraph) -> tuple[Sequence[Any], None]:
        return [*zip(_KEYS, flatten(graph)[0], strict=True)], None

    def unflatten(_: None, children: Iterable[Any]) -> Graph:
        *arrays, borders = children
        return Graph(GraphArrays(*arrays), borders)

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    jax.export.register_pytree_node_serialization(
        kind,
        serialized_name=f"{kind.__module__}.{kind.__name__}",
        serialize_auxdata=lambda _: b"",
        deserialize_auxdata=lambda _: None,
    )


_register(Graph)
_register(gnograd.graphs.graph.Graph)

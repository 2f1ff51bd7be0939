# SPDX-License-Identifier: MIT
"""Graphs made on a GPU from arrays or other graphs: checked, ordered and transposed there.

The host waits once, to learn if the arrays are valid, and once more where the number of nodes or
edges has to be found. The functions return None where the CPU has to take over: to raise the error
if the arrays are invalid, or to make the graph if there are more edges than the kernels can count.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from gnograd.backends import backend_of
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.notation.static import LARGEST

__all__ = [
    "from_csc", "from_edges", "is_on_gpu", "largest", "lengths", "reverse", "rows", "to_host",
    "union", "with_self_loops",
]  # fmt: skip


def is_on_gpu(*arrays: Any) -> bool:
    """True if one of these arrays is on a GPU."""
    return any(hasattr(array, "__cuda_array_interface__") for array in arrays)


def to_host(array: Any) -> Any:
    """Copy an array on a GPU to NumPy; return other arrays as they are."""
    if not is_on_gpu(array):
        return array
    backend = _backend("an array", array)
    array = backend.contiguous(array)
    return backend.DeviceArray(*backend.describe(array), array, backend.address(array)).get()


def rows(name: str, table: Any) -> list[Any]:
    """The two rows of a table (2, n_edges) on a GPU, as views."""
    backend = _backend(name, table)
    shape, dtype = backend.describe(table)
    if len(shape) != 2 or shape[0] != 2:
        raise ValueError(f"graph: {name} has shape {shape}, needs (2, n_edges)")
    n = shape[1]
    table = backend.contiguous(table)
    first, step = backend.address(table), n * np.dtype(dtype).itemsize
    return [backend.DeviceArray((n,), dtype, table, first + k * step) for k in range(2)]


def from_csc(offsets: Any, indices: Any, n_src: int | None, edge_ids: Any) -> GraphArrays | None:
    """Arrays of the graph of edges by destination; None if the CPU has to make it."""
    given = {"offsets": offsets, "indices": indices, "edge_ids": edge_ids}
    backend, sizes = _vectors(given)
    n_dst, n_edges = sizes["offsets"] - 1, sizes["indices"]
    n_src = n_dst if n_src is None else n_src
    if n_dst < 0 or sizes.get("edge_ids", n_edges) != n_edges:
        return None
    if not _few_enough(n_src, n_dst, n_edges):
        return None
    ids = edge_ids is not None
    n_ids = n_edges if ids else 0
    made = _empty(backend, (n_dst + 1, n_edges, n_ids, n_src + 1, n_edges, n_edges, n_ids), indices)
    first = made.offsets
    backend.assign(first, offsets)
    if ids:
        backend.assign(made.edge_ids, edge_ids)
    else:
        made = made._replace(edge_ids=None, src_positions=None)
    found = backend.found(
        "graph_from_csc", "build", backend.describe(indices)[1],
        [n_src, n_dst, n_edges, first, backend.contiguous(indices), *made[2:3], *made[1:2],
         *made[3:]], 2,
    )  # fmt: skip
    return None if found[0] else made


def lengths(src: Any, dst: Any) -> int | None:
    """Number of edges; None if the lengths of `src` and `dst` differ."""
    _, sizes = _vectors({"src": src, "dst": dst})
    return sizes["src"] if sizes["src"] == sizes["dst"] else None


def largest(src: Any, dst: Any) -> tuple[int, int]:
    """Largest source and largest destination, -1 if there are no edges; the host waits for them."""
    backend, sizes = _vectors({"src": src, "dst": dst})
    ends, dtype = _alike(backend, src, dst)
    found = backend.found("graph_from_edges", "largest", dtype, [0, 0, sizes["src"], -1, *ends], 2)
    return found[0], found[1]


def from_edges(
    src: Any, dst: Any, n_src: int, n_dst: int, self_loops: bool | None
) -> GraphArrays | None:
    """Arrays of the graph of edges in any order; None if the CPU has to make it."""
    backend, sizes = _vectors({"src": src, "dst": dst})
    n_given = sizes["src"]
    n_edges = n_given + (min(n_src, n_dst) if self_loops else 0)
    if not _few_enough(n_src, n_dst, n_edges):
        return None
    ends, dtype = _alike(backend, src, dst)
    loops = -1 if self_loops is None else int(self_loops)
    made, found = _ordered(backend, "build", dtype, (n_src, n_dst, n_given, loops), ends, n_edges)
    if found[0]:
        return None
    return _without_ids(made) if found[1] and self_loops is None else made


def reverse(graph: GraphArrays) -> GraphArrays:
    """Arrays of the graph with all edges reversed."""
    backend = _backend("it", graph.offsets)
    n_src, n_dst, n_edges = graph.sizes
    src, dst = _ends(backend, graph)
    return _of_rows(backend, [dst, src], n_dst, n_src, n_edges)


def with_self_loops(graph: GraphArrays) -> GraphArrays | None:
    """Arrays of the graph with one self-loop a node; None if the CPU has to make it."""
    backend = _backend("it", graph.offsets)
    n_src, n_dst, n_edges = graph.sizes
    n_loops = min(n_src, n_dst)
    if not _few_enough(n_src, n_dst, n_edges + n_loops):
        return None
    return _of_rows(backend, _ends(backend, graph), n_src, n_dst, n_edges, n_loops)


def union(graphs: Sequence[GraphArrays]) -> GraphArrays | None:
    """Arrays of the graph with all edges of these, once; None if the CPU has to make it.

    The host waits for the number of edges.
    """
    backend = _backend("it", graphs[0].offsets)
    n_src, n_dst, _ = graphs[0].sizes
    n_given = sum(graph.sizes.n_edges for graph in graphs)
    devices = {backend.device_of(graph.offsets) for graph in graphs}
    if len(devices) > 1 or not _few_enough(n_src, n_dst, n_given):
        return None
    ends = _pair(backend, n_given, graphs[0])
    first = 0
    for graph in graphs:
        n = graph.sizes.n_edges
        _ends(backend, graph, [_part(backend, end, first, n) for end in ends])
        first += n
    kept = _pair(backend, n_given, graphs[0])
    sizes = n_src, n_dst, n_given
    (n_edges,) = backend.found("graph_union", "first", "int32", [*sizes, *ends, *kept], 1)
    return _of_rows(backend, kept, n_src, n_dst, n_edges)


def _ordered(
    backend: ModuleType,
    face: str,
    dtype: str,
    sizes: tuple[int, int, int, int],
    ends: list[Any],
    n_edges: int,
) -> tuple[GraphArrays, list[int]]:
    """Arrays of the graph of edges between ends, and the two findings of the kernel."""
    n_src, n_dst, *_ = sizes
    lengths = n_dst + 1, n_edges, n_edges, n_src + 1, n_edges, n_edges, n_edges
    made = _empty(backend, lengths, ends[0])
    return made, backend.found("graph_from_edges", face, dtype, [*sizes, *ends, *made], 2)


def _of_rows(
    backend: ModuleType, ends: list[Any], n_src: int, n_dst: int, n_rows: int, n_loops: int = 0
) -> GraphArrays:
    """Arrays of the graph from the ends of every row of edge arrays, -1 for no edge."""
    sizes = n_src, n_dst, n_rows, 1 if n_loops else -1
    made, found = _ordered(backend, "rows", "int32", sizes, ends, n_rows + n_loops)
    assert not found[0]  # ends of an existing graph are valid
    return _without_ids(made) if found[1] else made


def _without_ids(made: GraphArrays) -> GraphArrays:
    """The graph without edge ids, for edges that are in the order of the edge arrays."""
    return made._replace(edge_ids=None, src_positions=None)


def _ends(backend: ModuleType, graph: GraphArrays, to: list[Any] | None = None) -> list[Any]:
    """The two ends of every row of edge arrays, -1 where it belongs to no edge."""
    _, n_dst, n_edges = graph.sizes
    ends = _pair(backend, n_edges, graph) if to is None else to
    backend.run("graph_rows", "ends", "int32", [n_dst, n_edges, *graph[:3], *ends])
    return ends


def _pair(backend: ModuleType, n: int, like: GraphArrays) -> list[Any]:
    """Memory for the sources and destinations of edges."""
    return [backend.empty((n,), "int32", like=like.offsets) for _ in range(2)]


def _part(backend: ModuleType, array: Any, first: int, n: int) -> Any:
    """View of `n` items of a vector of int32, from `first` on."""
    return backend.DeviceArray((n,), "int32", array, backend.address(array) + 4 * first)


def _backend(name: str, array: Any) -> ModuleType:
    try:
        backend = backend_of(array)
    except RuntimeError as error:
        raise RuntimeError(f"graph: {name} is on a GPU, but {error}") from None
    assert backend is not None
    return backend


def _vectors(given: dict[str, Any]) -> tuple[ModuleType, dict[str, int]]:
    """Backend of vectors of integers, and their lengths."""
    arrays = {name: array for name, array in given.items() if array is not None}
    there = next(name for name, array in arrays.items() if is_on_gpu(array))
    backend, sizes = _backend(there, arrays[there]), {}
    for name, array in arrays.items():
        if not is_on_gpu(array):
            raise TypeError(f"graph: {there} is on a GPU but {name} is on the CPU")
        shape, dtype = backend.describe(array)
        if dtype not in ("int32", "int64"):
            raise TypeError(f"graph: {name} is {dtype}, needs int32 or int64")
        if len(shape) != 1:
            raise ValueError(f"graph: {name} has shape {shape}, needs one dimension")
        sizes[name] = shape[0]
    return backend, sizes


def _few_enough(n_src: int, n_dst: int, n_edges: int) -> bool:
    return max(n_src, n_dst, n_edges) < LARGEST - 1


def _alike(backend: ModuleType, *arrays: Any) -> tuple[list[Any], str]:
    """Contiguous vectors of one dtype, and its name."""
    dtypes = {backend.describe(array)[1] for array in arrays}
    if len(dtypes) == 1:
        return [backend.contiguous(array) for array in arrays], dtypes.pop()
    wide = [backend.empty(backend.describe(array)[0], "int64", like=array) for array in arrays]
    for copy, array in zip(wide, arrays, strict=True):
        backend.assign(copy, array)
    return wide, "int64"


def _empty(backend: ModuleType, lengths: Sequence[int], like: Any) -> GraphArrays:
    """Memory for the arrays of a graph."""
    kinds = [((n,), "int32" if k in (1, 4) else "int64") for k, n in enumerate(lengths)]
    return GraphArrays(*backend.room(kinds, backend.device_of(like)))

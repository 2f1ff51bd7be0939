# SPDX-License-Identifier: MIT
"""Check of the arrays of a graph from an untrusted source, such as a file.

Kernels trust a graph: they read and write rows without checking its arrays. The constructors make
valid arrays; those read from outside are checked here, once, in O(n_edges).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.notation.graph_arrays import Borders, GraphArrays
from gnograd.notation.static import LARGEST

__all__ = ["check_arrays"]


def check_arrays(arrays: GraphArrays, borders: Borders | None = None) -> None:
    """Raise an error unless arrays are those of one graph, in both orders.

    Parameters
    ----------
    arrays : GraphArrays of ndarray
    borders : Borders, optional
        Borders of the graphs, if the arrays are those of a batch.

    Raises
    ------
    TypeError
        An array that is missing, or of another type.
    ValueError
        Lengths, offsets, nodes or rows that do not fit each other; borders that edges cross.
    """
    if not isinstance(arrays, tuple) or len(arrays) != len(GraphArrays._fields):
        raise TypeError(f"graph: arrays is of type {type(arrays).__name__}, needs GraphArrays")
    arrays = GraphArrays(*arrays)
    _check_types(arrays)
    n_src, n_dst, n_edges = arrays.sizes
    _check_offsets("offsets", arrays.offsets, n_edges)
    _check_offsets("src_offsets", arrays.src_offsets, n_edges)
    n = int(arrays.offsets[-1])
    if arrays.src_offsets[-1] != n:
        raise ValueError(
            f"graph: offsets names {n} edges, but src_offsets {arrays.src_offsets[-1]}"
        )
    _check_below("indices", arrays.indices[:n], n_src, "source nodes")
    _check_below("src_indices", arrays.src_indices[:n], n_dst, "destination nodes")
    _check_below("room in indices", arrays.indices[n:], max(n_src, 1), "source nodes")
    _check_below("room in src_indices", arrays.src_indices[n:], max(n_dst, 1), "destination nodes")
    places = np.arange(n_edges)
    rows = places if arrays.edge_ids is None else arrays.edge_ids
    positions = arrays.src_edges if arrays.src_positions is None else arrays.src_positions
    _check_permutation("edge_ids", rows)
    _check_permutation("src_edges", arrays.src_edges)
    _check_permutation("src_edges" if arrays.src_positions is None else "src_positions", positions)
    here = positions[:n]
    _check_below("src_positions", here, n, "edges")
    _expect("src_edges", arrays.src_edges, rows[positions], "is not the row of edge_ids")
    dst = np.repeat(np.arange(n_dst), np.diff(arrays.offsets))
    src = np.repeat(np.arange(n_src), np.diff(arrays.src_offsets))
    _expect("src_indices", arrays.src_indices[:n], dst[here], "is not the destination of offsets")
    _expect("indices", arrays.indices[here], src, "is not the source of src_offsets")
    if borders is not None:
        _check_borders(arrays, borders)


def _check_types(arrays: GraphArrays) -> None:
    n_edges = None if arrays.indices is None else len(arrays.indices)
    for name, array in zip(arrays._fields, arrays, strict=True):
        if array is None and name in ("edge_ids", "src_positions"):
            continue
        dtype = np.dtype(np.int32 if name.endswith("indices") else np.int64)
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            kind = getattr(array, "dtype", type(array).__name__)
            shape = f" of shape {array.shape}" if isinstance(array, np.ndarray) else ""
            raise TypeError(f"graph: {name} is {kind}{shape}, needs {dtype} along one axis")
        if name.endswith("offsets"):
            if not 1 <= array.size <= LARGEST + 1:
                raise ValueError(f"graph: {name} has {array.size} entries, needs 1 to 2**31")
        elif array.size != n_edges:
            raise ValueError(f"graph: {name} has {array.size} entries, but indices has {n_edges}")


def _check_offsets(name: str, offsets: NDArray[Any], n_edges: int) -> None:
    if offsets[0] != 0:
        raise ValueError(f"graph: {name} starts with {offsets[0]}, needs 0")
    falls = offsets[1:] < offsets[:-1]  # a difference might overflow
    if falls.any():
        raise ValueError(f"graph: {name} decreases at node {int(np.argmax(falls))}")
    if offsets[-1] > n_edges:
        raise ValueError(f"graph: {name} names {offsets[-1]} edges, but indices has {n_edges}")


def _check_below(name: str, numbers: NDArray[Any], n: int, what: str) -> None:
    wrong = (numbers < 0) | (numbers >= n)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"graph: {name}[{k}] is {numbers[k]}, not one of {n} {what}")


def _check_permutation(name: str, rows: NDArray[Any]) -> None:
    _check_below(name, rows, len(rows), "rows of edge arrays")
    count = np.bincount(rows, minlength=len(rows))
    if (count > 1).any():
        raise ValueError(f"graph: {name} names {int(np.argmax(count > 1))} twice")


def _expect(name: str, found: Any, expected: Any, what: str) -> None:
    wrong = found != expected
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"graph: {name}: {found[k]} at {k} {what}")


def _check_borders(arrays: GraphArrays, borders: Borders) -> None:
    """Raise ValueError if an edge of a batch crosses the borders of its graphs."""
    if not isinstance(borders, tuple) or len(borders) != len(Borders._fields):
        raise TypeError(f"graph: borders is of type {type(borders).__name__}, needs Borders")
    src, dst, edges = (np.asarray(each) for each in borders)
    ends = arrays.src_offsets.size - 1, arrays.offsets.size - 1, int(arrays.offsets[-1])
    for name, each, end in zip(Borders._fields, (src, dst, edges), ends, strict=True):
        if (
            each.ndim != 1
            or each.dtype.kind not in "iu"
            or each.size != edges.size
            or not len(each)
        ):
            raise ValueError(f"graph: borders.{name} needs one integer for each graph, and the end")
        if each[0] != 0 or each[-1] != end or (each[1:] < each[:-1]).any():
            raise ValueError(f"graph: borders.{name} does not ascend from 0 to {end}")
    item = np.repeat(np.arange(edges.size - 1), np.diff(edges))
    first, last = src[item], src[item + 1]
    n = int(edges[-1])
    rows = np.arange(n) if arrays.edge_ids is None else arrays.edge_ids[:n]
    apart = (
        np.array_equal(arrays.offsets[dst], edges)
        and np.array_equal(arrays.src_offsets[src], edges)
        and ((arrays.indices[:n] >= first) & (arrays.indices[:n] < last)).all()
        and ((rows >= edges[item]) & (rows < edges[item + 1])).all()
    )
    if not apart:
        raise ValueError("graph: borders: there are edges from one graph to another")

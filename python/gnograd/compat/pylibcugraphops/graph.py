# SPDX-License-Identifier: MIT
"""Graphs: `gnograd.Graph`, and the integer type in which the caller keeps edge positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.backends import cuda_arrays
from gnograd.compat.arrays import array_of, on_host
from gnograd.faces.operator import Array
from gnograd.graphs.gpu import is_on_gpu
from gnograd.graphs.graph import Graph
from gnograd.notation.static import AT_LEAST_0, AT_LEAST_1, integer

__all__ = [
    "Csc",
    "HeteroCsc",
    "make_bipartite_csc",
    "make_bipartite_csc_hg",
    "make_csc",
    "make_csc_hg",
]


@dataclass(frozen=True)
class Csc:
    """Graph of `make_csc` and `make_bipartite_csc`."""

    graph: Graph
    """Graph for gnograd's own operators."""
    index_dtype: str
    """Dtype of `offsets` and `indices`, ``"int32"`` or ``"int64"``, and of locations of extrema."""

    @property
    def n_src_nodes(self) -> int:
        """Number of source nodes."""
        return self.graph.n_src

    @property
    def n_dst_nodes(self) -> int:
        """Number of destination nodes."""
        return self.graph.n_dst

    @property
    def n_indices(self) -> int:
        """Number of edges."""
        return self.graph.n_edges


@dataclass(frozen=True)
class HeteroCsc(Csc):
    """Graph of `make_csc_hg` and `make_bipartite_csc_hg`, with edges of several types."""

    edge_types: NDArray[np.int32]
    """Type of every row of edge arrays, (n_indices,); read-only."""
    n_edge_types: int
    """Number of types of edges."""
    _on_devices: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    def types_beside(self, array: Array) -> Array:
        """The types on the device of an array, copied once."""
        if isinstance(array, np.ndarray):
            return self.edge_types
        device = cuda_arrays.device_of(array)
        if device not in self._on_devices:
            self._on_devices[device] = cuda_arrays.hold(self.edge_types, device)
        return self._on_devices[device]


def make_csc(offsets: Array, indices: Array, map_csc_to_coo: Array | None = None) -> Csc:
    """Graph whose sources and destinations are the same nodes.

    Parameters
    ----------
    offsets : array of int32 or int64, (n_nodes + 1,)
        First edge of every destination.
    indices : array of the same integers, (n_indices,)
        Source of every edge.
    map_csc_to_coo : array of int32 or int64, (n_indices,), optional
        Row of the edge arrays that every edge uses.

    Raises
    ------
    TypeError, ValueError, IndexError
        As for `gnograd.Graph`, which checks and copies the arrays.
    """
    return _make("make_csc", offsets, indices, None, map_csc_to_coo)


def make_bipartite_csc(
    offsets: Array, indices: Array, n_src_nodes: int, map_csc_to_coo: Array | None = None
) -> Csc:
    """Graph from `n_src_nodes` sources to other nodes; the rest is as in `make_csc`."""
    return _make("make_bipartite_csc", offsets, indices, n_src_nodes, map_csc_to_coo)


def make_csc_hg(
    offsets: Array,
    indices: Array,
    n_node_types: int,
    n_edge_types: int,
    node_types: Array | None,
    edge_types: Array,
    map_csc_to_coo: Array | None = None,
) -> HeteroCsc:
    """Graph whose sources and destinations are the same nodes, with edges of several types.

    Parameters
    ----------
    offsets, indices, map_csc_to_coo : array
        As for `make_csc`.
    n_node_types, node_types : int, array
        Types of the nodes, which no operator reads; 0 and None if there are none.
    n_edge_types : int
        Number of types of edges.
    edge_types : array of int32 or int64, (n_indices,)
        Type of every edge, in the order of `indices`.

    Raises
    ------
    TypeError, ValueError, IndexError
        As for `gnograd.Graph`; an edge whose type is not one of `n_edge_types`.
    """
    name = "make_csc_hg"
    return with_types(
        name,
        _make(name, offsets, indices, None, map_csc_to_coo),
        n_node_types,
        n_edge_types,
        edge_types,
    )


def make_bipartite_csc_hg(
    offsets: Array,
    indices: Array,
    n_node_types: int,
    n_edge_types: int,
    node_types: Array | None,
    edge_types: Array,
    map_csc_to_coo: Array | None = None,
    n_src_nodes: int | None = None,
) -> HeteroCsc:
    """Graph from nodes to other nodes, with edges of several types.

    Parameters
    ----------
    n_src_nodes : int, optional
        Number of sources, which 24.12 did not ask for; when left out, one more than the largest of
        `indices`, and not less than there are destinations.

    All other parameters are as in `make_csc_hg`.
    """
    name = "make_bipartite_csc_hg"
    if n_src_nodes is None:
        sources = on_host(name, "indices", indices)
        n_dst = len(on_host(name, "offsets", offsets)) - 1
        n_src_nodes = max(int(sources.max(initial=-1)) + 1, n_dst)
    return with_types(
        name,
        _make(name, offsets, indices, n_src_nodes, map_csc_to_coo),
        n_node_types,
        n_edge_types,
        edge_types,
    )


def with_types(
    name: str, csc: Csc, n_node_types: int, n_edge_types: int, edge_types: Array
) -> HeteroCsc:
    """Add types of edges, given in the order of the edges, to a graph."""
    integer(f"{name}: n_node_types", n_node_types, AT_LEAST_0)
    n_types = integer(f"{name}: n_edge_types", n_edge_types, AT_LEAST_1)
    types: NDArray[Any] = on_host(name, "edge_types", edge_types)
    if types.dtype.kind not in "iu":
        raise TypeError(f"{name}: edge_types is {types.dtype}, needs integers")
    if types.shape != (csc.n_indices,):
        raise ValueError(
            f"{name}: edge_types has shape {types.shape}, needs one for each of the "
            f"{csc.n_indices} edges"
        )
    wrong = np.flatnonzero((types < 0) | (types >= n_types))
    if wrong.size:
        raise IndexError(
            f"{name}: edge_types[{wrong[0]}] is {types[wrong[0]]}, not one of {n_types} types"
        )
    by_row = np.empty(len(types), np.int32)
    ids = csc.graph.edge_ids
    by_row[slice(None) if ids is None else ids] = types
    by_row.setflags(write=False)  # copies on devices stay valid
    return HeteroCsc(csc.graph, csc.index_dtype, by_row, n_types)


def _make(
    name: str, offsets: Array, indices: Array, n_src: int | None, edge_ids: Array | None
) -> Csc:
    given: list[Any] = [x if x is None else array_of(x) for x in (offsets, indices, edge_ids)]
    if all(map(is_on_gpu, given[: 2 if edge_ids is None else 3])):
        kinds = [cuda_arrays.describe(array)[1] for array in given[:2]]
        if kinds[0] != kinds[1]:
            raise TypeError(f"{name}: offsets is {kinds[0]} but indices is {kinds[1]}")
        return Csc(Graph(given[0], given[1], n_src, given[2]), kinds[1])
    first, sources = on_host(name, "offsets", offsets), on_host(name, "indices", indices)
    ids = None if edge_ids is None else on_host(name, "map_csc_to_coo", edge_ids)
    if first.dtype != sources.dtype:
        raise TypeError(f"{name}: offsets is {first.dtype} but indices is {sources.dtype}")
    return Csc(Graph(first, sources, n_src, ids), str(sources.dtype))

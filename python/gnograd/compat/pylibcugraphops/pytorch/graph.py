# SPDX-License-Identifier: MIT
"""Graphs of tensors: `gnograd.torch.Graph` with the attributes of the old classes.

Both orders of edges are made with a graph, on the device of its tensors, so that backward
functions need nothing more: `CSC.add_reverse_graph`, `dst_max_in_degree` and `reverse_graph_bwd`
have no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import gnograd
from gnograd.backends.tensors import numpy_of
from gnograd.notation.static import AT_LEAST_0, exact_integers, integer
from gnograd.torch.arrays import integers
from gnograd.torch.graph import Graph

__all__ = [
    "CSC",
    "BipartiteCSC",
    "HeteroCSC",
    "SampledCSC",
    "SampledHeteroCSC",
    "StaticCSC",
    "StaticHeteroCSC",
]


class CSC:
    """Edges by destination.

    Parameters
    ----------
    offsets : Tensor of int32 or int64, (n_dst + 1,)
        First edge of every destination.
    indices : Tensor of int32 or int64, (n_edges,)
        Source of every edge.
    num_src_nodes : int
        Number of sources. If there are more than destinations, the first of them are the
        destinations (a sampled graph), unless operators get features of both.
    dst_max_in_degree : int
        Not used: there is one kernel for all degrees.
    is_bipartite : bool
        Value of the attribute of this name; operators decide by their features.
    map_csc_to_coo : Tensor of int32 or int64, (n_edges,), optional
        Row of the edge arrays that every edge uses.

    Attributes
    ----------
    graph : gnograd.torch.Graph
        Graph for gnograd's own operators.

    Raises
    ------
    TypeError, ValueError, IndexError
        As for `gnograd.torch.Graph.from_csc`.

    Examples
    --------
    >>> import torch
    >>> from gnograd.compat.pylibcugraphops.pytorch import CSC
    >>> from gnograd.compat.pylibcugraphops.pytorch.operators import agg_concat_n2n
    >>> graph = CSC(torch.tensor([0, 2, 3]), torch.tensor([1, 2, 0]), num_src_nodes=3)
    >>> agg_concat_n2n(torch.tensor([[1.0], [10.0], [100.0]]), graph, "mean")
    tensor([[55.,  1.],
            [ 1., 10.]])
    """

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        num_src_nodes: int,
        dst_max_in_degree: int = -1,
        is_bipartite: bool = False,
        map_csc_to_coo: Tensor | None = None,
    ) -> None:
        name = type(self).__name__
        for label, tensor in {"offsets": offsets, "indices": indices}.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"{name}: {label} is of type {type(tensor).__name__}, needs a tensor of int64"
                )
        self.offsets = offsets
        self.indices = indices
        self.dst_max_in_degree = dst_max_in_degree
        self.is_bipartite = is_bipartite
        self.map_csc_to_coo = map_csc_to_coo
        n_src = integer(f"{name}: num_src_nodes", num_src_nodes, AT_LEAST_0)
        self.graph = _graph(offsets, indices, n_src, map_csc_to_coo)

    @property
    def num_src_nodes(self) -> int:
        """Number of sources."""
        return self.graph.n_src

    @property
    def num_dst_nodes(self) -> int:
        """Number of destinations."""
        return self.graph.n_dst

    @property
    def num_indices(self) -> int:
        """Number of edges."""
        return self.graph.n_edges

    def add_reverse_graph(self) -> None:
        """Do nothing: edges by source are there already."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_src_nodes={self.num_src_nodes}, "
            f"num_dst_nodes={self.num_dst_nodes}, num_indices={self.num_indices})"
        )


class HeteroCSC(CSC):
    """Edges by destination, of several types.

    Parameters
    ----------
    edge_types : Tensor of integers, (n_edges,)
        Type of every edge, in the order of `indices`.
    num_edge_types : int

    All other parameters are those of `CSC`.

    Raises
    ------
    TypeError, ValueError
        Types that are no integers, or not one for each edge. The operators check that types are
        below `num_edge_types`.
    """

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        edge_types: Tensor,
        num_src_nodes: int,
        num_edge_types: int,
        dst_max_in_degree: int = -1,
        is_bipartite: bool = False,
        map_csc_to_coo: Tensor | None = None,
    ) -> None:
        super().__init__(
            offsets, indices, num_src_nodes, dst_max_in_degree, is_bipartite, map_csc_to_coo
        )
        if edge_types.shape != indices.shape:
            raise ValueError(
                f"{type(self).__name__}: edge_types has shape {tuple(edge_types.shape)}, "
                f"needs one for each of the {self.num_indices} edges"
            )
        self.edge_types = edge_types
        label = f"{type(self).__name__}: num_edge_types"
        self.num_edge_types = integer(label, num_edge_types)
        if edge_types.is_floating_point():
            raise TypeError(
                f"{type(self).__name__}: edge_types is {edge_types.dtype}, needs integers"
            )
        types = integers(edge_types, torch.int32).contiguous()
        rows = self.graph.edge_ids
        self.types_by_row = (
            types if rows is None else torch.empty_like(types).scatter(0, rows, types)
        )
        """The types in the order of edge arrays."""


class StaticCSC(CSC):
    """Edges among one set of nodes.

    Sources beyond the destinations are accepted: codes that only aggregate features of edges make
    such a graph of two sets of nodes. With a GPU, the host waits to count them.
    """

    def __init__(
        self, offsets: Tensor, indices: Tensor, map_csc_to_coo: Tensor | None = None
    ) -> None:
        n_src = _n_nodes(offsets, indices)
        super().__init__(offsets, indices, n_src, map_csc_to_coo=map_csc_to_coo)


class SampledCSC(CSC):
    """Edges from sampled nodes to the first of them."""

    def __init__(
        self, offsets: Tensor, indices: Tensor, max_num_neighbors: int, num_src_nodes: int
    ) -> None:
        super().__init__(offsets, indices, num_src_nodes, max_num_neighbors)


class BipartiteCSC(CSC):
    """Edges from one set of nodes to another."""

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        num_src_nodes: int,
        map_csc_to_coo: Tensor | None = None,
        reverse_graph_bwd: bool = True,
    ) -> None:
        super().__init__(
            offsets, indices, num_src_nodes, is_bipartite=True, map_csc_to_coo=map_csc_to_coo
        )
        self.reverse_graph_bwd = reverse_graph_bwd


class StaticHeteroCSC(HeteroCSC):
    """Edges of several types among one set of nodes."""

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        edge_types: Tensor,
        num_edge_types: int,
        map_csc_to_coo: Tensor | None = None,
    ) -> None:
        n_src = _n_nodes(offsets, indices)
        super().__init__(
            offsets, indices, edge_types, n_src, num_edge_types, map_csc_to_coo=map_csc_to_coo
        )


class SampledHeteroCSC(HeteroCSC):
    """Edges of several types from sampled nodes to the first of them."""

    def __init__(
        self,
        offsets: Tensor,
        indices: Tensor,
        edge_types: Tensor,
        max_num_neighbors: int,
        num_src_nodes: int,
        num_edge_types: int,
    ) -> None:
        super().__init__(
            offsets, indices, edge_types, num_src_nodes, num_edge_types, max_num_neighbors
        )


def _n_nodes(offsets: Tensor, indices: Tensor) -> int:
    """Number of sources, if not given: the destinations, and all further sources of edges."""
    largest = int(indices.max()) + 1 if indices.numel() else 0
    return max(offsets.shape[0] - 1, largest)


def _graph(offsets: Tensor, indices: Tensor, n_src: int, rows: Tensor | None) -> Graph:
    offsets, indices = offsets.detach().contiguous(), indices.detach().contiguous()
    if offsets.dtype != indices.dtype:
        offsets, indices = offsets.long(), indices.long()
    if rows is None:
        return Graph.from_csc(offsets, indices, n_src)
    # rows are checked, and edges ordered by them, on the host
    arrays: list[Any] = [numpy_of(x.cpu()) for x in (offsets, indices, rows)]
    first, sources, ids = arrays
    if ids.dtype.kind not in "iu":
        raise TypeError(f"graph: map_csc_to_coo is {ids.dtype}, needs integers")
    ids = exact_integers("graph: map_csc_to_coo", ids, np.int64)
    return Graph.of(gnograd.Graph(first, sources, n_src, ids), offsets.device)

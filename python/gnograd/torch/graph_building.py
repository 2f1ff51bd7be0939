# SPDX-License-Identifier: MIT
"""Construction of graphs inside PyTorch's programs, by custom operators.

On the CPU edges are ordered by the library; on a GPU by PyTorch's stable sort, on the device.
Both give the same graph. A result is the list of the arrays of
`gnograd.notation.graph_arrays.GraphArrays`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import gnograd.graphs.graph
from gnograd.backends.tensors import numpy_of
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.torch.batches import register_loop
from gnograd.torch.dispatch import kernels
from gnograd.torch.eager import is_eager, leave_to_python
from gnograd.torch.made_once import MadeOnce
from gnograd.torch.searches import unknown_size

__all__ = [
    "first_edges", "graph_from_csc", "graph_from_edges", "graph_of_rows", "graph_with_loops",
]  # fmt: skip


def _by_destination(keys: Tensor, n_keys: int, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Order edges by one end: offsets, the other ends, and the former position of each edge.

    Edges whose keys are not below n_keys come last, behind the last offset.
    """
    keys, order = keys.sort(stable=True)
    nodes = torch.arange(n_keys + 1, device=keys.device)
    offsets = torch.searchsorted(keys, nodes)
    return offsets, others[order].int(), order


def _ordered(
    src: Tensor, dst: Tensor, left_out: Tensor | None, n_src: int, n_dst: int
) -> list[Tensor]:
    """Both orders of edges, by PyTorch's own operators, on the device of the edges."""
    if left_out is not None:
        src, dst = src.masked_fill(left_out, n_src), dst.masked_fill(left_out, n_dst)
    offsets, indices, rows = _by_destination(dst, n_dst, src)
    src_offsets, src_indices, positions = _by_destination(src[rows], n_src, dst[rows])
    free = torch.arange(len(src), device=src.device) >= offsets[-1]
    return [
        offsets, indices.masked_fill(free, 0), rows,
        src_offsets, src_indices.masked_fill(free, 0), rows[positions], positions,
    ]  # fmt: skip


def _checked_on_device(name: str, nodes: Tensor, n: int) -> None:
    torch._assert_async(
        ((nodes >= 0) & (nodes < n)).all(), f"graph: {name} has a node that is not one of {n}"
    )


def graph_from_edges(
    edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool | None
) -> list[Tensor]:
    """Arrays of the graph of an ``edge_index``."""
    if is_eager(edge_index):
        return _from_edges(edge_index, n_src, n_dst, self_loops)
    made: list[Tensor] = torch.ops.gnograd.graph_from_edges(edge_index, n_src, n_dst, self_loops)
    return made


def graph_from_csc(
    offsets: Tensor, indices: Tensor, n_src: int, room: bool = False
) -> list[Tensor]:
    """Arrays of the graph of edges by destination, without those that it does not need.

    With `room`, there may be indices behind the last offset that are no edges.
    """
    if is_eager(offsets, indices):
        return _from_csc(offsets, indices, n_src, room)
    made: list[Tensor] = torch.ops.gnograd.graph_from_csc(offsets, indices, n_src, room)
    return made


@leave_to_python
def _from_edges(
    edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool | None
) -> list[Tensor]:
    if edge_index.device.type == "cpu":
        src, dst = numpy_of(edge_index)
        made = gnograd.graphs.graph.Graph.from_edges(src, dst, n_src, n_dst, self_loops=self_loops)
        arrays = made.arrays
        if arrays.edge_ids is None:  # results of custom operators have one form
            places, edges = np.arange(made.n_edges), arrays.src_edges.copy()
            arrays = arrays._replace(edge_ids=places, src_positions=edges)
        return list(map(torch.from_numpy, arrays))
    return _edges_on_device(edge_index, n_src, n_dst, self_loops)


def _edges_on_device(
    edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool | None
) -> list[Tensor]:
    src, dst = edge_index.long()
    _checked_on_device("src", src, n_src)
    _checked_on_device("dst", dst, n_dst)
    left_out = None if self_loops is None else src == dst
    if self_loops:
        loops = torch.arange(min(n_src, n_dst), device=src.device)
        left_out = torch.cat([src == dst, torch.zeros_like(loops, dtype=torch.bool)])
        src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
    return _ordered(src, dst, left_out, n_src, n_dst)


_made = MadeOnce()


@leave_to_python
def _from_edges_in_program(
    edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool | None
) -> list[Tensor]:
    """Copies of what was made before of the same edges: every layer, every step asks for it."""
    if edge_index.device.type != "cpu":
        return _from_edges(edge_index, n_src, n_dst, self_loops)
    made = _made.of(
        (edge_index,),
        (n_src, n_dst, self_loops),
        lambda numbers: _from_edges(numbers, n_src, n_dst, self_loops),
    )
    return [x.clone() for x in made]  # programs may write to results of operators


_op = torch.library.custom_op("gnograd::graph_from_edges", _from_edges_in_program, mutates_args=())
register_loop(_op)
# without PyTorch's functions around each call: the graph of a program is asked for by each layer
kernels.impl("graph_from_edges", _from_edges_in_program, "CPU")
kernels.impl("graph_from_edges", torch.library.fallthrough_kernel, "AutogradCPU")


@_op.register_fake
def _(edge_index: Tensor, n_src: int, n_dst: int, self_loops: bool | None) -> list[Tensor]:
    n_edges = edge_index.shape[1]
    if self_loops:
        n_edges = n_edges + torch.sym_min(n_src, n_dst)
    return _like_graph(edge_index, n_src, n_dst, n_edges)


def _like_graph(like: Tensor, n_src: int, n_dst: int, n_edges: int) -> list[Tensor]:
    lengths = n_dst + 1, n_edges, n_edges, n_src + 1, n_edges, n_edges, n_edges
    return [
        like.new_empty((n,), dtype=torch.int32 if k in (1, 4) else torch.int64)
        for k, n in enumerate(lengths)
    ]


@leave_to_python
def _from_csc(offsets: Tensor, indices: Tensor, n_src: int, room: bool = False) -> list[Tensor]:
    if offsets.device.type == "cpu":
        n_edges = len(indices)
        first = numpy_of(indices)[: offsets[-1]] if room else numpy_of(indices)
        made = gnograd.graphs.graph.Graph(numpy_of(offsets), first, n_src)
        if made.n_edges < n_edges:
            made = made.pad(n_edges)
        return [torch.from_numpy(x) for x in made.arrays if x is not None]
    return _csc_on_device(offsets, indices, n_src, room)


def _csc_on_device(
    offsets: Tensor, indices: Tensor, n_src: int, room: bool = False
) -> list[Tensor]:
    offsets, src = offsets.long(), indices.long()
    n_edges = len(src)
    _checked_on_device("indices", src, n_src)
    ends = offsets[-1] <= n_edges if room else offsets[-1] == n_edges
    torch._assert_async(
        ((offsets[0] == 0) & ends & (offsets.diff() >= 0).all()),
        "graph: offsets do not ascend from 0 to the number of edges",
    )
    places = torch.arange(n_edges, device=src.device)
    dst = torch.searchsorted(offsets, places, right=True) - 1
    if not room:
        return [offsets, src.int(), *_by_destination(src, n_src, dst)]
    free = places >= offsets[-1]
    ordered = _by_destination(src.masked_fill(free, n_src), n_src, dst.masked_fill(free, 0))
    return [offsets, src.int().masked_fill(free, 0), *ordered]


_op = torch.library.custom_op("gnograd::graph_from_csc", _from_csc, mutates_args=())
register_loop(_op)


@_op.register_fake
def _(offsets: Tensor, indices: Tensor, n_src: int, room: bool = False) -> list[Tensor]:
    made = _like_graph(indices, n_src, offsets.shape[0] - 1, indices.shape[0])
    return [*made[:2], *made[3:6]]


def graph_with_loops(arrays: GraphArrays, self_loops: bool) -> list[Tensor]:
    """Arrays of a graph with exactly one self-loop a node, or with none, in a program."""
    offsets, indices, edge_ids = arrays[:3]
    made: list[Tensor] = torch.ops.gnograd.graph_with_loops(
        offsets, indices, edge_ids, arrays.sizes.n_src, self_loops
    )
    return made


@leave_to_python
def _with_loops_in_program(
    offsets: Tensor, indices: Tensor, edge_ids: Tensor | None, n_src: int, self_loops: bool
) -> list[Tensor]:
    """Copies of what was made before of the same graph, as in `_from_edges_in_program`."""
    given = (offsets, indices) if edge_ids is None else (offsets, indices, edge_ids)

    def make(offsets: Tensor, indices: Tensor, edge_ids: Tensor | None = None) -> list[Tensor]:
        places = torch.arange(len(indices), device=offsets.device)
        dst = torch.searchsorted(offsets, places, right=True) - 1
        # free rows are from and to node 0
        ends = torch.stack([indices.long(), dst.masked_fill(places >= offsets[-1], 0)])
        if edge_ids is not None:
            ends = torch.empty_like(ends).scatter(1, edge_ids.expand(2, -1), ends)
        return _from_edges(ends, n_src, len(offsets) - 1, self_loops)

    if offsets.device.type != "cpu":
        return make(*given)
    return [x.clone() for x in _made.of(given, (n_src, self_loops), make)]


_op = torch.library.custom_op("gnograd::graph_with_loops", _with_loops_in_program, mutates_args=())
register_loop(_op)


@_op.register_fake
def _(
    offsets: Tensor, indices: Tensor, edge_ids: Tensor | None, n_src: int, self_loops: bool
) -> list[Tensor]:
    n_dst, n_edges = offsets.shape[0] - 1, indices.shape[0]
    if self_loops:
        n_edges = n_edges + torch.sym_min(n_src, n_dst)
    return _like_graph(indices, n_src, n_dst, n_edges)


def graph_of_rows(edge_index: Tensor, free: Tensor, n_src: int, n_dst: int) -> list[Tensor]:
    """Arrays of the graph of edges in rows of edge arrays; free rows belong to no edge."""
    src, dst = edge_index
    return _ordered(src, dst, free, n_src, n_dst)


def first_edges(edge_index: Tensor, free: Tensor, n_src: int) -> Tensor:
    """Every edge once, in the order of its first row, without free rows."""
    if is_eager(edge_index, free):
        return _first_edges(edge_index, free, n_src)
    edges: Tensor = torch.ops.gnograd.first_edges(edge_index, free, n_src)
    return edges


@leave_to_python
def _first_edges(edge_index: Tensor, free: Tensor, n_src: int) -> Tensor:
    rows = (~free).nonzero().flatten()
    src, dst = edge_index[:, rows]
    pairs, order = (dst * n_src + src).sort(stable=True)
    new = torch.ones_like(pairs, dtype=torch.bool)
    new[1:] = pairs[1:] != pairs[:-1]
    return edge_index[:, rows[order[new].sort().values]]


_op = torch.library.custom_op("gnograd::first_edges", _first_edges, mutates_args=())
register_loop(_op)


@_op.register_fake
def _(edge_index: Tensor, free: Tensor, n_src: int) -> Tensor:
    return edge_index.new_empty((2, unknown_size()))

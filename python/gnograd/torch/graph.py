# SPDX-License-Identifier: MIT
"""Graphs whose arrays are tensors, and which programs use as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import gnograd.graphs.graph
from gnograd.backends import has_cuda
from gnograd.graphs.checks import check_arrays
from gnograd.notation.graph_arrays import (
    Borders,
    GraphArrays,
    OfArrays,
    apart,
    representation,
    side_by_side,
    with_room,
)
from gnograd.notation.keywords import named_now
from gnograd.torch.eager import in_transform, is_eager
from gnograd.torch.graph_building import (
    first_edges,
    graph_from_csc,
    graph_from_edges,
    graph_of_rows,
)
from gnograd.torch.graph_of_points import GraphOfPoints

__all__ = ["AnyGraph", "Graph", "arrays_of", "collate", "lend_tensors"]

AnyGraph: TypeAlias = "Graph | gnograd.graphs.graph.Graph"
"""A graph of tensors or of NumPy arrays; a CPU's tensors and arrays share their memory."""


class Graph(GraphOfPoints, OfArrays):
    """A graph whose arrays are tensors.

    Counterpart of `gnograd.Graph`, which has NumPy arrays: functions and modules of
    `gnograd.torch` take either. This one is part of a program's data: it moves to devices, enters
    and leaves compiled and exported programs (it is a node of PyTorch's pytrees), and is pickled
    with all its arrays, also for `torch.load` with ``weights_only=True``.

    `from_edge_index` and `from_csc` make graphs and check their arguments, and graphs read from
    files are checked too; the constructor trusts its arrays.

    Parameters
    ----------
    arrays : GraphArrays
        Edges by destination, and by source.
    borders : Borders, optional
        First nodes and rows of the graphs of a batch, as tensors.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import Graph, agg_simple
    >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 0, 1]]), 3)
    >>> graph
    Graph(n_src=3, n_dst=3, n_edges=3)
    >>> agg_simple(torch.eye(3), graph=graph)
    tensor([[0., 1., 0.],
            [1., 0., 1.],
            [0., 0., 0.]])
    """

    def __init__(self, arrays: GraphArrays, borders: Borders | None = None) -> None:
        self.arrays = arrays
        self.borders = borders
        self._lent: tuple[GraphArrays, gnograd.graphs.graph.Graph] | None = None

    @classmethod
    @named_now("self_loops")
    def from_edge_index(
        cls,
        edge_index: Tensor,
        n_src: int | None = None,
        n_dst: int | None = None,
        *,
        self_loops: bool | None = None,
    ) -> Graph:
        """Graph of PyG's ``edge_index``, whose rows are sources and destinations.

        Parameters
        ----------
        edge_index : Tensor of int64 or int32, (2, n_edges)
        n_src, n_dst : int, optional
            Numbers of nodes. One left out equals the other; both left out are one more than the
            largest node: the host waits for it, and compilation breaks its graph.
        self_loops : bool, optional
            Leave out the self-loops there are: their rows of edge arrays belong to no edge then. If
            true, have exactly one at each of the first ``min(n_src, n_dst)`` nodes, whose rows come
            behind those of `edge_index`.

        Raises
        ------
        TypeError, ValueError, IndexError
            No tensor of integers, another shape, a node out of range.

        Notes
        -----
        On a GPU edges are ordered there, and the host does not wait; a node out of range is found
        by an assertion on the device.
        """
        _check_edge_index(edge_index)
        if n_src is None and n_dst is None:
            n_src = int(edge_index.max()) + 1 if edge_index.shape[1] else 0
        made = graph_from_edges(
            edge_index,
            n_dst if n_src is None else n_src,  # type: ignore[arg-type]
            n_src if n_dst is None else n_dst,  # type: ignore[arg-type]
            self_loops,
        )
        return cls(GraphArrays(*made))

    @classmethod
    def from_csc(cls, offsets: Tensor, indices: Tensor, n_src: int | None = None) -> Graph:
        """Graph of edges that are ordered by destination.

        Parameters
        ----------
        offsets : Tensor of int64 or int32, (n_dst + 1,)
            First edge of every destination; starts with 0 and ends with the number of edges.
        indices : Tensor of int64 or int32, (n_edges,)
            Source of every edge.
        n_src : int, optional
            Number of sources; that of destinations when left out.

        Raises
        ------
        TypeError, ValueError, IndexError
            As for `gnograd.Graph`.
        """
        n_src = offsets.shape[0] - 1 if n_src is None else n_src
        return cls._of_columns(graph_from_csc(offsets, indices, n_src))

    @classmethod
    def _of_neighbors(cls, offsets: Tensor, indices: Tensor, n_src: int) -> Graph:
        """Graph of the result of a search; under `torch.func.vmap` it may have free rows."""
        return cls._of_columns(graph_from_csc(offsets, indices, n_src, in_transform()))

    @classmethod
    def _of_columns(cls, made: Sequence[Tensor]) -> Graph:
        offsets, indices, src_offsets, src_indices, src_edges = made
        return cls(GraphArrays(offsets, indices, None, src_offsets, src_indices, src_edges, None))

    @classmethod
    def union(cls, first: AnyGraph, *others: AnyGraph) -> Graph:
        """Graph with every edge that one of the graphs has, once, as `gnograd.Graph.union`."""
        for k, graph in enumerate((first, *others)):
            _check_graph(f"Graph.union: graph {k}", graph)
        graphs = [cls.of(graph) for graph in (first, *others)]
        for k, graph in enumerate(graphs):
            if graph.sizes[:2] != graphs[0].sizes[:2]:
                raise ValueError(
                    f"Graph.union: graph {k} has {graph.n_src} sources and {graph.n_dst} "
                    f"destinations, needs {graphs[0].n_src} and {graphs[0].n_dst}"
                )
        n_src, n_dst, _ = graphs[0].sizes
        ends = torch.cat([torch.stack([graph.src, graph.dst]) for graph in graphs], dim=1)
        free = torch.cat([graph.free_rows for graph in graphs])
        return cls.from_edge_index(first_edges(ends, free, n_src), n_src, n_dst)

    def reverse(self) -> Graph:
        """Graph with all edges reversed, in the same rows, as `gnograd.Graph.reverse`."""
        n_src, n_dst, _ = self.sizes
        made = graph_of_rows(torch.stack([self.dst, self.src]), self.free_rows, n_dst, n_src)
        borders = self.borders
        if borders is not None:
            borders = Borders(borders.dst, borders.src, borders.edges)
        return Graph(GraphArrays(*made), borders)

    def with_self_loops(self) -> Graph:
        """Copy with exactly one self-loop a node, as `gnograd.Graph.with_self_loops`."""
        n_src, n_dst, _ = self.sizes
        src, dst = self.src, self.dst
        loops = torch.arange(torch.sym_min(n_src, n_dst), device=self.device)
        ends = torch.stack([torch.cat([src, loops]), torch.cat([dst, loops])])
        free = torch.cat([self.free_rows | (src == dst), torch.zeros_like(loops, dtype=torch.bool)])
        return Graph(GraphArrays(*graph_of_rows(ends, free, n_src, n_dst)))

    @classmethod
    def of(cls, graph: AnyGraph, device: torch.device | str | None = None) -> Graph:
        """Convert a graph to tensors, on the CPU in the same memory.

        Parameters
        ----------
        graph : gnograd.Graph or Graph
        device : optional
            Device for the tensors; unchanged when left out.
        """
        if isinstance(graph, Graph):
            return graph if device is None else graph.to(device)
        _check_graph("Graph.of: graph", graph)
        borders = None if graph.borders is None else _on_host(graph.borders)
        made = cls(arrays_of(graph), borders)
        return made if device is None else made.to(device)

    @classmethod
    def batch(cls, graphs: Sequence[AnyGraph]) -> Graph:
        """One graph of several, as `gnograd.Graph.batch` makes it."""
        for k, graph in enumerate(graphs):
            _check_graph(f"Graph.batch: graphs[{k}]", graph)
        arrays, borders = side_by_side([arrays_of(graph) for graph in graphs], _cat, _numbers)
        return cls(arrays, _on_host(borders))

    def unbatch(self) -> list[Graph]:
        """The graphs that `batch` has joined."""
        borders = None if self.borders is None else Borders(*(b.tolist() for b in self.borders))
        return [Graph(arrays) for arrays in apart(self.arrays, borders)]

    def pad(self, n_edges: int) -> Graph:
        """Copy with room for more edges, as `gnograd.Graph.pad` makes it."""
        return Graph(with_room(self.arrays, n_edges, _cat, _numbers), self.borders)

    # ---- properties ----

    @property
    def offsets(self) -> Tensor:
        """First edge of every destination, int64, (n_dst + 1,)."""
        offsets: Tensor = self.arrays.offsets
        return offsets

    @property
    def indices(self) -> Tensor:
        """Source of every edge, int32, (n_edges,), ordered by destination."""
        indices: Tensor = self.arrays.indices
        return indices

    @property
    def edge_ids(self) -> Tensor | None:
        """Row of the edge arrays for every entry of `indices`; None if in the same order."""
        ids: Tensor | None = self.arrays.edge_ids
        return ids

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.arrays.offsets.device

    @property
    def in_degree(self) -> Tensor:
        """Number of edges that end in every destination, int64, (n_dst,)."""
        return self.arrays.offsets.diff()

    @property
    def src(self) -> Tensor:
        """Source of every row of the edge arrays, int64, (n_edges,); 0 for free rows."""
        return self._by_row(self.arrays.edge_ids, self.arrays.indices)

    @property
    def dst(self) -> Tensor:
        """Destination of every row of the edge arrays, int64, (n_edges,); 0 for free rows."""
        return self._by_row(self.arrays.src_edges, self.arrays.src_indices)

    @property
    def free_rows(self) -> Tensor:
        """True for every row of the edge arrays that belongs to no edge, bool, (n_edges,)."""
        offsets, indices, ids = self.arrays[:3]
        free = torch.arange(indices.shape[0], device=offsets.device) >= offsets[-1]
        return free if ids is None else torch.empty_like(free).scatter(0, ids, free)

    def _by_row(self, rows: Tensor | None, nodes: Tensor) -> Tensor:
        """Nodes at one end of the edges, in one of the two orders, by rows of the edge arrays."""
        nodes = nodes.long()
        return nodes if rows is None else torch.empty_like(nodes).scatter(0, rows, nodes)

    def __repr__(self) -> str:
        if in_transform() or self.arrays.offsets.is_meta:  # numbers are not to be had
            return "Graph(n_src={}, n_dst={}, n_edges={})".format(*self.sizes)
        return representation(self.arrays)

    # ---- devices ----

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Graph:
        """Copy on a device; the graph itself if it is there."""
        if self.device == torch.device(device):
            return self
        return self._each(lambda x: x.to(device, non_blocking=non_blocking))

    def cpu(self) -> Graph:
        """Copy on the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | None = None, non_blocking: bool = False) -> Graph:
        """Copy on a GPU."""
        return self.to("cuda" if device is None else f"cuda:{device}", non_blocking)

    def pin_memory(self) -> Graph:
        """Copy in pinned memory, for `torch.utils.data.DataLoader`."""
        return self._each(lambda x: x.pin_memory())

    def _each(self, change: Callable[[Tensor], Tensor]) -> Graph:
        borders = self.borders  # they stay on the host, which reads them
        return Graph(GraphArrays(*(None if x is None else change(x) for x in self.arrays)), borders)

    @property
    def lent(self) -> gnograd.graphs.graph.Graph:
        """`gnograd.Graph` for kernels, in the same memory; made once."""
        if self._lent is None or self._lent[0] is not self.arrays:
            self._lent = self.arrays, lend_tensors(self.arrays)
        return self._lent[1]

    @property
    def is_lendable(self) -> bool:
        """True if the tensors are where kernels read them, and no wrappers of others."""
        if self._lent is not None and self._lent[0] is self.arrays:
            return True
        kind = self.device.type
        return (kind == "cpu" or (kind == "cuda" and has_cuda())) and is_eager(*self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.arrays, self.borders)

    def __copy__(self) -> Graph:
        return Graph(self.arrays, self.borders)

    def __deepcopy__(self, memo: object) -> Graph:
        return self._each(torch.clone)


def _check_graph(name: str, graph: Any) -> None:
    if not isinstance(graph, Graph | gnograd.graphs.graph.Graph):
        raise TypeError(f"{name} is of type {type(graph).__name__}, needs a Graph")


def _on_host(borders: Borders) -> Borders:
    """Tensors on the CPU, whatever device is PyTorch's default."""
    return Borders(*(torch.tensor(b, device="cpu") for b in borders))


def _restored(arrays: GraphArrays, borders: Borders | None) -> Graph:
    """Graph from an untrusted source, such as a file: checked, and kept in copies."""
    borders = None if borders is None else Borders(*borders)
    tensors = [*arrays, *(borders or ())]
    for x in tensors:
        if x is not None and type(x) is not Tensor:
            raise TypeError(f"graph: one of its arrays is of type {type(x).__name__}, not a tensor")
    graph = Graph(GraphArrays(*arrays), borders and Borders(*(x.clone() for x in borders)))
    graph = graph._each(torch.clone)
    if not any(x is not None and x.is_meta for x in tensors):  # without numbers
        check_arrays(
            GraphArrays(*(None if x is None else x.numpy(force=True) for x in graph.arrays)),
            graph.borders and Borders(*(x.numpy(force=True) for x in graph.borders)),
        )
    return graph


def _between_processes(graph: Graph) -> tuple[Any, ...]:
    """Pickle a graph for another process of the program, such as a data loader, without checks."""
    return Graph, (graph.arrays, graph.borders)


ForkingPickler.register(Graph, _between_processes)


def collate(samples: Sequence[Any]) -> Any:
    """Make one sample of several, for `torch.utils.data.DataLoader`.

    Parameters
    ----------
    samples : sequence
        Graphs, tensors, numbers, or tuples, lists and dictionaries of these, all of one form.

    Returns
    -------
    object
        An object of the same form with the batch of the graphs (`Graph.batch`), tensors
        concatenated along their first axis, like rows of nodes and edges, a tensor (n_samples,) of
        numbers and tensors without axes, and lists of anything else.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import Graph, collate
    >>> sample = {"graph": Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3),
    ...           "x": torch.rand(3, 4), "y": 1.0}
    >>> batch = collate([sample, sample])
    >>> batch["graph"], batch["x"].shape, batch["y"]
    (Graph(n_src=6, n_dst=6, n_edges=4), torch.Size([6, 4]), tensor([1., 1.]))
    """
    if not samples:
        raise ValueError("collate: samples is empty, needs at least one")
    first = samples[0]
    for kind in (Graph | gnograd.graphs.graph.Graph, Tensor, int | float, Mapping, tuple | list):
        other = next((x for x in samples if isinstance(x, kind) != isinstance(first, kind)), first)
        if other is not first:
            raise TypeError(
                f"collate: samples are of types {type(first).__name__} and {type(other).__name__}, "
                "need one form"
            )
    if isinstance(first, Graph | gnograd.graphs.graph.Graph):
        return Graph.batch(samples)
    if isinstance(first, Tensor):
        shapes = {x.shape[1:] if x.dim() else None for x in samples}
        if len(shapes) > 1:
            shown = " and ".join(sorted({str(tuple(x.shape)) for x in samples}))
            raise ValueError(f"collate: tensors have shapes {shown}, which differ beyond the rows")
        return torch.cat(list(samples)) if first.dim() else torch.stack(list(samples))
    if isinstance(first, int | float | np.number):
        return torch.tensor(samples)
    if isinstance(first, Mapping):
        for sample in samples:
            if sample.keys() != first.keys():
                (name, *_) = first.keys() ^ sample.keys()
                raise ValueError(f"collate: only some of the samples have {name!r}")
        return {name: collate([sample[name] for sample in samples]) for name in first}
    if isinstance(first, tuple | list):
        if {len(sample) for sample in samples} != {len(first)}:
            raise ValueError("collate: samples are sequences of different lengths")
        parts = [collate(column) for column in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):  # a named tuple
            return type(first)(*parts)
        return type(first)(parts)
    return list(samples)


def arrays_of(graph: AnyGraph, device: torch.device | None = None) -> GraphArrays:
    """Arrays of a graph as tensors on a device."""
    if isinstance(graph, Graph):
        return graph.arrays if device is None else graph.to(device).arrays
    if graph.is_remote:
        return GraphArrays(*(_as_tensor(x, device) for x in graph.arrays))
    if torch.compiler.is_dynamo_compiling() and _is_exporting():
        raise NotImplementedError(
            "graph: torch.export with strict=True keeps no numbers of NumPy arrays; give "
            "gnograd.torch.Graph.of(graph), or strict=False"
        )
    arrays = GraphArrays(*(None if x is None else torch.from_numpy(x) for x in graph.arrays))
    if device is None or device.type == "cpu":
        return arrays
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return Graph(arrays).to(device).arrays  # not to be kept: there may be no numbers
    known = graph.mirrors.get(device)
    if known is None:
        known = graph.mirrors[device] = Graph(arrays).to(device)
    return known.arrays


# PyTorch 2.6 cannot tell
_is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


def _as_tensor(x: Any, device: torch.device | None) -> Any:
    return x if x is None or isinstance(x, Tensor) else torch.as_tensor(x, device=device)


def lend_tensors(arrays: GraphArrays) -> gnograd.graphs.graph.Graph:
    """Graph for kernels, in the memory of tensors."""
    for name, x in zip(arrays._fields, arrays, strict=True):
        dtype = torch.int32 if name.endswith("indices") else torch.int64
        if x is not None and (x.dtype is not dtype or not x.is_contiguous()):
            raise TypeError(f"graph: {name} is a tensor of {x.dtype}, needs contiguous {dtype}")
    if arrays.offsets.is_cuda:
        from gnograd.backends import cuda

        graph = gnograd.graphs.graph.remote(arrays)
        cuda.lend(graph)
        return graph
    return gnograd.graphs.graph.lend(
        GraphArrays(*(None if x is None else x.numpy() for x in arrays))
    )


def _check_edge_index(edge_index: Any) -> None:
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            f"Graph.from_edge_index: edge_index is of type {type(edge_index).__name__}, "
            "needs a tensor of int64"
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            f"Graph.from_edge_index: edge_index has shape {tuple(edge_index.shape)}, "
            "needs (2, n_edges)"
        )
    if edge_index.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"Graph.from_edge_index: edge_index is {edge_index.dtype}, needs int64 or int32"
        )


def _cat(arrays: list[Tensor]) -> Tensor:
    return torch.cat(arrays)


def _numbers(first: int, last: int, like: Tensor) -> Tensor:
    return torch.arange(first, last, dtype=like.dtype, device=like.device)


# ---- pytrees ----


def _flatten(graph: AnyGraph) -> tuple[list[Any], str | None]:
    """Arrays that are not None, and the names of the others: PyTorch takes None for a leaf."""
    keyed, absent = _flatten_with_keys(graph)
    return [x for _, x in keyed], absent


def _flatten_with_keys(graph: AnyGraph) -> tuple[list[tuple[Any, Any]], str | None]:
    if not isinstance(graph, Graph):
        graph = _in_tensors(graph)
    named = graph.arrays._asdict()
    if graph.borders is not None:
        named |= {f"border_{name}": x for name, x in graph.borders._asdict().items()}
    absent = " ".join(name for name, x in named.items() if x is None)
    return [(pytree.GetAttrKey(k), x) for k, x in named.items() if x is not None], absent or None


def _in_tensors(graph: gnograd.graphs.graph.Graph) -> Graph:
    """`Graph.of`, with numbers also while a program is recorded.

    `torch.export` puts attributes of a module into pytrees, and what comes of that into the module.
    """
    if torch.compiler.is_dynamo_compiling() or not torch._C._len_torch_dispatch_stack():
        return Graph.of(graph)
    with torch.utils._python_dispatch._disable_current_modes():
        return Graph.of(graph)


def _unflatten(leaves: Any, absent: str | None) -> Graph:
    given = iter(leaves)
    missing = (absent or "").split()
    arrays = [None if name in missing else next(given) for name in GraphArrays._fields]
    borders = list(given)
    return Graph(GraphArrays(*arrays), Borders(*borders) if borders else None)


for _kind, _name in ((Graph, "gnograd.torch.Graph"), (gnograd.graphs.graph.Graph, "gnograd.Graph")):
    pytree.register_pytree_node(
        _kind, _flatten, _unflatten, serialized_type_name=_name,
        flatten_with_keys_fn=_flatten_with_keys,
    )  # fmt: skip
# without Graph, whose constructor trusts its arrays
torch.serialization.add_safe_globals([_restored, GraphArrays, Borders])

# SPDX-License-Identifier: MIT
"""Graphs distributed over the devices of one program: padded parts, and exchange of halos.

Programs of JAX are the same on all devices, so all parts are padded to the size of the largest. The
messages of an exchange go in rounds, in each of which a device sends to at most one other and
receives from at most one. Ownership and messages are planned by `gnograd.distributed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike, NDArray

import gnograd.graphs.graph
from gnograd.distributed import graph as parted
from gnograd.distributed.threads import in_threads
from gnograd.jax.graph import Graph, words
from gnograd.notation.graph_arrays import GraphArrays, GraphSizes

__all__ = ["DistributedGraph", "halo"]

Pair = tuple[int, int]
"""Ranks of a sender and of its receiver."""


class _Leaves(NamedTuple):
    """Concatenated arrays of all devices; inside `jax.shard_map` those of this device."""

    local: Graph
    send_rows: Any
    """Own rows for every round, int32, (n_send,)."""
    halo_rows: Any
    """Position of each row of the halo among the received rows of all rounds; n_send for
    padding."""
    src_ids: Any
    """Global numbers of own sources, the number of all for padding, int32, (n_src,)."""
    dst_ids: Any
    edge_ids: Any


class _Layout(NamedTuple):
    """Static data of a distributed graph, for which a program is compiled."""

    sharding: NamedSharding
    axis: str
    rounds: tuple[tuple[Pair, ...], ...]
    ends: tuple[int, ...]
    """First row of every round in `_Leaves.send_rows`, and the end."""
    sizes: GraphSizes
    """Rows of a device: its own sources, destinations and edges, with padding."""
    n_halo: int
    whole: GraphSizes
    """Sizes of the whole graph."""


class DistributedGraph:
    """A graph over the devices of a mesh, for functions under `jax.shard_map`.

    Counterpart of `gnograd.DistributedGraph` for devices: these own destinations, and have all
    edges that end at them; sources that others own are a device's halo. Arrays are the concatenated
    rows of all devices, each padded to the largest; `spec` shards them, and the graph, so that
    inside `jax.shard_map` a device has its own rows. There the functions of `gnograd.jax` take it
    in place of a graph, with the rows that the device owns, and fetch those of the halo.

    Make one by `from_global`.

    Attributes
    ----------
    n_own, n_halo, n_src, n_dst, n_edges : int
        Rows of one device: of its own sources, of its halo, and as in `gnograd.DistributedGraph`,
        with padding.
    n_parts : int
        Number of devices.
    n_rounds : int
        Rounds of an exchange; at least the largest number of neighbours that one device sends to.

    Notes
    -----
    A pytree: an argument of `jax.jit` and `jax.shard_map`, which compile for its sizes and its
    pattern of messages. The plans are made on the host, which needs the whole graph.

    Rows and edges of padding change no other row, and derivatives with respect to them are 0; but a
    sum over all rows includes them: use `mask`.

    Examples
    --------
    >>> import jax, numpy as np
    >>> import gnograd as gg
    >>> import gnograd.jax as gj
    >>> mesh = jax.make_mesh((len(jax.devices()),), ("parts",))
    >>> ring = gg.Graph.from_edges(src=np.arange(6), dst=(np.arange(6) + 1) % 6)
    >>> owner = np.arange(6) * len(jax.devices()) // 6
    >>> dg = gj.DistributedGraph.from_global(ring, owner, mesh)
    >>> turned = jax.shard_map(
    ...     lambda h, dg: gj.agg_simple(h, graph=dg),
    ...     mesh=mesh, in_specs=(dg.spec, dg.spec), out_specs=dg.spec,
    ... )
    >>> h = dg.scatter(np.arange(6.0)[:, None])
    >>> dg.gather(jax.jit(turned)(h, dg)).ravel().tolist()
    [5.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    """

    __slots__ = ("_layout", "_leaves")

    def __init__(self, leaves: _Leaves, layout: _Layout) -> None:
        self._leaves, self._layout = leaves, layout

    @classmethod
    def from_global(
        cls,
        graph: gnograd.graphs.graph.Graph,
        owner: ArrayLike,
        mesh: Mesh,
        owner_src: ArrayLike | None = None,
        axis: str | None = None,
    ) -> DistributedGraph:
        """Distribute a graph over the devices of a mesh.

        Parameters
        ----------
        graph : gnograd.Graph
            The whole graph.
        owner : array of int, (n_dst,)
            Device, along the axis, that owns each destination.
        mesh : jax.sharding.Mesh
        owner_src : array of int, (n_src,), optional
            Device that owns each source, if sources are other nodes than destinations.
        axis : str, optional
            Axis of the mesh; needed if it has several.

        Raises
        ------
        TypeError, ValueError
            Arrays of another type or length; a device or an axis that does not exist.
        """
        doing = "DistributedGraph.from_global"
        names = mesh.axis_names
        if axis is None and len(names) == 1:
            (axis,) = names
        if axis is None or axis not in names:
            raise ValueError(f"{doing}: axis is {axis!r}, needs one of {', '.join(names)}")
        sharding = NamedSharding(mesh, PartitionSpec(axis))
        parts = in_threads(
            mesh.shape[axis],
            lambda comm: parted.DistributedGraph.from_global(graph, owner, comm, owner_src),
        )
        return _padded(parts, graph.sizes, sharding, axis)

    # ---- properties ----

    @property
    def spec(self) -> PartitionSpec:
        """Specification with which `jax.shard_map` divides the graph and arrays of all devices."""
        return self._layout.sharding.spec

    @property
    def local(self) -> Graph:
        """The edges of this device, from the rows of ``halo(h)`` to its destinations.

        Raises
        ------
        ValueError
            This is not inside `jax.shard_map`: arrays are those of all devices.
        """
        leaves = self._inside("local")
        return leaves.local

    @property
    def n_parts(self) -> int:
        """Number of devices."""
        size: int = self._layout.sharding.mesh.shape[self._layout.axis]
        return size

    @property
    def n_rounds(self) -> int:
        """Number of rounds of an exchange."""
        return len(self._layout.rounds)

    @property
    def n_own(self) -> int:
        """Rows of the sources that a device owns."""
        return self._layout.sizes.n_src

    @property
    def n_src(self) -> int:
        """Rows of the sources that a device owns, as `n_own`."""
        return self._layout.sizes.n_src

    @property
    def n_halo(self) -> int:
        """Rows of the halo: sources that a device gets from others."""
        return self._layout.n_halo

    @property
    def n_dst(self) -> int:
        """Rows of the destinations that a device owns."""
        return self._layout.sizes.n_dst

    @property
    def n_edges(self) -> int:
        """Rows of the edges that end at the destinations of a device."""
        return self._layout.sizes.n_edges

    def __repr__(self) -> str:
        return (
            f"DistributedGraph({self.n_parts} parts in {self.n_rounds} rounds: "
            f"n_own={self.n_own}, n_halo={self.n_halo}, n_dst={self.n_dst}, "
            f"n_edges={self.n_edges})"
        )

    # ---- arrays of the whole graph, and of its parts ----

    def scatter(self, array: ArrayLike, rows: str = "src") -> jax.Array:
        """Move every row of the whole graph to its owner, and zeros to padding.

        Parameters
        ----------
        array : array, (n, ...)
            Rows in the order of the whole graph.
        rows : {"src", "dst", "edges"}
            Kind of its rows.

        Returns
        -------
        jax.Array, (n_parts * n_src, ...), or of `n_dst` or `n_edges`
            Differentiable, as `gather` is.
        """
        ids, n = self._ids("scatter", rows)
        values = jnp.asarray(array)
        if values.ndim == 0 or values.shape[0] != n:
            raise ValueError(
                f"DistributedGraph.scatter: array has shape {values.shape}, needs {n} rows"
            )
        found = jnp.take(self._on_all(values), self._on_all(ids), 0, mode="fill", fill_value=0)
        return jax.device_put(found, self._layout.sharding)

    def gather(self, array: jax.Array, rows: str = "src") -> jax.Array:
        """Undo `scatter`: an array in the order of the whole graph, (n, ...)."""
        ids, n = self._ids("gather", rows)
        if array.ndim == 0 or array.shape[0] != ids.shape[0]:
            raise ValueError(
                f"DistributedGraph.gather: array has shape {array.shape}, needs {ids.shape[0]} rows"
            )
        places = jnp.argsort(self._on_all(ids))[:n]  # the numbers of padding are the largest
        return jnp.take(self._on_all(array), places, 0, mode="clip")

    def mask(self, rows: str = "src") -> jax.Array:
        """True for every row that is not padding, bool; inside `jax.shard_map` and outside.

        Parameters
        ----------
        rows : {"src", "dst", "edges"}
            Kind of the rows.
        """
        ids, n = self._ids("mask", rows, anywhere=True)
        return ids < n

    def _on_all(self, array: jax.Array) -> jax.Array:
        """Replicate an array on every device."""
        sharding = self._layout.sharding
        return jax.device_put(array, NamedSharding(sharding.mesh, PartitionSpec()))

    def _ids(self, method: str, rows: str, anywhere: bool = False) -> tuple[jax.Array, int]:
        """Global numbers of rows of one kind, and the number of padding."""
        kinds = "src", "dst", "edges"
        if rows not in kinds:
            raise ValueError(
                f"DistributedGraph.{method}: rows is {rows!r}, needs one of {', '.join(kinds)}"
            )
        if not anywhere and self._is_inside():
            raise ValueError(
                f"DistributedGraph.{method} is for arrays of all devices, outside of jax.shard_map"
            )
        k, leaves = kinds.index(rows), self._leaves
        ids: jax.Array = (leaves.src_ids, leaves.dst_ids, leaves.edge_ids)[k]
        return ids, self._layout.whole[k]

    def _is_inside(self) -> bool:
        """True if this is the part of one device, inside `jax.shard_map`."""
        n = self._leaves.local.arrays.src_offsets.shape[0]
        return self.n_parts > 1 and n == self.n_own + self.n_halo + 1

    def _inside(self, doing: str) -> _Leaves:
        if self.n_parts > 1 and not self._is_inside():
            raise ValueError(
                f"DistributedGraph: {doing} needs the part of one device: shard the graph by "
                "its spec in jax.shard_map"
            )
        return self._leaves

    # ---- the exchange ----

    def extended(self, h: jax.Array, axis: int = 0) -> jax.Array:
        """Own rows, followed by those of the halo, along an axis; see `halo`."""
        leaves, layout = self._inside("halo"), self._layout
        if not layout.n_halo:
            return h
        sent = jnp.take(h, leaves.send_rows, axis, mode="clip")
        come = [
            jax.lax.ppermute(jax.lax.slice_in_dim(sent, a, b, axis=axis), layout.axis, pairs)
            for pairs, a, b in zip(layout.rounds, layout.ends, layout.ends[1:], strict=False)
        ]
        every = jnp.concatenate(come, axis)
        rows = jnp.take(every, leaves.halo_rows, axis, mode="fill", fill_value=0)
        return jnp.concatenate([h, rows], axis)


def halo(h_own: jax.Array, *, graph: DistributedGraph) -> jax.Array:
    """Rows of the nodes that this device owns, followed by those of its halo.

    `gnograd.halo`, for functions under `jax.shard_map`. Linear, and differentiable any number of
    times by JAX's own rules.

    Parameters
    ----------
    h_own : jax.Array, (n_own, ...)
        Features of the nodes that this device owns.
    graph : DistributedGraph

    Returns
    -------
    h_ext : jax.Array, (n_own + n_halo, ...)
        Features for ``graph.local``.

    Raises
    ------
    TypeError, ValueError
        Not a distributed graph, or one outside `jax.shard_map`; features of another shape.

    Examples
    --------
    >>> import jax, numpy as np
    >>> import gnograd as gg
    >>> import gnograd.jax as gj
    >>> mesh = jax.make_mesh((1,), ("parts",))
    >>> pair = gg.Graph([0, 1, 2], [1, 0])
    >>> dg = gj.DistributedGraph.from_global(pair, [0, 0], mesh)
    >>> swapped = jax.shard_map(
    ...     lambda h, dg: gj.agg_simple(gj.halo(h, graph=dg), graph=dg.local),
    ...     mesh=mesh, in_specs=(dg.spec, dg.spec), out_specs=dg.spec,
    ... )
    >>> dg.gather(swapped(dg.scatter(np.array([[1.0], [2.0]])), dg)).tolist()
    [[2.0], [1.0]]
    """
    if not isinstance(graph, DistributedGraph):
        raise TypeError(
            f"halo: graph is of type {type(graph).__name__}, needs a gnograd.jax.DistributedGraph"
        )
    shape = jnp.shape(h_own)
    if not shape or shape[0] != graph.n_own:
        raise ValueError(f"halo: h_own has shape {shape}, needs {graph.n_own} rows")
    return graph.extended(h_own)


# ---- padding of parts ----


def _padded(
    parts: Sequence[parted.DistributedGraph],
    whole: GraphSizes,
    sharding: NamedSharding,
    axis: str,
) -> DistributedGraph:
    if max(whole) > np.iinfo(np.int32).max:
        raise ValueError(
            f"DistributedGraph.from_global: the graph has {max(whole)} edges, needs 2**31 - 1 or "
            "less"
        )
    sizes = GraphSizes(*(max(column) for column in zip(*(p.sizes for p in parts), strict=True)))
    n_halo = max(part.n_halo for part in parts)
    lengths = {
        (rank, receiver): b - a
        for rank, part in enumerate(parts)
        for receiver, a, b in _messages(part, part.plan.send_ends)
    }
    rounds = _rounds(lengths)
    widths = [max(lengths[pair] for pair in pairs) for pairs in rounds]
    ends = (0, *np.cumsum(widths, dtype=int).tolist())
    at = {pair: end for pairs, end in zip(rounds, ends, strict=False) for pair in pairs}
    layout = _Layout(sharding, axis, rounds, ends, sizes, n_halo, whole)

    def put(columns: Iterable[Any]) -> Any:
        rows = list(columns)
        return None if rows[0] is None else jax.device_put(np.concatenate(rows), sharding)

    graphs = [_graph(part, sizes, n_halo).arrays for part in parts]
    arrays = [put(map(words, column)) for column in zip(*graphs, strict=True)]
    return DistributedGraph(
        _Leaves(
            Graph(GraphArrays(*arrays)),
            put(_send_rows(rank, part, at, ends[-1]) for rank, part in enumerate(parts)),
            put(_halo_rows(rank, part, at, ends[-1], n_halo) for rank, part in enumerate(parts)),
            put(_longer(part.owned, sizes.n_src, whole.n_src) for part in parts),
            put(_longer(part.owned_dst, sizes.n_dst, whole.n_dst) for part in parts),
            put(_longer(part.edges, sizes.n_edges, whole.n_edges) for part in parts),
        ),
        layout,
    )


def _graph(
    part: parted.DistributedGraph, sizes: GraphSizes, n_halo: int
) -> gnograd.graphs.graph.Graph:
    """The local graph of a part, with room for more rows of every kind."""
    local, more = part.local, sizes.n_src - part.n_own
    offsets = np.pad(local.offsets, (0, sizes.n_dst - part.n_dst), mode="edge")
    indices = np.where(local.indices < part.n_own, local.indices, local.indices + more)
    padded = gnograd.graphs.graph.Graph(offsets, indices, n_src=sizes.n_src + n_halo)
    return padded.pad(sizes.n_edges)


def _messages(part: parted.DistributedGraph, ends: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbours that rows go to, or come from, with the first row of each message and its end."""
    every = zip(part.neighbours, ends, ends[1:], strict=False)
    return [(rank, a, b) for rank, a, b in every if b > a]


def _rounds(lengths: Mapping[Pair, int]) -> tuple[tuple[Pair, ...], ...]:
    """Assign messages to rounds, in which no device sends two or receives two.

    An edge colouring of a bipartite graph by the greedy rule, the longest messages first, so that
    those of a round, which are padded to its longest, have similar lengths.
    """
    rounds: list[dict[int, int]] = []
    for sender, receiver in sorted(lengths, key=lambda pair: (-lengths[pair], pair)):
        free = (r for r in rounds if sender not in r and receiver not in r.values())
        mine = next(free, None)
        if mine is None:
            mine = {}
            rounds.append(mine)
        mine[sender] = receiver
    return tuple(tuple(sorted(r.items())) for r in rounds)


def _send_rows(
    rank: int, part: parted.DistributedGraph, at: Mapping[Pair, int], n_send: int
) -> NDArray[np.int32]:
    rows = np.zeros(n_send, np.int32)
    for receiver, a, b in _messages(part, part.plan.send_ends):
        first = at[rank, receiver]
        rows[first : first + b - a] = part.plan.send_rows[a:b]
    return rows


def _halo_rows(
    rank: int, part: parted.DistributedGraph, at: Mapping[Pair, int], n_send: int, n_halo: int
) -> NDArray[np.int32]:
    rows = np.full(n_halo, n_send, np.int32)
    for sender, a, b in _messages(part, part.plan.receive_ends):
        rows[a:b] = at[sender, rank] + np.arange(b - a)
    return rows


def _longer(ids: NDArray[np.int64], n: int, padding: int) -> NDArray[np.int32]:
    rows = np.full(n, padding, np.int32)
    rows[: ids.size] = ids
    return rows


# ---- as a pytree ----

jax.tree_util.register_pytree_node(
    DistributedGraph,
    lambda graph: (graph._leaves, graph._layout),
    lambda layout, leaves: DistributedGraph(_Leaves(*leaves), layout),
)

# SPDX-License-Identifier: MIT
"""Graphs of near points that are distributed over processes.

A process sends the others the boxes that contain its points, and gets from them exactly the points
that are within the radius of these boxes, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.distributed.communicator import Communicator
from gnograd.distributed.engines import communicator
from gnograd.distributed.partition import partition
from gnograd.distributed.plan import Ids
from gnograd.neighbors import cpu as neighbors_cpu
from gnograd.neighbors.arguments import Search, Wanted
from gnograd.notation.keywords import named_now

__all__ = ["FromPoints"]

G = TypeVar("G", bound="FromPoints")

_BOXES = 32
"""Number of boxes around the points of a process, most of which are small compared with the
whole."""


class FromPoints:
    """Constructor of graphs from points; base of `DistributedGraph`."""

    __slots__ = ()

    if TYPE_CHECKING:  # attributes of `DistributedGraph`

        @classmethod
        def _of_blocks(
            cls: type[G],
            comm: Communicator,
            doing: str,
            offsets: Ids,
            sources: Ids,
            first: Ids,
            first_src: Ids | None = None,
        ) -> G:
            """Graph of nodes that are numbered process by process."""

    @overload
    @classmethod
    def radius(
        cls: type[G],
        x_own: Any,
        radius: float,
        comm: Any = None,
        *,
        x_dst: Any = None,
        include_self: bool = True,
        period: ArrayLike | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G: ...
    @overload
    @classmethod
    def radius(
        cls: type[G],
        x_own: Any,
        radius: Sequence[float],
        comm: Any = None,
        *,
        x_dst: Any = None,
        include_self: bool = True,
        period: ArrayLike | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> list[G]: ...
    @classmethod
    @named_now("x_dst", "include_self", "period")
    def radius(
        cls: type[G],
        x_own: Any,
        radius: float | Sequence[float],
        comm: Any = None,
        *,
        x_dst: Any = None,
        include_self: bool = True,
        period: ArrayLike | None = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G | list[G]:
        """Graph of all pairs of points at most `radius` apart, each process having some points.

        The edges are those of `Graph.radius` for the points of all processes, of rank 0 first, then
        of rank 1: these are their global numbers. A process gets from others only the points within
        the radius of its own, or of one of some boxes around these.

        Parameters
        ----------
        x_own : array of float, (n_own, d)
            Coordinates of this process' sources, which are its destinations as well. Points that
            are near each other should be on the same process, as `partition` distributes them.
        radius : float or list of float
            Largest Euclidean distance, inclusive. For a list, points are sent once, for the
            largest.
        comm : optional
            As for `communicator`.
        x_dst : array of float, (n_dst, d), optional
            Coordinates of this process's destinations, where these are other points: on all
            processes or on none.
        include_self, period, max_neighbors, choose, seed
            As for `Graph.radius`, and the same on all processes. Random choices are by the global
            numbers, so that they do not depend on how many processes there are.

        Returns
        -------
        DistributedGraph or list of DistributedGraph
            One graph for each radius of a list. Its rows are in an order of their own:
            ``x_own[dg.order]`` are the coordinates of its points; with `x_dst`, this is the order
            of destinations, and sources keep theirs.

        Raises
        ------
        ValueError, TypeError
            As for `Graph.radius`, on all processes.
        RuntimeError
            Arguments differ between processes.

        See Also
        --------
        partition, redistribute : bring points to processes.
        Graph.radius : the same on one process.

        Notes
        -----
        Every process sends the others some boxes that contain its destinations, and sends to each
        the sources within the radius of its boxes; with an infinite radius these are all. Then it
        searches its own and the received points, by the formula of `neighbors`, and requests the
        rows that are sources of its edges.

        There is no argument for a batch: give points of several items one more coordinate, the
        number of the item times more than `radius`, which changes no distance within an item.

        Examples
        --------
        >>> import numpy as np
        >>> import gnograd as gg
        >>> dg = gg.DistributedGraph.radius(np.array([[0.0], [1.0], [3.0]]), 1.5)
        >>> dg.local.src, dg.local.dst
        (array([0, 1, 0, 1, 2], dtype=int32), array([0, 0, 1, 1, 2], dtype=int32))
        """
        doing = "DistributedGraph.radius"
        comm = communicator(comm)
        with comm.together(doing):
            wanted = Wanted.of(doing, radius, max_neighbors, choose, seed)
            search = Search.of(
                doing, _on_host(x_own), _on_host(x_dst), include_self, period,
                names=("x_own", "x_dst"),
            )  # fmt: skip
            src = _inside(search, "x_own", search.sources)
            dst = src if x_dst is None else _inside(search, "x_dst", search.destinations)
        box, most = search.box.tolist(), wanted.most
        kind = "points" if x_dst is None else "sources and destinations"
        comm.agree(
            f"{doing}({kind} with {len(box)} coordinates, radius={wanted.radii}, period={box}, "
            f"include_self={include_self}, max_neighbors={most}, choose={choose}, seed={seed})"
        )

        first_src, first = _first_numbers(comm, len(src)), _first_numbers(comm, len(dst))
        largest = max(wanted.radii)
        with comm.together(doing):
            parts = _parts(src)
            around = _boxes(src, parts)
            told = around if x_dst is None else _boxes(dst, _parts(dst))
        theirs = _all_boxes(comm, told)
        with comm.together(doing):
            messages = _messages(src, parts, around, theirs, search.box, largest)
        received = comm.swap(messages)
        with comm.together(doing):
            sources, numbers = _candidates(received, src, comm.rank, first_src)
            search = search._replace(
                sources=sources, destinations=dst, own=None if include_self else
                int(np.searchsorted(numbers, first_src[comm.rank])),
                items=[np.array([0, len(sources)]), np.array([0, len(dst)])],
            )  # fmt: skip
            edges = _search(search, wanted, numbers, int(first[comm.rank]))
        others = None if x_dst is None else first_src
        made = [cls._of_blocks(comm, doing, *each, first, others) for each in edges]
        return made if isinstance(radius, list | tuple) else made[0]


def _first_numbers(comm: Communicator, n: int) -> Ids:
    """Number of the first point of every process, and the number of all points."""
    return np.concatenate([[0], np.cumsum(comm.all_gather(np.array([n]))[:, 0])])


def _on_host(points: Any) -> Any:
    """Points in the memory of the CPU, where the graph is made."""
    if not hasattr(points, "__cuda_array_interface__"):
        return points
    return points.get() if hasattr(points, "get") else points.detach().cpu().numpy()


def _inside(search: Search, name: str, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points moved into the periodic box."""
    if not np.isfinite(points).all():
        raise ValueError(f"{search.operator}: {name} has entries that are not finite")
    return np.ascontiguousarray(_wrapped(points, search.box))


def _wrapped(points: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """The image of every point with coordinates in 0 <= x < box along periodic axes."""
    axes = box > 0
    if not axes.any():
        return points
    inside = points.copy()
    inside[:, axes] %= box[axes]
    # a tiny negative number rounds to the period itself
    inside[:, axes] = np.where(inside[:, axes] < box[axes], inside[:, axes], 0)
    return inside


def _search(search: Search, wanted: Wanted, numbers: Ids, first: int) -> list[tuple[Ids, Ids]]:
    """Offsets of the edges, and sources by their global numbers, in ascending order.

    Candidates are in that order, too, so that among equals the same ones are chosen as on one
    process; random choices use the global numbers.
    """
    radii, most, seed = wanted
    found = neighbors_cpu.within(search, radii, most if seed is None else None, None)
    edges = []
    for offsets, indices in found:
        sources = numbers[indices]
        if most is not None and seed is not None:
            i = np.repeat(first + np.arange(len(offsets) - 1), np.diff(offsets))
            kept = _chosen(i, sources, most, seed)
            offsets = np.concatenate([[0], np.cumsum(kept)])[offsets]
            sources = sources[kept]
        edges.append((offsets, sources))
    return edges


def _chosen(i: NDArray[np.int64], j: NDArray[np.int64], most: int, seed: int) -> NDArray[np.bool_]:
    """Mask of the pairs with the smallest hashes of (seed, i, j) for every destination i."""
    order = np.lexsort((_hash(seed, i, j), i))
    rows = i[order]
    first = np.searchsorted(rows, rows)
    kept = np.zeros(len(i), bool)
    kept[order] = np.arange(len(i)) - first < most
    return kept


def _hash(seed: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Number j of the SplitMix64 sequence that starts from number i of that of the seed.

    One sequence has no number twice, so that two sources of a destination never have the same.
    """
    return _split_mix(_split_mix(np.uint64(seed), i), j)


def _split_mix(
    seed: NDArray[np.uint64] | np.uint64, number: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """SplitMix64, as in fortran/core/split_mix.h, which names the source."""
    with np.errstate(over="ignore"):
        z = seed + (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


# ---- points that others need ----


def _messages(
    points: NDArray[np.float64],
    parts: list[Ids],
    around: NDArray[np.float64],
    theirs: list[NDArray[np.float64]],
    period: NDArray[np.float64],
    radius: float,
) -> list[Ids]:
    """Numbers and coordinates of own points within the radius of each process's boxes.

    Parameters
    ----------
    points : array, (n, d)
    parts : list of array
        Rows of points in each own box.
    around : array, (n_boxes, 2, d)
        Own boxes.
    theirs : list of array, (n_boxes, 2, d)
        Boxes of every process; none of this one.
    period : array, (d,)
    radius : float
    """
    messages = []
    for boxes in theirs:
        rows = [np.empty(0, np.int64)]
        for part, near in zip(
            parts, _squares(around, boxes, period) <= radius * radius, strict=True
        ):
            if near.any():
                inside = np.stack([points[part]] * 2, axis=1)
                squares = _squares(inside, boxes[near], period)
                rows.append(part[(squares <= radius * radius).any(axis=1)])
        row = np.sort(np.concatenate(rows))
        messages.append(np.column_stack([row, points[row].view(np.int64)]).reshape(-1))
    return messages


def _candidates(
    received: list[NDArray[np.int64]],
    own: NDArray[np.float64],
    rank: int,
    first: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Own and received points in the order of their global numbers, and these numbers."""
    points, numbers = [], []
    for other, message in enumerate(received):
        table = message.reshape(-1, 1 + own.shape[1])
        mine = other == rank
        points.append(own if mine else np.ascontiguousarray(table[:, 1:]).view(np.float64))
        numbers.append(first[other] + (np.arange(len(own)) if mine else table[:, 0]))
    return np.concatenate(points), np.concatenate(numbers)


def _parts(points: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Rows of points in small boxes, ascending."""
    part = partition(points, _BOXES)
    order = np.argsort(part, kind="stable")
    rows = np.split(order, np.searchsorted(part[order], np.arange(1, _BOXES)))
    return [each for each in rows if each.size]


def _boxes(points: NDArray[np.float64], parts: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Least and largest coordinates in each part, (n_parts, 2, d)."""
    sides = [(points[rows].min(axis=0), points[rows].max(axis=0)) for rows in parts]
    return np.array(sides).reshape(len(parts), 2, points.shape[1])


def _all_boxes(comm: Communicator, mine: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Boxes of the other processes; none of this one."""
    padded = np.full((_BOXES, *mine.shape[1:]), np.nan)
    padded[: len(mine)] = mine
    every = comm.all_gather(padded.reshape(-1)).reshape(-1, *padded.shape)
    every[comm.rank] = np.nan
    return [boxes[~np.isnan(boxes[:, 0, 0])] for boxes in every]


def _squares(
    boxes: NDArray[np.float64], others: NDArray[np.float64], period: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Squares of the least distances between points of boxes, (n_boxes, n_others).

    Rounding keeps the order of numbers, and so does every operation here: no two points of the
    boxes have a smaller square by the formula of `neighbors`.
    """
    squares = np.zeros((len(boxes), len(others)))
    with np.errstate(over="ignore"):
        for a, length in enumerate(period):
            least = others[:, 0, a] - boxes[:, 1, a, None]
            most = others[:, 1, a] - boxes[:, 0, a, None]
            gap = np.minimum(*(_to_image(offset, length) for offset in (least, most)))
            gap[(least <= 0) & (most >= 0)] = 0
            squares += gap * gap
    return squares


def _to_image(offset: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """Offset to the nearest image along an axis; on one side of 0, least at an end."""
    distance = np.abs(offset)
    return np.where(distance > 0.5 * length, length - distance, distance) if length else distance

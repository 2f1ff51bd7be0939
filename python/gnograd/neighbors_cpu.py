# SPDX-License-Identifier: MIT
"""Near points on the CPU: scipy's k-d tree finds candidates, the formula in float64 decides.

The tree adds and subtracts to leave nodes out, so that what it says of points at the radius, or at
equal distances, depends on rounding. Wherever that could matter, it is asked for a little more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnograd.neighbors_arguments import Search
from gnograd.runtime import get_num_threads

__all__ = ["chosen", "nearest", "within", "wrapped"]

_Neighbors: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int32]]"
_DOUBT = 1e-9
"""Distances that differ by less, relatively, are compared by the formula."""
_TINY = 1e-150
"""Nor are distances told apart whose squares are smaller than all normal numbers."""
_CANDIDATES = 2**22
"""Candidates of so many are looked at together."""


class _Points(NamedTuple):
    """What is searched."""

    sources: NDArray[np.float64]
    """(n_src, d), inside the box."""
    destinations: NDArray[np.float64]
    """(n_dst, d), inside the box."""
    box: NDArray[np.float64]
    """Its lengths, 0 along open axes, (d,)."""
    items: Sequence[NDArray[np.int64]]
    """First source of every item, and first destination, (n_items + 1,) each."""
    own: int | None
    """Where points are no neighbours of themselves: the source that is destination 0."""

    @property
    def parts(self) -> Iterator[tuple[_Points, int, int]]:
        """Every item by itself, and its first source and destination."""
        for first, end, row, row_end in zip(
            self.items[0][:-1], self.items[0][1:], self.items[1][:-1], self.items[1][1:],
            strict=True,
        ):  # fmt: skip
            if first < end and row < row_end:
                part = self.sources[first:end], self.destinations[row:row_end]
                own = None if self.own is None else int(self.own + row - first)
                yield _Points(*part, self.box, (), own), first, row


class _Pairs(NamedTuple):
    """Destinations and their sources, ordered by destination."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]

    def where(self, kept: NDArray[Any]) -> _Pairs:
        """Some of them, by a mask, or all in another order."""
        return _Pairs(self.i[kept], self.j[kept])


def within(
    search: Search, radii: Sequence[float], most: int | None, seed: int | None
) -> list[_Neighbors]:
    """Offsets and indices of the sources within every radius, ascending.

    At most so many of them for a destination: those that a seed chooses, or the nearest ones.
    """
    points, radius = _points(search), max(radii)
    if most is not None and seed is None:
        pairs = _each(points, _nearest, most, radius)
        pairs = pairs.where(np.lexsort((pairs.j, pairs.i)))
    else:
        pairs = _each(points, _within, radius)
    squares = np.empty(0)
    if len(radii) > 1:
        squares = _squares(points.destinations[pairs.i], points.sources[pairs.j], points.box)
    found = []
    for r in radii:
        near = pairs if r == radius else pairs.where(squares <= r * r)
        if most is not None and seed is not None:
            near = near.where(chosen(near.i, near.j, most, seed))
        found.append(_by_destination(near, points))
    return found


def nearest(search: Search, k: int) -> _Neighbors:
    """Offsets and indices of the k nearest sources, nearest first, by number where equal."""
    points = _points(search)
    return _by_destination(_each(points, _nearest, k, np.inf), points)


def _points(search: Search) -> _Points:
    inside = []
    for name in "sources", "destinations":
        coordinates = getattr(search, name)
        if not np.isfinite(coordinates).all():
            raise ValueError(f"{search.operator}: {name} has entries that are not finite")
        inside.append(wrapped(coordinates, search.box))
    return _Points(inside[0], inside[1], search.box, search.items, search.own)


def _by_destination(pairs: _Pairs, points: _Points) -> _Neighbors:
    counts = np.bincount(pairs.i, minlength=len(points.destinations))
    return np.concatenate([[0], np.cumsum(counts)]), pairs.j.astype(np.int32)


def _each(points: _Points, find: Callable[..., _Pairs], *arguments: Any) -> _Pairs:
    """What is found in each item."""
    return _joined([find(part, *at, *arguments) for part, *at in points.parts])


def chosen(i: NDArray[np.int64], j: NDArray[np.int64], most: int, seed: int) -> NDArray[np.bool_]:
    """Which pairs are those of every destination i whose hashes of (seed, i, j) are smallest."""
    order = np.lexsort((_hash(seed, i, j), i))
    rows = i[order]
    first = np.searchsorted(rows, rows)
    kept = np.zeros(len(i), bool)
    kept[order] = np.arange(len(i)) - first < most
    return kept


def _hash(seed: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Number j of the sequence that SplitMix64 makes of number i of that of the seed.

    One sequence has no number twice, so that two sources of a destination never have the same.
    """
    return _split_mix(_split_mix(np.uint64(seed), i), j)


def _split_mix(
    seed: NDArray[np.uint64] | np.uint64, number: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """As in fortran/core/split_mix.h, which names the source."""
    with np.errstate(over="ignore"):
        z = seed + (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _squares(
    x: NDArray[np.float64], y: NDArray[np.float64], box: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Squared distances to the nearest image, summed in the order of the axes.

    The other axes of the two are broadcast.
    """
    squares = np.zeros(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]))
    with np.errstate(over="ignore"):
        for a, length in enumerate(box):
            offset = x[..., a] - y[..., a]
            if length > 0:
                offset = np.where(offset < -0.5 * length, length + offset, offset)
                offset = np.where(offset > 0.5 * length, offset - length, offset)
            squares += offset * offset
    return squares


def wrapped(points: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """The image of every point with coordinates in 0 <= x < box along periodic axes."""
    axes = box > 0
    if not axes.any():
        return points
    inside = points.copy()
    inside[:, axes] %= box[axes]
    # a tiny negative number becomes the period itself
    inside[:, axes] = np.where(inside[:, axes] < box[axes], inside[:, axes], 0)
    return inside


def _joined(parts: Sequence[_Pairs]) -> _Pairs:
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, np.int64), np.empty(0, np.int64)
    return _Pairs(*map(np.concatenate, zip(none, *parts, strict=True)))


def _within(points: _Points, first: int, row: int, radius: float) -> _Pairs:
    from scipy.spatial import cKDTree

    sources, destinations, box, _, own = points
    boxsize = box if box.any() else None
    found = cKDTree(destinations, boxsize=boxsize).sparse_distance_matrix(
        cKDTree(sources, boxsize=boxsize), radius * (1 + _DOUBT) + _TINY, output_type="ndarray"
    )
    n = len(sources)
    pairs = found["i"] * n + found["j"]
    pairs.sort()
    i, j = np.divmod(pairs, n)
    squares = _squares(destinations[i], sources[j], box)
    near = squares <= radius * radius
    if own is not None:
        near &= j != i + own
    return _Pairs(i[near] + row, j[near] + first)


# ---- nearest ----


def _nearest(points: _Points, first: int, row: int, k: int, radius: float) -> _Pairs:
    """By the tree, again and again for more candidates where the k-th one has its equals."""
    from scipy.spatial import cKDTree

    sources, destinations, box, _, own = points
    if k == 0:
        return _joined([])
    tree = cKDTree(sources, boxsize=box if box.any() else None)
    reach = radius * (1 + _DOUBT) + _TINY
    needed = k + (own is not None)
    rows, asked = np.arange(len(destinations)), needed + 1
    parts = []
    while rows.size:
        everything = asked >= len(sources)
        step = max(1, _CANDIDATES // min(asked, len(sources)))
        doubtful = []
        for some in (rows[at : at + step] for at in range(0, len(rows), step)):
            if everything:
                candidates = np.broadcast_to(np.arange(len(sources)), (len(some), len(sources)))
                parts.append(_first(points, k, radius, some, candidates))
                continue
            distances, candidates = tree.query(
                destinations[some], asked, distance_upper_bound=reach, workers=get_num_threads()
            )
            further = distances[:, 1:] > distances[:, :-1] * (1 + _DOUBT) + _TINY
            kth = distances[:, needed - 1]
            sure = distances[:, -1] > kth * (1 + _DOUBT) + _TINY
            if reach < 1 / _TINY:  # else the squares of some may be too large
                sure |= np.isinf(distances[:, -1])
            # where the tree is right about the order, there is nothing to compute
            clear = further.all(axis=1) & np.isinf(radius)
            parts.append(_counted(points, k, some[clear], candidates[clear]))
            unclear = sure & ~clear
            parts.append(_first(points, k, radius, some[unclear], candidates[unclear]))
            doubtful.append(some[~sure])
        rows, asked = np.concatenate([rows[:0], *doubtful]), 2 * asked + 16
    i, j = _joined(parts)
    order = np.argsort(i, kind="stable") if (i[1:] < i[:-1]).any() else slice(None)
    return _Pairs(i[order] + row, j[order] + first)


def _first(
    points: _Points, k: int, radius: float, rows: NDArray[np.int64], candidates: NDArray[np.int64]
) -> _Pairs:
    """The k first of every row's candidates, by the formula; none is number n_src."""
    sources, destinations, box, _, _ = points
    there = candidates < len(sources)
    j = np.where(there, candidates, 0)
    squares = _squares(destinations[rows][:, None], sources[j], box)
    ahead, behind = squares[:, :-1], squares[:, 1:]
    ordered = (ahead < behind) | ((ahead == behind) & (j[:, :-1] < j[:, 1:])) | ~there[:, 1:]
    if not ordered.all():
        order = np.lexsort((j, np.where(there, squares, np.inf), ~there), axis=-1)
        j, squares, there = (np.take_along_axis(x, order, 1) for x in (j, squares, there))
    return _counted(points, k, rows, j, there & (squares <= radius * radius))


def _counted(
    points: _Points,
    k: int,
    rows: NDArray[np.int64],
    j: NDArray[np.int64],
    counts: NDArray[np.bool_] | None = None,
) -> _Pairs:
    """The k first of every row, of those that count and are not the point itself."""
    if points.own is None:
        j = j[:, :k]
        i = np.broadcast_to(rows[:, None], j.shape)
        return _Pairs(i.ravel(), j.ravel()) if counts is None else _Pairs(i, j).where(counts[:, :k])
    others = j != rows[:, None] + points.own
    if counts is not None:
        others &= counts
    others &= np.cumsum(others, axis=1) <= k
    return _Pairs(np.broadcast_to(rows[:, None], j.shape), j).where(others)

# SPDX-License-Identifier: MIT
"""Near points on GPUs: a hash table of cells for a radius, a tree of boxes for the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

from gnograd.backends import backend_of, cpu
from gnograd.neighbors.arguments import Search

__all__ = ["MOST_AXES", "check_kind", "gpu_backend", "nearest", "within"]

MOST_AXES = 3
"""Coordinates of points on a GPU."""

_ROOM, _ROOM_OF_ALL = 64, 1 << 27
"""Neighbours of a destination that a search keeps, and of all; longer rows are searched again."""

_Neighbors: TypeAlias = "tuple[Any, Any]"


def within(
    search: Search, radii: Sequence[float], most: int | None, seed: int | None
) -> list[_Neighbors]:
    """Offsets and indices of the sources within every radius, ascending.

    At most `most` of them for a destination: those that `seed` chooses, or the nearest ones.
    """
    kernels = _Kernels(search)
    if most is not None and seed is not None:
        return [kernels.within(radius, most, seed) for radius in radii]
    radius = max(radii)
    if most is None:
        found = kernels.within(radius)
    else:
        found = kernels.nearest(most, radius, ascending=True)
    return [found if r == radius else kernels.nearer(r, *found) for r in radii]


def nearest(search: Search, k: int) -> _Neighbors:
    """Offsets and indices of the k nearest sources, nearest first, by number where equal."""
    return _Kernels(search).nearest(k, float("inf"), ascending=False)


class _Kernels:
    """The kernels, and their arguments for one search."""

    def __init__(self, search: Search) -> None:
        operator = search.operator
        self.operator = operator
        self.backend = backend = gpu_backend(operator, search.sources)
        points = search.sources, search.destinations
        ((self.n_src, self.d), self.dtype), ((self.n_dst, _), other) = map(backend.describe, points)
        if self.dtype != other:
            raise TypeError(f"{operator}: sources is {self.dtype} but destinations is {other}")
        check_kind(operator, backend, self.d, self.dtype)
        self.sources, self.destinations = map(backend.contiguous, points)
        self.period = [*map(float, search.box), *[0.0] * (MOST_AXES - self.d)]
        self.exclude_self = int(search.own is not None)  # source i is destination i
        self.n_items = len(search.items[0]) - 1
        self.items = [None, None]
        if self.n_items > 1:
            device = backend.device_of(self.sources)
            self.items = [backend.to_device(each, device) for each in search.items]

    def within(self, radius: float, most: int | None = None, seed: int = 0) -> _Neighbors:
        """All sources within a radius, or `most` chosen by `seed`, through a table of cells.

        Neighbours that the first pass finds are kept until the memory for all is allocated: 256
        bytes a destination and 512 MiB at most. Hashes of more than 32 chosen ones take twice as
        much.
        """
        n_src, n_dst = self.n_src, self.n_dst
        most = n_src if most is None else min(most, n_src)
        room = min(most, _ROOM, _ROOM_OF_ALL // max(n_dst, 1))
        n_buckets = max(4, 1 << (n_src - 1).bit_length())
        sizes = [
            n_src, n_dst, self.d, self.n_items, n_buckets, radius, *self.period, self.exclude_self,
            most, seed, room,
        ]  # fmt: skip
        table = [
            self._empty((n_src, self.d), "float64"),
            self._empty((n_src,), "int32"),
            self._empty((n_buckets + 1,), "int32"),
            self._empty((2,), "float64"),
            self._empty((n_dst, room), "int32"),
        ]
        offsets = self._empty((n_dst + 1,), "int64")
        points = [self.sources, self.destinations, *self.items]
        self._run("neighbors", "count", [*sizes, *points, *table, offsets])
        indices = self._indices(offsets)
        self._run("neighbors", "fill", [*sizes, *points[1:], *table, offsets, indices])
        return offsets, indices

    def nearest(self, k: int, radius: float, ascending: bool) -> _Neighbors:
        """The k nearest sources, through a tree of boxes."""
        k = min(k, self.n_src)
        sizes = [
            self.n_src, self.n_dst, self.d, self.n_items, k, radius, *self.period,
            self.exclude_self, int(ascending),
        ]  # fmt: skip
        found = self._empty((self.n_dst, k), "int32")
        offsets = self._empty((self.n_dst + 1,), "int64")
        points = [self.sources, self.destinations, *self.items]
        self._run("nearest_neighbors", "find", [*sizes, *points, found, offsets])
        indices = self._indices(offsets)
        self._run("nearest_neighbors", "fill", [*sizes, found, offsets, indices])
        return offsets, indices

    def nearer(self, radius: float, offsets: Any, indices: Any) -> _Neighbors:
        """Neighbours that are within a smaller radius too."""
        sizes = [self.n_src, self.n_dst, self.d, radius, *self.period]
        points, found = [self.sources, self.destinations], [offsets, indices]
        ((n_edges,), _) = self.backend.describe(indices)
        kept_offsets = self._empty((self.n_dst + 1,), "int64")
        marks = self._empty((n_edges // 32 + self.n_dst,), "int32")
        self._run("nearer_neighbors", "count", [*sizes, *points, *found, kept_offsets, marks])
        kept = self._indices(kept_offsets)
        self._run("nearer_neighbors", "fill", [*sizes, *found, kept_offsets, marks, kept])
        return kept_offsets, kept

    def _indices(self, offsets: Any) -> Any:
        """Memory for all neighbours; the host waits for their number."""
        n_edges = self.backend.last(offsets)
        if n_edges < 0:
            name = "sources" if n_edges == -1 else "destinations"
            raise ValueError(f"{self.operator}: {name} has entries that are not finite")
        return self._empty((n_edges,), "int32")

    def _empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.backend.empty(shape, dtype, self.sources)

    def _run(self, kernels: str, face: str, arguments: list[Any]) -> None:
        self.backend.run(kernels, face, self.dtype, arguments)


def gpu_backend(operator: str, points: Any) -> ModuleType:
    """Backend that calls kernels on these points."""
    try:
        backend = backend_of(points)
    except RuntimeError as error:
        raise RuntimeError(f"{operator}: sources is on a GPU, but {error}") from None
    assert backend is not None and backend is not cpu
    return backend


def check_kind(operator: str, backend: ModuleType, d: int, dtype: str) -> None:
    """Raise an error if there are no kernels for points with d axes of a dtype."""
    if dtype not in backend.SUFFIXES:
        raise TypeError(f"{operator}: sources is {dtype}, needs float32 or float64")
    if not 1 <= d <= MOST_AXES:
        raise NotImplementedError(
            f"{operator}: points on a GPU have 1 to {MOST_AXES} coordinates, not {d}"
        )

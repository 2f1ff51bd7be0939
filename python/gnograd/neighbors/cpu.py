# SPDX-License-Identifier: MIT
"""Near points on the CPU: the library's tree of boxes, which Fortran programs search as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnograd import _core
from gnograd.backends.cpu import address, check_status, contiguous
from gnograd.neighbors.arguments import Search

__all__ = ["images_within", "nearest", "within"]

_Neighbors: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int32]]"


def within(
    search: Search, radii: Sequence[float], most: int | None, seed: int | None
) -> list[_Neighbors]:
    """Offsets and indices of the sources within every radius, ascending.

    At most `most` of them for a destination: those that `seed` chooses, or the nearest ones.
    """
    limits = np.array(radii, np.float64)
    n_src = len(search.sources)
    wanted = (
        len(radii), -1 if most is None else min(most, n_src), int(seed is not None), seed or 0
    )  # fmt: skip
    return _found(
        search,
        len(radii),
        lambda sizes, own, points, made: _core.gnograd_neighbors_within(
            *sizes, *wanted, own, *points, address(limits), made
        ),
    )


def nearest(search: Search, k: int) -> _Neighbors:
    """Offsets and indices of the k nearest sources, nearest first, by number where equal."""
    most = min(k, len(search.sources))
    return _found(
        search,
        1,
        lambda sizes, own, points, made: _core.gnograd_neighbors_nearest(
            *sizes, most, own, *points, made
        ),
    )[0]


def images_within(
    radius: float,
    full: bool,
    points: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    images: tuple[NDArray[np.int64], NDArray[np.int32]],
    candidates: _Neighbors,
) -> tuple[NDArray[Any], ...]:
    """Images within the radius, of candidates; see `NeighborList`.

    Parameters
    ----------
    radius, full : float, bool
    points : tuple of arrays
        Points, vectors of the cell, and the cells that points are in.
    images : tuple of arrays
        Point of every image, and its shift, less the cell of the point it is near.
    candidates : tuple of arrays
        Offsets and numbers of the images near every point.
    """
    x, cell, base = points
    n, d = x.shape
    given = [
        contiguous(x), contiguous(cell), contiguous(base.astype(np.int32)),
        contiguous(images[0].astype(np.int32)), contiguous(images[1]), *candidates,
    ]  # fmt: skip
    offsets = np.empty(n + 1, np.int64)

    def call(results: list[NDArray[Any] | None]) -> None:
        _core.gnograd_neighbors_images(
            d, n, len(given[3]), int(full), radius, *map(address, [*given, offsets, *results])
        )

    call([None] * 4)
    n_edges = int(offsets[-1])
    results: list[NDArray[Any]] = [
        np.empty(n_edges, np.int32), np.empty((n_edges, d), np.int32), np.empty(n_edges),
        np.empty((n_edges, d)),
    ]  # fmt: skip
    call([*results])
    return offsets, *results


def _found(
    search: Search, n_searches: int, find: Callable[[list[int], int, list[int], int], int]
) -> list[_Neighbors]:
    """Offsets and indices for every one of `n_searches` searches of the same points.

    Parameters
    ----------
    search : Search
    n_searches : int
    find : callable
        Function of the library: of sizes, `Search.own`, addresses of arrays and of the result.
    """
    for name in "sources", "destinations":
        if not np.isfinite(getattr(search, name)).all():
            raise ValueError(f"{search.operator}: {name} has entries that are not finite")
    destinations, sources = map(contiguous, (search.destinations, search.sources))
    arrays = [destinations, sources, search.box, search.items[1], search.items[0]]
    sizes = [len(search.box), len(destinations), len(sources), len(search.items[0]) - 1]
    made = np.zeros(1, np.int64)
    own = -1 if search.own is None else search.own
    check_status(find(sizes, own, [*map(address, arrays)], address(made)))
    handle = int(made[0])
    try:
        return [_copied(handle, number, len(destinations)) for number in range(n_searches)]
    finally:
        _core.gnograd_neighbors_free(handle)


def _copied(handle: int, number: int, n_dst: int) -> _Neighbors:
    offsets = np.empty(n_dst + 1, np.int64)
    indices = np.empty(_core.gnograd_neighbors_n_edges(handle, number), np.int32)
    _core.gnograd_neighbors_copy(handle, number, address(offsets), address(indices))
    return offsets, indices

# SPDX-License-Identifier: MIT
"""Points within a radius of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.backends import backend_of, cpu
from gnograd.static import boolean, integer, number, shown

__all__ = ["MOST_AXES", "Neighbors", "checked_items", "neighbors", "shape_of"]

MOST_AXES = 3
"""Coordinates of points on a GPU."""


class Neighbors(NamedTuple):
    """The neighbours of every destination."""

    offsets: Any
    """First neighbour of every destination, and their number, (n_dst + 1,), int64."""
    indices: Any
    """Sources, ascending for every destination, (n_edges,), int32."""


def neighbors(
    sources: Any,
    radius: float,
    destinations: Any = None,
    include_self: bool = True,
    period: ArrayLike | None = None,
    source_items: Iterable[Any] | None = None,
    destination_items: Iterable[Any] | None = None,
) -> Neighbors:
    """Sources at most `radius` away from every destination.

    On the CPU by scipy's k-d tree, on a GPU by a hash table of cells. Both compare
    ``(x_1 - y_1)**2 + ... <= radius**2`` in float64, summed in the order of the axes, so that they
    agree on points at the radius, too. Arrays on a GPU are looked for there; the host waits for the
    number of neighbours.

    Parameters
    ----------
    sources : array of float, (n_src, d)
        Coordinates. On a GPU in float32 or float64, with at most three axes.
    radius : float
        Largest Euclidean distance, inclusive.
    destinations : array of float, (n_dst, d), optional
        Where the sources are, in the same dtype on a GPU; the sources when left out.
    include_self : bool, optional
        Whether a point is its own neighbour; ``False`` only without `destinations`.
    period : float or array of float, (d,), optional
        Lengths of a periodic box, 0 along axes that are not periodic. Distances are to the nearest
        image, and a source is a neighbour once even where more images are in reach.
    source_items, destination_items : iterable of int, (n_items + 1,), optional
        First point of every item of a batch, and the number of points at the end: only points of
        the same item are neighbours. Both or none.

    Returns
    -------
    Neighbors
        `offsets` and `indices`, on the device of the points.

    Raises
    ------
    ValueError
        Points that are not finite or not of the same dimension, a negative radius or period, items
        that do not fit.
    TypeError
        Points on different devices, that are no real numbers, or no floats on a GPU; a radius that
        is not one number.
    NotImplementedError
        More than three axes on a GPU, or a dtype that the kernels lack.

    See Also
    --------
    Graph.radius : the same as a graph.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> offsets, indices = gg.neighbors(np.array([[0.0], [1.0], [3.0]]), radius=1.5)
    >>> offsets, indices
    (array([0, 2, 4, 5]), array([0, 1, 0, 1, 2], dtype=int32))
    """
    radius = number("neighbors: radius", radius)
    include_self = boolean("neighbors: include_self", include_self)
    if not radius >= 0:
        raise ValueError(f"neighbors: radius is {radius}, needs a number that is not negative")
    if destinations is not None and not include_self:
        raise ValueError("neighbors: include_self=False needs destinations=None")
    if destinations is None:
        destinations = sources
    on_gpu = [hasattr(points, "__cuda_array_interface__") for points in (sources, destinations)]
    if on_gpu[0] != on_gpu[1]:
        raise TypeError("neighbors: of sources and destinations, one is on a GPU")
    find: Callable[..., Neighbors] = _on_gpu if on_gpu[0] else _on_cpu
    points = [sources, destinations]
    if find is _on_cpu:
        points = [_real("sources", sources), _real("destinations", destinations)]
    shapes = [shape_of(x) for x in points]
    for name, shape in zip(("sources", "destinations"), shapes, strict=True):
        if len(shape) != 2:
            raise ValueError(f"neighbors: {name} has shape {shape}, needs (points, d)")
        if shape[1] == 0:
            raise ValueError(f"neighbors: {name} has shape {shape}, needs one coordinate or more")
    (n_src, d), (n_dst, _) = shapes
    if shapes[1][1] != d:
        raise ValueError(
            f"neighbors: sources has {d} coordinates but destinations has {shapes[1][1]}"
        )
    items = checked_items(
        "neighbors",
        {"source_items": (source_items, n_src), "destination_items": (destination_items, n_dst)},
    )
    return find(*points, radius, _box(period, d), items, not include_self)


def shape_of(points: Any) -> tuple[int, ...]:
    """Of an array on any device."""
    interface = getattr(points, "__cuda_array_interface__", None)
    return tuple(interface["shape"]) if interface else np.shape(points)


def checked_items(
    operator: str, given: Mapping[str, tuple[Iterable[Any] | None, int]]
) -> list[NDArray[np.int64]]:
    """First point of every item, and the number of points, for both kinds of points.

    Parameters
    ----------
    operator : str
    given : dict
        What was given by the name of the argument, and the number of points; one item when left
        out.

    Raises
    ------
    ValueError
        One of them is missing, does not ascend to the number of points, or is of another length.
    """
    (first, second), missing = given, [items is None for items, _ in given.values()]
    if missing[0] != missing[1]:
        raise ValueError(f"{operator}: {first} goes with {second}: give both or none")
    checked = []
    for name, (items, n) in given.items():
        entries = [0, n] if items is None else _entries(f"{operator}: {name}", items)
        if len(entries) < 2 or entries[0] != 0 or entries[-1] != n or sorted(entries) != entries:
            raise ValueError(
                f"{operator}: {name} is {entries}, needs to ascend from 0 to the {n} points"
            )
        checked.append(np.array(entries))
    if len(checked[0]) != len(checked[1]):
        raise ValueError(
            f"{operator}: {first} has {len(checked[0])} entries but {second} has {len(checked[1])}"
        )
    return checked


def _box(period: ArrayLike | None, d: int) -> NDArray[np.float64]:
    """Length of the box along every axis, 0 where it is open."""
    given = _real("period", 0 if period is None else period)
    if given.shape not in ((), (1,), (d,)):
        raise ValueError(f"neighbors: period has shape {given.shape}, needs one number or {d}")
    if not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(f"neighbors: period is {given}, needs numbers that are not negative")
    return np.broadcast_to(given, d).copy()


def _entries(label: str, items: Any) -> list[int]:
    entries = items.tolist() if hasattr(items, "tolist") else items
    if not isinstance(entries, Iterable) or isinstance(entries, str):
        raise TypeError(f"{label} is {shown(items)}, needs integers")
    return [integer(f"{label}[{k}]", entry) for k, entry in enumerate(entries)]


def _real(name: str, values: Any) -> NDArray[np.float64]:
    """An array of float64; text is not parsed, and complex numbers keep both their parts."""
    cpu.refuse_mask("neighbors", name, values)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" and array.size:
        raise TypeError(f"neighbors: {name} is {array.dtype}, needs real numbers")
    return array.astype(np.float64, copy=False)


def _not_finite(name: str) -> ValueError:
    return ValueError(f"neighbors: {name} has entries that are not finite")


# ---- CPU ----


def _on_cpu(
    sources: NDArray[np.float64],
    destinations: NDArray[np.float64],
    radius: float,
    box: NDArray[np.float64],
    items: Sequence[NDArray[np.int64]],
    exclude_self: bool,
) -> Neighbors:
    for name, points in ("sources", sources), ("destinations", destinations):
        if not np.isfinite(points).all():
            raise _not_finite(name)
    sources, destinations = _wrapped(sources, box), _wrapped(destinations, box)
    counts = [np.zeros(1, np.int64)]
    indices = [np.empty(0, np.int32)]
    for first, end, row, row_end in zip(
        items[0][:-1], items[0][1:], items[1][:-1], items[1][1:], strict=True
    ):
        i, j = _pairs(sources[first:end], destinations[row:row_end], radius, box)
        if exclude_self:
            i, j = i[i != j], j[i != j]
        counts.append(np.bincount(i, minlength=row_end - row))
        indices.append((j[np.lexsort((j, i))] + first).astype(np.int32))
    return Neighbors(np.cumsum(np.concatenate(counts)), np.concatenate(indices))


def _pairs(
    sources: NDArray[np.float64],
    destinations: NDArray[np.float64],
    radius: float,
    box: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Destination and source of every pair, in no order."""
    from scipy.spatial import cKDTree

    boxsize = box if box.any() else None
    reach, sure = radius * (1 + 1e-9), radius * (1 - 1e-9)
    pairs = cKDTree(destinations, boxsize=boxsize).sparse_distance_matrix(
        cKDTree(sources, boxsize=boxsize), reach, output_type="ndarray"
    )
    # at the radius, the formula decides: not the tree, which adds and subtracts to leave nodes out
    near = pairs["v"] < sure
    unsure = np.flatnonzero(~near)
    near[unsure] = _within(
        destinations[pairs["i"][unsure]], sources[pairs["j"][unsure]], radius, box
    )
    return pairs["i"][near], pairs["j"][near]


def _within(
    x: NDArray[np.float64], y: NDArray[np.float64], radius: float, box: NDArray[np.float64]
) -> NDArray[np.bool_]:
    squares = np.zeros(len(x))
    with np.errstate(over="ignore"):
        for a, length in enumerate(box):
            offset = x[:, a] - y[:, a]
            if length > 0:
                offset = np.where(offset < -0.5 * length, length + offset, offset)
                offset = np.where(offset > 0.5 * length, offset - length, offset)
            squares += offset * offset
        return squares <= radius * radius


def _wrapped(points: NDArray[np.float64], box: NDArray[np.float64]) -> NDArray[np.float64]:
    """The image of every point with coordinates in 0 <= x < box along periodic axes."""
    axes = box > 0
    if not axes.any():
        return points
    wrapped = points.copy()
    wrapped[:, axes] %= box[axes]
    # a tiny negative number becomes the period itself
    wrapped[:, axes] = np.where(wrapped[:, axes] < box[axes], wrapped[:, axes], 0)
    return wrapped


# ---- GPU ----


def _on_gpu(
    sources: Any,
    destinations: Any,
    radius: float,
    box: NDArray[np.float64],
    items: Sequence[NDArray[np.int64]],
    exclude_self: bool,
) -> Neighbors:
    backend = _gpu_backend(sources)
    ((n_src, d), dtype), ((n_dst, _), other) = map(backend.describe, (sources, destinations))
    if dtype != other:
        raise TypeError(f"neighbors: sources is {dtype} but destinations is {other}")
    if dtype not in backend.SUFFIXES:
        raise TypeError(f"neighbors: sources is {dtype}, needs float32 or float64")
    if not 1 <= d <= MOST_AXES:
        raise NotImplementedError(
            f"neighbors: points on a GPU have 1 to {MOST_AXES} coordinates, not {d}"
        )

    def empty(shape: tuple[int, ...], dtype: str) -> Any:
        return backend.empty(shape, dtype, sources)

    sources, destinations = backend.contiguous(sources), backend.contiguous(destinations)
    n_buckets = max(4, 1 << (n_src - 1).bit_length())
    period = [*map(float, box), *[0.0] * (MOST_AXES - d)]
    sizes = (n_src, n_dst, d, len(items[0]) - 1, n_buckets, radius, *period, int(exclude_self))
    batch = [None, None]
    if len(items[0]) > 2:
        device = backend.device_of(sources)
        batch = [backend.to_device(each, device) for each in items]
    table = [
        empty((n_src, d), "float64"),
        empty((n_src,), "int32"),
        empty((n_buckets + 1,), "int32"),
        empty((2,), "float64"),
    ]
    offsets = empty((n_dst + 1,), "int64")
    arguments = [*sizes, sources, destinations, *batch, *table, offsets]
    backend.run("neighbors", "count", dtype, arguments)
    n_edges = backend.last(offsets)
    if n_edges < 0:
        raise _not_finite("sources" if n_edges == -1 else "destinations")
    indices = empty((n_edges,), "int32")
    arguments = [*sizes, destinations, *batch, *table, offsets, indices]
    backend.run("neighbors", "fill", dtype, arguments)
    return Neighbors(offsets, indices)


def _gpu_backend(points: Any) -> ModuleType:
    try:
        backend = backend_of(points)
    except RuntimeError as error:
        raise RuntimeError(f"neighbors: sources is on a GPU, but {error}") from None
    assert backend is not None and backend is not cpu
    return backend

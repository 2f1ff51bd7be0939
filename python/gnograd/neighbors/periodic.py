# SPDX-License-Identifier: MIT
"""Neighbours in a cell of any shape, with all their periodic images.

Points are moved into the cell and copied to all their images near it, and the copies are searched
as other points are. This finds candidates; the formula decides, with the coordinates and the cell
as they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.neighbors import cpu as neighbors_cpu
from gnograd.neighbors import gpu as neighbors_gpu
from gnograd.neighbors.arguments import Search, length, real_numbers, shape_of
from gnograd.notation.keywords import named_now
from gnograd.notation.static import LARGEST, boolean, shown

__all__ = ["NeighborList", "neighbor_list"]

_FARTHEST = 2.0**30
"""Largest distance of a point from the cell at the origin, in cells."""


class NeighborList(NamedTuple):
    """The images of sources near every point."""

    offsets: Any
    """First neighbour of every point, and their number, (n + 1,), int64."""
    indices: Any
    """Point that every neighbour is an image of, (n_edges,), int32."""
    shifts: Any
    """Offset of the image from the point itself, in cells, (n_edges, d), int32."""
    distances: Any
    """Distance to the image, (n_edges,), float64."""
    vectors: Any
    """Vector to the image, (n_edges, d), float64."""


@named_now("periodic", "full")
def neighbor_list(
    points: Any,
    radius: float,
    cell: ArrayLike | None = None,
    *,
    periodic: bool | Sequence[bool] = True,
    full: bool = True,
) -> NeighborList:
    """All images of points at most `radius` away from every point, in a periodic cell.

    Image S of point j is ``points[j] + S @ cell``. It is a neighbour of point i where the sum of
    squares of ``points[j] - points[i] + S @ cell``, in float64, is at most ``radius**2``; a point
    is no neighbour of itself, but its images are. On a GPU the same is found there.

    Parameters
    ----------
    points : array of float, (n, d)
        Coordinates, inside the cell or not. On a GPU in float32 or float64, with at most three
        axes.
    radius : float
        Largest distance, inclusive: of any size beside the cell.
    cell : array of float, (d, d), optional
        Vectors of the cell, a row each; no periodic images when left out.
    periodic : bool or sequence of bool, (d,), optional
        Vectors of the cell along which there are images. The others do not matter, and may be 0.
    full : bool, optional
        List every pair from both of its ends. If false, once: where ``i < j``, or, for an image of
        the point itself, where the first number of its shift that is not 0 is positive.

    Returns
    -------
    NeighborList
        On the device of the points; neighbours of a point ordered by `indices`, then `shifts`.

    Raises
    ------
    ValueError
        Points or a cell that are not finite or of another shape, vectors that are not linearly
        independent, a radius that is negative or reaches more images than there can be, points more
        than 2**30 cells away.
    TypeError
        Points that are no real numbers, or no floats on a GPU.
    NotImplementedError
        More than three axes on a GPU, or a dtype that the kernels lack.

    See Also
    --------
    neighbors : a box with right angles, and the nearest image of every point alone.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> cell = np.array([[1.0, 0.0], [0.5, 1.0]])
    >>> found = gg.neighbor_list(np.zeros((1, 2)), 1.0, cell)
    >>> found.shifts
    array([[-1,  0],
           [ 1,  0]], dtype=int32)
    >>> found.vectors
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    name = "neighbor_list"
    radius = length(f"{name}: radius", radius)
    full = boolean(f"{name}: full", full)
    on_gpu = hasattr(points, "__cuda_array_interface__")
    if not on_gpu:
        points = real_numbers(name, "points", points)
    shape = shape_of(points)
    if len(shape) != 2 or shape[1] == 0:
        raise ValueError(f"{name}: points has shape {shape}, needs (points, d)")
    lattice = _Lattice.of(cell, periodic, shape[1], radius)
    find = _on_gpu if on_gpu else _on_cpu
    return NeighborList(*find(points, radius, lattice, full))


class _Lattice(NamedTuple):
    """The periodic vectors of a cell; zeros along axes that are open."""

    cell: NDArray[np.float64]
    """Vectors of the cell, a row each, (d, d)."""
    dual: NDArray[np.float64]
    """Pseudoinverse of the periodic vectors: ``x @ dual`` is x in units of the cell, (d, d)."""
    reach: NDArray[np.float64]
    """The radius in cells, (d,)."""

    @classmethod
    def of(cls, cell: ArrayLike | None, periodic: Any, d: int, radius: float) -> _Lattice:
        """Check the arguments, and compute the dual vectors."""
        name = "neighbor_list"
        given = np.zeros((d, d)) if cell is None else real_numbers(name, "cell", cell)
        if given.shape != (d, d):
            raise ValueError(f"{name}: cell has shape {given.shape}, needs ({d}, {d})")
        flags = list(periodic) if isinstance(periodic, Sequence | np.ndarray) else [periodic] * d
        if len(flags) != d:
            raise ValueError(f"{name}: periodic is {shown(periodic)}, needs one of {d} axes each")
        axes = np.array([boolean(f"{name}: periodic", flag) for flag in flags])
        if cell is None:
            axes[:] = False
        vectors = np.where(axes[:, None], given, 0.0)
        if not np.isfinite(vectors).all():
            raise ValueError(f"{name}: cell has entries that are not finite")
        rank = np.linalg.matrix_rank(vectors)
        if rank < axes.sum():
            raise ValueError(
                f"{name}: cell has {axes.sum()} periodic vectors that span {rank} dimensions"
            )
        if axes.any() and not np.isfinite(radius):
            raise ValueError(f"{name}: radius is {radius}, which reaches endless images")
        dual = np.zeros((d, d))
        dual[:, axes] = np.linalg.pinv(vectors[axes])
        heights = np.linalg.norm(dual, axis=0)
        return cls(vectors, dual, np.where(axes, radius, 0.0) * heights)

    @property
    def slack(self) -> float:
        """Bound for the effect of rounding on the radius in cells."""
        return 1e-9 * (1 + float(self.reach.max()))


def _images_near(images: Any, inside: Any) -> Search:
    """Search for images near the points in the cell."""
    shapes = [shape_of(x) for x in (images, inside)]
    items = [np.array([0, n]) for n, _ in shapes]
    return Search("neighbor_list", images, inside, np.zeros(shapes[0][1]), items, None)


def _wider(radius: float, extent: float) -> float:
    """The radius, and a bound for the rounding of images, for coordinates of size `extent`."""
    return radius * (1 + 1e-9) + 2.0**-44 * extent


def _refuse_far() -> ValueError:
    return ValueError("neighbor_list: points has entries more than 2**30 cells away")


def _refuse_many(n: int | float) -> ValueError:
    return ValueError(f"neighbor_list: {n} images are within the radius of the cell: too many")


# ---- CPU ----


def _on_cpu(
    points: NDArray[np.float64], radius: float, lattice: _Lattice, full: bool
) -> tuple[Any, ...]:
    if not np.isfinite(points).all():
        raise ValueError("neighbor_list: points has entries that are not finite")
    with np.errstate(over="ignore", invalid="ignore"):
        cells = points @ lattice.dual
        if not (np.abs(cells) <= _FARTHEST).all():
            raise _refuse_far()
    base = np.floor(cells)
    point, images = _images(cells - base, lattice)
    shifts = (images - base[point]).astype(np.int32)
    inside = points - base @ lattice.cell
    copies = inside[point] + images @ lattice.cell
    far = np.abs(base) + lattice.reach + 2
    extent = max(np.abs(points).max(initial=0), (far @ np.abs(lattice.cell)).max(initial=0))
    search = _images_near(copies, inside)
    offsets, found = neighbors_cpu.within(search, [_wider(radius, extent)], None, None)[0]
    return neighbors_cpu.images_within(
        radius, full, (points, lattice.cell, base), (point, shifts), (offsets, found)
    )


def _images(cells: NDArray[np.float64], lattice: _Lattice) -> tuple[NDArray[np.int64], Any]:
    """Points and cells of all images that may be near the cell, in the order of both."""
    n, d = cells.shape
    first = np.ceil(-lattice.reach - lattice.slack - cells)
    last = np.floor(1 + lattice.reach + lattice.slack - cells)
    periodic = lattice.cell.any(axis=1)
    first, numbers = np.where(periodic, first, 0), np.where(periodic, last - first + 1, 1)
    counts = numbers.prod(axis=1)
    if counts.sum() > LARGEST:
        raise _refuse_many(counts.sum())
    counts = counts.astype(np.int64)
    point = np.repeat(np.arange(n), counts)
    place = np.arange(len(point)) - np.repeat(np.cumsum(counts) - counts, counts)
    images = np.empty((len(point), d))
    for a in reversed(range(d)):
        place, images[:, a] = np.divmod(place, numbers[point, a].astype(np.int64))
    return point, images + first[point]


# ---- GPU ----


def _on_gpu(points: Any, radius: float, lattice: _Lattice, full: bool) -> tuple[Any, ...]:
    backend = neighbors_gpu.gpu_backend("neighbor_list", points)
    (n, d), dtype = backend.describe(points)
    neighbors_gpu.check_kind("neighbor_list", backend, d, dtype)
    points = backend.contiguous(points)
    numbers = np.concatenate([lattice.cell.ravel(), lattice.dual.ravel(), lattice.reach])
    cell = backend.to_device(np.append(numbers, lattice.slack), backend.device_of(points))

    def empty(shape: tuple[int, ...], dtype: str) -> Any:
        return backend.empty(shape, dtype, points)

    def run(face: str, n_images: int, *arrays: Any) -> None:
        sizes = n, d, n_images, radius, int(full)
        backend.run("neighbor_list", face, dtype, [*sizes, points, cell, *arrays])

    starts, base, extent = empty((n + 1,), "int64"), empty((n, d), "int32"), empty((1,), "int64")
    run("images", 0, starts, base, extent)
    exponent = backend.last(extent)
    if exponent == _NOT_FINITE:
        raise ValueError("neighbor_list: points has entries that are not finite")
    if exponent == _TOO_FAR:
        raise _refuse_far()
    n_images = backend.last(starts)
    if n_images > LARGEST:
        raise _refuse_many(n_images)
    inside, copies = (empty((k, d), "float64") for k in (n, n_images))
    point, shifts = empty((n_images,), "int32"), empty((n_images, d), "int32")
    run("place", n_images, starts, base, inside, copies, point, shifts)
    search = _images_near(copies, inside)
    candidates = neighbors_gpu.within(search, [_wider(radius, 2.0**exponent)], None, None)[0]
    offsets = empty((n + 1,), "int64")
    run("count", n_images, base, point, shifts, *candidates, offsets)
    n_edges = backend.last(offsets)
    outputs = [
        empty((n_edges,), "int32"), empty((n_edges, d), "int32"), empty((n_edges,), "float64"),
        empty((n_edges, d), "float64"),
    ]  # fmt: skip
    run("fill", n_images, base, point, shifts, *candidates, offsets, *outputs)
    return offsets, *outputs


_NOT_FINITE, _TOO_FAR = 2**62, 2**62 - 1
"""Codes of errors in place of the exponent of the largest coordinate."""

# SPDX-License-Identifier: MIT
"""Edges, neighbours and centers of the cells of a mesh, whose types have meshio's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gnograd as gg
from gnograd.data.contents import ON_CELLS, Centers, Contents, DataError

__all__ = ["across", "at_centers", "dimension_of", "edges_of", "part_of"]

Array = NDArray[Any]

# Points of a cell have VTK's order: corners, middles of edges in the order below, others.
_CORNERS = {
    "vertex": 1, "line": 2, "triangle": 3, "quad": 4, "tetra": 4, "pyramid": 5, "wedge": 6,
    "hexahedron": 8,
}  # fmt: skip
_EDGES = {
    "vertex": (), "line": ("01",), "triangle": ("01", "12", "20"),
    "quad": ("01", "12", "23", "30"), "tetra": ("01", "12", "20", "03", "13", "23"),
    "pyramid": ("01", "12", "23", "30", "04", "14", "24", "34"),
    "wedge": ("01", "12", "20", "34", "45", "53", "03", "14", "25"),
    "hexahedron": ("01", "12", "23", "30", "45", "56", "67", "74", "04", "15", "26", "37"),
}  # fmt: skip
_FACES = {
    "line": ("0", "1"), "triangle": _EDGES["triangle"], "quad": _EDGES["quad"],
    "tetra": ("012", "013", "123", "023"), "pyramid": ("0123", "014", "124", "234", "034"),
    "wedge": ("012", "345", "0143", "1254", "0253"),
    "hexahedron": ("0123", "4567", "0154", "1265", "2376", "0374"),
}  # fmt: skip
_QUADRATIC = (
    "line3", "triangle6", "triangle7", "quad8", "quad9", "tetra10", "pyramid13", "pyramid14",
    "wedge15", "wedge18", "hexahedron20", "hexahedron27",
)  # fmt: skip
_SAME = 1e-6
"""Distance of images of one point that counts as rounding, relative to the box."""
_DIMENSION = {"vertex": 0, "line": 1, "triangle": 2, "quad": 2, "polygon": 2}


def dimension_of(name: str) -> int:
    """Dimension of cells of a type."""
    return _DIMENSION.get(_base(name), 3)


def edges_of(cells: Mapping[str, Array]) -> Array:
    """Pairs of points that an edge of a cell joins.

    Parameters
    ----------
    cells : mapping of str to ndarray, (n_cells, points of a cell)
        Cells by type. Points in the middle of an edge cut it in two; in cells of a higher degree
        every two points are joined.

    Returns
    -------
    ndarray, int64 (n_edges, 2)
        Every edge once, with the smaller number first.
    """
    parts = [np.zeros((0, 2), np.int64)]
    for name, members in cells.items():
        parts += [members[:, list(pair)] for pair in _pairs(name, members.shape[1])]
    return _once(np.concatenate(parts))


def _once(edges: Array) -> Array:
    """Every edge between two points once, with the smaller number first."""
    every = np.sort(edges.astype(np.int64), axis=1)
    found: Array = np.unique(every[every[:, 0] != every[:, 1]], axis=0)
    return found


def across(edges: Array, points: Array, period: Sequence[float]) -> Array:
    """Edges of a mesh in a periodic box, with those across its border.

    Points that are images of each other, as a mesh has them on opposite sides, have the edges of
    all of them, and edges to each other.

    Parameters
    ----------
    edges : ndarray, int64 (n_edges, 2)
    points : ndarray, (n, d)
    period : sequence of float
        Lengths of the box, 0 along axes that are not periodic.

    Returns
    -------
    ndarray, int64 (n_edges, 2)
        As of `edges_of`; no edge if along a periodic axis there is none across the border.
    """
    lengths = np.asarray(period, np.float64)
    near = gg.Graph.radius(points, _SAME * lengths.max(), period=list(period))
    offsets = np.concatenate([[0], np.cumsum(near.in_degree)])
    every = edges
    for _ in range(2):  # of both ends all images
        n_images = offsets[every[:, 0] + 1] - offsets[every[:, 0]]
        place = np.arange(n_images.sum()) - np.repeat(np.cumsum(n_images) - n_images, n_images)
        every = np.repeat(every, n_images, axis=0)
        every = np.stack([every[:, 1], near.src[offsets[every[:, 0]] + place]], axis=1)
    every = _once(np.concatenate([every, np.stack([near.src, near.dst], axis=1)]))
    difference = (points[every[:, 0]] - points[every[:, 1]])[:, lengths > 0]
    box = lengths[lengths > 0]
    turns = np.round(difference / box)
    crosses = (turns != 0) & (np.abs(difference - turns * box) > _SAME * box)
    return every if crosses.any(axis=0).all() else every[:0]


def part_of(cells: Mapping[str, Array], keep: Array) -> dict[str, Array]:
    """Cells all of whose points are kept, by the numbers of these.

    Parameters
    ----------
    cells : mapping of str to ndarray
    keep : ndarray, bool (n,)
    """
    number = np.cumsum(keep) - 1
    return {name: number[rows[keep[rows].all(axis=1)]] for name, rows in cells.items()}


def at_centers(contents: Contents) -> Contents:
    """Contents with a point for every cell, and the fields on cells as the fields there.

    Points are the means of the corners of the cells of the mesh's dimension. Lines join the points
    of cells that share a face, if the faces are known.

    Raises
    ------
    DataError
        There are no such cells, or no fields on them.
    """
    top = max(map(dimension_of, contents.cells), default=0)
    names = [name for name in contents.cells if dimension_of(name) == top > 0]
    if not names:
        raise DataError(f"{contents.path}: has no cells, which --cells takes for points")
    if not contents.on_cells:
        raise DataError(f"{contents.path}: has no field on cells, which --cells takes")
    points = contents.arrays["points"]
    sizes = [len(members) for members in contents.cells.values()]
    starts = dict(zip(contents.cells, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    rows = np.concatenate(
        [starts[name] + np.arange(len(contents.cells[name])) for name in names]
    ).astype(np.int64)
    centers = np.concatenate([points[_corners(n, contents.cells[n])].mean(axis=1) for n in names])
    unused = {
        name: why
        for name, why in contents.unused.items()
        if name.removesuffix(ON_CELLS) not in contents.on_cells
    }
    arrays = {"points": centers}
    for name, array in contents.arrays.items():
        if name == "points":
            continue
        if name == "time":
            arrays[name] = array
        elif name not in contents.on_cells:
            unused[name] = "it is on points, and --cells takes the fields on cells"
    for name, array in contents.on_cells.items():
        # in a series, times are in front
        axis = int(contents.series)
        arrays[name] = array if len(rows) == sum(sizes) else array.take(rows, axis)
    joined = _neighbours({name: contents.cells[name] for name in names})
    cells = {} if joined is None else {"line": joined}
    return replace(
        contents,
        arrays=arrays,
        unused=unused,
        cells=cells,
        on_cells={},
        centers=Centers(points, contents.cells, rows),
    )


def _base(name: str) -> str:
    return name.rstrip("0123456789")


def _corners(name: str, members: Array) -> Array:
    return members[:, : _CORNERS.get(_base(name), members.shape[1])]


def _pairs(name: str, n: int) -> Sequence[tuple[int, ...]]:
    """Pairs of the points of a cell that are joined."""
    base = _base(name)
    if base == "polygon":
        return [(k, (k + 1) % n) for k in range(n)]
    pairs = [tuple(map(int, pair)) for pair in _EDGES.get(base, ())]
    corners = _CORNERS.get(base, n)
    if base in _CORNERS and n == corners:
        return pairs
    if name not in _QUADRATIC:
        return list(combinations(range(n), 2))
    halves = [(end, corners + k) for k, pair in enumerate(pairs) for end in pair]
    others = range(corners + len(pairs), n)
    return halves + [(k, other) for other in others for k in range(other)]


def _neighbours(cells: Mapping[str, Array]) -> Array | None:
    """Pairs of cells that share a face, by their numbers; None if faces are not known."""
    faces, owners, start = [], [], 0
    for name, members in cells.items():
        base, n = _base(name), members.shape[1]
        known: Sequence[tuple[int, ...]] = [tuple(map(int, f)) for f in _FACES.get(base, ())]
        known = _pairs(name, n) if base == "polygon" else known
        if not known:
            return None
        for face in known:
            corners = np.full((len(members), 4), -1, np.int64)
            corners[:, : len(face)] = np.sort(members[:, list(face)], axis=1)
            faces.append(corners)
            owners.append(start + np.arange(len(members)))
        start += len(members)
    _, which = np.unique(np.concatenate(faces), axis=0, return_inverse=True)
    which, owner = which.reshape(-1), np.concatenate(owners)
    order = np.argsort(which, kind="stable")
    which, owner = which[order], owner[order]
    shared = which[1:] == which[:-1]
    return np.stack([owner[:-1][shared], owner[1:][shared]], axis=1)

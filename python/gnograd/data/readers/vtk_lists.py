# SPDX-License-Identifier: MIT
"""Files of VTK that list others: times of a run (.pvd), pieces (.pvtu, .pvtp), blocks (.vtm)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import dimension_of
from gnograd.data.contents import DataError
from gnograd.data.readers import library

__all__ = ["GHOSTS", "LISTS", "NUMBERS", "check", "in_time", "read", "size_of"]

Array = NDArray[Any]

LISTS = {
    ".pvd": ("DataSet", "file"), ".vtm": ("DataSet", "file"),
    ".pvtu": ("Piece", "Source"), ".pvtp": ("Piece", "Source"), ".pvti": ("Piece", "Source"),
    ".pvtr": ("Piece", "Source"), ".pvts": ("Piece", "Source"),
}  # fmt: skip
"""Elements that list files, and their attributes with the names of these, by suffix."""
_OF_PIECES = (".pvtu", ".pvtp", ".vtm")

NUMBERS = "vtkOriginal"
"""Start of the names of fields by which VTK numbers points and cells of another mesh."""
GHOSTS = "vtkGhostType"
"""Field that marks points and cells that belong to another piece."""


def size_of(path: Path) -> int:
    """Bytes of a file, and of those that it lists."""
    size = library.size_of(path)
    try:
        for _, file in _listed(path):
            size += size_of(file) if file.suffix.lower() in LISTS else library.size_of(file)
    except (DataError, ElementTree.ParseError, ValueError, RecursionError):
        pass  # said by `read`
    return size


def read(path: Path, read_one: Callable[[Path], Any]) -> Any:
    """Mesh of all files that one lists.

    Parameters
    ----------
    path : pathlib.Path
        File ``.pvd``, or one of pieces or blocks.
    read_one : callable
        Reads a file to a `Mesh` of `gnograd.data.readers.mesh`.

    Raises
    ------
    DataError
        The list names what is not there, or in another folder, or does not fit.
    """
    listed = list(_listed(path))
    if not listed:
        raise DataError("it lists no file")

    def one(file: Path) -> Any:
        return _joined(file, read_one) if file.suffix.lower() in _OF_PIECES else read_one(file)

    if path.suffix.lower() in _OF_PIECES:
        return _joined(path, read_one)
    times = [time for time, _ in listed]
    if len(set(times)) < len(times):
        raise DataError("it lists several files at one time; give each as a file")
    meshes = [one(file) for _, file in listed]
    return in_time(times, meshes, type(meshes[0]))


def check(path: Path) -> None:
    """Raise DataError for a list of what is not there, or in another folder, or of lists."""
    if not list(_listed(path)):
        raise DataError("it lists no file")


def in_time(times: Sequence[float], meshes: Sequence[Any], kind: type[Any]) -> Any:
    """Mesh with fields at several times; of one time, the mesh as it is.

    Raises
    ------
    DataError
        The meshes differ.
    """
    first = meshes[0]
    if len(meshes) == 1:
        return first
    for time, mesh in zip(times, meshes, strict=True):
        same = np.array_equal(mesh.points, first.points) and len(mesh.cells) == len(first.cells)
        if not same or any(
            a[0] != b[0] or not _equal(a[1], b[1])
            for a, b in zip(mesh.cells, first.cells, strict=True)
        ):
            raise DataError(f"the mesh at time {time:.7g} is not that at time {times[0]:.7g}")
    unused = dict(first.unused)
    fields: dict[str, Any] = {}
    on_cells: dict[str, Any] = {}
    for kept, every in (
        (fields, [m.fields for m in meshes]),
        (on_cells, [m.on_cells for m in meshes]),
    ):
        for name in sorted({name for of_step in every for name in of_step}):
            if not all(name in of_step for of_step in every):
                unused[name] = "it is not at every time"
                continue
            steps = [of_step[name] for of_step in every]
            try:
                if kept is fields:
                    kept[name] = np.stack(steps)
                else:
                    kept[name] = [np.stack(blocks) for blocks in zip(*steps, strict=True)]
            except ValueError:
                unused[name] = "it does not have the same shape at every time"
    return kind(first.points, first.cells, fields, on_cells, unused, np.array(times, np.float64))


def _equal(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _joined(path: Path, read_one: Callable[[Path], Any]) -> Any:
    """Mesh of several pieces, without what other pieces have.

    Points of different pieces that have the same place and values are one point.
    """
    meshes = [_own(read_one(file)) for _, file in _listed(path)]
    meshes = [mesh for mesh in meshes if len(mesh.points)]
    if not meshes:
        raise DataError("it has no points")
    # blocks of a lower dimension are surfaces of the others
    dimensions = [max((dimension_of(name) for name, _ in m.cells), default=0) for m in meshes]
    top = max(dimensions)
    left = len(meshes) - dimensions.count(top)
    meshes = [mesh for mesh, d in zip(meshes, dimensions, strict=True) if d == top]
    first = meshes[0]
    names = [n for n in first.fields if n != GHOSTS and not n.startswith(NUMBERS)]
    unused = dict(first.unused)
    if left:
        unused[f"blocks of a lower dimension ({left})"] = f"the others have cells in {top}-D"
    for mesh in meshes:
        for name in [*mesh.fields, *mesh.on_cells]:
            numbers = name.startswith((GHOSTS, NUMBERS))
            if not numbers and not all(name in m.fields or name in m.on_cells for m in meshes):
                unused[name] = "it is not in every piece"
    names = [n for n in names if n not in unused]
    points = np.concatenate([m.points for m in meshes])
    fields = {n: np.concatenate([m.fields[n] for m in meshes]) for n in names}
    columns = [points, *(np.asarray(f).reshape(len(points), -1) for f in fields.values())]
    rows = np.concatenate(columns, axis=1).astype(np.float64)
    # points that coincide within a piece are the two sides of a wall
    repeated = np.concatenate([_repeated(m.points) for m in meshes])
    _, keep, place = np.unique(
        np.column_stack([rows, repeated]), axis=0, return_index=True, return_inverse=True
    )
    order = np.argsort(keep)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    number = rank[place.reshape(-1)]
    cells, start = [], 0
    for mesh in meshes:
        cells += [(name, number[start + np.asarray(rows)]) for name, rows in mesh.cells]
        start += len(mesh.points)
    on_cells = {
        n: [part for m in meshes for part in m.on_cells[n]]
        for n in first.on_cells
        if n not in unused and not n.startswith((GHOSTS, NUMBERS))
    }
    keep = keep[order]
    kept = {n: np.asarray(f)[keep] for n, f in fields.items()}
    return type(first)(points[keep], cells, kept, on_cells, unused)


def _repeated(points: Array) -> Array:
    """How many equal points come before each."""
    _, which = np.unique(points, axis=0, return_inverse=True)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(which[order]) > 0])
    count = np.arange(len(points)) - np.repeat(starts, np.diff(np.r_[starts, len(points)]))
    found = np.empty_like(count)
    found[order] = count
    return found


def _own(mesh: Any) -> Any:
    """Piece without the cells that belong to another, and their points."""
    ghosts = mesh.on_cells.get(GHOSTS)
    if ghosts is None:
        return mesh
    keep = [np.asarray(block) == 0 for block in ghosts]
    cells = [(n, np.asarray(rows)[k]) for (n, rows), k in zip(mesh.cells, keep, strict=True)]
    used = np.zeros(len(mesh.points), bool)
    for _, rows in cells:
        used[rows] = True
    number = np.cumsum(used) - 1
    return mesh._replace(
        points=mesh.points[used],
        cells=[(name, number[rows]) for name, rows in cells],
        fields={name: np.asarray(field)[used] for name, field in mesh.fields.items()},
        on_cells={
            name: [np.asarray(b)[k] for b, k in zip(blocks, keep, strict=True)]
            for name, blocks in mesh.on_cells.items()
        },
    )


def _listed(path: Path) -> Iterator[tuple[float, Path]]:
    """Times and files of a list; only files of its folder are allowed."""
    folder = path.resolve().parent
    root = ElementTree.parse(path).getroot()
    tag, attribute = LISTS[path.suffix.lower()]
    for k, item in enumerate(root.iter(tag)):
        if item.get(attribute) is None and tag == "DataSet" and path.suffix.lower() == ".vtm":
            continue  # a block without a mesh
        name = item.get(attribute, "")
        file = folder / name
        inside = file.resolve().is_relative_to(folder)
        linked = file.resolve() != Path(os.path.normpath(folder / file))
        if not name or not inside or linked:
            raise DataError(f"'{name}' is not in its folder; only files there are read")
        if not file.is_file() or file.resolve() == path.resolve():
            raise DataError(f"'{name}' is not there")
        inner = file.suffix.lower()
        if inner in LISTS and (path.suffix.lower() != ".pvd" or inner == ".pvd"):
            raise DataError(f"'{name}' is a list, too")
        yield float(item.get("timestep", k)), file

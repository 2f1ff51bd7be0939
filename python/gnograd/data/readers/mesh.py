# SPDX-License-Identifier: MIT
"""Points, cells and fields of a mesh: VTU, VTK, XDMF by meshio, lists of VTK's files, and Gmsh."""

import contextlib
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import ON_CELLS, Contents, DataError, numeric, reason
from gnograd.data.readers import appended, gmsh, vtk_lists
from gnograd.data.readers import library as limits
from gnograd.data.readers.hdf5 import refused
from gnograd.data.readers.library import CLAIM, Budget, library

LIBRARIES = ("meshio",)

Array = NDArray[Any]

POINTS = "points"
"""Name of the array of the points."""
FORMATS = {
    ".vtu": "vtu", ".vtk": "vtk", ".xdmf": "xdmf", ".xmf": "xdmf", ".msh": "gmsh", ".pvtu": "pvtu",
    ".pvd": "pvd",
}  # fmt: skip
"""Formats in meshio's names, by suffix."""

_ENOUGH = 4096
"""First bytes of files, by format."""

_WRITE_VTU = "write it as .vtu (ParaView: File, Save Data; Python: pyvista.read(..).save(..))"
UNREAD = {
    **dict.fromkeys((".e", ".ex2", ".exo", ".exii", ".exodus"), f"Exodus; {_WRITE_VTU}"),
    ".case": f"EnSight; {_WRITE_VTU}",
    **dict.fromkeys((".cas", ".cas.h5", ".dat.h5", ".cas.gz"), f"Fluent; {_WRITE_VTU}"),
    **dict.fromkeys((".plt", ".szplt"), f"Tecplot; {_WRITE_VTU}"),
    ".grib": "GRIB; write it as NetCDF",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; write it as .csv"),
    **dict.fromkeys((".parquet", ".feather"), "a table; write it as .csv"),
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst"), "a compressed file; unpack it first"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z"), "an archive; unpack it first"),
    **dict.fromkeys((".pkl", ".pickle"), "a Python pickle, which is never loaded; write .npz"),
    ".cgns": f"CGNS; {_WRITE_VTU}",
}
"""Formats that are not supported, with advice."""


class Mesh(NamedTuple):
    """Content of a file with a mesh."""

    points: Array
    """Coordinates (n, 3), or fewer."""
    cells: list[tuple[str, Array]]
    """Blocks of cells, by meshio's names of types."""
    fields: Mapping[str, Array]
    on_cells: Mapping[str, Sequence[Array]]
    """Fields on cells, an array for each block."""
    unused: dict[str, str]
    times: Array | None = None
    """Times of all fields, in front of their other axes."""


def contents(path: Path) -> Contents:
    """Points of a mesh as ``points``, and the fields on them and on its cells.

    Trailing coordinates that are zero everywhere are left out, since formats always have three.
    Files with several times give fields (n_times, n_points, ..) and an array ``time``.

    Raises
    ------
    DataError
    """
    meshio = library("meshio", path)
    kind, whole = FORMATS[path.suffix.lower()], path.resolve()
    try:
        if kind == "xdmf":
            _check_links(path)
        if kind == "vtk":
            _check_grid(path)
        # meshio prints errors, and may end the program
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if kind == "xdmf" and (series := _series(meshio, whole)):
                mesh = series
            elif kind == "gmsh":
                mesh = Mesh(*gmsh.read(path, meshio))
            elif kind in ("pvd", "pvtu"):
                mesh = vtk_lists.read(path, lambda file: _by_meshio(meshio, file, "vtu"))
            else:
                mesh = _by_meshio(meshio, whole, kind)
            return contents_of(path, f"mesh ({kind})", mesh)
    except DataError as error:
        raise DataError(f"{path}: cannot be read as a mesh ({error})") from error
    except (Exception, SystemExit) as error:
        text = _explained(kind, path, error)
        raise DataError(f"{path}: cannot be read as a mesh ({text})") from error


@contextlib.contextmanager
def _appended(meshio: Any) -> Iterator[None]:
    """Let meshio read appended numbers by our reader, and leave it as it was."""
    module = meshio.vtu._vtu
    theirs = module._parse_raw_binary  # an error here if a later meshio has another reader
    module._parse_raw_binary = appended.in_text
    try:
        yield
    finally:
        module._parse_raw_binary = theirs


def _by_meshio(meshio: Any, path: Path, kind: str) -> Mesh:
    if kind == "vtu" and path.read_bytes().count(b"<Piece") > 1:
        raise DataError("it has several pieces, of which meshio takes the cells of the last one")
    said = io.StringIO()
    with _folder_of(path), _appended(meshio), contextlib.redirect_stderr(said):
        found = meshio.read(path, file_format=kind)
    # what it warns of it leaves out: cells that it does not know, and fields
    if "Warning" in said.getvalue():
        raise DataError(f"meshio leaves out a part of it; {_WRITE_VTU}")
    cells = [(block.type, block.data) for block in found.cells]
    return Mesh(found.points, cells, found.point_data or {}, found.cell_data or {}, {})


def contents_of(path: Path, kind: str, mesh: Mesh) -> Contents:
    """Contents of a file from its mesh.

    Raises
    ------
    DataError
        The mesh makes no sense.
    """
    points = np.asarray(mesh.points, np.float64)
    if points.ndim != 2 or not points.size:
        raise DataError("it has no points")
    arrays, unused = {POINTS: _in_fewest_dimensions(points)}, dict(mesh.unused)
    axis = int(mesh.times is not None)
    for name, field in mesh.fields.items():
        if name == POINTS:
            unused[f"{name} (a field)"] = "its name is that of the mesh's points"
        elif name == vtk_lists.GHOSTS:
            unused[name] = "it marks what belongs to another piece, and is no field"
        elif name.startswith(vtk_lists.NUMBERS):
            unused[name] = "it is what VTK numbers points of another mesh by, no field"
        elif name.startswith("gmsh:"):
            unused[name] = "it is what gmsh numbers points by, no field"
        elif why := numeric(field):
            unused[name] = why
        else:
            arrays[name] = _in_columns(np.asarray(field), axis)
    if mesh.times is not None:
        arrays["time"] = mesh.times
    cells, order = _by_type(mesh.cells)
    for name, members in cells.items():
        if members.size and not (members.min() >= 0 and members.max() < len(points)):
            raise DataError(f"cells of type '{name}' have points that are not there")
    on_cells: dict[str, Array] = {}
    for name, parts in mesh.on_cells.items():
        every = [np.asarray(part) for part in parts]
        if name.startswith(vtk_lists.NUMBERS):
            continue
        if why := next((w for w in map(numeric, every) if w), None):
            unused[name] = why
            continue
        field = np.concatenate(every, axis=axis)
        if field.shape[axis] != len(order):
            raise DataError(f"'{name}' is not on all cells")
        on_cells[name] = _in_columns(field.take(order, axis), axis)
        where = "it is on cells; --cells takes these for points"
        unused[f"{name}{ON_CELLS}" if name in arrays else name] = where
    flat = points.shape[1] - arrays[POINTS].shape[1]
    return Contents(path, kind, arrays, unused, cells, on_cells, axis == 1, flat=flat)


def _in_columns(field: Array, axis: int) -> Array:
    """Field with the components of its tensors, if it has any, along one axis behind points."""
    return field.reshape(*field.shape[: axis + 1], -1) if field.ndim > axis + 2 else field


def _in_fewest_dimensions(points: Array) -> Array:
    d = points.shape[1]
    while d > 1 and not points[:, d - 1].any():
        d -= 1
    return np.ascontiguousarray(points[:, :d])


def _by_type(blocks: Sequence[tuple[str, Any]]) -> tuple[dict[str, Array], Array]:
    """Join blocks of cells of one type, and the number of each cell in the blocks."""
    parts: dict[str, list[Array]] = {}
    numbers: dict[str, list[Array]] = {}
    start = 0
    for name, members in blocks:
        if isinstance(members, np.ndarray) and members.ndim == 2:
            sizes = {members.shape[1]: (members, np.arange(len(members)))}
        elif name.startswith("polygon"):
            lengths = np.array([len(cell) for cell in members])
            sizes = {
                int(n): (np.array([members[k] for k in np.flatnonzero(lengths == n)]),
                         np.flatnonzero(lengths == n))
                for n in np.unique(lengths)
            }  # fmt: skip
        else:
            raise DataError(f"it has cells of type '{name}'; {_WRITE_VTU}")
        for n, (rows, places) in sizes.items():
            full = f"polygon{n}" if name.startswith("polygon") else name
            parts.setdefault(full, []).append(rows)
            numbers.setdefault(full, []).append(start + places)
        start += len(members)
    order = [np.zeros(0, np.int64), *(np.concatenate(n) for n in numbers.values())]
    return {name: np.concatenate(rows) for name, rows in parts.items()}, np.concatenate(order)


def _explained(kind: str, path: Path, error: BaseException) -> str:
    """Reason why a mesh is not read, with meshio's message if there is one, and advice."""
    if isinstance(error, (MemoryError, OSError)):
        return reason(error)
    damaged = "damaged, or not of this format"
    start = _start(path)
    if kind == "vtk" and (found := re.match(r"# vtk DataFile Version ([\d.]+)", start)):
        form = re.search(r"^\s*DATASET\s+(\w+)", start, re.MULTILINE | re.IGNORECASE)
        what = f", {form[1].upper()}" if form else ""
        return (
            f"legacy VTK of version {found[1]}{what}: damaged, or of a kind that meshio does not "
            f"read; {_WRITE_VTU}"
        )
    if kind == "vtu" and "<VTKFile" in start:
        for word, what in (("LZ4", "compressed by LZ4"), ('type="PolyData', "a surface")):
            if word in start:
                return f"it is {what}, which meshio does not read; {_WRITE_VTU}, with ZLib"
        if type(error) is KeyError and re.fullmatch(r"'\w+'", str(error)):
            return f"it has {error}, which meshio does not know, or is damaged; {_WRITE_VTU}"
    if kind == "xdmf" and "<Xdmf" in start:
        return f"{damaged}, or of a kind that meshio does not read; {_WRITE_VTU}"
    return damaged


def _check_grid(path: Path) -> None:
    """Raise DataError if a structured grid, given by three numbers, is too large."""
    pattern = r"^\s*DIMENSIONS((?:\s+\d+){3})"
    found = re.search(pattern, _start(path), re.MULTILINE | re.IGNORECASE)
    if found:
        points = math.prod(map(int, found[1].split()))
        if not Budget(path.stat().st_size).take(8 * (3 + 8) * points):
            raise DataError(CLAIM)


def _start(path: Path) -> str:
    with open(path, "rb") as file:
        return file.read(_ENOUGH).decode("latin-1")


@contextlib.contextmanager
def _folder_of(path: Path) -> Iterator[None]:
    """Work in the folder of a file, where meshio looks for the files that it names."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        yield
    finally:
        os.chdir(before)


# ---- XDMF, whose numbers may be in other files ----


def size_of(path: Path) -> int:
    """Bytes of a file, and of the files that it names."""
    if FORMATS[path.suffix.lower()] in ("pvd", "pvtu"):
        return vtk_lists.size_of(path)
    size = limits.size_of(path)
    if FORMATS[path.suffix.lower()] == "xdmf":
        with contextlib.suppress(ElementTree.ParseError, DataError):
            size += sum(map(limits.size_of, {file for file, _, _ in _links(path)}))
    return size


def _links(path: Path) -> Iterator[tuple[Path, str, Any]]:
    """Data files of an XDMF file, paths inside them, and the items that name these."""
    folder = path.resolve().parent
    for item in ElementTree.parse(path).iter("DataItem"):
        form, text = item.get("Format", "XML"), (item.text or "").strip()
        if form == "XML" or item.get("Reference"):
            continue
        name, _, place = text.partition(":")
        file = folder / name
        if not name or not file.resolve().is_relative_to(folder) or _is_linked(file, folder):
            raise DataError(f"'{name}' is not in its folder; only files there are read")
        if not file.is_file():
            raise DataError(f"'{name}' is not there")
        yield file, place, item


def _is_linked(file: Path, folder: Path) -> bool:
    return file.resolve() != Path(os.path.normpath(folder / file))


def _check_links(path: Path) -> None:
    """Raise DataError for links to other folders, or links that meshio would not see."""
    budget = Budget(size_of(path))
    for file, place, item in _links(path):
        if item.get("Format") == "HDF":
            h5py = library("h5py", path)
            with h5py.File(file, "r") as opened:
                found: Any = opened
                for name in filter(None, place.split("/")):
                    if not isinstance(found.get(name, getlink=True), h5py.HardLink):
                        raise DataError(f"'{file.name}:{place}' is a link, or is not there")
                    found = found[name]
                why = refused(found) if isinstance(found, h5py.Dataset) else "it is no array"
                size = 0 if why else found.nbytes
        else:
            odd = item.get("Endian", "Native") not in ("Native", "Little") or any(
                item.get(name, none) != none
                for name, none in (("Seek", "0"), ("Compression", "Raw"))
            )
            why = "its Endian, Seek or Compression is nothing that meshio sees" if odd else None
            size = file.stat().st_size
        if why or not budget.take(size):
            raise DataError(f"'{file.name}:{place}': {why or CLAIM}")


def _series(meshio: Any, path: Path) -> Mesh | None:
    """Fields at several times, or None if the file has a single mesh."""
    try:
        with _folder_of(path), meshio.xdmf.TimeSeriesReader(path) as reader:
            if not reader.num_steps:
                return None
            points, cells = reader.read_points_cells()
            blocks = [(block.type, block.data) for block in cells]
            made: Mesh | None = None
            for collection in reader.domain.iterfind("Grid[@GridType='Collection']"):
                if collection.get("CollectionType") != "Temporal":
                    raise DataError("it has a collection that is not one of times")
                reader.collection = list(collection)
                steps = [reader.read_data(k) for k in range(len(reader.collection))]
                for (time, *_), grid in zip(steps, reader.collection, strict=True):
                    _check_same_mesh(reader, grid, time)
                every = [
                    Mesh(points, blocks, fields, on_cells, {}) for _, fields, on_cells in steps
                ]
                part: Mesh = vtk_lists.in_time([time for time, *_ in steps], every, Mesh)
                made = part if made is None else _with_fields(made, part)
            return made
    except (meshio.ReadError, KeyError, IndexError, AssertionError):
        return None


def _check_same_mesh(reader: Any, grid: Any, time: float) -> None:
    """Raise DataError if a grid of a series has another mesh than the one that is taken for all."""
    for tag in ("Geometry", "Topology"):
        first, here = (g.find(f"{tag}/DataItem") for g in (reader.mesh_grid, grid))
        if first is None or here is None or first.text == here.text:
            continue
        if not np.array_equal(reader._read_data_item(first), reader._read_data_item(here)):
            raise DataError(f"the mesh at time {time:.7g} is not the first one; write one for all")


def _with_fields(mesh: Mesh, other: Mesh) -> Mesh:
    """Mesh with the fields of another collection of a file, which has the same times."""
    one, two = (np.zeros(0) if each.times is None else each.times for each in (mesh, other))
    if not np.array_equal(one, two):
        raise DataError("its collections have different times; write each as a file")
    if twice := {*mesh.fields, *mesh.on_cells} & {*other.fields, *other.on_cells}:
        raise DataError(f"'{min(twice)}' is in several collections; write each as a file")
    return mesh._replace(
        fields={**mesh.fields, **other.fields},
        on_cells={**mesh.on_cells, **other.on_cells},
        unused={**mesh.unused, **other.unused},
    )

# SPDX-License-Identifier: MIT
"""Points, cells and fields of a mesh: VTU, VTK, XDMF by meshio, and Gmsh."""

import contextlib
import io
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers import gmsh
from gnograd.data.readers import library as limits
from gnograd.data.readers.hdf5 import refused
from gnograd.data.readers.library import CLAIM, Budget, library

LIBRARIES = ("meshio",)

POINTS = "points"
"""Name of the array of the points."""
FORMATS = {".vtu": "vtu", ".vtk": "vtk", ".xdmf": "xdmf", ".xmf": "xdmf", ".msh": "gmsh"}
"""Formats in meshio's names, by suffix."""

_ENOUGH = 4096
"""First bytes of files, by format."""

_WRITE_VTU = "write it as .vtu (ParaView: File, Save Data; Python: pyvista.read(..).save(..))"
UNREAD = {
    ".vti": f"a VTK image; {_WRITE_VTU}",
    ".vtr": f"a rectilinear grid of VTK; {_WRITE_VTU}",
    ".vts": f"a structured grid of VTK; {_WRITE_VTU}",
    ".vtp": f"a surface of VTK; {_WRITE_VTU}",
    ".vtm": f"several meshes of VTK; {_WRITE_VTU}, each as a file",
    ".pvtu": f"a mesh of VTK in pieces; {_WRITE_VTU}",
    ".pvd": "a list of VTK's files; give the folder of these, or a pattern as 'run/*.vtu'",
    ".stl": "a surface; write it as .vtu (Python: meshio.read(..).write(..))",
    ".ply": "a surface; write it as .vtu (Python: meshio.read(..).write(..))",
    ".exo": f"Exodus; {_WRITE_VTU}",
    ".e": f"Exodus; {_WRITE_VTU}",
    ".cgns": f"CGNS; {_WRITE_VTU}",
    ".foam": f"a case of OpenFOAM; {_WRITE_VTU}, or with foamToVTK",
    ".nc": "NetCDF; write its arrays as .npz or .h5 (Python: numpy.savez of an xarray.Dataset)",
    ".npy": "one array; write all of a sample in one .npz (Python: numpy.savez)",
    ".csv": "a table; write its columns as .npz (Python: numpy.loadtxt, numpy.savez)",
    ".txt": "text; write its columns as .npz (Python: numpy.loadtxt, numpy.savez)",
}
"""Formats that are not supported, with advice."""


def contents(path: Path) -> Contents:
    """Points of a mesh as ``points``, and the fields on them.

    Trailing coordinates that are zero everywhere are left out, since formats always have three.
    XDMF with several times gives fields (n_times, n_points, ..) and an array ``time``.

    Raises
    ------
    DataError
    """
    meshio = library("meshio", path)
    unused: dict[str, str] = {}
    kind, whole = FORMATS[path.suffix.lower()], path.resolve()
    try:
        if kind == "xdmf":
            _check_links(path)
        if kind == "vtk":
            _check_grid(path)
        # meshio prints errors, and may end the program
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if kind == "xdmf" and (series := _series(meshio, whole)):
                points, cells, fields, on_cells, unused = series
            elif kind == "gmsh":
                points, cells, fields, unused, on_cells = gmsh.read(path, meshio)
            else:
                with _folder_of(whole):
                    mesh = meshio.read(whole, file_format=kind)
                points, fields, on_cells = mesh.points, mesh.point_data, list(mesh.cell_data)
                cells = mesh.cells
            arrays, others = _arrays(points, fields)
    except DataError as error:
        raise DataError(f"{path}: cannot be read as a mesh ({error})") from error
    except (Exception, SystemExit) as error:
        text = _explained(kind, path, error)
        raise DataError(f"{path}: cannot be read as a mesh ({text})") from error
    flat = np.shape(points)[1] - arrays[POINTS].shape[1]
    unused |= others | {name: "it is on cells; bring it to the points" for name in on_cells}
    by_type = _by_type(cells)
    for name, members in by_type.items():
        if members.size and not (members.min() >= 0 and members.max() < len(arrays[POINTS])):
            raise DataError(f"{path}: cells of type '{name}' have points that are not there")
    return Contents(path, f"mesh ({kind})", arrays, unused, by_type, flat)


def _arrays(points: Any, fields: Any) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Points and fields on them, and reasons why other fields cannot be used."""
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or not points.size:
        raise DataError("it has no points")
    arrays, unused = {POINTS: _in_fewest_dimensions(points)}, {}
    for name, field in fields.items():
        if name == POINTS:
            unused[f"{name} (a field)"] = "its name is that of the mesh's points"
        elif name.startswith("gmsh:"):
            unused[name] = "it is what gmsh numbers points by, no field"
        elif why := numeric(field):
            unused[name] = why
        else:
            arrays[name] = np.asarray(field)
    return arrays, unused


def _in_fewest_dimensions(points: NDArray[Any]) -> NDArray[Any]:
    d = points.shape[1]
    while d > 1 and not points[:, d - 1].any():
        d -= 1
    return np.ascontiguousarray(points[:, :d])


def _by_type(cells: Any) -> dict[str, NDArray[Any]]:
    """Join blocks of cells of one type."""
    blocks: dict[str, list[NDArray[Any]]] = {}
    for block in cells:
        name, members = block if isinstance(block, tuple) else (block.type, block.data)
        if isinstance(members, np.ndarray) and members.ndim == 2:
            blocks.setdefault(name, []).append(members)
    return {name: np.concatenate(parts) for name, parts in blocks.items()}


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


def _series(meshio: Any, path: Path) -> Any:
    """Fields at several times, or None if the file has a single mesh."""
    try:
        with _folder_of(path), meshio.xdmf.TimeSeriesReader(path) as reader:
            if reader.num_steps < 2:
                return None
            points, cells = reader.read_points_cells()
            steps = [reader.read_data(k) for k in range(reader.num_steps)]
    except (meshio.ReadError, KeyError, IndexError, AssertionError):
        return None
    names = set.intersection(*(set(fields) for _, fields, _ in steps))
    fields = {name: np.stack([of_step[name] for _, of_step, _ in steps]) for name in sorted(names)}
    fields["time"] = np.array([time for time, _, _ in steps], np.float64)
    left = {name for _, of_step, _ in steps for name in of_step} - names
    on_cells = sorted({name for *_, of_cells in steps for name in of_cells})
    return points, cells, fields, on_cells, dict.fromkeys(sorted(left), "it is not at every time")

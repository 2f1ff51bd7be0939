# SPDX-License-Identifier: MIT
"""Points, cells and fields of all meshes that VTK reads, by PyVista, and cases of OpenFOAM."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, reason
from gnograd.data.readers import library as limits
from gnograd.data.readers import vtk_lists
from gnograd.data.readers.library import library
from gnograd.data.readers.mesh import Mesh, contents_of

LIBRARIES = ("meshio", "pyvista")

Array = NDArray[Any]

FORMATS = {
    ".vti": "VTK image", ".vtr": "VTK rectilinear grid", ".vts": "VTK structured grid",
    ".vtp": "VTK surface", ".vtu": "vtu", ".vtk": "vtk", ".pvd": "pvd", ".pvtu": "pvtu",
    ".vtm": "VTK blocks", ".pvtp": "VTK surface in pieces", ".pvti": "VTK image in pieces",
    ".pvtr": "VTK rectilinear grid in pieces", ".pvts": "VTK structured grid in pieces",
    ".stl": "STL", ".ply": "PLY", ".foam": "OpenFOAM",
}  # fmt: skip
"""Formats by suffix."""

_PIXEL, _VOXEL, _POLYGON, _STRIP, _POLYHEDRON = 8, 11, 7, 6, 42
"""Types of cells whose points have no order of meshio's, or any number."""


def contents(path: Path) -> Contents:
    """Points of a mesh as ``points``, and the fields on them and on its cells.

    Fields of OpenFOAM are those on cells, at all times; nothing is interpolated to points.

    Raises
    ------
    DataError
    """
    pyvista = library("pyvista", path)
    library("meshio", path)
    suffix = path.suffix.lower()

    def one(file: Path) -> Mesh:
        with pyvista.VtkErrorCatcher(raise_errors=True):
            if file.suffix.lower() in _STRUCTURED:
                vtk_lists.check(file)
                return _mesh(_pieces(pyvista, file))
            return _mesh(pyvista.read(file))

    try:
        if suffix in vtk_lists.LISTS and suffix not in _STRUCTURED:
            mesh = vtk_lists.read(path, one)
        elif suffix == ".foam":
            mesh = _case(pyvista, path)
        else:
            mesh = one(path.resolve())
        return contents_of(path, f"mesh ({FORMATS[suffix]})", mesh)
    except DataError as error:
        raise DataError(f"{path}: cannot be read as a mesh ({error})") from error
    except (Exception, SystemExit) as error:
        text = reason(error) if isinstance(error, (MemoryError, OSError)) else ""
        text = text or "damaged, or not of this format"
        raise DataError(f"{path}: cannot be read as a mesh ({text})") from error


def size_of(path: Path) -> int:
    """Bytes of a file, of those that it lists, and of the case that it stands for."""
    suffix = path.suffix.lower()
    if suffix in vtk_lists.LISTS:
        return vtk_lists.size_of(path)
    return limits.size_of(path.resolve().parent if suffix == ".foam" else path)


_STRUCTURED = {
    ".pvti": "vtkXMLPImageDataReader", ".pvtr": "vtkXMLPRectilinearGridReader",
    ".pvts": "vtkXMLPStructuredGridReader",
}  # fmt: skip
"""VTK's readers of grids in pieces, which join them."""


def _pieces(pyvista: Any, path: Path) -> Any:
    from vtkmodules import vtkIOXML

    reader = getattr(vtkIOXML, _STRUCTURED[path.suffix.lower()])()
    reader.SetFileName(str(path))
    reader.Update()
    return pyvista.wrap(reader.GetOutput())


def _mesh(found: Any) -> Mesh:
    if not hasattr(found, "cast_to_unstructured_grid") or not hasattr(found, "points"):
        raise DataError("it holds several meshes; write each as a file")
    grid = found.cast_to_unstructured_grid()
    points = np.array(grid.points, np.float64)
    fields = {name: np.array(grid.point_data[name]) for name in grid.point_data.keys()}  # noqa: SIM118
    blocks, numbers = _blocks(grid)
    on_cells = {}
    for name in grid.cell_data.keys():  # noqa: SIM118
        field = np.array(grid.cell_data[name])
        on_cells[name] = [field[rows] for rows in numbers]
    return Mesh(points, blocks, fields, on_cells, {})


def _blocks(grid: Any) -> tuple[list[tuple[str, Array]], list[Array]]:
    """Cells by type and number of points, and their numbers."""
    from meshio._vtk_common import vtk_to_meshio_type

    kinds = np.asarray(grid.celltypes)
    offsets, members = np.asarray(grid.offset), np.asarray(grid.cell_connectivity)
    sizes = np.diff(offsets)
    blocks, numbers = [], []
    for kind, size in np.unique(np.stack([kinds, sizes], axis=1), axis=0).tolist():
        rows = np.flatnonzero((kinds == kind) & (sizes == size))
        points = members[offsets[rows][:, None] + np.arange(size)].astype(np.int64)
        if kind == _PIXEL:
            name, points = "quad", points[:, [0, 1, 3, 2]]
        elif kind == _VOXEL:
            name, points = "hexahedron", points[:, [0, 1, 3, 2, 4, 5, 7, 6]]
        elif kind == _POLYGON:
            name = {3: "triangle", 4: "quad"}.get(size, "polygon")
        elif kind == _POLYHEDRON:
            name = f"polyhedron{size}"
        elif kind in vtk_to_meshio_type and kind != _STRIP:
            name = vtk_to_meshio_type[kind]
        else:
            raise DataError(f"it has cells of VTK's type {kind}; triangulate it")
        blocks.append((name, points))
        numbers.append(rows)
    return blocks, numbers


def _case(pyvista: Any, path: Path) -> Mesh:
    """Fields on the cells of a case of OpenFOAM at all its times."""
    folder = path.resolve().parent
    if not (folder / "system" / "controlDict").is_file():
        raise DataError("its folder is no case of OpenFOAM: it has no system/controlDict")
    if not (folder / "constant" / "polyMesh").is_dir():
        what = "decomposed: run reconstructPar" if (folder / "processor0").is_dir() else "no mesh"
        raise DataError(f"its folder is {what}")
    _check_case(folder)
    with pyvista.VtkErrorCatcher(raise_errors=True):
        reader = pyvista.POpenFOAMReader(path.resolve())
        reader.cell_to_point_creation = False
        reader.skip_zero_time = False
        reader.enable_all_cell_arrays()
        times, meshes = [], []
        for time in reader.time_values or [0.0]:
            if reader.time_values:
                reader.set_active_time_value(time)
            mesh = _mesh(reader.read()["internalMesh"])
            if mesh.on_cells or mesh.fields:
                times.append(time)
                meshes.append(mesh)
    if not meshes:
        raise DataError("the case has no fields")
    made: Mesh = vtk_lists.in_time(times, meshes, Mesh)
    return made


def _check_case(folder: Path) -> None:
    """Raise DataError for files of a case that name files elsewhere."""
    parts: Sequence[Path] = [folder / "system", folder / "constant", *folder.glob("[0-9]*")]
    for part in parts:
        for file in part.rglob("*") if part.is_dir() else ():
            name = file.relative_to(folder)
            if file.is_symlink():
                raise DataError(f"'{name}' is a link")
            if file.is_file():
                with open(file, "rb") as opened:
                    start = opened.read(1 << 16)
                if found := re.search(rb"^\s*#\s*(include\w*|calc|code\w*)", start, re.MULTILINE):
                    raise DataError(f"'{name}' has #{found[1].decode()}, which is not followed")

# SPDX-License-Identifier: MIT
"""Points, cells and fields of a mesh, by meshio: VTU, VTK, XDMF, gmsh."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers.library import library

POINTS = "points"
"""Name of the array of the points."""
FORMATS = {".vtu": "vtu", ".vtk": "vtk", ".xdmf": "xdmf", ".xmf": "xdmf", ".msh": "gmsh"}
"""meshio's names."""


def contents(path: Path) -> Contents:
    """Points of a mesh as ``points``, and the fields on them.

    Coordinates that are zero everywhere are left out, the last ones first: formats want three.
    XDMF with several times gives fields (n_times, n_points, ..) and an array ``time``.

    Raises
    ------
    DataError
    """
    meshio = library("meshio", path)
    if not path.is_file():
        raise DataError(f"{path}: cannot be read (is not a file)")
    try:
        # meshio prints what is wrong, and may end the program
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            kind = FORMATS[path.suffix.lower()]
            at_times = {}
            if kind == "xdmf" and (series := _series(meshio, path)):
                points, cells, fields, on_cells, at_times = series
            else:
                mesh = meshio.read(path, file_format=kind)
                points, fields, on_cells = mesh.points, mesh.point_data, list(mesh.cell_data)
                cells = mesh.cells
    except (Exception, SystemExit) as error:
        ended = isinstance(error, SystemExit)  # with a number, which is no reason
        text = "damaged, or not of this format" if ended else reason(error)
        raise DataError(f"{path}: cannot be read as a mesh ({text})") from error
    points = np.asarray(points, np.float64)
    arrays = {POINTS: _in_fewest_dimensions(points)}
    flat = points.shape[1] - arrays[POINTS].shape[1]
    unused = {name: "it is on cells; bring it to the points" for name in on_cells} | at_times
    for name, field in fields.items():
        if name == POINTS:
            unused[f"{name} (a field)"] = "its name is that of the mesh's points"
        elif name.startswith("gmsh:"):
            unused[name] = "it is what gmsh numbers points by, no field"
        elif why := numeric(field):
            unused[name] = why
        else:
            arrays[name] = np.asarray(field)
    by_type = _by_type(cells)
    for name, members in by_type.items():
        if members.size and not (members.min() >= 0 and members.max() < len(points)):
            raise DataError(f"{path}: cells of type '{name}' have points that are not there")
    return Contents(path, f"mesh ({kind})", arrays, unused, by_type, flat)


def _in_fewest_dimensions(points: NDArray[Any]) -> NDArray[Any]:
    d = points.shape[1]
    while d > 1 and not points[:, d - 1].any():
        d -= 1
    return np.ascontiguousarray(points[:, :d])


def _by_type(cells: Any) -> dict[str, NDArray[Any]]:
    """Blocks of cells of one type as one."""
    blocks: dict[str, list[NDArray[Any]]] = {}
    for block in cells:
        if isinstance(block.data, np.ndarray) and block.data.ndim == 2:
            blocks.setdefault(block.type, []).append(block.data)
    return {name: np.concatenate(parts) for name, parts in blocks.items()}


def _series(meshio: Any, path: Path) -> Any:
    """Fields at several times, or None where the file has but one mesh."""
    try:
        with meshio.xdmf.TimeSeriesReader(path) as reader:
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

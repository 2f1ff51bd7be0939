# SPDX-License-Identifier: MIT
"""Writing of fields on points, for other programs."""

from __future__ import annotations

import os
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Centers, DataError
from gnograd.data.readers.library import library
from gnograd.data.roles import OFFSETS, TIMES
from gnograd.data.samples import Sample
from gnograd.weights import replaced, save_weights

__all__ = ["WRITERS", "Prediction", "check_names", "write"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Prediction:
    """Fields on the points of one sample."""

    points: Array
    """Coordinates (n, d)."""
    fields: Mapping[str, Array]
    """Fields (n, channels), or trajectories (n_times, n, channels)."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    in_time: bool = False
    times: Array | None = None
    """Times of trajectories, (n_times,), if known."""
    centers: Centers | None = None
    """Mesh whose cells the points are centers of, if they are; meshes are written with it."""

    @classmethod
    def of(
        cls,
        sample: Sample,
        fields: Mapping[str, Array],
        in_time: bool = False,
        times: Array | None = None,
    ) -> Prediction:
        """Fields at the queries of a sample, and NaN at those that a mask has left out.

        Parameters
        ----------
        sample : Sample
        fields : mapping of str to ndarray, (m, channels) or (n_times, m, channels)
        in_time : bool
        times : ndarray, (n_times,), optional
        """
        points, cells = sample.queries, sample.cells
        if sample.unmasked is not None:
            points, keep, cells = sample.unmasked
            whole = {}
            for name, field in fields.items():
                shape = (*field.shape[:-2], len(points), field.shape[-1])
                whole[name] = np.full(shape, np.nan, field.dtype)
                whole[name][..., keep, :] = field
            fields = whole
        return cls(points, fields, cells, in_time, times, sample.centers)


def write(path: str | os.PathLike[str], predictions: Sequence[Prediction]) -> list[Path]:
    """Write fields to a file in the format of its suffix.

    Parameters
    ----------
    path : path-like
        ``.npz`` and ``.safetensors`` hold all samples: ``points`` and every field with an axis of
        samples in front or, if samples have different numbers of points, joined, with ``offsets``.
        ``.vtu`` holds one mesh: several samples, and several times, are files with numbers in their
        names, and a ``.pvd`` file lists them for ParaView.
    predictions : sequence of Prediction

    Returns
    -------
    list of pathlib.Path
        Written files, the one to be opened first.

    Raises
    ------
    DataError
        The suffix is none of these; a field has a name that the file cannot hold; the file cannot
        be written, and an old one stays.
    """
    path = Path(path)
    for prediction in predictions:
        check_names(path, prediction.fields, prediction.in_time)
    writer = WRITERS[path.suffix.lower()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return writer(path, predictions)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


def check_names(path: str | os.PathLike[str], names: Iterable[str], in_time: bool = False) -> None:
    """Raise DataError for names of fields that a file cannot hold, or uses otherwise.

    Parameters
    ----------
    path : path-like
        File to be written.
    names : iterable of str
    in_time : bool
        True if fields are trajectories.

    Raises
    ------
    DataError
        A name is not allowed, and the message says which; or the suffix is unknown.
    """
    suffix, names = Path(path).suffix.lower(), list(names)
    if suffix not in WRITERS:
        raise DataError(f"{path}: files are written that end in {', '.join(WRITERS)}")
    taken: dict[str, str] = {}
    if suffix != ".vtu":
        taken = {"points": "the points", OFFSETS: "where samples begin"}
        taken |= {TIMES[0]: "the times"} if in_time else {}
    if suffix == ".safetensors":
        taken["__metadata__"] = "lines of text"
    for name in names:
        why = ""
        if name in taken:
            why = f"that is the name of {taken[name]} there"
        elif any(unicodedata.category(c) in ("Cc", "Cs", "Cn") for c in name) or (
            suffix == ".vtu" and set(name) & set('<>&"')  # meshio does not escape them
        ):
            why = "it has a character that names cannot have there"
        elif suffix == ".npz" and f"{name}.npy" in names:
            why = f"'{name}.npy' would be taken for it"  # by numpy.load
        if why:
            raise DataError(f"{path}: a field called {name!r} cannot be written ({why})")


def _npz(path: Path, predictions: Sequence[Prediction]) -> list[Path]:
    # not by numpy.savez, which takes some names for its own arguments
    with replaced(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in _arrays(predictions).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
    return [path]


def _safetensors(path: Path, predictions: Sequence[Prediction]) -> list[Path]:
    save_weights(path, _arrays(predictions))
    return [path]


def _arrays(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Join all samples in one array a field."""
    points = [p.points for p in predictions]
    names = predictions[0].fields
    if len({x.shape for x in points}) == 1:
        one = all(np.array_equal(x, points[0]) for x in points)
        times = [p.times for p in predictions if p.times is not None]
        known = {}
        if len(times) == len(predictions):
            same = all(np.array_equal(t, times[0]) for t in times)
            known = {TIMES[0]: times[0] if same else np.stack(times)}
        return (
            {"points": points[0] if one else np.stack(points)}
            | known
            | {name: np.stack([p.fields[name] for p in predictions]) for name in names}
        )
    if predictions[0].in_time:
        raise DataError("trajectories on different numbers of points need a file each")
    return {
        "points": np.concatenate(points),
        OFFSETS: np.cumsum([0, *map(len, points)]),
    } | {name: np.concatenate([p.fields[name] for p in predictions]) for name in names}


def _vtu(path: Path, predictions: Sequence[Prediction]) -> list[Path]:
    meshes = []  # time, number of the sample, points, fields, cells
    for k, p in enumerate(predictions):
        times = len(next(iter(p.fields.values()))) if p.in_time else 1
        for t in range(times):
            fields = {name: f[t] if p.in_time else f for name, f in p.fields.items()}
            meshes.append((t, k, p, fields))
    if len(meshes) == 1:
        _write_mesh(path, *meshes[0][2:])
        return [path]
    several = len(predictions) > 1
    digits = max(4, len(str(len(meshes))))
    names, entries = [], []
    collection = path.with_suffix(".pvd")
    # files that are there stay until all new ones are written
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as folder:
        for t, k, p, fields in meshes:
            number = f"_{k:0{digits}}" if several else ""
            number += f"_{t:0{digits}}" if p.in_time else ""
            names.append(f"{path.stem}{number}.vtu")
            _write_mesh(Path(folder, names[-1]), p, fields)
            # without time, ParaView shows samples one after the other
            time = k if not p.in_time else t if p.times is None else float(p.times[t])
            entries.append((time, k, names[-1]))
        _write_collection(Path(folder, collection.name), entries)
        collection.unlink(missing_ok=True)  # which must not list files of two predictions
        for name in [*names, collection.name]:
            os.replace(Path(folder, name), path.with_name(name))
    return [collection, *map(path.with_name, names)]


def _write_mesh(path: Path, prediction: Prediction, fields: Mapping[str, Array]) -> None:
    meshio = library("meshio", path)
    at, mesh_cells, centers = prediction.points, prediction.cells, prediction.centers
    if centers is not None and any(name.startswith("polyhedron") for name in centers.cells):
        centers = None
    if centers is not None:
        at, mesh_cells = centers.points, centers.cells
    n, d = at.shape
    points = np.zeros((n, 3))
    points[:, :d] = at
    # without a mesh, one cell for every point: ParaView does not show points without cells
    cells = [
        ("polygon" if name.startswith("polygon") else name, members)
        for name, members in mesh_cells.items()
        if not name.startswith("polyhedron")  # their faces are not known
    ]
    cells = cells or [("vertex", np.arange(n)[:, None])]
    # vectors in a plane get a third component for ParaView
    shown = {
        name: f[:, 0] if f.shape[1] == 1
        else np.pad(f, ((0, 0), (0, 1))) if f.shape[1] == 2 == d else f
        for name, f in fields.items()
    }  # fmt: skip
    if centers is None:
        mesh = meshio.Mesh(points, cells, point_data=shown)
    else:
        sizes = [len(members) for _, members in cells]
        on_cells = {}
        for name, f in shown.items():
            every = np.full((sum(sizes), *f.shape[1:]), np.nan, f.dtype)
            every[centers.rows] = f
            on_cells[name] = np.split(every, np.cumsum(sizes)[:-1])
        mesh = meshio.Mesh(points, cells, cell_data=on_cells)
    with replaced(path) as stream:
        meshio.vtu.write(os.dup(stream.fileno()), mesh)  # it opens descriptors, too


def _write_collection(path: Path, entries: Sequence[tuple[float, int, str]]) -> None:
    from xml.sax.saxutils import quoteattr

    lines = ['<?xml version="1.0"?>', '<VTKFile type="Collection" version="0.1">', "<Collection>"]
    lines += [
        f'<DataSet timestep="{time}" part="{part}" file={quoteattr(name)}/>'
        for time, part, name in entries
    ]
    with replaced(path) as stream:
        stream.write("\n".join([*lines, "</Collection>", "</VTKFile>", ""]).encode())


WRITERS: dict[str, Callable[[Path, Sequence[Prediction]], list[Path]]] = {
    ".vtu": _vtu,
    ".npz": _npz,
    ".safetensors": _safetensors,
}
"""Functions that write predictions, by suffix."""

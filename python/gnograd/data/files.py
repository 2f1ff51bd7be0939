# SPDX-License-Identifier: MIT
"""Reading of data files, by their suffixes."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gnograd.data.cells import at_centers
from gnograd.data.contents import Contents, DataError, reason
from gnograd.data.readers import (
    mesh,
    npz,
    process,
    safetensors,
    torch_file,
    vtk_data,
    vtk_lists,
)
from gnograd.data.reading import samples_of
from gnograd.data.roles import Roles, by_number
from gnograd.data.samples import Facts, Made, PointData, Sample
from gnograd.data.stored import LIMIT, Spool

__all__ = ["SUFFIXES", "contents", "expand", "load", "read", "together"]

_hdf5 = partial(process.contents, "hdf5", "HDF5")
_netcdf = partial(process.contents, "netcdf", "NetCDF")
_table = partial(process.contents, "table", "a table")

SUFFIXES: dict[str, Callable[[Path], Contents]] = {
    ".npz": npz.contents,
    ".safetensors": safetensors.contents,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".zarr": partial(process.contents, "zarr_store", "zarr"),
    ".mat": partial(process.contents, "matlab", "a MATLAB file"),
    ".pt": torch_file.contents,
    ".pth": torch_file.contents,
    ".npy": npz.one_array,
    ".nc": _netcdf,
    ".nc4": _netcdf,
    ".cdf": _netcdf,
    ".csv": _table,
    ".txt": _table,
    ".dat": _table,
    **{
        suffix: partial(process.contents, "vtk_data", f"a mesh ({kind})")
        for suffix, kind in vtk_data.FORMATS.items()
    },
    **{
        suffix: partial(process.contents, "mesh", f"a mesh ({kind})")
        for suffix, kind in mesh.FORMATS.items()
    },
}
"""Readers by the suffixes of files."""

_GAP, _ROUNDING = 1.4, 2.5
"""Bounds of what rounding explains among steps of numbers in names: the longest relative to the
shortest, and their difference in units of the last digit, of which each end is off by half."""


def _by_vtk(path: Path, error: DataError) -> Contents:
    """Contents of a mesh that meshio has not read, by PyVista if it is installed."""
    suffix = path.suffix.lower()
    if suffix not in vtk_data.FORMATS or suffix not in mesh.FORMATS:
        raise error
    if importlib.util.find_spec("pyvista") is None:
        raise DataError(f"{error}; or install pyvista, which reads more: pip install pyvista")
    try:
        return process.contents("vtk_data", f"a mesh ({suffix[1:]})", path)
    except DataError:
        raise error from None


def contents(path: str | os.PathLike[str]) -> Contents:
    """Everything in a file.

    Parameters
    ----------
    path : path-like
        File whose suffix is one of `SUFFIXES`.

    Returns
    -------
    Contents

    Raises
    ------
    DataError
        The file cannot be read, or needs a library that is not installed.
    """
    path = Path(path)
    reader = SUFFIXES.get(path.suffix.lower())
    if reader is None or _unknown(path):
        raise DataError(f"{path}: {_unread(path)}")
    try:
        kind = path.stat().st_mode
    except OSError as error:
        raise DataError(f"{path}: {reason(error)}") from error
    # reading a pipe would wait
    if not (stat.S_ISDIR(kind) if path.suffix.lower() == ".zarr" else stat.S_ISREG(kind)):
        raise DataError(
            f"{path}: cannot be read (is not a {'folder' if stat.S_ISREG(kind) else 'file'})"
        )
    try:
        return reader(path)
    except DataError as error:
        return _by_vtk(path, error)


def _unknown(path: Path) -> str | None:
    """Format that two suffixes tell, and that is not read."""
    return mesh.UNREAD.get("".join(path.suffixes[-2:]).lower())


def _unread(path: Path) -> str:
    """Message about a file that cannot be read."""
    known = f"files are read that end in {', '.join(SUFFIXES)}"
    what = _unknown(path) or mesh.UNREAD.get(path.suffix.lower())
    return known if what is None else f"{known}; this is {what}"


def expand(paths: Iterable[str | os.PathLike[str]]) -> list[list[Path]]:
    """Expand paths to files, one list for each of `paths`.

    Parameters
    ----------
    paths : iterable of path-like
        Files, folders (all files of known formats in them) and patterns like ``*.vtu``. Files of a
        folder or pattern are sorted by name, with numbers by their values.

    Raises
    ------
    DataError
        There is no such file.
    """
    found = []
    for given in map(Path, paths):
        if given.is_dir() and given.suffix.lower() != ".zarr":
            files = sorted(_of_folder(list(filter(_is_data, given.iterdir()))), key=_place)
            if not files:
                raise DataError(f"{given}: holds no files that end in {', '.join(SUFFIXES)}")
            found.append(files)
        elif given.exists():
            found.append([given])
        else:
            files = sorted(map(Path, glob.glob(str(given), recursive=True)), key=_place)
            if not files:
                raise DataError(f"{given}: No such file or directory")
            found.append(files)
    return found


def _place(file: Path) -> tuple[list[str | int], str]:
    """Key for sorting files: step_2 comes before step_10."""
    return by_number(str(file))


def _of_folder(files: list[Path]) -> list[Path]:
    """Files of a folder without those that only list or describe others, or are their pieces."""
    for few in ((".csv", ".txt", ".dat"), (".pvd",)):
        others = [file for file in files if file.suffix.lower() not in few]
        files = others or files
    for suffix in {file.suffix.lower() for file in files} & set(vtk_lists.LISTS) - {".pvd"}:
        pieces = (".vtu", ".vtp") if suffix == ".vtm" else (suffix.replace("p", "", 1),)
        files = [file for file in files if file.suffix.lower() not in pieces]
    return files


def _is_data(file: Path) -> bool:
    """True if a file of a folder has a known format and is not the data of an XDMF file."""
    suffix = file.suffix.lower()
    of_another = suffix == ".h5" and any(file.with_suffix(s).exists() for s in (".xdmf", ".xmf"))
    return suffix in SUFFIXES and not file.name.startswith(".") and not of_another


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    roles: Roles | None = None,
    needs_outputs: bool = True,
) -> PointData:
    """Read samples from files.

    Parameters
    ----------
    paths : path-like or sequence of these
        Files, folders and patterns, as for `expand`. With a state in time, the meshes of a folder
        are the times of one trajectory, in the order of their names, with all fields that change.
    roles : Roles, optional
        Names of the arrays.
    needs_outputs : bool
        Require outputs.

    Returns
    -------
    PointData

    Raises
    ------
    DataError
        A file cannot be read, or is inconsistent, by itself or with the others.

    Examples
    --------
    >>> import gnograd.data, numpy as np, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "heat.npz"
    >>> rng = np.random.default_rng(0)
    >>> np.savez(path, points=rng.random((50, 2)), source=rng.random((8, 50)),
    ...          temperature=rng.random((8, 50, 1)))
    >>> data = gnograd.data.read(path, gnograd.data.Roles(outputs=("temperature",)))
    >>> len(data), data.layout.inputs
    (8, (Field(name='source', width=1),))
    """
    roles = Roles() if roles is None else roles
    parts: list[PointData] = []
    kept, spool = 0, None
    for files in expand([paths] if isinstance(paths, str | os.PathLike) else paths):
        if roles.states and len(files) > 1 and all(map(_is_mesh, files)):
            several: Iterable[Contents] = [
                _as_times([load(file, roles) for file in files], roles.states)
            ]
        elif any(file.suffix.lower() == ".npy" for file in files):
            several = together([load(file, roles) for file in files])
        else:
            several = (load(file, roles) for file in files)
        for each in several:
            part = samples_of(each, roles, needs_outputs)
            if isinstance(part.samples, list):
                kept += sum({id(a): a.nbytes for s in part.samples for a in s.arrays}.values())
            if kept > LIMIT and isinstance(part.samples, list):
                spool = Spool() if spool is None else spool
                part = replace(part, samples=_spooled(part.samples, spool))
            parts.append(part)
    return PointData.join(parts)


def _spooled(samples: Sequence[Sample], spool: Spool) -> Made:
    """Samples whose arrays are kept in a temporary file."""
    getters: dict[int, Callable[[], Any]] = {}

    def put(value: Any) -> Callable[[dict[Any, Any]], Any]:
        """Function that reads a value, by what has been read of the sample before."""
        if isinstance(value, np.ndarray):
            if id(value) not in getters:
                getters[id(value)] = spool.put(value)
            get = getters[id(value)]
            return lambda read: read[get] if get in read else read.setdefault(get, get())
        if isinstance(value, tuple):
            kind, items = type(value), [put(item) for item in value]
            return lambda read: kind(*(item(read) for item in items))
        if isinstance(value, Mapping):
            parts = {name: put(item) for name, item in value.items()}
            return lambda read: {name: item(read) for name, item in parts.items()}
        return lambda read: value

    rows = [
        {attribute.name: put(getattr(sample, attribute.name)) for attribute in fields(sample)}
        for sample in samples
    ]

    def make(k: int) -> Sample:
        read: dict[Any, Any] = {}
        return Sample(**{name: get(read) for name, get in rows[k].items()})

    return Made(make, Facts.of(samples))


def load(path: Path, roles: Roles) -> Contents:
    """Everything in a file, on its cells if roles say so."""
    found = contents(path)
    return at_centers(found) if roles.cells else found


def together(loaded: Sequence[Contents]) -> list[Contents]:
    """Contents of files, with the arrays of all files ``.npy`` of a folder as one."""
    kept: dict[Path, Contents] = {}
    for each in loaded:
        if each.path.suffix.lower() != ".npy":
            kept[each.path] = each
            continue
        before = kept.get(each.path.parent, Contents(each.path, each.kind, {}))
        kept[each.path.parent] = replace(
            each,
            path=each.path.parent,
            arrays={**before.arrays, **each.arrays},
            unused={**before.unused, **each.unused},
            units={**before.units, **each.units},
        )
    return list(kept.values())


def _is_mesh(path: Path) -> bool:
    return path.suffix.lower() in {**mesh.FORMATS, **vtk_data.FORMATS}


def _check_order(files: Sequence[Path]) -> None:
    """Raise DataError if numbers in names, as decimal ones, have another order."""
    numbers = [[float(text) for text in _numbers_in(f)] for f in files]
    for before, after, a, b in zip(files, files[1:], numbers, numbers[1:], strict=False):
        if a > b:
            raise DataError(
                f"{after}: if the numbers in names are decimal, it comes before {before.name}, "
                "else behind it; number the files, or list them with their times in a .pvd file"
            )


def _check_even(files: Sequence[Path]) -> None:
    """Raise DataError if the one number that differs among names is uneven.

    It is a time, or grows with it.
    """
    texts = [_numbers_in(file) for file in files]
    columns = list(zip(*texts, strict=True)) if len({*map(len, texts)}) == 1 else []
    differ = [column for column in columns if len({*map(float, column)}) > 1]
    if len(differ) != 1:
        return
    unit = 10.0 ** -max(len(text.partition(".")[2]) for text in differ[0])
    steps = np.diff([float(text) for text in differ[0]])
    short, k = steps.min(), int(np.argmax(steps))
    if short > 0 and (steps[k] > _GAP * short or steps[k] - short > _ROUNDING * unit):
        raise DataError(
            f"{files[k + 1]}: the numbers in the names of the times are uneven: a step is "
            f"{steps[k]:.7g} from {files[k].name}, and {short:.7g} elsewhere; if no time is "
            "missing, list the files with their times in a .pvd file"
        )


def _numbers_in(file: Path) -> list[str]:
    """Numbers in the name of a file, as decimal ones."""
    return re.findall(r"[0-9]+(?:\.[0-9]+)?", file.stem)


def _as_times(loaded: Sequence[Contents], states: Sequence[str]) -> Contents:
    """Join meshes with one time each to a trajectory."""
    first = loaded[0]
    paths = [each.path for each in loaded]
    _check_order(paths)
    _check_even(paths)
    for each in loaded:
        if each.series:
            raise DataError(f"{each.path}: has several times; give it as a path of its own")
        for name in states:
            if name not in each.arrays:
                raise DataError(f"{each.path}: array '{name}' is missing")
            if each.arrays[name].shape != first.arrays[name].shape:
                raise DataError(f"{each.path}: '{name}' has another shape than in {first.path}")
        if not np.array_equal(each.arrays[mesh.POINTS], first.arrays[mesh.POINTS]):
            raise DataError(f"{each.path}: has other points than {first.path}, needs the same")
        if each.cells.keys() != first.cells.keys() or not all(
            np.array_equal(each.cells[name], first.cells[name]) for name in first.cells
        ):
            raise DataError(f"{each.path}: has other cells than {first.path}, needs the same")
    arrays, unused = {mesh.POINTS: first.arrays[mesh.POINTS]}, dict(first.unused)
    for name in {name: None for each in loaded for name in each.arrays}:
        if name == mesh.POINTS:
            continue
        missing = [each.path.name for each in loaded if name not in each.arrays]
        fields = [each.arrays[name] for each in loaded if name in each.arrays]
        if missing:
            unused[name] = f"it is not in {missing[0]}"
        elif len({field.shape for field in fields}) > 1:
            unused[name] = "it does not have the same shape in all files"
        elif name not in states and all(np.array_equal(fields[0], field) for field in fields):
            arrays[name] = fields[0]
        else:
            steps = np.stack(fields)
            arrays[name] = steps[..., None] if steps.ndim == 2 else steps
    return replace(first, path=first.path.parent, arrays=arrays, unused=unused)

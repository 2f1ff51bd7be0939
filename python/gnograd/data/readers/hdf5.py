# SPDX-License-Identifier: MIT
"""Arrays of an HDF5 file, by their paths: ``group/dataset``, with scales of their attributes."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers import library as memory
from gnograd.data.readers.library import CLAIM, Budget, library
from gnograd.data.readers.packing import Packing
from gnograd.data.stored import LARGE, slabs
from gnograd.data.units import unit_of

LIBRARIES = ("h5py", "hdf5plugin")
"""Modules to import; the second, if installed, registers filters on import."""

_MATLAB = (
    "", "double", "single", "logical", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
)  # fmt: skip
"""Classes of MATLAB that are numbers."""
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
"""What NetCDF writes as the name of a dimension alone."""


def contents(path: Path) -> Contents:
    """All arrays of a file.

    Raises
    ------
    DataError
    """
    h5py = library("h5py", path)
    try:
        with h5py.File(path, "r") as file:
            found = arrays_of(path, "HDF5", file, h5py)
    except Exception as error:  # h5py raises almost anything on invalid bytes
        raise DataError(f"{path}: cannot be read as HDF5 ({reason(error)})") from error
    return found


def arrays_of(path: Path, kind: str, group: Any, h5py: Any) -> Contents:
    """Contents of a group and its subgroups.

    Links to other files are not followed, for safety. Objects with several names, or that contain
    themselves, are taken once.
    """
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}
    notes: dict[str, str] = {}
    units: dict[str, str] = {}
    dimensions: dict[str, tuple[str, ...]] = {}
    budget = Budget(path.stat().st_size)
    seen = {_place(group, h5py): "/"}

    def visit(group: Any, before: str, depth: int) -> None:
        for name in group:
            link = group.get(name, getlink=True)
            full = before + name
            if not isinstance(link, h5py.HardLink):
                unused[full] = "it is a link"
                continue
            item = group[name]
            if (first := seen.setdefault(_place(item, h5py), full)) != full:
                unused[full] = f"it is '{first}' by another name"
            elif isinstance(item, h5py.Group):
                if "MATLAB_sparse" in item.attrs:
                    unused[full] = "it is sparse; store it dense"
                elif depth < 16:
                    visit(item, f"{full}/", depth + 1)
                else:
                    unused[full] = "it is too deep"
            elif isinstance(item, h5py.Dataset):
                why = refused(item) or (None if budget.take(item.nbytes) else CLAIM)
                if why is None:
                    try:
                        packing = Packing.of(item.attrs, item.dtype)
                    except DataError as error:
                        why = str(error)
                if why:
                    unused[full] = why
                else:
                    arrays[full] = _read(item, packing)
                    notes[full] = packing.note if packing else ""
                    units[full] = unit_of(item.attrs)
                    dimensions[full] = _dimensions(item)

    visit(group, "", 0)
    return Contents(path, kind, arrays, unused, notes=notes, units=units, dimensions=dimensions)


def _dimensions(item: Any) -> tuple[str, ...]:
    """Names of the axes of a dataset, by their scales or labels; none if one has none."""
    if item.is_scale and len(item.shape) == 1:
        return (item.name.rpartition("/")[-1],)
    names = []
    for axis in item.dims:
        scale = axis[0].name if len(axis) else None  # a scale in another file has no name
        names.append(scale.rpartition("/")[-1] if scale else axis.label)
    return tuple(names) if all(names) else ()


def _read(item: Any, packing: Packing | None) -> NDArray[Any]:
    if item.nbytes < LARGE or not item.shape:
        array = np.asarray(item[()])
        return array if packing is None else packing.unpacked(array)
    where = slabs(item.shape, item.dtype.itemsize, item.chunks)
    return memory.unpacked(item.shape, item.dtype, (item[part] for part in where), packing)


def _place(item: Any, h5py: Any) -> tuple[int, int]:
    """Unique identity of an object."""
    about = h5py.h5o.get_info(item.id)
    return about.fileno, about.addr


def _word(value: Any) -> str:
    """Text of an attribute."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def refused(item: Any) -> str | None:
    """Reason why a dataset is not read, or None."""
    if item.shape is None or item.attrs.get("MATLAB_empty"):
        return "it is empty"
    kind = _word(item.attrs.get("MATLAB_class", ""))
    if kind == "char":
        return "it is text"
    if kind not in _MATLAB or "MATLAB_object_decode" in item.attrs:
        return f"it is a {kind or 'object'} of MATLAB"
    if _word(item.attrs.get("NAME", "")).startswith(_NO_VARIABLE):
        return "it is a dimension without coordinates"
    if why := numeric(np.empty(0, item.dtype)):
        return why
    if item.is_virtual or item.external:
        return "its numbers are in another file"
    return None

# SPDX-License-Identifier: MIT
"""Arrays of a MATLAB file: version 5 to 7.2 by SciPy, 7.3, which is HDF5, by h5py."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers.hdf5 import arrays_of
from gnograd.data.readers.library import CLAIM, Budget, library

LIBRARIES = ("scipy.io",)

_HDF5 = b"\x89HDF\r\n\x1a\n"
_BLOCK = 512
"""Bytes of MATLAB's own header, after which HDF5 begins in files of version 7.3."""


def contents(path: Path) -> Contents:
    """All arrays of a file, with the axes that they have in MATLAB.

    Fields of a struct are arrays called ``struct.field``. Cells, functions and objects are left
    out.

    Raises
    ------
    DataError
    """
    try:
        with open(path, "rb") as file:
            start = file.read(_BLOCK + len(_HDF5))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from error
    # the text of the header is unreliable: some programs write that of version 7.0
    if start.startswith((b"MATLAB 7.3", _HDF5)) or start[_BLOCK:] == _HDF5:
        return _version_7_3(path)
    return _version_5(path)


def _version_5(path: Path) -> Contents:
    io = library("scipy.io", path)
    try:
        claimed = sum(8 * math.prod(shape) for _, shape, _ in io.whosmat(path))
        if not Budget(path.stat().st_size).take(claimed):
            raise DataError(CLAIM)
        found = io.loadmat(path, struct_as_record=True)
    except Exception as error:  # SciPy raises almost anything on invalid bytes
        raise DataError(f"{path}: cannot be read as a MATLAB file ({reason(error)})") from error
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}

    def take(name: str, value: Any) -> None:
        array = np.asarray(value)
        if array.dtype.names and array.size == 1 and not hasattr(value, "classname"):
            for field in array.dtype.names:
                take(f"{name}.{field}", array.reshape(-1)[0][field])
        elif array.dtype.names:
            unused[name] = "it is an array of structs, or an object"
        elif why := numeric(array):
            unused[name] = "it is a cell, function or object" if array.dtype.hasobject else why
        else:
            arrays[name] = array

    for name, value in found.items():
        if name not in ("__header__", "__version__", "__globals__"):
            take(name, value)
    return Contents(path, "MATLAB 5", arrays, unused)


def _version_7_3(path: Path) -> Contents:
    h5py = library("h5py", path)
    try:
        with h5py.File(path, "r") as file:
            found = arrays_of(path, "MATLAB 7.3", file, h5py)
    except Exception as error:
        raise DataError(f"{path}: cannot be read as MATLAB 7.3 ({reason(error)})") from error

    # MATLAB's first axis runs fastest, HDF5's last one; names with # are contents of cell arrays
    def named(of: Mapping[str, Any]) -> dict[str, Any]:
        return {n.replace("/", "."): x for n, x in of.items() if not n.startswith("#")}

    return replace(
        found,
        arrays=named({n: a.T for n, a in found.arrays.items()}),
        unused=named(found.unused),
        notes=named(found.notes),
        units=named(found.units),
        dimensions=named({n: tuple(reversed(x)) for n, x in found.dimensions.items()}),
    )

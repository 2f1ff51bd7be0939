# SPDX-License-Identifier: MIT
"""Arrays of an HDF5 file, by their paths: ``group/dataset``."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers.library import EXPANSION, library


def contents(path: Path) -> Contents:
    """All arrays of a file.

    Raises
    ------
    DataError
    """
    h5py = library("h5py", path)
    try:
        with h5py.File(path, "r") as file:
            arrays, unused = arrays_of(file, h5py, path.stat().st_size)
    except Exception as error:  # h5py raises almost anything on bytes that make no sense
        raise DataError(f"{path}: cannot be read as HDF5 ({reason(error)})") from error
    return Contents(path, "HDF5", arrays, unused)


def arrays_of(group: Any, h5py: Any, size: int) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Arrays of a group and the groups in it, and why others cannot be used.

    Links to other files are not followed: a file has no business in them.
    """
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}

    def visit(group: Any, before: str, depth: int) -> None:
        for name in group:
            link = group.get(name, getlink=True)
            full = before + name
            if not isinstance(link, h5py.HardLink):
                unused[full] = "it is a link"
                continue
            item = group[name]
            if isinstance(item, h5py.Group):
                if depth < 16:
                    visit(item, f"{full}/", depth + 1)
                else:
                    unused[full] = "it is too deep"
            elif isinstance(item, h5py.Dataset):
                why = _refused(item, size)
                if why:
                    unused[full] = why
                else:
                    arrays[full] = np.asarray(item[()])

    visit(group, "", 0)
    return arrays, unused


def _refused(item: Any, size: int) -> str | None:
    """Why a dataset is not read."""
    if item.shape is None:
        return "it is empty"
    if why := numeric(np.empty(0, item.dtype)):
        return why
    if item.is_virtual or item.external:
        return "its numbers are in another file"
    if item.nbytes > EXPANSION * size:
        return "it claims to be larger than the file can hold"
    return None

# SPDX-License-Identifier: MIT
"""Libraries for formats, imported when a file needs them, and limits on memory."""

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import DataError

INSTALL = {
    "h5py": "h5py",
    "meshio": "meshio",
    "zarr": "zarr",
    "torch": "torch",
    "scipy.io": "scipy",
    "pyvista": "pyvista",
    "netCDF4": "netCDF4",
}
"""Packages to install, by module."""

EXPANSION = 1100
"""Upper bound of deflate's compression ratio."""

SLACK = 1 << 28
"""Additional bytes that are allowed: constant arrays may be a few bytes in a file."""

CLAIM = "it claims to be larger than the file can hold"


def in_memory(
    shape: Sequence[int], dtype: np.dtype[Any], parts: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Array of its parts, which come in C order."""
    array = np.empty(shape, dtype)
    flat, at = array.reshape(-1), 0
    for part in parts:
        flat[at : at + part.size] = part.reshape(-1)
        at += part.size
    return array


assemble: Callable[..., NDArray[Any]] = in_memory
"""Function that makes an array of a shape and a dtype from its parts, which come in C order: a
process that reads for another one writes large ones to files, which the other maps."""


def unpacked(
    shape: Sequence[int], dtype: np.dtype[Any], parts: Iterable[NDArray[Any]], packing: Any
) -> NDArray[Any]:
    """Array of its parts, by their `Packing` if they have one."""
    if packing is None:
        return assemble(shape, dtype, parts)
    kind = packing.unpacked(np.empty(0, dtype)).dtype
    return assemble(shape, kind, map(packing.unpacked, parts))


class Budget:
    """Limit of the memory of all arrays of one file, from the size of the file.

    Parameters
    ----------
    size : int
        Bytes of the file, and of other files that belong to it.
    """

    def __init__(self, size: int) -> None:
        self.left = self.whole = EXPANSION * size + SLACK

    def take(self, n_bytes: int) -> bool:
        """Take memory for an array from the budget. True if there is enough."""
        if n_bytes > self.left:
            return False
        self.left -= n_bytes
        return True


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; links are not followed."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        (Path(folder) / name).lstat().st_size
        for folder, _, names in os.walk(path)
        for name in names
    )


def library(name: str, path: Path) -> Any:
    """Import a module for a file.

    Raises
    ------
    DataError
        It is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        what = INSTALL[name]
        raise DataError(
            f"{path}: needs {what} to be read; install it with: pip install {what}"
        ) from error

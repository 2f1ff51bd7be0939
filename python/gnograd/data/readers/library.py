# SPDX-License-Identifier: MIT
"""Libraries that read formats, imported when a file needs them, and what a file may ask of them."""

import importlib
import os
from collections.abc import Callable
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
}
"""What to install, by module."""

EXPANSION = 1100
"""More than a byte of compressed data can become, as deflate has it."""

SLACK = 1 << 28
"""Bytes that no byte of a file accounts for: arrays of one number may be a few bytes there."""

CLAIM = "it claims to be larger than the file can hold"


allocate: Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]] = np.empty
"""What gives memory to arrays that are read into it: a process that reads for another one has it
where the other can map it."""


class Budget:
    """Memory that all arrays of one file share: what its bytes can account for.

    Parameters
    ----------
    size : int
        Bytes of the file, and of those that belong to it.
    """

    def __init__(self, size: int) -> None:
        self.left = self.whole = EXPANSION * size + SLACK

    def take(self, n_bytes: int) -> bool:
        """Whether there is room for an array, which has it from now on."""
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
        It is not there; the message says what to install.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        what = INSTALL[name]
        raise DataError(
            f"{path}: needs {what} to be read; install it with: pip install {what}"
        ) from error

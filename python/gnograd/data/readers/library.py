# SPDX-License-Identifier: MIT
"""Libraries that read formats, imported when a file needs them."""

import importlib
from pathlib import Path
from typing import Any

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

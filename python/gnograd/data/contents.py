# SPDX-License-Identifier: MIT
"""What a file of data holds, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.text import printable

__all__ = ["Contents", "DataError", "numeric", "reason"]

Array = NDArray[Any]


class DataError(ValueError):
    """A file that cannot be used; the message names the file, and the array where it is one.

    It is one line, and nothing in it is more than text to a terminal.
    """

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message)))


@dataclass(frozen=True)
class Contents:
    """Arrays of a file by name."""

    path: Path
    kind: str
    """The format, for people."""
    arrays: Mapping[str, Array]
    unused: Mapping[str, str] = field(default_factory=dict)
    """What else there is, and why it cannot be used."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    """Of a mesh: points of the cells (n_cells, points of a cell) by meshio's names of types."""
    flat: int = 0
    """Of a mesh: coordinates of its points that are left out, as they are zero everywhere."""


def numeric(array: Any) -> str | None:
    """Why an array cannot be used, or None if it can."""
    kind = np.asarray(array).dtype.kind
    if kind in "fiub":
        return None
    return {
        "O": "it holds objects, which are never loaded",
        "c": "it is complex; store real and imaginary part as two arrays",
        "U": "it is text",
        "S": "it is text",
    }.get(kind, f"its type is {np.asarray(array).dtype}")


def reason(error: BaseException) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, OSError) and error.strerror and error.errno:
        return os.strerror(error.errno)  # libraries put texts of many lines there
    if isinstance(error, MemoryError):
        return "it needs more memory than there is, or than its size accounts for"
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__

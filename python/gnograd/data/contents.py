# SPDX-License-Identifier: MIT
"""Contents of a file of data in any format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.notation.text import printable

__all__ = [
    "ON_CELLS",
    "SECONDS",
    "Centers",
    "Contents",
    "DataError",
    "in_seconds",
    "numeric",
    "reason",
]

Array = NDArray[Any]

ON_CELLS = " (on cells)"
"""End of the name of a field on cells that is not used, if one on points has the name."""


class DataError(ValueError):
    """Error about a file that cannot be used; the message names the file, and the array if any.

    The message is one line without control characters for a terminal.
    """

    def __init__(self, message: object) -> None:
        super().__init__(printable(str(message)))


class Centers(NamedTuple):
    """Mesh whose cells, or some of them, are taken as points."""

    points: Array
    """Coordinates (n, d)."""
    cells: Mapping[str, Array]
    rows: Array
    """Number of the cell, in the order of `cells`, that each point is the center of."""


@dataclass(frozen=True)
class Contents:
    """Arrays of a file by name."""

    path: Path
    kind: str
    """Name of the format, for messages."""
    arrays: Mapping[str, Array]
    unused: Mapping[str, str] = field(default_factory=dict)
    """Other parts of the file, with the reason why they cannot be used."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    """Cells of a mesh as numbers of points (n_cells, points of a cell), by meshio's names of
    types."""
    on_cells: Mapping[str, Array] = field(default_factory=dict)
    """Fields on all cells, in the order of `cells`, with times in front in a series."""
    series: bool = False
    """True if fields are those of several times."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Words about how an array was read."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units that the file tells."""
    dimensions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the axes of arrays that the file tells."""
    centers: Centers | None = None
    """Mesh whose cells the points are centers of, if they are."""
    flat: int = 0
    """Number of coordinates of a mesh that are left out because they are zero everywhere."""

    def said(self, name: str) -> str:
        """What the file says of an array: names of axes, unit, and how it was read."""
        axes = ", ".join(self.dimensions.get(name, ()))
        words = (axes, self.units.get(name, ""), self.notes.get(name, ""))
        return "; ".join(filter(None, words))


FIELDS = "it has named fields; store each as an array"


def numeric(array: Any) -> str | None:
    """Reason why an array cannot be used, or None if it can."""
    dtype = np.asarray(array).dtype
    if dtype.kind in "fiub":
        return None
    if dtype.names:
        return FIELDS
    return {
        "O": "it holds objects, which are never loaded",
        "c": "it is complex; store real and imaginary part as two arrays",
        "U": "it is text",
        "S": "it is text",
    }.get(dtype.kind, f"its type is {dtype}")


SECONDS = "s since 1970-01-01"
"""Unit of the numbers that stand for dates."""


def in_seconds(array: Array) -> Array:
    """Dates, and lengths of time, of NumPy as numbers of seconds; other arrays as they are."""
    if array.dtype.kind == "M":
        array = array - np.datetime64(0, "s")
    if array.dtype.kind != "m" or np.datetime_data(array.dtype)[0] in ("Y", "M", "generic"):
        return array
    seconds: Array = array / np.timedelta64(1, "s")
    return seconds


def reason(error: BaseException) -> str:
    """Short reason why a file cannot be read."""
    if isinstance(error, OSError) and error.strerror and error.errno:
        return os.strerror(error.errno)  # libraries write many lines there
    if isinstance(error, MemoryError):
        return "it needs more memory than there is, or than its size accounts for"
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__

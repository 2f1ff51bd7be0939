# SPDX-License-Identifier: MIT
"""Columns of a table in text form, with their names in the first line."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, reason

LIBRARIES = ()


def contents(path: Path) -> Contents:
    """Columns by name; those that ParaView calls ``U:0``, ``U:1``, .. are one array ``U``.

    The first line has the names, separated as the numbers are: by commas, semicolons, tabs or
    blanks. It may begin with ``#`` or ``%``. Without a line of names the columns have none, which
    is an error.

    Raises
    ------
    DataError
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        comments = 0
        while comments < len(lines) and lines[comments].lstrip()[0] in "#%":
            comments += 1
        header = max(comments - 1, 0)  # the last comment has the names
        names, separator = _names(lines[header]) if lines else ([], None)
        rows = lines[header + 1 :]
        if not rows:
            raise DataError("it has no rows of numbers")
        if separator == ";" and any("," in line for line in rows[:10]):
            raise DataError("it has decimal commas; write them as points")
        table = np.loadtxt(rows, delimiter=separator, ndmin=2, comments=None)
        if table.shape[1] != len(names):
            raise DataError(f"it has {len(names)} names for {table.shape[1]} columns")
    except DataError as error:
        raise DataError(f"{path}: cannot be read as a table ({error})") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a table ({reason(error)})") from error
    return Contents(path, "a table", _joined(dict(zip(names, table.T, strict=True))))


def _names(line: str) -> tuple[list[str], str | None]:
    """Names of columns, and what separates them."""
    line = line.lstrip().lstrip("#%").strip()
    separator = next((s for s in (",", ";", "\t") if s in line), None)
    names = [name.strip().strip('"').strip() for name in line.split(separator)]
    if all(_is_number(name) for name in names):
        raise DataError("its first line has numbers, needs the names of the columns")
    if "" in names or len(set(names)) < len(names):
        raise DataError("its first line needs a name of its own for each column")
    return names, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _joined(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Columns, with the components that ParaView numbers from 0 after a colon side by side."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        base, colon, number = name.rpartition(":")
        parts = [c for n, c in columns.items() if n.rpartition(":")[:2] == (base, colon)]
        whole = colon and all(f"{base}:{k}" in columns for k in range(len(parts)))
        if not whole:
            arrays[name] = column
        elif number == "0":
            several = np.stack([columns[f"{base}:{k}"] for k in range(len(parts))], axis=-1)
            arrays["points" if base in ("Points", "coords") else base] = several
    if "points" in arrays and arrays["points"].ndim == 2:
        points = arrays["points"]
        while points.shape[1] > 1 and not points[:, -1].any():
            points = points[:, :-1]
        arrays["points"] = np.ascontiguousarray(points)
    return arrays

# SPDX-License-Identifier: MIT
"""Columns of a table in text form, with their names in the first line."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, reason

LIBRARIES = ()

_ODD = re.compile(r"[-+]?[\d.,\s]*([dDeE][-+]?\d+)?")
"""Gaps, and numbers in forms that are refused: with commas, or an exponent of Fortran."""


def contents(path: Path) -> Contents:
    """Columns by name; those that ParaView calls ``U:0``, ``U:1``, .. are one array ``U``.

    The first line that is no comment has the names, separated as the numbers are: by commas,
    semicolons, tabs or blanks. If that line has numbers, the last comment, after ``#`` or ``%``,
    has the names. Without names the columns have none, which is an error. Columns of text, by the
    first row, and those without a name are left out.

    Raises
    ------
    DataError
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            numbered = [
                (k, line) for k, line in enumerate(file.read().splitlines(), 1) if line.strip()
            ]
        lines = [line for _, line in numbered]
        comments = 0
        while comments < len(lines) and lines[comments].lstrip()[0] in "#%":
            comments += 1
        header = max(comments - 1, 0)  # the last comment has the names
        after = re.split(r"[,;\s]+", lines[comments]) if 0 < comments < len(lines) else ["0"]
        header = header if any(map(_is_number, after)) else comments
        line = lines[header].lstrip().lstrip("#%").strip(" ") if lines else ""
        separator = next((s for s in (",", ";", "\t") if s in line), None)
        names, rows = _cells(line, separator), lines[header + 1 :]
        if not rows:
            raise DataError("it has no rows of numbers")
        if all(map(_is_number, names)):
            raise DataError("its first line has numbers, needs the names of the columns")
        if separator == ";" and any("," in line for line in rows[:10]):
            raise DataError("it has decimal commas; write them as points")
        first = _cells(rows[0], separator)
        if len(names) != len(first) and separator is None:
            names = re.split(r"\s\s+", line)  # names with blanks in them
        if len(names) != len(first):
            raise DataError(f"it has {len(names)} names for {len(first)} columns")
        unused = {}
        for k, (name, cell) in enumerate(zip(names, first, strict=True)):
            if not name:
                names[k] = f"column {k + 1}"
                unused[names[k]] = "it has no name"
            elif not _is_number(cell) and not _ODD.fullmatch(cell):
                unused[name] = f"it is no number in the first row ('{cell}')"
        if len(unused) == len(names):
            seen = ", ".join(f"'{cell}'" for cell in first[:3]) + ", .." * (len(first) > 3)
            raise DataError(
                f"line {numbered[header + 1][0]} has no number ({seen}); "
                "write units, if these are, behind the names, as 'u [m]'"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"it has several columns called '{twice}', needs a name for each")
        left_out: dict[int | str, Callable[[str], float]] = {
            k: lambda _: 0.0 for k, name in enumerate(names) if name in unused
        }
        numbers = [k for k, _ in numbered[header + 1 :]]
        table = _loaded(rows, numbers, names, separator, left_out)
    except DataError as error:
        raise DataError(f"{path}: cannot be read as a table ({error})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read as a table (it is not in UTF-8)") from error
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a table ({reason(error)})") from error
    columns = dict(zip(names, table.T, strict=True))
    return Contents(
        path, "a table", _joined({n: c for n, c in columns.items() if n not in unused}), unused
    )


def _loaded(
    rows: list[str],
    numbers: list[int],
    names: list[str],
    separator: str | None,
    converters: dict[int | str, Callable[[str], float]],
) -> NDArray[Any]:
    """Numbers of some lines; an error names the line of the file, and the column."""
    try:
        return np.loadtxt(
            rows, delimiter=separator, ndmin=2, comments=None, quotechar='"', converters=converters
        )
    except ValueError as error:
        text = str(error)
        if found := re.search(r"convert string (.*) to \w+ at row (\d+), column (\d+)", text, re.S):
            cell, row, column = found[1], int(found[2]), int(found[3])
            what = "is empty" if not cell.strip("'\" ") else f"is {cell:.40}, needs a number"
            raise DataError(f"line {numbers[row]}: column '{names[column - 1]}' {what}") from None
        if found := re.search(r"columns changed from (\d+) to (\d+) at row (\d+)", text):
            line = numbers[int(found[3]) - 1]
            raise DataError(f"line {line} has {found[2]} columns, needs {found[1]}") from None
        raise


def _cells(line: str, separator: str | None) -> list[str]:
    """Cells of a line, without the quotes around them."""
    if separator is None:
        return [cell.strip('"') for cell in re.findall(r'"[^"]*"|\S+', line)]
    (cells,) = csv.reader([line], delimiter=separator, skipinitialspace=True)
    return [cell.strip() for cell in cells]


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

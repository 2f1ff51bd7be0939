# SPDX-License-Identifier: MIT
"""Command `gnograd inspect`: what is in files of data, and whether it fits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gnograd.data import Contents, DataError, PointData, Roles, assign, contents, expand, read
from gnograd.data.samples import Field
from gnograd.text import printable

__all__ = ["inspect", "summary"]


def inspect(paths: Sequence[Path], roles: Roles, console: Console) -> PointData:
    """Show the arrays of the first file of each path, and what all of them make.

    Parameters
    ----------
    paths : sequence of pathlib.Path
    roles : gnograd.data.Roles
    console : rich.console.Console

    Returns
    -------
    PointData

    Raises
    ------
    DataError
        What the files hold does not fit; the tables have been shown.
    """
    for files in expand(paths):
        _show(contents(files[0]), roles, console)
        if len(files) > 1:
            console.print(f"and {len(files) - 1} more files like this one, if they fit\n")
    data = read(paths, roles)
    console.print("[green]fits[/]: " + escape(summary(data)), soft_wrap=True)
    return data


def summary(data: PointData) -> str:
    """What there is, in words."""
    layout, samples = data.layout, data.samples
    points = _range([len(s.points) for s in samples])
    text = f"{_several(len(samples), 'sample')} of {points} points, {layout.dimension}-D"
    if len({id(s.points) for s in samples}) == 1 < len(samples):
        text += ", the same for all"
    text += f"; inputs: {_fields(layout.inputs)}"
    if layout.in_time:
        steps = _range([0 if s.states is None else len(s.states) for s in samples])
        text += f"; state: {_fields(layout.outputs)} at {steps} times"
    else:
        text += f"; outputs: {_fields(layout.outputs)}"
    if layout.apart:
        text += f" at {_range([len(s.queries) for s in samples])} points of their own"
    if layout.parameters:
        text += f"; parameters: {_fields(layout.parameters)}"
    if layout.period:
        text += f"; period: {', '.join(f'{p:g}' if p else '-' for p in layout.period)}"
    return text


def _show(found: Contents, roles: Roles, console: Console) -> None:
    try:
        names = assign(found, roles)
    except DataError:  # it is said after the tables
        names = None
    table = Table("array", "shape", "type", "range", "taken as", title_justify="left")
    table.title = escape(f"{found.path}: {found.kind}")
    for name, array in found.arrays.items():
        finite = array.size and np.isfinite(array).all()
        span = f"{array.min():.4g} to {array.max():.4g}" if finite else "[red]not finite[/]"
        table.add_row(
            escape(printable(name)),
            escape(str(array.shape)),
            str(array.dtype),
            span if array.size else "",
            "?" if names is None else names.role(name),
        )
    for name, why in found.unused.items():
        table.add_row(escape(printable(name)), "", "", "", escape(printable(f"not used: {why}")))
    console.print(table)
    for kind, cells in found.cells.items():
        console.print(f"{len(cells)} cells of type {escape(printable(kind))}")


def _fields(fields: Sequence[Field]) -> str:
    return ", ".join(f"{printable(f.name)} ({f.width})" for f in fields) or "none"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _several(n: int, what: str) -> str:
    return f"{n} {what}" + ("s" if n != 1 else "")

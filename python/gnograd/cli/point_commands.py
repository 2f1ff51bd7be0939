# SPDX-License-Identifier: MIT
"""Commands for functions on points, and their options."""

from pathlib import Path
from typing import Annotated

import typer

from gnograd.cli.config import Parallel
from gnograd.cli.job import console, job
from gnograd.data.roles import GRIDS, Roles

# What they do is imported when they are called: PyTorch takes seconds.

Points = Annotated[
    str | None, typer.Option("--points", help="Array of the points.", show_default="'points', ..")
]
Inputs = Annotated[
    str | None,
    typer.Option(
        help="Arrays of the inputs, with commas between them; '' is none.",
        show_default="all other fields",
    ),
]
Outputs = Annotated[
    str | None,
    typer.Option(help="Arrays of the outputs.", show_default="'outputs', 'solution', .."),
]
OutputPoints = Annotated[
    str | None,
    typer.Option(
        help="Array of the points of the outputs, where these have others.",
        show_default="'output_points', if it is there",
    ),
]
Parameters = Annotated[
    str | None,
    typer.Option(
        help="Arrays of numbers that hold everywhere in a sample.",
        show_default="'parameters', if it is there",
    ),
]
State = Annotated[
    str | None,
    typer.Option(help="Arrays that change in time: steps are learnt, in place of outputs."),
]
Period = Annotated[
    str | None,
    typer.Option(
        help="Lengths of a periodic box, with commas; 0 along axes that are not periodic.",
        show_default="'period', if it is there",
    ),
]
Grid = Annotated[
    str | None,
    typer.Option(
        help="There are no points: fields are on regular grids of the unit box, with the far "
        "boundary (closed) or without (periodic).",
        metavar="|".join(GRIDS),
    ),
]


def inspect(
    files: Annotated[
        list[Path], typer.Argument(help="Files, folders of files, or patterns in quotes.")
    ],
    points: Points = None,
    inputs: Inputs = None,
    outputs: Outputs = None,
    output_points: OutputPoints = None,
    parameters: Parameters = None,
    state: State = None,
    period: Period = None,
    grid: Grid = None,
) -> None:
    """Show what is in files of data, what it is taken as, and whether it fits."""
    roles = _roles(points, inputs, outputs, output_points, parameters, state, period, grid)
    from gnograd.cli import inspect

    with job(0, [], Parallel.NONE):
        inspect.inspect(files, roles, console)


def _roles(
    points: str | None,
    inputs: str | None,
    outputs: str | None,
    output_points: str | None,
    parameters: str | None,
    state: str | None,
    period: str | None,
    grid: str | None,
) -> Roles:
    """Names of arrays as options give them."""
    if grid is not None and grid not in GRIDS:
        raise typer.BadParameter(f"needs {' or '.join(GRIDS)}", param_hint="--grid")
    if state is not None and outputs is not None:
        raise typer.BadParameter("goes without --outputs: the next state is", param_hint="--state")
    lengths = None
    if period is not None:
        try:
            lengths = tuple(float(text) for text in period.split(","))
        except ValueError as error:
            raise typer.BadParameter("needs numbers", param_hint="--period") from error
    return Roles(
        points,
        _names(inputs),
        _names(outputs),
        output_points,
        _names(parameters),
        _names(state),
        lengths,
        grid,
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(n for n in map(str.strip, text.split(",")) if n)

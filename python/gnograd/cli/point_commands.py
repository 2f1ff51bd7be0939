# SPDX-License-Identifier: MIT
"""Commands for functions on points, and their options."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from gnograd.cli.config import Device, PointsConfig, Precision, Schedule
from gnograd.cli.engine import need_torch
from gnograd.cli.files import atomic
from gnograd.cli.job import console, job
from gnograd.data.grid import AXES, GRIDS, POINT
from gnograd.data.roles import Roles
from gnograd.notation.text import read_text

# The jobs are imported when they are called: PyTorch takes seconds.

POINTS = PointsConfig()
CONFIG = "config.json"
"""File of a run with its options."""

MODELS = ("gno", "gino", "magno", "mgn", "bsa", "transolver")
SIZES = ("small", "medium", "large")
LOGS = ("csv", "tensorboard")
PROBLEMS = (
    "darcy", "poisson-gauss", "elasticity", "airfoil", "advection", "burgers", "heat"
)  # fmt: skip

Points = Annotated[
    str | None,
    typer.Option(
        "--points",
        help="Array of the points, or arrays of their coordinates, as x,y.",
        show_default="'points', ..",
    ),
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
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Array of the times of the states, which are to be even.",
        show_default="'time', if it is there",
    ),
]
Axes = Annotated[
    str | None,
    typer.Option(
        "--layout",
        help="Axes of fields: s samples, t times, p points or x,y,z axes of a grid, c channels.",
        show_default="by their lengths, if these leave no doubt",
    ),
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


Cells = Annotated[
    bool,
    typer.Option(
        "--cells",
        help="Take the fields on the cells of a mesh, each cell as a point at its center.",
    ),
]
Mask = Annotated[
    str | None,
    typer.Option(
        help="Leave out points where this field is 0 or, for nan, where any is not finite.",
        metavar="ARRAY|nan",
    ),
]
Model = Annotated[str, typer.Option("--model", help="Kind of network.", metavar="|".join(MODELS))]
Radius = Annotated[
    float | None,
    typer.Option(
        "--radius",
        help="Distance up to which points are neighbours.",
        show_default="by how dense the points are",
    ),
]


Validation = Annotated[
    list[Path] | None,
    typer.Option(
        help="Samples that the best epoch is chosen by.",
        show_default="a part of the training samples",
    ),
]
HeldOut = Annotated[
    float,
    typer.Option(min=0.01, max=0.9, help="Part of the samples that is held out."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]


def _from_file(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the settings of a file as defaults of the other options."""
    if path is None:
        return None
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{path} cannot be read, needs JSON") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{path} needs names of options with their values")
    settings = {name.replace("-", "_"): value for name, value in found.items()}
    known = {p.name for p in ctx.command.params} - {"config", "help"}
    if odd := sorted(settings.keys() - known):
        raise typer.BadParameter(f"{path} has '{odd[0]}', which is no option of this command")
    for name, value in settings.items():
        several = isinstance(value, list) and name in ("data", "validation", "test")
        one = type(value) in (str, int, float, bool)
        if not one and not (several and all(isinstance(item, str) for item in value)):
            raise typer.BadParameter(f"{path}: '{name}' has a value that is not of an option")
    ctx.default_map = {**(ctx.default_map or {}), **settings}
    return path


def _settings(ctx: typer.Context) -> dict[str, object]:
    """Options of a training as a file for ``--config`` has them."""
    found: dict[str, object] = {}
    for name, value in ctx.params.items():
        if name in ("config", "fresh", "ctx") or value is None:
            continue
        if isinstance(value, list | tuple):
            if value:
                found[name] = [str(item) for item in value]
        else:
            value = getattr(value, "value", value)
            found[name] = str(value) if isinstance(value, Path) else value
    return found


def data(
    name: Annotated[str, typer.Argument(help="Kind of problem.", metavar="|".join(PROBLEMS))],
    out: Annotated[Path, typer.Option(dir_okay=False, help="File .npz to be written.")],
    samples: Annotated[int, typer.Option(min=1, help="Problems to be drawn.")] = 100,
    points: Annotated[
        int, typer.Option(min=0, help="Random nodes of a sample; 0 is all of them.")
    ] = 0,
    resolution: Annotated[
        int | None,
        typer.Option(min=1, help="Cells of the solver in a direction.", show_default="by problem"),
    ] = None,
    every: Annotated[
        int,
        typer.Option(
            min=1, help="Every n-th node of the solver in a direction is kept.", metavar="N"
        ),
    ] = 1,
    seed: Seed = 0,
) -> None:
    """Draw problems at random, solve them, and write a file to train on."""
    if name not in PROBLEMS:
        raise typer.BadParameter(f"needs one of {', '.join(PROBLEMS)}", param_hint="NAME")
    if out.suffix.lower() != ".npz":
        raise typer.BadParameter("needs a name that ends in .npz", param_hint="--out")
    with job(0, []):
        from gnograd.cli.generate import generate

        generate(name, samples, points, resolution, every, seed, out, console)


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
    layout: Axes = None,
    time: Time = None,
    cells: Cells = False,
    mask: Mask = None,
    model: Model = POINTS.model,
    radius: Radius = POINTS.radius,
    validation: Validation = None,
    held_out: HeldOut = POINTS.held_out,
    seed: Seed = POINTS.seed,
    picture: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File .png, .pdf or .svg for a picture of a sample."),
    ] = None,
) -> None:
    """Show what is in files of data, what it is taken as, and whether it fits."""
    roles = _roles(points, inputs, outputs, output_points, parameters, state, period, grid, layout,
                   time, cells, mask)  # fmt: skip
    _check_model(model, radius)
    if picture is not None and picture.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter("needs a name that ends in .png, .pdf or .svg",
                                 param_hint="--picture")  # fmt: skip
    config = PointsConfig(model=model, radius=radius, held_out=held_out, seed=seed)
    from gnograd.cli import inspect

    with job(0, []):
        inspect.inspect(files, roles, console, config, validation or [], picture)


def train_points(
    ctx: typer.Context,
    data: Annotated[
        list[Path],
        typer.Option(
            help="Training samples: a file, a folder of files, or a pattern in quotes; to be given "
            "again for more."
        ),
    ],
    validation: Validation = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(help="Samples that tell the error at the end, of any resolution."),
    ] = None,
    points: Points = None,
    inputs: Inputs = None,
    outputs: Outputs = None,
    output_points: OutputPoints = None,
    parameters: Parameters = None,
    state: State = None,
    period: Period = None,
    grid: Grid = None,
    layout: Axes = None,
    time: Time = None,
    cells: Cells = False,
    mask: Mask = None,
    out: Annotated[
        Path,
        typer.Option(
            file_okay=False, help="Directory of the model; a run found there is continued."
        ),
    ] = Path("runs/points"),
    model: Model = POINTS.model,
    size: Annotated[str, typer.Option(help="Its size.", metavar="|".join(SIZES))] = POINTS.size,
    radius: Radius = POINTS.radius,
    epochs: Annotated[
        int,
        typer.Option(
            min=1, help="Length of the training; more than a finished run has continue it."
        ),
    ] = POINTS.epochs,
    batch: Annotated[int, typer.Option(min=1, help="Samples of a training step.")] = POINTS.batch,
    learning_rate: Annotated[
        float, typer.Option(min=0, help="Peak of the learning rate.")
    ] = POINTS.learning_rate,
    schedule: Annotated[
        Schedule, typer.Option(help="How the learning rate falls.")
    ] = POINTS.schedule,
    weight_decay: Annotated[float, typer.Option(min=0, help="Of AdamW.")] = POINTS.weight_decay,
    clip: Annotated[
        float, typer.Option(min=0, help="Largest norm of a gradient; 0 is any.")
    ] = POINTS.clip,
    ema: Annotated[
        float,
        typer.Option(
            min=0, max=0.99999, help="Decay of a running average of the weights; 0 is none."
        ),
    ] = POINTS.ema,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop when so many epochs bring nothing; 0 never.")
    ] = POINTS.patience,
    noise: Annotated[
        float,
        typer.Option(
            min=0, help="Noise on states in training, as a part of their standard deviation."
        ),
    ] = POINTS.noise,
    held_out: HeldOut = POINTS.held_out,
    precision: Annotated[
        Precision, typer.Option(help="Of the products; 16 bits are mixed with 32.")
    ] = POINTS.precision,
    compile: Annotated[bool, typer.Option("--compile", help="Have PyTorch compile it.")] = False,
    log: Annotated[
        str, typer.Option(help="A table only, or TensorBoard too.", metavar="|".join(LOGS))
    ] = "csv",
    seed: Seed = POINTS.seed,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU,
    threads: Annotated[int, typer.Option(min=0, help="Threads; 0 leaves it to PyTorch.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew; what --out holds stays until then.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="JSON file of options by name, as config.json of a run; those given here win.",
            is_eager=True,
            callback=_from_file,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Train on your own files: functions on points and meshes in 1 to 3 dimensions."""
    for option, value, known in (("--size", size, SIZES), ("--log", log, LOGS)):
        if value not in known:
            raise typer.BadParameter(f"needs one of {', '.join(known)}", param_hint=option)
    _check_model(model, radius)
    if noise and state is None:
        raise typer.BadParameter("is added to states; needs --state", param_hint="--noise")
    roles = _roles(points, inputs, outputs, output_points, parameters, state, period, grid, layout,
                   time, cells, mask)  # fmt: skip
    settings = PointsConfig(
        model=model, size=size, radius=radius, epochs=epochs, batch=batch,
        learning_rate=learning_rate, schedule=schedule, weight_decay=weight_decay, clip=clip,
        ema=ema, patience=patience, noise=noise, held_out=held_out, precision=precision, seed=seed,
    )  # fmt: skip
    with job(threads, [out]):
        need_torch()
        from gnograd.cli import points as points_job

        computing = points_job.Computing(device.value, threads, compile, log)
        points_job.train(
            settings, data, validation or [], test or [], roles, out, computing, console, fresh
        )
        with atomic(out / CONFIG) as stream:
            stream.write((json.dumps(_settings(ctx), indent=1) + "\n").encode())


def predict(
    model: Annotated[Path, typer.Option(help="Directory of a model: the --out of a training.")],
    data: Annotated[
        list[Path], typer.Option(help="Inputs on any points: files, folders, patterns.")
    ],
    out: Annotated[
        Path, typer.Option(dir_okay=False, help="File .vtu, .npz or .safetensors to be written.")
    ],
    points: Points = None,
    output_points: OutputPoints = None,
    grid: Grid = None,
    layout: Axes = None,
    time: Time = None,
    cells: Cells = False,
    mask: Mask = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps of a state in time.", show_default="as many as the data has"
        ),
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU,
    threads: Annotated[int, typer.Option(min=0, help="Threads; 0 leaves it to PyTorch.")] = 0,
) -> None:
    """Write what a trained model says of inputs on new points or meshes."""
    axes = _axes(layout, grid, points)
    with job(threads, []):
        need_torch()
        from gnograd.cli import predict as predict_job

        names = predict_job.Names(points, output_points, grid, time, axes, cells, mask)
        predict_job.predict(model, data, out, names, steps, device.value, threads, console)


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a model.")],
    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="HTML file.", show_default="report.html there"),
    ] = None,
) -> None:
    """Write a page on a training: its course, errors, examples, cost and settings."""
    with job(0, []):
        need_torch()
        from gnograd.cli.report import report as write_report

        path = write_report(directory, out or directory / "report.html")
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _check_model(model: str, radius: float | None) -> None:
    if model not in MODELS:
        raise typer.BadParameter(f"needs one of {', '.join(MODELS)}", param_hint="--model")
    if radius is not None and model == "magno":
        raise typer.BadParameter("magno's follow from its grid", param_hint="--radius")
    if radius is not None and not 0 < radius < math.inf:
        raise typer.BadParameter("needs a positive number", param_hint="--radius")


def _roles(
    points: str | None,
    inputs: str | None,
    outputs: str | None,
    output_points: str | None,
    parameters: str | None,
    state: str | None,
    period: str | None,
    grid: str | None,
    layout: str | None,
    time: str | None,
    cells: bool,
    mask: str | None,
) -> Roles:
    """Names of arrays, from the options."""
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
        time=time,
        layout=_axes(layout, grid, points),
        cells=cells,
        mask=mask,
    )


def _axes(layout: str | None, grid: str | None, points: str | None) -> tuple[str, ...] | None:
    """Letters of a layout."""
    if grid is not None and points is not None:
        raise typer.BadParameter("goes without --points: it makes them", param_hint="--grid")
    if layout is None:
        return None
    letters = tuple(layout.replace(",", "").replace(" ", ""))
    if set(letters) - set(AXES):
        raise typer.BadParameter("needs letters of s,t,p,x,y,z,c", param_hint="--layout")
    if grid is None and points is None and POINT not in letters:
        raise typer.BadParameter(
            "has axes of a grid; needs --grid, or --points x,y with coordinates along them",
            param_hint="--layout",
        )
    return letters


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(n for n in map(str.strip, text.split(",")) if n)

# SPDX-License-Identifier: MIT
"""Commands."""

from pathlib import Path
from typing import Annotated

import typer

import gnograd as gg
from gnograd.cli.config import (
    PROBLEMS,
    Arrays,
    DarcyConfig,
    DataConfig,
    GreenConfig,
    HeldOut,
    OnDevice,
    OnEngine,
    Parallel,
    Place,
    Places,
    PointsConfig,
    PoissonConfig,
    Preparation,
    Samples,
    Shared,
    lessons,
)
from gnograd.cli.engine import Engine, make_engine, need_torch
from gnograd.cli.job import Run, console, job, training
from gnograd.cli.options import grouped, one_of

# Commands import their jobs when they run: SciPy, Matplotlib and PyTorch take seconds to import,
# for which --help should not wait.

app = typer.Typer(
    name="gnograd",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
train = typer.Typer(help="Train a graph neural operator.", no_args_is_help=True)
app.add_typer(train, name="train")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gnograd {gg.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Differentiable message passing for neural-operator PDE codes."""


@app.command()
def info() -> None:
    """Show version, compiler, BLAS, processor, threads and CUDA of this installation."""
    gg.show_config()


@train.command("darcy")
@grouped
def train_darcy(
    ctx: typer.Context,
    config: Annotated[DarcyConfig, {"symmetry": None}],
    place: Annotated[Place, {"out": Path("runs/darcy")}],
    computing: Shared,
    data: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="File .npz with arrays 'coefficient' and 'solution', both of shape "
            "(n_samples, grid, grid), in place of generated samples.",
        ),
    ] = None,
) -> None:
    """Train on Darcy flow: from a permeability to the pressure, on irregular points."""
    from gnograd.cli import darcy

    with training(ctx, place, computing) as run:
        darcy.train(config, data, run, _engine(computing, config.batch, run))


@train.command("green")
@grouped
def train_green(
    ctx: typer.Context,
    config: GreenConfig,
    place: Annotated[Place, {"out": Path("runs/green")}],
    computing: OnEngine,
) -> None:
    """Learn the Green's function of -u'' = f on (0, 1) from pairs of f and u."""
    from gnograd.cli import green

    with training(ctx, place, computing) as run:
        green.train(config, run, _engine(computing, config.batch, run))


@train.command("poisson")
@grouped
def train_poisson(
    ctx: typer.Context,
    config: PoissonConfig,
    place: Annotated[Place, {"out": Path("runs/poisson")}],
    computing: Shared,
    physics: Annotated[
        bool,
        typer.Option(
            "--physics",
            help="Train on the equation, without and with solutions, besides on solutions alone.",
        ),
    ] = False,
) -> None:
    """Solve div((1 + u^2/10) grad u) = f, u = 0 on the boundary, on random star-shaped domains."""
    if computing.parallel is Parallel.GRAPH:
        raise typer.BadParameter("problems are too small to be cut", param_hint="--parallel")
    from gnograd.cli import poisson

    folders = [lesson.directory for lesson in lessons(physics)]
    with training(ctx, place, computing, folders) as run:
        poisson.train(config, physics, run, _engine(computing, config.batch, run))


@train.command("points")
@grouped
def train_points(
    ctx: typer.Context,
    files: Samples,
    arrays: Arrays,
    config: PointsConfig,
    place: Annotated[Place, {"out": Path("runs/points")}],
    computing: OnDevice,
    compile: Annotated[bool, typer.Option("--compile", help="Have PyTorch compile it.")] = False,
) -> None:
    """Train on your own files: functions on points and meshes in 1 to 3 dimensions."""
    config.check(files.validation)
    if config.noise and arrays.state is None:
        raise typer.BadParameter("is added to states; needs --state", param_hint="--noise")
    roles = arrays.roles()
    with training(ctx, place, computing) as run:
        need_torch()
        from gnograd.cli import points
        from gnograd.cli.torch_engine import TorchEngine

        device, precision = computing.device.value, config.precision.value
        engine = TorchEngine(device, computing.threads, precision=precision)
        points.train(config, files, roles, run, engine, compile)


@app.command()
@grouped
def data(
    name: Annotated[str, typer.Argument(help="Kind of problem.", **one_of(*PROBLEMS))],
    out: Annotated[Path, typer.Option(dir_okay=False, help="File .npz to be written.")],
    config: DataConfig,
) -> None:
    """Draw problems at random, solve them, and write a file to train on."""
    if out.suffix.lower() != ".npz":
        raise typer.BadParameter("needs a name that ends in .npz", param_hint="--out")
    with job(0, []):
        from gnograd.cli.generate import generate

        generate(name, config, out, console)


@app.command()
@grouped
def inspect(
    files: Annotated[
        list[Path], typer.Argument(help="Files, folders of files, or patterns in quotes.")
    ],
    arrays: Arrays,
    config: Preparation,
    held_out: HeldOut,
    picture: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File .png, .pdf or .svg for a picture of a sample."),
    ] = None,
) -> None:
    """Show what is in files of data, what it is taken as, and whether it fits."""
    roles = arrays.roles()
    config.check(held_out.validation)
    if picture is not None and picture.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise typer.BadParameter(
            "needs a name that ends in .png, .pdf or .svg", param_hint="--picture"
        )
    from gnograd.cli import inspect

    with job(0, []):
        inspect.inspect(files, roles, console, config, held_out.validation or [], picture)


@app.command()
@grouped
def predict(
    model: Annotated[
        list[Path],
        typer.Option(
            help="Directory of a model: the --out of a training. Several are an ensemble, whose "
            "mean and standard deviation are written."
        ),
    ],
    data: Annotated[
        list[Path], typer.Option(help="Inputs on any points: files, folders, patterns.")
    ],
    out: Annotated[
        Path, typer.Option(dir_okay=False, help="File .vtu, .npz or .safetensors to be written.")
    ],
    names: Places,
    computing: OnDevice,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps of a state in time.", show_default="as many as the data has"
        ),
    ] = None,
) -> None:
    """Write what a trained model, or several, say of inputs on new points or meshes."""
    names.axes()
    with job(computing.threads, []):
        need_torch()
        from gnograd.cli import predict
        from gnograd.cli.torch_engine import TorchEngine

        engine = TorchEngine(computing.device.value, computing.threads)
        predict.predict(model, data, out, names, steps, engine, console)


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a model.")],
    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="HTML file.", show_default="report.html there"),
    ] = None,
) -> None:
    """Write a page on a training: its course, errors, examples, cost and settings."""
    with job(0, []):
        from gnograd.cli.report import report

        path = report(directory, out or directory / "report.html")
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _engine(computing: OnEngine, batch: int, run: Run) -> Engine:
    """Engine for this process' part of the steps."""
    processes = run.processes
    if processes.parallel is Parallel.DATA and processes.size > batch:
        console.print(f"note: {processes.size} processes share the {batch} samples of a step")
    dtype, threads = "float64" if computing.double else "float32", computing.threads
    with processes.together():
        return make_engine(
            computing.device, computing.torch, threads or processes.threads, dtype, processes.place
        )

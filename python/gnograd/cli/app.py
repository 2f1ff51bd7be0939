# SPDX-License-Identifier: MIT
"""Commands and their options."""

from pathlib import Path
from typing import Annotated

import typer

import gnograd as gg
from gnograd.cli import point_commands
from gnograd.cli.config import (
    MOST_QUERIES,
    DarcyConfig,
    Device,
    GreenConfig,
    Parallel,
    PoissonConfig,
    lessons,
)
from gnograd.cli.engine import Engine, make_engine
from gnograd.cli.job import console, job
from gnograd.cli.processes import Processes

# Commands import their jobs when they run: SciPy and Matplotlib take seconds to import, for which
# --help should not wait.

app = typer.Typer(
    name="gnograd",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
train = typer.Typer(help="Train a graph neural operator.", no_args_is_help=True)
app.add_typer(train, name="train")

DARCY = DarcyConfig()
GREEN = GreenConfig()
POISSON = PoissonConfig()

Out = Annotated[
    Path,
    typer.Option(
        file_okay=False,
        help="Directory for checkpoint, history and picture; a run found there is continued.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh", help="Start anew; what --out holds stays until there is something to replace it."
    ),
]
Threads = Annotated[
    int, typer.Option(min=0, help="Threads; 0 leaves it to OpenMP. Results do not depend on it.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Epochs = Annotated[int, typer.Option(min=1, help="Length of the training.")]
Rate = Annotated[float, typer.Option(help="Peak of the learning rate.")]
Radius = Annotated[float, typer.Option(help="Distance up to which points are neighbours.")]
Width = Annotated[int, typer.Option(min=1, help="Channels.")]
Hidden = Annotated[int, typer.Option(min=1, help="Hidden width of the kernel networks.")]
Layers = Annotated[int, typer.Option(min=1, help="Operator layers.")]


Where = Annotated[
    Device, typer.Option("--device", help="Where to compute; a GPU is used through PyTorch.")
]
Torch = Annotated[bool, typer.Option("--torch", help="Compute through PyTorch on the CPU too.")]
Double = Annotated[bool, typer.Option("--double", help="Compute in float64.")]
Shared = Annotated[
    Parallel,
    typer.Option(
        "--parallel",
        help="What processes share that mpiexec, srun or torchrun has started: the samples of a "
        "training step, its points, or nothing, so that the first one works alone.",
    ),
]


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
def train_darcy(
    data: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="File .npz with arrays 'coefficient' and 'solution', both of shape "
            "(n_samples, grid, grid), in place of generated samples.",
        ),
    ] = None,
    out: Out = Path("runs/darcy"),
    samples: Annotated[int, typer.Option(min=1, help="Training samples.")] = DARCY.samples,
    test_samples: Annotated[
        int, typer.Option(min=1, help="Test samples; on fine regular grids perhaps fewer.")
    ] = DARCY.test_samples,
    grid: Annotated[
        int, typer.Option(min=8, help="Nodes per side of generated samples.")
    ] = DARCY.grid,
    nodes: Annotated[
        int, typer.Option(min=1, help="Random points of each sample in training.")
    ] = DARCY.nodes,
    radius: Radius = DARCY.radius,
    width: Width = DARCY.width,
    hidden: Hidden = DARCY.hidden,
    layers: Layers = DARCY.layers,
    epochs: Epochs = DARCY.epochs,
    batch: Annotated[int, typer.Option(min=1, help="Samples of a training step.")] = DARCY.batch,
    learning_rate: Rate = DARCY.learning_rate,
    symmetry: Annotated[
        bool | None,
        typer.Option(
            help="Turn and reflect training samples at random.",
            show_default="with generated samples",
        ),
    ] = None,
    seed: Seed = DARCY.seed,
    device: Where = Device.CPU,
    torch: Torch = False,
    double: Double = False,
    parallel: Shared = Parallel.DATA,
    threads: Threads = 0,
    fresh: Fresh = False,
) -> None:
    """Train on Darcy flow: from a permeability to the pressure, on irregular points."""
    config = DarcyConfig(
        samples=samples,
        test_samples=test_samples,
        grid=grid,
        nodes=nodes,
        radius=radius,
        width=width,
        hidden=hidden,
        layers=layers,
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        symmetry=data is None if symmetry is None else symmetry,
        seed=seed,
    )
    from gnograd.cli import darcy

    with job(threads, [out], parallel) as processes:
        engine = _engine(device, torch, threads, double, batch, processes)
        darcy.train(config, data, out, engine, console, fresh, processes)


@train.command("green")
def train_green(
    out: Out = Path("runs/green"),
    nodes: Annotated[int, typer.Option(min=2, help="Midpoints in (0, 1).")] = GREEN.nodes,
    modes: Annotated[int, typer.Option(min=1, help="Sines in a right-hand side.")] = GREEN.modes,
    hidden: Annotated[
        int, typer.Option(min=1, help="Hidden width of the kernel network.")
    ] = GREEN.hidden,
    batch: Annotated[
        int, typer.Option(min=1, help="Right-hand sides of a training step.")
    ] = GREEN.batch,
    epochs: Epochs = GREEN.epochs,
    learning_rate: Rate = GREEN.learning_rate,
    seed: Seed = GREEN.seed,
    threads: Threads = 0,
    fresh: Fresh = False,
) -> None:
    """Learn the Green's function of -u'' = f on (0, 1) from pairs of f and u."""
    config = GreenConfig(
        nodes=nodes,
        modes=modes,
        hidden=hidden,
        batch=batch,
        epochs=epochs,
        learning_rate=learning_rate,
        seed=seed,
    )
    from gnograd.cli import green

    with job(threads, [out]):
        green.train(config, out, console, fresh)


@train.command("poisson")
def train_poisson(
    physics: Annotated[
        bool,
        typer.Option(
            "--physics",
            help="Train on the equation, without and with solutions, besides on solutions alone.",
        ),
    ] = False,
    out: Out = Path("runs/poisson"),
    samples: Annotated[
        int, typer.Option(min=1, help="Solved problems for training.")
    ] = POISSON.samples,
    test_samples: Annotated[int, typer.Option(min=1, help="Test problems.")] = POISSON.test_samples,
    nodes: Annotated[
        int, typer.Option(min=1, help="Points of a problem where f is known.")
    ] = POISSON.nodes,
    queries: Annotated[
        int, typer.Option(min=1, max=MOST_QUERIES, help="Points of a loss.")
    ] = POISSON.queries,
    radius: Radius = POISSON.radius,
    reach: Annotated[
        float, typer.Option(help="Distance up to which points contribute to a value.")
    ] = POISSON.reach,
    width: Width = POISSON.width,
    hidden: Hidden = POISSON.hidden,
    layers: Layers = POISSON.layers,
    epochs: Epochs = POISSON.epochs,
    batch: Annotated[int, typer.Option(min=2, help="Problems of a training step.")] = POISSON.batch,
    learning_rate: Rate = POISSON.learning_rate,
    seed: Seed = POISSON.seed,
    device: Where = Device.CPU,
    torch: Torch = False,
    double: Double = False,
    parallel: Shared = Parallel.DATA,
    threads: Threads = 0,
    fresh: Fresh = False,
) -> None:
    """Solve div((1 + u^2/10) grad u) = f, u = 0 on the boundary, on random star-shaped domains."""
    config = PoissonConfig(
        samples=samples,
        test_samples=test_samples,
        nodes=nodes,
        queries=queries,
        radius=radius,
        reach=reach,
        width=width,
        hidden=hidden,
        layers=layers,
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        seed=seed,
    )
    if parallel is Parallel.GRAPH:
        raise typer.BadParameter("problems are too small to be cut", param_hint="--parallel")
    from gnograd.cli import poisson

    runs = [out / lesson.directory for lesson in lessons(physics)]
    with job(threads, [out, *runs], parallel) as processes:
        engine = _engine(device, torch, threads, double, batch, processes)
        poisson.train(config, physics, out, engine, console, fresh, processes)


train.command("points")(point_commands.train_points)
app.command("data")(point_commands.data)
app.command("inspect")(point_commands.inspect)
app.command("predict")(point_commands.predict)
app.command("report")(point_commands.report)


def _engine(
    device: Device, torch: bool, threads: int, double: bool, batch: int, processes: Processes
) -> Engine:
    """Engine for this process' part of the steps."""
    if processes.parallel is Parallel.DATA and processes.size > batch:
        console.print(f"note: {processes.size} processes share the {batch} samples of a step")
    dtype = "float64" if double else "float32"
    with processes.together():
        engine = make_engine(device, torch, threads or processes.threads, dtype, processes.place)
    return engine

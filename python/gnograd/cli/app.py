# SPDX-License-Identifier: MIT
"""Commands and their options."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import gnograd as gg
from gnograd.cli import darcy, green, poisson
from gnograd.cli.checkpoint import CHECKPOINT, CheckpointError
from gnograd.cli.darcy import DarcyConfig
from gnograd.cli.darcy_data import DataError
from gnograd.cli.engine import Device, DeviceError, make_engine
from gnograd.cli.green import GreenConfig
from gnograd.cli.poisson import Lesson, PoissonConfig
from gnograd.cli.training import TrainingError

app = typer.Typer(
    name="gnograd",
    help="Differentiable message passing for neural-operator PDE codes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
train = typer.Typer(help="Train a graph neural operator.", no_args_is_help=True)
app.add_typer(train, name="train")

console = Console(highlight=False)

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
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew what --out holds.")]
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
    test_samples: Annotated[int, typer.Option(min=1, help="Test samples.")] = DARCY.test_samples,
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
            help="Turn and reflect training samples at random.  [default: with generated samples]",
            show_default=False,
        ),
    ] = None,
    seed: Seed = DARCY.seed,
    device: Where = Device.CPU,
    torch: Torch = False,
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
    with _job(out, threads, fresh):
        darcy.train(config, data, out, make_engine(device, torch, threads), console)


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
    with _job(out, threads, fresh):
        green.train(config, out, console)


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
        int, typer.Option(min=1, max=poisson.MOST_QUERIES, help="Points of a loss.")
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
    with _job(out, threads, fresh, [lesson.directory for lesson in Lesson]):
        poisson.train(config, physics, out, make_engine(device, torch, threads), console)


@contextmanager
def _job(out: Path, threads: int, fresh: bool, runs: Sequence[str] = (".",)) -> Iterator[None]:
    """Prepare a job with runs in some directories, and say in one line why it ends early."""
    if fresh:
        for run in runs:
            (out / run / CHECKPOINT).unlink(missing_ok=True)
    gg.set_num_threads(threads)
    try:
        yield
    except (DataError, DeviceError, TrainingError) as error:
        raise _stop(str(error)) from error
    except CheckpointError as error:
        raise _stop(f"{error}\nChoose another --out, or start anew with --fresh.") from error
    except KeyboardInterrupt as error:
        console.print("\nStopped; the same command continues the run.")
        raise typer.Exit(130) from error
    finally:
        gg.set_num_threads(0)  # who calls the app from Python has the default back


def _stop(message: str) -> typer.Exit:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"gnograd: {message}", markup=False)
    return typer.Exit(1)

# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009  (the calls make fields)
"""Settings of the commands: each field of a class here is an option, stated once.

No job is imported, so that ``--help`` need not load SciPy, Matplotlib or PyTorch.
"""

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import typer

from gnograd.cli.options import from_file, one_of, option, plain
from gnograd.data.description import NAMES
from gnograd.data.grid import AXES, GRIDS, POINT
from gnograd.data.roles import Roles, names_in

SIZES = ("small", "medium", "large")
LOGS = ("csv", "tensorboard")
PROBLEMS = (
    "darcy", "poisson-gauss", "elasticity", "airfoil", "advection", "burgers", "heat"
)  # fmt: skip

RINGS = 24
"""Rings of the finite-element meshes of the Poisson job, which then have 1801 nodes."""
MOST_QUERIES = 1 + 3 * RINGS * (RINGS - 1)
"""Nodes of these meshes that are not on the boundary."""

FREE = ("epochs", "patience", "learning_rate")
"""Settings that may change when a run is continued."""


class Device(str, Enum):
    """Device for the computation."""

    CPU = "cpu"
    CUDA = "cuda"


class Parallel(str, Enum):
    """Work that the processes of a training share."""

    NONE = "none"
    """No work: the first process works alone."""
    DATA = "data"
    """The samples of a step are shared."""
    GRAPH = "graph"
    """The points of a step are shared."""


class Precision(str, Enum):
    """Precision of the products in a network on points."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Schedule(str, Enum):
    """Decay of the learning rate after the warm-up."""

    COSINE = "cosine"
    LINEAR = "linear"
    CONSTANT = "constant"


class Lesson(str, Enum):
    """Training data of a network of the Poisson job."""

    EQUATION = "equation"
    BOTH = "equation and solutions"
    SOLUTIONS = "solutions"

    @property
    def directory(self) -> str:
        """Directory of its checkpoint and history."""
        return self.name.lower()


def lessons(physics: bool) -> list[Lesson]:
    """Return all lessons, or without `physics` the last."""
    return list(Lesson) if physics else [Lesson.SOLUTIONS]


# ---- options of several commands ----

Epochs = partial(
    option, help="Length of the training; more than a finished run has continue it.", min=1
)
Batch = partial(option, help="Samples of a training step.", min=1)
Rate = partial(option, help="Peak of the learning rate.", min=0)
Decay = partial(option, help="Weight decay of AdamW.", min=0)
Clip = partial(option, help="Largest norm of a gradient; 0 is any.", min=0)
Seed = partial(option, help="Seed of all random numbers.", min=0, max=2**63 - 1)
Radius = partial(option, help="Distance up to which points are neighbours.")
Width = partial(option, help="Channels.", min=1)
Hidden = partial(option, help="Hidden width of the kernel networks.", min=1)
Layers = partial(option, help="Operator layers.", min=1)


@dataclass(frozen=True)
class Place:
    """Place of a run on disk."""

    out: Path = option(
        MISSING,
        "Directory for checkpoint, history and results; a run found there is continued.",
        file_okay=False,
    )
    fresh: bool = option(
        False,
        "Start anew; what --out holds stays until there is something to replace it.",
        "--fresh",
    )
    log: str = option("csv", "A table only, or TensorBoard too.", **one_of(*LOGS))
    config: Path | None = option(
        None,
        "JSON file of options by name, as config.json of a run; those given here win.",
        is_eager=True,
        callback=from_file,
        dir_okay=False,
    )


@dataclass(frozen=True)
class Computing:
    """Settings of a computation that affect the result only by rounding."""

    threads: int = option(
        0, "Threads; 0 leaves it to OpenMP. Without PyTorch results do not depend on it.", min=0
    )


@dataclass(frozen=True)
class OnDevice(Computing):
    """Computation on a CPU or GPU."""

    device: Device = option(Device.CPU, "Where to compute; a GPU is used through PyTorch.")


@dataclass(frozen=True)
class OnEngine(OnDevice):
    """Computation through either engine."""

    torch: bool = option(False, "Compute through PyTorch on the CPU too.", "--torch")
    double: bool = option(False, "Compute in float64.", "--double")


@dataclass(frozen=True)
class Shared(OnEngine):
    """Computation by several processes."""

    parallel: Parallel = option(
        Parallel.DATA,
        "What processes share that mpiexec, srun or torchrun has started: the samples of "
        "a training step, its points, or nothing, so that the first one works alone.",
    )


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of every training that the result depends on."""

    epochs: int = Epochs(200)
    batch: int = Batch(4)
    learning_rate: float = Rate(3e-3)
    schedule: Schedule = option(Schedule.COSINE, "How the learning rate falls.")
    weight_decay: float = Decay(0.0)
    clip: float = Clip(0.0)
    ema: float = option(
        0.0, "Decay of a running average of the weights; 0 is none.", min=0, max=0.99999
    )
    patience: int = option(0, "Stop when so many epochs bring nothing; 0 never.", min=0)
    seed: int = Seed(0)

    def settings(self) -> dict[str, Any]:
        """Settings that must not change when a run is continued."""
        return {name: value for name, value in plain(self).items() if name not in FREE}


# ---- problems ----


@dataclass(frozen=True)
class DarcyConfig(TrainingConfig):
    """Settings of `gnograd train darcy` that the result depends on."""

    samples: int = option(100, "Training samples.", min=1)
    test_samples: int = option(100, "Test samples; on fine regular grids perhaps fewer.", min=1)
    grid: int = option(121, "Nodes per side of generated samples.", min=8)
    nodes: int = option(200, "Random points of each sample in training.", min=1)
    radius: float = Radius(0.2)
    width: int = Width(32)
    hidden: int = Hidden(32)
    layers: int = Layers(4)
    epochs: int = Epochs(300)
    batch: int = Batch(5)
    learning_rate: float = Rate(6e-3)
    symmetry: bool | None = option(
        True, "Turn and reflect training samples at random.", show_default="with generated samples"
    )


@dataclass(frozen=True)
class GreenConfig(TrainingConfig):
    """Settings of `gnograd train green` that the result depends on."""

    nodes: int = option(64, "Midpoints in (0, 1).", min=2)
    modes: int = option(32, "Sines in a right-hand side.", min=1)
    hidden: int = Hidden(32)
    batch: int = Batch(8)
    epochs: int = Epochs(60)
    learning_rate: float = Rate(3e-2)


@dataclass(frozen=True)
class PoissonConfig(TrainingConfig):
    """Settings of `gnograd train poisson` that the result depends on."""

    samples: int = option(100, "Solved problems for training.", min=1)
    test_samples: int = option(50, "Test problems.", min=1)
    nodes: int = option(128, "Points of a problem where f is known.", min=1)
    queries: int = option(64, "Points of a loss.", min=1, max=MOST_QUERIES)
    radius: float = Radius(0.6)
    reach: float = option(0.6, "Distance up to which points contribute to a value.")
    width: int = Width(32)
    hidden: int = Hidden(32)
    layers: int = Layers(4)
    epochs: int = Epochs(30)
    batch: int = option(4, "Problems of a training step.", min=2)
    learning_rate: float = Rate(6e-3)


# ---- functions on points ----


@dataclass(frozen=True)
class DataConfig:
    """Settings of `gnograd data`."""

    samples: int = option(100, "Problems to be drawn.", min=1)
    points: int = option(0, "Random nodes of a sample; 0 is all of them.", min=0)
    resolution: int | None = option(
        None, "Cells of the solver in a direction.", min=1, show_default="by problem"
    )
    every: int = option(
        1, "Every n-th node of the solver in a direction is kept.", min=1, metavar="N"
    )
    seed: int = Seed(0)


@dataclass(frozen=True)
class Preparation:
    """Settings that data are prepared by."""

    model: str = option("gino", "Kind of network.", **one_of(*NAMES))
    radius: float | None = option(
        None,
        "Distance up to which points are neighbours.",
        show_default="by how dense the points are",
    )
    held_out: float = option(0.2, "Part of the samples that is held out.", min=0.01, max=0.9)
    seed: int = Seed(0)

    def check(self, validation: Sequence[Path] | None) -> None:
        """Raise `typer.BadParameter` for what makes no sense, also beside these samples."""
        if validation and self.held_out != Preparation.held_out:
            raise typer.BadParameter("is of no use beside --validation", param_hint="--held-out")
        if self.radius is not None and self.model == "magno":
            raise typer.BadParameter("magno's follow from its grid", param_hint="--radius")
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise typer.BadParameter("needs a positive number", param_hint="--radius")


@dataclass(frozen=True)
class PointsConfig(TrainingConfig, Preparation):
    """Settings of `gnograd train points` that the result depends on."""

    epochs: int = option(
        0,
        "Length of the training; more than a finished run has continue it. 0 is chosen by the "
        "data.",
        min=0,
        show_default="some 6000 steps, 10 to 200 epochs",
    )
    learning_rate: float = option(
        0.0,
        "Peak of the learning rate; 0 is chosen by the model.",
        min=0,
        show_default="by model and width",
    )
    size: str = option("medium", "Its size.", **one_of(*SIZES))
    noise: float = option(
        0.0, "Noise on states in training, as a part of their standard deviation.", min=0
    )
    precision: Precision = option(Precision.FLOAT32, "Of the products; 16 bits are mixed with 32.")
    weight_decay: float = Decay(1e-4)
    clip: float = Clip(1.0)


@dataclass(frozen=True)
class HeldOut:
    """Files of held-out samples."""

    validation: list[Path] | None = option(
        None,
        "Samples that the best epoch is chosen by.",
        show_default="a part of the training samples",
    )


@dataclass(frozen=True, kw_only=True)
class Samples(HeldOut):
    """Files of samples by use."""

    data: list[Path] = option(
        MISSING,
        "Training samples: a file, a folder of files, or a pattern in quotes; to be given "
        "again for more.",
    )
    test: list[Path] | None = option(
        None, "Samples that tell the error at the end, of any resolution."
    )


@dataclass(frozen=True)
class Places:
    """Names of arrays that say where values are."""

    points: str | None = option(
        None,
        "Array of the points, or arrays of their coordinates, as x,y.",
        show_default="'points', ..",
    )
    output_points: str | None = option(
        None,
        "Array of the points of the outputs, where these have others.",
        show_default="'output_points', if it is there",
    )
    grid: str | None = option(
        None,
        "There are no points: fields are on regular grids of the unit box, with the far "
        "boundary (closed) or without (periodic).",
        metavar="|".join(GRIDS),
    )
    layout: str | None = option(
        None,
        "Axes of fields: s samples, t times, p points or x,y,z axes of a grid, c channels.",
        show_default="by their lengths, if these leave no doubt",
    )
    time: str | None = option(
        None,
        "Array of the times of the states, which are to be even.",
        show_default="'time', if it is there",
    )
    cells: bool = option(
        False,
        "Take the fields on the cells of a mesh, each cell as a point at its center.",
        "--cells",
    )
    mask: str | None = option(
        None,
        "Leave out points where this field is 0, where any is not finite (nan) or is this number; "
        "several with commas. With none every other number counts, also one that looks like a "
        "fill value.",
        metavar="ARRAY|NUMBER|nan|none",
    )

    def roles(self, **more: Any) -> Roles:
        """Roles of these arrays and of others."""
        return Roles(
            self.points,
            output_points=self.output_points,
            grid=self.grid,
            time=self.time,
            layout=self.axes(),
            cells=self.cells,
            mask=self.mask,
            **more,
        )

    def axes(self) -> tuple[str, ...] | None:
        """Letters of the layout; raise `typer.BadParameter` for those that make no sense."""
        if self.grid is not None and self.grid not in GRIDS:
            raise typer.BadParameter(f"needs {' or '.join(GRIDS)}", param_hint="--grid")
        if self.grid is not None and self.points is not None:
            raise typer.BadParameter("goes without --points: it makes them", param_hint="--grid")
        if self.layout is None:
            return None
        letters = tuple(self.layout.replace(",", "").replace(" ", ""))
        if set(letters) - set(AXES):
            raise typer.BadParameter("needs letters of s,t,p,x,y,z,c", param_hint="--layout")
        if self.grid is None and self.points is None and POINT not in letters:
            raise typer.BadParameter(
                "has axes of a grid; needs --grid, or --points x,y with coordinates along them",
                param_hint="--layout",
            )
        return letters


@dataclass(frozen=True)
class Arrays(Places):
    """Names of all arrays of samples."""

    inputs: str | None = option(
        None,
        "Arrays of the inputs, with commas between them; '' is none.",
        show_default="all other fields",
    )
    outputs: str | None = option(
        None, "Arrays of the outputs.", show_default="'outputs', 'solution', .."
    )
    parameters: str | None = option(
        None,
        "Arrays of numbers that hold everywhere in a sample.",
        show_default="'parameters', if it is there",
    )
    state: str | None = option(
        None, "Arrays that change in time: steps are learnt, in place of outputs."
    )
    period: str | None = option(
        None,
        "Lengths of a periodic box, with commas; 0 along axes that are not periodic.",
        show_default="'period', if it is there",
    )

    def roles(self, **more: Any) -> Roles:
        """Roles of the arrays."""
        if self.state is not None and self.outputs is not None:
            raise typer.BadParameter(
                "goes without --outputs: the next state is", param_hint="--state"
            )
        lengths = None
        if self.period is not None:
            try:
                lengths = tuple(float(text) for text in self.period.split(","))
            except ValueError as error:
                raise typer.BadParameter("needs numbers", param_hint="--period") from error
        return super().roles(
            inputs=_names(self.inputs),
            outputs=_names(self.outputs),
            parameters=_names(self.parameters),
            states=_names(self.state),
            period=lengths,
            **more,
        )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else names_in(text)

# SPDX-License-Identifier: MIT
"""Settings of the jobs, in a module of their own so that ``--help`` need not load the jobs."""

from dataclasses import dataclass
from enum import Enum


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


@dataclass(frozen=True)
class DarcyConfig:
    """Settings that the result depends on."""

    samples: int = 100
    test_samples: int = 100
    grid: int = 121
    nodes: int = 200
    radius: float = 0.2
    width: int = 32
    hidden: int = 32
    layers: int = 4
    epochs: int = 300
    batch: int = 5
    learning_rate: float = 6e-3
    symmetry: bool = True
    seed: int = 0


@dataclass(frozen=True)
class GreenConfig:
    """Settings that the result depends on."""

    nodes: int = 64
    modes: int = 32
    hidden: int = 32
    batch: int = 8
    epochs: int = 60
    learning_rate: float = 3e-2
    seed: int = 0


@dataclass(frozen=True)
class PoissonConfig:
    """Settings that the result depends on."""

    samples: int = 100
    test_samples: int = 50
    nodes: int = 128
    queries: int = 64
    radius: float = 0.6
    reach: float = 0.6
    width: int = 32
    hidden: int = 32
    layers: int = 4
    epochs: int = 30
    batch: int = 4
    learning_rate: float = 6e-3
    seed: int = 0


RINGS = 24
"""Rings of the finite-element meshes of the Poisson job, which then have 1801 nodes."""
MOST_QUERIES = 1 + 3 * RINGS * (RINGS - 1)
"""Nodes of these meshes that are not on the boundary."""


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


@dataclass(frozen=True)
class PointsConfig:
    """Settings that the result depends on."""

    model: str = "gino"
    size: str = "medium"
    radius: float | None = None
    epochs: int = 200
    batch: int = 4
    learning_rate: float = 3e-3
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 1e-4
    clip: float = 1.0
    ema: float = 0.0
    patience: int = 0
    noise: float = 0.0
    held_out: float = 0.2
    precision: Precision = Precision.FLOAT32
    seed: int = 0


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

# SPDX-License-Identifier: MIT
"""A case of what `gpu.py` times and the time model counts, and the graphs of many of them.

A case has one size, of which its work is a multiple. `full` is what is timed on a GPU; at `small`
the model (`tests/cuda/ptx/baseline.py`) executes the same kernels and multiplies the counts.

useful      floats or operations that the operator cannot do without, by face: every array read or
            written once, and a row of features for every edge that gathers one; or the products
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gnograd as gg

Call = tuple[Any, tuple, dict[str, Any]]  # operator, inputs, static arguments
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
MANY = 200_000  # numbers that a GPU draws sooner than the host


@dataclass(frozen=True)
class Case:
    """A call at any size. `make(size, rng)` gives operator, inputs, static arguments."""

    name: str
    make: Callable[[int, np.random.Generator], Call]
    what: str
    full: int
    small: int
    work: Callable[[int], float] = float  # in proportion to the time, by size
    arrays: Callable[[int], float] | None = None  # in proportion to memory, if that differs
    useful: dict[str, float] = field(default_factory=dict)  # bytes, or with a type operations
    type: str = ""
    faces: tuple[str, ...] = ("forward", "vjp")
    usual: bool = True  # counted and timed where no case is named

    def described(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Labels of the small case, and what they stand for in the model."""
        for face in self.faces:
            entry = {"what": self.what, "scale": self.work(self.full) / self.work(self.small)}
            if self.arrays:
                entry["arrays_scale"] = self.arrays(self.full) / self.arrays(self.small)
            if face in self.useful:
                entry["flops" if self.type else "bytes"] = self.useful[face]
            if self.type:
                entry["type"] = self.type
            yield f"{self.name}/{face}", entry


CASES: dict[str, Case] = {}


def add(name: str, make: Callable, what: str, **more: Any) -> None:
    CASES[name] = Case(name, make, what, **more)


def normal(
    rng: np.random.Generator, *shape: int, dtype: str = "float32", scale: float = 1.0
) -> Any:
    """Normal numbers, which a generator with memory of its own draws there if they are many."""
    draw = getattr(rng, "draw", None)
    if draw and math.prod(shape) >= MANY:
        return draw(shape, dtype, scale)
    x = scale * rng.standard_normal(shape, np.float32)
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


def random_graph(n: int, degree: int, rng: np.random.Generator) -> gg.Graph:
    return gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)


def power_law(nodes: int, degree: int, rng: np.random.Generator) -> gg.Graph:
    """Few nodes with very many edges; `degree` on average."""
    weight = np.arange(1, nodes + 1) ** -0.8
    dst = rng.choice(nodes, degree * nodes, p=weight / weight.sum())
    return gg.Graph.from_edges(rng.integers(0, nodes, degree * nodes), np.sort(dst), nodes, nodes)


def mesh(n: int, rng: np.random.Generator | None = None) -> gg.Graph:
    """Periodic triangle mesh of n nodes, a square: six neighbours a node."""
    side = round(n**0.5)
    i, j = np.divmod(np.arange(side * side), side)
    steps = [(0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1)]
    src = np.stack([(i + a) % side * side + (j + b) % side for a, b in steps], axis=1)
    return gg.Graph(6 * np.arange(side * side + 1), src.ravel())


GRAPHS = {
    # name: graph, nodes in full and in the small case, degree, words
    "": (
        lambda n, rng: random_graph(n, 20, rng),
        100_000,
        20_000,
        20,
        "100,000 nodes, 2,000,000 edges at random",
    ),
    "_mesh": (mesh, 1_000_000, 40_000, 6, "triangle mesh of 1000 x 1000"),
    "_hubs": (
        lambda n, rng: power_law(n, 20, rng),
        100_000,
        20_000,
        20,
        "100,000 nodes, 2,000,000 edges by a power law",
    ),
}

NODES, EDGES = 100_000, 2_000_000
GRAPH = GRAPHS[""][-1]


def on_random_graph(
    name: str, make: Callable, what: str, forward: float, vjp: float, **more: Any
) -> None:
    """Add a case on 100,000 nodes with 20 edges each, counted with 20,000.

    `forward` and `vjp` are the numbers that the faces move at least.
    """

    def build(n: int, rng: np.random.Generator) -> Call:
        return make(random_graph(n, 20, rng), n, rng)

    size = more.pop("size", 4)
    useful = {"forward": size * forward, "vjp": size * vjp}
    more = {"small": 20_000, **more}
    add(name, build, f"{what}; {GRAPH}", full=NODES, useful=useful, **more)

# SPDX-License-Identifier: MIT
"""Number of solves after which a trained model has paid for itself, on this processor.

A model and a solver of the same error are compared on flow through two materials (`gnograd data
darcy`): the solver is made as coarse as it may be for the error of the model. Errors of both are
against solutions on a finer grid, at the points where they have values, over problems that the
model has not seen. The model costs its training data, solved on a grid that is good enough for it,
and its training. One after the other is solved, by one thread; the coefficient is given to both.

usage: python benchmarks/breakeven.py [--seconds S] [--samples N] [--model gino] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from results import Results, add_option
from rich.console import Console

import gnograd as gg
from gnograd.cli.config import PointsConfig
from gnograd.cli.darcy_problem import coefficient, solve
from gnograd.cli.point_batches import PointBatches
from gnograd.cli.point_problem import PointProblem, relative_errors
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.torch_engine import TorchEngine
from gnograd.cli.training import Trainer, learning_rate
from gnograd.data import Field, Layout, PointData, Sample
from gnograd.models import NAMES, PointModel

Array = NDArray[Any]

FINE, SOLVED, SEEN = 240, 120, 30
"""Cells along a side: of the grid that errors are against, of the training data, of the model."""
COARSE = (4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 48, 60, 80, 120)
"""Cells of coarser solvers, which divide `FINE`."""
TESTS = 20


def sample_of(seed: int, k: int) -> tuple[Sample, float]:
    """A problem on the model's points, and the time of its solution."""
    a = coefficient(generator(seed, Stream.TRAINING_SAMPLE, k), SOLVED + 1)
    start = time.perf_counter()
    u = solve(a)
    taken = time.perf_counter() - start
    every = SOLVED // SEEN
    fields = (f[::every, ::every].reshape(-1, 1).astype(np.float32) for f in (a, u))
    inputs, outputs = fields
    return Sample(POINTS, inputs, POINTS, outputs, np.zeros(0, np.float32)), taken


def points() -> Array:
    """Points of the model."""
    axis = np.linspace(0, 1, SEEN + 1)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


POINTS = points()


def trained(data: PointData, name: str, seconds: float) -> PointModel:
    """Model after so many seconds."""
    torch.manual_seed(0)
    model = PointModel.for_data(data, name, "small")
    config = PointsConfig(learning_rate=3e-3)
    batches = PointBatches(model, data)
    problem = PointProblem(model, config, batches, batches, TorchEngine("cpu", 1))
    problem.prepare(Console(quiet=True))
    trainer, start = Trainer(problem, config), time.perf_counter()
    for epoch in count():
        for batch in problem.batches(generator(0, Stream.EPOCH, epoch)):
            part = (time.perf_counter() - start) / seconds
            if part >= 1:
                return model.eval()
            trainer.optimiser.lr = learning_rate(config.learning_rate, part, config.schedule)
            trainer.step(batch)
    raise AssertionError("epochs end")


def timed(call: Any) -> tuple[Any, float]:
    """Result of a call, and the least of three times."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        result = call()
        taken.append(time.perf_counter() - start)
    return result, min(taken)


def main() -> None:
    """Print the comparison, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of training")
    parser.add_argument("--samples", type=int, default=200, help="of training")
    parser.add_argument("--model", choices=NAMES, default="gino")
    add_option(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)
    gg.set_num_threads(1)

    made = [sample_of(0, k) for k in range(given.samples)]
    preparation = sum(taken for _, taken in made)
    layout = Layout(2, (Field("a", 1),), (Field("u", 1),))
    model = trained(PointData([s for s, _ in made], layout), given.model, given.seconds)
    graphs = model.graphs(model.positions(POINTS))

    of_model: list[tuple[float, float]] = []  # error, seconds
    of_solver: dict[int, list[tuple[float, float]]] = {n: [] for n in COARSE}
    for k in range(TESTS):
        a = coefficient(generator(1, Stream.TRAINING_SAMPLE, k), FINE + 1)
        true = solve(a)

        def error(u: Array, n: int, true: Array = true) -> float:
            wanted = true[:: FINE // n, :: FINE // n].reshape(-1, 1)
            return relative_errors(u.reshape(-1, 1), wanted)

        seen = a[:: FINE // SEEN, :: FINE // SEEN].reshape(-1, 1).astype(np.float32)
        sample = Sample(POINTS, seen, POINTS, None, np.zeros(0, np.float32))
        u, taken = timed(lambda sample=sample: model.predict(sample, graphs=graphs))
        of_model.append((error(u, SEEN), taken))
        for n in COARSE:
            coarse = a[:: FINE // n, :: FINE // n]
            u, taken = timed(lambda coarse=coarse: solve(coarse))
            of_solver[n].append((error(u, n), taken))

    error_of, seconds_of = np.mean([e for e, _ in of_model]), np.median([t for _, t in of_model])
    table = {
        n: (np.mean([e for e, _ in found]), np.median([t for _, t in found]))
        for n, found in of_solver.items()
    }
    for n, (e, t) in table.items():
        print(f"solver, {n} x {n} cells: error {e:.4f}, {1e3 * t:.3g} ms")
    name = f"{given.model}, {SEEN} x {SEEN} cells"
    print(f"{name}: error {error_of:.4f}, {1e3 * seconds_of:.3g} ms")
    spent = preparation + given.seconds
    print(f"spent before: {preparation:.3g} s for data, {given.seconds:.3g} s for training")
    equal = next((n for n in COARSE if table[n][0] <= error_of), COARSE[-1])
    e, t = table[equal]
    saved = t - seconds_of
    solves = spent / saved if saved > 0 else None
    if solves is None:
        text = f"never: the solver takes {1e3 * t:.3g} ms for that error, on {equal} x {equal}"
    else:
        text = f"after {solves:.0f} solves, against the solver on {equal} x {equal}"
    print(f"paid for: {text}")

    results = Results(given.json)
    case = "darcy"
    results.add(
        case, "", name, threads=1, relative_error=float(error_of), solve=float(seconds_of),
        data=preparation, training=given.seconds, solves=solves,
    )  # fmt: skip
    results.add(
        case, "", f"solver, {equal} x {equal} cells", threads=1, relative_error=float(e),
        solve=float(t),
    )  # fmt: skip


if __name__ == "__main__":
    main()

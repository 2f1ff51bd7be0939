# SPDX-License-Identifier: MIT
"""Job `gnograd train darcy`: from a permeability to the pressure, on irregular points."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table

import gnograd as gg
from gnograd.cli import darcy_data, figures
from gnograd.cli.config import DarcyConfig, Parallel
from gnograd.cli.darcy_data import DarcyData, DataError
from gnograd.cli.darcy_graphs import EDGE_FEATURES, NODE_FEATURES, SYMMETRIES, Batch, DarcyGraphs
from gnograd.cli.engine import Engine, Variable
from gnograd.cli.files import cache_directory, writing
from gnograd.cli.job import Run
from gnograd.cli.log import Epoch
from gnograd.cli.network import Network
from gnograd.cli.options import plain
from gnograd.cli.processes import ALONE
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.training import TrainingProblem, fit, relative_error

Array = npt.NDArray[Any]

PICTURE = "darcy.png"
MODEL = "model.safetensors"
SAMPLE = "sample.safetensors"

MONITORED = 20
"""Number of test samples for the held-out error during training."""

SIDES = (5, 64)
"""Smallest and largest number of points per side of the regular grids for tests."""

PAIRS = 20 * 61**4
"""Largest number of pairs of points, over all samples, in a test on one of these grids; time is
proportional to it. Further samples are left out, and the table says how many were used."""


def train(
    config: DarcyConfig, data_file: Path | None, run: Run, engine: Engine
) -> dict[str, float]:
    """Train a network, print its errors on samples it has not seen, and draw a picture.

    Parameters
    ----------
    config : DarcyConfig
    data_file : pathlib.Path, optional
        Data to use in place of generated samples: the first `config.samples` are for training, the
        last `config.test_samples` for tests.
    run : Run
        The directory gets a picture, the model, and a sample of inputs and outputs, too.
    engine : Engine
        Engine of the computation.

    Returns
    -------
    dict of str to float
        Mean relative L2 error over the test samples, by resolution.
    """
    if config.symmetry is None:
        config = replace(config, symmetry=data_file is None)
    found = run.processes.from_first(lambda: vars(_data(config, data_file, run.console)))
    data = DarcyData(**found)
    config = replace(config, grid=data.grid)
    symmetric = bool(config.symmetry)
    graphs = DarcyGraphs(data, config.samples, config.radius, symmetric, run.processes)
    model = DarcyModel(config, graphs, engine)
    history = fit(model, config, run, {"data": data.checksum()}).history
    results = _results(model, run.console)
    _draw(model, history, run.directory / PICTURE)
    _export(model, run.directory)
    run.show("picture", run.directory / PICTURE)
    run.show("model", run.directory / MODEL)
    return results


class DarcyModel(TrainingProblem):
    """Network, its loss in training, and its errors afterwards."""

    def __init__(self, config: DarcyConfig, graphs: DarcyGraphs, engine: Engine) -> None:
        self.config = config
        self.graphs = graphs
        self.engine = engine
        self.processes = graphs.processes
        self.network = Network(
            engine,
            NODE_FEATURES,
            EDGE_FEATURES,
            config.width,
            config.hidden,
            config.layers,
            1,
            generator(config.seed, Stream.PARAMETERS),
        )
        self.parameters = self.network.parameters
        self.steps = -(-config.samples // config.batch)
        self.test_samples = range(len(graphs.data) - config.test_samples, len(graphs.data))

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        """Every training sample once, on one of the processes that share them.

        Each time at other random points, and transformed by a random symmetry of the problem, if it
        has any.
        """
        config = self.config
        order = rng.permutation(config.samples)
        for start in range(0, config.samples, config.batch):
            samples = order[start : start + config.batch]
            nodes = self.graphs.random_nodes(rng, len(samples), config.nodes)
            symmetries = rng.integers(len(SYMMETRIES), size=len(samples))
            share = self.processes.share(len(samples))
            yield self.graphs.batch(
                samples[share],
                nodes[share],
                symmetries[share] if config.symmetry else None,
                of=len(samples),
            )

    def loss(self, batch: Batch) -> Variable:
        """Mean relative L2 error of the samples of a step."""
        solution = self._solution(batch)
        if self.processes.parallel is Parallel.GRAPH:
            return self._error_of_parts(solution, batch)
        truth = batch.truth.reshape(batch.n_samples, batch.n_points)
        return self.processes.sum(relative_error(self.engine, solution, truth, batch.of))

    def held_out_error(self) -> float:
        """Mean error over a few test samples, with as many points as in training."""
        return self.mean_error(self.test_samples[:MONITORED], self.config.nodes)

    def predict(self, batch: Batch) -> Array:
        """Solution at the nodes of a batch, (n_nodes, 1)."""
        with self.engine.evaluation():
            return self.engine.value(self._solution(batch))

    def mean_error(
        self,
        samples: Sequence[int],
        nodes: int | Array,
        track: Callable[[Sequence[int]], Iterable[int]] = iter,
    ) -> float:
        """Mean relative L2 error over samples.

        Parameters
        ----------
        samples : sequence of int
        nodes : int or ndarray of int
            Number of random grid points of each sample, or the same grid points for all.
        track : callable
            Wraps the loop over samples, for a progress bar.
        """

        def error(sample: int) -> float:
            at = nodes
            if isinstance(at, int):
                rng = generator(self.config.seed, Stream.EVALUATION, sample)
                at = self.graphs.random_nodes(rng, 1, at)
            batch = self.graphs.batch([sample], at.reshape(1, -1))
            pair = np.concatenate([self.predict(batch) - batch.truth, batch.truth], axis=1)
            squares = np.square(pair, dtype=np.float64).sum(axis=0)
            if self.processes.parallel is Parallel.GRAPH:
                squares = self.processes.sum(squares)
            return math.sqrt(squares[0] / squares[1])

        return float(np.mean(self.processes.measured(samples, error, track=track)))

    def at_all_points(self, batch: Batch, values: Array) -> Array:
        """Collect values at the nodes of a batch from all processes, in the order of the points."""
        if self.processes.parallel is not Parallel.GRAPH:
            return values
        everywhere = np.zeros((batch.n_samples * batch.n_points, *values.shape[1:]), values.dtype)
        everywhere[batch.points] = values
        return self.processes.comm.sum(everywhere)

    def _error_of_parts(self, solution: Variable, batch: Batch) -> Variable:
        """Mean relative L2 error of samples whose points are distributed over processes."""
        constant = self.engine.constant
        error = solution - constant(batch.truth)
        belongs = batch.points // batch.n_points == np.arange(batch.n_samples)[:, None]
        squares = self.processes.sum(constant(belongs) @ (error * error))
        # so that the root has a derivative at zero
        norms = (squares + float(np.finfo(self.engine.dtype).tiny)) ** 0.5
        return (norms / constant(batch.norms[:, None])).mean()

    def _solution(self, batch: Batch) -> Variable:
        constant = self.engine.constant
        output = self.network(constant(batch.nodes), constant(batch.edges), batch.graph)
        return output * constant(batch.std) + constant(batch.mean)


def _data(config: DarcyConfig, data_file: Path | None, console: Console) -> DarcyData:
    needed = config.samples + config.test_samples
    if data_file is None:
        data = darcy_data.generate(
            config.samples,
            config.test_samples,
            config.grid,
            config.seed,
            cache_directory(),
            lambda samples: track(samples, "generating data", console=console),
            lambda why: console.print(why, markup=False, soft_wrap=True),
        )
    else:
        data = darcy_data.load(data_file)
        if len(data) < needed:
            raise DataError(
                f"{data_file}: array 'coefficient' holds {len(data)} samples, but "
                f"{config.samples} for training and {config.test_samples} for testing are asked for"
            )
    if config.nodes > data.grid**2:
        raise DataError(f"{config.nodes} nodes are more than a {data.grid} x {data.grid} grid has")
    return data


def _results(model: DarcyModel, console: Console) -> dict[str, float]:
    """Measure and print the errors on the test samples at several resolutions."""
    random, grid = model.config.nodes, model.graphs.data.grid
    cases: list[tuple[str, int | Array]] = [(f"{random} random points, as in training", random)]
    cases += (
        (_resolution(grid, step), model.graphs.regular_nodes(step)) for step in regular_steps(grid)
    )
    table = Table("resolution", "test samples", "mean relative L2 error")
    results = {}
    for resolution, nodes in cases:
        some = model.test_samples
        if not isinstance(nodes, int):
            some = some[: PAIRS // len(nodes) ** 2]
        bar = partial(
            track,
            description=f"testing: {resolution}",
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        results[resolution] = model.mean_error(some, nodes, bar)
        table.add_row(resolution, f"{len(some)}", f"{results[resolution]:.4f}")
    console.print(table)
    return results


def regular_steps(grid: int) -> list[int]:
    """Steps of the regular grids for tests, the finest last.

    These are the finest grid of admissible size (`SIDES`), and before it one with half its points
    per side or somewhat less. Grids with points on all sides of the square are preferred; if none
    has an admissible size, the last lines of points are left out.
    """
    least, most = SIDES
    sides = {step: -(-grid // step) for step in range(1, grid)}
    whole = [step for step in sides if (grid - 1) % step == 0 and sides[step] <= most]
    finest = next((step for step in whole if sides[step] >= least), -(-grid // most))
    halved = (s for s in whole if least <= sides[s] <= (sides[finest] + 1) // 2)
    return [*islice(halved, 1), finest]


def _export(model: DarcyModel, directory: Path) -> None:
    """Write the parameters by name and, for programs that evaluate the network, a test sample."""
    processes, engine = model.processes, model.engine
    with processes.together():
        if not processes.first:
            return
        with writing(directory):
            gg.save_weights(
                directory / MODEL,
                {name: engine.value(array) for name, array in model.parameters.items()},
                metadata={"model": "darcy", "config": json.dumps(plain(model.config))},
            )
            gg.save_weights(directory / SAMPLE, _sample(model))


def _sample(model: DarcyModel) -> dict[str, Array]:
    """The first test sample at points as in training, with the prediction of the network.

    The points are all on this process.
    """
    graphs, sample = copy(model.graphs), model.test_samples[0]
    graphs.processes = ALONE
    rng = generator(model.config.seed, Stream.EVALUATION, sample)
    batch = graphs.batch([sample], graphs.random_nodes(rng, 1, model.config.nodes))
    assert isinstance(batch.graph, gg.Graph)
    return {
        "offsets": batch.graph.offsets,
        "indices": batch.graph.indices,
        "nodes": batch.nodes,
        "edges": batch.edges,
        "mean": batch.mean,
        "std": batch.std,
        "solution": batch.truth,
        "prediction": model.predict(batch),
    }


def _resolution(grid: int, step: int) -> str:
    """A regular grid in words."""
    side = -(-grid // step)
    return (
        f"all {grid} x {grid} points" if step == 1 else f"{side} x {side} of {grid} x {grid} points"
    )


def _draw(model: DarcyModel, history: Sequence[Epoch], path: Path) -> None:
    """Draw the first test sample on the finest of the regular grids."""
    data = model.graphs.data
    step = regular_steps(data.grid)[-1]
    sample = model.test_samples[0]
    nodes = model.graphs.regular_nodes(step)
    batch = model.graphs.batch([sample], nodes[None])
    prediction = model.at_all_points(batch, model.predict(batch))
    coefficient = data.coefficient[sample, ::step, ::step]
    with model.processes.together():
        if model.processes.first:
            figures.darcy(
                path,
                f"first test sample, {_resolution(data.grid, step)}",
                coefficient,
                data.solution[sample, ::step, ::step],
                prediction.reshape(coefficient.shape),
                history,
            )

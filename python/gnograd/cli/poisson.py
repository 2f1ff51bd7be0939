# SPDX-License-Identifier: MIT
"""Job `gnograd train poisson`: train a solution operator on solutions, or on the equation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table

import gnograd as gg
from gnograd.cli import figures, poisson_problem
from gnograd.cli.config import RINGS, Lesson, PoissonConfig, lessons
from gnograd.cli.engine import Engine, Variable
from gnograd.cli.job import Run
from gnograd.cli.log import Epoch
from gnograd.cli.network import Network
from gnograd.cli.poisson_graphs import (
    EDGE_FEATURES,
    NODE_FEATURES,
    Batch,
    PoissonGraphs,
    Task,
    disk_points,
)
from gnograd.cli.poisson_problem import SOURCE, Mesh, Problem
from gnograd.cli.processes import ALONE, Processes
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.training import TrainingProblem, fit, relative_error

Array = npt.NDArray[Any]

PICTURE = "poisson.png"

STEPS = 100
"""Training steps that count as one epoch, since new problems are drawn in every step."""
MONITORED = 10
"""Number of test problems for the held-out error during training."""
DRAWN = 3
"""Number of test problems in the picture."""

SCALE = SOURCE / 4.0
"""Size of u: the solution of ``Lap u = -SOURCE`` on the unit disk is ``SOURCE / 4 phi``."""


@dataclass(frozen=True)
class Solved:
    """A problem and its finite-element solution."""

    problem: Problem
    mesh: Mesh
    weights: Array
    """Quadrature weights of the nodes, (n_nodes,)."""
    u: Array
    """Solution at the nodes, (n_nodes,)."""

    def task(self, nodes: Any = slice(None), turn: float = 0.0) -> Task:
        """Solution at some nodes of the mesh."""
        points = self.mesh.points[nodes]
        return Task(self.problem, turn, points, self.weights[nodes], self.u[nodes])


def train(config: PoissonConfig, physics: bool, run: Run, engine: Engine) -> dict[str, float]:
    """Train networks, print their errors on problems they have not seen, and draw a picture.

    Parameters
    ----------
    config : PoissonConfig
    physics : bool
        Train one network on the equation alone, one on the equation and on solutions, and one on
        solutions alone; without it the last only.
    run : Run
        The directory gets the picture, and a folder with checkpoint and history for each network.
    engine : Engine
        Engine of the computation.

    Returns
    -------
    dict of str to float
        Mean relative L2 error over the test problems, by training data.
    """
    train_set, test_set = (
        _solved(config.seed, stream, n, purpose, run)
        for stream, n, purpose in (
            (Stream.TRAINING_SAMPLE, config.samples, "training"),
            (Stream.TEST_SAMPLE, config.test_samples, "testing"),
        )
    )
    histories: dict[str, list[Epoch]] = {}
    models = []
    for lesson in lessons(physics):
        run.console.print(f"training on {lesson.value}")
        model = PoissonModel(config, lesson, train_set, test_set, engine, run.processes)
        state = fit(model, config, run, {"lesson": lesson.value}, lesson.directory)
        histories[lesson.value] = state.history
        models.append(model)
    results = _results(models, run.console)
    with run.processes.together():
        if run.processes.first:
            _draw(models[0], histories, run.directory / PICTURE)
    run.show("picture", run.directory / PICTURE)
    return results


class PoissonModel(TrainingProblem):
    """Network, its loss in training, and its errors afterwards.

    The network encodes f and phi at the nodes of a problem, and decodes with
    `gnograd.gno_with_laplacian` at the queries::

        u = phi v,      v(x) = sum_j w_j(x) h_j . kappa(x - y_j)

    so that u is zero on the boundary, and value, gradient and Laplacian of u follow by the product
    rule from those of v and phi.
    """

    def __init__(
        self,
        config: PoissonConfig,
        lesson: Lesson,
        train_set: Sequence[Solved],
        test_set: Sequence[Solved],
        engine: Engine,
        processes: Processes = ALONE,
    ) -> None:
        self.config, self.lesson, self.engine = config, lesson, engine
        self.processes = processes
        self.train_set, self.test_set = train_set, test_set
        self.graphs = PoissonGraphs(config.nodes, config.radius, config.reach)
        rng = generator(config.seed, Stream.PARAMETERS)
        self.encoder = Network(
            engine,
            NODE_FEATURES,
            EDGE_FEATURES,
            config.width,
            config.hidden,
            config.layers,
            config.width,
            rng,
        )
        self.widths = [config.hidden, config.hidden]
        self.parameters = self.encoder.parameters | {
            f"decoder.{name}": engine.parameter(values.astype(np.float32))
            for name, values in _decoder(self.widths, config.width, rng).items()
        }
        self.steps = STEPS

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        """New problems without a solution, and some of the training samples."""
        n = self.config.batch
        known = {Lesson.EQUATION: 0, Lesson.BOTH: n // 2, Lesson.SOLUTIONS: n}[self.lesson]
        for _ in range(self.steps):
            tasks = [self._new_task(rng) for _ in range(n - known)]
            tasks += [self._known_task(rng) for _ in range(known)]
            yield self.graphs.batch(tasks[self.processes.share(n)], of=(n, known))

    def loss(self, batch: Batch) -> Variable:
        """Relative L2 norm of the residual, plus relative L2 error where the solution is known."""
        u, gradient, laplacian = self.solution(batch)
        total: Variable = 0.0
        if self.lesson is not Lesson.SOLUTIONS:
            flow = flow_divergence(u, gradient, laplacian)
            f = batch.source.reshape(batch.n_samples, -1)
            total = total + self._relative_error(flow, f, batch.areas, batch.of[0])
        if batch.truth is not None:
            known = u.reshape(batch.n_samples, -1)[-len(batch.truth) :]
            total = total + self._relative_error(
                known, batch.truth, batch.areas[-len(batch.truth) :], batch.of[1]
            )
        return self.processes.sum(total)

    def held_out_error(self) -> float:
        """Mean error over a few test problems."""
        return float(
            self.processes.measured(
                self.test_set[:MONITORED], lambda case: self.errors(case)[0]
            ).mean()
        )

    def errors(self, case: Solved) -> tuple[float, float]:
        """Relative L2 error against the finite-element solution, and L2 norm of the residual."""
        batch = self.graphs.batch([case.task()])
        with self.engine.evaluation():
            u, *derivatives = self.solution(batch)
            flow = self.engine.value(flow_divergence(u, *derivatives))[:, 0]
            error = self.engine.value(u)[:, 0] - case.u
        f = batch.source[:, 0]

        def norm(values: Array) -> float:
            return float(np.sqrt(case.weights @ np.square(values)))

        return norm(error) / norm(case.u), norm(flow - f) / norm(f)

    def predict(self, case: Solved) -> Array:
        """Solution at the nodes of the mesh, (n_nodes,)."""
        with self.engine.evaluation():
            u, *_ = self.solution(self.graphs.batch([case.task()]))
            return self.engine.value(u)[:, 0]

    def solution(self, batch: Batch) -> tuple[Variable, Variable, Variable]:
        """Value, (n_queries, 1), gradient, (n_queries, 2), and Laplacian, (n_queries, 1)."""
        constant, reach, p = self.engine.constant, self.config.reach, self.parameters
        h = self.encoder(constant(batch.nodes), constant(batch.edges), batch.graph)
        v, dv, ddv = self.engine.gno_with_laplacian(
            h,
            constant(batch.queries),
            constant(batch.positions),
            p["decoder.layers"],
            p["decoder.V"],
            p["decoder.b_v"],
            constant(batch.weights),
            constant(batch.weight_derivatives),
            graph=batch.neighbours,
            widths=self.widths,
            activation="gelu",
        )
        # derivatives of v are by positions in reaches
        dv, ddv = dv.reshape(-1, 2) / reach, ddv / reach**2
        phi, dphi = constant(batch.phi), constant(batch.phi_gradient)
        ddphi = constant(batch.phi_laplacian)
        mixed = (dphi * dv).sum(axis=1, keepdims=True)
        return (
            SCALE * phi * v,
            SCALE * (phi * dv + v * dphi),
            SCALE * (phi * ddv + 2.0 * mixed + v * ddphi),
        )

    def _relative_error(self, values: Variable, truth: Array, areas: Array, of: int) -> Variable:
        """Mean over `of` samples of the relative L2 error, integrated over the domain."""
        weights = np.sqrt(areas)
        weighted = values.reshape(truth.shape) * self.engine.constant(weights)
        return relative_error(self.engine, weighted, truth * weights, of)

    def _new_task(self, rng: np.random.Generator) -> Task:
        """A new problem, at random points that cover its domain evenly."""
        problem = poisson_problem.draw(rng)
        turn, other = rng.uniform(0.0, 2.0 * np.pi, 2)
        disk = disk_points(self.config.queries, other, rng)
        return Task(problem, turn, *problem.from_disk(disk))

    def _known_task(self, rng: np.random.Generator) -> Task:
        """A training sample at random nodes of its mesh that are not on the boundary."""
        case = self.train_set[int(rng.integers(len(self.train_set)))]
        nodes = rng.choice(case.mesh.n_inner, self.config.queries, replace=False)
        return case.task(nodes, rng.uniform(0.0, 2.0 * np.pi))


def flow_divergence(u: Variable, gradient: Variable, laplacian: Variable) -> Variable:
    """``div((1 + u^2/10) grad u) = (1 + u^2/10) Lap u + u/5 |grad u|^2``."""
    square = (gradient * gradient).sum(axis=1, keepdims=True)
    return (1.0 + 0.1 * u * u) * laplacian + 0.2 * u * square


def solve(problem: Problem) -> Solved:
    """Solve a problem by finite elements."""
    mesh = poisson_problem.mesh(problem, RINGS)
    return Solved(problem, mesh, mesh.weights(), _solution((problem, mesh)))


def _solution(case: tuple[Problem, Mesh]) -> Array:
    problem, mesh = case
    return poisson_problem.solve(mesh, problem.source(mesh.points))


def _decoder(widths: Sequence[int], features: int, rng: np.random.Generator) -> dict[str, Array]:
    """Initial kernel network of the decoder: variance 1 / inputs, of the first layer 4/3."""
    layers, inputs = [], 2
    for width in widths:
        bound = 2.0 if inputs == 2 else np.sqrt(3.0 / inputs)
        layers.append((rng.uniform(-bound, bound, (inputs, width)), rng.uniform(-1.0, 1.0, width)))
        inputs = width
    bound = np.sqrt(3.0 / (inputs * features))
    return {
        "layers": gg.gno_pack_layers(layers),
        "V": rng.uniform(-bound, bound, (inputs, features, 1)),
        "b_v": np.zeros((features, 1)),
    }


def _solved(seed: int, stream: Stream, n: int, purpose: str, run: Run) -> list[Solved]:
    """Draw problems and solve them."""
    problems = [poisson_problem.draw(generator(seed, stream, k)) for k in range(n)]
    cases = [(problem, poisson_problem.mesh(problem, RINGS)) for problem in problems]
    bar = partial(track, description=f"solving {n} problems for {purpose}", console=run.console)
    values = run.processes.measured(cases, _solution, len(cases[0][1].points), bar)
    return [
        Solved(problem, mesh, mesh.weights(), u)
        for (problem, mesh), u in zip(cases, values, strict=True)
    ]


def _results(models: Iterable[PoissonModel], console: Console) -> dict[str, float]:
    """Measure and print the errors on the test problems."""
    table = Table("trained on", "mean relative L2 error", "largest", "residual")
    results = {}
    for model in models:
        errors, residuals = model.processes.measured(model.test_set, model.errors, 2).T
        results[model.lesson.value] = float(errors.mean())
        table.add_row(
            model.lesson.value,
            f"{errors.mean():.4f}",
            f"{errors.max():.4f}",
            f"{residuals.mean():.3f}",
        )
    console.print(table)
    return results


def _draw(model: PoissonModel, histories: dict[str, list[Epoch]], path: Path) -> None:
    """Draw the first test problems, and the course of all trainings."""
    drawn = model.test_set[:DRAWN]
    figures.poisson(
        path,
        [
            figures.OnMesh(
                case.mesh.points,
                case.mesh.triangles,
                case.problem.source(case.mesh.points),
                case.u,
                model.predict(case),
                model.errors(case)[0],
            )
            for case in drawn
        ],
        histories,
    )

# SPDX-License-Identifier: MIT
"""Job `gnograd train green`: learn a Green's function from pairs of f and u.

The solution of ``-u'' = f`` on (0, 1) with ``u(0) = u(1) = 0`` is an integral
over ``f`` with the kernel ``G(x, y) = (x + y - |y - x|) / 2 - x y``. A single graph
neural operator with one channel is such an integral, by the midpoint rule, and
its kernel network has to converge to ``G``.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import gnograd as gg
from gnograd.cli import figures
from gnograd.cli.config import GreenConfig
from gnograd.cli.engine import Engine, Variable
from gnograd.cli.job import Run
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.training import TrainingProblem, fit, relative_error

Array = npt.NDArray[Any]

PICTURE = "green.png"

STEPS = 50
"""Training steps that count as one epoch, since new right-hand sides are drawn in every step."""

TEST_FUNCTIONS = 100


def exact_kernel(x: Array, y: Array) -> Array:
    """Green's function of ``-u'' = f`` on (0, 1) with zero boundary values."""
    kernel: Array = (x + y - np.abs(y - x)) / 2.0 - x * y
    return kernel


def train(config: GreenConfig, run: Run, engine: Engine) -> float:
    """Learn the kernel, print its relative error, and draw it beside the exact one.

    Parameters
    ----------
    config : GreenConfig
    run : Run
        The directory gets a picture, too.
    engine : Engine
        Engine of the computation.

    Returns
    -------
    float
        Relative L2 error of the kernel on the grid of midpoints.
    """
    model = GreenModel(config, engine)
    history = fit(model, config, run).history
    exact = exact_kernel(model.points[:, None], model.points)
    learned = model.kernel()
    error = float(np.linalg.norm(learned - exact) / np.linalg.norm(exact))
    run.console.print(f"relative L2 error of the learned kernel: {error:.2e}")
    figures.green(run.directory / PICTURE, model.points, exact, learned, history)
    run.show("picture", run.directory / PICTURE)
    return error


class GreenModel(TrainingProblem):
    """One graph neural operator on the complete graph of the midpoints."""

    def __init__(self, config: GreenConfig, engine: Engine) -> None:
        self.config, self.engine = config, engine
        n = config.nodes
        self.points = (np.arange(n) + 0.5) / n
        self.steps = STEPS
        rng = generator(config.seed, Stream.PARAMETERS)
        scale = 1.0 / math.sqrt(config.hidden)
        self.parameters = {
            name: self.engine.parameter(rng.uniform(-bound, bound, shape).astype(np.float32))
            for name, shape, bound in (
                ("U", (3, config.hidden), 1.0 / math.sqrt(3.0)),
                ("b_u", (config.hidden,), 1.0 / math.sqrt(3.0)),
                ("V", (config.hidden, 1, 1), scale),
                ("b_v", (1, 1), scale),
            )
        }
        # One copy of the complete graph for every function of a batch.
        first = n * np.arange(config.batch)[:, None]
        self.graph = gg.Graph(
            n * np.arange(n * config.batch + 1),
            np.tile(first + np.arange(n), (1, n)).ravel(),
        )
        x, y = np.repeat(self.points, n), np.tile(self.points, n)
        pairs = np.stack([2.0 * x - 1.0, 2.0 * y - 1.0, 2.0 * np.abs(x - y)], axis=1)
        self.pairs = pairs.astype(np.float32)
        self.edges = self.engine.constant(np.tile(self.pairs, (config.batch, 1)))

    def functions(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw right-hand sides, and their exact solutions, at the midpoints.

        ``f = sum_k c_k sqrt(2) sin(k pi x)`` with standard normal ``c_k``, so that the
        mean square error of ``u`` is that of the kernel, projected on the modes.

        Returns
        -------
        f, u : ndarray, (batch, nodes)
        """
        wave = np.pi * np.arange(1, self.config.modes + 1)
        sines = math.sqrt(2.0) * np.sin(wave[:, None] * self.points)
        c = rng.standard_normal((self.config.batch, self.config.modes))
        return (c @ sines).astype(np.float32), ((c / wave**2) @ sines).astype(np.float32)

    def batches(self, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Fresh right-hand sides and their solutions."""
        return (self.functions(rng) for _ in range(self.steps))

    def loss(self, batch: tuple[Array, Array]) -> Variable:
        """Mean relative L2 error of the solutions."""
        f, u = batch
        p = self.parameters
        integral = self.engine.gno(
            self.engine.constant(f.reshape(-1, 1)),
            self.edges,
            p["U"],
            p["b_u"],
            p["V"],
            p["b_v"],
            graph=self.graph,
            activation="gelu",
            reduction="mean",
        )
        return relative_error(self.engine, integral, u)

    def held_out_error(self) -> float:
        """Mean error for right-hand sides that are not used in training."""
        rng = generator(self.config.seed, Stream.EVALUATION)
        errors = []
        for _ in range(-(-TEST_FUNCTIONS // self.config.batch)):
            with self.engine.evaluation():
                errors.append(self.engine.value(self.loss(self.functions(rng))).item())
        return float(np.mean(errors))

    def kernel(self) -> Array:
        """Learned kernel at all pairs of midpoints, (nodes, nodes)."""
        n = self.config.nodes
        values = {name: self.engine.value(array) for name, array in self.parameters.items()}
        kappa = gg.gno_kernel(
            self.pairs.astype(self.engine.dtype), *values.values(), activation="gelu"
        )
        return np.asarray(kappa, np.float64).reshape(n, n)

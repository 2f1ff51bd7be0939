# SPDX-License-Identifier: MIT
"""Derivatives and advection in some hundred steps, and the parts of models that it takes.

One line a model: the relative L2 error on new samples after so many training steps of 4 samples on
16 x 16 periodic points, and the time of a step. `slope` is the derivative of a wave along the first
axis, `advection` the whole trajectory of a wave in a wind. A model may have other options, and
`magno-positions` is magno with kernels of positions in the whole box, as in its paper.

usage: python benchmarks/learning.py slope magno-positions magno
       python benchmarks/learning.py slope mgn:layers=6,neighbors=6:150 mgn:300
       python benchmarks/learning.py advection mgn:layers=6,neighbors=6:150 mgn:250
       python benchmarks/learning.py advection gino gno --rates 1e-3 3e-3 1e-2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from unittest import mock

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

import gnograd as gg
from gnograd.cli.config import PointsConfig
from gnograd.cli.point_batches import PointBatches
from gnograd.cli.point_problem import PointProblem, errors_of
from gnograd.cli.problems import PROBLEMS
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.torch_engine import TorchEngine
from gnograd.cli.training import Trainer, learning_rate
from gnograd.data import Field, Layout, PointData, Sample
from gnograd.models import PointModel, magno, point_model
from gnograd.torch import GNO, Graph, functional
from gnograd.torch.geometric_embedding import GeometricEmbedding

SIDE = 16


def slopes(n: int, seed: int) -> PointData:
    """Waves, and their derivatives along the first axis."""
    rng, number = np.random.default_rng(seed), np.arange(-3, 4)
    k = np.stack(np.meshgrid(number, number, indexing="ij"), -1).reshape(-1, 2)
    k = k[len(k) // 2 + 1 :]
    x = np.stack(np.meshgrid(*[np.arange(SIDE) / SIDE] * 2, indexing="ij"), -1).reshape(-1, 2)
    phase, rate, samples = 2 * np.pi * x @ k.T, 2 * np.pi * k[:, 0], []
    for _ in range(n):
        a, b = rng.standard_normal((2, len(k))) / np.linalg.norm(k, axis=1)
        u = np.sin(phase) @ a + np.cos(phase) @ b
        slope = np.cos(phase) @ (rate * a) - np.sin(phase) @ (rate * b)
        columns = [f[:, None].astype(np.float32) for f in (u, slope)]
        samples.append(Sample(x, columns[0], x, columns[1], np.zeros(0, np.float32)))
    return PointData(samples, Layout(2, (Field("u", 1),), (Field("slope", 1),), (), (1.0, 1.0)))


def trajectories(n: int, seed: int) -> PointData:
    """Waves in a wind."""
    samples, x = [], None
    for child in np.random.SeedSequence(seed).spawn(n):
        solved = PROBLEMS["advection"].solve(np.random.default_rng(child), SIDE)
        x = solved.points if x is None else x
        states = solved.outputs["u"].astype(np.float32)[..., None]
        none = np.zeros((len(x), 0), np.float32)
        samples.append(Sample(x, none, x, None, solved.parameters.astype(np.float32), states))
    layout = Layout(2, (), (Field("u", 1),), (Field("wind", 2),), (1.0, 1.0), True)
    return PointData(samples, layout)


class OfPositions(nn.Module):
    """Kernels and attention of positions, for `gnograd.models.magno`."""

    def __init__(self, dimension: int, width: int, hidden: int, length: float) -> None:
        super().__init__()
        self.kernel = GNO(width, width, 2 * dimension, hidden, reduction="sum", kernel="diagonal")
        self.geoembed = GeometricEmbedding(dimension, width)
        self.recovery = nn.Linear(2 * width, width)

    def forward(
        self, sources: list[Tensor], f: Tensor, queries: list[Tensor], graphs: list[Graph]
    ) -> Tensor:
        """Features at the queries."""
        x, y, parts = torch.cat(queries), torch.cat(sources), []
        for graph in graphs:
            ends = y[graph.src], x[graph.dst]
            score = torch.cosine_similarity(*ends, dim=1)[:, None]
            weight = functional.edge_softmax(score, graph=graph)[:, 0]
            found = self.kernel(f, torch.cat(ends, dim=1), graph, weight)
            items = zip(sources, queries, graph.unbatch(), strict=True)
            shapes = torch.cat([self.geoembed(*item) for item in items])
            parts.append(self.recovery(torch.cat([found, shapes], dim=1)))
        return torch.stack(parts).mean(dim=0)


def model_of(name: str, options: dict[str, int], data: PointData, size: str) -> PointModel:
    """Model before training, with some options of its own."""
    chosen = point_model.options_of
    transform = OfPositions if name.endswith("-positions") else magno._Transform
    torch.manual_seed(0)
    with (
        mock.patch.object(point_model, "options_of", lambda *args: chosen(*args) | options),
        mock.patch.object(magno, "_Transform", transform),
    ):
        return PointModel.for_data(data, name.removesuffix("-positions"), size)


def train(
    problem: PointProblem, config: PointsConfig, steps: int, rate: Callable[[float], float]
) -> float:
    """Train for some steps, at a rate by the finished part; seconds of the processor a step."""
    problem.prepare(Console(quiet=True))
    trainer, done, start = Trainer(problem, config), 0, time.process_time()
    for epoch in count():
        for batch in problem.batches(generator(config.seed, Stream.EPOCH, epoch)):
            if done < steps:
                trainer.optimiser.lr = rate(done / steps)
                trainer.step(batch)
                done += 1
        if done == steps:
            break
    return (time.process_time() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=("slope", "advection"))
    parser.add_argument("models", nargs="+", help="name[:option=number,..][:steps]")
    parser.add_argument("--size", default="small")
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-3])
    given = parser.parse_args()
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    made = slopes if given.task == "slope" else trajectories
    training, new = made(100, 0), made(20, 1)
    for text in given.models:
        name, *parts = text.split(":")
        steps = next((int(part) for part in parts if part.isdigit()), 200)
        pairs = [p.split("=") for part in parts if "=" in part for p in part.split(",")]
        for rate in given.rates:
            model = model_of(name, {k: int(v) for k, v in pairs}, training, given.size)
            config, tests = PointsConfig(learning_rate=rate), PointBatches(model, new)
            batches = PointBatches(model, training)
            problem = PointProblem(model, config, batches, tests, TorchEngine("cpu"))
            taken = 1e3 * train(problem, config, steps, partial(learning_rate, rate))
            error = np.mean(errors_of(model.eval(), tests))
            print(f"{text:34} rate {rate:g}: error {error:.3f}, {steps} steps of {taken:.0f} ms")


if __name__ == "__main__":
    main()

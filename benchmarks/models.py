# SPDX-License-Identifier: MIT
"""All models of gnograd.models on all problems of `gnograd data`, beside those of others.

Every model is trained for the same time, in a process of its own, and tested on problems that it
has not seen: on the resolution of the training, and on a finer one, which shows the same problems
on more points. neuraloperator's FNO stands beside them where the points are a regular grid, its
GINO elsewhere, and a MeshGraphNet of PyG everywhere. All have the same data, normalisation, loss,
optimiser, and learning rate, which rises and falls with the time that is used up.

Time is that of the processor, of one thread: other programs on the machine take time from the
clock on the wall, but hardly from a process. Neighbours that a model finds once are found before
the time begins. Memory is the peak beside what was there before the data were read.

With `--json FILE` results are kept after every model; those in FILE are not made again.

usage: python benchmarks/models.py [--seconds S] [--size small] [--problems ...] [--models ...]
       python benchmarks/models.py --published --size medium --seconds 36000
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alone import peak_memory
from results import Results, add_option
from rich.console import Console

import gnograd as gg
from gnograd.cli.config import PointsConfig
from gnograd.cli.point_batches import Batch, PointBatches
from gnograd.cli.point_problem import PointProblem, errors_of, relative_errors
from gnograd.cli.problems import PROBLEMS
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.torch_engine import TorchEngine
from gnograd.cli.training import Trainer, learning_rate
from gnograd.data import PointData, Roles, read
from gnograd.models import NAMES, SIZES, PointModel

SIMPLE = "training mean, or no change"
FNO, GINO, MGN = "neuraloperator FNO", "neuraloperator GINO", "PyG MeshGraphNet"
TRAINING, TEST = 0, 1
"""Seeds of the data."""


@dataclass(frozen=True)
class Setting:
    """Data to train on and to be tested with."""

    problem: str
    coarse: tuple[int, int]
    """`--resolution` and `--every` of what is trained on."""
    fine: tuple[int, int]
    training: int = 200
    tests: int = 20
    fields: tuple[str, ...] = ("u",)
    regular: bool = False
    """True if the points of a sample are a regular grid."""

    @property
    def peers(self) -> tuple[str, ...]:
        """Networks of others that can be trained on it."""
        return (FNO if self.regular else GINO, MGN)

    def files(self, folder: Path) -> tuple[Path, Path, Path]:
        """Training, test, and finer test samples."""
        training, test, fine = (
            folder / f"{self.problem}-{resolution}-{every}-{samples}-{seed}.npz"
            for (resolution, every), samples, seed in (
                (self.coarse, self.training, TRAINING),
                (self.coarse, self.tests, TEST),
                (self.fine, self.tests, TEST),
            )
        )
        return training, test, fine

    def make(self, folder: Path) -> None:
        """Solve the problems that are not there yet."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.files(folder):
            if path.exists():
                continue
            resolution, every, samples, seed = path.stem.removeprefix(f"{self.problem}-").split("-")
            command = [sys.executable, "-m", "gnograd", "data", self.problem]
            command += ["--resolution", resolution, "--every", every, "--samples", samples]
            subprocess.run([*command, "--seed", seed, "--out", str(path)], check=True)

    def read(self, folder: Path) -> tuple[PointData, PointData, PointData]:
        """Read the samples of `files`."""
        in_time = PROBLEMS[self.problem].in_time
        roles = Roles(states=self.fields) if in_time else Roles(outputs=self.fields)
        training, test, fine = (read([path], roles) for path in self.files(folder))
        return training, test, fine


SETTINGS = {
    "darcy": Setting("darcy", (128, 4), (128, 2), regular=True),
    "poisson-gauss": Setting("poisson-gauss", (24, 3), (24, 1)),
    "elasticity": Setting("elasticity", (32, 1), (64, 1), fields=("sxx", "syy", "sxy")),
    "airfoil": Setting("airfoil", (48, 1), (96, 1), fields=("pressure", "vx", "vy")),
    "advection": Setting("advection", (16, 1), (32, 1), training=100, regular=True),
    "burgers": Setting("burgers", (256, 4), (256, 2), regular=True),
    "heat": Setting("heat", (6, 1), (10, 1), training=100, regular=True),
}
PUBLISHED = {
    "darcy, 85 x 85 of 421 x 421": Setting(
        "darcy", (420, 5), (420, 3), training=1000, tests=200, regular=True
    )
}
"""Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations",
arXiv:2010.08895: GNO .0346 at 85 x 85, FNO .0108; GKN (arXiv:2003.03485) about .06."""


@dataclass(frozen=True)
class Cell:
    """A model on a problem."""

    setting: Setting
    contestant: str
    size: str
    seconds: float
    learning_rate: float
    batch: int
    folder: Path

    def model(self, data: PointData) -> PointModel:
        """Model before training."""
        torch.manual_seed(0)
        if self.contestant in NAMES:
            return PointModel.for_data(data, self.contestant, self.size)
        from model_peers import PEERS

        kind, like = PEERS[self.contestant]
        model = PointModel.for_data(data, like, self.size)
        inputs, parameters, outputs = model.description.widths
        dimension = data.layout.dimension
        options = model.description.options
        model.network = kind(dimension, inputs + parameters, outputs, **options)
        return model

    def train(self) -> dict[str, float]:
        """Train and test."""
        training_data, test, fine = self.setting.read(self.folder)
        model = self.model(training_data)
        config = PointsConfig(batch=self.batch, learning_rate=self.learning_rate)
        tests = PointBatches(model, test)
        batches = PointBatches(model, training_data)
        problem = PointProblem(model, config, batches, tests, TorchEngine("cpu"))
        problem.prepare(Console(quiet=True))
        trainer = Trainer(problem, config)
        steps, taken = 0, 0.0
        start = time.process_time()
        said = 0
        for batch in _forever(problem):
            part = min(taken / self.seconds, 1.0)
            trainer.optimiser.lr = learning_rate(config.learning_rate, part, config.schedule)
            loss = trainer.step(batch)
            steps += 1
            taken = time.process_time() - start
            if self.seconds >= 300 and taken / self.seconds * 20 > said:
                said += 1
                print(f"  {taken / self.seconds:4.0%}  {steps} steps, loss {loss:.4g}", flush=True)
            if taken >= self.seconds:
                break
        return {
            "error": float(np.mean(errors_of(model, tests))),
            "finer": float(np.mean(errors_of(model, PointBatches(model, fine)))),
            "parameters": sum(p.numel() for p in model.parameters()),
            "steps": steps,
            "seconds": taken / steps,
        }


def _forever(problem: PointProblem) -> Iterator[Batch]:
    for epoch in count():
        yield from problem.batches(generator(problem.config.seed, Stream.EPOCH, epoch))


def run(cell: Cell) -> dict[str, float]:
    """Results and peak memory of a cell, which has this process for itself."""
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    peak, results = peak_memory(cell.train)
    return {**results, "memory": peak}


def simple(setting: Setting, folder: Path) -> dict[str, float]:
    """Errors of the mean of the training data, or of a state that stays as it is."""
    training, *tests = setting.read(folder)
    errors = []
    for data in tests:
        if data.layout.in_time:
            states = [s.states for s in data.samples if s.states is not None]
            found = [relative_errors(np.broadcast_to(u[0], u[1:].shape), u[1:]) for u in states]
        else:
            known = np.concatenate([s.outputs for s in training.samples])  # type: ignore[misc]
            mean = known.mean(axis=0)
            truths = [s.outputs for s in data.samples if s.outputs is not None]
            found = [relative_errors(np.broadcast_to(mean, u.shape), u) for u in truths]
        errors.append(float(np.mean(found)))
    return {"error": errors[0], "finer": errors[1]}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="processor time of a training")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--problems", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--models", nargs="+", choices=[*NAMES, FNO, GINO, MGN])
    parser.add_argument("--published", action="store_true", help="Darcy flow of the papers instead")
    parser.add_argument("--samples", type=int, help="training samples, where fewer are wanted")
    parser.add_argument("--parallel", type=int, default=1, help="trainings at a time")
    parser.add_argument("--folder", type=Path, default=Path("build/models"), help="for the data")
    add_option(parser)
    arguments = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    settings = PUBLISHED if arguments.published else {k: SETTINGS[k] for k in arguments.problems}
    if arguments.samples:
        settings = {k: replace(s, training=arguments.samples) for k, s in settings.items()}
    results = Results(arguments.json)
    try:
        found = results.resume()
    except ValueError as error:
        parser.error(f"--json: {error}")
    cells = [
        (case, setting, contestant)
        for case, setting in settings.items()
        for contestant in (SIMPLE, *NAMES, *setting.peers)
        if contestant == SIMPLE or arguments.models is None or contestant in arguments.models
    ]
    for setting in settings.values():
        setting.make(arguments.folder)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.parallel, spawn, max_tasks_per_child=1) as pool:
        made: dict[Any, Any] = {}
        for case, setting, contestant in cells:
            if (case, contestant) in found:
                continue
            if contestant == SIMPLE:
                made[case, contestant] = pool.submit(simple, setting, arguments.folder)
            else:
                cell = Cell(
                    setting, contestant, arguments.size, arguments.seconds,
                    arguments.learning_rate, arguments.batch, arguments.folder,
                )  # fmt: skip
                made[case, contestant] = pool.submit(run, cell)
        for number, ((case, contestant), future) in enumerate(made.items(), 1):
            try:
                measured = future.result()
            except BaseException:
                print(f"{case}, {contestant}: failed", file=sys.stderr)
                pool.shutdown(cancel_futures=True)
                raise
            results.add(case, "", contestant, threads=1, **measured)
            numbers = ", ".join(f"{name} {number:.4g}" for name, number in measured.items())
            print(f"{number}/{len(made)}  {case}, {contestant}: {numbers}", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Job `gnograd train points`: functions on points and meshes, from files."""

import json
import resource
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import gnograd as gg
from gnograd.cli.checkpoint import State
from gnograd.cli.config import PointsConfig, Samples
from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic, writing
from gnograd.cli.inspect import (
    HELD_OUT,
    check_units,
    need_cells,
    need_inputs,
    summary,
    tell,
    tell_repeated,
)
from gnograd.cli.job import Run
from gnograd.cli.log import EXAMPLES, RESULTS
from gnograd.cli.options import plain
from gnograd.cli.point_batches import PointBatches
from gnograd.cli.point_problem import PointProblem, error_of, errors_of, tell_far
from gnograd.cli.point_split import split
from gnograd.cli.torch_engine import TorchEngine
from gnograd.cli.training import fit
from gnograd.data import PointData, Roles, Sample, read
from gnograd.data.statistics import statistics
from gnograd.models import PointModel, save

__all__ = ["Sets", "train"]


RATES, RATE = {"gno": 0.16, "gino": 0.16}, 0.1
"""Learning rate times width, by model, and of the others: wider networks need smaller rates."""
STEPS = 6000
"""Training steps that are aimed at: some ten minutes for a thousand points on one core."""
EPOCHS = (10, 200)
"""Least and most epochs for them."""


class Sets(NamedTuple):
    """Samples by use."""

    training: PointData
    held_out: PointData
    tests: dict[str, PointData]
    checksum: int
    """Checksum of training and held-out samples."""


def train(
    config: PointsConfig,
    files: Samples,
    roles: Roles,
    run: Run,
    engine: TorchEngine,
    compiled: bool = False,
) -> dict[str, float]:
    """Train a model, keep the best one, and print its errors.

    Parameters
    ----------
    config : PointsConfig
    files : Samples
        Each path of tests is evaluated separately, as resolutions may differ.
    roles : gnograd.data.Roles
    run : Run
        The directory gets the model, results and examples, too.
    engine : TorchEngine
    compiled : bool
        Let PyTorch compile the model.

    Returns
    -------
    dict of str to float
        Mean relative L2 error, by set.

    Raises
    ------
    gnograd.data.DataError
        Files cannot be used.
    JobError
        The run cannot be started, continued or written.
    """
    console = run.console
    for path in (*files.data, *(files.validation or ()), *(files.test or ())):
        if path.is_dir() and path.resolve() == run.directory.resolve():
            raise JobError(
                f"{path}: is a folder of data, among which the files of the run would be; choose "
                "another --out"
            )
    sets = _sets(config, files, roles)
    console.print("training: " + summary(sets.training), markup=False, soft_wrap=True)
    check_units(sets.training)
    tell(sets.training, console, config.model, config.radius)
    repeated = tell_repeated(sets.training, {HELD_OUT: sets.held_out, **sets.tests}, console)
    torch.manual_seed(config.seed)
    model = PointModel.for_data(sets.training, config.model, config.size, config.radius)
    model = model.to(engine.device)
    console.print("receptive field: " + _seen(model), markup=False, soft_wrap=True)
    batches, held_out = PointBatches(model, sets.training), PointBatches(model, sets.held_out)
    config = _chosen(config, model, len(batches.steps), console)
    problem = PointProblem(model, config, batches, held_out, engine, compiled)
    state = fit(problem, config, run, {"checksum of the data": sets.checksum})
    evaluation = Evaluation(model.eval(), files, sets, held_out, console, repeated)
    evaluation.write(run.directory, config, state, problem.steps)
    evaluation.show()
    run.show("model", run.directory / "model.json")
    run.show("report", f"gnograd report {shlex.quote(str(run.directory))}")
    return evaluation.means


# ---- preparation ----


def _sets(config: PointsConfig, files: Samples, roles: Roles) -> Sets:
    data = read(files.data, roles)
    need_inputs(data, roles)
    roles = replace(roles, dimension=data.layout.dimension, known=True)
    of_tests = {}
    for path in files.test or []:
        name = str(path) if str(path) != HELD_OUT else str(path.absolute())
        of_tests[name] = read(path, roles)
    if files.validation:
        training, validation = data, read(files.validation, roles)
        every = [training, validation]
    else:
        training, validation = split(data, config)
        every = [data]
    if config.model == "mgn" and training.meshed:
        need_cells(validation, *of_tests.values())
    for part in (validation, *of_tests.values()):
        PointData.join([training, part])  # check for equal quantities
    return Sets(training, validation, of_tests, PointData.join(every).checksum())


def _chosen(
    config: PointsConfig, model: PointModel, n_steps: int, console: Console
) -> PointsConfig:
    """Settings with a learning rate and a number of epochs, and the reasons printed."""
    if not config.learning_rate:
        name, width = model.description.name, model.description.options["width"]
        factor = RATES.get(name, RATE)
        rate = float(f"{factor / width:.1g}")
        why = f"{factor:g} for {name} divided by its {width} channels"
        console.print(f"learning rate: {rate:g}, {why}", highlight=False, soft_wrap=True)
        config = replace(config, learning_rate=rate)
    if not config.epochs:
        batches = -(-n_steps // config.batch)
        epochs = min(max(-(-STEPS // batches), EPOCHS[0]), EPOCHS[1])
        why = f"{epochs * batches} training steps of the {STEPS} that are aimed at"
        each = f"each of {batches} with {config.batch} samples or times"
        console.print(f"epochs: {epochs}, {each}: {why}", highlight=False, soft_wrap=True)
        config = replace(config, epochs=epochs)
    return config


def _seen(model: PointModel) -> str:
    """Points that an output depends on, in words."""
    options, unit = model.description.options, float(model.scale)
    if model.description.name in ("gno", "mgn"):
        layers = options["layers"]
        if model.description.name == "gno":
            reach = options["radius"] * unit
            far = f"{layers * reach:.4g} of {2 * unit:.4g}, the length of the box"
            return f"{far}, in {layers} layers of {reach:.4g}"
        if "neighbors" in options:
            return f"{layers} steps to the {options['neighbors']} nearest points"
        return f"{layers} steps along the edges of the mesh"
    if "side" not in options:
        return "all points, by attention"
    side = options["side"]
    return f"all points, through a grid of {side} points along the longest side of the box"


# ---- evaluation ----


class Evaluation:
    """Errors of a model on held-out and test samples."""

    def __init__(
        self,
        model: PointModel,
        files: Samples,
        sets: Sets,
        held_out: PointBatches,
        console: Console,
        repeated: Mapping[str, Mapping[int, int]],
    ) -> None:
        self.model, self.console, self.repeated = model, console, repeated
        self.training = f"{', '.join(map(str, files.data))}: {summary(sets.training)}"
        self.parts = {HELD_OUT: sets.held_out, **sets.tests}
        self.errors = {HELD_OUT: errors_of(model, held_out)}
        for name, data in sets.tests.items():
            tell_far(model, data, console)
            batches = PointBatches(model, data)
            batches.find_neighbours(console, f"testing: {name}")
            self.errors[name] = errors_of(model, batches)
        self.mean = statistics(sets.training)["output"].mean
        self.means = {name: float(np.mean(errors)) for name, errors in self.errors.items()}

    def show(self) -> None:
        """Print the mean errors."""
        layout = self.model.description.layout
        what = "no change in time" if layout.in_time else "training mean"
        table = Table("set", "samples", "points", "relative L2 error", what)
        for name, data in self.parts.items():
            sizes = data.facts.queries
            points = f"{min(sizes)}" + (f" to {max(sizes)}" if max(sizes) > min(sizes) else "")
            simple = float(np.mean([self._simple(s) for s in data.samples]))
            table.add_row(
                escape(name), f"{len(data)}", points, f"{self.means[name]:.4g}", f"{simple:.4g}"
            )
        self.console.print(table)

    def write(self, directory: Path, config: PointsConfig, state: State, steps: int) -> None:
        """Write the model, its errors and examples.

        Raises
        ------
        FileError
            Files cannot be written.
        """
        settings = plain(config) | state.planned
        about = {"settings": settings, "gnograd": gg.__version__, "epoch": state.best_epoch}
        with writing(directory):
            save(self.model, directory, about)
            gg.save_weights(directory / EXAMPLES, self._examples())
        with atomic(directory / RESULTS) as stream:
            text = json.dumps(self._results(settings, state, steps), indent=1)
            stream.write(text.encode())

    def _results(self, settings: dict[str, Any], state: State, steps: int) -> dict[str, Any]:
        device = self.model.centre.device
        if device.type == "cuda":
            memory = torch.cuda.max_memory_allocated(device)
            machine = torch.cuda.get_device_name(device)
        else:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            threads = torch.get_num_threads()
            machine = f"CPU, {threads} thread" + ("s" if threads > 1 else "")
        return {
            "settings": settings,
            "training": self.training,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "device": machine,
            "memory": memory,
            "seconds": state.history[-1].seconds,
            "seconds_a_step": state.history[-1].seconds / (len(state.history) * steps),
            "epochs": len(state.history),
            "best_epoch": state.best_epoch,
            "versions": {"gnograd": gg.__version__, "torch": torch.__version__},
            "sets": [
                {
                    "name": name,
                    "also in training": len(self.repeated[name]),
                    "samples": [
                        {
                            "source": s.source,
                            "points": len(s.queries),
                            "error": error,
                            "simple": self._simple(s),
                        }
                        for s, error in zip(data.samples, self.errors[name], strict=True)
                    ],
                }
                for name, data in self.parts.items()
            ],
        }

    def _simple(self, sample: Sample) -> float:
        """Error of a trivial prediction: the mean of the training data, or a constant state."""
        if sample.states is not None:
            first = np.broadcast_to(sample.states[0], sample.states[1:].shape)
            return error_of(self.model, first, sample.states)
        assert sample.outputs is not None
        mean = np.broadcast_to(self.mean, sample.outputs.shape)
        return error_of(self.model, mean, sample.outputs)

    def _examples(self) -> dict[str, Any]:
        """Best, median and worst sample of the last set, with predictions."""
        name = list(self.parts)[-1]
        data, errors = self.parts[name], self.errors[name]
        order = np.argsort(errors)
        chosen = {"best": order[0], "middle": order[len(order) // 2], "worst": order[-1]}
        arrays = {}
        for what, k in chosen.items():
            sample = data.samples[k]
            made = self.model.predict(sample)
            truth = sample.outputs
            if sample.states is not None:
                made, truth = made[-1], sample.states[-1]
            arrays[f"{what}.number"] = np.array(k)
            arrays[f"{what}.points"] = sample.queries
            arrays[f"{what}.truth"] = truth
            arrays[f"{what}.prediction"] = made
            triangles = _triangles(sample.cells)
            if len(triangles):
                arrays[f"{what}.triangles"] = triangles
        return arrays


def _triangles(cells: Mapping[str, Any]) -> Any:
    """Cells in the plane as triangles of their corners (n, 3), for pictures."""
    parts = [np.zeros((0, 3), np.int64)]
    for name, members in cells.items():
        if name.startswith("triangle"):
            parts.append(members[:, :3])
        elif name.startswith("quad"):
            parts += [members[:, [0, 1, 2]], members[:, [0, 2, 3]]]
    return np.concatenate(parts)

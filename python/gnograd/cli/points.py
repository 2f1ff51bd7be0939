# SPDX-License-Identifier: MIT
"""Job `gnograd train points`: functions on points and meshes, from files."""

import json
import resource
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

import gnograd as gg
from gnograd.cli.config import PointsConfig
from gnograd.cli.files import FileError, atomic
from gnograd.cli.inspect import check_units, need_cells, need_inputs, summary, tell
from gnograd.cli.point_batches import PointBatches
from gnograd.cli.point_checkpoint import PointState
from gnograd.cli.point_log import PointLog
from gnograd.cli.point_split import split
from gnograd.cli.point_training import PointTraining, error_of, errors_of
from gnograd.cli.torch_engine import TorchEngine
from gnograd.data import PointData, Roles, Sample, read
from gnograd.models import PointModel, save
from gnograd.notation.text import printable

__all__ = ["EXAMPLES", "RESULTS", "Computing", "Sets", "train"]

RESULTS = "results.json"
EXAMPLES = "examples.safetensors"

HELD_OUT = "validation"
"""Name of the set by which the best model is chosen."""


class Computing(NamedTuple):
    """Settings of the computation that affect the result only by rounding."""

    device: str = "cpu"
    threads: int = 0
    compiled: bool = False
    log: str = "csv"


class Sets(NamedTuple):
    """Samples by use."""

    training: PointData
    held_out: PointData
    tests: dict[str, PointData]
    checksum: int
    """Checksum of training and held-out samples."""


def train(
    config: PointsConfig,
    files: Sequence[Path],
    held_out: Sequence[Path],
    tests: Sequence[Path],
    roles: Roles,
    directory: Path,
    computing: Computing,
    console: Console,
    fresh: bool = False,
) -> dict[str, float]:
    """Train a model, keep the best one, and print its errors.

    Parameters
    ----------
    config : PointsConfig
    files : sequence of pathlib.Path
        Training samples.
    held_out : sequence of pathlib.Path
        Samples by which the best model is chosen; a part of the training samples if there are no
        such files.
    tests : sequence of pathlib.Path
        Test samples; each path is evaluated separately, as resolutions may differ.
    roles : gnograd.data.Roles
    directory : pathlib.Path
        For model, checkpoint, history, results and examples; a run found there is continued.
    computing : Computing
    console : rich.console.Console
    fresh : bool
        Start anew even then.

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
    sets = _sets(config, files, held_out, tests, roles)
    console.print("training: " + summary(sets.training), markup=False, soft_wrap=True)
    check_units(sets.training)
    tell(sets.training, console, config.model, config.radius)
    device = TorchEngine(computing.device, computing.threads).device
    torch.manual_seed(config.seed)
    model = PointModel.for_data(sets.training, config.model, config.size, config.radius)
    model = model.to(device)
    settings = _settings(config, sets)
    found = None if fresh else PointState.load(directory)
    state = PointState(settings)
    if found is not None:
        state = found[0]
        state.check(directory, settings)
    _plan(state, config)
    if state.finished:
        console.print(f"ended after epoch {len(state.history)}; more --epochs train it further")
    elif found is not None:
        console.print(f"continuing after epoch {len(state.history)} of {config.epochs}")
    bar = partial(_bar, "finding neighbours", console)
    training = PointTraining(
        model,
        config,
        PointBatches(model, sets.training, bar),
        PointBatches(model, sets.held_out, bar),
        computing.compiled,
    )
    if found is not None:
        training.restore(found[1])
    log = PointLog(directory, computing.log, len(state.history))
    try:
        seconds = training.fit(directory, state, log, console)
    finally:
        log.close()
    best = training.best_model()
    evaluation = Evaluation(best, files, sets, console)
    evaluation.write(directory, config, state, seconds)
    evaluation.show()
    for name, what in (
        ("model", "model.json"),
        ("report", f"gnograd report {shlex.quote(str(directory))}"),
    ):
        where = str(directory / what) if name == "model" else what
        console.print(f"{name + ':':9}{where}", markup=False, soft_wrap=True)
    return evaluation.means


# ---- preparation ----


def _sets(
    config: PointsConfig,
    files: Sequence[Path],
    held_out: Sequence[Path],
    tests: Sequence[Path],
    roles: Roles,
) -> Sets:
    data = read(files, roles)
    need_inputs(data, roles)
    roles = replace(roles, dimension=data.layout.dimension, known=True)
    of_tests = {}
    for path in tests:
        name = str(path) if str(path) != HELD_OUT else str(path.absolute())
        of_tests[name] = read(path, roles)
    if held_out:
        training, validation = data, read(held_out, roles)
        every = [training, validation]
    else:
        training, validation = split(data, config)
        every = [data]
    if config.model == "mgn" and training.meshed:
        need_cells(validation, *of_tests.values())
    for part in (validation, *of_tests.values()):
        PointData.join([training, part])  # check for equal quantities
    return Sets(training, validation, of_tests, PointData.join(every).checksum())


def _settings(config: PointsConfig, sets: Sets) -> dict[str, Any]:
    """Settings that must not change when a run is continued."""
    free = ("epochs", "patience", "learning_rate")
    settings = {n: v for n, v in asdict(config).items() if n not in free}
    settings = {n: getattr(v, "value", v) for n, v in settings.items()}
    return settings | {"checksum of the data": sets.checksum}


def _plan(state: PointState, config: PointsConfig) -> None:
    """Plan the cycles of the learning rate: epochs added to a finished run get a new one."""
    done = len(state.history)
    end, peak = state.stretches[-1] if state.stretches else (0, 0.0)
    if done and (config.epochs <= done or (state.finished and config.epochs == end)):
        state.finished = True
        return
    if state.finished:
        state.stretches[-1] = (done, peak)  # the run may have stopped early
    elif state.stretches:
        state.stretches.pop()
    state.stretches.append((config.epochs, config.learning_rate))
    state.finished = False


def _bar(what: str, console: Console, items: Sequence[Sample]) -> Iterable[Sample]:
    disable = not console.is_terminal
    return track(items, escape(printable(what)), console=console, transient=True, disable=disable)


# ---- evaluation ----


class Evaluation:
    """Errors of a model on held-out and test samples."""

    def __init__(
        self, model: PointModel, files: Sequence[Path], sets: Sets, console: Console
    ) -> None:
        self.model, self.console = model, console
        self.training = f"{', '.join(map(str, files))}: {summary(sets.training)}"
        self.parts = {HELD_OUT: sets.held_out, **sets.tests}
        self.errors: dict[str, Sequence[float]] = {}
        for name, data in self.parts.items():
            bar: Callable[..., Any] = partial(_bar, f"testing: {name}", console)
            self.errors[name] = errors_of(model, PointBatches(model, data, bar))
        self.means = {name: float(np.mean(errors)) for name, errors in self.errors.items()}

    def show(self) -> None:
        """Print the mean errors."""
        layout = self.model.description.layout
        what = "no change in time" if layout.in_time else "training mean"
        table = Table("set", "samples", "points", "relative L2 error", what)
        for name, data in self.parts.items():
            sizes = [len(s.queries) for s in data.samples]
            points = f"{min(sizes)}" + (f" to {max(sizes)}" if max(sizes) > min(sizes) else "")
            simple = float(np.mean([self._simple(s) for s in data.samples]))
            table.add_row(
                escape(name), f"{len(data)}", points, f"{self.means[name]:.4g}", f"{simple:.4g}"
            )
        self.console.print(table)

    def write(
        self, directory: Path, config: PointsConfig, state: PointState, seconds: float
    ) -> None:
        """Write the model, its errors and examples.

        Raises
        ------
        FileError
            Files cannot be written.
        """
        try:
            settings = {n: getattr(v, "value", v) for n, v in asdict(config).items()}
            about = {"settings": settings, "gnograd": gg.__version__, "epoch": state.best_epoch}
            save(self.model, directory, about)
            gg.save_weights(directory / EXAMPLES, self._examples())
            with atomic(directory / RESULTS) as stream:
                text = json.dumps(self._results(settings, state, seconds), indent=1)
                stream.write(text.encode())
        except OSError as error:
            reason = error.strerror or error
            raise FileError(f"{directory}: the model cannot be written ({reason})") from error

    def _results(
        self, settings: dict[str, Any], state: PointState, seconds: float
    ) -> dict[str, Any]:
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
            "seconds_a_step": seconds,
            "epochs": len(state.history),
            "best_epoch": state.best_epoch,
            "versions": {"gnograd": gg.__version__, "torch": torch.__version__},
            "sets": [
                {
                    "name": name,
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
        mean = self.model.output_mean.cpu().numpy()
        return error_of(self.model, np.broadcast_to(mean, sample.outputs.shape), sample.outputs)

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

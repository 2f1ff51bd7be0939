# SPDX-License-Identifier: MIT
"""The training loop that all jobs share: schedule, progress, checkpoints."""

import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gnograd.cli.checkpoint import ADVICE, CHECKPOINT, STEPS, CheckpointError, Epoch, State
from gnograd.cli.engine import Engine, Optimiser, Variable
from gnograd.cli.errors import JobError
from gnograd.cli.processes import ALONE, Processes
from gnograd.cli.random_streams import Stream, generator

Array = npt.NDArray[Any]
Batch = TypeVar("Batch")

WARM_UP = 0.05
"""Fraction of the steps over which the learning rate rises."""
FINAL_RATE = 0.01
"""Learning rate at the end, as a fraction of its peak."""
MEASUREMENTS = 20
"""Number of measurements of the held-out error in a run."""

MOMENTS = ("mean", "mean_square")
"""Names of the running averages of Adam."""


class TrainingError(JobError):
    """Error that ends a training."""

    common = True


def learning_rate(peak: float, progress: float) -> float:
    """Linear warm-up, then half a cosine.

    Parameters
    ----------
    peak : float
    progress : float
        Finished fraction of the run, 0 to 1.
    """
    if progress < WARM_UP:
        return peak * (progress + 0.1 * WARM_UP) / (1.1 * WARM_UP)
    decay = 0.5 * (1.0 + math.cos(math.pi * (progress - WARM_UP) / (1.0 - WARM_UP)))
    return peak * (FINAL_RATE + (1.0 - FINAL_RATE) * decay)


def relative_error(
    engine: Engine, prediction: Variable, truth: Array, of: int | None = None
) -> Variable:
    """Mean over samples of the relative L2 error.

    Parameters
    ----------
    engine : Engine
    prediction : Variable
        Any shape with as many elements as `truth`.
    truth : ndarray, shape (n_samples, n)
    of : int, optional
        Number of samples of the mean, if these are a part of them: the value is then their
        contribution.
    """
    error = prediction.reshape(truth.shape) - engine.constant(truth)
    errors = engine.norm(error) / engine.constant(np.linalg.norm(truth, axis=1))
    return errors.mean() if of in (None, len(truth)) else errors.sum() / of


class Job(Protocol[Batch]):
    """Interface of a training: network, data and loss."""

    @property
    def engine(self) -> Engine:
        """Engine of the parameters."""

    @property
    def parameters(self) -> Mapping[str, Variable]:
        """Parameters of the optimiser, by name."""

    @property
    def steps(self) -> int:
        """Number of batches of an epoch."""

    def batches(self, rng: np.random.Generator) -> Iterable[Batch]:
        """Share of this process in the data of an epoch; all random numbers are from `rng`."""

    def loss(self, batch: Batch) -> Variable:
        """Loss, one number, whose derivatives are this process' part."""

    def held_out_error(self) -> float:
        """Error on data that are not used in training."""


def fit(
    job: Job[Batch],
    *,
    epochs: int,
    peak_rate: float,
    seed: int,
    directory: Path,
    config: Mapping[str, Any],
    console: Console,
    fresh: bool = False,
    processes: Processes = ALONE,
) -> list[Epoch]:
    """Train with Adam; continue from the checkpoint in `directory` if there is one.

    A run that was killed and continued, by as many processes, ends with the same bits as one that
    was not.

    Parameters
    ----------
    job : Job
    epochs : int
    peak_rate : float
        Largest learning rate.
    seed : int
    directory : pathlib.Path
        For checkpoint and history, written after every epoch; no other process writes there.
    config : mapping
        Settings of the run; a checkpoint made with others is refused.
    console : rich.console.Console
    fresh : bool
        Start anew; an old checkpoint stays until the first epoch replaces it.
    processes : Processes
        Processes, all with the same parameters; the first one uses `directory`.

    Returns
    -------
    list of Epoch

    Raises
    ------
    CheckpointError
        The checkpoint cannot be continued with these settings.
    TrainingError
        The loss is not finite. The checkpoint is that of the epoch before.
    FileError
        Checkpoint or history cannot be written. Both are those of the epoch before.
    """
    parameters = list(job.parameters.values())
    optimiser = job.engine.adam(parameters, peak_rate)
    state = State({}) if fresh else _saved(job, directory, config, processes)
    if state.history:
        with processes.together():
            try:
                _restore(job, optimiser, state, epochs)
            except ValueError as error:
                raise CheckpointError(f"{directory / CHECKPOINT}: {error}; {ADVICE}") from error
        console.print(f"continuing after epoch {state.history[-1].epoch} of {epochs}")
    done = len(state.history)
    before = state.history[-1].seconds if state.history else 0.0
    started = time.monotonic()
    with progress_bar(epochs, console) as bar:
        task = bar.add_task("", total=epochs * job.steps, epoch=done, loss=math.nan)
        bar.update(task, completed=done * job.steps)
        for epoch in range(done, epochs):
            total = 0.0
            for step, batch in enumerate(job.batches(generator(seed, Stream.EPOCH, epoch))):
                optimiser.lr = learning_rate(peak_rate, (epoch + step / job.steps) / epochs)
                with job.engine.step():
                    loss = job.loss(batch)
                    loss.backward()
                    total += job.engine.value(loss).item()
                if not math.isfinite(total):
                    raise TrainingError(
                        f"the loss is not finite in epoch {epoch + 1}, "
                        "a smaller --learning-rate may help"
                    )
                if processes.size > 1:
                    job.engine.sum_gradients(processes.comm, parameters)
                optimiser.step()
                bar.update(task, advance=1, epoch=epoch + 1, loss=total / (step + 1))
            measured = (epoch + 1) % max(1, epochs // MEASUREMENTS) == 0 or epoch + 1 == epochs
            row = Epoch(
                epoch=epoch + 1,
                learning_rate=optimiser.lr,
                loss=total / job.steps,
                held_out=job.held_out_error() if measured else math.nan,
                seconds=before + time.monotonic() - started,
            )
            state.history.append(row)
            state.arrays = _snapshot(job, optimiser)
            with processes.together():
                if processes.first:
                    state.save(directory, config)
            if measured and not console.is_terminal:
                console.print(
                    f"epoch {row.epoch}/{epochs}  loss {row.loss:.4f}  "
                    f"held out {row.held_out:.4f}  {row.seconds:.0f} s"
                )
    return state.history


def progress_bar(epochs: int, console: Console) -> Progress:
    """Bar of the training; a log file gets lines instead."""
    return Progress(
        TextColumn("training"),
        BarColumn(),
        TextColumn(f"epoch {{task.fields[epoch]}}/{epochs}"),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        disable=not console.is_terminal,
    )


def _saved(
    job: Job[Any], directory: Path, config: Mapping[str, Any], processes: Processes
) -> State:
    """State of the checkpoint, on all processes; an empty one if there is no checkpoint."""

    def entries() -> dict[str, Array]:
        state = State.load(directory, config, _shapes(job), job.engine.dtype)
        return state.entries() if state else {}

    found = processes.from_first(entries)
    return State.of_entries(found) if found else State({})


def _shapes(job: Job[Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of a snapshot."""
    return {
        f"{kind}/{name}": tuple(array.shape)
        for kind in ("parameter", *MOMENTS)
        for name, array in job.parameters.items()
    } | {STEPS: ()}


def _snapshot(job: Job[Any], optimiser: Optimiser) -> dict[str, Array]:
    value = job.engine.value
    arrays = {f"parameter/{name}": value(array) for name, array in job.parameters.items()}
    moments = optimiser.state_dict()
    for moment in MOMENTS:
        arrays |= {
            f"{moment}/{name}": values
            for name, values in zip(job.parameters, moments[moment], strict=True)
        }
    return arrays | {STEPS: np.array(moments["steps"])}


def _restore(job: Job[Any], optimiser: Optimiser, state: State, epochs: int) -> None:
    done, arrays = len(state.history), state.arrays
    if done > epochs:
        raise ValueError(f"its history has {done} epochs, the run {epochs}")
    if arrays[STEPS] != done * job.steps:
        raise ValueError(f"'{STEPS}' is {arrays[STEPS]}, needs {done * job.steps}")
    moments = {m: [arrays[f"{m}/{name}"] for name in job.parameters] for m in MOMENTS}
    if any((squares < 0.0).any() for squares in moments["mean_square"]):
        raise ValueError("'mean_square' is negative")
    for name, array in job.parameters.items():
        job.engine.assign(array, arrays[f"parameter/{name}"])
    optimiser.load_state_dict({"lr": optimiser.lr, "steps": int(arrays[STEPS]), **moments})

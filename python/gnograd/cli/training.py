# SPDX-License-Identifier: MIT
"""The training loop of all jobs: schedule, progress, best epoch, checkpoints."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gnograd.cli.checkpoint import CHECKPOINT, State
from gnograd.cli.config import Schedule, TrainingConfig
from gnograd.cli.engine import Engine, Variable
from gnograd.cli.errors import JobError
from gnograd.cli.files import uninterrupted
from gnograd.cli.job import Run
from gnograd.cli.log import Epoch, Log
from gnograd.cli.processes import ALONE, Processes
from gnograd.cli.random_streams import Stream, generator

Array = npt.NDArray[Any]

WARM_UP = 0.05
"""Fraction of the steps over which the learning rate rises."""
FINAL_RATE = 0.01
"""Learning rate at the end, as a fraction of its peak."""


class TrainingError(JobError):
    """Error that ends a training."""

    common = True


def learning_rate(peak: float, progress: float, schedule: Schedule = Schedule.COSINE) -> float:
    """Linear warm-up, then half a cosine, a line, or a constant.

    Parameters
    ----------
    peak : float
    progress : float
        Finished fraction of the run, 0 to 1.
    schedule : Schedule
    """
    if progress < WARM_UP and schedule is Schedule.COSINE:
        return peak * (progress + 0.1 * WARM_UP) / (1.1 * WARM_UP)
    if schedule is Schedule.COSINE:
        decay = 0.5 * (1.0 + math.cos(math.pi * (progress - WARM_UP) / (1.0 - WARM_UP)))
        return peak * (FINAL_RATE + (1.0 - FINAL_RATE) * decay)
    risen = min(peak, learning_rate(peak, min(progress, WARM_UP)))
    if schedule is Schedule.CONSTANT:
        return risen
    return risen * (FINAL_RATE + (1 - FINAL_RATE) * (1 - progress))


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


class TrainingProblem(ABC):
    """Base of what is trained: network, data and loss."""

    measurements = 20
    """Number of measurements of the held-out error in a cycle of the learning rate."""
    keeps_best = False
    """True if the parameters of the best epoch are the result, not those of the last."""

    engine: Engine
    """Engine of the parameters."""
    parameters: Mapping[str, Variable]
    """Parameters of the optimiser, by name."""
    steps: int
    """Number of batches of an epoch."""

    @abstractmethod
    def batches(self, rng: np.random.Generator) -> Iterable[Any]:
        """Share of this process in the data of an epoch; all random numbers are from `rng`."""

    @abstractmethod
    def loss(self, batch: Any) -> Variable:
        """Loss, one number, whose derivatives are this process' part."""

    @abstractmethod
    def held_out_error(self) -> float:
        """Error on data that are not used in training."""

    def prepare(self, console: Console) -> None:  # noqa: B027  (most have nothing to do)
        """Make what the first step needs, if the run can be continued."""


class Trainer:
    """Parameters of a problem in training, and their optimiser.

    Parameters
    ----------
    problem : TrainingProblem
    config : TrainingConfig
    processes : Processes
        Processes, all with the same parameters, that share the work.
    """

    def __init__(
        self, problem: TrainingProblem, config: TrainingConfig, processes: Processes = ALONE
    ) -> None:
        self.problem, self.engine, self.processes = problem, problem.engine, processes
        self.parameters = problem.parameters
        self.optimiser = problem.engine.adam(
            list(self.parameters.values()),
            config.learning_rate,
            config.weight_decay,
            config.clip,
            config.ema,
        )
        self.best = self._values() if problem.keeps_best else {}

    def step(self, batch: Any) -> float:
        """Move the parameters by one batch, and return its loss before."""
        with self.engine.step():
            loss = self.problem.loss(batch)
            self.optimiser.backward(loss)
            if self.processes.size > 1:
                parameters = list(self.parameters.values())
                self.engine.sum_gradients(self.processes.comm, parameters)
            self.optimiser.step()
            # last, so that a GPU has all its work before its result is waited for
            return float(self.engine.value(loss).item())

    def measure(self, state: State, epoch: int) -> float:
        """Held-out error of the parameters, or of their average."""
        with self._averaged():
            error = self.problem.held_out_error()
            if error < state.best_error or not state.best_epoch:
                state.best_error, state.best_epoch = error, epoch
                if self.problem.keeps_best:
                    self.best = self._values()
        return error

    def finish(self) -> None:
        """Leave the problem with the parameters that are the result."""
        self._assign(self.best or self._average())

    # ---- state ----

    def snapshot(self, state: State) -> State:
        """Put all that the next step depends on into a state."""
        found, kinds = self.optimiser.state_dict(), {"parameter": self._values(), "best": self.best}
        for kind in [name for name, value in found.items() if isinstance(value, list)]:
            kinds[kind] = dict(zip(self.parameters, found.pop(kind), strict=True))
        state.numbers = found
        state.arrays = {
            f"{kind}/{n}": x for kind, arrays in kinds.items() for n, x in arrays.items()
        }
        return state

    def restored(self, directory: Path, settings: Mapping[str, Any]) -> State:
        """Continue from the checkpoint of a directory; without one, return an empty state.

        Raises
        ------
        CheckpointError
            The checkpoint cannot be continued with these settings.
        """

        def entries() -> dict[str, Array]:
            expected = self.snapshot(State({})).arrays
            state = State.load(directory, settings, expected, self.problem.steps)
            return state.entries() if state else {}

        found = self.processes.from_first(entries)
        if not found:
            return State(dict(settings))
        state = State.of_entries(found)
        kinds: dict[str, dict[str, Array]] = {"best": {}}
        for name, array in state.arrays.items():
            kind, _, parameter = name.partition("/")
            kinds.setdefault(kind, {})[parameter] = array
        self._assign(kinds.pop("parameter"))
        self.best = kinds.pop("best")
        lists = {kind: [x[name] for name in self.parameters] for kind, x in kinds.items()}
        self.optimiser.load_state_dict({**state.numbers, **lists})
        return state

    def _values(self) -> dict[str, Array]:
        return {name: self.engine.value(x) for name, x in self.parameters.items()}

    def _average(self) -> dict[str, Array]:
        if not self.optimiser.average:
            return {}
        return dict(zip(self.parameters, self.optimiser.state_dict()["average"], strict=True))

    def _assign(self, values: Mapping[str, Array]) -> None:
        for name, array in values.items():
            self.engine.assign(self.parameters[name], array)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Context in which the parameters are their running average, if there is one."""
        average = self._average()
        current = self._values() if average else {}
        self._assign(average)
        try:
            yield
        finally:
            self._assign(current)


def fit(
    problem: TrainingProblem,
    config: TrainingConfig,
    run: Run,
    about: Mapping[str, Any] | None = None,
    folder: str = "",
) -> State:
    """Train to the last epoch, or until the error no longer improves.

    A run that was killed and continued, by as many processes, ends with the same bits as one that
    was not.

    Parameters
    ----------
    problem : TrainingProblem
        Its parameters become the result.
    config : TrainingConfig
    run : Run
        Directory, processes and console; a run found in the directory is continued.
    about : mapping, optional
        Further facts that must not change when a run is continued, such as a checksum.
    folder : str
        Folder in the directory of the run for checkpoint and history, written after every epoch.

    Returns
    -------
    State

    Raises
    ------
    CheckpointError
        The checkpoint cannot be continued with these settings.
    TrainingError
        The loss is not finite. The checkpoint is that of the epoch before.
    FileError
        Checkpoint or history cannot be written. Both are those of the epoch before.
    """
    processes, console, directory = run.processes, run.console, run.directory / folder
    trainer = Trainer(problem, config, processes)
    settings = {**config.settings(), **(about or {})}
    state = State(settings) if run.fresh else trainer.restored(directory, settings)
    done = len(state.history)
    replaces = run.fresh and (directory / CHECKPOINT).exists()
    state.plan(config.epochs, config.learning_rate)
    if done and state.finished and done != config.epochs:
        console.print(f"ended after epoch {done}; more --epochs train it further")
    elif done:
        more = "; more --epochs train it further" if state.finished else ""
        console.print(f"continuing after epoch {done} of {config.epochs}{more}")
    if done and state.finished:
        rate = state.planned["learning_rate"]
        if rate != config.learning_rate:
            console.print(f"--learning-rate {config.learning_rate:g} is not used: it was {rate:g}")
        # the files tell what the run was, not what it was asked for when there was nothing to do
        used = {n: was for n, was in state.planned.items() if was != getattr(config, n)}
        run = replace(run, options={**run.options, **used} if run.options else {})
    problem.prepare(console)
    before = state.history[-1].seconds if done else 0.0
    started, steps = time.monotonic(), problem.steps
    with processes.together():
        log = Log(directory, run.log if processes.first else "csv", done)
        if processes.first and not run.fresh and not done:
            run.need_free(directory)
        if processes.first and not replaces:
            run.save_options()
    with closing(log), progress_bar(config.epochs, console) as bar:
        task = bar.add_task("", total=config.epochs * steps, epoch=done, loss=math.nan)
        bar.update(task, completed=done * steps)
        while not state.finished:
            epoch, total = len(state.history), 0.0
            rng = generator(config.seed, Stream.EPOCH, epoch)
            for step, batch in enumerate(problem.batches(rng)):
                trainer.optimiser.lr = _rate(state, epoch + step / steps, config.schedule)
                total += trainer.step(batch)
                if not math.isfinite(total):
                    raise TrainingError(
                        f"the loss is not finite in epoch {epoch + 1}, "
                        "a smaller --learning-rate may help"
                    )
                bar.update(task, advance=1, epoch=epoch + 1, loss=total / (step + 1))
            epoch += 1
            measured = _is_measured(state, epoch, problem.measurements)
            row = Epoch(
                epoch=epoch,
                learning_rate=trainer.optimiser.lr,
                loss=total / steps,
                held_out=trainer.measure(state, epoch) if measured else math.nan,
                seconds=before + time.monotonic() - started,
            )
            state.history.append(row)
            waited = epoch - max(state.best_epoch, *(end for end, _ in state.cycles[:-1]), 0)
            stopped = measured and 0 < config.patience <= waited
            state.finished = stopped or epoch == config.epochs
            trainer.snapshot(state)
            with processes.together():
                if processes.first:
                    with uninterrupted():
                        state.save(directory)
                        log.write(state.history)
                        if replaces and epoch == 1:
                            run.save_options()
            if measured and not console.is_terminal:
                console.print(progress(row, config.epochs), highlight=False)
            if stopped:
                console.print(f"stopped: no better for {waited} epochs")
    trainer.finish()
    return state


def progress(row: Epoch, epochs: int) -> str:
    """Line of a log for an epoch, whose numbers are below those of other epochs."""
    width = len(str(epochs))
    return (
        f"epoch {row.epoch:>{width}}/{epochs}  loss {row.loss:<#10.4g}"
        f"held out {row.held_out:<#10.4g}{row.seconds:5.0f} s"
    )


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


def _rate(state: State, progress: float, schedule: Schedule) -> float:
    """Learning rate in the cycle of an epoch."""
    start = 0
    for end, peak in state.cycles:
        if progress < end:
            return learning_rate(peak, (progress - start) / (end - start), schedule)
        start = end
    raise AssertionError("an epoch after the last cycle")


def _is_measured(state: State, epoch: int, measurements: int) -> bool:
    ends = [0, *(end for end, _ in state.cycles)]
    return epoch == ends[-1] or epoch % max(1, (ends[-1] - ends[-2]) // measurements) == 0

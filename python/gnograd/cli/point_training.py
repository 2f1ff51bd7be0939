# SPDX-License-Identifier: MIT
"""The training loop of models on points, through PyTorch."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gnograd.cli.checkpoint import ADVICE, CheckpointError, Epoch
from gnograd.cli.config import PointsConfig, Precision, Schedule
from gnograd.cli.errors import DeviceError
from gnograd.cli.files import uninterrupted
from gnograd.cli.point_batches import Batch, PointBatches
from gnograd.cli.point_checkpoint import (
    PointState,
    named,
    optimiser_tensors,
    restore_optimiser,
    without,
)
from gnograd.cli.point_log import PointLog
from gnograd.cli.random_streams import Stream, generator
from gnograd.cli.training import FINAL_RATE, TrainingError, learning_rate, progress_bar
from gnograd.models import PointModel

__all__ = ["PointTraining", "error_of", "rate", "relative_errors"]

MEASUREMENTS = 50
"""Number of measurements of the held-out error in a cycle of the learning rate."""

FLOOR = 1e-2
"""Lower bound of the norm in relative errors, as a fraction of the typical one in training data."""


def rate(schedule: Schedule, peak: float, progress: float) -> float:
    """Learning rate after a fraction `progress` of a run, 0 to 1; all schedules rise at first."""
    if schedule is Schedule.COSINE:
        return learning_rate(peak, progress)
    risen = min(peak, learning_rate(peak, min(progress, 0.05)))
    if schedule is Schedule.CONSTANT:
        return risen
    return risen * (FINAL_RATE + (1 - FINAL_RATE) * (1 - progress))


def relative_errors(
    prediction: np.ndarray[Any, Any],
    truth: np.ndarray[Any, Any],
    counted: np.ndarray[Any, Any] | None = None,
) -> float:
    """Relative L2 error over points, and times, of one sample: the mean over channels.

    Channels that are zero everywhere are left out; if all are, the error is absolute. Channels that
    are not `counted` are left out too; without any counted channel there is no error.
    """
    if counted is not None and not counted.all():
        prediction, truth = prediction[..., counted], truth[..., counted]
        if not counted.any():
            return 0.0
    axes = tuple(range(truth.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.sqrt(np.square(prediction - truth, dtype=np.float64).sum(axis=axes))
    norm = np.sqrt(np.square(truth, dtype=np.float64).sum(axis=axes))
    there = norm > 0
    value = (error[there] / norm[there]).mean() if there.any() else error.mean()
    return float(value) if np.isfinite(value) else math.inf


def norms(x: Tensor) -> Tensor:
    """L2 norms of the columns of `x`, (n, c), summed in float64: float32 loses four digits."""
    return torch.linalg.vector_norm(x, dim=0, dtype=torch.float64)


class PointTraining:
    """A model in training: weights, their running average, the optimiser, the best so far.

    Parameters
    ----------
    model : PointModel
    config : PointsConfig
    training, held_out : PointBatches
    compiled : bool
        Let PyTorch compile the model.
    """

    def __init__(
        self,
        model: PointModel,
        config: PointsConfig,
        training: PointBatches,
        held_out: PointBatches,
        compiled: bool = False,
    ) -> None:
        self.model, self.config = model, config
        self.training, self.held_out = training, held_out
        self.device = model.centre.device
        self.parameters = list(model.parameters())
        learnt = model.output_std > 0
        self.learnt = None if bool(learnt.all()) else learnt.nonzero()[:, 0]
        self.optimiser = torch.optim.AdamW(
            self.parameters, config.learning_rate, weight_decay=config.weight_decay
        )
        self.average = None
        if config.ema:
            self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(config.ema))
        if config.precision is Precision.FLOAT16 and self.device.type != "cuda":
            raise DeviceError("--precision float16 needs --device cuda; bfloat16 does not")
        self.scaler = torch.amp.GradScaler(
            self.device.type, enabled=config.precision is Precision.FLOAT16
        )
        self.best = {name: x.clone() for name, x in model.state_dict().items()}
        self._forward: Any = torch.compile(model, dynamic=True) if compiled else model
        self.n_steps = -(-len(training.steps) // config.batch)

    def fit(self, directory: Path, state: PointState, log: PointLog, console: Console) -> float:
        """Train to the last epoch, or until the error no longer improves.

        A run that was killed and continued ends with the same bits as one that was not.

        Parameters
        ----------
        directory : pathlib.Path
            For the checkpoint, after every epoch.
        state : PointState
            State of the run before, or of a new one; it is modified.
        log : PointLog
        console : rich.console.Console

        Returns
        -------
        float
            Mean time of a step in seconds.

        Raises
        ------
        TrainingError
            The loss is not finite. The checkpoint is that of the epoch before.
        FileError
            Files cannot be written.
        """
        config, done = self.config, len(state.history)
        before = state.history[-1].seconds if done else 0.0
        started = time.monotonic()
        with progress_bar(config.epochs, console) as bar:
            task = bar.add_task("", total=config.epochs * self.n_steps, epoch=done, loss=math.nan)
            bar.update(task, completed=done * self.n_steps)
            for epoch in range(done, config.epochs):
                if state.finished:
                    break
                total = 0.0
                for step, batch in enumerate(self.batches(epoch)):
                    self._set_rate(state, epoch + step / self.n_steps)
                    total += self.step(batch)
                    if not math.isfinite(total):
                        raise TrainingError(
                            f"the loss is not finite in epoch {epoch + 1}, "
                            "a smaller --learning-rate may help"
                        )
                    bar.update(task, advance=1, epoch=epoch + 1, loss=total / (step + 1))
                error = self._measured(state, epoch + 1)
                row = Epoch(
                    epoch + 1,
                    self.optimiser.param_groups[0]["lr"],
                    total / self.n_steps,
                    error,
                    before + time.monotonic() - started,
                )
                state.history.append(row)
                waited = epoch + 1 - max(state.best_epoch, *(e for e, _ in state.stretches[:-1]), 0)
                stopped = 0 < config.patience <= waited and not math.isnan(error)
                state.finished = stopped or epoch + 1 == config.epochs
                with uninterrupted():
                    state.save(directory, self.tensors())
                    log.write(state.history)
                if not math.isnan(error) and not console.is_terminal:
                    console.print(
                        f"epoch {row.epoch}/{config.epochs}  loss {row.loss:.4g}  "
                        f"held out {error:.4g}  {row.seconds:.0f} s"
                    )
                if stopped:
                    console.print(f"stopped: no better for {waited} epochs")
        return state.history[-1].seconds / (len(state.history) * self.n_steps)

    # ---- a step ----

    def batches(self, epoch: int) -> Iterator[Batch]:
        """All steps of the training data in a random order that depends on the epoch only."""
        config, rng = self.config, generator(self.config.seed, Stream.EPOCH, epoch)
        steps, samples = self.training.steps, self.training.data.samples
        order = rng.permutation(len(steps))
        self.model.train()
        for start in range(0, len(order), config.batch):
            some = [steps[k] for k in order[start : start + config.batch]]
            noise = None
            if config.noise:
                channels = self.model.description.widths[2]
                scale = config.noise * self.model.input_std[-channels:].cpu().numpy()
                scale *= self.model.output_std.cpu().numpy() > 0
                noise = [
                    scale * rng.standard_normal((len(samples[k].points), channels)) for k, _ in some
                ]
            yield self.training.batch(some, noise)

    def step(self, batch: Batch) -> float:
        """Update the parameters with one batch, and return its loss before."""
        with self._autocast():
            prediction = self._forward(*batch.known)
        loss = self._loss(prediction, batch)
        self.scaler.scale(loss).backward()
        if self.config.clip:
            self.scaler.unscale_(self.optimiser)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.model)
        return float(loss.detach())

    def _loss(self, prediction: Tensor, batch: Batch) -> Tensor:
        """Mean loss over samples and channels: relative L2 error, or mean square for time steps.

        Channels that are constant for the model are left out. Sums are taken sample by sample, so
        that their order is the same on every device.
        """
        std, mean, truth = self.model.output_std, self.model.output_mean, batch.truth
        if self.learnt is not None:
            if not len(self.learnt):
                return 0 * prediction.sum()
            std, mean = std[self.learnt], mean[self.learnt]
            prediction, truth = prediction[:, self.learnt], truth[:, self.learnt]
        losses = []
        for made, true in zip(prediction.split(batch.sizes), truth.split(batch.sizes), strict=True):
            if self.model.description.layout.in_time:
                losses.append(((made - true) / std).square().mean())
            else:
                typical = (std.square() + mean.square()).sqrt()
                least = FLOOR * typical * len(true) ** 0.5
                losses.append((norms(made - true) / norms(true).maximum(least)).mean())
        return torch.stack(losses).mean()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision is Precision.FLOAT32:
            return nullcontext()
        dtype = getattr(torch, self.config.precision.value)
        return torch.autocast(self.device.type, dtype)

    def _set_rate(self, state: PointState, progress: float) -> None:
        start = 0
        for end, peak in state.stretches:
            if progress < end:
                part = (progress - start) / (end - start)
                self.optimiser.param_groups[0]["lr"] = rate(self.config.schedule, peak, part)
                return
            start = end

    # ---- held-out samples ----

    def _measured(self, state: PointState, epoch: int) -> float:
        """Held-out error of the weights, or of their average; NaN if it is not measured."""
        ends = [0, *(end for end, _ in state.stretches)]
        every = max(1, (ends[-1] - ends[-2]) // MEASUREMENTS)
        if epoch % every and epoch != ends[-1]:
            return math.nan
        model: Any = self.model if self.average is None else self.average.module
        error = float(np.mean(errors_of(model, self.held_out)))
        if error < state.best_error or not state.best_epoch:
            state.best_error, state.best_epoch = error, epoch
            self.best = {name: x.clone() for name, x in model.state_dict().items()}
        return error

    def best_model(self) -> PointModel:
        """The model with the smallest held-out error."""
        model = deepcopy(self.model).eval()
        model.load_state_dict(self.best)
        return model

    # ---- checkpoint ----

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that the next epoch depends on."""
        tensors = named("model", self.model.state_dict()) | named("best", self.best)
        if self.average is not None:
            tensors |= named("average", self.average.state_dict())
        if self.scaler.is_enabled():
            scaler = self.scaler.state_dict()
            tensors["scaler"] = torch.tensor([scaler["scale"], scaler["_growth_tracker"]])
        return tensors | optimiser_tensors(self.optimiser)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from `tensors`.

        Raises
        ------
        CheckpointError
            The tensors are not those of this model.
        """
        try:
            self.model.load_state_dict(without("model", tensors))
            self.best = {n: x.to(self.device) for n, x in without("best", tensors).items()}
            if self.best.keys() != self.model.state_dict().keys():
                raise KeyError("best")
            if self.average is not None:
                self.average.load_state_dict(without("average", tensors))
            if self.scaler.is_enabled():
                scale, growth = tensors["scaler"].tolist()
                self.scaler.load_state_dict(
                    {**self.scaler.state_dict(), "scale": scale, "_growth_tracker": int(growth)}
                )
            restore_optimiser(self.optimiser, tensors, self.parameters)
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint is of another model; {ADVICE}") from error


def error_of(model: PointModel, made: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> float:
    """Relative error of a model's prediction for a sample.

    Parameters
    ----------
    model : PointModel
    made : ndarray, (m, channels), or states behind the first (n_times - 1, n, channels)
    truth : ndarray, (m, channels), or all states (n_times, n, channels)
    """
    counted = model.counted(truth)
    return relative_errors(made, truth[1:] if made.ndim == 3 else truth, counted)


def errors_of(model: PointModel, batches: PointBatches) -> Sequence[float]:
    """Relative error of every sample; for trajectories, of the prediction from the first state."""
    model.eval()
    errors = []
    for sample in batches.data.samples:
        made = model.predict(sample, graphs=batches.graphs(sample))
        if sample.states is not None:
            errors.append(error_of(model, made[1:], sample.states))
        else:
            assert sample.outputs is not None
            errors.append(error_of(model, made, sample.outputs))
    return errors

# SPDX-License-Identifier: MIT
"""Functions on points as a problem to train on: batches, loss, held-out error."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from gnograd.cli.config import PointsConfig
from gnograd.cli.point_batches import Batch, PointBatches
from gnograd.cli.torch_engine import TorchEngine
from gnograd.cli.training import TrainingProblem
from gnograd.data import PointData
from gnograd.data.statistics import statistics
from gnograd.models import PointModel
from gnograd.notation.text import printable

__all__ = ["PointProblem", "error_of", "relative_errors", "tell_far"]

BLOCK = 1 << 26
"""Bytes of a trajectory that are compared at once."""
FAR, OUTSIDE = 10, 2
"""Distance of inputs from their mean in training data, in deviations, and of points from the centre
of its box, in half lengths, from which they are unlike them."""
STILL, SMALL = 0.01, 0.1
"""Deviation of inputs, and length of the box of points, relative to training data, up to which they
are unlike them."""
FLOOR = 1e-2
"""Lower bound of the norm in relative errors, as a fraction of the typical one in training data."""


def relative_errors(
    prediction: np.ndarray[Any, Any],
    truth: np.ndarray[Any, Any],
    counted: np.ndarray[Any, Any] | None = None,
) -> float:
    """Relative L2 error over points, and times, of one sample: the mean over channels.

    Channels that are zero everywhere are left out; if all are, the error is absolute. Channels that
    are not `counted` are left out too; without any counted channel there is no error.
    """
    axes = tuple(range(truth.ndim - 1))
    error, norm = np.zeros(truth.shape[-1]), np.zeros(truth.shape[-1])
    step = max(1, BLOCK // max(1, 4 * math.prod(truth.shape[1:])))
    for start in range(0, len(truth), step):
        made, true = prediction[start : start + step], np.asarray(truth[start : start + step])
        with np.errstate(over="ignore", invalid="ignore"):
            error += np.square(made - true, dtype=np.float64).sum(axis=axes)
        norm += np.square(true, dtype=np.float64).sum(axis=axes)
    error, norm = np.sqrt(error), np.sqrt(norm)
    if counted is not None:
        error, norm = error[counted], norm[counted]
        if not counted.any():
            return 0.0
    there = norm > 0
    value = (error[there] / norm[there]).mean() if there.any() else error.mean()
    return float(value) if np.isfinite(value) else math.inf


def norms(x: Tensor) -> Tensor:
    """L2 norms of the columns of `x`, (n, c), summed in float64: float32 loses four digits."""
    return torch.linalg.vector_norm(x, dim=0, dtype=torch.float64)


class PointProblem(TrainingProblem):
    """A model with its training and held-out samples.

    Parameters
    ----------
    model : PointModel
    config : PointsConfig
    training, held_out : PointBatches
    engine : TorchEngine
    compiled : bool
        Let PyTorch compile the model.
    """

    engine: TorchEngine
    measurements = 50
    keeps_best = True

    def __init__(
        self,
        model: PointModel,
        config: PointsConfig,
        training: PointBatches,
        held_out: PointBatches,
        engine: TorchEngine,
        compiled: bool = False,
    ) -> None:
        self.model, self.config, self.engine = model, config, engine
        self.training, self.held_out = training, held_out
        self.parameters = dict(model.named_parameters())
        learnt = model.output_std > 0
        self.learnt = None if bool(learnt.all()) else learnt.nonzero()[:, 0]
        self._forward: Any = torch.compile(model, dynamic=True) if compiled else model
        self.steps = -(-len(training.steps) // config.batch)

    def prepare(self, console: Console) -> None:
        """Make all graphs."""
        for part in (self.training, self.held_out):
            part.find_neighbours(console, "finding neighbours")

    def batches(self, rng: np.random.Generator) -> Iterator[Batch]:
        """All steps of the training data in a random order."""
        config = self.config
        steps, sizes = self.training.steps, self.training.data.facts.points
        order = rng.permutation(len(steps))
        self.model.train()
        for start in range(0, len(order), config.batch):
            some = steps[order[start : start + config.batch]]
            noise = None
            if config.noise:
                channels = self.model.description.widths[2]
                scale = config.noise * self.model.input_std[-channels:].cpu().numpy()
                scale *= self.model.output_std.cpu().numpy() > 0
                noise = [scale * rng.standard_normal((sizes[k], channels)) for k, _ in some]
            yield self.training.batch(some, noise)

    def loss(self, batch: Batch) -> Tensor:
        """Mean loss over samples and channels: relative L2 error, or mean square for time steps.

        Channels that are constant for the model are left out. Sums are taken sample by sample, so
        that their order is the same on every device.
        """
        with self.engine.autocast():
            prediction = self._forward(*batch.known)
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

    def held_out_error(self) -> float:
        """Mean error over the held-out samples."""
        return float(np.mean(errors_of(self.model, self.held_out)))


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
    for k, sample in enumerate(batches.data.samples):
        made = model.predict(sample, graphs=batches.graphs(k, sample))
        if sample.states is not None:
            errors.append(error_of(model, made[1:], sample.states))
        else:
            assert sample.outputs is not None
            errors.append(error_of(model, made, sample.outputs))
    return errors


def tell_far(model: PointModel, data: PointData, console: Console) -> None:
    """Warn of points and inputs that are unlike those of the training data of a model."""
    notes = []
    layout = model.description.layout
    centre, scale = model.centre.cpu().numpy(), float(model.scale)
    ends = [(cloud.min(axis=0), cloud.max(axis=0)) for cloud in data.clouds()]
    low, high = np.min([a for a, _ in ends], axis=0), np.max([b for _, b in ends], axis=0)
    free = np.array([not length for length in layout.period or (0,) * layout.dimension])
    reach = np.where(free, np.maximum(high - centre, centre - low), 0).max() / scale
    size = (high - low).max() / (2 * scale)
    if reach > OUTSIDE:
        notes.append(f"points reach {reach:.3g} times as far as the box of the training data")
    elif 0 < size < SMALL:
        notes.append(f"points fill {size:.2g} of the length of the box of the training data")
    found = statistics(data)
    fields = {"input": layout.inputs + (layout.outputs if layout.in_time else ())}
    for kind, of_kind in {**fields, "parameter": layout.parameters}.items():
        mean, std = (getattr(model, f"{kind}_{n}").cpu().numpy() for n in ("mean", "std"))
        away, ratio = np.abs(found[kind].mean - mean) / std, found[kind].std / std
        names = [f.name for f in of_kind for _ in range(f.width)]
        for name, a, r, m in zip(names, away, ratio, found[kind].mean, strict=True):
            if max(a, r) > FAR:
                much = f"{max(a, r):.3g} of the deviations of the training data"
                notes.append(f"'{name}', on average {m:.4g}, is {much} away from their mean")
            elif 0 < r < STILL:
                notes.append(f"'{name}' varies {r:.2g} times as much as in the training data")
    for note in notes:
        line = f"warning: {data.samples[0].source}: {note}; are units the same?"
        console.print(printable(line), markup=False, soft_wrap=True)

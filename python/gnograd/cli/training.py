# SPDX-License-Identifier: MIT
"""The training loop that both jobs share: schedule, progress, checkpoints."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import gnograd.autodiff as ad

from .checkpoint import Epoch, State
from .files import remove_parts

Array = npt.NDArray[Any]

WARM_UP = 0.05
"""Fraction of the steps over which the learning rate rises."""
FINAL_RATE = 0.01
"""Learning rate at the end, as a fraction of its peak."""
MEASUREMENTS = 20
"""Times in a run that the held-out error is measured."""


def learning_rate(peak: float, progress: float) -> float:
    """Linear warm-up, then half a cosine.

    Parameters
    ----------
    peak : float
    progress : float
        Fraction of the run that is behind, 0 to 1.
    """
    if progress < WARM_UP:
        return peak * (progress + 0.1 * WARM_UP) / (1.1 * WARM_UP)
    decay = 0.5 * (1.0 + math.cos(math.pi * (progress - WARM_UP) / (1.0 - WARM_UP)))
    return peak * (FINAL_RATE + (1.0 - FINAL_RATE) * decay)


def fit(
    *,
    tape: ad.Tape,
    parameters: Sequence[ad.Array],
    losses: Callable[[np.random.Generator], Iterator[ad.Array]],
    held_out: Callable[[], float],
    epochs: int,
    steps: int,
    peak_rate: float,
    seed: int,
    directory: Path,
    config: Mapping[str, Any],
    console: Console,
) -> list[Epoch]:
    """Minimise a loss with Adam; continue from the checkpoint in `directory` if there is one.

    A run that was killed and continued ends with the same bits as one that was not.

    Parameters
    ----------
    tape : gnograd.autodiff.Tape
        Holds the parameters and nothing else; each step is recorded on it and forgotten.
    parameters : sequence of gnograd.autodiff.Array
    losses : callable
        Yields the loss of each of the `steps` steps of an epoch; the random numbers
        it needs come from the generator it is given.
    held_out : callable
        Error on samples that are not trained on.
    epochs, steps : int
        Length of the run, and of one epoch.
    peak_rate : float
        Largest learning rate.
    seed : int
    directory : pathlib.Path
        Where checkpoint and history are written after every epoch.
    config : mapping
        Settings of the run; a checkpoint made with others is refused.
    console : rich.console.Console

    Returns
    -------
    list of Epoch
    """
    remove_parts(directory)
    optimiser = ad.Adam(parameters, lr=peak_rate)
    state = State.load(directory, config) or State({})
    if state.history:
        _restore(parameters, optimiser, state.arrays)
        console.print(f"continuing after epoch {state.history[-1].epoch} of {epochs}")
    done = len(state.history)
    before = state.history[-1].seconds if state.history else 0.0
    started = time.monotonic()
    mark = tape.mark()
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(
            "training", total=epochs * steps, completed=done * steps, epoch=done, loss=math.nan
        )
        for epoch in range(done, epochs):
            rng = np.random.default_rng((seed, epoch))
            total = 0.0
            for step, loss in enumerate(losses(rng)):
                rate = learning_rate(peak_rate, (epoch + step / steps) / epochs)
                optimiser.lr = rate
                loss.backward()
                optimiser.step()
                total += float(loss.value)
                tape.rewind(mark)
                bar.update(task, advance=1, epoch=epoch + 1, loss=total / (step + 1))
            measure = (epoch + 1) % max(1, epochs // MEASUREMENTS) == 0 or epoch + 1 == epochs
            row = Epoch(
                epoch=epoch + 1,
                learning_rate=rate,
                loss=total / steps,
                held_out=held_out() if measure else math.nan,
                seconds=before + time.monotonic() - started,
            )
            tape.rewind(mark)
            state.history.append(row)
            state.arrays = _snapshot(parameters, optimiser)
            state.save(directory, config)
            if measure and not console.is_terminal:
                console.print(
                    f"epoch {row.epoch}/{epochs}  loss {row.loss:.4f}  "
                    f"held out {row.held_out:.4f}  {row.seconds:.0f} s"
                )
    return state.history

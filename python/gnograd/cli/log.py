# SPDX-License-Identifier: MIT
"""Course of a training, epoch by epoch, and its log."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic

__all__ = ["EXAMPLES", "HISTORY", "RESULTS", "Epoch", "Log", "measured"]

HISTORY = "history.csv"
RESULTS = "results.json"
EXAMPLES = "examples.safetensors"


@dataclass(frozen=True)
class Epoch:
    """One line of the history."""

    epoch: int
    learning_rate: float
    loss: float
    """Mean loss over the training steps of the epoch."""
    held_out: float
    """Error on held-out samples; NaN in epochs without a measurement."""
    seconds: float
    """Seconds since the training began, without interruptions."""


def measured(history: Sequence[Epoch]) -> tuple[list[int], list[float]]:
    """Epochs with a measurement, and the held-out errors there."""
    rows = [row for row in history if math.isfinite(row.held_out)]
    return [row.epoch for row in rows], [row.held_out for row in rows]


class Log:
    """A table of the epochs, and TensorBoard's events if wanted.

    Parameters
    ----------
    directory : pathlib.Path
    kind : {"csv", "tensorboard"}
        Format; the table is written with both.
    done : int
        Number of finished epochs; later events of TensorBoard are dropped.

    Raises
    ------
    JobError
        TensorBoard is not installed.
    """

    def __init__(self, directory: Path, kind: str, done: int) -> None:
        self.directory = directory
        self._writer: Any = None
        if kind == "tensorboard":
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                missing = (error.name or kind).partition(".")[0]
                raise JobError(
                    f"--log tensorboard needs {missing}; install it with: pip install {missing}"
                ) from error
            self._writer = SummaryWriter(directory / "tensorboard", purge_step=done + 1)

    def write(self, history: Sequence[Epoch]) -> None:
        """Write the table anew, and the last epoch's events."""
        with atomic(self.directory / HISTORY) as stream:
            text = io.TextIOWrapper(stream, newline="", write_through=True)
            table = csv.DictWriter(text, [f.name for f in fields(Epoch)])
            table.writeheader()
            table.writerows(asdict(row) for row in history)
            text.detach()
        if self._writer is not None:
            row = history[-1]
            for name in ("loss", "learning_rate", "held_out"):
                value = getattr(row, name)
                if value == value:
                    self._writer.add_scalar(name, value, row.epoch)
            self._writer.flush()

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self._writer is not None:
            self._writer.close()

# SPDX-License-Identifier: MIT
"""Log of a training on points."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnograd.cli.checkpoint import Epoch, write_history
from gnograd.cli.errors import JobError

__all__ = ["LOGS", "PointLog"]

LOGS = ("csv", "tensorboard")


class PointLog:
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
                raise JobError(
                    "--log tensorboard needs tensorboard; install it with: pip install tensorboard"
                ) from error
            self._writer = SummaryWriter(directory / "tensorboard", purge_step=done + 1)

    def write(self, history: Sequence[Epoch]) -> None:
        """Write the table anew, and the last epoch's events."""
        write_history(self.directory, history)
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

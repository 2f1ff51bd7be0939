# SPDX-License-Identifier: MIT
"""State of a training run on disk."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic, uninterrupted
from gnograd.data.readers import npz

Array = npt.NDArray[Any]

CHECKPOINT = "checkpoint.npz"
HISTORY = "history.csv"

STEPS = "steps"
"""Name of the number of steps of the optimiser, the only integer array of a state."""

ADVICE = "choose another --out, or start anew with --fresh"

_ABSENT = "not set"


class CheckpointError(JobError):
    """Error about a checkpoint that this run cannot continue."""


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


def write_history(directory: Path, history: Sequence[Epoch]) -> None:
    """Write the table of the epochs anew."""
    with atomic(directory / HISTORY) as stream:
        text = io.TextIOWrapper(stream, newline="", write_through=True)
        table = csv.DictWriter(text, [f.name for f in fields(Epoch)])
        table.writeheader()
        table.writerows(asdict(row) for row in history)
        text.detach()


@dataclass
class State:
    """Full state of a run, to continue as if it had never stopped.

    Generators of random numbers are seeded by the number of the epoch, so the state has none of
    them.
    """

    arrays: dict[str, Array]
    """Parameters and moments of the optimiser."""
    history: list[Epoch] = field(default_factory=list)

    def save(self, directory: Path, config: Mapping[str, Any]) -> None:
        """Write checkpoint and history; each is replaced whole or left as it was."""
        settings = {"config": np.array(json.dumps(config))}
        with uninterrupted():
            with atomic(directory / CHECKPOINT) as stream:
                np.savez(stream, **settings, **self.entries())  # type: ignore[arg-type]
            write_history(directory, self.history)

    def entries(self) -> dict[str, Array]:
        """The state as arrays."""
        columns = {f.name: [getattr(row, f.name) for row in self.history] for f in fields(Epoch)}
        return {f"history/{name}": np.array(column) for name, column in columns.items()} | {
            f"state/{name}": array for name, array in self.arrays.items()
        }

    @classmethod
    def of_entries(cls, entries: Mapping[str, Array]) -> "State":
        """Make the state from its `entries`."""
        columns = [entries[f"history/{f.name}"].tolist() for f in fields(Epoch)]
        arrays = {
            name.removeprefix("state/"): array
            for name, array in entries.items()
            if name.startswith("state/")
        }
        return cls(arrays, [Epoch(*row) for row in zip(*columns, strict=True)])

    @classmethod
    def load(
        cls,
        directory: Path,
        config: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
        dtype: npt.DTypeLike = np.float32,
    ) -> "State | None":
        """Read the checkpoint, or return None if there is none.

        Parameters
        ----------
        directory : pathlib.Path
        config : mapping
            Settings of the run.
        shapes : mapping
            Shapes of the arrays of the state.
        dtype : {"float32", "float64"}
            Type of these arrays.

        Raises
        ------
        CheckpointError
            The checkpoint is damaged, or was made with another `config`; the
            message names the settings that differ.
        """
        path = directory / CHECKPOINT
        if not path.exists():
            return None
        try:
            # the settings first: if they differ, the rest cannot fit
            _compare(npz.read(path, ["config"])["config"], config)
            columns = npz.read(path, [f"history/{f.name}" for f in fields(Epoch)])
            _check_history({f.name: columns[f"history/{f.name}"] for f in fields(Epoch)})
            arrays = npz.read(path, [f"state/{name}" for name in shapes])
            for name, shape in shapes.items():
                kind = np.dtype(np.int64 if name == STEPS else dtype)
                _check(name, arrays[f"state/{name}"], shape, kind)
        except npz.NpzError as error:
            raise CheckpointError(f"{error}; {ADVICE}") from error
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; {ADVICE}") from error
        return cls.of_entries(columns | arrays)


def _compare(saved: Array, config: Mapping[str, Any]) -> None:
    try:
        settings = json.loads(str(saved))
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError("does not hold the settings that it was made with")
    differences = [
        f"{name} is {config.get(name, _ABSENT)}, was {settings.get(name, _ABSENT)}"
        for name in sorted({*config, *settings})
        if config.get(name, _ABSENT) != settings.get(name, _ABSENT)
    ]
    if differences:
        raise ValueError(f"made with other settings ({'; '.join(differences)})")


def _check_history(columns: Mapping[str, Array]) -> None:
    epochs = np.arange(1, 1 + columns["epoch"].size)
    for name, column in columns.items():
        kind = np.dtype(np.int64 if name == "epoch" else np.float64)
        if column.dtype != kind or column.shape != epochs.shape or not len(epochs):
            raise ValueError(f"'history/{name}' is not one number for every epoch")
        if name != "held_out" and not np.isfinite(column).all():
            raise ValueError(f"'history/{name}' is not finite")
    if (columns["epoch"] != epochs).any():
        raise ValueError("'history/epoch' is not 1, 2, ..")


def _check(name: str, array: Array, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
    if array.dtype != kind or array.shape != shape:
        raise ValueError(
            f"'{name}' is {array.dtype} of shape {array.shape}, needs {kind} of shape {shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"'{name}' is not finite")

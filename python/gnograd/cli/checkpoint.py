# SPDX-License-Identifier: MIT
"""State of a training run on disk."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnograd.cli import npz
from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic

Array = npt.NDArray[Any]

CHECKPOINT = "checkpoint.npz"
HISTORY = "history.csv"

STEPS = "steps"
"""Name of the only array of a state that is not float32: how many steps the optimiser has taken."""

ADVICE = "choose another --out, or start anew with --fresh"

_ABSENT = "not set"


class CheckpointError(JobError):
    """A checkpoint that this run cannot continue."""


@dataclass(frozen=True)
class Epoch:
    """One line of the history."""

    epoch: int
    learning_rate: float
    loss: float
    """Mean over the training steps of the epoch."""
    held_out: float
    """Error on held-out samples; NaN in epochs where it is not measured."""
    seconds: float
    """Since the training began, without interruptions."""


@dataclass
class State:
    """All that a run needs to go on as if it had never stopped.

    Random numbers are drawn from generators seeded by the number of the epoch,
    so they need no place here.
    """

    arrays: dict[str, Array]
    """Parameters and moments of the optimiser."""
    history: list[Epoch] = field(default_factory=list)

    def save(self, directory: Path, config: Mapping[str, Any]) -> None:
        """Write checkpoint and history; each is replaced whole or left as it was."""
        columns = {f.name: [getattr(row, f.name) for row in self.history] for f in fields(Epoch)}
        entries: dict[str, Any] = {"config": np.array(json.dumps(config))}
        entries |= {f"history/{name}": np.array(column) for name, column in columns.items()}
        entries |= {f"state/{name}": array for name, array in self.arrays.items()}
        with atomic(directory / CHECKPOINT) as stream:
            np.savez(stream, **entries)
        with atomic(directory / HISTORY) as stream:
            text = io.TextIOWrapper(stream, newline="", write_through=True)
            table = csv.DictWriter(text, list(columns))
            table.writeheader()
            table.writerows(asdict(row) for row in self.history)
            text.detach()

    @classmethod
    def load(
        cls, directory: Path, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
    ) -> "State | None":
        """Read the checkpoint, or return None where there is none.

        Parameters
        ----------
        directory : pathlib.Path
        config : mapping
            Settings of the run.
        shapes : mapping
            Of the arrays of the state.

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
            # the settings first: with others the rest cannot fit
            _compare(npz.read(path, ["config"])["config"], config)
            columns = npz.read(path, [f"history/{f.name}" for f in fields(Epoch)])
            history = _history({f.name: columns[f"history/{f.name}"] for f in fields(Epoch)})
            entries = npz.read(path, [f"state/{name}" for name in shapes])
            arrays = {name: entries[f"state/{name}"] for name in shapes}
            for name, array in arrays.items():
                _check(name, array, shapes[name])
        except npz.NpzError as error:
            raise CheckpointError(f"{error}; {ADVICE}") from error
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; {ADVICE}") from error
        return cls(arrays, history)


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


def _history(columns: Mapping[str, Array]) -> list[Epoch]:
    epochs = np.arange(1, 1 + columns["epoch"].size)
    for name, column in columns.items():
        kind = np.dtype(np.int64 if name == "epoch" else np.float64)
        if column.dtype != kind or column.shape != epochs.shape or not len(epochs):
            raise ValueError(f"'history/{name}' is not one number for every epoch")
        if name != "held_out" and not np.isfinite(column).all():
            raise ValueError(f"'history/{name}' is not finite")
    if (columns["epoch"] != epochs).any():
        raise ValueError("'history/epoch' is not 1, 2, ..")
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [Epoch(*row) for row in rows]


def _check(name: str, array: Array, shape: tuple[int, ...]) -> None:
    kind = np.dtype(np.int64 if name == STEPS else np.float32)
    if array.dtype != kind or array.shape != shape:
        raise ValueError(
            f"'{name}' is {array.dtype} of shape {array.shape}, needs {kind} of shape {shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"'{name}' is not finite")

# SPDX-License-Identifier: MIT
"""State of a training run on disk."""

import csv
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnograd.cli.files import atomic

Array = npt.NDArray[Any]

CHECKPOINT = "checkpoint.npz"
HISTORY = "history.csv"

_ABSENT = "not set"


class CheckpointError(RuntimeError):
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
    def load(cls, directory: Path, config: Mapping[str, Any]) -> "State | None":
        """Read the checkpoint, or return None where there is none.

        Raises
        ------
        CheckpointError
            The checkpoint is damaged, or was made with another `config`; the
            message names the settings that differ.
        """
        path = directory / CHECKPOINT
        try:
            with np.load(path, allow_pickle=False) as file:
                saved = json.loads(str(file["config"]))
                entries = {name: file[name] for name in file.files}
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise CheckpointError(f"{path}: cannot be read ({error})") from error
        differences = [
            f"{name} is {config.get(name, _ABSENT)}, was {saved.get(name, _ABSENT)}"
            for name in sorted({*config, *saved})
            if config.get(name, _ABSENT) != saved.get(name, _ABSENT)
        ]
        if differences:
            raise CheckpointError(f"{path}: made with other settings ({'; '.join(differences)})")
        columns = [entries[f"history/{f.name}"].tolist() for f in fields(Epoch)]
        return cls(
            arrays={
                name.removeprefix("state/"): array
                for name, array in entries.items()
                if name.startswith("state/")
            },
            history=[Epoch(*row) for row in zip(*columns, strict=True)],
        )

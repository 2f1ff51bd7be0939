# SPDX-License-Identifier: MIT
"""State of a training on disk: one safetensors file, whatever the engine."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gnograd as gg
from gnograd.cli.errors import JobError
from gnograd.cli.files import writing
from gnograd.cli.log import Epoch

__all__ = ["ADVICE", "CHECKPOINT", "CheckpointError", "State"]

Array = npt.NDArray[Any]

CHECKPOINT = "checkpoint.safetensors"
EARLIER = "checkpoint.npz"
"""Name of the checkpoints of earlier versions."""
FORMAT = "2"

ADVICE = "choose another --out, or start anew with --fresh"

_ABSENT = "not set"


class CheckpointError(JobError):
    """Error about a checkpoint that this run cannot continue."""


@dataclass
class State:
    """Full state of a training, to continue as if it had never stopped.

    Generators of random numbers are seeded by the number of the epoch, so the state has none of
    them.
    """

    settings: dict[str, Any]
    """Settings that must not change."""
    history: list[Epoch] = field(default_factory=list)
    cycles: list[tuple[int, float]] = field(default_factory=list)
    """Last epoch, and peak of the learning rate, of each cycle of the rate."""
    best_epoch: int = 0
    best_error: float = math.inf
    finished: bool = False
    numbers: dict[str, float] = field(default_factory=dict)
    """Numbers of the optimiser, such as that of its steps."""
    arrays: dict[str, Array] = field(default_factory=dict)
    """Parameters, best parameters, and arrays of the optimiser, one for each parameter."""

    def save(self, directory: Path) -> None:
        """Replace the checkpoint.

        Raises
        ------
        FileError
            It cannot be written; that of the epoch before stays.
        """
        path, text = directory / CHECKPOINT, self._text()
        metadata = {"format": FORMAT, "state": text, "crc32": checksum(text, self.arrays)}
        with writing(path):
            directory.mkdir(parents=True, exist_ok=True)
            gg.save_weights(path, self.arrays, metadata=metadata)

    @classmethod
    def load(
        cls,
        directory: Path,
        settings: Mapping[str, Any],
        expected: Mapping[str, Array],
        steps: int,
    ) -> "State | None":
        """Read the checkpoint, or return None if there is none.

        Parameters
        ----------
        directory : pathlib.Path
        settings : mapping
            Settings of the run.
        expected : mapping
            Arrays of the names, shapes and types that the state must have.
        steps : int
            Number of steps of an epoch.

        Raises
        ------
        CheckpointError
            The checkpoint is damaged, of an earlier version, or of other settings, which the
            message names.
        """
        path = directory / CHECKPOINT
        if not path.exists():
            if (directory / EARLIER).exists():
                raise _earlier(directory / EARLIER)
            return None
        if not path.is_file():
            raise CheckpointError(f"{path}: is not a file; {ADVICE}")
        try:
            metadata = gg.load_weights_metadata(path)
            arrays = gg.load_weights(path)
            if "format" in metadata:
                if metadata["crc32"] != checksum(metadata["state"], arrays):
                    raise ValueError("its numbers are not those that were written")
                state = cls.of_entries({"state": np.array(metadata["state"]), **arrays})
        except (ValueError, TypeError, KeyError, AttributeError, ImportError, OSError,
                OverflowError, RecursionError) as error:  # fmt: skip
            raise CheckpointError(f"{path}: cannot be read (damaged); {ADVICE}") from error
        if metadata.get("format") != FORMAT:
            raise _earlier(path)
        try:
            # the settings first: if they differ, the rest cannot fit
            _compare(state.settings, settings)
            state._check(expected, steps)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; {ADVICE}") from error
        return state

    def entries(self) -> dict[str, Array]:
        """The state as arrays."""
        return {"state": np.array(self._text()), **self.arrays}

    @classmethod
    def of_entries(cls, entries: Mapping[str, Array]) -> "State":
        """Make the state from its `entries`."""
        arrays = dict(entries)
        about = json.loads(str(arrays.pop("state")))
        about["history"] = [
            Epoch(int(row.pop("epoch")), **{name: float(x) for name, x in row.items()})
            for row in about["history"]
        ]
        about["cycles"] = [(int(end), float(peak)) for end, peak in about["cycles"]]
        about["best_epoch"], about["best_error"] = (
            int(about["best_epoch"]),
            float(about["best_error"]),
        )
        about["numbers"] = {
            n: x if type(x) is int else float(x) for n, x in about["numbers"].items()
        }
        return cls(**about, arrays=arrays)

    def plan(self, epochs: int, peak: float) -> None:
        """Plan the cycles of the learning rate: epochs added to a finished run get a new one."""
        done = len(self.history)
        end, before = self.cycles[-1] if self.cycles else (0, 0.0)
        if done and (epochs <= done or (self.finished and epochs == end)):
            self.finished = True
            return
        if self.finished:
            self.cycles[-1] = (done, before)  # the run may have stopped early
        elif self.cycles:
            self.cycles.pop()
        self.cycles.append((epochs, peak))
        self.finished = False

    @property
    def planned(self) -> dict[str, Any]:
        """Epochs and learning rate of the last cycle, as settings."""
        if not self.cycles:
            return {}
        end, peak = self.cycles[-1]
        return {"epochs": end, "learning_rate": peak}

    def _text(self) -> str:
        state = {name: value for name, value in vars(self).items() if name != "arrays"}
        return json.dumps(state | {"history": [asdict(row) for row in self.history]})

    def _check(self, expected: Mapping[str, Array], steps: int) -> None:
        """Raise ValueError for a state that cannot be."""
        done, ends = len(self.history), [0, *(end for end, _ in self.cycles)]
        if not done or [row.epoch for row in self.history] != list(range(1, done + 1)):
            raise ValueError("its history is not of the epochs 1, 2, ..")
        for row in self.history:
            if not all(math.isfinite(x) for x in (row.learning_rate, row.loss, row.seconds)):
                raise ValueError(f"its history is not finite in epoch {row.epoch}")
        if ends != sorted(set(ends)) or not 0 <= self.best_epoch <= done <= ends[-1]:
            raise ValueError(f"its history has {done} epochs, which its other numbers are not for")
        taken, needed = self.numbers.get("steps", 0), done * steps
        # a step whose gradients overflow in float16 is left out
        if taken != needed and not ("scale" in self.numbers and 0 <= taken < needed):
            raise ValueError(f"'steps' is {taken}, needs {needed}")
        if odd := sorted(expected.keys() ^ self.arrays.keys()):
            there = "is of no use" if odd[0] in self.arrays else "is missing"
            raise ValueError(f"'{odd[0]}' {there}")
        for name, like in expected.items():
            array = self.arrays[name]
            if array.dtype != like.dtype or array.shape != like.shape:
                raise ValueError(
                    f"'{name}' is {array.dtype} of shape {array.shape}, "
                    f"needs {like.dtype} of shape {like.shape}"
                )
            if not np.isfinite(array).all():
                raise ValueError(f"'{name}' is not finite")
            if name.startswith("mean_square/") and (array < 0).any():
                raise ValueError("'mean_square' is negative")


def checksum(text: str, arrays: Mapping[str, Array]) -> str:
    """CRC-32 of a state and its arrays, to detect errors of disks."""
    crc = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def _earlier(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path}: was made by another version of gnograd, which alone can continue it; {ADVICE}"
    )


def _compare(made: Any, settings: Mapping[str, Any]) -> None:
    if not isinstance(made, dict):
        raise ValueError("does not hold the settings that it was made with")
    differences = [
        f"{name} is {settings.get(name, _ABSENT)}, was {made.get(name, _ABSENT)}"
        for name in sorted({*settings, *made})
        if settings.get(name, _ABSENT) != made.get(name, _ABSENT)
    ]
    if differences:
        raise ValueError(f"made with other settings ({'; '.join(differences)})")

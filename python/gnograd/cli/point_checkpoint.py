# SPDX-License-Identifier: MIT
"""Checkpoint of a training on points: one safetensors file."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gnograd as gg
from gnograd.cli.checkpoint import ADVICE, CheckpointError, Epoch
from gnograd.cli.files import FileError

__all__ = ["CHECKPOINT", "PointState"]

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class PointState:
    """State of a run without its tensors, to continue as if it had never stopped."""

    settings: dict[str, Any]
    """Settings that must not change."""
    history: list[Epoch] = field(default_factory=list)
    stretches: list[tuple[int, float]] = field(default_factory=list)
    """Last epoch, and peak of the learning rate, of each cycle of the rate."""
    best_epoch: int = 0
    best_error: float = float("inf")
    finished: bool = False

    def save(self, directory: Path, tensors: Mapping[str, Tensor]) -> None:
        """Replace the checkpoint.

        Raises
        ------
        FileError
            It cannot be written; that of the epoch before stays.
        """
        text = json.dumps(asdict(self))
        here = {name: x.detach().cpu() for name, x in tensors.items()}
        metadata = {"state": text, "crc32": _checksum(text, here)}
        try:
            gg.save_weights(directory / CHECKPOINT, here, metadata=metadata)
        except OSError as error:
            reason = error.strerror or error
            raise FileError(f"{directory}: cannot be written ({reason})") from error

    @classmethod
    def load(cls, directory: Path) -> "tuple[PointState, dict[str, Tensor]] | None":
        """Read the checkpoint; None if there is none.

        Raises
        ------
        CheckpointError
            It is damaged.
        """
        path = directory / CHECKPOINT
        if not path.exists():
            return None
        try:
            metadata = gg.load_weights_metadata(path)
            tensors = {n: torch.from_numpy(a.copy()) for n, a in gg.load_weights(path).items()}
            if metadata["crc32"] != _checksum(metadata["state"], tensors):
                raise ValueError("its numbers are not those that were written")
            about = json.loads(metadata["state"])
            about["history"] = [Epoch(**row) for row in about["history"]]
            about["stretches"] = [(int(end), float(peak)) for end, peak in about["stretches"]]
            state = cls(**about)
        except (
            ValueError, TypeError, KeyError, AttributeError, ImportError, OSError, OverflowError,
            RecursionError,
        ) as error:  # fmt: skip
            raise CheckpointError(f"{path}: cannot be read (damaged); {ADVICE}") from error
        return state, tensors

    def check(self, directory: Path, settings: Mapping[str, Any]) -> None:
        """Raise CheckpointError if settings have changed.

        Raises
        ------
        CheckpointError
            Settings differ; the message names them.
        """
        names = sorted({*self.settings, *settings})
        odd = [n for n in names if self.settings.get(n) != settings.get(n)]
        if odd:
            text = "; ".join(f"{n} is {settings.get(n)}, was {self.settings.get(n)}" for n in odd)
            raise CheckpointError(
                f"{directory / CHECKPOINT}: made with other settings ({text}); {ADVICE}"
            )


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of a state and its tensors, to detect errors of disks."""
    crc = zlib.crc32(text.encode())
    for name in sorted(tensors):
        x = tensors[name]
        crc = zlib.crc32(f"{name} {x.dtype} {tuple(x.shape)}".encode(), crc)
        flat = x.flatten().clone(memory_format=torch.contiguous_format)
        crc = zlib.crc32(flat.view(torch.uint8).numpy().data, crc)
    return f"{crc:08x}"


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add a prefix to every name."""
    return {f"{prefix}.{name}": x for name, x in tensors.items()}


def without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Select the names with a prefix, and remove it."""
    start = f"{prefix}."
    return {n.removeprefix(start): x for n, x in tensors.items() if n.startswith(start)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and steps of an optimiser."""
    return {
        f"optimiser.{k}.{name}": value
        for k, moments in optimiser.state_dict()["state"].items()
        for name, value in moments.items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], parameters: Sequence[Tensor]
) -> None:
    """Restore the result of `optimiser_tensors`."""
    state = optimiser.state_dict()
    found = without("optimiser", tensors)
    for k in range(len(parameters)):
        state["state"][k] = {
            name: found[f"{k}.{name}"] for name in ("step", "exp_avg", "exp_avg_sq")
        }
    optimiser.load_state_dict(state)

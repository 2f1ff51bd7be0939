# SPDX-License-Identifier: MIT
"""Functions on points: the one form that files of all formats are brought into."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import DataError

__all__ = ["Field", "Layout", "PointData", "Sample"]

Array = NDArray[Any]


class Field(NamedTuple):
    """A named quantity."""

    name: str
    width: int
    """How many numbers it is at a point."""


@dataclass(frozen=True)
class Layout:
    """Which quantities the columns of a sample's arrays are, in order."""

    dimension: int
    """Of space, 1 to 3."""
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    """What is predicted; of time stepping, the state."""
    parameters: tuple[Field, ...] = ()
    period: tuple[float, ...] | None = None
    """Lengths of a periodic box, 0 along axes that are not periodic."""
    in_time: bool = False
    """Whether a state is stepped in time."""
    apart: bool = False
    """Whether outputs are on points of their own."""
    step: float | None = None
    """Time from one state to the next, where that is known."""

    def differences(self, other: Layout) -> list[str]:
        """What another one has otherwise, in words."""
        names = {
            "dimension": "dimensions",
            "inputs": "inputs",
            "outputs": "outputs",
            "parameters": "parameters",
            "period": "period",
            "in_time": "steps in time",
            "apart": "points of their own for outputs",
            "step": "time step",
        }
        return [
            f"{text}: {_in_words(getattr(other, name))}, needs {_in_words(getattr(self, name))}"
            for name, text in names.items()
            if not _same(getattr(self, name), getattr(other, name))
        ]


@dataclass(frozen=True)
class Sample:
    """One problem, or one trajectory.

    Arrays that samples have in common are one array in memory.
    """

    points: Array
    """Where the inputs are known, float64 (n, d)."""
    inputs: Array
    """float32 (n, channels); of time stepping, where they change, (times, n, channels)."""
    queries: Array
    """Where outputs are wanted, float64 (m, d); `points` itself if they are the same."""
    outputs: Array | None
    """float32 (m, channels), None where they are not known."""
    parameters: Array
    """Numbers that hold everywhere, float32 (p,)."""
    states: Array | None = None
    """Of time stepping: float32 (steps, n, channels)."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    """Of the mesh whose points `queries` are, as `meshio` has them."""
    source: str = ""
    """File, and number in it, for messages."""
    times: Array | None = None
    """Times of the states, float64 (steps,), where they are known."""

    @property
    def n_times(self) -> int:
        """Times that there are states of, or, behind the first state, inputs."""
        states = 0 if self.states is None else len(self.states)
        return max(states, len(self.inputs)) if self.inputs.ndim == 3 else states

    @property
    def arrays(self) -> list[Array]:
        """All numbers."""
        every = [self.points, self.inputs, self.queries, self.parameters]
        return every + [a for a in (self.outputs, self.states) if a is not None]


@dataclass(frozen=True)
class PointData:
    """Samples with the same quantities."""

    samples: Sequence[Sample]
    layout: Layout
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Arrays of the files that nothing is made of, and why."""

    def __len__(self) -> int:
        return len(self.samples)

    def some(self, numbers: Sequence[int]) -> PointData:
        """Samples with these numbers."""
        return replace(self, samples=[self.samples[k] for k in numbers])

    def checksum(self) -> int:
        """CRC-32 of all numbers: tells whether a continued run sees the same data."""
        known: dict[int, int] = {}
        total = 0
        for sample in self.samples:
            for array in sample.arrays:
                if id(array) not in known:
                    known[id(array)] = zlib.crc32(np.ascontiguousarray(array).data)
                total = zlib.crc32(known[id(array)].to_bytes(4, "little"), total)
        return total

    @staticmethod
    def join(parts: Sequence[PointData]) -> PointData:
        """All samples of several; the first says which quantities there must be.

        Raises
        ------
        DataError
            One has others; the message names its first sample.
        """
        first = parts[0]
        for part in parts[1:]:
            if odd := first.layout.differences(part.layout):
                raise DataError(
                    f"{part.samples[0].source}: does not go with "
                    f"{first.samples[0].source} ({'; '.join(odd)})"
                )
        left_out = {name: why for part in reversed(parts) for name, why in part.left_out.items()}
        samples = [sample for part in parts for sample in part.samples]
        return PointData(samples, first.layout, left_out)


def _same(one: Any, other: Any) -> bool:
    """Whether two entries of layouts are the same, numbers but for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-3)
    return bool(one == other)


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and all(isinstance(item, Field) for item in value):
        return ", ".join(f"{f.name} ({f.width})" for f in value) or "none"
    if isinstance(value, float):
        return f"{value:.7g}"
    return "none" if value is None else str(value)

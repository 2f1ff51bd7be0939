# SPDX-License-Identifier: MIT
"""Samples of functions on points, the common form for files of all formats."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import edges_of
from gnograd.data.contents import DataError

__all__ = ["Field", "Layout", "PointData", "Sample"]

Array = NDArray[Any]


class Field(NamedTuple):
    """A named quantity."""

    name: str
    width: int
    """Number of components at a point."""


@dataclass(frozen=True)
class Layout:
    """Quantities in the columns of a sample's arrays, in order."""

    dimension: int
    """Dimension of space, 1 to 3."""
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    """Predicted quantities; in time stepping, the state."""
    parameters: tuple[Field, ...] = ()
    period: tuple[float, ...] | None = None
    """Lengths of a periodic box, 0 along axes that are not periodic."""
    in_time: bool = False
    """True if a state evolves in time."""
    apart: bool = False
    """True if outputs are on other points than inputs."""
    step: float | None = None
    """Time from one state to the next, if known."""

    def differences(self, other: Layout) -> list[str]:
        """Differences from another layout, in words."""
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

    Arrays that samples share are one array in memory.
    """

    points: Array
    """Points of the inputs, float64 (n, d)."""
    inputs: Array
    """Inputs, float32 (n, channels); in time stepping, if they change, (times, n, channels)."""
    queries: Array
    """Points of the outputs, float64 (m, d); `points` itself if they are the same."""
    outputs: Array | None
    """Outputs, float32 (m, channels); None if unknown."""
    parameters: Array
    """Parameters, the same at all points, float32 (p,)."""
    states: Array | None = None
    """States in time stepping, float32 (steps, n, channels)."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    """Cells of the mesh with the points `queries`, in meshio's form."""
    source: str = ""
    """File, and number of the sample in it, for messages."""
    times: Array | None = None
    """Times of the states, float64 (steps,), if known."""

    @property
    def edges(self) -> Array:
        """Pairs of points that an edge of a cell joins, int64 (n_edges, 2)."""
        return edges_of(self.cells)

    @property
    def n_times(self) -> int:
        """Number of times with states or, after a single state, with inputs."""
        states = 0 if self.states is None else len(self.states)
        return max(states, len(self.inputs)) if self.inputs.ndim == 3 else states

    @property
    def arrays(self) -> list[Array]:
        """All arrays."""
        every = [self.points, self.inputs, self.queries, self.parameters]
        return every + [a for a in (self.outputs, self.states) if a is not None]


@dataclass(frozen=True)
class PointData:
    """Samples with the same quantities."""

    samples: Sequence[Sample]
    layout: Layout
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Unused arrays of the files, with reasons."""
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Meaning of each axis of the arrays of the first file."""

    def __len__(self) -> int:
        return len(self.samples)

    def some(self, numbers: Sequence[int]) -> PointData:
        """Samples with these numbers."""
        return replace(self, samples=[self.samples[k] for k in numbers])

    @property
    def meshed(self) -> bool:
        """True if all samples have cells with edges, which no periodic border cuts."""
        if self.layout.apart or self.layout.period is not None:
            return False
        meshes = {id(s.cells): s for s in self.samples}.values()
        return all(len(s.edges) for s in meshes)

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
        """Join samples of several; all must have the quantities of the first.

        Raises
        ------
        DataError
            One has other quantities; the message names its first sample.
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
        return PointData(samples, first.layout, left_out, first.axes)


def _same(one: Any, other: Any) -> bool:
    """True if two entries of layouts are equal, for numbers up to rounding."""
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

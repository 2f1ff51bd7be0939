# SPDX-License-Identifier: MIT
"""Samples of functions on points, the common form for files of all formats."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import across, edges_of
from gnograd.data.contents import Centers, DataError
from gnograd.data.stored import Columns
from gnograd.data.units import same_unit

__all__ = ["Facts", "Field", "Layout", "Made", "PointData", "Sample"]

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
    units: Mapping[str, str] = field(default_factory=dict)
    """Units by the names of quantities, and of points, output points and times, where known."""

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
        ] + [
            f"'{name}' in {other.units[name]}, needs {unit}"
            for name, unit in self.units.items()
            if name in other.units and not same_unit(unit, other.units[name])
        ]


class Unmasked(NamedTuple):
    """Points that the outputs of a sample had before some were left out."""

    queries: Array
    keep: Array
    """Mask of those that are kept, bool (n,)."""
    cells: Mapping[str, Array]


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
    """States in time stepping, float32 (steps, n, channels). Of large data these, and inputs that
    change in time, are `Columns`, which are read time by time."""
    cells: Mapping[str, Array] = field(default_factory=dict)
    """Cells of the mesh with the points `queries`, in meshio's form."""
    source: str = ""
    """File, and number of the sample in it, for messages."""
    times: Array | None = None
    """Times of the states, float64 (steps,), if known."""
    centers: Centers | None = None
    """Mesh whose cells the queries, before a mask, are centers of, if they are."""
    unmasked: Unmasked | None = None
    """Queries before a mask left out some, if it did."""

    @property
    def edges(self) -> Array:
        """Pairs of points that an edge of a cell joins, int64 (n_edges, 2)."""
        return edges_of(self.cells)

    def edges_in(self, period: Sequence[float] | None) -> Array:
        """Edges of the mesh in a periodic box, across its border, too: int64 (n_edges, 2).

        There are none if, along a periodic axis, no cell crosses the border, nor ends on it in
        points on both sides.
        """
        edges = self.edges
        if period is None or not any(period) or not len(edges):
            return edges
        return across(edges, self.queries, period)

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


class Facts(NamedTuple):
    """Numbers of each sample, int64 (n_samples,), that are known without making it."""

    geometry: Array
    """Number of its points, queries and cells: samples that share these have the same."""
    points: Array
    """Number of its points."""
    queries: Array
    states: Array
    """Number of its states in time, or 0."""
    input_times: Array
    """Number of times of its inputs, 0 if they do not change in time."""

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Facts:
        """Facts of samples in memory."""
        known: dict[tuple[int, ...], int] = {}
        rows = [
            (
                known.setdefault((id(s.points), id(s.queries), id(s.cells)), len(known)),
                len(s.points),
                len(s.queries),
                0 if s.states is None else len(s.states),
                len(s.inputs) if s.inputs.ndim == 3 else 0,
            )
            for s in samples
        ]
        return cls(*np.array(rows, np.int64).reshape(-1, 5).T)

    def some(self, numbers: Sequence[int] | Array) -> Facts:
        """Facts of the samples with these numbers."""
        return Facts(*(column[numbers] for column in self))


class Made(Sequence[Sample]):
    """Samples that are made when they are asked for, since together they may exceed memory.

    Parameters
    ----------
    make : callable
        Makes the sample of a number. Points that samples share are one array.
    facts : Facts
        Facts of the samples `numbers`.
    numbers : ndarray, int64 (n_samples,), optional
        Numbers of the samples; all when left out.
    """

    def __init__(
        self, make: Callable[[int], Sample], facts: Facts, numbers: Array | None = None
    ) -> None:
        self._make, self.facts = make, facts
        self._numbers = np.arange(len(facts.points)) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, k: Any) -> Any:
        """Sample of a number, or samples of a slice."""
        if isinstance(k, slice):
            return self.some(np.arange(len(self))[k])
        return self._make(int(self._numbers[k]))

    def some(self, numbers: Sequence[int] | Array) -> Made:
        """Samples with these numbers."""
        return Made(self._make, self.facts.some(numbers), self._numbers[numbers])

    @classmethod
    def join(cls, parts: Sequence[Sequence[Sample]]) -> Made:
        """Samples of several sequences."""
        starts = np.cumsum([0, *map(len, parts)])
        every = [p.facts if isinstance(p, Made) else Facts.of(p) for p in parts]
        first = np.cumsum([0, *(f.geometry.max(initial=-1) + 1 for f in every)])
        columns = [np.concatenate(column) for column in zip(*every, strict=True)]
        columns[0] = columns[0] + np.repeat(first[:-1], np.diff(starts))

        def make(k: int) -> Sample:
            part = int(np.searchsorted(starts, k, side="right")) - 1
            return parts[part][k - int(starts[part])]

        return cls(make, Facts(*columns))


@dataclass(frozen=True)
class PointData:
    """Samples with the same quantities."""

    samples: Sequence[Sample]
    """A list, or for large data `Made`, which are not kept."""
    layout: Layout
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Unused arrays of the files, with reasons."""
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Meaning of each axis of the arrays of the first file."""
    found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results that have been computed of all samples."""

    def __len__(self) -> int:
        return len(self.samples)

    def some(self, numbers: Sequence[int]) -> PointData:
        """Samples with these numbers."""
        samples = self.samples
        if isinstance(samples, Made):
            return replace(self, samples=samples.some(numbers))
        return replace(self, samples=[samples[k] for k in numbers])

    @property
    def facts(self) -> Facts:
        """Numbers of each sample."""
        if isinstance(self.samples, Made):
            return self.samples.facts
        if "facts" not in self.found:
            self.found["facts"] = Facts.of(self.samples)
        facts: Facts = self.found["facts"]
        return facts

    def geometries(self) -> Iterator[Sample]:
        """Samples, one for all that share points, queries and cells, in their order."""
        _, first = np.unique(self.facts.geometry, return_index=True)
        for k in np.sort(first).tolist():
            yield self.samples[k]

    def clouds(self) -> Iterator[Array]:
        """Points of all samples; those that samples share come once."""
        known: dict[int, Array] = {}
        for sample in self.geometries():
            if id(sample.points) not in known:
                # arrays that are held have numbers of their own; of many, only the last one is
                known = {} if isinstance(self.samples, Made) else known
                known[id(sample.points)] = sample.points
                yield sample.points

    @property
    def same_points(self) -> bool:
        """True if all samples have one array of points."""
        if isinstance(self.samples, Made):
            return not (self.facts.geometry != self.facts.geometry[0]).any()
        return len({id(s.points) for s in self.samples}) == 1

    @property
    def meshed(self) -> bool:
        """True if all samples have cells with edges, in a periodic box also across its border."""
        if self.layout.apart:
            return False
        return all(len(s.edges_in(self.layout.period)) for s in self.geometries())

    def checksum(self) -> int:
        """CRC-32 of all numbers: tells whether a continued run sees the same data."""
        known: dict[int, int] = {}
        kept = not isinstance(self.samples, Made)  # otherwise numbers of arrays come again
        total = 0
        for sample in self.samples:
            for array in sample.arrays:
                if not kept or id(array) not in known:
                    known[id(array)] = _checksum(array)
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
        first, layout = parts[0], parts[0].layout
        for part in parts[1:]:
            if odd := layout.differences(part.layout):
                raise DataError(
                    f"{part.samples[0].source}: does not go with "
                    f"{first.samples[0].source} ({'; '.join(odd)})"
                )
            layout = replace(layout, units={**part.layout.units, **layout.units})
        if len(parts) == 1:
            return first
        left_out = {name: why for part in reversed(parts) for name, why in part.left_out.items()}
        samples: Sequence[Sample]
        if any(isinstance(part.samples, Made) for part in parts):
            samples = Made.join([part.samples for part in parts])
        else:
            samples = [sample for part in parts for sample in part.samples]
        return PointData(samples, layout, left_out, first.axes)


def _checksum(array: Array | Columns) -> int:
    total = 0
    for part in array.blocks() if isinstance(array, Columns) else [array]:
        total = zlib.crc32(np.ascontiguousarray(part).data, total)
    return total


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

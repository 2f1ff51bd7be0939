# SPDX-License-Identifier: MIT
"""Samples without the points that have no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import part_of
from gnograd.data.contents import Contents, DataError
from gnograd.data.roles import Mask
from gnograd.data.samples import Sample, Unmasked
from gnograd.data.stored import Columns, blocks

__all__ = ["Fill", "Masking", "extremes", "fill_in", "fill_value"]

Array = NDArray[Any]

_FILLS = np.array(
    [99, 999, 9999, 99999, 32767, 32768, 1e10, 1e15, 1e20, 1e30, 1e35, 1e36, 9.969209968386869e36,
     1e37, np.finfo(np.float32).max],
    np.float32,
)  # fmt: skip
"""Magnitudes of what programs write where there is no data; 9.97e36 is NetCDF's own."""
_BEYOND = 10
"""Ratio to the largest of the other numbers from which on such a number is doubtful."""
_CHANNELS = 8
"""Length of a last axis up to which each of its columns is looked at by itself."""


class Fill(NamedTuple):
    """Number that seems to mark where there is no data."""

    value: float
    places: int
    others: float
    """Largest magnitude of the other numbers."""


def extremes(array: Array, known: bool, fills: Sequence[float] = ()) -> tuple[Array, Array]:
    """Least and largest numbers, as float32, of an array, or of each of a few channels.

    Parameters
    ----------
    array : ndarray
    known : bool
        Whether every number is one: then one that is not finite, or not in float32, is seen in the
        result. Otherwise NaN is passed over.
    fills : sequence of float
        Numbers that are passed over as NaN is.
    """
    n = array.shape[-1] if array.ndim > 1 and array.shape[-1] <= _CHANNELS else 1
    lower, higher = (np.minimum, np.maximum) if known else (np.fmin, np.fmax)
    least, most = np.full(n, np.inf, np.float32), np.full(n, -np.inf, np.float32)
    for part in _columns(array, n, fills):
        lower(least, lower.reduce(part), out=least)
        higher(most, higher.reduce(part), out=most)
    return least, most


def fill_value(array: Array, ends: tuple[Array, Array], fills: Sequence[float] = ()) -> Fill | None:
    """Usual fill value that an array, or a channel of it, has more than once, far from all else.

    Parameters
    ----------
    array : ndarray
    ends : pair of ndarray
        Its `extremes`.
    fills : sequence of float
        Numbers that are known to be no data.
    """
    found = _column_with_fill(lambda: _columns(array, len(ends[0]), fills), ends)
    return None if found is None else found[1]


def fill_in(samples: Sequence[Sample], role: str) -> tuple[int, Fill] | None:
    """Column of the inputs, outputs or states of samples with a usual fill value, and that value.

    Parameters
    ----------
    samples : sequence of Sample
    role : {"inputs", "outputs", "states"}
    """

    def columns() -> Iterator[Array]:
        seen: Any = None
        for sample in samples:
            array = getattr(sample, role)
            if array is None or not array.shape[-1] or array is seen:  # shared ones count once
                continue
            seen = array
            for part in array.blocks() if isinstance(array, Columns) else [array]:
                yield part.reshape(-1, array.shape[-1])

    least: Any = np.inf
    most: Any = -np.inf
    for part in columns():
        least = np.fmin(least, np.fmin.reduce(part))
        most = np.fmax(most, np.fmax.reduce(part))
    return _column_with_fill(columns, (np.atleast_1d(least), np.atleast_1d(most)))


def _column_with_fill(
    columns: Callable[[], Iterator[Array]], ends: tuple[Array, Array]
) -> tuple[int, Fill] | None:
    """Number of a column that has a usual fill value at one of its ends, and that value."""
    for end in ends:
        for k in np.flatnonzero(np.isin(np.abs(end), _FILLS)):
            count, rest, others = 0, 0, np.float32(0)
            for part in columns():
                column = part[:, k]
                there = column == end[k]
                count += int(there.sum())
                known = column[~there & ~np.isnan(column)]
                rest += known.size
                others = np.fmax.reduce(np.abs(known), initial=others)
            if count > 1 and rest and _BEYOND * others <= abs(end[k]):
                return int(k), Fill(float(end[k]), count, float(others))
    return None


def _columns(array: Array, n: int, fills: Sequence[float]) -> Iterator[Array]:
    """Parts of an array as float32 (rows, n), some megabytes at a time; fill values as NaN."""
    for _, part in blocks(array):
        with np.errstate(over="ignore"):
            numbers = part.astype(np.float32, copy=False).reshape(-1, n)
        for fill in fills:
            numbers = np.where(numbers == np.float32(fill), np.float32(np.nan), numbers)
        yield numbers


class Masking:
    """Removal of points from the samples of a file; what samples share stays shared.

    Parameters
    ----------
    contents : Contents
    mask : Mask
    """

    def __init__(self, contents: Contents, mask: Mask) -> None:
        self.contents, self.mask = contents, mask
        self._parts: dict[tuple[int, bytes], Any] = {}

    def kept(self, samples: Sequence[tuple[Sample, Array | None]]) -> list[Sample]:
        """Samples with the points that have data.

        Parameters
        ----------
        samples : sequence of (Sample, ndarray or None)
            With the field (n, 1) of the mask, which is 0 at points without data, or None.

        Raises
        ------
        DataError
            A sample has no point left, or numbers that are not finite.
        """
        return [self._kept(*each) for each in samples]

    def _kept(self, sample: Sample, mask: Array | None) -> Sample:
        same = sample.queries is sample.points
        here = [a for a in (sample.inputs, sample.states) if a is not None]
        there = [] if sample.outputs is None else [sample.outputs]
        keep = self._known(here + (there if same else []), len(sample.points))
        if mask is not None:
            known = mask.reshape(len(mask), -1)
            if known.shape[1] != 1 or not np.isfinite(known).all():
                raise DataError(f"{sample.source}: the mask needs one finite number a point")
            keep &= known[:, 0] != 0
        asked = keep if same else self._known(there, len(sample.queries))
        if not keep.any() or not asked.any():
            raise DataError(f"{sample.source}: no point has data")
        points = self._rows(sample.points, keep)
        cells = sample.cells
        if cells and not asked.all():
            key = id(cells), asked.tobytes()
            cells = self._parts.setdefault(key, part_of(cells, asked))
        made = replace(
            sample,
            points=points,
            inputs=self._rows(sample.inputs, keep),
            queries=points if same else self._rows(sample.queries, asked),
            outputs=None if sample.outputs is None else self._rows(sample.outputs, asked),
            states=None if sample.states is None else self._rows(sample.states, keep),
            cells=cells,
            unmasked=None if asked.all() else Unmasked(sample.queries, asked, sample.cells),
        )
        if not all(np.isfinite(array).all() for array in made.arrays):
            raise DataError(f"{sample.source}: is not finite at points that the mask keeps")
        return made

    def _rows(self, array: Array, keep: Array) -> Array:
        """Rows of an array, the last axis but one."""
        if keep.all():
            return array
        key = id(array), keep.tobytes()
        if key not in self._parts:
            self._parts[key] = np.ascontiguousarray(array[..., keep, :])
        found: Array = self._parts[key]
        return found

    def _known(self, arrays: Sequence[Array], n: int) -> Array:
        """Points at which all of some fields, at all times, have data, but for the mask's field."""
        keep = np.ones(n, bool)
        for array in arrays if self.mask.missing else ():
            bad = ~np.isfinite(array)
            for fill in self.mask.fills:
                bad |= array == np.float32(fill)
            keep &= ~bad.any(axis=-1).reshape(-1, n).any(axis=0)
        return keep

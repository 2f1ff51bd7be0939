# SPDX-License-Identifier: MIT
"""Samples without the points that have no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.cells import part_of
from gnograd.data.contents import Contents, DataError
from gnograd.data.samples import Sample, Unmasked

__all__ = ["Masking"]

Array = NDArray[Any]


class Masking:
    """Removal of points from the samples of a file; what samples share stays shared.

    Parameters
    ----------
    contents : Contents
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._parts: dict[tuple[int, bytes], Any] = {}

    def kept(self, samples: Sequence[tuple[Sample, Array | None]]) -> list[Sample]:
        """Samples with the points that have data.

        Parameters
        ----------
        samples : sequence of (Sample, ndarray or None)
            With a field (n, 1) that is 0 at points without data, whatever other fields are there;
            or None for points where all fields, at all times, are finite.

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
        if mask is not None:
            known = mask.reshape(len(mask), -1)
            if known.shape[1] != 1 or not np.isfinite(known).all():
                raise DataError(f"{sample.source}: the mask needs one finite number a point")
            keep = known[:, 0] != 0
            asked = keep if same else np.ones(len(sample.queries), bool)
        else:
            keep = _finite(here + (there if same else []), len(sample.points))
            asked = keep if same else _finite(there, len(sample.queries))
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


def _finite(arrays: Sequence[Array], n: int) -> Array:
    keep = np.ones(n, bool)
    for array in arrays:
        bad = ~np.isfinite(array).all(axis=-1)
        keep &= ~bad.reshape(-1, n).any(axis=0)
    return keep

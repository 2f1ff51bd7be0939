# SPDX-License-Identifier: MIT
"""Means and deviations of the columns of data, and constant columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.samples import Field, PointData

__all__ = ["ROUNDING", "Statistics", "statistics", "still"]

Array = NDArray[Any]

ROUNDING = 1e-6
"""Deviation that counts as rounding of float32, relative to the largest component of the field."""


class Statistics(NamedTuple):
    """Statistics of the columns of one array, float64 (channels,) each."""

    mean: Array
    std: Array
    """Standard deviation; for states in time, as the mean, of their changes in a step."""
    scale: Array
    """Root of the mean square of the largest component of the field that a column belongs to."""

    @property
    def constant(self) -> Array:
        """Mask of the columns that only vary by rounding, bool (channels,)."""
        return np.asarray(self.std <= ROUNDING * self.scale)


def statistics(data: PointData) -> dict[str, Statistics]:
    """Statistics of ``"input"``, ``"parameter"`` and ``"output"``.

    In time stepping the state is an input, too, in the last columns, and outputs are its changes.
    """
    layout, samples = data.layout, data.samples
    states = [s.states for s in samples if s.states is not None]
    # inputs for all times count once a time
    times = [1 if s.states is None or s.inputs.ndim == 3 else len(s.states) for s in samples]
    inputs = _measured([s.inputs for s in samples], layout.inputs, times)
    if layout.in_time:
        changes = _measured([np.diff(u, axis=0) for u in states], layout.outputs)
        state = _measured(states, layout.outputs)
        inputs = Statistics(*map(np.concatenate, zip(inputs, state, strict=True)))
        outputs = changes._replace(scale=state.scale)
    else:
        outputs = _measured([s.outputs for s in samples if s.outputs is not None], layout.outputs)
    parameters = _measured([s.parameters[None] for s in samples], layout.parameters)
    return {"input": inputs, "parameter": parameters, "output": outputs}


def _measured(
    arrays: Sequence[Array], fields: Sequence[Field], times: Sequence[int] | None = None
) -> Statistics:
    """Statistics of rows, each with a number of times that it counts."""
    width = sum(f.width for f in fields)
    rows = [array.reshape(array.size // max(width, 1), width) for array in arrays]
    counts = [1] * len(rows) if times is None else times
    n = max(1, sum(k * len(r) for k, r in zip(counts, rows, strict=True)))
    mean, square = np.zeros(width), np.zeros(width)
    for k, r in zip(counts, rows, strict=True):
        mean += k * r.sum(axis=0, dtype=np.float64)
    mean /= n
    for k, r in zip(counts, rows, strict=True):
        square += k * np.square(r - mean, dtype=np.float64).sum(axis=0)
    square /= n
    return Statistics(mean, np.sqrt(square), _by_field(np.sqrt(mean**2 + square), fields))


def _by_field(values: Array, fields: Sequence[Field]) -> Array:
    """The largest value of a field, for each of its components."""
    ends = np.cumsum([f.width for f in fields])[:-1]
    parts = np.split(values, ends) if fields else []
    return np.concatenate([np.zeros(0), *(np.full(len(p), p.max(initial=0)) for p in parts)])


def still(data: PointData) -> list[str]:
    """Notes on columns that do not vary, and so carry no information."""
    found = statistics(data)
    layout, words = data.layout, []
    for name, fields in (
        ("input", layout.inputs), ("parameter", layout.parameters), ("output", layout.outputs),
    ):  # fmt: skip
        numbers, start = found[name], 0
        in_time = name == "output" and layout.in_time
        for field in fields:
            for k in np.flatnonzero(numbers.constant[start : start + field.width]):
                column = start + int(k)
                which = f"{field.name} ({field.width})"
                which += f": component {k}" if field.width > 1 else ":"
                words.append(f"{which} {_in_words(numbers, column, in_time)}{_END[name]}")
            start += field.width
    return words


_END = {
    "input": ", and tells nothing",
    "parameter": ", and tells nothing",
    "output": "; given back as it is, in no loss and no error",
}


def _in_words(numbers: Statistics, column: int, in_time: bool) -> str:
    mean, std = numbers.mean[column], numbers.std[column]
    if in_time:
        text = f"changes by {mean:.4g} in every step" if mean else "does not change in time"
        if abs(mean) <= ROUNDING * numbers.scale[column]:
            text = "does not change in time"
    else:
        small = abs(mean) <= ROUNDING * numbers.scale[column]
        text = f"is {0.0 if small else mean:.4g} everywhere"
    if std:
        text += f" but for rounding ({std:.1g}; {ROUNDING:g} of the field's largest component)"
    return text

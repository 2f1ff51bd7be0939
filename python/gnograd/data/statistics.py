# SPDX-License-Identifier: MIT
"""Means and deviations of the columns of data, and constant columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnograd.data.samples import Field, Layout, PointData, Sample
from gnograd.data.stored import LARGE, Columns

__all__ = ["ROUNDING", "Statistics", "Target", "statistics", "still", "target"]

Array = NDArray[Any]

_KINDS = ("input", "parameter", "output")

ROUNDING = 1e-6
"""Deviation that counts as rounding of float32, relative to the largest component of the field."""

_EPS = float(np.finfo(np.float32).eps) / 2
_LOST = 0.01
"""Rounding of float32, relative to the deviation, from which on it is told."""

NEAR = 0.5
"""Deviation of the differences from an input below which these are learned, relative to that of the
outputs; what is nearer to its input than to its mean at all."""


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


class Target(NamedTuple):
    """Outputs of some data, or their differences from inputs, as a model learns them."""

    adds: int | None
    """First of the input columns that its results are added to, one for each output; None if
    results are the outputs."""
    ratio: float | None
    """Deviation of the differences from these columns, relative to that of the outputs, or of
    those that were looked at; None if there are no columns of this form."""
    statistics: Statistics
    """Statistics of the differences, or of the outputs."""


def target(data: PointData) -> Target:
    """Choose between outputs and their differences from inputs, by which vary less.

    A state in time is an input of the next one: its changes are learned unless they vary more than
    the state. In other data an input counts that has the form of the outputs.
    """
    statistics(data)
    found: Target = data.found["target"]
    return found


def statistics(data: PointData) -> dict[str, Statistics]:
    """Statistics of ``"input"``, ``"parameter"`` and ``"output"``, computed once.

    In time stepping the state is an input, too, in the last columns, and outputs are its changes.
    """
    if "statistics" not in data.found:
        data.found["statistics"], data.found["target"] = _measured(data)
    found: dict[str, Statistics] = data.found["statistics"]
    return found


def _alike(layout: Layout) -> list[int]:
    """First columns of inputs that have the form of the outputs, not in time."""
    if layout.in_time or layout.apart:
        return []
    ends = np.cumsum([0, *(f.width for f in layout.inputs)]).tolist()
    form, n = [f.width for f in layout.outputs], len(layout.outputs)
    widths = [f.width for f in layout.inputs]
    return [ends[k] for k in range(len(widths) - n + 1) if widths[k : k + n] == form]


def _target(layout: Layout, found: Mapping[str, Statistics], first: Sequence[int]) -> Target:
    """Choose among outputs, changes in time, and differences from some columns."""
    outputs = found["output"]
    if layout.in_time:
        start = sum(f.width for f in layout.inputs)
        state = Statistics(*(numbers[start:] for numbers in found["input"]))
        moves = ~outputs.constant
        ratio = _ratio(outputs.std[moves], state.std[moves])
        # what is still in time is given back as it is, which only changes can
        if ratio <= 1 or not moves.all():
            return Target(start, ratio, outputs)
        return Target(None, ratio, state)
    best = Target(None, None, outputs)
    for k in first:
        ratio = _ratio(found[f"difference {k}"].std, outputs.std)
        if best.ratio is None or ratio < best.ratio:
            best = Target(k, ratio, found[f"difference {k}"])
    if best.ratio is None or best.ratio >= NEAR:
        return Target(None, best.ratio, outputs)
    return best


def _ratio(one: Array, other: Array) -> float:
    """Root of the mean square of ratios; infinity where something is divided by 0."""
    both = (one > 0) | (other > 0)
    if not both.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return float(np.sqrt(np.mean(np.square(one[both] / other[both]))))


def _measured(data: PointData) -> tuple[dict[str, Statistics], Target]:
    layout, first = data.layout, _alike(data.layout)
    fields = {"input": layout.inputs, "output": layout.outputs, "parameter": layout.parameters}
    fields |= {"state": layout.outputs} if layout.in_time else {}
    fields |= {f"difference {k}": layout.outputs for k in first}
    widths = {kind: sum(f.width for f in of_kind) for kind, of_kind in fields.items()}
    mean = {kind: np.zeros(width) for kind, width in widths.items()}
    square = {kind: np.zeros(width) for kind, width in widths.items()}
    n = dict.fromkeys(fields, 0)
    for sample in data.samples:
        for kind, rows, times in _rows(sample, widths, first):
            mean[kind] += times * rows.sum(axis=0, dtype=np.float64)
            n[kind] += times * len(rows)
    for kind in fields:
        mean[kind] /= max(1, n[kind])
    for sample in data.samples:
        for kind, rows, times in _rows(sample, widths, first):
            square[kind] += times * np.square(rows - mean[kind], dtype=np.float64).sum(axis=0)
    found = {}
    for kind, of_kind in fields.items():
        variance = square[kind] / max(1, n[kind])
        scale = _by_field(np.sqrt(mean[kind] ** 2 + variance), of_kind)
        found[kind] = Statistics(mean[kind], np.sqrt(variance), scale)
    if layout.in_time:
        state = found.pop("state")
        found["output"] = found["output"]._replace(scale=state.scale)
        both = zip(found["input"], state, strict=True)
        found["input"] = Statistics(*map(np.concatenate, both))
    return {name: found[name] for name in _KINDS}, _target(layout, found, first)


def _rows(
    sample: Sample, widths: Mapping[str, int], first: Sequence[int]
) -> Iterator[tuple[str, Array, int]]:
    """Rows of each kind, and how many times these count; large arrays in parts."""
    inputs, states = sample.inputs, sample.states
    # inputs for all times count once a time
    times = 1 if states is None or inputs.ndim == 3 else len(states)
    for part in _in_blocks(inputs):
        yield "input", _as_rows(part, widths["input"]), times
    yield "parameter", sample.parameters[None], 1
    if states is None:
        for part in [] if sample.outputs is None else _in_blocks(sample.outputs):
            yield "output", part, 1
        if sample.outputs is not None:
            for k in first:
                step = max(1, LARGE // (4 * max(1, inputs.shape[1])))
                for start in range(0, len(inputs), step):
                    some = slice(start, start + step)
                    near = np.asarray(inputs[some, k : k + widths["output"]])
                    yield f"difference {k}", np.asarray(sample.outputs[some]) - near, 1
        return
    for part in _in_blocks(states, 1):
        yield "output", _as_rows(np.diff(part, axis=0), widths["output"]), 1
    for part in _in_blocks(states):
        yield "state", _as_rows(part, widths["state"]), 1


def _in_blocks(array: Array | Columns, overlap: int = 0) -> Iterator[Array]:
    if isinstance(array, Columns):
        yield from array.blocks(overlap)
    elif array.nbytes <= LARGE or array.ndim == 3:
        yield array
    else:
        step = max(1, LARGE // (4 * array.shape[1]))
        yield from (array[start : start + step] for start in range(0, len(array), step))


def _as_rows(array: Array, width: int) -> Array:
    return array.reshape(array.size // max(width, 1), width)


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
            part = slice(start, start + field.width)
            with np.errstate(divide="ignore", invalid="ignore"):
                lost = _EPS * np.abs(numbers.mean[part]) / numbers.std[part]
            some = lost[(lost > _LOST) & ~numbers.constant[part]]
            if len(some) and not in_time:
                words.append(
                    f"{field.name} ({field.width}): float32 rounds it by up to {some.max():.1g} of "
                    "its deviation; subtract a constant from it in the files"
                )
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
        text = f"is {0.0 if small else mean:.4g} everywhere{'' if small else ' in float32'}"
    if std:
        text += f" but for rounding ({std:.1g}; {ROUNDING:g} of the field's largest component)"
    return text

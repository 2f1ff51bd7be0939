# SPDX-License-Identifier: MIT
"""Split of samples for training and validation."""

import math
from dataclasses import replace

from gnograd.cli.config import Preparation
from gnograd.cli.random_streams import Stream, generator
from gnograd.data import DataError, PointData, Sample

__all__ = ["split"]


def split(data: PointData, config: Preparation) -> tuple[PointData, PointData]:
    """Samples for training, and held-out ones; of a single trajectory, its last times."""
    n = len(data)
    if n == 1 and (states := data.samples[0].states) is not None and len(states) > 3:
        first = min(max(2, math.floor((1 - config.held_out) * len(states))), len(states) - 1)
        a, b = (_in_times(data.samples[0], part) for part in (slice(first), slice(first - 1, None)))
        return replace(data, samples=[a]), replace(data, samples=[b])
    if n == 1:
        wide = [f for f in data.layout.inputs + data.layout.outputs if f.width > 3]
        shape = f"({len(data.samples[0].points)}, {wide[0].width})" if wide else ""
        raise DataError(
            f"{data.samples[0].source}: is one sample, from which none can be held out; give more, "
            "or others with --validation"
            + (f" ('{wide[0].name}' {shape} is {wide[0].width} channels of it; if these are "
               "samples, transpose it)" if wide else "")
        )  # fmt: skip
    order = generator(config.seed, Stream.EVALUATION).permutation(n).tolist()
    held = min(max(1, round(config.held_out * n)), n - 1)
    return data.some(sorted(order[held:])), data.some(sorted(order[:held]))


def _in_times(sample: Sample, part: slice) -> Sample:
    """Part of a trajectory."""
    assert sample.states is not None
    return replace(
        sample,
        states=sample.states[part],
        inputs=sample.inputs[part] if sample.inputs.ndim == 3 else sample.inputs,
        times=None if sample.times is None else sample.times[part],
    )

# SPDX-License-Identifier: MIT
"""Picture of a sample: every component of its inputs and outputs at its points."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from gnograd.cli.files import atomic
from gnograd.data import PointData
from gnograd.notation.text import printable

__all__ = ["draw"]

Array = npt.NDArray[Any]

_MOST = 12
"""Largest number of panels."""


def draw(data: PointData, path: Path) -> None:
    """Write a picture of the first sample.

    Parameters
    ----------
    data : gnograd.data.PointData
    path : pathlib.Path
        File ``.png``, ``.pdf`` or ``.svg``.

    Raises
    ------
    JobError
        The file cannot be written.
    """
    panels = _panels(data)
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.4 * columns, 0.4 + 2.9 * rows), layout="constrained")
    figure.suptitle(_plain(data.samples[0].source), fontsize=9)
    for (title, points, values), axes in zip(
        panels, figure.subplots(rows, columns, squeeze=False).flat, strict=False
    ):
        if points.shape[1] == 1:
            order = np.argsort(points[:, 0])
            axes.plot(points[order, 0], values[order], ".-", markersize=3, linewidth=1)
        else:
            shown = np.sort(np.argsort(np.ptp(points, axis=0))[-2:])
            x, y = points[:, shown].T
            size = float(np.clip(4000 / len(x), 0.5, 30.0))
            image = axes.scatter(x, y, c=values, s=size, linewidths=0)
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04)
            axes.set_aspect("equal")
            axes.set_ylabel("xyz"[shown[1]])
        axes.set_xlabel("x" if points.shape[1] == 1 else "xyz"[shown[0]])
        axes.set_title(_plain(title), fontsize=9)
    for axes in figure.axes[len(panels) :]:
        axes.set_visible(bool(axes.has_data()))
    with atomic(path) as stream:
        figure.savefig(stream, format=path.suffix[1:].lower(), dpi=110)


def _panels(data: PointData) -> list[tuple[str, Array, Array]]:
    """Title, points and values of each panel."""
    sample, layout = data.samples[0], data.layout
    inputs = sample.inputs[0] if sample.inputs.ndim == 3 else sample.inputs
    known = [("input", layout.inputs, sample.points, inputs)]
    if sample.states is not None:
        for when, state in (("first", sample.states[0]), ("last", sample.states[-1])):
            known.append((f"state, {when} time", layout.outputs, sample.points, state))
    elif sample.outputs is not None:
        known.append(("output", layout.outputs, sample.queries, sample.outputs))
    panels = []
    for role, fields, points, values in known:
        start = 0
        for field in fields:
            for k in range(field.width):
                name = f"{field.name}, component {k}" if field.width > 1 else field.name
                panels.append((f"{name} ({role})", points, values[:, start + k]))
            start += field.width
    return panels[:_MOST]


def _plain(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return printable(text).replace("$", r"\$")

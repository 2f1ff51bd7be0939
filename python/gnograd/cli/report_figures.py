# SPDX-License-Identifier: MIT
"""Pictures of the report on a training, as SVG or PNG embedded in a page."""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from gnograd.cli.log import Epoch, measured

__all__ = ["course", "errors_by_resolution", "errors_by_sample", "example"]

Array = npt.NDArray[Any]


def course(history: Sequence[Epoch], best_epoch: int) -> str:
    """Loss, held-out error and learning rate by epoch."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    epochs = [row.epoch for row in history]
    left.semilogy(epochs, [row.loss for row in history], label="training loss", linewidth=1)
    held_out = measured(history)
    left.semilogy(*held_out, "o-", markersize=2.5, linewidth=1, label="held-out error")
    if best_epoch:
        left.axvline(best_epoch, color="0.5", linestyle=":", label=f"best epoch, {best_epoch}")
    left.legend(frameon=False)
    right.plot(epochs, [row.learning_rate for row in history], linewidth=1)
    right.set_ylim(bottom=0)
    right.set_ylabel("learning rate")
    right.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3, which="major")
    return _svg(figure, "training loss, held-out error and learning rate by epoch")


def errors_by_sample(sets: Sequence[Mapping[str, Any]]) -> str:
    """Sorted errors of all samples, a curve for each set."""
    figure = Figure(figsize=(4.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for each in sets:
        errors = np.sort([sample["error"] for sample in each["samples"]])
        part = (np.arange(len(errors)) + 0.5) / len(errors)
        axes.plot(100 * part, errors, "o-", markersize=3, linewidth=1, label=each["name"])
    axes.set_xlabel("samples with a smaller error / %")
    axes.set_ylabel("relative L2 error")
    axes.set_xlim(0, 100)
    _finish(axes, sets)
    return _svg(figure, "errors of all samples, sorted")


def errors_by_resolution(sets: Sequence[Mapping[str, Any]]) -> str:
    """Errors of all samples by their numbers of points."""
    figure = Figure(figsize=(4.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for each in sets:
        points = [sample["points"] for sample in each["samples"]]
        errors = [sample["error"] for sample in each["samples"]]
        axes.plot(points, errors, "o", markersize=4, alpha=0.7, label=each["name"])
    axes.set_xlabel("points of a sample")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_ylabel("relative L2 error")
    _finish(axes, sets)
    return _svg(figure, "errors of all samples by their numbers of points")


def _finish(axes: Axes, sets: Sequence[Mapping[str, Any]]) -> None:
    """Set the axis of errors to begin at zero, with room for the legend above all points."""
    finite = [s["error"] for each in sets for s in each["samples"] if np.isfinite(s["error"])]
    axes.set_ylim(0, (1.1 + 0.1 * len(sets)) * max([*finite, 1e-12]))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left", fontsize=9)


def example(
    name: str,
    points: Array,
    truth: Array,
    prediction: Array,
    cells: Array | None = None,
) -> str:
    """A field, its prediction, and the difference, on one sample.

    Parameters
    ----------
    name : str
        Name of the field.
    points : ndarray, (n, d)
        Points; in three dimensions the view shows the two longest axes.
    truth, prediction : ndarray, (n,)
    cells : ndarray, (n_cells, 3), optional
        Triangles of a mesh in the plane.
    """
    if points.shape[1] == 1:
        return _curves(name, points[:, 0], truth, prediction)
    shown = np.sort(np.argsort(np.ptp(points, axis=0))[-2:])
    x, y = points[:, shown].T
    if points.shape[1] == 3:  # points in front are drawn last
        (depth,) = {0, 1, 2} - set(shown.tolist())
        order = np.argsort(points[:, depth])
        x, y, truth, prediction = x[order], y[order], truth[order], prediction[order]
        cells = None
    height = 2.2 * np.ptp(y) / (np.ptp(x) or 1.0)  # aspect ratio of the points
    size = 10, float(np.clip(height, 0.6, 5.0)) + 0.8
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.05))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    error = prediction - truth
    low, high = min(truth.min(), prediction.min()), max(truth.max(), prediction.max())
    worst = float(np.abs(error).max()) or 1.0
    fields = ((f"{name}, data", truth), (f"{name}, predicted", prediction), ("difference", error))
    for axes, (title, values) in zip(panels, fields, strict=True):
        limits = {"vmin": low, "vmax": high, "cmap": "viridis"}
        if values is error:
            limits = {"vmin": -worst, "vmax": worst, "cmap": "RdBu_r"}
        image = _draw(axes, x, y, values, cells, limits)
        axes.set_title(title, fontsize=10)
        axes.set_aspect("equal")
        axes.set_xlabel("xyz"[shown[0]])
        formatter = ScalarFormatter(useMathText=True)
        formatter.set_powerlimits((-2, 3))
        figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04, format=formatter)
    panels[0].set_ylabel("xyz"[shown[1]])
    return _png(figure, f"{name}: data, prediction, difference")


def _draw(
    axes: Axes, x: Array, y: Array, values: Array, cells: Array | None, limits: dict[str, Any]
) -> Any:
    if cells is None:
        size = float(np.clip(6000 / len(x), 1.0, 40.0))
        return axes.scatter(x, y, c=values, s=size, linewidths=0, **limits)
    return axes.tripcolor(x, y, values, triangles=cells, shading="gouraud", **limits)


def _curves(name: str, x: Array, truth: Array, prediction: Array) -> str:
    order = np.argsort(x)
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(x[order], truth[order], label="data")
    left.plot(x[order], prediction[order], ":", linewidth=2.5, label="predicted")
    left.set_ylabel(name)
    left.legend(frameon=False)
    right.plot(x[order], (prediction - truth)[order], color="tab:red")
    right.set_ylabel("difference")
    for axes in (left, right):
        axes.set_xlabel("x")
        axes.grid(alpha=0.3)
    return _svg(figure, f"{name}: data, prediction, difference")


def _svg(figure: Figure, what: str) -> str:
    """Lines as an element of a page; the same bytes every time."""
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "gnograd", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    data = base64.b64encode(text.getvalue().encode()).decode()
    return f'<img class="lines" alt="{escape(what)}" src="data:image/svg+xml;base64,{data}">'


def _png(figure: Figure, what: str) -> str:
    """Colours as an element of a page."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110, bbox_inches="tight", pad_inches=0.05)
    data = base64.b64encode(stream.getvalue()).decode()
    return f'<img alt="{escape(what)}" src="data:image/png;base64,{data}">'

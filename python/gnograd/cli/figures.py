# SPDX-License-Identifier: MIT
"""The picture that each training job leaves behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from gnograd.cli.checkpoint import Epoch
from gnograd.cli.files import atomic

Array = npt.NDArray[Any]


def darcy(
    path: Path,
    coefficient: Array,
    truth: Array,
    prediction: Array,
    history: Sequence[Epoch],
) -> None:
    """Draw one sample, its prediction and error, and the loss curve.

    Parameters
    ----------
    path : pathlib.Path
        PNG file.
    coefficient, truth, prediction : ndarray, shape (grid, grid)
        First axis is x.
    history : sequence of Epoch
    """
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    panels = figure.subplot_mosaic([["a", "u", "v"], ["e", "l", "l"]])
    two_values = len(np.unique(coefficient)) == 2
    _field(panels["a"], "coefficient a", coefficient, cmap="Greys" if not two_values else TWO_TONE)
    low, high = min(truth.min(), prediction.min()), max(truth.max(), prediction.max())
    _field(panels["u"], "solution u", truth, cmap="viridis", vmin=low, vmax=high)
    _field(panels["v"], "prediction", prediction, cmap="viridis", vmin=low, vmax=high)
    error = prediction - truth
    relative = np.linalg.norm(error) / np.linalg.norm(truth)
    worst = np.abs(error).max()
    _field(
        panels["e"],
        f"prediction - solution, {relative:.1%} in L2",
        error,
        cmap="RdBu_r",
        vmin=-worst,
        vmax=worst,
    )
    _loss(panels["l"], "relative L2 error", history)
    _save(figure, path)


def green(
    path: Path, points: Array, exact: Array, learned: Array, history: Sequence[Epoch]
) -> None:
    """Draw the exact and the learned Green's function, sections, and the loss curve.

    Parameters
    ----------
    path : pathlib.Path
        PNG file.
    points : ndarray, shape (n,)
    exact, learned : ndarray, shape (n, n)
        First axis is x, second is y.
    history : sequence of Epoch
    """
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    panels = figure.subplot_mosaic([["g", "k", "e"], ["s", "l", "l"]])
    low, high = min(exact.min(), learned.min()), max(exact.max(), learned.max())
    _field(panels["g"], "exact G(x, y)", exact, cmap="viridis", vmin=low, vmax=high)
    _field(panels["k"], "learned kernel", learned, cmap="viridis", vmin=low, vmax=high)
    error = learned - exact
    relative = np.linalg.norm(error) / np.linalg.norm(exact)
    worst = np.abs(error).max()
    _field(
        panels["e"],
        f"learned - exact, {relative:.2%} in L2",
        error,
        cmap="RdBu_r",
        vmin=-worst,
        vmax=worst,
    )
    sections = panels["s"]
    for x in (0.25, 0.5, 0.75):
        row = int(np.abs(points - x).argmin())
        (line,) = sections.plot(points, exact[row], label=f"x = {points[row]:.2f}")
        sections.plot(points, learned[row], linestyle=":", linewidth=3, color=line.get_color())
    sections.set_title("sections: exact (lines), learned (dots)")
    sections.set_xlabel("y")
    sections.legend(frameon=False)
    _loss(panels["l"], "relative L2 error of u", history)
    _save(figure, path)


TWO_TONE = ListedColormap(["#f1ede4", "#5b7c99"])
"""Low, high permeability."""


def _field(axes: Axes, title: str, values: Array, **style: Any) -> None:
    image = axes.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), **style)
    axes.set_title(title)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    assert axes.figure is not None
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-2, 3))
    axes.figure.colorbar(image, ax=axes, shrink=0.85, format=formatter)


def _loss(axes: Axes, label: str, history: Sequence[Epoch]) -> None:
    epochs = [row.epoch for row in history]
    axes.semilogy(epochs, [row.loss for row in history], label="training", linewidth=1)
    measured = [row for row in history if np.isfinite(row.held_out)]
    axes.semilogy(
        [row.epoch for row in measured],
        [row.held_out for row in measured],
        "o-",
        markersize=3,
        label="held out",
    )
    axes.set_title("loss")
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)


def _save(figure: Figure, path: Path) -> None:
    with atomic(path) as stream:
        figure.savefig(stream, format="png", dpi=130)

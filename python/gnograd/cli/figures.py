# SPDX-License-Identifier: MIT
"""The picture that each training job leaves behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
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
    _field(panels["a"], "coefficient a", coefficient, cmap="cividis")
    _compare([panels[name] for name in "uve"], ("solution u", "prediction"), truth, prediction)
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
    _compare([panels[name] for name in "gke"], ("exact G(x, y)", "learned kernel"), exact, learned)
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


def _compare(
    axes: Sequence[Axes], titles: tuple[str, str], exact: Array, approximate: Array
) -> None:
    """Draw two fields on one scale, and their difference."""
    low, high = min(exact.min(), approximate.min()), max(exact.max(), approximate.max())
    for panel, title, field in zip(axes, titles, (exact, approximate), strict=False):
        _field(panel, title, field, cmap="viridis", vmin=low, vmax=high)
    error = approximate - exact
    relative = np.linalg.norm(error) / np.linalg.norm(exact)
    worst = np.abs(error).max()
    _field(axes[2], f"error: {relative:.2%} in L2", error, cmap="RdBu_r", vmin=-worst, vmax=worst)


def _field(axes: Axes, title: str, values: Array, **style: Any) -> None:
    image = axes.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), **style)
    axes.set_title(title, pad=14)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-2, 3))
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04, format=formatter)


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

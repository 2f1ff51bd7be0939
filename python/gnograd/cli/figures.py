# SPDX-License-Identifier: MIT
"""The picture that each training job leaves behind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


class OnMesh(NamedTuple):
    """A problem on a mesh of triangles, and its solutions at the nodes."""

    points: Array
    triangles: Array
    source: Array
    truth: Array
    prediction: Array


def poisson(path: Path, cases: Sequence[OnMesh], histories: Mapping[str, Sequence[Epoch]]) -> None:
    """Draw problems with their solutions, predictions and errors, and the held-out errors.

    Parameters
    ----------
    path : pathlib.Path
        PNG file.
    cases : sequence of OnMesh
        One row each.
    histories : mapping of str to sequence of Epoch
        Of the trainings, by what they are trained on; the first is that of the predictions.
    """
    rows = len(cases)
    figure = Figure(figsize=(15, 3.3 * rows + 3), layout="constrained")
    grid = figure.add_gridspec(rows + 1, 4)
    for row, case in enumerate(cases):
        f, u, v, e = (figure.add_subplot(grid[row, column]) for column in range(4))
        title = f"prediction, trained on {next(iter(histories))}"
        _on_mesh(f, "right-hand side f", case, case.source, cmap="cividis")
        low, high = (g(g(case.truth), g(case.prediction)) for g in (min, max))
        _on_mesh(u, "finite elements", case, case.truth, vmin=low, vmax=high)
        _on_mesh(v, title, case, case.prediction, vmin=low, vmax=high)
        error = case.prediction - case.truth
        worst = np.abs(error).max()
        _on_mesh(e, "error", case, error, cmap="RdBu_r", vmin=-worst, vmax=worst)
    axes = figure.add_subplot(grid[rows, :])
    for name, history in histories.items():
        measured = [row for row in history if np.isfinite(row.held_out)]
        epochs = [row.epoch for row in measured]
        axes.semilogy(epochs, [row.held_out for row in measured], "o-", markersize=3, label=name)
    axes.set_title("relative L2 error on held-out problems")
    axes.set_xlabel("epoch")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    _save(figure, path)


def _on_mesh(axes: Axes, title: str, case: OnMesh, values: Array, **style: Any) -> None:
    x, y = case.points.T
    image = axes.tripcolor(x, y, values, triangles=case.triangles, shading="gouraud", **style)
    axes.set_title(title)
    axes.set_aspect("equal")
    axes.set_axis_off()
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04)


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

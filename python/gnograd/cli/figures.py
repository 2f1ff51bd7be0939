# SPDX-License-Identifier: MIT
"""Pictures of the results of training jobs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import ScalarFormatter

from gnograd.cli.files import atomic
from gnograd.cli.log import Epoch, measured

Array = npt.NDArray[Any]


def darcy(
    path: Path,
    title: str,
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
    title : str
        Title of the picture.
    coefficient, truth, prediction : ndarray, shape (grid, grid)
        First axis is x.
    history : sequence of Epoch
    """
    figure = Figure(figsize=(12, 7.2), layout=ConstrainedLayoutEngine(wspace=0.06))
    figure.suptitle(title)
    panels = figure.subplot_mosaic([["a", "u", "v"], ["e", "l", "l"]])
    _field(panels["a"], "coefficient", "a", coefficient, **_colours(coefficient))
    titles = ("solution", "prediction")
    _compare([panels[name] for name in "uve"], titles, "u", truth, prediction)
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
    figure = Figure(figsize=(12, 7.2), layout=ConstrainedLayoutEngine(wspace=0.06))
    panels = figure.subplot_mosaic([["g", "k", "e"], ["s", "l", "l"]])
    titles = ("exact Green's function", "learned kernel")
    _compare([panels[name] for name in "gke"], titles, "G(x, y)", exact, learned)
    sections = panels["s"]
    for x in (0.25, 0.5, 0.75):
        row = int(np.abs(points - x).argmin())
        (line,) = sections.plot(points, exact[row], label=f"x = {points[row]:.2f}")
        sections.plot(points, learned[row], linestyle=":", linewidth=3, color=line.get_color())
    sections.set_title("sections: exact (lines), learned (dots)")
    sections.set_xlabel("y")
    sections.set_ylabel("G(x, y)")
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
    error: float
    """Relative L2 error of the prediction."""


def poisson(path: Path, cases: Sequence[OnMesh], histories: Mapping[str, Sequence[Epoch]]) -> None:
    """Draw problems with their solutions, predictions and errors, and the held-out errors.

    Parameters
    ----------
    path : pathlib.Path
        PNG file.
    cases : sequence of OnMesh
        One row each.
    histories : mapping of str to sequence of Epoch
        Histories of the trainings by their data; the first belongs to the predictions.
    """
    rows = len(cases)
    figure = Figure(figsize=(15, 3.3 * rows + 3), layout=ConstrainedLayoutEngine(wspace=0.06))
    grid = figure.add_gridspec(rows + 1, 4)
    for row, case in enumerate(cases):
        f, u, v, e = (figure.add_subplot(grid[row, column]) for column in range(4))
        title = f"prediction, trained on {next(iter(histories))}"
        _on_mesh(f, f"test problem {row + 1}: right-hand side", "f", case, case.source, "cividis")
        low, high = (g(g(case.truth), g(case.prediction)) for g in (min, max))
        _on_mesh(u, "finite elements", "u", case, case.truth, vmin=low, vmax=high)
        _on_mesh(v, title, "u", case, case.prediction, vmin=low, vmax=high)
        error = case.prediction - case.truth
        worst = np.abs(error).max()
        title = f"error: {case.error:.2%} in L2"
        _on_mesh(e, title, "prediction - u", case, error, "RdBu_r", vmin=-worst, vmax=worst)
    axes = figure.add_subplot(grid[rows, :])
    for name, history in histories.items():
        axes.semilogy(*measured(history), "o-", markersize=3, label=name)
    axes.set_title("held-out problems, by what is trained on")
    axes.set_xlabel("epoch")
    axes.set_ylabel("relative L2 error")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    _save(figure, path)


def _on_mesh(
    axes: Axes,
    title: str,
    quantity: str,
    case: OnMesh,
    values: Array,
    cmap: str = "viridis",
    **limits: Any,
) -> None:
    x, y = case.points.T
    limits |= {"triangles": case.triangles, "shading": "gouraud"}
    image = axes.tripcolor(x, y, values, cmap=cmap, **limits)
    axes.set_aspect("equal")
    _label(axes, title, quantity, image)


def _compare(
    axes: Sequence[Axes], titles: tuple[str, str], quantity: str, exact: Array, approximate: Array
) -> None:
    """Draw two fields on one scale, and their difference."""
    low, high = min(exact.min(), approximate.min()), max(exact.max(), approximate.max())
    for panel, title, field in zip(axes, titles, (exact, approximate), strict=False):
        _field(panel, title, quantity, field, cmap="viridis", vmin=low, vmax=high)
    error = approximate - exact
    title = f"error: {np.linalg.norm(error) / np.linalg.norm(exact):.2%} in L2"
    worst = np.abs(error).max()
    _field(
        axes[2], title, f"{titles[1]} - {quantity}", error, cmap="RdBu_r", vmin=-worst, vmax=worst
    )


def _field(
    axes: Axes,
    title: str,
    quantity: str,
    values: Array,
    ticks: Sequence[float] | None = None,
    **style: Any,
) -> None:
    image = axes.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), **style)
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([0, 0.5, 1])
    _label(axes, title, quantity, image, ticks)


def _label(
    axes: Axes,
    title: str,
    quantity: str,
    image: ScalarMappable,
    ticks: Sequence[float] | None = None,
) -> None:
    axes.set_title(title, pad=14)
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    formatter = ScalarFormatter(useMathText=True)
    formatter.set_powerlimits((-2, 3))
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04, format=formatter)
    bar.set_label(quantity)
    if ticks is not None:
        bar.set_ticks(ticks)


def _colours(values: Array) -> dict[str, Any]:
    """Style of a field; two colours if it only has two values."""
    both = np.unique(values)
    if len(both) != 2:
        return {"cmap": "cividis"}
    low, high = both.tolist()
    half = (high - low) / 2
    cmap = colormaps["cividis"].resampled(2)
    return {"cmap": cmap, "vmin": low - half, "vmax": high + half, "ticks": [low, high]}


def _loss(axes: Axes, label: str, history: Sequence[Epoch]) -> None:
    epochs = [row.epoch for row in history]
    axes.semilogy(epochs, [row.loss for row in history], label="training", linewidth=1)
    axes.semilogy(*measured(history), "o-", markersize=3, label="held out")
    axes.set_title("loss")
    axes.set_xlabel("epoch")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)


def _save(figure: Figure, path: Path) -> None:
    with atomic(path) as stream:
        figure.savefig(stream, format="png", dpi=130)

# SPDX-License-Identifier: MIT
"""Pictures of what the examples in Fortran write.

python examples/fortran/pictures.py EXAMPLE FILE.csv [PICTURE.png]
"""

from __future__ import annotations

import argparse

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure


def assimilate_heat(columns: np.ndarray) -> Figure:
    """The true field, the one that was found, and their difference."""
    x, y, true, found, sensor = columns
    shape = len(np.unique(y)), len(np.unique(x))
    width = x[1] - x[0]
    extent = (0, x.max() + width / 2, 0, y.max() + width / 2)
    titles = "true a(x)", f"found from {int(sensor.sum())} sensors", "difference"
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained")
    for axis, title, field in zip(axes, titles, (true, found, found - true), strict=True):
        difference = title == "difference"
        limits = (-0.5, 0.5) if difference else (true.min(), true.max())
        image = axis.imshow(
            field.reshape(shape), origin="lower", extent=extent, vmin=limits[0], vmax=limits[1],
            cmap="RdBu_r" if difference else "viridis",
        )  # fmt: skip
        figure.colorbar(image, ax=axis, shrink=0.85)
        axis.set(title=title, xticks=[], yticks=[])
    axes[1].plot(x[sensor > 0], y[sensor > 0], "w.", markersize=3)
    axes[0].set_ylabel("hot wall on the left")
    return figure


def ensemble(columns: np.ndarray) -> Figure:
    """Every member of the ensemble, its samples, and two standard deviations around the mean."""
    member, x, value = columns
    names = np.unique(member[member > 0])
    places = x[member == names[0]]
    fits = np.array([value[member == name] for name in names])
    mean, spread = fits.mean(axis=0), fits.std(axis=0)
    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axis.fill_between(
        places, mean - 2 * spread, mean + 2 * spread, color="tab:blue", alpha=0.2, linewidth=0,
        label="mean, two standard deviations",
    )  # fmt: skip
    axis.plot(places, fits.T, color="tab:blue", linewidth=0.7, alpha=0.7)
    axis.plot(places, np.sin(5 * places), "k--", linewidth=1, label="sin(5x)")
    axis.plot(x[member == 0], value[member == 0], "o", color="tab:orange", label="samples")
    axis.set(xlabel="x", title=f"{len(names)} networks, each on a thread and a tape of its own")
    axis.legend(frameon=False)
    return figure


def train_gno(columns: np.ndarray) -> Figure:
    """The kernel that was learned beside the true one."""
    distance, learned, true = columns
    figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axis.plot(distance, true, "k--", linewidth=1, label="exp(-8 |x - y|)")
    axis.plot(distance, learned, color="tab:blue", label="learned")
    axis.set(xlabel="|x - y|", title="weight of a neighbour", ylim=(0, None))
    axis.legend(frameon=False)
    return figure


def train_meshes(columns: np.ndarray) -> Figure:
    """A cloud never seen: the function, its averages, and what the network says of these."""
    x, y, function, average, found = columns
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.1), layout="constrained")
    high = np.abs(average).max()
    figure.colorbar(_points(axes[0], x, y, function, "function"), ax=axes[0], shrink=0.85)
    _points(axes[1], x, y, average, "average of the neighbours", high)
    image = _points(axes[2], x, y, found, "what the network says", high)
    figure.colorbar(image, ax=axes[1:3], shrink=0.85)
    image = _points(axes[3], x, y, found - average, "difference")
    figure.colorbar(image, ax=axes[3], shrink=0.85)
    return figure


def run_darcy(columns: np.ndarray) -> Figure:
    """The solution, what Fortran computes with the network of Python, and the difference."""
    x, y, solution, computed = columns
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained")
    high = np.abs(solution).max()
    _points(axes[0], x, y, solution, "solution", high)
    image = _points(axes[1], x, y, computed, "computed in Fortran", high)
    figure.colorbar(image, ax=axes[:2], shrink=0.85)
    image = _points(axes[2], x, y, computed - solution, "difference")
    figure.colorbar(image, ax=axes[2], shrink=0.85)
    return figure


def _points(
    axis: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, title: str,
    high: float | None = None,
) -> PathCollection:  # fmt: skip
    """Values at points, with zero in the middle of the colours."""
    high = high or np.abs(values).max()
    image = axis.scatter(x, y, c=values, s=40, cmap="RdBu_r", vmin=-high, vmax=high)
    axis.set(title=title, aspect="equal", xticks=[], yticks=[])
    return image


EXAMPLES = {
    draw.__name__: draw for draw in (assimilate_heat, ensemble, run_darcy, train_gno, train_meshes)
}


def main() -> None:
    """Draw one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("source", metavar="FILE.csv", help="what the example has written")
    parser.add_argument("picture", nargs="?", metavar="PICTURE.png", help="EXAMPLE.png if absent")
    given = parser.parse_args()
    with plt.rc_context({"font.size": 9, "axes.titlesize": 10}):
        figure = EXAMPLES[given.example](np.loadtxt(given.source, delimiter=",", skiprows=1).T)
        figure.savefig(given.picture or f"{given.example}.png", dpi=130)


if __name__ == "__main__":
    main()

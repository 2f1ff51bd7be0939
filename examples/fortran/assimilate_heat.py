# SPDX-License-Identifier: MIT
"""Picture of what assimilate_heat.f90 has found.

python examples/fortran/assimilate_heat.py FILE.csv [PICTURE.png]
"""

from __future__ import annotations

import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def main() -> None:
    """Draw the true field, the one that was found, and their difference."""
    source = sys.argv[1]
    picture = sys.argv[2] if len(sys.argv) > 2 else "assimilate_heat.png"
    x, y, true, found, sensor = np.loadtxt(source, delimiter=",", skiprows=1).T
    shape = len(np.unique(y)), len(np.unique(x))
    width = x[1] - x[0]
    extent = (0, x.max() + width / 2, 0, y.max() + width / 2)
    fields = {"true a(x)": true, "found": found, "difference": found - true}
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained")
    for axis, (title, field) in zip(axes, fields.items(), strict=True):
        difference = title == "difference"
        limits = (-0.5, 0.5) if difference else (true.min(), true.max())
        image = axis.imshow(
            field.reshape(shape), origin="lower", extent=extent, vmin=limits[0], vmax=limits[1],
            cmap="RdBu_r" if difference else "viridis",
        )  # fmt: skip
        figure.colorbar(image, ax=axis, shrink=0.85)
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    axes[1].plot(x[sensor > 0], y[sensor > 0], "w.", markersize=3)
    axes[1].set_title(f"found from {int(sensor.sum())} sensors", fontsize=10)
    axes[0].set_ylabel("hot wall on the left", fontsize=9)
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main()

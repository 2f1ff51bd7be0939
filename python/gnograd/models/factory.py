# SPDX-License-Identifier: MIT
"""Networks by name and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.description import NAMES
from gnograd.data.neighbors import TYPICAL, radius_of
from gnograd.models.bsa import PointBSA
from gnograd.models.cloud import Period, box_of
from gnograd.models.gino import PointGINO
from gnograd.models.gno import PointGNO
from gnograd.models.magno import PointMAGNO
from gnograd.models.mgn import PointMeshGraphNet
from gnograd.models.network import Network
from gnograd.models.transolver import PointTransolver

__all__ = ["MODELS", "SIZES", "options_of"]

MODELS: dict[str, type[Network]] = {
    "gno": PointGNO,
    "gino": PointGINO,
    "magno": PointMAGNO,
    "mgn": PointMeshGraphNet,
    "bsa": PointBSA,
    "transolver": PointTransolver,
}
"""Networks by name."""

SIZES = ("small", "medium", "large")
"""Sizes that every kind has."""

_SIDES = {1: (32, 64, 128), 2: (12, 24, 40), 3: (6, 10, 16)}
"""Points of latent grids along their longest axis, by dimension and size."""

_OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "gno": (
        {"width": 16, "hidden": 16, "layers": 3},
        {"width": 32, "hidden": 32, "layers": 4},
        {"width": 64, "hidden": 64, "layers": 6},
    ),
    "gino": (
        {"width": 16, "hidden": 16, "layers": 3, "modes": 6},
        {"width": 32, "hidden": 32, "layers": 4, "modes": 10},
        {"width": 64, "hidden": 64, "layers": 4, "modes": 14},
    ),
    "magno": (
        {"width": 32, "hidden": 32, "layers": 2, "heads": 4},
        {"width": 64, "hidden": 64, "layers": 4, "heads": 4},
        {"width": 128, "hidden": 64, "layers": 8, "heads": 8},
    ),
    "mgn": (
        {"width": 32, "layers": 6},
        {"width": 64, "layers": 10},
        {"width": 128, "layers": 15},
    ),
    "bsa": (
        {"width": 32, "heads": 4, "layers": 3, "ball_size": 32},
        {"width": 64, "heads": 4, "layers": 6, "ball_size": 64},
        {"width": 128, "heads": 8, "layers": 12, "ball_size": 128},
    ),
    "transolver": (
        {"width": 32, "heads": 4, "layers": 3, "slices": 16},
        {"width": 64, "heads": 4, "layers": 4, "slices": 32},
        {"width": 128, "heads": 8, "layers": 8, "slices": 64},
    ),
}

_NEAREST = {1: 8, 2: 12, 3: 20}
"""Number of points that send to a point of mgn where there is no mesh, by dimension."""
_LAYERS = (2, 3, 4)
"""Layers of mgn between nearest points, by size: these are two to three times as many as the edges
of a mesh, which makes a layer dearer, and see farther. On a plane 2 layers of 12 points learn
advection in the time in which 6 layers of 6 do not."""


def options_of(
    name: str,
    size: str,
    clouds: Sequence[NDArray[np.float64]],
    corners: tuple[NDArray[np.float64], NDArray[np.float64]],
    period: Period = None,
    radius: float | None = None,
    meshed: bool = False,
) -> dict[str, Any]:
    """Choose arguments of a network for given points.

    Parameters
    ----------
    name : {"gno", "gino", "magno", "mgn", "bsa", "transolver"}
    size : {"small", "medium", "large"}
    clouds : sequence of ndarray, (n, d)
        Points as the network will see them, of some samples.
    corners : pair of ndarray, (d,)
        Corners of the box around the points of all samples.
    period : sequence of float, optional
    radius : float, optional
        Distance up to which points are neighbours; when left out it is chosen so that points
        typically have 8 (gino: 4), 12 or 20 in 1, 2 or 3 dimensions.
    meshed : bool
        All samples have the edges of a mesh, along which mgn passes messages.

    Returns
    -------
    dict
        Arguments of the network other than dimension, channels, period and `apart`: numbers, and
        lists of numbers.

    Raises
    ------
    ValueError
        Unknown name or size.
    """
    for what, value, known in (("model", name, NAMES), ("size", size, SIZES)):
        if value not in known:
            raise ValueError(f"{what} is {value!r}, needs one of {', '.join(map(repr, known))}")
    d, number = clouds[0].shape[1], SIZES.index(size)
    options = dict(_OPTIONS[name][number])
    if name != "magno":
        near = TYPICAL.get(name, TYPICAL["gno"])[d]
        options["radius"] = radius_of(clouds, near, period) if radius is None else radius
    if name == "mgn" and not meshed:
        options |= {"neighbors": _NEAREST[d], "layers": _LAYERS[number]}
    if name in ("gino", "magno"):
        lower, upper = box_of(*corners, period)
        options |= {"lower": lower, "upper": upper, "side": _SIDES[d][number]}
    if name == "magno":
        options["scales"] = [1.2, 2.4]
    return options

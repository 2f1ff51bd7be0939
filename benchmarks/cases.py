# SPDX-License-Identifier: MIT
"""The operators on a GPU, case by case: what `gpu.py` times and what the time model counts."""

from __future__ import annotations

import cases_graph  # noqa: F401
import cases_network  # noqa: F401
import cases_sparse  # noqa: F401
import numpy as np
from case import CASES, add

import gnograd as gg

__all__ = ["CASES"]

# ---- neighbours; each of the modules above adds its own cases, in this order ----


def _points(n: int, rng: np.random.Generator, d: int = 3) -> np.ndarray:
    return rng.random((n, d), np.float32)


def _radius(n: int, d: int = 3, degree: int = 20) -> float:
    return float((degree / (n * (np.pi if d == 2 else 4 / 3 * np.pi))) ** (1 / d))


_SEARCH = {"full": 200_000, "small": 20_000, "faces": ("search",)}
add(
    "neighbors",
    lambda n, rng: (gg.neighbors, (_points(n, rng),), {"radius": _radius(n)}),
    "200,000 points in 3-D, 20 neighbours",
    **_SEARCH,
)
add(
    "neighbors_2d",
    lambda n, rng: (gg.neighbors, (_points(n, rng, 2),), {"radius": _radius(n, 2)}),
    "200,000 points in 2-D, 20 neighbours",
    **_SEARCH,
)
add(
    "neighbors_nearest",
    lambda n, rng: (gg.neighbors, (_points(n, rng),), {"radius": _radius(n), "max_neighbors": 8}),
    "200,000 points in 3-D, the nearest 8 of 20",
    **_SEARCH,
)
add(
    "knn",
    lambda n, rng: (gg.knn, (_points(n, rng),), {"k": 16}),
    "200,000 points in 3-D, 16 nearest",
    **_SEARCH,
)
add(
    "neighbor_list",
    lambda n, rng: (
        gg.neighbor_list,
        (_points(n, rng),),
        {"radius": _radius(n, degree=40), "cell": np.eye(3).tolist()},
    ),
    "200,000 points in a periodic cell, 40 neighbours",
    **_SEARCH,
)

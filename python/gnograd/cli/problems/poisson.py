# SPDX-License-Identifier: MIT
"""Poisson's equation with Gaussian sources on star-shaped domains, by linear finite elements."""

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from gnograd.cli.poisson_problem import draw, mesh
from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["POISSON"]

SOURCES = 4
WIDTHS = 0.1, 0.3


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    domain = draw(rng)
    height, width = rng.standard_normal(SOURCES), rng.uniform(*WIDTHS, SOURCES)
    angle, distance = rng.uniform(0, 2 * np.pi, SOURCES), np.sqrt(rng.uniform(0, 0.64, SOURCES))
    disk = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    centre, _ = domain.from_disk(disk)
    made = mesh(domain, resolution)
    square = ((made.points[:, None] - centre) ** 2).sum(axis=2)
    source = (height * np.exp(-0.5 * square / width**2)).sum(axis=1)

    gradients, area = made.gradients()
    n, triangles = made.n_inner, made.triangles
    rows, columns = np.repeat(triangles, 3, axis=1).ravel(), np.tile(triangles, (1, 3)).ravel()
    stiffness = np.einsum("tia,tja,t->tij", gradients, gradients, area).ravel()
    mass = (area[:, None, None] / 12 * (1 + np.eye(3))).ravel()
    load = np.bincount(rows, mass * source[columns], minlength=len(made.points))[:n]
    inner = (rows < n) & (columns < n)
    u = np.zeros(len(made.points))
    matrix = sparse.csc_array((stiffness[inner], (rows[inner], columns[inner])), (n, n))
    u[:n] = linalg.spsolve(matrix, load)
    return Solved(made.points, {"f": source}, {"u": u}, coarse=_coarse(resolution))


def _coarse(rings: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Nodes of every other ring, and of these every other one."""
    first = [1 + 3 * ring * (ring - 1) for ring in range(2, rings + 1, 2)]
    parts = [start + np.arange(0, 6 * r, 2) for start, r in zip(first, range(2, rings + 1, 2),
                                                                strict=True)]  # fmt: skip
    return np.concatenate([[0], *parts])


POISSON = Problem(
    "-Lap u = f on star-shaped domains, u = 0 on the boundary; f of four Gaussians",
    _solve,
    resolution=24,
    least=4,
)

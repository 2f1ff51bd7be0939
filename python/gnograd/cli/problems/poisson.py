# SPDX-License-Identifier: MIT
"""Poisson's equation with Gaussian sources on star-shaped domains, by linear finite elements."""

from functools import partial

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from gnograd.cli.poisson_problem import draw, mesh
from gnograd.cli.problems.solved import Array, Problem, Solved

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
    return Solved(made.points, {"f": source}, {"u": u}, every=partial(_every, resolution))


def _every(rings: int, n: int) -> Array:
    """Every n-th node of every n-th ring."""
    kept = range(n, rings + 1, n)
    parts = [1 + 3 * ring * (ring - 1) + np.arange(0, 6 * ring, n) for ring in kept]
    return np.concatenate([[0], *parts])


POISSON = Problem(
    "-Lap u = f on star-shaped domains, u = 0 on the boundary; f of four Gaussians",
    _solve,
    resolution=24,
    least=4,
)

# SPDX-License-Identifier: MIT
"""Flow through a square of two materials."""

import numpy as np

from gnograd.cli.darcy_problem import coefficient, solve
from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["DARCY"]


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    a = coefficient(rng, resolution + 1)
    axis = np.linspace(0, 1, resolution + 1)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    numbers = np.arange((resolution + 1) ** 2).reshape(resolution + 1, resolution + 1)
    fields = {"a": a.ravel()}, {"u": solve(a).ravel()}
    return Solved(points, *fields, every=lambda n: numbers[::n, ::n].ravel())


DARCY = Problem(
    "-div(a grad u) = 1 on the unit square, u = 0 on its boundary; a of two materials (12 and 3)",
    _solve,
    resolution=120,
    least=8,
)

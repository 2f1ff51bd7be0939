# SPDX-License-Identifier: MIT
"""Heat in insulated boxes of three dimensions, by a series of cosines: exact."""

import numpy as np

from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["HEAT"]

CONDUCTIVITY = 0.02
TIMES = 11
"""Number of states, from time 0 to 1."""
WAVES = 3
"""Number of cosines in each direction, the constant one included."""


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    sides = rng.uniform(0.5, 1.5, 3)
    k = np.arange(WAVES)
    wave = np.pi * np.stack(np.meshgrid(k, k, k, indexing="ij"), axis=-1) / sides
    square = (wave**2).sum(axis=-1)
    amplitudes = rng.standard_normal((WAVES,) * 3) / (1 + 0.1 * square)
    axes = [np.linspace(0, side, resolution + 1) for side in sides]
    x, y, z = (np.cos(np.pi * np.outer(k, axis) / s) for axis, s in zip(axes, sides, strict=True))
    times = np.linspace(0, 1, TIMES)
    decayed = amplitudes * np.exp(-CONDUCTIVITY * square * times[:, None, None, None])
    states = np.einsum("tabc,ai,bj,ck->tijk", decayed, x, y, z).reshape(TIMES, -1)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return Solved(points, {}, {"u": states})


HEAT = Problem(
    "u_t = 0.02 Lap u in insulated boxes of random sides; states at 11 times from 0 to 1; exact",
    _solve,
    resolution=10,
    least=4,
    in_time=True,
)

# SPDX-License-Identifier: MIT
"""Waves that a constant wind carries over a periodic square without changing them."""

import numpy as np

from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["ADVECTION"]

MODES = 3
"""Largest wave number along an axis."""
TIMES = 11
"""Number of states, from time 0 to 1."""
SPEED = 0.2, 0.6


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    angle, speed = rng.uniform(0, 2 * np.pi), rng.uniform(*SPEED)
    wind = speed * np.array([np.cos(angle), np.sin(angle)])
    k = np.arange(-MODES, MODES + 1)
    waves = np.stack(np.meshgrid(k, k, indexing="ij"), axis=-1).reshape(-1, 2)
    waves = waves[len(waves) // 2 + 1 :]  # one of two opposite waves, and no constant
    amplitudes = rng.standard_normal((2, len(waves))) / np.linalg.norm(waves, axis=1)
    amplitudes /= np.sqrt(np.sum(amplitudes**2) / 2)
    x = np.arange(resolution) / resolution
    points = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    states = []
    for t in np.linspace(0, 1, TIMES):
        phase = 2 * np.pi * (points - t * wind) @ waves.T
        states.append(np.sin(phase) @ amplitudes[0] + np.cos(phase) @ amplitudes[1])
    return Solved(points, {}, {"u": np.array(states)}, wind)


ADVECTION = Problem(
    "u_t + c . grad u = 0 on a periodic square, the wind c drawn at random; states at 11 times",
    _solve,
    resolution=32,
    least=8,
    period=1.0,
    in_time=True,
)

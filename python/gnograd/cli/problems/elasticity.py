# SPDX-License-Identifier: MIT
"""Stress around a circular hole in a plate that is pulled far away (Kirsch): exact.

See S. P. Timoshenko and J. N. Goodier, "Theory of Elasticity", section 35.
"""

import numpy as np

from gnograd.cli.problems.solved import Array, Problem, Solved

__all__ = ["ELASTICITY"]

REACH = 5.0
"""Distance of the outer points, in radii of the hole."""


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    radius, turned = rng.uniform(0.1, 0.2), rng.uniform(0, np.pi)
    pulls = rng.standard_normal(2)
    factor = REACH ** (np.arange(resolution // 4) / (resolution // 4 - 1))
    angle = 2 * np.pi * np.arange(resolution) / resolution
    r, theta = (x.ravel() for x in np.meshgrid(factor, angle, indexing="ij"))
    trace, deviator = np.zeros(len(r)), np.zeros(len(r), complex)
    for pull, direction in zip(pulls, (turned, turned + np.pi / 2), strict=True):
        rr, tt, rt = _kirsch(r, theta - direction)
        trace += pull * (rr + tt)
        deviator += pull * (tt - rr + 2j * rt) * np.exp(-2j * theta)
    stress = {
        "sxx": (trace - deviator.real) / 2,
        "syy": (trace + deviator.real) / 2,
        "sxy": deviator.imag / 2,
    }
    # stress far away
    difference = (pulls[0] - pulls[1]) / 2
    middle = pulls.sum() / 2
    far = [
        middle + difference * np.cos(2 * turned),
        middle - difference * np.cos(2 * turned),
        difference * np.sin(2 * turned),
    ]
    points = radius * np.stack([r * np.cos(theta), r * np.sin(theta)], axis=1)
    return Solved(points, {"hole": (r == 1).astype(float)}, stress, np.array(far))


def _kirsch(r: Array, theta: Array) -> tuple[Array, Array, Array]:
    """Stress in polar coordinates, for a unit pull along theta = 0 and a hole of radius 1."""
    a, double = 1 / r**2, 2 * theta
    return (
        (1 - a) / 2 + (1 - 4 * a + 3 * a**2) / 2 * np.cos(double),
        (1 + a) / 2 - (1 + 3 * a**2) / 2 * np.cos(double),
        -(1 + 2 * a - 3 * a**2) / 2 * np.sin(double),
    )


ELASTICITY = Problem(
    "stress around a hole of random size in a plate that is pulled at random; exact",
    _solve,
    resolution=64,
    least=8,
)

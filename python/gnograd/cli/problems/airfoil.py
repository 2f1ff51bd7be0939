# SPDX-License-Identifier: MIT
"""Potential flow around Joukowski's airfoils, by the conformal map of a circle: exact.

The circle with centre ``c`` through 1 becomes an airfoil by ``z = zeta + 1 / zeta``; the flow
around the circle with the circulation that leaves the trailing edge smoothly (Kutta) becomes that
around the airfoil. See L. M. Milne-Thomson, "Theoretical Aerodynamics", chapter 7.
"""

import numpy as np

from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["AIRFOIL"]

REACH = 4.0
"""Distance of the outer points, in radii of the circle."""


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    thickness, camber = rng.uniform(0.05, 0.2), rng.uniform(0.0, 0.2)
    attack = rng.uniform(-10, 10) * np.pi / 180
    centre = complex(-thickness, camber)
    radius = abs(1 - centre)
    # rings that are narrow at the airfoil; angles that avoid the trailing edge itself
    rings = resolution // 4
    factor = REACH ** (np.arange(rings) / (rings - 1))
    angle = 2 * np.pi * (np.arange(resolution) + 0.5) / resolution + np.angle(1 - centre)
    offset = radius * np.outer(factor, np.exp(1j * angle)).ravel()
    zeta = centre + offset
    circulation = 2 * radius * np.sin(attack - np.angle(1 - centre))
    flow = (
        np.exp(-1j * attack)
        - np.exp(1j * attack) * radius**2 / offset**2
        + 1j * circulation / offset
    )
    velocity = flow / (1 - 1 / zeta**2)
    z = zeta + 1 / zeta
    pressure = 1 - np.abs(velocity) ** 2
    points = np.stack([z.real, z.imag], axis=1)
    outputs = {"pressure": pressure, "vx": velocity.real, "vy": -velocity.imag}
    wall = np.repeat(np.arange(rings) == 0, resolution).astype(float)
    return Solved(points, {"wall": wall}, outputs, np.array([attack]))


AIRFOIL = Problem(
    "potential flow around airfoils of random thickness, camber and angle of attack; pressure "
    "coefficient and velocity at points around them; exact",
    _solve,
    resolution=96,
    least=16,
)

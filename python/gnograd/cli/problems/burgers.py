# SPDX-License-Identifier: MIT
"""Burgers' equation on a circle, by Fourier series and the fourth-order Runge-Kutta method.

The linear part is integrated exactly (an integrating factor); products are made free of aliases
by the 2/3 rule.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["BURGERS"]

Array = npt.NDArray[np.complex128]

MODES = 8
"""Number of waves of an initial state."""
TIMES = 21
"""Number of states, from time 0 to 1."""
VISCOSITY = 0.005, 0.02
CFL = 0.4
LARGEST = 3.0
"""Bound for the states, which determines the length of a step."""


def _solve(rng: np.random.Generator, resolution: int) -> Solved:
    viscosity = rng.uniform(*VISCOSITY)
    wave = np.arange(1, MODES + 1)
    amplitudes = rng.standard_normal((2, MODES)) / wave
    x = np.arange(resolution) / resolution
    phase = 2 * np.pi * np.outer(wave, x)
    start = amplitudes[0] @ np.sin(phase) + amplitudes[1] @ np.cos(phase)
    start /= np.sqrt(np.sum(amplitudes**2) / 2)
    states = [start]
    k = 2 * np.pi * np.fft.rfftfreq(resolution, 1 / resolution)
    kept = np.arange(len(k)) <= resolution // 3
    duration = 1 / (TIMES - 1)
    steps = int(np.ceil(duration * LARGEST * resolution / CFL))
    spectrum: Array = np.fft.rfft(start)
    for _ in range(TIMES - 1):
        for _ in range(steps):
            spectrum = _step(spectrum, k, kept, viscosity, duration / steps)
        states.append(np.fft.irfft(spectrum, resolution))
    fields = {"u": np.array(states)}
    return Solved(
        x[:, None], {}, fields, np.array([viscosity]), lambda n: np.arange(0, resolution, n)
    )


def _step(
    spectrum: Array, k: npt.NDArray[Any], kept: npt.NDArray[np.bool_], nu: float, dt: float
) -> Array:
    """One step of ``u_t + (u^2 / 2)_x = nu u_xx``."""
    n = 2 * (len(k) - 1)
    half = np.exp(-nu * k**2 * dt / 2)

    def slope(v: Array) -> Array:
        product: Array = -0.5j * k * np.fft.rfft(np.fft.irfft(v * kept, n) ** 2)
        return product

    a = slope(spectrum)
    b = slope(half * (spectrum + dt / 2 * a))
    c = slope(half * spectrum + dt / 2 * b)
    d = slope(half**2 * spectrum + dt * half * c)
    whole: Array = half**2 * spectrum + dt / 6 * (half**2 * a + 2 * half * (b + c) + d)
    return whole


BURGERS = Problem(
    "u_t + u u_x = nu u_xx on a circle, nu from .005 to .02; states at 21 times from 0 to 1",
    _solve,
    resolution=256,
    least=32,
    period=1.0,
    in_time=True,
)

# SPDX-License-Identifier: MIT
"""Derivatives of any formula that works for complex numbers.

The complex step ``Im f(x + i eps t) / eps`` has no cancellation, so that it is exact to rounding.
Inputs that are None stay None.
"""

import numpy as np

EPS = 1e-20


def jvp(f, inputs, tangents):
    """Derivative of f(inputs + s * tangents) by s at 0."""
    moved = [
        x if x is None or t is None else x + 1j * EPS * t
        for x, t in zip(inputs, tangents, strict=True)
    ]
    return np.imag(f(*moved)) / EPS


def vjp(f, inputs, cotangent):
    """Gradient of sum(cotangent * f(inputs)), entry by entry."""
    gradients = []
    for k, x in enumerate(inputs):
        if x is None:
            gradients.append(None)
            continue
        gradient = np.zeros_like(x)
        for entry in np.ndindex(x.shape):
            tangents = [None] * len(inputs)
            tangents[k] = np.zeros_like(x)
            tangents[k][entry] = 1
            gradient[entry] = np.sum(cotangent * jvp(f, inputs, tangents))
        gradients.append(gradient)
    return gradients


def hvp(f, inputs, cotangent, tangents, step=1e-5):
    """Central difference of the gradient along the tangents."""

    def gradient(side):
        moved = [
            x if x is None or t is None else x + side * step * t
            for x, t in zip(inputs, tangents, strict=True)
        ]
        return vjp(f, moved, cotangent)

    return [
        None if ahead is None else (ahead - behind) / (2 * step)
        for ahead, behind in zip(gradient(1), gradient(-1), strict=True)
    ]

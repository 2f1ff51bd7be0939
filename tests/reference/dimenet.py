# SPDX-License-Identifier: MIT
"""DimeNet++ by its formulas."""

import functools

import mpmath
import numpy as np

mpmath.mp.dps = 80
STEP = mpmath.mpf(10) ** -25
"""Step of central differences in 80 digits, which have no rounding to speak of."""


@functools.cache
def bessel_zero(degree, n):
    return mpmath.besseljzero(degree + mpmath.mpf(1) / 2, n)


def bessel(degree, t):
    return mpmath.sqrt(mpmath.pi / (2 * t)) * mpmath.besselj(degree + mpmath.mpf(1) / 2, t)


def envelope(x, exponent):
    p = exponent + 1
    return (
        1
        - x**p * (p + 1) * (p + 2) / 2
        + x ** (p + 1) * p * (p + 2)
        - x ** (p + 2) * p * (p + 1) / 2
    )


def rbf(x, w, exponent=5):
    return envelope(x, exponent) * mpmath.sin(w * x) / x if 0 < x < 1 else mpmath.mpf(0)


def sbf(x, degree, n, exponent=5):
    """Column degree * n_radial + n - 1; n counts zeros from 1."""
    if not 0 < x < 1:
        return mpmath.mpf(0)
    z = bessel_zero(degree, n)
    norm = mpmath.sqrt(2) / abs(bessel(degree + 1, z))
    return envelope(x, exponent) * norm * bessel(degree, z * x) / x


def radial_basis(x, w, n_spherical=7, exponent=5):
    """Both results, float64; sbf has as many columns a degree as there are frequencies."""
    x, w = [[mpmath.mpf(float(number)) for number in np.ravel(array)] for array in (x, w)]
    columns = [(degree, n) for degree in range(n_spherical) for n in range(1, len(w) + 1)]
    return (
        np.array([[rbf(a, b, exponent) for b in w] for a in x], float),
        np.array([[sbf(a, *column, exponent) for column in columns] for a in x], float),
    )


def differences(f, *at):
    """Value, first and second derivatives of f, all pairs, by central differences."""
    n = len(at)

    def moved(*steps):
        return f(*(a + s * STEP for a, s in zip(at, steps, strict=True)))

    def unit(*which):
        return [which.count(k) for k in range(n)]

    def minus(a, b):
        return [x - y for x, y in zip(a, b, strict=True)]

    zero = [0] * n
    value = moved(*zero)
    first = [(moved(*unit(k)) - moved(*minus(zero, unit(k)))) / (2 * STEP) for k in range(n)]
    second = [
        [
            (
                moved(*unit(i, j))
                - moved(*minus(unit(i), unit(j)))
                - moved(*minus(unit(j), unit(i)))
                + moved(*minus(zero, unit(i, j)))
            )
            / (4 * STEP**2)
            for j in range(n)
        ]
        for i in range(n)
    ]
    return value, first, second


def agg_edge_to_edge(
    vector, rbf, embedding, weights, src, dst, n_spherical, n_radial, exclude="reverse_edge"
):
    """Sums by arrays over all triplets, in the inputs' dtype."""
    e, f = np.nonzero(src[:, None] == dst[None, :])
    if exclude != "none":
        after, before = vector[e].real, vector[f].real
        size = np.abs(after).max(axis=1, initial=0) + np.abs(before).max(axis=1, initial=0)
        left_out = src[f] == dst[e]
        if exclude == "reverse_edge":
            left_out &= np.abs(after + before).max(axis=1, initial=0) <= 1e-6 * size
        e, f = e[~left_out], f[~left_out]
    length = np.sqrt(np.sum(vector**2, axis=1, keepdims=True))
    unit = vector / np.where(length == 0, 1, length)
    c = np.sum(unit[f] * unit[e], axis=1)
    p = [np.ones_like(c), c]
    for k in range(2, n_spherical):
        p.append((c * p[k - 1] * (2 * k - 1) - p[k - 2] * (k - 1)) / k)
    has_angle = (length[f, 0] != 0) & (length[e, 0] != 0)
    y = np.stack([p[0], *(column * has_angle for column in p[1:])][:n_spherical], axis=1)
    norm = np.sqrt((2 * np.arange(n_spherical) + 1) / (4 * np.pi)).astype(vector.real.dtype)
    basis = rbf[f] * np.repeat(y * norm, n_radial, axis=1)
    n_basis = n_spherical * n_radial
    message = embedding[f] * (basis @ weights[:n_basis] @ weights[n_basis:].T)
    out = np.zeros(embedding.shape, np.result_type(vector, rbf, embedding, weights))
    np.add.at(out, e, message)
    return out

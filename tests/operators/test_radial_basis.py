# SPDX-License-Identifier: MIT
"""Radial basis of DimeNet++ against its formulas in many digits."""

import mpmath
import numpy as np
import pytest

import gnograd as gg
from reference import dimenet as reference

FREQUENCIES = np.pi * np.arange(1.0, 5.0)
FREQUENCIES6 = np.pi * np.arange(1.0, 7.0)
DISTANCES = np.array([*np.logspace(-6, -1, 6), *np.linspace(0.1, 0.999, 9), 0, 1, 1.3])[:, None]


@pytest.fixture(scope="module")
def basis():
    """Derivatives of the basis at DISTANCES and FREQUENCIES: rbf by x and w, sbf by x.

    Keys are "", "x", "w", "xx", "xw", "ww"; arrays are (n_edges, 4) and (n_edges, 5, 4).
    """
    # at 0 and 1, where the basis has kinks, it counts as outside
    points = [mpmath.mpf(x if 0 < x < 1 else 2) for x in DISTANCES[:, 0]]
    frequencies = [mpmath.mpf(w) for w in FREQUENCIES]
    plain = [
        [reference.differences(lambda x, w: reference.rbf(x, w, 4), x, w) for w in frequencies]
        for x in points
    ]
    spherical = [
        [
            [
                reference.differences(lambda x, d=d, n=n: reference.sbf(x, d, n, 4), x)
                for n in range(1, 5)
            ]
            for d in range(5)
        ]
        for x in points
    ]
    pick = {
        "": lambda d: d[0],
        "x": lambda d: d[1][0],
        "w": lambda d: d[1][1],
        "xx": lambda d: d[2][0][0],
        "xw": lambda d: d[2][0][1],
        "ww": lambda d: d[2][1][1],
    }
    return (
        {k: np.array([[float(f(d)) for d in row] for row in plain]) for k, f in pick.items()},
        {
            k: np.array([[[float(pick[k](d)) for d in row] for row in e] for e in spherical])
            for k in ("", "x", "xx")
        },
    )


def compare_basis(actual, rbf, sbf):
    """Compare to 1e-11 of the largest entry of a degree and edge: all distances count alike."""
    blocks = zip(
        np.split(np.concatenate(actual, axis=1), 6, axis=1),
        [rbf, *np.moveaxis(sbf, 1, 0)],
        strict=True,
    )
    for block, expected in blocks:
        scale = np.max(np.abs(expected), axis=1, keepdims=True)
        assert np.all(np.abs(block - expected) <= 1e-11 * scale)


def compare_rows(actual, terms):
    """Sums over rows to 1e-11 of their terms."""
    assert actual.shape == (len(terms), 1)
    bound = 1e-11 * np.sum(np.abs(terms), axis=1)
    assert np.all(np.abs(actual[:, 0] - np.sum(terms, axis=1)) <= bound)


# ---- forward ----


def test_radial_basis(basis):
    actual = gg.radial_basis(DISTANCES, FREQUENCIES, n_spherical=5, exponent=4)
    compare_basis(actual, basis[0][""], basis[1][""])


def test_radial_basis_of_another_size():
    actual = gg.radial_basis(DISTANCES, FREQUENCIES, n_spherical=3, exponent=2)
    for result, expected in zip(
        actual, reference.radial_basis(DISTANCES, FREQUENCIES, 3, 2), strict=True
    ):
        scale = np.max(np.abs(expected), initial=1)
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12 * scale)


def test_radial_basis_against_many_digits():
    x = np.concatenate([np.logspace(-6, -0.7, 12), [0.4, 0.6, 0.8, 0.95, 0.999, 1 - 1e-9]])
    w = np.pi * np.arange(1, 17)
    rbf, sbf = gg.radial_basis(x[:, None], w, n_spherical=10)
    sbf = sbf.reshape(-1, 10, 16)
    for k, point in enumerate(map(mpmath.mpf, x)):
        u = reference.envelope(point, 5)
        for n in (1, 2, 8, 16):
            wave = reference.rbf(point, mpmath.mpf(w[n - 1]))
            assert abs(rbf[k, n - 1] - wave) <= 1e-12 * max(abs(wave), u)
            for degree in range(10):
                expected = reference.sbf(point, degree, n)
                # beside a zero of j_l the rounding of z x alone is this much
                t = reference.bessel_zero(degree, n) * point
                amplitude = n * u / point if t > degree + 1 else 0
                assert abs(sbf[k, degree, n - 1] - expected) <= 1e-12 * max(
                    abs(expected), amplitude
                )


@pytest.mark.parametrize(
    ("degree", "n", "zero"),
    # Abramowitz and Stegun, table 10.6
    [(1, 1, 4.493409), (1, 2, 7.725252), (2, 1, 5.763459), (3, 3, 13.698023), (6, 1, 10.512835)],
)
def test_zeros_are_those_of_the_tables(degree, n, zero):
    x = zero / float(reference.bessel_zero(degree, n + 1))
    column = degree * 6 + n
    around = gg.radial_basis(np.array([[x * (1 - 1e-6)], [x * (1 + 1e-6)]]), FREQUENCIES6)[1]
    assert around[0, column] * around[1, column] < 0


def test_radial_basis_is_normalised():
    # the sbf without the envelope are orthonormal with weight x^2 on [0, 1]
    x, weight = np.polynomial.legendre.leggauss(200)
    x, weight = (x[:, None] + 1) / 2, weight / 2
    u = 1 - 28 * x**6 + 48 * x**7 - 21 * x**8
    sbf = gg.radial_basis(x, FREQUENCIES)[1].reshape(-1, 7, 4) * (x / u)[:, :, None]
    gram = np.einsum("eln,elm,e,e->lnm", sbf, sbf, weight, x[:, 0] ** 2)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(4), (7, 4, 4)), atol=1e-9)


# ---- vjp ----


def test_radial_basis_vjp(rng, basis):
    rbf, sbf = basis
    cotangent = rng.normal(size=rbf[""].shape), rng.normal(size=(len(DISTANCES), 20))
    to_sbf = cotangent[1].reshape(-1, 5, 4)
    inputs, static = (DISTANCES, FREQUENCIES), {"n_spherical": 5, "exponent": 4}
    to_x, to_w = gg.radial_basis.vjp(cotangent, inputs, **static)
    terms = np.concatenate([cotangent[0] * rbf["x"], *np.moveaxis(to_sbf * sbf["x"], 1, 0)], axis=1)
    compare_rows(to_x, terms)
    compare_rows(to_w[:, None], (cotangent[0] * rbf["w"]).T)

    only_rbf = gg.radial_basis.vjp((cotangent[0], None), inputs, **static)
    only_sbf = gg.radial_basis.vjp((None, cotangent[1]), inputs, **static)
    compare_rows(only_rbf[0], terms[:, :4])
    compare_rows(only_sbf[0], terms[:, 4:])
    assert np.array_equal(only_rbf[1], to_w)
    assert np.array_equal(only_sbf[1], np.zeros(4))


# ---- jvp ----


def test_radial_basis_jvp(rng, basis):
    rbf, sbf = basis
    x_dot, w_dot = rng.normal(size=DISTANCES.shape), rng.normal(size=4)
    inputs, static = (DISTANCES, FREQUENCIES), {"n_spherical": 5, "exponent": 4}
    compare_basis(
        gg.radial_basis.jvp(inputs, (x_dot, w_dot), **static),
        rbf["x"] * x_dot + rbf["w"] * w_dot,
        sbf["x"] * x_dot[:, :, None],
    )
    compare_basis(
        gg.radial_basis.jvp(inputs, (None, w_dot), **static), rbf["w"] * w_dot, 0 * sbf["x"]
    )


# ---- hvp ----


def test_radial_basis_hvp(rng, basis):
    rbf, sbf = basis
    cotangent = rng.normal(size=rbf[""].shape), rng.normal(size=(len(DISTANCES), 20))
    to_sbf = cotangent[1].reshape(-1, 5, 4)
    x_dot, w_dot = rng.normal(size=DISTANCES.shape), rng.normal(size=4)
    inputs, static = (DISTANCES, FREQUENCIES), {"n_spherical": 5, "exponent": 4}
    to_x, to_w = gg.radial_basis.hvp(cotangent, inputs, (x_dot, w_dot), **static)
    terms = [
        cotangent[0] * rbf["xx"] * x_dot,
        cotangent[0] * rbf["xw"] * w_dot,
        *np.moveaxis(to_sbf * sbf["xx"] * x_dot[:, :, None], 1, 0),
    ]
    compare_rows(to_x, np.concatenate(terms, axis=1))
    terms = [cotangent[0] * rbf["xw"] * x_dot, cotangent[0] * rbf["ww"] * w_dot]
    compare_rows(to_w[:, None], np.concatenate(terms).T)


@pytest.mark.parametrize(
    ("static", "n_radial", "message"),
    [
        ({"n_spherical": 11}, 6, "n_spherical is 11, needs 1 to 10"),
        ({"n_spherical": 0}, 6, "n_spherical is 0, needs 1 to 10"),
        ({}, 17, "n_radial is 17, needs 1 to 16"),
        ({"exponent": 0}, 6, "exponent is 0, needs 1 to 100"),
    ],
)
def test_errors_of_the_basis(static, n_radial, message):
    with pytest.raises(ValueError, match="radial_basis: " + message):
        gg.radial_basis(np.ones((2, 1)), np.ones(n_radial), **static)

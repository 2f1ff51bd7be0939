# SPDX-License-Identifier: MIT
"""Operations of the tape on large arrays: threads, digits in float32, memory."""

import numpy as np
import pytest
from scipy.special import erf, softmax

import gnograd.autodiff as ad
from memory import needs_linux, temporary_bytes


def test_large_arrays_agree_with_numpy_and_for_any_number_of_threads(rng, threads):
    x, w, b = rng.normal(size=(9000, 32)), rng.normal(size=(32, 24)), rng.normal(size=24)
    results = []
    for n in (1, 2, 3):
        threads(n)
        tape = ad.Tape("float64")
        X, W, B = (tape.parameter(v) for v in (x, w, b))
        y = ad.gelu(X @ W + B)
        loss = ad.mean(y * y) + ad.sum(ad.norm(y, 1)) + ad.sum(ad.softmax(y.T, 0)[3])
        loss.backward()
        results.append([y.value, loss.value, X.grad, W.grad, B.grad])
    for other in results[1:]:
        for a, c in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, c)
    pre = x @ w + b
    expected = pre * (1 + erf(pre / np.sqrt(2))) / 2
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        results[0][1],
        np.mean(expected**2)
        + np.linalg.norm(expected, axis=1).sum()
        + softmax(expected.T, 0)[3].sum(),
    )


def test_moving_numbers_is_exact_for_any_number_of_threads(rng, threads):
    x = rng.normal(size=(3, 50, 70, 40))
    rows = rng.integers(0, 500, 7000)
    table = x.reshape(-1, 60)[:500]
    weight = rng.normal(size=(7000, 60))
    scattered = np.zeros_like(table)
    np.add.at(scattered, rows, weight)
    orders = [(3, 2, 1, 0), (0, 1, 3, 2), (0, 3, 1, 2), (1, 3, 0, 2), (2, 1, 0, 3)]
    for n in (1, 2, 3):
        threads(n)
        tape = ad.Tape("float64")
        X, T = tape.parameter(x), tape.parameter(table)
        for order in orders:
            np.testing.assert_array_equal(ad.transpose(X, order).value, x.transpose(order))
        y = X[::-1, 3:, ::3, 1:]
        np.testing.assert_array_equal(y.value, x[::-1, 3:, ::3, 1:])
        (g,) = ad.grad(ad.sum(y * y), [X])
        expected = np.zeros_like(x)
        expected[::-1, 3:, ::3, 1:] = 2 * x[::-1, 3:, ::3, 1:]
        np.testing.assert_array_equal(g.value, expected)
        line = X.reshape(-1)
        np.testing.assert_array_equal(line[5:].value, x.ravel()[5:])
        np.testing.assert_array_equal(line[::-3].value, x.ravel()[::-3])
        (g,) = ad.grad(ad.sum(T[rows] * weight), [T])
        np.testing.assert_array_equal(g.value, scattered)  # equal order of sums


@pytest.mark.parametrize("shape", [(600, 40, 500), (1500, 30, 700), (90_000, 5, 3)])
def test_products_do_not_depend_on_the_number_of_threads(rng, threads, shape):
    m, k, n = shape
    a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
    results = []
    for count in (1, 2, 3):
        threads(count)
        tape = ad.Tape("float64")
        A, B = tape.parameter(a), tape.parameter(b)
        y = A @ B
        ad.sum(y * y).backward()
        results.append([y.value, (B.T @ A.T).value.T, A.grad, B.grad])
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
    for found in results[0][:2]:
        np.testing.assert_allclose(found, a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((300, 40, 50), None), ((300, 40, 50), 0), ((300, 40, 50), 1), ((300, 40, 50), 2),
     ((3_000_000,), 0), ((1_000_000, 3), 0), ((3, 1_000_000), 1), ((2, 300_000, 5), 1),
     ((700, 2, 700), 1)],
)  # fmt: skip
def test_long_float32_sums_keep_their_digits(rng, shape, axis):
    """Sums are rounded once at the end, but for a few terms; half a unit in the last place is 6e-8.

    A short row is summed as NumPy sums it.
    """
    x = (0.1 * (0.5 + rng.random(shape))).astype(np.float32)
    exact = x.astype(np.float64).sum(axis)
    rtol = 3e-7 if shape[-1] == 50 and axis == 2 else 1.3e-7
    tape = ad.Tape()
    p = tape.parameter(x)
    np.testing.assert_allclose(ad.sum(p, axis).value, exact, rtol=rtol)
    mean = ad.mean(p, axis).value
    np.testing.assert_allclose(mean, exact / (x.size / exact.size), rtol=rtol + 6e-8)
    norm = np.sqrt(np.square(x, dtype=np.float64).sum(axis))
    np.testing.assert_allclose(ad.norm(p, axis).value, norm, rtol=rtol + 6e-8)
    # the pullback of repetition
    scale = tape.parameter(np.ones(exact.shape, np.float32))
    if axis is not None:
        scale = ad.reshape(scale, np.expand_dims(exact, axis).shape)
    (g,) = ad.grad(ad.sum(p * scale), [scale])
    np.testing.assert_allclose(g.value.reshape(exact.shape), exact, rtol=rtol)


def test_sums_of_equal_float32_numbers_have_no_drift():
    x = np.full(3_000_000, 0.1, np.float32)
    found = float(ad.sum(ad.Tape().constant(x)).value)
    assert abs(found / x.astype(np.float64).sum() - 1) < 6.1e-8


@pytest.mark.parametrize("axis", [0, 1])
def test_long_float32_softmax(rng, axis):
    x = rng.random((500_000, 2) if axis == 0 else (2, 500_000)).astype(np.float32)
    y = np.exp(x.astype(np.float64))
    found = ad.softmax(ad.Tape().constant(x), axis).value
    np.testing.assert_allclose(found, y / y.sum(axis, keepdims=True), rtol=1e-6)


def test_long_float32_products_keep_their_digits(rng):
    x = rng.random((50_000, 8)).astype(np.float32)
    y = rng.random((50_000, 4)).astype(np.float32)
    tape = ad.Tape()
    found = (tape.constant(x).T @ tape.constant(y)).value
    np.testing.assert_allclose(found, x.T.astype(np.float64) @ y, rtol=1e-6)


def sum_of_rows(axis):
    x = ad.Tape().constant(np.ones((1000, 20000) if axis == 0 else (20000, 1000), np.float32))
    return lambda: (ad.sum(x, axis).value,)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_take_little_memory(axis):
    assert temporary_bytes(sum_of_rows, axis) < 8e6  # x has 80e6 bytes

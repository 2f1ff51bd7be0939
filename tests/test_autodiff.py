# SPDX-License-Identifier: MIT
"""The tape: every operation to second order, errors, memory, optimizers."""

import array
import copy
import gc
import os
import pickle
import resource

import numpy as np
import pytest
from scipy.special import erf

import gnograd as gg
import gnograd.autodiff as ad
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def smooth(*shape):
    return np.random.default_rng(np.prod(shape, dtype=int)).normal(size=shape)


def positive(*shape):
    return 0.5 + np.abs(smooth(*shape))


def apart(*shape):
    """No entry near 0, where relu has its kink."""
    x = smooth(*shape)
    return x + np.copysign(0.2, x)


# name: (operation on the tape, the same in NumPy, inputs)
OPERATIONS = {
    "add": (lambda a, b: a + b, np.add, [smooth(3, 4), positive(3, 4)]),
    "subtract": (lambda a, b: a - b, np.subtract, [smooth(3, 4), positive(3, 4)]),
    "multiply": (lambda a, b: a * b, np.multiply, [smooth(3, 4), positive(3, 4)]),
    "divide": (lambda a, b: a / b, np.divide, [smooth(3, 4), positive(3, 4)]),
    "power": (lambda a, b: a**b, np.power, [positive(3, 4), smooth(3, 4)]),
    "same": (lambda a: a * a + a / a, lambda a: a * a + a / a, [positive(5)]),
    "bias": (lambda a, b: a + b, np.add, [smooth(5, 3), smooth(3)]),
    "bias first": (lambda a, b: a * b, np.multiply, [smooth(3), smooth(5, 3)]),
    "columns": (lambda a, b: a / b, np.divide, [smooth(5, 3), positive(5, 1)]),
    "outer": (lambda a, b: a * b, np.multiply, [smooth(5, 1), smooth(1, 3)]),
    "scalar array": (lambda a, b: a * b, np.multiply, [smooth(5, 2), smooth()]),
    "ranks": (lambda a, b: a - b, np.subtract, [smooth(2, 3, 4), smooth(3, 1)]),
    "four axes": (lambda a, b: a * b, np.multiply, [smooth(2, 1, 3, 1), smooth(2, 2, 1, 2)]),
    "number right": (lambda a: (a + 2) * 3 - 1.5, lambda a: (a + 2) * 3 - 1.5, [smooth(4)]),
    "number left": (lambda a: 2 - 3 * (1 / a), lambda a: 2 - 3 * (1 / a), [positive(4)]),
    "number power": (lambda a: 2.0**a, lambda a: 2.0**a, [smooth(4)]),
    "square": (lambda a: a**2, np.square, [smooth(4)]),
    "cube": (lambda a: a**3, lambda a: a**3, [smooth(4)]),
    "power -2": (lambda a: a**-2, lambda a: a**-2.0, [positive(4)]),
    "power 1.5": (lambda a: a**1.5, lambda a: a**1.5, [positive(4)]),
    "power 0.5": (lambda a: a**0.5, np.sqrt, [positive(4)]),
    "power -0.5": (lambda a: a**-0.5, lambda a: 1 / np.sqrt(a), [positive(4)]),
    "power -1": (lambda a: a**-1, lambda a: 1 / a, [positive(4)]),
    "power 7": (lambda a: a**7, lambda a: a**7, [positive(4) / 2]),
    "power 1": (lambda a: a**1 + a**0, lambda a: a + 1, [smooth(4)]),
    "array left": (lambda a: np.full(4, 2, a.dtype) - a, lambda a: 2 - a, [smooth(4)]),
    "negative": (lambda a: -a, np.negative, [smooth(3, 2)]),
    "exp": (ad.exp, np.exp, [smooth(3, 2)]),
    "log": (ad.log, np.log, [positive(3, 2)]),
    "sqrt": (ad.sqrt, np.sqrt, [positive(3, 2)]),
    "sin": (ad.sin, np.sin, [smooth(3, 2)]),
    "cos": (ad.cos, np.cos, [smooth(3, 2)]),
    "tanh": (ad.tanh, np.tanh, [smooth(3, 2)]),
    "relu": (ad.relu, lambda x: np.maximum(x, 0), [apart(3, 5)]),
    "gelu": (ad.gelu, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, [smooth(3, 5)]),
    "silu": (ad.silu, lambda x: x * sigmoid(x), [smooth(3, 5)]),
    "sigmoid": (ad.sigmoid, sigmoid, [smooth(3, 5)]),
    "softmax": (ad.softmax, softmax, [smooth(3, 4)]),
    "softmax middle": (lambda x: ad.softmax(x, 1), lambda x: softmax(x, 1), [smooth(2, 4, 5)]),
    "softmax first": (lambda x: ad.softmax(x, 0), lambda x: softmax(x, 0), [smooth(3, 4, 2)]),
    "matmul": (ad.matmul, np.matmul, [smooth(3, 4), smooth(4, 2)]),
    "matrix vector": (lambda a, b: a @ b, np.matmul, [smooth(3, 4), smooth(4)]),
    "vector matrix": (lambda a, b: a @ b, np.matmul, [smooth(3), smooth(3, 4)]),
    "constant matrix": (lambda b: np.eye(3, dtype=b.dtype) @ b, lambda b: b, [smooth(3, 2)]),
    "transpose": (lambda x: x.T, np.transpose, [smooth(3, 4)]),
    "transpose axes": (
        lambda x: ad.transpose(x, (1, 3, 0, 2)),
        lambda x: np.transpose(x, (1, 3, 0, 2)),
        [smooth(2, 3, 4, 2)],
    ),
    "transpose last": (
        lambda x: ad.transpose(x, (0, -1, 1)),
        lambda x: np.transpose(x, (0, -1, 1)),
        [smooth(2, 3, 4)],
    ),
    "sum": (ad.sum, np.sum, [smooth(3, 4)]),
    "sum 0": (lambda x: ad.sum(x, 0), lambda x: np.sum(x, 0), [smooth(3, 4)]),
    "sum -1": (lambda x: ad.sum(x, -1), lambda x: np.sum(x, -1), [smooth(3, 4, 2)]),
    "sum middle": (
        lambda x: x.sum(1, keepdims=True),
        lambda x: x.sum(1, keepdims=True),
        [smooth(2, 3, 2, 2)],
    ),
    "sum two": (lambda x: ad.sum(x, (0, -1)), lambda x: np.sum(x, (0, -1)), [smooth(2, 3, 4)]),
    "sum none": (
        lambda x: ad.sum(x, None, keepdims=True),
        lambda x: np.sum(x, keepdims=True),
        [smooth(2, 3)],
    ),
    "mean": (ad.mean, np.mean, [smooth(3, 4)]),
    "mean 1": (lambda x: x.mean(1), lambda x: x.mean(1), [smooth(3, 4)]),
    "norm": (ad.norm, np.linalg.norm, [smooth(3, 4)]),
    "norm 0": (
        lambda x: ad.norm(x, 0),
        lambda x: np.linalg.norm(x, axis=0),
        [smooth(3, 4)],
    ),
    "norm 1": (
        lambda x: ad.norm(x, 1, keepdims=True),
        lambda x: np.linalg.norm(x, axis=1, keepdims=True),
        [smooth(3, 4, 2)],
    ),
    "reshape": (lambda x: x.reshape(2, -1), lambda x: x.reshape(2, -1), [smooth(4, 3)]),
    "slice": (lambda x: x[1:, ::2], lambda x: x[1:, ::2], [smooth(4, 5)]),
    "slice back": (lambda x: x[::-2, 1], lambda x: x[::-2, 1], [smooth(5, 3)]),
    "slice none": (lambda x: x[..., None, -1], lambda x: x[..., None, -1], [smooth(2, 3, 4)]),
    "slice empty": (lambda x: x[2:2], lambda x: x[2:2], [smooth(4, 3)]),
    "rows": (lambda x: x[[0, 2, 2, -1]], lambda x: x[[0, 2, 2, -1]], [smooth(4, 3)]),
    "rows of vector": (lambda x: x[[1, 1]], lambda x: x[[1, 1]], [smooth(4)]),
    "concatenate": (
        lambda *x: ad.concatenate(x),
        lambda *x: np.concatenate(x),
        [smooth(2, 3), smooth(1, 3), smooth(4, 3)],
    ),
    "concatenate last": (
        lambda *x: ad.concatenate(x, -1),
        lambda *x: np.concatenate(x, -1),
        [smooth(2, 3), smooth(2, 1)],
    ),
    "empty": (
        lambda a, b: a * b + ad.exp(a),
        lambda a, b: a * b + np.exp(a),
        [smooth(0, 3), smooth(3)],
    ),
}  # fmt: skip


@pytest.fixture(params=OPERATIONS.values(), ids=OPERATIONS.keys())
def operation(request):
    return request.param


def central(f, inputs, step=1e-6):
    """Gradients of a number f(inputs) by central differences."""
    gradients = []
    for k, x in enumerate(inputs):
        gradient = np.zeros(np.shape(x))
        for entry in np.ndindex(gradient.shape):
            sides = []
            for side in (step, -step):
                moved = [np.array(y, np.float64) for y in inputs]
                moved[k][entry] += side
                sides.append(f(*moved))
            gradient[entry] = (sides[0] - sides[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def weighted(tape, y, seed=0):
    """A number that depends on y in an uneven, nonlinear way."""
    weights = np.random.default_rng(seed).normal(size=y.shape).astype(y.dtype)
    return ad.sum(tape.constant(weights) * ad.sin(y))


def weighted_numpy(y, seed=0):
    return np.sum(np.random.default_rng(seed).normal(size=y.shape) * np.sin(y))


# ---- forward, first and second order ----


def test_value(operation):
    on_tape, in_numpy, inputs = operation
    tape = ad.Tape("float64")
    y = on_tape(*(tape.parameter(x) for x in inputs))
    expected = np.asarray(in_numpy(*inputs))
    assert y.shape == expected.shape
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.value, expected, rtol=1e-13, atol=1e-14)


def test_value_in_float32(operation):
    on_tape, in_numpy, inputs = operation
    single = [np.asarray(x, np.float32) for x in inputs]
    tape = ad.Tape("float32")
    y = on_tape(*(tape.parameter(x) for x in single))
    exact = np.asarray(in_numpy(*(x.astype(np.float64) for x in single)))
    plain = np.asarray(in_numpy(*single))
    assert y.dtype == np.float32
    scale = np.abs(exact).max(initial=1e-30)
    allowed = 2 * np.abs(plain - exact).max(initial=0) + 4 * np.finfo(np.float32).eps * scale
    assert np.abs(y.value - exact).max(initial=0) <= allowed


def test_gradient(operation):
    on_tape, in_numpy, inputs = operation
    tape = ad.Tape("float64")
    x = [tape.parameter(value) for value in inputs]
    gradients = ad.grad(weighted(tape, on_tape(*x)), x)
    expected = central(lambda *x: weighted_numpy(in_numpy(*x)), inputs)
    for gradient, difference in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient.value, difference, rtol=2e-8, atol=2e-8)


def test_second_order(operation):
    """The gradient of a number made of gradients, against differences of the first gradient."""
    on_tape, _, inputs = operation

    def first(tape, values, create_graph):
        x = [tape.parameter(value) for value in values]
        gradients = ad.grad(weighted(tape, on_tape(*x)), x, create_graph=create_graph)
        total = tape.constant(0.0)
        for k, gradient in enumerate(gradients):
            total = total + weighted(tape, gradient, k + 1)
        return x, total

    def number(*values):
        return first(ad.Tape("float64"), values, False)[1].item()

    tape = ad.Tape("float64")
    x, total = first(tape, inputs, True)
    gradients = ad.grad(total, x)
    for gradient, difference in zip(gradients, central(number, inputs), strict=True):
        np.testing.assert_allclose(gradient.value, difference, rtol=2e-7, atol=2e-7)


@pytest.mark.parametrize("name", ["gelu", "silu", "tanh", "sigmoid", "softmax", "norm", "matmul"])
def test_third_order(name):
    on_tape, _, inputs = OPERATIONS[name]

    def second(tape, values, create_graph):
        x = [tape.parameter(value) for value in values]
        (g, *_) = ad.grad(weighted(tape, on_tape(*x)), x, create_graph=True)
        (h, *_) = ad.grad(weighted(tape, g, 1), x, create_graph=create_graph)
        return x, weighted(tape, h, 2)

    tape = ad.Tape("float64")
    x, total = second(tape, inputs, True)
    found = ad.grad(total, x)
    expected = central(lambda *v: second(ad.Tape("float64"), v, False)[1].item(), inputs)
    for gradient, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient.value, difference, rtol=1e-6, atol=1e-6)


# ---- large arrays: pieces and threads ----


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


def test_optimizers_do_not_depend_on_the_number_of_threads(rng, threads):
    x = rng.normal(size=100_000).astype(np.float32)
    for method in (ad.Adam, ad.SGD):
        results = []
        for count in (1, 2, 3):
            threads(count)
            tape = ad.Tape()
            p = tape.parameter(x)
            optimizer = method([p], lr=0.01)
            for _ in range(3):
                with tape.step():
                    ad.sum(ad.sin(p) * p).backward()
                    optimizer.step()
            results.append(p.value)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])


SPECIAL = [-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos"])
def test_elementary_functions_of_anything(rng, name, dtype):
    """Functions are as accurate as NumPy's, with NaN and infinity where they belong."""
    tiny, large = np.finfo(dtype).tiny, np.log(np.finfo(dtype).max)
    wide = {
        "exp": rng.uniform(-1.04 * large, 1.01 * large, 3000),
        "log": np.exp(rng.uniform(np.log(tiny), large, 3000)),
        "sqrt": np.exp(rng.uniform(np.log(tiny), large, 3000)),
    }.get(name, rng.uniform(-1000, 1000, 3000))
    x = np.concatenate([np.tile(SPECIAL, 9), wide, rng.normal(size=1500)]).astype(dtype)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble))
        expected = exact.astype(dtype)
        found = getattr(ad, name)(ad.Tape(dtype).constant(x)).value
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    ulp = np.spacing(np.abs(expected[finite]))
    assert np.max(np.abs(found[finite] - exact[finite]) / ulp) < 4


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1, -1, 2, 3, -2, 7, 1.5])
def test_powers_of_anything(exponent):
    x = np.tile([-1.0, 0.0, 1.0, 3.0, np.inf, np.nan], 9).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = x**exponent
    np.testing.assert_allclose((ad.Tape().constant(x) ** exponent).value, expected, rtol=3e-7)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_of_anything(axis):
    x = np.random.default_rng(0).normal(size=(30, 7, 70)).astype(np.float32)
    x[3, :, 9], x[5, 1], x[7, 2, 3], x[8, 2, 3] = -np.inf, 200, np.nan, np.inf
    x[:, 6, 69] = x[9] = x[:, 5, :] = -np.inf
    with np.errstate(all="ignore"):
        expected = softmax(x.astype(np.float64), axis)
    found = ad.softmax(ad.Tape().constant(x), axis).value
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-37)


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


# ---- the sweep ----


def test_shared_nodes_cost_once():
    tape = ad.Tape("float64")
    x = tape.parameter([1.5])
    y = x
    for _ in range(26):
        y = y + y
    length = len(tape)
    y.backward()
    assert x.grad[0] == 2.0**26
    assert len(tape) == length == 27


def test_without_create_graph_only_the_gradients_stay():
    tape = ad.Tape("float64")
    x, y = tape.parameter(smooth(3)), tape.parameter(smooth(3))
    loss = ad.sum(ad.exp(x * y) / (1 + x * x))
    length = len(tape)
    gradients = ad.grad(loss, [x, y])
    assert len(tape) == length + 2
    assert not gradients[0].requires_grad


def test_gradient_of_computed_arrays_and_repeated_ones():
    tape = ad.Tape("float64")
    x = tape.parameter([2.0, 3.0])
    y = x * x
    loss = ad.sum(y * y)
    for create_graph in (False, True):
        a, b, c, d = ad.grad(loss, [y, x, y, loss], create_graph=create_graph)
        np.testing.assert_array_equal(a.value, [8, 18])
        np.testing.assert_array_equal(b.value, [32, 108])
        np.testing.assert_array_equal(c.value, [8, 18])
        assert d.item() == 1


def test_what_the_loss_does_not_depend_on_has_zero_gradient():
    tape = ad.Tape()
    x, y = tape.parameter([1.0]), tape.parameter([[1.0, 2.0]])
    loss = ad.sum(x * 2)
    for create_graph in (False, True):
        _, gradient = ad.grad(loss, [x, y], create_graph=create_graph)
        np.testing.assert_array_equal(gradient.value, [[0, 0]])
    loss.backward()
    np.testing.assert_array_equal(y.grad, [[0, 0]])


def test_constants_cost_nothing():
    tape = ad.Tape()
    a, b = tape.constant([1.0]), tape.constant([2.0])
    assert not (a * b).requires_grad
    x = tape.parameter([3.0])
    (gradient,) = ad.grad(ad.sum(x * a), [x])
    assert gradient.value == 1
    with pytest.raises(ValueError, match="does not depend on any parameter"):
        ad.grad(ad.sum(x * a), [a])


def test_backward_replaces_or_adds():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 2.0])
    ad.sum(x * x).backward()
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, [2, 4])
    ad.sum(3 * x).backward(add=True)
    np.testing.assert_array_equal(x.grad, [5, 7])
    ad.grad(ad.sum(x), [x])
    np.testing.assert_array_equal(x.grad, [5, 7])


def test_norm_and_powers_have_no_nan_at_zero():
    tape = ad.Tape("float64")
    x = tape.parameter(np.zeros(3))
    loss = ad.norm(x) + ad.sum(x**1) + ad.sum(x**2) + ad.sum(x**0)
    (g,) = ad.grad(loss, [x], create_graph=True)
    np.testing.assert_array_equal(g.value, np.ones(3))
    (h,) = ad.grad(ad.sum(g), [x])
    np.testing.assert_array_equal(h.value, 2 * np.ones(3))


# ---- memory ----


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_ten_thousand_steps_leak_nothing():
    tape = ad.Tape()
    w, b = tape.parameter(np.ones((8, 8), np.float32)), tape.parameter(np.zeros(8, np.float32))
    x = tape.constant(np.ones((50, 8), np.float32))
    adam = ad.Adam([w, b], lr=1e-4)
    length = len(tape)
    for k in range(10_000):
        with tape.step():
            loss = ad.norm(ad.gelu(x @ w + b) - 1)
            loss.backward()
            if k % 10 == 0:
                (g,) = ad.grad(loss, [w], create_graph=True)
                ad.grad(ad.sum(g * g), [w])
        adam.step()
        assert len(tape) == length
        if k == 1000:
            gc.collect()
            before = rss()
    gc.collect()
    assert rss() - before < 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_tapes_are_freed():
    def use():
        tape = ad.Tape("float64")
        x = tape.parameter(np.ones(100_000))
        adam = ad.Adam([x])
        ad.sum(x * x).backward()
        adam.step()

    for k in range(60):
        use()
        if k == 10:
            gc.collect()
            before = rss()
    gc.collect()
    assert rss() - before < 2**22


def test_rewind_ends_arrays():
    tape = ad.Tape()
    x = tape.parameter([1.0])
    mark = tape.mark()
    y = x * 2
    tape.rewind(mark)
    z = x * 3
    with pytest.raises(IndexError, match="no longer on the tape"):
        _ = y.value
    with pytest.raises(IndexError, match="add: an operand is no longer on the tape"):
        _ = x + y
    assert z.value == 3


@pytest.mark.parametrize("mark", [2, 2**31, 2**32, 2**32 + 1, 2**70])
def test_rewind_to_a_mark_beyond_the_end_frees_nothing(mark):
    tape = ad.Tape()
    x = tape.parameter([1.0])
    tape.rewind(mark)
    assert x.value == 1
    with pytest.raises(ValueError, match="the mark is -1"):
        tape.rewind(-1)


def test_what_was_computed_before_a_change_has_no_gradient():
    tape = ad.Tape()
    x = tape.parameter([3.0])
    y = ad.sum(x * x)
    x.value = [1.0]
    with pytest.raises(ValueError, match="changed after it had been used"):
        (y + ad.sum(x)).backward()
    with pytest.raises(ValueError, match="changed after it had been used"):
        ad.grad(y, [x])
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, [2])
    y = ad.sum(x * x)
    ad.SGD([x], lr=0.5).step()
    with pytest.raises(ValueError, match="changed after it had been used"):
        y.backward()


@pytest.mark.parametrize("make", [ad.SGD, ad.Adam])
def test_a_backward_that_failed_leaves_nothing_to_step_along(make):
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 2.0])
    optimizer = make([x], lr=0.1)
    ad.sum(x * x).backward()
    y = ad.sum(x * x)
    x.value = [3.0, 4.0]
    with pytest.raises(ValueError, match="changed after it had been used"):
        y.backward()
    with pytest.raises(ValueError, match=r"optimizer: the last backward .* has failed"):
        optimizer.step()
    np.testing.assert_array_equal(x.value, [3.0, 4.0])
    np.testing.assert_array_equal(x.grad, [0.0, 0.0])
    ad.sum(x * x).backward(add=True)  # a part of a sum
    with pytest.raises(ValueError, match="has failed"):
        optimizer.step()
    assert optimizer.state_dict()["steps"] == 0
    ad.sum(x * x).backward()
    optimizer.step()
    assert (x.value < [3.0, 4.0]).all()


def sum_of_rows(axis):
    x = ad.Tape().constant(np.ones((1000, 20000) if axis == 0 else (20000, 1000), np.float32))
    return lambda: (ad.sum(x, axis).value,)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_take_little_memory(axis):
    assert temporary_bytes(sum_of_rows, axis) < 8e6  # x has 80e6 bytes


# ---- handles ----


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda x: x.tape, "Tape: .* make another Tape"),
        (lambda x: x, r"Array: .*array\.value"),
        (lambda x: ad.Adam([x]), "Adam: .* state_dict"),
        (lambda x: ad.SGD([x], lr=0.1), "SGD: .* state_dict"),
    ],
)
def test_handles_have_no_copies(function, make, advice):
    x = ad.Tape().parameter([1.0])
    with pytest.raises(TypeError, match=advice):
        function(make(x))
    with pytest.raises(TypeError, match=advice):
        function({"in a container": make(x)}) if function is not copy.copy else function(make(x))


def test_graphs_may_go_before_the_gradient(rng):
    def total(x, offsets, indices):
        return ad.sum(ad.agg_simple(x, graph=gg.Graph(offsets, indices, 3)))

    tape = ad.Tape("float64")
    x = tape.parameter(rng.normal(size=(3, 1)))
    for _ in range(3):
        with tape.step():
            loss = total(x, [0, 3], [0, 1, 2])
            gc.collect()
            for _ in range(10):
                loss = loss + total(x, [0, 2, 4, 5], [0, 1, 0, 1, 0])
            loss.backward()
        np.testing.assert_array_equal(x.grad.ravel(), [31, 21, 1])


def c_calls(tape, x):
    """Calls of C functions with a handle x that is none, by name; all return a status or handle."""
    numbers = np.zeros(12, np.int64)
    handles = np.array([x], np.int64)
    here = tape._handle
    like = tape.parameter(np.ones((2, 2), np.float32))
    loss = ad.sum(like * like)._handle
    where = address(numbers)
    return {
        "info": lambda: _core.gnograd_array_info(here, x, where),
        "value": lambda: _core.gnograd_array_value(here, x, where),
        "grad": lambda: _core.gnograd_array_grad(here, x, where),
        "set_value": lambda: _core.gnograd_array_set_value(here, x, where),
        "set_grad": lambda: _core.gnograd_array_set_grad(here, x, where),
        "backward": lambda: _core.gnograd_tape_backward(here, x, 0),
        "gradient": lambda: _core.gnograd_tape_gradient(here, loss, 1, address(handles), 0, where),
        "loss": lambda: _core.gnograd_tape_gradient(here, x, 1, address(handles), 0, where),
        "adam": lambda: _core.gnograd_adam_create(
            here, 1, address(handles), 0.1, 0.9, 0.9, 1e-8, 0, where
        ),
        "adamw": lambda: _core.gnograd_adamw_create(
            here, 1, address(handles), 0.1, 0.9, 0.9, 1e-8, 0, where
        ),
        "exp": lambda: _core.gnograd_array_exp(here, x),
        "add": lambda: _core.gnograd_array_add(here, like._handle, x),
        "scalar": lambda: _core.gnograd_array_scalar(here, x, 1.0),
        "sum_axis": lambda: _core.gnograd_array_sum_axis(here, x, 0, 0),
        "reshape": lambda: _core.gnograd_array_reshape(here, x, 1, where),
        "slice": lambda: _core.gnograd_array_slice(here, x, 1, where, where, where),
        "concatenate": lambda: _core.gnograd_array_concatenate(here, 1, address(handles), 0),
        "gather": lambda: _core.gnograd_array_gather(here, x, 1, where),
    }


CALLS = list(c_calls(ad.Tape(), 0))
RETURN_HANDLES = CALLS[CALLS.index("exp") :]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["null", "stale", "older tape", "newer tape", "nonsense"])
def test_c_refuses_what_is_no_array(kind, name):
    older = ad.Tape()
    there = older.parameter(np.ones((2, 2), np.float32))
    tape = ad.Tape()
    mark = tape.mark()
    stale = tape.parameter(np.ones((2, 2), np.float32))
    tape.rewind(mark)
    newer = ad.Tape()
    elsewhere = newer.parameter(np.ones((2, 2), np.float32))
    x = {
        "null": 0,
        "stale": stale._handle,
        "older tape": there._handle,
        "newer tape": elsewhere._handle,
        "nonsense": -(2**63) + 5,
    }[kind]
    result = c_calls(tape, x)[name]()
    error = _core.gnograd_tape_error(tape._handle)
    if name in RETURN_HANDLES:
        assert result == 0
        assert error != 0
    else:
        assert result != 0
    # neither tape is marked
    assert ad.exp(tape.constant(0.0)).item() == 1
    assert ad.exp(older.constant(0.0)).item() == 1
    assert ad.exp(newer.constant(0.0)).item() == 1


@pytest.mark.parametrize(
    ("kind", "rank", "extents", "message"),
    [
        (64, 2, [2, -3], "leaf: extents has -3, must not be negative"),
        (64, 2, [2**32, 2**32], "no array has such extents"),
        (64, 2, [2**62, 2**62], "no array has such extents"),
        (64, 3, [2**40, 2**40, 0], None),
        (64, -1, [2], "leaf: rank is -1, needs 0 to 4"),
        (64, 5, [2], "leaf: rank is 5, needs 0 to 4"),
        (16, 1, [2], "leaf: kind is 16, needs 32 or 64"),
    ],
)
def test_c_refuses_leaves_that_are_no_arrays(kind, rank, extents, message):
    tape = ad.Tape()
    shape, numbers = np.array(extents, np.int64), np.ones(8)
    x = _core.gnograd_array_leaf(tape._handle, kind, 1, rank, address(shape), address(numbers))
    assert (x == 0) == (message is not None)
    if message:
        with pytest.raises(ValueError, match=message):
            tape._wrap(x)


def test_c_refuses_counts_and_steps_out_of_range():
    tape = ad.Tape()
    x = tape.parameter(np.arange(6.0, dtype=np.float32))
    one = np.ones(4, np.int64)

    def part(first, count, step):
        numbers = [np.array([n], np.int64) for n in (first, count, step)]
        return _core.gnograd_array_slice(tape._handle, x._handle, 1, *map(address, numbers))

    here, where = tape._handle, address(one)
    for call in [
        lambda: _core.gnograd_array_gather(here, x._handle, -1, where),
        lambda: _core.gnograd_array_concatenate(here, 0, where, 0),
        lambda: _core.gnograd_array_concatenate(here, -1, where, 0),
        lambda: _core.gnograd_array_reshape(here, x._handle, -1, where),
        lambda: _core.gnograd_array_transpose(here, x._handle, 1, address(one * 2**32)),
        lambda: part(0, 3, 2**62),
        lambda: part(5, 2, -(2**63)),
        lambda: part(2**63 - 1, 2, 1),
        lambda: part(0, 2**63 - 1, 1),
        lambda: part(0, 3, 0),
    ]:
        assert call() == 0
        assert _core.gnograd_tape_error(here) != 0
    assert _core.gnograd_tape_gradient(here, ad.sum(x)._handle, -1, where, 0, where) != 0
    assert tape._wrap(part(5, 3, -2)).value.tolist() == [5, 3, 1]


# ---- errors ----

MASKED = np.ma.array(np.ones((2, 3), np.float32), mask=True)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda x, y: x + y, ValueError, r"add: shapes \(2, 3\) \+ \(4, 3\) cannot be broadcast"),
        (lambda x, y: x @ y, ValueError, r"matmul: \(2, 3\) @ \(4, 3\): the inner extents differ"),
        (lambda x, y: ad.sum(x) @ y, ValueError, "matmul: .* needs two matrices"),
        (lambda x, y: x + np.ones(3), TypeError, "add: operands of different kinds"),
        (lambda x, y: x.reshape(4, 2), ValueError, r"reshape: \(2, 3\) does not fit into \(4, 2\)"),
        (lambda x, y: ad.sum(x, 2), ValueError, r"sum: \(2, 3\) has no such axis"),
        (lambda x, y: ad.softmax(x, -3), ValueError, r"softmax: \(2, 3\) has no such axis"),
        (lambda x, y: ad.concatenate([x, y], 1), ValueError, r"\(4, 3\) does not fit to \(2, 3\)"),
        (lambda x, y: ad.transpose(x, (0, 0)), ValueError, "transpose: the order of axes"),
        (lambda x, y: x[2], IndexError, "slice: index 2"),
        (lambda x, y: x[0, 0, 0], IndexError, "slice: 3 indices"),
        (lambda x, y: x[[2]], IndexError, "gather: a number outside"),
        (lambda x, y: x[[0.5]], TypeError, "rows are a vector of integers"),
        (lambda x, y: x["a"], TypeError, "an array is indexed by"),
        (lambda x, y: x.backward(), ValueError, r"must be one number, it is \(2, 3\)"),
        (lambda x, y: x.tape.constant(1.0).backward(), ValueError, "does not depend on any"),
        (lambda x, y: x.tape.constant(np.ones((1,) * 5)), ValueError, "more than 4 axes"),
        (lambda x, y: x.tape.constant("a"), TypeError, "needs float32 or float64 numbers"),
        (lambda x, y: x * np.ones(3, np.float16), TypeError, "numbers, got float16"),
        (lambda x, y: x + ad.Tape().constant(1.0), ValueError, "different tapes"),
        (lambda x, y: ad.Tape("int32"), TypeError, "needs float32 or float64"),
        (lambda x, y: ad.softmax(x, (0,)), TypeError, r"softmax: axis is \(0,\), needs an integer"),
        (lambda x, y: ad.softmax(x, 2**31), ValueError, "softmax: axis is 2147483648, needs at mo"),
        (lambda x, y: ad.concatenate([x], (0,)), TypeError, "concatenate: axis is .* an integer"),
        (lambda x, y: ad.concatenate([x], -(2**63)), ValueError, "concatenate: axis is .* at leas"),
        (lambda x, y: ad.norm(x, "0"), TypeError, "norm: axis is '0', needs an integer"),
        (lambda x, y: ad.mean(x, 2**63), ValueError, "mean: axis is .*, needs at most"),
        (lambda x, y: ad.sum(x, (0, 1.0)), TypeError, "sum: axis is 1.0, needs an integer"),
        (lambda x, y: x.reshape(2, 2.7), TypeError, "reshape: shape is 2.7, needs an integer"),
        (lambda x, y: ad.reshape(x, "text"), TypeError, "reshape: shape is 'text', needs an int"),
        (lambda x, y: ad.transpose(x, (0, 3)), ValueError, "transpose: the order of axes"),
        (lambda x, y: ad.transpose(ad.sum(x), (0,)), ValueError, "1 axes for an array with 0"),
        (lambda x, y: x.tape.constant(MASKED), TypeError, "tape: the array is a masked array"),
        (lambda x, y: x + MASKED, TypeError, "tape: the array is a masked array"),
        (lambda x, y: setattr(x, "value", MASKED), TypeError, "value: the array is a masked array"),
        (lambda x, y: x[np.ma.array([0], mask=True)], TypeError, "gather: .* is a masked array"),
        (lambda x, y: x[True], TypeError, "not by bool"),
        (lambda x, y: x[..., ...], IndexError, "slice: an index has one ... at most"),
        (lambda x, y: ad.grad(ad.sum(x), x), TypeError, "grad: arrays is an Array, needs a list"),
        (lambda x, y: ad.grad(ad.sum(x), [np.ones(3)]), TypeError, "grad: .* got ndarray"),
        (lambda x, y: ad.exp(np.ones(3)), TypeError, "needs an Array of a tape, got ndarray"),
        (lambda x, y: ad.sum(np.ones(3)), TypeError, "sum: needs an Array of a tape"),
        (lambda x, y: ad.reshape(np.ones(4), (2, 2)), TypeError, "reshape: needs an Array of a"),
        (lambda x, y: x * [ad.sum(x), 1.0, 1.0], TypeError, "an operand is a list of Arrays"),
        (lambda x, y: setattr(x, "value", x.value + 1j), TypeError, "needs real numbers, got comp"),
        (lambda x, y: setattr(x, "value", x.value.astype(str)), TypeError, "value: needs real num"),
        (lambda x, y: ad.SGD([y], x), TypeError, "optimizer: lr is .* needs a number"),
        (lambda x, y: ad.Adam([x, y, x]), ValueError, "optimizer: a parameter is given twice"),
        (lambda x, y: ad.Adam(x), TypeError, "optimizer: params is an Array, needs a list"),
        (lambda x, y: ad.Adam([x], betas=(0.9,)), ValueError, "betas has 1 numbers, needs 2"),
        (lambda x, y: ad.Adam([x], betas=(1, 0.9)), ValueError, "beta1 must not be negative, and"),
        (lambda x, y: ad.AdamW([x], eps="0"), TypeError, "optimizer: eps is '0', needs a number"),
        (lambda x, y: ad.SGD([x], 0.1).load_state_dict({}), ValueError, "the state has no 'lr'"),
    ],
)
def test_errors(attempt, error, message):
    tape = ad.Tape()
    x, y = tape.parameter(np.ones((2, 3), np.float32)), tape.parameter(np.ones((4, 3), np.float32))
    with pytest.raises(error, match=message):
        attempt(x, y)
    # the tape goes on
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, 2 * np.ones((2, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers_move_along_the_gradient_that_was_set(dtype):
    tape = ad.Tape(dtype)
    x, untouched, empty = tape.parameter([[1.0], [2.0]]), tape.parameter([3.0]), tape.parameter([])
    x.grad = [[4], [-8]]  # before any backward
    empty.grad = []
    np.testing.assert_array_equal(x.grad, [[4.0], [-8.0]])
    ad.SGD([x, untouched, empty], lr=0.25).step()
    np.testing.assert_array_equal(x.value, [[0.0], [4.0]])
    ad.sum(x * x).backward()
    x.grad = 0.5 * x.grad
    ad.SGD([x], lr=1.0).step()
    np.testing.assert_array_equal(x.value, [[0.0], [0.0]])
    ad.sum(x + 1).backward(add=True)
    np.testing.assert_array_equal(x.grad, [[1.0], [5.0]])


def test_gradients_can_be_set_on_parameters_only():
    tape = ad.Tape("float64")
    x, c = tape.parameter([1.0, 2.0]), tape.constant([1.0])
    for other in (c, x * x):
        with pytest.raises(ValueError, match="set_grad: only parameters"):
            other.grad = other.value
    with pytest.raises(ValueError, match=r"grad: the array has shape \(2,\), the values \(1,\)"):
        x.grad = [1.0]


def test_values_can_be_set_on_leaves_only():
    tape = ad.Tape()
    x = tape.parameter([1.0, 2.0])
    x.value = [3, 4]
    np.testing.assert_array_equal(x.value, [3, 4])
    with pytest.raises(ValueError, match="shape"):
        x.value = [1.0]
    with pytest.raises(ValueError, match="only parameters and constants"):
        (x + 1).value = [1.0, 2.0]


def test_numpy_takes_arrays():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 4.0])
    np.testing.assert_array_equal(np.asarray(x), [1, 4])
    np.testing.assert_array_equal(np.asarray(x, np.float32), np.array([1, 4], np.float32))
    assert isinstance(np.ones(2) + x, ad.Array)
    assert isinstance(np.float64(2) * x, ad.Array)
    assert len(x) == 2
    assert [float(y) for y in x] == [1, 4]
    assert float(ad.sum(x)) == 5
    assert repr(x) == "Array(array([1., 4.]))"


# ---- optimizers ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_is_its_formula(rng, dtype, weight_decay):
    tape = ad.Tape(dtype)
    start, target = rng.normal(size=(3, 2)).astype(dtype), rng.normal(size=(3, 2)).astype(dtype)
    x = tape.parameter(start)
    adam = ad.Adam([x], lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=weight_decay)
    p, m, v = start.astype(np.float64), 0.0, 0.0
    for k in range(1, 11):
        adam.lr = 0.1 / k
        with tape.step():
            ad.sum((x - target) ** 4).backward()
        adam.step()
        g = 4 * (p - target) ** 3 + weight_decay * p
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        p = p - 0.1 / k * (m / (1 - 0.8**k)) / (np.sqrt(v / (1 - 0.95**k)) + 1e-6)
    np.testing.assert_allclose(x.value, p, rtol=2e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_adamw_and_clipping_are_those_of_pytorch(rng, dtype, max_norm):
    torch = pytest.importorskip("torch")
    tape = ad.Tape(dtype)
    starts = [rng.normal(size=shape).astype(dtype) for shape in ((3, 2), (4,))]
    x = [tape.parameter(start) for start in starts]
    adam = ad.AdamW(x, lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)
    y = [torch.tensor(start, requires_grad=True) for start in starts]
    theirs = torch.optim.AdamW(y, lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)
    for k in range(10):
        adam.lr = theirs.param_groups[0]["lr"] = 0.1 / (k + 1)
        with tape.step():
            sum(ad.sum((p - k) ** 4) for p in x).backward()
        norm = adam.clip_gradients(max_norm)
        adam.step()
        theirs.zero_grad()
        sum(((p - k) ** 4).sum() for p in y).backward()
        assert norm == pytest.approx(
            float(torch.nn.utils.clip_grad_norm_(y, max_norm)),
            rel=1e-5 if dtype == "float32" else 1e-12,
        )
        theirs.step()
    for ours, other in zip(x, y, strict=True):
        # values of about one, some of which come near zero by subtraction
        np.testing.assert_allclose(
            ours.value, other.detach(), rtol=0, atol=2e-7 if dtype == "float32" else 1e-14
        )


def test_clipping_without_gradients_is_an_error():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, -1.0])
    adam = ad.AdamW([x])
    with tape.step():
        ad.sum(x * x).backward()
        with pytest.raises(ValueError, match="one number"):
            (x * x).backward()
    with pytest.raises(ValueError, match="no gradients"):
        adam.clip_gradients(1.0)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_its_formula(rng, momentum):
    tape = ad.Tape("float64")
    start = rng.normal(size=4)
    x = tape.parameter(start)
    sgd = ad.SGD([x], lr=0.05, momentum=momentum)
    p, s = start.copy(), 0.0
    for _ in range(8):
        with tape.step():
            ad.sum(ad.cos(x)).backward()
        sgd.step()
        s = momentum * s - np.sin(p)
        p = p - 0.05 * s
    np.testing.assert_allclose(x.value, p, rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ad.Adam(x, lr=0.1),
        lambda x: ad.AdamW(x, lr=0.1),
        lambda x: ad.SGD(x, lr=0.1, momentum=0.9),
    ],
)
def test_optimizers_go_on_from_their_state(make):
    def run(optimizer, x, n):
        for _ in range(n):
            with x.tape.step():
                ad.sum(x**4).backward()
            optimizer.step()

    x = ad.Tape("float64").parameter([1.0, 2.0])
    whole = make([x])
    run(whole, x, 10)
    y = ad.Tape("float64").parameter([1.0, 2.0])
    first = make([y])
    run(first, y, 6)
    z = ad.Tape("float64").parameter(y.value)
    second = make([z])
    second.load_state_dict(first.state_dict())
    run(second, z, 4)
    np.testing.assert_array_equal(x.value, z.value)
    with pytest.raises(ValueError, match="has shape"):
        make([ad.Tape().parameter([1.0])]).load_state_dict(first.state_dict())


def test_optimizers_take_parameters_only():
    tape = ad.Tape()
    x = tape.parameter([1.0])
    with pytest.raises(ValueError, match="not a parameter"):
        ad.Adam([x * 2])
    with pytest.raises(ValueError, match="not a parameter"):
        ad.SGD([tape.constant([1.0])], lr=0.1)
    with pytest.raises(ValueError, match="on different tapes"):
        ad.Adam([x, ad.Tape().parameter([1.0])])
    with pytest.raises(ValueError, match="at least one"):
        ad.Adam([])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("base", "exponent", "first", "second"),
    [  # p**q: derivatives by p and q; and pp, pq, qp, qq
        (0.0, 2.0, (0, 0), (2, 0, 0, 0)),
        (0.0, 3.0, (0, 0), (0, 0, 0, 0)),
        (0.0, 1.0, (1, 0), (0, -np.inf, 0, 0)),
        (0.0, 0.5, (np.inf, 0), (-np.inf, np.nan, np.nan, 0)),
        (0.0, -1.0, (-np.inf, -np.inf), None),
        (2.0, 0.0, (0, np.log(2)), (0, 0.5, 0.5, np.log(2) ** 2)),
        (1.0, 0.0, (0, 0), (0, 1, 1, 0)),
        (-2.0, 2.0, (-4, np.nan), None),
    ],
)
def test_powers_at_the_edges_of_their_domain(dtype, base, exponent, first, second):
    """A power of 0 does not change with a positive exponent; other values are those of NumPy."""
    tape = ad.Tape(dtype)
    p, q = (tape.parameter(np.array([x], dtype)) for x in (base, exponent))
    made = ad.grad(ad.sum(p**q), [p, q], create_graph=True)
    close = {"rtol": 1e-6 if dtype == "float32" else 1e-14}
    np.testing.assert_allclose([g.value[0] for g in made], first, **close)
    if second is not None:
        again = [np.ravel(h)[0] for g in made for h in values(ad.grad(ad.sum(g), [p, q]))]
        np.testing.assert_allclose(again, second, **close)
    q = tape.parameter(np.array([exponent], dtype))
    (g,) = values(ad.grad(ad.sum(base**q), [q]))
    np.testing.assert_allclose(g[0], first[1], **close)


def values(arrays):
    return [getattr(array, "value", array) for array in arrays]


@pytest.mark.parametrize("order", ["=", ">", "<"])
def test_integers_have_any_order_of_bytes(order):
    """As in NumPy's front; other sizes are refused there and here by the same name."""
    rng = np.random.default_rng(0)
    h, w = rng.random((3, 4)), rng.random(4)
    ends, sources = np.array([0, 1, 2, 4]), np.array([0, 1, 0, 2], np.int32)
    graph = gg.Graph(ends, sources)
    kinds = np.array([0, 1, 0, 1], np.int32).astype(np.dtype("i4").newbyteorder(order))
    cuts = np.array([0, 2, 3]).astype(np.dtype("i8").newbyteorder(order))
    tape, q = ad.Tape("float64"), h[:, None]
    relational = {"graph": graph, "edge_type": kinds, "n_relations": 2}
    one = ad.agg_relational(tape.constant(h), w, **relational).value
    assert np.array_equal(one, gg.agg_relational(h, w, **relational))
    one = ad.attention(tape.constant(q), q, q, cu_q=cuts, cu_k=cuts).value
    assert np.array_equal(one, gg.attention(q, q, q, cu_q=cuts, cu_k=cuts))
    for front in (gg, ad):
        with pytest.raises(TypeError, match="cu_q is int32, needs int64"):
            front.attention(tape.constant(q) if front is ad else q, q, q, cu_q=kinds, cu_k=cuts)


class Brings:
    """Numbers of a library that NumPy can read, as a column of pandas."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numbers, dtype)


@pytest.mark.parametrize("bring", [Brings, memoryview, lambda a: array.array("d", a)])
def test_numbers_of_other_libraries_keep_their_type(bring):
    """A float64 array was rounded to the type of the tape."""
    third = np.array([1 / 3, 2 / 3])
    tape = ad.Tape("float32")
    x = tape.parameter(bring(third))
    assert x.dtype == np.float64 and np.array_equal(x.value, third)
    assert np.array_equal((x + bring(third)).value, 2 * third)
    assert tape.parameter(third.tolist()).dtype == np.float32
    with pytest.raises(TypeError, match="needs float32 or float64 numbers, got float16"):
        tape.constant(Brings(third.astype(np.float16)))


def test_an_axis_is_named_once():
    x = ad.Tape().parameter(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"sum: axis is \(0, -2\), which names one twice"):
        ad.sum(x, (0, -2))


def test_truth_of_arrays():
    tape = ad.Tape()
    assert tape.constant(2.0) and not tape.constant([0.0])
    with pytest.raises(ValueError, match=r"array: shape \(2,\) is neither true nor false"):
        bool(tape.constant([1.0, 2.0]))

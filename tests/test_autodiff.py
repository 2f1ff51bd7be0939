# SPDX-License-Identifier: MIT
"""Operations on the tape: values, derivatives to third order, special numbers."""

import numpy as np
import pytest
from scipy.special import erf, expit, softmax

import gnograd.autodiff as ad


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
    "silu": (ad.silu, lambda x: x * expit(x), [smooth(3, 5)]),
    "sigmoid": (ad.sigmoid, expit, [smooth(3, 5)]),
    "softmax": (ad.softmax, lambda x: softmax(x, -1), [smooth(3, 4)]),
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


def test_norm_and_powers_have_no_nan_at_zero():
    tape = ad.Tape("float64")
    x = tape.parameter(np.zeros(3))
    loss = ad.norm(x) + ad.sum(x**1) + ad.sum(x**2) + ad.sum(x**0)
    (g,) = ad.grad(loss, [x], create_graph=True)
    np.testing.assert_array_equal(g.value, np.ones(3))
    (h,) = ad.grad(ad.sum(g), [x])
    np.testing.assert_array_equal(h.value, 2 * np.ones(3))


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

# SPDX-License-Identifier: MIT
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
from conftest import Edges, power_law
from memory import needs_linux, temporary_bytes
from reference import gno as reference
from table import FRONT, jets

LAPLACIAN = FRONT["gno_with_laplacian"]


# ---- forward ----


def test_derivatives_are_those_of_the_value(rng):
    """Central differences of the value by the positions, in three dimensions."""
    edges = power_law(8, 30)
    case = jets("hessian", [6, 5], d=3, reduction="mean")
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    x = inputs[1]
    value, gradient, hessian = gg.gno_with_hessian(*inputs, **static)
    laplacian = gg.gno_with_laplacian(*inputs, **static)[2]
    assert_allclose(laplacian, np.einsum("iaaf->if", hessian), rtol=1e-12, atol=1e-12)
    assert_array_equal(hessian, np.swapaxes(hessian, 1, 2))

    def at(shift):
        return gg.gno_with_gradient(inputs[0], x + shift, *inputs[2:], **static)

    step = 1e-5
    for a, unit in enumerate(np.eye(3)):
        ahead, behind = at(step * unit), at(-step * unit)
        assert_allclose((ahead[0] - behind[0]) / (2 * step), gradient[:, a], atol=1e-8)
        assert_allclose((ahead[1] - behind[1]) / (2 * step), hessian[:, a], atol=1e-8)
        assert_array_equal(at(0)[0], value)


def test_one_hidden_layer_is_gno(rng):
    edges = power_law(10, 50)
    inputs = jets("gradient", [6]).inputs(edges, rng)
    h, x, y, layers, V, b_v = inputs[:6]
    ((U, b_u),) = gg.gno_unpack_layers(layers, 2, [6])
    coords = x[edges.dst] - y[edges.src]
    static = {"graph": edges.graph, "activation": "gelu"}
    value = gg.gno(h, coords, U, b_u, V, b_v, **static)
    assert_allclose(gg.gno_with_gradient(*inputs, widths=[6], **static)[0], value, atol=1e-13)


@pytest.mark.parametrize("activation", sorted(reference.ACTIVATIONS))
def test_activation_and_its_derivatives(activation):
    """One edge and one hidden unit: value, gradient and Laplacian are act, act' and act''.

    The third and the fourth derivative are the jvp and hvp of the Laplacian.
    """
    exact = {
        "relu": lambda t: t if t > 0 else mpmath.mpf(0),
        "gelu": lambda t: t * mpmath.ncdf(t),
        "silu": lambda t: t / (1 + mpmath.exp(-t)),
        "tanh": mpmath.tanh,
        "sin": mpmath.sin,
        "identity": lambda t: t,
    }[activation]
    points = np.array([-30.0, -8.3, -3.1, -1.2, -0.4, 0.3, 1.1, 2.7, 6.5, 25.0])
    n = len(points)
    x, y, one = points[:, None], np.zeros((n, 1)), np.ones((n, 1))
    layers = gg.gno_pack_layers([(np.ones((1, 1)), np.zeros(1))])
    inputs = (None, x, y, layers, np.ones((1, 1)), np.zeros(1))
    static = {
        "graph": gg.Graph.from_edges(range(n), range(n)),
        "widths": [1],
        "kernel": "diagonal",
        "activation": activation,
    }
    outputs = gg.gno_with_laplacian(*inputs, **static)
    along = (None, one, None, None, None, None)
    third = gg.gno_with_laplacian.jvp(inputs, along, **static)[2]
    fourth = gg.gno_with_laplacian.hvp((None, None, one), inputs, along, {"x"}, **static)[1]
    found = np.stack([np.ravel(a) for a in (*outputs, third, fourth)])
    with mpmath.workdps(60):
        for k, t in enumerate(points):
            taylor = mpmath.taylor(exact, mpmath.mpf(t), 4)
            expected = [float(c * mpmath.factorial(m)) for m, c in enumerate(taylor)]
            assert_allclose(found[:, k], expected, rtol=1e-12, atol=1e-14)


# ---- the loss of a physics-informed network ----


def test_gradient_of_a_laplacian_loss(rng):
    """Parameter gradients of mean((laplacian - u^3 - f)^2) against central differences of it.

    A mean over neighbours, where a backward pass through a segmented reduction that is not itself
    differentiable loses whole terms.
    """
    n = 40
    points = rng.random((n, 2))
    graph = gg.Graph.radius(points, 0.3)
    case = jets("laplacian", [12, 8], F_out=1, activation="gelu", reduction="mean")
    edges = Edges(graph.src, graph.dst, n, n)
    h, _, _, layers, V, b_v, *_ = case.inputs(edges, rng)
    inputs, static = (h, points, points, layers, V, b_v), case.arguments(edges)
    f = rng.normal(size=(n, 1))

    def loss(*inputs):
        u, _, laplacian = gg.gno_with_laplacian(*inputs, **static)
        return np.mean((laplacian - u**3 - f) ** 2)

    u, _, laplacian = gg.gno_with_laplacian(*inputs, **static)
    residual = 2 * (laplacian - u**3 - f) / n
    cotangents = (-3 * u**2 * residual, None, residual)
    gradients = gg.gno_with_laplacian.vjp(cotangents, inputs, **static)
    step = 1e-5
    for k, x in enumerate(inputs):
        difference = np.zeros_like(x)
        for entry in np.ndindex(x.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in inputs]
                moved[k][entry] += sign * step
                sides.append(loss(*moved))
            difference[entry] = (sides[0] - sides[1]) / (2 * step)
        error = np.linalg.norm(gradients[k] - difference) / np.linalg.norm(difference)
        assert error < 1e-6, gg.gno_with_laplacian.inputs[k]

    # and the Laplacian itself, against second differences of fourth order
    def value(shift):
        return gg.gno_with_laplacian(h, points + shift, *inputs[2:], **static)[0]

    step = 1e-3
    second = -5 * u
    for unit in np.eye(2) * step:
        near, far = value(unit) + value(-unit), value(2 * unit) + value(-2 * unit)
        second = second + (16 * near - far) / 12
    assert np.linalg.norm(second / step**2 - laplacian) < 1e-6 * np.linalg.norm(laplacian)


# ---- errors ----


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"widths": []}, ValueError, "gno_with_laplacian: widths is empty"),
        ({"widths": [5, 0]}, ValueError, r"gno_with_laplacian: widths\[1\] is 0, needs at least 1"),
        ({"widths": 5}, TypeError, "gno_with_laplacian: widths is 5, needs a list of integers"),
        ({"widths": [5, 5]}, ValueError, "gno_with_laplacian: layers has shape"),
        ({"edge_weight": None}, ValueError, "gno_with_laplacian: weight_derivatives goes with"),
    ],
)
def test_errors(rng, changes, error, message):
    edges = power_law(10, 50)
    named = dict(zip(gg.gno_with_laplacian.inputs, LAPLACIAN.inputs(edges, rng), strict=True))
    with pytest.raises(error, match=message):
        gg.gno_with_laplacian(**{**named, **LAPLACIAN.arguments(edges), **changes})


# ---- packed layers ----


def test_pack_and_unpack(rng):
    layers = [(rng.normal(size=(2, 5)), rng.normal(size=5)), (rng.normal(size=(5, 3)), np.ones(3))]
    packed = gg.gno_pack_layers(layers)
    for (U, b), (V, c) in zip(gg.gno_unpack_layers(packed, 2, [5, 3]), layers, strict=True):
        assert_array_equal(U, V)
        assert_array_equal(b, c)
        assert np.shares_memory(U, packed)
    for wrong in (packed[1:], np.repeat(packed, 2)[::2]):
        with pytest.raises(ValueError, match="gno_unpack_layers: packed"):
            gg.gno_unpack_layers(wrong, 2, [5, 3])
    with pytest.raises(TypeError, match=r"^gno_unpack_layers: n_in is 2\.0, needs an integer"):
        gg.gno_unpack_layers(packed, 2.0, [5, 3])
    with pytest.raises(ValueError, match=r"^gno_unpack_layers: widths\[1\] is -3, needs"):
        gg.gno_unpack_layers(packed, 2, [5, -3])


class Tensor:
    """Stands for what becomes an array without its gradient."""

    shape = (2, 3)

    def __array__(self, dtype=None, copy=None):
        return np.ones(self.shape)


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([(np.ones((2, 5)), np.ones(4))], ValueError, r"U_1 and b_1 have shapes \(2, 5\) and"),
        ([(np.ones((2, 3)), np.ones(3))] * 2, ValueError, r"U_2 .* need \(3, width\)"),
        ([(np.ones(3), np.ones(3))], ValueError, r".* need \(width before, width\) and \(width,\)"),
        ([(Tensor(), np.ones(3))], TypeError, "U_1 is of type Tensor, needs a NumPy array; torch"),
        ([(np.ones((2, 3)), np.ma.ones(3))], TypeError, "b_1 is a masked array"),
    ],
)  # fmt: skip
def test_what_is_not_packed(layers, error, message):
    with pytest.raises(error, match=f"gno_pack_layers: {message}"):
        gg.gno_pack_layers(layers)
    with pytest.raises(TypeError, match="gno_unpack_layers: packed is of type NoneType"):
        gg.gno_unpack_layers(None, 2, [5])


# ---- memory ----

WIDTHS, F = [64, 64], 32


def documented_bytes(n_edges: int, threads: int) -> int:
    """Peak temporary memory by the docstring, float64."""
    width = sum(WIDTHS) + 2
    packed = 3 * 64 + 65 * 64 + 65 * F * F
    sums = min(64 * 8 * packed, max(2**26, 8 * 8 * packed))
    thread = 8 * (8 * packed // 8 + 32 * 4 * (16 * width + 2 * F)) + 6 * 2**20
    return 8 * 2 * n_edges + sums + threads * thread


def large_laplacian(face):
    return faces.large_call(jets("laplacian", WIDTHS, F_in=F, F_out=F), face, 2000, 20_000)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("face", ["vjp", "jvp", "hvp"])
def test_peak_memory_is_as_documented(face):
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(large_laplacian, face)
    assert measured <= documented_bytes(20_000, 2) + slack

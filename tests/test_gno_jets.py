# SPDX-License-Identifier: MIT
from dataclasses import replace
from functools import partial

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
from conftest import GRAPHS, Edges, power_law
from faces import Case, Joined, join
from memory import needs_linux, temporary_bytes
from reference import gno as reference_gno
from reference import gno_jets as reference

OPERATORS = {
    "gno_with_gradient": lambda d: d,
    "gno_with_laplacian": lambda d: d + 1,
    "gno_with_hessian": lambda d: d + d * (d + 1) // 2,
}
"""Derivatives that a weight may have."""


def jets(name, widths, *, d=2, h=True, weights=0, f=(3, 2), **static):
    """A case in d dimensions; weights: 0 none, 1 constant, 2 with derivatives."""
    f_in, f_out = f
    kernel = (f_in, f_out) if static.get("kernel", "full") == "full" else (f_in,)
    n_in = 2 * d if static.get("geometry") == "pair" else d
    label = "-".join([f"{d}D", *(["no-h"] * (not h)), f"weights{weights}"])

    def make(edges: Edges, rng: np.random.Generator) -> tuple:
        layers = [
            (rng.normal(size=(before, width)) / np.sqrt(before), rng.normal(size=width))
            for before, width in zip([n_in, *widths[:-1]], widths, strict=True)
        ]
        return (
            rng.normal(size=(edges.n_src, f_in)) if h else None,
            rng.normal(size=(edges.n_dst, d)),
            rng.normal(size=(edges.n_src, d)),
            gg.gno_pack_layers(layers),
            rng.normal(size=(widths[-1], *kernel)),
            rng.normal(size=kernel),
            rng.normal(size=edges.n_edges) if weights else None,
            rng.normal(size=(edges.n_edges, OPERATORS[name](d))) if weights > 1 else None,
        )

    def formula(*inputs, kernel="full", **arguments):
        return join(getattr(reference, name)(*inputs, **arguments))

    operator = Joined(getattr(gg, name))
    return Case(operator, formula, make, {"widths": widths, **static}, label)


LAPLACIAN = jets("gno_with_laplacian", [5, 4], weights=2, reduction="mean", activation="tanh")
FEW = [
    jets("gno_with_gradient", [5], weights=1, geometry="pair"),
    LAPLACIAN,
    jets("gno_with_laplacian", [4], d=3, kernel="diagonal", weights=1, activation="silu"),
    jets("gno_with_hessian", [4, 3], weights=2, kernel="diagonal", geometry="pair"),
]
MANY = [
    *FEW,
    *(
        jets("gno_with_laplacian", [4, 3], activation=name)
        for name in sorted(reference_gno.ACTIVATIONS)
    ),
    jets("gno_with_gradient", [3, 4, 2], d=1, weights=2, activation="sin"),
    jets("gno_with_laplacian", [4], h=False, kernel="diagonal", reduction="mean"),
    jets("gno_with_laplacian", [4], d=1, geometry="pair", activation="tanh"),
    jets("gno_with_hessian", [4], d=3, f=(1, 1), activation="sin"),
    jets("gno_with_hessian", [3], h=False, kernel="diagonal", weights=2, activation="silu"),
]
every_case = pytest.mark.parametrize("case", MANY, ids=str)
few_cases = pytest.mark.parametrize("case", FEW, ids=str)


# ---- forward ----


@every_case
def test_forward(case, any_graph, rng):
    faces.check_forward(case, any_graph, rng)


@pytest.mark.parametrize("widths", [[1], [16], [17, 33], [64, 2], [7, 16, 5]])
@pytest.mark.parametrize("f", [(1, 1), (9, 1), (1, 20), (32, 16)])
def test_sizes_of_every_kind(widths, f, rng):
    for kernel in ("full", "diagonal"):
        case = jets("gno_with_laplacian", widths, f=f, kernel=kernel, weights=1)
        faces.check_forward(case, power_law(30, 150), rng)


def test_derivatives_are_those_of_the_value(rng):
    """Central differences of the value by the positions, in three dimensions."""
    edges = power_law(8, 30)
    case = jets("gno_with_hessian", [6, 5], d=3, reduction="mean")
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
    inputs = jets("gno_with_gradient", [6]).inputs(edges, rng)
    h, x, y, layers, V, b_v = inputs[:6]
    ((U, b_u),) = gg.gno_unpack_layers(layers, 2, [6])
    coords = x[edges.dst] - y[edges.src]
    static = {"graph": edges.graph, "activation": "gelu"}
    value = gg.gno(h, coords, U, b_u, V, b_v, **static)
    assert_allclose(gg.gno_with_gradient(*inputs, widths=[6], **static)[0], value, atol=1e-13)


@pytest.mark.parametrize("activation", sorted(reference_gno.ACTIVATIONS))
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


# ---- vjp ----


@every_case
def test_vjp(case, any_graph, rng):
    faces.check_vjp(case, any_graph, rng)


@few_cases
def test_gradients_do_not_depend_on_which_are_wanted(case, rng):
    faces.check_wrt(case, power_law(10, 50), rng)


@few_cases
def test_absent_cotangents_are_zero(case, rng):
    edges = power_law(10, 50)
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    operator = case.operator.operator
    outputs = operator(*inputs, **static)
    tangents = faces.like(inputs, rng)
    for k, kept in enumerate(outputs):
        some = [None] * len(outputs)
        some[k] = kept
        full = tuple(
            c if c is not None else np.zeros_like(o) for c, o in zip(some, outputs, strict=True)
        )
        for face, *rest in (("vjp", inputs), ("hvp", inputs, tangents)):
            call = partial(getattr(operator, face), **static)
            faces.assert_all_close(call(tuple(some), *rest), call(full, *rest), rtol=1e-13)


# ---- jvp ----


@every_case
def test_jvp(case, any_graph, rng):
    faces.check_jvp(case, any_graph, rng)


@every_case
def test_absent_tangent_is_zero(case, rng):
    faces.check_absent_tangents(case, power_law(10, 50), rng)


@few_cases
def test_vjp_and_jvp_are_adjoint(case, any_graph, rng):
    faces.check_adjoint(case, any_graph, rng)


# ---- hvp ----


@every_case
def test_hvp(case, any_graph, rng):
    faces.check_hvp(case, any_graph, rng)


@few_cases
def test_hvp_is_the_derivative_of_vjp(case, rng):
    faces.check_hvp_differences(case, power_law(60, 500), rng)


@few_cases
def test_hvp_is_symmetric(case, any_graph, rng):
    faces.check_symmetric(case, any_graph, rng)


# ---- the loss of a physics-informed network ----


def test_gradient_of_a_laplacian_loss(rng):
    """Parameter gradients of mean((laplacian - u^3 - f)^2) against central differences of it.

    A mean over neighbours, where a backward pass through a segmented reduction that is not itself
    differentiable loses whole terms.
    """
    n = 40
    points = rng.random((n, 2))
    graph = gg.Graph.radius(points, 0.3)
    case = jets("gno_with_laplacian", [12, 8], f=(3, 1), activation="gelu", reduction="mean")
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


# ---- float32 ----


@few_cases
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    faces.check_float32(case, power_law(10, 40), rng)


def test_float32_sums_over_many_edges(rng):
    """The error of gradients to the parameters does not grow with the number of edges."""
    case = jets("gno_with_laplacian", [8, 8], reduction="sum")
    for n_edges in (2000, 100_000):
        edges = power_law(100, n_edges)
        inputs, static = case.inputs(edges, rng), case.arguments(edges)
        cotangent = 1 + rng.normal(size=case.operator(*inputs, **static).shape)
        single = faces.convert(inputs, np.float32)
        exact = case.operator.vjp(cotangent, faces.convert(single, float), **static)
        actual = case.operator.vjp(cotangent.astype(np.float32), single, **static)
        assert np.all(faces.error(actual, exact)[:-1] < 3e-6)


# ---- degenerate graphs (all faces run on every graph above) ----


@few_cases
def test_nodes_without_edges(case, rng):
    edges = GRAPHS["isolated nodes"]
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    operator = case.operator.operator
    alone = np.bincount(edges.dst, minlength=edges.n_dst) == 0
    tangents = faces.like(inputs, rng)
    cotangents = []
    for array in (*operator(*inputs, **static), *operator.jvp(inputs, tangents, **static)):
        assert np.all(array[alone] == 0)
        assert np.all(array[~alone] != 0)
        cotangent = np.zeros_like(array)
        cotangent[alone] = 1e300
        cotangents.append(cotangent)
    cotangents = tuple(cotangents[: len(cotangents) // 2])
    for gradients in (
        operator.vjp(cotangents, inputs, **static),
        operator.hvp(cotangents, inputs, tangents, **static),
    ):
        assert all(np.all(g == 0) for g in gradients if g is not None)


def test_inputs_are_left_alone(rng):
    edges = power_law(10, 50)
    inputs, static = LAPLACIAN.inputs(edges, rng), LAPLACIAN.arguments(edges)
    before = [x.copy() for x in inputs]
    out = LAPLACIAN.operator(*inputs, **static)
    LAPLACIAN.operator.hvp(out, inputs, inputs, **static)
    for x, y in zip(inputs, before, strict=True):
        assert_array_equal(x, y)


# ---- errors ----


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"widths": []}, ValueError, "gno_with_laplacian: widths is empty"),
        ({"widths": [5, 0]}, ValueError, r"gno_with_laplacian: widths\[1\] is 0, needs at least 1"),
        ({"widths": 5}, TypeError, "gno_with_laplacian: widths is 5, needs a list of integers"),
        ({"widths": [5, 5]}, ValueError, "gno_with_laplacian: layers has shape"),
        ({"geometry": "both"}, ValueError, "gno_with_laplacian: geometry is 'both'"),
        ({"activation": "swish"}, ValueError, "gno_with_laplacian: activation"),
        ({"reduction": "max"}, ValueError, "gno_with_laplacian: reduction"),
        ({"x": np.ones((3, 3))}, ValueError, r"gno_with_laplacian: x has shape \(3, 3\)"),
        ({"y": np.ones((10, 3))}, ValueError, r"gno_with_laplacian: y has shape"),
        ({"h": None}, TypeError, "gno_with_laplacian: h is missing"),
        ({"V": np.ones((4, 3, 2), np.float32)}, TypeError, "gno_with_laplacian: h is float64 but"),
        ({"edge_weight": None}, ValueError, "gno_with_laplacian: weight_derivatives goes with"),
        ({"weight_derivatives": np.ones((50, 2))}, ValueError, "weight_derivatives has shape"),
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
    case = replace(jets("gno_with_laplacian", WIDTHS, f=(F, F)), operator=gg.gno_with_laplacian)
    return faces.large_call(case, face, 2000, 20_000)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("face", ["vjp", "jvp", "hvp"])
def test_peak_memory_is_as_documented(face):
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(large_laplacian, face)
    assert measured <= documented_bytes(20_000, 2) + slack


# ---- determinism ----


@few_cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_for_any_number_of_threads(case, dtype, threads, rng):
    faces.check_threads(case, power_law(300, 9000), rng, dtype, threads)

# SPDX-License-Identifier: MIT
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calls
import faces
import gnograd as gg
import gnograd.autodiff as ad
from conftest import GRAPHS, Edges, power_law
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes
from reference import derivatives
from reference import gno as reference

ACTIVATIONS = sorted(reference.ACTIVATIONS)


@dataclass(frozen=True)
class Sizes:
    d: int = 2
    hidden: int = 5
    f_in: int = 3
    f_out: int = 4


@dataclass(frozen=True)
class Variant:
    """An operator with static arguments and a choice of the arrays that may be absent."""

    operator: gg.Operator
    static: dict[str, Any] = field(default_factory=dict)
    h: bool = True
    weighted: bool = False

    def __str__(self) -> str:
        words = [self.operator.name, *self.static.values()]
        words += [] if self.h else ["no-h"]
        return "-".join(words + (["weighted"] if self.weighted else []))

    def inputs(self, edges: Edges, rng, sizes: Sizes = Sizes()) -> tuple:
        diagonal = self.static.get("kernel") == "diagonal"
        kernel = (sizes.f_in,) if diagonal else (sizes.f_in, sizes.f_out)
        shapes = {
            "h": (edges.n_src, sizes.f_in) if self.h else None,
            "coords": (edges.n_edges, sizes.d),
            "U": (sizes.d, sizes.hidden),
            "b_u": (sizes.hidden,),
            "V": (sizes.hidden, *kernel),
            "b_v": kernel,
            "edge_weight": (edges.n_edges,) if self.weighted else None,
            "hid": (edges.n_edges, sizes.hidden),
            "kappa": (edges.n_edges, *kernel),
        }
        wanted = [shapes[name] for name in self.operator.inputs]
        return tuple(None if shape is None else rng.normal(size=shape) for shape in wanted)

    def arguments(self, edges: Edges) -> dict[str, Any]:
        """Static arguments for the operator."""
        return self.static | ({"graph": edges.graph} if "graph" in self.operator.static else {})

    def formula(self, edges: Edges):
        """The reference as a function of the inputs."""
        static = {name: value for name, value in self.static.items() if name != "kernel"}
        if "graph" in self.operator.static:
            static |= {"src": edges.src, "dst": edges.dst, "n_dst": edges.n_dst}
        return partial(getattr(reference, self.operator.name), **static)


KERNEL = Variant(gg.gno_kernel, {"activation": "tanh"})
AGGREGATE = Variant(gg.gno_aggregate, {"reduction": "mean"})
WEIGHTED = Variant(gg.gno, {"activation": "gelu", "reduction": "mean"}, weighted=True)
FEW = [
    KERNEL,
    AGGREGATE,
    Variant(gg.gno_contract, {"reduction": "mean", "kernel": "full"}, weighted=True),
    Variant(gg.gno_contract, {"reduction": "sum", "kernel": "diagonal"}, weighted=True),
    WEIGHTED,
    Variant(gg.gno, {"activation": "silu", "kernel": "diagonal"}, weighted=True),
]
MANY = [
    *FEW,
    *(Variant(gg.gno_kernel, {"activation": name}) for name in ACTIVATIONS if name != "tanh"),
    Variant(gg.gno_aggregate, {"reduction": "sum"}),
    Variant(gg.gno_contract, {"reduction": "sum", "kernel": "full"}),
    Variant(gg.gno_contract, {"reduction": "mean", "kernel": "diagonal"}, h=False),
    *(Variant(gg.gno, {"activation": name}) for name in ACTIVATIONS),
    Variant(gg.gno, {"activation": "tanh", "reduction": "mean", "kernel": "diagonal"}),
    Variant(gg.gno, {"activation": "sin", "kernel": "diagonal"}, h=False),
    Variant(gg.gno, {"reduction": "mean", "kernel": "diagonal"}, h=False, weighted=True),
]
every_variant = pytest.mark.parametrize("variant", MANY, ids=str)
few_variants = pytest.mark.parametrize("variant", FEW, ids=str)


def like(arrays, rng):
    """Random arrays of the same shapes."""
    return tuple(None if x is None else rng.normal(size=x.shape).astype(x.dtype) for x in arrays)


def to_single(arrays):
    return tuple(None if x is None else x.astype(np.float32) for x in arrays)


def assert_all_close(actual, expected, **tolerance):
    assert [a is None for a in actual] == [e is None for e in expected]
    for a, e in zip(actual, expected, strict=True):
        if e is not None:
            assert_allclose(a, e, **tolerance)


def inner(left, right):
    return sum(np.sum(a * b) for a, b in zip(left, right, strict=True) if a is not None)


# ---- forward ----


@every_variant
def test_forward(variant, any_graph, rng):
    inputs = variant.inputs(any_graph, rng)
    actual = variant.operator(*inputs, **variant.arguments(any_graph))
    assert_allclose(actual, variant.formula(any_graph)(*inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "sizes", [Sizes(1, 1, 1, 1), Sizes(3, 17, 9, 1), Sizes(4, 33, 1, 20), Sizes(2, 64, 32, 32)]
)
@few_variants
def test_sizes_of_every_kind(variant, sizes, rng):
    edges = power_law(30, 150)
    inputs = variant.inputs(edges, rng, sizes)
    actual = variant.operator(*inputs, **variant.arguments(edges))
    assert_allclose(actual, variant.formula(edges)(*inputs), rtol=1e-11, atol=1e-11)


def test_order_of_the_edge_arrays_is_the_callers(rng):
    edges = power_law(10, 50)
    inputs = WEIGHTED.inputs(edges, rng)
    order = np.argsort(edges.dst, kind="stable")
    by_dst = gg.Graph.from_edges(edges.src[order], edges.dst[order], edges.n_src, edges.n_dst)
    assert by_dst.edge_ids is None
    h, coords, U, b_u, V, b_v, weight = inputs
    expected = gg.gno(h, coords[order], U, b_u, V, b_v, weight[order], graph=by_dst)
    assert_array_equal(gg.gno(*inputs, graph=edges.graph), expected)


def test_two_steps_are_one(rng):
    edges = power_law(10, 50)
    h, *mlp = Variant(gg.gno).inputs(edges, rng)[:6]
    kappa = gg.gno_kernel(*mlp, activation="gelu")
    out = gg.gno_aggregate(h, kappa, graph=edges.graph, reduction="mean")
    one = gg.gno(h, *mlp, graph=edges.graph, activation="gelu", reduction="mean")
    assert_allclose(out, one, rtol=1e-12, atol=1e-12)


# ---- vjp ----


@every_variant
def test_vjp(variant, any_graph, rng):
    inputs = variant.inputs(any_graph, rng)
    formula = variant.formula(any_graph)
    cotangent = rng.normal(size=formula(*inputs).shape)
    actual = variant.operator.vjp(cotangent, inputs, **variant.arguments(any_graph))
    expected = derivatives.vjp(formula, inputs, cotangent)
    assert_all_close(actual, expected, rtol=1e-11, atol=1e-11)


@every_variant
def test_gradients_do_not_depend_on_which_are_wanted(variant, rng):
    edges = power_law(10, 50)
    inputs, static = variant.inputs(edges, rng), variant.arguments(edges)
    cotangent = rng.normal(size=variant.formula(edges)(*inputs).shape)
    tangents = like(inputs, rng)
    for face in (
        partial(variant.operator.vjp, cotangent, inputs, **static),
        partial(variant.operator.hvp, cotangent, inputs, tangents, **static),
    ):
        everything = face()
        for k, name in enumerate(variant.operator.inputs):
            alone = face(wrt=[name])
            assert_all_close(alone, [None] * k + [everything[k]] + [None] * (len(inputs) - k - 1))


def test_coordinate_gradient_of_the_relu_kernel(rng):
    """U diag(U^T c + b_u > 0) (V . g) at every edge."""
    coords, U, b_u, V, b_v = inputs = KERNEL.inputs(power_law(10, 50), rng)
    g = rng.normal(size=(len(coords), *b_v.shape))
    actual = gg.gno_kernel.vjp(g, inputs, wrt=["coords"])[0]
    for e, c in enumerate(coords):
        expected = U @ np.diag(U.T @ c + b_u > 0) @ np.einsum("hio,io->h", V, g[e])
        assert_allclose(actual[e], expected, rtol=1e-12, atol=1e-12)


# ---- jvp ----


@every_variant
def test_jvp(variant, any_graph, rng):
    inputs = variant.inputs(any_graph, rng)
    tangents = like(inputs, rng)
    actual = variant.operator.jvp(inputs, tangents, **variant.arguments(any_graph))
    expected = derivatives.jvp(variant.formula(any_graph), inputs, tangents)
    assert_allclose(actual, expected, rtol=1e-11, atol=1e-11)


@every_variant
def test_absent_tangent_is_zero(variant, rng):
    edges = power_law(10, 50)
    inputs, static = variant.inputs(edges, rng), variant.arguments(edges)
    cotangent = rng.normal(size=variant.formula(edges)(*inputs).shape)
    tangents = like(inputs, rng)
    for kept in range(-1, len(inputs)):
        some = tuple(t if k == kept else None for k, t in enumerate(tangents))
        zeros = tuple(
            t if k == kept or t is None else np.zeros_like(t) for k, t in enumerate(tangents)
        )
        jvp = partial(variant.operator.jvp, inputs, **static)
        hvp = partial(variant.operator.hvp, cotangent, inputs, **static)
        assert_allclose(jvp(some), jvp(zeros), rtol=1e-12, atol=1e-12)
        assert_all_close(hvp(some), hvp(zeros), rtol=1e-12, atol=1e-12)


@few_variants
def test_vjp_and_jvp_are_adjoint(variant, any_graph, rng):
    inputs, static = variant.inputs(any_graph, rng), variant.arguments(any_graph)
    cotangent = rng.normal(size=variant.formula(any_graph)(*inputs).shape)
    tangents = like(inputs, rng)
    gradients = variant.operator.vjp(cotangent, inputs, **static)
    tangent = variant.operator.jvp(inputs, tangents, **static)
    assert_allclose(inner(gradients, tangents), np.sum(cotangent * tangent), rtol=1e-11, atol=1e-11)


# ---- hvp ----


@every_variant
def test_hvp(variant, any_graph, rng):
    inputs = variant.inputs(any_graph, rng)
    formula = variant.formula(any_graph)
    cotangent, tangents = rng.normal(size=formula(*inputs).shape), like(inputs, rng)
    actual = variant.operator.hvp(cotangent, inputs, tangents, **variant.arguments(any_graph))
    expected = derivatives.hvp(formula, inputs, cotangent, tangents)
    assert_all_close(actual, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_hvp_is_the_derivative_of_vjp(activation, rng):
    edges = power_law(30, 200)
    inputs = Variant(gg.gno, weighted=True).inputs(edges, rng, Sizes(3, 16, 8, 8))
    tangents, cotangent = like(inputs, rng), rng.normal(size=(edges.n_dst, 8))
    static = {"graph": edges.graph, "activation": activation}
    step = 1e-6
    ahead, behind = (
        gg.gno.vjp(
            cotangent, [x + s * step * t for x, t in zip(inputs, tangents, strict=True)], **static
        )
        for s in (1, -1)
    )
    for hvp, a, b in zip(
        gg.gno.hvp(cotangent, inputs, tangents, **static), ahead, behind, strict=True
    ):
        difference = (a - b) / (2 * step)
        assert np.linalg.norm(hvp - difference) <= 1e-6 * np.linalg.norm(difference)


@few_variants
def test_hvp_is_symmetric(variant, any_graph, rng):
    inputs, static = variant.inputs(any_graph, rng), variant.arguments(any_graph)
    cotangent = rng.normal(size=variant.formula(any_graph)(*inputs).shape)
    s, t = like(inputs, rng), like(inputs, rng)
    hvp = partial(variant.operator.hvp, cotangent, inputs, **static)
    assert_allclose(inner(hvp(s), t), inner(hvp(t), s), rtol=1e-10, atol=1e-10)


# ---- float32 ----


def error(actual, exact):
    """Error of several arrays, each in the 2-norm and relative to the exact one."""
    return np.array(
        [
            np.linalg.norm(a - e) / np.linalg.norm(e)
            for a, e in zip(actual, exact, strict=True)
            if e is not None and np.any(e)
        ]
    )


@few_variants
@pytest.mark.parametrize("face", ["forward", "jvp", "vjp"])
def test_float32_is_as_good_as_the_plain_formula(variant, face, rng):
    """The error against float64 is at most twice that of the formula in float32 NumPy.

    Errors are relative, in the 2-norm of each array; below one unit in the last place they are
    as good as it gets.
    """
    edges = power_law(20, 100)
    single = to_single(variant.inputs(edges, rng, Sizes(3, 8, 4, 4)))
    tangents = like(single, rng)
    formula, static = variant.formula(edges), variant.arguments(edges)
    cotangent = rng.normal(size=formula(*single).shape).astype(np.float32)

    def plain(inputs, tangents, cotangent):
        if face == "forward":
            return [formula(*inputs)]
        if face == "jvp":
            return [derivatives.jvp(formula, inputs, tangents)]
        return derivatives.vjp(formula, inputs, cotangent)

    def double(arrays):
        return [None if x is None else x.astype(np.float64) for x in arrays]

    exact = plain(double(single), double(tangents), cotangent.astype(np.float64))
    numpy = plain(single, tangents, cotangent)
    assert all(x.dtype == np.float32 for x in numpy if x is not None)
    actual = {
        "forward": lambda: [variant.operator(*single, **static)],
        "jvp": lambda: [variant.operator.jvp(single, tangents, **static)],
        "vjp": lambda: variant.operator.vjp(cotangent, single, **static),
    }[face]()
    assert all(x.dtype == np.float32 for x in actual if x is not None)
    assert np.all(error(actual, exact) <= 2 * error(numpy, exact) + np.finfo(np.float32).eps)


def test_float32_sums_over_many_edges(rng):
    """The error of gradients to the parameters does not grow with the number of edges."""
    for n_edges in (2000, 200_000):
        edges = power_law(100, n_edges)
        single = to_single(Variant(gg.gno).inputs(edges, rng))
        cotangent = 1 + rng.normal(size=(100, 4)).astype(np.float32)
        static = {"graph": edges.graph, "activation": "gelu", "reduction": "sum"}
        exact = gg.gno.vjp(
            cotangent.astype(np.float64),
            [x if x is None else x.astype(np.float64) for x in single],
            **static,
        )
        assert np.all(error(gg.gno.vjp(cotangent, single, **static), exact) < 1e-6)


@few_variants
def test_float32_hvp(variant, rng):
    edges = power_law(30, 200)
    inputs, static = variant.inputs(edges, rng), variant.arguments(edges)
    cotangent = rng.normal(size=variant.formula(edges)(*inputs).shape)
    tangents = like(inputs, rng)
    exact = variant.operator.hvp(cotangent, inputs, tangents, **static)
    actual = variant.operator.hvp(
        cotangent.astype(np.float32), to_single(inputs), to_single(tangents), **static
    )
    assert np.all(error(actual, exact) < 1e-5)


# ---- degenerate graphs (all faces run on every graph above) ----


@pytest.mark.parametrize("variant", FEW[1:], ids=str)  # the kernel itself knows no nodes
def test_nodes_without_edges(variant, rng):
    """Zero comes out, zero goes back, and never NaN."""
    edges = GRAPHS["isolated nodes"]
    inputs, static = variant.inputs(edges, rng), variant.arguments(edges)
    tangents = like(inputs, rng)
    alone = np.bincount(edges.dst, minlength=edges.n_dst) == 0
    out = variant.operator(*inputs, **static)
    tangent = variant.operator.jvp(inputs, tangents, **static)
    for array in (out, tangent):
        assert np.all((array == 0).all(axis=1) == alone)
    cotangent = np.where(alone[:, None], 1e300, 0.0) * np.ones_like(out)
    for gradients in (
        variant.operator.vjp(cotangent, inputs, **static),
        variant.operator.hvp(cotangent, inputs, tangents, **static),
    ):
        assert all(np.all(g == 0) for g in gradients if g is not None)


@few_variants
def test_no_edges(variant, rng):
    edges = GRAPHS["no edges"]
    inputs, static = variant.inputs(edges, rng), variant.arguments(edges)
    out = variant.operator(*inputs, **static)
    assert np.all(out == 0)
    for gradient in variant.operator.vjp(out, inputs, **static):
        assert gradient is None or np.all(gradient == 0)


def test_sizes_of_zero_are_refused(rng):
    edges = power_law(5, 9)
    inputs = Variant(gg.gno).inputs(edges, rng, Sizes(hidden=0))
    with pytest.raises(ValueError, match="gno: sizes"):
        gg.gno(*inputs, graph=edges.graph)


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"coords": np.ones((5, 2))}, ValueError, r"coords has shape \(5, 2\), needs \(n_edges=6"),
        ({"V": np.ones((5, 2, 4))}, ValueError, r"V has shape \(5, 2, 4\), needs \(H=5, F_in=3"),
        ({"b_v": np.ones((3, 5))}, ValueError, r"b_v has shape \(3, 5\)"),
        ({"edge_weight": np.ones((6, 1))}, ValueError, r"edge_weight has shape \(6, 1\)"),
        ({"V": np.ones((5, 3, 4), np.float32)}, TypeError, "h is float64 but V is float32"),
        ({"h": None}, TypeError, "h is missing"),
        ({"activation": "rulu"}, ValueError, "activation is 'rulu', needs one of 'relu', 'gelu'"),
        ({"reduction": "max"}, ValueError, "reduction is 'max', needs one of 'sum', 'mean'"),
        ({"kernel": "low rank"}, ValueError, "kernel is 'low rank'"),
    ],
)
def test_refused(change, error, message, rng):
    edges = Edges(np.array([6, 0, 5, 3, 1, 3]), np.array([0, 2, 0, 1, 0, 2]), 7, 3)
    inputs = Variant(gg.gno).inputs(edges, rng)
    named = dict(zip(gg.gno.inputs, inputs, strict=True))
    arguments = named | {"graph": edges.graph} | change
    with pytest.raises(error, match=f"^gno: {message}"):
        gg.gno(**arguments)


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(5, 9)
    h, coords, U, b_u, V, b_v, _ = Variant(gg.gno).inputs(edges, rng)
    graph, out = edges.graph, np.full((5, 4), 7.0)
    arrays = [address(x) for x in (h, coords, U, b_u, V, b_v, None, out)]
    for codes in ((9, 0, 0), (-1, 0, 0), (0, 2, 0), (0, 0, 2)):
        assert _core.gnograd_gno_forward_r64(graph.handle, 1, 2, 5, 3, 4, *codes, *arrays) == 1
        assert np.all(out == 7)


# ---- packed parameters ----


@pytest.mark.parametrize("kernel", [(3, 4), (3,)])
def test_pack_and_unpack(kernel, rng):
    params = rng.normal(size=2 * 5 + 5 + 6 * int(np.prod(kernel)))
    parts = gg.gno_unpack(params, d=2, n_hidden=5, kernel_shape=kernel)
    assert [p.shape for p in parts] == [(2, 5), (5,), (5, *kernel), kernel]
    assert_array_equal(gg.gno_pack(*parts), params)
    parts[2][:] = 0  # views
    assert np.all(params[15 : -int(np.prod(kernel))] == 0)
    for wrong in (params[1:], np.repeat(params, 2)[::2]):
        with pytest.raises(ValueError, match="gno_unpack: params"):
            gg.gno_unpack(wrong, d=2, n_hidden=5, kernel_shape=kernel)
    with pytest.raises(TypeError, match="gno_unpack: params is of type NoneType, needs a NumPy"):
        gg.gno_unpack(None, d=2, n_hidden=5, kernel_shape=kernel)
    sizes = {"d": 2, "n_hidden": 5, "kernel_shape": kernel}
    for name, wrong in [("d", -1), ("n_hidden", 2**64), ("n_hidden", 2.5), ("kernel_shape", 4)]:
        with pytest.raises((TypeError, ValueError), match=f"^gno_unpack: {name} is"):
            gg.gno_unpack(params, **{**sizes, name: wrong})
    tape = ad.Tape("float64")
    with pytest.raises(
        TypeError, match="gno_pack: b_v is of type Array, needs a NumPy array; torch"
    ):
        gg.gno_pack(*parts[:3], tape.parameter(parts[3]))


# ---- memory ----

LARGE = Sizes(2, 64, 32, 32)


def documented_bytes(operator: gg.Operator, threads: int) -> int:
    """Peak temporary memory by the docstrings, for the hungriest of the four faces."""
    if operator is gg.gno_aggregate:
        return 0
    H, F = LARGE.hidden, LARGE.f_in
    W = 8 * F * F * (H + 1)
    sums = min(64 * W, max(2**26, 8 * W))
    blocks = 8 * threads * 480 * H
    if operator is gg.gno_kernel:
        return sums + blocks
    return sums + 4 * W + threads * (W + 8 * 4 * max(2**16, 8 * F * H)) + blocks


@needs_linux
@pytest.mark.parametrize(
    ("variant", "face"),
    [
        (WEIGHTED, "hvp"),
        *(
            pytest.param(*rest, marks=pytest.mark.exhaustive)
            for rest in (
                (WEIGHTED, "forward"),
                (WEIGHTED, "vjp"),
                (WEIGHTED, "jvp"),
                (KERNEL, "hvp"),
                (AGGREGATE, "hvp"),
            )
        ),
    ],
    ids=str,
)
def test_peak_memory_is_as_documented(variant, face):
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(faces.large_call, variant, face, 2000, 20_000, {"sizes": LARGE})
    assert measured <= documented_bytes(variant.operator, 2) + slack


# ---- determinism ----


@few_variants
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_for_any_number_of_threads(variant, dtype, threads, rng):
    edges = power_law(300, 4000)
    static = variant.arguments(edges)
    inputs = tuple(
        None if x is None else x.astype(dtype)
        for x in variant.inputs(edges, rng, Sizes(2, 16, 8, 8))
    )
    tangents = like(inputs, rng)
    results = []
    for n in (1, 2, 3, 3):
        threads(n)
        out = variant.operator(*inputs, **static)
        results.append(
            [
                out,
                *variant.operator.vjp(out, inputs, **static),
                variant.operator.jvp(inputs, tangents, **static),
                *variant.operator.hvp(out, inputs, tangents, **static),
            ]
        )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize("label", ["U", "b_u", "V", "b_v"])
def test_weights_that_are_not_finite(label):
    """The last layer multiplies the zeros of destinations without edges."""
    inputs, static = calls.call_of("gno", calls.graph())
    isolated = static["graph"].in_degree == 0
    spoiled = [
        np.full_like(x, np.nan) if name == label else x
        for name, x in zip(gg.gno.inputs, inputs, strict=True)
    ]
    out = gg.gno(*spoiled, **static)
    assert np.isnan(out[~isolated]).all()
    assert np.isnan(out[isolated]).all() == (label in ("V", "b_v"))

# SPDX-License-Identifier: MIT
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
from conftest import GRAPHS, Edges, power_law
from faces import Case, Joined
from memory import needs_linux, temporary_bytes
from reference import edge_mlp as reference
from reference import gno as reference_gno


def network(widths, *, f=(2, 3, 1), weight=False, **static):
    """A case with f features of edges, sources and destinations; 0: they are not there."""
    static = {"widths": widths, "residual": bool(f[0]), **static}
    n_e, n_s, n_d = (widths[-1] if static["residual"] else f[0], *f[1:])
    label = "-".join([*map(str, (n_e, n_s, n_d)), *(["weight"] * weight)])

    def make(edges: Edges, rng: np.random.Generator) -> tuple:
        def matrix(m, n):
            return rng.normal(size=(m, n)) / np.sqrt(m) if m else None

        rows = (edges.n_edges, n_e), (edges.n_src, n_s), (edges.n_dst, n_d)
        norm = [None, None]
        if static.get("layer_norm", True):
            norm = rng.normal(size=(2, widths[-1]))
        biases = [rng.normal(size=n) for n in widths]
        # no edge's variance is near zero: differences and float32 would have nothing to tell
        biases[-1] += np.linspace(-4, 4, widths[-1])
        layers = [(matrix(*pair), b) for pair, b in zip(pairwise(widths), biases[1:], strict=True)]
        first = (matrix(m, widths[0]) for m in (n_e, n_s, n_d))
        weights = gg.edge_mlp_pack(*first, biases[0], layers, *norm)
        features = (rng.normal(size=shape) if shape[1] else None for shape in rows)
        return *features, weights, rng.normal(size=edges.n_edges) + 2 if weight else None

    def formula(*inputs, **arguments):
        return faces.join(reference.edge_mlp(*inputs, **arguments))

    return Case(Joined(gg.edge_mlp), formula, make, static, label)


EVERYTHING = network([5, 4, 3], weight=True, reduction="mean", activation="tanh")
FEW = [
    EVERYTHING,
    network([4, 3], f=(0, 2, 0), outputs="nodes", reduction="mean"),
    network([3, 4, 3], outputs="edges"),
    network([4, 2], f=(3, 0, 2), residual=False, layer_norm=False, weight=True),
]
MANY = [
    *FEW,
    *(network([4, 3], activation=name) for name in sorted(reference_gno.ACTIVATIONS)),
    *(network([3], outputs=outputs) for outputs in ("both", "edges", "nodes")),
    network([3, 4, 5, 3], weight=True, outputs="nodes"),
    network([3, 2], f=(2, 0, 0), weight=True, reduction="mean", outputs="nodes"),
    network([3, 2], f=(0, 0, 3), layer_norm=False),
]
every_case = pytest.mark.parametrize("case", MANY, ids=str)
few_cases = pytest.mark.parametrize("case", FEW, ids=str)
WIDE = network([130, 250, 33], f=(33, 17, 5), weight=True, reduction="mean")
"""A case whose tiles are shorter than the longest, on a graph of several slabs."""


# ---- forward ----


@every_case
def test_forward(case, any_graph, rng):
    faces.check_forward(case, any_graph, rng)


@pytest.mark.parametrize("f", [f for f in product((0, 2), (0, 3), (0, 1)) if any(f)])
@pytest.mark.parametrize("further", range(4))
@pytest.mark.parametrize("outputs", ["both", "edges", "nodes"])
def test_all_combinations(f, further, outputs, rng):
    edges = power_law(8, 30)
    for residual, layer_norm in product({bool(f[0]), False}, (False, True)):
        widths = [4, 5, 2, 3][: further + 1]
        options = dict(residual=residual, layer_norm=layer_norm, outputs=outputs)
        case = network(widths, f=f, weight=True, reduction="mean", **options)
        faces.check_forward(case, edges, rng)
        inputs, _, cotangent, static = faces.set_up(case, edges, rng)
        gradients = case.operator.vjp(cotangent, inputs, **static)
        along = faces.like(inputs, rng)
        change = case.operator.jvp(inputs, along, **static)
        assert_allclose(faces.inner(gradients, along), cotangent @ change, rtol=1e-9)


@pytest.mark.parametrize("widths", [[1], [16, 1], [17, 33, 2], [300, 300, 20]])
@pytest.mark.parametrize("f", [(1, 0, 0), (0, 17, 0), (3, 40, 9)])
def test_sizes_of_every_kind(widths, f, rng):
    faces.check_forward(network(widths, f=f, weight=True), power_law(30, 700), rng)


def test_packed_weights(rng):
    W_e, W_d, W_1 = (rng.normal(size=shape) for shape in [(2, 4), (3, 4), (4, 5)])
    b_0, gamma, beta = (rng.normal(size=n) for n in (4, 5, 5))
    packed = gg.edge_mlp_pack(W_e, None, W_d, b_0, [(W_1, None)], gamma, beta)
    assert_array_equal(packed, faces.join((W_e, W_d, b_0, W_1, np.zeros(5), gamma, beta)))
    single = gg.edge_mlp_pack(W_e.astype(np.float32), None, None, None)
    assert single.dtype == np.float32


# ---- vjp ----


@every_case
def test_vjp(case, any_graph, rng):
    faces.check_vjp(case, any_graph, rng)


@few_cases
def test_gradients_do_not_depend_on_which_are_wanted(case, rng):
    faces.check_wrt(case, power_law(10, 50), rng)


def test_cotangents_that_are_absent(rng):
    """None is zero; an output that is not there has none."""
    edges = power_law(10, 50)
    inputs, static = EVERYTHING.inputs(edges, rng), EVERYTHING.arguments(edges)
    of_edges, of_nodes = faces.like(gg.edge_mlp(*inputs, **static), rng)
    tangents = faces.like(inputs, rng)
    for outputs, given in (("edges", (of_edges, None)), ("nodes", (None, of_nodes))):
        alone = {**static, "outputs": outputs}
        own = of_edges if outputs == "edges" else of_nodes
        zeros = tuple(np.zeros_like(c) if g is None else g
                      for c, g in zip((of_edges, of_nodes), given, strict=True))  # fmt: skip
        expected = gg.edge_mlp.vjp(zeros, inputs, **static)
        for cotangent, arguments in ((given, static), (own, alone), ((own,), alone)):
            actual = gg.edge_mlp.vjp(cotangent, inputs, **arguments)
            faces.assert_all_close(actual, expected, rtol=1e-13, atol=1e-14)
        expected = gg.edge_mlp.hvp(zeros, inputs, tangents, **static)
        actual = gg.edge_mlp.hvp(own, inputs, tangents, **alone)
        faces.assert_all_close(actual, expected, rtol=1e-13, atol=1e-14)


def test_results_in_given_memory(rng):
    edges = power_law(10, 50)
    inputs, static = EVERYTHING.inputs(edges, rng), EVERYTHING.arguments(edges)
    both = gg.edge_mlp(*inputs, **static)
    for name, expected in zip(("edges", "nodes"), both, strict=True):
        memory = np.empty_like(expected)
        alone = {**static, "outputs": name}
        result = gg.edge_mlp.forward(*inputs, out=(memory,), **alone)
        assert result is memory
        assert_array_equal(result, expected)
        tangent = gg.edge_mlp.jvp(inputs, inputs, out=(memory,), **alone)
        assert tangent is memory


def test_several_slabs(rng):
    """Sums over many slabs, tiles and pieces, against the same edges in graphs of their own."""
    edges = power_law(2000, 70_000)
    case = network([8, 16, 3], weight=True)
    e, x_src, x_dst, weights, weight = inputs = case.inputs(edges, rng)
    options = case.static
    of_edges, of_nodes = rng.normal(size=(edges.n_edges, 3)), rng.normal(size=(edges.n_dst, 3))
    tangents = faces.like(inputs, rng)
    operator = gg.edge_mlp
    totals = None
    for part in np.array_split(np.arange(edges.n_edges), 7):
        graph = Edges(edges.src[part], edges.dst[part], edges.n_src, edges.n_dst).graph
        static = {"graph": graph, **options}
        mine = (e[part], x_src, x_dst, weights, weight[part])
        moved = (tangents[0][part], *tangents[1:4], tangents[4][part])
        cotangent = of_edges[part], of_nodes
        found = [
            *operator(*mine, **static),
            *operator.jvp(mine, moved, **static),
            *operator.vjp(cotangent, mine, **static),
            *operator.hvp(cotangent, mine, moved, **static),
        ]
        gradients = [append, np.add, np.add, np.add, append]
        join = [append, np.add] * 2 + gradients * 2
        pairs = zip(join, totals or found, found, strict=True)
        totals = [f(a, b) for f, a, b in pairs] if totals else found
    static = {"graph": edges.graph, **options}
    actual = [
        *operator(*inputs, **static),
        *operator.jvp(inputs, tangents, **static),
        *operator.vjp((of_edges, of_nodes), inputs, **static),
        *operator.hvp((of_edges, of_nodes), inputs, tangents, **static),
    ]
    assert np.all(faces.error(actual, totals) < 1e-13)


def append(a, b):
    return np.concatenate([a, b])


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


@pytest.mark.parametrize("case", [*FEW, WIDE], ids=str)
def test_hvp_is_the_derivative_of_vjp(case, rng):
    faces.check_hvp_differences(case, power_law(60, 500), rng)


@few_cases
def test_hvp_is_symmetric(case, any_graph, rng):
    faces.check_symmetric(case, any_graph, rng)


# ---- float32 ----


@few_cases
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    faces.check_float32(case, power_law(10, 40), rng)


def test_float32_sums_over_many_edges(rng):
    """The error of gradients to the weights does not grow with the number of edges."""
    case = network([8, 8, 3])
    for n_edges in (2000, 100_000):
        edges = power_law(100, n_edges)
        inputs, static = case.inputs(edges, rng), case.arguments(edges)
        cotangent = 1 + rng.normal(size=3 * (edges.n_edges + edges.n_dst))
        single = faces.convert(inputs, np.float32)
        exact = case.operator.vjp(cotangent, faces.convert(single, float), **static)
        actual = case.operator.vjp(cotangent.astype(np.float32), single, **static)
        assert faces.error(actual, exact)[3] < 3e-6


# ---- degenerate graphs (all faces run on every graph above) ----


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_nodes_without_edges(reduction, rng):
    case = network([4, 3], f=(0, 2, 0), weight=True, outputs="nodes", reduction=reduction)
    plain = Case(gg.edge_mlp, reference.edge_mlp, case.make, case.static)
    faces.check_isolated_nodes(plain, GRAPHS["isolated nodes"], rng)


def test_rooms_for_more_edges(rng):
    """Rows that belong to no edge are neither read nor left as they were."""
    edges = power_law(10, 50)
    inputs, tangents, cotangent, static = faces.set_up(EVERYTHING, edges, rng)
    cotangent = cotangent[:150].reshape(50, 3), cotangent[150:].reshape(10, 3)
    padded = edges.graph.pad(64)

    def pad(x):
        return np.concatenate([x, np.full((14, *x.shape[1:]), np.nan)])

    def roomy(arrays):
        return pad(arrays[0]), *arrays[1:4], pad(arrays[4])

    more = {**static, "graph": padded}
    wide = pad(cotangent[0]), cotangent[1]
    results = [
        (gg.edge_mlp(*inputs, **static), gg.edge_mlp(*roomy(inputs), **more)),
        (
            gg.edge_mlp.jvp(inputs, tangents, **static),
            gg.edge_mlp.jvp(roomy(inputs), roomy(tangents), **more),
        ),
        (
            gg.edge_mlp.vjp(cotangent, inputs, **static),
            gg.edge_mlp.vjp(wide, roomy(inputs), **more),
        ),
        (
            gg.edge_mlp.hvp(cotangent, inputs, tangents, **static),
            gg.edge_mlp.hvp(wide, roomy(inputs), roomy(tangents), **more),
        ),
    ]
    for expected, actual in results:
        for x, y in zip(expected, actual, strict=True):
            assert_array_equal(y[: len(x)], x)
            assert np.all(y[len(x) :] == 0)


def test_inputs_are_left_alone(rng):
    edges = power_law(10, 50)
    inputs, static = EVERYTHING.inputs(edges, rng), EVERYTHING.arguments(edges)
    before = [x.copy() for x in inputs]
    outputs = gg.edge_mlp(*inputs, **static)
    gg.edge_mlp.hvp(outputs, inputs, inputs, **static)
    for x, y in zip(inputs, before, strict=True):
        assert_array_equal(x, y)


# ---- errors ----


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"widths": []}, ValueError, "edge_mlp: widths is empty"),
        ({"widths": [5, 0]}, ValueError, r"edge_mlp: widths\[1\] is 0, needs at least 1"),
        ({"activation": "swish"}, ValueError, "edge_mlp: activation is 'swish'"),
        ({"reduction": "max"}, ValueError, "edge_mlp: reduction is 'max'"),
        ({"outputs": "all"}, ValueError, "edge_mlp: outputs is 'all'"),
        ({"layer_norm": 1.5}, TypeError, "edge_mlp: layer_norm"),
        ({"e": None}, TypeError, "edge_mlp: e is missing"),
        (
            {"e": np.ones((50, 2))},
            ValueError,
            r"edge_mlp: e has shape \(50, 2\), needs \(n_edges=50, F_out=3\)",
        ),
        ({"x_src": np.ones((3, 2))}, ValueError, r"edge_mlp: x_src has shape \(3, 2\), needs"),
        (
            {"x_src": np.ones((10, 4))},
            ValueError,
            "edge_mlp: weights has 85 entries, but with the 8 columns of e, x_src and x_dst it "
            "needs 90",
        ),
        ({"x_dst": None}, ValueError, "with the 6 columns of e, x_src and x_dst it needs 80"),
        (
            {"e": None, "x_src": None, "x_dst": None, "residual": False},
            ValueError,
            "needs a column of e, x_src or x_dst",
        ),
        ({"weights": np.ones(10)}, ValueError, r"edge_mlp: weights has shape \(10,\)"),
        ({"weights": None}, TypeError, "edge_mlp: weights"),
        ({"layer_norm": False}, ValueError, "edge_mlp: weights has shape"),
        ({"x_dst": np.ones((10, 1), np.float32)}, TypeError, "e is float64 but x_dst is float32"),
        ({"edge_weight": np.ones(3)}, ValueError, r"edge_mlp: edge_weight has shape \(3,\)"),
    ],
)
def test_errors(changes, error, message, rng):
    edges = power_law(10, 50)
    names = gg.edge_mlp.inputs
    given = dict(zip(names, EVERYTHING.inputs(edges, rng), strict=True))
    given |= EVERYTHING.arguments(edges) | changes
    with pytest.raises(error, match=message):
        gg.edge_mlp(*[given.pop(name) for name in names], **given)


def test_errors_of_outputs_that_are_not_there(rng):
    edges = power_law(10, 50)
    inputs = EVERYTHING.inputs(edges, rng)
    static = {**EVERYTHING.arguments(edges), "outputs": "nodes"}
    with pytest.raises(ValueError, match=r"cotangent of nodes has shape \(50, 3\)"):
        gg.edge_mlp.vjp(np.ones((50, 3)), inputs, **static)
    with pytest.raises(TypeError, match="edge_mlp: 3 arrays were given"):
        gg.edge_mlp.vjp([np.ones((10, 3))] * 3, inputs, **static)
    with pytest.raises(ValueError, match="edge_mlp: out for edges"):
        gg.edge_mlp.forward(*inputs, out=(np.ones((50, 3)), np.ones((10, 3))), **static)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, None, None, None), ValueError, "needs one of W_e, W_s and W_d"),
        ((np.ones(3), None, None), ValueError, r"W_e has shape \(3,\), needs \(F_e, width\)"),
        ((np.ones((2, 3)), np.ones((2, 4)), None), ValueError, r"W_s .* needs \(F_s, 3\)"),
        ((np.ones((2, 3)), None, None, np.ones(2)), ValueError, r"b_0 .* needs \(3,\)"),
        (
            (np.ones((2, 3)), None, None, None, [(np.ones((4, 3)), None)]),
            ValueError,
            r"W_1 has shape \(4, 3\), needs \(3, width\)",
        ),
        ((np.ones((2, 3)), None, None, None, [(None, None)]), TypeError, "W_1 is None"),
        ((np.ones((2, 3)), None, None, None, (), np.ones(3)), ValueError, "beta is missing"),
        (
            (np.ones((2, 3)), None, None, None, (), np.ones(2), np.ones(3)),
            ValueError,
            r"gamma has shape \(2,\), needs \(3,\)",
        ),
    ],
)
def test_errors_of_packing(arguments, error, message):
    with pytest.raises(error, match=f"edge_mlp_pack: .*{message}|edge_mlp_pack: {message}"):
        gg.edge_mlp_pack(*arguments)


# ---- determinism, memory ----


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        (EVERYTHING, np.float64),
        (WIDE, np.float32),
        pytest.param(EVERYTHING, np.float32, marks=pytest.mark.exhaustive),
        pytest.param(WIDE, np.float64, marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_same_bits_for_any_number_of_threads(case, dtype, rng, threads):
    faces.check_threads(case, power_law(300, 9000), rng, dtype, threads)


def _training_step(n_edges, outputs):
    gg.set_num_threads(1)
    rng = np.random.default_rng(0)
    case = network([64, 128, 64], f=(64, 16, 16), outputs=outputs)
    src, dst = rng.integers(0, 1000, (2, n_edges))
    edges = Edges(src, dst, 1000, 1000)
    inputs = faces.convert(case.inputs(edges, rng), np.float32)
    static = case.arguments(edges)
    _ = static["graph"]

    def work():
        result = gg.edge_mlp(*inputs, **static)
        results = result if isinstance(result, tuple) else (result,)
        return [*results, *(g for g in gg.edge_mlp.vjp(result, inputs, **static) if g is not None)]

    work()
    return work


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("outputs", ["both", "nodes"])
def test_memory_does_not_grow_with_the_edges(outputs):
    """Memory is a slab, sums for weights, panels; a hidden layer of all edges is 64 or 128 MiB."""
    slab = 4 * 256 * 256 * 64 + 8 * 256 * 256
    sums = 64 * 8 * (64 * 64 + 64 * 128 + 128 * 64 + 500)
    assert temporary_bytes(_training_step, 262_144, outputs) < slab + sums + 2**23

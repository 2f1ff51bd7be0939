# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
import table
from conftest import GRAPHS, Edges, power_law
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes

AGGREGATIONS = ["sum", "mean", "min", "max"]
few_cases = pytest.mark.parametrize("case", table.of("aggregation", many=False), ids=str)


def weighted(edges, rng):
    return table.the("agg_weighted").inputs(edges, rng)


# ---- forward ----


@pytest.mark.parametrize("name", ["min", "max"])
def test_lowest_position_wins_a_tie(name):
    edges = GRAPHS["repeated edges"]
    x, w = np.ones((3, 2)), np.ones(5)
    out, saved = gg.agg_weighted.forward(
        x, w, graph=edges.graph, aggregation=name, return_saved=True
    )
    assert saved[0] is out
    assert saved[2] is None
    assert_array_equal(saved[1], [[0, 0], [2, 2], [-1, -1]])  # positions by destination
    gradients = gg.agg_weighted.vjp(out, (x, w), graph=edges.graph, aggregation=name, saved=saved)
    assert_array_equal(gradients[1], [2, 0, 0, 2, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_features(rng, dtype):
    # parts of 64, 32, ..., 1, rows that are short and one that is cut
    n, width = 40, 103
    dst = np.concatenate([np.zeros(9_000, np.int64), rng.integers(1, n, 200)])
    src = rng.integers(0, n, len(dst))
    graph = gg.Graph.from_edges(src, dst, n, n)
    x, w, g = rng.normal(size=(n, width)), rng.random(len(dst)), rng.normal(size=(n, width))
    x, w, g = x.astype(dtype), w.astype(dtype), g.astype(dtype)
    out, grad_x = np.zeros((n, width)), np.zeros((n, width))
    np.add.at(out, dst, w[:, None].astype(float) * x[src])
    np.add.at(grad_x, src, w[:, None].astype(float) * g[dst])
    near = {"rtol": 1e-3, "atol": 2e-2} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    assert_allclose(gg.agg_weighted(x, w, graph=graph), out, **near)
    found = gg.agg_weighted.vjp(g, (x, w), graph=graph)
    assert_allclose(found[0], grad_x, **near)
    assert_allclose(found[1], (x[src] * g[dst]).sum(axis=1), **near)
    top = np.full((n, width), -np.inf, dtype)
    np.maximum.at(top, dst, w[:, None] * x[src])
    top[np.isinf(top)] = 0
    assert_array_equal(gg.agg_weighted(x, w, graph=graph, aggregation="max"), top)


def test_saved_degree(rng):
    edges = power_law(10, 50)
    x, w = weighted(edges, rng)
    _, saved = gg.agg_weighted.forward(
        x, w, graph=edges.graph, aggregation="mean", return_saved=True
    )
    np.testing.assert_allclose(saved[2], np.bincount(edges.dst, w, minlength=10))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("x", [None, np.ones((3, 0))], ids=["absent", "no features"])
def test_weights_of_no_features(x, aggregation):
    """Sums of weights are saved; gradients of weights are 0, even where the sums are."""
    graph = Edges([0, 1, 1], [0, 0, 1], 3, 3).graph
    w, own, g = np.array([1.0, -1.0, 2.0]), np.ones((3, 2)), np.ones((3, 2))
    inputs, arguments = (x, w, None, own), {"graph": graph, "aggregation": aggregation}
    memory = (None, np.full(3, np.nan)) if aggregation == "mean" else None
    out, saved = gg.agg_concat.forward(*inputs, return_saved=True, out=memory, **arguments)
    assert_array_equal(out, own)
    if aggregation == "mean":
        assert_array_equal(saved[2], [0, 2, 0])
    for kept in None, saved:
        gradients = gg.agg_concat.vjp(g, inputs, saved=kept, **arguments)
        assert_array_equal(gradients[1], np.zeros(3))
        assert_array_equal(gradients[3], g)
    tangents = gg.agg_concat.hvp(g, inputs, (None, w, None, None), **arguments)
    assert_array_equal(tangents[1], np.zeros(3))


# ---- vjp ----


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_one_gradient_of_neighbours_and_own(aggregation, rng):
    """Gradients of one input in one array are added up there."""
    edges = power_law(12, 40)
    x, w, g = rng.normal(size=(12, 3)), rng.random(40) + 0.5, rng.normal(size=(12, 6))
    arguments = {"graph": edges.graph, "aggregation": aggregation}
    tangents = (rng.normal(size=(12, 3)), rng.normal(size=40))
    for face, *given in (("vjp", (x, w, None, x)), ("hvp", (x, w, None, x), tangents)):
        call = getattr(gg.agg_concat, face)
        both = np.full((12, 3), np.nan)
        of_x, of_w, _, of_own = call(g, *given, **arguments)
        same, same_w, _, _ = call(g, *given, **arguments, out=(both, None, None, both))
        assert same is both
        np.testing.assert_array_equal(both, of_x + of_own)
        np.testing.assert_array_equal(same_w, of_w)


# ---- degenerate graphs (all faces run on every graph above) ----


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_nothing_is_zero_without_a_sign(aggregation):
    graph = gg.Graph.from_edges([0], [0], n_src=1, n_dst=3)
    x = np.array([[1.0, -1.0]])
    own = np.ones((3, 1))
    out = gg.agg_simple(x, graph=graph, aggregation=aggregation)
    weighted = gg.agg_weighted(x, np.ones(1), graph=graph, aggregation=aggregation)
    joined = gg.agg_concat(x, None, None, own, graph=graph, aggregation=aggregation)
    tangent = gg.agg_simple.jvp((x, None), (x, None), graph=graph, aggregation=aggregation)
    for found in (out, weighted, joined[:, :2], np.asarray(tangent).reshape(3, 2)):
        assert not np.signbit(found[1:]).any()
        assert_array_equal(found[1:], 0)


def test_weights_that_add_up_to_zero_divide_by_zero():
    edges = GRAPHS["star"]
    w = np.array([1.0, -1.0] * 4 + [0.0])
    with np.errstate(all="ignore"):
        out = gg.agg_weighted(np.eye(9), w, graph=edges.graph, aggregation="mean")
    assert_array_equal(out[0], [np.inf, -np.inf] * 4 + [np.nan])
    assert_array_equal(out[1], np.zeros(9))


NAN_EDGES = power_law(60, 700)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [3, 40, 130])
@few_cases
def test_nan_reaches_the_rows_that_see_it_and_no_others(case, width, dtype, rng):
    inputs = case.change(D=width).inputs(NAN_EDGES, rng, dtype)
    for k in range(len(inputs)):
        spoilt = list(inputs)
        spoilt[k] = inputs[k].copy()
        spoilt[k][::23] = np.nan
        with np.errstate(invalid="ignore"):
            expected = case.reference(NAN_EDGES)(*spoilt)
        out = case.operator(*spoilt, **case.arguments(NAN_EDGES))
        assert_array_equal(np.isnan(out), np.isnan(expected))


@pytest.mark.parametrize("aggregation", ["min", "max"])
@pytest.mark.parametrize("width", [1, 70])
@pytest.mark.parametrize("n_edges", [9, 80, 9000])
def test_first_nan_wins(n_edges, width, aggregation):
    """The first NaN in the order of edges is the result; its edge alone gets the gradient."""
    x = np.arange(n_edges * width, dtype=np.float32).reshape(n_edges, width) % 97
    graph = gg.Graph([0, n_edges], np.arange(n_edges), n_src=n_edges)
    first, later = n_edges // 2, n_edges - 2
    x[[first, later], -1] = np.nan
    static = {"graph": graph, "aggregation": aggregation}
    w = np.ones(n_edges, np.float32)
    out, (_, location, _) = gg.agg_weighted.forward(x, w, return_saved=True, **static)
    assert np.isnan(out[0, -1])
    assert not np.isnan(out[0, :-1]).any()
    assert location[0, -1] == first
    grad = gg.agg_weighted.vjp(np.ones_like(out), (x, w), **static)[0]
    assert np.flatnonzero(grad[:, -1]).tolist() == [first]
    # a weight that is not a number concerns the features that its edge wins
    w[later] = np.nan
    x[later] = 1
    grad = gg.agg_weighted.vjp(np.ones_like(out), (x, w), **static)[0]
    assert np.flatnonzero(grad[:, -1]).tolist() == [first]
    assert np.isnan(grad[later, :-1]).all()


# ---- errors ----


def test_nothing_to_aggregate_is_refused():
    with pytest.raises(TypeError, match="agg_simple: needs one of x, e, got none of them"):
        gg.agg_simple(None, graph=power_law(6, 20).graph)


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    x, w = weighted(edges, rng)
    graph, out = edges.graph, np.full((6, 2), 7.0)
    for code in (-1, 4):
        status = _core.gnograd_agg_weighted_forward_r64(
            graph.handle, 2, code, address(x), address(w), address(out), 0, 0
        )
        assert status == 1
        assert np.all(out == 7)


# ---- memory ----


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize(("aggregation", "face"), [("mean", "hvp"), ("max", "vjp")])
def test_peak_memory_is_as_documented(aggregation, face):
    case = table.the("agg_weighted", aggregation=aggregation).change(D=64)
    pieces = 2 + 1024 + 200_000 // 4096
    bound = 8 * pieces * (3 * 64 + 2) + 8 * 20_000 * (64 if aggregation == "max" else 3)
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(faces.large_call, case, face, 20_000, 200_000)
    assert measured <= bound + slack

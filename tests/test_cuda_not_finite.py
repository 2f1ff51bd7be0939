# SPDX-License-Identifier: MIT
"""NaN and infinity on a GPU: in the results that see them, and in no others."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
from conftest import GRAPHS, Edges, pairs, power_law
from faces import like
from gpus import needs_gpu
from on_device import (
    EPS,
    PLAIN,
    SPARSE,
    TRIPLETS,
    as_taken,
    as_tuple,
    check_faces,
    numbers,
    to_device,
    wide,
)
from reference import nsa

pytestmark = needs_gpu


def assert_same_where_finite(actual, expected, dtype):
    """Check that numbers agree, and that NaN is where it is expected."""
    nan, size = (
        np.isnan(expected),
        np.nanmax(np.abs(expected), initial=1, where=expected != -np.inf),
    )
    assert_array_equal(np.isnan(actual), nan)
    tolerance = 4 * (EPS[dtype] + 32 * EPS["float32"] * (dtype != "float64")) * size
    assert_allclose(actual[~nan], expected[~nan], rtol=0, atol=tolerance)


@pairs(
    case=SPARSE + table.of("selected_attention", large=True)[:2],
    of=["q", "k", "v"],
    dtype=["float64", "bfloat16"],
)
def test_nan_in_sparse_attention(case, of, dtype, rng):
    """A NaN reaches the rows that see it and what these reach, no others of their tiles."""
    static, operator = case.arguments(), case.operator
    if dtype != "float64" and case.large:
        pytest.skip("the oracle takes long")
    clean = as_taken(case, case.inputs(None, rng), dtype)
    tangents = like(clean, rng)
    x = clean["qkv".index(of)]
    for at in np.roll(np.arange(len(x)), len(x) // 2):  # the first that is seen
        number, x[at, -1, 0] = x[at, -1, 0], np.nan
        out, lse = case.oracle(static)(*wide(clean))
        if np.isnan(out).any():
            break
        x[at, -1, 0] = number
    assert 0 < np.isnan(out).sum() < out.size
    c = rng.normal(size=(*clean[0].shape[:2], clean[2].shape[2])).astype(numbers(dtype))
    evaluate = partial(nsa.faces, cotangent=wide(c), tangents=wide(tangents))
    out, out_tangent, *rest = case.oracle(static)(*wide(clean), evaluate=evaluate)
    gradients, seconds = rest[: len(rest) // 2], rest[len(rest) // 2 :]

    inputs, c, tangents = map(to_device, (clean, c, tangents))
    static = {k: to_device(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}
    found, saved = operator.forward(*inputs, return_saved=True, **static)
    cotangent = (c, None) if operator.n_outputs > 1 else c
    results = [
        ((as_tuple(found)[0], saved[1]), (out, lse)),
        (operator.vjp(cotangent, inputs, **static), gradients),
        (operator.vjp(cotangent, inputs, saved=saved, **static), gradients),
        (as_tuple(operator.jvp(inputs, tangents, **static))[:1], (out_tangent,)),
        (operator.hvp(cotangent, inputs, tangents, **static), seconds),
    ]
    for actual, expected in results:
        for a, e in zip(actual, expected, strict=False):
            if e is not None:
                assert_same_where_finite(a.get().astype(float), e, dtype)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("which", [3, 4])
def test_nan_in_positions(which, dtype, rng):
    """A NaN reaches the rows that see the point; a coinciding point has no gradient."""
    case = table.case("window_attention", window=5, Tq=20, Tk=20)
    inputs = as_taken(case, case.inputs(None, rng), dtype)
    inputs[3][7] = inputs[4][8] = 0.5
    tangents = as_taken(case, like(inputs, rng), dtype)
    cotangent = rng.normal(size=(20, 4, 2)).astype(inputs[0].dtype)
    check_faces(case.operator, inputs, tangents, cotangent, {"window": 5}, dtype, slack=4)
    inputs[which][12] = np.nan
    on_device = to_device(inputs)
    out = case.operator(*on_device, window=5).get().astype(float)
    rows = np.isnan(out).any(axis=(1, 2))
    seen = range(12, 13) if which == 3 else range(10, 15)
    assert_array_equal(np.flatnonzero(rows), seen)
    gradients = case.operator.vjp(to_device(cotangent), on_device, window=5)
    for gradient in gradients[3:5]:
        spoilt = np.isnan(gradient.get().astype(float)).any(axis=1)
        assert set(np.flatnonzero(spoilt)) <= set(range(10, 15)) and spoilt.any()


@pytest.mark.parametrize("input", range(4))
@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_nan_in_graph_attention(case, input, rng):
    """A NaN makes the softmax of its row NaN, and everything that the row reaches."""
    edges = GRAPHS["power law"]
    static, inputs = case.arguments(edges), case.inputs(edges, rng)
    x = inputs[input]
    if x is None or (input == 2 and case.operator is not gg.mha_simple):
        pytest.skip("no rows")
    x[len(x) // 3, -1] = np.nan
    expected = case.reference(edges)(*inputs)
    ill = np.isnan(expected).any(axis=1)
    assert 0 < ill.sum() < edges.n_dst / 2
    given = to_device(inputs)
    assert_same_where_finite(case.operator(*given, **static).get(), expected, "float64")
    if input == 2:  # values: the scores are as before
        return
    tangents, c = to_device(like(inputs, rng)), to_device(rng.normal(size=expected.shape))
    touched = np.zeros(edges.n_src, bool)
    touched[edges.src[ill[edges.dst]]] = True
    kinds = {edges.n_edges: ill[edges.dst]}
    names = case.operator.inputs
    for gradients in (
        case.operator.vjp(c, given, **static),
        case.operator.hvp(c, given, tangents, **static),
    ):
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is None:
                continue
            rows = gradient.get()
            if rows.ndim == 1:  # weights
                assert np.isnan(rows).any()
                continue
            at_destination = name in ("x_dst", "q")
            expect = kinds.get(len(rows), ill if at_destination else touched)
            assert_array_equal(np.isnan(rows).any(axis=1), expect, err_msg=name)
    tangent = case.operator.jvp(given, tangents, **static).get()
    assert_array_equal(np.isnan(tangent).any(axis=1), ill)


@pytest.mark.parametrize("x", [None, np.ones((3, 0))], ids=["absent", "no features"])
def test_weights_of_no_features(x):
    """Sums of weights are saved; gradients of weights are 0, even where the sums are."""
    static = {"graph": Edges([0, 1, 1], [0, 0, 1], 3, 3).graph, "aggregation": "mean"}
    w, own = np.array([1.0, -1.0, 2.0]), np.ones((3, 2))
    inputs, g, memory = to_device((x, w, None, own)), to_device(own), to_device(np.full(3, np.nan))
    out, saved = gg.agg_concat.forward(*inputs, return_saved=True, out=(None, memory), **static)
    assert_array_equal(out.get(), own)
    assert_array_equal(saved[2].get(), [0, 2, 0])
    for kept in None, saved:
        gradients = gg.agg_concat.vjp(g, inputs, saved=kept, **static)
        assert_array_equal(gradients[1].get(), np.zeros(3))
    tangents = gg.agg_concat.hvp(g, inputs, (None, inputs[1], None, None), **static)
    assert_array_equal(tangents[1].get(), np.zeros(3))


@pytest.mark.parametrize("case", table.of("aggregation", many=False), ids=str)
def test_nan_in_aggregation(case, rng):
    """A NaN wins over numbers, and the first over those that come later."""
    edges = GRAPHS["power law"]
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    inputs[0][rng.random(inputs[0].shape) < 0.1] = np.nan
    expected = case.reference(edges)(*inputs)
    assert 0 < np.isnan(expected).sum() < expected.size / 2
    given = to_device(inputs)
    out, saved = case.operator.forward(*given, return_saved=True, **static)
    assert_same_where_finite(out.get(), expected, "float64")
    if static["aggregation"] in ("sum", "mean"):
        return
    graph = static["graph"]
    location = next(a.get() for a in saved if a is not None and a.dtype == np.int64)
    values = inputs[0][graph.indices]
    if case.operator is not gg.agg_simple:
        values = values * inputs[1][graph.edge_ids][:, None]
    for i, column in zip(*np.nonzero(np.isnan(expected[:, : values.shape[1]])), strict=True):
        first, end = graph.offsets[i : i + 2]
        where = first + np.flatnonzero(np.isnan(values[first:end, column]))[0]
        assert location[i, column] == where


@pytest.mark.parametrize("case", TRIPLETS, ids=str)
def test_nan_in_triplets(case, rng):
    edges = power_law(12, 40)  # no triplet with the NaN is excluded and alone
    inputs = case.inputs(edges, rng)
    inputs[2][len(inputs[2]) // 3, 1] = np.nan
    expected = case.reference(edges)(*inputs)
    assert 0 < np.isnan(expected).sum() < expected.size / 2
    out = gg.agg_edge_to_edge(*to_device(inputs), **case.arguments(edges))
    assert_same_where_finite(out.get(), expected, "float64")

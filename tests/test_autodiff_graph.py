# SPDX-License-Identifier: MIT
"""Aggregation and graph attention on the tape: what all operators have not in common."""

import numpy as np
import pytest

import gnograd as gg
import gnograd.autodiff as ad


def test_the_same_table_on_both_sides(rng):
    """The gradients to sources and destinations add up."""
    graph = gg.Graph.from_edges(src=[0, 1, 2, 2], dst=[1, 0, 1, 2])
    x, a = rng.normal(size=(3, 4)), rng.normal(size=8)
    tape = ad.Tape("float64")
    table = tape.parameter(x)
    y = ad.mha_gat(table, table, a, graph=graph, num_heads=2)
    ad.sum(y).backward()
    to_src, to_dst, _, _ = gg.mha_gat.vjp(
        np.ones((3, 4)), (x, x, a, None), graph=graph, num_heads=2
    )
    np.testing.assert_allclose(table.grad, to_src + to_dst, 1e-14)


def third_order(operation, x, w):
    """Third derivatives to w, and the function whose differences they are."""

    def loss(w):
        tape = ad.Tape("float64")
        a, b = tape.parameter(x), tape.parameter(w)
        (first,) = ad.grad(ad.sum(operation(a, b) ** 3), [a], create_graph=True)
        (second,) = ad.grad(ad.sum(first * first), [b], create_graph=True)
        return b, ad.sum(second * second)

    b, total = loss(w)
    (third,) = ad.grad(total, [b], create_graph=True)
    return third, lambda w: loss(w)[1].item()


BILINEAR = {
    "agg_weighted": (lambda graph: lambda x, w: ad.agg_weighted(x, w, graph=graph), (4, 2), 5),
    "gno_aggregate": (
        lambda graph: lambda h, k: ad.gno_aggregate(h, k, graph=graph, reduction="mean"),
        (4, 2),
        (5, 2, 3),
    ),
    "compress": (lambda _: lambda x, w: ad.compress(x, w, block=3, stride=2), (7, 2, 2), (3, 2)),
}


@pytest.mark.parametrize("name", BILINEAR)
def test_bilinear_operators_have_derivatives_of_any_order(name, rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2, 2, 3], dst=[1, 0, 1, 2, 0], n_src=4, n_dst=4)
    make, *shapes = BILINEAR[name]
    x, w = (rng.uniform(0.5, 1.5, size=shape) for shape in shapes)
    third, loss = third_order(make(graph), x, w)
    direction = rng.normal(size=w.shape)
    step = 1e-5
    difference = (loss(w + step * direction) - loss(w - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(third.value * direction), difference, 1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda t, g: ad.agg_weighted(t.parameter(np.ones((4, 2))), np.ones(3), graph=g),
            ValueError, r"agg_weighted: x is \(4, 2\), needs \(3, 2\)",
        ),
        (
            lambda t, g: ad.agg_weighted(t.parameter(np.ones((3, 2))), np.ones(2), graph=g),
            ValueError, r"agg_weighted: w is \(2\), needs \(3\)",
        ),
        (
            lambda t, g: ad.agg_simple(t.parameter(np.ones(3)), graph=g),
            ValueError, r"agg_simple: x is \(3\), needs \(3, 3\)",
        ),
        (
            lambda t, g: ad.agg_concat(None, own=t.parameter(np.ones((2, 2))), graph=g),
            ValueError, r"agg_concat: own is \(2, 2\), needs \(3, 2\)",
        ),
        (
            lambda t, g: ad.agg_simple(t.parameter(np.ones((3, 2))), graph=g, aggregation="sup"),
            ValueError, "agg_simple: aggregation is 'sup', needs one of",
        ),
        (
            lambda t, g: ad.agg_simple(np.ones((3, 2)), graph=g),
            TypeError, "agg_simple: needs an Array",
        ),
        (
            lambda t, g: ad.agg_weighted(t.parameter(np.ones((3, 2))), None, graph=g),
            ValueError, "agg_weighted: an operand has no value: w is missing",
        ),
        (
            lambda t, g: ad.mha_gat(
                t.parameter(np.ones((3, 4))), np.ones((3, 4)), np.ones(7), graph=g
            ),
            ValueError, r"mha_gat: a is \(7\), needs \(8\)",
        ),
        (
            lambda t, g: ad.mha_gat(
                t.parameter(np.ones((3, 4))), np.ones((3, 4)), np.ones(8), graph=g, num_heads=3
            ),
            ValueError, r"mha_gat: x_src is \(3, 4\), needs \(3, 3\)",
        ),
        (
            lambda t, g: ad.mha_gat_v2(
                t.parameter(np.ones((3, 4))), np.ones((3, 4)), np.ones(4), graph=g, num_heads=0
            ),
            ValueError, "mha_gat_v2: num_heads is 0, needs at least 1",
        ),
        (
            lambda t, g: ad.mha_gat_v2(
                t.parameter(np.ones((3, 4))), np.ones((3, 4)), np.ones(4), graph=g,
                activation="relu",
            ),
            ValueError, "mha_gat_v2: activation is 'relu', needs one of",
        ),
        (
            lambda t, g: ad.mha_simple(
                t.parameter(np.ones((3, 4))), np.ones((3, 4)), np.ones((3, 4)), np.ones((3, 2)),
                graph=g,
            ),
            ValueError, r"mha_simple: e is \(3, 2\), needs \(3, 4\)",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    with pytest.raises(error, match=message):
        call(tape, graph)
    y = ad.agg_simple(tape.parameter(np.ones((3, 2))), graph=graph)
    assert y.shape == (3, 2)

# SPDX-License-Identifier: MIT
"""Aggregation and graph attention on the tape, against the operators and central differences."""

import numpy as np
import pytest

import gnograd as gg
import gnograd.autodiff as ad
from test_aggregation import AGGREGATIONS, concat, edges_alone, nodes_and_own, simple, weighted
from test_attention import gat, gat_v2, gat_v2_with_edges, gat_with_edges, qkv, qkv_with_edges
from test_edge_softmax import scores
from test_edge_updates import parts
from test_moments import points
from test_relational import everything, features, types_of


def relations(edges):
    return {"n_relations": 4, "edge_type": types_of(edges, 4), "aggregation": "mean"}


CASES = {
    **{f"agg_weighted {name}": ("agg_weighted", weighted, name) for name in AGGREGATIONS},
    **{f"agg_simple {name}": ("agg_simple", simple, name) for name in ("mean", "max")},
    "agg_simple e2n": ("agg_simple", edges_alone, "sum"),
    **{f"agg_concat {name}": ("agg_concat", concat, name) for name in ("mean", "min")},
    "agg_concat n2n": ("agg_concat", nodes_and_own, "sum"),
    "agg_relational": ("agg_relational", features, relations),
    "agg_relational basis": ("agg_relational", everything, relations),
    **{
        f"update_edges {mode}": (
            "update_edges",
            lambda edges, rng, wanted=wanted: parts(edges, rng, 2, wanted),
            {"mode": mode},
        )
        for mode, wanted in {"concat": [0, 1, 2], "sum": (1, 2)}.items()
    },
    "mha_gat": ("mha_gat", gat, {"num_heads": 2, "activation": "Tanh"}),
    "mha_gat edges": (
        "mha_gat",
        gat_with_edges,
        {"num_heads": 2, "concat_heads": False, "activation": "ELU", "negative_slope": 0.7},
    ),
    "mha_gat_v2": ("mha_gat_v2", gat_v2, {"activation": "Sigmoid"}),
    "mha_gat_v2 edges": (
        "mha_gat_v2",
        gat_v2_with_edges,
        {"num_heads": 2, "concat_heads": False, "activation": "Tanh"},
    ),
    "mha_simple": ("mha_simple", qkv, {"num_heads": 2}),
    "mha_simple edges": (
        "mha_simple",
        qkv_with_edges,
        {"num_heads": 2, "concat_heads": False, "norm_by_dim": False},
    ),
    "edge_softmax": ("edge_softmax", scores(3).make, {}),
    "offset_moments": ("offset_moments", points(3).make, {}),
    "mha_gat dropped": (
        "mha_gat",
        gat_with_edges,
        {"num_heads": 2, "activation": "Tanh", "dropout": 0.4, "seed": np.array([5])},
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


def setup(case, edges, rng):
    name, make, static = case
    static = {"aggregation": static} if isinstance(static, str) else static
    static = static(edges) if callable(static) else static
    heads = {"num_heads": static["num_heads"]} if "num_heads" in static else {}
    inputs = make(edges, rng, **heads)
    return getattr(ad, name), getattr(gg, name), inputs, {**static, "graph": edges.graph}


def on(tape, inputs):
    return [None if x is None else tape.parameter(x) for x in inputs]


def there(items):
    return [item for item in items if item is not None]


def number(y):
    weights = np.random.default_rng(3).normal(size=y.shape).astype(y.dtype)
    return ad.sum(ad.sin(y) * weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradients_are_those_of_the_operator(case, any_graph, rng, dtype):
    on_tape, operator, inputs, static = setup(case, any_graph, rng)
    inputs = [None if x is None else x.astype(dtype) for x in inputs]
    tape = ad.Tape(dtype)
    x = on(tape, inputs)
    y = on_tape(*x, **static)
    value, saved = operator.forward(*inputs, **static, return_saved=True)
    np.testing.assert_array_equal(y.value, value)
    cotangent = rng.normal(size=y.shape).astype(dtype)
    # the tape keeps what the operator would save, so the bits are these
    expected = operator.vjp(cotangent, inputs, **static, saved=saved)
    for create_graph in (False, True):
        found = ad.grad(ad.sum(y * cotangent), there(x), create_graph=create_graph)
        for a, b in zip(found, there(expected), strict=True):
            np.testing.assert_array_equal(a.value, b)


def test_second_order_is_that_of_the_operator(case, any_graph, rng):
    """The gradient of <grad, direction> is jvp to the cotangent and hvp to the inputs."""
    on_tape, operator, inputs, static = setup(case, any_graph, rng)
    tape = ad.Tape("float64")
    x = on(tape, inputs)
    y = on_tape(*x, **static)
    cotangent = tape.parameter(rng.normal(size=y.shape))
    gradients = ad.grad(ad.sum(y * cotangent), there(x), create_graph=True)
    directions = [None if value is None else rng.normal(size=value.shape) for value in inputs]
    total = tape.constant(0.0)
    for gradient, direction in zip(gradients, there(directions), strict=True):
        total = total + ad.sum(gradient * direction)
    found = ad.grad(total, [cotangent, *there(x)])
    expected = [
        operator.jvp(inputs, directions, **static),
        *there(operator.hvp(cotangent.value, inputs, directions, **static)),
    ]
    for a, b in zip(found, expected, strict=True):
        if operator.declaration.bilinear:  # sums of products of two factors, each rounded
            np.testing.assert_allclose(a.value, b, 1e-13, 1e-14)
        else:
            np.testing.assert_array_equal(a.value, b)


def test_second_order_by_differences(case, any_graph, rng):
    on_tape, _, inputs, static = setup(case, any_graph, rng)

    def first(tape, values, create_graph=False):
        x = on(tape, values)
        gradients = ad.grad(number(on_tape(*x, **static)), there(x), create_graph=create_graph)
        total = tape.constant(0.0)
        for gradient in gradients:
            total = total + number(gradient)
        return there(x), total

    tape = ad.Tape("float64")
    x, total = first(tape, inputs, True)
    found = iter(ad.grad(total, x))
    for k, value in enumerate(inputs):
        if value is None:
            continue
        direction = rng.normal(size=value.shape)
        sides = []
        for step in (1e-6, -1e-6):
            moved = list(inputs)
            moved[k] = value + step * direction
            sides.append(first(ad.Tape("float64"), moved)[1].item())
        difference = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.sum(next(found).value * direction), difference, 1e-5, 1e-6)


def test_only_wanted_gradients(any_graph, rng):
    inputs = gat(any_graph, rng)[:3]
    tape = ad.Tape("float64")
    a = tape.parameter(inputs[2])
    y = ad.mha_gat(inputs[0], inputs[1], a, graph=any_graph.graph)
    (g,) = ad.grad(ad.sum(y), [a], create_graph=True)
    expected = gg.mha_gat.vjp(np.ones(y.shape), inputs, {"a"}, graph=any_graph.graph)
    np.testing.assert_array_equal(g.value, expected[2])


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


def test_third_derivatives_are_refused(rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    x, w = rng.normal(size=(3, 2)), rng.uniform(1, 2, size=3)

    def mean(x, w):
        return ad.agg_weighted(x, w, graph=graph, aggregation="mean")

    with pytest.raises(NotImplementedError, match="agg_weighted: third derivatives"):
        third_order(mean, x, w)


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

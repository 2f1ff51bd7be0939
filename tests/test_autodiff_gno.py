# SPDX-License-Identifier: MIT
"""The graph neural operator on the tape, against the operator itself and central differences."""

import gc

import numpy as np
import pytest

import gnograd as gg
import gnograd.autodiff as ad

D, H, F_IN, F_OUT = 2, 5, 3, 4


def gno_inputs(edges, rng, kernel="full"):
    shape = (F_IN, F_OUT) if kernel == "full" else (F_IN,)
    return {
        "h": rng.normal(size=(edges.n_src, F_IN)),
        "coords": rng.normal(size=(edges.n_edges, D)),
        "U": rng.normal(size=(D, H)),
        "b_u": rng.normal(size=H),
        "V": rng.normal(size=(H, *shape)),
        "b_v": rng.normal(size=shape),
        "edge_weight": rng.random(edges.n_edges),
    }


def contract_inputs(edges, rng, kernel="full"):
    inputs = gno_inputs(edges, rng, kernel)
    return {
        "h": inputs["h"],
        "hid": rng.normal(size=(edges.n_edges, H)),
        **{name: inputs[name] for name in ("V", "b_v", "edge_weight")},
    }


def kernel_inputs(edges, rng):
    return {
        k: v for k, v in gno_inputs(edges, rng).items() if k in ("coords", "U", "b_u", "V", "b_v")
    }


def aggregate_inputs(edges, rng):
    return {
        "h": rng.normal(size=(edges.n_src, F_IN)),
        "kappa": rng.normal(size=(edges.n_edges, F_IN, F_OUT)),
    }


CASES = {
    "gno": (ad.gno, gg.gno, gno_inputs, {"activation": "tanh", "reduction": "mean"}),
    "gno diagonal": (
        ad.gno,
        gg.gno,
        lambda e, r: gno_inputs(e, r, "diagonal"),
        {"activation": "gelu", "kernel": "diagonal"},
    ),
    "gno_contract": (ad.gno_contract, gg.gno_contract, contract_inputs, {"reduction": "mean"}),
    "gno_kernel": (ad.gno_kernel, gg.gno_kernel, kernel_inputs, {"activation": "silu"}),
    "gno_aggregate": (
        ad.gno_aggregate,
        gg.gno_aggregate,
        aggregate_inputs,
        {"reduction": "mean"},
    ),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request):
    return request.param


def setup(case, edges, rng):
    on_tape, operator, make, static = case
    if operator is not gg.gno_kernel:
        static = {**static, "graph": edges.graph}
    return on_tape, operator, make(edges, rng), static


def number(y):
    weights = np.random.default_rng(3).normal(size=y.shape).astype(y.dtype)
    return ad.sum(ad.sin(y) * weights)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradients_are_those_of_the_operator(case, any_graph, rng, dtype):
    on_tape, operator, inputs, static = setup(case, any_graph, rng)
    inputs = [x.astype(dtype) for x in inputs.values()]
    tape = ad.Tape(dtype)
    x = [tape.parameter(value) for value in inputs]
    y = on_tape(*x, **static)
    np.testing.assert_array_equal(y.value, operator(*inputs, **static))
    cotangent = rng.normal(size=y.shape).astype(dtype)
    expected = operator.vjp(cotangent, inputs, **static)
    for create_graph in (False, True):
        found = ad.grad(ad.sum(y * cotangent), x, create_graph=create_graph)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.value, b)


def test_second_order(case, any_graph, rng):
    on_tape, _, inputs, static = setup(case, any_graph, rng)

    def first(tape, values, create_graph=False):
        x = [tape.parameter(value) for value in values]
        gradients = ad.grad(number(on_tape(*x, **static)), x, create_graph=create_graph)
        total = tape.constant(0.0)
        for gradient in gradients:
            total = total + number(gradient)
        return x, total

    values = list(inputs.values())
    tape = ad.Tape("float64")
    x, total = first(tape, values, True)
    for k, gradient in enumerate(ad.grad(total, x)):
        direction = rng.normal(size=values[k].shape)
        sides = []
        for step in (1e-6, -1e-6):
            moved = list(values)
            moved[k] = values[k] + step * direction
            sides.append(first(ad.Tape("float64"), moved)[1].item())
        difference = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient.value * direction), difference, 1e-6, 1e-6)


def test_only_wanted_gradients(any_graph, rng):
    inputs = gno_inputs(any_graph, rng)
    tape = ad.Tape("float64")
    V = tape.parameter(inputs["V"])
    y = ad.gno(**{**inputs, "V": V}, graph=any_graph.graph, activation="gelu")
    (g,) = ad.grad(ad.sum(y), [V], create_graph=True)
    expected = gg.gno.vjp(
        np.ones(y.shape), tuple(inputs.values()), {"V"}, graph=any_graph.graph, activation="gelu"
    )
    np.testing.assert_array_equal(g.value, expected[4])


def test_absent_inputs(any_graph, rng):
    inputs = gno_inputs(any_graph, rng, "diagonal")
    inputs["h"] = inputs["edge_weight"] = None
    tape = ad.Tape("float64")
    x = {k: v if v is None else tape.parameter(v) for k, v in inputs.items()}
    y = ad.gno(**x, graph=any_graph.graph, kernel="diagonal", activation="sin")
    np.testing.assert_array_equal(
        y.value, gg.gno(**inputs, graph=any_graph.graph, kernel="diagonal", activation="sin")
    )
    ad.sum(y).backward()
    assert x["V"].grad.shape == (H, F_IN)


def test_aggregation_has_derivatives_of_any_order(rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2, 2], dst=[1, 0, 1, 1])
    tape = ad.Tape("float64")
    h, kappa = tape.parameter(rng.normal(size=(3, 2))), tape.parameter(rng.normal(size=(4, 2, 2)))
    total = number(ad.gno_aggregate(h, kappa, graph=graph))
    for _ in range(3):
        (g, _) = ad.grad(total, [h, kappa], create_graph=True)
        total = number(g)
    assert np.isfinite(ad.grad(total, [kappa])[0].value).all()


def test_third_derivatives_are_refused(rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    coords, U = tape.parameter(rng.normal(size=(3, D))), rng.normal(size=(D, H))
    V, b_v = rng.normal(size=(H, 1, 1)), np.zeros((1, 1))
    y = ad.gno(np.ones((3, 1)), coords, U, np.zeros(H), V, b_v, graph=graph, activation="tanh")
    (g,) = ad.grad(ad.sum(y), [coords], create_graph=True)
    (h,) = ad.grad(ad.sum(g * g), [coords], create_graph=True)
    with pytest.raises(NotImplementedError, match="gno: third derivatives"):
        ad.grad(ad.sum(h * h), [coords])


def test_graphs_live_as_long_as_their_arrays(rng):
    tape = ad.Tape("float64")
    h = tape.parameter(rng.normal(size=(3, 2)))
    kappa = rng.normal(size=(2, 2, 2))
    mark = tape.mark()
    y = ad.gno_aggregate(h, kappa, graph=gg.Graph.from_edges([0, 1], [1, 0], 3))
    gc.collect()
    ad.sum(y).backward()
    assert np.isfinite(h.grad).all()
    tape.rewind(mark)
    assert not tape._kept


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"h": np.ones((4, F_IN))}, ValueError, r"gno: h is \(4, 3\), needs \(3, 3\)"),
        ({"coords": np.ones((2, D))}, ValueError, r"gno: coords is \(2, 2\), needs \(3, 2\)"),
        ({"b_u": np.ones(H + 1)}, ValueError, r"gno: b_u is \(6\), needs \(5\)"),
        ({"b_v": np.ones((F_OUT, F_IN))}, ValueError, r"gno: b_v is \(4, 3\), needs \(3, 4\)"),
        ({"U": np.ones((D, H), np.float32)}, TypeError, "gno: operands of different kinds"),
        ({"activation": "swish"}, ValueError, "activation is 'swish', not one of"),
        ({"h": None}, ValueError, "a full kernel needs h"),
    ],
)
def test_errors(rng, changes, error, message):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    inputs = {
        "h": rng.normal(size=(3, F_IN)),
        "coords": rng.normal(size=(3, D)),
        "U": rng.normal(size=(D, H)),
        "b_u": np.zeros(H),
        "V": tape.parameter(rng.normal(size=(H, F_IN, F_OUT))),
        "b_v": np.zeros((F_IN, F_OUT)),
    }
    with pytest.raises(error, match=message):
        ad.gno(**{**inputs, **changes}, graph=graph)
    assert ad.gno(**inputs, graph=graph).shape == (3, F_OUT)

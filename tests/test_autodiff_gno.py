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


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"h": np.ones((4, F_IN))}, ValueError, r"gno: h is \(4, 3\), needs \(3, 3\)"),
        ({"coords": np.ones((2, D))}, ValueError, r"gno: coords is \(2, 2\), needs \(3, 2\)"),
        ({"b_u": np.ones(H + 1)}, ValueError, r"gno: b_u is \(6\), needs \(5\)"),
        ({"b_v": np.ones((F_OUT, F_IN))}, ValueError, r"gno: b_v is \(4, 3\), needs \(3, 4\)"),
        ({"U": np.ones((D, H), np.float32)}, TypeError, "gno: operands of different kinds"),
        ({"activation": "swish"}, ValueError, "activation is 'swish', needs one of"),
        ({"h": None}, ValueError, "gno: an operand has no value: h is missing"),
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


# ---- with derivatives by the query positions ----

JETS = {
    "gno_with_gradient": {"widths": [4], "activation": "silu", "reduction": "mean"},
    "gno_with_laplacian": {"widths": [4, 3], "activation": "tanh", "geometry": "pair"},
    "gno_with_hessian": {"widths": [4], "activation": "gelu", "kernel": "diagonal"},
}


def jets_inputs(edges, rng, name):
    static = JETS[name]
    widths, pair = static["widths"], static.get("geometry") == "pair"
    shape = (F_IN,) if static.get("kernel") == "diagonal" else (F_IN, F_OUT)
    n_in = 2 * D if pair else D
    layers = [
        (rng.normal(size=(before, width)), rng.normal(size=width))
        for before, width in zip([n_in, *widths[:-1]], widths, strict=True)
    ]
    n_derivatives = {"gno_with_gradient": D, "gno_with_laplacian": D + 1}.get(name, D + 3)
    return [
        rng.normal(size=(edges.n_src, F_IN)),
        rng.normal(size=(edges.n_dst, D)),
        rng.normal(size=(edges.n_src, D)),
        gg.gno_pack_layers(layers),
        rng.normal(size=(widths[-1], *shape)),
        rng.normal(size=shape),
        rng.normal(size=edges.n_edges),
        rng.normal(size=(edges.n_edges, n_derivatives)),
    ]


@pytest.mark.parametrize("name", JETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jets_are_those_of_the_operator(name, any_graph, rng, dtype):
    inputs = [x.astype(dtype) for x in jets_inputs(any_graph, rng, name)]
    static = {**JETS[name], "graph": any_graph.graph}
    operator = getattr(gg, name)
    tape = ad.Tape(dtype)
    x = [tape.parameter(value) for value in inputs]
    outputs = getattr(ad, name)(*x, **static)
    expected = operator(*inputs, **static)
    cotangents = tuple(rng.normal(size=y.shape).astype(dtype) for y in expected)
    loss = tape.constant(0.0)
    for y, value, cotangent in zip(outputs, expected, cotangents, strict=True):
        np.testing.assert_array_equal(y.value, value)
        loss = loss + ad.sum(y * cotangent)
    for create_graph in (False, True):
        found = ad.grad(loss, x, create_graph=create_graph)
        for a, b in zip(found, operator.vjp(cotangents, inputs, **static), strict=True):
            np.testing.assert_array_equal(a.value, b)


@pytest.mark.parametrize("name", JETS)
def test_jets_second_order(name, rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2, 2, 1], dst=[1, 0, 1, 1, 3], n_src=3, n_dst=4)
    edges = type("Edges", (), {"n_src": 3, "n_dst": 4, "n_edges": 5})
    values = jets_inputs(edges, rng, name)

    def first(values, create_graph=False):
        tape = ad.Tape("float64")
        x = [tape.parameter(value) for value in values]
        outputs = getattr(ad, name)(*x, graph=graph, **JETS[name])
        loss = number(outputs[0]) + number(outputs[1])
        loss = loss + number(outputs[2]) if len(outputs) > 2 else loss
        total = tape.constant(0.0)
        for gradient in ad.grad(loss, x, create_graph=create_graph):
            total = total + number(gradient)
        return x, total

    x, total = first(values, True)
    for k, gradient in enumerate(ad.grad(total, x)):
        direction = rng.normal(size=values[k].shape)
        sides = []
        for step in (1e-6, -1e-6):
            moved = list(values)
            moved[k] = values[k] + step * direction
            sides.append(first(moved)[1].item())
        difference = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient.value * direction), difference, 1e-5, 1e-5)


def test_jets_errors(rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    edges = type("Edges", (), {"n_src": 3, "n_dst": 3, "n_edges": 3})
    inputs = jets_inputs(edges, rng, "gno_with_gradient")
    inputs[3] = tape.parameter(inputs[3])
    static = {**JETS["gno_with_gradient"], "graph": graph}
    wrong = [*inputs[:1], np.ones((3, 3)), *inputs[2:]]
    with pytest.raises(ValueError, match="gno_with_gradient: y has shape"):
        ad.gno_with_gradient(*wrong, **static)
    with pytest.raises(ValueError, match="gno_with_gradient: layers has shape"):
        ad.gno_with_gradient(*inputs, **{**static, "widths": [5]})
    with pytest.raises(ValueError, match="gno_with_gradient: geometry is 'both'"):
        ad.gno_with_gradient(*inputs, **{**static, "geometry": "both"})
    with pytest.raises(ValueError, match="weight_derivatives goes with edge_weight"):
        ad.gno_with_gradient(*inputs[:6], None, inputs[7], **static)
    assert ad.gno_with_gradient(*inputs, **static)[1].shape == (graph.n_dst, D, F_OUT)

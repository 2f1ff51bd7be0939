# SPDX-License-Identifier: MIT
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import faces
import gnograd as gg
from conftest import Edges, power_law
from memory import needs_linux, temporary_bytes
from table import FRONT, network

EVERYTHING = FRONT["edge_mlp"]


# ---- forward ----


@pytest.mark.parametrize("f", [f for f in product((0, 2), (0, 3), (0, 1)) if any(f)])
@pytest.mark.parametrize("further", range(4))
@pytest.mark.parametrize("outputs", ["both", "edges", "nodes"])
def test_all_combinations(f, further, outputs, rng):
    edges = power_law(8, 30)
    for residual, layer_norm in product({bool(f[0]), False}, (False, True)):
        widths = [4, 5, 2, 3][: further + 1]
        options = dict(residual=residual, layer_norm=layer_norm, outputs=outputs)
        case = network(widths, f, weight=True, reduction="mean", **options)
        faces.check_forward(case, edges, rng)
        faces.check_adjoint(case, edges, rng)


def test_packed_weights(rng):
    W_e, W_d, W_1 = (rng.normal(size=shape) for shape in [(2, 4), (3, 4), (4, 5)])
    b_0, gamma, beta = (rng.normal(size=n) for n in (4, 5, 5))
    packed = gg.edge_mlp_pack(W_e, None, W_d, b_0, [(W_1, None)], gamma, beta)
    assert_array_equal(packed, faces.join((W_e, W_d, b_0, W_1, np.zeros(5), gamma, beta)))
    single = gg.edge_mlp_pack(W_e.astype(np.float32), None, None, None)
    assert single.dtype == np.float32


# ---- vjp ----


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


# ---- errors ----


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"widths": []}, ValueError, "edge_mlp: widths is empty"),
        ({"widths": [5, 0]}, ValueError, r"edge_mlp: widths\[1\] is 0, needs at least 1"),
        ({"layer_norm": 1.5}, TypeError, "edge_mlp: layer_norm"),
        ({"e": None}, TypeError, "edge_mlp: e is missing"),
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
        ({"layer_norm": False}, ValueError, "edge_mlp: weights has shape"),
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


def _training_step(n_edges, outputs):
    gg.set_num_threads(1)
    rng = np.random.default_rng(0)
    case = network([64, 128, 64], (64, 16, 16), outputs=outputs)
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

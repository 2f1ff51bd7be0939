# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from conftest import Edges, power_law
from memory import needs_linux, temporary_bytes
from reference import attention as reference

# ---- forward ----


def test_weights_of_a_destination_add_up_to_one(rng):
    edges = power_law(30, 500)
    alpha = gg.edge_softmax(rng.normal(size=(500, 2)), graph=edges.graph)
    total = gg.agg_simple(None, alpha, graph=edges.graph)
    degree = np.bincount(edges.dst, minlength=30)
    assert_allclose(total, np.minimum(degree, 1)[:, None] * np.ones(2), rtol=1e-14)


@pytest.mark.parametrize("heads", [3, 21, 64])
def test_rows_of_any_length(rng, heads):
    # several in a block of exponentials, and one that does not fit
    dst = np.concatenate([np.zeros(1_500, np.int64), rng.integers(1, 30, 90)])
    src = np.arange(len(dst)) % 30
    s = rng.normal(size=(len(dst), heads))
    found = gg.edge_softmax(s, graph=gg.Graph.from_edges(src, dst, 30, 30))
    assert_allclose(found, reference.edge_softmax(s, src, dst, 30), rtol=1e-12)


@pytest.mark.parametrize("shift", [1e5, -1e5, 1e300])
def test_large_scores(shift):
    graph = gg.Graph.from_edges([0, 1, 2], [0, 0, 1])
    s = np.array([[0.0], [1.0], [5.0]]) * (1 if shift < 1e300 else 0) + shift
    expected = [[0.5], [0.5], [1.0]] if shift == 1e300 else reference.edge_softmax(
        s, np.array([0, 1, 2]), np.array([0, 0, 1]), 2
    )  # fmt: skip
    assert_allclose(gg.edge_softmax(s, graph=graph), expected, rtol=1e-11)
    gradient = gg.edge_softmax.vjp(np.array([[1.0], [2.0], [3.0]]), (s,), graph=graph)[0]
    assert np.all(np.isfinite(gradient))


def test_a_score_of_minus_infinity_is_an_edge_without_weight():
    graph = gg.Graph.from_edges([0, 1, 2, 3], [0, 0, 1, 1])
    inf = np.inf
    s = np.array([[-inf, 0.0], [2.0, -inf], [-inf, -inf], [-inf, 1.0]])
    alpha = gg.edge_softmax(s, graph=graph)
    assert_array_equal(alpha, [[0, 1], [1, 0], [0, 0], [0, 1]])
    c = np.arange(8.0).reshape(4, 2)
    for gradient in (
        gg.edge_softmax.vjp(c, (s,), graph=graph)[0],
        gg.edge_softmax.hvp(c, (s,), (c,), graph=graph)[0],
        gg.edge_softmax.jvp((s,), (c,), graph=graph),
    ):
        assert_array_equal(gradient, np.zeros((4, 2)))


def test_not_a_number_stays_at_its_destination():
    graph = gg.Graph.from_edges([0, 1, 2, 3], [0, 0, 1, 1])
    s = np.array([[0.0], [np.nan], [1.0], [1.0]])
    assert_array_equal(gg.edge_softmax(s, graph=graph), [[np.nan], [np.nan], [0.5], [0.5]])


# ---- attention of it ----


def test_as_weight_of_gno_it_is_an_attention(rng):
    """`gno_contract` with a kernel of 1 and these weights is mha_simple of the same scores."""
    edges = power_law(10, 60)
    q, k = rng.normal(size=(2, 10, 4))
    v = rng.normal(size=(10, 4))
    s = np.sum(q[edges.dst] * k[edges.src], axis=1, keepdims=True)
    alpha = gg.edge_softmax(s, graph=edges.graph)[:, 0].copy()
    hid, ones = np.ones((60, 1)), np.ones((1, 4))
    out = gg.gno_contract(v, hid, ones, np.zeros(4), alpha, graph=edges.graph, kernel="diagonal")
    expected = gg.mha_simple(q, k, v, graph=edges.graph, norm_by_dim=False)
    assert_allclose(out, expected, rtol=1e-12, atol=1e-13)


# ---- determinism, memory ----


def _training_step(n_edges):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 1000, (2, n_edges))
    graph = Edges(src, dst, 1000, 1000).graph
    s, t = rng.normal(size=(2, n_edges, 4))
    out, *others = np.empty((4, n_edges, 4))

    def work():
        gg.edge_softmax.forward(s, graph=graph, out=(out,))
        gg.edge_softmax.vjp(t, (s,), graph=graph, out=(others[0],))
        gg.edge_softmax.jvp((s,), (t,), graph=graph, out=(others[1],))
        gg.edge_softmax.hvp(t, (s,), (t,), graph=graph, out=(others[2],))
        return []

    work()
    return work


@needs_linux
def test_no_temporary_memory():
    assert temporary_bytes(_training_step, 200_000) < 2**20

# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from conftest import GRAPHS, power_law
from reference import moments as reference

# ---- forward ----


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_neighborhood_moments(d, any_graph, rng):
    edges = any_graph
    x, y = rng.normal(size=(edges.n_src, d)), rng.normal(size=(edges.n_dst, d))
    found = gg.neighborhood_moments(x, edges.graph, y)
    expected = reference.neighborhood_moments(x, y, edges.src, edges.dst, edges.n_dst)
    columns = [found.count, found.mean, found.variance, found.centroid, found.eigenvalues]
    assert_allclose(np.column_stack(columns), expected, rtol=1e-12, atol=1e-13)


def test_destinations_are_the_sources_when_left_out(rng):
    edges = GRAPHS["self-loops"]
    x = rng.normal(size=(5, 2))
    for own, both in zip(
        gg.neighborhood_moments(x, edges.graph),
        gg.neighborhood_moments(x, edges.graph, x),
        strict=True,
    ):
        assert_array_equal(own, both)
    with pytest.raises(ValueError, match="neighborhood_moments: graph has 7 sources and 3"):
        gg.neighborhood_moments(np.ones((7, 2)), GRAPHS["bipartite"].graph)


def test_numbers_far_from_the_origin(rng):
    """Spreads are of what is left of the centre, so that they keep their digits."""
    edges = power_law(10, 60)
    x, y = rng.normal(size=(2, 10, 2))
    x, y = (1e6 + np.round(a * 1024) / 1024 for a in (x, y))
    expected = gg.offset_moments(x - 1e6, y - 1e6, graph=edges.graph)
    assert_array_equal(gg.offset_moments(x, y, graph=edges.graph), expected)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_thousands_of_neighbors_in_float32(d, rng):
    """Sums over edges keep the digits of float32, however many there are."""
    n = 20_000
    graph = gg.Graph.from_edges(np.arange(n), np.zeros(n, int), n, 1)
    columns = 2 + d + d * (d + 1) // 2
    x, y, c = (rng.normal(size=size).astype("f4") for size in [(n, d), (1, d), (1, columns)])
    exact_x, exact_y, exact_c = (a.astype("f8") for a in (x, y, c))
    t, exact_t = (x[::-1], y), (exact_x[::-1], exact_y)
    for found, exact in [
        (gg.offset_moments(x, y, graph=graph), gg.offset_moments(exact_x, exact_y, graph=graph)),
        (
            gg.offset_moments.jvp((x, y), t, graph=graph),
            gg.offset_moments.jvp((exact_x, exact_y), exact_t, graph=graph),
        ),
        (
            gg.offset_moments.vjp(c, (x, y), graph=graph)[1],
            gg.offset_moments.vjp(exact_c, (exact_x, exact_y), graph=graph)[1],
        ),
    ]:
        assert_allclose(found, exact, rtol=0, atol=5e-7 * np.abs(exact).max())


# ---- degenerate graphs (all faces run on every graph above) ----


def test_points_that_coincide(rng):
    """A distance of 0 has no part in any derivative; all else is as elsewhere."""
    graph = gg.Graph.from_edges([0, 1], [0, 0], 2, 1)
    x, y = np.array([[0.5, 0.5], [2.5, 0.5]]), np.array([[0.5, 0.5]])
    c = np.array([[1.0, 1.0, 0, 0, 0, 0, 0]])
    t = rng.normal(size=(2, 2)), rng.normal(size=(1, 2))
    assert_array_equal(gg.offset_moments(x, y, graph=graph), [[1, 1, 1, 0, 1, 0, 0]])
    # the other node: (1 + 2 (2 - 1))/2 along x
    grad_x, grad_y = gg.offset_moments.vjp(c, (x, y), graph=graph)
    assert_array_equal(grad_x, [[0, 0], [1.5, 0]])
    assert_array_equal(grad_y, [[-1.5, 0]])
    length = t[0][1, 0] - t[1][0, 0]
    tangent = gg.offset_moments.jvp((x, y), t, graph=graph)
    assert_allclose(tangent[0, :2], [length / 2, length])
    second = gg.offset_moments.hvp(c, (x, y), t, graph=graph)
    across = 1.5 * (t[0][1, 1] - t[1][0, 1]) / 2
    assert_allclose(second[0], [[0, 0], [length / 2, across]], atol=1e-15)
    assert_allclose(second[1], [[-length / 2, -across]], atol=1e-15)

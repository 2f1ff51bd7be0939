# SPDX-License-Identifier: MIT
"""Graphs of points with batches, of matrices, and of other graphs."""

import re

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import gnograd as gg
from test_graph import edge_lists


def same(graph, other):
    assert graph.sizes == other.sizes
    assert_array_equal(graph.src, other.src)
    assert_array_equal(graph.dst, other.dst)
    for mine, theirs in zip(graph.transpose, other.transpose, strict=True):
        assert_array_equal(mine, theirs)


def edges_of(graph):
    """Rows that belong to an edge, with source and destination."""
    n, ids = int(graph.offsets[-1]), graph.edge_ids
    rows = np.arange(n) if ids is None else np.sort(ids[:n])
    return [*zip(rows.tolist(), graph.src[rows].tolist(), graph.dst[rows].tolist(), strict=True)]


# ---- points ----


@pytest.mark.parametrize("options", [{}, {"max_neighbors": 2}, {"period": 0.7}])
def test_batches_are_disjoint(options, rng):
    points, others = rng.random((30, 2)), rng.random((20, 2))
    batch, other_batch = np.repeat([-3, 5, 2**40], [7, 3, 20]), np.repeat([5, 6, 2**40], [12, 3, 5])
    whole = gg.Graph.radius(points, 0.4, others, batch=batch, destination_batch=other_batch)
    near = gg.Graph.radius(points, 0.4, others)
    pairs = [(j, i) for _, j, i in edges_of(near) if batch[j] == other_batch[i]]
    assert [(j, i) for _, j, i in edges_of(whole)] == pairs
    parts = [points[:7], points[7:10], points[10:]]
    same(
        gg.Graph.radius(points, 0.4, batch=batch, **options),
        gg.Graph.batch([gg.Graph.radius(part, 0.4, **options) for part in parts]),
    )
    options.pop("max_neighbors", None)
    same(
        gg.Graph.knn(points, 4, batch=batch, include_self=False, **options),
        gg.Graph.batch([gg.Graph.knn(part, 4, include_self=False, **options) for part in parts]),
    )


def test_random_choice_in_a_batch_is_by_the_points_numbers(rng):
    points, batch = rng.random((40, 2)), np.repeat([0, 1], 20)
    choice = {"max_neighbors": 40, "choose": "random"}
    same(
        gg.Graph.radius(points, 0.9, batch=batch, **choice),
        gg.Graph.radius(points, 0.9, batch=batch),
    )
    choice = {"max_neighbors": 3, "choose": "random", "seed": 7}
    graph = gg.Graph.radius(points, 9.0, batch=batch, **choice)
    halves = [gg.Graph.radius(points[:20], 9.0, **choice)]
    # the second half hashes other numbers than it would by itself
    assert edges_of(graph)[:60] == edges_of(halves[0])
    assert (graph.in_degree == 3).all()


@pytest.mark.parametrize("batch", [[], np.empty(0, np.int64)])
def test_batch_of_no_points(batch):
    assert gg.Graph.knn(np.zeros((0, 2)), 3, batch=batch).sizes == (0, 0, 0)
    assert gg.Graph.radius(np.zeros((0, 2)), 3.0, batch=batch).sizes == (0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch": [0, 1]}, ValueError, r"batch has shape \(2,\), needs one id for each of 3"),
        ({"batch": [0, 1, 0]}, ValueError, "batch descends at point 2"),
        ({"batch": [0.0, 1.0, 2.0]}, TypeError, "batch is float64, needs integers"),
        ({"batch": np.ma.array([0, 0, 0])}, TypeError, "batch is a masked array"),
        ({"destination_batch": [0, 0, 0]}, ValueError, "destination_batch goes with destinations"),
        (
            {"batch": [0, 0, 0], "destinations": np.zeros((1, 2))},
            ValueError,
            "batch goes with destination_batch: give both or none",
        ),
    ],
)
def test_refused_batches(arguments, error, message):
    with pytest.raises(error, match=message):
        gg.Graph.radius(np.zeros((3, 2)), 1.0, **arguments)
    with pytest.raises(error, match=message):
        gg.Graph.knn(np.zeros((3, 2)), 1, **arguments)


# ---- other forms of edges ----


@settings(deadline=None)
@given(edge_lists())
def test_from_edge_index(edges):
    src, dst, n_src, n_dst = edges
    same(gg.Graph.from_edge_index(np.stack([src, dst]), n_src, n_dst), gg.Graph.from_edges(*edges))


@settings(deadline=None)
@given(edge_lists(), st.sampled_from(["csr", "csc", "coo", "dok", "lil"]), st.booleans())
def test_scipy(edges, kind, array):
    """`matrix.data` is an edge array, and products are sums over neighbours."""
    src, dst, n_src, n_dst = edges
    values = np.random.default_rng(0).normal(size=len(src))
    made = scipy.sparse.coo_array if array else scipy.sparse.coo_matrix
    matrix = made((values, (dst, src)), shape=(n_dst, n_src)).asformat(kind)
    entries = matrix if kind in ("csr", "csc", "coo") else matrix.tocsr()
    graph = gg.Graph.from_scipy(matrix)
    assert graph.sizes == (n_src, n_dst, len(entries.data))
    x = np.random.default_rng(1).normal(size=(n_src, 2))
    np.testing.assert_allclose(
        gg.agg_weighted(x, entries.data, graph=graph), matrix @ x, rtol=1e-12, atol=1e-12
    )
    back = graph.to_scipy(entries.data)
    assert isinstance(back, scipy.sparse.csr_array)
    np.testing.assert_allclose(back @ x, matrix @ x, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(edge_lists())
def test_to_scipy_and_back(edges):
    graph = gg.Graph.from_edges(*edges)
    other = gg.Graph.from_scipy(graph.to_scipy())
    assert_array_equal(other.offsets, graph.offsets)
    assert_array_equal(other.indices, graph.indices)
    roomy = graph.pad(graph.n_edges + 3)
    matrix = roomy.to_scipy(np.append(np.arange(graph.n_edges), [np.nan] * 3))
    assert_array_equal(matrix.data, graph.to_scipy(np.arange(graph.n_edges)).data)
    matrix.indices[:] = 0  # a copy
    assert_array_equal(other.indices, graph.indices)


def test_scipy_with_room():
    matrix = scipy.sparse.csr_array(([1.0, 2.0, 9.0], [1, 0, 0], [0, 1, 2]), shape=(2, 2))
    assert gg.Graph.from_scipy(matrix).n_edges == 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gg.Graph.from_scipy(np.eye(2)), TypeError, "matrix is of type ndarray"),
        (
            lambda: gg.Graph([0, 1], [0]).to_scipy([1.0, 2.0]),
            ValueError,
            r"values has shape \(2,\), needs \(1,\)",
        ),
        (lambda: gg.Graph.from_edge_index(np.zeros(3, int)), ValueError, r"shape \(3,\), needs"),
        (lambda: gg.Graph.from_edge_index(np.zeros((2, 1))), TypeError, "src is float64"),
        (
            lambda: gg.Graph.from_edge_index(np.ma.zeros((2, 1), int)),
            TypeError,
            "src is a masked array",
        ),
        (lambda: gg.Graph.from_edge_index([[5], [0]], 2), IndexError, r"src\[0\] is 5"),
        (lambda: gg.Graph.union(gg.Graph([0, 1], [0]), 3), TypeError, "graph 1 is of type int"),
        (lambda: gg.Graph.union(None), TypeError, "graph 0 is of type NoneType, needs a Graph"),
        (
            lambda: gg.Graph.union(gg.Graph([0, 1], [0]), gg.Graph([0, 1], [0], 2)),
            ValueError,
            "graph 1 has 2 sources and 1 destinations, needs 1 and 1",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- other graphs ----


@settings(deadline=None)
@given(edge_lists(), st.integers(0, 20), st.booleans())
def test_union(edges, at, room):
    src, dst, n_src, n_dst = edges
    graphs = [
        gg.Graph.from_edges(s, d, n_src, n_dst) for s, d in ((src[:at], dst[:at]), (src, dst))
    ]
    if room:
        graphs = [graph.pad(graph.n_edges + 2) for graph in graphs]
    expected = [*dict.fromkeys(zip(src.tolist(), dst.tolist(), strict=True))]
    for union in (gg.Graph.union(*graphs), gg.Graph.union(graphs[1], *graphs)):
        assert union.sizes == (n_src, n_dst, len(expected))
        assert [(j, i) for _, j, i in edges_of(union)] == expected
    same(union, gg.Graph.union(union))


@settings(deadline=None)
@given(edge_lists())
def test_reverse(edges):
    src, dst, n_src, n_dst = edges
    graph = gg.Graph.from_edges(*edges)
    back = graph.reverse()
    same(back, gg.Graph.from_edges(dst, src, n_dst, n_src))
    same(back.reverse(), graph)
    loops = graph.pad(graph.n_edges + 3)
    assert [(row, j, i) for row, i, j in edges_of(loops.reverse())] == edges_of(loops)
    weight = np.random.default_rng(0).normal(size=len(src))
    x = np.eye(n_dst)
    expected = np.zeros((n_src, n_dst))
    np.add.at(expected, (src, dst), weight)
    np.testing.assert_allclose(gg.agg_weighted(x, weight, graph=back), expected, rtol=1e-12)


def test_reverse_of_a_batch():
    parts = [gg.Graph([0, 2], [0, 1], 3), gg.Graph([0, 1, 1], [0])]
    back = gg.Graph.batch(parts).reverse()
    for part, other in zip(back.unbatch(), parts, strict=True):
        same(part, other.reverse())


@settings(deadline=None)
@given(edge_lists())
def test_with_self_loops(edges):
    graph = gg.Graph.from_edges(*edges)
    same(graph.with_self_loops(), gg.Graph.from_edges(*edges, self_loops=True))
    again = graph.with_self_loops().with_self_loops()
    ends = lambda graph: [(j, i) for _, j, i in edges_of(graph)]  # noqa: E731
    assert ends(again) == ends(graph.with_self_loops())
    assert again.n_edges == graph.n_edges + 2 * min(graph.n_src, graph.n_dst)


def test_kernels_take_what_is_made(rng):
    """Gradients by the graph of rows, some of which belong to no edge."""
    graph = gg.Graph.from_edges([0, 1, 2, 2], [0, 0, 2, 1], 3).with_self_loops().reverse()
    x, weight = rng.normal(size=(3, 2)), rng.normal(size=graph.n_edges)
    cotangent = rng.normal(size=(3, 2))
    gradients = gg.agg_weighted.vjp(cotangent, (x, weight), graph=graph)
    expected_x, expected_weight = np.zeros_like(x), np.zeros_like(weight)
    for row, j, i in edges_of(graph):
        expected_x[j] += weight[row] * cotangent[i]
        expected_weight[row] = cotangent[i] @ x[j]
    np.testing.assert_allclose(gradients[0], expected_x, rtol=1e-12)
    np.testing.assert_allclose(gradients[1], expected_weight, rtol=1e-12)


# ---- arguments by name ----

POINTS = np.arange(4.0)[:, None] * 0.1
ITEMS = np.array([0, 1, 2, 4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gg.Graph.radius(POINTS, 1.0, POINTS, True, None, ITEMS, ITEMS),
            "Graph.radius: include_self and period and batch and destination_batch by position, "
            "needs include_self=..., period=..., batch=..., destination_batch=...",
        ),
        (
            lambda: gg.Graph.radius(POINTS, 1.0, None, False, batch=ITEMS),
            "Graph.radius: include_self by position, needs include_self=...",
        ),
        (
            lambda: gg.Graph.knn(POINTS, 2, POINTS, 1.0),
            "Graph.knn: period by position, needs period=...",
        ),
        (
            lambda: gg.knn(POINTS, 2, POINTS, True),
            "knn: include_self by position, needs include_self=...",
        ),
        (
            lambda: gg.neighbors(POINTS, 1.0, POINTS, True, None, ITEMS, ITEMS),
            "neighbors: include_self and period and source_items and destination_items by position",
        ),
        (
            lambda: gg.neighbor_list(POINTS, 1.0, None, True, False),
            "neighbor_list: periodic and full by position, needs periodic=..., full=...",
        ),
        (
            lambda: gg.DistributedGraph.radius(POINTS, 1.0, None, POINTS, True),
            "DistributedGraph.radius: x_dst and include_self by position, needs x_dst=...",
        ),
        (
            lambda: gg.Graph.from_edges([0], [0], 1, 1, True),
            "Graph.from_edges: self_loops by position, needs self_loops=...",
        ),
        (
            lambda: gg.Graph.from_edge_index([[0], [0]], 1, 1, True),
            "Graph.from_edge_index: self_loops by position, needs self_loops=...",
        ),
    ],
)
def test_positions_that_meant_other_things(call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (2,), (1, 2, 4)])
def test_an_edge_index_has_two_rows(shape):
    with pytest.raises(ValueError, match=rf"edge_index has shape {re.escape(str(shape))}, needs"):
        gg.Graph.from_edge_index(np.zeros(shape, int))


def test_more_positions_than_ever_were():
    with pytest.raises(TypeError, match=r"takes .* positional arguments"):
        gg.Graph.radius(POINTS, 1.0, POINTS, True, None, ITEMS, ITEMS, 3)


@pytest.mark.parametrize("find", [gg.Graph.radius, gg.Graph.knn, gg.neighbors, gg.knn])
def test_items_by_pointer_and_by_id(find):
    amount = 2 if "knn" in find.__name__ else 1.0
    ends, ids = [0, 1, 4], [0, 1, 1, 1]
    by_id = find(POINTS, amount, batch=ids)
    for both in ({}, {"destination_items": ends}):
        by_pointer = find(POINTS, amount, source_items=ends, **both)
        assert all(map(np.array_equal, arrays_of(by_pointer), arrays_of(by_id)))
    there = find(POINTS, amount, POINTS, source_items=ends, destination_items=ends)
    assert all(map(np.array_equal, arrays_of(there), arrays_of(by_id)))
    with pytest.raises(ValueError, match="batch and source_items: give one of them"):
        find(POINTS, amount, batch=ids, source_items=ends)
    with pytest.raises(ValueError, match="source_items goes with destination_items"):
        find(POINTS, amount, POINTS, source_items=ends)


def arrays_of(found):
    return found.offsets, found.indices

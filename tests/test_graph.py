# SPDX-License-Identifier: MIT
import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import gnograd as gg
from conftest import GRAPHS


@st.composite
def edge_lists(draw):
    n_src, n_dst = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    size = draw(st.integers(0, 20)) if n_src and n_dst else 0
    node = lambda n: st.lists(st.integers(0, max(n - 1, 0)), min_size=size, max_size=size)  # noqa: E731
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    src, dst = (np.array(draw(node(n)), dtype) for n in (n_src, n_dst))
    return src, dst, n_src, n_dst


# ---- construction ----


@settings(deadline=None)
@given(edge_lists())
def test_from_edges_keeps_the_edges(edges):
    src, dst, n_src, n_dst = edges
    graph = gg.Graph.from_edges(*edges)
    assert_array_equal(graph.src, src)
    assert_array_equal(graph.dst, dst)
    assert (graph.n_src, graph.n_dst, graph.n_edges) == (n_src, n_dst, len(src))
    assert_array_equal(graph.in_degree, np.bincount(dst, minlength=n_dst))
    assert (graph.edge_ids is None) == bool(np.all(np.diff(dst) >= 0))
    for i in range(n_dst):  # stable: the caller's order within a destination
        row = graph.indices[graph.offsets[i] : graph.offsets[i + 1]]
        assert_array_equal(row, src[dst == i])


@settings(deadline=None)
@given(edge_lists(), st.booleans())
def test_self_loops(edges, wanted):
    """No self-loops, or one at every node; edge rows stay, and those of loops come behind."""
    src, dst, n_src, n_dst = edges
    keep = np.flatnonzero(src != dst)
    loops = np.arange(min(n_src, n_dst) if wanted else 0)
    graph = gg.Graph.from_edges(*edges, self_loops=wanted)
    assert graph.sizes == (n_src, n_dst, len(src) + len(loops))
    src, dst = np.append(src[keep], loops), np.append(dst[keep], loops)
    rows = np.append(keep, graph.n_edges - len(loops) + loops)
    same = gg.Graph.from_edges(src, dst, n_src, n_dst)
    assert_array_equal(graph.offsets, same.offsets)
    assert_array_equal(graph.src[rows], src)
    assert_array_equal(graph.dst[rows], dst)
    weight = np.random.default_rng(0).normal(size=graph.n_edges)
    x = np.ones((n_src, 1))
    np.testing.assert_array_equal(
        gg.agg_weighted(x, weight, graph=graph), gg.agg_weighted(x, weight[rows], graph=same)
    )


@settings(deadline=None)
@given(edge_lists())
def test_transpose_is_the_same_graph_by_source(edges):
    src, dst, n_src, _ = edges
    graph = gg.Graph.from_edges(*edges)
    offsets, indices, edge, position = graph.transpose
    assert_array_equal(np.diff(offsets), np.bincount(src, minlength=n_src))
    assert_array_equal(np.repeat(np.arange(n_src), np.diff(offsets)), src[edge])
    assert_array_equal(indices, dst[edge])
    assert_array_equal(graph.indices[position], src[edge])
    # within a source, in destination-major order: the order of every sum is fixed
    for j in range(n_src):
        assert np.all(np.diff(position[offsets[j] : offsets[j + 1]]) > 0)


@settings(deadline=None)
@given(edge_lists())
def test_copies_are_equal(edges):
    graph = gg.Graph.from_edges(*edges)
    other = pickle.loads(pickle.dumps(graph))
    for name in ("offsets", "indices", "edge_ids", "n_src", "n_dst", "n_edges", "src", "dst"):
        assert_array_equal(getattr(other, name), getattr(graph, name))
    for mine, theirs in zip(graph.transpose, other.transpose, strict=True):
        assert_array_equal(mine, theirs)
    assert copy.copy(graph) is graph
    assert copy.deepcopy(graph) is graph


@settings(deadline=None)
@given(
    st.integers(0, 20),
    st.one_of(st.none(), st.integers(0, 20)),
    st.floats(0, 2),
    st.integers(1, 3),
    st.integers(0, 100),
)
def test_radius_is_every_near_pair(n_src, n_dst, radius, d, seed):
    rng = np.random.default_rng(seed)
    sources = rng.random((n_src, d))
    destinations = None if n_dst is None else rng.random((n_dst, d))
    graph = gg.Graph.radius(sources, radius, destinations)
    x = sources if destinations is None else destinations
    near = np.linalg.norm(x[:, None] - sources, axis=-1) <= radius
    dst, src = np.nonzero(near)
    assert_array_equal(graph.src, src)
    assert_array_equal(graph.dst, dst)
    assert (graph.n_src, graph.n_dst) == (n_src, len(x))


def test_radius_without_self():
    x = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])  # coincident points are neighbours
    graph = gg.Graph.radius(x, 0.5, include_self=False)
    assert_array_equal(graph.src, [1, 0])
    assert_array_equal(graph.dst, [0, 1])


@pytest.mark.parametrize(
    ("given_sizes", "sizes"),
    [((None, None), (4, 4)), ((6, None), (6, 6)), ((None, 6), (6, 6)), ((4, 2), (4, 2))],
)
def test_numbers_of_nodes_left_out(given_sizes, sizes):
    graph = gg.Graph.from_edges([3, 0], [1, 0], *given_sizes)
    assert (graph.n_src, graph.n_dst) == sizes


def test_arrays_are_copied_and_cannot_be_changed():
    offsets, indices = np.array([0, 1, 2]), np.array([1, 0])
    graph = gg.Graph(offsets, indices)
    offsets[:], indices[:] = 9, 9
    assert_array_equal(graph.offsets, [0, 1, 2])
    assert_array_equal(graph.indices, [1, 0])
    for name in ("offsets", "indices"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(graph, name)[0] = 5
        with pytest.raises(AttributeError):
            setattr(graph, name, indices)


def test_strided_and_int32_arrays():
    offsets = np.arange(0, 6, dtype=np.int32)[::2]
    graph = gg.Graph(offsets, np.array([1, 9, 0, 9, 1, 9, 1, 9], np.int32)[::2], n_src=2)
    assert_array_equal(graph.offsets, [0, 2, 4])
    assert_array_equal(graph.indices, [1, 0, 1, 1])
    assert (graph.offsets.dtype, graph.indices.dtype) == (np.int64, np.int32)


def test_repr():
    assert repr(GRAPHS["bipartite"].graph) == "Graph(n_src=7, n_dst=3, n_edges=6)"


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.0, 1.0], [0]), TypeError, "offsets is float64, needs int32 or int64"),
        (([0, 1], np.array([0], np.uint32)), TypeError, "indices is uint32"),
        (([0, 1], [0], 1, np.array([0], np.int8)), TypeError, "edge_ids is int8"),
        (([0, 1], [0], 1.0), TypeError, "n_src is 1.0"),
        (([[0, 1]], [0]), ValueError, r"offsets has shape \(1, 2\)"),
        (([], []), ValueError, "offsets is empty"),
        (([1, 1], [0]), ValueError, "offsets"),
        (([0, 2], [0]), ValueError, "offsets names 2 edges, but indices has 1"),
        (([0, 2, 1], [0]), ValueError, "offsets decreases at destination 1"),
        (([0, 1], [1]), IndexError, r"indices\[0\] is 1, not one of 1"),
        (([0, 1], [-1]), IndexError, r"indices\[0\] is -1"),
        (([0, 1], [0], -1), ValueError, "n_src is -1"),
        (([0, 1], [0], 1, [0, 1]), ValueError, "edge_ids has 2 entries, needs 1"),
        (([0, 2], [0, 0], 1, [0, 0]), ValueError, "edge_ids names edge 0 twice"),
        (([0, 2], [0, 0], 1, [0, 2]), IndexError, r"edge_ids\[1\] is 2"),
        (([0, 0], [], 2**31), ValueError, "n_src is 2147483648, needs at most 2147483647"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        gg.Graph(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 1], [0]), ValueError, "src has 2 entries but dst has 1"),
        (([0], [3], 1, 3), IndexError, r"dst\[0\] is 3, not one of 3"),
        (([0], [-1]), IndexError, r"dst\[0\] is -1"),
        (([0, -1], [1, 0]), IndexError, r"src\[1\] is -1, not one of 2 source nodes"),
        (([0, 4], [1, 0], 2), IndexError, r"src\[1\] is 4, not one of 2 source nodes"),
        (
            ([0, 2**40], [1, 0]),
            IndexError,
            r"src\[1\] is 1099511627776, needs less than 2147483647",
        ),
        (([0, 1], [1, 2**31]), IndexError, r"dst\[1\] is 2147483648, needs less than"),
        (([0, 1], [1, 0], 2.0), TypeError, "n_src is 2.0, needs an integer"),
        (([0, 1], [1, 0], None, 2.0), TypeError, "n_dst is 2.0, needs an integer"),
        (([0, 1], [1, 0], -1), ValueError, "n_src is -1, needs at least 0"),
        ((np.ma.array([0, 1], mask=[0, 1]), [1, 0]), TypeError, "src is a masked array"),
        ((["a"], [0]), TypeError, "src"),
    ],
)
def test_refused_edges(arguments, error, message):
    with pytest.raises(error, match=message):
        gg.Graph.from_edges(*arguments)


def test_loops_at_nodes_that_are_not_there():
    with pytest.raises(IndexError, match=r"src\[1\] is 2, not one of 2 source nodes"):
        gg.Graph.from_edges([0, 2], [1, 2], 2, 2, self_loops=True)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.zeros(3), 1.0), {}, r"sources has shape \(3,\)"),
        ((np.zeros((3, 0)), 1.0), {}, r"sources has shape \(3, 0\), needs one coordinate or more"),
        ((np.full((1, 1), np.nan), 1.0), {}, "sources has entries that are not finite"),
        ((np.zeros((1, 2)), -1.0), {}, "radius is -1.0"),
        ((np.zeros((1, 2)), np.nan), {}, "radius is nan"),
        ((np.zeros((1, 2)), 1.0, np.zeros((1, 3))), {}, "sources has 2 coordinates"),
        ((np.zeros((1, 2)), 1.0, np.zeros((1, 2))), {"include_self": False}, "include_self"),
    ],
)
def test_refused_points(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        gg.Graph.radius(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.zeros((1, 2)), "0.3"), {}, "radius is '0.3', needs a number"),
        ((np.zeros((1, 2)), np.ones(3)), {}, r"radius is an array of shape \(3,\), needs a number"),
        ((1.0, np.zeros((1, 2))), {}, r"radius is an array of shape \(1, 2\), needs a number"),
        ((np.zeros((1, 2), complex), 1.0), {}, "sources is complex128, needs real numbers"),
        ((np.zeros((1, 2)), 1.0, np.zeros((1, 2), complex)), {}, "destinations is complex128"),
        ((np.ma.zeros((1, 2)), 1.0), {}, "sources is a masked array"),
        ((np.zeros((1, 2)), 1.0), {"include_self": "no"}, "include_self is 'no', needs True"),
        ((np.zeros((1, 2)), 1.0), {"period": "1.0"}, "period is <U3, needs real numbers"),
    ],
)
def test_points_of_another_kind(arguments, options, message):
    with pytest.raises(TypeError, match=f"neighbors: {message}"):
        gg.Graph.radius(*arguments, **options)


@pytest.mark.parametrize("dtype", [bool, "uint8", "int16", "uint32", "uint64", float])
def test_edges_of_other_types(dtype):
    for make in (gg.Graph.from_edges, gg.Graph):
        wrong = np.array([0, 1]).astype(dtype)
        with pytest.raises(TypeError, match=rf"graph: \w+ is {wrong.dtype}, needs int32 or int64"):
            make(wrong, np.array([0]))

# SPDX-License-Identifier: MIT
"""Graphs made on a GPU of arrays that are there."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from conftest import GRAPHS
from gpus import GPUS, needs_gpu
from on_device import Lender, to_device, weighted

__all__ = ["weighted"]

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


def assert_same_graph(actual, expected):
    """Check that all arrays of two graphs are equal, with equal dtypes."""
    assert actual.sizes == expected.sizes
    for name, array in expected.arrays._asdict().items():
        other = getattr(actual.arrays, name)
        assert (other is None) == (array is None), name
        if array is not None:
            assert other.dtype == array.dtype, name
            assert_array_equal(other, array, name)


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize("dtypes", [("int32", "int32"), ("int64", "int64"), ("int32", "int64")])
@pytest.mark.parametrize("n", [0, 1, 40, 3000])
def test_graph_from_edges(n, dtypes, self_loops, rng):
    ends = [rng.integers(0, k, n).astype(dtype) for k, dtype in zip((60, 45), dtypes, strict=True)]
    for pair in (ends, [ends[0], np.sort(ends[1])]):
        for nodes in ((60, 45), (70, None), (None, None)):
            expected = gg.Graph.from_edges(*pair, *nodes, self_loops=self_loops)
            actual = gg.Graph.from_edges(*map(cuda.to_device, pair), *nodes, self_loops=self_loops)
            assert actual._made_there
            assert_same_graph(actual, expected)
    if len(set(dtypes)) == 1:
        edges = np.stack(ends)
        made = gg.Graph.from_edge_index(cuda.to_device(edges), 60, 45, self_loops=self_loops)
        assert_same_graph(made, gg.Graph.from_edge_index(edges, 60, 45, self_loops=self_loops))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_of_rows(name, dtype, rng):
    graph = GRAPHS[name].graph
    offsets, indices, ids = (
        None if x is None else cuda.to_device(x.astype(dtype))
        for x in (graph.offsets, graph.indices, rng.permutation(graph.n_edges))
    )
    actual = gg.Graph(offsets, indices, graph.n_src)
    assert actual._made_there
    assert_same_graph(actual, gg.Graph(graph.offsets, graph.indices, graph.n_src))
    expected = gg.Graph(graph.offsets, graph.indices, graph.n_src, ids.get())
    assert_same_graph(gg.Graph(offsets, indices, graph.n_src, ids), expected)
    if graph.n_src == graph.n_dst:
        assert_same_graph(gg.Graph(offsets, indices), gg.Graph(graph.offsets, graph.indices))


def test_kernels_read_a_graph_where_it_was_made(weighted):
    graph = gg.Graph.from_edges(*map(cuda.to_device, (weighted.graph.src, weighted.graph.dst)))
    x, w = to_device((weighted.x, weighted.w))
    expected = gg.Graph.from_edges(weighted.graph.src, weighted.graph.dst)
    out = gg.agg_weighted(weighted.x, weighted.w, graph=expected)
    assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), out, rtol=1e-12)
    assert graph._made_there  # nothing has been copied to the host
    assert not graph.is_remote
    assert_allclose(gg.agg_weighted(weighted.x, weighted.w, graph=graph), out, rtol=1e-12)
    assert not graph._made_there
    assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), out, rtol=1e-12)


def test_what_a_graph_made_there_tells():
    ends = np.array([[0, 2, 1, 2, 0], [1, 1, 0, 2, 0]])
    expected = gg.Graph.from_edge_index(ends)

    def graph():
        return gg.Graph.from_edge_index(cuda.to_device(ends))

    for name in ("src", "dst", "offsets", "indices", "edge_ids", "in_degree"):
        assert_array_equal(getattr(graph(), name), getattr(expected, name), name)
    assert repr(graph()) == repr(expected)
    assert_array_equal(graph().transpose.position, expected.transpose.position)
    assert_same_graph(pickle.loads(pickle.dumps(graph())), expected)
    assert_same_graph(graph().pad(9), expected.pad(9))
    assert_same_graph(graph().reverse(), expected.reverse())
    both = gg.Graph.batch([graph(), expected])
    assert_same_graph(both, gg.Graph.batch([expected, expected]))
    assert_same_graph(both.unbatch()[0], gg.Graph(expected.offsets, expected.indices, 3,
                                                  expected.edge_ids))  # fmt: skip


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize(
    ("n", "n_src", "n_dst"), [(0, 3, 0), (0, 2, 3), (1, 1, 1), (40, 9, 12), (3000, 60, 45)]
)
def test_graphs_of_graphs_on_the_device(n, n_src, n_dst, self_loops, rng):
    for sort in (np.array, np.sort):
        graphs, there = [], []
        for length in (n, n // 2, n // 3):
            ends = [rng.integers(0, max(k, 1), length) for k in (n_src, n_dst)]
            ends[1] = sort(ends[1])
            sizes = n_src, n_dst
            graphs.append(gg.Graph.from_edges(*ends, *sizes, self_loops=self_loops))
            on_device = map(cuda.to_device, ends)
            there.append(gg.Graph.from_edges(*on_device, *sizes, self_loops=self_loops))
        made = {
            "reverse": lambda one, *_: one.reverse(),
            "reverse twice": lambda one, *_: one.reverse().reverse(),
            "loops": lambda one, *_: one.with_self_loops(),
            "loops of loops": lambda one, *_: one.with_self_loops().reverse().with_self_loops(),
            "union": lambda *all_: gg.Graph.union(*all_),
            "union of one": lambda one, *_: gg.Graph.union(one),
            "both ways": lambda one, *_: gg.Graph.union(one, one.reverse().reverse(), one),
        }
        for name, make in made.items():
            result = make(*there)
            assert result._made_there, name
            assert_same_graph(result, make(*graphs))
        mixed = gg.Graph.union(there[0], graphs[1])
        assert_same_graph(mixed, gg.Graph.union(*graphs[:2]))


def test_graph_of_arrays_with_gaps(rng):
    src, dst = rng.integers(0, 9, (2, 30))
    table = cuda.to_device(np.stack([src, dst], axis=1))
    first = table.__cuda_array_interface__["data"][0]
    ends = [Lender(table, shape=(30,), strides=(16,), data=(first + k * 8, False)) for k in (0, 1)]
    assert_same_graph(gg.Graph.from_edges(*ends), gg.Graph.from_edges(src, dst))
    transposed = Lender(table, shape=(2, 30), strides=(8, 16))
    assert_same_graph(gg.Graph.from_edge_index(transposed), gg.Graph.from_edges(src, dst))


def test_graph_of_points_on_the_device(rng):
    points = rng.random((200, 3))
    for make in (partial(gg.Graph.radius, radius=0.2), partial(gg.Graph.knn, k=5)):
        graph = make(cuda.to_device(points))
        assert graph._made_there
        assert_same_graph(graph, make(points))


@pytest.mark.parametrize(
    "arrays",
    [
        ([1, 2], [0, 0]),
        ([0, 1], [0, 0]),
        ([0, 2, 1, 2], [0, 0]),
        ([0, 2], [0, 3]),
        ([0, 2], [0, -1]),
        ([0, 2], [0, 1], [0, 0]),
        ([0, 2], [0, 1], [0, 2]),
        ([0, 2], [0, 1], [0]),
        ([0, 2], [0.0, 1.0]),
        ([[0, 2]], [0, 1]),
        (np.zeros(0, int), [0]),
    ],
    ids=str,
)
def test_arrays_that_are_no_graph(arrays):
    """Errors equal those on the CPU."""
    offsets, indices, *ids = map(np.array, arrays)
    with pytest.raises((TypeError, ValueError, IndexError)) as expected:
        gg.Graph(offsets, indices, 3, *ids)
    offsets, indices, *ids = map(cuda.to_device, (offsets, indices, *ids))
    with pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        gg.Graph(offsets, indices, 3, *ids)


@pytest.mark.parametrize(
    ("src", "dst", "nodes"),
    [
        ([0, 3], [0, 1], (3, 2)),
        ([0, 2], [0, 2], (3, 2)),
        ([0, -1], [0, 1], (None, None)),
        ([0, 2**31], [0, 1], (None, None)),
        ([0], [0, 1], (3, 3)),
        ([0.5], [0.5], (3, 3)),
        ([0], [0], (-1, 3)),
    ],
)
def test_edges_that_are_none(src, dst, nodes):
    """Errors equal those on the CPU."""
    ends = np.array(src), np.array(dst)
    with pytest.raises((TypeError, ValueError, IndexError)) as expected:
        gg.Graph.from_edges(*ends, *nodes)
    with pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        gg.Graph.from_edges(*map(cuda.to_device, ends), *nodes)


def test_graph_of_arrays_on_both_sides():
    ends = np.array([0, 1])
    with pytest.raises(TypeError, match="graph: src is on a GPU but dst is on the CPU"):
        gg.Graph.from_edges(cuda.to_device(ends), ends)
    with pytest.raises(TypeError, match="graph: indices is on a GPU but offsets is on the CPU"):
        gg.Graph(ends, cuda.to_device(ends[:1]))
    with pytest.raises(ValueError, match=r"graph: edge_index has shape \(3, 2\)"):
        gg.Graph.from_edge_index(cuda.to_device(np.zeros((3, 2), int)))

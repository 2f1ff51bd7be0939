# SPDX-License-Identifier: MIT
"""Parts of points and graphs; graphs of points under processes.

``GNOGRAD_MPI_PROCESSES=4,8`` says how many, where others than 1 to 3 are wanted.
"""

import os
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
from processes import mpiexec, on_each_size

SIZES = [int(n) for n in os.environ.get("GNOGRAD_MPI_PROCESSES", "1,2,3").split(",")]
USUAL = SIZES[len(SIZES) // 2]
"""The other numbers of processes are exhaustive."""

partition = gg.distributed.partition


def lattice(rng, n, d):
    """Points in the same place, or with some coordinates equal."""
    return rng.integers(-4, 5, (n, d)) / 4


def uniform(rng, n, d):
    return rng.uniform(-1, 1, (n, d))


def same_place(rng, n, d):
    return np.ones((n, d))


def far_and_near(rng, n, d):
    return rng.choice([-1, 1], (n, d)) * 10.0 ** rng.uniform(-308, 308, (n, d))


every_kind = pytest.mark.parametrize("points", [uniform, lattice, same_place, far_and_near])


# ---- coordinate bisection ----


@every_kind
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_equal_numbers(points, d, rng):
    x = points(rng, 241, d)
    for n_parts in (*range(1, 10), 16, 100, 241, 500):
        owner = partition(x, n_parts)
        assert owner.dtype == np.int32
        sizes = np.bincount(owner, minlength=n_parts)
        assert len(sizes) == n_parts
        assert sizes.max() - sizes.min() <= 1
        assert_array_equal(owner, partition(x, n_parts))


@every_kind
@pytest.mark.parametrize("weights", ["random", "integers", "one heavy", "many zeros"])
def test_equal_weights(points, weights, rng):
    x, n = points(rng, 241, 2), 241
    work = {
        "random": rng.random(n),
        "integers": rng.integers(0, 20, n),
        "one heavy": np.where(np.arange(n) == 7, 1e6, 1e-3),
        "many zeros": rng.random(n) * (rng.random(n) < 0.1),
    }[weights]
    for n_parts in (*range(1, 10), 16, 100):
        sums = np.bincount(partition(x, n_parts, weights=work), work, n_parts)
        assert np.abs(sums - work.sum() / n_parts).max() <= work.max() * (1 + 1e-9)


def test_weights_of_one_change_nothing(rng):
    for scale in (1, 0.7, 1e-300, 1e300):
        x = lattice(rng, 100, 3)
        assert_array_equal(partition(x, 7, weights=np.full(100, scale)), partition(x, 7))


def test_longest_side_is_cut():
    """The longest side of the whole is cut, and then that of each half."""
    x, y = np.meshgrid(np.arange(6.0), 1.5 * np.arange(4.0), indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    assert_array_equal(partition(points, 2), points[:, 0] >= 3)
    upper = points[:, 1] >= 3
    assert_array_equal(partition(points, 3), np.where(points[:, 0] >= 4, 2, upper))
    assert_array_equal(partition(points, 4), 2 * (points[:, 0] >= 3) + upper)


def test_equal_coordinates(rng):
    """The other coordinates decide, and numbers only where all are equal."""
    x, y, z = np.meshgrid(np.arange(7), np.arange(5), np.arange(5), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    order = rng.permutation(len(points))
    for n_parts in (2, 3, 8):
        owner = partition(points, n_parts)
        assert_array_equal(partition(points[order], n_parts), owner[order])
        assert (owner[1:] >= owner[:-1]).all() == (n_parts < 4)  # numbers go by x, then y, then z
    assert_array_equal(partition(np.ones((7, 2)), 3), [0, 0, 1, 1, 1, 2, 2])


def test_types_of_points(rng):
    x = lattice(rng, 60, 2)
    expected = partition(x, 5)
    for other in (
        x.astype(np.float32),
        (4 * x).astype(int),
        x.tolist(),
        np.asfortranarray(x),
        -0.0 + x,
    ):
        assert_array_equal(partition(other, 5), expected)
    zeros = np.where(np.arange(60)[:, None] % 2, 0.0, -0.0)
    assert_array_equal(partition(zeros, 2), np.arange(60) >= 30)


def test_rows_of_parts(rng):
    """Cells about as wide as long: 8 parts of a square are 3 and 5, not 4 and 4."""
    x = rng.random((8000, 2)) * [1, 0.999]
    assert_array_equal(partition(x, 8) < 3, x[:, 0] < np.sort(x[:, 0])[3000])
    flat = np.append(x, 1e-3 * rng.random((8000, 1)), axis=1)
    assert_array_equal(partition(flat, 8), partition(x, 8))
    line = np.arange(8000.0)[:, None] * [1, 1e-6, 0]
    assert_array_equal(partition(line, 8), np.arange(8000) // 1000)


def test_few_nodes():
    assert partition(np.zeros((0, 3)), 4).shape == (0,)
    assert partition(np.zeros((0, 3)), 4, weights=[]).shape == (0,)
    assert len(set(partition(np.arange(3.0)[:, None], 8).tolist())) == 3
    assert partition([[2.0]], 2**31 - 1, weights=[1.0]).shape == (1,)


# ---- METIS ----


def delaunay(x):
    scipy_spatial = pytest.importorskip("scipy.spatial")
    offsets, indices = scipy_spatial.Delaunay(x).vertex_neighbor_vertices
    return gg.Graph(offsets.astype(np.int64), indices)


def halo(graph, owner):
    """Pairs of a part and a source that it does not own."""
    of_dst, of_src = owner[graph.dst], owner[graph.src]
    foreign = of_dst != of_src
    return len(np.unique(of_dst[foreign].astype(np.int64) * graph.n_src + graph.src[foreign]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("mesh", ["delaunay in 2-D", "radius in 3-D"])
def test_little_more_halo_than_metis(mesh):
    pytest.importorskip("pymetis")
    rng, n = np.random.default_rng(0), 100_000
    if mesh == "delaunay in 2-D":
        x = rng.random((n, 2))
        graph = delaunay(x)
    else:
        x = rng.random((n, 3))
        graph = gg.Graph.radius(x, (16 / n / (4 / 3 * np.pi)) ** (1 / 3), include_self=False)
    for n_parts in (2, 3, 4, 8):
        by_edges = halo(graph, partition(None, n_parts, "metis", graph))
        assert halo(graph, partition(x, n_parts)) <= 1.2 * by_edges


def test_metis(rng):
    pytest.importorskip("pymetis")
    x = rng.random((400, 2))
    graph = delaunay(x)
    src, dst = graph.src, graph.dst
    one_way = gg.Graph.from_edges(src[src < dst], dst[src < dst], 400)
    loops = graph.with_self_loops().pad(5000)
    for n_parts in (1, 2, 5, 9):
        owner = partition(x, n_parts, method="metis", graph=graph)
        assert owner.dtype == np.int32
        sizes = np.bincount(owner, minlength=n_parts)
        assert len(sizes) == n_parts
        assert sizes.max() <= 1.1 * 400 / n_parts
        for other in (one_way, loops):
            assert_array_equal(partition(None, n_parts, "metis", other), owner)
    weights = np.where(x[:, 0] < 0.5, 3.0, 1.0)
    for scale in (1, 1e-3, 1e12):
        owner = partition(x, 4, "metis", graph, weights * scale)
        sums = np.bincount(owner, weights)
        assert sums.max() <= 1.1 * sums.mean()


def test_metis_of_few_nodes():
    pytest.importorskip("pymetis")
    assert partition(None, 3, "metis", gg.Graph([0], [])).shape == (0,)
    assert_array_equal(partition(None, 3, "metis", gg.Graph([0, 1, 2], [1, 0])), [0, 1])
    assert sorted(partition(None, 3, "metis", gg.Graph([0, 0, 0, 0], []))) == [0, 1, 2]
    assert_array_equal(partition(None, 1, "metis", gg.Graph([0, 1, 2], [1, 0])), [0, 0])


def test_without_pymetis(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match="method 'metis' needs pymetis"):
        partition(None, 2, "metis", gg.Graph([0, 0, 0, 0], []))


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(3), 2), ValueError, r"x has shape \(3,\), needs \(n, d\)"),
        ((np.zeros((3, 0)), 2), ValueError, r"x has shape \(3, 0\), needs"),
        ((None, 2), TypeError, "x is object, needs real numbers"),
        ((np.full((3, 1), np.inf), 2), ValueError, "x has entries that are not finite"),
        ((np.zeros((3, 1)), 0), ValueError, "n_parts is 0, needs at least 1"),
        ((np.zeros((3, 1)), 2.0), TypeError, "n_parts is 2.0, needs an integer"),
        ((np.zeros((3, 1)), 2, "rib"), ValueError, "method is 'rib', needs one of 'rcb', 'metis'"),
        ((np.zeros((3, 1)), 2, "rcb", None, [1, 2]), ValueError, "weights has 2 entries, needs 3"),
        ((np.zeros((3, 1)), 2, "rcb", None, [1, -1, 2]), ValueError, "weights has entries that"),
        ((np.zeros((3, 1)), 2, "rcb", None, [[1]]), ValueError, r"weights has shape \(1, 1\)"),
        ((np.zeros((3, 1)), 2, "rcb", None, [0, 0, 0]), ValueError, "weights is 0 at all nodes"),
        ((None, 2, "metis"), TypeError, "graph is of type NoneType, needs a Graph"),
        ((None, 2, "metis", gg.Graph([0], [], 2)), ValueError, "graph has 2 sources and 0 dest"),
        (
            (np.zeros((3, 1)), 2, "metis", gg.Graph([0, 0], [])),
            ValueError, "x has 3 rows, but graph has 1 nodes",
        ),
    ],
)  # fmt: skip
def test_refused(arguments, error, message):
    with pytest.raises(error, match=f"^partition: {message}"):
        partition(*arguments)


# ---- under processes ----


def test_of_points_of_all_processes():
    assert f"20 partitions on {USUAL} processes" in mpiexec(USUAL, "check_partition.py")


@pytest.mark.exhaustive
def test_graphs_of_points_of_all_processes():
    said = on_each_size(mpiexec, SIZES, "check_partition.py", "check_points.py")
    for n in SIZES:
        assert f"20 partitions on {n} processes" in said
        assert f"155 graphs of points on {n} processes" in said

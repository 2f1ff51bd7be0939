# SPDX-License-Identifier: MIT
"""Neighbours found on a GPU, which are those that the CPU finds."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
import test_neighbor_list
import test_neighbors
from conftest import pairs
from gpus import GPUS, needs_gpu

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


@pairs(case=test_neighbors.NEAREST, k=[0, 1, 40, 100], d=[1, 2, 3], dtype=["float32", "float64"])
def test_nearest_neighbors(case, k, d, dtype, rng):
    sources, destinations, options = test_neighbors.draw(
        case, d, rng, dtype, test_neighbors.NEAREST
    )
    expected = gg.knn(sources, k, destinations, **options)
    found = gg.knn(cuda.to_device(sources), k, cuda.to_device(destinations), **options)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.get(), e)
        assert actual.dtype == e.dtype


@pytest.mark.parametrize("choose", ["nearest", "random", None])
@test_neighbors.every_case
def test_chosen_neighbors(case, choose, rng):
    """Neighbours within several radii, at most so many, equal those on the CPU."""
    sources, destinations, options = test_neighbors.draw(case, 2, rng)
    radius = options.pop("radius")
    if choose is not None:
        options |= {"max_neighbors": 3, "choose": choose, "seed": 2**63 - 1}
    radii = [0.5 * radius, radius]
    expected = gg.neighbors(sources, radii, destinations, **options)
    sources, destinations = map(cuda.to_device, (sources, destinations))
    found = gg.neighbors(sources, radii, destinations, **options)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.offsets.get(), e.offsets)
        assert_array_equal(actual.indices.get(), e.indices)


@pytest.mark.parametrize("most", [None, 64, 100])
def test_rows_longer_than_a_search_keeps(most, rng):
    sources, destinations = rng.random((300, 2)), rng.random((40, 2))
    limits = {} if most is None else {"max_neighbors": most, "choose": "random", "seed": 5}
    expected = gg.neighbors(sources, 0.5, destinations, period=1.0, **limits)
    degrees = np.diff(expected.offsets)
    assert degrees.max() == most if most else degrees.min() > 64
    points = cuda.to_device(sources), 0.5, cuda.to_device(destinations)
    found = gg.neighbors(*points, period=1.0, **limits)
    assert_array_equal(found.offsets.get(), expected.offsets)
    assert_array_equal(found.indices.get(), expected.indices)


@pairs(
    case=test_neighbor_list.CASES,
    d=[1, 2, 3],
    full=[True, False],
    dtype=["float32", "float64"],
)
def test_neighbor_list_on_device(case, d, full, dtype, rng):
    points, arguments = test_neighbor_list.draw(case, d, rng, dtype)
    expected = gg.neighbor_list(points, **arguments, full=full)
    found = gg.neighbor_list(cuda.to_device(points), **arguments, full=full)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.get(), e)
        assert actual.dtype == e.dtype


@pytest.mark.parametrize(
    ("points", "radius", "message"),
    [
        (np.full((2, 2), np.nan), 1.0, "points has entries that are not finite"),
        (np.full((2, 2), 1e12), 1.0, r"more than 2\*\*30 cells away"),
        (np.zeros((2, 2)), 1e9, "images are within the radius of the cell: too many"),
    ],
)
def test_refused_neighbor_list(points, radius, message):
    with pytest.raises(ValueError, match=f"neighbor_list: .*{message}"):
        gg.neighbor_list(cuda.to_device(points), radius, np.eye(2))


def test_nearest_graph_of_a_batch(rng):
    points, batch = rng.random((60, 2)), np.repeat([2, 5, 9], 20)
    expected = gg.Graph.knn(points, 4, batch=batch, include_self=False)
    on_device = cuda.to_device(points), 4
    graph = gg.Graph.knn(*on_device, batch=cuda.to_device(batch), include_self=False)
    assert_array_equal(graph.offsets, expected.offsets)
    assert_array_equal(graph.indices, expected.indices)
    with pytest.raises(ValueError, match="knn: sources has entries that are not finite"):
        gg.knn(cuda.to_device(np.full((3, 2), np.nan)), 2)


def test_neighbors_without_self(rng):
    points = rng.random((60, 2))
    expected = gg.Graph.radius(points, 0.2, include_self=False)
    graph = gg.Graph.radius(cuda.to_device(points), 0.2, include_self=False)
    assert_array_equal(graph.offsets, expected.offsets)
    assert_array_equal(graph.indices, expected.indices)


def test_refused_points(rng):
    points = rng.random((9, 2))
    x, bad = cuda.to_device(points), cuda.to_device(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="sources has entries that are not finite"):
        gg.neighbors(bad, 0.1, x)
    with pytest.raises(ValueError, match="destinations has entries that are not finite"):
        gg.neighbors(x, 0.1, bad)
    with pytest.raises(TypeError, match="sources is float64 but destinations is float32"):
        gg.neighbors(x, 0.1, cuda.to_device(points.astype("float32")))
    with pytest.raises(TypeError, match="one is on a GPU"):
        gg.neighbors(x, 0.1, points)
    with pytest.raises(TypeError, match="sources is int64, needs float32 or float64"):
        gg.neighbors(cuda.to_device(np.zeros((2, 2), np.int64)), 0.1)
    with pytest.raises(NotImplementedError, match="no CUDA kernel for float16"):
        gg.neighbors(cuda.to_device(np.zeros((2, 2), np.float16)), 0.1)
    with pytest.raises(NotImplementedError, match="1 to 3 coordinates, not 4"):
        gg.neighbors(cuda.to_device(np.zeros((2, 4))), 0.1)

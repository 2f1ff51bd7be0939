# SPDX-License-Identifier: MIT
"""Periodic images on the CPU: test_cuda_searches.py has the same cases on the device."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
from memory import needs_linux, temporary_bytes
from reference import neighbors as oracle


def uniform(rng, n, d):
    return rng.uniform(-0.5, 2.5, (n, d))


def lattice(rng, n, d):
    """Multiples of a quarter, some of them the same: many distances are the radius itself."""
    return rng.integers(-4, 5, (n, d)) / 4


SHEARED = np.array([[1.0, 0.25, -0.5], [0.5, 1.5, 0.25], [-0.25, 0.75, 1.25]])
FLAT = np.array([[1.0, 0.0, 0.0], [0.9, 0.25, 0.0], [0.0, 0.0, 5.0]])
CASES = {
    "sheared": (uniform, SHEARED, True, 0.6),
    "sheared, more than one image": (uniform, SHEARED, True, 1.9),
    "sheared, on a lattice": (lattice, SHEARED, True, 0.75),
    "almost flat": (uniform, FLAT, True, 0.5),
    "left-handed": (uniform, SHEARED[::-1], True, 0.8),
    "orthogonal": (lattice, np.diag([1.0, 1.5, 0.5]), True, 1.0),
    "along one axis": (uniform, SHEARED, [True, False, False], 1.1),
    "along the others": (lattice, SHEARED, [False, True, True], 1.0),
    "open": (lattice, None, True, 0.75),
    "not periodic": (uniform, SHEARED, False, 0.7),
    "no radius": (lattice, SHEARED, True, 0.0),
}
every_case = pytest.mark.parametrize("case", CASES)


def draw(case, d, rng, dtype="float64"):
    """Points and the other arguments."""
    make, cell, periodic, radius = CASES[case]
    points = make(rng, 12, d).astype(dtype)
    arguments = {
        "radius": radius,
        "cell": None if cell is None else cell[:d, :d],
        "periodic": periodic[:d] if isinstance(periodic, list) else periodic,
    }
    return points, arguments


@every_case
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_all_images(case, d, full, rng):
    points, arguments = draw(case, d, rng)
    found = gg.neighbor_list(points, **arguments, full=full)
    cell, periodic = arguments["cell"], np.broadcast_to(arguments["periodic"], d)
    if cell is None:
        cell, periodic = np.eye(d), np.zeros(d, bool)
    rows = oracle.images(points, arguments["radius"], cell, periodic, full)
    i, j, shifts, distances, vectors = zip(*rows, strict=True) if rows else [[]] * 5
    assert_array_equal(found.offsets, np.searchsorted(np.asarray(i), np.arange(len(points) + 1)))
    assert_array_equal(found.indices, j)
    assert_array_equal(found.shifts, np.reshape(shifts, (-1, d)))
    assert_array_equal(found.distances, distances)
    assert_array_equal(found.vectors, np.reshape(vectors, (-1, d)))
    kinds = ("int64", "int32", "int32", "float64", "float64")
    assert tuple(x.dtype.name for x in found) == kinds


def test_as_in_a_box(rng):
    """In a box that is wide enough, all images are the nearest ones of `neighbors`."""
    points = rng.random((60, 3)) * [1.0, 2.0, 1.5]
    found = gg.neighbor_list(points, 0.45, np.diag([1.0, 2.0, 1.5]))
    offsets, indices = gg.neighbors(points, 0.45, include_self=False, period=[1.0, 2.0, 1.5])
    assert_array_equal(found.offsets, offsets)
    assert_array_equal(found.indices, indices)


def test_moved_points_have_the_same_images(rng):
    """Points in other cells have other shifts, and the same distances."""
    points = rng.integers(0, 8, (30, 3)) / 8
    cell = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
    cells = rng.integers(-9, 10, (30, 3))
    here, there = (gg.neighbor_list(x, 0.75, cell) for x in (points, points + cells @ cell))
    assert_array_equal(there.offsets, here.offsets)
    assert_array_equal(there.indices, here.indices)
    i = np.repeat(np.arange(30), np.diff(here.offsets))
    assert_array_equal(there.shifts, here.shifts + cells[i] - cells[here.indices])
    assert_array_equal(there.vectors, here.vectors)


def test_half_is_half(rng):
    points = rng.random((40, 2))
    cell = np.array([[0.7, 0.1], [-0.2, 0.6]])
    full, half = (gg.neighbor_list(points, 0.9, cell, full=full) for full in (True, False))
    assert 2 * len(half.indices) == len(full.indices)
    i = np.repeat(np.arange(40), np.diff(half.offsets))
    back = zip(half.indices, i, *-half.shifts.T, strict=True)
    both = {*zip(i, half.indices, *half.shifts.T, strict=True), *back}
    i = np.repeat(np.arange(40), np.diff(full.offsets))
    assert both == {*zip(i, full.indices, *full.shifts.T, strict=True)}


def test_no_points():
    found = gg.neighbor_list(np.zeros((0, 3)), 1.0, np.eye(3))
    assert [x.shape for x in found] == [(1,), (0,), (0, 3), (0,), (0, 3)]


def test_four_axes(rng):
    points = rng.random((30, 4))
    found = gg.neighbor_list(points, 0.4, np.eye(4))
    _, indices = gg.neighbors(points, 0.4, include_self=False, period=1.0)
    assert_array_equal(found.indices, indices)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"points": np.zeros(3)}, ValueError, r"points has shape \(3,\), needs \(points, d\)"),
        ({"points": np.full((2, 2), np.nan)}, ValueError, "points has entries that are not finite"),
        ({"points": np.full((2, 2), 1e12)}, ValueError, r"more than 2\*\*30 cells away"),
        ({"points": np.zeros((2, 2), complex)}, TypeError, "points is complex128"),
        ({"radius": -1.0}, ValueError, "radius is -1.0"),
        ({"radius": np.inf}, ValueError, "radius is inf, which reaches endless images"),
        ({"radius": 1e9}, ValueError, "images are within the radius of the cell: too many"),
        ({"cell": np.eye(3)}, ValueError, r"cell has shape \(3, 3\), needs \(2, 2\)"),
        ({"cell": np.ones((2, 2))}, ValueError, "2 periodic vectors that span 1 dimensions"),
        ({"cell": np.full((2, 2), np.nan)}, ValueError, "cell has entries that are not finite"),
        ({"periodic": [True]}, ValueError, r"periodic is \[True\], needs one of 2 axes each"),
        ({"periodic": "yes"}, ValueError, "periodic is 'yes'"),
        ({"periodic": 1}, TypeError, "periodic is 1, needs True or False"),
        ({"full": 1}, TypeError, "full is 1, needs True or False"),
    ],
)
def test_refused(arguments, error, message):
    given = {"points": np.zeros((4, 2)), "radius": 1.0, "cell": np.eye(2)}
    with pytest.raises(error, match=f"neighbor_list: .*{message}"):
        gg.neighbor_list(**{**given, **arguments})


# ---- memory ----


def large_list():
    points = np.random.default_rng(0).random((20_000, 3))
    return lambda: gg.neighbor_list(points, 0.11, np.eye(3))


@needs_linux
def test_memory_beside_the_results():
    """Candidates take some 4 bytes each, of some 36 in the results; images are few beside them."""
    assert temporary_bytes(large_list) < 32 * 2**20

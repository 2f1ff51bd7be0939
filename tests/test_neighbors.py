# SPDX-License-Identifier: MIT
"""Neighbours within a radius on the CPU: test_cuda.py has the same cases on the device."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
from reference.neighbors import neighbors as reference


def lattice(rng, n, d):
    """Multiples of an eighth: many distances are the radius itself."""
    return rng.integers(-8, 9, (n, d)) / 8


def uniform(rng, n, d):
    return rng.uniform(-1, 1, (n, d))


CASES = {
    "open": (uniform, {"radius": 0.3}),
    "at the radius": (lattice, {"radius": 0.25}),
    "periodic": (uniform, {"radius": 0.3, "period": 0.9}),
    "images at the radius": (lattice, {"radius": 0.25, "period": [1.0, 0.0, 0.5, 2.0]}),
    "wider than the box": (uniform, {"radius": 1.4, "period": 1.0}),
    "same place": (lattice, {"radius": 0.0}),
    "everything": (uniform, {"radius": np.inf}),
    "tiny": (uniform, {"radius": 1e-200}),
    "a batch": (
        uniform,
        {"radius": 0.5, "source_items": [0, 0, 30, 80], "destination_items": [0, 5, 5, 40]},
    ),
}
every_case = pytest.mark.parametrize("case", CASES)


def draw(case, d, rng, dtype="float64"):
    """Sources, destinations and the other arguments."""
    make, options = CASES[case]
    period = options.get("period")
    if isinstance(period, list):
        options = {**options, "period": period[:d]}
    return make(rng, 80, d).astype(dtype), make(rng, 40, d).astype(dtype), dict(options)


@every_case
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_all_pairs(case, d, rng):
    sources, destinations, options = draw(case, d, rng)
    offsets, indices = gg.neighbors(sources, destinations=destinations, **options)
    assert (offsets.dtype, indices.dtype) == (np.int64, np.int32)
    expected = reference(
        sources,
        options["radius"],
        destinations,
        np.broadcast_to(options.get("period", 0), d),
        options.get("source_items", [0, 80]),
        options.get("destination_items", [0, 40]),
    )
    assert_array_equal(offsets, expected[0])
    assert_array_equal(indices, expected[1])


def test_without_self(rng):
    points = lattice(rng, 50, 2)
    offsets, indices = gg.neighbors(points, 0.3)
    rows = np.repeat(np.arange(50), np.diff(offsets))
    assert_array_equal(np.unique(rows[rows == indices]), np.arange(50))
    _, others = gg.neighbors(points, 0.3, include_self=False)
    assert_array_equal(others, indices[rows != indices])


@pytest.mark.parametrize(("n_src", "n_dst"), [(0, 0), (0, 3), (3, 0)])
def test_no_points(n_src, n_dst):
    offsets, indices = gg.neighbors(np.zeros((n_src, 2)), 1.0, np.zeros((n_dst, 2)))
    assert_array_equal(offsets, np.zeros(n_dst + 1))
    assert indices.shape == (0,)


def test_rounding_at_the_radius():
    """The formula decides, in float64 and without fused operations."""
    rng = np.random.default_rng(3)
    sources, destinations = rng.random((400, 3)), rng.random((300, 3))
    offset = destinations[:, None] - sources
    squares = (offset[..., 0] ** 2 + offset[..., 1] ** 2) + offset[..., 2] ** 2
    for square in np.sort(squares.ravel())[1000:40000:4000]:
        radius = np.sqrt(square)
        _, indices = gg.neighbors(sources, radius, destinations)
        assert_array_equal(indices, np.nonzero(squares <= radius * radius)[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sources": np.zeros(3)}, r"sources has shape \(3,\), needs \(points, d\)"),
        ({"sources": np.full((4, 2), np.nan)}, "sources has entries that are not finite"),
        ({"destinations": np.full((4, 2), np.inf)}, "destinations has entries that are not finite"),
        ({"destinations": np.zeros((4, 3))}, "sources has 2 coordinates but destinations has 3"),
        ({"radius": -1.0}, "radius is -1.0"),
        ({"radius": np.nan}, "radius is nan"),
        ({"period": -1.0}, "period is -1.0"),
        ({"period": np.inf}, "period is inf"),
        ({"period": [1.0, 1.0, 1.0]}, r"period has shape \(3,\), needs one number or 2"),
        ({"source_items": [0, 4]}, "source_items goes with destination_items"),
        (
            {"source_items": [0, 5], "destination_items": [0, 4]},
            r"source_items is \[0, 5\], needs to ascend from 0 to the 4 points",
        ),
        (
            {"source_items": [0, 4], "destination_items": [0, 2, 4]},
            "source_items has 2 entries but destination_items has 3",
        ),
        ({"include_self": False}, "include_self=False needs destinations=None"),
    ],
)
def test_refused(arguments, message):
    given = {"sources": np.zeros((4, 2)), "radius": 1.0, "destinations": np.zeros((4, 2))}
    with pytest.raises(ValueError, match=message):
        gg.neighbors(**{**given, **arguments})


@pytest.mark.parametrize("name", ["sources", "destinations", "radius", "period"])
def test_masked(name):
    given = {"sources": np.zeros((4, 2)), "radius": 1.0, "destinations": np.zeros((4, 2))}
    shape = np.shape(given.get(name, [1.0, 1.0]))
    masked = np.ma.masked_array(np.ones(shape), np.ones(shape, bool))
    for find in gg.neighbors, gg.Graph.radius:
        with pytest.raises(TypeError, match=f"{name} is .*[mM]asked"):
            find(**{**given, name: masked})
    with pytest.raises(TypeError, match="period is a masked array"):
        gg.neighbors(**given, period=np.ma.masked)

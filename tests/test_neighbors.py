# SPDX-License-Identifier: MIT
"""Near points on the CPU: test_cuda_searches.py has the same cases on the device."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.spatial import cKDTree

import gnograd as gg
from conftest import few, pairs
from reference import neighbors as oracle


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


def draw(case, d, rng, dtype="float64", cases=None):
    """Sources, destinations and the other arguments."""
    make, options = (cases or CASES)[case]
    period = options.get("period")
    if isinstance(period, list):
        options = {**options, "period": period[:d]}
    with np.errstate(over="ignore"):
        points = [make(rng, n, d).astype(dtype) for n in (80, 40)]
    return *(np.nan_to_num(x, posinf=1e38) for x in points), dict(options)


@every_case
@pytest.mark.parametrize("d", few([1, 2, 3, 4], "1", "3"))
def test_all_pairs(case, d, rng):
    sources, destinations, options = draw(case, d, rng)
    offsets, indices = gg.neighbors(sources, destinations=destinations, **options)
    assert (offsets.dtype, indices.dtype) == (np.int64, np.int32)
    expected = oracle.neighbors(
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


# ---- nearest, and no more than so many ----


def same_place(rng, n, d):
    return np.ones((n, d))


NEAREST = {
    "open": (uniform, {}),
    "ties": (lattice, {}),
    "periodic": (uniform, {"period": 0.9}),
    "images at the same distance": (lattice, {"period": [1.0, 0.0, 0.5, 2.0]}),
    "same place": (same_place, {}),
    "a batch": (uniform, {"source_items": [0, 0, 30, 80], "destination_items": [0, 5, 5, 40]}),
    "a batch with ties": (
        lattice,
        {"period": 1.0, "source_items": [0, 3, 31, 80], "destination_items": [0, 10, 20, 40]},
    ),
    "far and near": (lambda rng, n, d: 10.0 ** rng.uniform(-9, 9, (n, d)), {}),
    "too far for squares": (lambda rng, n, d: 1e200 * rng.choice([0, 1, 3], (n, d)), {}),
    "too near for squares": (lambda rng, n, d: 1e-170 * rng.choice([0, 1, 3], (n, d)), {}),
}


def expected_nearest(sources, k, destinations, options, radius=np.inf):
    with np.errstate(over="ignore", under="ignore"):
        return oracle.nearest(
            sources,
            k,
            destinations,
            np.broadcast_to(options.get("period", 0), sources.shape[1]),
            options.get("source_items", [0, len(sources)]),
            options.get("destination_items", [0, len(destinations)]),
            radius,
        )


@pairs(case=NEAREST, d=[1, 2, 3, 4], k=[0, 1, 5, 79, 100])
def test_nearest(case, d, k, rng):
    sources, destinations, options = draw(case, d, rng, cases=NEAREST)
    found = gg.knn(sources, k, destinations, **options)
    assert (found.offsets.dtype, found.indices.dtype) == (np.int64, np.int32)
    for actual, expected in zip(
        found, expected_nearest(sources, k, destinations, options), strict=True
    ):
        assert_array_equal(actual, expected)


@pytest.mark.parametrize("make", [uniform, lattice, same_place])
def test_nearest_others(make, rng):
    points = make(rng, 50, 2)
    offsets, indices = gg.knn(points, 7, include_self=False)
    _, all_of_them = gg.knn(points, 50)
    everyone = all_of_them.reshape(50, 50)
    others = [row[row != i][:7] for i, row in enumerate(everyone)]
    assert_array_equal(offsets, np.arange(51) * 7)
    assert_array_equal(indices, np.ravel(others))
    assert_array_equal(gg.knn(points, 50, include_self=False).offsets, np.arange(51) * 49)


@every_case
@pytest.mark.parametrize("most", [0, 1, 4, 1000])
def test_nearest_in_reach(case, most, rng):
    """The nearest within reach are those of `knn`, in ascending order."""
    sources, destinations, options = draw(case, 2, rng)
    radius = options.pop("radius")
    offsets, indices = gg.neighbors(sources, radius, destinations, **options, max_neighbors=most)
    expected = expected_nearest(sources, most, destinations, options, radius)
    assert_array_equal(offsets, expected[0])
    rows = np.split(expected[1], expected[0][1:-1])
    assert_array_equal(indices, np.concatenate([*map(np.sort, rows)]))


@every_case
@pytest.mark.parametrize("most", [0, 1, 4, 1000])
def test_chosen_at_random(case, most, rng):
    sources, destinations, options = draw(case, 2, rng)
    everything = gg.neighbors(sources, destinations=destinations, **options)
    found = gg.neighbors(
        sources, destinations=destinations, **options, max_neighbors=most, choose="random", seed=3
    )
    rows = [
        sorted(sorted(row, key=lambda j: oracle.random_key(3, i, int(j)))[:most])
        for i, row in enumerate(np.split(everything.indices, everything.offsets[1:-1]))
    ]
    assert_array_equal(found.indices, np.concatenate(rows))
    assert_array_equal(np.diff(found.offsets), [*map(len, rows)])


def test_the_hash_is_what_it_was():
    """Graphs of a seed are not to change: SplitMix64 of SplitMix64 of it."""
    assert oracle.random_key(0, 0, 0) == 0xA706DD2F4D197E6F
    for seed, chosen in (
        (2**63 - 1, [2, 3, 9, 12, 14, 1, 11, 12, 13, 17]),
        (1, [2, 4, 8, 12, 19, 1, 2, 7, 9, 11]),
    ):
        found = gg.neighbors(
            np.zeros((20, 1)), 1.0, np.zeros((2, 1)), max_neighbors=5, choose="random", seed=seed
        )
        assert found.indices.tolist() == chosen


@pytest.mark.parametrize("choose", ["nearest", "random", None])
@every_case
def test_several_radii(case, choose, rng):
    sources, destinations, options = draw(case, 2, rng)
    radius = options.pop("radius")
    if choose is not None:
        options |= {"max_neighbors": 3, "choose": choose, "seed": 5}
    radii = [radius, 0.5 * radius, 0.0, radius]
    found = gg.neighbors(sources, radii, destinations, **options)
    assert isinstance(found, list)
    for each, r in zip(found, radii, strict=True):
        for actual, expected in zip(
            each, gg.neighbors(sources, r, destinations, **options), strict=True
        ):
            assert_array_equal(actual, expected)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_any_number_of_threads(n_threads, rng):
    points, before = rng.random((5000, 3)), gg.get_num_threads()
    gg.set_num_threads(n_threads)
    try:
        offsets, indices = gg.knn(points, 6)
    finally:
        gg.set_num_threads(before)
    assert_array_equal(offsets, np.arange(5001) * 6)
    squares = np.square(points[indices].reshape(5000, 6, 3) - points[:, None]).sum(-1)
    assert (np.diff(squares) >= 0).all()
    assert_array_equal(indices[::6], np.arange(5000))


@pytest.mark.parametrize(("n_src", "n_dst"), [(0, 0), (0, 3), (3, 0)])
def test_nearest_of_no_points(n_src, n_dst):
    sources, destinations = np.zeros((n_src, 2)), np.zeros((n_dst, 2))
    for found in (
        gg.knn(sources, 2, destinations),
        gg.neighbors(sources, 1.0, destinations, max_neighbors=2),
        gg.neighbors(sources, 1.0, destinations, max_neighbors=2, choose="random"),
        *gg.neighbors(sources, [1.0, 2.0], destinations),
    ):
        assert_array_equal(found.offsets, np.zeros(n_dst + 1))
        assert found.indices.shape == (0,)


# ---- against scipy ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("period", [None, 1.0])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_as_scipy(d, period, dtype, rng):
    """Results equal SciPy's, for more points than a box of the tree or a thread takes at once."""
    sources, destinations = rng.random((3000, d)).astype(dtype), rng.random((1100, d)).astype(dtype)
    tree = cKDTree(sources, boxsize=period)
    radius = (8 / 3000) ** (1 / d) / 2
    found = gg.neighbors(sources, radius, destinations, period=period)
    rows = tree.query_ball_point(destinations, radius, return_sorted=True)
    assert_array_equal(np.diff(found.offsets), [*map(len, rows)])
    assert_array_equal(found.indices, np.concatenate(rows))
    _, rows = tree.query(destinations, 5)
    assert_array_equal(gg.knn(sources, 5, destinations, period=period).indices, rows.ravel())


# ---- errors ----


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
        ({"radius": []}, "radius is empty"),
        ({"radius": [1.0, -2.0]}, r"radius\[1\] is -2.0"),
        ({"max_neighbors": -1}, "max_neighbors is -1, needs at least 0"),
        ({"choose": "first"}, "choose is 'first', needs one of 'nearest', 'random'"),
        ({"seed": -1}, "seed is -1, needs at least 0"),
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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": -1}, ValueError, "k is -1, needs at least 0"),
        ({"k": 2.5}, TypeError, "k is 2.5, needs an integer"),
        ({"sources": np.full((4, 2), np.nan)}, ValueError, "sources has entries that are not"),
        ({"destinations": np.zeros((4, 3))}, ValueError, "sources has 2 coordinates but"),
        ({"include_self": False}, ValueError, "include_self=False needs destinations=None"),
        ({"period": -1.0}, ValueError, "period is -1.0"),
    ],
)
def test_nearest_refused(arguments, error, message):
    given = {"sources": np.zeros((4, 2)), "k": 1, "destinations": np.zeros((4, 2))}
    with pytest.raises(error, match=f"knn: {message}"):
        gg.knn(**{**given, **arguments})

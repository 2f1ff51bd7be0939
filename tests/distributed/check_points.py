# SPDX-License-Identifier: MIT
"""Graphs of points that are spread over all processes of this program, against that of all."""

import numpy as np
from setting import world

import gnograd as gg


def uniform(rng, n, d):
    return rng.uniform(-1, 1, (n, d))


def lattice(rng, n, d):
    """Multiples of an eighth: many distances are the radius itself, many points in one place."""
    return rng.integers(-8, 9, (n, d)) / 8


def same_place(rng, n, d):
    return np.ones((n, d))


def single(rng, n, d):
    return uniform(rng, n, d).astype(np.float32)


SEARCHES = {
    "open": (uniform, {"radius": 0.3}),
    "at the radius": (lattice, {"radius": 0.25}),
    "float32": (single, {"radius": 0.3}),
    "one place": (same_place, {"radius": 0.0}),
    "one place, few": (same_place, {"radius": 0.1, "max_neighbors": 3}),
    "without self": (lattice, {"radius": 0.25, "include_self": False}),
    "one place without self": (
        same_place, {"radius": 0.0, "include_self": False, "max_neighbors": 4}
    ),
    "periodic": (uniform, {"radius": 0.3, "period": 0.9}),
    "images at the radius": (lattice, {"radius": 0.25, "period": [1.0, 0.0, 2.0]}),
    "wider than the box": (uniform, {"radius": 1.4, "period": 1.0}),
    "nearest": (lattice, {"radius": 0.5, "max_neighbors": 4}),
    "nearest, periodic": (
        lattice, {"radius": 0.5, "max_neighbors": 5, "period": 1.0, "include_self": False}
    ),
    "nearest of all": (uniform, {"radius": np.inf, "max_neighbors": 7}),
    "random": (uniform, {"radius": 0.5, "max_neighbors": 4, "choose": "random", "seed": 5}),
    "none": (uniform, {"radius": 0.5, "max_neighbors": 0}),
    "several": (uniform, {"radius": [0.1, 0.4, 0.2]}),
    "several, random": (
        lattice, {"radius": [0.25, 0.5], "max_neighbors": 3, "choose": "random"}
    ),
    "tiny": (uniform, {"radius": 1e-200}),
    "far": (uniform, {"radius": 1e200}),
    "everything": (uniform, {"radius": np.inf}),
}  # fmt: skip


def owners(size, x, rng):
    """Ranks of points: what processes come across."""
    n = len(x)
    return {
        "in parts": gg.distributed.partition(x, size),
        "scattered": rng.integers(0, size, n),
        "all on one": np.full(n, size - 1),
        "empty processes": rng.integers(0, (size + 1) // 2, n) * 2,
        "alone": np.minimum(np.arange(n), size - 1),
    }


def rows_of(dg):
    """Sources of every own destination, as global numbers."""
    ids = np.concatenate([dg.owned, dg.halo_ids])
    return np.split(ids[dg.local.indices], dg.local.offsets[1:-1])


def check(comm, search, graph, dg, x, first, first_dst):
    assert np.array_equal(np.sort(dg.owned), np.arange(*first[comm.rank : comm.rank + 2]))
    destinations = np.arange(*first_dst[comm.rank : comm.rank + 2])
    assert np.array_equal(np.sort(dg.owned_dst), destinations)
    assert np.array_equal(dg.owned_dst, destinations[dg.order])
    for i, found in zip(dg.owned_dst, rows_of(dg), strict=False):
        expected = graph.indices[slice(*graph.offsets[i : i + 2])]
        assert np.array_equal(found, expected), (i, found, expected)
    # the same coordinates make the same distances
    extended = gg.halo(x[dg.owned], graph=dg)
    assert np.array_equal(extended, x[np.concatenate([dg.owned, dg.halo_ids])])


def by_rank(x, owner, size):
    """Points in the order of their owners, and the first one of each."""
    counts = np.bincount(owner, minlength=size)
    return x[np.argsort(owner, kind="stable")], np.concatenate([[0], np.cumsum(counts)])


def check_search(comm, label, d):
    make, options = SEARCHES[label]
    rng = np.random.default_rng(d)
    points, others = make(rng, 150, d), make(rng, 60, d)
    options = dict(options)
    radius = options.pop("radius")
    if isinstance(options.get("period"), list):
        options["period"] = options["period"][:d]
    done = 0
    for kind, owner in owners(comm.size, points, rng).items():
        x, first = by_rank(points, owner, comm.size)
        own = x[slice(*first[comm.rank : comm.rank + 2])]
        bipartite = kind in ("in parts", "scattered") and options.get("include_self", True)
        for x_dst in (None, others) if bipartite else (None,):
            where, first_dst = first, first
            if x_dst is not None:
                x_dst, first_dst = by_rank(x_dst, rng.integers(0, comm.size, 60), comm.size)
                where = x_dst[slice(*first_dst[comm.rank : comm.rank + 2])]
            whole = gg.Graph.radius(x, radius, x_dst, **options)
            mine = gg.DistributedGraph.radius(
                own, radius, comm, x_dst=None if x_dst is None else where, **options
            )
            pairs = [(whole, mine)]
            if isinstance(radius, list):
                pairs = list(zip(whole, mine, strict=True))
            for graph, dg in pairs:
                try:
                    check(comm, label, graph, dg, x, first, first_dst)
                except AssertionError as error:
                    raise AssertionError(f"{label}, {kind}, {d}-D: {error}") from error
                done += 1
    return done


def check_no_points(comm):
    empty = np.zeros((0, 2))
    dg = gg.DistributedGraph.radius(empty, 1.0, comm)
    assert (dg.n_own, dg.n_halo, dg.n_edges) == (0, 0, 0)
    dg = gg.DistributedGraph.radius(np.ones((2, 2)), 1.0, comm, x_dst=empty)
    assert (dg.n_own, dg.n_dst, dg.n_edges) == (2, 0, 0)


def check_what_is_sent(comm):
    """Points go where they are near a box, and nowhere else."""
    sent = []
    swap = comm.swap

    def counted(arrays):
        if arrays[0].dtype == np.int64:
            sent.append([array.size for array in arrays])
        return swap(arrays)

    comm.swap = counted
    try:
        side = np.arange(256) / 256
        # apart: nothing travels
        gg.DistributedGraph.radius((3.0 * comm.rank + side)[:, None], 1.0, comm)
        assert not any(map(sum, sent)), sent
        # in a row: what is near the ends goes to the next process, a number and a coordinate each
        sent.clear()
        gg.DistributedGraph.radius((comm.rank + side)[:, None], 0.125, comm)
        for rank, size in enumerate(sent[0]):
            assert size == (2 * 32 if abs(rank - comm.rank) == 1 else 0), sent
        # one around the other: boxes that are small beside the whole keep them apart
        sent.clear()
        angle = 2 * np.pi * side
        ring = (1.0 + comm.rank) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        gg.DistributedGraph.radius(ring, 0.1, comm)
        assert not any(map(sum, sent)), sent
    finally:
        del comm.swap


def check_errors(comm):
    last = comm.size - 1
    x = np.zeros((2, 2))
    bad = np.full((2, 2), np.nan) if comm.rank == last else x
    where = f" (process {last})" if comm.size > 1 else ""
    calls = {
        "x_own has entries that are not finite": (bad, 1.0, None),
        "radius is -1.0, needs": (x, -1.0 if comm.rank == last else 1.0, None),
        "x_own has shape (2,), needs": (x[0] if comm.rank == last else x, 1.0, None),
        "x_own has 2 coordinates but x_dst has 3": (x, 1.0, np.zeros((2, 3))),
    }
    for message, (own, radius, x_dst) in calls.items():
        try:
            gg.DistributedGraph.radius(own, radius, comm, x_dst=x_dst)
        except ValueError as error:
            assert message in str(error), error
            assert "(process" not in str(error) or where in str(error) or "x_dst" in message, error
        else:
            raise AssertionError(message)
    if comm.size > 1:
        for other in (
            lambda: gg.DistributedGraph.radius(x, 1.0 + comm.rank, comm),
            lambda: gg.DistributedGraph.radius(np.zeros((2, 1 + min(comm.rank, 1))), 1.0, comm),
            lambda: gg.DistributedGraph.radius(x, 1.0, comm, x_dst=x if comm.rank else None),
        ):
            try:
                other()
            except RuntimeError as error:
                assert "different things" in str(error), error
            else:
                raise AssertionError("other arguments on every process")


def main():
    comm = world()
    # one dimension each, another for another number of processes
    done = sum(
        check_search(comm, label, 1 + (k + comm.size) % 3) for k, label in enumerate(SEARCHES)
    )
    check_no_points(comm)
    check_what_is_sent(comm)
    check_errors(comm)
    if comm.rank == 0:
        print(f"{done} graphs of points on {comm.size} processes")


main()

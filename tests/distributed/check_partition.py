# SPDX-License-Identifier: MIT
"""Parts of points that are spread over all processes of this program, and rows sent to them."""

import numpy as np
from setting import world

import gnograd as gg

POINTS = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, (n, 2)),
    "lattice": lambda rng, n: rng.integers(-4, 5, (n, 3)) / 4,
    "one place": lambda rng, n: np.ones((n, 1)),
    "far and near": lambda rng, n: rng.choice([-1, 1], (n, 2)) * 10.0 ** rng.uniform(-9, 9, (n, 2)),
    "no points": lambda rng, n: np.zeros((0, 2)),
}
WEIGHTS = {
    "equal": lambda rng, n: None,
    "random": lambda rng, n: rng.random(n),
    "integers": lambda rng, n: rng.integers(0, 20, n),
    "one heavy": lambda rng, n: np.where(np.arange(n) == 7, 1e6, 1e-3),
}


def check_parts(comm):
    """Parts equal those that one process finds for all points."""
    done = 0
    for a, points in enumerate(POINTS.values()):
        for b, weights in enumerate(WEIGHTS.values()):
            rng = np.random.default_rng(3)
            x = points(rng, 301)
            work = weights(rng, len(x))
            ends = np.sort(rng.integers(0, len(x) + 1, comm.size - 1))
            mine = slice(*np.concatenate([[0], ends, [len(x)]])[comm.rank : comm.rank + 2])
            n_parts = (1, 3, 8, 400)[(a + b) % 4]
            expected = gg.distributed.partition(x, n_parts, weights=work)
            found = gg.distributed.partition(
                x[mine], n_parts, weights=None if work is None else work[mine], comm=comm
            )
            assert np.array_equal(found, expected[mine])
            done += 1
    return done


def check_rows(comm):
    """All rows are somewhere, in the order of where they were, and those of arrays go together."""
    rng = np.random.default_rng(comm.rank)
    n = 0 if comm.rank == 1 else 50
    number = 100 * comm.rank + np.arange(n)
    owner = rng.integers(0, comm.size, n).astype(np.int32)
    features = np.repeat(number, 6).reshape(n, 2, 3).astype(np.float32)
    kind = number % 3 == 0
    numbers, rows, kinds = gg.distributed.redistribute(comm, owner, number, features, kind)
    assert (numbers.dtype, rows.dtype, kinds.dtype) == (np.int64, np.float32, bool)
    expected = []
    for rank in range(comm.size):
        there = 0 if rank == 1 else 50
        ranks = np.random.default_rng(rank).integers(0, comm.size, there)
        expected.append(100 * rank + np.flatnonzero(ranks == comm.rank))
    assert np.array_equal(numbers, np.concatenate(expected))
    assert np.array_equal(rows, np.repeat(numbers, 6).reshape(-1, 2, 3))
    assert np.array_equal(kinds, numbers % 3 == 0)


def check_together(comm):
    """Chunks of a mesh become a distributed graph, and no process has all of it."""
    rng = np.random.default_rng(8)
    x = rng.random((500, 2))
    chunk = slice(500 * comm.rank // comm.size, 500 * (comm.rank + 1) // comm.size)
    owner = gg.distributed.partition(x[chunk], comm.size, comm=comm)
    own, number = gg.distributed.redistribute(comm, owner, x[chunk], np.arange(500)[chunk])
    assert len(own) in (500 // comm.size, 500 // comm.size + 1)
    dg = gg.DistributedGraph.radius(own, 0.1, comm)
    number = number[dg.order]
    h = x[:, :1]
    whole = gg.agg_simple(h, graph=gg.Graph.radius(x, 0.1))
    found = gg.agg_simple(h[number], graph=dg)
    assert np.abs(found - whole[number]).max() < 1e-13


def refused(call, error, message):
    try:
        call()
    except error as raised:
        assert message in str(raised), raised
    else:
        raise AssertionError(message)


def check_errors(comm):
    x, last = np.zeros((4, 2)), comm.rank == comm.size - 1
    part, move = gg.distributed.partition, gg.distributed.redistribute
    refused(lambda: part(x * (np.nan if last else 1), 2, comm=comm), ValueError, "x has entries")
    refused(lambda: part(x, 2, weights=-np.ones(4), comm=comm), ValueError, "weights has entries")
    refused(lambda: part(x, 2, weights=np.zeros(4), comm=comm), ValueError, "weights is 0")
    refused(lambda: move(comm, np.full(4, 9 * last), x), IndexError, "owner[0] is 9, needs 0")
    refused(lambda: move(comm, np.zeros(4, int), x[:3]), ValueError, "arrays[0] has shape")
    if comm.size > 1:
        refused(lambda: part(x, 2 + last, comm=comm), ValueError, "n_parts is 2 on a process, 3")
        refused(lambda: part(x[:, last:], 2, comm=comm), ValueError, "d is 1 on a process, 2")
        refused(
            lambda: part(x, 2, weights=np.ones(4) if last else None, comm=comm),
            ValueError, "weights is given on some processes only",
        )  # fmt: skip
        refused(
            lambda: part(x, 2, "metis", gg.Graph([0], []), comm=comm), ValueError, "'metis' needs"
        )
        refused(
            lambda: move(comm, np.zeros(4, int), x.astype("f4") if last else x),
            RuntimeError, "different things",
        )  # fmt: skip


def main():
    comm = world()
    done = check_parts(comm)
    check_rows(comm)
    check_together(comm)
    check_errors(comm)
    if comm.rank == 0:
        print(f"{done} partitions on {comm.size} processes")


main()

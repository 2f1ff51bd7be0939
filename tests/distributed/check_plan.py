# SPDX-License-Identifier: MIT
"""Promises of a plan: the order of rows, who sends what, and the exchange with its adjoint."""

import numpy as np
from setting import situations, world

import gnograd as gg


class Counting:
    """A communicator that writes down what it sends."""

    def __init__(self, comm):
        self.comm, self.sent = comm, []

    def __getattr__(self, name):
        return getattr(self.comm, name)

    def start(self, sends, receives):
        self.sent += [(rank, data.nbytes) for rank, data in sends]
        return self.comm.start(sends, receives)


def check_order(dg, graph, owner, owner_src):
    """Interior first, in the order given; then the halo by rank and number; edges by row."""
    of_src = owner if owner_src is None else owner_src
    mine = np.flatnonzero(owner == dg.comm.rank)
    from_halo = {int(d) for s, d in zip(graph.src, graph.dst, strict=True) if of_src[s] != owner[d]}
    expected = [i for i in mine if i not in from_halo] + [i for i in mine if i in from_halo]
    assert dg.owned_dst.tolist() == expected
    assert dg.n_interior == len([i for i in mine if i not in from_halo])
    needed = {
        (int(of_src[s]), int(s))
        for s, d in zip(graph.src, graph.dst, strict=True)
        if owner[d] == dg.comm.rank and of_src[s] != dg.comm.rank
    }
    assert [(int(of_src[s]), int(s)) for s in dg.halo_ids] == sorted(needed)
    rows = np.concatenate([dg.owned, dg.halo_ids])
    assert (rows[dg.local.src] == graph.src[dg.edges]).all()
    assert (dg.owned_dst[dg.local.dst] == graph.dst[dg.edges]).all()
    assert (
        dg.local.edge_ids is None
        and sorted(dg.edges) == np.flatnonzero(owner[graph.dst] == dg.comm.rank).tolist()
    )


def check_local(comm, dg, graph, owner, owner_src):
    """`from_local` gives the same plan for rows in any order and with other numbers."""
    rng = np.random.default_rng(100 + comm.rank)
    number = 7 + 3 * np.random.default_rng(1).permutation(max(graph.n_src, graph.n_dst))
    mine = rng.permutation(np.flatnonzero(owner == comm.rank))
    whole = graph.graph
    degree = whole.in_degree[mine]
    offsets = np.concatenate([[0], np.cumsum(degree)])
    places = np.concatenate(
        [np.arange(whole.offsets[i], whole.offsets[i + 1]) for i in mine] or [[]]
    )
    sources = whole.indices[places.astype(int)]
    own_src = None if owner_src is None else number[np.flatnonzero(owner_src == comm.rank)]
    local = gg.DistributedGraph.from_local(offsets, number[sources], number[mine], comm, own_src)
    assert sorted(local.owned_dst) == sorted(number[mine])
    assert (local.owned_dst == number[mine][local.order]).all()
    assert sorted(local.halo_ids) == sorted(number[dg.halo_ids])
    rows = np.concatenate([local.owned, local.halo_ids])
    assert (rows[local.local.src] == number[sources][local.edges]).all()


def check_exchange(comm, dg, n_src):
    rng = np.random.default_rng(4)
    h = rng.normal(size=(n_src, 3))
    extended = gg.halo(h[dg.owned], graph=dg)
    assert np.array_equal(extended, np.concatenate([h[dg.owned], h[dg.halo_ids]]))
    c = np.random.default_rng(comm.rank).normal(size=extended.shape)
    (back,) = gg.halo.vjp(c, (h[dg.owned],), graph=dg)
    left = comm.sum(np.array([(extended * c).sum()]))[0]
    right = comm.sum(np.array([(h[dg.owned] * back).sum()]))[0]
    scale = comm.sum(np.array([np.abs(extended * c).sum()]))[0]
    assert abs(left - right) <= 1e-14 * max(scale, 1), (left, right)
    (again,) = gg.halo.vjp(c, (h[dg.owned],), graph=dg)
    assert np.array_equal(back, again)
    assert np.array_equal(gg.halo.jvp((h[dg.owned],), (h[dg.owned],), graph=dg), extended)
    assert not gg.halo.hvp(c, (h[dg.owned],), (h[dg.owned],), graph=dg)[0].any()
    whole = np.arange(n_src)  # integers travel as well
    assert (dg.halo(whole[dg.owned]) == np.concatenate([dg.owned, dg.halo_ids])).all()


def check_volume(comm, graph, owner, owner_src):
    """One message a neighbour and direction, of halo rows x features x size of an item."""
    counting = Counting(comm)
    dg = gg.DistributedGraph.from_global(graph.graph, owner, comm, owner_src)
    dg.comm = counting
    h = np.ones((dg.n_own, 5), np.float32)
    _, saved = gg.agg_simple.forward(h, graph=dg, return_saved=True)
    forth, counting.sent = counting.sent, []
    gg.agg_simple.vjp(np.ones((dg.n_dst, 5), np.float32), (h,), saved=saved, graph=dg)
    ranks, rows = np.unique(of(dg, owner, owner_src), return_counts=True)
    assert sorted(counting.sent) == [(r, n * 5 * 4) for r, n in zip(ranks, rows, strict=True)]
    asked = comm.swap(
        [np.array([np.count_nonzero(of(dg, owner, owner_src) == r)]) for r in range(comm.size)]
    )
    expected = [(r, int(n[0]) * 5 * 4) for r, n in enumerate(asked) if n[0]]
    assert sorted(forth) == expected, (forth, expected)


def of(dg, owner, owner_src):
    """Owners of the halo."""
    return (owner if owner_src is None else owner_src)[dg.halo_ids]


def check_sums(comm):
    """Sums are taken in the order of ranks."""
    rng = np.random.default_rng(9)
    every = rng.normal(size=(comm.size, 1001)) * 10.0 ** rng.integers(-8, 8, (comm.size, 1001))
    expected = every[0].copy()
    for k in range(1, comm.size):
        expected += every[k]
    assert np.array_equal(comm.sum(every[comm.rank]), expected)
    assert comm.sum(np.zeros((0, 3))).shape == (0, 3)
    single = [every[comm.rank].astype(np.float32), None, every[comm.rank][:7].reshape(7, 1)]
    sums = gg.distributed.sum_gradients(comm, single)
    assert sums[1] is None and sums[2].shape == (7, 1) and sums[0].dtype == np.float32
    assert np.array_equal(sums[2][:, 0], expected[:7])


def check_errors(comm):
    """An error on one process is raised on all."""
    last = comm.size - 1
    for arguments, error, text in (
        (
            ([0, 1], [99 if comm.rank == last else 10 + comm.rank], [10 + comm.rank]),
            IndexError,
            "node 99",
        ),
        (
            ([0, 1], [-1 if comm.rank == last else 0], [10 + comm.rank]),
            IndexError,
            "sources[0] is -1",
        ),
        (
            ([0], [], [3]) if comm.rank == last else ([0], [], []),
            ValueError,
            "offsets has 1 entries",
        ),
    ):
        try:
            gg.DistributedGraph.from_local(*arguments, comm)
        except error as found:
            assert text in str(found), found
            assert comm.size == 1 or str(found).endswith(f"(process {last})"), found
        else:
            raise AssertionError(text)
    dg = gg.DistributedGraph.from_local([0, 1], [(comm.rank + 1) % comm.size], [comm.rank], comm)
    wrong = np.ones((1 + 4 * (comm.rank == last), 2))
    for call in (dg.halo, lambda h: gg.agg_simple(h, graph=dg)):
        try:
            call(wrong)
        except ValueError as found:
            assert "(5, 2)" in str(found)
        else:
            raise AssertionError("a wrong shape on one process")
    if comm.size > 1:
        try:
            gg.agg_simple(np.ones((1, 2 + (comm.rank == last))), graph=dg)
        except RuntimeError as found:
            assert "the processes do different things" in str(found)
        else:
            raise AssertionError("other widths on one process")


def main():
    comm = world()
    for label, (graph, owner, owner_src) in situations(comm.size).items():
        try:
            dg = gg.DistributedGraph.from_global(graph.graph, owner, comm, owner_src)
            check_order(dg, graph, owner, owner_src)
            check_local(comm, dg, graph, owner, owner_src)
            check_exchange(comm, dg, graph.n_src)
            check_volume(comm, graph, owner, owner_src)
        except Exception as error:
            raise AssertionError(label) from error
    check_sums(comm)
    check_errors(comm)
    if comm.rank == 0:
        print(f"plans on {comm.size} processes")


main()

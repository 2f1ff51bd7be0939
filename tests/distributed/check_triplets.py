# SPDX-License-Identifier: MIT
"""Pairs of edges that meet, on all processes of this program: DimeNet's sums over triplets."""

import numpy as np
from setting import everything, world

import gnograd as gg

N = 60


def arrays(graph, x, seed=0):
    rng = np.random.default_rng(seed)
    vector = x[graph.dst] - x[graph.src]
    rbf, embedding = rng.normal(size=(graph.n_edges, 6)), rng.normal(size=(graph.n_edges, 4))
    return [vector, rbf, embedding, rng.normal(size=(10, 2))]


def both_ways(x):
    """Every edge with its reverse, some of them twice."""
    graph = gg.Graph.radius(x, 0.3, include_self=False)
    src, dst = (
        np.concatenate([graph.src, graph.src[:40]]),
        np.concatenate([graph.dst, graph.dst[:40]]),
    )
    order = np.random.default_rng(2).permutation(src.size)
    return gg.Graph.from_edges(src[order], dst[order], N, N)


def close(got, expected, of):
    for a, b in zip(everything(got), everything(expected), strict=True):
        worst = np.abs(a - b).max(initial=0)
        assert worst <= 1e-13 * max(np.abs(b).max(initial=0), 1), f"{of}: {worst}"


def check(comm, graph, owner, exclude, x):
    whole = dict(graph=graph, n_spherical=3, n_radial=2, exclude=exclude)
    dg = gg.DistributedGraph.from_global(graph, owner, comm)
    mine = {**whole, "graph": dg}
    inputs, tangents = arrays(graph, x), arrays(graph, x[::-1], 1)
    c = np.random.default_rng(3).normal(size=(graph.n_edges, 4))

    def part(values):
        return [*(a[dg.edges] for a in values[:3]), values[3]]

    op = gg.agg_edge_to_edge
    close(op(*part(inputs), **mine), op(*inputs, **whole)[dg.edges], "forward")
    close(
        op.jvp(part(inputs), part(tangents), **mine),
        op.jvp(inputs, tangents, **whole)[dg.edges],
        "jvp",
    )
    expected = op.vjp(c, inputs, **whole), op.hvp(c, inputs, tangents, **whole)
    got = (
        op.vjp(c[dg.edges], part(inputs), **mine),
        op.hvp(c[dg.edges], part(inputs), part(tangents), **mine),
    )
    for face, a, b in zip(("vjp", "hvp"), got, expected, strict=True):
        close((*a[:3], comm.sum(a[3])), tuple(part(b)), face)
    only = op.vjp(c[dg.edges], part(inputs), wrt=["weights"], **mine)
    assert only[:3] == (None, None, None)
    assert np.array_equal(only[3], got[0][3])
    check_halo(comm, dg, graph, owner)
    return dg


def check_halo(comm, dg, graph, owner):
    """Rows that travel are those of the edges that end at the halo, each once."""
    needed = np.isin(graph.dst, dg.halo_ids).sum()
    assert dg.edge_halo.n_halo == needed and dg.edge_halo.n_own == dg.n_edges
    assert dg.edge_halo is dg.edge_halo
    sent = comm.all_gather([dg.edge_halo.plan.n_send, dg.edge_halo.n_halo]).sum(0)
    assert sent[0] == sent[1]


def main():
    comm = world()
    rng = np.random.default_rng(4)
    x = rng.random((N, 3))
    graph = both_ways(x)
    one_way = gg.Graph.from_edges(*rng.integers(0, N, (2, 200)), N, N)
    random, blocks = rng.integers(0, comm.size, N), np.arange(N) * comm.size // N
    for case in (graph, one_way):
        for owner in (random, blocks, np.zeros(N, int)):
            for exclude in ("reverse_edge", "same_node", "none"):
                dg = check(comm, case, owner, exclude, x)
    try:
        other = gg.DistributedGraph.from_global(case, random, comm, owner_src=random)
        gg.agg_edge_to_edge(
            *(a[other.edges] for a in arrays(case, x)[:3]),
            np.ones((10, 2)),
            graph=other,
            n_spherical=3,
            n_radial=2,
        )
    except ValueError as error:
        assert "sources and destinations are different nodes" in str(error), error
    else:
        raise AssertionError("no error for other nodes")
    if comm.rank == 0:
        print(f"{dg.edge_halo.n_halo} edges in the last halo on {comm.size} processes")


main()

# SPDX-License-Identifier: MIT
"""Searches for near points beside scipy's k-d tree and torch_cluster, on the CPU.

Graphs come out equal before anything is timed: peers' edges are put in the order of ours. A row has
the time of ours, and by how much more a peer takes.

    python benchmarks/neighbors.py [--points 100000] [--threads 2] [--repeats 5]
                                   [--clock processor] [--json FILE]

"scipy" is what a program does without this package: `cKDTree.query` with as many workers, or
`query_pairs` within the radius and both directions of these pairs, sorted by destination. Rows
"graph" have the transpose in it that gradients need. torch_cluster is optional.
"""

import argparse
import importlib.util
import statistics
from collections.abc import Sequence

import numpy as np
from results import CLOCKS, Results, add_clock, add_option
from scipy.spatial import cKDTree

import gnograd as gg


def scipy_radius(points, radius):
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    src, dst = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.lexsort((src, dst))
    offsets = np.searchsorted(dst[order], np.arange(len(points) + 1))
    return offsets, src[order]


def scipy_knn(points, k, threads):
    _, indices = cKDTree(points).query(points, k, workers=threads)
    return np.arange(0, k * len(points) + 1, k), indices.ravel()


def torch_cluster_peers(points, radius, k, threads):
    import torch
    import torch_cluster

    torch.set_num_threads(threads)
    tensor = torch.from_numpy(points)

    def by_destination(edges):
        src, dst = edges.numpy()
        order = np.lexsort((src, dst))
        return np.searchsorted(dst[order], np.arange(len(points) + 1)), src[order]

    within = lambda: torch_cluster.radius_graph(tensor, radius, max_num_neighbors=10**4)  # noqa: E731
    nearest = lambda: torch_cluster.knn_graph(tensor, k, loop=True)  # noqa: E731
    return {"radius": (within, by_destination), "knn": (nearest, by_destination)}


def timed(functions, repeats, clock):
    """Medians, each contestant in turn."""
    times = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            start = clock()
            function()
            times[name].append(clock() - start)
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def same_rows(found, expected):
    """Check that rows are equal as sets: peers order sources otherwise."""
    offsets, indices = found
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    sort = lambda i: i[np.lexsort((i, rows))]  # noqa: E731
    assert np.array_equal(offsets, expected[0])
    assert np.array_equal(sort(indices), sort(expected[1]))


def main(argv: Sequence[str] | None = None) -> None:
    """Check, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--repeats", type=int, default=5)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args(argv)
    results = Results(options.json)
    n, threads, k = options.points, max(options.threads), 16
    gg.set_num_threads(threads)
    points = np.random.default_rng(0).random((n, 3))
    radius = (24 / n / (4 / 3 * np.pi)) ** (1 / 3)  # some 24 neighbours
    radii = [radius / 4, radius / 2, radius]
    peers = {}
    if importlib.util.find_spec("torch_cluster"):
        peers = torch_cluster_peers(points, radius, k, threads)

    same_rows(gg.neighbors(points, radius, include_self=False), scipy_radius(points, radius))
    same_rows(gg.knn(points, k), scipy_knn(points, k, threads))
    for name, ours in (
        ("radius", lambda: gg.neighbors(points, radius, include_self=False)),
        ("knn", lambda: gg.knn(points, k)),
    ):
        if name in peers:
            call, ordered = peers[name]
            same_rows(ours(), ordered(call()))

    rows = {
        "radius": {
            "ours": lambda: gg.neighbors(points, radius, include_self=False),
            "scipy": lambda: scipy_radius(points, radius),
        },
        "radius, graph": {
            "ours": lambda: gg.Graph.radius(points, radius, include_self=False),
            "scipy": lambda: gg.Graph(*scipy_radius(points, radius)),
        },
        "three radii": {
            "ours": lambda: gg.neighbors(points, radii, include_self=False),
            "scipy": lambda: [scipy_radius(points, r) for r in radii],
        },
        f"{k} nearest": {
            "ours": lambda: gg.knn(points, k),
            "scipy": lambda: scipy_knn(points, k, threads),
        },
        f"{k} nearest, graph": {
            "ours": lambda: gg.Graph.knn(points, k),
            "scipy": lambda: gg.Graph(*scipy_knn(points, k, threads)),
        },
    }
    if peers:
        rows["radius"]["torch_cluster"] = peers["radius"][0]
        rows[f"{k} nearest"]["torch_cluster"] = peers["knn"][0]
    print(f"{n} points in 3-D, {threads} threads, time of the {options.clock}\n")
    print("| search | edges | ours | peers |\n| --- | --- | --- | --- |")
    for name, functions in rows.items():
        found = functions["ours"]()
        found = found[-1] if isinstance(found, list) else found
        n_edges = found.n_edges if isinstance(found, gg.Graph) else len(found.indices)
        times = timed(functions, options.repeats, CLOCKS[options.clock])
        for who, taken in times.items():
            contestant = "gnograd" if who == "ours" else who
            ratio = taken / times["ours"]
            results.add(name, "search", contestant, threads=threads, seconds=taken, ratio=ratio)
        ours = times.pop("ours")
        others = ", ".join(f"{peer} {t / ours:.2f}x" for peer, t in times.items())
        print(f"| {name} | {n_edges} | {ours * 1e3:.0f} ms | {others} |", flush=True)


if __name__ == "__main__":
    main()

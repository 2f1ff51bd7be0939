# SPDX-License-Identifier: MIT
"""Cost of a row and of an edge of every kernel that walks the rows of a graph, beside plain loops.

The plain loops are those of rows.c, compiled here by `cc -O3 -march=native`. Graphs have 6 or 30
neighbours a node, on a square grid whose arrays fit the cache. Ours is the kernel alone, without
the call's checks; both take turns, on one thread, and a time is the median. Results are compared
first. From the times of 6 and of 30 edges a row follow those of an edge and of a row without edges.
The file has the ratio of both for every number of features.

usage: python benchmarks/rows.py [--kernels NAME ...] [--features N ...] [--runs N] [--clock CLOCK]
                                 [--json FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg
from calls import kernel_of, microseconds

SIDE = 128
DEGREES = 6, 30
HEADS = {1: 1, 4: 1, 16: 4, 64: 4}
"""Heads of attention by features."""

Contest = tuple[Callable[[], object], Callable[[], object]]
"""Our call, and the plain loop; both give arrays, or a tuple of them."""


class Case:
    """A graph, random arrays for it, and the plain loops."""

    def __init__(self, library: ctypes.CDLL, degree: int) -> None:
        near = sorted(
            ((a, b) for a in range(-3, 4) for b in range(-3, 4) if (a, b) != (0, 0)),
            key=lambda step: (step[0] ** 2 + step[1] ** 2, step),
        )[:degree]
        i, j = np.divmod(np.arange(SIDE * SIDE), SIDE)
        src = np.stack([(i + a) % SIDE * SIDE + (j + b) % SIDE for a, b in near], axis=1)
        self.n, self.edges, self.library = SIDE * SIDE, degree * SIDE * SIDE, library
        self.offsets = degree * np.arange(self.n + 1)
        self.nodes = src.ravel().astype(np.int32)
        self.graph = gg.Graph(self.offsets, self.nodes)
        by_source = np.argsort(self.nodes, kind="stable")
        # every node is a neighbour of as many as it has
        self.by_source = by_source, (by_source // degree).astype(np.int32)
        self.rng = np.random.default_rng(0)

    def real(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32)

    def loop(self, name: str, *arguments: int | np.ndarray) -> Callable[[], None]:
        """A plain loop over all rows."""
        function = getattr(self.library, name)
        values = [
            ctypes.c_int64(a) if isinstance(a, int) else ctypes.c_void_p(a.ctypes.data)
            for a in arguments
        ]

        def call(keep: object = arguments) -> None:
            function(ctypes.c_int64(self.n), *values)

        return call

    def contest(
        self, ours: Callable[[], object], result: tuple[np.ndarray, ...], *loop: object
    ) -> Contest:
        """Refuse results that differ."""
        plain = self.loop(*loop)
        plain()
        found = ours()
        for a, b in zip(found if isinstance(found, tuple) else (found,), result, strict=True):
            assert np.allclose(a, b, rtol=1e-3, atol=1e-4), (loop[0], np.abs(a - b).max())
        return kernel_of(ours), plain


def weighted_sum(case: Case, d: int) -> Contest:
    x, w = case.real(case.n, d), case.real(case.edges)
    out = np.empty_like(x)
    return case.contest(
        lambda: gg.agg_weighted(x, w, graph=case.graph),
        (out,), "weighted_sum", d, case.offsets, case.nodes, w, x, out,
    )  # fmt: skip


def weighted_sum_vjp(case: Case, d: int) -> Contest:
    x, w, g = case.real(case.n, d), case.real(case.edges), case.real(case.n, d)
    gx, gw = np.empty_like(x), np.empty_like(w)
    edge, node = case.by_source
    return case.contest(
        lambda: gg.agg_weighted.vjp(g, (x, w), graph=case.graph),
        (gx, gw), "weighted_sum_vjp", d, case.offsets, node, edge, w, x, g, gx, gw,
    )  # fmt: skip


def maximum(case: Case, d: int) -> Contest:
    x = case.real(case.n, d)
    out, location = np.empty_like(x), np.empty(x.shape, np.int64)
    return case.contest(
        lambda: gg.agg_simple(x, graph=case.graph, aggregation="max"),
        (out,), "maximum", d, case.offsets, case.nodes, x, out, location,
    )  # fmt: skip


def edge_softmax(case: Case, d: int) -> Contest:
    s = case.real(case.edges, d)
    out = np.empty_like(s)
    return case.contest(
        lambda: gg.edge_softmax(s, graph=case.graph),
        (out,), "edge_softmax", d, case.offsets, s, out,
    )  # fmt: skip


def mha_gat(case: Case, d: int, backward: bool = False) -> Contest:
    x, a, g, h = case.real(case.n, d), case.real(2 * d), case.real(case.n, d), HEADS[d]
    src, dst, lse, gsrc = (np.empty((case.n, h), np.float32) for _ in range(4))
    out, gx_src, gx_dst = (np.empty_like(x) for _ in range(3))
    ga = np.empty_like(a)
    sizes = h, d // h, case.offsets, case.nodes, x, a, src, dst
    static = {"graph": case.graph, "num_heads": h}
    if not backward:
        return case.contest(lambda: gg.mha_gat(x, x, a, **static), (out,), "gat", *sizes, out, lse)
    case.loop("gat", *sizes, out, lse)()
    _, saved = gg.mha_gat.forward(x, x, a, return_saved=True, **static)
    contest = case.contest(
        lambda: gg.mha_gat.vjp(g, (x, x, a), wrt=("x_src", "x_dst"), saved=saved, **static)[:2],
        (gx_src, gx_dst), "gat_vjp", *sizes, out, lse, g, gsrc, gx_src, gx_dst, ga,
    )  # fmt: skip
    ours = kernel_of(lambda: gg.mha_gat.vjp(g, (x, x, a), saved=saved, **static))
    return ours, contest[1]


def mha_gat_vjp(case: Case, d: int) -> Contest:
    return mha_gat(case, d, backward=True)


def moments(case: Case, d: int) -> Contest:
    x, y = case.real(case.n, 3), case.real(case.n, 3)
    out = np.empty((case.n, 11), np.float32)
    return case.contest(
        lambda: gg.offset_moments(x, y, graph=case.graph),
        (out,), "moments", case.offsets, case.nodes, x, y, out,
    )  # fmt: skip


def relational_sum(case: Case, d: int) -> Contest:
    x, types = case.real(case.n, d), case.rng.integers(0, 4, case.edges).astype(np.int32)
    out = np.empty((case.n, 4 * d), np.float32)
    return case.contest(
        lambda: gg.agg_relational(x, graph=case.graph, edge_type=types, n_relations=4),
        (out,), "relational_sum", d, 4, case.offsets, case.nodes, types, x, out,
    )  # fmt: skip


def gno_sum(case: Case, d: int) -> Contest:
    x, kappa = case.real(case.n, d), case.real(case.edges, d, d)
    out = np.empty_like(x)
    return case.contest(
        lambda: gg.gno_aggregate(x, kappa, graph=case.graph),
        (out,), "gno_sum", d, case.offsets, case.nodes, x, kappa, out,
    )  # fmt: skip


def edge_update(case: Case, d: int) -> Contest:
    e, x, y = case.real(case.edges, d), case.real(case.n, d), case.real(case.n, d)
    out = np.empty_like(e)
    return case.contest(
        lambda: gg.update_edges(e, x, y, graph=case.graph, mode="sum"),
        (out,), "edge_update", d, case.offsets, case.nodes, e, x, y, out,
    )  # fmt: skip


KERNELS = {
    "weighted_sum": weighted_sum,
    "weighted_sum_vjp": weighted_sum_vjp,
    "maximum": maximum,
    "edge_softmax": edge_softmax,
    "mha_gat": mha_gat,
    "mha_gat_vjp": mha_gat_vjp,
    "moments": moments,
    "relational_sum": relational_sum,
    "gno_sum": gno_sum,
    "edge_update": edge_update,
}
FEATURES = {"moments": (3,), "gno_sum": (1, 4, 16)}
"""Features of kernels that do not take all: a matrix an edge has their square."""


def build() -> ctypes.CDLL:
    """Compile the plain loops."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "rows.so"
        source = Path(__file__).with_suffix(".c")
        options = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", library, source, "-lm"], check=True)
        return ctypes.CDLL(str(library))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--features", nargs="+", type=int, choices=HEADS, default=list(HEADS))
    parser.add_argument("--runs", type=int, default=15)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json)
    gg.set_num_threads(1)
    library = build()
    cases = {degree: Case(library, degree) for degree in DEGREES}
    print(f"{'ns, ours / plain':22} {'an edge':>15} {'a row':>17}   ours/plain with 6 and 30 edges")
    for name in options.kernels:
        for d in FEATURES.get(name, options.features):
            cost: dict[str, list[float]] = {"ours": [], "plain": []}
            for case in cases.values():
                case.rng = np.random.default_rng(d)
                ours, plain = KERNELS[name](case, d)
                taken = microseconds(
                    {"ours": ours, "plain": plain}, options.runs, CLOCKS[options.clock]
                )
                for who, time in taken.items():
                    cost[who].append(1e3 * time / case.n)
                results.add(
                    name, f"{case.edges // case.n} edges a row", f"{d} features",
                    threads=1, ratio=taken["plain"] / taken["ours"],
                )  # fmt: skip
            edge = {who: (b - a) / (DEGREES[1] - DEGREES[0]) for who, (a, b) in cost.items()}
            row = {who: cost[who][0] - DEGREES[0] * edge[who] for who in cost}
            few, many = (a / b for a, b in zip(cost["ours"], cost["plain"], strict=True))
            print(
                f"{name:17} {d:4} {edge['ours']:7.1f} / {edge['plain']:5.1f} "
                f"{row['ours']:9.1f} / {row['plain']:5.1f} {few:9.2f} {many:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

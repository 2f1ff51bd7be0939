# SPDX-License-Identifier: MIT
"""Batches of functions on one graph beside single calls: the kernel network is evaluated once.

The batch is first compared with its items, one by one. Then one function and the batch are timed in
turns; the ratio of their medians says how many single calls a batch costs.

forward     the output
training    output, and the gradients to all inputs

    python benchmarks/batch.py [--batch 16] [--hidden 64] [--features 8] [--nodes 4096]
                               [--degree 16] [--threads 1] [--repeats 9]
                               [--clock processor] [--json FILE]
"""

import argparse
import statistics

import numpy as np
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg


def inputs_of(sizes: argparse.Namespace, kernel: str, rng: np.random.Generator) -> list:
    """Random inputs except h."""
    f, hidden, n_edges = sizes.features, sizes.hidden, sizes.nodes * sizes.degree
    kappa = (f, f) if kernel == "full" else (f,)
    shapes = (n_edges, 3), (3, hidden), (hidden,), (hidden, *kappa), kappa
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def forward(h, cotangent, others, static):
    """The output."""
    return gg.gno(h, *others, **static)


def training(h, cotangent, others, static):
    """Output and gradients."""
    gg.gno(h, *others, **static)
    return gg.gno.vjp(cotangent, (h, *others), **static)


def check(h, others, static) -> None:
    """Raise an error unless a batch equals its items."""
    out = gg.gno(h, *others, **static)
    for item, features in enumerate(h):
        np.testing.assert_allclose(
            out[item], gg.gno(features, *others, **static), rtol=1e-3, atol=1e-3
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (
        ("batch", 16), ("hidden", 64), ("features", 8), ("nodes", 4096), ("degree", 16),
        ("threads", 1), ("repeats", 9),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    add_clock(parser)
    add_option(parser)
    sizes = parser.parse_args()
    clock, results = CLOCKS[sizes.clock], Results(sizes.json)
    gg.set_num_threads(sizes.threads)
    rng = np.random.default_rng(0)
    n_edges = sizes.nodes * sizes.degree
    dst = np.repeat(np.arange(sizes.nodes), sizes.degree)
    graph = gg.Graph.from_edges(rng.integers(0, sizes.nodes, n_edges), dst, sizes.nodes)
    h, cotangent = (
        rng.normal(size=(sizes.batch, sizes.nodes, sizes.features)).astype("float32")
        for _ in range(2)
    )
    print(f"{n_edges} edges, H = {sizes.hidden}, F = {sizes.features}, {sizes.threads} thread(s)")
    print(f"{'kernel':10}{'activation':12}{'':10}{'one':>10}{sizes.batch:>10}{'ratio':>8}")
    for kernel in ("full", "diagonal"):
        others = inputs_of(sizes, kernel, rng)
        for activation in ("relu", "gelu"):
            static = {"graph": graph, "kernel": kernel, "activation": activation}
            check(h, others, static)
            for run in (forward, training):
                times: tuple[list[float], list[float]] = ([], [])
                for _ in range(sizes.repeats):
                    for found, *x in zip(times, (h[0], h), (cotangent[0], cotangent), strict=True):
                        start = clock()
                        run(*x, others, static)
                        found.append(clock() - start)
                one, batch = map(statistics.median, times)
                print(
                    f"{kernel:10}{activation:12}{run.__name__:10}{one * 1e3:>7.1f} ms"
                    f"{batch * 1e3:>7.1f} ms{batch / one:>8.1f}",
                    flush=True,
                )
                calls = sizes.batch * one
                for name, seconds in (("gnograd", batch), (f"{sizes.batch} calls", calls)):
                    results.add(
                        f"{kernel}, {activation}", run.__name__, name, threads=sizes.threads,
                        seconds=seconds, ratio=seconds / batch,
                    )  # fmt: skip


if __name__ == "__main__":
    main()

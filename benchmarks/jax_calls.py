# SPDX-License-Identifier: MIT
"""Cost of a call from a JAX program, on a graph so small that the kernel takes no time.

python benchmarks/jax_calls.py [--runs 15] [--clock processor] [--json FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg
import gnograd.jax as gj
from calls import microseconds

OURS = "gnograd.jax in a program"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json)
    graph = gg.Graph([0, 1, 2], [0, 1])
    host = np.ones((2, 4), np.float32), np.ones(2, np.float32)
    arrays = tuple(map(jnp.asarray, host))
    shape = jax.ShapeDtypeStruct((2, 4), jnp.float32)

    def numpy(x, w):
        return gg.agg_weighted(np.asarray(x), np.asarray(w), graph=graph)

    programs = {
        "a program that adds": jax.jit(lambda x, w: x + w[:, None]),
        OURS: jax.jit(lambda x, w: gj.agg_weighted(x, w, graph=graph)),
        "jax.pure_callback to gnograd": jax.jit(lambda *a: jax.pure_callback(numpy, shape, *a)),
        "gnograd.jax without jit": lambda x, w: gj.agg_weighted(x, w, graph=graph),
    }
    np.testing.assert_array_equal(programs[OURS](*arrays), numpy(*host))
    calls: dict[str, Callable[[], object]] = {
        name: lambda p=program: jax.block_until_ready(p(*arrays))
        for name, program in programs.items()
    }
    calls["gnograd with NumPy arrays"] = lambda: numpy(*host)
    taken = microseconds(calls, options.runs, CLOCKS[options.clock])
    for name, time_of_one in taken.items():
        print(f"{name:32}{time_of_one:7.0f} us")
        results.add(
            "agg_weighted, two nodes", "call", "gnograd" if name == OURS else name, threads=1,
            seconds=1e-6 * time_of_one, ratio=time_of_one / taken[OURS],
        )  # fmt: skip


if __name__ == "__main__":
    main()

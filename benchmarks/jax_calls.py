# SPDX-License-Identifier: MIT
"""What a call from a JAX program costs, on a graph so small that the kernel takes no time.

python benchmarks/jax_calls.py
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import gnograd as gg
import gnograd.jax as gj


def microseconds(call, n=1000, runs=7):
    call()
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(n):
            call()
        best = min(best, (time.perf_counter() - start) / n)
    return 1e6 * best


def main():
    graph = gg.Graph([0, 1, 2], [0, 1])
    host = np.ones((2, 4), np.float32), np.ones(2, np.float32)
    arrays = tuple(map(jnp.asarray, host))
    shape = jax.ShapeDtypeStruct((2, 4), jnp.float32)

    def numpy(x, w):
        return gg.agg_weighted(np.asarray(x), np.asarray(w), graph=graph)

    programs = {
        "a program that adds": jax.jit(lambda x, w: x + w[:, None]),
        "gnograd.jax in a program": jax.jit(lambda x, w: gj.agg_weighted(x, w, graph=graph)),
        "jax.pure_callback to gnograd": jax.jit(lambda *a: jax.pure_callback(numpy, shape, *a)),
        "gnograd.jax without jit": lambda x, w: gj.agg_weighted(x, w, graph=graph),
    }
    np.testing.assert_array_equal(programs["gnograd.jax in a program"](*arrays), numpy(*host))
    print(f"{'gnograd with NumPy arrays':32}{microseconds(lambda: numpy(*host)):7.0f} us")
    for name, program in programs.items():
        time_of_one = microseconds(lambda p=program: jax.block_until_ready(p(*arrays)))
        print(f"{name:32}{time_of_one:7.0f} us")


if __name__ == "__main__":
    main()

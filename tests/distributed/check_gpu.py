# SPDX-License-Identifier: MIT
"""Operators on arrays on a GPU, on graphs over all processes of this program, against the CPU."""

import numpy as np
from cupy_on_host import install
from setting import call_on, everything, for_all_operators, parts, situations, world

import gnograd as gg

CUPY = install()
COMM = world()


def on_gpu(value):
    if isinstance(value, list | tuple):
        return tuple(map(on_gpu, value))
    return CUPY.asarray(value) if isinstance(value, np.ndarray) else value


def close(got, expected, of):
    for a, b in zip(everything(got), everything(expected), strict=True):
        assert (a is None) == (b is None), of
        if b is None:
            continue
        assert isinstance(a, CUPY.ndarray), f"{of}: {type(a)}"
        worst = np.abs(CUPY.asnumpy(a) - b).max(initial=0)
        assert worst <= 1e-13 * max(np.abs(b).max(initial=0), 1), f"{of}: {worst}"


def check(operator, graph, owners):
    inputs, static = call_on(operator.name, graph)
    dg = gg.DistributedGraph.from_global(graph.graph, owners[0], COMM, owners[1])
    signature = operator.signature(**static, graph=graph.graph)
    for key, spec in signature.arrays.items():
        if static.get(key) is not None:
            (static[key],) = parts(dg, [spec], [static[key]])
    inputs = parts(dg, signature.inputs.values(), inputs)
    rng = np.random.default_rng(COMM.rank)

    def like(values):
        return [None if x is None else rng.normal(size=x.shape) for x in values]

    here, there = dict(graph=dg, **static), {"graph": dg}
    there |= {key: on_gpu(value) for key, value in static.items()}
    value, kept = operator.forward(*inputs, return_saved=True, **here)
    tangents, cotangents = like(inputs), like(everything(value))
    x, t, c = on_gpu(inputs), on_gpu(tangents), on_gpu(cotangents)
    got, saved = operator.forward(*x, return_saved=True, **there)
    close(got, value, "forward")
    expected = operator.vjp(cotangents, inputs, saved=kept, **here)
    close(operator.vjp(c, x, saved=saved, **there), expected, "vjp of what was saved")
    close(operator.vjp(c, x, **there), expected, "vjp")
    close(operator.jvp(x, t, **there), operator.jvp(inputs, tangents, **here), "jvp")
    close(operator.hvp(c, x, t, **there), operator.hvp(cotangents, inputs, tangents, **here), "hvp")


def check_halo(graph, owner):
    dg = gg.DistributedGraph.from_global(graph.graph, owner, COMM)
    rng = np.random.default_rng(COMM.rank)
    h, c = rng.normal(size=(dg.n_own, 2, 3)), rng.normal(size=(dg.n_own + dg.n_halo, 2, 3))
    close(gg.halo(on_gpu(h), graph=dg), gg.halo(h, graph=dg), "halo")
    close(gg.halo.vjp(on_gpu(c), graph=dg), gg.halo.vjp(c, graph=dg), "halo.vjp")
    close(gg.halo.hvp(None, (on_gpu(h),), (None,), graph=dg), (h * 0,), "halo.hvp")


def main():
    done = for_all_operators(
        COMM.size,
        lambda name, graph, owners: check(getattr(gg, name), graph, owners),
        ("directed", "bipartite", "empty processes"),
    )
    graph, owner, _ = situations(COMM.size)["directed"]
    check_halo(graph, owner)
    if COMM.rank == 0:
        print(f"{done} calls on {COMM.size} processes")


main()

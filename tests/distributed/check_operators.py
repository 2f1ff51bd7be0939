# SPDX-License-Identifier: MIT
"""All operators on graphs over all processes of this program, against the whole graph on each."""

import numpy as np
from setting import call_on, everything, for_all_operators, parts, world

import gnograd as gg

RULES = {np.float64: 1e-13, np.float32: 1e-6}
"""Tolerances relative to the largest value; in float32 the error of one process is added."""


def doubles(arrays):
    return [None if x is None else x.astype(np.float64) for x in arrays]


def close(got, expected, rule, of, slack=0):
    for a, b in zip(everything(got), everything(expected), strict=True):
        if b is None:
            assert a is None, of
            continue
        scale = max(np.abs(b).max(initial=0), 1)
        worst = np.abs(np.asarray(a) - b).max(initial=0)
        assert a.shape == b.shape and worst <= rule * scale + slack, f"{of}: {worst} of {scale}"


def check(comm, operator, graph, owners, dtype):
    rule = RULES[dtype]
    inputs, static = call_on(operator.name, graph)
    rng = np.random.default_rng(5)
    inputs = [None if x is None else x.astype(dtype) for x in inputs]
    tangents = [None if x is None else rng.normal(size=x.shape).astype(dtype) for x in inputs]
    whole = {**static, "graph": graph.graph}
    dg = gg.DistributedGraph.from_global(graph.graph, owners[0], comm, owners[1])
    signature = operator.signature(**whole)
    here, there = signature.inputs.values(), signature.outputs.values()
    mine = {
        **static,
        "graph": dg,
        **{
            key: parts(dg, [spec], [static[key]])[0]
            for key, spec in signature.arrays.items()
            if key in static
        },
    }
    own, directions = parts(dg, here, inputs), parts(dg, here, tangents)

    value = everything(operator(*inputs, **whole))
    got, saved = operator.forward(*own, return_saved=True, **mine)
    close(got, tuple(parts(dg, there, value)), rule, "forward")
    close(operator(*own, **mine), got, 0, "the same bits")

    cotangents = [rng.normal(size=y.shape).astype(dtype) for y in value]
    theirs = parts(dg, there, cotangents)
    along = operator.jvp(inputs, tangents, **whole)
    close(
        operator.jvp(own, directions, **mine),
        tuple(parts(dg, there, everything(along))),
        rule,
        "jvp",
    )
    for face in (
        lambda c, x, t, **more: operator.vjp(c, x, **more),
        lambda c, x, t, **more: operator.hvp(c, x, t, **more),
    ):
        expected = face(cotangents, inputs, tangents, **whole)
        exact = face(*map(doubles, (cotangents, inputs, tangents)), **whole)
        got = face(theirs, own, directions, **mine)
        for name, spec, g, e, d in zip(signature.inputs, here, got, expected, exact, strict=True):
            if e is None:
                continue
            slack = np.abs(e - d).max(initial=0)
            if parts(dg, [spec], [e])[0] is not e:
                close(g, parts(dg, [spec], [e])[0], rule, f"gradient to {name}", slack)
            else:
                close(dg.comm.sum(g), e, rule, f"gradient to {name}", slack)
        again = face(theirs, own, directions, **mine)
        for g, a in zip(got, again, strict=True):
            assert g is a or np.array_equal(g, a), "the same bits"
    kept = operator.vjp(theirs, own, saved=saved, **mine)
    fresh = operator.vjp(theirs, own, **mine)
    for g, a in zip(kept, fresh, strict=True):
        assert g is a or np.abs(g - a).max(initial=0) <= rule * max(np.abs(a).max(initial=0), 1)


def main():
    comm = world()

    def both_types(name, graph, owners):
        for dtype in RULES:
            check(comm, getattr(gg, name), graph, owners, dtype)

    done = len(RULES) * for_all_operators(comm.size, both_types)
    if comm.rank == 0:
        print(f"{done} calls on {comm.size} processes")


main()

# SPDX-License-Identifier: MIT
"""Operators, halos, sums and training on a tape, of a distributed graph."""

import functools

import numpy as np
from setting import (
    NODES,
    call_on,
    everything,
    for_all_operators,
    parts,
    power_law,
    world,
)

import gnograd as gg
import gnograd.autodiff as ad


def close(a, b, rule, of):
    worst = np.abs(np.asarray(a) - b).max(initial=0)
    assert worst <= rule * max(np.abs(b).max(initial=0), 1), f"{of}: {worst}"


def check_operator(comm, name, graph, owners):
    """Gradients, and gradients of a number made of the gradients to what the nodes have."""
    inputs, static = call_on(name, graph)
    operator, function = getattr(gg, name), getattr(ad, name)
    dg = gg.DistributedGraph.from_global(graph.graph, owners[0], comm, owners[1])
    signature = operator.signature(**static, graph=graph.graph)
    here = list(signature.inputs.values())
    mine = dict(static)
    for key, spec in signature.arrays.items():
        if key in static:
            (mine[key],) = parts(dg, [spec], [static[key]])
    own = parts(dg, here, inputs)
    found = []
    for arrays, arguments in (
        (inputs, {**static, "graph": graph.graph}),
        (own, {**mine, "graph": dg}),
    ):
        tape = ad.Tape("float64")
        on_tape = [None if x is None else tape.parameter(x) for x in arrays]
        out = everything(function(*on_tape, **arguments))
        loss = sum(ad.sum(y * y) for y in out)
        there = [x for x in on_tape if x is not None]
        first = ad.grad(loss, there, create_graph=True)
        found.append(([y.value for y in out], [g.value for g in first], first, on_tape))
    whole, part = found
    for a, b in zip(part[0], parts(dg, signature.outputs.values(), whole[0]), strict=True):
        close(a, b, 1e-13, f"{name}: value")
    specs = [spec for spec, x in zip(here, inputs, strict=False) if x is not None]
    given = [x for x in inputs if x is not None]
    for spec, x, a, b in zip(specs, given, part[1], whole[1], strict=True):
        (rows,) = parts(dg, [spec], [b])
        if rows is b and parts(dg, [spec], [x])[0] is x:
            close(comm.sum(a), b, 1e-12, f"{name}: gradient")
        else:
            close(a, rows, 1e-13, f"{name}: gradient")


def check_second_order(comm):
    """The gradient of |d loss / d h|^2, through the exchange forth and back and forth."""
    graph = power_law(NODES, 150, seed=3)
    owner = np.random.default_rng(comm.size).integers(0, comm.size, NODES)
    dg = gg.DistributedGraph.from_global(graph.graph, owner, comm)
    inputs, static = call_on("gno", graph)
    here = gg.gno.declaration.inputs.values()
    found = []
    for arrays, where, add in (
        (inputs, graph.graph, lambda x: x),
        (parts(dg, here, inputs), dg, dg.sum),
    ):
        tape = ad.Tape("float64")
        on_tape = [tape.parameter(x) for x in arrays]
        out = ad.gno(*on_tape, **static, graph=where)
        (first,) = ad.grad(add(ad.sum(ad.tanh(out) ** 2)), on_tape[:1], create_graph=True)
        second = add(ad.sum(first * first))
        found.append([g.value for g in ad.grad(second, on_tape)])
    for spec, x, a, b in zip(here, inputs, *found[::-1], strict=True):
        (rows,) = parts(dg, [spec], [b])
        close(comm.sum(a) if parts(dg, [spec], [x])[0] is x else a, rows, 1e-12, f"second {spec}")


def check_training(comm):
    """Fifty steps of a GNO: the losses and parameters of one process."""
    graph = power_law(NODES, 150, seed=3)
    owner = np.random.default_rng(comm.size).integers(0, comm.size, NODES)
    dg = gg.DistributedGraph.from_global(graph.graph, owner, comm)
    rng = np.random.default_rng(0)
    h, y, coords = (
        rng.normal(size=(NODES, 3)),
        rng.normal(size=(NODES, 2)),
        rng.normal(size=(150, 2)),
    )
    start = [0.5 * rng.normal(size=s) for s in ((2, 8), (8,), (8, 3, 2), (3, 2))]

    def train(graph, h, y, coords, add, add_all):
        tape, losses = ad.Tape("float64"), []
        weights = [tape.parameter(w) for w in start]
        step = ad.Adam(weights, lr=0.01)
        for _ in range(50):
            with tape.step():
                out = ad.gno(tape.constant(h), coords, *weights, graph=graph, activation="gelu")
                loss = add(ad.sum((out - y) ** 2)) / (2 * NODES)
                loss.backward()
                losses.append(loss.item())
                add_all(step)
            step.step()
        return losses, [w.value for w in weights]

    losses, weights = train(graph.graph, h, y, coords, lambda x: x, lambda x: x)
    rows, of_edges = dg.owned, dg.edges
    mine = train(dg, h[rows], y[rows], coords[of_edges], dg.sum, dg.sum_gradients)
    close(mine[0], np.array(losses), 1e-12, "losses")
    for a, b in zip(mine[1], weights, strict=True):
        close(a, b, 1e-12, "parameters")
        assert np.array_equal(a, comm.sum(a * (comm.rank == 0))), "the same bits everywhere"


def check_sums(comm):
    rng = np.random.default_rng(comm.rank)
    rows = rng.normal(size=(3 + comm.rank, 2))
    dg = gg.DistributedGraph.from_local([0], [], [], comm)
    tape = ad.Tape("float64")
    x = tape.parameter(rows)
    for on_tape, plain in (
        (dg.mean(x), dg.mean(rows)),
        (dg.norm(x), dg.norm(rows)),
        (dg.sum(ad.sum(x, 0)), dg.sum(rows.sum(0))),
    ):
        close(on_tape.value, plain, 1e-14, "sums")
    dg.norm(x).backward()
    close(x.grad, rows / dg.norm(rows), 1e-14, "gradient of the norm")
    dg.mean(x)[0].backward()
    n = comm.sum(np.array([float(len(rows))]))[0]
    close(x.grad, np.tile([1 / n, 0], (len(rows), 1)), 1e-14, "gradient of the mean")


def main():
    comm = world()
    done = for_all_operators(comm.size, functools.partial(check_operator, comm))
    check_second_order(comm)
    check_training(comm)
    check_sums(comm)
    if comm.rank == 0:
        print(f"{done} operators on {comm.size} processes")


main()

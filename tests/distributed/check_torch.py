# SPDX-License-Identifier: MIT
"""Operators, halos and sums on tensors of a distributed graph, differentiated as users do."""

import functools

import numpy as np
import torch
from setting import call_on, everything, for_all_operators, parts, world

import gnograd as gg
import gnograd.torch as gt


def tensors(arrays):
    return [None if x is None else torch.tensor(x, requires_grad=True) for x in arrays]


def static_tensors(static):
    return {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}


def derivatives(function, inputs, weights, add):
    """Value, gradient, and gradient of a number made of the gradient: as a force is trained."""
    out = everything(function(*inputs))
    energy = add(sum((y * w).sum() for y, w in zip(out, weights, strict=True)))
    there = [x for x in inputs if x is not None]
    first = torch.autograd.grad(energy, there, create_graph=True, materialize_grads=True)
    second = add(sum(g.square().sum() for g in first))
    return out, first, torch.autograd.grad(second, there, materialize_grads=True)


def check_operator(comm, name, graph, owners):
    inputs, static = call_on(name, graph)
    operator, function = getattr(gg, name), getattr(gt, name)
    dg = gg.DistributedGraph.from_global(graph.graph, owners[0], comm, owners[1])
    signature = operator.signature(**static, graph=graph.graph)
    here, there = list(signature.inputs.values()), signature.outputs.values()
    mine = dict(static)
    for key, spec in signature.arrays.items():
        if key in static:
            (mine[key],) = parts(dg, [spec], [static[key]])
    whole = tensors(inputs)
    shapes = [
        y.shape for y in everything(function(*whole, **static_tensors(static), graph=graph.graph))
    ]
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=shape) for shape in shapes]
    expected = derivatives(
        lambda *x: function(*x, **static_tensors(static), graph=graph.graph),
        whole, [torch.tensor(w) for w in weights], lambda x: x,
    )  # fmt: skip
    own = tensors(parts(dg, here, inputs))

    def replicated(*x):
        """Parameters whose gradients are summed over the processes inside of the program."""
        every = [
            shared(comm, p) if part is q else p
            for p, q, part in zip(x, inputs, parts(dg, here, inputs), strict=True)
        ]
        return function(*every, **static_tensors(mine), graph=dg)

    got = derivatives(
        replicated, own, [torch.tensor(w) for w in parts(dg, there, weights)], lambda x: x
    )
    named = [x for x in zip(here, inputs, strict=False) if x[1] is not None]
    for a, b in zip(
        got[0], parts(dg, there, [y.detach().numpy() for y in expected[0]]), strict=True
    ):
        np.testing.assert_allclose(
            a.detach(), b, atol=1e-12 * max(abs(b).max(initial=0), 1), rtol=0
        )
    for order in (1, 2):
        for (spec, _), a, b in zip(named, got[order], expected[order], strict=True):
            (b,) = parts(dg, [spec], [b.detach().numpy()])
            worst = np.abs(a.detach().numpy() - b).max(initial=0)
            assert worst <= 1e-12 * max(np.abs(b).max(initial=0), 1), (name, order, spec, worst)


class _Shared(torch.autograd.Function):
    """A parameter as every process uses it: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx, comm, x):
        ctx.comm = comm
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None, gt.distributed.sum(ctx.comm, g)


def shared(comm, x):
    return None if x is None else _Shared.apply(comm, x)


def main():
    comm = world()
    done = for_all_operators(comm.size, functools.partial(check_operator, comm))
    if comm.rank == 0:
        print(f"{done} operators on {comm.size} processes")


main()

# SPDX-License-Identifier: MIT
"""PyTorch's transforms, drawn at random, on graphs and layers that nothing else has used."""

import numpy as np
import torch
import values

import calls
import gnograd as gg
import gnograd.torch as gt

N = 6
LAYERS = {
    "GATConv": lambda: gt.GATConv(3, 2, heads=2),
    "GATv2Conv": lambda: gt.GATv2Conv(3, 2),
    "TransformerConv": lambda: gt.TransformerConv(3, 2),
    "SAGEConv": lambda: gt.SAGEConv(3, 2, aggr="mean"),
    "GCNConv": lambda: gt.GCNConv(3, 2),
}


def transforms(trial):
    """A layer or an operator under a transform gives what plain calls give, item by item."""
    make, x = _function(trial)
    which = trial.pick("grad", "jacrev", "jacfwd", "jvp", "hessian", "mapped", "vectorized")
    loss = lambda x: make()(x).sin().sum()  # noqa: E731
    plain, functional = x.clone().requires_grad_(), torch.autograd.functional
    func = torch.func
    if which in ("grad", "jacrev", "jacfwd"):
        got = trial.attempt(which, getattr(func, which)(loss), x)
    elif which == "jvp":
        got = trial.attempt(which, func.jvp, loss, (x,), (x.cos(),))
        got = got if isinstance(got, Exception) else got[1]
    elif which == "hessian":
        got = trial.attempt(which, trial.pick(func.hessian, _both_reverse, _reverse_over)(loss), x)
    elif which == "mapped":
        got = trial.attempt(which, func.vmap(func.grad(loss)), torch.stack([x, x.cos()]))
    else:
        strategy = trial.pick("reverse-mode", "forward-mode")
        got = trial.attempt(
            which, functional.jacobian, lambda x: make()(x), x, vectorize=True, strategy=strategy
        )
    trial.require(not isinstance(got, Exception), f"{which} was refused: {got}"[:300])
    if which == "hessian":
        expected = functional.hessian(loss, x)
    elif which == "vectorized":
        expected = functional.jacobian(lambda x: make()(x), x)
    elif which == "mapped":
        expected = torch.stack([functional.jacobian(loss, y) for y in (x, x.cos())])
    else:
        (expected,) = torch.autograd.grad(loss(plain), plain)
        expected = (expected * x.cos()).sum() if which == "jvp" else expected
    right = torch.allclose(got.detach(), expected, rtol=1e-7, atol=1e-7)
    trial.expect(right, f"{which} has other numbers")


def _both_reverse(loss):
    return torch.func.jacrev(torch.func.jacrev(loss))


def _reverse_over(loss):
    return torch.func.jacrev(torch.func.jacfwd(loss))


def _function(trial):
    """A maker of functions of one tensor, each of new objects, and the tensor."""
    seed = int(trial.rng.integers(2**31))
    generator = torch.Generator().manual_seed(seed)
    kind = trial.pick("layer", "operator", "points")
    if kind == "operator":
        name = trial.pick(*calls.calls())
        arrays, static = calls.calls()[name]
        static = {
            k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in static.items()
        }
        first, *rest = map(torch.from_numpy, arrays)
        form = trial.pick("tensors", "NumPy")
        needs_graph = "graph" in getattr(gg, name).static

        def make():
            graph = {}
            if needs_graph:
                graph["graph"] = calls.graph() if form == "NumPy" else gt.Graph.of(calls.graph())
            function = getattr(gt, name)
            return lambda x: _one(function(x, *rest, **static, **graph))

        return make, first
    if kind == "points":
        x = torch.rand(N, 2, generator=generator, dtype=torch.float64)
        radius = trial.pick(0.1, 0.4, 2.0)
        build = trial.pick(
            lambda p: gt.Graph.radius(p, radius), lambda p: gt.Graph.knn(p, 3),
            lambda p: gt.Graph.radius(p, radius).with_self_loops(),
            lambda p: gt.Graph.knn(p, 2).reverse(),
        )  # fmt: skip
        return lambda: lambda p: gt.agg_simple(p, graph=build(p), aggregation="mean"), x
    name = trial.pick(*LAYERS)
    edges = values.graph(trial, same_nodes=True, some=True)
    pairs = torch.from_numpy(np.stack([edges.src, edges.dst]).astype(np.int64))
    torch.manual_seed(seed)
    layer = LAYERS[name]().double()
    x = torch.rand(edges.n_src, 3, generator=generator, dtype=torch.float64)

    def make():
        index = pairs.clone()
        if seed % 2:
            return lambda x: layer(x, index)
        graph = gt.Graph.from_edge_index(index, edges.n_src)
        return lambda x: layer(x, graph)

    return make, x


def _one(result):
    """One tensor of however many."""
    results = result if isinstance(result, tuple) else (result,)
    return torch.cat([y.flatten() for y in results])


SUBJECTS = {"transforms": transforms}

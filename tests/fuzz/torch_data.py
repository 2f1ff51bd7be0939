# SPDX-License-Identifier: MIT
"""Data of PyTorch's programs: memory that others write, 64-bit integers, stored graphs."""

import io

import numpy as np
import values

import gnograd as gg

try:
    import torch

    import gnograd.torch as gt
except ImportError:
    torch = None


def written(trial):
    """Layers on an ``edge_index`` whose memory changes behind PyTorch's back."""
    edges = values.graph(trial, same_nodes=True, some=True)
    n = max(edges.n_src, 1)
    buffer = np.array([edges.src, edges.dst], np.int64)
    torch.manual_seed(trial.seed % 2**31)
    edge_type = torch.zeros(buffer.shape[1], dtype=torch.int64)
    layer, *more = trial.pick(
        (gt.GATConv(3, 2),), (gt.GATv2Conv(3, 2),), (gt.TransformerConv(3, 2),),
        (gt.SAGEConv(3, 2),), (gt.GCNConv(3, 2),), (gt.RGCNConv(3, 2, 2), edge_type),
    )  # fmt: skip
    x, shared = torch.randn(n, 3), torch.from_numpy(buffer)
    trial.attempt(type(layer).__name__, layer, x, shared, *more)
    for _ in range(3):
        new = trial.rng.integers(0, n, buffer.shape)
        wrong = new.size and trial.chance(0.3)
        if wrong:
            new.flat[trial.rng.integers(new.size)] = trial.pick(n, -1, 2**32, -(2**63))
        if trial.chance(0.5):
            buffer[...] = new
        else:
            shared.data.copy_(torch.from_numpy(new))
        found = trial.attempt(type(layer).__name__, layer, x, shared, *more, names=("graph",))
        if wrong:
            trial.expect(isinstance(found, IndexError), "took a node that is not there")
        elif trial.expect(isinstance(found, torch.Tensor), "refused edges"):
            trial.expect(torch.equal(found, layer(x, torch.tensor(new), *more)), "an old graph")


def integers(trial):
    """Integers that 32 bits do not hold, wherever integers are taken."""
    wrong = int(trial.pick(*values.EXTREMES[:-3], 2**32 + 1, -(2**32)))
    if not -(2**63) <= wrong < 2**63 or abs(wrong) < 2**31:
        return
    graph, x, q = gg.Graph.from_edges([0, 1, 2], [1, 2, 0]), torch.randn(3, 2), torch.randn(8, 1, 2)
    place = int(trial.rng.integers(3))

    def spoiled(n):
        array = torch.zeros(n, dtype=torch.int64)
        array[place] = wrong
        return array

    name, function, arguments = trial.pick(
        ("agg_relational", gt.agg_relational,
         {"x": x, "graph": graph, "edge_type": spoiled(3), "n_relations": 3}),
        ("selected_attention", gt.selected_attention,
         {"q": q, "k": q, "v": q, "block_index": spoiled(8)[:, None, None], "block_size": 4}),
        ("window_attention", gt.window_attention,
         {"q": q, "k": q, "v": q, "window": 2, "cu_q": spoiled(3), "cu_k": spoiled(3)}),
        ("Graph.from_edge_index", gt.Graph.from_edge_index,
         {"edge_index": spoiled(6).view(2, 3), "n_src": 3}),
        ("RGCNConv", gt.RGCNConv(4, 2, 3), {
            "x": spoiled(3), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]]),
            "edge_type": torch.zeros(3, dtype=torch.int64),
        }),
        ("RGCNConv", gt.RGCNConv(4, 2, 3), {
            "x": torch.arange(3), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]]),
            "edge_type": spoiled(3),
        }),
    )  # fmt: skip
    found = trial.attempt(name, function, names=("graph",), **arguments)
    trial.expect(isinstance(found, Exception), f"took {wrong}")


def stored(trial):
    """A graph through `torch.load`, with one number changed."""
    edges = values.graph(trial)
    graph = gt.Graph.from_edge_index(
        torch.tensor(np.array([edges.src, edges.dst], np.int64)), edges.n_src, edges.n_dst
    )
    if trial.chance(0.3):
        graph = gt.Graph.batch([graph, graph])
    if trial.chance(0.3):
        graph = graph.pad(graph.n_edges + int(trial.pick(1, 5)))
    arrays, borders = graph.arrays, graph.borders
    label = trial.pick(*[name for name, x in arrays._asdict().items() if x is not None and len(x)])
    array = getattr(arrays, label).clone()
    place = int(trial.rng.integers(len(array)))
    limits = torch.iinfo(array.dtype)
    near = int(array[place]) + int(trial.pick(-1, 0, 1))
    array[place] = int(trial.pick(near, near, -1, len(array), limits.max, limits.min))
    file = io.BytesIO()
    torch.save(gt.Graph(arrays._replace(**{label: array}), borders), file)
    file.seek(0)
    read = trial.attempt("torch.load", torch.load, file, names=("graph",))
    if isinstance(read, Exception):
        trial.expect(not torch.equal(array, getattr(arrays, label)), "refused a good graph")
        return
    x = torch.randn(read.n_src, 2, requires_grad=True)
    w = torch.randn(read.n_edges, requires_grad=True)
    out = trial.attempt("agg_weighted", gt.agg_weighted, x, w, graph=read)
    expected = gt.agg_weighted(x, w, graph=graph)
    if trial.expect(isinstance(out, torch.Tensor), "refused a graph that was read"):
        trial.expect(torch.equal(out, expected), "another graph")
        gradients = [torch.autograd.grad(y.sum(), [x, w]) for y in (out, expected)]
        trial.expect(all(map(torch.equal, *gradients)), "other gradients")


SUBJECTS = {} if torch is None else {"written": written, "integers": integers, "stored": stored}

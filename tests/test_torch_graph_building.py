# SPDX-License-Identifier: MIT
"""Graphs of edges, points and other graphs, built of tensors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import random_edges, same_graph  # noqa: E402
from gnograd.notation.graph_arrays import GraphArrays  # noqa: E402
from gnograd.torch import graph_building  # noqa: E402


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize("sizes", [(5, 5, 30), (4, 7, 20), (7, 4, 20), (3, 3, 0), (1, 1, 4)])
def test_graph_of_edges(sizes, self_loops):
    """The library and the code for a GPU, run on the CPU, build the same graph."""
    n_src, n_dst, n_edges = sizes
    ends = torch.stack([random_edges(n, n_edges, n)[0] for n in (n_src, n_dst)])
    graph = gt.Graph.from_edge_index(ends, n_src, n_dst, self_loops=self_loops)
    same_graph(graph, gg.Graph.from_edges(*ends.numpy(), n_src, n_dst, self_loops=self_loops))
    on_device = graph_building._edges_on_device(ends, n_src, n_dst, self_loops)
    for mine, theirs in zip(graph.arrays, on_device, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_graph_of_columns():
    offsets, indices = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 0, 1, 1, 2])
    graph = gt.Graph.from_csc(offsets, indices, 4)
    same_graph(graph, gg.Graph(offsets.numpy(), indices.numpy(), 4))
    on_device = graph_building._csc_on_device(offsets, indices, 4)
    for mine, theirs in zip(
        torch.ops.gnograd.graph_from_csc(offsets, indices, 4), on_device, strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    with pytest.raises(IndexError, match=r"indices\[0\] is 3, not one of 3 source nodes"):
        gt.Graph.from_csc(offsets, indices)


def test_graph_within_a_radius():
    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = x[:15] + 0.01
    same_graph(gt.Graph.radius(x, 0.3, y), gg.Graph.radius(x.numpy(), 0.3, y.numpy()))
    same_graph(
        gt.Graph.radius(x, 0.3, include_self=False, period=1.0),
        gg.Graph.radius(x.numpy(), 0.3, include_self=False, period=1.0),
    )
    halves = gt.Graph.radius(x, 0.3, include_self=False, source_items=[0, 18, 40])
    same_graph(
        halves,
        gg.Graph.batch(
            [gg.Graph.radius(part.numpy(), 0.3, include_self=False) for part in (x[:18], x[18:])]
        ),
    )


POINTS = torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BATCH = torch.arange(40) // 15 * 3


@pytest.mark.parametrize(
    "options",
    [
        {"max_neighbors": 3},
        {"max_neighbors": 3, "choose": "random", "seed": 2**63 - 1},
        {"batch": BATCH, "include_self": False},
        {"destinations": POINTS[5:] + 0.01, "batch": BATCH, "destination_batch": BATCH[5:]},
        {"max_neighbors": 2, "batch": BATCH, "period": 1.0},
        {"source_items": [0, 18, 40], "destination_items": [0, 20, 40]},
        {"destinations": POINTS[5:], "source_items": [0, 18, 40], "destination_items": [0, 2, 35]},
    ],
)
def test_graphs_of_points(options):
    arrays = {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    same_graph(
        gt.Graph.radius(POINTS, 0.4, **options), gg.Graph.radius(POINTS.numpy(), 0.4, **arrays)
    )
    for mine, theirs in zip(
        gt.Graph.radius(POINTS, [0.2, 0.4], **options),
        gg.Graph.radius(POINTS.numpy(), [0.2, 0.4], **arrays),
        strict=True,
    ):
        same_graph(mine, theirs)
    for name in ("max_neighbors", "choose", "seed"):
        options.pop(name, None), arrays.pop(name, None)
    same_graph(gt.Graph.knn(POINTS, 4, **options), gg.Graph.knn(POINTS.numpy(), 4, **arrays))


@pytest.mark.parametrize("name", ["radius", "knn", "from_edge_index"])
def test_arguments_are_those_of_numpy(name):
    """One name, one position, one default in both fronts."""
    mine, theirs = (
        [
            (p.name, p.kind, p.default)
            for p in inspect.signature(getattr(of, name)).parameters.values()
        ]
        for of in (gt.Graph, gg.Graph)
    )
    assert mine == theirs


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gt.Graph.radius(POINTS, 1.0, POINTS, True, None, BATCH, BATCH),
            r"Graph\.radius: include_self .* source_items and destination_items by position",
        ),
        (lambda: gt.Graph.knn(POINTS, 2, POINTS, 1.0), "needs period=..."),
        (
            lambda: gt.Graph.from_edge_index(random_edges(3, 4), 3, 3, True),
            "needs self_loops=...",
        ),
        (
            lambda: gt.graph_from_edge_index(random_edges(3, 4), 3, 3, True),
            "needs self_loops=...",
        ),
    ],
)
def test_positions_that_meant_other_things(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_items_and_batch():
    with pytest.raises(ValueError, match=r"Graph\.knn: batch and source_items: give one of them"):
        gt.Graph.knn(POINTS, 4, batch=BATCH, source_items=[0, 40])
    with pytest.raises(ValueError, match="batch and source_items: give one of them"):
        gt.Graph.radius(POINTS, 0.4, batch=BATCH, source_items=[0, 40])
    with pytest.raises(ValueError, match="batch goes with destination_batch"):
        gt.Graph.radius(POINTS, 0.4, POINTS, batch=BATCH)
    with pytest.raises(ValueError, match="batch goes with destination_batch"):
        gt.Graph.knn(POINTS, 4, POINTS, destination_batch=BATCH)
    with pytest.raises(ValueError, match="choose is 'first'"):
        gt.Graph.radius(POINTS, 0.4, choose="first")


def same_graphs_of_graphs(graph, other, reference, other_reference):
    same_graph(graph.reverse(), reference.reverse())
    same_graph(graph.with_self_loops(), reference.with_self_loops())
    same_graph(gt.Graph.union(graph, other), gg.Graph.union(reference, other_reference))


@pytest.mark.parametrize("sizes", [(5, 5, 30), (4, 7, 20), (7, 4, 20), (3, 3, 0)])
def test_graphs_of_graphs(sizes):
    n_src, n_dst, n_edges = sizes
    given = [
        torch.stack([random_edges(n, n_edges, n + seed)[0] for n in (n_src, n_dst)])
        for seed in (0, 9)
    ]
    graphs = [gt.Graph.from_edge_index(ends, n_src, n_dst) for ends in given]
    references = [gg.Graph.from_edge_index(ends.numpy(), n_src, n_dst) for ends in given]
    same_graphs_of_graphs(*graphs, *references)
    rooms = [graph.with_self_loops().pad(60) for graph in graphs]
    same_graphs_of_graphs(*rooms, *[graph.with_self_loops().pad(60) for graph in references])
    both, expected = gt.Graph.batch(graphs).reverse(), gg.Graph.batch(references).reverse()
    for mine, theirs in zip(both.unbatch(), expected.unbatch(), strict=True):
        same_graph(mine, theirs)
    with pytest.raises(ValueError, match="graph 1 has 9 sources and 9 destinations"):
        gt.Graph.union(graphs[0], gt.Graph.from_edge_index(random_edges(9, 4), 9))


@pytest.mark.exhaustive
def test_compiled_graphs_of_points():
    """Searches and operations on their graphs compile without a break."""

    def degrees(x, batch):
        graphs = [
            gt.Graph.knn(x, 3, batch=batch),
            gt.Graph.knn(x, 3, include_self=False),
            gt.Graph.radius(x, 0.3, max_neighbors=2, choose="random", seed=1),
            *gt.Graph.radius(x, [0.1, 0.3]),
        ]
        made = [graphs[0].reverse(), graphs[1].with_self_loops(), gt.Graph.union(*graphs)]
        return [gt.agg_simple(x, graph=graph) for graph in graphs + made]

    compiled = torch.compile(degrees, fullgraph=True, backend="aot_eager")
    for n in (40, 31):
        for mine, expected in zip(
            compiled(POINTS[:n], BATCH[:n]), degrees(POINTS[:n], BATCH[:n]), strict=True
        ):
            torch.testing.assert_close(mine, expected, rtol=0, atol=0)


def test_wrong_edges():
    with pytest.raises(TypeError, match="edge_index is of type ndarray, needs a tensor of int64"):
        gt.Graph.from_edge_index(np.zeros((2, 3), np.int64))
    with pytest.raises(ValueError, match=r"edge_index has shape \(3, 2\), needs \(2, n_edges\)"):
        gt.Graph.from_edge_index(torch.zeros(3, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"edge_index is torch.float32"):
        gt.Graph.from_edge_index(torch.zeros(2, 3))
    with pytest.raises(IndexError, match=r"dst\[1\] is 3, not one of 3 destination nodes"):
        gt.Graph.from_edge_index(torch.tensor([[0, 1], [1, 3]]), 3)
    graph = gt.Graph.from_edge_index(random_edges(4, 6), 4)
    wrong = graph.arrays._replace(offsets=graph.arrays.offsets.int())
    with pytest.raises(TypeError, match=r"offsets is a tensor of torch\.int32, needs contiguous"):
        gt.agg_simple(torch.ones(4, 1), graph=gt.Graph(wrong))


def test_arrays_of_any_other_framework_are_refused():
    graph = gt.Graph.from_edge_index(random_edges(4, 6), 4)
    with pytest.raises(TypeError, match=r"graph is of type Graph, needs a gnograd\.Graph"):
        gg.agg_simple(np.ones((4, 1)), graph=graph)
    assert isinstance(graph.arrays, GraphArrays)

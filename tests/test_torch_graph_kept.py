# SPDX-License-Identifier: MIT
"""Graphs that are kept beside edges: made once, self-loops, memory that others write."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import random_edges, same_graph  # noqa: E402


def test_self_loops_need_features_of_every_edge():
    layer = gt.GATConv(4, 3, edge_dim=2)
    ends = torch.tensor([[0, 1, 2], [1, 2, 0]])
    for n_edges in (2, 4):
        with pytest.raises(ValueError, match="needs one row for each of the 3 edges"):
            layer(torch.ones(3, 4), ends, torch.ones(n_edges, 2))


def test_edges_become_a_graph_once():
    edges = random_edges(6, 20)
    graph = gt.graph_from_edge_index(edges, 6, 6)
    assert gt.graph_from_edge_index(edges, 6, 6) is graph
    assert gt.graph_from_edge_index(edges, 6, 6, self_loops=True) is not graph
    assert gt.graph_from_edge_index(edges.clone(), 6, 6) is not graph
    edges[0, 0] = (edges[0, 0] + 1) % 6
    changed = gt.graph_from_edge_index(edges, 6, 6)
    assert changed is not graph
    same_graph(changed, gg.Graph.from_edges(*edges.numpy(), 6, 6))


@pytest.fixture
def conversions(monkeypatch):
    """Arguments of all conversions of edges to a graph."""
    made = []
    original = gg.Graph.from_edges

    def counted(*args, **kwargs):
        made.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(gg.Graph, "from_edges", counted)
    return made


def test_one_conversion_for_all_layers(conversions):
    layers = [gt.GATConv(4, 4) for _ in range(3)]
    x, edges = torch.randn(6, 4), random_edges(6, 20)
    for layer in layers:
        x = layer(x, edges)
    x.sum().backward()
    assert len(conversions) == 1


@pytest.mark.parametrize("kind", [gt.Graph, gg.Graph])
def test_self_loops_of_a_graph_are_added_once(kind, conversions):
    edges = random_edges(6, 20)
    graph = gt.Graph.from_edge_index(edges, 6)
    if kind is gg.Graph:
        graph = gg.Graph.from_edges(*edges.numpy(), 6, 6)
    conversions.clear()
    layers = [gt.GATConv(4, 4, edge_dim=2), gt.GATv2Conv(4, 4), gt.GCNConv(4, 4)]
    x, e = torch.randn(6, 4), torch.randn(20, 2)

    def results(graph):
        return [layers[0](x, graph, e), *[layer(x, graph) for layer in layers[1:]]]

    first = results(graph)
    assert len(conversions) == 2  # with loops, and without for the features of loops
    for ours, expected, theirs in zip(results(graph), first, results(edges), strict=True):
        assert torch.equal(ours, expected)
        torch.testing.assert_close(ours, theirs)
    under_vmap = torch.func.vmap(layers[1], in_dims=(0, None))(x[None], graph)
    torch.testing.assert_close(under_vmap[0], first[1])


def test_self_loops_follow_a_graph_that_is_written_in_place():
    """A graph in memory of its own, such as that of the inputs of a CUDA graph."""
    graph = gt.Graph.from_edge_index(random_edges(6, 20, 1), 6)
    other = gt.Graph.from_edge_index(random_edges(6, 20, 2), 6)
    gt.with_self_loops(graph)
    for x, y in zip(graph.arrays, other.arrays, strict=True):
        x.copy_(y)
    same_graph(gt.with_self_loops(graph)[0], gt.with_self_loops(other)[0])
    with torch.inference_mode():  # PyTorch does not count changes there
        inner = gt.Graph.from_edge_index(random_edges(6, 20, 1), 6)
        gt.with_self_loops(inner)
        for x, y in zip(inner.arrays, other.arrays, strict=True):
            x.copy_(y)
        same_graph(gt.with_self_loops(inner)[0], gt.with_self_loops(other)[0])


@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("layer", [gt.GATConv(4, 4), gt.GATConv(4, 4, edge_dim=2)])
def test_a_compiled_program_adds_self_loops_to_a_graph_once(conversions, layer, room):
    graph = gt.Graph.from_edge_index(random_edges(6, 20, 1), 6).pad(20 + room)
    x = torch.randn(6, 4)
    rest = () if layer.edge_dim is None else (torch.randn(20 + room, 2),)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, graph, *rest), layer(x, graph, *rest))
    conversions.clear()
    compiled(x + 1, graph, *rest).sum().backward()
    assert not conversions
    other = gt.Graph.from_edge_index(random_edges(6, 20, 2), 6).pad(20 + room)
    for array, new in zip(graph.arrays, other.arrays, strict=True):
        array.copy_(new)
    torch.testing.assert_close(compiled(x, graph, *rest), layer(x, other, *rest))


def test_edges_of_a_program_become_a_graph_once(conversions):
    model = torch.nn.ModuleList([gt.GATConv(3, 4), gt.GATConv(4, 2)])

    def run(x, edges):
        return model[1](model[0](x, edges), edges)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    x, edges = torch.randn(6, 3), random_edges(6, 20)
    with torch.no_grad():
        compiled(x, edges)
        conversions.clear()
        torch.testing.assert_close(compiled(x, edges), run(x, edges))
        assert len(conversions) == 1  # of the layers without a compiler
        edges.numpy()[:, 0] = 5, 0  # PyTorch does not see it
        torch.testing.assert_close(compiled(x, edges), run(x, edges))


def test_graph_with_self_loops_goes_with_its_graph():
    graph = gt.Graph.from_edge_index(random_edges(6, 20), 6)
    looped = gt.with_self_loops(graph)[0]
    assert gt.with_self_loops(graph)[0] is looped
    gone = weakref.ref(looped)
    del graph, looped
    gc.collect()
    assert gone() is None


WRITER = """
import sys, numpy as np
edges = np.lib.format.open_memmap(sys.argv[1], "r+")
edges[:] = [[0, 0, 0, 0], [1, 2, 3, 1]]
edges.flush()
"""


def written_by_numpy(tmp_path):
    buffer = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    return torch.from_numpy(buffer), lambda new: buffer.__setitem__(slice(None), new)


def written_through_data(tmp_path):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    return edges, lambda new: edges.data.copy_(torch.tensor(new))


def written_through_dlpack(tmp_path):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    view = torch.from_dlpack(edges)
    return edges, lambda new: view.copy_(torch.tensor(new))


def written_in_inference_mode(tmp_path):
    with torch.inference_mode():
        edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    return edges, lambda new: edges.numpy().__setitem__(slice(None), new)


def written_by_another_process(tmp_path):
    path = tmp_path / "edges.npy"
    np.save(path, np.array([[0, 1, 2, 3], [1, 2, 3, 0]]))
    edges = torch.from_numpy(np.load(path, mmap_mode="r+"))
    return edges, lambda new: subprocess.run([sys.executable, "-c", WRITER, path], check=True)


def of_edges(x, *layers):
    """Layers, each as a function of the edges."""
    return {
        type(layer).__name__: lambda edges, layer=layer, more=more: layer(x, edges, *more)
        for layer, *more in layers
    }


@pytest.mark.parametrize(
    "written",
    [
        written_by_numpy, written_through_data, written_through_dlpack,
        written_in_inference_mode, written_by_another_process,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_memory_of_edges_that_others_write(written, tmp_path):
    """Graphs of an ``edge_index`` follow its numbers at the call, whoever has written them."""
    torch.manual_seed(0)
    x, edge_attr, edge_type = torch.randn(4, 3), torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    sizes = {
        f"hidden_dim_{name}": 4
        for name in ("processor", "node_encoder", "edge_encoder", "node_decoder")
    }
    mesh = gt.MeshGraphNet(3, 2, 2, processor_size=1, **sizes)
    calls = of_edges(
        x, [gt.GATConv(3, 2)], [gt.GATv2Conv(3, 2)], [gt.TransformerConv(3, 2)],
        [gt.GATConv(3, 2, edge_dim=2), edge_attr], [gt.SAGEConv(3, 2)], [gt.GCNConv(3, 2)],
        [gt.RGCNConv(3, 2, 2), edge_type], [gt.WeightedAggregation()],
    ) | {
        "MeshGraphNet": lambda edges: mesh(x, edge_attr, edges),
        "numbers": lambda edges: numbers(torch.arange(4), edges, edge_type),
    }  # fmt: skip
    numbers = gt.RGCNConv(4, 2, 2)
    edges, write = written(tmp_path)
    with torch.no_grad():
        for call in calls.values():
            call(edges)
        write([[0, 0, 0, 0], [1, 2, 3, 1]])
        fresh = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 1]])
        for name, call in calls.items():
            torch.testing.assert_close(call(edges), call(fresh.clone()), rtol=0, atol=0, msg=name)
        if written is not written_by_another_process:
            write([[99, 0, 0, 0], [1, 2, 3, 1]])
            for call in calls.values():
                with pytest.raises(IndexError, match=r"src\[0\] is 99, not one of 4"):
                    call(edges)


@pytest.mark.parametrize("dst", [[0, 1, 2, 3], [3, 1, 2, 0]], ids=["ordered", "unordered"])
def test_memory_of_a_graph_that_others_write(dst):
    """Self-loops are added to the edges that the graph has at the call."""
    dst = torch.tensor(dst)
    graph, other = (gt.Graph.from_edge_index(torch.stack([(dst + k) % 4, dst]), 4) for k in (1, 2))
    layer, edge_attr = gt.GATConv(3, 2, edge_dim=2), torch.randn(4, 2)
    x = torch.randn(4, 3, requires_grad=True)
    layer(x, graph, edge_attr)
    for array, new in zip(graph.arrays, other.arrays, strict=True):
        if array is not None:
            array.numpy()[:] = new.numpy()
    got, expected = layer(x, graph, edge_attr), layer(x, other, edge_attr)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    gradients = (torch.autograd.grad(out.square().sum(), x)[0] for out in (got, expected))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_memory_of_edges_that_becomes_another():
    """Numbers of another type, or as many in another shape, are another graph."""
    edges = torch.tensor([[0, 1], [1, 0]])
    layer, x = gt.SAGEConv(3, 2), torch.randn(2, 3)
    layer(x, edges)
    for other in (torch.tensor([[0, 0], [1, 1]], dtype=torch.int32), torch.tensor([[1], [1]])):
        edges.data = other
        torch.testing.assert_close(layer(x, edges), layer(x, other.clone()), rtol=0, atol=0)
    graph = gt.Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
    gt.agg_simple(x, graph=graph)
    graph.arrays = gt.Graph.from_edge_index(torch.tensor([[0, 0], [1, 1]]), 2).arrays
    torch.testing.assert_close(gt.agg_simple(x, graph=graph)[1], 2 * x[0])

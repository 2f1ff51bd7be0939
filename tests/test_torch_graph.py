# SPDX-License-Identifier: MIT
"""Graphs as data of PyTorch's programs: built, batched, compiled, exported, in other processes."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import gnograd as gg
from conftest import few

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from gnograd.notation.graph_arrays import GraphArrays  # noqa: E402
from gnograd.torch import graph_building  # noqa: E402


def random_edges(n_nodes, n_edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(n_nodes, (2, n_edges), generator=generator)


def same(graph, other):
    assert graph.sizes == other.sizes
    for name in ("src", "dst", "in_degree"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(other, name), name)
    for mine, theirs in zip(gt.Graph.of(graph).arrays, gt.Graph.of(other).arrays, strict=True):
        if mine is not None and theirs is not None:
            np.testing.assert_array_equal(mine, theirs)


def test_self_loops_need_features_of_every_edge():
    layer = gt.GATConv(4, 3, edge_dim=2)
    ends = torch.tensor([[0, 1, 2], [1, 2, 0]])
    for n_edges in (2, 4):
        with pytest.raises(ValueError, match="needs one row for each of the 3 edges"):
            layer(torch.ones(3, 4), ends, torch.ones(n_edges, 2))


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize("sizes", [(5, 5, 30), (4, 7, 20), (7, 4, 20), (3, 3, 0), (1, 1, 4)])
def test_graph_of_edges(sizes, self_loops):
    """The library and the code for a GPU, run on the CPU, build the same graph."""
    n_src, n_dst, n_edges = sizes
    ends = torch.stack([random_edges(n, n_edges, n)[0] for n in (n_src, n_dst)])
    graph = gt.Graph.from_edge_index(ends, n_src, n_dst, self_loops=self_loops)
    same(graph, gg.Graph.from_edges(*ends.numpy(), n_src, n_dst, self_loops=self_loops))
    on_device = graph_building._edges_on_device(ends, n_src, n_dst, self_loops)
    for mine, theirs in zip(graph.arrays, on_device, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_graph_of_columns():
    offsets, indices = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 0, 1, 1, 2])
    graph = gt.Graph.from_csc(offsets, indices, 4)
    same(graph, gg.Graph(offsets.numpy(), indices.numpy(), 4))
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
    same(gt.Graph.radius(x, 0.3, y), gg.Graph.radius(x.numpy(), 0.3, y.numpy()))
    same(
        gt.Graph.radius(x, 0.3, include_self=False, period=1.0),
        gg.Graph.radius(x.numpy(), 0.3, include_self=False, period=1.0),
    )
    halves = gt.Graph.radius(x, 0.3, include_self=False, source_items=[0, 18, 40])
    same(
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
    same(gt.Graph.radius(POINTS, 0.4, **options), gg.Graph.radius(POINTS.numpy(), 0.4, **arrays))
    for mine, theirs in zip(
        gt.Graph.radius(POINTS, [0.2, 0.4], **options),
        gg.Graph.radius(POINTS.numpy(), [0.2, 0.4], **arrays),
        strict=True,
    ):
        same(mine, theirs)
    for name in ("max_neighbors", "choose", "seed"):
        options.pop(name, None), arrays.pop(name, None)
    same(gt.Graph.knn(POINTS, 4, **options), gg.Graph.knn(POINTS.numpy(), 4, **arrays))


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
    same(graph.reverse(), reference.reverse())
    same(graph.with_self_loops(), reference.with_self_loops())
    same(gt.Graph.union(graph, other), gg.Graph.union(reference, other_reference))


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
        same(mine, theirs)
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


def test_edges_become_a_graph_once():
    edges = random_edges(6, 20)
    graph = gt.graph_from_edge_index(edges, 6, 6)
    assert gt.graph_from_edge_index(edges, 6, 6) is graph
    assert gt.graph_from_edge_index(edges, 6, 6, self_loops=True) is not graph
    assert gt.graph_from_edge_index(edges.clone(), 6, 6) is not graph
    edges[0, 0] = (edges[0, 0] + 1) % 6
    changed = gt.graph_from_edge_index(edges, 6, 6)
    assert changed is not graph
    same(changed, gg.Graph.from_edges(*edges.numpy(), 6, 6))


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
    same(gt.with_self_loops(graph)[0], gt.with_self_loops(other)[0])
    with torch.inference_mode():  # PyTorch does not count changes there
        inner = gt.Graph.from_edge_index(random_edges(6, 20, 1), 6)
        gt.with_self_loops(inner)
        for x, y in zip(inner.arrays, other.arrays, strict=True):
            x.copy_(y)
        same(gt.with_self_loops(inner)[0], gt.with_self_loops(other)[0])


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


# ---- data ----


def test_batches():
    graphs = [gg.Graph([0, 2, 3, 3], [1, 2, 0]), gg.Graph.from_edges([0, 1, 1], [1, 0, 0], 2, 3)]
    batch = gg.Graph.batch(graphs)
    assert batch.sizes == (5, 6, 6)
    assert batch.borders == ((0, 3, 5), (0, 3, 6), (0, 3, 6))
    for back, graph in zip(batch.pad(9).unbatch(), graphs, strict=True):
        same(back, graph)
    same(gt.Graph.batch(graphs), batch)
    for back, graph in zip(gt.Graph.batch(graphs).unbatch(), graphs, strict=True):
        same(back, graph)
    with pytest.raises(ValueError, match=r"graphs\[1\] has room for 2 more edges"):
        gg.Graph.batch([graphs[0], graphs[1].pad(5)])
    with pytest.raises(ValueError, match="the graph is no batch"):
        graphs[0].unbatch()
    with pytest.raises(ValueError, match="graphs is empty"):
        gg.Graph.batch([])
    with pytest.raises(TypeError, match=r"graphs\[0\] is of type int"):
        gg.Graph.batch([1])


class Samples(torch.utils.data.Dataset):
    """Graphs of different sizes with features of nodes and edges."""

    def __len__(self):
        return 8

    def __getitem__(self, k):
        edges = random_edges(4 + k, 10 + k, k)
        return {
            "graph": gt.Graph.from_edge_index(edges, 4 + k),
            "x": torch.full((4 + k, 2), float(k)),
            "w": torch.ones(10 + k),
            "y": float(k),
        }


@pytest.mark.parametrize("n_workers", [0, 2])
def test_data_loader(n_workers):
    loader = torch.utils.data.DataLoader(
        Samples(), batch_size=4, collate_fn=gt.collate, num_workers=n_workers
    )
    batches = list(loader)
    assert len(batches) == 2
    for first, batch in zip((0, 4), batches, strict=True):
        out = gt.agg_weighted(batch["x"], batch["w"], graph=batch["graph"])
        samples = [Samples()[k] for k in range(first, first + 4)]
        want = torch.cat([gt.agg_weighted(s["x"], s["w"], graph=s["graph"]) for s in samples])
        torch.testing.assert_close(out, want, rtol=0, atol=0)
        assert batch["y"].tolist() == [first, first + 1, first + 2, first + 3]


def test_graphs_are_copied_and_stored():
    graph = gt.Graph.from_edge_index(random_edges(6, 20), 6, self_loops=True)
    graph.lent  # noqa: B018 - what is kept besides the arrays does not travel
    stored = io.BytesIO()
    torch.save(graph, stored)
    stored.seek(0)
    for other in (
        pickle.loads(pickle.dumps(graph)),
        copy.deepcopy(graph),
        torch.load(stored, weights_only=True),
        graph.to("cpu"),
        torch.utils._pytree.tree_map(lambda x: x.clone(), graph),
        pickle.loads(pickle.dumps(graph.lent)),
    ):
        same(other, graph)
    x = torch.randn(6, 2)
    torch.testing.assert_close(
        gt.agg_simple(x, graph=gt.Graph.of(graph.lent)), gt.agg_simple(x, graph=graph)
    )


def stored(graph):
    """A graph through a file, by PyTorch's safe defaults."""
    file = io.BytesIO()
    torch.save({"graph": graph}, file)
    file.seek(0)
    return torch.load(file)["graph"]


def graphs_to_store():
    edges = gt.Graph.from_edge_index(random_edges(6, 20), 6)
    ordered = gt.Graph.from_csc(torch.tensor([0, 2, 2, 5]), torch.tensor([3, 0, 1, 1, 2]), 4)
    return {
        "edges": edges, "ordered": ordered, "room": edges.pad(23),
        "batch": gt.Graph.batch([edges] * 2),
        "loops": gt.Graph.from_edge_index(random_edges(3, 9), 3, self_loops=False),
        "none": gt.Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 0),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(graphs_to_store()))
def test_damaged_graphs_are_refused(name):
    """Kernels trust a graph, so one number that a file has changed is found when it is read."""
    graph = graphs_to_store()[name]
    of_numpy = gg.graphs.graph.lend(
        GraphArrays(*(x if x is None else x.numpy() for x in graph.arrays))
    )
    for whole in (stored(graph), pickle.loads(pickle.dumps(of_numpy)), copy.deepcopy(graph)):
        same(whole, graph)
    n = int(graph.offsets[-1])
    for label, array in graph.arrays._asdict().items():
        if array is None or not len(array):
            continue
        for place in {0, len(array) // 2, len(array) - 1}:
            for value in (-1, 2**31 - 1, -(2**31), int(array[place]) + 1, int(array[place]) - 1):
                if "indices" in label and place >= n and 0 <= value < 2:
                    continue  # another node for no edge is no harm
                wrong = array.clone()
                wrong[place] = value
                arrays = graph.arrays._replace(**{label: wrong})
                with pytest.raises(ValueError, match=r"graph: .*(indices|offsets|edge|positions)"):
                    stored(gt.Graph(arrays, graph.borders))
                plain = gg.graphs.graph.lend(
                    GraphArrays(*(x if x is None else x.numpy() for x in arrays)),
                    ((0,), (0,), (0,)),
                )
                with pytest.raises(ValueError, match="graph: "):
                    pickle.loads(pickle.dumps(plain))
        for wrong in (array[:-1], array.double(), array[:, None], None):
            if wrong is None and label in ("edge_ids", "src_positions"):
                continue
            with pytest.raises((TypeError, ValueError), match="graph: "):
                stored(gt.Graph(graph.arrays._replace(**{label: wrong}), graph.borders))


def test_damaged_borders_are_refused():
    batch = graphs_to_store()["batch"]
    for name in ("src", "dst", "edges"):
        for wrong in (
            [0, 1, 12],
            [0, -6, 12],
            [1, 6, 12],
            [0, 2**40, 12],
            [0, 12],
            [0.0, 6.0, 12.0],
        ):
            borders = batch.borders._replace(**{name: torch.tensor(wrong)})
            with pytest.raises(ValueError, match="graph: borders"):
                stored(gt.Graph(batch.arrays, borders))
    with pytest.raises(pickle.UnpicklingError):  # the class itself would trust its arrays
        file = io.BytesIO()
        torch.save(gt.Graph, file)
        file.seek(0)
        torch.load(file)


@pytest.mark.parametrize("kind", ["NumPy", "tensors", "batch"])
def test_pytrees(kind):
    graph = gg.Graph.from_edges(*random_edges(6, 20).numpy(), 6, 6)
    if kind == "tensors":
        graph = gt.Graph.of(graph)
    if kind == "batch":
        graph = gt.Graph.batch([graph, graph])
    leaves, form = torch.utils._pytree.tree_flatten({"graph": graph})
    back = torch.utils._pytree.tree_unflatten(leaves, form)["graph"]
    assert isinstance(back, gt.Graph)
    same(back, graph)
    if kind == "batch":
        assert len(back.unbatch()) == 2


# ---- room for more edges ----


@pytest.mark.parametrize("ordered", [True, False])
def test_room_for_more_edges(ordered):
    """Rows that belong to no edge do not matter, whatever is in them; derivatives to them are 0."""
    torch.manual_seed(0)
    src, dst = random_edges(6, 20)
    if ordered:
        dst = dst.sort().values
    graph = gg.Graph.from_edges(src.numpy(), dst.numpy(), 6, 6)
    assert (graph.edge_ids is None) == ordered
    padded = graph.pad(27)
    assert (padded.src[20:] == 0).all()
    assert (padded.dst[20:] == 0).all()
    for make in (lambda g: g, gt.Graph.of, lambda g: gt.Graph.of(graph).pad(g.n_edges)):
        coords = torch.randn(20, 2, dtype=torch.float64, requires_grad=True)
        more = torch.full((7, 2), float("nan"), dtype=torch.float64)
        h, U, b_u, V, b_v = (
            torch.randn(*shape, dtype=torch.float64, requires_grad=True)
            for shape in ((6, 3), (2, 5), (5,), (5, 3, 4), (3, 4))
        )
        results = []
        for g, c in ((graph, coords), (make(padded), torch.cat([coords, more]))):
            out = gt.gno(h, c, U, b_u, V, b_v, graph=g, activation="tanh", reduction="mean")
            first = torch.autograd.grad(out.square().sum(), [coords, h, U, V], create_graph=True)
            second = torch.autograd.grad(sum(x.square().sum() for x in first), [coords, h, U, V])
            results.append([out, *first, *second])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="n_edges is 3, needs 20 or more"):
        graph.pad(3)


def layers_with_edge_features():
    sizes = {
        f"hidden_dim_{name}": 8
        for name in ("processor", "node_encoder", "edge_encoder", "node_decoder")
    }
    own = {"mlp_activation_fn": torch.nn.Mish(), "processor_size": 2, **sizes}
    return {
        "GATConv": gt.GATConv(4, 3, edge_dim=2),
        "GATConv without loops": gt.GATConv(4, 3, edge_dim=2, add_self_loops=False),
        "GATv2Conv": gt.GATv2Conv(4, 3, edge_dim=2),
        "TransformerConv": gt.TransformerConv(4, 3, edge_dim=2),
        "MeshGraphNet": gt.MeshGraphNet(4, 2, 3, processor_size=2, **sizes),
        "MeshGraphNet by PyTorch": gt.MeshGraphNet(4, 2, 3, **own),
        "DimeNetPlusPlus": gt.DimeNetPlusPlus(
            8, 1, 1, 8, 4, 8, 3, 3, output_initializer="glorot_orthogonal"
        ),
    }


@pytest.mark.parametrize("name", list(layers_with_edge_features()))
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_gradient_sees_rows_without_an_edge(name, value):
    torch.manual_seed(0)
    layer = layers_with_edge_features()[name].double()
    edges = random_edges(9, 20)
    graph = gt.Graph.from_edge_index(edges, 9)
    x = torch.randn(9, 4, dtype=torch.float64)
    width = 3 if name == "DimeNetPlusPlus" else 2
    edge_attr = torch.randn(20, width, dtype=torch.float64)
    more = torch.cat([edge_attr, torch.full((13, width), value, dtype=torch.float64)])

    def call(graph, edge_attr):
        if name == "DimeNetPlusPlus":
            return layer(torch.arange(9), x[:, :3], graph, None, edge_attr)
        return layer(x, edge_attr, graph) if "Mesh" in name else layer(x, graph, edge_attr)

    results = []
    for given in ((graph, edge_attr), (graph.pad(33), more)):
        given[1].requires_grad_()
        out = call(*given)
        wanted = [given[1], *layer.parameters()]
        gradients = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
        assert not gradients[0][20:].any()
        results.append([out, gradients[0][:20], *gradients[1:]])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    if name.startswith("GAT"):
        out, (_, alpha) = layer(x, graph.pad(33), more, return_attention_weights=True)
        gradients = torch.autograd.grad(alpha.square().sum(), layer.parameters(), allow_unused=True)
        assert all(g is None or g.isfinite().all() for g in gradients)


# ---- programs ----


class Model(torch.nn.Module):
    """Two layers on a graph that is given with the features."""

    def __init__(self):
        super().__init__()
        self.first = gt.GATConv(3, 4, heads=2, add_self_loops=False)
        self.second = gt.GNO(8, 3, coord_dim=2, hidden_channels=8)

    def forward(self, x, coords, graph):
        return self.second(self.first(x, graph).tanh(), coords, graph)


def batch_of(seed, numpy=False):
    generator = np.random.default_rng(seed)
    n, m = generator.integers(5, 40, 2)
    m = int(3 * m)
    edges = random_edges(int(n), m, seed)
    graph = gt.Graph.from_edge_index(edges, int(n))
    if numpy:
        graph = gg.Graph.from_edges(*edges.numpy(), int(n), int(n))
    torch.manual_seed(seed)
    return torch.randn(int(n), 3), torch.randn(m, 2), graph


def count_compilations():
    made = []

    def backend(module, inputs):
        made.append(1)
        from torch._dynamo.backends.debugging import aot_eager

        return aot_eager(module, inputs)

    return backend, made


@pytest.mark.parametrize(("numpy", "n_batches"), [(False, 20), (True, 20)])
def test_one_program_for_all_graphs(numpy, n_batches):
    """A stream of mini-batches takes at most two compilations, training included."""
    model = Model()
    backend, made = count_compilations()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for seed in range(n_batches):
        batch = batch_of(seed, numpy)
        results = []
        for function in (model, compiled):
            model.zero_grad()
            out = function(*batch)
            out.square().sum().backward()
            results.append([out, *(p.grad.clone() for p in model.parameters())])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert len(made) <= 2


@pytest.mark.exhaustive
def test_one_program_for_all_edges():
    """Models that make the graph inside, self-loops included, compile to one program."""
    model = torch.nn.ModuleList([gt.GATConv(3, 4), gt.GATv2Conv(4, 4), gt.TransformerConv(4, 2)])

    def run(x, edges):
        for layer in model:
            x = layer(x, edges).tanh()
        return x

    backend, made = count_compilations()
    compiled = torch.compile(run, fullgraph=True, backend=backend)
    for seed in range(20):
        n = 5 + seed
        edges = random_edges(n, 4 * n + seed % 3, seed)
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x, edges), run(x, edges), rtol=1e-4, atol=1e-5)
    assert len(made) <= 2


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


@pytest.mark.exhaustive
def test_neighbours_in_a_program():
    def run(points, h):
        graph = gt.Graph.radius(points, 0.4)
        coords = points[graph.src] - points[graph.dst]
        return gt.agg_weighted(h, (-coords.square().sum(-1)).exp(), graph=graph)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for n in (10, 20, 31):
        points = torch.rand(n, 2, requires_grad=True)
        h = torch.randn(n, 3)
        results = []
        for function in (run, compiled):
            out = function(points, h)
            results.append([out, *torch.autograd.grad(out.sum(), points)])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.exhaustive
def test_exported_program_takes_a_graph(tmp_path):
    """An exported program runs in another process, on a graph of another size."""
    torch.manual_seed(0)
    model = Model().eval()
    batch = batch_of(0)
    n, m = (torch.export.Dim(name, min=2) for name in ("n", "m"))
    of_graph = [{0: n + 1}, {0: m}, {0: m}, {0: n + 1}, {0: m}, {0: m}, {0: m}]
    program = torch.export.export(
        model, batch, dynamic_shapes=({0: n}, {0: m}, of_graph), strict=False
    )
    torch.export.save(program, tmp_path / "model.pt2")
    other = batch_of(1)
    torch.save((other, model(*other)), tmp_path / "batch.pt")
    code = """
import sys, torch, gnograd.torch
program = torch.export.load(sys.argv[1] + "/model.pt2").module()
batch, want = torch.load(sys.argv[1] + "/batch.pt", weights_only=True)
torch.testing.assert_close(program(*batch), want)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_arrays_of_any_other_framework_are_refused():
    graph = gt.Graph.from_edge_index(random_edges(4, 6), 4)
    with pytest.raises(TypeError, match=r"graph is of type Graph, needs a gnograd\.Graph"):
        gg.agg_simple(np.ones((4, 1)), graph=graph)
    assert isinstance(graph.arrays, GraphArrays)


@pytest.mark.parametrize("transform_type", few(["linear", "nonlinear"], "nonlinear"))
def test_neighbours_and_integral_in_one_program(transform_type):
    """The block of neuraloperator: neighbours are found, and their number stays open."""
    torch.manual_seed(0)
    block = gt.GNOBlock(3, 3, coord_dim=2, radius=0.3, transform_type=transform_type)
    backend, made = count_compilations()
    compiled = torch.compile(block, fullgraph=True, backend=backend)
    for n in (30, 50, 61):
        inputs = torch.rand(n, 2), torch.rand(n // 2, 2), torch.rand(n, 3)
        results = []
        for function in (block, compiled):
            block.zero_grad()
            out = function(*inputs)
            out.square().sum().backward()
            results.append([out, *(p.grad.clone() for p in block.parameters())])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want)
    assert len(made) <= 2


def test_what_is_no_graph():
    graph, edges = gt.Graph.from_edge_index(torch.tensor([[0], [1]]), 2), torch.tensor([[0], [1]])
    with pytest.raises(TypeError, match=r"Graph\.of: graph is of type Tensor, needs a Graph"):
        gt.Graph.of(edges)
    with pytest.raises(TypeError, match=r"Graph\.batch: graphs\[1\] is of type Tensor, needs a"):
        gt.Graph.batch([graph, edges])
    with pytest.raises(TypeError, match=r"Graph\.union: graph 1 is of type Tensor, needs a Graph"):
        gt.Graph.union(graph, edges)


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([], ValueError, "samples is empty"),
        ([{"x": 1}, {"x": 1, "y": 2}], ValueError, "only some of the samples have 'y'"),
        ([{"x": 1, "y": 2}, {"x": 1}], ValueError, "only some of the samples have 'y'"),
        ([torch.ones(2), None], TypeError, "types Tensor and NoneType, need one form"),
        ([None, torch.ones(2)], TypeError, "types NoneType and Tensor, need one form"),
        ([{"x": 1}, (1,)], TypeError, "types dict and tuple, need one form"),
        ([1, "a"], TypeError, "types int and str, need one form"),
        ([torch.ones(2, 3), torch.ones(2, 4)], ValueError, r"shapes \(2, 3\) and \(2, 4\), which"),
        ([torch.ones(2), torch.tensor(1.0)], ValueError, r"shapes \(\) and \(2,\), which differ"),
    ],
)
def test_samples_that_make_no_batch(samples, error, message):
    with pytest.raises(error, match=f"collate: .*{message}"):
        gt.collate(samples)


def test_numbers_of_samples():
    assert gt.collate([np.float32(1), np.float32(2)]).dtype == torch.float32
    assert gt.collate([np.float64(1), np.float64(2)]).dtype == torch.float64
    assert gt.collate([np.int64(1), np.int64(2)]).tolist() == [1, 2]
    assert gt.collate([None, None]) == [None, None]


def test_tensors_keep_their_device_whatever_the_default_is():
    """A search, a batch, and borders on the CPU, where the default is another device."""
    points, f = torch.rand(12, 3), torch.rand(12, 8)
    edges, cu = torch.randint(12, (2, 40)), torch.tensor([0, 8, 12])
    batch = torch.bucketize(torch.arange(12), cu[1:], right=True)
    graph = gt.Graph.from_edge_index(edges, 12)
    attention = gt.PointAttention(8, 2, 4)
    slices = gt.SliceAttention(8, heads=2, dim_head=4, slice_num=4).eval()

    def results():
        batched = gt.Graph.batch([graph, gt.Graph.of(gg.Graph.batch([graph.lent] * 2))])
        yield from (part.src for part in batched.unbatch())
        yield gt.Graph.radius(points, 0.5, batch=batch).src
        yield gt.Graph.knn(points, 3, batch=batch).src
        for borders in (cu, cu.tolist()):
            yield attention(f, points, borders)
            yield slices(f, borders)

    expected = list(results())
    with torch.device("meta"):
        actual = list(results())
    for one, other in zip(actual, expected, strict=True):
        assert one.device.type == "cpu" and torch.equal(one, other)


class Holder(torch.nn.Module):
    """A module that has a graph of NumPy arrays as an attribute."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.graph = gg.Graph.from_edges(src=[0, 1, 2, 3, 4, 5, 0], dst=[1, 2, 3, 4, 5, 0, 0])

    def forward(self, x):
        return self.layer(x, self.graph)


@pytest.mark.parametrize("layer", [gt.GATConv, gt.GCNConv, gt.SAGEConv])
def test_a_module_with_a_numpy_graph_is_exported_and_stays_as_it_is(layer):
    model, x = Holder(layer(3, 4)).eval(), torch.randn(6, 3)
    expected = model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    with pytest.raises(Exception, match=r"strict=True keeps no numbers of NumPy arrays; give gnog"):
        torch.export.export(model, (x,), strict=True)
    for _ in range(2):
        program = torch.export.export(model, (x,), strict=False)
        torch.testing.assert_close(program.module()(x), expected)
        torch.testing.assert_close(model(x), expected)
    model.graph = gt.Graph.of(model.graph)
    program = torch.export.export(model, (x,), strict=True)
    torch.testing.assert_close(program.module()(x), expected)

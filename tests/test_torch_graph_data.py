# SPDX-License-Identifier: MIT
"""Graphs as data: batches, loaders, files, other processes, room for more edges."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import random_edges, same_graph  # noqa: E402
from gnograd.notation.graph_arrays import GraphArrays  # noqa: E402


def test_batches():
    graphs = [gg.Graph([0, 2, 3, 3], [1, 2, 0]), gg.Graph.from_edges([0, 1, 1], [1, 0, 0], 2, 3)]
    batch = gg.Graph.batch(graphs)
    assert batch.sizes == (5, 6, 6)
    assert batch.borders == ((0, 3, 5), (0, 3, 6), (0, 3, 6))
    for back, graph in zip(batch.pad(9).unbatch(), graphs, strict=True):
        same_graph(back, graph)
    same_graph(gt.Graph.batch(graphs), batch)
    for back, graph in zip(gt.Graph.batch(graphs).unbatch(), graphs, strict=True):
        same_graph(back, graph)
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
        same_graph(other, graph)
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
        same_graph(whole, graph)
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
    same_graph(back, graph)
    if kind == "batch":
        assert len(back.unbatch()) == 2


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

# SPDX-License-Identifier: MIT
"""Graphs in PyTorch's programs: compiled, exported, with changing edges."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gnograd as gg
from conftest import few

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import random_edges  # noqa: E402


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

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

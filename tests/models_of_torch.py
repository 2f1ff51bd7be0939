# SPDX-License-Identifier: MIT
"""Small models for test_torch_training.py and the processes that it starts, and their samples."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import gnograd.torch as gt

FOLDER = Path(__file__).parent


class Attention(nn.Module):
    """Graph attention from ``edge_index``, as with PyG."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([gt.GATConv(3, 4, heads=2), gt.GATConv(8, 2)])

    def forward(self, x, edge_index):
        return self.layers[1](self.layers[0](x, edge_index).relu(), edge_index)


class Operator(nn.Module):
    """A graph neural operator on a graph that comes with the sample."""

    def __init__(self):
        super().__init__()
        self.lift, self.project = nn.Linear(3, 8), nn.Linear(8, 2)
        self.layer = gt.GNO(8, 8, coord_dim=2, hidden_channels=8)

    def forward(self, x, points, graph):
        coords = points[graph.src] - points[graph.dst]
        return self.project(self.layer(self.lift(x), coords, graph).relu())


class Sequence(nn.Module):
    """Sparse attention on a batch of sequences."""

    def __init__(self):
        super().__init__()
        self.layer = gt.NativeSparseAttention(
            16, 2, compress_block_size=4, compress_stride=2, selection_block_size=4,
            num_selected_blocks=4, window_size=8,
        )  # fmt: skip

    def forward(self, x):
        return self.layer(x)


MODELS = {"GATConv": Attention, "GNO": Operator, "NSA": Sequence}


def make(name):
    """A model with always the same parameters."""
    torch.manual_seed(0)
    return MODELS[name]()


def sample(name, k):
    """Inputs and target number k, of a size of their own."""
    generator = torch.Generator().manual_seed(k)
    n = 20 + 3 * k
    if name == "NSA":
        x, target = torch.randn(2, 2, n, 16, generator=generator)
        return (x,), target
    edges = torch.randint(n, (2, 4 * n + k), generator=generator)
    x, target = torch.randn(n, 3, generator=generator), torch.randn(n, 2, generator=generator)
    if name == "GATConv":
        return (x, edges), target
    points = torch.rand(n, 2, generator=generator)
    return (x, points, gt.Graph.from_edge_index(edges, n)), target


def dynamic_shapes(name):
    """Sizes that an exported program leaves open."""
    n, m = (torch.export.Dim(size, min=8) for size in ("n", "m"))
    if name == "NSA":
        return ({1: n},)
    if name == "GATConv":
        return {0: n}, {1: m}
    of_graph = [{0: n + 1}, {0: m}, {0: m}, {0: n + 1}, {0: m}, {0: m}, {0: m}]
    return {0: n}, {0: n}, of_graph

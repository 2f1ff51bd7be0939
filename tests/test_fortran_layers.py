# SPDX-License-Identifier: MIT
"""Layers of Fortran take the state dict of those of PyTorch, and give the same."""

from __future__ import annotations

import numpy as np
import pytest

import gnograd as gg
from programs import ROOT, build_and_run, needs_installation

torch = pytest.importorskip("torch")
from gnograd.torch import GNO, GATConv  # noqa: E402
from gnograd.torch.mesh_mlp import MeshGraphEdgeMLPConcat  # noqa: E402

pytestmark = needs_installation


def test_layers_of_torch(tmp_path):
    torch.manual_seed(3)
    src, dst = torch.randint(10, (2, 30))
    data = {
        "x": torch.randn(10, 4), "e": torch.randn(30, 2), "coords": torch.randn(30, 2),
        "src": src, "dst": dst,
    }  # fmt: skip
    model = torch.nn.ModuleDict({
        "dense": torch.nn.Linear(4, 6),
        "mlp": torch.nn.Sequential(
            torch.nn.Linear(4, 7), torch.nn.GELU(), torch.nn.Linear(7, 7), torch.nn.GELU(),
            torch.nn.Linear(7, 3),
        ),
        "norm": torch.nn.LayerNorm(4),
        "full": GNO(4, 5, 2, hidden_channels=8),
        "diagonal": GNO(4, 4, 2, hidden_channels=8, kernel="diagonal"),
        "heads": GATConv(4, 3, heads=2, add_self_loops=False),
        "mean_heads": GATConv(4, 3, heads=2, concat=False, add_self_loops=False),
        "edge_mlp": MeshGraphEdgeMLPConcat(2, 4, 4, 2, hidden_dim=9, hidden_layers=2),
    })  # fmt: skip
    for parameter in model.parameters():  # biases that begin with zeros are to be seen, too
        torch.nn.init.normal_(parameter, std=0.5)
    gg.save_weights(tmp_path / "model.safetensors", model)
    gg.save_weights(tmp_path / "data.safetensors", data)
    build_and_run("gfortran", ROOT / "tests/consumer/layers.f90", tmp_path)
    found = gg.load_weights(tmp_path / "out.safetensors")

    x, coords = data["x"], data["coords"]
    graph = gg.Graph.from_edges(src.numpy(), dst.numpy(), 10)
    wanted = {name: model[name](x) for name in ("dense", "mlp", "norm")}
    wanted |= {name: model[name](x, coords, graph) for name in ("full", "diagonal")}
    wanted |= {name: model[name](x, graph) for name in ("heads", "mean_heads")}
    wanted["edges"], wanted["nodes"] = model["edge_mlp"].update(data["e"], x, graph)
    for name, values in wanted.items():
        np.testing.assert_allclose(
            found[name], values.detach().numpy(), rtol=1e-5, atol=3e-6, err_msg=name
        )

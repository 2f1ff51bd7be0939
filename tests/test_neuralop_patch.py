# SPDX-License-Identifier: MIT
"""neuraloperator's models, built of its own layers and of gnograd's."""

from __future__ import annotations

import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")


def test_error_without_neuraloperator(monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralop", None)
    with pytest.raises(ImportError, match="patch_neuraloperator: needs neuraloperator, which"):
        gt.patch_neuraloperator()


@pytest.fixture
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of what it imports
        pytest.importorskip("neuralop")
        gino = pytest.importorskip("neuralop.models.gino")
        fnogno = pytest.importorskip("neuralop.models.fnogno")
    return gino, fnogno


def gino(module, channels=2):
    return module.GINO(
        in_channels=channels, out_channels=3, gno_coord_dim=2, in_gno_radius=0.4,
        out_gno_radius=0.4, fno_in_channels=2, fno_n_modes=(4, 4), fno_hidden_channels=8,
        fno_n_layers=1, gno_embed_channels=4, in_gno_channel_mlp_hidden_layers=[8, 12],
        out_gno_channel_mlp_hidden_layers=[8, 12], gno_use_open3d=False,
        gno_use_torch_scatter=False,
    )  # fmt: skip


@pytest.mark.parametrize("channels", [1, 2])
def test_gino(models, channels):
    """Values, gradients and gradients of gradients of the same checkpoint.

    A function of one channel goes with both channels of the kernel.
    """
    torch.manual_seed(0)
    theirs = gino(models[0], channels)
    with gt.patch_neuraloperator():
        ours = gino(models[0], channels)
    assert isinstance(ours.gno_in, gt.GNOBlock)
    assert isinstance(ours.gno_out, gt.GNOBlock)
    assert not isinstance(gino(models[0]).gno_in, gt.GNOBlock)
    ours.load_state_dict(theirs.state_dict())
    axis = torch.linspace(0, 1, 6)
    inputs = {
        "input_geom": torch.rand(1, 30, 2),
        "latent_queries": torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1)[None],
        "output_queries": torch.rand(1, 20, 2),
        "x": torch.rand(1, 30, channels),
    }
    results = []
    for model in (theirs, ours):
        x = inputs["x"].clone().requires_grad_()
        out = model(**(inputs | {"x": x}))
        leaves = [x, *(p for p in model.parameters() if p.requires_grad)]
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), x)
        results.append([out, *first, *second])
    for a, b in zip(*results, strict=True):
        scale = float(a.detach().abs().max())
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4 * scale + 1e-6)


def test_undo(models):
    blocks = [module.GNOBlock for module in models]
    patch = gt.patch_neuraloperator()
    again = gt.patch_neuraloperator()
    assert [module.GNOBlock for module in models] == [gt.GNOBlock] * 2
    again.undo()
    assert [module.GNOBlock for module in models] == [gt.GNOBlock] * 2
    patch.undo()
    patch.undo()
    assert [module.GNOBlock for module in models] == blocks

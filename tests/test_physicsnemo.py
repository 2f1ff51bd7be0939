# SPDX-License-Identifier: MIT
"""PhysicsNeMo's models on points, built of its own layers and of gnograd's."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from gnograd.torch.dropout import split_mix  # noqa: E402


def test_error_without_physicsnemo(monkeypatch):
    monkeypatch.setitem(sys.modules, "physicsnemo", None)
    with pytest.raises(ImportError, match="patch_physicsnemo: needs PhysicsNeMo, which cannot"):
        gt.patch_physicsnemo()


@pytest.mark.parametrize("name", ["PhysicsAttentionIrregularMesh", "FLARE", "GALE", "GALE_FA"])
def test_transformer_engine_is_refused(name):
    layer = getattr(importlib.import_module("gnograd.torch.physicsnemo"), name)
    with pytest.raises(NotImplementedError, match=f"{name}: use_te is True, needs False"):
        layer(8, 2, 4, use_te=True)


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of what it imports
        pytest.importorskip("physicsnemo")
        names = ("transolver", "flare", "geotransolver")
        return [pytest.importorskip(f"physicsnemo.models.{name}") for name in names]


COMMON = {"functional_dim": 2, "out_dim": 3, "n_layers": 2, "n_hidden": 16, "n_head": 4,
          "slice_num": 6, "use_te": False}  # fmt: skip


def transolver(models, plus=False):
    return models[0].Transolver(embedding_dim=2, plus=plus, **COMMON)


def flare(models):
    return models[1].FLARE(embedding_dim=2, **COMMON)


def geotransolver(models, **options):
    return models[2].GeoTransolver(geometry_dim=2, global_dim=5, **COMMON, **options)


CASES = {
    "transolver": (transolver, {}, gt.SliceAttention),
    "transolver++": (transolver, {"plus": True}, gt.SliceAttention),
    "flare": (flare, {}, gt.FLARE),
    "geotransolver": (geotransolver, {}, gt.GALE),
    "geotransolver, latents": (geotransolver, {"attention_type": "GALE_FA"}, gt.GALE_FA),
    "geotransolver, concat": (geotransolver, {"state_mixing_mode": "concat_project"}, gt.GALE),
}


def uniform(logits):
    """Numbers of the documented sequence, with the seed that a layer takes."""
    bits = split_mix(torch.randint(2**63 - 1, (1,)), 0, logits.numel())
    return (bits.to(logits.dtype) * 2.0**-53).view_as(logits)


@pytest.mark.parametrize("case", CASES)
def test_models_are_the_same(models, case, monkeypatch):
    """Values and gradients of the same checkpoint, and gradients of gradients."""
    monkeypatch.setattr(torch, "rand_like", uniform)  # PhysicsNeMo's noise from our numbers
    make, options, layer = CASES[case]
    torch.manual_seed(0)
    theirs = make(models, **options).double().eval()
    with gt.patch_physicsnemo():
        ours = make(models, **options).double().eval()
    assert sum(isinstance(m, layer) for m in ours.modules()) == 2
    assert not any(isinstance(m, layer) for m in make(models, **options).modules())
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    ours.load_state_dict(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    inputs = [torch.rand(2, 30, 2, dtype=torch.float64) for _ in range(2)]
    if make is geotransolver:
        inputs[1:] = [None, torch.rand(2, 1, 5, dtype=torch.float64), inputs[1]]
    results, x = [], inputs[0].requires_grad_()
    for model in (theirs, ours):
        torch.manual_seed(1)  # noise
        out = model(x, *inputs[1:])
        used = [x, *model.parameters()]
        results.append([out, *torch.autograd.grad(out.square().sum(), used, allow_unused=True)])
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a, rtol=1e-10, atol=1e-12)  # biases of keys: 0
    (slope,) = torch.autograd.grad(ours(x, *inputs[1:]).sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), x)[0].isfinite().all()


def test_undo(models):
    attention = importlib.import_module("physicsnemo.nn.module.physics_attention")
    blocks = importlib.import_module("physicsnemo.models.transolver.transolver")
    layers = importlib.import_module("physicsnemo.models.flare.flare")
    theirs, flare_layer = attention.PhysicsAttentionIrregularMesh, layers.FLAREAttention
    patch = gt.patch_physicsnemo()
    again = gt.patch_physicsnemo()
    assert issubclass(blocks.PhysicsAttentionIrregularMesh, gt.SliceAttention)
    assert issubclass(layers.FLAREAttention, gt.FLARE)
    again.undo()
    assert issubclass(attention.PhysicsAttentionIrregularMesh, gt.SliceAttention)
    patch.undo()
    patch.undo()
    assert blocks.PhysicsAttentionIrregularMesh is attention.PhysicsAttentionIrregularMesh is theirs
    assert layers.FLAREAttention is flare_layer

# SPDX-License-Identifier: MIT
"""Models trained as PyTorch's users train them: the losses are those of eager mode."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
import models_of_torch as models  # noqa: E402
from conftest import few  # noqa: E402
from processes import torchrun  # noqa: E402

STEPS = 4
NAMES = sorted(models.MODELS)


def losses_of(name, change=lambda model: model, autocast=False):
    """Losses of some steps of gradient descent, each on another sample."""
    model = models.make(name)
    function = change(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(STEPS):
        inputs, target = models.sample(name, step)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = function(*inputs)
        loss = (out.float() - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", NAMES)
def test_autocast(name):
    """Losses agree to the precision of bfloat16, in which PyTorch's own layers compute."""
    assert losses_of(name, autocast=True) == pytest.approx(losses_of(name), rel=0.05)


@pytest.mark.parametrize("name", few(NAMES, "GNO"))
def test_compiled_with_changing_graphs(name):
    """Changing graphs take one program, after the first sizes have been seen to change."""
    made = []

    def backend(module, inputs):
        made.append(module)
        return torch._dynamo.lookup_backend("aot_eager")(module, inputs)

    def compiled(model):
        return torch.compile(model, fullgraph=True, backend=backend)

    assert losses_of(name, compiled) == pytest.approx(losses_of(name), rel=1e-4)
    assert len(made) <= 2


@pytest.mark.exhaustive
def test_exported_and_loaded_in_another_process(tmp_path):
    for name in NAMES:
        model = models.make(name).eval()
        inputs, _ = models.sample(name, 0)
        program = torch.export.export(
            model, inputs, dynamic_shapes=models.dynamic_shapes(name), strict=False
        )
        torch.export.save(program, tmp_path / f"{name}.pt2")
        others = [models.sample(name, k)[0] for k in (0, 1)]
        torch.save([(x, model(*x).detach()) for x in others], tmp_path / f"{name}.pt")
    code = """
    import sys, torch, gnograd.torch
    for name in sys.argv[2:]:
        program = torch.export.load(f"{sys.argv[1]}/{name}.pt2").module()
        for inputs, want in torch.load(f"{sys.argv[1]}/{name}.pt", weights_only=True):
            torch.testing.assert_close(program(*inputs), want, rtol=1e-4, atol=1e-5)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), *NAMES]
    subprocess.run(command, check=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", ["train_ddp.py", "train_fsdp.py"])
def test_on_two_processes(program, tmp_path):
    """Gradients are the mean of those of both processes' samples."""
    torchrun(2, program, str(tmp_path))
    for name in NAMES:
        model = models.make(name)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            optimizer.zero_grad()
            for rank in range(2):
                inputs, target = models.sample(name, 2 * step + rank)
                ((model(*inputs) - target).square().mean() / 2).backward()
            optimizer.step()
        trained = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        for key, value in model.state_dict().items():
            torch.testing.assert_close(trained[key], value, rtol=1e-4, atol=1e-5)

# SPDX-License-Identifier: MIT
"""Training jobs through PyTorch: the same predictions and checkpoints as on the tape."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from rich.console import Console
from typer.testing import CliRunner

from gnograd.cli import engine as engines
from gnograd.cli import poisson, poisson_problem
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT
from gnograd.cli.darcy import DarcyConfig, DarcyModel
from gnograd.cli.darcy_data import DarcyData
from gnograd.cli.darcy_graphs import DarcyGraphs
from gnograd.cli.engine import Device, Engine, TapeEngine, make_engine
from gnograd.cli.errors import DeviceError
from gnograd.cli.job import Run
from gnograd.cli.poisson import Lesson, PoissonConfig, PoissonModel
from gnograd.cli.training import fit

CONFIG = DarcyConfig(
    samples=4, test_samples=2, nodes=40, radius=0.3, width=6, hidden=5, layers=2, batch=2
)


def darcy(engine: Engine) -> DarcyModel:
    rng = np.random.default_rng(0)
    coefficient = rng.uniform(3.0, 12.0, (6, 21, 21)).astype(np.float32)
    graphs = DarcyGraphs(DarcyData(coefficient, 1.0 / coefficient), CONFIG.samples, 0.3, True)
    return DarcyModel(CONFIG, graphs, engine)


def train(model: DarcyModel, epochs: int, directory: Path, **more: float) -> None:
    config = replace(CONFIG, epochs=epochs, learning_rate=1e-2, **more)
    fit(model, config, Run(directory, Console(quiet=True)))


def parameters(model: DarcyModel) -> dict[str, np.ndarray]:
    return {name: model.engine.value(array) for name, array in model.parameters.items()}


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return float(np.abs(a - b).max()) <= tolerance * float(np.abs(a).max())


def devices() -> list[Device]:
    torch = pytest.importorskip("torch")
    return [Device.CPU, Device.CUDA] if torch.cuda.is_available() else [Device.CPU]


# ---- the same network ----


def test_same_weights_give_the_same_predictions(tmp_path: Path) -> None:
    for device in devices():
        ours, theirs = darcy(TapeEngine()), darcy(make_engine(device, torch=True))
        directory = tmp_path / device.value
        train(ours, 3, directory)
        train(theirs, 3, directory)  # has nothing left to do but load the weights
        batch = ours.graphs.batch([4, 5], np.tile(ours.graphs.regular_nodes(21), (2, 1)))
        assert close(ours.predict(batch), theirs.predict(batch), 1e-5)


@pytest.mark.parametrize("more", [{}, {"weight_decay": 0.3, "clip": 0.05, "ema": 0.8}])
def test_runs_continue_on_another_device(tmp_path: Path, more: dict[str, float]) -> None:
    for device in devices():
        runs = []
        for first, second in ((False, False), (False, True), (True, False)):
            directory = tmp_path / f"{device.value}-{first}-{second}"
            for torch, epochs in ((first, 2), (second, 4)):
                model = darcy(make_engine(device if torch else Device.CPU, torch))
                train(model, epochs, directory, **more)
            runs.append(parameters(model))
        for other in runs[1:]:
            assert all(close(runs[0][name], other[name], 1e-3) for name in other)


def test_settings_of_the_optimiser_do_the_same_on_both_engines() -> None:
    """Decay, clipping and average are those of PyTorch's own parts."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start, slopes = rng.standard_normal((2, 5, 3)), rng.standard_normal((9, 1))
    values = []
    for engine in (TapeEngine("float64"), make_engine(torch=True, dtype="float64")):
        parameter = engine.parameter(start[0])
        adam = engine.adam([parameter], 0.1, 0.3, 0.5, 0.8)
        for slope in slopes:
            with engine.step():
                adam.backward((parameter * parameter * engine.constant(slope * start[1])).sum())
                adam.step()
        values.append([engine.value(parameter), adam.state_dict()["average"][0]])
    w = torch.tensor(start[0], requires_grad=True)
    optimiser = torch.optim.AdamW([w], 0.1, weight_decay=0.3)
    mean = w.detach().clone()
    for slope in slopes:
        optimiser.zero_grad()
        (w * w * torch.tensor(slope * start[1])).sum().backward()
        torch.nn.utils.clip_grad_norm_([w], 0.5)
        optimiser.step()
        mean.lerp_(w.detach(), 0.2)
    for made in values:
        for array, expected in zip(made, (w, mean), strict=True):
            np.testing.assert_allclose(array, expected.detach(), rtol=0, atol=1e-13)


def test_a_step_that_overflows_in_half_precision_is_left_out() -> None:
    """The optimiser continues after it with the same bits; one parameter has no gradient."""
    torch = pytest.importorskip("torch")
    from gnograd.cli.torch_engine import Adam

    def adam() -> Adam:
        parameters = [torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)]
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        return Adam(scaler, parameters, 0.1, 0.1, 1.0, 0.9)

    def steps(adam: Adam, numbers: range) -> None:
        for number in numbers:
            factor = np.inf if number == 2 else 1.0
            adam.backward(factor * (adam.parameters[0] ** 2).sum())
            adam.step()

    whole, first, second = adam(), adam(), adam()
    steps(whole, range(6))
    steps(first, range(3))
    with torch.no_grad():
        for parameter, value in zip(second.parameters, first.parameters, strict=True):
            parameter.copy_(value)
    second.load_state_dict(first.state_dict())
    steps(second, range(3, 6))
    assert whole.state_dict()["steps"] == second.state_dict()["steps"] == 5
    assert whole.state_dict()["scale"] == second.state_dict()["scale"] != 1024
    for a, b in zip(whole.parameters, second.parameters, strict=True):
        assert torch.equal(a, b)
    for a, b in zip(whole.average, second.average, strict=True):
        assert torch.equal(a, b)


def test_poisson_predicts_the_same() -> None:
    config = PoissonConfig(nodes=40, width=8, hidden=8, layers=2)
    case = poisson.solve(poisson_problem.draw(np.random.default_rng(0)))
    for device in devices():
        ours, theirs = (
            PoissonModel(config, Lesson.BOTH, [case], [case], engine)
            for engine in (TapeEngine(), make_engine(device, torch=True))
        )
        assert close(ours.predict(case), theirs.predict(case), 1e-5)
        batch = next(ours.batches(np.random.default_rng(0)))
        gradients = []
        for model in (ours, theirs):
            with model.engine.step():
                loss = model.loss(batch)
                loss.backward()
            gradient = model.parameters["decoder.layers"].grad
            gradients.append(np.asarray(gradient if model is ours else gradient.cpu()))
        assert close(*gradients, 1e-3)


# ---- the command ----


def test_darcy_trains_through_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    options = ["--samples=4", "--test-samples=2", "--grid=21", "--nodes=40", "--width=6"]
    command = ["train", "darcy", *options, "--epochs=2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--torch"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / CHECKPOINT).exists()
    again = CliRunner().invoke(app, command)
    assert "continuing after epoch 2 of 2" in again.output


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["train", "darcy", "--out", str(tmp_path), "--device=cuda"]
    monkeypatch.setattr(engines, "_has_torch", lambda: False)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "--device cuda needs PyTorch; install it with: pip" in result.output
    with pytest.raises(DeviceError, match=r"^--torch needs PyTorch"):
        make_engine(Device.CPU, torch=True)


def test_no_gpu_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    command = ["train", "darcy", "--out", str(tmp_path), "--device=cuda"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "--device cuda: PyTorch finds no GPU" in result.output
    assert not list(tmp_path.iterdir())

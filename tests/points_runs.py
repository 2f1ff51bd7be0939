# SPDX-License-Identifier: MIT
"""Commands of the command line on small files of points."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

from typer.testing import CliRunner, Result

import gnograd as gg
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT, State

TRAIN = ["--size=small", "--threads=1", "--batch=2", "--learning-rate=0.01"]


def gnograd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], terminal_width=200)


def done(*arguments: str | Path) -> str:
    result = gnograd(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str | Path) -> str:
    result = gnograd(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    (line,) = [text for text in result.output.splitlines() if text.startswith("gnograd: ")]
    return line


def poisson(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Source and solution of ``-Lap u = f`` on the unit square, a random sum of sines."""
    k, c = np.arange(1, 3), rng.standard_normal((2, 2))
    sines = np.sin(np.pi * k * x[:, :1])[:, :, None] * np.sin(np.pi * k * x[:, 1:])[:, None, :]
    eigenvalues = np.pi**2 * (k[:, None] ** 2 + k**2)
    return (sines * c).sum((1, 2)), (sines * c / eigenvalues).sum((1, 2))


def write_samples(path: Path, n: int = 6) -> Path:
    rng = np.random.default_rng(0)
    x = rng.random((40, 2))
    a, u = zip(*(poisson(rng, x) for _ in range(n)), strict=True)
    np.savez(path, points=x, a=np.array(a), solution=np.array(u))
    return path


def write_waves(path: Path, n: int = 12) -> Path:
    """Waves that travel around a circle, at a speed that is a parameter."""
    rng = np.random.default_rng(0)
    x = (np.arange(32) + rng.uniform(-0.3, 0.3, 32)) / 32
    speed, phase = rng.uniform(0.03, 0.05, (n, 1)), rng.random(n)
    t = np.arange(6)
    shift = speed * t + phase[:, None]
    u = np.sin(2 * np.pi * (x - shift[..., None]))
    np.savez(path, points=x, u=u, parameters=speed, period=1.0)
    return path


def tensors(directory: Path) -> dict[str, np.ndarray]:
    return gg.load_weights(directory / CHECKPOINT)


def state_of(directory: Path) -> State:
    text = gg.load_weights_metadata(directory / CHECKPOINT)["state"]
    return State.of_entries({"state": np.array(text), **tensors(directory)})

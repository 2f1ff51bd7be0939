# SPDX-License-Identifier: MIT
"""The nonlinear Poisson problem: domains, finite elements, residual, and the training job."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner, Result

import gnograd as gg
import gnograd.autodiff as ad
from gnograd.cli import poisson, poisson_graphs, poisson_problem
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT
from gnograd.cli.engine import TapeEngine
from gnograd.cli.job import CONFIG
from gnograd.cli.log import HISTORY
from gnograd.cli.poisson import Lesson, PoissonConfig, PoissonModel
from gnograd.cli.poisson_graphs import Task, disk_points, mollifier
from gnograd.cli.poisson_problem import Problem

SMALL = PoissonConfig(
    samples=2, test_samples=2, nodes=24, queries=10, width=4, hidden=5, layers=1, epochs=2, batch=2
)
OPTIONS = [
    *("--samples=2", "--test-samples=2", "--nodes=24", "--queries=10", "--width=4", "--hidden=5"),
    *("--layers=1", "--epochs=2", "--batch=2"),
]


def problem(seed: int) -> Problem:
    return poisson_problem.draw(np.random.default_rng(seed))


def differences(function, points: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Gradient, (n, 2), and Laplacian, (n,), by central differences."""
    steps = h * np.eye(2)
    ahead, behind = ([function(points + s * step) for step in steps] for s in (1, -1))
    gradient = np.stack([(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)], axis=1)
    return gradient, (sum(ahead) + sum(behind) - 4 * function(points)) / h**2


# ---- domains ----


@pytest.mark.parametrize("seed", [0, 1])
def test_level_set_has_its_derivatives(seed: int) -> None:
    case = problem(seed)
    points = disk_points(50, 0.3)
    _, gradient, laplacian = case.level_set(points)
    for exact, difference, tolerance in zip(
        (gradient, laplacian),
        differences(lambda x: case.level_set(x)[0], points, 1e-4),
        (1e-6, 1e-5),
        strict=True,
    ):
        np.testing.assert_allclose(exact, difference, atol=tolerance)


def test_domains_are_star_shaped_and_differ() -> None:
    angles = np.linspace(0.0, 2.0 * np.pi, 100)
    direction = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    longest = []
    for seed in range(100):
        case = problem(seed)
        radius = case.radius(angles)
        along = np.linspace(0.0, 1.5, 61)[:, None] * radius
        phi = case.level_set((along[..., None] * direction).reshape(-1, 2))[0].reshape(along.shape)
        assert np.all(np.diff(phi, axis=0) < 0.0)
        np.testing.assert_allclose(phi[40], 0.0, atol=1e-12)
        longest.append(radius.max() / radius.min())
    assert np.mean(longest) > 1.5


def test_right_hand_side_has_its_deviation() -> None:
    values = [problem(seed).source(np.zeros((1, 2)))[0] for seed in range(2000)]
    assert np.std(values) == pytest.approx(poisson_problem.SOURCE, rel=0.1)


# ---- finite elements ----


def manufactured(case: Problem, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``u = phi (2 + x_1)`` and its right-hand side."""
    phi, slope, laplacian = case.level_set(points)
    factor = 2.0 + points[:, 0]
    u = phi * factor
    gradient = slope * factor[:, None]
    gradient[:, 0] += phi
    second = laplacian * factor + 2.0 * slope[:, 0]
    f = poisson.flow_divergence(u[:, None], gradient, second[:, None])
    return u, f[:, 0]


def test_residual_is_the_divergence_of_the_flow() -> None:
    case, points = problem(2), 0.5 * disk_points(30, 0.0)

    def potential(x: np.ndarray) -> np.ndarray:
        """The equation is ``Lap(u + u^3/30) = f``."""
        u, _ = manufactured(case, x)
        return u + u**3 / 30.0

    _, f = manufactured(case, points)
    _, laplacian = differences(potential, points, 1e-4)
    np.testing.assert_allclose(f, laplacian, atol=1e-4)


def test_finite_elements_converge_with_order_two() -> None:
    case = problem(3)

    def error(rings: int) -> float:
        mesh = poisson_problem.mesh(case, rings)
        u, f = manufactured(case, mesh.points)
        difference = poisson_problem.solve(mesh, f) - u
        return float(np.sqrt(mesh.weights() @ difference**2))

    errors = [error(rings) for rings in (8, 16, 32, 64)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(orders > 1.7)
    assert orders[-1] == pytest.approx(2.0, abs=0.1)


def test_quadratures_agree() -> None:
    case = problem(4)
    mesh = poisson_problem.mesh(case, 48)
    points, areas = case.from_disk(disk_points(500, 1.0))
    expected = mesh.weights() @ mesh.points[:, 0] ** 2
    assert np.pi * np.mean(areas * points[:, 0] ** 2) == pytest.approx(expected, rel=0.01)


# ---- model ----


class Float64Engine(TapeEngine):
    def __init__(self) -> None:
        tape = ad.Tape("float64")
        self.parameter = lambda values: tape.parameter(values.astype(np.float64))
        self.constant = lambda values: tape.constant(np.asarray(values, np.float64))
        self.step = self.evaluation = tape.step


def test_mollifier_has_its_derivatives() -> None:
    offset = 0.6 * disk_points(40, 0.0)
    _, derivatives = mollifier(offset)
    gradient, laplacian = differences(lambda d: mollifier(d)[0][:, 0], offset, 1e-4)
    np.testing.assert_allclose(derivatives, np.column_stack([gradient, laplacian]), atol=1e-6)
    edge = np.array([[1.0, 0.0]])
    assert not np.any(mollifier(edge)[0]) and not np.any(mollifier(edge)[1])


def test_network_has_its_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisson_graphs, "_float32", np.ascontiguousarray)
    model = PoissonModel(SMALL, Lesson.EQUATION, [], [], Float64Engine())
    case = problem(5)

    def solution(points: np.ndarray) -> list[np.ndarray]:
        batch = model.graphs.batch([Task(case, 0.2, points, np.ones(len(points)))])
        with model.engine.evaluation():
            return [model.engine.value(part) for part in model.solution(batch)]

    points, _ = case.from_disk(disk_points(30, 0.5))
    _, gradient, laplacian = solution(points)
    by_difference = differences(lambda x: solution(x)[0][:, 0], points, 1e-4)
    scale = np.abs(laplacian).max()
    np.testing.assert_allclose(gradient, by_difference[0], atol=1e-6 * scale)
    np.testing.assert_allclose(laplacian[:, 0], by_difference[1], atol=1e-4 * scale)
    on_boundary, _ = case.from_disk(np.array([[1.0, 0.0], [0.0, -1.0]]))
    np.testing.assert_allclose(solution(on_boundary)[0], 0.0, atol=1e-12)


def test_lessons_see_what_they_say() -> None:
    solved = [poisson.solve(problem(seed)) for seed in range(2)]
    known = {}
    for lesson in Lesson:
        model = PoissonModel(SMALL, lesson, solved, solved, TapeEngine())
        batch = next(model.batches(np.random.default_rng(0)))
        known[lesson] = 0 if batch.truth is None else len(batch.truth)
        with model.engine.step():
            assert 0.0 < float(model.loss(batch)) < 10.0
    assert known == {Lesson.EQUATION: 0, Lesson.BOTH: 1, Lesson.SOLUTIONS: 2}


# ---- the command ----


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisson, "STEPS", 4)


def gnograd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["train", "poisson", *(str(a) for a in arguments)])


def state(path: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in gg.load_weights(path).items()}


def test_poisson_leaves_what_it_promises(tmp_path: Path, few_steps: None) -> None:
    result = gnograd("--physics", "--out", tmp_path, *OPTIONS)
    assert result.exit_code == 0, result.output
    for lesson in Lesson:
        assert f"training on {lesson.value}" in result.output
        names = {p.name for p in (tmp_path / lesson.directory).iterdir()}
        assert names == {CHECKPOINT, HISTORY}
    assert (tmp_path / "poisson.png").read_bytes().startswith(b"\x89PNG")
    assert "mean relative L2 error" in result.output


@pytest.mark.exhaustive
def test_poisson_without_physics_needs_solutions_only(tmp_path: Path, few_steps: None) -> None:
    result = gnograd("--out", tmp_path, *OPTIONS)
    assert result.exit_code == 0, result.output
    assert {p.name for p in tmp_path.iterdir()} == {"solutions", "poisson.png", CONFIG}


@pytest.mark.exhaustive
def test_stopped_run_continues_with_the_same_bits(
    tmp_path: Path, few_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gnograd("--physics", "--out", tmp_path / "whole", *OPTIONS).exit_code == 0
    loss, calls = PoissonModel.loss, 0

    def stopped(model: PoissonModel, batch: poisson_graphs.Batch) -> object:
        nonlocal calls
        calls += 1
        if calls == 14:  # in the second epoch of the second training
            raise KeyboardInterrupt
        return loss(model, batch)

    command = ["--physics", "--out", tmp_path / "stopped", *OPTIONS, "--threads=1"]
    monkeypatch.setattr(PoissonModel, "loss", stopped)
    assert gnograd(*command).exit_code == 130
    monkeypatch.setattr(PoissonModel, "loss", loss)
    continued = gnograd(*command)
    assert continued.exit_code == 0, continued.output
    assert "continuing after epoch 1 of 2" in continued.output
    for lesson in Lesson:
        whole, stopped_one = (
            state(tmp_path / run / lesson.directory / CHECKPOINT) for run in ("whole", "stopped")
        )
        assert whole == stopped_one


def test_poisson_learns_from_the_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poisson, "STEPS", 150)
    config = PoissonConfig(samples=1, test_samples=1, nodes=32, queries=24, width=8, hidden=8)
    model = PoissonModel(config, Lesson.EQUATION, [], [], TapeEngine())
    optimiser = model.engine.adam(list(model.parameters.values()), 1e-2)
    losses = []
    for batch in model.batches(np.random.default_rng(0)):
        with model.engine.step():
            loss = model.loss(batch)
            loss.backward()
            losses.append(float(loss))
        optimiser.step()
    assert np.mean(losses[-20:]) < 0.85 * np.mean(losses[:5])

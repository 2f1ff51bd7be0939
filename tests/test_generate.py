# SPDX-License-Identifier: MIT
"""Problems drawn at random: seeded, solved as well as they say, and fit to be trained on."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner, Result

from gnograd.cli.app import app
from gnograd.cli.config import PROBLEMS as NAMES
from gnograd.cli.generate import refinement
from gnograd.cli.problems import PROBLEMS
from gnograd.data import Roles, read

SMALL = {
    "darcy": 16, "poisson-gauss": 6, "elasticity": 16, "airfoil": 16, "advection": 8, "burgers": 32,
    "heat": 4,
}  # fmt: skip
FIELDS = {"airfoil": ("pressure", "vx", "vy"), "elasticity": ("sxx", "syy", "sxy")}


def gnograd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], terminal_width=200)


@pytest.mark.parametrize("name", PROBLEMS)
def test_files_are_seeded_and_fit(tmp_path: Path, name: str) -> None:
    def made(samples: int, seed: int = 0) -> tuple[str, dict[str, np.ndarray]]:
        out = tmp_path / f"{samples}-{seed}.npz"
        options = [f"--samples={samples}", f"--seed={seed}", f"--resolution={SMALL[name]}"]
        result = gnograd("data", name, *options, "--points=20", "--out", out)
        assert result.exit_code == 0, result.output
        (line,) = [t for t in result.output.splitlines() if t.startswith("checksum")]
        with np.load(out) as file:
            return line, dict(file)

    (first, three), (second, _), (other, _) = made(3), made(3), made(3, seed=1)
    assert first == second != other
    _, two = made(2)
    for key, array in two.items():
        assert (array == (three[key][:2] if array.shape != three[key].shape else array)).all()
    in_time = PROBLEMS[name].in_time
    fields = FIELDS.get(name, ("u",))
    roles = Roles(states=fields) if in_time else Roles(outputs=fields)
    data = read(tmp_path / "3-0.npz", roles)
    assert len(data) == 3 and len(data.samples[0].points) == 20
    assert data.layout.in_time == in_time


def test_names_are_those_of_the_help() -> None:
    assert tuple(PROBLEMS) == NAMES


def test_refinement_says_how_exact_solutions_are() -> None:
    coarse, fine = (refinement(PROBLEMS["darcy"], n, 0) for n in (16, 64))
    assert fine < coarse / 2 and fine < 0.02
    coarse, fine = (refinement(PROBLEMS["poisson-gauss"], n, 0) for n in (6, 12))
    assert fine < coarse / 3 and fine < 0.05  # second order
    assert refinement(PROBLEMS["burgers"], 128, 0) < 1e-4
    assert refinement(PROBLEMS["airfoil"], 16, 0) is None


@pytest.mark.parametrize("name", ["darcy", "poisson-gauss", "burgers"])
def test_every_nth_node_of_a_finer_solution_is_kept(tmp_path: Path, name: str) -> None:
    def made(resolution: int, every: int) -> dict[str, np.ndarray]:
        out = tmp_path / f"{resolution}-{every}.npz"
        options = [f"--resolution={resolution}", f"--every={every}", "--samples=2"]
        result = gnograd("data", name, *options, "--out", out)
        assert result.exit_code == 0, result.output
        with np.load(out) as file:
            return dict(file)

    low = SMALL[name]
    plain, sampled = made(low, 1), made(3 * low + 3 * low % 2, 3)
    assert sampled["points"].shape == plain["points"].shape
    assert np.allclose(sampled["points"], plain["points"], atol=1e-6)
    difference = np.linalg.norm(sampled["u"] - plain["u"])
    assert 0 < difference < 0.2 * np.linalg.norm(plain["u"])  # another solution of the same problem


def test_nodes_are_left_out_where_that_makes_sense(tmp_path: Path) -> None:
    def output(name: str, *options: str) -> str:
        result = gnograd("data", name, *options, "--out", tmp_path / "data.npz")
        assert result.exit_code != 0 and not (tmp_path / "data.npz").exists()
        return result.output

    assert "--every is 3" in output("darcy", "--resolution=16", "--every=3")
    assert "--every is 4" in output("darcy", "--resolution=16", "--every=4")
    assert "exact" in output("heat", "--resolution=8", "--every=2")


def test_waves_obey_the_equation_of_advection() -> None:
    made = PROBLEMS["advection"].solve(np.random.default_rng(0), 32)
    u, c = made.outputs["u"].reshape(-1, 32, 32), made.parameters
    k = 2 * np.pi * np.fft.fftfreq(32, 1 / 32)
    along = k[:, None] * c[0] + k * c[1]
    for t in (1, 10):  # the start, as far as the wind has carried it
        moved = np.fft.ifft2(np.exp(-0.1j * t * along) * np.fft.fft2(u[0])).real
        assert np.allclose(moved, u[t])
    assert 0.2 <= np.linalg.norm(c) <= 0.6 and np.isclose(np.mean(u[0] ** 2), 1)


def test_burgers_keeps_momentum_and_loses_energy() -> None:
    states = PROBLEMS["burgers"].solve(np.random.default_rng(0), 128).outputs["u"]
    assert np.abs(states.mean(axis=1) - states[0].mean()).max() < 1e-12
    assert (np.diff((states**2).mean(axis=1)) < 0).all()


def test_burgers_obeys_its_equation() -> None:
    def at(n: int) -> tuple[np.ndarray, float]:
        made = PROBLEMS["burgers"].solve(np.random.default_rng(3), n)
        return made.outputs["u"], float(made.parameters[0])

    u, nu = at(256)
    k = 2j * np.pi * np.fft.fftfreq(256, 1 / 256)
    now = u[-2]
    dx, dxx = (np.fft.ifft(k**order * np.fft.fft(now)).real for order in (1, 2))
    rate = nu * dxx - now * dx
    # the trapezoidal rule between the last times, whose error is of third order
    after = np.fft.ifft(k * np.fft.fft(u[-1])).real
    later = nu * np.fft.ifft(k**2 * np.fft.fft(u[-1])).real - u[-1] * after
    change = (rate + later) / 2 * 0.05
    assert np.abs(u[-1] - now - change).max() < 0.1 * np.abs(change).max()


def test_plates_are_in_equilibrium_and_holes_free() -> None:
    n = 256
    made = PROBLEMS["elasticity"].solve(np.random.default_rng(0), n)
    shape = (n // 4, n)
    x, y = (made.points[:, k].reshape(shape) for k in (0, 1))
    xx, yy, xy = (made.outputs[name].reshape(shape) for name in FIELDS["elasticity"])
    r, angle = np.hypot(x, y)[:, 0], 2 * np.pi * np.arange(n) / n
    cos, sin = np.cos(angle), np.sin(angle)
    hole = np.hypot(xx[0] * cos + xy[0] * sin, xy[0] * cos + yy[0] * sin)
    assert hole.max() < 1e-12 * np.abs(xx).max()

    def slopes(f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_r = np.gradient(f, r, axis=0, edge_order=2)
        by_angle = (np.roll(f, -1, axis=1) - np.roll(f, 1, axis=1)) / (2 * angle[1])
        by_angle = by_angle / r[:, None]
        return cos * by_r - sin * by_angle, sin * by_r + cos * by_angle

    for a, b in ((xx, xy), (xy, yy)):
        balance = slopes(a)[0] + slopes(b)[1]
        assert np.abs(balance).max() < 2e-2 * np.abs(slopes(a)[0]).max()
    assert np.allclose([xx.mean(1)[-1], xy.mean(1)[-1]], made.parameters[[0, 2]], atol=0.1)


def test_boxes_keep_their_heat_and_obey_the_equation() -> None:
    made = PROBLEMS["heat"].solve(np.random.default_rng(0), 32)
    u = made.outputs["u"].reshape(-1, 33, 33, 33)
    spacing = made.points.reshape(33, 33, 33, 3)[1, 1, 1]
    weight = np.ones(33)
    weight[[0, -1]] = 0.5
    heat = np.einsum("tijk,i,j,k->t", u, weight, weight, weight)
    assert np.allclose(heat, heat[0])
    rate = (u[6] - u[4]) / 0.2
    lap = sum(
        np.diff(u[5], 2, axis=a)[tuple(slice(None) if b == a else slice(1, -1) for b in range(3))]
        / spacing[a] ** 2
        for a in range(3)
    )
    assert np.abs(rate[1:-1, 1:-1, 1:-1] - 0.02 * lap).max() < 2e-2 * np.abs(rate).max()


def test_air_flows_along_the_wall() -> None:
    n = 512
    made = PROBLEMS["airfoil"].solve(np.random.default_rng(0), n)
    wall = made.inputs["wall"] == 1
    x, v = made.points[wall], np.stack([made.outputs["vx"], made.outputs["vy"]], axis=1)[wall]
    along = (np.roll(x, -1, axis=0) - np.roll(x, 1, axis=0))[4:-4]  # away from the cusp
    across = np.abs(along[:, 0] * v[4:-4, 1] - along[:, 1] * v[4:-4, 0])
    assert (across < 1e-2 * np.linalg.norm(along, axis=1)).all()
    speed = np.linalg.norm(v, axis=1)
    assert speed.max() < 4  # the trailing edge is left smoothly
    assert np.allclose(made.outputs["pressure"][wall], 1 - speed**2)


def test_what_makes_no_sense_is_said(tmp_path: Path) -> None:
    out = tmp_path / "a.npz"
    result = gnograd("data", "stokes", "--out", out)
    assert result.exit_code == 2 and "needs one of darcy, poisson-gauss," in result.output
    for option, text in (
        ("--resolution=7", "--resolution is 7, needs an even number from 8"),
        ("--points=90000", "--points is 90000, but a sample has 14641 nodes"),
    ):
        result = gnograd("data", "darcy", "--samples=1", option, "--out", out)
        assert result.exit_code == 1 and text in result.output
    assert not out.exists()

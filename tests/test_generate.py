# SPDX-License-Identifier: MIT
"""Problems drawn at random: seeded, solved as well as they say, and fit to be trained on."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner, Result

from gnograd.cli.app import app
from gnograd.cli.generate import refinement
from gnograd.cli.point_commands import PROBLEMS as NAMES
from gnograd.cli.problems import PROBLEMS
from gnograd.data import Roles, read

SMALL = {"darcy": 16, "burgers": 64, "airfoil": 16}


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
    fields = {"darcy": ("u",), "burgers": ("u",), "airfoil": ("pressure", "vx", "vy")}[name]
    roles = Roles(states=fields) if in_time else Roles(outputs=fields)
    data = read(tmp_path / "3-0.npz", roles)
    assert len(data) == 3 and len(data.samples[0].points) == 20
    assert data.layout.in_time == in_time


def test_names_are_those_of_the_help() -> None:
    assert tuple(PROBLEMS) == NAMES


def test_refinement_says_how_exact_solutions_are() -> None:
    coarse, fine = (refinement(PROBLEMS["darcy"], n, 0) for n in (16, 64))
    assert fine < coarse / 2 and fine < 0.02
    assert refinement(PROBLEMS["burgers"], 128, 0) < 1e-4
    assert refinement(PROBLEMS["airfoil"], 16, 0) is None


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
    assert result.exit_code == 2 and "needs one of darcy, burgers, airfoil" in result.output
    for option, text in (
        ("--resolution=7", "--resolution is 7, needs an even number from 8"),
        ("--points=90000", "--points is 90000, but the solver has 14641 nodes"),
    ):
        result = gnograd("data", "darcy", "--samples=1", option, "--out", out)
        assert result.exit_code == 1 and text in result.output
    assert not out.exists()

# SPDX-License-Identifier: MIT
"""From files to a model in use: train points, predict, report."""

import html.parser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

import gnograd as gg
from gnograd.cli.log import Log
from gnograd.data import Roles, contents, read
from points_runs import TRAIN, done, gnograd, refused, state_of, tensors, write_samples, write_waves

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.exhaustive
def test_the_tutorial(tmp_path, monkeypatch) -> None:
    """All of the page is done as it stands there, from meshes to the answer for another one."""
    meshio = pytest.importorskip("meshio")
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "tutorials" / "own_data.md").read_text()
    names: dict[str, object] = {}
    outputs = {}
    for language, text in re.findall(r"```(python|sh)\n(.*?)```", page, re.DOTALL):
        if language == "python":
            exec(text, names)
        else:
            program, *arguments = shlex.split(text)
            assert program == "gnograd"
            more = ["--threads=1"] if arguments[0] in ("train", "predict") else []
            outputs[arguments[0]] = done(*arguments, *more)
    fits = (
        "fits: 24 samples of 100 to 123 points, 2-D; inputs: source (1); outputs: temperature (1)"
    )
    assert fits in outputs["inspect"] and fits in page
    assert re.search(r"new +│ 1 +│ 500", outputs["train"])
    assert "relative L2 error of 1 sample:" in outputs["predict"]

    truth, made = meshio.read("new/fine.vtu"), meshio.read("temperature.vtu")
    assert (made.points == truth.points).all()
    assert (made.cells_dict["triangle"] == truth.cells_dict["triangle"]).all()
    exact = truth.point_data["temperature"]
    samples = read("plates", Roles(outputs=("temperature",))).samples
    mean = np.concatenate([s.outputs for s in samples]).mean()
    error = np.linalg.norm(made.point_data["temperature"] - exact)
    assert error < 0.5 * np.linalg.norm(mean - exact)
    assert names["error"] < 0.5

    (sample,) = read("new", Roles(outputs=("temperature",))).samples
    prediction = gg.load("runs/plates").predict(sample)[:, 0]
    assert np.allclose(prediction, made.point_data["temperature"], atol=1e-6)
    report = Path("runs/plates/report.html").read_text()
    for text in ("source (1)", "Errors", "Course", "fine.vtu", "Cost", "Settings", "gino, small"):
        assert text in report
    assert_self_contained(report)


def assert_self_contained(page: str) -> None:
    class Links(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "link", "iframe", "object")
            for name, value in attrs:
                if name in ("src", "href"):
                    assert (value or "").startswith("data:image/")

    Links().feed(page)


def same_bits(a: Path, b: Path) -> bool:
    first, second = tensors(a), tensors(b)
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


def test_transolver_learns(tmp_path: Path) -> None:
    data = write_samples(tmp_path / "a.npz", 10)
    output = done(
        *("train", "points", "--model=transolver", "--data", data, *TRAIN, "--epochs=20"),
        *("--out", tmp_path / "run"),
    )
    error, mean = map(float, re.search(r"validation .*│ ([\d.e-]+) +│ ([\d.e-]+)", output).groups())
    assert error < 0.8 * mean
    done("predict", "--model", tmp_path / "run", "--data", data, "--out", tmp_path / "u.npz")
    assert contents(tmp_path / "u.npz").arrays["solution"].shape == (10, 40, 1)


def test_continued_runs_have_the_same_bits(tmp_path, monkeypatch) -> None:
    data = write_samples(tmp_path / "a.npz")
    run = ["train", "points", "--data", data, *TRAIN, "--epochs=4", "--ema=0.9", "--out"]
    done(*run, tmp_path / "whole")
    write = Log.write

    def stop(self, history) -> None:
        write(self, history)
        if len(history) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", stop)
        assert gnograd(*run, tmp_path / "cut").exit_code == 130
    assert len(state_of(tmp_path / "cut").history) == 2
    assert "continuing after epoch 2 of 4" in done(*run, tmp_path / "cut")
    assert same_bits(tmp_path / "whole", tmp_path / "cut")
    files = [(tmp_path / d / "model.safetensors").read_bytes() for d in ("whole", "cut")]
    assert files[0] == files[1]
    # a finished run does nothing more; one with more epochs goes on
    before = tensors(tmp_path / "cut")
    done(*run, tmp_path / "cut")
    name = "parameter/network.lift.0.weight"
    assert (before[name] == tensors(tmp_path / "cut")[name]).all()
    done(*run, tmp_path / "cut", "--epochs=6")
    state = state_of(tmp_path / "cut")
    assert len(state.history) == 6 and [end for end, _ in state.cycles] == [4, 6]
    line = refused(*run, tmp_path / "cut", "--seed=1")
    assert "made with other settings (seed is 1, was 0)" in line
    write_samples(tmp_path / "a.npz", 7)
    assert "checksum of the data is" in refused(*run, tmp_path / "cut")


def test_steps_in_time(tmp_path: Path) -> None:
    data = write_waves(tmp_path / "waves.npz")
    options = ["--state=u", "--noise=0.01", "--epochs=20", "--size=small", "--threads=1"]
    output = done(
        *("train", "points", "--data", data, *options, "--learning-rate=0.01", "--batch=8"),
        *("--out", tmp_path / "run"),
    )
    assert "state: u (1) at 6 times; parameters: parameters (1); period: 1" in output
    error, still = map(
        float, re.search(r"validation .*│ ([\d.e-]+) +│ ([\d.e-]+)", output).groups()
    )
    assert error < 0.5 * still
    done(
        *("predict", "--model", tmp_path / "run", "--data", data, "--steps", "3"),
        *("--out", tmp_path / "u.npz"),
    )
    made, given = contents(tmp_path / "u.npz").arrays["u"], contents(data).arrays["u"]
    assert made.shape == (12, 4, 32, 1)
    assert np.allclose(made[:, 0, :, 0], given[:, 0], atol=1e-6)
    pytest.importorskip("meshio")
    done("predict", "--model", tmp_path / "run", "--data", data, "--out", tmp_path / "u.vtu")
    assert (tmp_path / "u.pvd").read_text().count("<DataSet") == 12 * 6
    done("report", tmp_path / "run")


def test_commands_start_with_what_they_need(tmp_path: Path) -> None:
    """PyTorch's compiler takes as long to import as all the rest of it."""

    def imported(*command: str | Path) -> set[str]:
        program = (
            "import sys; from gnograd.cli.app import app; "
            "app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
        )
        arguments = [sys.executable, "-c", program, *map(str, command)]
        said = subprocess.run(arguments, capture_output=True, text=True, check=True)
        return {*said.stdout.splitlines()[-1].split()}

    data, run = write_samples(tmp_path / "a.npz"), tmp_path / "run"
    given = "--data", data, "--outputs=solution", "--model=gno", "--epochs=1", "--ema=0.9"
    modules = imported("train", "points", *given, "--out", run, *TRAIN)
    assert "torch" in modules and "torch._dynamo" not in modules
    assert "torch" not in imported("report", run)


def test_an_ensemble_gives_a_spread(tmp_path: Path) -> None:
    """Several models: the mean, and the standard deviation at each point."""
    data, runs = write_samples(tmp_path / "a.npz"), [tmp_path / f"run{k}" for k in range(3)]
    for k, run in enumerate(runs):
        more = (*TRAIN, "--epochs=2", "--model=gno", f"--seed={k}", "--out", run)
        done("train", "points", "--data", data, *more)
    models_of = [word for run in runs for word in ("--model", run)]
    output = done("predict", *models_of, "--data", data, "--out", tmp_path / "u.npz")
    made = contents(tmp_path / "u.npz").arrays
    every = np.array([[gg.load(run).predict(s) for s in read(data).samples] for run in runs])
    assert list(made) == ["points", "solution", "solution_std"]
    assert np.allclose(made["solution"], every.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert np.allclose(made["solution_std"], every.std(axis=0, ddof=1), rtol=1e-4, atol=1e-6)
    spread = float(re.search("among 3 models, relative to their mean: (.*)", output)[1])
    norms = np.linalg.norm(made["solution"], axis=1)
    wanted = (np.linalg.norm(made["solution_std"], axis=1) / norms).mean()
    assert spread == pytest.approx(wanted, rel=1e-3)
    out = ("--data", data, "--out", tmp_path / "v.npz")
    one = done("predict", *models_of[:2], *out)
    assert "among" not in one and "solution_std" not in contents(tmp_path / "v.npz").arrays
    assert "is given twice" in refused("predict", *models_of, *models_of[:2], *out)
    other = write_waves(tmp_path / "waves.npz")
    more = ("--state=u", *TRAIN, "--epochs=1", "--model=gno", "--out", tmp_path / "waves")
    done("train", "points", "--data", other, *more)
    line = refused("predict", *models_of, "--model", tmp_path / "waves", *out)
    assert "is no model of the same as" in line and "steps in time: yes, needs no" in line


@pytest.mark.exhaustive
def test_outputs_on_other_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, q = rng.random((5, 30, 3)), rng.random((5, 20, 3))
    path = tmp_path / "a.npz"
    np.savez(path, points=x, output_points=q, a=rng.random((5, 30)), outputs=q.sum(axis=2))
    options = [*TRAIN, "--epochs=2", "--precision=bfloat16", "--schedule=linear"]
    done("train", "points", "--data", path, *options, "--out", tmp_path / "run")
    done(
        "predict", "--model", tmp_path / "run", "--data", path, "--out", tmp_path / "u.safetensors"
    )
    made = gg.load_weights(tmp_path / "u.safetensors")
    assert made["outputs"].shape == (5, 20, 1) and (made["points"] == q).all()
    done("report", tmp_path / "run")


def test_sets_have_names_of_their_own(tmp_path: Path, monkeypatch) -> None:
    """Tests in a folder named "validation" are measured beside the held-out set of that name."""
    monkeypatch.chdir(tmp_path)
    data = write_samples(tmp_path / "a.npz")
    (tmp_path / "validation").mkdir()
    write_samples(tmp_path / "validation" / "b.npz", 3)
    run = ["train", "points", "--data", data, *TRAIN, "--epochs=1", "--out=run"]
    done(*run, "--test", "validation")
    sets = json.loads(Path("run/results.json").read_text())["sets"]
    assert [(s["name"], len(s["samples"])) for s in sets] == [
        ("validation", 1), (str(tmp_path / "validation"), 3),
    ]  # fmt: skip


@pytest.mark.exhaustive
def test_pictures_of_meshes_show_all_cells(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0]], float)
    cells = [("quad", np.array([[0, 1, 2, 3]])), ("triangle", np.array([[1, 4, 2]]))]
    for k in range(3):
        mesh = meshio.Mesh(x, cells, {"a": x[:, 0], "y": k * x[:, 1]})
        meshio.write(tmp_path / f"{k}.vtu", mesh)
    done("train", "points", "--data", tmp_path, *TRAIN, "--epochs=1", "--out", tmp_path / "run")
    shown = gg.load_weights(tmp_path / "run" / "examples.safetensors")["worst.triangles"]
    assert sorted(map(tuple, shown)) == [(0, 1, 2), (0, 2, 3), (1, 4, 2)]
    done("report", tmp_path / "run")


def test_early_stop_and_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    rng = np.random.default_rng(0)
    path = tmp_path / "noise.npz"
    np.savez(path, points=rng.random((4, 20, 2)), outputs=rng.standard_normal((4, 20)))
    options = [*TRAIN, "--epochs=60", "--patience=3", "--log=tensorboard"]
    output = done("train", "points", "--data", path, *options, "--out", tmp_path / "run")
    assert "stopped: no better for 3 epochs" in output
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    state = state_of(tmp_path / "run")
    assert state.finished and len(state.history) < 60
    again = done("train", "points", "--data", path, *options, "--out", tmp_path / "run")
    assert f"ended after epoch {len(state.history)}; more --epochs" in again
    assert len(state_of(tmp_path / "run").history) < 60

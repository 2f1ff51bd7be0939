# SPDX-License-Identifier: MIT
"""From files to a model in use: inspect, train points, predict, report."""

import html.parser
import json
import math
import pickle
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

import torch
from typer.testing import CliRunner, Result

import gnograd as gg
from gnograd import models
from gnograd.cli import config
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT, CheckpointError, State
from gnograd.cli.config import Schedule
from gnograd.cli.log import HISTORY, RESULTS, Epoch, Log
from gnograd.cli.point_problem import norms, relative_errors
from gnograd.cli.training import learning_rate, progress
from gnograd.data import Roles, contents, read
from memory import needs_linux, temporary_bytes

DOCS = Path(__file__).parent.parent / "docs"
TRAIN = ["--size=small", "--threads=1", "--batch=2", "--learning-rate=0.01"]


CHANNELS = 1000
"""Channels of large data, so that a training step is small beside them."""


def large_arrays(samples: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    a = np.tile(rng.standard_normal((100, CHANNELS)).astype("f4"), (samples, 4, 1))
    a *= 1 + np.arange(samples, dtype="f4")[:, None, None]
    return {"points": rng.random((400, 2)), "a": a, "b": a[..., :2] + 1}


def write_large(path: Path, samples: int) -> None:
    given = large_arrays(samples)
    if path.suffix == ".npz" and "compressed" in path.name:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in given.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array)
    elif path.suffix == ".npz":
        np.savez(path, **given)
    elif path.suffix == ".safetensors":
        gg.save_weights(path, given)
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in given.items():
                file.create_dataset(name, data=array, chunks=name == "a" or None)
    elif path.suffix == ".nc":
        import netCDF4

        with netCDF4.Dataset(path, "w") as file:
            for name, array in given.items():
                axes = [f"{name}_{k}" for k in range(array.ndim)]
                for axis, n in zip(axes, array.shape, strict=True):
                    file.createDimension(axis, n)
                file.createVariable(name, array.dtype, axes)[...] = array
    else:
        path.mkdir()
        for name, array in given.items():
            np.save(path / f"{name}.npy", array)


def use_of(path: Path, command: str):
    """Use of a large file, after that of a small one, which brings all that is in memory anyway."""
    gg.set_num_threads(1)
    torch.set_num_threads(1)

    def use(data: Path) -> list[None]:
        more = ["--out", data.with_suffix(".run"), "--epochs=1", *TRAIN]
        verb, options = ("inspect", [data]) if command == "inspect" else ("train", [])
        if command == "train":
            options = ["points", "--data", data, *more]
        done(verb, *options, "--inputs=a", "--outputs=b", "--model=gno")
        return []

    small = path.with_name("small" + path.suffix)
    write_large(small, 6)
    use(small)
    return lambda: use(path)


LARGE_FILES = ["large.npz", "compressed.npz", "large", "large.h5", "large.nc", "large.safetensors"]


@needs_linux
@pytest.mark.parametrize("name", LARGE_FILES)
def test_data_larger_than_memory(tmp_path: Path, name: str) -> None:
    """Only what is in use of a large file is in memory, in any format."""
    for module in {".h5": ["h5py"], ".nc": ["netCDF4"]}.get(Path(name).suffix, []):
        pytest.importorskip(module)
    path = tmp_path / name
    write_large(path, 90)  # 138 MiB
    command = "train" if name == "large.npz" else "inspect"
    assert temporary_bytes(use_of, path, command) < 130 << 20


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


# ---- a stranger's path ----


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


# ---- runs ----


def tensors(directory: Path) -> dict[str, np.ndarray]:
    return gg.load_weights(directory / CHECKPOINT)


def state_of(directory: Path) -> State:
    text = gg.load_weights_metadata(directory / CHECKPOINT)["state"]
    return State.of_entries({"state": np.array(text), **tensors(directory)})


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


# ---- what files mean ----


def trained(tmp_path: Path, data: Path, *options: str) -> tuple[list[str], float]:
    """Notes that train and inspect have on a file, and the held-out error."""
    run = ("train", "points", "--data", data, *TRAIN, "--fresh", *options)
    output = done(*run, "--out", tmp_path / "run")
    roles = [
        o
        for o in options
        if o.startswith(("--inputs", "--outputs", "--state", "--points", "--radius", "--model"))
    ]
    notes, seen = (
        [line for line in text.splitlines() if line.startswith(("note: ", "neighbours within "))]
        for text in (output, done("inspect", data, *roles))
    )
    assert notes == seen
    results = json.loads((tmp_path / "run" / RESULTS).read_text())
    notes = [line for line in notes if line.startswith("note: ")]
    return notes, float(np.mean([s["error"] for s in results["sets"][0]["samples"]]))


def test_a_channel_that_is_zero_does_no_harm(tmp_path: Path) -> None:
    """Vectors in a plane have a third component in the files of VTK."""
    meshio = pytest.importorskip("meshio")
    rng = np.random.default_rng(0)
    x = np.c_[rng.random((60, 2)), np.zeros(60)]
    cells = [("vertex", np.arange(60)[:, None])]
    noise = 1e-18 * rng.standard_normal(60)
    errors = {}
    for name, third in (("two", None), ("zero", np.zeros(60)), ("noise", noise)):
        (tmp_path / name).mkdir()
        rng = np.random.default_rng(1)
        for k in range(12):
            a = np.sin(x[:, 0] * rng.integers(1, 4) + rng.uniform(0, 6))
            b = [a + 2, -a - 2] + ([] if third is None else [third])
            mesh = meshio.Mesh(x, cells, {"a": a, "b": np.stack(b, axis=-1)})
            mesh.write(tmp_path / name / f"{k}.vtu")
        options = ("--outputs=b", "--model=gno", "--epochs=8")
        notes, errors[name] = trained(tmp_path, tmp_path / name, *options)
        assert len(notes) == (name != "two")
        assert all("b (3): component 2 is 0 everywhere" in note for note in notes)
    assert errors["zero"] == errors["noise"] < 1.5 * errors["two"]


def test_an_output_that_is_constant_is_given_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.npz"
    np.savez(path, points=rng.random((20, 2)), a=rng.random((6, 20)), b=np.full((6, 20), 0.1))
    notes, error = trained(tmp_path, path, "--outputs=b", "--epochs=1")
    assert error == 0 and "b (1): is 0.1 everywhere in float32; given back as it is" in notes[0]
    run = tmp_path / "run"
    done("predict", "--model", run, "--data", path, "--out", tmp_path / "b.npz")
    assert (np.load(tmp_path / "b.npz")["b"] == np.float32(0.1)).all()


def write_heat(path: Path, step: float, n: int = 5, force: bool = True) -> Path:
    """Points that are heated by a source that changes in time."""
    rng = np.random.default_rng(0)
    x, t = rng.random((20, 2)), 0.3 + step * np.arange(6)
    f = np.sin(9 * t[:, None] + rng.uniform(0, 6, (n, 1, 1))) * x[:, 0]
    u = np.concatenate([np.zeros((n, 1, 20)), (step * f).cumsum(axis=1)[:, :-1]], axis=1)
    np.savez(path, points=x, u=u, time=t, **({"f": f} if force else {"f": f[:, 0]}))
    return path


def test_inputs_and_times_of_trajectories(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    data, run = write_heat(tmp_path / "a.npz", 0.1), tmp_path / "run"
    options = ["--state=u", "--epochs=3", "--model=gno", *TRAIN]
    text = done("train", "points", "--data", data, *options, "--out", run)
    assert "inputs: f (1) in time; state: u (1) at 6 times; time step: 0.1" in text
    assert models.description_of(run)[0].layout.step == pytest.approx(0.1)
    predict = ("predict", "--model", run)
    done(*predict, "--data", data, "--out", tmp_path / "u.vtu")
    found = re.findall('timestep="(.*?)"', (tmp_path / "u.pvd").read_text())
    assert sorted({float(t) for t in found}) == pytest.approx(list(0.3 + 0.1 * np.arange(6)))
    done(*predict, "--data", data, "--out", tmp_path / "u.npz")
    assert np.load(tmp_path / "u.npz")["time"] == pytest.approx(0.3 + 0.1 * np.arange(6))
    # the source makes a difference, at its time
    made = [np.load(tmp_path / "u.npz")["u"]]
    given = dict(np.load(data))
    given["f"][:, 3] += 1
    np.savez(tmp_path / "b.npz", **given)
    done(*predict, "--data", tmp_path / "b.npz", "--out", tmp_path / "u.npz")
    made.append(np.load(tmp_path / "u.npz")["u"])
    assert (made[0][:, :4] == made[1][:, :4]).all() and (made[0][:, 4] != made[1][:, 4]).all()
    # from the first state on, with inputs for later
    np.savez(tmp_path / "c.npz", **given | {"u": given["u"][:, :1]})
    done(*predict, "--data", tmp_path / "c.npz", "--out", tmp_path / "u.npz")
    assert (np.load(tmp_path / "u.npz")["u"] == made[1]).all()
    line = refused(*predict, "--data", data, "--steps=7", "--out", tmp_path / "u.npz")
    assert (
        "a.npz, sample 0: inputs change in time and are there for 6 steps, but --steps is 7" in line
    )
    write_heat(tmp_path / "d.npz", 0.2)
    line = refused(*predict, "--data", tmp_path / "d.npz", "--out", tmp_path / "u.npz")
    assert "does not fit the model (time step: 0.2, needs 0.1)" in line
    np.savez(tmp_path / "e.npz", **{k: v for k, v in given.items() if k != "time"})
    text = done(*predict, "--data", tmp_path / "e.npz", "--out", tmp_path / "u.npz")
    assert "note: the data tells no times; a step is 0.1" in text
    assert np.load(tmp_path / "u.npz")["time"] == pytest.approx(0.1 * np.arange(6))


def test_one_trajectory_is_cut_with_its_inputs(tmp_path: Path) -> None:
    data = write_heat(tmp_path / "a.npz", 0.1, 1)
    done(
        "train",
        "points",
        "--data",
        data,
        "--state=u",
        *TRAIN,
        "--epochs=1",
        "--out",
        tmp_path / "r",
    )


def test_inputs_that_are_left_out_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {"points": rng.random((20, 2)), "a": rng.random((6, 19)), "b": rng.random((6, 20))}
    path = tmp_path / "a.npz"
    np.savez(path, **given)
    run = ("train", "points", "--data", path, "--outputs=b", *TRAIN, "--epochs=1", "--out")
    for command in ((*run, tmp_path / "run"), ("inspect", path, "--outputs=b")):
        line = refused(*command)
        assert "has no inputs ('a' has shape (6, 19), but 'points' has 20 points); say" in line
    assert not (tmp_path / "run" / "model.json").exists()
    done(*run, tmp_path / "run", "--inputs=")
    np.savez(path, **given, c=rng.random((6, 20)))
    notes, _ = trained(tmp_path, path, "--outputs=b", "--epochs=1")
    assert notes == ["note: 'a' is not used: has shape (6, 19), but 'points' has 20 points"]


def test_coordinates_and_layouts_are_options(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.npz"
    np.savez(
        path, lon=rng.random(20), lat=rng.random(20), a=rng.random((6, 20)), b=rng.random((6, 20))
    )
    run = ("train", "points", *TRAIN, "--epochs=1", "--fresh", "--out", tmp_path / "run")
    named = ("--points=lon,lat", "--outputs=b")
    fits = "6 samples of 20 points, 2-D, the same for all; inputs: a (1); outputs: b (1)"
    assert fits in done("inspect", path, *named)
    done(*run, "--data", path, *named)
    predict = ("predict", "--model", tmp_path / "run", "--out", tmp_path / "b.npz")
    done(*predict, "--data", path, "--points=lon,lat")
    np.savez(path, nu=rng.random((6, 8, 8)), tensor=rng.random((6, 1, 8, 8)))
    named = ("--grid=closed", "--layout=s,c,x,y", "--outputs=tensor")
    assert "6 samples of 64 points, 2-D" in done("inspect", path, *named)
    done(*run, "--data", path, *named)
    done(*predict, "--data", path, "--grid=closed", "--layout=s,c,x,y")
    for options, text in (
        (("--layout=s,x",), "needs --grid"),
        (("--grid=closed", "--layout=s,q"), "needs letters of s,t,p,x,y,z,c"),
        (("--grid=closed", "--points=nu"), "goes without --points"),
    ):
        for command in (("inspect", path), (*run, "--data", path), (*predict, "--data", path)):
            result = gnograd(*command, *options)
            assert result.exit_code == 2 and text in result.output


def test_inspect_says_what_train_does(tmp_path: Path) -> None:
    """Meaning of every axis, samples that are held out, refusals, and a picture."""
    rng = np.random.default_rng(0)
    path, run = tmp_path / "a.npz", tmp_path / "run"
    x, u = rng.random((20, 2)), rng.random((6, 4, 20))
    np.savez(path, points=x, u=u, f=rng.random((6, 20)), v=rng.random((20, 2)), time=np.arange(4))
    options = (path, "--state=u", "--held-out=0.5", "--seed=3")
    text = done("inspect", *options, "--picture", tmp_path / "a [$x$].png")
    for words in (
        "20 points, 2", "6 samples, 4 times, 20", "6 samples, 20", "│ 4 times ",
            "training: 3 samples; held out: 3 samples",
    ):  # fmt: skip
        assert words in text
    assert (tmp_path / "a [$x$].png").read_bytes().startswith(b"\x89PNG")
    trained = done("train", "points", "--data", *options, *TRAIN, "--epochs=1", "--out", run)
    told = "(?:targets|normalisation|neighbours within).*"
    shown = re.findall(told, text)
    assert len(shown) == 3 and shown == re.findall(told, trained)
    assert "training: 3 samples of 20 points" in trained
    # the same refusals
    for command in (("inspect", path), ("train", "points", "--data", path, "--out", run)):
        both = "--held-out=0.3", "--validation", path
        result = gnograd(*command, "--state=u", *both)
        assert result.exit_code == 2 and "of no use beside --validation" in result.output
    np.savez(path, points=x, u=1e30 * u, f=rng.random((6, 20)))
    for command in (("inspect", path), ("train", "points", "--data", path, "--out", run)):
        assert "bring it to other units" in refused(*command, "--state=u")
    np.savez(path, points=x, b=u[:3, 0], a=u[:3, 1])
    other = ("--validation", path, "--outputs=b")
    assert "held out: 3 samples" in done("inspect", path, *other)
    np.savez(path, points=x, b=u[0, 0], a=u[0, 1])
    assert "is one sample, from which none" in done("inspect", path, "--outputs=b")


def test_samples_of_training_are_told_in_other_sets(tmp_path: Path) -> None:
    """Copies of samples, whatever files and arrays are called, and steps of a trajectory."""
    rng = np.random.default_rng(0)
    x, a, b = rng.random((20, 2)), rng.random((6, 20)), rng.random((6, 20))
    data, copy, other, run = (tmp_path / n for n in ("a.npz", "b.npz", "c.npz", "run"))
    np.savez(data, points=x, a=a, b=b)
    np.savez(copy, coords=x.astype("f4"), a=a[2:4].astype("f4"), b=[b[2], b[2]])
    np.savez(other, points=x, a=a + 1, b=b)
    roles = ("--inputs=a", "--outputs=b")
    text = done("inspect", data, *roles, "--validation", copy)
    told = f"1 sample of 2 also in the training data.*: {copy}, sample 0, as {data}, sample 2$"
    assert re.search(f"^warning: validation has {told}", text, re.MULTILINE)
    assert "warning" not in done("inspect", data, *roles, "--validation", other)
    assert "warning" not in done("inspect", data, *roles)
    sets = ("--test", copy, "--test", other, "--out", run)
    text = done("train", "points", "--data", data, *roles, *TRAIN, "--epochs=1", *sets)
    assert re.search(f"^warning: {copy} has {told}", text, re.MULTILINE)
    assert text.count("warning") == 1
    found = json.loads((run / RESULTS).read_text())["sets"]
    assert [each["also in training"] for each in found] == [0, 1, 0]
    done("report", run)
    page = (run / "report.html").read_text()
    assert f"1 of 2 samples of {copy} are in the training data, too" in page
    # a file twice, and so on both sides of the split
    text = done("inspect", data, data, *roles, "--held-out=0.5")
    assert re.search("validation has [1-6] samples? of 6 also in", text)
    # windows of trajectories share steps, or a state; a state of rest has no steps
    u = rng.random((2, 9, 20))
    u[:, :2] = 0
    np.savez(data, points=x, u=u[:1, :7], f=u[:1, 0])
    np.savez(copy, points=x, u=u[:, 5:], f=u[:, 0])
    np.savez(other, points=x, u=u[:, 6:], f=u[:, 0])
    text = done("inspect", data, "--state=u", "--validation", copy)
    assert re.search("validation has 1 sample of 2 with steps that are in .*, sample 0, as", text)
    assert "warning" not in done("inspect", data, "--state=u", "--validation", other)
    assert "warning" not in done("inspect", data, "--state=u")
    np.savez(other, points=x, u=np.concatenate([0 * u[1:, :2], u[1:]], axis=1), f=u[1:, 0])
    assert "warning" not in done("inspect", data, "--state=u", "--validation", other)


def test_data_unlike_that_of_training_are_told(tmp_path: Path) -> None:
    """Lengths, inputs and parameters that are in other units than the training data."""
    rng = np.random.default_rng(0)
    path, run = tmp_path / "a.npz", tmp_path / "run"
    given = {
        "points": 3 + 2 * rng.random((20, 2)), "a": 290 + 10 * rng.random((6, 20, 2)),
        "b": rng.random((6, 20)), "parameters": rng.random((6, 1)),
    }  # fmt: skip
    np.savez(path, **given)
    sets = ("--data", path, "--test", path, "--outputs=b", "--out", run)
    text = done("train", "points", *sets, *TRAIN, "--epochs=1", "--model=gno")
    assert "units" not in text
    for name, change, told in [
        ("a", lambda a: a, None),
        ("a", lambda a: 290 + 0 * a, None),
        ("a", lambda a: a - 273.15, r"'a', on average 22\.\d+, is 9\d.* of the deviations"),
        ("parameters", lambda p: 1e3 * p, "'parameters', on average"),
        ("parameters", lambda p: 1e-3 * p, r"'parameters' varies 0\.00\d+ times as much"),
        ("points", lambda x: x + 0.5, None),
        ("points", lambda x: 1e3 * x, r"points reach [45][.\d]*e\+03 times as far"),
        ("points", lambda x: 4 + 1e-2 * (x - 4), r"points fill 0\.0\d+ of the length of the box"),
    ]:
        np.savez(path, **given | {name: change(given[name])})
        text = done("predict", "--model", run, "--data", path, "--out", tmp_path / "p.npz")
        assert ("units" in text) == (told is not None)
        assert told is None or re.search(f"^warning: .*: {told}", text, re.MULTILINE), text


def test_units_of_files_are_those_of_the_training(tmp_path: Path) -> None:
    """Test data, and data for a model, whose file tells another unit than that of training."""
    h5py, rng, run = pytest.importorskip("h5py"), np.random.default_rng(0), tmp_path / "run"
    for name, unit in (("a", "K"), ("b", "degC"), ("c", "kelvin"), ("d", None)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["points"], file["T"] = rng.random((20, 2)), rng.random((6, 20))
            file["y"] = rng.random((6, 20))
            if unit is not None:
                file["T"].attrs["units"] = unit
    a, b, c, d = (tmp_path / f"{name}.h5" for name in "abcd")
    train = ("train", "points", "--data", a, "--out", run, *TRAIN, "--epochs=1", "--model=gno")
    assert "('T' in degC, needs K)" in refused(*train, "--test", b)
    assert "('T' in degC, needs K)" in refused("inspect", a, b)
    done(*train, "--test", c, "--test", d)
    predict = ("predict", "--model", run, "--out", tmp_path / "p.npz", "--data")
    assert "b.h5, sample 0: does not fit the model ('T' in degC, needs K)" in refused(*predict, b)
    done(*predict, c)
    done(*predict, d)


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        ("gno", ("receptive field: .*, in 3 layers of ", "learning rate: 0.01, ")),
        ("mgn", ("receptive field: 2 steps to the 8 nearest", "learning rate: 0.003, ")),
        ("gino", ("receptive field: all points, through a grid of 32", "; typically 4, ")),
        ("magno", ("receptive field: all points, through a grid of 32",)),
        ("bsa", ("receptive field: all points, by attention",)),
        ("transolver", ("receptive field: all points, by attention", "learning rate: 0.003, ")),
    ],
)
def test_what_is_chosen_is_said(tmp_path: Path, monkeypatch, model: str, lines) -> None:
    """Targets, learning rate, length and receptive field of a training without options."""
    monkeypatch.setattr("gnograd.cli.points.STEPS", 3)
    monkeypatch.setattr("gnograd.cli.points.EPOCHS", (1, 200))
    rng, path, run = np.random.default_rng(0), tmp_path / "a.npz", tmp_path / "run"
    a = rng.standard_normal((70, 12))
    np.savez(path, points=rng.random((12, 1)), a=a, u=a + 0.1 * rng.standard_normal((70, 12)))
    given = ("--data", path, "--outputs=u", "--held-out=0.9", "--threads=1", "--size=small")
    text = done("train", "points", *given, "--model", model, "--out", run, "--batch=400")
    assert "epochs: 3, each of 1 with 400 samples or times: 3 training steps" in text
    assert re.search("targets: differences of u from a, which vary 0[.](1|09)", text)
    for line in lines:
        assert re.search(line, text)
    results = json.loads((run / RESULTS).read_text())
    assert results["epochs"] == 3 and results["settings"]["learning_rate"] > 0


def test_options_are_kept_and_taken_from_a_file(tmp_path: Path) -> None:
    data, first, again = write_samples(tmp_path / "a.npz"), tmp_path / "first", tmp_path / "again"
    done("train", "points", "--data", data, "--model=gno", *TRAIN, "--epochs=1", "--out", first)
    kept = json.loads((first / "config.json").read_text())
    assert kept["model"] == "gno" and kept["learning_rate"] == 0.01 and kept["data"] == [str(data)]
    done("train", "points", "--config", first / "config.json", "--out", again)
    weights = [(run / "model.safetensors").read_bytes() for run in (first, again)]
    assert weights[0] == weights[1]
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"data": [str(data)], "size": "small", "learning-rate": 0.02}))
    done(
        "train", "points", "--config", path, "--epochs=1", "--size=small", "--out", again, "--fresh"
    )
    assert json.loads((again / "config.json").read_text())["learning_rate"] == 0.02
    for text, said in (
        ("{", "needs JSON"), ("[]", "needs names of options"), ('{"rate": 1}', "'rate', which is"),
        ('{"size": [1]}', "'size' has a value"), ('{"epochs": "x"}', "as an integer"),
    ):  # fmt: skip
        path.write_text(text)
        result = gnograd("train", "points", "--data", data, "--config", path, "--out", again)
        assert result.exit_code == 2 and said in " ".join(result.output.replace("│", "").split())


def test_meshes_masks_and_cells_are_options(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    rng = np.random.default_rng(0)
    x = np.array([[i, j, 0.0] for j in range(4) for i in range(4)])
    quads = [[k, k + 1, k + 5, k + 4] for k in range(11) if k % 4 < 3]
    for k in range(4):
        a = rng.random(16)
        a[15] = np.nan
        c = rng.random(9)
        mesh = meshio.Mesh(x, [("quad", quads)], {"a": a, "b": 2 * a}, {"c": [c], "d": [2 * c]})
        mesh.write(tmp_path / f"{k}.vtu")
    run = ("train", "points", "--data", tmp_path, "--model=mgn", *TRAIN, "--epochs=1", "--fresh")
    for named, said in (
        (("--mask=nan", "--outputs=b"), "edges of the mesh: 2.93 a point, 2 at least"),
        (("--cells", "--outputs=d"), "edges of the mesh: 2.67 a point, 2 at least"),
    ):
        out = tmp_path / named[0]
        assert said in done("inspect", tmp_path, "--model=mgn", *named)
        assert said in done(*run, *named, "--out", out)
        predict = ("predict", "--model", out, named[0])
        done(*predict, "--data", tmp_path / "0.vtu", "--out", out / "made.vtu")
        made = meshio.read(out / "made.vtu")
        assert np.array_equal(made.points, x) and made.cells_dict["quad"].tolist() == quads
        if named[0] == "--cells":
            assert np.isfinite(made.cell_data["d"][0]).all() and not made.point_data
        else:
            assert np.flatnonzero(np.isnan(made.point_data["b"])).tolist() == [15]
    np.savez(tmp_path / "a.npz", points=x[:, :2], a=rng.random(16))
    line = refused("predict", "--model", tmp_path / "--mask=nan", "--data", tmp_path / "a.npz",
                   "--out", tmp_path / "b.npz")  # fmt: skip
    assert "a.npz: has no cells, but mgn passes messages along the edges" in line


def test_neighbours_are_counted(tmp_path: Path) -> None:
    """A radius that holds no points is said, before hours are spent on it."""
    data, pattern = (
        write_samples(tmp_path / "a.npz"),
        r"neighbours within (\S+): (\S+) a point, (\d+)",
    )
    assert "neighbours within" not in done("inspect", data, "--model=mgn")
    numbers = re.search(pattern, done("inspect", data, "--model=gno")).groups()
    run = ("train", "points", "--data", data, *TRAIN, "--epochs=1", "--out", tmp_path / "run")
    assert re.search(pattern, done(*run, "--model=gno")).groups() == numbers
    x, radius = (
        np.load(data)["points"],
        models.description_of(tmp_path / "run")[0].options["radius"],
    )
    distances = np.linalg.norm(x[:, None] - x, axis=2)
    degree = (distances <= radius * (np.ptp(x, axis=0).max() / 2)).sum(axis=1) - 1
    assert (
        float(numbers[1]) == pytest.approx(degree.mean(), rel=0.01)
        and int(numbers[2]) == degree.min()
    )
    notes, _ = trained(tmp_path, data, "--radius=1e-9", "--epochs=1")
    assert notes == ["note: 0 neighbours a point are too few; a larger --radius helps"]


@pytest.mark.parametrize("unit", [1e30, 1e-25])
def test_units_that_float32_cannot_square_are_said(tmp_path: Path, unit: float) -> None:
    data = write_samples(tmp_path / "a.npz")
    given = dict(np.load(data))
    np.savez(data, **given | {"solution": unit * given["solution"]})
    line = refused("train", "points", "--data", data, *TRAIN, "--out", tmp_path / "run")
    assert "'solution' has numbers around " in line and "bring it to other units" in line


def test_what_float32_rounds_away_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, a = rng.random((20, 2)), rng.random((6, 20))
    path = tmp_path / "a.npz"
    np.savez(path, points=x, a=1e3 + a, p=101325 + a, b=1e9 + a, c=a)
    text = done("inspect", path, "--outputs=c")
    assert re.search(r"p \(1\): float32 rounds it by up to 0\.0\d of its deviation", text)
    assert "b (1): is 1e+09 everywhere in float32" in text
    assert "note: a (1)" not in text


def test_rows_of_times_in_a_table_are_not_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((20, 2))
    rows = [(step, *at, *rng.random(2)) for step in range(3) for at in x]
    path = tmp_path / "a.csv"
    told = "each of 20 places has 3 points or more"
    for k in (60, 20):
        np.savetxt(path, rows[:k], delimiter=",", header="step,x,y,a,u", comments="")
        assert (told in done("inspect", path, "--outputs=u")) == (k == 60)
    assert "places" not in done("inspect", path, "--outputs=u", "--points=x,y,step")


def test_names_of_commands_can_be_pasted(tmp_path: Path) -> None:
    run = tmp_path / "a run [bold]"
    data = write_samples(tmp_path / "a.npz")
    text = done("train", "points", "--data", data, *TRAIN, "--epochs=1", "--out", run)
    assert f"gnograd report '{run}'" in text


def test_samples_in_columns_are_guessed(tmp_path: Path) -> None:
    """Samples in columns, as in MATLAB, are refused with a hint to transpose."""
    savemat = pytest.importorskip("scipy.io").savemat
    rng = np.random.default_rng(0)
    savemat(
        tmp_path / "a.mat", {k: rng.random((20, m)) for k, m in (("points", 2), ("a", 6), ("y", 6))}
    )
    line = refused(
        "train", "points", "--data", tmp_path / "a.mat", *TRAIN, "--out", tmp_path / "run"
    )
    assert "('a' (20, 6) is 6 channels of it; if these are samples, transpose it)" in line


# ---- refusals ----


def spoil_checkpoint(run: Path, data: Path) -> None:
    """One bit anywhere in a checkpoint is noticed: of the state, a name, a number."""
    path = run / CHECKPOINT
    good = path.read_bytes()
    start = 8 + int.from_bytes(good[:8], "little")
    places = (good.index(b"crc32") + 9, good.index(b"best_error"), start + 100, len(good) // 2)
    for place in (*places, len(good) - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(CheckpointError, match=r"cannot be read \(damaged\); choose another"):
            State.load(run, {}, {}, 0)
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    line = refused("train", "points", "--data", data, *TRAIN, "--epochs=2", "--out", run)
    assert f"{path}: cannot be read (damaged)" in line
    path.write_bytes(good)
    assert state_of(run).finished


def spoil_report(run: Path) -> None:
    """Files of a training that say anything: one line each."""
    good = json.loads((run / RESULTS).read_text())
    rows = (run / HISTORY).read_text()
    for name, change in (
        ("training", 7), ("training", ["a"]), ("epochs", 1e400), ("seconds", 10**400),
        ("sets", []), ("sets", [{"name": 3, "samples": []}]), ("settings", None),
        ("memory", "x"), ("best_epoch", 10**400), ("device", {}),
    ):  # fmt: skip
        (run / RESULTS).write_text(json.dumps(good | {name: change}))
        assert "a file is damaged" in refused("report", run)
    (run / RESULTS).write_text("[" * 3000 + "]" * 3000)
    assert "a file is damaged" in refused("report", run)
    (run / RESULTS).unlink()
    (run / RESULTS).symlink_to("/dev/zero")
    assert f"{RESULTS}: is not a file" in refused("report", run)
    (run / RESULTS).unlink()
    (run / RESULTS).mkdir()
    assert f"{RESULTS}: is not a file" in refused("report", run)
    (run / RESULTS).rmdir()
    (run / RESULTS).write_text(json.dumps(good))
    (run / HISTORY).write_text(rows + "9" * 200_000)
    assert "a file is damaged" in refused("report", run)
    (run / HISTORY).write_text(rows)
    done("report", run)


def test_names_in_files_are_no_orders_to_a_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;TITLE\x07b\x1b[2J[bold]\u202e\nc"
    path = write_samples(tmp_path / "a.npz")
    with np.load(path) as file:
        np.savez(path, **{n: x for n, x in file.items() if n != "a"}, **{name: file["a"]})
    folder = tmp_path / "\x1b[2Jtest [bold]"
    folder.mkdir()
    test = write_samples(folder / "b.npz")
    np.savez(test, **np.load(path))
    run = tmp_path / "run\x1b[2J"
    for output in (
        done("inspect", path),
        done(
            "train", "points", "--data", path, "--test", folder, *TRAIN, "--epochs=1", "--out", run
        ),
        done("predict", "--model", run, "--data", test, "--out", run / "a.vtu"),
        done("report", run),
        refused("inspect", path, "--outputs", name + "d"),
    ):
        assert all(line.isprintable() for line in output.splitlines()) and "\x1b" not in output
    assert "a?]0;TITLE?b?[2J[bold]" in done("inspect", path)


def test_what_does_not_fit_is_said_in_a_line(tmp_path: Path) -> None:
    data = write_samples(tmp_path / "a.npz")
    run = tmp_path / "run"
    done("train", "points", "--data", data, *TRAIN, "--epochs=1", "--out", run)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "b.npz", points=rng.random((9, 3)), a=rng.random(9))
    np.savez(tmp_path / "c.npz", points=rng.random((9, 2)), b=rng.random(9))

    def predict(file: str, out: str = "u.npz", *more: str) -> str:
        return refused(
            *("predict", "--model", run, "--data", tmp_path / file, "--out", tmp_path / out, *more)
        )

    assert "b.npz: does not fit the model (dimensions: 3, needs 2)" in predict("b.npz")
    assert "c.npz: array 'a' is missing (the file has:" in predict("c.npz")
    assert "u.txt: files are written that end in .vtu" in predict("a.npz", "u.txt")
    assert "--steps is for models of states" in predict("a.npz", "u.npz", "--steps=2")
    assert not (tmp_path / "u.npz").exists()
    line = refused("predict", "--model", tmp_path, "--data", data, "--out", tmp_path / "u.npz")
    assert "holds no model, needs the --out of a training that has ended" in line
    before = data.read_bytes()
    assert "is among the --data, and would be overwritten" in predict("a.npz", "a.npz")
    assert data.read_bytes() == before
    assert "is missing; needs the --out of a training" in refused("report", tmp_path)
    assert "has no array called 'outputs'" in refused("inspect", tmp_path / "c.npz")
    (tmp_path / "evil.npz").write_bytes(pickle.dumps([1]))
    assert "is a Python pickle" in refused("inspect", tmp_path / "evil.npz")
    assert "is missing; needs the --out of a training" in refused("report", data)
    spoil_checkpoint(run, data)
    spoil_report(run)
    (run / HISTORY).write_text("epoch,learning_rate,loss,held_out,seconds\n")
    assert "history.csv: ends after 0 epochs of 1" in refused("report", run)
    (run / RESULTS).write_text("{")
    assert "a file is damaged (results.json: " in refused("report", run)
    (run / CHECKPOINT).write_bytes(b"nothing")
    line = refused("train", "points", "--data", data, *TRAIN, "--epochs=1", "--out", run)
    assert "cannot be read (damaged)" in line


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--model=fno"], "needs one of gno, gino, magno, mgn, bsa"),
        (["--state=u", "--outputs=u"], "goes without --outputs"),
        (["--noise=0.1"], "needs --state"),
        (["--period=a"], "needs numbers"),
        (["--grid=open"], "needs closed or periodic"),
        (["--radius=-1"], "needs a positive number"),
        (["--radius=1", "--model=magno"], "magno's follow from its grid"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: list[str], text: str) -> None:
    result = gnograd("train", "points", "--data", tmp_path, *options, "--out", tmp_path / "run")
    assert result.exit_code == 2 and text in result.output


def test_what_is_stopped_is_continued_only_where_it_can_be(tmp_path: Path, monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gnograd.cli.inspect.read", stop)
    result = gnograd("inspect", write_samples(tmp_path / "a.npz"))
    assert result.exit_code == 130 and result.output.endswith("Stopped.\n")


# ---- parts ----


def test_names_are_those_of_the_help() -> None:
    assert tuple(models.MODELS) == models.NAMES and config.SIZES == models.SIZES


def test_lines_of_a_log_have_columns() -> None:
    """Also where a number ends with zeros, or is small."""
    rows = [
        Epoch(9, 0.1, 0.12345, 0.0305, 9.6), Epoch(10, 0.1, 1.2e-5, 1.0, 100.2),
        Epoch(100, 0.1, 0.0, 12345.678, 9999.0), Epoch(1, 0.1, 0.1, math.inf, 0.0),
    ]  # fmt: skip
    lines = [progress(row, 100) for row in rows]
    assert lines[0] == "epoch   9/100  loss 0.1235    held out 0.03050      10 s"
    assert {len(line) for line in lines} == {len(lines[0])}
    assert {line.index("held") for line in lines} == {lines[0].index("held")}


def test_schedules() -> None:
    for schedule in Schedule:
        assert learning_rate(1.0, 0.0, schedule) < 0.2 < learning_rate(1.0, 0.04, schedule)
    assert learning_rate(1.0, 0.99, Schedule.CONSTANT) == 1.0
    assert learning_rate(1.0, 1.0, Schedule.LINEAR) == pytest.approx(0.01)


def test_errors_leave_out_channels_that_are_zero() -> None:
    truth = np.stack([np.ones(4), np.zeros(4)], axis=1)
    assert relative_errors(truth + 0.5, truth) == pytest.approx(0.5)
    assert relative_errors(truth[:, 1:] + 1, truth[:, 1:]) == pytest.approx(2.0)
    assert relative_errors(np.full((4, 1), np.nan), np.ones((4, 1))) == np.inf


def test_norms_of_many_rows_keep_their_digits() -> None:
    x = 0.1 * (0.5 + torch.rand(1_000_000, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(norms(x), x.double().square().sum(0).sqrt(), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("epochs", "finished", "cycles", "left"),
    [
        (100, False, [(100, 1.0)], True),
        (150, False, [(150, 1.0)], True),
        (100, True, [(100, 1.0)], False),
        (150, True, [(50, 1.0), (150, 1.0)], True),
        (30, False, [(100, 1.0)], False),
    ],
)
def test_more_epochs(epochs, finished, cycles, left) -> None:
    state = State({}, [None] * 50, [(100, 1.0)], finished=finished)
    state.plan(epochs, 1.0)
    assert state.cycles == cycles and state.finished is not left

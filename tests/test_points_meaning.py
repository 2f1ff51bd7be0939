# SPDX-License-Identifier: MIT
"""Meanings that train and inspect give to the arrays of files, and what they say of them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

from gnograd import models
from gnograd.cli.log import RESULTS
from points_runs import TRAIN, done, gnograd, refused, write_samples


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

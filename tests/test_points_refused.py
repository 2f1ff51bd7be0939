# SPDX-License-Identifier: MIT
"""Runs that are spoiled, and data and options that do not fit."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

from gnograd.cli.checkpoint import CHECKPOINT, CheckpointError, State
from gnograd.cli.log import HISTORY, RESULTS
from points_runs import TRAIN, done, gnograd, refused, state_of, write_samples


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

# SPDX-License-Identifier: MIT
"""The command line: short runs end to end, continued runs, refusals."""

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")


import gnograd as gg
from cli_runs import gnograd
from gnograd import cli
from gnograd.cli import green
from gnograd.cli.checkpoint import CHECKPOINT, EARLIER, CheckpointError, State
from gnograd.cli.darcy import MODEL, PICTURE, SAMPLE
from gnograd.cli.files import atomic
from gnograd.cli.job import CONFIG
from gnograd.cli.log import HISTORY, Epoch, Log
from gnograd.cli.training import learning_rate

DARCY = [
    *("--samples=4", "--test-samples=2", "--grid=21", "--nodes=40", "--radius=0.3", "--batch=3"),
    *("--width=6", "--hidden=5", "--layers=2", "--epochs=4"),
]
GREEN = ["--nodes=16", "--modes=8", "--hidden=8", "--batch=4", "--epochs=2"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def state(directory: Path) -> dict[str, np.ndarray]:
    return gg.load_weights(directory / CHECKPOINT)


def about(directory: Path) -> dict[str, object]:
    """State without its arrays."""
    return json.loads(gg.load_weights_metadata(directory / CHECKPOINT)["state"])


def same_bits(a: Path, b: Path) -> bool:
    first, second = state(a), state(b)
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


# ---- short runs ----


def test_info() -> None:
    result = gnograd("info")
    assert result.exit_code == 0
    assert "compiler" in result.output


def test_version() -> None:
    program = [sys.executable, "-m", "gnograd", "--version"]
    said = subprocess.run(program, capture_output=True, text=True, check=True)
    assert said.stdout == gnograd("--version").output == f"gnograd {gg.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [["--version"], ["info"], ["train", "poisson", "--help"]])
def test_a_full_disk_behind_standard_output_is_told_in_a_line(options: list[str]) -> None:
    with open("/dev/full", "w") as full:
        program = [sys.executable, "-m", "gnograd", *options]
        said = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert said.returncode == 1
    expected = "gnograd: standard output cannot be written (No space left on device)\n"
    assert said.stderr == expected


def test_seeds_that_are_too_large_are_told() -> None:
    result = gnograd("train", "points", "--data=a.npz", f"--seed={2**63}")
    assert result.exit_code == 2 and "--seed" in result.output


def test_help_loads_no_job() -> None:
    program = (
        "import sys; from gnograd.cli.app import app; "
        "print({'scipy', 'matplotlib', 'torch'} & {*sys.modules})"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout == "set()\n"


def test_help_has_the_default_of_symmetry() -> None:
    text = gnograd("train", "darcy", "--help").output
    words = text.replace("│", " ").split()
    assert "[default: (with generated samples)]" in " ".join(words)


def test_threads_that_cannot_be_are_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(n: int) -> None:
        raise ValueError("set_num_threads: too many")

    monkeypatch.setattr(gg, "set_num_threads", refuse)
    result = gnograd("train", "green", "--threads=99999")
    assert result.exit_code == 2
    assert "--threads: set_num_threads: too many" in result.output


def test_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gnograd.cli.app")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert "needs typer; install it with: pip install typer rich" in str(stopped.value)
    assert "gnograd[" not in str(stopped.value)  # there is no such project to install from yet


def test_darcy_leaves_what_it_promises(tmp_path: Path) -> None:
    result = gnograd("train", "darcy", "--out", tmp_path, *DARCY)
    assert result.exit_code == 0, result.output
    for text in ("40 random points", "11 x 11 of 21 x 21", "all 21 x 21", "darcy.png"):
        assert text in result.output
    names = {CHECKPOINT, CONFIG, HISTORY, PICTURE, MODEL, SAMPLE}
    assert {p.name for p in tmp_path.iterdir()} == names
    assert (tmp_path / "darcy.png").read_bytes().startswith(b"\x89PNG")
    with open(tmp_path / HISTORY, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    assert all(0.0 < float(row["loss"]) < 10.0 for row in rows)


def test_darcy_learns(tmp_path: Path) -> None:
    result = gnograd(
        *("train", "darcy", "--out", tmp_path, *DARCY),
        *("--samples=20", "--epochs=30", "--width=16", "--hidden=16"),
    )
    assert result.exit_code == 0, result.output
    with open(tmp_path / HISTORY, newline="") as stream:
        loss = [float(row["loss"]) for row in csv.DictReader(stream)]
    assert loss[-1] < 0.5 * loss[0]


@pytest.mark.parametrize("more", [[], ["--double"], ["--torch", "--double"]])
def test_green_leaves_what_it_promises(tmp_path: Path, more: list[str]) -> None:
    if "--torch" in more:
        pytest.importorskip("torch")
    result = gnograd("train", "green", "--out", tmp_path, *GREEN, *more)
    assert result.exit_code == 0, result.output
    assert "relative L2 error of the learned kernel" in result.output
    assert {p.name for p in tmp_path.iterdir()} == {CHECKPOINT, CONFIG, HISTORY, "green.png"}


def test_exact_kernel_solves_the_problem() -> None:
    n = 2000
    points = (np.arange(n) + 0.5) / n
    f = np.sin(3 * np.pi * points)
    u = green.exact_kernel(points[:, None], points) @ f / n
    np.testing.assert_allclose(u, f / (3 * np.pi) ** 2, atol=1e-6)


# ---- continued runs ----


@pytest.mark.exhaustive
@pytest.mark.parametrize(("job", "options"), [("darcy", DARCY), ("green", GREEN)])
def test_same_seed_same_bits_whatever_the_threads(
    tmp_path: Path, job: str, options: list[str]
) -> None:
    for name, threads in (("one", 1), ("two", 2)):
        result = gnograd("train", job, "--out", tmp_path / name, *options, f"--threads={threads}")
        assert result.exit_code == 0, result.output
    assert same_bits(tmp_path / "one", tmp_path / "two")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("job", "options"), [("darcy", [*DARCY, "--epochs=25"]), ("green", [*GREEN, "--epochs=6"])]
)
def test_killed_run_continues_with_the_same_bits(
    tmp_path: Path, job: str, options: list[str]
) -> None:
    command = ["train", job, *options]
    whole = gnograd(*command, "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    program = [sys.executable, "-c", "from gnograd.cli import main; main()"]
    process = subprocess.Popen(
        [*program, *command, "--out", str(tmp_path / "killed")], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300.0
    while not (tmp_path / "killed" / CHECKPOINT).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    continued = gnograd(*command, "--out", tmp_path / "killed")
    assert continued.exit_code == 0, continued.output
    assert "continuing after epoch" in continued.output
    assert same_bits(tmp_path / "whole", tmp_path / "killed")
    assert not list((tmp_path / "killed").glob(".*"))


def test_finished_run_is_only_evaluated(tmp_path: Path) -> None:
    command = ("train", "darcy", "--out", tmp_path, *DARCY)
    first = gnograd(*command)
    before = (tmp_path / CHECKPOINT).read_bytes()
    second = gnograd(*command)
    assert second.exit_code == 0, second.output
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    table = first.output.index("resolution")
    assert first.output[table:] in second.output


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    command = ("train", "darcy", "--out", tmp_path, *DARCY)
    assert gnograd(*command).exit_code == 0
    refused = gnograd(*command, "--width=7", "--seed=3")
    assert refused.exit_code == 1
    assert "width is 7, was 6" in refused.output
    assert "seed is 3, was 0" in refused.output
    assert "epochs" not in refused.output
    assert gnograd(*command, "--width=7", "--fresh").exit_code == 0


def test_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    command = ("train", "green", "--out", tmp_path, *GREEN)
    assert gnograd(*command).exit_code == 0
    content = (tmp_path / CHECKPOINT).read_bytes()
    (tmp_path / CHECKPOINT).write_bytes(content[:-100])
    refused = gnograd(*command)
    assert refused.exit_code == 1
    assert "cannot be read" in refused.output


def test_diverging_training_says_what_to_change(tmp_path: Path) -> None:
    result = gnograd("train", "green", "--out", tmp_path, *GREEN, "--learning-rate=1e30")
    assert result.exit_code == 1
    assert "the loss is not finite in epoch 1" in result.output
    assert "Traceback" not in result.output


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"), atomic(path) as stream:
        stream.write(b"new")
        raise RuntimeError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_state_survives_the_disk(tmp_path: Path) -> None:
    arrays = {"parameter/a": np.float32([1.5, np.pi]), "mean_square/a": np.float32([0, 1])}
    history = [Epoch(1, 0.1, 0.5, np.inf, 2.0)]
    saved = State({"width": 3}, history, [(4, 0.1)], 1, np.inf, False, {"steps": 3}, arrays)
    saved.save(tmp_path)
    loaded = State.load(tmp_path, {"width": 3}, arrays, 3)
    assert loaded is not None and loaded.arrays.keys() == arrays.keys()
    assert all(loaded.arrays[name].tobytes() == a.tobytes() for name, a in arrays.items())
    loaded.arrays = arrays
    assert loaded == saved
    with pytest.raises(CheckpointError, match="depth is 1, was not set; width is 4, was 3"):
        State.load(tmp_path, {"width": 4, "depth": 1}, arrays, 3)
    assert State.load(tmp_path / "elsewhere", {}, arrays, 3) is None


@pytest.mark.parametrize("name", [EARLIER, CHECKPOINT])
def test_run_of_an_earlier_version_is_refused(tmp_path: Path, name: str) -> None:
    """A checkpoint that only its own version can continue, also of points."""
    if name == EARLIER:
        np.savez(tmp_path / name, config=np.array("{}"))
    else:
        gg.save_weights(tmp_path / name, {"x": np.ones(1)}, metadata={"state": "{}", "crc32": ""})
    before = (tmp_path / name).read_bytes()
    refused = gnograd("train", "green", "--out", tmp_path, *GREEN)
    assert refused.exit_code == 1
    line = refused.output.replace("\n", " ")
    assert f"{name}: was made by another version of gnograd" in line and "--fresh" in line
    assert (tmp_path / name).read_bytes() == before and not (tmp_path / HISTORY).exists()
    assert gnograd("train", "green", "--out", tmp_path, *GREEN, "--fresh").exit_code == 0
    assert "continuing after epoch 2" in gnograd("train", "green", "--out", tmp_path, *GREEN).output


TRAININGS = [("green", GREEN), ("darcy", [*DARCY, "--epochs=2"])]


@pytest.mark.parametrize(("job", "options"), TRAININGS)
def test_options_of_a_run_make_another(tmp_path: Path, job: str, options: list[str]) -> None:
    assert gnograd("train", job, "--out", tmp_path / "a", *options, "--seed=3").exit_code == 0
    kept = json.loads((tmp_path / "a" / CONFIG).read_text())
    assert kept["seed"] == 3 and kept["epochs"] == 2 and "fresh" not in kept
    command = ("train", job, "--config", tmp_path / "a" / CONFIG, "--out", tmp_path / "b")
    assert gnograd(*command).exit_code == 0
    assert same_bits(tmp_path / "a", tmp_path / "b")
    again = gnograd(*command, "--seed=4")
    assert again.exit_code == 1 and "seed is 4, was 3" in again.output
    (tmp_path / "c.json").write_text('{"widht": 3}')
    refused = gnograd("train", job, "--config", tmp_path / "c.json")
    assert refused.exit_code == 2 and "'widht', which is no option" in refused.output


def test_options_are_kept_from_the_start_and_replaced_with_the_run(tmp_path: Path) -> None:
    command = ("train", "green", "--out", tmp_path, *GREEN)
    assert gnograd(*command, "--learning-rate=1e30").exit_code == 1  # in the first epoch
    assert json.loads((tmp_path / CONFIG).read_text())["learning_rate"] == 1e30
    assert gnograd(*command).exit_code == 0
    before = (tmp_path / CONFIG).read_text()
    assert gnograd(*command, "--fresh", "--learning-rate=1e30").exit_code == 1
    assert (tmp_path / CONFIG).read_text() == before
    assert gnograd(*command, "--fresh", "--seed=7").exit_code == 0
    assert json.loads((tmp_path / CONFIG).read_text())["seed"] == 7


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize(("job", "options"), TRAININGS)
def test_every_job_has_the_settings_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, options: list[str], torch: bool
) -> None:
    """Decay, clipping, average, schedule, more epochs and an early end, with equal bits."""
    if torch:
        pytest.importorskip("torch")
    more = ["--weight-decay=0.1", "--clip=0.5", "--ema=0.9", "--schedule=linear"]
    command = ["train", job, *options, *(["--torch"] if torch else [])]
    assert gnograd(*command, *more, "--out", tmp_path / "whole").exit_code == 0
    assert gnograd(*command, "--out", tmp_path / "plain").exit_code == 0
    whole, plain = state(tmp_path / "whole"), state(tmp_path / "plain")
    assert {n.replace("parameter", "average") for n in plain if n[0] == "p"} <= whole.keys()
    assert not same_bits(tmp_path / "whole", tmp_path / "plain")

    write = Log.write

    def stopped(self: Log, history: list[Epoch]) -> None:
        write(self, history)
        if len(history) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", stopped)
        assert gnograd(*command, *more, "--out", tmp_path / "cut").exit_code == 130
    assert (
        "continuing after epoch 1 of 2"
        in gnograd(*command, *more, "--out", tmp_path / "cut").output
    )
    assert same_bits(tmp_path / "whole", tmp_path / "cut")
    longer = gnograd(*command, *more, "--epochs=4", "--out", tmp_path / "cut")
    assert longer.exit_code == 0, longer.output
    assert [end for end, _ in about(tmp_path / "cut")["cycles"]] == [2, 4]
    rates = [row["learning_rate"] for row in about(tmp_path / "cut")["history"]]
    assert rates[2] > rates[1]


def test_early_end_of_a_job(tmp_path: Path) -> None:
    command = ("train", "green", "--out", tmp_path, *GREEN, "--epochs=60", "--patience=2")
    first = gnograd(*command, "--learning-rate=0")
    assert "stopped: no better for 3 epochs" in first.output  # measured every third
    done = len(about(tmp_path)["history"])
    assert done < 60
    assert f"ended after epoch {done}; more --epochs" in gnograd(*command).output


@pytest.mark.exhaustive
def test_fresh_keeps_the_old_checkpoint_until_there_is_a_new_one(tmp_path: Path) -> None:
    command = ("train", "green", "--out", tmp_path, *GREEN)
    assert gnograd(*command).exit_code == 0
    before = (tmp_path / CHECKPOINT).read_bytes()
    assert gnograd(*command, "--fresh", "--learning-rate=1e30").exit_code == 1
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    anew = gnograd(*command, "--fresh", "--seed=1")
    assert "continuing" not in anew.output
    assert (tmp_path / CHECKPOINT).read_bytes() != before


# ---- the user's data ----


def test_own_data_is_trained_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = 1.0 + rng.random((6, 21, 21))
    np.savez(tmp_path / "data.npz", coefficient=a, solution=1.0 / a)
    result = gnograd(
        *("train", "darcy", "--out", tmp_path / "run", *DARCY),
        *("--data", tmp_path / "data.npz", "--grid=50"),
    )
    assert result.exit_code == 0, result.output
    assert "never seen" not in result.output
    assert about(tmp_path / "run")["settings"]["grid"] == 21


def test_all_test_samples_are_tested_on_a_coarse_grid(tmp_path: Path) -> None:
    a = 1.0 + np.random.default_rng(0).random((27, 9, 9))
    np.savez(tmp_path / "data.npz", coefficient=a, solution=1.0 / a)
    result = gnograd(
        *("train", "darcy", "--out", tmp_path / "run", *DARCY, "--epochs=1"),
        *("--data", tmp_path / "data.npz", "--samples=2", "--test-samples=25"),
    )
    assert result.exit_code == 0, result.output
    assert len([line for line in result.output.splitlines() if "│ 25 " in line]) == 3


def missing(arrays: dict[str, np.ndarray]) -> None:
    del arrays["solution"]


def not_finite(arrays: dict[str, np.ndarray]) -> None:
    arrays["coefficient"][1, 2, 3] = np.inf


def too_few(arrays: dict[str, np.ndarray]) -> None:
    arrays.update({name: array[:5] for name, array in arrays.items()})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (missing, "array 'solution' is missing"),
        (not_finite, "array 'coefficient' is not finite"),
        (too_few, "array 'coefficient' holds 5 samples, but 4 for training and 2 for testing"),
    ],
)
def test_bad_data_is_refused_in_one_line(
    tmp_path: Path, spoil: Callable[[dict[str, np.ndarray]], None], message: str
) -> None:
    arrays = {name: np.ones((6, 21, 21)) for name in ("coefficient", "solution")}
    spoil(arrays)
    np.savez(tmp_path / "data.npz", **arrays)
    result = gnograd(
        *("train", "darcy", "--out", tmp_path / "run", *DARCY),
        *("--data", tmp_path / "data.npz"),
    )
    assert result.exit_code == 1
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


# ---- schedule ----


def test_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate(1.0, t) for t in np.linspace(0.0, 1.0, 101)]
    peak = int(np.argmax(rates))
    assert rates[peak] == pytest.approx(1.0, abs=0.01)
    assert np.all(np.diff(rates[: peak + 1]) > 0)
    assert np.all(np.diff(rates[peak:]) < 0)
    assert rates[-1] == pytest.approx(0.01)

# SPDX-License-Identifier: MIT
"""Training jobs on several processes: the numbers of one, and all end together."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner

import gnograd as gg
from gnograd.cli import poisson, poisson_problem
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT
from gnograd.cli.config import DarcyConfig, Lesson, Parallel, PoissonConfig
from gnograd.cli.darcy import MODEL, PICTURE, SAMPLE, DarcyModel
from gnograd.cli.darcy_data import DarcyData
from gnograd.cli.darcy_graphs import DarcyGraphs
from gnograd.cli.engine import Engine, make_engine
from gnograd.cli.files import LOCK
from gnograd.cli.job import CONFIG
from gnograd.cli.log import HISTORY
from gnograd.cli.poisson import PoissonModel
from gnograd.cli.processes import ALONE, Processes
from gnograd.distributed.communicator import Alone
from gnograd.distributed.launchers import Launch, launched
from processes import Launcher, by_mpiexec, by_torchrun

SECONDS = 300
"""Limit for a program on a machine that does much else."""

DARCY = [
    *("train", "darcy", "--double", "--samples=5", "--test-samples=3", "--grid=9", "--nodes=12"),
    *("--radius=0.4", "--width=4", "--hidden=4", "--layers=2", "--batch=3", "--epochs=40"),
]
"""80 steps, of three samples and of two."""
SHORT = ["--samples=10", "--test-samples=1", "--batch=2", "--epochs=4"]
"""20 steps of two samples, with fewer measurements."""
POISSON = [
    *("train", "poisson", "--double", "--samples=2", "--test-samples=2", "--epochs=1"),
    *("--nodes=16", "--queries=8", "--width=4", "--hidden=4", "--layers=1", "--batch=3"),
]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNOGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@dataclass
class Ended:
    """A program that has ended."""

    status: int
    output: str
    errors: str


def one(*arguments: str | Path) -> Ended:
    """The command on one process."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return Ended(result.exit_code, result.stdout, result.stderr)


def start(launch: Launcher, n: int, *arguments: str | Path) -> subprocess.Popen[str]:
    prefix, environment = launch(n)
    return subprocess.Popen(
        [*prefix, "-m", "gnograd", *(str(a) for a in arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def several(launch: Launcher, n: int, *arguments: str | Path) -> Ended:
    """The command on several processes."""
    with start(launch, n, *arguments) as process:
        output, errors = process.communicate(timeout=SECONDS)
    return Ended(process.returncode, output, errors)


def saved(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """State of a run, and its arrays with those of the history."""
    state = json.loads(gg.load_weights_metadata(directory / CHECKPOINT)["state"])
    columns = {
        f"history/{name}": np.array([row[name] for row in state["history"]])
        for name in ("epoch", "learning_rate", "loss", "held_out")
    }
    return state, gg.load_weights(directory / CHECKPOINT) | columns


def close(directory: Path, other: Path, tolerance: float = 1e-12) -> None:
    """Parameters, moments and history are those of another run."""
    (state, got), (other_state, expected) = saved(directory), saved(other)
    assert state["settings"] == other_state["settings"]
    assert state["numbers"] == other_state["numbers"]
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        scale = np.nanmax(np.abs(array))
        np.testing.assert_allclose(got[name], array, rtol=0, atol=tolerance * scale, err_msg=name)


def same_bits(directory: Path, other: Path) -> bool:
    (_, first), (_, second) = saved(directory), saved(other)
    return all(first[name].tobytes() == second[name].tobytes() for name in first)


class Place(Alone):
    """One of several processes of a machine, which hears of the others only that they are there."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def all_gather(self, values: ArrayLike) -> np.ndarray:
        return np.tile(values, (self.size, 1))

    def sum_in_place(self, flat: Any, empty_like: Any) -> None:
        """Leave out what the others have."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Directory of a run on one process, with options."""
    runs: dict[tuple[str, ...], Path] = {}

    def run(*options: str) -> Path:
        if options not in runs:
            runs[options] = tmp_path_factory.mktemp("alone")
            ended = one(*DARCY, *options, "--out", runs[options])
            assert ended.status == 0, ended.output
        return runs[options]

    return run


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Directory of a run on two processes, and what it printed."""
    directory = tmp_path_factory.mktemp("two")
    ended = several(by_mpiexec, 2, *DARCY, "--out", directory)
    assert (ended.status, ended.errors) == (0, "")
    return directory, ended.output


# ---- the numbers of one process ----


def test_two_processes_train_what_one_does(
    alone: Callable[..., Path], by_two: tuple[Path, str]
) -> None:
    directory, output = by_two
    close(directory, alone())
    assert output.count("epoch 40/40") == output.count("picture: ") == 1
    names = {CHECKPOINT, CONFIG, HISTORY, PICTURE, MODEL, SAMPLE}
    assert {p.name for p in directory.iterdir()} == names


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("launch", "n", "options"),
    [
        (by_mpiexec, 3, ["--epochs=8"]),  # a step has two samples: one process none
        (by_mpiexec, 3, ["--parallel=graph", *SHORT]),
        (by_torchrun, 2, ["--torch", "--parallel=graph", *SHORT, "--epochs=3"]),
    ],
)
def test_processes_train_what_one_does(
    tmp_path: Path, alone: Callable[..., Path], launch: Launcher, n: int, options: list[str]
) -> None:
    if launch is by_torchrun:
        pytest.importorskip("torch")
    ended = several(launch, n, *DARCY, *options, "--out", tmp_path)
    assert ended.status == 0, ended.errors
    close(tmp_path, alone(*(o for o in options if o != "--parallel=graph")))
    assert ended.output.count("picture: ") == 1


@pytest.mark.exhaustive
def test_poisson_shares_problems(tmp_path: Path) -> None:
    ended = several(by_mpiexec, 2, *POISSON, "--out", tmp_path / "two")
    assert (ended.status, ended.errors) == (0, "")
    whole = one(*POISSON, "--out", tmp_path / "one")
    assert whole.status == 0, whole.output
    close(tmp_path / "two" / "solutions", tmp_path / "one" / "solutions")
    assert (tmp_path / "two" / "poisson.png").exists()


def poisson_model(lesson: Lesson, engine: Engine, processes: Processes) -> PoissonModel:
    config = PoissonConfig(nodes=12, queries=6, width=3, hidden=3, layers=1, batch=5)
    case = poisson.solve(poisson_problem.draw(np.random.default_rng(0)))
    return PoissonModel(config, lesson, [case], [case], engine, processes)


def darcy_model(engine: Engine, processes: Processes) -> DarcyModel:
    config = DarcyConfig(samples=2, nodes=9, test_samples=1, width=3, hidden=3, layers=1, batch=2)
    field = np.random.default_rng(0).uniform(1.0, 2.0, (3, 9, 9)).astype(np.float32)
    graphs = DarcyGraphs(DarcyData(field, 1.0 / field), 2, 0.5, True, processes)
    return DarcyModel(config, graphs, engine)


@pytest.mark.parametrize("torch", [False, True])
@pytest.mark.parametrize("model", [darcy_model, *(partial(poisson_model, x) for x in Lesson)])
def test_parts_of_a_step_sum_to_it(
    model: Callable[..., PoissonModel | DarcyModel], torch: bool
) -> None:
    if torch:
        pytest.importorskip("torch")

    def step(processes: Processes) -> list[np.ndarray]:
        job = model(make_engine(torch=torch, dtype="float64"), processes)
        loss = job.loss(next(job.batches(np.random.default_rng(1))))
        loss.backward()
        gradients = [p.grad for p in job.parameters.values()]
        return [
            job.engine.value(loss),
            *(np.zeros(1) if g is None else np.asarray(g) for g in gradients),
        ]

    parts = [step(Processes(Place(rank, 3), Parallel.DATA)) for rank in range(3)]
    for whole, *others in zip(step(ALONE), *parts, strict=True):
        scale = float(np.abs(whole).max())
        np.testing.assert_allclose(sum(others), whole, rtol=0, atol=1e-13 * scale)


def test_any_number_of_processes_reads_a_checkpoint(by_two: tuple[Path, str]) -> None:
    directory, output = by_two
    before = (directory / CHECKPOINT).read_bytes()
    ended = one(*DARCY, "--out", directory)
    assert "continuing after epoch 40 of 40" in ended.output
    assert output[output.index("resolution") :] in ended.output
    assert (directory / CHECKPOINT).read_bytes() == before


@pytest.mark.exhaustive
def test_nothing_shared_is_one_process_at_work(tmp_path: Path, alone: Callable[..., Path]) -> None:
    ended = several(by_mpiexec, 2, *DARCY, "--parallel=none", "--out", tmp_path)
    assert (ended.status, ended.errors) == (0, "")
    assert same_bits(tmp_path, alone())


# ---- ends ----


def wait_for_checkpoint(process: subprocess.Popen[str], directory: Path) -> int:
    """Number of the first process, when it has written a checkpoint."""
    deadline = time.monotonic() + SECONDS
    while not (directory / CHECKPOINT).exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return int((directory / LOCK).read_text().split()[0])


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def beside(process: int) -> list[int]:
    """Processes with the same parent, without it."""
    found = []
    for other in (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        try:
            if other != process and parent(other) == parent(process):
                found.append(other)
        except OSError:  # has ended
            continue
    return found


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.exhaustive
def test_killed_run_continues_with_the_same_bits(tmp_path: Path, by_two: tuple[Path, str]) -> None:
    with start(by_mpiexec, 2, *DARCY, "--out", tmp_path) as process:
        os.kill(wait_for_checkpoint(process, tmp_path), signal.SIGKILL)
        assert process.wait(SECONDS) != 0
    assert len(saved(tmp_path)[0]["history"]) < 40
    continued = several(by_mpiexec, 2, *DARCY, "--out", tmp_path)
    assert continued.status == 0, continued.errors
    assert "continuing after epoch" in continued.output
    assert same_bits(tmp_path, by_two[0])
    assert not list(tmp_path.glob(".*"))


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("launch", "n", "number"),
    [
        (by_mpiexec, 3, signal.SIGKILL),
        (by_mpiexec, 2, signal.SIGINT),
        (by_torchrun, 2, signal.SIGKILL),
    ],
)
def test_all_end_with_one(tmp_path: Path, launch: Launcher, n: int, number: int) -> None:
    if launch is by_torchrun:
        pytest.importorskip("torch")
    with start(launch, n, *DARCY, "--epochs=1000000", "--out", tmp_path) as process:
        first = wait_for_checkpoint(process, tmp_path)
        others = beside(first)
        assert len(others) == n - 1
        os.kill(others[0], number)
        _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert not any(is_there(p) for p in (first, *others))
    assert "gloo" not in errors
    assert saved(tmp_path)[0]["history"]


def test_bad_data_is_refused_once(tmp_path: Path) -> None:
    field = np.ones((8, 9, 9))
    np.savez(tmp_path / "data.npz", coefficient=np.inf * field, solution=field)
    ended = several(
        by_mpiexec, 2, *DARCY, "--data", tmp_path / "data.npz", "--out", tmp_path / "run"
    )
    assert ended.status == 1
    (line,) = ended.errors.splitlines()
    assert line.startswith(f"gnograd: {tmp_path / 'data.npz'}: array 'coefficient' is not finite")
    assert not (tmp_path / "run").exists()


@pytest.mark.exhaustive
def test_what_all_see_is_said_once(tmp_path: Path) -> None:
    ended = several(by_mpiexec, 2, *DARCY, "--learning-rate=1e300", "--out", tmp_path)
    assert ended.status == 1
    assert ended.errors.splitlines() == [
        "gnograd: the loss is not finite in epoch 1, a smaller --learning-rate may help"
    ]
    ended = several(by_mpiexec, 2, "train", "poisson", "--parallel=graph")
    assert ended.status == 2
    assert ended.errors.count("--parallel") == 1


def test_a_job_of_one_process_refuses_several(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    data, out = tmp_path / "a.npz", tmp_path / "run"
    rng = np.random.default_rng(0)
    np.savez(data, points=rng.random((20, 2)), a=rng.random((4, 20)), y=rng.random((4, 20)))
    text = "2 processes were started, but this command divides nothing among them; start it once"
    for command in (["train", "points", "--data", data, "--out", out], ["train", "green"]):
        ended = several(by_mpiexec, 2, *map(str, command))
        assert ended.status == 1 and ended.errors.count(text) == 1
    assert not out.exists()


@pytest.mark.exhaustive
def test_processes_that_do_not_find_each_other_are_told(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    _, environment = by_mpiexec(1)
    told = []
    for rank in "01":
        started = {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": "2"}
        command = [sys.executable, "-m", "gnograd", *DARCY, "--out", str(tmp_path / "run")]
        told.append(
            subprocess.run(
                command, env=environment | started, capture_output=True, text=True, timeout=SECONDS
            )
        )
    assert [ended.returncode for ended in told] == [1, 1]
    first, second = (ended.stderr for ended in told)
    assert first.startswith("gnograd: 2 processes were started, but MPI (")
    assert "connects 1; start them by the mpiexec of this MPI" in first
    assert second == ""
    assert not (tmp_path / "run").exists()


# ---- who takes what ----


@pytest.mark.parametrize(
    ("said", "launch"),
    [
        ({}, Launch(0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, Launch(1, 3)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, Launch(2, 4)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "9"}, Launch(5, 8)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "9"}, Launch(0, 1)),  # a script of sbatch
        (
            {
                **{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
                **{"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4"},
            },
            Launch(3, 4, by_torch=True),
        ),
    ],
)
def test_launchers_are_known(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], launch: Launch
) -> None:
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI_", "SLURM_", "TORCHELASTIC_")):
            monkeypatch.delenv(name)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert launched() == launch


def test_every_sample_has_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for n in (0, 1, 5, 12):
        for size in (1, 2, 3, 7):
            several = [Processes(Place(rank, size), Parallel.DATA) for rank in range(size)]
            shares = [list(range(n))[p.share(n)] for p in several]
            assert [k for share in shares for k in share] == list(range(n))
            assert max(map(len, shares)) <= -(-n // size)
            assert [p.place for p in several] == list(range(size))
            assert {p.threads for p in several} == {0 if size == 1 else max(1, 8 // size)}
    assert Processes(Place(1, 2), Parallel.GRAPH).share(5) == slice(5)

# SPDX-License-Identifier: MIT
"""Directories of the jobs: two runs that want one, locks, links, interrupts."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from cli_runs import GREEN, PROGRAM, gnograd, refused
from gnograd import weights
from gnograd.cli import files
from gnograd.cli.checkpoint import CHECKPOINT
from gnograd.cli.files import atomic
from gnograd.cli.job import CONFIG
from gnograd.cli.log import HISTORY, Epoch, Log


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A long run in ``tmp_path / "run"`` with a checkpoint."""
    long = [*GREEN, "--epochs=100000"]
    process = subprocess.Popen(
        [*PROGRAM, "train", "green", *long, "--out", str(tmp_path / "run")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # a shell has its background jobs ignore it, and so would this child
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 300.0
    while not (tmp_path / "run" / CHECKPOINT).exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield process
    process.kill()
    process.communicate()


def test_second_run_in_a_directory_is_refused(
    tmp_path: Path, running: subprocess.Popen[bytes]
) -> None:
    for options in (GREEN, [*GREEN, "--fresh"]):
        result = gnograd("train", "green", "--out", tmp_path / "run", *options)
        refused(result, f"{tmp_path / 'run'}: another run is at work there (process {running.pid} ")
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=300)
    assert (running.returncode, errors) == (130, b"")
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {CHECKPOINT, CONFIG, HISTORY}


def test_interrupt_waits_for_all_files_of_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Log.write

    def interrupted(self: Log, history: Sequence[Epoch]) -> None:
        signal.raise_signal(signal.SIGINT)
        write(self, history)

    monkeypatch.setattr(Log, "write", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert gnograd("train", "green", "--out", tmp_path, *GREEN).exit_code == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert {p.name for p in tmp_path.iterdir()} == {CHECKPOINT, CONFIG, HISTORY}
    assert [row[:2] for row in (tmp_path / HISTORY).read_text().splitlines()[1:]] == ["1,"]


def test_killed_run_leaves_no_lock(tmp_path: Path, running: subprocess.Popen[bytes]) -> None:
    running.kill()
    running.wait()
    assert (tmp_path / "run" / files.LOCK).exists()  # nobody holds it
    result = gnograd("train", "green", "--out", tmp_path / "run", *GREEN, "--fresh")
    assert result.exit_code == 0, result.output
    assert not list((tmp_path / "run").glob(".*"))


def test_runs_of_one_job_share_its_directory(tmp_path: Path) -> None:
    with files.locked(tmp_path / "solutions"):
        result = gnograd("train", "poisson", "--out", tmp_path)
        refused(result, f"{tmp_path / 'solutions'}: another run", f"(process {os.getpid()} on ")


def test_only_own_leftovers_are_removed(tmp_path: Path) -> None:
    own = tmp_path / f".{CHECKPOINT}.0123456789abcdef.gnograd-part"
    others = [".my-download.part", ".checkpoint.npz.4651.part", ".x.gnograd-part", "y.part"]
    for name in (own.name, *others):
        (tmp_path / name).touch()
    assert gnograd("train", "green", "--out", tmp_path, *GREEN).exit_code == 0
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {CHECKPOINT, CONFIG, HISTORY, "green.png", *others}


def test_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, victim = tmp_path / "file", tmp_path / "victim"
    victim.write_text("whole")
    with atomic(path) as stream:
        (part,) = tmp_path.glob(".file.*")
        stream.write(b"first")
    monkeypatch.setattr(weights.secrets, "token_hex", lambda n: part.name.split(".")[2])
    part.symlink_to(victim)
    with pytest.raises(files.FileError, match="File exists"), atomic(path) as stream:
        stream.write(b"second")
    assert (path.read_text(), victim.read_text()) == ("first", "whole")


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_planted_lock_is_refused(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    (tmp_path / "run").mkdir()
    link(victim, tmp_path / "run" / files.LOCK)
    refused(gnograd("train", "green", "--out", tmp_path / "run", *GREEN), str(tmp_path / "run"))
    assert victim.read_text() == "whole"


def test_directory_without_locks_is_worked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    assert gnograd("train", "green", "--out", tmp_path, *GREEN).exit_code == 0
    assert {p.name for p in tmp_path.iterdir()} == {CHECKPOINT, CONFIG, HISTORY, "green.png"}

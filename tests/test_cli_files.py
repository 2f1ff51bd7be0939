# SPDX-License-Identifier: MIT
"""Files of the jobs: damaged and hostile ones, full disks, directories that two want."""

import io
import json
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from typer.testing import CliRunner, Result

from gnograd import weights
from gnograd.cli import checkpoint, darcy_data, files
from gnograd.cli.app import app
from gnograd.cli.checkpoint import CHECKPOINT, HISTORY, Epoch, write_history
from gnograd.cli.darcy_data import DataError
from gnograd.cli.files import atomic

GREEN = ["--nodes=8", "--modes=4", "--hidden=4", "--batch=2", "--epochs=2"]
DARCY = [
    *("--samples=2", "--test-samples=1", "--grid=9", "--nodes=9", "--batch=2"),
    *("--width=3", "--hidden=3", "--layers=1", "--epochs=1"),
]
PROGRAM = [sys.executable, "-c", "from gnograd.cli import main; main()"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def gnograd(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result: Result, *texts: str) -> None:
    """One line says which file is wrong, and how."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    (line,) = result.output.splitlines()
    assert line.startswith("gnograd: ")
    for text in texts:
        assert text in line
    assert "pickle=" not in line and "unsafe" not in line


# ---- files that may hold anything ----


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return (open, (str(self.path), "w"))


def flag(content: bytes, central: int, local: int, value: int) -> bytes:
    """Change two bytes of all headers of a zip file."""
    new = bytearray(content)
    for signature, offset in ((b"PK\1\2", central), (b"PK\3\4", local)):
        at = content.find(signature)
        while at >= 0:
            new[at + offset : at + offset + 2] = struct.pack("<H", value)
            at = content.find(signature, at + 1)
    return bytes(new)


def with_members(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Change the bytes of every array."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as new:
        for name, member in members.items():
            new.writestr(name, change(member))
    return stream.getvalue()


def huge(_: bytes) -> bytes:
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + bytes(80)


def oversized_members(content: bytes) -> bytes:
    """Members that say to be as long as their headers ask for."""
    new = bytearray(with_members(content, huge))
    for signature, offset in ((b"PK\1\2", 20), (b"PK\3\4", 18)):
        at = new.find(signature)
        while at >= 0:
            new[at + offset : at + offset + 8] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
            at = new.find(signature, at + 1)
    return bytes(new)


def zip_of(name: str, member: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as new:
        new.writestr(name, member)
    return stream.getvalue()


def one_array() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones(3))
    return stream.getvalue()


SPOILED: dict[str, Callable[[bytes, Path], bytes]] = {
    "empty": lambda content, trap: b"",
    "truncated": lambda content, trap: content[: len(content) // 2],
    "one array": lambda content, trap: one_array(),
    "MATLAB": lambda content, trap: b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(600),
    "HDF5": lambda content, trap: b"\x89HDF\r\n\x1a\n".ljust(600),
    "pickle": lambda content, trap: pickle.dumps(Trap(trap)),
    "pickled members": lambda content, trap: with_members(
        content, lambda member: pickle.dumps(Trap(trap))
    ),
    "PyTorch": lambda content, trap: zip_of("model/data.pkl", pickle.dumps(Trap(trap))),
    "no members": lambda content, trap: b"PK\5\6" + bytes(18),
    "empty members": lambda content, trap: with_members(content, lambda member: b""),
    "text members": lambda content, trap: with_members(content, lambda member: b"text" * 50),
    "huge header": lambda content, trap: with_members(content, huge),
    "huge members": lambda content, trap: oversized_members(content),
    "deep header": lambda content, trap: with_members(
        content, lambda member: b"\x93NUMPY\1\0" + struct.pack("<H", 5000) + b"(" * 5000
    ),
    "long header": lambda content, trap: with_members(
        content, lambda member: b"\x93NUMPY\2\0" + struct.pack("<I", 20000) + b" " * 20000
    ),
    "encrypted": lambda content, trap: flag(content, 8, 6, 1),
    "compressed by a strange method": lambda content, trap: flag(content, 10, 8, 97),
    "compressed by BZIP2": lambda content, trap: flag(content, 10, 8, 12),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trained")
    assert gnograd("train", "green", "--out", directory, *GREEN).exit_code == 0
    return directory / CHECKPOINT


@pytest.mark.parametrize("kind", SPOILED)
def test_spoiled_checkpoint_is_refused(kind: str, trained: Path, tmp_path: Path) -> None:
    spoiled = SPOILED[kind](trained.read_bytes(), tmp_path / "trap")
    (tmp_path / CHECKPOINT).write_bytes(spoiled)
    result = gnograd("train", "green", "--out", tmp_path, *GREEN)
    refused(result, str(tmp_path / CHECKPOINT), "start anew with --fresh")
    assert [p.name for p in tmp_path.iterdir()] == [CHECKPOINT]
    assert (tmp_path / CHECKPOINT).read_bytes() == spoiled


@pytest.mark.parametrize("kind", SPOILED)
def test_spoiled_data_is_refused_and_a_spoiled_cache_made_anew(kind: str, tmp_path: Path) -> None:
    made = darcy_data.generate(2, 1, 9, 0, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(SPOILED[kind](path.read_bytes(), tmp_path / "trap"))
    with pytest.raises(DataError) as error:
        darcy_data.load(path)
    assert str(path) in str(error.value)
    assert "pickle=" not in str(error.value) and "unsafe" not in str(error.value)
    again = darcy_data.generate(2, 1, 9, 0, tmp_path)
    np.testing.assert_array_equal(again.solution, made.solution)
    np.testing.assert_array_equal(darcy_data.load(path).solution, made.solution)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["MATLAB", "PyTorch", "huge header", "encrypted"])
def test_spoiled_data_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data.mat"
    np.savez(path.with_suffix(".npz"), coefficient=np.ones((3, 9, 9)), solution=np.ones((3, 9, 9)))
    content = path.with_suffix(".npz").read_bytes()
    path.write_bytes(SPOILED[kind](content, tmp_path / "trap"))
    result = gnograd("train", "darcy", "--data", path, "--out", tmp_path / "runs" / "x", *DARCY)
    refused(result, str(path), *([f"is a {kind} file"] if kind in {"MATLAB", "PyTorch"} else []))
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "trap").exists()


def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CHECKPOINT)
    result = gnograd("train", "green", "--out", tmp_path, *GREEN)
    refused(result, f"{tmp_path / CHECKPOINT}: is not a file")


# ---- checkpoints that say what cannot be ----

Entries = dict[str, np.ndarray]
WEIGHT, MOMENT, SQUARE = "state/parameter/U", "state/mean/U", "state/mean_square/U"


def put(name: str, value: Callable[[np.ndarray], object]) -> Callable[[Entries], None]:
    def change(entries: Entries) -> None:
        entries[name] = np.asarray(value(entries[name]))

    return change


def longer_history(entries: Entries) -> None:
    for name in list(entries):
        if name.startswith("history/"):
            entries[name] = np.repeat(entries[name][-1:], 8)
    entries["history/epoch"] = np.arange(1, 9)
    entries["state/steps"] = np.array(8 * 50)


def without(name: str) -> Callable[[Entries], None]:
    def change(entries: Entries) -> None:
        del entries[name]

    return change


def nan(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("config", lambda c: "[]"), "the settings"),
        (put("config", lambda c: "7"), "the settings"),
        (put("config", lambda c: "{"), "the settings"),
        (put("config", lambda c: "[" * 100000), "the settings"),
        (put("config", lambda c: np.ones(3)), "the settings"),
        (put("config", lambda c: '{"x": "\\u001b[2J"}'), "x is not set, was ?[2J"),
        (without("config"), "'config' is missing"),
        (without("history/loss"), "'history/loss' is missing"),
        (put("history/loss", lambda a: a[:-1]), "history/loss"),
        (put("history/loss", lambda a: a[0]), "history/loss"),
        (put("history/loss", nan), "'history/loss' is not finite"),
        (put("history/epoch", lambda a: a + 5), "history/epoch"),
        (put("history/epoch", lambda a: a.astype(complex)), "history/epoch"),
        (put("history/epoch", lambda a: a[:0]), "history/epoch"),
        (put("history/epoch", lambda a: 2), "history/epoch"),
        (longer_history, "its history has 8 epochs, the run 2"),
        (without(WEIGHT), "parameter/U' is missing"),
        (without(MOMENT), "mean/U' is missing"),
        (put(WEIGHT, lambda a: a.T), "'parameter/U' is float32 of shape (4, 3)"),
        (put(WEIGHT, lambda a: a + 0j), "'parameter/U' is complex64"),
        (put(WEIGHT, lambda a: a.astype(float)), "'parameter/U' is float64"),
        (put(WEIGHT, nan), "'parameter/U' is not finite"),
        (put(MOMENT, lambda a: a[:, :-1]), "'mean/U' is float32 of shape (3, 3)"),
        (put(MOMENT, nan), "'mean/U' is not finite"),
        (put(SQUARE, lambda a: -1.0 - a), "'mean_square' is negative"),
        (put("state/steps", lambda s: -5), "'steps' is -5, needs 100"),
        (put("state/steps", lambda s: s + 0.5), "'steps' is float64"),
        (put("state/steps", lambda s: [s, s]), "'steps' is int64 of shape (2,)"),
    ],
)
def test_impossible_checkpoint_is_refused(
    trained: Path, tmp_path: Path, change: Callable[[Entries], None], message: str
) -> None:
    with np.load(trained) as file:
        entries = dict(file)
    change(entries)
    np.savez(tmp_path / CHECKPOINT, **entries)
    result = gnograd("train", "green", "--out", tmp_path, *GREEN)
    refused(result, str(tmp_path / CHECKPOINT), message, "start anew with --fresh")


def test_every_cut_is_refused(trained: Path, tmp_path: Path) -> None:
    content = trained.read_bytes()
    for length in range(0, len(content), 997):
        (tmp_path / CHECKPOINT).write_bytes(content[:length])
        refused(gnograd("train", "green", "--out", tmp_path, *GREEN), str(tmp_path / CHECKPOINT))


# ---- one directory, one process ----


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
    assert names == {CHECKPOINT, HISTORY}


def test_interrupt_waits_for_all_files_of_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(directory: Path, history: Sequence[Epoch]) -> None:
        signal.raise_signal(signal.SIGINT)
        write_history(directory, history)

    monkeypatch.setattr(checkpoint, "write_history", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            checkpoint.State({}, [Epoch(1, 0.1, 2.0, 3.0, 4.0)]).save(tmp_path, {})
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert {p.name for p in tmp_path.iterdir()} == {CHECKPOINT, HISTORY}
    assert (tmp_path / HISTORY).read_text().splitlines()[1:] == ["1,0.1,2.0,3.0,4.0"]


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
    own = tmp_path / ".checkpoint.npz.0123456789abcdef.gnograd-part"
    others = [".my-download.part", ".checkpoint.npz.4651.part", ".x.gnograd-part", "y.part"]
    for name in (own.name, *others):
        (tmp_path / name).touch()
    assert gnograd("train", "green", "--out", tmp_path, *GREEN).exit_code == 0
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {CHECKPOINT, HISTORY, "green.png", *others}


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
    assert {p.name for p in tmp_path.iterdir()} == {CHECKPOINT, HISTORY, "green.png"}


# ---- no room, no permission ----


def short_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def test_full_disk_leaves_the_old_files(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    content = trained.read_bytes()
    (tmp_path / "run" / CHECKPOINT).write_bytes(content)
    command = [*PROGRAM, "train", "green", *GREEN, "--fresh", "--out", str(tmp_path / "run")]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=short_files)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"gnograd: {tmp_path / 'run' / CHECKPOINT}: cannot be written (File")
    assert [p.name for p in (tmp_path / "run").iterdir()] == [CHECKPOINT]
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == content


@pytest.mark.parametrize(("job", "options"), [("darcy", DARCY), ("green", GREEN), ("poisson", [])])
def test_directory_that_cannot_be_made_is_said_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, options: list[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(darcy_data, "generate", None)
    result = gnograd("train", job, "--out", tmp_path / "file" / "x", *options)
    refused(
        result, f"{tmp_path / 'file' / 'x'}: cannot be written (Not a directory)", "another --out"
    )


def test_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNOGRAD_CACHE", "/proc/x")
    result = gnograd("train", "darcy", "--out", tmp_path, *DARCY)
    assert result.exit_code == 0, result.output
    assert "the samples are not kept for the next run: /proc/x: cannot be written" in result.output
    assert (tmp_path / "darcy.png").exists()


def test_checkpoint_has_no_more_than_before(trained: Path) -> None:
    with np.load(trained) as file:
        assert json.loads(str(file["config"]))["nodes"] == 8
        assert {name.partition("/")[0] for name in file.files} == {"config", "history", "state"}

# SPDX-License-Identifier: MIT
"""Files of the jobs: damaged and hostile ones, full disks."""

import io
import json
import os
import pickle
import resource
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

import gnograd as gg
from cli_runs import GREEN, PROGRAM, gnograd, refused
from gnograd.cli import darcy_data
from gnograd.cli.checkpoint import CHECKPOINT, FORMAT, checksum
from gnograd.cli.darcy_data import DataError

DARCY = [
    *("--samples=2", "--test-samples=1", "--grid=9", "--nodes=9", "--batch=2"),
    *("--width=3", "--hidden=3", "--layers=1", "--epochs=1"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNOGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


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


def with_header(content: bytes, header: bytes, length: int | None = None) -> bytes:
    """A safetensors file with another header, perhaps of another length than it says."""
    end = 8 + int.from_bytes(content[:8], "little")
    length = len(header) if length is None else length
    return length.to_bytes(8, "little") + header + content[end:]


SPOILED_CHECKPOINTS: dict[str, Callable[[bytes, Path], bytes]] = {
    **{kind: SPOILED[kind] for kind in ("empty", "truncated", "one array", "HDF5", "pickle")},
    "PyTorch": SPOILED["PyTorch"],
    "no header": lambda content, trap: with_header(content, b""),
    "text": lambda content, trap: b"text" * 500,
    "huge header": lambda content, trap: with_header(content, b"{}", 10**15),
    "deep header": lambda content, trap: with_header(content, b"[" * 100000),
    "list as a header": lambda content, trap: with_header(content, b"[]"),
    "huge array": lambda content, trap: with_header(
        content,
        json.dumps(
            {"parameter/U": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}
        ).encode(),
    ),
}


@pytest.mark.parametrize("kind", SPOILED_CHECKPOINTS)
def test_spoiled_checkpoint_is_refused(kind: str, trained: Path, tmp_path: Path) -> None:
    spoiled = SPOILED_CHECKPOINTS[kind](trained.read_bytes(), tmp_path / "trap")
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

About, Entries = dict[str, object], dict[str, np.ndarray]
WEIGHT, MOMENT, SQUARE = "parameter/U", "mean/U", "mean_square/U"
Change = Callable[[About, Entries], None]


def put(name: str, value: Callable[[np.ndarray], object]) -> Change:
    def change(about: About, entries: Entries) -> None:
        entries[name] = np.ascontiguousarray(value(entries[name]))

    return change


def say(name: str, value: object) -> Change:
    def change(about: About, entries: Entries) -> None:
        about[name] = value

    return change


def say_of_epochs(name: str, value: object) -> Change:
    def change(about: About, entries: Entries) -> None:
        for row in about["history"]:
            row[name] = value

    return change


def longer_history(about: About, entries: Entries) -> None:
    about["history"] = [about["history"][-1] | {"epoch": k} for k in range(1, 9)]


def without(name: str) -> Change:
    def change(about: About, entries: Entries) -> None:
        del (about if name in about else entries)[name]

    return change


def nan(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (say("settings", []), "the settings"),
        (say("settings", 7), "the settings"),
        (say("settings", {"x": "\u001b[2J"}), "x is not set, was ?[2J"),
        (without("settings"), "damaged"),
        (without("history"), "damaged"),
        (say("history", 3), "damaged"),
        (say("history", []), "its history is not of the epochs 1, 2, .."),
        (say("strange", 1), "damaged"),
        (say("cycles", [[2]]), "damaged"),
        (say("cycles", []), "its history has 2 epochs, which its other numbers are not for"),
        (say("cycles", [[4, 1.0], [2, 1.0]]), "its history has 2 epochs"),
        (say("best_epoch", 9), "its history has 2 epochs"),
        (say("best_error", "x"), "damaged"),
        (say("numbers", {}), "'steps' is 0, needs 100"),
        (say("numbers", {"steps": -5}), "'steps' is -5, needs 100"),
        (say("numbers", {"steps": [100]}), "damaged"),
        (say_of_epochs("loss", float("nan")), "its history is not finite in epoch 1"),
        (say_of_epochs("loss", "x"), "damaged"),
        (say_of_epochs("epoch", 5), "its history is not of the epochs 1, 2, .."),
        (say_of_epochs("strange", 5), "damaged"),
        (longer_history, "its history has 8 epochs"),
        (without(WEIGHT), "parameter/U' is missing"),
        (without(MOMENT), "mean/U' is missing"),
        (put(WEIGHT, lambda a: a.T), "'parameter/U' is float32 of shape (4, 3)"),
        (put(WEIGHT, lambda a: a.astype(np.int32)), "'parameter/U' is int32"),
        (put(WEIGHT, lambda a: a.astype(float)), "'parameter/U' is float64"),
        (put(WEIGHT, nan), "'parameter/U' is not finite"),
        (put(MOMENT, lambda a: a[:, :-1]), "'mean/U' is float32 of shape (3, 3)"),
        (put(MOMENT, nan), "'mean/U' is not finite"),
        (put(SQUARE, lambda a: -1.0 - a), "'mean_square' is negative"),
    ],
)
def test_impossible_checkpoint_is_refused(
    trained: Path, tmp_path: Path, change: Change, message: str
) -> None:
    """The checksum is right."""
    about = json.loads(gg.load_weights_metadata(trained)["state"])
    entries = gg.load_weights(trained)
    change(about, entries)
    write_checkpoint(tmp_path, json.dumps(about), entries)
    result = gnograd("train", "green", "--out", tmp_path, *GREEN)
    refused(result, str(tmp_path / CHECKPOINT), message, "start anew with --fresh")


@pytest.mark.parametrize("text", ["7", "{", "[" * 100000])
def test_state_that_is_none_is_refused(trained: Path, tmp_path: Path, text: str) -> None:
    write_checkpoint(tmp_path, text, gg.load_weights(trained))
    result = gnograd("train", "green", "--out", tmp_path, *GREEN)
    refused(result, str(tmp_path / CHECKPOINT), "damaged")


def write_checkpoint(directory: Path, text: str, entries: Entries) -> None:
    metadata = {"format": FORMAT, "state": text, "crc32": checksum(text, entries)}
    gg.save_weights(directory / CHECKPOINT, entries, metadata=metadata)


def test_every_cut_is_refused(trained: Path, tmp_path: Path) -> None:
    content = trained.read_bytes()
    for length in range(0, len(content), 997):
        (tmp_path / CHECKPOINT).write_bytes(content[:length])
        refused(gnograd("train", "green", "--out", tmp_path, *GREEN), str(tmp_path / CHECKPOINT))


# ---- no room, no permission ----


def short_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


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


def test_checkpoint_has_what_it_needs_and_no_more(trained: Path) -> None:
    metadata = gg.load_weights_metadata(trained)
    assert metadata.keys() == {"format", "state", "crc32"}
    assert json.loads(metadata["state"])["settings"]["nodes"] == 8
    kinds = {name.partition("/")[0] for name in gg.load_weights(trained)}
    assert kinds == {"parameter", "mean", "mean_square"}

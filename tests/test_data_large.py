# SPDX-License-Identifier: MIT
"""Data larger than memory."""

import re
import resource
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from data_files import N, S, to_npz
from gnograd.data import (
    DataError,
    PointData,
    Roles,
    contents,
    read,
)
from gnograd.data.samples import Made
from gnograd.data.statistics import statistics
from gnograd.data.stored import Spool, in_order, spooled
from memory import needs_linux, temporary_bytes

STEPS = 5

LARGE_DATA = {
    "fields": ({"a": (S, N), "b": (S, N, 2), "c": (N,), "y": (S, N)}, Roles()),
    "own points": ({"points": (S, N, 2), "a": (S, N, 3), "y": (S, N), "parameters": (S, 2)},
                   Roles()),
    "sizes": ({"points": (7, 2), "a": (7,), "y": (7, 2)}, Roles()),
    "trajectories": ({"u": (S, STEPS, N), "v": (S, STEPS, N, 2), "a": (S, N), "f": (S, STEPS, N)},
                     Roles(states=("u", "v"))),
    "a trajectory": ({"u": (STEPS, N), "f": (STEPS, N)}, Roles(states=("u",))),
    "grid": ({"a": (4, 3, S), "y": (4, 3, S, 2)}, Roles(grid="closed", layout=tuple("xysc"))),
    "mask": ({"a": (S, N), "y": (S, N)}, Roles(mask="a")),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE_DATA)
def test_large_data_are_the_same_samples(tmp_path: Path, monkeypatch, name: str) -> None:
    """Samples that are made when they are asked for have the numbers of those in memory."""
    rng = np.random.default_rng(0)
    shapes, roles = LARGE_DATA[name]
    given = {k: rng.standard_normal(shape) for k, shape in shapes.items()}
    if roles.grid is None:
        given.setdefault("points", rng.random((N, 2)))
    if name == "sizes":
        given["offsets"] = np.array([0, 3, 7])
    if roles.states:
        given["time"] = rng.permutation(STEPS)
    if name == "mask":
        given["a"][:, 3] = 0
    to_npz(tmp_path / "a.npz", given)
    kept = read(tmp_path / "a.npz", roles)
    for module, constant, value in (
        ("reading", "LIMIT", 0), ("reading", "_SMALL", 0), ("readers.npz", "LARGE", 1),
        ("stored", "_BLOCK", 64), ("stored", "LARGE", 100),
    ):  # fmt: skip
        monkeypatch.setattr(f"gnograd.data.{module}.{constant}", value)
    made = read(tmp_path / "a.npz", roles)
    monkeypatch.setattr("gnograd.data.files.LIMIT", 0)
    monkeypatch.setattr("gnograd.data.reading.LIMIT", 1 << 30)
    spooled = read([tmp_path / "a.npz"] * 2, roles)
    monkeypatch.setattr("gnograd.data.reading._MANY", 0)
    many = read(tmp_path / "a.npz", roles)
    assert (
        type(kept.samples) is list
        and type(many.samples) is Made
        and type(made.samples) is type(spooled.samples) is Made
    )
    for data in (made, spooled, many):
        assert data.layout == kept.layout and data.axes == kept.axes
        for one, other in zip(kept.samples, data.samples, strict=False):
            for a, b in zip(one.arrays, other.arrays, strict=True):
                assert a.dtype == b.dtype and np.array_equal(a, np.asarray(b))
    assert [str(s.source) for s in made.samples] == [s.source for s in kept.samples]
    assert made.checksum() == kept.checksum() and made.same_points == kept.same_points
    for a, b in zip(made.facts, kept.facts, strict=True):
        assert a.tolist() == b.tolist()
    for kind, numbers in statistics(kept).items():
        assert np.allclose(statistics(made)[kind], numbers, rtol=1e-6, atol=1e-7)
    some = made.some(range(len(kept))[1:])
    assert len(some) == len(kept) - 1 and len(spooled) == 2 * len(kept)
    for data in (some, spooled):
        with pytest.raises(IndexError):
            data.samples[len(data)]


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_mapped_arrays_have_all_numbers(tmp_path: Path, monkeypatch, suffix: str, order) -> None:
    given = {
        k: np.asarray(np.arange(24).reshape(2, 3, 4), kind, order=order)
        for k, kind in enumerate(("<f4", "<f8", "<i2", "<u8"))
    }
    given = {f"a{k}": array for k, array in given.items()}
    if suffix == ".npy":
        given = {"a": given["a1"].astype(">f8")}
        np.save(tmp_path / "a.npy", given["a"])
    else:
        (to_npz if suffix == ".npz" else gg.save_weights)(tmp_path / f"a{suffix}", given)
    monkeypatch.setattr("gnograd.data.readers.npz.LARGE", 1)
    monkeypatch.setattr("gnograd.data.readers.safetensors.LARGE", 1)
    found = contents(tmp_path / f"a{suffix}").arrays
    assert set(found) == set(given)
    for name, array in given.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
        assert not found[name].flags.writeable
    if suffix == ".npz":
        np.savez_compressed(tmp_path / "b.npz", **given)
        assert np.array_equal(contents(tmp_path / "b.npz").arrays["a2"], given["a2"])
        whole = bytearray((tmp_path / "a.npz").read_bytes())
        whole[whole.index(given["a0"].tobytes(order)) + 5] ^= 1  # a bit of a number
        (tmp_path / "a.npz").write_bytes(whole)
        with pytest.raises(DataError, match="'a0' cannot be read"):
            contents(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".npz", "", ".safetensors"])
@pytest.mark.parametrize("in_time", [False, True])
def test_files_that_are_written_to_while_in_use(
    tmp_path: Path, monkeypatch, suffix: str, in_time: bool
) -> None:
    """Other numbers are noticed, a shorter file ends nothing, another file of the name is none."""
    rng, path = np.random.default_rng(0), tmp_path / f"a{suffix}"
    # more than a page, so that the end of a short file is none of its bytes
    u = rng.random((3, 4, 4000) if in_time else (6, 2000)).astype("f4")
    given = {"points": rng.random((u.shape[-1], 2)), "u": u}
    given |= {} if in_time else {"a": u + 1}
    for module, constant, value in (
        ("reading", "LIMIT", 0), ("reading", "_SMALL", 0), ("readers.npz", "LARGE", 1),
        ("readers.safetensors", "LARGE", 1),
    ):  # fmt: skip
        monkeypatch.setattr(f"gnograd.data.{module}.{constant}", value)

    def fresh() -> tuple[PointData, Path]:
        """Data that are read anew, and the file of their states or inputs."""
        if suffix == "":
            path.mkdir(exist_ok=True)
            for name, array in given.items():
                np.save(path / f"{name}.npy", array)
        else:
            (np.savez if suffix == ".npz" else lambda p, **x: gg.save_weights(p, x))(path, **given)
        data = read(path, Roles(states=("u",)) if in_time else Roles(outputs=("u",)))
        assert isinstance(data.samples, Made)
        return data, path if suffix else path / "u.npy"

    def numbers(data: PointData, k: int) -> np.ndarray:
        sample = data.samples[k]
        return np.asarray(sample.states if in_time else sample.outputs)[..., 0]

    data, file = fresh()
    assert (numbers(data, 0) == u[0]).all()
    other = file.with_suffix(".new")
    other.write_bytes(bytes(file.stat().st_size))
    other.rename(file)
    assert (numbers(data, 1) == u[1]).all()
    for spoil in (lambda f: f.write(bytes(100)), lambda f: f.truncate(4096)):
        data, file = fresh()
        assert (numbers(data, 0) == u[0]).all()
        with open(file, "r+b") as stream:
            spoil(stream)
        with pytest.raises(DataError, match=rf"{re.escape(str(file))}: was written to while"):
            numbers(data, 1)
    # states are read later than their sample is made
    if in_time:
        data, file = fresh()
        states = data.samples[0].states
        assert states is not None and (states[0][:, 0] == u[0, 0]).all()
        file.write_bytes(file.read_bytes())
        with pytest.raises(DataError, match="was written to while"):
            states[1]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_axes_are_brought_in_order_in_a_file(monkeypatch, order: tuple[int, ...]) -> None:
    monkeypatch.setattr("gnograd.data.stored.LARGE", 200)
    monkeypatch.setattr("gnograd.data.stored._PAGES", 16)
    given = np.arange(7 * 11 * 13, dtype="i4").reshape(7, 11, 13).transpose(order)
    found = in_order(given)
    assert np.array_equal(found, given) and found.flags.c_contiguous
    assert (found is given) == (order == (0, 1, 2))
    if found is not given:
        assert not found.flags.writeable


@needs_linux
@pytest.mark.parametrize("layout", ["s,c,p", "p,c,s"])
def test_axes_of_large_data_do_not_take_memory(tmp_path: Path, layout: str) -> None:
    shape = {"s": 700, "c": 100, "p": 500}
    for n, name in ((1, "one"), (None, "all")):
        sizes = [min(shape[k], n or 700) if k == "s" else shape[k] for k in layout.split(",")]
        a = np.arange(np.prod(sizes), dtype="f4").reshape(sizes)
        x = np.random.default_rng(0).random((500, 2))
        np.savez(tmp_path / f"{name}.npz", points=x, a=a, y=a)
    assert temporary_bytes(reading_of, tmp_path, tuple(layout.split(","))) < 200 << 20  # of 267 MiB


def reading_of(folder: Path, layout: tuple[str, ...]):
    roles = Roles(layout=layout)
    read(folder / "one.npz", roles)
    return lambda: [read(folder / "all.npz", roles).samples[3] and None]


@needs_linux
def test_many_files_do_not_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    x = np.random.default_rng(0).random((1000, 2))
    for k in range(40):
        a = np.full((1, 1000, 999), k, "f4")
        np.savez(tmp_path / "all" / f"{k}.npz", points=x, a=a, y=a[..., 0])
    (tmp_path / "one").mkdir()
    np.savez(tmp_path / "one" / "0.npz", points=x, a=a, y=a[..., 0])
    assert temporary_bytes(reading, tmp_path / "one", tmp_path / "all") < 250 << 20  # of 153 MiB


def reading(small: Path, large: Path):
    read(small)
    return lambda: [read(large) and None]


@needs_linux
@pytest.mark.parametrize("way", ["in order", "one after the other", "kept", "compressed"])
def test_a_full_folder_for_temporary_files_is_told(tmp_path: Path, monkeypatch, way: str) -> None:
    """Bringing axes in order ended the process by SIGBUS, others said 'damaged'."""
    array = np.ones((64, 8, 512))
    np.savez_compressed(tmp_path / "a.npz", array=array)
    monkeypatch.setattr("gnograd.data.readers.npz.LARGE", 1)
    calls = {
        "in order": lambda: in_order(array.transpose(0, 2, 1)),
        "one after the other": lambda: spooled(array.shape, array.dtype, array),
        "kept": lambda: Spool().put(array),
        "compressed": lambda: contents(tmp_path / "a.npz"),
    }
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(DataError, match=r"folder for temporary files, .*, is full; TMPDIR"):
            calls[way]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

# SPDX-License-Identifier: MIT
"""Files of predictions."""

import errno
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from gnograd.data import (
    DataError,
    Prediction,
    Roles,
    contents,
    read,
    write,
    writing,
)


def predictions(sizes: list[int]) -> list[Prediction]:
    rng = np.random.default_rng(0)
    return [
        Prediction(
            rng.random((n, 2)).astype(np.float32),
            {
                "u": rng.random((n, 1)).astype(np.float32),
                "v": rng.random((n, 2)).astype(np.float32),
            },
        )
        for n in sizes
    ]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 5]])
def test_what_is_written_is_read(tmp_path: Path, suffix: str, sizes: list[int]) -> None:
    made = predictions(sizes)
    (path,) = write(tmp_path / f"a{suffix}", made)
    data = read(path, Roles(outputs=("u", "v")))
    for sample, prediction in zip(data.samples, made, strict=True):
        assert (sample.points == prediction.points).all()
        assert (sample.outputs == np.hstack(list(prediction.fields.values()))).all()
    assert not list(tmp_path.glob(".*"))


def test_meshes_are_written(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    made = predictions([4, 5])
    collection, *files = write(tmp_path / "a.vtu", made)
    assert [f.name for f in files] == ["a_0000.vtu", "a_0001.vtu"]
    assert all(f.name in collection.read_text() for f in files)
    found = contents(files[1])
    assert found.cells["vertex"].ravel().tolist() == list(range(5))
    assert (found.arrays["v"][:, :2] == made[1].fields["v"]).all()


def test_a_series_stays_until_another_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk left files of two predictions, and a list of both."""
    pytest.importorskip("meshio")
    write(tmp_path / "a.vtu", predictions([4, 5, 6]))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    whole, calls = writing._write_mesh, []

    def full(path: Path, *rest: object) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_write_mesh", full)
        with pytest.raises(DataError, match=r"a.vtu: cannot be written \(No space left"):
            write(tmp_path / "a.vtu", predictions([3, 3, 3]))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    write(tmp_path / "a.vtu", predictions([3, 3, 3]))
    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert after.keys() == before.keys() and after["a_0002.vtu"] != before["a_0002.vtu"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".vtu"])
def test_fields_are_never_lost_by_their_names(tmp_path: Path, suffix: str) -> None:
    meshio = pytest.importorskip("meshio") if suffix == ".vtu" else None
    x = np.random.default_rng(0).random((5, 2))
    f = np.random.default_rng(1).random((5, 1)).astype(np.float32)
    path, refused = tmp_path / f"a{suffix}", []
    for name in (
        "file", "allow_pickle", "args", "kwds", "points", "offsets", "time", "__metadata__", "a/b",
        "../evil", "/tmp/evil", "u.npy", "a\x00b", "a\nb", "\x7f", "a\ud800", "", " a ", "x" * 300,
        "<a b='c'>\"&", "Größe °C", "a:0", "\\u",
    ):  # fmt: skip
        try:
            write(path, [Prediction(x, {name: f, "u": 2 * f})])
        except DataError as error:
            assert repr(name) in str(error) and not path.exists()
            refused.append(name)
            continue
        if meshio is not None:
            found = meshio.read(path)
            points, fields = found.points[:, :2], found.point_data
            assert len(fields) == 2
        else:
            fields = dict(np.load(path)) if suffix == ".npz" else gg.load_weights(path)
            points = fields["points"]
            assert len(fields) == 3 and same_array(contents(path).arrays[name][0], f)
        assert same_array(points, x)
        assert same_array(np.ravel(fields[name]), f.ravel())
        assert same_array(np.ravel(fields["u"]), 2 * f.ravel())
        path.unlink()
    never = {"a\x00b", "a\nb", "\x7f", "a\ud800"}
    assert (
        set(refused)
        == never
        | {
            ".npz": {"points", "offsets", "u.npy"},
            ".safetensors": {"points", "offsets", "__metadata__"},
            ".vtu": {"<a b='c'>\"&"},
        }[suffix]
    )
    with pytest.raises(DataError, match="that is the name of the times there"):
        write(tmp_path / "a.npz", [Prediction(x, {"time": f[None]}, in_time=True)])


def same_array(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool((a == b).all())


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv: files are written that end in .vtu"):
        write(tmp_path / "a.csv", predictions([3]))
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "file" / "a.npz", predictions([3]))

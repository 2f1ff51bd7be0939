# SPDX-License-Identifier: MIT
"""Hostile files, and the process that reads them."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from data_files import N, S, arrays, refusal, to_matlab_5, to_matlab_7_3, to_npz
from gnograd.data import (
    DataError,
    Roles,
    contents,
    expand,
    read,
)


class Bomb:
    def __reduce__(self) -> tuple:
        return os.mkdir, (os.environ["GNOGRAD_TEST_BOMB"],)


@pytest.fixture
def bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GNOGRAD_TEST_BOMB", str(tmp_path / "exploded"))
    return tmp_path / "exploded"


def hostile_npz(path: Path) -> None:
    np.savez(path, points=np.zeros((2, 2)), outputs=np.array([Bomb()], object))


def hostile_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.npy", pickle.dumps(Bomb()))


def hostile_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"points": Bomb()}))


def hostile_torch(path: Path) -> None:
    pytest.importorskip("torch").save({"points": Bomb()}, path)


def hostile_zarr(path: Path) -> None:
    path.mkdir()
    about = {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "fill_value": None,
        "order": "C", "compressor": None, "filters": [{"id": "pickle", "protocol": 4}],
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(about))
    stream = io.BytesIO()
    pickle.dump([Bomb(), [1]], stream)
    (path / "0").write_bytes(stream.getvalue())


def linked_hdf5(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path.with_name("secret"), "w") as file:
        file["points"] = np.zeros((4, 2))
    with h5py.File(path, "w") as file:
        file["points"] = h5py.ExternalLink("secret", "points")
        file["huge"] = h5py.Empty("f8")
        file.create_dataset("outputs", (10**6, 10**6), dtype="f4", chunks=(1000, 1000))
        file.create_dataset("text", data=["a"], dtype=h5py.string_dtype())


def damaged_mesh(path: Path) -> None:
    path.write_text("<VTKFile type='UnstructuredGrid'><Piece/>")


def cells_of_nothing(path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    meshio.write(path, meshio.Mesh(np.zeros((3, 3)), [("triangle", np.array([[0, 1, 9]]))]))


def bomb_of_entities(path: Path) -> None:
    entities = "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12))
    path.write_text(f'<!DOCTYPE x [<!ENTITY a0 "aaaa">{entities}]><VTKFile>&a12;</VTKFile>')


HOSTILE = {
    "objects.npz": hostile_npz, "zip.npz": hostile_zip, "pickle.npz": hostile_pickle,
    "pickle.pt": hostile_pickle, "zip.pt": hostile_torch, "objects.zarr": hostile_zarr,
    "link.h5": linked_hdf5, "pickle.mat": hostile_pickle, "pickle.h5": hostile_pickle,
    "pickle.safetensors": hostile_pickle, "damaged.vtu": damaged_mesh, "bomb.vtu": bomb_of_entities,
    "cells.vtu": cells_of_nothing, "pickle.msh": hostile_pickle, "pickle.vtk": hostile_pickle,
    "pickle.xdmf": hostile_pickle,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, bomb: Path, name: str) -> None:
    HOSTILE[name](tmp_path / name)
    with pytest.raises(DataError) as error:
        read(tmp_path / name)
    assert name in str(error.value) and "weights_only" not in str(error.value)
    assert not bomb.exists()


def test_claims_are_not_believed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    huge = torch.zeros(1).expand(10**12)
    torch.save({"points": huge, "u": torch.eye(3).to_sparse()}, tmp_path / "a.pt")
    unused = contents(tmp_path / "a.pt").unused
    assert "larger than the file" in unused["points"] and "sparse" in unused["u"]
    zarr = pytest.importorskip("zarr")
    zarr.open_array(
        str(tmp_path / "a.zarr"), mode="w", shape=(10**12,), chunks=(10**6,), dtype="f4"
    )
    assert "larger than the store" in contents(tmp_path / "a.zarr").unused["a"]


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    linked_hdf5(tmp_path / "a.h5")
    found = contents(tmp_path / "a.h5")
    assert not found.arrays
    assert found.unused["points"] == "it is a link"
    assert "larger than the file" in found.unused["outputs"]


def test_a_parser_that_crashes_is_told_of(tmp_path: Path) -> None:
    """SciPy looks a number of the file up in a table, behind whose end it is."""
    pytest.importorskip("scipy.io")

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    head = b"MATLAB 5.0 MAT-file".ljust(116) + bytes(8) + struct.pack("<HH", 0x0100, 0x4D49)
    flags = element(6, struct.pack("<II", 6, 0)) + element(5, struct.pack("<2i", 1, 1))
    for number in (50, 77, 100):
        body = element(14, flags + element(1, b"a") + element(number, bytes(8)))
        (tmp_path / "a.mat").write_bytes(head + body)
        assert "cannot be read as a MATLAB file" in refusal(tmp_path / "a.mat")
    to_matlab_5(tmp_path / "b.mat", arrays())
    assert (contents(tmp_path / "b.mat").arrays["a"] == arrays()["a"]).all()


def test_matlab_7_3_behind_another_header(tmp_path: Path) -> None:
    to_matlab_7_3(tmp_path / "a.mat", arrays())
    with open(tmp_path / "a.mat", "r+b") as file:
        file.write(b"MATLAB 7.0 MAT-file, Platform: GLNX86  ")
    found = contents(tmp_path / "a.mat")
    assert found.kind == "MATLAB 7.3" and (found.arrays["v"] == arrays()["v"]).all()


@pytest.mark.parametrize("suffix", [".h5", ".mat"])
def test_hdf5_that_holds_itself_is_read_once(tmp_path: Path, suffix: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / f"a{suffix}", "w") as file:
        file["d"] = np.arange(3.0)
        file["group/e"] = file["d"]
        for k in range(3):
            file[f"loop{k}"] = file["/"]
            file[f"group/loop{k}"] = file["group"]
    found = contents(tmp_path / f"a{suffix}")
    assert list(found.arrays) == ["d"] and len(found.unused) == 7
    assert found.unused["loop1"] == "it is '/' by another name"


def hollow_hdf5(path: Path, n: int, size: int) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        for k in range(n):
            file.create_dataset(f"a{k}", (size,), "f4")


def hollow_zarr(path: Path, n: int, size: int) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(path), mode="w")
    for k in range(n):
        zarr.open_array(str(path / f"a{k}"), mode="w", shape=(size,), chunks=(size,), dtype="f4")


def hollow_torch(path: Path, n: int, size: int) -> None:
    torch = pytest.importorskip("torch")
    one = torch.zeros(1, dtype=torch.bfloat16)
    torch.save({f"a{k}": one.expand(size) for k in range(n)}, path)


HOLLOW = {"a.h5": hollow_hdf5, "a.zarr": hollow_zarr, "a.pt": hollow_torch}


@pytest.mark.parametrize("name", HOLLOW)
def test_arrays_of_a_file_share_what_its_bytes_account_for(tmp_path: Path, name: str) -> None:
    HOLLOW[name](tmp_path / name, 12, 10**7)  # 40 MB each
    found = contents(tmp_path / name)
    assert sum(a.nbytes for a in found.arrays.values()) < (1 << 28) + 1100 * 20000
    assert "claims to be larger" in found.unused["a9"] and "a0" in found.arrays


def test_meshes_are_not_larger_than_their_files_account_for(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    (tmp_path / "a.vtk").write_text(
        "# vtk DataFile Version 3.0\nx\nASCII\nDATASET STRUCTURED_POINTS\n"
        "DIMENSIONS 400 400 400\nORIGIN 0 0 0\nSPACING 1 1 1\n"
    )
    assert "claims to be larger" in refusal(tmp_path / "a.vtk")
    (tmp_path / "b.vtk").write_text(
        "# vtk DataFile Version 3.0\nx\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 100000000 double\n"
    )
    refusal(tmp_path / "b.vtk")


def xdmf_of(item: str) -> str:
    """A triangle whose field is this data item."""
    return (
        '<?xml version="1.0"?><Xdmf Version="3.0"><Domain><Grid Name="G">'
        '<Topology TopologyType="Triangle" NumberOfElements="1"><DataItem DataType="Int" '
        'Dimensions="1 3" Format="XML">0 1 2</DataItem></Topology><Geometry GeometryType="XY">'
        '<DataItem DataType="Float" Dimensions="3 2" Format="XML" Precision="8">0 0 1 0 0 1'
        '</DataItem></Geometry><Attribute Name="u" AttributeType="Scalar" Center="Node">'
        f'<DataItem DataType="Float" Dimensions="3" Precision="8" {item}</DataItem></Attribute>'
        "</Grid></Domain></Xdmf>"
    )


def test_numbers_of_other_folders_are_not_read(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("meshio")
    secret, folder = tmp_path / "elsewhere", tmp_path / "data"
    secret.mkdir(), folder.mkdir()
    np.arange(3.0).tofile(secret / "raw")
    with h5py.File(secret / "a.h5", "w") as file:
        file["d"] = np.arange(3.0)
    with h5py.File(folder / "a.h5", "w") as file:
        file["away"] = h5py.ExternalLink(str(secret / "a.h5"), "/d")
        file["group/d"] = np.arange(3.0)
    np.arange(3.0).tofile(folder / "raw")
    (folder / "link").symlink_to(secret / "raw")
    for item in (
        f'Format="Binary">{secret / "raw"}', 'Format="Binary">../elsewhere/raw',
        'Format="Binary">link', 'Format="HDF">../elsewhere/a.h5:/d', 'Format="HDF">a.h5:/away',
        f'Format="HDF">{secret / "a.h5"}:/d', 'Format="Binary" Seek="8">raw',
        'Format="Binary" Endian="Big">raw', 'Format="HDF">a.h5:/group', 'Format="HDF">gone.h5:/d',
    ):  # fmt: skip
        (folder / "a.xdmf").write_text(xdmf_of(item))
        refusal(folder / "a.xdmf")
    for item in ('Format="Binary">raw', 'Format="HDF">a.h5:/group/d'):
        (folder / "a.xdmf").write_text(xdmf_of(item))
        assert contents(folder / "a.xdmf").arrays["u"].tolist() == [0, 1, 2]


def test_chunks_of_zarr_are_no_links(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    hollow_zarr(tmp_path / "a.zarr", 1, 3)
    np.arange(3, dtype="f4").tofile(tmp_path / "secret")
    (chunk,) = {"0", "c"} - {p.name for p in (tmp_path / "a.zarr/a0").iterdir()} - {"c"} or {"c/0"}
    (tmp_path / "a.zarr/a0" / chunk).parent.mkdir(exist_ok=True)
    (tmp_path / "a.zarr/a0" / chunk).symlink_to(tmp_path / "secret")
    assert "is a link" in refusal(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    "suffix", [".npz", ".safetensors", ".h5", ".mat", ".pt", ".vtu", ".msh", ".zarr"]
)
def test_pipes_are_not_waited_for(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"a{suffix}")
    assert "is not a f" in refusal(tmp_path / f"a{suffix}")
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr/.zgroup").touch()
    os.mkfifo(tmp_path / "b.zarr/.zarray")
    assert "'.zarray' is not a file" in refusal(tmp_path / "b.zarr")
    if suffix == ".safetensors":
        with pytest.raises(ValueError, match="is not a file"):
            gg.load_weights(tmp_path / "a.safetensors")


def test_what_pytorch_has_and_others_do_not(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    loop: list = [torch.ones(2)]
    for _ in range(9):
        loop = [loop] * 10  # 10^9 places
    whole: list = []
    whole.append(whole)
    torch.save(
        {
            "loop": loop, "whole": whole, "number": 10**400, "none": None, "text": "a",
            "float8": torch.ones(3).to(torch.float8_e4m3fn), "half": torch.ones(3).bfloat16(),
        },
        tmp_path / "a.pt",
    )  # fmt: skip
    found = contents(tmp_path / "a.pt")
    assert all(a.dtype.kind in "fiub" for a in found.arrays.values())
    assert found.arrays["half"].tolist() == found.arrays["float8"].tolist() == [1, 1, 1]
    assert "loop" + ".0" * 10 in found.arrays and "whole.0" in found.unused
    assert {"number", "none", "text"} <= set(found.unused)


def test_names_are_no_orders_to_a_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;TITLE\x07b\x1b[2J\u202ec\nd"
    to_npz(tmp_path / "a.npz", arrays() | {name: np.zeros((S, N + 1))})
    with pytest.raises(DataError) as error:
        read(tmp_path / "a.npz", Roles(inputs=(name,)))
    assert str(error.value).isprintable()
    gg.save_weights(tmp_path / "a.safetensors", {name: np.zeros(2)})
    with pytest.raises(ValueError, match=r"'a\?]0;TITLE") as value:
        gg.load_weights(tmp_path / "a.safetensors", {})
    assert str(value.value).isprintable()
    (tmp_path / "b.h5").mkdir()
    refusal(tmp_path / "b.h5")


def test_large_arrays_come_whole(tmp_path: Path) -> None:
    """Large arrays are mapped, and not to be written to."""
    given = {
        "large": np.arange(1 << 24, dtype=">f4").reshape(4, -1), "empty": np.empty((0, 3), "f2"),
        "turned": np.asfortranarray(np.arange(1 << 24, dtype="f8").reshape(2, -1)),
        "number": np.array(7), "mask": np.array([True, False]), "half": np.ones(3, "f2"),
    }  # fmt: skip
    with pytest.importorskip("h5py").File(tmp_path / "a.h5", "w") as file:
        for name, array in given.items():
            file[name] = array
    found = contents(tmp_path / "a.h5").arrays
    for name, array in given.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
    to_matlab_7_3(tmp_path / "a.mat", {"large": given["large"]})
    assert np.array_equal(contents(tmp_path / "a.mat").arrays["large"], given["large"])
    assert not found["large"].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        found["large"][0] = 0


PROGRAM = """
import concurrent.futures, multiprocessing, os, pathlib, sys, threading
os.chdir(sys.argv[1])
from gnograd.data import contents
def one(k):
    return contents(f"{k % 4}.h5").arrays["a"].tolist() == [k % 4] * 3
assert one(0)
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert all(pool.map(one, range(12)))
child = os.fork()
if child == 0:
    os._exit(0 if one(1) else 1)
assert os.waitpid(child, 0)[1] == 0 and one(2)
os.mkdir("inner"), os.chdir("inner"), os.rename("../3.h5", "3.h5")
assert one(3)
from gnograd.data.readers import process
process._server._process.kill(), process._server._process.wait()
assert one(3)
print(process._server._process.pid)
"""


def test_reading_from_threads_copies_and_folders(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for k in range(4):
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            file["a"] = [k] * 3
    program = PROGRAM.replace("sys.argv[1]", repr(str(tmp_path)))  # without __main__'s file
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"], input=program,
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert not Path(f"/proc/{int(done.stdout)}").exists()  # it has ended with who asked it


def test_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.npz: No such file"):
        expand([tmp_path / "a.npz"])
    (tmp_path / "a.xyz").touch()
    with pytest.raises(DataError, match=r"a.xyz: files are read that end in .npz"):
        read(tmp_path / "a.xyz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no files that end in"):
        read(tmp_path / "empty")

# SPDX-License-Identifier: MIT
"""Files of data: all formats give the same samples, what does not fit is named, none does harm."""

import importlib.util
import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnograd as gg
from gnograd.data import (
    DataError,
    Field,
    PointData,
    Prediction,
    Roles,
    contents,
    expand,
    read,
    write,
)
from gnograd.data.samples import Made
from gnograd.data.statistics import statistics
from gnograd.data.stored import in_order
from gnograd.data.units import same_unit
from memory import needs_linux, temporary_bytes

N, S = 12, 3


def arrays(d: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "points": rng.random((S, N, d)),
        "a": rng.random((S, N)).astype(np.float32),
        "v": rng.random((S, N, 2)).astype(np.float32),
        "outputs": rng.random((S, N, 1)).astype(np.float32),
        "parameters": rng.random((S, 2)).astype(np.float32),
    }


def to_npz(path: Path, what: dict[str, np.ndarray]) -> None:
    np.savez(path, **what)


def to_hdf5(path: Path, what: dict[str, np.ndarray]) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        for name, array in what.items():
            file.create_dataset(name, data=array, compression="gzip")


def to_zarr(path: Path, what: dict[str, np.ndarray]) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(path), mode="w")
    for name, array in what.items():
        made = zarr.open_array(
            str(path / name), mode="w", shape=array.shape, chunks=array.shape, dtype=array.dtype
        )
        made[...] = array


def to_matlab_5(path: Path, what: dict[str, np.ndarray]) -> None:
    pytest.importorskip("scipy.io").savemat(path, what)


def to_matlab_7_3(path: Path, what: dict[str, np.ndarray]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in what.items():
            file[name] = array.T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")


def to_torch(path: Path, what: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.from_numpy(array) for name, array in what.items()}, path)


FORMATS: dict[str, Callable[[Path, dict[str, np.ndarray]], None]] = {
    "data.npz": to_npz,
    "data.safetensors": gg.save_weights,
    "data.h5": to_hdf5,
    "data.zarr": to_zarr,
    "old.mat": to_matlab_5,
    "new.mat": to_matlab_7_3,
    "data.pt": to_torch,
}


def same(a: PointData, b: PointData) -> bool:
    return a.layout == b.layout and a.checksum() == b.checksum()


# ---- formats ----


@pytest.mark.parametrize("name", FORMATS)
def test_formats_give_the_same_samples(tmp_path: Path, name: str) -> None:
    FORMATS[name](tmp_path / name, arrays())
    to_npz(tmp_path / "same.npz", arrays())
    data = read(tmp_path / name, Roles(inputs=("a", "v")))
    assert same(data, read(tmp_path / "same.npz", Roles(inputs=("a", "v"))))
    assert len(data) == S and data.layout.dimension == 2
    assert data.layout.inputs == (Field("a", 1), Field("v", 2))
    sample, given = data.samples[1], arrays()
    assert (sample.points == given["points"][1]).all()
    assert (sample.inputs == np.c_[given["a"][1], given["v"][1]]).all()
    assert sample.outputs is not None and (sample.outputs == given["outputs"][1]).all()
    assert (sample.parameters == given["parameters"][1]).all()
    assert sample.queries is sample.points


@pytest.mark.parametrize("suffix", [".vtu", ".vtk", ".xdmf", ".msh"])
def test_meshes(tmp_path: Path, suffix: str) -> None:
    meshio = pytest.importorskip("meshio")
    rng = np.random.default_rng(0)
    points = np.c_[rng.random((5, 2)), np.zeros(5)]
    cells = np.array([[0, 1, 2], [2, 3, 4]])
    fields = {"a": rng.random(5), "outputs": rng.random((5, 3))}
    mesh = meshio.Mesh(points, [("triangle", cells)], point_data=fields)
    meshio.write(tmp_path / f"mesh{suffix}", mesh, file_format="gmsh" if suffix == ".msh" else None)
    (sample,) = read(tmp_path).samples
    assert (sample.points == points[:, :2]).all()
    assert np.allclose(sample.inputs[:, 0], fields["a"], rtol=1e-6)
    assert np.allclose(sample.outputs, fields["outputs"], rtol=1e-6)
    assert (sample.cells["triangle"] == cells).all()


def test_names_of_files_are_relative_to_the_folder(tmp_path: Path, monkeypatch) -> None:
    meshio = pytest.importorskip("meshio")
    (tmp_path / "in").mkdir()
    x = np.random.default_rng(0).random((4, 3))
    mesh = meshio.Mesh(x, [("tetra", np.array([[0, 1, 2, 3]]))], {"a": x[:, 0]})
    for folder in (tmp_path, tmp_path / "in"):
        monkeypatch.chdir(folder)
        for name in ("a.vtu", "a.xdmf"):
            meshio.write(tmp_path / "in" / name, mesh)
            path = (tmp_path / "in" / name).relative_to(folder)
            assert (contents(path).arrays["a"] == x[:, 0]).all() and contents(path).path == path


def test_numbers_of_gmsh_are_no_field(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.random.default_rng(0).random((4, 3))
    mesh = meshio.Mesh(x, [("tetra", np.array([[0, 1, 2, 3]]))], {"a": x[:, 0], "u": x[:, 1]})
    meshio.write(tmp_path / "a.msh", mesh, file_format="gmsh")
    data = read(tmp_path / "a.msh", Roles(outputs=("u",)))
    assert data.layout.inputs == (Field("a", 1),)
    assert "gmsh numbers points by" in contents(tmp_path / "a.msh").unused["gmsh:dim_tags"]


NODES = {4: (1, 1, 0), 2: (1, 0, 0), 9: (0, 1, 0), 1: (0, 0, 0)}
"""Nodes of two triangles, by numbers that are not in order."""


def gmsh_2(binary: bool, again: bool) -> bytes:
    """A mesh of Gmsh 2.2 with a point, triangles, and two fields, as Gmsh appends them."""
    head = b"$MeshFormat\n2.2 %d 8\n" % binary
    head += (struct.pack("<i", 1) + b"\n" if binary else b"") + b"$EndMeshFormat\n"
    elements = [(15, (4,)), (2, (4, 2, 9)), (2, (1, 2, 9))]
    if binary:
        nodes = b"".join(struct.pack("<i3d", n, *x) for n, x in NODES.items())
        cells = b"".join(
            struct.pack(f"<{6 + len(e)}i", kind, 1, 2, k + 1, 0, 1, *e)
            for k, (kind, e) in enumerate(elements)
        )
    else:
        nodes = "".join(f"{n} {x} {y} {z}\n" for n, (x, y, z) in NODES.items()).encode()
        cells = "".join(
            f"{k + 1} {kind} 2 0 1 {' '.join(map(str, e))}\n"
            for k, (kind, e) in enumerate(elements)
        ).encode()
    mesh = b"$Nodes\n4\n" + nodes + b"\n$EndNodes\n$Elements\n3\n" + cells + b"\n$EndElements\n"
    text, number = head + mesh, b"$Elements\n3\n1 15"
    mesh = mesh.replace(number, b"$Elements\n3\n9 15")  # it is numbered anew
    for name, of in (("a", [1, 2, 4, 9]), ("part", [1, 2]), ("more", [77, 9, 4, 2, 1])):
        rows = b"".join(
            struct.pack("<id", n, 10 * n) if binary else b"%d %d\n" % (n, 10 * n) for n in of
        )
        text += (mesh if again else b"") + b'$NodeData\n1\n"%s"\n1\n0.0\n3\n0\n1\n' % name.encode()
        text += b"%d\n" % len(of) + rows + b"\n$EndNodeData\n"
    return text


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("binary", [False, True])
def test_gmsh_2_as_gmsh_writes_it(tmp_path: Path, binary: bool, again: bool) -> None:
    pytest.importorskip("meshio")
    (tmp_path / "a.msh").write_bytes(gmsh_2(binary, again))
    found = contents(tmp_path / "a.msh")
    assert found.arrays["points"].tolist() == [list(x[:2]) for x in NODES.values()]
    assert found.arrays["a"].tolist() == found.arrays["more"].tolist() == [40, 20, 90, 10]
    assert found.cells["triangle"].tolist() == [[0, 1, 2], [3, 1, 2]]
    assert found.unused["part"] == "it has values at 2 of 4 points"


@pytest.mark.parametrize("binary", [False, True])
def test_fields_on_cells_of_gmsh(tmp_path: Path, binary: bool) -> None:
    """Values are on the elements whose numbers they have, which are in no order."""
    meshio = pytest.importorskip("meshio")
    text = gmsh_2(binary, False)

    def field(name: str, values: dict[int, float]) -> bytes:
        rows = b"".join(
            struct.pack("<id", n, v) if binary else b"%d %g\n" % (n, v) for n, v in values.items()
        )
        head = b'$ElementData\n1\n"%s"\n1\n0.0\n3\n0\n1\n' % name.encode()
        return head + b"%d\n" % len(values) + rows + b"\n$EndElementData\n"

    text += field("p", {3: 30, 2: 20}) + field("some", {3: 30})
    (tmp_path / "a.msh").write_bytes(text)
    found = contents(tmp_path / "a.msh")
    assert found.unused["p"] == "it is on cells; --cells takes these for points"
    assert found.unused["some"] == "it is on cells, but does not have a value on each"
    (sample,) = read(tmp_path / "a.msh", Roles(outputs=("p",), inputs=(), cells=True)).samples
    assert sample.outputs[:, 0].tolist() == [20, 30]
    assert np.allclose(sample.points, [[2 / 3, 2 / 3], [1 / 3, 1 / 3]])
    (tmp_path / "b.msh").write_bytes(text + field("q", {77: 1.0}))
    assert "'q' has a cell that is not there" in refusal(tmp_path / "b.msh")
    if binary:
        x = np.random.default_rng(0).random((5, 3))
        cells = [("triangle", [[0, 1, 2]]), ("quad", [[1, 2, 3, 4]]), ("triangle", [[0, 1, 3]])]
        made = meshio.Mesh(x, cells, cell_data={"c": [[1.0], [2.0], [3.0]]})
        meshio.write(tmp_path / "c.msh", made, file_format="gmsh22")
        (sample,) = read(tmp_path / "c.msh", Roles(outputs=("c",), inputs=(), cells=True)).samples
        assert sample.outputs[:, 0].tolist() == [1, 3, 2]


@pytest.mark.parametrize("version", [2.2, 4.1])
def test_files_that_gmsh_writes(tmp_path: Path, version: float) -> None:
    try:
        import gmsh
    except (ImportError, OSError):
        pytest.skip("needs gmsh and its libraries")
    path = tmp_path / "a.msh"
    gmsh.initialize(interruptible=False)
    try:
        gmsh.option.setNumber("General.Verbosity", 0)
        surface = gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
        gmsh.model.occ.synchronize()
        gmsh.model.addPhysicalGroup(2, [surface], 1)
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.4)
        gmsh.model.mesh.generate(2)
        tags, x, _ = gmsh.model.mesh.getNodes()
        gmsh.option.setNumber("Mesh.MshFileVersion", version)
        gmsh.write(str(path))
        elements, corners = gmsh.model.mesh.getElementsByType(2)
        of_cells = x.reshape(-1, 3)[np.argsort(tags)][corners.reshape(-1, 3).astype(int) - 1]
        for field, kind, at, values in (
            ("a", "NodeData", tags, x[0::3]), ("b", "NodeData", tags, x[1::3]),
            ("c", "ElementData", elements, of_cells.mean(axis=1)[:, 0]),
        ):  # fmt: skip
            view = gmsh.view.add(field)
            gmsh.view.addHomogeneousModelData(view, 0, "", kind, at, values)
            gmsh.view.write(view, str(path), append=True)
    finally:
        gmsh.finalize()
    (sample,) = read(path, Roles(inputs=("a",), outputs=("b",))).samples
    assert np.allclose(sample.points, np.c_[sample.inputs, sample.outputs], atol=1e-6)
    assert len(sample.edges) > len(sample.points) > 9
    (sample,) = read(path, Roles(inputs=(), outputs=("c",), cells=True)).samples
    assert np.allclose(sample.points[:, 0], sample.outputs[:, 0], atol=1e-6)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", ["triangle6", "quad", "tetra", "tetra10", "hexahedron", "wedge"])
def test_gmsh_4_as_meshio_reads_it(tmp_path: Path, kind: str, binary: bool) -> None:
    meshio = pytest.importorskip("meshio")
    n = {"triangle6": 6, "quad": 4, "tetra": 4, "tetra10": 10, "hexahedron": 8, "wedge": 6}[kind]
    x = np.random.default_rng(0).random((n + 1, 3))
    cells = np.array([np.arange(n), np.arange(1, n + 1)])
    # meshio writes no numbers as text: np.float64(..)
    fields = {"a": x[:, 0], "v": 2 * x} if binary else {}
    given = meshio.Mesh(x, [(kind, cells)], fields, {"c": [[1.0, 2.0]]} if binary else {})
    for file, form in (("4.msh", "gmsh"), ("2.msh", "gmsh22")):
        meshio.write(tmp_path / file, given, file_format=form, binary=binary)
        found = contents(tmp_path / file)
        assert np.allclose(found.arrays["points"], x) and ("c" in found.unused) == binary
        assert all(np.array_equal(found.arrays[name], field) for name, field in fields.items())
        assert (found.cells[kind] == cells).all()


def test_values_are_at_the_nodes_that_they_name(tmp_path: Path) -> None:
    """Values are found by the numbers of nodes, also in Gmsh 4.1, which lists tags and places."""
    pytest.importorskip("meshio")
    nodes = "".join(f"{n}\n" for n in NODES) + "".join(
        f"{x} {y} {z}\n" for x, y, z in NODES.values()
    )
    data = '$NodeData\n1\n"{}"\n1\n{}\n3\n{}\n1\n4\n{}$EndNodeData\n'.format
    rows = "1 10\n2 20\n4 40\n9 90\n"
    (tmp_path / "a.msh").write_text(
        f"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 4 1 9\n2 1 0 4\n{nodes}$EndNodes\n"
        "$Elements\n1 2 1 2\n2 1 2 2\n1 4 2 9\n2 1 2 9\n$EndElements\n"
        + data("a", 0.0, 0, rows) + data("u", 0.0, 0, rows) + data("u", 1.0, 1, rows)
        + data("w", 0.0, 0, rows) + data("w", 1.0, 1, rows.replace("90", "91"))
    )  # fmt: skip
    found = contents(tmp_path / "a.msh")
    assert found.arrays["a"].tolist() == [40, 20, 90, 10] and "several times" in found.unused["w"]
    (tmp_path / "b.msh").write_text("$MeshFormat\n4 0 8\n$EndMeshFormat\n")
    assert "write it as 4.1: gmsh" in refusal(tmp_path / "b.msh")


VTU = (
    '<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian"'
    '{}><UnstructuredGrid><Piece NumberOfPoints="3" NumberOfCells="1"><Points><DataArray '
    'type="Float64" NumberOfComponents="3" format="ascii">0 0 0 1 0 0 0 1 0</DataArray></Points>'
    '<Cells><DataArray type="Int64" Name="connectivity" format="ascii">0 1 2</DataArray><DataArray '
    'type="Int64" Name="offsets" format="ascii">3</DataArray><DataArray type="Int64" Name="types" '
    'format="ascii">{}</DataArray></Cells></Piece></UnstructuredGrid></VTKFile>'
)
VTK = "# vtk DataFile Version 5.1\nx\nASCII\nDATASET {}\n"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("lz4.vtu", VTU.format(' compressor="vtkLZ4DataCompressor"', 5), "compressed by LZ4"),
        ("pixel.vtu", VTU.format("", 8), "it has 'pixel', which meshio does not know"),
        ("surface.vtu", '<?xml version="1.0"?><VTKFile type="PolyData"/>', "it is a surface"),
        ("surface.vtk", VTK.format("POLYDATA"), "of version 5.1, POLYDATA"),
        ("image.vtk", VTK.format("STRUCTURED_POINTS\nDIMENSIONS 3 3 1"), "STRUCTURED_POINTS"),
        ("image.exo", "", "this is Exodus"), ("a.cgns", "", "this is CGNS; write it as .vtu"),
        ("a.cas", "", "this is Fluent"), ("run.dat.h5", "", "this is Fluent; write it as .vtu"),
    ],
)  # fmt: skip
def test_what_meshio_does_not_read_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, told: str
) -> None:
    pytest.importorskip("meshio")
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)  # without PyVista
    line = refusal(tmp_path / name)
    assert told in line and "write it" in line
    assert ("pip install pyvista" in line) == (name[-4:] in (".vtu", ".vtk"))


def test_a_mesh_in_a_plane_may_lie_in_space(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.c_[np.random.default_rng(0).random((4, 2)), np.zeros(4)]
    meshio.write(tmp_path / "a.vtu", meshio.Mesh(x, [("quad", np.array([[0, 1, 2, 3]]))], {"y": x}))
    for dimension, found in ((None, 2), (3, 3), (1, 2)):
        (sample,) = read(tmp_path / "a.vtu", Roles(dimension=dimension)).samples
        assert (sample.points == x[:, :found]).all() and sample.points.shape[1] == found
    np.savez(tmp_path / "a.npz", points=x[:, :2], y=x)
    assert read(tmp_path / "a.npz", Roles(dimension=3)).layout.dimension == 2


def test_times_of_xdmf_and_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # meshio writes the numbers of an XDMF series there
    meshio = pytest.importorskip("meshio")
    pytest.importorskip("h5py")
    points, cells = np.random.default_rng(0).random((4, 2)), [("triangle", np.array([[0, 1, 2]]))]
    states = np.random.default_rng(1).random((3, 4, 1))
    with meshio.xdmf.TimeSeriesWriter(tmp_path / "run.xdmf") as writer:
        writer.write_points_cells(points, cells)
        for t, u in enumerate(states):
            writer.write_data(t, point_data={"u": u})
    (tmp_path / "run").mkdir()
    for t, u in zip((8, 9, 10), states, strict=True):  # by number, not by letters
        meshio.write(tmp_path / f"run/u_{t}.vtu", meshio.Mesh(points, cells, point_data={"u": u}))
    roles = Roles(states=("u",), inputs=())
    for path in ("run.xdmf", "run"):
        (sample,) = read(tmp_path / path, roles).samples
        assert sample.states is not None and np.allclose(sample.states, states, rtol=1e-6)


def test_meshes_of_a_trajectory_have_the_same_points(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    points, cells = np.random.default_rng(0).random((4, 2)), [("triangle", np.array([[0, 1, 2]]))]
    for t in range(3):
        moved = points + 0.1 * (t == 2)
        mesh = meshio.Mesh(moved, cells, point_data={"u": np.full((4, 1), float(t))})
        meshio.write(tmp_path / f"u_{t}.vtu", mesh)
    with pytest.raises(DataError, match=r"u_2\.vtu: has other points than .*u_0\.vtu"):
        read(tmp_path, Roles(states=("u",), inputs=()))


# ---- forms of the arrays ----


def test_shared_points_are_one_array(tmp_path: Path) -> None:
    given = arrays() | {"points": arrays()["points"][0]}
    to_npz(tmp_path / "a.npz", given)
    data = read(tmp_path / "a.npz")
    assert len(data) == S
    assert len({id(s.points) for s in data.samples}) == 1


def test_samples_of_different_sizes_and_output_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    to_npz(
        tmp_path / "a.npz",
        {
            "points": rng.random((9, 3)), "offsets": np.array([0, 4, 9]), "a": rng.random(9),
            "output_points": rng.random((5, 3)), "output_offsets": np.array([0, 2, 5]),
            "outputs": np.arange(5.0),
        },
    )  # fmt: skip
    first, second = read(tmp_path / "a.npz", Roles(inputs=("a",))).samples
    assert first.points.shape == (4, 3) and second.inputs.shape == (5, 1)
    assert first.queries.shape == (2, 3)
    assert second.outputs is not None and second.outputs.ravel().tolist() == [2, 3, 4]


@pytest.mark.parametrize(("grid", "last"), [("closed", 1.0), ("periodic", 0.75)])
def test_grids(tmp_path: Path, grid: str, last: float) -> None:
    a = np.random.default_rng(0).random((2, 4, 4)) > 0.5
    to_torch(tmp_path / "darcy.pt", {"x": a, "y": a * 1.0})
    data = read(tmp_path / "darcy.pt", Roles(grid=grid))
    assert data.layout.inputs == (Field("x", 1),) and data.layout.outputs == (Field("y", 1),)
    assert data.layout.period == ((1.0, 1.0) if grid == "periodic" else None)
    sample = data.samples[1]
    assert sample.points[-1].tolist() == [last, last]
    assert (sample.inputs.reshape(4, 4) == a[1]).all()


def test_trajectories(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u = rng.random((S, 5, N, 2)).astype(np.float32)
    to_npz(tmp_path / "a.npz", {"points": rng.random((N, 1)), "u": u, "period": np.array(1.0)})
    data = read(tmp_path / "a.npz", Roles(states=("u",)))
    assert data.layout.in_time and data.layout.outputs == (Field("u", 2),)
    assert data.layout.period == (1.0,) and data.layout.inputs == ()
    assert (data.samples[2].states == u[2]).all()


def test_fields_of_structs_have_names(tmp_path: Path) -> None:
    what = {
        "case": {"points": np.zeros((4, 2)), "u": np.ones((1, 4))},
        "cell": np.array([1, "a"], object),
    }
    to_matlab_5(tmp_path / "a.mat", what)
    found = contents(tmp_path / "a.mat")
    assert found.arrays["case.u"].shape == (1, 4)
    assert "cell" in found.unused


def test_vectors_of_matlab(tmp_path: Path) -> None:
    """Rows where others have one axis, and float64 for all numbers."""
    rng = np.random.default_rng(0)
    row = {"points": rng.random((1, 9)), "outputs": rng.random((3, 9)), "parameters": [[1.0, 2.0]]}
    to_matlab_5(tmp_path / "row.mat", row)
    data = read(tmp_path / "row.mat", Roles(inputs=()))
    assert len(data) == 3 and data.layout.dimension == 1
    assert (data.samples[2].points[:, 0] == row["points"][0]).all()
    assert data.samples[2].parameters.tolist() == [1, 2]
    several = {
        "points": rng.random((9, 2)),
        "outputs": rng.random((9, 1)),
        "offsets": [[0.0, 4, 9]],
    }
    to_matlab_5(tmp_path / "several.mat", several)
    data = read(tmp_path / "several.mat")
    assert [len(sample.points) for sample in data.samples] == [4, 5]


# ---- files of other tools ----


def pictures(pv, folder: Path) -> dict[str, np.ndarray]:
    """A grid of 4 x 3 points as VTK writes it in all its formats, and the expected points."""
    image = pv.ImageData(dimensions=(4, 3, 1), spacing=(1, 2, 1))
    image["u"] = np.arange(12.0)
    image["k"] = np.arange(12)
    image.cell_data["c"] = np.arange(6.0)
    rectilinear, structured = (
        pv.RectilinearGrid([0, 1, 2, 3], [0, 2, 4], [0]),
        image.cast_to_structured_grid(),
    )
    for name in ("u", "k"):
        rectilinear[name] = image[name]
    rectilinear.cell_data["c"] = image.cell_data["c"]
    whole = image.cast_to_unstructured_grid()
    for name, mesh in (
        ("a.vti", image), ("image.vtk", image), ("a.vtr", rectilinear), ("rect.vtk", rectilinear),
        ("a.vts", structured), ("struct.vtk", structured), ("pixel.vtu", whole),
        ("whole.vtk", whole), ("a.vtp", image.extract_surface(algorithm=None)),
    ):  # fmt: skip
        mesh.save(folder / name)
    return np.array(image.points[:, :2])


def test_all_that_vtk_writes(tmp_path: Path) -> None:
    pv = pytest.importorskip("pyvista")
    x = pictures(pv, tmp_path)
    for path in sorted(tmp_path.iterdir()):
        data = read(path, Roles(outputs=("u",), inputs=("k",)))
        (sample,) = data.samples
        # the surface has its points in another order
        at = [int(np.flatnonzero((x == p).all(axis=1))[0]) for p in sample.points]
        assert sorted(at) == list(range(12)) and (path.name == "a.vtp" or at == sorted(at))
        assert (sample.outputs[:, 0] == at).all() and (sample.inputs[:, 0] == at).all()
        (quads,) = sample.cells.values()
        assert np.ptp(sample.points[quads], axis=1).tolist() == 6 * [[1, 2]]
        (cell,) = read(path, Roles(outputs=("c",), inputs=(), cells=True)).samples
        expected = np.array([[i + 0.5, 2 * j + 1] for j in range(2) for i in range(3)])
        assert (cell.points == expected).all()
        assert (cell.outputs[:, 0] == np.arange(6)).all()
        # cells that share an edge
        distances = np.abs(np.diff(cell.points[cell.cells["line"]], axis=1)[:, 0])
        assert sorted(map(tuple, distances.tolist())) == 3 * [(0, 2)] + 4 * [(1, 0)]
    (tmp_path / "a.vti").write_bytes((tmp_path / "a.vti").read_bytes()[:400])
    assert "damaged, or not of this format" in refusal(tmp_path / "a.vti")


def test_pieces_and_blocks_of_vtk(tmp_path: Path) -> None:
    """Grids in pieces, and blocks, as VTK writes them."""
    pv = pytest.importorskip("pyvista")
    from vtkmodules import vtkIOParallelXML

    image = pv.ImageData(dimensions=(5, 4, 1), spacing=(1, 2, 1))
    image["u"] = np.arange(20.0)
    image["k"] = 2 * np.arange(20)
    image.cell_data["c"] = np.arange(12.0)
    box = pv.RectilinearGrid(np.arange(5.0), [0.0, 2, 4, 6], [0.0])
    for name in ("u", "k"):
        box[name] = image[name]
    box.cell_data["c"] = image.cell_data["c"]
    writers = {
        "a.pvti": (vtkIOParallelXML.vtkXMLPImageDataWriter, image),
        "a.pvtr": (vtkIOParallelXML.vtkXMLPRectilinearGridWriter, box),
        "a.pvts": (vtkIOParallelXML.vtkXMLPStructuredGridWriter, image.cast_to_structured_grid()),
    }
    for name, (kind, mesh) in writers.items():
        writer = kind()
        writer.SetFileName(str(tmp_path / name))
        writer.SetNumberOfPieces(2)
        writer.SetStartPiece(0)
        writer.SetEndPiece(1)
        writer.SetInputData(mesh)
        assert writer.Write()
        assert len(list(tmp_path.glob(f"a_*.{name[-3:]}"))) == 2
    whole = image.cast_to_unstructured_grid()
    halves = [whole.extract_cells(np.flatnonzero((np.arange(12) % 4 < 2) == k)) for k in (1, 0)]
    edges = whole.extract_feature_edges()
    pv.MultiBlock({"left": halves[0], "inner": pv.MultiBlock([halves[1]]), "wall": edges}).save(
        tmp_path / "a.vtm"
    )
    for k, half in enumerate(halves):
        half.extract_surface(algorithm=None).save(tmp_path / f"a_{k}.vtp")
    pieces = "".join(f'<Piece Source="a_{k}.vtp"/>' for k in range(2))
    (tmp_path / "a.pvtp").write_text(
        f'<VTKFile type="PPolyData"><PPolyData>{pieces}</PPolyData></VTKFile>'
    )
    for name in (*writers, "a.vtm", "a.pvtp"):
        data = read(tmp_path / name, Roles(outputs=("u",), inputs=("k",)))
        (sample,) = data.samples
        at = (sample.points @ [1, 2.5]).round().astype(int)  # the number of the point
        assert sorted(at) == list(range(20)), name
        assert (sample.outputs[:, 0] == at).all() and (sample.inputs[:, 0] == 2 * at).all()
        (quads,) = sample.cells.values()
        assert np.ptp(sample.points[quads], axis=1).tolist() == 12 * [[1, 2]]
        (cell,) = read(tmp_path / name, Roles(outputs=("c",), inputs=(), cells=True)).samples
        at = (cell.points - [0.5, 1]) @ [1, 2]
        assert (cell.outputs[:, 0] == at).all() and len(at) == 12
    assert "in 2-D" in contents(tmp_path / "a.vtm").unused["blocks of a lower dimension (1)"]
    kinds = {file.suffix for file in expand([tmp_path])[0]}
    assert kinds == {".vtm", ".pvti", ".pvtr", ".pvts", ".pvtp"}
    moved = tmp_path / "inner"
    moved.mkdir()
    for name in (*writers, "a.vtm", "a.pvtp"):
        text = re.sub(r'(Source|file)="', r'\1="../', (tmp_path / name).read_text())
        (moved / name).write_text(text)
        assert "is not in its folder" in refusal(moved / name)


def test_times_and_pieces_as_vtk_lists_them(tmp_path: Path) -> None:
    """A run of a parallel program: pieces with points in common, and a list of times."""
    meshio = pytest.importorskip("meshio")
    x = np.array([[i, j, 0.0] for j in range(2) for i in range(5)])
    quads = np.array([[i, i + 1, i + 6, i + 5] for i in range(4)])
    (tmp_path / "run").mkdir()
    entries = []
    for t in range(3):
        for part, rows in enumerate((slice(0, 2), slice(2, 4))):
            used = np.unique(quads[rows])
            number = {int(k): n for n, k in enumerate(used)}
            members = np.array([[number[int(k)] for k in quad] for quad in quads[rows]])
            fields = {"u": x[used, 0] + 10 * t, "f": np.full(len(used), 1.0 * t)}
            on_cells = {"p": [np.arange(4.0)[rows] + t]}
            meshio.Mesh(x[used], [("quad", members)], fields, on_cells).write(
                tmp_path / f"run/{t}_{part}.vtu"
            )
        pieces = "".join(f'<Piece Source="{t}_{part}.vtu"/>' for part in range(2))
        (tmp_path / f"run/{t}.pvtu").write_text(
            f'<VTKFile type="PUnstructuredGrid"><PUnstructuredGrid>{pieces}</PUnstructuredGrid>'
            "</VTKFile>"
        )
        entries.append(f'<DataSet timestep="{0.25 * t}" file="run/{t}.pvtu"/>')
    listed = "<VTKFile type='Collection'><Collection>{}</Collection></VTKFile>"
    (tmp_path / "a.pvd").write_text(listed.format("".join(entries)))
    data = read(tmp_path / "a.pvd", Roles(states=("u",)))
    (sample,) = data.samples
    assert data.layout.step == 0.25 and [f.name for f in data.layout.inputs] == ["f"]
    assert sample.points.shape == (10, 2) and sample.states.shape == (3, 10, 1)
    assert (sample.states[:, :, 0] == sample.points[:, 0] + 10 * np.arange(3)[:, None]).all()
    assert (sample.inputs[:, :, 0] == np.arange(3)[:, None]).all()
    assert (np.ptp(sample.points[sample.cells["quad"]], axis=1) == 1).all()
    data = read(tmp_path / "a.pvd", Roles(states=("p",), cells=True))
    (sample,) = data.samples
    assert (sample.states[:, :, 0] == np.floor(sample.points[:, 0]) + np.arange(3)[:, None]).all()
    with pytest.raises(DataError, match=r"array 'u' has 3 times; say with --state"):
        read(tmp_path / "a.pvd", Roles(outputs=("u",)))
    (tmp_path / "b.pvd").write_text(listed.format('<DataSet file="../a.vtu"/>'))
    assert "'../a.vtu' is not in its folder" in refusal(tmp_path / "b.pvd")
    (tmp_path / "b.pvd").write_text(listed.format(entries[0] + entries[0]))
    assert "several files at one time" in refusal(tmp_path / "b.pvd")


def test_predictions_are_on_the_mesh_that_was_read(tmp_path: Path) -> None:
    """Fields at centers are written to the cells, and points without data have NaN."""
    meshio = pytest.importorskip("meshio")
    x = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [0, 2]])
    cells = [("line", [[0, 1]]), ("triangle", [[3, 4, 6]]), ("quad", [[0, 1, 4, 3], [1, 2, 5, 4]])]
    p = [[np.nan], [1.0], [2.0, np.nan]]
    u = np.array([0, 1, np.nan, 3, 4, 5, 6.0])
    meshio.Mesh(x, cells, {"u": u}, {"p": p}).write(tmp_path / "a.vtu")
    for roles, name in (
        (Roles(outputs=("p",), inputs=(), cells=True, mask="nan"), "p"),
        (Roles(outputs=("u",), inputs=(), mask="nan"), "u"),
    ):
        (sample,) = read(tmp_path / "a.vtu", roles).samples
        made = Prediction.of(sample, {name: 10 * sample.outputs})
        write(tmp_path / "b.vtu", [made])
        again = meshio.read(tmp_path / "b.vtu")
        assert np.allclose(again.points[:, :2], x)
        assert [(c.type, c.data.tolist()) for c in again.cells] == [(k, c) for k, c in cells]
        if name == "u":
            assert np.array_equal(again.point_data["u"], np.float32(10 * u), equal_nan=True)
        else:
            for one, other in zip(again.cell_data["p"], p, strict=True):
                assert np.array_equal(one, 10 * np.float32(other), equal_nan=True)
        write(tmp_path / "b.npz", [made])
        found = contents(tmp_path / "b.npz").arrays
        assert found["points"].shape == ((7, 2) if name == "u" else (3, 2))
        assert np.isnan(found[name]).sum() == 1
    times = np.arange(2.0)
    states = np.stack([sample.outputs, 2 * sample.outputs])
    write(tmp_path / "c.npz", [Prediction.of(sample, {"u": states}, True, times)])
    found = contents(tmp_path / "c.npz").arrays["u"][0, :, :, 0]
    assert np.array_equal(found, [u, 2 * u], equal_nan=True)


def test_polygons_are_read_and_written(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.array([[0, 0], [1, 0], [2, 1], [1, 2], [0, 1.5], [2, 0]])
    cells = {"polygon5": np.array([[0, 1, 2, 3, 4]]), "triangle": np.array([[1, 5, 2]])}
    made = Prediction(x, {"u": x[:, :1]}, cells | {"polyhedron4": np.array([[0, 1, 2, 3]])})
    write(tmp_path / "a.vtu", [made])
    assert {c.type for c in meshio.read(tmp_path / "a.vtu").cells} == {"polygon", "triangle"}
    (sample,) = read(tmp_path / "a.vtu", Roles(outputs=("u",), inputs=())).samples
    assert {name: rows.tolist() for name, rows in sample.cells.items()} == {
        name: rows.tolist() for name, rows in cells.items()
    }
    assert len(sample.edges) == 7


def test_files_of_a_folder_that_are_no_samples(tmp_path: Path) -> None:
    """Notes, lists of the other files, and pieces of meshes."""
    for name in ("a_1.vtu", "a_0.vtu", "a.pvd", "notes.txt", "log.csv"):
        (tmp_path / name).touch()
    assert [file.name for file in expand([tmp_path])[0]] == ["a_0.vtu", "a_1.vtu"]
    (tmp_path / "a.pvtu").touch()
    assert [file.name for file in expand([tmp_path])[0]] == ["a.pvtu"]
    (tmp_path / "tables").mkdir()
    for name in ("1.csv", "10.csv", "2.csv"):
        (tmp_path / "tables" / name).touch()
    found = expand([tmp_path / "tables"])[0]
    assert [file.name for file in found] == ["1.csv", "2.csv", "10.csv"]


def test_predictions_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    rng = np.random.default_rng(0)
    u = rng.random((3, 5, 1)).astype(np.float32)
    made = Prediction(rng.random((5, 2)), {"u": u}, {}, True, np.array([0.5, 0.75, 1]))
    data = read(write(tmp_path / "a.vtu", [made])[0], Roles(states=("u",), inputs=()))
    assert (data.samples[0].states == u).all() and data.layout.step == 0.25


def test_fields_on_cells_of_several_types(tmp_path: Path) -> None:
    """The mean of the corners, whatever the degree; lines on the border are no cells."""
    meshio = pytest.importorskip("meshio")
    x = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0], [4, 0, 0], [1, 0, 0.0]])
    blocks = [("line", [[0, 1]]), ("quad", [[0, 1, 2, 3]]), ("triangle", [[1, 4, 2]])]
    mesh = meshio.Mesh(x, blocks, {"u": x[:, 0]}, {"a": [[7], [1], [2]], "b": [[7], [3], [4]]})
    mesh.write(tmp_path / "a.vtu")
    (sample,) = read(tmp_path / "a.vtu", Roles(outputs=("b",), inputs=("a",), cells=True)).samples
    assert np.allclose(sample.points, [[1, 1], [8 / 3, 2 / 3]])
    assert sample.inputs[:, 0].tolist() == [1, 2] and sample.outputs[:, 0].tolist() == [3, 4]
    assert sample.cells["line"].tolist() == [[0, 1]]
    told = contents(tmp_path / "a.vtu").unused
    assert told["a"] == "it is on cells; --cells takes these for points"
    with pytest.raises(DataError, match=r"'b' cannot be used .it is on cells; --cells takes"):
        read(tmp_path / "a.vtu", Roles(outputs=("b",)))
    to_npz(tmp_path / "a.npz", arrays())
    with pytest.raises(DataError, match="has no cells, which --cells takes"):
        read(tmp_path / "a.npz", Roles(cells=True))


def test_a_case_of_openfoam(tmp_path: Path) -> None:
    """The lid-driven cavity on 3 x 2 cells, as blockMesh and icoFoam of version 1912 write it."""
    pytest.importorskip("pyvista")
    shutil.unpack_archive(Path(__file__).parent / "datasets/openfoam_cavity.zip", tmp_path)
    path = tmp_path / "a.foam"
    path.touch()
    with pytest.raises(DataError, match=r"'U' cannot be used .it is on cells; --cells takes these"):
        read(path, Roles(states=("U",)))
    data = read(path, Roles(states=("U", "p"), inputs=(), cells=True))
    (sample,) = data.samples
    assert data.layout.step == 0.01 and sample.states.shape == (3, 6, 4)
    middles = [[i / 30 + 1 / 60, j / 20 + 1 / 40, 0.005] for j in range(2) for i in range(3)]
    assert np.allclose(sample.points, middles)
    text = (tmp_path / "0.02/U").read_text()
    values = text.split("nonuniform")[1].split("boundaryField")[0]
    rows = [list(map(float, v.split())) for v in re.findall(r"\(([-\d.e ]+)\)", values)]
    assert np.allclose(sample.states[2, :, :3], rows) and (sample.states[0] == 0).all()
    assert sample.edges.tolist() == [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [4, 5]]
    (tmp_path / "0/p").write_text('#include "/etc/hostname"\n' + (tmp_path / "0/p").read_text())
    assert "'0/p' has #include, which is not followed" in refusal(path)
    shutil.rmtree(tmp_path / "system")
    assert "no case of OpenFOAM" in refusal(path)


def test_netcdf_of_all_versions(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4")
    rng = np.random.default_rng(0)
    u = rng.random((4, 3, 5))
    for form in ("NETCDF3_CLASSIC", "NETCDF4"):
        with netcdf.Dataset(tmp_path / "a.nc", "w", format=form) as file:
            for name, n in (("time", 4), ("lat", 3), ("lon", 5)):
                file.createDimension(name, n)
                variable = file.createVariable(name, "f8", (name,))
                variable[:] = 10.0 * np.arange(n)
                variable.units = {"time": "hours since 2000-01-01"}.get(name, "degrees")
            field = file.createVariable("u", "i2", ("time", "lat", "lon"), fill_value=-1)
            field.scale_factor = 1e-4
            field[:] = np.ma.masked_less(u, 0.0)
            land = file.createVariable("land", "f4", ("lat", "lon"), fill_value=-9.0)
            land[:] = np.ma.masked_array(np.ones((3, 5)), np.eye(3, 5) > 0)
        found = contents(tmp_path / "a.nc")
        assert np.allclose(found.arrays["u"], u, atol=1e-4)
        assert (np.isnan(found.arrays["land"]) == (np.eye(3, 5) > 0)).all()
        assert found.said("time") == "time; hours since 2000-01-01"
        assert found.said("u") == "time, lat, lon"
        roles = Roles("lon,lat", (), states=("u",), layout=tuple("tyx"))
        data = read(tmp_path / "a.nc", roles)
        assert data.layout.step == 10 and data.layout.dimension == 2
        assert data.samples[0].points[1].tolist() == [10, 0]
        assert np.allclose(data.samples[0].states[:, 1, 0], u[:, 0, 1], atol=1e-4)
    (tmp_path / "b.nc").write_bytes(b"no")
    assert "cannot be read as NetCDF" in refusal(tmp_path / "b.nc")


def test_tables(tmp_path: Path) -> None:
    """As ParaView, COMSOL, NumPy and spreadsheets write them."""
    rng = np.random.default_rng(0)
    x, u = rng.random((6, 2)), rng.random((6, 2))
    rows = np.c_[u, x, np.zeros(6), x[:, 0] + 1]
    header = '"outputs:0","outputs:1","Points:0","Points:1","Points:2","a"'
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header=header, comments="", fmt="%.17g")
    np.savetxt(tmp_path / "b.txt", np.c_[x, x[:, 0] + 1, u], fmt="%.17g",
               header="Model: x.mph\nx y a v w")  # fmt: skip
    np.savetxt(tmp_path / "c.csv", np.c_[x, x[:, 0] + 1, u], fmt="%.17g", delimiter=";",
               header="x;y;a;v;w", comments="")  # fmt: skip
    (sample,) = read(tmp_path / "a.csv").samples
    assert (sample.points == x).all() and np.allclose(sample.outputs, u)
    for name in ("b.txt", "c.csv"):
        data = read(tmp_path / name, Roles(outputs=("v", "w")))
        assert data.layout.inputs == (Field("a", 1),) and (data.samples[0].points == x).all()
        assert np.allclose(data.samples[0].outputs, u)
    for text, told in (
        ("1,2\n3,4\n", "needs the names of the columns"), ("x,y\n1,2,3\n", "2 names for 3"),
        ("x;y\n1,5;2\n", "decimal commas"), ("x,y\n1,\n", "could not convert"), ("", "no rows"),
        ("x,x\n1,2\n", "several columns called 'x'"),
    ):  # fmt: skip
        (tmp_path / "d.csv").write_text(text)
        assert told in refusal(tmp_path / "d.csv")


def test_arrays_in_files_of_their_own(tmp_path: Path) -> None:
    """All files .npy of a folder are arrays of one file, and a * makes samples of them."""
    given = arrays()
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "same").mkdir()
    to_npz(tmp_path / "same/same.npz", given)
    kept = Roles(inputs=("a", "v"))
    for path in (tmp_path, f"{tmp_path}/*.npy"):
        assert same(read(path, kept), read(tmp_path / "same", kept))
    for k in range(S):
        np.save(tmp_path / f"b_{k}.npy", given["a"][k])
    data = read(tmp_path, Roles(inputs=("v",), outputs=("b_*",)))
    assert (data.samples[1].outputs[:, 0] == given["a"][1]).all()
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    assert "never loaded" in refusal(tmp_path / "a.npy")


# ---- points without data ----


def test_points_without_data_are_left_out(tmp_path: Path) -> None:
    """Sea and land, told by a field or by what is not finite."""
    rng = np.random.default_rng(0)
    x, a, u = rng.random((9, 2)), rng.random((4, 9)), rng.random((4, 5, 9))
    sea = np.array([1, 1, 0, 1, 1, 1, 0, 1, 1])
    land = {k: np.where(sea > 0, f, np.nan) for k, f in (("a", a), ("u", u))}
    to_npz(tmp_path / "a.npz", {"points": x, "sea": sea, **land})
    for mask, inputs in (("sea", ("a",)), ("nan", ("a",)), ("sea", None)):
        data = read(tmp_path / "a.npz", Roles(states=("u",), inputs=inputs, mask=mask))
        assert [f.name for f in data.layout.inputs] == ["a"]
        assert data.left_out["points without data"] == "--mask leaves out up to 2 of a sample"
        for k, sample in enumerate(data.samples):
            assert (sample.points == x[sea > 0]).all() and sample.points is data.samples[0].points
            assert (sample.inputs[:, 0] == np.float32(a[k, sea > 0])).all()
            assert (sample.states[..., 0] == np.float32(u[k][:, sea > 0])).all()
    for mask, text in ((None, "--mask nan"), ("other", "array 'other' is missing")):
        with pytest.raises(DataError, match=text):
            read(tmp_path / "a.npz", Roles(states=("u",), inputs=("a",), mask=mask))
    land["u"][2, 3, 5] = np.nan
    to_npz(tmp_path / "a.npz", {"points": x, "sea": sea, **land})
    with pytest.raises(DataError, match="sample 2: is not finite at points that the mask keeps"):
        read(tmp_path / "a.npz", Roles(states=("u",), inputs=("a",), mask="sea"))
    to_npz(tmp_path / "a.npz", {"points": x, "sea": 0 * sea, "a": a, "y": a})
    with pytest.raises(DataError, match="no point has data"):
        read(tmp_path / "a.npz", Roles(mask="sea"))
    to_npz(tmp_path / "a.npz", {"sea": rng.random((3, 3)) > 0.5, "y": u[:, 0].reshape(4, 3, 3)})
    data = read(tmp_path / "a.npz", Roles(mask="sea", grid="closed", layout=tuple("sxy")))
    assert len(data) == 4 and len(data.samples[0].points) < 9


def test_cells_of_points_without_data_are_left_out(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0.0]])
    u = np.array([np.nan, 1, 2, 3])
    meshio.Mesh(x, [("triangle", [[0, 1, 2], [1, 3, 2]])], {"u": u}).write(tmp_path / "a.vtu")
    (sample,) = read(tmp_path / "a.vtu", Roles(outputs=("u",), inputs=(), mask="nan")).samples
    assert sample.cells["triangle"].tolist() == [[0, 2, 1]] and len(sample.points) == 3
    assert sample.edges.tolist() == [[0, 1], [0, 2], [1, 2]]


# ---- large data ----

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


# ---- what arrays mean ----


def xdmf(path: Path, times: list[float], force: bool = True) -> Path:
    """One trajectory as meshio writes it, with a force that changes in time."""
    meshio = pytest.importorskip("meshio")
    pytest.importorskip("h5py")
    x = np.random.default_rng(0).random((9, 2))
    with meshio.xdmf.TimeSeriesWriter(path) as writer:
        writer.write_points_cells(x, [("vertex", np.arange(9)[:, None])])
        for t in times:
            fields = {"u": x[:, 0] + 10 * t} | ({"force": np.full(9, t)} if force else {})
            writer.write_data(t, point_data=fields)
    return path


def test_inputs_of_a_trajectory_may_change_in_time(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    meshio = pytest.importorskip("meshio")
    times = [0.1 * k for k in range(5)]
    xdmf(tmp_path / "a.xdmf", times)
    (tmp_path / "a").mkdir()
    x = read("a.xdmf", Roles(states=("u",))).samples[0].points
    wall = (x[:, 0] > 0.5) * 1.0
    for k, t in enumerate(times):
        fields = {"u": x[:, 0] + 10 * t, "force": np.full(9, t), "wall": wall}
        if k != 2:
            fields["extra"] = wall
        meshio.Mesh(x, [("vertex", np.arange(9)[:, None])], fields).write(f"a/{k}.vtu")
    data = {path: read(path, Roles(states=("u",))) for path in ("a.xdmf", "a")}
    for path, names in (("a.xdmf", ["force"]), ("a", ["force", "wall"])):
        (sample,) = data[path].samples
        assert [f.name for f in data[path].layout.inputs] == names
        assert np.allclose(sample.inputs[..., 0], np.array(times)[:, None])
        assert sample.inputs.shape == (5, 9, len(names))
    assert (data["a"].samples[0].inputs[..., 1] == wall).all()
    assert data["a"].left_out == {"extra": "it is not in 2.vtu"}
    assert data["a.xdmf"].layout.step == pytest.approx(0.1) and data["a"].layout.step is None


def test_inputs_of_several_trajectories_may_change_in_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    given = {
        "points": rng.random((N, 2)), "u": rng.random((S, 5, N)), "f": rng.random((S, 5, N)),
        "a": rng.random((S, N)), "m": rng.random(N), "w": rng.random((S, 5, N, 2)),
    }  # fmt: skip
    to_npz(tmp_path / "a.npz", given)
    data = read(tmp_path / "a.npz", Roles(states=("u",)))
    assert [tuple(f) for f in data.layout.inputs] == [("f", 1), ("a", 1), ("m", 1), ("w", 2)]
    sample = data.samples[1]
    assert np.allclose(sample.inputs[3, :, 0], given["f"][1, 3])
    assert np.allclose(sample.inputs[2, :, 1], given["a"][1])
    assert np.allclose(sample.inputs[4, :, 2], given["m"])
    assert np.allclose(sample.inputs[4, :, 3:], given["w"][1, 4])
    for shape in ((4, N), (S, 4, N)):
        to_npz(tmp_path / "b.npz", given | {"f": rng.random(shape)})
        with pytest.raises(
            DataError, match=r"array 'f' has shape .*\(3, 5, 12\[, channels\]\) where"
        ):
            read(tmp_path / "b.npz", Roles(states=("u",)))
    to_npz(tmp_path / "c.npz", given | {"u": rng.random((12, N)), "f": rng.random((N, N))})
    with pytest.raises(DataError, match=r"array .u. .* which axis has the 12 points"):
        read(tmp_path / "c.npz", Roles(states=("u",), inputs=("f",)))
    to_npz(tmp_path / "d.npz", given | {"f": rng.random((S, 4, N))})
    with pytest.raises(DataError, match="array 'f' has 4 times, but 'u' has 5"):
        read(tmp_path / "d.npz", Roles(states=("u", "f")))


def test_times_are_sorted_and_even(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shuffled = [0, 0.3, 0.1, 0.2, 0.5, 0.4]
    (sample,) = read(xdmf(tmp_path / "a.xdmf", shuffled), Roles(states=("u",))).samples
    assert np.allclose(sample.times, np.arange(6) * 0.1)
    assert np.allclose(sample.inputs[:, 0, 0], sample.times)
    assert np.allclose(sample.states[:, :, 0], sample.points[:, 0] + 10 * sample.times[:, None])
    xdmf(tmp_path / "b.xdmf", [0, 0.01, 0.02, 0.1])
    match = (
        r"b.xdmf: array 'time' is uneven: a step is 0.01 from .* to .*, and 0.08 from 0.02 to 0.1"
    )
    with pytest.raises(DataError, match=match):
        read("b.xdmf", Roles(states=("u",)))
    xdmf(tmp_path / "c.xdmf", [0, 0.2, 0.1, 0.1])
    with pytest.raises(DataError, match=r"two states at the same time, 0.1"):
        read("c.xdmf", Roles(states=("u",)))
    xdmf(tmp_path / "d.xdmf", [0, 0.2, 0.4])
    with pytest.raises(DataError, match=r"d.xdmf: .* \(time step: 0.2, needs 0.1\)"):
        read(["a.xdmf", "d.xdmf"], Roles(states=("u",)))


def test_times_of_arrays(tmp_path: Path) -> None:
    u, x = np.arange(2 * 4 * N).reshape(2, 4, N), np.random.default_rng(0).random((N, 2))
    # float32, and rounded as text has it
    for times in (
        np.float32([1, 1.1, 1.2, 1.3]),
        np.float16([0, 0.1, 0.2, 0.3]),
        [[0.0, 0.3333, 0.6667, 1.0], [5, 5.3333, 5.6667, 6]],
    ):
        to_npz(tmp_path / "a.npz", {"points": x, "u": u, "t": times} | {"time": times})
        data = read(tmp_path / "a.npz", Roles(states=("u",), inputs=()))
        assert len(data) == 2 and data.layout.step == pytest.approx(
            times[0][1] if np.ndim(times) > 1 else 0.1, rel=1e-3
        )
    to_npz(tmp_path / "b.npz", {"points": x, "u": u, "when": [[0, 1, 2, 3], [3, 2, 1, 0]]})
    data = read(tmp_path / "b.npz", Roles(states=("u",), time="when"))
    assert (data.samples[1].states[:, 0, 0] == u[1, ::-1, 0]).all()
    to_npz(tmp_path / "c.npz", {"points": x, "u": u, "time": np.arange(5)})
    with pytest.raises(DataError, match=r"'time' has shape \(5,\), needs \(4,\)"):
        read(tmp_path / "c.npz", Roles(states=("u",)))
    far = 1e6 + np.array([0, 0.1, 0.25, 0.35])
    to_npz(tmp_path / "e.npz", {"points": x, "u": u, "time": far})
    with pytest.raises(DataError, match="'time' is uneven"):
        read(tmp_path / "e.npz", Roles(states=("u",)))
    to_npz(tmp_path / "d.npz", {"points": x, "u": u, "time": [[0, 1, 2, 3], [0, 2, 4, 6]]})
    with pytest.raises(DataError, match="'time' has steps of 1, and of 2 in others"):
        read(tmp_path / "d.npz", Roles(states=("u",)))


@pytest.mark.parametrize("shape", [(9,), (1, 9), (9, 1), (4, 9)])
def test_coordinates_may_be_arrays_of_their_own(tmp_path: Path, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y, z = rng.random((3, *shape))
    given = {"x": x, "y": y, "z": z, "u": rng.random((4, 9)), "v": rng.random((4, 9))}
    to_matlab_5(tmp_path / "a.mat", given)
    kept = read(tmp_path / "a.mat", Roles("x,y,z", outputs=("v",)))
    assert kept.layout.dimension == 3 and kept.layout.inputs == (Field("u", 1),)
    for k in range(3):
        expected = [c.reshape(-1, 9)[k if shape == (4, 9) else 0] for c in (x, y, z)]
        assert np.allclose(kept.samples[k].points.T, expected)
    flat = read(tmp_path / "a.mat", Roles("y , x", inputs=("u",), outputs=("v",)))
    assert flat.layout.dimension == 2
    if shape != (4, 9):
        assert same(kept, read(tmp_path / "a.mat", Roles(outputs=("v",))))
        with pytest.raises(DataError, match=r"x, y, z are taken as coordinates.; say which are"):
            read(tmp_path / "a.mat")
    else:
        with pytest.raises(DataError, match=r"array 'x' has shape .* say which are the points"):
            read(tmp_path / "a.mat")


def test_coordinates_of_a_mesh_are_no_outputs(tmp_path: Path) -> None:
    meshio = pytest.importorskip("meshio")
    x = np.c_[np.random.default_rng(0).random((4, 2)), np.zeros(4)]
    fields = {"x": x[:, 0], "y": x[:, 1], "u": x[:, 0]}
    meshio.Mesh(x, [("quad", np.array([[0, 1, 2, 3]]))], fields).write(tmp_path / "a.vtu")
    with pytest.raises(DataError, match="say which are the outputs"):
        read(tmp_path / "a.vtu")
    data = read(tmp_path / "a.vtu", Roles(outputs=("y",)))
    assert data.layout.outputs == (Field("y", 1),)


def test_coordinates_that_are_axes_are_no_points(tmp_path: Path) -> None:
    axis = np.linspace(0, 1, 8)
    to_npz(
        tmp_path / "a.npz", {"x": axis, "y": axis, "u": np.ones((5, 8, 8)), "v": np.ones((5, 8, 8))}
    )
    with pytest.raises(DataError, match="8 channels on 8 points, or a grid"):
        read(tmp_path / "a.npz", Roles(outputs=("v",)))
    to_npz(tmp_path / "b.npz", {"x": axis, "y": axis[:5], "v": np.ones((5, 8, 5))})
    with pytest.raises(DataError, match=r"'y' has shape .5,., but 'x' has .8,.; .* --grid"):
        read(tmp_path / "b.npz", Roles("x,y", outputs=("v",)))


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    short = arrays() | {"a": np.zeros((S, N - 1)), "k": np.zeros((S,)), "c": np.full((S, N), 1j)}
    to_npz(tmp_path / "a.npz", short)
    left = read(tmp_path / "a.npz").left_out
    assert left["a"] == "has shape (3, 11), but 'points' has 12 points"
    assert "complex" in left["c"] and "k" in left and "v" not in left


LAYOUTS = {
    "channels last": ({"a": (6, 8, 9, 2), "b": (6, 8, 9, 3)}, "sxyc", {}, 8 * 9, (2, 3)),
    "images": ({"a": (6, 2, 9, 8), "b": (6, 1, 9, 8)}, "scyx", {}, 8 * 9, (2, 1)),
    "PDEBench, Darcy": ({"a": (6, 8, 8), "b": (6, 1, 8, 8)}, "scxy", {}, 64, (1, 1)),
    "FNO papers": ({"a": (6, 8, 8), "b": (6, 8, 8, 5)}, "sxyt", {"t": 5}, 64, (1, 1)),
    "The Well": ({"a": (8, 9), "b": (6, 5, 8, 9, 2)}, "stxyc", {"t": 5}, 72, (1, 2)),
    "tensors": ({"a": (6, 8, 9), "b": (6, 5, 8, 9, 2, 2)}, "stxycc", {"t": 5}, 72, (1, 4)),
    "a line": ({"a": (6, 8), "b": (6, 8, 5)}, "sxt", {"t": 5}, 8, (1, 1)),
    "space": ({"a": (6, 5, 6, 7, 8), "b": (6, 5, 6, 7, 8)}, "stxyz", {"t": 5}, 336, (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_axes_of_grids(tmp_path: Path, name: str) -> None:
    shapes, layout, times, n, widths = LAYOUTS[name]
    rng = np.random.default_rng(0)
    given = {k: rng.random(shape).astype(np.float32) for k, shape in shapes.items()}
    to_npz(tmp_path / "a.npz", given)
    role = {"states" if times else "outputs": ("b",)}
    data = read(tmp_path / "a.npz", Roles(grid="closed", layout=tuple(layout), **role))
    assert len(data) == 6 and len(data.samples[0].points) == n
    assert (data.layout.inputs[0].width, data.layout.outputs[0].width) == widths
    # an entry of the file is where its indices say
    index = [rng.integers(size) for size in shapes["b"]]
    at = dict(zip(layout, index, strict=True))
    sides = dict(zip(layout, shapes["b"], strict=True))
    place = [at[axis] / (sides[axis] - 1) for axis in "xyz" if axis in sides]
    sample = data.samples[at["s"]]
    (point,) = np.flatnonzero(np.abs(sample.points - place).max(axis=1) < 1e-9)
    values = sample.states[at["t"], point] if times else sample.outputs[point]
    assert given["b"][tuple(index)] in values


@pytest.mark.parametrize(
    ("shape", "role", "text"),
    [
        ((6, 16, 16, 2), "outputs", "a grid of 16 x 16 x 2, or samples, channels or times"),
        ((6, 1, 16, 16), "outputs", "a grid of 1 x 16 x 16"),
        ((6, 16, 16, 8), "outputs", "a grid of 16 x 16 x 8"),
        ((6, 64, 3), "outputs", "a grid of 64 x 3"),
        ((64, 64, 100), "outputs", "a grid of 64 x 100"),  # samples last, as in MATLAB
        ((16, 16, 16), "outputs", "16 samples on a grid of 16 x 16"),
        ((100, 256), "outputs", "100 samples on a grid of 256"),
        ((6, 16, 16, 20), "states", "16 times on a grid of 16 x 20"),
        ((6, 64, 20), "states", "64 times on a grid of 20"),
        ((6, 20, 64), "states", "20 times on a grid of 64"),
        ((20, 64, 64), "states", "64 times on a grid of 64"),
        ((6, 20, 16, 16, 2), "states", "20 times on a grid of 16 x 16 x 2"),
    ],
)
def test_grids_that_may_be_something_else_are_asked_about(tmp_path, shape, role, text) -> None:
    to_npz(tmp_path / "a.npz", {"u": np.ones(shape)})
    with pytest.raises(DataError, match=rf"array 'u' has shape .*: {text}.*--layout"):
        read(tmp_path / "a.npz", Roles(grid="closed", inputs=(), **{role: ("u",)}))


AXES_OF_POINTS = {
    "samples in columns": ({"a": (N, 24), "b": (N, 24)}, "ps", False, "24 channels of one"),
    "as many samples as points": ({"a": (N, N), "b": (N, N)}, "sp", False, "12 samples on 12"),
    "components first": ({"a": (N,), "b": (2, N)}, "cp", False, "2 samples, or 2 components"),
    "times last": ({"b": (5, N, 11)}, "spt", True, "11 channels at 5 times, or samples"),
    "as many times as points": ({"b": (N, N)}, "tp", True, "which axis has the 12 points"),
    "both": ({"b": (5, N, N)}, "stp", True, "which axis has the 12 points"),
}


@pytest.mark.parametrize("name", AXES_OF_POINTS)
def test_axes_on_points_are_asked_for(tmp_path: Path, name: str) -> None:
    shapes, layout, in_time, text = AXES_OF_POINTS[name]
    rng = np.random.default_rng(0)
    given = {k: rng.random(shape).astype(np.float32) for k, shape in shapes.items()}
    to_npz(tmp_path / "a.npz", given | {"points": rng.random((N, 2))})
    names = {"states" if in_time else "outputs": ("b",), "inputs": ("a",) if "a" in given else ()}
    with pytest.raises(DataError, match=rf"has shape .*: {text}.*--layout"):
        read(tmp_path / "a.npz", Roles(**names))
    data = read(tmp_path / "a.npz", Roles(layout=tuple(layout), **names))
    sizes = dict(zip(layout, shapes["b"], strict=True))
    assert len(data) == sizes.get("s", 1) and data.layout.outputs[0].width == sizes.get("c", 1)
    order = [layout.find(axis) for axis in "stpc" if axis in layout]
    found = given["b"].transpose(order).reshape(len(data), -1, N, sizes.get("c", 1))
    for k, sample in enumerate(data.samples):
        assert (found[k] == (sample.states if in_time else sample.outputs[None])).all()


def test_times_without_a_state_are_asked_about(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = xdmf(tmp_path / "a.xdmf", [0.1 * k for k in range(5)])
    with pytest.raises(DataError, match=r"array 'u' has 5 times; say with --state .* --layout"):
        read(path, Roles(outputs=("u",)))
    assert len(read(path, Roles(outputs=("u",), layout=tuple("sp")))) == 5
    assert len(read(path, Roles(states=("u",)))) == 1


def test_grids_have_coordinates_along_their_axes(tmp_path: Path) -> None:
    """Uneven grids are told by an array for each axis, even if these are equally long."""
    rng = np.random.default_rng(0)
    x, y, u = np.array([0.0, 1, 3, 7]), np.array([5.0, 6, 9]), rng.random((6, 3, 4))
    to_npz(tmp_path / "a.npz", {"x": x, "lat": y, "a": 2 * u, "u": u})
    for layout, n in (("syx", 4), ("sxy", 3)):
        to_npz(tmp_path / "a.npz", {"x": x[:n], "lat": y, "a": 2 * u[..., :n], "u": u[..., :n]})
        named = Roles("x,lat", outputs=("u",), layout=tuple(layout))
        data = read(tmp_path / "a.npz", named)
        assert [f.name for f in data.layout.inputs] == ["a"] and len(data) == 6
        for sample, values in zip(data.samples, u[..., :n], strict=True):
            values = values if layout == "syx" else values.T
            for point, value in zip(sample.points, sample.outputs, strict=True):
                at = int(np.flatnonzero(y == point[1])[0]), int(np.flatnonzero(x == point[0])[0])
                assert np.float32(values[at]) == value[0]
    with pytest.raises(DataError, match=r"'x' has shape \(3,\), needs \(4,\), .* along x"):
        to_npz(tmp_path / "a.npz", {"x": x[:3], "lat": y, "u": u})
        read(tmp_path / "a.npz", Roles("x,lat", (), ("u",), layout=tuple("syx")))


def test_layouts_that_make_no_sense(tmp_path: Path) -> None:
    to_npz(tmp_path / "a.npz", {"u": np.ones((6, 5, 8, 8)), "a": np.ones((5, 8, 8))})
    for layout, states, text in (
        ("sxx", (), "needs s .samples"), ("sy", (), "needs s .samples"), ("c", (), "needs s"),
        ("sxyc", ("u",), "needs t"), ("stxy", (), "t is for times of a --state"),
        ("sxytc", ("u",), r"'a' has shape .5, 8, 8., needs the axes s,x,y,t,c"),
    ):  # fmt: skip
        role = {"states": states} if states else {"outputs": ("u",)}
        if layout == "sxytc":
            role["states"] = ("a",)
        with pytest.raises(DataError, match=text):
            read(tmp_path / "a.npz", Roles(grid="closed", layout=tuple(layout), **role))
    with pytest.raises(DataError, match="--layout has axes of a grid, needs --grid, or --points"):
        read(tmp_path / "a.npz", Roles(outputs=("u",), layout=("s", "x")))
    with pytest.raises(DataError, match="--points goes without --grid"):
        read(tmp_path / "a.npz", Roles("a", outputs=("u",), grid="closed"))


def test_arrays_with_numbers_are_samples(tmp_path: Path) -> None:
    """Numbered groups, as PDEBench has one for each trajectory, are samples."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(3):
            file[f"{k:04}/data"] = rng.random((5, 8, 8, 2)).astype(np.float32)
            file[f"{k:04}/grid/x"] = np.linspace(0, 1, 8)
            file[f"{k:04}/grid/t"] = np.linspace(0, 1, 5)
        last = file["0002/data"][()]
    roles = Roles(states=("*/data",), grid="closed", layout=tuple("stxyc"), time="*/grid/t")
    data = read(tmp_path / "a.h5", roles)
    assert len(data) == 3 and data.layout.step == 0.25
    assert (data.samples[2].states == last.reshape(5, 64, 2)).all()
    one = Roles(states=("0000/data",), grid="closed", layout=tuple("txyc"))
    with pytest.raises(
        DataError, match=r"look like samples of one quantity; take all as '\*/data'"
    ):
        read(tmp_path / "a.h5", one)


def test_a_grid_beside_points_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    to_npz(
        tmp_path / "a.npz",
        {"points": rng.random((64, 2)), "a": rng.random((3, 8, 8)), "y": rng.random((3, 8, 8))},
    )
    data = read(tmp_path / "a.npz", Roles(grid="closed"))
    assert data.left_out == {"points": "--grid makes the points"}


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("change", "roles", "text"),
    [
        ({"a": np.zeros((S, N + 1))}, {"inputs": ("a",)}, r"array 'a' has shape \(3, 13\), needs"),
        ({"a": np.zeros((S + 1, N))}, {"inputs": ("a",)}, "array 'a' holds 4 samples, but"),
        ({"points": np.zeros((N, 4))}, {"points": "points"}, r"array 'points' has shape \(12, 4\)"),
        ({"outputs": np.full((S, N), np.nan)}, {}, r"array 'outputs' is not finite .*\(0, 0\)"),
        ({"outputs": np.full((S, N), 1e300)}, {}, "array 'outputs' is not finite"),
        ({"outputs": np.full((S, N), 1j)}, {"outputs": ("outputs",)}, "'outputs' cannot be used"),
        ({}, {"outputs": ("u",)}, "array 'u' is missing .the file has: points"),
        ({}, {"period": (1.0, 1.0, 1.0)}, "--period is 1,1,1, needs 2 lengths"),
        ({"period": -np.ones(2)}, {}, "array 'period' is -1,-1, needs 2 lengths"),
        ({"points": np.zeros((S, N))}, {}, r"'points' has shape \(3, 12\), needs .* d = 1, 2 or 3"),
        ({"points": np.full(N, "a")}, {}, r"array 'points' cannot be used \(it is text\)"),
        ({}, {"inputs": ("outputs",), "outputs": ("outputs",)}, "'outputs' is named twice"),
        ({}, {"inputs": ("a", "a")}, r"array 'a' is named twice \(inputs\)"),
        ({"offsets": np.array([0, 1.5, 3])}, {}, "array 'offsets' needs integers"),
        ({"offsets": np.array([0, 5])}, {}, "array 'points' has 3 rows, but the offsets end"),
        ({}, {"states": ("parameters",)}, "array 'parameters' has shape .* needs .n_times, 12"),
        ({"points": np.zeros((2, N))}, {}, r"'points' has shape \(2, 12\).*transpose it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path, change, roles, text) -> None:
    to_npz(tmp_path / "a.npz", arrays() | change)
    with pytest.raises(DataError, match=text) as error:
        read(tmp_path / "a.npz", Roles(**roles))
    assert str(error.value).startswith(str(tmp_path / "a.npz"))


def test_missing_roles_are_asked_for(tmp_path: Path) -> None:
    to_npz(tmp_path / "a.npz", {"points": np.zeros((4, 2)), "u": np.ones((2, 4))})
    with pytest.raises(DataError, match=r"say which are the outputs with --outputs NAME"):
        read(tmp_path / "a.npz")
    to_npz(tmp_path / "b.npz", {"u": np.ones((2, 4))})
    with pytest.raises(DataError, match=r"which are the points with --points NAME .or --grid"):
        read(tmp_path / "b.npz")


def test_files_must_have_the_same_quantities(tmp_path: Path) -> None:
    to_npz(tmp_path / "a.npz", arrays())
    to_npz(tmp_path / "b.npz", arrays(3))
    with pytest.raises(DataError, match=r"b.npz, sample 0: .* \(dimensions: 3, needs 2\)"):
        read([tmp_path / "a.npz", tmp_path / "b.npz"], Roles(inputs=("a",)))
    assert len(read(str(tmp_path / "a.*"))) == S


# ---- hostile files ----


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


def refusal(path: Path) -> str:
    """Message of the error for a file: one line that names it."""
    with pytest.raises(DataError) as error:
        contents(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ") and text.isprintable()
    return text


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


# ---- the process that reads ----


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


# ---- writing ----


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


# ---- what numbers stand for ----


@pytest.mark.parametrize("suffix", [".nc", ".h5", ".zarr", "3.zarr"])
def test_packed_numbers_are_unpacked_in_every_format(tmp_path: Path, suffix: str) -> None:
    """One variable as netCDF4, h5py and zarr write it, with scale, offset and missing numbers."""
    raw = np.array([[1, -3, -99], [4, 1000, 7]], np.int16)
    about = {"scale_factor": 0.5, "add_offset": 2.0, "_FillValue": np.int16(-99)}
    about["valid_max"] = np.int16(900)
    path = tmp_path / f"a{suffix}"
    if suffix == ".nc":
        with pytest.importorskip("netCDF4").Dataset(path, "w") as file:
            file.createDimension("p", 3)
            file.createDimension("s", 2)
            fill = about.pop("_FillValue")
            u = file.createVariable("u", "i2", ("s", "p"), fill_value=fill)
            u.setncatts(about)
            u.set_auto_maskandscale(False)
            u[:] = raw
    elif suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["u"] = raw
            file["u"].attrs.update(about)
    else:
        group = pytest.importorskip("zarr").open_group(
            path, mode="w", zarr_format=3 - ("3" not in suffix)
        )
        array = group.create_array("u", data=raw)
        array.attrs.update({k: v.item() if hasattr(v, "item") else v for k, v in about.items()})
    u = contents(path).arrays["u"]
    nan = np.nan
    assert np.array_equal(u, [[2.5, 0.5, nan], [4, nan, 5.5]], equal_nan=True)


@pytest.mark.parametrize("suffix", [".h5", ".zarr"])
def test_packed_numbers_in_parts(tmp_path: Path, monkeypatch, suffix: str) -> None:
    """Arrays that stay in files are unpacked part by part, as those in memory are."""
    raw = np.arange(9_000_000, dtype=np.int64).reshape(3, -1) - 5
    path = tmp_path / f"a{suffix}"
    if suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            u = file.create_dataset("u", data=raw, chunks=(1, 1_000_000))
            u.attrs.update({"scale_factor": 0.25, "missing_value": 7})
    else:
        group = pytest.importorskip("zarr").open_group(path, mode="w", zarr_format=2)
        u = group.create_array("u", data=raw, chunks=(1, 1_000_000))
        u.attrs.update({"scale_factor": 0.25, "missing_value": 7})
    found = contents(path).arrays["u"]
    expected = np.where(raw == 7, np.nan, raw * 0.25)
    assert np.array_equal(found, expected, equal_nan=True)


def test_attributes_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    with pytest.importorskip("h5py").File(tmp_path / "a.h5", "w") as file:
        for name, about in {
            "text": {"scale_factor": "a tenth"},
            "two": {"add_offset": [1.0, 2.0]},
            "range": {"valid_range": [1.0]},
            "axis": {"NAME": "This is a netCDF dimension but not a netCDF variable.         3"},
        }.items():
            file[name] = np.zeros(3)
            file[name].attrs.update(about)
        file["unsigned"] = np.array([-1, 2], np.int8)
        file["unsigned"].attrs.update({"_Unsigned": "true", "_FillValue": np.int8(2)})
    found = contents(tmp_path / "a.h5")
    assert "scale_factor is 'a tenth', needs to be a number" in found.unused["text"]
    assert "add_offset has 2 numbers, needs 1" in found.unused["two"]
    assert "valid_range has 1 numbers, needs 2" in found.unused["range"]
    assert found.unused["axis"] == "it is a dimension without coordinates"
    assert np.array_equal(found.arrays["unsigned"], [255, np.nan], equal_nan=True)


def test_what_matlab_7_3_has_as_numbers_and_is_none(tmp_path: Path) -> None:
    """Text, empty and sparse arrays, and objects, whose datasets are numbers about them."""
    with pytest.importorskip("h5py").File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        for name, numbers, about in (
            ("empty", np.array([0, 3], np.uint64), {"MATLAB_empty": np.uint8(1)}),
            ("text", np.array([[104], [105]], np.uint16), {"MATLAB_class": np.bytes_("char")}),
            ("day", np.ones((6, 1), np.uint32), {"MATLAB_class": np.bytes_("datetime")}),
            ("u", np.ones((2, 3)), {"MATLAB_class": np.bytes_("double")}),
            ("is", np.ones((2, 3), np.uint8), {"MATLAB_class": np.bytes_("logical")}),
        ):
            file[name] = numbers
            file[name].attrs.update(about)
        sparse = file.create_group("sparse")
        sparse.attrs["MATLAB_sparse"] = np.uint64(3)
        sparse["data"], sparse["ir"], sparse["jc"] = np.ones(2), np.arange(2), np.arange(4)
    with open(tmp_path / "a.mat", "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")
    found = contents(tmp_path / "a.mat")
    assert set(found.arrays) == {"u", "is"}
    assert found.unused == {
        "empty": "it is empty",
        "text": "it is text",
        "day": "it is a datetime of MATLAB",
        "sparse": "it is sparse; store it dense",
    }


def appended(path: Path, n: int, rng, **kinds) -> dict[str, np.ndarray]:
    """Write points and fields of many types with numbers behind the XML, as ParaView does."""
    vtk = pytest.importorskip("vtk")
    from vtkmodules.util.numpy_support import numpy_to_vtk

    points = vtk.vtkPoints()
    points.SetDataTypeToDouble()
    points.SetData(numpy_to_vtk(rng.random((n, 3)), deep=True))
    grid = vtk.vtkUnstructuredGrid()
    grid.SetPoints(points)
    grid.Allocate(n)
    for k in range(n):
        grid.InsertNextCell(1, 1, [k])
    fields = {
        f"{kind}_{width}": (100 * rng.random((n, width))).astype(kind)
        for kind in ("f4", "f8", "i4", "u8", "i2")
        for width in (1, 3, 6)
    }
    for name, field in fields.items():
        made = numpy_to_vtk(field, deep=True)
        made.SetName(name)
        grid.GetPointData().AddArray(made)
    writer = vtk.vtkXMLUnstructuredGridWriter()
    writer.SetFileName(str(path))
    writer.SetInputData(grid)
    writer.SetDataModeToAppended()
    writer.EncodeAppendedDataOff()
    writer.SetBlockSize(64)
    writer.SetHeaderType(kinds["header"])
    writer.SetCompressor(vtk.vtkZLibDataCompressor() if kinds["zlib"] else None)
    if kinds["big"]:
        writer.SetByteOrderToBigEndian()
    assert writer.Write()
    return fields


@pytest.mark.parametrize("header", [32, 64])
@pytest.mark.parametrize("zlib", [False, True])
@pytest.mark.parametrize("big", [False, True])
def test_appended_numbers_of_many_sizes(tmp_path: Path, rng, header, zlib, big) -> None:
    """Places of arrays in a file, and those in text, may be the same number."""
    for n in (3, 5, 7, 11):
        path = tmp_path / f"{n}.vtu"
        fields = appended(path, n, rng, header=header, zlib=zlib, big=big)
        found = contents(path)
        for name, field in fields.items():
            assert np.array_equal(found.arrays[name].reshape(n, -1), field), (n, name)


def test_what_meshio_would_leave_out(tmp_path: Path) -> None:
    """Cells that it does not know, and those of all pieces but the last one."""
    pv = pytest.importorskip("pyvista")
    box = pv.ImageData(dimensions=(3, 3, 3)).cast_to_unstructured_grid()
    box.cell_data["c"] = np.arange(8.0)
    box.save(tmp_path / "voxels.vtu", binary=False)
    found = contents(tmp_path / "voxels.vtu")
    assert found.cells["hexahedron"].shape == (8, 8) and len(found.on_cells["c"]) == 8

    def piece(x: int) -> str:
        def array(name: str, text: str, kind: str = "Int64", n: int = 1) -> str:
            return (
                f'<DataArray Name="{name}" type="{kind}" format="ascii" '
                f'NumberOfComponents="{n}">{text}</DataArray>'
            )

        points = array("Points", f"{x} 0 0 {x + 1} 0 0 {x} 1 0", "Float64", 3)
        cells = array("connectivity", "0 1 2") + array("offsets", "3") + array("types", "5")
        return (
            f'<Piece NumberOfPoints="3" NumberOfCells="1"><Points>{points}</Points>'
            f"<Cells>{cells}</Cells><PointData/><CellData>{array('c', str(x))}</CellData></Piece>"
        )

    (tmp_path / "pieces.vtu").write_text(
        '<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" '
        f'header_type="UInt32"><UnstructuredGrid>{piece(0)}{piece(4)}</UnstructuredGrid></VTKFile>'
    )
    found = contents(tmp_path / "pieces.vtu")
    assert found.cells["triangle"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.on_cells["c"].tolist() == [0, 4]


def xdmf_steps(steps: list[str], others: str = "") -> str:
    """A triangle at several times, each with these elements."""
    grids = "".join(
        f'<Grid Name="{k}" GridType="Uniform"><Time Value="{k}"/>{step}</Grid>'
        for k, step in enumerate(steps)
    )
    return (
        '<?xml version="1.0"?><Xdmf Version="3.0"><Domain>'
        f'<Grid Name="mesh" GridType="Uniform">{xdmf_mesh("0 0 1 0 0 1")}</Grid>'
        f'<Grid Name="a" GridType="Collection" CollectionType="Temporal">{grids}</Grid>{others}'
        "</Domain></Xdmf>"
    )


def xdmf_mesh(points: str) -> str:
    return (
        '<Topology TopologyType="Triangle" NumberOfElements="1"><DataItem DataType="Int" '
        'Dimensions="1 3" Format="XML">0 1 2</DataItem></Topology><Geometry GeometryType="XY">'
        '<DataItem DataType="Float" Dimensions="3 2" Format="XML" Precision="8">'
        f"{points}</DataItem></Geometry>"
    )


def xdmf_field(name: str, values: str) -> str:
    return (
        f'<Attribute Name="{name}" AttributeType="Scalar" Center="Node"><DataItem '
        f'DataType="Float" Dimensions="3" Format="XML" Precision="8">{values}</DataItem>'
        "</Attribute>"
    )


def test_times_of_xdmf_with_meshes_and_collections_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    path = tmp_path / "a.xdmf"
    u = [xdmf_field("u", f"{k} 1 2") for k in range(2)]
    path.write_text(xdmf_steps([xdmf_mesh(" 0 0 1 0 0 1 ") + u[0], u[1]]))
    assert contents(path).arrays["u"].tolist() == [[0, 1, 2], [1, 1, 2]]
    path.write_text(xdmf_steps([u[0], xdmf_mesh("0 0 1 0 0 2") + u[1]]))
    assert "the mesh at time 1 is not the first one" in refusal(path)
    # one collection for each function, as FEniCS writes them
    grids = [
        f'<Grid GridType="Uniform"><Time Value="{{}}"/>{xdmf_field("v", f"{k} 5 6")}</Grid>'
        for k in range(2)
    ]
    other = '<Grid Name="c" GridType="Collection" CollectionType="Temporal">{}</Grid>'
    path.write_text(xdmf_steps(u, other.format("".join(g.format(k) for k, g in enumerate(grids)))))
    found = contents(path).arrays
    assert found["v"].tolist() == [[0, 5, 6], [1, 5, 6]] and found["u"][1].tolist() == [1, 1, 2]
    path.write_text(
        xdmf_steps(u, other.format("".join(g.format(7 + k) for k, g in enumerate(grids))))
    )
    assert "its collections have different times" in refusal(path)


def test_names_whose_numbers_are_whole_or_decimal_are_asked_about(tmp_path: Path) -> None:
    """States at 0.1, 0.15 and 0.2, which are in another order as whole numbers behind a point."""
    meshio = pytest.importorskip("meshio")
    x = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])

    def write_at(folder: Path, times: list[str]) -> None:
        folder.mkdir()
        for time in times:
            mesh = meshio.Mesh(x, [("triangle", [[0, 1, 2]])], {"u": np.full(3, float(time))})
            meshio.write(folder / f"u_{time}.vtu", mesh)

    write_at(tmp_path / "a", ["0.1", "0.15", "0.2"])
    with pytest.raises(DataError, match=r"u_0\.15\.vtu: .* it comes before u_0\.2\.vtu"):
        read(tmp_path / "a", Roles(states=("u",)))
    write_at(tmp_path / "b", ["0.90", "0.95", "1.00", "1.05"])
    (sample,) = read(tmp_path / "b", Roles(states=("u",))).samples
    assert np.allclose(sample.states[:, 0, 0], [0.9, 0.95, 1, 1.05])


FORMATS_WITH_UNITS = ("nc", "h5", "zarr2", "zarr3", "mat")


def with_units(
    path: Path,
    dimensions: tuple[str, ...],
    units: dict[str, str],
    scales: tuple[str, ...] = ("lon", "lat"),
) -> Path:
    """A file of 5 steps of a field T on 5 x 5 points, with names of axes and units."""
    rng = np.random.default_rng(0)
    field, axis = rng.random((5, 5, 5)).astype(np.float32), np.arange(5.0)
    if path.suffix == ".nc":
        netcdf = pytest.importorskip("netCDF4")
        with netcdf.Dataset(path, "w") as file:
            for name in dimensions:
                file.createDimension(name, 5)
            for name in ("time", *scales):
                file.createVariable(name, "f8", (name,))[:] = axis
            file.createVariable("T", "f4", dimensions)[:] = field
            for name, unit in units.items():
                file[name].units = unit
        return path
    if path.suffix in (".h5", ".mat"):
        h5py = pytest.importorskip("h5py")
        path.write_bytes(b"")
        with h5py.File(path, "w", userblock_size=512 if path.suffix == ".mat" else 0) as file:
            file["T"] = field.T if path.suffix == ".mat" else field
            for name in ("time", *scales):
                file[name] = axis
                file[name].make_scale(name)
            order = dimensions[::-1] if path.suffix == ".mat" else dimensions
            for k, name in enumerate(order):
                file["T"].dims[k].attach_scale(file[name])
            for name, unit in units.items():
                file[name].attrs["units"] = unit
        if path.suffix == ".mat":
            with path.open("r+b") as stream:
                stream.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
        return path
    zarr = pytest.importorskip("zarr")
    version = int(path.stem[-1])
    group = zarr.open_group(path, mode="w", zarr_format=version)
    for name, array in ({"T": field} | dict.fromkeys(scales, axis)).items():
        of = dimensions if name == "T" else (name,)
        named = {"dimension_names": of} if version == 3 else {}
        made = group.create_array(name, data=array, fill_value=np.nan, **named)
        if version == 2:
            made.attrs["_ARRAY_DIMENSIONS"] = list(of)
        if name in units:
            made.attrs["units"] = units[name]
    return path


def formats_with_units(folder: Path, name: str, form: str) -> Path:
    return folder / (f"{name}{form[-1]}.zarr" if "zarr" in form else f"{name}.{form}")


@pytest.mark.parametrize("form", FORMATS_WITH_UNITS)
def test_units_of_files_are_compared(tmp_path: Path, form: str) -> None:
    """Fields, places and times of one file in K or m, and of another in degC or km."""

    def file(name: str, **units: str) -> Path:
        path = formats_with_units(tmp_path, name, form)
        return with_units(path, ("time", "lat", "lon"), units)

    roles = Roles("lon,lat", (), states=("T",), layout=tuple("tyx"))
    first = file("first", T="K", lon="m")
    assert read(first, roles).layout.units == {"T": "K", "points": "m, "}
    read([first, file("untold"), file("spelled", T="kelvin", lat="km")], roles)
    for units, said in (({"T": "degC"}, "'T' in degC, needs K"), ({"lon": "km"}, "'points' in km")):
        other = file("other", **units)
        with pytest.raises(DataError, match=f"does not go with .*{said}") as caught:
            read([first, file("untold"), other], roles)
        assert str(other) in str(caught.value)
        with pytest.raises(DataError, match=said):
            read([file("untold"), first, other], roles)


@pytest.mark.parametrize("form", FORMATS_WITH_UNITS)
def test_layouts_are_compared_with_names_of_dimensions(tmp_path: Path, form: str) -> None:
    def refused(dimensions: str, layout: str, points: str | None = None, **other: Any) -> str:
        path = formats_with_units(tmp_path, "a", form)
        with_units(path, tuple(dimensions.split()), {}, tuple(dimensions.split())[1:])
        roles = Roles(points, (), states=("T",), layout=tuple(layout) or None, **other)
        try:
            read(path, roles)
        except DataError as error:
            return str(error)
        return ""

    usual = "time lat lon"
    assert refused(usual, "tyx", "lon,lat") == refused(usual, "tyx", grid="closed") == ""
    assert "would call 'lon' y, 'lat' x" in refused("time lon lat", "tyx", grid="closed")
    assert refused("time lon lat", "txy", "lon,lat") == ""
    said = refused("time lon lat", "tyx", "lon,lat")
    assert "'T' has the dimensions (time, lon, lat), and" in said and "--layout is t,y,x" in said
    # arrays of coordinates have names, too, whatever these mean
    assert refused("time a b", "tyx", "b,a") == ""
    assert "'a' would be x here, but y in 'T'" in refused("time a b", "tyx", "a,b")
    assert refused("time lev lon", "tyx", "lon,lev") == ""
    for layout in ("xty", "xyt"):
        assert "would be" in refused(usual, layout, grid="closed")


def test_points_are_compared_with_names_of_dimensions(tmp_path: Path) -> None:
    netcdf, rng = pytest.importorskip("netCDF4"), np.random.default_rng(0)
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        for name, n in (("node", 6), ("time", 3), ("xy", 2)):
            file.createDimension(name, n)
        file.createVariable("points", "f8", ("node", "xy"))[:] = rng.random((6, 2))
        file.createVariable("u", "f8", ("time", "node"))[:] = rng.random((3, 6))
    with pytest.raises(DataError, match="'time' would be samples; say what the axes are"):
        read(tmp_path / "a.nc", Roles(inputs=(), outputs=("u",)))
    assert len(read(tmp_path / "a.nc", Roles(inputs=(), outputs=("u",), layout=tuple("sp")))) == 3
    assert len(read(tmp_path / "a.nc", Roles(inputs=(), states=("u",)))) == 1


def test_units_in_other_spellings_are_the_same() -> None:
    for one, other in (
        ("m s-1", "m/s"), ("m s**-1", "meters/second"), ("kg m-2 s-1", "kg/m^2/s"), ("", "K"),
        ("deg C", "celsius"), ("°C", "degrees_Celsius"), ("1", "dimensionless"), ("m,", "m, km"),
        ("hours since 2000-01-01", "h since 1900-01-01"), ("10 m", "10  m"),
    ):  # fmt: skip
        assert same_unit(one, other)
    for one, other in (
        ("K", "degC"), ("m", "km"), ("hPa", "Pa"), ("hours since 2000-01-01", "days since 2000"),
        ("m/s", "m s"), ("1", "K"), ("m, m", "m, km"), ("10 m", "m"), ("m", "M"),
    ):  # fmt: skip
        assert not same_unit(one, other)


def test_data_sets_of_pyg_are_samples(tmp_path: Path) -> None:
    """Tensors of all samples with slices, as PyG stores them, with its class or without."""
    torch = pytest.importorskip("torch")
    sizes = [5, 7, 6]
    ends = torch.tensor([0, *np.cumsum(sizes).tolist()])
    data = {"x": torch.rand(18, 3), "y": torch.rand(18, 1), "pos": torch.rand(18, 2)}
    data |= {"edge_index": torch.zeros(2, 9, dtype=torch.long), "g": torch.rand(3)}
    slices = dict.fromkeys(data, ends)
    slices |= {"edge_index": torch.tensor([0, 3, 6, 9]), "g": torch.arange(4)}
    path = tmp_path / "data.pt"
    for classes in (0, 1):
        if classes:
            pyg = pytest.importorskip("torch_geometric.data")
            torch.save((data, slices, pyg.Data), path)
        else:
            torch.save((data, slices), path)
        found = read(path, Roles(parameters=("g",)))
        assert [len(sample.points) for sample in found.samples] == sizes
        assert np.array_equal(found.samples[1].points, data["pos"][5:12].numpy().astype(float))
        assert np.array_equal(found.samples[2].inputs, data["x"][12:].numpy())
        assert found.samples[1].parameters == data["g"][1].numpy()
        for sample, (first, last) in zip(found.samples, ((0, 5), (5, 12), (12, 18)), strict=True):
            assert np.array_equal(sample.outputs, data["y"][first:last].numpy())
    torch.save([pyg.Data(pos=data["pos"])], path)
    assert "holds objects of PyTorch Geometric, which are never loaded" in refusal(path)
    assert "dataset.slices" in refusal(path)


@pytest.mark.parametrize("form", ["{0}.{1}", "{1}.{0}"])
def test_lists_of_samples_are_no_inputs(tmp_path: Path, form: str) -> None:
    """Another sample's outputs, by names of lists."""
    rng = np.random.default_rng(0)
    shapes = {"pos": (9, 2), "x": (9, 1), "y": (9, 1)}
    arrays = {form.format(k, n): rng.random(shape) for k in range(3) for n, shape in shapes.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    first, every = ({n: form.format(k, n) for n in shapes} for k in ("0", "*"))
    with pytest.raises(DataError, match="look like samples of one quantity; take all as"):
        read(tmp_path / "a.npz", Roles(first["pos"], outputs=(first["y"],)))
    roles = Roles(every["pos"], outputs=(every["y"],), inputs=(every["x"],))
    assert len(read(tmp_path / "a.npz", roles)) == 3

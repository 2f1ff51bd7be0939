# SPDX-License-Identifier: MIT
"""Reading data: formats, forms of arrays, and what does not fit."""

import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from data_files import (
    N,
    S,
    arrays,
    refusal,
    same,
    to_matlab_5,
    to_matlab_7_3,
    to_npz,
    to_torch,
    to_zarr,
)
from gnograd.data import (
    DataError,
    Field,
    Roles,
    contents,
    read,
)


def to_hdf5(path: Path, what: dict[str, np.ndarray]) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        for name, array in what.items():
            file.create_dataset(name, data=array, compression="gzip")


FORMATS: dict[str, Callable[[Path, dict[str, np.ndarray]], None]] = {
    "data.npz": to_npz,
    "data.safetensors": gg.save_weights,
    "data.h5": to_hdf5,
    "data.zarr": to_zarr,
    "old.mat": to_matlab_5,
    "new.mat": to_matlab_7_3,
    "data.pt": to_torch,
}


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

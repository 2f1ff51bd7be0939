# SPDX-License-Identifier: MIT
"""Files that other tools write, and points without data."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from data_files import S, arrays, refusal, same, to_npz
from gnograd.data import (
    DataError,
    Field,
    Prediction,
    Roles,
    contents,
    expand,
    read,
    write,
)


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
    """ParaView, COMSOL, NumPy and spreadsheets write such names."""
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
        ("x;y\n1,5;2\n", "decimal commas"), ("x,y\n1,\n", "line 2: column 'y' is empty"),
        ("", "no rows"),
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

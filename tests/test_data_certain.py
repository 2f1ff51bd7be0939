# SPDX-License-Identifier: MIT
"""Files of other programs whose meaning is certain, or is asked for."""

import json
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gnograd.data import DataError, Roles, read
from gnograd.data.files import contents

X = np.random.default_rng(0).random((12, 2))


@pytest.mark.parametrize("suffix", ["h5", "npz"])
def test_samples_of_patterns_belong_together(tmp_path: Path, suffix: str) -> None:
    """A sample that lacks an array moves none of the others."""
    rng = np.random.default_rng(1)
    sample = {k: rng.random(12) for k in range(5)}
    given = {"points": X}
    given |= {f"{k}/a": a for k, a in sample.items() if k != 3}
    given |= {f"{k}/u": 2 * a for k, a in sample.items() if k != 1}
    path = tmp_path / f"a.{suffix}"
    roles = Roles(inputs=("*/a",), outputs=("*/u",))

    def write() -> None:
        if suffix == "npz":
            np.savez(path, **given)
            return
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, array in given.items():
                file[name] = array

    write()
    with pytest.raises(
        DataError, match=r"array '[13]/[au]' has none beside it that fits '\*/[au]'"
    ):
        read(path, roles)
    given |= {"3/a": sample[3], "1/u": 2 * sample[1], "10/a": sample[0], "10/u": 2 * sample[0]}
    write()
    data = read(path, roles)
    assert len(data) == 6
    assert all(np.array_equal(2 * s.inputs, s.outputs) for s in data.samples)


def test_samples_of_patterns_are_compared_by_number(tmp_path: Path) -> None:
    given = {f"{{a}}_{k:02}": np.full(12, k) for k in (1, 2, 10)}
    given |= {f"u_{k}": np.full(12, 2 * k) for k in (1, 2, 10)}
    roles = Roles(inputs=("{a}_*",), outputs=("u_*",))
    np.savez(tmp_path / "a.npz", points=X, **given)
    data = read(tmp_path / "a.npz", roles)
    assert [s.outputs[0, 0] for s in data.samples] == [2, 4, 20]
    assert all(np.array_equal(2 * s.inputs, s.outputs) for s in data.samples)
    np.savez(tmp_path / "b.npz", points=X, **given, **{"{a}_11": np.ones(12)})
    with pytest.raises(DataError, match=r"array '\{a\}_11' has none beside it that fits 'u_\*'"):
        read(tmp_path / "b.npz", roles)


def test_all_fields_with_components_first_are_asked_about(tmp_path: Path) -> None:
    given = {"points": X, "a": np.ones((2, 12)), "u": np.ones((2, 12))}
    np.savez(tmp_path / "a.npz", **given)
    named = {"inputs": ("a",), "outputs": ("u",)}
    with pytest.raises(DataError, match="2 samples, or 2 components of a vector"):
        read(tmp_path / "a.npz", Roles(**named))
    assert len(read(tmp_path / "a.npz", Roles(layout=("s", "p"), **named))) == 2
    (sample,) = read(tmp_path / "a.npz", Roles(layout=("c", "p"), **named)).samples
    assert sample.outputs.shape == (12, 2)


def mesh(u: np.ndarray, cells: list[list[int]] | None = None) -> object:
    """Three triangles on five points."""
    meshio = pytest.importorskip("meshio")
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]])
    cells = [[0, 1, 2], [1, 3, 2], [1, 4, 3]] if cells is None else cells
    return meshio.Mesh(points, [("triangle", cells)], {"u": u})


@pytest.mark.parametrize(
    ("names", "odd"),
    [
        (["0", "1", "2", "4"], "u_4"),
        (["0000", "0010", "0030", "0040"], "u_0030"),
        (["0.1", "0.2", "0.4", "0.5"], "u_0.4"),
        (["100", "200", "300", "405"], "u_405"),
    ],
)
def test_a_missing_time_of_a_folder_is_told(tmp_path: Path, names: list[str], odd: str) -> None:
    for name in names:
        mesh(np.ones(5)).write(tmp_path / f"u_{name}.vtu")
    with pytest.raises(DataError, match=rf"{odd}\.vtu: the numbers .* uneven: .*\.pvd"):
        read(tmp_path, Roles(states=("u",)))
    assert len(read(tmp_path, Roles(outputs=("u",), inputs=()))) == 4


@pytest.mark.parametrize("names", [("33", "67", "100"), ("0.3", "0.7", "1.0"), ("1_9", "2_1")])
def test_names_of_even_times_may_be_rounded(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        mesh(np.ones(5)).write(tmp_path / f"v2_{name}.vtu")
    (sample,) = read(tmp_path, Roles(states=("u",))).samples
    assert len(sample.states) == len(names)


def test_meshes_of_a_trajectory_have_the_same_cells(tmp_path: Path) -> None:
    mesh(np.ones(5)).write(tmp_path / "u_0.vtu")
    mesh(np.ones(5), [[1, 3, 2], [0, 1, 2], [1, 4, 3]]).write(tmp_path / "u_1.vtu")
    with pytest.raises(DataError, match=r"u_1\.vtu: has other cells than .*u_0\.vtu"):
        read(tmp_path, Roles(states=("u",)))


def test_xdmf_with_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FEniCS writes a function that does not change in time as one step."""
    monkeypatch.chdir(tmp_path)  # meshio writes the numbers of an XDMF series there
    meshio = pytest.importorskip("meshio")
    pytest.importorskip("h5py")
    given = mesh(np.arange(5.0))
    with meshio.xdmf.TimeSeriesWriter("a.xdmf") as writer:
        writer.write_points_cells(given.points, given.cells)
        writer.write_data(0.0, point_data={"u": np.arange(5.0)})
    (sample,) = read("a.xdmf", Roles(outputs=("u",), inputs=())).samples
    assert np.array_equal(sample.outputs[:, 0], np.arange(5)) and sample.cells


def test_tensors_of_a_mesh_are_channels(tmp_path: Path) -> None:
    """Legacy files of VTK have tensors of 3 x 3."""
    stress = np.random.default_rng(0).random((5, 3, 3))
    lines = ["# vtk DataFile Version 2.0", "stress", "ASCII", "DATASET UNSTRUCTURED_GRID"]
    given = mesh(np.ones(5))
    lines += ["POINTS 5 double", *(" ".join(map(str, x)) for x in given.points)]
    lines += ["CELLS 3 12", *("3 " + " ".join(map(str, c)) for c in given.cells[0].data)]
    lines += ["CELL_TYPES 3", "5", "5", "5", "POINT_DATA 5", "TENSORS stress double"]
    lines += [" ".join(map(str, row)) for row in stress.reshape(-1, 3)]
    (tmp_path / "a.vtk").write_text("\n".join([*lines, ""]))
    (sample,) = read(tmp_path / "a.vtk", Roles(outputs=("stress",), inputs=())).samples
    assert np.allclose(sample.outputs, stress.reshape(5, 9))


def test_blocks_without_a_mesh_are_passed(tmp_path: Path) -> None:
    pyvista = pytest.importorskip("pyvista")
    pytest.importorskip("meshio")
    block = pyvista.ImageData(dimensions=(3, 4, 1)).cast_to_unstructured_grid()
    block["u"] = np.arange(12.0)
    pyvista.MultiBlock({"fluid": block, "none": None}).save(tmp_path / "a.vtm")
    (sample,) = read(tmp_path / "a.vtm", Roles(outputs=("u",), inputs=())).samples
    assert sorted(sample.outputs[:, 0]) == list(range(12))


def test_fields_on_cells_are_not_said_to_be_left_out(tmp_path: Path) -> None:
    given = mesh(np.ones(5))
    given.cell_data = {"u": [np.arange(3.0)]}
    given.write(tmp_path / "a.vtu")
    data = read(tmp_path / "a.vtu", Roles(outputs=("u",), inputs=(), cells=True))
    assert not any("u" in name for name in data.left_out)


@pytest.mark.parametrize("suffix", ["npz", "npy", "zarr"])
def test_dates_are_times(tmp_path: Path, suffix: str) -> None:
    dates = np.datetime64("2020-01-31T00", "h") + np.array([0, 6, 12, 24])
    arrays = {"points": X, "u": np.ones((4, 12)), "valid": dates}

    def write() -> Path:
        path = tmp_path if suffix == "npy" else tmp_path / f"a.{suffix}"
        if suffix == "npz":
            np.savez(path, **arrays)
        for name, array in arrays.items():
            if suffix == "npy":
                np.save(path / f"{name}.npy", array)
            elif suffix == "zarr":
                zarr = pytest.importorskip("zarr", "3.1")
                shutil.rmtree(path / name, ignore_errors=True)
                zarr.save_array(str(path / name), array, zarr_format=2)
        if suffix == "zarr":
            (path / ".zgroup").write_text('{"zarr_format": 2}')
        return path

    with pytest.raises(DataError, match="'valid' is uneven"):
        read(write(), Roles(states=("u",)))
    arrays["valid"] = dates[0] + np.arange(4) * np.timedelta64(6, "h")
    data = read(write(), Roles(states=("u",)))
    assert data.layout.step == 6 * 3600 and data.layout.units["times"].startswith("s since")
    arrays["start"] = arrays["valid"]
    with pytest.raises(DataError, match="may be the times of the states; say with --time"):
        read(write(), Roles(states=("u",)))
    read(write(), Roles(states=("u",), time="valid"))


def test_times_are_known_by_their_unit(tmp_path: Path) -> None:
    """Files of ERA5 call their times valid_time."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("valid_time", 4)
        file.createDimension("node", 12)
        for name, axes, values in (
            ("lon", ("node",), X[:, 0]), ("lat", ("node",), X[:, 1]),
            ("t2m", ("valid_time", "node"), np.ones((4, 12))),
            ("valid_time", ("valid_time",), [0, 6, 12, 24]),
        ):  # fmt: skip
            file.createVariable(name, "f8", axes)[:] = values
        file["valid_time"].units = "hours since 1970-01-01"
    with pytest.raises(DataError, match="'valid_time' is uneven"):
        read(tmp_path / "a.nc", Roles("lon,lat", states=("t2m",)))


TABLES = {
    "an index without a name": (",x,y,a,u", "{k},{x},{y},1,2"),
    "a comma at the end": ("x,y,a,u,", "{x},{y},1,2,"),
    "text": ("x,y,name,a,u", "{x},{y},node {k},1,2"),
    "commas in quotes": ('x,y,"name, of",a,u', '{x},{y},"node, {k}",1,2'),
    "comments first": ("# of 2024\n# by me\nx,y,a,u", "{x},{y},1,2"),
    "names with blanks": ("% Nodes:  12\n% x      y      node name  a  u", "{x} {y} n{k} 1 2"),
    "text between blanks": ('x y "a name" a u', '{x} {y} "node {k}" 1 2'),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_with_more_than_numbers(tmp_path: Path, name: str) -> None:
    header, row = TABLES[name]
    rows = [row.format(k=k, x=x, y=y) for k, (x, y) in enumerate(X.tolist())]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows, ""]))
    data = read(tmp_path / "a.csv", Roles(outputs=("u",)))
    (sample,) = data.samples
    assert np.array_equal(sample.points, X) and [f.name for f in data.layout.inputs] == ["a"]
    assert (sample.inputs == 1).all() and (sample.outputs == 2).all()
    assert contents(tmp_path / "a.csv").units == {}


@pytest.mark.parametrize("cell", ["", "1,5", '"1,234.5"', "0.5D+00"])
@pytest.mark.parametrize("first", [True, False])
def test_numbers_in_other_forms_are_not_taken_for_text(
    tmp_path: Path, cell: str, first: bool
) -> None:
    rows = ["0,0,1,2", "0,1,1,2", "1,1,1,2"]
    rows[0 if first else 2] = f"1,0,{cell},2"
    (tmp_path / "a.csv").write_text("\n".join(["x,y,a,u", *rows]))
    with pytest.raises(DataError, match="cannot be read as a table"):
        contents(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.csv.gz", "a compressed file; unpack it first"),
        ("a.zip", "an archive; unpack it first"),
        ("a.cas.gz", "Fluent"),
        ("a.pkl", "a Python pickle, which is never loaded"),
        ("a.xls", "a spreadsheet; write it as .csv"),
    ],
)
def test_files_that_are_not_read_are_called_what_they_are(name: str, told: str) -> None:
    with pytest.raises(DataError, match=rf"{name}: files are read that .*; this is {told}"):
        contents(Path(name))


def test_two_stars_are_any_folders(tmp_path: Path) -> None:
    for folder in (".", "b", "b/c"):
        (tmp_path / folder).mkdir(exist_ok=True)
        np.savez(tmp_path / folder / "a.npz", points=X, u=np.ones(12))
    assert len(read(tmp_path / "**/*.npz", Roles(outputs=("u",), inputs=()))) == 3


# ---- commands ----


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "a.npz"
    a = np.random.default_rng(0).random((4, 12))
    np.savez(path, points=np.c_[X, np.full(12, 0.5)], a=a, u=2 * a)
    return path


def gnograd(*words: object) -> tuple[int, str]:
    """Status and output of a command."""
    pytest.importorskip("torch")
    testing = pytest.importorskip("typer.testing")
    from gnograd.cli.app import app

    found = testing.CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200"})
    return found.exit_code, found.output


def train(samples: Path, out: Path, *words: object) -> tuple[int, str]:
    few = ("--size", "small", "--epochs", 1, "--threads", 1)
    return gnograd(
        "train", "points", "--data", samples, "--outputs", "u", "--out", out, *few, *words
    )


def test_files_of_something_else_are_not_replaced(samples: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.json", "model.safetensors", "results.json", "history.csv"):
        out = tmp_path / name.replace(".", "_")
        out.mkdir()
        (out / name).write_text('{"of": "mine"}')
        status, said = train(samples, out)
        assert status == 1 and f"{name}: would be replaced" in said and "--fresh" in said
        assert [f.name for f in out.iterdir()] == [name]
        assert (out / name).read_text() == '{"of": "mine"}'
    assert train(samples, tmp_path / "config_json", "--fresh")[0] == 0
    for text in ("mine", "[1]", "5", "\xff"):
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd/config.json").write_text(text, encoding="latin-1")
        status, said = train(samples, tmp_path / "odd")
        assert status == 1 and "config.json: would be replaced" in said
    (out / name).unlink()
    # a run that was stopped before its first checkpoint left its options
    (out / "config.json").write_bytes((tmp_path / "config_json/config.json").read_bytes())
    assert train(samples, out)[0] == 0


def test_files_of_a_run_tell_how_it_was_trained(samples: Path, tmp_path: Path) -> None:
    """Not what it was asked for when it had ended."""

    def told() -> list[tuple[object, object]]:
        found = [json.loads((tmp_path / f"{n}.json").read_text()) for n in ("config", "results")]
        settings = found[0], found[1]["settings"]
        return [(of["epochs"], of["learning_rate"]) for of in settings]

    assert train(samples, tmp_path, "--learning-rate", 0.01, "--epochs", 2)[0] == 0
    status, said = train(samples, tmp_path, "--learning-rate", 0.5, "--epochs", 1)
    assert status == 0 and "--learning-rate 0.5 is not used: it was 0.01" in said
    assert told() == [(2, 0.01)] * 2
    status, said = train(samples, tmp_path, "--learning-rate", 0.002, "--epochs", 3)
    assert status == 0 and "is not used" not in said
    assert told() == [(3, 0.002)] * 2


def test_a_run_is_not_written_among_its_data(samples: Path, tmp_path: Path) -> None:
    for option in ("--data", "--validation", "--test"):
        status, said = train(samples, samples.parent, option, samples.parent)
        assert status == 1 and "is a folder of data" in said
    assert [f.name for f in samples.parent.iterdir()] == ["a.npz"]


def test_options_of_a_file_are_there_once(samples: Path, tmp_path: Path) -> None:
    for text, told in (
        ('{"epochs": 1, "epochs": 2}', "c.json has 'epochs' twice"),
        ('{"learning-rate": 1, "learning_rate": 2}', "'learning_rate' twice"),
        ('{"epochs": true}', "'epochs' has a value that is not of an option"),
    ):
        (tmp_path / "c.json").write_text(text)
        status, said = train(samples, tmp_path / "run", "--config", tmp_path / "c.json")
        assert status == 2 and told in said
    (tmp_path / "c.json").write_text(json.dumps({"compile": False, "learning-rate": 0.01}))
    assert train(samples, tmp_path / "run", "--config", tmp_path / "c.json")[0] == 0


def test_points_in_a_plane_are_told(samples: Path) -> None:
    assert "note: all points have z = 0.5" in gnograd("inspect", samples, "--outputs", "u")[1]


def test_places_of_points_that_look_odd_are_told(tmp_path: Path) -> None:
    """Several points at a place, and a period in another unit."""
    twice = np.concatenate([X, X[:2]])
    np.savez(tmp_path / "a.npz", points=twice, a=np.arange(14) ** 2, u=np.arange(14) ** 3)
    chosen = ("inspect", tmp_path / "a.npz", "--outputs", "u")
    status, said = gnograd(*chosen, "--period", "1000,1")
    assert status == 0 and "note: 2 of 12 places have several points" in said
    assert re.search(r"note: points spread over 0.000\d+ of the period along x; is --period", said)
    assert "along y" not in said
    assert "period along" not in gnograd(*chosen)[1]


def test_an_input_that_is_the_output_is_told(tmp_path: Path) -> None:
    u = np.random.default_rng(11).random((4, 12)).astype(np.float32)
    np.savez(tmp_path / "a.npz", points=X, a=u**2, u=u, truth=u)
    chosen = ("inspect", tmp_path / "a.npz", "--outputs", "u")
    status, said = gnograd(*chosen)
    assert status == 0 and "note: truth is u but for a constant: with it as an input" in said
    assert "nothing to learn" not in gnograd(*chosen, "--inputs", "a")[1]


@pytest.mark.parametrize(
    "fill", [-9999.0, 1e20, np.float32(9.969209968386869e36), np.finfo(np.float32).max]
)
@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_fill_values_are_no_numbers_without_a_word(
    tmp_path: Path, fill: float, suffix: str
) -> None:
    rng = np.random.default_rng(3)
    land = np.arange(12) % 4 == 1
    a, u = rng.standard_normal((2, 12))
    given = {"x": X[:, 0], "y": X[:, 1], "a": a, "u": np.where(land, fill, u)}
    path = tmp_path / f"a.{suffix}"
    if suffix == "csv":
        rows = np.stack(list(given.values()), axis=1)
        np.savetxt(path, rows, delimiter=",", header=",".join(given), comments="", fmt="%.9g")
    else:
        np.savez(path, **given)
    named = {"points": "x,y", "inputs": ("a",), "outputs": ("u",)}
    for mask in (None, "nan", "-999"):
        with pytest.raises(DataError, match=r"'u' is .* at 3 places") as refused:
            read(path, Roles(**named, mask=mask))
    told = re.search(r"--mask=(\S+) leaves", str(refused.value))[1]
    (sample,) = read(path, Roles(**named, mask="none")).samples
    assert np.array_equal(sample.outputs[:, 0], np.float32(given["u"]))
    data = read(path, Roles(**named, mask=told))
    (sample,) = data.samples
    np.testing.assert_allclose(sample.points, X[~land], rtol=1e-8)
    np.testing.assert_allclose(sample.outputs[:, 0], u[~land], rtol=1e-6)
    assert data.left_out["points without data"] == "--mask leaves out up to 3 of a sample"


def test_numbers_that_only_resemble_fill_values_are_numbers(tmp_path: Path) -> None:
    """One of a kind, of the size of others, and all of a channel."""
    u = np.random.default_rng(4).standard_normal((12, 3))
    u[2, 0], u[:, 1] = -9999, 99
    u[:, 2] = np.where(np.arange(12) % 2, 999, 101)
    np.savez(tmp_path / "a.npz", points=X, a=u[:, :1], u=u)
    (sample,) = read(tmp_path / "a.npz", Roles(inputs=("a",), outputs=("u",))).samples
    assert np.array_equal(sample.outputs, np.float32(u))


def test_fill_values_are_told_in_one_channel_and_in_parameters(tmp_path: Path) -> None:
    u = np.full((5, 12, 2), 1e5)
    u[:, :, 1] = np.arange(12)
    u[2:4, 5, 1] = -9999
    given = {"points": X, "a": np.ones((5, 12)), "u": u}
    np.savez(tmp_path / "a.npz", **given)
    with pytest.raises(DataError, match="'u' is -9999 at 2 places, and at most 11 in magnitude"):
        read(tmp_path / "a.npz", Roles(inputs=("a",), outputs=("u",)))
    data = read(tmp_path / "a.npz", Roles(inputs=("a",), outputs=("u",), mask="-9999"))
    assert [len(s.points) for s in data.samples] == [12, 12, 11, 11, 12]
    given |= {"u": u[..., :1], "parameters": np.array([1, 2, -999, 3, -999.0])[:, None]}
    np.savez(tmp_path / "a.npz", **given)
    for mask in (None, "-999"):
        with pytest.raises(DataError, match=r"'parameters' is -999 at 2 places.*leave it out"):
            read(tmp_path / "a.npz", Roles(inputs=("a",), outputs=("u",), mask=mask))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("1,2,3\n\n1,2,z\n1,3,4\n", "line 5: column 'u' is 'z', needs a number"),
        ("1,2,3\n1, ,2\n", "line 4: column 'y' is empty"),
        ("1,2,3\n\n1,2\n1,3,4\n", "line 5 has 2 columns, needs 3"),
        ("\nm,m,Pa\n1,2,3\n", "line 4 has no number ('m', 'm', 'Pa'); write units, if these are,"),
    ],
)
def test_messages_about_tables_count_lines_as_an_editor_does(
    tmp_path: Path, rows: str, text: str
) -> None:
    (tmp_path / "a.csv").write_text("# made by hand\nx,y,u\n" + rows)
    with pytest.raises(DataError, match=re.escape(text)):
        contents(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"x,y,T [\xb0C]\n1,2,3\n")
    with pytest.raises(DataError, match=r"b.csv: .*\(it is not in UTF-8\)"):
        contents(tmp_path / "b.csv")


def masked_sea(tmp_path: Path, **given: object) -> Path:
    """A file with a field 0 on land, and further arrays."""
    sea = (np.arange(12) % 4 != 1).astype(float)
    np.savez(tmp_path / "a.npz", **{"points": X, "a": np.ones(12), "sea": sea, **given})
    return tmp_path / "a.npz"


def test_fill_values_beside_the_field_of_a_mask_are_asked_about(tmp_path: Path) -> None:
    """Numbers at points that it leaves out are none, those at others are."""
    roles = {"inputs": ("a",), "outputs": ("u",)}
    u = np.random.default_rng(5).standard_normal((6, 12))
    u[:, 1::4] = 1e20
    (path, kept) = masked_sea(tmp_path, u=u), Roles(**roles, mask="sea")
    assert [len(s.points) for s in read(path, kept).samples] == [9] * 6
    u[2, 4] = u[3, 7] = -9999
    path = masked_sea(tmp_path, u=u)
    told = (
        "'u' is -9999 at 2 places that the mask keeps, .*--mask=sea,-9999 leaves .*"
        "--mask=sea,none takes"
    )
    with pytest.raises(DataError, match=told):
        read(path, kept)
    samples = read(path, Roles(**roles, mask="sea,-9999")).samples
    assert [len(s.points) for s in samples] == [9, 9, 8, 8, 9, 9]
    samples = read(path, Roles(**roles, mask="sea,none")).samples
    assert [len(s.points) for s in samples] == [9] * 6 and samples[2].outputs.min() == -9999


def test_states_beside_the_field_of_a_mask_are_looked_at(tmp_path: Path) -> None:
    u = np.random.default_rng(6).standard_normal((2, 3, 12, 2))
    u[1, 2, 6:8, 1] = 999
    path = masked_sea(tmp_path, u=u)
    with pytest.raises(DataError, match="'u' is 999 at 2 places that the mask keeps"):
        read(path, Roles(inputs=(), states=("u",), mask="sea", layout=tuple("stpc")))


def test_several_fill_values_are_told_one_after_the_other(tmp_path: Path) -> None:
    """A smaller one is not hidden by one that the mask names, at either end."""
    u = np.random.default_rng(7).standard_normal((6, 12))
    u[0, :2], u[1, 3:5], u[2, 5:7] = -99999, -999, 1e20
    path = masked_sea(tmp_path, u=u)
    roles, asked, mask = {"inputs": ("a",), "outputs": ("u",)}, [], None
    for _ in range(3):
        with pytest.raises(DataError, match="there is no data") as refused:
            read(path, Roles(**roles, mask=mask))
        mask = re.search(r"--mask=(\S+) leaves", str(refused.value))[1]
        asked.append(mask.split(",")[-1])
    assert sorted(asked) == sorted(["-99999", "-999", "1e+20"])
    samples = read(path, Roles(**roles, mask=mask)).samples
    assert [len(s.points) for s in samples] == [10, 10, 10, 12, 12, 12]
    assert all(np.abs(s.outputs).max() < 10 for s in samples)
    with pytest.raises(DataError, match="--mask names the arrays 'sea' and 'a', needs one"):
        read(path, Roles(**roles, mask="sea,a"))


def test_names_with_commas_are_in_quotes(tmp_path: Path) -> None:
    """Quotes as in the first line of a table."""
    names = 'x,"u, mean","say ""p""",q'
    rows = np.column_stack([np.linspace(0, 1, 8), *np.random.default_rng(8).random((3, 8))])
    np.savetxt(tmp_path / "a.csv", rows, "%.9g", ",", header=names, comments="")
    chosen = ("inspect", tmp_path / "a.csv", "--points", "x", "--inputs", 'q,"u, mean"')
    status, said = gnograd(*chosen, "--outputs", '"say ""p"""')
    assert status == 0, said
    assert "inputs: q (1), u, mean (1); outputs: say" in " ".join(said.split())
    with pytest.raises(DataError, match=r'the file has: x .8,., "u, mean" .8,., "say ""p""" .8,.'):
        read(tmp_path / "a.csv", Roles(points="x", outputs=("u",)))


def test_arrays_that_are_none_leave_the_others_of_their_file(tmp_path: Path) -> None:
    """Objects, named fields and other files in an .npz, of which `inspect` says why."""
    u = np.random.default_rng(9).random(12)
    path = tmp_path / "a.npz"
    ascii_fields = np.zeros(2, [("a", "f4"), ("b", "i4")])
    np.savez(
        path, points=X, a=u, u=2 * u, about=np.array({"solver": "FEM"}), table=ascii_fields,
        wide=np.zeros(2, [("\u03b1", "f4")]), names=np.array(["p", "q"]),
    )  # fmt: skip
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "made by hand")
        archive.writestr("u", "a text with the name of an array")
    roles = Roles(inputs=("a",), outputs=("u",))
    data = read(path, roles)
    assert np.array_equal(data.samples[0].outputs[:, 0], np.float32(2 * u))
    told = data.left_out
    assert "objects" in told["about"] and "no array" in told["README.txt"] and "u" not in told
    assert "named fields" in told["table"] == told["wide"] and told["names"] == "it is text"
    with pytest.raises(DataError, match=r"'about' cannot be used \(it holds Python objects"):
        read(path, Roles(inputs=("about",), outputs=("u",)))
    np.save(tmp_path / "b.npy", np.array([None]))
    with pytest.raises(DataError, match=r"b.npy: cannot be read \(it holds Python objects"):
        contents(tmp_path / "b.npy")


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_points_are_no_field(tmp_path: Path, first: int) -> None:
    """Columns such as ParaView's "Point ID" were inputs without a word."""
    u = np.random.default_rng(10).random(12)
    names = "Points:0,Points:1,Point ID,a,u"
    rows = np.column_stack([X, np.arange(12) + first, u, 2 * u])
    np.savetxt(tmp_path / "a.csv", rows, "%.17g", ",", header=names, comments="")
    data = read(tmp_path / "a.csv", Roles(outputs=("u",)))
    assert [field.name for field in data.layout.inputs] == ["a"]
    assert data.left_out["Point ID"].startswith("it numbers the points")
    data = read(tmp_path / "a.csv", Roles(outputs=("u",), inputs=("Point ID",)))
    assert np.array_equal(data.samples[0].inputs[:, 0], np.arange(12) + first)

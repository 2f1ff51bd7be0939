# SPDX-License-Identifier: MIT
"""Meanings of numbers in files: packing, units, times."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import refusal
from gnograd.data import (
    DataError,
    Roles,
    contents,
    read,
)
from gnograd.data.units import same_unit


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

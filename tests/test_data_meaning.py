# SPDX-License-Identifier: MIT
"""Meanings of arrays in files."""

from pathlib import Path

import numpy as np
import pytest

from data_files import N, S, arrays, same, to_matlab_5, to_npz
from gnograd.data import (
    DataError,
    Field,
    Roles,
    read,
)


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

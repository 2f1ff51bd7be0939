# SPDX-License-Identifier: MIT
"""Models on points: batches, symmetries, files."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import gnograd as gg
from gnograd import models
from gnograd.data import Field, Layout, PointData, Sample
from gnograd.data.cells import edges_of
from gnograd.data.statistics import still
from gnograd.models import NAMES, Cloud, PointModel
from gnograd.models.spectral import SpectralLayer


def data(d: int = 2, apart: bool = False, in_time: bool = False, period: float = 0) -> PointData:
    rng = np.random.default_rng(0)

    def field(*shape: int) -> np.ndarray:
        return rng.random(shape).astype(np.float32)

    samples = []
    for n in (40, 50):
        x = 3 * rng.random((n, d)) + 7
        queries = 3 * rng.random((n // 2, d)) + 7 if apart else x
        outputs, states = (None, field(4, n, 1)) if in_time else (field(len(queries), 1), None)
        samples.append(Sample(x, field(n, 2), queries, outputs, field(1), states))
    fields = (Field("f", 2),), (Field("u", 1),), (Field("p", 1),)
    return PointData(samples, Layout(d, *fields, (period,) * d if period else None, in_time, apart))


def model_of(made: PointData, name: str = "gno") -> PointModel:
    torch.manual_seed(0)
    return PointModel.for_data(made, name).eval()


def batch_of(model: PointModel, made: PointData) -> tuple:
    def of(arrays: list[np.ndarray]) -> list[torch.Tensor]:
        return [model.tensor(x) for x in arrays]

    queries = None
    if made.layout.apart:
        queries = Cloud.of(of([s.queries for s in made.samples]))
    return (
        Cloud.of(of([s.points for s in made.samples])),
        torch.cat(of([s.inputs for s in made.samples])),
        queries,
        torch.stack(of([s.parameters for s in made.samples])),
    )


@pytest.mark.parametrize(
    ("name", "apart"),
    [*((name, False) for name in NAMES), ("gno", True), ("magno", True), ("transolver", True)],
)
def test_items_of_a_batch_do_not_see_each_other(name: str, apart: bool) -> None:
    made = data(apart=apart)
    model = model_of(made, name)
    together = model(*batch_of(model, made))
    one_by_one = np.concatenate([model.predict(s) for s in made.samples])
    assert one_by_one.shape == (45 if apart else 90, 1)
    assert np.abs(together.detach().numpy() - one_by_one).max() < 1e-5
    together.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", ["gno", "gino", "magno", "transolver"])
def test_saved_models_are_the_same(tmp_path: Path, name: str) -> None:
    made = data(d=1, in_time=True, period=3.0)
    model = model_of(made, name)
    models.save(model, tmp_path, {"seed": 3})
    loaded = gg.load(tmp_path)
    sample = made.samples[0]
    expected = model.predict(sample, steps=2)
    assert expected.shape == (3, 40, 1) and (expected[0] == sample.states[0]).all()
    assert (loaded.predict(sample, steps=2) == expected).all()
    assert models.description_of(tmp_path)[1] == {"seed": 3}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_periodic_boxes_have_no_border(name: str, apart: bool) -> None:
    made = data(period=3.0, apart=apart)
    model, sample = model_of(made, name), made.samples[0]
    moved = sample.points + np.array([3.0, -6.0])
    queries = sample.queries - np.array([9.0, 0.0]) if apart else moved
    other = dataclasses.replace(sample, points=moved, queries=queries)
    # grids of latent points begin where the data does: images are the same, shifts are not
    assert np.abs(model.predict(other) - model.predict(sample)).max() < 1e-5
    # each point by itself
    rng = np.random.default_rng(2)
    moved = sample.points + 3.0 * rng.integers(-2, 3, sample.points.shape)
    other = dataclasses.replace(other, points=moved, queries=queries if apart else moved)
    assert np.abs(model.predict(other) - model.predict(sample)).max() < 1e-5


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_images_of_regular_grids_are_the_same_points(name: str, d: int) -> None:
    """Where distances are equal, rounding must not choose other neighbours for images."""
    n = {1: 40, 2: 11, 3: 6}[d]
    x = np.stack(np.meshgrid(*d * [np.arange(n) / n], indexing="ij"), -1).reshape(-1, d)
    rng = np.random.default_rng(0)
    f = rng.random((len(x), 1)).astype(np.float32)
    sample = Sample(x, f, x, f, np.zeros(0, np.float32))
    layout = Layout(d, (Field("f", 1),), (Field("u", 1),), (), (1.0,) * d)
    model = model_of(PointData([sample], layout), name)
    expected = model.predict(sample)
    for moved in (x + 1, x - 7, x + rng.integers(-2, 3, x.shape)):
        other = dataclasses.replace(sample, points=moved, queries=moved)
        assert np.abs(model.predict(other) - expected).max() < 1e-5 * np.abs(expected).max()
    if name == "gno":  # and all points have equally many
        assert len(model.graphs(model.positions(x))["near"].in_degree.unique()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_positions_stay_float32_under_autocast(name: str) -> None:
    """In bfloat16 neighbouring points would coincide."""
    made = data(apart=name != "magno")
    model = model_of(made, name)
    seen = {}
    for path, module in model.named_modules():
        part = path.rpartition(".")[2]
        if part in ("lift", "preprocess", "position", "where", "node_encoder"):
            module.register_forward_hook(
                lambda _, __, out, part=part: seen.update({part: out.dtype})
            )
    with torch.autocast("cpu", torch.bfloat16):
        model(*batch_of(model, made))
    assert seen and set(seen.values()) == {torch.float32}


def test_laplacian_of_transolver_is_that_of_differences() -> None:
    """Second derivatives of an output by its own point, through four layers."""
    torch.manual_seed(0)
    net = models.PointTransolver(2, 1, 1, radius=1.0, width=8, heads=2, layers=4, slices=4).double()
    for p in net.parameters():  # initial ones are so small that all is nearly linear
        torch.nn.init.normal_(p, std=0.6)
    x, f = torch.rand(7, 2, dtype=torch.float64), torch.rand(7, 1, dtype=torch.float64)

    def output(own: torch.Tensor) -> torch.Tensor:
        return net(Cloud.of([torch.cat([own[None], x[1:]])]), f, None, {})[0, 0]

    hessian = torch.autograd.functional.hessian(output, x[0])
    step, laplacian = 3e-3, 0.0
    for axis in 0, 1:
        e = torch.zeros(2, dtype=torch.float64)
        e[axis] = step
        u = [float(output(x[0] + k * e).detach()) for k in (-2, -1, 0, 1, 2)]
        laplacian += (-u[0] + 16 * u[1] - 30 * u[2] + 16 * u[3] - u[4]) / (12 * step**2)
    assert abs(laplacian) > 0.01
    assert abs(float(hessian.trace()) - laplacian) < 1e-6 * abs(laplacian)


def test_magno_sees_the_same_on_both_sides_of_a_periodic_border() -> None:
    """Latent points of a regular periodic grid all have equal surroundings."""
    n = 24
    x = np.stack(np.meshgrid(*[np.arange(n) / n] * 2, indexing="ij"), -1).reshape(-1, 2)
    f = np.random.default_rng(0).random((n * n, 1)).astype(np.float32)
    sample = Sample(x, f, x, f, np.zeros(0, np.float32))
    layout = Layout(2, (Field("f", 1),), (Field("u", 1),), (), (1.0, 1.0))
    model = model_of(PointData([sample], layout), "magno")
    net, seen = model.network, []
    points = model._scaled(Cloud.of([model.positions(x)])).positions
    graphs = net.graphs(points, None)
    net.encoder.geoembed.register_forward_hook(lambda _, __, out: seen.append(out))
    net.decoder.geoembed.register_forward_hook(lambda _, __, out: seen.append(out))
    with torch.no_grad():
        model.predict(sample)
    assert len(seen) == 4
    for shapes in seen[:2]:
        shapes = shapes.reshape(len(net.grid), -1)
        assert (shapes - shapes[0]).abs().max() < 1e-4 * shapes.abs().max()
    for k in range(2):
        assert len(graphs[f"encode {k}"].in_degree.unique()) == 1


def waves(samples: int, n: int, d: int, seed: int) -> PointData:
    """Periodic waves on a regular grid, and their derivative along the first axis."""
    rng, number = np.random.default_rng(seed), np.arange(-2, 3)
    k = np.stack(np.meshgrid(*d * [number], indexing="ij"), -1).reshape(-1, d)
    k = k[len(k) // 2 + 1 :]
    x = np.stack(np.meshgrid(*d * [np.arange(n) / n], indexing="ij"), -1).reshape(-1, d)
    phase, made = 2 * np.pi * x @ k.T, []
    for _ in range(samples):
        a, b = rng.standard_normal((2, len(k))) / np.linalg.norm(k, axis=1)
        u = np.sin(phase) @ a + np.cos(phase) @ b
        slope = np.cos(phase) @ (2 * np.pi * k[:, 0] * a) - np.sin(phase) @ (
            2 * np.pi * k[:, 0] * b
        )
        f = [column[:, None].astype(np.float32) for column in (u, slope)]
        made.append(Sample(x, f[0], x, f[1], np.zeros(0, np.float32)))
    return PointData(made, Layout(d, (Field("u", 1),), (Field("slope", 1),), (), (1.0,) * d))


def error_after(steps: int, name: str, n: int, d: int, rate: float = 5e-3, batch: int = 4) -> float:
    """Relative error of a derivative on new waves after some steps of training."""
    data, new = waves(32, n, d, seed=0), waves(8, n, d, seed=1)
    model = model_of(data, name)
    cloud = Cloud.of(batch * [model.positions(data.samples[0].points)])
    graphs, optimiser = model.graphs(cloud), torch.optim.Adam(model.parameters())
    rng = np.random.default_rng(0)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = rate * (1 - step / steps)
        some = [data.samples[k] for k in rng.permutation(len(data))[:batch]]
        u, slope = (
            torch.cat([model.tensor(getattr(s, name)) for s in some])
            for name in ("inputs", "outputs")
        )
        loss = (model(cloud, u, None, None, graphs) - slope).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = [model.predict(s) - s.outputs for s in new.samples]
    truth = [s.outputs for s in new.samples]
    return float(np.linalg.norm(found) / np.linalg.norm(truth))


def test_magno_learns_a_derivative() -> None:
    """Its kernels see differences of near points, not positions in the whole box."""
    assert error_after(40, "magno", 24, 1) < 0.6


def test_mgn_learns_a_derivative_in_little_work() -> None:
    """Few layers of many points, and many steps, not many layers and few steps."""
    model = model_of(waves(1, 12, 2, seed=0), "mgn")
    sample = waves(1, 12, 2, seed=0).samples[0]
    edges = model.graphs(model.positions(sample.points))["near"].n_edges
    steps = 600_000 // (edges * model.description.options["layers"])
    assert error_after(steps, "mgn", 12, 2) < 0.4


@pytest.mark.parametrize("d", [1, 3])
def test_mgn_sees_as_far_as_gno_in_a_layer(d: int) -> None:
    side = {1: 40, 3: 6}[d]
    axes = np.meshgrid(*d * [np.arange(side) / side], indexing="ij")
    x = np.stack(axes, axis=-1).reshape(-1, d)
    f = np.ones((len(x), 1), np.float32)
    sample = Sample(x, f, x, f, np.zeros(0, np.float32))
    grid = PointData([sample], Layout(d, (Field("f", 1),), (Field("u", 1),)))
    degree = {}
    for name in ("gno", "mgn"):
        graph = model_of(grid, name).graphs(torch.as_tensor(x, dtype=torch.float32))["near"]
        degree[name] = graph.n_edges / len(x)
    assert degree["mgn"] > 0.8 * degree["gno"]


@pytest.mark.parametrize(
    ("name", "n", "edges"),
    [
        ("line", 2, 1), ("triangle", 3, 3), ("quad", 4, 4), ("tetra", 4, 6), ("pyramid", 5, 8),
        ("wedge", 6, 9), ("hexahedron", 8, 12), ("triangle6", 6, 6), ("tetra10", 10, 12),
        ("quad8", 8, 8), ("quad9", 9, 16), ("hexahedron20", 20, 24), ("polygon5", 5, 5),
        ("triangle10", 10, 45), ("vertex", 1, 0),
    ],
)  # fmt: skip
def test_edges_of_cells(name: str, n: int, edges: int) -> None:
    found = edges_of({name: np.arange(n)[None] + 3, "vertex": np.zeros((4, 1), int)})
    assert len(found) == edges and (found[:, 0] < found[:, 1]).all()


def walled(cells: bool = True) -> PointData:
    """Two strips of triangles that almost touch, with nothing between them."""
    side = np.array([[i, j] for j in range(2) for i in range(6)], float)
    x = np.concatenate([side, side + np.array([0, 1.001])])
    strip = [t for i in range(5) for t in ([i, i + 1, i + 6], [i + 1, i + 7, i + 6])]
    triangles = np.array(strip + [[k + 12 for k in t] for t in strip])
    f = np.random.default_rng(0).random((24, 1)).astype(np.float32)
    mesh = {"triangle": triangles} if cells else {}
    sample = Sample(x, f, x, 2 * f, np.zeros(0, np.float32), cells=mesh, source="a.vtu")
    return PointData([sample], Layout(2, (Field("f", 1),), (Field("u", 1),)))


def test_mgn_passes_messages_along_the_mesh(tmp_path: Path) -> None:
    """No message crosses a wall, however near its other side is."""
    made = walled()
    model, (sample,) = model_of(made, "mgn"), made.samples
    graph = model.graphs(model.positions(sample.points), None, model.edges(sample))["near"]
    pairs = {(i, j) for i, j in zip(graph.src.tolist(), graph.dst.tolist(), strict=True) if i != j}
    t = sample.cells["triangle"]
    expected = {(int(a), int(b)) for row in t for a in row for b in row if a != b}
    assert pairs == expected
    other = sample.inputs.copy()
    other[12:] += 1
    changed = model.predict(dataclasses.replace(sample, inputs=other)) - model.predict(sample)
    assert (changed[:12] == 0).all() and (changed[12:] != 0).all()
    models.save(model, tmp_path)
    loaded = gg.load(tmp_path)
    assert (loaded.predict(sample) == model.predict(sample)).all()
    bare = walled(cells=False)
    with pytest.raises(ValueError, match=r"a.vtu: has no cells, but the model passes messages"):
        loaded.predict(bare.samples[0])
    x, f = model.positions(sample.points), model.tensor(sample.inputs)
    with pytest.raises(ValueError, match="needs those of every item"):
        loaded(x, f)
    with pytest.raises(ValueError, match=r"edges has shape \(1, 2\)"):
        loaded.graphs(x, None, torch.tensor([[0, 24]]))
    near = model_of(bare, "mgn")
    changed = near.predict(dataclasses.replace(bare.samples[0], inputs=other))
    assert (changed[6:12] != near.predict(bare.samples[0])[6:12]).any()


@pytest.mark.parametrize("kind", ["images", "cells across", "a gap", "one axis"])
def test_mgn_passes_messages_across_a_periodic_border(kind: str) -> None:
    """Along cells that cross it, or from points on one side to neighbours of their images."""
    n = 5  # cells along an axis
    side = n if kind in ("cells across", "a gap") else n + 1
    number = np.arange(side * side).reshape(side, side)
    step = np.arange(n - 1 if kind == "a gap" else n)
    corners = np.ix_(step, step)
    squares = np.stack(
        [np.roll(number, move, (0, 1))[corners] for move in ((0, 0), (-1, 0), (-1, -1), (0, -1))],
        axis=-1,
    ).reshape(-1, 4)
    x = np.stack(np.meshgrid(*[np.arange(side) / n] * 2, indexing="ij"), -1).reshape(-1, 2)
    f = np.random.default_rng(0).random((len(x), 1)).astype(np.float32)
    sample = Sample(x, f, x, f, np.zeros(0, np.float32), cells={"quad": squares}, source="a.vtu")
    period = (1.0, 0.0 if kind == "one axis" else 1.0)
    made = PointData([sample], Layout(2, (Field("f", 1),), (Field("u", 1),), (), period))
    model = model_of(made, "mgn")
    if kind == "a gap":
        assert not made.meshed and "neighbors" in model.description.options
        return
    assert made.meshed and "neighbors" not in model.description.options
    graph = model.graphs(model.positions(x), None, model.edges(sample))["near"]
    # places that send to a point, without its own images
    place = (np.round(x * n) % np.where(np.array(period) > 0, n, n + 1)).astype(int)
    seen: dict[int, set] = {k: set() for k in range(len(x))}
    for i, j in zip(graph.src.tolist(), graph.dst.tolist(), strict=True):
        if (place[i] != place[j]).any():
            seen[j].add(tuple(place[i]))
    for j, places in seen.items():
        a, b = place[j]
        around = {((a + 1) % n, b), ((a - 1) % n, b)}
        around |= {
            (a, c % n if period[1] else c) for c in (b - 1, b + 1) if period[1] or 0 <= c <= n
        }
        assert places == around
    # points and all images of points are the same
    expected, rng = model.predict(sample), np.random.default_rng(1)
    moved = x + np.array(period) * rng.integers(-2, 3, x.shape)
    other = dataclasses.replace(sample, points=moved, queries=moved)
    assert np.abs(model.predict(other) - expected).max() < 1e-5


def test_latent_grids_that_are_too_large_are_refused(tmp_path: Path) -> None:
    """A model makes its grid itself, so that its file may be small."""
    models.save(model_of(data(), "magno"), tmp_path)
    path = tmp_path / "model.json"
    good = json.loads(path.read_text())
    for name, value in (("side", 60000), ("side", 1e308), ("heads", 60000), ("scales", [0.0])):
        path.write_text(json.dumps(good | {"options": good["options"] | {name: value}}))
        with pytest.raises(ValueError, match=r"model.json: describes no model"):
            gg.load(tmp_path)


def test_the_origin_does_not_matter() -> None:
    """Coordinates as maps have them: float32 tells points apart by half a metre there."""
    rng = np.random.default_rng(0)
    x = np.r_[[[0.0, 0.0], [1.0, 1.0]], np.round(rng.random((40, 2)) * 2**20) / 2**20]
    f = rng.random((42, 1)).astype(np.float32)
    layout, made = Layout(2, (Field("f", 1),), (Field("u", 1),)), []
    for moved in (x, x + 2**22):
        sample = Sample(moved, f, moved, f, np.zeros(0, np.float32))
        made.append(model_of(PointData([sample], layout)).predict(sample))
    assert (made[0] == made[1]).all()


def test_units_of_the_data_do_not_matter() -> None:
    made = data()
    scaled = [
        Sample(1e3 * s.points, 5 * s.inputs + 2, 1e3 * s.points, s.outputs, s.parameters)
        for s in made.samples
    ]
    for sample in scaled:
        object.__setattr__(sample, "queries", sample.points)
    other = PointData(scaled, made.layout)
    a = model_of(made).predict(made.samples[0])
    b = model_of(other).predict(scaled[0])
    assert np.abs(a - b).max() < 1e-3


@pytest.mark.parametrize("in_time", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1e-18])
def test_outputs_that_do_not_vary_are_given_back(in_time: bool, noise: float) -> None:
    """The third component of a planar field: zero, or what rounding leaves of it."""
    made = data(in_time=in_time)
    rng = np.random.default_rng(1)
    samples = []
    for sample in made.samples:
        u = sample.states if in_time else sample.outputs
        third = (noise * rng.standard_normal(u.shape)).astype(np.float32)
        field = np.concatenate([u, -u, third], axis=-1)
        key = "states" if in_time else "outputs"
        samples.append(dataclasses.replace(sample, **{key: field}, queries=sample.points))
    three = PointData(samples, dataclasses.replace(made.layout, outputs=(Field("u", 3),)))
    model = model_of(three)
    assert (model.output_std > 0).tolist() == [True, True, False]
    found = model.predict(samples[0])
    assert np.abs(found[..., 2]).max() <= 5 * noise
    truth = samples[0].states if in_time else samples[0].outputs
    assert model.counted(truth).tolist() == [True, True, False]
    # it counts if it differs from training
    assert model.counted(truth + rng.random(truth.shape)).all()
    (note,) = still(three)
    assert note.startswith("u (3): component 2 ")
    assert ("does not change in time" if in_time else "is 0 everywhere") in note


def test_differences_are_learned_where_they_vary_less(tmp_path: Path) -> None:
    """From the input that outputs are near to, or from the state; otherwise the values."""
    rng = np.random.default_rng(0)
    x, none = rng.random((60, 2)), np.zeros(0, np.float32)
    a, b, noise = (rng.standard_normal((60, n)).astype(np.float32) for n in (1, 2, 2))
    fields = (Field("a", 1), Field("b", 2)), (Field("u", 2),)
    inputs = np.concatenate([a, b], axis=1)

    def model_for(u: np.ndarray, apart: bool = False) -> tuple[PointModel, Sample]:
        sample = Sample(x, inputs, x + 1 if apart else x, 100 * u, none)
        sample = dataclasses.replace(sample, inputs=100 * inputs)
        return model_of(PointData([sample], Layout(2, *fields, apart=apart))), sample

    model, sample = model_for(b + 0.01 * noise)
    assert model.description.adds == 1
    models.save(model, tmp_path)
    made = gg.load(tmp_path).predict(sample)
    assert (made == model.predict(sample)).all()
    assert np.linalg.norm(made - sample.outputs) < 0.05 * np.linalg.norm(sample.outputs)
    text = json.loads((tmp_path / "model.json").read_text())
    for wrong in (-1, 2, 1.0, "1"):
        (tmp_path / "model.json").write_text(json.dumps(text | {"adds": wrong}))
        with pytest.raises(ValueError, match=r"model.json: describes no model"):
            gg.load(tmp_path)
    assert model_for(b + noise)[0].description.adds is None
    assert model_for(b + 0.01 * noise, apart=True)[0].description.adds is None

    for change, adds in ((0.1, 3), (10.0, None)):
        steps = change * rng.standard_normal((4, 60, 2)).astype(np.float32)
        sample = Sample(x, inputs, x, None, none, b + steps)
        model = model_of(PointData([sample], Layout(2, *fields, in_time=True)))
        assert model.description.adds == adds
        learned = sample.states if adds is None else np.diff(sample.states, axis=0)
        std = learned.std(axis=(0, 1))
        np.testing.assert_allclose(model.output_std.numpy(), std, rtol=1e-3)
        models.save(model, tmp_path)
        assert gg.load(tmp_path).description.adds == adds


def test_inputs_that_do_not_vary_tell_nothing() -> None:
    made = data()
    rng = np.random.default_rng(1)
    for sample in made.samples:
        sample.inputs[:, 1] = 1e-12 * rng.standard_normal(len(sample.inputs))
    model = model_of(made)
    _, inputs, _, parameters = batch_of(model, made)
    features = model._features(Cloud.of([torch.zeros(90, 2)]), inputs, parameters[:1])
    assert features[:, 1].abs().max() < 1e-6 < features[:, 0].std()


@pytest.mark.parametrize("shape", [(16,), (9, 12), (5, 6, 7)])
def test_fourier_layer_is_a_convolution(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer, h = SpectralLayer(3, shape, 3), torch.randn(2, 3, *shape)
    axes, shift = tuple(range(2, 2 + len(shape))), tuple(range(1, 1 + len(shape)))
    moved = layer(h.roll(shift, axes))
    assert (moved - layer(h).roll(shift, axes)).abs().max() < 1e-4
    assert (layer(h) - layer(2 * h) / 2).abs().max() < 1e-4


def test_arguments_that_do_not_fit_are_named() -> None:
    made = data()
    model = model_of(made)
    points, inputs, _, parameters = batch_of(model, made)
    with pytest.raises(ValueError, match=r"inputs has shape \(90, 1\), needs \(90, 2\)"):
        model(points, inputs[:, :1], None, parameters)
    with pytest.raises(ValueError, match=r"parameters has shape None, needs \(2, 1\)"):
        model(points, inputs)
    with pytest.raises(ValueError, match="takes no queries"):
        model(points, inputs, points, parameters)
    with pytest.raises(ValueError, match=r"points has shape \(4, 3\), needs \(n, 2\)"):
        model(torch.zeros(4, 3), torch.zeros(4, 2), None, torch.zeros(1))
    with pytest.raises(ValueError, match="model is 'fno', needs one of 'gno'"):
        PointModel.for_data(made, "fno")


@pytest.mark.parametrize("name", ["gno", "gino", "mgn", "transolver"])
def test_models_are_exported(tmp_path: Path, name: str) -> None:
    """The program takes other inputs on the same points."""
    made = data()
    model, sample = model_of(made, name).eval(), made.samples[0]
    points = model.positions(sample.points)
    graphs, parameters = model.graphs(points), model.tensor(sample.parameters)
    inputs = [model.tensor(sample.inputs) * k for k in (1, 2)]
    program = torch.export.export(model, (points, inputs[0], None, parameters, graphs))
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    given = (points, inputs[1], None, parameters, graphs)
    assert torch.allclose(again(*given), model(*given), atol=1e-5)


def test_spoiled_models_are_refused(tmp_path: Path) -> None:
    models.save(model_of(data()), tmp_path)
    path = tmp_path / "model.json"
    good = json.loads(path.read_text())

    def refused(text: str, **change: object) -> None:
        path.write_text(json.dumps(good | change))
        with pytest.raises(ValueError, match=text):
            gg.load(tmp_path)

    refused("describes no model that is known", model="os.system")
    refused("has format 2, but this gnograd reads 1", format=2)
    refused("1000000000 is too large", options=good["options"] | {"width": 10**9})
    refused("has shape .* but the model needs", options=good["options"] | {"width": 60000})
    refused("describes no model", options=good["options"] | {"unknown": 1})
    refused("describes no model .60000 layers", options=good["options"] | {"layers": 60000})
    for name, value in (("width", 0), ("width", 2.5), ("radius", -1), ("radius", "x")):
        refused("describes no model", options=good["options"] | {name: value})
    for options in ({}, [], None, [[1, 2, 3]], {"layers": 1}, {"layers": 10**400}):
        refused("describes no model", options=options)
    for model in ([], {}, None, 7):
        refused("describes no model that is known", model=model)
    for name, value in (
        ("dimension", 10**9), ("dimension", "2"), ("dimension", True), ("inputs", 7),
        ("inputs", [["f"]]),
        ("inputs", [["f", -1]]), ("inputs", [["f", 1.5]]), ("period", [10**400]), ("in_time", "no"),
        ("outputs", {}), ("period", "ab"),
    ):  # fmt: skip
        refused("describes no model|has shape", layout=good["layout"] | {name: value})
    refused("describes no model", options=good["options"] | {"radius": "0.1"})
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is no JSON"):
        gg.load(tmp_path)
    for place in ("/dev/zero", tmp_path):
        path.unlink()
        path.symlink_to(place)
        with pytest.raises(ValueError, match=r"model.json: is not a file"):
            gg.load(tmp_path)
    path.unlink()
    path.write_text(json.dumps(good))
    arrays = gg.load_weights(tmp_path / "model.safetensors")
    for dtype, fits in (("f2", True), ("f8", False), ("i1", False), ("?", False)):
        other = {n: x.astype(dtype) if x.dtype == "f4" else x for n, x in arrays.items()}
        gg.save_weights(tmp_path / "model.safetensors", other)
        if fits:
            gg.load(tmp_path)
        else:
            with pytest.raises(ValueError, match=r"the module's is torch.float32"):
                gg.load(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        gg.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        gg.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["neuraloperator FNO", "neuraloperator GINO", "PyG MeshGraphNet"])
def test_peers_in_the_table_of_models(name, tmp_path, monkeypatch):
    """They can be trained as the package's own models are."""
    pytest.importorskip("neuralop")
    pytest.importorskip("torch_geometric")
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import models as table

    setting = table.Setting("darcy", (32, 4), (32, 2), training=4, tests=2)
    setting.make(tmp_path)
    cell = table.Cell(setting, name, "small", 0.01, 1e-3, 2, tmp_path)
    found = cell.train()
    assert found["steps"] >= 1 and np.isfinite([found["error"], found["finer"]]).all()

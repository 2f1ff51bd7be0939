# SPDX-License-Identifier: MIT
"""Models on points: batches, symmetries, units of the data, files."""

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
from gnograd.data.statistics import still
from gnograd.models import NAMES, Cloud, PointModel
from gnograd.models.spectral import SpectralLayer
from models_data import batch_of, data, model_of


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

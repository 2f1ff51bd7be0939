# SPDX-License-Identifier: MIT
"""Models that learn a derivative, and MeshGraphNet on cells and across borders."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import gnograd as gg
from gnograd import models
from gnograd.data import Field, Layout, PointData, Sample
from gnograd.data.cells import edges_of
from gnograd.models import Cloud
from models_data import model_of


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

# SPDX-License-Identifier: MIT
"""Graphs that Fortran makes of points are those that Python makes: the same edges in one order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg
from programs import ROOT, build, needs_installation

pytestmark = needs_installation


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    return build("gfortran", ROOT / "tests/consumer/graphs.f90", folder)


def points(kind: str, rng: np.random.Generator) -> dict:
    """Arguments of a search."""
    if kind == "one axis":
        return {"sources": rng.random((300, 1)), "radius": 0.02}
    if kind == "cloud":
        return {"sources": rng.random((700, 2)), "radius": 0.07}
    if kind == "box":
        sources, destinations = rng.random((500, 3)) * 4 - 2, rng.random((200, 3)) * 9
        return {
            "sources": sources, "destinations": destinations, "radius": 0.4,
            "period": np.array([1.0, 2.0, 0.0]),
        }  # fmt: skip
    if kind == "narrow box":  # a radius of more than half the period
        return {"sources": rng.random((60, 2)), "radius": 0.8, "period": np.array([1.0, 0.3])}
    if kind == "lattice":  # distances that are equal, and equal to the radius
        axes = np.meshgrid(*[np.arange(9) / 8] * 3, indexing="ij")
        return {"sources": np.stack(axes, -1).reshape(-1, 3), "radius": 0.25}
    if kind == "periodic lattice":
        axes = np.meshgrid(*[np.arange(10) / 10] * 2, indexing="ij")
        sources = np.stack(axes, -1).reshape(-1, 2)
        return {"sources": sources, "radius": 0.2, "period": np.ones(2), "include_self": False}
    if kind == "clusters":
        sources = rng.normal(size=(6, 1, 4)) + 1e-3 * rng.normal(size=(6, 80, 4)) ** 3
        return {"sources": sources.reshape(-1, 4), "radius": 2e-3, "include_self": False}
    if kind == "one place":
        return {"sources": np.full((90, 2), 0.1), "radius": 0.0}
    if kind == "everything":
        return {"sources": rng.random((120, 2)), "radius": np.inf}
    assert kind == "nothing"
    return {"sources": np.empty((0, 3)), "destinations": rng.random((4, 3)), "radius": 1.0}


@pytest.mark.parametrize(
    "kind",
    [
        "one axis", "cloud", "box", "narrow box", "lattice", "periodic lattice", "clusters",
        "one place", "everything", "nothing",
    ],
)  # fmt: skip
def test_same_graphs(program, tmp_path, kind):
    given = points(kind, np.random.default_rng(7))
    k, seed = 5, 123
    sources, radius = given.pop("sources"), given.pop("radius")
    arrays = {
        "sources": sources, "radius": np.array(radius), "k": np.array(k), "seed": np.array(seed),
        "period": given.get("period", np.zeros(sources.shape[1])),
    }  # fmt: skip
    if "destinations" in given:
        arrays["destinations"] = given["destinations"]
    if not given.get("include_self", True):
        arrays["not itself"] = np.array(1)
    gg.save_weights(tmp_path / "points.safetensors", arrays)
    done = subprocess.run(
        [program, "points.safetensors", "graphs.safetensors"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = gg.load_weights(tmp_path / "graphs.safetensors")

    graphs = {
        "all": gg.Graph.radius(sources, radius, **given),
        "near": gg.Graph.knn(sources, k, **given),
        "some": gg.Graph.radius(sources, radius, **given, max_neighbors=k),
        "any": gg.Graph.radius(
            sources, radius, **given, max_neighbors=k, choose="random", seed=seed
        ),
    }
    graphs["joined"] = gg.Graph.union(graphs["near"], graphs["some"])
    graphs["back"] = graphs["joined"].reverse()
    graphs["several"] = gg.Graph.batch([graphs["near"], graphs["joined"], graphs["all"]])
    for name, graph in graphs.items():
        np.testing.assert_array_equal(found[f"{name}.offsets"], graph.offsets, err_msg=name)
        np.testing.assert_array_equal(found[f"{name}.indices"], graph.indices, err_msg=name)
        np.testing.assert_array_equal(found[f"{name}.src"] - 1, graph.src, err_msg=name)
        np.testing.assert_array_equal(found[f"{name}.dst"] - 1, graph.dst, err_msg=name)

# SPDX-License-Identifier: MIT
"""Cases of neural operators and of DimeNet."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from case import Call, add, mesh, normal, power_law, random_graph

import gnograd as gg

# ---- neural operators ----


def _gno(
    hidden: int,
    kernel: str = "full",
    graph: Callable = random_graph,
    dtype: str = "float32",
) -> Callable:
    def make(n: int, rng: np.random.Generator) -> Call:
        degree, width = 8, 32
        matrix = (width, width) if kernel == "full" else (width,)
        inputs = (
            normal(rng, n, width, dtype=dtype),
            normal(rng, n * degree, 2),
            normal(rng, 2, hidden, dtype=dtype),
            normal(rng, hidden, dtype=dtype),
            normal(rng, hidden, *matrix, dtype=dtype, scale=hidden**-0.5),
            normal(rng, *matrix, dtype=dtype),
        )
        static = {"graph": graph(n, degree, rng), "activation": "gelu", "kernel": kernel}
        return gg.gno, inputs, static

    return make


for _hidden in (64, 128):
    # a sum over the edges of hidden features x features, then a product with V
    _products = 2.0 * 160_000 * _hidden * 32 + 2 * 20_000 * _hidden * 32**2
    for _dtype, _factors in ("float32", "tf32"), ("bfloat16", "bf16"):
        add(
            f"gno_{_hidden}" + "_bf16" * (_dtype == "bfloat16"),
            _gno(_hidden, dtype=_dtype),
            f"160,000 edges, 32 to 32, hidden {_hidden}; useful in {_factors}, once",
            full=20_000,
            small=500,
            useful={"forward": _products, "vjp": 3 * _products},
            type=_factors,
        )
_products = 2.0 * 160_000 * 128 * 34
for _name, _by in (("", random_graph), ("_hubs", power_law)):
    add(
        f"gno_diagonal{_name}",
        _gno(128, "diagonal", _by),
        "160,000 edges, 32 features, hidden 128" + ", by a power law" * bool(_name),
        full=20_000,
        small=1000 if _name else 500,
        useful={"forward": _products, "vjp": 3 * _products},
        type="fp32",
    )


def _kernel(n: int, rng: np.random.Generator) -> Call:
    inputs = (
        normal(rng, n, 2),
        normal(rng, 2, 64),
        normal(rng, 64),
        normal(rng, 64, 32, 32, scale=0.125),
        normal(rng, 32, 32),
    )
    return gg.gno_kernel, inputs, {"activation": "gelu"}


def _aggregate(graph: Callable) -> Callable:
    def make(n: int, rng: np.random.Generator) -> Call:
        inputs = normal(rng, n, 32), normal(rng, 8 * n, 32, 32)
        return gg.gno_aggregate, inputs, {"graph": graph(n, 8, rng)}

    return make


_products = 2.0 * 160_000 * (64 * 1024 + 128)
add(
    "gno_kernel",
    _kernel,
    "160,000 edges, hidden 64, 32 x 32",
    full=160_000,
    small=2_000,
    useful={"forward": _products, "vjp": 3 * _products},
    type="tf32",
)
for _name, _by in (("", random_graph), ("_hubs", power_law)):
    add(
        f"gno_aggregate{_name}",
        _aggregate(_by),
        "160,000 edges with a matrix of 32 x 32 each" + ", by a power law" * bool(_name),
        full=20_000,
        small=1000 if _name else 500,
        useful={"forward": 4.0 * 160_000 * 1056, "vjp": 4.0 * 160_000 * (2 * 1024 + 64)},
    )


def _deep(n: int, rng: np.random.Generator) -> Call:
    widths = (4, 64, 64, 64)
    layers = [(normal(rng, a, b, scale=a**-0.5), normal(rng, b)) for a, b in pairwise(widths)]
    packed = gg.gno_pack_layers(layers)
    inputs = normal(rng, n, 64), normal(rng, n, 2), normal(rng, n, 2), None, packed
    return gg.gno_deep, inputs, {"graph": random_graph(n, 16, rng), "widths": [64, 64, 64]}


_products = 2.0 * 320_000 * (4 * 64 + 2 * 64 * 64)
add(
    "gno_deep",
    _deep,
    "320,000 edges, 4, 64, 64, 64; useful in tf32, once",
    full=20_000,
    small=250,
    useful={"forward": _products, "vjp": 3 * _products},
    type="tf32",
)


def _edge_mlp(n: int, rng: np.random.Generator) -> Call:
    g, width = mesh(n), 128
    n_weights = width * (5 * width + 3) + 2 * width
    inputs = (
        normal(rng, g.n_edges, width),
        normal(rng, n, width),
        normal(rng, n, width),
        normal(rng, n_weights, scale=width**-0.5),
    )
    return gg.edge_mlp, inputs, {"graph": g, "widths": [width] * 3}


_products = 2.0 * 128 * 128 * (3 * 960_000 + 2 * 160_000)
add(
    "edge_mlp",
    _edge_mlp,
    "mesh of 400 x 400, layers 128, 128, 128; useful in tf32, once",
    full=160_000,
    small=400,
    useful={"forward": _products, "vjp": 2 * _products},
    type="tf32",
)


def _jets(operator: Any) -> Callable:
    def make(n: int, rng: np.random.Generator) -> Call:
        degree, width = 16, 8
        layers = [
            (normal(rng, 2, 64), normal(rng, 64)),
            (normal(rng, 64, 64, scale=0.125), normal(rng, 64)),
        ]
        inputs = (
            normal(rng, n, width),
            normal(rng, n, 2),
            normal(rng, n, 2),
            gg.gno_pack_layers(layers),
            normal(rng, 64, width, 1, scale=0.125),
            normal(rng, width, 1),
        )
        return operator, inputs, {"graph": random_graph(n, degree, rng), "widths": [64, 64]}

    return make


# directions that a jet has: the value, d first derivatives, and the Laplacian or all second ones
for _name, _operator, _directions in (
    ("laplacian", gg.gno_with_laplacian, 4),
    ("gradient", gg.gno_with_gradient, 3),
    ("hessian", gg.gno_with_hessian, 6),
):
    _products = 320_000.0 * 2 * _directions * (2 * 64 + 64 * 64 + 64 * 8)
    add(
        _name,
        _jets(_operator),
        "320,000 edges, 2, 64, 64, 8; useful in tf32, once",
        full=20_000,
        small=250,
        useful={"forward": _products, "vjp": 3 * _products},
        type="tf32",
    )


# ---- DimeNet ----

N_SPHERICAL, N_RADIAL, N_MID, N_EMB = 7, 6, 8, 64
NEIGHBOURS = 16


def crystal(n_edges: int) -> tuple[np.ndarray, gg.Graph]:
    """Random points, each with edges from its nearest ones, and the edge vectors."""
    from scipy.spatial import cKDTree

    n = n_edges // NEIGHBOURS
    points = np.random.default_rng(0).random((n, 3)) * n ** (1 / 3)
    src = cKDTree(points).query(points, NEIGHBOURS + 1)[1][:, 1:].ravel()
    dst = np.repeat(np.arange(n), NEIGHBOURS)
    return (points[dst] - points[src]).astype(np.float32), gg.Graph.from_edges(src, dst, n, n)


def _with_hubs(vector: np.ndarray, g: gg.Graph, hubs: int, rng: np.random.Generator) -> tuple:
    """A crystal of which some nodes have 300 edges more in both directions."""
    hub = np.repeat(np.arange(hubs) * (g.n_dst // hubs), 300)
    other, step = rng.integers(0, g.n_dst, len(hub)), normal(rng, len(hub), 3)
    src, dst = np.concatenate([g.src, hub, other]), np.concatenate([g.dst, other, hub])
    graph = gg.Graph.from_edges(src, dst, g.n_src, g.n_dst)
    return np.concatenate([vector, step, -step]), graph


def _edge_to_edge(hubs: bool) -> Callable:
    def make(n_edges: int, rng: np.random.Generator) -> Call:
        if hubs:
            vector, graph = _with_hubs(*crystal(n_edges * 3 // 5), n_edges // 1500, rng)
        else:
            vector, graph = crystal(n_edges)
        basis, n = N_SPHERICAL * N_RADIAL, graph.n_edges
        inputs = (
            vector.astype(np.float32),
            normal(rng, n, basis, scale=0.1),
            normal(rng, n, N_EMB),
            normal(rng, basis + N_EMB, N_MID, scale=0.1),
        )
        return gg.agg_edge_to_edge, inputs, {"graph": graph, "exclude": "same_node"}

    return make


def _radial(n: int, rng: np.random.Generator) -> Call:
    x = rng.random((n, 1), np.float32)
    return gg.radial_basis, (x, np.pi * np.arange(1, 7, dtype=np.float32)), {}


for _hubs in (False, True):
    add(
        "edge_to_edge" + "_hubs" * _hubs,
        _edge_to_edge(_hubs),
        "200,000 edges" + ", two fifths of them of 133 nodes" * _hubs,
        full=200_000,
        small=1500,
        useful={"forward": 4.0 * 200_000 * 173, "vjp": 4.0 * 200_000 * 282},
    )
add(
    "radial",
    _radial,
    "1,000,000 edges",
    full=1_000_000,
    small=40_000,
    useful={"forward": 4.0 * 10**6 * 49, "vjp": 4.0 * 10**6 * 50},
)

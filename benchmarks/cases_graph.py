# SPDX-License-Identifier: MIT
"""Cases of aggregation and of attention on graphs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from case import EDGES, GRAPHS, NODES, SIZES, Call, add, normal, on_random_graph

import gnograd as gg

# ---- aggregation ----


def aggregation(kind: str, width: int, graph: str, dtype: str, usual: bool) -> None:
    build, full, small, degree, words = GRAPHS[graph]

    def make(n: int, rng: np.random.Generator) -> Call:
        g = build(n, rng)
        inputs = normal(rng, n, width, dtype=dtype), normal(rng, g.n_edges, dtype=dtype)
        return gg.agg_weighted, inputs, {"graph": g, "aggregation": kind}

    edges, size = degree * full, SIZES[dtype]
    forward = size * (edges * (width + 1) + full * width)
    add(
        f"agg_{kind}_{width}{graph}{'_bf16' if size == 2 else ''}",
        make,
        words,
        full=full,
        small=small,
        useful={"forward": forward, "vjp": size * (2 * edges * (width + 1) + 2 * full * width)},
        usual=usual,
    )


_USUAL = {
    ("sum", 128, "", "float32"),
    ("sum", 128, "", "bfloat16"),
    ("max", 128, "", "float32"),
    ("sum", 64, "_mesh", "float32"),
    ("max", 64, "_mesh", "float32"),
    ("sum", 32, "", "float32"),
    ("sum", 32, "", "bfloat16"),
    ("sum", 32, "_mesh", "bfloat16"),
    ("sum", 256, "", "float32"),
    ("sum", 128, "_hubs", "float32"),
}
for _kind in ("sum", "max"):
    for _graph in GRAPHS:
        for _width in (32, 64, 128, 256):
            for _dtype in ("float32", "bfloat16"):
                _usual = (_kind, _width, _graph, _dtype) in _USUAL
                aggregation(_kind, _width, _graph, _dtype, _usual)


def _relational(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    types = rng.integers(0, 8, g.n_edges).astype(np.int32)
    inputs = normal(rng, n, 64), None, normal(rng, 8, 4)
    return gg.agg_relational, inputs, {"graph": g, "edge_type": types, "n_relations": 8}


on_random_graph(
    "relational",
    _relational,
    "64 features, 8 relations, 4 bases",
    EDGES * 65 + NODES * 256,
    EDGES * (256 + 64 + 1) + NODES * (256 + 64),
    small=10_000,
)


def _updates(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    inputs = normal(rng, g.n_edges, 32), normal(rng, n, 64), normal(rng, n, 64)
    return gg.update_edges, inputs, {"graph": g}


on_random_graph(
    "edge_updates",
    _updates,
    "32, 64 and 64 features side by side",
    EDGES * 320,
    EDGES * 192 + NODES * 128,
    small=10_000,
)


def _moments(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    return gg.offset_moments, (normal(rng, n, 3), normal(rng, n, 3)), {"graph": g}


on_random_graph(
    "moments",
    _moments,
    "3 axes",
    EDGES * 3 + NODES * 14,
    2 * EDGES * 3 + EDGES * 11 + NODES * 20,
    small=10_000,
)


# ---- attention on graphs ----


def _gat(heads: int, width: int, dtype: str = "float32") -> Callable:
    def make(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
        x = normal(rng, n, width, dtype=dtype)
        a = normal(rng, 2 * width, dtype=dtype)
        return gg.mha_gat, (x, x, a), {"graph": g, "num_heads": heads}

    return make


for _heads, _channels, _dtype in ((8, 16, "float32"), (4, 32, "float32"), (8, 16, "bfloat16")):
    _d = _heads * _channels
    on_random_graph(
        "gat" + ("" if _heads == 8 else f"_{_heads}x{_channels}") + "_bf16" * (_dtype[0] == "b"),
        _gat(_heads, _d, _dtype),
        f"{_heads} x {_channels}",
        EDGES * (_d + 2 * _heads) + NODES * 2 * _d,
        EDGES * (3 * _d + 4 * _heads) + NODES * 4 * _d,
        size=SIZES[_dtype],
    )


def _gat_v2(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    x = normal(rng, n, 128)
    return gg.mha_gat_v2, (x, x, normal(rng, 128)), {"graph": g, "num_heads": 8}


def _mha_simple(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    inputs = tuple(normal(rng, n, 128) for _ in range(3))
    return gg.mha_simple, inputs, {"graph": g, "num_heads": 8}


def _softmax(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    return gg.edge_softmax, (normal(rng, g.n_edges, 8),), {"graph": g}


on_random_graph(
    "gat_v2",
    _gat_v2,
    "8 x 16",
    EDGES * 128 + NODES * 256,
    EDGES * 384 + NODES * 512,
    small=10_000,
)
on_random_graph(
    "mha_simple",
    _mha_simple,
    "8 x 16",
    EDGES * 256 + NODES * 256,
    EDGES * 512 + NODES * 768,
    small=10_000,
)
on_random_graph("edge_softmax", _softmax, "8 heads", EDGES * 16, EDGES * 24, small=10_000)


# The Triton GraphTransformer of anemoi-core (pull request 631) gives its times on an H200 in
# float16, forward and backward together: era_to_h 2.77, h_to_h 0.83, h_to_era 4.87 ms, on the
# grid N320 (542,080 points) and an icosahedron refined six times (40,962 nodes) with the edges of
# all levels. Channels are not told; 16 x 64 are that project's usual ones. Points of the grid are
# a spiral's here, with as many; its edges to the nodes are those within 0.6 times the longest edge.


def icosahedron(level: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on the sphere, and edges of all levels in both directions, (n, 2)."""
    t = (1 + 5**0.5) / 2
    points = [(s, r * t, 0) for r in (1, -1) for s in (-1, 1)]
    points = [*points, *[(0, a, b) for a, b, _ in points], *[(b, 0, a) for a, b, _ in points]]
    x = np.array(points, float) / (1 + t * t) ** 0.5
    near = np.linalg.norm(x[:, None] - x[None], axis=2) < 1.1
    faces = np.array(
        [
            (a, b, c)
            for a in range(12)
            for b in range(a)
            for c in range(b)
            if near[a, b] and near[b, c] and near[a, c]
        ]
    )
    edges = []
    for step in range(level + 1):
        pairs = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [0, 2]]]))
        pairs, number = np.unique(pairs, axis=0, return_inverse=True)
        edges.append(pairs)
        if step == level:
            break
        middle = x[pairs].sum(axis=1)
        ab, bc, ac = number.reshape(3, -1) + len(x)
        x = np.concatenate([x, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
        a, b, c = faces.T
        faces = np.concatenate(
            [np.stack(f, axis=1) for f in ((a, ab, ac), (b, ab, bc), (c, ac, bc), (ab, bc, ac))]
        )
    both = np.concatenate(edges)
    return x, np.concatenate([both, both[:, ::-1]])


def _grid(n: int) -> np.ndarray:
    """Points spread over the sphere on a spiral."""
    z = 1 - (2 * np.arange(n) + 1) / n
    turn = np.pi * (1 + 5**0.5) * np.arange(n)
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(turn), r * np.sin(turn), z], axis=1)


def _icosahedron(way: str) -> Callable:
    def make(n_nodes: int, rng: np.random.Generator) -> Call:
        from scipy.spatial import cKDTree

        level = round(np.log((n_nodes - 2) / 10) / np.log(4))
        nodes, edges = icosahedron(level)
        grid = _grid(542_080 * n_nodes // 40_962)
        if way == "h_to_h":
            src, dst = edges.T
            sizes = len(nodes), len(nodes)
        elif way == "h_to_era":
            src = cKDTree(nodes).query(grid, 3)[1].ravel()
            dst, sizes = np.repeat(np.arange(len(grid)), 3), (len(nodes), len(grid))
        else:
            # sizes of the finest level, the last that is refined
            a, b = edges[: len(edges) // 2][-30 * 4**level :].T
            reach = 0.6 * np.linalg.norm(nodes[a] - nodes[b], axis=1).max()
            near = cKDTree(grid).query_ball_point(nodes, reach)
            src = np.concatenate(near).astype(int)
            dst = np.repeat(np.arange(len(nodes)), [len(x) for x in near])
            sizes = len(grid), len(nodes)
        g = gg.Graph.from_edges(src, dst, *sizes)
        rows = g.n_dst, g.n_src, g.n_src, g.n_edges
        inputs = tuple(normal(rng, n, 1024, dtype="float16") for n in rows)
        return gg.mha_simple, inputs, {"graph": g, "num_heads": 16}

    return make


for _way in ("era_to_h", "h_to_h", "h_to_era"):
    _edges = {"era_to_h": 853_000, "h_to_h": 327_660, "h_to_era": 1_626_240}[_way]
    _dst = 542_080 if _way == "h_to_era" else 40_962
    add(
        f"icosahedron_{_way}",
        _icosahedron(_way),
        f"mha_simple with features of edges, 16 x 64, float16; {_edges:,} edges",
        full=40_962,
        small=642,
        work=lambda n: n - 2.0,
        useful={
            "forward": 2 * 1024 * (3.0 * _edges + 2 * _dst),
            "vjp": 2 * 1024 * (6.0 * _edges + 4 * _dst),
        },
    )

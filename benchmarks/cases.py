# SPDX-License-Identifier: MIT
"""The operators on a GPU, case by case: what `gpu.py` times and what the time model counts.

A case has one size, of which its work is a multiple. `full` is what is timed on a GPU; at `small`
the model (`tests/cuda/ptx/baseline.py`) executes the same kernels and multiplies the counts.

useful      floats or operations that the operator cannot do without, by face: every array read or
            written once, and a row of features for every edge that gathers one; or the products
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import gnograd as gg

Call = tuple[Any, tuple, dict[str, Any]]  # operator, inputs, static arguments
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
MANY = 200_000  # numbers that a GPU draws sooner than the host


@dataclass(frozen=True)
class Case:
    """A call at any size. `make(size, rng)` gives operator, inputs, static arguments."""

    name: str
    make: Callable[[int, np.random.Generator], Call]
    what: str
    full: int
    small: int
    work: Callable[[int], float] = float  # in proportion to the time, by size
    arrays: Callable[[int], float] | None = None  # in proportion to memory, if that differs
    useful: dict[str, float] = field(default_factory=dict)  # bytes, or with a type operations
    type: str = ""
    faces: tuple[str, ...] = ("forward", "vjp")
    usual: bool = True  # counted and timed where no case is named

    def described(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Labels of the small case, and what they stand for in the model."""
        for face in self.faces:
            entry = {"what": self.what, "scale": self.work(self.full) / self.work(self.small)}
            if self.arrays:
                entry["arrays_scale"] = self.arrays(self.full) / self.arrays(self.small)
            if face in self.useful:
                entry["flops" if self.type else "bytes"] = self.useful[face]
            if self.type:
                entry["type"] = self.type
            yield f"{self.name}/{face}", entry


CASES: dict[str, Case] = {}


def add(name: str, make: Callable, what: str, **more: Any) -> None:
    CASES[name] = Case(name, make, what, **more)


def normal(
    rng: np.random.Generator, *shape: int, dtype: str = "float32", scale: float = 1.0
) -> Any:
    """Normal numbers, which a generator with memory of its own draws there if they are many."""
    draw = getattr(rng, "draw", None)
    if draw and math.prod(shape) >= MANY:
        return draw(shape, dtype, scale)
    x = scale * rng.standard_normal(shape, np.float32)
    if dtype == "bfloat16":
        import ml_dtypes

        return x.astype(ml_dtypes.bfloat16)
    return x.astype(dtype)


# ---- graphs ----


def random_graph(n: int, degree: int, rng: np.random.Generator) -> gg.Graph:
    return gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)


def power_law(nodes: int, degree: int, rng: np.random.Generator) -> gg.Graph:
    """Few nodes with very many edges; `degree` on average."""
    weight = np.arange(1, nodes + 1) ** -0.8
    dst = rng.choice(nodes, degree * nodes, p=weight / weight.sum())
    return gg.Graph.from_edges(rng.integers(0, nodes, degree * nodes), np.sort(dst), nodes, nodes)


def mesh(n: int, rng: np.random.Generator | None = None) -> gg.Graph:
    """Periodic triangle mesh of n nodes, a square: six neighbours a node."""
    side = round(n**0.5)
    i, j = np.divmod(np.arange(side * side), side)
    steps = [(0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1)]
    src = np.stack([(i + a) % side * side + (j + b) % side for a, b in steps], axis=1)
    return gg.Graph(6 * np.arange(side * side + 1), src.ravel())


GRAPHS = {
    # name: graph, nodes in full and in the small case, degree, words
    "": (
        lambda n, rng: random_graph(n, 20, rng),
        100_000,
        20_000,
        20,
        "100,000 nodes, 2,000,000 edges at random",
    ),
    "_mesh": (mesh, 1_000_000, 40_000, 6, "triangle mesh of 1000 x 1000"),
    "_hubs": (
        lambda n, rng: power_law(n, 20, rng),
        100_000,
        20_000,
        20,
        "100,000 nodes, 2,000,000 edges by a power law",
    ),
}


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

_NODES, _EDGES = 100_000, 2_000_000
_GRAPH = GRAPHS[""][-1]


def on_random_graph(
    name: str, make: Callable, what: str, forward: float, vjp: float, **more: Any
) -> None:
    """Add a case on 100,000 nodes with 20 edges each, counted with 20,000.

    `forward` and `vjp` are the numbers that the faces move at least.
    """

    def build(n: int, rng: np.random.Generator) -> Call:
        return make(random_graph(n, 20, rng), n, rng)

    size = more.pop("size", 4)
    useful = {"forward": size * forward, "vjp": size * vjp}
    more = {"small": 20_000, **more}
    add(name, build, f"{what}; {_GRAPH}", full=_NODES, useful=useful, **more)


def _relational(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    types = rng.integers(0, 8, g.n_edges).astype(np.int32)
    inputs = normal(rng, n, 64), None, normal(rng, 8, 4)
    return gg.agg_relational, inputs, {"graph": g, "edge_type": types, "n_relations": 8}


on_random_graph(
    "relational",
    _relational,
    "64 features, 8 relations, 4 bases",
    _EDGES * 65 + _NODES * 256,
    _EDGES * (256 + 64 + 1) + _NODES * (256 + 64),
    small=10_000,
)


def _updates(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    inputs = normal(rng, g.n_edges, 32), normal(rng, n, 64), normal(rng, n, 64)
    return gg.update_edges, inputs, {"graph": g}


on_random_graph(
    "edge_updates",
    _updates,
    "32, 64 and 64 features side by side",
    _EDGES * 320,
    _EDGES * 192 + _NODES * 128,
    small=10_000,
)


def _moments(g: gg.Graph, n: int, rng: np.random.Generator) -> Call:
    return gg.offset_moments, (normal(rng, n, 3), normal(rng, n, 3)), {"graph": g}


on_random_graph(
    "moments",
    _moments,
    "3 axes",
    _EDGES * 3 + _NODES * 14,
    2 * _EDGES * 3 + _EDGES * 11 + _NODES * 20,
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
        _EDGES * (_d + 2 * _heads) + _NODES * 2 * _d,
        _EDGES * (3 * _d + 4 * _heads) + _NODES * 4 * _d,
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
    _EDGES * 128 + _NODES * 256,
    _EDGES * 384 + _NODES * 512,
    small=10_000,
)
on_random_graph(
    "mha_simple",
    _mha_simple,
    "8 x 16",
    _EDGES * 256 + _NODES * 256,
    _EDGES * 512 + _NODES * 768,
    small=10_000,
)
on_random_graph("edge_softmax", _softmax, "8 heads", _EDGES * 16, _EDGES * 24, small=10_000)


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


# ---- sparse attention ----

TOKENS = 65536


def selection(tokens: int, heads: int, causal: bool, rng: np.random.Generator) -> Any:
    """16 blocks of 64, where it is causal the own one and earlier ones."""
    choose = getattr(rng, "choose", None)  # as in `normal`
    if choose and tokens * heads >= MANY // 64:
        return choose(tokens, heads, causal)
    return np.concatenate([_selection(tokens, causal, rng) for _ in range(heads)], axis=1)


def _selection(tokens: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    n = tokens // 64
    score = rng.random((tokens, 1, n), np.float32)
    if causal:
        own = np.arange(tokens)[:, None, None] // 64
        score = np.where(np.arange(n) > own, -1, np.where(np.arange(n) == own, 2, score))
    slots = min(16, n)
    chosen = np.argpartition(-score, slots - 1, axis=2)[..., :slots].astype(np.int32)
    return np.where(np.take_along_axis(score, chosen, 2) < 0, -1, chosen).astype(np.int32)


def visits(tokens: int, causal: bool = True) -> float:
    """Blocks that all queries select; the first blocks of a sequence have less to choose from."""
    if not causal:
        return tokens * 16.0
    own = np.arange(tokens // 64) + 1
    return 64.0 * np.minimum(own, 16).sum()


def selected(
    name: str,
    group: int,
    kv_heads: int,
    d_k: int,
    d_v: int,
    dtype: str,
    causal: bool,
    tokens: int,
    small: int,
    usual: bool = True,
) -> None:
    """`kv_heads` of `group` query heads each; the small case has one of them, on all tokens."""

    def make(n: int, rng: np.random.Generator) -> Call:
        heads = kv_heads if n == tokens else 1
        index = selection(n, heads, causal, rng)
        shapes = (group * heads, d_k), (heads, d_k), (heads, d_v)
        inputs = tuple(normal(rng, n, *shape, dtype=dtype) for shape in shapes)
        static = {"block_index": index, "block_size": 64, "causal": causal}
        return gg.selected_attention, inputs, static

    def heads_of(n: int) -> int:
        return kv_heads if n == tokens else 1

    pairs = visits(tokens, causal) * 64 * group * kv_heads
    if causal:  # without what is hidden of the own block
        pairs -= tokens * 63 / 2 * group * kv_heads
    words = f"{tokens // 1024}k tokens, {group * kv_heads} heads of {kv_heads}, {d_k}/{d_v}, "
    add(
        name,
        make,
        words + "16 blocks of 64" + ", causal" * causal + f", {dtype}",
        full=tokens,
        small=small,
        work=lambda n: heads_of(n) * visits(n, causal),
        arrays=lambda n: float(heads_of(n) * n),
        type="tf32" if dtype == "float32" else "bf16",
        usual=usual,
        useful={"forward": 2 * pairs * (d_k + d_v), "vjp": 2 * pairs * (3 * d_k + 2 * d_v)},
    )


selected("nsa", 16, 4, 128, 128, "bfloat16", True, TOKENS, 1024)
selected("nsa_f32", 16, 4, 128, 128, "float32", True, TOKENS, 512, usual=False)
selected("nsa_192", 16, 4, 192, 128, "bfloat16", True, TOKENS, 1024, usual=False)
selected("nsa_mha", 1, 16, 64, 64, "bfloat16", False, TOKENS, 2048)
selected("nsa_mha_f32", 1, 16, 64, 64, "float32", False, TOKENS, 2048, usual=False)
selected("nsa_points", 1, 8, 32, 32, "bfloat16", False, TOKENS, 2048)
selected("nsa_points_f32", 1, 8, 32, 32, "float32", False, TOKENS, 2048)


def _group(n: int) -> tuple[int, int]:
    """Heads of queries and of keys: in the small case those of one of four groups."""
    return (64, 4) if n == TOKENS else (16, 1)


def _offset(n: int) -> int:
    """First position of n queries in the middle, which see as many keys as the average one."""
    return (TOKENS - n) // 2


def _compressed(n: int, rng: np.random.Generator) -> Call:
    heads, kv_heads = _group(n)
    # no keys that nobody sees: the gradients to keys are in every small case, and once in the full
    keys = (_offset(n) + n) // 16 - 1
    inputs = (
        normal(rng, n, heads, 128, dtype="bfloat16"),
        *(normal(rng, keys, kv_heads, 128, dtype="bfloat16") for _ in range(2)),
    )
    static = {"block": 32, "stride": 16, "causal": True, "q_offset": _offset(n)}
    return gg.compressed_attention, inputs, static


def _select(n: int, rng: np.random.Generator, dtype: str = "bfloat16") -> Call:
    heads, kv_heads = _group(n)
    inputs = (
        normal(rng, n, heads, 128, dtype=dtype),
        normal(rng, TOKENS // 16 - 1, kv_heads, 128, dtype=dtype),
        np.full((n, heads), 8, np.float32),
    )
    static = {
        "block": 32,
        "stride": 16,
        "block_size": 64,
        "n_blocks": 16,
        "n_keys": TOKENS,
        "causal": True,
        "q_offset": _offset(n),
        "first_blocks": 1,
        "local_blocks": 2,
    }
    return gg.select_blocks, inputs, static


_pairs = TOKENS * (TOKENS / 16 - 1) / 2 * 64
_WORDS = "64k tokens, 64 heads of 4, 128"
add(
    "compressed",
    _compressed,
    _WORDS + "/128, blocks of 32 at every 16th, causal, bfloat16",
    full=TOKENS,
    small=256,
    work=lambda n: float(n * _group(n)[1]),
    useful={"forward": 512 * _pairs, "vjp": 1280 * _pairs},
    type="bf16",
)
for _name, _dtype, _type in (
    ("select_blocks", "bfloat16", "bf16"),
    ("select_blocks_f32", "float32", "tf32"),
):
    add(
        _name,
        partial(_select, dtype=_dtype),
        f"{_WORDS}, 16 blocks of 64 by the compressed keys, causal, {_dtype}",
        full=TOKENS,
        small=64,
        work=lambda n: float(n * _group(n)[1]),
        # 16 rows of queries, and all compressed keys
        arrays=lambda n: float((16 * n + TOKENS // 16) * _group(n)[1]),
        useful={"forward": 256 * _pairs},
        type=_type,
        faces=("forward",),
        usual=_type == "bf16",
    )


def _window(n: int, rng: np.random.Generator) -> Call:
    heads, kv_heads = _group(n)
    before = 0 if n == TOKENS else 512
    inputs = (
        normal(rng, n, heads, 128, dtype="bfloat16"),
        *(normal(rng, n + before, kv_heads, 128, dtype="bfloat16") for _ in range(2)),
    )
    return gg.window_attention, inputs, {"window": 512, "causal": True, "q_offset": before}


_pairs = TOKENS * 512.0 * 64
add(
    "window",
    _window,
    _WORDS + "/128, window 512, causal, bfloat16",
    full=TOKENS,
    small=256,
    work=lambda n: float(n * _group(n)[1]),
    type="bf16",
    useful={"forward": 512 * _pairs, "vjp": 1280 * _pairs},
)


def _compress(n: int, rng: np.random.Generator) -> Call:
    _, heads = _group(n)
    inputs = normal(rng, n, heads, 128, dtype="bfloat16"), normal(rng, 32, heads, dtype="bfloat16")
    return gg.compress, inputs, {"block": 32, "stride": 16}


add(
    "compress",
    _compress,
    "64k tokens, 4 heads, 128, blocks of 32 at every 16th, bfloat16",
    full=TOKENS,
    small=4096,
    work=lambda n: float(n * _group(n)[1]),
    useful={"forward": 2.0 * TOKENS * 512 * 17 / 16, "vjp": 2.0 * TOKENS * 512 * 33 / 16},
)


# ---- neighbours ----


def _points(n: int, rng: np.random.Generator, d: int = 3) -> np.ndarray:
    return rng.random((n, d), np.float32)


def _radius(n: int, d: int = 3, degree: int = 20) -> float:
    return float((degree / (n * (np.pi if d == 2 else 4 / 3 * np.pi))) ** (1 / d))


_SEARCH = {"full": 200_000, "small": 20_000, "faces": ("search",)}
add(
    "neighbors",
    lambda n, rng: (gg.neighbors, (_points(n, rng),), {"radius": _radius(n)}),
    "200,000 points in 3-D, 20 neighbours",
    **_SEARCH,
)
add(
    "neighbors_2d",
    lambda n, rng: (gg.neighbors, (_points(n, rng, 2),), {"radius": _radius(n, 2)}),
    "200,000 points in 2-D, 20 neighbours",
    **_SEARCH,
)
add(
    "neighbors_nearest",
    lambda n, rng: (gg.neighbors, (_points(n, rng),), {"radius": _radius(n), "max_neighbors": 8}),
    "200,000 points in 3-D, the nearest 8 of 20",
    **_SEARCH,
)
add(
    "knn",
    lambda n, rng: (gg.knn, (_points(n, rng),), {"k": 16}),
    "200,000 points in 3-D, 16 nearest",
    **_SEARCH,
)
add(
    "neighbor_list",
    lambda n, rng: (
        gg.neighbor_list,
        (_points(n, rng),),
        {"radius": _radius(n, degree=40), "cell": np.eye(3).tolist()},
    ),
    "200,000 points in a periodic cell, 40 neighbours",
    **_SEARCH,
)

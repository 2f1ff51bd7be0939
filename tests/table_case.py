# SPDX-License-Identifier: MIT
"""A case of an operator: static arguments, sizes, inputs, and its oracle.

Inputs are made for the shapes that an operator declares; `DRAWN` has those that are not normally
distributed. The oracle of operator X of family F is `reference.F.X`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import gnograd as gg
from conftest import Edges
from gnograd.notation import shapes
from reference.nsa import sequences

SEEN = {
    "gno_deep": {"y": "d_y", "x": "d_x", "c": "d_c"},
    "edge_mlp": {"e": "F_e", "x_src": "F_s", "x_dst": "F_d"},
}
"""Inputs of networks on edges, and the names of their widths."""
SIZES = {
    "C": 2, "Ce": 1, "D": 2, "De": 2, "Do": 2, "Ds": 3, "Dd": 2, "n_bases": 3, "d": 2, "H": 5,
    "F_in": 3, "F_out": 4, "n_functions": 1, "d_y": 2, "d_x": 1, "d_c": 2, "F_e": 2, "F_s": 3,
    "F_d": 1, "n_mid": 3, "n_emb": 5, "n_radial": 2, "Tq": 7, "Tk": 11, "Hq": 4, "Hk": 2, "Dk": 3,
    "Dv": 2, "Tt": 7, "n": 2, "T": 20,
}  # fmt: skip
"""Sizes by their names, where a case has no others."""


@dataclass(frozen=True, eq=False)
class Case:
    """An operator in one of its forms."""

    name: str
    static: dict[str, Any] = field(default_factory=dict)
    """Static arguments; functions get the case and the edges."""
    absent: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    many: bool = False
    """One of many of a kind, on which what takes long is exhaustive."""
    large: bool = False
    """Too large for derivatives entry by entry."""
    front: bool = False
    """The case of the operator on which all fronts are tested in all ways."""

    def __str__(self) -> str:
        words = [self.name]
        words += [str(v) for v in self.static.values() if not callable(v) and np.ndim(v) < 1]
        words += [f"{k}{v}" for k, v in self.sizes.items()]
        words += ["".join(map(str, v)) for v in self.static.values() if isinstance(v, list)]
        words += ["packed"] * ("cu_k" in self.static or "cu" in self.static)
        return f"{self.family}:" + "-".join(words + [f"no_{name}" for name in self.absent])

    @property
    def operator(self) -> gg.Operator:
        return getattr(gg, self.name)

    @property
    def family(self) -> str:
        return family_of(self.operator)

    @property
    def on_graph(self) -> bool:
        return "graph" in self.operator.static

    @property
    def is_bilinear(self) -> bool:
        """True if the declaration says so of these static arguments."""
        name, _, values = self.operator.declaration.bilinear.partition("=")
        given = self.operator.static | self.static
        return name == "always" or (name != "" and str(given[name]) in values.split("|"))

    def fit(self, edges):
        """The edges, between as many sources as destinations where edges follow one another."""
        if self.operator.hops == 1 or edges.n_src == edges.n_dst:
            return edges
        n = max(edges.n_src, edges.n_dst)
        return Edges(edges.src, edges.dst, n, n)

    def change(self, **given: Any) -> "Case":
        """The case with other static arguments and sizes."""
        static, sizes = split(self.operator, given)
        return replace(self, static=self.static | static, sizes=self.sizes | sizes)

    def arguments(self, edges: Edges | None = None) -> dict[str, Any]:
        """Static arguments, with the graph if there is one."""
        static = {k: v(self, edges) if callable(v) else v for k, v in self.static.items()}
        return static | ({"graph": self.fit(edges).graph} if self.on_graph else {})

    def inputs(self, edges: Edges | None, rng: np.random.Generator, dtype=np.float64) -> tuple:
        """Inputs in the shapes that the operator declares."""
        static = self.arguments(edges)
        signature, sizes = self.operator.signature(**static), {"*": (), **SIZES, **self.sizes}
        if self.on_graph:
            edges = self.fit(edges)
            sizes |= {"n_src": edges.n_src, "n_dst": edges.n_dst, "n_edges": edges.n_edges}
        else:
            sizes.setdefault("n_edges", 18)
        sizes |= {k: v for k, v in self.operator.complete(static).items() if type(v) is int}
        sizes |= signature.sizes
        seen = SEEN.get(self.name, {})
        told = {label: spec for label, spec in signature.inputs.items() if label not in self.absent}
        if signature.inputs.get("e", "").endswith("F_out"):
            sizes["F_e"] = sizes["F_out"]
        sizes["n_in"] = sum(sizes[word] for label, word in seen.items() if label in told)
        if "e" in self.absent:
            sizes["Ce"] = 0
        found = []
        for label in self.operator.inputs:
            if label not in told:
                found.append(None)
                continue
            drawn = DRAWN.get((self.name, label)) or DRAWN.get(label) or normal
            shape = shapes.shape_of(told[label], sizes)
            found.append(drawn(rng, shape, self, edges, sizes).astype(dtype))
        return tuple(found)

    def tangents(self, inputs: tuple, edges: Edges | None, rng: np.random.Generator) -> tuple:
        """Changes of inputs that leave reverse edges what they are."""
        return tuple(
            None if x is None
            else (directions if label == "vector" else normal)(
                rng, x.shape, self, self.fit(edges)
            ).astype(x.dtype)
            for label, x in zip(self.operator.inputs, inputs, strict=True)
        )  # fmt: skip

    def oracle(self, static: dict[str, Any]) -> Callable[..., Any]:
        """The oracle with static arguments, as a function of the inputs."""
        return oracle(self.name, static)

    def reference(self, edges: Edges | None) -> Callable[..., Any]:
        """The oracle as a function of the inputs, with as many outputs as the operator."""
        edges = self.fit(edges) if self.on_graph else edges
        n, formula = self.operator.n_outputs, oracle(self.name, self.arguments(edges), edges)

        def outputs(*inputs):
            found = formula(*inputs)
            found = found[:n] if isinstance(found, tuple) else (found,)
            return found if len(found) > 1 else found[0]

        return outputs


def family_of(operator: gg.Function) -> str:
    return operator.__wrapped__.__module__.rpartition(".")[2]


def oracle(name: str, static: dict[str, Any], edges: Edges | None = None) -> Callable[..., Any]:
    """`reference.FAMILY.NAME` with static arguments, and the edges of a graph."""
    operator = getattr(gg, name)
    left_out = {"graph", "kernel", "n_compressed"}  # shapes tell the last two
    given = {k: v for k, v in static.items() if k not in left_out}
    if "graph" in operator.static and edges is not None:
        given |= {"src": edges.src, "dst": edges.dst}
        given |= {"n_dst": edges.n_dst} if operator.hops == 1 else {}
    return partial(getattr(import_module(f"reference.{family_of(operator)}"), name), **given)


def split(operator: gg.Function, given: dict[str, Any]) -> tuple[dict, dict]:
    """Static arguments, and sizes."""
    static = {k: v for k, v in given.items() if k in operator.static}
    return static, {k: v for k, v in given.items() if k not in static}


def case(name: str, absent: str = "", /, **given: Any) -> Case:
    """A case of static arguments, sizes, and fields of `Case`, each by its name."""
    fields = {k: given.pop(k) for k in ("many", "large", "front") if k in given}
    static, sizes = split(getattr(gg, name), given)
    return Case(name, static, tuple(absent.split()), sizes, **fields)


def normal(rng, shape, *_):
    return rng.normal(size=shape)


def mixed_weights(rng, shape, *_):
    """Weights of both signs, but no mean whose weights add up to nearly nothing."""
    return rng.choice([1.0, 1.5, 2.0, -0.25], shape) + 0.1 * rng.random(shape)


def layers(rng, shape, case, _, sizes):
    """Packed layers whose outputs are neither small nor large."""
    widths, n_in, found = case.static["widths"], sizes["n_in"], []
    if case.family == "gno_jets":
        n_in = sizes["d"] * (2 if case.static.get("geometry") == "pair" else 1)
    for before, width in zip([n_in, *widths[:-1]], widths, strict=True):
        found += [rng.normal(size=before * width) / np.sqrt(before), rng.normal(size=width)]
    if case.name == "edge_mlp":
        # no edge's variance is near zero: differences and float32 would have nothing to tell
        found[-1] = found[-1] + np.linspace(-4, 4, widths[-1])
    packed = np.concatenate(found)
    return np.concatenate([packed, rng.normal(size=shape[0] - len(packed))])


def directions(rng, shape, case, edges, *_):
    """Vectors; an edge and another one back between the same nodes have opposite ones."""
    vector = rng.normal(size=shape)
    for e in range(edges.n_edges):
        for f in range(e):
            if (edges.src[e], edges.dst[e]) == (edges.dst[f], edges.src[f]):
                vector[e] = -vector[f]
    return vector


DRAWN: dict[Any, Callable[..., np.ndarray]] = {
    "w": mixed_weights,
    ("agg_relational", "w"): lambda rng, shape, *_: 0.5 + rng.random(shape),
    ("edge_mlp", "edge_weight"): lambda rng, shape, *_: rng.normal(size=shape) + 2,
    ("edge_mlp", "weights"): layers,
    "layers": layers,
    "slot_gate": lambda rng, shape, *_: rng.uniform(0.3, 1, shape),
    "temperature": lambda rng, shape, *_: rng.uniform(0.5, 1.5, shape),
    "vector": directions,
    ("radial_basis", "x"): lambda rng, shape, *_: rng.uniform(0.1, 0.99, shape),
    ("radial_basis", "w"): lambda rng, shape, *_: np.pi * np.arange(1.0, shape[0] + 1),
    ("compress", "w"): normal,
}


def edge_types(case, edges):
    """Relations in no order, the last of which no edge has."""
    n = case.static["n_relations"]
    rng = np.random.default_rng(edges.n_edges)
    return rng.integers(0, max(n - 1, 1), edges.n_edges, np.int32)


def selection(case, _):
    """Blocks that every sequence has, or none."""
    sizes, static = {**SIZES, **case.sizes}, case.static
    bounds = sequences(static.get("cu_q"), sizes["Tq"])
    n_blocks = [
        -(-(end - first) // static["block_size"])
        for first, end in sequences(static.get("cu_k"), sizes["Tk"])
    ]
    rng, rows = np.random.default_rng(3), []
    for t in range(0, sizes["Tq"], static.get("query_block", 1)):
        (s,) = (s for s, (first, end) in enumerate(bounds) if first <= t < end)
        rows.append(rng.integers(-1, n_blocks[s], (sizes["Hk"], sizes["n"])))
    return np.array(rows, np.int32).reshape(-1, sizes["Hk"], sizes["n"])


def int64(*numbers):
    return np.array(numbers, np.int64)

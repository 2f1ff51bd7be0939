# SPDX-License-Identifier: MIT
"""One call of every operator, for the fronts that are generic over operators."""

import numpy as np

import gnograd as gg
from conftest import Edges
from table import FRONT

SRC, DST = [0, 1, 3, 3, 2, 2, 4, 0], [1, 1, 0, 2, 2, 4, 4, 4]  # node 3 has no incoming edge
EDGES = Edges(np.array(SRC[::-1]), np.array(DST[::-1]), 5, 5)


def graph():
    return EDGES.graph


def normal(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def gno_inputs(weighted=True):
    shapes = (5, 3), (8, 2), (2, 4), (4,), (4, 3, 2), (3, 2), (8,)
    return normal(*shapes[: 7 if weighted else 6])


def jets_inputs():
    layers, weights = (2 * 4 + 4 + 4 * 3 + 3,), (8, 3)
    return normal((5, 3), (5, 2), (5, 2), layers, (3, 3, 2), (3, 2), (8,), weights)


def calls():
    """Inputs in float64 and static arguments but the graph, by the name of the operator."""
    found = {}
    for name, case in FRONT.items():
        static = case.arguments(EDGES)
        static.pop("graph", None)
        inputs = case.inputs(EDGES, np.random.default_rng(0))
        found[name] = [x for x in inputs if x is not None], static
    return found


FUNCTIONS = {name for name in gg.__all__ if isinstance(getattr(gg, name), gg.Function)}
"""Names of all operators, and of functions without derivatives."""
FORMS = [
    "gno",
    "gno_with_laplacian",
    "agg_simple",
    "agg_relational",
    "mha_gat_v2",
    "radial_basis",
    "selected_attention",
]
"""One operator of every form that an adapter sees: several outputs, static arrays, no graph, ..."""


def call_of(name, graph):
    """Inputs and static arguments of one operator."""
    inputs, static = calls()[name]
    if "graph" in getattr(gg, name).static:
        static = static | {"graph": graph}
    return inputs, static


SELECTED = calls()["selected_attention"][1]["block_index"]

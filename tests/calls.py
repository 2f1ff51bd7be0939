# SPDX-License-Identifier: MIT
"""One call of every operator, for the fronts that are generic over operators."""

import numpy as np

import gnograd as gg

SRC, DST = [0, 1, 3, 3, 2, 2, 4, 0], [1, 1, 0, 2, 2, 4, 4, 4]  # node 3 has no incoming edge

# blocks of two sequences, with 4 and 3 keys
SELECTED = np.array([[[0, 1]], [[1, -1]], [[1, 0]], [[1, 1]], [[0, -1]], [[0, 1]]], np.int32)
RELATIONS = np.array([0, 1, 1, 0, 0, 1, 0, 1], np.int32)
OFFSETS = np.array([[0, 3, 6], [0, 4, 7]])


def graph():
    return gg.Graph.from_edges(SRC[::-1], DST[::-1], 5, 5)


def normal(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def positive(*shapes):
    return [np.exp(0.3 * x) for x in normal(*shapes, seed=1)]


def gno_inputs(weighted=True):
    shapes = (5, 3), (8, 2), (2, 4), (4,), (4, 3, 2), (3, 2), (8,)
    return normal(*shapes[: 7 if weighted else 6])


def basis_inputs():
    x, w = normal((8, 1), (2,))
    return [1 / (1 + np.exp(-x)), w]


def jets_inputs():
    layers, weights = (2 * 4 + 4 + 4 * 3 + 3,), (8, 3)
    return normal((5, 3), (5, 2), (5, 2), layers, (3, 3, 2), (3, 2), (8,), weights)


def calls():
    """Inputs in float64 and static arguments but the graph, by the name of the operator.

    Activations are smooth, for central differences of gradients.
    """
    h, hid = (5, 3), (8, 4)
    gat = dict(num_heads=2, activation="Tanh")
    dropped = dict(dropout=0.4, seed=np.array([7]))
    return {
        "gno": (gno_inputs(), dict(activation="gelu", reduction="mean")),
        "gno_contract": (normal(h, hid, (4, 3, 2), (3, 2)), dict(reduction="mean")),
        "gno_aggregate": (normal(h, (8, 3, 2)), {}),
        "gno_kernel": (gno_inputs()[1:6], dict(activation="tanh")),
        "gno_with_laplacian": (
            jets_inputs(),
            dict(widths=[4, 3], activation="tanh", reduction="mean"),
        ),
        "gno_with_gradient": (jets_inputs()[:6], dict(widths=[4, 3], activation="silu")),
        "gno_with_hessian": (jets_inputs()[:6], dict(widths=[4, 3], activation="sin")),
        "gno_deep": (
            normal((5, 6), (5, 2), (5, 1), (8, 1), (5 * 4 + 5 * 3,), (8,)),
            dict(widths=[4, 3], activation="tanh", reduction="mean"),
        ),
        "edge_mlp": (
            normal((8, 3), (5, 2), (5, 1), (7 * 4 + 5 * 3 + 2 * 3,), (8,)),
            dict(widths=[4, 3], activation="tanh", reduction="mean"),
        ),
        "agg_weighted": (normal(h, (8,)), dict(aggregation="mean")),
        "agg_concat": (normal(h, (8,), (8, 2), (5, 2)), dict(aggregation="mean")),
        "agg_relational": (
            normal(h, (8,), (2, 3), (5, 2)),
            dict(edge_type=RELATIONS, n_relations=2, aggregation="mean"),
        ),
        "update_edges": (normal((8, 2), h, (5, 1)), {}),
        "agg_simple": (normal(h, (8, 2)), dict(aggregation="max")),
        "mha_gat": (normal((5, 6), (5, 6), (16,), (8, 4)), gat),
        "mha_gat_v2": (normal((5, 6), (5, 6), (6,), (8, 6)), gat | dropped),
        "mha_simple": (normal((5, 6), (5, 6), (5, 6), (8, 6)), dict(num_heads=2) | dropped),
        "edge_softmax": (normal((8, 2)), {}),
        "offset_moments": (normal((5, 2), (5, 2)), {}),
        "radial_basis": (basis_inputs(), dict(n_spherical=3)),
        "agg_edge_to_edge": (
            normal((8, 3), (8, 6), (8, 4), (10, 2)),
            dict(n_spherical=3, n_radial=2),
        ),
        "attention": (
            (*normal((6, 2, 3), (7, 1, 3), (7, 1, 2), (7, 1)), *positive((6, 2))),
            dict(cu_q=OFFSETS[0], cu_k=OFFSETS[1]),
        ),
        "attention_pool": (
            (*normal((6, 2, 3), (7, 1, 3), (6, 2, 2), (7, 1)), *positive((1, 2))),
            dict(scale=0.7),
        ),
        "selected_attention": (
            normal((6, 2, 3), (7, 1, 3), (7, 1, 2)),
            dict(block_index=SELECTED, block_size=2, cu_q=OFFSETS[0], cu_k=OFFSETS[1]),
        ),
        "compress": (
            normal((7, 2, 3), (2, 2)),
            dict(block=2, stride=1, cu=OFFSETS[1], n_compressed=5),
        ),
        "compressed_attention": (normal((5, 2, 3), (4, 1, 3), (4, 1, 2)), dict(block=2, stride=1)),
        "window_attention": (normal(*[(6, 2, 3)] * 3), dict(window=3, causal=True)),
    }


FUNCTIONS = {name for name in gg.__all__ if isinstance(getattr(gg, name), gg.Function)}
"""Names of all operators, and of functions without derivatives."""
_WITHOUT = {n for n in FUNCTIONS if isinstance(getattr(gg, n), gg.Operator)} ^ set(calls())
assert not _WITHOUT, f"neither an operator nor its call may be missing here: {sorted(_WITHOUT)}"


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

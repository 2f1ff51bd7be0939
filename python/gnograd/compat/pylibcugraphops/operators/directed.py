# SPDX-License-Identifier: MIT
"""Directed message passing: sums over the edges that end at an edge's source, except its reverse.

The documentation of 24.12 gives names and arguments of these functions, not their formula, which is
that of the networks they are named after [1]_: for an edge ``e = (v -> w)``::

    out[e] = sum over the edges d = (u -> v), but the reverse edge of e, of x[d]

With `concat_own`, the edge's own features follow, as in the other ``concat`` functions.

References
----------
.. [1] Yang et al., Analyzing Learned Molecular Representations for Property Prediction,
   Journal of Chemical Information and Modeling 59, 2019, equation 3.
"""

from __future__ import annotations

import numpy as np

from gnograd.compat.arrays import on_host
from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.compat.pylibcugraphops.operators.kinds import AggOp
from gnograd.faces.operator import Array
from gnograd.graphs.graph import Graph
from gnograd.notation.static import boolean

__all__ = ["agg_dmpnn_e2e_bwd", "agg_dmpnn_e2e_fwd"]


def _edges_to_edges(call: Call) -> Graph:
    """Graph with the edges as nodes, from every edge to the edges that sum it.

    It is made anew in every call, with an edge for every such pair of edges that meet in a node.
    """
    graph: Graph = call.get("graph").graph
    n_edges = graph.n_edges
    reverse = on_host(call.name, "rev_edge_ids", call.get("rev_edge_ids"))
    if reverse.shape != (n_edges,) or reverse.dtype.kind not in "iu":
        raise ValueError(
            f"{call.name}: rev_edge_ids is {reverse.dtype} of shape {reverse.shape}, "
            f"needs integers of shape ({n_edges},)"
        )
    if reverse.size and (reverse.min() < 0 or reverse.max() >= n_edges):
        raise IndexError(f"{call.name}: rev_edge_ids names an edge that is not one of {n_edges}")
    src, dst = graph.src, graph.dst
    if not (np.array_equal(src[reverse], dst) and np.array_equal(dst[reverse], src)):
        raise ValueError(f"{call.name}: rev_edge_ids names an edge that does not lead back")
    counts = np.diff(graph.offsets)[src]
    hearers = np.repeat(np.arange(n_edges), counts)
    # number k of the edge at the node, from 0, for each destination
    k = np.arange(len(hearers)) - np.repeat(np.cumsum(counts) - counts, counts)
    heard = graph.offsets[src[hearers]] + k
    if graph.edge_ids is not None:
        heard = graph.edge_ids[heard]
    others = heard != reverse[hearers]
    return Graph.from_edges(heard[others], hearers[others], n_edges, n_edges)


def _sizes(call: Call, label: str) -> tuple[int, int]:
    D = call.sizes["D"]
    return D, D if boolean(f"{call.name}: {label}", call.get(label)) else 0


def _forward(call: Call) -> None:
    x = call.read("input_edge_embedding", "n_edges D")
    D, Do = _sizes(call, "concat_own")
    out = call.write("output_edge_embedding", "n_edges 2*D" if Do else "n_edges D", needed=True)
    call.compute(
        "agg_concat", "forward", _edges_to_edges(call), D, 0, Do, AggOp.Sum,
        x, None, None, x if Do else None, out, None, None,
    )  # fmt: skip
    call.store()


def _backward(call: Call) -> None:
    grad_x = call.write("grad_input_edge_embedding", "n_edges D", needed=True)
    D, Do = _sizes(call, "concat_own")
    cotangent = call.read("grad_output_edge_embedding", "n_edges 2*D" if Do else "n_edges D")
    call.compute(
        "agg_concat", "vjp", _edges_to_edges(call), D, 0, Do, AggOp.Sum,
        cotangent, None, None, None, None, None, None, None,
        grad_x, None, None, grad_x if Do else None,
    )  # fmt: skip
    call.store()


@function(_forward)
def agg_dmpnn_e2e_fwd(
    output_edge_embedding: Array,
    input_edge_embedding: Array,
    graph: Csc,
    rev_edge_ids: Array,
    concat_own: bool = False,
    stream_id: int = 0,
) -> None:
    """Aggregate features of the preceding edges, ``[edges]`` or ``[edges | own]``.

    `rev_edge_ids` is an array of integers, (n_edges,): the row of the edge that leads back.
    """


@function(_backward)
def agg_dmpnn_e2e_bwd(
    grad_input_edge_embedding: Array,
    grad_output_edge_embedding: Array,
    graph: Csc,
    rev_edge_ids: Array,
    concat_own: bool = False,
    stream_id: int = 0,
) -> None:
    """Gradient of `agg_dmpnn_e2e_fwd`."""

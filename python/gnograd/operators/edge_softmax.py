# SPDX-License-Identifier: MIT
"""Softmax of scores over the incoming edges of every destination."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array

__all__ = ["edge_softmax"]


@operator(
    inputs={"s": "n_edges num_heads"},
    outputs={"out": "n_edges num_heads"},
    arguments="graph num_heads",
    saved={"out": "n_edges num_heads"},
    unread={"cuda": "out"},
)
def edge_softmax(s: Array, *, graph: GraphLike) -> Array:
    """Softmax over the edges of every destination.

    ``out[e, h]`` is ``exp(s[e, h])`` divided by the sum of that over all edges with the destination
    of e, for every head h by itself. With it as its ``edge_weight``, `gno` or `gno_deep` is an
    attention over neighbours with a kernel network for values [1]_.

    Parameters
    ----------
    s : array, (n_edges, H)
        Scores; -inf is an edge without weight.
    graph : Graph

    Returns
    -------
    out : array, (n_edges, H)
        0 where all scores of a destination are -inf, and in rows that belong to no edge.

    See Also
    --------
    mha_gat, mha_gat_v2, mha_simple : attention with scores and values from features.

    Notes
    -----
    Cost: an exponential and some five operations a score; scores are read and weights written once
    in each face.

    The largest score of a destination is taken from all of them first, so that no exponential
    overflows. Sums are in float64. No temporary memory on the CPU; on a GPU three numbers a
    destination and head, six with tangents. The edges of a destination are one thread's on the CPU.

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[0, 0, 1])
    >>> s = np.array([[0.0], [np.log(3.0)], [7.0]])
    >>> gg.edge_softmax(s, graph=graph)
    array([[0.25],
           [0.75],
           [1.  ]])
    """

# SPDX-License-Identifier: MIT
"""New features of edges from their own and those of the nodes at both ends."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array

__all__ = ["update_edges"]

MODES = {"concat": 0, "sum": 1}


@operator(
    inputs={
        "e": "n_edges De or None",
        "x_src": "n_src Ds or None",
        "x_dst": "n_dst Dd or None",
    },
    outputs={"out": "n_edges De+Ds+Dd"},
    arguments="graph De Ds Dd mode",
    when={"mode=sum": {"Ds": "De", "Dd": "De", "out": "n_edges De"}},
    choices={"mode": MODES},
)
def update_edges(
    e: Array | None,
    x_src: Array | None = None,
    x_dst: Array | None = None,
    *,
    graph: GraphLike,
    mode: str = "concat",
) -> Array:
    """Features of edges and of the nodes at both ends, side by side or added up.

    For every edge ``p = (j -> i)``::

        out[p] = [e[p] | x_src[j] | x_dst[i]]     mode="concat"
        out[p] = e[p] + x_src[j] + x_dst[i]       mode="sum"

    each part there if its input is.

    Parameters
    ----------
    e : array, (n_edges, De), or None
        Features of the edges.
    x_src : array, (n_src, Ds), optional
        Features of the sources.
    x_dst : array, (n_dst, Dd), optional
        Features of the destinations; for one set of nodes the same array twice, and the gradients
        add up. At least one of the three is needed.
    graph : Graph
    mode : {"concat", "sum"}
        A sum needs as many features of all that are given.

    Returns
    -------
    out : array, (n_edges, De + Ds + Dd) or (n_edges, De)
        In the order of `e`; 0 in rows that belong to no edge.

    See Also
    --------
    agg_simple : the way back, from edges to nodes.

    Notes
    -----
    Cost: at most two additions a number of the result, which is written once; time is that of
    reading and writing.

    Gradients to nodes are sums over their edges, in the order of the graph. The first layer of a
    network on the parts side by side is cheaper as the sum of three products, of which those of
    nodes are made once a node: ``update_edges(e @ W_e, x_src @ W_s, x_dst @ W_d, mode="sum")``.

    Temporary memory is that of `agg_weighted`. The second derivative is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x, e = np.array([[1.0, 2.0], [3.0, -4.0]]), np.array([[7.0, 0.0], [5.0, 0.0]])
    >>> gg.update_edges(e, x, x, graph=graph, mode="sum")
    array([[ 9.,  4.],
           [ 9., -2.]])
    >>> gg.update_edges(None, x, x, graph=graph)
    array([[ 1.,  2.,  1.,  2.],
           [ 3., -4.,  1.,  2.]])
    """

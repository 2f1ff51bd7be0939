# SPDX-License-Identifier: MIT
"""Weighted and simple aggregation of the features of neighbours."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array

__all__ = ["agg_concat", "agg_simple", "agg_weighted"]

AGGREGATIONS = {"sum": 0, "mean": 1, "min": 2, "max": 3}


_SAVED = {
    "aggregation=sum|mean": {"location": "None"},
    "aggregation=sum|min|max": {"degree": "None"},
}
_UNREAD = {"cuda": "out degree", "aggregation=sum|min|max": "out"}
"""A GPU computes both again, since saved 16-bit numbers would cost accuracy."""


@operator(
    inputs={"x": "n_src D", "w": "n_edges"},
    outputs={"out": "n_dst D"},
    arguments="graph D aggregation",
    saved={"out": "n_dst D", "location": "int64 n_dst D", "degree": "real n_dst"},
    optional_in_c=("x", "w"),
    bilinear="aggregation=sum",
    unread=_UNREAD,
    when=_SAVED,
    choices={"aggregation": AGGREGATIONS},
)
def agg_weighted(x: Array, w: Array, *, graph: GraphLike, aggregation: str = "sum") -> Array:
    """Aggregation of neighbours with a weight an edge.

    ``out[i]`` is the sum, mean, minimum or maximum of ``w[e] * x[j]`` over the edges
    ``e = (j -> i)``, feature by feature, and 0 where there are none. The mean divides by the sum
    of the weights. For minimum and maximum the lowest position wins a tie, and gets the gradient.

    Parameters
    ----------
    x : array, (n_src, D)
        Features of the sources.
    w : array, (n_edges,)
        Weight of every edge.
    graph : Graph
    aggregation : {"sum", "mean", "min", "max"}

    Returns
    -------
    out : array, (n_dst, D)

    See Also
    --------
    agg_simple : without weights, and for edge features.

    Notes
    -----
    Cost: ``2 n_edges D`` operations forward, ``4 n_edges D`` in `vjp`. A row of D numbers is read
    for every edge, once in each, which is what takes the time.

    Peak temporary memory, in numbers: ``2 D + 2`` a thread and a piece of a row that is shared
    among threads (at most ``1024 + n_edges / 4096`` pieces), and D positions of 8 bytes each;
    derivatives of the mean take up to 3 a destination, those of minimum and maximum ``n_dst * D``
    positions, unless the forward face saves them.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x, w = np.array([[1.0, 2.0], [3.0, -4.0]]), np.array([1.0, 3.0])
    >>> gg.agg_weighted(x, w, graph=graph, aggregation="mean")
    array([[ 2.5, -2.5],
           [ 0. ,  0. ]])
    >>> gg.agg_weighted.vjp(np.ones((2, 2)), (x, w), graph=graph)[1]
    array([ 3., -1.])
    """


@operator(
    inputs={"x": "n_src D or None", "e": "n_edges De or None"},
    outputs={"out": "n_dst D+De"},
    arguments="graph D De aggregation",
    saved={"location": "int64 n_dst D+De"},
    when=_SAVED,
    choices={"aggregation": AGGREGATIONS},
)
def agg_simple(
    x: Array | None, e: Array | None = None, *, graph: GraphLike, aggregation: str = "sum"
) -> Array:
    """Aggregation of neighbours, of edges, or of both side by side.

    ``out[i]`` is the sum, mean, minimum or maximum of ``[x[j] | e[p]]`` over the edges
    ``p = (j -> i)``, feature by feature, and 0 where there are none. The mean divides by the
    number of edges. For minimum and maximum the lowest position wins a tie, and gets the
    gradient.

    Parameters
    ----------
    x : array, (n_src, D), or None
        Features of the sources.
    e : array, (n_edges, De), optional
        Features of the edges.
    graph : Graph
    aggregation : {"sum", "mean", "min", "max"}

    Returns
    -------
    out : array, (n_dst, D + De)

    See Also
    --------
    agg_weighted : with a weight an edge.
    agg_concat : with the destination's own features behind.

    Notes
    -----
    Cost: ``n_edges (D + De)`` operations, and as many numbers read, in each face.

    Temporary memory is that of `agg_weighted`. The second derivative is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x, e = np.array([[1.0, 2.0], [3.0, -4.0]]), np.array([[7.0], [5.0]])
    >>> gg.agg_simple(x, e, graph=graph, aggregation="max")
    array([[3., 2., 7.],
           [0., 0., 0.]])
    """


@operator(
    inputs={
        "x": "n_src D or None",
        "w": "n_edges or None",
        "e": "n_edges De or None",
        "own": "n_dst Do or None",
    },
    outputs={"out": "n_dst D+De+Do"},
    arguments="graph D De Do aggregation",
    saved={"out": "n_dst D+De+Do", "location": "int64 n_dst D+De", "degree": "real n_dst"},
    unread=_UNREAD,
    when=_SAVED,
    shared_gradient=("x", "own"),
    choices={"aggregation": AGGREGATIONS},
)
def agg_concat(
    x: Array | None,
    w: Array | None = None,
    e: Array | None = None,
    own: Array | None = None,
    *,
    graph: GraphLike,
    aggregation: str = "sum",
) -> Array:
    """Aggregation of neighbours and edges, and the destination's own features behind.

    ``out[i] = [aggregate of w[p] * x[j] | aggregate of e[p] | own[i]]`` over the edges
    ``p = (j -> i)``: `agg_weighted` and `agg_simple` in one, each block there if its input is.

    Parameters
    ----------
    x : array, (n_src, D), or None
        Features of the sources.
    w : array, (n_edges,), optional
        Weight of every edge, for the features of the sources; 1 when left out.
    e : array, (n_edges, De), optional
        Features of the edges.
    own : array, (n_dst, Do), optional
        Features of the destinations.
    graph : Graph
    aggregation : {"sum", "mean", "min", "max"}
        The mean of ``w[p] * x[j]`` divides by the sum of the weights, the mean of ``e[p]`` by the
        number of edges.

    Returns
    -------
    out : array, (n_dst, D + De + Do)

    Notes
    -----
    Cost: that of `agg_weighted` and `agg_simple` together.

    Temporary memory is that of `agg_weighted`. Where `own` is `x`, ``out`` of `vjp` and `hvp` may
    name one array for the gradients of both, and gets their sum.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x = np.array([[1.0, 2.0], [3.0, -4.0]])
    >>> gg.agg_concat(x, own=x, graph=graph)
    array([[ 4., -2.,  1.,  2.],
           [ 0.,  0.,  3., -4.]])
    """

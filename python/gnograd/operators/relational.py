# SPDX-License-Identifier: MIT
"""Aggregation of neighbours along edges of several types: relational graph convolutions."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_1

__all__ = ["agg_relational"]

AGGREGATIONS = {"sum": 0, "mean": 1}


@operator(
    inputs={
        "x": "n_src D",
        "w": "n_edges or None",
        "coeff": "n_relations n_bases or None",
        "own": "n_dst Do or None",
    },
    outputs={"out": "n_dst (max(1-n_bases,0)*n_relations+n_bases)*D+Do"},
    arguments="graph D Do n_relations n_bases edge_type aggregation",
    arrays={"edge_type": "int32 n_edges"},
    choices={"aggregation": AGGREGATIONS},
    limits={"n_relations": AT_LEAST_1},
)
def agg_relational(
    x: Array,
    w: Array | None = None,
    coeff: Array | None = None,
    own: Array | None = None,
    *,
    graph: GraphLike,
    edge_type: Array,
    n_relations: int,
    aggregation: str = "sum",
) -> Array:
    """Aggregation of neighbours for every type of edges, side by side or in a basis.

    Over the edges ``e = (j -> i)`` of a destination that are of type r::

        S[i, r] = sum or mean of w[e] * x[j]
        out[i]  = [S[i, 0] | S[i, 1] | ... | own[i]]           without coeff
        out[i]  = [B[i, 0] | B[i, 1] | ... | own[i]]           with coeff,
        B[i, b] = sum over r of coeff[r, b] * S[i, r]

    A matrix with a block of D rows for every relation, or basis, and one for the nodes themselves
    makes of it the relational graph convolution [1]_: ``out @ W``.

    Parameters
    ----------
    x : array, (n_src, D)
        Features of the sources.
    w : array, (n_edges,), optional
        Weight of every edge; 1 when left out.
    coeff : array, (n_relations, n_bases), optional
        Coefficients of the basis decomposition, at least one basis.
    own : array, (n_dst, Do), optional
        Features of the destinations.
    graph : Graph
    edge_type : array of int32, (n_edges,)
        Relation of every edge, 0 to ``n_relations - 1``.
    n_relations : int
    aggregation : {"sum", "mean"}
        The mean of a relation divides by the sum of the weights of its edges at the destination,
        their number without `w`; it is 0 where there are none.

    Returns
    -------
    out : array, (n_dst, n_relations * D + Do) or (n_dst, n_bases * D + Do)

    Raises
    ------
    IndexError
        A type that is no relation. On a GPU such an edge is left out, for the host would have to
        wait to find it.

    See Also
    --------
    agg_concat : with one relation.

    Notes
    -----
    Cost: ``2 n_edges D`` operations, and with `coeff` ``2 n_bases D`` for every relation that a
    destination has; about twice that in `vjp`.

    The sums of a relation are made before they are multiplied with its coefficients, at one
    destination at a time: the work is that of one aggregation, and of ``n_bases * D`` for every
    relation that a destination has. No array has a row of features for every edge.

    A destination without edges of a relation does not look at its coefficients, which may be NaN or
    infinite there.

    Peak temporary memory, in numbers: for the mean one an edge, and three in derivatives; with
    `coeff`, ``n_relations * D`` a thread (and, in `forward` and `jvp`, ``n_bases * D`` for a piece
    of a row that is shared among threads; without `coeff` ``n_relations * D``), twice that with
    tangents; for the gradient to `coeff`, its size 64 times within 64 MiB, or 8 times.

    References
    ----------
    .. [1] Schlichtkrull et al., Modeling Relational Data with Graph Convolutional Networks,
       ESWC 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1, 1], dst=[0, 0, 0], n_src=2)
    >>> x = np.array([[1.0, 2.0], [3.0, -4.0]])
    >>> kinds = {"edge_type": np.array([1, 0, 1], np.int32), "n_relations": 2}
    >>> gg.agg_relational(x, graph=graph, aggregation="mean", **kinds)
    array([[ 3., -4.,  2., -1.],
           [ 0.,  0.,  0.,  0.]])

    One basis, and the destination's own features behind:

    >>> gg.agg_relational(x, None, np.array([[10.0], [1.0]]), x, graph=graph, **kinds)
    array([[ 34., -42.,   1.,   2.],
           [  0.,   0.,   3.,  -4.]])
    """

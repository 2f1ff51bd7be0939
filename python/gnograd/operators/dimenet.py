# SPDX-License-Identifier: MIT
"""DimeNet++: radial basis of edges, and the sum over the edges that meet an edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from gnograd.faces.operator import Operator, P, R, operator
from gnograd.graphs.graph import Graph, GraphLike
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_0, Limits, integer, shown

__all__ = ["agg_edge_to_edge", "radial_basis"]

EXCLUSIONS = {"reverse_edge": 0, "same_node": 1, "none": 2}
LIMITS = {"n_spherical": Limits(1, 10), "n_radial": Limits(1, 16), "exponent": Limits(1, 100)}


@operator(
    inputs={"x": "n_edges 1", "w": "n_radial"},
    outputs={"rbf": "n_edges n_radial", "sbf": "n_edges n_spherical*n_radial"},
    arguments="n_edges n_spherical n_radial exponent",
    limits=LIMITS,
)
def radial_basis(
    x: Array, w: Array, *, n_spherical: int = 7, exponent: int = 5
) -> tuple[Array, Array]:
    """Radial Bessel basis, and the radial part of the spherical Bessel basis.

    With the envelope ``u(x) = 1 - (P+1)(P+2)/2 x^P + P(P+2) x^(P+1) - P(P+1)/2 x^(P+2)``,
    ``P = exponent + 1``, and for ``0 < x < 1``::

        rbf[e, n]                = u(x) sin(w_n x) / x
        sbf[e, l * n_radial + n] = u(x) N_ln j_l(z_ln x) / x

    where ``z_ln`` is the n-th zero of the spherical Bessel function ``j_l`` and
    ``N_ln = sqrt(2) / |j_{l+1}(z_ln)|``. Everywhere else both are 0, with derivatives 0: beyond
    the cutoff, and for edges without length.

    Parameters
    ----------
    x : array, (n_edges, 1)
        Length of every edge over the cutoff.
    w : array, (n_radial,)
        Frequencies, ``pi * [1, 2, ...]`` to begin with; at most 16.
    n_spherical : int
        Number of degrees l, at most 10.
    exponent : int
        Order of the envelope, 1 to 100.

    Returns
    -------
    rbf : array, (n_edges, n_radial)
    sbf : array, (n_edges, n_spherical * n_radial)

    Notes
    -----
    Cost: ``n_spherical * n_radial`` Bessel functions an edge; `vjp` computes them again with their
    derivatives.

    The arithmetic is float64 for every dtype. Temporary memory is
    ``n_radial * n_edges / 1024`` numbers for the gradient to `w`, else nothing; on a GPU
    ``n_radial * n_edges / 63`` for the gradients.

    References
    ----------
    Gasteiger, Gross, Günnemann, Directional Message Passing for Molecular Graphs, ICLR 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> w = np.pi * np.arange(1.0, 7.0)
    >>> rbf, sbf = gg.radial_basis(np.array([[0.5], [1.0]]), w)
    >>> rbf.shape, sbf.shape
    ((2, 6), (2, 42))
    >>> rbf[0].round(6) + 0.0
    array([ 1.710938,  0.      , -1.710938,  0.      ,  1.710938,  0.      ])
    """


class _OnEdges(Operator[P, R]):
    """Operator on edges that meet, on a graph that can also be given as pairs of nodes."""

    hops = 2
    # callers may give these in place of `graph`, which kernels and adapters get
    _replaced = ("edges", "n_nodes")

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        static = dict(given)
        edges, n_nodes = static.pop("edges", None), static.pop("n_nodes", None)
        if edges is not None:
            if static.get("graph") is not None:
                raise TypeError(f"{self.name}: graph and edges are both given")
            if not isinstance(edges, tuple | list) or len(edges) != 2:
                raise TypeError(f"{self.name}: edges is {shown(edges)}, needs the pair (src, dst)")
            src, dst = edges
            if n_nodes is not None:
                n_nodes = integer(f"{self.name}: n_nodes", n_nodes, AT_LEAST_0)
            static["graph"] = Graph.from_edges(src, dst, n_nodes, n_nodes)
        static.setdefault("graph", None)  # an error, raised with this name
        return super().complete(static)


@operator(
    inputs={
        "vector": "n_edges 3",
        "rbf": "n_edges n_spherical*n_radial",
        "embedding": "n_edges n_emb",
        "weights": "n_spherical*n_radial+n_emb n_mid",
    },
    outputs={"out": "n_edges n_emb"},
    arguments="graph n_spherical n_radial n_mid n_emb exclude",
    choices={"exclude": EXCLUSIONS},
    limits=LIMITS,
    kind=_OnEdges,
)
def agg_edge_to_edge(
    vector: Array,
    rbf: Array,
    embedding: Array,
    weights: Array,
    *,
    edges: tuple[ArrayLike, ArrayLike] | None = None,
    n_nodes: int | None = None,
    graph: GraphLike | None = None,
    n_spherical: int = 7,
    n_radial: int = 6,
    exclude: str = "reverse_edge",
) -> Array:
    """Sum over the triplets k -> j -> i of DimeNet++, edge ``e = (j -> i)`` by edge.

    With the edges ``e' = (k -> j)`` that end where `e` starts, ``c`` the cosine between the
    vectors of the two, and ``weights = [W1; W2]``::

        Y[l]     = sqrt((2l+1) / (4 pi)) P_l(c)            for each of the n_radial columns of l
        f(e', e) = W2 @ (W1.T @ (rbf[e'] * Y))
        out[e]   = sum over e' of embedding[e'] * f(e', e)

    Parameters
    ----------
    vector : array, (n_edges, 3)
        From the start of every edge to its end; with periodic cells, to the image meant.
    rbf : array, (n_edges, n_spherical * n_radial)
        Radial part of the spherical basis, as `radial_basis` gives it.
    embedding : array, (n_edges, n_emb)
        Features of every edge, n_emb at most 512.
    weights : array, (n_spherical * n_radial + n_emb, n_mid)
        W1 above W2, n_mid at most 64.
    edges : (src, dst), optional
        Start j and end i of every edge, in any order, with `n_nodes`.
    n_nodes : int, optional
        Number of nodes; one more than the largest in `edges` when left out.
    graph : Graph, optional
        Instead of `edges`: made once, it saves sorting them in every call.
    n_spherical, n_radial : int
        Degrees l, at most 10, and radial functions, at most 16.
    exclude : {"reverse_edge", "same_node", "none"}
        Triplets with k = i to leave out: those whose vectors sum to zero within rounding
        (``sqrt(eps)`` of their size), so that other periodic images of k count; all; none.

    Returns
    -------
    out : array, (n_edges, n_emb)

    Notes
    -----
    Cost: ``2 n_spherical n_emb`` operations a triplet forward and about twice that in `vjp`;
    besides, ``2 n_spherical n_radial n_emb`` an edge, and ``n_mid`` times that once a call.

    A vector without length has no angle: it takes part with Y_0 only, and its gradient is 0.

    Triplets are never stored, and the time for each does not depend on n_mid. Temporary memory is,
    in numbers, ``32 * n_spherical * (3 * n_emb + 96) + 32 * (3 * n_emb + 2 * n_spherical *
    n_radial)`` a thread, for `jvp` and `hvp` about twice that; one integer a node; for the gradient
    to `vector` ``6 * n_edges`` in `vjp` and ``12 * n_edges`` in `hvp`; for that to `weights` at
    most 64 float64 arrays of ``n_spherical * n_radial * n_emb``, in `hvp` 128.
    On a GPU it is nothing in `forward` and `jvp`; in `vjp` ``6 * n_edges`` and one `weights` a
    node, for ``max(32, min(1024, 2**20 / weights.size))`` nodes at most, and twice that in `hvp`.

    References
    ----------
    Gasteiger, Giri, Margraf, Günnemann, Fast and Uncertainty-Aware Directional Message Passing
    for Non-Equilibrium Molecules, arXiv:2011.14115, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random((20, 3))
    >>> graph = gg.Graph.radius(x, 0.5, include_self=False)
    >>> vector = x[graph.dst] - x[graph.src]
    >>> length = np.linalg.norm(vector, axis=1, keepdims=True)
    >>> _, rbf = gg.radial_basis(length / 0.5, np.pi * np.arange(1.0, 7.0))
    >>> embedding = rng.normal(size=(graph.n_edges, 16))
    >>> weights = rng.normal(size=(42 + 16, 8))
    >>> out = gg.agg_edge_to_edge(vector, rbf, embedding, weights, graph=graph)
    >>> out.shape == embedding.shape
    True
    >>> same = gg.agg_edge_to_edge(
    ...     vector, rbf, embedding, weights, edges=(graph.src, graph.dst), n_nodes=20
    ... )
    >>> bool(np.array_equal(out, same))
    True
    """

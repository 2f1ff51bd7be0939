# SPDX-License-Identifier: MIT
"""Attention over the incoming edges of every destination, and its softmax alone."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_1, Limits

__all__ = ["edge_softmax", "mha_gat", "mha_gat_v2", "mha_simple"]

ACTIVATIONS = {
    "LeakyReLU": 0, "ELU": 1, "Linear": 2, "ReLU": 3, "Scalar": 4, "Sigmoid": 5, "Tanh": 6
}  # fmt: skip
LIMITS = {"num_heads": AT_LEAST_1, "dropout": Limits(0, 1)}

_SAVED = {
    "out": "n_dst num_heads*C",
    "lse": "real n_dst num_heads",
    "softmax_scores": "real 2 num_heads n_edges",
}
_UNREAD = {
    "": "softmax_scores",
    "concat_heads=False": "out lse",
    "cuda float16|bfloat16": "out lse",
}
"""Saved arrays that no vjp reads: a mean over heads loses their values, 16 bits accuracy."""
_SEED = {"seed": "int64 1 or None"}
_WHEN = {
    "concat_heads=False": {"out": "n_dst C", "lse": "None"},
    "dropout!=0.0": {"seed": "int64 1"},
}


@operator(
    inputs={
        "x_src": "n_src num_heads*C",
        "x_dst": "n_dst num_heads*C",
        "a": "num_heads*(2*C+Ce)",
        "e": "n_edges num_heads*Ce or None",
    },
    outputs={"out": "n_dst num_heads*C"},
    arguments="graph num_heads C Ce concat_heads activation negative_slope dropout seed",
    saved=_SAVED,
    saved_only_in_c=("softmax_scores",),
    unread=_UNREAD,
    arrays=_SEED,
    when=_WHEN,
    choices={"activation": ACTIVATIONS},
    limits=LIMITS,
)
def mha_gat(
    x_src: Array,
    x_dst: Array,
    a: Array,
    e: Array | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array:
    """Graph attention (GAT) [1]_.

    Over the edges ``p = (j -> i)`` of a destination, for every head h::

        z[p, h]     = a_src[h] @ x_src[j, h] + a_dst[h] @ x_dst[i, h] (+ a_edge[h] @ e[p, h])
        alpha[:, h] = softmax of act(z[:, h])
        out[i, h]   = sum over p of alpha[p, h] * x_src[j, h]

    and 0 where there are no edges.

    Parameters
    ----------
    x_src, x_dst : array, (n_src, H * C), (n_dst, H * C)
        Features of sources and destinations; for one set of nodes the same array twice, and the
        gradients add up.
    a : array, (2 * H * C,) or (2 * H * C + H * Ce,)
        Attention weights ``[a_src | a_dst | a_edge]``, each by heads; the last with `e` only.
    e : array, (n_edges, H * Ce), optional
        Edge features, which enter the scores only.
    graph : Graph
    num_heads : int
        H.
    concat_heads : bool
        Put the heads side by side; else take their mean.
    activation : {"LeakyReLU", "ELU", "Linear", "ReLU", "Scalar", "Sigmoid", "Tanh"}
    negative_slope : float
        The factor c of LeakyReLU (``c z`` for ``z <= 0``, derivative c at 0), ELU
        (``c (exp(z) - 1)``) and Scalar (``c z``).
    dropout : float
        Probability from 0 to 1 that a weight ``alpha[p, h]`` is dropped: it becomes 0 behind the
        softmax, and the others are divided by ``1 - dropout``, which keeps the mean.
    seed : array of int64, (1,)
        Needed with dropout, it decides which weights are dropped: those for which number
        ``row * H + h`` of the sequence that SplitMix64 [2]_ makes of it is smaller than
        ``2**64 * dropout``, where `row` is that of the edge in edge tables. It is the same for any
        order of the edges, number of threads, and device.

    Returns
    -------
    out : array, (n_dst, H * C) or (n_dst, C)

    See Also
    --------
    mha_gat_v2 : with the activation inside.
    mha_simple : with scores from queries and keys.

    Notes
    -----
    Cost: ``2 H C`` operations a node for its part of the scores, ``2 H C`` and H exponentials an
    edge forward, about twice that in `vjp`. A row of ``H C`` numbers is read for every edge, once
    in each.

    Peak temporary memory, in numbers: H a node (2 H with tangents), ``232 H + 32 H C`` and at most
    12,288 a thread and ``2 H C`` a piece of a row that is shared among threads; for the vjp also H
    an edge and ``2 H`` a destination, for the hvp twice that.

    References
    ----------
    .. [1] Veličković et al., Graph Attention Networks, ICLR 2018.
    .. [2] Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x = np.array([[1.0, 2.0], [3.0, -4.0]])
    >>> gg.mha_gat(x, x, np.zeros(4), graph=graph)
    array([[ 2., -1.],
           [ 0.,  0.]])
    >>> gg.mha_gat(x, x, np.zeros(4), graph=graph, dropout=0.5, seed=np.array([3]))
    array([[ 3., -4.],
           [ 0.,  0.]])
    """


@operator(
    inputs={
        "x_src": "n_src num_heads*C",
        "x_dst": "n_dst num_heads*C",
        "a": "num_heads*C",
        "e": "n_edges num_heads*C or None",
    },
    outputs={"out": "n_dst num_heads*C"},
    arguments="graph num_heads C concat_heads activation negative_slope dropout seed",
    saved={**_SAVED, "activation_scores": "n_edges num_heads*C"},
    saved_only_in_c=("softmax_scores", "activation_scores"),
    unread=_UNREAD,
    arrays=_SEED,
    when=_WHEN,
    choices={"activation": ACTIVATIONS},
    limits=LIMITS,
)
def mha_gat_v2(
    x_src: Array,
    x_dst: Array,
    a: Array,
    e: Array | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array:
    """Graph attention with the activation inside (GATv2).

    Over the edges ``p = (j -> i)`` of a destination, for every head h::

        t[p]        = act(x_src[j] + x_dst[i] (+ e[p]))
        alpha[:, h] = softmax of a[h] @ t[:, h]
        out[i, h]   = sum over p of alpha[p, h] * x_src[j, h]

    and 0 where there are no edges.

    Parameters
    ----------
    x_src, x_dst : array, (n_src, H * C), (n_dst, H * C)
        Features of sources and destinations; for one set of nodes the same array twice, and the
        gradients add up.
    a : array, (H * C,)
        Attention weights by heads.
    e : array, (n_edges, H * C), optional
        Edge features, which enter the scores only.
    graph : Graph
    num_heads : int
        H.
    concat_heads : bool
        Put the heads side by side; else take their mean.
    activation : {"LeakyReLU", "ELU", "Linear", "ReLU", "Scalar", "Sigmoid", "Tanh"}
    negative_slope, dropout, seed
        As for `mha_gat`.

    Returns
    -------
    out : array, (n_dst, H * C) or (n_dst, C)

    See Also
    --------
    mha_gat : with the activation outside, which is cheaper.

    Notes
    -----
    Cost: about ``6 H C`` operations and H exponentials an edge forward, twice that in `vjp`; the
    activations are taken again there.

    Peak temporary memory, in numbers: ``160 H + 8 H C`` a thread and a piece of a row that is
    shared among threads; for the vjp also H an edge and ``2 H`` a destination, for the hvp twice
    that.

    References
    ----------
    Brody, Alon, Yahav, How Attentive are Graph Attention Networks?, ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x = np.array([[1.0, 2.0], [3.0, -4.0]])
    >>> gg.mha_gat_v2(x, x, np.zeros(2), graph=graph)
    array([[ 2., -1.],
           [ 0.,  0.]])
    """


@operator(
    inputs={
        "q": "n_dst num_heads*C",
        "k": "n_src num_heads*C",
        "v": "n_src num_heads*C",
        "e": "n_edges num_heads*C or None",
    },
    outputs={"out": "n_dst num_heads*C"},
    arguments="graph num_heads C concat_heads norm_by_dim dropout seed",
    saved=_SAVED,
    saved_only_in_c=("softmax_scores",),
    unread=_UNREAD,
    arrays=_SEED,
    when=_WHEN,
    limits=LIMITS,
)
def mha_simple(
    q: Array,
    k: Array,
    v: Array,
    e: Array | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    norm_by_dim: bool = True,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array:
    """Attention like a transformer's, over the edges of a graph.

    Over the edges ``p = (j -> i)`` of a destination, for every head h::

        s[p, h]     = q[i, h] @ (k[j, h] (+ e[p, h])) (/ sqrt(C) if norm_by_dim)
        alpha[:, h] = softmax of s[:, h]
        out[i, h]   = sum over p of alpha[p, h] * (v[j, h] (+ e[p, h]))

    and 0 where there are no edges.

    Parameters
    ----------
    q : array, (n_dst, H * C)
        Queries.
    k, v : array, (n_src, H * C)
        Keys and values.
    e : array, (n_edges, H * C), optional
        Edge features, which are added to keys and values.
    graph : Graph
    num_heads : int
        H.
    concat_heads : bool
        Put the heads side by side; else take their mean.
    norm_by_dim : bool
        Divide the scores by the square root of C.
    dropout, seed
        As for `mha_gat`.

    Returns
    -------
    out : array, (n_dst, H * C) or (n_dst, C)

    Notes
    -----
    Cost: ``4 H C`` operations and H exponentials an edge forward, ``10 H C`` in `vjp`, where the
    scores are computed again.

    Peak temporary memory, in numbers: ``160 H + 4 H C`` a thread and a piece of a row that is
    shared among threads; for the vjp also H an edge and ``2 H`` a destination, for the hvp twice
    that.

    References
    ----------
    Shi et al., Masked Label Prediction: Unified Message Passing Model for Semi-Supervised
    Classification, IJCAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> x = np.array([[1.0, 2.0], [3.0, -4.0]])
    >>> gg.mha_simple(np.zeros((2, 2)), x, x, graph=graph)
    array([[ 2., -1.],
           [ 0.,  0.]])
    """


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

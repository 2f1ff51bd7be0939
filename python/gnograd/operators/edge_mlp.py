# SPDX-License-Identifier: MIT
"""Message networks on edges: the edge update of MeshGraphNets and its successors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.faces.operator import Array, operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.static import AT_LEAST_1
from gnograd.operators.gno import ACTIVATIONS, REDUCTIONS, packed

__all__ = ["edge_mlp", "edge_mlp_pack"]

RESULTS = {"both": 0, "edges": 1, "nodes": 2}
"""Results to return, and their codes in C."""
_LAYERS = "(n_in+1)*first_width+deeper_layers"


def _sizes(static: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the packed weights and of the results, from the widths of the layers."""
    widths = static["widths"]
    return {
        "F_out": widths[-1],
        "first_width": widths[0],
        "deeper_layers": sum((before + 1) * width for before, width in pairwise(widths)),
        "n_layers": len(widths),
    }


@operator(
    inputs={
        "e": "n_edges F_e or None",
        "x_src": "n_src F_s or None",
        "x_dst": "n_dst F_d or None",
        "weights": _LAYERS,
        "edge_weight": "n_edges or None",
    },
    outputs={"edges": "n_edges F_out", "nodes": "n_dst F_out"},
    arguments="graph F_e F_s F_d n_in n_layers widths activation layer_norm residual reduction "
    "outputs",
    when={
        "layer_norm=True": {"weights": f"{_LAYERS}+2*F_out"},
        "residual=True": {"e": "n_edges F_out", "F_e": "F_out"},
        "outputs=nodes": {"edges": "None"},
        "outputs=edges": {"nodes": "None"},
    },
    sizes=_sizes,
    choices={"activation": ACTIVATIONS, "reduction": REDUCTIONS, "outputs": RESULTS},
    limits={"widths": AT_LEAST_1},
)
def edge_mlp(
    e: Array | None,
    x_src: Array | None,
    x_dst: Array | None,
    weights: Array,
    edge_weight: Array | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    activation: str = "silu",
    layer_norm: bool = True,
    residual: bool = True,
    reduction: str = "sum",
    outputs: str = "both",
) -> Array | tuple[Array, Array]:
    """Network on the edges of a graph, and the sum of its outputs at their destinations.

    For every edge ``p = (j -> i)``, with ``act`` between the layers::

        z[p] = e[p] @ W_e + x_src[j] @ W_s + x_dst[i] @ W_d + b_0
        m[p] = act(... act(act(z[p]) @ W_1 + b_1) ...) @ W_L + b_L
        m[p] = (m[p] - mean(m[p])) / sqrt(var(m[p]) + 1e-5) * gamma + beta      if layer_norm
        edges[p] = e[p] + m[p] if residual else m[p]
        nodes[i] = sum or mean of edge_weight[p] * edges[p] over the edges of i

    The first line is a layer on ``[e[p], x_src[j], x_dst[i]]``.

    Parameters
    ----------
    e : array, (n_edges, F_e), or None
        Features of the edges; with `residual` they are needed, and F_e is F_out.
    x_src, x_dst : array, (n_src, F_s), (n_dst, F_d), or None
        Features of the sources and the destinations. One of the three is needed.
    weights : array, (n,)
        ``[W_e | W_s | W_d | b_0 | W_1 | b_1 | ... | W_L | b_L | gamma | beta]``, as `edge_mlp_pack`
        makes it: without W_e, W_s or W_d where there is no e, x_src or x_dst, and without gamma and
        beta where there is no `layer_norm`.
    edge_weight : array, (n_edges,), optional
        Weights of the sum, or of the mean, which then divides by the sum of the weights.
    graph : Graph
    widths : list of int
        Widths of all layers, the first as well; the last is F_out.
    activation : {"gelu", "relu", "silu", "tanh", "sin", "identity"}
        Between the layers, not behind the last.
    layer_norm : bool
        Normalise behind the last layer, by the variance over its F_out features.
    residual : bool
        Add `e`.
    reduction : {"sum", "mean"}
        Reduction of the edges of a destination, 0 where there are none.
    outputs : {"both", "edges", "nodes"}
        Results to return.

    Returns
    -------
    edges : array, (n_edges, F_out)
        Not with ``outputs="nodes"``.
    nodes : array, (n_dst, F_out)
        Not with ``outputs="edges"``.

    Raises
    ------
    TypeError
        Arrays of another dtype than the first; `e` missing where it is added.
    ValueError
        Shapes that do not fit; weights that are not for the columns of `e`, `x_src` and `x_dst`.

    See Also
    --------
    edge_mlp_pack : the weights in one vector.
    gno_deep : a network of several layers as the kernel of an integral.

    Notes
    -----
    Cost: with L the sum of ``widths[k] * widths[k + 1]``, ``2 n_edges (L + F_e H)`` operations
    forward and ``2 H (n_src F_s + n_dst F_d)`` at the nodes; three times that in `vjp`.

    The first layer is linear in what comes from either end, so that its products with W_s and W_d
    are made once a node, and an edge adds two rows. Hidden features of edges are computed in tiles
    that stay in the cache, and again on the way back; where the results at the edges are not asked
    for, there is no array of n_edges times F_out either. Edges are taken in the order of their
    destinations. Gradients to the sources are added when a slab of 256 tiles is done, in the order
    of its edges, so that the bits do not depend on the number of threads.

    With `layer_norm` and F_out = 1 the variance is 0: the results are beta, and all gradients
    before it are 0 but for roundings, which the norm multiplies by ``1 / sqrt(1e-5)``, about 316.

    Peak temporary memory, in numbers, with H the first width, S the edges of a slab (65,536 at
    most, or all), n the nodes for which `x_src` or `x_dst` are given: ``n H`` in forward,
    ``2 n H + S H`` in vjp, twice that with tangents; 2 MiB a thread or the panels of 32 edges, and
    F_out for each tile; and in vjp and hvp the weights without the rows of nodes, in float64, 64
    times within 64 MiB, or 8 times.

    It is the edge network of MeshGraphNets [1]_ and, with ``outputs="nodes"``, the message passing
    of Gilmer et al. [2]_.

    References
    ----------
    .. [1] Pfaff et al., Learning Mesh-Based Simulation with Graph Networks, arXiv:2010.03409, 2021.
    .. [2] Gilmer et al., Neural Message Passing for Quantum Chemistry, arXiv:1704.01212, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random((50, 2))
    >>> graph = gg.Graph.radius(x, 0.3)
    >>> e, h = rng.normal(size=(graph.n_edges, 8)), rng.normal(size=(50, 4))
    >>> shapes = [(8, 16), (4, 16), (4, 16), (16, 8)]
    >>> W_e, W_s, W_d, W_1 = (rng.normal(size=shape) for shape in shapes)
    >>> weights = gg.edge_mlp_pack(
    ...     W_e, W_s, W_d, None, [(W_1, None)], gamma=np.ones(8), beta=np.zeros(8)
    ... )
    >>> edges, nodes = gg.edge_mlp(e, h, h, weights, graph=graph, widths=[16, 8])
    >>> edges.shape == e.shape, nodes.shape
    (True, (50, 8))
    >>> gg.edge_mlp(e, h, h, weights, graph=graph, widths=[16, 8], outputs="nodes").shape
    (50, 8)
    """


def edge_mlp_pack(
    W_e: NDArray[Any] | None,
    W_s: NDArray[Any] | None,
    W_d: NDArray[Any] | None,
    b_0: NDArray[Any] | None = None,
    layers: Sequence[tuple[NDArray[Any], NDArray[Any] | None]] = (),
    gamma: NDArray[Any] | None = None,
    beta: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Weights of `edge_mlp` in one vector.

    ``[W_e | W_s | W_d | b_0 | W_1 | b_1 | ... | W_L | b_L | gamma | beta]``

    Parameters
    ----------
    W_e, W_s, W_d : array, (F_e, width), (F_s, width), (F_d, width), or None
        First layer, for what edges, sources and destinations bring in; None for what is not there.
    b_0 : array, (width,), optional
        Bias of the first layer; None is zero.
    layers : list of (W, b)
        Further layers, (width before, width) and (width,); a bias None is zero.
    gamma, beta : array, (F_out,), optional
        Factors and shifts of the normalisation, both or none.

    Returns
    -------
    packed : array, (n,)

    Raises
    ------
    TypeError
        A matrix or bias that is no NumPy array: a copy of a tensor would have no gradient.
    ValueError
        Shapes that do not fit those before; no first matrix; one of gamma and beta alone.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> gg.edge_mlp_pack(np.ones((1, 2)), None, None, np.array([3.0, 4.0]))
    array([1., 1., 3., 4.])
    """
    name = "edge_mlp_pack"
    parts: dict[str, NDArray[Any]] = {}

    def put(label: str, array: NDArray[Any] | None, needed: tuple[Any, ...]) -> None:
        """Append an array; None is zero. Strings in its shape `needed` are unknown lengths."""
        if array is None:
            like = next(iter(parts.values()))
            array = np.zeros(needed, getattr(like, "dtype", None))
        shape = np.shape(array)
        if len(shape) != len(needed) or any(
            type(n) is int and n != m for n, m in zip(needed, shape, strict=True)
        ):
            text = ", ".join(map(str, needed)) + "," * (len(needed) == 1)
            raise ValueError(f"{name}: {label} has shape {shape}, needs ({text})")
        parts[label] = array

    width: Any = "width"
    for label, matrix in (("W_e", W_e), ("W_s", W_s), ("W_d", W_d)):
        if matrix is not None:
            put(label, matrix, (f"F_{label[-1]}", width))
            width = np.shape(matrix)[1]
    if not parts:
        raise ValueError(f"{name}: needs one of W_e, W_s and W_d, got none of them")
    put("b_0", b_0, (width,))
    for k, (W, b) in enumerate(layers, 1):
        if W is None:
            raise TypeError(f"{name}: W_{k} is None, needs an array")
        put(f"W_{k}", W, (width, "width"))
        width = np.shape(W)[1]
        put(f"b_{k}", b, (width,))
    if (gamma is None) != (beta is None):
        missing = "gamma" if gamma is None else "beta"
        raise ValueError(f"{name}: {missing} is missing: gamma and beta go together")
    if gamma is not None:
        put("gamma", gamma, (width,))
        put("beta", beta, (width,))
    return packed(name, parts)

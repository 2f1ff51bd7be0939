# SPDX-License-Identifier: MIT
"""Graph neural operator whose kernel network has several layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from gnograd.faces.operator import Array, operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.static import AT_LEAST_1
from gnograd.operators.gno import ACTIVATIONS, REDUCTIONS

__all__ = ["gno_deep"]


def _sizes(static: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the packed layers and of the kernel, from the widths of the layers."""
    widths = static["widths"]
    return {
        "F_out": widths[-1],
        "first_width": widths[0],
        "deeper_layers": sum((before + 1) * width for before, width in pairwise(widths)),
        "n_layers": len(widths),
    }


@operator(
    inputs={
        "h": "n_src n_functions*F_out or None",
        "y": "n_src d_y or None",
        "x": "n_dst d_x or None",
        "c": "n_edges d_c or None",
        "layers": "(n_in+1)*first_width+deeper_layers",
        "edge_weight": "n_edges or None",
    },
    outputs={"out": "n_dst max(n_functions,1)*F_out"},
    arguments="graph n_functions d_y d_x d_c n_in n_layers widths activation reduction",
    sizes=_sizes,
    choices={"activation": ACTIVATIONS, "reduction": REDUCTIONS},
    limits={"widths": AT_LEAST_1},
)
def gno_deep(
    h: Array | None,
    y: Array | None,
    x: Array | None,
    c: Array | None,
    layers: Array,
    edge_weight: Array | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    activation: str = "gelu",
    reduction: str = "sum",
) -> Array:
    """Graph neural operator with a kernel network of several layers.

    ``out[i]`` is the sum or mean over the edges ``e = (j -> i)`` of
    ``edge_weight[e] * k(e) * h[j]``, element by element, where ``k`` is a network with linear
    layers and an activation between them::

        k(e) = act(... act([y[j], x[i], c[e]] @ U_1 + b_1) @ U_2 + b_2 ...) @ U_n + b_n

    Parameters
    ----------
    h : array, (n_src, F) or (n_src, n * F), or None
        Features of the sources, of n functions side by side; None is 1.
    y, x, c : array, (n_src, d_y), (n_dst, d_x), (n_edges, d_c), or None
        Inputs of the network from sources, destinations and edges: positions, their
        embeddings, features. At least one of them is needed.
    layers : array, (n,)
        Layers of the network, ``[U_1 | b_1 | U_2 | b_2 | ...]``, as `gno_pack_layers` makes it of a
        list; the rows of U_1 are those of y, of x, and of c.
    edge_weight : array, (n_edges,), optional
        Quadrature weights.
    graph : Graph
    widths : list of int
        Widths of all layers; the last is F.
    activation : {"gelu", "relu", "silu", "tanh", "sin", "identity"}
        Between the layers.
    reduction : {"sum", "mean"}
        The mean is over the edges of a destination, 0 where there are none.

    Returns
    -------
    out : array, (n_dst, F) or (n_dst, n * F)

    Raises
    ------
    TypeError
        Arrays of another dtype than the first; float32 and float64 are taken.
    ValueError
        Shapes that do not fit; layers that are not for the columns of `y`, `x` and `c`.

    See Also
    --------
    gno : with a matrix for every edge, from one hidden layer.
    gno_with_laplacian : with derivatives by the positions as outputs.

    Notes
    -----
    Cost: with L the sum of ``widths[k] * widths[k + 1]``, ``2 n_edges (L + (d_c + 1) H + n F)``
    operations forward and ``2 H (n_src d_y + n_dst d_x)`` at the nodes; three times that in `vjp`.

    The first layer is linear in what comes from either end, so that its products are made once a
    node; an edge adds two rows. All other layers are products of BLAS over tiles of edges that
    stay in the cache. The way back computes them again: nothing of a hidden width is kept for an
    edge. It takes the edges in the order of their sources, in slabs of 256 tiles: the gradients to
    the first layer are added to the nodes at both ends when a slab is done, in the order of its
    edges, so that the bits do not depend on the number of threads.

    Peak temporary memory, in numbers, with H the first width, S the edges of a slab (65,536 at
    most, or all), n the nodes for which `y` or `x` are given: ``n H + S F`` in forward,
    ``2 n H + S (F + H)`` in vjp, twice that with tangents; 1.5 MiB a thread or the panels of 32
    edges; and in vjp and hvp the layers without the rows of y and x, in float64, 64 times within 64
    MiB, or 8 times. On a GPU a slab is what takes 128 MiB, 65,536 edges at most.

    The network is the kernel of Li et al. [1]_ as neuraloperator's GNOBlock has it by default.

    References
    ----------
    .. [1] Li et al., Neural Operator: Graph Kernel Network for Partial Differential Equations,
       arXiv:2003.03485, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.random((20, 2)), rng.random((50, 2))
    >>> graph = gg.Graph.radius(y, 0.5, x)
    >>> widths = [16, 32, 3]
    >>> layers = gg.gno_pack_layers(
    ...     [(rng.normal(size=(m, n)), np.zeros(n)) for m, n in zip([4, 16, 32], widths)]
    ... )
    >>> h = rng.normal(size=(50, 3))
    >>> gg.gno_deep(h, y, x, None, layers, graph=graph, widths=widths, reduction="mean").shape
    (20, 3)

    Eight functions on the same points, with one evaluation of the network:

    >>> h = rng.normal(size=(50, 8, 3))
    >>> gg.gno_deep(h.reshape(50, 24), y, x, None, layers, graph=graph, widths=widths).shape
    (20, 24)
    """

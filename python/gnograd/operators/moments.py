# SPDX-License-Identifier: MIT
"""Geometry of neighbourhoods: moments of the offsets of their points."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gnograd.faces.operator import operator
from gnograd.graphs.graph import Graph, GraphLike
from gnograd.notation.declaration import Array

__all__ = ["NeighborhoodMoments", "neighborhood_moments", "offset_moments"]


@operator(
    inputs={"x": "n_src d", "y": "n_dst d"},
    outputs={"moments": "n_dst 2+d+d*(d+1)//2"},
    arguments="graph d",
)
def offset_moments(x: Array, y: Array, *, graph: GraphLike) -> Array:
    """Mean, spread and covariance of the offsets of neighbours.

    Over the edges ``e = (j -> i)`` of a destination, with the offset ``r = x[j] - y[i]``, the
    columns of ``moments[i]`` are

    - the mean of the distance ``|r|``, and its variance,
    - the mean of ``r`` (d columns): where the centroid of the neighbours lies,
    - the covariance of ``r``, its upper triangle row by row (d (d + 1) / 2 columns).

    All are means over the edges, and 0 where there are none.

    Parameters
    ----------
    x, y : array, (n_src, d), (n_dst, d)
        Positions of sources and destinations; for one set of points the same array twice, and the
        gradients add up.
    graph : Graph

    Returns
    -------
    moments : array, (n_dst, 2 + d + d * (d + 1) / 2)

    See Also
    --------
    neighborhood_moments : with the number of neighbours and the eigenvalues of the covariance.

    Notes
    -----
    Cost: about ``d (d + 5)`` operations an edge, in two passes over the edges of a destination.

    The distance has no derivative where a source and a destination coincide: there its first and
    second derivatives are taken to be 0.

    Temporary memory, in numbers: ``d + 1`` a destination for derivatives, twice that with tangents.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2, n_dst=1)
    >>> x, y = np.array([[1.0, 0.0], [0.0, 3.0]]), np.zeros((1, 2))
    >>> gg.offset_moments(x, y, graph=graph)
    array([[ 2.  ,  1.  ,  0.5 ,  1.5 ,  0.25, -0.75,  2.25]])
    """


class NeighborhoodMoments(NamedTuple):
    """Result of `neighborhood_moments`: geometry of the neighbourhood of every destination."""

    count: Any
    """Number of neighbours, (n_dst,)."""
    mean: Any
    """Mean distance, (n_dst,)."""
    variance: Any
    """Variance of the distance, (n_dst,)."""
    centroid: Any
    """Mean of the neighbours' positions as seen from the destination, (n_dst, d)."""
    eigenvalues: Any
    """Eigenvalues of the covariance of the neighbours' positions, the largest first, (n_dst, d)."""


def unpack_moments(
    moments: Any, count: Any, n_dims: int, library: Any, asarray: Callable[..., Any]
) -> NeighborhoodMoments:
    """Compute the result of `neighborhood_moments` from that of `offset_moments`.

    Parameters
    ----------
    moments : array, (n_dst, 2 + d + d * (d + 1) / 2)
    count : array, (n_dst,)
    n_dims : int
        d.
    library : module
        NumPy, or one that has its functions for these arrays.
    asarray : callable
        The library's, where the moments are.
    """
    d = n_dims
    covariance = moments[:, asarray(_columns_of_covariance(d))].reshape((-1, d, d))
    # the covariance of a single point is constant 0: the derivatives of its equal eigenvalues,
    # which do not exist, must not enter gradients
    single = (count < 2)[:, None]
    apart: Any = [[a * (a == b) for b in range(d)] for a in range(d)]
    apart = asarray(apart, dtype=moments.dtype)
    covariance = library.where(single[:, None], apart, covariance)
    eigenvalues = library.flip(library.linalg.eigvalsh(covariance), (-1,))
    eigenvalues = library.where(single, library.zeros_like(eigenvalues), eigenvalues)
    return NeighborhoodMoments(
        count, moments[:, 0], moments[:, 1], moments[:, 2 : 2 + d], eigenvalues
    )


def _columns_of_covariance(d: int) -> list[int]:
    """Columns of `offset_moments` that hold the entries of the covariance, row by row."""
    pairs = [(min(a, b), max(a, b)) for a in range(d) for b in range(d)]
    return [2 + d + row * d - row * (row - 1) // 2 + column - row for row, column in pairs]


def positions_of_destinations(x: Any, graph: Any, destinations: Any) -> Any:
    """`destinations`, or `x` when left out, which needs as many sources as destinations."""
    if destinations is None and graph.n_src != graph.n_dst:
        raise ValueError(
            f"neighborhood_moments: graph has {graph.n_src} sources and {graph.n_dst} "
            "destinations, needs destinations"
        )
    return x if destinations is None else destinations


def neighborhood_moments(
    x: Array, graph: Graph, destinations: Array | None = None
) -> NeighborhoodMoments:
    """Geometry of every neighbourhood in a few numbers [1]_.

    Parameters
    ----------
    x : array, (n_src, d)
        Positions of the sources.
    graph : Graph
    destinations : array, (n_dst, d), optional
        Positions of the destinations; `x` when left out.

    Returns
    -------
    NeighborhoodMoments
        Number of neighbours, mean and variance of their distances, offset of their centroid, and
        eigenvalues of the covariance of their positions, the largest first. All are 0 where there
        are no neighbours.

    Raises
    ------
    ValueError
        No `destinations`, though the graph leads to other nodes than its sources.

    See Also
    --------
    offset_moments : the same without eigenvalues, with all its derivatives.

    Notes
    -----
    The eigenvalues are NumPy's, CuPy's on a GPU. `gnograd.torch.neighborhood_moments` and
    `gnograd.jax.neighborhood_moments` are differentiable as a whole; there the second derivative
    of equal eigenvalues does not exist.

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.zeros((1, 2))
    >>> found = gg.neighborhood_moments(x, gg.Graph.radius(x, 2.0, y), y)
    >>> found.count, found.mean, found.centroid, found.eigenvalues
    (array([2]), array([1.]), array([[0.5, 0.5]]), array([[0.5, 0. ]]))
    """
    y = positions_of_destinations(x, graph, destinations)
    moments: Any = offset_moments(x, y, graph=graph)
    library: Any = np
    if not isinstance(moments, np.ndarray):  # on a GPU
        library = sys.modules[type(moments).__module__.partition(".")[0]]
        if not hasattr(library, "linalg"):
            raise NotImplementedError("neighborhood_moments: eigenvalues on a GPU need CuPy")
    count = library.asarray(graph.in_degree)
    return unpack_moments(moments, count, x.shape[1], library, library.asarray)

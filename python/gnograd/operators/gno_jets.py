# SPDX-License-Identifier: MIT
"""Graph neural operator with its derivatives by the query positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_0, AT_LEAST_1, integer, integers
from gnograd.operators.gno import ACTIVATIONS, KERNEL_FORMS, REDUCTIONS, check_vector, packed

__all__ = [
    "gno_pack_layers",
    "gno_unpack_layers",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
]

GEOMETRIES = {"difference": 0, "pair": 1}
CHOICES = {
    "geometry": GEOMETRIES,
    "activation": ACTIVATIONS,
    "reduction": REDUCTIONS,
    "kernel": KERNEL_FORMS,
}


_INPUTS = {
    "h": "* n_src F_in",
    "x": "n_dst d",
    "y": "n_src d",
    "layers": "(d+1)*first_width+deeper_layers",
    "V": "last_width F_in F_out",
    "b_v": "F_in F_out",
    "edge_weight": "n_edges or None",
}
_OUTPUTS = {"out": "* n_dst F_out", "gradient": "* n_dst d F_out"}
_ARGUMENTS = "graph n_batch d F_in F_out n_layers widths geometry activation reduction kernel"
_WHEN = {
    "kernel=diagonal": {
        "F_out": "F_in", "h": "* n_src F_in or None", "V": "last_width F_in", "b_v": "F_in"
    },
    "geometry=pair": {"layers": "(2*d+1)*first_width+deeper_layers"},
}  # fmt: skip
_LIMITS = {"widths": AT_LEAST_1}


def _sizes(static: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the packed layers, from the widths of the hidden layers."""
    widths = static["widths"]
    return {
        "first_width": widths[0],
        "last_width": widths[-1],
        "deeper_layers": sum((before + 1) * width for before, width in pairwise(widths)),
        "n_layers": len(widths),
    }


@operator(
    inputs={**_INPUTS, "weight_derivatives": "n_edges d+1 or None"},
    outputs={**_OUTPUTS, "laplacian": "* n_dst F_out"},
    arguments=_ARGUMENTS,
    when=_WHEN,
    sizes=_sizes,
    choices=CHOICES,
    limits=_LIMITS,
)
def gno_with_laplacian(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]:
    """Graph neural operator with its gradient and Laplacian by the query positions.

    ``out[i]`` is the sum or mean over the edges ``e = (j -> i)`` of
    ``edge_weight[e] * h[j] @ kappa(x[i] - y[j])``, where ``kappa`` is a network with hidden layers
    ``z = act(z @ U + b)`` and a linear last layer ``z . V + b_v``. ``gradient[i]`` and
    ``laplacian[i]`` are its derivatives by ``x[i]``, with the edges held fixed. All three are
    outputs: each can be differentiated by every input, and no double backward is needed.

    Parameters
    ----------
    h : array, (..., n_src, F_in), or None
        Features of the sources; None is 1, for the diagonal kernel only. Leading axes are a batch
        of functions on the same graph, which share everything else.
    x, y : array, (n_dst, d), (n_src, d)
        Positions of the destinations (queries) and of the sources.
    layers : array, (n,)
        Hidden layers of the kernel network, ``[U_1 | b_1 | U_2 | b_2 | ...]``, as
        `gno_pack_layers` makes it of a list.
    V, b_v : array, (widths[-1], F_in, F_out), (F_in, F_out)
        Last layer; (widths[-1], F), (F,) for the diagonal kernel.
    edge_weight : array, (n_edges,), optional
        Quadrature weights.
    weight_derivatives : array, (n_edges, d + 1), optional
        Gradient and Laplacian of every edge's weight by ``x[i]``, for weights that depend on the
        positions (a mollifier, which fades edges out at the cutoff); 0 when left out.
    graph : Graph
    widths : list of int
        Widths of the hidden layers, one or more.
    geometry : {"difference", "pair"}
        The network sees ``x[i] - y[j]``, or ``[x[i], y[j]]``.
    activation : {"gelu", "relu", "silu", "tanh", "sin", "identity"}
        Activation of all hidden layers. The second derivatives of relu are 0.
    reduction : {"sum", "mean"}
        The mean is over the edges of a destination, 0 where there are none.
    kernel : {"full", "diagonal"}
        A diagonal kernel multiplies ``h[j]`` element by element.

    Returns
    -------
    out : array, (..., n_dst, F_out)
    gradient : array, (..., n_dst, d, F_out)
    laplacian : array, (..., n_dst, F_out)

    See Also
    --------
    gno_with_gradient, gno_with_hessian : the same with other derivatives.

    Notes
    -----
    Cost: that of d + 2 forward passes of the network at every edge, in `vjp` three times that. Each
    pass is ``2 L`` operations, with L the number of weights of all layers.

    The hidden features of an edge carry their derivatives through the network: value, d first
    derivatives, and the Laplacian, which a linear layer maps alone and which an activation maps by
    ``lap -> act' lap + act'' |grad|^2`` [1]_. So the Laplacian costs d + 2 forward passes, not d
    second derivatives.

    NaN or an infinity in `V` or `b_v` makes NaN at destinations without edges, too, on the CPU, as
    in `gno`; on a GPU these are 0.

    Peak temporary memory, in numbers, with W the packed size of all layers, the last included,
    and B the sum of their widths: ``d n_edges`` for gradients to positions (twice that for pairs),
    ``2 P W`` for the sums of gradients, P at most 64 pieces within 64 MiB, or 8 pieces; and a
    thread ``32 (d + 2) (8 B + F_in + F_out)`` and a few tiles of 1 MiB. Nothing else grows with
    the edges. On a GPU, slices of edges take 128 MiB instead. A batch of functions takes copies of
    `h` and of what has the shape of `h` or of an output; F_in and F_out are then those of all
    functions together, and a tile has at least one row of each.

    References
    ----------
    .. [1] Li et al., A computational framework for neural network-based variational Monte Carlo
       with Forward Laplacian, Nature Machine Intelligence 6, 2024 (arXiv:2307.08214).

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.random((20, 2)), rng.random((50, 2))
    >>> graph = gg.Graph.radius(y, 0.5, x)
    >>> hidden = [(rng.normal(size=(2, 16)), np.zeros(16)), (rng.normal(size=(16, 8)), np.zeros(8))]
    >>> h, V, b_v = rng.normal(size=(50, 3)), rng.normal(size=(8, 3, 1)), np.zeros((3, 1))
    >>> inputs = h, x, y, gg.gno_pack_layers(hidden), V, b_v
    >>> static = dict(graph=graph, widths=[16, 8], reduction="mean")
    >>> u, gradient, laplacian = gg.gno_with_laplacian(*inputs, **static)
    >>> u.shape, gradient.shape, laplacian.shape
    ((20, 1), (20, 2, 1), (20, 1))

    The gradient of the loss ``sum(laplacian**2) / 2`` by the hidden layers:

    >>> cotangents = None, None, laplacian
    >>> grads = gg.gno_with_laplacian.vjp(cotangents, inputs, wrt={"layers"}, **static)
    >>> dU, db = gg.gno_unpack_layers(grads[3], 2, [16, 8])[0]
    >>> dU.shape
    (2, 16)
    """


@operator(
    inputs={**_INPUTS, "weight_derivatives": "n_edges d or None"},
    outputs=_OUTPUTS,
    arguments=_ARGUMENTS,
    when=_WHEN,
    sizes=_sizes,
    choices=CHOICES,
    limits=_LIMITS,
)
def gno_with_gradient(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array]:
    """Graph neural operator with its gradient by the query positions.

    Parameters
    ----------
    h, x, y, layers, V, b_v, edge_weight : array
        As for `gno_with_laplacian`.
    weight_derivatives : array, (n_edges, d), optional
        Gradient of every edge's weight by ``x[i]``; 0 when left out.
    graph, widths, geometry, activation, reduction, kernel
        As for `gno_with_laplacian`.

    Returns
    -------
    out : array, (..., n_dst, F_out)
    gradient : array, (..., n_dst, d, F_out)

    See Also
    --------
    gno_with_laplacian : what is computed, and how.

    Notes
    -----
    Cost: that of d + 1 forward passes of the network at every edge, in `vjp` three times that.
    Memory is that of `gno_with_laplacian`.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> x, y = np.array([[1.0]]), np.array([[0.0]])
    >>> graph = gg.Graph.from_edges(src=[0], dst=[0])
    >>> layers = gg.gno_pack_layers([(np.ones((1, 1)), np.zeros(1))])
    >>> gg.gno_with_gradient(
    ...     None, x, y, layers, np.ones((1, 1)), np.zeros(1),
    ...     graph=graph, widths=[1], activation="identity", kernel="diagonal",
    ... )
    (array([[1.]]), array([[[1.]]]))
    """


@operator(
    inputs={**_INPUTS, "weight_derivatives": "n_edges d+d*(d+1)//2 or None"},
    outputs={**_OUTPUTS, "hessian": "* n_dst d d F_out"},
    arguments=_ARGUMENTS,
    when=_WHEN,
    sizes=_sizes,
    choices=CHOICES,
    limits=_LIMITS,
)
def gno_with_hessian(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]:
    """Graph neural operator with its gradient and Hessian by the query positions.

    Parameters
    ----------
    h, x, y, layers, V, b_v, edge_weight : array
        As for `gno_with_laplacian`.
    weight_derivatives : array, (n_edges, d + d (d + 1) / 2), optional
        Gradient of every edge's weight by ``x[i]``, then the upper triangle of its Hessian row by
        row; 0 when left out.
    graph, widths, geometry, activation, reduction, kernel
        As for `gno_with_laplacian`.

    Returns
    -------
    out : array, (..., n_dst, F_out)
    gradient : array, (..., n_dst, d, F_out)
    hessian : array, (..., n_dst, d, d, F_out)

    See Also
    --------
    gno_with_laplacian : what is computed, and how.

    Notes
    -----
    Cost: that of ``1 + d + d (d + 1) / 2`` forward passes of the network at every edge, in `vjp`
    three times that. Memory is that of `gno_with_laplacian`, with so many numbers in place of
    d + 2.
    """


def gno_pack_layers(layers: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> NDArray[Any]:
    """Hidden layers of a kernel network in one vector, ``[U_1 | b_1 | U_2 | b_2 | ...]``.

    Parameters
    ----------
    layers : list of (U, b)
        Weights, (width before, width), and biases, (width,).

    Returns
    -------
    packed : array, (n,)

    Raises
    ------
    TypeError
        A weight or bias that is no NumPy array: a copy of a tensor would have no gradient.
    ValueError
        Widths that do not fit those of the layer before.

    See Also
    --------
    gno_unpack_layers : back, without a copy.
    """
    parts: dict[str, NDArray[Any]] = {}
    before: int | None = None
    for k, (U, b) in enumerate(layers, 1):
        parts |= {f"U_{k}": U, f"b_{k}": b}
        shapes = np.shape(U), np.shape(b)
        if len(shapes[0]) != 2 or shapes[1] != shapes[0][1:] or before not in (None, shapes[0][0]):
            needed = "width before" if before is None else before
            raise ValueError(
                f"gno_pack_layers: U_{k} and b_{k} have shapes {shapes[0]} and {shapes[1]}, "
                f"need ({needed}, width) and (width,)"
            )
        (before,) = shapes[1]
    return packed("gno_pack_layers", parts)


def gno_unpack_layers(
    packed: NDArray[Any], n_in: int, widths: Sequence[int]
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Views ``[(U_1, b_1), (U_2, b_2), ...]`` of packed hidden layers.

    Parameters
    ----------
    packed : array, (n,)
        Contiguous.
    n_in : int
        Number of inputs of the network: d for differences, 2 d for pairs.
    widths : list of int
        Widths of the hidden layers.

    Raises
    ------
    TypeError
        Sizes that are no integers.
    ValueError
        A vector of another length, or one that is not contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> layers = gg.gno_unpack_layers(np.arange(13.0), 2, [3, 1])
    >>> [(U.shape, b.shape) for U, b in layers]
    [((2, 3), (3,)), ((3, 1), (1,))]
    >>> bool((gg.gno_pack_layers(layers) == np.arange(13.0)).all())
    True
    """
    widths = integers("gno_unpack_layers: widths", widths, AT_LEAST_0)
    before = [integer("gno_unpack_layers: n_in", n_in, AT_LEAST_0), *widths[:-1]]
    n = sum((m + 1) * width for m, width in zip(before, widths, strict=True))
    check_vector("gno_unpack_layers", "packed", packed, n)
    layers, start = [], 0
    for m, width in zip(before, widths, strict=True):
        middle, end = start + m * width, start + (m + 1) * width
        layers.append((packed[start:middle].reshape(m, width), packed[middle:end]))
        start = end
    return layers

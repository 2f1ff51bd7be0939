# SPDX-License-Identifier: MIT
"""Graph neural operator kernel, and aggregation of neighbours through it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import refuse_mask
from gnograd.faces.operator import operator
from gnograd.graphs.graph import GraphLike
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_0, integer, integers

__all__ = ["gno", "gno_aggregate", "gno_contract", "gno_kernel", "gno_pack", "gno_unpack"]

ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "tanh": 3, "sin": 4, "identity": 5}
REDUCTIONS = {"sum": 0, "mean": 1}
KERNEL_FORMS = {"full": 0, "diagonal": 1}
DIAGONAL = {
    "kernel=diagonal": {
        "F_out": "F_in", "h": "* n_src F_in or None", "V": "H F_in", "b_v": "F_in"
    }
}  # fmt: skip
"""Shapes for a diagonal kernel, which has one width and works without source features."""


@operator(
    inputs={
        "coords": "real n_edges d",
        "U": "d H",
        "b_u": "H",
        "V": "H F_in F_out",
        "b_v": "F_in F_out",
    },
    outputs={"kappa": "n_edges F_in F_out"},
    arguments="n_edges d H F_in F_out activation",
    choices={"activation": ACTIVATIONS},
)
def gno_kernel(
    coords: Array, U: Array, b_u: Array, V: Array, b_v: Array, *, activation: str = "relu"
) -> Array:
    """Kernel matrix of every edge.

    ``kappa[e] = act(coords[e] @ U + b_u) . V + b_v``, with the dot product over the hidden
    width H. With ``activation="relu"`` the gradient to the coordinates is
    ``U diag(U^T c + b_u > 0) (V . g)``, in O(F_in F_out H + H d) operations an edge.

    Parameters
    ----------
    coords : array, (n_edges, d)
        Geometry of every edge, for example the difference of its ends.
    U, b_u : array, (d, H), (H,)
        First layer of the kernel network.
    V, b_v : array, (H, F_in, F_out), (F_in, F_out)
        Second layer.
    activation : {"relu", "gelu", "silu", "tanh", "sin", "identity"}
        Gelu in its erf form; the derivative of relu at 0 is 0.

    Returns
    -------
    kappa : array, (n_edges, F_in, F_out)

    See Also
    --------
    gno : the same kernel applied to a graph without forming `kappa`.

    Notes
    -----
    Cost: ``2 n_edges H (d + F_in F_out)`` operations forward, ``2 n_edges H (3 d + 2 F_in F_out)``
    in `vjp`.

    Peak temporary memory, in numbers: ``P F_in F_out (H + 1)`` for the sums of gradients over
    the edges, and ``480 H`` a thread, with H rounded up to a multiple of 16. P is the number of
    pieces that the edges are summed in, at most 64; the sums take at most 64 MiB, or 8 pieces.

    In bfloat16, on GPUs, `coords` are float32, and so are sums. Hidden features and their gradients
    are rounded before they are multiplied with the last layer, see `gno`.

    References
    ----------
    Li et al., Neural Operator: Graph Kernel Network for Partial Differential Equations,
    arXiv:2003.03485, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> coords = np.array([[1.0, -2.0]])
    >>> U, b_u = np.eye(2), np.zeros(2)
    >>> V, b_v = np.ones((2, 1, 3)), np.zeros((1, 3))
    >>> gg.gno_kernel(coords, U, b_u, V, b_v)
    array([[[1., 1., 1.]]])
    """


@operator(
    inputs={"h": "n_src F_in", "kappa": "n_edges F_in F_out"},
    outputs={"out": "n_dst F_out"},
    arguments="graph F_in F_out reduction",
    bilinear="always",
    choices={"reduction": REDUCTIONS},
)
def gno_aggregate(h: Array, kappa: Array, *, graph: GraphLike, reduction: str = "sum") -> Array:
    """Aggregation of neighbours with a given kernel matrix an edge.

    ``out[i]`` is the sum or mean of ``h[j] @ kappa[e]`` over the edges ``e = (j -> i)``.

    Parameters
    ----------
    h : array, (n_src, F_in)
        Features of the sources.
    kappa : array, (n_edges, F_in, F_out)
        Kernel matrix of every edge.
    graph : Graph
    reduction : {"sum", "mean"}
        The mean is over the edges of a destination, 0 where there are none.

    Returns
    -------
    out : array, (n_dst, F_out)

    Notes
    -----
    Cost: ``2 n_edges F_in F_out`` operations forward, twice that in `vjp`; every `kappa` is read
    once in each, which is what takes the time.

    No temporary memory. In bfloat16, on GPUs, sums are float32, and rounded once.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> h, kappa = np.array([[1.0], [10.0]]), np.full((2, 1, 2), 0.5)
    >>> gg.gno_aggregate(h, kappa, graph=graph)
    array([[5.5, 5.5],
           [0. , 0. ]])
    """


@operator(
    inputs={
        "h": "* n_src F_in",
        "hid": "n_edges H",
        "V": "H F_in F_out",
        "b_v": "F_in F_out",
        "edge_weight": "real n_edges or None",
    },
    outputs={"out": "* n_dst F_out"},
    arguments="graph n_batch H F_in F_out reduction kernel",
    when=DIAGONAL,
    choices={"reduction": REDUCTIONS, "kernel": KERNEL_FORMS},
)
def gno_contract(
    h: Array | None,
    hid: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    *,
    graph: GraphLike,
    reduction: str = "sum",
    kernel: str = "full",
) -> Array:
    """Aggregation for any kernel network whose last layer is linear.

    ``out[i]`` is the sum or mean over the edges ``e = (j -> i)`` of
    ``edge_weight[e] * h[j] @ (hid[e] . V + b_v)``. The kernel matrices are never formed:
    ``Z[i] = sum_e edge_weight[e] * outer(h[j], [hid[e], 1])`` comes first, and then one matrix
    product ``Z . [V; b_v]``.

    Parameters
    ----------
    h : array, (..., n_src, F_in), or None
        Features of the sources; None is 1, for the diagonal kernel only. Leading axes are a batch
        of functions on the same graph, which share everything else.
    hid : array, (n_edges, H)
        Last hidden features of the kernel network, computed once for several layers if need be.
    V, b_v : array, (H, F_in, F_out), (F_in, F_out)
        Last layer of the kernel network; (H, F), (F,) for the diagonal kernel.
    edge_weight : array, (n_edges,), optional
        Quadrature weights.
    graph : Graph
    reduction : {"sum", "mean"}
        The mean is over the edges of a destination, 0 where there are none.
    kernel : {"full", "diagonal"}
        A diagonal kernel multiplies ``h[j]`` element by element.

    Returns
    -------
    out : array, (..., n_dst, F_out)
        With the leading axes of `h`.

    Notes
    -----
    Cost: that of `gno` without the first layer.

    Temporary memory is that of `gno`, and so are types, errors in bfloat16, and what weights that
    are not finite do.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> graph = gg.Graph.from_edges(src=[0, 1], dst=[0, 0], n_src=2)
    >>> h, hid = np.array([[1.0], [10.0]]), np.array([[2.0], [3.0]])
    >>> gg.gno_contract(h, hid, np.ones((1, 1, 1)), np.zeros((1, 1)), graph=graph)
    array([[32.],
           [ 0.]])
    """


@operator(
    inputs={
        "h": "* n_src F_in",
        "coords": "real n_edges d",
        "U": "d H",
        "b_u": "H",
        "V": "H F_in F_out",
        "b_v": "F_in F_out",
        "edge_weight": "real n_edges or None",
    },
    outputs={"out": "* n_dst F_out"},
    arguments="graph n_batch d H F_in F_out activation reduction kernel",
    when=DIAGONAL,
    choices={"activation": ACTIVATIONS, "reduction": REDUCTIONS, "kernel": KERNEL_FORMS},
)
def gno(
    h: Array | None,
    coords: Array,
    U: Array,
    b_u: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    *,
    graph: GraphLike,
    activation: str = "relu",
    reduction: str = "sum",
    kernel: str = "full",
) -> Array:
    """Graph neural operator: integral of features against a learned kernel of the geometry.

    ``out[i]`` is the sum or mean over the edges ``e = (j -> i)`` of
    ``edge_weight[e] * h[j] @ kappa[e]``, with the kernel of `gno_kernel`, which is never formed.
    Nothing of size n_edges x H is kept either: the hidden features are computed again where a
    derivative needs them, once for all functions of a batch.

    Parameters
    ----------
    h : array, (..., n_src, F_in), or None
        Features of the sources; None is 1, for the diagonal kernel only. Leading axes are a batch
        of functions on the same graph, which share everything else.
    coords : array, (n_edges, d)
        Geometry of every edge, for example the difference of its ends.
    U, b_u : array, (d, H), (H,)
        First layer of the kernel network.
    V, b_v : array, (H, F_in, F_out), (F_in, F_out)
        Second layer; (H, F), (F,) for the diagonal kernel.
    edge_weight : array, (n_edges,), optional
        Quadrature weights.
    graph : Graph
    activation : {"relu", "gelu", "silu", "tanh", "sin", "identity"}
        Gelu in its erf form; the derivative of relu at 0 is 0. With relu and identity the second
        derivative by the coordinates alone is zero.
    reduction : {"sum", "mean"}
        The mean is over the edges of a destination, 0 where there are none.
    kernel : {"full", "diagonal"}
        A diagonal kernel multiplies ``h[j]`` element by element.

    Returns
    -------
    out : array, (..., n_dst, F_out)
        With the leading axes of `h`.

    See Also
    --------
    gno_contract : for deeper kernel networks.
    gno_kernel, gno_aggregate : the same in two steps.

    Notes
    -----
    Cost: ``2 n_edges (d H + F_in (H + 1)) + 2 n_dst F_in F_out (H + 1)`` operations forward, and
    about ``2 n_edges (3 d H + 2 F_out (H + 1)) + 6 n_src F_in F_out (H + 1)`` in `vjp`: no edge
    multiplies with the last layer. The diagonal kernel takes ``2 n_edges H (d + F)`` forward and
    about three times that in `vjp`.

    Hidden features are taken in slices, with ``S = max(2**17, 16 F_in F_out)`` numbers of the last
    layer in each; S is ``F_in F_out (H + 1)`` if that is less. Peak temporary memory, in numbers,
    with F the larger of F_in and F_out and H rounded up to a multiple of 16: 2 S for reordered
    copies of the layer, ``P S`` for the sums of its gradient, and ``S + 2 max(2**16, 8 F H) + 480
    H`` a thread. Tangents double the copies and the part with F. P is the number of pieces that
    the edges are summed in, at most 64; the sums take at most 64 MiB, or 8 pieces. The diagonal
    kernel takes ``P (F + d) (H + 1)`` and ``480 H + 336 F`` a thread.

    A batch of B functions takes copies of all that has the shape of `h` or `out` (tangents,
    gradients and cotangents included, of cotangents two), with the functions of a node side by
    side. F of the diagonal kernel is then ``B F`` a thread, and of the full one ``8 F H`` is
    ``max(8, B) F H``, with ``144 B F`` more. Where that means fewer operations, and F_in F_out is
    at most 1024, the matrices kappa of 48 edges at a time are formed for all functions instead:
    ``P F_in F_out (H + 1)``, and ``480 H + (288 + 2 H) F_in F_out + 144 B F`` a thread, with B
    rounded up to a multiple of 16.

    The sums of a node are multiplied with the last layer also where they are 0, so that NaN or an
    infinity in `V` or `b_v` makes NaN at destinations without edges, too. One in `U` or `b_u` stays
    where edges bring it.

    In bfloat16, on GPUs, `coords` and `edge_weight` are float32, as is all arithmetic. Sums over
    neighbours, and on the way back products with the last layer, are rounded before they are
    multiplied on. So with u = 2**-8 and to first order in u, an entry of `out` or of a gradient is
    off by at most ``2 u`` times the value of the same formula for absolute values: those of `h`,
    the cotangent, the weights, the hidden features and slopes. It is ``3 u`` where a node has more
    than 256 edges, ``4 u`` for the diagonal kernel, and ``u`` more for derivatives along tangents.
    float32 adds some ``2**-24 (n + H F)`` for n edges of a node. Roundings cancel: on random
    numbers the root mean square of the error is 0.4 to 0.8 u of that of the result.

    References
    ----------
    Li et al., Neural Operator: Graph Kernel Network for Partial Differential Equations,
    arXiv:2003.03485, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.random((50, 2))
    >>> graph = gg.Graph.radius(x, 0.3)
    >>> coords = x[graph.dst] - x[graph.src]
    >>> U, b_u = rng.normal(size=(2, 8)), np.zeros(8)
    >>> V, b_v = rng.normal(size=(8, 3, 4)), np.zeros((3, 4))
    >>> h = rng.normal(size=(50, 3))
    >>> out = gg.gno(h, coords, U, b_u, V, b_v, graph=graph, reduction="mean")
    >>> out.shape
    (50, 4)
    >>> inputs = (h, coords, U, b_u, V, b_v)
    >>> grads = gg.gno.vjp(out, inputs, wrt={"U", "V"}, graph=graph, reduction="mean")
    >>> [None if g is None else g.shape for g in grads]
    [None, None, (2, 8), None, (8, 3, 4), None, None]

    Sixteen functions at once:

    >>> batch = rng.normal(size=(16, 50, 3))
    >>> gg.gno(batch, coords, U, b_u, V, b_v, graph=graph, reduction="mean").shape
    (16, 50, 4)
    """


def gno_pack(
    U: NDArray[Any], b_u: NDArray[Any], V: NDArray[Any], b_v: NDArray[Any]
) -> NDArray[Any]:
    """Parameters of a kernel in one vector, ``[U | b_u | V | b_v]``.

    The order is that of athena's packed column, which holds Fortran arrays (H, d), (H),
    (F_out, F_in, H), (F_out, F_in).

    Parameters
    ----------
    U, b_u, V, b_v : array
        As `gno` takes them.

    Returns
    -------
    params : array, (d*H + H + H*F_in*F_out + F_in*F_out,)

    See Also
    --------
    gno_unpack : back, without a copy.
    """
    return packed("gno_pack", {"U": U, "b_u": b_u, "V": V, "b_v": b_v})


def gno_unpack(
    params: NDArray[Any], d: int, n_hidden: int, kernel_shape: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Views ``(U, b_u, V, b_v)`` of a packed vector: changing one changes the other.

    Parameters
    ----------
    params : array, (d*H + H + H*F + F,)
        Contiguous; F is the number of entries of the kernel matrix.
    d, n_hidden : int
        Dimension of the geometry, hidden width H.
    kernel_shape : tuple of int
        ``(F_in, F_out)``, or ``(F,)`` for the diagonal kernel.

    Returns
    -------
    U, b_u, V, b_v : array
        As `gno` takes them.

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
    >>> params = np.arange(32.0)
    >>> U, b_u, V, b_v = gg.gno_unpack(params, d=2, n_hidden=4, kernel_shape=(2, 2))
    >>> b_u
    array([ 8.,  9., 10., 11.])
    >>> bool((gg.gno_pack(U, b_u, V, b_v) == params).all())
    True
    """
    d = integer("gno_unpack: d", d, AT_LEAST_0)
    H = integer("gno_unpack: n_hidden", n_hidden, AT_LEAST_0)
    kernel = integers("gno_unpack: kernel_shape", kernel_shape, AT_LEAST_0)
    shapes = (d, H), (H,), (H, *kernel), kernel
    ends = [*itertools.accumulate(map(math.prod, shapes))]
    check_vector("gno_unpack", "params", params, ends[-1])
    parts = np.split(params, ends[:-1])
    U, b_u, V, b_v = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    return U, b_u, V, b_v


def packed(name: str, parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Join arrays in a vector; TypeError for tensors, whose gradients would be lost."""
    for label, part in parts.items():
        if not isinstance(part, np.ndarray | list | tuple):
            raise TypeError(
                f"{name}: {label} is of type {type(part).__name__}, needs a NumPy array; "
                "torch.cat([part.flatten() for part in ...]) packs tensors, and "
                "gnograd.autodiff.concatenate([part.reshape(-1) for part in ...]) arrays on a tape"
            )
        refuse_mask(name, label, part)
    return np.concatenate([np.ravel(part) for part in parts.values()])


def check_vector(name: str, label: str, vector: NDArray[Any], n: int) -> None:
    """Raise an error for a vector that cannot be cut into views."""
    if not isinstance(vector, np.ndarray):
        raise TypeError(f"{name}: {label} is of type {type(vector).__name__}, needs a NumPy array")
    if vector.shape != (n,) or not vector.flags.c_contiguous:
        raise ValueError(f"{name}: {label} has shape {vector.shape}, needs ({n},) and contiguous")

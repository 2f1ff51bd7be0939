# SPDX-License-Identifier: MIT
"""``pylibcugraphops.dimenet``: radial basis and edge-to-edge aggregation of DimeNet++.

The functions are faces of `gnograd.radial_basis` and `gnograd.agg_edge_to_edge`: ``fwd`` the
forward, ``bwd`` the vjp, and the second-order functions jvp and hvp, without the gradients to
vectors. Outputs are overwritten, except the gradients to `w` and, in ``bwd2_main``, to weights,
which are added to what is there. Arrays are float32, or all float64; nodes and edges are int32 or
int64. Every call makes a graph of the edges, in a time proportional to their number.

Raises
------
ValueError
    An array that is missing, misshapen, read-only or, as an output, not contiguous; sizes beyond
    those of pylibcugraphops: 7 degrees, 6 radial functions, n_emb <= 64, n_mid <= 8.
TypeError
    No array, or one of another dtype or device.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.compat.arrays import on_host
from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.faces.operator import Array
from gnograd.graphs.graph import Graph
from gnograd.operators.dimenet import EXCLUSIONS

__all__ = [
    "MMAOp",
    "agg_edge_to_edge_bwd",
    "agg_edge_to_edge_bwd2_grad",
    "agg_edge_to_edge_bwd2_main",
    "agg_edge_to_edge_fwd",
    "radial_basis_bwd",
    "radial_basis_bwd_bwd",
    "radial_basis_fwd",
]

N_SPHERICAL, N_RADIAL = 7, 6
MAX_EMB, MAX_MID = 64, 8
EXPONENT = 5
DTYPES = ("float32", "float64")
Optional = Array | None


class MMAOp(enum.IntEnum):
    """Modes of matrix products on GPUs; here all three compute in the precision of the arrays."""

    HighPrecision = 0
    LowPrecision = 1
    SIMT = 2


# ---- radial basis ----


def _basis_inputs(call: Call) -> tuple[tuple[int, int, int, int], tuple[Array, Array]]:
    """Arguments of kernels before arrays, then distances and frequencies."""
    call.sizes.update(S=N_SPHERICAL, R=N_RADIAL)
    x, w = call.read("input_vector", "n_edges 1"), call.read("input_w", "R")
    return (call.sizes["n_edges"], N_SPHERICAL, N_RADIAL, EXPONENT), (x, w)


def _basis_forward(call: Call) -> None:
    static, inputs = _basis_inputs(call)
    rbf = call.write("output_rbf", "n_edges R", needed=True)
    sbf = call.write("output_sbf_rad", "n_edges S*R", needed=True)
    call.compute("radial_basis", "forward", *static, *inputs, rbf, sbf)
    call.store()


def _basis_cotangents(call: Call) -> tuple[Array, Array]:
    return (
        call.read("input_grad_rbf", "n_edges R", needed=False),
        call.read("input_grad_sbf_rad", "n_edges S*R", needed=False),
    )


def _basis_backward(call: Call) -> None:
    static, inputs = _basis_inputs(call)
    cotangents = _basis_cotangents(call)
    grad_x = call.write("output_grad_vector", "n_edges 1")
    grad_w = call.write("output_grad_w", "R", add=True)
    call.compute("radial_basis", "vjp", *static, *cotangents, *inputs, grad_x, grad_w)
    call.store()


def _basis_second(call: Call) -> None:
    static, inputs = _basis_inputs(call)
    tangents = (
        call.read("input_grad_grad_vector", "n_edges 1", needed=False),
        call.read("input_grad_grad_w", "R", needed=False),
    )
    cotangents = _basis_cotangents(call)
    rbf = call.write("output_grad_grad_rbf", "n_edges R", needed=True)
    sbf = call.write("output_grad_grad_sbf_rad", "n_edges S*R", needed=True)
    grad_w = call.write("output_grad_w", "R", add=True)
    call.compute("radial_basis", "jvp", *static, *inputs, *tangents, rbf, sbf)
    if grad_w is not None:
        call.compute("radial_basis", "hvp", *static, *cotangents, *inputs, *tangents, None, grad_w)
    call.store()


@function(_basis_forward, dtypes=DTYPES)
def radial_basis_fwd(
    output_rbf: Array, output_sbf_rad: Array, input_vector: Array, input_w: Array
) -> None:
    """Radial basis, and radial part of the spherical basis."""


@function(_basis_backward, dtypes=DTYPES)
def radial_basis_bwd(
    output_grad_vector: Optional,
    output_grad_w: Optional,
    input_grad_rbf: Optional,
    input_grad_sbf_rad: Optional,
    input_vector: Array,
    input_w: Array,
) -> None:
    """Gradients of `radial_basis_fwd`; `output_grad_w` is added to."""


@function(_basis_second, dtypes=DTYPES)
def radial_basis_bwd_bwd(
    output_grad_grad_rbf: Array,
    output_grad_grad_sbf_rad: Array,
    output_grad_w: Optional,
    input_grad_grad_vector: Optional,
    input_grad_grad_w: Optional,
    input_grad_rbf: Optional,
    input_grad_sbf_rad: Optional,
    input_vector: Array,
    input_w: Array,
) -> None:
    """Gradients of `radial_basis_bwd` to its cotangents and to `w`, which is added to."""


# ---- edge-to-edge aggregation ----


def _triplet_inputs(call: Call) -> tuple[tuple[Any, ...], tuple[Array, ...]]:
    """Arguments of kernels before arrays, then the inputs of the forward face."""
    call.sizes.update(S=N_SPHERICAL, R=N_RADIAL)
    inputs = (
        call.read("input_vector", "n_edges 3"),
        call.read("input_rbf", "n_edges S*R"),
        call.read("input_embedding", "n_edges n_emb"),
        call.read("input_weights", "S*R+n_emb n_mid"),
    )
    n_emb, n_mid = call.sizes["n_emb"], call.sizes["n_mid"]
    for size, value, limit in ("n_emb", n_emb, MAX_EMB), ("n_mid", n_mid, MAX_MID):
        if value > limit:
            raise ValueError(
                f"{call.name}: {size} is {value}, needs at most {limit}; "
                "gnograd.agg_edge_to_edge takes more"
            )
    value = call.get("mma_operation")
    try:
        MMAOp(value)
    except ValueError:
        names = ", ".join(f"MMAOp.{kind.name}" for kind in MMAOp)
        raise ValueError(f"{call.name}: mma_operation is {value!r}, needs one of {names}") from None
    exclude = EXCLUSIONS["reverse_edge"]
    return (_graph(call), N_SPHERICAL, N_RADIAL, n_mid, n_emb, exclude), inputs


def _graph(call: Call) -> Graph:
    """Graph of the edges `coo_idx`; the other arrays must belong to them."""
    edges = _integers(call, "coo_idx", (2, call.sizes["n_edges"]))
    if call.has("src_offsets"):
        offsets = _integers(call, "src_offsets", None)
        n_nodes = offsets.size - 1
        graph = Graph.from_edges(edges[0], edges[1], n_nodes, n_nodes)
        if not np.array_equal(offsets, graph.transpose.offsets):
            raise ValueError(f"{call.name}: src_offsets does not fit coo_idx")
        return graph
    offsets = _integers(call, "dst_offsets", None)
    order = _integers(call, "dst_edge_index", (call.sizes["n_edges"],))
    graph = Graph(offsets, edges[0][order], offsets.size - 1, order)
    if not np.array_equal(graph.dst, edges[1]):
        raise ValueError(f"{call.name}: dst_offsets and dst_edge_index do not fit coo_idx")
    return graph


def _integers(call: Call, label: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
    array = on_host(call.name, label, call.get(label))
    if array.dtype.kind not in "iu":
        raise TypeError(f"{call.name}: {label} is {array.dtype}, needs integers")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{call.name}: {label} has shape {array.shape}, needs {shape}")
    return array


def _second_tangents(call: Call) -> tuple[Array | None, ...]:
    return (
        None,
        call.read("input_grad_grad_rbf", "n_edges S*R", needed=False),
        call.read("input_grad_grad_embedding", "n_edges n_emb", needed=False),
        None,
    )


def _triplet_forward(call: Call) -> None:
    static, inputs = _triplet_inputs(call)
    out = call.write("output", "n_edges n_emb", needed=True)
    call.compute("agg_edge_to_edge", "forward", *static, *inputs, out)
    call.store()


def _triplet_gradients(call: Call, add: bool) -> tuple[Array | None, ...]:
    return (
        None,
        call.write("grad_rbf", "n_edges S*R"),
        call.write("grad_embedding", "n_edges n_emb"),
        call.write("output_grad_weights", "S*R+n_emb n_mid", add=add),
    )


def _triplet_backward(call: Call) -> None:
    if not call.wants("grad_rbf", "grad_embedding", "output_grad_weights"):
        return
    static, inputs = _triplet_inputs(call)
    cotangent = call.read("input_grad_embedding", "n_edges n_emb")
    gradients = _triplet_gradients(call, add=False)
    call.compute("agg_edge_to_edge", "vjp", *static, cotangent, *inputs, *gradients)
    call.store()


def _triplet_second_main(call: Call) -> None:
    if not call.wants("grad_rbf", "grad_embedding", "output_grad_weights"):
        return
    static, inputs = _triplet_inputs(call)
    tangents = _second_tangents(call)
    cotangent = call.read("input_grad_embedding", "n_edges n_emb")
    gradients = _triplet_gradients(call, add=True)
    call.compute("agg_edge_to_edge", "hvp", *static, cotangent, *inputs, *tangents, *gradients)
    call.store()


def _triplet_second_grad(call: Call) -> None:
    static, inputs = _triplet_inputs(call)
    tangents = _second_tangents(call)
    out = call.write("output_grad_grad_embedding", "n_edges n_emb", needed=True)
    call.compute("agg_edge_to_edge", "jvp", *static, *inputs, *tangents, out)
    call.store()


@function(_triplet_forward, also={"output_embedding": "output"}, dtypes=DTYPES)
def agg_edge_to_edge_fwd(
    output: Array,
    input_vector: Array,
    input_rbf: Array,
    input_embedding: Array,
    input_weights: Array,
    coo_idx: Array,
    dst_offsets: Array,
    dst_edge_index: Array,
    mma_operation: MMAOp,
    cuda_stream: int = 0,
) -> None:
    """Sum at every edge over the edges that end where it starts."""


@function(
    _triplet_backward,
    grad_rbf="output_grad_rbf",
    grad_embedding="output_grad_embedding",
    dtypes=DTYPES,
)
def agg_edge_to_edge_bwd(
    output_grad_rbf: Optional,
    output_grad_embedding: Optional,
    output_grad_weights: Optional,
    input_vector: Array,
    input_rbf: Array,
    input_embedding: Array,
    input_grad_embedding: Array,
    input_weights: Array,
    coo_idx: Array,
    src_offsets: Array,
    mma_operation: MMAOp,
    cuda_stream: int = 0,
) -> None:
    """Gradients of `agg_edge_to_edge_fwd`."""


@function(
    _triplet_second_main,
    grad_rbf="output_grad_rbf_grad_embedding",
    grad_embedding="output_grad_embedding_grad_rbf",
    dtypes=DTYPES,
)
def agg_edge_to_edge_bwd2_main(
    output_grad_rbf_grad_embedding: Optional,
    output_grad_embedding_grad_rbf: Optional,
    output_grad_weights: Optional,
    input_vector: Array,
    input_rbf: Array,
    input_grad_grad_rbf: Optional,
    input_embedding: Array,
    input_grad_grad_embedding: Optional,
    input_grad_embedding: Array,
    input_weights: Array,
    coo_idx: Array,
    src_offsets: Array,
    mma_operation: MMAOp,
    cuda_stream: int = 0,
) -> None:
    """Gradients of `agg_edge_to_edge_bwd` to its inputs; `output_grad_weights` is added to."""


@function(_triplet_second_grad, dtypes=DTYPES)
def agg_edge_to_edge_bwd2_grad(
    output_grad_grad_embedding: Array,
    input_vector: Array,
    input_rbf: Array,
    input_grad_grad_rbf: Optional,
    input_embedding: Array,
    input_grad_grad_embedding: Optional,
    input_weights: Array,
    coo_idx: Array,
    dst_offsets: Array,
    dst_edge_index: Array,
    mma_operation: MMAOp,
    cuda_stream: int = 0,
) -> None:
    """Gradient of `agg_edge_to_edge_bwd` to its cotangent."""

# SPDX-License-Identifier: MIT
"""Graph attention with the activation inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.compat.pylibcugraphops.operators.attention import SCORES, static_arguments
from gnograd.compat.pylibcugraphops.operators.kinds import ActivationKind, mha_params
from gnograd.faces.operator import Array
from gnograd.graphs.graph import Graph

__all__ = [
    "mha_gat_v2_n2n_bwd",
    "mha_gat_v2_n2n_efeat_bwd",
    "mha_gat_v2_n2n_efeat_fwd",
    "mha_gat_v2_n2n_fwd",
]

Optional = Array | None


def _gat_v2_forward(call: Call) -> None:
    columns, static = static_arguments(call)
    inputs = (
        call.read("src_node_embedding", "n_src H*C"),
        call.read("dst_node_embedding", "n_dst H*C"),
        call.read("attention_weights", "H*C"),
        call.read("edge_embedding", "n_edges H*C"),
    )
    outputs = (
        call.write("output_embedding", f"n_dst {columns}", needed=True),
        None,
        call.write("softmax_scores", SCORES, dtype=call.scores_dtype),
        call.write("activation_scores", "n_edges H*C"),
    )
    sizes = call.sizes["H"], call.sizes["C"]
    call.compute(
        "mha_gat_v2", "forward", call.get("graph").graph, *sizes, *static, *inputs, *outputs
    )
    call.store()


def _gat_v2_backward(call: Call) -> None:
    """Gradients without the features of destinations and edges, which the interface leaves out.

    Their contribution to the argument of the activation follows from the activation scores. The
    CPU's kernel gets it as features of edges, with zeros for destinations.
    """
    columns, static = static_arguments(call)
    x_src = call.read("src_node_embedding", "n_src H*C")
    a = call.read("attention_weights", "H*C")
    cotangent = call.read("grad_output_embedding", f"n_dst {columns}")
    scores = call.read("softmax_scores", SCORES, dtype=call.scores_dtype, needed=False)
    activated = call.read("activation_scores", "n_edges H*C")
    call.write("grad_softmax_scores", SCORES, dtype=call.scores_dtype)
    gradients = (
        call.write("grad_src_node_embedding", "n_src H*C"),
        call.write("grad_dst_node_embedding", "n_dst H*C"),
        call.write("grad_attention_weights", "H*C"),
        call.write("grad_edge_embedding", "n_edges H*C"),
    )
    graph = call.get("graph").graph
    _, kind, alpha, *_ = static
    if kind in (ActivationKind.LeakyReLU, ActivationKind.ELU) and alpha < 0:
        raise ValueError(f"{call.name}: alpha is {alpha}, needs a number that is not negative")
    # kernels on a GPU do not need them, given the activation scores
    x_dst = e = None
    if isinstance(activated, np.ndarray):
        e = _by_row(graph, _inactive(kind, alpha, activated) - x_src[graph.indices])
        x_dst = np.zeros((graph.n_dst, x_src.shape[1]), x_src.dtype)
    sizes = call.sizes["H"], call.sizes["C"]
    saved = None, None, scores, activated
    call.compute(
        "mha_gat_v2", "vjp", graph, *sizes, *static, cotangent, x_src, x_dst, a, e,
        *saved, *gradients,
    )  # fmt: skip
    call.store()


def _by_row(graph: Graph, added: Any) -> Any:
    """Bring rows in the graph's order into the order of the edge table."""
    if graph.edge_ids is None:
        return added
    e = np.empty_like(added)
    e[graph.edge_ids] = added
    return e


def _inactive(kind: ActivationKind, c: float, t: Any) -> Any:
    """A solution u of ``act(u) = t``; if there are several, all have the same derivative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind is ActivationKind.LeakyReLU:
            return np.where(t > 0, t, t / c if c else 0 * t)
        if kind is ActivationKind.ELU:
            return np.where(t > 0, t, np.log1p(np.maximum(t / c, -1)) if c else 0 * t)
        if kind is ActivationKind.Scalar:
            return t / c if c else 0 * t
        if kind is ActivationKind.Sigmoid:
            return np.log(t) - np.log1p(-t)
        if kind is ActivationKind.Tanh:
            return np.arctanh(t)
        return t


@function(_gat_v2_forward)
def mha_gat_v2_n2n_fwd(
    output_embedding: Array,
    softmax_scores: Optional,
    activation_scores: Optional,
    src_node_embedding: Array,
    dst_node_embedding: Array,
    attention_weights: Array,
    graph: Csc,
    params: mha_params,
    stream_id: int = 0,
) -> None:
    """Graph attention with the activation inside; its scores are float32, or float64."""


@function(_gat_v2_backward)
def mha_gat_v2_n2n_bwd(
    grad_src_node_embedding: Optional,
    grad_dst_node_embedding: Optional,
    grad_attention_weights: Optional,
    grad_softmax_scores: Optional,
    grad_output_embedding: Array,
    src_node_embedding: Array,
    attention_weights: Array,
    softmax_scores: Optional,
    activation_scores: Array,
    graph: Csc,
    params: mha_params,
    grad_attention_weights_workspace: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `mha_gat_v2_n2n_fwd`, from its saved arrays."""


@function(_gat_v2_forward)
def mha_gat_v2_n2n_efeat_fwd(
    output_embedding: Array,
    softmax_scores: Optional,
    activation_scores: Optional,
    src_node_embedding: Array,
    dst_node_embedding: Array,
    edge_embedding: Array,
    attention_weights: Array,
    graph: Csc,
    params: mha_params,
    stream_id: int = 0,
) -> None:
    """Graph attention with the activation inside, and edge features."""


@function(_gat_v2_backward)
def mha_gat_v2_n2n_efeat_bwd(
    grad_src_node_embedding: Optional,
    grad_dst_node_embedding: Optional,
    grad_edge_embedding: Optional,
    grad_attention_weights: Optional,
    grad_softmax_scores: Optional,
    grad_output_embedding: Array,
    src_node_embedding: Array,
    attention_weights: Array,
    softmax_scores: Optional,
    activation_scores: Array,
    graph: Csc,
    params: mha_params,
    grad_attention_weights_workspace: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `mha_gat_v2_n2n_efeat_fwd`, from its saved arrays."""

# SPDX-License-Identifier: MIT
"""Graph attention, a function for every choice of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.compat.pylibcugraphops.operators.attention import SCORES, static_arguments
from gnograd.compat.pylibcugraphops.operators.kinds import mha_params
from gnograd.faces.operator import Array

__all__ = [
    "mha_gat_n2n_bwd_bf16_bf16_bf16_fp32",
    "mha_gat_n2n_bwd_bf16_bf16_fp32_fp32",
    "mha_gat_n2n_bwd_bf16_fp32_fp32_fp32",
    "mha_gat_n2n_bwd_fp16_fp16_fp16_fp32",
    "mha_gat_n2n_bwd_fp16_fp16_fp32_fp32",
    "mha_gat_n2n_bwd_fp16_fp32_fp32_fp32",
    "mha_gat_n2n_bwd_fp32_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_bf16_bf16_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_bf16_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_bf16_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp16_fp16_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp16_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp16_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_bwd_fp32_fp32_fp32_fp32",
    "mha_gat_n2n_efeat_fwd_bf16_fp32",
    "mha_gat_n2n_efeat_fwd_fp16_fp32",
    "mha_gat_n2n_efeat_fwd_fp32_fp32",
    "mha_gat_n2n_fwd_bf16_fp32",
    "mha_gat_n2n_fwd_fp16_fp32",
    "mha_gat_n2n_fwd_fp32_fp32",
]

P = ParamSpec("P")
Optional = Array | None
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def _gat_inputs(call: Call) -> tuple[tuple[int, int, int], tuple[Array, ...]]:
    """The sizes H, C and Ce, and features of sources, destinations, weights, and edges."""
    x_src, x_dst = call.read("x_src", "n_src H*C"), call.read("x_dst", "n_dst H*C")
    e = call.read("edge_embedding", "n_edges H*Ce")
    sizes = call.sizes["H"], call.sizes["C"], call.sizes.setdefault("Ce", 0)
    return sizes, (x_src, x_dst, call.read("attention_weights", "2*H*C+H*Ce"), e)


def _gat_forward(call: Call) -> None:
    columns, static = static_arguments(call)
    sizes, inputs = _gat_inputs(call)
    out = call.write("output", f"n_dst {columns}", needed=True)
    scores = call.write("softmax_scores", SCORES, dtype=call.scores_dtype)
    graph = call.get("graph").graph
    call.compute("mha_gat", "forward", graph, *sizes, *static, *inputs, out, None, scores)
    call.store()


def _gat_backward(dgrad: str, wgrad: str) -> Callable[[Call], None]:
    def body(call: Call) -> None:
        columns, static = static_arguments(call)
        sizes, inputs = _gat_inputs(call)
        cotangent = call.read("grad_output_embedding", f"n_dst {columns}")
        scores = call.read("softmax_scores", SCORES, dtype=call.scores_dtype, needed=False)
        call.write("grad_softmax_scores", SCORES, dtype=call.scores_dtype)
        gradients = (
            call.write("grad_src_node_embedding", "n_src H*C", dtype=dgrad),
            call.write("grad_dst_node_embedding", "n_dst H*C", dtype=dgrad),
            call.write("grad_attention_weights", "2*H*C+H*Ce", dtype=wgrad),
            call.write("grad_edge_embedding", "n_edges H*Ce", dtype=dgrad),
        )
        graph = call.get("graph").graph
        saved = None, None, scores
        call.compute(
            "mha_gat", "vjp", graph, *sizes, *static, cotangent, *inputs, *saved, *gradients
        )
        call.store()

    return body


def _forward_in(dtype: str, declaration: Callable[P, None]) -> Callable[P, None]:
    """Forward function for arrays of this type."""
    return function(
        _gat_forward,
        f"{declaration.__name__}_{dtype}_fp32",
        {
            "output_embedding": "output",
            "src_node_embedding": "src_embedding",
            "dst_node_embedding": "dst_embedding",
        },
        (DTYPES[dtype],),
        x_src="src_embedding",
        x_dst="dst_embedding",
    )(declaration)


def _backward_in(
    dtype: str, dgrad: str, wgrad: str, declaration: Callable[P, None]
) -> Callable[P, None]:
    """Backward function for arrays, gradients of features and of weights of these types."""
    return function(
        _gat_backward(DTYPES[dgrad], DTYPES[wgrad]),
        f"{declaration.__name__}_{dtype}_{dgrad}_{wgrad}_fp32",
        dtypes=(DTYPES[dtype],),
        mixed=len({dtype, dgrad, wgrad}) > 1,
        x_src="src_node_embedding",
        x_dst="dst_node_embedding",
    )(declaration)


def mha_gat_n2n_fwd(
    output: Array,
    softmax_scores: Optional,
    src_embedding: Array,
    dst_embedding: Array,
    attention_weights: Array,
    graph: Csc,
    params: mha_params,
    stream_id: int = 0,
) -> None:
    """Graph attention."""


def mha_gat_n2n_bwd(
    grad_src_node_embedding: Optional,
    grad_dst_node_embedding: Optional,
    grad_attention_weights: Optional,
    grad_softmax_scores: Optional,
    grad_output_embedding: Array,
    src_node_embedding: Array,
    dst_node_embedding: Array,
    attention_weights: Array,
    softmax_scores: Optional,
    graph: Csc,
    params: mha_params,
    grad_attention_weights_workspace: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of graph attention."""


def mha_gat_n2n_efeat_fwd(
    output: Array,
    softmax_scores: Optional,
    src_embedding: Array,
    dst_embedding: Array,
    edge_embedding: Array,
    attention_weights: Array,
    graph: Csc,
    params: mha_params,
    stream_id: int = 0,
) -> None:
    """Graph attention with edge features."""


def mha_gat_n2n_efeat_bwd(
    grad_src_node_embedding: Optional,
    grad_dst_node_embedding: Optional,
    grad_edge_embedding: Optional,
    grad_attention_weights: Optional,
    grad_softmax_scores: Optional,
    grad_output_embedding: Array,
    src_node_embedding: Array,
    dst_node_embedding: Array,
    edge_embedding: Array,
    attention_weights: Array,
    softmax_scores: Optional,
    graph: Csc,
    params: mha_params,
    grad_attention_weights_workspace: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of graph attention with edge features."""


mha_gat_n2n_fwd_fp32_fp32 = _forward_in("fp32", mha_gat_n2n_fwd)
mha_gat_n2n_fwd_fp16_fp32 = _forward_in("fp16", mha_gat_n2n_fwd)
mha_gat_n2n_fwd_bf16_fp32 = _forward_in("bf16", mha_gat_n2n_fwd)
mha_gat_n2n_bwd_fp32_fp32_fp32_fp32 = _backward_in("fp32", "fp32", "fp32", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_fp16_fp16_fp16_fp32 = _backward_in("fp16", "fp16", "fp16", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_fp16_fp16_fp32_fp32 = _backward_in("fp16", "fp16", "fp32", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_fp16_fp32_fp32_fp32 = _backward_in("fp16", "fp32", "fp32", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_bf16_bf16_bf16_fp32 = _backward_in("bf16", "bf16", "bf16", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_bf16_bf16_fp32_fp32 = _backward_in("bf16", "bf16", "fp32", mha_gat_n2n_bwd)
mha_gat_n2n_bwd_bf16_fp32_fp32_fp32 = _backward_in("bf16", "fp32", "fp32", mha_gat_n2n_bwd)

mha_gat_n2n_efeat_fwd_fp32_fp32 = _forward_in("fp32", mha_gat_n2n_efeat_fwd)
mha_gat_n2n_efeat_fwd_fp16_fp32 = _forward_in("fp16", mha_gat_n2n_efeat_fwd)
mha_gat_n2n_efeat_fwd_bf16_fp32 = _forward_in("bf16", mha_gat_n2n_efeat_fwd)
mha_gat_n2n_efeat_bwd_fp32_fp32_fp32_fp32 = _backward_in(
    "fp32", "fp32", "fp32", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_fp16_fp16_fp16_fp32 = _backward_in(
    "fp16", "fp16", "fp16", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_fp16_fp16_fp32_fp32 = _backward_in(
    "fp16", "fp16", "fp32", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_fp16_fp32_fp32_fp32 = _backward_in(
    "fp16", "fp32", "fp32", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_bf16_bf16_bf16_fp32 = _backward_in(
    "bf16", "bf16", "bf16", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_bf16_bf16_fp32_fp32 = _backward_in(
    "bf16", "bf16", "fp32", mha_gat_n2n_efeat_bwd
)
mha_gat_n2n_efeat_bwd_bf16_fp32_fp32_fp32 = _backward_in(
    "bf16", "fp32", "fp32", mha_gat_n2n_efeat_bwd
)
del mha_gat_n2n_fwd, mha_gat_n2n_bwd, mha_gat_n2n_efeat_fwd, mha_gat_n2n_efeat_bwd

# SPDX-License-Identifier: MIT
"""``pylibcugraphops.operators``: aggregation and graph attention.

Each function takes its outputs first, then its inputs, the graph and the static arguments, as
pylibcugraphops 24.12 does. ``fwd`` functions are forward faces, ``bwd`` functions vjp faces of
`gnograd.agg_weighted`, `gnograd.agg_simple`, `gnograd.agg_concat`, `gnograd.mha_gat` and
`gnograd.mha_gat_v2`, whose documentation has the formulas and shapes.

All arrays of a call are float32, float64, float16 or bfloat16, except where a function's name says
more. The arithmetic of both half precisions is float32. Results do not depend on the
number of threads, so that the workspaces that make them deterministic are accepted, but not used.

Raises
------
ValueError
    An array that is missing, misshapen, read-only or, as an output, not contiguous; named.
TypeError
    No array, or one of another dtype or device.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.graph import Graph
from gnograd.operator import Array
from gnograd.static import AT_LEAST_0, AT_LEAST_1, boolean, integer, number

P = ParamSpec("P")
Optional = Array | None


class AggOp(enum.IntEnum):
    """How the edges of a node are aggregated."""

    Sum = 0
    Mean = 1
    Min = 2
    Max = 3


class ActivationKind(enum.IntEnum):
    """Activations of attention."""

    LeakyReLU = 0
    ELU = 1
    Linear = 2
    ReLU = 3
    Scalar = 4
    Sigmoid = 5
    Tanh = 6


class mha_params(NamedTuple):
    """Static arguments of attention.

    Attributes
    ----------
    num_heads : int
    concat_heads : bool
        Heads side by side, or their mean.
    activation : ActivationKind or str
        A member, or its name.
    alpha : float
        Parameter of LeakyReLU, ELU and Scalar.
    """

    num_heads: int = 1
    concat_heads: bool = True
    activation: ActivationKind | str = ActivationKind.LeakyReLU
    alpha: float = 0.2


# ---- aggregation: one kernel, some of whose blocks are absent ----


def _forward(columns: str, own_is_x: bool = False) -> Callable[[Call], None]:
    """``output = [Agg w x | Agg e | own]``, with these columns."""

    def body(call: Call) -> None:
        graph, aggregation = call.get("graph"), _aggregation(call)
        _check_sizes(call, own_is_x)
        x, w, e = call.read("x", "n_src D"), call.read("w", "n_edges"), call.read("e", "n_edges De")
        own = x if own_is_x else call.read("own", "n_dst Do")
        D, De = (call.sizes.setdefault(size, 0) for size in ("D", "De"))
        Do = 0 if own is None else own.shape[1]
        out, location, degree = call.write("output", f"n_dst {columns}", needed=True), None, None
        if _is_extreme(aggregation):
            location = call.write("output_extrema_location", "n_dst D+De", graph.index_dtype, True)
        if aggregation is AggOp.Mean:
            degree = call.write("node_degree", "n_dst", needed=True, real=True)
        call.compute(
            "agg_concat", "forward", graph.graph, D, De, Do, aggregation,
            x, w, e, own, out, location, degree,
        )  # fmt: skip
        call.store()

    return body


def _backward(columns: str, own_is_x: bool = False) -> Callable[[Call], None]:
    """Gradients of `_forward`; where `own_is_x`, that of x has both parts."""

    def body(call: Call) -> None:
        if not call.wants("grad_x", "grad_w", "grad_e", "grad_own"):
            return
        graph, aggregation = call.get("graph"), _aggregation(call)
        _check_sizes(call, own_is_x)
        grad_x, grad_w = call.write("grad_x", "n_src D"), call.write("grad_w", "n_edges")
        grad_e = call.write("grad_e", "n_edges De")
        grad_own = grad_x if own_is_x else call.write("grad_own", "n_dst Do")
        x, w = call.read("x", "n_src D"), call.read("w", "n_edges")
        for size, block in ("D", "grad_x"), ("De", "grad_e"):
            if not call.has(block):
                call.sizes[size] = 0
        cotangent = call.read("grad_output", f"n_dst {columns}")
        D, De = call.sizes["D"], call.sizes["De"]
        out = location = degree = None
        if _is_extreme(aggregation):
            location = call.read("output_extrema_location", "n_dst D+De", graph.index_dtype)
        if aggregation is AggOp.Mean:
            out = call.read("output_embedding", f"n_dst {columns}")
            degree = call.read("node_degree", "n_dst", real=True)
        call.compute(
            "agg_concat", "vjp", graph.graph, D, De, cotangent.shape[1] - D - De, aggregation,
            cotangent, x, w, None, None, out, location, degree, grad_x, grad_w, grad_e, grad_own,
        )  # fmt: skip
        call.store()

    return body


def _aggregation(call: Call) -> AggOp:
    value = call.get("aggregation_operation")
    try:
        return AggOp(value)
    except ValueError:
        names = ", ".join(f"AggOp.{kind.name}" for kind in AggOp)
        raise ValueError(
            f"{call.name}: aggregation_operation is {value!r}, needs one of {names}"
        ) from None


def _is_extreme(aggregation: AggOp) -> bool:
    return aggregation in (AggOp.Min, AggOp.Max)


def _check_sizes(call: Call, own_is_x: bool) -> None:
    """Take in the widths that are told, and see that nodes can be their own neighbours."""
    if call.has("dim_node"):
        for size, name in ("D" if own_is_x else "Do", "dim_node"), ("De", "dim_edge"):
            call.sizes[size] = integer(f"{call.name}: {name}", call.get(name), AT_LEAST_0)
    n_src, n_dst = call.sizes["n_src"], call.sizes["n_dst"]
    if own_is_x and n_src != n_dst:
        raise ValueError(
            f"{call.name}: graph has {n_src} sources and {n_dst} destinations, needs one set of "
            "nodes; gnograd.agg_concat takes two"
        )


@function(
    _forward("D"),
    x="input",
    w="edge_weight",
    also={"output_embedding": "output", "input_embedding": "input"},
)
def agg_weighted_n2n_fwd(
    output: Array,
    input: Array,
    edge_weight: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    node_degree: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate weighted features of sources; `node_degree` is written for the mean."""


@function(
    _backward("D"),
    grad_x="grad_input",
    grad_w="grad_edge_weight",
    x="input_embedding",
    w="edge_weight",
)
def agg_weighted_n2n_bwd(
    grad_input: Optional,
    grad_edge_weight: Optional,
    grad_output: Array,
    edge_weight: Array,
    input_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_embedding: Optional = None,
    output_extrema_location: Optional = None,
    node_degree: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_weighted_n2n_fwd`; the mean reads its output and `node_degree`."""


@function(_forward("D"), output="output_embedding", x="input_embedding")
def agg_simple_n2n_fwd(
    output_embedding: Array,
    input_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of sources."""


@function(_backward("D"), grad_x="grad_input")
def agg_simple_n2n_bwd(
    grad_input: Optional,
    grad_output: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradient of `agg_simple_n2n_fwd`."""


@function(_forward("De"), output="output_embedding", e="input_embedding")
def agg_simple_e2n_fwd(
    output_embedding: Array,
    input_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of edges."""


@function(_backward("De"), grad_e="grad_input")
def agg_simple_e2n_bwd(
    grad_input: Optional,
    grad_output: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradient of `agg_simple_e2n_fwd`."""


@function(
    _forward("D+De"),
    output="output_embedding",
    x="input_node_embedding",
    e="input_edge_embedding",
)
def agg_simple_n2n_e2n_fwd(
    output_embedding: Array,
    input_node_embedding: Array,
    input_edge_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of sources and of edges, ``[sources | edges]``."""


@function(_backward("D+De"), grad_x="grad_input_node", grad_e="grad_input_edge")
def agg_simple_n2n_e2n_bwd(
    grad_input_node: Optional,
    grad_input_edge: Optional,
    grad_output: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_simple_n2n_e2n_fwd`."""


@function(_forward("2*D", own_is_x=True), output="output_embedding", x="input_embedding")
def agg_concat_n2n_fwd(
    output_embedding: Array,
    input_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of nodes beside their own, ``[neighbours | own]``."""


@function(_backward("2*D", own_is_x=True), grad_x="grad_input")
def agg_concat_n2n_bwd(
    grad_input: Optional,
    grad_output: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradient of `agg_concat_n2n_fwd`."""


@function(
    _forward("De+Do"),
    output="output_embedding",
    e="input_edge_embedding",
    own="input_node_embedding",
)
def agg_concat_e2n_fwd(
    output_embedding: Array,
    input_edge_embedding: Array,
    input_node_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of edges beside the nodes' own, ``[edges | own]``."""


@function(_backward("De+Do"), grad_e="grad_input_edge", grad_own="grad_input_node")
def agg_concat_e2n_bwd(
    grad_input_edge: Optional,
    grad_input_node: Optional,
    grad_output: Array,
    graph: Csc,
    dim_edge: int,
    dim_node: int,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_concat_e2n_fwd`."""


@function(
    _forward("D+De+D", own_is_x=True),
    output="output_embedding",
    x="input_node_embedding",
    e="input_edge_embedding",
)
def agg_concat_n2n_e2n_fwd(
    output_embedding: Array,
    input_node_embedding: Array,
    input_edge_embedding: Array,
    graph: Csc,
    dim_node: int,
    dim_edge: int,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate features of nodes and edges beside the nodes' own, ``[nodes | edges | own]``."""


@function(_backward("D+De+D", own_is_x=True), grad_x="grad_input_node", grad_e="grad_input_edge")
def agg_concat_n2n_e2n_bwd(
    grad_input_node: Optional,
    grad_input_edge: Optional,
    grad_output: Array,
    graph: Csc,
    dim_node: int,
    dim_edge: int,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_concat_n2n_e2n_fwd`."""


@function(
    _forward("2*D", own_is_x=True),
    output="output_embedding",
    x="input_embedding",
    w="edge_weight",
)
def agg_concat_weighted_n2n_fwd(
    output_embedding: Array,
    input_embedding: Array,
    edge_weight: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_extrema_location: Optional = None,
    node_degree: Optional = None,
    stream_id: int = 0,
) -> None:
    """Aggregate weighted features of nodes beside their own, ``[neighbours | own]``."""


@function(
    _backward("2*D", own_is_x=True),
    grad_x="grad_input",
    grad_w="grad_edge_weight",
    x="input_embedding",
    w="edge_weight",
)
def agg_concat_weighted_n2n_bwd(
    grad_input: Optional,
    grad_edge_weight: Optional,
    grad_output: Array,
    edge_weight: Array,
    input_embedding: Array,
    graph: Csc,
    aggregation_operation: AggOp = AggOp.Sum,
    output_embedding: Optional = None,
    output_extrema_location: Optional = None,
    node_degree: Optional = None,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_concat_weighted_n2n_fwd`."""


# ---- graph attention ----

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
SCORES = "2 H n_edges"
NO_DROPOUT = 0.0, None


def _gat_static(call: Call) -> tuple[str, tuple[bool, ActivationKind, float, float, None]]:
    """Columns of the output, and what kernels take behind the sizes; H is known from now on."""
    params = call.get("params")
    if not isinstance(params, mha_params):
        raise TypeError(f"{call.name}: params is of type {type(params).__name__}, needs mha_params")
    call.sizes["H"] = integer(f"{call.name}: num_heads", params.num_heads, AT_LEAST_1)
    concat_heads = boolean(f"{call.name}: concat_heads", params.concat_heads)
    alpha = number(f"{call.name}: alpha", params.alpha)
    value = params.activation
    try:
        kind = ActivationKind[value] if isinstance(value, str) else ActivationKind(value)
    except (KeyError, ValueError):
        names = ", ".join(kind.name for kind in ActivationKind)
        raise ValueError(f"{call.name}: activation is {value!r}, needs one of {names}") from None
    return "H*C" if concat_heads else "C", (concat_heads, kind, alpha, *NO_DROPOUT)


def _gat_inputs(call: Call) -> tuple[tuple[int, int, int], tuple[Array, ...]]:
    """The sizes H, C and Ce, and features of sources, destinations, weights, and edges."""
    x_src, x_dst = call.read("x_src", "n_src H*C"), call.read("x_dst", "n_dst H*C")
    e = call.read("edge_embedding", "n_edges H*Ce")
    sizes = call.sizes["H"], call.sizes["C"], call.sizes.setdefault("Ce", 0)
    return sizes, (x_src, x_dst, call.read("attention_weights", "2*H*C+H*Ce"), e)


def _gat_forward(call: Call) -> None:
    columns, static = _gat_static(call)
    sizes, inputs = _gat_inputs(call)
    out = call.write("output", f"n_dst {columns}", needed=True)
    scores = call.write("softmax_scores", SCORES, dtype=call.scores_dtype)
    graph = call.get("graph").graph
    call.compute("mha_gat", "forward", graph, *sizes, *static, *inputs, out, None, scores)
    call.store()


def _gat_backward(dgrad: str, wgrad: str) -> Callable[[Call], None]:
    def body(call: Call) -> None:
        columns, static = _gat_static(call)
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


# ---- graph attention with the activation inside ----


def _gat_v2_forward(call: Call) -> None:
    columns, static = _gat_static(call)
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

    What they add to a source's features is had from the activation scores. To the CPU's kernel it
    is a feature of the edge, and the destinations have zeros.
    """
    columns, static = _gat_static(call)
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
    # kernels on a GPU do without, given the activation scores
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
    """Rows in the graph's order as rows of the edge table."""
    if graph.edge_ids is None:
        return added
    e = np.empty_like(added)
    e[graph.edge_ids] = added
    return e


def _inactive(kind: ActivationKind, c: float, t: Any) -> Any:
    """One u with ``act(u) = t``; where there are several, all have the derivative of this one."""
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
    """Gradients of `mha_gat_v2_n2n_fwd`, from what it saved."""


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
    """Gradients of `mha_gat_v2_n2n_efeat_fwd`, from what it saved."""

# SPDX-License-Identifier: MIT
"""Aggregation: functions of one kernel, with different blocks of columns."""

from __future__ import annotations

from collections.abc import Callable

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.compat.pylibcugraphops.operators.kinds import AggOp
from gnograd.faces.operator import Array
from gnograd.notation.static import AT_LEAST_0, integer

__all__ = [
    "agg_concat_e2n_bwd",
    "agg_concat_e2n_fwd",
    "agg_concat_n2n_bwd",
    "agg_concat_n2n_e2n_bwd",
    "agg_concat_n2n_e2n_fwd",
    "agg_concat_n2n_fwd",
    "agg_concat_weighted_n2n_bwd",
    "agg_concat_weighted_n2n_fwd",
    "agg_simple_e2n_bwd",
    "agg_simple_e2n_fwd",
    "agg_simple_n2n_bwd",
    "agg_simple_n2n_e2n_bwd",
    "agg_simple_n2n_e2n_fwd",
    "agg_simple_n2n_fwd",
    "agg_weighted_n2n_bwd",
    "agg_weighted_n2n_fwd",
]

Optional = Array | None


def _forward(columns: str, own_is_x: bool = False) -> Callable[[Call], None]:
    """``output = [Agg w x | Agg e | own]``, with these columns."""

    def body(call: Call) -> None:
        graph, aggregation = call.get("graph"), _aggregation(call)
        _check_sizes(call, own_is_x)
        x, w, e = call.read("x", "n_src D"), call.read("w", "n_edges"), call.read("e", "n_edges De")
        # if there are more sources, the first of them are the destinations
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
    """Gradients of `_forward`; with `own_is_x`, that of x is the sum of both parts."""

    def body(call: Call) -> None:
        if not call.wants("grad_x", "grad_w", "grad_e", "grad_own"):
            return
        graph, aggregation = call.get("graph"), _aggregation(call)
        _check_sizes(call, own_is_x)
        grad_x, grad_w = call.write("grad_x", "n_src D"), call.write("grad_w", "n_edges")
        grad_e = call.write("grad_e", "n_edges De")
        grad_own = grad_x if own_is_x else call.write("grad_own", "n_dst Do")
        apart = own_is_x and grad_x is not None and call.sizes["n_src"] > call.sizes["n_dst"]
        if apart:  # kernels add both parts only for one set of nodes
            grad_own = call.scratch(grad_x, call.sizes["n_dst"])
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
        if apart:
            call.add_rows(grad_x, grad_own)
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
    """Read given widths, and check that all destinations have features."""
    if call.has("dim_node"):
        for size, name in ("D" if own_is_x else "Do", "dim_node"), ("De", "dim_edge"):
            call.sizes[size] = integer(f"{call.name}: {name}", call.get(name), AT_LEAST_0)
    n_src, n_dst = call.sizes["n_src"], call.sizes["n_dst"]
    if own_is_x and n_src < n_dst:
        raise ValueError(
            f"{call.name}: graph has {n_src} sources and {n_dst} destinations, needs destinations "
            "that are among the sources; gnograd.agg_concat takes two sets of nodes"
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

# SPDX-License-Identifier: MIT
"""Aggregation along edges of several types, with a basis of combinations."""

from __future__ import annotations

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import HeteroCsc
from gnograd.faces.operator import Array
from gnograd.notation.static import boolean
from gnograd.operators.relational import AGGREGATIONS

__all__ = [
    "agg_hg_basis_mfg_n2n_post_bwd",
    "agg_hg_basis_mfg_n2n_post_fwd",
    "agg_hg_basis_n2n_post_bwd",
    "agg_hg_basis_n2n_post_fwd",
]

Optional = Array | None


def _static(call: Call) -> tuple[HeteroCsc, bool, str]:
    """The graph, a flag for own features, and the aggregation."""
    graph = call.get("graph")
    if not isinstance(graph, HeteroCsc):
        raise TypeError(
            f"{call.name}: graph has no types of edges, needs what make_csc_hg or "
            "make_bipartite_csc_hg gives"
        )
    concat_own = boolean(f"{call.name}: concat_own", call.get("concat_own"))
    if concat_own and graph.n_src_nodes < graph.n_dst_nodes:
        raise ValueError(
            f"{call.name}: graph has {graph.n_src_nodes} sources and {graph.n_dst_nodes} "
            "destinations, needs destinations that are among the sources"
        )
    mean = boolean(f"{call.name}: norm_by_out_degree", call.get("norm_by_out_degree"))
    call.sizes["R"] = graph.n_edge_types
    return graph, concat_own, "mean" if mean else "sum"


def _columns(call: Call, concat_own: bool) -> str:
    """Columns of the output; sets the size B."""
    blocks = "B" if call.sizes.setdefault("B", 0) else "R"
    call.sizes["blocks"] = call.sizes[blocks] + concat_own
    return "n_dst blocks*D"


def _arguments(
    call: Call, graph: HeteroCsc, like: Array, concat_own: bool, aggregation: str
) -> tuple[object, ...]:
    D = call.sizes["D"]
    return (
        graph.graph, D, D if concat_own else 0, graph.n_edge_types, call.sizes["B"],
        graph.types_beside(like), AGGREGATIONS[aggregation],
    )  # fmt: skip


def _forward(call: Call) -> None:
    graph, concat_own, aggregation = _static(call)
    x = call.read("input_embedding", "n_src D")
    coeff = call.read("weights_combination", "R B", needed=False)
    out = call.write("output_embedding", _columns(call, concat_own), needed=True)
    # the first of the sources are the destinations
    own = x if concat_own else None
    arguments = _arguments(call, graph, x, concat_own, aggregation)
    call.compute("agg_relational", "forward", *arguments, x, None, coeff, own, out)
    call.store()


def _backward(call: Call) -> None:
    graph, concat_own, aggregation = _static(call)
    if not call.wants("grad_input", "grad_weights"):
        return
    x = call.read("input_embedding", "n_src D")
    coeff = call.read("weights_combination", "R B", needed=False)
    cotangent = call.read("grad_output", _columns(call, concat_own))
    grad_x = call.write("grad_input", "n_src D")
    if coeff is None and call.wants("grad_weights"):
        raise ValueError(f"{call.name}: grad_weights is given, but weights_combination is None")
    grad_coeff = call.write("grad_weights", "R B")
    own = x if concat_own else None
    grad_own = None
    if concat_own and grad_x is not None:
        grad_own = call.scratch(grad_x, call.sizes["n_dst"])
    call.compute(
        "agg_relational", "vjp", *_arguments(call, graph, x, concat_own, aggregation),
        cotangent, x, None, coeff, own, grad_x, None, grad_coeff, grad_own,
    )  # fmt: skip
    if grad_own is not None:
        call.add_rows(grad_x, grad_own)
    call.store()


@function(_forward)
def agg_hg_basis_n2n_post_fwd(
    output_embedding: Array,
    input_embedding: Array,
    weights_combination: Optional,
    graph: HeteroCsc,
    concat_own: bool = False,
    norm_by_out_degree: bool = False,
    stream_id: int = 0,
) -> None:
    """Aggregate features of sources by the type of edges, or in a basis, ``[blocks | own]``.

    The norm is by the number of edges of a type that end at a node.
    """


@function(_backward)
def agg_hg_basis_n2n_post_bwd(
    grad_input: Optional,
    grad_weights: Optional,
    grad_output: Array,
    input_embedding: Array,
    weights_combination: Optional,
    graph: HeteroCsc,
    concat_own: bool = False,
    norm_by_out_degree: bool = False,
    stream_id: int = 0,
) -> None:
    """Gradients of `agg_hg_basis_n2n_post_fwd`."""


# name for sampled graphs up to 23.02
agg_hg_basis_mfg_n2n_post_fwd = agg_hg_basis_n2n_post_fwd
agg_hg_basis_mfg_n2n_post_bwd = agg_hg_basis_n2n_post_bwd

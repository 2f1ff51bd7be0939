# SPDX-License-Identifier: MIT
"""Updates of edges: their features and those of the nodes at both ends."""

from __future__ import annotations

from collections.abc import Callable

from gnograd.compat.pylibcugraphops.call import Call, function
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.faces.operator import Array
from gnograd.notation.static import AT_LEAST_0, integer
from gnograd.operators.edge_updates import MODES

__all__ = [
    "update_efeat_e2e_concat_bwd",
    "update_efeat_e2e_concat_fwd",
    "update_efeat_e2e_sum_bwd",
    "update_efeat_e2e_sum_fwd",
]

Optional = Array | None
PARTS = {
    "input_edge_embedding": ("n_edges", "De"),
    "input_src_node_embedding": ("n_src", "Ds"),
    "input_dst_node_embedding": ("n_dst", "Dd"),
}
"""Parts of an update by role: rows and, side by side, columns."""


def _forward(mode: str) -> Callable[[Call], None]:
    def body(call: Call) -> None:
        inputs = [
            call.read(role, f"{rows} {columns if mode == 'concat' else 'D'}", needed=False)
            for role, (rows, columns) in PARTS.items()
        ]
        if all(x is None for x in inputs):
            raise ValueError(f"{call.name}: all inputs are None, needs one or more")
        widths = _widths(call, mode)
        n_columns = sum(widths) if mode == "concat" else widths[0]
        call.sizes["columns"] = n_columns
        out = call.write("output_edge_embedding", "n_edges columns", needed=True)
        graph = call.get("graph").graph
        call.compute("update_edges", "forward", graph, *widths, MODES[mode], *inputs, out)
        call.store()

    return body


def _backward(mode: str) -> Callable[[Call], None]:
    def body(call: Call) -> None:
        roles = [f"grad_{role}" for role in PARTS]
        if not call.wants(*roles):
            return
        told = {"De": "dim_edge", "Ds": "dim_src", "Dd": "dim_dst"}
        for size, label in told.items() if mode == "concat" else [("D", "dim_edge")]:
            call.sizes[size] = integer(f"{call.name}: {label}", call.get(label), AT_LEAST_0)
        widths = _widths(call, mode)
        gradients = [
            call.write(f"grad_{role}", f"{rows} {columns if mode == 'concat' else 'D'}")
            for role, (rows, columns) in PARTS.items()
        ]
        call.sizes["columns"] = sum(widths) if mode == "concat" else widths[0]
        cotangent = call.read("grad_output_edge_embedding", "n_edges columns")
        graph = call.get("graph").graph
        # kernels only need to know which inputs are present; the old interface does not pass them
        wanted = [gradient is not None for gradient in gradients]
        told_of = [bool(width) for width in widths] if mode == "concat" else wanted
        inputs = [
            cotangent if there or asked else None
            for there, asked in zip(told_of, wanted, strict=True)
        ]
        call.compute(
            "update_edges", "vjp", graph, *widths, MODES[mode], cotangent, *inputs, *gradients
        )
        call.store()

    return body


def _widths(call: Call, mode: str) -> list[int]:
    """Columns of edges, sources and destinations, which are equal for a sum."""
    names = [columns if mode == "concat" else "D" for _, columns in PARTS.values()]
    return [call.sizes.get(name, 0) for name in names]


@function(_forward("concat"))
def update_efeat_e2e_concat_fwd(
    output_edge_embedding: Array,
    input_edge_embedding: Optional,
    input_src_node_embedding: Optional,
    input_dst_node_embedding: Optional,
    graph: Csc,
    stream_id: int = 0,
) -> None:
    """Features of edges, their sources and destinations side by side; None is left out."""


@function(_backward("concat"))
def update_efeat_e2e_concat_bwd(
    grad_input_edge_embedding: Optional,
    grad_input_src_node_embedding: Optional,
    grad_input_dst_node_embedding: Optional,
    grad_output_edge_embedding: Array,
    graph: Csc,
    dim_edge: int,
    dim_src: int,
    dim_dst: int,
    stream_id: int = 0,
) -> None:
    """Gradients of `update_efeat_e2e_concat_fwd`; absent parts have width 0."""


@function(_forward("sum"))
def update_efeat_e2e_sum_fwd(
    output_edge_embedding: Array,
    input_edge_embedding: Optional,
    input_src_node_embedding: Optional,
    input_dst_node_embedding: Optional,
    graph: Csc,
    stream_id: int = 0,
) -> None:
    """Sum of the features of edges, their sources and destinations; None is left out."""


@function(_backward("sum"))
def update_efeat_e2e_sum_bwd(
    grad_input_edge_embedding: Optional,
    grad_input_src_node_embedding: Optional,
    grad_input_dst_node_embedding: Optional,
    grad_output_edge_embedding: Array,
    graph: Csc,
    dim_edge: int,
    stream_id: int = 0,
) -> None:
    """Gradients of `update_efeat_e2e_sum_fwd`."""

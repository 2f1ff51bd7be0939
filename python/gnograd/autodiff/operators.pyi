# SPDX-License-Identifier: MIT
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from gnograd.autodiff.arrays import Array, Operand
from gnograd.graphs.graph import GraphLike

__all__ = [
    "agg_concat",
    "agg_edge_to_edge",
    "agg_relational",
    "agg_simple",
    "agg_weighted",
    "compress",
    "compressed_attention",
    "edge_mlp",
    "edge_softmax",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_deep",
    "gno_kernel",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "offset_moments",
    "radial_basis",
    "selected_attention",
    "update_edges",
    "window_attention",
]

def agg_concat(
    x: Operand | None,
    w: Operand | None = None,
    e: Operand | None = None,
    own: Operand | None = None,
    *,
    graph: GraphLike,
    aggregation: str = "sum",
) -> Array: ...
def agg_edge_to_edge(
    vector: Operand,
    rbf: Operand,
    embedding: Operand,
    weights: Operand,
    *,
    edges: tuple[ArrayLike, ArrayLike] | None = None,
    n_nodes: int | None = None,
    graph: GraphLike | None = None,
    n_spherical: int = 7,
    n_radial: int = 6,
    exclude: str = "reverse_edge",
) -> Array: ...
def agg_relational(
    x: Operand,
    w: Operand | None = None,
    coeff: Operand | None = None,
    own: Operand | None = None,
    *,
    graph: GraphLike,
    edge_type: NDArray[Any],
    n_relations: int,
    aggregation: str = "sum",
) -> Array: ...
def agg_simple(
    x: Operand | None, e: Operand | None = None, *, graph: GraphLike, aggregation: str = "sum"
) -> Array: ...
def agg_weighted(
    x: Operand, w: Operand, *, graph: GraphLike, aggregation: str = "sum"
) -> Array: ...
def compress(
    x: Operand,
    w: Operand,
    *,
    block: int,
    stride: int,
    cu: NDArray[Any] | None = None,
    n_compressed: int | None = None,
) -> Array: ...
def compressed_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    *,
    block: int,
    stride: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
) -> tuple[Array, Array]: ...
def edge_mlp(
    e: Operand | None,
    x_src: Operand | None,
    x_dst: Operand | None,
    weights: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    activation: str = "silu",
    layer_norm: bool = True,
    residual: bool = True,
    reduction: str = "sum",
    outputs: str = "both",
) -> Array | tuple[Array, Array]: ...
def edge_softmax(s: Operand, *, graph: GraphLike) -> Array: ...
def gno(
    h: Operand | None,
    coords: Operand,
    U: Operand,
    b_u: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: GraphLike,
    activation: str = "relu",
    reduction: str = "sum",
    kernel: str = "full",
) -> Array: ...
def gno_aggregate(
    h: Operand, kappa: Operand, *, graph: GraphLike, reduction: str = "sum"
) -> Array: ...
def gno_contract(
    h: Operand | None,
    hid: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: GraphLike,
    reduction: str = "sum",
    kernel: str = "full",
) -> Array: ...
def gno_deep(
    h: Operand | None,
    y: Operand | None,
    x: Operand | None,
    c: Operand | None,
    layers: Operand,
    edge_weight: Operand | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    activation: str = "gelu",
    reduction: str = "sum",
) -> Array: ...
def gno_kernel(
    coords: Operand, U: Operand, b_u: Operand, V: Operand, b_v: Operand, *, activation: str = "relu"
) -> Array: ...
def gno_with_gradient(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array]: ...
def gno_with_hessian(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]: ...
def gno_with_laplacian(
    h: Operand | None,
    x: Operand,
    y: Operand,
    layers: Operand,
    V: Operand,
    b_v: Operand,
    edge_weight: Operand | None = None,
    weight_derivatives: Operand | None = None,
    *,
    graph: GraphLike,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]: ...
def mha_gat(
    x_src: Operand,
    x_dst: Operand,
    a: Operand,
    e: Operand | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: NDArray[Any] | None = None,
) -> Array: ...
def mha_gat_v2(
    x_src: Operand,
    x_dst: Operand,
    a: Operand,
    e: Operand | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: NDArray[Any] | None = None,
) -> Array: ...
def mha_simple(
    q: Operand,
    k: Operand,
    v: Operand,
    e: Operand | None = None,
    *,
    graph: GraphLike,
    num_heads: int = 1,
    concat_heads: bool = True,
    norm_by_dim: bool = True,
    dropout: float = 0.0,
    seed: NDArray[Any] | None = None,
) -> Array: ...
def offset_moments(x: Operand, y: Operand, *, graph: GraphLike) -> Array: ...
def radial_basis(
    x: Operand, w: Operand, *, n_spherical: int = 7, exponent: int = 5
) -> tuple[Array, Array]: ...
def selected_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    slot_gate: Operand | None = None,
    *,
    block_index: NDArray[Any],
    block_size: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
    query_block: int = 1,
    duplicates: str = "ignore",
) -> Array: ...
def update_edges(
    e: Operand | None,
    x_src: Operand | None = None,
    x_dst: Operand | None = None,
    *,
    graph: GraphLike,
    mode: str = "concat",
) -> Array: ...
def window_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    positions_q: Operand | None = None,
    positions_k: Operand | None = None,
    slope: Operand | None = None,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: NDArray[Any] | None = None,
    cu_k: NDArray[Any] | None = None,
) -> Array: ...

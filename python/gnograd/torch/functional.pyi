# SPDX-License-Identifier: MIT
from collections.abc import Sequence

from numpy.typing import ArrayLike
from torch import Tensor

from gnograd.graphs.in_parts import GraphInParts
from gnograd.torch.graph import AnyGraph

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
    "select_blocks",
    "selected_attention",
    "update_edges",
    "window_attention",
]

def agg_concat(
    x: Tensor | None,
    w: Tensor | None = None,
    e: Tensor | None = None,
    own: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    aggregation: str = "sum",
) -> Tensor: ...
def agg_edge_to_edge(
    vector: Tensor,
    rbf: Tensor,
    embedding: Tensor,
    weights: Tensor,
    *,
    edges: tuple[ArrayLike, ArrayLike] | None = None,
    n_nodes: int | None = None,
    graph: AnyGraph | GraphInParts | None = None,
    n_spherical: int = 7,
    n_radial: int = 6,
    exclude: str = "reverse_edge",
) -> Tensor: ...
def agg_relational(
    x: Tensor,
    w: Tensor | None = None,
    coeff: Tensor | None = None,
    own: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    edge_type: Tensor,
    n_relations: int,
    aggregation: str = "sum",
) -> Tensor: ...
def agg_simple(
    x: Tensor | None,
    e: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    aggregation: str = "sum",
) -> Tensor: ...
def agg_weighted(
    x: Tensor, w: Tensor, *, graph: AnyGraph | GraphInParts, aggregation: str = "sum"
) -> Tensor: ...
def compress(
    x: Tensor,
    w: Tensor,
    *,
    block: int,
    stride: int,
    cu: Tensor | None = None,
    n_compressed: int | None = None,
) -> Tensor: ...
def compressed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block: int,
    stride: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Tensor | None = None,
    cu_k: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def edge_mlp(
    e: Tensor | None,
    x_src: Tensor | None,
    x_dst: Tensor | None,
    weights: Tensor,
    edge_weight: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    widths: Sequence[int],
    activation: str = "silu",
    layer_norm: bool = True,
    residual: bool = True,
    reduction: str = "sum",
    outputs: str = "both",
) -> Tensor | tuple[Tensor, Tensor]: ...
def edge_softmax(s: Tensor, *, graph: AnyGraph | GraphInParts) -> Tensor: ...
def gno(
    h: Tensor | None,
    coords: Tensor,
    U: Tensor,
    b_u: Tensor,
    V: Tensor,
    b_v: Tensor,
    edge_weight: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    activation: str = "relu",
    reduction: str = "sum",
    kernel: str = "full",
) -> Tensor: ...
def gno_aggregate(
    h: Tensor, kappa: Tensor, *, graph: AnyGraph | GraphInParts, reduction: str = "sum"
) -> Tensor: ...
def gno_contract(
    h: Tensor | None,
    hid: Tensor,
    V: Tensor,
    b_v: Tensor,
    edge_weight: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    reduction: str = "sum",
    kernel: str = "full",
) -> Tensor: ...
def gno_deep(
    h: Tensor | None,
    y: Tensor | None,
    x: Tensor | None,
    c: Tensor | None,
    layers: Tensor,
    edge_weight: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    widths: Sequence[int],
    activation: str = "gelu",
    reduction: str = "sum",
) -> Tensor: ...
def gno_kernel(
    coords: Tensor, U: Tensor, b_u: Tensor, V: Tensor, b_v: Tensor, *, activation: str = "relu"
) -> Tensor: ...
def gno_with_gradient(
    h: Tensor | None,
    x: Tensor,
    y: Tensor,
    layers: Tensor,
    V: Tensor,
    b_v: Tensor,
    edge_weight: Tensor | None = None,
    weight_derivatives: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Tensor, Tensor]: ...
def gno_with_hessian(
    h: Tensor | None,
    x: Tensor,
    y: Tensor,
    layers: Tensor,
    V: Tensor,
    b_v: Tensor,
    edge_weight: Tensor | None = None,
    weight_derivatives: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Tensor, Tensor, Tensor]: ...
def gno_with_laplacian(
    h: Tensor | None,
    x: Tensor,
    y: Tensor,
    layers: Tensor,
    V: Tensor,
    b_v: Tensor,
    edge_weight: Tensor | None = None,
    weight_derivatives: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Tensor, Tensor, Tensor]: ...
def mha_gat(
    x_src: Tensor,
    x_dst: Tensor,
    a: Tensor,
    e: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor: ...
def mha_gat_v2(
    x_src: Tensor,
    x_dst: Tensor,
    a: Tensor,
    e: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor: ...
def mha_simple(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    e: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    num_heads: int = 1,
    concat_heads: bool = True,
    norm_by_dim: bool = True,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor: ...
def offset_moments(x: Tensor, y: Tensor, *, graph: AnyGraph | GraphInParts) -> Tensor: ...
def radial_basis(
    x: Tensor, w: Tensor, *, n_spherical: int = 7, exponent: int = 5
) -> tuple[Tensor, Tensor]: ...
def select_blocks(
    q: Tensor,
    k: Tensor,
    lse: Tensor,
    *,
    block: int,
    stride: int,
    block_size: int,
    n_blocks: int,
    n_keys: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Tensor | None = None,
    cu_k: Tensor | None = None,
    query_block: int = 1,
    first_blocks: int = 0,
    local_blocks: int = 0,
    exclude_own: bool = False,
) -> Tensor: ...
def selected_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slot_gate: Tensor | None = None,
    *,
    block_index: Tensor,
    block_size: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Tensor | None = None,
    cu_k: Tensor | None = None,
    query_block: int = 1,
    duplicates: str = "ignore",
) -> Tensor: ...
def update_edges(
    e: Tensor | None,
    x_src: Tensor | None = None,
    x_dst: Tensor | None = None,
    *,
    graph: AnyGraph | GraphInParts,
    mode: str = "concat",
) -> Tensor: ...
def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions_q: Tensor | None = None,
    positions_k: Tensor | None = None,
    slope: Tensor | None = None,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Tensor | None = None,
    cu_k: Tensor | None = None,
) -> Tensor: ...

# SPDX-License-Identifier: MIT
from collections.abc import Sequence

from jax import Array
from numpy.typing import ArrayLike

from gnograd.jax.distributed import DistributedGraph
from gnograd.jax.graph import AnyGraph

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
    x: Array | None,
    w: Array | None = None,
    e: Array | None = None,
    own: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    aggregation: str = "sum",
) -> Array: ...
def agg_edge_to_edge(
    vector: Array,
    rbf: Array,
    embedding: Array,
    weights: Array,
    *,
    edges: tuple[ArrayLike, ArrayLike] | None = None,
    n_nodes: int | None = None,
    graph: AnyGraph | DistributedGraph | None = None,
    n_spherical: int = 7,
    n_radial: int = 6,
    exclude: str = "reverse_edge",
) -> Array: ...
def agg_relational(
    x: Array,
    w: Array | None = None,
    coeff: Array | None = None,
    own: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    edge_type: Array,
    n_relations: int,
    aggregation: str = "sum",
) -> Array: ...
def agg_simple(
    x: Array | None,
    e: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    aggregation: str = "sum",
) -> Array: ...
def agg_weighted(
    x: Array, w: Array, *, graph: AnyGraph | DistributedGraph, aggregation: str = "sum"
) -> Array: ...
def compress(
    x: Array,
    w: Array,
    *,
    block: int,
    stride: int,
    cu: Array | None = None,
    n_compressed: int | None = None,
) -> Array: ...
def compressed_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    block: int,
    stride: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> tuple[Array, Array]: ...
def edge_mlp(
    e: Array | None,
    x_src: Array | None,
    x_dst: Array | None,
    weights: Array,
    edge_weight: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    widths: Sequence[int],
    activation: str = "silu",
    layer_norm: bool = True,
    residual: bool = True,
    reduction: str = "sum",
    outputs: str = "both",
) -> Array | tuple[Array, Array]: ...
def edge_softmax(s: Array, *, graph: AnyGraph | DistributedGraph) -> Array: ...
def gno(
    h: Array | None,
    coords: Array,
    U: Array,
    b_u: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    activation: str = "relu",
    reduction: str = "sum",
    kernel: str = "full",
) -> Array: ...
def gno_aggregate(
    h: Array, kappa: Array, *, graph: AnyGraph | DistributedGraph, reduction: str = "sum"
) -> Array: ...
def gno_contract(
    h: Array | None,
    hid: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    reduction: str = "sum",
    kernel: str = "full",
) -> Array: ...
def gno_deep(
    h: Array | None,
    y: Array | None,
    x: Array | None,
    c: Array | None,
    layers: Array,
    edge_weight: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    widths: Sequence[int],
    activation: str = "gelu",
    reduction: str = "sum",
) -> Array: ...
def gno_kernel(
    coords: Array, U: Array, b_u: Array, V: Array, b_v: Array, *, activation: str = "relu"
) -> Array: ...
def gno_with_gradient(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array]: ...
def gno_with_hessian(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]: ...
def gno_with_laplacian(
    h: Array | None,
    x: Array,
    y: Array,
    layers: Array,
    V: Array,
    b_v: Array,
    edge_weight: Array | None = None,
    weight_derivatives: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    widths: Sequence[int],
    geometry: str = "difference",
    activation: str = "gelu",
    reduction: str = "sum",
    kernel: str = "full",
) -> tuple[Array, Array, Array]: ...
def mha_gat(
    x_src: Array,
    x_dst: Array,
    a: Array,
    e: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array: ...
def mha_gat_v2(
    x_src: Array,
    x_dst: Array,
    a: Array,
    e: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    num_heads: int = 1,
    concat_heads: bool = True,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array: ...
def mha_simple(
    q: Array,
    k: Array,
    v: Array,
    e: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    num_heads: int = 1,
    concat_heads: bool = True,
    norm_by_dim: bool = True,
    dropout: float = 0.0,
    seed: Array | None = None,
) -> Array: ...
def offset_moments(x: Array, y: Array, *, graph: AnyGraph | DistributedGraph) -> Array: ...
def radial_basis(
    x: Array, w: Array, *, n_spherical: int = 7, exponent: int = 5
) -> tuple[Array, Array]: ...
def select_blocks(
    q: Array,
    k: Array,
    lse: Array,
    *,
    block: int,
    stride: int,
    block_size: int,
    n_blocks: int,
    n_keys: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    query_block: int = 1,
    first_blocks: int = 0,
    local_blocks: int = 0,
    exclude_own: bool = False,
) -> Array: ...
def selected_attention(
    q: Array,
    k: Array,
    v: Array,
    slot_gate: Array | None = None,
    *,
    block_index: Array,
    block_size: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    query_block: int = 1,
    duplicates: str = "ignore",
) -> Array: ...
def update_edges(
    e: Array | None,
    x_src: Array | None = None,
    x_dst: Array | None = None,
    *,
    graph: AnyGraph | DistributedGraph,
    mode: str = "concat",
) -> Array: ...
def window_attention(
    q: Array,
    k: Array,
    v: Array,
    positions_q: Array | None = None,
    positions_k: Array | None = None,
    slope: Array | None = None,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> Array: ...

# SPDX-License-Identifier: MIT
"""gnograd for PyTorch: the operators on tensors, and modules built of them.

Importing this package imports torch; nothing else in gnograd does.
"""

from gnograd.torch.adapter import torch_operator
from gnograd.torch.attention import (
    BallSparseAttention,
    NativeSparseAttention,
    ball_tree_order,
)
from gnograd.torch.dimenet import DimeNetPlusPlus, InteractionPPBlock
from gnograd.torch.edges import graph_from_edge_index, with_self_loops
from gnograd.torch.functional import (
    agg_concat,
    agg_edge_to_edge,
    agg_simple,
    agg_weighted,
    compress,
    compressed_attention,
    gno,
    gno_aggregate,
    gno_contract,
    gno_kernel,
    gno_with_gradient,
    gno_with_hessian,
    gno_with_laplacian,
    mha_gat,
    mha_gat_v2,
    mha_simple,
    radial_basis,
    select_blocks,
    selected_attention,
    window_attention,
)
from gnograd.torch.gat import GATConv, GATv2Conv, TransformerConv
from gnograd.torch.layers import GNO, WeightedAggregation, gno_pack_layers
from gnograd.torch.neighbors import NeighborSearch, neighbor_search
from gnograd.torch.neuralop import (
    GNOBlock,
    IntegralTransform,
    LinearChannelMLP,
    SinusoidalEmbedding,
)
from gnograd.torch.weighting import dispatch_weighting_fn

__all__ = [
    "GNO",
    "BallSparseAttention",
    "DimeNetPlusPlus",
    "GATConv",
    "GATv2Conv",
    "GNOBlock",
    "IntegralTransform",
    "InteractionPPBlock",
    "LinearChannelMLP",
    "NativeSparseAttention",
    "NeighborSearch",
    "SinusoidalEmbedding",
    "TransformerConv",
    "WeightedAggregation",
    "agg_concat",
    "agg_edge_to_edge",
    "agg_simple",
    "agg_weighted",
    "ball_tree_order",
    "compress",
    "compressed_attention",
    "dispatch_weighting_fn",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_kernel",
    "gno_pack_layers",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "graph_from_edge_index",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "neighbor_search",
    "radial_basis",
    "select_blocks",
    "selected_attention",
    "torch_operator",
    "window_attention",
    "with_self_loops",
]

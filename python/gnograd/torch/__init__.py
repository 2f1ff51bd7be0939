# SPDX-License-Identifier: MIT
"""gnograd for PyTorch: the operators on tensors, and modules built of them.

Importing this package imports torch; nothing else in gnograd does.
"""

from gnograd.torch import functional
from gnograd.torch.adapter import torch_operator
from gnograd.torch.agno import AGNO
from gnograd.torch.ball_sparse_attention import BallSparseAttention
from gnograd.torch.ball_tree import ball_tree_order
from gnograd.torch.dimenet import DimeNetPlusPlus, InteractionPPBlock
from gnograd.torch.dimenet_weights import dimenet_state_dict
from gnograd.torch.distributed import halo
from gnograd.torch.dropout import dropout_factors
from gnograd.torch.edges import graph_from_edge_index, with_self_loops
from gnograd.torch.flare import FLARE
from gnograd.torch.functional import *
from gnograd.torch.gale import GALE, GALE_FA
from gnograd.torch.gat import GATConv, GATv2Conv, TransformerConv
from gnograd.torch.gcn import GCNConv
from gnograd.torch.geometric_embedding import GeometricEmbedding
from gnograd.torch.graph import Graph, collate
from gnograd.torch.graph_cast import GraphCastProcessor, MeshGraphDecoder, MeshGraphEncoder
from gnograd.torch.layers import GNO, WeightedAggregation, gno_pack_layers
from gnograd.torch.magno import MAGNO, MAGNOConfig, MAGNODecoder, MAGNOEncoder
from gnograd.torch.mesh_blocks import MeshEdgeBlock, MeshNodeBlock
from gnograd.torch.mesh_graph_net import MeshGraphNet
from gnograd.torch.moments import neighborhood_moments
from gnograd.torch.native_sparse_attention import KeyValueCache, NativeSparseAttention
from gnograd.torch.neighbors import NeighborSearch, neighbor_search
from gnograd.torch.neuralop import (
    GNOBlock,
    IntegralTransform,
    LinearChannelMLP,
    SinusoidalEmbedding,
)
from gnograd.torch.patching import patch_neuraloperator, patch_physicsnemo
from gnograd.torch.point_attention import PointAttention
from gnograd.torch.rgcn import RGCNConv
from gnograd.torch.rotary_points import RotaryPoints
from gnograd.torch.sage import SAGEConv
from gnograd.torch.scaled_dot_product import scaled_dot_product_attention
from gnograd.torch.slice_attention import SliceAttention
from gnograd.torch.transolver import TransolverBlock
from gnograd.torch.weighting import dispatch_weighting_fn

__all__ = [
    "AGNO",
    "FLARE",
    "GALE",
    "GALE_FA",
    "GNO",
    "MAGNO",
    "BallSparseAttention",
    "DimeNetPlusPlus",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GNOBlock",
    "GeometricEmbedding",
    "Graph",
    "GraphCastProcessor",
    "IntegralTransform",
    "InteractionPPBlock",
    "KeyValueCache",
    "LinearChannelMLP",
    "MeshEdgeBlock",
    "MeshGraphDecoder",
    "MeshGraphEncoder",
    "MeshGraphNet",
    "MeshNodeBlock",
    "MAGNOConfig",
    "MAGNODecoder",
    "MAGNOEncoder",
    "NativeSparseAttention",
    "NeighborSearch",
    "PointAttention",
    "RGCNConv",
    "RotaryPoints",
    "SAGEConv",
    "SliceAttention",
    "SinusoidalEmbedding",
    "TransformerConv",
    "TransolverBlock",
    "WeightedAggregation",
    "ball_tree_order",
    "collate",
    "dimenet_state_dict",
    "dispatch_weighting_fn",
    "dropout_factors",
    "gno_pack_layers",
    "graph_from_edge_index",
    "halo",
    "neighbor_search",
    "neighborhood_moments",
    "patch_neuraloperator",
    "patch_physicsnemo",
    "scaled_dot_product_attention",
    "torch_operator",
    "with_self_loops",
    *functional.__all__,
]

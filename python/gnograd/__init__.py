# SPDX-License-Identifier: MIT
"""Differentiable message passing and block-sparse attention for neural-operator PDE codes."""

from importlib.metadata import version

from gnograd import openmp  # noqa: F401  (it loads the library, which the others need)

# isort: split
from gnograd import distributed
from gnograd.distributed import DistributedGraph, halo
from gnograd.faces.operator import Function, Operator
from gnograd.graphs.graph import EdgesBySource, Graph
from gnograd.loading import load
from gnograd.neighbors.periodic import NeighborList, neighbor_list
from gnograd.neighbors.search import Neighbors, knn, neighbors
from gnograd.operators.aggregation import agg_concat, agg_simple, agg_weighted
from gnograd.operators.attention import edge_softmax, mha_gat, mha_gat_v2, mha_simple
from gnograd.operators.dense import attention, attention_pool
from gnograd.operators.dimenet import agg_edge_to_edge, radial_basis
from gnograd.operators.edge_mlp import edge_mlp, edge_mlp_pack
from gnograd.operators.edge_updates import update_edges
from gnograd.operators.gno import (
    gno,
    gno_aggregate,
    gno_contract,
    gno_kernel,
    gno_pack,
    gno_unpack,
)
from gnograd.operators.gno_deep import gno_deep
from gnograd.operators.gno_jets import (
    gno_pack_layers,
    gno_unpack_layers,
    gno_with_gradient,
    gno_with_hessian,
    gno_with_laplacian,
)
from gnograd.operators.moments import NeighborhoodMoments, neighborhood_moments, offset_moments
from gnograd.operators.nsa import (
    compress,
    compressed_attention,
    compressed_offsets,
    select_blocks,
    selected_attention,
    window_attention,
)
from gnograd.operators.relational import agg_relational
from gnograd.runtime import (
    get_cmake_dir,
    get_config,
    get_include,
    get_matmul_precision,
    get_num_threads,
    get_pkgconfig_dir,
    set_matmul_precision,
    set_num_threads,
    show_config,
)
from gnograd.weights import load_weights, load_weights_metadata, save_weights

__all__ = [
    "DistributedGraph",
    "EdgesBySource",
    "Function",
    "Graph",
    "NeighborList",
    "NeighborhoodMoments",
    "Neighbors",
    "Operator",
    "agg_concat",
    "agg_edge_to_edge",
    "agg_relational",
    "agg_simple",
    "agg_weighted",
    "attention",
    "attention_pool",
    "compress",
    "compressed_attention",
    "compressed_offsets",
    "distributed",
    "edge_mlp",
    "edge_mlp_pack",
    "edge_softmax",
    "get_cmake_dir",
    "get_config",
    "get_include",
    "get_matmul_precision",
    "get_num_threads",
    "get_pkgconfig_dir",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_deep",
    "gno_kernel",
    "gno_pack",
    "gno_pack_layers",
    "gno_unpack",
    "gno_unpack_layers",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "halo",
    "knn",
    "load",
    "load_weights",
    "load_weights_metadata",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "neighbor_list",
    "neighborhood_moments",
    "neighbors",
    "offset_moments",
    "radial_basis",
    "save_weights",
    "select_blocks",
    "selected_attention",
    "set_matmul_precision",
    "set_num_threads",
    "show_config",
    "update_edges",
    "window_attention",
]
__version__ = version("gnograd")

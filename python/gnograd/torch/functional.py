# SPDX-License-Identifier: MIT
"""The operators of gnograd on tensors."""

import gnograd
from gnograd.torch.adapter import torch_operator

__all__ = [
    "agg_concat",
    "agg_edge_to_edge",
    "agg_simple",
    "agg_weighted",
    "compress",
    "compressed_attention",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_kernel",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "radial_basis",
    "select_blocks",
    "selected_attention",
    "window_attention",
]

agg_concat = torch_operator(gnograd.agg_concat)
agg_edge_to_edge = torch_operator(gnograd.agg_edge_to_edge)
agg_simple = torch_operator(gnograd.agg_simple)
agg_weighted = torch_operator(gnograd.agg_weighted)
compress = torch_operator(gnograd.compress)
compressed_attention = torch_operator(gnograd.compressed_attention)
gno = torch_operator(gnograd.gno)
gno_aggregate = torch_operator(gnograd.gno_aggregate)
gno_contract = torch_operator(gnograd.gno_contract)
gno_kernel = torch_operator(gnograd.gno_kernel)
gno_with_gradient = torch_operator(gnograd.gno_with_gradient)
gno_with_hessian = torch_operator(gnograd.gno_with_hessian)
gno_with_laplacian = torch_operator(gnograd.gno_with_laplacian)
mha_gat = torch_operator(gnograd.mha_gat)
mha_gat_v2 = torch_operator(gnograd.mha_gat_v2)
mha_simple = torch_operator(gnograd.mha_simple)
radial_basis = torch_operator(gnograd.radial_basis)
select_blocks = torch_operator(gnograd.select_blocks)
selected_attention = torch_operator(gnograd.selected_attention)
window_attention = torch_operator(gnograd.window_attention)

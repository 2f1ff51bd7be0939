# SPDX-License-Identifier: MIT
"""The operators of gnograd on JAX arrays."""

import gnograd
from gnograd.jax.adapter import jax_operator

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

agg_concat = jax_operator(gnograd.agg_concat)
agg_edge_to_edge = jax_operator(gnograd.agg_edge_to_edge)
agg_simple = jax_operator(gnograd.agg_simple)
agg_weighted = jax_operator(gnograd.agg_weighted)
compress = jax_operator(gnograd.compress)
compressed_attention = jax_operator(gnograd.compressed_attention)
gno = jax_operator(gnograd.gno)
gno_aggregate = jax_operator(gnograd.gno_aggregate)
gno_contract = jax_operator(gnograd.gno_contract)
gno_kernel = jax_operator(gnograd.gno_kernel)
gno_with_gradient = jax_operator(gnograd.gno_with_gradient)
gno_with_hessian = jax_operator(gnograd.gno_with_hessian)
gno_with_laplacian = jax_operator(gnograd.gno_with_laplacian)
mha_gat = jax_operator(gnograd.mha_gat)
mha_gat_v2 = jax_operator(gnograd.mha_gat_v2)
mha_simple = jax_operator(gnograd.mha_simple)
radial_basis = jax_operator(gnograd.radial_basis)
select_blocks = jax_operator(gnograd.select_blocks)
selected_attention = jax_operator(gnograd.selected_attention)
window_attention = jax_operator(gnograd.window_attention)

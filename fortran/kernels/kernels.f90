! SPDX-License-Identifier: MIT

!> The faces of all operators on plain arrays: what entry points and Fortran programs call.
module gnograd_kernels
  use gnograd_kernels_aggregation, only: agg_weighted_forward, agg_weighted_vjp, &
    & agg_weighted_jvp, agg_weighted_hvp, agg_simple_forward, agg_simple_vjp, agg_simple_jvp, &
    & agg_simple_hvp, agg_concat_forward, agg_concat_vjp, agg_concat_jvp, agg_concat_hvp
  use gnograd_kernels_dense, only: attention_forward, attention_vjp, attention_jvp, &
    & attention_hvp, attention_pool_forward, attention_pool_vjp, attention_pool_jvp, &
    & attention_pool_hvp
  use gnograd_kernels_dimenet, only: agg_edge_to_edge_forward, agg_edge_to_edge_vjp, &
    & agg_edge_to_edge_jvp, agg_edge_to_edge_hvp
  use gnograd_kernels_edge_mlp, only: edge_mlp_forward, edge_mlp_vjp, edge_mlp_jvp, edge_mlp_hvp
  use gnograd_kernels_edge_updates, only: update_edges_forward, update_edges_vjp, &
    & update_edges_jvp, update_edges_hvp
  use gnograd_kernels_edge_softmax, only: edge_softmax_forward, edge_softmax_vjp, &
    & edge_softmax_jvp, edge_softmax_hvp
  use gnograd_kernels_gno, only: gno_forward, gno_vjp, gno_jvp, gno_hvp, gno_contract_forward, &
    & gno_contract_vjp, gno_contract_jvp, gno_contract_hvp
  use gnograd_kernels_gno_aggregate, only: gno_aggregate_forward, gno_aggregate_vjp, &
    & gno_aggregate_jvp, gno_aggregate_hvp
  use gnograd_kernels_gno_deep, only: gno_deep_forward, gno_deep_vjp, gno_deep_jvp, gno_deep_hvp
  use gnograd_kernels_gno_jets, only: gno_with_gradient_forward, gno_with_gradient_vjp, &
    & gno_with_gradient_jvp, gno_with_gradient_hvp, gno_with_laplacian_forward, &
    & gno_with_laplacian_vjp, gno_with_laplacian_jvp, gno_with_laplacian_hvp, &
    & gno_with_hessian_forward, gno_with_hessian_vjp, gno_with_hessian_jvp, gno_with_hessian_hvp
  use gnograd_kernels_gno_kernel, only: gno_kernel_forward, gno_kernel_vjp, gno_kernel_jvp, &
    & gno_kernel_hvp
  use gnograd_kernels_mha, only: mha_gat_forward, mha_gat_vjp, mha_gat_jvp, mha_gat_hvp, &
    & mha_gat_v2_forward, mha_gat_v2_vjp, mha_gat_v2_jvp, mha_gat_v2_hvp, mha_simple_forward, &
    & mha_simple_vjp, mha_simple_jvp, mha_simple_hvp
  use gnograd_kernels_moments, only: offset_moments_forward, offset_moments_vjp, &
    & offset_moments_jvp, offset_moments_hvp
  use gnograd_kernels_nsa_branches, only: selected_attention_forward, selected_attention_vjp, &
    & selected_attention_jvp, selected_attention_hvp, compressed_attention_forward, &
    & compressed_attention_vjp, compressed_attention_jvp, compressed_attention_hvp, &
    & window_attention_forward, window_attention_vjp, window_attention_jvp, window_attention_hvp
  use gnograd_kernels_nsa_compress, only: compress_forward, compress_vjp, compress_jvp, &
    & compress_hvp
  use gnograd_kernels_nsa_select, only: select_blocks_forward
  use gnograd_kernels_radial_basis, only: radial_basis_forward, radial_basis_vjp, &
    & radial_basis_jvp, radial_basis_hvp
  use gnograd_kernels_relational, only: agg_relational_forward, agg_relational_vjp, &
    & agg_relational_jvp, agg_relational_hvp
  implicit none
  public
end module gnograd_kernels

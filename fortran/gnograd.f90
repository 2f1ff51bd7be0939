! SPDX-License-Identifier: MIT

!> Everything a Fortran program uses of gnograd.
module gnograd
  use gnograd_core_kinds, only: sp, dp, int32, int64
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_threads, only: set_n_threads
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_autodiff_elementwise, only: operator(+), operator(-), operator(*), operator(/), &
    & operator(**), exp, log, sqrt, sin, cos
  use gnograd_autodiff_activation, only: relu, gelu, silu, tanh, sigmoid
  use gnograd_autodiff_linalg, only: matmul
  use gnograd_autodiff_reduce, only: sum, mean, norm, softmax
  use gnograd_autodiff_shape, only: reshape, transpose, permute, slice, concatenate, gather
  use gnograd_autodiff_gno, only: gno, gno_contract, gno_kernel, gno_aggregate
  use gnograd_autodiff_gno_jets, only: gno_with_gradient, gno_with_laplacian, gno_with_hessian
  use gnograd_autodiff_aggregation, only: agg_weighted, agg_simple, agg_concat
  use gnograd_autodiff_gat, only: mha_gat, mha_gat_v2, mha_simple
  use gnograd_autodiff_nsa, only: selected_attention, compressed_attention, window_attention, &
    & compress
  use gnograd_autodiff_dimenet, only: agg_edge_to_edge, radial_basis
  use gnograd_autodiff_optimizer, only: adam_type, sgd_type
  use gnograd_core_codes
  use gnograd_kernels_gno, only: gno_forward, gno_vjp, gno_jvp, gno_hvp, gno_contract_forward, &
    & gno_contract_vjp, gno_contract_jvp, gno_contract_hvp
  use gnograd_kernels_gno_aggregate, only: gno_aggregate_forward, gno_aggregate_vjp, &
    & gno_aggregate_jvp, gno_aggregate_hvp
  use gnograd_kernels_gno_kernel, only: gno_kernel_forward, gno_kernel_vjp, gno_kernel_jvp, &
    & gno_kernel_hvp
  use gnograd_kernels_aggregation, only: agg_weighted_forward, agg_weighted_vjp, agg_weighted_jvp, &
    & agg_weighted_hvp, agg_simple_forward, agg_simple_vjp, agg_simple_jvp, agg_simple_hvp, &
    & agg_concat_forward, agg_concat_vjp, agg_concat_jvp, agg_concat_hvp
  implicit none
  public
end module gnograd

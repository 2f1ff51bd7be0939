! SPDX-License-Identifier: MIT

!> Everything a Fortran program uses of gnograd.
module gnograd
  use gnograd_core_kinds, only: sp, dp, int32, int64
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_graph_view, only: graph_view
  use gnograd_core_threads, only: set_n_threads
  use gnograd_weights, only: weights_type, save_weights, load_weights
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_autodiff_elementwise, only: operator(+), operator(-), operator(*), operator(/), &
    & operator(**), exp, log, sqrt, sin, cos, abs, max, min
  use gnograd_autodiff_cast, only: real
  use gnograd_autodiff_activation, only: relu, gelu, silu, tanh, sigmoid
  use gnograd_autodiff_linalg, only: matmul
  use gnograd_autodiff_reduce, only: sum, mean, norm, softmax, dot_product
  use gnograd_autodiff_gather, only: gather
  use gnograd_autodiff_shape, only: reshape, transpose, permute
  use gnograd_autodiff_slice, only: slice, concatenate
  use gnograd_autodiff_linear_map, only: linear_map_type, linear_map
  use gnograd_autodiff_custom_operation, only: custom_operation_type, operand_type, &
    & custom_operation
  use gnograd_autodiff_edge_mlp, only: edge_mlp
  use gnograd_autodiff_gno, only: gno, gno_aggregate, gno_contract, gno_kernel
  use gnograd_autodiff_gno_deep, only: gno_deep
  use gnograd_autodiff_gno_jets, only: gno_with_gradient, gno_with_laplacian, gno_with_hessian
  use gnograd_autodiff_aggregation, only: agg_weighted, agg_simple, agg_concat
  use gnograd_autodiff_relational, only: agg_relational
  use gnograd_autodiff_edge_updates, only: update_edges
  use gnograd_autodiff_attention, only: edge_softmax, mha_gat, mha_gat_v2, mha_simple
  use gnograd_autodiff_moments, only: offset_moments
  use gnograd_autodiff_nsa, only: selected_attention, compressed_attention, window_attention, &
    & compress
  use gnograd_autodiff_dense, only: attention, attention_pool
  use gnograd_autodiff_dimenet, only: agg_edge_to_edge, radial_basis
  use gnograd_autodiff_optimizer, only: optimizer_type, adam_type, adamw_type, sgd_type
  use gnograd_core_random, only: random_type
  use gnograd_nn_initializer, only: initializer_type
  use gnograd_nn_dense, only: dense_type
  use gnograd_nn_mlp, only: mlp_type
  use gnograd_nn_layer_norm, only: layer_norm_type
  use gnograd_nn_gno_layer, only: gno_type
  use gnograd_nn_gat_layer, only: gat_type
  use gnograd_nn_edge_mlp_layer, only: edge_mlp_type
  use gnograd_nn_point_gno, only: point_gno_type
  use gnograd_nn_rates, only: constant_rate, linear_rate, cosine_rate, step_rate, &
    & exponential_rate, one_cycle_rate
  use gnograd_nn_samples, only: sample_type, loader_type
  use gnograd_nn_training, only: model_type, training_type, evaluate
  use gnograd_core_codes
  use gnograd_kernels
  implicit none
  public
end module gnograd

! SPDX-License-Identifier: MIT

!> Graph attention on the tape, for C; see gnograd.h.
module gnograd_capi_autodiff_gat
  use, intrinsic :: iso_c_binding, only: c_double, c_int, c_int64_t, c_ptr
  use gnograd_core_graph, only: graph_type
  use gnograd_autodiff_gat, only: mha_gat_by_code, mha_gat_v2_by_code, mha_simple_by_code
  use gnograd_capi_autodiff, only: array, handle_of
  use gnograd_capi_graph, only: graph_from_handle
  implicit none
  private

contains

  function gnograd_array_mha_gat(tape, handle, num_heads, concat_heads, activation, &
      & negative_slope, x_src, x_dst, a, e) result(y) bind(c, name="gnograd_array_mha_gat")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: num_heads, concat_heads, activation
    real(c_double), value :: negative_slope
    integer(c_int64_t), value :: x_src, x_dst, a, e
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, mha_gat_by_code(array(tape, x_src), array(tape, x_dst), array(tape, a), &
      & array(tape, e), graph, int(num_heads), concat_heads /= 0, int(activation), &
      & negative_slope))
  end function gnograd_array_mha_gat

  function gnograd_array_mha_gat_v2(tape, handle, num_heads, concat_heads, activation, &
      & negative_slope, x_src, x_dst, a, e) result(y) bind(c, name="gnograd_array_mha_gat_v2")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: num_heads, concat_heads, activation
    real(c_double), value :: negative_slope
    integer(c_int64_t), value :: x_src, x_dst, a, e
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, mha_gat_v2_by_code(array(tape, x_src), array(tape, x_dst), array(tape, a), &
      & array(tape, e), graph, int(num_heads), concat_heads /= 0, int(activation), &
      & negative_slope))
  end function gnograd_array_mha_gat_v2

  function gnograd_array_mha_simple(tape, handle, num_heads, concat_heads, norm_by_dim, q, k, v, &
      & e) result(y) bind(c, name="gnograd_array_mha_simple")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: num_heads, concat_heads, norm_by_dim
    integer(c_int64_t), value :: q, k, v, e
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, mha_simple_by_code(array(tape, q), array(tape, k), array(tape, v), &
      & array(tape, e), graph, int(num_heads), concat_heads /= 0, norm_by_dim /= 0))
  end function gnograd_array_mha_simple

end module gnograd_capi_autodiff_gat

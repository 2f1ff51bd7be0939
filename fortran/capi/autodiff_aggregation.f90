! SPDX-License-Identifier: MIT

!> Aggregation on the tape, for C; see gnograd.h.
module gnograd_capi_autodiff_aggregation
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr
  use gnograd_core_graph, only: graph_type
  use gnograd_autodiff_aggregation, only: agg_weighted_by_code, agg_simple_by_code, &
    & agg_concat_by_code
  use gnograd_capi_autodiff, only: array, handle_of
  use gnograd_capi_graph, only: graph_from_handle
  implicit none
  private

contains

  function gnograd_array_agg_weighted(tape, handle, aggregation, x, w) result(y) &
      & bind(c, name="gnograd_array_agg_weighted")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: aggregation
    integer(c_int64_t), value :: x, w
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, agg_weighted_by_code(array(tape, x), array(tape, w), graph, &
      & int(aggregation)))
  end function gnograd_array_agg_weighted

  function gnograd_array_agg_simple(tape, handle, aggregation, x, e) result(y) &
      & bind(c, name="gnograd_array_agg_simple")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: aggregation
    integer(c_int64_t), value :: x, e
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, agg_simple_by_code(array(tape, x), array(tape, e), graph, int(aggregation)))
  end function gnograd_array_agg_simple

  function gnograd_array_agg_concat(tape, handle, aggregation, x, w, e, own) result(y) &
      & bind(c, name="gnograd_array_agg_concat")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: aggregation
    integer(c_int64_t), value :: x, w, e, own
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, agg_concat_by_code(array(tape, x), array(tape, w), array(tape, e), &
      & array(tape, own), graph, int(aggregation)))
  end function gnograd_array_agg_concat

end module gnograd_capi_autodiff_aggregation

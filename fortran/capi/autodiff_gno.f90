! SPDX-License-Identifier: MIT

!> The graph neural operator on the tape, for C; see gnograd.h.
module gnograd_capi_autodiff_gno
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr
  use gnograd_core_graph, only: graph_type
  use gnograd_autodiff_gno, only: gno_by_code, gno_contract_by_code, gno_kernel_by_code, &
    & gno_aggregate_by_code
  use gnograd_capi_autodiff, only: array, handle_of
  use gnograd_capi_graph, only: graph_from_handle
  implicit none
  private

contains

  function gnograd_array_gno(tape, handle, activation, reduction, kernel, h, coords, u, b_u, v, &
      & b_v, edge_weight) result(y) bind(c, name="gnograd_array_gno")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: activation, reduction, kernel
    integer(c_int64_t), value :: h, coords, u, b_u, v, b_v, edge_weight
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, gno_by_code(array(tape, h), array(tape, coords), array(tape, u), &
      & array(tape, b_u), array(tape, v), array(tape, b_v), graph, array(tape, edge_weight), &
      & int(activation), int(reduction), int(kernel)))
  end function gnograd_array_gno

  function gnograd_array_gno_contract(tape, handle, reduction, kernel, h, hid, v, b_v, &
      & edge_weight) result(y) bind(c, name="gnograd_array_gno_contract")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: reduction, kernel
    integer(c_int64_t), value :: h, hid, v, b_v, edge_weight
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, gno_contract_by_code(array(tape, h), array(tape, hid), array(tape, v), &
      & array(tape, b_v), graph, array(tape, edge_weight), int(reduction), int(kernel)))
  end function gnograd_array_gno_contract

  function gnograd_array_gno_kernel(tape, activation, coords, u, b_u, v, b_v) result(y) &
      & bind(c, name="gnograd_array_gno_kernel")
    type(c_ptr), value :: tape
    integer(c_int), value :: activation
    integer(c_int64_t), value :: coords, u, b_u, v, b_v
    integer(c_int64_t) :: y

    y = handle_of(tape, gno_kernel_by_code(array(tape, coords), array(tape, u), array(tape, b_u), &
      & array(tape, v), array(tape, b_v), int(activation)))
  end function gnograd_array_gno_kernel

  function gnograd_array_gno_aggregate(tape, handle, reduction, h, kappa) result(y) &
      & bind(c, name="gnograd_array_gno_aggregate")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: reduction
    integer(c_int64_t), value :: h, kappa
    integer(c_int64_t) :: y
    type(graph_type), pointer :: graph

    call graph_from_handle(handle, graph)
    y = handle_of(tape, gno_aggregate_by_code(array(tape, h), array(tape, kappa), graph, &
      & int(reduction)))
  end function gnograd_array_gno_aggregate

end module gnograd_capi_autodiff_gno

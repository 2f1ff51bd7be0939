! SPDX-License-Identifier: MIT

!> The graph neural operator with derivatives on the tape, for C; see gnograd.h.
module gnograd_capi_autodiff_gno_jets
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr
  use gnograd_core_codes, only: order_gradient
  use gnograd_core_graph, only: graph_type
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_gno_jets, only: gno_with_derivatives
  use gnograd_capi_autodiff, only: array, handle_of
  use gnograd_capi_graph, only: graph_from_handle
  implicit none
  private

contains

  function gnograd_array_gno_with_derivatives(tape, handle, order, n_layers, widths, geometry, &
      & activation, reduction, kernel, h, x, y, layers, v, b_v, edge_weight, weight_derivatives, &
      & derivatives) result(out) bind(c, name="gnograd_array_gno_with_derivatives")
    type(c_ptr), value :: tape, handle
    integer(c_int), value :: order, geometry, activation, reduction, kernel
    integer(c_int64_t), value :: n_layers
    integer(c_int64_t), intent(in) :: widths(n_layers)
    integer(c_int64_t), value :: h, x, y, layers, v, b_v, edge_weight, weight_derivatives
    integer(c_int64_t), intent(out) :: derivatives(2)
    integer(c_int64_t) :: out
    type(graph_type), pointer :: graph
    type(array_type) :: outputs(3)

    call graph_from_handle(handle, graph)
    call gno_with_derivatives(int(order), [array(tape, h), array(tape, x), array(tape, y), &
      & array(tape, layers), array(tape, v), array(tape, b_v), array(tape, edge_weight), &
      & array(tape, weight_derivatives)], graph, int(widths), int(geometry), int(activation), &
      & int(reduction), int(kernel), outputs)
    out = handle_of(tape, outputs(1))
    derivatives(1) = handle_of(tape, outputs(2))
    derivatives(2) = 0
    if (order /= order_gradient) derivatives(2) = handle_of(tape, outputs(3))
  end function gnograd_array_gno_with_derivatives

end module gnograd_capi_autodiff_gno_jets

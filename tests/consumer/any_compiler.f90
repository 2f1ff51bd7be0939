! SPDX-License-Identifier: MIT

!> The program derivative.c in Fortran, by gnograd_c.f90, which any compiler can compile.
program any_compiler
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_ptr
  use gnograd_c, only: gnograd_graph_create, gnograd_graph_free, gnograd_agg_weighted_vjp_r64, &
    & gnograd_last_error, GNOGRAD_SUM, GNOGRAD_INDEX
  implicit none
  integer(c_int64_t), parameter :: offsets(3) = [0, 0, 2], indices(2) = [0, 1]
  real(c_double), parameter :: x(2) = [4, -6], w(2) = [2, 3]
  real(c_double) :: grad_x(2), grad_w(2)
  character(kind=c_char) :: message(200)
  type(c_ptr) :: graph, none
  integer(c_int) :: status

  status = gnograd_graph_create(2_c_int64_t, 2_c_int64_t, 2_c_int64_t, offsets, indices, graph=graph)
  if (status /= 0) error stop "graph"
  status = gnograd_agg_weighted_vjp_r64(graph, 1_c_int64_t, GNOGRAD_SUM, [8.0_c_double, 0.5_c_double], &
    & x, w, grad_x=grad_x, grad_w=grad_w)
  call gnograd_graph_free(graph)
  print "(a, 2f5.1, a, 2f5.1)", "gradients", grad_x, " and", grad_w
  if (status /= 0 .or. any(abs([grad_x, grad_w] - [1.0, 1.5, 2.0, -3.0]) > 0)) error stop "wrong"

  status = gnograd_graph_create(2_c_int64_t, 2_c_int64_t, 2_c_int64_t, offsets, indices + 6, graph=none)
  call gnograd_last_error(200_c_int64_t, message)
  if (status /= GNOGRAD_INDEX .or. index(text(message), "indices[0] is 6") == 0) error stop "no error"

contains

  pure function text(characters)
    character(kind=c_char), intent(in) :: characters(:)
    character(len=size(characters)) :: text
    integer :: k

    do k = 1, size(characters)
      text(k:k) = characters(k)
    end do
  end function text

end program any_compiler

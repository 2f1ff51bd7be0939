! SPDX-License-Identifier: MIT

!> edge_softmax: values against plain loops, refusals.
module test_edge_softmax
  use gnograd, only: edge_softmax_forward, edge_softmax_vjp, edge_softmax_hvp, error_type, dp, &
    & sp, int64
  use faces, only: close, numbers
  use test_gno, only: irregular_graph
  use operators, only: edge_softmax_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: edge_softmax_tests

  integer, parameter :: n_heads = 3, n_edges = 105

contains

  function edge_softmax_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds", test_softmax_value), &
      & test_type("wrong shapes", test_softmax_refused)]
  end function edge_softmax_tests

  subroutine test_softmax_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(edge_softmax_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: s(:, :)
    real(dp) :: wanted(n_heads, n_edges)
    real(sp) :: out(n_heads, n_edges)
    integer(int64) :: i, first, last

    call make_softmax(operator, x, y, error)
    if (allocated(error)) return
    call operator%view(1, x, s)
    do i = 0, operator%graph%n_dst - 1
      first = operator%graph%by_dst%offsets(i)
      last = operator%graph%by_dst%offsets(i + 1) - 1
      associate (rows => operator%graph%by_dst%edge(first:last) + 1)
        wanted(:, rows) = exp(s(:, rows))
        wanted(:, rows) = wanted(:, rows)/spread(sum(wanted(:, rows), dim=2), 2, size(rows))
      end associate
    end do
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    call check(error, close(y, reshape(wanted, [size(y)]), 1e-14_dp), "r64")
    if (allocated(error)) return
    call edge_softmax_forward(operator%graph%view(), real(s, sp), out, error)
    if (allocated(error)) return
    call check(error, close(real(reshape(out, [size(y)]), dp), reshape(wanted, [size(y)]), &
      & 1e-6_dp), "r32")
  end subroutine test_softmax_value

  subroutine test_softmax_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(edge_softmax_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: s(:, :)
    real(dp) :: out(n_heads, n_edges)

    call make_softmax(operator, x, y, error)
    if (allocated(error)) return
    call operator%view(1, x, s)
    out(:, :) = 7
    call edge_softmax_forward(operator%graph%view(), s(:, 2:), out(:, 2:), refused)
    call check_refused(error, refused, "edge_softmax: s has shape 3 104, needs 3 105")
    call edge_softmax_vjp(operator%graph%view(), s(:, 2:), s, grad_s=out, error=refused)
    call check_refused(error, refused, "edge_softmax: cotangent has shape 3 104, needs 3 105")
    call edge_softmax_hvp(operator%graph%view(), s, s, s(:, 2:), out, refused)
    call check_refused(error, refused, "edge_softmax: t_s has shape 3 104, needs 3 105")
    call check(error, all(out == 7), "out changed in spite of an error")
  end subroutine test_softmax_refused

  subroutine make_softmax(operator, x, y, error)
    type(edge_softmax_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:), y(:)
    type(error_type), allocatable, intent(out) :: error

    operator%n_heads = n_heads
    call irregular_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([n_heads, n_edges])
    operator%n_out = n_heads*n_edges
    x = numbers(operator%last_of(1), 1)
    allocate (y(operator%n_out))
  end subroutine make_softmax

end module test_edge_softmax

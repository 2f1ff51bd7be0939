! SPDX-License-Identifier: MIT

!> offset_moments: values against plain loops, refusals.
module test_moments
  use gnograd, only: offset_moments_forward, offset_moments_vjp, offset_moments_jvp, error_type, &
    & dp, sp, int64
  use faces, only: close, numbers
  use test_gno, only: irregular_graph
  use operators, only: offset_moments_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: moments_tests

  integer, parameter :: d = 3, n_edges = 105, n_moments = 2 + d + d*(d + 1)/2

contains

  function moments_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds", test_moments_value), &
      & test_type("wrong shapes", test_moments_refused)]
  end function moments_tests

  subroutine test_moments_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(offset_moments_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: sources(:, :), queries(:, :)
    real(dp), allocatable :: wanted(:, :), offset(:, :), length(:)
    real(sp), allocatable :: out(:, :)
    integer(int64) :: i, first, last
    integer :: a, b, k, n

    call make_moments(operator, x, y, error)
    if (allocated(error)) return
    call operator%view(1, x, sources)
    call operator%view(2, x, queries)
    allocate (wanted(n_moments, operator%graph%n_dst), source=0.0_dp)
    allocate (out(n_moments, operator%graph%n_dst))
    do i = 0, operator%graph%n_dst - 1
      first = operator%graph%by_dst%offsets(i)
      last = operator%graph%by_dst%offsets(i + 1) - 1
      n = int(last - first) + 1
      if (n == 0) cycle
      offset = sources(:, operator%graph%by_dst%indices(first:last) + 1) &
        & - spread(queries(:, i + 1), 2, n)
      length = norm2(offset, dim=1)
      wanted(1, i + 1) = sum(length)/n
      wanted(2, i + 1) = sum((length - sum(length)/n)**2)/n
      wanted(3:2 + d, i + 1) = sum(offset, dim=2)/n
      offset(:, :) = offset - spread(wanted(3:2 + d, i + 1), 2, n)
      k = 2 + d
      do a = 1, d
        do b = a, d
          k = k + 1
          wanted(k, i + 1) = sum(offset(a, :)*offset(b, :))/n
        end do
      end do
    end do
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    call check(error, close(y, reshape(wanted, [size(y)]), 1e-13_dp), "r64")
    if (allocated(error)) return
    call offset_moments_forward(operator%graph%view(), real(sources, sp), real(queries, sp), out, &
      & error)
    if (allocated(error)) return
    call check(error, close(real(reshape(out, [size(y)]), dp), reshape(wanted, [size(y)]), &
      & 1e-5_dp), "r32")
  end subroutine test_moments_value

  subroutine test_moments_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(offset_moments_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), pointer, contiguous :: sources(:, :), queries(:, :)
    real(dp) :: out(n_moments, 4)

    call make_moments(operator, x, y, error)
    if (allocated(error)) return
    call operator%view(1, x, sources)
    call operator%view(2, x, queries)
    out(:, :) = 7
    call offset_moments_forward(operator%graph%view(), sources, queries(:, 2:), out, refused)
    call check_refused(error, refused, "offset_moments: y has shape 3 3, needs 3 4")
    call offset_moments_vjp(operator%graph%view(), out(2:, :), sources, queries, error=refused)
    call check_refused(error, refused, "offset_moments: cotangent has shape 10 4, needs 11 4")
    call offset_moments_jvp(operator%graph%view(), sources, queries, sources(:, 2:), queries, out, &
      & refused)
    call check_refused(error, refused, "offset_moments: t_x has shape 3 6, needs 3 7")
    call check(error, all(out == 7), "out changed in spite of an error")
  end subroutine test_moments_refused

  subroutine make_moments(operator, x, y, error)
    type(offset_moments_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:), y(:)
    type(error_type), allocatable, intent(out) :: error

    operator%d = d
    call irregular_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([d, int(operator%graph%n_src)])
    call operator%add_input([d, int(operator%graph%n_dst)])
    operator%n_out = n_moments*int(operator%graph%n_dst)
    x = numbers(operator%last_of(2), 1)
    allocate (y(operator%n_out))
  end subroutine make_moments

end module test_moments

! SPDX-License-Identifier: MIT

!> The derivative of a graph neural operator by a weight, beside the quotient of differences.
program derivative
  use gnograd, only: dp, array_type, error_type, graph_type, tape_type, gno, sum, operator(*)
  implicit none
  integer, parameter :: n = 6, n_hidden = 3
  real(dp), parameter :: step = 1e-5_dp
  type(graph_type) :: ring
  type(tape_type) :: tape
  type(array_type) :: weights
  type(error_type), allocatable :: error
  real(dp), allocatable :: by_tape(:, :)
  real(dp) :: u(n_hidden, 1), quotient
  integer :: i

  ! the neighbours of a node are those before and behind it
  call ring%init([(1 + 2*i, i=0, n)], [(modulo(i - 2, n) + 1, modulo(i, n) + 1, i=1, n)], n, error)
  call stop_on(error)
  call tape%init(error)
  call stop_on(error)

  u(:, 1) = [0.3_dp, -0.8_dp, 0.5_dp]
  weights = tape%parameter(u)
  call tape%backward(loss(weights), error)
  call stop_on(error)
  call weights%grad(by_tape)

  u(2, 1) = u(2, 1) + step
  quotient = number(loss(tape%constant(u)))
  u(2, 1) = u(2, 1) - 2*step
  quotient = (quotient - number(loss(tape%constant(u))))/(2*step)
  print "(2(a, f12.8))", "derivative ", by_tape(2, 1), "  quotient ", quotient
  if (.not. abs(by_tape(2, 1) - quotient) < 1e-8_dp*abs(quotient)) error stop "they differ"

contains

  !> The sum of the squares of a layer with one feature, whose edges are 2 n numbers long.
  function loss(weights)
    type(array_type), intent(in) :: weights
    type(array_type) :: loss, out
    integer :: k

    out = gno(tape%constant(reshape([(sin(real(k, dp)), k=1, n)], [1, n])), &
      & tape%constant(reshape([(0.1_dp*k, k=1, 2*n)], [1, 2*n])), weights, &
      & tape%constant([0.1_dp, 0.2_dp, 0.3_dp]), &
      & tape%constant(reshape([1.0_dp, -0.5_dp, 0.7_dp], [1, 1, n_hidden])), &
      & tape%constant(reshape([0.4_dp], [1, 1])), ring, activation="gelu", reduction="mean")
    loss = sum(out*out)
  end function loss

  function number(x)
    type(array_type), intent(in) :: x
    real(dp) :: number

    number = x%value()
  end function number

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    error stop
  end subroutine stop_on

end program derivative

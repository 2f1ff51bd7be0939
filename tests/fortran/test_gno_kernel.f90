! SPDX-License-Identifier: MIT

!> gno_kernel and gno_aggregate: values against plain loops, refusals.
module test_gno_kernel
  use gnograd, only: act_identity, act_gelu, reduce_sum, reduce_mean, reduce_max, &
    & gno_kernel_forward, gno_kernel_vjp, gno_aggregate_forward, gno_aggregate_vjp, error_type, &
    & dp, sp, int64
  use faces, only: close, numbers
  use test_gno, only: irregular_graph, activate
  use operators, only: gno_aggregate_operator, gno_kernel_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: gno_kernel_tests

  integer, parameter :: d = 2, n_hidden = 19, f_in = 5, f_out = 3, n_edges = 105

  !> Inputs
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: coords => null(), u => null(), &
      & b_v => null(), h => null()
    real(dp), pointer, contiguous, dimension(:, :, :) :: v => null(), kappa => null()
    real(dp), pointer, contiguous :: b_u(:) => null()
  end type arrays_type

contains

  function gno_kernel_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("kernel, values of both kinds", test_kernel_value), &
      & test_type("kernel, wrong shapes and codes", test_kernel_refused), &
      & test_type("aggregate, values of both kinds", test_aggregate_value), &
      & test_type("aggregate, wrong shapes and codes", test_aggregate_refused)]
  end function gno_kernel_tests

  ! ---- gno_kernel ----

  subroutine test_kernel_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_kernel_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp) :: wanted(f_out, f_in, n_edges), hid(n_hidden)
    real(sp) :: kappa(f_out, f_in, n_edges)
    integer :: e, i, o

    do while (operator%activation <= act_identity)
      call make_kernel(operator, x, y)
      in = arrays(operator, x)
      do e = 1, n_edges
        hid(:) = activate(operator%activation, matmul(in%u, in%coords(:, e)) + in%b_u)
        do i = 1, f_in
          do o = 1, f_out
            wanted(o, i, e) = in%b_v(o, i) + dot_product(in%v(o, i, :), hid)
          end do
        end do
      end do
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, close(y, reshape(wanted, [size(y)]), 1e-13_dp), "r64")
      if (allocated(error)) return
      call gno_kernel_forward(operator%activation, real(in%coords, sp), real(in%u, sp), &
        & real(in%b_u, sp), real(in%v, sp), real(in%b_v, sp), kappa, error)
      if (allocated(error)) return
      call check(error, close(real(reshape(kappa, [size(y)]), dp), reshape(wanted, [size(y)]), &
        & 1e-6_dp), "r32")
      if (allocated(error)) return
      operator = gno_kernel_operator(activation=operator%activation + 1)
    end do
  end subroutine test_kernel_value

  subroutine test_kernel_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(gno_kernel_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp) :: kappa(f_out, f_in, n_edges), none(f_out, f_in, 0)

    call make_kernel(operator, x, y)
    in = arrays(operator, x)
    kappa(:, :, :) = 7
    call gno_kernel_forward(17, in%coords, in%u, in%b_u, in%v, in%b_v, kappa, refused)
    call check_refused(error, refused, "gno_kernel: unknown activation")
    call gno_kernel_forward(act_gelu, in%coords, in%u, in%b_u, none, in%b_v, kappa, refused)
    call check_refused(error, refused, "gno_kernel: v has shape 3 5 0, needs 3 5 19")
    call gno_kernel_forward(act_gelu, in%coords, in%u(:, 2:), in%b_u, in%v, in%b_v, kappa, refused)
    call check_refused(error, refused, "gno_kernel: u has shape 19 1, needs 19 2")
    call gno_kernel_vjp(act_gelu, kappa(:, :, 2:), in%coords, in%u, in%b_u, in%v, in%b_v, &
      & error=refused)
    call check_refused(error, refused, "gno_kernel: cotangent has shape 3 5 104, needs 3 5 105")
    call check(error, all(kappa == 7), "kappa changed in spite of an error")
  end subroutine test_kernel_refused

  subroutine make_kernel(operator, x, y)
    type(gno_kernel_operator), intent(inout) :: operator
    real(dp), allocatable, intent(out) :: x(:), y(:)

    operator%n_edges = n_edges
    operator%f_in = f_in
    operator%f_out = f_out
    call operator%add_input([d, n_edges])
    call operator%add_input([n_hidden, d])
    call operator%add_input([n_hidden])
    call operator%add_input([f_out, f_in, n_hidden])
    call operator%add_input([f_out, f_in])
    operator%n_out = f_out*f_in*n_edges
    x = numbers(operator%last_of(5), 1)
    allocate (y(operator%n_out))
  end subroutine make_kernel

  function arrays(operator, x) result(views)
    type(gno_kernel_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%coords)
    call operator%view(2, x, views%u)
    call operator%view(3, x, views%b_u)
    call operator%view(4, x, views%v)
    call operator%view(5, x, views%b_v)
  end function arrays

  ! ---- gno_aggregate ----

  subroutine test_aggregate_value(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_aggregate_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp) :: wanted(f_out, 4), s
    real(sp) :: out(f_out, 4)
    integer :: reduction, i, p, e, j

    do reduction = reduce_sum, reduce_mean
      call make_aggregate(operator, reduction, x, y, error)
      if (allocated(error)) return
      call operator%view(1, x, in%h)
      call operator%view(2, x, in%kappa)
      wanted(:, :) = 0
      associate (csc => operator%graph%by_dst)
        do i = 1, 4
          s = 1
          if (reduction == reduce_mean) s = 1/real(max(csc%offsets(i) - csc%offsets(i - 1), &
            & 1_int64), dp)
          do p = int(csc%offsets(i - 1)), int(csc%offsets(i)) - 1
            j = int(csc%indices(p)) + 1
            e = int(csc%edge(p)) + 1
            wanted(:, i) = wanted(:, i) + s*matmul(in%kappa(:, :, e), in%h(:, j))
          end do
        end do
      end associate
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, close(y, reshape(wanted, [size(y)]), 1e-13_dp), "r64")
      if (allocated(error)) return
      call gno_aggregate_forward(operator%graph%view(), reduction, real(in%h, sp), &
        & real(in%kappa, sp), &
        & out, error)
      if (allocated(error)) return
      call check(error, close(real(reshape(out, [size(y)]), dp), reshape(wanted, [size(y)]), &
        & 1e-6_dp), "r32")
      if (allocated(error)) return
    end do
  end subroutine test_aggregate_value

  subroutine test_aggregate_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(gno_aggregate_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp) :: out(f_out, 4)

    call make_aggregate(operator, reduce_sum, x, y, error)
    if (allocated(error)) return
    call operator%view(1, x, in%h)
    call operator%view(2, x, in%kappa)
    out(:, :) = 7
    call gno_aggregate_forward(operator%graph%view(), reduce_max, in%h, in%kappa, out, refused)
    call check_refused(error, refused, "gno_aggregate: reduction must be sum or mean")
    call gno_aggregate_forward(operator%graph%view(), reduce_sum, in%h(:, 2:), in%kappa, out, &
      & refused)
    call check_refused(error, refused, "gno_aggregate: h has shape 5 6, needs 5 7")
    call gno_aggregate_vjp(operator%graph%view(), reduce_sum, out, in%h, in%kappa, &
      & grad_kappa=in%kappa(:, :, 2:), error=refused)
    call check_refused(error, refused, "gno_aggregate: grad_kappa has shape 3 5 104, needs 3 5 105")
    call check(error, all(out == 7), "out changed in spite of an error")
  end subroutine test_aggregate_refused

  subroutine make_aggregate(operator, reduction, x, y, error)
    type(gno_aggregate_operator), intent(out) :: operator
    integer, intent(in) :: reduction
    real(dp), allocatable, intent(out) :: x(:), y(:)
    type(error_type), allocatable, intent(out) :: error

    operator%reduction = reduction
    operator%f_out = f_out
    call irregular_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([f_in, int(operator%graph%n_src)])
    call operator%add_input([f_out, f_in, n_edges])
    operator%n_out = f_out*int(operator%graph%n_dst)
    x = numbers(operator%last_of(2), 1)
    allocate (y(operator%n_out))
  end subroutine make_aggregate

end module test_gno_kernel

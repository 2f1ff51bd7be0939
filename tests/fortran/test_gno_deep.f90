! SPDX-License-Identifier: MIT

!> gno_deep: values against the formula edge by edge, refusals.
module test_gno_deep
  use gnograd, only: act_gelu, act_silu, act_tanh, reduce_sum, reduce_mean, error_type, dp, sp, &
    & int64
  use gnograd_kernels, only: gno_deep_forward
  use faces, only: close, numbers
  use test_edge_mlp, only: apply_layers
  use operators, only: gno_deep_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: gno_deep_tests

  integer, parameter :: f = 3, n_src = 7, n_dst = 4, n_edges = 41, n_cases = 12

  !> Inputs
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: h => null(), y => null(), x => null(), &
      & c => null()
    real(dp), pointer, contiguous, dimension(:) :: layers => null(), edge_weight => null()
  end type arrays_type

contains

  function gno_deep_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values", test_values), &
      & test_type("values, r32", test_single), &
      & test_type("wrong shapes and codes", test_refused)]
  end function gno_deep_tests

  !> Inputs, layers, reductions and activations in several combinations.
  subroutine choose(k, operator, x, error)
    !> 1 to n_cases
    integer, intent(in) :: k
    type(gno_deep_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: activations(0:2) = [act_tanh, act_gelu, act_silu]
    integer :: before, l, n_layers, p
    logical :: seen(3)

    operator%f_out = f
    operator%activation = activations(mod(k/2, 3))
    operator%reduction = merge(reduce_sum, reduce_mean, mod(k, 2) == 0)
    operator%n_functions = 1 + mod(k, 2)
    seen = [mod(k, 4) > 0, mod(k, 5) > 0, mod(k, 4) < 2]
    ! the second destination has no edges
    call operator%graph%init([1, 3, 3, 8, n_edges + 1], [(1 + mod(3*p*p, n_src), p=1, n_edges)], &
      & n_src, error, [(1 + mod(11*p, n_edges), p=1, n_edges)])
    if (allocated(error)) return
    operator%widths = [5, 4, f]
    if (mod(k, 3) == 1) operator%widths = [6, f]
    if (mod(k, 6) == 5) operator%widths = [f]
    n_layers = 0
    before = sum(merge([2, 4, 3], 0, seen))
    do l = 1, size(operator%widths)
      n_layers = n_layers + (before + 1)*int(operator%widths(l))
      before = int(operator%widths(l))
    end do
    if (mod(k, 7) == 0) operator%n_functions = 1
    call operator%add_input(pack([int(operator%n_functions)*f, n_src], mod(k, 7) > 0))
    call operator%add_input(pack([2, n_src], seen(1)))
    call operator%add_input(pack([4, n_dst], seen(2)))
    call operator%add_input(pack([3, n_edges], seen(3)))
    call operator%add_input([n_layers])
    call operator%add_input(pack([n_edges], mod(k, 4) /= 0))
    operator%n_out = int(operator%n_functions)*f*n_dst
    x = numbers(operator%last_of(6), k)
  end subroutine choose

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_deep_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:)
    integer :: k

    do k = 1, n_cases
      call choose(k, operator, x, error)
      if (allocated(error)) return
      allocate (y(operator%n_out))
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, close(y, formula(operator, arrays(operator, x)), 1e-13_dp), &
        & "not the formula")
      if (allocated(error)) return
      deallocate (y)
    end do
  end subroutine test_values

  subroutine test_single(error)
    type(error_type), allocatable, intent(out) :: error
    type(gno_deep_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(sp), allocatable :: out(:, :)

    ! all inputs and two functions
    call choose(1, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (out(2*f, n_dst))
    call gno_deep_forward(operator%graph%view(), operator%widths, operator%activation, &
      & operator%reduction, real(in%h, sp), real(in%y, sp), real(in%x, sp), real(in%c, sp), &
      & real(in%layers, sp), real(in%edge_weight, sp), out, error)
    if (allocated(error)) return
    call check(error, close(real([out], dp), formula(operator, in), 1e-5_dp), "not the formula")
  end subroutine test_single

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(gno_deep_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(2*f, n_dst)

    call choose(1, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    out = 7
    in%x => in%x(:, :3)
    call forward(operator%widths, operator%activation)
    call check_refused(error, refused, "gno_deep: x has shape 4 3, needs 4 4")
    in = arrays(operator, x)
    call forward(operator%widths, 17)
    call check_refused(error, refused, "gno_deep: unknown activation")
    call forward([6_int64, 4_int64], operator%activation)
    call check_refused(error, refused, "gno_deep: h has shape 6 7, needs 4 7")
    call check(error, all(out == 7), "results changed in spite of an error")

  contains

    subroutine forward(widths, activation)
      integer(int64), intent(in), contiguous :: widths(:)
      integer, intent(in) :: activation

      call gno_deep_forward(operator%graph%view(), widths, activation, operator%reduction, in%h, &
        & in%y, in%x, in%c, in%layers, in%edge_weight, out, refused)
    end subroutine forward

  end subroutine test_refused

  ! ---- the operator ----

  function arrays(operator, x) result(views)
    class(gno_deep_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%h)
    call operator%view(2, x, views%y)
    call operator%view(3, x, views%x)
    call operator%view(4, x, views%c)
    call operator%view(5, x, views%layers)
    call operator%view(6, x, views%edge_weight)
  end function arrays

  !> Output [n_functions*f*n_dst], edge by edge.
  function formula(operator, in) result(y)
    type(gno_deep_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(dp) :: y(operator%n_out), out(f, operator%n_functions, n_dst), w
    real(dp), allocatable :: z(:)
    integer(int64) :: e, i, j, p
    integer :: function, n_read

    out = 0
    associate (edges => operator%graph%view())
      do i = 0, n_dst - 1
        do p = edges%by_dst%offsets(i), edges%by_dst%offsets(i + 1) - 1
          j = edges%by_dst%indices(p)
          e = edges%by_dst%edge(p)
          z = [real(dp) ::]
          if (associated(in%y)) z = [z, in%y(:, j + 1)]
          if (associated(in%x)) z = [z, in%x(:, i + 1)]
          if (associated(in%c)) z = [z, in%c(:, e + 1)]
          call apply_layers(operator%activation, operator%widths, in%layers, z, n_read)
          w = 1
          if (associated(in%edge_weight)) w = in%edge_weight(e + 1)
          do function = 1, int(operator%n_functions)
            if (associated(in%h)) then
              out(:, function, i + 1) = out(:, function, i + 1) + &
                & w*z*in%h((function - 1)*f + 1:function*f, j + 1)
            else
              out(:, function, i + 1) = out(:, function, i + 1) + w*z
            end if
          end do
        end do
        if (operator%reduction == reduce_mean) out(:, :, i + 1) = out(:, :, i + 1)/ &
          & max(edges%by_dst%offsets(i + 1) - edges%by_dst%offsets(i), 1_int64)
      end do
    end associate
    y = [out]
  end function formula

end module test_gno_deep

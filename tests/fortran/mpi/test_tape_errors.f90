! SPDX-License-Identifier: MIT

!> An operation that fails on one process, forward or on the way back, ends on all with its error,
!> and nobody waits.
module test_tape_errors
  use gnograd, only: dp, error_type, int64, tape_type, array_type, sum, operator(*)
  use gnograd_core_error, only: fail, code_value
  use gnograd_mpi, only: halo, global_sum, global_mean, global_norm
  use layer, only: layer_type, weights_type, make_layer, make_weights, apply, values, f_in
  use testing, only: test_type, check
  implicit none
  private
  public :: tape_error_tests

contains

  function tape_error_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("forward", test_errors), &
      & test_type("on the way back", test_errors_back)]
  end function tape_error_tests

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(layer_type) :: it
    type(tape_type) :: tape
    type(array_type) :: x, y, never
    logical :: last

    call make_layer("scattered", .true., it, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    associate (graph => it%distributed)
      last = graph%rank == graph%size - 1
      x = tape%parameter(values(2, it%src))
      y = tape%parameter(values(2, [1_int64, 2_int64]))

      call attempt(halo(choice(y, x), graph), "halo: x has 2 rows, needs ")
      call attempt(halo(choice(x*y, x), graph), "multiply: shapes")
      call attempt(halo(choice(tape%constant(1.0_dp), x), graph), "halo: x has no axis, needs rows")
      call attempt(halo(choice(never, x), graph), "gnograd_mpi: an operand has no value")
      call attempt(global_sum(choice(never, sum(x)), graph), "gnograd_mpi: an operand has no value")
      call attempt(global_norm(choice(x*y, x), graph), "multiply: shapes")
      call attempt(global_mean(choice(x*y, x), graph), "multiply: shapes")
      if (graph%size > 1) then
        call attempt(global_sum(choice(x*x, y), graph), "sum: ")
        call attempt(halo(choice(tape%constant(values(3, it%src)), x), graph), &
          & "halo: 2 features on one process, 3 on another")
      end if
      ! all is well afterwards
      y = halo(x, graph)
      call tape%check(raised)
      call check(error, .not. allocated(raised), "the tape goes on")
    end associate

  contains

    function choice(wrong, right) result(x)
      type(array_type), intent(in) :: wrong, right
      type(array_type) :: x

      x = right
      if (last) x = wrong
      ! the wrong one was computed on all processes
      if (.not. last) call tape%clear_error()
    end function choice

    !> All have the first error, at the latest when gradients are summed.
    subroutine attempt(result, message)
      type(array_type), intent(in) :: result
      character(len=*), intent(in) :: message

      call check(error, .not. result%alive(), "a result of '"//message//"'")
      call tape%check(raised)
      call check(error, last .or. allocated(raised), "no error of '"//message//"'")
      ! backward's message for an array that never was on a tape
      if (.not. allocated(raised)) call fail(raised, code_value, message)
      call it%distributed%sum_gradients([x], raised)
      if (allocated(raised)) then
        call check(error, index(raised%message, message) == 1, raised%message)
      else
        call check(error, .false., "no error of '"//message//"'")
      end if
      call tape%clear_error()
    end subroutine attempt

  end subroutine test_errors

  !> A failure on one process in the sweep ends the sweep of the others, which wait for rows.
  subroutine test_errors_back(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(layer_type) :: it
    type(tape_type) :: tape
    type(array_type) :: h, out, w
    type(weights_type) :: weights

    call make_layer("scattered", .true., it, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    weights = make_weights(tape)
    h = tape%parameter(values(f_in, it%src))
    w = tape%parameter([1.0_dp])
    out = apply(it, tape, h, weights)
    out = out*w
    ! the gradient to h needs w as it was
    if (it%distributed%rank == 0) call w%set_value([2.0_dp])
    call tape%backward(global_sum(sum(out), it%distributed), raised)
    call it%distributed%sum_gradients([weights%u], raised)
    call check(error, allocated(raised), "no error")
    if (allocated(error)) return
    call check(error, index(raised%message, "gradient: a value was changed") == 1, raised%message)
    call tape%clear_error()
    out = apply(it, tape, h, weights)
    deallocate (raised)
    call tape%backward(global_sum(sum(out), it%distributed), raised)
    call it%distributed%sum_gradients([weights%u], raised)
    if (allocated(raised)) call check(error, .false., raised%message)
  end subroutine test_errors_back

end module test_tape_errors

! SPDX-License-Identifier: MIT

!> Tools of a training loop besides the derivatives: AdamW, clipping, rates, checkpoints.
module test_training
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use gnograd
  use test_autodiff, only: draw, expect
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: training_tests

  character(len=*), parameter :: filename = "gnograd_test_training.safetensors"

contains

  function training_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("AdamW", test_adamw), &
      & test_type("gradients are clipped together", test_clip), &
      & test_type("rates", test_rates), &
      & test_type("a training goes on with the same bits", test_resume), &
      & test_type("checkpoints that do not fit", test_refused), &
      & test_type("steps after an error move nothing", test_steps_after_errors)]
  end function training_tests

  !> Against the formula.
  subroutine test_adamw(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x
    type(adamw_type) :: adamw
    real(dp) :: p, m, v
    integer :: k, mark

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter(1.0_dp)
    call adamw%init([x], 0.1_dp, error, weight_decay=0.2_dp)
    p = 1
    m = 0
    v = 0
    mark = tape%mark()
    do k = 1, 5
      if (.not. allocated(error)) call tape%backward(x**4, error)
      if (.not. allocated(error)) call adamw%step(error)
      if (allocated(error)) return
      call tape%rewind(mark)
      m = 0.9_dp*m + 0.1_dp*4*p**3
      v = 0.999_dp*v + 0.001_dp*(4*p**3)**2
      p = p*(1 - 0.1_dp*0.2_dp) - 0.1_dp*m/(1 - 0.9_dp**k)/(sqrt(v/(1 - 0.999_dp**k)) + 1e-8_dp)
    end do
    call check(error, abs(x%value() - p) < 1e-13_dp, "value")
    call adamw%init([x], 0.1_dp, error)
    call check(error, abs(adamw%weight_decay - 0.01_dp) < 1e-16, "default")
  end subroutine test_adamw

  subroutine test_clip(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y
    type(sgd_type) :: sgd
    real(dp), allocatable :: slope(:)
    real(dp) :: norm

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([3.0_dp, 0.0_dp])
    y = tape%parameter([0.0_dp, 4.0_dp])
    call sgd%init([x, y], 0.1_dp, error)
    if (.not. allocated(error)) call tape%backward(sum(x*x + y*y)/2, error)
    if (allocated(error)) return
    call sgd%clip_gradients(6.0_dp, norm)
    call x%grad(slope)
    call check(error, norm == 5 .and. slope(1) == 3, "short enough")
    call sgd%clip_gradients(1.0_dp, norm)
    call x%grad(slope)
    call check(error, norm == 5 .and. abs(slope(1) - 0.6_dp) < 1e-15, "shorter")
    call y%grad(slope)
    call check(error, abs(slope(2) - 0.8_dp) < 1e-15, "together")
    if (.not. allocated(error)) call check_clipped(1e25, error)
    if (.not. allocated(error)) call check_clipped(1e-30, error)
  end subroutine test_clip

  !> Gradients in real32 whose squares are beyond its range
  subroutine check_clipped(each, error)
    real, intent(in) :: each
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x
    type(sgd_type) :: sgd
    real, allocatable :: slope(:)
    real(dp) :: norm, truth

    call tape%init(error)
    if (allocated(error)) return
    x = tape%parameter([1.0, 2.0, 3.0])
    call sgd%init([x], 0.1_dp, error)
    if (.not. allocated(error)) call tape%backward(sum(each*x), error)
    if (allocated(error)) return
    truth = sqrt(3.0_dp)*each
    call sgd%clip_gradients(truth/2, norm)
    call x%grad(slope)
    call check(error, abs(norm - truth) < 1e-6*truth, "norm beyond the range of squares")
    call check(error, all(abs(slope - each/2) < 1e-6*each), "clipped beyond the range of squares")
  end subroutine check_clipped

  subroutine test_rates(error)
    type(error_type), allocatable, intent(out) :: error
    !> Some of those of OneCycleLR(optimizer, 0.1, total_steps=20)
    real(dp), parameter :: zero = 0, one_cycle(20) = [0.0040000000000000036_dp, zero, &
      & 0.037167184270002526_dp, zero, zero, 0.1_dp, zero, zero, zero, zero, &
      & 0.07169430017913009_dp, zero, zero, zero, zero, zero, zero, zero, zero, 4e-07_dp]
    integer :: k

    call check(error, abs(cosine_rate(1, 100, 0.1_dp, 10) - 0.01_dp) < 1e-16, "warm-up")
    call check(error, abs(cosine_rate(10, 100, 0.1_dp, 10) - 0.1_dp) < 1e-16, "peak")
    call check(error, abs(cosine_rate(55, 100, 0.1_dp, 10, 0.02_dp) - 0.06_dp) < 1e-15, "half")
    call check(error, abs(cosine_rate(100, 100, 0.1_dp, 10, 0.02_dp) - 0.02_dp) < 1e-15, "last")
    call check(error, abs(cosine_rate(0, 100, 0.1_dp) - 0.1_dp) < 1e-16, "no warm-up")
    call check(error, abs(constant_rate(5, 0.1_dp, 10) - 0.05_dp) < 1e-16, "constant: warm-up")
    call check(error, abs(constant_rate(99, 0.1_dp, 10) - 0.1_dp) < 1e-16, "constant")
    call check(error, abs(linear_rate(55, 100, 0.1_dp, 10, 0.02_dp) - 0.06_dp) < 1e-15, "linear")
    call check(error, abs(linear_rate(100, 100, 0.1_dp) - 0.0_dp) < 1e-16, "linear: last")
    call check(error, abs(step_rate(30, 30, 0.1_dp, 0.5_dp) - 0.1_dp) < 1e-16, "before the step")
    call check(error, abs(step_rate(31, 30, 0.1_dp, 0.5_dp) - 0.05_dp) < 1e-16, "after the step")
    call check(error, abs(step_rate(41, 30, 0.1_dp, 0.5_dp, 10) - 0.05_dp) < 1e-16, "step: warm-up")
    call check(error, abs(exponential_rate(16, 30, 0.1_dp, 0.25_dp) - 0.05_dp) < 1e-15, "half")
    call check(error, maxval(abs([(one_cycle_rate(k, 20, 0.1_dp), k=1, 20)] - one_cycle), &
      & mask=one_cycle > 0) < 1e-15, "as PyTorch's OneCycleLR")
  end subroutine test_rates

  !> Six steps, or three, a file, and three more on another tape.
  subroutine test_resume(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape, other
    type(adam_type) :: adam, again
    type(array_type) :: x(2), y(2)
    real(sp), allocatable :: whole(:), parts(:)

    call begin(tape, x, adam, error)
    if (.not. allocated(error)) call train(tape, x, adam, 3, error)
    if (.not. allocated(error)) call adam%save(filename, error)
    if (.not. allocated(error)) call train(tape, x, adam, 3, error)
    if (.not. allocated(error)) call begin(other, y, again, error)
    if (allocated(error)) return
    again%lr = 7
    call again%load(filename, error)
    if (.not. allocated(error)) call train(other, y, again, 3, error)
    if (allocated(error)) return
    call x(1)%val(whole)
    call y(1)%val(parts)
    call check(error, all(whole == parts), "the same bits")
    call check(error, again%steps == 6 .and. abs(again%lr - 0.1_dp) < 1e-16, "steps, rate")
    call remove()
  end subroutine test_resume

  subroutine begin(tape, x, adam, error)
    type(tape_type), intent(inout) :: tape
    type(array_type), intent(out) :: x(2)
    type(adam_type), intent(inout) :: adam
    type(error_type), allocatable, intent(out) :: error

    call tape%init(error)
    if (allocated(error)) return
    x(1) = tape%parameter([1.0_sp, 2.0_sp], "a")
    x(2) = tape%parameter(reshape([0.5_sp, 0.1_sp], [2, 1]), "b")
    call adam%init(x, 0.1_dp, error)
  end subroutine begin

  subroutine train(tape, x, adam, n_steps, error)
    type(tape_type), intent(inout) :: tape
    type(array_type), intent(in) :: x(2)
    type(adam_type), intent(inout) :: adam
    integer, intent(in) :: n_steps
    type(error_type), allocatable, intent(out) :: error
    integer :: k, mark

    mark = tape%mark()
    do k = 1, n_steps
      call tape%backward(sum((x(1) - 3)**2*exp(x(2))), error)
      if (.not. allocated(error)) call adam%step(error)
      if (allocated(error)) return
      call tape%rewind(mark)
    end do
  end subroutine train

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(adam_type) :: adam, other
    type(adamw_type) :: adamw
    type(sgd_type) :: sgd
    type(array_type) :: x(2)
    type(weights_type) :: weights
    real(sp), allocatable :: values(:)
    real(dp) :: nan

    call adam%save(filename, refused)
    call check_refused(error, refused, "optimizer: init comes first")
    if (.not. allocated(error)) call begin(tape, x, adam, error)
    if (.not. allocated(error)) call adam%save(filename, error)
    if (.not. allocated(error)) call sgd%init(x, 0.1_dp, error)
    if (allocated(error)) return
    call sgd%load(filename, refused)
    call check_refused(error, refused, "optimizer%load: "//filename// &
      & " has other parameters too, or is of another optimizer")
    call adam%init([x(1), tape%parameter(1.0_sp)], 0.1_dp, error)
    if (allocated(error)) return
    call adam%save(filename, refused)
    call check_refused(error, refused, &
      & "optimizer: parameter 2 has no name: tape%parameter(values, name)")
    call adam%init([x(1), tape%parameter(1.0_sp, "a")], 0.1_dp, error)
    if (allocated(error)) return
    call adam%save(filename, refused)
    call check_refused(error, refused, "optimizer: two parameters have the name 'a'")
    call other%init([x, x(:1)], 0.1_dp, refused)
    call check_refused(error, refused, &
      & "optimizer: a parameter is given twice, and would move twice a step")
    nan = ieee_value(nan, ieee_quiet_nan)
    call adam%init(x(:1), -0.1_dp, refused)
    call check_refused(error, refused, "optimizer: lr must not be negative, and finite")
    call adam%init(x(:1), 0.1_dp, refused, beta2=1.0_dp)
    call check_refused(error, refused, "optimizer: beta2 must not be negative, and less than 1")
    call adamw%init(x(:1), 0.1_dp, refused, weight_decay=nan)
    call check_refused(error, refused, "optimizer: weight_decay must not be negative, and finite")
    call sgd%init(x(:1), 0.1_dp, refused, momentum=-0.9_dp)
    call check_refused(error, refused, "optimizer: momentum must not be negative, and finite")
    call sgd%step(refused)
    call check_refused(error, refused, "optimizer: init comes first")
    call sgd%init(x(:1), 0.1_dp, refused)
    sgd%lr = nan
    call sgd%step(refused)
    call check_refused(error, refused, "optimizer: lr is not finite")
    call other%init(x(:1), 0.1_dp, error)
    if (.not. allocated(error)) call load_weights(filename, weights, error)
    if (.not. allocated(error)) call weights%set("a", [1.0_sp, 2.0_sp, 3.0_sp], error)
    if (.not. allocated(error)) call save_weights(filename, weights, error)
    if (allocated(error)) return
    call other%load(filename, refused)
    call check_refused(error, refused, "optimizer%load: 'a' has another shape in "//filename)
    call x(1)%val(values)
    call check(error, all(values == [1, 2]), "an error changes nothing")
    call remove()
  end subroutine test_refused

  subroutine remove()
    integer :: unit

    open (newunit=unit, file=filename, status="old")
    close (unit, status="delete")
  end subroutine remove

  !> One bad sample in a training: the loop of the documentation.
  subroutine test_steps_after_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    character(len=*), parameter :: message = "subtract: shapes (2, 10) - (2, 9) cannot be "// &
      & "broadcast", lost = "optimizer: the last backward (or sum_gradients) has failed, so that "// &
      & "there are no gradients"
    type(tape_type) :: tape
    type(array_type) :: w, b, loss, nothing
    type(adam_type) :: adam, other
    real(dp), allocatable :: before(:, :), after(:, :)
    real(dp) :: x(3, 10), y(2, 10), norm
    integer :: step, start, n

    x = draw([3, 10], 1)
    y = draw([2, 10], 2)
    call tape%init(error)
    if (allocated(error)) return
    w = tape%parameter(draw([2, 3], 3), "w")
    b = tape%parameter(draw([2, 1], 4), "b")
    call adam%init([w, b], 0.1_dp, error)
    if (allocated(error)) return
    start = tape%mark()
    do step = 1, 5
      if (step == 4) call w%val(before, error)
      n = merge(9, 10, step == 4)
      loss = mean((matmul(w, tape%constant(x)) + b - tape%constant(y(:, :n)))**2)
      call tape%backward(loss, raised)
      call adam%step(raised)
      call tape%rewind(start)
      call check(error, allocated(raised) .eqv. step > 3, "the error of a step")
      if (allocated(raised)) call check(error, raised%message == message, raised%message)
      if (allocated(error)) return
    end do
    call adam%save("after_an_error.safetensors", raised)
    call check(error, allocated(raised), "an optimizer of a marked tape is saved")
    call other%init([w, nothing], 0.1_dp, raised)
    if (.not. allocated(error)) call check(error, raised%message == message, raised%message)
    call adam%clip_gradients(1.0_dp, norm, raised)
    call check(error, allocated(raised) .and. norm /= norm, "a norm of gradients that are none")
    call expect(tape, message, error)
    ! whoever forgets the error finds no gradients, and not those of step 3
    call w%val(after, error)
    if (allocated(error)) return
    call check(error, all(after == before) .and. adam%steps == 3, "a parameter has moved")
    call w%grad(after, error)
    if (allocated(error)) return
    call check(error, all(after == 0), "an old gradient")
    call adam%step(raised)
    if (.not. allocated(error)) call check(error, raised%message == lost, raised%message)
    ! a part of a sum is none either
    call tape%backward(sum(w), raised, add=.true.)
    call check(error, .not. allocated(raised), "backward after an error")
    call adam%step(raised)
    if (.not. allocated(error)) call check(error, allocated(raised), "a part of a sum of gradients")
    if (allocated(error)) return
    call tape%backward(sum(w), error)
    if (.not. allocated(error)) call adam%step(error)
    if (allocated(error)) return
    call w%val(after, error)
    call check(error, any(after /= before) .and. adam%steps == 4, "no way back")
    ! and an error that has nothing to do with backward
    nothing = w + tape%constant([1.0_dp, 2.0_dp, 3.0_dp])
    call adam%step(raised)
    call check(error, allocated(raised) .and. adam%steps == 4, "a step on a marked tape")
    call tape%clear_error()
    call adam%step(raised)
    call check(error, .not. allocated(raised), "gradients of the last backward")
  end subroutine test_steps_after_errors

end module test_training

! SPDX-License-Identifier: MIT

!> Training loop, with rates, clipping, reports and checkpoints.
module gnograd_nn_training
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use, intrinsic :: iso_fortran_env, only: output_unit
  use gnograd_core_error, only: error_type, fail, text, code_value
  use gnograd_core_kinds, only: dp, int64
  use gnograd_autodiff_array, only: array_type
  use gnograd_autodiff_elementwise, only: operator(/)
  use gnograd_autodiff_optimizer, only: optimizer_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_nn_rates, only: constant_rate, linear_rate, cosine_rate, step_rate, &
    & exponential_rate, one_cycle_rate
  use gnograd_nn_samples, only: sample_type, loader_type
  implicit none
  private
  public :: model_type, training_type, evaluate

  character(len=*), parameter :: schedules(*) = [character(len=11) :: "cosine", "linear", &
    & "constant", "step", "exponential", "one_cycle"]

  !> Base of the models to train: a type of the program, with its layers.
  type, abstract :: model_type
  contains
    procedure(loss_interface), deferred :: loss
  end type model_type

  abstract interface
    !> Loss of one sample, or of several in one graph: a number that shall become small
    function loss_interface(self, tape, sample) result(loss)
      import :: model_type, tape_type, sample_type, array_type
      class(model_type), intent(in) :: self
      type(tape_type), intent(inout) :: tape
      type(sample_type), intent(in) :: sample
      type(array_type) :: loss
    end function loss_interface
  end interface

  !> Settings of a training. A type that extends it may have a rate and a report of its own.
  type :: training_type
    !> Steps of the optimizer, those before a checkpoint counted
    integer :: n_steps = 1000
    !> Schedule of the rate: cosine, linear, constant, step, exponential or one_cycle
    character(len=20) :: schedule = "cosine"
    !> The rate rises to lr in n_warmup steps; in one_cycle 0 stands for three tenths of n_steps
    real(dp) :: lr = 1e-3_dp
    integer :: n_warmup = 0
    !> Last rate: cosine, linear, one_cycle
    real(dp) :: last_lr = 0
    !> Factor of the rate after every decay_every steps (step), or in the course of so many
    !> (exponential)
    real(dp) :: decay = 0.1_dp
    integer :: decay_every = 1000
    !> Largest norm of gradients; longer ones are clipped
    real(dp) :: max_norm = huge(1.0_dp)
    !> Batches whose gradients make a step, one after another
    integer :: n_accumulate = 1
    !> Steps between two reports; 0: no reports
    integer :: report_every = 100
    !> File of checkpoints; if it is there, the training goes on from it
    character(len=400) :: checkpoint = ""
    !> Steps between two checkpoints; there is one at the end in any case
    integer :: checkpoint_every = 1000
  contains
    !> Run the training
    procedure :: run
    !> Learning rate of a step, by the schedule
    procedure :: rate
    !> Print a line about the steps since the last report
    procedure :: report
  end type training_type

contains

  !> Take steps of the optimizer until there have been n_steps.
  subroutine run(self, model, tape, loader, optimizer, error)
    class(training_type), intent(in) :: self
    class(model_type), intent(in) :: model
    !> Tape with the parameters of the model
    type(tape_type), intent(inout) :: tape
    type(loader_type), intent(inout), target :: loader
    !> Optimizer after its init with the parameters, which all have names if there are checkpoints
    class(optimizer_type), intent(inout) :: optimizer
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: loss, total
    integer :: step, n, start
    logical :: is_there, is_last
    integer(int64) :: ticks, before, per_second

    call check_settings(self, error)
    if (allocated(error)) return
    if (self%checkpoint /= "") then
      inquire (file=trim(self%checkpoint), exist=is_there)
      if (is_there) call optimizer%load(trim(self%checkpoint), error)
      if (allocated(error)) return
    end if
    start = tape%mark()
    total = 0
    n = 0
    call system_clock(before, per_second)
    do step = int(optimizer%steps) + 1, self%n_steps
      call collect_gradients(self, model, tape, loader, step, start, loss, error)
      if (allocated(error)) return
      call optimizer%clip_gradients(self%max_norm, error=error)
      if (allocated(error)) return
      optimizer%lr = self%rate(step)
      call optimizer%step(error)
      if (allocated(error)) return
      total = total + loss
      n = n + 1
      is_last = step == self%n_steps
      if (every(self%report_every, step) .or. (self%report_every > 0 .and. is_last)) then
        call system_clock(ticks)
        call self%report(step, total/n, optimizer%lr, real(ticks - before, dp)/per_second/n)
        before = ticks
        total = 0
        n = 0
      end if
      if (self%checkpoint == "") cycle
      if (.not. (every(self%checkpoint_every, step) .or. is_last)) cycle
      call optimizer%save(trim(self%checkpoint), error)
      if (allocated(error)) return
    end do
  end subroutine run

  subroutine check_settings(self, error)
    class(training_type), intent(in) :: self
    type(error_type), allocatable, intent(out) :: error

    if (self%n_accumulate < 1) then
      call fail(error, code_value, "training: n_accumulate is "// &
        & text(int(self%n_accumulate, int64))//", needs 1 or more")
    else if (self%decay_every < 1) then
      call fail(error, code_value, "training: decay_every is "// &
        & text(int(self%decay_every, int64))//", needs 1 or more")
    else if (.not. any(self%schedule == schedules)) then
      call fail(error, code_value, "training: schedule is '"//trim(self%schedule)// &
        & "', needs cosine, linear, constant, step, exponential or one_cycle")
    end if
  end subroutine check_settings

  pure logical function every(n, step)
    integer, intent(in) :: n, step

    every = .false.
    if (n > 0) every = modulo(step, n) == 0
  end function every

  !> Mean gradients of the batches of a step, in the parameters.
  subroutine collect_gradients(self, model, tape, loader, step, start, loss, error)
    class(training_type), intent(in) :: self
    class(model_type), intent(in) :: model
    type(tape_type), intent(inout) :: tape
    type(loader_type), intent(inout), target :: loader
    !> Step of the optimizer; mark of the tape behind the parameters
    integer, intent(in) :: step, start
    !> Mean loss of the batches
    real(dp), intent(out) :: loss
    type(error_type), allocatable, intent(out) :: error
    type(sample_type), pointer :: sample
    type(array_type) :: part
    integer :: k

    loss = 0
    do k = 1, self%n_accumulate
      call loader%batch((step - 1_int64)*self%n_accumulate + k, sample, error)
      if (allocated(error)) return
      part = model%loss(tape, sample)
      if (self%n_accumulate > 1) part = part/real(self%n_accumulate, dp)
      call tape%backward(part, error, add=k > 1)
      if (allocated(error)) return
      loss = loss + part%value()
      call tape%rewind(start)
    end do
    if (.not. ieee_is_finite(loss)) call fail(error, code_value, &
      & "training: the loss of step "//text(int(step, int64))//" is not finite")
  end subroutine collect_gradients

  function rate(self, step)
    class(training_type), intent(in) :: self
    integer, intent(in) :: step
    real(dp) :: rate
    integer :: top

    select case (self%schedule)
    case ("linear")
      rate = linear_rate(step, self%n_steps, self%lr, self%n_warmup, self%last_lr)
    case ("constant")
      rate = constant_rate(step, self%lr, self%n_warmup)
    case ("step")
      rate = step_rate(step, self%decay_every, self%lr, self%decay, self%n_warmup)
    case ("exponential")
      rate = exponential_rate(step, self%decay_every, self%lr, self%decay, self%n_warmup)
    case ("one_cycle")
      top = merge(self%n_warmup, nint(0.3_dp*self%n_steps), self%n_warmup > 0)
      rate = one_cycle_rate(step, self%n_steps, self%lr, top, last=self%last_lr)
    case default
      rate = cosine_rate(step, self%n_steps, self%lr, self%n_warmup, self%last_lr)
    end select
  end function rate

  subroutine report(self, step, loss, lr, seconds)
    class(training_type), intent(in) :: self
    integer, intent(in) :: step
    !> Mean loss since the last report
    real(dp), intent(in) :: loss
    !> Rate of the step
    real(dp), intent(in) :: lr
    !> Seconds of a step
    real(dp), intent(in) :: seconds

    write (output_unit, "(2(a, i0), a, es10.3, a, es9.2, a, f7.4, a)") "step ", step, " of ", &
      & self%n_steps, "  loss", loss, "  rate", lr, " ", seconds, " s a step"
    flush (output_unit)
  end subroutine report

  !> Mean loss of all samples, one after another, without gradients.
  subroutine evaluate(model, tape, loader, loss, error)
    class(model_type), intent(in) :: model
    type(tape_type), intent(inout) :: tape
    type(loader_type), intent(in) :: loader
    real(dp), intent(out) :: loss
    type(error_type), allocatable, intent(out) :: error
    type(array_type) :: part
    integer :: k, start

    loss = 0
    if (loader%n_batches() == 0) then
      call fail(error, code_value, "loader: init comes first")
      return
    end if
    start = tape%mark()
    call tape%no_grad()
    do k = 1, size(loader%samples)
      part = model%loss(tape, loader%samples(k))
      loss = loss + part%value()/size(loader%samples)
      ! also of value(), of what is not one number
      call tape%check(error)
      if (allocated(error)) exit
      call tape%rewind(start)
    end do
    call tape%end_no_grad()
  end subroutine evaluate

end module gnograd_nn_training

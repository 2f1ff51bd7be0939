! SPDX-License-Identifier: MIT

!> The loop of a training.
module test_loop
  use gnograd
  use test_samples, only: make_samples
  use testing, only: test_type, check, check_refused, resident, short_run
  implicit none
  private
  public :: loop_tests

  character(len=*), parameter :: filename = "gnograd_test_loop.safetensors"

  !> Learns a sum over neighbours.
  type, extends(model_type) :: net_type
    type(mlp_type) :: lift
    type(gno_type) :: gno
    type(dense_type) :: project
  contains
    procedure :: loss => net_loss
    procedure :: init => net_init
    procedure :: parameters => net_parameters
  end type net_type

  !> Training that keeps its reports instead of printing them.
  type, extends(training_type) :: quiet_type
  contains
    procedure :: report => keep_report
  end type quiet_type

  !> Step and loss of the report made last
  integer, save :: last_step = 0
  real(dp), save :: last_loss = 0

contains

  function loop_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("a training learns", test_learns), &
      & test_type("schedules by name", test_schedules), &
      & test_type("batches one after another", test_accumulate), &
      & test_type("a training goes on with the same bits", test_resume), &
      & test_type("a training that fails", test_refused_training), &
      & test_type("trainings by threads of the program", test_host_threads), &
      & test_type("memory of 10,000 steps", test_memory)]
  end function loop_tests

  subroutine net_init(self, tape, initial)
    class(net_type), intent(inout) :: self
    type(tape_type), intent(in) :: tape
    type(initializer_type), intent(inout) :: initial

    call self%lift%init(tape, initial, "lift", [1, 8, 8])
    call self%gno%init(tape, initial, "gno", 8, 8, 1, n_hidden=8, reduction="sum")
    call self%project%init(tape, initial, "project", 8, 1)
  end subroutine net_init

  function net_parameters(self) result(list)
    class(net_type), intent(in) :: self
    type(array_type), allocatable :: list(:)

    list = [self%lift%parameters(), self%gno%parameters(), self%project%parameters()]
  end function net_parameters

  function net_loss(self, tape, sample) result(loss)
    class(net_type), intent(in) :: self
    type(tape_type), intent(inout) :: tape
    type(sample_type), intent(in) :: sample
    type(array_type) :: loss, h

    h = self%lift%forward(sample%array(tape, "f"))
    h = self%gno%forward(h, sample%array(tape, "coords"), sample%graph)
    loss = mean((self%project%forward(h) - sample%array(tape, "sums"))**2)
  end function net_loss

  subroutine keep_report(self, step, loss, lr, seconds)
    class(quiet_type), intent(in) :: self
    integer, intent(in) :: step
    real(dp), intent(in) :: loss, lr, seconds

    last_step = step
    last_loss = loss
  end subroutine keep_report

  !> Everything that a training needs.
  subroutine prepare(tape, net, loader, adam, error, batch_size, seed)
    type(tape_type), intent(inout) :: tape
    type(net_type), intent(inout) :: net
    type(loader_type), intent(inout) :: loader
    type(adam_type), intent(inout) :: adam
    type(error_type), allocatable, intent(out) :: error
    integer, intent(in), optional :: batch_size, seed
    type(sample_type), allocatable :: samples(:)
    type(initializer_type) :: initial

    call make_samples(5, samples, error)
    if (.not. allocated(error)) call loader%init(samples, error, batch_size, seed=1)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    initial = initializer_type(seed=2)
    if (present(seed)) initial%seed = seed
    call net%init(tape, initial)
    call adam%init(net%parameters(), 0.01_dp, error)
  end subroutine prepare

  subroutine test_learns(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    real(dp) :: before, behind
    integer :: mark

    call prepare(tape, net, loader, adam, error, 3)
    if (.not. allocated(error)) call evaluate(net, tape, loader, before, error)
    if (allocated(error)) return
    mark = tape%mark()
    training%n_steps = 150
    training%lr = 0.02_dp
    training%n_warmup = 10
    training%max_norm = 1
    training%report_every = 40
    call training%run(net, tape, loader, adam, error)
    if (.not. allocated(error)) call evaluate(net, tape, loader, behind, error)
    if (allocated(error)) return
    call check(error, behind < 0.02_dp*before, "the loss falls")
    call check(error, last_step == 150 .and. last_loss < 0.1_dp*before, "reports")
    call check(error, adam%steps == 150 .and. adam%lr < 1e-10_dp, "steps, rate")
    call check(error, tape%mark() == mark, "nothing is left on the tape")
  end subroutine test_learns

  !> Rates equal those of the functions of the same names, and are used in a run.
  subroutine test_schedules(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    real(dp) :: lr

    training = quiet_type(n_steps=100, lr=0.5_dp, n_warmup=4, last_lr=0.1_dp, decay=0.25_dp, &
      & decay_every=20)
    call check(error, same(cosine_rate(30, 100, 0.5_dp, 4, 0.1_dp)), "cosine is the default")
    training%schedule = "linear"
    call check(error, same(linear_rate(30, 100, 0.5_dp, 4, 0.1_dp)), "linear")
    training%schedule = "constant"
    call check(error, same(constant_rate(30, 0.5_dp, 4)), "constant")
    training%schedule = "step"
    call check(error, same(step_rate(30, 20, 0.5_dp, 0.25_dp, 4)), "step")
    training%schedule = "one_cycle"
    call check(error, same(one_cycle_rate(30, 100, 0.5_dp, 4, last=0.1_dp)), "one_cycle")
    training%n_warmup = 0
    call check(error, same(0.5_dp), "one_cycle: top by default")
    training%schedule = "exponential"
    call check(error, same(exponential_rate(30, 20, 0.5_dp, 0.25_dp)), "exponential")

    training%n_steps = 5
    training%lr = 1e-3_dp
    training%decay_every = 2
    lr = training%rate(5)
    call prepare(tape, net, loader, adam, error)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call check(error, abs(adam%lr - lr) < 1e-16 .and. abs(lr - 0.0625e-3_dp) < 1e-16, "of a run")

  contains

    logical function same(rate)
      real(dp), intent(in) :: rate

      same = abs(training%rate(30) - rate) < 1e-15
    end function same

  end subroutine test_schedules

  !> Five samples one after another give the gradients of their mean loss.
  subroutine test_accumulate(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    type(array_type) :: loss
    real(dp), allocatable :: found(:, :), wanted(:, :)
    integer :: k

    call prepare(tape, net, loader, adam, error)
    if (allocated(error)) return
    training%n_steps = 1
    training%lr = 0
    training%n_accumulate = 5
    training%report_every = 0
    call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call net%project%weight%grad(found)
    loss = net%loss(tape, loader%samples(1))
    do k = 2, 5
      loss = loss + net%loss(tape, loader%samples(k))
    end do
    call tape%backward(loss/5.0_dp, error)
    if (allocated(error)) return
    call net%project%weight%grad(wanted)
    call check(error, all(abs(found - wanted) < 1e-13_dp*maxval(abs(wanted))), "gradients")
  end subroutine test_accumulate

  !> Twelve steps, or seven, another program, and five more.
  subroutine test_resume(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape, other
    type(net_type) :: net, again
    type(loader_type) :: loader, second
    type(adam_type) :: adam, third
    type(quiet_type) :: training
    real(dp), allocatable :: whole(:, :), parts(:, :)

    training%n_steps = 12
    call prepare(tape, net, loader, adam, error, 2)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call net%gno%U%val(whole)
    call prepare(tape, again, second, third, error, 2)
    if (.not. allocated(error)) call stop_after(7)
    if (.not. allocated(error)) call prepare(other, again, second, third, error, 2)
    if (allocated(error)) return
    training%checkpoint = filename
    call training%run(again, other, second, third, error)
    if (allocated(error)) return
    call again%gno%U%val(parts)
    call check(error, third%steps == 12, "steps")
    call check(error, all(whole == parts), "the same bits")
    call remove()

  contains

    !> Train n steps and save, as if the process were killed behind a checkpoint.
    subroutine stop_after(n)
      integer, intent(in) :: n
      type(sample_type), pointer :: sample
      integer :: step, mark

      mark = tape%mark()
      do step = 1, n
        call second%batch(int(step, int64), sample, error)
        if (.not. allocated(error)) call tape%backward(again%loss(tape, sample), error)
        third%lr = training%rate(step)
        if (.not. allocated(error)) call third%step(error)
        if (allocated(error)) return
        call tape%rewind(mark)
      end do
      call third%save(filename, error)
    end subroutine stop_after

  end subroutine test_resume

  subroutine test_refused_training(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    integer :: unit

    call prepare(tape, net, loader, adam, error)
    if (allocated(error)) return
    training%n_accumulate = 0
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: n_accumulate is 0, needs 1 or more")
    training%n_accumulate = 1
    training%schedule = "triangle"
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: schedule is 'triangle', needs cosine, "// &
      & "linear, constant, step, exponential or one_cycle")
    training%schedule = "step"
    training%decay_every = 0
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: decay_every is 0, needs 1 or more")
    training%decay_every = 1
    call net%project%bias%set_value([huge(1.0_dp)])
    call training%run(net, tape, loader, adam, refused)
    call check_refused(error, refused, "training: the loss of step 1 is not finite")
    open (newunit=unit, file=filename)
    write (unit, "(a)") "something else"
    close (unit)
    training%checkpoint = filename
    call training%run(net, tape, loader, adam, refused)
    call check(error, allocated(refused), "a file that is none of ours")
    call check(error, adam%steps == 0, "nothing has changed")
    call remove()
  end subroutine test_refused_training

  !> Each with a tape of its own: as one after another.
  subroutine test_host_threads(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: together(8, 6), alone(8, 6)
    logical :: failed
    integer :: k

    failed = .false.
    !$omp parallel do default(none) shared(together) reduction(.or.: failed) num_threads(3)
    do k = 1, 6
      call train_alone(k, together(:, k), failed)
    end do
    do k = 1, 6
      call train_alone(k, alone(:, k), failed)
    end do
    call check(error, .not. failed, "no errors")
    call check(error, all(together == alone), "the same bits")
    call check(error, any(alone(:, 1) /= alone(:, 2)), "not all are one")
  end subroutine test_host_threads

  subroutine train_alone(seed, weights, failed)
    integer, intent(in) :: seed
    real(dp), intent(out) :: weights(8)
    logical, intent(inout) :: failed
    type(error_type), allocatable :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(training_type) :: training
    real(dp), allocatable :: values(:, :)

    weights = 0
    training%n_steps = 15
    training%report_every = 0
    call prepare(tape, net, loader, adam, error, 2, seed)
    if (.not. allocated(error)) call training%run(net, tape, loader, adam, error)
    if (.not. allocated(error)) call net%project%weight%val(values, error)
    failed = failed .or. allocated(error)
    if (.not. allocated(error)) weights = values(:, 1)
  end subroutine train_alone

  !> Memory of the process stays what it is behind the first steps.
  subroutine test_memory(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(net_type) :: net
    type(loader_type) :: loader
    type(adam_type) :: adam
    type(quiet_type) :: training
    integer(int64) :: before
    integer :: n_steps

    call prepare(tape, net, loader, adam, error, 2)
    if (allocated(error)) return
    n_steps = merge(500, 10000, short_run())
    training%n_steps = n_steps/5
    call training%run(net, tape, loader, adam, error)
    before = resident()
    if (before == 0 .or. allocated(error)) return  ! not on Linux
    training%n_steps = n_steps
    call training%run(net, tape, loader, adam, error)
    if (allocated(error)) return
    call check(error, adam%steps == n_steps, "steps")
    call check(error, resident() <= before + 1024*1024, "memory grows")
  end subroutine test_memory

  subroutine remove()
    integer :: unit

    open (newunit=unit, file=filename, status="old")
    close (unit, status="delete")
  end subroutine remove

end module test_loop

! SPDX-License-Identifier: MIT

!> Networks trained side by side by the threads of the host program: how sure is a fit?
!>
!> Each member of an ensemble learns the same noisy samples from another start, on a tape of its own;
!> where there were no samples, they do not agree. A tape belongs to one thread at a time; tapes of
!> different threads know nothing of each other. The results do not depend on the number of threads:
!>
!>     OMP_NUM_THREADS=4 ./ensemble [FILE.csv]
!>
!> The file, which pictures.py makes a picture of, has a line a point: the member, or 0 for the
!> samples, x, and the value there.
program ensemble
  use gnograd, only: dp, tape_type, array_type, error_type, adam_type, random_type, &
    & initializer_type, mlp_type, cosine_rate, set_n_threads, mean, operator(-), operator(**)
  implicit none
  integer, parameter :: n_members = 8, n_samples = 40, n_steps = 1500, n_places = 101
  type(random_type) :: random
  real(dp) :: x(1, n_samples), f(1, n_samples), places(1, n_places), found(n_places, n_members)
  character(len=200) :: filename
  logical :: failed
  integer :: k

  random = random_type(seed=1)
  do k = 1, n_samples
    ! none between 0 and 1
    x(1, k) = random%uniform(-1.0_dp, 0.0_dp)
    if (modulo(k, 3) == 0) x(1, k) = random%uniform(1.0_dp, 1.5_dp)
    f(1, k) = sin(5*x(1, k)) + random%uniform(-0.1_dp, 0.1_dp)
  end do
  places(1, :) = [(-1 + 2.5_dp*(k - 1)/(n_places - 1), k=1, n_places)]

  ! the threads are the program's; the kernels make none of their own
  call set_n_threads(1)
  failed = .false.
  !$omp parallel do default(none) shared(x, f, places, found) schedule(dynamic) &
  !$omp & reduction(.or.: failed)
  do k = 1, n_members
    call train_member(k, x, f, places, found(:, k), failed)
  end do
  if (failed) stop 1

  print "(a)", "      x      mean    spread   sin(5x)"
  do k = 1, n_places, 10
    associate (mean_value => sum(found(k, :))/n_members)
      print "(f7.3, 3f10.4)", places(1, k), mean_value, &
        & sqrt(sum((found(k, :) - mean_value)**2)/n_members), sin(5*places(1, k))
    end associate
  end do
  call get_command_argument(1, filename)
  if (filename /= "") call write_points(trim(filename))

contains

  !> Everything in here is this thread's own.
  subroutine train_member(member, x, f, places, values, failed)
    integer, intent(in) :: member
    real(dp), intent(in) :: x(:, :), f(:, :), places(:, :)
    real(dp), intent(out) :: values(:)
    logical, intent(inout) :: failed
    type(tape_type) :: tape
    type(initializer_type) :: initial
    type(mlp_type) :: network
    type(adam_type) :: adam
    type(array_type) :: inputs, wanted, out
    type(error_type), allocatable :: error
    real(dp), allocatable :: fit(:, :)
    integer :: step, mark

    values = 0
    call tape%init(error)
    initial = initializer_type(seed=member)
    call network%init(tape, initial, "network", [1, 20, 20, 1], activation="tanh")
    inputs = tape%constant(x)
    wanted = tape%constant(f)
    if (.not. allocated(error)) call adam%init(network%parameters(), 0.01_dp, error)
    mark = tape%mark()
    do step = 1, n_steps
      if (allocated(error)) exit
      call tape%backward(mean((network%forward(inputs) - wanted)**2), error)
      adam%lr = cosine_rate(step, n_steps, peak=0.02_dp)
      if (.not. allocated(error)) call adam%step(error)
      call tape%rewind(mark)
    end do
    if (.not. allocated(error)) then
      out = network%forward(tape%constant(places))
      call out%val(fit, error)
    end if
    if (allocated(error)) then
      failed = .true.
      print "(a)", error%message
    else
      values = fit(1, :)
    end if
  end subroutine train_member

  subroutine write_points(filename)
    character(len=*), intent(in) :: filename
    integer :: unit, member, k

    open (newunit=unit, file=filename, action="write")
    write (unit, "(a)") "member,x,value"
    write (unit, "(i0, ',', f0.6, ',', f0.6)") (0, x(1, k), f(1, k), k=1, n_samples)
    do member = 1, n_members
      write (unit, "(i0, ',', f0.6, ',', f0.6)") &
        & (member, places(1, k), found(k, member), k=1, n_places)
    end do
    close (unit)
  end subroutine write_points

end program ensemble

! SPDX-License-Identifier: MIT

!> Learn an integral operator on the unit interval with one graph neural operator layer.
!>
!> The operator averages a function over the neighbours of a point with weights that decay with
!> the distance, out_i = mean_j exp(-8 |x_i - x_j|) f_j, |x_i - x_j| <= 0.2. A GNO layer with one
!> feature sees functions f and their averages, and learns the decay as its kernel.
!>
!> train_gno cuda does so on a GPU.
program train_gno
  use gnograd, only: dp, tape_type, array_type, graph_type, error_type, adam_type, gno, &
    & norm, operator(-), operator(/)
  implicit none
  integer, parameter :: n_points = 120, n_hidden = 32, n_steps = 400
  real(dp), parameter :: radius = 0.2_dp
  type(graph_type) :: graph
  type(tape_type) :: tape
  type(adam_type) :: adam
  type(error_type), allocatable :: error
  type(array_type) :: u, b_u, v, b_v, coords, out, loss
  integer, allocatable :: offsets(:), indices(:)
  real(dp), allocatable :: x(:), distance(:, :), f(:, :), truth(:, :)
  character(len=8) :: device
  real(dp) :: value
  integer :: start, step

  call random_init(repeatable=.true., image_distinct=.false.)
  call neighbours(x, offsets, indices, distance)
  call graph%init(offsets, indices, n_points, error)
  call stop_on(error)

  call get_command_argument(1, device)
  if (device == "") device = "cpu"
  call tape%init(error, device=device)
  call stop_on(error)
  u = tape%parameter(20*random(n_hidden, 1))
  b_u = tape%parameter(reshape(4*random(n_hidden, 1), [n_hidden]))
  v = tape%parameter(reshape(random(n_hidden, 1)/n_hidden, [1, 1, n_hidden]))
  b_v = tape%parameter(reshape([0.0_dp], [1, 1]))
  coords = tape%constant(distance)
  call adam%init([u, b_u, v, b_v], lr=0.02_dp, error=error)
  call stop_on(error)

  start = tape%mark()
  do step = 1, n_steps
    call draw_function(x, f)
    call average(f, truth)
    out = gno(tape%constant(f), coords, u, b_u, v, b_v, graph, activation="gelu", reduction="mean")
    loss = norm(out - tape%constant(truth))/norm(tape%constant(truth))
    call tape%backward(loss, error)
    call stop_on(error)
    call adam%step(error)
    call stop_on(error)
    if (step == 1 .or. mod(step, 50) == 0) then
      call loss%val(value)
      print "(a, i4, a, f8.5)", "step", step, "  relative error ", value
    end if
    ! frees what the step recorded; parameters and coordinates stay
    call tape%rewind(start)
    adam%lr = 0.02_dp*(1 - real(step, dp)/n_steps)
  end do
  call tape%free()

contains

  !> Points of a jittered grid, and for each its neighbours, counted from 1.
  subroutine neighbours(x, offsets, indices, distance)
    real(dp), allocatable, intent(out) :: x(:), distance(:, :)
    integer, allocatable, intent(out) :: offsets(:), indices(:)
    integer :: i, j

    allocate (x(n_points), offsets(n_points + 1), indices(0))
    call random_number(x)
    x = ([(i, i=0, n_points - 1)] + x)/n_points
    offsets(1) = 1
    do i = 1, n_points
      indices = [indices, pack([(j, j=1, n_points)], abs(x - x(i)) <= radius)]
      offsets(i + 1) = size(indices) + 1
    end do
    allocate (distance(1, size(indices)))
    do i = 1, n_points
      associate (first => offsets(i), last => offsets(i + 1) - 1)
        distance(1, first:last) = abs(x(i) - x(indices(first:last)))
      end associate
    end do
  end subroutine neighbours

  !> A sum of three waves, [1, n_points].
  subroutine draw_function(x, f)
    real(dp), intent(in) :: x(:)
    real(dp), allocatable, intent(out) :: f(:, :)
    real(dp) :: wave(2, 3)
    integer :: k

    call random_number(wave)
    allocate (f(1, size(x)), source=0.0_dp)
    do k = 1, 3
      f(1, :) = f(1, :) + (2*wave(1, k) - 1)*cos(3.14_dp*k*x + 6.28_dp*wave(2, k))
    end do
  end subroutine draw_function

  !> What the layer shall learn.
  subroutine average(f, out)
    real(dp), intent(in) :: f(:, :)
    real(dp), allocatable, intent(out) :: out(:, :)
    integer :: i

    allocate (out(1, n_points))
    do i = 1, n_points
      associate (first => offsets(i), last => offsets(i + 1) - 1)
        out(1, i) = sum(exp(-8*distance(1, first:last))*f(1, indices(first:last))) &
          & /(last - first + 1)
      end associate
    end do
  end subroutine average

  !> Numbers between -1/2 and 1/2.
  function random(rows, columns) result(numbers)
    integer, intent(in) :: rows, columns
    real(dp) :: numbers(rows, columns)

    call random_number(numbers)
    numbers = numbers - 0.5_dp
  end function random

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program train_gno

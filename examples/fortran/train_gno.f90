! SPDX-License-Identifier: MIT

!> Learn an integral operator on the unit interval with one graph neural operator layer.
!>
!> The operator averages a function over the neighbours of a point with weights that decay with
!> the distance, out_i = mean_j exp(-8 |x_i - x_j|) f_j, |x_i - x_j| <= 0.2. A GNO layer with one
!> feature sees functions f and their averages, and learns the decay as its kernel.
!>
!>     ./train_gno [DEVICE [FILE.csv]]
!>
!> The device is cpu, cuda, or cuda:1 for the second GPU. The file, which pictures.py makes a
!> picture of, has a line a distance: it, the weight that was learned for it, and the true one.
program train_gno
  use gnograd, only: dp, tape_type, array_type, graph_type, error_type, adam_type, random_type, &
    & initializer_type, gno_type, cosine_rate, norm, operator(-), operator(/)
  implicit none
  integer, parameter :: n_points = 120, n_steps = 400
  real(dp), parameter :: radius = 0.2_dp
  type(graph_type) :: graph
  type(tape_type) :: tape
  type(adam_type) :: adam
  type(initializer_type) :: initial
  type(gno_type) :: layer
  type(random_type) :: random
  type(error_type), allocatable :: error
  type(array_type) :: coords, loss
  integer, allocatable :: src(:), dst(:)
  real(dp), allocatable :: distance(:, :)
  character(len=200) :: filename
  character(len=8) :: device
  real(dp) :: x(1, n_points), f(1, n_points), truth(1, n_points)
  integer :: start, step, i

  random = random_type(seed=1)
  x(1, :) = [((i - random%uniform())/n_points, i=1, n_points)]
  call graph%radius(x, radius, error)
  call stop_on(error)
  src = graph%src()
  dst = graph%dst()
  distance = abs(x(:, dst) - x(:, src))

  call get_command_argument(1, device)
  call tape%init(error, device=device)
  call stop_on(error)
  initial = initializer_type(seed=2)
  call layer%init(tape, initial, "gno", n_in=1, n_out=1, coord_dim=1, n_hidden=32)
  call adam%init(layer%parameters(), lr=0.02_dp, error=error)
  call stop_on(error)
  coords = tape%constant(distance/radius)

  start = tape%mark()
  do step = 1, n_steps
    call draw_function(f)
    call average(f, truth)
    loss = norm(layer%forward(tape%constant(f), coords, graph) - tape%constant(truth)) &
      & /norm(tape%constant(truth))
    call tape%backward(loss, error)
    call stop_on(error)
    adam%lr = cosine_rate(step, n_steps, peak=0.02_dp)
    call adam%step(error)
    call stop_on(error)
    if (step == 1 .or. mod(step, 50) == 0) &
      & print "(a, i4, a, f8.5)", "step", step, "  relative error ", loss%value()
    ! frees what the step recorded; parameters and coordinates stay
    call tape%rewind(start)
  end do
  call get_command_argument(2, filename)
  if (filename /= "") call write_kernel(trim(filename))
  call tape%free()

contains

  !> A sum of three waves.
  subroutine draw_function(f)
    real(dp), intent(out) :: f(:, :)
    integer :: k

    f = 0
    do k = 1, 3
      f = f + random%uniform(-1.0_dp, 1.0_dp)*cos(3.14_dp*k*x + random%uniform(0.0_dp, 6.28_dp))
    end do
  end subroutine draw_function

  !> Averages that the layer shall learn.
  subroutine average(f, out)
    real(dp), intent(in) :: f(:, :)
    real(dp), intent(out) :: out(:, :)
    real(dp) :: n(n_points)
    integer :: e

    out = 0
    n = 0
    do e = 1, size(src)
      out(1, dst(e)) = out(1, dst(e)) + exp(-8*distance(1, e))*f(1, src(e))
      n(dst(e)) = n(dst(e)) + 1
    end do
    out(1, :) = out(1, :)/n
  end subroutine average

  !> A point whose only neighbour has the value 1 gets the weight of the distance.
  subroutine write_kernel(filename)
    character(len=*), intent(in) :: filename
    integer, parameter :: n = 50
    type(graph_type) :: alone
    type(array_type) :: out
    real(dp), allocatable :: learned(:, :)
    real(dp) :: ones(1, n), between(1, n)
    integer :: unit, k

    between(1, :) = [(radius*(k - 1)/(n - 1), k=1, n)]
    ones = 1
    call alone%from_edges([(k, k=1, n)], [(k, k=1, n)], error)
    call stop_on(error)
    out = layer%forward(tape%constant(ones), tape%constant(between/radius), alone)
    call out%val(learned, error)
    call stop_on(error)
    open (newunit=unit, file=filename, action="write")
    write (unit, "(a)") "distance,learned,true"
    write (unit, "(f0.6, ',', f0.6, ',', f0.6)") &
      & (between(1, k), learned(1, k), exp(-8*between(1, k)), k=1, n)
    close (unit)
  end subroutine write_kernel

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program train_gno

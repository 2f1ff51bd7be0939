! SPDX-License-Identifier: MIT

!> A solver with a trained part inside, and derivatives through both: data assimilation.
!>
!> Heat flows through a plate of unknown conductivity, by finite volumes and explicit steps,
!>
!>     dT/dt = div(a(x) k(T) grad T),   T = 1 at the left wall, 0 at the right, others insulated.
!>
!> How conductivity depends on temperature, k(T), is a closure: a network that was trained on
!> measurements in a laboratory. The field a(x) is then found from temperatures at a few places and
!> times: the solver runs on the tape, and the gradient of the misfit goes back through all its time
!> steps and the network.
!>
!>     ./assimilate_heat [ITERATIONS [FILE.csv]]
!>
!> The file, which pictures.py makes a picture of, has a line a cell: x, y, the true field,
!> the field that was found, and whether there is a sensor.
program assimilate_heat
  use gnograd, only: dp, tape_type, array_type, graph_type, error_type, adam_type, random_type, &
    & initializer_type, mlp_type, cosine_rate, agg_weighted, gather, reshape, concatenate, exp, &
    & mean, sum, operator(+), operator(-), operator(*), operator(/), operator(**)
  implicit none
  integer, parameter :: n_x = 14, n_y = 12, n = n_x*n_y, n_times = 8, steps_between = 60
  real(dp), parameter :: dx = 1.0_dp/n_x, dt = 0.16_dp*dx**2, smoothness = 1e-3_dp
  type(graph_type) :: faces, turned
  type(tape_type) :: tape
  type(mlp_type) :: closure
  type(adam_type) :: adam
  type(random_type) :: random
  type(error_type), allocatable :: error
  type(array_type) :: log_a, ones, inner, loss, data(n_times)
  integer, allocatable :: src(:), dst(:), sensors(:)
  real(dp), allocatable :: found(:), seen(:, :)
  real(dp) :: x(n), y(n), truth(n), start_values(1, n), mask(1, n)
  character(len=200) :: argument
  integer :: n_iterations, start, step, k

  n_iterations = 100
  call get_command_argument(1, argument)
  if (argument /= "") read (argument, *) n_iterations
  random = random_type(seed=5)

  call tape%init(error)
  call stop_on(error)
  call train_closure()
  call make_mesh()

  ! what the sensors have seen: a run with the true field and k(T), and noise
  seen = measurements()
  do k = 1, n_times
    data(k) = tape%constant(seen(:, k))
  end do
  log_a = tape%parameter(0*truth, name="log_a")
  call check_gradient()

  call adam%init([log_a], lr=0.1_dp, error=error)
  call stop_on(error)
  print "(/, a)", "iteration       misfit   error of a"
  start = tape%mark()
  do step = 0, n_iterations
    loss = misfit(log_a)
    if (step == 0 .or. mod(step, 10) == 0 .or. step == n_iterations) then
      call log_a%val(found)
      print "(i9, 2es13.3)", step, loss%value(), norm2(exp(found) - truth)/norm2(truth)
    end if
    if (step == n_iterations) exit
    call tape%backward(loss, error)
    call stop_on(error)
    adam%lr = cosine_rate(step + 1, n_iterations, peak=0.1_dp)
    call adam%step(error)
    call stop_on(error)
    call tape%rewind(start)
  end do
  call get_command_argument(2, argument)
  if (argument /= "") call write_field(trim(argument))

contains

  !> True closure k(T), from which all measurements come.
  elemental function conductivity(temperature) result(k)
    real(dp), intent(in) :: temperature
    real(dp) :: k

    k = 0.4_dp + temperature**2
  end function conductivity

  !> Fit exp(network(T)) to measurements with noise.
  subroutine train_closure()
    type(initializer_type) :: initial
    type(array_type) :: temperature, k, loss
    real(dp) :: t(1, 60), measured(1, 60)
    integer :: i, mark

    do i = 1, 60
      t(1, i) = random%uniform()
      measured(1, i) = conductivity(t(1, i))*random%uniform(0.99_dp, 1.01_dp)
    end do
    initial = initializer_type(seed=1)
    call closure%init(tape, initial, "closure", [1, 8, 8, 1], activation="tanh")
    call adam%init(closure%parameters(), lr=0.01_dp, error=error)
    call stop_on(error)
    temperature = tape%constant(t)
    k = tape%constant(measured)
    mark = tape%mark()
    do i = 1, 2000
      loss = mean((exp(closure%forward(temperature))/k - 1.0_dp)**2)
      call tape%backward(loss, error)
      call stop_on(error)
      adam%lr = cosine_rate(i, 2000, peak=0.02_dp)
      call adam%step(error)
      call stop_on(error)
      if (i < 2000) call tape%rewind(mark)
    end do
    print "(a, f7.4)", "closure k(T): relative error", sqrt(loss%value())
    call tape%rewind(mark)
    ! it has learned all it shall; from here on it is a part of the solver
    do i = 1, size(closure%layers)
      associate (layer => closure%layers(i))
        layer%weight = frozen_matrix(layer%weight)
        layer%bias = frozen_vector(layer%bias)
      end associate
    end do
  end subroutine train_closure

  function frozen_matrix(x) result(y)
    type(array_type), intent(in) :: x
    type(array_type) :: y
    real(dp), allocatable :: values(:, :)

    call x%val(values)
    y = tape%constant(values)
  end function frozen_matrix

  function frozen_vector(x) result(y)
    type(array_type), intent(in) :: x
    type(array_type) :: y
    real(dp), allocatable :: values(:)

    call x%val(values)
    y = tape%constant(values)
  end function frozen_vector

  !> Cells, the faces between them, the walls, the field that nobody knows, and the sensors.
  subroutine make_mesh()
    integer :: i, j, cell

    allocate (src(0), dst(0), sensors(0))
    mask = 1
    start_values = 0
    do j = 1, n_y
      do i = 1, n_x
        cell = i + (j - 1)*n_x
        x(cell) = (i - 0.5_dp)*dx
        y(cell) = (j - 0.5_dp)*dx
        if (i < n_x) src = [src, cell]
        if (i < n_x) dst = [dst, cell + 1]
        if (j < n_y) src = [src, cell]
        if (j < n_y) dst = [dst, cell + n_x]
        ! the first and the last column are walls, and keep their temperatures
        if (i == 1 .or. i == n_x) mask(1, cell) = 0
        if (i == 1) start_values(1, cell) = 1
        if (mod(i, 2) == 0 .and. mod(j, 2) == 0) sensors = [sensors, cell]
      end do
    end do
    call faces%from_edges(src, dst, error, n_src=n)
    call stop_on(error)
    call faces%reverse(turned, error)
    call stop_on(error)
    ones = tape%constant(0*start_values + 1)
    inner = tape%constant(mask)
    truth = 1 - 0.7_dp*exp(-((x - 0.35_dp)**2 + (y - 0.55_dp)**2)/0.025_dp) &
      & + 0.6_dp*exp(-((x - 0.7_dp)**2 + (y - 0.3_dp)**2)/0.03_dp)
  end subroutine make_mesh

  !> One explicit step of all cells.
  function advance(temperature, a) result(next)
    !> [1, n]
    type(array_type), intent(in) :: temperature
    !> Field a at the faces [1, n_faces]
    type(array_type), intent(in) :: a
    type(array_type) :: next, before, behind, flux

    before = gather(temperature, src)
    behind = gather(temperature, dst)
    flux = a*exp(closure%forward((before + behind)/2))*(before - behind)
    flux = reshape(flux, [size(src)])
    ! what comes in through a face has gone out of the cell on its other side
    next = temperature + dt/dx**2*inner*(agg_weighted(ones, flux, faces, "sum") &
      & - agg_weighted(ones, flux, turned, "sum"))
  end function advance

  !> Mean square of what the sensors see and the solver does not, and a little smoothness.
  function misfit(log_a) result(loss)
    !> [n]
    type(array_type), intent(in) :: log_a
    type(array_type) :: loss, temperature, row, before, behind, a
    integer :: k, i

    row = reshape(log_a, [1, n])
    before = gather(row, src)
    behind = gather(row, dst)
    a = 2/(exp(-1.0_dp*before) + exp(-1.0_dp*behind))
    temperature = tape%constant(start_values)
    loss = smoothness*mean((before - behind)**2)
    do k = 1, n_times
      do i = 1, steps_between
        temperature = advance(temperature, a)
      end do
      loss = loss + mean((reshape(gather(temperature, sensors), [size(sensors)]) - data(k))**2)
    end do
  end function misfit

  !> Measurements [sensors, n_times]: the solver on plain numbers, true conductivity, and noise.
  function measurements() result(seen)
    real(dp), allocatable :: seen(:, :)
    real(dp) :: temperature(n), change(n), flux
    integer :: k, i, f

    allocate (seen(size(sensors), n_times))
    temperature = start_values(1, :)
    do k = 1, n_times
      do i = 1, steps_between
        change = 0
        do f = 1, size(src)
          flux = 2/(1/truth(src(f)) + 1/truth(dst(f)))* &
            & conductivity((temperature(src(f)) + temperature(dst(f)))/2)* &
            & (temperature(src(f)) - temperature(dst(f)))
          change(dst(f)) = change(dst(f)) + flux
          change(src(f)) = change(src(f)) - flux
        end do
        temperature = temperature + dt/dx**2*mask(1, :)*change
      end do
      do i = 1, size(sensors)
        seen(i, k) = temperature(sensors(i)) + random%uniform(-0.002_dp, 0.002_dp)
      end do
    end do
  end function measurements

  !> The derivative along a direction, by the tape and by two runs of the solver.
  subroutine check_gradient()
    real(dp), parameter :: h = 1e-5_dp
    real(dp), allocatable :: gradient(:)
    real(dp) :: direction(n), difference
    type(array_type) :: loss
    integer :: i, mark

    direction = [(random%uniform(-1.0_dp, 1.0_dp), i=1, n)]
    mark = tape%mark()
    loss = misfit(log_a)
    call tape%backward(loss, error)
    call stop_on(error)
    print "(a, i0, a)", "a run of the solver is ", tape%mark() - mark, " operations on the tape"
    call log_a%grad(gradient)
    call tape%rewind(mark)
    ! values alone take no memory for derivatives
    call tape%no_grad()
    loss = misfit(tape%constant(h*direction)) - misfit(tape%constant(-h*direction))
    difference = loss%value()/(2*h)
    call tape%end_no_grad()
    call tape%rewind(mark)
    print "(a, 2es16.8)", "derivative by tape, by differences:", dot_product(gradient, direction), &
      & difference
  end subroutine check_gradient

  subroutine write_field(filename)
    character(len=*), intent(in) :: filename
    integer :: unit, cell

    open (newunit=unit, file=filename, action="write")
    write (unit, "(a)") "x,y,true,found,sensor"
    do cell = 1, n
      write (unit, "(4(f0.6, ','), i0)") x(cell), y(cell), truth(cell), exp(found(cell)), &
        & merge(1, 0, any(sensors == cell))
    end do
    close (unit)
  end subroutine write_field

  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    print "(a)", error%message
    stop 1
  end subroutine stop_on

end program assimilate_heat

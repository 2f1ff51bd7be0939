! SPDX-License-Identifier: MIT

!> The problem of train_gno.f90 on many processes: learn an integral operator on the unit interval
!> with one graph neural operator layer.
!>
!> Points are cut into strips, one a process. A point's neighbours are the 24 before and behind it,
!> whoever owns them: the mesh tells their numbers, and all else of them comes through the halo. The
!> loss is that of one process but for rounding, whatever the number of processes:
!>
!>     mpif90 train_gno_mpi.f90 $(pkg-config --cflags --libs gnograd_mpi) -o train_gno_mpi
!>     OMP_NUM_THREADS=1 mpirun -n 4 ./train_gno_mpi
program train_gno_mpi
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Init_thread, MPI_Finalize, MPI_COMM_WORLD, MPI_THREAD_FUNNELED
  use gnograd, only: dp, int64, tape_type, array_type, error_type, adam_type, gno, operator(-), &
    & operator(/)
  use gnograd_mpi, only: communicator_type, distributed_graph_type, halo, global_norm
  implicit none
  integer(int64), parameter :: n_points = 120, n_neighbours = 24
  integer, parameter :: n_hidden = 32, n_steps = 100
  type(communicator_type) :: processes
  type(distributed_graph_type) :: graph
  type(tape_type) :: tape
  type(adam_type) :: adam
  type(error_type), allocatable :: error
  type(array_type) :: u, b_u, v, b_v, coords, out, target_values, loss
  real(dp), allocatable :: x(:, :), distance(:, :), f(:, :), truth(:, :)
  real(dp) :: value
  integer :: threads, start, step

  ! the kernels have threads, and gnograd calls MPI from the one that calls gnograd
  call MPI_Init_thread(MPI_THREAD_FUNNELED, threads)
  call processes%init(MPI_COMM_WORLD, error)
  call stop_on(error)
  ! the same numbers on all processes: parameters, and the functions to learn from
  call random_init(repeatable=.true., image_distinct=.false.)
  call cut_into_strips(processes, graph, error)
  call stop_on(error)
  call measure(graph, x, distance, error)
  call stop_on(error)

  call tape%init(error)
  call stop_on(error)
  u = tape%parameter(20*random(n_hidden, 1))
  b_u = tape%parameter(reshape(4*random(n_hidden, 1), [n_hidden]))
  v = tape%parameter(reshape(random(n_hidden, 1)/n_hidden, [1, 1, n_hidden]))
  b_v = tape%parameter(reshape([0.0_dp], [1, 1]))
  coords = tape%constant(distance)
  call adam%init([u, b_u, v, b_v], lr=0.003_dp, error=error)
  call stop_on(error)

  start = tape%mark()
  do step = 1, n_steps
    call draw_function(x, f)
    call average(f, truth)
    target_values = tape%constant(truth)
    ! each process knows f at its own points: the layer needs those of the halo, too
    out = gno(halo(tape%constant(f(:, :graph%n_own)), graph), coords, u, b_u, v, b_v, graph%local, &
      & activation="gelu", reduction="mean")
    loss = global_norm(out - target_values, graph)/global_norm(target_values, graph)
    call tape%backward(loss, error)
    ! each process has the part of its own points; an error of one ends all here
    call graph%sum_gradients([u, b_u, v, b_v], error)
    call stop_on(error)
    call adam%step(error)
    call stop_on(error)
    if (processes%rank == 0 .and. (step == 1 .or. mod(step, 20) == 0)) then
      call loss%val(value)
      print "(a, i4, a, f18.15)", "step", step, "  relative error ", value
    end if
    call tape%rewind(start)
    adam%lr = 0.003_dp*(1 - real(step, dp)/n_steps)
  end do
  call tape%free()
  call MPI_Finalize()

contains

  !> The points of this process, and the edges that end in them.
  subroutine cut_into_strips(processes, graph, error)
    type(communicator_type), intent(in) :: processes
    type(distributed_graph_type), intent(inout) :: graph
    type(error_type), allocatable, intent(inout) :: error
    integer(int64), allocatable :: offsets(:), sources(:), owned(:)
    integer(int64) :: i, j

    owned = [(i, i=n_points*processes%rank/processes%size + 1, &
      & n_points*(processes%rank + 1)/processes%size)]
    allocate (offsets(size(owned) + 1), sources(0))
    offsets(1) = 1
    do i = 1, size(owned)
      sources = [sources, [(j, j=max(1_int64, owned(i) - n_neighbours), &
        & min(n_points, owned(i) + n_neighbours))]]
      offsets(i + 1) = size(sources) + 1
    end do
    call graph%from_local(offsets, sources, owned, MPI_COMM_WORLD, error)
  end subroutine cut_into_strips

  !> Positions of points, also of the halo, and lengths of edges.
  subroutine measure(graph, x, distance, error)
    type(distributed_graph_type), intent(in) :: graph
    !> [1, n_own + n_halo]
    real(dp), allocatable, intent(out) :: x(:, :)
    !> [1, n_edges]
    real(dp), allocatable, intent(out) :: distance(:, :)
    type(error_type), allocatable, intent(inout) :: error
    real(dp), allocatable :: own(:, :)
    integer(int64) :: i, e

    ! a jittered grid; rows are in the order of graph%owned
    allocate (own(1, graph%n_own), x(1, graph%n_own + graph%n_halo))
    own(1, :) = (graph%owned - 1 + modulo(0.618_dp*graph%owned, 1.0_dp))/n_points
    call graph%halo(own, x, error)
    if (allocated(error)) return
    allocate (distance(1, graph%local%n_edges))
    associate (edges => graph%local%by_dst)
      do i = 0, graph%n_dst - 1
        do e = edges%offsets(i), edges%offsets(i + 1) - 1
          distance(1, e + 1) = abs(x(1, i + 1) - x(1, edges%indices(e) + 1))
        end do
      end do
    end associate
  end subroutine measure

  !> A sum of three waves, [1, points].
  subroutine draw_function(x, f)
    real(dp), intent(in) :: x(:, :)
    real(dp), allocatable, intent(out) :: f(:, :)
    real(dp) :: wave(2, 3)
    integer :: k

    call random_number(wave)
    allocate (f(1, size(x, 2)), source=0.0_dp)
    do k = 1, 3
      f = f + (2*wave(1, k) - 1)*cos(3.14_dp*k*x + 6.28_dp*wave(2, k))
    end do
  end subroutine draw_function

  !> Averages that the layer shall learn, at own points.
  subroutine average(f, out)
    real(dp), intent(in) :: f(:, :)
    real(dp), allocatable, intent(out) :: out(:, :)
    integer(int64) :: i

    allocate (out(1, graph%n_dst))
    associate (edges => graph%local%by_dst)
      do i = 0, graph%n_dst - 1
        associate (first => edges%offsets(i), last => edges%offsets(i + 1) - 1)
          out(1, i + 1) = sum(exp(-8*distance(1, first + 1:last + 1))* &
            & f(1, edges%indices(first:last) + 1))/(last - first + 1)
        end associate
      end do
    end associate
  end subroutine average

  !> Numbers between -1/2 and 1/2.
  function random(rows, columns) result(numbers)
    integer, intent(in) :: rows, columns
    real(dp) :: numbers(rows, columns)

    call random_number(numbers)
    numbers = numbers - 0.5_dp
  end function random

  !> All processes have the error; one of them says it.
  subroutine stop_on(error)
    type(error_type), allocatable, intent(in) :: error

    if (.not. allocated(error)) return
    if (processes%rank == 0) write (error_unit, "(a)") error%message
    call MPI_Finalize()
    stop 1
  end subroutine stop_on

end program train_gno_mpi

! SPDX-License-Identifier: MIT

!> The halo on plain arrays: values, adjoint, operators on it, overlap, errors.
module test_halo
  use mpi_f08, only: MPI_COMM_WORLD
  use gnograd, only: sp, dp, int64, error_type, graph_type, agg_simple_forward, agg_simple_vjp, &
    & reduce_sum
  use gnograd_mpi, only: communicator_type, distributed_graph_type, pending_halo_type
  use problem, only: problem_type, part_type, make_problem, part_of, distribute, feature, node_of, &
    & layouts
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: halo_tests

  integer, parameter :: width = 5

contains

  function halo_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("rows of all partitions", test_values), &
      & test_type("adjoint", test_adjoint), &
      & test_type("sums of returning rows", test_returned), &
      & test_type("an operator and its vjp against one process", test_operator), &
      & test_type("work while rows travel", test_overlap), &
      & test_type("same bits twice", test_twice), &
      & test_type("errors on one process", test_errors)]
  end function halo_tests

  subroutine setup(layout, graph, whole, error)
    character(len=*), intent(in) :: layout
    type(distributed_graph_type), intent(out) :: graph
    type(problem_type), intent(out) :: whole
    type(error_type), allocatable, intent(inout) :: error
    type(communicator_type) :: all

    call all%init(MPI_COMM_WORLD, error)
    whole = make_problem(layout, all%size)
    call distribute(whole, part_of(whole, all%rank), graph, error)
  end subroutine setup

  !> Features of the nodes with these numbers.
  function features(ids, n) result(x)
    integer(int64), intent(in) :: ids(:)
    integer, intent(in) :: n
    real(dp) :: x(n, size(ids))
    integer(int64) :: nodes(size(ids))
    integer :: k

    nodes = node_of(ids)
    do k = 1, n
      x(k, :) = feature(k, nodes)
    end do
  end function features

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type) :: graph
    type(problem_type) :: whole
    real(dp), allocatable :: x(:, :), x_ext(:, :)
    real(sp), allocatable :: y_ext(:, :)
    integer :: k, n

    do k = 1, size(layouts)
      call setup(layouts(k), graph, whole, error)
      if (allocated(error)) return
      do n = 0, 3
        x = features(graph%owned_src, n)
        allocate (x_ext(n, graph%n_own + graph%n_halo), y_ext(n, graph%n_own + graph%n_halo))
        call graph%halo(x, x_ext, error)
        call graph%halo(real(x, sp), y_ext, error)
        if (allocated(error)) return
        x = features([graph%owned_src, graph%halo_ids], n)
        call check(error, all(x_ext == x), layouts(k)//": real64")
        call check(error, all(y_ext == real(x, sp)), layouts(k)//": real32")
        deallocate (x_ext, y_ext)
      end do
    end do
  end subroutine test_values

  !> <H x, y> = <x, H' y>
  subroutine test_adjoint(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type) :: graph
    type(problem_type) :: whole
    real(dp), allocatable :: x(:, :), x_ext(:, :), y(:, :), grad(:, :)
    real(dp) :: products(3)
    integer :: k

    do k = 1, size(layouts)
      call setup(layouts(k), graph, whole, error)
      if (allocated(error)) return
      x = features(graph%owned_src, width)
      x_ext = features([graph%owned_src, graph%halo_ids], width)
      y = cos(3*x_ext + graph%rank)
      grad = x
      call graph%halo(x, x_ext, error)
      call graph%halo_vjp(y, grad, error)
      if (allocated(error)) return
      products = [sum(x_ext*y), sum(x*grad), sum(abs(x_ext*y))]
      call graph%sum(products, error)
      call check(error, abs(products(1) - products(2)) <= 1e-14_dp*products(3), layouts(k))
    end do
  end subroutine test_adjoint

  !> A row comes back once from each process that has it.
  subroutine test_returned(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type) :: graph
    type(problem_type) :: whole
    type(part_type) :: other
    real(sp), allocatable :: ones(:, :), grad(:, :)
    integer(int64) :: i
    integer :: k, rank, n

    do k = 1, size(layouts)
      call setup(layouts(k), graph, whole, error)
      if (allocated(error)) return
      allocate (ones(1, graph%n_own + graph%n_halo), source=1.0_sp)
      allocate (grad(1, graph%n_own))
      call graph%halo_vjp(ones, grad, error)
      if (allocated(error)) return
      do i = 1, graph%n_own
        n = 1
        do rank = 0, graph%size - 1
          if (rank == graph%rank) cycle
          other = part_of(whole, rank)
          if (any(other%sources == graph%owned_src(i))) n = n + 1
        end do
        call check(error, grad(1, i) == n, layouts(k))
      end do
      deallocate (ones, grad)
    end do
  end subroutine test_returned

  subroutine test_operator(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type), target :: graph
    type(graph_type), target :: serial
    type(problem_type) :: whole
    real(dp), allocatable :: x(:, :), x_ext(:, :), out(:, :), c(:, :), grad(:, :), grad_ext(:, :)
    real(dp), allocatable :: all_x(:, :), all_out(:, :), all_c(:, :), all_grad(:, :)
    integer(int64) :: i
    integer :: k

    do k = 1, size(layouts)
      call setup(layouts(k), graph, whole, error)
      if (allocated(error)) return
      x = features(graph%owned_src, width)
      x_ext = features([graph%owned_src, graph%halo_ids], width)
      allocate (out(width, graph%n_dst), grad(width, graph%n_own))
      grad_ext = x_ext
      c = cos(2*features(graph%owned, width))
      call graph%halo(x, x_ext, error)
      call agg_simple_forward(graph=graph%local%view(), aggregation=reduce_sum, x=x_ext, &
        & out=out, error=error)
      if (allocated(error)) return
      call agg_simple_vjp(graph=graph%local%view(), aggregation=reduce_sum, cotangent=c, &
        & x=x_ext, grad_x=grad_ext, error=error)
      call graph%halo_vjp(grad_ext, grad, error)
      if (allocated(error)) return

      call serial%init(whole%offsets, whole%sources, whole%n_src, error)
      allocate (all_x(width, whole%n_src), all_grad(width, whole%n_src))
      allocate (all_out(width, whole%n_dst), all_c(width, whole%n_dst))
      call fill(all_x, all_c)
      call agg_simple_forward(graph=serial%view(), aggregation=reduce_sum, x=all_x, &
        & out=all_out, error=error)
      if (allocated(error)) return
      call agg_simple_vjp(graph=serial%view(), aggregation=reduce_sum, cotangent=all_c, &
        & x=all_x, grad_x=all_grad, error=error)
      ! edges of a row are in the caller's order: the same bits
      call check(error, all(out == all_out(:, node_of(graph%owned))), layouts(k)//": out")
      call check(error, all(abs(grad - all_grad(:, node_of(graph%owned_src))) <= &
        & 1e-13_dp*maxval(abs(all_grad))), layouts(k)//": grad")
      deallocate (out, grad, all_x, all_grad, all_out, all_c)
    end do

  contains

    subroutine fill(x, c)
      real(dp), intent(inout) :: x(:, :), c(:, :)
      integer :: f

      do f = 1, width
        x(f, :) = feature(f, [(i, i=1, whole%n_src)])
        c(f, :) = cos(2*feature(f, [(i, i=1, whole%n_dst)]))
      end do
    end subroutine fill

  end subroutine test_operator

  !> Interior rows while the halo is on its way, the others afterwards: the rows of the local graph.
  subroutine test_overlap(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type), target :: graph
    type(graph_type), target :: interior, boundary
    type(problem_type) :: whole
    type(pending_halo_type), target :: pending
    real(dp), allocatable, target :: x(:, :), x_ext(:, :), out(:, :), needed(:, :), grad(:, :)
    integer :: k

    do k = 1, size(layouts)
      call setup(layouts(k), graph, whole, error)
      if (.not. allocated(error)) call graph%split(interior, boundary, error)
      if (allocated(error)) return
      x = features(graph%owned_src, width)
      x_ext = features([graph%owned_src, graph%halo_ids], width)
      allocate (out(width, graph%n_dst))
      needed = out
      call agg_simple_forward(graph=graph%local%view(), aggregation=reduce_sum, x=x_ext, &
        & out=needed, error=error)
      if (allocated(error)) return
      x_ext = 0
      call graph%halo_start(x, x_ext, pending, error)
      if (allocated(error)) return
      call agg_simple_forward(graph=interior%view(), aggregation=reduce_sum, x=x, &
        & out=out(:, :graph%n_interior), error=error)
      call graph%halo_finish(pending)
      if (allocated(error)) return
      call agg_simple_forward(graph=boundary%view(), aggregation=reduce_sum, x=x_ext, &
        & out=out(:, graph%n_interior + 1:), error=error)
      if (allocated(error)) return
      call check(error, all(out == needed), layouts(k)//": rows in two parts")

      needed = x
      grad = x
      call graph%halo_vjp(x_ext, needed, error)
      call graph%halo_vjp_start(x_ext, pending, error)
      ! the interior's part comes meanwhile
      x_ext(:, :graph%n_own) = x_ext(:, :graph%n_own) + x
      if (.not. allocated(error)) call graph%halo_vjp_finish(x_ext, grad, pending, error)
      if (allocated(error)) return
      call check(error, all(abs(grad - x - needed) < 1e-14_dp), layouts(k)//": back in two parts")
      deallocate (out)
    end do
  end subroutine test_overlap

  subroutine test_twice(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type) :: graph
    type(problem_type) :: whole
    real(dp), allocatable :: y(:, :), grad(:, :), again(:, :)
    integer :: k

    call setup("scattered", graph, whole, error)
    if (allocated(error)) return
    y = 1/features([graph%owned_src, graph%halo_ids], width)
    grad = features(graph%owned_src, width)
    again = grad
    do k = 1, 20
      call graph%halo_vjp(y, grad, error)
      if (k > 1) call check(error, all(grad == again), "other bits")
      if (allocated(error)) return
      again = grad
    end do
  end subroutine test_twice

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(distributed_graph_type) :: graph, none
    type(problem_type) :: whole
    type(pending_halo_type), target :: pending
    real(dp), allocatable, target :: x(:, :), x_ext(:, :)
    real(dp) :: nothing(2, 0)
    logical :: last

    call none%halo(nothing, nothing, raised)
    call check_refused(error, raised, "halo: from_local comes first")
    deallocate (raised)
    call setup("scattered", graph, whole, error)
    if (allocated(error)) return
    last = graph%rank == graph%size - 1
    allocate (x(width, graph%n_own + merge(1, 0, last)), &
      & x_ext(width, graph%n_own + graph%n_halo), source=0.0_dp)
    call graph%halo(x, x_ext, raised)
    call check(error, index(raised%message, "halo: x has shape") == 1, raised%message)
    deallocate (raised, x)
    x = features(graph%owned_src, width)
    call graph%halo_vjp(x_ext(:, :size(x_ext, 2) - merge(1, 0, last)), x, raised)
    call check(error, index(raised%message, "halo_vjp: cotangent has shape") == 1, raised%message)
    deallocate (raised)
    call graph%halo_vjp_finish(x_ext, x, pending, raised)
    call check_refused(error, raised, "halo_vjp: start comes before finish, with the same kind")
    deallocate (raised)

    if (graph%size > 1) then
      call graph%halo(x(:merge(2, 3, last), :), x_ext(:merge(2, 3, last), :), raised)
      call check_refused(error, raised, "halo: 2 features on one process, 3 on another")
      deallocate (raised)
    end if

    ! messages under way on one process stay so, and come
    call graph%halo_start(x, x_ext, pending, error)
    if (allocated(error)) return
    call graph%halo_start(x, x_ext, pending, raised)
    call check(error, index(raised%message, "halo: messages of an earlier start are under way") &
      & == 1, raised%message)
    call graph%halo_finish(pending)
    call check(error, all(x_ext == features([graph%owned_src, graph%halo_ids], width)), "rows")
    ! afterwards all is as before
    x_ext = 0
    call graph%halo(x, x_ext, error)
    call check(error, all(x_ext == features([graph%owned_src, graph%halo_ids], width)), "again")
  end subroutine test_errors

end module test_halo

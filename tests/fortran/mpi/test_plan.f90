! SPDX-License-Identifier: MIT

!> Plans: which rows come where, whatever the partition; what is refused, on all processes alike.
module test_plan
  use mpi_f08, only: MPI_Comm, MPI_COMM_WORLD, MPI_Comm_dup, MPI_Comm_free, MPI_Comm_split
  use gnograd, only: dp, int64, error_type
  use gnograd_mpi, only: communicator_type, distributed_graph_type
  use problem, only: problem_type, part_type, make_problem, part_of, distribute, id_of, node_of, &
    & layouts
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: plan_tests

contains

  function plan_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("order of rows", test_rows), &
      & test_type("edges of the local graph", test_edges), &
      & test_type("rows that are sent are those that are needed", test_sends), &
      & test_type("a graph without nodes", test_nothing), &
      & test_type("graphs on some of the processes", test_groups), &
      & test_type("wrong on one process, refused on all", test_errors), &
      & test_type("wrong together", test_contradictions)]
  end function plan_tests

  subroutine setup(layout, whole, part, graph, error)
    character(len=*), intent(in) :: layout
    type(problem_type), intent(out) :: whole
    type(part_type), intent(out) :: part
    type(distributed_graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(inout) :: error
    type(communicator_type) :: all

    call all%init(MPI_COMM_WORLD, error)
    whole = make_problem(layout, all%size)
    part = part_of(whole, all%rank)
    call distribute(whole, part, graph, error)
  end subroutine setup

  !> Interior first, in the order given; the halo by owner and number.
  subroutine test_rows(error)
    type(error_type), allocatable, intent(out) :: error
    type(problem_type) :: whole
    type(part_type) :: part
    type(distributed_graph_type) :: graph
    integer(int64), allocatable :: needed(:), halo(:)
    logical, allocatable :: waits(:)
    integer(int64) :: i
    integer :: k, rank

    do k = 1, size(layouts)
      call setup(layouts(k), whole, part, graph, error)
      if (allocated(error)) return
      waits = [(any(whole%owner_src(whole%sources(whole%offsets(part%nodes(i)): &
        & whole%offsets(part%nodes(i) + 1) - 1)) /= graph%rank), i=1, size(part%nodes))]
      needed = [pack([(i, i=1, size(waits))], .not. waits), pack([(i, i=1, size(waits))], waits)]
      call check(error, graph%n_dst == size(part%nodes), layouts(k)//": n_dst")
      call check(error, graph%n_interior == count(.not. waits), layouts(k)//": n_interior")
      if (allocated(error)) return
      call check(error, all(graph%rows == needed), layouts(k)//": rows")
      call check(error, all(graph%owned == part%owned(needed)), layouts(k)//": owned")
      if (whole%bipartite) then
        call check(error, all(graph%owned_src == part%owned_src), layouts(k)//": owned_src")
      else
        call check(error, all(graph%owned_src == graph%owned), layouts(k)//": owned_src")
      end if

      allocate (halo(0))
      do rank = 0, graph%size - 1
        if (rank == graph%rank) cycle
        needed = id_of(pack([(i, i=1, whole%n_src)], whole%owner_src == rank .and. &
          & [(any(whole%sources(part%edges) == i), i=1, whole%n_src)]))
        halo = [halo, ascending(needed)]
      end do
      call check(error, size(halo) == graph%n_halo, layouts(k)//": n_halo")
      if (allocated(error)) return
      call check(error, all(graph%halo_ids == halo), layouts(k)//": halo_ids")
      if (layouts(k) == "no halo" .or. layouts(k) == "one owner") &
        & call check(error, graph%n_halo == 0 .and. size(graph%neighbours) == 0, "no neighbours")
      deallocate (halo)
    end do
  end subroutine test_rows

  function ascending(numbers) result(sorted)
    integer(int64), intent(in) :: numbers(:)
    integer(int64) :: sorted(size(numbers))
    integer :: k

    do k = 1, size(numbers)
      sorted(1 + count(numbers < numbers(k))) = numbers(k)
    end do
  end function ascending

  subroutine test_edges(error)
    type(error_type), allocatable, intent(out) :: error
    type(problem_type) :: whole
    type(part_type) :: part
    type(distributed_graph_type) :: graph
    integer(int64), allocatable :: ids(:)
    integer(int64) :: row, e, first
    integer :: k

    do k = 1, size(layouts)
      call setup(layouts(k), whole, part, graph, error)
      if (allocated(error)) return
      ids = [graph%owned_src, graph%halo_ids]
      call check(error, graph%local%n_src == size(ids), "n_src")
      call check(error, graph%local%n_dst == graph%n_dst, "n_dst")
      do row = 1, graph%n_dst
        first = part%offsets(graph%rows(row))
        do e = graph%local%by_dst%offsets(row - 1) + 1, graph%local%by_dst%offsets(row)
          call check(error, graph%edges(e) == first, layouts(k)//": edges")
          call check(error, ids(graph%local%by_dst%indices(e - 1) + 1) == part%sources(first), &
            & layouts(k)//": sources")
          first = first + 1
        end do
        call check(error, first == part%offsets(graph%rows(row) + 1), layouts(k)//": row")
      end do
      if (allocated(error)) return
    end do
  end subroutine test_edges

  !> The graph is directed: what goes to a neighbour is not what comes from it.
  subroutine test_sends(error)
    type(error_type), allocatable, intent(out) :: error
    type(problem_type) :: whole
    type(part_type) :: part, other
    type(distributed_graph_type) :: graph
    integer(int64), allocatable :: sent(:)
    integer(int64) :: i
    integer :: k, rank

    do k = 1, size(layouts)
      call setup(layouts(k), whole, part, graph, error)
      if (allocated(error)) return
      allocate (sent(0))
      do rank = 0, graph%size - 1
        if (rank == graph%rank) cycle
        other = part_of(whole, rank)
        sent = [sent, ascending(id_of(pack([(i, i=1, whole%n_src)], whole%owner_src == graph%rank &
          & .and. [(any(whole%sources(other%edges) == i), i=1, whole%n_src)])))]
      end do
      call check(error, size(sent) == size(graph%send_rows), layouts(k)//": rows to send")
      if (allocated(error)) return
      call check(error, all(graph%owned_src(graph%send_rows) == sent), layouts(k)//": sent")
      deallocate (sent)
    end do
  end subroutine test_sends

  subroutine test_nothing(error)
    type(error_type), allocatable, intent(out) :: error
    type(distributed_graph_type) :: graph
    integer(int64) :: none(0)
    real(dp) :: x(2, 0), x_ext(2, 0)

    call graph%from_local([1_int64], none, none, MPI_COMM_WORLD, error)
    if (allocated(error)) return
    call check(error, graph%n_own == 0 .and. graph%n_halo == 0 .and. graph%n_dst == 0, "sizes")
    call graph%halo(x, x_ext, error)
  end subroutine test_nothing

  !> Half of the processes have a problem of their own; communicators of others come and go.
  subroutine test_groups(error)
    type(error_type), allocatable, intent(out) :: error
    type(communicator_type) :: all
    type(problem_type) :: whole
    type(part_type) :: part
    type(distributed_graph_type) :: graph
    type(MPI_Comm) :: half, same
    integer :: k, color, n

    call all%init(MPI_COMM_WORLD, error)
    do k = 1, 20
      color = mod(all%rank, 2)
      n = (all%size + 1 - color)/2
      call MPI_Comm_split(MPI_COMM_WORLD, color, all%rank, half)
      call MPI_Comm_dup(half, same)
      whole = make_problem("scattered", n)
      part = part_of(whole, all%rank/2)
      call distribute(whole, part, graph, error, half)
      call distribute(whole, part, graph, error, same)
      call check(error, graph%size == n .and. graph%rank == all%rank/2, "size of a half")
      call MPI_Comm_free(same)
      call MPI_Comm_free(half)
      if (allocated(error)) return
    end do
  end subroutine test_groups

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(communicator_type) :: all
    integer :: rank
    integer(int64) :: none(0)

    call all%init(MPI_COMM_WORLD, error)
    do rank = 0, all%size - 1, max(1, all%size - 1)
      call attempt([1_int64], none, [4_int64], "from_local: offsets has shape 1, needs 2")
      call attempt([1_int64, 3_int64], [4_int64], [4_int64], &
        & "from_local: offsets go from 1 to 3, need 1 to 2 for the sources")
      call attempt([1_int64, 2_int64, 1_int64, 2_int64], [4_int64], [4_int64, 5_int64, 6_int64], &
        & "from_local: offsets decreases at destination 2")
      call attempt([1_int64, 2_int64], [-4_int64], [4_int64], &
        & "from_local: source -4, needs numbers from 0")
      call attempt([1_int64, 2_int64], [4_int64], [-4_int64], &
        & "from_local: owned has node -4, needs numbers from 0")
      call attempt([1_int64, 1_int64, 1_int64], none, [4_int64, 4_int64], &
        & "from_local: owned has node 4 twice")
    end do

  contains

    !> Try these arguments on one process, and right ones on the others.
    subroutine attempt(offsets, sources, owned, message)
      integer(int64), intent(in) :: offsets(:), sources(:), owned(:)
      character(len=*), intent(in) :: message
      type(distributed_graph_type) :: graph
      type(error_type), allocatable :: raised

      if (all%rank == rank) then
        call graph%from_local(offsets, sources, owned, MPI_COMM_WORLD, raised)
      else
        call graph%from_local([1_int64, 1_int64], none, [100_int64 + all%rank], MPI_COMM_WORLD, &
          & raised)
      end if
      call check_refused(error, raised, message//whose(all, rank))
    end subroutine attempt

  end subroutine test_errors

  !> Text behind a message that comes from a process.
  function whose(group, rank) result(text)
    type(communicator_type), intent(in) :: group
    integer, intent(in) :: rank
    character(len=:), allocatable :: text
    character(len=20) :: buffer

    text = ""
    if (group%size == 1) return
    write (buffer, "(a, i0, a)") " (on process ", rank, ")"
    text = trim(buffer)
  end function whose

  subroutine test_contradictions(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(communicator_type) :: all
    type(distributed_graph_type) :: graph
    integer(int64) :: none(0)

    call all%init(MPI_COMM_WORLD, error)
    ! a source that nobody owns, needed by the last one
    if (all%rank == all%size - 1) then
      call graph%from_local([1_int64, 2_int64], [77_int64], [10_int64 + all%rank], &
        & MPI_COMM_WORLD, raised)
    else
      call graph%from_local([1_int64, 1_int64], none, [10_int64 + all%rank], MPI_COMM_WORLD, raised)
    end if
    call check_refused(error, raised, "from_local: source 77 belongs to no process"// &
      & whose(all, all%size - 1))
    if (all%size == 1 .or. allocated(error)) return

    ! a node that two own
    deallocate (raised)
    call graph%from_local([1_int64, 1_int64], none, [max(1_int64, int(all%rank, int64))], &
      & MPI_COMM_WORLD, raised)
    call check(error, index(raised%message, &
      & "from_local: node 1 is owned by process 0 and by process 1 (on process ") == 1, &
      & raised%message)
    ! one has sources of its own kind
    deallocate (raised)
    if (all%rank == 0) then
      call graph%from_local([1_int64], none, none, MPI_COMM_WORLD, raised, none)
    else
      call graph%from_local([1_int64], none, none, MPI_COMM_WORLD, raised)
    end if
    call check_refused(error, raised, "from_local: owned_src on some processes only")
    ! an error that came before
    deallocate (raised)
    if (all%rank == 1) call check(raised, .false., "the mesh could not be read")
    call graph%from_local([1_int64], none, none, MPI_COMM_WORLD, raised)
    call check_refused(error, raised, "the mesh could not be read"//whose(all, 1))
  end subroutine test_contradictions

end module test_plan

! SPDX-License-Identifier: MIT

!> A graph that every process of a test knows as a whole, and the part of it that one owns.
module problem
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Comm, MPI_COMM_WORLD
  use gnograd, only: dp, int64, error_type
  use gnograd_mpi, only: communicator_type, distributed_graph_type
  use testing, only: test_type
  implicit none
  private
  public :: problem_type, part_type, make_problem, part_of, distribute, feature, id_of, node_of
  public :: run_tests, layouts

  !> Distributions of the nodes among processes
  character(len=*), parameter :: layouts(6) = [character(len=12) :: "strips", "scattered", &
    & "first empty", "one owner", "no halo", "bipartite"]

  type :: problem_type
    integer(int64) :: n_dst = 0, n_src = 0
    !> Counted from 1
    integer(int64), allocatable :: offsets(:), sources(:)
    !> Ranks
    integer, allocatable :: owner(:), owner_src(:)
    logical :: bipartite = .false.
  end type problem_type

  !> Arguments of from_local on one process, and the nodes and edges that they come from.
  type :: part_type
    integer(int64), allocatable :: offsets(:), sources(:), owned(:), owned_src(:)
    integer(int64), allocatable :: nodes(:), edges(:)
  end type part_type

contains

  function make_problem(layout, n_processes) result(made)
    character(len=*), intent(in) :: layout
    integer, intent(in) :: n_processes
    type(problem_type) :: made
    integer(int64), parameter :: n = 61
    integer(int64) :: i, k, source

    made%bipartite = layout == "bipartite"
    made%n_dst = n
    made%n_src = merge(37_int64, n, made%bipartite)
    made%owner = [(owner_of(i, n), i=1, made%n_dst)]
    made%owner_src = made%owner
    if (made%bipartite) made%owner_src = [(int(mod(i/3, int(n_processes, int64))), i=1, made%n_src)]
    allocate (made%offsets(n + 1), made%sources(0))
    made%offsets(1) = 1
    do i = 1, n
      ! 0 to 6 edges, one way, some twice
      do k = 1, mod(7*i, 7_int64 + merge(0, 1, mod(i, 3_int64) == 0)) + mod(i, 4_int64)
        source = mod(i*i + 5*k + i/(k + 1), made%n_src) + 1
        if (layout == "no halo" .and. made%owner(source) /= made%owner(i)) source = i
        made%sources = [made%sources, source]
      end do
      made%offsets(i + 1) = size(made%sources) + 1
    end do

  contains

    function owner_of(i, n) result(rank)
      integer(int64), intent(in) :: i, n
      integer :: rank

      select case (layout)
      case ("scattered")
        rank = int(mod(i*i + i/3, int(n_processes, int64)))
      case ("first empty")
        rank = int(min(mod(i, int(max(n_processes - 1, 1), int64)) + 1, n_processes - 1_int64))
      case ("one owner")
        rank = n_processes - 1
      case default
        rank = int((i - 1)*n_processes/n)
      end select
    end function owner_of

  end function make_problem

  !> Numbers of nodes have gaps.
  elemental function id_of(node) result(id)
    integer(int64), intent(in) :: node
    integer(int64) :: id

    id = 7*node + 1000003_int64*mod(node, 5_int64)
  end function id_of

  !> The node that has a number.
  elemental function node_of(id) result(node)
    integer(int64), intent(in) :: id
    integer(int64) :: node

    do node = 1, 1000
      if (id_of(node) == id) return
    end do
    node = 0
  end function node_of

  function part_of(whole, rank) result(part)
    type(problem_type), intent(in) :: whole
    integer, intent(in) :: rank
    type(part_type) :: part
    integer(int64) :: i, e

    ! destinations in descending order: their rows are not those of the numbers
    part%nodes = pack([(i, i=whole%n_dst, 1, -1)], whole%owner(whole%n_dst:1:-1) == rank)
    part%owned = id_of(part%nodes)
    part%owned_src = id_of(pack([(i, i=1, whole%n_src)], whole%owner_src == rank))
    allocate (part%edges(0), part%offsets(size(part%nodes) + 1))
    part%offsets(1) = 1
    do i = 1, size(part%nodes)
      part%edges = [part%edges, [(e, e=whole%offsets(part%nodes(i)), &
        & whole%offsets(part%nodes(i) + 1) - 1)]]
      part%offsets(i + 1) = size(part%edges) + 1
    end do
    part%sources = id_of(whole%sources(part%edges))
  end function part_of

  subroutine distribute(whole, part, graph, error, comm)
    type(problem_type), intent(in) :: whole
    type(part_type), intent(in) :: part
    type(distributed_graph_type), intent(inout) :: graph
    type(error_type), allocatable, intent(inout) :: error
    type(MPI_Comm), intent(in), optional :: comm
    type(MPI_Comm) :: processes

    processes = MPI_COMM_WORLD
    if (present(comm)) processes = comm
    if (whole%bipartite) then
      call graph%from_local(part%offsets, part%sources, part%owned, processes, error, &
        & part%owned_src)
    else
      call graph%from_local(part%offsets, part%sources, part%owned, processes, error)
    end if
  end subroutine distribute

  !> Feature of a node, the same wherever it is computed.
  elemental function feature(k, node) result(x)
    integer, intent(in) :: k
    integer(int64), intent(in) :: node
    real(dp) :: x

    x = sin(1.3_dp*k + 0.37_dp*node + 0.011_dp*k*node)
  end function feature

  !> Each test on all processes; what one finds all know, since a test ends with agreement.
  subroutine run_tests(suite, tests, n_failed)
    character(len=*), intent(in) :: suite
    type(test_type), intent(in) :: tests(:)
    integer, intent(inout) :: n_failed
    type(communicator_type) :: all
    type(error_type), allocatable :: error
    integer :: k

    call all%init(MPI_COMM_WORLD, error)
    do k = 1, size(tests)
      call tests(k)%run(error)
      call all%agree(error)
      if (allocated(error)) n_failed = n_failed + 1
      if (all%rank > 0) cycle
      if (allocated(error)) then
        write (error_unit, "(6a)") "FAILED ", suite, ": ", trim(tests(k)%name), ": ", error%message
      else
        write (error_unit, "(4a)") "passed ", suite, ": ", trim(tests(k)%name)
      end if
    end do
  end subroutine run_tests

end module problem

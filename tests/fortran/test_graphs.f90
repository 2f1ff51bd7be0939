! SPDX-License-Identifier: MIT

!> Graphs of edges, points, meshes and other graphs; those of points again against Python's, in
!> test_fortran_graphs.py.
module test_graphs
  use gnograd
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: graphs_tests

contains

  function graphs_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("edges in any order", test_edges), &
      & test_type("numbers of nodes", test_numbers), &
      & test_type("self-loops", test_self_loops), &
      & test_type("radius against all pairs", test_radius), &
      & test_type("nearest against all pairs", test_knn), &
      & test_type("a periodic box", test_period), &
      & test_type("so many neighbours", test_most), &
      & test_type("any number of threads", test_threads), &
      & test_type("cells of a mesh", test_cells), &
      & test_type("every kind of cell", test_kinds), &
      & test_type("reverse", test_reverse), &
      & test_type("batch", test_batch), &
      & test_type("union", test_union), &
      & test_type("random numbers", test_random), &
      & test_type("refused", test_refused)]
  end function graphs_tests

  subroutine test_edges(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph, other
    integer, parameter :: src(4) = [3, 1, 2, 1], dst(4) = [2, 1, 2, 3]

    call graph%from_edges(src, dst, error)
    if (.not. allocated(error)) call other%from_edges(int(src, int64), int(dst, int64), error)
    if (allocated(error)) return
    call check(error, graph%n_src == 3 .and. graph%n_dst == 3 .and. graph%n_edges == 4, "sizes")
    call check(error, all(graph%src() == src) .and. all(graph%dst() == dst), "rows as given")
    call check(error, all(graph%by_dst%offsets == [0, 1, 3, 4]), "offsets")
    call check(error, all(graph%by_dst%indices == [0, 2, 1, 0]), "sources")
    call check(error, all(other%src() == src) .and. all(other%by_dst%edge == graph%by_dst%edge), &
      & "int64")
    call graph%from_edges([1, 2, 1], [1, 1, 2], error)
    if (allocated(error)) return
    call check(error, .not. allocated(graph%by_dst%edge), "edges that have their order")
    call graph%from_edges([integer ::], [integer ::], error)
    call check(error, graph%n_dst == 0, "none")
  end subroutine test_edges

  subroutine test_numbers(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph

    call graph%from_edges([2], [1], error, n_src=5)
    call check(error, graph%n_src == 5 .and. graph%n_dst == 5, "n_src alone")
    if (.not. allocated(error)) call graph%from_edges([2], [1], error, n_dst=4)
    call check(error, graph%n_src == 4 .and. graph%n_dst == 4, "n_dst alone")
    if (.not. allocated(error)) call graph%from_edges([2], [1], error, n_src=2, n_dst=1)
    call check(error, graph%n_src == 2 .and. graph%n_dst == 1, "both")
  end subroutine test_numbers

  subroutine test_self_loops(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph, back

    call graph%from_edges([1, 2, 2], [1, 1, 3], error, self_loops=.false.)
    if (allocated(error)) return
    call check(error, graph%n_edges == 3 .and. graph%by_dst%offsets(3) == 2, "left out")
    call check(error, all(graph%src() == [1, 2, 2]), "rows stay")
    call graph%from_edges([1, 2, 2], [1, 1, 3], error, self_loops=.true.)
    if (allocated(error)) return
    call check(error, graph%n_edges == 6 .and. graph%by_dst%offsets(3) == 5, "one at each")
    call check(error, all(graph%dst() == [1, 1, 3, 1, 2, 3]), "behind the others")
    call graph%reverse(back, error)
    if (allocated(error)) return
    call check(error, all(back%dst() == [1, 2, 2, 1, 2, 3]) .and. back%by_dst%offsets(3) == 5, &
      & "reverse")
  end subroutine test_self_loops

  !> Points of a cloud [d, n].
  subroutine scatter(d, n, seed, points)
    integer, intent(in) :: d, n, seed
    real(dp), allocatable, intent(out) :: points(:, :)
    type(random_type) :: random
    integer :: a, k

    random = random_type(seed=seed)
    allocate (points(d, n))
    do k = 1, n
      do a = 1, d
        points(a, k) = random%uniform()
      end do
    end do
  end subroutine scatter

  subroutine test_radius(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp), allocatable :: x(:, :), y(:, :)
    integer, allocatable :: near(:), src(:), dst(:)
    integer :: d, i, j

    do d = 1, 4
      call scatter(d, 150, d, x)
      call scatter(d, 40, d + 10, y)
      call graph%radius(x, 0.15_dp*d, error, destinations=y)
      if (allocated(error)) return
      src = graph%src()
      dst = graph%dst()
      do i = 1, 40
        near = pack([(j, j=1, 150)], [(norm2(x(:, j) - y(:, i)) <= 0.15_dp*d, j=1, 150)])
        associate (found => pack(src, dst == i))
          call check(error, size(found) == size(near), "number of neighbours")
          if (allocated(error)) return
          call check(error, all(found == near), "neighbours")
        end associate
      end do
    end do
  end subroutine test_radius

  subroutine test_knn(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp), allocatable :: x(:, :)
    integer, allocatable :: src(:)
    integer :: i, j, k
    logical :: left(200)

    call scatter(3, 200, 1, x)
    call graph%knn(x, 7, error, include_self=.false.)
    if (allocated(error)) return
    src = graph%src()
    do i = 1, 200
      left = .true.
      left(i) = .false.
      do k = 1, 7
        j = minloc([(norm2(x(:, j) - x(:, i)), j=1, 200)], dim=1, mask=left)
        left(j) = .false.
        call check(error, src(7*(i - 1) + k) == j, "neighbour")
      end do
    end do
    if (.not. allocated(error)) call graph%knn(x(:, :3), 5, error)
    call check(error, graph%n_edges == 9, "less than k")
    if (.not. allocated(error)) call graph%knn(x(:, [1, 1, 1]), 2, error)
    call check(error, all(graph%src() == [1, 2, 1, 2, 1, 2]), "the lower number")
    if (.not. allocated(error)) call graph%knn(x, 0, error)
    call check(error, graph%n_edges == 0, "none")
    call check_kinds(error)
  end subroutine test_knn

  !> Points in real32 are those of the same values in real64.
  subroutine check_kinds(error)
    type(error_type), allocatable, intent(inout) :: error
    type(error_type), allocatable :: refused
    type(graph_type) :: narrow, wide
    real(dp), allocatable :: x(:, :)
    real(sp), allocatable :: y(:, :)
    real(dp), parameter :: period(2) = [0.9_dp, 0.0_dp]

    if (allocated(error)) return
    call scatter(2, 100, 4, x)
    y = real(x, sp)
    x = real(y, dp)
    call narrow%radius(y, 0.1_dp, refused, y(:, :30), period=period, max_neighbors=3)
    if (.not. allocated(refused)) &
      & call wide%radius(x, 0.1_dp, refused, x(:, :30), period=period, max_neighbors=3)
    call check(error, .not. allocated(refused), "radius")
    if (allocated(error)) return
    call check(error, size(narrow%src()) == size(wide%src()), "number within")
    if (allocated(error)) return
    call check(error, all(narrow%src() == wide%src()), "within, in real32")
    call narrow%knn(y, 6, refused, include_self=.false.)
    if (.not. allocated(refused)) call wide%knn(x, 6, refused, include_self=.false.)
    call check(error, .not. allocated(refused), "nearest")
    if (allocated(error)) return
    call check(error, all(narrow%src() == wide%src()), "nearest, in real32")
  end subroutine check_kinds

  subroutine test_period(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp), parameter :: x(1, 4) = reshape([0.05_dp, 0.45_dp, 0.95_dp, -1.02_dp], [1, 4])

    call graph%radius(x, 0.11_dp, error, period=[1.0_dp])
    if (allocated(error)) return
    call check(error, all(graph%by_dst%offsets == [0, 3, 4, 7, 10]), "through the border")
    call check(error, all(graph%src() == [1, 3, 4, 2, 1, 3, 4, 1, 3, 4]), "sources")
    call graph%knn(x, 2, error, period=[1.0_dp])
    if (allocated(error)) return
    call check(error, all(graph%src() == [1, 4, 2, 1, 3, 4, 4, 3]), "nearest")
  end subroutine test_period

  subroutine test_most(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: all_of_them, nearest, random, again
    real(dp), allocatable :: x(:, :)

    call scatter(2, 300, 1, x)
    call all_of_them%radius(x, 0.2_dp, error)
    if (.not. allocated(error)) call nearest%radius(x, 0.2_dp, error, max_neighbors=4)
    if (.not. allocated(error)) call random%radius(x, 0.2_dp, error, max_neighbors=4, &
      & choose="random", seed=5_int64)
    if (.not. allocated(error)) call again%knn(x, 4, error)
    if (allocated(error)) return
    associate (n => all_of_them%by_dst%offsets(1:) - all_of_them%by_dst%offsets(:299))
      call check(error, all(nearest%by_dst%offsets(1:) - nearest%by_dst%offsets(:299) == min(n, &
        & 4_int64)), "nearest: number")
      call check(error, nearest%n_edges == random%n_edges, "random: number")
    end associate
    call check(error, all(nearest%by_dst%offsets == again%by_dst%offsets) .and. &
      & sum(nearest%src()) == sum(again%src()), "the nearest ones")
    call check(error, any(nearest%src() /= random%src()), "random ones")
    call again%union([all_of_them, random], error)
    if (allocated(error)) return
    call check(error, again%n_edges == all_of_them%n_edges, "within the radius")
  end subroutine test_most

  subroutine test_threads(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: one, three
    real(dp), allocatable :: x(:, :)

    call scatter(3, 20000, 1, x)
    call set_n_threads(1)
    call one%radius(x, 0.05_dp, error, period=[1.0_dp, 0.0_dp, 1.0_dp])
    call set_n_threads(3)
    if (.not. allocated(error)) &
      & call three%radius(x, 0.05_dp, error, period=[1.0_dp, 0.0_dp, 1.0_dp])
    call set_n_threads(0)
    if (allocated(error)) return
    call check(error, one%n_edges == three%n_edges, "number of edges")
    if (allocated(error)) return
    call check(error, all(one%by_dst%indices == three%by_dst%indices), "edges")
  end subroutine test_threads

  !> Two triangles; the same as one cell with all its pairs.
  subroutine test_cells(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph, wide
    integer, parameter :: cells(3, 2) = reshape([1, 2, 3, 4, 3, 2], [3, 2])

    call graph%from_cells(cells, 5, error)
    if (allocated(error)) return
    call check(error, all(graph%by_dst%offsets == [0, 2, 5, 8, 10, 10]), "offsets")
    call check(error, all(graph%src() == [2, 3, 1, 3, 4, 1, 2, 4, 2, 3]), "both ways, once")
    call wide%from_cells(int(cells, int64), 5_int64, error, kind="triangle", self_loops=.true.)
    if (allocated(error)) return
    call check(error, wide%n_edges == 15, "self-loops")
    call check(error, all(pack(wide%src(), wide%src() /= wide%dst()) == graph%src()), "int64")
  end subroutine test_cells

  !> Numbers of edges obey Euler's formula.
  subroutine test_kinds(error)
    type(error_type), allocatable, intent(out) :: error
    character(len=13), parameter :: kinds(7) = [character(len=13) :: "line", "triangle", &
      & "quadrilateral", "tetrahedron", "pyramid", "prism", "hexahedron"]
    integer, parameter :: corners(7) = [2, 3, 4, 4, 5, 6, 8], edges(7) = [1, 3, 4, 6, 8, 9, 12]
    type(graph_type) :: graph
    integer :: k, i

    do k = 1, 7
      if (.not. allocated(error)) call graph%from_cells(reshape([(i, i=1, corners(k))], &
        & [corners(k), 1]), corners(k), error, trim(kinds(k)))
      call check(error, graph%n_edges == 2*edges(k), trim(kinds(k)))
      if (k > 3) call check(error, all(graph%by_dst%offsets(1:) - &
        & graph%by_dst%offsets(:corners(k) - 1) >= 3), trim(kinds(k))//": degree")
    end do
  end subroutine test_kinds

  subroutine test_reverse(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph, back

    call graph%from_edges([2, 1, 3], [1, 2, 1], error, n_src=4, n_dst=2)
    if (.not. allocated(error)) call graph%reverse(back, error)
    if (allocated(error)) return
    call check(error, back%n_src == 2 .and. back%n_dst == 4, "sizes")
    call check(error, all(back%src() == [1, 2, 1]) .and. all(back%dst() == [2, 1, 3]), "rows stay")
  end subroutine test_reverse

  subroutine test_batch(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graphs(3), batch

    call graphs(1)%from_edges([2, 1], [2, 1], error, n_src=3, n_dst=2)
    if (.not. allocated(error)) call graphs(2)%from_edges([integer ::], [integer ::], error, &
      & n_src=1, n_dst=0)
    if (.not. allocated(error)) call graphs(3)%from_edges([1, 1], [1, 2], error)
    if (.not. allocated(error)) call batch%batch(graphs, error)
    if (allocated(error)) return
    call check(error, batch%n_src == 6 .and. batch%n_dst == 4, "sizes")
    call check(error, all(batch%src() == [2, 1, 5, 5]) .and. all(batch%dst() == [2, 1, 3, 4]), &
      & "edges")
  end subroutine test_batch

  subroutine test_union(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graphs(2), both

    call graphs(1)%from_edges([1, 3, 1], [2, 1, 2], error, n_src=3)
    if (.not. allocated(error)) call graphs(2)%from_edges([2, 1, 3], [3, 2, 1], error)
    if (.not. allocated(error)) call both%union(graphs, error)
    if (allocated(error)) return
    call check(error, all(both%src() == [1, 3, 2]) .and. all(both%dst() == [2, 1, 3]), "edges")
  end subroutine test_union

  !> Numbers of SplitMix64 that its authors' program prints for the seed 1234567.
  subroutine test_random(error)
    type(error_type), allocatable, intent(out) :: error
    type(random_type) :: random
    real(dp) :: x

    random = random_type(seed=1234567)
    x = random%uniform()
    call check(error, ishft(6457827717110365317_int64, -11) == nint(x*2.0_dp**53, int64), "first")
    x = random%uniform()
    call check(error, ishft(3203168211198807973_int64, -11) == nint(x*2.0_dp**53, int64), "second")
    x = random%uniform(2.0_dp, 3.0_dp)
    call check(error, x >= 2 .and. x < 3, "limits")
  end subroutine test_random

  subroutine test_refused(error)
    use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(graph_type) :: graph, none(0), two(2)
    real(dp) :: x(2, 3)

    call graph%from_edges([1], [1], error)
    if (allocated(error)) return
    call graph%from_edges([1, 2], [1], refused)
    call check_refused(error, refused, "graph: src has 2 entries but dst has 1")
    ! (:, 1) is the first one, and so is (1)
    call graph%init([1, 2, 4], [1, 2, 3], 2, refused)
    call check_refused(error, refused, "graph: indices(3) is 3, not one of 2 source nodes")
    call graph%init([1, 2, 4]*1_int64, [1, 2, 0]*1_int64, 2_int64, refused)
    call check_refused(error, refused, "graph: indices(3) is 0, not one of 2 source nodes")
    call graph%init([1, 3, 2, 4], [1, 2, 2], 2, refused)
    call check_refused(error, refused, "graph: offsets decreases at destination 2")
    call graph%init([1, 3], [1, 2], 2, refused, edge_ids=[1, 3])
    call check_refused(error, refused, "graph: edge_ids(2) is 3, not one of 2 edges")
    call graph%init([1, 3], [1, 2], 2, refused, edge_ids=[2, 2])
    call check_refused(error, refused, "graph: edge_ids names edge 2 twice")
    call graph%init_zero_based([0_int64, 1_int64], [2_int64], 2_int64, refused)
    call check_refused(error, refused, "graph: indices[0] is 2, not one of 2 source nodes")
    call graph%from_edges([1, 5], [1, 2], refused, n_src=4)
    call check_refused(error, refused, "graph: src(2) is 5, not one of 4 source nodes")
    call graph%from_edges([1, 2], [0, 1], refused)
    call check_refused(error, refused, "graph: dst(1) is 0, not one of 2 destination nodes")
    call graph%from_cells(reshape([1, 2, 4], [3, 1]), 3, refused)
    call check_refused(error, refused, "graph%from_cells: cells(3, 1) is 4, not one of 3 points")
    call graph%from_cells(reshape([1, 2, 3], [3, 1]), 3, refused, "hexahedron")
    call check_refused(error, refused, "graph%from_cells: cells has 3 corners, a hexahedron has 8")
    call graph%from_cells(reshape([1, 2, 3], [3, 1]), 3, refused, "cube")
    call check_refused(error, refused, "graph%from_cells: kind is 'cube', needs one of line, "// &
      & "triangle, quadrilateral, tetrahedron, pyramid, prism, hexahedron")
    x = 0
    call graph%radius(x, -1.0_dp, refused)
    call check_refused(error, refused, "graph%radius: radius must not be negative")
    call graph%radius(x, 1.0_dp, refused, destinations=x(:1, :))
    call check_refused(error, refused, "graph%radius: sources has 2 coordinates but "// &
      & "destinations has 1")
    call graph%radius(x, 1.0_dp, refused, period=[1.0_dp])
    call check_refused(error, refused, "graph%radius: period has shape 1, needs 2")
    call graph%radius(x, 1.0_dp, refused, max_neighbors=1, choose="best")
    call check_refused(error, refused, "graph%radius: choose is 'best', needs nearest or random")
    call graph%radius(x, 1.0_dp, refused, destinations=x, include_self=.false.)
    call check_refused(error, refused, &
      & "graph%radius: without include_self there are no destinations")
    call graph%knn(x, -1, refused)
    call check_refused(error, refused, "graph%knn: k is -1, must not be negative")
    x(2, 3) = ieee_value(1.0_dp, ieee_quiet_nan)
    call graph%knn(x, 1, refused)
    call check_refused(error, refused, "graph%knn: sources(:, 3) has entries that are not finite")
    call graph%batch(none, refused)
    call check_refused(error, refused, "graph%batch: graphs is empty, needs one or more")
    call graph%batch(two, refused)
    call check_refused(error, refused, "graph%batch: graphs(1) was never built")
    call two(1)%from_edges([1], [2], error)
    call graph%union(two, refused)
    call check_refused(error, refused, "graph%union: graphs(2) was never built")
    call two(2)%reverse(graph, refused)
    call check_refused(error, refused, "graph%reverse: the graph was never built")
    if (.not. allocated(error)) call two(2)%from_edges([1], [3], error)
    if (allocated(error)) return
    call graph%union(two, refused)
    call check_refused(error, refused, &
      & "graph%union: graphs(2) has 3 sources and 3 destinations, needs 2 and 2")
    call check(error, graph%n_edges == 1 .and. graph%n_src == 1, "an error changes nothing")
  end subroutine test_refused

end module test_graphs

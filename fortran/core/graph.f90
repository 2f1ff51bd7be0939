! SPDX-License-Identifier: MIT

!> A bipartite graph in both orders: edges by destination as the caller gave them, and by source.
!>
!> Validated and transposed once, when it is built; the kernels trust it afterwards, and take a view of
!> it. Everything is counted from 0, because the arrays are shared with C and Python; Fortran programs
!> build graphs of nodes that are counted from 1 (graph_building.f90).
!>
!> A graph is a value: copies are graphs of their own, and go with their variables. Tapes and C hold
!> graphs on the heap (hold, share, release), each with the number of its holders: what was computed
!> with a graph does not notice when the variable is built anew or goes out of scope. The arrays of a
!> graph that was lent (lend) stay with their owner, who answers for them; holding it makes a copy.
!>
!> The file is long because Fortran wants the interfaces of graph_building.f90 beside the type.
module gnograd_core_graph
  use gnograd_core_arithmetic, only: check_arithmetic
  use gnograd_core_csc, only: csc_type, transpose_edges, view_csc, copy_csc, move_csc
  use gnograd_core_kinds, only: sp, dp, int32, int64
  use gnograd_core_error, only: error_type, fail, text, check_allocation, check_shape, code_value, &
    & code_index, code_memory
  use gnograd_core_graph_checks, only: check_offsets, check_nodes, check_ends, check_permutation
  use gnograd_core_graph_view, only: graph_view
  use gnograd_core_process, only: added
  implicit none
  private
  public :: graph_type, hold, share, release, lend
  ! for graph_building.f90: gfortran 12 gives submodules nothing that is private
  public :: order_edges, finish

  !> Graph with n_src source nodes and n_dst destination nodes.
  type :: graph_type
    integer(int64) :: n_src = 0
    integer(int64) :: n_dst = 0
    integer(int64) :: n_edges = 0
    !> Rows are destinations, indices are sources
    type(csc_type) :: by_dst
    !> Rows are sources, indices are destinations
    type(csc_type) :: by_src
    !> Identifies the edges: unique for each graph built in this process, shared by its copies
    integer(int64) :: serial = 0
    !> The graph itself if it is on the heap, so that a copy is recognised; number of its holders
    type(graph_type), pointer, private :: home => null()
    integer(int64), private :: holders = 0
    !> Arrays that belong to somebody else
    type(graph_view), private :: lent
    logical, private :: is_lent = .false.
  contains
    !> View for kernels; valid as long as the graph, unless that is built anew
    procedure :: view
    !> True when destinations and sources may be the same nodes
    procedure :: is_square
    !> Build from 1-based arrays, default integers or int64, as Fortran programs have them
    generic :: init => init_one_based, init_one_based_int64
    !> Build from 0-based arrays, as C and Python have them
    procedure :: init_zero_based
    !> Build from pairs of 0-based nodes in any order
    procedure :: init_from_edges
    procedure, private :: init_one_based, init_one_based_int64
    !> Build from pairs of nodes in any order, counted from 1, default integers or int64
    generic :: from_edges => from_edges_default, from_edges_int64
    !> Build from the cells of a mesh, by the numbers of their corners, counted from 1
    generic :: from_cells => from_cells_default, from_cells_int64
    !> Build from points of either kind: all pairs within a radius
    generic :: radius => radius_r32, radius_r64
    !> Build from points of either kind: the k nearest to every one
    generic :: knn => knn_r32, knn_r64
    !> Build from other graphs, side by side
    procedure :: batch => graph_batch
    !> Build from other graphs: every edge that one of them has, once
    procedure :: union => graph_union
    !> Build the graph of the reversed edges
    procedure :: reverse => graph_reverse
    !> Source of every row of the edge table, counted from 1
    procedure :: src => graph_src
    !> Destination of every row of the edge table, counted from 1
    procedure :: dst => graph_dst
    procedure, private :: from_edges_default, from_edges_int64, from_cells_default, from_cells_int64
    procedure, private :: radius_r32, radius_r64, knn_r32, knn_r64
  end type graph_type

  interface

    !> Edges src(e) -> dst(e); row e of edge tables is that of pair e.
    module subroutine from_edges_int64(self, src, dst, error, n_src, n_dst, self_loops)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      !> The two ends of every edge, from 1 [n_edges]
      integer(int64), intent(in) :: src(:), dst(:)
      type(error_type), allocatable, intent(out) :: error
      !> Numbers of nodes. One left out is as the other; without both, the largest node there is
      integer(int64), intent(in), optional :: n_src, n_dst
      !> Leave out edges from a node to itself: their rows of edge tables belong to no edge then. If
      !> true, have exactly one at each of the first min(n_src, n_dst) nodes, with rows behind the
      !> others
      logical, intent(in), optional :: self_loops
    end subroutine from_edges_int64

    !> from_edges_int64 for default integers.
    module subroutine from_edges_default(self, src, dst, error, n_src, n_dst, self_loops)
      class(graph_type), intent(inout) :: self
      integer, intent(in) :: src(:), dst(:)
      type(error_type), allocatable, intent(out) :: error
      integer, intent(in), optional :: n_src, n_dst
      logical, intent(in), optional :: self_loops
    end subroutine from_edges_default

    !> The edges of a mesh, both ways and once: between all corners of a cell, or those of its kind.
    module subroutine from_cells_int64(self, cells, n_points, error, kind, self_loops)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      !> Corners of every cell, from 1 [corners, n_cells]
      integer(int64), intent(in) :: cells(:, :)
      !> Points of the mesh, which are the nodes
      integer(int64), intent(in) :: n_points
      type(error_type), allocatable, intent(out) :: error
      !> line, triangle, quadrilateral, tetrahedron, pyramid, prism or hexahedron, with corners in
      !> the order of VTK; absent: all corners of a cell are joined
      character(len=*), intent(in), optional :: kind
      !> Join every point with itself, too
      logical, intent(in), optional :: self_loops
    end subroutine from_cells_int64

    !> from_cells_int64 for default integers.
    module subroutine from_cells_default(self, cells, n_points, error, kind, self_loops)
      class(graph_type), intent(inout) :: self
      integer, intent(in) :: cells(:, :), n_points
      type(error_type), allocatable, intent(out) :: error
      character(len=*), intent(in), optional :: kind
      logical, intent(in), optional :: self_loops
    end subroutine from_cells_default

    !> All pairs of points at most a radius apart; the sources of a destination ascend.
    module subroutine radius_r64(self, sources, radius, error, destinations, include_self, &
        & period, max_neighbors, choose, seed)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      !> Coordinates [d, n_src]
      real(dp), intent(in), contiguous :: sources(:, :)
      !> Largest distance, inclusive
      real(dp), intent(in) :: radius
      type(error_type), allocatable, intent(out) :: error
      !> [d, n_dst]; the sources if absent
      real(dp), intent(in), contiguous, optional :: destinations(:, :)
      !> Make every point its own neighbour (default); false only without destinations
      logical, intent(in), optional :: include_self
      !> Lengths of a periodic box, 0 along axes that are not periodic [d]. Distances are to the
      !> nearest image, which makes one edge even where more images are in reach
      real(dp), intent(in), optional :: period(:)
      !> No destination has more edges
      integer, intent(in), optional :: max_neighbors
      !> Choice among more neighbours in reach than that: "nearest" (default), or "random", those
      !> with the smallest hashes of the seed and the two nodes
      character(len=*), intent(in), optional :: choose
      integer(int64), intent(in), optional :: seed
    end subroutine radius_r64

    !> radius_r64 for points in real32: distances are compared in real64.
    module subroutine radius_r32(self, sources, radius, error, destinations, include_self, &
        & period, max_neighbors, choose, seed)
      class(graph_type), intent(inout) :: self
      real(sp), intent(in), contiguous :: sources(:, :)
      real(dp), intent(in) :: radius
      type(error_type), allocatable, intent(out) :: error
      real(sp), intent(in), contiguous, optional :: destinations(:, :)
      logical, intent(in), optional :: include_self
      real(dp), intent(in), optional :: period(:)
      integer, intent(in), optional :: max_neighbors
      character(len=*), intent(in), optional :: choose
      integer(int64), intent(in), optional :: seed
    end subroutine radius_r32

    !> The k sources nearest to every destination, the nearest first, by number where equal.
    module subroutine knn_r64(self, sources, k, error, destinations, include_self, period)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      real(dp), intent(in), contiguous :: sources(:, :)
      !> Neighbours of a destination; all sources if there are fewer
      integer, intent(in) :: k
      type(error_type), allocatable, intent(out) :: error
      !> Options as for radius
      real(dp), intent(in), contiguous, optional :: destinations(:, :)
      logical, intent(in), optional :: include_self
      real(dp), intent(in), optional :: period(:)
    end subroutine knn_r64

    !> knn_r64 for points in real32.
    module subroutine knn_r32(self, sources, k, error, destinations, include_self, period)
      class(graph_type), intent(inout) :: self
      real(sp), intent(in), contiguous :: sources(:, :)
      integer, intent(in) :: k
      type(error_type), allocatable, intent(out) :: error
      real(sp), intent(in), contiguous, optional :: destinations(:, :)
      logical, intent(in), optional :: include_self
      real(dp), intent(in), optional :: period(:)
    end subroutine knn_r32

    !> Graphs without edges between them: nodes, and rows of edge tables, of a graph come behind
    !> those of the graphs before it.
    module subroutine graph_batch(self, graphs, error)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      type(graph_type), intent(in), target :: graphs(:)
      type(error_type), allocatable, intent(out) :: error
    end subroutine graph_batch

    !> Every edge that one of the graphs has, once. Rows of edge tables are in the order in which
    !> edges come first.
    module subroutine graph_union(self, graphs, error)
      !> Becomes the graph; left as it was on error
      class(graph_type), intent(inout) :: self
      !> Graphs with equal numbers of nodes
      type(graph_type), intent(in), target :: graphs(:)
      type(error_type), allocatable, intent(out) :: error
    end subroutine graph_union

    !> Sources become destinations; rows of edge tables stay.
    module subroutine graph_reverse(self, reversed, error)
      class(graph_type), intent(in), target :: self
      !> Another variable; left as it was on error
      type(graph_type), intent(inout) :: reversed
      type(error_type), allocatable, intent(out) :: error
    end subroutine graph_reverse

    !> Source of every row of the edge table: x(:, graph%dst()) - y(:, graph%src()) are the edges'
    !> vectors. It is 1 where a row belongs to no edge.
    module function graph_src(self) result(nodes)
      class(graph_type), intent(in), target :: self
      integer, allocatable :: nodes(:)
    end function graph_src

    module function graph_dst(self) result(nodes)
      class(graph_type), intent(in), target :: self
      integer, allocatable :: nodes(:)
    end function graph_dst

  end interface

  !> Serial of the graph built last
  integer(int64), save :: last_serial = 0

contains

  !> Build from 1-based offsets and source numbers.
  subroutine init_one_based(self, offsets, indices, n_src, error, edge_ids)
    !> Becomes the graph; left as it was on error
    class(graph_type), intent(inout) :: self
    !> First edge of every destination, 1-based, [n_dst+1]
    integer, intent(in) :: offsets(:)
    !> Source of every edge, 1-based, [n_edges]
    integer, intent(in) :: indices(:)
    !> Number of sources
    integer, intent(in) :: n_src
    !> Allocated on error
    type(error_type), allocatable, intent(out) :: error
    !> Row of the edge table that every edge uses, 1-based, [n_edges]
    integer, intent(in), optional :: edge_ids(:)
    integer(int64), allocatable :: wide_offsets(:), wide_indices(:), wide_ids(:)
    integer :: status

    ! not as expressions in the call: compilers put those on the stack
    allocate (wide_offsets(size(offsets)), wide_indices(size(indices)), stat=status)
    if (status == 0 .and. present(edge_ids)) allocate (wide_ids(size(edge_ids)), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    wide_offsets(:) = offsets
    wide_indices(:) = indices
    if (present(edge_ids)) wide_ids(:) = edge_ids
    call build(self, 1_int64, wide_offsets, wide_indices, int(n_src, int64), error, wide_ids)
  end subroutine init_one_based

  !> init_one_based for int64.
  subroutine init_one_based_int64(self, offsets, indices, n_src, error, edge_ids)
    class(graph_type), intent(inout) :: self
    integer(int64), intent(in) :: offsets(:), indices(:), n_src
    type(error_type), allocatable, intent(out) :: error
    integer(int64), intent(in), optional :: edge_ids(:)

    call build(self, 1_int64, offsets, indices, n_src, error, edge_ids)
  end subroutine init_one_based_int64

  !> Build from 0-based offsets and source numbers.
  subroutine init_zero_based(self, offsets, indices, n_src, error, edge_ids)
    !> Becomes the graph; left as it was on error
    class(graph_type), intent(inout) :: self
    !> First edge of every destination, [n_dst+1]
    integer(int64), intent(in) :: offsets(0:)
    !> Source of every edge, [n_edges]
    integer(int64), intent(in) :: indices(0:)
    !> Number of sources
    integer(int64), intent(in) :: n_src
    !> Allocated on error
    type(error_type), allocatable, intent(out) :: error
    !> Row of the edge table that every edge uses, a permutation of 0..n_edges-1, [n_edges]
    integer(int64), intent(in), optional :: edge_ids(0:)

    call build(self, 0_int64, offsets, indices, n_src, error, edge_ids)
  end subroutine init_zero_based

  !> Check, copy and transpose.
  subroutine build(self, base, offsets, indices, n_src, error, edge_ids)
    !> Becomes the graph; left as it was on error
    class(graph_type), intent(inout) :: self
    !> Number of the first node, edge and row of the edge table: 0 or 1
    integer(int64), intent(in) :: base
    integer(int64), intent(in) :: offsets(0:), indices(0:), n_src
    type(error_type), allocatable, intent(out) :: error
    integer(int64), intent(in), optional :: edge_ids(0:)
    type(graph_type) :: graph
    integer :: status

    ! here, for every operator on edges has a graph
    call check_arithmetic(error)
    if (allocated(error)) return
    call check_offsets(base, offsets, indices, n_src, error)
    if (allocated(error)) return
    graph%n_src = n_src
    graph%n_dst = size(offsets, kind=int64) - 1
    graph%n_edges = size(indices, kind=int64)

    allocate (graph%by_dst%offsets(0:graph%n_dst), graph%by_dst%indices(0:graph%n_edges - 1), &
      & stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    graph%by_dst%offsets(:) = offsets - base
    graph%by_dst%indices(:) = int(indices - base, int32)
    if (present(edge_ids)) then
      call check_permutation(base, edge_ids, graph%n_edges, error)
      if (allocated(error)) return
      allocate (graph%by_dst%edge(0:graph%n_edges - 1), stat=status)
      call check_allocation(status, "graph", error)
      if (allocated(error)) return
      graph%by_dst%edge(:) = edge_ids - base
    end if
    call finish(self, graph, error)
  end subroutine build

  !> Build from pairs of nodes; row p of the edge table is that of pair p.
  subroutine init_from_edges(self, src, dst, n_src, n_dst, self_loops, error)
    !> Becomes the graph; left as it was on error
    class(graph_type), intent(inout) :: self
    !> The two ends of every edge, [n_edges]
    integer(int64), intent(in) :: src(0:), dst(0:)
    !> Numbers of nodes
    integer(int64), intent(in) :: n_src, n_dst
    !> Edges from a node to itself: -1, as they are; 0, left out, so that their rows of the edge table
    !> are no edge's; 1, left out, and one at every node that is on both sides, behind the others
    integer, intent(in) :: self_loops
    !> Allocated on error
    type(error_type), allocatable, intent(out) :: error

    call check_arithmetic(error)
    if (.not. allocated(error)) call check_nodes(n_src, n_dst, error)
    if (.not. allocated(error)) call check_ends("src", src, n_src, "source", error)
    if (.not. allocated(error)) call check_ends("dst", dst, n_dst, "destination", error)
    if (.not. allocated(error)) call order_edges(self, src, dst, n_src, n_dst, self_loops, error)
  end subroutine init_from_edges

  !> Group checked pairs by destination. Rows with a source -1 belong to no edge.
  subroutine order_edges(self, src, dst, n_src, n_dst, self_loops, error)
    class(graph_type), intent(inout) :: self
    integer(int64), intent(in) :: src(0:), dst(0:), n_src, n_dst
    integer, intent(in) :: self_loops
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    integer(int64), allocatable :: next(:)
    integer(int64) :: n_given, n_loops, left_out, last, p, i
    integer :: status
    logical :: ordered

    n_given = size(src, kind=int64)
    n_loops = merge(min(n_src, n_dst), 0_int64, self_loops > 0)
    graph%n_src = n_src
    graph%n_dst = n_dst
    graph%n_edges = n_given + n_loops

    allocate (graph%by_dst%offsets(0:n_dst), next(0:n_dst), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    associate (offsets => graph%by_dst%offsets)
      offsets(:) = 0
      last = 0
      ordered = self_loops < 0
      do p = 0, n_given - 1
        if (is_left_out(p)) then
          ordered = .false.
          cycle
        end if
        offsets(dst(p) + 1) = offsets(dst(p) + 1) + 1
        ordered = ordered .and. dst(p) >= last
        last = dst(p)
      end do
      do i = 0, n_loops - 1
        offsets(i + 1) = offsets(i + 1) + 1
      end do
      do i = 1, n_dst
        offsets(i) = offsets(i) + offsets(i - 1)
      end do
      left_out = offsets(n_dst)
      next(:) = offsets
    end associate

    allocate (graph%by_dst%indices(0:graph%n_edges - 1), stat=status)
    if (status == 0 .and. .not. ordered) &
      & allocate (graph%by_dst%edge(0:graph%n_edges - 1), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    do p = 0, n_given - 1
      if (is_left_out(p)) then
        call put(p, 0_int64, left_out)
      else
        call put(p, src(p), next(dst(p)))
      end if
    end do
    do i = 0, n_loops - 1
      call put(n_given + i, i, next(i))
    end do
    call finish(self, graph, error)

  contains

    pure function is_left_out(p)
      integer(int64), intent(in) :: p
      logical :: is_left_out

      is_left_out = src(p) < 0 .or. (self_loops >= 0 .and. src(p) == dst(p))
    end function is_left_out

    !> A row of the edge table at the next place of those that it belongs to.
    subroutine put(row, from, place)
      integer(int64), intent(in) :: row, from
      integer(int64), intent(inout) :: place

      graph%by_dst%indices(place) = int(from, int32)
      if (.not. ordered) graph%by_dst%edge(place) = row
      place = place + 1
    end subroutine put

  end subroutine order_edges

  !> Transpose, and make it the graph.
  subroutine finish(self, graph, error)
    !> Left as it was on error
    class(graph_type), intent(inout) :: self
    !> All but by_src
    type(graph_type), intent(inout) :: graph
    type(error_type), allocatable, intent(out) :: error

    call transpose_edges(graph%n_src, graph%n_dst, graph%n_edges, graph%by_dst, graph%by_src, error)
    if (allocated(error)) return

    self%n_src = graph%n_src
    self%n_dst = graph%n_dst
    self%n_edges = graph%n_edges
    call move_csc(graph%by_dst, self%by_dst)
    call move_csc(graph%by_src, self%by_src)
    self%is_lent = .false.
    call count_up(self)
  end subroutine finish

  !> Give the graph a serial of its own.
  subroutine count_up(self)
    class(graph_type), intent(inout) :: self

    self%serial = added(last_serial, 1_int64)
    ! memory that a compiler has not initialised, as that of private variables, may say otherwise
    self%home => null()
    self%holders = 0
  end subroutine count_up

  !> Become a graph of somebody else's arrays, which are trusted and not copied.
  subroutine lend(arrays, self)
    type(graph_view), intent(in) :: arrays
    class(graph_type), intent(inout) :: self

    self%n_src = arrays%n_src
    self%n_dst = arrays%n_dst
    self%n_edges = arrays%n_edges
    self%lent = arrays
    self%is_lent = .true.
    call count_up(self)
  end subroutine lend

  !> View of the graph, for kernels.
  function view(self) result(seen)
    class(graph_type), intent(in), target :: self
    type(graph_view) :: seen

    if (self%is_lent) then
      seen = self%lent
      return
    end if
    seen%n_src = self%n_src
    seen%n_dst = self%n_dst
    seen%n_edges = self%n_edges
    call view_csc(self%by_dst, seen%by_dst)
    call view_csc(self%by_src, seen%by_src)
  end function view

  !> True when destinations and sources may be the same nodes.
  pure function is_square(self) result(square)
    class(graph_type), intent(in) :: self
    logical :: square

    square = self%n_src == self%n_dst
  end function is_square

  ! ---- graphs on the heap ----

  !> Take one more hold of a graph on the heap: of the graph itself if it is there, else of a copy.
  subroutine hold(graph, held, error)
    type(graph_type), intent(in), target :: graph
    !> Null on error
    type(graph_type), pointer, intent(out) :: held
    type(error_type), allocatable, intent(out) :: error
    type(graph_view) :: seen
    integer(int64) :: now
    integer :: status

    held => null()
    if (associated(graph%home, graph) .and. .not. graph%is_lent) then
      held => graph%home
      now = added(held%holders, 1_int64)
      return
    end if
    allocate (held, stat=status)
    if (status == 0) then
      held%n_src = graph%n_src
      held%n_dst = graph%n_dst
      held%n_edges = graph%n_edges
      held%serial = graph%serial
      seen = graph%view()
      call copy_csc(seen%by_dst, held%by_dst, status)
      if (status == 0) call copy_csc(seen%by_src, held%by_src, status)
      if (status == 0) then
        call share(held)
        return
      end if
      deallocate (held)
      held => null()
    end if
    call fail(error, code_memory, "graph: not enough memory")
  end subroutine hold

  !> A graph made by allocate, with its first holder.
  subroutine share(graph)
    type(graph_type), pointer, intent(in) :: graph

    graph%home => graph
    graph%holders = 1
  end subroutine share

  !> One holder less; the last one frees it.
  subroutine release(held)
    !> Null on return
    type(graph_type), pointer, intent(inout) :: held

    if (added(held%holders, -1_int64) == 0) deallocate (held)
    held => null()
  end subroutine release

end module gnograd_core_graph

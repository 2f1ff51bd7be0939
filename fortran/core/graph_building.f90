! SPDX-License-Identifier: MIT

!> Graphs of edges in any order, of points, of meshes and of other graphs; as Python's
!> graph_building.py. Nodes count from 1 here, as a Fortran program has them. One file for all ways
!> to build: each is a method of a page, and most end in order_edges.
submodule (gnograd_core_graph) gnograd_core_graph_building
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use gnograd_core_near_points, only: find_near, is_length, search_type, neighbors_type
  use gnograd_core_sorting, only: sort
  implicit none

contains

  ! ---- edges in any order ----

  module procedure from_edges_int64
    integer(int64), allocatable :: from_src(:), from_dst(:)
    integer(int64) :: n_sources, n_destinations
    integer :: loops, status

    if (size(src, kind=int64) /= size(dst, kind=int64)) then
      call fail(error, code_value, "graph: src has "//text(size(src, kind=int64))// &
        & " entries but dst has "//text(size(dst, kind=int64)))
      return
    end if
    n_destinations = 0
    if (size(src, kind=int64) > 0) n_destinations = max(maxval(src), maxval(dst))
    if (present(n_src)) n_destinations = n_src
    if (present(n_dst)) n_destinations = n_dst
    n_sources = n_destinations
    if (present(n_src)) n_sources = n_src
    loops = -1
    if (present(self_loops)) loops = merge(1, 0, self_loops)

    allocate (from_src(size(src, kind=int64)), from_dst(size(src, kind=int64)), stat=status)
    call check_allocation(status, "graph", error)
    if (.not. allocated(error)) call check_arithmetic(error)
    if (.not. allocated(error)) call check_nodes(n_sources, n_destinations, error)
    if (allocated(error)) return
    from_src(:) = src - 1
    from_dst(:) = dst - 1
    call check_ends("src", from_src, n_sources, "source", error, 1_int64)
    if (.not. allocated(error)) &
      & call check_ends("dst", from_dst, n_destinations, "destination", error, 1_int64)
    if (.not. allocated(error)) &
      & call order_edges(self, from_src, from_dst, n_sources, n_destinations, loops, error)
  end procedure from_edges_int64

  module procedure from_edges_default
    integer(int64), allocatable :: wide_src(:), wide_dst(:), sources, destinations
    integer :: status

    allocate (wide_src(size(src)), wide_dst(size(dst)), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    wide_src(:) = src
    wide_dst(:) = dst
    ! one that is not allocated is absent
    if (present(n_src)) sources = n_src
    if (present(n_dst)) destinations = n_dst
    call self%from_edges(wide_src, wide_dst, error, sources, destinations, self_loops)
  end procedure from_edges_default

  ! ---- meshes ----

  module procedure from_cells_int64
    integer, allocatable :: sides(:, :)
    integer(int64), allocatable :: offsets(:), next(:)
    integer(int32), allocatable :: indices(:)
    integer(int64) :: n_cells, cell, i, p, last, n_edges
    integer :: side, status
    logical :: loops

    n_cells = size(cells, 2, int64)
    call sides_of(size(cells, 1), sides, error, kind)
    if (.not. allocated(error)) call check_nodes(n_points, n_points, error)
    do cell = 1, n_cells
      if (allocated(error)) return
      do i = 1, size(cells, 1)
        if (cells(i, cell) < 1 .or. cells(i, cell) > n_points) call fail(error, code_index, &
          & "graph%from_cells: cells("//text(i)//", "//text(cell)//") is "// &
          & text(cells(i, cell))//", not one of "//text(n_points)//" points")
        if (allocated(error)) return
      end do
    end do
    if (allocated(error)) return
    loops = .false.
    if (present(self_loops)) loops = self_loops

    allocate (offsets(0:n_points), next(0:n_points), stat=status)
    call check_allocation(status, "graph%from_cells", error)
    if (allocated(error)) return
    offsets(:) = 0
    do cell = 1, n_cells
      do side = 1, size(sides, 2)
        associate (a => cells(sides(1, side), cell), b => cells(sides(2, side), cell))
          if (a == b) cycle
          offsets(a) = offsets(a) + 1
          offsets(b) = offsets(b) + 1
        end associate
      end do
    end do
    do i = 1, n_points
      if (loops) offsets(i) = offsets(i) + 1
      offsets(i) = offsets(i) + offsets(i - 1)
    end do
    next(:) = offsets
    allocate (indices(0:offsets(n_points) - 1), stat=status)
    call check_allocation(status, "graph%from_cells", error)
    if (allocated(error)) return
    do cell = 1, n_cells
      do side = 1, size(sides, 2)
        associate (a => cells(sides(1, side), cell), b => cells(sides(2, side), cell))
          if (a /= b) then
            call put(a, b)
            call put(b, a)
          end if
        end associate
      end do
    end do
    n_edges = 0
    do i = 1, n_points
      if (loops) call put(i, i)
      associate (row => indices(offsets(i - 1):offsets(i) - 1))
        call sort(row)
      end associate
      next(i - 1) = n_edges
      last = -1
      do p = offsets(i - 1), offsets(i) - 1
        if (indices(p) == last) cycle
        last = indices(p)
        indices(n_edges) = indices(p)
        n_edges = n_edges + 1
      end do
    end do
    next(n_points) = n_edges
    call become(self, next, indices(:n_edges - 1), n_points, error)

  contains

    !> Point b, counted from 1, is next to point a.
    subroutine put(a, b)
      integer(int64), intent(in) :: a, b

      indices(next(a - 1)) = int(b - 1, int32)
      next(a - 1) = next(a - 1) + 1
    end subroutine put

  end procedure from_cells_int64

  module procedure from_cells_default
    integer(int64), allocatable :: wide(:, :)
    integer :: status

    allocate (wide(size(cells, 1), size(cells, 2)), stat=status)
    call check_allocation(status, "graph%from_cells", error)
    if (allocated(error)) return
    wide(:, :) = cells
    call self%from_cells(wide, int(n_points, int64), error, kind, self_loops)
  end procedure from_cells_default

  !> The corners that edges of a cell join.
  subroutine sides_of(n_corners, sides, error, kind)
    integer, intent(in) :: n_corners
    integer, allocatable, intent(out) :: sides(:, :)
    type(error_type), allocatable, intent(out) :: error
    character(len=*), intent(in), optional :: kind
    integer, parameter :: base(2, 4) = reshape([1, 2, 2, 3, 3, 4, 4, 1], [2, 4])
    integer :: needed, a, b

    if (.not. present(kind)) then
      sides = reshape([((a, b, a=1, b - 1), b=2, n_corners)], [2, n_corners*(n_corners - 1)/2])
      return
    end if
    select case (kind)
    case ("line")
      needed = 2
      sides = base(:, :1)
    case ("triangle")
      needed = 3
      sides = reshape([1, 2, 2, 3, 3, 1], [2, 3])
    case ("quadrilateral")
      needed = 4
      sides = base
    case ("tetrahedron")
      needed = 4
      sides = reshape([1, 2, 2, 3, 3, 1, 1, 4, 2, 4, 3, 4], [2, 6])
    case ("pyramid")
      needed = 5
      sides = reshape([reshape(base, [8]), 1, 5, 2, 5, 3, 5, 4, 5], [2, 8])
    case ("prism")
      needed = 6
      sides = reshape([1, 2, 2, 3, 3, 1, 4, 5, 5, 6, 6, 4, 1, 4, 2, 5, 3, 6], [2, 9])
    case ("hexahedron")
      needed = 8
      sides = reshape([reshape(base, [8]), reshape(base + 4, [8]), 1, 5, 2, 6, 3, 7, 4, 8], [2, 12])
    case default
      call fail(error, code_value, "graph%from_cells: kind is '"//kind//"', needs one of line, "// &
        & "triangle, quadrilateral, tetrahedron, pyramid, prism, hexahedron")
      return
    end select
    if (n_corners /= needed) call fail(error, code_value, "graph%from_cells: cells has "// &
      & text(int(n_corners, int64))//" corners, a "//kind//" has "//text(int(needed, int64)))
  end subroutine sides_of

  ! ---- points ----

  module procedure radius_r64
    character(len=*), parameter :: where = "graph%radius"
    type(search_type) :: wanted

    wanted%radius = radius
    if (.not. is_length(radius)) call fail(error, code_value, where//": radius must not be negative")
    if (present(max_neighbors)) wanted%most = max_neighbors
    if (wanted%most < 0) call fail(error, code_value, where//": max_neighbors is "// &
      & text(wanted%most)//", must not be negative")
    if (present(choose)) then
      wanted%by_hash = choose == "random"
      if (choose /= "random" .and. choose /= "nearest") call fail(error, code_value, where// &
        & ": choose is '"//choose//"', needs nearest or random")
    end if
    if (present(seed)) wanted%seed = seed
    if (allocated(error)) return
    call find(self, where, sources, wanted, error, destinations, include_self, period)
  end procedure radius_r64

  module procedure knn_r64
    type(search_type) :: wanted

    wanted%nearest_first = .true.
    wanted%most = k
    if (k < 0) then
      call fail(error, code_value, "graph%knn: k is "//text(int(k, int64))// &
        & ", must not be negative")
      return
    end if
    call find(self, "graph%knn", sources, wanted, error, destinations, include_self, period)
  end procedure knn_r64

  module procedure radius_r32
    real(dp), allocatable :: x(:, :), y(:, :)

    call widen("graph%radius", sources, x, error)
    if (.not. allocated(error)) call widen("graph%radius", destinations, y, error)
    if (allocated(error)) return
    call self%radius(x, radius, error, y, include_self, period, max_neighbors, choose, seed)
  end procedure radius_r32

  module procedure knn_r32
    real(dp), allocatable :: x(:, :), y(:, :)

    call widen("graph%knn", sources, x, error)
    if (.not. allocated(error)) call widen("graph%knn", destinations, y, error)
    if (allocated(error)) return
    call self%knn(x, k, error, y, include_self, period)
  end procedure knn_r32

  !> Convert points to real64; absent points stay unallocated.
  subroutine widen(where, points, wide, error)
    character(len=*), intent(in) :: where
    real(sp), intent(in), contiguous, optional :: points(:, :)
    real(dp), allocatable, intent(out) :: wide(:, :)
    type(error_type), allocatable, intent(out) :: error
    integer :: status

    if (.not. present(points)) return
    allocate (wide(size(points, 1), size(points, 2)), stat=status)
    call check_allocation(status, where, error)
    if (.not. allocated(error)) wide(:, :) = points
  end subroutine widen

  !> Check what the two have in common, and search.
  subroutine find(self, where, sources, wanted, error, destinations, include_self, period)
    class(graph_type), intent(inout) :: self
    character(len=*), intent(in) :: where
    real(dp), intent(in), contiguous :: sources(:, :)
    type(search_type), intent(inout) :: wanted
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, optional :: destinations(:, :)
    logical, intent(in), optional :: include_self
    real(dp), intent(in), optional :: period(:)
    real(dp) :: box(size(sources, 1))
    type(neighbors_type), allocatable :: found(:)
    integer(int64) :: n_src, n_dst

    n_src = size(sources, 2, int64)
    n_dst = n_src
    if (present(include_self)) wanted%include_self = include_self
    if (size(sources, 1) == 0) call fail(error, code_value, where// &
      & ": sources has no coordinates, needs (d, points)")
    if (present(destinations)) then
      n_dst = size(destinations, 2, int64)
      if (size(destinations, 1) /= size(sources, 1)) then
        call fail(error, code_value, where//": sources has "// &
          & text(size(sources, 1, int64))//" coordinates but destinations has "// &
          & text(size(destinations, 1, int64)))
      else if (.not. wanted%include_self) then
        call fail(error, code_value, where//": without include_self there are no destinations")
      end if
    end if
    box = 0
    if (present(period)) then
      call check_shape(where, "period", shape(period, int64), [size(sources, 1, int64)], error)
      if (.not. allocated(error)) then
        if (.not. all(is_length(period) .and. ieee_is_finite(period))) call fail(error, &
          & code_value, where//": period must not be negative, and finite")
        box = period
      end if
    end if
    if (.not. allocated(error)) call check_nodes(n_src, n_dst, error)
    if (.not. allocated(error)) call check_arithmetic(error)
    if (allocated(error)) return
    if (present(destinations)) then
      call find_near(where, sources, destinations, box, [wanted], found, error)
    else
      call find_near(where, sources, sources, box, [wanted], found, error)
    end if
    if (.not. allocated(error)) call become(self, found(1)%offsets, found(1)%indices, n_src, error)
  end subroutine find

  !> Become the graph of arrays that are known to be right.
  subroutine become(self, offsets, indices, n_src, error)
    class(graph_type), intent(inout) :: self
    !> First edge of every destination, and the end [0:n_dst]
    integer(int64), allocatable, intent(inout) :: offsets(:)
    !> [0:n_edges-1]
    integer(int32), intent(in), contiguous :: indices(0:)
    integer(int64), intent(in) :: n_src
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    integer :: status

    graph%n_src = n_src
    graph%n_dst = size(offsets, kind=int64) - 1
    graph%n_edges = size(indices, kind=int64)
    call move_alloc(offsets, graph%by_dst%offsets)
    allocate (graph%by_dst%indices(0:graph%n_edges - 1), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    graph%by_dst%indices(:) = indices
    call finish(self, graph, error)
  end subroutine become

  ! ---- other graphs ----

  module procedure graph_batch
    type(graph_type) :: graph
    type(graph_view) :: part
    integer(int64) :: src, dst, row, p
    integer :: k, status
    logical :: in_order

    if (size(graphs) == 0) then
      call fail(error, code_value, "graph%batch: graphs is empty, needs one or more")
      return
    end if
    in_order = .true.
    do k = 1, size(graphs)
      part = graphs(k)%view()
      if (graphs(k)%serial == 0) then
        call refuse_unbuilt("batch", k, error)
        return
      else if (part%has_room()) then
        call fail(error, code_value, "graph%batch: graphs("//text(int(k, int64))// &
          & ") has rows of edge tables without edges; make the batch first, then self-loops")
        return
      end if
      graph%n_src = graph%n_src + part%n_src
      graph%n_dst = graph%n_dst + part%n_dst
      graph%n_edges = graph%n_edges + part%n_edges
      in_order = in_order .and. .not. associated(part%by_dst%edge)
    end do
    call check_nodes(graph%n_src, graph%n_dst, error)
    if (allocated(error)) return
    allocate (graph%by_dst%offsets(0:graph%n_dst), graph%by_dst%indices(0:graph%n_edges - 1), &
      & stat=status)
    if (status == 0 .and. .not. in_order) &
      & allocate (graph%by_dst%edge(0:graph%n_edges - 1), stat=status)
    call check_allocation(status, "graph%batch", error)
    if (allocated(error)) return
    src = 0
    dst = 0
    row = 0
    do k = 1, size(graphs)
      part = graphs(k)%view()
      graph%by_dst%offsets(dst:dst + part%n_dst) = part%by_dst%offsets + row
      do p = 0, part%n_edges - 1
        graph%by_dst%indices(row + p) = part%by_dst%indices(p) + int(src, int32)
        if (in_order) cycle
        graph%by_dst%edge(row + p) = row + p
        if (associated(part%by_dst%edge)) graph%by_dst%edge(row + p) = row + part%by_dst%edge(p)
      end do
      src = src + part%n_src
      dst = dst + part%n_dst
      row = row + part%n_edges
    end do
    call finish(self, graph, error)
  end procedure graph_batch

  module procedure graph_union
    integer(int64), allocatable :: src(:), dst(:), part_src(:), part_dst(:)
    integer(int64), allocatable :: first(:), next(:), key(:), row(:)
    integer(int64) :: n_rows, n_distinct, i, p
    integer :: k, status
    logical, allocatable :: is_first(:)

    if (size(graphs) == 0) then
      call fail(error, code_value, "graph%union: graphs is empty, needs one or more")
      return
    end if
    n_rows = 0
    do k = 1, size(graphs)
      if (graphs(k)%serial == 0) then
        call refuse_unbuilt("union", k, error)
        return
      end if
      n_rows = n_rows + graphs(k)%n_edges
      if (graphs(k)%n_src == graphs(1)%n_src .and. graphs(k)%n_dst == graphs(1)%n_dst) cycle
      call fail(error, code_value, "graph%union: graphs("//text(int(k, int64))//") has "// &
        & text(graphs(k)%n_src)//" sources and "//text(graphs(k)%n_dst)//" destinations, needs "// &
        & text(graphs(1)%n_src)//" and "//text(graphs(1)%n_dst))
      return
    end do
    allocate (src(0:n_rows - 1), dst(0:n_rows - 1), is_first(0:n_rows - 1), key(0:n_rows - 1), &
      & row(0:n_rows - 1), first(0:graphs(1)%n_dst), next(0:graphs(1)%n_dst), stat=status)
    call check_allocation(status, "graph%union", error)
    if (allocated(error)) return
    p = 0
    do k = 1, size(graphs)
      call ends_of(graphs(k), part_src, part_dst, error)
      if (allocated(error)) return
      src(p:p + graphs(k)%n_edges - 1) = part_src
      dst(p:p + graphs(k)%n_edges - 1) = part_dst
      p = p + graphs(k)%n_edges
    end do

    ! rows by destination, then by source and the order in which they came
    first(:) = 0
    do p = 0, n_rows - 1
      if (src(p) >= 0) first(dst(p) + 1) = first(dst(p) + 1) + 1
    end do
    do i = 1, graphs(1)%n_dst
      first(i) = first(i) + first(i - 1)
    end do
    next(:) = first
    do p = 0, n_rows - 1
      if (src(p) < 0) cycle
      i = dst(p)
      row(next(i)) = p
      key(next(i)) = ishft(src(p), 32) + (next(i) - first(i))
      next(i) = next(i) + 1
    end do
    is_first(:) = .false.
    do i = 0, graphs(1)%n_dst - 1
      associate (keys => key(first(i):first(i + 1) - 1))
        call sort(keys)
      end associate
      do p = first(i), first(i + 1) - 1
        if (p > first(i)) then
          if (ishft(key(p), -32) == ishft(key(p - 1), -32)) cycle
        end if
        is_first(row(first(i) + ibits(key(p), 0, 32))) = .true.
      end do
    end do
    n_distinct = 0
    do p = 0, n_rows - 1
      if (.not. is_first(p)) cycle
      src(n_distinct) = src(p)
      dst(n_distinct) = dst(p)
      n_distinct = n_distinct + 1
    end do
    call order_edges(self, src(:n_distinct - 1), dst(:n_distinct - 1), graphs(1)%n_src, &
      & graphs(1)%n_dst, -1, error)
  end procedure graph_union

  module procedure graph_reverse
    integer(int64), allocatable :: src(:), dst(:)

    if (self%serial == 0) then
      call fail(error, code_value, "graph%reverse: the graph was never built")
      return
    end if
    call ends_of(self, src, dst, error)
    if (.not. allocated(error)) &
      & call order_edges(reversed, dst, src, self%n_dst, self%n_src, -1, error)
  end procedure graph_reverse

  !> Refuse one of several graphs, for which init, radius or the like was not called.
  subroutine refuse_unbuilt(where, k, error)
    character(len=*), intent(in) :: where
    integer, intent(in) :: k
    type(error_type), allocatable, intent(inout) :: error

    call fail(error, code_value, "graph%"//where//": graphs("//text(int(k, int64))// &
      & ") was never built")
  end subroutine refuse_unbuilt

  ! ---- ends ----

  module procedure graph_src
    integer(int64), allocatable :: src(:), dst(:)
    type(error_type), allocatable :: error

    call ends_of(self, src, dst, error)
    nodes = int(max(src, 0_int64)) + 1
  end procedure graph_src

  module procedure graph_dst
    integer(int64), allocatable :: src(:), dst(:)
    type(error_type), allocatable :: error

    call ends_of(self, src, dst, error)
    nodes = int(max(dst, 0_int64)) + 1
  end procedure graph_dst

  !> Ends of every row of the edge table, from 0; -1 where it belongs to no edge.
  subroutine ends_of(graph, src, dst, error)
    class(graph_type), intent(in), target :: graph
    integer(int64), allocatable, intent(out) :: src(:), dst(:)
    type(error_type), allocatable, intent(out) :: error
    type(graph_view) :: seen
    integer(int64) :: i, p, row
    integer :: status

    seen = graph%view()
    allocate (src(0:seen%n_edges - 1), dst(0:seen%n_edges - 1), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    src(:) = -1
    dst(:) = -1
    do i = 0, seen%n_dst - 1
      do p = seen%by_dst%offsets(i), seen%by_dst%offsets(i + 1) - 1
        row = p
        if (associated(seen%by_dst%edge)) row = seen%by_dst%edge(p)
        src(row) = seen%by_dst%indices(p)
        dst(row) = i
      end do
    end do
  end subroutine ends_of

end submodule gnograd_core_graph_building

! SPDX-License-Identifier: MIT

!> The points within a radius, and the nearest ones: a tree of boxes with right angles.
!>
!> Points are near by the squares of their distances in real64, summed in the order of the axes,
!> without fused operations (hence the parentheses): the same pairs as in Python and on GPUs, on
!> every machine. The tree only leaves out what is too far away by more than rounding can move it.
!>
!> One file for the tree and its search: their inner loops share types that nobody else needs.
module gnograd_core_near_points
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite, ieee_is_nan, ieee_value, ieee_positive_inf
  use gnograd_core_error, only: error_type, fail, text, check_allocation, code_value
  use gnograd_core_kinds, only: dp, int32, int64
  use gnograd_core_random, only: split_mix
  use gnograd_core_sorting, only: sort
  use gnograd_core_threads, only: n_threads
  implicit none
  private
  public :: find_near, is_length, search_type, neighbors_type

  !> Points in a box that is not divided
  integer(int64), parameter :: leaf_size = 12
  !> Destinations whose neighbours are kept together
  integer(int64), parameter :: chunk_size = 512
  !> Points of a box that is worth a task
  integer(int64), parameter :: task_size = 16384
  !> Bounds of distances are right to this, relatively
  real(dp), parameter :: certain = 1 - 1e-9_dp
  !> Boxes inside each other: half as many points every time
  integer, parameter :: max_depth = 40

  !> Neighbours that are wanted.
  type :: search_type
    !> Largest distance, inclusive
    real(dp) :: radius = huge(1.0_dp)
    !> Neighbours of a destination at most
    integer(int64) :: most = huge(1_int64)
    !> Take those with the smallest hashes where there are more, not the nearest
    logical :: by_hash = .false.
    integer(int64) :: seed = 0
    !> Nearest first; else in ascending order
    logical :: nearest_first = .false.
    !> False if points are no neighbours of themselves; `own` is then the source that is destination
    !> 0, counted from 0
    logical :: include_self = .true.
    integer(int64) :: own = 0
  end type search_type

  !> Result of a search.
  type :: neighbors_type
    !> First neighbour of every destination, from 0 [0:n_dst]
    integer(int64), allocatable :: offsets(:)
    !> Sources, from 0 [0:n_edges-1]
    integer(int32), allocatable :: indices(:)
  end type neighbors_type

  !> Sources in the order of the tree. Box k has boxes 2k and 2k+1 inside; box 1 has all.
  type :: tree_type
    integer(int64) :: n = 0
    integer :: depth = 0
    !> Number of every point among all sources, from 0 [n]
    integer(int32), allocatable :: number(:)
    !> Positions [n, d]
    real(dp), allocatable :: points(:, :)
    !> Least and largest coordinates in every box [d, boxes]
    real(dp), allocatable :: low(:, :), high(:, :)
  end type tree_type

  !> Neighbours of some destinations, one behind the other.
  type :: list_type
    integer(int32), allocatable :: items(:)
    integer(int64) :: length = 0
  end type list_type

  !> Destinations of one item, counted from 0.
  type :: chunk_type
    integer(int64) :: item = 0, first = 0, last = -1
  end type chunk_type

  !> The best candidates so far, the worst of them first: a heap.
  type :: heap_type
    integer(int64) :: length = 0
    !> Keys by which candidates are compared, and the candidates' numbers
    integer(int64), allocatable :: key(:)
    integer(int32), allocatable :: number(:)
  end type heap_type

contains

  !> Neighbours of every destination, by one search or more of the same points.
  subroutine find_near(where, sources, destinations, period, wanted, found, error, src_items, &
      & dst_items, base)
    !> Name of the function, for messages
    character(len=*), intent(in) :: where
    !> [d, n_src], [d, n_dst]
    real(dp), intent(in), contiguous :: sources(:, :), destinations(:, :)
    !> Lengths of a periodic box, 0 along open axes [d]
    real(dp), intent(in) :: period(:)
    !> [n_searches]
    type(search_type), intent(in) :: wanted(:)
    !> [n_searches]
    type(neighbors_type), allocatable, intent(out) :: found(:)
    type(error_type), allocatable, intent(out) :: error
    !> First point of every item of a batch, from 0, and the number of points: only points of the
    !> same item are neighbours. One item if absent [n_items+1]
    integer(int64), intent(in), optional :: src_items(:), dst_items(:)
    !> First number of a point in messages, which are C's then: [0]; if absent, Fortran's: (:, 1)
    integer(int64), intent(in), optional :: base
    type(tree_type), allocatable :: trees(:)
    type(chunk_type), allocatable :: chunks(:)
    real(dp), allocatable :: inside(:, :)
    integer(int64) :: n_src, n_dst
    integer :: k, status

    n_src = size(sources, 2, int64)
    n_dst = size(destinations, 2, int64)
    call check_points(where, "sources", sources, error, base)
    if (.not. allocated(error)) call check_points(where, "destinations", destinations, error, base)
    if (allocated(error)) return
    if (present(src_items) .and. present(dst_items)) then
      call plant(sources, period, src_items, trees, status)
      if (status == 0) call cut(dst_items, chunks, status)
    else
      call plant(sources, period, [0_int64, n_src], trees, status)
      if (status == 0) call cut([0_int64, n_dst], chunks, status)
    end if
    if (status == 0) allocate (inside(size(destinations, 1), n_dst), found(size(wanted)), &
      & stat=status)
    call check_allocation(status, where, error)
    if (allocated(error)) return
    call wrap(destinations, period, inside)
    do k = 1, size(wanted)
      call find(where, trees, chunks, inside, period, wanted(k), found(k), error)
      if (allocated(error)) return
    end do
  end subroutine find_near

  !> True for a number that is not negative. NaN is none, and comparing it would stop programs that
  !> trap invalid operations.
  elemental function is_length(number)
    real(dp), intent(in) :: number
    logical :: is_length

    is_length = .false.
    if (.not. ieee_is_nan(number)) is_length = number >= 0
  end function is_length

  !> Raise an error unless all coordinates are finite.
  subroutine check_points(where, name, points, error, base)
    character(len=*), intent(in) :: where, name
    real(dp), intent(in), contiguous :: points(:, :)
    type(error_type), allocatable, intent(out) :: error
    integer(int64), intent(in), optional :: base
    character(len=:), allocatable :: point
    integer(int64) :: k

    do k = 1, size(points, 2, int64)
      if (all(ieee_is_finite(points(:, k)))) cycle
      point = "(:, "//text(k)//")"
      if (present(base)) point = "["//text(k - 1 + base)//"]"
      call fail(error, code_value, where//": "//name//point//" has entries that are not finite")
      return
    end do
  end subroutine check_points

  !> One search.
  subroutine find(where, trees, chunks, points, period, wanted, found, error)
    character(len=*), intent(in) :: where
    !> Tree of every item
    type(tree_type), intent(in) :: trees(:)
    !> All destinations
    type(chunk_type), intent(in) :: chunks(:)
    !> Destinations, inside the box [d, n_dst]
    real(dp), intent(in), contiguous :: points(:, :)
    real(dp), intent(in) :: period(:)
    type(search_type), intent(in) :: wanted
    type(neighbors_type), intent(inout) :: found
    type(error_type), allocatable, intent(out) :: error
    type(list_type), allocatable :: lists(:)
    integer(int64) :: n_dst, chunk, i, first
    integer :: status, failures

    n_dst = size(points, 2, int64)
    allocate (lists(size(chunks)), found%offsets(0:n_dst), stat=status)
    call check_allocation(status, where, error)
    if (allocated(error)) return
    found%offsets(0) = 0
    failures = 0
    !$omp parallel do default(none) num_threads(n_threads()) schedule(dynamic) &
    !$omp & shared(trees, chunks, points, period, wanted, lists, found) private(status) &
    !$omp & reduction(+: failures)
    do chunk = 1, size(chunks, kind=int64)
      associate (part => chunks(chunk))
        call search_chunk(trees(part%item), points, period, wanted, part%first, part%last, &
          & found%offsets(part%first + 1:part%last + 1), lists(chunk), status)
      end associate
      if (status /= 0) failures = failures + 1
    end do
    call check_allocation(failures, where, error)
    if (allocated(error)) return

    do i = 1, n_dst
      found%offsets(i) = found%offsets(i) + found%offsets(i - 1)
    end do
    allocate (found%indices(0:found%offsets(n_dst) - 1), stat=status)
    call check_allocation(status, where, error)
    if (allocated(error)) return
    !$omp parallel do default(none) num_threads(n_threads()) shared(chunks, lists, found) &
    !$omp & private(first)
    do chunk = 1, size(chunks, kind=int64)
      first = found%offsets(chunks(chunk)%first)
      associate (list => lists(chunk))
        if (list%length > 0) found%indices(first:first + list%length - 1) = list%items(:list%length)
      end associate
    end do
  end subroutine find

  !> Destinations in pieces, none of which has points of two items.
  subroutine cut(items, chunks, status)
    !> First point of every item, and the number of points
    integer(int64), intent(in) :: items(:)
    type(chunk_type), allocatable, intent(out) :: chunks(:)
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status
    integer(int64) :: item, k, n, first

    n = 0
    do item = 1, size(items, kind=int64) - 1
      n = n + (items(item + 1) - items(item) + chunk_size - 1)/chunk_size
    end do
    allocate (chunks(n), stat=status)
    if (status /= 0) return
    k = 0
    do item = 1, size(items, kind=int64) - 1
      do first = items(item), items(item + 1) - 1, chunk_size
        k = k + 1
        chunks(k)%item = item
        chunks(k)%first = first
        chunks(k)%last = min(first + chunk_size, items(item + 1)) - 1
      end do
    end do
  end subroutine cut

  !> The image of every point with coordinates 0 <= x < period along periodic axes.
  subroutine wrap(points, period, inside)
    real(dp), intent(in), contiguous :: points(:, :)
    real(dp), intent(in) :: period(:)
    real(dp), intent(out), contiguous :: inside(:, :)
    integer(int64) :: k

    do k = 1, size(points, 2, int64)
      inside(:, k) = image(points(:, k), period)
    end do
  end subroutine wrap

  !> The same, each coordinate of all points together [n, d].
  subroutine wrap_by_axes(points, period, inside)
    real(dp), intent(in), contiguous :: points(:, :)
    real(dp), intent(in) :: period(:)
    real(dp), intent(out), contiguous :: inside(:, :)
    integer :: a

    do a = 1, size(period)
      inside(:, a) = image(points(a, :), period(a))
    end do
  end subroutine wrap_by_axes

  !> The coordinate of an image in 0 <= x < period, or the coordinate along an open axis.
  elemental function image(coordinate, period) result(x)
    real(dp), intent(in) :: coordinate, period
    real(dp) :: x

    x = coordinate
    if (.not. period > 0) return
    x = mod(x, period)
    if (x < 0) x = x + period
    ! a tiny negative number becomes the period itself
    if (x >= period) x = 0
  end function image

  ! ---- the tree ----

  !> Sort the sources of every item into boxes.
  subroutine plant(sources, period, items, trees, status)
    real(dp), intent(in), contiguous :: sources(:, :)
    real(dp), intent(in) :: period(:)
    !> First source of every item, and their number
    integer(int64), intent(in) :: items(:)
    type(tree_type), allocatable, intent(out) :: trees(:)
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status
    integer(int64) :: item, k, n, n_boxes

    allocate (trees(size(items) - 1), stat=status)
    if (status /= 0) return
    do item = 1, size(trees, kind=int64)
      n = items(item + 1) - items(item)
      if (n == 0) cycle
      associate (tree => trees(item))
        tree%n = n
        do while (ishft(leaf_size, tree%depth) < n .and. tree%depth < max_depth)
          tree%depth = tree%depth + 1
        end do
        n_boxes = ishft(1_int64, tree%depth + 1) - 1
        allocate (tree%number(n), tree%points(n, size(period)), tree%low(size(period), n_boxes), &
          & tree%high(size(period), n_boxes), stat=status)
        if (status /= 0) return
        do k = 1, n
          tree%number(k) = int(items(item) + k - 1, int32)
        end do
      end associate
    end do
    !$omp parallel default(none) num_threads(n_threads()) shared(sources, period, items, trees)
    !$omp single
    do item = 1, size(trees, kind=int64)
      if (trees(item)%n == 0) cycle
      !$omp task default(none) shared(sources, period, items, trees) firstprivate(item)
      call wrap_by_axes(sources(:, items(item) + 1:items(item + 1)), period, trees(item)%points)
      call grow(trees(item), 1_int64, 1_int64, trees(item)%n, 0)
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
  end subroutine plant

  !> Measure a box, and put the half of its points that is lower along its longest side first.
  recursive subroutine grow(tree, box, first, last, level)
    type(tree_type), intent(inout) :: tree
    integer(int64), intent(in) :: box, first, last
    integer, intent(in) :: level
    integer(int64) :: middle
    integer :: a

    do a = 1, size(tree%points, 2)
      tree%low(a, box) = minval(tree%points(first:last, a))
      tree%high(a, box) = maxval(tree%points(first:last, a))
    end do
    if (level == tree%depth) return
    middle = (first + last)/2
    a = maxloc(tree%high(:, box) - tree%low(:, box), dim=1)
    call divide(tree, a, first, middle, last)
    !$omp task default(none) shared(tree) firstprivate(box, first, middle, level) &
    !$omp & if (middle - first > task_size)
    call grow(tree, 2*box, first, middle, level + 1)
    !$omp end task
    call grow(tree, 2*box + 1, middle + 1, last, level + 1)
    !$omp taskwait
  end subroutine grow

  !> Points first..middle become those with the lowest coordinates a (Hoare's selection).
  subroutine divide(tree, a, first, middle, last)
    type(tree_type), intent(inout) :: tree
    integer, intent(in) :: a
    integer(int64), intent(in) :: first, middle, last
    integer(int64) :: low, high, i, j
    real(dp) :: pivot

    low = first
    high = last
    do while (low < high)
      pivot = median(tree%points(low, a), tree%points((low + high)/2, a), tree%points(high, a))
      i = low
      j = high
      do while (i <= j)
        do while (tree%points(i, a) < pivot)
          i = i + 1
        end do
        do while (tree%points(j, a) > pivot)
          j = j - 1
        end do
        if (i > j) exit
        call swap(i, j)
        i = i + 1
        j = j - 1
      end do
      if (middle <= j) then
        high = j
      else if (middle >= i) then
        low = i
      else
        return
      end if
    end do

  contains

    subroutine swap(i, j)
      integer(int64), intent(in) :: i, j
      integer(int32) :: number
      real(dp) :: x
      integer :: k

      number = tree%number(i)
      tree%number(i) = tree%number(j)
      tree%number(j) = number
      do k = 1, size(tree%points, 2)
        x = tree%points(i, k)
        tree%points(i, k) = tree%points(j, k)
        tree%points(j, k) = x
      end do
    end subroutine swap

  end subroutine divide

  pure function median(x, y, z)
    real(dp), intent(in) :: x, y, z
    real(dp) :: median

    median = max(min(x, y), min(max(x, y), z))
  end function median

  ! ---- the search ----

  !> Neighbours of the destinations first..last, counted from 0.
  subroutine search_chunk(tree, points, period, wanted, first, last, counts, list, status)
    type(tree_type), intent(in) :: tree
    !> Destinations [d, n_dst]
    real(dp), intent(in), contiguous :: points(:, :)
    real(dp), intent(in) :: period(:)
    type(search_type), intent(in) :: wanted
    integer(int64), intent(in) :: first, last
    !> Neighbours of each
    integer(int64), intent(out) :: counts(:)
    type(list_type), intent(inout) :: list
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status
    type(heap_type) :: heap
    integer(int64) :: i, start, most, own

    status = 0
    counts = 0
    if (tree%n == 0) return
    most = min(wanted%most, tree%n)
    if (most < tree%n .or. wanted%nearest_first) &
      & allocate (heap%key(most), heap%number(most), stat=status)
    if (status == 0) allocate (list%items(64*(last - first + 1)), stat=status)
    do i = first, last
      start = list%length
      heap%length = 0
      own = merge(-1_int64, wanted%own + i, wanted%include_self)
      if (status == 0) call search(tree, points(:, i + 1), period, wanted, own, &
        & allocated(heap%key) .and. .not. wanted%by_hash, heap, list, status)
      if (status /= 0) return
      if (wanted%by_hash .and. list%length - start > most) call choose(i, start)
      if (heap%length > 0) call take_heap()
      if (.not. wanted%nearest_first) call sort(list%items(start + 1:list%length))
      counts(i - first + 1) = list%length - start
    end do

  contains

    !> The ones with the smallest hashes: number j of the sequence of number i of that of the seed.
    subroutine choose(i, start)
      integer(int64), intent(in) :: i, start
      integer(int64) :: k, row, hash

      row = split_mix(wanted%seed, i)
      do k = start + 1, list%length
        hash = split_mix(row, int(list%items(k), int64))
        ! hashes without sign, in the order of signed keys
        call offer(heap, ieor(hash, ishft(1_int64, 63)), list%items(k))
      end do
      list%length = start
    end subroutine choose

    !> Everything from the heap, the best first.
    subroutine take_heap()
      integer(int64) :: k, n

      n = heap%length
      call reserve(list, n, status)
      if (status /= 0) return
      do k = n, 1, -1
        list%items(list%length + k) = heap%number(1)
        call drop_worst(heap)
      end do
      list%length = list%length + n
    end subroutine take_heap

  end subroutine search_chunk

  !> Visit all boxes that may have a neighbour of a point, the nearer one of two first.
  subroutine search(tree, point, period, wanted, own, to_heap, heap, list, status)
    type(tree_type), intent(in) :: tree
    real(dp), intent(in) :: point(:), period(:)
    type(search_type), intent(in) :: wanted
    !> Source that is no neighbour, from 0; -1: all may be
    integer(int64), intent(in) :: own
    !> The nearest ones; else all
    logical, intent(in) :: to_heap
    type(heap_type), intent(inout) :: heap
    type(list_type), intent(inout) :: list
    integer, intent(inout) :: status
    integer(int64) :: box, first, last, middle, k, waiting(4, max_depth + 1)
    real(dp) :: limit, bound, bounds(2), bound_of(max_depth + 1), squares(leaf_size)
    integer :: level, n_waiting
    logical :: periodic

    limit = ieee_value(limit, ieee_positive_inf)
    if (wanted%radius < sqrt(huge(limit))) limit = wanted%radius*wanted%radius
    periodic = any(period > 0)
    n_waiting = 0
    box = 1
    first = 1
    last = tree%n
    level = 0
    bound = distance_to(box)
    do
      if (.not. too_far(bound)) then
        if (level < tree%depth) then
          middle = (first + last)/2
          bounds = [distance_to(2*box), distance_to(2*box + 1)]
          n_waiting = n_waiting + 1
          level = level + 1
          if (bounds(1) <= bounds(2)) then
            waiting(:, n_waiting) = [2*box + 1, middle + 1, last, int(level, int64)]
            bound_of(n_waiting) = bounds(2)
            bound = bounds(1)
            box = 2*box
            last = middle
          else
            waiting(:, n_waiting) = [2*box, first, middle, int(level, int64)]
            bound_of(n_waiting) = bounds(1)
            bound = bounds(2)
            box = 2*box + 1
            first = middle + 1
          end if
          cycle
        end if
        if (.not. to_heap) call reserve(list, last - first + 1, status)
        if (status /= 0) return
        call measure(first, last, squares)
        do k = first, last
          if (.not. squares(k - first + 1) <= limit) cycle
          if (tree%number(k) == own) cycle
          if (to_heap) then
            ! numbers that are not negative are in the order of their bits
            call offer(heap, transfer(squares(k - first + 1), 0_int64), tree%number(k))
          else
            list%length = list%length + 1
            list%items(list%length) = tree%number(k)
          end if
        end do
      end if
      if (n_waiting == 0) return
      box = waiting(1, n_waiting)
      first = waiting(2, n_waiting)
      last = waiting(3, n_waiting)
      level = int(waiting(4, n_waiting))
      bound = bound_of(n_waiting)
      n_waiting = n_waiting - 1
    end do

  contains

    pure function too_far(bound)
      real(dp), intent(in) :: bound
      logical :: too_far

      too_far = bound*certain > limit
      if (.not. to_heap) return
      if (heap%length < size(heap%key)) return
      if (heap%length == 0) then
        too_far = .true.
      else
        too_far = too_far .or. bound*certain > transfer(heap%key(1), 0.0_dp)
      end if
    end function too_far

    !> Squares of the distances to the nearest images of a leaf's points, in the order of the axes.
    pure subroutine measure(first, last, squares)
      integer(int64), intent(in) :: first, last
      real(dp), intent(out) :: squares(leaf_size)
      real(dp) :: offset
      integer(int64) :: k
      integer :: a

      squares = 0
      do a = 1, size(point)
        if (period(a) > 0) then
          do k = first, last
            offset = point(a) - tree%points(k, a)
            if (offset < -0.5_dp*period(a)) offset = period(a) + offset
            if (offset > 0.5_dp*period(a)) offset = offset - period(a)
            squares(k - first + 1) = squares(k - first + 1) + (offset*offset)
          end do
        else
          do k = first, last
            offset = point(a) - tree%points(k, a)
            squares(k - first + 1) = squares(k - first + 1) + (offset*offset)
          end do
        end if
      end do
    end subroutine measure

    !> A square that no point of a box is nearer than, but for rounding.
    pure function distance_to(box) result(square)
      integer(int64), intent(in) :: box
      real(dp) :: square, gap
      integer :: a

      square = 0
      do a = 1, size(point)
        gap = max(tree%low(a, box) - point(a), point(a) - tree%high(a, box), 0.0_dp)
        if (periodic) then
          if (period(a) > 0 .and. gap > 0) gap = max(0.0_dp, min(gap, &
            & tree%low(a, box) + period(a) - point(a), point(a) + period(a) - tree%high(a, box)) &
            & - 8*epsilon(gap)*period(a))
        end if
        square = square + gap*gap
      end do
    end function distance_to

  end subroutine search

  !> Room for n more.
  subroutine reserve(list, n, status)
    type(list_type), intent(inout) :: list
    integer(int64), intent(in) :: n
    integer, intent(inout) :: status
    integer(int32), allocatable :: more(:)

    if (list%length + n <= size(list%items, kind=int64)) return
    allocate (more(2*(list%length + n)), stat=status)
    if (status /= 0) return
    more(:list%length) = list%items(:list%length)
    call move_alloc(more, list%items)
  end subroutine reserve

  ! ---- order ----

  !> Add a candidate that is better than the worst one, or where there is room.
  pure subroutine offer(heap, key, number)
    type(heap_type), intent(inout) :: heap
    integer(int64), intent(in) :: key
    integer(int32), intent(in) :: number
    integer(int64) :: k

    if (heap%length == size(heap%key, kind=int64)) then
      if (heap%length == 0) return
      if (before(key, number, heap%key(1), heap%number(1))) call sink(heap, key, number)
      return
    end if
    heap%length = heap%length + 1
    k = heap%length
    do while (k > 1)
      if (before(key, number, heap%key(k/2), heap%number(k/2))) exit
      heap%key(k) = heap%key(k/2)
      heap%number(k) = heap%number(k/2)
      k = k/2
    end do
    heap%key(k) = key
    heap%number(k) = number
  end subroutine offer

  !> Remove the worst candidate.
  pure subroutine drop_worst(heap)
    type(heap_type), intent(inout) :: heap
    integer(int64) :: n

    n = heap%length
    heap%length = n - 1
    if (n > 1) call sink(heap, heap%key(n), heap%number(n))
  end subroutine drop_worst

  !> Put another candidate in the place of the worst.
  pure subroutine sink(heap, key, number)
    type(heap_type), intent(inout) :: heap
    integer(int64), value :: key
    integer(int32), value :: number
    integer(int64) :: k, next

    k = 1
    do
      next = 2*k
      if (next > heap%length) exit
      if (next < heap%length) then
        if (before(heap%key(next), heap%number(next), heap%key(next + 1), heap%number(next + 1))) &
          & next = next + 1
      end if
      if (before(heap%key(next), heap%number(next), key, number)) exit
      heap%key(k) = heap%key(next)
      heap%number(k) = heap%number(next)
      k = next
    end do
    heap%key(k) = key
    heap%number(k) = number
  end subroutine sink

  pure function before(key, number, other_key, other_number)
    integer(int64), intent(in) :: key, other_key
    integer(int32), intent(in) :: number, other_number
    logical :: before

    before = key < other_key .or. (key == other_key .and. number < other_number)
  end function before

end module gnograd_core_near_points

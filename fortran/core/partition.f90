! SPDX-License-Identifier: MIT

!> Cuts the rows of a sparse matrix into pieces of about equal work.
!>
!> Work is counted in edges plus rows, so that neither one heavy row nor many empty rows unbalance
!> a piece. The cuts depend on the graph alone, never on the number of threads: sums over pieces
!> come out the same whoever computes them.
module gnograd_core_partition
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, check_allocation
  implicit none
  private
  public :: split_rows, work_type

  !> Smallest piece worth handing to a thread, in edges plus rows
  integer(int64), parameter :: grain = 4096
  !> Pieces at most, apart from what uneven rows add
  integer(int64), parameter :: max_pieces = 512

  !> Pieces of work in which even one heavy row is shared: a piece is either a run of whole rows,
  !> or a segment of a row that is cut because it alone outweighs a piece. The segments of a cut
  !> row have consecutive slots, in which a kernel keeps what it found until the row is put
  !> together, in the order of the slots.
  type :: work_type
    !> Number of pieces, slots and cut rows
    integer(int64) :: n_pieces = 0, n_slots = 0, n_cut = 0
    !> Rows of every piece; a segment has its row in both, [n_pieces]
    integer(int64), allocatable :: first_row(:), last_row(:)
    !> Slot of a segment, -1 for whole rows, [n_pieces]
    integer(int64), allocatable :: slot(:)
    !> Row, first and last edge of every slot, [n_slots]
    integer(int64), allocatable :: slot_row(:), slot_first(:), slot_last(:)
    !> First slot of every cut row, and the end, [n_cut+1]
    integer(int64), allocatable :: cut(:)
  contains
    procedure :: build => build_work
  end type work_type

contains

  !> Cut the rows of a graph.
  subroutine build_work(self, offsets, error)
    class(work_type), intent(out) :: self
    !> First edge of every row, 0-based, [n_rows+1]
    integer(int64), intent(in) :: offsets(0:)
    !> Allocated if there is no memory
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: n_rows, total, limit, row, stop_row, n_max, n_segments, k
    integer :: stat

    n_rows = size(offsets, kind=int64) - 1
    total = offsets(n_rows) + n_rows
    limit = max(grain, total/max_pieces)
    ! Two neighbouring pieces together exceed the limit, and a row's last segment may be short.
    n_max = 4*(total/limit) + 2
    allocate (self%first_row(0:n_max), self%last_row(0:n_max), self%slot(0:n_max), &
      & self%slot_row(0:n_max), self%slot_first(0:n_max), self%slot_last(0:n_max), &
      & self%cut(0:n_max), stat=stat)
    call check_allocation(stat, "work", error)
    if (allocated(error)) return

    self%n_pieces = 0
    self%n_slots = 0
    self%n_cut = 0
    row = 0
    do while (row < n_rows)
      stop_row = last_within(offsets, row, limit)
      if (stop_row > row) then
        call add_piece(self, row, stop_row - 1, -1_int64)
        row = stop_row
      else
        associate (degree => offsets(row + 1) - offsets(row))
          n_segments = (degree + limit - 1)/limit
          self%cut(self%n_cut) = self%n_slots
          self%n_cut = self%n_cut + 1
          do k = 0, n_segments - 1
            self%slot_row(self%n_slots) = row
            self%slot_first(self%n_slots) = offsets(row) + k*(degree/n_segments) &
              & + min(k, mod(degree, n_segments))
            self%slot_last(self%n_slots) = offsets(row) + (k + 1)*(degree/n_segments) &
              & + min(k + 1, mod(degree, n_segments)) - 1
            call add_piece(self, row, row, self%n_slots)
            self%n_slots = self%n_slots + 1
          end do
        end associate
        row = row + 1
      end if
    end do
    self%cut(self%n_cut) = self%n_slots
  end subroutine build_work

  pure subroutine add_piece(work, first_row, last_row, slot)
    type(work_type), intent(inout) :: work
    integer(int64), intent(in) :: first_row, last_row, slot

    work%first_row(work%n_pieces) = first_row
    work%last_row(work%n_pieces) = last_row
    work%slot(work%n_pieces) = slot
    work%n_pieces = work%n_pieces + 1
  end subroutine add_piece

  !> The largest stop such that the rows from first to stop-1 weigh at most limit.
  pure function last_within(offsets, first, limit) result(stop_row)
    integer(int64), intent(in) :: offsets(0:), first, limit
    integer(int64) :: stop_row, target, high, middle

    target = offsets(first) + first + limit
    stop_row = first
    high = size(offsets, kind=int64) - 1
    do while (stop_row < high)
      middle = stop_row + (high - stop_row + 1)/2
      if (offsets(middle) + middle <= target) then
        stop_row = middle
      else
        high = middle - 1
      end if
    end do
  end function last_within

  !> Piece k, counted from 0, holds the rows bounds(k) to bounds(k+1)-1.
  pure subroutine split_rows(offsets, bounds)
    !> First edge of every row, 0-based, [n_rows+1]
    integer(int64), intent(in) :: offsets(0:)
    !> Borders of the pieces, [n_pieces+1]
    integer(int64), intent(out) :: bounds(0:)
    integer(int64) :: n_rows, n_pieces, k, target, low, high, middle
    integer(int64) :: total

    n_rows = size(offsets, kind=int64) - 1
    n_pieces = size(bounds, kind=int64) - 1
    total = offsets(n_rows) + n_rows
    bounds(0) = 0
    do k = 1, n_pieces - 1
      ! total*k/n_pieces without overflow
      target = (total/n_pieces)*k + (mod(total, n_pieces)*k)/n_pieces
      low = bounds(k - 1)
      high = n_rows
      do while (low < high)
        middle = low + (high - low)/2
        if (offsets(middle) + middle < target) then
          low = middle + 1
        else
          high = middle
        end if
      end do
      bounds(k) = low
    end do
    bounds(n_pieces) = n_rows
  end subroutine split_rows

end module gnograd_core_partition

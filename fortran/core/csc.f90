! SPDX-License-Identifier: MIT

!> Edges of a graph in one order: grouped by the node at one end, with the node at the other end of
!> each (compressed sparse columns). A graph has two of these, and one comes from the other.
module gnograd_core_csc
  use gnograd_core_kinds, only: int32, int64
  use gnograd_core_error, only: error_type, check_allocation
  use gnograd_core_graph_view, only: csc_view
  implicit none
  private
  public :: csc_type, transpose_edges, view_csc, copy_csc, move_csc

  !> Edges grouped by the node at one end.
  type :: csc_type
    !> First position of every row, [n_rows+1]
    integer(int64), allocatable :: offsets(:)
    !> Node at the other end, [n_edges]
    integer(int32), allocatable :: indices(:)
    !> Row of the caller's edge table, [n_edges]; not allocated: the position itself
    integer(int64), allocatable :: edge(:)
    !> Position of the edge in the destination-major order, [n_edges]; not allocated: as edge
    integer(int64), allocatable :: position(:)
  end type csc_type

contains

  !> Order the edges by source: count, scan, stable fill; O(n_edges).
  pure subroutine transpose_edges(n_src, n_dst, n, rows, columns, error)
    !> Sizes of the graph
    integer(int64), intent(in) :: n_src, n_dst, n
    !> The edges by destination
    type(csc_type), intent(in) :: rows
    !> The edges by source
    type(csc_type), intent(inout) :: columns
    type(error_type), allocatable, intent(out) :: error
    integer(int64), allocatable :: next(:)
    integer(int64) :: i, j, p, q, n_real
    integer :: status
    logical :: has_ids

    n_real = rows%offsets(n_dst)
    has_ids = allocated(rows%edge)
    allocate (columns%offsets(0:n_src), columns%indices(0:n - 1), columns%edge(0:n - 1), &
      & next(0:n_src), stat=status)
    if (status == 0 .and. has_ids) allocate (columns%position(0:n - 1), stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return

    columns%offsets(:) = 0
    do p = 0, n_real - 1
      j = rows%indices(p)
      columns%offsets(j + 1) = columns%offsets(j + 1) + 1
    end do
    do j = 1, n_src
      columns%offsets(j) = columns%offsets(j) + columns%offsets(j - 1)
    end do
    next(:) = columns%offsets
    do i = 0, n_dst - 1
      do p = rows%offsets(i), rows%offsets(i + 1) - 1
        j = rows%indices(p)
        q = next(j)
        next(j) = q + 1
        columns%indices(q) = int(i, int32)
        if (has_ids) then
          columns%edge(q) = rows%edge(p)
          columns%position(q) = p
        else
          columns%edge(q) = p
        end if
      end do
    end do
    ! rows of the edge table that belong to no edge
    do p = n_real, n - 1
      columns%indices(p) = 0
      columns%edge(p) = p
      if (has_ids) then
        columns%edge(p) = rows%edge(p)
        columns%position(p) = p
      end if
    end do
  end subroutine transpose_edges

  !> View of the arrays; valid as long as they are.
  subroutine view_csc(arrays, seen)
    type(csc_type), intent(in), target :: arrays
    type(csc_view), intent(out) :: seen

    if (allocated(arrays%offsets)) seen%offsets(0:) => arrays%offsets
    if (allocated(arrays%indices)) seen%indices(0:) => arrays%indices
    if (allocated(arrays%edge)) seen%edge(0:) => arrays%edge
    if (allocated(arrays%position)) seen%position(0:) => arrays%position
  end subroutine view_csc

  !> Copy the arrays.
  subroutine copy_csc(from, to, status)
    type(csc_view), intent(in) :: from
    type(csc_type), intent(inout) :: to
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status

    ! by lengths: an array without elements has no upper bound
    status = 0
    if (associated(from%offsets)) allocate (to%offsets(0:size(from%offsets, kind=int64) - 1), &
      & source=from%offsets, stat=status)
    if (status == 0 .and. associated(from%indices)) &
      & allocate (to%indices(0:size(from%indices, kind=int64) - 1), source=from%indices, stat=status)
    if (status == 0 .and. associated(from%edge)) &
      & allocate (to%edge(0:size(from%edge, kind=int64) - 1), source=from%edge, stat=status)
    if (status == 0 .and. associated(from%position)) allocate (to%position( &
      & 0:size(from%position, kind=int64) - 1), source=from%position, stat=status)
  end subroutine copy_csc

  !> Move the arrays.
  pure subroutine move_csc(from, to)
    type(csc_type), intent(inout) :: from, to

    call move_alloc(from%offsets, to%offsets)
    call move_alloc(from%indices, to%indices)
    if (allocated(to%edge)) deallocate (to%edge)
    if (allocated(from%edge)) call move_alloc(from%edge, to%edge)
    if (allocated(to%position)) deallocate (to%position)
    if (allocated(from%position)) call move_alloc(from%position, to%position)
  end subroutine move_csc

end module gnograd_core_csc

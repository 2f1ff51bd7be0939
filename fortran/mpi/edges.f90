! SPDX-License-Identifier: MIT

!> The edges that a process has: are they edges, and which of their sources belong to others?
module gnograd_mpi_edges
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, text, check_allocation, check_shape, &
    & code_index, code_value
  use gnograd_mpi_identifiers, only: id_table_type, sort
  implicit none
  private
  public :: check_edges, number_sources

contains

  !> Check what needs no other process.
  subroutine check_edges(offsets, sources, owned, error)
    integer(int64), intent(in) :: offsets(:), sources(:), owned(:)
    type(error_type), allocatable, intent(inout) :: error
    integer(int64) :: k, n_edges

    if (allocated(error)) return
    n_edges = size(sources, kind=int64)
    call check_shape("from_local", "offsets", [size(offsets, kind=int64)], &
      & [size(owned, kind=int64) + 1], error)
    if (allocated(error)) return
    if (offsets(1) /= 1 .or. offsets(size(offsets)) /= n_edges + 1) then
      call fail(error, code_value, "from_local: offsets go from "//text(offsets(1))//" to "// &
        & text(offsets(size(offsets)))//", need 1 to "//text(n_edges + 1)//" for the sources")
      return
    end if
    do k = 2, size(offsets)
      if (offsets(k) >= offsets(k - 1)) cycle
      call fail(error, code_value, "from_local: offsets decreases at destination "//text(k - 1))
      return
    end do
  end subroutine check_edges

  !> Own sources get places in a table; sources of others become the halo.
  subroutine number_sources(sources, owned, owned_src, own, halo, at, error)
    integer(int64), intent(in) :: sources(:), owned(:)
    integer(int64), intent(in), optional :: owned_src(:)
    !> The place of every own source
    type(id_table_type), intent(inout) :: own
    !> Global numbers of the sources of others, ascending
    integer(int64), allocatable, intent(out) :: halo(:)
    !> Place of the source of every edge, 0 in the halo [n_edges]
    integer(int64), allocatable, intent(out) :: at(:)
    type(error_type), allocatable, intent(inout) :: error
    type(id_table_type) :: others
    integer(int64) :: k, n_others, place
    integer :: status
    logical :: found

    if (allocated(error)) return
    call insert_all("owned", owned, error)
    if (present(owned_src)) call insert_all("owned_src", owned_src, error)
    if (allocated(error)) return
    if (size(sources) > 0) then
      if (minval(sources) < 0) then
        call fail(error, code_index, "from_local: source "//text(minval(sources))// &
          & ", needs numbers from 0")
        return
      end if
    end if
    allocate (at(size(sources, kind=int64)), stat=status)
    call check_allocation(status, "from_local", error)
    if (allocated(error)) return
    n_others = 0
    do k = 1, size(sources, kind=int64)
      at(k) = own%place(sources(k))
      if (at(k) == 0) n_others = n_others + 1
    end do
    call others%init(n_others, status)
    call check_allocation(status, "from_local", error)
    if (allocated(error)) return
    n_others = 0
    do k = 1, size(sources, kind=int64)
      if (at(k) > 0) cycle
      place = n_others + 1
      call others%insert(sources(k), place, found)
      if (.not. found) n_others = place
    end do
    allocate (halo(n_others), stat=status)
    call check_allocation(status, "from_local", error)
    if (allocated(error)) return
    do k = 1, size(sources, kind=int64)
      if (at(k) == 0) halo(others%place(sources(k))) = sources(k)
    end do
    call sort(halo, status)
    call check_allocation(status, "from_local", error)

  contains

    !> Into the table, which is begun anew.
    subroutine insert_all(name, ids, error)
      character(len=*), intent(in) :: name
      integer(int64), intent(in) :: ids(:)
      type(error_type), allocatable, intent(inout) :: error

      if (allocated(error)) return
      if (size(ids) > 0) then
        if (minval(ids) < 0) then
          call fail(error, code_index, "from_local: "//name//" has node "//text(minval(ids))// &
            & ", needs numbers from 0")
          return
        end if
      end if
      call own%init(size(ids, kind=int64), status, ids)
      call check_allocation(status, "from_local", error)
      if (allocated(error)) return
      do k = 1, size(ids, kind=int64)
        place = k
        call own%insert(ids(k), place, found)
        if (.not. found) cycle
        call fail(error, code_value, "from_local: "//name//" has node "//text(ids(k))//" twice")
        return
      end do
    end subroutine insert_all

  end subroutine number_sources

end module gnograd_mpi_edges

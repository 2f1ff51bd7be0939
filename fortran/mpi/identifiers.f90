! SPDX-License-Identifier: MIT

!> Numbers of nodes of a whole problem: tables of those that one process deals with, and their order.
module gnograd_mpi_identifiers
  use gnograd_core_kinds, only: int64
  implicit none
  private
  public :: id_table_type, sort

  !> A number that is well spread in its upper bits when others are multiplied by it, below 2^31
  integer(int64), parameter :: spread = 1640531527_int64
  integer(int64), parameter :: low_bits = 2_int64**31 - 1

  !> Table from numbers to places: a list where numbers lie close together, as those of a process
  !> often do, else a hash table with open addressing.
  type :: id_table_type
    private
    !> Numbers in the slots of the hash table
    integer(int64), allocatable :: ids(:)
    !> 0: free
    integer(int64), allocatable :: places(:)
    !> Two to this power are the slots of the hash table
    integer :: power = 0
    !> First number of the list
    integer(int64) :: first = 0
  contains
    !> Room for n numbers
    procedure :: init
    !> Add a number, or find the place of one that is there
    procedure :: insert
    !> The place of a number, 0 if it is not there
    procedure :: place
  end type id_table_type

contains

  subroutine init(self, n, status, ids)
    class(id_table_type), intent(inout) :: self
    integer(int64), intent(in) :: n
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status
    !> The numbers, if they are known
    integer(int64), intent(in), optional :: ids(:)
    integer(int64) :: n_slots

    if (allocated(self%ids)) deallocate (self%ids)
    if (allocated(self%places)) deallocate (self%places)
    if (present(ids)) then
      self%first = 0
      n_slots = 0
      if (size(ids, kind=int64) > 0) then
        self%first = minval(ids)
        n_slots = maxval(ids) - self%first
      end if
      if (n_slots < 4*n) then
        allocate (self%places(0:n_slots), stat=status)
        if (status == 0) self%places(:) = 0
        return
      end if
    end if
    self%power = 3
    do while (shiftl(1_int64, self%power) < 2*n)
      self%power = self%power + 1
    end do
    n_slots = shiftl(1_int64, self%power)
    allocate (self%ids(0:n_slots - 1), self%places(0:n_slots - 1), stat=status)
    if (status == 0) self%places(:) = 0
  end subroutine init

  subroutine insert(self, id, place, found)
    class(id_table_type), intent(inout) :: self
    integer(int64), intent(in) :: id
    !> In: a positive number for one that is new; out: the place that it has
    integer(int64), intent(inout) :: place
    !> True if it was there
    logical, intent(out) :: found
    integer(int64) :: slot

    slot = slot_of(self, id)
    found = self%places(slot) > 0
    if (found) then
      place = self%places(slot)
    else
      if (allocated(self%ids)) self%ids(slot) = id
      self%places(slot) = place
    end if
  end subroutine insert

  pure function place(self, id)
    class(id_table_type), intent(in) :: self
    integer(int64), intent(in) :: id
    integer(int64) :: place

    place = 0
    if (.not. allocated(self%ids)) then
      ! a difference of numbers from 0 does not overflow
      if (id < self%first .or. id - self%first >= size(self%places, kind=int64)) return
    end if
    place = self%places(slot_of(self, id))
  end function place

  !> Slot of a number, or the free slot for it.
  pure function slot_of(self, id) result(slot)
    class(id_table_type), intent(in) :: self
    integer(int64), intent(in) :: id
    integer(int64) :: slot

    if (.not. allocated(self%ids)) then
      slot = id - self%first
      return
    end if
    ! products of 31 bits each: nothing overflows
    slot = iand(ieor(id, shiftr(id, 31)), low_bits)*spread
    slot = iand(ieor(slot, shiftr(slot, 31)), low_bits)*spread
    slot = ibits(slot, max(0, 62 - self%power), self%power)
    do while (self%places(slot) > 0)
      if (self%ids(slot) == id) return
      slot = iand(slot + 1, size(self%ids, kind=int64) - 1)
    end do
  end function slot_of

  !> Ascending order: of runs of 1, 2, 4, ... numbers two become one.
  subroutine sort(ids, status)
    integer(int64), allocatable, intent(inout) :: ids(:)
    !> Status of the allocations, 0 if all have memory
    integer, intent(out) :: status
    integer(int64), allocatable :: other(:)
    integer(int64) :: n, run, first

    n = size(ids, kind=int64)
    allocate (other(n), stat=status)
    if (status /= 0) return
    run = 1
    do while (run < n)
      do first = 1, n, 2*run
        call merge_runs(ids(first:min(first + run - 1, n)), &
          & ids(first + run:min(first + 2*run - 1, n)), other(first:min(first + 2*run - 1, n)))
      end do
      call swap_arrays(ids, other)
      run = 2*run
    end do
  end subroutine sort

  subroutine merge_runs(a, b, c)
    integer(int64), intent(in), contiguous :: a(:), b(:)
    integer(int64), intent(out), contiguous :: c(:)
    integer(int64) :: i, j, k

    i = 1
    j = 1
    do k = 1, size(c, kind=int64)
      if (j > size(b, kind=int64)) then
        c(k) = a(i)
        i = i + 1
      else if (i > size(a, kind=int64)) then
        c(k) = b(j)
        j = j + 1
      else if (a(i) <= b(j)) then
        c(k) = a(i)
        i = i + 1
      else
        c(k) = b(j)
        j = j + 1
      end if
    end do
  end subroutine merge_runs

  subroutine swap_arrays(a, b)
    integer(int64), allocatable, intent(inout) :: a(:), b(:)
    integer(int64), allocatable :: c(:)

    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap_arrays

end module gnograd_mpi_identifiers

! SPDX-License-Identifier: MIT

!> Counters, and locks for lists, that all threads of a process share; in C, so that they hold without
!> OpenMP, too.
module gnograd_core_process
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t
  implicit none
  private
  public :: lock, unlock, added, read_number, write_number
  public :: lock_of_stores, lock_of_cuda_library

  integer(c_int32_t), parameter :: lock_of_stores = 0, lock_of_cuda_library = 1

  interface
    !> Wait until no other thread has the lock, and take it
    subroutine lock(which) bind(c, name="gnograd_lock")
      import :: c_int32_t
      integer(c_int32_t), value :: which
    end subroutine lock

    !> Give it back
    subroutine unlock(which) bind(c, name="gnograd_unlock")
      import :: c_int32_t
      integer(c_int32_t), value :: which
    end subroutine unlock

    !> Add to a number, and say what it is then: no two threads get the same
    function added(number, more) result(now) bind(c, name="gnograd_added")
      import :: c_int64_t
      integer(c_int64_t), intent(inout) :: number
      integer(c_int64_t), value :: more
      integer(c_int64_t) :: now
    end function added

    !> A setting that other threads may write
    function read_number(number) result(now) bind(c, name="gnograd_read_number")
      import :: c_int64_t
      integer(c_int64_t), intent(in) :: number
      integer(c_int64_t) :: now
    end function read_number

    !> Write a setting that other threads may read
    subroutine write_number(number, now) bind(c, name="gnograd_write_number")
      import :: c_int64_t
      integer(c_int64_t), intent(inout) :: number
      integer(c_int64_t), value :: now
    end subroutine write_number
  end interface

end module gnograd_core_process

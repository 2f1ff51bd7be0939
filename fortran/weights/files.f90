! SPDX-License-Identifier: MIT

!> Files of bytes: one that is written appears whole, or what was there stays.
!>
!> Blanks at the end of a name are not part of it, just as in Fortran's own statements.
module gnograd_weights_files
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_null_char, c_null_ptr, c_ptr
  use gnograd_core_kinds, only: int64
  implicit none
  private
  public :: piece_type, write_file, open_file, read_file, close_file

  !> Bytes in memory.
  type, bind(c) :: piece_type
    type(c_ptr) :: address = c_null_ptr
    integer(c_int64_t) :: length = 0
  end type piece_type

  interface
    function c_write(filename, n_pieces, pieces) result(status) &
        & bind(c, name="gnograd_write_file")
      import :: c_char, c_int, c_int64_t, piece_type
      character(kind=c_char), intent(in) :: filename(*)
      integer(c_int64_t), value :: n_pieces
      type(piece_type), intent(in) :: pieces(*)
      integer(c_int) :: status
    end function c_write

    function c_open(filename, file, size) result(status) bind(c, name="gnograd_open_file")
      import :: c_char, c_int, c_int64_t
      character(kind=c_char), intent(in) :: filename(*)
      integer(c_int), intent(out) :: file
      integer(c_int64_t), intent(out) :: size
      integer(c_int) :: status
    end function c_open

    function c_read(file, place, n, bytes) result(status) bind(c, name="gnograd_read_file")
      import :: c_int, c_int64_t, c_ptr
      integer(c_int), value :: file
      integer(c_int64_t), value :: place, n
      type(c_ptr), value :: bytes
      integer(c_int) :: status
    end function c_read

    !> End what open_file has begun
    subroutine close_file(file) bind(c, name="gnograd_close_file")
      import :: c_int
      integer(c_int), value :: file
    end subroutine close_file

    subroutine c_problem(status, length, text) bind(c, name="gnograd_file_problem")
      import :: c_char, c_int, c_int64_t
      integer(c_int), value :: status
      integer(c_int64_t), value :: length
      character(kind=c_char), intent(out) :: text(*)
    end subroutine c_problem
  end interface

contains

  !> Write pieces one behind the other.
  subroutine write_file(filename, pieces, reason)
    character(len=*), intent(in) :: filename
    type(piece_type), intent(in), contiguous :: pieces(:)
    !> Allocated where it cannot be done
    character(len=:), allocatable, intent(out) :: reason

    call check_name(filename, reason)
    if (allocated(reason)) return
    call explain(c_write(trim(filename)//c_null_char, size(pieces, kind=c_int64_t), pieces), reason)
  end subroutine write_file

  !> Begin to read a file; close_file ends it.
  subroutine open_file(filename, file, n_bytes, reason)
    character(len=*), intent(in) :: filename
    integer(c_int), intent(out) :: file
    integer(int64), intent(out) :: n_bytes
    !> Allocated where it cannot be done
    character(len=:), allocatable, intent(out) :: reason

    file = -1
    n_bytes = 0
    call check_name(filename, reason)
    if (allocated(reason)) return
    call explain(c_open(trim(filename)//c_null_char, file, n_bytes), reason)
  end subroutine open_file

  subroutine read_file(file, place, piece, reason)
    integer(c_int), intent(in) :: file
    !> Bytes before the first one
    integer(int64), intent(in) :: place
    !> Room for them
    type(piece_type), intent(in) :: piece
    !> Allocated where it cannot be done
    character(len=:), allocatable, intent(out) :: reason

    call explain(c_read(file, place, piece%length, piece%address), reason)
  end subroutine read_file

  !> C would read a name up to its first null character.
  subroutine check_name(filename, reason)
    character(len=*), intent(in) :: filename
    character(len=:), allocatable, intent(out) :: reason

    if (filename == "") then
      reason = "its name is empty"
    else if (index(filename, c_null_char) > 0) then
      reason = "its name has a null character"
    end if
  end subroutine check_name

  !> The text of a status, none of 0.
  subroutine explain(status, reason)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable, intent(out) :: reason
    character(kind=c_char, len=200) :: text

    if (status == 0) return
    text = c_null_char
    call c_problem(status, len(text, c_int64_t), text)
    reason = text(:index(text, c_null_char) - 1)
  end subroutine explain

end module gnograd_weights_files

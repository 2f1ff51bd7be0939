! SPDX-License-Identifier: MIT

!> Errors on their way to C: a status code now, the message on request from the same thread.
module gnograd_entries_status
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_char, c_null_char
  use gnograd_core_error, only: error_type
  implicit none
  private
  public :: status_of, error_of

  interface
    !> Message of the last error of this thread
    subroutine keep_message(length, text) bind(c, name="gnograd_keep_message")
      import :: c_int64_t, c_char
      integer(c_int64_t), value :: length
      character(kind=c_char), intent(in) :: text(*)
    end subroutine keep_message

    function kept_message(room, text) result(length) bind(c, name="gnograd_kept_message")
      import :: c_int64_t, c_char
      !> Characters that text has
      integer(c_int64_t), value :: room
      character(kind=c_char), intent(inout) :: text(*)
      !> Length of the message, which may exceed room
      integer(c_int64_t) :: length
    end function kept_message
  end interface

contains

  !> Status code of an error object, 0 if there is none; keeps its message.
  function status_of(error) result(status)
    type(error_type), allocatable, intent(in) :: error
    integer(c_int) :: status

    status = 0
    if (.not. allocated(error)) return
    status = int(error%code, c_int)
    call keep_message(len(error%message, c_int64_t), error%message)
  end function status_of

  !> The error object behind a status code that this thread has just got.
  subroutine error_of(status, error)
    integer(c_int), intent(in) :: status
    type(error_type), allocatable, intent(out) :: error
    character(kind=c_char) :: none(1)
    integer(c_int64_t) :: length

    if (status == 0) return
    allocate (error)
    error%code = int(status)
    length = kept_message(0_c_int64_t, none)
    allocate (character(len=length) :: error%message)
    length = kept_message(length, error%message)
  end subroutine error_of

  !> Copy the last message of this thread, cut to length-1 bytes and ended by a null byte.
  subroutine gnograd_last_error(length, message) bind(c, name="gnograd_last_error")
    integer(c_int64_t), value :: length
    character(kind=c_char), intent(inout), optional :: message(length)
    integer(c_int64_t) :: n

    if (length < 1 .or. .not. present(message)) return
    n = min(kept_message(length - 1, message), length - 1)
    message(n + 1) = c_null_char
  end subroutine gnograd_last_error

end module gnograd_entries_status

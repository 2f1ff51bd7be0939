! SPDX-License-Identifier: MIT

!> Errors on their way to C: a status code now, the message on request from the same thread.
module gnograd_entries_status
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_char, c_null_char
  use gnograd_core_error, only: error_type
  implicit none
  private
  public :: status_of, error_of

  !> Message of the last error of this thread
  character(len=:), allocatable, save :: last_message
  !$omp threadprivate(last_message)

contains

  !> Status code of an error object, 0 if there is none; keeps its message.
  function status_of(error) result(status)
    type(error_type), allocatable, intent(in) :: error
    integer(c_int) :: status

    status = 0
    if (.not. allocated(error)) return
    status = int(error%code, c_int)
    last_message = error%message
  end function status_of

  !> The error object behind a status code that this thread has just got.
  subroutine error_of(status, error)
    integer(c_int), intent(in) :: status
    type(error_type), allocatable, intent(out) :: error

    if (status /= 0) error = error_type(int(status), last_message)
  end subroutine error_of

  !> Copy the last message of this thread, cut to length-1 bytes and ended by a null byte.
  subroutine gnograd_last_error(length, message) bind(c, name="gnograd_last_error")
    integer(c_int64_t), value :: length
    character(kind=c_char), intent(out) :: message(length)
    integer(c_int64_t) :: k, n

    if (length < 1) return
    n = 0
    if (allocated(last_message)) n = min(len(last_message, c_int64_t), length - 1)
    do k = 1, n
      message(k) = last_message(k:k)
    end do
    message(n + 1) = c_null_char
  end subroutine gnograd_last_error

end module gnograd_entries_status

! SPDX-License-Identifier: MIT

!> The error object: allocated when, and only when, something went wrong.
module gnograd_core_error
  implicit none
  private
  public :: error_type, fail, check_allocation
  public :: code_value, code_index, code_memory, code_unsupported, code_type

  !> Argument with a wrong shape, size or name
  integer, parameter :: code_value = 1
  !> Node, edge or array number out of range
  integer, parameter :: code_index = 2
  !> Allocation failed
  integer, parameter :: code_memory = 3
  !> Meaningful, but not available
  integer, parameter :: code_unsupported = 4
  !> Kinds of numbers that do not belong together
  integer, parameter :: code_type = 5

  !> What went wrong, for people (message) and for programs (code)
  type :: error_type
    !> One of the code_* numbers
    integer :: code = 0
    !> Names the procedure and the argument, what it got and what it needs
    character(len=:), allocatable :: message
  end type error_type

contains

  !> Raise an error.
  pure subroutine fail(error, code, message)
    !> Becomes allocated
    type(error_type), allocatable, intent(out) :: error
    !> One of the code_* numbers
    integer, intent(in) :: code
    !> Text for people
    character(len=*), intent(in) :: message

    allocate (error)
    error%code = code
    error%message = message
  end subroutine fail

  !> Turn the status of an allocate statement into an error.
  pure subroutine check_allocation(status, where, error)
    !> The stat= value
    integer, intent(in) :: status
    !> Procedure that allocates
    character(len=*), intent(in) :: where
    !> Allocated if status is not zero
    type(error_type), allocatable, intent(out) :: error

    if (status /= 0) call fail(error, code_memory, where//": not enough memory")
  end subroutine check_allocation

end module gnograd_core_error

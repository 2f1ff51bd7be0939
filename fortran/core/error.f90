! SPDX-License-Identifier: MIT

!> The error object: allocated when, and only when, something went wrong.
module gnograd_core_error
  use gnograd_core_kinds, only: int64
  implicit none
  private
  public :: error_type, fail, text, text_length, check_allocation, check_shape, check_extents, &
    & check_code, check_least, check_range
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

  !> An error, described for people (message) and for programs (code)
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

  !> Refuse an array of the wrong shape; an earlier error stays.
  pure subroutine check_shape(where, name, got, needed, error)
    !> Procedure and argument
    character(len=*), intent(in) :: where, name
    !> Shapes of the same rank
    integer(int64), intent(in) :: got(:), needed(:)
    type(error_type), allocatable, intent(inout) :: error
    character(len=300) :: text

    if (allocated(error) .or. all(got == needed)) return
    write (text, "(4a, *(1x, i0))") where, ": ", name, " has shape", got
    write (text, "(2a, *(1x, i0))") trim(text), ", needs", needed
    call fail(error, code_value, trim(text))
  end subroutine check_shape

  !> Refuse an array of the wrong shape; an earlier error stays. Generated code has thousands of
  !> these checks, and a call without arrays takes the compiler half to two thirds of the time.
  subroutine check_extents(where, name, error, got1, needed1, got2, needed2, got3, needed3, &
    & got4, needed4, got5, needed5)
    !> Procedure and argument
    character(len=*), intent(in) :: where, name
    type(error_type), allocatable, intent(inout) :: error
    !> Extent of the first axis, and of each axis behind it
    integer(int64), intent(in) :: got1, needed1
    integer(int64), intent(in), optional :: got2, needed2, got3, needed3, got4, needed4, got5, &
      & needed5
    integer(int64) :: got(5), needed(5)
    integer :: rank

    rank = 1
    got(1) = got1
    needed(1) = needed1
    call append(got2, needed2)
    call append(got3, needed3)
    call append(got4, needed4)
    call append(got5, needed5)
    call check_shape(where, name, got(:rank), needed(:rank), error)

  contains

    subroutine append(one_got, one_needed)
      integer(int64), intent(in), optional :: one_got, one_needed

      if (.not. present(one_got)) return
      rank = rank + 1
      got(rank) = one_got
      needed(rank) = one_needed
    end subroutine append

  end subroutine check_extents

  !> Refuse a size that is not in lowest..highest; an earlier error stays.
  pure subroutine check_range(where, name, value, lowest, highest, error)
    !> Procedure and argument
    character(len=*), intent(in) :: where, name
    integer(int64), intent(in) :: value
    integer, intent(in) :: lowest, highest
    type(error_type), allocatable, intent(inout) :: error
    character(len=160) :: text

    if (allocated(error) .or. (value >= lowest .and. value <= highest)) return
    write (text, "(4a, 3(i0, a))") where, ": ", name, " is ", value, ", needs ", lowest, " to ", &
      & highest
    call fail(error, code_value, trim(text))
  end subroutine check_range

  !> Refuse a value below the lowest; an earlier error stays.
  pure subroutine check_least(where, name, value, lowest, error)
    !> Procedure and argument
    character(len=*), intent(in) :: where, name
    integer(int64), intent(in) :: value
    integer, intent(in) :: lowest
    type(error_type), allocatable, intent(inout) :: error
    character(len=160) :: text

    if (allocated(error) .or. value >= lowest) return
    write (text, "(4a, i0)") where, ": ", name, " must be at least ", lowest
    call fail(error, code_value, trim(text))
  end subroutine check_least

  !> Refuse a code that no value of an argument has; an earlier error stays.
  pure subroutine check_code(where, name, code, last, values, error)
    !> Operator and argument
    character(len=*), intent(in) :: where, name
    !> Codes are 0 .. last
    integer, intent(in) :: code, last
    !> Names of all values, for the message
    character(len=*), intent(in) :: values
    type(error_type), allocatable, intent(inout) :: error

    if (allocated(error) .or. (code >= 0 .and. code <= last)) return
    call fail(error, code_value, where//": "//name//" must be one of "//values)
  end subroutine check_code

  !> Length of text(number).
  elemental function text_length(number) result(length)
    integer(int64), intent(in) :: number
    integer :: length
    integer(int64) :: rest

    length = merge(2, 1, number < 0)
    rest = number/10
    do while (rest /= 0)
      length = length + 1
      rest = rest/10
    end do
  end function text_length

  !> A number for a message.
  pure function text(number) result(string)
    integer(int64), intent(in) :: number
    character(len=text_length(number)) :: string

    write (string, "(i0)") number
  end function text

end module gnograd_core_error

! SPDX-License-Identifier: MIT

!> A test is a subroutine that raises an error; a suite is a list of named tests.
module testing
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use gnograd_core_error, only: error_type, fail, code_value
  implicit none
  private
  public :: test_type, check, check_refused, resident, run_suite, run_test, short_run

  abstract interface
    subroutine test_interface(error)
      import :: error_type
      !> Allocated by the first check that does not hold
      type(error_type), allocatable, intent(out) :: error
    end subroutine test_interface
  end interface

  !> One named test.
  type :: test_type
    character(len=60) :: name = ""
    procedure(test_interface), pointer, nopass :: run => null()
  end type test_type

  !> The first check of a test that did not hold: the test's error is cleared by later calls
  type(error_type), allocatable, save :: broken

contains

  !> Raise an error unless the condition holds; an earlier error stays.
  subroutine check(error, condition, message)
    type(error_type), allocatable, intent(inout) :: error
    logical, intent(in) :: condition
    character(len=*), intent(in) :: message

    if (condition .or. allocated(error)) return
    call fail(error, code_value, message)
    if (.not. allocated(broken)) broken = error
  end subroutine check

  !> Raise an error unless there is one with this message.
  subroutine check_refused(error, refused, message)
    type(error_type), allocatable, intent(inout) :: error
    !> Error that a call has returned
    type(error_type), allocatable, intent(in) :: refused
    character(len=*), intent(in) :: message

    if (.not. allocated(refused)) then
      call check(error, .false., "not refused: "//message)
    else
      call check(error, refused%message == message, "'"//refused%message//"' for '"//message//"'")
    end if
  end subroutine check_refused

  !> True if there is little time (GNOGRAD_SHORT_TESTS): long tests then do a part of what they do.
  function short_run() result(short)
    logical :: short
    integer :: status

    call get_environment_variable("GNOGRAD_SHORT_TESTS", status=status)
    short = status == 0
  end function short_run

  !> Run the tests of a suite, or the one of the given name; counts what ran and what failed.
  subroutine run_suite(suite, tests, only_name, n_run, n_failed)
    character(len=*), intent(in) :: suite
    type(test_type), intent(in) :: tests(:)
    !> Empty: all
    character(len=*), intent(in) :: only_name
    integer, intent(inout) :: n_run, n_failed
    type(error_type), allocatable :: error
    integer :: k

    do k = 1, size(tests)
      if (only_name /= "" .and. only_name /= tests(k)%name) cycle
      call run_test(tests(k), error)
      n_run = n_run + 1
      if (allocated(error)) then
        n_failed = n_failed + 1
        write (error_unit, "(6a)") "FAILED ", suite, ": ", trim(tests(k)%name), ": ", error%message
      else
        write (error_unit, "(4a)") "passed ", suite, ": ", trim(tests(k)%name)
      end if
    end do
  end subroutine run_suite

  !> Run a test: its error is that of the first check that did not hold, or else of a call.
  recursive subroutine run_test(test, error)
    type(test_type), intent(in) :: test
    type(error_type), allocatable, intent(out) :: error

    if (allocated(broken)) deallocate (broken)
    call test%run(error)
    if (allocated(broken)) call move_alloc(broken, error)
  end subroutine run_test

  !> Memory of this process in bytes; 0 where /proc does not tell.
  function resident() result(bytes)
    integer(int64) :: bytes, pages(2)
    integer :: unit, stat

    pages = 0
    open (newunit=unit, file="/proc/self/statm", status="old", action="read", iostat=stat)
    if (stat == 0) then
      read (unit, *, iostat=stat) pages
      close (unit)
    end if
    bytes = 4096*pages(2)
  end function resident

end module testing

! SPDX-License-Identifier: MIT

!> Files as programs write and read them: by a name in a variable of fixed length, on a full disk, by
!> several processes, and of all kinds. usage: files WHAT
program files
  use gnograd
  use, intrinsic :: iso_fortran_env, only: output_unit
  implicit none
  character(len=20) :: what
  character(len=60) :: filename = "model.safetensors"

  call get_command_argument(1, what)
  select case (what)
  case ("save and load")
    call save_and_load()
  case ("large")
    call save_large()
  case ("many")
    call save_many()
  case ("read")
    call read_all()
  end select

contains

  subroutine save_and_load()
    type(tape_type) :: tape
    type(array_type) :: u
    type(weights_type) :: weights
    type(error_type), allocatable :: error
    character(len=12) :: name = "u"
    real(dp), allocatable :: values(:)

    call tape%init(error)
    u = tape%parameter([1.0_dp, 2.0_dp], name)
    call tape%save(filename, error)
    call report("save", error)
    call u%set_value([0.0_dp, 0.0_dp])
    call tape%load(filename, error)
    call report("load", error)
    call u%val(values)
    print "(2f4.1)", values
    call load_weights(filename, weights, error)
    call report("load_weights", error)
    call save_weights(filename, weights, error)
    call report("save_weights", error)
    print "(3a)", "'", weights%name(1), "'"
  end subroutine save_and_load

  subroutine save_large()
    type(tape_type) :: tape
    type(array_type) :: u
    type(error_type), allocatable :: error
    real(dp) :: values(100000)

    values = 2
    call tape%init(error)
    u = tape%parameter(values, "u")
    call tape%save(filename, error)
    call report("save", error)
  end subroutine save_large

  !> A file of numbers that are all the same, again and again.
  subroutine save_many()
    type(weights_type) :: weights
    type(error_type), allocatable :: error
    character(len=20) :: argument
    real(dp) :: values(20000), number
    integer :: k

    call get_command_argument(2, argument)
    read (argument, *) number
    values = number
    call weights%set("u", values, error)
    do k = 1, 50
      if (.not. allocated(error)) call save_weights(filename, weights, error)
    end do
    call report("save", error)
  end subroutine save_many

  !> Verdicts on files whose names come from standard input.
  subroutine read_all()
    type(weights_type) :: weights
    type(error_type), allocatable :: error
    character(len=400) :: line
    integer :: status

    do
      read (*, "(a)", iostat=status) line
      if (status /= 0) exit
      call load_weights(line, weights, error)
      if (allocated(error)) then
        print "(2a)", "refused ", error%message
      else
        print "(a, i0)", "taken ", weights%count()
      end if
    end do
  end subroutine read_all

  subroutine report(where, error)
    character(len=*), intent(in) :: where
    type(error_type), allocatable, intent(in) :: error

    if (allocated(error)) print "(3a)", where, ": ", error%message
  end subroutine report

end program files

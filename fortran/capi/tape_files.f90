! SPDX-License-Identifier: MIT

!> Names of a tape's arrays for C, and files of those that have one.
module gnograd_capi_tape_files
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_int64_t, &
    & c_ptr, c_size_t
  use gnograd_core_error, only: error_type, fail, code_value
  use gnograd_autodiff_array, only: node_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_capi_autodiff, only: find, refuse, refused, status_after, status_of_tape, tape_of
  use gnograd_entries_arrays, only: require
  use gnograd_weights_names, only: flaw_of_name
  implicit none
  private

  interface
    function strlen(string) result(length) bind(c)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: string
      integer(c_size_t) :: length
    end function strlen
  end interface

contains

  !> The characters before the null character.
  subroutine fetch_text(string, text)
    type(c_ptr), intent(in) :: string
    character(len=:), allocatable, intent(out) :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: k

    call c_f_pointer(string, characters, [strlen(string)])
    allocate (character(len=size(characters)) :: text)
    do k = 1, size(characters)
      text(k:k) = characters(k)
    end do
  end subroutine fetch_text

  !> The name of a leaf; an empty one takes it away.
  function gnograd_array_set_name(tape, x, name) result(status) &
      & bind(c, name="gnograd_array_set_name")
    type(c_ptr), value :: tape, name
    integer(c_int64_t), value :: x
    integer(c_int) :: status
    type(node_type), pointer :: node
    character(len=:), allocatable :: text
    type(error_type), allocatable :: error

    call find(tape, "set_name", x, node)
    call require(c_associated(name), "set_name", "name", error)
    if (refused(tape, "set_name", error)) nullify (node)
    if (associated(node)) then
      if (allocated(node%operation)) then
        call refuse(tape, "set_name", code_value, "the array was computed; parameters and "// &
          & "constants have names")
      else
        call fetch_text(name, text)
        call rename(tape, node, text)
      end if
    end if
    status = status_of_tape(tape, "set_name")
  end function gnograd_array_set_name

  subroutine rename(tape, node, name)
    type(c_ptr), intent(in) :: tape
    type(node_type), intent(inout) :: node
    character(len=*), intent(in) :: name
    character(len=:), allocatable :: flaw

    flaw = ""
    if (len(name) > 0) flaw = trim(flaw_of_name(name))
    if (flaw /= "") then
      call refuse(tape, "set_name", code_value, "'"//name//"' "//flaw)
    else if (len(name) > 0) then
      node%name = name
    else if (allocated(node%name)) then
      deallocate (node%name)
    end if
  end subroutine rename

  !> The name of a file. Fortran takes no notice of blanks at its end, which C writes and reads.
  subroutine file_at(address, where, filename, error)
    type(c_ptr), intent(in) :: address
    !> Name of the function, for messages
    character(len=*), intent(in) :: where
    character(len=:), allocatable, intent(out) :: filename
    type(error_type), allocatable, intent(inout) :: error

    call require(c_associated(address), where, "filename", error)
    if (allocated(error)) return
    call fetch_text(address, filename)
    if (len(filename) > len_trim(filename)) call fail(error, code_value, where//": '"//filename// &
      & "' is no name for a file: it ends with a blank")
  end subroutine file_at

  function gnograd_tape_save(tape, filename) result(status) bind(c, name="gnograd_tape_save")
    type(c_ptr), value :: tape, filename
    integer(c_int) :: status
    type(tape_type), pointer :: owner
    type(error_type), allocatable :: error
    character(len=:), allocatable :: name

    call tape_of(tape, "save", owner, error)
    call file_at(filename, "save", name, error)
    if (.not. allocated(error)) call owner%save(name, error)
    status = status_after(owner, error)
  end function gnograd_tape_save

  function gnograd_tape_load(tape, filename, strict) result(status) &
      & bind(c, name="gnograd_tape_load")
    type(c_ptr), value :: tape, filename
    integer(c_int), value :: strict
    integer(c_int) :: status
    type(tape_type), pointer :: owner
    type(error_type), allocatable :: error
    character(len=:), allocatable :: name

    call tape_of(tape, "load", owner, error)
    call file_at(filename, "load", name, error)
    if (.not. allocated(error)) call owner%load(name, error, strict /= 0)
    status = status_after(owner, error)
  end function gnograd_tape_load

end module gnograd_capi_tape_files

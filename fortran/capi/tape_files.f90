! SPDX-License-Identifier: MIT

!> Names of a tape's arrays for C, and files of those that have one.
module gnograd_capi_tape_files
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_int64_t, &
    & c_ptr, c_size_t
  use gnograd_core_error, only: error_type, fail, code_value
  use gnograd_autodiff_array, only: node_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_capi_autodiff, only: find, refuse, status_after
  use gnograd_entries_status, only: status_of
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
  function text_of(string) result(text)
    type(c_ptr), intent(in) :: string
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: k

    call c_f_pointer(string, characters, [strlen(string)])
    allocate (character(len=size(characters)) :: text)
    do k = 1, size(characters)
      text(k:k) = characters(k)
    end do
  end function text_of

  !> The name of a leaf; an empty one takes it away.
  function gnograd_array_set_name(tape, x, name) result(status) &
      & bind(c, name="gnograd_array_set_name")
    type(c_ptr), value :: tape, name
    integer(c_int64_t), value :: x
    integer(c_int) :: status
    type(node_type), pointer :: node

    call find(tape, "set_name", x, node)
    if (associated(node)) then
      if (.not. c_associated(name)) then
        call refuse(tape, code_value, "set_name: the name is a null pointer")
      else if (allocated(node%operation)) then
        call refuse(tape, code_value, "set_name: the array was computed; parameters and "// &
          & "constants have names")
      else
        node%name = text_of(name)
        if (node%name == "") deallocate (node%name)
      end if
    end if
    status = status_after(tape)
  end function gnograd_array_set_name

  function gnograd_tape_save(tape, filename) result(status) bind(c, name="gnograd_tape_save")
    type(c_ptr), value :: tape, filename
    integer(c_int) :: status
    type(tape_type), pointer :: owner
    type(error_type), allocatable :: error

    call c_f_pointer(tape, owner)
    if (c_associated(filename)) then
      call owner%save(text_of(filename), error)
    else
      call fail(error, code_value, "save: filename is a null pointer")
    end if
    status = status_of(error)
    call owner%clear_error()
  end function gnograd_tape_save

  function gnograd_tape_load(tape, filename, strict) result(status) &
      & bind(c, name="gnograd_tape_load")
    type(c_ptr), value :: tape, filename
    integer(c_int), value :: strict
    integer(c_int) :: status
    type(tape_type), pointer :: owner
    type(error_type), allocatable :: error

    call c_f_pointer(tape, owner)
    if (c_associated(filename)) then
      call owner%load(text_of(filename), error, strict /= 0)
    else
      call fail(error, code_value, "load: filename is a null pointer")
    end if
    status = status_of(error)
    call owner%clear_error()
  end function gnograd_tape_load

end module gnograd_capi_tape_files

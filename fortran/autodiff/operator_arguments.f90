! SPDX-License-Identifier: MIT

!> Arguments of an operator on the tape: copies of its static arrays, and the sizes that shapes of
!> its inputs tell.
module gnograd_autodiff_operator_arguments
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use gnograd_core_kinds, only: int32, int64
  use gnograd_autodiff_array, only: node_type, max_rank
  implicit none
  private
  public :: copy_static, address_of, learn, learn_batch, add_batch, solve, batch_axes, unknown

  !> Leading axes of inputs and outputs, which in Fortran's order are the last ones.
  type :: batch_axes
    !> Number of batch axes; negative until an array has told
    integer :: rank = -1
    integer(int64) :: shape(max_rank) = 1
  end type batch_axes

  !> A copy of a static array
  interface copy_static
    module procedure :: copy_integers, copy_list, copy_numbers, copy_table
  end interface copy_static

  !> Address of integers; null if they are not allocated
  interface address_of
    module procedure :: address_of_list, address_of_numbers, address_of_table
  end interface address_of

  !> A size that nothing has told yet
  integer(int64), parameter :: unknown = -huge(1_int64)

  !> Address of arrays without integers: not null, which would be an absent array
  integer(int64), target :: nowhere

contains

  ! ---- static arrays ----

  subroutine copy_integers(given, copy, ok)
    integer, intent(in) :: given(:)
    integer(int64), allocatable, intent(out) :: copy(:)
    !> False if there is no memory
    logical, intent(inout) :: ok
    integer :: status

    allocate (copy(size(given)), stat=status)
    if (status == 0) copy(:) = given
    ok = ok .and. status == 0
  end subroutine copy_integers

  subroutine copy_list(given, copy, ok)
    integer(int64), intent(in) :: given(:)
    integer(int64), allocatable, intent(out) :: copy(:)
    logical, intent(inout) :: ok
    integer :: status

    allocate (copy(size(given)), stat=status)
    if (status == 0) copy(:) = given
    ok = ok .and. status == 0
  end subroutine copy_list

  subroutine copy_numbers(given, copy, ok)
    integer(int32), intent(in) :: given(:)
    integer(int32), allocatable, intent(out) :: copy(:)
    logical, intent(inout) :: ok
    integer :: status

    allocate (copy(size(given)), stat=status)
    if (status == 0) copy(:) = given
    ok = ok .and. status == 0
  end subroutine copy_numbers

  subroutine copy_table(given, copy, ok)
    integer(int32), intent(in) :: given(:, :, :)
    integer(int32), allocatable, intent(out) :: copy(:, :, :)
    logical, intent(inout) :: ok
    integer :: status

    allocate (copy(size(given, 1), size(given, 2), size(given, 3)), stat=status)
    if (status == 0) copy(:, :, :) = given
    ok = ok .and. status == 0
  end subroutine copy_table

  function address_of_list(list) result(address)
    integer(int64), allocatable, intent(in), target :: list(:)
    type(c_ptr) :: address

    address = c_null_ptr
    if (.not. allocated(list)) return
    address = c_loc(nowhere)
    if (size(list) > 0) address = c_loc(list)
  end function address_of_list

  function address_of_numbers(list) result(address)
    integer(int32), allocatable, intent(in), target :: list(:)
    type(c_ptr) :: address

    address = c_null_ptr
    if (.not. allocated(list)) return
    address = c_loc(nowhere)
    if (size(list) > 0) address = c_loc(list)
  end function address_of_numbers

  function address_of_table(table) result(address)
    integer(int32), allocatable, intent(in), target :: table(:, :, :)
    type(c_ptr) :: address

    address = c_null_ptr
    if (.not. allocated(table)) return
    address = c_loc(nowhere)
    if (size(table) > 0) address = c_loc(table)
  end function address_of_table

  ! ---- sizes, as shapes tell them ----

  !> A size that is still unknown is this extent.
  pure subroutine learn(size, extent)
    integer(int64), intent(inout) :: size
    integer(int64), intent(in) :: extent

    if (size == unknown) size = extent
  end subroutine learn

  !> Learn a size that is still unknown from an extent that is linear in it: at_0 for size 0, at_1
  !> for size 1.
  pure subroutine solve(size, extent, at_0, at_1)
    integer(int64), intent(inout) :: size
    integer(int64), intent(in) :: extent, at_0, at_1

    if (size == unknown) size = max(extent - at_0, 0_int64)/max(at_1 - at_0, 1_int64)
  end subroutine solve

  !> Axes beyond an array's own are a batch, if none is known yet.
  pure subroutine learn_batch(batch, node, own_rank, n_batch)
    type(batch_axes), intent(inout) :: batch
    type(node_type), intent(in) :: node
    integer, intent(in) :: own_rank
    !> Number of functions in the batch
    integer(int64), intent(out) :: n_batch

    if (batch%rank < 0) then
      batch%rank = max(node%rank - own_rank, 0)
      batch%shape(:batch%rank) = node%shape(own_rank + 1:own_rank + batch%rank)
    end if
    n_batch = product(batch%shape)
  end subroutine learn_batch

  !> Add the axes of a batch behind the own ones of an output; the rank tells if they are too many.
  pure subroutine add_batch(batch, rank, shape)
    type(batch_axes), intent(in) :: batch
    integer, intent(inout) :: rank
    integer(int64), intent(inout) :: shape(max_rank)
    integer :: first

    if (batch%rank < 1) return
    first = rank + 1
    rank = rank + batch%rank
    if (rank <= max_rank) shape(first:rank) = batch%shape(:batch%rank)
  end subroutine add_batch

end module gnograd_autodiff_operator_arguments

! SPDX-License-Identifier: MIT

!> Optimizers for C: an opaque handle of one of any type, freed by its owner.
module gnograd_capi_optimizer
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_double, c_ptr, c_loc, c_null_ptr, &
    & c_f_pointer, c_associated
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, check_allocation, check_range, set_error => fail, &
    & code_index
  use gnograd_autodiff_array, only: array_type, is_open, kind_r32, kind_r64
  use gnograd_autodiff_operands, only: failed
  use gnograd_autodiff_optimizer, only: optimizer_type, adam_type, adamw_type, &
    & sgd_type
  use gnograd_autodiff_tape, only: tape_type
  use gnograd_capi_autodiff, only: arrays_of, copy_in, copy_out, max_arrays, status_after, &
    & tape_of
  use gnograd_entries_arrays, only: require, view
  use gnograd_entries_status, only: status_of
  implicit none
  private

  !> An optimizer of any type
  type :: optimizer_box
    class(optimizer_type), allocatable :: it
  end type optimizer_box

contains

  function gnograd_adam_create(tape, n, parameters, lr, beta1, beta2, eps, weight_decay, &
      & optimizer) result(status) bind(c, name="gnograd_adam_create")
    type(c_ptr), value :: tape, parameters
    integer(c_int64_t), value :: n
    real(c_double), value :: lr, beta1, beta2, eps, weight_decay
    type(c_ptr), intent(out), optional :: optimizer
    integer(c_int) :: status
    type(adam_type) :: adam
    type(tape_type), pointer :: owner
    type(array_type), allocatable :: arrays(:)
    type(error_type), allocatable :: error

    call read_arguments("adam_create", tape, n, parameters, optimizer, owner, arrays, error)
    if (.not. allocated(error)) call adam%init(arrays, lr, error, beta1, beta2, eps, weight_decay)
    call box(adam, error, optimizer)
    status = status_after(owner, error)
  end function gnograd_adam_create

  function gnograd_adamw_create(tape, n, parameters, lr, beta1, beta2, eps, weight_decay, &
      & optimizer) result(status) bind(c, name="gnograd_adamw_create")
    type(c_ptr), value :: tape, parameters
    integer(c_int64_t), value :: n
    real(c_double), value :: lr, beta1, beta2, eps, weight_decay
    type(c_ptr), intent(out), optional :: optimizer
    integer(c_int) :: status
    type(adamw_type) :: adamw
    type(tape_type), pointer :: owner
    type(array_type), allocatable :: arrays(:)
    type(error_type), allocatable :: error

    call read_arguments("adamw_create", tape, n, parameters, optimizer, owner, arrays, error)
    if (.not. allocated(error)) call adamw%init(arrays, lr, error, beta1, beta2, eps, weight_decay)
    call box(adamw, error, optimizer)
    status = status_after(owner, error)
  end function gnograd_adamw_create

  function gnograd_sgd_create(tape, n, parameters, lr, momentum, optimizer) result(status) &
      & bind(c, name="gnograd_sgd_create")
    type(c_ptr), value :: tape, parameters
    integer(c_int64_t), value :: n
    real(c_double), value :: lr, momentum
    type(c_ptr), intent(out), optional :: optimizer
    integer(c_int) :: status
    type(sgd_type) :: sgd
    type(tape_type), pointer :: owner
    type(array_type), allocatable :: arrays(:)
    type(error_type), allocatable :: error

    call read_arguments("sgd_create", tape, n, parameters, optimizer, owner, arrays, error)
    if (.not. allocated(error)) call sgd%init(arrays, lr, error, momentum)
    call box(sgd, error, optimizer)
    status = status_after(owner, error)
  end function gnograd_sgd_create

  !> Tape and parameters; the handle is null as yet.
  subroutine read_arguments(where, tape, n, parameters, handle, owner, arrays, error)
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    type(c_ptr), intent(in) :: tape, parameters
    integer(c_int64_t), intent(in) :: n
    type(c_ptr), intent(out), optional :: handle
    type(tape_type), pointer, intent(out) :: owner
    type(array_type), allocatable, intent(out) :: arrays(:)
    type(error_type), allocatable, intent(out) :: error
    integer(c_int64_t), pointer, contiguous :: handles(:)

    call tape_of(tape, where, owner, error)
    call view(parameters, n, handles, where, "parameters", error)
    call require(present(handle), where, "optimizer", error)
    if (present(handle)) handle = c_null_ptr
    call check_range(where, "n", n, 0, max_arrays, error)
    if (.not. allocated(error)) arrays = arrays_of(tape, handles)
  end subroutine read_arguments

  !> The handle of an optimizer; it stays null after an error.
  subroutine box(it, error, handle)
    class(optimizer_type), intent(in) :: it
    type(error_type), allocatable, intent(inout) :: error
    type(c_ptr), intent(inout), optional :: handle
    type(optimizer_box), pointer :: boxed
    integer :: stat

    if (allocated(error)) return
    allocate (boxed, stat=stat)
    if (stat == 0) allocate (boxed%it, source=it, stat=stat)
    call check_allocation(stat, "optimizer", error)
    if (.not. allocated(error)) handle = c_loc(boxed)
  end subroutine box

  !> The optimizer behind a handle; disassociated, with an error, if that is null.
  subroutine optimizer_of(handle, where, boxed, error)
    type(c_ptr), intent(in) :: handle
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    type(optimizer_box), pointer, intent(out) :: boxed
    type(error_type), allocatable, intent(out) :: error

    nullify (boxed)
    call require(c_associated(handle), where, "optimizer", error)
    if (.not. allocated(error)) call c_f_pointer(handle, boxed)
  end subroutine optimizer_of

  subroutine gnograd_optimizer_free(optimizer) bind(c, name="gnograd_optimizer_free")
    type(c_ptr), value :: optimizer
    type(optimizer_box), pointer :: boxed

    if (.not. c_associated(optimizer)) return
    call c_f_pointer(optimizer, boxed)
    deallocate (boxed)
  end subroutine gnograd_optimizer_free

  function gnograd_optimizer_step(optimizer, lr) result(status) &
      & bind(c, name="gnograd_optimizer_step")
    type(c_ptr), value :: optimizer
    real(c_double), value :: lr
    integer(c_int) :: status
    type(optimizer_box), pointer :: boxed
    type(error_type), allocatable :: error

    call optimizer_of(optimizer, "optimizer_step", boxed, error)
    status = status_of(error)
    if (status /= 0) return
    boxed%it%lr = lr
    call boxed%it%step(error)
    status = status_and_forget(boxed%it, error)
  end function gnograd_optimizer_step

  function gnograd_optimizer_clip_gradients(optimizer, max_norm, eps, norm) result(status) &
      & bind(c, name="gnograd_optimizer_clip_gradients")
    type(c_ptr), value :: optimizer
    real(c_double), value :: max_norm, eps
    real(c_double), intent(out), optional :: norm
    integer(c_int) :: status
    type(optimizer_box), pointer :: boxed
    type(error_type), allocatable :: error

    call optimizer_of(optimizer, "optimizer_clip_gradients", boxed, error)
    call require(present(norm), "optimizer_clip_gradients", "norm", error)
    status = status_of(error)
    if (status /= 0) return
    call boxed%it%clip_gradients(max_norm, norm, error, eps)
    status = status_and_forget(boxed%it, error)
  end function gnograd_optimizer_clip_gradients

  !> Status of an error, which is cleared from the tapes of the parameters.
  function status_and_forget(it, error) result(status)
    class(optimizer_type), intent(in) :: it
    type(error_type), allocatable, intent(in) :: error
    integer(c_int) :: status
    integer :: k

    status = status_of(error)
    if (.not. allocated(error)) return
    do k = 1, size(it%parameters)
      call forget(it%parameters(k))
    end do

  contains

    subroutine forget(x)
      type(array_type), intent(in) :: x

      if (.not. is_open(x)) return
      if (failed(x%store)) deallocate (x%store%error)
    end subroutine forget

  end function status_and_forget

  function gnograd_optimizer_steps(optimizer) result(steps) &
      & bind(c, name="gnograd_optimizer_steps")
    type(c_ptr), value :: optimizer
    integer(c_int64_t) :: steps
    type(optimizer_box), pointer :: boxed
    type(error_type), allocatable :: error

    steps = 0
    call optimizer_of(optimizer, "optimizer_steps", boxed, error)
    if (status_of(error) == 0) steps = boxed%it%steps
  end function gnograd_optimizer_steps

  subroutine gnograd_optimizer_set_steps(optimizer, steps) &
      & bind(c, name="gnograd_optimizer_set_steps")
    type(c_ptr), value :: optimizer
    integer(c_int64_t), value :: steps
    type(optimizer_box), pointer :: boxed
    type(error_type), allocatable :: error

    call optimizer_of(optimizer, "optimizer_set_steps", boxed, error)
    if (status_of(error) == 0) boxed%it%steps = steps
  end subroutine gnograd_optimizer_set_steps

  function gnograd_optimizer_slot(optimizer, slot, parameter, write, data) result(status) &
      & bind(c, name="gnograd_optimizer_slot")
    type(c_ptr), value :: optimizer, data
    integer(c_int), value :: slot, write
    integer(c_int64_t), value :: parameter
    integer(c_int) :: status
    type(optimizer_box), pointer :: boxed
    type(error_type), allocatable :: error
    integer(int64) :: n

    call optimizer_of(optimizer, "optimizer_slot", boxed, error)
    status = status_of(error)
    if (status /= 0) return
    if (slot < 0 .or. slot >= size(boxed%it%slots, 1) .or. parameter < 0 .or. &
      & parameter >= size(boxed%it%slots, 2)) then
      call set_error(error, code_index, "optimizer: no such slot or parameter")
    else
      associate (values => boxed%it%slots(slot + 1, parameter + 1))
        if (allocated(values%r32)) then
          n = size(values%r32, kind=int64)
        else
          n = size(values%r64, kind=int64)
        end if
        call require(c_associated(data) .or. n == 0, "optimizer_slot", "data", error)
        if (.not. allocated(error)) then
          if (write /= 0) then
            call copy_in(data, n, values%r32, values%r64)
          else
            call copy_out(merge(kind_r32, kind_r64, allocated(values%r32)), n, data, values%r32, &
              & values%r64)
          end if
        end if
      end associate
    end if
    status = status_of(error)
  end function gnograd_optimizer_slot

end module gnograd_capi_optimizer

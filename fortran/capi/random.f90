! SPDX-License-Identifier: MIT

!> Random numbers by their place, for C.
module gnograd_capi_random
  use, intrinsic :: iso_c_binding, only: c_double, c_float, c_int, c_int64_t, c_ptr
  use gnograd_core_arithmetic, only: check_arithmetic
  use gnograd_core_error, only: check_least, error_type
  use gnograd_entries_arrays, only: view
  use gnograd_entries_status, only: status_of
  use gnograd_primitives_gumbel, only: draw_gumbel
  implicit none
  private

contains

  !> Gumbel noise; see gnograd.h.
  function gnograd_gumbel_f32(seed, first, n, noise) result(status) &
      & bind(c, name="gnograd_gumbel_f32")
    integer(c_int64_t), value :: seed, first, n
    type(c_ptr), value :: noise
    integer(c_int) :: status
    real(c_float), pointer, contiguous :: drawn(:)
    type(error_type), allocatable :: error

    call check_arithmetic(error)
    call check_least("gumbel_f32", "n", n, 0, error)
    call view(noise, n, drawn, "gumbel_f32", "noise", error)
    if (.not. allocated(error)) call draw_gumbel(seed, first, drawn)
    status = status_of(error)
  end function gnograd_gumbel_f32

  !> Gumbel noise; see gnograd.h.
  function gnograd_gumbel_f64(seed, first, n, noise) result(status) &
      & bind(c, name="gnograd_gumbel_f64")
    integer(c_int64_t), value :: seed, first, n
    type(c_ptr), value :: noise
    integer(c_int) :: status
    real(c_double), pointer, contiguous :: drawn(:)
    type(error_type), allocatable :: error

    call check_arithmetic(error)
    call check_least("gumbel_f64", "n", n, 0, error)
    call view(noise, n, drawn, "gumbel_f64", "noise", error)
    if (.not. allocated(error)) call draw_gumbel(seed, first, drawn)
    status = status_of(error)
  end function gnograd_gumbel_f64

end module gnograd_capi_random

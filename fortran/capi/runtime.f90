! SPDX-License-Identifier: MIT

!> Settings and facts of the library for C.
module gnograd_capi_runtime
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_char, c_null_char
  use, intrinsic :: iso_fortran_env, only: compiler_version, compiler_options
  use gnograd_core_blas, only: blas_name
  use gnograd_core_error, only: error_type
  use gnograd_core_threads, only: most_threads, steady_n_threads, set_n_threads
  use gnograd_entries_arrays, only: require
  use gnograd_entries_status, only: status_of
  implicit none
  private

  !> Raised with every change of the C interface
  integer(c_int), parameter :: abi_version = 1

contains

  function gnograd_abi_version() result(version) bind(c, name="gnograd_abi_version")
    integer(c_int) :: version

    version = abi_version
  end function gnograd_abi_version

  function gnograd_num_threads() result(n) bind(c, name="gnograd_num_threads")
    integer(c_int) :: n

    n = int(steady_n_threads(), c_int)
  end function gnograd_num_threads

  function gnograd_most_threads() result(n) bind(c, name="gnograd_most_threads")
    integer(c_int) :: n

    n = int(most_threads(), c_int)
  end function gnograd_most_threads

  subroutine gnograd_set_num_threads(n) bind(c, name="gnograd_set_num_threads")
    integer(c_int), value :: n

    call set_n_threads(int(n))
  end subroutine gnograd_set_num_threads

  !> "compiler | options | BLAS", cut to length-1 bytes and ended by a null byte.
  subroutine gnograd_build_info(length, text) bind(c, name="gnograd_build_info")
    integer(c_int64_t), value :: length
    character(kind=c_char), intent(out), optional :: text(length)
    character(len=:), allocatable :: line
    integer(c_int64_t) :: k, n
    type(error_type), allocatable :: error

    call require(present(text), "build_info", "text", error)
    if (status_of(error) /= 0) return
    if (length < 1) return
    line = compiler_version()//" | "//compiler_options()//" | "//blas_name
    n = min(len(line, c_int64_t), length - 1)
    do k = 1, n
      text(k) = line(k:k)
    end do
    text(n + 1) = c_null_char
  end subroutine gnograd_build_info

end module gnograd_capi_runtime

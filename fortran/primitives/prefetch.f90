! SPDX-License-Identifier: MIT

!> Rows of a table brought into the cache before they are needed.
!>
!> Rows that edges name come in no order that the processor could foresee: without this, a walk over
!> edges waits for memory most of the time. It changes no result.
module gnograd_primitives_prefetch
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t
  implicit none
  private
  public :: prefetch, prefetch_rows, prefetch_rows_int32, prefetch_rows_int64

  interface
    !> n_bytes from an element on
    pure subroutine prefetch(n_bytes, first) bind(c, name="gnograd_prefetch")
      import :: c_int64_t
      integer(c_int64_t), value :: n_bytes
      type(*), intent(in) :: first
    end subroutine prefetch
  end interface

  !> prefetch_rows(n, row, row_bytes, table): n rows of row_bytes each, numbered from 0
  interface prefetch_rows
    pure subroutine prefetch_rows_int32(n, row, row_bytes, table) &
        & bind(c, name="gnograd_prefetch_rows_int32")
      import :: c_int32_t, c_int64_t
      integer(c_int64_t), value :: n
      integer(c_int32_t), intent(in) :: row(*)
      integer(c_int64_t), value :: row_bytes
      type(*), intent(in) :: table(*)
    end subroutine prefetch_rows_int32

    pure subroutine prefetch_rows_int64(n, row, row_bytes, table) &
        & bind(c, name="gnograd_prefetch_rows_int64")
      import :: c_int64_t
      integer(c_int64_t), value :: n
      integer(c_int64_t), intent(in) :: row(*)
      integer(c_int64_t), value :: row_bytes
      type(*), intent(in) :: table(*)
    end subroutine prefetch_rows_int64
  end interface prefetch_rows

end module gnograd_primitives_prefetch

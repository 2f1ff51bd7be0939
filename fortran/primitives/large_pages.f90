! SPDX-License-Identifier: MIT

!> Large pages for large arrays that are read and written in no order: with small ones every access
!> misses the table of pages too, and every page is given and cleared on its own.
module gnograd_primitives_large_pages
  use, intrinsic :: iso_c_binding, only: c_int64_t
  implicit none
  private
  public :: prefer_large_pages

  interface
    !> Ask for large pages, before the array is written
    subroutine prefer_large_pages(n_bytes, array) bind(c, name="gnograd_prefer_large_pages")
      import :: c_int64_t
      integer(c_int64_t), value :: n_bytes
      type(*), intent(inout) :: array(*)
    end subroutine prefer_large_pages
  end interface

end module gnograd_primitives_large_pages

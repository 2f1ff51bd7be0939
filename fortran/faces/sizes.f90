! SPDX-License-Identifier: MIT

!> Sizes that faces on plain arrays read off them; one that no array gives is -1.
module gnograd_faces_sizes
  use gnograd_core_kinds, only: int64
  implicit none
  private
  public :: complete

contains

  !> Set an unknown size to what the others leave of their sum. Several unknown ones are 0 if
  !> nothing is left, else they stay unknown.
  pure subroutine complete(total, a, b, c)
    integer(int64), intent(in) :: total
    integer(int64), intent(inout) :: a, b
    integer(int64), intent(inout), optional :: c
    integer(int64) :: rest
    integer :: n_unknown

    rest = total - max(a, 0_int64) - max(b, 0_int64)
    n_unknown = count([a, b] < 0)
    if (present(c)) then
      rest = rest - max(c, 0_int64)
      if (c < 0) n_unknown = n_unknown + 1
    end if
    if (rest < 0 .or. (n_unknown > 1 .and. rest > 0)) return
    if (a < 0) a = rest
    if (b < 0) b = rest
    if (present(c)) c = merge(rest, c, c < 0)
  end subroutine complete

end module gnograd_faces_sizes

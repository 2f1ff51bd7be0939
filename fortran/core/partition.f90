! SPDX-License-Identifier: MIT

!> Cuts the rows of a sparse matrix into pieces of about equal work.
!>
!> Work is counted in edges plus rows, so that neither one heavy row nor many empty rows unbalance
!> a piece. The cuts depend on the graph alone, never on the number of threads: sums over pieces
!> come out the same whoever computes them.
module gnograd_core_partition
  use gnograd_core_kinds, only: int64
  implicit none
  private
  public :: split_rows

contains

  !> Piece k, counted from 0, holds the rows bounds(k) to bounds(k+1)-1.
  pure subroutine split_rows(offsets, bounds)
    !> First edge of every row, 0-based, [n_rows+1]
    integer(int64), intent(in) :: offsets(0:)
    !> Borders of the pieces, [n_pieces+1]
    integer(int64), intent(out) :: bounds(0:)
    integer(int64) :: n_rows, n_pieces, k, target, low, high, middle
    integer(int64) :: total

    n_rows = size(offsets, kind=int64) - 1
    n_pieces = size(bounds, kind=int64) - 1
    total = offsets(n_rows) + n_rows
    bounds(0) = 0
    do k = 1, n_pieces - 1
      ! total*k/n_pieces without overflow
      target = (total/n_pieces)*k + (mod(total, n_pieces)*k)/n_pieces
      low = bounds(k - 1)
      high = n_rows
      do while (low < high)
        middle = low + (high - low)/2
        if (offsets(middle) + middle < target) then
          low = middle + 1
        else
          high = middle
        end if
      end do
      bounds(k) = low
    end do
    bounds(n_pieces) = n_rows
  end subroutine split_rows

end module gnograd_core_partition

! SPDX-License-Identifier: MIT

!> Images of points in a periodic cell that are within a radius, of candidates that a search found.
!>
!> The vector from point i to the image S of point j is (x_j - x_i) + S cell, whose square is summed
!> in the order of the axes, without fused operations (hence the parentheses): the same pairs and
!> numbers on every machine, and on GPUs.
module gnograd_core_cell_images
  use gnograd_core_kinds, only: dp, int32, int64
  use gnograd_core_threads, only: n_threads
  implicit none
  private
  public :: candidates_type, count_images, list_images

  !> Points, and images near each of them; numbers count from 0.
  type :: candidates_type
    real(dp) :: radius = 0
    !> Pairs from both of their ends
    logical :: full = .true.
    !> Points [d, n], vectors of the cell, a column each [d, d]
    real(dp), pointer, contiguous :: points(:, :) => null(), cell(:, :) => null()
    !> First candidate of every point [0:n], and the image that it is [0:n_candidates-1]
    integer(int64), pointer, contiguous :: offsets(:) => null()
    integer(int32), pointer, contiguous :: images(:) => null()
    !> Point of every image [0:n_images-1], its cell [d, 0:n_images-1] and that of a point [d, n]
    integer(int32), pointer, contiguous :: point(:) => null(), shifts(:, :) => null()
    integer(int32), pointer, contiguous :: base(:, :) => null()
  end type candidates_type

contains

  !> First image of every point that is kept, and their number.
  subroutine count_images(candidates, offsets)
    type(candidates_type), intent(in) :: candidates
    integer(int64), intent(out) :: offsets(0:)
    integer(int64) :: i, p
    integer(int32) :: shift(size(candidates%points, 1))
    real(dp) :: vector(size(candidates%points, 1)), square
    logical :: kept

    offsets(0) = 0
    !$omp parallel do schedule(static) num_threads(n_threads()) default(none) &
    !$omp& private(p, shift, vector, square, kept) shared(candidates, offsets)
    do i = 0, ubound(offsets, 1, int64) - 1
      offsets(i + 1) = 0
      do p = candidates%offsets(i), candidates%offsets(i + 1) - 1
        call measure(candidates, i, p, shift, vector, square, kept)
        if (kept) offsets(i + 1) = offsets(i + 1) + 1
      end do
    end do
    do i = 1, ubound(offsets, 1, int64)
      offsets(i) = offsets(i) + offsets(i - 1)
    end do
  end subroutine count_images

  !> The images that are kept.
  subroutine list_images(candidates, offsets, indices, shifts, distances, vectors)
    type(candidates_type), intent(in) :: candidates
    !> As count_images found them
    integer(int64), intent(in) :: offsets(0:)
    !> Point of an image, its cell seen from that of point i [d, n], distance, and vector [d, n]
    integer(int32), intent(inout), contiguous :: indices(0:), shifts(:, 0:)
    real(dp), intent(inout), contiguous :: distances(0:), vectors(:, 0:)
    integer(int64) :: i, p, k
    integer(int32) :: shift(size(candidates%points, 1))
    real(dp) :: vector(size(candidates%points, 1)), square
    logical :: kept

    !$omp parallel do schedule(static) num_threads(n_threads()) default(none) &
    !$omp& private(p, k, shift, vector, square, kept) &
    !$omp& shared(candidates, offsets, indices, shifts, distances, vectors)
    do i = 0, ubound(offsets, 1, int64) - 1
      k = offsets(i)
      do p = candidates%offsets(i), candidates%offsets(i + 1) - 1
        call measure(candidates, i, p, shift, vector, square, kept)
        if (.not. kept) cycle
        indices(k) = candidates%point(candidates%images(p))
        shifts(:, k) = shift
        distances(k) = sqrt(square)
        vectors(:, k) = vector
        k = k + 1
      end do
    end do
  end subroutine list_images

  !> A candidate of point i, and whether it is within the radius and not the point itself; if not
  !> full, whether it is the one of two ends that is listed.
  pure subroutine measure(candidates, i, p, shift, vector, square, kept)
    type(candidates_type), intent(in) :: candidates
    integer(int64), intent(in) :: i, p
    integer(int32), intent(out) :: shift(:)
    real(dp), intent(out) :: vector(:), square
    logical, intent(out) :: kept
    integer(int64) :: j
    real(dp) :: moved
    integer :: a, c, first

    associate (image => candidates%images(p))
      j = candidates%point(image)
      first = 0
      do a = 1, size(shift)
        shift(a) = candidates%shifts(a, image) + candidates%base(a, i + 1)
        if (first == 0) first = shift(a)
      end do
    end associate
    square = 0
    do c = 1, size(vector)
      moved = 0
      do a = 1, size(shift)
        moved = moved + (shift(a)*candidates%cell(c, a))
      end do
      vector(c) = (candidates%points(c, j + 1) - candidates%points(c, i + 1)) + moved
      square = square + (vector(c)*vector(c))
    end do
    kept = square <= (candidates%radius*candidates%radius) .and. (i /= j .or. first /= 0)
    if (.not. candidates%full) kept = kept .and. (i < j .or. i == j .and. first > 0)
  end subroutine measure

end module gnograd_core_cell_images

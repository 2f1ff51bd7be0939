! SPDX-License-Identifier: MIT

!> Near points for C: an opaque handle of what was found, as its size is known only then.
module gnograd_capi_near_points
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_int32_t, c_double, c_ptr, c_loc, &
    & c_null_ptr, c_f_pointer, c_associated
  use gnograd_core_arithmetic, only: check_arithmetic
  use gnograd_core_cell_images, only: candidates_type, count_images, list_images
  use gnograd_core_error, only: error_type, fail, text, check_allocation, code_value
  use gnograd_core_near_points, only: find_near, search_type, neighbors_type
  use gnograd_entries_status, only: status_of
  implicit none
  private

  !> Results of several searches.
  type :: found_type
    type(neighbors_type), allocatable :: searches(:)
  end type found_type

contains

  !> All within radii, or some of them; see gnograd.h.
  function gnograd_neighbors_within(n_axes, n_dst, n_src, n_items, n_radii, max_neighbors, &
      & at_random, seed, own, destinations, sources, period, dst_items, src_items, radii, handle) &
      & result(status) bind(c, name="gnograd_neighbors_within")
    integer(c_int64_t), value :: n_axes, n_dst, n_src, n_items, n_radii, max_neighbors, seed, own
    integer(c_int), value :: at_random
    real(c_double), intent(in) :: destinations(n_axes, n_dst), sources(n_axes, n_src)
    real(c_double), intent(in) :: period(n_axes)
    integer(c_int64_t), intent(in) :: dst_items(n_items + 1), src_items(n_items + 1)
    real(c_double), intent(in) :: radii(n_radii)
    type(c_ptr), intent(out) :: handle
    integer(c_int) :: status
    type(search_type) :: wanted(n_radii)
    type(error_type), allocatable :: error
    character(len=*), parameter :: where = "neighbors"
    integer(c_int64_t) :: k

    handle = c_null_ptr
    do k = 1, n_radii
      if (.not. (radii(k) >= 0 .or. allocated(error))) call fail(error, code_value, where// &
        & ": radii["//text(k - 1)//"] must not be negative")
    end do
    if (.not. allocated(error)) then
      wanted%radius = radii
      if (max_neighbors >= 0) wanted%most = max_neighbors
      wanted%by_hash = at_random /= 0
      wanted%seed = seed
      call search(where, destinations, sources, period, dst_items, src_items, own, wanted, handle, &
        & error)
    end if
    status = status_of(error)
  end function gnograd_neighbors_within

  !> The k nearest; see gnograd.h.
  function gnograd_neighbors_nearest(n_axes, n_dst, n_src, n_items, k, own, destinations, sources, &
      & period, dst_items, src_items, handle) result(status) &
      & bind(c, name="gnograd_neighbors_nearest")
    integer(c_int64_t), value :: n_axes, n_dst, n_src, n_items, k, own
    real(c_double), intent(in) :: destinations(n_axes, n_dst), sources(n_axes, n_src)
    real(c_double), intent(in) :: period(n_axes)
    integer(c_int64_t), intent(in) :: dst_items(n_items + 1), src_items(n_items + 1)
    type(c_ptr), intent(out) :: handle
    integer(c_int) :: status
    type(search_type) :: wanted(1)
    type(error_type), allocatable :: error

    handle = c_null_ptr
    if (k < 0) then
      call fail(error, code_value, "knn: k is "//text(k)//", must not be negative")
    else
      wanted%most = k
      wanted%nearest_first = .true.
      call search("knn", destinations, sources, period, dst_items, src_items, own, wanted, handle, &
        & error)
    end if
    status = status_of(error)
  end function gnograd_neighbors_nearest

  !> Check what the two have in common, search, and keep what is found.
  subroutine search(where, destinations, sources, period, dst_items, src_items, own, wanted, &
      & handle, error)
    character(len=*), intent(in) :: where
    real(c_double), intent(in), contiguous :: destinations(:, :), sources(:, :), period(:)
    integer(c_int64_t), intent(in), contiguous :: dst_items(:), src_items(:)
    integer(c_int64_t), intent(in) :: own
    type(search_type), intent(inout) :: wanted(:)
    type(c_ptr), intent(inout) :: handle
    type(error_type), allocatable, intent(out) :: error
    type(found_type), pointer :: found
    integer :: stat

    if (size(period) == 0) call fail(error, code_value, where//": d is 0, needs 1 or more")
    if (.not. all(period >= 0 .and. period <= huge(period))) call fail(error, code_value, where// &
      & ": period must not be negative, and finite")
    if (.not. allocated(error)) &
      & call check_items(where, "dst_items", dst_items, size(destinations, 2, c_int64_t), error)
    if (.not. allocated(error)) &
      & call check_items(where, "src_items", src_items, size(sources, 2, c_int64_t), error)
    if (.not. allocated(error)) call check_arithmetic(error)
    if (allocated(error)) return
    wanted%include_self = own < 0
    wanted%own = own
    allocate (found, stat=stat)
    call check_allocation(stat, where, error)
    if (allocated(error)) return
    call find_near(where, sources, destinations, period, wanted, found%searches, error, src_items, &
      & dst_items, base=0_c_int64_t)
    if (allocated(error)) then
      deallocate (found)
    else
      handle = c_loc(found)
    end if
  end subroutine search

  !> Raise an error unless items begin with 0, end with the number of points and never descend.
  subroutine check_items(where, name, items, n_points, error)
    character(len=*), intent(in) :: where, name
    integer(c_int64_t), intent(in), contiguous :: items(:)
    integer(c_int64_t), intent(in) :: n_points
    type(error_type), allocatable, intent(out) :: error

    if (n_points > huge(0_c_int32_t)) then
      call fail(error, code_value, where//": "//text(n_points)//" points are more than 2^31-1")
    else if (size(items) < 2) then
      call fail(error, code_value, where//": n_items must be 1 or more")
    else if (items(1) /= 0 .or. items(size(items)) /= n_points .or. &
        & any(items(2:) < items(:size(items) - 1))) then
      call fail(error, code_value, where//": "//name//" must ascend from 0 to the "// &
        & text(n_points)//" points")
    end if
  end subroutine check_items

  !> Number of pairs; see gnograd.h.
  function gnograd_neighbors_n_edges(handle, number) result(n) &
      & bind(c, name="gnograd_neighbors_n_edges")
    type(c_ptr), value :: handle
    integer(c_int64_t), value :: number
    integer(c_int64_t) :: n
    type(found_type), pointer :: found

    call c_f_pointer(handle, found)
    n = size(found%searches(number + 1)%indices, kind=c_int64_t)
  end function gnograd_neighbors_n_edges

  !> Copy the pairs; see gnograd.h.
  subroutine gnograd_neighbors_copy(handle, number, offsets, indices) &
      & bind(c, name="gnograd_neighbors_copy")
    type(c_ptr), value :: handle
    integer(c_int64_t), value :: number
    integer(c_int64_t), intent(out) :: offsets(0:*)
    integer(c_int32_t), intent(out) :: indices(0:*)
    type(found_type), pointer :: found

    call c_f_pointer(handle, found)
    associate (pairs => found%searches(number + 1))
      offsets(0:size(pairs%offsets, kind=c_int64_t) - 1) = pairs%offsets
      indices(0:size(pairs%indices, kind=c_int64_t) - 1) = pairs%indices
    end associate
  end subroutine gnograd_neighbors_copy

  !> Free what was found; a null handle is ignored.
  subroutine gnograd_neighbors_free(handle) bind(c, name="gnograd_neighbors_free")
    type(c_ptr), value :: handle
    type(found_type), pointer :: found

    if (.not. c_associated(handle)) return
    call c_f_pointer(handle, found)
    deallocate (found)
  end subroutine gnograd_neighbors_free

  !> Images in a periodic cell; see gnograd.h.
  subroutine gnograd_neighbors_images(n_axes, n_points, n_images, full, radius, points, cell, &
      & base, point, image_shifts, candidates, images, offsets, indices, shifts, distances, &
      & vectors) &
      & bind(c, name="gnograd_neighbors_images")
    integer(c_int64_t), value :: n_axes, n_points, n_images
    integer(c_int), value :: full
    real(c_double), value :: radius
    real(c_double), intent(in), target :: points(n_axes, n_points), cell(n_axes, n_axes)
    integer(c_int32_t), intent(in), target :: base(n_axes, n_points), point(0:n_images - 1)
    integer(c_int32_t), intent(in), target :: image_shifts(n_axes, 0:n_images - 1)
    integer(c_int64_t), intent(in), target :: candidates(0:n_points)
    integer(c_int32_t), intent(in), target :: images(0:*)
    integer(c_int64_t), intent(inout) :: offsets(0:n_points)
    integer(c_int32_t), intent(inout), optional :: indices(0:*), shifts(n_axes, 0:*)
    real(c_double), intent(inout), optional :: distances(0:*), vectors(n_axes, 0:*)
    type(candidates_type) :: given

    given%radius = radius
    given%full = full /= 0
    given%points => points
    given%cell => cell
    given%base => base
    given%point(0:) => point
    given%shifts(1:, 0:) => image_shifts
    given%offsets(0:) => candidates
    given%images(0:) => images(0:candidates(n_points) - 1)
    if (present(indices)) then
      associate (last => offsets(n_points) - 1)
        call list_images(given, offsets, indices(0:last), shifts(:, 0:last), distances(0:last), &
          & vectors(:, 0:last))
      end associate
    else
      call count_images(given, offsets)
    end if
  end subroutine gnograd_neighbors_images

end module gnograd_capi_near_points

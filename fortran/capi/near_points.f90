! SPDX-License-Identifier: MIT

!> Near points for C: an opaque handle of what was found, as its size is known only then.
module gnograd_capi_near_points
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_int32_t, c_double, c_ptr, c_loc, &
    & c_null_ptr, c_f_pointer, c_associated
  use gnograd_core_arithmetic, only: check_arithmetic
  use gnograd_core_cell_images, only: candidates_type, count_images, list_images
  use gnograd_core_error, only: error_type, fail, text, check_allocation, check_least, code_index, &
    & code_value
  use gnograd_core_near_points, only: find_near, is_length, search_type, neighbors_type
  use gnograd_entries_arrays, only: require, view, view_if_given
  use gnograd_entries_status, only: status_of
  implicit none
  private

  !> Results of several searches.
  type :: found_type
    type(neighbors_type), allocatable :: searches(:)
  end type found_type

  !> Points among which, and around which is searched.
  type :: points_type
    !> [n_axes, n]
    real(c_double), pointer, contiguous :: destinations(:, :), sources(:, :)
    real(c_double), pointer, contiguous :: period(:)
    !> First point of every item, and the end
    integer(c_int64_t), pointer, contiguous :: dst_items(:), src_items(:)
  end type points_type

contains

  !> All within radii, or some of them; see gnograd.h.
  function gnograd_neighbors_within(n_axes, n_dst, n_src, n_items, n_radii, max_neighbors, &
      & at_random, seed, own, destinations, sources, period, dst_items, src_items, radii, handle) &
      & result(status) bind(c, name="gnograd_neighbors_within")
    integer(c_int64_t), value :: n_axes, n_dst, n_src, n_items, n_radii, max_neighbors, seed, own
    integer(c_int), value :: at_random
    type(c_ptr), value :: destinations, sources, period, dst_items, src_items, radii
    type(c_ptr), intent(out), optional :: handle
    integer(c_int) :: status
    type(points_type) :: points
    real(c_double), pointer, contiguous :: radius(:)
    type(search_type) :: wanted(n_radii)
    type(error_type), allocatable :: error
    character(len=*), parameter :: where = "neighbors"
    integer(c_int64_t) :: k

    call read_points("neighbors_within", n_axes, n_dst, n_src, n_items, destinations, sources, &
      & period, dst_items, src_items, handle, points, error)
    call view(radii, n_radii, radius, "neighbors_within", "radii", error)
    call check_least(where, "n_radii", n_radii, 0, error)
    do k = 1, size(radius)
      if (.not. (is_length(radius(k)) .or. allocated(error))) call fail(error, code_value, &
        & where//": radii["//text(k - 1)//"] must not be negative")
    end do
    if (.not. allocated(error)) then
      wanted%radius = radius
      if (max_neighbors >= 0) wanted%most = max_neighbors
      wanted%by_hash = at_random /= 0
      wanted%seed = seed
      call search(where, points, own, wanted, handle, error)
    end if
    status = status_of(error)
  end function gnograd_neighbors_within

  !> The k nearest; see gnograd.h.
  function gnograd_neighbors_nearest(n_axes, n_dst, n_src, n_items, k, own, destinations, sources, &
      & period, dst_items, src_items, handle) result(status) &
      & bind(c, name="gnograd_neighbors_nearest")
    integer(c_int64_t), value :: n_axes, n_dst, n_src, n_items, k, own
    type(c_ptr), value :: destinations, sources, period, dst_items, src_items
    type(c_ptr), intent(out), optional :: handle
    integer(c_int) :: status
    type(points_type) :: points
    type(search_type) :: wanted(1)
    type(error_type), allocatable :: error

    call read_points("neighbors_nearest", n_axes, n_dst, n_src, n_items, destinations, sources, &
      & period, dst_items, src_items, handle, points, error)
    if (k < 0 .and. .not. allocated(error)) &
      & call fail(error, code_value, "knn: k is "//text(k)//", must not be negative")
    if (.not. allocated(error)) then
      wanted%most = k
      wanted%nearest_first = .true.
      call search("knn", points, own, wanted, handle, error)
    end if
    status = status_of(error)
  end function gnograd_neighbors_nearest

  !> The arrays that the two have in common; the handle is null as yet.
  subroutine read_points(where, n_axes, n_dst, n_src, n_items, destinations, sources, period, &
      & dst_items, src_items, handle, points, error)
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    integer(c_int64_t), intent(in) :: n_axes, n_dst, n_src, n_items
    type(c_ptr), intent(in) :: destinations, sources, period, dst_items, src_items
    type(c_ptr), intent(out), optional :: handle
    type(points_type), intent(out) :: points
    type(error_type), allocatable, intent(out) :: error

    call require(present(handle), where, "found", error)
    if (present(handle)) handle = c_null_ptr
    call view(destinations, n_axes, n_dst, points%destinations, where, "destinations", error)
    call view(sources, n_axes, n_src, points%sources, where, "sources", error)
    call view(period, n_axes, points%period, where, "period", error)
    call view(dst_items, n_items + 1, points%dst_items, where, "dst_items", error)
    call view(src_items, n_items + 1, points%src_items, where, "src_items", error)
  end subroutine read_points

  !> Check the points, search, and keep what is found.
  subroutine search(where, points, own, wanted, handle, error)
    character(len=*), intent(in) :: where
    type(points_type), intent(in) :: points
    integer(c_int64_t), intent(in) :: own
    type(search_type), intent(inout) :: wanted(:)
    type(c_ptr), intent(inout) :: handle
    type(error_type), allocatable, intent(out) :: error
    type(found_type), pointer :: found
    integer :: stat

    if (size(points%period) == 0) call fail(error, code_value, where//": d is 0, needs 1 or more")
    if (.not. all(is_length(points%period) .and. ieee_is_finite(points%period))) &
      & call fail(error, code_value, where//": period must not be negative, and finite")
    if (.not. allocated(error)) call check_items(where, "dst_items", points%dst_items, &
      & size(points%destinations, 2, c_int64_t), error)
    if (.not. allocated(error)) call check_items(where, "src_items", points%src_items, &
      & size(points%sources, 2, c_int64_t), error)
    if (.not. allocated(error)) call check_arithmetic(error)
    if (allocated(error)) return
    wanted%include_self = own < 0
    wanted%own = own
    allocate (found, stat=stat)
    call check_allocation(stat, where, error)
    if (allocated(error)) return
    call find_near(where, points%sources, points%destinations, points%period, wanted, &
      & found%searches, error, points%src_items, points%dst_items, base=0_c_int64_t)
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

  !> The pairs of a search behind a handle; disassociated, with an error, if there are none.
  subroutine pairs_of(handle, number, where, pairs, error)
    type(c_ptr), intent(in) :: handle
    !> Number of the search, from 0 on
    integer(c_int64_t), intent(in) :: number
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    type(neighbors_type), pointer, intent(out) :: pairs
    type(error_type), allocatable, intent(out) :: error
    type(found_type), pointer :: found

    nullify (pairs)
    call require(c_associated(handle), where, "found", error)
    if (allocated(error)) return
    call c_f_pointer(handle, found)
    if (number < 0 .or. number >= size(found%searches)) then
      call fail(error, code_index, where//": number is "//text(number)//", needs 0 to "// &
        & text(size(found%searches, kind=c_int64_t) - 1))
    else
      pairs => found%searches(number + 1)
    end if
  end subroutine pairs_of

  !> Number of pairs; see gnograd.h.
  function gnograd_neighbors_n_edges(handle, number) result(n) &
      & bind(c, name="gnograd_neighbors_n_edges")
    type(c_ptr), value :: handle
    integer(c_int64_t), value :: number
    integer(c_int64_t) :: n
    type(neighbors_type), pointer :: pairs
    type(error_type), allocatable :: error

    n = 0
    call pairs_of(handle, number, "neighbors_n_edges", pairs, error)
    if (status_of(error) == 0) n = size(pairs%indices, kind=c_int64_t)
  end function gnograd_neighbors_n_edges

  !> Copy the pairs; see gnograd.h.
  subroutine gnograd_neighbors_copy(handle, number, offsets, indices) &
      & bind(c, name="gnograd_neighbors_copy")
    type(c_ptr), value :: handle, offsets, indices
    integer(c_int64_t), value :: number
    type(neighbors_type), pointer :: pairs
    integer(c_int64_t), pointer, contiguous :: to_offsets(:)
    integer(c_int32_t), pointer, contiguous :: to_indices(:)
    type(error_type), allocatable :: error
    character(len=*), parameter :: where = "neighbors_copy"

    call pairs_of(handle, number, where, pairs, error)
    if (status_of(error) /= 0) return
    call view(offsets, size(pairs%offsets, kind=c_int64_t), to_offsets, where, "offsets", error)
    call view(indices, size(pairs%indices, kind=c_int64_t), to_indices, where, "indices", error)
    if (status_of(error) /= 0) return
    to_offsets(:) = pairs%offsets
    to_indices(:) = pairs%indices
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
    type(c_ptr), value :: points, cell, base, point, image_shifts, candidates, images, offsets, &
      & indices, shifts, distances, vectors
    type(candidates_type) :: given
    integer(c_int64_t), pointer, contiguous :: firsts(:), candidate(:)
    integer(c_int32_t), pointer, contiguous :: integers(:), to_indices(:)
    integer(c_int32_t), pointer, contiguous :: rows(:, :), to_shifts(:, :)
    real(c_double), pointer, contiguous :: to_distances(:), to_vectors(:, :)
    type(error_type), allocatable :: error
    character(len=*), parameter :: where = "neighbors_images"

    given%radius = radius
    given%full = full /= 0
    call view(points, n_axes, n_points, given%points, where, "points", error)
    call view(cell, n_axes, n_axes, given%cell, where, "cell", error)
    call view(base, n_axes, n_points, given%base, where, "base", error)
    call view(point, n_images, integers, where, "point", error)
    given%point(0:) => integers
    call view(image_shifts, n_axes, n_images, rows, where, "image_shifts", error)
    given%shifts(1:, 0:) => rows
    call view(candidates, n_points + 1, candidate, where, "candidates", error)
    given%offsets(0:) => candidate
    call view(offsets, n_points + 1, firsts, where, "offsets", error)
    if (status_of(error) /= 0) return
    call view(images, candidate(n_points + 1), integers, where, "images", error)
    given%images(0:) => integers
    call view_if_given(indices, firsts(n_points + 1), to_indices)
    if (associated(to_indices)) then
      call view(shifts, n_axes, firsts(n_points + 1), to_shifts, where, "shifts", error)
      call view(distances, firsts(n_points + 1), to_distances, where, "distances", error)
      call view(vectors, n_axes, firsts(n_points + 1), to_vectors, where, "vectors", error)
    end if
    if (status_of(error) /= 0) return
    if (associated(to_indices)) then
      call list_images(given, firsts, to_indices, to_shifts, to_distances, to_vectors)
    else
      call count_images(given, firsts)
    end if
  end subroutine gnograd_neighbors_images

end module gnograd_capi_near_points

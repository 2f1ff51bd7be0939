! SPDX-License-Identifier: MIT

!> Graphs for C: an opaque handle, made once, freed by its owner. Tapes that use it hold it as well.
module gnograd_capi_graph
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_int32_t, c_ptr, c_loc, c_null_ptr, &
    & c_f_pointer, c_associated
  use gnograd_core_error, only: error_type, check_allocation, check_least
  use gnograd_core_graph, only: graph_type, share, release, lend
  use gnograd_core_graph_view, only: graph_view, csc_view
  use gnograd_entries_arrays, only: graph_of, require, view, view_if_given
  use gnograd_entries_status, only: status_of
  implicit none
  private

contains

  !> Validate, transpose, keep; see gnograd.h.
  function gnograd_graph_create(n_dst, n_src, n_edges, offsets, indices, edge_ids, handle) &
      & result(status) bind(c, name="gnograd_graph_create")
    integer(c_int64_t), value :: n_dst, n_src, n_edges
    type(c_ptr), value :: offsets, indices
    integer(c_int64_t), intent(in), optional :: edge_ids(n_edges)
    type(c_ptr), intent(out), optional :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    integer(c_int64_t), pointer, contiguous :: rows(:), sources(:)
    type(error_type), allocatable :: error

    call begin("graph_create", handle, graph, error)
    call check_sizes("graph_create", n_dst, n_src, n_edges, error)
    call view(offsets, n_dst + 1, rows, "graph_create", "offsets", error)
    call view(indices, n_edges, sources, "graph_create", "indices", error)
    if (.not. allocated(error)) &
      & call graph%init_zero_based(rows, sources, n_src, error, edge_ids)
    call hand_over(graph, error, handle)
    status = status_of(error)
  end function gnograd_graph_create

  !> Check, sort, transpose, keep; see gnograd.h.
  function gnograd_graph_from_edges(n_dst, n_src, n_edges, self_loops, src, dst, handle) &
      & result(status) bind(c, name="gnograd_graph_from_edges")
    integer(c_int64_t), value :: n_dst, n_src, n_edges
    integer(c_int), value :: self_loops
    type(c_ptr), value :: src, dst
    type(c_ptr), intent(out), optional :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    integer(c_int64_t), pointer, contiguous :: sources(:), destinations(:)
    type(error_type), allocatable :: error

    call begin("graph_from_edges", handle, graph, error)
    call check_sizes("graph_from_edges", n_dst, n_src, n_edges, error)
    call view(src, n_edges, sources, "graph_from_edges", "src", error)
    call view(dst, n_edges, destinations, "graph_from_edges", "dst", error)
    if (.not. allocated(error)) &
      & call graph%init_from_edges(sources, destinations, n_src, n_dst, int(self_loops), error)
    call hand_over(graph, error, handle)
    status = status_of(error)
  end function gnograd_graph_from_edges

  !> A graph of arrays that stay the caller's, unchecked; see gnograd.h.
  function gnograd_graph_lend(n_dst, n_src, n_edges, dst_offsets, dst_indices, dst_edge, &
      & src_offsets, src_indices, src_edge, src_position, handle) result(status) &
      & bind(c, name="gnograd_graph_lend")
    integer(c_int64_t), value :: n_dst, n_src, n_edges
    type(c_ptr), value :: dst_offsets, dst_indices, dst_edge
    type(c_ptr), value :: src_offsets, src_indices, src_edge, src_position
    type(c_ptr), intent(out), optional :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    type(graph_view) :: arrays
    integer(c_int64_t), pointer, contiguous :: rows(:)
    type(error_type), allocatable :: error

    call begin("graph_lend", handle, graph, error)
    call check_sizes("graph_lend", n_dst, n_src, n_edges, error)
    arrays%n_src = n_src
    arrays%n_dst = n_dst
    arrays%n_edges = n_edges
    call see("dst_", dst_offsets, dst_indices, n_dst, n_edges, arrays%by_dst, error)
    call see("src_", src_offsets, src_indices, n_src, n_edges, arrays%by_src, error)
    call view_if_given(dst_edge, n_edges, rows)
    if (associated(rows)) arrays%by_dst%edge(0:) => rows
    call view(src_edge, n_edges, rows, "graph_lend", "src_edge", error)
    arrays%by_src%edge(0:) => rows
    call view_if_given(src_position, n_edges, rows)
    if (associated(rows)) arrays%by_src%position(0:) => rows
    if (.not. allocated(error)) call lend(arrays, graph)
    call hand_over(graph, error, handle)
    status = status_of(error)
  end function gnograd_graph_lend

  !> Refuse negative sizes; an earlier error stays.
  subroutine check_sizes(where, n_dst, n_src, n_edges, error)
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    integer(c_int64_t), intent(in) :: n_dst, n_src, n_edges
    type(error_type), allocatable, intent(inout) :: error

    call check_least(where, "n_dst", n_dst, 0, error)
    call check_least(where, "n_src", n_src, 0, error)
    call check_least(where, "n_edges", n_edges, 0, error)
  end subroutine check_sizes

  !> Offsets and nodes of one order.
  subroutine see(name, offsets, indices, n_rows, n_edges, seen, error)
    !> What the names of both begin with
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: offsets, indices
    integer(c_int64_t), intent(in) :: n_rows, n_edges
    type(csc_view), intent(inout) :: seen
    type(error_type), allocatable, intent(inout) :: error
    integer(c_int64_t), pointer, contiguous :: wide(:)
    integer(c_int32_t), pointer, contiguous :: narrow(:)

    call view(offsets, n_rows + 1, wide, "graph_lend", name//"offsets", error)
    seen%offsets(0:) => wide
    call view(indices, n_edges, narrow, "graph_lend", name//"indices", error)
    seen%indices(0:) => narrow
  end subroutine see

  !> Memory for a graph, whose handle is null as yet; null after an error.
  subroutine begin(where, handle, graph, error)
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    type(c_ptr), intent(out), optional :: handle
    type(graph_type), pointer, intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error
    integer :: stat

    graph => null()
    call require(present(handle), where, "graph", error)
    if (.not. present(handle)) return
    handle = c_null_ptr
    allocate (graph, stat=stat)
    call check_allocation(stat, "graph", error)
  end subroutine begin

  !> The handle of a graph, with its first holder; after an error the graph is freed.
  subroutine hand_over(graph, error, handle)
    !> Associated unless it could not be had
    type(graph_type), pointer, intent(inout) :: graph
    type(error_type), allocatable, intent(in) :: error
    type(c_ptr), intent(inout), optional :: handle

    if (.not. allocated(error)) then
      call share(graph)
      handle = c_loc(graph)
    else if (associated(graph)) then
      deallocate (graph)
    end if
  end subroutine hand_over

  !> Addresses of the arrays; see gnograd.h.
  subroutine gnograd_graph_arrays(handle, arrays) bind(c, name="gnograd_graph_arrays")
    type(c_ptr), value :: handle
    type(c_ptr), intent(out), optional :: arrays(7)
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    type(error_type), allocatable :: error

    call graph_of(handle, "graph_arrays", graph, error)
    call require(present(arrays), "graph_arrays", "arrays", error)
    if (status_of(error) /= 0) return
    seen = graph%view()
    arrays(:) = c_null_ptr
    arrays(1) = c_loc(seen%by_dst%offsets)
    arrays(2) = c_loc(seen%by_dst%indices)
    if (associated(seen%by_dst%edge)) arrays(3) = c_loc(seen%by_dst%edge)
    arrays(4) = c_loc(seen%by_src%offsets)
    arrays(5) = c_loc(seen%by_src%indices)
    arrays(6) = c_loc(seen%by_src%edge)
    if (associated(seen%by_src%position)) arrays(7) = c_loc(seen%by_src%position)
  end subroutine gnograd_graph_arrays

  !> Number of edges; see gnograd.h.
  function gnograd_graph_n_edges(handle) result(n) bind(c, name="gnograd_graph_n_edges")
    type(c_ptr), value :: handle
    integer(c_int64_t) :: n
    type(graph_type), pointer :: graph
    type(error_type), allocatable :: error

    n = 0
    call graph_of(handle, "graph_n_edges", graph, error)
    if (status_of(error) == 0) n = graph%n_edges
  end function gnograd_graph_n_edges

  !> Nonzero if edges are in the order of their rows; see gnograd.h.
  function gnograd_graph_is_ordered(handle) result(ordered) &
      & bind(c, name="gnograd_graph_is_ordered")
    type(c_ptr), value :: handle
    integer(c_int) :: ordered
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    type(error_type), allocatable :: error

    ordered = 0
    call graph_of(handle, "graph_is_ordered", graph, error)
    if (status_of(error) /= 0) return
    seen = graph%view()
    ordered = merge(0_c_int, 1_c_int, associated(seen%by_dst%edge))
  end function gnograd_graph_is_ordered

  !> Free a graph; a null handle is ignored.
  subroutine gnograd_graph_free(handle) bind(c, name="gnograd_graph_free")
    type(c_ptr), value :: handle
    type(graph_type), pointer :: graph

    if (.not. c_associated(handle)) return
    call c_f_pointer(handle, graph)
    call release(graph)
  end subroutine gnograd_graph_free

  !> Copy the edges ordered by destination; see gnograd.h.
  subroutine gnograd_graph_by_dst(handle, offsets, indices, edge) &
      & bind(c, name="gnograd_graph_by_dst")
    type(c_ptr), value :: handle, offsets, indices, edge
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    integer(c_int64_t), pointer, contiguous :: copied(:)
    integer(c_int64_t) :: p
    type(error_type), allocatable :: error

    call graph_of(handle, "graph_by_dst", graph, error)
    if (associated(graph)) seen = graph%view()
    call copy("graph_by_dst", seen%n_dst, seen%n_edges, seen%by_dst, offsets, indices, error)
    if (status_of(error) /= 0) return
    call view_if_given(edge, seen%n_edges, copied)
    if (.not. associated(copied)) return
    if (associated(seen%by_dst%edge)) then
      copied(:) = seen%by_dst%edge
    else
      do p = 1, seen%n_edges
        copied(p) = p - 1
      end do
    end if
  end subroutine gnograd_graph_by_dst

  !> Copy the edges ordered by source; see gnograd.h.
  subroutine gnograd_graph_by_src(handle, offsets, indices, edge, position) &
      & bind(c, name="gnograd_graph_by_src")
    type(c_ptr), value :: handle, offsets, indices, edge, position
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    integer(c_int64_t), pointer, contiguous :: edges(:), positions(:)
    type(error_type), allocatable :: error

    call graph_of(handle, "graph_by_src", graph, error)
    if (associated(graph)) seen = graph%view()
    call view(edge, seen%n_edges, edges, "graph_by_src", "edge", error)
    call view(position, seen%n_edges, positions, "graph_by_src", "position", error)
    call copy("graph_by_src", seen%n_src, seen%n_edges, seen%by_src, offsets, indices, error)
    if (status_of(error) /= 0) return
    edges(:) = seen%by_src%edge
    if (associated(seen%by_src%position)) then
      positions(:) = seen%by_src%position
    else
      positions(:) = seen%by_src%edge
    end if
  end subroutine gnograd_graph_by_src

  !> Copy offsets and nodes of one order; nothing after an error.
  subroutine copy(where, n_rows, n_edges, from, offsets, indices, error)
    !> Function without gnograd_
    character(len=*), intent(in) :: where
    integer(c_int64_t), intent(in) :: n_rows, n_edges
    type(csc_view), intent(in) :: from
    type(c_ptr), intent(in) :: offsets, indices
    type(error_type), allocatable, intent(inout) :: error
    integer(c_int64_t), pointer, contiguous :: wide(:)
    integer(c_int32_t), pointer, contiguous :: narrow(:)

    call view(offsets, n_rows + 1, wide, where, "offsets", error)
    call view(indices, n_edges, narrow, where, "indices", error)
    if (allocated(error)) return
    wide(:) = from%offsets
    narrow(:) = from%indices
  end subroutine copy

end module gnograd_capi_graph

! SPDX-License-Identifier: MIT

!> Graphs for C: an opaque handle, made once, freed by its owner. Tapes that use it hold it as well.
module gnograd_capi_graph
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_int32_t, c_ptr, c_loc, c_null_ptr, &
    & c_f_pointer, c_associated
  use gnograd_core_error, only: error_type, check_allocation
  use gnograd_core_graph, only: graph_type, share, release, lend
  use gnograd_core_graph_view, only: graph_view, csc_view
  use gnograd_entries_status, only: status_of
  implicit none
  private
  public :: graph_from_handle

contains

  !> The graph behind a handle.
  subroutine graph_from_handle(handle, graph)
    type(c_ptr), intent(in) :: handle
    type(graph_type), pointer, intent(out) :: graph

    call c_f_pointer(handle, graph)
  end subroutine graph_from_handle

  !> Validate, transpose, keep; see gnograd.h.
  function gnograd_graph_create(n_dst, n_src, n_edges, offsets, indices, edge_ids, handle) &
      & result(status) bind(c, name="gnograd_graph_create")
    integer(c_int64_t), value :: n_dst, n_src, n_edges
    integer(c_int64_t), intent(in) :: offsets(n_dst + 1), indices(n_edges)
    integer(c_int64_t), intent(in), optional :: edge_ids(n_edges)
    type(c_ptr), intent(out) :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    type(error_type), allocatable :: error
    integer :: stat

    graph => null()
    allocate (graph, stat=stat)
    call check_allocation(stat, "graph", error)
    if (.not. allocated(error)) &
      & call graph%init_zero_based(offsets, indices, n_src, error, edge_ids)
    call hand_over(graph, error, handle)
    status = status_of(error)
  end function gnograd_graph_create

  !> Check, sort, transpose, keep; see gnograd.h.
  function gnograd_graph_from_edges(n_dst, n_src, n_edges, self_loops, src, dst, handle) &
      & result(status) bind(c, name="gnograd_graph_from_edges")
    integer(c_int64_t), value :: n_dst, n_src, n_edges
    integer(c_int), value :: self_loops
    integer(c_int64_t), intent(in) :: src(n_edges), dst(n_edges)
    type(c_ptr), intent(out) :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    type(error_type), allocatable :: error
    integer :: stat

    graph => null()
    allocate (graph, stat=stat)
    call check_allocation(stat, "graph", error)
    if (.not. allocated(error)) &
      & call graph%init_from_edges(src, dst, n_src, n_dst, int(self_loops), error)
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
    type(c_ptr), intent(out) :: handle
    integer(c_int) :: status
    type(graph_type), pointer :: graph
    type(graph_view) :: arrays
    type(error_type), allocatable :: error
    integer :: stat

    graph => null()
    allocate (graph, stat=stat)
    call check_allocation(stat, "graph", error)
    if (.not. allocated(error)) then
      arrays%n_src = n_src
      arrays%n_dst = n_dst
      arrays%n_edges = n_edges
      call see(dst_offsets, dst_indices, dst_edge, c_null_ptr, n_dst, n_edges, arrays%by_dst)
      call see(src_offsets, src_indices, src_edge, src_position, n_src, n_edges, arrays%by_src)
      call lend(arrays, graph)
    end if
    call hand_over(graph, error, handle)
    status = status_of(error)
  end function gnograd_graph_lend

  !> Arrays at these addresses, some of which may be null.
  subroutine see(offsets, indices, edge, position, n_rows, n_edges, seen)
    type(c_ptr), intent(in) :: offsets, indices, edge, position
    integer(c_int64_t), intent(in) :: n_rows, n_edges
    type(csc_view), intent(out) :: seen
    integer(c_int64_t), pointer, contiguous :: wide(:)
    integer(c_int32_t), pointer, contiguous :: narrow(:)

    call c_f_pointer(offsets, wide, [n_rows + 1])
    seen%offsets(0:) => wide
    call c_f_pointer(indices, narrow, [n_edges])
    seen%indices(0:) => narrow
    if (c_associated(edge)) then
      call c_f_pointer(edge, wide, [n_edges])
      seen%edge(0:) => wide
    end if
    if (c_associated(position)) then
      call c_f_pointer(position, wide, [n_edges])
      seen%position(0:) => wide
    end if
  end subroutine see

  !> The handle of a graph, with its first holder; null after an error.
  subroutine hand_over(graph, error, handle)
    !> Associated unless it could not be had
    type(graph_type), pointer, intent(inout) :: graph
    type(error_type), allocatable, intent(in) :: error
    type(c_ptr), intent(out) :: handle

    handle = c_null_ptr
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
    type(c_ptr), intent(out) :: arrays(7)
    type(graph_type), pointer :: graph
    type(graph_view) :: seen

    call c_f_pointer(handle, graph)
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

    call c_f_pointer(handle, graph)
    n = graph%n_edges
  end function gnograd_graph_n_edges

  !> Nonzero if edges are in the order of their rows; see gnograd.h.
  function gnograd_graph_is_ordered(handle) result(ordered) &
      & bind(c, name="gnograd_graph_is_ordered")
    type(c_ptr), value :: handle
    integer(c_int) :: ordered
    type(graph_type), pointer :: graph
    type(graph_view) :: seen

    call c_f_pointer(handle, graph)
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
    type(c_ptr), value :: handle
    integer(c_int64_t), intent(out) :: offsets(0:*)
    integer(c_int32_t), intent(out) :: indices(0:*)
    integer(c_int64_t), intent(out), optional :: edge(0:*)
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    integer(c_int64_t) :: p

    call c_f_pointer(handle, graph)
    seen = graph%view()
    associate (rows => seen%by_dst, n => graph%n_edges)
      offsets(0:graph%n_dst) = rows%offsets
      indices(0:n - 1) = rows%indices
      if (.not. present(edge)) return
      if (associated(rows%edge)) then
        edge(0:n - 1) = rows%edge
      else
        do p = 0, n - 1
          edge(p) = p
        end do
      end if
    end associate
  end subroutine gnograd_graph_by_dst

  !> Copy the edges ordered by source; see gnograd.h.
  subroutine gnograd_graph_by_src(handle, offsets, indices, edge, position) &
      & bind(c, name="gnograd_graph_by_src")
    type(c_ptr), value :: handle
    integer(c_int64_t), intent(out) :: offsets(0:*)
    integer(c_int32_t), intent(out) :: indices(0:*)
    integer(c_int64_t), intent(out) :: edge(0:*), position(0:*)
    type(graph_type), pointer :: graph
    type(graph_view) :: seen
    integer(c_int64_t) :: n

    call c_f_pointer(handle, graph)
    n = graph%n_edges
    seen = graph%view()
    associate (columns => seen%by_src)
      offsets(0:graph%n_src) = columns%offsets
      indices(0:n - 1) = columns%indices
      edge(0:n - 1) = columns%edge
      if (associated(columns%position)) then
        position(0:n - 1) = columns%position
      else
        position(0:n - 1) = columns%edge
      end if
    end associate
  end subroutine gnograd_graph_by_src

end module gnograd_capi_graph

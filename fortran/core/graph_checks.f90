! SPDX-License-Identifier: MIT

!> Checks of the arrays that a graph is built from. A message names the entry that is wrong, counted
!> as the caller counts.
module gnograd_core_graph_checks
  use gnograd_core_kinds, only: int32, int64
  use gnograd_core_error, only: error_type, fail, text, text_length, check_allocation, code_value, &
    & code_index
  implicit none
  private
  public :: check_offsets, check_nodes, check_ends, check_permutation

contains

  !> Offsets monotone from 0 to the number of edges, sources in range. Messages count as the caller.
  pure subroutine check_offsets(base, offsets, indices, n_src, error)
    integer(int64), intent(in) :: base, offsets(0:), indices(0:), n_src
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: n_dst, n_edges, k

    n_dst = size(offsets, kind=int64) - 1
    n_edges = size(indices, kind=int64)
    if (n_dst < 0) then
      call fail(error, code_value, "graph: offsets is empty, needs n_dst+1 entries")
      return
    end if
    call check_nodes(n_src, n_dst, error)
    if (allocated(error)) return
    if (offsets(0) /= base) then
      call fail(error, code_value, "graph: the first entry of offsets must name the first edge")
    else if (offsets(n_dst) /= n_edges + base) then
      call fail(error, code_value, "graph: the last entry of offsets names "// &
        & text(offsets(n_dst) - base)//" edges, but indices has "//text(n_edges))
    end if
    if (allocated(error)) return
    do k = 1, n_dst
      if (offsets(k) < offsets(k - 1)) then
        call fail(error, code_value, "graph: offsets decreases at destination "// &
          & text(k - 1 + base))
        return
      end if
    end do
    do k = 0, n_edges - 1
      if (indices(k) < base .or. indices(k) - base >= n_src) then
        call fail(error, code_index, "graph: "//entry("indices", k, base)//" is "// &
          & text(indices(k))//", not one of "//text(n_src)//" source nodes")
        return
      end if
    end do
  end subroutine check_offsets

  !> Numbers of nodes that fit into 32 bits.
  pure subroutine check_nodes(n_src, n_dst, error)
    integer(int64), intent(in) :: n_src, n_dst
    type(error_type), allocatable, intent(out) :: error

    if (min(n_src, n_dst) < 0 .or. max(n_src, n_dst) > huge(0_int32)) &
      & call fail(error, code_value, "graph: n_src and n_dst must lie between 0 and 2^31-1")
  end subroutine check_nodes

  !> Check that ends of edges are nodes, counted from 0. Messages count as the caller does.
  pure subroutine check_ends(name, ends, n, kind, error, base)
    character(len=*), intent(in) :: name, kind
    integer(int64), intent(in) :: ends(0:), n
    type(error_type), allocatable, intent(out) :: error
    !> Number of the first node; 0 if absent
    integer(int64), intent(in), optional :: base
    integer(int64) :: first, p

    first = 0
    if (present(base)) first = base
    do p = 0, size(ends, kind=int64) - 1
      if (ends(p) < 0 .or. ends(p) >= n) then
        call fail(error, code_index, "graph: "//entry(name, p, first)//" is "// &
          & text(ends(p) + first)//", not one of "//text(n)//" "//kind//" nodes")
        return
      end if
    end do
  end subroutine check_ends

  !> An entry of an array as the caller writes it: (1) is the first one, or [0].
  pure function entry(name, place, base) result(string)
    character(len=*), intent(in) :: name
    !> Place, counted from 0, and the base of numbers
    integer(int64), intent(in) :: place, base
    character(len=len(name) + text_length(place + base) + 2) :: string

    string = name//merge("(", "[", base > 0)//text(place + base)//merge(")", "]", base > 0)
  end function entry

  !> Every row of the edge table belongs to exactly one edge. Messages count as the caller.
  pure subroutine check_permutation(base, edge_ids, n_edges, error)
    integer(int64), intent(in) :: base, edge_ids(0:), n_edges
    type(error_type), allocatable, intent(out) :: error
    logical, allocatable :: seen(:)
    integer(int64) :: p, row
    integer :: status

    if (size(edge_ids, kind=int64) /= n_edges) then
      call fail(error, code_value, "graph: edge_ids has "//text(size(edge_ids, kind=int64))// &
        & " entries, needs "//text(n_edges))
      return
    end if
    allocate (seen(0:n_edges - 1), source=.false., stat=status)
    call check_allocation(status, "graph", error)
    if (allocated(error)) return
    do p = 0, n_edges - 1
      if (edge_ids(p) < base .or. edge_ids(p) - base >= n_edges) then
        call fail(error, code_index, "graph: "//entry("edge_ids", p, base)//" is "// &
          & text(edge_ids(p))//", not one of "//text(n_edges)//" edges")
        return
      end if
      row = edge_ids(p) - base
      if (seen(row)) then
        call fail(error, code_value, "graph: edge_ids names edge "//text(row + base)//" twice")
        return
      end if
      seen(row) = .true.
    end do
  end subroutine check_permutation

end module gnograd_core_graph_checks

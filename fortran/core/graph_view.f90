! SPDX-License-Identifier: MIT

!> Sizes of a graph and pointers to its arrays, for kernels.
!>
!> The arrays belong to a graph_type, or to whoever calls the C interface with arrays of its own; a view
!> is valid as long as they are. Everything is counted from 0. There may be room for more edges than
!> there are: those behind the last offset belong to no row and are never read.
module gnograd_core_graph_view
  use gnograd_core_kinds, only: int32, int64
  implicit none
  private
  public :: graph_view, csc_view

  !> Edges grouped by the node at one end.
  type :: csc_view
    !> First position of every row, and behind the last one, [0:n_rows]
    integer(int64), pointer, contiguous :: offsets(:) => null()
    !> Node at the other end, [0:n_edges-1]
    integer(int32), pointer, contiguous :: indices(:) => null()
    !> Row of the caller's edge table, [0:n_edges-1]; null: the position itself
    integer(int64), pointer, contiguous :: edge(:) => null()
    !> Position of the edge in the destination-major order, [0:n_edges-1]; null: as edge
    integer(int64), pointer, contiguous :: position(:) => null()
  end type csc_view

  !> Graph with n_src source nodes and n_dst destination nodes.
  type :: graph_view
    integer(int64) :: n_src = 0
    integer(int64) :: n_dst = 0
    !> Rows of edge tables: the edges, or the room for them
    integer(int64) :: n_edges = 0
    !> Rows are destinations, indices are sources
    type(csc_view) :: by_dst
    !> Rows are sources, indices are destinations
    type(csc_view) :: by_src
  contains
    !> True when destinations and sources may be the same nodes
    procedure :: is_square
    !> True when some rows of edge tables belong to no edge
    procedure :: has_room
  end type graph_view

contains

  !> True when destinations and sources may be the same nodes.
  pure function is_square(self) result(square)
    class(graph_view), intent(in) :: self
    logical :: square

    square = self%n_src == self%n_dst
  end function is_square

  !> True when some rows of edge tables belong to no edge.
  pure function has_room(self) result(room)
    class(graph_view), intent(in) :: self
    logical :: room

    room = self%by_dst%offsets(self%n_dst) < self%n_edges
  end function has_room

end module gnograd_core_graph_view

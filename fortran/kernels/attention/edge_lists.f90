! SPDX-License-Identifier: MIT

!> Short lists of consecutive edges of a graph, whatever rows they belong to.
module gnograd_kernels_edge_lists
  use gnograd_core_graph_view, only: graph_view, csc_view
  use gnograd_core_kinds, only: int64
  use gnograd_primitives_rows, only: list_length, ahead
  implicit none
  private
  public :: edge_list_type

  !> Edges that are worked on together: consecutive ones of an order, in runs that share a row.
  type :: edge_list_type
    integer :: n = 0
    !> Source, destination, row of the edge table, position in the order by destination
    integer(int64), dimension(list_length) :: source, target, row, position
    !> Rows with edges here, the first edge of each, and the end
    integer :: n_runs = 0
    integer(int64) :: node(list_length)
    integer :: first(list_length + 1)
    !> The first row has edges before these, the last one has edges behind
    logical :: resumes = .false., continues = .false.
    !> Nodes at the other end of edges a little behind
    integer :: n_next = 0
    integer(int64) :: next(list_length)
  contains
    procedure :: fill => fill_edges
    procedure :: n_next_of => n_next_of_run
  end type edge_list_type

contains

  !> The n edges from place p of the order by source, or by destination.
  subroutine fill_edges(self, graph, by_source, p, n, row)
    class(edge_list_type), intent(inout) :: self
    type(graph_view), intent(in) :: graph
    logical, intent(in) :: by_source
    integer(int64), intent(in) :: p
    integer, intent(in) :: n
    !> The row of the first edge, or one before it; then that of the last
    integer(int64), intent(inout) :: row
    integer :: q

    if (by_source) then
      call find_runs(graph%by_src)
      call list(graph%by_src, self%source, self%target)
      self%row(:n) = graph%by_src%edge(p:p + n - 1)
      if (associated(graph%by_src%position)) then
        self%position(:n) = graph%by_src%position(p:p + n - 1)
      else
        self%position(:n) = self%row(:n)
      end if
    else
      call find_runs(graph%by_dst)
      call list(graph%by_dst, self%target, self%source)
      do q = 1, n
        self%position(q) = p + q - 1
      end do
      if (associated(graph%by_dst%edge)) then
        self%row(:n) = graph%by_dst%edge(p:p + n - 1)
      else
        self%row(:n) = self%position(:n)
      end if
    end if

  contains

    subroutine find_runs(order)
      type(csc_view), intent(in) :: order
      integer :: r, from

      r = 0
      from = 1
      do while (from <= n)
        do while (order%offsets(row + 1) < p + from)
          row = row + 1
        end do
        r = r + 1
        self%node(r) = row
        self%first(r) = from
        from = int(min(int(n, int64), order%offsets(row + 1) - p)) + 1
      end do
      self%n = n
      self%n_runs = r
      self%first(r + 1) = n + 1
      self%resumes = order%offsets(self%node(1)) < p
      self%continues = order%offsets(row + 1) > p + n
    end subroutine find_runs

    subroutine list(order, row_ends, other_ends)
      type(csc_view), intent(in) :: order
      integer(int64), intent(inout) :: row_ends(list_length), other_ends(list_length)
      integer :: r

      do r = 1, self%n_runs
        row_ends(self%first(r):self%first(r + 1) - 1) = self%node(r)
      end do
      other_ends(:n) = order%indices(p:p + n - 1)
      self%n_next = int(max(0_int64, min(int(n, int64), graph%n_edges - p - ahead)))
      self%next(:self%n_next) = order%indices(p + ahead:p + ahead + self%n_next - 1)
    end subroutine list

  end subroutine fill_edges

  !> Number of edges from first to last that have an entry in next.
  pure function n_next_of_run(self, first, last) result(n)
    class(edge_list_type), intent(in) :: self
    integer, intent(in) :: first, last
    integer :: n

    n = max(0, min(last, self%n_next) - first + 1)
  end function n_next_of_run

end module gnograd_kernels_edge_lists

! SPDX-License-Identifier: MIT

!> Tests of the graph, its transpose, and the partition of its rows.
module test_core
  use gnograd_core_error, only: error_type, code_index, code_value
  use gnograd_core_graph, only: graph_type, hold, release
  use gnograd_core_kinds, only: int64
  use gnograd_core_partition, only: split_rows, work_type
  use testing, only: test_type, check, run_test
  implicit none
  private
  public :: core_tests

  !> Rows of a heavy, an empty and many light destinations
  integer, parameter :: heavy = 50000, light = 20000

contains

  function core_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("checks are not lost", checks_are_not_lost), &
      & test_type("transpose", transpose_of_graph), &
      & test_type("transpose_with_edge_ids", transpose_with_edge_ids), &
      & test_type("degenerate_graphs", degenerate_graphs), &
      & test_type("wrong_graphs", wrong_graphs), &
      & test_type("graphs from int64", graphs_from_int64), &
      & test_type("graphs from edges", graphs_from_edges), &
      & test_type("graphs on the heap", graphs_on_the_heap), &
      & test_type("split_rows", pieces_of_equal_work), &
      & test_type("work_covers_every_edge_once", work_covers_every_edge_once)]
  end function core_tests

  !> A call behind a check clears the error; the test fails all the same.
  subroutine checks_are_not_lost(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: found

    call run_test(test_type("lost", lost), found)
    if (.not. allocated(found)) then
      call check(error, .false., "a check is lost")
    else
      call check(error, found%message == "does not hold", found%message)
    end if

  contains

    subroutine lost(error)
      type(error_type), allocatable, intent(out) :: error
      type(graph_type) :: graph

      call check(error, .false., "does not hold")
      call graph%init([1, 2], [1], 1, error)
    end subroutine lost

  end subroutine checks_are_not_lost

  !> Edges by source are the edges by destination, in stable order.
  subroutine transpose_of_graph(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph

    ! self-loop at 2, repeated edge 3 -> 1, destination 3 without edges
    call graph%init([1, 4, 6, 6], [3, 1, 3, 2, 1], 4, error)
    if (allocated(error)) return
    associate (columns => graph%by_src)
      call check(error, all(columns%offsets == [0, 2, 3, 5, 5]), "offsets")
      call check(error, all(columns%indices == [0, 1, 1, 0, 0]), "indices")
      call check(error, all(columns%edge == [1, 4, 3, 0, 2]), "edge")
      call check(error, .not. allocated(columns%position), "no edge_ids, no positions")
    end associate
    call check(error, .not. graph%is_square(), "3 destinations, 4 sources")
  end subroutine transpose_of_graph

  subroutine transpose_with_edge_ids(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph

    call graph%init([1, 3, 4], [2, 1, 2], 2, error, edge_ids=[3, 1, 2])
    if (allocated(error)) return
    call check(error, all(graph%by_dst%edge == [2, 0, 1]), "rows by destination")
    call check(error, all(graph%by_src%position == [1, 0, 2]), "positions by source")
    call check(error, all(graph%by_src%edge == [0, 2, 1]), "rows by source")
    ! a graph may be built again
    call graph%init([1, 2], [1], 1, error)
    if (allocated(error)) return
    call check(error, .not. allocated(graph%by_dst%edge), "edge_ids of the former graph")
  end subroutine transpose_with_edge_ids

  subroutine degenerate_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    integer :: none(0)

    call graph%init([1], none, 0, error)
    if (allocated(error)) return
    call check(error, graph%n_dst == 0 .and. graph%n_edges == 0, "no nodes")
    call graph%init([1, 1, 1], none, 5, error)
    if (allocated(error)) return
    call check(error, all(graph%by_src%offsets == 0), "no edges")
  end subroutine degenerate_graphs

  !> An error names what is wrong and leaves the graph as it was.
  subroutine wrong_graphs(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph

    call graph%init([1, 2], [1], 1, error)
    if (allocated(error)) return
    call expect([1, 3, 2], [1, 1], code_value, "offsets", error)
    call expect([1, 3], [1], code_value, "offsets", error)
    call expect([2, 2], [1], code_value, "offsets", error)
    call expect([1, 3], [1, 2], code_index, "indices(2)", error)
    call expect([1, 3], [1, 0], code_index, "indices(2)", error)
    call expect([1, 3], [1, 1], code_value, "twice", error, edge_ids=[2, 2])
    call expect([1, 3], [1, 1], code_index, "edge_ids(1)", error, edge_ids=[3, 1])
    call expect([1, 3], [1, 1], code_value, "edge_ids", error, edge_ids=[1])

  contains

    subroutine expect(offsets, indices, code, word, error, edge_ids)
      integer, intent(in) :: offsets(:), indices(:), code
      character(len=*), intent(in) :: word
      type(error_type), allocatable, intent(inout) :: error
      integer, intent(in), optional :: edge_ids(:)
      type(error_type), allocatable :: raised

      call graph%init(offsets, indices, 1, raised, edge_ids)
      call check(error, allocated(raised), "no error about "//word)
      if (.not. allocated(raised)) return
      call check(error, raised%code == code, "code of: "//raised%message)
      call check(error, index(raised%message, word) > 0, word//" in: "//raised%message)
      call check(error, graph%n_edges == 1, "graph changed")
    end subroutine expect
  end subroutine wrong_graphs

  !> Both kinds of integers give the same graph.
  subroutine graphs_from_int64(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: short, long

    call short%init([1, 3, 4], [2, 1, 2], 2, error, edge_ids=[3, 1, 2])
    if (.not. allocated(error)) call long%init([integer(int64) :: 1, 3, 4], &
      & [integer(int64) :: 2, 1, 2], 2_int64, error, edge_ids=[integer(int64) :: 3, 1, 2])
    if (allocated(error)) return
    call check(error, all(long%by_dst%offsets == short%by_dst%offsets), "offsets")
    call check(error, all(long%by_src%indices == short%by_src%indices), "indices")
    call check(error, all(long%by_src%edge == short%by_src%edge), "edge_ids")
    call long%init([integer(int64) :: 1, 2], [2_int64**31 + 1], 1_int64, error)
    call check(error, allocated(error), "a node beyond default integers")
    if (allocated(error)) deallocate (error)
  end subroutine graphs_from_int64

  !> Edges in any order are sorted by destination, stably, and know their rows.
  subroutine graphs_from_edges(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    integer(int64), parameter :: src(0:3) = [2, 1, 0, 1], dst(0:3) = [1, 1, 0, 0]
    type(error_type), allocatable :: raised

    call graph%init_from_edges(src, dst, 3_int64, 2_int64, -1, error)
    if (allocated(error)) return
    call check(error, all(graph%by_dst%offsets == [0, 2, 4]), "offsets")
    call check(error, all(graph%by_dst%indices == [0, 1, 2, 1]), "indices")
    call check(error, all(graph%by_dst%edge == [2, 3, 0, 1]), "rows")
    call check(error, all(graph%by_src%edge == [2, 3, 1, 0]), "rows by source")
    ! 1 -> 1 and 0 -> 0 go and keep their rows; the loops of the two nodes have rows 4 and 5
    call graph%init_from_edges(src, dst, 3_int64, 2_int64, 1, error)
    if (allocated(error)) return
    call check(error, all(graph%by_dst%offsets == [0, 2, 4]), "offsets with loops")
    call check(error, all(graph%by_dst%indices == [1, 0, 2, 1]), "indices with loops")
    call check(error, all(graph%by_dst%edge == [3, 4, 0, 5]), "rows with loops")
    call graph%init_from_edges(src, dst(3:0:-1), 3_int64, 2_int64, -1, error)
    if (allocated(error)) return
    call check(error, .not. allocated(graph%by_dst%edge), "edges that are ordered already")
    call graph%init_from_edges(src, dst + 1, 3_int64, 2_int64, 1, raised)
    call check(error, allocated(raised), "no error about dst")
    if (allocated(raised)) call check(error, raised%code == code_index .and. &
      & index(raised%message, "dst[0] is 2, not one of 2 destination") > 0, raised%message)
    call check(error, graph%n_edges == 4, "graph changed")
    call graph%init_from_edges(src, dst, 2_int64**31, 2_int64, -1, raised)
    call check(error, allocated(raised), "too many nodes")
    call graph%init_from_edges([integer(int64) ::], [integer(int64) ::], 0_int64, 0_int64, 1, &
      & error)
    if (.not. allocated(error)) call check(error, graph%n_edges == 0, "no nodes")
  end subroutine graphs_from_edges

  !> A held graph stays when its variable changes; copies are variables like others.
  subroutine graphs_on_the_heap(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph, copy
    type(graph_type), allocatable :: several(:)
    type(graph_type), pointer :: held, again, of_copy

    call graph%init([1, 3, 4], [2, 1, 2], 2, error, edge_ids=[3, 1, 2])
    if (.not. allocated(error)) call hold(graph, held, error)
    if (.not. allocated(error)) call hold(held, again, error)
    if (allocated(error)) return
    call check(error, associated(held, again), "a graph on the heap is held as it is")
    copy = held
    call hold(copy, of_copy, error)
    if (allocated(error)) return
    call check(error, .not. associated(held, of_copy), "a copy is another graph")
    call graph%init([1, 2], [1], 1, error)
    if (allocated(error)) return
    call check(error, graph%serial /= held%serial, "another graph, another serial")
    call release(held)
    call check(error, .not. associated(held), "released")
    several = [graph, again]
    several = [several, copy]
    call check(error, all(several%n_edges == [1, 3, 3]), "a list of graphs")
    call check(error, lbound(again%by_dst%offsets, 1) == 0 .and. &
      & all(again%by_dst%offsets == [0, 2, 3]) .and. all(again%by_src%edge == [0, 2, 1]), "edges")
    call release(again)
    call release(of_copy)
  end subroutine graphs_on_the_heap

  subroutine pieces_of_equal_work(error)
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: offsets(0:1000), bounds(0:8)
    integer(int64) :: k

    offsets = [(3*k, k=0, 1000)]
    call split_rows(offsets, bounds)
    call check(error, all(bounds == [(125*k, k=0, 8)]), "even rows")
    offsets(1:) = 100000
    call split_rows(offsets, bounds)
    call check(error, all(bounds(1:) >= bounds(:7)), "one heavy row: bounds decrease")
    call check(error, bounds(0) == 0 .and. bounds(8) == 1000, "one heavy row: rows lost")
  end subroutine pieces_of_equal_work

  !> Runs of rows and segments of heavy rows together hold every edge once, in order.
  subroutine work_covers_every_edge_once(error)
    type(error_type), allocatable, intent(out) :: error
    type(work_type) :: work
    integer(int64), allocatable :: offsets(:)
    integer(int64) :: edge, row, k

    allocate (offsets(0:light + 2))
    offsets(0) = 0
    offsets(1) = heavy
    offsets(2:) = [(heavy + 2*k, k=0, light)]
    call work%build(offsets, error)
    if (allocated(error)) return
    edge = 0
    row = 0
    do k = 0, work%n_pieces - 1
      if (work%slot(k) >= 0) then
        associate (slot => work%slot(k))
          call check(error, work%slot_row(slot) == row, "row of a segment")
          call check(error, work%slot_first(slot) == edge, "a segment starts elsewhere")
          edge = work%slot_last(slot) + 1
        end associate
        if (edge == offsets(row + 1)) row = row + 1
      else
        call check(error, work%first_row(k) == row, "a run of rows starts elsewhere")
        row = work%last_row(k) + 1
        edge = offsets(row)
      end if
    end do
    call check(error, row == light + 2 .and. edge == offsets(light + 2), "edges left over")
    call check(error, work%n_slots > 1 .and. work%n_cut == 1, "the heavy row is shared")
  end subroutine work_covers_every_edge_once

end module test_core

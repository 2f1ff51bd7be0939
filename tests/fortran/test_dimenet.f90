! SPDX-License-Identifier: MIT

!> agg_edge_to_edge where edges are the reverse of each other, as no graph of the laws has them.
module test_dimenet
  use gnograd, only: graph_type, error_type, dp
  use faces, only: check_faces, check_tape, numbers
  use operators, only: plain_type, make_case, case_names
  use testing, only: test_type
  implicit none
  private
  public :: dimenet_tests

contains

  function dimenet_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [test_type("tape", test_reverse_edges)]
  end function dimenet_tests

  !> All exclusions. Vectors are differences of positions; half of them to a periodic image.
  subroutine test_reverse_edges(error)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: n_nodes = 6, n_edges = 85
    class(plain_type), allocatable :: operator
    type(graph_type) :: graph
    real(dp), allocatable, target :: x(:)
    real(dp), pointer, contiguous :: vector(:, :)
    real(dp) :: position(3, n_nodes)
    integer :: e, i, k, p

    ! 40 edges into the first node, more than a tile, 40 out of it, and a few more
    call graph%init([1, 41, 56, 71, 83, 86, 86], [(2 + mod(p, 4), p=1, 40), spread(1, 1, 14), 3, &
      & spread(1, 1, 13), 2, 4, spread(1, 1, 11), 2, 1, 1, 6], n_nodes, error, &
      & [(1 + mod(7*p, n_edges), p=1, n_edges)])
    if (allocated(error)) return
    position(:, :) = reshape(numbers(3*n_nodes, 2), [3, n_nodes])
    do k = 1, size(case_names)
      if (index(case_names(k), "agg_edge_to_edge") /= 1) cycle
      call make_case(k, graph, 1, operator)
      x = numbers(operator%last_of(size(operator%ranks)), 1)
      call operator%view(1, x, vector)
      do i = 1, n_nodes
        do p = int(graph%by_dst%offsets(i - 1)), int(graph%by_dst%offsets(i)) - 1
          e = int(graph%by_dst%edge(p)) + 1
          vector(:, e) = position(:, i) - position(:, graph%by_dst%indices(p) + 1) &
            & + [mod(p, 2), 0, 0]
        end do
      end do
      call check_tape(operator, x, error)
      ! a difference turns vectors that sum to zero into others, which count
      if (index(case_names(k), "exclude") == 0) vector(:, :) = vector &
        & + 0.1_dp*reshape(numbers(size(vector), 3), shape(vector))
      if (.not. allocated(error)) call check_faces(operator, x, error)
      if (allocated(error)) return
    end do
  end subroutine test_reverse_edges

end module test_dimenet

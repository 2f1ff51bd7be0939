! SPDX-License-Identifier: MIT

!> Edge updates: values against plain loops, refusals.
module test_edge_updates
  use gnograd, only: update_edges_forward, update_edges_vjp, update_edges_jvp, update_concat, &
    & update_sum, update_names, error_type, dp, int64
  use faces, only: numbers
  use test_aggregation, only: ragged_graph
  use operators, only: update_edges_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: edge_updates_tests

  integer, parameter :: n_nodes = 6, n_edges = 82

  !> Inputs
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: e => null(), x_src => null(), x_dst => null()
  end type arrays_type

contains

  function edge_updates_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values", test_values), &
      & test_type("wrong codes and shapes", test_refused)]
  end function edge_updates_tests

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(update_edges_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp), allocatable :: out(:, :)
    integer(int64) :: i, p, row
    integer :: mode

    do mode = update_concat, update_sum
      call make(operator, mode, 7, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      allocate (y(operator%n_out), out(operator%n_out/n_edges, 0:n_edges - 1))
      associate (graph => operator%graph%by_dst)
        do i = 0, n_nodes - 1
          do p = graph%offsets(i), graph%offsets(i + 1) - 1
            row = graph%edge(p)
            associate (j => graph%indices(p) + 1)
              if (mode == update_concat) then
                out(:, row) = [in%e(:, row + 1), in%x_src(:, j), in%x_dst(:, i + 1)]
              else
                out(:, row) = in%e(:, row + 1) + in%x_src(:, j) + in%x_dst(:, i + 1)
              end if
            end associate
          end do
        end do
      end associate
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, all(y == [out]), update_names(mode))
      if (allocated(error)) return
      deallocate (y, out)
    end do
  end subroutine test_values

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(update_edges_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp), allocatable :: out(:, :)

    call make(operator, update_concat, 7, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (out(operator%n_out/n_edges, n_edges))
    out(:, :) = 7
    associate (graph => operator%graph%view())
      call update_edges_forward(graph, 2, in%e, in%x_src, in%x_dst, out, refused)
      call check_refused(error, refused, "update_edges: mode must be concat or sum")
      call update_edges_forward(graph, update_concat, out=out, error=refused)
      call check_refused(error, refused, "update_edges: out has shape 9 82, needs 0 82")
      call update_edges_forward(graph, update_concat, in%e(:, 2:), in%x_src, in%x_dst, out, refused)
      call check_refused(error, refused, "update_edges: e has shape 2 81, needs 2 82")
      call update_edges_forward(graph, update_sum, in%e, in%x_src, in%x_dst, out(:2, :), refused)
      call check_refused(error, refused, "update_edges: x_src has shape 3 6, needs 2 6")
      call update_edges_vjp(graph, update_concat, out(2:, :), in%e, in%x_src, in%x_dst, &
        & error=refused)
      call check_refused(error, refused, "update_edges: cotangent has shape 8 82, needs 9 82")
      call update_edges_jvp(graph, update_concat, in%e, t_x_src=in%x_src, t_out=out(:2, :), &
        & error=refused)
      call check_refused(error, refused, "update_edges: t_out has shape 2 82, needs 5 82")
    end associate
    call check(error, all(out == 7), "results changed in spite of an error")
  end subroutine test_refused

  ! ---- the operator ----

  subroutine make(operator, mode, form, x, error)
    type(update_edges_operator), intent(out) :: operator
    !> Mode, and bits: features of edges, sources, destinations
    integer, intent(in) :: mode, form
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: counts(3) = [n_edges, n_nodes, n_nodes]
    integer :: k, widths(3)

    operator%mode = mode
    widths = merge([2, 3, 4], 3, mode == update_concat)
    operator%n_edge_features = widths(1)
    operator%n_src_features = widths(2)
    operator%n_dst_features = widths(3)
    call ragged_graph(operator%graph, error)
    if (allocated(error)) return
    do k = 1, 3
      call operator%add_input(pack([widths(k), counts(k)], btest(form, k - 1)))
    end do
    operator%n_out = n_edges*merge(sum(widths, [(btest(form, k), k=0, 2)]), 3, &
      & mode == update_concat)
    x = numbers(operator%last_of(3), 1)
  end subroutine make

  function arrays(operator, x) result(views)
    type(update_edges_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%e)
    call operator%view(2, x, views%x_src)
    call operator%view(3, x, views%x_dst)
  end function arrays

end module test_edge_updates

! SPDX-License-Identifier: MIT

!> Edge updates: values against plain loops, derivatives against differences and each other, the tape
!> against the kernels, refusals.
module test_edge_updates
  use gnograd, only: update_edges, update_edges_forward, update_edges_vjp, update_edges_jvp, &
    & update_edges_hvp, array_type, reshape, update_concat, update_sum, update_names, graph_type, &
    & error_type, dp, int64
  use faces, only: operator_type, check_faces, check_tape, close, numbers
  use test_aggregation, only: ragged_graph
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: edge_updates_tests

  integer, parameter :: n_nodes = 6, n_edges = 82

  type, extends(operator_type) :: update_operator
    type(graph_type) :: graph
    integer :: mode = update_concat
  contains
    procedure :: evaluate
    procedure :: reverse
    procedure :: record
  end type update_operator

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: e => null(), x_src => null(), x_dst => null()
  end type arrays_type

contains

  function edge_updates_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values", test_values), &
      & test_type("derivatives and tape", test_derivatives), &
      & test_type("wrong codes and shapes", test_refused)]
  end function edge_updates_tests

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(update_operator) :: operator
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

  !> All faces, and the operation on the tape, with all inputs and some.
  subroutine test_derivatives(error)
    type(error_type), allocatable, intent(out) :: error
    type(update_operator) :: operator
    real(dp), allocatable, target :: x(:)
    integer :: mode, form

    do mode = update_concat, update_sum
      do form = 1, 7
        call make(operator, mode, form, x, error)
        if (.not. allocated(error)) call check_faces(operator, x, error)
        if (.not. allocated(error)) call check_tape(operator, x, error)
        if (allocated(error)) error%message = trim(update_names(mode))//": "//error%message
        if (allocated(error)) return
      end do
    end do
  end subroutine test_derivatives

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(update_operator) :: operator
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
    type(update_operator), intent(out) :: operator
    !> Mode, and bits: features of edges, sources, destinations
    integer, intent(in) :: mode, form
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: counts(3) = [n_edges, n_nodes, n_nodes]
    integer :: k, widths(3)

    operator%mode = mode
    widths = merge([2, 3, 4], 3, mode == update_concat)
    call ragged_graph(operator%graph, error)
    if (allocated(error)) return
    do k = 1, 3
      call operator%add_input(pack([widths(k), counts(k)], btest(form, k - 1)))
    end do
    operator%n_out = n_edges*merge(sum(widths, [(btest(form, k), k=0, 2)]), 3, &
      & mode == update_concat)
    x = numbers(operator%last_of(3), 1)
  end subroutine make

  function arrays(operator, x, mask) result(views)
    type(update_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%e, mask)
    call operator%view(2, x, views%x_src, mask)
    call operator%view(3, x, views%x_dst, mask)
  end function arrays

  subroutine evaluate(self, x, y, error, t)
    class(update_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: x(:)
    real(dp), intent(out), contiguous, target :: y(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, tan
    real(dp), pointer, contiguous :: out(:, :)

    in = arrays(self, x)
    out(1:self%n_out/n_edges, 1:n_edges) => y
    if (present(t)) then
      tan = arrays(self, t, self%moving)
      call update_edges_jvp(self%graph%view(), self%mode, in%e, in%x_src, in%x_dst, tan%e, &
        & tan%x_src, tan%x_dst, out, error)
    else
      call update_edges_forward(self%graph%view(), self%mode, in%e, in%x_src, in%x_dst, out, error)
    end if
  end subroutine evaluate

  subroutine reverse(self, c, x, g, error, t)
    class(update_operator), intent(in) :: self
    real(dp), intent(in), contiguous, target :: c(:), x(:)
    real(dp), intent(inout), contiguous, target :: g(:)
    type(error_type), allocatable, intent(out) :: error
    real(dp), intent(in), contiguous, target, optional :: t(:)
    type(arrays_type) :: in, grad, tan
    real(dp), pointer, contiguous :: cotangent(:, :)

    in = arrays(self, x)
    grad = arrays(self, g, self%wanted)
    cotangent(1:self%n_out/n_edges, 1:n_edges) => c
    if (present(t)) then
      tan = arrays(self, t, self%moving)
      call update_edges_hvp(self%graph%view(), self%mode, cotangent, in%e, in%x_src, in%x_dst, &
        & tan%e, tan%x_src, tan%x_dst, grad%e, grad%x_src, grad%x_dst, error)
    else
      call update_edges_vjp(self%graph%view(), self%mode, cotangent, in%e, in%x_src, in%x_dst, &
        & grad%e, grad%x_src, grad%x_dst, error)
    end if
  end subroutine reverse

  subroutine record(self, x, y)
    class(update_operator), intent(in) :: self
    type(array_type), intent(in) :: x(:)
    type(array_type), intent(out) :: y

    y = update_edges(x(1), self%graph, x(2), x(3), update_names(self%mode))
    y = reshape(y, [self%n_out])
  end subroutine record

end module test_edge_updates

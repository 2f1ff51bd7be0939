! SPDX-License-Identifier: MIT

!> Aggregation: arrays that may be absent, and own features that are x.
module test_aggregation
  use gnograd, only: agg_weighted_forward, agg_weighted_vjp, agg_weighted_hvp, agg_simple_forward, &
    & agg_simple_vjp, agg_concat_forward, agg_concat_vjp, agg_concat_hvp, reduce_sum, reduce_mean, &
    & reduce_max, graph_type, error_type, dp, int64
  use faces, only: numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: aggregation_tests

  integer, parameter :: d = 5, de = 3, do = 4, n_nodes = 6, n_edges = 82

  !> A graph and features, with cotangents of all blocks
  type :: case_type
    type(graph_type) :: graph
    real(dp) :: x(d, n_nodes), w(n_edges), e(de, n_edges), own(do, n_nodes), c(2*d + de, n_nodes)
  end type case_type

contains

  function aggregation_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("the operators are blocks of one", test_blocks), &
      & test_type("inputs that no gradient needs", test_absent), &
      & test_type("inputs that are missing", test_missing), &
      & test_type("own features that are x", test_own_is_x)]
  end function aggregation_tests

  !> Destinations without edges and with more than a list of them; rows of the edge table in an
  !> order of their own.
  subroutine make(made, error)
    type(case_type), intent(out) :: made
    type(error_type), allocatable, intent(out) :: error
    integer :: k

    call made%graph%init([1, 4, 4, 44, 45, 78, 83], [(1 + mod(k*k + k/7, n_nodes), &
      & k=1, n_edges)], n_nodes, error, [(1 + mod(k*11, n_edges), k=1, n_edges)])
    made%x(:, :) = reshape(numbers(d*n_nodes, 1), [d, n_nodes])
    ! sums that are not near 0
    made%w(:) = 1.5_dp + numbers(n_edges, 2)
    made%e(:, :) = reshape(numbers(de*n_edges, 3), [de, n_edges])
    made%own(:, :) = reshape(numbers(do*n_nodes, 4), [do, n_nodes])
    made%c(:, :) = reshape(numbers(size(made%c), 5), shape(made%c))
  end subroutine make

  !> agg_weighted and agg_simple are agg_concat with other inputs.
  subroutine test_blocks(error)
    type(error_type), allocatable, intent(out) :: error
    type(case_type) :: in
    real(dp) :: all_blocks(d + de + do, n_nodes), out(d, n_nodes), pair(d + de, n_nodes), &
      & e_only(de, n_nodes), ones(n_edges)
    integer :: aggregation

    call make(in, error)
    ones(:) = 1
    do aggregation = reduce_sum, reduce_max
      if (.not. allocated(error)) call agg_concat_forward(in%graph%view(), aggregation, in%x, &
        & ones, in%e, in%own, all_blocks, error=error)
      if (.not. allocated(error)) call agg_simple_forward(in%graph%view(), aggregation, in%x, &
        & in%e, pair, error=error)
      if (.not. allocated(error)) call agg_simple_forward(in%graph%view(), aggregation, e=in%e, &
        & out=e_only, error=error)
      if (.not. allocated(error)) call agg_weighted_forward(in%graph%view(), aggregation, in%x, &
        & ones, out, error=error)
      if (allocated(error)) return
      call check(error, all(all_blocks(:d + de, :) == pair), "agg_simple")
      call check(error, all(pair(d + 1:, :) == e_only), "agg_simple without x")
      call check(error, all(pair(:d, :) == out), "agg_weighted")
      call check(error, all(all_blocks(d + de + 1:, :) == in%own), "own features")
    end do
  end subroutine test_blocks

  !> Gradients come out the same without the inputs that they do not depend on.
  subroutine test_absent(error)
    type(error_type), allocatable, intent(out) :: error
    type(case_type) :: in
    real(dp), dimension(d, n_nodes) :: grad_x, same_x
    real(dp), dimension(de, n_edges) :: grad_e, same_e
    real(dp), dimension(do, n_nodes) :: grad_own, same_own
    real(dp) :: c(d + de + do, n_nodes)

    call make(in, error)
    if (allocated(error)) return
    c(:, :) = in%c(:d + de + do, :)
    associate (graph => in%graph)
      call agg_concat_vjp(graph%view(), aggregation=reduce_sum, cotangent=c, x=in%x, w=in%w, &
        & e=in%e, own=in%own, grad_x=grad_x, grad_e=grad_e, grad_own=grad_own, error=error)
      if (.not. allocated(error)) call agg_concat_vjp(graph%view(), aggregation=reduce_sum, &
        & cotangent=c, w=in%w, grad_x=same_x, grad_own=same_own, error=error)
      if (allocated(error)) return
      call check(error, all(same_x == grad_x) .and. all(same_own == grad_own), "no x")
      call agg_concat_vjp(graph%view(), int(d, int64), int(de, int64), int(do, int64), &
        & reduce_sum, c, grad_e=same_e, error=error)
      if (allocated(error)) return
      call check(error, all(same_e == grad_e), "no inputs, but sizes")
      same_e(:, :) = 0
      call agg_concat_vjp(graph%view(), aggregation=reduce_sum, cotangent=c, own=in%own, &
        & grad_e=same_e, error=error)
      if (allocated(error)) return
      call check(error, all(same_e == grad_e), "no x, but own")

      call agg_simple_vjp(graph%view(), reduce_sum, c(:d + de, :), grad_x=same_x, error=error)
      if (.not. allocated(error)) call agg_simple_vjp(graph%view(), reduce_sum, c(:d + de, :), &
        & grad_e=same_e, error=error)
      if (.not. allocated(error)) call agg_concat_vjp(graph%view(), aggregation=reduce_sum, &
        & cotangent=c, x=in%x, e=in%e, own=in%own, grad_x=grad_x, grad_e=grad_e, error=error)
      if (allocated(error)) return
      call check(error, all(same_x == grad_x) .and. all(same_e == grad_e), "agg_simple")
    end associate
  end subroutine test_absent

  subroutine test_missing(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(case_type) :: in
    real(dp) :: grad_x(d, n_nodes), grad_w(n_edges), grad_e(de, n_edges)

    call make(in, error)
    if (allocated(error)) return
    grad_x(:, :) = 7
    grad_w(:) = 7
    grad_e(:, :) = 7
    associate (graph => in%graph%view(), c => in%c)
      call agg_weighted_vjp(graph, reduce_sum, c(:d, :), w=in%w, grad_w=grad_w, error=refused)
      call check_refused(error, refused, "agg_weighted: x is missing")
      call agg_simple_vjp(graph, reduce_max, c(:de, :), grad_e=grad_e, error=refused)
      call check_refused(error, refused, "agg_simple: e is missing")
      call agg_concat_vjp(graph, aggregation=reduce_sum, cotangent=c, grad_e=grad_e, error=refused)
      call check_refused(error, refused, "agg_concat: cotangent has shape 13 6, needs 3 6")
      call agg_weighted_hvp(graph, reduce_mean, c(:d, :), w=in%w, grad_x=grad_x, error=refused)
      call check_refused(error, refused, "agg_weighted: x is missing")
      call agg_weighted_vjp(graph, 9, c(:d, :), in%x, in%w, grad_w=grad_w, error=refused)
      call check_refused(error, refused, "agg_weighted: aggregation must be one of sum, mean, min, max")
    end associate
    call check(error, all(grad_x == 7) .and. all(grad_w == 7) .and. all(grad_e == 7), &
      & "results changed in spite of an error")
  end subroutine test_missing

  !> grad_x gets the sum of both gradients.
  subroutine test_own_is_x(error)
    type(error_type), allocatable, intent(out) :: error
    type(case_type) :: in
    real(dp), dimension(d, n_nodes) :: grad_x, grad_own, both
    integer :: aggregation

    call make(in, error)
    if (allocated(error)) return
    associate (graph => in%graph, c => in%c)
      do aggregation = reduce_sum, reduce_max
        call agg_concat_vjp(graph%view(), aggregation=aggregation, cotangent=c, x=in%x, w=in%w, &
          & e=in%e, own=in%x, grad_x=grad_x, grad_own=grad_own, error=error)
        if (.not. allocated(error)) call agg_concat_vjp(graph%view(), aggregation=aggregation, &
          & cotangent=c, x=in%x, w=in%w, e=in%e, own=in%x, grad_x=both, own_is_x=.true., &
          & error=error)
        if (allocated(error)) return
        call check(error, all(both == grad_x + grad_own), "vjp")
        call agg_concat_hvp(graph%view(), aggregation=aggregation, cotangent=c, x=in%x, w=in%w, &
          & e=in%e, own=in%x, t_w=in%w, grad_x=grad_x, grad_own=grad_own, error=error)
        if (.not. allocated(error)) call agg_concat_hvp(graph%view(), aggregation=aggregation, &
          & cotangent=c, x=in%x, w=in%w, e=in%e, own=in%x, t_w=in%w, grad_x=both, &
          & own_is_x=.true., error=error)
        if (allocated(error)) return
        call check(error, all(both == grad_x) .and. all(grad_own == 0), "hvp")
      end do
    end associate
  end subroutine test_own_is_x

end module test_aggregation

! SPDX-License-Identifier: MIT

!> Aggregation: values against plain loops, arrays that may be absent, refusals.
module test_aggregation
  use gnograd, only: agg_weighted_forward, &
    & agg_weighted_vjp, agg_weighted_jvp, agg_weighted_hvp, agg_simple_forward, agg_simple_vjp, &
    & agg_simple_jvp, agg_concat_forward, agg_concat_vjp, agg_concat_hvp, reduce_sum, &
    & reduce_mean, reduce_min, reduce_max, reduce_names, graph_type, error_type, dp, sp, int64
  use faces, only: close, numbers
  use operators, only: agg_concat_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: aggregation_tests, ragged_graph

  integer, parameter :: form_weighted = 1, form_simple = 2, form_concat = 3
  integer, parameter :: d = 5, de = 3, do = 4, n_nodes = 6, n_edges = 82

  !> Inputs or gradients
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: x => null(), e => null(), own => null()
    real(dp), pointer, contiguous :: w(:) => null()
  end type arrays_type

contains

  function aggregation_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds", test_values), &
      & test_type("what forward saves", test_saved), &
      & test_type("the operators are blocks of one", test_blocks), &
      & test_type("inputs that no gradient needs", test_absent), &
      & test_type("own features that are x", test_own_is_x), &
      & test_type("wrong codes and shapes", test_refused)]
  end function aggregation_tests

  !> Six nodes: destinations without edges and with more than a list of them; rows of the edge table
  !> in an order of their own.
  subroutine ragged_graph(graph, error)
    type(graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error
    integer :: k

    call graph%init([1, 4, 4, 44, 45, 78, 83], [(1 + mod(k*k + k/7, n_nodes), k=1, n_edges)], &
      & n_nodes, error, [(1 + mod(k*11, n_edges), k=1, n_edges)])
  end subroutine ragged_graph

  ! ---- values ----

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:)
    real(dp) :: wanted(d + de + do, n_nodes)
    real(sp) :: out(d + de + do, n_nodes)
    integer :: aggregation

    do aggregation = reduce_sum, reduce_max
      call make(operator, form_concat, aggregation, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      wanted(:, :) = aggregate(operator%graph, aggregation, in)
      allocate (y(operator%n_out))
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call check(error, close(y, reshape(wanted, [size(y)]), 1e-13_dp), reduce_names(aggregation))
      call agg_concat_forward(operator%graph%view(), aggregation, real(in%x, sp), real(in%w, sp), &
        & real(in%e, sp), real(in%own, sp), out, error=error)
      if (allocated(error)) return
      call check(error, close(real(reshape(out, [size(y)]), dp), reshape(wanted, [size(y)]), &
        & 1e-5_dp), reduce_names(aggregation)//" in real32")
      if (allocated(error)) return
      deallocate (y)
    end do
  end subroutine test_values

  !> The formula, with features, weights, edges and own features, edge by edge.
  function aggregate(graph, aggregation, in) result(out)
    type(graph_type), intent(in) :: graph
    integer, intent(in) :: aggregation
    type(arrays_type), intent(in) :: in
    real(dp) :: out(d + de + do, n_nodes), term(d + de), total(2)
    integer(int64) :: i, p, row
    integer :: n

    out(:, :) = 0
    do i = 0, n_nodes - 1
      n = 0
      total(:) = 0
      associate (sum => out(:d + de, i + 1))
        do p = graph%by_dst%offsets(i), graph%by_dst%offsets(i + 1) - 1
          row = graph%by_dst%edge(p) + 1
          term(:d) = in%w(row)*in%x(:, graph%by_dst%indices(p) + 1)
          term(d + 1:) = in%e(:, row)
          n = n + 1
          total(:) = total + [in%w(row), 1.0_dp]
          if (aggregation == reduce_sum .or. aggregation == reduce_mean) then
            sum(:) = sum + term
          else if (aggregation == reduce_min) then
            sum(:) = merge(term, min(sum, term), n == 1)
          else
            sum(:) = merge(term, max(sum, term), n == 1)
          end if
        end do
        if (aggregation == reduce_mean .and. n > 0) then
          sum(:d) = sum(:d)/total(1)
          sum(d + 1:) = sum(d + 1:)/total(2)
        end if
      end associate
      out(d + de + 1:, i + 1) = in%own(:, i + 1)
    end do
  end function aggregate

  !> The sums of weights, and the positions of the edges that won: those with the values of out.
  subroutine test_saved(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(d, 0:n_nodes - 1), degree(0:n_nodes - 1), total
    integer(int64) :: location(d, 0:n_nodes - 1), i, p
    integer :: aggregation, c

    do aggregation = reduce_sum, reduce_max
      call make(operator, form_weighted, aggregation, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      call agg_weighted_forward(operator%graph%view(), aggregation, in%x, in%w, out, location, &
        & degree, &
        & error)
      if (allocated(error)) return
      associate (graph => operator%graph%by_dst)
        do i = 0, n_nodes - 1
          if (aggregation == reduce_mean) then
            total = sum([(in%w(graph%edge(p) + 1), p=graph%offsets(i), graph%offsets(i + 1) - 1)])
            call check(error, abs(degree(i) - total) < 1e-13_dp, "degree")
          else if (aggregation /= reduce_sum) then
            do c = 1, d
              p = location(c, i)
              if (graph%offsets(i) == graph%offsets(i + 1)) then
                call check(error, p == -1, "location without edges")
              else
                call check(error, p >= graph%offsets(i) .and. p < graph%offsets(i + 1), "location")
                if (allocated(error)) return
                call check(error, in%w(graph%edge(p) + 1)*in%x(c, graph%indices(p) + 1) == &
                  & out(c, i), "value at the location")
              end if
            end do
          end if
        end do
      end associate
      if (allocated(error)) return
    end do
  end subroutine test_saved

  ! ---- absent arrays ----

  !> agg_weighted and agg_simple are agg_concat with other inputs.
  subroutine test_blocks(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: all_blocks(d + de + do, n_nodes), out(d, n_nodes), pair(d + de, n_nodes), &
      & e_only(de, n_nodes), ones(n_edges)
    integer :: aggregation

    ones(:) = 1
    do aggregation = reduce_sum, reduce_max
      call make(operator, form_concat, aggregation, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      call agg_concat_forward(operator%graph%view(), aggregation, in%x, ones, in%e, in%own, &
        & all_blocks, &
        & error=error)
      if (.not. allocated(error)) call agg_simple_forward(operator%graph%view(), aggregation, &
        & in%x, in%e, &
        & pair, error=error)
      if (.not. allocated(error)) call agg_simple_forward(operator%graph%view(), aggregation, &
        & e=in%e, &
        & out=e_only, error=error)
      if (.not. allocated(error)) call agg_weighted_forward(operator%graph%view(), aggregation, &
        & in%x, &
        & ones, out, error=error)
      if (allocated(error)) return
      call check(error, all(all_blocks(:d + de, :) == pair), "agg_simple")
      call check(error, all(pair(d + 1:, :) == e_only), "agg_simple without x")
      call check(error, all(pair(:d, :) == out), "agg_weighted")
    end do
  end subroutine test_blocks

  !> Gradients come out the same without the inputs that they do not depend on.
  subroutine test_absent(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in, grad
    real(dp), allocatable, target :: x(:), g(:)
    real(dp) :: c(d + de + do, n_nodes), grad_x(d, n_nodes), grad_e(de, n_edges), &
      & grad_own(do, n_nodes), simple_x(d, n_nodes), simple_e(de, n_edges)

    call make(operator, form_concat, reduce_sum, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (g, mold=x)
    c(:, :) = reshape(numbers(size(c), 5), shape(c))
    call operator%reverse(reshape(c, [size(c)]), x, g, error)
    if (allocated(error)) return
    grad = arrays(operator, g)

    call agg_concat_vjp(operator%graph%view(), aggregation=reduce_sum, cotangent=c, w=in%w, &
      & grad_x=grad_x, grad_own=grad_own, error=error)
    if (allocated(error)) return
    call check(error, all(grad_x == grad%x) .and. all(grad_own == grad%own), "no x")
    call agg_concat_vjp(operator%graph%view(), int(d, int64), int(de, int64), int(do, int64), &
      & reduce_sum, &
      & c, grad_e=grad_e, error=error)
    if (allocated(error)) return
    call check(error, all(grad_e == grad%e), "no inputs, but sizes")
    grad_e(:, :) = 0
    call agg_concat_vjp(operator%graph%view(), aggregation=reduce_sum, cotangent=c, own=in%own, &
      & grad_e=grad_e, error=error)
    if (allocated(error)) return
    call check(error, all(grad_e == grad%e), "no x, but own")

    call agg_simple_vjp(operator%graph%view(), reduce_sum, c(:d + de, :), grad_x=simple_x, &
      & error=error)
    if (.not. allocated(error)) call agg_simple_vjp(operator%graph%view(), reduce_sum, &
      & c(:d + de, :), &
      & grad_e=simple_e, error=error)
    if (.not. allocated(error)) call agg_concat_vjp(operator%graph%view(), aggregation=reduce_sum, &
      & cotangent=c, x=in%x, e=in%e, own=in%own, grad_x=grad_x, grad_e=grad_e, error=error)
    if (allocated(error)) return
    call check(error, all(simple_x == grad_x) .and. all(simple_e == grad_e), "agg_simple")
  end subroutine test_absent

  !> grad_x gets the sum of both gradients.
  subroutine test_own_is_x(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp), dimension(d, n_nodes) :: grad_x, grad_own, both
    real(dp) :: c(2*d + de, n_nodes)
    integer :: aggregation

    c(:, :) = reshape(numbers(size(c), 5), shape(c))
    do aggregation = reduce_sum, reduce_max
      call make(operator, form_concat, aggregation, x, error)
      if (allocated(error)) return
      in = arrays(operator, x)
      call agg_concat_vjp(operator%graph%view(), aggregation=aggregation, cotangent=c, x=in%x, &
        & w=in%w, &
        & e=in%e, own=in%x, grad_x=grad_x, grad_own=grad_own, error=error)
      if (.not. allocated(error)) call agg_concat_vjp(operator%graph%view(), &
        & aggregation=aggregation, &
        & cotangent=c, x=in%x, w=in%w, e=in%e, own=in%x, grad_x=both, own_is_x=.true., error=error)
      if (allocated(error)) return
      call check(error, all(both == grad_x + grad_own), "vjp")
      call agg_concat_hvp(operator%graph%view(), aggregation=aggregation, cotangent=c, x=in%x, &
        & w=in%w, &
        & e=in%e, own=in%x, t_w=in%w, grad_x=grad_x, grad_own=grad_own, error=error)
      if (.not. allocated(error)) call agg_concat_hvp(operator%graph%view(), &
        & aggregation=aggregation, &
        & cotangent=c, x=in%x, w=in%w, e=in%e, own=in%x, t_w=in%w, grad_x=both, own_is_x=.true., &
        & error=error)
      if (allocated(error)) return
      call check(error, all(both == grad_x) .and. all(grad_own == 0), "hvp")
    end do
  end subroutine test_own_is_x

  ! ---- refusals ----

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(agg_concat_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp) :: out(d + de + do, n_nodes), of_x(d, n_nodes), grad_e(de, n_edges)
    integer :: aggregation

    call make(operator, form_concat, reduce_sum, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    out(:, :) = 7
    of_x(:, :) = 7
    grad_e(:, :) = 7
    do aggregation = reduce_sum - 1, reduce_max + 1, reduce_max - reduce_sum + 2
      call agg_concat_forward(operator%graph%view(), aggregation, in%x, in%w, in%e, in%own, out, &
        & error=refused)
      call check_refused(error, refused, "agg_concat: aggregation: no such code")
      call agg_weighted_vjp(operator%graph%view(), aggregation, of_x, in%x, in%w, error=refused)
      call check_refused(error, refused, "agg_weighted: aggregation: no such code")
      call agg_simple_jvp(operator%graph%view(), aggregation, in%x, t_out=of_x, error=refused)
      call check_refused(error, refused, "agg_simple: aggregation: no such code")
      call agg_weighted_hvp(operator%graph%view(), aggregation, of_x, in%x, in%w, error=refused)
      call check_refused(error, refused, "agg_weighted: aggregation: no such code")
    end do
    call agg_concat_forward(operator%graph%view(), reduce_sum, in%x, in%w(2:), in%e, in%own, out, &
      & error=refused)
    call check_refused(error, refused, "agg_concat: w has shape 81, needs 82")
    call agg_concat_forward(operator%graph%view(), reduce_sum, in%x(:, 2:), in%w, in%e, in%own, &
      & out, &
      & error=refused)
    call check_refused(error, refused, "agg_concat: x has shape 5 5, needs 5 6")
    call agg_simple_forward(operator%graph%view(), reduce_sum, in%x, in%e, out, error=refused)
    call check_refused(error, refused, "agg_simple: out has shape 12 6, needs 8 6")
    call agg_weighted_jvp(operator%graph%view(), reduce_sum, in%x, in%w, t_w=in%w(2:), &
      & t_out=of_x, error=refused)
    call check_refused(error, refused, "agg_weighted: t_w has shape 81, needs 82")
    call agg_weighted_vjp(operator%graph%view(), reduce_sum, of_x, w=in%w, grad_w=in%w, &
      & error=refused)
    call check_refused(error, refused, "agg_weighted: x is missing")
    call agg_simple_vjp(operator%graph%view(), reduce_max, out(:de, :), grad_e=grad_e, &
      & error=refused)
    call check_refused(error, refused, "agg_simple: e is missing")
    call agg_concat_vjp(operator%graph%view(), aggregation=reduce_sum, cotangent=out, &
      & grad_e=grad_e, &
      & error=refused)
    call check_refused(error, refused, "agg_concat: cotangent has shape 12 6, needs 3 6")
    call agg_weighted_hvp(operator%graph%view(), reduce_mean, of_x, w=in%w, grad_x=in%x, &
      & error=refused)
    call check_refused(error, refused, "agg_weighted: x is missing")
    call check(error, all(out == 7) .and. all(of_x == 7) .and. &
      & all(grad_e == 7), "results changed in spite of an error")
  end subroutine test_refused

  ! ---- the operators ----

  subroutine make(operator, form, aggregation, x, error)
    type(agg_concat_operator), intent(out) :: operator
    integer, intent(in) :: form, aggregation
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer :: first, last

    operator%aggregation = aggregation
    operator%n_features = d
    if (form /= form_weighted) operator%n_edge_features = de
    if (form == form_concat) operator%n_own_features = do
    call ragged_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([d, n_nodes])
    call operator%add_input(pack([n_edges], form /= form_simple))
    call operator%add_input(pack([de, n_edges], form /= form_weighted))
    call operator%add_input(pack([do, n_nodes], form == form_concat))
    operator%n_out = d
    if (form /= form_weighted) operator%n_out = operator%n_out + de
    if (form == form_concat) operator%n_out = operator%n_out + do
    operator%n_out = operator%n_out*n_nodes
    x = numbers(operator%last_of(4), 1)
    ! their sums must not be near 0
    if (form == form_simple) return
    first = operator%first_of(2)
    last = operator%last_of(2)
    x(first:last) = 1.5_dp + x(first:last)
  end subroutine make

  function arrays(operator, x) result(views)
    type(agg_concat_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%x)
    call operator%view(2, x, views%w)
    call operator%view(3, x, views%e)
    call operator%view(4, x, views%own)
  end function arrays

end module test_aggregation

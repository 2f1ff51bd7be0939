! SPDX-License-Identifier: MIT

!> Aggregation by relations: values against plain loops, refusals.
module test_relational
  use, intrinsic :: iso_fortran_env, only: int32
  use gnograd, only: agg_relational_forward, agg_relational_jvp, reduce_sum, reduce_mean, &
    & reduce_names, error_type, dp, sp, int64
  use faces, only: close, numbers
  use test_aggregation, only: ragged_graph
  use operators, only: agg_relational_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: relational_tests

  integer, parameter :: d = 3, do = 2, n_nodes = 6, n_edges = 82, n_bases = 2
  integer(int64), parameter :: n_relations = 4

  !> Inputs
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: x => null(), coeff => null(), own => null()
    real(dp), pointer, contiguous :: w(:) => null()
  end type arrays_type

contains

  function relational_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values of both kinds", test_values), &
      & test_type("wrong codes, shapes and types", test_refused)]
  end function relational_tests

  ! ---- values ----

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(agg_relational_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    real(sp), allocatable :: out(:, :)
    integer :: aggregation, form

    do aggregation = reduce_sum, reduce_mean
      do form = 0, 7
        call make(operator, form, aggregation, x, error)
        if (allocated(error)) return
        in = arrays(operator, x)
        wanted = aggregate(operator, in)
        allocate (y(operator%n_out), out(operator%n_out/n_nodes, n_nodes))
        call operator%evaluate(x, y, error)
        if (allocated(error)) return
        call check(error, close(y, wanted, 1e-13_dp), reduce_names(aggregation))
        if (form == 7) then
          call agg_relational_forward(operator%graph%view(), n_relations, operator%edge_type, &
            & aggregation, real(in%x, sp), real(in%w, sp), real(in%coeff, sp), real(in%own, sp), &
            & out, error)
          if (allocated(error)) return
          call check(error, close(real(reshape(out, [size(y)]), dp), wanted, 1e-5_dp), &
            & reduce_names(aggregation)//" in real32")
        end if
        if (allocated(error)) return
        deallocate (y, out)
      end do
    end do
  end subroutine test_values

  !> The formula, edge by edge.
  function aggregate(operator, in) result(out)
    type(agg_relational_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    real(dp) :: out(operator%n_out), weight(0:n_edges - 1), total
    real(dp) :: rows(operator%n_out/n_nodes, 0:n_nodes - 1)
    integer(int64) :: i, p, q, row
    integer :: r, b

    weight(:) = 1
    if (associated(in%w)) weight(:) = in%w
    rows(:, :) = 0
    associate (graph => operator%graph%by_dst)
      do i = 0, n_nodes - 1
        do p = graph%offsets(i), graph%offsets(i + 1) - 1
          row = graph%edge(p)
          r = operator%edge_type(row)
          total = 1
          if (operator%aggregation == reduce_mean) total = sum([(merge(weight(graph%edge(q)), &
            & 0.0_dp, operator%edge_type(graph%edge(q)) == r), q=graph%offsets(i), &
            & graph%offsets(i + 1) - 1)])
          associate (term => weight(row)/total*in%x(:, graph%indices(p) + 1))
            if (associated(in%coeff)) then
              do b = 0, n_bases - 1
                rows(b*d + 1:b*d + d, i) = rows(b*d + 1:b*d + d, i) + in%coeff(b + 1, r + 1)*term
              end do
            else
              rows(r*d + 1:r*d + d, i) = rows(r*d + 1:r*d + d, i) + term
            end if
          end associate
        end do
        if (associated(in%own)) rows(size(rows, 1) - do + 1:, i) = in%own(:, i + 1)
      end do
    end associate
    out = reshape(rows, [operator%n_out])
  end function aggregate

  ! ---- refusals ----

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(agg_relational_operator) :: operator
    type(arrays_type) :: in
    real(dp), allocatable, target :: x(:)
    real(dp), allocatable :: out(:, :)
    integer(int32) :: types(0:n_edges - 1)

    call make(operator, 7, reduce_sum, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    types = operator%edge_type
    allocate (out(operator%n_out/n_nodes, n_nodes))
    out(:, :) = 7
    call agg_relational_forward(operator%graph%view(), n_relations, types, 2, in%x, in%w, &
      & in%coeff, in%own, out, refused)
    call check_refused(error, refused, "agg_relational: aggregation: no such code")
    call agg_relational_forward(operator%graph%view(), 0_int64, types, 0, in%x, out=out, &
      & error=refused)
    call check_refused(error, refused, "agg_relational: n_relations must be at least 1")
    call agg_relational_forward(operator%graph%view(), n_relations, types(1:), 0, in%x, in%w, &
      & in%coeff, in%own, out, refused)
    call check_refused(error, refused, "agg_relational: edge_type has shape 81, needs 82")
    call agg_relational_forward(operator%graph%view(), n_relations, types, 0, in%x(:, 2:), in%w, &
      & in%coeff, in%own, out, refused)
    call check_refused(error, refused, "agg_relational: x has shape 3 5, needs 3 6")
    call agg_relational_forward(operator%graph%view(), n_relations, types, 0, in%x, in%w, &
      & in%coeff(:, 2:), in%own, out, refused)
    call check_refused(error, refused, "agg_relational: coeff has shape 2 3, needs 2 4")
    call agg_relational_forward(operator%graph%view(), n_relations, types, 0, in%x, in%w, &
      & in%coeff, out=out, error=refused)
    call check_refused(error, refused, "agg_relational: out has shape 8 6, needs 6 6")
    call agg_relational_jvp(operator%graph%view(), n_relations, types, 0, in%x, t_w=in%w, &
      & t_out=out, error=refused)
    call check_refused(error, refused, "agg_relational: t_out has shape 8 6, needs 12 6")
    call agg_relational_jvp(operator%graph%view(), n_relations, types, 0, in%x, coeff=in%coeff, &
      & own=in%own, t_w=in%w, t_out=out, error=refused)
    call check_refused(error, refused, "agg_relational: w is missing")
    types(5:6) = [4, -1]
    call agg_relational_forward(operator%graph%view(), n_relations, types, 0, in%x, in%w, &
      & in%coeff, in%own, out, refused)
    call check_refused(error, refused, &
      & "agg_relational: edge_type[5] is 4, not one of 4 relations")
    call check(error, all(out == 7), "results changed in spite of an error")
  end subroutine test_refused

  ! ---- the operator ----

  subroutine make(operator, form, aggregation, x, error)
    type(agg_relational_operator), intent(out) :: operator
    !> Bits: weights, coefficients, own features
    integer, intent(in) :: form, aggregation
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer :: first, last, k

    operator%aggregation = aggregation
    operator%n_features = d
    operator%n_relations = n_relations
    if (btest(form, 1)) operator%n_bases = n_bases
    if (btest(form, 2)) operator%n_own_features = do
    allocate (operator%edge_type(0:n_edges - 1))
    operator%edge_type(:) = [(mod(k*k + k/5, int(n_relations) - 1), k=1, n_edges)]
    call ragged_graph(operator%graph, error)
    if (allocated(error)) return
    call operator%add_input([d, n_nodes])
    call operator%add_input(pack([n_edges], btest(form, 0)))
    call operator%add_input(pack([n_bases, int(n_relations)], btest(form, 1)))
    call operator%add_input(pack([do, n_nodes], btest(form, 2)))
    operator%n_out = d*merge(n_bases, int(n_relations), btest(form, 1))
    if (btest(form, 2)) operator%n_out = operator%n_out + do
    operator%n_out = operator%n_out*n_nodes
    x = numbers(operator%last_of(4), 1)
    ! their sums must not be near 0
    if (.not. btest(form, 0)) return
    first = operator%first_of(2)
    last = operator%last_of(2)
    x(first:last) = 1.5_dp + x(first:last)
  end subroutine make

  function arrays(operator, x) result(views)
    type(agg_relational_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%x)
    call operator%view(2, x, views%w)
    call operator%view(3, x, views%coeff)
    call operator%view(4, x, views%own)
  end function arrays

end module test_relational

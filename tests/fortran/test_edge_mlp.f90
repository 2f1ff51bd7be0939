! SPDX-License-Identifier: MIT

!> edge_mlp: values against the formula edge by edge, cotangents that are not there, refusals.
module test_edge_mlp
  use gnograd, only: act_gelu, act_silu, act_tanh, reduce_sum, reduce_mean, outputs_both, &
    & outputs_edges, outputs_nodes, outputs_names, error_type, dp, sp, int64
  use gnograd_kernels, only: edge_mlp_forward, edge_mlp_vjp
  use faces, only: close, numbers
  use operators, only: edge_mlp_operator
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: edge_mlp_tests, apply_layers

  integer, parameter :: f = 3, n_src = 7, n_dst = 4, n_edges = 41, n_cases = 12

  !> Inputs, tangents or gradients
  type :: arrays_type
    real(dp), pointer, contiguous, dimension(:, :) :: e => null(), x_src => null(), x_dst => null()
    real(dp), pointer, contiguous, dimension(:) :: weights => null(), edge_weight => null()
  end type arrays_type

  !> Outputs, tangents or cotangents; without columns where they are not asked for
  type :: outputs_type
    real(dp), pointer, contiguous, dimension(:, :) :: edges => null(), nodes => null()
  end type outputs_type

contains

  function edge_mlp_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("values", test_values), &
      & test_type("values, r32", test_single), &
      & test_type("absent cotangents", test_cotangents), &
      & test_type("wrong shapes and codes", test_refused)]
  end function edge_mlp_tests

  !> Inputs, layers, outputs, reductions and activations in several combinations.
  subroutine choose(k, operator, x, error)
    !> 1 to n_cases
    integer, intent(in) :: k
    type(edge_mlp_operator), intent(out) :: operator
    real(dp), allocatable, intent(out) :: x(:)
    type(error_type), allocatable, intent(out) :: error
    integer, parameter :: activations(0:2) = [act_tanh, act_gelu, act_silu]
    integer(int64) :: n_weights
    integer :: before, l, last, n_in, p
    logical :: seen(3)

    operator%f_out = f
    operator%outputs = mod(k, 3)
    operator%activation = activations(mod(k/2, 3))
    operator%reduction = merge(reduce_sum, reduce_mean, mod(k, 2) == 0)
    operator%layer_norm = mod(k, 4) < 3
    operator%residual = mod(k, 4) < 2
    seen = [operator%residual .or. mod(k, 8) == 2, mod(k, 5) > 0, mod(k, 8) /= 2]
    ! the second destination has no edges
    call operator%graph%init([1, 3, 3, 8, n_edges + 1], [(1 + mod(3*p*p, n_src), p=1, n_edges)], &
      & n_src, error, [(1 + mod(11*p, n_edges), p=1, n_edges)])
    if (allocated(error)) return
    operator%widths = [5, 4, f]
    if (mod(k, 3) == 1) operator%widths = [6, f]
    if (mod(k, 6) == 5) operator%widths = [f]
    n_in = 0
    n_in = sum(merge([f, 2, 4], 0, seen))
    n_weights = merge(2*f, 0, operator%layer_norm)
    before = n_in
    do l = 1, size(operator%widths)
      n_weights = n_weights + (before + 1)*operator%widths(l)
      before = int(operator%widths(l))
    end do
    call operator%add_input(pack([f, n_edges], seen(1)))
    call operator%add_input(pack([2, n_src], seen(2)))
    call operator%add_input(pack([4, n_dst], seen(3)))
    call operator%add_input([int(n_weights)])
    call operator%add_input(pack([n_edges], mod(k, 4) /= 0))
    operator%n_out = f*(merge(n_edges, 0, operator%outputs /= outputs_nodes) + &
      & merge(n_dst, 0, operator%outputs /= outputs_edges))
    x = numbers(operator%last_of(5), k)
    ! biases of the last layer far from each other, so that differences see no small variance, and
    ! no sum of weights near zero
    last = operator%last_of(4) - merge(2*f, 0, operator%layer_norm)
    x(last - f + 1:last) = [(3.0_dp*p, p=1, f)]
    x(operator%last_of(4) + 1:) = x(operator%last_of(4) + 1:) + 3
  end subroutine choose

  subroutine test_values(error)
    type(error_type), allocatable, intent(out) :: error
    type(edge_mlp_operator) :: operator
    real(dp), allocatable, target :: x(:), y(:), wanted(:)
    integer :: k

    do k = 1, n_cases
      call choose(k, operator, x, error)
      if (allocated(error)) return
      allocate (y(operator%n_out), wanted(operator%n_out))
      call operator%evaluate(x, y, error)
      if (allocated(error)) return
      call formula(operator, arrays(operator, x), results(operator, wanted))
      call check(error, close(y, wanted, 1e-13_dp), "not the formula")
      if (allocated(error)) return
      deallocate (y, wanted)
    end do
  end subroutine test_values

  subroutine test_single(error)
    type(error_type), allocatable, intent(out) :: error
    type(edge_mlp_operator) :: operator
    type(arrays_type) :: in
    type(outputs_type) :: wanted
    real(dp), allocatable, target :: x(:), y(:)
    real(sp), allocatable :: edges(:, :), nodes(:, :)

    ! both outputs, with edge weights
    call choose(9, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (y(operator%n_out))
    call operator%evaluate(x, y, error)
    if (allocated(error)) return
    wanted = results(operator, y)
    allocate (edges(f, n_edges), nodes(f, n_dst))
    call edge_mlp_forward(operator%graph%view(), operator%widths, operator%activation, &
      & operator%layer_norm, operator%residual, operator%reduction, operator%outputs, &
      & real(in%e, sp), real(in%x_src, sp), real(in%x_dst, sp), real(in%weights, sp), &
      & real(in%edge_weight, sp), edges, nodes, error)
    if (allocated(error)) return
    call check(error, close(real([edges], dp), [wanted%edges], 1e-6_dp), "edges")
    call check(error, close(real([nodes], dp), [wanted%nodes], 1e-6_dp), "nodes")
  end subroutine test_single

  !> A cotangent that is absent is zero; that of an output that is not there is not read.
  subroutine test_cotangents(error)
    type(error_type), allocatable, intent(out) :: error
    type(edge_mlp_operator) :: operator
    type(arrays_type) :: in, grad
    type(outputs_type) :: c
    real(dp), allocatable, target :: x(:), cotangent(:), g(:), wanted(:)
    integer :: k

    call choose(9, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (g, wanted, mold=x)
    grad = arrays(operator, g)
    do k = outputs_edges, outputs_nodes
      cotangent = numbers(operator%n_out, 21)
      c = results(operator, cotangent)
      if (k == outputs_edges) c%nodes = 0
      if (k == outputs_nodes) c%edges = 0
      call operator%reverse(cotangent, x, wanted, error)
      if (allocated(error)) return
      if (k == outputs_edges) nullify (c%nodes)
      if (k == outputs_nodes) nullify (c%edges)
      call reverse_with(c, outputs_both)
      call check(error, close(g, wanted, 1e-13_dp), "of "//outputs_names(k)//" alone")
      if (allocated(error)) return
      cotangent = numbers(operator%n_out, 21)
      c = results(operator, cotangent)
      call reverse_with(c, k)
      call check(error, close(g, wanted, 1e-13_dp), "with outputs="//outputs_names(k))
      if (allocated(error)) return
    end do

  contains

    subroutine reverse_with(c, outputs)
      type(outputs_type), intent(in) :: c
      integer, intent(in) :: outputs

      call edge_mlp_vjp(operator%graph%view(), operator%widths, operator%activation, &
        & operator%layer_norm, operator%residual, operator%reduction, outputs, c%edges, c%nodes, &
        & in%e, in%x_src, in%x_dst, in%weights, in%edge_weight, grad%e, grad%x_src, grad%x_dst, &
        & grad%weights, grad%edge_weight, error)
    end subroutine reverse_with

  end subroutine test_cotangents

  subroutine test_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    type(edge_mlp_operator) :: operator
    type(arrays_type) :: in
    type(outputs_type) :: out
    real(dp), allocatable, target :: x(:), y(:)
    integer(int64), parameter :: none(0) = [integer(int64) ::]
    integer :: right(3)

    call choose(9, operator, x, error)
    if (allocated(error)) return
    in = arrays(operator, x)
    allocate (y(operator%n_out), source=7.0_dp)
    out = results(operator, y)
    right = [operator%activation, operator%reduction, operator%outputs]
    call forward(none, right)
    call check_refused(error, refused, "edge_mlp: widths is empty")
    call forward([5_int64, 0_int64], right)
    call check_refused(error, refused, "edge_mlp: widths must be at least 1")
    call forward([5_int64, 4_int64], right)
    call check_refused(error, refused, "edge_mlp: e has shape 3 41, needs 4 41")
    call forward([5_int64, 3_int64], right)
    call check_refused(error, refused, "edge_mlp: weights has shape 95, needs 94")
    call forward(operator%widths, [17, right(2:)])
    call check_refused(error, refused, "edge_mlp: unknown activation")
    call forward(operator%widths, [right(1), 17, right(3)])
    call check_refused(error, refused, "edge_mlp: reduction must be sum or mean")
    call forward(operator%widths, [right(:2), 17])
    call check_refused(error, refused, "edge_mlp: outputs must be both, edges or nodes")
    in%x_src => in%x_src(:, :3)
    call forward(operator%widths, right)
    call check_refused(error, refused, "edge_mlp: x_src has shape 2 3, needs 2 7")
    in = arrays(operator, x)
    out%nodes => out%nodes(:, 2:)
    call forward(operator%widths, right)
    call check_refused(error, refused, "edge_mlp: nodes has shape 3 3, needs 3 4")
    call check(error, all(y == 7), "results changed in spite of an error")

  contains

    subroutine forward(widths, codes)
      integer(int64), intent(in), contiguous :: widths(:)
      integer, intent(in) :: codes(3)

      call edge_mlp_forward(operator%graph%view(), widths, codes(1), operator%layer_norm, &
        & operator%residual, codes(2), codes(3), in%e, in%x_src, in%x_dst, in%weights, &
        & in%edge_weight, out%edges, out%nodes, refused)
    end subroutine forward

  end subroutine test_refused

  ! ---- the operator ----

  function arrays(operator, x, mask) result(views)
    class(edge_mlp_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: x(:)
    logical, intent(in), optional :: mask(:)
    type(arrays_type) :: views

    call operator%view(1, x, views%e, mask)
    call operator%view(2, x, views%x_src, mask)
    call operator%view(3, x, views%x_dst, mask)
    call operator%view(4, x, views%weights, mask)
    call operator%view(5, x, views%edge_weight, mask)
  end function arrays

  function results(operator, y) result(views)
    class(edge_mlp_operator), intent(in) :: operator
    real(dp), intent(in), contiguous, target :: y(:)
    type(outputs_type) :: views
    integer :: at, n

    n = merge(n_edges, 0, operator%outputs /= outputs_nodes)
    at = f*n
    views%edges(1:f, 1:n) => y(:at)
    n = merge(n_dst, 0, operator%outputs /= outputs_edges)
    views%nodes(1:f, 1:n) => y(at + 1:at + f*n)
  end function results

  !> Edge by edge.
  subroutine formula(operator, in, out)
    type(edge_mlp_operator), intent(in) :: operator
    type(arrays_type), intent(in) :: in
    type(outputs_type), intent(in) :: out
    real(dp) :: nodes(f, n_dst), total(n_dst), mean, w
    real(dp), allocatable :: z(:)
    integer(int64) :: e, i, j, p
    integer :: at

    nodes = 0
    total = 0
    associate (edges => operator%graph%view())
      do i = 0, n_dst - 1
        do p = edges%by_dst%offsets(i), edges%by_dst%offsets(i + 1) - 1
          j = edges%by_dst%indices(p)
          e = edges%by_dst%edge(p)
          z = [real(dp) ::]
          if (associated(in%e)) z = [z, in%e(:, e + 1)]
          if (associated(in%x_src)) z = [z, in%x_src(:, j + 1)]
          if (associated(in%x_dst)) z = [z, in%x_dst(:, i + 1)]
          call apply_layers(operator%activation, operator%widths, in%weights, z, at)
          if (operator%layer_norm) then
            mean = sum(z)/f
            z = (z - mean)/sqrt(sum((z - mean)**2)/f + 1e-5_dp)
            z = in%weights(at + 1:at + f)*z + in%weights(at + f + 1:)
          end if
          if (operator%residual) z = in%e(:, e + 1) + z
          w = 1
          if (associated(in%edge_weight)) w = in%edge_weight(e + 1)
          nodes(:, i + 1) = nodes(:, i + 1) + w*z
          total(i + 1) = total(i + 1) + w
          if (operator%outputs /= outputs_nodes) out%edges(:, e + 1) = z
        end do
        if (operator%reduction == reduce_mean .and. &
          & edges%by_dst%offsets(i + 1) > edges%by_dst%offsets(i)) &
          & nodes(:, i + 1) = nodes(:, i + 1)/total(i + 1)
      end do
    end associate
    if (operator%outputs /= outputs_edges) out%nodes = nodes
  end subroutine formula

  !> Linear layers with an activation between them, for one edge.
  pure subroutine apply_layers(activation, widths, packed, z, n_read)
    integer, intent(in) :: activation
    integer(int64), intent(in) :: widths(:)
    !> Layers U_1, b_1, U_2, ..., and what may follow
    real(dp), intent(in) :: packed(:)
    !> Inputs of the first layer, then outputs of the last
    real(dp), allocatable, intent(inout) :: z(:)
    !> Numbers in the layers
    integer, intent(out) :: n_read
    real(dp), allocatable :: next(:)
    integer :: l, n, q

    n_read = 0
    do l = 1, size(widths)
      if (l > 1) z = activate(activation, z)
      n = int(widths(l))
      ! a loop: gfortran 12 takes matmul for an array of the last layer's length
      next = packed(n_read + n*size(z) + 1:n_read + n*(size(z) + 1))
      do q = 1, size(z)
        next = next + z(q)*packed(n_read + 1:n_read + n)
        n_read = n_read + n
      end do
      n_read = n_read + n
      z = next
    end do
  end subroutine apply_layers

  pure function activate(code, x) result(y)
    integer, intent(in) :: code
    real(dp), intent(in) :: x(:)
    real(dp), allocatable :: y(:)

    select case (code)
    case (act_tanh)
      y = tanh(x)
    case (act_gelu)
      y = x*(1 + erf(x/sqrt(2.0_dp)))/2
    case default
      y = x/(1 + exp(-x))
    end select
  end function activate

end module test_edge_mlp

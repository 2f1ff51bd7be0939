! SPDX-License-Identifier: MIT

!> Programs that stop at a division by zero, an invalid operation or an overflow: with finite input no
!> kernel has any, whatever nodes have no edges and whatever queries see no key.
module test_traps
  use, intrinsic :: ieee_arithmetic, only: ieee_set_halting_mode, ieee_divide_by_zero, &
    & ieee_invalid, ieee_overflow, ieee_is_finite, ieee_value, ieee_quiet_nan
  use gnograd, only: tape_type, array_type, sigmoid, silu, gelu, tanh, relu, sin, cos, exp, log, sqrt, &
    & abs, max, min, norm, mean, sum, softmax, dot_product, matmul, reshape, gather, concatenate, &
    & slice, transpose, operator(+), operator(-), operator(*), operator(/), operator(**)
  use gnograd_core_codes, only: reduce_sum, reduce_mean, reduce_min, reduce_max, score_leaky_relu, &
    & score_tanh
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_graph_view, only: graph_view
  use gnograd_core_kinds, only: dp, int32, int64, sp
  use gnograd_core_threads, only: set_n_threads
  use gnograd_kernels, only: agg_concat_forward, agg_concat_vjp, &
    & agg_concat_jvp, agg_concat_hvp
  use gnograd_kernels_attention_backward, only: differentiate
  use gnograd_kernels_attention_forward, only: attend
  use gnograd_kernels_mha_gat, only: gat_r32
  use gnograd_kernels_nsa, only: selected_pattern, window_pattern
  use gnograd_kernels_nsa_attention, only: attention_forward, attention_vjp, attention_jvp, &
    & attention_hvp
  use gnograd_kernels_nsa_pattern, only: pattern_type
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: traps_tests

contains

  function traps_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("aggregation with nodes without edges", test_aggregation), &
      & test_type("graph attention with nodes without edges", test_gat), &
      & test_type("causal windows, empty selections", test_nsa), &
      & test_type("searches for near points", test_searches), &
      & test_type("searches with NaN", test_nan), &
      & test_type("operations of the tape, real32", test_tape_r32), &
      & test_type("operations of the tape, real64", test_tape_r64), &
      & test_type("arrays without numbers", test_no_numbers)]
  end function traps_tests

  !> Stop at exceptions, or go on; exceptions belong to a thread, so that there is only one.
  subroutine trap(on)
    logical, intent(in) :: on

    call set_n_threads(merge(1, 0, on))
    call ieee_set_halting_mode([ieee_divide_by_zero, ieee_invalid, ieee_overflow], on)
  end subroutine trap

  !> Three destinations, one of them without edges, and a source without, too.
  subroutine make_graph(graph, error)
    type(graph_type), intent(out) :: graph
    type(error_type), allocatable, intent(out) :: error

    call graph%init([1, 3, 3, 5], [1, 2, 2, 4], 4, error)
  end subroutine make_graph

  !> Searches with a radius without end, and among points in one place, trap nothing.
  subroutine test_searches(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type) :: graph
    real(dp) :: x(2, 40)

    call random_number(x)
    x(:, 30:) = 0.5_dp
    call trap(.true.)
    call graph%knn(x, 3, error, period=[1.0_dp, 0.0_dp])
    if (.not. allocated(error)) call graph%radius(x, huge(1.0_dp), error, max_neighbors=5)
    call trap(.false.)
    call check(error, graph%n_edges == 200, "edges")
  end subroutine test_searches

  !> NaN as an argument is refused; a comparison with it would stop the program.
  subroutine test_nan(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: radius, period, points
    type(graph_type) :: graph
    real(dp) :: x(2, 4), nan

    nan = ieee_value(nan, ieee_quiet_nan)
    call random_number(x)
    call trap(.true.)
    call graph%radius(x, nan, radius)
    call graph%knn(x, 3, period, period=[1.0_dp, nan])
    x(1, 2) = nan
    call graph%radius(x, 0.5_dp, points)
    call trap(.false.)
    call check_refused(error, radius, "graph%radius: radius must not be negative")
    if (.not. allocated(error)) &
      & call check_refused(error, period, "graph%knn: period must not be negative, and finite")
    if (.not. allocated(error)) &
      & call check_refused(error, points, "graph%radius: sources(:, 2) has entries that are not finite")
  end subroutine test_nan

  !> Means, norms and the like of nothing, with their derivatives.
  subroutine test_no_numbers(error)
    type(error_type), allocatable, intent(out) :: error
    type(tape_type) :: tape
    type(array_type) :: x, y(9)
    real(dp) :: none(4, 0)
    real(dp), allocatable :: grad(:, :)
    integer :: k

    call tape%init(error)
    if (allocated(error)) return
    call trap(.true.)
    x = tape%parameter(none)
    y = [mean(x), sum(mean(x, 1)), sum(mean(x, 2)), norm(x), sum(norm(x, 2)), sum(softmax(x, 1)), &
      & sum(softmax(x, 2)), sum(matmul(transpose(x), x)), sum(exp(x)/x)]
    do k = 1, size(y)
      call tape%backward(y(k), error)
      if (.not. allocated(error)) call x%grad(grad, error)
      if (allocated(error)) exit
    end do
    call trap(.false.)
    if (allocated(error)) return
    call check(error, .not. (ieee_is_finite(y(1)%value()) .or. ieee_is_finite(y(3)%value())), &
      & "means of nothing are no numbers")
    call check(error, all([(abs(y(k)%value()) <= 0, k=4, 9)]) .and. abs(y(2)%value()) <= 0, "sums")
    call check(error, size(grad, 1) == 4 .and. size(grad, 2) == 0, "shape of the gradient")
  end subroutine test_no_numbers

  subroutine test_tape_r32(error)
    type(error_type), allocatable, intent(out) :: error

    call try_tape(.true., error)
  end subroutine test_tape_r32

  subroutine test_tape_r64(error)
    type(error_type), allocatable, intent(out) :: error

    call try_tape(.false., error)
  end subroutine test_tape_r64

  !> Values and derivatives to third order, of numbers beyond the exponentials of real64 where a function
  !> of them is finite.
  subroutine try_tape(single, error)
    logical, intent(in) :: single
    type(error_type), allocatable, intent(out) :: error
    real(dp), parameter :: wide(12) = [-30000.0_dp, -1000.0_dp, -709.9_dp, -88.8_dp, -1.0_dp, &
      & -1e-30_dp, 0.0_dp, 1e-30_dp, 1.0_dp, 88.8_dp, 1000.0_dp, 30000.0_dp], &
      & narrow(4) = [-60.0_dp, 0.0_dp, 1e-30_dp, 10.0_dp], positive(4) = [1e-3_dp, 0.5_dp, 1.0_dp, &
      & 3000.0_dp]
    integer, parameter :: n_operations = 30
    type(tape_type) :: tape
    integer :: k

    do k = 1, n_operations
      call tape%init(error)
      if (allocated(error)) exit
      call trap(.true.)
      call differentiate_three_times(k)
      call trap(.false.)
      if (allocated(error)) exit
    end do

  contains

    function numbers(values) result(x)
      real(dp), intent(in) :: values(:)
      type(array_type) :: x

      if (single) then
        x = tape%parameter(real(values, sp))
      else
        x = tape%parameter(values)
      end if
    end function numbers

    subroutine differentiate_three_times(k)
      integer, intent(in) :: k
      type(array_type) :: x, y, z
      type(array_type), allocatable :: g(:)
      integer :: order

      select case (k)
      case (8)
        x = numbers(narrow)
      case (9:11)
        x = numbers(positive)
      case default
        x = numbers(wide)
      end select
      y = apply(k, x)
      z = sum(y)
      do order = 1, 3
        call tape%gradient(z, [x], g, error, create_graph=order < 3)
        if (allocated(error)) exit
        if (order == 1) call tape%backward(z, error)
        if (allocated(error)) exit
        z = sum(g(1)*g(1)/1e12_dp) + 0*sum(x)
      end do
      if (allocated(error)) return
      call check(error, ieee_is_finite(z%value()), "operation "//char(48 + k/10)//char(48 + mod(k, 10)))
    end subroutine differentiate_three_times

    function apply(k, x) result(y)
      integer, intent(in) :: k
      type(array_type), intent(in) :: x
      type(array_type) :: y

      select case (k)
      case (1)
        y = sigmoid(x)
      case (2)
        y = silu(x)
      case (3)
        y = gelu(x)
      case (4)
        y = tanh(x)
      case (5)
        y = relu(x)
      case (6)
        y = sin(x)
      case (7)
        y = cos(x)
      case (8)
        y = exp(x)
      case (9)
        y = log(x)
      case (10)
        y = sqrt(x)
      case (11)
        y = 1/x
      case (12)
        y = abs(x)
      case (13)
        y = max(x, 0.5_dp)
      case (14)
        y = min(x, -x)
      case (15)
        y = x**2
      case (16)
        y = x**3/1e6_dp
      case (17)
        y = -x + 2*x - x/3
      case (18)
        y = x*x
      case (19)
        y = norm(x)
      case (20)
        y = norm(0*x)
      case (21)
        y = mean(x)
      case (22)
        y = softmax(x, 1)
      case (23)
        y = dot_product(x, x)
      case (24)
        y = softmax(reshape(x, [3, 4]), 2)
      case (25)
        y = matmul(reshape(x, [3, 4]), reshape(x, [4, 3]))
      case (26)
        y = norm(reshape(x, [3, 4]), 1)
      case (27)
        y = gather(reshape(x, [3, 4]), [1, 1, 4])
      case (28)
        y = concatenate([slice(x, [2], [3]), x], 1)
      case (29)
        y = transpose(reshape(x, [3, 4]))
      case default
        y = silu(sigmoid(x) + gelu(x))
      end select
    end function apply

  end subroutine try_tape

  subroutine test_aggregation(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type), target :: graph
    real(sp) :: x(2, 4), w(4), e(3, 4), own(1, 3), out(6, 3), grad_x(2, 4), grad_w(4), grad_e(3, 4)
    integer :: aggregation

    call make_graph(graph, error)
    if (allocated(error)) return
    call random_number(x)
    call random_number(w)
    call random_number(e)
    call random_number(own)
    call trap(.true.)
    do aggregation = min(reduce_sum, reduce_mean, reduce_min), reduce_max
      call agg_concat_forward(graph%view(), aggregation, x, w, e, own, out, error=error)
      if (.not. allocated(error)) call check(error, all(ieee_is_finite(out)), "forward")
      if (.not. allocated(error)) call agg_concat_vjp(graph%view(), aggregation=aggregation, &
        & cotangent=out, x=x, w=w, e=e, own=own, grad_x=grad_x, grad_w=grad_w, grad_e=grad_e, &
        & error=error)
      if (.not. allocated(error)) call check(error, all(ieee_is_finite(grad_x)), "vjp")
      if (.not. allocated(error)) call agg_concat_jvp(graph%view(), aggregation, x, w, e, own, &
        & x, w, e, &
        & own, out, error)
      if (.not. allocated(error)) call agg_concat_hvp(graph%view(), aggregation=aggregation, &
        & cotangent=out, x=x, w=w, e=e, own=own, t_x=x, t_w=w, grad_x=grad_x, grad_w=grad_w, &
        & grad_e=grad_e, error=error)
      if (allocated(error)) exit
    end do
    call trap(.false.)
  end subroutine test_aggregation

  subroutine test_gat(error)
    type(error_type), allocatable, intent(out) :: error
    type(graph_type), target :: graph
    type(graph_view), target :: seen
    type(gat_r32) :: op, fresh
    real(sp), target :: x(4, 0:3), y(4, 0:2), a(8), out(4, 0:2), lse(2, 0:2), g(4, 0:2)
    real(sp), target :: grad_x(4, 0:3), grad_y(4, 0:2), grad_a(8)
    integer :: activation, order

    call make_graph(graph, error)
    if (allocated(error)) return
    seen = graph%view()
    call random_number(x)
    call random_number(y)
    call random_number(a)
    call random_number(g)
    ! scores far beyond the exponentials of real32
    x = 300*(x - 0.5_sp)
    call trap(.true.)
    activations: do activation = score_leaky_relu, score_tanh
      do order = 1, 2
        op = fresh
        op%n_heads = 2
        op%n_channels = 2
        op%activation = activation
        op%parameter = 0.2_sp
        op%second = order == 2
        op%graph => seen
        op%x%source(1:, 0:) => x
        op%x%value(1:, 0:) => x
        op%x%target(1:, 0:) => y
        op%x%weight => a
        if (order == 1) then
          call attend(op, error, out=out, lse=lse)
          if (allocated(error)) exit activations
          deallocate (op%target_table, op%source_part)
        else
          op%dx = op%x
        end if
        op%grad%source(1:, 0:) => grad_x
        op%grad%value(1:, 0:) => grad_x
        op%grad%target(1:, 0:) => grad_y
        op%grad%weight => grad_a
        op%cotangent(1:, 0:) => g
        call differentiate(op, error)
        if (.not. allocated(error)) call check(error, all(ieee_is_finite(grad_x)), "gradient")
        if (allocated(error)) exit activations
      end do
    end do activations
    call trap(.false.)
  end subroutine test_gat

  subroutine test_nsa(error)
    type(error_type), allocatable, intent(out) :: error
    integer(int64), parameter :: n = 150, keys = 200
    type(pattern_type) :: pattern
    integer(int32) :: blocks(2, 1, n)
    integer(int64) :: offset
    integer :: how

    blocks = -1
    blocks(1, 1, 3:90) = 1
    blocks(2, 1, 50:) = 0
    call trap(.true.)
    do how = 1, 4
      offset = merge(-30_int64, 20_int64, how == 2)
      if (how <= 2) then
        call window_pattern(pattern, "window", n, keys, 2_int64, 1_int64, 3_int64, 2_int64, &
          & window=40_int64, causal=.true., q_offset=offset, error=error)
      else
        call selected_pattern(pattern, "selected", n, keys, 2_int64, 1_int64, 3_int64, 2_int64, &
          & block_index=blocks, block_size=64_int64, causal=how == 3, q_offset=0_int64, &
          & query_block=1_int64, duplicates=0, error=error)
      end if
      if (.not. allocated(error)) call run(pattern, merge(50._sp, 1._sp, how == 1), error)
      if (allocated(error)) exit
    end do
    call trap(.false.)

  contains

    subroutine run(pattern, size, error)
      type(pattern_type), intent(in) :: pattern
      real(sp), intent(in) :: size
      type(error_type), allocatable, intent(out) :: error
      real(sp) :: q(3, 2*n), k(3, keys), v(2, keys), out(2, 2*n), tangent(2, 2*n)
      real(sp) :: grad_q(3, 2*n), grad_k(3, keys), grad_v(2, keys)

      call random_number(q)
      call random_number(k)
      call random_number(v)
      q = size*(q - 0.3_sp)
      call attention_forward(pattern, 0.5_sp, q, k, v, out=out, error=error)
      if (.not. allocated(error)) call attention_vjp(pattern, 0.5_sp, out, q=q, k=k, v=v, &
        & error=error, grad_q=grad_q, grad_k=grad_k, grad_v=grad_v)
      if (.not. allocated(error)) call attention_jvp(pattern, 0.5_sp, q, k, v, dq=q, dk=k, dv=v, &
        & out_tangent=tangent, error=error)
      if (.not. allocated(error)) call attention_hvp(pattern, 0.5_sp, out, q=q, k=k, v=v, dq=q, &
        & dk=k, dv=v, error=error, grad_q=grad_q, grad_k=grad_k, grad_v=grad_v)
      if (.not. allocated(error)) call check(error, all(ieee_is_finite(out)), "forward")
    end subroutine run

  end subroutine test_nsa

end module test_traps

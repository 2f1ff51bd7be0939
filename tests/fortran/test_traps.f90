! SPDX-License-Identifier: MIT

!> Programs that stop at a division by zero, an invalid operation or an overflow: with finite input no
!> kernel has any, whatever nodes have no edges and whatever queries see no key.
module test_traps
  use, intrinsic :: ieee_arithmetic, only: ieee_set_halting_mode, ieee_divide_by_zero, &
    & ieee_invalid, ieee_overflow, ieee_is_finite
  use gnograd_core_codes, only: reduce_sum, reduce_mean, reduce_min, reduce_max, score_leaky_relu, &
    & score_tanh
  use gnograd_core_error, only: error_type
  use gnograd_core_graph, only: graph_type
  use gnograd_core_graph_view, only: graph_view
  use gnograd_core_kinds, only: int32, int64, sp
  use gnograd_core_threads, only: set_n_threads
  use gnograd_kernels_aggregation, only: agg_concat_forward, agg_concat_vjp, &
    & agg_concat_jvp, agg_concat_hvp
  use gnograd_kernels_attention_backward, only: differentiate
  use gnograd_kernels_attention_forward, only: attend
  use gnograd_kernels_gat, only: gat_r32
  use gnograd_kernels_nsa, only: selected_pattern, window_pattern
  use gnograd_kernels_nsa_attention, only: attention_forward, attention_vjp, attention_jvp, &
    & attention_hvp
  use gnograd_kernels_nsa_pattern, only: pattern_type
  use testing, only: test_type, check
  implicit none
  private
  public :: traps_tests

contains

  function traps_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("aggregation with nodes without edges", test_aggregation), &
      & test_type("graph attention with nodes without edges", test_gat), &
      & test_type("causal windows, empty selections", test_nsa)]
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

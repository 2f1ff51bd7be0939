! SPDX-License-Identifier: MIT

!> select_blocks, which has no derivatives and so no laws: blocks against all scores, refusals.
module test_nsa
  use gnograd_kernels, only: compressed_attention_forward, select_blocks_forward
  use gnograd, only: error_type, dp, int32, int64
  use faces, only: numbers
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: nsa_tests

  !> Features of keys and values, query heads, key/value heads, queries, keys, slots, and tokens
  !> that compress makes of the keys of two sequences, 4 and 6
  integer, parameter :: d_k = 5, d_v = 3, n_q_heads = 4, n_heads = 2, n_queries = 19, n_keys = 23, &
    & n_slots = 3, n_compressed = 10
  integer(int64), parameter :: cu_q(3) = [0, 8, 19], cu_k(3) = [0, 9, 23]
  integer(int64), parameter :: block_size = 4, block = 3, stride = 2
  real(dp), parameter :: scale = 0.7_dp

contains

  function nsa_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("select_blocks", test_select), &
      & test_type("select_blocks, wrong sizes", test_select_refused)]
  end function nsa_tests

  !> Blocks are those always chosen, then the best by the scores of all blocks.
  subroutine test_select(error)
    type(error_type), allocatable, intent(out) :: error
    real(dp) :: q(d_k, n_q_heads, n_queries), k(d_k, n_heads, n_compressed), &
      & lse(n_q_heads, n_queries), out(d_v, n_q_heads, n_queries), v(d_v, n_heads, n_compressed)
    integer(int32) :: blocks(n_slots, n_heads, n_queries)
    integer(int64), parameter :: cu_c(3) = [0, 4, 10]
    logical :: causal
    integer :: i, head

    q(:, :, :) = reshape(numbers(size(q), 1), shape(q))
    k(:, :, :) = reshape(numbers(size(k), 2), shape(k))
    v(:, :, :) = 0
    causal = .false.
    do
      call compressed_attention_forward(cu_q, cu_c, block, stride, scale, causal, 1_int64, q, k, &
        & v, out, lse, error)
      if (.not. allocated(error)) call select_blocks_forward(int(n_keys, int64), cu_q, cu_k, &
        & block, stride, block_size, scale, causal, 1_int64, 1_int64, 1_int64, 0_int64, .true., &
        & merge(0_int64, 100_int64, causal), q, k, lse, blocks, error)
      if (allocated(error)) return
      do i = 1, n_queries
        do head = 1, n_heads
          call check(error, all(blocks(:, head, i) == best(i, head)), "blocks of a query")
        end do
      end do
      if (causal) exit
      causal = .true.
    end do

  contains

    !> Block 0 first, never the own block, then by score.
    function best(i, head) result(chosen)
      integer, intent(in) :: i, head
      integer(int32) :: chosen(n_slots)
      real(dp), allocatable :: scores(:)
      logical, allocatable :: left(:)
      integer :: s, own, b, c, h, n, token

      s = merge(2, 1, i > cu_q(2))
      own = int((i - 1 - cu_q(s) + 1)/block_size)
      n = int((cu_k(s + 1) - cu_k(s) + block_size - 1)/block_size)
      allocate (scores(0:n - 1), left(0:n - 1))
      scores(:) = 0
      do c = 0, int(cu_c(s + 1) - cu_c(s)) - 1
        if (causal .and. c*stride + block - 1 > i - 1 - cu_q(s) + 1) cycle
        do h = 2*head - 1, 2*head
          do token = int(c*stride), int(c*stride + block) - 1
            b = token/int(block_size)
            scores(b) = scores(b) &
              & + exp(scale*sum(q(:, h, i)*k(:, head, cu_c(s) + c + 1)) - lse(h, i))
          end do
        end do
      end do
      left(:) = .true.
      if (own < n) left(own) = .false.
      if (causal) left(own + 1:) = .false.
      chosen(:) = -1
      scores(0) = huge(scores)
      do c = 1, n_slots
        b = maxloc(scores, mask=left, dim=1) - 1
        if (b < 0) exit
        chosen(c) = int(b, int32)
        left(b) = .false.
      end do
    end function best

  end subroutine test_select

  subroutine test_select_refused(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: refused
    real(dp) :: q(d_k, n_q_heads, n_queries), k(d_k, n_heads, n_compressed), &
      & lse(n_q_heads, n_queries)
    integer(int32) :: blocks(n_slots, n_heads, n_queries)

    q(:, :, :) = 0
    k(:, :, :) = 0
    lse(:, :) = 0
    blocks(:, :, :) = 7
    call choose(q, k, lse, 1_int64, 4_int64, "select_blocks: first_blocks and local_blocks are "// &
      & "more than n_blocks")
    call choose(q, k, lse, 0_int64, 0_int64, "select_blocks: query_block must be at least 1")
    call choose(q, k, lse, 2_int64, 0_int64, &
      & "select_blocks: block_index has shape 3 2 19, needs 3 2 10")
    call choose(q, k(:, :, 2:), lse, 1_int64, 0_int64, &
      & "select_blocks: k must have the compressed tokens of all keys")
    call choose(q, k(2:, :, :), lse, 1_int64, 0_int64, &
      & "select_blocks: k has shape 4 2 10, needs 5 2 10")
    call choose(q, k, lse(:, 2:), 1_int64, 0_int64, &
      & "select_blocks: lse has shape 4 18, needs 4 19")
    call check(error, all(blocks == 7), "blocks changed in spite of an error")

  contains

    subroutine choose(q, k, lse, query_block, first_blocks, message)
      real(dp), intent(in), contiguous :: q(:, :, :), k(:, :, :), lse(:, :)
      integer(int64), intent(in) :: query_block, first_blocks
      character(len=*), intent(in) :: message

      call select_blocks_forward(int(n_keys, int64), cu_q, cu_k, block, stride, block_size, scale, &
        & .false., 0_int64, query_block, first_blocks, 0_int64, .false., 0_int64, q, k, lse, &
        & blocks, refused)
      call check_refused(error, refused, message)
    end subroutine choose

  end subroutine test_select_refused

end module test_nsa

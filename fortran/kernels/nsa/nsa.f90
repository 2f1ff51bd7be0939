! SPDX-License-Identifier: MIT

!> The branches of native sparse attention as patterns: selected blocks, compressed tokens, windows.
module gnograd_kernels_nsa
  use gnograd_core_error, only: error_type, fail, text, code_value
  use gnograd_core_kinds, only: int32, int64
  use gnograd_kernels_nsa_pattern, only: pattern_type, duplicates_ignore, duplicates_count
  implicit none
  private
  public :: selected_pattern, compressed_pattern, window_pattern, dense_pattern, get_sequences

  !> Largest head dimension and block
  integer(int64), parameter :: max_features = 256, max_block = 256
  !> Most heads, and farthest that queries may lie from the keys: no arithmetic with them overflows
  integer(int64), parameter :: max_heads = 2_int64**20, max_offset = 2_int64**31
  !> Keys handled together where no blocks are selected
  integer, parameter :: dense_block = 128

contains

  !> Every query sees the keys of its selected blocks.
  subroutine selected_pattern(pattern, name, n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
      & cu_q, cu_k, block_index, block_size, causal, q_offset, query_block, duplicates, error)
    type(pattern_type), intent(out) :: pattern
    !> Operator, for messages
    character(len=*), intent(in) :: name
    !> Queries, keys; query heads, key/value heads; features of keys and values
    integer(int64), intent(in) :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v
    !> First query and key of every sequence, and the end; absent: one sequence
    integer(int64), intent(in), optional, contiguous :: cu_q(:), cu_k(:)
    !> Blocks of the sequence, -1 for an empty slot [n_slots, n_heads, n_queries/query_block]
    integer(int32), intent(in), contiguous :: block_index(:, :, :)
    integer(int64), intent(in) :: block_size
    !> Hide keys after the query's position plus q_offset
    logical, intent(in) :: causal
    integer(int64), intent(in) :: q_offset
    !> Consecutive queries that share a selection; duplicates_* code
    integer(int64), intent(in) :: query_block
    integer, intent(in) :: duplicates
    !> Allocated if an argument does not fit or there is no memory
    type(error_type), allocatable, intent(out) :: error

    call start(pattern, name, n_query_heads, n_heads, d_k, d_v, error)
    if (allocated(error)) return
    if (block_size < 1 .or. block_size > max_block) then
      call fail(error, code_value, name//": block_size must lie between 1 and 256")
    else if (query_block < 1) then
      call fail(error, code_value, name//": query_block must be at least 1")
    else if (size(block_index, 1, int64) > huge(0_int32) - 1) then
      call fail(error, code_value, name//": block_index has too many slots")
    end if
    call check_offset(name, q_offset, error)
    if (allocated(error)) return
    pattern%block = int(block_size)
    pattern%causal = causal
    pattern%shift = q_offset
    call finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k, 0_int64, block_index, &
      & query_block, duplicates)
  end subroutine selected_pattern

  !> Every query sees the compressed tokens, those whose last token it may see where it is causal.
  subroutine compressed_pattern(pattern, name, n_queries, n_keys, n_query_heads, n_heads, d_k, &
      & d_v, cu_q, cu_k, block, stride, causal, q_offset, error)
    type(pattern_type), intent(out) :: pattern
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v
    !> First query and compressed token of every sequence, and the end; absent: one sequence
    integer(int64), intent(in), optional, contiguous :: cu_q(:), cu_k(:)
    !> Tokens behind a compressed one, and from one to the next
    integer(int64), intent(in) :: block, stride
    logical, intent(in) :: causal
    integer(int64), intent(in) :: q_offset
    type(error_type), allocatable, intent(out) :: error

    call start(pattern, name, n_query_heads, n_heads, d_k, d_v, error)
    if (allocated(error)) return
    if (block < 1 .or. stride < 1) &
      & call fail(error, code_value, name//": block and stride must be at least 1")
    call check_offset(name, q_offset, error)
    if (allocated(error)) return
    pattern%block = dense_block
    pattern%causal = causal
    ! from there on, no query sees the first token, or the second
    pattern%shift = q_offset - min(block, n_queries + max_offset + 1) + 1
    pattern%stride = min(stride, n_queries + max_offset + 1)
    call finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k)
  end subroutine compressed_pattern

  !> Every query sees the last `window` keys up to its own position where it is causal, else the
  !> keys of its ball: each sequence is cut into balls of `window` tokens. 0 is no limit.
  subroutine window_pattern(pattern, name, n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
      & cu_q, cu_k, window, causal, q_offset, error)
    type(pattern_type), intent(out) :: pattern
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v
    !> First query and key of every sequence, and the end; absent: one sequence
    integer(int64), intent(in), optional, contiguous :: cu_q(:), cu_k(:)
    integer(int64), intent(in) :: window
    logical, intent(in) :: causal
    integer(int64), intent(in) :: q_offset
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: reach

    call start(pattern, name, n_query_heads, n_heads, d_k, d_v, error)
    if (allocated(error)) return
    if (window < 0) call fail(error, code_value, name//": window must be at least 1")
    call check_offset(name, q_offset, error)
    if (allocated(error)) return
    ! from there on, it is no limit
    reach = min(window, max(n_queries, n_keys) + max_offset + 1)
    pattern%block = dense_block
    pattern%causal = causal
    pattern%shift = q_offset
    if (causal) then
      pattern%window = reach
      call finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k)
    else
      if (window > 0) pattern%block = int(min(reach, int(dense_block, int64)))
      call finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k, reach)
    end if
  end subroutine window_pattern

  !> Every query sees all keys of its sequence. Blocks are no longer than the longest of these.
  subroutine dense_pattern(pattern, name, n_queries, n_keys, n_query_heads, n_heads, d_k, d_v, &
      & cu_q, cu_k, error)
    type(pattern_type), intent(out) :: pattern
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: n_queries, n_keys, n_query_heads, n_heads, d_k, d_v
    !> First query and key of every sequence, and the end; absent: one sequence
    integer(int64), intent(in), optional, contiguous :: cu_q(:), cu_k(:)
    type(error_type), allocatable, intent(out) :: error
    integer(int64) :: longest

    call start(pattern, name, n_query_heads, n_heads, d_k, d_v, error)
    if (allocated(error)) return
    longest = n_keys
    if (present(cu_k)) longest = maxval(cu_k(2:) - cu_k(:size(cu_k) - 1))
    pattern%block = int(max(1_int64, min(longest, int(dense_block, int64))))
    call finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k)
  end subroutine dense_pattern

  !> Heads and head dimensions.
  subroutine start(pattern, name, n_query_heads, n_heads, d_k, d_v, error)
    type(pattern_type), intent(inout) :: pattern
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: n_query_heads, n_heads, d_k, d_v
    type(error_type), allocatable, intent(out) :: error

    if (n_heads < 1 .or. mod(n_query_heads, max(n_heads, 1_int64)) /= 0 .or. n_query_heads < 1) then
      call fail(error, code_value, name//": the number of query heads must be a multiple of "// &
        & "the number of key/value heads")
    else if (n_query_heads > max_heads) then
      call fail(error, code_value, name//": there may be 1048576 heads at most")
    else if (min(d_k, d_v) < 1 .or. max(d_k, d_v) > max_features) then
      call fail(error, code_value, name//": head dimensions must lie between 1 and 256; that of q "// &
        & "and k is "//text(d_k)//", that of v "//text(d_v))
    end if
    if (allocated(error)) return
    pattern%n_heads = int(n_heads)
    pattern%group = int(n_query_heads/n_heads)
  end subroutine start

  !> An earlier error stays.
  subroutine check_offset(name, q_offset, error)
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: q_offset
    type(error_type), allocatable, intent(inout) :: error

    if (allocated(error) .or. (q_offset >= -max_offset .and. q_offset <= max_offset)) return
    call fail(error, code_value, name//": q_offset must lie between -2^31 and 2^31")
  end subroutine check_offset

  !> Sequences, cut into balls if there are any.
  subroutine finish(pattern, name, n_queries, n_keys, error, cu_q, cu_k, ball, block_index, &
      & query_block, duplicates)
    type(pattern_type), intent(inout) :: pattern
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: n_queries, n_keys
    type(error_type), allocatable, intent(out) :: error
    integer(int64), intent(in), optional, contiguous :: cu_q(:), cu_k(:)
    !> Tokens of a ball, 0: whole sequences
    integer(int64), intent(in), optional :: ball
    integer(int32), intent(in), optional, contiguous :: block_index(:, :, :)
    integer(int64), intent(in), optional :: query_block
    integer, intent(in), optional :: duplicates
    integer(int64), allocatable :: first_q(:), first_k(:)

    call get_sequences(name//": cu_q", n_queries, first_q, error, cu_q)
    if (allocated(error)) return
    call get_sequences(name//": cu_k", n_keys, first_k, error, cu_k)
    if (allocated(error)) return
    if (size(first_q) /= size(first_k)) then
      call fail(error, code_value, name//": cu_q and cu_k have different numbers of sequences")
      return
    end if
    if (present(ball)) then
      if (ball > 0) call cut_into_balls(ball, first_q, first_k)
    end if
    if (present(query_block)) then
      call pattern%build(first_q, first_k, error, block_index, &
        & min(query_block, max(n_queries, 1_int64)), duplicates)
    else
      call pattern%build(first_q, first_k, error)
    end if
  end subroutine finish

  !> Borders of sequences, which rise from 0 to the number of tokens.
  subroutine get_sequences(label, n, borders, error, cu)
    !> Operator and argument, for messages
    character(len=*), intent(in) :: label
    !> Tokens
    integer(int64), intent(in) :: n
    !> First token of every sequence, and the end
    integer(int64), allocatable, intent(out) :: borders(:)
    !> Allocated if cu is none
    type(error_type), allocatable, intent(out) :: error
    !> Offsets of the sequences; absent: one sequence
    integer(int64), intent(in), optional, contiguous :: cu(:)

    if (present(cu)) then
      borders = cu
    else
      borders = [0_int64, n]
    end if
    if (size(borders) < 1) then
      call fail(error, code_value, label//" is empty")
    else if (borders(1) /= 0 .or. borders(size(borders)) /= n .or. &
        & any(borders(2:) < borders(:size(borders) - 1))) then
      call fail(error, code_value, label//" must rise from 0 to the number of tokens")
    end if
  end subroutine get_sequences

  !> Balls become sequences of their own.
  pure subroutine cut_into_balls(ball, cu_q, cu_k)
    integer(int64), intent(in) :: ball
    integer(int64), allocatable, intent(inout) :: cu_q(:), cu_k(:)
    integer(int64), allocatable :: balls_q(:), balls_k(:)
    integer(int64) :: s, b, n, total

    total = 0
    do s = 1, size(cu_q) - 1
      total = total + n_balls(s)
    end do
    allocate (balls_q(total + 1), balls_k(total + 1))
    n = 1
    do s = 1, size(cu_q) - 1
      do b = 0, n_balls(s) - 1
        balls_q(n) = min(cu_q(s) + b*ball, cu_q(s + 1))
        balls_k(n) = min(cu_k(s) + b*ball, cu_k(s + 1))
        n = n + 1
      end do
    end do
    balls_q(n) = cu_q(size(cu_q))
    balls_k(n) = cu_k(size(cu_k))
    call move_alloc(balls_q, cu_q)
    call move_alloc(balls_k, cu_k)

  contains

    !> Balls that the queries and keys of a sequence need
    pure function n_balls(s) result(count)
      integer(int64), intent(in) :: s
      integer(int64) :: count

      count = (max(cu_q(s + 1) - cu_q(s), cu_k(s + 1) - cu_k(s)) + ball - 1)/ball
    end function n_balls

  end subroutine cut_into_balls

end module gnograd_kernels_nsa

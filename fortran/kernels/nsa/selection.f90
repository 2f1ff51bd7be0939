! SPDX-License-Identifier: MIT

!> Selections of blocks: their arguments, checked; queries cut into chunks; the tree of blocks above
!> each sequence.
!>
!> Ball b of level l is the blocks b 2^l .. (b + 1) 2^l - 1 of a sequence, as far as it has them.
!> The top of a tree is the first level with no more balls than are kept, and never the blocks.
module gnograd_kernels_selection
  use gnograd_core_error, only: error_type, check_allocation, fail, code_value, code_unsupported
  use gnograd_core_kinds, only: int64
  use gnograd_kernels_nsa, only: compressed_pattern, get_sequences
  use gnograd_kernels_compress, only: compressed_offsets
  use gnograd_kernels_nsa_pattern, only: pattern_type, part_type
  use gnograd_records_nsa, only: select_blocks_static
  implicit none
  private
  public :: chunk_type, selection_type, make_selection, n_selections, n_balls, n_balls_below, &
    & floor_ratio

  !> Rows that share packed keys, scores kept by a thread, tasks for the threads to share
  integer(int64), parameter :: wanted_rows = 512, most_scores = 2**20, wanted_tasks = 32

  !> Some queries of one sequence, and the number of its blocks.
  type :: chunk_type
    type(part_type) :: part
    integer(int64) :: n_blocks
    !> Level of the tree whose balls are all kept, 0 without a tree; its first ball among those of
    !> all trees
    integer :: top = 0
    integer(int64) :: first_ball = 0
  end type chunk_type

  !> Pattern of queries and the compressed tokens that they see, and the choice among their blocks.
  type :: selection_type
    type(pattern_type) :: pattern
    !> Tokens behind a compressed one, from one to the next, in a block; of queries against keys
    integer(int64) :: block, stride, block_size, q_offset
    !> Tokens that the compressed ones were made of
    integer(int64) :: n_keys = 0
    !> Queries that share a selection
    integer(int64) :: query_block
    !> Blocks at the start of the sequence and up to the own one that are always chosen
    integer(int64) :: first_blocks, local_blocks
    !> Never choose the own block
    logical :: exclude_own
    !> Balls kept at every level of the tree, 0: all blocks are looked at
    integer(int64) :: keep = 0
    !> Balls of all trees between the blocks and the tops
    integer(int64) :: n_balls = 0
    type(chunk_type), allocatable :: chunks(:)
    !> Most scores that a chunk needs
    integer(int64) :: n_scores = 0
  end type selection_type

contains

  !> Check the arguments, and cut the queries into chunks.
  subroutine make_selection(self, static, is_normalized, error)
    type(selection_type), intent(out) :: self
    type(select_blocks_static), intent(in) :: static
    !> True if logarithms of sums are given
    logical, intent(in) :: is_normalized
    !> Allocated if an argument does not fit or there is no memory
    type(error_type), allocatable, intent(out) :: error
    character(len=*), parameter :: name = "select_blocks"
    integer(int64), allocatable :: queries(:), keys(:), compressed(:)
    integer(int64) :: s, length, n_blocks, n, first
    integer :: pass, stat, top

    if (static%block_size < 1) then
      call fail(error, code_value, name//": block_size must be at least 1")
    else if (static%query_block < 1) then
      call fail(error, code_value, name//": query_block must be at least 1")
    else if (min(static%first_blocks, static%local_blocks) < 0) then
      call fail(error, code_value, name//": first_blocks and local_blocks must not be negative")
    else if (static%local_blocks > 0 .and. static%exclude_own) then
      call fail(error, code_value, name//": exclude_own contradicts local_blocks")
    else if (max(static%first_blocks, static%local_blocks) > static%n_slots .or. &
        & static%first_blocks > static%n_slots - static%local_blocks) then
      call fail(error, code_value, name//": first_blocks and local_blocks are more than n_blocks")
    else if (static%keep < 0) then
      call fail(error, code_value, name//": keep must not be negative")
    else if (static%keep > 0 .and. static%causal) then
      call fail(error, code_unsupported, name//": keep needs causal=False: balls have no time")
    else if (static%keep == 0 .and. .not. is_normalized) then
      call fail(error, code_value, name//": lse is missing, without which only keep selects")
    end if
    if (allocated(error)) return
    call get_sequences(name//": cu_k", static%n_keys, keys, error, static%cu_k)
    if (allocated(error)) return
    call get_sequences(name//": cu_q", static%n_queries, queries, error, static%cu_q)
    if (allocated(error)) return
    if (size(queries) /= size(keys)) then
      call fail(error, code_value, name//": cu_q and cu_k have different numbers of sequences")
    else if (min(static%block, static%stride) < 1) then
      call fail(error, code_value, name//": block and stride must be at least 1")
    end if
    if (allocated(error)) return
    compressed = compressed_offsets(keys, static%block, static%stride)
    ! there may be room behind the last token of packed sequences
    n = compressed(size(compressed))
    if (n > static%n_compressed .or. &
      & (.not. associated(static%cu_k) .and. n < static%n_compressed)) then
      call fail(error, code_value, name//": k must have the compressed tokens of all keys")
      return
    end if
    call compressed_pattern(self%pattern, name, static%n_queries, n, static%n_query_heads, &
      & static%n_heads, static%d_k, static%d_k, queries, compressed, static%block, static%stride, &
      & static%causal, static%q_offset, error)
    if (allocated(error)) return
    ! Beyond these bounds nothing changes, and below them nothing overflows.
    self%block = min(static%block, static%n_keys + 1)
    self%stride = min(static%stride, static%n_keys + 1)
    self%block_size = min(static%block_size, &
      & static%n_keys + static%n_queries + abs(static%q_offset) + 1)
    self%q_offset = static%q_offset
    self%n_keys = static%n_keys
    self%query_block = min(static%query_block, max(static%n_queries, 1_int64))
    self%first_blocks = static%first_blocks
    self%local_blocks = static%local_blocks
    self%exclude_own = static%exclude_own
    self%keep = static%keep

    do pass = 1, 2
      n = 0
      self%n_balls = 0
      do s = 1, size(queries) - 1
        if (queries(s + 1) == queries(s)) cycle
        if (mod(queries(s), self%query_block) /= 0) then
          call fail(error, code_value, name//": sequences in cu_q must begin at multiples of "// &
            & "query_block")
          return
        end if
        n_blocks = (keys(s + 1) - keys(s) + self%block_size - 1)/self%block_size
        top = 0
        if (self%keep > 0 .and. (n_blocks > self%keep .or. .not. is_normalized)) then
          top = 1
          do while (n_balls(n_blocks, top) > self%keep)
            top = top + 1
          end do
        end if
        length = min(wanted_rows/self%pattern%group, &
          & (static%n_queries*static%n_heads)/wanted_tasks) &
          & /self%query_block
        length = max(min(length, most_scores/max(n_blocks, 1_int64)), 1_int64)*self%query_block
        do first = queries(s), queries(s + 1) - 1, length
          if (pass == 2) then
            associate (chunk => self%chunks(n))
              chunk%n_blocks = n_blocks
              chunk%top = top
              chunk%first_ball = self%n_balls
              chunk%part%first_query = first
              chunk%part%n_queries = min(length, queries(s + 1) - first)
              chunk%part%position = first - queries(s)
              chunk%part%first_key = compressed(s)
              chunk%part%n_keys = compressed(s + 1) - compressed(s)
              chunk%part%n_blocks = (chunk%part%n_keys + self%pattern%block - 1)/self%pattern%block
              if (top == 0) &
                & self%n_scores = max(self%n_scores, n_blocks*n_selections(self, chunk))
            end associate
          end if
          n = n + 1
        end do
        self%n_balls = self%n_balls + n_balls_below(n_blocks, top)
      end do
      if (pass == 2) cycle
      allocate (self%chunks(0:n - 1), stat=stat)
      call check_allocation(stat, name, error)
      if (allocated(error)) return
    end do
  end subroutine make_selection

  !> Selections of a chunk.
  pure function n_selections(self, chunk) result(n)
    type(selection_type), intent(in) :: self
    type(chunk_type), intent(in) :: chunk
    integer(int64) :: n

    n = (chunk%part%n_queries + self%query_block - 1)/self%query_block
  end function n_selections

  !> Balls of a level of the tree above some blocks.
  elemental function n_balls(n_blocks, level) result(n)
    integer(int64), intent(in) :: n_blocks
    integer, intent(in) :: level
    integer(int64) :: n

    n = shiftr(n_blocks + shiftl(1_int64, level) - 1, level)
  end function n_balls

  !> Balls of the levels from 1 up to, without, a level.
  pure function n_balls_below(n_blocks, level) result(n)
    integer(int64), intent(in) :: n_blocks
    integer, intent(in) :: level
    integer(int64) :: n
    integer :: l

    n = 0
    do l = 1, level - 1
      n = n + n_balls(n_blocks, l)
    end do
  end function n_balls_below

  !> floor(a/b), for negative a too.
  elemental function floor_ratio(a, b) result(ratio)
    integer(int64), intent(in) :: a, b
    integer(int64) :: ratio

    ratio = a/b
    if (a < 0 .and. mod(a, b) /= 0) ratio = ratio - 1
  end function floor_ratio

end module gnograd_kernels_selection

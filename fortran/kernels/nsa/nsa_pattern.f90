! SPDX-License-Identifier: MIT

!> Pattern of queries and the keys that they see, for selected, compressed and window attention.
!>
!> The keys of a sequence are cut into blocks of `block` (the last may be ragged), its queries into
!> parts. A part is visited block by block; visitors are the queries of a part that see keys of a
!> block, either by position or because they selected it. For selected blocks the visitors are kept
!> as lists, made by count, scan and stable fill. A query at position s of its sequence sees the
!> keys at first..last,
!>
!>     last = floor((s + shift)/stride),  first = last - window + 1     (causal; else all keys).
!>
!> A sequence has as many ranges of blocks as it has parts: in step t, part p meets range
!> mod(p + t, parts), so that all parts can work at once and no two of them on the same keys. The
!> parts depend on sizes alone, never on the number of threads, and so does the order of sums.
!>
!> Memory: n_slots + O(1) integers for every query and key/value head.
module gnograd_kernels_nsa_pattern
  use gnograd_core_arithmetic, only: check_arithmetic
  use gnograd_core_error, only: error_type, fail, text, check_allocation, code_value, code_index
  use gnograd_core_kinds, only: int32, int64
  use gnograd_core_threads, only: n_threads, this_thread
  implicit none
  private
  public :: pattern_type, part_type
  public :: duplicates_ignore, duplicates_error, duplicates_count

  !> A block named twice for a query counts once, is refused, or counts twice
  integer, parameter :: duplicates_ignore = 0, duplicates_error = 1, duplicates_count = 2

  !> Rows (queries times group) that a part should bring to a block: packing the keys is then cheap
  integer(int64), parameter :: wanted_rows = 512
  !> Parts times heads, so that threads find work; but parts of a sequence at most
  integer(int64), parameter :: wanted_tasks = 16, max_parts = 64
  !> Smallest part worth a task, in queries
  integer(int64), parameter :: min_queries = 16

  !> Consecutive queries of one sequence.
  type :: part_type
    !> First query, number of queries, position of the first in its sequence
    integer(int64) :: first_query, n_queries, position
    !> First key, number of keys and of blocks of the sequence
    integer(int64) :: first_key, n_keys, n_blocks
    !> Number of this part, parts of its sequence
    integer(int64) :: number, n_parts
    !> Start of the lists of head 0
    integer(int64) :: starts
  end type part_type

  type :: pattern_type
    !> Queries and keys of all sequences
    integer(int64) :: n_queries = 0, n_keys = 0
    !> Key/value heads, query heads for each, keys in a block
    integer :: n_heads = 1, group = 1, block = 1
    !> True if positions hide keys; shift, stride and window of the rule above (window 0: no first
    !> key)
    logical :: causal = .false.
    integer(int64) :: shift = 0, stride = 1, window = 0
    !> Slots of a query: 1 where there is no selection
    integer :: n_slots = 1
    integer(int64) :: n_parts = 0, max_blocks = 0, max_queries = 0, n_steps = 0
    type(part_type), allocatable :: parts(:)
    !> Visitors of block b of a part: entries at starts(b) .. starts(b+1)-1, counted from the
    !> first slot of the part; not allocated where positions alone decide
    integer(int32), allocatable :: starts(:)
    !> n_slots times number of the query in its part, plus slot from 0
    integer(int32), allocatable :: entries(:)
  contains
    !> Cut into parts, and make the lists of selected blocks
    procedure :: build
    !> Range of blocks that a part meets in a step
    procedure :: range => range_of_step
    !> Number of visitors of a block
    procedure :: visitors
    !> Get some visitors of a block
    procedure :: look
  end type pattern_type

contains

  !> Cut into parts, and make the lists of selected blocks. The sizes and what positions mean are
  !> set before.
  subroutine build(self, cu_q, cu_k, error, block_index, query_block, duplicates)
    class(pattern_type), intent(inout) :: self
    !> First query and key of every sequence, and the end [n_sequences+1]
    integer(int64), intent(in) :: cu_q(0:), cu_k(0:)
    !> Allocated if a block is out of range, named twice where that is refused, or no memory is left
    type(error_type), allocatable, intent(out) :: error
    !> Selected blocks of the sequence, -1: empty slot [n_slots, n_heads, n_queries/query_block]
    integer(int32), intent(in), optional, contiguous :: block_index(:, 0:, 0:)
    !> Consecutive queries that share a selection
    integer(int64), intent(in), optional :: query_block
    !> One of the duplicates_* codes
    integer, intent(in), optional :: duplicates
    integer(int64) :: s, p, length, n, n_starts, n_sequences
    integer :: stat

    call check_arithmetic(error)
    if (allocated(error)) return
    n_sequences = size(cu_q, kind=int64) - 1
    self%n_queries = cu_q(n_sequences)
    self%n_keys = cu_k(n_sequences)
    if (present(block_index)) self%n_slots = size(block_index, 1)
    self%n_parts = 0
    do s = 0, n_sequences - 1
      length = part_length(self, cu_q(s + 1) - cu_q(s), cu_k(s + 1) - cu_k(s), present(block_index))
      self%n_parts = self%n_parts + (cu_q(s + 1) - cu_q(s) + length - 1)/length
    end do
    allocate (self%parts(0:self%n_parts - 1), stat=stat)
    call check_allocation(stat, "attention", error)
    if (allocated(error)) return

    n = 0
    n_starts = 0
    self%max_blocks = 0
    self%max_queries = 0
    self%n_steps = 0
    do s = 0, n_sequences - 1
      associate (n_q => cu_q(s + 1) - cu_q(s), n_k => cu_k(s + 1) - cu_k(s))
        length = part_length(self, n_q, n_k, present(block_index))
        do p = 0, (n_q + length - 1)/length - 1
          self%parts(n) = part_type(first_query=cu_q(s) + p*length, &
            & n_queries=min(length, n_q - p*length), position=p*length, first_key=cu_k(s), &
            & n_keys=n_k, n_blocks=(n_k + self%block - 1)/self%block, number=p, &
            & n_parts=(n_q + length - 1)/length, starts=n_starts)
          n_starts = n_starts + self%n_heads*(self%parts(n)%n_blocks + 1)
          self%max_blocks = max(self%max_blocks, self%parts(n)%n_blocks)
          self%max_queries = max(self%max_queries, self%parts(n)%n_queries)
          self%n_steps = max(self%n_steps, self%parts(n)%n_parts)
          n = n + 1
        end do
      end associate
    end do
    if (present(block_index)) &
      & call make_lists(self, n_starts, block_index, query_block, duplicates, error)
  end subroutine build

  !> Queries in a part of a sequence.
  pure function part_length(self, n_q, n_k, selected) result(length)
    class(pattern_type), intent(in) :: self
    !> Queries and keys of the sequence
    integer(int64), intent(in) :: n_q, n_k
    logical, intent(in) :: selected
    integer(int64) :: length, keys

    keys = max(n_k, 1_int64)
    if (selected) keys = max(min(int(self%n_slots, int64)*self%block, n_k), 1_int64)
    length = (wanted_rows*max(n_k, 1_int64))/(self%group*keys)
    length = min(length, (self%n_queries*self%n_heads)/wanted_tasks)
    length = max(length, min_queries, (n_q + max_parts - 1)/max_parts)
    ! entries are numbered in int32
    if (selected) length = min(length, &
      & int(max(huge(0_int32)/max(self%n_slots, 1) - 1, 1), int64))
  end function part_length

  !> Invert the selection: for every part, head and block the queries that selected it.
  subroutine make_lists(self, n_starts, block_index, query_block, duplicates, error)
    class(pattern_type), intent(inout) :: self
    integer(int64), intent(in) :: n_starts
    integer(int32), intent(in), contiguous :: block_index(:, 0:, 0:)
    integer(int64), intent(in) :: query_block
    integer, intent(in) :: duplicates
    type(error_type), allocatable, intent(out) :: error
    !> Next free entry of every block of a sequence, and the last query that named it
    integer(int32), allocatable :: next(:, :)
    integer(int64), allocatable :: seen(:, :)
    integer(int64) :: task, out_of_range, named_twice
    integer :: stat, me, n_team

    n_team = n_threads()
    allocate (self%starts(0:n_starts - 1), &
      & self%entries(0:int(self%n_slots, int64)*self%n_queries*self%n_heads - 1), &
      & next(0:self%max_blocks, 0:n_team - 1), seen(0:self%max_blocks, 0:n_team - 1), stat=stat)
    call check_allocation(stat, "attention", error)
    if (allocated(error)) return

    out_of_range = huge(out_of_range)
    named_twice = huge(named_twice)
    !$omp parallel do num_threads(n_team) schedule(dynamic) default(none) private(task, me) &
    !$omp& shared(self, block_index, query_block, duplicates, next, seen) &
    !$omp& reduction(min: out_of_range, named_twice)
    do task = 0, self%n_parts*self%n_heads - 1
      me = this_thread()
      call invert(self, self%parts(task/self%n_heads), int(mod(task, int(self%n_heads, int64))), &
        & block_index, query_block, duplicates, next(:, me), seen(:, me), out_of_range, named_twice)
    end do
    !$omp end parallel do
    if (out_of_range < huge(out_of_range)) then
      call fail(error, code_index, "selected_attention: block_index names a block that the "// &
        & "sequence of query "//text(out_of_range)//" does not have")
    else if (duplicates == duplicates_error .and. named_twice < huge(named_twice)) then
      call fail(error, code_value, "selected_attention: block_index names a block twice for "// &
        & "query "//text(named_twice))
    end if
  end subroutine make_lists

  !> Lists of one part and head: count, scan, stable fill.
  subroutine invert(self, part, head, block_index, query_block, duplicates, next, seen, &
      & out_of_range, named_twice)
    class(pattern_type), intent(inout) :: self
    type(part_type), intent(in) :: part
    integer, intent(in) :: head, duplicates
    integer(int32), intent(in), contiguous :: block_index(:, 0:, 0:)
    integer(int64), intent(in) :: query_block
    !> Next free entry of every block, last query that named it
    integer(int32), intent(out) :: next(0:)
    integer(int64), intent(out) :: seen(0:)
    !> First query in error
    integer(int64), intent(inout) :: out_of_range, named_twice
    integer(int64) :: b, start, entry

    start = part%starts + head*(part%n_blocks + 1)
    entry = first_entry(self, part, head)
    next(:part%n_blocks) = 0
    call walk(.false.)
    self%starts(start) = 0
    do b = 0, part%n_blocks - 1
      self%starts(start + b + 1) = self%starts(start + b) + next(b)
      next(b) = self%starts(start + b)
    end do
    call walk(.true.)

  contains

    !> Count the visitors of every block, or enter them.
    subroutine walk(fill)
      logical, intent(in) :: fill
      integer(int64) :: i, block, query, row
      integer :: slot

      seen(:part%n_blocks) = -1
      do i = 0, part%n_queries - 1
        query = part%first_query + i
        row = query/query_block
        do slot = 0, self%n_slots - 1
          block = block_index(slot + 1, head, row)
          if (block == -1) cycle
          if (block < 0 .or. block >= part%n_blocks) then
            out_of_range = min(out_of_range, query)
            cycle
          end if
          if (seen(block) == query) then
            named_twice = min(named_twice, query)
            if (duplicates /= duplicates_count) cycle
          end if
          seen(block) = query
          if (self%causal) then
            if (last_key(self, part%position + i) < block*self%block) cycle
          end if
          if (fill) self%entries(entry + next(block)) = int(i*self%n_slots + slot, int32)
          next(block) = next(block) + 1
        end do
      end do
    end subroutine walk

  end subroutine invert

  !> Blocks first to last that a part meets in a step; none once all have been met.
  pure subroutine range_of_step(self, part, step, first, last)
    class(pattern_type), intent(in) :: self
    type(part_type), intent(in) :: part
    integer(int64), intent(in) :: step
    integer(int64), intent(out) :: first, last
    integer(int64) :: r

    first = 0
    last = -1
    if (step >= part%n_parts) return
    r = mod(part%number + step, part%n_parts)
    first = (r*part%n_blocks)/part%n_parts
    last = ((r + 1)*part%n_blocks)/part%n_parts - 1
  end subroutine range_of_step

  !> Number of visitors of a block, and the first: an entry, or a query of the part.
  pure subroutine visitors(self, part, head, block, first, n)
    class(pattern_type), intent(in) :: self
    type(part_type), intent(in) :: part
    integer, intent(in) :: head
    integer(int64), intent(in) :: block
    integer(int64), intent(out) :: first, n
    integer(int64) :: start, last

    if (allocated(self%starts)) then
      start = part%starts + head*(part%n_blocks + 1) + block
      first = first_entry(self, part, head) + self%starts(start)
      n = self%starts(start + 1) - self%starts(start)
      return
    end if
    first = 0
    last = part%n_queries - 1
    if (self%causal) then
      first = max(first, block*self%block*self%stride - self%shift - part%position)
      if (self%window > 0) last = min(last, &
        & (min((block + 1)*self%block, part%n_keys) - 1 + self%window)*self%stride - self%shift &
        & - part%position - 1)
    end if
    n = max(last - first + 1, 0_int64)
  end subroutine visitors

  !> Some visitors of a block: which queries they are, their slots, and what of the block they see.
  pure subroutine look(self, part, block, first, n, query, slot, low, high)
    class(pattern_type), intent(in) :: self
    type(part_type), intent(in) :: part
    !> Block; first visitor, number of visitors
    integer(int64), intent(in) :: block, first
    integer, intent(in) :: n
    !> Number of the query; slot from 1; first and last visible key of the block, from 1 [n]
    integer(int64), intent(out) :: query(n)
    integer, intent(out) :: slot(n), low(n), high(n)
    integer(int64) :: i, last, offset
    integer :: j, length

    offset = block*self%block
    length = int(min(int(self%block, int64), part%n_keys - offset))
    do j = 1, n
      i = first + j - 1
      slot(j) = 1
      if (allocated(self%entries)) then
        slot(j) = mod(self%entries(i), self%n_slots) + 1
        i = self%entries(i)/self%n_slots
      end if
      query(j) = part%first_query + i
      low(j) = 1
      high(j) = length
      if (self%causal) then
        last = last_key(self, part%position + i)
        high(j) = int(max(0_int64, min(int(length, int64), last - offset + 1)))
        if (self%window > 0) &
          & low(j) = int(max(1_int64, min(length + 1_int64, last - self%window - offset + 2)))
      end if
    end do
  end subroutine look

  !> Last visible key of the query at a position, -1 if there is none.
  pure function last_key(self, position) result(last)
    class(pattern_type), intent(in) :: self
    integer(int64), intent(in) :: position
    integer(int64) :: last

    last = -1
    if (position + self%shift >= 0) last = (position + self%shift)/self%stride
  end function last_key

  !> First entry of a part and head.
  pure function first_entry(self, part, head) result(first)
    class(pattern_type), intent(in) :: self
    type(part_type), intent(in) :: part
    integer, intent(in) :: head
    integer(int64) :: first

    first = (head*self%n_queries + part%first_query)*self%n_slots
  end function first_entry

end module gnograd_kernels_nsa_pattern

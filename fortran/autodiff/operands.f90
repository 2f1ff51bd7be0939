! SPDX-License-Identifier: MIT

!> Operands of an operation on the tape: the nodes behind handles, checked; and the errors that mark
!> a tape. A marked tape computes nothing more, and its first error stays.
module gnograd_autodiff_operands
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: set_error => fail, code_value, code_index, code_type, text_length
  use gnograd_autodiff_array, only: array_type, node_type, node_ref, store_type, is_open, kind_r32
  implicit none
  private
  public :: resolve, check_shape, fail, failed, shape_text, kind_text

  !> Nodes behind the operands of an operation: live, on one tape, of one kind. Null pointers (and
  !> a marked tape) otherwise.
  interface resolve
    module procedure :: resolve_one, resolve_two, resolve_many
  end interface resolve

contains

  ! ---- errors ----

  !> Mark the tape; the first error stays.
  subroutine fail(store, code, message)
    type(store_type), intent(inout) :: store
    integer, intent(in) :: code
    character(len=*), intent(in) :: message

    if (.not. allocated(store%error)) call set_error(store%error, code, message)
  end subroutine fail

  pure function failed(store)
    type(store_type), intent(in) :: store
    logical :: failed

    failed = allocated(store%error)
  end function failed

  pure function shape_length(node) result(length)
    type(node_type), intent(in) :: node
    integer :: length

    length = len("()") + sum(text_length(node%shape(:node%rank))) + len(", ")*max(node%rank - 1, 0)
  end function shape_length

  !> "(3, 4)", in the order the user of the tape writes
  pure function shape_text(store, node) result(text)
    type(store_type), intent(in) :: store
    type(node_type), intent(in) :: node
    character(len=shape_length(node)) :: text
    character(len=*), parameter :: layout = "('(', *(i0, :, ', '))"

    if (store%c_order) then
      write (text, layout) node%shape(node%rank:1:-1)
    else
      write (text, layout) node%shape(:node%rank)
    end if
    text(len(text):) = ")"
  end function shape_text

  !> Refuse an array of another shape; an earlier error stays.
  subroutine check_shape(store, operator, name, node, rank, extents)
    type(store_type), intent(inout) :: store
    !> Operation and argument, for messages
    character(len=*), intent(in) :: operator, name
    type(node_type), intent(in) :: node
    !> Needed rank and extents, in Fortran order [rank]
    integer, intent(in) :: rank
    integer(int64), intent(in) :: extents(:)
    type(node_type) :: needed

    needed%rank = rank
    needed%shape(:rank) = extents
    if (node%rank == rank .and. all(node%shape == needed%shape)) return
    call fail(store, code_value, operator//": "//name//" is "//shape_text(store, node)// &
      & ", needs "//shape_text(store, needed))
  end subroutine check_shape

  ! ---- operands ----

  !> Reason why an operand that is not on an open tape is none.
  pure function absence(a) result(text)
    type(array_type), intent(in) :: a
    character(len=40) :: text

    if (associated(a%store)) then
      text = ": the tape of an operand has ended"
    else
      text = ": an operand has no value"
    end if
  end function absence

  subroutine resolve_one(name, a, x)
    !> Operation, for messages
    character(len=*), intent(in) :: name
    class(array_type), intent(in) :: a
    type(node_type), pointer, intent(out) :: x

    x => null()
    if (a%alive()) then
      if (.not. failed(a%store)) x => a%store%nodes(a%id)%node
    else if (is_open(a)) then
      call fail(a%store, code_index, name//": an operand is no longer on the tape (rewind)")
    end if
  end subroutine resolve_one

  subroutine resolve_two(name, a, b, x, y)
    !> Operation, for messages
    character(len=*), intent(in) :: name
    type(array_type), intent(in) :: a, b
    type(node_type), pointer, intent(out) :: x, y

    x => null()
    y => null()
    if (a%alive() .and. b%alive() .and. associated(a%store, b%store)) then
      if (failed(a%store)) return
      x => a%store%nodes(a%id)%node
      y => b%store%nodes(b%id)%node
      if (x%kind == y%kind) return
      call fail(a%store, code_type, name//": operands of different kinds, "//kind_text(x%kind)// &
        & " and "//kind_text(y%kind))
    else if (is_open(a) .neqv. is_open(b)) then
      if (is_open(a)) call fail(a%store, code_value, name//trim(absence(b)))
      if (is_open(b)) call fail(b%store, code_value, name//trim(absence(a)))
    else if (is_open(a) .and. .not. associated(a%store, b%store)) then
      call fail(a%store, code_value, name//": the operands are on different tapes")
    else
      call resolve_one(name, a, x)
      call resolve_one(name, b, y)
    end if
    x => null()
    y => null()
  end subroutine resolve_two

  !> Resolve any number of arrays; a null handle is an absent operand if `optional` says so.
  subroutine resolve_many(name, arrays, nodes, ok, optional)
    !> Operation, for messages
    character(len=*), intent(in) :: name
    type(array_type), intent(in) :: arrays(:)
    type(node_ref), intent(out) :: nodes(:)
    logical, intent(out) :: ok
    !> Operands that may be absent
    logical, intent(in), optional :: optional(:)
    integer :: k, other, first

    ok = .false.
    first = 0
    do k = 1, size(arrays)
      if (.not. is_open(arrays(k))) then
        if (present(optional)) then
          if (optional(k) .and. .not. associated(arrays(k)%store)) cycle
        end if
        do other = 1, size(arrays)
          if (.not. is_open(arrays(other))) cycle
          call fail(arrays(other)%store, code_value, name//trim(absence(arrays(k))))
          exit
        end do
        return
      end if
      if (first == 0) then
        first = k
        call resolve_one(name, arrays(k), nodes(k)%node)
      else
        call resolve_two(name, arrays(first), arrays(k), nodes(first)%node, nodes(k)%node)
      end if
      if (.not. associated(nodes(k)%node)) return
    end do
    ok = first > 0
  end subroutine resolve_many

  pure function kind_text(kind) result(text)
    integer, intent(in) :: kind
    character(len=6) :: text

    text = merge("real32", "real64", kind == kind_r32)
  end function kind_text

end module gnograd_autodiff_operands

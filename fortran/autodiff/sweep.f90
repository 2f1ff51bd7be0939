! SPDX-License-Identifier: MIT

!> The reverse sweep over a tape: cotangents go from the loss to the nodes that it was computed
!> from, by the pullbacks of their operations.
module gnograd_autodiff_sweep
  use gnograd_core_kinds, only: dp, int64
  use gnograd_core_error, only: code_value, code_memory
  use gnograd_autodiff_array, only: array_type, node_type, store_type, values_type, &
    & kind_r32, max_rank
  use gnograd_autodiff_elementwise, only: operator(+)
  use gnograd_autodiff_operands, only: fail, failed
  use gnograd_autodiff_store, only: push_leaf, push_node, pop_nodes
  use gnograd_autodiff_values, only: accumulate, fill_node, fill_values, copy_node, move_values
  implicit none
  private
  public :: sweep

contains

  !> Go from the loss down, each node once: its cotangent is complete when its turn comes, because
  !> whatever used it stands later on the tape.
  !>
  !> Without record, cotangents are plain numbers in the nodes; what a pullback puts on the tape is
  !> popped again after it. With record they are arrays, and stay.
  subroutine sweep(store, loss, needed, record, arrays, gradients)
    type(store_type), pointer, intent(in) :: store
    type(array_type), intent(in) :: loss
    !> Nodes through which the gradient is to flow, [loss%id]
    logical, intent(in) :: needed(:)
    logical, intent(in) :: record
    !> Arrays whose gradients become arrays (zeros where the loss does not depend on them)
    type(array_type), intent(in) :: arrays(:)
    type(array_type), intent(inout) :: gradients(:)
    type(array_type), allocatable :: recorded(:)
    type(values_type), allocatable :: kept(:)
    !> Arguments of a pullback, with room for all operations
    type(array_type), allocatable :: operands(:), found(:)
    logical, allocatable :: wanted(:)
    !> Cotangent of a node for the time of its pullback, one array for all of them
    type(array_type) :: passing
    logical :: was_recording, ok
    integer :: id, k, n, status, mark

    was_recording = store%recording
    store%recording = record
    n = 0
    do id = 1, loss%id
      associate (node => store%nodes(id)%node)
        if (allocated(node%operation)) n = max(n, size(node%operands))
      end associate
    end do
    allocate (operands(n), found(n), wanted(n), stat=status)
    if (status == 0 .and. record) allocate (recorded(loss%id), stat=status)
    if (status == 0 .and. size(arrays) > 0) allocate (kept(size(arrays)), stat=status)
    ok = status == 0
    if (ok) call seed()
    mark = store%length
    if (ok .and. .not. record) call begin_passing()
    do id = loss%id, 1, -1
      if (.not. ok .or. failed(store)) exit
      if (.not. needed(id)) cycle
      if (record) then
        if (recorded(id)%id > 0) call step(id, recorded(id))
      else if (has_values(store%nodes(id)%node%cotangent)) then
        call step_without_record(id)
      end if
    end do
    if (.not. record) call pop_nodes(store, mark)
    if (.not. ok) call fail(store, code_memory, "gradient: not enough memory")
    do k = 1, size(arrays)
      if (failed(store)) exit
      call hand_out(k)
    end do
    if (failed(store)) then
      do id = 1, loss%id
        call store%pool%give(store%nodes(id)%node%cotangent)
      end do
      if (allocated(kept)) then
        do k = 1, size(kept)
          call store%pool%give(kept(k))
        end do
      end if
      gradients(:) = array_type()
    end if
    store%recording = was_recording

  contains

    !> d loss / d loss = 1
    subroutine seed()
      type(node_type), pointer :: node

      associate (like => store%nodes(loss%id)%node)
        if (record) then
          call push_leaf(store, like%kind, like%rank, like%shape, recorded(loss%id), node)
          if (associated(node)) call fill_node(store, node, 1.0_dp)
        else
          call store%pool%take(like%kind, like%size, like%cotangent, ok)
          if (ok) call fill_values(store, like%kind, like%size, 1.0_dp, like%cotangent)
        end if
      end associate
    end subroutine seed

    !> Put the array for cotangents behind the loss.
    subroutine begin_passing()
      type(node_type), pointer :: node
      integer(int64), parameter :: one(max_rank) = 1

      call push_node(store, kind_r32, 0, one, passing, node)
    end subroutine begin_passing

    !> The cotangent of node id becomes an array for the time of its pullback.
    subroutine step_without_record(id)
      integer, intent(in) :: id
      integer :: k

      associate (self => store%nodes(id)%node, node => store%nodes(passing%id)%node)
        ! a leaf: backward takes its cotangent from here, gradient in hand_out
        if (.not. allocated(self%operation)) return
        node%kind = self%kind
        node%rank = self%rank
        node%shape = self%shape
        node%size = self%size
        call move_values(store, self%cotangent, node%value)
        call step(id, passing)
        do k = 1, size(arrays)
          if (arrays(k)%id == id) call move_values(store, node%value, kept(k))
        end do
        call store%pool%give(node%value)
      end associate
      call pop_nodes(store, passing%id)
    end subroutine step_without_record

    !> Pull the cotangent of node id back to its operands.
    subroutine step(id, cotangent)
      integer, intent(in) :: id
      type(array_type), intent(in) :: cotangent

      associate (self => store%nodes(id)%node)
        if (allocated(self%operation)) call pull_back(self, size(self%operands), id, cotangent)
      end associate
    end subroutine step

    subroutine pull_back(self, n, id, cotangent)
      type(node_type), intent(in) :: self
      integer, intent(in) :: n, id
      type(array_type), intent(in) :: cotangent
      type(array_type) :: output
      logical :: last
      integer :: k

      call set_handle(id, output)
      do k = 1, n
        call set_handle(self%operands(k), operands(k))
        call set_handle(0, found(k))
        wanted(k) = .false.
        if (self%operands(k) == 0) cycle
        wanted(k) = needed(self%operands(k))
        if (store%nodes(self%operands(k))%node%changes > self%changes) then
          call fail(store, code_value, "gradient: a value was changed after it had been used "// &
            & "(set_value, or the step of an optimizer); compute the loss again")
          return
        end if
      end do
      call self%operation%pullback(operands(:n), output, cotangent, wanted(:n), found(:n))
      if (failed(store)) return
      do k = 1, n
        if (.not. wanted(k) .or. found(k)%id == 0) cycle
        if (record) then
          if (recorded(operands(k)%id)%id == 0) then
            recorded(operands(k)%id) = found(k)
          else
            recorded(operands(k)%id) = recorded(operands(k)%id) + found(k)
          end if
        else
          ! values may be taken from nodes made by this pullback, at their last use
          last = found(k)%id > loss%id .and. .not. any(found(k + 1:n)%id == found(k)%id) &
            & .and. .not. (found(k)%id == cotangent%id .and. any(arrays%id == output%id))
          call accumulate(store, store%nodes(operands(k)%id)%node%cotangent, &
            & store%nodes(found(k)%id)%node%value, last, ok)
          if (.not. ok) then
            call fail(store, code_memory, "gradient: not enough memory")
            return
          end if
        end if
      end do
    end subroutine pull_back

    !> Write the handle of a node, null for 0. A function would copy it, which takes longer.
    subroutine set_handle(id, handle)
      integer, intent(in) :: id
      type(array_type), intent(inout) :: handle

      handle%store => null()
      handle%id = id
      handle%serial = 0
      if (id == 0) return
      handle%store => store
      handle%serial = store%nodes(id)%node%serial
    end subroutine set_handle

    !> The gradient of arrays(k) as an array at the end of the tape.
    subroutine hand_out(k)
      integer, intent(in) :: k
      type(node_type), pointer :: node
      integer :: first

      associate (like => store%nodes(arrays(k)%id)%node)
        if (record) then
          if (arrays(k)%id <= loss%id) gradients(k) = recorded(arrays(k)%id)
          if (gradients(k)%id > 0) return
        end if
        call push_leaf(store, like%kind, like%rank, like%shape, gradients(k), node)
        if (.not. associated(node)) return
        if (has_values(like%cotangent)) call move_values(store, like%cotangent, kept(k))
        if (has_values(kept(k))) then
          call move_values(store, kept(k), node%value)
          return
        end if
        first = findloc(arrays(:k - 1)%id, arrays(k)%id, dim=1)
        if (first > 0) then
          call copy_node(store, store%nodes(gradients(first)%id)%node, node)
        else
          call fill_node(store, node, 0.0_dp)
        end if
      end associate
    end subroutine hand_out

  end subroutine sweep

  !> True where a cotangent has come in.
  pure function has_values(values)
    type(values_type), intent(in) :: values
    logical :: has_values

    has_values = associated(values%r32) .or. associated(values%r64)
  end function has_values

end module gnograd_autodiff_sweep

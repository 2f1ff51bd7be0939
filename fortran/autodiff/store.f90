! SPDX-License-Identifier: MIT

!> Stores, which own all that a tape has, and their nodes: opened for a tape, filled by its
!> operations, rewound, closed, and used again by the next tape.
module gnograd_autodiff_store
  use gnograd_core_kinds, only: dp, int64
  use gnograd_core_error, only: code_value, code_memory
  use gnograd_core_process, only: added, lock, unlock, lock_of_stores
  use gnograd_device, only: device_type
  use gnograd_autodiff_array, only: array_type, operation_type, node_type, node_ref, store_type, &
    & max_rank
  use gnograd_autodiff_graphs, only: drop_unused_graphs, drop_graphs
  use gnograd_autodiff_operands, only: fail, shape_text
  implicit none
  private
  public :: open_store, close_store, rewind_store
  public :: push_result, push_leaf, push_node, pop_nodes, size_of

  !> Nodes a tape can have, and serials a process: for C they share a 64-bit integer, which stays
  !> positive. A tape takes a serial when it begins and after every rewind. They last for months of
  !> rewinds alone; then new nodes are refused
  integer, parameter :: max_nodes = 2**24 - 1
  integer(int64), parameter :: max_serial = 2_int64**39 - 1
  !> Elements that no memory has
  real(dp), parameter :: largest_size = 2.0_dp**59
  !> Extents whose product is never that large
  integer(int64), parameter :: small_extent = 2_int64**14
  !> Nodes a new tape has room for; the room doubles when it is full
  integer, parameter :: first_room = 1024

  !> Stores that wait for a tape
  type(store_type), pointer, save :: waiting => null()
  !> The serial taken last
  integer(int64), save :: last_serial = 0

  !> A new node for the result of an operation, with room for its values. Without the operation as
  !> an argument the caller has to put one there if the node requires a gradient
  interface push_result
    module procedure :: push_result_of_operation, push_bare_result
  end interface push_result

contains

  ! ---- stores ----

  !> A store for a new tape.
  subroutine open_store(store, status, device)
    !> Null when memory is short
    type(store_type), pointer, intent(out) :: store
    !> Status of the allocation, 0 if there was memory
    integer, intent(out) :: status
    !> The host if absent
    type(device_type), intent(in), optional :: device

    status = 0
    call lock(lock_of_stores)
    store => waiting
    if (associated(store)) waiting => store%next
    call unlock(lock_of_stores)
    if (.not. associated(store)) allocate (store, stat=status)
    if (status == 0) allocate (store%nodes(0), store%graphs(4), stat=status)
    if (status /= 0) then
      if (associated(store)) call close_store(store)
      store => null()
      return
    end if
    store%serial = next_serial()
    store%opened = store%serial
    store%changes = 0
    store%recording = .true.
    store%n_no_grad = 0
    store%c_order = .false.
    store%dropped = .false.
    store%device = device_type()
    if (present(device)) store%device = device
    store%pool%device = store%device
  end subroutine open_store

  !> Free all that a store has, and let it wait.
  subroutine close_store(store)
    type(store_type), pointer, intent(inout) :: store
    integer :: k

    store%opened = 0
    if (allocated(store%nodes)) then
      call pop_nodes(store, 0)
      do k = 1, size(store%nodes)
        if (associated(store%nodes(k)%node)) deallocate (store%nodes(k)%node)
      end do
      deallocate (store%nodes)
    end if
    call drop_graphs(store)
    if (allocated(store%error)) deallocate (store%error)
    if (allocated(store%kept_memory)) then
      do k = 1, size(store%kept_memory)
        call store%pool%give(store%kept_memory(k))
      end do
      deallocate (store%kept_memory)
    end if
    call store%pool%free()
    call lock(lock_of_stores)
    store%next => waiting
    waiting => store
    call unlock(lock_of_stores)
    store => null()
  end subroutine close_store

  !> Free all nodes after the first `length` ones; their handles are stale from now on.
  subroutine rewind_store(store, length)
    type(store_type), intent(inout) :: store
    integer, intent(in) :: length

    if (store%length > max(length, 0)) store%serial = next_serial()
    call pop_nodes(store, length)
    call drop_unused_graphs(store)
  end subroutine rewind_store

  function next_serial() result(serial)
    integer(int64) :: serial

    serial = added(last_serial, 1_int64)
  end function next_serial

  ! ---- nodes ----

  !> A new node that keeps a copy of the operation if some operand needs a gradient. Null when
  !> memory is short.
  subroutine push_result_of_operation(store, kind, rank, shape, operands, operation, c, z)
    type(store_type), pointer, intent(in) :: store
    integer, intent(in) :: kind, rank
    integer(int64), intent(in) :: shape(max_rank)
    !> Live, or null where absent
    type(array_type), intent(in) :: operands(:)
    class(operation_type), intent(in) :: operation
    !> The result
    type(array_type), intent(out) :: c
    !> Node of the result: the values are to be filled in
    type(node_type), pointer, intent(out) :: z
    integer :: status

    call push_bare_result(store, kind, rank, shape, operands, c, z)
    if (.not. associated(z)) return
    if (.not. z%requires_grad) return
    allocate (z%operation, source=operation, stat=status)
    if (status == 0) return
    call fail(store, code_memory, "tape: not enough memory")
    c = array_type()
    z => null()
  end subroutine push_result_of_operation

  !> A new node that has its operands, but no operation. Null when memory is short.
  subroutine push_bare_result(store, kind, rank, shape, operands, c, z)
    type(store_type), pointer, intent(in) :: store
    integer, intent(in) :: kind, rank
    integer(int64), intent(in) :: shape(max_rank)
    type(array_type), intent(in) :: operands(:)
    type(array_type), intent(out) :: c
    type(node_type), pointer, intent(out) :: z
    integer :: k, status

    call push_leaf(store, kind, rank, shape, c, z)
    if (.not. associated(z) .or. .not. store%recording) return
    do k = 1, size(operands)
      if (operands(k)%id == 0) cycle
      if (.not. store%nodes(operands(k)%id)%node%requires_grad) cycle
      z%requires_grad = .true.
      exit
    end do
    if (.not. z%requires_grad) return
    if (allocated(z%operands)) then
      if (size(z%operands) /= size(operands)) deallocate (z%operands)
    end if
    status = 0
    if (.not. allocated(z%operands)) allocate (z%operands(size(operands)), stat=status)
    if (status /= 0) then
      call fail(store, code_memory, "tape: not enough memory")
      c = array_type()
      z => null()
      return
    end if
    z%operands(:) = operands%id
  end subroutine push_bare_result

  !> A new leaf with room for its values. Null when memory is short.
  subroutine push_leaf(store, kind, rank, shape, c, z)
    type(store_type), pointer, intent(in) :: store
    integer, intent(in) :: kind, rank
    integer(int64), intent(in) :: shape(max_rank)
    type(array_type), intent(out) :: c
    type(node_type), pointer, intent(out) :: z
    logical :: ok

    call push_node(store, kind, rank, shape, c, z)
    if (.not. associated(z)) return
    call store%pool%take(kind, z%size, z%value, ok)
    if (ok) return
    call fail(store, code_memory, "tape: not enough memory for an array "//shape_text(store, z))
    c = array_type()
    z => null()
  end subroutine push_leaf

  !> A new node without values.
  subroutine push_node(store, kind, rank, shape, c, z)
    type(store_type), pointer, intent(in) :: store
    integer, intent(in) :: kind, rank
    integer(int64), intent(in) :: shape(max_rank)
    type(array_type), intent(out) :: c
    type(node_type), pointer, intent(out) :: z
    integer(int64) :: n
    integer :: status, id

    z => null()
    id = store%length + 1
    status = 0
    if (id > max_nodes) then
      call fail(store, code_memory, "tape: full; rewind it after every step")
      return
    else if (store%serial > max_serial) then
      call fail(store, code_memory, "tape: no serials are left in this process")
      return
    end if
    n = size_of(shape)
    if (n < 0) then
      call fail(store, code_value, "tape: no array has such extents")
      return
    end if
    if (id > size(store%nodes)) call enlarge(store%nodes, status)
    if (status == 0) then
      if (.not. associated(store%nodes(id)%node)) allocate (store%nodes(id)%node, stat=status)
    end if
    if (status /= 0) then
      call fail(store, code_memory, "tape: not enough memory for another node")
      return
    end if
    z => store%nodes(id)%node
    store%length = id
    z%serial = store%serial
    z%changes = store%changes
    z%kind = kind
    z%rank = rank
    z%shape = shape
    z%size = n
    z%requires_grad = .false.
    c%store => store
    c%id = id
    c%serial = z%serial
  end subroutine push_node

  !> Number of elements, -1 for extents that no array has.
  pure function size_of(shape) result(n)
    integer(int64), intent(in) :: shape(max_rank)
    integer(int64) :: n

    n = -1
    if (any(shape < 0)) return
    if (any(shape >= small_extent)) then
      if (product(real(shape, dp)) > largest_size) return
    end if
    n = product(shape)
  end function size_of

  !> Twice the room.
  subroutine enlarge(nodes, status)
    type(node_ref), allocatable, intent(inout) :: nodes(:)
    integer, intent(out) :: status
    type(node_ref), allocatable :: larger(:)

    allocate (larger(max(first_room, 2*size(nodes))), stat=status)
    if (status /= 0) return
    larger(:size(nodes)) = nodes
    call move_alloc(larger, nodes)
  end subroutine enlarge

  !> Free all nodes after the first `length` ones, of which nobody has handles.
  subroutine pop_nodes(store, length)
    type(store_type), intent(inout) :: store
    integer, intent(in) :: length
    integer :: id

    do id = store%length, max(length, 0) + 1, -1
      associate (node => store%nodes(id)%node)
        node%serial = 0
        if (allocated(node%operation)) deallocate (node%operation)
        if (allocated(node%name)) deallocate (node%name)
        call store%pool%give(node%value)
        if (node%cotangent%block > 0) call store%pool%give(node%cotangent)
        if (node%grad%block > 0) call store%pool%give(node%grad)
        if (node%saved%block > 0) call store%pool%give(node%saved)
      end associate
    end do
    store%length = min(store%length, max(length, 0))
  end subroutine pop_nodes

end module gnograd_autodiff_store

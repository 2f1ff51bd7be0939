! SPDX-License-Identifier: MIT

!> Graphs that operations of a tape walk. A tape keeps each once, with its copy on the tape's
!> device, from the first operation that uses it until a whole step has gone by without one.
module gnograd_autodiff_graphs
  use, intrinsic :: iso_c_binding, only: c_int, c_loc, c_ptr
  use gnograd_core_kinds, only: int32, int64
  use gnograd_core_error, only: error_type, code_value, code_memory
  use gnograd_core_csc, only: csc_type
  use gnograd_core_graph, only: graph_type, hold, release
  use gnograd_cuda, only: gnograd_cuda_csc, gnograd_cuda_graph
  use gnograd_device, only: device_type, device_error, hold_on_device, release_on_device
  use gnograd_autodiff_array, only: array_type, store_type, kept_graph_type
  use gnograd_autodiff_operands, only: fail, failed
  implicit none
  private
  public :: keep_graph, drop_unused_graphs, drop_graphs

contains

  !> The graph of an operation about to be put on the tape, for as long as its node is there.
  subroutine keep_graph(operands, graph, kept, on_device)
    !> Operands, resolved
    type(array_type), intent(in) :: operands(:)
    type(graph_type), intent(in), target :: graph
    !> Null on error
    type(graph_type), pointer, intent(out) :: kept
    !> Copy of the graph on the device of the tape, empty if that is the host
    type(gnograd_cuda_graph), intent(out) :: on_device
    type(store_type), pointer :: store
    type(kept_graph_type), allocatable :: more(:)
    type(error_type), allocatable :: error
    integer :: k, status

    store => operands(findloc(operands%id > 0, .true., dim=1))%store
    kept => null()
    if (graph%serial == 0) then
      call fail(store, code_value, "graph: init comes first")
      return
    end if
    do k = store%n_graphs, 1, -1
      if (store%graphs(k)%graph%serial == graph%serial) exit
    end do
    if (k == 0) then
      k = store%n_graphs + 1
      if (k > size(store%graphs)) then
        allocate (more(2*size(store%graphs)), stat=status)
        if (status /= 0) then
          call fail(store, code_memory, "graph: not enough memory")
          return
        end if
        more(:k - 1) = store%graphs
        call move_alloc(more, store%graphs)
      end if
      call hold(graph, store%graphs(k)%graph, error)
      if (allocated(error)) then
        call fail(store, error%code, error%message)
        return
      end if
      store%graphs(k)%first = 0
      store%n_graphs = k
      if (store%device%active) then
        call copy_to_tape_device(store, store%graphs(k))
        if (failed(store)) return
      end if
    end if
    associate (entry => store%graphs(k))
      if (entry%first == 0) entry%first = store%length + 1
      entry%used = .true.
      kept => entry%graph
      on_device = entry%on_device
    end associate
  end subroutine keep_graph

  !> Copy a graph to the device of the tape.
  subroutine copy_to_tape_device(store, entry)
    type(store_type), intent(inout) :: store
    type(kept_graph_type), intent(inout) :: entry
    type(error_type), allocatable :: error
    integer(c_int) :: status

    associate (graph => entry%graph)
      entry%on_device%n_src = graph%n_src
      entry%on_device%n_dst = graph%n_dst
      entry%on_device%n_edges = graph%n_edges
      status = 0
      call copy_order(store%device, graph%by_dst, entry%on_device%by_dst, status)
      call copy_order(store%device, graph%by_src, entry%on_device%by_src, status)
    end associate
    call device_error("graph", status, error)
    if (allocated(error)) call fail(store, error%code, error%message)
  end subroutine copy_to_tape_device

  subroutine copy_order(device, order, on_device, status)
    type(device_type), intent(in) :: device
    type(csc_type), intent(in) :: order
    type(gnograd_cuda_csc), intent(inout) :: on_device
    !> Nothing is done after a failure
    integer(c_int), intent(inout) :: status

    call copy_wide(device, order%offsets, on_device%offsets, status)
    call copy_narrow(device, order%indices, on_device%indices, status)
    call copy_wide(device, order%edge, on_device%edge, status)
    call copy_wide(device, order%position, on_device%position, status)
  end subroutine copy_order

  subroutine copy_wide(device, list, memory, status)
    type(device_type), intent(in) :: device
    integer(int64), allocatable, intent(in), target :: list(:)
    type(c_ptr), intent(inout) :: memory
    integer(c_int), intent(inout) :: status

    if (.not. allocated(list) .or. status /= 0) return
    call hold_on_device(device, c_loc(list), 8*size(list, kind=int64), memory, status)
  end subroutine copy_wide

  subroutine copy_narrow(device, list, memory, status)
    type(device_type), intent(in) :: device
    integer(int32), allocatable, intent(in), target :: list(:)
    type(c_ptr), intent(inout) :: memory
    integer(c_int), intent(inout) :: status

    if (.not. allocated(list) .or. status /= 0) return
    call hold_on_device(device, c_loc(list), 4*size(list, kind=int64), memory, status)
  end subroutine copy_narrow

  !> Drop the graphs that no node uses and no operation has used since the last call. The others
  !> stay: the next step is likely to use them again.
  subroutine drop_unused_graphs(store)
    type(store_type), intent(inout) :: store
    type(kept_graph_type) :: kept
    integer :: k, n

    n = 0
    do k = 1, store%n_graphs
      kept = store%graphs(k)
      if (kept%first > store%length) kept%first = 0
      if (kept%first == 0 .and. .not. kept%used) then
        call drop(kept)
        cycle
      end if
      if (kept%first == 0) kept%used = .false.
      n = n + 1
      store%graphs(n) = kept
    end do
    store%n_graphs = n
  end subroutine drop_unused_graphs

  !> Drop all graphs, and the list of them.
  subroutine drop_graphs(store)
    type(store_type), intent(inout) :: store
    integer :: k

    if (.not. allocated(store%graphs)) return
    do k = 1, store%n_graphs
      call drop(store%graphs(k))
    end do
    store%n_graphs = 0
    deallocate (store%graphs)
  end subroutine drop_graphs

  !> Let go of a graph and its copy.
  subroutine drop(entry)
    type(kept_graph_type), intent(inout) :: entry
    !> An empty handle. (gfortran needs all components in a structure constructor)
    type(gnograd_cuda_graph) :: none

    call release(entry%graph)
    call release_order(entry%on_device%by_dst)
    call release_order(entry%on_device%by_src)
    entry%on_device = none

  contains

    subroutine release_order(order)
      type(gnograd_cuda_csc), intent(inout) :: order

      call release_on_device(order%offsets)
      call release_on_device(order%indices)
      call release_on_device(order%edge)
      call release_on_device(order%position)
    end subroutine release_order

  end subroutine drop

end module gnograd_autodiff_graphs

! SPDX-License-Identifier: MIT

!> Work for threads of a host program in a library without OpenMP: stores of tapes come and go, a graph
!> has holders, errors have messages.
module threads
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  use gnograd_core_error, only: error_type, fail, text, code_value
  use gnograd_core_graph, only: graph_type, hold, release, share
  use gnograd_autodiff_array, only: array_type, node_type, store_type, kind_r64
  use gnograd_autodiff_store, only: open_store, close_store, rewind_store, push_leaf
  use gnograd_entries_status, only: status_of, error_of
  implicit none
  private

  type(graph_type), pointer, save :: shared => null()

contains

  subroutine begin() bind(c)
    type(error_type), allocatable :: error

    allocate (shared)
    call shared%init([1, 2], [1], 1, error)
    if (allocated(error)) error stop error%message
    call share(shared)
  end subroutine begin

  !> Number of results that were not as if the thread were alone.
  function work(thread, n_rounds, serials) result(n_wrong) bind(c)
    integer(c_int64_t), value :: thread, n_rounds
    !> Serials of the tapes of this thread
    integer(c_int64_t), intent(out) :: serials(n_rounds)
    integer(c_int64_t) :: n_wrong
    type(store_type), pointer :: store
    type(graph_type), pointer :: held
    type(array_type) :: x
    type(node_type), pointer :: node
    type(error_type), allocatable :: error, found
    integer(c_int64_t) :: round
    integer :: status

    n_wrong = 0
    do round = 1, n_rounds
      call open_store(store, status)
      serials(round) = store%opened
      call push_leaf(store, kind_r64, 1, [3, 1, 1, 1]*1_c_int64_t, x, node)
      node%value%r64(:) = thread
      call hold(shared, held, error)
      call fail(error, code_value, "round "//text(round)//" of thread "//text(thread))
      call error_of(status_of(error), found)
      if (found%message /= error%message) n_wrong = n_wrong + 1
      if (any(node%value%r64(:3) /= thread) .or. store%length /= 1) n_wrong = n_wrong + 1
      call release(held)
      call close_store(store)
    end do
  end function work

  !> True if the first holder is the only one again.
  function end() result(is_last) bind(c)
    integer(c_int) :: is_last
    type(graph_type), pointer :: held
    type(error_type), allocatable :: error

    call hold(shared, held, error)
    is_last = merge(1_c_int, 0_c_int, associated(held, shared) .and. shared%n_edges == 1)
    call release(held)
    call release(shared)
  end function end

end module threads

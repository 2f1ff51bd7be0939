! SPDX-License-Identifier: MIT

!> Plan of the rows that processes send to each other. Owners are found through a directory: a
!> process knows who owns the numbers of one block, and no process knows all. What is sent follows
!> from what others ask for.
module gnograd_mpi_plan
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, text, check_allocation, code_index, code_value
  use gnograd_mpi_communicator, only: communicator_type
  use gnograd_mpi_exchange, only: exchange, starts_of, largest
  use gnograd_mpi_identifiers, only: id_table_type
  implicit none
  private
  public :: make_plan

contains

  !> All processes of the group call it.
  subroutine make_plan(group, owned, rows_of, halo, n_receive, rows, n_send, error)
    class(communicator_type), intent(in) :: group
    !> Numbers of the nodes of this process, and the row of each
    integer(int64), intent(in) :: owned(:)
    class(id_table_type), intent(in) :: rows_of
    !> Numbers of the nodes of others that it needs, ascending; out: by owner, then ascending
    integer(int64), allocatable, intent(inout) :: halo(:)
    !> Nodes of the halo that each process owns [0:size-1]
    integer(int64), allocatable, intent(out) :: n_receive(:)
    !> Rows that others need, in the order of ranks, then of numbers
    integer(int64), allocatable, intent(out) :: rows(:)
    !> Count of rows that go to each process [0:size-1]
    integer(int64), allocatable, intent(out) :: n_send(:)
    type(error_type), allocatable, intent(inout) :: error
    type(id_table_type) :: owner_of
    integer(int64), allocatable :: listed(:), asked(:), owners(:), answers(:), wanted(:)
    integer(int64), dimension(0:group%size - 1) :: n_listed, n_in, n_asked
    integer(int64) :: block, top, k
    integer :: status

    allocate (n_receive(0:group%size - 1), n_send(0:group%size - 1))
    top = 0
    if (size(owned) > 0) top = maxval(owned)
    if (size(halo) > 0) top = max(top, maxval(halo))
    block = largest(group, top)/group%size + 1

    call list_by(owned/block, owned, group%size, n_listed, listed, error)
    call exchange(group, n_listed, listed, n_in, wanted, error)
    if (allocated(error)) return
    call register(n_in, wanted, owner_of, error)

    call list_by(halo/block, halo, group%size, n_listed, listed, error)
    call exchange(group, n_listed, listed, n_asked, asked, error)
    if (allocated(error)) return
    allocate (answers(size(asked, kind=int64)), stat=status)
    call keep_first(status, error)
    if (.not. allocated(error)) then
      do k = 1, size(asked, kind=int64)
        answers(k) = owner_of%place(asked(k)) - 1
      end do
    end if
    call exchange(group, n_asked, answers, n_in, owners, error)
    if (allocated(error)) return
    do k = 1, size(halo, kind=int64)
      if (owners(k) >= 0) cycle
      call fail(error, code_index, "from_local: source "//text(halo(k))//" belongs to no process")
      exit
    end do

    if (allocated(error)) then
      n_receive(:) = 0
    else
      call list_by(owners, halo, group%size, n_receive, listed, error)
      if (.not. allocated(error)) call move_alloc(listed, halo)
    end if
    call exchange(group, n_receive, halo, n_send, wanted, error)
    if (allocated(error)) return
    allocate (rows(size(wanted, kind=int64)), stat=status)
    call keep_first(status, error)
    if (.not. allocated(error)) then
      do k = 1, size(wanted, kind=int64)
        rows(k) = rows_of%place(wanted(k))
      end do
    end if
    call group%agree(error)
  end subroutine make_plan

  !> Numbers in the order of the process that each belongs to, else as they were.
  subroutine list_by(processes, ids, n_processes, counts, listed, error)
    integer(int64), intent(in) :: processes(:), ids(:)
    integer, intent(in) :: n_processes
    integer(int64), intent(out) :: counts(0:)
    integer(int64), allocatable, intent(out) :: listed(:)
    type(error_type), allocatable, intent(inout) :: error
    integer(int64) :: next(0:n_processes - 1), k
    integer :: status

    counts(:) = 0
    if (allocated(error)) return
    allocate (listed(size(ids, kind=int64)), stat=status)
    call keep_first(status, error)
    if (allocated(error)) return
    do k = 1, size(ids, kind=int64)
      counts(processes(k)) = counts(processes(k)) + 1
    end do
    next(:) = starts_of(counts)
    do k = 1, size(ids, kind=int64)
      next(processes(k)) = next(processes(k)) + 1
      listed(next(processes(k))) = ids(k)
    end do
  end subroutine list_by

  !> The part of the directory that this process has: place = rank of the owner + 1.
  subroutine register(counts, ids, owner_of, error)
    integer(int64), intent(in) :: counts(0:), ids(:)
    type(id_table_type), intent(inout) :: owner_of
    type(error_type), allocatable, intent(inout) :: error
    integer(int64) :: k, at, owner
    integer :: p, status
    logical :: found

    call owner_of%init(size(ids, kind=int64), status, ids)
    call keep_first(status, error)
    if (allocated(error)) return
    at = 0
    do p = 0, size(counts) - 1
      do k = at + 1, at + counts(p)
        owner = p + 1
        call owner_of%insert(ids(k), owner, found)
        if (.not. found) cycle
        call fail(error, code_value, "from_local: node "//text(ids(k))//" is owned by process "// &
          & text(owner - 1)//" and by process "//text(int(p, int64)))
        return
      end do
      at = at + counts(p)
    end do
  end subroutine register

  !> An earlier error stays.
  subroutine keep_first(status, error)
    !> Status of an allocation
    integer, intent(in) :: status
    type(error_type), allocatable, intent(inout) :: error

    if (.not. allocated(error)) call check_allocation(status, "from_local", error)
  end subroutine keep_first

end module gnograd_mpi_plan

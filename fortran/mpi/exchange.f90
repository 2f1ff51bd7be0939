! SPDX-License-Identifier: MIT

!> Lists of numbers from every process to every other one, of any length: what plans are made of.
module gnograd_mpi_exchange
  use mpi_f08, only: MPI_INTEGER8, MPI_MAX, MPI_Allreduce, MPI_Alltoall, &
    & MPI_Alltoallv
  use gnograd_core_kinds, only: int64
  use gnograd_core_error, only: error_type, fail, code_memory, code_value
  use gnograd_mpi_communicator, only: communicator_type, does_exchange
  implicit none
  private
  public :: exchange, starts_of, largest

contains

  !> Each process gets what the others have for it, in the order of ranks.
  subroutine exchange(group, n_out, out, n_in, in, error)
    class(communicator_type), intent(in) :: group
    !> Count of numbers that go to each process [0:size-1]
    integer(int64), intent(in) :: n_out(0:)
    !> In the order of ranks; without memory after an error
    integer(int64), allocatable, intent(in) :: out(:)
    !> Count of numbers that came from each process [0:size-1], and the numbers
    integer(int64), intent(out) :: n_in(0:)
    integer(int64), allocatable, intent(out) :: in(:)
    !> One that is there already goes to all processes
    type(error_type), allocatable, intent(inout) :: error
    integer, dimension(0:group%size - 1) :: counts_out, counts_in, starts_out, starts_in
    integer(int64) :: given(0:group%size - 1)
    integer :: status

    given(:) = 0
    if (.not. allocated(error)) given(:) = n_out
    if (group%size == 1) then
      n_in(:) = given
    else
      call MPI_Alltoall(given, 1, MPI_INTEGER8, n_in, 1, MPI_INTEGER8, group%comm)
    end if
    if (.not. allocated(error)) then
      if (max(sum(given), sum(n_in)) > huge(0)) then
        call fail(error, code_value, "from_local: 2^31 nodes or more for one process")
      else
        allocate (in(sum(n_in)), stat=status)
        if (status /= 0) call fail(error, code_memory, "from_local: not enough memory")
      end if
    end if
    call group%meet(does_exchange, error)
    if (allocated(error)) return
    if (group%size == 1) then
      in(:) = out
      return
    end if
    counts_out(:) = int(n_out)
    counts_in(:) = int(n_in)
    starts_out(:) = int(starts_of(n_out))
    starts_in(:) = int(starts_of(n_in))
    call MPI_Alltoallv(out, counts_out, starts_out, MPI_INTEGER8, in, counts_in, starts_in, &
      & MPI_INTEGER8, group%comm)
  end subroutine exchange

  !> Start of each of some lists that lie one behind the other.
  pure function starts_of(counts) result(starts)
    integer(int64), intent(in) :: counts(0:)
    integer(int64) :: starts(0:size(counts) - 1)
    integer :: p

    starts(0) = 0
    do p = 1, size(counts) - 1
      starts(p) = starts(p - 1) + counts(p - 1)
    end do
  end function starts_of

  !> The largest of a number of all processes.
  function largest(group, mine) result(most)
    class(communicator_type), intent(in) :: group
    integer(int64), intent(in) :: mine
    integer(int64) :: most

    most = mine
    if (group%size > 1) call MPI_Allreduce(mine, most, 1, MPI_INTEGER8, MPI_MAX, group%comm)
  end function largest

end module gnograd_mpi_exchange

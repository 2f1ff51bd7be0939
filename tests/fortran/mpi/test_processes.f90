! SPDX-License-Identifier: MIT

!> Sums over processes, and errors of one that become errors of all.
module test_processes
  use mpi_f08, only: MPI_Comm, MPI_COMM_WORLD, MPI_UNDEFINED, MPI_Comm_free, MPI_Comm_split
  use gnograd, only: sp, dp, int64, error_type, tape_type, array_type, sum, operator(*)
  use gnograd_core_error, only: fail, code_index, code_memory
  use gnograd_mpi, only: communicator_type
  use testing, only: test_type, check, check_refused
  implicit none
  private
  public :: processes_tests

contains

  function processes_tests() result(tests)
    type(test_type), allocatable :: tests(:)

    tests = [ &
      & test_type("sums in the order of ranks", test_sums), &
      & test_type("long sums", test_long_sums), &
      & test_type("gradients in one message", test_gradients), &
      & test_type("errors go to all", test_errors), &
      & test_type("all must do the same", test_mismatch), &
      & test_type("a process that belongs to no communicator", test_no_communicator)]
  end function processes_tests

  !> Numbers whose sum depends on the order in which they are added.
  elemental function number(rank, k) result(x)
    integer, intent(in) :: rank
    integer(int64), intent(in) :: k
    real(dp) :: x

    x = sin(0.7_dp*k + 3*rank)*10.0_dp**mod(k + 5*rank, 7_int64)
  end function number

  subroutine test_sums(error)
    type(error_type), allocatable, intent(out) :: error
    type(communicator_type) :: all
    real(dp) :: one, vector(5), matrix(2, 3), none(0)
    real(sp) :: single(4)
    integer(int64) :: k

    call all%init(MPI_COMM_WORLD, error)
    one = number(all%rank, 1_int64)
    vector = number(all%rank, [(k, k=1, 5)])
    matrix = reshape(number(all%rank, [(k, k=1, 6)]), [2, 3])
    single = real(number(all%rank, [(k, k=1, 4)]), sp)
    call all%sum(one, error)
    call all%sum(vector, error)
    call all%sum(matrix, error)
    call all%sum(single, error)
    call all%sum(none, error)
    if (allocated(error)) return
    call check(error, vector(2) == ordered(2_int64), "a vector")
    call check(error, one == ordered(1_int64) .and. matrix(2, 3) == ordered(6_int64), "others")
    call check(error, abs(single(3) - ordered(3_int64)) < 1e-6*10.0**7, "real32")

  contains

    pure function ordered(k) result(total)
      integer(int64), intent(in) :: k
      real(dp) :: total
      integer :: rank

      total = number(0, k)
      do rank = 1, all%size - 1
        total = total + number(rank, k)
      end do
    end function ordered

  end subroutine test_sums

  !> Many numbers take another way; the bits are those of the order of ranks all the same.
  subroutine test_long_sums(error)
    type(error_type), allocatable, intent(out) :: error
    integer(int64), parameter :: lengths(4) = [5461_int64, 16384_int64, 20001_int64, 4200001_int64]
    type(communicator_type) :: all
    real(dp), allocatable :: x(:), total(:)
    real(sp), allocatable :: y(:)
    integer(int64) :: k
    integer :: i, rank

    call all%init(MPI_COMM_WORLD, error)
    do i = 1, size(lengths)
      x = number(all%rank, [(k, k=1, lengths(i))])
      y = real(x, sp)
      total = number(0, [(k, k=1, lengths(i))])
      do rank = 1, all%size - 1
        total = total + number(rank, [(k, k=1, lengths(i))])
      end do
      call all%sum(x, error)
      call all%sum(y, error)
      if (allocated(error)) return
      call check(error, all_equal(x, total), "real64")
      call check(error, maxval(abs(y - total)) < 1e-6_dp*10.0_dp**7, "real32")
    end do

  contains

    function all_equal(a, b)
      real(dp), intent(in) :: a(:), b(:)
      logical :: all_equal

      all_equal = maxval(abs(a - b)) == 0
    end function all_equal

  end subroutine test_long_sums

  subroutine test_gradients(error)
    type(error_type), allocatable, intent(out) :: error
    type(communicator_type) :: all
    type(tape_type) :: tape
    type(array_type) :: w(4), loss
    real(dp) :: a, p
    real(dp), allocatable :: b(:), unused(:)
    real(sp), allocatable :: c(:)

    call all%init(MPI_COMM_WORLD, error)
    if (.not. allocated(error)) call tape%init(error)
    if (allocated(error)) return
    w(1) = tape%parameter(2.0_dp)
    w(2) = tape%parameter([1.0_dp, 2.0_dp])
    w(3) = tape%parameter([1.0_sp, 2.0_sp, 3.0_sp])
    w(4) = tape%parameter([1.0_dp])
    p = all%rank + 1
    loss = w(1)*sum(w(2)*tape%constant([p, p*p]))
    call tape%backward(loss, error)
    call all%sum_gradients(w, error)
    if (allocated(error)) return
    call w(1)%grad(a)
    call w(2)%grad(b)
    call w(3)%grad(c)
    call w(4)%grad(unused)
    associate (n => all%size)
      call check(error, a == n*(n + 1)/2 + 2*(n*(n + 1)*(2*n + 1)/6), "a number")
      call check(error, all_of(b == [n*(n + 1), 2*(n*(n + 1)*(2*n + 1)/6)]), "a vector")
      call check(error, all_of(real(c, dp) == 0) .and. all_of(unused == 0), "no gradients")
    end associate
    ! with a parameter of the other kind
    loss = sum(w(3)*tape%constant([1.0_sp, 1.0_sp, real(p, sp)]))
    call tape%backward(loss, error)
    call all%sum_gradients(w(3:3), error)
    if (allocated(error)) return
    call w(3)%grad(c)
    call check(error, all_of(c == [all%size, all%size, all%size*(all%size + 1)/2]), "real32")

  contains

    pure logical function all_of(these)
      logical, intent(in) :: these(:)

      all_of = count(these) == size(these)
    end function all_of

  end subroutine test_gradients

  subroutine test_errors(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(communicator_type) :: all, none
    type(tape_type) :: tape
    type(array_type) :: w, loss
    real(dp) :: x(2)
    real(dp), allocatable :: slope(:)
    character(len=2000) :: long
    integer :: last

    call none%agree(raised)
    call check_refused(error, raised, "agree: the communicator, or the graph, comes first (init)")
    deallocate (raised)
    call all%init(MPI_COMM_WORLD, raised)
    last = all%size - 1
    call all%agree(raised)
    call check(error, .not. allocated(raised), "no error")
    ! all have the error of the first one
    call fail(raised, code_memory, "no memory")
    if (all%rank < last) deallocate (raised)
    call all%agree(raised)
    call check(error, index(raised%message, "no memory") == 1, raised%message)
    call check(error, raised%code == code_memory, "code")
    ! known to all: nobody waits for the others
    call all%agree(raised)
    call check(error, len(raised%message) <= len("no memory (on process 7)"), raised%message)
    deallocate (raised)
    long = repeat("text ", 400)
    if (all%rank == last) call fail(raised, code_index, long)
    x = 1
    call all%sum(x, raised)
    call check(error, index(raised%message, "text text") == 1, "a long message")
    call check(error, all%size == 1 .or. index(raised%message, "(on process") > 900, "whose it is")
    deallocate (raised)

    ! a tape that failed on one process
    call tape%init(error)
    w = tape%parameter([1.0_dp, 2.0_dp])
    loss = sum(w*w)
    if (all%rank == last) loss = sum(w*tape%constant([1.0_dp, 2.0_dp, 3.0_dp]))
    call tape%backward(loss, raised)
    call check(error, allocated(raised) .eqv. all%rank == last, "backward")
    call all%sum_gradients([w], raised)
    call check(error, allocated(raised), "sum_gradients")
    if (allocated(error)) return
    call check(error, index(raised%message, "multiply: shapes") == 1, raised%message)
    call tape%clear_error()
    deallocate (raised)
    ! gradients of the other processes are gone, too: a step along a part of a sum is none
    call w%grad(slope, raised)
    call check(error, .not. any(abs(slope) > 0), "a part of the sum of gradients")

    ! an array that is no parameter
    call all%sum_gradients([w*w], raised)
    call check(error, index(raised%message, "sum_gradients: an array is no parameter") == 1, &
      & raised%message)
  end subroutine test_errors

  subroutine test_mismatch(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(communicator_type) :: all
    real(dp) :: x(3)
    real(sp) :: y(3)

    call all%init(MPI_COMM_WORLD, error)
    if (all%size == 1) return
    x = 1
    y = 1
    call all%sum(x(:merge(2, 3, all%rank == 0)), raised)
    call check_refused(error, raised, "sum: 2 numbers on one process, 3 on another")
    deallocate (raised)
    if (all%rank == 0) then
      call all%sum(x, raised)
    else
      call all%sum(y, raised)
    end if
    call check_refused(error, raised, "sum: real32 on one process, real64 on another")
    deallocate (raised)
    if (all%rank == 0) then
      call all%sum(x, raised)
    else
      call all%agree(raised)
    end if
    call check_refused(error, raised, "the processes do different things: agree and sum")
  end subroutine test_mismatch

  !> MPI_Comm_split leaves out a process without a colour.
  subroutine test_no_communicator(error)
    type(error_type), allocatable, intent(out) :: error
    type(error_type), allocatable :: raised
    type(communicator_type) :: all, others
    type(MPI_Comm) :: part

    call all%init(MPI_COMM_WORLD, error)
    if (allocated(error)) return
    call MPI_Comm_split(MPI_COMM_WORLD, merge(MPI_UNDEFINED, 0, all%rank == 0), 0, part)
    call others%init(part, raised)
    if (all%rank == 0) then
      call check_refused(error, raised, "communicator: this process is not in it "// &
        & "(MPI_COMM_NULL, as MPI_Comm_split gives to a process without a colour)")
    else
      call check(error, .not. allocated(raised) .and. others%size == all%size - 1, "the others")
      call MPI_Comm_free(part)
    end if
  end subroutine test_no_communicator

end module test_processes

! SPDX-License-Identifier: MIT

!> Number of threads that the kernels use: a setting of the process, read at the start of each
!> kernel. No result depends on it.
module gnograd_core_threads
  use, intrinsic :: iso_c_binding, only: c_int
  use gnograd_core_kinds, only: int64
  use gnograd_core_process, only: read_number, write_number
  !$ use omp_lib, only: omp_get_max_threads, omp_get_thread_num, omp_get_num_procs, &
  !$ & omp_get_thread_limit
  implicit none
  private
  public :: n_threads, steady_n_threads, set_n_threads, this_thread, most_threads

  !> 0: OMP_NUM_THREADS, or as many as there are processors
  integer(int64), save :: chosen = 0

  interface
    !> Threads by default, from what OpenMP would take; beside other work one more (core/default_threads.c)
    function default_threads(threads) result(n) bind(c, name="gnograd_default_threads")
      import :: c_int
      integer(c_int), value :: threads
      integer(c_int) :: n
    end function default_threads

    !> Threads by default on a quiet machine
    function steady_threads(threads) result(n) bind(c, name="gnograd_steady_threads")
      import :: c_int
      integer(c_int), value :: threads
      integer(c_int) :: n
    end function steady_threads
  end interface

contains

  !> Threads for the next parallel region of a kernel.
  function n_threads() result(n)
    integer :: n

    n = int(read_number(chosen))
    if (n == 0) then
      n = 1
      !$ n = possible(int(default_threads(omp_get_max_threads())))
    end if
  end function n_threads

  !> Threads that have been asked for, or that are the default on a quiet machine.
  function steady_n_threads() result(n)
    integer :: n

    n = int(read_number(chosen))
    if (n == 0) then
      n = 1
      !$ n = possible(int(steady_threads(omp_get_max_threads())))
    end if
  end function steady_n_threads

  !> No more threads than a process can have, whatever OMP_NUM_THREADS says.
  function possible(n)
    integer, intent(in) :: n
    integer :: possible

    possible = n
    if (n > 64) possible = min(n, most_threads())
  end function possible

  !> Number of the calling thread in its parallel region, from 0.
  function this_thread() result(n)
    integer :: n

    n = 0
    !$ n = omp_get_thread_num()
  end function this_thread

  !> Threads that may be asked for: four a processor, or 64 if that is more, and what OpenMP allows.
  !> OpenMP's runtime would end a process that asks for more than it can have.
  function most_threads() result(n)
    integer :: n

    n = 1
    !$ n = min(max(64, 4*omp_get_num_procs()), omp_get_thread_limit())
  end function most_threads

  !> Use n threads from now on, most_threads() at most; 0 returns the choice to OpenMP.
  subroutine set_n_threads(n)
    integer, intent(in) :: n

    call write_number(chosen, int(min(max(n, 0), most_threads()), int64))
  end subroutine set_n_threads

end module gnograd_core_threads

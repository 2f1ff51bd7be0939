! SPDX-License-Identifier: MIT

!> How many threads the kernels use. A setting of the process, read at the start of each kernel;
!> no result depends on it.
module gnograd_core_threads
  !$ use omp_lib, only: omp_get_max_threads, omp_get_thread_num
  implicit none
  private
  public :: n_threads, set_n_threads, this_thread

  !> 0: as OpenMP decides (OMP_NUM_THREADS, or all cores)
  integer, save :: chosen = 0

contains

  !> Threads for the next parallel region of a kernel.
  function n_threads() result(n)
    integer :: n

    !$omp atomic read
    n = chosen
    if (n == 0) then
      n = 1
      !$ n = omp_get_max_threads()
    end if
  end function n_threads

  !> Number of the calling thread in its parallel region, from 0.
  function this_thread() result(n)
    integer :: n

    n = 0
    !$ n = omp_get_thread_num()
  end function this_thread

  !> Use n threads from now on; 0 returns the choice to OpenMP.
  subroutine set_n_threads(n)
    integer, intent(in) :: n

    !$omp atomic write
    chosen = max(n, 0)
  end subroutine set_n_threads

end module gnograd_core_threads

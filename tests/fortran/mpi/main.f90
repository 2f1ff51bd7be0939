! SPDX-License-Identifier: MIT

!> Runs the tests of gnograd_mpi on any number of processes: gnograd_mpi_tester [SUITE]
program main
  use mpi_f08, only: MPI_Init, MPI_Finalize
  use gnograd_mpi, only: communicator_type
  use problem, only: run_tests
  use testing, only: test_type
  use test_plan, only: plan_tests
  use test_halo, only: halo_tests
  use test_processes, only: processes_tests
  use test_tape, only: tape_tests
  use test_tape_errors, only: tape_error_tests
  implicit none
  character(len=100) :: only_suite
  integer :: n_failed

  n_failed = 0
  call MPI_Init()
  call get_command_argument(1, only_suite)
  call run("processes", processes_tests())
  call run("plan", plan_tests())
  call run("halo", halo_tests())
  call run("tape", tape_tests())
  call run("errors on the tape of one process", tape_error_tests())
  call MPI_Finalize()
  if (n_failed > 0) error stop 1

contains

  subroutine run(suite, tests)
    character(len=*), intent(in) :: suite
    type(test_type), intent(in) :: tests(:)

    if (only_suite == "" .or. only_suite == suite) call run_tests(suite, tests, n_failed)
  end subroutine run

end program main

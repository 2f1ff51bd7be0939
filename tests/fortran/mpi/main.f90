! SPDX-License-Identifier: MIT

!> Runs the tests of gnograd_mpi on any number of processes.
program main
  use mpi_f08, only: MPI_Init, MPI_Finalize
  use gnograd_mpi, only: communicator_type
  use problem, only: run_tests
  use test_plan, only: plan_tests
  use test_halo, only: halo_tests
  use test_processes, only: processes_tests
  use test_tape, only: tape_tests
  use test_tape_errors, only: tape_error_tests
  implicit none
  integer :: n_failed

  n_failed = 0
  call MPI_Init()
  call run_tests("processes", processes_tests(), n_failed)
  call run_tests("plan", plan_tests(), n_failed)
  call run_tests("halo", halo_tests(), n_failed)
  call run_tests("tape", tape_tests(), n_failed)
  call run_tests("errors on the tape of one process", tape_error_tests(), n_failed)
  call MPI_Finalize()
  if (n_failed > 0) error stop 1
end program main

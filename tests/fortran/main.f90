! SPDX-License-Identifier: MIT

!> Runs the tests: gnograd_tester [SUITE [TEST]]
program main
  use testing, only: test_type, run_suite
  use test_core, only: core_tests
  use test_graphs, only: graphs_tests
  use test_autodiff, only: autodiff_tests
  use test_tape, only: tape_tests
  use test_linear_map, only: linear_map_tests
  use test_expressions, only: expressions_tests
  use test_training, only: training_tests
  use test_layers, only: layers_tests
  use test_evaluate, only: evaluate_tests
  use test_samples, only: samples_tests
  use test_loop, only: loop_tests
  use test_weights, only: weights_tests
  use test_dimenet, only: dimenet_tests
  use test_aggregation, only: aggregation_tests
  use test_elementary, only: elementary_tests
  use test_nsa, only: nsa_tests
  use test_traps, only: traps_tests
  use test_laws, only: laws_tests
  use test_operators, only: operators_tests
  implicit none
  character(len=100) :: only_suite, only_test
  integer :: n_run, n_failed

  ! equal numbers in every run: differences must not straddle the kink of relu
  call random_init(repeatable=.true., image_distinct=.false.)
  n_run = 0
  n_failed = 0
  call get_command_argument(1, only_suite)
  call get_command_argument(2, only_test)
  call run("core", core_tests())
  call run("graphs", graphs_tests())
  call run("autodiff", autodiff_tests())
  call run("tape", tape_tests())
  call run("linear_map", linear_map_tests())
  call run("expressions", expressions_tests())
  call run("training", training_tests())
  call run("weights", weights_tests())
  call run("aggregation", aggregation_tests())
  call run("dimenet", dimenet_tests())
  call run("nsa", nsa_tests())
  call run("layers", layers_tests())
  call run("evaluate", evaluate_tests())
  call run("samples", samples_tests())
  call run("loop", loop_tests())
  call run("elementary", elementary_tests())
  call run("traps", traps_tests())
  call run("laws", laws_tests())
  call run("operators", operators_tests())

  if (n_run == 0) error stop "no such test"
  if (n_failed > 0) error stop 1

contains

  subroutine run(suite, tests)
    character(len=*), intent(in) :: suite
    type(test_type), intent(in) :: tests(:)

    if (only_suite == "" .or. only_suite == suite) call run_suite(suite, tests, trim(only_test), &
      & n_run, n_failed)
  end subroutine run

end program main

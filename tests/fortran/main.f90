! SPDX-License-Identifier: MIT

!> Runs the tests: gnograd_tester [SUITE [TEST]]
program main
  use testing, only: run_suite
  use test_core, only: core_tests
  use test_graphs, only: graphs_tests
  use test_autodiff, only: autodiff_tests
  use test_linear_map, only: linear_map_tests
  use test_expressions, only: expressions_tests
  use test_training, only: training_tests
  use test_layers, only: layers_tests
  use test_weights, only: weights_tests
  use test_dimenet, only: dimenet_tests
  use test_edge_mlp, only: edge_mlp_tests
  use test_gno_jets, only: gno_jets_tests
  use test_gno_kernel, only: gno_kernel_tests
  use test_aggregation, only: aggregation_tests
  use test_relational, only: relational_tests
  use test_edge_updates, only: edge_updates_tests
  use test_attention, only: attention_tests
  use test_gno, only: gno_tests
  use test_elementary, only: elementary_tests
  use test_edge_softmax, only: edge_softmax_tests
  use test_moments, only: moments_tests
  use test_gno_deep, only: gno_deep_tests
  use test_dense, only: dense_tests
  use test_nsa, only: nsa_tests
  use test_traps, only: traps_tests
  use test_laws, only: laws_tests
  implicit none
  character(len=100) :: only_suite, only_test
  integer :: n_run, n_failed

  ! equal numbers in every run: differences must not straddle the kink of relu
  call random_init(repeatable=.true., image_distinct=.false.)
  n_run = 0
  n_failed = 0
  call get_command_argument(1, only_suite)
  call get_command_argument(2, only_test)
  if (wanted("core")) call run_suite("core", core_tests(), trim(only_test), n_run, n_failed)
  if (wanted("graphs")) call run_suite("graphs", graphs_tests(), trim(only_test), n_run, n_failed)
  if (wanted("autodiff")) call run_suite("autodiff", autodiff_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("linear_map")) call run_suite("linear_map", linear_map_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("expressions")) call run_suite("expressions", expressions_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("training")) call run_suite("training", training_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("weights")) call run_suite("weights", weights_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("aggregation")) call run_suite("aggregation", aggregation_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("relational")) call run_suite("relational", relational_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("edge_updates")) call run_suite("edge_updates", edge_updates_tests(), &
    & trim(only_test), n_run, n_failed)
  if (wanted("attention")) call run_suite("attention", attention_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("gno")) call run_suite("gno", gno_tests(), trim(only_test), n_run, n_failed)
  if (wanted("gno_kernel")) call run_suite("gno_kernel", gno_kernel_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("edge_mlp")) call run_suite("edge_mlp", edge_mlp_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("gno_jets")) call run_suite("gno_jets", gno_jets_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("dimenet")) call run_suite("dimenet", dimenet_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("dense")) call run_suite("dense", dense_tests(), trim(only_test), n_run, n_failed)
  if (wanted("nsa")) call run_suite("nsa", nsa_tests(), trim(only_test), n_run, n_failed)
  if (wanted("edge_softmax")) call run_suite("edge_softmax", edge_softmax_tests(), &
    & trim(only_test), n_run, n_failed)
  if (wanted("moments")) call run_suite("moments", moments_tests(), trim(only_test), n_run, n_failed)
  if (wanted("gno_deep")) call run_suite("gno_deep", gno_deep_tests(), trim(only_test), n_run, &
    & n_failed)
  if (wanted("layers")) call run_suite("layers", layers_tests(), trim(only_test), n_run, n_failed)
  if (wanted("elementary")) call run_suite("elementary", elementary_tests(), trim(only_test), &
    & n_run, n_failed)
  if (wanted("traps")) call run_suite("traps", traps_tests(), trim(only_test), n_run, n_failed)
  if (wanted("laws")) call run_suite("laws", laws_tests(), trim(only_test), n_run, n_failed)

  if (n_run == 0) error stop "no such test"
  if (n_failed > 0) error stop 1

contains

  logical function wanted(suite)
    character(len=*), intent(in) :: suite

    wanted = only_suite == "" .or. only_suite == suite
  end function wanted

end program main

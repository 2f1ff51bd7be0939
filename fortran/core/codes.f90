! SPDX-License-Identifier: MIT

!> Static codes: the same numbers in Fortran, C, CUDA and Python.
module gnograd_core_codes
  implicit none
  public

  !> Activations of the GNO kernel network
  integer, parameter :: act_relu = 0, act_gelu = 1, act_silu = 2, act_tanh = 3, act_sin = 4, &
    & act_identity = 5

  !> Reductions over the edges of a destination
  integer, parameter :: reduce_sum = 0, reduce_mean = 1, reduce_min = 2, reduce_max = 3

  !> Forms of the GNO kernel: a matrix an edge, or a diagonal
  integer, parameter :: kernel_full = 0, kernel_diagonal = 1

  !> Activations of attention scores
  integer, parameter :: score_leaky_relu = 0, score_elu = 1, score_linear = 2, score_relu = 3, &
    & score_scalar = 4, score_sigmoid = 5, score_tanh = 6

  !> Triplets k -> j -> i with k = i that DimeNet leaves out: those that turn back on the same
  !> edge, all, none
  integer, parameter :: exclude_reverse_edge = 0, exclude_same_node = 1, exclude_none = 2
end module gnograd_core_codes
